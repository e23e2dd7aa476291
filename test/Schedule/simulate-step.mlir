// Prints the timeline of a step and changes nothing. On this device a kernel takes
// 100 us, a collective 150, and neither slows the other.
// RUN: fusion-opt %s --split-input-file --fusion-simulate-step="device=%S/Inputs/round.json" 2>&1 | FileCheck %s
// RUN: not fusion-opt %s --split-input-file --fusion-simulate-step="ranks=8" 2>&1 | FileCheck %s --check-prefix=RANKS
// RANKS: error: the program is for 2 ranks, --simulate asks for 8: give --mesh
// RUN: not fusion-opt %s --split-input-file --fusion-simulate-step="function=other" 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: {{.*}}no graph @other to simulate: stop before it becomes a program

// One after the other: 100 + 150 + 100.
// CHECK: remark: @main on 2 x {{.*}}: step 350.0 us: computation 200.0, communication 150.0, exposed 150.0 (42.9 %)
fusion.mesh @m(dp = 2)
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %g = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
    %0 = fusion.exp %a : tensor<4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  %s = fusion.all_reduce sum, %g on @m[dp] : tensor<4xf32>
  %h = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
    %0 = fusion.neg %a : tensor<4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  return %s, %h : tensor<4xf32>, tensor<4xf32>
}

// -----

// Beside the second kernel: it hides 100 of the 150.
// CHECK: remark: @main on 2 x {{.*}}: step 250.0 us: computation 200.0, communication 150.0, exposed 50.0 (20.0 %)
// CHECK: exposed 50.0 us at 200.0
fusion.mesh @m(dp = 2)
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %g = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
    %0 = fusion.exp %a : tensor<4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  %f = fusion.async stream = 1 -> tensor<4xf32> {
    %s = fusion.all_reduce sum, %g on @m[dp] : tensor<4xf32>
    fusion.yield %s : tensor<4xf32>
  }
  %h = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
    %0 = fusion.neg %a : tensor<4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  %s = fusion.await %f : !fusion.future<tensor<4xf32>>
  return %s, %h : tensor<4xf32>, tensor<4xf32>
}

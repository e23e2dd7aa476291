// A product that leaves 8 of 100 multiprocessors takes 100 / 92 of its time, and
// what is sent beside it slows it no more.
// RUN: fusion-opt %s --fusion-share-units=device=%S/Inputs/shared-units.json --fusion-simulate-step="device=%S/Inputs/shared-units.json" 2>&1 | FileCheck %s
// RUN: fusion-opt %s --fusion-simulate-step="device=%S/Inputs/shared-units.json" 2>&1 | FileCheck %s --check-prefix=ALL

// 2 * 12800 * 100 * 256 operations at 1e9 a second are 655,360 us, 100 tiles.
// CHECK: remark: @main on 2 x {{.*}}: step 712347.8 us: computation 712347.8
// ALL: remark: @main on 2 x {{.*}}: step 655360.0 us: computation 655360.0
fusion.mesh @m(tp = 2)
func.func @main(%x: tensor<12800x100xf32>, %w: tensor<100x256xf32>, %s: tensor<100xf32>) -> (tensor<12800x256xf32>, tensor<100xf32>) {
  %f = fusion.async stream = 3 -> tensor<100xf32> {
    %0 = fusion.collective_permute %s sources = [0, 1] targets = [1, 0] on @m[tp] : tensor<100xf32>
    fusion.yield %0 : tensor<100xf32>
  }
  %g = fusion.group library (%a = %x : tensor<12800x100xf32>, %b = %w : tensor<100x256xf32>) -> tensor<12800x256xf32> attributes {fusion.call = {op = "matmul", operands = array<i64: 0, 1, 2>}} {
    %0 = fusion.matmul %a, %b : tensor<12800x100xf32>, tensor<100x256xf32>
    fusion.yield %0 : tensor<12800x256xf32>
  }
  %r = fusion.await %f : !fusion.future<tensor<100xf32>>
  return %g, %r : tensor<12800x256xf32>, tensor<100xf32>
}

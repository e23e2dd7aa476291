// RUN: fusion-opt %s --split-input-file --fusion-overlap-collectives=device=%S/Inputs/round.json | FileCheck %s --enable-var-scope
// RUN: fusion-opt %s --split-input-file --fusion-overlap-collectives=device=%S/Inputs/round.json --remarks-filter=fusion -o %t.once 2>&1 | FileCheck %s --check-prefix=REMARK
// Twice is once.
// RUN: fusion-opt %s --split-input-file --fusion-overlap-collectives=device=%S/Inputs/round.json --fusion-overlap-collectives=device=%S/Inputs/round.json -o %t.twice
// RUN: diff %t.once %t.twice
// Where kernels and collectives use one link, one after the other is faster.
// RUN: fusion-opt %s --split-input-file --fusion-overlap-collectives=device=%S/Inputs/pcie.json --remarks-filter=fusion 2>&1 | FileCheck %s --check-prefix=PCIE

// On this device a kernel takes 100 us and a collective 150. A gradient's sum starts
// when the gradient is there, beside the next kernel, and is awaited by its first
// reader, though the program has it in front of the others.
// CHECK-LABEL: func.func @main
// CHECK:       [[G:%.*]] = fusion.group
// CHECK:       [[F:%.*]] = fusion.async stream = 1 -> tensor<4xf32> {
// CHECK-NEXT:    [[S:%.*]] = fusion.all_reduce sum, [[G]]
// CHECK-NEXT:    fusion.yield [[S]]
// CHECK:       fusion.group
// CHECK:       fusion.neg
// CHECK:       fusion.group
// CHECK:       fusion.sqrt
// CHECK:       [[A:%.*]] = fusion.await [[F]]
// CHECK-NEXT:  fusion.group loop (%{{.*}} = [[A]] :
// REMARK:      [Passed] overlap-collective{{.*}}Remark="runs beside computation", stream=1, us=150.00, us_end=250.00, us_exposed=0.00, us_start=100.00
// REMARK:      [Passed] overlap |{{.*}}us_exposed=0.00, us_overlapped=400.00, us_serial=550.00
// PCIE:        [Missed] overlap-serial{{.*}}one after the other is predicted faster: kernels and collectives use one link", us_overlapped={{.*}}, us_serial=550.00
// PCIE-NOT:    fusion.async
fusion.mesh @m(dp = 2)
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %g = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
    %0 = fusion.exp %a : tensor<4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  %s = fusion.all_reduce sum, %g on @m[dp] : tensor<4xf32>
  %u = fusion.group loop (%a = %s : tensor<4xf32>) -> tensor<4xf32> {
    %0 = fusion.log %a : tensor<4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  %h = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
    %0 = fusion.neg %a : tensor<4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  %i = fusion.group loop (%a = %h : tensor<4xf32>) -> tensor<4xf32> {
    %0 = fusion.sqrt %a : tensor<4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  return %u, %i : tensor<4xf32>, tensor<4xf32>
}

// -----

// Nothing can be computed beside it: it stays a command of the compute stream.
// CHECK-LABEL: func.func @main
// CHECK-NOT:   fusion.async
// CHECK:       fusion.all_reduce
// CHECK-NOT:   fusion.async
// REMARK:      [Missed] overlap-serial{{.*}}no computation can go on beside a collective", us_overlapped=350.00, us_serial=350.00
fusion.mesh @m(dp = 2)
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %g = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
    %0 = fusion.exp %a : tensor<4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  %s = fusion.all_reduce sum, %g on @m[dp] : tensor<4xf32>
  %u = fusion.group loop (%a = %s : tensor<4xf32>) -> tensor<4xf32> {
    %0 = fusion.exp %a : tensor<4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  return %u : tensor<4xf32>
}

// -----

// Collectives start in the order in which they are ready, not in that of the
// program; both are awaited behind all other kernels. What is returned is awaited
// at the end.
// CHECK-LABEL: func.func @main
// CHECK:       fusion.exp
// CHECK:       fusion.async stream = 1
// CHECK-NEXT:    fusion.all_reduce mean
// CHECK:       fusion.neg
// CHECK:       fusion.async stream = 1
// CHECK-NEXT:    fusion.reduce_scatter sum
// CHECK:       fusion.sqrt
// CHECK:       [[A:%.*]] = fusion.await
// CHECK-NEXT:  [[B:%.*]] = fusion.await
// CHECK-NEXT:  return [[B]], [[A]],
fusion.mesh @m(dp = 2)
func.func @main(%x: tensor<4xf32>) -> (tensor<2xf32>, tensor<4xf32>, tensor<4xf32>) {
  %g = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
    %0 = fusion.exp %a : tensor<4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  %h = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
    %0 = fusion.neg %a : tensor<4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  %s = fusion.reduce_scatter sum, %h dim = 0 on @m[dp] : (tensor<4xf32>) -> tensor<2xf32>
  %t = fusion.all_reduce mean, %g on @m[dp] : tensor<4xf32>
  %i = fusion.group loop (%a = %h : tensor<4xf32>) -> tensor<4xf32> {
    %0 = fusion.sqrt %a : tensor<4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  return %s, %t, %i : tensor<2xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// A collective that only another one reads is awaited in that one's region: stream
// 0 goes on. A reshape between them moves along.
// CHECK-LABEL: func.func @main
// CHECK:       [[F:%.*]] = fusion.async stream = 1
// CHECK-NEXT:    fusion.reduce_scatter
// CHECK:       [[E:%.*]] = fusion.async stream = 2
// CHECK-NEXT:    [[P:%.*]] = fusion.await [[F]]
// CHECK-NEXT:    fusion.all_gather [[P]]
// CHECK:       fusion.neg
// CHECK:       fusion.sqrt
// CHECK:       fusion.await [[E]]
// CHECK-NEXT:  fusion.group
fusion.mesh @m(dp = 2)
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %g = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
    %0 = fusion.exp %a : tensor<4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  %s = fusion.reduce_scatter sum, %g dim = 0 on @m[dp] : (tensor<4xf32>) -> tensor<2xf32>
  %t = fusion.all_gather %s dim = 0 on @m[dp] : (tensor<2xf32>) -> tensor<4xf32>
  %u = fusion.group loop (%a = %t : tensor<4xf32>) -> tensor<4xf32> {
    %0 = fusion.log %a : tensor<4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  %h = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
    %0 = fusion.neg %a : tensor<4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  %i = fusion.group loop (%a = %h : tensor<4xf32>) -> tensor<4xf32> {
    %0 = fusion.sqrt %a : tensor<4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  return %u, %i : tensor<4xf32>, tensor<4xf32>
}

// -----

// An op with effects of its own may communicate: what is started before it is
// awaited there, and nothing behind it starts earlier.
// CHECK-LABEL: func.func @main
// CHECK:       fusion.exp
// CHECK:       [[F:%.*]] = fusion.async
// CHECK:       fusion.neg
// CHECK:       fusion.await [[F]]
// CHECK-NEXT:  fusion.kernel_call
// CHECK:       fusion.async
// CHECK:       fusion.sqrt
fusion.mesh @m(dp = 2)
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %g = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
    %0 = fusion.exp %a : tensor<4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  %s = fusion.all_reduce sum, %g on @m[dp] : tensor<4xf32>
  %h = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
    %0 = fusion.neg %a : tensor<4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  %k = fusion.kernel_call "c" "talk" "void talk(const float *x, float *y, long b) { }" (%h) flops = 0 bytes = 0 {side_effects} : (tensor<4xf32>) -> tensor<4xf32>
  %t = fusion.all_reduce sum, %h on @m[dp] : tensor<4xf32>
  %i = fusion.group loop (%a = %k : tensor<4xf32>) -> tensor<4xf32> {
    %0 = fusion.sqrt %a : tensor<4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  return %s, %t, %i : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// Of kernels that wait for sums, the one whose sum comes first goes first, though
// the program has it last.
// CHECK-LABEL: func.func @main
// CHECK:       fusion.log
// CHECK:       fusion.abs
// CHECK:       return
fusion.mesh @m(dp = 2)
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %g = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
    %0 = fusion.exp %a : tensor<4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  %h = fusion.group loop (%a = %g : tensor<4xf32>) -> tensor<4xf32> {
    %0 = fusion.neg %a : tensor<4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  %t = fusion.all_reduce sum, %h on @m[dp] : tensor<4xf32>
  %s = fusion.all_reduce sum, %g on @m[dp] {fusion.bucket = 3 : i64} : tensor<4xf32>
  %i = fusion.group loop (%a = %h : tensor<4xf32>) -> tensor<4xf32> {
    %0 = fusion.sqrt %a : tensor<4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  %u = fusion.group loop (%a = %t : tensor<4xf32>) -> tensor<4xf32> {
    %0 = fusion.abs %a : tensor<4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  %v = fusion.group loop (%a = %s : tensor<4xf32>) -> tensor<4xf32> {
    %0 = fusion.log %a : tensor<4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  return %u, %v, %i : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

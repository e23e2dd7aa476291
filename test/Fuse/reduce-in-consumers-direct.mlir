// Gradients that kernels read on the other GPU: where that is asked for, and where no
// computation would hide the copy.
// RUN: fusion-opt %s -split-input-file --fusion-reduce-in-consumers=transport=direct | FileCheck %s --check-prefix=FORCED
// RUN: fusion-opt %s -split-input-file --fusion-reduce-in-consumers=device=%S/Inputs/transports-direct.json --remarks-filter=fusion -o %t.mlir 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: FileCheck %s --input-file=%t.mlir

// 10,000 bytes: 20 us of exp, 50 of the copy, 30 of the update and 10 for the sum, or a
// hand-shake of 1, an update of 50 that the link takes, and a hand-shake: 110 against 72.
// REMARK: [Passed] transport-sum
// REMARK-SAME: us_direct=50.00
// REMARK: [Passed] transport-step
// REMARK-SAME: us_step=72.00, us_step_nccl=1050.00, us_step_peer=110.00
// CHECK-LABEL: func @last
// CHECK: fusion.collective_permute %{{.*}} {fusion.transport = "direct"}
// FORCED-LABEL: func @last
// FORCED: fusion.collective_permute %{{.*}} {fusion.transport = "direct"}
fusion.mesh @m(dp = 2)
func.func @last(%x: tensor<2500xf32>, %w: tensor<2500xf32>) -> tensor<2500xf32> {
  %0 = fusion.exp %x : tensor<2500xf32>
  %1 = fusion.all_reduce sum, %0 on @m[dp] : tensor<2500xf32>
  %2 = fusion.sub %w, %1 : tensor<2500xf32>
  return %2 : tensor<2500xf32>
}

// -----

// 60 us of a kernel hide the copy: 20 + 60 + 40 against 20 + 60 + 50 + 1.
// REMARK: [Passed] transport-sum
// REMARK-NOT: us_direct
// REMARK: [Passed] transport-step
// REMARK-SAME: us_step=120.00
// CHECK-LABEL: func @hidden
// CHECK: fusion.collective_permute %{{.*}} {fusion.transport = "peer"}
// FORCED-LABEL: func @hidden
// FORCED: {fusion.transport = "direct"}
fusion.mesh @m(dp = 2)
func.func @hidden(%x: tensor<2500xf32>, %w: tensor<2500xf32>, %y: tensor<7500xf32>) -> (tensor<2500xf32>, tensor<7500xf32>) {
  %0 = fusion.exp %x : tensor<2500xf32>
  %1 = fusion.all_reduce sum, %0 on @m[dp] : tensor<2500xf32>
  %3 = fusion.exp %y : tensor<7500xf32>
  %2 = fusion.sub %w, %1 : tensor<2500xf32>
  return %2, %3 : tensor<2500xf32>, tensor<7500xf32>
}

// -----

// The squares are summed by a kernel of their own: the other GPU would be read twice.
// REMARK: [Passed] transport-sum
// REMARK-NOT: us_direct
// CHECK-LABEL: func @clipped
// CHECK: fusion.collective_permute %{{.*}} {fusion.transport = "peer"}
fusion.mesh @m(dp = 2)
func.func @clipped(%x: tensor<2500xf32>, %w: tensor<2500xf32>) -> (tensor<2500xf32>, tensor<f32>) {
  %0 = fusion.exp %x : tensor<2500xf32>
  %1 = fusion.all_reduce sum, %0 on @m[dp] : tensor<2500xf32>
  %2 = fusion.mul %1, %1 : tensor<2500xf32>
  %3 = fusion.reduce sum, %2 dims = [0] : tensor<2500xf32>
  %4 = fusion.sub %w, %1 : tensor<2500xf32>
  return %4, %3 : tensor<2500xf32>, tensor<f32>
}

// -----

// The same in rows, as a clip cuts its sums.
// REMARK: [Passed] transport-sum
// REMARK-NOT: us_direct
// REMARK: [Passed] transport-sum
// REMARK-NOT: us_direct
// REMARK: [Passed] transport-step
// CHECK-LABEL: func @clipped_in_rows
// CHECK: fusion.collective_permute %{{.*}} {fusion.transport = "peer"}
// CHECK: fusion.collective_permute %{{.*}} {fusion.transport = "peer"}
fusion.mesh @m(dp = 2)
func.func @clipped_in_rows(%x: tensor<2500xf32>, %w: tensor<2500xf32>) -> (tensor<2500xf32>, tensor<50xf32>, tensor<2500xf32>, tensor<50xf32>) {
  %0 = fusion.exp %x : tensor<2500xf32>
  %1 = fusion.all_reduce sum, %0 on @m[dp] : tensor<2500xf32>
  %2 = fusion.reshape %1 : tensor<2500xf32> to tensor<50x50xf32>
  %3 = fusion.mul %2, %2 : tensor<50x50xf32>
  %4 = fusion.reduce sum, %3 dims = [1] : tensor<50x50xf32>
  %5 = fusion.sub %w, %1 : tensor<2500xf32>
  %6 = fusion.all_reduce sum, %x on @m[dp] : tensor<2500xf32>
  %7 = fusion.mul %6, %6 : tensor<2500xf32>
  %8 = fusion.reshape %7 : tensor<2500xf32> to tensor<50x50xf32>
  %9 = fusion.reduce sum, %8 dims = [1] : tensor<50x50xf32>
  %10 = fusion.sub %w, %6 : tensor<2500xf32>
  return %5, %4, %10, %9 : tensor<2500xf32>, tensor<50xf32>, tensor<2500xf32>, tensor<50xf32>
}

// -----

// What is moved anyway is copied.
// FORCED-LABEL: func @gather
// FORCED: fusion.all_gather %{{.*}} {fusion.transport = "peer"}
// CHECK-LABEL: func @gather
fusion.mesh @m(dp = 2)
func.func @gather(%x: tensor<125xf32>) -> tensor<250xf32> {
  %0 = fusion.all_gather %x dim = 0 on @m[dp] : (tensor<125xf32>) -> tensor<250xf32>
  %1 = fusion.neg %0 : tensor<250xf32>
  return %1 : tensor<250xf32>
}

// -----

// Who adds the parts of a reduce_scatter takes them as one operand: 40 us of exp, 100 of the
// copy and 40 of the update that adds.
// REMARK: [Passed] transport-sum
// REMARK-NOT: us_direct
// REMARK: [Passed] transport-step
// REMARK-SAME: us_step=180.00
// CHECK-LABEL: func @scattered
// CHECK: fusion.all_to_all %{{.*}} {fusion.transport = "peer"}
fusion.mesh @m(dp = 2)
func.func @scattered(%x: tensor<5000xf32>, %w: tensor<2500xf32>) -> tensor<2500xf32> {
  %0 = fusion.exp %x : tensor<5000xf32>
  %1 = fusion.reduce_scatter sum, %0 dim = 0 on @m[dp] : (tensor<5000xf32>) -> tensor<2500xf32>
  %2 = fusion.sub %w, %1 : tensor<2500xf32>
  return %2 : tensor<2500xf32>
}

// The transport that makes the predicted step shorter, by a device's measured times.
// RUN: fusion-opt %s -split-input-file --fusion-reduce-in-consumers=device=%S/Inputs/transports.json --remarks-filter=fusion -o %t.mlir 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: FileCheck %s --input-file=%t.mlir

// 1,000 bytes: 2 us of exp, 10 of NCCL or 5 of copies, 3 of the update, 1 more for
// the sum: 15 against 11.
// REMARK: [Passed] transport-sum
// REMARK-SAME: bytes=1000, extra_bytes=1000, ranks=2, us_nccl=10.00, us_peer=5.00, us_sum=1.00
// REMARK: [Passed] transport-step
// REMARK-SAME: us_step=11.00, us_step_nccl=15.00, us_step_peer=11.00
// CHECK-LABEL: func @small
// CHECK: fusion.collective_permute %{{.*}} {fusion.transport = "peer"}
fusion.mesh @m(dp = 2)
func.func @small(%x: tensor<250xf32>, %w: tensor<250xf32>) -> tensor<250xf32> {
  %0 = fusion.exp %x : tensor<250xf32>
  %1 = fusion.all_reduce sum, %0 on @m[dp] : tensor<250xf32>
  %2 = fusion.sub %w, %1 : tensor<250xf32>
  return %2 : tensor<250xf32>
}

// -----

// 100,000 bytes: 200 + 10 + 300 against 200 + 2000 + 300 + 100.
// REMARK: [Missed] transport-nccl
// REMARK-SAME: bytes=100000, ranks=2, us_nccl=10.00, us_peer=2000.00, us_sum=100.00
// REMARK: [Missed] transport-step
// REMARK-SAME: us_step=510.00, us_step_nccl=510.00, us_step_peer=2600.00
// CHECK-LABEL: func @large
// CHECK: fusion.all_reduce sum, %{{.*}} on @m[dp] {fusion.transport = "nccl"}
fusion.mesh @m(dp = 2)
func.func @large(%x: tensor<25000xf32>, %w: tensor<25000xf32>) -> tensor<25000xf32> {
  %0 = fusion.exp %x : tensor<25000xf32>
  %1 = fusion.all_reduce sum, %0 on @m[dp] : tensor<25000xf32>
  %2 = fusion.sub %w, %1 : tensor<25000xf32>
  return %2 : tensor<25000xf32>
}

// -----

// One of each in a step: neither all over NCCL nor all on copy engines.
// REMARK: [Passed] transport-sum
// REMARK: [Missed] transport-nccl
// CHECK-LABEL: func @mixed
// CHECK: fusion.collective_permute
// CHECK: fusion.all_reduce sum, %{{.*}} on @m[dp] {fusion.transport = "nccl"}
fusion.mesh @m(dp = 2)
func.func @mixed(%x: tensor<250xf32>, %w: tensor<250xf32>, %y: tensor<25000xf32>, %v: tensor<25000xf32>) -> (tensor<250xf32>, tensor<25000xf32>) {
  %0 = fusion.exp %x : tensor<250xf32>
  %1 = fusion.all_reduce sum, %0 on @m[dp] : tensor<250xf32>
  %2 = fusion.sub %w, %1 : tensor<250xf32>
  %3 = fusion.exp %y : tensor<25000xf32>
  %4 = fusion.all_reduce sum, %3 on @m[dp] : tensor<25000xf32>
  %5 = fusion.sub %v, %4 : tensor<25000xf32>
  return %2, %5 : tensor<250xf32>, tensor<25000xf32>
}

// -----

// Three ranks are joined by a link on which no copies were measured.
// REMARK: [Missed] transport-link
// CHECK-LABEL: func @other_link
// CHECK: fusion.all_reduce sum, %{{.*}} on @m[dp] {fusion.transport = "nccl"}
fusion.mesh @m(dp = 3)
func.func @other_link(%x: tensor<250xf32>) -> tensor<250xf32> {
  %0 = fusion.all_reduce sum, %x on @m[dp] : tensor<250xf32>
  %1 = fusion.neg %0 : tensor<250xf32>
  return %1 : tensor<250xf32>
}

// -----

// A gather that only moves: by the times alone.
// REMARK: [Passed] transport-peer
// REMARK-SAME: us_nccl=10.00, us_peer=5.00
// CHECK-LABEL: func @gather
// CHECK: fusion.all_gather %{{.*}} {fusion.transport = "peer"}
fusion.mesh @m(dp = 2)
func.func @gather(%x: tensor<125xf32>) -> tensor<250xf32> {
  %0 = fusion.all_gather %x dim = 0 on @m[dp] : (tensor<125xf32>) -> tensor<250xf32>
  %1 = fusion.neg %0 : tensor<250xf32>
  return %1 : tensor<250xf32>
}

// Where the device's file says how long a collective waits behind another one, buckets
// grow: the first, which nothing hides, takes twice what starting one takes, each next one
// twice as long, until it takes as long as that wait.
//
// RUN: fusion-opt %s --fusion-bucket-gathers=device=h200 --remarks-filter=fusion -o %t.mlir 2>%t.remarks
// RUN: FileCheck %s --enable-var-scope < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.remarks
// Twice is once.
// RUN: fusion-opt %t.mlir --fusion-bucket-gathers=device=h200 | diff %t.mlir -
// Another device's file says nothing of it: all have the size of the first, which holds two.
// RUN: fusion-opt %s --fusion-bucket-gathers=device=a100-80gb | FileCheck %s --check-prefix=SAME
// SAME-COUNT-4: :2 = fusion.all_gather
// SAME:         fusion.all_gather %arg8 dim
// SAME-NOT:     fusion.all_gather
// Nor need it, where a size is given: 16 MiB are four tensors.
// RUN: fusion-opt %s --fusion-bucket-gathers="device=a100-80gb bucket-bytes=16777216" -o %t.given
// RUN: FileCheck %s --check-prefix=GIVEN < %t.given
// RUN: fusion-opt %t.given --fusion-bucket-gathers="device=a100-80gb bucket-bytes=16777216" | diff %t.given -
// GIVEN:     fusion.all_gather %arg0, %arg1 dim
// GIVEN:     fusion.all_gather %arg2, %arg3, %arg4, %arg5 dim
// GIVEN:     fusion.all_gather %arg6, %arg7, %arg8 dim
// GIVEN-NOT: fusion.all_gather

// Of 4 MiB each. NCCL starts in 7.5 us and takes 2.8 us a MB: 5.3 MB are the first one's,
// 10.6 the second one's, 21.3 the third one's; copy engines wait for 62 us, so the next
// ones have 22.1.
// CHECK-LABEL: func @grows
// CHECK: fusion.all_gather %arg0 dim
// CHECK: fusion.all_gather %arg1, %arg2 dim
// CHECK: fusion.all_gather %arg3, %arg4, %arg5, %arg6, %arg7 dim
// CHECK: fusion.all_gather %arg8 dim
// CHECK-NOT: fusion.all_gather
// REMARK: [Passed] bucket-gathers | {{.*}} bytes=8388608, tensors=2
// REMARK: [Passed] bucket-gathers | {{.*}} bytes=20971520, tensors=5
fusion.mesh @m(dp = 2)
func.func @grows(%p0: tensor<524288xf32>, %p1: tensor<524288xf32>, %p2: tensor<524288xf32>, %p3: tensor<524288xf32>, %p4: tensor<524288xf32>, %p5: tensor<524288xf32>, %p6: tensor<524288xf32>, %p7: tensor<524288xf32>, %p8: tensor<524288xf32>) -> (tensor<1048576xf32>, tensor<1048576xf32>, tensor<1048576xf32>, tensor<1048576xf32>, tensor<1048576xf32>, tensor<1048576xf32>, tensor<1048576xf32>, tensor<1048576xf32>, tensor<1048576xf32>) {
  %g0 = fusion.all_gather %p0 dim = 0 on @m[dp] : (tensor<524288xf32>) -> tensor<1048576xf32>
  %r0 = fusion.neg %g0 : tensor<1048576xf32>
  %g1 = fusion.all_gather %p1 dim = 0 on @m[dp] : (tensor<524288xf32>) -> tensor<1048576xf32>
  %r1 = fusion.neg %g1 : tensor<1048576xf32>
  %g2 = fusion.all_gather %p2 dim = 0 on @m[dp] : (tensor<524288xf32>) -> tensor<1048576xf32>
  %r2 = fusion.neg %g2 : tensor<1048576xf32>
  %g3 = fusion.all_gather %p3 dim = 0 on @m[dp] : (tensor<524288xf32>) -> tensor<1048576xf32>
  %r3 = fusion.neg %g3 : tensor<1048576xf32>
  %g4 = fusion.all_gather %p4 dim = 0 on @m[dp] : (tensor<524288xf32>) -> tensor<1048576xf32>
  %r4 = fusion.neg %g4 : tensor<1048576xf32>
  %g5 = fusion.all_gather %p5 dim = 0 on @m[dp] : (tensor<524288xf32>) -> tensor<1048576xf32>
  %r5 = fusion.neg %g5 : tensor<1048576xf32>
  %g6 = fusion.all_gather %p6 dim = 0 on @m[dp] : (tensor<524288xf32>) -> tensor<1048576xf32>
  %r6 = fusion.neg %g6 : tensor<1048576xf32>
  %g7 = fusion.all_gather %p7 dim = 0 on @m[dp] : (tensor<524288xf32>) -> tensor<1048576xf32>
  %r7 = fusion.neg %g7 : tensor<1048576xf32>
  %g8 = fusion.all_gather %p8 dim = 0 on @m[dp] : (tensor<524288xf32>) -> tensor<1048576xf32>
  %r8 = fusion.neg %g8 : tensor<1048576xf32>
  return %r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8 : tensor<1048576xf32>, tensor<1048576xf32>, tensor<1048576xf32>, tensor<1048576xf32>, tensor<1048576xf32>, tensor<1048576xf32>, tensor<1048576xf32>, tensor<1048576xf32>, tensor<1048576xf32>
}

// What copy engines can't carry stays a reduction, with the reason.
// RUN: fusion-opt %s -split-input-file --fusion-reduce-in-consumers=transport=peer --remarks-filter=fusion -o %t.out 2>&1 | FileCheck %s
// RUN: FileCheck %s --check-prefix=IR --input-file=%t.out
// Bytes of what is alive, and the tensors of both ranks: 16 + 16 + 16.
// RUN: fusion-opt %S/reduce-in-consumers.mlir -split-input-file --fusion-reduce-in-consumers="transport=peer memory-limit=31" --remarks-filter=fusion -o /dev/null 2>&1 | FileCheck %s --check-prefix=MEMORY
// MEMORY: transport-memory
// MEMORY-SAME: bytes=16
// MEMORY-SAME: limit=31, {{.*}}value=48
// IR-NOT: peer

// A product reads it: tensor parallelism.
// CHECK: transport-reader
// CHECK-SAME: "a reader needs the reduced value whole: its kernel can't add"
// CHECK-SAME: bytes=16, {{.*}}ranks=2
// IR-LABEL: func @product
// IR: fusion.all_reduce sum, %{{.*}} on @m[tp] {fusion.transport = "nccl"}
fusion.mesh @m(tp = 2)
func.func @product(%x: tensor<2x2xf32>, %w: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %0 = fusion.all_reduce sum, %x on @m[tp] : tensor<2x2xf32>
  %1 = fusion.transpose %0 permutation = [1, 0] : tensor<2x2xf32>
  %2 = fusion.matmul %1, %w : tensor<2x2xf32>, tensor<2x2xf32>
  return %2 : tensor<2x2xf32>
}

// -----

// One reader of a bucket is enough.
// CHECK: transport-reader
// CHECK-SAME: bytes=32
fusion.mesh @m(tp = 2)
func.func @bucket(%x: tensor<2x2xf32>, %y: tensor<4xf32>, %w: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<4xf32>) {
  %0:2 = fusion.all_reduce sum, %x, %y on @m[tp] {fusion.bucket = 0 : i64} : tensor<2x2xf32>, tensor<4xf32>
  %1 = fusion.matmul %0#0, %w : tensor<2x2xf32>, tensor<2x2xf32>
  %2 = fusion.neg %0#1 : tensor<4xf32>
  return %1, %2 : tensor<2x2xf32>, tensor<4xf32>
}

// -----

// CHECK: transport-repeated
// CHECK-SAME: "a reader repeats the reduced value: adding would take a kernel of its own"
fusion.mesh @m(dp = 2)
func.func @repeated(%x: tensor<4xf32>) -> tensor<3x4xf32> {
  %0 = fusion.all_reduce sum, %x on @m[dp] : tensor<4xf32>
  %1 = fusion.broadcast %0 dims = [1] : tensor<4xf32> to tensor<3x4xf32>
  %2 = fusion.neg %1 : tensor<3x4xf32>
  return %2 : tensor<3x4xf32>
}

// -----

// Behind its division a mean is broadcast all the same.
// CHECK: transport-repeated
// CHECK-SAME: ranks=2
// IR-LABEL: func @mean
// IR: fusion.all_reduce sum, %{{.*}} on @m[dp] {fusion.transport = "nccl"}
fusion.mesh @m(dp = 2)
func.func @mean(%x: tensor<4xf32>, %n: tensor<4xf32>, %w: tensor<4xf32>) -> (tensor<3x4xf32>, tensor<4xf32>) {
  %0 = fusion.all_reduce sum, %x on @m[dp] : tensor<4xf32>
  %1 = fusion.div %0, %n : tensor<4xf32>
  %2 = fusion.broadcast %1 dims = [1] : tensor<4xf32> to tensor<3x4xf32>
  %3 = fusion.neg %2 : tensor<3x4xf32>
  %4 = fusion.sub %w, %0 : tensor<4xf32>
  return %3, %4 : tensor<3x4xf32>, tensor<4xf32>
}

// -----

// CHECK: transport-returned
// CHECK-SAME: "the reduced value is only returned: no kernel reads it that could add"
fusion.mesh @m(dp = 2)
func.func @returned(%x: tensor<4xf32>) -> tensor<2x2xf32> {
  %0 = fusion.all_reduce sum, %x on @m[dp] : tensor<4xf32>
  %1 = fusion.reshape %0 : tensor<4xf32> to tensor<2x2xf32>
  return %1 : tensor<2x2xf32>
}

// -----

// CHECK: transport-ranks
// CHECK-SAME: "the group has one rank: nothing is sent"
fusion.mesh @m(dp = 1)
func.func @alone(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = fusion.all_reduce sum, %x on @m[dp] : tensor<4xf32>
  %1 = fusion.neg %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// CHECK: transport-shape
// CHECK-SAME: "the tensor's size depends on the batch"
fusion.mesh @m(dp = 2)
func.func @batch(%x: tensor<?x4xf32>) -> tensor<?x4xf32> attributes {fusion.batch = array<i64: 1, 8>} {
  %0 = fusion.all_reduce sum, %x on @m[dp] : tensor<?x4xf32>
  %1 = fusion.neg %0 : tensor<?x4xf32>
  return %1 : tensor<?x4xf32>
}

// -----

// CHECK: max-loads
// CHECK-SAME: limit=8, {{.*}}value=9
fusion.mesh @m(dp = 9)
func.func @many(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = fusion.all_reduce sum, %x on @m[dp] : tensor<4xf32>
  %1 = fusion.neg %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}

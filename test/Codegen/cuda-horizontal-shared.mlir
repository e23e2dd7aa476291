// RUN: fusion-opt %s --split-input-file --fusion-fuse --fusion-emit-kernels=target=cuda | FileCheck %s

// 256 threads combine vectors of 4 sums of the one, single sums of the other. A
// block runs one of them, so both use the larger array; alone, each has its own.
// CHECK-LABEL: func.func @sums
// CHECK: llvm.mlir.global internal @k0.shared0() {{.*}} !llvm.array<1024 x f32>
// CHECK: llvm.mlir.global internal @k1.shared0() {{.*}} !llvm.array<256 x f32>
// CHECK: func.func @k2.k0(
// CHECK-NOT: @k0.shared
// CHECK: llvm.mlir.addressof @k2.shared
// CHECK: func.func @k2.k1(
// CHECK-NOT: @k1.shared
// CHECK: llvm.mlir.addressof @k2.shared
// CHECK: llvm.mlir.global internal @k2.shared() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<4096 x i8>
// CHECK: func.func @k2(
// CHECK: call @k2.k0(
// CHECK: call @k2.k1(
func.func @sums(%a: tensor<64x512xf32>, %b: tensor<64x513xf32>)
    -> (tensor<512xf32>, tensor<513xf32>) {
  %0 = fusion.reduce sum, %a dims = [0] : tensor<64x512xf32>
  %1 = fusion.reduce sum, %b dims = [0] : tensor<64x513xf32>
  return %0, %1 : tensor<512xf32>, tensor<513xf32>
}

// -----

// One kernel for both members: its array is there once anyhow.
// CHECK-LABEL: func.func @alike
// CHECK: @k0.shared0
// CHECK-NOT: @k1.shared
// CHECK: call @k0(
func.func @alike(%a: tensor<64x512xf32>, %b: tensor<64x512xf32>)
    -> (tensor<512xf32>, tensor<512xf32>) {
  %0 = fusion.reduce sum, %a dims = [0] : tensor<64x512xf32>
  %1 = fusion.reduce sum, %b dims = [0] : tensor<64x512xf32>
  return %0, %1 : tensor<512xf32>, tensor<512xf32>
}

// -----

// Two reductions of a kernel, one after the other, in the same bytes: those of
// f64 need twice as many.
// CHECK-LABEL: func.func @pair
// CHECK: llvm.mlir.global internal @k0.shared0() {{.*}} !llvm.array<8192 x i8>
// CHECK-NOT: @k0.shared1
// CHECK: func.func @k0(
// CHECK: nvvm.barrier
func.func @pair(%a: tensor<64x512xf32>) -> tensor<512xf64> {
  %0 = fusion.reduce sum, %a dims = [0] : tensor<64x512xf32>
  %1 = fusion.cast %a : tensor<64x512xf32> to tensor<64x512xf64>
  %2 = fusion.reduce sum, %1 dims = [0] : tensor<64x512xf64>
  %3 = fusion.cast %0 : tensor<512xf32> to tensor<512xf64>
  %4 = fusion.add %2, %3 : tensor<512xf64>
  return %4 : tensor<512xf64>
}

// -----

// A kernel's second array lies behind its first, in the common one too: 4 warps
// a row have 16 bytes for each reduction, 8 warps 32.
// CHECK-LABEL: func.func @rows
// CHECK: func.func @k2.k0(
// CHECK: llvm.getelementptr {{.*}}[16] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
// CHECK: func.func @k2.k1(
// CHECK: llvm.getelementptr {{.*}}[32] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
// CHECK: llvm.mlir.global internal @k2.shared() {{.*}} !llvm.array<64 x i8>
func.func @rows(%a: tensor<8x4096xf32>, %b: tensor<8x8192xf32>)
    -> (tensor<8x4096xf32>, tensor<8x8192xf32>) {
  %0 = fusion.softmax %a axis = 1 : tensor<8x4096xf32>
  %1 = fusion.softmax %b axis = 1 : tensor<8x8192xf32>
  return %0, %1 : tensor<8x4096xf32>, tensor<8x8192xf32>
}

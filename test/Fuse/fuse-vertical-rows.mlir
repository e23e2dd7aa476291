// RUN: fusion-opt %s --fusion-fuse | FileCheck %s

// The gradient of a norm behind a product. What scales it is no epilogue that
// the library takes, and the reductions need it: it is computed with them, from
// the product, and the widened scale where it is repeated.
module attributes {fusion.target = "cuda", fusion.fp = "fast"} {
// CHECK-LABEL: func.func @norm_grad(
// CHECK: %[[P:.*]] = fusion.group library
// CHECK-NEXT: fusion.matmul
// CHECK-NEXT: fusion.yield
// CHECK: fusion.group row_reduce ({{.*}} = %arg2 : tensor<32xbf16>
// CHECK: fusion.cast {{.*}} : tensor<32xbf16> to tensor<32xf32>
// CHECK: fusion.broadcast
// CHECK: fusion.reduce sum
// CHECK-NOT: fusion.group
// CHECK: return
func.func @norm_grad(%a: tensor<64x16xbf16>, %w: tensor<16x32xbf16>,
                     %scale: tensor<32xbf16>) -> tensor<64x32xbf16> {
  %0 = fusion.matmul %a, %w : tensor<64x16xbf16>, tensor<16x32xbf16>
  %1 = fusion.cast %0 : tensor<64x32xbf16> to tensor<64x32xf32>
  %2 = fusion.cast %scale : tensor<32xbf16> to tensor<32xf32>
  %3 = fusion.broadcast %2 dims = [1] : tensor<32xf32> to tensor<64x32xf32>
  %4 = fusion.mul %1, %3 : tensor<64x32xf32>
  %5 = fusion.reduce sum, %4 dims = [1] : tensor<64x32xf32>
  %6 = fusion.broadcast %5 dims = [0] : tensor<64xf32> to tensor<64x32xf32>
  %7 = fusion.sub %4, %6 : tensor<64x32xf32>
  %8 = fusion.cast %7 : tensor<64x32xf32> to tensor<64x32xbf16>
  return %8 : tensor<64x32xbf16>
}

// No reduction of rows follows: the scale stays behind the product, and what
// widens it is in that group too.
// CHECK-LABEL: func.func @scaled(
// CHECK: fusion.group library
// CHECK: fusion.matmul
// CHECK: fusion.cast {{.*}} : tensor<32xbf16> to tensor<32xf32>
// CHECK: fusion.mul
// CHECK-NOT: fusion.group
// CHECK: return
func.func @scaled(%a: tensor<64x16xbf16>, %w: tensor<16x32xbf16>,
                  %scale: tensor<32xbf16>) -> tensor<64x32xbf16> {
  %0 = fusion.matmul %a, %w : tensor<64x16xbf16>, tensor<16x32xbf16>
  %1 = fusion.cast %0 : tensor<64x32xbf16> to tensor<64x32xf32>
  %2 = fusion.cast %scale : tensor<32xbf16> to tensor<32xf32>
  %3 = fusion.broadcast %2 dims = [1] : tensor<32xf32> to tensor<64x32xf32>
  %4 = fusion.mul %1, %3 : tensor<64x32xf32>
  %5 = fusion.cast %4 : tensor<64x32xf32> to tensor<64x32xbf16>
  return %5 : tensor<64x32xbf16>
}

// What is widened is read for itself too: it is computed before.
// CHECK-LABEL: func.func @read_too(
// CHECK: %[[W:.*]] = fusion.group loop
// CHECK-NEXT: fusion.cast
// CHECK-NEXT: fusion.yield
// CHECK: fusion.group library
// CHECK: return {{.*}}%[[W]]
func.func @read_too(%a: tensor<64x16xbf16>, %w: tensor<16x32xbf16>,
                    %scale: tensor<32xbf16>) -> (tensor<64x32xbf16>, tensor<32xf32>) {
  %0 = fusion.matmul %a, %w : tensor<64x16xbf16>, tensor<16x32xbf16>
  %1 = fusion.cast %0 : tensor<64x32xbf16> to tensor<64x32xf32>
  %2 = fusion.cast %scale : tensor<32xbf16> to tensor<32xf32>
  %3 = fusion.broadcast %2 dims = [1] : tensor<32xf32> to tensor<64x32xf32>
  %4 = fusion.mul %1, %3 : tensor<64x32xf32>
  %5 = fusion.cast %4 : tensor<64x32xf32> to tensor<64x32xbf16>
  return %5, %2 : tensor<64x32xbf16>, tensor<32xf32>
}
}

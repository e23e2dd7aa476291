// RUN: fusion-opt %s --split-input-file --fusion-fuse --fusion-emit-kernels=target=cuda | FileCheck %s
// RUN: fusion-opt %s --split-input-file --fusion-decompose-named --remarks-filter=fusion -o %t.mlir 2>&1 | FileCheck %s --check-prefix=REMARK

// Attention is one call of cuDNN, with a kernel beside it that walks over the
// keys twice; the sum is a tail.

module attributes {fusion.target = "cuda", fusion.fp = "fast"} {
// CHECK-LABEL: func.func @causal
// CHECK: fusion.group library
// CHECK-SAME: fusion.call = {causal = true, dtype = "f16", fallback = "k0"
// CHECK-SAME: inputShape = [#fusion.extent<1 * B + 0>, #fusion.extent<0 * B + 4>, #fusion.extent<0 * B + 8>, #fusion.extent<0 * B + 16>]
// CHECK-SAME: op = "attention"
// CHECK-SAME: operands = array<i64: 0, 1, 2, 4>
// CHECK-SAME: scale = 2.500000e-01 : f64
// CHECK: fusion.attention
// CHECK-NOT: fusion.group
// CHECK: func.func @k0({{.*}}fusion.description = "instead of library: attention add"
// CHECK: scf.for
// CHECK: arith.maximumf
// CHECK: scf.for
// CHECK: math.exp
// CHECK: arith.divf
func.func @causal(%q: tensor<?x4x8x16xf16>, %k: tensor<?x2x12x16xf16>, %v: tensor<?x2x12x8xf16>, %r: tensor<?x4x8x8xf16>) -> tensor<?x4x8x8xf16> attributes {fusion.batch = array<i64: 1, 8>} {
  %y = fusion.attention %q, %k, %v scale = 0.25 causal : tensor<?x4x8x16xf16>, tensor<?x2x12x16xf16>, tensor<?x2x12x8xf16>
  %z = fusion.add %y, %r : tensor<?x4x8x8xf16>
  return %z : tensor<?x4x8x8xf16>
}
}

// -----

// Equal ones are one launch; a mask is an operand.

module attributes {fusion.target = "cuda", fusion.fp = "fast"} {
// CHECK-LABEL: func.func @pair
// CHECK: fusion.group horizontal
// CHECK: maskShape = [#fusion.extent<0 * B + 1>, #fusion.extent<0 * B + 4>, #fusion.extent<0 * B + 8>, #fusion.extent<0 * B + 8>], members = 2
// CHECK-SAME: operands = array<i64: 0, 1, 2, 3, 8, 4, 5, 6, 7, 9>
func.func @pair(%q: tensor<2x4x8x16xbf16>, %k: tensor<2x4x8x16xbf16>, %v: tensor<2x4x8x8xbf16>, %m: tensor<1x4x8x8xbf16>, %p: tensor<2x4x8x16xbf16>) -> (tensor<2x4x8x8xbf16>, tensor<2x4x8x8xbf16>) {
  %y = fusion.attention %q, %k, %v mask %m scale = 1.0 : tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x8xbf16>, tensor<1x4x8x8xbf16>
  %z = fusion.attention %p, %k, %v mask %m scale = 1.0 : tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x8xbf16>, tensor<1x4x8x8xbf16>
  return %y, %z : tensor<2x4x8x8xbf16>, tensor<2x4x8x8xbf16>
}
}

// -----

// Weights that are not rounded: products and a softmax of f32.

module attributes {fusion.target = "cuda", fusion.fp = "strict"} {
// CHECK-LABEL: func.func @strict
// REMARK-NOT: becomes primitive ops
// REMARK: fusion.attention has no kernel of its own and becomes primitive ops: the library rounds the weights of the values; --fp=fast lets it
// CHECK-NOT: fusion.attention
// CHECK: op = "matmul"
// CHECK: op = "matmul"
// CHECK: return
func.func @strict(%q: tensor<2x4x8x16xbf16>, %k: tensor<2x4x8x16xbf16>, %v: tensor<2x4x8x8xbf16>) -> tensor<2x4x8x8xbf16> {
  %y = fusion.attention %q, %k, %v scale = 1.0 : tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x8xbf16>
  return %y : tensor<2x4x8x8xbf16>
}
}

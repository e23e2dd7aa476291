// RUN: fusion-opt %s --split-input-file --fusion-fuse --fusion-emit-kernels=target=cuda | FileCheck %s
// RUN: fusion-opt %s --split-input-file --fusion-fuse --remarks-filter=fusion -o %t.mlir 2>&1 | FileCheck %s --check-prefix=REMARK

// The gradients are one call of cuDNN that writes three results; the kernel
// beside it has a block a group of heads, and waits twice for its threads. What
// reads a gradient is a launch of its own.

module attributes {fusion.target = "cuda", fusion.fp = "fast"} {
// CHECK-LABEL: func.func @causal
// CHECK: fusion.group library
// CHECK-SAME: fusion.call = {causal = true, dtype = "f16", fallback = "k0", fallbackGrain = 1 : i64, fallbackUnits = #fusion.extent<2 * B + 0>
// CHECK-SAME: inputShape = [#fusion.extent<1 * B + 0>, #fusion.extent<0 * B + 4>, #fusion.extent<0 * B + 8>, #fusion.extent<0 * B + 16>]
// CHECK-SAME: op = "attention_grad"
// CHECK-SAME: operands = array<i64: 0, 1, 2, 3, 4, 5, 6>
// CHECK-SAME: outputShape = [#fusion.extent<1 * B + 0>, #fusion.extent<0 * B + 4>, #fusion.extent<0 * B + 8>, #fusion.extent<0 * B + 8>]
// CHECK-SAME: scale = 2.500000e-01 : f64
// CHECK: fusion.attention_grad
// CHECK: fusion.group loop
// CHECK-NEXT: fusion.add
// CHECK-NOT: fusion.group
// CHECK: func.func @k0({{.*}}fusion.description = "instead of library: attention_grad"
// CHECK: arith.maximumf
// CHECK: math.exp
// CHECK: math.log
// CHECK: nvvm.barrier
// CHECK: nvvm.barrier
// CHECK-NOT: nvvm.barrier
// CHECK: return
// REMARK: no-emitter{{.*}}at=fusion.attention_grad{{.*}}consumer=fusion.add
func.func @causal(%q: tensor<?x4x8x16xf16>, %k: tensor<?x2x12x16xf16>, %v: tensor<?x2x12x8xf16>, %g: tensor<?x4x8x8xf16>, %r: tensor<?x4x8x16xf16>) -> (tensor<?x4x8x16xf16>, tensor<?x2x12x16xf16>, tensor<?x2x12x8xf16>) attributes {fusion.batch = array<i64: 1, 8>} {
  %0:3 = fusion.attention_grad %q, %k, %v, %g scale = 0.25 causal : tensor<?x4x8x16xf16>, tensor<?x2x12x16xf16>, tensor<?x2x12x8xf16>, tensor<?x4x8x8xf16>
  %1 = fusion.add %0#0, %r : tensor<?x4x8x16xf16>
  return %1, %0#1, %0#2 : tensor<?x4x8x16xf16>, tensor<?x2x12x16xf16>, tensor<?x2x12x8xf16>
}
}

// -----

// A result that nobody reads is written all the same; equal ones are one
// launch.

module attributes {fusion.target = "cuda", fusion.fp = "fast"} {
// CHECK-LABEL: func.func @pair
// CHECK: fusion.group horizontal
// CHECK: maskShape = [#fusion.extent<0 * B + 1>, #fusion.extent<0 * B + 4>, #fusion.extent<0 * B + 8>, #fusion.extent<0 * B + 8>], members = 2
// CHECK-SAME: operands = array<i64: 0, 1, 2, 3, 4, 10, 11, 12, 5, 6, 7, 8, 9, 13, 14, 15>
func.func @pair(%q: tensor<2x4x8x16xbf16>, %k: tensor<2x4x8x16xbf16>, %v: tensor<2x4x8x8xbf16>, %g: tensor<2x4x8x8xbf16>, %m: tensor<1x4x8x8xbf16>, %p: tensor<2x4x8x16xbf16>) -> (tensor<2x4x8x16xbf16>, tensor<2x4x8x8xbf16>) {
  %0:3 = fusion.attention_grad %q, %k, %v, %g mask %m scale = 1.0 : tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x8xbf16>, tensor<2x4x8x8xbf16>, tensor<1x4x8x8xbf16>
  %1:3 = fusion.attention_grad %p, %k, %v, %g mask %m scale = 1.0 : tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x8xbf16>, tensor<2x4x8x8xbf16>, tensor<1x4x8x8xbf16>
  return %0#0, %1#2 : tensor<2x4x8x16xbf16>, tensor<2x4x8x8xbf16>
}
}

// -----

// Gradients of scores that are not rounded: products of f32.

module attributes {fusion.target = "cuda", fusion.fp = "strict"} {
// CHECK-LABEL: func.func @strict
// REMARK: fusion.attention_grad has no kernel of its own and becomes primitive ops: the library rounds the weights of the values; --fp=fast lets it
// CHECK-NOT: fusion.attention_grad
// CHECK-COUNT-5: op = "matmul"
// CHECK: return
func.func @strict(%q: tensor<2x4x8x16xbf16>, %k: tensor<2x4x8x16xbf16>, %v: tensor<2x4x8x8xbf16>, %g: tensor<2x4x8x8xbf16>) -> (tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x8xbf16>) {
  %0:3 = fusion.attention_grad %q, %k, %v, %g scale = 1.0 : tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x8xbf16>, tensor<2x4x8x8xbf16>
  return %0#0, %0#1, %0#2 : tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x8xbf16>
}
}

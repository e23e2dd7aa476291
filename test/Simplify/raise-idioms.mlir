// gelu and silu in the orders that exporters write.
//
// RUN: fusion-opt %s -split-input-file --fusion-raise-idioms | FileCheck %s
// RUN: fusion-opt %s -split-input-file --fusion-raise-idioms --fusion-raise-idioms | FileCheck %s
// RUN: fusion-opt %s -split-input-file --fusion-raise-idioms=exact-rewrites-only | FileCheck %s --check-prefix=EXACT

// (x * (1 + erf(x / 1.41421354))) * 0.5
// CHECK: fusion.rewrites = ["raise-idioms x1"]
// CHECK-LABEL: func @erf
// CHECK-NEXT: fusion.gelu  erf, %arg0
// CHECK-NEXT: return
// EXACT-NOT: fusion.gelu
func.func @erf(%x: tensor<4xf32>) -> tensor<4xf32> {
  %root = fusion.constant dense<1.41421354> : tensor<4xf32>
  %one = fusion.constant dense<1.0> : tensor<4xf32>
  %half = fusion.constant dense<0.5> : tensor<4xf32>
  %a = fusion.div %x, %root : tensor<4xf32>
  %e = fusion.erf %a : tensor<4xf32>
  %p = fusion.add %e, %one : tensor<4xf32>
  %m = fusion.mul %x, %p : tensor<4xf32>
  %y = fusion.mul %m, %half : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// (0.5 * x) * (1 + erf(0.707106769 * x)), of an x that is a sum itself.
// CHECK-LABEL: func @erf_half_first
// CHECK: %[[X:.*]] = fusion.add
// CHECK-NEXT: fusion.gelu  erf, %[[X]]
// CHECK-NEXT: return
func.func @erf_half_first(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %root = fusion.constant dense<0.707106769> : tensor<4xf32>
  %one = fusion.constant dense<1.0> : tensor<4xf32>
  %half = fusion.constant dense<0.5> : tensor<4xf32>
  %x = fusion.add %a, %b : tensor<4xf32>
  %h = fusion.mul %half, %x : tensor<4xf32>
  %s = fusion.mul %root, %x : tensor<4xf32>
  %e = fusion.erf %s : tensor<4xf32>
  %p = fusion.add %one, %e : tensor<4xf32>
  %y = fusion.mul %h, %p : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// x * ((1 + erf) * 0.5) with a batch: the constants are broadcast scalars.
// CHECK-LABEL: func @erf_batch
// CHECK: fusion.gelu  erf, %arg0 : tensor<?x4xf32>
// CHECK-NOT: fusion.erf
func.func @erf_batch(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %r0 = fusion.constant dense<0.707106769> : tensor<f32>
  %o0 = fusion.constant dense<1.0> : tensor<f32>
  %h0 = fusion.constant dense<0.5> : tensor<f32>
  %root = fusion.broadcast %r0 dims = [] : tensor<f32> to tensor<?x4xf32>
  %one = fusion.broadcast %o0 dims = [] : tensor<f32> to tensor<?x4xf32>
  %half = fusion.broadcast %h0 dims = [] : tensor<f32> to tensor<?x4xf32>
  %s = fusion.mul %x, %root : tensor<?x4xf32>
  %e = fusion.erf %s : tensor<?x4xf32>
  %p = fusion.add %e, %one : tensor<?x4xf32>
  %h = fusion.mul %p, %half : tensor<?x4xf32>
  %y = fusion.mul %h, %x : tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}

// -----

// 0.5 * x * (1 + tanh(0.797884583 * (x + 0.044715 * pow(x, 3))))
// CHECK-LABEL: func @tanh
// CHECK-NEXT: fusion.gelu  tanh, %arg0
// CHECK-NEXT: return
func.func @tanh(%x: tensor<4xf32>) -> tensor<4xf32> {
  %three = fusion.constant dense<3.0> : tensor<4xf32>
  %c = fusion.constant dense<0.044715> : tensor<4xf32>
  %k = fusion.constant dense<0.797884583> : tensor<4xf32>
  %one = fusion.constant dense<1.0> : tensor<4xf32>
  %half = fusion.constant dense<0.5> : tensor<4xf32>
  %cube = fusion.pow %x, %three : tensor<4xf32>
  %s = fusion.mul %cube, %c : tensor<4xf32>
  %t = fusion.add %x, %s : tensor<4xf32>
  %u = fusion.mul %t, %k : tensor<4xf32>
  %e = fusion.tanh %u : tensor<4xf32>
  %p = fusion.add %e, %one : tensor<4xf32>
  %h = fusion.mul %x, %half : tensor<4xf32>
  %y = fusion.mul %h, %p : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// The same as x * 0.797884583 * (1 + 0.044715 * x * x).
// CHECK-LABEL: func @tanh_factored
// CHECK-NEXT: fusion.gelu  tanh, %arg0
// CHECK-NEXT: return
func.func @tanh_factored(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = fusion.constant dense<0.044715> : tensor<4xf32>
  %k = fusion.constant dense<0.797884583> : tensor<4xf32>
  %one = fusion.constant dense<1.0> : tensor<4xf32>
  %half = fusion.constant dense<0.5> : tensor<4xf32>
  %cx = fusion.mul %c, %x : tensor<4xf32>
  %cxx = fusion.mul %cx, %x : tensor<4xf32>
  %q = fusion.add %cxx, %one : tensor<4xf32>
  %kx = fusion.mul %x, %k : tensor<4xf32>
  %u = fusion.mul %kx, %q : tensor<4xf32>
  %e = fusion.tanh %u : tensor<4xf32>
  %p = fusion.add %one, %e : tensor<4xf32>
  %h = fusion.mul %half, %x : tensor<4xf32>
  %y = fusion.mul %p, %h : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// silu's body in f64 is this chain; in f32 it rounds once.
// CHECK-NOT: fusion.rewrites
// CHECK-LABEL: func @silu_double
// CHECK-NEXT: fusion.silu %arg0
// EXACT-LABEL: func @silu_double
// EXACT-NEXT: fusion.silu %arg0
func.func @silu_double(%x: tensor<4xf64>) -> tensor<4xf64> {
  %s = fusion.sigmoid %x : tensor<4xf64>
  %y = fusion.mul %s, %x : tensor<4xf64>
  return %y : tensor<4xf64>
}

// -----

// CHECK: fusion.rewrites = ["raise-idioms x1"]
// CHECK-LABEL: func @silu
// CHECK-NEXT: fusion.silu %arg0
// EXACT-LABEL: func @silu
// EXACT: fusion.sigmoid
func.func @silu(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = fusion.sigmoid %x : tensor<4xf32>
  %y = fusion.mul %x, %s : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// x / (1 + exp(-x)), and x * (1 / (1 + exp(-x))).
// CHECK-LABEL: func @silu_exp
// CHECK-NEXT: %[[A:.*]] = fusion.silu %arg0
// CHECK-NEXT: fusion.silu %[[A]]
// CHECK-NEXT: return
func.func @silu_exp(%x: tensor<4xf32>) -> tensor<4xf32> {
  %one = fusion.constant dense<1.0> : tensor<4xf32>
  %n = fusion.neg %x : tensor<4xf32>
  %e = fusion.exp %n : tensor<4xf32>
  %p = fusion.add %one, %e : tensor<4xf32>
  %y = fusion.div %x, %p : tensor<4xf32>
  %n2 = fusion.neg %y : tensor<4xf32>
  %e2 = fusion.exp %n2 : tensor<4xf32>
  %p2 = fusion.add %e2, %one : tensor<4xf32>
  %r2 = fusion.reciprocal %p2 : tensor<4xf32>
  %z = fusion.mul %r2, %y : tensor<4xf32>
  return %z : tensor<4xf32>
}

// -----

// Nothing like an idiom: no remark, no change.
// CHECK-LABEL: func @gates
// CHECK: fusion.sigmoid
// CHECK: fusion.mul
// CHECK: fusion.tanh
func.func @gates(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %s = fusion.sigmoid %g : tensor<4xf32>
  %m = fusion.mul %x, %s : tensor<4xf32>
  %t = fusion.tanh %m : tensor<4xf32>
  return %t : tensor<4xf32>
}

// Canonical forms: each rewrite gives the same bits, NaN payloads aside.
//
// RUN: fusion-opt %s -split-input-file --fusion-canonicalize | FileCheck %s
// RUN: fusion-opt %s -split-input-file --fusion-canonicalize --fusion-canonicalize | FileCheck %s

// The example of the pass's description.
// CHECK-LABEL: func @example
// CHECK-SAME: (%[[X:.*]]: tensor<2x3xf32>)
// CHECK-NEXT: %[[C:.*]] = fusion.constant dense<2.500000e-01> : tensor<2x3xf32>
// CHECK-NEXT: %[[Y:.*]] = fusion.mul %[[X]], %[[C]]
// CHECK-NEXT: return %[[Y]]
func.func @example(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %c = fusion.constant dense<4.0> : tensor<2x3xf32>
  %t = fusion.transpose %x permutation = [1, 0] : tensor<2x3xf32>
  %u = fusion.transpose %t permutation = [1, 0] : tensor<3x2xf32>
  %y = fusion.div %u, %c : tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// -----

// x + (-0), x - 0, x * 1, x / 1, max(x, -inf), min(x, inf) are x.
// CHECK-LABEL: func @identities
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>)
// CHECK-NEXT: return %[[X]]
func.func @identities(%x: tensor<4xf32>) -> tensor<4xf32> {
  %minus_zero = fusion.constant dense<-0.0> : tensor<4xf32>
  %zero = fusion.constant dense<0.0> : tensor<4xf32>
  %one = fusion.constant dense<1.0> : tensor<f32>
  %ones = fusion.broadcast %one dims = [] : tensor<f32> to tensor<4xf32>
  %inf = fusion.constant dense<0x7F800000> : tensor<4xf32>
  %minus_inf = fusion.constant dense<0xFF800000> : tensor<4xf32>
  %0 = fusion.add %minus_zero, %x : tensor<4xf32>
  %1 = fusion.sub %0, %zero : tensor<4xf32>
  %2 = fusion.mul %ones, %1 : tensor<4xf32>
  %3 = fusion.div %2, %ones : tensor<4xf32>
  %4 = fusion.max %3, %minus_inf : tensor<4xf32>
  %5 = fusion.min %4, %inf : tensor<4xf32>
  %6 = fusion.neg %5 : tensor<4xf32>
  %7 = fusion.neg %6 : tensor<4xf32>
  return %7 : tensor<4xf32>
}

// -----

// x + 0 turns -0 into 0; x - (-0) too; x * 0 is not 0 for NaN; 0 - x is not -x
// for 0; 1 / x is no x.
// CHECK-LABEL: func @not_identities
// CHECK: fusion.add
// CHECK: fusion.sub
// CHECK: fusion.mul
// CHECK: fusion.sub
// CHECK: fusion.div
func.func @not_identities(%x: tensor<4xf32>) -> tensor<4xf32> {
  %minus_zero = fusion.constant dense<-0.0> : tensor<4xf32>
  %zero = fusion.constant dense<0.0> : tensor<4xf32>
  %one = fusion.constant dense<1.0> : tensor<4xf32>
  %0 = fusion.add %x, %zero : tensor<4xf32>
  %1 = fusion.sub %0, %minus_zero : tensor<4xf32>
  %2 = fusion.mul %1, %zero : tensor<4xf32>
  %3 = fusion.sub %zero, %2 : tensor<4xf32>
  %4 = fusion.div %one, %3 : tensor<4xf32>
  return %4 : tensor<4xf32>
}

// -----

// Integers have one zero, and no NaN.
// CHECK-LABEL: func @integers
// CHECK-SAME: (%[[X:.*]]: tensor<?xi32>)
// CHECK-NEXT: return %[[X]]
func.func @integers(%x: tensor<?xi32>) -> tensor<?xi32> {
  %zero = fusion.constant dense<0> : tensor<i32>
  %zeros = fusion.broadcast %zero dims = [] : tensor<i32> to tensor<?xi32>
  %least = fusion.constant dense<-2147483648> : tensor<i32>
  %leasts = fusion.broadcast %least dims = [] : tensor<i32> to tensor<?xi32>
  %0 = fusion.add %x, %zeros : tensor<?xi32>
  %1 = fusion.or %zeros, %0 : tensor<?xi32>
  %2 = fusion.shift_left %1, %zeros : tensor<?xi32>
  %3 = fusion.max %2, %leasts : tensor<?xi32>
  return %3 : tensor<?xi32>
}

// -----

// The reciprocal of a power of two is exact, if it is a normal number: that of
// 2^127 is not, and 3 has none. With a batch the divisor is behind a broadcast.
// CHECK-LABEL: func @division
// CHECK-DAG: %[[H:.*]] = fusion.constant dense<[5.000000e-01, -2.500000e-01]> : tensor<2xf16>
// CHECK-DAG: %[[E:.*]] = fusion.constant dense<1.250000e-01> : tensor<f32>
// CHECK-DAG: %[[B:.*]] = fusion.broadcast %[[E]] dims = []
// CHECK-DAG: fusion.mul %{{.*}}, %[[H]]
// CHECK-DAG: fusion.mul %{{.*}}, %[[B]]
// CHECK-DAG: fusion.div %{{.*}} : tensor<3xf32>
func.func @division(%x: tensor<2xf16>, %y: tensor<?xf32>, %z: tensor<3xf32>) -> (tensor<2xf16>, tensor<?xf32>, tensor<3xf32>) {
  %a = fusion.constant dense<[2.0, -4.0]> : tensor<2xf16>
  %b = fusion.constant dense<8.0> : tensor<f32>
  %c = fusion.broadcast %b dims = [] : tensor<f32> to tensor<?xf32>
  %d = fusion.constant dense<[2.0, 3.0, 0x7F000000]> : tensor<3xf32>
  %0 = fusion.div %x, %a : tensor<2xf16>
  %1 = fusion.div %y, %c : tensor<?xf32>
  %2 = fusion.div %z, %d : tensor<3xf32>
  return %0, %1, %2 : tensor<2xf16>, tensor<?xf32>, tensor<3xf32>
}

// -----

// max(x, +0) is relu by definition; max(x, -0) is not: it keeps -0.
// CHECK-LABEL: func @bounds
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>)
// CHECK-DAG: fusion.relu %[[X]]
// CHECK-DAG: fusion.max %[[X]]
// CHECK-DAG: %[[SIX:.*]] = fusion.constant dense<6.000000e+00>
// CHECK-DAG: %[[C:.*]] = fusion.clamp %[[X]], %{{.*}}, %[[SIX]]
// CHECK-DAG: fusion.min %[[X]], %[[SIX]]
// CHECK: return %{{.*}}, %{{.*}}, %[[C]], %{{.*}}
func.func @bounds(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = fusion.constant dense<0.0> : tensor<4xf32>
  %minus_zero = fusion.constant dense<-0.0> : tensor<4xf32>
  %six = fusion.constant dense<6.0> : tensor<4xf32>
  %minus_inf = fusion.constant dense<0xFF800000> : tensor<4xf32>
  %0 = fusion.max %x, %zero : tensor<4xf32>
  %1 = fusion.max %x, %minus_zero : tensor<4xf32>
  %2 = fusion.clamp %0, %zero, %six : tensor<4xf32>
  %3 = fusion.relu %2 : tensor<4xf32>
  %4 = fusion.clamp %x, %minus_inf, %six : tensor<4xf32>
  return %0, %1, %3, %4 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// A narrowing cast rounds and stays; log2(exp2(x)) overflows
// on the way and stays. A cast that loses nothing is merged.
// CHECK-LABEL: func @casts
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>, %[[H:.*]]: tensor<4xf16>, %[[I:.*]]: tensor<4xi8>)
// CHECK: %[[N:.*]] = fusion.cast %[[X]] : tensor<4xf32> to tensor<4xbf16>
// CHECK: %[[W:.*]] = fusion.cast %[[N]] : tensor<4xbf16> to tensor<4xf32>
// CHECK: %[[E:.*]] = fusion.exp2 %[[X]]
// CHECK: %[[L:.*]] = fusion.log2 %[[E]]
// CHECK: %[[F:.*]] = fusion.cast %[[I]] : tensor<4xi8> to tensor<4xf64>
// CHECK: return %[[W]], %[[L]], %[[H]], %[[F]]
func.func @casts(%x: tensor<4xf32>, %h: tensor<4xf16>, %i: tensor<4xi8>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf16>, tensor<4xf64>) {
  %n = fusion.cast %x : tensor<4xf32> to tensor<4xbf16>
  %w = fusion.cast %n : tensor<4xbf16> to tensor<4xf32>
  %e = fusion.exp2 %x : tensor<4xf32>
  %l = fusion.log2 %e : tensor<4xf32>
  %wide = fusion.cast %h : tensor<4xf16> to tensor<4xf32>
  %back = fusion.cast %wide : tensor<4xf32> to tensor<4xf16>
  %j = fusion.cast %i : tensor<4xi8> to tensor<4xi64>
  %f = fusion.cast %j : tensor<4xi64> to tensor<4xf64>
  return %w, %l, %back, %f : tensor<4xf32>, tensor<4xf32>, tensor<4xf16>, tensor<4xf64>
}

// -----

// The hard swish that exporters write stays as it is: 6 has no exact inverse.
// CHECK-LABEL: func @hard_swish
// CHECK: fusion.add
// CHECK: fusion.clamp
// CHECK: fusion.mul
// CHECK: fusion.div
func.func @hard_swish(%x: tensor<4xf32>) -> tensor<4xf32> {
  %three = fusion.constant dense<3.0> : tensor<4xf32>
  %zero = fusion.constant dense<0.0> : tensor<4xf32>
  %six = fusion.constant dense<6.0> : tensor<4xf32>
  %a = fusion.add %x, %three : tensor<4xf32>
  %c = fusion.clamp %a, %zero, %six : tensor<4xf32>
  %m = fusion.mul %x, %c : tensor<4xf32>
  %y = fusion.div %m, %six : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// A value without elements is the empty constant, whatever would compute it.
// CHECK-LABEL: func @empty
// CHECK-NOT: fusion.softmax
// CHECK: %[[E:.*]] = fusion.constant dense<> : tensor<2x0xf32>
// CHECK-NEXT: return %[[E]]
func.func @empty(%x: tensor<2x0xf32>) -> tensor<2x0xf32> {
  %0 = fusion.softmax %x axis = 1 : tensor<2x0xf32>
  return %0 : tensor<2x0xf32>
}

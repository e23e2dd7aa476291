// Values worked out by hand. A splat stays a splat.
//
// RUN: fusion-opt %s -split-input-file --fusion-evaluate-constants | FileCheck %s
// RUN: fusion-opt %s -split-input-file --fusion-evaluate-constants --fusion-evaluate-constants | FileCheck %s

// The example of the pass's description.
// CHECK-LABEL: func @example
// CHECK-NEXT: %[[C:.*]] = fusion.constant dense<[1.500000e+00, 2.500000e+00]> : tensor<2xf32>
// CHECK-NEXT: return %[[C]]
func.func @example() -> tensor<2xf32> {
  %a = fusion.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %b = fusion.constant dense<0.5> : tensor<2xf32>
  %c = fusion.add %a, %b : tensor<2xf32>
  return %c : tensor<2xf32>
}

// -----

// Integers wrap; division by zero is -1, the least integer / -1 is itself, a
// rem 0 is a; shifts outside the width are 0.
// CHECK-LABEL: func @integers
// CHECK: dense<[-128, -1, -128, 2]> : tensor<4xi8>
// CHECK: dense<[7, 0, 0, -1]> : tensor<4xi8>
// CHECK: dense<[0, 2, 64, 0]> : tensor<4xi8>
func.func @integers() -> (tensor<4xi8>, tensor<4xi8>, tensor<4xi8>) {
  %z = fusion.constant dense<[-1, 0, -1, 2]> : tensor<4xi8>
  %b = fusion.constant dense<[-128, 7, -128, 5]> : tensor<4xi8>
  %q = fusion.div %b, %z : tensor<4xi8>
  %c = fusion.constant dense<[7, -128, 4, -7]> : tensor<4xi8>
  %d = fusion.constant dense<[0, -1, 2, 3]> : tensor<4xi8>
  %r = fusion.rem %c, %d : tensor<4xi8>
  %e = fusion.constant dense<[1, 1, -128, 1]> : tensor<4xi8>
  %f = fusion.constant dense<[8, 1, 1, -1]> : tensor<4xi8>
  %l = fusion.shift_left %e, %f : tensor<4xi8>
  %s = fusion.shift_right %e, %f : tensor<4xi8>
  %x = fusion.or %l, %s : tensor<4xi8>
  return %q, %r, %x : tensor<4xi8>, tensor<4xi8>, tensor<4xi8>
}

// -----

// NaN goes through max and min from either side, +0 is above -0;
// sign keeps a zero's sign; a comparison with NaN is false, but `ne`.
// CHECK-LABEL: func @not_a_number
// CHECK: dense<[0x7FC00000, 0x7FC00000, 0.000000e+00, 0.000000e+00]> : tensor<4xf32>
// CHECK: dense<[0x7FC00000, 0x7FC00000, -0.000000e+00, -0.000000e+00]> : tensor<4xf32>
// CHECK: dense<[false, false, true, true]> : tensor<4xi1>
// CHECK: dense<[true, true, false, false]> : tensor<4xi1>
func.func @not_a_number() -> (tensor<4xf32>, tensor<4xf32>, tensor<4xi1>, tensor<4xi1>) {
  %a = fusion.constant dense<[0x7FC00000, 1.0, -0.0, 0.0]> : tensor<4xf32>
  %b = fusion.constant dense<[1.0, 0x7FC00000, 0.0, -0.0]> : tensor<4xf32>
  %max = fusion.max %a, %b : tensor<4xf32>
  %min = fusion.min %a, %b : tensor<4xf32>
  %eq = fusion.compare eq, %a, %b : tensor<4xf32>
  %ne = fusion.compare ne, %a, %b : tensor<4xf32>
  return %max, %min, %eq, %ne : tensor<4xf32>, tensor<4xf32>, tensor<4xi1>, tensor<4xi1>
}

// -----

// Float to integer truncates, saturates, and NaN is 0; 16777217 has no f32 and
// goes to the even neighbour; i1 is "not zero", NaN included; 65520 is the
// first number that rounds to infinity in f16.
// CHECK-LABEL: func @casts
// CHECK: dense<[-128, 127, -1, 0]> : tensor<4xi8>
// CHECK: dense<[0x4B800000, 0xCB800000]> : tensor<2xf32>
func.func @casts() -> (tensor<4xi8>, tensor<2xf32>, tensor<2xi1>, tensor<2xf16>) {
  %a = fusion.constant dense<[-1.0e9, 1.0e9, -1.9, 0x7FC00000]> : tensor<4xf32>
  %i = fusion.cast %a : tensor<4xf32> to tensor<4xi8>
  %b = fusion.constant dense<[16777217, -16777217]> : tensor<2xi32>
  %f = fusion.cast %b : tensor<2xi32> to tensor<2xf32>
  %c = fusion.constant dense<[0x7FC00000, -0.0]> : tensor<2xf32>
  %p = fusion.cast %c : tensor<2xf32> to tensor<2xi1>
  %d = fusion.constant dense<[65519.0, 65520.0]> : tensor<2xf32>
  %h = fusion.cast %d : tensor<2xf32> to tensor<2xf16>
  return %i, %f, %p, %h : tensor<4xi8>, tensor<2xf32>, tensor<2xi1>, tensor<2xf16>
}

// -----

// Moves.
// CHECK-LABEL: func @moves
// CHECK: dense<{{\[}}[1, 4], [2, 5], [3, 6]]> : tensor<3x2xi32>
// CHECK: dense<{{\[}}[3, 1], [6, 4]]> : tensor<2x2xi32>
// CHECK: dense<{{\[}}[9, 1, 2, 3], [9, 4, 5, 6]]> : tensor<2x4xi32>
// CHECK: dense<{{\[}}[6, 5, 4], [4, 5, 6]]> : tensor<2x3xi32>
func.func @moves() -> (tensor<3x2xi32>, tensor<2x2xi32>, tensor<2x4xi32>, tensor<2x3xi32>) {
  %a = fusion.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
  %nine = fusion.constant dense<9> : tensor<i32>
  %t = fusion.transpose %a permutation = [1, 0] : tensor<2x3xi32>
  %r = fusion.reverse %a dims = [1] : tensor<2x3xi32>
  %s = fusion.slice %r starts = [0, 0] limits = [2, 3] strides = [1, 2] : tensor<2x3xi32>
  %p = fusion.pad %a, %nine low = [0, 1] high = [0, 0] : tensor<2x3xi32>, tensor<i32>
  // Indices are clamped: 7 reads the last row, and so does the 1 behind it.
  %i = fusion.constant dense<[7, 1]> : tensor<2xi64>
  %g = fusion.gather %a, %i axis = 0 : tensor<2x3xi32>, tensor<2xi64>
  %one = fusion.slice %g starts = [0, 0] limits = [1, 3] strides = [1, 1] : tensor<2x3xi32>
  %back = fusion.reverse %one dims = [1] : tensor<1x3xi32>
  %two = fusion.slice %g starts = [1, 0] limits = [2, 3] strides = [1, 1] : tensor<2x3xi32>
  %c = fusion.concat %back, %two axis = 0 : tensor<1x3xi32>, tensor<1x3xi32>
  return %t, %s, %p, %c : tensor<3x2xi32>, tensor<2x2xi32>, tensor<2x4xi32>, tensor<2x3xi32>
}

// -----

// Sums and products; i1 max is "or"; empty sums are 0, empty products 1.
// CHECK-LABEL: func @reductions
// CHECK: dense<[6, 15]> : tensor<2xi32>
// CHECK: dense<[4, 10, 18]> : tensor<3xi32>
// CHECK: dense<[true, false]> : tensor<2xi1>
// CHECK: dense<0> : tensor<i32>
// CHECK: dense<1> : tensor<i32>
// CHECK: dense<{{\[}}[14, 32], [32, 77]]> : tensor<2x2xi32>
func.func @reductions() -> (tensor<2xi32>, tensor<3xi32>, tensor<2xi1>, tensor<i32>, tensor<i32>, tensor<2x2xi32>) {
  %a = fusion.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
  %s = fusion.reduce sum, %a dims = [1] : tensor<2x3xi32>
  %p = fusion.reduce prod, %a dims = [0] : tensor<2x3xi32>
  %b = fusion.constant dense<[[true, false], [false, false]]> : tensor<2x2xi1>
  %o = fusion.reduce max, %b dims = [1] : tensor<2x2xi1>
  %e = fusion.constant dense<> : tensor<0xi32>
  %z = fusion.reduce sum, %e dims = [0] : tensor<0xi32>
  %u = fusion.reduce prod, %e dims = [0] : tensor<0xi32>
  %m = fusion.matmul %a, %a {transpose_rhs} : tensor<2x3xi32>, tensor<2x3xi32>
  return %s, %p, %o, %z, %u, %m : tensor<2xi32>, tensor<3xi32>, tensor<2xi1>, tensor<i32>, tensor<i32>, tensor<2x2xi32>
}

// -----

// f16 is computed in f32 and rounded: 2049 rounds to 2048 (even).
// Rank 0, bf16: 1 + 2^-8 is a tie, which goes to 1 (even).
// CHECK-LABEL: func @narrow
// CHECK: dense<2.048000e+03> : tensor<1xf16>
// CHECK: dense<1.000000e+00> : tensor<bf16>
func.func @narrow() -> (tensor<1xf16>, tensor<bf16>) {
  %a = fusion.constant dense<2048.0> : tensor<1xf16>
  %b = fusion.constant dense<1.0> : tensor<1xf16>
  %s = fusion.add %a, %b : tensor<1xf16>
  %c = fusion.constant dense<1.0> : tensor<bf16>
  %d = fusion.constant dense<0.00390625> : tensor<bf16>
  %t = fusion.add %c, %d : tensor<bf16>
  return %s, %t : tensor<1xf16>, tensor<bf16>
}

// -----

// A broadcast that an op at run time reads is kept: as an op it costs nothing.
// For another constant it is evaluated.
// CHECK-LABEL: func @broadcast
// CHECK: %[[B:.*]] = fusion.broadcast %{{.*}} dims = [1] : tensor<2xf32> to tensor<3x2xf32>
// CHECK: fusion.add %{{.*}}, %[[B]]
// CHECK-NOT: fusion.mul
// CHECK: dense<{{\[}}[1.000000e+00, 4.000000e+00], [3.000000e+00, 8.000000e+00], [5.000000e+00, 1.200000e+01]]>
func.func @broadcast(%x: tensor<3x2xf32>) -> (tensor<3x2xf32>, tensor<3x2xf32>) {
  %a = fusion.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %b = fusion.broadcast %a dims = [1] : tensor<2xf32> to tensor<3x2xf32>
  %y = fusion.add %x, %b : tensor<3x2xf32>
  %c = fusion.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]> : tensor<3x2xf32>
  %z = fusion.mul %c, %b : tensor<3x2xf32>
  return %y, %z : tensor<3x2xf32>, tensor<3x2xf32>
}

// -----

// A constant parameter is known, a state parameter isn't; a parameter that
// nothing reads any more goes away.
// CHECK-NOT: @weights
// CHECK: fusion.parameter @count state
// CHECK-LABEL: func @parameters
// CHECK: fusion.constant dense<[2.000000e+00, 4.000000e+00]>
// CHECK: fusion.neg
fusion.parameter @weights const value dense<[1.0, 2.0]> : tensor<2xf32> : tensor<2xf32>
fusion.parameter @count state value dense<[1.0, 2.0]> : tensor<2xf32> : tensor<2xf32>
func.func @parameters() -> (tensor<2xf32>, tensor<2xf32>) {
  %w = fusion.get_parameter @weights : tensor<2xf32>
  %y = fusion.add %w, %w : tensor<2xf32>
  %s = fusion.get_parameter @count : tensor<2xf32>
  %z = fusion.neg %s : tensor<2xf32>
  return %y, %z : tensor<2xf32>, tensor<2xf32>
}

// -----

// A sum starts at 0, also where it has one element.
// CHECK-LABEL: func.func @sum_of_negative_zeros
func.func @sum_of_negative_zeros() -> (tensor<2xf32> {fusion.name = "y"}, tensor<f32> {fusion.name = "z"}) {
  // CHECK-DAG: fusion.constant dense<0.000000e+00> : tensor<2xf32>
  // CHECK-DAG: fusion.constant dense<0.000000e+00> : tensor<f32>
  // CHECK-NOT: fusion.reduce
  %a = fusion.constant dense<-0.0> : tensor<2x1xf32>
  %y = fusion.reduce sum, %a dims = [1] : tensor<2x1xf32>
  %b = fusion.constant dense<-0.0> : tensor<3xf32>
  %z = fusion.reduce mean, %b dims = [0] : tensor<3xf32>
  return %y, %z : tensor<2xf32>, tensor<f32>
}

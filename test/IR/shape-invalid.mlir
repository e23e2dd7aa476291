// RUN: fusion-opt %s -split-input-file -verify-diagnostics

// What the verifiers of the shape ops refuse, constraint by constraint.

// constant C1: no batch dimension.
func.func @test() {
  // expected-error @+1 {{failed to verify that all of {value, result} have same type}}
  %r = "fusion.constant"() <{value = dense<0.0> : tensor<4xf32>}> : () -> tensor<?xf32>
  return
}

// -----

// broadcast C1: one entry a dimension.
func.func @test(%x: tensor<8xf32>) {
  // expected-error @+1 {{'dims' must have one entry for each of the 1 operand dimensions, but has 0}}
  %r = fusion.broadcast %x dims = [] : tensor<8xf32> to tensor<2x8xf32>
  return
}

// -----

// broadcast C1: strictly increasing.
func.func @test(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{strictly increasing}}
  %r = fusion.broadcast %x dims = [1, 0] : tensor<8x8xf32> to tensor<8x8xf32>
  return
}

// -----

// broadcast C1: below the rank of the result.
func.func @test(%x: tensor<8xf32>) {
  // expected-error @+1 {{strictly increasing and below the result's rank 2}}
  %r = fusion.broadcast %x dims = [2] : tensor<8xf32> to tensor<2x8xf32>
  return
}

// -----

// broadcast C1: not negative.
func.func @test(%x: tensor<8xf32>) {
  // expected-error @+1 {{strictly increasing and below the result's rank 2}}
  %r = fusion.broadcast %x dims = [-1] : tensor<8xf32> to tensor<2x8xf32>
  return
}

// -----

// broadcast C2: equal sizes.
func.func @test(%x: tensor<8xf32>) {
  // expected-error @+1 {{operand dimension 0 has another size than result dimension 0}}
  %r = fusion.broadcast %x dims = [0] : tensor<8xf32> to tensor<2x8xf32>
  return
}

// -----

// broadcast C2: a batch is not repeated.
func.func @test(%x: tensor<?xf32>) {
  // expected-error @+1 {{operand dimension 0 has another size than result dimension 0}}
  %r = fusion.broadcast %x dims = [0] : tensor<?xf32> to tensor<4xf32>
  return
}

// -----

// broadcast C3: one element type.
func.func @test(%x: tensor<8xf32>) {
  // expected-error @+1 {{element types}}
  %r = fusion.broadcast %x dims = [1] : tensor<8xf32> to tensor<2x8xf64>
  return
}

// -----

// broadcast C4: a batch has elements.
func.func @test(%x: tensor<8xf32>) {
  // expected-error @+1 {{'batch_scale' must be at least 1}}
  %r = fusion.broadcast %x dims = [1] {batch_scale = 0 : i64} : tensor<8xf32> to tensor<?x8xf32>
  return
}

// -----

// broadcast C5: not too many elements.
func.func @test(%x: tensor<f32>) {
  // expected-error @+1 {{at most 2^48 elements}}
  %r = fusion.broadcast %x dims = [] : tensor<f32> to tensor<9223372036854775807x4xf32>
  return
}

// -----

// reshape C1: one element type.
func.func @test(%x: tensor<6xf32>) {
  // expected-error @+1 {{element types of operand and result differ}}
  %r = fusion.reshape %x : tensor<6xf32> to tensor<6xi32>
  return
}

// -----

// reshape C2: as many elements.
func.func @test(%x: tensor<6xf32>) {
  // expected-error @+1 {{cannot reshape 6 elements to 7}}
  %r = fusion.reshape %x : tensor<6xf32> to tensor<7xf32>
  return
}

// -----

// reshape C2: overflow is noticed.
func.func @test(%x: tensor<4xf32>) {
  // expected-error @+1 {{at most 2^48 elements}}
  %r = fusion.reshape %x : tensor<4xf32> to tensor<4294967296x4294967296xf32>
  return
}

// -----

// reshape C3: one batch a side.
func.func @test(%x: tensor<?x?xf32>) {
  // expected-error @+1 {{at most one batch dimension}}
  %r = fusion.reshape %x : tensor<?x?xf32> to tensor<?xf32>
  return
}

// -----

// reshape C3: a batch stays one.
func.func @test(%x: tensor<?xf32>) {
  // expected-error @+1 {{a batch dimension on one side needs one on the other}}
  %r = fusion.reshape %x : tensor<?xf32> to tensor<4xf32>
  return
}

// -----

// reshape C3: the sizes divide.
func.func @test(%x: tensor<?x6xf32>) {
  // expected-error @+1 {{cannot be divided}}
  %r = fusion.reshape %x : tensor<?x6xf32> to tensor<?x4xf32>
  return
}

// -----

// reshape C3: empty stays empty.
func.func @test(%x: tensor<?x0xf32>) {
  // expected-error @+1 {{between empty and not empty}}
  %r = fusion.reshape %x : tensor<?x0xf32> to tensor<?x4xf32>
  return
}

// -----

// transpose C1: a permutation.
func.func @test(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{must have 2 entries}}
  %r = fusion.transpose %x permutation = [0] : tensor<2x3xf32>
  return
}

// -----

// transpose C1: a permutation.
func.func @test(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{not a permutation}}
  %r = fusion.transpose %x permutation = [0, 0] : tensor<2x3xf32>
  return
}

// -----

// transpose C1: a permutation.
func.func @test(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{not a permutation}}
  %r = fusion.transpose %x permutation = [0, 2] : tensor<2x3xf32>
  return
}

// -----

// transpose C1: a permutation.
func.func @test(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{not a permutation}}
  %r = fusion.transpose %x permutation = [-1, 0] : tensor<2x3xf32>
  return
}

// -----

// slice C1: one entry a dimension.
func.func @test(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{'starts' must have 2 entries}}
  %r = fusion.slice %x starts = [0] limits = [2, 4] strides = [1, 1] : tensor<2x4xf32>
  return
}

// -----

// slice C1: one entry a dimension.
func.func @test(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{'limits' must have 2 entries}}
  %r = fusion.slice %x starts = [0, 0] limits = [2, 4, 1] strides = [1, 1] : tensor<2x4xf32>
  return
}

// -----

// slice C1: one entry a dimension.
func.func @test(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{'strides' must have 2 entries}}
  %r = fusion.slice %x starts = [0, 0] limits = [2, 4] strides = [] : tensor<2x4xf32>
  return
}

// -----

// slice C2: starts not negative.
func.func @test(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{'starts' has the entry -1}}
  %r = fusion.slice %x starts = [0, -1] limits = [2, 4] strides = [1, 1] : tensor<2x4xf32>
  return
}

// -----

// slice C2: limits not below the starts.
func.func @test(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{cannot be cut to}}
  %r = fusion.slice %x starts = [0, 3] limits = [2, 2] strides = [1, 1] : tensor<2x4xf32>
  return
}

// -----

// slice C2: limits not above the size.
func.func @test(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{cannot be cut to}}
  %r = fusion.slice %x starts = [0, 0] limits = [2, 5] strides = [1, 1] : tensor<2x4xf32>
  return
}

// -----

// slice C3: positive strides.
func.func @test(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{'strides' has the entry 0}}
  %r = fusion.slice %x starts = [0, 0] limits = [2, 4] strides = [1, 0] : tensor<2x4xf32>
  return
}

// -----

// slice C2: limits not negative.
func.func @test(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{cannot be cut to}}
  %r = fusion.slice %x starts = [0, 0] limits = [-1, 4] strides = [1, 1] : tensor<2x4xf32>
  return
}

// -----

// slice C4: a batch is taken whole.
func.func @test(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{must be taken whole}}
  %r = fusion.slice %x starts = [0, 0] limits = [2, 4] strides = [1, 1] : tensor<?x4xf32>
  return
}

// -----

// slice C4: a batch is taken whole.
func.func @test(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{must be taken whole}}
  %r = fusion.slice %x starts = [0, 0] limits = [-1, 4] strides = [2, 1] : tensor<?x4xf32>
  return
}

// -----

// reverse C1: distinct dimensions.
func.func @test(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{must be distinct and below the rank 2}}
  %r = fusion.reverse %x dims = [2] : tensor<2x3xf32>
  return
}

// -----

// reverse C1: distinct dimensions.
func.func @test(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{must be distinct and below the rank 2}}
  %r = fusion.reverse %x dims = [-1] : tensor<2x3xf32>
  return
}

// -----

// reverse C1: distinct dimensions.
func.func @test(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{must be distinct and below the rank 2}}
  %r = fusion.reverse %x dims = [0, 0] : tensor<2x3xf32>
  return
}

// -----

// concat C1: an operand.
func.func @test() {
  // expected-error @+2 {{needs at least one operand}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = "fusion.concat"() <{axis = 0 : i64}> : () -> tensor<4xf32>
  return
}

// -----

// concat C2: the axis.
func.func @test(%a: tensor<2x4xf32>) {
  // expected-error @+1 {{outside the rank 2}}
  %r = fusion.concat %a axis = 2 : tensor<2x4xf32>
  return
}

// -----

// concat C2: the axis.
func.func @test(%a: tensor<2x4xf32>) {
  // expected-error @+1 {{outside the rank 2}}
  %r = fusion.concat %a axis = -1 : tensor<2x4xf32>
  return
}

// -----

// concat C2: a scalar has no axis.
func.func @test(%a: tensor<f32>) {
  // expected-error @+1 {{outside the rank 0}}
  %r = fusion.concat %a axis = 0 : tensor<f32>
  return
}

// -----

// concat C3: one rank.
func.func @test(%a: tensor<2x4xf32>, %b: tensor<4xf32>) {
  // expected-error @+1 {{operand 1 differs from the first in rank or element type}}
  %r = fusion.concat %a, %b axis = 0 : tensor<2x4xf32>, tensor<4xf32>
  return
}

// -----

// concat C3: one element type.
func.func @test(%a: tensor<2x4xf32>, %b: tensor<2x4xf16>) {
  // expected-error @+1 {{operand 1 differs from the first in rank or element type}}
  %r = fusion.concat %a, %b axis = 0 : tensor<2x4xf32>, tensor<2x4xf16>
  return
}

// -----

// concat C3: the other dimensions.
func.func @test(%a: tensor<2x4xf32>, %b: tensor<2x5xf32>) {
  // expected-error @+1 {{operand 1 differs from the first in dimension 1}}
  %r = fusion.concat %a, %b axis = 0 : tensor<2x4xf32>, tensor<2x5xf32>
  return
}

// -----

// pad C1: one entry a dimension.
func.func @test(%x: tensor<2x3xf32>, %v: tensor<f32>) {
  // expected-error @+1 {{'low' must have 2 entries}}
  %r = fusion.pad %x, %v low = [0] high = [0, 0] : tensor<2x3xf32>, tensor<f32>
  return
}

// -----

// pad C1: one entry a dimension.
func.func @test(%x: tensor<2x3xf32>, %v: tensor<f32>) {
  // expected-error @+1 {{'high' must have 2 entries}}
  %r = fusion.pad %x, %v low = [0, 0] high = [0] : tensor<2x3xf32>, tensor<f32>
  return
}

// -----

// pad C1: not negative.
func.func @test(%x: tensor<2x3xf32>, %v: tensor<f32>) {
  // expected-error @+1 {{'high' has the entry -1}}
  %r = fusion.pad %x, %v low = [0, 0] high = [0, -1] : tensor<2x3xf32>, tensor<f32>
  return
}

// -----

// pad C2: a scalar.
func.func @test(%x: tensor<2xf32>, %v: tensor<1xf32>) {
  // expected-error @+1 {{must be a scalar}}
  %r = fusion.pad %x, %v low = [0] high = [1] : tensor<2xf32>, tensor<1xf32>
  return
}

// -----

// pad C2: of the element type.
func.func @test(%x: tensor<2xf32>, %v: tensor<f64>) {
  // expected-error @+1 {{must be a scalar}}
  %r = fusion.pad %x, %v low = [0] high = [1] : tensor<2xf32>, tensor<f64>
  return
}

// -----

// pad C3: a batch is not padded.
func.func @test(%x: tensor<?xf32>, %v: tensor<f32>) {
  // expected-error @+1 {{cannot be padded}}
  %r = fusion.pad %x, %v low = [0] high = [1] : tensor<?xf32>, tensor<f32>
  return
}

// -----

// pad: sizes do not overflow.
func.func @test(%x: tensor<2xf32>, %v: tensor<f32>) {
  // expected-error @+1 {{overflows}}
  %r = fusion.pad %x, %v low = [9223372036854775807] high = [9223372036854775807] : tensor<2xf32>, tensor<f32>
  return
}

// -----

// iota C1: the axis.
func.func @test() {
  // expected-error @+1 {{axis 2 is outside the rank 2}}
  %r = fusion.iota axis = 2 : tensor<2x4xi64>
  return
}

// -----

// iota C1: the axis.
func.func @test() {
  // expected-error @+1 {{axis -1 is outside the rank 2}}
  %r = fusion.iota axis = -1 : tensor<2x4xi64>
  return
}

// -----

// iota C1: a scalar has no axis.
func.func @test() {
  // expected-error @+1 {{outside the rank 0}}
  %r = fusion.iota axis = 0 : tensor<i64>
  return
}

// -----

// iota C2: a batch has elements.
func.func @test() {
  // expected-error @+1 {{'batch_scale' must be at least 1}}
  %r = fusion.iota axis = 0 {batch_scale = -1 : i64} : tensor<?xi64>
  return
}

// -----

// A batch is not a size: also where the result's type is written.
func.func @test(%x: tensor<?xf32>) {
  // expected-error @+2 {{inferred type(s) 'tensor<?xf32>' are incompatible}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = "fusion.reverse"(%x) <{dims = array<i64: 0>}> : (tensor<?xf32>) -> tensor<4xf32>
  return
}

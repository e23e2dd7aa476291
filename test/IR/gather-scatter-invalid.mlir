// RUN: fusion-opt %s -split-input-file -verify-diagnostics

// What gathers and scatters refuse, constraint by constraint.

// gather C1, C2: axis and batch dimensions.
func.func @test(%x: tensor<4x8xf32>, %i: tensor<3xi64>) {
  // expected-error @+1 {{0 <= batch_dims <= axis < rank}}
  %r = fusion.gather %x, %i axis = 2 {batch_dims = 0 : i64} : tensor<4x8xf32>, tensor<3xi64>
  return
}

// -----

// gather C1, C2: axis and batch dimensions.
func.func @test(%x: tensor<4x8xf32>, %i: tensor<3xi64>) {
  // expected-error @+1 {{0 <= batch_dims <= axis < rank}}
  %r = fusion.gather %x, %i axis = -1 {batch_dims = 0 : i64} : tensor<4x8xf32>, tensor<3xi64>
  return
}

// -----

// gather C1, C2: axis and batch dimensions.
func.func @test(%x: tensor<4x8xf32>, %i: tensor<3xi64>) {
  // expected-error @+1 {{0 <= batch_dims <= axis < rank}}
  %r = fusion.gather %x, %i axis = 0 {batch_dims = 1 : i64} : tensor<4x8xf32>, tensor<3xi64>
  return
}

// -----

// gather C1, C2: axis and batch dimensions.
func.func @test(%x: tensor<4x8xf32>, %i: tensor<3xi64>) {
  // expected-error @+1 {{0 <= batch_dims <= axis < rank}}
  %r = fusion.gather %x, %i axis = 1 {batch_dims = -1 : i64} : tensor<4x8xf32>, tensor<3xi64>
  return
}

// -----

// gather C1, C2: axis and batch dimensions.
func.func @test(%x: tensor<4x8xf32>, %i: tensor<3xi64>) {
  // expected-error @+1 {{the batch dimension 0 differs}}
  %r = fusion.gather %x, %i axis = 1 {batch_dims = 1 : i64} : tensor<4x8xf32>, tensor<3xi64>
  return
}

// -----

// gather C3: a static dimension.
func.func @test(%x: tensor<?x8xf32>, %i: tensor<3xi64>) {
  // expected-error @+1 {{must be static}}
  %r = fusion.gather %x, %i axis = 0 : tensor<?x8xf32>, tensor<3xi64>
  return
}

// -----

// gather C3: not empty.
func.func @test(%x: tensor<0x8xf32>, %i: tensor<3xi64>) {
  // expected-error @+1 {{cannot gather from the empty dimension 0}}
  %r = fusion.gather %x, %i axis = 0 : tensor<0x8xf32>, tensor<3xi64>
  return
}

// -----

// gather_nd C1: rank of the indices.
func.func @test(%x: tensor<4x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{need a static last dimension}}
  %r = fusion.gather_nd %x, %i : tensor<4x8xf32>, tensor<i64>
  return
}

// -----

// gather_nd C1: a static last dimension.
func.func @test(%x: tensor<4x8xf32>, %i: tensor<3x?xi64>) {
  // expected-error @+1 {{need a static last dimension}}
  %r = fusion.gather_nd %x, %i : tensor<4x8xf32>, tensor<3x?xi64>
  return
}

// -----

// gather_nd C2: not deeper than the input.
func.func @test(%x: tensor<4x8xf32>, %i: tensor<3x3xi64>) {
  // expected-error @+1 {{batch_dims + k <= rank}}
  %r = fusion.gather_nd %x, %i : tensor<4x8xf32>, tensor<3x3xi64>
  return
}

// -----

// gather_nd C2: batch dimensions in both.
func.func @test(%x: tensor<4x8xf32>, %i: tensor<2xi64>) {
  // expected-error @+1 {{batch_dims + k <= rank}}
  %r = fusion.gather_nd %x, %i {batch_dims = 1 : i64} : tensor<4x8xf32>, tensor<2xi64>
  return
}

// -----

// gather_nd C2: batch dimensions in both.
func.func @test(%x: tensor<4x8xf32>, %i: tensor<2xi64>) {
  // expected-error @+1 {{batch_dims + k <= rank}}
  %r = fusion.gather_nd %x, %i {batch_dims = -1 : i64} : tensor<4x8xf32>, tensor<2xi64>
  return
}

// -----

// gather_nd C2: batch dimensions in both.
func.func @test(%x: tensor<4x8xf32>, %i: tensor<2xi64>) {
  // expected-error @+1 {{batch_dims + k <= rank}}
  %r = fusion.gather_nd %x, %i {batch_dims = 9223372036854775807 : i64} : tensor<4x8xf32>, tensor<2xi64>
  return
}

// -----

// gather_nd C3: batch dimensions agree.
func.func @test(%x: tensor<4x8xf32>, %i: tensor<3x1xi64>) {
  // expected-error @+1 {{the batch dimension 0 differs}}
  %r = fusion.gather_nd %x, %i {batch_dims = 1 : i64} : tensor<4x8xf32>, tensor<3x1xi64>
  return
}

// -----

// gather_nd C4: static dimensions.
func.func @test(%x: tensor<?x8xf32>, %i: tensor<3x1xi64>) {
  // expected-error @+1 {{must be static}}
  %r = fusion.gather_nd %x, %i : tensor<?x8xf32>, tensor<3x1xi64>
  return
}

// -----

// gather_nd C4: not empty.
func.func @test(%x: tensor<0x8xf32>, %i: tensor<3x1xi64>) {
  // expected-error @+1 {{cannot gather from the empty dimension 0}}
  %r = fusion.gather_nd %x, %i : tensor<0x8xf32>, tensor<3x1xi64>
  return
}

// -----

// scatter C1: rank of the indices.
func.func @test(%x: tensor<4xf32>, %i: tensor<i64>, %u: tensor<4xf32>) {
  // expected-error @+1 {{need a static last dimension}}
  %r = fusion.scatter set, %x, %i, %u : tensor<4xf32>, tensor<i64>, tensor<4xf32>
  return
}

// -----

// scatter C1: not deeper than the input.
func.func @test(%x: tensor<4xf32>, %i: tensor<3x2xi64>, %u: tensor<3xf32>) {
  // expected-error @+1 {{index vectors of 2 entries for an input of rank 1}}
  %r = fusion.scatter set, %x, %i, %u : tensor<4xf32>, tensor<3x2xi64>, tensor<3xf32>
  return
}

// -----

// scatter C2: the shape of the updates.
func.func @test(%x: tensor<4x8xf32>, %i: tensor<3x1xi64>, %u: tensor<3x7xf32>) {
  // expected-error @+1 {{the updates' shape must be}}
  %r = fusion.scatter set, %x, %i, %u : tensor<4x8xf32>, tensor<3x1xi64>, tensor<3x7xf32>
  return
}

// -----

// scatter C3: one element type.
func.func @test(%x: tensor<4xf32>, %i: tensor<3x1xi64>, %u: tensor<3xf16>) {
  // expected-error @+1 {{element types of input and updates differ}}
  %r = fusion.scatter set, %x, %i, %u : tensor<4xf32>, tensor<3x1xi64>, tensor<3xf16>
  return
}

// -----

// scatter C4: numbers to combine.
func.func @test(%x: tensor<4xi1>, %i: tensor<3x1xi64>, %u: tensor<3xi1>) {
  // expected-error @+1 {{i1 can only be set}}
  %r = fusion.scatter add, %x, %i, %u : tensor<4xi1>, tensor<3x1xi64>, tensor<3xi1>
  return
}

// -----

// update_slice C1: one start a dimension.
func.func @test(%x: tensor<4x8xf32>, %u: tensor<1x8xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{needs one start for each of the 2 dimensions, but has 1}}
  %r = fusion.update_slice %x, %u at(%i) : tensor<4x8xf32>, tensor<1x8xf32>, tensor<i64>
  return
}

// -----

// update_slice C2: one rank.
func.func @test(%x: tensor<4xf32>, %u: tensor<f32>, %i: tensor<i64>) {
  // expected-error @+1 {{differ in rank or element type}}
  %r = fusion.update_slice %x, %u at(%i) : tensor<4xf32>, tensor<f32>, tensor<i64>
  return
}

// -----

// update_slice C2: one element type.
func.func @test(%x: tensor<4xf32>, %u: tensor<4xf64>, %i: tensor<i64>) {
  // expected-error @+1 {{differ in rank or element type}}
  %r = fusion.update_slice %x, %u at(%i) : tensor<4xf32>, tensor<4xf64>, tensor<i64>
  return
}

// -----

// update_slice C3: not larger.
func.func @test(%x: tensor<4xf32>, %u: tensor<5xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{the update does not fit dimension 0}}
  %r = fusion.update_slice %x, %u at(%i) : tensor<4xf32>, tensor<5xf32>, tensor<i64>
  return
}

// -----

// update_slice C3: a batch is replaced whole.
func.func @test(%x: tensor<?xf32>, %u: tensor<1xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{the update does not fit dimension 0}}
  %r = fusion.update_slice %x, %u at(%i) : tensor<?xf32>, tensor<1xf32>, tensor<i64>
  return
}

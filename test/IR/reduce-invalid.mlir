// RUN: fusion-opt %s -split-input-file -verify-diagnostics

// What reductions refuse, constraint by constraint.

// reduce C1: dimensions.
func.func @test(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{strictly increasing}}
  %r = fusion.reduce sum, %x dims = [1, 0] : tensor<2x4xf32>
  return
}

// -----

// reduce C1: dimensions.
func.func @test(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{strictly increasing}}
  %r = fusion.reduce sum, %x dims = [0, 0] : tensor<2x4xf32>
  return
}

// -----

// reduce C1: dimensions.
func.func @test(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{outside the rank 2}}
  %r = fusion.reduce sum, %x dims = [2] : tensor<2x4xf32>
  return
}

// -----

// reduce C1: dimensions.
func.func @test(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{outside the rank 2}}
  %r = fusion.reduce sum, %x dims = [-1] : tensor<2x4xf32>
  return
}

// -----

// reduce C2: a value to find.
func.func @test(%x: tensor<2x0xf32>) {
  // expected-error @+1 {{along an empty dimension has no value}}
  %r = fusion.reduce max, %x dims = [1] : tensor<2x0xf32>
  return
}

// -----

// reduce C2: a value to find.
func.func @test(%x: tensor<2x0xf32>) {
  // expected-error @+1 {{along an empty dimension has no value}}
  %r = fusion.reduce min, %x dims = [1] : tensor<2x0xf32>
  return
}

// -----

// reduce C3: mean of floats.
func.func @test(%x: tensor<2x4xi32>) {
  // expected-error @+1 {{'mean' needs floats}}
  %r = fusion.reduce mean, %x dims = [1] : tensor<2x4xi32>
  return
}

// -----

// reduce C4: i1.
func.func @test(%x: tensor<2x4xi1>) {
  // expected-error @+1 {{i1 reduces only with 'max'}}
  %r = fusion.reduce sum, %x dims = [1] : tensor<2x4xi1>
  return
}

// -----

// reduce C4: i1.
func.func @test(%x: tensor<2x4xi1>) {
  // expected-error @+1 {{i1 reduces only with 'max'}}
  %r = fusion.reduce prod, %x dims = [1] : tensor<2x4xi1>
  return
}

// -----

// reduce: a known kind.
func.func @test(%x: tensor<2x4xf32>) {
  // expected-error @+2 {{expected ::fusion::ReduceKind to be one of}}
  // expected-error @+1 {{failed to parse Fusion_ReduceKindAttr}}
  %r = fusion.reduce product, %x dims = [1] : tensor<2x4xf32>
  return
}

// -----

// arg_max C1: the axis.
func.func @test(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{outside the rank 2}}
  %r = fusion.arg_max %x axis = 2 : tensor<2x4xf32>
  return
}

// -----

// arg_max C1: the axis.
func.func @test(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{outside the rank 2}}
  %r = fusion.arg_max %x axis = -1 : tensor<2x4xf32>
  return
}

// -----

// arg_max C2: a value to find.
func.func @test(%x: tensor<2x0xf32>) {
  // expected-error @+1 {{the dimension 1 is empty}}
  %r = fusion.arg_max %x axis = 1 : tensor<2x0xf32>
  return
}

// -----

// arg_min C1: the axis.
func.func @test(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{outside the rank 2}}
  %r = fusion.arg_min %x axis = 2 : tensor<2x4xf32>
  return
}

// -----

// arg_min C1: the axis.
func.func @test(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{outside the rank 2}}
  %r = fusion.arg_min %x axis = -1 : tensor<2x4xf32>
  return
}

// -----

// arg_min C2: a value to find.
func.func @test(%x: tensor<2x0xf32>) {
  // expected-error @+1 {{the dimension 1 is empty}}
  %r = fusion.arg_min %x axis = 1 : tensor<2x0xf32>
  return
}

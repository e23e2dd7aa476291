// RUN: fusion-opt %s -split-input-file -verify-diagnostics

// What matmul refuses, constraint by constraint.

// matmul C1: ranks of at least 2.
func.func @test(%a: tensor<4xf32>, %b: tensor<4x3xf32>) {
  // expected-error @+1 {{needs ranks >= 2}}
  %r = fusion.matmul %a, %b : tensor<4xf32>, tensor<4x3xf32>
  return
}

// -----

// matmul C1: equal ranks.
func.func @test(%a: tensor<2x4xf32>, %b: tensor<1x4x3xf32>) {
  // expected-error @+1 {{needs ranks >= 2}}
  %r = fusion.matmul %a, %b : tensor<2x4xf32>, tensor<1x4x3xf32>
  return
}

// -----

// matmul C2: batch dimensions.
func.func @test(%a: tensor<2x2x4xf32>, %b: tensor<3x4x3xf32>) {
  // expected-error @+1 {{the batch dimension 0 differs}}
  %r = fusion.matmul %a, %b : tensor<2x2x4xf32>, tensor<3x4x3xf32>
  return
}

// -----

// matmul C3: the contracted size.
func.func @test(%a: tensor<2x4xf32>, %b: tensor<3x3xf32>) {
  // expected-error @+1 {{contracted sizes differ: 4 and 3}}
  %r = fusion.matmul %a, %b : tensor<2x4xf32>, tensor<3x3xf32>
  return
}

// -----

// matmul C3: transposes count.
func.func @test(%a: tensor<2x4xf32>, %b: tensor<4x3xf32>) {
  // expected-error @+1 {{contracted sizes differ: 4 and 3}}
  %r = fusion.matmul %a, %b {transpose_rhs} : tensor<2x4xf32>, tensor<4x3xf32>
  return
}

// -----

// matmul C3: a static contracted size.
func.func @test(%a: tensor<2x?xf32>, %b: tensor<?x3xf32>) {
  // expected-error @+1 {{must be static}}
  %r = fusion.matmul %a, %b : tensor<2x?xf32>, tensor<?x3xf32>
  return
}

// -----

// matmul C4: one element type.
func.func @test(%a: tensor<2x4xf32>, %b: tensor<4x3xf16>) {
  // expected-error @+1 {{element types differ}}
  %r = fusion.matmul %a, %b : tensor<2x4xf32>, tensor<4x3xf16>
  return
}

// -----

// matmul C4: numbers.
func.func @test(%a: tensor<2x4xi1>, %b: tensor<4x3xi1>) {
  // expected-error @+1 {{of number values}}
  %r = fusion.matmul %a, %b : tensor<2x4xi1>, tensor<4x3xi1>
  return
}

// -----

// matmul: the result is not too large.
func.func @test(%a: tensor<4294967296x1xf32>, %b: tensor<1x4294967296xf32>) {
  // expected-error @+1 {{more than 2^48 elements}}
  %r = fusion.matmul %a, %b : tensor<4294967296x1xf32>, tensor<1x4294967296xf32>
  return
}

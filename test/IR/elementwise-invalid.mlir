// RUN: fusion-opt %s -split-input-file -verify-diagnostics

// What elementwise ops refuse: element types, shapes, attributes.

// exp of an integer.
func.func @test(%x: tensor<4xi32>) {
  // expected-error @+1 {{of float (f64, f32, f16 or bf16) values}}
  %r = fusion.exp %x : tensor<4xi32>
  return
}

// -----

// neg of i1.
func.func @test(%x: tensor<4xi1>) {
  // expected-error @+1 {{of number values}}
  %r = fusion.neg %x : tensor<4xi1>
  return
}

// -----

// an element type outside the dialect.
func.func @test(%x: tensor<4xi16>) {
  // expected-error @+1 {{of number values}}
  %r = fusion.abs %x : tensor<4xi16>
  return
}

// -----

// not of a float.
func.func @test(%x: tensor<4xf32>) {
  // expected-error @+1 {{of 1-bit signless integer or 8-bit signless integer}}
  %r = fusion.not %x : tensor<4xf32>
  return
}

// -----

// shift of i1.
func.func @test(%x: tensor<4xi1>) {
  // expected-error @+1 {{of integer (i8, i32 or i64) values}}
  %r = fusion.shift_left %x, %x : tensor<4xi1>
  return
}

// -----

// pow of integers.
func.func @test(%x: tensor<4xi64>) {
  // expected-error @+1 {{of float (f64, f32, f16 or bf16) values}}
  %r = fusion.pow %x, %x : tensor<4xi64>
  return
}

// -----

// and of floats.
func.func @test(%x: tensor<4xf32>) {
  // expected-error @+1 {{of 1-bit signless integer or 8-bit signless integer}}
  %r = fusion.and %x, %x : tensor<4xf32>
  return
}

// -----

// is_nan of an integer.
func.func @test(%x: tensor<4xi32>) {
  // expected-error @+1 {{of float (f64, f32, f16 or bf16) values}}
  %r = fusion.is_nan %x : tensor<4xi32>
  return
}

// -----

// operands of two shapes: broadcasting is explicit.
func.func @test(%x: tensor<4xf32>, %y: tensor<1xf32>) {
  // expected-error @+1 {{operands and result must have one shape}}
  %r = "fusion.add"(%x, %y) : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
  return
}

// -----

// operands of two element types.
func.func @test(%x: tensor<4xf32>, %y: tensor<4xf64>) {
  // expected-error @+1 {{requires the same type for all operands and results}}
  %r = "fusion.add"(%x, %y) : (tensor<4xf32>, tensor<4xf64>) -> tensor<4xf32>
  return
}

// -----

// a batch is not a size.
func.func @test(%x: tensor<?xf32>, %y: tensor<4xf32>) {
  // expected-error @+1 {{operands and result must have one shape, but 'tensor<4xf32>' and 'tensor<?xf32>' differ}}
  %r = "fusion.max"(%x, %y) : (tensor<?xf32>, tensor<4xf32>) -> tensor<?xf32>
  return
}

// -----

// a batch is not a size.
func.func @test(%x: tensor<?xf32>) {
  // expected-error @+1 {{operands and result must have one shape}}
  %r = fusion.cast %x : tensor<?xf32> to tensor<4xf16>
  return
}

// -----

// a batch is not a size.
func.func @test(%c: tensor<?xi1>, %x: tensor<4xf32>) {
  // expected-error @+1 {{operands and result must have one shape}}
  %r = fusion.select %c, %x, %x : tensor<?xi1>, tensor<4xf32>
  return
}

// -----

// compare of two element types.
func.func @test(%x: tensor<4xf32>, %y: tensor<4xi32>) {
  // expected-error @+1 {{failed to verify that all of {lhs, rhs} have same type}}
  %r = "fusion.compare"(%x, %y) <{kind = #fusion<compare_kind lt>}> : (tensor<4xf32>, tensor<4xi32>) -> tensor<4xi1>
  return
}

// -----

// compare gives i1.
func.func @test(%x: tensor<4xf32>) {
  // expected-error @+1 {{must be ranked tensor (at most 2^48 elements) of 1-bit signless integer values}}
  %r = "fusion.compare"(%x, %x) <{kind = #fusion<compare_kind lt>}> : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// select by i1.
func.func @test(%c: tensor<4xi8>, %x: tensor<4xf32>) {
  // expected-error @+1 {{must be ranked tensor (at most 2^48 elements) of 1-bit signless integer values}}
  %r = fusion.select %c, %x, %x : tensor<4xi8>, tensor<4xf32>
  return
}

// -----

// select with a condition of another shape.
func.func @test(%c: tensor<i1>, %x: tensor<4xf32>) {
  // expected-error @+1 {{operands and result must have one shape}}
  %r = fusion.select %c, %x, %x : tensor<i1>, tensor<4xf32>
  return
}

// -----

// cast keeps the shape.
func.func @test(%x: tensor<4xf32>) {
  // expected-error @+1 {{operands and result must have one shape}}
  %r = fusion.cast %x : tensor<4xf32> to tensor<5xf16>
  return
}

// -----

// cast to an element type outside the dialect.
func.func @test(%x: tensor<4xf32>) {
  // expected-error @+1 {{of element of the fusion dialect values}}
  %r = fusion.cast %x : tensor<4xf32> to tensor<4xindex>
  return
}

// -----

// clamp of i1.
func.func @test(%x: tensor<4xi1>) {
  // expected-error @+1 {{of number values}}
  %r = fusion.clamp %x, %x, %x : tensor<4xi1>
  return
}

// -----

// rng_uniform C1: a static result.
func.func @test(%s: tensor<i64>) {
  // expected-error @+1 {{must have a static result}}
  %r = fusion.rng_uniform %s, %s : tensor<i64>, tensor<i64>, tensor<?xf32>
  return
}

// -----

// rng_uniform of an integer.
func.func @test(%s: tensor<i64>) {
  // expected-error @+1 {{of float (f64, f32, f16 or bf16) values}}
  %r = fusion.rng_uniform %s, %s : tensor<i64>, tensor<i64>, tensor<4xi32>
  return
}

// -----

// sizes beyond any machine.
func.func @test(%x: tensor<9223372036854775807x9223372036854775807xf32>) {
  // expected-error @+1 {{at most 2^48 elements}}
  %r = fusion.neg %x : tensor<9223372036854775807x9223372036854775807xf32>
  return
}

// -----

// an empty dimension hides no size.
func.func @test(%x: tensor<0x9223372036854775807x4xf32>) {
  // expected-error @+1 {{at most 2^48 elements}}
  %r = fusion.neg %x : tensor<0x9223372036854775807x4xf32>
  return
}

// -----

// a batch hides no size.
func.func @test(%x: tensor<?x562949953421312xf32>) {
  // expected-error @+1 {{at most 2^48 elements}}
  %r = fusion.neg %x : tensor<?x562949953421312xf32>
  return
}

// -----

// A tensor without a rank.
func.func @test(%x: tensor<*xf32>) {
  // expected-error @+1 {{must be ranked tensor}}
  %r = "fusion.neg"(%x) : (tensor<*xf32>) -> tensor<*xf32>
  return
}

// -----

// An attribute is missing.
func.func @test(%x: tensor<4xf32>) {
  // expected-error @+1 {{requires attribute 'alpha'}}
  %r = "fusion.elu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// An attribute of another type.
func.func @test(%x: tensor<4xf32>) {
  // expected-error @+1 {{'alpha' failed to satisfy constraint: 64-bit float attribute}}
  %r = "fusion.leaky_relu"(%x) <{alpha = 1.0 : f32}> : (tensor<4xf32>) -> tensor<4xf32>
  return
}

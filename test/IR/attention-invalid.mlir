// RUN: fusion-opt %s -split-input-file -verify-diagnostics

// What attention and rope refuse, constraint by constraint.

// attention C1: rank 4.
func.func @test(%q: tensor<4x8x16xf32>, %k: tensor<1x2x6x16xf32>, %v: tensor<1x2x6x5xf32>) {
  // expected-error @+1 {{need rank 4}}
  %r = fusion.attention %q, %k, %v scale = 1.0 : tensor<4x8x16xf32>, tensor<1x2x6x16xf32>, tensor<1x2x6x5xf32>
  return
}

// -----

// attention C1: rank 4.
func.func @test(%q: tensor<1x4x8x16xf32>, %k: tensor<1x2x6x16xf32>, %v: tensor<2x6x5xf32>) {
  // expected-error @+1 {{need rank 4}}
  %r = fusion.attention %q, %k, %v scale = 1.0 : tensor<1x4x8x16xf32>, tensor<1x2x6x16xf32>, tensor<2x6x5xf32>
  return
}

// -----

// attention C2: the batch.
func.func @test(%q: tensor<1x4x8x16xf32>, %k: tensor<2x2x6x16xf32>, %v: tensor<1x2x6x5xf32>) {
  // expected-error @+1 {{must agree}}
  %r = fusion.attention %q, %k, %v scale = 1.0 : tensor<1x4x8x16xf32>, tensor<2x2x6x16xf32>, tensor<1x2x6x5xf32>
  return
}

// -----

// attention C2: the depth.
func.func @test(%q: tensor<1x4x8x16xf32>, %k: tensor<1x2x6x8xf32>, %v: tensor<1x2x6x5xf32>) {
  // expected-error @+1 {{must agree}}
  %r = fusion.attention %q, %k, %v scale = 1.0 : tensor<1x4x8x16xf32>, tensor<1x2x6x8xf32>, tensor<1x2x6x5xf32>
  return
}

// -----

// attention C2: the length of the keys.
func.func @test(%q: tensor<1x4x8x16xf32>, %k: tensor<1x2x6x16xf32>, %v: tensor<1x2x7x5xf32>) {
  // expected-error @+1 {{must agree}}
  %r = fusion.attention %q, %k, %v scale = 1.0 : tensor<1x4x8x16xf32>, tensor<1x2x6x16xf32>, tensor<1x2x7x5xf32>
  return
}

// -----

// attention C2: one group a value.
func.func @test(%q: tensor<1x4x8x16xf32>, %k: tensor<1x2x6x16xf32>, %v: tensor<1x1x6x5xf32>) {
  // expected-error @+1 {{must agree}}
  %r = fusion.attention %q, %k, %v scale = 1.0 : tensor<1x4x8x16xf32>, tensor<1x2x6x16xf32>, tensor<1x1x6x5xf32>
  return
}

// -----

// attention C2: groups divide heads.
func.func @test(%q: tensor<1x4x8x16xf32>, %k: tensor<1x3x6x16xf32>, %v: tensor<1x3x6x5xf32>) {
  // expected-error @+1 {{must divide that of query heads}}
  %r = fusion.attention %q, %k, %v scale = 1.0 : tensor<1x4x8x16xf32>, tensor<1x3x6x16xf32>, tensor<1x3x6x5xf32>
  return
}

// -----

// attention C2: a group.
func.func @test(%q: tensor<1x4x8x16xf32>, %k: tensor<1x0x6x16xf32>, %v: tensor<1x0x6x5xf32>) {
  // expected-error @+1 {{must divide that of query heads}}
  %r = fusion.attention %q, %k, %v scale = 1.0 : tensor<1x4x8x16xf32>, tensor<1x0x6x16xf32>, tensor<1x0x6x5xf32>
  return
}

// -----

// attention C2: only the batch is dynamic.
func.func @test(%q: tensor<1x4x?x16xf32>, %k: tensor<1x2x6x16xf32>, %v: tensor<1x2x6x5xf32>) {
  // expected-error @+1 {{only dimension 0 may be the batch}}
  %r = fusion.attention %q, %k, %v scale = 1.0 : tensor<1x4x?x16xf32>, tensor<1x2x6x16xf32>, tensor<1x2x6x5xf32>
  return
}

// -----

// attention C3: one element type.
func.func @test(%q: tensor<1x4x8x16xf32>, %k: tensor<1x2x6x16xf16>, %v: tensor<1x2x6x5xf32>) {
  // expected-error @+1 {{element types differ}}
  %r = fusion.attention %q, %k, %v scale = 1.0 : tensor<1x4x8x16xf32>, tensor<1x2x6x16xf16>, tensor<1x2x6x5xf32>
  return
}

// -----

// attention C4: the shape of the mask.
func.func @test(%q: tensor<1x4x8x16xf32>, %k: tensor<1x2x6x16xf32>, %v: tensor<1x2x6x5xf32>, %m: tensor<1x4x8x7xf32>) {
  // expected-error @+1 {{the mask must have the shape}}
  %r = fusion.attention %q, %k, %v mask %m scale = 1.0 : tensor<1x4x8x16xf32>, tensor<1x2x6x16xf32>, tensor<1x2x6x5xf32>, tensor<1x4x8x7xf32>
  return
}

// -----

// attention C4: the heads of the mask.
func.func @test(%q: tensor<1x4x8x16xf32>, %k: tensor<1x2x6x16xf32>, %v: tensor<1x2x6x5xf32>, %m: tensor<1x2x8x6xf32>) {
  // expected-error @+1 {{the mask must have the shape}}
  %r = fusion.attention %q, %k, %v mask %m scale = 1.0 : tensor<1x4x8x16xf32>, tensor<1x2x6x16xf32>, tensor<1x2x6x5xf32>, tensor<1x2x8x6xf32>
  return
}

// -----

// attention C4: the rank of the mask.
func.func @test(%q: tensor<1x4x8x16xf32>, %k: tensor<1x2x6x16xf32>, %v: tensor<1x2x6x5xf32>, %m: tensor<8x6xf32>) {
  // expected-error @+1 {{the mask must have the shape}}
  %r = fusion.attention %q, %k, %v mask %m scale = 1.0 : tensor<1x4x8x16xf32>, tensor<1x2x6x16xf32>, tensor<1x2x6x5xf32>, tensor<8x6xf32>
  return
}

// -----

// attention C4: the type of the mask.
func.func @test(%q: tensor<1x4x8x16xf32>, %k: tensor<1x2x6x16xf32>, %v: tensor<1x2x6x5xf32>, %m: tensor<1x1x8x6xf64>) {
  // expected-error @+1 {{the mask must have the shape}}
  %r = fusion.attention %q, %k, %v mask %m scale = 1.0 : tensor<1x4x8x16xf32>, tensor<1x2x6x16xf32>, tensor<1x2x6x5xf32>, tensor<1x1x8x6xf64>
  return
}

// -----

// rope C1: rank of at least 2.
func.func @test(%x: tensor<16xf32>, %c: tensor<8x8xf32>) {
  // expected-error @+1 {{needs rank >= 2}}
  %r = fusion.rope %x, %c, %c : tensor<16xf32>, tensor<8x8xf32>
  return
}

// -----

// rope C1: an even last dimension.
func.func @test(%x: tensor<2x8x15xf32>, %c: tensor<8x8xf32>) {
  // expected-error @+1 {{needs rank >= 2 and an even}}
  %r = fusion.rope %x, %c, %c : tensor<2x8x15xf32>, tensor<8x8xf32>
  return
}

// -----

// rope C1: a static last dimension.
func.func @test(%x: tensor<2x8x?xf32>, %c: tensor<8x8xf32>) {
  // expected-error @+1 {{needs rank >= 2 and an even}}
  %r = fusion.rope %x, %c, %c : tensor<2x8x?xf32>, tensor<8x8xf32>
  return
}

// -----

// rope C2: the shape of the angles.
func.func @test(%x: tensor<2x8x16xf32>, %c: tensor<8x16xf32>) {
  // expected-error @+1 {{must have the shape [S, D / 2]}}
  %r = fusion.rope %x, %c, %c : tensor<2x8x16xf32>, tensor<8x16xf32>
  return
}

// -----

// rope C2: the rank of the angles.
func.func @test(%x: tensor<2x8x16xf32>, %c: tensor<8xf32>) {
  // expected-error @+1 {{must have the shape [S, D / 2]}}
  %r = fusion.rope %x, %c, %c : tensor<2x8x16xf32>, tensor<8xf32>
  return
}

// -----

// rope C2: the type of the angles.
func.func @test(%x: tensor<2x8x16xf32>, %c: tensor<8x8xf64>) {
  // expected-error @+1 {{must have the shape [S, D / 2]}}
  %r = fusion.rope %x, %c, %c : tensor<2x8x16xf32>, tensor<8x8xf64>
  return
}

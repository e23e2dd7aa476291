// RUN: fusion-opt %s -split-input-file -verify-diagnostics

// What ops whose place depends on the rank refuse, constraint by constraint.

// rank_concat C1: axes of the mesh.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<2x4xf32>) {
  // expected-error @+1 {{the mesh has no axis 'pp'}}
  %r = fusion.rank_concat %a, %a on @m[pp] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

// rank_concat C2: an operand.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<2x4xf32>) {
  // expected-error @+1 {{needs at least one operand}}
  %r = fusion.rank_concat on @m[tp] : () -> tensor<4x4xf32>
  return
}

// -----

// rank_concat C2: shapes are static.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<?x4xf32>) {
  // expected-error @+1 {{needs a static shape with rows, not 'tensor<?x4xf32>'}}
  %r = fusion.rank_concat %a, %a on @m[tp] : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  return
}

// -----

// rank_concat C2: there are rows.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<f32>) {
  // expected-error @+1 {{needs a static shape with rows, not 'tensor<f32>'}}
  %r = fusion.rank_concat %a on @m[tp] : (tensor<f32>) -> tensor<f32>
  return
}

// -----

// rank_concat C2: only the first dimension differs.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<2x4xf32>) {
  // expected-error @+1 {{has an operand 'tensor<2x4xf32>' that does not hold rows of 'tensor<4x5xf32>'}}
  %r = fusion.rank_concat %a, %a on @m[tp] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x5xf32>
  return
}

// -----

// rank_concat C3: all rows.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<2x4xf32>) {
  // expected-error @+1 {{has operands of 4 rows for a result of 6}}
  %r = fusion.rank_concat %a, %a on @m[tp] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<6x4xf32>
  return
}

// -----

// rank_concat C4: equal parts.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<3x4xf32>) {
  // expected-error @+1 {{has 3 rows, which the 2 ranks of the group can't share evenly}}
  %r = fusion.rank_concat %a on @m[tp] : (tensor<3x4xf32>) -> tensor<3x4xf32>
  return
}

// -----

// rank_concat C4: an operand is of one rank.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<2x4xf32>) {
  // expected-error @+1 {{has an operand with rows of two ranks: [2, 4) in parts of 3}}
  %r = fusion.rank_concat %a, %a, %a on @m[tp] : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<6x4xf32>
  return
}

// -----

// rank_slice C1: axes of the mesh.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<8x4xf32>) {
  // expected-error @+1 {{the mesh has no axis 'pp'}}
  %r = fusion.rank_slice %a start = 0 on @m[pp] : (tensor<8x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

// rank_slice C2: shapes are static.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<?x4xf32>) {
  // expected-error @+1 {{needs a static shape with rows, not 'tensor<?x4xf32>'}}
  %r = fusion.rank_slice %a start = 0 on @m[tp] : (tensor<?x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

// rank_slice C2: there are rows.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<f32>) {
  // expected-error @+1 {{needs a static shape with rows, not 'tensor<f32>'}}
  %r = fusion.rank_slice %a start = 0 on @m[tp] : (tensor<f32>) -> tensor<f32>
  return
}

// -----

// rank_slice C2: only the first dimension differs.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<8x4xf32>) {
  // expected-error @+1 {{has a result 'tensor<4x8xf32>' that does not hold rows of 'tensor<8x4xf32>'}}
  %r = fusion.rank_slice %a start = 0 on @m[tp] : (tensor<8x4xf32>) -> tensor<4x8xf32>
  return
}

// -----

// rank_slice C2: one element type.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<8x4xf32>) {
  // expected-error @+1 {{has a result 'tensor<4x4xi32>' that does not hold rows of 'tensor<8x4xf32>'}}
  %r = fusion.rank_slice %a start = 0 on @m[tp] : (tensor<8x4xf32>) -> tensor<4x4xi32>
  return
}

// -----

// rank_slice C3: a part for each rank.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<8x4xf32>) {
  // expected-error @+1 {{takes 4 parts of 3 rows from row 0 on, but there are 8}}
  %r = fusion.rank_slice %a start = 0 on @m[dp] : (tensor<8x4xf32>) -> tensor<3x4xf32>
  return
}

// -----

// rank_slice C3: behind the first rows.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<8x4xf32>) {
  // expected-error @+1 {{takes 2 parts of 4 rows from row 1 on, but there are 8}}
  %r = fusion.rank_slice %a start = 1 on @m[tp] : (tensor<8x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

// rank_slice C3: from a row on.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<8x4xf32>) {
  // expected-error @+1 {{takes 2 parts of 0 rows from row 9 on, but there are 8}}
  %r = fusion.rank_slice %a start = 9 on @m[tp] : (tensor<8x4xf32>) -> tensor<0x4xf32>
  return
}

// -----

// rank_slice C4: aligned parts.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<8x3xf32>) {
  // expected-error @+1 {{has parts of 36 bytes from byte 0 on; both must be multiples of 16}}
  %r = fusion.rank_slice %a start = 0 on @m[tp] : (tensor<8x3xf32>) -> tensor<3x3xf32>
  return
}

// -----

// rank_slice C4: an aligned first part.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<9x2xf32>) {
  // expected-error @+1 {{has parts of 32 bytes from byte 8 on; both must be multiples of 16}}
  %r = fusion.rank_slice %a start = 1 on @m[tp] : (tensor<9x2xf32>) -> tensor<4x2xf32>
  return
}

// -----

// rank_slice C5: a rank of the group.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<8x4xf32>) {
  // expected-error @+1 {{has shift 2 in a group of 2 ranks}}
  %r = fusion.rank_slice %a start = 0 shift = 2 on @m[tp] : (tensor<8x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

// rank_slice C5: no rank in front.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<8x4xf32>) {
  // expected-error @+1 {{has shift -1 in a group of 4 ranks}}
  %r = fusion.rank_slice %a start = 0 shift = -1 on @m[dp] : (tensor<8x4xf32>) -> tensor<2x4xf32>
  return
}

// RUN: fusion-opt %s -split-input-file -verify-diagnostics

// What meshes refuse, and every op that names axes of one.

// mesh C1: an axis.
// expected-error @+1 {{needs at least one axis}}
"fusion.mesh"() <{sym_name = "m", axis_names = [], axis_sizes = array<i64>}> : () -> ()

// -----

// mesh C1: a size an axis.
// expected-error @+1 {{needs at least one axis, each with a size}}
"fusion.mesh"() <{sym_name = "m", axis_names = ["a"], axis_sizes = array<i64: 1, 2>}> : () -> ()

// -----

// mesh C1: distinct names.
// expected-error @+1 {{must be distinct and not empty}}
fusion.mesh @m(dp = 4, dp = 2)

// -----

// mesh C1: names that are not empty.
// expected-error @+1 {{must be distinct and not empty}}
fusion.mesh @m("" = 4)

// -----

// mesh C2: positive sizes.
// expected-error @+1 {{axis sizes must be at least 1}}
fusion.mesh @m(dp = 0)

// -----

// mesh C2: a product that fits.
// expected-error @+1 {{their product at most 1048576}}
fusion.mesh @m(a = 1024, b = 1024, c = 2)

// -----

// mesh C2: no overflow.
// expected-error @+1 {{their product at most 1048576}}
fusion.mesh @m(a = 9223372036854775807, b = 9223372036854775807)

// -----

// axis_index C1: the axes of a mesh.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test() {
  // expected-error @+1 {{the mesh has no axis 'pp'}}
  %r = fusion.axis_index @m[pp] : tensor<i64>
  return
}

// -----

// axis_index C1: the axes of a mesh.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test() {
  // expected-error @+1 {{it is named twice}}
  %r = fusion.axis_index @m[dp, dp] : tensor<i64>
  return
}

// -----

// axis_index C1: the axes of a mesh.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test() {
  // expected-error @+1 {{needs at least one mesh axis}}
  %r = fusion.axis_index @m[] : tensor<i64>
  return
}

// -----

// axis_index C1: the axes of a mesh.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test() {
  // expected-error @+1 {{names no mesh: @n}}
  %r = fusion.axis_index @n[dp] : tensor<i64>
  return
}

// -----

// all_reduce C1: the axes of a mesh.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{the mesh has no axis 'pp'}}
  %r = fusion.all_reduce sum, %a on @m[pp] : tensor<4xf32>
  return
}

// -----

// all_reduce C1: the axes of a mesh.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{it is named twice}}
  %r = fusion.all_reduce sum, %a on @m[dp, dp] : tensor<4xf32>
  return
}

// -----

// all_reduce C1: the axes of a mesh.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{needs at least one mesh axis}}
  %r = fusion.all_reduce sum, %a on @m[] : tensor<4xf32>
  return
}

// -----

// all_reduce C1: the axes of a mesh.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{names no mesh: @n}}
  %r = fusion.all_reduce sum, %a on @n[dp] : tensor<4xf32>
  return
}

// -----

// all_gather C1: the axes of a mesh.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{the mesh has no axis 'pp'}}
  %r = fusion.all_gather %a dim = 0 on @m[pp] : (tensor<4xf32>) -> tensor<16xf32>
  return
}

// -----

// all_gather C1: the axes of a mesh.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{it is named twice}}
  %r = fusion.all_gather %a dim = 0 on @m[dp, dp] : (tensor<4xf32>) -> tensor<16xf32>
  return
}

// -----

// all_gather C1: the axes of a mesh.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{needs at least one mesh axis}}
  %r = fusion.all_gather %a dim = 0 on @m[] : (tensor<4xf32>) -> tensor<16xf32>
  return
}

// -----

// all_gather C1: the axes of a mesh.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{names no mesh: @n}}
  %r = fusion.all_gather %a dim = 0 on @n[dp] : (tensor<4xf32>) -> tensor<16xf32>
  return
}

// -----

// reduce_scatter C1: the axes of a mesh.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{the mesh has no axis 'pp'}}
  %r = fusion.reduce_scatter sum, %a dim = 0 on @m[pp] : (tensor<4xf32>) -> tensor<1xf32>
  return
}

// -----

// reduce_scatter C1: the axes of a mesh.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{it is named twice}}
  %r = fusion.reduce_scatter sum, %a dim = 0 on @m[dp, dp] : (tensor<4xf32>) -> tensor<1xf32>
  return
}

// -----

// reduce_scatter C1: the axes of a mesh.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{needs at least one mesh axis}}
  %r = fusion.reduce_scatter sum, %a dim = 0 on @m[] : (tensor<4xf32>) -> tensor<1xf32>
  return
}

// -----

// reduce_scatter C1: the axes of a mesh.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{names no mesh: @n}}
  %r = fusion.reduce_scatter sum, %a dim = 0 on @n[dp] : (tensor<4xf32>) -> tensor<1xf32>
  return
}

// -----

// all_to_all C1: the axes of a mesh.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{the mesh has no axis 'pp'}}
  %r = fusion.all_to_all %a split_dim = 0 concat_dim = 0 on @m[pp] : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// all_to_all C1: the axes of a mesh.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{it is named twice}}
  %r = fusion.all_to_all %a split_dim = 0 concat_dim = 0 on @m[dp, dp] : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// all_to_all C1: the axes of a mesh.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{needs at least one mesh axis}}
  %r = fusion.all_to_all %a split_dim = 0 concat_dim = 0 on @m[] : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// all_to_all C1: the axes of a mesh.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{names no mesh: @n}}
  %r = fusion.all_to_all %a split_dim = 0 concat_dim = 0 on @n[dp] : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// collective_broadcast C1: the axes of a mesh.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{the mesh has no axis 'pp'}}
  %r = fusion.collective_broadcast %a root = 0 on @m[pp] : tensor<4xf32>
  return
}

// -----

// collective_broadcast C1: the axes of a mesh.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{it is named twice}}
  %r = fusion.collective_broadcast %a root = 0 on @m[dp, dp] : tensor<4xf32>
  return
}

// -----

// collective_broadcast C1: the axes of a mesh.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{needs at least one mesh axis}}
  %r = fusion.collective_broadcast %a root = 0 on @m[] : tensor<4xf32>
  return
}

// -----

// collective_broadcast C1: the axes of a mesh.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{names no mesh: @n}}
  %r = fusion.collective_broadcast %a root = 0 on @n[dp] : tensor<4xf32>
  return
}

// -----

// collective_permute C1: the axes of a mesh.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{the mesh has no axis 'pp'}}
  %r = fusion.collective_permute %a sources = [] targets = [] on @m[pp] : tensor<4xf32>
  return
}

// -----

// collective_permute C1: the axes of a mesh.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{it is named twice}}
  %r = fusion.collective_permute %a sources = [] targets = [] on @m[dp, dp] : tensor<4xf32>
  return
}

// -----

// collective_permute C1: the axes of a mesh.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{needs at least one mesh axis}}
  %r = fusion.collective_permute %a sources = [] targets = [] on @m[] : tensor<4xf32>
  return
}

// -----

// collective_permute C1: the axes of a mesh.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{names no mesh: @n}}
  %r = fusion.collective_permute %a sources = [] targets = [] on @n[dp] : tensor<4xf32>
  return
}

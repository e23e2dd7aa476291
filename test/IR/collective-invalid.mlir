// RUN: fusion-opt %s -split-input-file -verify-diagnostics

// What collectives refuse about tensors and ranks, constraint by constraint.

// all_reduce C2: the types of the results.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{has the result type 'tensor<5xf32>', but needs 'tensor<4xf32>'}}
  %r = "fusion.all_reduce"(%a) <{kind = #fusion<reduce_kind sum>, mesh = @m, axes = ["dp"]}> : (tensor<4xf32>) -> tensor<5xf32>
  return
}

// -----

// all_reduce C2: the element type of the results.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{but needs 'tensor<4xf32>'}}
  %r = "fusion.all_reduce"(%a) <{kind = #fusion<reduce_kind sum>, mesh = @m, axes = ["dp"]}> : (tensor<4xf32>) -> tensor<4xbf16>
  return
}

// -----

// all_reduce C2: a result for each operand.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{needs as many results as operands}}
  %r = "fusion.all_reduce"(%a, %a) <{kind = #fusion<reduce_kind sum>, mesh = @m, axes = ["dp"]}> : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// all_reduce C3: an operand.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test() {
  // expected-error @+1 {{needs at least one operand}}
  "fusion.all_reduce"() <{kind = #fusion<reduce_kind sum>, mesh = @m, axes = ["dp"]}> : () -> ()
  return
}

// -----

// collective_broadcast C3: the types of the results.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{has the result type 'tensor<5xf32>', but needs 'tensor<4xf32>'}}
  %r = "fusion.collective_broadcast"(%a) <{root = 0 : i64, mesh = @m, axes = ["dp"]}> : (tensor<4xf32>) -> tensor<5xf32>
  return
}

// -----

// collective_broadcast C3: the element type of the results.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{but needs 'tensor<4xf32>'}}
  %r = "fusion.collective_broadcast"(%a) <{root = 0 : i64, mesh = @m, axes = ["dp"]}> : (tensor<4xf32>) -> tensor<4xbf16>
  return
}

// -----

// collective_broadcast C3: a result for each operand.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{needs as many results as operands}}
  %r = "fusion.collective_broadcast"(%a, %a) <{root = 0 : i64, mesh = @m, axes = ["dp"]}> : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// collective_broadcast C4: an operand.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test() {
  // expected-error @+1 {{needs at least one operand}}
  "fusion.collective_broadcast"() <{root = 0 : i64, mesh = @m, axes = ["dp"]}> : () -> ()
  return
}

// -----

// collective_permute C3: the types of the results.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{has the result type 'tensor<5xf32>', but needs 'tensor<4xf32>'}}
  %r = "fusion.collective_permute"(%a) <{sources = array<i64>, targets = array<i64>, mesh = @m, axes = ["dp"]}> : (tensor<4xf32>) -> tensor<5xf32>
  return
}

// -----

// collective_permute C3: the element type of the results.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{but needs 'tensor<4xf32>'}}
  %r = "fusion.collective_permute"(%a) <{sources = array<i64>, targets = array<i64>, mesh = @m, axes = ["dp"]}> : (tensor<4xf32>) -> tensor<4xbf16>
  return
}

// -----

// collective_permute C3: a result for each operand.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{needs as many results as operands}}
  %r = "fusion.collective_permute"(%a, %a) <{sources = array<i64>, targets = array<i64>, mesh = @m, axes = ["dp"]}> : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// collective_permute C4: an operand.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test() {
  // expected-error @+1 {{needs at least one operand}}
  "fusion.collective_permute"() <{sources = array<i64>, targets = array<i64>, mesh = @m, axes = ["dp"]}> : () -> ()
  return
}

// -----

// all_gather C3: the types of the results.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{has the result type 'tensor<5xf32>', but needs 'tensor<16xf32>'}}
  %r = "fusion.all_gather"(%a) <{dim = 0 : i64, mesh = @m, axes = ["dp"]}> : (tensor<4xf32>) -> tensor<5xf32>
  return
}

// -----

// all_gather C3: the element type of the results.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{but needs 'tensor<16xf32>'}}
  %r = "fusion.all_gather"(%a) <{dim = 0 : i64, mesh = @m, axes = ["dp"]}> : (tensor<4xf32>) -> tensor<16xbf16>
  return
}

// -----

// all_gather C3: a result for each operand.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{needs as many results as operands}}
  %r = "fusion.all_gather"(%a, %a) <{dim = 0 : i64, mesh = @m, axes = ["dp"]}> : (tensor<4xf32>, tensor<4xf32>) -> tensor<16xf32>
  return
}

// -----

// all_gather C4: an operand.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test() {
  // expected-error @+1 {{needs at least one operand}}
  "fusion.all_gather"() <{dim = 0 : i64, mesh = @m, axes = ["dp"]}> : () -> ()
  return
}

// -----

// reduce_scatter C3: the types of the results.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{has the result type 'tensor<5xf32>', but needs 'tensor<1xf32>'}}
  %r = "fusion.reduce_scatter"(%a) <{kind = #fusion<reduce_kind sum>, dim = 0 : i64, mesh = @m, axes = ["dp"]}> : (tensor<4xf32>) -> tensor<5xf32>
  return
}

// -----

// reduce_scatter C3: the element type of the results.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{but needs 'tensor<1xf32>'}}
  %r = "fusion.reduce_scatter"(%a) <{kind = #fusion<reduce_kind sum>, dim = 0 : i64, mesh = @m, axes = ["dp"]}> : (tensor<4xf32>) -> tensor<1xbf16>
  return
}

// -----

// reduce_scatter C3: a result for each operand.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{needs as many results as operands}}
  %r = "fusion.reduce_scatter"(%a, %a) <{kind = #fusion<reduce_kind sum>, dim = 0 : i64, mesh = @m, axes = ["dp"]}> : (tensor<4xf32>, tensor<4xf32>) -> tensor<1xf32>
  return
}

// -----

// reduce_scatter C4: an operand.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test() {
  // expected-error @+1 {{needs at least one operand}}
  "fusion.reduce_scatter"() <{kind = #fusion<reduce_kind sum>, dim = 0 : i64, mesh = @m, axes = ["dp"]}> : () -> ()
  return
}

// -----

// all_to_all C3: the types of the results.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{has the result type 'tensor<5xf32>', but needs 'tensor<4xf32>'}}
  %r = "fusion.all_to_all"(%a) <{split_dim = 0 : i64, concat_dim = 0 : i64, mesh = @m, axes = ["dp"]}> : (tensor<4xf32>) -> tensor<5xf32>
  return
}

// -----

// all_to_all C3: the element type of the results.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{but needs 'tensor<4xf32>'}}
  %r = "fusion.all_to_all"(%a) <{split_dim = 0 : i64, concat_dim = 0 : i64, mesh = @m, axes = ["dp"]}> : (tensor<4xf32>) -> tensor<4xbf16>
  return
}

// -----

// all_to_all C3: a result for each operand.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{needs as many results as operands}}
  %r = "fusion.all_to_all"(%a, %a) <{split_dim = 0 : i64, concat_dim = 0 : i64, mesh = @m, axes = ["dp"]}> : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// all_to_all C4: an operand.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test() {
  // expected-error @+1 {{needs at least one operand}}
  "fusion.all_to_all"() <{split_dim = 0 : i64, concat_dim = 0 : i64, mesh = @m, axes = ["dp"]}> : () -> ()
  return
}

// -----

// all_gather C2: the dimension.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{the shape of 'tensor<4xf32>' does not fit the group}}
  %r = fusion.all_gather %a dim = 1 on @m[dp] : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// all_gather C2: the dimension.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{the shape of 'tensor<4xf32>' does not fit the group}}
  %r = fusion.all_gather %a dim = -1 on @m[dp] : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// reduce_scatter C2: the dimension.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{the shape of 'tensor<4xf32>' does not fit the group}}
  %r = fusion.reduce_scatter sum, %a dim = 1 on @m[dp] : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// reduce_scatter C2: the dimension.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{the shape of 'tensor<4xf32>' does not fit the group}}
  %r = fusion.reduce_scatter sum, %a dim = -1 on @m[dp] : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// reduce_scatter C2: equal parts.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<6xf32>) {
  // expected-error @+1 {{does not fit the group}}
  %r = fusion.reduce_scatter sum, %a dim = 0 on @m[dp] : (tensor<6xf32>) -> tensor<1xf32>
  return
}

// -----

// reduce_scatter C2: a static dimension.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<?xf32>) {
  // expected-error @+1 {{does not fit the group}}
  %r = fusion.reduce_scatter sum, %a dim = 0 on @m[dp] : (tensor<?xf32>) -> tensor<?xf32>
  return
}

// -----

// all_gather C2: a static dimension.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<?xf32>) {
  // expected-error @+1 {{does not fit the group}}
  %r = fusion.all_gather %a dim = 0 on @m[dp] : (tensor<?xf32>) -> tensor<?xf32>
  return
}

// -----

// all_to_all C2: the dimensions.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{does not fit the group}}
  %r = fusion.all_to_all %a split_dim = 1 concat_dim = 0 on @m[dp] : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// all_to_all C2: the dimensions.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{does not fit the group}}
  %r = fusion.all_to_all %a split_dim = 0 concat_dim = 1 on @m[dp] : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// all_to_all C2: the dimensions.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{does not fit the group}}
  %r = fusion.all_to_all %a split_dim = -1 concat_dim = 0 on @m[dp] : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// all_to_all C2: the dimensions.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{does not fit the group}}
  %r = fusion.all_to_all %a split_dim = 0 concat_dim = -1 on @m[dp] : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// all_to_all C2: equal parts.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<6x4xf32>) {
  // expected-error @+1 {{does not fit the group}}
  %r = fusion.all_to_all %a split_dim = 0 concat_dim = 1 on @m[dp] : (tensor<6x4xf32>) -> tensor<1x16xf32>
  return
}

// -----

// collective_broadcast C2: the root.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{the root 4 is not in the group of 4 ranks}}
  %r = fusion.collective_broadcast %a root = 4 on @m[dp] : tensor<4xf32>
  return
}

// -----

// collective_broadcast C2: the root.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{the root -1 is not in the group of 4 ranks}}
  %r = fusion.collective_broadcast %a root = -1 on @m[dp] : tensor<4xf32>
  return
}

// -----

// collective_permute C2: pairs of ranks.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{must have one length}}
  %r = fusion.collective_permute %a sources = [0] targets = [] on @m[dp] : tensor<4xf32>
  return
}

// -----

// collective_permute C2: pairs of ranks.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{ranks must be distinct and in the group of 4 ranks}}
  %r = fusion.collective_permute %a sources = [0, 0] targets = [1, 2] on @m[dp] : tensor<4xf32>
  return
}

// -----

// collective_permute C2: pairs of ranks.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{ranks must be distinct}}
  %r = fusion.collective_permute %a sources = [0, 1] targets = [2, 2] on @m[dp] : tensor<4xf32>
  return
}

// -----

// collective_permute C2: pairs of ranks.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{ranks must be distinct}}
  %r = fusion.collective_permute %a sources = [4] targets = [0] on @m[dp] : tensor<4xf32>
  return
}

// -----

// collective_permute C2: pairs of ranks.
fusion.mesh @m(dp = 4, tp = 2)

func.func @test(%a: tensor<4xf32>) {
  // expected-error @+1 {{ranks must be distinct}}
  %r = fusion.collective_permute %a sources = [0] targets = [-1] on @m[dp] : tensor<4xf32>
  return
}

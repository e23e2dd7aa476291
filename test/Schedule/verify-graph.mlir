// RUN: fusion-opt %s --split-input-file --verify-diagnostics --fusion-verify-graph

// Fine: awaited once, in another region too; a loop of constant bounds.
fusion.mesh @m(dp = 2)
func.func @main(%x: tensor<4xf32>, %n: index) -> tensor<4xf32> {
  %f = fusion.async stream = 1 -> tensor<4xf32> {
    %0 = fusion.all_reduce sum, %x on @m[dp] : tensor<4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  %g = fusion.async stream = 2 -> tensor<4xf32> {
    %1 = fusion.await %f : !fusion.future<tensor<4xf32>>
    %2 = fusion.all_reduce sum, %1 on @m[dp] : tensor<4xf32>
    fusion.yield %2 : tensor<4xf32>
  }
  %a = fusion.await %g : !fusion.future<tensor<4xf32>>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%v = %a) -> (tensor<4xf32>) {
    %s = fusion.all_reduce sum, %v on @m[dp] : tensor<4xf32>
    scf.yield %s : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}

// -----

fusion.mesh @m(dp = 2)
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{G1: the future is awaited 0 times: await it exactly once}}
  %f = fusion.async stream = 1 -> tensor<4xf32> {
    %0 = fusion.all_reduce sum, %x on @m[dp] : tensor<4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  return %x : tensor<4xf32>
}

// -----

// An await that a path may skip.
fusion.mesh @m(dp = 2)
func.func @main(%x: tensor<4xf32>, %c: i1) -> tensor<4xf32> {
  // expected-error @+1 {{G1: the future is awaited inside 'scf.if', which may run never or twice: await it beside the region}}
  %f = fusion.async stream = 1 -> tensor<4xf32> {
    fusion.yield %x : tensor<4xf32>
  }
  %r = scf.if %c -> (tensor<4xf32>) {
    %a = fusion.await %f : !fusion.future<tensor<4xf32>>
    scf.yield %a : tensor<4xf32>
  } else {
    scf.yield %x : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}

// -----

// A rank's own data decides.
fusion.mesh @m(dp = 2)
func.func @main(%x: tensor<4xf32>, %c: i1) -> tensor<4xf32> {
  // expected-note @+1 {{decided here}}
  %r = scf.if %c -> (tensor<4xf32>) {
    // expected-error @+1 {{G2: whether this collective runs depends on argument 1, a rank's own data: ranks would wait for each other; decide by a value that is the same on all of them}}
    %s = fusion.all_reduce sum, %x on @m[dp] : tensor<4xf32>
    scf.yield %s : tensor<4xf32>
  } else {
    scf.yield %x : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}

// -----

// So does its position, through arithmetic; a sum over all ranks does not.
fusion.mesh @m(dp = 2)
func.func @main(%x: tensor<4xf32>, %flag: tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>) {
  %i = fusion.axis_index @m[dp] : tensor<i64>
  %n = builtin.unrealized_conversion_cast %i : tensor<i64> to i64
  %zero = arith.constant 0 : i64
  %first = arith.cmpi eq, %n, %zero : i64
  %t = fusion.all_reduce sum, %i on @m[dp] : tensor<i64>
  %m = builtin.unrealized_conversion_cast %t : tensor<i64> to i64
  %any = arith.cmpi sgt, %m, %zero : i64
  %q = scf.if %any -> (tensor<4xf32>) {
    %s = fusion.all_reduce sum, %x on @m[dp] : tensor<4xf32>
    scf.yield %s : tensor<4xf32>
  } else {
    scf.yield %x : tensor<4xf32>
  }
  // expected-note @+1 {{decided here}}
  %r = scf.if %first -> (tensor<4xf32>) {
    // expected-error @+1 {{G2: whether this collective runs depends on 'fusion.axis_index', the rank's own position}}
    %s = fusion.all_reduce sum, %x on @m[dp] : tensor<4xf32>
    scf.yield %s : tensor<4xf32>
  } else {
    scf.yield %x : tensor<4xf32>
  }
  return %q, %r : tensor<4xf32>, tensor<4xf32>
}

// -----

// A sum over one axis differs along the other.
fusion.mesh @m(dp = 2, tp = 2)
func.func @main(%x: tensor<4xf32>, %flag: tensor<i1>) -> tensor<4xf32> {
  %i = fusion.axis_index @m[dp] : tensor<i64>
  %t = fusion.all_reduce sum, %i on @m[dp] : tensor<i64>
  %m = builtin.unrealized_conversion_cast %t : tensor<i64> to i64
  %zero = arith.constant 0 : i64
  %any = arith.cmpi sgt, %m, %zero : i64
  // expected-note @+1 {{decided here}}
  %r = scf.if %any -> (tensor<4xf32>) {
    // expected-error @+1 {{G2: whether this collective runs depends on 'fusion.all_reduce', whose results are not the same on all ranks}}
    %s = fusion.all_reduce sum, %x on @m[dp] : tensor<4xf32>
    scf.yield %s : tensor<4xf32>
  } else {
    scf.yield %x : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}

// -----

fusion.mesh @m(dp = 2)
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = fusion.group loop (%in = %x : tensor<4xf32>) -> tensor<4xf32> {
    // expected-error @+1 {{G2: a collective inside a group has no place in the order: keep it outside}}
    %s = fusion.all_reduce sum, %in on @m[dp] : tensor<4xf32>
    fusion.yield %s : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}

// -----

// Two gathers of 64 bytes in flight: 64 hold one.
fusion.mesh @m(dp = 2)
func.func @main(%p: tensor<4xf32>, %q: tensor<4xf32>) -> (tensor<8xf32>, tensor<8xf32>) attributes {fusion.prefetch_budget = 64 : i64} {
  %f = fusion.async stream = 2 -> tensor<8xf32> {
    %0 = fusion.all_gather %p dim = 0 on @m[dp] {fusion.prefetched} : (tensor<4xf32>) -> tensor<8xf32>
    fusion.yield %0 : tensor<8xf32>
  }
  // expected-error @+1 {{G3: gathered values take 128 bytes here, the budget is 64}}
  %g = fusion.async stream = 2 -> tensor<8xf32> {
    %0 = fusion.all_gather %q dim = 0 on @m[dp] {fusion.prefetched} : (tensor<4xf32>) -> tensor<8xf32>
    fusion.yield %0 : tensor<8xf32>
  }
  %v = fusion.await %f : !fusion.future<tensor<8xf32>>
  %a = fusion.group loop (%in = %v : tensor<8xf32>) -> tensor<8xf32> {
    %0 = fusion.exp %in : tensor<8xf32>
    fusion.yield %0 : tensor<8xf32>
  }
  %w = fusion.await %g : !fusion.future<tensor<8xf32>>
  %b = fusion.group loop (%in = %w : tensor<8xf32>) -> tensor<8xf32> {
    %0 = fusion.exp %in : tensor<8xf32>
    fusion.yield %0 : tensor<8xf32>
  }
  return %a, %b : tensor<8xf32>, tensor<8xf32>
}

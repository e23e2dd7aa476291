// RUN: fusion-opt %s --split-input-file --verify-diagnostics --fusion-partition

fusion.mesh @mesh(dp = 2)
// expected-error @below {{the mesh @mesh has no axis "tp", in 'fusion.sharding'}}
func.func @main(%x: tensor<4xf32> {fusion.sharding = [["tp"]]}) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

fusion.mesh @mesh(dp = 2)
// expected-error @below {{'fusion.sharding' must name the axis "dp" once}}
func.func @main(%x: tensor<4x4xf32> {fusion.sharding = [["dp"], ["dp"]]}) -> tensor<4x4xf32> {
  return %x : tensor<4x4xf32>
}

// -----

fusion.mesh @mesh(dp = 2)
// expected-error @below {{'fusion.sharding' must have one list for each dimension of 'tensor<4x4xf32>'}}
func.func @main(%x: tensor<4x4xf32> {fusion.sharding = [["dp"]]}) -> tensor<4x4xf32> {
  return %x : tensor<4x4xf32>
}

// -----

fusion.mesh @mesh(dp = 2)
// expected-error @below {{'fusion.sharding' must be a list of lists of axes, one for each dimension}}
func.func @main(%x: tensor<4xf32> {fusion.sharding = ["dp"]}) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

fusion.mesh @mesh(dp = 2)
// expected-error @below {{'fusion.sharding' must name axes by strings}}
func.func @main(%x: tensor<4xf32> {fusion.sharding = [[0]]}) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// Results are checked too.
fusion.mesh @mesh(dp = 2)
// expected-error @below {{result 0: 'fusion.sharding' must have one list of axes for each of 1 dimensions}}
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32> {fusion.sharding = [[], ["dp"]]}) {
  return %x : tensor<4xf32>
}

// -----

// expected-note @below {{the first one is @a}}
fusion.mesh @a(dp = 2)
// expected-error @below {{a program has one mesh, and this is a second one: leave one of the two out}}
fusion.mesh @b(tp = 2)
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// expected-error @below {{has shardings, and the module no mesh: add fusion.mesh, or give --mesh dp=2}}
func.func @main(%x: tensor<4xf32> {fusion.sharding = [["dp"]]}) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

fusion.mesh @mesh(dp = 2)
// expected-error @below {{dimension 0 is the batch '?' and can't be cut: give the model a static batch}}
func.func @main(%x: tensor<?x4xf32> {fusion.sharding = [["dp"], []]}) -> tensor<?x4xf32> attributes {fusion.batch = array<i64: 1, 8>} {
  return %x : tensor<?x4xf32>
}

// -----

fusion.mesh @mesh(dp = 2)
func.func @main(%x: tensor<4xf32> {fusion.sharding = [["dp"]]}) -> tensor<4xf32> {
  // expected-error @below {{stands in a program that is to be partitioned: partition before ops are grouped}}
  %0 = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
    %1 = fusion.relu %a : tensor<4xf32>
    fusion.yield %1 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

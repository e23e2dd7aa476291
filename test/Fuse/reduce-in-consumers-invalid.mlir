// RUN: not fusion-opt %s --fusion-reduce-in-consumers=transport=mpi 2>&1 | FileCheck %s
// CHECK: error: bad value of 'transport', 'mpi', give auto, nccl, peer or direct
// RUN: not fusion-compile %s --transport=mpi 2>&1 | FileCheck %s --check-prefix=FLAG
// FLAG: error: bad value 'mpi', --transport, give auto, nccl, peer or direct
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// RUN: not fusion-opt %s --fusion-bucket-collectives=device=nowhere 2>&1 | FileCheck %s --check-prefix=DEVICE
// RUN: not fusion-opt %s --fusion-bucket-collectives 2>&1 | FileCheck %s
// DEVICE: error: {{.*}}nowhere
// CHECK: error: fusion works on a graph: the function has more than one block; inline or simplify it first
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  cf.br ^end
^end:
  return %x : tensor<4xf32>
}

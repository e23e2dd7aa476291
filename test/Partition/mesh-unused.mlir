// An axis of --mesh that nothing is cut over is told of, and no error.
// RUN: fusion-compile %s --mesh=fsdp=4 --stop-after=partition -o %t.mlir 2>&1 | FileCheck %s --check-prefix=TYPO
// RUN: fusion-compile %s --mesh=dp=2,tp=2 --stop-after=partition -o %t.mlir 2>&1 | FileCheck %s --check-prefix=HALF
// RUN: fusion-compile %s --mesh=dp=4,tp=1 --stop-after=partition -o %t.mlir 2>&1 | FileCheck %s --check-prefix=USED --allow-empty
// TYPO: warning: axis 'fsdp' of the mesh cuts nothing: its 4 ranks compute the same; name it dp
// HALF-NOT: 'dp'
// HALF: warning: axis 'tp' of the mesh cuts nothing: its 2 ranks compute the same
// USED-NOT: warning
func.func @main(%x: tensor<8x4xf32> {fusion.batch_arg}) -> tensor<8x4xf32> {
  %0 = fusion.exp %x : tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

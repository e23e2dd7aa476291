// What the log holds: rewrites between its start and the end, of passes that declare
// them; how they are judged is in verify-rewrites.mlir.
//
// RUN: fusion-opt %s --remarks-filter=fusion --pass-pipeline="builtin.module(fusion-track-rewrites,fusion-raise-idioms,fusion-verify-rewrites)" -o /dev/null 2>&1 | FileCheck %s --check-prefix=ONE
// ONE: verify-rewrites | {{.*}}, rewrites=1
// Started behind the pass there is nothing in it.
// RUN: fusion-opt %s --remarks-filter=fusion --pass-pipeline="builtin.module(fusion-raise-idioms,fusion-track-rewrites,fusion-verify-rewrites)" -o /dev/null 2>&1 | FileCheck %s --check-prefix=NONE --allow-empty
// NONE-NOT: rewrites=1
// The log leaves the module as it is, and so does a second start.
// RUN: fusion-opt %s -o %t.plain
// RUN: fusion-opt %s --fusion-track-rewrites --fusion-track-rewrites -o %t.tracked
// RUN: diff %t.plain %t.tracked

func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = fusion.sigmoid %x : tensor<2x3xf32>
  %1 = fusion.mul %x, %0 : tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

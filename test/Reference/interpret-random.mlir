// Random inputs depend on the seed, the input and nothing else; their batch is
// an option.
// RUN: rm -rf %t
// RUN: fusion-interpret %s --random-inputs 7 --batch 3 --output-dir %t/a
// RUN: fusion-interpret %s --random-inputs 7 --batch 3 --output-dir %t/b
// RUN: fusion-interpret %s --random-inputs 8 --batch 3 --output-dir %t/c
// RUN: cmp %t/a/out0.npy %t/b/out0.npy
// RUN: not cmp %t/a/out0.npy %t/c/out0.npy
// RUN: %python %S/Inputs/npy.py show %t/a/out0.npy %t/a/out1.npy | FileCheck %s
// Small integers, so that sums stay exact.
// CHECK: <f4 3x4 {{(-?[0-4] ?){12}$}}
// CHECK: <i4 3x4 {{([0-3] ?){12}$}}
// RUN: not fusion-interpret %s --random-inputs 7 --batch 9 --output-dir %t/a 2>&1 | FileCheck %s --check-prefix=BATCH
// BATCH: error: input 'arg{{[01]}}' has batch 9, @main takes 1 to 8
// Without --batch it is the largest.
// RUN: fusion-interpret %s --random-inputs 7 --output-dir %t/d
// RUN: %python %S/Inputs/npy.py show %t/d/out0.npy | FileCheck %s --check-prefix=LARGEST
// LARGEST: <f4 8x4
func.func @main(%x: tensor<?x4xf32>, %i: tensor<?x4xi32>) -> (tensor<?x4xf32>, tensor<?x4xi32>) attributes {fusion.batch = array<i64: 1, 8>} {
  return %x, %i : tensor<?x4xf32>, tensor<?x4xi32>
}

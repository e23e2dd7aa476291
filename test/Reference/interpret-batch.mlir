// A batch goes on after a case that fails, and leaves the reason beside it.
// RUN: rm -rf %t && mkdir -p %t/in
// RUN: %python %S/Inputs/npy.py write %t/in/x.npy "<i4" 2 1 2
// RUN: echo "not a module" > %t/bad.mlir
// RUN: echo "# model inputs outputs" > %t/cases.txt
// RUN: echo "%t/bad.mlir %t/in %t/bad" >> %t/cases.txt
// RUN: echo "%s %t/none %t/missing" >> %t/cases.txt
// RUN: echo "%s %t/in %t/good" >> %t/cases.txt
// RUN: not fusion-interpret --batch-file %t/cases.txt 2>&1 | FileCheck %s
// CHECK: error: 2 of 3 cases failed; see error.txt in their output folders
// RUN: FileCheck %s --check-prefix=BAD < %t/bad/error.txt
// BAD: error: {{.*}}bad.mlir:1:1:
// RUN: FileCheck %s --check-prefix=MISSING < %t/missing/error.txt
// MISSING: error: input 'x' (i32 2): cannot read
// RUN: %python %S/Inputs/npy.py show %t/good/out0.npy | FileCheck %s --check-prefix=GOOD
// GOOD: <i4 2 -1 -2
// RUN: not test -e %t/good/error.txt

// The reason goes away when the case passes.
// RUN: echo "%s %t/in %t/missing" > %t/cases.txt
// RUN: fusion-interpret --batch-file %t/cases.txt
// RUN: not test -e %t/missing/error.txt
// RUN: echo "only two" > %t/cases.txt
// RUN: not fusion-interpret --batch-file %t/cases.txt 2>&1 | FileCheck %s --check-prefix=LINE
// LINE: error: '{{.*}}cases.txt' line 1 is not: model inputs-folder output-folder
func.func @main(%x: tensor<2xi32> {fusion.name = "x"}) -> tensor<2xi32> {
  %0 = fusion.neg %x : tensor<2xi32>
  return %0 : tensor<2xi32>
}

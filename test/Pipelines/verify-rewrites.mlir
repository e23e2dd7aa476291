// REQUIRES: test-plugins
// RUN: fusion-opt %s --remarks-filter=fusion --pass-pipeline="builtin.module(fusion-track-rewrites,fusion-raise-idioms,fusion-verify-rewrites,fusion-track-rewrites,fusion-merge-projections,fusion-verify-rewrites)" -o /dev/null 2>&1 | FileCheck %s --check-prefix=RIGHT
// RUN: not fusion-opt %s --load-pass-plugin=%fusion_build/test/plugins/BreakGroup.so --pass-pipeline="builtin.module(fusion-track-rewrites,fusion-raise-idioms,test-break-rewrite{from=fusion.gelu attribute=kind value={#fusion<gelu_kind tanh>} parent=func.func},fusion-verify-rewrites)" -o /dev/null 2>&1 | FileCheck %s --check-prefix=GELU
// RUN: not fusion-opt %s --load-pass-plugin=%fusion_build/test/plugins/BreakGroup.so --pass-pipeline="builtin.module(fusion-track-rewrites,fusion-merge-projections,test-break-rewrite{from=fusion.constant number=6 attribute=value value={dense<1.0> : tensor<2x6xf32>} parent=func.func},fusion-verify-rewrites)" -o /dev/null 2>&1 | FileCheck %s --check-prefix=MERGED
// RUN: not fusion-opt %s --load-pass-plugin=%fusion_build/test/plugins/BreakGroup.so --pass-pipeline="builtin.module(fusion-track-decisions{keep-original=true},func.func(fusion-fuse-vertical,fusion-fuse-horizontal,test-break-group{from=fusion.yield number=2 swap}),fusion-verify-fusion)" -o /dev/null 2>&1 | FileCheck %s --check-prefix=LAUNCH
// RUN: not fusion-opt %s --load-pass-plugin=%fusion_build/test/plugins/BreakGroup.so --pass-pipeline="builtin.module(fusion-track-decisions{keep-original=true},func.func(fusion-fuse-vertical,fusion-fuse-horizontal,test-break-group{from=fusion.tan to=fusion.sin number=1}),fusion-verify-fusion)" -o /dev/null 2>&1 | FileCheck %s --check-prefix=MEMBER

// What passes replace is evaluated beside what it replaced, on the same values.
// RIGHT: verify-rewrites | {{.*}}Remark="new expressions compute what the old ones did", batches=3, rewrites=2
// RIGHT: verify-rewrites | {{.*}}, batches=1, rewrites=3

// One form of gelu for the other: they differ by 5e-4 at most, several times what
// the roundings of the formula are. It is named, not silu, which reads its value.
// GELU: error: the rewrite raise-idioms changes the value of 'fusion.mul', now of 'fusion.gelu', batch {{[0-9]}}:
// GELU-NOT: error:

// Weights that were packed wrong: the first product's columns.
// MERGED: error: the rewrite merge-projections changes the value of 'fusion.matmul', now of 'fusion.slice', batch 1: {{[0-9]+}} of 8 elements differ

// A launch that gives each member's value in the place of the other's, and one
// with a wrong member.
// LAUNCH: error: {{.*}}the launch gives another value than its members' ops did: output 0, tan#0 "first", batch 1: {{[0-9]+}} of 4 elements differ
// MEMBER: error: {{.*}}the group computes another value than its ops did: output 0, tan#1 "second", batch 1: {{[0-9]+}} of 4 elements differ

func.func @idioms(%x: tensor<?x3xf32>) -> tensor<?x3xf32> attributes {fusion.batch = array<i64: 1, 5>} {
  %one = fusion.constant dense<1.0> : tensor<f32>
  %half = fusion.constant dense<0.5> : tensor<f32>
  %root = fusion.constant dense<0.70710678118654752> : tensor<f32>
  %r = fusion.broadcast %root dims = [] : tensor<f32> to tensor<?x3xf32>
  %o = fusion.broadcast %one dims = [] : tensor<f32> to tensor<?x3xf32>
  %h = fusion.broadcast %half dims = [] : tensor<f32> to tensor<?x3xf32>
  %0 = fusion.mul %x, %r : tensor<?x3xf32>
  %1 = fusion.erf %0 : tensor<?x3xf32>
  %2 = fusion.add %1, %o : tensor<?x3xf32>
  %3 = fusion.mul %x, %2 : tensor<?x3xf32>
  %4 = fusion.mul %3, %h : tensor<?x3xf32>
  %5 = fusion.sigmoid %4 : tensor<?x3xf32>
  %6 = fusion.mul %4, %5 : tensor<?x3xf32>
  return %6 : tensor<?x3xf32>
}

func.func @projections(%x: tensor<4x2xf32>) -> (tensor<2x4xf32>, tensor<1x4xf32>, tensor<3x4xf32>) {
  %wq = fusion.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %wk = fusion.constant dense<[[5.0], [6.0]]> : tensor<2x1xf32>
  %wv = fusion.constant dense<[[7.0, 8.0, 9.0], [10.0, 11.0, 12.0]]> : tensor<2x3xf32>
  %q = fusion.matmul %x, %wq : tensor<4x2xf32>, tensor<2x2xf32>
  %k = fusion.matmul %x, %wk : tensor<4x2xf32>, tensor<2x1xf32>
  %v = fusion.matmul %x, %wv : tensor<4x2xf32>, tensor<2x3xf32>
  %qt = fusion.transpose %q permutation = [1, 0] : tensor<4x2xf32>
  %kt = fusion.transpose %k permutation = [1, 0] : tensor<4x1xf32>
  %vt = fusion.transpose %v permutation = [1, 0] : tensor<4x3xf32>
  return %qt, %kt, %vt : tensor<2x4xf32>, tensor<1x4xf32>, tensor<3x4xf32>
}

func.func @launch(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = fusion.tan %x : tensor<4xf32> loc("first")
  %1 = fusion.tan %y : tensor<4xf32> loc("second")
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

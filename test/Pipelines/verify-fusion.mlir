// REQUIRES: test-plugins
// RUN: fusion-opt %s --remarks-filter=fusion --pass-pipeline="builtin.module(fusion-track-decisions{keep-original=true},func.func(fusion-fuse-vertical),fusion-verify-fusion)" -o /dev/null 2>&1 | FileCheck %s --check-prefix=RIGHT
// RUN: not fusion-opt %s --load-pass-plugin=%fusion_build/test/plugins/BreakGroup.so --pass-pipeline="builtin.module(fusion-track-decisions{keep-original=true},func.func(fusion-fuse-vertical,test-break-group{from=fusion.relu to=fusion.abs}),fusion-verify-fusion)" -o /dev/null 2>&1 | FileCheck %s --check-prefix=RELU
// RUN: not fusion-opt %s --load-pass-plugin=%fusion_build/test/plugins/BreakGroup.so --pass-pipeline="builtin.module(fusion-track-decisions{keep-original=true},func.func(fusion-fuse-vertical,test-break-group{from=fusion.exp to=fusion.sin}),fusion-verify-fusion)" -o /dev/null 2>&1 | FileCheck %s --check-prefix=DYNAMIC

// Every group is evaluated before and behind fusion. Nothing is wrong:
// RIGHT: remark: [Analysis] verify-fusion | Category:fusion | Remark="groups compute what their ops computed", batches=1, groups=2
// RIGHT: remark: [Analysis] verify-fusion | {{.*}}, batches=3, groups=1

// A wrong group is named, not those that read its result: relu of a negative sum
// is 0, abs is not. The numbers are small integers, as all ops of the function are
// exact on them.
// RELU: verify-fusion.mlir:{{[0-9]+}}:{{[0-9]+}}: error: the group computes another value than its ops did: output 0, relu#2 "the relu", batch 1: {{[0-9]+}} of 16 elements differ, the first at [{{[0-9], [0-9]}}]: got {{[1-9][0-9]*}}, want 0; largest difference {{[1-9][0-9]*}},
// RELU-NOT: error: {{.*}}computes

// With a dynamic batch, the first batch that shows it: the least.
// DYNAMIC: error: the group computes another value than its ops did: output 0, exp#0 {{.*}}, batch 1: {{[0-9]+}} of 3 elements differ

func.func @static(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = fusion.matmul %x, %w : tensor<4x4xf32>, tensor<4x4xf32>
  %1 = fusion.add %0, %y : tensor<4x4xf32>
  %2 = fusion.relu %1 : tensor<4x4xf32> loc("the relu")
  %3 = fusion.matmul %2, %w : tensor<4x4xf32>, tensor<4x4xf32>
  return %3 : tensor<4x4xf32>
}

func.func @dynamic(%x: tensor<?x3xf32>) -> tensor<?x3xf32> attributes {fusion.batch = array<i64: 1, 5>} {
  %0 = fusion.exp %x : tensor<?x3xf32>
  return %0 : tensor<?x3xf32>
}

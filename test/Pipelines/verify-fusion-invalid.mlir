// RUN: not fusion-opt %s --fusion-fuse --fusion-verify-fusion -o /dev/null 2>&1 | FileCheck %s --check-prefix=UNKEPT
// UNKEPT: error: no function was kept as it was before fusion; run fusion-track-decisions with keep-original before the passes that decide
// RUN: not fusion-opt %s --pass-pipeline="builtin.module(fusion-track-decisions{keep-original=true},func.func(fusion-fuse-vertical,fusion-unfuse-groups),fusion-verify-fusion)" -o /dev/null 2>&1 | FileCheck %s --check-prefix=COUNT
// COUNT: error: the function has 0 groups, and 1 were decided: a pass made or removed groups, which can't be compared then
// RUN: not fusion-opt %s --pass-pipeline="builtin.module(fusion-track-decisions{keep-original=true},func.func(fusion-fuse-vertical),fusion-verify-fusion{memory-limit=10})" -o /dev/null 2>&1 | FileCheck %s --check-prefix=MEMORY
// MEMORY: error: @main can't be checked: {{.*}}memory

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = fusion.exp %x : tensor<4xf32>
  %1 = fusion.neg %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}

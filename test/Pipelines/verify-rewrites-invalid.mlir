// RUN: not fusion-opt %s --fusion-raise-idioms --fusion-verify-rewrites -o /dev/null 2>&1 | FileCheck %s --check-prefix=UNLOGGED
// UNLOGGED: error: no rewrites were logged; run fusion-track-rewrites before the passes that replace values
// RUN: not fusion-opt %s --fusion-track-rewrites --fusion-raise-idioms --fusion-verify-rewrites=memory-limit=10 -o /dev/null 2>&1 | FileCheck %s --check-prefix=MEMORY
// MEMORY: error: @main can't be checked: {{.*}}memory
// RUN: not fusion-opt %s --fusion-track-rewrites --fusion-canonicalize --fusion-raise-idioms --fusion-verify-rewrites -o /dev/null 2>&1 | FileCheck %s --check-prefix=STALE
// STALE: error: what raise-idioms replaced was not logged, as a pass behind fusion-track-rewrites changed other values; put fusion-track-rewrites right before it

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %unused = fusion.exp %x : tensor<4xf32>
  %0 = fusion.sigmoid %x : tensor<4xf32>
  %1 = fusion.mul %x, %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}

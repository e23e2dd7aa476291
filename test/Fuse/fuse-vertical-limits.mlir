// Each limit with a number below what the function needs, then with that number.

// RUN: fusion-opt %s --fusion-fuse-vertical=max-loads=2 --remarks-filter=fusion -o /dev/null 2>&1 | FileCheck %s --check-prefix=LOADS
// RUN: fusion-opt %s --fusion-fuse-vertical=max-loads=3 --remarks-filter=fusion -o /dev/null 2>&1 | FileCheck %s --check-prefix=FITS --implicit-check-not="max-loads"
// LOADS: [Missed] max-loads | {{.*}}consumer=fusion.add, limit=2, producer=fusion.add, value=3

// An op counts once for each position at which it is computed.
// RUN: fusion-opt %s --fusion-fuse-vertical=compile-budget=4 --remarks-filter=fusion -o /dev/null 2>&1 | FileCheck %s --check-prefix=BUDGET
// RUN: fusion-opt %s --fusion-fuse-vertical=compile-budget=5 --remarks-filter=fusion -o /dev/null 2>&1 | FileCheck %s --check-prefix=FITS --implicit-check-not="compile-budget"
// BUDGET: [Missed] compile-budget | {{.*}}consumer=fusion.slice, limit=4, producer=fusion.neg, value=5

// Four tensors are four pointers of 8 bytes, and 16 bytes more.
// RUN: sed 's/"parameter_bytes": 32764/"parameter_bytes": 47/' %fusion_build/share/fusion/devices/h200.json > %t.json
// RUN: fusion-opt %s --fusion-fuse-vertical=device=%t.json --remarks-filter=fusion -o /dev/null 2>&1 | FileCheck %s --check-prefix=ARGUMENTS
// RUN: sed 's/"parameter_bytes": 32764/"parameter_bytes": 48/' %fusion_build/share/fusion/devices/h200.json > %t.json
// RUN: fusion-opt %s --fusion-fuse-vertical=device=%t.json --remarks-filter=fusion -o /dev/null 2>&1 | FileCheck %s --check-prefix=FITS --implicit-check-not="kernel-arguments"
// ARGUMENTS: [Missed] kernel-arguments | {{.*}}consumer=fusion.add, limit=47, producer=fusion.add, value=48

// Merged into the last add, exp would need the first product, 16 KiB, to live
// beside the two others.
// RUN: fusion-opt %s --fusion-fuse-vertical=memory-limit=49151 --remarks-filter=fusion -o /dev/null 2>&1 | FileCheck %s --check-prefix=MEMORY
// RUN: fusion-opt %s --fusion-fuse-vertical=memory-limit=49152 --remarks-filter=fusion -o /dev/null 2>&1 | FileCheck %s --check-prefix=FITS --implicit-check-not="peak-memory"
// MEMORY: [Missed] peak-memory | {{.*}}consumer=fusion.add, limit=49151, producer=fusion.exp, {{.*}}value=49152

// FITS: fuse-loop

func.func @loads(%x: tensor<8xf32>, %y: tensor<8xf32>, %z: tensor<8xf32>) -> tensor<8xf32> {
  %0 = fusion.add %x, %y : tensor<8xf32>
  %1 = fusion.add %0, %z : tensor<8xf32>
  return %1 : tensor<8xf32>
}

func.func @budget(%x: tensor<8xf32>) -> tensor<4xf32> {
  %0 = fusion.neg %x : tensor<8xf32>
  %1 = fusion.slice %0 starts = [0] limits = [4] strides = [1] : tensor<8xf32>
  %2 = fusion.slice %0 starts = [4] limits = [8] strides = [1] : tensor<8xf32>
  %3 = fusion.max %1, %2 : tensor<4xf32>
  return %3 : tensor<4xf32>
}

func.func @memory(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<1x4xf32> {
  %a = fusion.matmul %x, %w : tensor<64x64xf32>, tensor<64x64xf32>
  %s = fusion.slice %a starts = [0, 0] limits = [1, 4] strides = [1, 1] : tensor<64x64xf32>
  %e = fusion.exp %s : tensor<1x4xf32>
  %b = fusion.matmul %y, %w : tensor<64x64xf32>, tensor<64x64xf32>
  %c = fusion.matmul %b, %w : tensor<64x64xf32>, tensor<64x64xf32>
  %t = fusion.slice %c starts = [0, 0] limits = [1, 4] strides = [1, 1] : tensor<64x64xf32>
  %r = fusion.add %e, %t : tensor<1x4xf32>
  return %r : tensor<1x4xf32>
}

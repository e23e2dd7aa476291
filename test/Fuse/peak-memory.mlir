// REQUIRES: fusion-compile
// Without a thought for memory, exp runs beside the last add, and keeps the first
// of three products of 16 KiB alive: they don't fit 40 KiB. With the limit known
// it runs early, and the plan holds.

// RUN: fusion-compile %s --memory-limit=40KiB -o %t.fsn
// RUN: fusion-opt %s --fusion-fuse -o %t.fused.mlir
// RUN: not fusion-compile %t.fused.mlir --memory-limit=40KiB -o %t.fsn 2>&1 | FileCheck %s
// CHECK: error: needs [[N:[0-9]+]] bytes for intermediates; the memory limit is 40960, and a limit of [[N]] is enough

func.func @main(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<1x4xf32> {
  %a = fusion.matmul %x, %w : tensor<64x64xf32>, tensor<64x64xf32>
  %s = fusion.slice %a starts = [0, 0] limits = [1, 4] strides = [1, 1] : tensor<64x64xf32>
  %e = fusion.exp %s : tensor<1x4xf32>
  %b = fusion.matmul %y, %w : tensor<64x64xf32>, tensor<64x64xf32>
  %c = fusion.matmul %b, %w : tensor<64x64xf32>, tensor<64x64xf32>
  %t = fusion.slice %c starts = [0, 0] limits = [1, 4] strides = [1, 1] : tensor<64x64xf32>
  %r = fusion.add %e, %t : tensor<1x4xf32>
  return %r : tensor<1x4xf32>
}

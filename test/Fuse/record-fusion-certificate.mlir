// A record is of the graph where the pass stands. Passes that decide about fusion keep
// it, so what one of them computes anew behind it is found (fusion-fuse-clip adds squares
// of a row), and is part of it ahead of it. Any other pass ends the record.
//
// RUN: fusion-opt %s --pass-pipeline="builtin.module(func.func(fusion-record-fusion-certificate,fusion-fuse-vertical,fusion-verify-fusion-certificate))" | FileCheck %s
// RUN: not fusion-opt %s --pass-pipeline="builtin.module(func.func(fusion-record-fusion-certificate,fusion-fuse-clip,fusion-fuse-vertical,fusion-verify-fusion-certificate))" 2>&1 | FileCheck %s --check-prefix=BEHIND
// RUN: fusion-opt %s --pass-pipeline="builtin.module(func.func(fusion-fuse-clip,fusion-record-fusion-certificate,fusion-fuse-vertical,fusion-verify-fusion-certificate))" -o /dev/null
// RUN: fusion-opt %s --pass-pipeline="builtin.module(func.func(fusion-record-fusion-certificate),fusion-canonicalize,func.func(fusion-fuse-clip,fusion-fuse-vertical,fusion-verify-fusion-certificate))" -o /dev/null
// Recording changes nothing.
// RUN: fusion-opt %s -o %t.plain
// RUN: fusion-opt %s --fusion-record-fusion-certificate -o %t.recorded
// RUN: diff %t.plain %t.recorded

// CHECK-LABEL: func @main
// CHECK: fusion.group
// BEHIND: error: internal error: the graph behind fusion is not the graph before it:
func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %0 = fusion.mul %x, %x : tensor<2x2xf32>
  %1 = fusion.reduce sum, %0 dims = [0, 1] : tensor<2x2xf32>
  %2 = fusion.sqrt %1 : tensor<f32>
  %3 = fusion.broadcast %2 dims = [] : tensor<f32> to tensor<2x2xf32>
  %4 = fusion.div %x, %3 : tensor<2x2xf32>
  %5 = fusion.neg %4 : tensor<2x2xf32>
  return %5 : tensor<2x2xf32>
}

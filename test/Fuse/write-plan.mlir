// RUN: fusion-opt %s --fusion-fuse="emit-plan=%t.json" -o %t.mlir
// RUN: FileCheck %s < %t.json
// RUN: %python -c "import json, sys; json.load(open(sys.argv[1]))" %t.json

// Replayed, the same groups and the same plan; also in strict mode, where
// nothing may be amiss.
// RUN: fusion-opt %s --fusion-fuse="plan=%t.json plan-strict emit-plan=%t.2.json" -o %t.2.mlir
// RUN: diff %t.json %t.2.json
// RUN: diff %t.mlir %t.2.mlir

// The hash of a graph does not depend on names, locations or printing.
// RUN: fusion-opt %s --mlir-print-op-generic --mlir-print-debuginfo --mlir-use-nameloc-as-prefix -o %t.generic.mlir
// RUN: fusion-opt %t.generic.mlir --strip-debuginfo --fusion-fuse="emit-plan=%t.3.json" -o %t.3.mlir
// RUN: grep '"graph"' %t.json > %t.graph
// RUN: grep '"graph"' %t.3.json > %t.3.graph
// RUN: diff %t.graph %t.3.graph

// It does depend on an attribute, on a type and on who reads whom.
// RUN: sed -e "s/softmax %%1 axis = 1/softmax %%1 axis = 0/" %s | fusion-opt --fusion-fuse="emit-plan=%t.4.json" -o /dev/null
// RUN: sed -e "s/f32/f64/g" %s | fusion-opt --fusion-fuse="emit-plan=%t.5.json" -o /dev/null
// RUN: sed -e "s/fusion.exp %%2/fusion.exp %%1/" %s | fusion-opt --fusion-fuse="emit-plan=%t.6.json" -o /dev/null
// RUN: cat %t.json %t.4.json %t.5.json %t.6.json | grep '"graph"' | sort -u | count 4

// A plan of nothing: the record is kept only behind fusion-track-decisions.
// RUN: fusion-opt %s --fusion-fuse-vertical --fusion-write-plan="file=-" -o /dev/null | FileCheck %s --check-prefix=NONE
// NONE: "functions": []

// Groups in the order in which they run. A name stands behind the id; what a
// group saves is counted: relu's input and the softmax's output, 4 x 8 floats
// written and read.
// CHECK: "fusion-plan": 1
// CHECK: "device": "cpu"
// CHECK: "function": "main"
// CHECK: "graph": "{{[0-9a-f]+}}"
// CHECK: {"kind": "library", "rule": "fuse-epilogue", "saved-bytes": 256,
// CHECK: "reason": "elementwise op
// CHECK: "matmul#0:{{[0-9a-f]+}}"
// CHECK-NEXT: "relu#1:{{[0-9a-f]+}} the relu"]}
// CHECK: {"kind": "row_reduce", "rule": "fuse-row-reduce", "saved-bytes": 256,
// CHECK: "softmax#2:
// CHECK-NEXT: "exp#3:
// CHECK: {"kind": "fallback", "rule": "no-emitter"
// CHECK: "reason": "alone: the op has a kernel of its own"
// CHECK: "arg_max#4:
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4xi64> {
  %0 = fusion.matmul %x, %w : tensor<4x8xf32>, tensor<8x8xf32>
  %1 = fusion.relu %0 : tensor<4x8xf32> loc("the relu")
  %2 = fusion.softmax %1 axis = 1 : tensor<4x8xf32>
  %3 = fusion.exp %2 : tensor<4x8xf32>
  %4 = fusion.arg_max %3 axis = 1 : tensor<4x8xf32>
  return %4 : tensor<4xi64>
}

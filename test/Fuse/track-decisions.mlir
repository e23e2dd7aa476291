// RUN: split-file %s %t
// RUN: fusion-opt %t/graph.mlir --fusion-fuse="emit-plan=%t/written.json" -o /dev/null
// RUN: %python %S/Inputs/fill_plan.py %t/written.json %t/split.json > %t/split.full.json
// RUN: fusion-opt %t/graph.mlir --fusion-fuse="plan=%t/split.full.json plan-strict" | FileCheck %s --check-prefix=SPLIT
// RUN: %python %S/Inputs/fill_plan.py %t/written.json %t/joined.json > %t/joined.full.json
// RUN: fusion-opt %t/graph.mlir --fusion-fuse="max-ops=1 plan=%t/joined.full.json plan-strict" | FileCheck %s --check-prefix=JOINED
// RUN: %python %S/Inputs/fill_plan.py %t/written.json %t/order.json > %t/order.full.json
// RUN: fusion-opt %t/graph.mlir --fusion-fuse="plan=%t/order.full.json plan-strict" | FileCheck %s --check-prefix=ORDER

// Plans written by hand, without a complaint even in strict mode. Ops are named
// by number, by name and by line; behind a number anything may stand.

// The planner would make one loop of the first four ops. The broadcast is cheap:
// both groups repeat it.
// SPLIT-LABEL: func.func @main
// SPLIT: fusion.group loop
// SPLIT-NEXT: fusion.broadcast
// SPLIT-NEXT: fusion.add
// SPLIT-NEXT: fusion.yield
// SPLIT: fusion.group loop
// SPLIT-NEXT: fusion.broadcast
// SPLIT-NEXT: fusion.exp
// SPLIT-NEXT: fusion.mul
// SPLIT-NEXT: fusion.yield
// SPLIT: fusion.group loop
// SPLIT-NEXT: fusion.neg

// One group of all, larger than max-ops lets the planner go; with it, two ops
// that share no value.
// JOINED-LABEL: func.func @main
// JOINED-COUNT-1: fusion.group
// JOINED-NEXT: fusion.broadcast
// JOINED-NEXT: fusion.add
// JOINED-NEXT: fusion.exp
// JOINED-NEXT: fusion.mul
// JOINED-NEXT: fusion.neg
// JOINED-NOT: fusion.group

// The file's order is the order of the module, and a cheap op in a group of its
// own is computed once, for all.
// ORDER-LABEL: func.func @main
// ORDER: fusion.group loop
// ORDER-NEXT: fusion.neg
// ORDER: fusion.group loop
// ORDER-NEXT: fusion.broadcast
// ORDER-NEXT: fusion.yield
// ORDER: fusion.group loop
// ORDER-NOT: fusion.broadcast
// ORDER: fusion.mul

//--- graph.mlir
func.func @main(%x: tensor<4x4xf32>, %y: tensor<4xf32>, %z: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = fusion.broadcast %y dims = [1] : tensor<4xf32> to tensor<4x4xf32>
  %1 = fusion.add %x, %0 : tensor<4x4xf32> loc("the sum")
  %2 = fusion.exp %1 : tensor<4x4xf32>
  %3 = fusion.mul %2, %0 : tensor<4x4xf32> loc("a name, with a comma")
  %4 = fusion.neg %z : tensor<4x4xf32>
  return %3, %4 : tensor<4x4xf32>, tensor<4x4xf32>
}
//--- split.json
{"fusion-plan": 1, "device": "cpu", "note": "by hand", "functions": [
  {"function": "main", "graph": "GRAPH", "groups": [
    {"kind": "loop", "members": ["#0 the broadcast", "@the sum"]},
    {"members": ["#0", ":4", "@a name, with a comma"]},
    {"kind": "loop", "note": "alone", "members": ["#4"]}]}]}
//--- joined.json
{"fusion-plan": 1, "functions": [
  {"function": "main", "graph": "GRAPH", "groups": [
    {"members": ["#4", "#3", "#2", "#1", "#0"]}]}]}
//--- order.json
{"fusion-plan": 1, "functions": [
  {"function": "main", "graph": "GRAPH", "groups": [
    {"members": ["#4"]},
    {"members": ["#0"]},
    {"members": ["#1", "#2", "#3"]}]}]}

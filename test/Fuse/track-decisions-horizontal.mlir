// RUN: split-file %s %t
// RUN: fusion-opt %t/graph.mlir --fusion-fuse="emit-plan=%t/written.json" -o %t/planned.mlir
// RUN: FileCheck %s --check-prefix=PLAN < %t/written.json
// RUN: fusion-opt %t/graph.mlir --fusion-fuse="plan=%t/written.json plan-strict emit-plan=%t/again.json" -o %t/again.mlir
// RUN: diff %t/written.json %t/again.json
// RUN: diff %t/planned.mlir %t/again.mlir
// RUN: %python %S/Inputs/fill_plan.py %t/written.json %t/pair.json > %t/pair.full.json
// RUN: fusion-opt %t/graph.mlir --fusion-fuse="plan=%t/pair.full.json plan-strict" | FileCheck %s --check-prefix=PAIR
// RUN: %python %S/Inputs/fill_plan.py %t/written.json %t/bad.json > %t/bad.full.json
// RUN: fusion-opt %t/graph.mlir --fusion-fuse="plan=%t/bad.full.json" -o /dev/null 2>&1 | FileCheck %s --check-prefix=BAD
// RUN: %python %S/Inputs/fill_plan.py %t/written.json %t/dependent.json > %t/dependent.full.json
// RUN: fusion-opt %t/graph.mlir --fusion-fuse="plan=%t/dependent.full.json" -o /dev/null 2>&1 | FileCheck %s --check-prefix=DEPENDENT
// RUN: fusion-opt %t/graph.mlir --fusion-fuse="plan=%t/pair.full.json no-fuse=horizontal" -o /dev/null 2>&1 | FileCheck %s --check-prefix=OFF

// Launches of several groups are written, followed exactly, and edited.
// PLAN: {"kind": "horizontal", "rule": "fuse-horizontal"
// PLAN: {"kind": "loop"
// PLAN-NEXT: "members": [
// PLAN-NEXT: "abs#0:
// PLAN: "abs#1:
// PLAN: "abs#2:

// Of three the first and the last are one launch; the second stays alone.
// PAIR: fusion.group horizontal
// PAIR-COUNT-2: fusion.group loop
// PAIR: fusion.yield %{{[0-9]+}}, %{{[0-9]+}}
// PAIR: fusion.group loop

// BAD: bad.full.json:4:{{.*}} warning: the launch of this group can't be had: its groups have different ops or attributes
// DEPENDENT: dependent.full.json:5:{{.*}} warning: the launch of this group can't be had: one group needs what the other computes, directly or through others (horizontal-dependency)
// OFF: warning: launches of several groups can't be had without horizontal fusion: each group is a launch of its own

//--- graph.mlir
func.func @main(%x: tensor<4xf32>, %y: tensor<9xf32>, %z: tensor<5xf32>, %v: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> (tensor<4xf32>, tensor<9xf32>, tensor<5xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = fusion.abs %x : tensor<4xf32>
  %1 = fusion.abs %y : tensor<9xf32>
  %2 = fusion.abs %z : tensor<5xf32>
  %3 = fusion.matmul %v, %w : tensor<4x4xf32>, tensor<4x4xf32>
  %4 = fusion.matmul %3, %w : tensor<4x4xf32>, tensor<4x4xf32>
  return %0, %1, %2, %3, %4 : tensor<4xf32>, tensor<9xf32>, tensor<5xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}
//--- pair.json
{"fusion-plan": 1, "functions": [
  {"function": "main", "graph": "GRAPH", "groups": [
    {"kind": "horizontal", "members": [{"members": ["#2"]}, {"members": ["#0"]}]},
    {"members": ["#1"]}, {"members": ["#3"]}, {"members": ["#4"]}]}]}
//--- bad.json
{"fusion-plan": 1, "functions": [
  {"function": "main", "graph": "GRAPH", "groups": [
    {"kind": "horizontal", "members": [
      {"members": ["#1"]},
      {"members": ["#3"]}]},
    {"members": ["#0"]}, {"members": ["#2"]}, {"members": ["#4"]}]}]}
//--- dependent.json
{"fusion-plan": 1, "functions": [
  {"function": "main", "graph": "GRAPH", "groups": [
    {"members": ["#0"]}, {"members": ["#1"]}, {"members": ["#2"]},
    {"kind": "horizontal", "members": [
      {"members": ["#3"]},
      {"members": ["#4"]}]}]}]}

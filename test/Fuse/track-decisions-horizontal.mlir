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

// RUN: not fusion-opt %t/graph.mlir --fusion-fuse="plan=%t/pair.full.json plan-strict no-fuse=horizontal" -o /dev/null 2>&1 | FileCheck %s --check-prefix=STRICT-OFF

// In another order, members and all: followed without a complaint, and written so.
// RUN: %python %S/Inputs/fill_plan.py %t/written.json %t/turned.json > %t/turned.full.json
// RUN: fusion-opt %t/graph.mlir --fusion-fuse="plan=%t/turned.full.json plan-strict emit-plan=%t/turned.2.json" -o %t/turned.mlir
// RUN: fusion-opt %t/graph.mlir --fusion-fuse="plan=%t/turned.2.json plan-strict emit-plan=%t/turned.3.json" -o %t/turned.again.mlir
// RUN: diff %t/turned.2.json %t/turned.3.json
// RUN: diff %t/turned.mlir %t/turned.again.mlir
// RUN: FileCheck %s --check-prefix=TURNED < %t/turned.2.json
// TURNED: "matmul#3:
// TURNED: {"kind": "horizontal"
// TURNED: "matmul#4:

// Launches of several groups are written, followed exactly, and edited.
// PLAN: {"kind": "horizontal", "rule": "fuse-horizontal"
// PLAN: {"kind": "loop"
// PLAN: "members": [
// PLAN-NEXT: "abs#0:
// PLAN: "abs#1:
// PLAN: "abs#2:

// Of four that the planner would launch at once, two launches of two each.
// PAIR: fusion.group horizontal
// PAIR-COUNT-2: fusion.group loop
// PAIR: fusion.yield %{{[0-9]+}}, %{{[0-9]+}} : tensor<5xf32>, tensor<4xf32>
// PAIR: fusion.group horizontal
// PAIR-COUNT-2: fusion.group loop
// PAIR: fusion.yield %{{[0-9]+}}, %{{[0-9]+}} : tensor<9xf32>, tensor<5xf32>

// BAD: bad.full.json:4:{{.*}} warning: the launch of this group can't be had: its groups have different ops or attributes
// DEPENDENT: dependent.full.json:5:{{.*}} warning: the launch of this group can't be had: one group needs what the other computes, directly or through others (horizontal-dependency)
// OFF: pair.full.json:3:{{.*}} warning: the launch can't be had without horizontal fusion: each of its 2 groups is a launch of its own
// OFF: pair.full.json:4:{{.*}} warning: the launch can't be had without horizontal fusion

// Each launch is an error of its own in strict mode.
// STRICT-OFF: pair.full.json:3:{{.*}} error: the launch can't be had without horizontal fusion
// STRICT-OFF: pair.full.json:4:{{.*}} error: the launch can't be had without horizontal fusion

// Launches are added to a function that has one already by nobody, and a function
// whose ops nothing reads has no groups: both are said.
// RUN: fusion-opt %t/made.mlir --fusion-fuse="no-fuse=horizontal emit-plan=%t/made.json" -o /dev/null
// RUN: %python %S/Inputs/fill_plan.py %t/made.json %t/more.json > %t/more.full.json
// RUN: not fusion-opt %t/made.mlir --fusion-fuse="plan=%t/more.full.json plan-strict" -o /dev/null 2>&1 | FileCheck %s --check-prefix=MADE
// MADE: more.full.json:4:{{.*}} error: the launch of this group can't be had: the function has a horizontal group already, and then no launch is added
// RUN: fusion-opt %t/dead.mlir --fusion-fuse="plan=%t/dead.json" -o /dev/null 2>&1 | FileCheck %s --check-prefix=DEAD
// DEAD: dead.json:2:{{.*}} warning: no op of the function is read: the plan is not used

//--- graph.mlir
func.func @main(%x: tensor<4xf32>, %y: tensor<9xf32>, %z: tensor<5xf32>, %v: tensor<4x4xf32>, %w: tensor<4x4xf32>, %u: tensor<5xf32>) -> (tensor<4xf32>, tensor<9xf32>, tensor<5xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<5xf32>) {
  %0 = fusion.abs %x : tensor<4xf32>
  %1 = fusion.abs %y : tensor<9xf32>
  %2 = fusion.abs %z : tensor<5xf32>
  %3 = fusion.matmul %v, %w : tensor<4x4xf32>, tensor<4x4xf32>
  %4 = fusion.matmul %3, %w : tensor<4x4xf32>, tensor<4x4xf32>
  %5 = fusion.abs %u : tensor<5xf32>
  return %0, %1, %2, %3, %4, %5 : tensor<4xf32>, tensor<9xf32>, tensor<5xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<5xf32>
}
//--- pair.json
{"fusion-plan": 1, "functions": [
  {"function": "main", "graph": "GRAPH", "groups": [
    {"kind": "horizontal", "members": [{"members": ["#2"]}, {"members": ["#0"]}]},
    {"kind": "horizontal", "members": [{"members": ["#1"]}, {"members": ["#5"]}]},
    {"members": ["#3"]}, {"members": ["#4"]}]}]}
//--- turned.json
{"fusion-plan": 1, "functions": [
  {"function": "main", "graph": "GRAPH", "groups": [
    {"members": ["#3"]},
    {"kind": "horizontal", "members": [{"members": ["#2"]}, {"members": ["#0"]}, {"members": ["#1"]}, {"members": ["#5"]}]},
    {"members": ["#4"]}]}]}
//--- bad.json
{"fusion-plan": 1, "functions": [
  {"function": "main", "graph": "GRAPH", "groups": [
    {"kind": "horizontal", "members": [
      {"members": ["#1"]},
      {"members": ["#3"]}]},
    {"members": ["#0"]}, {"members": ["#2"]}, {"members": ["#4"]}, {"members": ["#5"]}]}]}
//--- dependent.json
{"fusion-plan": 1, "functions": [
  {"function": "main", "graph": "GRAPH", "groups": [
    {"members": ["#0"]}, {"members": ["#1"]}, {"members": ["#2"]}, {"members": ["#5"]},
    {"kind": "horizontal", "members": [
      {"members": ["#3"]},
      {"members": ["#4"]}]}]}]}
//--- made.mlir
func.func @main(%x: tensor<4xf32>, %y: tensor<9xf32>, %z: tensor<5xf32>) -> (tensor<4xf32>, tensor<9xf32>, tensor<5xf32>, tensor<4xf32>) {
  %0:2 = fusion.group horizontal (%a = %x : tensor<4xf32>, %b = %y : tensor<9xf32>) -> (tensor<4xf32>, tensor<9xf32>) {
    %3 = fusion.group loop (%c = %a : tensor<4xf32>) -> tensor<4xf32> {
      %5 = fusion.exp %c : tensor<4xf32>
      fusion.yield %5 : tensor<4xf32>
    }
    %4 = fusion.group loop (%c = %b : tensor<9xf32>) -> tensor<9xf32> {
      %5 = fusion.exp %c : tensor<9xf32>
      fusion.yield %5 : tensor<9xf32>
    }
    fusion.yield %3, %4 : tensor<4xf32>, tensor<9xf32>
  }
  %1 = fusion.abs %z : tensor<5xf32>
  %2 = fusion.abs %x : tensor<4xf32>
  return %0#0, %0#1, %1, %2 : tensor<4xf32>, tensor<9xf32>, tensor<5xf32>, tensor<4xf32>
}
//--- more.json
{"fusion-plan": 1, "functions": [
  {"function": "main", "graph": "GRAPH", "groups": [
    {"kind": "horizontal", "members": [
      {"members": ["#1"]}, {"members": ["#2"]}]}, {"kind": "outside", "members": ["#0"]}]}]}
//--- dead.mlir
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = fusion.abs %x : tensor<4xf32>
  return %x : tensor<4xf32>
}
//--- dead.json
{"fusion-plan": 1, "functions": [
  {"function": "main", "graph": "0123", "groups": [{"members": ["#0"]}]}]}

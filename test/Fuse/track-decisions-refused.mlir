// RUN: split-file %s %t
// RUN: fusion-opt %t/graph.mlir --fusion-fuse="emit-plan=%t/written.json" -o %t/planned.mlir
// RUN: %python %S/Inputs/fill_plan.py %t/written.json %t/plan.json > %t/full.json
// RUN: fusion-opt %t/graph.mlir --fusion-fuse="plan=%t/full.json" -o %t/out.mlir 2> %t/warnings
// RUN: FileCheck %s < %t/warnings
// RUN: FileCheck %s --check-prefix=IR < %t/out.mlir
// RUN: not fusion-opt %t/graph.mlir --fusion-fuse="plan=%t/full.json plan-strict" -o /dev/null 2>&1 | FileCheck %s --check-prefix=STRICT

// A plan that fits nothing leaves all to the planner.
// RUN: fusion-opt %t/graph.mlir --fusion-fuse="plan=%t/other.json" -o %t/out2.mlir 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: diff %t/planned.mlir %t/out2.mlir

// Each line that can't be honoured is a warning at its place, with the reason,
// and its ops are planned as if the line were not there.

// CHECK: full.json:3:1: warning: the group can't be had: the graph has no op add#0:00000000; op #0 is constant#0:{{[0-9a-f]+}}; without it the planner decides
// CHECK: full.json:4:1: warning: the group can't be had: no op of the graph is called '@the summ'; the nearest names are '@the sum'
// CHECK: full.json:5:1: warning: the group can't be had: '@twins' names 2 ops, exp#3 "twins", neg#4 "twins"; name one by its number, as in '#3'
// CHECK: full.json:8:1: warning: the group can't be had: pow#5 "the product" is a member of the group in line 6 already
// CHECK: full.json:8:1: warning: the group can't be had: add#2 "the sum" is listed twice
// CHECK: full.json:9:1: warning: the group can't be had: constant#0 (line 2) does no work: it goes where it is read, leave it out
// CHECK: full.json:10:1: warning: the group can't be had: reshape#7 (line 9) is a view, and free: leave it out
// CHECK: full.json:11:1: warning: the group can't be had: nothing reads abs#8 (line 10)
// CHECK: full.json:12:1: warning: the group can't be had: there is no op #99; the graph has the ops #0 to #14
// CHECK: full.json:13:1: warning: the group can't be had: 'exp' names no op; write 'conv#3:1f2e3d4c', '#3', '@name' or ':12' for line 12
// CHECK: full.json:14:1: warning: the group can't be had: exp#3 "twins" does work, and can't stay outside groups
// CHECK: full.json:15:1: warning: the group can't be had: a group holds one contraction, pool or scatter (two-anchors, at matmul#10 (line 12)); without it the planner decides
// CHECK: full.json:16:1: warning: the group can't be had: it says kind 'row_reduce', but its ops make it 'loop'
// CHECK: full.json:17:1: warning: the group can't be had: another path between the two leads through ops outside the group (cycle)
// CHECK: full.json:2:1: warning: the plan has no group for broadcast#1 (line 3), exp#3 "twins", neg#4 "twins"

// A group before what it reads: it is had, but not there.
// RUN: %python %S/Inputs/fill_plan.py %t/written.json %t/early.json > %t/early.full.json
// RUN: fusion-opt %t/graph.mlir --fusion-fuse="plan=%t/early.full.json" 2> %t/early | FileCheck %s --check-prefix=EARLY-IR
// RUN: FileCheck %s --check-prefix=EARLY < %t/early
// EARLY-NOT: warning
// EARLY: early.full.json:3:1: warning: the group of pow#5 "the product" can't come so early: it reads what groups of later lines compute, and runs after them
// EARLY-NOT: warning
// EARLY-IR: fusion.exp
// EARLY-IR: fusion.neg
// EARLY-IR: fusion.pow
// EARLY-IR: fusion.tan

// What could be had is there: the planner would not leave the product alone.
// IR: fusion.group loop
// IR: fusion.group loop
// IR-NEXT: fusion.pow
// IR-NEXT: fusion.yield

// STRICT: full.json:3:1: error: the group can't be had: the graph has no op
// STRICT: full.json:2:1: error: the plan has no group for

// OTHER: other.json:2:1: warning: the plan was made for the device 'h200', and this is 'cpu'
// OTHER: other.json:6:1: warning: the model has no function 'elsewhere'
// OTHER: other.json:3:1: warning: the plan was made for another graph, 0123 instead of {{[0-9a-f]+}}: groups whose ops are still there are kept
// OTHER: other.json:4:1: warning: the group can't be had

//--- graph.mlir
func.func @main(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<16xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %c = fusion.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %0 = fusion.broadcast %c dims = [1] : tensor<4xf32> to tensor<4x4xf32>
  %1 = fusion.add %x, %0 : tensor<4x4xf32> loc("the sum")
  %2 = fusion.exp %1 : tensor<4x4xf32> loc("twins")
  %3 = fusion.neg %1 : tensor<4x4xf32> loc("twins")
  %4 = fusion.pow %2, %3 : tensor<4x4xf32> loc("the product")
  %5 = fusion.sin %4 : tensor<4x4xf32>
  %6 = fusion.reshape %5 : tensor<4x4xf32> to tensor<16xf32>
  %dead = fusion.abs %x : tensor<4x4xf32>
  %7 = fusion.matmul %x, %w : tensor<4x4xf32>, tensor<4x4xf32>
  %8 = fusion.matmul %7, %w : tensor<4x4xf32>, tensor<4x4xf32>
  %9 = fusion.cos %x : tensor<4x4xf32>
  %10 = fusion.matmul %9, %w : tensor<4x4xf32>, tensor<4x4xf32>
  %11 = fusion.tan %x : tensor<4x4xf32>
  %12 = fusion.add %10, %9 : tensor<4x4xf32>
  return %8, %6, %11, %12 : tensor<4x4xf32>, tensor<16xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}
//--- plan.json
{"fusion-plan": 1, "functions": [
  {"function": "main", "graph": "GRAPH", "groups": [
{"members": ["add#0:00000000"]},
{"members": ["@the summ"]},
{"members": ["@twins"]},
{"members": ["@the product"]},
{"members": ["#6",
  "#5"]}, {"members": ["#2", "@the sum"]},
{"members": ["#0"]},
{"members": ["#7"]},
{"members": ["#8"]},
{"members": ["#99"]},
{"members": ["exp"]},
{"kind": "outside", "members": ["#3"]},
{"members": ["#9", "#10"]},
{"kind": "row_reduce", "members": ["#13"]},
{"members": ["#11", "#14"]},
{"members": ["#12"]}]}]}
//--- early.json
{"fusion-plan": 1, "functions": [
  {"function": "main", "graph": "GRAPH", "groups": [
{"members": ["#5", "#6"]},
{"members": ["#1", "#2", "#3"]},
{"members": ["#4"]},
{"members": ["#13"]},
{"members": ["#9"]}, {"members": ["#10"]}, {"members": ["#11"]}, {"members": ["#12", "#14"]}]}]}
//--- other.json
{"fusion-plan": 1,
     "device": "h200", "functions": [
{"function": "main", "graph": "0123", "groups": [
{"members": ["#99"]}]},

{"function": "elsewhere", "graph": "0123", "groups": []}]}

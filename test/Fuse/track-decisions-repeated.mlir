// RUN: split-file %s %t
// RUN: fusion-opt %t/graph.mlir --fusion-fuse="device=%S/Inputs/sheet.json emit-plan=%t/written.json" -o %t/planned.mlir
// RUN: FileCheck %s --check-prefix=PLAN < %t/written.json
// RUN: fusion-opt %t/graph.mlir --fusion-fuse="device=%S/Inputs/sheet.json plan=%t/written.json plan-strict emit-plan=%t/again.json" -o %t/again.mlir
// RUN: diff %t/written.json %t/again.json
// RUN: diff %t/planned.mlir %t/again.mlir

// An op that two groups compute is written in both, and replayed.
// PLAN: "neg#0:
// PLAN: "neg#4:
// PLAN: "neg#0:
// PLAN: "neg#4:

// A plan of the first half: its groups are followed, and the planner repeats an
// op of the second as it would without a plan. Nothing reads what is computed
// twice.
// RUN: %python %S/Inputs/fill_plan.py %t/written.json %t/half.json > %t/half.full.json
// RUN: fusion-opt %t/graph.mlir --fusion-fuse="device=%S/Inputs/sheet.json no-fuse=horizontal plan=%t/half.full.json" -o %t/half.mlir 2> %t/half.warnings
// RUN: FileCheck %s --check-prefix=HALF < %t/half.mlir
// RUN: FileCheck %s --check-prefix=HALF-WARNING --implicit-check-not=warning < %t/half.warnings
// HALF-COUNT-4: fusion.neg
// HALF-NOT: fusion.neg
// HALF-WARNING: warning: the plan has no group for neg#4 {{.*}}; the planner decides

// Two groups repeat an op that reads what the planner has a group for: none that
// waits for one of them.
// RUN: fusion-opt %t/wait.mlir --fusion-fuse="device=%S/Inputs/sheet.json emit-plan=%t/wait.json" -o /dev/null
// RUN: %python %S/Inputs/fill_plan.py %t/wait.json %t/open.json > %t/open.full.json
// RUN: fusion-opt %t/wait.mlir --fusion-fuse="device=%S/Inputs/sheet.json plan=%t/open.full.json why=#0,#6" -o %t/open.mlir 2> %t/open.warnings
// RUN: FileCheck %s --check-prefix=OPEN < %t/open.mlir
// RUN: FileCheck %s --check-prefix=OPEN-WHY < %t/open.warnings
// OPEN: fusion.group loop
// OPEN-NEXT: fusion.exp
// OPEN-NEXT: fusion.yield
// OPEN: fusion.group column_reduce
// OPEN-NEXT: fusion.neg
// OPEN: fusion.group row_reduce
// OPEN-NEXT: fusion.neg
// OPEN: fusion.mul
// OPEN-WHY: exp#0 {{.*}} and mul#6 {{.*}}: apart, cycle:

// What depends on a line that is dropped is checked again: the second can't be
// had, so the op is written by the first, for what the planner makes of the rest.
// RUN: %python %S/Inputs/fill_plan.py %t/written.json %t/dropped.json > %t/dropped.full.json
// RUN: fusion-opt %t/graph.mlir --fusion-fuse="device=%S/Inputs/sheet.json plan=%t/dropped.full.json" -o %t/dropped.mlir 2> %t/dropped.warnings
// RUN: FileCheck %s --check-prefix=DROPPED-WARNING --implicit-check-not=warning < %t/dropped.warnings
// RUN: FileCheck %s --check-prefix=DROPPED < %t/dropped.mlir
// DROPPED-WARNING: :4:1: warning: the group can't be had: it says kind 'loop', but its ops make it 'row_reduce'; without it the planner decides about its ops
// DROPPED: %[[A:.*]]:2 = fusion.group column_reduce
// DROPPED-NEXT: %[[NEG:.*]] = fusion.neg
// DROPPED: fusion.yield %[[NEG]], %{{.*}} : tensor<8192x8192xf32>, tensor<8192xf32>
// DROPPED: fusion.group row_reduce (%{{.*}} = %[[A]]#0 : tensor<8192x8192xf32>)
// DROPPED-NEXT: fusion.exp

// Of two groups that compute an op, one writes it for a third: the one that says
// so, or the first. Emitted again, the plan says it too.
// RUN: fusion-opt %t/three.mlir --fusion-fuse="device=%S/Inputs/sheet.json emit-plan=%t/three.json" -o /dev/null
// RUN: %python %S/Inputs/fill_plan.py %t/three.json %t/writes.json > %t/writes.full.json
// RUN: fusion-opt %t/three.mlir --fusion-fuse="device=%S/Inputs/sheet.json plan=%t/writes.full.json plan-strict emit-plan=%t/writes.2.json" -o %t/writes.mlir
// RUN: FileCheck %s --check-prefixes=THREE,SECOND < %t/writes.mlir
// RUN: FileCheck %s --check-prefix=WRITES-PLAN < %t/writes.2.json
// RUN: fusion-opt %t/three.mlir --fusion-fuse="device=%S/Inputs/sheet.json plan=%t/writes.2.json plan-strict emit-plan=%t/writes.3.json" -o %t/writes.again.mlir
// RUN: diff %t/writes.2.json %t/writes.3.json
// RUN: diff %t/writes.mlir %t/writes.again.mlir
// RUN: sed -e 's/"writes": ."#0".,//' %t/writes.full.json > %t/first.json
// RUN: fusion-opt %t/three.mlir --fusion-fuse="device=%S/Inputs/sheet.json plan=%t/first.json plan-strict" | FileCheck %s --check-prefixes=THREE,FIRST
// RUN: sed -e 's/"writes": ."#0"./"writes": ["#5"]/' %t/writes.full.json > %t/nothing.json
// RUN: not fusion-opt %t/three.mlir --fusion-fuse="device=%S/Inputs/sheet.json plan=%t/nothing.json plan-strict" -o /dev/null 2>&1 | FileCheck %s --check-prefix=NOTHING
// THREE-LABEL: func.func @main
// SECOND: fusion.group column_reduce ({{.*}}) -> tensor<8192xf32>
// SECOND: %[[W:.*]]:2 = fusion.group row_reduce
// FIRST: %[[W:.*]]:2 = fusion.group column_reduce
// FIRST: fusion.group row_reduce ({{.*}}) -> tensor<8192xf32>
// THREE-NEXT: fusion.neg
// SECOND: fusion.group loop (%{{.*}} = %[[W]]#0
// FIRST: fusion.group loop (%{{.*}} = %[[W]]#0
// THREE-NEXT: fusion.tan
// WRITES-PLAN-NOT: "writes"
// WRITES-PLAN: "kind": "row_reduce"
// WRITES-PLAN: "writes": ["neg#0:
// WRITES-PLAN-NOT: "writes"
// NOTHING: nothing.json:{{[0-9]+}}:{{[0-9]+}}: error: the group can't be had: tan#5 {{.*}} is to be written, and is no member

// A cheap op on its own line serves those that don't repeat it. That the one
// that does can't be had is no reason to drop its line.
// RUN: fusion-opt %t/lone.mlir --fusion-fuse="emit-plan=%t/lone.written.json" -o /dev/null
// RUN: %python %S/Inputs/fill_plan.py %t/lone.written.json %t/lone.json > %t/lone.full.json
// RUN: fusion-opt %t/lone.mlir --fusion-fuse="plan=%t/lone.full.json" -o %t/lone.out 2> %t/lone.warnings
// RUN: FileCheck %s --check-prefix=LONE-WARNING --implicit-check-not=warning < %t/lone.warnings
// RUN: FileCheck %s --check-prefix=LONE < %t/lone.out
// LONE: fusion.group loop
// LONE-NEXT: fusion.broadcast
// LONE-NEXT: fusion.yield
// LONE-WARNING: :4:1: warning: the group can't be had: {{.*}}two-anchors

// What cost refuses a plan may ask for: only what no emitter compiles is refused.
// RUN: fusion-opt %t/dense.mlir --fusion-fuse="device=%S/Inputs/sheet.json emit-plan=%t/dense.json" -o /dev/null
// RUN: FileCheck %s --check-prefix=DENSE-PLAN < %t/dense.json
// RUN: %python %S/Inputs/fill_plan.py %t/dense.json %t/joined.json > %t/joined.full.json
// RUN: fusion-opt %t/dense.mlir --fusion-fuse="device=%S/Inputs/sheet.json plan=%t/joined.full.json plan-strict" | FileCheck %s --check-prefix=JOINED
// DENSE-PLAN: "rule": "compute-density"
// JOINED-COUNT-1: fusion.group
// JOINED-NEXT: fusion.sqrt
// JOINED-NEXT: fusion.broadcast
// JOINED-NOT: fusion.group

// Kept apart by a plan: the answer is the plan, and what the planner would say.
// RUN: fusion-opt %t/dense.mlir --fusion-fuse="device=%S/Inputs/sheet.json plan=%t/dense.json plan-strict emit-plan=%t/dense2.json why=#0,#1" -o /dev/null 2>&1 | FileCheck %s --check-prefix=KEPT
// RUN: diff %t/dense.json %t/dense2.json
// KEPT: apart, plan-file: {{.*}}; the planner would have done so too, compute-density: {{.*}} (600 against 80); {{[0-9]+}} bytes

//--- graph.mlir
func.func @main(%x: tensor<8192x8192xf32>, %y: tensor<8192x8192xf32>) -> (tensor<8192xf32>, tensor<8192xf32>, tensor<8192xf32>, tensor<8192xf32>) {
  %0 = fusion.neg %x : tensor<8192x8192xf32>
  %1 = fusion.exp %0 : tensor<8192x8192xf32>
  %2 = fusion.reduce sum, %1 dims = [1] : tensor<8192x8192xf32>
  %3 = fusion.tanh %0 : tensor<8192x8192xf32>
  %4 = fusion.neg %y : tensor<8192x8192xf32>
  %5 = fusion.reduce sum, %3 dims = [0] : tensor<8192x8192xf32>
  %6 = fusion.exp %4 : tensor<8192x8192xf32>
  %7 = fusion.reduce sum, %6 dims = [1] : tensor<8192x8192xf32>
  %8 = fusion.tanh %4 : tensor<8192x8192xf32>
  %9 = fusion.reduce sum, %8 dims = [0] : tensor<8192x8192xf32>
  return %2, %5, %7, %9 : tensor<8192xf32>, tensor<8192xf32>, tensor<8192xf32>, tensor<8192xf32>
}
//--- three.mlir
func.func @main(%x: tensor<8192x8192xf32>) -> (tensor<8192xf32>, tensor<8192xf32>, tensor<8192x8192xf32>) {
  %0 = fusion.neg %x : tensor<8192x8192xf32>
  %1 = fusion.exp %0 : tensor<8192x8192xf32>
  %2 = fusion.reduce sum, %1 dims = [1] : tensor<8192x8192xf32>
  %3 = fusion.tanh %0 : tensor<8192x8192xf32>
  %4 = fusion.reduce sum, %3 dims = [0] : tensor<8192x8192xf32>
  %5 = fusion.tan %0 : tensor<8192x8192xf32>
  return %2, %4, %5 : tensor<8192xf32>, tensor<8192xf32>, tensor<8192x8192xf32>
}
//--- writes.json
{"fusion-plan": 1, "functions": [
  {"function": "main", "graph": "GRAPH", "groups": [
    {"members": ["#0", "#3", "#4"]},
    {"writes": ["#0"], "members": ["#0", "#1", "#2"]},
    {"members": ["#5"]}]}]}
//--- half.json
{"fusion-plan": 1, "functions": [
  {"function": "main", "graph": "GRAPH", "groups": [
    {"members": ["#0", "#3", "#5"]},
    {"members": ["#0", "#1", "#2"]}]}]}
//--- dropped.json
{"fusion-plan": 1, "functions": [
  {"function": "main", "graph": "GRAPH", "groups": [
{"members": ["#0", "#3", "#5"]},
{"kind": "loop", "members": ["#0", "#1", "#2"]},
{"members": ["#4", "#6", "#7"]}, {"members": ["#8", "#9"]}]}]}
//--- wait.mlir
func.func @main(%x: tensor<8192x8192xf32>) -> (tensor<8192xf32>, tensor<8192x8192xf32>) {
  %0 = fusion.exp %x : tensor<8192x8192xf32>
  %1 = fusion.neg %0 : tensor<8192x8192xf32>
  %2 = fusion.reduce sum, %1 dims = [0] : tensor<8192x8192xf32>
  %3 = fusion.tanh %1 : tensor<8192x8192xf32>
  %4 = fusion.reduce sum, %3 dims = [1] : tensor<8192x8192xf32>
  %5 = fusion.broadcast %4 dims = [0] : tensor<8192xf32> to tensor<8192x8192xf32>
  %6 = fusion.mul %0, %5 : tensor<8192x8192xf32>
  return %2, %6 : tensor<8192xf32>, tensor<8192x8192xf32>
}
//--- open.json
{"fusion-plan": 1, "functions": [
  {"function": "main", "graph": "GRAPH", "groups": [
    {"members": ["#1", "#2"]},
    {"members": ["#1", "#3", "#4"]}]}]}
//--- lone.mlir
func.func @main(%x: tensor<4xf32>, %v: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = fusion.broadcast %x dims = [1] : tensor<4xf32> to tensor<4x4xf32>
  %1 = fusion.matmul %v, %w : tensor<4x4xf32>, tensor<4x4xf32>
  %2 = fusion.matmul %1, %w : tensor<4x4xf32>, tensor<4x4xf32>
  %3 = fusion.pow %2, %0 : tensor<4x4xf32>
  %4 = fusion.atan2 %v, %0 : tensor<4x4xf32>
  return %3, %4 : tensor<4x4xf32>, tensor<4x4xf32>
}
//--- lone.json
{"fusion-plan": 1, "functions": [
  {"function": "main", "graph": "GRAPH", "groups": [
{"members": ["#0"]}, {"members": ["#0", "#4"]},
{"members": ["#0", "#1", "#2", "#3"]}]}]}
//--- dense.mlir
func.func @main(%x: tensor<4194304xf32>) -> tensor<4194304x7xf32> {
  %0 = fusion.sqrt %x : tensor<4194304xf32>
  %1 = fusion.broadcast %0 dims = [0] : tensor<4194304xf32> to tensor<4194304x7xf32>
  return %1 : tensor<4194304x7xf32>
}
//--- joined.json
{"fusion-plan": 1, "functions": [
  {"function": "main", "graph": "GRAPH", "groups": [
    {"members": ["#0", "#1"]}]}]}

// RUN: split-file %s %t

// What is wrong with the form of a plan is an error in any mode, with its line.

// RUN: not fusion-opt %t/graph.mlir --fusion-track-decisions="plan=%t/missing.json" 2>&1 | FileCheck %s --check-prefix=MISSING
// MISSING: error: cannot read the plan '{{.*}}missing.json': No such file or directory; give the path of a file that --emit-plan wrote

// RUN: not fusion-opt %t/graph.mlir --fusion-track-decisions="plan=%t/empty.json" 2>&1 | FileCheck %s --check-prefix=EMPTY
// EMPTY: empty.json:1:1: error: the file ends where a value is expected
// RUN: not fusion-opt %t/graph.mlir --fusion-track-decisions="plan=%t/comma.json" 2>&1 | FileCheck %s --check-prefix=COMMA
// COMMA: comma.json:3:3: error: '"' where ',' or '}' is expected
// RUN: not fusion-opt %t/graph.mlir --fusion-track-decisions="plan=%t/trailing.json" 2>&1 | FileCheck %s --check-prefix=TRAILING
// TRAILING: trailing.json:4:1: error: '}' where a key in double quotes is expected
// RUN: not fusion-opt %t/graph.mlir --fusion-track-decisions="plan=%t/twice.json" 2>&1 | FileCheck %s --check-prefix=TWICE
// TWICE: twice.json:3:2: error: the key 'functions' stands twice in one object
// RUN: not fusion-opt %t/graph.mlir --fusion-track-decisions="plan=%t/version.json" 2>&1 | FileCheck %s --check-prefix=VERSION
// VERSION: version.json:1:17: error: this compiler reads version 1 of plans; write the plan anew with --emit-plan
// RUN: not fusion-opt %t/graph.mlir --fusion-track-decisions="plan=%t/unversioned.json" 2>&1 | FileCheck %s --check-prefix=UNVERSIONED
// UNVERSIONED: unversioned.json:1:1: error: a plan has no 'fusion-plan'; write "fusion-plan": 1
// RUN: not fusion-opt %t/graph.mlir --fusion-track-decisions="plan=%t/key.json" 2>&1 | FileCheck %s --check-prefix=KEY
// KEY: key.json:4:13: error: unknown key 'membrs' in a group; did you mean 'members'?
// RUN: not fusion-opt %t/graph.mlir --fusion-track-decisions="plan=%t/kind.json" 2>&1 | FileCheck %s --check-prefix=KIND
// KIND: kind.json:3:11: error: unknown kind 'vertical'; the kinds are: outside, loop, row_reduce,
// RUN: not fusion-opt %t/graph.mlir --fusion-track-decisions="plan=%t/type.json" 2>&1 | FileCheck %s --check-prefix=TYPE
// TYPE: type.json:4:15: error: a member is a number, not a string
// RUN: not fusion-opt %t/graph.mlir --fusion-track-decisions="plan=%t/nested.json" 2>&1 | FileCheck %s --check-prefix=NESTED
// NESTED: nested.json:4:3: error: only a group of kind 'horizontal' has groups as members
// RUN: not fusion-opt %t/graph.mlir --fusion-track-decisions="plan=%t/deeper.json" 2>&1 | FileCheck %s --check-prefix=DEEPER
// DEEPER: deeper.json:4:3: error: a horizontal group holds groups of ops, none of kind 'horizontal'
// RUN: not fusion-opt %t/graph.mlir --fusion-track-decisions="plan=%t/none.json" 2>&1 | FileCheck %s --check-prefix=NO-MEMBERS
// NO-MEMBERS: none.json:3:14: error: a group has no members
// RUN: not fusion-opt %t/graph.mlir --fusion-track-decisions="plan=%t/two.json" 2>&1 | FileCheck %s --check-prefix=TWO
// TWO: two.json:3:1: error: two plans for the function 'main'
// RUN: not fusion-opt %t/graph.mlir --fusion-track-decisions="plan=%t/rest.json" 2>&1 | FileCheck %s --check-prefix=REST
// REST: rest.json:2:1: error: 'x' where the end of the file is expected

// Hostile nesting is no way to a stack overflow.
// RUN: %python -c "print('[' * 1000000)" > %t/deep.json
// RUN: not fusion-opt %t/graph.mlir --fusion-track-decisions="plan=%t/deep.json" 2>&1 | cut -c -200 | FileCheck %s --check-prefix=DEEP
// DEEP: error: arrays and objects nested more than 32 deep

// A plan and no vertical fusion contradict each other.
// RUN: not fusion-opt %t/graph.mlir --fusion-fuse="plan=%t/fine.json no-fuse=vertical" 2>&1 | FileCheck %s --check-prefix=SEPARATE
// SEPARATE: error: a plan and no vertical fusion at once: leave out one of the two

//--- graph.mlir
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = fusion.exp %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
//--- empty.json
//--- comma.json
{
  "fusion-plan": 1
  "functions": []}
//--- trailing.json
{
  "fusion-plan": 1,
  "functions": [],
}
//--- twice.json
{"fusion-plan": 1,
 "functions": [],
 "functions": []}
//--- version.json
{"fusion-plan": 2, "functions": [], "something": "new"}
//--- unversioned.json
{"functions": []}
//--- key.json
{"fusion-plan": 1, "functions": [
  {"function": "main", "graph": "0", "groups": [
 {"kind": "loop",
  "membrs": [ "#0"]}]}]}
//--- kind.json
{"fusion-plan": 1, "functions": [
  {"function": "main", "graph": "0", "groups": [
 {"kind": "vertical", "members": ["#0"]}]}]}
//--- type.json
{"fusion-plan": 1, "functions": [
  {"function": "main", "graph": "0", "groups": [
 {"kind": "loop",
  "members": [0]}]}]}
//--- nested.json
{"fusion-plan": 1, "functions": [
  {"function": "main", "graph": "0", "groups": [
 {"kind": "loop", "members": [
  {"members": ["#0"]}]}]}]}
//--- deeper.json
{"fusion-plan": 1, "functions": [
  {"function": "main", "graph": "0", "groups": [
 {"kind": "horizontal", "members": [
  {"kind": "horizontal", "members": []}]}]}]}
//--- none.json
{"fusion-plan": 1, "functions": [
  {"function": "main", "graph": "0", "groups": [
 {"members": []}]}]}
//--- two.json
{"fusion-plan": 1, "functions": [
{"function": "main", "graph": "0", "groups": []},
{"function": "main", "graph": "0", "groups": []}]}
//--- rest.json
{"fusion-plan": 1, "functions": []}
x
//--- fine.json
{"fusion-plan": 1, "functions": [
  {"function": "main", "graph": "0", "groups": []}]}

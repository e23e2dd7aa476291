// RUN: fusion-opt %s --fusion-verify-fusion-certificate -split-input-file -verify-diagnostics
// RUN: not fusion-opt %s --fusion-verify-fusion-certificate=against=before -split-input-file --mlir-disable-threading 2>&1 | FileCheck %s

// Groups that are no groups, and groups that compute something else than the
// function @before.

// CHECK: error: internal error: the graph behind fusion is not the graph before it: result 0 is another expression
// CHECK: note: this op was not in the graph before fusion
func.func @before(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = fusion.group fallback (%a = %x : tensor<4xf32>) -> tensor<4xf32> { // expected-error {{internal error: the group has kind fallback, but its ops make it loop}}
    %1 = fusion.exp %a : tensor<4xf32>
    fusion.yield %1 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = fusion.neg %x : tensor<4xf32> // expected-error {{internal error: 'fusion.neg' is in no group after the fuse phase}}
  return %0 : tensor<4xf32>
}

// -----

// The operands are swapped: both ops are known, the result is not.
// CHECK: error: internal error: {{.*}}: result 0 is another expression
func.func @before(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = fusion.group loop (%a = %x : tensor<4xf32>, %b = %y : tensor<4xf32>) -> tensor<4xf32> {
    %1 = fusion.sub %a, %b : tensor<4xf32>
    fusion.yield %1 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = fusion.group loop (%a = %y : tensor<4xf32>, %b = %x : tensor<4xf32>) -> tensor<4xf32> {
    %1 = fusion.sub %a, %b : tensor<4xf32>
    fusion.yield %1 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----

// Computed twice, which only cheap ops may be.
// CHECK: error: internal error: {{.*}}: 'fusion.exp' is computed 2 times instead of 1
func.func @before(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0:2 = fusion.group loop (%a = %x : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %1 = fusion.exp %a : tensor<4xf32>
    %2 = fusion.neg %1 : tensor<4xf32>
    fusion.yield %1, %2 : tensor<4xf32>, tensor<4xf32>
  }
  return %0#0, %0#1 : tensor<4xf32>, tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
    %1 = fusion.exp %a : tensor<4xf32>
    fusion.yield %1 : tensor<4xf32>
  }
  %2 = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
    %1 = fusion.exp %a : tensor<4xf32>
    %3 = fusion.neg %1 : tensor<4xf32>
    fusion.yield %3 : tensor<4xf32>
  }
  return %0, %2 : tensor<4xf32>, tensor<4xf32>
}

// -----

// Two outputs of two shapes: no emitter handles that.
func.func @shapes(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<2xf32>) {
  %0:2 = fusion.group loop (%a = %x : tensor<4xf32>) -> (tensor<4xf32>, tensor<2xf32>) { // expected-error {{internal error: the group is none that code generation handles: outputs of the group would have different shapes}}
    %1 = fusion.exp %a : tensor<4xf32>
    %2 = fusion.slice %1 starts = [0] limits = [2] strides = [1] : tensor<4xf32> // expected-note {{because of this op}}
    fusion.yield %1, %2 : tensor<4xf32>, tensor<2xf32>
  }
  return %0#0, %0#1 : tensor<4xf32>, tensor<2xf32>
}

// -----

// CHECK: error: there is no function @before with a body to compare with
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// Members of a horizontal group are checked like any other group.
func.func @member(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0:2 = fusion.group horizontal (%a = %x : tensor<4xf32>, %b = %y : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %1 = fusion.group loop (%c = %a : tensor<4xf32>) -> tensor<4xf32> {
      %3 = fusion.exp %c : tensor<4xf32>
      fusion.yield %3 : tensor<4xf32>
    }
    // expected-error @+1 {{internal error: the group has kind row_reduce, but its ops make it loop}}
    %2 = fusion.group row_reduce (%c = %b : tensor<4xf32>) -> tensor<4xf32> {
      %3 = fusion.exp %c : tensor<4xf32>
      fusion.yield %3 : tensor<4xf32>
    }
    fusion.yield %1, %2 : tensor<4xf32>, tensor<4xf32>
  }
  return %0#0, %0#1 : tensor<4xf32>, tensor<4xf32>
}

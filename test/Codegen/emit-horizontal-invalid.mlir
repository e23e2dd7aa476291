// RUN: fusion-opt %s --fusion-emit-kernels --split-input-file --verify-diagnostics

func.func @two_calls(%a: tensor<4x4xf32>, %b: tensor<8x8xf32>) -> (tensor<4x4xf32>, tensor<8x8xf32>) {
  // expected-error @+1 {{members that a library computes must be one and the same call; split the group}}
  %0:2 = fusion.group horizontal (%i = %a : tensor<4x4xf32>, %j = %b : tensor<8x8xf32>) -> (tensor<4x4xf32>, tensor<8x8xf32>) {
    %1 = fusion.group library (%p = %i : tensor<4x4xf32>) -> tensor<4x4xf32> {
      %3 = fusion.matmul %p, %p : tensor<4x4xf32>, tensor<4x4xf32>
      fusion.yield %3 : tensor<4x4xf32>
    }
    %2 = fusion.group library (%p = %j : tensor<8x8xf32>) -> tensor<8x8xf32> {
      %3 = fusion.matmul %p, %p : tensor<8x8xf32>, tensor<8x8xf32>
      fusion.yield %3 : tensor<8x8xf32>
    }
    fusion.yield %1, %2 : tensor<4x4xf32>, tensor<8x8xf32>
  }
  return %0#0, %0#1 : tensor<4x4xf32>, tensor<8x8xf32>
}

// -----

func.func @dependent(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // expected-error @+1 {{its inputs must be those of its members, in their order}}
  %0:2 = fusion.group horizontal (%i = %a : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %1 = fusion.group loop (%p = %i : tensor<4xf32>) -> tensor<4xf32> {
      %3 = fusion.exp %p : tensor<4xf32>
      fusion.yield %3 : tensor<4xf32>
    }
    %2 = fusion.group loop (%p = %1 : tensor<4xf32>) -> tensor<4xf32> {
      %3 = fusion.exp %p : tensor<4xf32>
      fusion.yield %3 : tensor<4xf32>
    }
    fusion.yield %1, %2 : tensor<4xf32>, tensor<4xf32>
  }
  return %0#0, %0#1 : tensor<4xf32>, tensor<4xf32>
}

// -----

func.func @swapped(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // expected-error @+1 {{its outputs must be those of its members, in their order}}
  %0:2 = fusion.group horizontal (%i = %a : tensor<4xf32>, %j = %b : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %1 = fusion.group loop (%p = %i : tensor<4xf32>) -> tensor<4xf32> {
      %3 = fusion.exp %p : tensor<4xf32>
      fusion.yield %3 : tensor<4xf32>
    }
    %2 = fusion.group loop (%p = %j : tensor<4xf32>) -> tensor<4xf32> {
      %3 = fusion.exp %p : tensor<4xf32>
      fusion.yield %3 : tensor<4xf32>
    }
    fusion.yield %2, %1 : tensor<4xf32>, tensor<4xf32>
  }
  return %0#0, %0#1 : tensor<4xf32>, tensor<4xf32>
}

// -----

func.func @unused_input(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{has inputs or outputs that no member has}}
  %0 = fusion.group horizontal (%i = %a : tensor<4xf32>, %j = %b : tensor<4xf32>) -> tensor<4xf32> {
    %1 = fusion.group loop (%p = %i : tensor<4xf32>) -> tensor<4xf32> {
      %3 = fusion.exp %p : tensor<4xf32>
      fusion.yield %3 : tensor<4xf32>
    }
    fusion.yield %1 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// RUN: fusion-opt %s --fusion-emit-kernels --split-input-file --verify-diagnostics

func.func @tensor_constant(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error @+1 {{fusion.constant: only a splat may stand inside a group; pass the tensor as an input}}
  %r = fusion.group loop (%a = %x : tensor<2xf32>) -> tensor<2xf32> {
    %c = fusion.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %0 = fusion.add %a, %c : tensor<2xf32>
    fusion.yield %0 : tensor<2xf32>
  }
  return %r : tensor<2xf32>
}

// -----

func.func @shapes(%x: tensor<2xf32>, %y: tensor<3xf32>) -> (tensor<2xf32>, tensor<3xf32>) {
  // expected-error @+1 {{can't be compiled as one kernel: the outputs have different shapes; split the group}}
  %r, %s = fusion.group loop (%a = %x : tensor<2xf32>, %b = %y : tensor<3xf32>) -> (tensor<2xf32>, tensor<3xf32>) {
    %0 = fusion.neg %a : tensor<2xf32>
    %1 = fusion.neg %b : tensor<3xf32>
    fusion.yield %0, %1 : tensor<2xf32>, tensor<3xf32>
  }
  return %r, %s : tensor<2xf32>, tensor<3xf32>
}

// -----

func.func @no_library_op(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error @+1 {{a library group needs a conv, conv_transpose, matmul, avg_pool, attention or attention_grad; use another kind}}
  %r = fusion.group library (%a = %x : tensor<2xf32>) -> tensor<2xf32> {
    %0 = fusion.neg %a : tensor<2xf32>
    fusion.yield %0 : tensor<2xf32>
  }
  return %r : tensor<2xf32>
}

// -----

func.func @library_type(%x: tensor<2x3xf64>, %y: tensor<3x4xf64>) -> tensor<2x4xf64> {
  %r = fusion.group library (%a = %x : tensor<2x3xf64>, %b = %y : tensor<3x4xf64>) -> tensor<2x4xf64> {
    // expected-error @+1 {{not served by the library: matmul of f64: the library computes f32; use kind contraction or window}}
    %0 = fusion.matmul %a, %b : tensor<2x3xf64>, tensor<3x4xf64>
    fusion.yield %0 : tensor<2x4xf64>
  }
  return %r : tensor<2x4xf64>
}

// -----

func.func @scatter_epilogue(%x: tensor<4xf32>, %i: tensor<2x1xi64>, %u: tensor<2xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{fusion.scatter: only its group's yield may read it}}
  %r = fusion.group scatter (%a = %x : tensor<4xf32>, %b = %i : tensor<2x1xi64>, %c = %u : tensor<2xf32>) -> tensor<4xf32> {
    %0 = fusion.scatter set, %a, %b, %c : tensor<4xf32>, tensor<2x1xi64>, tensor<2xf32>
    %1 = fusion.neg %0 : tensor<4xf32>
    fusion.yield %1 : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}

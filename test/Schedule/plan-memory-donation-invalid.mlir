// RUN: fusion-opt %s -split-input-file -verify-diagnostics --fusion-plan-memory

// What can't be donated.

// expected-error @+1 {{argument 0 is donated to result 1, which does not exist: the function has 1 results}}
func.func @main(%a: tensor<4xf32> {fusion.donated = 1}) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}

// -----

// expected-error @+1 {{argument 0 is donated to result 0, which has another type: 'tensor<2x2xf32>' instead of 'tensor<4xf32>'}}
func.func @main(%a: tensor<4xf32> {fusion.donated = 0}) -> tensor<2x2xf32> {
  %0 = fusion.reshape %a : tensor<4xf32> to tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}

// -----

// expected-error @+1 {{argument 1 is donated to result 0, which has the bytes of argument 0 already}}
func.func @main(%a: tensor<4xf32> {fusion.donated = 0}, %b: tensor<4xf32> {fusion.donated = 0}) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}

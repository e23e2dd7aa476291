// RUN: fusion-opt %s --split-input-file --verify-diagnostics --fusion-prefetch-all-gather=budget=100

// Two layers of 64 bytes are read by one op: 100 do not hold them.
fusion.mesh @m(dp = 2)
func.func @main(%p: tensor<4xf32>, %q: tensor<4xf32>) -> tensor<8xf32> {
  %v = fusion.all_gather %p dim = 0 on @m[dp] : (tensor<4xf32>) -> tensor<8xf32>
  %w = fusion.all_gather %q dim = 0 on @m[dp] : (tensor<4xf32>) -> tensor<8xf32>
  // expected-error @+1 {{needs 128 bytes of gathered values at once, --prefetch-budget allows 100: give at least 128}}
  %a = fusion.group loop (%in = %v : tensor<8xf32>, %in2 = %w : tensor<8xf32>) -> tensor<8xf32> {
    %0 = fusion.add %in, %in2 : tensor<8xf32>
    fusion.yield %0 : tensor<8xf32>
  }
  return %a : tensor<8xf32>
}

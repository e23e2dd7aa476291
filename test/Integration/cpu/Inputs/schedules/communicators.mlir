fusion.mesh @m(dp = 2, tp = 1)
func.func @main(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>, %v: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
  %a = fusion.matmul %x, %w : tensor<8x8xf32>, tensor<8x8xf32>
  %b = fusion.all_reduce sum, %a on @m[dp] : tensor<8x8xf32>
  %c = fusion.matmul %b, %v : tensor<8x8xf32>, tensor<8x8xf32>
  %f = fusion.async stream = 1 -> tensor<8x8xf32> {
    %s = fusion.all_reduce mean, %c on @m[dp, tp] : tensor<8x8xf32>
    fusion.yield %s : tensor<8x8xf32>
  }
  %d = fusion.exp %b : tensor<8x8xf32>
  %e = fusion.all_reduce sum, %d on @m[dp] : tensor<8x8xf32>
  %k = fusion.matmul %e, %w : tensor<8x8xf32>, tensor<8x8xf32>
  %g = fusion.async stream = 1 -> tensor<8x8xf32> {
    %s = fusion.all_reduce mean, %k on @m[dp, tp] : tensor<8x8xf32>
    fusion.yield %s : tensor<8x8xf32>
  }
  %p = fusion.await %f : !fusion.future<tensor<8x8xf32>>
  %u = fusion.sub %w, %p : tensor<8x8xf32>
  %q = fusion.await %g : !fusion.future<tensor<8x8xf32>>
  %t = fusion.sub %v, %q : tensor<8x8xf32>
  return %u, %t, %e : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}

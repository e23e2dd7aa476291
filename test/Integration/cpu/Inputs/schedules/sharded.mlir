fusion.mesh @m(dp = 2, tp = 1)
func.func @main(%x: tensor<8x8xf32>, %w: tensor<4x8xf32> {fusion.donated = 0 : i64}) -> (tensor<4x8xf32>, tensor<8x8xf32>) {
  %f0 = fusion.async stream = 2 -> tensor<8x8xf32> {
    %s = fusion.all_gather %w dim = 0 on @m[dp] : (tensor<4x8xf32>) -> tensor<8x8xf32>
    fusion.yield %s : tensor<8x8xf32>
  }
  %h = fusion.exp %x : tensor<8x8xf32>
  %p = fusion.await %f0 : !fusion.future<tensor<8x8xf32>>
  %g = fusion.matmul %h, %p : tensor<8x8xf32>, tensor<8x8xf32>
  %f1 = fusion.async stream = 1 -> tensor<4x8xf32> {
    %s = fusion.reduce_scatter sum, %g dim = 0 on @m[dp] : (tensor<8x8xf32>) -> tensor<4x8xf32>
    fusion.yield %s : tensor<4x8xf32>
  }
  %q = fusion.matmul %g, %x : tensor<8x8xf32>, tensor<8x8xf32>
  %d = fusion.await %f1 : !fusion.future<tensor<4x8xf32>>
  %n = fusion.sub %w, %d : tensor<4x8xf32>
  %f2 = fusion.async stream = 2 -> tensor<8x8xf32> {
    %s = fusion.all_gather %n dim = 0 on @m[dp] : (tensor<4x8xf32>) -> tensor<8x8xf32>
    fusion.yield %s : tensor<8x8xf32>
  }
  %r = fusion.exp %q : tensor<8x8xf32>
  %z = fusion.await %f2 : !fusion.future<tensor<8x8xf32>>
  %o = fusion.matmul %z, %r : tensor<8x8xf32>, tensor<8x8xf32>
  return %n, %o : tensor<4x8xf32>, tensor<8x8xf32>
}

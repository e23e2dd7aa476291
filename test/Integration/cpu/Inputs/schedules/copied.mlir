fusion.mesh @m(dp = 2, tp = 1)
func.func @main(%x: tensor<8x8xf32>, %w: tensor<4x8xf32> {fusion.donated = 0 : i64}) -> (tensor<4x8xf32>, tensor<8x8xf32>) {
  %f = fusion.async stream = 1 -> tensor<8x8xf32> {
    %s = fusion.all_gather %w dim = 0 on @m[dp] : (tensor<4x8xf32>) -> tensor<8x8xf32>
    fusion.yield %s : tensor<8x8xf32>
  }
  %n = fusion.exp %w : tensor<4x8xf32>
  %t = fusion.all_to_all %x split_dim = 0 concat_dim = 1 on @m[dp] : (tensor<8x8xf32>) -> tensor<4x16xf32>
  %q = fusion.collective_permute %t sources = [0, 1] targets = [1, 0] on @m[dp] : tensor<4x16xf32>
  %r = fusion.reshape %q : tensor<4x16xf32> to tensor<8x8xf32>
  %g = fusion.await %f : !fusion.future<tensor<8x8xf32>>
  %y = fusion.matmul %r, %g : tensor<8x8xf32>, tensor<8x8xf32>
  return %n, %y : tensor<4x8xf32>, tensor<8x8xf32>
}

fusion.mesh @m(dp = 2, tp = 1)
func.func @main(%x: tensor<8x8xf32>, %w0: tensor<4x8xf32>, %w1: tensor<4x8xf32>, %w2: tensor<4x8xf32>) -> tensor<8x8xf32> {
  %f0 = fusion.async stream = 2 -> tensor<8x8xf32> {
    %s = fusion.all_gather %w0 dim = 0 on @m[dp] : (tensor<4x8xf32>) -> tensor<8x8xf32>
    fusion.yield %s : tensor<8x8xf32>
  }
  %f1 = fusion.async stream = 2 -> tensor<8x8xf32> {
    %s = fusion.all_gather %w1 dim = 0 on @m[dp] : (tensor<4x8xf32>) -> tensor<8x8xf32>
    fusion.yield %s : tensor<8x8xf32>
  }
  %p0 = fusion.await %f0 : !fusion.future<tensor<8x8xf32>>
  %y0 = fusion.matmul %x, %p0 : tensor<8x8xf32>, tensor<8x8xf32>
  %f2 = fusion.async stream = 2 -> tensor<8x8xf32> {
    %s = fusion.all_gather %w2 dim = 0 on @m[dp] : (tensor<4x8xf32>) -> tensor<8x8xf32>
    fusion.yield %s : tensor<8x8xf32>
  }
  %p1 = fusion.await %f1 : !fusion.future<tensor<8x8xf32>>
  %y1 = fusion.matmul %y0, %p1 : tensor<8x8xf32>, tensor<8x8xf32>
  %p2 = fusion.await %f2 : !fusion.future<tensor<8x8xf32>>
  %y2 = fusion.matmul %y1, %p2 : tensor<8x8xf32>, tensor<8x8xf32>
  return %y2 : tensor<8x8xf32>
}

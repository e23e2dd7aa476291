fusion.mesh @m(dp = 2, tp = 1)
func.func @main(%x: tensor<8x8xf32>, %w: tensor<8x8xf32> {fusion.donated = 0 : i64}, %v: tensor<8x8xf32> {fusion.donated = 1 : i64}) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %h = fusion.exp %x : tensor<8x8xf32>
  %g = fusion.matmul %h, %w : tensor<8x8xf32>, tensor<8x8xf32>
  %f = fusion.async stream = 1 -> tensor<8x8xf32> {
    %s = fusion.all_reduce sum, %g on @m[dp] : tensor<8x8xf32>
    fusion.yield %s : tensor<8x8xf32>
  }
  %h2 = fusion.exp %h : tensor<8x8xf32>
  %k = fusion.matmul %h2, %v : tensor<8x8xf32>, tensor<8x8xf32>
  %f2 = fusion.async stream = 1 -> tensor<8x8xf32> {
    %s2 = fusion.all_reduce sum, %k on @m[dp] : tensor<8x8xf32>
    fusion.yield %s2 : tensor<8x8xf32>
  }
  %a = fusion.await %f : !fusion.future<tensor<8x8xf32>>
  %nw = fusion.sub %w, %a : tensor<8x8xf32>
  %b = fusion.await %f2 : !fusion.future<tensor<8x8xf32>>
  %nv = fusion.sub %v, %b : tensor<8x8xf32>
  return %nw, %nv : tensor<8x8xf32>, tensor<8x8xf32>
}

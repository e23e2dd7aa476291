fusion.mesh @m(dp = 2, tp = 1)
func.func @main(%x: tensor<8x8xf32>, %w: tensor<8x8xf32> {fusion.donated = 0 : i64}, %v: tensor<8x4xf32> {fusion.donated = 1 : i64}) -> (tensor<8x8xf32>, tensor<8x4xf32>, tensor<8x8xf32>) {
  %g = fusion.matmul %x, %w : tensor<8x8xf32>, tensor<8x8xf32>
  %h = fusion.matmul %g, %v : tensor<8x8xf32>, tensor<8x4xf32>
  %f = fusion.async stream = 1 -> (tensor<8x8xf32>, tensor<8x4xf32>) {
    %s:2 = fusion.all_reduce mean, %g, %h on @m[dp] {fusion.bucket = 0 : i64} : tensor<8x8xf32>, tensor<8x4xf32>
    fusion.yield %s#0, %s#1 : tensor<8x8xf32>, tensor<8x4xf32>
  }
  %e = fusion.exp %x : tensor<8x8xf32>
  %k = fusion.matmul %e, %x : tensor<8x8xf32>, tensor<8x8xf32>
  %f2 = fusion.async stream = 1 -> tensor<8x8xf32> {
    %s = fusion.all_reduce mean, %k on @m[dp] {fusion.bucket = 1 : i64} : tensor<8x8xf32>
    fusion.yield %s : tensor<8x8xf32>
  }
  %a:2 = fusion.await %f : !fusion.future<tensor<8x8xf32>, tensor<8x4xf32>>
  %nw = fusion.sub %w, %a#0 : tensor<8x8xf32>
  %nv = fusion.sub %v, %a#1 : tensor<8x4xf32>
  %b = fusion.await %f2 : !fusion.future<tensor<8x8xf32>>
  %y = fusion.matmul %b, %e : tensor<8x8xf32>, tensor<8x8xf32>
  return %nw, %nv, %y : tensor<8x8xf32>, tensor<8x4xf32>, tensor<8x8xf32>
}

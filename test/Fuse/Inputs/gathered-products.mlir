// Gathers of rows along both axes of a mesh: a gated pair of products with a bias,
// then a product of rank 3 of what they give.
fusion.mesh @m(dp = 2, tp = 3)
func.func @main(%x: tensor<1024x16xf32>, %g: tensor<16x24xf32>, %u: tensor<16x24xf32>, %b: tensor<24xf32>,
                %w: tensor<24x8xf32>, %r: tensor<256x24x8xf32>) -> (tensor<3072x24xf32>, tensor<256x24x8xf32>) {
  %0 = fusion.all_gather %x dim = 0 on @m[tp] : (tensor<1024x16xf32>) -> tensor<3072x16xf32>
  %1 = fusion.matmul %0, %g : tensor<3072x16xf32>, tensor<16x24xf32>
  %2 = fusion.broadcast %b dims = [1] : tensor<24xf32> to tensor<3072x24xf32>
  %3 = fusion.add %1, %2 : tensor<3072x24xf32>
  %4 = fusion.relu %3 : tensor<3072x24xf32>
  %5 = fusion.matmul %0, %u : tensor<3072x16xf32>, tensor<16x24xf32>
  %6 = fusion.mul %5, %4 : tensor<3072x24xf32>
  %7 = fusion.reshape %6 : tensor<3072x24xf32> to tensor<128x24x24xf32>
  %8 = fusion.all_gather %7 dim = 0 on @m[dp] : (tensor<128x24x24xf32>) -> tensor<256x24x24xf32>
  %9 = fusion.matmul %8, %w : tensor<256x24x24xf32>, tensor<24x8xf32>
  %10 = fusion.sub %9, %r : tensor<256x24x8xf32>
  return %6, %10 : tensor<3072x24xf32>, tensor<256x24x8xf32>
}

// Two divisions: by a power of two, which becomes a multiplication, and by three.
func.func @main(%x: tensor<2x4xf32> {fusion.name = "x"}) -> (tensor<2x4xf32> {fusion.name = "y"}) {
  %eight = fusion.constant dense<8.0> : tensor<f32>
  %three = fusion.constant dense<3.0> : tensor<f32>
  %b8 = fusion.broadcast %eight dims = [] : tensor<f32> to tensor<2x4xf32>
  %b3 = fusion.broadcast %three dims = [] : tensor<f32> to tensor<2x4xf32>
  %0 = fusion.div %x, %b8 : tensor<2x4xf32>
  %1 = fusion.div %0, %b3 : tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}

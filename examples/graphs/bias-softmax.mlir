// A bias, an activation, then a softmax and a sum over each row. `%2` has two
// readers; both are on the same rows.
func.func @main(%x: tensor<4x64xf32>, %bias: tensor<64xf32>)
    -> (tensor<4x64xf32>, tensor<4xf32>) {
  %0 = fusion.broadcast %bias dims = [1] : tensor<64xf32> to tensor<4x64xf32>
  %1 = fusion.add %x, %0 : tensor<4x64xf32>
  %2 = fusion.relu %1 : tensor<4x64xf32>
  %3 = fusion.softmax %2 axis = 1 : tensor<4x64xf32>
  %4 = fusion.reduce sum, %2 dims = [1] : tensor<4x64xf32>
  return %3, %4 : tensor<4x64xf32>, tensor<4xf32>
}

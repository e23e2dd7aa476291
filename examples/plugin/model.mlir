// Two choices: between two roots, of which one is enough, and between that and an
// exponential, where there is nothing to share.
func.func @main(%c: tensor<2x4xi1> {fusion.name = "c"},
                %x: tensor<2x4xf32> {fusion.name = "x"},
                %y: tensor<2x4xf32> {fusion.name = "y"})
    -> (tensor<2x4xf32> {fusion.name = "z"}) {
  %0 = fusion.sqrt %x : tensor<2x4xf32>
  %1 = fusion.sqrt %y : tensor<2x4xf32>
  %2 = fusion.select %c, %0, %1 : tensor<2x4xi1>, tensor<2x4xf32>
  %3 = fusion.exp %y : tensor<2x4xf32>
  %4 = fusion.select %c, %2, %3 : tensor<2x4xi1>, tensor<2x4xf32>
  return %4 : tensor<2x4xf32>
}

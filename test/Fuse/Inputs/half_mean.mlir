// The average over four ranks of a number near the end of f16's range, and of the
// least one there is.
fusion.mesh @m(dp = 4)
func.func @main() -> tensor<2xf16> {
  %x = fusion.constant dense<[60000.0, 5.960464477539063e-08]> : tensor<2xf16>
  %f = fusion.constant dense<0.25> : tensor<2xf16>
  %0 = fusion.all_reduce sum, %x on @m[dp] : tensor<2xf16>
  %1 = fusion.mul %0, %f : tensor<2xf16>
  return %1 : tensor<2xf16>
}

// The sums of squares of three tensors are written where one sum of all reads
// them, and that takes the root as well: nothing puts numbers side by side, and
// no launch adds those of one tensor.
//
// RUN: fusion-opt %s --fusion-fuse="device=h200 no-fuse=horizontal" --fusion-emit-kernels="target=cuda fp=fast" | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK-DAG: fusion.group row_reduce {{.*}} : tensor<256x4096xf32>) -> tensor<256xf64> kernel
// CHECK-DAG: fusion.group row_reduce {{.*}} : tensor<192x4096xf32>) -> tensor<192xf64> kernel
// CHECK-DAG: fusion.group row_reduce {{.*}} : tensor<2x384xf32>) -> tensor<2xf64> kernel
// CHECK: fusion.group loop {{.*}} -> tensor<1x450xf64> attributes {fusion.pieces = array<i64: 0, 16, 2064>}
// CHECK-NOT: fusion.group
// CHECK: fusion.group row_reduce {{.*}} -> tensor<f64> kernel @kernels::@[[LAST:k[0-9]+]]
// CHECK: fusion.group loop
// CHECK-NOT: fusion.group
// CHECK: func.func @[[LAST]]({{.*}}fusion.description = "row_reduce: reduce sqrt"
func.func @main(%a: tensor<1024x1024xf32>, %b: tensor<768xf32>, %c: tensor<1024x768xf32>) -> tensor<768xf64> {
  %0 = fusion.cast %a : tensor<1024x1024xf32> to tensor<1024x1024xf64>
  %1 = fusion.mul %0, %0 : tensor<1024x1024xf64>
  %2 = fusion.reduce sum, %1 dims = [0, 1] : tensor<1024x1024xf64>
  %3 = fusion.cast %b : tensor<768xf32> to tensor<768xf64>
  %4 = fusion.mul %3, %3 : tensor<768xf64>
  %5 = fusion.reduce sum, %4 dims = [0] : tensor<768xf64>
  %6 = fusion.cast %c : tensor<1024x768xf32> to tensor<1024x768xf64>
  %7 = fusion.mul %6, %6 : tensor<1024x768xf64>
  %8 = fusion.reduce sum, %7 dims = [0, 1] : tensor<1024x768xf64>
  %9 = fusion.add %5, %2 : tensor<f64>
  %10 = fusion.add %9, %8 : tensor<f64>
  %11 = fusion.sqrt %10 : tensor<f64>
  %12 = fusion.broadcast %11 dims = [] : tensor<f64> to tensor<768xf64>
  %13 = fusion.div %3, %12 : tensor<768xf64>
  return %13 : tensor<768xf64>
}

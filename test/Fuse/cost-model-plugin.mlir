// REQUIRES: test-plugins
// RUN: fusion-opt %s --load-pass-plugin=%fusion_build/test/plugins/TestCostModels.so --fusion-fuse="cost-model=test-square" --remarks-filter=fusion -o %t.mlir 2>&1 | FileCheck %s --check-prefix=SQUARE
// RUN: FileCheck %s --check-prefix=APART < %t.mlir
// RUN: fusion-opt %s --load-pass-plugin=%fusion_build/test/plugins/TestCostModels.so --fusion-fuse="cost-model=test-side-by-side" --remarks-filter=fusion -o %t.mlir 2>&1 | FileCheck %s --check-prefix=SIDE
// RUN: FileCheck %s --check-prefix=APART < %t.mlir
// RUN: fusion-opt %s --fusion-fuse --remarks-filter=fusion -o %t.mlir 2>&1 | FileCheck %s --check-prefix=ROOF
// RUN: FileCheck %s --check-prefix=TOGETHER < %t.mlir

// A plugin's cost model decides about projections and launches too. In
// `test-square` a kernel takes the square of its bytes: two launches of 64 bytes
// take 2 * 64^2, one of 128 bytes 128^2. The projections read 32 and 16 bytes and
// write 32: 2 * 80^2 against (32 + 2 * 16 + 2 * 32)^2.

// APART-NOT: fusion.group horizontal
// APART-NOT: tensor<4x4xf32>
// TOGETHER-DAG: fusion.group horizontal
// TOGETHER-DAG: fusion.matmul {{.*}} : tensor<4x2xf32>, tensor<2x4xf32>

// SQUARE-DAG: [Missed] merge-projections | {{.*}}Reason="one product is predicted to take 16384.0 us, the products apart 12800.0 us"
// SQUARE-DAG: [Missed] horizontal-profit | {{.*}}ops=exp, {{.*}}us_fused=16384.00, us_serial=8192.00, us_streams=8192.00
// SIDE-DAG: [Missed] merge-projections | {{.*}}us_serial=10.00, us_streams=0.00
// SIDE-DAG: [Missed] horizontal-streams | {{.*}}ops=exp, {{.*}}us_fused=5.00, us_serial=10.00, us_streams=0.00
// ROOF-DAG: [Passed] merge-projections
// ROOF-DAG: [Passed] fuse-horizontal | {{.*}}ops=exp
func.func @main(%a: tensor<8xf32>, %b: tensor<8xf32>, %x: tensor<4x2xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<2x4xf32>, tensor<2x4xf32>) {
  %w = fusion.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %v = fusion.constant dense<[[5.0, 6.0], [7.0, 8.0]]> : tensor<2x2xf32>
  %0 = fusion.exp %a : tensor<8xf32>
  %1 = fusion.exp %b : tensor<8xf32>
  %q = fusion.matmul %x, %w : tensor<4x2xf32>, tensor<2x2xf32>
  %k = fusion.matmul %x, %v : tensor<4x2xf32>, tensor<2x2xf32>
  %qt = fusion.transpose %q permutation = [1, 0] : tensor<4x2xf32>
  %kt = fusion.transpose %k permutation = [1, 0] : tensor<4x2xf32>
  return %0, %1, %qt, %kt : tensor<8xf32>, tensor<8xf32>, tensor<2x4xf32>, tensor<2x4xf32>
}

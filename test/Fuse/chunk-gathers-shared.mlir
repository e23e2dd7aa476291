// RUN: fusion-opt %s --fusion-chunk-gathers=device=%S/Inputs/slow-shared.json --remarks-filter=fusion 2>%t.remarks | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK < %t.remarks
// RUN: sed 's/, "units": 1}/}/' %S/Inputs/slow-shared.json > %t.json
// RUN: fusion-opt %s --fusion-chunk-gathers=device=%t.json | FileCheck %s --check-prefix=ALL

// Products leave NCCL one of three multiprocessors, so what it sends in several
// moves goes on beside them; where they take all, only the first would, and the
// rows come at once.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: fusion.collective_permute
// CHECK: fusion.rank_concat
// REMARK: [Passed] chunk-own | {{.*}}chunks=2
// ALL-LABEL: func.func @main
// ALL-COUNT-1: fusion.collective_permute
// ALL-NOT: fusion.collective_permute
// ALL: fusion.rank_concat
fusion.mesh @m(tp = 2)
func.func @main(%x: tensor<1024x16xf32>, %w: tensor<16x8xf32>) -> tensor<2048x8xf32> {
  %0 = fusion.all_gather %x dim = 0 on @m[tp] : (tensor<1024x16xf32>) -> tensor<2048x16xf32>
  %1 = fusion.matmul %0, %w : tensor<2048x16xf32>, tensor<16x8xf32>
  return %1 : tensor<2048x8xf32>
}

// RUN: fusion-opt %s -split-input-file --fusion-chunk-gathers=device=%S/Inputs/slow-sends.json --remarks-filter=fusion 2>%t.remarks | FileCheck %s --enable-var-scope
// RUN: FileCheck %s --check-prefix=REMARK < %t.remarks
// A second run finds nothing left to do.
// RUN: fusion-opt %s -split-input-file --fusion-chunk-gathers=device=%S/Inputs/slow-sends.json --fusion-chunk-gathers=device=%S/Inputs/slow-sends.json | FileCheck %s --enable-var-scope
// Where sends are as fast, moves bring no row twice.
// RUN: sed 's/"send_gbs": 0.05, //' %S/Inputs/slow-sends.json > %t.json
// RUN: fusion-opt %s -split-input-file --fusion-chunk-gathers=device=%t.json | FileCheck %s --check-prefix=MOVES

// Gathers bring own rows once more, and the others' in half of the time.
// CHECK-LABEL: func.func @two
// CHECK-SAME: (%[[X:.*]]: tensor<1024x16xf32>, %[[W:.*]]: tensor<16x8xf32>)
// CHECK-DAG: %[[A:.*]] = fusion.all_gather %{{.*}} dim = 0 on @m[tp] {fusion.chunk = 0 : i64} : (tensor<[[N:[0-9]+]]x16xf32>)
// CHECK-DAG: %[[B:.*]] = fusion.all_gather %{{.*}} dim = 0 on @m[tp] {fusion.chunk = 1 : i64}
// CHECK-DAG: %[[C:.*]] = fusion.rank_slice %[[A]] start = 0 shift = 1 on @m[tp]
// CHECK-DAG: %[[D:.*]] = fusion.rank_slice %[[B]] start = 0 shift = 1 on @m[tp]
// CHECK: %[[P:.*]] = fusion.matmul %[[X]], %[[W]]
// CHECK-NEXT: %[[Q:.*]] = fusion.matmul %[[C]], %[[W]]
// CHECK-NEXT: %[[R:.*]] = fusion.matmul %[[D]], %[[W]]
// CHECK-NEXT: %[[Y:.*]] = fusion.rank_concat %[[P]], %[[Q]], %[[R]] on @m[tp]
// CHECK-NEXT: return %[[Y]]
// REMARK: [Passed] chunk-own | {{.*}}chunks=2
// MOVES-LABEL: func.func @two
// MOVES-NOT: fusion.all_gather
// MOVES: fusion.collective_permute
fusion.mesh @m(tp = 2)
func.func @two(%x: tensor<1024x16xf32>, %w: tensor<16x8xf32>) -> tensor<2048x8xf32> {
  %0 = fusion.all_gather %x dim = 0 on @m[tp] : (tensor<1024x16xf32>) -> tensor<2048x16xf32>
  %1 = fusion.matmul %0, %w : tensor<2048x16xf32>, tensor<16x8xf32>
  return %1 : tensor<2048x8xf32>
}

// -----

// A gather has rows of both other ranks: the products of a chunk are next to each
// other, and in the result the rows of a rank are.
// CHECK-LABEL: func.func @three
// CHECK-SAME: (%[[X:.*]]: tensor<1024x16xf32>, %[[W:.*]]: tensor<16x8xf32>)
// CHECK-DAG: %[[A:.*]] = fusion.all_gather %{{.*}} dim = 0 on @m[tp] {fusion.chunk = 0 : i64}
// CHECK-DAG: %[[B:.*]] = fusion.all_gather %{{.*}} dim = 0 on @m[tp] {fusion.chunk = 1 : i64}
// CHECK-DAG: %[[A1:.*]] = fusion.rank_slice %[[A]] start = 0 shift = 1
// CHECK-DAG: %[[A2:.*]] = fusion.rank_slice %[[A]] start = 0 shift = 2
// CHECK-DAG: %[[B1:.*]] = fusion.rank_slice %[[B]] start = 0 shift = 1
// CHECK-DAG: %[[B2:.*]] = fusion.rank_slice %[[B]] start = 0 shift = 2
// CHECK: %[[P:.*]] = fusion.matmul %[[X]], %[[W]]
// CHECK-NEXT: %[[Q1:.*]] = fusion.matmul %[[A1]], %[[W]]
// CHECK-NEXT: %[[Q2:.*]] = fusion.matmul %[[A2]], %[[W]]
// CHECK-NEXT: %[[R1:.*]] = fusion.matmul %[[B1]], %[[W]]
// CHECK-NEXT: %[[R2:.*]] = fusion.matmul %[[B2]], %[[W]]
// CHECK-NEXT: fusion.rank_concat %[[P]], %[[Q1]], %[[R1]], %[[Q2]], %[[R2]] on @m[tp]
// REMARK: [Passed] chunk-own | {{.*}}chunks=2
// MOVES-LABEL: func.func @three
// MOVES-NOT: fusion.all_gather
fusion.mesh @m(tp = 3)
func.func @three(%x: tensor<1024x16xf32>, %w: tensor<16x8xf32>) -> tensor<3072x8xf32> {
  %0 = fusion.all_gather %x dim = 0 on @m[tp] : (tensor<1024x16xf32>) -> tensor<3072x16xf32>
  %1 = fusion.matmul %0, %w : tensor<3072x16xf32>, tensor<16x8xf32>
  return %1 : tensor<3072x8xf32>
}

// -----

// Kernels expect rows at multiples of 16 bytes: other ranks' begin behind 1025
// rows of 4 bytes. They come by a move.
// CHECK-LABEL: func.func @odd
// CHECK-NOT: fusion.rank_slice
// CHECK: fusion.collective_permute
// REMARK: [Passed] chunk-own | {{.*}}chunks=1
// MOVES-LABEL: func.func @odd
fusion.mesh @m(tp = 2)
func.func @odd(%x: tensor<1025x1xf32>, %w: tensor<1x256xf32>) -> tensor<2050x256xf32> {
  %0 = fusion.all_gather %x dim = 0 on @m[tp] : (tensor<1025x1xf32>) -> tensor<2050x1xf32>
  %1 = fusion.matmul %0, %w : tensor<2050x1xf32>, tensor<1x256xf32>
  return %1 : tensor<2050x256xf32>
}

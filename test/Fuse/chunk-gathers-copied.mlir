// RUN: fusion-opt %s -split-input-file --fusion-chunk-gathers=device=%S/Inputs/slow-copies.json --remarks-filter=fusion 2>%t.remarks | FileCheck %s --enable-var-scope
// RUN: FileCheck %s --check-prefix=REMARK < %t.remarks
// Twice is once.
// RUN: fusion-opt %s -split-input-file --fusion-chunk-gathers=device=%S/Inputs/slow-copies.json --fusion-chunk-gathers=device=%S/Inputs/slow-copies.json | FileCheck %s --enable-var-scope
// What is pinned to NCCL comes in one move.
// RUN: fusion-opt %s -split-input-file "--fusion-chunk-gathers=device=%S/Inputs/slow-copies.json transport=nccl" | FileCheck %s --check-prefix=NCCL

// Copy engines take no multiprocessor: while one half of the other rank's rows is
// multiplied, the second comes. All that is sent is hidden.
// CHECK-LABEL: func.func @halves
// CHECK: %[[X0:.*]] = fusion.slice %arg0 starts = [0, 0] limits = [512, 16]
// CHECK: %[[Y0:.*]] = fusion.collective_permute %[[X0]] sources = [0, 1] targets = [1, 0] on @m[tp] {fusion.chunk = 0 : i64} : tensor<512x16xf32>
// CHECK: %[[X1:.*]] = fusion.slice %arg0 starts = [512, 0] limits = [1024, 16]
// CHECK: %[[Y1:.*]] = fusion.collective_permute %[[X1]] sources = [0, 1] targets = [1, 0] on @m[tp] {fusion.chunk = 1 : i64} : tensor<512x16xf32>
// CHECK: %[[P:.*]] = fusion.matmul %arg0, %arg1
// CHECK: %[[P0:.*]] = fusion.matmul %[[Y0]], %arg1
// CHECK: %[[P1:.*]] = fusion.matmul %[[Y1]], %arg1
// CHECK: fusion.rank_concat %[[P]], %[[P0]], %[[P1]] on @m[tp]
// REMARK: [Passed] chunk-own | {{.*}}chunks=2, nanoseconds=1048{{[0-9]+}}, nanoseconds_whole=1703{{[0-9]+}}, rows_first=512
// NCCL-LABEL: func.func @halves
// NCCL-COUNT-1: fusion.collective_permute
// NCCL-NOT: fusion.collective_permute
// NCCL: return
fusion.mesh @m(tp = 2)
func.func @halves(%x: tensor<1024x16xf32>, %w: tensor<16x16xf32>) -> tensor<2048x16xf32> {
  %0 = fusion.all_gather %x dim = 0 on @m[tp] : (tensor<1024x16xf32>) -> tensor<2048x16xf32>
  %1 = fusion.matmul %0, %w : tensor<2048x16xf32>, tensor<16x16xf32>
  return %1 : tensor<2048x16xf32>
}

// -----

// Three ranks: from the rank behind this one, then from the one behind that,
// which comes last and so in chunks.
// CHECK-LABEL: func.func @three
// CHECK: fusion.collective_permute %arg0 sources = [0, 1, 2] targets = [2, 0, 1] on @m[tp] {fusion.chunk = 0 : i64} : tensor<1024x16xf32>
// CHECK: fusion.collective_permute %{{.*}} sources = [0, 1, 2] targets = [1, 2, 0] on @m[tp] {fusion.chunk = 1 : i64}
// CHECK: fusion.rank_concat {{.*}} -> tensor<3072x12xf32>
// REMARK: [Passed] chunk-own
fusion.mesh @m(dp = 2, tp = 3)
func.func @three(%x: tensor<1024x16xf32>, %w: tensor<16x12xf32>) -> tensor<3072x12xf32> {
  %0 = fusion.all_gather %x dim = 0 on @m[tp] : (tensor<1024x16xf32>) -> tensor<3072x16xf32>
  %1 = fusion.matmul %0, %w : tensor<3072x16xf32>, tensor<16x12xf32>
  return %1 : tensor<3072x12xf32>
}

// -----

// A result that takes an argument's bytes: chunks that hold rows of every rank,
// with the bias and the residual's own rows.
// CHECK-LABEL: func.func @donated
// CHECK: %[[X0:.*]] = fusion.slice %arg0 starts = [0, 0] limits = [[[ROWS:[0-9]+]], 16]
// CHECK: fusion.all_gather %[[X0]] dim = 0 on @m[tp] {fusion.chunk = 0 : i64} : (tensor<[[ROWS]]x16xf32>)
// CHECK: fusion.all_gather {{.*}} {fusion.chunk = 1 : i64}
// CHECK: fusion.matmul %{{.*}}, %arg1 : tensor<[[ROWS]]x16xf32>, tensor<16x16xf32>
// CHECK: fusion.broadcast %arg2 dims = [1] : tensor<16xf32> to tensor<[[ROWS]]x16xf32>
// CHECK: fusion.add
// CHECK: fusion.slice %arg3 starts = [0, 0] limits = [[[ROWS]], 16]
// CHECK: fusion.add
// CHECK: fusion.slice %arg3 starts = [1024, 0]
// CHECK: %[[Y:.*]] = fusion.concat
// CHECK-NEXT: return %[[Y]]
// REMARK: [Missed] chunk-place
// REMARK: [Passed] chunk-gather | {{.*}}chunks={{[2-8]}}
// NCCL-LABEL: func.func @donated
// NCCL-NOT: fusion.chunk
// NCCL: return
fusion.mesh @m(tp = 2)
func.func @donated(%x: tensor<1024x16xf32>, %w: tensor<16x16xf32>, %b: tensor<16xf32>, %r: tensor<2048x16xf32>, %d: tensor<2048x16xf32> {fusion.donated = 0 : i64}) -> tensor<2048x16xf32> {
  %0 = fusion.all_gather %x dim = 0 on @m[tp] : (tensor<1024x16xf32>) -> tensor<2048x16xf32>
  %1 = fusion.matmul %0, %w : tensor<2048x16xf32>, tensor<16x16xf32>
  %2 = fusion.broadcast %b dims = [1] : tensor<16xf32> to tensor<2048x16xf32>
  %3 = fusion.add %1, %2 : tensor<2048x16xf32>
  %4 = fusion.add %3, %r : tensor<2048x16xf32>
  return %4 : tensor<2048x16xf32>
}

// -----

// Boundary: rows of 4 bytes, three of a rank: no part of them begins at a
// multiple of 16 bytes.
// CHECK-LABEL: func.func @narrow
// CHECK-NOT: fusion.chunk
// CHECK: return
// REMARK: [Missed] chunk-profit
fusion.mesh @m(tp = 2)
func.func @narrow(%x: tensor<3x16xf32>, %w: tensor<16x1xf32>) -> tensor<6x1xf32> {
  %0 = fusion.all_gather %x dim = 0 on @m[tp] : (tensor<3x16xf32>) -> tensor<6x16xf32>
  %1 = fusion.matmul %0, %w : tensor<6x16xf32>, tensor<16x1xf32>
  return %1 : tensor<6x1xf32>
}

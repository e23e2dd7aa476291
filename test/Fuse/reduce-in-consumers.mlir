// Reductions over ranks as moves by copy engines and sums by their readers.
// RUN: fusion-opt %s -split-input-file --fusion-reduce-in-consumers=transport=peer | FileCheck %s
// Twice is once.
// RUN: fusion-opt %s -split-input-file --fusion-reduce-in-consumers=transport=peer -o %t.once
// RUN: fusion-opt %t.once -split-input-file --fusion-reduce-in-consumers=transport=peer -o %t.twice
// RUN: diff %t.once %t.twice
// Asked for NCCL, nothing but a name is new; without figures of copy engines in
// the device's file, nothing at all is.
// RUN: fusion-opt %s -split-input-file --fusion-reduce-in-consumers=transport=nccl | FileCheck %s --check-prefix=NCCL
// RUN: fusion-opt %s -split-input-file --fusion-reduce-in-consumers | FileCheck %s --check-prefix=AUTO
// NCCL-NOT: peer
// NCCL: fusion.all_reduce sum, %{{.*}} on @m[dp] {fusion.transport = "nccl"}
// AUTO-NOT: transport

// Two ranks swap; f32 is added in f32.
// CHECK-LABEL: func @swap
// CHECK-SAME:  (%[[G:.*]]: tensor<4xf32>, %[[W:.*]]: tensor<4xf32>)
// CHECK-NEXT:  %[[O:.*]] = fusion.collective_permute %[[G]] sources = [0, 1] targets = [1, 0] on @m[dp] {fusion.transport = "peer"} : tensor<4xf32>
// CHECK-NEXT:  %[[S:.*]] = fusion.add %[[G]], %[[O]] : tensor<4xf32>
// CHECK-NEXT:  fusion.sub %[[W]], %[[S]]
fusion.mesh @m(dp = 2)
func.func @swap(%g: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %0 = fusion.all_reduce sum, %g on @m[dp] : tensor<4xf32>
  %1 = fusion.sub %w, %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// A bucket stays one collective, and keeps its number. Halves of bf16 are exact
// in f32, and their sum leaves no range.
// CHECK-LABEL: func @bucket
// CHECK:       %[[P:.*]]:2 = fusion.collective_permute %arg0, %arg1 sources = [0, 1] targets = [1, 0] on @m[dp] {fusion.bucket = 3 : i64, fusion.transport = "peer"} : tensor<2x2xbf16>, tensor<3xbf16>
// CHECK:       %[[X:.*]] = fusion.cast %arg0 : tensor<2x2xbf16> to tensor<2x2xf32>
// CHECK:       fusion.constant dense<5.000000e-01> : tensor<2x2xf32>
// CHECK:       %[[XH:.*]] = fusion.mul %[[X]],
// CHECK:       %[[Y:.*]] = fusion.cast %[[P]]#0 : tensor<2x2xbf16> to tensor<2x2xf32>
// CHECK:       %[[YH:.*]] = fusion.mul %[[Y]],
// CHECK:       %[[S:.*]] = fusion.add %[[XH]], %[[YH]]
// CHECK:       %[[R:.*]] = fusion.cast %[[S]] : tensor<2x2xf32> to tensor<2x2xbf16>
// CHECK:       fusion.neg %[[R]]
fusion.mesh @m(dp = 2)
func.func @bucket(%a: tensor<2x2xbf16>, %b: tensor<3xbf16>) -> (tensor<2x2xbf16>, tensor<3xbf16>) {
  %0:2 = fusion.all_reduce mean, %a, %b on @m[dp] {fusion.bucket = 3 : i64} : tensor<2x2xbf16>, tensor<3xbf16>
  %1 = fusion.neg %0#0 : tensor<2x2xbf16>
  %2 = fusion.neg %0#1 : tensor<3xbf16>
  return %1, %2 : tensor<2x2xbf16>, tensor<3xbf16>
}

// -----

// The mean of two f32 is f64's half of their sum: the sum may leave f32's range.
// CHECK-LABEL: func @mean_f32
// CHECK:       %[[S:.*]] = fusion.add %{{.*}}, %{{.*}} : tensor<4xf64>
// CHECK:       fusion.constant dense<5.000000e-01> : tensor<4xf64>
// CHECK:       %[[M:.*]] = fusion.mul %[[S]]
// CHECK:       fusion.cast %[[M]] : tensor<4xf64> to tensor<4xf32>
fusion.mesh @m(dp = 2)
func.func @mean_f32(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = fusion.all_reduce mean, %a on @m[dp] : tensor<4xf32>
  %1 = fusion.neg %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// Three ranks gather, each tensor in one piece; a scalar too. Sums in order of
// the ranks, in f64; a third is divided.
// CHECK-LABEL: func @three
// CHECK:       %[[A:.*]] = fusion.reshape %arg0 : tensor<2x4xf32> to tensor<1x2x4xf32>
// CHECK:       %[[B:.*]] = fusion.reshape %arg1 : tensor<f32> to tensor<1xf32>
// CHECK:       %[[P:.*]]:2 = fusion.all_gather %[[A]], %[[B]] dim = 0 on @m[dp] {fusion.transport = "peer"} : (tensor<1x2x4xf32>, tensor<1xf32>) -> (tensor<3x2x4xf32>, tensor<3xf32>)
// CHECK:       %[[T0:.*]] = fusion.slice %[[P]]#0 starts = [0, 0, 0] limits = [1, 2, 4]
// CHECK:       %[[R0:.*]] = fusion.reshape %[[T0]] : tensor<1x2x4xf32> to tensor<2x4xf32>
// CHECK:       %[[T1:.*]] = fusion.slice %[[P]]#0 starts = [1, 0, 0] limits = [2, 2, 4]
// CHECK:       %[[T2:.*]] = fusion.slice %[[P]]#0 starts = [2, 0, 0] limits = [3, 2, 4]
// CHECK:       %[[R2:.*]] = fusion.reshape %[[T2]]
// CHECK:       %[[W0:.*]] = fusion.cast %[[R0]] : tensor<2x4xf32> to tensor<2x4xf64>
// CHECK:       %[[S1:.*]] = fusion.add %[[W0]],
// CHECK:       %[[W2:.*]] = fusion.cast %[[R2]]
// CHECK:       %[[S2:.*]] = fusion.add %[[S1]], %[[W2]] : tensor<2x4xf64>
// CHECK:       fusion.constant dense<3.000000e+00> : tensor<2x4xf64>
// CHECK:       %[[M:.*]] = fusion.div %[[S2]]
// CHECK:       fusion.cast %[[M]] : tensor<2x4xf64> to tensor<2x4xf32>
fusion.mesh @m(dp = 3)
func.func @three(%a: tensor<2x4xf32>, %b: tensor<f32>) -> (tensor<2x4xf32>, tensor<f32>) {
  %0:2 = fusion.all_reduce mean, %a, %b on @m[dp] : tensor<2x4xf32>, tensor<f32>
  %1 = fusion.neg %0#0 : tensor<2x4xf32>
  %2 = fusion.neg %0#1 : tensor<f32>
  return %1, %2 : tensor<2x4xf32>, tensor<f32>
}

// -----

// Eight ranks: each gets its rows of all tensors.
// CHECK-LABEL: func @scatter_rows
// CHECK:       %[[A:.*]] = fusion.reshape %arg0 : tensor<16x3xf32> to tensor<8x2x3xf32>
// CHECK:       %[[P:.*]] = fusion.all_to_all %[[A]] split_dim = 0 concat_dim = 0 on @m[dp] {fusion.transport = "peer"} : (tensor<8x2x3xf32>) -> tensor<8x2x3xf32>
// CHECK:       fusion.slice %[[P]] starts = [7, 0, 0] limits = [8, 2, 3]
// CHECK:       fusion.max
fusion.mesh @m(dp = 8)
func.func @scatter_rows(%a: tensor<16x3xf32>) -> tensor<2x3xf32> {
  %0 = fusion.reduce_scatter max, %a dim = 0 on @m[dp] : (tensor<16x3xf32>) -> tensor<2x3xf32>
  %1 = fusion.neg %0 : tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// -----

// Columns: what is received lies rank by rank all the same. Integers wrap in
// their own type.
// CHECK-LABEL: func @scatter_columns
// CHECK:       %[[A:.*]] = fusion.reshape %arg0 : tensor<5x6xi32> to tensor<1x5x2x3xi32>
// CHECK:       %[[P:.*]] = fusion.all_to_all %[[A]] split_dim = 2 concat_dim = 0 on @m[dp] {fusion.transport = "peer"} : (tensor<1x5x2x3xi32>) -> tensor<2x5x1x3xi32>
// CHECK:       %[[T:.*]] = fusion.slice %[[P]] starts = [1, 0, 0, 0] limits = [2, 5, 1, 3]
// CHECK:       fusion.reshape %[[T]] : tensor<1x5x1x3xi32> to tensor<5x3xi32>
// CHECK:       fusion.add %{{.*}}, %{{.*}} : tensor<5x3xi32>
fusion.mesh @m(dp = 2)
func.func @scatter_columns(%a: tensor<5x6xi32>) -> tensor<5x3xi32> {
  %0 = fusion.reduce_scatter sum, %a dim = 1 on @m[dp] : (tensor<5x6xi32>) -> tensor<5x3xi32>
  %1 = fusion.neg %0 : tensor<5x3xi32>
  return %1 : tensor<5x3xi32>
}

// -----

// A mean of integers is of their true sum.
// CHECK-LABEL: func @mean_i8
// CHECK:       %[[S:.*]] = fusion.add %{{.*}}, %{{.*}} : tensor<4xi64>
// CHECK:       fusion.constant dense<2> : tensor<4xi64>
// CHECK:       %[[M:.*]] = fusion.div %[[S]]
// CHECK:       fusion.cast %[[M]] : tensor<4xi64> to tensor<4xi8>
fusion.mesh @m(dp = 2)
func.func @mean_i8(%a: tensor<4xi8>) -> tensor<4xi8> {
  %0 = fusion.all_reduce mean, %a on @m[dp] : tensor<4xi8>
  %1 = fusion.neg %0 : tensor<4xi8>
  return %1 : tensor<4xi8>
}

// -----

// What only moves bytes gets its transport, and nothing else changes.
// CHECK-LABEL: func @moves
// CHECK:       fusion.all_gather %arg0 dim = 0 on @m[dp] {fusion.transport = "peer"}
// CHECK:       fusion.axis_index @m[dp] : tensor<i64>
fusion.mesh @m(dp = 2)
func.func @moves(%a: tensor<4xf32>) -> (tensor<8xf32>, tensor<i64>) {
  %0 = fusion.all_gather %a dim = 0 on @m[dp] : (tensor<4xf32>) -> tensor<8xf32>
  %1 = fusion.axis_index @m[dp] : tensor<i64>
  return %0, %1 : tensor<8xf32>, tensor<i64>
}

// -----

// A number that is computed with before it is broadcast is written, once: by the
// kernel that adds.
// CHECK-LABEL: func @norm
// CHECK: fusion.collective_permute
// CHECK: fusion.add
// CHECK-NEXT: fusion.sqrt
fusion.mesh @m(dp = 2)
func.func @norm(%x: tensor<f64>) -> tensor<4xf64> {
  %0 = fusion.all_reduce sum, %x on @m[dp] : tensor<f64>
  %1 = fusion.sqrt %0 : tensor<f64>
  %2 = fusion.broadcast %1 dims = [] : tensor<f64> to tensor<4xf64>
  %3 = fusion.neg %2 : tensor<4xf64>
  return %3 : tensor<4xf64>
}

// -----

// What is called is computed once too.
// CHECK-LABEL: func @dear
// CHECK: fusion.collective_permute
// CHECK: fusion.add
// CHECK-NEXT: fusion.exp
fusion.mesh @m(dp = 2)
func.func @dear(%x: tensor<4xf32>) -> tensor<3x4xf32> {
  %0 = fusion.all_reduce sum, %x on @m[dp] : tensor<4xf32>
  %1 = fusion.exp %0 : tensor<4xf32>
  %2 = fusion.broadcast %1 dims = [1] : tensor<4xf32> to tensor<3x4xf32>
  return %2 : tensor<3x4xf32>
}

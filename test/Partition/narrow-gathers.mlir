// Casts on the side of a gather where elements are narrow.
//
// RUN: fusion-opt %s -split-input-file --fusion-narrow-gathers --remarks-filter=fusion -o %t.mlir 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: FileCheck %s < %t.mlir
// Twice is once.
// RUN: fusion-opt %t.mlir -split-input-file --fusion-narrow-gathers | FileCheck %s

// Rows of an embedding are looked up in f32 and used as bf16.
// CHECK-LABEL: func @rows
// CHECK-NEXT: %[[N:.*]] = fusion.cast %arg0 : tensor<2x4xf32> to tensor<2x4xbf16>
// CHECK-NEXT: %[[G:.*]] = fusion.all_gather %[[N]] dim = 0 on @m[dp] : (tensor<2x4xbf16>) -> tensor<4x4xbf16>
// CHECK-NEXT: %[[R:.*]] = fusion.gather %[[G]], %arg1 axis = 0 : tensor<4x4xbf16>, tensor<3xi64>
// CHECK-NEXT: return %[[R]]
// REMARK: [Passed] narrow-gather | {{.*}} from=f32, {{.*}}to=bf16
fusion.mesh @m(dp = 2)
func.func @rows(%x: tensor<2x4xf32>, %i: tensor<3xi64>) -> tensor<3x4xbf16> {
  %0 = fusion.all_gather %x dim = 0 on @m[dp] : (tensor<2x4xf32>) -> tensor<4x4xf32>
  %1 = fusion.gather %0, %i axis = 0 : tensor<4x4xf32>, tensor<3xi64>
  %2 = fusion.cast %1 : tensor<3x4xf32> to tensor<3x4xbf16>
  return %2 : tensor<3x4xbf16>
}

// -----

// Two readers, behind moves of their own, both of them casts; along dimension 1, of
// a size that depends on the batch.
// CHECK-LABEL: func @readers
// CHECK-NEXT: %[[N:.*]] = fusion.cast %arg0 : tensor<?x3xf64> to tensor<?x3xf16>
// CHECK-NEXT: %[[G:.*]] = fusion.all_gather %[[N]] dim = 1 on @m[tp] {fusion.note = "kept"} : (tensor<?x3xf16>) -> tensor<?x6xf16>
// CHECK-NEXT: %[[T:.*]] = fusion.transpose %[[G]] permutation = [1, 0] : tensor<?x6xf16>
// CHECK-NEXT: %[[S:.*]] = fusion.reverse %[[T]] dims = [0] : tensor<6x?xf16>
// CHECK-NEXT: return %[[G]], %[[S]]
fusion.mesh @m(tp = 2)
func.func @readers(%x: tensor<?x3xf64>) -> (tensor<?x6xf16>, tensor<6x?xf16>) attributes {fusion.batch = array<i64: 1, 8>} {
  %0 = fusion.all_gather %x dim = 1 on @m[tp] {fusion.note = "kept"} : (tensor<?x3xf64>) -> tensor<?x6xf64>
  %1 = fusion.cast %0 : tensor<?x6xf64> to tensor<?x6xf16>
  %2 = fusion.transpose %0 permutation = [1, 0] : tensor<?x6xf64>
  %3 = fusion.reverse %2 dims = [0] : tensor<6x?xf64>
  %4 = fusion.cast %3 : tensor<6x?xf64> to tensor<6x?xf16>
  return %1, %4 : tensor<?x6xf16>, tensor<6x?xf16>
}

// -----

// Cast twice: both come ahead, or behind. Through a gather of a gather, too.
// CHECK-LABEL: func @twice
// CHECK-NEXT: %[[N:.*]] = fusion.cast %arg0 : tensor<4x3xf64> to tensor<4x3xf32>
// CHECK-NEXT: %[[M:.*]] = fusion.cast %[[N]] : tensor<4x3xf32> to tensor<4x3xf16>
// CHECK-NEXT: %[[A:.*]] = fusion.all_gather %[[M]] dim = 0 on @m[dp] : (tensor<4x3xf16>) -> tensor<8x3xf16>
// CHECK-NEXT: %[[B:.*]] = fusion.all_gather %[[A]] dim = 0 on @m[tp] : (tensor<8x3xf16>) -> tensor<16x3xf16>
// CHECK-NEXT: %[[C:.*]] = fusion.all_gather %arg1 dim = 0 on @m[dp] : (tensor<4xi8>) -> tensor<8xi8>
// CHECK-NEXT: %[[D:.*]] = fusion.all_gather %[[C]] dim = 0 on @m[tp] : (tensor<8xi8>) -> tensor<16xi8>
// CHECK-NEXT: %[[E:.*]] = fusion.cast %[[D]] : tensor<16xi8> to tensor<16xi32>
// CHECK-NEXT: %[[F:.*]] = fusion.cast %[[E]] : tensor<16xi32> to tensor<16xf64>
// CHECK-NEXT: return %[[B]], %[[F]]
fusion.mesh @m(dp = 2, tp = 2)
func.func @twice(%x: tensor<4x3xf64>, %y: tensor<4xi8>) -> (tensor<16x3xf16>, tensor<16xf64>) {
  %0 = fusion.all_gather %x dim = 0 on @m[dp] : (tensor<4x3xf64>) -> tensor<8x3xf64>
  %1 = fusion.all_gather %0 dim = 0 on @m[tp] : (tensor<8x3xf64>) -> tensor<16x3xf64>
  %2 = fusion.cast %1 : tensor<16x3xf64> to tensor<16x3xf32>
  %3 = fusion.cast %2 : tensor<16x3xf32> to tensor<16x3xf16>
  %4 = fusion.cast %y : tensor<4xi8> to tensor<4xi32>
  %5 = fusion.cast %4 : tensor<4xi32> to tensor<4xf64>
  %6 = fusion.all_gather %5 dim = 0 on @m[dp] : (tensor<4xf64>) -> tensor<8xf64>
  %7 = fusion.all_gather %6 dim = 0 on @m[tp] : (tensor<8xf64>) -> tensor<16xf64>
  return %3, %7 : tensor<16x3xf16>, tensor<16xf64>
}

// -----

// What was widened is gathered as it was. The other reader of the cast keeps it.
// CHECK-LABEL: func @widened
// CHECK-NEXT: %[[W:.*]] = fusion.cast %arg0
// CHECK-NEXT: %[[G:.*]] = fusion.all_gather %arg0 dim = 0 on @m[dp] : (tensor<4xi8>) -> tensor<8xi8>
// CHECK-NEXT: %[[C:.*]] = fusion.cast %[[G]] : tensor<8xi8> to tensor<8xf32>
// CHECK-NEXT: return %[[C]], %[[W]]
// REMARK: [Passed] narrow-gather | {{.*}} from=f32, {{.*}}to=i8
fusion.mesh @m(dp = 2)
func.func @widened(%x: tensor<4xi8>) -> (tensor<8xf32>, tensor<4xf32>) {
  %0 = fusion.cast %x : tensor<4xi8> to tensor<4xf32>
  %1 = fusion.all_gather %0 dim = 0 on @m[dp] : (tensor<4xf32>) -> tensor<8xf32>
  return %1, %0 : tensor<8xf32>, tensor<4xf32>
}

// -----

// Narrow, wide, narrow again: the last cast stands ahead of the gather, behind the
// first, and rounds as it did.
// CHECK-LABEL: func @both
// CHECK-NEXT: fusion.cast %arg0 : tensor<4xbf16> to tensor<4xf32>
// CHECK-NEXT: fusion.cast %{{.*}} : tensor<4xf32> to tensor<4xf16>
// CHECK-NEXT: fusion.all_gather %{{.*}} : (tensor<4xf16>) -> tensor<8xf16>
// CHECK-NEXT: return
fusion.mesh @m(dp = 2)
func.func @both(%x: tensor<4xbf16>) -> tensor<8xf16> {
  %0 = fusion.cast %x : tensor<4xbf16> to tensor<4xf32>
  %1 = fusion.all_gather %0 dim = 0 on @m[dp] : (tensor<4xf32>) -> tensor<8xf32>
  %2 = fusion.cast %1 : tensor<8xf32> to tensor<8xf16>
  return %2 : tensor<8xf16>
}

// -----

// Somebody reads f32.
// CHECK-LABEL: func @wide_reader
// CHECK: fusion.all_gather %{{.*}} : (tensor<4xf32>) -> tensor<8xf32>
// REMARK: [Missed] narrow-reader | {{.*}} from=f32, {{.*}}to=bf16
fusion.mesh @m(dp = 2)
func.func @wide_reader(%x: tensor<4xf32>) -> (tensor<8xbf16>, tensor<8xf32>) {
  %0 = fusion.all_gather %x dim = 0 on @m[dp] : (tensor<4xf32>) -> tensor<8xf32>
  %1 = fusion.cast %0 : tensor<8xf32> to tensor<8xbf16>
  %2 = fusion.neg %0 : tensor<8xf32>
  return %1, %2 : tensor<8xbf16>, tensor<8xf32>
}

// -----

// Two narrow types, as rounding to one and then to the other is another number.
// CHECK-LABEL: func @two_types
// CHECK: fusion.all_gather %{{.*}} : (tensor<4xf32>) -> tensor<8xf32>
// REMARK: [Missed] narrow-reader
fusion.mesh @m(dp = 2)
func.func @two_types(%x: tensor<4xf32>) -> (tensor<8xbf16>, tensor<8xf16>) {
  %0 = fusion.all_gather %x dim = 0 on @m[dp] : (tensor<4xf32>) -> tensor<8xf32>
  %1 = fusion.cast %0 : tensor<8xf32> to tensor<8xbf16>
  %2 = fusion.cast %0 : tensor<8xf32> to tensor<8xf16>
  return %1, %2 : tensor<8xbf16>, tensor<8xf16>
}

// -----

// Positions that are gathered, what is computed between, what is as wide, bits, and
// buckets: nothing to do, and nothing to say.
// REMARK-NOT: narrow-
// CHECK-LABEL: func @left
// CHECK: fusion.all_gather %arg0 {{.*}} -> tensor<8xi64>
// CHECK: fusion.all_gather %arg1 {{.*}} -> tensor<8xf32>
// CHECK: fusion.all_gather %arg1 {{.*}} -> tensor<8xf32>
// CHECK: fusion.all_gather %arg1, %arg1 {{.*}} -> (tensor<8xf32>, tensor<8xf32>)
fusion.mesh @m(dp = 2)
func.func @left(%i: tensor<4xi64>, %x: tensor<4xf32>, %t: tensor<9xbf16>) -> (tensor<8xbf16>, tensor<8xbf16>, tensor<8xi1>, tensor<8xbf16>, tensor<8xbf16>) {
  %0 = fusion.all_gather %i dim = 0 on @m[dp] : (tensor<4xi64>) -> tensor<8xi64>
  %1 = fusion.gather %t, %0 axis = 0 : tensor<9xbf16>, tensor<8xi64>
  %2 = fusion.all_gather %x dim = 0 on @m[dp] : (tensor<4xf32>) -> tensor<8xf32>
  %3 = fusion.neg %2 : tensor<8xf32>
  %4 = fusion.cast %3 : tensor<8xf32> to tensor<8xbf16>
  %5 = fusion.all_gather %x dim = 0 on @m[dp] : (tensor<4xf32>) -> tensor<8xf32>
  %6 = fusion.cast %5 : tensor<8xf32> to tensor<8xi1>
  %7:2 = fusion.all_gather %x, %x dim = 0 on @m[dp] : (tensor<4xf32>, tensor<4xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  %8 = fusion.cast %7#0 : tensor<8xf32> to tensor<8xbf16>
  %9 = fusion.cast %7#1 : tensor<8xf32> to tensor<8xbf16>
  return %1, %4, %6, %8, %9 : tensor<8xbf16>, tensor<8xbf16>, tensor<8xi1>, tensor<8xbf16>, tensor<8xbf16>
}

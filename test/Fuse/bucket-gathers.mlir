// Parameters that are read one behind the other are gathered by one collective.
//
// RUN: fusion-opt %s -split-input-file --fusion-bucket-gathers --remarks-filter=fusion -o %t.mlir 2>%t.remarks
// RUN: FileCheck %s --enable-var-scope < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.remarks
// Twice is once.
// RUN: fusion-opt %t.mlir -split-input-file --fusion-bucket-gathers | diff %t.mlir -

// In the order of their readers; what is gathered twice is gathered once, and what is
// widened before is widened behind: the same tensor.
// CHECK-LABEL: func @readers
// CHECK-SAME: %[[X:.*]]: tensor<2x8xbf16>, %[[W:.*]]: tensor<4x8xbf16>, %[[B:.*]]: tensor<4xbf16>
// CHECK-NEXT: %[[G:.*]]:2 = fusion.all_gather %[[W]], %[[B]] dim = 0 on @m[dp] : (tensor<4x8xbf16>, tensor<4xbf16>) -> (tensor<8x8xbf16>, tensor<8xbf16>)
// CHECK-NOT: all_gather
// CHECK: fusion.matmul %[[X]], %[[G]]#0
// CHECK: fusion.broadcast %[[G]]#1
// CHECK: %[[WIDE:.*]] = fusion.cast %[[G]]#1 : tensor<8xbf16> to tensor<8xf32>
// CHECK: return {{.*}}, %[[WIDE]]
// REMARK: [Passed] bucket-gathers | {{.*}} bytes=144, tensors=2
fusion.mesh @m(dp = 2)
func.func @readers(%x: tensor<2x8xbf16>, %w: tensor<4x8xbf16>, %b: tensor<4xbf16>) -> (tensor<2x8xbf16>, tensor<2x8xbf16>, tensor<8xf32>) {
  %gb = fusion.all_gather %b dim = 0 on @m[dp] : (tensor<4xbf16>) -> tensor<8xbf16>
  %gw = fusion.all_gather %w dim = 0 on @m[dp] : (tensor<4x8xbf16>) -> tensor<8x8xbf16>
  %0 = fusion.matmul %x, %gw : tensor<2x8xbf16>, tensor<8x8xbf16>
  %1 = fusion.broadcast %gb dims = [1] : tensor<8xbf16> to tensor<2x8xbf16>
  %2 = fusion.add %0, %1 : tensor<2x8xbf16>
  %again = fusion.all_gather %w dim = 0 on @m[dp] : (tensor<4x8xbf16>) -> tensor<8x8xbf16>
  %3 = fusion.matmul %2, %again : tensor<2x8xbf16>, tensor<8x8xbf16>
  %wide = fusion.cast %b : tensor<4xbf16> to tensor<4xf32>
  %gwide = fusion.all_gather %wide dim = 0 on @m[dp] : (tensor<4xf32>) -> tensor<8xf32>
  return %2, %3, %gwide : tensor<2x8xbf16>, tensor<2x8xbf16>, tensor<8xf32>
}

// -----

// Without a file's figures a collective takes 20 us to start and 10 GB/s send half of
// a tensor: 800 kB are a bucket of two ranks. The third does not fit.
// CHECK-LABEL: func @size
// CHECK: %{{.*}}:2 = fusion.all_gather %{{.*}}, %{{.*}} dim = 0 on @m[dp] : (tensor<50000xf32>, tensor<50000xf32>)
// CHECK: fusion.all_gather %{{.*}} dim = 0 on @m[dp] : (tensor<50000xf32>)
// REMARK: [Passed] bucket-gathers | {{.*}} bytes=800000, tensors=2
fusion.mesh @m(dp = 2)
func.func @size(%a: tensor<50000xf32>, %b: tensor<50000xf32>, %c: tensor<50000xf32>) -> (tensor<100000xf32>, tensor<100000xf32>, tensor<100000xf32>) {
  %0 = fusion.all_gather %a dim = 0 on @m[dp] : (tensor<50000xf32>) -> tensor<100000xf32>
  %1 = fusion.neg %0 : tensor<100000xf32>
  %2 = fusion.all_gather %b dim = 0 on @m[dp] : (tensor<50000xf32>) -> tensor<100000xf32>
  %3 = fusion.neg %2 : tensor<100000xf32>
  %4 = fusion.all_gather %c dim = 0 on @m[dp] : (tensor<50000xf32>) -> tensor<100000xf32>
  %5 = fusion.neg %4 : tensor<100000xf32>
  return %1, %3, %5 : tensor<100000xf32>, tensor<100000xf32>, tensor<100000xf32>
}

// -----

// 560, 400, 320 and 160 kB: the middle two are a bucket. The outer ones would be one,
// too, if they were read one behind the other; nor are they when it is looked at again.
// CHECK-LABEL: func @around
// CHECK: fusion.all_gather %{{.*}} dim = 0 on @m[dp] : (tensor<70000xf32>)
// CHECK: fusion.all_gather %{{.*}} dim = 0 on @m[dp] : (tensor<50000xf32>, tensor<40000xf32>)
// CHECK: fusion.all_gather %{{.*}} dim = 0 on @m[dp] : (tensor<20000xf32>)
// REMARK: [Passed] bucket-gathers | {{.*}} bytes=720000, tensors=2
fusion.mesh @m(dp = 2)
func.func @around(%a: tensor<70000xf32>, %b: tensor<50000xf32>, %c: tensor<40000xf32>, %d: tensor<20000xf32>) -> (tensor<140000xf32>, tensor<100000xf32>, tensor<80000xf32>, tensor<40000xf32>) {
  %0 = fusion.all_gather %a dim = 0 on @m[dp] : (tensor<70000xf32>) -> tensor<140000xf32>
  %1 = fusion.neg %0 : tensor<140000xf32>
  %2 = fusion.all_gather %b dim = 0 on @m[dp] : (tensor<50000xf32>) -> tensor<100000xf32>
  %3 = fusion.neg %2 : tensor<100000xf32>
  %4 = fusion.all_gather %c dim = 0 on @m[dp] : (tensor<40000xf32>) -> tensor<80000xf32>
  %5 = fusion.neg %4 : tensor<80000xf32>
  %6 = fusion.all_gather %d dim = 0 on @m[dp] : (tensor<20000xf32>) -> tensor<40000xf32>
  %7 = fusion.neg %6 : tensor<40000xf32>
  return %1, %3, %5, %7 : tensor<140000xf32>, tensor<100000xf32>, tensor<80000xf32>, tensor<40000xf32>
}

// -----

// Other ranks, another dimension: a bucket of their own. Computed, in chunks, of the
// batch's size, or of two: left alone.
// CHECK-LABEL: func @refused
// CHECK-COUNT-7: fusion.all_gather
// CHECK-NOT: fusion.all_gather
// REMARK: [Missed] gather-key
// REMARK: [Missed] gather-key
// REMARK-NOT: bucket-gathers
fusion.mesh @m(dp = 2, tp = 2)
func.func @refused(%a: tensor<4x4xf32>, %b: tensor<?x4xf32>)
    -> (tensor<8x4xf32>, tensor<8x4xf32>, tensor<4x8xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<?x8xf32>, tensor<8x4xf32>, tensor<8x4xf32>) {
  %0 = fusion.all_gather %a dim = 0 on @m[dp] : (tensor<4x4xf32>) -> tensor<8x4xf32>
  %r0 = fusion.neg %0 : tensor<8x4xf32>
  %1 = fusion.all_gather %a dim = 0 on @m[tp] : (tensor<4x4xf32>) -> tensor<8x4xf32>
  %r1 = fusion.neg %1 : tensor<8x4xf32>
  %2 = fusion.all_gather %a dim = 1 on @m[tp] : (tensor<4x4xf32>) -> tensor<4x8xf32>
  %r2 = fusion.neg %2 : tensor<4x8xf32>
  %c = fusion.exp %a : tensor<4x4xf32>
  %3 = fusion.all_gather %c dim = 0 on @m[dp] : (tensor<4x4xf32>) -> tensor<8x4xf32>
  %4 = fusion.all_gather %a dim = 0 on @m[dp] {fusion.chunk = 0 : i64} : (tensor<4x4xf32>) -> tensor<8x4xf32>
  %5 = fusion.all_gather %b dim = 1 on @m[dp] : (tensor<?x4xf32>) -> tensor<?x8xf32>
  %6:2 = fusion.all_gather %a, %a dim = 0 on @m[dp] : (tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>)
  return %r0, %r1, %r2, %3, %4, %5, %6#0, %6#1 : tensor<8x4xf32>, tensor<8x4xf32>, tensor<4x8xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<?x8xf32>, tensor<8x4xf32>, tensor<8x4xf32>
}

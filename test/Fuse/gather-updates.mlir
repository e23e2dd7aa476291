// Updates of rows are gathered where that takes less than to reduce the tensor.
//
// RUN: fusion-opt %s -split-input-file --fusion-gather-updates --remarks-filter=fusion -o %t.mlir 2>%t.remarks
// RUN: FileCheck %s --enable-var-scope < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.remarks
// Twice is once.
// RUN: fusion-opt %t.mlir -split-input-file --fusion-gather-updates | FileCheck %s --enable-var-scope
// With the buckets, by default.
// RUN: fusion-opt %s -split-input-file --fusion-fuse="no-fuse=vertical,horizontal" | FileCheck %s --check-prefix=PHASE
// RUN: fusion-opt %s -split-input-file --fusion-fuse="no-fuse=buckets,vertical,horizontal" | FileCheck %s --check-prefix=WITHOUT
// PHASE-LABEL: func @widened
// PHASE-NOT: all_reduce
// PHASE: return
// WITHOUT-LABEL: func @widened
// WITHOUT: all_reduce

// What was widened for the sum is sent narrow; the gradient is what it was.
// CHECK-LABEL: func @widened
// CHECK-SAME: %[[I:.*]]: tensor<64x1xi64>, %[[U:.*]]: tensor<64x32xbf16>
// CHECK-DAG: %[[Z:.*]] = fusion.constant dense<0.0{{.*}}> : tensor<65536x32xf32>
// CHECK-DAG: %[[IS:.*]] = fusion.all_gather %[[I]] dim = 0 on @m[dp] : (tensor<64x1xi64>) -> tensor<256x1xi64>
// CHECK-DAG: %[[US:.*]] = fusion.all_gather %[[U]] dim = 0 on @m[dp] : (tensor<64x32xbf16>) -> tensor<256x32xbf16>
// CHECK: %[[W:.*]] = fusion.cast %[[US]] : tensor<256x32xbf16> to tensor<256x32xf32>
// CHECK-NEXT: %[[S:.*]] = fusion.scatter add, %[[Z]], %[[IS]], %[[W]]
// CHECK-NEXT: %[[N:.*]] = fusion.cast %[[S]]
// CHECK-NEXT: return %[[N]]
// REMARK: [Passed] gather-updates | {{.*}}Function=widened{{.*}} nanoseconds={{[0-9]+}}{{.*}} nanoseconds_whole=
fusion.mesh @m(dp = 4)
func.func @widened(%i: tensor<64x1xi64>, %u: tensor<64x32xbf16>) -> tensor<65536x32xbf16> {
  %zeros = fusion.constant dense<0.0> : tensor<65536x32xf32>
  %w = fusion.cast %u : tensor<64x32xbf16> to tensor<64x32xf32>
  %s = fusion.scatter add, %zeros, %i, %w : tensor<65536x32xf32>, tensor<64x1xi64>, tensor<64x32xf32>
  %r = fusion.all_reduce sum, %s on @m[dp] : tensor<65536x32xf32>
  %n = fusion.cast %r : tensor<65536x32xf32> to tensor<65536x32xbf16>
  return %n : tensor<65536x32xbf16>
}

// -----

// A rank that keeps some rows counts indices from its first one. The other reader
// of the widened updates keeps them.
// CHECK-LABEL: func @rows
// CHECK-SAME: %[[I:.*]]: tensor<64x1xi32>, %[[U:.*]]: tensor<64x32xf16>
// CHECK: %[[W:.*]] = fusion.cast %[[U]] : tensor<64x32xf16> to tensor<64x32xf32>
// CHECK: %[[IS:.*]] = fusion.all_gather %[[I]] dim = 0 on @m[dp] : (tensor<64x1xi32>) -> tensor<128x1xi32>
// CHECK: %[[US:.*]] = fusion.all_gather %[[U]] dim = 0 on @m[dp]
// CHECK: %[[AT:.*]] = fusion.axis_index @m[dp]
// CHECK: %[[COUNT:.*]] = fusion.constant dense<32768> : tensor<i64>
// CHECK: %[[FIRST:.*]] = fusion.mul %[[AT]], %[[COUNT]]
// CHECK: %[[FIRST32:.*]] = fusion.cast %[[FIRST]] : tensor<i64> to tensor<i32>
// CHECK: %[[ALL:.*]] = fusion.broadcast %[[FIRST32]] dims = [] : tensor<i32> to tensor<128x1xi32>
// CHECK: %[[OWN:.*]] = fusion.sub %[[IS]], %[[ALL]]
// CHECK: %[[Z:.*]] = fusion.constant dense<0.0{{.*}}> : tensor<32768x32xf32>
// CHECK: %[[WS:.*]] = fusion.cast %[[US]]
// CHECK: %[[S:.*]] = fusion.scatter add, %[[Z]], %[[OWN]], %[[WS]]
// CHECK: return %[[S]], %[[W]]
// REMARK: [Passed] gather-updates | {{.*}}Function=rows
fusion.mesh @m(dp = 2)
func.func @rows(%i: tensor<64x1xi32>, %u: tensor<64x32xf16>) -> (tensor<32768x32xf32>, tensor<64x32xf32>) {
  %zeros = fusion.constant dense<0.0> : tensor<65536x32xf32>
  %w = fusion.cast %u : tensor<64x32xf16> to tensor<64x32xf32>
  %s = fusion.scatter add, %zeros, %i, %w : tensor<65536x32xf32>, tensor<64x1xi32>, tensor<64x32xf32>
  %r = fusion.reduce_scatter sum, %s dim = 0 on @m[dp] : (tensor<65536x32xf32>) -> tensor<32768x32xf32>
  return %r, %w : tensor<32768x32xf32>, tensor<64x32xf32>
}

// -----

// More updates than rows: what is reduced is the smaller.
// CHECK-LABEL: func @many
// CHECK: fusion.all_reduce
// REMARK: [Missed] updates-profit | {{.*}}Function=many{{.*}} nanoseconds={{[0-9]+}}{{.*}} nanoseconds_whole=
fusion.mesh @m(dp = 4)
func.func @many(%i: tensor<65536x1xi64>, %u: tensor<65536x32xf32>) -> tensor<64x32xf32> {
  %zeros = fusion.constant dense<0.0> : tensor<64x32xf32>
  %s = fusion.scatter add, %zeros, %i, %u : tensor<64x32xf32>, tensor<65536x1xi64>, tensor<65536x32xf32>
  %r = fusion.all_reduce sum, %s on @m[dp] : tensor<64x32xf32>
  return %r : tensor<64x32xf32>
}

// -----

// Not to zeros; read by another; a maximum; another kind of reduction, of which
// nothing is said; columns.
// CHECK-LABEL: func @form
// CHECK-NOT: all_gather
// CHECK: return
// REMARK: [Missed] updates-form | {{.*}}Function=form
// REMARK: [Missed] updates-form | {{.*}}Function=form
// REMARK: [Missed] updates-form | {{.*}}Function=form
// REMARK: [Missed] updates-form | {{.*}}Function=form
// REMARK-NOT: Function=form
fusion.mesh @m(dp = 2)
func.func @form(%x: tensor<65536x32xf32>, %i: tensor<64x1xi64>, %u: tensor<64x32xf32>)
    -> (tensor<65536x32xf32>, tensor<65536x32xf32>, tensor<65536x32xf32>, tensor<65536x32xf32>, tensor<65536x32xf32>, tensor<65536x16xf32>) {
  %zeros = fusion.constant dense<0.0> : tensor<65536x32xf32>
  %a = fusion.scatter add, %x, %i, %u : tensor<65536x32xf32>, tensor<64x1xi64>, tensor<64x32xf32>
  %ra = fusion.all_reduce sum, %a on @m[dp] : tensor<65536x32xf32>
  %b = fusion.scatter add, %zeros, %i, %u : tensor<65536x32xf32>, tensor<64x1xi64>, tensor<64x32xf32>
  %rb = fusion.all_reduce sum, %b on @m[dp] : tensor<65536x32xf32>
  %c = fusion.scatter max, %zeros, %i, %u : tensor<65536x32xf32>, tensor<64x1xi64>, tensor<64x32xf32>
  %rc = fusion.all_reduce sum, %c on @m[dp] : tensor<65536x32xf32>
  %d = fusion.scatter add, %zeros, %i, %u : tensor<65536x32xf32>, tensor<64x1xi64>, tensor<64x32xf32>
  %rd = fusion.all_reduce max, %d on @m[dp] : tensor<65536x32xf32>
  %e = fusion.scatter add, %zeros, %i, %u : tensor<65536x32xf32>, tensor<64x1xi64>, tensor<64x32xf32>
  %re = fusion.reduce_scatter sum, %e dim = 1 on @m[dp] : (tensor<65536x32xf32>) -> tensor<65536x16xf32>
  return %ra, %rb, %b, %rc, %rd, %re : tensor<65536x32xf32>, tensor<65536x32xf32>, tensor<65536x32xf32>, tensor<65536x32xf32>, tensor<65536x32xf32>, tensor<65536x16xf32>
}

// -----

// Boundary: a number of updates that the batch decides, none, and one rank.
// CHECK-LABEL: func @batch
// CHECK-NOT: all_gather
// CHECK: return
// REMARK: [Missed] updates-form | {{.*}}Function=batch
// REMARK: [Missed] updates-form | {{.*}}Function=batch
// REMARK-NOT: Function=batch
fusion.mesh @m(dp = 2, tp = 1)
func.func @batch(%i: tensor<?x1xi64>, %u: tensor<?x32xf32>, %j: tensor<0x1xi64>, %v: tensor<0x32xf32>, %k: tensor<4x1xi64>, %w: tensor<4x32xf32>)
    -> (tensor<65536x32xf32>, tensor<65536x32xf32>, tensor<65536x32xf32>) {
  %zeros = fusion.constant dense<0.0> : tensor<65536x32xf32>
  %a = fusion.scatter add, %zeros, %i, %u : tensor<65536x32xf32>, tensor<?x1xi64>, tensor<?x32xf32>
  %ra = fusion.all_reduce sum, %a on @m[dp] : tensor<65536x32xf32>
  %b = fusion.scatter add, %zeros, %j, %v : tensor<65536x32xf32>, tensor<0x1xi64>, tensor<0x32xf32>
  %rb = fusion.all_reduce sum, %b on @m[dp] : tensor<65536x32xf32>
  %c = fusion.scatter add, %zeros, %k, %w : tensor<65536x32xf32>, tensor<4x1xi64>, tensor<4x32xf32>
  %rc = fusion.all_reduce sum, %c on @m[tp] : tensor<65536x32xf32>
  return %ra, %rb, %rc : tensor<65536x32xf32>, tensor<65536x32xf32>, tensor<65536x32xf32>
}

// -----

// -1, counted from the second rank's first row, would be its last one in 32 bits.
// CHECK-LABEL: func @far
// CHECK-NOT: all_gather
// CHECK: return
// REMARK: [Missed] updates-form | {{.*}}Function=far
fusion.mesh @m(dp = 2)
func.func @far(%i: tensor<4x1xi32>, %u: tensor<4x1xf32>) -> tensor<2147483648x1xf32> {
  %zeros = fusion.constant dense<0.0> : tensor<4294967296x1xf32>
  %s = fusion.scatter add, %zeros, %i, %u : tensor<4294967296x1xf32>, tensor<4x1xi32>, tensor<4x1xf32>
  %r = fusion.reduce_scatter sum, %s dim = 0 on @m[dp] : (tensor<4294967296x1xf32>) -> tensor<2147483648x1xf32>
  return %r : tensor<2147483648x1xf32>
}

// -----

// As many rows as 32 bits can count back from.
// CHECK-LABEL: func @near
// CHECK-COUNT-2: all_gather
// REMARK: [Passed] gather-updates | {{.*}}Function=near
fusion.mesh @m(dp = 2)
func.func @near(%i: tensor<4x1xi32>, %u: tensor<4x1xf32>) -> tensor<1073741824x1xf32> {
  %zeros = fusion.constant dense<0.0> : tensor<2147483648x1xf32>
  %s = fusion.scatter add, %zeros, %i, %u : tensor<2147483648x1xf32>, tensor<4x1xi32>, tensor<4x1xf32>
  %r = fusion.reduce_scatter sum, %s dim = 0 on @m[dp] : (tensor<2147483648x1xf32>) -> tensor<1073741824x1xf32>
  return %r : tensor<1073741824x1xf32>
}

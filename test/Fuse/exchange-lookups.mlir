// Rows that are looked up are exchanged where that takes less than to gather the table.
//
// RUN: fusion-opt %s -split-input-file --fusion-exchange-lookups --remarks-filter=fusion -o %t.mlir 2>%t.remarks
// RUN: FileCheck %s --enable-var-scope < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.remarks
// Twice is once.
// RUN: fusion-opt %t.mlir -split-input-file --fusion-exchange-lookups | FileCheck %s --enable-var-scope
// With the buckets, by default.
// RUN: fusion-opt %s -split-input-file --fusion-fuse="no-fuse=vertical,horizontal" | FileCheck %s --check-prefix=PHASE
// RUN: fusion-opt %s -split-input-file --fusion-fuse="no-fuse=buckets,vertical,horizontal" | FileCheck %s --check-prefix=WITHOUT
// PHASE-LABEL: func @rows
// PHASE: fusion.all_to_all
// WITHOUT-LABEL: func @rows
// WITHOUT-NOT: fusion.all_to_all
// WITHOUT: return

// Indices are clamped to the table as the lookup did, counted from a rank's first row, and
// the row taken is the one of its owner: number / 32768, in 64 rows a rank.
// CHECK-LABEL: func @rows
// CHECK-SAME: %[[T:.*]]: tensor<32768x512xf32>, %[[I:.*]]: tensor<64xi64>
// CHECK: %[[ALL:.*]] = fusion.all_gather %[[I]] dim = 0 on @m[dp] : (tensor<64xi64>) -> tensor<128xi64>
// CHECK: %[[LAST:.*]] = fusion.constant dense<65535> : tensor<128xi64>
// CHECK: %[[INSIDE:.*]] = fusion.clamp %[[ALL]], %{{.*}}, %[[LAST]] : tensor<128xi64>
// CHECK: %[[AT:.*]] = fusion.axis_index @m[dp]
// CHECK: %[[COUNT:.*]] = fusion.constant dense<32768> : tensor<i64>
// CHECK: %[[FIRST:.*]] = fusion.mul %[[AT]], %[[COUNT]]
// CHECK: %[[FIRSTS:.*]] = fusion.broadcast %[[FIRST]]
// CHECK: %[[OWN:.*]] = fusion.sub %[[INSIDE]], %[[FIRSTS]]
// CHECK: %[[FOUND:.*]] = fusion.gather %[[T]], %[[OWN]] axis = 0 : tensor<32768x512xf32>, tensor<128xi64>
// CHECK: %[[CAME:.*]] = fusion.all_to_all %[[FOUND]] split_dim = 0 concat_dim = 0 on @m[dp] : (tensor<128x512xf32>) -> tensor<128x512xf32>
// CHECK: %[[MINE:.*]] = fusion.clamp %[[I]], %{{.*}}, %{{.*}} : tensor<64xi64>
// CHECK: %[[OWNER:.*]] = fusion.div %[[MINE]]
// CHECK: %[[N:.*]] = fusion.constant dense<64> : tensor<64xi64>
// CHECK: %[[BLOCK:.*]] = fusion.mul %[[OWNER]], %[[N]]
// CHECK: %[[IOTA:.*]] = fusion.iota axis = 0 : tensor<64xi64>
// CHECK: %[[PLACE:.*]] = fusion.add %[[BLOCK]], %[[IOTA]]
// CHECK: %[[Y:.*]] = fusion.gather %[[CAME]], %[[PLACE]] axis = 0 : tensor<128x512xf32>, tensor<64xi64>
// CHECK: return %[[Y]]
// REMARK: [Passed] exchange-lookups | {{.*}}Function=rows{{.*}} nanoseconds={{[0-9]+}}{{.*}} nanoseconds_whole=
fusion.mesh @m(dp = 2)
func.func @rows(%t: tensor<32768x512xf32>, %i: tensor<64xi64>) -> tensor<64x512xf32> {
  %w = fusion.all_gather %t dim = 0 on @m[dp] : (tensor<32768x512xf32>) -> tensor<65536x512xf32>
  %y = fusion.gather %w, %i axis = 0 : tensor<65536x512xf32>, tensor<64xi64>
  return %y : tensor<64x512xf32>
}

// -----

// What fills the last part is no row: 65535 rows end at 65534. What is narrowed for the
// gather is narrowed behind the lookup. Indices of any shape, two lookups, 32 bits.
// CHECK-LABEL: func @padded
// CHECK-SAME: %[[T:.*]]: tensor<32768x512xf32>, %[[I:.*]]: tensor<4x8xi32>, %[[J:.*]]: tensor<i32>
// CHECK-NOT: fusion.cast %[[T]]
// CHECK: %[[FLAT:.*]] = fusion.reshape %[[I]] : tensor<4x8xi32> to tensor<32xi32>
// CHECK: fusion.all_gather %[[FLAT]] dim = 0 on @m[dp] : (tensor<32xi32>) -> tensor<64xi32>
// CHECK: fusion.constant dense<65534> : tensor<64xi32>
// CHECK: %[[FOUND:.*]] = fusion.gather %[[T]], %{{.*}} axis = 0 : tensor<32768x512xf32>, tensor<64xi32>
// CHECK: %[[NARROW:.*]] = fusion.cast %[[FOUND]] : tensor<64x512xf32> to tensor<64x512xbf16>
// CHECK: fusion.all_to_all %[[NARROW]]
// CHECK: fusion.gather %{{.*}} : tensor<64x512xbf16>, tensor<32xi32>
// CHECK: fusion.reshape %{{.*}} : tensor<32x512xbf16> to tensor<4x8x512xbf16>
// CHECK: fusion.all_gather %{{.*}} : (tensor<1xi32>) -> tensor<2xi32>
// CHECK: fusion.all_to_all %{{.*}} : (tensor<2x512xbf16>) -> tensor<2x512xbf16>
// CHECK: fusion.reshape %{{.*}} : tensor<1x512xbf16> to tensor<512xbf16>
// CHECK-NOT: tensor<65536x512
// CHECK: return
// REMARK: [Passed] exchange-lookups | {{.*}}Function=padded
fusion.mesh @m(dp = 2)
func.func @padded(%t: tensor<32768x512xf32>, %i: tensor<4x8xi32>, %j: tensor<i32>) -> (tensor<4x8x512xbf16>, tensor<512xbf16>) {
  %n = fusion.cast %t : tensor<32768x512xf32> to tensor<32768x512xbf16>
  %w = fusion.all_gather %n dim = 0 on @m[dp] : (tensor<32768x512xbf16>) -> tensor<65536x512xbf16>
  %s = fusion.slice %w starts = [0, 0] limits = [65535, 512] strides = [1, 1] : tensor<65536x512xbf16>
  %y = fusion.gather %s, %i axis = 0 : tensor<65535x512xbf16>, tensor<4x8xi32>
  %z = fusion.gather %s, %j axis = 0 : tensor<65535x512xbf16>, tensor<i32>
  return %y, %z : tensor<4x8x512xbf16>, tensor<512xbf16>
}

// -----

// The gradient's indices have been gathered for the lookup, as one dimension.
// RUN: fusion-opt %s -split-input-file --fusion-exchange-lookups --fusion-gather-updates | FileCheck %s --check-prefix=BOTH
// BOTH-LABEL: func @both
// BOTH-SAME: %[[T:.*]]: tensor<32768x512xf32>, %[[I:.*]]: tensor<8x8xi64>, %[[U:.*]]: tensor<64x512xf32>
// BOTH: %[[FLAT:.*]] = fusion.reshape %[[I]] : tensor<8x8xi64> to tensor<64xi64>
// BOTH: %[[ALL:.*]] = fusion.all_gather %[[FLAT]]
// BOTH: %[[COLUMN:.*]] = fusion.reshape %[[ALL]] : tensor<128xi64> to tensor<128x1xi64>
// BOTH-NOT: fusion.all_gather %{{.*}}xi64
// BOTH: fusion.sub %[[COLUMN]]
// BOTH: fusion.scatter add
fusion.mesh @m(dp = 2)
func.func @both(%t: tensor<32768x512xf32>, %i: tensor<8x8xi64>, %u: tensor<64x512xf32>) -> (tensor<8x8x512xf32>, tensor<32768x512xf32>) {
  %w = fusion.all_gather %t dim = 0 on @m[dp] : (tensor<32768x512xf32>) -> tensor<65536x512xf32>
  %y = fusion.gather %w, %i axis = 0 : tensor<65536x512xf32>, tensor<8x8xi64>
  %c = fusion.reshape %i : tensor<8x8xi64> to tensor<64x1xi64>
  %zeros = fusion.constant dense<0.0> : tensor<65536x512xf32>
  %s = fusion.scatter add, %zeros, %c, %u : tensor<65536x512xf32>, tensor<64x1xi64>, tensor<64x512xf32>
  %g = fusion.reduce_scatter sum, %s dim = 0 on @m[dp] : (tensor<65536x512xf32>) -> tensor<32768x512xf32>
  return %y, %g : tensor<8x8x512xf32>, tensor<32768x512xf32>
}

// -----

// More lookups than rows: the table is the smaller.
// CHECK-LABEL: func @many
// CHECK-NOT: fusion.all_to_all
// CHECK: return
// REMARK: [Missed] lookup-profit | {{.*}}Function=many{{.*}} nanoseconds={{[0-9]+}}{{.*}} nanoseconds_whole=
fusion.mesh @m(dp = 2)
func.func @many(%t: tensor<32x512xf32>, %i: tensor<4096xi64>) -> tensor<4096x512xf32> {
  %w = fusion.all_gather %t dim = 0 on @m[dp] : (tensor<32x512xf32>) -> tensor<64x512xf32>
  %y = fusion.gather %w, %i axis = 0 : tensor<64x512xf32>, tensor<4096xi64>
  return %y : tensor<4096x512xf32>
}

// -----

// Read whole too; of which a part is looked up and the whole; returned; gathered along
// columns; looked up along columns; a part that is not the first rows.
// CHECK-LABEL: func @form
// CHECK-NOT: fusion.all_to_all
// CHECK: return
// REMARK-COUNT-4: [Missed] lookup-form | {{.*}}Function=form
// REMARK-NOT: Function=form
fusion.mesh @m(dp = 2)
func.func @form(%t: tensor<32768x512xf32>, %u: tensor<65536x256xf32>, %i: tensor<64xi64>)
    -> (tensor<64x512xf32>, tensor<65536x512xf32>, tensor<64x512xf32>, tensor<64x512xf32>, tensor<64x512xf32>, tensor<65536x512xf32>, tensor<64x512xf32>, tensor<65536x64xf32>, tensor<64x512xf32>) {
  %a = fusion.all_gather %t dim = 0 on @m[dp] : (tensor<32768x512xf32>) -> tensor<65536x512xf32>
  %ya = fusion.gather %a, %i axis = 0 : tensor<65536x512xf32>, tensor<64xi64>
  %na = fusion.neg %a : tensor<65536x512xf32>
  %b = fusion.all_gather %t dim = 0 on @m[dp] : (tensor<32768x512xf32>) -> tensor<65536x512xf32>
  %sb = fusion.slice %b starts = [0, 0] limits = [65535, 512] strides = [1, 1] : tensor<65536x512xf32>
  %yb = fusion.gather %sb, %i axis = 0 : tensor<65535x512xf32>, tensor<64xi64>
  %zb = fusion.gather %b, %i axis = 0 : tensor<65536x512xf32>, tensor<64xi64>
  %c = fusion.all_gather %t dim = 0 on @m[dp] : (tensor<32768x512xf32>) -> tensor<65536x512xf32>
  %yc = fusion.gather %c, %i axis = 0 : tensor<65536x512xf32>, tensor<64xi64>
  %d = fusion.all_gather %u dim = 1 on @m[dp] : (tensor<65536x256xf32>) -> tensor<65536x512xf32>
  %yd = fusion.gather %d, %i axis = 0 : tensor<65536x512xf32>, tensor<64xi64>
  %e = fusion.all_gather %t dim = 0 on @m[dp] : (tensor<32768x512xf32>) -> tensor<65536x512xf32>
  %ye = fusion.gather %e, %i axis = 1 : tensor<65536x512xf32>, tensor<64xi64>
  %f = fusion.all_gather %t dim = 0 on @m[dp] : (tensor<32768x512xf32>) -> tensor<65536x512xf32>
  %sf = fusion.slice %f starts = [1, 0] limits = [65536, 512] strides = [1, 1] : tensor<65536x512xf32>
  %yf = fusion.gather %sf, %i axis = 0 : tensor<65535x512xf32>, tensor<64xi64>
  return %ya, %na, %yb, %zb, %yc, %c, %yd, %ye, %yf : tensor<64x512xf32>, tensor<65536x512xf32>, tensor<64x512xf32>, tensor<64x512xf32>, tensor<64x512xf32>, tensor<65536x512xf32>, tensor<64x512xf32>, tensor<65536x64xf32>, tensor<64x512xf32>
}

// -----

// Boundary: a number of lookups that the batch decides, none, one rank, several axes, and
// 32 bits that do not reach the last row less the first.
// CHECK-LABEL: func @batch
// CHECK-NOT: fusion.all_to_all
// CHECK: return
// REMARK-COUNT-4: [Missed] lookup-form | {{.*}}Function=batch
// REMARK-NOT: Function=batch
fusion.mesh @m(dp = 2, tp = 2, pp = 1)
func.func @batch(%t: tensor<32768x512xf32>, %s: tensor<16384x512xf32>, %h: tensor<1073741824x1xf32>, %i: tensor<?xi64>, %j: tensor<0xi64>, %k: tensor<64xi64>, %l: tensor<64xi32>)
    -> (tensor<?x512xf32>, tensor<0x512xf32>, tensor<64x512xf32>, tensor<64x512xf32>, tensor<64x1xf32>) {
  %a = fusion.all_gather %t dim = 0 on @m[dp] : (tensor<32768x512xf32>) -> tensor<65536x512xf32>
  %ya = fusion.gather %a, %i axis = 0 : tensor<65536x512xf32>, tensor<?xi64>
  %b = fusion.all_gather %t dim = 0 on @m[dp] : (tensor<32768x512xf32>) -> tensor<65536x512xf32>
  %yb = fusion.gather %b, %j axis = 0 : tensor<65536x512xf32>, tensor<0xi64>
  %c = fusion.all_gather %t dim = 0 on @m[pp] : (tensor<32768x512xf32>) -> tensor<32768x512xf32>
  %yc = fusion.gather %c, %k axis = 0 : tensor<32768x512xf32>, tensor<64xi64>
  %d = fusion.all_gather %s dim = 0 on @m[dp, tp] : (tensor<16384x512xf32>) -> tensor<65536x512xf32>
  %yd = fusion.gather %d, %k axis = 0 : tensor<65536x512xf32>, tensor<64xi64>
  %e = fusion.all_gather %h dim = 0 on @m[dp] : (tensor<1073741824x1xf32>) -> tensor<2147483648x1xf32>
  %ye = fusion.gather %e, %l axis = 0 : tensor<2147483648x1xf32>, tensor<64xi32>
  return %ya, %yb, %yc, %yd, %ye : tensor<?x512xf32>, tensor<0x512xf32>, tensor<64x512xf32>, tensor<64x512xf32>, tensor<64x1xf32>
}

// -----

// As many rows as 32 bits count.
// CHECK-LABEL: func @near
// CHECK: fusion.all_to_all
// REMARK: [Passed] exchange-lookups | {{.*}}Function=near
fusion.mesh @m(dp = 2)
func.func @near(%h: tensor<1073741823x1xf32>, %l: tensor<64xi32>) -> tensor<64x1xf32> {
  %e = fusion.all_gather %h dim = 0 on @m[dp] : (tensor<1073741823x1xf32>) -> tensor<2147483646x1xf32>
  %ye = fusion.gather %e, %l axis = 0 : tensor<2147483646x1xf32>, tensor<64xi32>
  return %ye : tensor<64x1xf32>
}

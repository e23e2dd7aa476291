// Reductions of gradients become buckets, in the order of their producers.
//
// RUN: fusion-opt %s -split-input-file --fusion-bucket-collectives="first-bytes=32 bucket-bytes=48 tail=0" | FileCheck %s -enable-var-scope
// RUN: fusion-opt %s -split-input-file --fusion-bucket-collectives="first-bytes=32 bucket-bytes=48 tail=0" --fusion-bucket-collectives=bucket-bytes=1000 | FileCheck %s -enable-var-scope
// RUN: fusion-opt %s -split-input-file --fusion-bucket-collectives="first-bytes=32 bucket-bytes=48 tail=0" --remarks-filter=fusion -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// 16 + 16 bytes fill the first bucket, 16 + 24 the second. Each stands behind
// its last producer, wherever the reductions stood.
// CHECK-LABEL: func @order
// CHECK: %[[A:.*]] = fusion.exp
// CHECK: %[[B:.*]] = fusion.neg
// CHECK-NEXT: %[[AB:.*]]:2 = fusion.all_reduce sum, %[[A]], %[[B]] on @m[dp] {fusion.bucket = 0 : i64} : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT: %[[C:.*]] = fusion.abs
// CHECK-NEXT: %[[D:.*]] = fusion.sqrt
// CHECK-NEXT: %[[CD:.*]]:2 = fusion.all_reduce sum, %[[C]], %[[D]] on @m[dp] {fusion.bucket = 1 : i64} : tensor<4xf32>, tensor<6xf32>
// CHECK-NOT: all_reduce
// CHECK: return %[[CD]]#1, %[[CD]]#0, %[[AB]]#1, %[[AB]]#0
// REMARK: [Passed] fuse-bucket | {{.*}}, bucket=0, bytes=32, members=2, size_limit=48, us_end={{.*}}, us_exposed={{.*}}, us_ready={{.*}}, us_start=
// REMARK: [Passed] fuse-bucket | {{.*}}, bucket=1, bytes=40, members=2,
// REMARK: [Missed] bucket-bytes | {{.*}} limit=32, {{.*}} value=48
fusion.mesh @m(dp = 2)
func.func @order(%x: tensor<4xf32>, %y: tensor<6xf32>) -> (tensor<6xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %a = fusion.exp %x : tensor<4xf32>
  %b = fusion.neg %x : tensor<4xf32>
  %c = fusion.abs %x : tensor<4xf32>
  %d = fusion.sqrt %y : tensor<6xf32>
  %rd = fusion.all_reduce sum, %d on @m[dp] : tensor<6xf32>
  %rb = fusion.all_reduce sum, %b on @m[dp] : tensor<4xf32>
  %rc = fusion.all_reduce sum, %c on @m[dp] : tensor<4xf32>
  %ra = fusion.all_reduce sum, %a on @m[dp] : tensor<4xf32>
  return %rd, %rc, %rb, %ra : tensor<6xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// One open bucket for each element type, kind and group: nothing is cast, and
// each starts with its own last member.
// CHECK-LABEL: func @keys
// CHECK: %[[A:.*]] = fusion.exp
// CHECK-NEXT: %[[H:.*]] = fusion.exp
// CHECK-NEXT: %[[B:.*]] = fusion.neg
// CHECK-NEXT: fusion.all_reduce sum, %[[A]], %[[B]] on @m[dp] {fusion.bucket = 0 : i64}
// CHECK-NEXT: %[[I:.*]] = fusion.neg
// CHECK-NEXT: fusion.all_reduce sum, %[[H]], %[[I]] on @m[dp] {fusion.bucket = 1 : i64} : tensor<4xf16>, tensor<4xf16>
// CHECK-NEXT: %[[C:.*]] = fusion.abs
// CHECK-NEXT: fusion.all_reduce max, %[[C]] on @m[dp] {fusion.bucket = 2 : i64}
// CHECK-NEXT: %[[D:.*]] = fusion.sqrt
// CHECK-NEXT: fusion.all_reduce sum, %[[D]] on @m[tp] {fusion.bucket = 3 : i64}
// REMARK: [Missed] bucket-key
fusion.mesh @m(dp = 2, tp = 2)
func.func @keys(%x: tensor<4xf32>, %h: tensor<4xf16>) -> (tensor<4xf32>, tensor<4xf16>, tensor<4xf32>, tensor<4xf16>, tensor<4xf32>, tensor<4xf32>) {
  %a = fusion.exp %x : tensor<4xf32>
  %ra = fusion.all_reduce sum, %a on @m[dp] : tensor<4xf32>
  %e = fusion.exp %h : tensor<4xf16>
  %re = fusion.all_reduce sum, %e on @m[dp] : tensor<4xf16>
  %b = fusion.neg %x : tensor<4xf32>
  %rb = fusion.all_reduce sum, %b on @m[dp] : tensor<4xf32>
  %i = fusion.neg %h : tensor<4xf16>
  %ri = fusion.all_reduce sum, %i on @m[dp] : tensor<4xf16>
  %c = fusion.abs %x : tensor<4xf32>
  %rc = fusion.all_reduce max, %c on @m[dp] : tensor<4xf32>
  %d = fusion.sqrt %x : tensor<4xf32>
  %rd = fusion.all_reduce sum, %d on @m[tp] : tensor<4xf32>
  return %ra, %re, %rb, %ri, %rc, %rd : tensor<4xf32>, tensor<4xf16>, tensor<4xf32>, tensor<4xf16>, tensor<4xf32>, tensor<4xf32>
}

// -----

// Reduce-scatters of one dimension share a bucket; of another one they don't.
// CHECK-LABEL: func @scatter
// CHECK: fusion.reduce_scatter sum, %{{.*}}, %{{.*}} dim = 0 on @m[dp] {fusion.bucket = 0 : i64} : (tensor<2x2xf32>, tensor<2x1xf32>) -> (tensor<1x2xf32>, tensor<1x1xf32>)
// CHECK: fusion.reduce_scatter sum, %{{.*}} dim = 1 on @m[dp] {fusion.bucket = 1 : i64}
fusion.mesh @m(dp = 2)
func.func @scatter(%x: tensor<2x2xf32>, %y: tensor<2x1xf32>) -> (tensor<1x2xf32>, tensor<1x1xf32>, tensor<2x1xf32>) {
  %a = fusion.exp %x : tensor<2x2xf32>
  %b = fusion.exp %y : tensor<2x1xf32>
  %ra = fusion.reduce_scatter sum, %a dim = 0 on @m[dp] : (tensor<2x2xf32>) -> tensor<1x2xf32>
  %rb = fusion.reduce_scatter sum, %b dim = 0 on @m[dp] : (tensor<2x1xf32>) -> tensor<1x1xf32>
  %c = fusion.neg %x : tensor<2x2xf32>
  %rc = fusion.reduce_scatter sum, %c dim = 1 on @m[dp] : (tensor<2x2xf32>) -> tensor<2x1xf32>
  return %ra, %rb, %rc : tensor<1x2xf32>, tensor<1x1xf32>, tensor<2x1xf32>
}

// -----

// 48 elements of 4 bytes in parts of at most 48 bytes would be 12 each, but
// parts start at multiples of 64 bytes: 16 elements. The result is put together
// from them.
// CHECK-LABEL: func @split
// CHECK: %[[A:.*]] = fusion.exp
// CHECK-NEXT: %[[F:.*]] = fusion.reshape %[[A]] : tensor<6x8xf32> to tensor<48xf32>
// CHECK-NEXT: %[[S0:.*]] = fusion.slice %[[F]] starts = [0] limits = [16]
// CHECK-NEXT: %[[R0:.*]] = fusion.all_reduce sum, %[[S0]] on @m[dp] {fusion.bucket = 0 : i64} : tensor<16xf32>
// CHECK-NEXT: %[[S1:.*]] = fusion.slice %[[F]] starts = [16] limits = [32]
// CHECK-NEXT: %[[R1:.*]] = fusion.all_reduce sum, %[[S1]] on @m[dp] {fusion.bucket = 1 : i64}
// CHECK-NEXT: %[[S2:.*]] = fusion.slice %[[F]] starts = [32] limits = [48]
// CHECK-NEXT: %[[R2:.*]] = fusion.all_reduce sum, %[[S2]] on @m[dp] {fusion.bucket = 2 : i64}
// CHECK-NEXT: %[[W:.*]] = fusion.concat %[[R0]], %[[R1]], %[[R2]] axis = 0
// CHECK-NEXT: %[[V:.*]] = fusion.reshape %[[W]] : tensor<48xf32> to tensor<6x8xf32>
// CHECK: return %[[V]]
// REMARK: [Passed] split-gradient | {{.*}} part_bytes=64, parts=3, size_limit=48
fusion.mesh @m(dp = 2)
func.func @split(%x: tensor<6x8xf32>) -> tensor<6x8xf32> {
  %a = fusion.exp %x : tensor<6x8xf32>
  %ra = fusion.all_reduce sum, %a on @m[dp] : tensor<6x8xf32>
  return %ra : tensor<6x8xf32>
}

// -----

// Exactly the size of the first: one bucket, of a scalar and empty tensors too.
// CHECK-LABEL: func @boundary
// CHECK-NEXT: fusion.all_reduce sum, %{{.*}}, %{{.*}}, %{{.*}} on @m[dp] {fusion.bucket = 0 : i64} : tensor<f32>, tensor<7xf32>, tensor<0x3xf32>
fusion.mesh @m(dp = 2)
func.func @boundary(%s: tensor<f32>, %x: tensor<7xf32>, %e: tensor<0x3xf32>) -> (tensor<f32>, tensor<7xf32>, tensor<0x3xf32>) {
  %0 = fusion.all_reduce sum, %s on @m[dp] : tensor<f32>
  %1 = fusion.all_reduce sum, %x on @m[dp] : tensor<7xf32>
  %2 = fusion.all_reduce sum, %e on @m[dp] : tensor<0x3xf32>
  return %0, %1, %2 : tensor<f32>, tensor<7xf32>, tensor<0x3xf32>
}

// -----

// Gradients that are widened, transposed and reshaped behind their reductions
// share one: these ops go to their first readers, in their order.
// CHECK-LABEL: func @forms
// CHECK: %[[R:.*]]:2 = fusion.all_reduce sum, %{{[0-9]+}}, %{{[0-9]+}} on @m[dp] {fusion.bucket = 0 : i64}
// CHECK-NOT: fusion.cast
// CHECK: fusion.add
// CHECK-NEXT: %[[WA:.*]] = fusion.cast %[[R]]#0
// CHECK-NEXT: %[[TA:.*]] = fusion.transpose %[[WA]]
// CHECK-NEXT: fusion.sub %{{.*}}, %[[TA]]
// CHECK-NEXT: %[[WB:.*]] = fusion.cast %[[R]]#1
// CHECK-NEXT: %[[VB:.*]] = fusion.reshape %[[WB]]
// CHECK-NEXT: fusion.sub %{{.*}}, %[[VB]]
// CHECK-NEXT: return
fusion.mesh @m(dp = 2)
func.func @forms(%x: tensor<2x2xbf16>, %p: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) {
  %a = fusion.exp %x : tensor<2x2xbf16>
  %ra = fusion.all_reduce sum, %a on @m[dp] : tensor<2x2xbf16>
  %wa = fusion.cast %ra : tensor<2x2xbf16> to tensor<2x2xf32>
  %ta = fusion.transpose %wa permutation = [1, 0] : tensor<2x2xf32>
  %b = fusion.abs %x : tensor<2x2xbf16>
  %rb = fusion.all_reduce sum, %b on @m[dp] : tensor<2x2xbf16>
  %wb = fusion.cast %rb : tensor<2x2xbf16> to tensor<2x2xf32>
  %vb = fusion.reshape %wb : tensor<2x2xf32> to tensor<2x2xf32>
  %q = fusion.add %p, %p : tensor<2x2xf32>
  %na = fusion.sub %q, %ta : tensor<2x2xf32>
  %nb = fusion.sub %na, %vb : tensor<2x2xf32>
  return %na, %nb : tensor<2x2xf32>, tensor<2x2xf32>
}

// Ranks share the squares of large gradients that all of them have. The device reads
// 1,000 bytes in a microsecond and adds a number over the ranks in 40.
//
// RUN: fusion-opt %s -split-input-file --fusion-fuse-clip=device=%S/Inputs/clip-shares.json --remarks-filter=fusion -o %t.mlir 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: FileCheck %s --input-file=%t.mlir
// RUN: fusion-opt %t.mlir -split-input-file --fusion-fuse-clip=device=%S/Inputs/clip-shares.json | FileCheck %s
// RUN: fusion-opt %s -split-input-file --fusion-fuse-clip="device=%S/Inputs/clip-shares.json share=false" | FileCheck %s --check-prefix=WHOLE

// WHOLE-NOT: fusion.rank_slice

// 128 KiB, of which a rank reads half: 65.54 us less. The sum over the ranks stands
// behind the last collective, and what no rank shares is added behind it.
// REMARK: [Passed] clip-share | {{.*}} bytes=131072, gradients=1, ranks=2, us_cost=40.98, us_saved=65.54, us_sum=40.00
// REMARK: [Passed] fuse-clip
// CHECK-LABEL: func @shared
// CHECK: %[[R:.*]] = fusion.all_reduce sum, %arg0 on @m[dp] {fusion.bucket = 0 : i64}
// CHECK: %[[S:.*]] = fusion.all_reduce sum, %arg1 on @m[dp] {fusion.bucket = 1 : i64}
// CHECK-NEXT: %[[FLAT:.*]] = fusion.reshape %[[R]] : tensor<256x128xf32> to tensor<32768xf32>
// CHECK-NEXT: %[[PART:.*]] = fusion.rank_slice %[[FLAT]] start = 0 on @m[dp] : (tensor<32768xf32>) -> tensor<16384xf32>
// CHECK-NEXT: %[[W:.*]] = fusion.cast %[[PART]] : tensor<16384xf32> to tensor<16384xf64>
// CHECK-NEXT: %[[Q:.*]] = fusion.mul %[[W]], %[[W]]
// CHECK-NEXT: %[[OWN:.*]] = fusion.reduce sum, %[[Q]] dims = [0]
// CHECK-NEXT: %[[ALL:.*]] = fusion.all_reduce sum, %[[OWN]] on @m[dp] : tensor<f64>
// CHECK: fusion.cast %[[S]] : tensor<4xf32> to tensor<4xf64>
// CHECK: %[[B:.*]] = fusion.reduce sum
// CHECK: %[[SUM:.*]] = fusion.add %[[B]], %[[ALL]]
// CHECK-NEXT: fusion.sqrt %[[SUM]]
// CHECK-NOT: all_reduce
// CHECK: fusion.mul %[[R]]
fusion.mesh @m(dp = 2)
func.func @shared(%a: tensor<256x128xf32>, %b: tensor<4xf32>) -> (tensor<256x128xf32>, tensor<4xf32>) {
  %r = fusion.all_reduce sum, %a on @m[dp] {fusion.bucket = 0 : i64} : tensor<256x128xf32>
  %s = fusion.all_reduce sum, %b on @m[dp] {fusion.bucket = 1 : i64} : tensor<4xf32>
  %wa = fusion.cast %r : tensor<256x128xf32> to tensor<256x128xf64>
  %qa = fusion.mul %wa, %wa : tensor<256x128xf64>
  %sa = fusion.reduce sum, %qa dims = [0, 1] : tensor<256x128xf64>
  %wb = fusion.cast %s : tensor<4xf32> to tensor<4xf64>
  %qb = fusion.mul %wb, %wb : tensor<4xf64>
  %sb = fusion.reduce sum, %qb dims = [0] : tensor<4xf64>
  %t = fusion.add %sa, %sb : tensor<f64>
  %n = fusion.sqrt %t : tensor<f64>
  %one = fusion.constant dense<1.0> : tensor<f64>
  %fw = fusion.div %one, %n : tensor<f64>
  %f = fusion.cast %fw : tensor<f64> to tensor<f32>
  %fa = fusion.broadcast %f dims = [] : tensor<f32> to tensor<256x128xf32>
  %ya = fusion.mul %r, %fa : tensor<256x128xf32>
  %za = fusion.neg %ya : tensor<256x128xf32>
  %fb = fusion.broadcast %f dims = [] : tensor<f32> to tensor<4xf32>
  %yb = fusion.mul %s, %fb : tensor<4xf32>
  %zb = fusion.neg %yb : tensor<4xf32>
  return %za, %zb : tensor<256x128xf32>, tensor<4xf32>
}

// -----

// Boundary: 3 x 16,385 elements are no parts that begin at vectors and have rows to
// sum: a rank takes 16,384, and the last three elements all ranks square.
// REMARK: [Passed] clip-share | {{.*}} ranks=3
// REMARK: [Passed] fuse-clip
// CHECK-LABEL: func @rest
// CHECK: %[[R:.*]] = fusion.all_reduce sum
// CHECK: %[[REST:.*]] = fusion.slice %[[R]] starts = [49152] limits = [49155] strides = [1]
// CHECK: fusion.mul %[[REST]], %[[REST]]
// CHECK: %[[B:.*]] = fusion.reduce sum
// CHECK: fusion.rank_slice %[[R]] start = 0 on @m[dp] : (tensor<49155xf32>) -> tensor<16384xf32>
// CHECK: %[[A:.*]] = fusion.reduce sum
// CHECK: %[[ALL:.*]] = fusion.all_reduce sum, %[[A]] on @m[dp] : tensor<f32>
// CHECK: %[[SUM:.*]] = fusion.add %[[B]], %[[ALL]]
// CHECK: fusion.sqrt %[[SUM]]
fusion.mesh @m(dp = 3)
func.func @rest(%a: tensor<49155xf32>) -> tensor<49155xf32> {
  %r = fusion.all_reduce sum, %a on @m[dp] {fusion.bucket = 0 : i64} : tensor<49155xf32>
  %q = fusion.mul %r, %r : tensor<49155xf32>
  %s = fusion.reduce sum, %q dims = [0] : tensor<49155xf32>
  %n = fusion.sqrt %s : tensor<f32>
  %f = fusion.broadcast %n dims = [] : tensor<f32> to tensor<49155xf32>
  %y = fusion.div %r, %f : tensor<49155xf32>
  %z = fusion.neg %y : tensor<49155xf32>
  return %z : tensor<49155xf32>
}

// -----

// Rows of an embedding: what is scattered was gathered, so all ranks have it. The
// narrowed sum is narrowed where a rank reads its part.
// REMARK: [Passed] clip-share | {{.*}} gradients=1
// REMARK: [Passed] fuse-clip
// CHECK-LABEL: func @gathered
// CHECK: %[[Y:.*]] = fusion.scatter
// CHECK: %[[FLAT:.*]] = fusion.reshape %[[Y]]
// CHECK-NEXT: %[[PART:.*]] = fusion.rank_slice %[[FLAT]] start = 0 on @m[dp] : (tensor<32768xf32>) -> tensor<16384xf32>
// CHECK-NEXT: fusion.cast %[[PART]] : tensor<16384xf32> to tensor<16384xbf16>
// CHECK-NEXT: fusion.cast {{.*}} to tensor<16384xf32>
// CHECK: fusion.all_reduce sum, {{.*}} tensor<f32>
fusion.mesh @m(dp = 2)
func.func @gathered(%i: tensor<8x1xi64>, %u: tensor<8x64xf32>, %w: tensor<512x64xbf16>) -> (tensor<512x64xbf16>, tensor<512x64xf32>) {
  %zero = fusion.constant dense<0.0> : tensor<512x64xf32>
  %gi = fusion.all_gather %i dim = 0 on @m[dp] : (tensor<8x1xi64>) -> tensor<16x1xi64>
  %gu = fusion.all_gather %u dim = 0 on @m[dp] : (tensor<8x64xf32>) -> tensor<16x64xf32>
  %y = fusion.scatter add, %zero, %gi, %gu : tensor<512x64xf32>, tensor<16x1xi64>, tensor<16x64xf32>
  %g = fusion.cast %y : tensor<512x64xf32> to tensor<512x64xbf16>
  %v = fusion.cast %g : tensor<512x64xbf16> to tensor<512x64xf32>
  %q = fusion.mul %v, %v : tensor<512x64xf32>
  %s = fusion.reduce sum, %q dims = [0, 1] : tensor<512x64xf32>
  %n = fusion.rsqrt %s : tensor<f32>
  %nb = fusion.cast %n : tensor<f32> to tensor<bf16>
  %f = fusion.broadcast %nb dims = [] : tensor<bf16> to tensor<512x64xbf16>
  %c = fusion.mul %g, %f : tensor<512x64xbf16>
  %z = fusion.sub %w, %c : tensor<512x64xbf16>
  %o = fusion.neg %y : tensor<512x64xf32>
  return %z, %o : tensor<512x64xbf16>, tensor<512x64xf32>
}

// -----

// Refused: each rank scatters rows of its own choice, so no two have the same sum.
// REMARK-NOT: {{(Passed|Missed). clip-share}}
// REMARK: [Passed] fuse-clip
// CHECK-LABEL: func @own_rows
// CHECK-NOT: fusion.rank_slice
// CHECK: return
fusion.mesh @m(dp = 2)
func.func @own_rows(%i: tensor<16x1xi64>, %u: tensor<8x64xf32>) -> tensor<512x64xf32> {
  %zero = fusion.constant dense<0.0> : tensor<512x64xf32>
  %gu = fusion.all_gather %u dim = 0 on @m[dp] : (tensor<8x64xf32>) -> tensor<16x64xf32>
  %y = fusion.scatter add, %zero, %i, %gu : tensor<512x64xf32>, tensor<16x1xi64>, tensor<16x64xf32>
  %q = fusion.mul %y, %y : tensor<512x64xf32>
  %s = fusion.reduce sum, %q dims = [0, 1] : tensor<512x64xf32>
  %n = fusion.rsqrt %s : tensor<f32>
  %f = fusion.broadcast %n dims = [] : tensor<f32> to tensor<512x64xf32>
  %c = fusion.mul %y, %f : tensor<512x64xf32>
  %z = fusion.neg %c : tensor<512x64xf32>
  return %z : tensor<512x64xf32>
}

// -----

// Refused: ranks have parts of the gradient; a sum in bf16 that would be rounded once
// more.
// REMARK-NOT: {{(Passed|Missed). clip-share}}
// REMARK: [Passed] fuse-clip
// CHECK-LABEL: func @parts
// CHECK-NOT: fusion.rank_slice
// CHECK: return
fusion.mesh @m(dp = 2)
func.func @parts(%a: tensor<65536xf32>, %b: tensor<65536xbf16>) -> (tensor<32768xf32>, tensor<65536xbf16>) {
  %r = fusion.reduce_scatter sum, %a dim = 0 on @m[dp] {fusion.bucket = 0 : i64} : (tensor<65536xf32>) -> tensor<32768xf32>
  %t = fusion.all_reduce sum, %b on @m[dp] {fusion.bucket = 1 : i64} : tensor<65536xbf16>
  %q = fusion.mul %r, %r : tensor<32768xf32>
  %s = fusion.reduce sum, %q dims = [0] : tensor<32768xf32>
  %o = fusion.all_reduce sum, %s on @m[dp] : tensor<f32>
  %qb = fusion.mul %t, %t : tensor<65536xbf16>
  %sb = fusion.reduce sum, %qb dims = [0] : tensor<65536xbf16>
  %wb = fusion.cast %sb : tensor<bf16> to tensor<f32>
  %v = fusion.add %o, %wb : tensor<f32>
  %n = fusion.rsqrt %v : tensor<f32>
  %f = fusion.broadcast %n dims = [] : tensor<f32> to tensor<32768xf32>
  %c = fusion.mul %r, %f : tensor<32768xf32>
  %z = fusion.neg %c : tensor<32768xf32>
  %y = fusion.neg %t : tensor<65536xbf16>
  return %z, %y : tensor<32768xf32>, tensor<65536xbf16>
}

// -----

// Of two groups of ranks, the one with the most bytes.
// REMARK: [Passed] clip-share | {{.*}} bytes=131072, gradients=1, ranks=2
// REMARK: [Passed] fuse-clip
// CHECK-LABEL: func @groups
// CHECK: %[[A:.*]] = fusion.all_reduce sum, %arg0 on @m[dp]
// CHECK: %[[B:.*]] = fusion.all_reduce sum, %arg1 on @m[dp, tp]
// CHECK-NOT: fusion.rank_slice %[[B]]
// CHECK: fusion.rank_slice %[[A]] start = 0 on @m[dp]
// CHECK-NOT: fusion.rank_slice %[[B]]
// CHECK: return
fusion.mesh @m(dp = 2, tp = 2)
func.func @groups(%a: tensor<32768xf32>, %b: tensor<16384xf32>) -> tensor<32768xf32> {
  %r = fusion.all_reduce sum, %a on @m[dp] {fusion.bucket = 0 : i64} : tensor<32768xf32>
  %t = fusion.all_reduce sum, %b on @m[dp, tp] {fusion.bucket = 1 : i64} : tensor<16384xf32>
  %q = fusion.mul %r, %r : tensor<32768xf32>
  %s = fusion.reduce sum, %q dims = [0] : tensor<32768xf32>
  %qb = fusion.mul %t, %t : tensor<16384xf32>
  %sb = fusion.reduce sum, %qb dims = [0] : tensor<16384xf32>
  %v = fusion.add %s, %sb : tensor<f32>
  %n = fusion.rsqrt %v : tensor<f32>
  %f = fusion.broadcast %n dims = [] : tensor<f32> to tensor<32768xf32>
  %c = fusion.mul %r, %f : tensor<32768xf32>
  %z = fusion.neg %c : tensor<32768xf32>
  return %z : tensor<32768xf32>
}

// -----

// Boundary: below 64 KiB nothing is shared; 64 KiB on 8 ranks save 57 us.
// REMARK-NOT: {{(Passed|Missed). clip-share}}
// REMARK: [Passed] fuse-clip
// CHECK-LABEL: func @small
// CHECK-NOT: fusion.rank_slice
// CHECK: return
fusion.mesh @m(dp = 8)
func.func @small(%a: tensor<16383xf32>) -> tensor<16383xf32> {
  %r = fusion.all_reduce sum, %a on @m[dp] {fusion.bucket = 0 : i64} : tensor<16383xf32>
  %q = fusion.mul %r, %r : tensor<16383xf32>
  %s = fusion.reduce sum, %q dims = [0] : tensor<16383xf32>
  %n = fusion.rsqrt %s : tensor<f32>
  %f = fusion.broadcast %n dims = [] : tensor<f32> to tensor<16383xf32>
  %c = fusion.mul %r, %f : tensor<16383xf32>
  %z = fusion.neg %c : tensor<16383xf32>
  return %z : tensor<16383xf32>
}

// -----

// REMARK: [Passed] clip-share | {{.*}} ranks=8, {{.*}} us_saved=57.34
// REMARK: [Passed] fuse-clip
// CHECK-LABEL: func @eight
// CHECK: fusion.rank_slice {{.*}} -> tensor<2048xf32>
fusion.mesh @m(dp = 8)
func.func @eight(%a: tensor<16384xf32>) -> tensor<16384xf32> {
  %r = fusion.all_reduce sum, %a on @m[dp] {fusion.bucket = 0 : i64} : tensor<16384xf32>
  %q = fusion.mul %r, %r : tensor<16384xf32>
  %s = fusion.reduce sum, %q dims = [0] : tensor<16384xf32>
  %n = fusion.rsqrt %s : tensor<f32>
  %f = fusion.broadcast %n dims = [] : tensor<f32> to tensor<16384xf32>
  %c = fusion.mul %r, %f : tensor<16384xf32>
  %z = fusion.neg %c : tensor<16384xf32>
  return %z : tensor<16384xf32>
}

// -----

// Refused: half of 64 KiB takes 32.77 us, the sum over the ranks 40 and a launch.
// REMARK: [Missed] clip-share-profit | {{.*}} bytes=65536, gradients=1, ranks=2, us_cost=41.00, us_saved=32.77, us_sum=40.00
// REMARK: [Passed] fuse-clip
// CHECK-LABEL: func @half
// CHECK-NOT: fusion.rank_slice
// CHECK: return
fusion.mesh @m(dp = 2)
func.func @half(%a: tensor<16384xf32>) -> tensor<16384xf32> {
  %r = fusion.all_reduce sum, %a on @m[dp] {fusion.bucket = 0 : i64} : tensor<16384xf32>
  %q = fusion.mul %r, %r : tensor<16384xf32>
  %s = fusion.reduce sum, %q dims = [0] : tensor<16384xf32>
  %n = fusion.rsqrt %s : tensor<f32>
  %f = fusion.broadcast %n dims = [] : tensor<f32> to tensor<16384xf32>
  %c = fusion.mul %r, %f : tensor<16384xf32>
  %z = fusion.neg %c : tensor<16384xf32>
  return %z : tensor<16384xf32>
}

// -----

// The squares of the last 64 KiB, which take 65.54 us, hide the sum over the ranks:
// they are whole on each. A launch is left of it; shared as well they would save
// 32.77 us and leave 40.
// REMARK: [Passed] clip-share | {{.*}} bytes=262144, gradients=1, ranks=2, us_cost=1.00, us_saved=131.07, us_sum=40.00
// REMARK: [Passed] fuse-clip
// CHECK-LABEL: func @hidden
// CHECK: %[[A:.*]] = fusion.all_reduce sum, %arg0
// CHECK: %[[B:.*]] = fusion.all_reduce sum, %arg1
// CHECK: fusion.rank_slice %[[A]] start = 0
// CHECK: %[[ALL:.*]] = fusion.all_reduce sum
// CHECK: fusion.mul %[[B]], %[[B]]
// CHECK: return
fusion.mesh @m(dp = 2)
func.func @hidden(%a: tensor<65536xf32>, %b: tensor<16384xf32>) -> tensor<65536xf32> {
  %r = fusion.all_reduce sum, %a on @m[dp] {fusion.bucket = 0 : i64} : tensor<65536xf32>
  %q = fusion.mul %r, %r : tensor<65536xf32>
  %s = fusion.reduce sum, %q dims = [0] : tensor<65536xf32>
  %t = fusion.all_reduce sum, %b on @m[dp] {fusion.bucket = 1 : i64} : tensor<16384xf32>
  %qb = fusion.mul %t, %t : tensor<16384xf32>
  %sb = fusion.reduce sum, %qb dims = [0] : tensor<16384xf32>
  %v = fusion.add %s, %sb : tensor<f32>
  %n = fusion.rsqrt %v : tensor<f32>
  %f = fusion.broadcast %n dims = [] : tensor<f32> to tensor<65536xf32>
  %c = fusion.mul %r, %f : tensor<65536xf32>
  %z = fusion.neg %c : tensor<65536xf32>
  return %z : tensor<65536xf32>
}

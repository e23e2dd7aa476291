// The norm of gradients is taken where they are reduced.
//
// RUN: fusion-opt %s -split-input-file --fusion-fuse-clip --remarks-filter=fusion -o %t.mlir 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: FileCheck %s < %t.mlir
// RUN: fusion-opt %t.mlir -split-input-file --fusion-fuse-clip | FileCheck %s

// Replicated gradients of three buckets: the squares of the first stand behind it,
// all as rows. Those of the second, 4 MiB, stand behind the third, which takes no
// longer (70 us) than to read them (105 us): they are computed while it is sent. One
// reduction adds all in the order of the graph.
// CHECK-LABEL: func @replicated
// CHECK: %[[R:.*]]:2 = fusion.all_reduce sum, {{.*}} {fusion.bucket = 0 : i64}
// CHECK-NEXT: %[[FA:.*]] = fusion.reshape %[[R]]#0 : tensor<2x3xf32> to tensor<6xf32>
// CHECK-NEXT: %[[WA:.*]] = fusion.cast %[[FA]] : tensor<6xf32> to tensor<6xf64>
// CHECK-NEXT: %[[QA:.*]] = fusion.mul %[[WA]], %[[WA]]
// CHECK-NEXT: %[[A:.*]] = fusion.reduce sum, %[[QA]] dims = [0]
// CHECK-NEXT: %[[WB:.*]] = fusion.cast %[[R]]#1 : tensor<4xf32> to tensor<4xf64>
// CHECK-NEXT: %[[QB:.*]] = fusion.mul %[[WB]], %[[WB]]
// CHECK-NEXT: %[[B:.*]] = fusion.reduce sum, %[[QB]] dims = [0]
// CHECK-NEXT: %[[D:.*]] = fusion.all_reduce sum, {{.*}} {fusion.bucket = 1 : i64}
// CHECK-NEXT: %[[S:.*]] = fusion.all_reduce sum, {{.*}} {fusion.bucket = 2 : i64}
// CHECK-NEXT: fusion.cast %[[D]]
// CHECK: %[[DS:.*]] = fusion.reduce sum
// CHECK-NEXT: fusion.cast %[[S]]
// CHECK: %[[C:.*]] = fusion.reduce sum
// CHECK: %[[C1:.*]] = fusion.reshape %[[C]] : tensor<f64> to tensor<1x1xf64>
// CHECK: %[[A1:.*]] = fusion.reshape %[[A]] : tensor<f64> to tensor<1x1xf64>
// CHECK: %[[B1:.*]] = fusion.reshape %[[B]] : tensor<f64> to tensor<1x1xf64>
// CHECK: %[[D1:.*]] = fusion.reshape %[[DS]] : tensor<f64> to tensor<1x1xf64>
// CHECK: %[[ALL:.*]] = fusion.concat %[[C1]], %[[A1]], %[[B1]], %[[D1]] axis = 1
// CHECK: %[[SUM:.*]] = fusion.reduce sum, %[[ALL]] dims = [0, 1]
// CHECK-NEXT: fusion.sqrt %[[SUM]]
// REMARK-COUNT-4: [Passed] clip-partial
// REMARK: [Passed] fuse-clip | {{.*}} collectives=0, gradients=4, scaled=3
fusion.mesh @m(dp = 2)
func.func @replicated(%a: tensor<2x3xf32>, %b: tensor<4xf32>, %c: tensor<5xf32>, %d: tensor<1048576xf32>) -> (tensor<2x3xf32>, tensor<4xf32>, tensor<5xf32>) {
  %r:2 = fusion.all_reduce sum, %a, %b on @m[dp] {fusion.bucket = 0 : i64} : tensor<2x3xf32>, tensor<4xf32>
  %rd = fusion.all_reduce sum, %d on @m[dp] {fusion.bucket = 1 : i64} : tensor<1048576xf32>
  %s = fusion.all_reduce sum, %c on @m[dp] {fusion.bucket = 2 : i64} : tensor<5xf32>
  %wc = fusion.cast %s : tensor<5xf32> to tensor<5xf64>
  %qc = fusion.mul %wc, %wc : tensor<5xf64>
  %sc = fusion.reduce sum, %qc dims = [0] : tensor<5xf64>
  %wa = fusion.cast %r#0 : tensor<2x3xf32> to tensor<2x3xf64>
  %qa = fusion.mul %wa, %wa : tensor<2x3xf64>
  %sa = fusion.reduce sum, %qa dims = [0, 1] : tensor<2x3xf64>
  %t0 = fusion.add %sc, %sa : tensor<f64>
  %wb = fusion.cast %r#1 : tensor<4xf32> to tensor<4xf64>
  %qb = fusion.mul %wb, %wb : tensor<4xf64>
  %sb = fusion.reduce sum, %qb dims = [0] : tensor<4xf64>
  %t1 = fusion.add %t0, %sb : tensor<f64>
  %wd = fusion.cast %rd : tensor<1048576xf32> to tensor<1048576xf64>
  %qd = fusion.mul %wd, %wd : tensor<1048576xf64>
  %sd = fusion.reduce sum, %qd dims = [0] : tensor<1048576xf64>
  %t2 = fusion.add %t1, %sd : tensor<f64>
  %n = fusion.sqrt %t2 : tensor<f64>
  %one = fusion.constant dense<1.0> : tensor<f64>
  %big = fusion.compare gt, %n, %one : tensor<f64>
  %inv = fusion.div %one, %n : tensor<f64>
  %fw = fusion.select %big, %inv, %one : tensor<i1>, tensor<f64>
  %f = fusion.cast %fw : tensor<f64> to tensor<f32>
  %fa = fusion.broadcast %f dims = [] : tensor<f32> to tensor<2x3xf32>
  %ya = fusion.mul %r#0, %fa : tensor<2x3xf32>
  %za = fusion.neg %ya : tensor<2x3xf32>
  %fb = fusion.broadcast %f dims = [] : tensor<f32> to tensor<4xf32>
  %yb = fusion.mul %fb, %r#1 : tensor<4xf32>
  %zb = fusion.neg %yb : tensor<4xf32>
  %fc = fusion.broadcast %f dims = [] : tensor<f32> to tensor<5xf32>
  %yc = fusion.mul %s, %fc : tensor<5xf32>
  %zc = fusion.neg %yc : tensor<5xf32>
  return %za, %zb, %zc : tensor<2x3xf32>, tensor<4xf32>, tensor<5xf32>
}

// -----

// Ranks hold parts of two gradients and all of a third: what a rank has is added
// first, one scalar goes over the ranks, and the third counts once. A sum that
// another reader had stays.
// CHECK-LABEL: func @sharded
// CHECK: %[[R:.*]]:2 = fusion.reduce_scatter
// CHECK: %[[S:.*]] = fusion.all_reduce sum, %arg2 on @m[dp]
// CHECK: %[[A:.*]] = fusion.reduce sum
// CHECK: %[[B:.*]] = fusion.reduce sum
// CHECK: fusion.mul %[[S]], %[[S]]
// CHECK: %[[C:.*]] = fusion.reduce sum
// CHECK: %[[LOSS:.*]] = fusion.all_reduce sum, %arg3 on @m[dp] : tensor<f32>
// CHECK: %[[AB:.*]] = fusion.add %[[A]], %[[B]]
// CHECK: %[[T:.*]] = fusion.all_reduce sum, %[[AB]] on @m[dp] : tensor<f32>
// CHECK: %[[N:.*]] = fusion.add %[[C]], %[[T]]
// CHECK: fusion.rsqrt %[[N]]
// CHECK-NOT: all_reduce
// CHECK: return %{{.*}}, %[[LOSS]]
// REMARK: [Passed] fuse-clip | {{.*}} collectives=1, gradients=3, scaled=1
fusion.mesh @m(dp = 2)
func.func @sharded(%a: tensor<4xf32>, %b: tensor<6xf32>, %c: tensor<3xf32>, %loss: tensor<f32>) -> (tensor<2xf32>, tensor<f32>) {
  %r:2 = fusion.reduce_scatter sum, %a, %b dim = 0 on @m[dp] {fusion.bucket = 0 : i64} : (tensor<4xf32>, tensor<6xf32>) -> (tensor<2xf32>, tensor<3xf32>)
  %s = fusion.all_reduce sum, %c on @m[dp] {fusion.bucket = 1 : i64} : tensor<3xf32>
  %qa = fusion.mul %r#0, %r#0 : tensor<2xf32>
  %la = fusion.reduce sum, %qa dims = [0] : tensor<2xf32>
  %qb = fusion.mul %r#1, %r#1 : tensor<3xf32>
  %lb = fusion.reduce sum, %qb dims = [0] : tensor<3xf32>
  %x:2 = fusion.all_reduce sum, %la, %loss on @m[dp] : tensor<f32>, tensor<f32>
  %y = fusion.all_reduce sum, %lb on @m[dp] : tensor<f32>
  %qc = fusion.mul %s, %s : tensor<3xf32>
  %lc = fusion.reduce sum, %qc dims = [0] : tensor<3xf32>
  %t0 = fusion.add %x#0, %y : tensor<f32>
  %t1 = fusion.add %t0, %lc : tensor<f32>
  %n = fusion.rsqrt %t1 : tensor<f32>
  %f = fusion.broadcast %n dims = [] : tensor<f32> to tensor<2xf32>
  %g = fusion.mul %r#0, %f : tensor<2xf32>
  %z = fusion.neg %g : tensor<2xf32>
  return %z, %x#1 : tensor<2xf32>, tensor<f32>
}

// -----

// A gradient reduced in parts: the squares of each part by themselves.
// CHECK-LABEL: func @parts
// CHECK: %[[P:.*]] = fusion.all_reduce sum, {{.*}} {fusion.bucket = 0 : i64}
// CHECK: %[[Q:.*]] = fusion.all_reduce sum, {{.*}} {fusion.bucket = 1 : i64}
// CHECK-NEXT: fusion.mul %[[P]], %[[P]]
// CHECK-NEXT: %[[A:.*]] = fusion.reduce sum
// CHECK-NEXT: fusion.mul %[[Q]], %[[Q]]
// CHECK-NEXT: %[[B:.*]] = fusion.reduce sum
// CHECK: %[[N:.*]] = fusion.add %[[A]], %[[B]]
// CHECK: fusion.sqrt %[[N]]
fusion.mesh @m(dp = 2)
func.func @parts(%a: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %l = fusion.reshape %a : tensor<4x16xf32> to tensor<64xf32>
  %a0 = fusion.slice %l starts = [0] limits = [32] strides = [1] : tensor<64xf32>
  %r0 = fusion.all_reduce sum, %a0 on @m[dp] {fusion.bucket = 0 : i64} : tensor<32xf32>
  %a1 = fusion.slice %l starts = [32] limits = [64] strides = [1] : tensor<64xf32>
  %r1 = fusion.all_reduce sum, %a1 on @m[dp] {fusion.bucket = 1 : i64} : tensor<32xf32>
  %w = fusion.concat %r0, %r1 axis = 0 : tensor<32xf32>, tensor<32xf32>
  %g = fusion.reshape %w : tensor<64xf32> to tensor<4x16xf32>
  %q = fusion.mul %g, %g : tensor<4x16xf32>
  %s = fusion.reduce sum, %q dims = [0, 1] : tensor<4x16xf32>
  %n = fusion.sqrt %s : tensor<f32>
  %f = fusion.broadcast %n dims = [] : tensor<f32> to tensor<4x16xf32>
  %y = fusion.div %g, %f : tensor<4x16xf32>
  %z = fusion.neg %y : tensor<4x16xf32>
  return %z : tensor<4x16xf32>
}

// -----

// The sum over ranks is written behind the sum of what a rank has.
// CHECK-LABEL: func @behind
// CHECK: %[[R:.*]]:3 = fusion.reduce_scatter
// CHECK-COUNT-3: fusion.reduce sum
// CHECK: %[[ALL:.*]] = fusion.concat %{{.*}}, %{{.*}}, %{{.*}} axis = 1
// CHECK: %[[L:.*]] = fusion.reduce sum, %[[ALL]] dims = [0, 1]
// CHECK: %[[T:.*]] = fusion.all_reduce sum, %[[L]] on @m[dp] : tensor<f32>
// CHECK: fusion.sqrt %[[T]]
fusion.mesh @m(dp = 2)
func.func @behind(%a: tensor<4xf32>, %b: tensor<6x2xf32>, %c: tensor<2xf32>) -> tensor<2xf32> {
  %r:3 = fusion.reduce_scatter sum, %a, %b, %c dim = 0 on @m[dp] {fusion.bucket = 0 : i64} : (tensor<4xf32>, tensor<6x2xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<3x2xf32>, tensor<1xf32>)
  %qa = fusion.mul %r#0, %r#0 : tensor<2xf32>
  %la = fusion.reduce sum, %qa dims = [0] : tensor<2xf32>
  %qb = fusion.mul %r#1, %r#1 : tensor<3x2xf32>
  %lb = fusion.reduce sum, %qb dims = [0, 1] : tensor<3x2xf32>
  %qc = fusion.mul %r#2, %r#2 : tensor<1xf32>
  %lc = fusion.reduce sum, %qc dims = [0] : tensor<1xf32>
  %t0 = fusion.add %la, %lb : tensor<f32>
  %t1 = fusion.add %t0, %lc : tensor<f32>
  %t2 = fusion.all_reduce sum, %t1 on @m[dp] : tensor<f32>
  %n = fusion.sqrt %t2 : tensor<f32>
  %f = fusion.broadcast %n dims = [] : tensor<f32> to tensor<2xf32>
  %g = fusion.div %r#0, %f : tensor<2xf32>
  %z = fusion.neg %g : tensor<2xf32>
  return %z : tensor<2xf32>
}

// -----

// A convolution's gradient is turned to the parameter's layout behind its reduction.
// Squares are summed where they lie: a kernel that turned them first would be read
// twice, so written. Widening changes no value either.
// CHECK-LABEL: func @turned
// CHECK: %[[R:.*]]:2 = fusion.all_reduce sum
// CHECK-NEXT: %[[A:.*]] = fusion.reshape %[[R]]#0 : tensor<2x3xf32> to tensor<6xf32>
// CHECK-NEXT: fusion.mul %[[A]], %[[A]]
// CHECK: %[[B:.*]] = fusion.cast %[[R]]#1 : tensor<4xbf16> to tensor<4xf32>
// CHECK-NEXT: fusion.mul %[[B]], %[[B]]
// CHECK: fusion.transpose %[[R]]#0
// CHECK: fusion.div
fusion.mesh @m(dp = 2)
func.func @turned(%a: tensor<2x3xf32>, %b: tensor<4xbf16>) -> (tensor<3x2xf32>, tensor<2x2xf32>) {
  %r:2 = fusion.all_reduce sum, %a, %b on @m[dp] {fusion.bucket = 0 : i64} : tensor<2x3xf32>, tensor<4xbf16>
  %ta = fusion.transpose %r#0 permutation = [1, 0] : tensor<2x3xf32>
  %qa = fusion.mul %ta, %ta : tensor<3x2xf32>
  %sa = fusion.reduce sum, %qa dims = [0, 1] : tensor<3x2xf32>
  %wb = fusion.cast %r#1 : tensor<4xbf16> to tensor<4xf32>
  %vb = fusion.reshape %wb : tensor<4xf32> to tensor<2x2xf32>
  %qb = fusion.mul %vb, %vb : tensor<2x2xf32>
  %sb = fusion.reduce sum, %qb dims = [0, 1] : tensor<2x2xf32>
  %t = fusion.add %sa, %sb : tensor<f32>
  %n = fusion.sqrt %t : tensor<f32>
  %fa = fusion.broadcast %n dims = [] : tensor<f32> to tensor<3x2xf32>
  %ya = fusion.div %ta, %fa : tensor<3x2xf32>
  %za = fusion.neg %ya : tensor<3x2xf32>
  %fb = fusion.broadcast %n dims = [] : tensor<f32> to tensor<2x2xf32>
  %yb = fusion.div %vb, %fb : tensor<2x2xf32>
  %zb = fusion.neg %yb : tensor<2x2xf32>
  return %za, %zb : tensor<3x2xf32>, tensor<2x2xf32>
}

// -----

// Rounding does: what was rounded is squared, in the order of the graph.
// CHECK-LABEL: func @rounded
// CHECK: %[[N:.*]] = fusion.cast %{{.*}} : tensor<2x3xf32> to tensor<2x3xbf16>
// CHECK: %[[T:.*]] = fusion.transpose %[[N]]
// CHECK: %[[F:.*]] = fusion.reshape %[[T]] : tensor<3x2xbf16> to tensor<6xbf16>
// CHECK-NEXT: %[[W:.*]] = fusion.cast %[[F]]
// CHECK-NEXT: fusion.mul %[[W]], %[[W]]
fusion.mesh @m(dp = 2)
func.func @rounded(%a: tensor<2x3xf32>) -> tensor<3x2xf32> {
  %r = fusion.all_reduce sum, %a on @m[dp] : tensor<2x3xf32>
  %c = fusion.cast %r : tensor<2x3xf32> to tensor<2x3xbf16>
  %t = fusion.transpose %c permutation = [1, 0] : tensor<2x3xbf16>
  %w = fusion.cast %t : tensor<3x2xbf16> to tensor<3x2xf32>
  %q = fusion.mul %w, %w : tensor<3x2xf32>
  %s = fusion.reduce sum, %q dims = [0, 1] : tensor<3x2xf32>
  %n = fusion.sqrt %s : tensor<f32>
  %f = fusion.broadcast %n dims = [] : tensor<f32> to tensor<3x2xf32>
  %y = fusion.div %w, %f : tensor<3x2xf32>
  %z = fusion.neg %y : tensor<3x2xf32>
  return %z : tensor<3x2xf32>
}

// -----

// The kernel of a GPU's scatter writes the narrow gradient: that is what is squared.
// CHECK-LABEL: func @narrowed_in_place
// CHECK: %[[S:.*]] = fusion.scatter add
// CHECK-NEXT: %[[N:.*]] = fusion.cast %[[S]] : tensor<64x2xf32> to tensor<64x2xbf16>
// CHECK-NEXT: %[[F:.*]] = fusion.reshape %[[N]] : tensor<64x2xbf16> to tensor<128xbf16>
// CHECK-NEXT: %[[W:.*]] = fusion.cast %[[F]] : tensor<128xbf16> to tensor<128xf64>
// CHECK-NEXT: fusion.mul %[[W]], %[[W]]
module attributes {fusion.target = "cuda"} {
  func.func @narrowed_in_place(%i: tensor<8x1xi64>, %u: tensor<8x2xf32>, %x: tensor<4xf32>) -> tensor<64x2xf64> {
    %zeros = fusion.constant dense<0.0> : tensor<64x2xf32>
    %s = fusion.scatter add, %zeros, %i, %u : tensor<64x2xf32>, tensor<8x1xi64>, tensor<8x2xf32>
    %g = fusion.cast %s : tensor<64x2xf32> to tensor<64x2xbf16>
    %w = fusion.cast %g : tensor<64x2xbf16> to tensor<64x2xf64>
    %q = fusion.mul %w, %w : tensor<64x2xf64>
    %t = fusion.reduce sum, %q dims = [0, 1] : tensor<64x2xf64>
    %n = fusion.sqrt %t : tensor<f64>
    %b = fusion.broadcast %n dims = [] : tensor<f64> to tensor<64x2xf64>
    %y = fusion.div %w, %b : tensor<64x2xf64>
    return %y : tensor<64x2xf64>
  }
}

// -----

// What was reduced in f32 is narrowed again for its squares, and nobody writes the
// narrow gradient for them. The squares of a bucket stand behind the gather that
// another gradient waits for: they take its time. A narrowed value that is computed
// here (%e) is squared as it is.
// CHECK-LABEL: func @narrowed
// CHECK: %[[R:.*]] = fusion.all_reduce sum, {{.*}} {fusion.bucket = 0 : i64}
// CHECK-NEXT: %[[U:.*]] = fusion.all_gather
// CHECK-NEXT: %[[N:.*]] = fusion.cast %[[R]] : tensor<4xf32> to tensor<4xbf16>
// CHECK-NEXT: %[[W:.*]] = fusion.cast %[[N]] : tensor<4xbf16> to tensor<4xf64>
// CHECK-NEXT: fusion.mul %[[W]], %[[W]]
// CHECK-NEXT: fusion.reduce sum
// CHECK: %[[S:.*]] = fusion.scatter add
// CHECK-NEXT: %[[SF:.*]] = fusion.reshape %[[S]] : tensor<64x2xf32> to tensor<128xf32>
// CHECK-NEXT: %[[SN:.*]] = fusion.cast %[[SF]] : tensor<128xf32> to tensor<128xbf16>
// CHECK-NEXT: %[[SW:.*]] = fusion.cast %[[SN]] : tensor<128xbf16> to tensor<128xf64>
// CHECK-NEXT: fusion.mul %[[SW]], %[[SW]]
// CHECK: %[[E:.*]] = fusion.exp
// CHECK: %[[EN:.*]] = fusion.cast %[[E]] : tensor<4xf32> to tensor<4xbf16>
// CHECK-NEXT: %[[EW:.*]] = fusion.cast %[[EN]] : tensor<4xbf16> to tensor<4xf64>
// REMARK: [Passed] fuse-clip | {{.*}} collectives=0, gradients=3, scaled=3
fusion.mesh @m(dp = 2)
func.func @narrowed(%a: tensor<4xf32>, %i: tensor<4x1xi64>, %u: tensor<4x2xf32>, %x: tensor<4xf32>) -> (tensor<4xbf16>, tensor<64x2xbf16>, tensor<4xbf16>) {
  %zeros = fusion.constant dense<0.0> : tensor<64x2xf32>
  %is = fusion.all_gather %i dim = 0 on @m[dp] : (tensor<4x1xi64>) -> tensor<8x1xi64>
  %r = fusion.all_reduce sum, %a on @m[dp] {fusion.bucket = 0 : i64} : tensor<4xf32>
  %us = fusion.all_gather %u dim = 0 on @m[dp] : (tensor<4x2xf32>) -> tensor<8x2xf32>
  %s = fusion.scatter add, %zeros, %is, %us : tensor<64x2xf32>, tensor<8x1xi64>, tensor<8x2xf32>
  %e = fusion.exp %x : tensor<4xf32>
  %ng = fusion.cast %r : tensor<4xf32> to tensor<4xbf16>
  %sg = fusion.cast %s : tensor<64x2xf32> to tensor<64x2xbf16>
  %eg = fusion.cast %e : tensor<4xf32> to tensor<4xbf16>
  %w0 = fusion.cast %ng : tensor<4xbf16> to tensor<4xf64>
  %q0 = fusion.mul %w0, %w0 : tensor<4xf64>
  %s0 = fusion.reduce sum, %q0 dims = [0] : tensor<4xf64>
  %w1 = fusion.cast %sg : tensor<64x2xbf16> to tensor<64x2xf64>
  %q1 = fusion.mul %w1, %w1 : tensor<64x2xf64>
  %s1 = fusion.reduce sum, %q1 dims = [0, 1] : tensor<64x2xf64>
  %w2 = fusion.cast %eg : tensor<4xbf16> to tensor<4xf64>
  %q2 = fusion.mul %w2, %w2 : tensor<4xf64>
  %s2 = fusion.reduce sum, %q2 dims = [0] : tensor<4xf64>
  %t0 = fusion.add %s0, %s1 : tensor<f64>
  %t1 = fusion.add %t0, %s2 : tensor<f64>
  %n = fusion.sqrt %t1 : tensor<f64>
  %f = fusion.cast %n : tensor<f64> to tensor<bf16>
  %f0 = fusion.broadcast %f dims = [] : tensor<bf16> to tensor<4xbf16>
  %y0 = fusion.div %ng, %f0 : tensor<4xbf16>
  %f1 = fusion.broadcast %f dims = [] : tensor<bf16> to tensor<64x2xbf16>
  %y1 = fusion.div %sg, %f1 : tensor<64x2xbf16>
  %y2 = fusion.div %eg, %f0 : tensor<4xbf16>
  %z0 = fusion.neg %y0 : tensor<4xbf16>
  %z1 = fusion.neg %y1 : tensor<64x2xbf16>
  %z2 = fusion.neg %y2 : tensor<4xbf16>
  return %z0, %z1, %z2 : tensor<4xbf16>, tensor<64x2xbf16>, tensor<4xbf16>
}

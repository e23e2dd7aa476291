// Buckets and clips are kinds of fusion that can be left out.
// REQUIRES: fusion-compile
// RUN: fusion-compile %s --stop-after=fuse -o - | FileCheck %s --check-prefix=ON
// RUN: fusion-compile %s --stop-after=fuse --no-fuse=buckets,clip -o - | FileCheck %s --check-prefix=OFF
// RUN: not fusion-compile %s --stop-after=fuse --no-fuse=bucket -o - 2>&1 | FileCheck %s --check-prefix=ERROR
// RUN: fusion-compile %s --stop-after=fuse --bucket-bytes=16 --first-bucket-bytes=16 -o - | FileCheck %s --check-prefix=SMALL
// RUN: not fusion-compile %s --stop-after=fuse --bucket-bytes=0 -o - 2>&1 | FileCheck %s --check-prefix=SIZE
// SMALL: fusion.all_reduce sum, %arg0 on @m[dp] {fusion.bucket = 0 : i64}
// SMALL: fusion.all_reduce sum, %arg1 on @m[dp] {fusion.bucket = 1 : i64}
// SIZE: error: bad size '0', of a bucket, write bytes as 25MiB or 1048576
// ON: fusion.all_reduce sum, %arg0, %arg1 on @m[dp] {fusion.bucket = 0 : i64}
// ON: fusion.concat
// OFF-NOT: fusion.bucket
// OFF-NOT: fusion.concat
// ERROR: error: unknown kind of fusion 'bucket', --no-fuse, the kinds are: buckets, chunks, clip, clip-shares, gradients, horizontal, projections, vertical
fusion.mesh @m(dp = 2)
func.func @main(%a: tensor<4xf32>, %b: tensor<2x2xf32>) -> tensor<4xf32> {
  %r = fusion.all_reduce sum, %a on @m[dp] : tensor<4xf32>
  %s = fusion.all_reduce sum, %b on @m[dp] : tensor<2x2xf32>
  %qr = fusion.mul %r, %r : tensor<4xf32>
  %lr = fusion.reduce sum, %qr dims = [0] : tensor<4xf32>
  %qs = fusion.mul %s, %s : tensor<2x2xf32>
  %ls = fusion.reduce sum, %qs dims = [0, 1] : tensor<2x2xf32>
  %c = fusion.constant dense<1.0> : tensor<f32>
  %t = fusion.add %lr, %ls : tensor<f32>
  %u = fusion.add %t, %c : tensor<f32>
  %n = fusion.sqrt %u : tensor<f32>
  %f = fusion.broadcast %n dims = [] : tensor<f32> to tensor<4xf32>
  %g = fusion.div %r, %f : tensor<4xf32>
  %z = fusion.neg %g : tensor<4xf32>
  return %z : tensor<4xf32>
}

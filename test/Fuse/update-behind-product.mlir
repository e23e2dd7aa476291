// RUN: fusion-opt %s --fusion-fuse --fusion-codegen=target=cuda | FileCheck %s

module attributes {fusion.target = "cuda", fusion.fp = "fast"} {
// The product is a gradient that only the update reads. Of the group's results
// the parameter has its type too, but takes the bytes of an argument that the
// update has yet to read: the product gets bytes of its own (result 0), and the
// update writes over the moment (input 2 of the group) and the parameter (3).
// CHECK-LABEL: func.func @update(
// CHECK: %[[G:.*]]:3 = fusion.group library ({{.*}} = %arg0 {{.*}} = %arg1 {{.*}} = %arg3 {{.*}} = %arg2
// CHECK-SAME: fusion.in_place = array<i64: 1, 2, 2, 3>
// CHECK: return %[[G]]#2, %[[G]]#1
func.func @update(%x: tensor<64x32xbf16>, %dy: tensor<64x16xbf16>,
                  %p: tensor<32x16xbf16> {fusion.donated = 0 : i64},
                  %m: tensor<32x16xbf16> {fusion.donated = 1 : i64})
    -> (tensor<32x16xbf16>, tensor<32x16xbf16>) {
  %g = fusion.matmul %x, %dy {transpose_lhs} : tensor<64x32xbf16>, tensor<64x16xbf16>
  %0 = fusion.mul %m, %g : tensor<32x16xbf16>
  %1 = fusion.mul %0, %0 : tensor<32x16xbf16>
  %2 = fusion.sub %p, %1 : tensor<32x16xbf16>
  return %2, %0 : tensor<32x16xbf16>, tensor<32x16xbf16>
}

// Nothing is updated: the product takes a result's bytes, as before.
// CHECK-LABEL: func.func @plain(
// CHECK: %[[P:.*]] = fusion.group library
// CHECK-NOT: fusion.in_place
// CHECK: return %[[P]]
func.func @plain(%x: tensor<64x32xbf16>, %dy: tensor<64x16xbf16>)
    -> tensor<32x16xbf16> {
  %g = fusion.matmul %x, %dy {transpose_lhs} : tensor<64x32xbf16>, tensor<64x16xbf16>
  %0 = fusion.sqrt %g : tensor<32x16xbf16>
  return %0 : tensor<32x16xbf16>
}
}

// RUN: fusion-opt %s --fusion-fuse-vertical --remarks-filter=fusion -split-input-file -o /dev/null 2>&1 | FileCheck %s

// Each rule that keeps a producer out of its consumer's group, with what it
// looked at. The id is the remark's name.

// Nine ops in a row are one too many.
// CHECK: [Missed] max-ops | {{.*}}limit=8{{.*}}value=9
func.func @max_ops(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = fusion.neg %x : tensor<4xf32>
  %1 = fusion.exp %0 : tensor<4xf32>
  %2 = fusion.neg %1 : tensor<4xf32>
  %3 = fusion.exp %2 : tensor<4xf32>
  %4 = fusion.neg %3 : tensor<4xf32>
  %5 = fusion.exp %4 : tensor<4xf32>
  %6 = fusion.neg %5 : tensor<4xf32>
  %7 = fusion.exp %6 : tensor<4xf32>
  %8 = fusion.neg %7 : tensor<4xf32>
  return %8 : tensor<4xf32>
}

// -----

// 1024 exponentials would become four million.
// CHECK: [Missed] recompute | {{.*}}at=fusion.exp{{.*}}limit=1024, producer=fusion.exp, value=4194304
func.func @recompute(%x: tensor<1024xf32>, %y: tensor<1024x4096xf32>) -> tensor<1024x4096xf32> {
  %0 = fusion.exp %x : tensor<1024xf32>
  %1 = fusion.broadcast %0 dims = [0] : tensor<1024xf32> to tensor<1024x4096xf32>
  %2 = fusion.add %1, %y : tensor<1024x4096xf32>
  return %2 : tensor<1024x4096xf32>
}

// -----

// s is read at its own position and at gathered ones: it must be whole first.
// CHECK-DAG: [Missed] two-index-maps | {{.*}}at=fusion.exp{{.*}}consumer=fusion.gather{{.*}}limit=1{{.*}}value=2
func.func @two_index_maps(%a: tensor<2x4xf32>, %b: tensor<2x4xf32>, %i: tensor<2xi64>) -> tensor<2x4xf32> {
  %s = fusion.exp %a : tensor<2x4xf32>
  %0 = fusion.add %b, %s : tensor<2x4xf32>
  %1 = fusion.gather %s, %i axis = 0 : tensor<2x4xf32>, tensor<2xi64>
  %2 = fusion.add %0, %1 : tensor<2x4xf32>
  return %2 : tensor<2x4xf32>
}

// -----

// The updates read what the scatter overwrites.
// CHECK: [Missed] in-place-hazard | {{.*}}at=fusion.add, {{.*}}consumer=fusion.scatter
func.func @in_place_hazard(%x: tensor<4x8xf32>, %i: tensor<4x1xi64>) -> tensor<4x8xf32> {
  %0 = fusion.add %x, %x : tensor<4x8xf32>
  %1 = fusion.scatter set, %x, %i, %0 : tensor<4x8xf32>, tensor<4x1xi64>, tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// -----

// CHECK: [Missed] anchor-operand | {{.*}}consumer=fusion.matmul, limit=1, producer=fusion.exp
// CHECK: [Missed] two-anchors | {{.*}}consumer=fusion.matmul, producer=fusion.matmul
func.func @anchors(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = fusion.exp %x : tensor<4x4xf32>
  %1 = fusion.matmul %0, %x : tensor<4x4xf32>, tensor<4x4xf32>
  %2 = fusion.matmul %1, %x : tensor<4x4xf32>, tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}

// -----

// CHECK-DAG: [Missed] epilogue-op | {{.*}}consumer=fusion.transpose, producer=fusion.matmul
// CHECK-DAG: [Missed] reduce-in-epilogue | {{.*}}consumer=fusion.softmax, producer=fusion.matmul
// CHECK-DAG: [Missed] library-result | {{.*}}consumer=fusion.cast, producer=fusion.matmul
func.func @epilogues(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>, %z: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf16>) {
  %0 = fusion.matmul %x, %y : tensor<4x4xf32>, tensor<4x4xf32>
  %1 = fusion.transpose %0 permutation = [1, 0] : tensor<4x4xf32>
  %2 = fusion.matmul %x, %z : tensor<4x4xf32>, tensor<4x4xf32>
  %3 = fusion.softmax %2 axis = 1 : tensor<4x4xf32>
  %4 = fusion.matmul %y, %z : tensor<4x4xf32>, tensor<4x4xf32>
  %5 = fusion.cast %4 : tensor<4x4xf32> to tensor<4x4xf16>
  return %1, %3, %5 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf16>
}

// -----

// CHECK: [Missed] iteration-shape | {{.*}}consumer=fusion.slice, producer=fusion.exp
func.func @iteration_shape(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<2xf32>) {
  %0 = fusion.exp %x : tensor<4xf32>
  %1 = fusion.slice %0 starts = [0] limits = [2] strides = [1] : tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<2xf32>
}

// -----

// CHECK: [Missed] row-op | {{.*}}consumer=fusion.transpose, producer=fusion.softmax
// CHECK: [Missed] column-op | {{.*}}consumer=fusion.reverse, producer=fusion.reduce
func.func @row_op(%x: tensor<4x8xf32>) -> (tensor<8x4xf32>, tensor<8xf32>) {
  %0 = fusion.softmax %x axis = 1 : tensor<4x8xf32>
  %1 = fusion.transpose %0 permutation = [1, 0] : tensor<4x8xf32>
  %2 = fusion.reduce sum, %x dims = [0] : tensor<4x8xf32>
  %3 = fusion.reverse %2 dims = [0] : tensor<8xf32>
  return %1, %3 : tensor<8x4xf32>, tensor<8xf32>
}

// -----

// A vector along the rows would be computed once a row.
// CHECK: [Missed] row-space | {{.*}}consumer=fusion.broadcast, producer=fusion.exp
func.func @row_space(%x: tensor<4x8xf32>, %s: tensor<8xf32>) -> tensor<4xf32> {
  %0 = fusion.exp %s : tensor<8xf32>
  %1 = fusion.broadcast %0 dims = [1] : tensor<8xf32> to tensor<4x8xf32>
  %2 = fusion.mul %x, %1 : tensor<4x8xf32>
  %3 = fusion.reduce sum, %2 dims = [1] : tensor<4x8xf32>
  return %3 : tensor<4xf32>
}

// -----

// CHECK: [Missed] scatter-op | {{.*}}consumer=fusion.neg, producer=fusion.scatter
// CHECK: [Missed] no-emitter | {{.*}}consumer=fusion.arg_max, producer=fusion.neg
func.func @alone(%x: tensor<4x8xf32>, %i: tensor<3x1xi64>, %u: tensor<3x8xf32>) -> tensor<4xi64> {
  %0 = fusion.scatter add, %x, %i, %u : tensor<4x8xf32>, tensor<3x1xi64>, tensor<3x8xf32>
  %1 = fusion.neg %0 : tensor<4x8xf32>
  %2 = fusion.arg_max %1 axis = 1 : tensor<4x8xf32>
  return %2 : tensor<4xi64>
}

// -----

// An op with effects stands between the two.
// CHECK: [Missed] barrier | {{.*}}consumer=fusion.neg, producer=fusion.exp
func.func @barrier(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = fusion.exp %x : tensor<4xf32>
  %1 = fusion.kernel_call "c" "f" "void f() {}" (%x) flops = 1 bytes = 1 {side_effects} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = fusion.neg %0 : tensor<4xf32>
  return %1, %2 : tensor<4xf32>, tensor<4xf32>
}

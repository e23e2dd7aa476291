// Data movement in canonical form.
//
// RUN: fusion-opt %s -split-input-file --fusion-canonicalize | FileCheck %s
// RUN: fusion-opt %s -split-input-file --fusion-canonicalize --fusion-canonicalize | FileCheck %s

// A transpose that moves only unit dimensions is a reshape; a reshape of a
// reshape is one.
// CHECK-LABEL: func @unit_dims
// CHECK-NEXT: %[[R:.*]] = fusion.reshape %{{.*}} : tensor<?x8x1x1xf32> to tensor<?x8xf32>
// CHECK-NEXT: return %[[R]]
func.func @unit_dims(%x: tensor<?x8x1x1xf32>) -> tensor<?x8xf32> {
  %t = fusion.transpose %x permutation = [0, 2, 3, 1] : tensor<?x8x1x1xf32>
  %r = fusion.reshape %t : tensor<?x1x1x8xf32> to tensor<?x8xf32>
  return %r : tensor<?x8xf32>
}

// -----

// What is computed on a broadcast is computed before it.
// CHECK-LABEL: func @before_broadcast
// CHECK-NEXT: %[[ONE:.*]] = fusion.constant dense<1.000000e+00> : tensor<4xf32>
// CHECK-NEXT: %[[E:.*]] = fusion.exp %{{.*}} : tensor<4xf32>
// CHECK-NEXT: %[[A:.*]] = fusion.add %[[E]], %[[ONE]] : tensor<4xf32>
// CHECK-NEXT: %[[B:.*]] = fusion.broadcast %[[A]] dims = [0] : tensor<4xf32> to tensor<4x8xf32>
// CHECK-NEXT: return %[[B]]
func.func @before_broadcast(%x: tensor<4xf32>) -> tensor<4x8xf32> {
  %one = fusion.constant dense<1.0> : tensor<4x8xf32>
  %b = fusion.broadcast %x dims = [0] : tensor<4xf32> to tensor<4x8xf32>
  %e = fusion.exp %b : tensor<4x8xf32>
  %a = fusion.add %e, %one : tensor<4x8xf32>
  return %a : tensor<4x8xf32>
}

// -----

// Unit dimensions of the operand of a broadcast are dropped; a broadcast of a
// broadcast is one; one that repeats nothing is a reshape.
// CHECK-LABEL: func @broadcasts
// CHECK-SAME: (%[[X:.*]]: tensor<1x8x1x1xf32>)
// CHECK-DAG: %[[R:.*]] = fusion.reshape %[[X]] : tensor<1x8x1x1xf32> to tensor<8xf32>
// CHECK-DAG: %[[B:.*]] = fusion.broadcast %[[R]] dims = [2] : tensor<8xf32> to tensor<5x2x8x4x4xf32>
// CHECK-DAG: %[[C:.*]] = fusion.reshape %[[X]] : tensor<1x8x1x1xf32> to tensor<8x1xf32>
// CHECK: return %[[B]], %[[C]]
func.func @broadcasts(%x: tensor<1x8x1x1xf32>) -> (tensor<5x2x8x4x4xf32>, tensor<8x1xf32>) {
  %b = fusion.broadcast %x dims = [0, 1, 2, 3] : tensor<1x8x1x1xf32> to tensor<2x8x4x4xf32>
  %c = fusion.broadcast %b dims = [1, 2, 3, 4] : tensor<2x8x4x4xf32> to tensor<5x2x8x4x4xf32>
  %r = fusion.reshape %x : tensor<1x8x1x1xf32> to tensor<8xf32>
  %d = fusion.broadcast %r dims = [0] : tensor<8xf32> to tensor<8x1xf32>
  return %c, %d : tensor<5x2x8x4x4xf32>, tensor<8x1xf32>
}

// -----

// A reshape between elementwise ops goes behind them; two equal transposes
// become one.
// CHECK-LABEL: func @sink
// CHECK: %[[N:.*]] = fusion.neg
// CHECK-NEXT: %[[E:.*]] = fusion.exp %[[N]] : tensor<6xf32>
// CHECK-NEXT: %[[R:.*]] = fusion.reshape %[[E]] : tensor<6xf32> to tensor<2x3xf32>
// CHECK: %[[A:.*]] = fusion.add %{{.*}}, %{{.*}} : tensor<2x3xf32>
// CHECK-NEXT: %[[T:.*]] = fusion.transpose %[[A]]
// CHECK: return %[[R]], %[[T]]
func.func @sink(%x: tensor<6xf32>, %y: tensor<2x3xf32>, %z: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<3x2xf32>) {
  %n = fusion.neg %x : tensor<6xf32>
  %r = fusion.reshape %n : tensor<6xf32> to tensor<2x3xf32>
  %e = fusion.exp %r : tensor<2x3xf32>
  %s = fusion.transpose %y permutation = [1, 0] : tensor<2x3xf32>
  %t = fusion.transpose %z permutation = [1, 0] : tensor<2x3xf32>
  %a = fusion.add %s, %t : tensor<3x2xf32>
  return %e, %a : tensor<2x3xf32>, tensor<3x2xf32>
}

// -----

// Slices of slices and of concats; pads of pads; concats of concats; gathers
// at known indices (which are clamped first).
// CHECK-LABEL: func @boxes
// CHECK-SAME: (%[[X:.*]]: tensor<16xf32>, %[[Y:.*]]: tensor<4xf32>, %[[V:.*]]: tensor<f32>)
// CHECK-DAG: %[[S:.*]] = fusion.slice %[[X]] starts = [4] limits = [15] strides = [10]
// CHECK-DAG: %[[P:.*]] = fusion.slice %[[Y]] starts = [1] limits = [3] strides = [1]
// CHECK-DAG: %[[Q:.*]] = fusion.pad %[[Y]], %[[V]] low = [3] high = [3]
// CHECK-DAG: %[[C:.*]] = fusion.concat %[[Y]], %[[X]], %[[Y]] axis = 0
// CHECK-DAG: %[[L:.*]] = fusion.slice %[[X]] starts = [13] limits = [16] strides = [2]
// CHECK: return %[[S]], %[[P]], %[[Q]], %[[C]], %[[L]]
func.func @boxes(%x: tensor<16xf32>, %y: tensor<4xf32>, %v: tensor<f32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<10xf32>, tensor<24xf32>, tensor<2xf32>) {
  %0 = fusion.slice %x starts = [2] limits = [16] strides = [2] : tensor<16xf32>
  %1 = fusion.slice %0 starts = [1] limits = [7] strides = [5] : tensor<7xf32>
  %2 = fusion.concat %x, %y axis = 0 : tensor<16xf32>, tensor<4xf32>
  %3 = fusion.slice %2 starts = [17] limits = [19] strides = [1] : tensor<20xf32>
  %4 = fusion.pad %y, %v low = [1] high = [0] : tensor<4xf32>, tensor<f32>
  %5 = fusion.pad %4, %v low = [2] high = [3] : tensor<5xf32>, tensor<f32>
  %6 = fusion.concat %x, %y axis = 0 : tensor<16xf32>, tensor<4xf32>
  %7 = fusion.concat %y, %6 axis = 0 : tensor<4xf32>, tensor<20xf32>
  %i = fusion.constant dense<[13, 99]> : tensor<2xi64>
  %8 = fusion.gather %x, %i axis = 0 : tensor<16xf32>, tensor<2xi64>
  return %1, %3, %5, %7, %8 : tensor<2xf32>, tensor<2xf32>, tensor<10xf32>, tensor<24xf32>, tensor<2xf32>
}

// -----

// A matmul reads a transposed operand by its flag.
// CHECK-LABEL: func @matmul
// CHECK-NEXT: %[[M:.*]] = fusion.matmul %{{.*}}, %{{.*}} {transpose_rhs} : tensor<2x3xf32>, tensor<4x3xf32>
// CHECK-NEXT: return %[[M]]
func.func @matmul(%x: tensor<2x3xf32>, %w: tensor<4x3xf32>) -> tensor<2x4xf32> {
  %t = fusion.transpose %w permutation = [1, 0] : tensor<4x3xf32>
  %m = fusion.matmul %x, %t : tensor<2x3xf32>, tensor<3x4xf32>
  return %m : tensor<2x4xf32>
}

// -----

// A sum over a unit dimension may start from +0 and turn -0 into it; a maximum
// does not.
// CHECK-LABEL: func @unit_reduction
// CHECK-DAG: fusion.reduce sum
// CHECK-DAG: fusion.reshape
// CHECK-NOT: fusion.reduce max
func.func @unit_reduction(%x: tensor<4x1xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %s = fusion.reduce sum, %x dims = [1] : tensor<4x1xf32>
  %m = fusion.reduce max, %x dims = [1] : tensor<4x1xf32>
  return %s, %m : tensor<4xf32>, tensor<4xf32>
}

// -----

// Equal ops are merged, dead ones and unused constant parameters dropped, state
// is kept. Random numbers of other offsets are other numbers.
// CHECK-NOT: @unused
// CHECK: fusion.parameter @state state
// CHECK-LABEL: func @merge
// CHECK: %[[E:.*]] = fusion.exp
// CHECK-NOT: fusion.exp
// CHECK: fusion.mul %[[E]], %[[E]]
// CHECK-COUNT-2: fusion.rng_uniform
// CHECK-NOT: fusion.rng_uniform
fusion.parameter @unused const value dense<1.0> : tensor<2xf32> : tensor<2xf32>
fusion.parameter @state state value dense<1.0> : tensor<2xf32> : tensor<2xf32>
func.func @merge(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %dead = fusion.get_parameter @unused : tensor<2xf32>
  %a = fusion.exp %x : tensor<4xf32>
  %b = fusion.exp %x : tensor<4xf32>
  %y = fusion.mul %a, %b : tensor<4xf32>
  %seed = fusion.constant dense<7> : tensor<i64>
  %zero = fusion.constant dense<0> : tensor<i64>
  %one = fusion.constant dense<1> : tensor<i64>
  %r0 = fusion.rng_uniform %seed, %zero : tensor<i64>, tensor<i64>, tensor<4xf32>
  %r1 = fusion.rng_uniform %seed, %one : tensor<i64>, tensor<i64>, tensor<4xf32>
  %r2 = fusion.rng_uniform %seed, %one : tensor<i64>, tensor<i64>, tensor<4xf32>
  %s = fusion.add %r1, %r2 : tensor<4xf32>
  return %y, %r0, %s : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// Ops inside a group stay, even what would leave it empty; around it they go.
// CHECK-LABEL: func @groups
// CHECK-NEXT: %[[G:.*]] = fusion.group loop
// CHECK-NEXT: fusion.max
// CHECK-NEXT: fusion.yield
// CHECK: return %[[G]]
func.func @groups(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %t = fusion.transpose %x permutation = [1, 0] : tensor<2x3xf32>
  %u = fusion.transpose %t permutation = [1, 0] : tensor<3x2xf32>
  %r = fusion.group loop (%a = %u : tensor<2x3xf32>) -> tensor<2x3xf32> {
    %0 = fusion.max %a, %a : tensor<2x3xf32>
    fusion.yield %0 : tensor<2x3xf32>
  }
  %m = fusion.max %r, %r : tensor<2x3xf32>
  return %m : tensor<2x3xf32>
}

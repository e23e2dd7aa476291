// RUN: fusion-opt %s --fusion-record-fusion-certificate --fusion-fuse-vertical --fusion-verify-fusion-certificate | FileCheck %s

// Several readers, interior outputs, ranks, sizes and types at the edge.

// A value inside that is returned too is one more output.
// CHECK-LABEL: func.func @interior_output
// CHECK-NEXT: %[[G:.*]]:2 = fusion.group loop
// CHECK-NEXT:   %[[E:.*]] = fusion.exp
// CHECK-NEXT:   %[[N:.*]] = fusion.neg %[[E]]
// CHECK-NEXT:   fusion.yield %[[E]], %[[N]]
// CHECK-NEXT: }
// CHECK-NEXT: return %[[G]]#0, %[[G]]#1
func.func @interior_output(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = fusion.exp %x : tensor<4xf32>
  %1 = fusion.neg %0 : tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// The mean inside a written-out norm is returned and read by a second chain.
// CHECK-LABEL: func.func @interior_mean
// CHECK-NEXT: fusion.group row_reduce {{.*}} -> (tensor<4xf32>, tensor<4x8xf32>, tensor<4xf32>)
// CHECK-NOT:  fusion.group
// CHECK:      return
func.func @interior_mean(%x: tensor<4x8xf32>) -> (tensor<4xf32>, tensor<4x8xf32>, tensor<4xf32>) {
  %0 = fusion.reduce mean, %x dims = [1] : tensor<4x8xf32>
  %1 = fusion.broadcast %0 dims = [0] : tensor<4xf32> to tensor<4x8xf32>
  %2 = fusion.sub %x, %1 : tensor<4x8xf32>
  %3 = fusion.exp %0 : tensor<4xf32>
  return %0, %2, %3 : tensor<4xf32>, tensor<4x8xf32>, tensor<4xf32>
}

// The convolution itself and its activation are both returned.
// CHECK-LABEL: func.func @interior_matmul
// CHECK-NEXT: %[[G:.*]]:2 = fusion.group library
// CHECK-NEXT:   %[[M:.*]] = fusion.matmul
// CHECK-NEXT:   %[[R:.*]] = fusion.relu %[[M]]
// CHECK-NEXT:   fusion.yield %[[M]], %[[R]]
func.func @interior_matmul(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = fusion.matmul %x, %x : tensor<4x4xf32>, tensor<4x4xf32>
  %1 = fusion.relu %0 : tensor<4x4xf32>
  return %0, %1 : tensor<4x4xf32>, tensor<4x4xf32>
}

// A broadcast with two readers is repeated in both groups; a third reader that
// can't take it in, a matmul, makes it a group once.
// CHECK-LABEL: func.func @clones
// CHECK-COUNT-3: fusion.broadcast
// CHECK-NOT: fusion.broadcast
// CHECK: return
func.func @clones(%x: tensor<4xf32>, %y: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = fusion.broadcast %x dims = [0] : tensor<4xf32> to tensor<4x4xf32>
  %1 = fusion.add %0, %y : tensor<4x4xf32>
  %2 = fusion.matmul %0, %y : tensor<4x4xf32>, tensor<4x4xf32>
  %3 = fusion.matmul %y, %0 : tensor<4x4xf32>, tensor<4x4xf32>
  %4 = fusion.mul %2, %0 : tensor<4x4xf32>
  return %1, %2, %3, %4 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}

// A broadcast that is returned is there once, and read from there.
// CHECK-LABEL: func.func @returned_broadcast
// CHECK-COUNT-1: fusion.broadcast
// CHECK-NOT: fusion.broadcast
// CHECK: return
func.func @returned_broadcast(%x: tensor<4xf32>, %y: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = fusion.broadcast %x dims = [0] : tensor<4xf32> to tensor<4x4xf32>
  %1 = fusion.add %0, %y : tensor<4x4xf32>
  return %0, %1 : tensor<4x4xf32>, tensor<4x4xf32>
}

// One element of several: scalars are tensors like any other.
// CHECK-LABEL: func.func @rank0
// CHECK-NEXT: fusion.group loop (%{{.*}} = %arg0 : tensor<f32>) -> tensor<f32>
// CHECK-NOT: fusion.group
// CHECK: return
func.func @rank0(%x: tensor<f32>) -> tensor<f32> {
  %c = fusion.constant dense<2.0> : tensor<f32>
  %0 = fusion.mul %x, %c : tensor<f32>
  %1 = fusion.add %0, %x : tensor<f32>
  return %1 : tensor<f32>
}

// Nothing to compute is still computed by one group.
// CHECK-LABEL: func.func @empty
// CHECK-NEXT: fusion.group row_reduce
// CHECK-NOT: fusion.group
// CHECK: return
func.func @empty(%x: tensor<4x0xf32>) -> tensor<4xf32> {
  %0 = fusion.exp %x : tensor<4x0xf32>
  %1 = fusion.reduce sum, %0 dims = [1] : tensor<4x0xf32>
  return %1 : tensor<4xf32>
}

// The narrowing casts stay where they are.
// CHECK-LABEL: func.func @narrow
// CHECK-NEXT: fusion.group loop
// CHECK-NEXT:   fusion.cast %{{.*}} : tensor<4xf32> to tensor<4xbf16>
// CHECK-NEXT:   fusion.add %{{.*}} : tensor<4xbf16>
// CHECK-NEXT:   fusion.cast %{{.*}} : tensor<4xbf16> to tensor<4xf32>
// CHECK-NEXT:   fusion.yield
func.func @narrow(%x: tensor<4xf32>, %y: tensor<4xbf16>) -> tensor<4xf32> {
  %0 = fusion.cast %x : tensor<4xf32> to tensor<4xbf16>
  %1 = fusion.add %0, %y : tensor<4xbf16>
  %2 = fusion.cast %1 : tensor<4xbf16> to tensor<4xf32>
  return %2 : tensor<4xf32>
}

// The batch is a size like any other ...
// CHECK-LABEL: func.func @batch
// CHECK-NEXT: fusion.group row_reduce
// CHECK-NOT: fusion.group
// CHECK: return
func.func @batch(%x: tensor<?x8xf32>) -> tensor<?x8xf32> attributes {fusion.batch = array<i64: 1, 32>} {
  %0 = fusion.relu %x : tensor<?x8xf32>
  %1 = fusion.softmax %0 axis = 1 : tensor<?x8xf32>
  return %1 : tensor<?x8xf32>
}

// ... but two `?` are the same size only if they are the same function of it.
// CHECK-LABEL: func.func @two_batches
// CHECK-COUNT-2: fusion.group loop
func.func @two_batches(%x: tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) attributes {fusion.batch = array<i64: 1, 32>} {
  %0 = fusion.relu %x : tensor<?x8xf32>
  %1 = fusion.concat %0, %0 axis = 0 : tensor<?x8xf32>, tensor<?x8xf32>
  %2 = fusion.neg %1 : tensor<?x8xf32>
  return %0, %2 : tensor<?x8xf32>, tensor<?x8xf32>
}

// What nothing reads is not computed.
// CHECK-LABEL: func.func @dead
// CHECK-NEXT: return %arg0
func.func @dead(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = fusion.exp %x : tensor<4xf32>
  return %x : tensor<4xf32>
}

// Two readers of a broadcast of a view, one of which can't take it in: the
// view's operand is an output, and the broadcast a group for that reader alone.
// CHECK-LABEL: func.func @cloned_view
// CHECK-NEXT: %[[R:.*]]:2 = fusion.group row_reduce
// CHECK:      %[[V:.*]] = fusion.reshape %[[R]]#0
// CHECK:      %[[B:.*]] = fusion.group loop ({{.*}} = %[[V]] : tensor<f32>)
// CHECK-NEXT:   fusion.broadcast
// CHECK-NEXT:   fusion.yield
// CHECK:      fusion.group library ({{.*}} = %[[B]] : tensor<1x8xf32>
func.func @cloned_view(%x: tensor<1x8xf32>, %w: tensor<8x1xf32>) -> (tensor<1xf32>, tensor<1x8xf32>, tensor<1x1xf32>) {
  %0 = fusion.reduce min, %x dims = [1] : tensor<1x8xf32>
  %1 = fusion.reshape %0 : tensor<1xf32> to tensor<f32>
  %2 = fusion.broadcast %1 dims = [] : tensor<f32> to tensor<1x8xf32>
  %3 = fusion.sub %x, %2 : tensor<1x8xf32>
  %4 = fusion.matmul %2, %w : tensor<1x8xf32>, tensor<8x1xf32>
  return %0, %3, %4 : tensor<1xf32>, tensor<1x8xf32>, tensor<1x1xf32>
}

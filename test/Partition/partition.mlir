// RUN: fusion-opt %s --split-input-file --fusion-partition | FileCheck %s --enable-var-scope
// Twice is once.
// RUN: fusion-opt %s --split-input-file --fusion-partition -o %t.once
// RUN: fusion-opt %s --split-input-file --fusion-partition --fusion-partition -o %t.twice
// RUN: diff %t.once %t.twice

// Data parallel: types are local, a sum over the batch is one collective right
// behind it, and a result that is cut says so.
// CHECK-LABEL: func.func @main
// CHECK-SAME:  (%[[X:.*]]: tensor<4x3xf32> {fusion.name = "x", fusion.sharding = [{{\[}}"dp"], []]}, %[[W:.*]]: tensor<3x2xf32>)
// CHECK-SAME:  -> (tensor<4x2xf32> {fusion.sharding = [{{\[}}"dp"], []]}, tensor<2xf32>) attributes {fusion.partitioned}
// CHECK-NEXT:  %[[Y:.*]] = fusion.matmul %[[X]], %[[W]] : tensor<4x3xf32>, tensor<3x2xf32>
// CHECK-NEXT:  %[[S:.*]] = fusion.reduce sum, %[[Y]] dims = [0] : tensor<4x2xf32>
// CHECK-NEXT:  %[[R:.*]] = fusion.all_reduce sum, %[[S]] on @mesh[dp] : tensor<2xf32>
// CHECK-NEXT:  return %[[Y]], %[[R]]
fusion.mesh @mesh(dp = 2)
func.func @main(%x: tensor<8x3xf32> {fusion.name = "x", fusion.sharding = [["dp"], []]}, %w: tensor<3x2xf32>) -> (tensor<8x2xf32>, tensor<2xf32>) {
  %0 = fusion.matmul %x, %w : tensor<8x3xf32>, tensor<3x2xf32>
  %1 = fusion.reduce sum, %0 dims = [0] : tensor<8x2xf32>
  return %0, %1 : tensor<8x2xf32>, tensor<2xf32>
}

// -----

// Tensor parallel: weights by columns, then by rows; the sum where it is used.
// CHECK-LABEL: func.func @main
// CHECK:       fusion.matmul {{.*}} : tensor<4x6xf32>, tensor<6x4xf32>
// CHECK-NEXT:  fusion.relu {{.*}} : tensor<4x4xf32>
// CHECK-NEXT:  %[[P:.*]] = fusion.matmul {{.*}} : tensor<4x4xf32>, tensor<4x6xf32>
// CHECK-NEXT:  %[[R:.*]] = fusion.all_reduce sum, %[[P]] on @m[tp] : tensor<4x6xf32>
// CHECK-NEXT:  fusion.add %[[R]], %{{.*}} : tensor<4x6xf32>
fusion.mesh @m(tp = 2)
func.func @main(%x: tensor<4x6xf32>, %a: tensor<6x8xf32> {fusion.sharding = [[], ["tp"]]}, %b: tensor<8x6xf32> {fusion.sharding = [["tp"], []]}) -> tensor<4x6xf32> {
  %0 = fusion.matmul %x, %a : tensor<4x6xf32>, tensor<6x8xf32>
  %1 = fusion.relu %0 : tensor<4x8xf32>
  %2 = fusion.matmul %1, %b : tensor<4x8xf32>, tensor<8x6xf32>
  %3 = fusion.add %2, %x : tensor<4x6xf32>
  return %3 : tensor<4x6xf32>
}

// -----

// 5 rows on 4 ranks: parts of 2, and the true shape is written down. What fills
// the last parts is no addend.
// CHECK-LABEL: func.func @main
// CHECK-SAME:  (%[[X:.*]]: tensor<2x3xf32> {fusion.global_shape = array<i64: 5, 3>, fusion.sharding = [{{\[}}"dp"], []]})
// CHECK-SAME:  tensor<2x3xf32> {fusion.global_shape = array<i64: 5, 3>, fusion.sharding = [{{\[}}"dp"], []]}
// CHECK-DAG:   %[[POS:.*]] = fusion.axis_index @mesh[dp]
// CHECK-DAG:   %[[E:.*]] = fusion.exp %[[X]]
// CHECK:       %[[IN:.*]] = fusion.compare lt
// CHECK:       %[[B:.*]] = fusion.broadcast %[[IN]] dims = [0]
// CHECK:       %[[M:.*]] = fusion.select %[[B]], %[[E]]
// CHECK:       fusion.reduce sum, %[[M]] dims = [0] : tensor<2x3xf32>
fusion.mesh @mesh(dp = 4)
func.func @main(%x: tensor<5x3xf32> {fusion.sharding = [["dp"], []]}) -> (tensor<5x3xf32>, tensor<3xf32>) {
  %0 = fusion.exp %x : tensor<5x3xf32>
  %1 = fusion.reduce sum, %0 dims = [0] : tensor<5x3xf32>
  return %0, %1 : tensor<5x3xf32>, tensor<3xf32>
}

// -----

// A mean divides by the number of all ranks' elements; a narrow one in f32.
// CHECK-LABEL: func.func @main
// CHECK:       %[[S:.*]] = fusion.reduce sum, %{{.*}} dims = [0] : tensor<4x3xf32>
// CHECK-NEXT:  %[[R:.*]] = fusion.all_reduce sum, %[[S]] on @mesh[dp] : tensor<3xf32>
// CHECK:       fusion.constant dense<8.000000e+00> : tensor<f32>
// CHECK:       %[[D:.*]] = fusion.div %[[R]]
// CHECK-NEXT:  fusion.cast %[[D]] : tensor<3xf32> to tensor<3xf16>
fusion.mesh @mesh(dp = 2)
func.func @main(%x: tensor<8x3xf16> {fusion.sharding = [["dp"], []]}) -> tensor<3xf16> {
  %0 = fusion.reduce mean, %x dims = [0] : tensor<8x3xf16>
  return %0 : tensor<3xf16>
}

// -----

// A softmax along the cut becomes its composition: the maximum and the sum cross
// the ranks, the rows do not.
// CHECK-LABEL: func.func @main
// CHECK-NOT:   fusion.all_gather
// CHECK:       fusion.all_reduce max, %{{.*}} on @mesh[tp] : tensor<4xf32>
// CHECK:       fusion.all_reduce sum, %{{.*}} on @mesh[tp] : tensor<4xf32>
// CHECK-NOT:   fusion.all_gather
fusion.mesh @mesh(tp = 2)
func.func @main(%x: tensor<4x6xf32> {fusion.sharding = [[], ["tp"]]}) -> tensor<4x6xf32> {
  %0 = fusion.softmax %x axis = 1 : tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// -----

// Two partial sums that meet are reduced once; a whole addend counts once.
// CHECK-LABEL: func.func @main
// CHECK:       %[[A:.*]] = fusion.reduce sum
// CHECK-NEXT:  %[[B:.*]] = fusion.reduce sum
// CHECK-NEXT:  %[[S:.*]] = fusion.add %[[A]], %[[B]]
// CHECK-NEXT:  fusion.all_reduce sum, %[[S]]
// CHECK-NOT:   fusion.all_reduce
fusion.mesh @mesh(dp = 2)
func.func @main(%x: tensor<8x3xf32> {fusion.sharding = [["dp"], []]}, %y: tensor<8x3xf32> {fusion.sharding = [["dp"], []]}) -> tensor<3xf32> {
  %0 = fusion.reduce sum, %x dims = [0] : tensor<8x3xf32>
  %1 = fusion.reduce sum, %y dims = [0] : tensor<8x3xf32>
  %2 = fusion.add %0, %1 : tensor<3xf32>
  return %2 : tensor<3xf32>
}

// -----

// Collectives by hand, and no sharding: a rank's program already.
// CHECK-LABEL: func.func @main(%{{.*}}: tensor<4xf32>) -> tensor<4xf32> {
// CHECK-NEXT:  fusion.all_reduce max, %{{.*}} on @mesh[dp] : tensor<4xf32>
// CHECK-NEXT:  return
fusion.mesh @mesh(dp = 2)
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = fusion.all_reduce max, %x on @mesh[dp] : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// An axis of one rank cuts nothing.
// CHECK-LABEL: func.func @main
// CHECK-SAME:  tensor<8x3xf32>
// CHECK-NEXT:  fusion.reduce sum
// CHECK-NEXT:  return
fusion.mesh @mesh(dp = 1)
func.func @main(%x: tensor<8x3xf32> {fusion.sharding = [["dp"], []]}) -> tensor<3xf32> {
  %0 = fusion.reduce sum, %x dims = [0] : tensor<8x3xf32>
  return %0 : tensor<3xf32>
}

// -----

// No mesh: one device.
// CHECK-LABEL: func.func @main(%{{.*}}: tensor<4xf32>) -> tensor<4xf32> {
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = fusion.relu %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// A sum over both axes that is finished for `max` is no addend over `tp` any more:
// beside one that still is, it counts on the first rank alone.
// CHECK-LABEL: func.func @main
// CHECK-DAG:   %[[POS:.*]] = fusion.axis_index @m[tp]
// CHECK-DAG:   %[[B:.*]] = fusion.all_reduce sum, %{{.*}} on @m[dp, tp] : tensor<f32>
// CHECK:       fusion.max %[[B]], %{{.*}}
// CHECK:       %[[A:.*]] = fusion.reduce sum
// CHECK:       %[[FIRST:.*]] = fusion.compare eq, %[[POS]]
// CHECK:       %[[ONCE:.*]] = fusion.select %[[FIRST]], %[[B]]
// CHECK-NEXT:  %[[N:.*]] = fusion.add %[[A]], %[[ONCE]]
// CHECK-NEXT:  fusion.all_reduce sum, %[[N]] on @m[tp]
fusion.mesh @m(dp = 2, tp = 3)
func.func @main(%p: tensor<3xf32> {fusion.sharding = [["tp"]]}, %q: tensor<6xf32> {fusion.sharding = [["dp", "tp"]]}, %r: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %0 = fusion.reduce sum, %q dims = [0] : tensor<6xf32>
  %1 = fusion.max %0, %r : tensor<f32>
  %2 = fusion.reduce sum, %p dims = [0] : tensor<3xf32>
  %3 = fusion.add %2, %0 : tensor<f32>
  return %1, %3 : tensor<f32>, tensor<f32>
}

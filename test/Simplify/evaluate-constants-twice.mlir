// What one walk replaces leaves constants to fewer readers, so that others fit
// the limit: the pass goes on until nothing more does, and a second run has nothing
// to do.
//
// RUN: fusion-opt %s --fusion-evaluate-constants=growth=0 -o %t.once
// RUN: FileCheck %s < %t.once
// RUN: fusion-opt %t.once --fusion-evaluate-constants=growth=0 -o %t.twice
// RUN: diff %t.once %t.twice
//
// The limit on the whole module holds for all runs together.
// RUN: fusion-opt %s --fusion-evaluate-constants="total-growth=20" --remarks-filter=fusion -o %t.total.once 2>&1 | FileCheck %s --check-prefix=TOTAL
// RUN: fusion-opt %t.total.once --fusion-evaluate-constants="total-growth=20" -o %t.total.twice
// RUN: diff %t.total.once %t.total.twice
// RUN: FileCheck %s --check-prefix=RECORD < %t.total.once
//
// Within all limits nothing is recorded.
// RUN: fusion-opt %s --fusion-evaluate-constants | FileCheck %s --check-prefix=FITS
// FITS-NOT: fusion.evaluated_bytes

// One of two negations fits the 20 bytes.
// TOTAL: [Missed] evaluate-constants {{.*}}adds 16 bytes, limit 65536 an op and 4 left in all
// RECORD: module attributes {{.*}}fusion.evaluated_bytes = 16 : i64
// RECORD-LABEL: func.func @total
// RECORD-COUNT-1: fusion.neg
// RECORD-NOT: fusion.neg
func.func @total() -> (tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>) {
  %c = fusion.constant dense<[1, 2, 3, 5]> : tensor<4xi32>
  %d = fusion.constant dense<[1, 2, 3, 6]> : tensor<4xi32>
  %0 = fusion.neg %c : tensor<4xi32>
  %1 = fusion.neg %d : tensor<4xi32>
  return %c, %d, %0, %1 : tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>
}

// The negation comes before the slice that leaves the constant to it.
// CHECK-LABEL: func.func @earlier_reader
// CHECK-NOT: fusion.neg
// CHECK: dense<[-1, -2, -3, -4]>
func.func @earlier_reader() -> (tensor<4xi32>, tensor<0xi32>) {
  %c = fusion.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
  %0 = fusion.neg %c : tensor<4xi32>
  %1 = fusion.slice %c starts = [0] limits = [0] strides = [1] : tensor<4xi32>
  return %0, %1 : tensor<4xi32>, tensor<0xi32>
}

// What the second value frees belongs to the first: three walks.
// CHECK-LABEL: func.func @backwards
// CHECK-NOT: fusion.abs
// CHECK: return
func.func @backwards() -> (tensor<4xi32>, tensor<4xi32>, tensor<0xi32>, tensor<0xi32>) {
  %c = fusion.constant dense<[1, -2, 3, 4]> : tensor<4xi32>
  %d = fusion.constant dense<[5, -6, 7, 8]> : tensor<4xi32>
  %0 = fusion.abs %c : tensor<4xi32>
  %1 = fusion.abs %d : tensor<4xi32>
  %2 = fusion.slice %1 starts = [0] limits = [0] strides = [1] : tensor<4xi32>
  %3 = fusion.gather %c, %2 axis = 0 : tensor<4xi32>, tensor<0xi32>
  %4 = fusion.slice %d starts = [0] limits = [0] strides = [1] : tensor<4xi32>
  return %0, %1, %3, %4 : tensor<4xi32>, tensor<4xi32>, tensor<0xi32>, tensor<0xi32>
}

// A constant that one op reads twice goes away with it.
// CHECK-LABEL: func.func @read_twice
// CHECK-NOT: fusion.mul
// CHECK: dense<[1, 4, 9, 16]>
func.func @read_twice() -> tensor<4xi32> {
  %c = fusion.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
  %0 = fusion.mul %c, %c : tensor<4xi32>
  return %0 : tensor<4xi32>
}

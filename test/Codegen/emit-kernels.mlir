// One kernel for each different group: which group gets which, and what groups are told.
// What a kernel of each kind looks like is in emit-loop.mlir and its neighbours.
// Distinct attributes, as alias scopes are, get new numbers in bytecode: no roundtrip.
// UNSUPPORTED: roundtrip
//
// RUN: fusion-opt %s --fusion-emit-kernels -split-input-file -o %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: fusion-opt %t.mlir --fusion-emit-kernels -split-input-file | diff - %t.mlir

// Equal bodies of equal types share a kernel, whatever their operands are called; another
// op, type or operand used twice is another one.
// CHECK-LABEL: func.func @main
// CHECK: fusion.group loop {{.*}} kernel @kernels::@[[ADD:k[0-9]+]] attributes
// CHECK: fusion.group loop {{.*}} kernel @kernels::@[[ADD]] attributes
// CHECK: fusion.group loop {{.*}} kernel @kernels::@[[SUB:k[0-9]+]] attributes
// CHECK: fusion.group loop {{.*}} kernel @kernels::@[[F64:k[0-9]+]] attributes
// CHECK: fusion.group loop {{.*}} kernel @kernels::@[[TWICE:k[0-9]+]] attributes
// Four kernels, each of a buffer list, the batch and a range of units: six elements.
// CHECK: func.func @[[ADD]](%{{.*}}: !llvm.ptr, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: i64) attributes {fusion.description = "loop: add", {{.*}}fusion.units = #fusion.extent<0 * B + 6>}
// CHECK: func.func @[[SUB]]({{.*}}fusion.description = "loop: sub"
// CHECK: func.func @[[F64]]({{.*}}fusion.description = "loop: add"
// CHECK: func.func @[[TWICE]]({{.*}}fusion.description = "loop: add"
// CHECK-NOT: func.func
func.func @main(%x: tensor<6xf32>, %y: tensor<6xf32>, %z: tensor<6xf64>) -> (tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf64>, tensor<6xf32>) {
  %0 = fusion.group loop (%a = %x : tensor<6xf32>, %b = %y : tensor<6xf32>) -> tensor<6xf32> {
    %1 = fusion.add %a, %b : tensor<6xf32>
    fusion.yield %1 : tensor<6xf32>
  }
  %2 = fusion.group loop (%c = %0 : tensor<6xf32>, %d = %x : tensor<6xf32>) -> tensor<6xf32> {
    %1 = fusion.add %c, %d : tensor<6xf32>
    fusion.yield %1 : tensor<6xf32>
  }
  %3 = fusion.group loop (%a = %x : tensor<6xf32>, %b = %y : tensor<6xf32>) -> tensor<6xf32> {
    %1 = fusion.sub %a, %b : tensor<6xf32>
    fusion.yield %1 : tensor<6xf32>
  }
  %4 = fusion.group loop (%a = %z : tensor<6xf64>) -> tensor<6xf64> {
    %1 = fusion.add %a, %a : tensor<6xf64>
    fusion.yield %1 : tensor<6xf64>
  }
  %5 = fusion.group loop (%a = %x : tensor<6xf32>) -> tensor<6xf32> {
    %1 = fusion.add %a, %a : tensor<6xf32>
    fusion.yield %1 : tensor<6xf32>
  }
  return %0, %2, %3, %4, %5 : tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf64>, tensor<6xf32>
}

// RUN: fusion-opt %s --fusion-split-groups=device=h200 --remarks-filter=fusion -o %t.out 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: FileCheck %s < %t.out
// RUN: fusion-opt %t.out --fusion-split-groups=device=h200 | FileCheck %s

// 256 threads have 128 elements of a row each, and half of them under way: 64
// sums of two registers, and 16 for the rest. Two blocks: 144 * 512 of 64K. The
// sum alone needs as much, so that the squares would be written for nothing.
// REMARK-NOT: split_at
// REMARK: [Failure] registers-unit | {{.*}}kind=row_reduce, limit=65536, value=73728
// REMARK-NOT: {{split_at|Failure}}

// CHECK-LABEL: func.func @squares
// CHECK: fusion.group row_reduce
// CHECK-NEXT: fusion.cast
// CHECK-NEXT: fusion.mul
// CHECK-NEXT: fusion.reduce sum
// CHECK-NOT: fusion.group
// CHECK: return
func.func @squares(%x: tensor<72x32768xf32>) -> tensor<72xf64> {
  %g = fusion.group row_reduce (%a = %x : tensor<72x32768xf32>) -> tensor<72xf64> {
    %0 = fusion.cast %a : tensor<72x32768xf32> to tensor<72x32768xf64>
    %1 = fusion.mul %0, %0 : tensor<72x32768xf64>
    %2 = fusion.reduce sum, %1 dims = [1] : tensor<72x32768xf64>
    fusion.yield %2 : tensor<72xf64>
  }
  return %g : tensor<72xf64>
}

// A row of half the length: 32 sums of two registers, and nothing is exceeded.
// CHECK-LABEL: func.func @boundary
// CHECK: fusion.group row_reduce
// CHECK-NEXT: fusion.cast
// CHECK-NOT: fusion.group
// CHECK: return
func.func @boundary(%x: tensor<144x16384xf32>) -> tensor<144xf64> {
  %g = fusion.group row_reduce (%a = %x : tensor<144x16384xf32>) -> tensor<144xf64> {
    %0 = fusion.cast %a : tensor<144x16384xf32> to tensor<144x16384xf64>
    %1 = fusion.mul %0, %0 : tensor<144x16384xf64>
    %2 = fusion.reduce sum, %1 dims = [1] : tensor<144x16384xf64>
    fusion.yield %2 : tensor<144xf64>
  }
  return %g : tensor<144xf64>
}

// Times are worked out by hand from costs.json: 65536 elements of 4 bytes fill
// 64 blocks, more than the 50 that saturate the memory; of 256 rows with 32
// threads each there are 32. What an earlier kernel wrote is in the cache, four
// times as fast.
//
// RUN: fusion-opt %s --fusion-print-costs=device=%S/Inputs/costs.json -o /dev/null | FileCheck %s
// RUN: fusion-opt %s --fusion-print-costs="device=%S/Inputs/costs.json file=%t.json" -o /dev/null
// RUN: FileCheck %s < %t.json

// CHECK: "device": "costs"
// A run's 3, 2 + 1 + 0.524288 / 0.5 and 2 + 4 + 0.06656 / 0.25 / (32 / 50).
// CHECK: "name": "chain",
// CHECK-NEXT: "us": 13.4645{{.*}},
// CHECK: "kind": "loop",
// CHECK-NEXT: "class": "loop",
// CHECK-NEXT: "us": 4.04857{{.*}},
// CHECK-NEXT: "memory_bytes": 524288,
// CHECK-NEXT: "cached_bytes": 0,
// CHECK-NEXT: "reread_bytes": 0,
// CHECK-NEXT: "spilled_bytes": 0,
// CHECK-NEXT: "blocks": 64,
// CHECK-NEXT: "flops": {
// CHECK-NEXT: "vector_flops.f32": 65536
// CHECK: "kind": "row_reduce",
// CHECK-NEXT: "class": "row_reduce",
// CHECK-NEXT: "us": 6.416{{.*}},
// CHECK-NEXT: "memory_bytes": 1024,
// CHECK-NEXT: "cached_bytes": 262144,
func.func @chain(%x: tensor<256x256xf32>) -> tensor<256xf32> {
  %0 = fusion.group loop (%a = %x : tensor<256x256xf32>) -> tensor<256x256xf32> {
    %2 = fusion.neg %a : tensor<256x256xf32>
    fusion.yield %2 : tensor<256x256xf32>
  }
  %1 = fusion.group row_reduce (%a = %0 : tensor<256x256xf32>) -> tensor<256xf32> {
    %2 = fusion.reduce sum, %a dims = [1] : tensor<256x256xf32>
    fusion.yield %2 : tensor<256xf32>
  }
  return %1 : tensor<256xf32>
}

// Columns, a transpose in a loop, and a product with what follows it have
// classes of their own; a view is no kernel, an op in no group is one.
// CHECK: "name": "classes",
// CHECK: "class": "column_reduce",
// CHECK: "class": "transpose",
// CHECK: "kind": "matmul",
// CHECK-NEXT: "class": "product",
// CHECK-NOT: "class"
func.func @classes(%x: tensor<256x256xf32>) -> (tensor<256xf32>, tensor<256x256xf32>, tensor<65536xf32>) {
  %0 = fusion.group column_reduce (%a = %x : tensor<256x256xf32>) -> tensor<256xf32> {
    %5 = fusion.neg %a : tensor<256x256xf32>
    %6 = fusion.reduce sum, %5 dims = [0] : tensor<256x256xf32>
    fusion.yield %6 : tensor<256xf32>
  }
  %1 = fusion.group loop (%a = %x : tensor<256x256xf32>) -> tensor<256x256xf32> {
    %5 = fusion.transpose %a permutation = [1, 0] : tensor<256x256xf32>
    %6 = fusion.neg %5 : tensor<256x256xf32>
    fusion.yield %6 : tensor<256x256xf32>
  }
  %2 = fusion.matmul %x, %1 : tensor<256x256xf32>, tensor<256x256xf32>
  %3 = fusion.reshape %2 : tensor<256x256xf32> to tensor<65536xf32>
  return %0, %1, %3 : tensor<256xf32>, tensor<256x256xf32>, tensor<65536xf32>
}

// What a scatter gives in f32 is narrowed in its kernel, where a GPU can.
//
// RUN: fusion-opt %s -split-input-file --pass-pipeline='builtin.module(func.func(fusion-fuse-vertical{device=h200}))' --remarks-filter=fusion -o %t.mlir 2>%t.remarks
// RUN: FileCheck %s --enable-var-scope < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.remarks

// Two read the narrow values, and neither the wide ones.
// CHECK-LABEL: func.func @accepted
// CHECK: %[[S:.*]] = fusion.group scatter {{.*}} -> tensor<4096x64xbf16>
// CHECK: fusion.scatter add
// CHECK-NEXT: %[[N:.*]] = fusion.cast {{.*}} : tensor<4096x64xf32> to tensor<4096x64xbf16>
// CHECK-NEXT: fusion.yield %[[N]]
// CHECK: fusion.group row_reduce ({{.*}} = %[[S]] : tensor<4096x64xbf16>
// CHECK: fusion.group loop ({{.*}} = %[[S]] : tensor<4096x64xbf16>
// REMARK: [Passed] fuse-scatter-result | {{.*}}consumer=fusion.cast, {{.*}}producer=fusion.scatter
module attributes {fusion.target = "cuda"} {
  func.func @accepted(%z: tensor<4096x64xf32>, %i: tensor<65536x1xi64>, %u: tensor<65536x64xf32>, %y: tensor<4096x64xbf16>) -> (tensor<4096xf32>, tensor<4096x64xbf16>) {
    %s = fusion.scatter add, %z, %i, %u : tensor<4096x64xf32>, tensor<65536x1xi64>, tensor<65536x64xf32>
    %n = fusion.cast %s : tensor<4096x64xf32> to tensor<4096x64xbf16>
    %w = fusion.cast %n : tensor<4096x64xbf16> to tensor<4096x64xf32>
    %q = fusion.mul %w, %w : tensor<4096x64xf32>
    %r = fusion.reduce sum, %q dims = [1] : tensor<4096x64xf32>
    %a = fusion.add %n, %y : tensor<4096x64xbf16>
    return %r, %a : tensor<4096xf32>, tensor<4096x64xbf16>
  }
}

// -----

// Somebody reads the sum in f32.
// CHECK-LABEL: func.func @wide
// CHECK: fusion.group scatter {{.*}} -> tensor<8x64xf32>
// REMARK: [Missed] scatter-result | {{.*}}consumer=fusion.cast, {{.*}}producer=fusion.scatter
module attributes {fusion.target = "cuda"} {
  func.func @wide(%z: tensor<8x64xf32>, %i: tensor<5x1xi64>, %u: tensor<5x64xf32>) -> (tensor<8x64xbf16>, tensor<8x64xf32>) {
    %s = fusion.scatter add, %z, %i, %u : tensor<8x64xf32>, tensor<5x1xi64>, tensor<5x64xf32>
    %n = fusion.cast %s : tensor<8x64xf32> to tensor<8x64xbf16>
    return %n, %s : tensor<8x64xbf16>, tensor<8x64xf32>
  }
}

// -----

// One update more than a number of a note can tell.
// CHECK-LABEL: func.func @many
// CHECK: fusion.group scatter {{.*}} -> tensor<8x64xf32>
// REMARK: [Missed] scatter-result
module attributes {fusion.target = "cuda"} {
  func.func @many(%z: tensor<8x64xf32>, %i: tensor<65537x1xi64>, %u: tensor<65537x64xf32>) -> tensor<8x64xbf16> {
    %s = fusion.scatter add, %z, %i, %u : tensor<8x64xf32>, tensor<65537x1xi64>, tensor<65537x64xf32>
    %n = fusion.cast %s : tensor<8x64xf32> to tensor<8x64xbf16>
    return %n : tensor<8x64xbf16>
  }
}

// -----

// The batch decides how many updates there are.
// CHECK-LABEL: func.func @batch
// CHECK: fusion.group scatter {{.*}} -> tensor<8x64xf32>
// REMARK: [Missed] scatter-result
module attributes {fusion.target = "cuda"} {
  func.func @batch(%z: tensor<8x64xf32>, %i: tensor<?x1xi64>, %u: tensor<?x64xf32>) -> tensor<8x64xbf16> attributes {fusion.batch = array<i64: 1, 8>} {
    %s = fusion.scatter add, %z, %i, %u : tensor<8x64xf32>, tensor<?x1xi64>, tensor<?x64xf32>
    %n = fusion.cast %s : tensor<8x64xf32> to tensor<8x64xbf16>
    return %n : tensor<8x64xbf16>
  }
}

// -----

// f64 is added in f64.
// CHECK-LABEL: func.func @double
// CHECK: fusion.group scatter {{.*}} -> tensor<8x64xf64>
// REMARK: [Missed] scatter-result
module attributes {fusion.target = "cuda"} {
  func.func @double(%z: tensor<8x64xf64>, %i: tensor<5x1xi64>, %u: tensor<5x64xf64>) -> tensor<8x64xf32> {
    %s = fusion.scatter add, %z, %i, %u : tensor<8x64xf64>, tensor<5x1xi64>, tensor<5x64xf64>
    %n = fusion.cast %s : tensor<8x64xf64> to tensor<8x64xf32>
    return %n : tensor<8x64xf32>
  }
}

// -----

// A kernel of the CPU adds in the output's bytes.
// CHECK-LABEL: func.func @cpu
// CHECK: fusion.group scatter {{.*}} -> tensor<8x64xf32>
// REMARK: [Missed] scatter-result
func.func @cpu(%z: tensor<8x64xf32>, %i: tensor<5x1xi64>, %u: tensor<5x64xf32>) -> tensor<8x64xbf16> {
  %s = fusion.scatter add, %z, %i, %u : tensor<8x64xf32>, tensor<5x1xi64>, tensor<5x64xf32>
  %n = fusion.cast %s : tensor<8x64xf32> to tensor<8x64xbf16>
  return %n : tensor<8x64xbf16>
}

// -----

// What follows the narrow values stays out.
// CHECK-LABEL: func.func @behind
// CHECK: fusion.group scatter {{.*}} -> tensor<8x64xbf16>
// CHECK: fusion.group loop
// CHECK-NEXT: fusion.neg
// REMARK: [Missed] scatter-op | {{.*}}consumer=fusion.neg
module attributes {fusion.target = "cuda"} {
  func.func @behind(%z: tensor<8x64xf32>, %i: tensor<5x1xi64>, %u: tensor<5x64xf32>) -> tensor<8x64xbf16> {
    %s = fusion.scatter add, %z, %i, %u : tensor<8x64xf32>, tensor<5x1xi64>, tensor<5x64xf32>
    %n = fusion.cast %s : tensor<8x64xf32> to tensor<8x64xbf16>
    %r = fusion.neg %n : tensor<8x64xbf16>
    return %r : tensor<8x64xbf16>
  }
}

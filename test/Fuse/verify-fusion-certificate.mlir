// Groups that compute what the function @before does; what they must not do is in
// verify-fusion-certificate-invalid.mlir.
//
// RUN: fusion-opt %s --fusion-verify-fusion-certificate=against=before -split-input-file -o %t.mlir
// Nothing is changed, so the second time is the first.
// RUN: fusion-opt %s -split-input-file | diff - %t.mlir
// Without a record or a function to compare with only the groups are looked at.
// RUN: fusion-opt %s --fusion-verify-fusion-certificate -split-input-file -o /dev/null

// Ops in other groups, in another order, and a cheap one that both compute.
func.func @before(%x: tensor<4xbf16>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0:2 = fusion.group loop (%a = %x : tensor<4xbf16>) -> (tensor<4xf32>, tensor<4xf32>) {
    %1 = fusion.cast %a : tensor<4xbf16> to tensor<4xf32>
    %2 = fusion.exp %1 : tensor<4xf32>
    %3 = fusion.neg %1 : tensor<4xf32>
    fusion.yield %2, %3 : tensor<4xf32>, tensor<4xf32>
  }
  return %0#0, %0#1 : tensor<4xf32>, tensor<4xf32>
}
func.func @main(%x: tensor<4xbf16>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = fusion.group loop (%a = %x : tensor<4xbf16>) -> tensor<4xf32> {
    %1 = fusion.cast %a : tensor<4xbf16> to tensor<4xf32>
    %2 = fusion.neg %1 : tensor<4xf32>
    fusion.yield %2 : tensor<4xf32>
  }
  %3 = fusion.group loop (%a = %x : tensor<4xbf16>) -> tensor<4xf32> {
    %1 = fusion.cast %a : tensor<4xbf16> to tensor<4xf32>
    %2 = fusion.exp %1 : tensor<4xf32>
    fusion.yield %2 : tensor<4xf32>
  }
  return %3, %0 : tensor<4xf32>, tensor<4xf32>
}

// -----

// Of rank 0, empty, and of a size that depends on the batch.
func.func @before(%x: tensor<f32>, %y: tensor<0x3xf32>, %z: tensor<?xf32>) -> (tensor<f32>, tensor<0x3xf32>, tensor<?xf32>) attributes {fusion.batch = array<i64: 1, 8>} {
  %0 = fusion.group loop (%a = %x : tensor<f32>) -> tensor<f32> {
    %1 = fusion.neg %a : tensor<f32>
    fusion.yield %1 : tensor<f32>
  }
  %2 = fusion.group loop (%a = %y : tensor<0x3xf32>) -> tensor<0x3xf32> {
    %1 = fusion.neg %a : tensor<0x3xf32>
    fusion.yield %1 : tensor<0x3xf32>
  }
  %3 = fusion.group loop (%a = %z : tensor<?xf32>) -> tensor<?xf32> {
    %1 = fusion.neg %a : tensor<?xf32>
    fusion.yield %1 : tensor<?xf32>
  }
  return %0, %2, %3 : tensor<f32>, tensor<0x3xf32>, tensor<?xf32>
}
func.func @main(%x: tensor<f32>, %y: tensor<0x3xf32>, %z: tensor<?xf32>) -> (tensor<f32>, tensor<0x3xf32>, tensor<?xf32>) attributes {fusion.batch = array<i64: 1, 8>} {
  %3 = fusion.group loop (%a = %z : tensor<?xf32>) -> tensor<?xf32> {
    %1 = fusion.neg %a : tensor<?xf32>
    fusion.yield %1 : tensor<?xf32>
  }
  %2 = fusion.group loop (%a = %y : tensor<0x3xf32>) -> tensor<0x3xf32> {
    %1 = fusion.neg %a : tensor<0x3xf32>
    fusion.yield %1 : tensor<0x3xf32>
  }
  %0 = fusion.group loop (%a = %x : tensor<f32>) -> tensor<f32> {
    %1 = fusion.neg %a : tensor<f32>
    fusion.yield %1 : tensor<f32>
  }
  return %0, %2, %3 : tensor<f32>, tensor<0x3xf32>, tensor<?xf32>
}

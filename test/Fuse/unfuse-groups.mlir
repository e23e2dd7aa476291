// RUN: fusion-opt %s --fusion-unfuse-groups | FileCheck %s
// RUN: fusion-opt %s --fusion-unfuse-groups --fusion-fuse-vertical --fusion-verify-fusion-certificate | FileCheck %s --check-prefix=AGAIN

// Groups come apart, and nested ones with them.

// CHECK-LABEL: func.func @two
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>)
// CHECK-NEXT: %[[E:.*]] = fusion.exp %[[X]]
// CHECK-NEXT: %[[N:.*]] = fusion.neg %[[E]]
// CHECK-NEXT: return %[[N]]
// AGAIN-LABEL: func.func @two
// AGAIN-COUNT-1: fusion.group loop
// AGAIN-NOT: fusion.group
func.func @two(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
    %1 = fusion.exp %a : tensor<4xf32>
    fusion.yield %1 : tensor<4xf32>
  }
  %2 = fusion.group loop (%a = %0 : tensor<4xf32>) -> tensor<4xf32> {
    %3 = fusion.neg %a : tensor<4xf32>
    fusion.yield %3 : tensor<4xf32>
  }
  return %2 : tensor<4xf32>
}

// AGAIN-LABEL: func.func @nested
// CHECK-LABEL: func.func @nested
// CHECK-NEXT: fusion.exp
// CHECK-NEXT: fusion.neg
// CHECK-NEXT: return
func.func @nested(%x: tensor<4xf32>, %y: tensor<8xf32>) -> (tensor<4xf32>, tensor<8xf32>) {
  %0:2 = fusion.group horizontal (%a = %x : tensor<4xf32>, %b = %y : tensor<8xf32>) -> (tensor<4xf32>, tensor<8xf32>) {
    %1 = fusion.group loop (%c = %a : tensor<4xf32>) -> tensor<4xf32> {
      %3 = fusion.exp %c : tensor<4xf32>
      fusion.yield %3 : tensor<4xf32>
    }
    %2 = fusion.group loop (%c = %b : tensor<8xf32>) -> tensor<8xf32> {
      %4 = fusion.neg %c : tensor<8xf32>
      fusion.yield %4 : tensor<8xf32>
    }
    fusion.yield %1, %2 : tensor<4xf32>, tensor<8xf32>
  }
  return %0#0, %0#1 : tensor<4xf32>, tensor<8xf32>
}

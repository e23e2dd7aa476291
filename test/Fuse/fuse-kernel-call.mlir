// RUN: fusion-opt %s --fusion-fuse -split-input-file | FileCheck %s
// RUN: fusion-opt %s --fusion-fuse --remarks-filter=fusion -split-input-file -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// A user's kernel is a group of its own: nothing joins it, and it reads all its
// operands from memory, a splat too.

// REMARK: [Missed] no-emitter | {{.*}}at=fusion.kernel_call, {{.*}}consumer=fusion.kernel_call, producer=fusion.exp
// REMARK: [Missed] no-emitter | {{.*}}at=fusion.kernel_call, {{.*}}consumer=fusion.neg, producer=fusion.kernel_call
// CHECK-LABEL: func.func @alone
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>)
// CHECK: %[[TWO:.*]] = fusion.constant
// CHECK: %[[E:.*]] = fusion.group loop
// CHECK: %[[K:.*]]:2 = fusion.group fallback (%[[A:.*]] = %[[E]] : tensor<4xf32>, %[[B:.*]] = %[[TWO]] : tensor<4xf32>) -> (tensor<4xf32>, tensor<i32>)
// CHECK-NEXT: %[[R:.*]]:2 = fusion.kernel_call "c" "f" "text"(%[[A]], %[[B]])
// CHECK-NEXT: fusion.yield %[[R]]#0, %[[R]]#1
// CHECK: fusion.group loop ({{.*}} = %[[K]]#0
func.func @alone(%x: tensor<4xf32>) -> tensor<4xf32> {
  %two = fusion.constant dense<2.0> : tensor<4xf32>
  %0 = fusion.exp %x : tensor<4xf32>
  %1:2 = fusion.kernel_call "c" "f" "text" (%0, %two) flops = 1 bytes = 1 : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<i32>)
  %2 = fusion.neg %1#0 : tensor<4xf32>
  return %2 : tensor<4xf32>
}

// -----

// Kernels with effects stay, in order, unread or without results; a pure one
// that nothing reads goes.

// CHECK-LABEL: func.func @effects
// CHECK-NOT: "dropped"
// CHECK: fusion.kernel_call "c" "first"
// CHECK-NEXT: fusion.yield{{$}}
// CHECK: fusion.kernel_call "c" "second"
// CHECK-NEXT: fusion.yield %{{.*}} : tensor<4xf32>
// CHECK: fusion.kernel_call "c" "third"
func.func @effects(%x: tensor<4xf32>) -> tensor<4xf32> {
  fusion.kernel_call "c" "first" "t" (%x) flops = 1 bytes = 1 {side_effects} : (tensor<4xf32>) -> ()
  %0 = fusion.kernel_call "c" "second" "t" (%x) flops = 1 bytes = 1 {side_effects} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = fusion.kernel_call "c" "dropped" "t" (%x) flops = 1 bytes = 1 : (tensor<4xf32>) -> tensor<4xf32>
  %2 = fusion.kernel_call "c" "third" "t" () flops = 1 bytes = 1 {side_effects} : () -> tensor<4xf32>
  return %2 : tensor<4xf32>
}

// -----

// Equal calls of other values are no launch together.

// REMARK: [Missed] no-emitter
// CHECK-LABEL: func.func @apart
// CHECK-NOT: fusion.group horizontal
// CHECK-COUNT-2: fusion.group fallback
func.func @apart(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = fusion.kernel_call "c" "f" "t" (%x) flops = 1 bytes = 1 : (tensor<4xf32>) -> tensor<4xf32>
  %1 = fusion.kernel_call "c" "f" "t" (%y) flops = 1 bytes = 1 : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

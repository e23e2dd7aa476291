// REQUIRES: fusion-compile, test-plugins
// RUN: fusion-compile %s --plugin=%fusion_build/test/plugins/TestCostModels.so --cost-model=test-endless --emit-plan=%t.json -o %t.fsn
// RUN: FileCheck %s < %t.json
// RUN: fusion-compile %s --plugin=%fusion_build/test/plugins/TestCostModels.so --cost-model=test-endless --plan=%t.json --plan-strict -o %t.again.fsn
// RUN: cmp %t.fsn %t.again.fsn

// Times that are no numbers, infinite (32 bytes and the like) or not a number
// (512 bytes and more), have no place in JSON: a plan has none, and is read back.

// CHECK: "kind": "loop"
// CHECK-NOT: {{-us|nan|inf}}
func.func @main(%a: tensor<4xf32>, %b: tensor<64xf32>) -> (tensor<4xf32>, tensor<64xf32>) {
  %0 = fusion.exp %a : tensor<4xf32>
  %1 = fusion.tanh %0 : tensor<4xf32>
  %2 = fusion.tanh %b : tensor<64xf32>
  return %1, %2 : tensor<4xf32>, tensor<64xf32>
}

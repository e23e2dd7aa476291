// The limit counts what an op adds to the module, less the constants that go
// away with it.
//
// RUN: fusion-opt %s --fusion-evaluate-constants=growth=12 --remarks-filter=fusion 2>&1 | FileCheck %s

// Of equal parameters of 16 bytes one is still read: its negation would add
// them all. The other's absolute value takes its place. The difference of
// two parameters is smaller than what it frees.
// CHECK: remark: [Missed] evaluate-constants {{.*}}"evaluating fusion.neg adds 16 bytes, limit 12 an op and 16777216 left in all"
// CHECK-NOT: remark: [Missed]
// CHECK-LABEL: func @growth
// CHECK: fusion.neg
// CHECK-DAG: dense<[4, 3, 2, 1]> : tensor<4xi32>
// CHECK-DAG: dense<[2, 1, 0, 4]> : tensor<4xi32>
// CHECK-NOT: fusion.abs
fusion.parameter @kept const value dense<[1, 2, 3, 4]> : tensor<4xi32> : tensor<4xi32>
fusion.parameter @freed const value dense<[-4, -3, -2, -1]> : tensor<4xi32> : tensor<4xi32>
fusion.parameter @a const value dense<[3, 3, 3, 8]> : tensor<4xi32> : tensor<4xi32>
fusion.parameter @b const value dense<[1, 2, 3, 4]> : tensor<4xi32> : tensor<4xi32>
func.func @growth() -> (tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>) {
  %p = fusion.get_parameter @kept : tensor<4xi32>
  %n = fusion.neg %p : tensor<4xi32>
  %q = fusion.get_parameter @freed : tensor<4xi32>
  %m = fusion.abs %q : tensor<4xi32>
  %a = fusion.get_parameter @a : tensor<4xi32>
  %b = fusion.get_parameter @b : tensor<4xi32>
  %d = fusion.sub %a, %b : tensor<4xi32>
  return %n, %p, %m, %d : tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>
}

// RUN: fusion-opt %s --fusion-emit-kernels -split-input-file | FileCheck %s
// RUN: fusion-opt %s --fusion-codegen="cpu=x86-64-v3" -split-input-file | FileCheck %s --check-prefix=LOWERED

// The kernel passes pointers in the op's order, an input twice if the op does,
// and the batch; the declaration says what to compile.

// CHECK-LABEL: func.func @twice
// CHECK: kernel @kernels::@k0
// CHECK: module @kernels
// CHECK: func.func @k0(%[[BUFFERS:.*]]: !llvm.ptr, %[[BATCH:.*]]: i64, %{{.*}}: i64, %{{.*}}: i64)
// CHECK-SAME: fusion.description = "fallback: kernel_call scale"
// CHECK-SAME: fusion.units = #fusion.extent<0 * B + 1>
// CHECK: %[[P0:.*]] = llvm.getelementptr %[[BUFFERS]][0]
// CHECK: %[[X:.*]] = llvm.load %[[P0]]
// CHECK: %[[P1:.*]] = llvm.getelementptr %[[BUFFERS]][1]
// CHECK: %[[Y:.*]] = llvm.load %[[P1]]
// CHECK: llvm.call @[[USER:user_scale_[0-9a-f]+]](%[[X]], %[[X]], %[[Y]], %[[BATCH]])
// CHECK: llvm.func @[[USER]](!llvm.ptr, !llvm.ptr, !llvm.ptr, i64)
// CHECK-SAME: entry = "scale", prototype = "void scale(const float *, const float *, fusion_f16 *, int64_t)", pure, source = "text"
// LOWERED: llvm.func @k0
// LOWERED: llvm.call @user_scale_
// LOWERED: llvm.func @user_scale_{{.*}}dso_local, fusion.user_kernel
func.func @twice(%x: tensor<4xf32>) -> tensor<4xf16> {
  %0 = fusion.group fallback (%a = %x : tensor<4xf32>) -> tensor<4xf16> {
    %1 = fusion.kernel_call "c" "scale" "text" (%a, %a) flops = 1 bytes = 1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf16>
    fusion.yield %1 : tensor<4xf16>
  }
  return %0 : tensor<4xf16>
}

// -----

// Two functions of one source, and one of another with a name of the first.
// What is never called without effects is not pure.

// CHECK-LABEL: func.func @names
// CHECK-DAG: llvm.func @user_f_[[A:[0-9a-f]+]](!llvm.ptr, i64) {{.*}}entry = "f", prototype = "void f(const float *, int64_t)", source = "one"
// CHECK-DAG: llvm.func @user_g_[[A]](!llvm.ptr, i64) {{.*}}pure, source = "one"
// CHECK-DAG: llvm.func @user_f_{{[0-9a-f]+}}(!llvm.ptr, i64) {{.*}}pure, source = "two"
func.func @names(%x: tensor<4xf32>) {
  fusion.group fallback (%a = %x : tensor<4xf32>) {
    fusion.kernel_call "c" "f" "one" (%a) flops = 1 bytes = 1 {side_effects} : (tensor<4xf32>) -> ()
    fusion.yield
  }
  %3 = fusion.group fallback () -> tensor<4xf32> {
    %1 = fusion.kernel_call "c" "g" "one" () flops = 1 bytes = 1 {side_effects} : () -> tensor<4xf32>
    fusion.yield %1 : tensor<4xf32>
  }
  %0 = fusion.group fallback () -> tensor<4xf32> {
    %1 = fusion.kernel_call "c" "f" "two" () flops = 1 bytes = 1 : () -> tensor<4xf32>
    fusion.yield %1 : tensor<4xf32>
  }
  %2 = fusion.group fallback () -> tensor<4xf32> {
    %1 = fusion.kernel_call "c" "g" "one" () flops = 1 bytes = 1 : () -> tensor<4xf32>
    fusion.yield %1 : tensor<4xf32>
  }
  return
}

// An f16 function computed in f64 rounds to f32, then to f16. Instruction
// selection must not merge the two roundings: it changes bits, and needs a
// function that no module has.
// RUN: fusion-opt %s --fusion-codegen=cpu=x86-64-v4 | FileCheck %s
// RUN: fusion-compile %s -o %t.fsn
// A second run adds no second fence. Named by its path, the tool does not check the
// round trip of what it reads: LLVM's alias scopes are not the same after bytecode.
// RUN: fusion-opt %s --fusion-codegen=cpu=x86-64-v4 -o %t.once
// RUN: %fusion_tools/fusion-opt %t.once --fusion-codegen=cpu=x86-64-v4 -o %t.twice
// RUN: diff %t.once %t.twice

// CHECK: %[[ROUNDED:.*]] = llvm.fptrunc %{{.*}} : f64 to f32
// CHECK-NEXT: %[[FENCED:.*]] = llvm.call_intrinsic "llvm.arithmetic.fence"(%[[ROUNDED]])
// CHECK-NEXT: llvm.fptrunc %[[FENCED]] : f32 to f16
func.func @main(%a: tensor<4x3xf16>, %b: tensor<3xf16>) -> (tensor<4x3xf16>, tensor<4x3xf16>) {
  %0:2 = fusion.group loop (%x = %a : tensor<4x3xf16>, %y = %b : tensor<3xf16>) -> (tensor<4x3xf16>, tensor<4x3xf16>) {
    %1 = fusion.broadcast %y dims = [1] : tensor<3xf16> to tensor<4x3xf16>
    %2 = fusion.exp %x : tensor<4x3xf16>
    %3 = fusion.compare lt, %x, %2 : tensor<4x3xf16>
    %4 = fusion.select %3, %x, %2 : tensor<4x3xi1>, tensor<4x3xf16>
    %5 = fusion.tanh %2 : tensor<4x3xf16>
    %6 = fusion.min %5, %1 : tensor<4x3xf16>
    fusion.yield %4, %6 : tensor<4x3xf16>, tensor<4x3xf16>
  }
  return %0#0, %0#1 : tensor<4x3xf16>, tensor<4x3xf16>
}

// RUN: fusion-opt %s --fusion-emit-kernels --fusion-lower-kernels=features=sse4.1,f16c | FileCheck %s
// RUN: fusion-opt %s --fusion-emit-kernels --fusion-lower-kernels | FileCheck %s --check-prefix=BASE
// RUN: fusion-opt %s --fusion-emit-kernels --fusion-lower-kernels=features=fma | FileCheck %s --check-prefix=FMA

// Functions of libm are called through one array; exp is arithmetic; what the CPU
// lacks is arithmetic too. Polynomials take fused steps where the CPU has them.

func.func @main(%x: tensor<4xf16>, %y: tensor<4xf64>) -> (tensor<4xf16>, tensor<4xf64>) {
  %r = fusion.group loop (%a = %x : tensor<4xf16>) -> tensor<4xf16> {
    %0 = fusion.floor %a : tensor<4xf16>
    %1 = fusion.exp %0 : tensor<4xf16>
    fusion.yield %1 : tensor<4xf16>
  }
  %s = fusion.group loop (%a = %y : tensor<4xf64>) -> tensor<4xf64> {
    %0 = fusion.sin %a : tensor<4xf64>
    %1 = fusion.pow %0, %a : tensor<4xf64>
    %2 = fusion.sin %1 : tensor<4xf64>
    fusion.yield %2 : tensor<4xf64>
  }
  return %r, %s : tensor<4xf16>, tensor<4xf64>
}

// CHECK: module @kernels attributes {{.*}}fusion.imports = {{\[\[}}"sin", "f64(f64)"], ["pow", "f64(f64,f64)"]]
// CHECK: llvm.mlir.global external @fusion_imports() {{.*}}!llvm.array<2 x ptr>
// CHECK: llvm.func @k0(%{{.*}}: !llvm.ptr, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: i64)
// CHECK-SAME: fusion.units
// CHECK: llvm.fpext %{{.*}} : f16 to f32
// CHECK: llvm.intr.floor
// CHECK-NOT: llvm.intr.exp
// CHECK: llvm.func @k1
// CHECK: llvm.mlir.addressof @fusion_imports

// BASE: llvm.func @k0
// BASE-NOT: f16 to f32
// BASE-NOT: llvm.intr.floor
// BASE-NOT: llvm.intr.fma
// BASE: llvm.func @k1

// FMA: llvm.func @k0
// FMA: llvm.intr.fma(%{{.*}}) : (f64, f64, f64) -> f64
// FMA: llvm.func @k1

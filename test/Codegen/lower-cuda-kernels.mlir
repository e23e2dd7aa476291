// RUN: fusion-opt %s -split-input-file --fusion-lower-kernels=target=cuda | FileCheck %s

// Without groups each kernel has an entry, which calls the body. What kernels
// call of each other is the body.
module @kernels {
  func.func @k0(%buffers: !llvm.ptr, %batch: i64, %block: i64) attributes {
      fusion.units = #fusion.extent<0 * B + 8>, fusion.grain = 1 : i64,
      fusion.threads = 64 : i64, fusion.operands = 2 : i64,
      fusion.description = "loop: exp"} {
    %from = llvm.load %buffers : !llvm.ptr -> !llvm.ptr
    %slot = llvm.getelementptr %buffers[1] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
    %to = llvm.load %slot : !llvm.ptr -> !llvm.ptr
    %x = llvm.load %from : !llvm.ptr -> vector<2xbf16>
    %w = arith.extf %x : vector<2xbf16> to vector<2xf32>
    %e = math.exp %w : vector<2xf32>
    %m = arith.maximumf %e, %w : vector<2xf32>
    %s = math.sqrt %m : vector<2xf32>
    %r = arith.truncf %s : vector<2xf32> to vector<2xbf16>
    llvm.store %r, %to : vector<2xbf16>, !llvm.ptr
    return
  }
  func.func @k1(%buffers: !llvm.ptr, %batch: i64, %block: i64) attributes {
      fusion.units = #fusion.extent<0 * B + 8>, fusion.grain = 1 : i64,
      fusion.threads = 64 : i64, fusion.operands = 2 : i64} {
    func.call @k0(%buffers, %batch, %block) : (!llvm.ptr, i64, i64) -> ()
    return
  }
}

// CHECK-LABEL: module @kernels
// CHECK-DAG: llvm.func @__nv_expf(f32) -> f32
// CHECK: llvm.func @k0(%[[P:.*]]: !llvm.ptr {llvm.align = 8 : i64, llvm.byval = !llvm.array<2 x ptr>, nvvm.grid_constant}, %[[B:.*]]: i64)
// CHECK-SAME: fusion.description = "loop: exp"
// CHECK-SAME: fusion.units = #fusion.extent<0 * B + 8>
// CHECK-SAME: nvvm.kernel
// CHECK-SAME: nvvm.reqntid = array<i32: 64, 1, 1>
// CHECK: %[[X:.*]] = nvvm.read.ptx.sreg.ctaid.x
// CHECK: %[[N:.*]] = llvm.zext %[[X]] : i32 to i64
// CHECK: llvm.call @k0.body(%[[P]], %[[B]], %[[N]])
// CHECK: llvm.func internal @k0.body(
// CHECK-NOT: fusion.
// CHECK: llvm.fpext {{.*}} : vector<2xbf16> to vector<2xf32>
// CHECK: llvm.extractelement
// CHECK: llvm.call @__nv_expf
// CHECK: llvm.call @__nv_expf
// CHECK-NOT: __nv_
// CHECK: llvm.intr.maximum
// CHECK: llvm.intr.sqrt
// CHECK: llvm.fptrunc {{.*}} : vector<2xf32> to vector<2xbf16>
// CHECK: llvm.func internal @k1.body(
// CHECK: llvm.call @k0.body(

// -----

// With groups only what one names itself is launched.
module {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %r = fusion.group horizontal (%a = %x : tensor<8xf32>) -> tensor<8xf32> kernel @kernels::@k1 {
      %0 = fusion.group loop (%b = %a : tensor<8xf32>) -> tensor<8xf32> kernel @kernels::@k0 {
        %1 = fusion.neg %b : tensor<8xf32>
        fusion.yield %1 : tensor<8xf32>
      }
      fusion.yield %0 : tensor<8xf32>
    }
    return %r : tensor<8xf32>
  }
  module @kernels {
    func.func @k0(%buffers: !llvm.ptr, %batch: i64, %block: i64) attributes {
        fusion.units = #fusion.extent<0 * B + 8>, fusion.grain = 1 : i64,
        fusion.threads = 64 : i64, fusion.operands = 2 : i64} {
      return
    }
    func.func @k1(%buffers: !llvm.ptr, %batch: i64, %block: i64) attributes {
        fusion.units = #fusion.extent<0 * B + 8>, fusion.grain = 1 : i64,
        fusion.threads = 64 : i64, fusion.operands = 2 : i64} {
      func.call @k0(%buffers, %batch, %block) : (!llvm.ptr, i64, i64) -> ()
      return
    }
  }
}

// CHECK-LABEL: module @kernels
// CHECK-NOT: llvm.func @k0(
// CHECK: llvm.func internal @k0.body(
// CHECK: llvm.func @k1(
// CHECK: llvm.func internal @k1.body(

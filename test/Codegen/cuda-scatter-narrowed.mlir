// The kernel of a scatter in f32 writes the narrowed sum: an element's is in a
// thread's registers until all updates are added.
//
// RUN: fusion-opt %s --fusion-fuse=device=h200 --fusion-emit-kernels=target=cuda | FileCheck %s

// One round. The sum is carried in f32, and written once.
// CHECK-LABEL: func.func @main
// CHECK: fusion.group scatter {{.*}} -> tensor<1000x64xbf16> kernel @kernels::@k0
// CHECK: fusion.group scatter {{.*}} -> tensor<3000x64xf16> kernel @kernels::@k1
// CHECK-NOT: fusion.group
// CHECK: func.func @k0(
// CHECK: scf.for {{.*}} -> (vector<8xf32>, i64)
// CHECK: arith.truncf {{.*}} : vector<8xf32> to vector<8xbf16>
// CHECK: llvm.store {{.*}} : vector<8xbf16>, !llvm.ptr<1>
// CHECK-NOT: llvm.store
// CHECK: return

// 5000 indices are looked through at once; what names a block's rows beyond the
// 4096 that fit is counted, not noted. Then a thread looks through all of them.
// CHECK: func.func @k1(
// CHECK: %[[FULL:.*]] = {{.*}}constant{{.*}}4096 : i32
// CHECK: %[[PLACE:.*]] = llvm.atomicrmw add
// CHECK: arith.cmpi ult, %[[PLACE]], %[[FULL]] : i32
// CHECK: arith.cmpi ule, {{.*}} : i64
// CHECK: arith.cmpi ugt, {{.*}} : i64
// CHECK: arith.addf {{.*}} : vector<8xf32>
// CHECK: llvm.store {{.*}} : vector<8xf16>, !llvm.ptr<1>
// CHECK: scf.if {{.*}} -> (vector<8xf32>)
// CHECK: arith.addf {{.*}} : vector<8xf32>
// CHECK: llvm.store {{.*}} : vector<8xf16>, !llvm.ptr<1>
// CHECK-NOT: llvm.store
// CHECK: return
module attributes {fusion.target = "cuda"} {
  func.func @main(%i: tensor<300x1xi64>, %u: tensor<300x64xbf16>,
                  %j: tensor<5000x1xi64>, %v: tensor<5000x64xf16>)
      -> (tensor<1000x64xbf16>, tensor<3000x64xf16>) {
    %0 = fusion.constant dense<0.0> : tensor<1000x64xf32>
    %1 = fusion.cast %u : tensor<300x64xbf16> to tensor<300x64xf32>
    %2 = fusion.scatter add, %0, %i, %1 : tensor<1000x64xf32>, tensor<300x1xi64>, tensor<300x64xf32>
    %3 = fusion.cast %2 : tensor<1000x64xf32> to tensor<1000x64xbf16>
    %4 = fusion.constant dense<0.0> : tensor<3000x64xf32>
    %5 = fusion.cast %v : tensor<5000x64xf16> to tensor<5000x64xf32>
    %6 = fusion.scatter add, %4, %j, %5 : tensor<3000x64xf32>, tensor<5000x1xi64>, tensor<5000x64xf32>
    %7 = fusion.cast %6 : tensor<3000x64xf32> to tensor<3000x64xf16>
    return %3, %7 : tensor<1000x64xbf16>, tensor<3000x64xf16>
  }
}

// RUN: fusion-opt %s --fusion-fuse --fusion-emit-kernels=target=cuda | FileCheck %s
// RUN: sed 's/"fast"/"strict"/' %s | fusion-opt --fusion-fuse --fusion-emit-kernels=target=cuda | FileCheck %s --check-prefix=STRICT

// Fast, an activation of f32 stays in f32; strict, it is rounded once from f64.
// CHECK-NOT: f64
// CHECK: math.erf {{.*}} : vector<4xf32>
// CHECK-NOT: f64
// STRICT: math.erfc {{.*}} : vector<4xf64>

// The tanh of a gelu is an exponential then.
// CHECK: math.exp {{.*}} : vector<4xf32>
// CHECK-NOT: math.tanh
// STRICT: math.tanh {{.*}} : vector<4xf64>
module attributes {fusion.target = "cuda", fusion.fp = "fast"} {
  func.func @main(%a: tensor<4096xf32>, %b: tensor<512x8xf32>)
      -> (tensor<4096xf32>, tensor<512x8xf32>) {
    %0 = fusion.gelu erf, %a : tensor<4096xf32>
    %1 = fusion.gelu tanh, %b : tensor<512x8xf32>
    return %0, %1 : tensor<4096xf32>, tensor<512x8xf32>
  }
}

// RUN: fusion-opt %s | fusion-opt | FileCheck %s
// RUN: fusion-opt %s --emit-bytecode | fusion-opt | FileCheck %s

// Norms, softmax, attention and rope.

// CHECK-LABEL: @batch_norm(
func.func @batch_norm(%xf64: tensor<2x4x8xf64>, %pf64: tensor<4xf64>, %xf32: tensor<2x4x8xf32>, %pf32: tensor<4xf32>, %xf16: tensor<2x4x8xf16>, %pf16: tensor<4xf16>, %xbf16: tensor<2x4x8xbf16>, %pbf16: tensor<4xbf16>, %b: tensor<?x4xbf16>) {
  // CHECK: fusion.batch_norm %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} epsilon = 1.000000e-05 axis = 1 : tensor<2x4x8xf64>, tensor<4xf64>
  %0 = fusion.batch_norm %xf64, %pf64, %pf64, %pf64, %pf64 epsilon = 1.000000e-05 axis = 1 : tensor<2x4x8xf64>, tensor<4xf64>
  // CHECK: fusion.batch_norm %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} epsilon = 1.000000e-05 axis = 1 : tensor<2x4x8xf32>, tensor<4xf32>
  %1 = fusion.batch_norm %xf32, %pf32, %pf32, %pf32, %pf32 epsilon = 1.000000e-05 axis = 1 : tensor<2x4x8xf32>, tensor<4xf32>
  // CHECK: fusion.batch_norm %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} epsilon = 1.000000e-05 axis = 1 : tensor<2x4x8xf16>, tensor<4xf16>
  %2 = fusion.batch_norm %xf16, %pf16, %pf16, %pf16, %pf16 epsilon = 1.000000e-05 axis = 1 : tensor<2x4x8xf16>, tensor<4xf16>
  // CHECK: fusion.batch_norm %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} epsilon = 1.000000e-05 axis = 1 : tensor<2x4x8xbf16>, tensor<4xbf16>
  %3 = fusion.batch_norm %xbf16, %pbf16, %pbf16, %pbf16, %pbf16 epsilon = 1.000000e-05 axis = 1 : tensor<2x4x8xbf16>, tensor<4xbf16>
  // CHECK: fusion.batch_norm %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} epsilon = 1.000000e-05 axis = 1 : tensor<2x4x8xf16>, tensor<4xf32>
  %4 = fusion.batch_norm %xf16, %pf32, %pf32, %pf32, %pf32 epsilon = 1.000000e-05 axis = 1 : tensor<2x4x8xf16>, tensor<4xf32>
  // CHECK: fusion.batch_norm %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} epsilon = 0.000000e+00 axis = 1 : tensor<?x4xbf16>, tensor<4xf64>
  %5 = fusion.batch_norm %b, %pf64, %pf64, %pf64, %pf64 epsilon = 0.000000e+00 axis = 1 : tensor<?x4xbf16>, tensor<4xf64>
  return
}

// CHECK-LABEL: @batch_norm_training(
func.func @batch_norm_training(%xf64: tensor<2x4x8xf64>, %pf64: tensor<4xf64>, %xf32: tensor<2x4x8xf32>, %pf32: tensor<4xf32>, %xf16: tensor<2x4x8xf16>, %pf16: tensor<4xf16>, %xbf16: tensor<2x4x8xbf16>, %pbf16: tensor<4xbf16>, %b: tensor<?x4xbf16>) {
  // CHECK: fusion.batch_norm_training %{{.*}}, %{{.*}}, %{{.*}} epsilon = 1.000000e-05 axis = 1 : tensor<2x4x8xf64>, tensor<4xf64>
  %0:3 = fusion.batch_norm_training %xf64, %pf64, %pf64 epsilon = 1.000000e-05 axis = 1 : tensor<2x4x8xf64>, tensor<4xf64>
  // CHECK: fusion.batch_norm_training %{{.*}}, %{{.*}}, %{{.*}} epsilon = 1.000000e-05 axis = 1 : tensor<2x4x8xf32>, tensor<4xf32>
  %1:3 = fusion.batch_norm_training %xf32, %pf32, %pf32 epsilon = 1.000000e-05 axis = 1 : tensor<2x4x8xf32>, tensor<4xf32>
  // CHECK: fusion.batch_norm_training %{{.*}}, %{{.*}}, %{{.*}} epsilon = 1.000000e-05 axis = 1 : tensor<2x4x8xf16>, tensor<4xf16>
  %2:3 = fusion.batch_norm_training %xf16, %pf16, %pf16 epsilon = 1.000000e-05 axis = 1 : tensor<2x4x8xf16>, tensor<4xf16>
  // CHECK: fusion.batch_norm_training %{{.*}}, %{{.*}}, %{{.*}} epsilon = 1.000000e-05 axis = 1 : tensor<2x4x8xbf16>, tensor<4xbf16>
  %3:3 = fusion.batch_norm_training %xbf16, %pbf16, %pbf16 epsilon = 1.000000e-05 axis = 1 : tensor<2x4x8xbf16>, tensor<4xbf16>
  // CHECK: fusion.batch_norm_training %{{.*}}, %{{.*}}, %{{.*}} epsilon = 1.000000e-05 axis = 1 : tensor<?x4xbf16>, tensor<4xf32>
  %4:3 = fusion.batch_norm_training %b, %pf32, %pf32 epsilon = 1.000000e-05 axis = 1 : tensor<?x4xbf16>, tensor<4xf32>
  return
}

// CHECK-LABEL: @layer_norm(
func.func @layer_norm(%xf64: tensor<2x3x8xf64>, %pf64: tensor<8xf64>, %xf32: tensor<2x3x8xf32>, %pf32: tensor<8xf32>, %xf16: tensor<2x3x8xf16>, %pf16: tensor<8xf16>, %xbf16: tensor<2x3x8xbf16>, %pbf16: tensor<8xbf16>, %b: tensor<?x4xf32>, %q: tensor<3x8xf32>) {
  // CHECK: fusion.layer_norm %{{.*}} scale %{{.*}} bias %{{.*}} epsilon = 1.000000e-05 axis = 2 : tensor<2x3x8xf64>, tensor<8xf64>, tensor<8xf64>
  %0 = fusion.layer_norm %xf64 scale %pf64 bias %pf64 epsilon = 1.000000e-05 axis = 2 : tensor<2x3x8xf64>, tensor<8xf64>, tensor<8xf64>
  // CHECK: fusion.layer_norm %{{.*}} scale %{{.*}} bias %{{.*}} epsilon = 1.000000e-05 axis = 2 : tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>
  %1 = fusion.layer_norm %xf32 scale %pf32 bias %pf32 epsilon = 1.000000e-05 axis = 2 : tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>
  // CHECK: fusion.layer_norm %{{.*}} scale %{{.*}} bias %{{.*}} epsilon = 1.000000e-05 axis = 2 : tensor<2x3x8xf16>, tensor<8xf16>, tensor<8xf16>
  %2 = fusion.layer_norm %xf16 scale %pf16 bias %pf16 epsilon = 1.000000e-05 axis = 2 : tensor<2x3x8xf16>, tensor<8xf16>, tensor<8xf16>
  // CHECK: fusion.layer_norm %{{.*}} scale %{{.*}} bias %{{.*}} epsilon = 1.000000e-05 axis = 2 : tensor<2x3x8xbf16>, tensor<8xbf16>, tensor<8xbf16>
  %3 = fusion.layer_norm %xbf16 scale %pbf16 bias %pbf16 epsilon = 1.000000e-05 axis = 2 : tensor<2x3x8xbf16>, tensor<8xbf16>, tensor<8xbf16>
  // CHECK: fusion.layer_norm %{{.*}} scale %{{.*}} epsilon = 1.000000e-05 axis = 1 : tensor<2x3x8xf32>, tensor<3x8xf32>
  %4 = fusion.layer_norm %xf32 scale %q epsilon = 1.000000e-05 axis = 1 : tensor<2x3x8xf32>, tensor<3x8xf32>
  // CHECK: fusion.layer_norm %{{.*}} bias %{{.*}} epsilon = 1.000000e-05 axis = 1 : tensor<2x3x8xf32>, tensor<3x8xf32>
  %5 = fusion.layer_norm %xf32 bias %q epsilon = 1.000000e-05 axis = 1 : tensor<2x3x8xf32>, tensor<3x8xf32>
  // CHECK: fusion.layer_norm %{{.*}} epsilon = 1.000000e-05 axis = 1 : tensor<?x4xf32>
  %6 = fusion.layer_norm %b epsilon = 1.000000e-05 axis = 1 : tensor<?x4xf32>
  return
}

// CHECK-LABEL: @rms_norm(
func.func @rms_norm(%xf64: tensor<2x3x8xf64>, %pf64: tensor<8xf64>, %xf32: tensor<2x3x8xf32>, %pf32: tensor<8xf32>, %xf16: tensor<2x3x8xf16>, %pf16: tensor<8xf16>, %xbf16: tensor<2x3x8xbf16>, %pbf16: tensor<8xbf16>, %b: tensor<?x4xf32>, %q: tensor<3x8xf32>) {
  // CHECK: fusion.rms_norm %{{.*}} scale %{{.*}} bias %{{.*}} epsilon = 1.000000e-05 axis = 2 : tensor<2x3x8xf64>, tensor<8xf64>, tensor<8xf64>
  %0 = fusion.rms_norm %xf64 scale %pf64 bias %pf64 epsilon = 1.000000e-05 axis = 2 : tensor<2x3x8xf64>, tensor<8xf64>, tensor<8xf64>
  // CHECK: fusion.rms_norm %{{.*}} scale %{{.*}} bias %{{.*}} epsilon = 1.000000e-05 axis = 2 : tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>
  %1 = fusion.rms_norm %xf32 scale %pf32 bias %pf32 epsilon = 1.000000e-05 axis = 2 : tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>
  // CHECK: fusion.rms_norm %{{.*}} scale %{{.*}} bias %{{.*}} epsilon = 1.000000e-05 axis = 2 : tensor<2x3x8xf16>, tensor<8xf16>, tensor<8xf16>
  %2 = fusion.rms_norm %xf16 scale %pf16 bias %pf16 epsilon = 1.000000e-05 axis = 2 : tensor<2x3x8xf16>, tensor<8xf16>, tensor<8xf16>
  // CHECK: fusion.rms_norm %{{.*}} scale %{{.*}} bias %{{.*}} epsilon = 1.000000e-05 axis = 2 : tensor<2x3x8xbf16>, tensor<8xbf16>, tensor<8xbf16>
  %3 = fusion.rms_norm %xbf16 scale %pbf16 bias %pbf16 epsilon = 1.000000e-05 axis = 2 : tensor<2x3x8xbf16>, tensor<8xbf16>, tensor<8xbf16>
  // CHECK: fusion.rms_norm %{{.*}} scale %{{.*}} epsilon = 1.000000e-05 axis = 1 : tensor<2x3x8xf32>, tensor<3x8xf32>
  %4 = fusion.rms_norm %xf32 scale %q epsilon = 1.000000e-05 axis = 1 : tensor<2x3x8xf32>, tensor<3x8xf32>
  // CHECK: fusion.rms_norm %{{.*}} bias %{{.*}} epsilon = 1.000000e-05 axis = 1 : tensor<2x3x8xf32>, tensor<3x8xf32>
  %5 = fusion.rms_norm %xf32 bias %q epsilon = 1.000000e-05 axis = 1 : tensor<2x3x8xf32>, tensor<3x8xf32>
  // CHECK: fusion.rms_norm %{{.*}} epsilon = 1.000000e-05 axis = 1 : tensor<?x4xf32>
  %6 = fusion.rms_norm %b epsilon = 1.000000e-05 axis = 1 : tensor<?x4xf32>
  return
}

// CHECK-LABEL: @softmax(
func.func @softmax(%xf64: tensor<2x8xf64>, %xf32: tensor<2x8xf32>, %xf16: tensor<2x8xf16>, %xbf16: tensor<2x8xbf16>, %b: tensor<?x4xf32>, %e: tensor<2x0xf32>) {
  // CHECK: fusion.softmax %{{.*}} axis = 1 : tensor<2x8xf64>
  %0 = fusion.softmax %xf64 axis = 1 : tensor<2x8xf64>
  // CHECK: fusion.softmax %{{.*}} axis = 1 : tensor<2x8xf32>
  %1 = fusion.softmax %xf32 axis = 1 : tensor<2x8xf32>
  // CHECK: fusion.softmax %{{.*}} axis = 1 : tensor<2x8xf16>
  %2 = fusion.softmax %xf16 axis = 1 : tensor<2x8xf16>
  // CHECK: fusion.softmax %{{.*}} axis = 1 : tensor<2x8xbf16>
  %3 = fusion.softmax %xbf16 axis = 1 : tensor<2x8xbf16>
  // CHECK: fusion.log_softmax %{{.*}} axis = 1 : tensor<2x8xf64>
  %4 = fusion.log_softmax %xf64 axis = 1 : tensor<2x8xf64>
  // CHECK: fusion.log_softmax %{{.*}} axis = 1 : tensor<2x8xf32>
  %5 = fusion.log_softmax %xf32 axis = 1 : tensor<2x8xf32>
  // CHECK: fusion.log_softmax %{{.*}} axis = 1 : tensor<2x8xf16>
  %6 = fusion.log_softmax %xf16 axis = 1 : tensor<2x8xf16>
  // CHECK: fusion.log_softmax %{{.*}} axis = 1 : tensor<2x8xbf16>
  %7 = fusion.log_softmax %xbf16 axis = 1 : tensor<2x8xbf16>
  // CHECK: fusion.softmax %{{.*}} axis = 0 : tensor<?x4xf32>
  %8 = fusion.softmax %b axis = 0 : tensor<?x4xf32>
  // CHECK: fusion.log_softmax %{{.*}} axis = 1 : tensor<2x0xf32>
  %9 = fusion.log_softmax %e axis = 1 : tensor<2x0xf32>
  return
}

// CHECK-LABEL: @attention(
func.func @attention(%q: tensor<1x4x8x16xf32>, %k: tensor<1x2x6x16xf32>, %v: tensor<1x2x6x5xf32>, %m: tensor<1x1x8x6xf32>, %b: tensor<?x2x4x8xbf16>, %c: tensor<?x2x4x4xbf16>) {
  // CHECK: fusion.attention %{{.*}}, %{{.*}}, %{{.*}} scale = 2.500000e-01 : tensor<1x4x8x16xf32>, tensor<1x2x6x16xf32>, tensor<1x2x6x5xf32>
  %0 = fusion.attention %q, %k, %v scale = 2.500000e-01 : tensor<1x4x8x16xf32>, tensor<1x2x6x16xf32>, tensor<1x2x6x5xf32>
  // CHECK: fusion.attention %{{.*}}, %{{.*}}, %{{.*}} mask %{{.*}} scale = 2.500000e-01 : tensor<1x4x8x16xf32>, tensor<1x2x6x16xf32>, tensor<1x2x6x5xf32>, tensor<1x1x8x6xf32>
  %1 = fusion.attention %q, %k, %v mask %m scale = 2.500000e-01 : tensor<1x4x8x16xf32>, tensor<1x2x6x16xf32>, tensor<1x2x6x5xf32>, tensor<1x1x8x6xf32>
  // CHECK: fusion.attention %{{.*}}, %{{.*}}, %{{.*}} mask %{{.*}} scale = 2.500000e-01 causal : tensor<1x4x8x16xf32>, tensor<1x2x6x16xf32>, tensor<1x2x6x5xf32>, tensor<1x1x8x6xf32>
  %2 = fusion.attention %q, %k, %v mask %m scale = 2.500000e-01 causal : tensor<1x4x8x16xf32>, tensor<1x2x6x16xf32>, tensor<1x2x6x5xf32>, tensor<1x1x8x6xf32>
  // CHECK: fusion.attention %{{.*}}, %{{.*}}, %{{.*}} scale = 1.000000e+00 causal : tensor<?x2x4x8xbf16>, tensor<?x2x4x8xbf16>, tensor<?x2x4x8xbf16>
  %3 = fusion.attention %b, %b, %b scale = 1.000000e+00 causal : tensor<?x2x4x8xbf16>, tensor<?x2x4x8xbf16>, tensor<?x2x4x8xbf16>
  // CHECK: fusion.attention %{{.*}}, %{{.*}}, %{{.*}} mask %{{.*}} scale = 1.000000e+00 : tensor<?x2x4x8xbf16>, tensor<?x2x4x8xbf16>, tensor<?x2x4x8xbf16>, tensor<?x2x4x4xbf16>
  %4 = fusion.attention %b, %b, %b mask %c scale = 1.000000e+00 : tensor<?x2x4x8xbf16>, tensor<?x2x4x8xbf16>, tensor<?x2x4x8xbf16>, tensor<?x2x4x4xbf16>
  return
}

// CHECK-LABEL: @rope(
func.func @rope(%xf64: tensor<2x8x16xf64>, %cf64: tensor<8x8xf64>, %xf32: tensor<2x8x16xf32>, %cf32: tensor<8x8xf32>, %xf16: tensor<2x8x16xf16>, %cf16: tensor<8x8xf16>, %xbf16: tensor<2x8x16xbf16>, %cbf16: tensor<8x8xbf16>, %b: tensor<?x8x16xf32>, %m: tensor<8x16xf32>) {
  // CHECK: fusion.rope %{{.*}}, %{{.*}}, %{{.*}} : tensor<2x8x16xf64>, tensor<8x8xf64>
  %0 = fusion.rope %xf64, %cf64, %cf64 : tensor<2x8x16xf64>, tensor<8x8xf64>
  // CHECK: fusion.rope %{{.*}}, %{{.*}}, %{{.*}} : tensor<2x8x16xf32>, tensor<8x8xf32>
  %1 = fusion.rope %xf32, %cf32, %cf32 : tensor<2x8x16xf32>, tensor<8x8xf32>
  // CHECK: fusion.rope %{{.*}}, %{{.*}}, %{{.*}} : tensor<2x8x16xf16>, tensor<8x8xf16>
  %2 = fusion.rope %xf16, %cf16, %cf16 : tensor<2x8x16xf16>, tensor<8x8xf16>
  // CHECK: fusion.rope %{{.*}}, %{{.*}}, %{{.*}} : tensor<2x8x16xbf16>, tensor<8x8xbf16>
  %3 = fusion.rope %xbf16, %cbf16, %cbf16 : tensor<2x8x16xbf16>, tensor<8x8xbf16>
  // CHECK: fusion.rope %{{.*}}, %{{.*}}, %{{.*}} {interleaved} : tensor<?x8x16xf32>, tensor<8x8xf32>
  %4 = fusion.rope %b, %cf32, %cf32 {interleaved} : tensor<?x8x16xf32>, tensor<8x8xf32>
  // CHECK: fusion.rope %{{.*}}, %{{.*}}, %{{.*}} : tensor<8x16xf32>, tensor<8x8xf32>
  %5 = fusion.rope %m, %cf32, %cf32 : tensor<8x16xf32>, tensor<8x8xf32>
  return
}

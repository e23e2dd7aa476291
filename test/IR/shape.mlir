// RUN: fusion-opt %s | fusion-opt | FileCheck %s
// RUN: fusion-opt %s --emit-bytecode | fusion-opt | FileCheck %s

// Ops that change the shape or the place of elements.

// CHECK-LABEL: @constant(
func.func @constant() {
  // CHECK: fusion.constant dense<1.000000e+00> : tensor<4xf64>
  %0 = fusion.constant dense<1.000000e+00> : tensor<4xf64>
  // CHECK: fusion.constant dense<1.000000e+00> : tensor<4xf32>
  %1 = fusion.constant dense<1.000000e+00> : tensor<4xf32>
  // CHECK: fusion.constant dense<1.000000e+00> : tensor<4xf16>
  %2 = fusion.constant dense<1.000000e+00> : tensor<4xf16>
  // CHECK: fusion.constant dense<1.000000e+00> : tensor<4xbf16>
  %3 = fusion.constant dense<1.000000e+00> : tensor<4xbf16>
  // CHECK: fusion.constant dense<true> : tensor<2xi1>
  %4 = fusion.constant dense<true> : tensor<2xi1>
  // CHECK: fusion.constant dense<-7> : tensor<i8>
  %5 = fusion.constant dense<-7> : tensor<i8>
  // CHECK: fusion.constant dense<[1, 2]> : tensor<2xi32>
  %6 = fusion.constant dense<[1, 2]> : tensor<2xi32>
  // CHECK: fusion.constant dense<> : tensor<0x4xi64>
  %7 = fusion.constant dense<> : tensor<0x4xi64>
  // CHECK: fusion.constant dense<[0x7FC00000, 0xFF800000, -0.000000e+00]> : tensor<3xf32>
  %8 = fusion.constant dense<[0x7FC00000, 0xFF800000, -0.000000e+00]> : tensor<3xf32>
  // CHECK: fusion.constant dense_resource<weights> : tensor<2xf32>
  %9 = fusion.constant dense_resource<weights> : tensor<2xf32>
  return
}

// CHECK-LABEL: @broadcast(
func.func @broadcast(%x: tensor<8xf32>, %s: tensor<bf16>, %u: tensor<1x4xi1>, %b: tensor<?x4xf32>, %e: tensor<0xi8>) {
  // CHECK: fusion.broadcast %{{.*}} dims = [1] : tensor<8xf32> to tensor<2x8x4xf32>
  %0 = fusion.broadcast %x dims = [1] : tensor<8xf32> to tensor<2x8x4xf32>
  // CHECK: fusion.broadcast %{{.*}} dims = [] : tensor<bf16> to tensor<2x3xbf16>
  %1 = fusion.broadcast %s dims = [] : tensor<bf16> to tensor<2x3xbf16>
  // CHECK: fusion.broadcast %{{.*}} dims = [0, 1] : tensor<1x4xi1> to tensor<3x4xi1>
  %2 = fusion.broadcast %u dims = [0, 1] : tensor<1x4xi1> to tensor<3x4xi1>
  // CHECK: fusion.broadcast %{{.*}} dims = [0, 2] : tensor<?x4xf32> to tensor<?x8x4xf32>
  %3 = fusion.broadcast %b dims = [0, 2] : tensor<?x4xf32> to tensor<?x8x4xf32>
  // CHECK: fusion.broadcast %{{.*}} dims = [1] : tensor<8xf32> to tensor<?x8xf32>
  %4 = fusion.broadcast %x dims = [1] : tensor<8xf32> to tensor<?x8xf32>
  // CHECK: fusion.broadcast %{{.*}} dims = [1] {batch_scale = 3 : i64} : tensor<8xf32> to tensor<?x8xf32>
  %5 = fusion.broadcast %x dims = [1] {batch_scale = 3 : i64} : tensor<8xf32> to tensor<?x8xf32>
  // CHECK: fusion.broadcast %{{.*}} dims = [1] : tensor<0xi8> to tensor<2x0xi8>
  %6 = fusion.broadcast %e dims = [1] : tensor<0xi8> to tensor<2x0xi8>
  return
}

// CHECK-LABEL: @reshape(
func.func @reshape(%x: tensor<2x3xf32>, %s: tensor<f64>, %e: tensor<0x4xi64>, %b: tensor<?x4x2xf16>) {
  // CHECK: fusion.reshape %{{.*}} : tensor<2x3xf32> to tensor<6xf32>
  %0 = fusion.reshape %x : tensor<2x3xf32> to tensor<6xf32>
  // CHECK: fusion.reshape %{{.*}} : tensor<f64> to tensor<1x1xf64>
  %1 = fusion.reshape %s : tensor<f64> to tensor<1x1xf64>
  // CHECK: fusion.reshape %{{.*}} : tensor<0x4xi64> to tensor<7x0xi64>
  %2 = fusion.reshape %e : tensor<0x4xi64> to tensor<7x0xi64>
  // CHECK: fusion.reshape %{{.*}} : tensor<?x4x2xf16> to tensor<?x8xf16>
  %3 = fusion.reshape %b : tensor<?x4x2xf16> to tensor<?x8xf16>
  // CHECK: fusion.reshape %{{.*}} : tensor<?x4x2xf16> to tensor<?x2xf16>
  %4 = fusion.reshape %b : tensor<?x4x2xf16> to tensor<?x2xf16>
  return
}

// CHECK-LABEL: @transpose(
func.func @transpose(%x: tensor<2x3xf32>, %s: tensor<i32>, %b: tensor<?x4x0xbf16>) {
  // CHECK: fusion.transpose %{{.*}} permutation = [1, 0] : tensor<2x3xf32>
  %0 = fusion.transpose %x permutation = [1, 0] : tensor<2x3xf32>
  // CHECK: fusion.transpose %{{.*}} permutation = [] : tensor<i32>
  %1 = fusion.transpose %s permutation = [] : tensor<i32>
  // CHECK: fusion.transpose %{{.*}} permutation = [2, 0, 1] : tensor<?x4x0xbf16>
  %2 = fusion.transpose %b permutation = [2, 0, 1] : tensor<?x4x0xbf16>
  return
}

// CHECK-LABEL: @slice(
func.func @slice(%x: tensor<2x4xf32>, %s: tensor<i1>, %b: tensor<?x4xf64>) {
  // CHECK: fusion.slice %{{.*}} starts = [0, 1] limits = [2, 4] strides = [1, 2] : tensor<2x4xf32>
  %0 = fusion.slice %x starts = [0, 1] limits = [2, 4] strides = [1, 2] : tensor<2x4xf32>
  // CHECK: fusion.slice %{{.*}} starts = [1, 4] limits = [1, 4] strides = [1, 1] : tensor<2x4xf32>
  %1 = fusion.slice %x starts = [1, 4] limits = [1, 4] strides = [1, 1] : tensor<2x4xf32>
  // CHECK: fusion.slice %{{.*}} starts = [] limits = [] strides = [] : tensor<i1>
  %2 = fusion.slice %s starts = [] limits = [] strides = [] : tensor<i1>
  // CHECK: fusion.slice %{{.*}} starts = [0, 0] limits = [-1, 2] strides = [1, 1] : tensor<?x4xf64>
  %3 = fusion.slice %b starts = [0, 0] limits = [-1, 2] strides = [1, 1] : tensor<?x4xf64>
  return
}

// CHECK-LABEL: @reverse(
func.func @reverse(%x: tensor<4x8xf32>, %b: tensor<?x0xi8>) {
  // CHECK: fusion.reverse %{{.*}} dims = [0] : tensor<4x8xf32>
  %0 = fusion.reverse %x dims = [0] : tensor<4x8xf32>
  // CHECK: fusion.reverse %{{.*}} dims = [1, 0] : tensor<4x8xf32>
  %1 = fusion.reverse %x dims = [1, 0] : tensor<4x8xf32>
  // CHECK: fusion.reverse %{{.*}} dims = [] : tensor<?x0xi8>
  %2 = fusion.reverse %b dims = [] : tensor<?x0xi8>
  // CHECK: fusion.reverse %{{.*}} dims = [0] : tensor<?x0xi8>
  %3 = fusion.reverse %b dims = [0] : tensor<?x0xi8>
  return
}

// CHECK-LABEL: @concat(
func.func @concat(%a: tensor<2x4xf32>, %b: tensor<3x4xf32>, %c: tensor<?x4xf32>, %e: tensor<0x4xf32>) {
  // CHECK: fusion.concat %{{.*}}, %{{.*}} axis = 0 : tensor<2x4xf32>, tensor<3x4xf32>
  %0 = fusion.concat %a, %b axis = 0 : tensor<2x4xf32>, tensor<3x4xf32>
  // CHECK: fusion.concat %{{.*}} axis = 1 : tensor<2x4xf32>
  %1 = fusion.concat %a axis = 1 : tensor<2x4xf32>
  // CHECK: fusion.concat %{{.*}}, %{{.*}}, %{{.*}} axis = 0 : tensor<2x4xf32>, tensor<?x4xf32>, tensor<0x4xf32>
  %2 = fusion.concat %a, %c, %e axis = 0 : tensor<2x4xf32>, tensor<?x4xf32>, tensor<0x4xf32>
  // CHECK: fusion.concat %{{.*}}, %{{.*}} axis = 1 : tensor<?x4xf32>, tensor<?x4xf32>
  %3 = fusion.concat %c, %c axis = 1 : tensor<?x4xf32>, tensor<?x4xf32>
  return
}

// CHECK-LABEL: @pad(
func.func @pad(%x: tensor<2x3xf32>, %v: tensor<f32>, %b: tensor<?x0xi32>, %w: tensor<i32>) {
  // CHECK: fusion.pad %{{.*}}, %{{.*}} low = [0, 1] high = [2, 0] : tensor<2x3xf32>, tensor<f32>
  %0 = fusion.pad %x, %v low = [0, 1] high = [2, 0] : tensor<2x3xf32>, tensor<f32>
  // CHECK: fusion.pad %{{.*}}, %{{.*}} low = [] high = [] : tensor<f32>, tensor<f32>
  %1 = fusion.pad %v, %v low = [] high = [] : tensor<f32>, tensor<f32>
  // CHECK: fusion.pad %{{.*}}, %{{.*}} low = [0, 1] high = [0, 1] : tensor<?x0xi32>, tensor<i32>
  %2 = fusion.pad %b, %w low = [0, 1] high = [0, 1] : tensor<?x0xi32>, tensor<i32>
  return
}

// CHECK-LABEL: @iota(
func.func @iota() {
  // CHECK: fusion.iota axis = 1 : tensor<2x4xi64>
  %0 = fusion.iota axis = 1 : tensor<2x4xi64>
  // CHECK: fusion.iota axis = 0 : tensor<3xbf16>
  %1 = fusion.iota axis = 0 : tensor<3xbf16>
  // CHECK: fusion.iota axis = 0 : tensor<0xi8>
  %2 = fusion.iota axis = 0 : tensor<0xi8>
  // CHECK: fusion.iota axis = 0 {batch_scale = 2 : i64} : tensor<?x4xi32>
  %3 = fusion.iota axis = 0 {batch_scale = 2 : i64} : tensor<?x4xi32>
  return
}

{-#
  dialect_resources: {
    builtin: {
      weights: "0x040000000000803F00000040"
    }
  }
#-}

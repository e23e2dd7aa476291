// RUN: fusion-opt %s | fusion-opt | FileCheck %s
// RUN: fusion-opt %s --emit-bytecode | fusion-opt | FileCheck %s

// Ops that read or write at computed places, and the reductions.

// CHECK-LABEL: @gather(
func.func @gather(%x: tensor<4x8xf32>, %i: tensor<3xi64>, %j: tensor<i32>, %b: tensor<?x4x8xbf16>, %k: tensor<?x2xi32>) {
  // CHECK: fusion.gather %{{.*}}, %{{.*}} axis = 0 : tensor<4x8xf32>, tensor<3xi64>
  %0 = fusion.gather %x, %i axis = 0 : tensor<4x8xf32>, tensor<3xi64>
  // CHECK: fusion.gather %{{.*}}, %{{.*}} axis = 1 : tensor<4x8xf32>, tensor<i32>
  %1 = fusion.gather %x, %j axis = 1 : tensor<4x8xf32>, tensor<i32>
  // CHECK: fusion.gather %{{.*}}, %{{.*}} axis = 1 {batch_dims = 1 : i64} : tensor<?x4x8xbf16>, tensor<?x2xi32>
  %2 = fusion.gather %b, %k axis = 1 {batch_dims = 1 : i64} : tensor<?x4x8xbf16>, tensor<?x2xi32>
  // CHECK: fusion.gather %{{.*}}, %{{.*}} axis = 2 : tensor<?x4x8xbf16>, tensor<?x2xi32>
  %3 = fusion.gather %b, %k axis = 2 : tensor<?x4x8xbf16>, tensor<?x2xi32>
  return
}

// CHECK-LABEL: @gather_nd(
func.func @gather_nd(%x: tensor<4x8xi1>, %i: tensor<3x2xi64>, %b: tensor<?x4x8xf32>, %k: tensor<?x2x1xi32>, %z: tensor<3x0xi64>) {
  // CHECK: fusion.gather_nd %{{.*}}, %{{.*}} : tensor<4x8xi1>, tensor<3x2xi64>
  %0 = fusion.gather_nd %x, %i : tensor<4x8xi1>, tensor<3x2xi64>
  // CHECK: fusion.gather_nd %{{.*}}, %{{.*}} {batch_dims = 1 : i64} : tensor<?x4x8xf32>, tensor<?x2x1xi32>
  %1 = fusion.gather_nd %b, %k {batch_dims = 1 : i64} : tensor<?x4x8xf32>, tensor<?x2x1xi32>
  // CHECK: fusion.gather_nd %{{.*}}, %{{.*}} : tensor<4x8xi1>, tensor<3x0xi64>
  %2 = fusion.gather_nd %x, %z : tensor<4x8xi1>, tensor<3x0xi64>
  return
}

// CHECK-LABEL: @scatter(
func.func @scatter(%x: tensor<4x8xf32>, %i: tensor<3x1xi64>, %u: tensor<3x8xf32>, %j: tensor<2xi32>, %v: tensor<f32>, %b: tensor<4xi1>, %k: tensor<0x1xi64>, %z: tensor<0xi1>) {
  // CHECK: fusion.scatter set, %{{.*}}, %{{.*}}, %{{.*}} : tensor<4x8xf32>, tensor<3x1xi64>, tensor<3x8xf32>
  %0 = fusion.scatter set, %x, %i, %u : tensor<4x8xf32>, tensor<3x1xi64>, tensor<3x8xf32>
  // CHECK: fusion.scatter add, %{{.*}}, %{{.*}}, %{{.*}} : tensor<4x8xf32>, tensor<3x1xi64>, tensor<3x8xf32>
  %1 = fusion.scatter add, %x, %i, %u : tensor<4x8xf32>, tensor<3x1xi64>, tensor<3x8xf32>
  // CHECK: fusion.scatter min, %{{.*}}, %{{.*}}, %{{.*}} : tensor<4x8xf32>, tensor<3x1xi64>, tensor<3x8xf32>
  %2 = fusion.scatter min, %x, %i, %u : tensor<4x8xf32>, tensor<3x1xi64>, tensor<3x8xf32>
  // CHECK: fusion.scatter max, %{{.*}}, %{{.*}}, %{{.*}} : tensor<4x8xf32>, tensor<3x1xi64>, tensor<3x8xf32>
  %3 = fusion.scatter max, %x, %i, %u : tensor<4x8xf32>, tensor<3x1xi64>, tensor<3x8xf32>
  // CHECK: fusion.scatter add, %{{.*}}, %{{.*}}, %{{.*}} : tensor<4x8xf32>, tensor<2xi32>, tensor<f32>
  %4 = fusion.scatter add, %x, %j, %v : tensor<4x8xf32>, tensor<2xi32>, tensor<f32>
  // CHECK: fusion.scatter set, %{{.*}}, %{{.*}}, %{{.*}} : tensor<4xi1>, tensor<0x1xi64>, tensor<0xi1>
  %5 = fusion.scatter set, %b, %k, %z : tensor<4xi1>, tensor<0x1xi64>, tensor<0xi1>
  return
}

// CHECK-LABEL: @update_slice(
func.func @update_slice(%x: tensor<4x8xf16>, %u: tensor<1x8xf16>, %i: tensor<i64>, %s: tensor<f64>, %b: tensor<?x4xf32>, %c: tensor<?x2xf32>) {
  // CHECK: fusion.update_slice %{{.*}}, %{{.*}} at(%{{.*}}, %{{.*}}) : tensor<4x8xf16>, tensor<1x8xf16>, tensor<i64>, tensor<i64>
  %0 = fusion.update_slice %x, %u at(%i, %i) : tensor<4x8xf16>, tensor<1x8xf16>, tensor<i64>, tensor<i64>
  // CHECK: fusion.update_slice %{{.*}}, %{{.*}} at() : tensor<f64>, tensor<f64>
  %1 = fusion.update_slice %s, %s at() : tensor<f64>, tensor<f64>
  // CHECK: fusion.update_slice %{{.*}}, %{{.*}} at(%{{.*}}, %{{.*}}) : tensor<?x4xf32>, tensor<?x2xf32>, tensor<i64>, tensor<i64>
  %2 = fusion.update_slice %b, %c at(%i, %i) : tensor<?x4xf32>, tensor<?x2xf32>, tensor<i64>, tensor<i64>
  return
}

// CHECK-LABEL: @reduce(
func.func @reduce(%xf64: tensor<2x4xf64>, %xf32: tensor<2x4xf32>, %xf16: tensor<2x4xf16>, %xbf16: tensor<2x4xbf16>, %xi1: tensor<2x4xi1>, %xi8: tensor<2x4xi8>, %xi32: tensor<2x4xi32>, %xi64: tensor<2x4xi64>, %e: tensor<2x0xf32>, %b: tensor<?x4xf32>, %s: tensor<f32>) {
  // CHECK: fusion.reduce sum, %{{.*}} dims = [1] : tensor<2x4xf64>
  %0 = fusion.reduce sum, %xf64 dims = [1] : tensor<2x4xf64>
  // CHECK: fusion.reduce mean, %{{.*}} dims = [1] : tensor<2x4xf64>
  %1 = fusion.reduce mean, %xf64 dims = [1] : tensor<2x4xf64>
  // CHECK: fusion.reduce prod, %{{.*}} dims = [1] : tensor<2x4xf64>
  %2 = fusion.reduce prod, %xf64 dims = [1] : tensor<2x4xf64>
  // CHECK: fusion.reduce max, %{{.*}} dims = [1] : tensor<2x4xf64>
  %3 = fusion.reduce max, %xf64 dims = [1] : tensor<2x4xf64>
  // CHECK: fusion.reduce min, %{{.*}} dims = [1] : tensor<2x4xf64>
  %4 = fusion.reduce min, %xf64 dims = [1] : tensor<2x4xf64>
  // CHECK: fusion.reduce sum, %{{.*}} dims = [1] : tensor<2x4xf32>
  %5 = fusion.reduce sum, %xf32 dims = [1] : tensor<2x4xf32>
  // CHECK: fusion.reduce mean, %{{.*}} dims = [1] : tensor<2x4xf32>
  %6 = fusion.reduce mean, %xf32 dims = [1] : tensor<2x4xf32>
  // CHECK: fusion.reduce prod, %{{.*}} dims = [1] : tensor<2x4xf32>
  %7 = fusion.reduce prod, %xf32 dims = [1] : tensor<2x4xf32>
  // CHECK: fusion.reduce max, %{{.*}} dims = [1] : tensor<2x4xf32>
  %8 = fusion.reduce max, %xf32 dims = [1] : tensor<2x4xf32>
  // CHECK: fusion.reduce min, %{{.*}} dims = [1] : tensor<2x4xf32>
  %9 = fusion.reduce min, %xf32 dims = [1] : tensor<2x4xf32>
  // CHECK: fusion.reduce sum, %{{.*}} dims = [1] : tensor<2x4xf16>
  %10 = fusion.reduce sum, %xf16 dims = [1] : tensor<2x4xf16>
  // CHECK: fusion.reduce mean, %{{.*}} dims = [1] : tensor<2x4xf16>
  %11 = fusion.reduce mean, %xf16 dims = [1] : tensor<2x4xf16>
  // CHECK: fusion.reduce prod, %{{.*}} dims = [1] : tensor<2x4xf16>
  %12 = fusion.reduce prod, %xf16 dims = [1] : tensor<2x4xf16>
  // CHECK: fusion.reduce max, %{{.*}} dims = [1] : tensor<2x4xf16>
  %13 = fusion.reduce max, %xf16 dims = [1] : tensor<2x4xf16>
  // CHECK: fusion.reduce min, %{{.*}} dims = [1] : tensor<2x4xf16>
  %14 = fusion.reduce min, %xf16 dims = [1] : tensor<2x4xf16>
  // CHECK: fusion.reduce sum, %{{.*}} dims = [1] : tensor<2x4xbf16>
  %15 = fusion.reduce sum, %xbf16 dims = [1] : tensor<2x4xbf16>
  // CHECK: fusion.reduce mean, %{{.*}} dims = [1] : tensor<2x4xbf16>
  %16 = fusion.reduce mean, %xbf16 dims = [1] : tensor<2x4xbf16>
  // CHECK: fusion.reduce prod, %{{.*}} dims = [1] : tensor<2x4xbf16>
  %17 = fusion.reduce prod, %xbf16 dims = [1] : tensor<2x4xbf16>
  // CHECK: fusion.reduce max, %{{.*}} dims = [1] : tensor<2x4xbf16>
  %18 = fusion.reduce max, %xbf16 dims = [1] : tensor<2x4xbf16>
  // CHECK: fusion.reduce min, %{{.*}} dims = [1] : tensor<2x4xbf16>
  %19 = fusion.reduce min, %xbf16 dims = [1] : tensor<2x4xbf16>
  // CHECK: fusion.reduce max, %{{.*}} dims = [1] : tensor<2x4xi1>
  %20 = fusion.reduce max, %xi1 dims = [1] : tensor<2x4xi1>
  // CHECK: fusion.reduce min, %{{.*}} dims = [1] : tensor<2x4xi1>
  %21 = fusion.reduce min, %xi1 dims = [1] : tensor<2x4xi1>
  // CHECK: fusion.reduce sum, %{{.*}} dims = [1] : tensor<2x4xi8>
  %22 = fusion.reduce sum, %xi8 dims = [1] : tensor<2x4xi8>
  // CHECK: fusion.reduce prod, %{{.*}} dims = [1] : tensor<2x4xi8>
  %23 = fusion.reduce prod, %xi8 dims = [1] : tensor<2x4xi8>
  // CHECK: fusion.reduce max, %{{.*}} dims = [1] : tensor<2x4xi8>
  %24 = fusion.reduce max, %xi8 dims = [1] : tensor<2x4xi8>
  // CHECK: fusion.reduce min, %{{.*}} dims = [1] : tensor<2x4xi8>
  %25 = fusion.reduce min, %xi8 dims = [1] : tensor<2x4xi8>
  // CHECK: fusion.reduce sum, %{{.*}} dims = [1] : tensor<2x4xi32>
  %26 = fusion.reduce sum, %xi32 dims = [1] : tensor<2x4xi32>
  // CHECK: fusion.reduce prod, %{{.*}} dims = [1] : tensor<2x4xi32>
  %27 = fusion.reduce prod, %xi32 dims = [1] : tensor<2x4xi32>
  // CHECK: fusion.reduce max, %{{.*}} dims = [1] : tensor<2x4xi32>
  %28 = fusion.reduce max, %xi32 dims = [1] : tensor<2x4xi32>
  // CHECK: fusion.reduce min, %{{.*}} dims = [1] : tensor<2x4xi32>
  %29 = fusion.reduce min, %xi32 dims = [1] : tensor<2x4xi32>
  // CHECK: fusion.reduce sum, %{{.*}} dims = [1] : tensor<2x4xi64>
  %30 = fusion.reduce sum, %xi64 dims = [1] : tensor<2x4xi64>
  // CHECK: fusion.reduce prod, %{{.*}} dims = [1] : tensor<2x4xi64>
  %31 = fusion.reduce prod, %xi64 dims = [1] : tensor<2x4xi64>
  // CHECK: fusion.reduce max, %{{.*}} dims = [1] : tensor<2x4xi64>
  %32 = fusion.reduce max, %xi64 dims = [1] : tensor<2x4xi64>
  // CHECK: fusion.reduce min, %{{.*}} dims = [1] : tensor<2x4xi64>
  %33 = fusion.reduce min, %xi64 dims = [1] : tensor<2x4xi64>
  // CHECK: fusion.reduce sum, %{{.*}} dims = [0, 1] : tensor<2x0xf32>
  %34 = fusion.reduce sum, %e dims = [0, 1] : tensor<2x0xf32>
  // CHECK: fusion.reduce mean, %{{.*}} dims = [0] : tensor<?x4xf32>
  %35 = fusion.reduce mean, %b dims = [0] : tensor<?x4xf32>
  // CHECK: fusion.reduce max, %{{.*}} dims = [0] : tensor<2x0xf32>
  %36 = fusion.reduce max, %e dims = [0] : tensor<2x0xf32>
  // CHECK: fusion.reduce prod, %{{.*}} dims = [] : tensor<f32>
  %37 = fusion.reduce prod, %s dims = [] : tensor<f32>
  return
}

// CHECK-LABEL: @arg_reduce(
func.func @arg_reduce(%x: tensor<2x4xf32>, %i: tensor<3xi8>, %b: tensor<?x4xbf16>) {
  // CHECK: fusion.arg_max %{{.*}} axis = 1 : tensor<2x4xf32>
  %0 = fusion.arg_max %x axis = 1 : tensor<2x4xf32>
  // CHECK: fusion.arg_max %{{.*}} axis = 0 {select_last} : tensor<2x4xf32>
  %1 = fusion.arg_max %x axis = 0 {select_last} : tensor<2x4xf32>
  // CHECK: fusion.arg_min %{{.*}} axis = 0 : tensor<3xi8>
  %2 = fusion.arg_min %i axis = 0 : tensor<3xi8>
  // CHECK: fusion.arg_min %{{.*}} axis = 1 {select_last} : tensor<?x4xbf16>
  %3 = fusion.arg_min %b axis = 1 {select_last} : tensor<?x4xbf16>
  // CHECK: fusion.arg_max %{{.*}} axis = 0 : tensor<?x4xbf16>
  %4 = fusion.arg_max %b axis = 0 : tensor<?x4xbf16>
  return
}

// RUN: fusion-opt %s | fusion-opt | FileCheck %s
// RUN: fusion-opt %s --emit-bytecode | fusion-opt | FileCheck %s

// Parameters, groups, asynchronous regions, user kernels, function attributes.

// CHECK: fusion.parameter @w const "m.safetensors" key "w" : tensor<4x3xf32>
fusion.parameter @w const "m.safetensors" key "w" : tensor<4x3xf32>
// CHECK: fusion.parameter @h state "sub/m.safetensors" key "h" sha256 "00ff" : tensor<bf16>
fusion.parameter @h state "sub/m.safetensors" key "h" sha256 "00ff" : tensor<bf16>
// CHECK: fusion.parameter @b const value dense<0.000000e+00> : tensor<4xf32> : tensor<4xf32> {fusion.name = "bias"}
fusion.parameter @b const value dense<0.0> : tensor<4xf32> : tensor<4xf32> {fusion.name = "bias"}
// CHECK: fusion.parameter @r const value dense_resource<weights> : tensor<3xf32> : tensor<3xf32>
fusion.parameter @r const value dense_resource<weights> : tensor<3xf32> : tensor<3xf32>

// CHECK-LABEL: @get_parameter
func.func @get_parameter() {
  // CHECK: fusion.get_parameter @w : tensor<4x3xf32>
  %0 = fusion.get_parameter @w : tensor<4x3xf32>
  return
}

// CHECK-LABEL: @attributes
// CHECK-SAME: {fusion.donated = 0 : i64, fusion.name = "x"}
// CHECK-SAME: -> (tensor<?xf32> {fusion.name = "y"})
// CHECK-SAME: attributes {fusion.batch = array<i64: 1, 8>}
func.func @attributes(%x: tensor<?xf32> {fusion.donated = 0 : i64, fusion.name = "x"})
    -> (tensor<?xf32> {fusion.name = "y"}) attributes {fusion.batch = array<i64: 1, 8>} {
  return %x : tensor<?xf32>
}

// CHECK-LABEL: @group
func.func @group(%x: tensor<4xf32>, %y: tensor<2xf32>) {
  // CHECK: fusion.group loop (%[[A:.*]] = %{{.*}} : tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: %[[E:.*]] = fusion.exp %[[A]] : tensor<4xf32>
  // CHECK-NEXT: fusion.yield %[[E]] : tensor<4xf32>
  %0 = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
    %e = fusion.exp %a : tensor<4xf32>
    fusion.yield %e : tensor<4xf32>
  }
  // CHECK: fusion.group row_reduce (%{{.*}} = %{{.*}} : tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>) kernel @kernels::@k0 attributes {fusion.in_place = array<i64: 0, 0>} {
  %1:2 = fusion.group row_reduce (%a = %x : tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>) kernel @kernels::@k0
      attributes {fusion.in_place = array<i64: 0, 0>} {
    %e = fusion.exp %a : tensor<4xf32>
    %s = fusion.reduce sum, %e dims = [0] : tensor<4xf32>
    fusion.yield %e, %s : tensor<4xf32>, tensor<f32>
  }
  // CHECK: fusion.group horizontal (%{{.*}} = %{{.*}} : tensor<4xf32>, %{{.*}} = %{{.*}} : tensor<2xf32>) -> (tensor<4xf32>, tensor<2xf32>) {
  // CHECK-NEXT: fusion.group loop
  // CHECK: fusion.group loop
  %2:2 = fusion.group horizontal (%a = %x : tensor<4xf32>, %b = %y : tensor<2xf32>) -> (tensor<4xf32>, tensor<2xf32>) {
    %m = fusion.group loop (%c = %a : tensor<4xf32>) -> tensor<4xf32> {
      %e = fusion.exp %c : tensor<4xf32>
      fusion.yield %e : tensor<4xf32>
    }
    %n = fusion.group loop (%c = %b : tensor<2xf32>) -> tensor<2xf32> {
      %e = fusion.exp %c : tensor<2xf32>
      fusion.yield %e : tensor<2xf32>
    }
    fusion.yield %m, %n : tensor<4xf32>, tensor<2xf32>
  }
  // CHECK: fusion.group fallback () -> tensor<4xi64> {
  %3 = fusion.group fallback () -> tensor<4xi64> {
    %i = fusion.iota axis = 0 : tensor<4xi64>
    fusion.yield %i : tensor<4xi64>
  }
  return
}

// Every kind of group parses.
// CHECK-LABEL: @group_kinds
func.func @group_kinds() {
  // CHECK: fusion.group column_reduce () {
  fusion.group column_reduce () { fusion.iota axis = 0 : tensor<4xi64> }
  // CHECK: fusion.group transpose () {
  fusion.group transpose () { fusion.iota axis = 0 : tensor<4xi64> }
  // CHECK: fusion.group scatter () {
  fusion.group scatter () { fusion.iota axis = 0 : tensor<4xi64> }
  // CHECK: fusion.group library () {
  fusion.group library () { fusion.iota axis = 0 : tensor<4xi64> }
  // CHECK: fusion.group window () {
  fusion.group window () { fusion.iota axis = 0 : tensor<4xi64> }
  // CHECK: fusion.group contraction () {
  fusion.group contraction () { fusion.iota axis = 0 : tensor<4xi64> }
  return
}

// CHECK-LABEL: @async
func.func @async(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: %[[F:.*]] = fusion.async stream = 1 -> tensor<4xf32> {
  // CHECK-NEXT: fusion.exp
  // CHECK-NEXT: fusion.yield %{{.*}} : tensor<4xf32>
  %f = fusion.async stream = 1 -> tensor<4xf32> {
    %e = fusion.exp %x : tensor<4xf32>
    fusion.yield %e : tensor<4xf32>
  }
  // CHECK: fusion.await %[[F]] : !fusion.future<tensor<4xf32>>
  %r = fusion.await %f : !fusion.future<tensor<4xf32>>
  // CHECK: fusion.async stream = 0 -> (tensor<4xf32>, tensor<4xf32>) attributes {tag} {
  %g = fusion.async stream = 0 -> (tensor<4xf32>, tensor<4xf32>) attributes {tag} {
    fusion.yield %x, %x : tensor<4xf32>, tensor<4xf32>
  }
  // CHECK: fusion.await %{{.*}} : !fusion.future<tensor<4xf32>, tensor<4xf32>>
  %s:2 = fusion.await %g : !fusion.future<tensor<4xf32>, tensor<4xf32>>
  return %r : tensor<4xf32>
}

// CHECK-LABEL: @kernel_call
func.func @kernel_call(%x: tensor<4xf32>) {
  // CHECK: fusion.kernel_call "c" "scale2" "void scale2() {}"(%{{.*}}) flops = 4 bytes = 32 : (tensor<4xf32>) -> tensor<4xf32>
  %0 = fusion.kernel_call "c" "scale2" "void scale2() {}" (%x) flops = 4 bytes = 32 : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK: fusion.kernel_call "ptx" "log" "\22"() flops = 0 bytes = 0 {side_effects} : () -> ()
  fusion.kernel_call "ptx" "log" "\"" () flops = 0 bytes = 0 {side_effects} : () -> ()
  return
}

{-#
  dialect_resources: {
    builtin: {
      weights: "0x040000000000803F0000004000004040"
    }
  }
#-}

// RUN: fusion-opt %s | fusion-opt | FileCheck %s
// RUN: fusion-opt %s --emit-bytecode | fusion-opt | FileCheck %s

// The Program level: segments, ports, contents and every command.

fusion.mesh @m(dp = 4)
fusion.parameter @w const "m.safetensors" key "w" : tensor<4x3xf32>

// CHECK: fusion.program @empty batch = [1, 8] streams = 1 events = 0 peak = 0 {
// CHECK-NEXT: }
fusion.program @empty batch = [1, 8] streams = 1 events = 0 peak = 0 {
}

// CHECK: fusion.program @main batch = [1, 1] streams = 2 events = 1 peak = 64 attributes {tag} {
fusion.program @main batch = [1, 1] streams = 2 events = 1 peak = 64 attributes {tag} {
  // CHECK-NEXT: fusion.segment @in input size = 16 align = 64
  fusion.segment @in input size = 16 align = 64
  // CHECK-NEXT: fusion.segment @out output size = 16 align = 64
  fusion.segment @out output size = 16 align = 64
  // CHECK-NEXT: fusion.segment @weights const size = 64 align = 64
  fusion.segment @weights const size = 64 align = 64
  // CHECK-NEXT: fusion.segment @arena private size = 64 align = 256
  fusion.segment @arena private size = 64 align = 256
  // CHECK-NEXT: fusion.segment @peer peer size = 0 align = 1
  fusion.segment @peer peer size = 0 align = 1
  // CHECK-NEXT: fusion.segment @pinned pinned size = 8 align = 8
  fusion.segment @pinned pinned size = 8 align = 8
  // CHECK-NEXT: fusion.content <@weights, 0, 48> parameter @w : tensor<4x3xf32>
  fusion.content #fusion.range<@weights, 0, 48> parameter @w : tensor<4x3xf32>
  // CHECK-NEXT: fusion.content <@weights, 48, 4> value dense<true> : tensor<4xi1> : tensor<4xi1>
  fusion.content #fusion.range<@weights, 48, 4> value dense<true> : tensor<4xi1> : tensor<4xi1>
  // CHECK-NEXT: fusion.port input "x" @in : tensor<4xf32> {donated_to = 0 : i64}
  fusion.port input "x" @in : tensor<4xf32> {donated_to = 0 : i64}
  // CHECK-NEXT: fusion.port output "y" @out : tensor<?xf32> {shape = [#fusion.extent<2 * B + 0>]}
  fusion.port output "y" @out : tensor<?xf32> {shape = [#fusion.extent<2 * B + 0>]}
  // CHECK-NEXT: fusion.launch @kernels::@k0 stream = 0 units = <4 * B + 1> grain = 1 [#fusion.access<read, <@in, 0, 16>>, #fusion.access<write, <@out, 0, 16>>]
  fusion.launch @kernels::@k0 stream = 0 units = #fusion.extent<4 * B + 1> grain = 1 [#fusion.access<read, <@in, 0, 16>>, #fusion.access<write, <@out, 0, 16>>]
  // CHECK-NEXT: fusion.launch @kernels::@k1 stream = 1 units = <0 * B + 1> grain = 8 []
  fusion.launch @kernels::@k1 stream = 1 units = #fusion.extent<0 * B + 1> grain = 8 []
  // CHECK-NEXT: fusion.call "avg_pool" stream = 0 [#fusion.access<read, <@in, 0, 16>>] {call = {dtype = "f32"}}
  fusion.call "avg_pool" stream = 0 [#fusion.access<read, <@in, 0, 16>>] {call = {dtype = "f32"}}
  // CHECK-NEXT: fusion.call "conv" stream = 0 [] tail @kernels::@t0 units = <1 * B + 0> grain = 2 [#fusion.access<read_write, <@arena, 0, 64>>] {call = {}}
  fusion.call "conv" stream = 0 [] tail @kernels::@t0 units = #fusion.extent<1 * B + 0> grain = 2 [#fusion.access<read_write, <@arena, 0, 64>>] {call = {}}
  // CHECK-NEXT: fusion.copy stream = 1 from <@in, 0, 16> to <@out, 0, 16> size = <0 * B + 16>
  fusion.copy stream = 1 from #fusion.range<@in, 0, 16> to #fusion.range<@out, 0, 16> size = #fusion.extent<0 * B + 16>
  // CHECK-NEXT: fusion.collective "all_reduce" on @m[dp] stream = 1 [#fusion.access<read_write, <@arena, 0, 64>>] {details = {dtype = "f32", kind = "sum"}}
  fusion.collective "all_reduce" on @m[dp] stream = 1 [#fusion.access<read_write, <@arena, 0, 64>>] {details = {kind = "sum", dtype = "f32"}}
  // CHECK-NEXT: fusion.record event = 0 stream = 0
  fusion.record event = 0 stream = 0
  // CHECK-NEXT: fusion.wait event = 0 stream = 1
  fusion.wait event = 0 stream = 1
}

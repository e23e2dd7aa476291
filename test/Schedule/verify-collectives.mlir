// RUN: fusion-opt %s --split-input-file --verify-diagnostics --fusion-verify-schedule | FileCheck %s

// Collectives of one stream beside a copy of another; every kind of detail.
fusion.mesh @m(dp = 2, tp = 2)
// CHECK-LABEL: fusion.program @accepted
// CHECK-COUNT-7: fusion.collective
fusion.program @accepted batch = [1, 1] streams = 2 events = 2 peak = 192 {
  fusion.segment @in0 input size = 16 align = 64
  fusion.segment @out0 output size = 16 align = 64
  fusion.segment @arena private size = 192 align = 64
  fusion.port input "x" @in0 : tensor<2x2xf32> {sharding = [["dp", "tp"], []], global_shape = array<i64: 7, 2>}
  fusion.port output "y" @out0 : tensor<2x2xf32>
  fusion.copy stream = 0 from #fusion.range<@in0, 0, 16> to #fusion.range<@arena, 0, 16> size = #fusion.extent<0 * B + 16>
  fusion.record event = 0 stream = 0
  fusion.wait event = 0 stream = 1
  fusion.collective "all_reduce" on @m[dp] stream = 1 [#fusion.access<read_write, <@arena, 0, 16>>]
    {details = {kind = "mean", dtypes = ["f32"], shapes = [[#fusion.extent<0 * B + 2>, #fusion.extent<0 * B + 2>]], in_place = array<i1: true>, bucket = 3 : i64}}
  fusion.collective "all_gather" on @m[tp] stream = 1 [#fusion.access<read, <@arena, 0, 16>>, #fusion.access<write, <@arena, 64, 32>>]
    {details = {dtypes = ["f32"], shapes = [[#fusion.extent<0 * B + 2>, #fusion.extent<0 * B + 2>]], in_place = array<i1: false>, dim = 1 : i64}}
  fusion.collective "reduce_scatter" on @m[tp] stream = 1 [#fusion.access<read, <@arena, 64, 32>>, #fusion.access<write, <@arena, 0, 16>>]
    {details = {kind = "sum", dtypes = ["f32"], shapes = [[#fusion.extent<0 * B + 2>, #fusion.extent<0 * B + 4>]], in_place = array<i1: false>, dim = 0 : i64}}
  fusion.collective "all_to_all" on @m[dp] stream = 1 [#fusion.access<read, <@arena, 0, 16>>, #fusion.access<write, <@arena, 128, 16>>]
    {details = {dtypes = ["f32"], shapes = [[#fusion.extent<0 * B + 2>, #fusion.extent<0 * B + 2>]], in_place = array<i1: false>, split_dim = 0 : i64, concat_dim = 1 : i64}}
  fusion.collective "collective_broadcast" on @m[dp] stream = 1 [#fusion.access<read_write, <@arena, 128, 16>>]
    {details = {dtypes = ["f32"], shapes = [[#fusion.extent<0 * B + 2>, #fusion.extent<0 * B + 2>]], in_place = array<i1: true>, root = 1 : i64}}
  fusion.collective "collective_permute" on @m[dp] stream = 1 [#fusion.access<read, <@arena, 128, 16>>, #fusion.access<write, <@arena, 0, 16>>]
    {details = {dtypes = ["f32"], shapes = [[#fusion.extent<0 * B + 2>, #fusion.extent<0 * B + 2>]], in_place = array<i1: false>, sources = array<i64: 0>, targets = array<i64: 1>}}
  fusion.collective "axis_index" on @m[tp] stream = 1 [#fusion.access<write, <@arena, 160, 8>>] {details = {}}
  fusion.record event = 1 stream = 1
  fusion.wait event = 1 stream = 0
  fusion.copy stream = 0 from #fusion.range<@arena, 0, 16> to #fusion.range<@out0, 0, 16> size = #fusion.extent<0 * B + 16>
}

// -----

// The gradient is still read by the reduction when its bytes are written again.
fusion.mesh @m(dp = 2)
// expected-error @+1 {{S5}}
fusion.program @race batch = [1, 1] streams = 2 events = 1 peak = 64 {
  fusion.segment @in0 input size = 16 align = 64
  fusion.segment @out0 output size = 16 align = 64
  fusion.segment @arena private size = 64 align = 64
  fusion.port input "x" @in0 : tensor<4xf32>
  fusion.port output "y" @out0 : tensor<4xf32>
  fusion.copy stream = 0 from #fusion.range<@in0, 0, 16> to #fusion.range<@arena, 0, 16> size = #fusion.extent<0 * B + 16>
  fusion.record event = 0 stream = 0
  fusion.wait event = 0 stream = 1
  fusion.collective "all_reduce" on @m[dp] stream = 1 [#fusion.access<read, <@arena, 0, 16>>, #fusion.access<write, <@out0, 0, 16>>]
    {details = {kind = "sum", dtypes = ["f32"], shapes = [[#fusion.extent<0 * B + 4>]], in_place = array<i1: false>}}
  fusion.copy stream = 0 from #fusion.range<@in0, 0, 16> to #fusion.range<@arena, 0, 16> size = #fusion.extent<0 * B + 16>
}

// -----

fusion.mesh @m(dp = 2)
fusion.program @axis batch = [1, 1] streams = 1 events = 0 peak = 64 {
  fusion.segment @arena private size = 64 align = 64
  // expected-error @+1 {{names an axis that the mesh lacks: "tp"}}
  fusion.collective "axis_index" on @m[tp] stream = 0 [#fusion.access<write, <@arena, 0, 8>>] {details = {}}
}

// -----

fusion.mesh @m(dp = 2)
fusion.program @unknown batch = [1, 1] streams = 1 events = 0 peak = 64 {
  fusion.segment @arena private size = 64 align = 64
  // expected-error @+1 {{names no collective: gossip}}
  fusion.collective "gossip" on @m[dp] stream = 0 [#fusion.access<write, <@arena, 0, 8>>] {details = {}}
}

// -----

fusion.mesh @m(dp = 2)
fusion.program @details batch = [1, 1] streams = 1 events = 0 peak = 64 {
  fusion.segment @arena private size = 64 align = 64
  // expected-error @+1 {{needs 'dtypes' and 'shapes' in its details}}
  fusion.collective "all_reduce" on @m[dp] stream = 0 [#fusion.access<read_write, <@arena, 0, 8>>] {details = {kind = "sum"}}
}

// -----

fusion.mesh @m(dp = 2)
fusion.program @kind batch = [1, 1] streams = 1 events = 0 peak = 64 {
  fusion.segment @arena private size = 64 align = 64
  // expected-error @+1 {{names no reduction: "median"}}
  fusion.collective "all_reduce" on @m[dp] stream = 0 [#fusion.access<read_write, <@arena, 0, 8>>]
    {details = {kind = "median", dtypes = ["f64"], shapes = [[]], in_place = array<i1: true>}}
}

// -----

fusion.mesh @m(dp = 2)
fusion.program @port batch = [1, 1] streams = 1 events = 0 peak = 0 {
  fusion.segment @in0 input size = 16 align = 64
  // expected-error @+1 {{'sharding' must be one list of axis names a dimension}}
  fusion.port input "x" @in0 : tensor<4xf32> {sharding = ["dp"]}
}

// -----

fusion.mesh @m(dp = 2)
// expected-error @+1 {{is a second mesh beside @m; a program has one}}
fusion.mesh @n(dp = 2)
fusion.program @meshes batch = [1, 1] streams = 1 events = 0 peak = 0 {
}

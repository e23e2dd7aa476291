// RUN: fusion-opt %s --split-input-file --fusion-plan-memory | FileCheck %s --enable-var-scope
// Twice is once.
// RUN: fusion-opt %s --split-input-file --fusion-plan-memory -o %t.once
// RUN: fusion-opt %s --split-input-file --fusion-plan-memory --fusion-plan-memory -o %t.twice
// RUN: diff %t.once %t.twice

// A collective on stream 0 is a command like the others. Its operand has no later
// reader: the sum is computed in place.
// CHECK-LABEL: fusion.program @main {{.*}} streams = 1 events = 0 peak = 64
// CHECK:       fusion.launch
// CHECK-SAME:  write, <@arena, 0, 16 of 1>, f32>]
// CHECK-NEXT:  fusion.collective "all_reduce" on @m[dp] stream = 0 [#fusion.access<{{ *}}read_write, <@arena, 0, 16 of 1>, f32>] {details = {dtypes = ["f32"], in_place = array<i1: true>, kind = "sum", shapes = {{\[\[}}#fusion.extent<0 * B + 4>]]}}
// CHECK-NEXT:  fusion.launch
// CHECK-SAME:  read, <@arena, 0, 16 of 1>, f32>
module {
  fusion.mesh @m(dp = 2)
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %g = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    %s = fusion.all_reduce sum, %g on @m[dp] : tensor<4xf32>
    %y = fusion.group loop (%a = %s : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    return %y : tensor<4xf32>
  }
}

// -----

// An operand that is read later is kept: input and output apart. So are those of
// an input of the program, and of a result that the program returns.
// CHECK-LABEL: fusion.program @main {{.*}} peak = 128
// CHECK:       fusion.collective "all_reduce"
// CHECK-SAME:  read, <@arena, [[G:[0-9]+]], 16 of [[A:[0-9]+]]>, f32>, #fusion.access<{{ *}}write, <@arena,
// CHECK-SAME:  read, <@in0, 0, 16>, f32>, #fusion.access<{{ *}}write, <@out1, 0, 16>, f32>
// CHECK-SAME:  dtypes = ["f32", "f32"], in_place = array<i1: false, false>, kind = "mean"
// CHECK:       fusion.launch
// CHECK-SAME:  read, <@arena, [[G]], 16 of [[A]]>, f32>
module {
  fusion.mesh @m(dp = 2)
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %g = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    %s:2 = fusion.all_reduce mean, %g, %x on @m[dp] : tensor<4xf32>, tensor<4xf32>
    %y = fusion.group loop (%a = %g : tensor<4xf32>, %b = %s#0 : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.add %a, %b : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    return %y, %s#1 : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// A region's commands are on its stream, behind what stream 0 has before it, and
// the await holds stream 0. In between, stream 0 goes on, and its buffers share no
// byte with what is in flight.
// CHECK-LABEL: fusion.program @main {{.*}} streams = 2 events = 2 peak = 192
// CHECK:       fusion.launch {{.*}}write, <@arena, [[G:[0-9]+]], 16 of [[A:[0-9]+]]>
// CHECK-NEXT:  fusion.record event = 0 stream = 0
// CHECK-NEXT:  fusion.wait event = 0 stream = 1
// CHECK-NEXT:  fusion.collective "all_reduce" on @m[dp] stream = 1 [#fusion.access<{{ *}}read_write, <@arena, [[G]], 16 of [[A]]>, f32>]
// CHECK-NEXT:  fusion.record event = 1 stream = 1
// CHECK-NEXT:  fusion.launch @kernels::@k stream = 0
// CHECK-NOT:   write, <@arena, [[G]], 16
// CHECK:       fusion.launch @kernels::@k stream = 0
// CHECK-NOT:   write, <@arena, [[G]], 16
// CHECK:       fusion.wait event = 1 stream = 0
// CHECK-NEXT:  fusion.launch
module {
  fusion.mesh @m(dp = 2)
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %g = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    %f = fusion.async stream = 1 -> tensor<4xf32> {
      %s = fusion.all_reduce sum, %g on @m[dp] : tensor<4xf32>
      fusion.yield %s : tensor<4xf32>
    }
    %h = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    %i = fusion.group loop (%a = %h : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    %j = fusion.group loop (%a = %i : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    %s = fusion.await %f : !fusion.future<tensor<4xf32>>
    %y = fusion.group loop (%a = %s : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    return %y, %j : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// A group does not compute in place over bytes that a collective in flight reads,
// though the group is the last to read them; behind the await it does.
// CHECK-LABEL: fusion.program @main
// CHECK:       fusion.collective "all_gather" on @m[dp] stream = 2
// CHECK-SAME:  read, <@arena, [[G:[0-9]+]], 16 of [[A:[0-9]+]]>, f32>
// CHECK-SAME:  dim = 0
// CHECK:       fusion.launch
// CHECK-SAME:  read, <@arena, [[G]], 16 of [[A]]>, f32>, #fusion.access<{{ *}}write, <@arena,
// CHECK:       fusion.wait
// CHECK-NEXT:  fusion.launch
// CHECK-SAME:  read_write, <@arena, [[B:[0-9]+]], 32 of [[C:[0-9]+]]>, f32>, #fusion.access<{{ *}}read_write, <@arena, [[B]], 32 of [[C]]>
module {
  fusion.mesh @m(dp = 2)
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<4xf32>) -> (tensor<8xf32>, tensor<4xf32>) {
    %g = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    %f = fusion.async stream = 2 -> tensor<8xf32> {
      %s = fusion.all_gather %g dim = 0 on @m[dp] : (tensor<4xf32>) -> tensor<8xf32>
      fusion.yield %s : tensor<8xf32>
    }
    %h = fusion.group loop (%a = %g : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k attributes {fusion.in_place = array<i64: 0, 0>} {
      %0 = fusion.exp %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    %i = fusion.group loop (%a = %h : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    %s = fusion.await %f : !fusion.future<tensor<8xf32>>
    %t = fusion.group loop (%a = %s : tensor<8xf32>) -> tensor<8xf32> kernel @kernels::@k attributes {fusion.in_place = array<i64: 0, 0>} {
      %0 = fusion.exp %a : tensor<8xf32>
      fusion.yield %0 : tensor<8xf32>
    }
    %y = fusion.group loop (%a = %t : tensor<8xf32>) -> tensor<8xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<8xf32>
      fusion.yield %0 : tensor<8xf32>
    }
    return %y, %i : tensor<8xf32>, tensor<4xf32>
  }
}

// -----

// What one stream gives another does not hold stream 0: the await is inside the
// second region. Each order costs one event, an order that is known none: the last
// await has nothing new.
// CHECK-LABEL: fusion.program @main {{.*}} streams = 3 events = 4
// CHECK:       fusion.record event = 0 stream = 0
// CHECK-NEXT:  fusion.wait event = 0 stream = 1
// CHECK-NEXT:  fusion.collective "reduce_scatter" on @m[dp] stream = 1
// CHECK-NEXT:  fusion.record event = 1 stream = 1
// CHECK-NEXT:  fusion.launch
// CHECK-NEXT:  fusion.record event = 2 stream = 0
// CHECK-NEXT:  fusion.wait event = 2 stream = 2
// CHECK-NEXT:  fusion.wait event = 1 stream = 2
// CHECK-NEXT:  fusion.collective "all_gather" on @m[dp] stream = 2
// CHECK-NEXT:  fusion.record event = 3 stream = 2
// CHECK-NEXT:  fusion.wait event = 3 stream = 0
// CHECK-NEXT:  fusion.launch
module {
  fusion.mesh @m(dp = 2)
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %g = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    %f = fusion.async stream = 1 -> tensor<2xf32> {
      %s = fusion.reduce_scatter sum, %g dim = 0 on @m[dp] : (tensor<4xf32>) -> tensor<2xf32>
      fusion.yield %s : tensor<2xf32>
    }
    %h = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    %e = fusion.async stream = 2 -> (tensor<4xf32>, tensor<4xf32>) {
      %p = fusion.await %f : !fusion.future<tensor<2xf32>>
      %s = fusion.all_gather %p dim = 0 on @m[dp] : (tensor<2xf32>) -> tensor<4xf32>
      fusion.yield %s, %x : tensor<4xf32>, tensor<4xf32>
    }
    %s:2 = fusion.await %e : !fusion.future<tensor<4xf32>, tensor<4xf32>>
    %y = fusion.group loop (%a = %s#0 : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    return %y, %h : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// Which rank this is: 8 bytes. The other collectives keep their attributes.
// CHECK-LABEL: fusion.program @main
// CHECK:       fusion.collective "axis_index" on @m[dp] stream = 0 [#fusion.access<{{ *}}write, <@out0, 0, 8>, i64>] {details = {}}
// CHECK-NEXT:  fusion.collective "all_to_all"
// CHECK-SAME:  details = {concat_dim = 1 : i64, dtypes = ["f32"], in_place = array<i1: false>, shapes = {{\[\[}}#fusion.extent<0 * B + 4>, #fusion.extent<0 * B + 4>]], split_dim = 0 : i64}
// CHECK-NEXT:  fusion.collective "collective_permute"
// CHECK-SAME:  sources = array<i64: 0, 1>, targets = array<i64: 1, 0>
// CHECK-NEXT:  fusion.collective "collective_broadcast"
// CHECK-SAME:  read_write
// CHECK-SAME:  root = 1
// CHECK-NEXT:  fusion.launch
module {
  fusion.mesh @m(dp = 2)
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<4x4xf32>) -> (tensor<i64>, tensor<2x8xf32>) {
    %i = fusion.axis_index @m[dp] : tensor<i64>
    %p = fusion.all_to_all %x split_dim = 0 concat_dim = 1 on @m[dp] : (tensor<4x4xf32>) -> tensor<2x8xf32>
    %q = fusion.collective_permute %p sources = [0, 1] targets = [1, 0] on @m[dp] : tensor<2x8xf32>
    %r = fusion.collective_broadcast %q root = 1 on @m[dp] : tensor<2x8xf32>
    %y = fusion.group loop (%a = %r : tensor<2x8xf32>) -> tensor<2x8xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<2x8xf32>
      fusion.yield %0 : tensor<2x8xf32>
    }
    return %i, %y : tensor<i64>, tensor<2x8xf32>
  }
}

// -----

// A donated argument that a gather in flight reads is not written over; its new
// value is copied there once the gather is done. Behind the await it is direct.
// CHECK-LABEL: fusion.program @main
// CHECK:       fusion.collective "all_gather" {{.*}} stream = 1 [#fusion.access<{{ *}}read, <@in0, 0, 16>
// CHECK:       fusion.launch {{.*}}read, <@in0, 0, 16>, f32>, #fusion.access<{{ *}}write, <@arena
// CHECK:       fusion.wait event = {{[0-9]+}} stream = 0
// CHECK-NEXT:  fusion.launch {{.*}}write, <@out1, 0, 32>
// CHECK-NEXT:  fusion.launch {{.*}}read_write, <@in1, 0, 16>, f32>, #fusion.access<{{ *}}read_write, <@out2, 0, 16>
// CHECK-NEXT:  fusion.copy stream = 0 from <@arena, {{.*}}> to <@out0, 0, 16>
module {
  fusion.mesh @m(dp = 2)
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%w: tensor<4xf32> {fusion.donated = 0 : i64}, %v: tensor<4xf32> {fusion.donated = 2 : i64}) -> (tensor<4xf32>, tensor<8xf32>, tensor<4xf32>) {
    %f = fusion.async stream = 1 -> (tensor<8xf32>, tensor<8xf32>) {
      %s:2 = fusion.all_gather %w, %v dim = 0 on @m[dp] : (tensor<4xf32>, tensor<4xf32>) -> (tensor<8xf32>, tensor<8xf32>)
      fusion.yield %s#0, %s#1 : tensor<8xf32>, tensor<8xf32>
    }
    %n = fusion.group loop (%a = %w : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k attributes {fusion.in_place = array<i64: 0, 0>} {
      %0 = fusion.exp %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    %s:2 = fusion.await %f : !fusion.future<tensor<8xf32>, tensor<8xf32>>
    %y = fusion.group loop (%a = %s#0 : tensor<8xf32>, %b = %s#1 : tensor<8xf32>) -> tensor<8xf32> kernel @kernels::@k {
      %0 = fusion.add %a, %b : tensor<8xf32>
      fusion.yield %0 : tensor<8xf32>
    }
    %m = fusion.group loop (%a = %v : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k attributes {fusion.in_place = array<i64: 0, 0>} {
      %0 = fusion.exp %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    return %n, %y, %m : tensor<4xf32>, tensor<8xf32>, tensor<4xf32>
  }
}

// -----

// A stream's commands are done in order: the second await frees what the first
// region reads, though that one is awaited last. So the last group's 3 operands of 64
// bytes are alive at once, and not that one besides.
// CHECK-LABEL: fusion.program @main {{.*}} streams = 2 events = 4 peak = 192
// CHECK:       fusion.wait event = 3 stream = 0
// CHECK-NOT:   fusion.wait
module {
  fusion.mesh @m(dp = 2)
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<4xf32>) -> (tensor<2xf32>, tensor<4xf32>, tensor<4xf32>) {
    %g = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    %f = fusion.async stream = 1 -> tensor<2xf32> {
      %s = fusion.reduce_scatter sum, %g dim = 0 on @m[dp] : (tensor<4xf32>) -> tensor<2xf32>
      fusion.yield %s : tensor<2xf32>
    }
    %h = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.neg %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    %e = fusion.async stream = 1 -> tensor<4xf32> {
      %t = fusion.all_reduce sum, %h on @m[dp] : tensor<4xf32>
      fusion.yield %t : tensor<4xf32>
    }
    %t = fusion.await %e : !fusion.future<tensor<4xf32>>
    %i = fusion.group loop (%a = %t : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    %j = fusion.group loop (%a = %i : tensor<4xf32>, %b = %t : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.add %a, %b : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    %k = fusion.group loop (%a = %j : tensor<4xf32>, %b = %i : tensor<4xf32>, %c = %t : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.add %a, %b : tensor<4xf32>
      %1 = fusion.add %0, %c : tensor<4xf32>
      fusion.yield %1 : tensor<4xf32>
    }
    %l = fusion.group loop (%a = %k : tensor<4xf32>, %b = %j : tensor<4xf32>, %c = %i : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.add %a, %b : tensor<4xf32>
      %1 = fusion.add %0, %c : tensor<4xf32>
      fusion.yield %1 : tensor<4xf32>
    }
    %s = fusion.await %f : !fusion.future<tensor<2xf32>>
    return %s, %l, %t : tensor<2xf32>, tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// Gathers that start early share a region of the arena: 128 bytes of one budget for
// three values of 64, two of them alive at once.
// CHECK-LABEL: fusion.program @main {{.*}} peak = 192
// CHECK:       all_gather{{.*}}write, <@arena, [[#U:]], 32
// CHECK:       all_gather{{.*}}write, <@arena, [[#V:]], 32
// CHECK:       all_gather{{.*}}write, <@arena, [[#U]], 32
module {
  fusion.mesh @m(dp = 2)
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<8xf32>, %p: tensor<4xf32>, %q: tensor<4xf32>, %r: tensor<4xf32>) -> tensor<8xf32> attributes {fusion.prefetch_budget = 128 : i64} {
    %e = fusion.async stream = 2 -> tensor<8xf32> {
      %0 = fusion.all_gather %p dim = 0 on @m[dp] {fusion.prefetched} : (tensor<4xf32>) -> tensor<8xf32>
      fusion.yield %0 : tensor<8xf32>
    }
    %f = fusion.async stream = 2 -> tensor<8xf32> {
      %0 = fusion.all_gather %q dim = 0 on @m[dp] {fusion.prefetched} : (tensor<4xf32>) -> tensor<8xf32>
      fusion.yield %0 : tensor<8xf32>
    }
    %u = fusion.await %e : !fusion.future<tensor<8xf32>>
    %1 = fusion.group loop (%a = %x : tensor<8xf32>, %b = %u : tensor<8xf32>) -> tensor<8xf32> kernel @kernels::@k {
      %0 = fusion.add %a, %b : tensor<8xf32>
      fusion.yield %0 : tensor<8xf32>
    }
    %g = fusion.async stream = 2 -> tensor<8xf32> {
      %0 = fusion.all_gather %r dim = 0 on @m[dp] {fusion.prefetched} : (tensor<4xf32>) -> tensor<8xf32>
      fusion.yield %0 : tensor<8xf32>
    }
    %v = fusion.await %f : !fusion.future<tensor<8xf32>>
    %2 = fusion.group loop (%a = %1 : tensor<8xf32>, %b = %v : tensor<8xf32>) -> tensor<8xf32> kernel @kernels::@k attributes {fusion.in_place = array<i64: 0, 0>} {
      %0 = fusion.add %a, %b : tensor<8xf32>
      fusion.yield %0 : tensor<8xf32>
    }
    %w = fusion.await %g : !fusion.future<tensor<8xf32>>
    %3 = fusion.group loop (%a = %2 : tensor<8xf32>, %b = %w : tensor<8xf32>) -> tensor<8xf32> kernel @kernels::@k {
      %0 = fusion.add %a, %b : tensor<8xf32>
      fusion.yield %0 : tensor<8xf32>
    }
    return %3 : tensor<8xf32>
  }
}

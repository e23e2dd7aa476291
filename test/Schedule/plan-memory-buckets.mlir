// RUN: fusion-opt %s --split-input-file --fusion-plan-memory | FileCheck %s --enable-var-scope
// RUN: fusion-opt %s --split-input-file --fusion-plan-memory --remarks-filter=fusion -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

// The parts of a bucket are written where the collective reads them: side by
// side, each at a multiple of 64 bytes, in the order of the groups and not in
// that of the operands. So what is not computed yet is one gap for other values.
// CHECK-LABEL: fusion.program @main
// CHECK-NOT:   fusion.copy
// CHECK:       fusion.launch {{.*}}write, <@arena, 0, 80
// CHECK:       fusion.launch {{.*}}write, <@arena, 128, 64
// CHECK:       fusion.launch {{.*}}write, <@arena, 192, 16
// CHECK:       fusion.collective "all_reduce"
// CHECK-SAME:  [#fusion.access<{{ *}}read_write, <@arena, 0, 80 of [[A:[0-9]+]]>, f32>, #fusion.access<{{ *}}read_write, <@arena, 128, 64 of [[B:[0-9]+]]>, f32>, #fusion.access<{{ *}}read_write, <@arena, 192, 16 of [[C:[0-9]+]]>, f32>]
// CHECK-SAME:  bucket = 7
// CHECK-NOT:   fusion.copy
module {
  fusion.mesh @m(dp = 2)
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<4xf32>, %y: tensor<20xf32>, %z: tensor<16xf32>) -> (tensor<4xf32>, tensor<20xf32>, tensor<16xf32>) {
    %g1 = fusion.group loop (%a = %y : tensor<20xf32>) -> tensor<20xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<20xf32>
      fusion.yield %0 : tensor<20xf32>
    }
    %g2 = fusion.group loop (%a = %z : tensor<16xf32>) -> tensor<16xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<16xf32>
      fusion.yield %0 : tensor<16xf32>
    }
    %g0 = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    %s:3 = fusion.all_reduce sum, %g0, %g1, %g2 on @m[dp] {fusion.bucket = 7 : i64} : tensor<4xf32>, tensor<20xf32>, tensor<16xf32>
    %u = fusion.group loop (%a = %s#0 : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    %v = fusion.group loop (%a = %s#1 : tensor<20xf32>) -> tensor<20xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<20xf32>
      fusion.yield %0 : tensor<20xf32>
    }
    %w = fusion.group loop (%a = %s#2 : tensor<16xf32>) -> tensor<16xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<16xf32>
      fusion.yield %0 : tensor<16xf32>
    }
    return %u, %v, %w : tensor<4xf32>, tensor<20xf32>, tensor<16xf32>
  }
}

// -----

// A gradient is not computed over a value that was there long before: the whole
// bucket would be alive from then on.
// CHECK-LABEL: fusion.program @main
// CHECK:       fusion.launch
// CHECK:       fusion.launch {{.*}}read, <@arena, {{[0-9]+}}, 16 of [[A:[0-9]+]]>, f32>, #fusion.access<{{ *}}write,
// CHECK:       fusion.launch
// CHECK:       fusion.collective
module {
  fusion.mesh @m(dp = 2)
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %h = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    %g0 = fusion.group loop (%a = %h : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k attributes {fusion.in_place = array<i64: 0, 0>} {
      %0 = fusion.exp %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    %g1 = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    %s:2 = fusion.all_reduce sum, %g0, %g1 on @m[dp] {fusion.bucket = 0 : i64} : tensor<4xf32>, tensor<4xf32>
    %u = fusion.group loop (%a = %s#0 : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    %v = fusion.group loop (%a = %s#1 : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    return %u, %v : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// Gradients that all add to earlier sums do: the bucket is where those are.
// CHECK-LABEL: fusion.program @main
// CHECK:       fusion.launch {{.*}}write, <@arena, 0, 16
// CHECK:       fusion.launch {{.*}}write, <@arena, 64, 16
// CHECK:       fusion.launch {{.*}}read_write, <@arena, 0, 16 {{.*}}read_write, <@arena, 0, 16
// CHECK:       fusion.launch {{.*}}read_write, <@arena, 64, 16 {{.*}}read_write, <@arena, 64, 16
// CHECK:       fusion.collective {{.*}}read_write, <@arena, 0, 16 {{.*}}read_write, <@arena, 64, 16
module {
  fusion.mesh @m(dp = 2)
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %h0 = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    %h1 = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    %g0 = fusion.group loop (%a = %h0 : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k attributes {fusion.in_place = array<i64: 0, 0>} {
      %0 = fusion.exp %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    %g1 = fusion.group loop (%a = %h1 : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k attributes {fusion.in_place = array<i64: 0, 0>} {
      %0 = fusion.exp %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    %s:2 = fusion.all_reduce sum, %g0, %g1 on @m[dp] {fusion.bucket = 0 : i64} : tensor<4xf32>, tensor<4xf32>
    %u = fusion.group loop (%a = %s#0 : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    %v = fusion.group loop (%a = %s#1 : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    return %u, %v : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// A gathered bucket's parts lie side by side too; its shards are arguments. Those
// of a scattered reduction do on both sides.
// CHECK-LABEL: fusion.program @main
// CHECK:       fusion.collective "all_gather"
// CHECK-SAME:  read, <@in0, 0, 16>, f32>, #fusion.access<{{ *}}write, <@arena, [[#G:]], 32 of {{[0-9]+}}>, f32>, #fusion.access<{{ *}}read, <@in1, 0, 16>, f32>, #fusion.access
// CHECK-SAME:  write, <@arena, [[#G+64]], 32
// CHECK:       fusion.collective "reduce_scatter"
// CHECK-SAME:  read, <@arena, [[#R:]], 32 of {{[0-9]+}}>, f32>, #fusion.access<{{ *}}write, <@arena, [[#S:]], 16
// CHECK-SAME:  read, <@arena, [[#R+64]], 32
// CHECK-SAME:  write, <@arena, [[#S+64]], 16
module {
  fusion.mesh @m(dp = 2)
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %g:2 = fusion.all_gather %x, %y dim = 0 on @m[dp] {fusion.bucket = 1 : i64} : (tensor<4xf32>, tensor<4xf32>) -> (tensor<8xf32>, tensor<8xf32>)
    %h0 = fusion.group loop (%a = %g#0 : tensor<8xf32>) -> tensor<8xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<8xf32>
      fusion.yield %0 : tensor<8xf32>
    }
    %h1 = fusion.group loop (%a = %g#1 : tensor<8xf32>) -> tensor<8xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<8xf32>
      fusion.yield %0 : tensor<8xf32>
    }
    %s:2 = fusion.reduce_scatter sum, %h0, %h1 dim = 0 on @m[dp] {fusion.bucket = 2 : i64} : (tensor<8xf32>, tensor<8xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    %u = fusion.group loop (%a = %s#0 : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    %v = fusion.group loop (%a = %s#1 : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    return %u, %v : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// What can't lie there is said, and read where it is.
// CHECK-LABEL: fusion.program @main
// CHECK:       fusion.collective "all_reduce"
// CHECK-SAME:  read, <@in0, 0, 16>
// REMARK:      bucket-apart{{.*}}Contiguous=1, Parts=2, Remark="parts of a bucket lie apart: a part is an argument, a constant or a result"
module {
  fusion.mesh @m(dp = 2)
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %h0 = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    %s:2 = fusion.all_reduce sum, %h0, %x on @m[dp] {fusion.bucket = 0 : i64} : tensor<4xf32>, tensor<4xf32>
    %u = fusion.group loop (%a = %s#0 : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    %v = fusion.group loop (%a = %s#1 : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    return %u, %v : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// Two reductions share a gradient: each has its part where the gradient is, and
// no second buffer. What reads the parts reads them there.
// CHECK-LABEL: fusion.program @main {{.*}} peak = 128
// CHECK:       fusion.launch {{.*}}write, <@arena, 0, 128
// CHECK:       fusion.collective {{.*}}read_write, <@arena, 0, 64
// CHECK:       fusion.collective {{.*}}read_write, <@arena, 64, 64
// CHECK:       fusion.launch {{.*}}read, <@arena, 0, 64 {{.*}}read, <@arena, 64, 64
module {
  fusion.mesh @m(dp = 2)
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<32xf32>) -> tensor<16xf32> {
    %g = fusion.group loop (%a = %x : tensor<32xf32>) -> tensor<32xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<32xf32>
      fusion.yield %0 : tensor<32xf32>
    }
    %p = fusion.group loop (%a = %g : tensor<32xf32>) -> tensor<16xf32> attributes {fusion.view = array<i64: 0>} {
      %0 = fusion.slice %a starts = [0] limits = [16] strides = [1] : tensor<32xf32>
      fusion.yield %0 : tensor<16xf32>
    }
    %q = fusion.group loop (%a = %g : tensor<32xf32>) -> tensor<16xf32> attributes {fusion.view = array<i64: 64>} {
      %0 = fusion.slice %a starts = [16] limits = [32] strides = [1] : tensor<32xf32>
      fusion.yield %0 : tensor<16xf32>
    }
    %r = fusion.all_reduce sum, %p on @m[dp] {fusion.bucket = 0 : i64} : tensor<16xf32>
    %s = fusion.all_reduce sum, %q on @m[dp] {fusion.bucket = 1 : i64} : tensor<16xf32>
    %u = fusion.group loop (%a = %r : tensor<16xf32>, %b = %s : tensor<16xf32>) -> tensor<16xf32> kernel @kernels::@k {
      %0 = fusion.add %a, %b : tensor<16xf32>
      fusion.yield %0 : tensor<16xf32>
    }
    return %u : tensor<16xf32>
  }
}

// -----

// The whole gradient is read once more, as it was: its parts are reduced to
// elsewhere.
// CHECK-LABEL: fusion.program @main {{.*}} peak = 256
// CHECK:       fusion.launch {{.*}}write, <@arena, [[AT:[0-9]+]], 128
// CHECK:       fusion.collective {{.*}}read, <@arena, [[AT]], 64 {{.*}}write, <@arena,
// CHECK:       fusion.collective {{.*}}read, <@arena, {{[0-9]+}}, 64 {{.*}}write, <@arena,
module {
  fusion.mesh @m(dp = 2)
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<32xf32>) -> (tensor<16xf32>, tensor<32xf32>) {
    %g = fusion.group loop (%a = %x : tensor<32xf32>) -> tensor<32xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<32xf32>
      fusion.yield %0 : tensor<32xf32>
    }
    %p = fusion.group loop (%a = %g : tensor<32xf32>) -> tensor<16xf32> attributes {fusion.view = array<i64: 0>} {
      %0 = fusion.slice %a starts = [0] limits = [16] strides = [1] : tensor<32xf32>
      fusion.yield %0 : tensor<16xf32>
    }
    %q = fusion.group loop (%a = %g : tensor<32xf32>) -> tensor<16xf32> attributes {fusion.view = array<i64: 64>} {
      %0 = fusion.slice %a starts = [16] limits = [32] strides = [1] : tensor<32xf32>
      fusion.yield %0 : tensor<16xf32>
    }
    %r = fusion.all_reduce sum, %p on @m[dp] : tensor<16xf32>
    %s = fusion.all_reduce sum, %q on @m[dp] : tensor<16xf32>
    %v = fusion.group loop (%a = %g : tensor<32xf32>) -> tensor<32xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<32xf32>
      fusion.yield %0 : tensor<32xf32>
    }
    %u = fusion.group loop (%a = %r : tensor<16xf32>, %b = %s : tensor<16xf32>) -> tensor<16xf32> kernel @kernels::@k {
      %0 = fusion.add %a, %b : tensor<16xf32>
      fusion.yield %0 : tensor<16xf32>
    }
    return %u, %v : tensor<16xf32>, tensor<32xf32>
  }
}

// -----

// Two parts that overlap: the first one is read by the second reduction.
// CHECK-LABEL: fusion.program @main
// CHECK:       fusion.collective {{.*}}read, <@arena, {{[0-9]+}}, 64 {{.*}}write, <@arena,
// CHECK:       fusion.collective {{.*}}read_write, <@arena, {{[0-9]+}}, 64
module {
  fusion.mesh @m(dp = 2)
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<32xf32>) -> tensor<16xf32> {
    %g = fusion.group loop (%a = %x : tensor<32xf32>) -> tensor<32xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<32xf32>
      fusion.yield %0 : tensor<32xf32>
    }
    %p = fusion.group loop (%a = %g : tensor<32xf32>) -> tensor<16xf32> attributes {fusion.view = array<i64: 0>} {
      %0 = fusion.slice %a starts = [0] limits = [16] strides = [1] : tensor<32xf32>
      fusion.yield %0 : tensor<16xf32>
    }
    %q = fusion.group loop (%a = %g : tensor<32xf32>) -> tensor<16xf32> attributes {fusion.view = array<i64: 60>} {
      %0 = fusion.slice %a starts = [15] limits = [31] strides = [1] : tensor<32xf32>
      fusion.yield %0 : tensor<16xf32>
    }
    %r = fusion.all_reduce sum, %p on @m[dp] : tensor<16xf32>
    %s = fusion.all_reduce sum, %q on @m[dp] : tensor<16xf32>
    %u = fusion.group loop (%a = %r : tensor<16xf32>, %b = %s : tensor<16xf32>) -> tensor<16xf32> kernel @kernels::@k {
      %0 = fusion.add %a, %b : tensor<16xf32>
      fusion.yield %0 : tensor<16xf32>
    }
    return %u : tensor<16xf32>
  }
}

// Moves whose readers read the other ranks' memory, and why others are copied.
// RUN: fusion-opt %s --split-input-file --fusion-plan-memory --fusion-verify-schedule --remarks-filter=fusion -o %t.mlir 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: FileCheck %s --input-file=%t.mlir --enable-var-scope

// What is sent and what is received stay to the end, although the last kernel could
// have their bytes: others read the one, and the release stands for both.
// REMARK: [Passed] transport-direct
// REMARK-SAME: its readers read the other ranks' memory
// CHECK-LABEL: fusion.program @main {{.*}} streams = 2 events = 3 peak = 256
// CHECK:       fusion.collective "collective_permute" on @m[dp] stream = 1 [#fusion.access<{{ *}}read, <@arena, [[G:[0-9]+]], 16 of [[A:[0-9]+]]>, f32>, #fusion.access<{{ *}}write, <@arena, [[R:[0-9]+]], 16 of [[B:[0-9]+]]>, f32>]
// CHECK-SAME:  transport = "direct"
// CHECK:       fusion.wait event = 1 stream = 0
// CHECK-NEXT:  fusion.launch
// CHECK-SAME:  read, <@arena, [[G]], 16 of [[A]]>, f32>, #fusion.access<{{ *}}read, <@arena, [[R]], 16 of [[B]]>, f32>
// CHECK-NEXT:  fusion.launch
// CHECK-NEXT:  fusion.launch
// CHECK-NEXT:  fusion.record event = 2 stream = 0
// CHECK-NEXT:  fusion.wait event = 2 stream = 1
// CHECK-NEXT:  fusion.collective "release" on @m[dp] stream = 1 [#fusion.access<{{ *}}read, <@arena, [[G]], 16 of [[A]]>, f32>, #fusion.access<{{ *}}read_write, <@arena, [[R]], 16 of [[B]]>, f32>] {details = {transport = "peer"}}
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
    %f = fusion.async stream = 1 -> tensor<4xf32> {
      %0 = fusion.collective_permute %g sources = [0, 1] targets = [1, 0] on @m[dp] {fusion.transport = "direct"} : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    %r = fusion.await %f : !fusion.future<tensor<4xf32>>
    %s = fusion.group loop (%a = %g : tensor<4xf32>, %b = %r : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k attributes {fusion.in_place = array<i64: 0, 0, 0, 1>} {
      %0 = fusion.add %a, %b : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    %t = fusion.group loop (%a = %s : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    %y = fusion.group loop (%a = %s : tensor<4xf32>, %b = %t : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.add %a, %b : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    return %y : tensor<4xf32>
  }
}

// -----

// Two kernels read it, another the program's input, another is returned: all are
// moves of copy engines, and nothing is released.
// REMARK: [Missed] transport-direct
// REMARK-SAME: it is read twice, so a copy is read faster
// REMARK: [Missed] transport-direct
// REMARK-SAME: the program returns it
// REMARK: [Missed] transport-direct
// REMARK-SAME: a part is an argument, a constant or a result
// CHECK-LABEL: fusion.program @main
// CHECK-COUNT-3: "collective_permute" {{.*}}transport = "peer"
// CHECK-NOT:   "release"
module {
  fusion.mesh @m(dp = 2)
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
    %g = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    %p = fusion.collective_permute %g sources = [0, 1] targets = [1, 0] on @m[dp] {fusion.transport = "direct"} : tensor<4xf32>
    %q = fusion.collective_permute %g sources = [0, 1] targets = [1, 0] on @m[dp] {fusion.transport = "direct"} : tensor<4xf32>
    %r = fusion.collective_permute %x sources = [0, 1] targets = [1, 0] on @m[dp] {fusion.transport = "direct"} : tensor<4xf32>
    %y = fusion.group loop (%a = %p : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    %z = fusion.group loop (%a = %p : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.neg %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    %u = fusion.group loop (%a = %r : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.neg %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    return %y, %z, %q, %u : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// Two moves of one tensor on two axes: the second is copied. A rank that gets nothing
// reads zeros, which no rank has.
// REMARK-DAG: a part is one of another move, too
// REMARK-DAG: a rank's bytes are not in one piece
// CHECK-LABEL: fusion.program @main
// CHECK:       "collective_permute" on @m[dp] {{.*}}transport = "direct"
// CHECK:       "collective_permute" on @m[tp] {{.*}}transport = "peer"
// CHECK:       "collective_permute" on @m[dp] {{.*}}transport = "peer"
// CHECK:       "release" on @m[dp]
// CHECK-NOT:   "release"
module {
  fusion.mesh @m(dp = 2, tp = 2)
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %g = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<4xf32>
      fusion.yield %0 : tensor<4xf32>
    }
    %p = fusion.collective_permute %g sources = [0, 1] targets = [1, 0] on @m[dp] {fusion.transport = "direct"} : tensor<4xf32>
    %q = fusion.collective_permute %g sources = [0, 1] targets = [1, 0] on @m[tp] {fusion.transport = "direct"} : tensor<4xf32>
    %r = fusion.collective_permute %g sources = [0] targets = [1] on @m[dp] {fusion.transport = "direct"} : tensor<4xf32>
    %y = fusion.group loop (%a = %p : tensor<4xf32>, %b = %q : tensor<4xf32>, %c = %r : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
      %0 = fusion.add %a, %b : tensor<4xf32>
      %1 = fusion.add %0, %c : tensor<4xf32>
      fusion.yield %1 : tensor<4xf32>
    }
    return %y : tensor<4xf32>
  }
}

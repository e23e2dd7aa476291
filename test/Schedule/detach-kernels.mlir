// A sum that is read much later runs beside other kernels.
//
// RUN: fusion-opt %s -split-input-file --fusion-detach-kernels=device=h200 --remarks-filter=fusion -o %t.once 2>%t.remarks
// RUN: FileCheck %s --enable-var-scope < %t.once
// RUN: FileCheck %s --check-prefix=REMARK < %t.remarks
// Twice is once.
// RUN: fusion-opt %t.once -split-input-file --fusion-detach-kernels=device=h200 | diff %t.once -
// A processor's kernels come one behind the other.
// RUN: fusion-opt %s -split-input-file --fusion-detach-kernels=device=cpu | FileCheck %s --check-prefix=CPU
// Its bytes are planned, and the program is proved to have no race.
// RUN: fusion-opt %s -split-input-file --fusion-detach-kernels=device=h200 --fusion-plan-memory --fusion-verify-schedule | FileCheck %s --check-prefix=PROGRAM
// CPU-NOT: stream = 2

// 4 MiB to 4 KiB, 134 MB read and written until the root: it runs beside them, on
// a stream of its own, behind what it reads, and is awaited by the root.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]] = fusion.await
// CHECK-NEXT: %[[F:.*]] = fusion.async stream = 2 -> tensor<1024xf32> {
// CHECK-NEXT: %[[S:.*]] = fusion.group row_reduce (%{{.*}} = %[[R]] :
// CHECK: fusion.yield %[[S]]
// CHECK: fusion.exp
// CHECK: fusion.exp
// CHECK: %[[T:.*]] = fusion.await %[[F]]
// CHECK-NEXT: fusion.group row_reduce (%{{.*}} = %[[T]] :
// REMARK: [Passed] detach-kernel
// PROGRAM: fusion.wait {{.*}} stream = 2
// PROGRAM: fusion.launch {{.*}} stream = 2
module {
  fusion.mesh @m(dp = 2)
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%g: tensor<1048576xf32>, %x: tensor<8388608xf32>) -> (tensor<1048576xf32>, tensor<8388608xf32>) {
    %f = fusion.async stream = 1 -> tensor<1048576xf32> {
      %r = fusion.all_reduce sum, %g on @m[dp] : tensor<1048576xf32>
      fusion.yield %r : tensor<1048576xf32>
    }
    %r = fusion.await %f : !fusion.future<tensor<1048576xf32>>
    %s = fusion.group row_reduce (%a = %r : tensor<1048576xf32>) -> tensor<1024xf32> kernel @kernels::@k {
      %0 = fusion.reshape %a : tensor<1048576xf32> to tensor<1024x1024xf32>
      %1 = fusion.mul %0, %0 : tensor<1024x1024xf32>
      %2 = fusion.reduce sum, %1 dims = [1] : tensor<1024x1024xf32>
      fusion.yield %2 : tensor<1024xf32>
    }
    %b0 = fusion.group loop (%a = %x : tensor<8388608xf32>) -> tensor<8388608xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<8388608xf32>
      fusion.yield %0 : tensor<8388608xf32>
    }
    %b1 = fusion.group loop (%a = %b0 : tensor<8388608xf32>) -> tensor<8388608xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<8388608xf32>
      fusion.yield %0 : tensor<8388608xf32>
    }
    %n = fusion.group row_reduce (%a = %s : tensor<1024xf32>) -> tensor<f32> kernel @kernels::@k {
      %0 = fusion.reduce sum, %a dims = [0] : tensor<1024xf32>
      %1 = fusion.sqrt %0 : tensor<f32>
      fusion.yield %1 : tensor<f32>
    }
    %u = fusion.group loop (%a = %r : tensor<1048576xf32>, %b = %n : tensor<f32>) -> tensor<1048576xf32> kernel @kernels::@k {
      %0 = fusion.broadcast %b dims = [] : tensor<f32> to tensor<1048576xf32>
      %1 = fusion.mul %a, %0 : tensor<1048576xf32>
      fusion.yield %1 : tensor<1048576xf32>
    }
    return %u, %b1 : tensor<1048576xf32>, tensor<8388608xf32>
  }
}

// -----

// Read at once.
// CHECK-LABEL: func.func @main
// CHECK-NOT: stream = 2
// CHECK: return
// REMARK-NOT: detach-kernel
module {
  fusion.mesh @m(dp = 2)
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%g: tensor<1048576xf32>, %x: tensor<8388608xf32>) -> (tensor<1048576xf32>, tensor<8388608xf32>) {
    %f = fusion.async stream = 1 -> tensor<1048576xf32> {
      %r = fusion.all_reduce sum, %g on @m[dp] : tensor<1048576xf32>
      fusion.yield %r : tensor<1048576xf32>
    }
    %r = fusion.await %f : !fusion.future<tensor<1048576xf32>>
    %s = fusion.group row_reduce (%a = %r : tensor<1048576xf32>) -> tensor<1024xf32> kernel @kernels::@k {
      %0 = fusion.reshape %a : tensor<1048576xf32> to tensor<1024x1024xf32>
      %1 = fusion.mul %0, %0 : tensor<1024x1024xf32>
      %2 = fusion.reduce sum, %1 dims = [1] : tensor<1024x1024xf32>
      fusion.yield %2 : tensor<1024xf32>
    }
    %n = fusion.group row_reduce (%a = %s : tensor<1024xf32>) -> tensor<f32> kernel @kernels::@k {
      %0 = fusion.reduce sum, %a dims = [0] : tensor<1024xf32>
      %1 = fusion.sqrt %0 : tensor<f32>
      fusion.yield %1 : tensor<f32>
    }
    %b0 = fusion.group loop (%a = %x : tensor<8388608xf32>) -> tensor<8388608xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<8388608xf32>
      fusion.yield %0 : tensor<8388608xf32>
    }
    %b1 = fusion.group loop (%a = %b0 : tensor<8388608xf32>) -> tensor<8388608xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<8388608xf32>
      fusion.yield %0 : tensor<8388608xf32>
    }
    %u = fusion.group loop (%a = %r : tensor<1048576xf32>, %b = %n : tensor<f32>) -> tensor<1048576xf32> kernel @kernels::@k {
      %0 = fusion.broadcast %b dims = [] : tensor<f32> to tensor<1048576xf32>
      %1 = fusion.mul %a, %0 : tensor<1048576xf32>
      fusion.yield %1 : tensor<1048576xf32>
    }
    return %u, %b1 : tensor<1048576xf32>, tensor<8388608xf32>
  }
}

// -----

// The last reader of what was reduced: it would be kept until the root.
// CHECK-LABEL: func.func @main
// CHECK-NOT: stream = 2
// CHECK: return
module {
  fusion.mesh @m(dp = 2)
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%g: tensor<1048576xf32>, %x: tensor<8388608xf32>) -> (tensor<1048576xf32>, tensor<8388608xf32>) {
    %f = fusion.async stream = 1 -> tensor<1048576xf32> {
      %r = fusion.all_reduce sum, %g on @m[dp] : tensor<1048576xf32>
      fusion.yield %r : tensor<1048576xf32>
    }
    %r = fusion.await %f : !fusion.future<tensor<1048576xf32>>
    %s = fusion.group row_reduce (%a = %r : tensor<1048576xf32>) -> tensor<1024xf32> kernel @kernels::@k {
      %0 = fusion.reshape %a : tensor<1048576xf32> to tensor<1024x1024xf32>
      %1 = fusion.mul %0, %0 : tensor<1024x1024xf32>
      %2 = fusion.reduce sum, %1 dims = [1] : tensor<1024x1024xf32>
      fusion.yield %2 : tensor<1024xf32>
    }
    %b0 = fusion.group loop (%a = %x : tensor<8388608xf32>) -> tensor<8388608xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<8388608xf32>
      fusion.yield %0 : tensor<8388608xf32>
    }
    %b1 = fusion.group loop (%a = %b0 : tensor<8388608xf32>) -> tensor<8388608xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<8388608xf32>
      fusion.yield %0 : tensor<8388608xf32>
    }
    %n = fusion.group row_reduce (%a = %s : tensor<1024xf32>) -> tensor<f32> kernel @kernels::@k {
      %0 = fusion.reduce sum, %a dims = [0] : tensor<1024xf32>
      %1 = fusion.sqrt %0 : tensor<f32>
      fusion.yield %1 : tensor<f32>
    }
    %u = fusion.group loop (%a = %n : tensor<f32>) -> tensor<1048576xf32> kernel @kernels::@k {
      %0 = fusion.broadcast %a dims = [] : tensor<f32> to tensor<1048576xf32>
      fusion.yield %0 : tensor<1048576xf32>
    }
    return %u, %b1 : tensor<1048576xf32>, tensor<8388608xf32>
  }
}

// -----

// A result.
// CHECK-LABEL: func.func @main
// CHECK-NOT: stream = 2
// CHECK: return
module {
  fusion.mesh @m(dp = 2)
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%g: tensor<1048576xf32>, %x: tensor<8388608xf32>) -> (tensor<1024xf32>, tensor<8388608xf32>) {
    %f = fusion.async stream = 1 -> tensor<1048576xf32> {
      %r = fusion.all_reduce sum, %g on @m[dp] : tensor<1048576xf32>
      fusion.yield %r : tensor<1048576xf32>
    }
    %r = fusion.await %f : !fusion.future<tensor<1048576xf32>>
    %s = fusion.group row_reduce (%a = %r : tensor<1048576xf32>) -> tensor<1024xf32> kernel @kernels::@k {
      %0 = fusion.reshape %a : tensor<1048576xf32> to tensor<1024x1024xf32>
      %1 = fusion.mul %0, %0 : tensor<1024x1024xf32>
      %2 = fusion.reduce sum, %1 dims = [1] : tensor<1024x1024xf32>
      fusion.yield %2 : tensor<1024xf32>
    }
    %b0 = fusion.group loop (%a = %x : tensor<8388608xf32>) -> tensor<8388608xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<8388608xf32>
      fusion.yield %0 : tensor<8388608xf32>
    }
    %b1 = fusion.group loop (%a = %b0 : tensor<8388608xf32>) -> tensor<8388608xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<8388608xf32>
      fusion.yield %0 : tensor<8388608xf32>
    }
    return %s, %b1 : tensor<1024xf32>, tensor<8388608xf32>
  }
}

// -----

// Nothing runs beside anything.
// CHECK-LABEL: func.func @main
// CHECK-NOT: stream = 2
// CHECK: return
module {
  fusion.mesh @m(dp = 2)
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%g: tensor<1048576xf32>, %x: tensor<8388608xf32>) -> (tensor<1048576xf32>, tensor<8388608xf32>) {
    %r = fusion.all_reduce sum, %g on @m[dp] : tensor<1048576xf32>
    %s = fusion.group row_reduce (%a = %r : tensor<1048576xf32>) -> tensor<1024xf32> kernel @kernels::@k {
      %0 = fusion.reshape %a : tensor<1048576xf32> to tensor<1024x1024xf32>
      %1 = fusion.mul %0, %0 : tensor<1024x1024xf32>
      %2 = fusion.reduce sum, %1 dims = [1] : tensor<1024x1024xf32>
      fusion.yield %2 : tensor<1024xf32>
    }
    %b0 = fusion.group loop (%a = %x : tensor<8388608xf32>) -> tensor<8388608xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<8388608xf32>
      fusion.yield %0 : tensor<8388608xf32>
    }
    %b1 = fusion.group loop (%a = %b0 : tensor<8388608xf32>) -> tensor<8388608xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<8388608xf32>
      fusion.yield %0 : tensor<8388608xf32>
    }
    %n = fusion.group row_reduce (%a = %s : tensor<1024xf32>) -> tensor<f32> kernel @kernels::@k {
      %0 = fusion.reduce sum, %a dims = [0] : tensor<1024xf32>
      %1 = fusion.sqrt %0 : tensor<f32>
      fusion.yield %1 : tensor<f32>
    }
    %u = fusion.group loop (%a = %r : tensor<1048576xf32>, %b = %n : tensor<f32>) -> tensor<1048576xf32> kernel @kernels::@k {
      %0 = fusion.broadcast %b dims = [] : tensor<f32> to tensor<1048576xf32>
      %1 = fusion.mul %a, %0 : tensor<1048576xf32>
      fusion.yield %1 : tensor<1048576xf32>
    }
    return %u, %b1 : tensor<1048576xf32>, tensor<8388608xf32>
  }
}

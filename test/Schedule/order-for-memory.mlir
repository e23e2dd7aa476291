// RUN: fusion-opt %s --split-input-file --fusion-order-for-memory --remarks-filter=fusion 2>%t.remarks | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK < %t.remarks
// RUN: fusion-opt %s --split-input-file --fusion-order-for-memory -o %t.once
// RUN: fusion-opt %s --split-input-file --fusion-order-for-memory --fusion-order-for-memory -o %t.twice
// RUN: diff %t.once %t.twice

// What reads 4096 bytes for the last time runs before 8192 are there: 4096 + 4 +
// 8192 are alive otherwise, and 64 + 4 + 8192 with it.
// CHECK-LABEL: func.func @main
// CHECK:       fusion.exp
// CHECK:       fusion.reduce max
// CHECK:       fusion.reduce min
// CHECK:       fusion.broadcast
// CHECK:       fusion.reduce sum
// REMARK:      order-memory | {{.*}}Moved=3, PeakAfter=8260, PeakBefore=12292
module {
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<16x64xf32>) -> tensor<16xf32> {
    %kept = fusion.group loop (%a = %x : tensor<16x64xf32>) -> tensor<16x64xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<16x64xf32>
      fusion.yield %0 : tensor<16x64xf32>
    }
    %max = fusion.group row_reduce (%a = %kept : tensor<16x64xf32>) -> tensor<f32> kernel @kernels::@k {
      %0 = fusion.reduce max, %a dims = [0, 1] : tensor<16x64xf32>
      fusion.yield %0 : tensor<f32>
    }
    %large = fusion.group loop (%a = %max : tensor<f32>) -> tensor<2048xf32> kernel @kernels::@k {
      %0 = fusion.broadcast %a dims = [] : tensor<f32> to tensor<2048xf32>
      fusion.yield %0 : tensor<2048xf32>
    }
    %sum = fusion.group row_reduce (%a = %large : tensor<2048xf32>) -> tensor<f32> kernel @kernels::@k {
      %0 = fusion.reduce sum, %a dims = [0] : tensor<2048xf32>
      fusion.yield %0 : tensor<f32>
    }
    %rows = fusion.group row_reduce (%a = %kept : tensor<16x64xf32>) -> tensor<16xf32> kernel @kernels::@k {
      %0 = fusion.reduce min, %a dims = [1] : tensor<16x64xf32>
      fusion.yield %0 : tensor<16xf32>
    }
    %y = fusion.group loop (%a = %rows : tensor<16xf32>, %b = %sum : tensor<f32>) -> tensor<16xf32> kernel @kernels::@k {
      %0 = fusion.broadcast %b dims = [] : tensor<f32> to tensor<16xf32>
      %1 = fusion.add %a, %0 : tensor<16xf32>
      fusion.yield %1 : tensor<16xf32>
    }
    return %y : tensor<16xf32>
  }
}

// -----

// 64 of 8256 bytes are less than 1 %: not worth another order.
// CHECK-LABEL: func.func @main
// CHECK:       fusion.exp
// CHECK:       fusion.broadcast
// CHECK:       fusion.reduce
module {
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<16xf32>, %s: tensor<f32>) -> tensor<f32> {
    %kept = fusion.group loop (%a = %x : tensor<16xf32>) -> tensor<16xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<16xf32>
      fusion.yield %0 : tensor<16xf32>
    }
    %large = fusion.group loop (%a = %s : tensor<f32>) -> tensor<2048xf32> kernel @kernels::@k {
      %0 = fusion.broadcast %a dims = [] : tensor<f32> to tensor<2048xf32>
      fusion.yield %0 : tensor<2048xf32>
    }
    %sum = fusion.group row_reduce (%a = %large : tensor<2048xf32>) -> tensor<f32> kernel @kernels::@k {
      %0 = fusion.reduce sum, %a dims = [0] : tensor<2048xf32>
      fusion.yield %0 : tensor<f32>
    }
    %rows = fusion.group row_reduce (%a = %kept : tensor<16xf32>) -> tensor<f32> kernel @kernels::@k {
      %0 = fusion.reduce sum, %a dims = [0] : tensor<16xf32>
      fusion.yield %0 : tensor<f32>
    }
    %y = fusion.group loop (%a = %rows : tensor<f32>, %b = %sum : tensor<f32>) -> tensor<f32> kernel @kernels::@k {
      %0 = fusion.add %a, %b : tensor<f32>
      fusion.yield %0 : tensor<f32>
    }
    return %y : tensor<f32>
  }
}

// -----

// Somebody scheduled the regions: nothing is moved.
// CHECK-LABEL: func.func @main
// CHECK:       fusion.exp
// CHECK:       fusion.async
// CHECK:       fusion.broadcast
// CHECK:       fusion.await
// CHECK:       fusion.reduce
module {
  fusion.mesh @m(dp = 2)
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<1024xf32>, %s: tensor<f32>) -> (tensor<f32>, tensor<2048xf32>) {
    %kept = fusion.group loop (%a = %x : tensor<1024xf32>) -> tensor<1024xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<1024xf32>
      fusion.yield %0 : tensor<1024xf32>
    }
    %f = fusion.async stream = 1 -> tensor<f32> {
      %1 = fusion.all_reduce sum, %s on @m[dp] : tensor<f32>
      fusion.yield %1 : tensor<f32>
    }
    %large = fusion.group loop (%a = %s : tensor<f32>) -> tensor<2048xf32> kernel @kernels::@k {
      %0 = fusion.broadcast %a dims = [] : tensor<f32> to tensor<2048xf32>
      fusion.yield %0 : tensor<2048xf32>
    }
    %t = fusion.await %f : !fusion.future<tensor<f32>>
    %used = fusion.group loop (%a = %large : tensor<2048xf32>) -> tensor<2048xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<2048xf32>
      fusion.yield %0 : tensor<2048xf32>
    }
    %rows = fusion.group row_reduce (%a = %kept : tensor<1024xf32>, %b = %t : tensor<f32>) -> tensor<f32> kernel @kernels::@k {
      %0 = fusion.reduce sum, %a dims = [0] : tensor<1024xf32>
      %1 = fusion.add %0, %b : tensor<f32>
      fusion.yield %1 : tensor<f32>
    }
    return %rows, %used : tensor<f32>, tensor<2048xf32>
  }
}

// -----

// exp reads the donated argument, and stays in front of neg, whose result is
// written over it. So it can't be sunk behind the sum: the sum goes first.
// CHECK-LABEL: func.func @main
// CHECK:       fusion.reduce sum
// CHECK:       fusion.exp
// CHECK:       fusion.neg
// CHECK:       fusion.reduce max
// REMARK:      order-memory | {{.*}}PeakAfter=8196, PeakBefore=12292
module {
  module @kernels {
    func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
  }
  func.func @main(%x: tensor<1024xf32> {fusion.donated = 0 : i64}, %s: tensor<f32>) -> (tensor<1024xf32>, tensor<f32>) {
    %kept = fusion.group loop (%a = %x : tensor<1024xf32>) -> tensor<1024xf32> kernel @kernels::@k {
      %0 = fusion.exp %a : tensor<1024xf32>
      fusion.yield %0 : tensor<1024xf32>
    }
    %new = fusion.group loop (%a = %s : tensor<f32>) -> tensor<1024xf32> kernel @kernels::@k {
      %0 = fusion.broadcast %a dims = [] : tensor<f32> to tensor<1024xf32>
      %1 = fusion.neg %0 : tensor<1024xf32>
      fusion.yield %1 : tensor<1024xf32>
    }
    %large = fusion.group loop (%a = %s : tensor<f32>) -> tensor<2048xf32> kernel @kernels::@k {
      %0 = fusion.broadcast %a dims = [] : tensor<f32> to tensor<2048xf32>
      fusion.yield %0 : tensor<2048xf32>
    }
    %sum = fusion.group row_reduce (%a = %large : tensor<2048xf32>) -> tensor<f32> kernel @kernels::@k {
      %0 = fusion.reduce sum, %a dims = [0] : tensor<2048xf32>
      fusion.yield %0 : tensor<f32>
    }
    %rows = fusion.group row_reduce (%a = %kept : tensor<1024xf32>, %b = %sum : tensor<f32>) -> tensor<f32> kernel @kernels::@k {
      %0 = fusion.reduce max, %a dims = [0] : tensor<1024xf32>
      %1 = fusion.add %0, %b : tensor<f32>
      fusion.yield %1 : tensor<f32>
    }
    return %new, %rows : tensor<1024xf32>, tensor<f32>
  }
}

// -----

// An op in no group: the pass is for compiled graphs, and leaves others alone.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: fusion.exp
// CHECK-NEXT: return
module {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = fusion.exp %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

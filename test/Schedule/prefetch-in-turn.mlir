// A link sends in the order in which it is asked. What the first kernels wait for is sent
// before what is gathered for later ones, where that makes the step shorter.
//
// RUN: fusion-opt %s --split-input-file --fusion-prefetch-all-gather=device=a100-80gb --fusion-verify-graph --remarks-filter=fusion -o %t.once 2>%t.remarks
// RUN: FileCheck %s --enable-var-scope < %t.once
// RUN: FileCheck %s --check-prefix=REMARK < %t.remarks
// Twice is once.
// RUN: fusion-opt %t.once --split-input-file --fusion-prefetch-all-gather=device=a100-80gb | diff %t.once -
// Within a budget that is given, too.
// RUN: fusion-opt %s --split-input-file --fusion-prefetch-all-gather="device=a100-80gb budget=134217728" | FileCheck %s --enable-var-scope

// Rows are exchanged once their numbers have come, and 64 MiB of weights are gathered
// behind them, beside the product of rows; the numbers come first.
// CHECK-LABEL: func.func @main
// CHECK:       fusion.async stream = 2
// CHECK-NEXT:    fusion.all_gather %arg0
// CHECK:       fusion.group loop
// CHECK:       [[ROWS:%.*]] = fusion.async stream = 2
// CHECK-NEXT:    fusion.all_to_all
// CHECK:       [[W:%.*]] = fusion.async stream = 2
// CHECK-NEXT:    fusion.all_gather %arg2
// CHECK:       fusion.await [[ROWS]]
// CHECK-NEXT:  fusion.group
// CHECK:       fusion.await [[W]]
// CHECK-NEXT:  fusion.group
// REMARK: [Passed] prefetch |{{.*}}Behind=1,{{.*}}Gathers=2
fusion.mesh @m(dp = 2)
func.func @main(%i: tensor<2048xi64>, %t: tensor<16384x1024xf32>, %p: tensor<2048x4096xf32>, %m: tensor<1024x4096xf32>) -> tensor<4096x4096xf32> {
  %is = fusion.all_gather %i dim = 0 on @m[dp] : (tensor<2048xi64>) -> tensor<4096xi64>
  %found = fusion.group loop (%in = %t : tensor<16384x1024xf32>, %at = %is : tensor<4096xi64>) -> tensor<4096x1024xf32> {
    %0 = fusion.gather %in, %at axis = 0 : tensor<16384x1024xf32>, tensor<4096xi64>
    fusion.yield %0 : tensor<4096x1024xf32>
  }
  %came = fusion.all_to_all %found split_dim = 0 concat_dim = 0 on @m[dp] : (tensor<4096x1024xf32>) -> tensor<4096x1024xf32>
  %x = fusion.group library (%in = %came : tensor<4096x1024xf32>, %in2 = %m : tensor<1024x4096xf32>) -> tensor<4096x4096xf32> {
    %0 = fusion.matmul %in, %in2 : tensor<4096x1024xf32>, tensor<1024x4096xf32>
    fusion.yield %0 : tensor<4096x4096xf32>
  }
  %w = fusion.all_gather %p dim = 0 on @m[dp] : (tensor<2048x4096xf32>) -> tensor<4096x4096xf32>
  %y = fusion.group loop (%in = %x : tensor<4096x4096xf32>, %in2 = %w : tensor<4096x4096xf32>) -> tensor<4096x4096xf32> {
    %0 = fusion.add %in, %in2 : tensor<4096x4096xf32>
    fusion.yield %0 : tensor<4096x4096xf32>
  }
  return %y : tensor<4096x4096xf32>
}

// -----

// Refused: for what is exchanged as much is gathered before; what is exchanged is read last;
// a bucket of gradients.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: fusion.async
// CHECK-NOT:   fusion.async
// CHECK:       return
// REMARK: [Passed] prefetch |{{.*}}Behind=0,{{.*}}Gathers=2
fusion.mesh @m(dp = 2)
func.func @main(%p: tensor<4194304xf32>, %q: tensor<4194304xf32>, %u: tensor<4194304xf32>) -> (tensor<8388608xf32>, tensor<4194304xf32>, tensor<4194304xf32>) {
  %v = fusion.all_gather %p dim = 0 on @m[dp] : (tensor<4194304xf32>) -> tensor<8388608xf32>
  %e = fusion.group loop (%in = %v : tensor<8388608xf32>) -> tensor<8388608xf32> {
    %0 = fusion.exp %in : tensor<8388608xf32>
    fusion.yield %0 : tensor<8388608xf32>
  }
  %s = fusion.all_to_all %e split_dim = 0 concat_dim = 0 on @m[dp] : (tensor<8388608xf32>) -> tensor<8388608xf32>
  %n = fusion.group loop (%in = %u : tensor<4194304xf32>) -> tensor<4194304xf32> {
    %0 = fusion.exp %in : tensor<4194304xf32>
    fusion.yield %0 : tensor<4194304xf32>
  }
  %b = fusion.all_to_all %n split_dim = 0 concat_dim = 0 on @m[dp] {fusion.bucket = 0 : i64} : (tensor<4194304xf32>) -> tensor<4194304xf32>
  %l = fusion.all_to_all %n split_dim = 0 concat_dim = 0 on @m[dp] : (tensor<4194304xf32>) -> tensor<4194304xf32>
  %c = fusion.group loop (%in = %b : tensor<4194304xf32>) -> tensor<4194304xf32> {
    %0 = fusion.neg %in : tensor<4194304xf32>
    fusion.yield %0 : tensor<4194304xf32>
  }
  %w = fusion.all_gather %q dim = 0 on @m[dp] : (tensor<4194304xf32>) -> tensor<8388608xf32>
  %y = fusion.group loop (%in = %s : tensor<8388608xf32>, %in2 = %w : tensor<8388608xf32>) -> tensor<8388608xf32> {
    %0 = fusion.add %in, %in2 : tensor<8388608xf32>
    fusion.yield %0 : tensor<8388608xf32>
  }
  %d = fusion.group loop (%in = %l : tensor<4194304xf32>) -> tensor<4194304xf32> {
    %0 = fusion.neg %in : tensor<4194304xf32>
    fusion.yield %0 : tensor<4194304xf32>
  }
  return %y, %c, %d : tensor<8388608xf32>, tensor<4194304xf32>, tensor<4194304xf32>
}

// -----

// Of collectives that read each other, the second starts when the first has come.
// CHECK-LABEL: func.func @main
// CHECK: fusion.all_gather %{{.*}} dim = 0 on @m[tp]
// CHECK: fusion.all_gather %{{.*}} dim = 0 on @m[dp] : (tensor<8x8xf32>)
// CHECK: return
fusion.mesh @m(dp = 2, tp = 2)
func.func @main(%x: tensor<4x8xf32>, %w: tensor<64x8xf32>) -> (tensor<16x8xf32>, tensor<128x8xf32>) {
  %0 = fusion.group loop (%in = %x : tensor<4x8xf32>) -> tensor<4x8xf32> {
    %e = fusion.exp %in : tensor<4x8xf32>
    fusion.yield %e : tensor<4x8xf32>
  }
  %1 = fusion.all_gather %0 dim = 0 on @m[tp] : (tensor<4x8xf32>) -> tensor<8x8xf32>
  %2 = fusion.all_gather %1 dim = 0 on @m[dp] : (tensor<8x8xf32>) -> tensor<16x8xf32>
  %3 = fusion.group loop (%in = %2 : tensor<16x8xf32>) -> tensor<16x8xf32> {
    %e = fusion.exp %in : tensor<16x8xf32>
    fusion.yield %e : tensor<16x8xf32>
  }
  %4 = fusion.all_gather %w dim = 0 on @m[dp] : (tensor<64x8xf32>) -> tensor<128x8xf32>
  %5 = fusion.group loop (%in = %4 : tensor<128x8xf32>) -> tensor<128x8xf32> {
    %e = fusion.exp %in : tensor<128x8xf32>
    fusion.yield %e : tensor<128x8xf32>
  }
  return %3, %5 : tensor<16x8xf32>, tensor<128x8xf32>
}

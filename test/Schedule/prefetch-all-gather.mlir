// RUN: fusion-opt %s --split-input-file --fusion-prefetch-all-gather=budget=128 --fusion-verify-graph | FileCheck %s --enable-var-scope
// RUN: fusion-opt %s --split-input-file --fusion-prefetch-all-gather=budget=128 --remarks-filter=fusion -o %t.once 2>&1 | FileCheck %s --check-prefix=REMARK
// Twice is once.
// RUN: fusion-opt %s --split-input-file --fusion-prefetch-all-gather=budget=128 --fusion-prefetch-all-gather=budget=128 -o %t.twice
// RUN: diff %t.once %t.twice
// Without a budget, the least that is tried is twice what one op reads. What is read much later is
// gathered again only where that costs no time: here it would be in the way.
// RUN: fusion-opt %s --split-input-file --fusion-prefetch-all-gather --remarks-filter=fusion -o %t.default 2>&1 | FileCheck %s --check-prefix=DEFAULT
// DEFAULT: [Passed] prefetch-budget |{{.*}}Budget=128, LeastBudget=128,
// DEFAULT: [Passed] prefetch |{{.*}}Budget=128, Gathers=4,
// DEFAULT: [Passed] prefetch-budget |{{.*}}Budget=192, LeastBudget=128,
// DEFAULT: [Passed] prefetch |{{.*}}Budget=192, Gathers=3, {{.*}}Repeated=0
// DEFAULT: [Passed] prefetch-budget |{{.*}}Budget=192, LeastBudget=128,
// DEFAULT: [Passed] prefetch |{{.*}}Budget=192, Gathers=3, {{.*}}Repeated=0
// DEFAULT: [Passed] prefetch |{{.*}}Budget=256, Gathers=2, NeededBytes=128, {{.*}}Repeated=0

// Gathered layers take 64 bytes of the arena each; 128 hold two. So two gathers
// start at once, and each later one when a layer's reader is done.
// CHECK-LABEL: func.func @main
// CHECK-SAME:  fusion.prefetch_budget = 128
// CHECK:       [[F0:%.*]] = fusion.async stream = 2 -> tensor<8xf32> {
// CHECK-NEXT:    fusion.all_gather %{{.*}} {fusion.prefetched}
// CHECK:       [[F1:%.*]] = fusion.async stream = 2
// CHECK-NOT:   fusion.async
// CHECK:       [[W0:%.*]] = fusion.await [[F0]]
// CHECK-NEXT:  fusion.group loop (%{{.*}} = %{{.*}} : tensor<8xf32>, %{{.*}} = [[W0]] :
// CHECK:       [[F2:%.*]] = fusion.async stream = 2
// CHECK:       fusion.await [[F1]]
// CHECK-NEXT:  fusion.group
// CHECK:       [[F3:%.*]] = fusion.async stream = 2
// CHECK:       fusion.await [[F2]]
// CHECK-NEXT:  fusion.group
// CHECK:       fusion.await [[F3]]
// CHECK-NEXT:  fusion.group
// REMARK:      [Passed] prefetch-gather{{.*}}Ahead=0, Bytes=64
// REMARK:      [Passed] prefetch |{{.*}}Budget=128, Gathers=4, NeededBytes=64, PeakBytes=128, RegionBytes=128
fusion.mesh @m(dp = 2)
func.func @main(%a0: tensor<8xf32>, %p0: tensor<4xf32>, %p1: tensor<4xf32>, %p2: tensor<4xf32>, %p3: tensor<4xf32>) -> tensor<8xf32> {
  %w0 = fusion.all_gather %p0 dim = 0 on @m[dp] : (tensor<4xf32>) -> tensor<8xf32>
  %a1 = fusion.group loop (%in = %a0 : tensor<8xf32>, %in2 = %w0 : tensor<8xf32>) -> tensor<8xf32> {
    %0 = fusion.add %in, %in2 : tensor<8xf32>
    fusion.yield %0 : tensor<8xf32>
  }
  %w1 = fusion.all_gather %p1 dim = 0 on @m[dp] : (tensor<4xf32>) -> tensor<8xf32>
  %a2 = fusion.group loop (%in = %a1 : tensor<8xf32>, %in2 = %w1 : tensor<8xf32>) -> tensor<8xf32> {
    %0 = fusion.add %in, %in2 : tensor<8xf32>
    fusion.yield %0 : tensor<8xf32>
  }
  %w2 = fusion.all_gather %p2 dim = 0 on @m[dp] : (tensor<4xf32>) -> tensor<8xf32>
  %a3 = fusion.group loop (%in = %a2 : tensor<8xf32>, %in2 = %w2 : tensor<8xf32>) -> tensor<8xf32> {
    %0 = fusion.add %in, %in2 : tensor<8xf32>
    fusion.yield %0 : tensor<8xf32>
  }
  %w3 = fusion.all_gather %p3 dim = 0 on @m[dp] : (tensor<4xf32>) -> tensor<8xf32>
  %a4 = fusion.group loop (%in = %a3 : tensor<8xf32>, %in2 = %w3 : tensor<8xf32>) -> tensor<8xf32> {
    %0 = fusion.add %in, %in2 : tensor<8xf32>
    fusion.yield %0 : tensor<8xf32>
  }
  return %a4 : tensor<8xf32>
}

// -----

// A layer that two ops read stays for both, so the next one waits for the second;
// a reshape between a gather and its reader moves along. A value that is computed
// late is gathered no earlier. What is returned is not ours.
// CHECK-LABEL: func.func @main
// CHECK:       fusion.async
// CHECK-NEXT:    fusion.all_gather %arg1
// CHECK:       [[F:%.*]] = fusion.async
// CHECK-NEXT:    fusion.all_gather %arg2
// CHECK:       fusion.exp
// CHECK:       fusion.neg
// CHECK:       fusion.async
// CHECK-NEXT:    fusion.all_gather
// CHECK:       [[V:%.*]] = fusion.await [[F]]
// CHECK-NEXT:  fusion.reshape [[V]]
// CHECK:       fusion.log
// CHECK:       fusion.all_gather
// CHECK-NOT:   fusion.prefetched
// CHECK:       return
fusion.mesh @m(dp = 2)
func.func @main(%x: tensor<4xf32>, %p: tensor<4xf32>, %q: tensor<4xf32>) -> (tensor<8xf32>, tensor<2x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %v = fusion.all_gather %p dim = 0 on @m[dp] : (tensor<4xf32>) -> tensor<8xf32>
  %w = fusion.all_gather %q dim = 0 on @m[dp] : (tensor<4xf32>) -> tensor<8xf32>
  %r = fusion.reshape %w : tensor<8xf32> to tensor<2x4xf32>
  %y = fusion.group loop (%in = %x : tensor<4xf32>) -> tensor<4xf32> {
    %0 = fusion.exp %in : tensor<4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  %a = fusion.group loop (%in = %v : tensor<8xf32>) -> tensor<8xf32> {
    %0 = fusion.exp %in : tensor<8xf32>
    fusion.yield %0 : tensor<8xf32>
  }
  %b = fusion.group loop (%in = %v : tensor<8xf32>) -> tensor<8xf32> {
    %0 = fusion.neg %in : tensor<8xf32>
    fusion.yield %0 : tensor<8xf32>
  }
  %u = fusion.all_gather %y dim = 0 on @m[dp] : (tensor<4xf32>) -> tensor<8xf32>
  %c = fusion.group loop (%in = %r : tensor<2x4xf32>) -> tensor<2x4xf32> {
    %0 = fusion.sqrt %in : tensor<2x4xf32>
    fusion.yield %0 : tensor<2x4xf32>
  }
  %d = fusion.group loop (%in = %u : tensor<8xf32>) -> tensor<8xf32> {
    %0 = fusion.log %in : tensor<8xf32>
    fusion.yield %0 : tensor<8xf32>
  }
  %z = fusion.all_gather %y dim = 0 on @m[dp] : (tensor<4xf32>) -> tensor<8xf32>
  return %a, %c, %b, %d, %z : tensor<8xf32>, tensor<2x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// Forward and backward read the same layers: 128 bytes do not keep three of them, and
// one ahead. The last one is kept, as it is needed first; the others are gathered
// again, a reshape of one is made again too.
// CHECK-LABEL: func.func @main
// CHECK:       fusion.all_gather %arg1
// CHECK:       fusion.all_gather %arg2
// CHECK:       fusion.all_gather %arg3
// CHECK:       fusion.all_gather %arg2
// CHECK:       fusion.all_gather %arg1
// CHECK:       fusion.abs
// CHECK:       [[W:%.*]] = fusion.await
// CHECK-NEXT:  [[V:%.*]] = fusion.reshape [[W]]
// CHECK-NEXT:  fusion.group loop ({{.*}} = [[V]] : tensor<2x4xf32>)
// CHECK-NEXT:    fusion.log
// CHECK-NOT:   fusion.all_gather
// CHECK:       return
// REMARK:      [Passed] prefetch |{{.*}}Budget=128, Gathers=5, NeededBytes=64, PeakBytes=128, RegionBytes=128, {{.*}}Repeated=2
fusion.mesh @m(dp = 2)
func.func @main(%x: tensor<8xf32>, %p: tensor<4xf32>, %q: tensor<4xf32>, %r: tensor<4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %u = fusion.all_gather %p dim = 0 on @m[dp] : (tensor<4xf32>) -> tensor<8xf32>
  %t = fusion.reshape %u : tensor<8xf32> to tensor<2x4xf32>
  %v = fusion.all_gather %q dim = 0 on @m[dp] : (tensor<4xf32>) -> tensor<8xf32>
  %w = fusion.all_gather %r dim = 0 on @m[dp] : (tensor<4xf32>) -> tensor<8xf32>
  %a = fusion.group loop (%in = %t : tensor<2x4xf32>) -> tensor<2x4xf32> {
    %0 = fusion.exp %in : tensor<2x4xf32>
    fusion.yield %0 : tensor<2x4xf32>
  }
  %b = fusion.group loop (%in = %v : tensor<8xf32>) -> tensor<8xf32> {
    %0 = fusion.neg %in : tensor<8xf32>
    fusion.yield %0 : tensor<8xf32>
  }
  %c = fusion.group loop (%in = %w : tensor<8xf32>) -> tensor<8xf32> {
    %0 = fusion.sqrt %in : tensor<8xf32>
    fusion.yield %0 : tensor<8xf32>
  }
  %d = fusion.group loop (%in = %w : tensor<8xf32>) -> tensor<8xf32> {
    %0 = fusion.tanh %in : tensor<8xf32>
    fusion.yield %0 : tensor<8xf32>
  }
  %e = fusion.group loop (%in = %v : tensor<8xf32>) -> tensor<8xf32> {
    %0 = fusion.abs %in : tensor<8xf32>
    fusion.yield %0 : tensor<8xf32>
  }
  %f = fusion.group loop (%in = %t : tensor<2x4xf32>) -> tensor<2x4xf32> {
    %0 = fusion.log %in : tensor<2x4xf32>
    fusion.yield %0 : tensor<2x4xf32>
  }
  return %a, %f, %b, %c, %d, %e : tensor<2x4xf32>, tensor<2x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// A view of the first gather that only a later reader has goes with it: left behind, it would
// keep 64 bytes to the end.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-1: fusion.reshape
// CHECK-NOT:   fusion.reshape
// CHECK:       return
// REMARK:      [Passed] prefetch |{{.*}}Budget=128, Gathers=5, NeededBytes=64, PeakBytes=128, {{.*}}Repeated=2
fusion.mesh @m(dp = 2)
func.func @main(%x: tensor<8xf32>, %p: tensor<4xf32>, %q: tensor<4xf32>, %r: tensor<4xf32>) -> (tensor<8xf32>, tensor<2x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %u = fusion.all_gather %p dim = 0 on @m[dp] : (tensor<4xf32>) -> tensor<8xf32>
  %v = fusion.all_gather %q dim = 0 on @m[dp] : (tensor<4xf32>) -> tensor<8xf32>
  %w = fusion.all_gather %r dim = 0 on @m[dp] : (tensor<4xf32>) -> tensor<8xf32>
  %t = fusion.reshape %u : tensor<8xf32> to tensor<2x4xf32>
  %a = fusion.group loop (%in = %u : tensor<8xf32>) -> tensor<8xf32> {
    %0 = fusion.exp %in : tensor<8xf32>
    fusion.yield %0 : tensor<8xf32>
  }
  %b = fusion.group loop (%in = %v : tensor<8xf32>) -> tensor<8xf32> {
    %0 = fusion.neg %in : tensor<8xf32>
    fusion.yield %0 : tensor<8xf32>
  }
  %c = fusion.group loop (%in = %w : tensor<8xf32>) -> tensor<8xf32> {
    %0 = fusion.sqrt %in : tensor<8xf32>
    fusion.yield %0 : tensor<8xf32>
  }
  %d = fusion.group loop (%in = %w : tensor<8xf32>) -> tensor<8xf32> {
    %0 = fusion.tanh %in : tensor<8xf32>
    fusion.yield %0 : tensor<8xf32>
  }
  %e = fusion.group loop (%in = %v : tensor<8xf32>) -> tensor<8xf32> {
    %0 = fusion.abs %in : tensor<8xf32>
    fusion.yield %0 : tensor<8xf32>
  }
  %f = fusion.group loop (%in = %t : tensor<2x4xf32>) -> tensor<2x4xf32> {
    %0 = fusion.log %in : tensor<2x4xf32>
    fusion.yield %0 : tensor<2x4xf32>
  }
  return %a, %f, %b, %c, %d, %e : tensor<8xf32>, tensor<2x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// Two that one op reads.
// CHECK-LABEL: func.func @main
// REMARK: [Passed] prefetch |{{.*}}Budget=128, Gathers=2, NeededBytes=128
fusion.mesh @m(dp = 2)
func.func @main(%p: tensor<4xf32>, %q: tensor<4xf32>) -> tensor<8xf32> {
  %v = fusion.all_gather %p dim = 0 on @m[dp] : (tensor<4xf32>) -> tensor<8xf32>
  %w = fusion.all_gather %q dim = 0 on @m[dp] : (tensor<4xf32>) -> tensor<8xf32>
  %a = fusion.group loop (%in = %v : tensor<8xf32>, %in2 = %w : tensor<8xf32>) -> tensor<8xf32> {
    %0 = fusion.mul %in, %in2 : tensor<8xf32>
    fusion.yield %0 : tensor<8xf32>
  }
  return %a : tensor<8xf32>
}

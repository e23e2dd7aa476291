// RUN: fusion-opt %s --split-input-file --fusion-prefetch-all-gather=device=h200 --fusion-verify-graph --remarks-filter=fusion -o %t.once 2>&1 | FileCheck %s
// RUN: FileCheck %s --check-prefix=IR --enable-var-scope < %t.once
// Twice is once.
// RUN: fusion-opt %t.once --split-input-file --fusion-prefetch-all-gather=device=h200 | diff %t.once -
// A limit below what the arena would have to hold: the least.
// RUN: fusion-opt %s --split-input-file --fusion-prefetch-all-gather="device=h200 memory-limit=40000000" --remarks-filter=fusion -o /dev/null 2>&1 | FileCheck %s --check-prefix=LIMIT

// Three weights of 16 MiB, each read in a forward pass and again in a backward
// pass of kernels that take as long as a fifth of a gather: within twice what one
// op reads, two would be gathered again with nothing to hide them. Three fit in
// 48 MiB, and no more than that is asked for.
// CHECK:      [Passed] prefetch-budget |{{.*}}Budget=50331648, LeastBudget=33554432,{{.*}}Trials=2
// CHECK:      [Passed] prefetch |{{.*}}Budget=50331648, Gathers=3,{{.*}}Repeated=0
// LIMIT:      [Passed] prefetch-budget |{{.*}}Budget=33554432, LeastBudget=33554432,{{.*}}Trials=2
// LIMIT:      [Passed] prefetch |{{.*}}Budget=33554432, Gathers=5,{{.*}}Repeated=2
// IR-LABEL:   func.func @main
// IR-SAME:    fusion.prefetch_budget = 50331648
// IR-COUNT-3: fusion.all_gather
// IR-NOT:     fusion.all_gather
// IR:         return
fusion.mesh @m(dp = 2)
func.func @main(%x: tensor<8388608xbf16>, %p: tensor<4194304xbf16>, %q: tensor<4194304xbf16>, %r: tensor<4194304xbf16>) -> tensor<8388608xbf16> {
  %u = fusion.all_gather %p dim = 0 on @m[dp] : (tensor<4194304xbf16>) -> tensor<8388608xbf16>
  %v = fusion.all_gather %q dim = 0 on @m[dp] : (tensor<4194304xbf16>) -> tensor<8388608xbf16>
  %w = fusion.all_gather %r dim = 0 on @m[dp] : (tensor<4194304xbf16>) -> tensor<8388608xbf16>
  %a = fusion.group loop (%in = %x : tensor<8388608xbf16>, %in2 = %u : tensor<8388608xbf16>) -> tensor<8388608xbf16> {
    %0 = fusion.add %in, %in2 : tensor<8388608xbf16>
    fusion.yield %0 : tensor<8388608xbf16>
  }
  %b = fusion.group loop (%in = %a : tensor<8388608xbf16>, %in2 = %v : tensor<8388608xbf16>) -> tensor<8388608xbf16> {
    %0 = fusion.add %in, %in2 : tensor<8388608xbf16>
    fusion.yield %0 : tensor<8388608xbf16>
  }
  %c = fusion.group loop (%in = %b : tensor<8388608xbf16>, %in2 = %w : tensor<8388608xbf16>) -> tensor<8388608xbf16> {
    %0 = fusion.add %in, %in2 : tensor<8388608xbf16>
    fusion.yield %0 : tensor<8388608xbf16>
  }
  %d = fusion.group loop (%in = %c : tensor<8388608xbf16>, %in2 = %w : tensor<8388608xbf16>) -> tensor<8388608xbf16> {
    %0 = fusion.mul %in, %in2 : tensor<8388608xbf16>
    fusion.yield %0 : tensor<8388608xbf16>
  }
  %e = fusion.group loop (%in = %d : tensor<8388608xbf16>, %in2 = %v : tensor<8388608xbf16>) -> tensor<8388608xbf16> {
    %0 = fusion.mul %in, %in2 : tensor<8388608xbf16>
    fusion.yield %0 : tensor<8388608xbf16>
  }
  %f = fusion.group loop (%in = %e : tensor<8388608xbf16>, %in2 = %u : tensor<8388608xbf16>) -> tensor<8388608xbf16> {
    %0 = fusion.mul %in, %in2 : tensor<8388608xbf16>
    fusion.yield %0 : tensor<8388608xbf16>
  }
  return %f : tensor<8388608xbf16>
}

// -----

// The same order, weights of 2 MiB and products of 0.7 ms between the readers:
// what is gathered again is hidden, and costs the products less than 0.5 %. The least
// is enough, though 6 MiB would hold them all.
// CHECK:      [Passed] prefetch-budget |{{.*}}Budget=4194304, LeastBudget=4194304,{{.*}}Trials=2
// CHECK:      [Passed] prefetch |{{.*}}Budget=4194304, Gathers=5,{{.*}}Repeated=2
// IR-LABEL:   func.func @main
// IR-SAME:    fusion.prefetch_budget = 4194304
fusion.mesh @m(dp = 2)
func.func @main(%x: tensor<262144x1024xbf16>, %p: tensor<512x1024xbf16>, %q: tensor<512x1024xbf16>, %r: tensor<512x1024xbf16>) -> tensor<262144x1024xbf16> {
  %u = fusion.all_gather %p dim = 0 on @m[dp] : (tensor<512x1024xbf16>) -> tensor<1024x1024xbf16>
  %v = fusion.all_gather %q dim = 0 on @m[dp] : (tensor<512x1024xbf16>) -> tensor<1024x1024xbf16>
  %w = fusion.all_gather %r dim = 0 on @m[dp] : (tensor<512x1024xbf16>) -> tensor<1024x1024xbf16>
  %a = fusion.group library (%in = %x : tensor<262144x1024xbf16>, %in2 = %u : tensor<1024x1024xbf16>) -> tensor<262144x1024xbf16> {
    %0 = fusion.matmul %in, %in2 : tensor<262144x1024xbf16>, tensor<1024x1024xbf16>
    fusion.yield %0 : tensor<262144x1024xbf16>
  }
  %b = fusion.group library (%in = %a : tensor<262144x1024xbf16>, %in2 = %v : tensor<1024x1024xbf16>) -> tensor<262144x1024xbf16> {
    %0 = fusion.matmul %in, %in2 : tensor<262144x1024xbf16>, tensor<1024x1024xbf16>
    fusion.yield %0 : tensor<262144x1024xbf16>
  }
  %c = fusion.group library (%in = %b : tensor<262144x1024xbf16>, %in2 = %w : tensor<1024x1024xbf16>) -> tensor<262144x1024xbf16> {
    %0 = fusion.matmul %in, %in2 : tensor<262144x1024xbf16>, tensor<1024x1024xbf16>
    fusion.yield %0 : tensor<262144x1024xbf16>
  }
  %d = fusion.group library (%in = %c : tensor<262144x1024xbf16>, %in2 = %w : tensor<1024x1024xbf16>) -> tensor<262144x1024xbf16> {
    %0 = fusion.matmul %in, %in2 : tensor<262144x1024xbf16>, tensor<1024x1024xbf16>
    fusion.yield %0 : tensor<262144x1024xbf16>
  }
  %e = fusion.group library (%in = %d : tensor<262144x1024xbf16>, %in2 = %v : tensor<1024x1024xbf16>) -> tensor<262144x1024xbf16> {
    %0 = fusion.matmul %in, %in2 : tensor<262144x1024xbf16>, tensor<1024x1024xbf16>
    fusion.yield %0 : tensor<262144x1024xbf16>
  }
  %f = fusion.group library (%in = %e : tensor<262144x1024xbf16>, %in2 = %u : tensor<1024x1024xbf16>) -> tensor<262144x1024xbf16> {
    %0 = fusion.matmul %in, %in2 : tensor<262144x1024xbf16>, tensor<1024x1024xbf16>
    fusion.yield %0 : tensor<262144x1024xbf16>
  }
  return %f : tensor<262144x1024xbf16>
}

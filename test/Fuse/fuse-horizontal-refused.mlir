// RUN: fusion-opt %s --fusion-fuse=no-fuse=vertical --remarks-filter=fusion -split-input-file -o %t.mlir 2>&1 | FileCheck %s
// RUN: FileCheck %s --check-prefix=GROUPS < %t.mlir
// RUN: fusion-opt %s --fusion-fuse-vertical=separate --fusion-fuse-horizontal="max-members=2 max-operands=5 max-extra-bytes=64" --remarks-filter=fusion -split-input-file -o /dev/null 2>&1 | FileCheck %s --check-prefix=LIMITS
// RUN: fusion-opt %s --fusion-fuse="no-fuse=vertical memory-limit=100" --remarks-filter=fusion -split-input-file -o /dev/null 2>&1 | FileCheck %s --check-prefix=BUDGET
// RUN: fusion-opt %s --fusion-fuse-vertical=separate --fusion-fuse-horizontal=max-extra-bytes=1000000000 --remarks-filter=fusion -split-input-file -o /dev/null 2>&1 | FileCheck %s --check-prefix=PROFIT
// RUN: fusion-opt %s --fusion-fuse-vertical="separate device=h200" --fusion-fuse-horizontal=device=h200 --remarks-filter=fusion -split-input-file -o /dev/null 2>&1 | FileCheck %s --check-prefix=CACHE

// Each rule that keeps two groups of one key apart, with what it looked at. The
// id is the remark's name.

// Each draw has a stream of its own.
// GROUPS-NOT: horizontal
// GROUPS: func.func @profit
// CHECK: [Missed] horizontal-random | {{.*}}ops=rng_uniform
func.func @random(%s: tensor<i64>, %o: tensor<i64>, %p: tensor<i64>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = fusion.rng_uniform %s, %o : tensor<i64>, tensor<i64>, tensor<8xf32>
  %1 = fusion.rng_uniform %s, %p : tensor<i64>, tensor<i64>, tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}

// -----

// No member takes the element type of another.
// CHECK: [Missed] horizontal-dtype | {{.*}}ops=exp
func.func @dtype(%a: tensor<8xf32>, %b: tensor<8xbf16>) -> (tensor<8xf32>, tensor<8xbf16>) {
  %0 = fusion.exp %a : tensor<8xf32>
  %1 = fusion.exp %b : tensor<8xbf16>
  return %0, %1 : tensor<8xf32>, tensor<8xbf16>
}

// -----

// The same operands, another result type.
// CHECK: [Missed] horizontal-dtype | {{.*}}ops=cast
func.func @result_type(%a: tensor<8xf32>, %b: tensor<8xf32>) -> (tensor<8xf16>, tensor<8xbf16>) {
  %0 = fusion.cast %a : tensor<8xf32> to tensor<8xf16>
  %1 = fusion.cast %b : tensor<8xf32> to tensor<8xbf16>
  return %0, %1 : tensor<8xf16>, tensor<8xbf16>
}

// -----

// Other attributes or another constant: another key, nothing is a candidate.
// CHECK-NOT: [{{Passed|Missed}}] horizontal
func.func @other_attributes(%a: tensor<8xf32>, %b: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = fusion.leaky_relu %a alpha = 0.25 : tensor<8xf32>
  %1 = fusion.leaky_relu %b alpha = 0.5 : tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}

// -----

// The second may write into the bytes that the first still reads.
// CHECK: [Missed] horizontal-alias | {{.*}}kind=scatter
func.func @alias(%a: tensor<8xf32>, %i: tensor<2x1xi64>, %j: tensor<2x1xi64>, %u: tensor<2xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %x = fusion.exp %a : tensor<8xf32>
  %0 = fusion.scatter set, %x, %i, %u : tensor<8xf32>, tensor<2x1xi64>, tensor<2xf32>
  %1 = fusion.scatter set, %x, %j, %u : tensor<8xf32>, tensor<2x1xi64>, tensor<2xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}

// -----

// Something with effects stands between the two.
// CHECK: [Missed] barrier | {{.*}}ops=exp
func.func @barrier(%a: tensor<8xf32>, %b: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = fusion.exp %a : tensor<8xf32>
  fusion.kernel_call "c" "log" "void log(int64_t batch) {}" () flops = 0 bytes = 0 {side_effects} : () -> ()
  %1 = fusion.exp %b : tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}

// -----

// The reduction would wait for an op that it does not need.
fusion.mesh @m(dp = 2)
// CHECK: [Missed] ready-time | {{.*}}ops=exp
func.func @ready_time(%a: tensor<8xf32>, %b: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = fusion.exp %a : tensor<8xf32>
  %1 = fusion.exp %b : tensor<8xf32>
  %r = fusion.all_reduce sum, %0 on @m[dp] : tensor<8xf32>
  return %r, %1 : tensor<8xf32>, tensor<8xf32>
}

// -----

// 131072 times the elements of the other, at four times its bandwidth, and enough
// to fill the device.
// CHECK: [Missed] horizontal-balance | {{.*}}limit=800, ops=exp, {{.*}}value=3276800
func.func @balance(%a: tensor<1048576xf32>, %b: tensor<8xf32>) -> (tensor<1048576xf32>, tensor<8xf32>) {
  %0 = fusion.exp %a : tensor<1048576xf32>
  %1 = fusion.exp %b : tensor<8xf32>
  return %0, %1 : tensor<1048576xf32>, tensor<8xf32>
}

// -----

// Three results of 16 MiB would wait for the fourth op, and 32 MiB fit the cache:
// 16 MiB would be written and read again, at 40 GB/s 839 us, against 6 us of
// launches. (Work of 3355 us is on both sides: 128 MiB at 40 GB/s.) By default
// only half of the cache may wait: 16 MiB, or 30 MiB of an H200's 60.
// CHECK: [Missed] horizontal-memory | {{.*}}limit=16777216, ops=tanh, {{.*}}value=33554432
// CACHE: [Missed] horizontal-memory | {{.*}}limit=31457280, ops=tanh, {{.*}}value=33554432
// PROFIT: [Missed] horizontal-profit | {{.*}}limit=3363443, ops=tanh, {{.*}}us_fused=4196.30, us_serial=3363.44, us_streams=3363.44, value=4196304
func.func @profit(%a: tensor<4194304xf32>, %b: tensor<4194304xf32>, %c: tensor<4194304xf32>, %d: tensor<4194304xf32>) -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) {
  %0 = fusion.tanh %a : tensor<4194304xf32>
  %s0 = fusion.reduce sum, %0 dims = [0] : tensor<4194304xf32>
  %1 = fusion.tanh %b : tensor<4194304xf32>
  %s1 = fusion.reduce sum, %1 dims = [0] : tensor<4194304xf32>
  %2 = fusion.tanh %c : tensor<4194304xf32>
  %s2 = fusion.reduce sum, %2 dims = [0] : tensor<4194304xf32>
  %3 = fusion.tanh %d : tensor<4194304xf32>
  %s3 = fusion.reduce sum, %3 dims = [0] : tensor<4194304xf32>
  return %s0, %s1, %s2, %s3 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
}

// -----

// The limits are options.
// LIMITS: [Missed] max-members | {{.*}}limit=2, ops=neg, {{.*}}value=3
func.func @max_members(%a: tensor<8xf32>, %b: tensor<8xf32>, %c: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %0 = fusion.neg %a : tensor<8xf32>
  %1 = fusion.neg %b : tensor<8xf32>
  %2 = fusion.neg %c : tensor<8xf32>
  return %0, %1, %2 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// LIMITS: [Missed] max-operands | {{.*}}limit=5, ops=add, {{.*}}value=6
func.func @max_operands(%a: tensor<8xf32>, %b: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = fusion.add %a, %a : tensor<8xf32>
  %1 = fusion.add %a, %b : tensor<8xf32>
  %2 = fusion.add %b, %a : tensor<8xf32>
  return %1, %2 : tensor<8xf32>, tensor<8xf32>
}

// -----

// The first result, 68 bytes, would die in the second op already.
// LIMITS: [Missed] horizontal-memory | {{.*}}limit=64, ops=exp, {{.*}}value=68
func.func @memory(%a: tensor<17xf32>, %b: tensor<17xf32>) -> (tensor<17xf32>, tensor<17xf32>) {
  %0 = fusion.exp %a : tensor<17xf32>
  %1 = fusion.tanh %0 : tensor<17xf32>
  %2 = fusion.exp %b : tensor<17xf32>
  return %1, %2 : tensor<17xf32>, tensor<17xf32>
}

// -----

// 68 bytes are alive at once at least (a result of the function is not counted);
// of 100 in all, a launch may add 32, and needs 68.
// BUDGET: [Missed] horizontal-memory | {{.*}}limit=32, ops=exp, {{.*}}value=68
func.func @budget(%a: tensor<17xf32>, %b: tensor<17xf32>) -> (tensor<17xf32>, tensor<17xf32>) {
  %0 = fusion.exp %a : tensor<17xf32>
  %1 = fusion.tanh %0 : tensor<17xf32>
  %2 = fusion.exp %b : tensor<17xf32>
  return %1, %2 : tensor<17xf32>, tensor<17xf32>
}

// Groups and communications: no group waits for one that it does not need, and
// none makes one wait for more than it saves.
//
// RUN: fusion-opt %s -split-input-file --fusion-fuse --remarks-filter=fusion -o %t.mlir 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: FileCheck %s < %t.mlir
// Kernels and reductions use one link: nothing hides behind the other.
// RUN: fusion-opt %s -split-input-file --fusion-fuse=device=%S/../Schedule/Inputs/pcie.json | FileCheck %s --check-prefix=BUS

// A reduction is no barrier for what it has nothing to do with. But where two
// kernels are done before it is, one would save nothing.
// BUS-LABEL: func @beside
// BUS: fusion.all_reduce
// BUS: fusion.group horizontal
// CHECK-LABEL: func @beside
// CHECK-NOT: fusion.group horizontal
// CHECK: return
// REMARK: [Passed] horizontal-exposed | {{.*}}no more communication is exposed than by the groups apart", us_exposed=
// REMARK: [Missed] horizontal-hidden | {{.*}} ops=exp
fusion.mesh @m(dp = 2)
func.func @beside(%a: tensor<8xf32>, %b: tensor<9xf32>, %g: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<9xf32>) {
  %r = fusion.all_reduce sum, %g on @m[dp] : tensor<8xf32>
  %0 = fusion.exp %a : tensor<8xf32>
  %s = fusion.all_reduce max, %g on @m[dp] : tensor<8xf32>
  %1 = fusion.exp %b : tensor<9xf32>
  %2 = fusion.add %r, %s : tensor<8xf32>
  return %2, %0, %1 : tensor<8xf32>, tensor<8xf32>, tensor<9xf32>
}

// -----

// A chain goes on across a reduction.
// CHECK-LABEL: func @across
// CHECK: fusion.group loop
// CHECK-NEXT: fusion.exp
// CHECK-NEXT: fusion.neg
fusion.mesh @m(dp = 2)
func.func @across(%a: tensor<8xf32>, %g: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = fusion.exp %a : tensor<8xf32>
  %r = fusion.all_reduce sum, %g on @m[dp] : tensor<8xf32>
  %1 = fusion.neg %0 : tensor<8xf32>
  return %r, %1 : tensor<8xf32>, tensor<8xf32>
}

// -----

// Updates of two buckets start with their own one: two launches of two, or of the
// last ones where the first run while the second bucket is reduced.
// BUS-LABEL: func @updates
// BUS: fusion.all_reduce sum, {{.*}} {fusion.bucket = 0 : i64}
// BUS: fusion.all_reduce sum, {{.*}} {fusion.bucket = 1 : i64}
// BUS: fusion.group horizontal {{.*}} -> (tensor<8xf32>, tensor<9xf32>) {
// BUS: fusion.group horizontal {{.*}} -> (tensor<10xf32>, tensor<11xf32>) {
// BUS-NOT: fusion.group horizontal
// BUS: return
// CHECK-LABEL: func @updates
// CHECK: fusion.group loop {{.*}} -> tensor<8xf32> {
// CHECK: fusion.group loop {{.*}} -> tensor<9xf32> {
// CHECK: fusion.group horizontal {{.*}} -> (tensor<10xf32>, tensor<11xf32>) {
// CHECK-NOT: fusion.group horizontal
// REMARK: [Missed] horizontal-bucket | {{.*}} ops=sub
// REMARK: [Missed] horizontal-hidden | {{.*}} ops=sub
fusion.mesh @m(dp = 2)
func.func @updates(%a: tensor<8xf32>, %b: tensor<9xf32>, %c: tensor<10xf32>, %d: tensor<11xf32>, %w: tensor<8xf32>, %x: tensor<9xf32>, %y: tensor<10xf32>, %z: tensor<11xf32>) -> (tensor<8xf32>, tensor<9xf32>, tensor<10xf32>, tensor<11xf32>) {
  %0:2 = fusion.all_reduce sum, %a, %b on @m[dp] {fusion.bucket = 0 : i64} : tensor<8xf32>, tensor<9xf32>
  %1:2 = fusion.all_reduce sum, %c, %d on @m[dp] {fusion.bucket = 1 : i64} : tensor<10xf32>, tensor<11xf32>
  %2 = fusion.sub %w, %0#0 : tensor<8xf32>
  %3 = fusion.sub %x, %0#1 : tensor<9xf32>
  %4 = fusion.sub %y, %1#0 : tensor<10xf32>
  %5 = fusion.sub %z, %1#1 : tensor<11xf32>
  return %2, %3, %4, %5 : tensor<8xf32>, tensor<9xf32>, tensor<10xf32>, tensor<11xf32>
}

// -----

// What waits for both of them may be one launch; the remark says of how many.
// CHECK-LABEL: func @norm
// CHECK: fusion.group horizontal
// CHECK-NOT: fusion.group horizontal
// REMARK: [Passed] fuse-horizontal | {{.*}} buckets=2, {{.*}} ops=broadcast+mul, {{.*}} us_fused=2.{{[0-9]+}}, us_serial=4.
fusion.mesh @m(dp = 2)
func.func @norm(%a: tensor<8xf32>, %b: tensor<9xf32>) -> (tensor<8xf32>, tensor<9xf32>) {
  %0 = fusion.all_reduce sum, %a on @m[dp] {fusion.bucket = 0 : i64} : tensor<8xf32>
  %1 = fusion.all_reduce sum, %b on @m[dp] {fusion.bucket = 1 : i64} : tensor<9xf32>
  %s = fusion.reduce sum, %0 dims = [0] : tensor<8xf32>
  %t = fusion.reduce max, %1 dims = [0] : tensor<9xf32>
  %u = fusion.add %s, %t : tensor<f32>
  %n = fusion.all_reduce max, %u on @m[dp] : tensor<f32>
  %2 = fusion.broadcast %n dims = [] : tensor<f32> to tensor<8xf32>
  %3 = fusion.mul %0, %2 : tensor<8xf32>
  %4 = fusion.broadcast %n dims = [] : tensor<f32> to tensor<9xf32>
  %5 = fusion.mul %1, %4 : tensor<9xf32>
  return %3, %5 : tensor<8xf32>, tensor<9xf32>
}

// -----

// Gradients of two buckets are no launch: the first would wait for the second.
// CHECK-LABEL: func @gradients
// CHECK-NOT: horizontal
// CHECK: return
// REMARK: [Missed] horizontal-bucket | {{.*}} ops=exp
fusion.mesh @m(dp = 2)
func.func @gradients(%a: tensor<8xf32>, %b: tensor<9xf32>) -> (tensor<8xf32>, tensor<9xf32>) {
  %0 = fusion.exp %a : tensor<8xf32>
  %r = fusion.all_reduce sum, %0 on @m[dp] {fusion.bucket = 0 : i64} : tensor<8xf32>
  %1 = fusion.exp %b : tensor<9xf32>
  %s = fusion.all_reduce sum, %1 on @m[dp] {fusion.bucket = 1 : i64} : tensor<9xf32>
  return %r, %s : tensor<8xf32>, tensor<9xf32>
}

// -----

// The gradient's square waits for a product that its reduction does not wait
// for: fused, the reduction would.
// CHECK-LABEL: func @delay
// CHECK: %[[G:.*]] = fusion.group loop
// CHECK: fusion.all_reduce sum, %[[G]]
// CHECK: fusion.matmul
// REMARK: [Missed] ready-time | {{.*}} limit={{.*}} value=
fusion.mesh @m(dp = 2)
func.func @delay(%a: tensor<64x64xf32>, %b: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  %0 = fusion.exp %a : tensor<64x64xf32>
  %r = fusion.all_reduce sum, %0 on @m[dp] {fusion.bucket = 0 : i64} : tensor<64x64xf32>
  %1 = fusion.matmul %b, %b : tensor<64x64xf32>, tensor<64x64xf32>
  %2 = fusion.matmul %1, %b : tensor<64x64xf32>, tensor<64x64xf32>
  %3 = fusion.reduce max, %2 dims = [0, 1] : tensor<64x64xf32>
  %4 = fusion.broadcast %3 dims = [] : tensor<f32> to tensor<64x64xf32>
  %5 = fusion.mul %0, %4 : tensor<64x64xf32>
  return %r, %5 : tensor<64x64xf32>, tensor<64x64xf32>
}

// -----

// The product would wait for the gathered value, which it does not need.
// CHECK-LABEL: func @gather
// CHECK: %[[G:.*]] = fusion.group loop
// CHECK-NEXT: fusion.exp
// CHECK-NEXT: fusion.yield
// CHECK: fusion.matmul
// CHECK: fusion.all_gather
// REMARK: [Missed] ready-time
fusion.mesh @m(dp = 2)
func.func @gather(%a: tensor<8x8xf32>, %w: tensor<4x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %0 = fusion.exp %a : tensor<8x8xf32>
  %1 = fusion.matmul %0, %a : tensor<8x8xf32>, tensor<8x8xf32>
  %g = fusion.all_gather %w dim = 0 on @m[dp] : (tensor<4x8xf32>) -> tensor<8x8xf32>
  %2 = fusion.sub %0, %g : tensor<8x8xf32>
  return %1, %2 : tensor<8x8xf32>, tensor<8x8xf32>
}

// RUN: fusion-opt %s --split-input-file --fusion-share-units=device=%S/Inputs/shared-units.json --remarks-filter=fusion 2>%t.remarks | FileCheck %s --enable-var-scope
// RUN: FileCheck %s --check-prefix=REMARK < %t.remarks
// Twice is once.
// RUN: fusion-opt %s --split-input-file --fusion-share-units=device=%S/Inputs/shared-units.json --fusion-share-units=device=%S/Inputs/shared-units.json | FileCheck %s --enable-var-scope
// A CPU, and a link of which the file does not say it, have nothing to share.
// RUN: fusion-opt %s --split-input-file --fusion-share-units | FileCheck %s --check-prefix=NONE
// RUN: fusion-opt %s --split-input-file --fusion-share-units=device=h200 | FileCheck %s --check-prefix=NONE
// NONE-NOT: units

// Products between the start of a move and its await leave 8 of 100; what is no
// product, and the product behind the await, take all.
// CHECK-LABEL: func.func @main
// CHECK: fusion.all_reduce sum, {{.*}} {fusion.units = 8 : i64}
// CHECK: fusion.collective_permute {{.*}} {fusion.units = 8 : i64}
// CHECK: fusion.group library{{.*}}op = "matmul"{{.*}}units = 92 : i64
// CHECK: fusion.group library{{.*}}op = "attention"
// CHECK-NOT: units
// CHECK: fusion.await
// CHECK: fusion.group library{{.*}}op = "matmul"
// CHECK-NOT: units
// CHECK: return
// REMARK: [Passed] share-units{{.*}}Multiprocessors=8, Products=1
fusion.mesh @m(tp = 2)
func.func @main(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %s = fusion.all_reduce sum, %x on @m[tp] : tensor<4x4xf32>
  %f = fusion.async stream = 3 -> tensor<4x4xf32> {
    %0 = fusion.collective_permute %x sources = [0, 1] targets = [1, 0] on @m[tp] : tensor<4x4xf32>
    fusion.yield %0 : tensor<4x4xf32>
  }
  %g = fusion.group library (%a = %s : tensor<4x4xf32>) -> tensor<4x4xf32> attributes {fusion.call = {op = "matmul", operands = array<i64: 0, 0, 1>}} {
    %0 = fusion.matmul %a, %a : tensor<4x4xf32>, tensor<4x4xf32>
    fusion.yield %0 : tensor<4x4xf32>
  }
  %h = fusion.group library (%a = %g : tensor<4x4xf32>) -> tensor<4x4xf32> attributes {fusion.call = {op = "attention", operands = array<i64: 0, 1>}} {
    %0 = fusion.exp %a : tensor<4x4xf32>
    fusion.yield %0 : tensor<4x4xf32>
  }
  %r = fusion.await %f : !fusion.future<tensor<4x4xf32>>
  %i = fusion.group library (%a = %r : tensor<4x4xf32>) -> tensor<4x4xf32> attributes {fusion.call = {op = "matmul", operands = array<i64: 0, 0, 1>}} {
    %0 = fusion.matmul %a, %a : tensor<4x4xf32>, tensor<4x4xf32>
    fusion.yield %0 : tensor<4x4xf32>
  }
  return %g, %h, %i : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// Copy engines need none. A region that another one awaits is open until that
// is awaited.
// CHECK-LABEL: func.func @main
// CHECK: fusion.collective_permute {{.*}} {fusion.transport = "peer"}
// CHECK: fusion.group library{{.*}}op = "matmul"
// CHECK-NOT: units
// CHECK: fusion.reduce_scatter {{.*}} {fusion.units = 8 : i64}
// CHECK: fusion.all_gather {{.*}} {fusion.transport = "peer"}
// CHECK: fusion.group library{{.*}}op = "matmul"{{.*}}units = 92 : i64
// CHECK: return
// REMARK: [Passed] share-units{{.*}}Multiprocessors=8, Products=1
fusion.mesh @m(tp = 2)
func.func @main(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %f = fusion.async stream = 3 -> tensor<4x4xf32> {
    %0 = fusion.collective_permute %x sources = [0, 1] targets = [1, 0] on @m[tp] {fusion.transport = "peer"} : tensor<4x4xf32>
    fusion.yield %0 : tensor<4x4xf32>
  }
  %g = fusion.group library (%a = %x : tensor<4x4xf32>) -> tensor<4x4xf32> attributes {fusion.call = {op = "matmul", operands = array<i64: 0, 0, 1>}} {
    %0 = fusion.matmul %a, %a : tensor<4x4xf32>, tensor<4x4xf32>
    fusion.yield %0 : tensor<4x4xf32>
  }
  %r = fusion.await %f : !fusion.future<tensor<4x4xf32>>
  %s = fusion.async stream = 1 -> tensor<2x4xf32> {
    %0 = fusion.reduce_scatter sum, %x dim = 0 on @m[tp] : (tensor<4x4xf32>) -> tensor<2x4xf32>
    fusion.yield %0 : tensor<2x4xf32>
  }
  %t = fusion.async stream = 2 -> tensor<4x4xf32> {
    %0 = fusion.await %s : !fusion.future<tensor<2x4xf32>>
    %1 = fusion.all_gather %0 dim = 0 on @m[tp] {fusion.transport = "peer"} : (tensor<2x4xf32>) -> tensor<4x4xf32>
    fusion.yield %1 : tensor<4x4xf32>
  }
  %h = fusion.group library (%a = %g : tensor<4x4xf32>) -> tensor<4x4xf32> attributes {fusion.call = {op = "matmul", operands = array<i64: 0, 0, 1>}} {
    %0 = fusion.matmul %a, %a : tensor<4x4xf32>, tensor<4x4xf32>
    fusion.yield %0 : tensor<4x4xf32>
  }
  %u = fusion.await %t : !fusion.future<tensor<4x4xf32>>
  return %g, %h, %r, %u : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}

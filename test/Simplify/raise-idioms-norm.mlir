// Norms as exporters write them. The chain of f32 that is the named op's own
// decomposition is exact; every other one says what rounds differently.
//
// RUN: fusion-opt %s -split-input-file --fusion-raise-idioms | FileCheck %s -enable-var-scope
// RUN: fusion-opt %s -split-input-file --fusion-raise-idioms --fusion-raise-idioms | FileCheck %s -enable-var-scope
// RUN: fusion-opt %s -split-input-file --fusion-raise-idioms --remarks-filter=fusion -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: fusion-opt %s -split-input-file --fusion-raise-idioms=exact-rewrites-only --remarks-filter=fusion 2>&1 | FileCheck %s --check-prefix=EXACT

// The decomposition, op for op: bits are the same, so nothing is recorded, and
// exact rewrites include it.
// CHECK-NOT: fusion.rewrites
// CHECK-LABEL: func @layer_norm
// CHECK-SAME: %[[X:.*]]: tensor<2x8xf32>, %[[S:.*]]: tensor<8xf32>, %[[B:.*]]: tensor<8xf32>
// CHECK-NEXT: %[[Y:.*]] = fusion.layer_norm %[[X]] scale %[[S]] bias %[[B]] epsilon = 2.500000e-01 axis = 1
// CHECK-NEXT: return %[[Y]]
// REMARK: remark: [Passed] raise-idioms {{.*}} Exact=true, Ops=11, Remark="raised to fusion.layer_norm"
// EXACT: [Passed] raise-idioms {{.*}}"raised to fusion.layer_norm"
func.func @layer_norm(%x: tensor<2x8xf32>, %s: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<2x8xf32> {
  %eps = fusion.constant dense<0.25> : tensor<2xf32>
  %mean = fusion.reduce mean, %x dims = [1] : tensor<2x8xf32>
  %means = fusion.broadcast %mean dims = [0] : tensor<2xf32> to tensor<2x8xf32>
  %c = fusion.sub %x, %means : tensor<2x8xf32>
  %sq = fusion.mul %c, %c : tensor<2x8xf32>
  %var = fusion.reduce mean, %sq dims = [1] : tensor<2x8xf32>
  %sum = fusion.add %var, %eps : tensor<2xf32>
  %std = fusion.sqrt %sum : tensor<2xf32>
  %stds = fusion.broadcast %std dims = [0] : tensor<2xf32> to tensor<2x8xf32>
  %n = fusion.div %c, %stds : tensor<2x8xf32>
  %ss = fusion.broadcast %s dims = [1] : tensor<8xf32> to tensor<2x8xf32>
  %m = fusion.mul %n, %ss : tensor<2x8xf32>
  %bs = fusion.broadcast %b dims = [1] : tensor<8xf32> to tensor<2x8xf32>
  %y = fusion.add %m, %bs : tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}

// -----

// What an exporter writes: kept unit dimensions, pow, scale on the left, rows of
// two dimensions.
// CHECK: module attributes {fusion.rewrites = ["raise-idioms x1"]}
// CHECK-LABEL: func @exported
// CHECK-SAME: %[[X:.*]]: tensor<3x2x4xf32>, %[[S:.*]]: tensor<2x4xf32>
// CHECK-NEXT: %[[Y:.*]] = fusion.layer_norm %[[X]] scale %[[S]] epsilon = 1.000000e+00 axis = 1
// CHECK-NEXT: return %[[Y]]
// REMARK: Exact=false, Ops=13, Remark="raised to fusion.layer_norm", Rounding="pow(x, 2) becomes x * x"
// EXACT: [Missed] raise-idioms {{.*}}"near fusion.layer_norm: only exact rewrites are asked for, and pow(x, 2) becomes x * x"
// EXACT: fusion.pow
func.func @exported(%x: tensor<3x2x4xf32>, %s: tensor<2x4xf32>) -> tensor<3x2x4xf32> {
  %eps = fusion.constant dense<1.0> : tensor<3x1x1xf32>
  %two = fusion.constant dense<2.0> : tensor<3x2x4xf32>
  %mean = fusion.reduce mean, %x dims = [1, 2] : tensor<3x2x4xf32>
  %mean1 = fusion.reshape %mean : tensor<3xf32> to tensor<3x1x1xf32>
  %means = fusion.broadcast %mean1 dims = [0, 1, 2] : tensor<3x1x1xf32> to tensor<3x2x4xf32>
  %c = fusion.sub %x, %means : tensor<3x2x4xf32>
  %sq = fusion.pow %c, %two : tensor<3x2x4xf32>
  %var = fusion.reduce mean, %sq dims = [1, 2] : tensor<3x2x4xf32>
  %var1 = fusion.reshape %var : tensor<3xf32> to tensor<3x1x1xf32>
  %sum = fusion.add %eps, %var1 : tensor<3x1x1xf32>
  %std = fusion.sqrt %sum : tensor<3x1x1xf32>
  %std1 = fusion.reshape %std : tensor<3x1x1xf32> to tensor<3xf32>
  %stds = fusion.broadcast %std1 dims = [0] : tensor<3xf32> to tensor<3x2x4xf32>
  %n = fusion.div %c, %stds : tensor<3x2x4xf32>
  %ss = fusion.broadcast %s dims = [1, 2] : tensor<2x4xf32> to tensor<3x2x4xf32>
  %y = fusion.mul %ss, %n : tensor<3x2x4xf32>
  return %y : tensor<3x2x4xf32>
}

// -----

// x * rsqrt(mean(x^2) + eps) * w, of a batch.
// CHECK: fusion.rewrites = ["raise-idioms x1"]
// CHECK-LABEL: func @rms
// CHECK-SAME: %[[X:.*]]: tensor<?x4xf32>, %[[S:.*]]: tensor<4xf32>
// CHECK: %[[Y:.*]] = fusion.rms_norm %[[X]] scale %[[S]] epsilon = 5.000000e-01 axis = 1
// CHECK-NEXT: return %[[Y]]
// REMARK: Exact=false, Ops=7, Remark="raised to fusion.rms_norm", Rounding="a product with 1 / sqrt becomes a division"
func.func @rms(%x: tensor<?x4xf32>, %w: tensor<4xf32>) -> tensor<?x4xf32> {
  %half = fusion.constant dense<0.5> : tensor<f32>
  %eps = fusion.broadcast %half dims = [] : tensor<f32> to tensor<?xf32>
  %sq = fusion.mul %x, %x : tensor<?x4xf32>
  %mean = fusion.reduce mean, %sq dims = [1] : tensor<?x4xf32>
  %sum = fusion.add %mean, %eps : tensor<?xf32>
  %r = fusion.rsqrt %sum : tensor<?xf32>
  %rs = fusion.broadcast %r dims = [0] : tensor<?xf32> to tensor<?x4xf32>
  %n = fusion.mul %x, %rs : tensor<?x4xf32>
  %ws = fusion.broadcast %w dims = [1] : tensor<4xf32> to tensor<?x4xf32>
  %y = fusion.mul %n, %ws : tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}

// -----

// 1 / sqrt in two steps, no epsilon, a mean that is a sum by 4: dividing by a
// power of two is exact, the product with the reciprocal is not.
// CHECK-LABEL: func @rms_reciprocal
// CHECK: fusion.rms_norm %{{.*}} epsilon = 0.000000e+00 axis = 1 : tensor<2x4xf32>
// REMARK: Exact=false, Ops=7, Remark="raised to fusion.rms_norm", Rounding="a product with 1 / sqrt becomes a division"
func.func @rms_reciprocal(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %quarter = fusion.constant dense<0.25> : tensor<2xf32>
  %one = fusion.constant dense<1.0> : tensor<2x4xf32>
  %sq = fusion.mul %x, %x : tensor<2x4xf32>
  %total = fusion.reduce sum, %sq dims = [1] : tensor<2x4xf32>
  %mean = fusion.mul %total, %quarter : tensor<2xf32>
  %r = fusion.sqrt %mean : tensor<2xf32>
  %rs = fusion.broadcast %r dims = [0] : tensor<2xf32> to tensor<2x4xf32>
  %i = fusion.div %one, %rs : tensor<2x4xf32>
  %y = fusion.mul %i, %x : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// A scale that only broadcasts with the result is not the norm's.
// CHECK-LABEL: func @scalar_scale
// CHECK: %[[N:.*]] = fusion.rms_norm %{{.*}} epsilon
// CHECK: fusion.mul %[[N]]
// REMARK: Exact=true, Note="the scale stays outside: its shape is not that of the dimensions from 1 on", Ops=6, Remark="raised to fusion.rms_norm"
func.func @scalar_scale(%x: tensor<3x4xf32>, %s: tensor<1xf32>) -> tensor<3x4xf32> {
  %eps = fusion.constant dense<1.0> : tensor<3xf32>
  %sq = fusion.mul %x, %x : tensor<3x4xf32>
  %mean = fusion.reduce mean, %sq dims = [1] : tensor<3x4xf32>
  %sum = fusion.add %mean, %eps : tensor<3xf32>
  %r = fusion.sqrt %sum : tensor<3xf32>
  %rs = fusion.broadcast %r dims = [0] : tensor<3xf32> to tensor<3x4xf32>
  %n = fusion.div %x, %rs : tensor<3x4xf32>
  %ss = fusion.broadcast %s dims = [1] : tensor<1xf32> to tensor<3x4xf32>
  %y = fusion.mul %n, %ss : tensor<3x4xf32>
  return %y : tensor<3x4xf32>
}

// -----

// ... nor one for each row, though x has as many rows as columns.
// CHECK-LABEL: func @row_scale
// CHECK: %[[N:.*]] = fusion.rms_norm %{{.*}} epsilon
// CHECK: fusion.mul %[[N]]
// REMARK: Note="the scale stays outside
func.func @row_scale(%x: tensor<4x4xf32>, %s: tensor<4xf32>) -> tensor<4x4xf32> {
  %eps = fusion.constant dense<1.0> : tensor<4xf32>
  %sq = fusion.mul %x, %x : tensor<4x4xf32>
  %mean = fusion.reduce mean, %sq dims = [1] : tensor<4x4xf32>
  %sum = fusion.add %mean, %eps : tensor<4xf32>
  %r = fusion.sqrt %sum : tensor<4xf32>
  %rs = fusion.broadcast %r dims = [0] : tensor<4xf32> to tensor<4x4xf32>
  %n = fusion.div %x, %rs : tensor<4x4xf32>
  %ss = fusion.broadcast %s dims = [0] : tensor<4xf32> to tensor<4x4xf32>
  %y = fusion.mul %n, %ss : tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}

// -----

// The scale enlarges a result of one element.
// CHECK-LABEL: func @enlarging_scale
// CHECK: %[[N:.*]] = fusion.rms_norm %{{.*}} axis = 1 : tensor<1x1xf32>
// CHECK: fusion.broadcast %[[N]]
// CHECK: fusion.mul {{.*}} : tensor<1x2xf32>
func.func @enlarging_scale(%x: tensor<1x1xf32>, %s: tensor<2xf32>) -> tensor<1x2xf32> {
  %eps = fusion.constant dense<1.0> : tensor<1xf32>
  %sq = fusion.mul %x, %x : tensor<1x1xf32>
  %mean = fusion.reduce mean, %sq dims = [1] : tensor<1x1xf32>
  %sum = fusion.add %mean, %eps : tensor<1xf32>
  %r = fusion.sqrt %sum : tensor<1xf32>
  %rs = fusion.reshape %r : tensor<1xf32> to tensor<1x1xf32>
  %n = fusion.div %x, %rs : tensor<1x1xf32>
  %ns = fusion.broadcast %n dims = [0, 1] : tensor<1x1xf32> to tensor<1x2xf32>
  %ss = fusion.broadcast %s dims = [1] : tensor<2xf32> to tensor<1x2xf32>
  %y = fusion.mul %ns, %ss : tensor<1x2xf32>
  return %y : tensor<1x2xf32>
}

// -----

// The mean is a result too: the rms_norm of what it leaves is the same value.
// CHECK-LABEL: func @mean_returned
// CHECK: %[[M:.*]] = fusion.reduce mean
// CHECK: %[[C:.*]] = fusion.sub
// CHECK: %[[Y:.*]] = fusion.rms_norm %[[C]]
// CHECK: return %[[Y]], %[[M]]
// REMARK: Exact=true, Note="the mean stays outside: the interior value of fusion.reduce is read by func.return too", Ops=5
func.func @mean_returned(%x: tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<2xf32>) {
  %mean = fusion.reduce mean, %x dims = [1] : tensor<2x8xf32>
  %means = fusion.broadcast %mean dims = [0] : tensor<2xf32> to tensor<2x8xf32>
  %c = fusion.sub %x, %means : tensor<2x8xf32>
  %sq = fusion.mul %c, %c : tensor<2x8xf32>
  %var = fusion.reduce mean, %sq dims = [1] : tensor<2x8xf32>
  %std = fusion.sqrt %var : tensor<2xf32>
  %stds = fusion.broadcast %std dims = [0] : tensor<2xf32> to tensor<2x8xf32>
  %n = fusion.div %c, %stds : tensor<2x8xf32>
  return %n, %mean : tensor<2x8xf32>, tensor<2xf32>
}

// -----

// Epsilon below f16's range, held in the f32 that the rows were
// cast to. The norm is raised between the casts.
// CHECK-LABEL: func @mixed
// CHECK: %[[W:.*]] = fusion.cast %{{.*}} : tensor<2x4xf16> to tensor<2x4xf32>
// CHECK: %[[N:.*]] = fusion.rms_norm %[[W]] epsilon = 9.99{{.*}}E-9 axis = 1
// CHECK: fusion.cast %[[N]]
// REMARK: Exact=true, Ops=6, Remark="raised to fusion.rms_norm"
func.func @mixed(%x: tensor<2x4xf16>) -> tensor<2x4xf16> {
  %eps = fusion.constant dense<1.0e-8> : tensor<2xf32>
  %w = fusion.cast %x : tensor<2x4xf16> to tensor<2x4xf32>
  %sq = fusion.mul %w, %w : tensor<2x4xf32>
  %mean = fusion.reduce mean, %sq dims = [1] : tensor<2x4xf32>
  %sum = fusion.add %mean, %eps : tensor<2xf32>
  %r = fusion.sqrt %sum : tensor<2xf32>
  %rs = fusion.broadcast %r dims = [0] : tensor<2xf32> to tensor<2x4xf32>
  %n = fusion.div %w, %rs : tensor<2x4xf32>
  %y = fusion.cast %n : tensor<2x4xf32> to tensor<2x4xf16>
  return %y : tensor<2x4xf16>
}

// -----

// In f16 throughout, the named op has fewer roundings.
// CHECK: fusion.rewrites = ["raise-idioms x1"]
// CHECK-LABEL: func @half
// CHECK: fusion.rms_norm
// REMARK: Exact=false, Ops=5, {{.*}}Rounding="16-bit steps become one in f32
func.func @half(%x: tensor<2x4xf16>) -> tensor<2x4xf16> {
  %sq = fusion.mul %x, %x : tensor<2x4xf16>
  %mean = fusion.reduce mean, %sq dims = [1] : tensor<2x4xf16>
  %r = fusion.sqrt %mean : tensor<2xf16>
  %rs = fusion.broadcast %r dims = [0] : tensor<2xf16> to tensor<2x4xf16>
  %y = fusion.div %x, %rs : tensor<2x4xf16>
  return %y : tensor<2x4xf16>
}

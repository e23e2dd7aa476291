// Near misses: the chain stays as it is, and the remark says what it lacks.
//
// RUN: fusion-opt %s -split-input-file --fusion-raise-idioms | FileCheck %s --implicit-check-not=fusion.layer_norm --implicit-check-not=fusion.rms_norm --implicit-check-not=fusion.log_softmax --implicit-check-not=fusion.gelu --implicit-check-not=fusion.silu --implicit-check-not=fusion.rewrites
// RUN: fusion-opt %s -split-input-file --fusion-raise-idioms --remarks-filter=fusion -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// The variance is a result too.
// CHECK-LABEL: func @interior_returned
// REMARK: [Missed] raise-idioms {{.*}}"near fusion.rms_norm: the interior value of fusion.reduce is read by func.return too"
func.func @interior_returned(%x: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2xf32>) {
  %sq = fusion.mul %x, %x : tensor<2x4xf32>
  %mean = fusion.reduce mean, %sq dims = [1] : tensor<2x4xf32>
  %r = fusion.sqrt %mean : tensor<2xf32>
  %rs = fusion.broadcast %r dims = [0] : tensor<2xf32> to tensor<2x4xf32>
  %y = fusion.div %x, %rs : tensor<2x4xf32>
  return %y, %mean : tensor<2x4xf32>, tensor<2xf32>
}

// -----

// E[x^2] - E[x]^2 cancels; its root is of no mean of squares, so
// it is nothing like the two-pass norm.
// CHECK-LABEL: func @one_pass
// CHECK: fusion.sqrt
// REMARK-NOT: one_pass
func.func @one_pass(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %eps = fusion.constant dense<1.0e-5> : tensor<2xf32>
  %sq = fusion.mul %x, %x : tensor<2x4xf32>
  %m2 = fusion.reduce mean, %sq dims = [1] : tensor<2x4xf32>
  %m = fusion.reduce mean, %x dims = [1] : tensor<2x4xf32>
  %mm = fusion.mul %m, %m : tensor<2xf32>
  %var = fusion.sub %m2, %mm : tensor<2xf32>
  %sum = fusion.add %var, %eps : tensor<2xf32>
  %r = fusion.sqrt %sum : tensor<2xf32>
  %ms = fusion.broadcast %m dims = [0] : tensor<2xf32> to tensor<2x4xf32>
  %c = fusion.sub %x, %ms : tensor<2x4xf32>
  %rs = fusion.broadcast %r dims = [0] : tensor<2xf32> to tensor<2x4xf32>
  %y = fusion.div %c, %rs : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// CHECK-LABEL: func @unbiased
// REMARK: "near fusion.rms_norm: the sum of squares is divided by 3{{.*}}, not by the number of elements"
func.func @unbiased(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %three = fusion.constant dense<3.0> : tensor<2xf32>
  %sq = fusion.mul %x, %x : tensor<2x4xf32>
  %total = fusion.reduce sum, %sq dims = [1] : tensor<2x4xf32>
  %mean = fusion.div %total, %three : tensor<2xf32>
  %r = fusion.sqrt %mean : tensor<2xf32>
  %rs = fusion.broadcast %r dims = [0] : tensor<2xf32> to tensor<2x4xf32>
  %y = fusion.div %x, %rs : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// The norm is along dimension 0.
// CHECK-LABEL: func @first_axis
// REMARK: "near fusion.rms_norm: the reduced dimensions [0] are not the last of 2"
func.func @first_axis(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %sq = fusion.mul %x, %x : tensor<4x4xf32>
  %mean = fusion.reduce mean, %sq dims = [0] : tensor<4x4xf32>
  %r = fusion.sqrt %mean : tensor<4xf32>
  %rs = fusion.broadcast %r dims = [1] : tensor<4xf32> to tensor<4x4xf32>
  %y = fusion.div %x, %rs : tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}

// -----

// A square matrix hides a root that is spread over the wrong dimension.
// CHECK-LABEL: func @wrong_spread
// REMARK: "near fusion.rms_norm: the root is not spread over the rows that it is of"
func.func @wrong_spread(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %sq = fusion.mul %x, %x : tensor<4x4xf32>
  %mean = fusion.reduce mean, %sq dims = [1] : tensor<4x4xf32>
  %r = fusion.sqrt %mean : tensor<4xf32>
  %rs = fusion.broadcast %r dims = [1] : tensor<4xf32> to tensor<4x4xf32>
  %y = fusion.div %x, %rs : tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}

// -----

// CHECK-LABEL: func @epsilon_outside
// REMARK: "near fusion.rms_norm: fusion.add follows the root, not a division of the rows by it"
func.func @epsilon_outside(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %eps = fusion.constant dense<1.0e-5> : tensor<2xf32>
  %sq = fusion.mul %x, %x : tensor<2x4xf32>
  %mean = fusion.reduce mean, %sq dims = [1] : tensor<2x4xf32>
  %r = fusion.sqrt %mean : tensor<2xf32>
  %sum = fusion.add %r, %eps : tensor<2xf32>
  %rs = fusion.broadcast %sum dims = [0] : tensor<2xf32> to tensor<2x4xf32>
  %y = fusion.div %x, %rs : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// CHECK-LABEL: func @negative_epsilon
// REMARK: "near fusion.rms_norm: epsilon is -1
func.func @negative_epsilon(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %eps = fusion.constant dense<-1.0> : tensor<2xf32>
  %sq = fusion.mul %x, %x : tensor<2x4xf32>
  %mean = fusion.reduce mean, %sq dims = [1] : tensor<2x4xf32>
  %sum = fusion.add %mean, %eps : tensor<2xf32>
  %r = fusion.sqrt %sum : tensor<2xf32>
  %rs = fusion.broadcast %r dims = [0] : tensor<2xf32> to tensor<2x4xf32>
  %y = fusion.div %x, %rs : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// CHECK-LABEL: func @other_rows
// REMARK: "near fusion.rms_norm: what fusion.div takes beside the root is not what was squared"
func.func @other_rows(%x: tensor<2x4xf32>, %z: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %sq = fusion.mul %x, %x : tensor<2x4xf32>
  %mean = fusion.reduce mean, %sq dims = [1] : tensor<2x4xf32>
  %r = fusion.sqrt %mean : tensor<2xf32>
  %rs = fusion.broadcast %r dims = [0] : tensor<2xf32> to tensor<2x4xf32>
  %y = fusion.div %z, %rs : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// CHECK-LABEL: func @root_read_twice
// REMARK: "near fusion.rms_norm: the root is read by several ops, or by none"
func.func @root_read_twice(%x: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2xf32>) {
  %sq = fusion.mul %x, %x : tensor<2x4xf32>
  %mean = fusion.reduce mean, %sq dims = [1] : tensor<2x4xf32>
  %r = fusion.sqrt %mean : tensor<2xf32>
  %rs = fusion.broadcast %r dims = [0] : tensor<2xf32> to tensor<2x4xf32>
  %y = fusion.div %x, %rs : tensor<2x4xf32>
  return %y, %r : tensor<2x4xf32>, tensor<2xf32>
}

// -----

// exp(100) overflows f32; softmax does not.
// CHECK-LABEL: func @no_maximum
// REMARK: "near fusion.softmax: the largest element along [1] is not subtracted first, so the exponentials may overflow"
func.func @no_maximum(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %e = fusion.exp %x : tensor<2x4xf32>
  %sum = fusion.reduce sum, %e dims = [1] : tensor<2x4xf32>
  %s = fusion.broadcast %sum dims = [0] : tensor<2xf32> to tensor<2x4xf32>
  %y = fusion.div %e, %s : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// CHECK-LABEL: func @two_dimensions
// REMARK: "near fusion.softmax: rows are along [1, 2], not along one dimension"
func.func @two_dimensions(%x: tensor<2x4x3xf32>) -> tensor<2x4x3xf32> {
  %max = fusion.reduce max, %x dims = [1, 2] : tensor<2x4x3xf32>
  %m = fusion.broadcast %max dims = [0] : tensor<2xf32> to tensor<2x4x3xf32>
  %d = fusion.sub %x, %m : tensor<2x4x3xf32>
  %e = fusion.exp %d : tensor<2x4x3xf32>
  %sum = fusion.reduce sum, %e dims = [1, 2] : tensor<2x4x3xf32>
  %s = fusion.broadcast %sum dims = [0] : tensor<2xf32> to tensor<2x4x3xf32>
  %y = fusion.div %e, %s : tensor<2x4x3xf32>
  return %y : tensor<2x4x3xf32>
}

// -----

// CHECK-LABEL: func @exponentials_returned
// REMARK: "near fusion.softmax: the interior value of fusion.exp is read by func.return too"
func.func @exponentials_returned(%x: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %max = fusion.reduce max, %x dims = [1] : tensor<2x4xf32>
  %m = fusion.broadcast %max dims = [0] : tensor<2xf32> to tensor<2x4xf32>
  %d = fusion.sub %x, %m : tensor<2x4xf32>
  %e = fusion.exp %d : tensor<2x4xf32>
  %sum = fusion.reduce sum, %e dims = [1] : tensor<2x4xf32>
  %s = fusion.broadcast %sum dims = [0] : tensor<2xf32> to tensor<2x4xf32>
  %y = fusion.div %e, %s : tensor<2x4xf32>
  return %y, %e : tensor<2x4xf32>, tensor<2x4xf32>
}

// -----

// The sum of exponentials of shifted rows, as in log-sum-exp.
// CHECK-LABEL: func @log_sum_exp
// REMARK: "near fusion.softmax: the sum of exponentials is not what they are divided by, nor is its logarithm subtracted"
func.func @log_sum_exp(%x: tensor<2x4xf32>) -> tensor<2xf32> {
  %max = fusion.reduce max, %x dims = [1] : tensor<2x4xf32>
  %m = fusion.broadcast %max dims = [0] : tensor<2xf32> to tensor<2x4xf32>
  %d = fusion.sub %x, %m : tensor<2x4xf32>
  %e = fusion.exp %d : tensor<2x4xf32>
  %sum = fusion.reduce sum, %e dims = [1] : tensor<2x4xf32>
  %neg = fusion.neg %sum : tensor<2xf32>
  return %neg : tensor<2xf32>
}

// -----

// CHECK-LABEL: func @log_of_softmax
// CHECK: fusion.softmax
// REMARK: "near fusion.log_softmax: the logarithm of a softmax is -inf where the softmax underflows, log_softmax is not"
func.func @log_of_softmax(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %s = fusion.softmax %x axis = 1 : tensor<2x4xf32>
  %y = fusion.log %s : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// CHECK-LABEL: func @erf_scale
// REMARK: "near fusion.gelu: erf's argument is {{0?\.7.*}} * x, not sqrt(1/2) * x"
func.func @erf_scale(%x: tensor<4xf32>) -> tensor<4xf32> {
  %root = fusion.constant dense<0.7> : tensor<4xf32>
  %one = fusion.constant dense<1.0> : tensor<4xf32>
  %half = fusion.constant dense<0.5> : tensor<4xf32>
  %a = fusion.mul %x, %root : tensor<4xf32>
  %e = fusion.erf %a : tensor<4xf32>
  %p = fusion.add %e, %one : tensor<4xf32>
  %m = fusion.mul %x, %p : tensor<4xf32>
  %y = fusion.mul %m, %half : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// Nor with another constant of bf16 than the half, though near: 0.515625 is no
// rounding of it.

// REMARK: "near fusion.gelu: no op computes x * (1 + erf) / 2 from it alone"
// CHECK-LABEL: func.func @not_quite_half
func.func @not_quite_half(%x: tensor<5xbf16>) -> tensor<5xbf16> {
  %s = fusion.constant dense<0.707031> : tensor<5xbf16>
  %one = fusion.constant dense<1.0> : tensor<5xbf16>
  %half = fusion.constant dense<0.515625> : tensor<5xbf16>
  %0 = fusion.mul %x, %s : tensor<5xbf16>
  %1 = fusion.erf %0 : tensor<5xbf16>
  %2 = fusion.add %1, %one : tensor<5xbf16>
  %3 = fusion.mul %x, %2 : tensor<5xbf16>
  %4 = fusion.mul %3, %half : tensor<5xbf16>
  return %4 : tensor<5xbf16>
}

// -----

// Without the half it is no gelu.
// CHECK-LABEL: func @erf_unhalved
// REMARK: "near fusion.gelu: no op computes x * (1 + erf) / 2 from it alone"
func.func @erf_unhalved(%x: tensor<4xf32>) -> tensor<4xf32> {
  %root = fusion.constant dense<0.707106769> : tensor<4xf32>
  %one = fusion.constant dense<1.0> : tensor<4xf32>
  %a = fusion.mul %x, %root : tensor<4xf32>
  %e = fusion.erf %a : tensor<4xf32>
  %p = fusion.add %e, %one : tensor<4xf32>
  %y = fusion.mul %x, %p : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// CHECK-LABEL: func @tanh_cubic
// REMARK: "near fusion.gelu: tanh's argument is {{0?\.79.*}} * x + {{0?\.0398.*}} * x^3, not sqrt(2/pi) * (x + 0.044715 * x^3)"
func.func @tanh_cubic(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = fusion.constant dense<0.05> : tensor<4xf32>
  %k = fusion.constant dense<0.797884583> : tensor<4xf32>
  %one = fusion.constant dense<1.0> : tensor<4xf32>
  %half = fusion.constant dense<0.5> : tensor<4xf32>
  %cx = fusion.mul %c, %x : tensor<4xf32>
  %cxx = fusion.mul %cx, %x : tensor<4xf32>
  %q = fusion.add %cxx, %one : tensor<4xf32>
  %kx = fusion.mul %x, %k : tensor<4xf32>
  %u = fusion.mul %kx, %q : tensor<4xf32>
  %e = fusion.tanh %u : tensor<4xf32>
  %p = fusion.add %one, %e : tensor<4xf32>
  %h = fusion.mul %half, %x : tensor<4xf32>
  %y = fusion.mul %p, %h : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// A second chain reads a middle value of the first.
// CHECK-LABEL: func @shared_middle
// REMARK: "near fusion.gelu: the interior value of fusion.mul is read by fusion.neg too"
func.func @shared_middle(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %root = fusion.constant dense<0.707106769> : tensor<4xf32>
  %one = fusion.constant dense<1.0> : tensor<4xf32>
  %half = fusion.constant dense<0.5> : tensor<4xf32>
  %a = fusion.mul %x, %root : tensor<4xf32>
  %n = fusion.neg %a : tensor<4xf32>
  %e = fusion.erf %a : tensor<4xf32>
  %p = fusion.add %e, %one : tensor<4xf32>
  %m = fusion.mul %x, %p : tensor<4xf32>
  %y = fusion.mul %m, %half : tensor<4xf32>
  return %y, %n : tensor<4xf32>, tensor<4xf32>
}

// -----

// CHECK-LABEL: func @silu_shared
// REMARK: "near fusion.silu: the interior value of fusion.sigmoid is read by func.return too"
func.func @silu_shared(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %s = fusion.sigmoid %x : tensor<4xf32>
  %y = fusion.mul %x, %s : tensor<4xf32>
  return %y, %s : tensor<4xf32>, tensor<4xf32>
}

// -----

// CHECK-LABEL: func @silu_scaled
// REMARK: "near fusion.silu: the sigmoid is of 1.7{{.*}} * x, not of x"
func.func @silu_scaled(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = fusion.constant dense<1.702> : tensor<4xf32>
  %a = fusion.mul %x, %c : tensor<4xf32>
  %s = fusion.sigmoid %a : tensor<4xf32>
  %y = fusion.mul %x, %s : tensor<4xf32>
  return %y : tensor<4xf32>
}

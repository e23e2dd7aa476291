// Each reason for which projections stay apart, with its figures.
//
// RUN: fusion-opt %s -split-input-file --fusion-merge-projections=distance=4 | FileCheck %s --implicit-check-not=fusion.slice
// RUN: fusion-opt %s -split-input-file --fusion-merge-projections=distance=4 --remarks-filter=fusion -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// One of the weights is computed at run time, here after the first
// product is used.
// CHECK-LABEL: func @runtime_weights
// REMARK: remark: [Missed] merge-projections {{.*}}"its weights: computed at run time"
func.func @runtime_weights(%x: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) {
  %w = fusion.constant dense<1.0> : tensor<2x2xf32>
  %q = fusion.matmul %x, %w : tensor<2x2xf32>, tensor<2x2xf32>
  %v = fusion.neg %q : tensor<2x2xf32>
  %k = fusion.matmul %x, %v : tensor<2x2xf32>, tensor<2x2xf32>
  return %q, %k : tensor<2x2xf32>, tensor<2x2xf32>
}

// -----

// CHECK-LABEL: func @state
// REMARK: "its weights: state parameter @w, which the program updates"
fusion.parameter @w state value dense<0.0> : tensor<2x2xf32> : tensor<2x2xf32>
func.func @state(%x: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) {
  %w = fusion.get_parameter @w : tensor<2x2xf32>
  %v = fusion.constant dense<1.0> : tensor<2x2xf32>
  %q = fusion.matmul %x, %w : tensor<2x2xf32>, tensor<2x2xf32>
  %k = fusion.matmul %x, %v : tensor<2x2xf32>, tensor<2x2xf32>
  return %q, %k : tensor<2x2xf32>, tensor<2x2xf32>
}

// -----

// The query's weights have another reader, so the packed copy of
// 256 * 128 * 4 bytes would be on top.
// CHECK-LABEL: func @shared_weights
// REMARK: "the weights are read elsewhere too: packing adds 131072 bytes, limit 65536"
func.func @shared_weights(%x: tensor<2x256xf32>) -> (tensor<128x2xf32>, tensor<128x2xf32>, tensor<256x128xf32>) {
  %w = fusion.constant dense<1.0> : tensor<256x128xf32>
  %v = fusion.constant dense<2.0> : tensor<256x128xf32>
  %q = fusion.matmul %x, %w : tensor<2x256xf32>, tensor<256x128xf32>
  %k = fusion.matmul %x, %v : tensor<2x256xf32>, tensor<256x128xf32>
  %qt = fusion.transpose %q permutation = [1, 0] : tensor<2x128xf32>
  %kt = fusion.transpose %k permutation = [1, 0] : tensor<2x128xf32>
  %u = fusion.neg %w : tensor<256x128xf32>
  return %qt, %kt, %u : tensor<128x2xf32>, tensor<128x2xf32>, tensor<256x128xf32>
}

// -----

// Both results are returned: 2 * 512 * 512 * 4 bytes to copy out.
// CHECK-LABEL: func @returned
// REMARK: "2 results are read whole: writing their 2097152 bytes once more costs 527.3 us, the merge saves 4.1 us"
func.func @returned(%x: tensor<512x1xf32>) -> (tensor<512x512xf32>, tensor<512x512xf32>) {
  %w = fusion.constant dense<1.0> : tensor<1x512xf32>
  %v = fusion.constant dense<2.0> : tensor<1x512xf32>
  %q = fusion.matmul %x, %w : tensor<512x1xf32>, tensor<1x512xf32>
  %k = fusion.matmul %x, %v : tensor<512x1xf32>, tensor<1x512xf32>
  return %q, %k : tensor<512x512xf32>, tensor<512x512xf32>
}

// -----

// The gate's product runs in the epilogue of one of the two, and the next matmul
// reads it whole: apart, it is written once.
// CHECK-LABEL: func @gated
// REMARK: "1 results are read whole: writing their 1048576 bytes once more costs 263.6 us, the merge saves 4.1 us"
func.func @gated(%x: tensor<512x1xf32>) -> tensor<512x1xf32> {
  %w = fusion.constant dense<1.0> : tensor<1x512xf32>
  %v = fusion.constant dense<2.0> : tensor<1x512xf32>
  %d = fusion.constant dense<3.0> : tensor<512x1xf32>
  %g = fusion.matmul %x, %w : tensor<512x1xf32>, tensor<1x512xf32>
  %u = fusion.matmul %x, %v : tensor<512x1xf32>, tensor<1x512xf32>
  %s = fusion.silu %g : tensor<512x512xf32>
  %m = fusion.mul %s, %u : tensor<512x512xf32>
  %y = fusion.matmul %m, %d : tensor<512x512xf32>, tensor<512x1xf32>
  return %y : tensor<512x1xf32>
}

// -----

// 512 rows read the packed weights several times, and 4 MiB leave the cache
// where 2 MiB don't.
// CHECK-LABEL: func @many_rows
// REMARK: "packed weights of 4194304 bytes leave the cache of 2097152: many rows lose 859.0 us by it, the merge saves 39.0 us"
func.func @many_rows(%x: tensor<512x512xf32>) -> (tensor<1024x512xf32>, tensor<1024x512xf32>) {
  %wk = fusion.constant dense<1.0> : tensor<512x1024xf32>
  %wv = fusion.constant dense<2.0> : tensor<512x1024xf32>
  %k = fusion.matmul %x, %wk : tensor<512x512xf32>, tensor<512x1024xf32>
  %v = fusion.matmul %x, %wv : tensor<512x512xf32>, tensor<512x1024xf32>
  %kt = fusion.transpose %k permutation = [1, 0] : tensor<512x1024xf32>
  %vt = fusion.transpose %v permutation = [1, 0] : tensor<512x1024xf32>
  return %kt, %vt : tensor<1024x512xf32>, tensor<1024x512xf32>
}

// -----

// The second product is five ops away: its result would wait.
// CHECK-LABEL: func @far
// REMARK: "6 ops lie between it and the one before, limit 4: its result would wait in memory"
func.func @far(%x: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) {
  %w = fusion.constant dense<1.0> : tensor<2x2xf32>
  %v = fusion.constant dense<2.0> : tensor<2x2xf32>
  %q = fusion.matmul %x, %w : tensor<2x2xf32>, tensor<2x2xf32>
  %0 = fusion.exp %q : tensor<2x2xf32>
  %1 = fusion.neg %0 : tensor<2x2xf32>
  %2 = fusion.exp %1 : tensor<2x2xf32>
  %3 = fusion.neg %2 : tensor<2x2xf32>
  %4 = fusion.exp %3 : tensor<2x2xf32>
  %k = fusion.matmul %x, %v : tensor<2x2xf32>, tensor<2x2xf32>
  return %4, %k : tensor<2x2xf32>, tensor<2x2xf32>
}

// -----

// CHECK-LABEL: func @batch_dims
// REMARK: "the weights' batch dimensions differ"
func.func @batch_dims(%x: tensor<2x2x2xf32>) -> (tensor<2x2x2xf32>, tensor<2x2x2xf32>) {
  %w = fusion.constant dense<1.0> : tensor<2x2x2xf32>
  %v = fusion.constant dense<2.0> : tensor<2x2xf32>
  %q = fusion.matmul %x, %w : tensor<2x2x2xf32>, tensor<2x2x2xf32>
  %k = fusion.matmul %x, %v : tensor<2x2x2xf32>, tensor<2x2xf32>
  return %q, %k : tensor<2x2x2xf32>, tensor<2x2x2xf32>
}

// -----

// Rows of 4 and of 2: views of one value, but not the same rows.
// CHECK-LABEL: func @row_length
// REMARK: "rows of different lengths are read"
func.func @row_length(%x: tensor<2x4xf32>) -> (tensor<2x1xf32>, tensor<4x1xf32>) {
  %w = fusion.constant dense<1.0> : tensor<4x1xf32>
  %v = fusion.constant dense<2.0> : tensor<2x1xf32>
  %r = fusion.reshape %x : tensor<2x4xf32> to tensor<4x2xf32>
  %q = fusion.matmul %x, %w : tensor<2x4xf32>, tensor<4x1xf32>
  %k = fusion.matmul %r, %v : tensor<4x2xf32>, tensor<2x1xf32>
  return %q, %k : tensor<2x1xf32>, tensor<4x1xf32>
}

// -----

// CHECK-LABEL: func @strides
// REMARK: "strides differ"
func.func @strides(%x: tensor<1x4x4x1xf32>) -> (tensor<1x2x2x1xf32>, tensor<1x4x4x1xf32>) {
  %w = fusion.constant dense<1.0> : tensor<1x1x1x1xf32>
  %0 = fusion.conv %x, %w strides = [2, 2] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] groups = 1 layout = nhwc : tensor<1x4x4x1xf32>, tensor<1x1x1x1xf32>
  %1 = fusion.conv %x, %w strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] groups = 1 layout = nhwc : tensor<1x4x4x1xf32>, tensor<1x1x1x1xf32>
  return %0, %1 : tensor<1x2x2x1xf32>, tensor<1x4x4x1xf32>
}

// -----

// Nothing to talk about: one product, a transposed left side, a 3x3 window.
// CHECK-LABEL: func @others
// REMARK-NOT: remark
func.func @others(%x: tensor<2x2xf32>, %z: tensor<1x4x4x1xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<1x2x2x1xf32>, tensor<1x2x2x1xf32>) {
  %w = fusion.constant dense<1.0> : tensor<2x2xf32>
  %v = fusion.constant dense<2.0> : tensor<1x1x3x3xf32>
  %q = fusion.matmul %x, %w : tensor<2x2xf32>, tensor<2x2xf32>
  %k = fusion.matmul %x, %w {transpose_lhs} : tensor<2x2xf32>, tensor<2x2xf32>
  %0 = fusion.conv %z, %v strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] groups = 1 layout = nhwc : tensor<1x4x4x1xf32>, tensor<1x1x3x3xf32>
  %1 = fusion.conv %z, %v strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] groups = 1 layout = nhwc : tensor<1x4x4x1xf32>, tensor<1x1x3x3xf32>
  return %q, %k, %0, %1 : tensor<2x2xf32>, tensor<2x2xf32>, tensor<1x2x2x1xf32>, tensor<1x2x2x1xf32>
}

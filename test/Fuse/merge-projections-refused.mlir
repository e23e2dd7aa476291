// Each reason for which projections stay apart, with its figures.
//
// RUN: fusion-opt %s -split-input-file --fusion-merge-projections=distance=4 | FileCheck %s --implicit-check-not=fusion.slice
// RUN: fusion-opt %s -split-input-file --fusion-merge-projections=distance=4 --remarks-filter=fusion -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: fusion-opt %s -split-input-file --fusion-merge-projections="distance=4 device=%S/Inputs/sheet.json" --remarks-filter=fusion -o /dev/null 2>&1 | FileCheck %s --check-prefix=SHEET
// RUN: fusion-opt %s -split-input-file --fusion-merge-projections="distance=4 device=a100-80gb" --remarks-filter=fusion -o /dev/null 2>&1 | FileCheck %s --check-prefix=A100

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

// Both results are returned: 2 * 512 * 512 * 4 bytes to copy out. On the CPU, at
// 40 GB/s and 200 GB/s from the cache, a product takes 2 us and 26.3 us for 1 MiB
// and 2 KiB, a copy 2 us and 31.5 us. On the GPUs two streams are faster than one
// product and its copies.
// CHECK-LABEL: func @returned
// REMARK: "2 results are read whole: with their 2097152 bytes written once more one product takes 121.4 us, the products apart 56.5 us", us_copies=66.91, us_fused=121.39, us_rereads=0.00, us_serial=56.53, us_streams=56.53
// SHEET: "on 2 streams the products are predicted faster: 5.0 us side by side, 7.7 us as one", us_copies=4.61, us_fused=7.65, us_rereads=0.00, us_serial=6.08, us_streams=5.04
// A100: "on 2 streams the products are predicted faster: 6.5 us side by side, 10.4 us as one", us_copies=6.44, us_fused=10.42, us_rereads=0.00, us_serial=7.96, us_streams=6.48
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
// REMARK: "1 results are read whole: with their 1048576 bytes written once more one product takes 87.9 us, the products apart 56.5 us"
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

// 512 rows are four blocks of 128: three read the packed weights again, 2 MiB
// that leave a core's own cache where 1 MiB does not, at 200 GB/s. Apart, each
// product takes 2 us and 838.9 us for 2 * 512^3 flops at 320 Gflops. The H200 has
// 228 KiB there: either way they come from its last-level cache.
// CHECK-LABEL: func @many_rows
// REMARK: "packed weights of 2097152 bytes leave the cache: read again, which takes 31.5 us, one product takes 1711.2 us, the products apart 1681.7 us"
// SHEET: "2 products of one value became one"{{.*}}Widths="512 512"
func.func @many_rows(%x: tensor<512x512xf32>) -> (tensor<512x512xf32>, tensor<512x512xf32>) {
  %wk = fusion.constant dense<1.0> : tensor<512x512xf32>
  %wv = fusion.constant dense<2.0> : tensor<512x512xf32>
  %k = fusion.matmul %x, %wk : tensor<512x512xf32>, tensor<512x512xf32>
  %v = fusion.matmul %x, %wv : tensor<512x512xf32>, tensor<512x512xf32>
  %kt = fusion.transpose %k permutation = [1, 0] : tensor<512x512xf32>
  %vt = fusion.transpose %v permutation = [1, 0] : tensor<512x512xf32>
  return %kt, %vt : tensor<512x512xf32>, tensor<512x512xf32>
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

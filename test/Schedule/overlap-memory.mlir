// RUN: fusion-opt %s --split-input-file --fusion-overlap-collectives=device=%S/Inputs/by-size.json --remarks-filter=fusion -o %t 2>&1 | FileCheck %s

// Bytes alive at once, one after the other and beside each other, by hand. What is
// reduced has the operand's bytes, 1024; results have the caller's. In the given
// order 2048 bytes come behind that, while it is sent they are beside it.
// CHECK: overlap |{{.*}}PeakBytes=3072, {{.*}}SerialPeakBytes=2048,
fusion.mesh @m(dp = 2)
func.func @main(%x: tensor<256xf32>, %y: tensor<512xf32>) -> (tensor<256xf32>, tensor<512xf32>) {
  %g = fusion.group loop (%a = %x : tensor<256xf32>) -> tensor<256xf32> {
    %0 = fusion.exp %a : tensor<256xf32>
    fusion.yield %0 : tensor<256xf32>
  }
  %s = fusion.all_reduce sum, %g on @m[dp] : tensor<256xf32>
  %v = fusion.group loop (%a = %s : tensor<256xf32>) -> tensor<256xf32> {
    %0 = fusion.neg %a : tensor<256xf32>
    fusion.yield %0 : tensor<256xf32>
  }
  %k = fusion.group loop (%a = %y : tensor<512xf32>) -> tensor<512xf32> {
    %0 = fusion.exp %a : tensor<512xf32>
    fusion.yield %0 : tensor<512xf32>
  }
  %w = fusion.group loop (%a = %k : tensor<512xf32>) -> tensor<512xf32> {
    %0 = fusion.neg %a : tensor<512xf32>
    fusion.yield %0 : tensor<512xf32>
  }
  return %v, %w : tensor<256xf32>, tensor<512xf32>
}

// -----

// Two halves of 2048 bytes, each reduced by itself where it is.
// CHECK: overlap |{{.*}}PeakBytes=2048, {{.*}}SerialPeakBytes=2048,
fusion.mesh @m(dp = 2)
func.func @main(%x: tensor<512xf32>, %y: tensor<4xf32>) -> (tensor<256xf32>, tensor<256xf32>, tensor<4xf32>) {
  %g = fusion.group loop (%a = %x : tensor<512xf32>) -> tensor<512xf32> {
    %0 = fusion.exp %a : tensor<512xf32>
    fusion.yield %0 : tensor<512xf32>
  }
  %p = fusion.group loop (%a = %g : tensor<512xf32>) -> tensor<256xf32> {
    %0 = fusion.slice %a starts = [0] limits = [256] strides = [1] : tensor<512xf32>
    fusion.yield %0 : tensor<256xf32>
  }
  %q = fusion.group loop (%a = %g : tensor<512xf32>) -> tensor<256xf32> {
    %0 = fusion.slice %a starts = [256] limits = [512] strides = [1] : tensor<512xf32>
    fusion.yield %0 : tensor<256xf32>
  }
  %s = fusion.all_reduce sum, %p on @m[dp] : tensor<256xf32>
  %t = fusion.all_reduce sum, %q on @m[dp] : tensor<256xf32>
  %k = fusion.group loop (%a = %y : tensor<4xf32>) -> tensor<4xf32> {
    %0 = fusion.exp %a : tensor<4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  %v = fusion.group loop (%a = %s : tensor<256xf32>) -> tensor<256xf32> {
    %0 = fusion.neg %a : tensor<256xf32>
    fusion.yield %0 : tensor<256xf32>
  }
  %w = fusion.group loop (%a = %t : tensor<256xf32>) -> tensor<256xf32> {
    %0 = fusion.neg %a : tensor<256xf32>
    fusion.yield %0 : tensor<256xf32>
  }
  return %v, %w, %k : tensor<256xf32>, tensor<256xf32>, tensor<4xf32>
}

// -----

// A kernel may compute over what only it still reads.
// CHECK: overlap |{{.*}}PeakBytes=1024, {{.*}}SerialPeakBytes=1024,
fusion.mesh @m(dp = 2)
func.func @main(%x: tensor<256xf32>, %y: tensor<4xf32>) -> (tensor<256xf32>, tensor<4xf32>) {
  %f = fusion.group loop (%a = %x : tensor<256xf32>) -> tensor<256xf32> {
    %0 = fusion.exp %a : tensor<256xf32>
    fusion.yield %0 : tensor<256xf32>
  }
  %g = fusion.group loop (%a = %f : tensor<256xf32>) -> tensor<256xf32> {
    %0 = fusion.neg %a : tensor<256xf32>
    fusion.yield %0 : tensor<256xf32>
  }
  %s = fusion.all_reduce sum, %g on @m[dp] : tensor<256xf32>
  %k = fusion.group loop (%a = %y : tensor<4xf32>) -> tensor<4xf32> {
    %0 = fusion.exp %a : tensor<4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  %v = fusion.group loop (%a = %s : tensor<256xf32>) -> tensor<256xf32> {
    %0 = fusion.neg %a : tensor<256xf32>
    fusion.yield %0 : tensor<256xf32>
  }
  return %v, %k : tensor<256xf32>, tensor<4xf32>
}

// -----

// A part of a bucket is computed where the bucket lies: 1024 bytes beside the same.
// CHECK: overlap |{{.*}}PeakBytes=2048, {{.*}}SerialPeakBytes=2048,
fusion.mesh @m(dp = 2)
func.func @main(%x: tensor<256xf32>, %y: tensor<4xf32>) -> (tensor<256xf32>, tensor<4xf32>) {
  %f = fusion.group loop (%a = %x : tensor<256xf32>) -> tensor<256xf32> {
    %0 = fusion.exp %a : tensor<256xf32>
    fusion.yield %0 : tensor<256xf32>
  }
  %g = fusion.group loop (%a = %f : tensor<256xf32>) -> tensor<256xf32> {
    %0 = fusion.neg %a : tensor<256xf32>
    fusion.yield %0 : tensor<256xf32>
  }
  %s = fusion.all_reduce sum, %g on @m[dp] {fusion.bucket = 0 : i64} : tensor<256xf32>
  %k = fusion.group loop (%a = %y : tensor<4xf32>) -> tensor<4xf32> {
    %0 = fusion.exp %a : tensor<4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  %v = fusion.group loop (%a = %s : tensor<256xf32>) -> tensor<256xf32> {
    %0 = fusion.neg %a : tensor<256xf32>
    fusion.yield %0 : tensor<256xf32>
  }
  return %v, %k : tensor<256xf32>, tensor<4xf32>
}

// -----

// A gradient that a kernel reads as it is on this rank, too, is reduced into bytes of
// its own: 1024 and 1024.
// CHECK: overlap |{{.*}}PeakBytes=2048, {{.*}}SerialPeakBytes=2048,
fusion.mesh @m(dp = 2)
func.func @main(%x: tensor<256xf32>) -> (tensor<256xf32>, tensor<256xf32>) {
  %g = fusion.group loop (%a = %x : tensor<256xf32>) -> tensor<256xf32> {
    %0 = fusion.exp %a : tensor<256xf32>
    fusion.yield %0 : tensor<256xf32>
  }
  %s = fusion.all_reduce sum, %g on @m[dp] : tensor<256xf32>
  %k = fusion.group loop (%a = %g : tensor<256xf32>) -> tensor<256xf32> {
    %0 = fusion.neg %a : tensor<256xf32>
    fusion.yield %0 : tensor<256xf32>
  }
  %v = fusion.group loop (%a = %s : tensor<256xf32>) -> tensor<256xf32> {
    %0 = fusion.neg %a : tensor<256xf32>
    fusion.yield %0 : tensor<256xf32>
  }
  return %v, %k : tensor<256xf32>, tensor<256xf32>
}

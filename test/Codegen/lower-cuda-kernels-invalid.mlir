// RUN: fusion-opt %s -split-input-file -verify-diagnostics --fusion-lower-kernels=target=cuda

module @kernels {
  func.func @narrow(%x: f16) -> f16 {
    // expected-error @below {{'math.exp' of 'f16' has no code on a GPU; compute it in f32 or f64}}
    %0 = math.exp %x : f16
    return %0 : f16
  }
}

// -----

module @kernels {
  func.func @unknown(%x: i32) -> i32 {
    // expected-error @below {{'math.ipowi' has no code on a GPU}}
    %0 = math.ipowi %x, %x : i32
    return %0 : i32
  }
}

// -----

module @kernels {
  func.func @rank(%x: vector<2x2xf32>) -> vector<2x2xf32> {
    // expected-error @below {{takes vectors of one dimension}}
    %0 = math.tanh %x : vector<2x2xf32>
    return %0 : vector<2x2xf32>
  }
}

// -----

module @kernels {
  func.func @dialect(%x: memref<4xf32>, %i: index) -> f32 {
    // expected-error @below {{'memref.load' has no code on a GPU}}
    %0 = memref.load %x[%i] : memref<4xf32>
    return %0 : f32
  }
}

// -----

module @kernels {
  // expected-error @below {{the kernel has 48 threads a block; give it a multiple of 32, at most 1024}}
  func.func @threads(%buffers: !llvm.ptr, %batch: i64, %block: i64) attributes {
      fusion.units = #fusion.extent<0 * B + 8>, fusion.threads = 48 : i64,
      fusion.operands = 2 : i64} {
    return
  }
}

// -----

module @kernels {
  // expected-error @below {{the kernel has 4001 operands, and a launch takes 4000; split the group}}
  func.func @operands(%buffers: !llvm.ptr, %batch: i64, %block: i64) attributes {
      fusion.units = #fusion.extent<0 * B + 8>, fusion.threads = 64 : i64,
      fusion.operands = 4001 : i64} {
    return
  }
}

// -----

module @kernels {
  // expected-error @below {{the kernel lacks 'fusion.operands' or 'fusion.threads'; emit it for target=cuda}}
  func.func @cpu(%buffers: !llvm.ptr, %batch: i64, %begin: i64, %end: i64)
      attributes {fusion.units = #fusion.extent<0 * B + 8>} {
    return
  }
}

// -----

module @kernels {
  // expected-error @below {{a kernel takes (!llvm.ptr, i64, i64) and returns nothing}}
  func.func @type(%buffers: !llvm.ptr) attributes {
      fusion.units = #fusion.extent<0 * B + 8>, fusion.threads = 64 : i64,
      fusion.operands = 2 : i64} {
    return
  }
}

// -----

module @kernels {
  // expected-error @below {{'taken.body' exists; use another name}}
  func.func @taken(%buffers: !llvm.ptr, %batch: i64, %block: i64) attributes {
      fusion.units = #fusion.extent<0 * B + 8>, fusion.threads = 64 : i64,
      fusion.operands = 2 : i64} {
    return
  }
  func.func private @taken.body()
}

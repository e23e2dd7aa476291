// RUN: fusion-opt %s --split-input-file --verify-diagnostics --fusion-plan-memory

// A compute op outside a group has no kernel.
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'fusion.exp' is in no group: run the fuse phase first}}
  %0 = fusion.exp %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// A future that nobody awaits: its region would run into the next step.
fusion.mesh @m(dp = 2)
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{the future is awaited 0 times: await it exactly once}}
  %f = fusion.async stream = 1 -> tensor<4xf32> {
    %0 = fusion.all_reduce sum, %x on @m[dp] : tensor<4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  return %x : tensor<4xf32>
}

// -----

fusion.mesh @m(dp = 2)
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // expected-error @+1 {{the future is awaited 2 times: await it exactly once}}
  %f = fusion.async stream = 1 -> tensor<4xf32> {
    %0 = fusion.all_reduce sum, %x on @m[dp] : tensor<4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  %a = fusion.await %f : !fusion.future<tensor<4xf32>>
  %b = fusion.await %f : !fusion.future<tensor<4xf32>>
  return %a, %b : tensor<4xf32>, tensor<4xf32>
}

// -----

// A module has 256 streams at most.
fusion.mesh @m(dp = 2)
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{stream 256 is too many: give one below 256}}
  %f = fusion.async stream = 256 -> tensor<4xf32> {
    %0 = fusion.all_reduce sum, %x on @m[dp] : tensor<4xf32>
    fusion.yield %0 : tensor<4xf32>
  }
  %a = fusion.await %f : !fusion.future<tensor<4xf32>>
  return %a : tensor<4xf32>
}

// -----

// One region at a time.
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %f = fusion.async stream = 1 -> tensor<4xf32> {
    // expected-error @+1 {{is nested in another asynchronous region}}
    %g = fusion.async stream = 2 -> tensor<4xf32> {
      fusion.yield %x : tensor<4xf32>
    }
    %b = fusion.await %g : !fusion.future<tensor<4xf32>>
    fusion.yield %b : tensor<4xf32>
  }
  %a = fusion.await %f : !fusion.future<tensor<4xf32>>
  return %a : tensor<4xf32>
}

// -----

// A future of the caller's.
// expected-error @+1 {{an argument is no tensor: '!fusion.future<tensor<4xf32>>'}}
func.func @main(%f: !fusion.future<tensor<4xf32>>, %x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// A group that code generation has not seen.
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{has no kernel: run code generation first}}
  %0 = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
    %1 = fusion.exp %a : tensor<4xf32>
    fusion.yield %1 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----

// A kernel that is not there.
module {
  module @kernels {}
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    // expected-error @+1 {{the kernel @kernels::@gone is missing or says no units}}
    %0 = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@gone {
      %1 = fusion.exp %a : tensor<4xf32>
      fusion.yield %1 : tensor<4xf32>
    }
    return %0 : tensor<4xf32>
  }
}

// -----

// expected-error @+1 {{has no function @main to plan}}
module {
  func.func @other(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}

// -----

// A view ends where its input does.
module @kernels {
  func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
}
func.func @main(%x: tensor<8xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'fusion.view' leaves its input: 16 bytes at 20 of 32}}
  %0 = fusion.group loop (%a = %x : tensor<8xf32>) -> tensor<4xf32> attributes {fusion.view = array<i64: 20>} {
    %1 = fusion.slice %a starts = [4] limits = [8] strides = [1] : tensor<8xf32>
    fusion.yield %1 : tensor<4xf32>
  }
  %2 = fusion.group loop (%a = %0 : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
    %1 = fusion.exp %a : tensor<4xf32>
    fusion.yield %1 : tensor<4xf32>
  }
  return %2 : tensor<4xf32>
}

// -----

module @kernels {
  func.func @k(%a: i64) attributes {fusion.units = #fusion.extent<0 * B + 1>, fusion.grain = 1 : i64} { return }
}
func.func @main(%x: tensor<8xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'fusion.view' needs one offset for each input and output}}
  %0 = fusion.group loop (%a = %x : tensor<8xf32>) -> tensor<4xf32> attributes {fusion.view = array<i64: 0, 16>} {
    %1 = fusion.slice %a starts = [4] limits = [8] strides = [1] : tensor<8xf32>
    fusion.yield %1 : tensor<4xf32>
  }
  %2 = fusion.group loop (%a = %0 : tensor<4xf32>) -> tensor<4xf32> kernel @kernels::@k {
    %1 = fusion.exp %a : tensor<4xf32>
    fusion.yield %1 : tensor<4xf32>
  }
  return %2 : tensor<4xf32>
}

// -----

// A result has bytes of its own.
func.func @main(%x: tensor<8xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{a result can't be a view of another value: compute it, without 'fusion.view'}}
  %0 = fusion.group loop (%a = %x : tensor<8xf32>) -> tensor<4xf32> attributes {fusion.view = array<i64: 16>} {
    %1 = fusion.slice %a starts = [4] limits = [8] strides = [1] : tensor<8xf32>
    fusion.yield %1 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

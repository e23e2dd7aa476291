// RUN: fusion-opt %s --fusion-emit-kernels --split-input-file --verify-diagnostics

func.func @language(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{has no kernel: the kernel 'k' is written in ptx; kernels of a model are compiled from C, for target cpu}}
  %0 = fusion.group fallback (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
    %1 = fusion.kernel_call "ptx" "k" "" (%a) flops = 1 bytes = 1 : (tensor<4xf32>) -> tensor<4xf32>
    fusion.yield %1 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----

func.func @name(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{the kernel '1k' can't be a function of C: name it with letters, digits and '_'}}
  %0 = fusion.group fallback (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
    %1 = fusion.kernel_call "c" "1k" "" (%a) flops = 1 bytes = 1 : (tensor<4xf32>) -> tensor<4xf32>
    fusion.yield %1 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----

func.func @not_text(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{the kernel 'k' has a source with a zero byte: pass text}}
  %0 = fusion.group fallback (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
    %1 = fusion.kernel_call "c" "k" "a\00" (%a) flops = 1 bytes = 1 : (tensor<4xf32>) -> tensor<4xf32>
    fusion.yield %1 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----

func.func @in_company(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{the kernel 'k' must be alone in its group, read the group's inputs and give all of its outputs, in order}}
  %0 = fusion.group fallback (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
    %1 = fusion.kernel_call "c" "k" "" (%a) flops = 1 bytes = 1 : (tensor<4xf32>) -> tensor<4xf32>
    %2 = fusion.neg %1 : tensor<4xf32>
    fusion.yield %2 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----

func.func @output_left_out(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{must be alone in its group}}
  %0 = fusion.group fallback (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
    %1:2 = fusion.kernel_call "c" "k" "" (%a) flops = 1 bytes = 1 : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    fusion.yield %1#1 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----

func.func @two_types(%x: tensor<4xf32>, %y: tensor<4xi8>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = fusion.group fallback (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
    %1 = fusion.kernel_call "c" "k" "" (%a) flops = 1 bytes = 1 : (tensor<4xf32>) -> tensor<4xf32>
    fusion.yield %1 : tensor<4xf32>
  }
  // expected-error @+1 {{the kernel 'k' is called as 'void k(const int8_t *, float *, int64_t)' here and as 'void k(const float *, float *, int64_t)' elsewhere: write a function for each}}
  %2 = fusion.group fallback (%a = %y : tensor<4xi8>) -> tensor<4xf32> {
    %1 = fusion.kernel_call "c" "k" "" (%a) flops = 1 bytes = 1 : (tensor<4xi8>) -> tensor<4xf32>
    fusion.yield %1 : tensor<4xf32>
  }
  return %0, %2 : tensor<4xf32>, tensor<4xf32>
}

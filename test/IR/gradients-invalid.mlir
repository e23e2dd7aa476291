// RUN: fusion-opt %s -split-input-file -verify-diagnostics

// What the gradients refuse, constraint by constraint. attention_grad shares
// the checks of attention: one of them stands for all.

// attention_grad C2: groups divide heads.
func.func @test(%q: tensor<1x4x8x16xf32>, %k: tensor<1x3x6x16xf32>, %v: tensor<1x3x6x5xf32>, %g: tensor<1x4x8x5xf32>) {
  // expected-error @+1 {{must divide that of query heads}}
  %r:3 = fusion.attention_grad %q, %k, %v, %g scale = 1.0 : tensor<1x4x8x16xf32>, tensor<1x3x6x16xf32>, tensor<1x3x6x5xf32>, tensor<1x4x8x5xf32>
  return
}

// -----

// attention_grad C5: the shape of the gradient.
func.func @test(%q: tensor<1x4x8x16xf32>, %k: tensor<1x2x6x16xf32>, %v: tensor<1x2x6x5xf32>, %g: tensor<1x4x8x16xf32>) {
  // expected-error @+1 {{the gradient must have the type of attention's result}}
  %r:3 = fusion.attention_grad %q, %k, %v, %g scale = 1.0 : tensor<1x4x8x16xf32>, tensor<1x2x6x16xf32>, tensor<1x2x6x5xf32>, tensor<1x4x8x16xf32>
  return
}

// -----

// attention_grad C5: the element type of the gradient.
func.func @test(%q: tensor<1x4x8x16xf16>, %k: tensor<1x2x6x16xf16>, %v: tensor<1x2x6x5xf16>, %g: tensor<1x4x8x5xf32>) {
  // expected-error @+1 {{the gradient must have the type of attention's result}}
  %r:3 = fusion.attention_grad %q, %k, %v, %g scale = 1.0 : tensor<1x4x8x16xf16>, tensor<1x2x6x16xf16>, tensor<1x2x6x5xf16>, tensor<1x4x8x5xf32>
  return
}

// -----

// max_pool_grad C2: one entry a spatial dimension.
func.func @test(%x: tensor<1x4x8x8xf32>, %g: tensor<1x4x4x4xf32>) {
  // expected-error @+1 {{'window'}}
  %r = fusion.max_pool_grad %x, %g window = [2] strides = [2, 2] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xf32>, tensor<1x4x4x4xf32>
  return
}

// -----

// max_pool_grad C3: each window holds an element of the input.
func.func @test(%x: tensor<1x1x2xf32>, %g: tensor<1x1x3xf32>) {
  // expected-error @+1 {{holds no element of the input}}
  %r = fusion.max_pool_grad %x, %g window = [1] strides = [1] pad_low = [1] pad_high = [0] dilations = [1] layout = nchw : tensor<1x1x2xf32>, tensor<1x1x3xf32>
  return
}

// -----

// max_pool_grad C5: the gradient's shape is that of the pooled image.
func.func @test(%x: tensor<1x4x8x8xf32>, %g: tensor<1x4x8x8xf32>) {
  // expected-error @+1 {{the gradient must have the type of max_pool's result, 'tensor<1x4x4x4xf32>'}}
  %r = fusion.max_pool_grad %x, %g window = [2, 2] strides = [2, 2] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>
  return
}

// -----

// max_pool_grad C6: floats.
func.func @test(%x: tensor<1x4x8x8xi32>, %g: tensor<1x4x4x4xi32>) {
  // expected-error @+1 {{operand #0 must be}}
  %r = fusion.max_pool_grad %x, %g window = [2, 2] strides = [2, 2] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xi32>, tensor<1x4x4x4xi32>
  return
}

// -----

// attention_grad C1: rank 4.
func.func @test(%q: tensor<4x8x16xf32>, %k: tensor<1x2x6x16xf32>, %v: tensor<1x2x6x5xf32>, %g: tensor<1x4x8x5xf32>) {
  // expected-error @+1 {{need rank 4}}
  %r:3 = fusion.attention_grad %q, %k, %v, %g scale = 1.0 : tensor<4x8x16xf32>, tensor<1x2x6x16xf32>, tensor<1x2x6x5xf32>, tensor<1x4x8x5xf32>
  return
}

// -----

// attention_grad C3: one element type.
func.func @test(%q: tensor<1x4x8x16xf32>, %k: tensor<1x2x6x16xf16>, %v: tensor<1x2x6x5xf32>, %g: tensor<1x4x8x5xf32>) {
  // expected-error @+1 {{element type}}
  %r:3 = fusion.attention_grad %q, %k, %v, %g scale = 1.0 : tensor<1x4x8x16xf32>, tensor<1x2x6x16xf16>, tensor<1x2x6x5xf32>, tensor<1x4x8x5xf32>
  return
}

// -----

// attention_grad C4: the shape of the mask.
func.func @test(%q: tensor<1x4x8x16xf32>, %k: tensor<1x2x6x16xf32>, %v: tensor<1x2x6x5xf32>, %g: tensor<1x4x8x5xf32>, %m: tensor<1x4x8x7xf32>) {
  // expected-error @+1 {{the mask must have the shape}}
  %r:3 = fusion.attention_grad %q, %k, %v, %g mask %m scale = 1.0 : tensor<1x4x8x16xf32>, tensor<1x2x6x16xf32>, tensor<1x2x6x5xf32>, tensor<1x4x8x5xf32>, tensor<1x4x8x7xf32>
  return
}

// -----

// max_pool_grad C1: rank 3 to 5.
func.func @test(%x: tensor<4x8xf32>, %g: tensor<2x4xf32>) {
  // expected-error @+1 {{a rank from 3 to 5}}
  %r = fusion.max_pool_grad %x, %g window = [2, 2] strides = [2, 2] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<4x8xf32>, tensor<2x4xf32>
  return
}

// -----

// max_pool_grad C4: static channels.
func.func @test(%x: tensor<1x?x8x8xf32>, %g: tensor<1x?x4x4xf32>) {
  // expected-error @+1 {{the channel dimension must be static}}
  %r = fusion.max_pool_grad %x, %g window = [2, 2] strides = [2, 2] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x?x8x8xf32>, tensor<1x?x4x4xf32>
  return
}

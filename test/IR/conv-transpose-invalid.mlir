// RUN: fusion-opt %s -split-input-file -verify-diagnostics

// What transposed convolutions refuse, constraint by constraint.

// conv_transpose C1: rank 3 to 5.
func.func @test(%x: tensor<4x8xf32>, %w: tensor<4x4xf32>) {
  // expected-error @+1 {{one rank from 3 to 5}}
  %r = fusion.conv_transpose %x, %w strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] output_padding = [0, 0] dilations = [1, 1] groups = 1 layout = nchw : tensor<4x8xf32>, tensor<4x4xf32>
  return
}

// -----

// conv_transpose C1: rank 3 to 5.
func.func @test(%x: tensor<1x4x2x2x2x2xf32>, %w: tensor<4x4x1x1x1x1xf32>) {
  // expected-error @+1 {{one rank from 3 to 5}}
  %r = fusion.conv_transpose %x, %w strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] output_padding = [0, 0] dilations = [1, 1] groups = 1 layout = nchw : tensor<1x4x2x2x2x2xf32>, tensor<4x4x1x1x1x1xf32>
  return
}

// -----

// conv_transpose C1: one rank.
func.func @test(%x: tensor<1x4x8x8xf32>, %w: tensor<4x4x3xf32>) {
  // expected-error @+1 {{one rank from 3 to 5}}
  %r = fusion.conv_transpose %x, %w strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] output_padding = [0, 0] dilations = [1, 1] groups = 1 layout = nchw : tensor<1x4x8x8xf32>, tensor<4x4x3xf32>
  return
}

// -----

// conv_transpose C2: one entry a spatial dimension.
func.func @test(%x: tensor<1x4x8x8xf32>, %w: tensor<4x4x3x3xf32>) {
  // expected-error @+1 {{'strides' must have 2 entries}}
  %r = fusion.conv_transpose %x, %w strides = [1] pad_low = [0, 0] pad_high = [0, 0] output_padding = [0, 0] dilations = [1, 1] groups = 1 layout = nchw : tensor<1x4x8x8xf32>, tensor<4x4x3x3xf32>
  return
}

// -----

// conv_transpose C2: one entry a spatial dimension.
func.func @test(%x: tensor<1x4x8x8xf32>, %w: tensor<4x4x3x3xf32>) {
  // expected-error @+1 {{'pad_low' must have 2 entries}}
  %r = fusion.conv_transpose %x, %w strides = [1, 1] pad_low = [0] pad_high = [0, 0] output_padding = [0, 0] dilations = [1, 1] groups = 1 layout = nchw : tensor<1x4x8x8xf32>, tensor<4x4x3x3xf32>
  return
}

// -----

// conv_transpose C2: one entry a spatial dimension.
func.func @test(%x: tensor<1x4x8x8xf32>, %w: tensor<4x4x3x3xf32>) {
  // expected-error @+1 {{'pad_high' must have 2 entries}}
  %r = fusion.conv_transpose %x, %w strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0, 0] output_padding = [0, 0] dilations = [1, 1] groups = 1 layout = nchw : tensor<1x4x8x8xf32>, tensor<4x4x3x3xf32>
  return
}

// -----

// conv_transpose C2: one entry a spatial dimension.
func.func @test(%x: tensor<1x4x8x8xf32>, %w: tensor<4x4x3x3xf32>) {
  // expected-error @+1 {{'dilations' must have 2 entries}}
  %r = fusion.conv_transpose %x, %w strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] output_padding = [0, 0] dilations = [] groups = 1 layout = nchw : tensor<1x4x8x8xf32>, tensor<4x4x3x3xf32>
  return
}

// -----

// conv_transpose C2: positive strides.
func.func @test(%x: tensor<1x4x8x8xf32>, %w: tensor<4x4x3x3xf32>) {
  // expected-error @+1 {{'strides' has the entry 0}}
  %r = fusion.conv_transpose %x, %w strides = [0, 1] pad_low = [0, 0] pad_high = [0, 0] output_padding = [0, 0] dilations = [1, 1] groups = 1 layout = nchw : tensor<1x4x8x8xf32>, tensor<4x4x3x3xf32>
  return
}

// -----

// conv_transpose C2: positive dilations.
func.func @test(%x: tensor<1x4x8x8xf32>, %w: tensor<4x4x3x3xf32>) {
  // expected-error @+1 {{'dilations' has the entry 0}}
  %r = fusion.conv_transpose %x, %w strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] output_padding = [0, 0] dilations = [1, 0] groups = 1 layout = nchw : tensor<1x4x8x8xf32>, tensor<4x4x3x3xf32>
  return
}

// -----

// conv_transpose C2: no negative pads.
func.func @test(%x: tensor<1x4x8x8xf32>, %w: tensor<4x4x3x3xf32>) {
  // expected-error @+1 {{'pad_high' has the entry -1}}
  %r = fusion.conv_transpose %x, %w strides = [1, 1] pad_low = [0, 0] pad_high = [-1, 0] output_padding = [0, 0] dilations = [1, 1] groups = 1 layout = nchw : tensor<1x4x8x8xf32>, tensor<4x4x3x3xf32>
  return
}

// -----

// conv_transpose C3: a group.
func.func @test(%x: tensor<1x4x8x8xf32>, %w: tensor<4x4x3x3xf32>) {
  // expected-error @+1 {{'groups' must be at least 1}}
  %r = fusion.conv_transpose %x, %w strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] output_padding = [0, 0] dilations = [1, 1] groups = 0 layout = nchw : tensor<1x4x8x8xf32>, tensor<4x4x3x3xf32>
  return
}

// -----

// conv_transpose C3: groups divide the channels.
func.func @test(%x: tensor<1x4x8x8xf32>, %w: tensor<4x4x3x3xf32>) {
  // expected-error @+1 {{groups = 3 must divide}}
  %r = fusion.conv_transpose %x, %w strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] output_padding = [0, 0] dilations = [1, 1] groups = 3 layout = nchw : tensor<1x4x8x8xf32>, tensor<4x4x3x3xf32>
  return
}

// -----

// conv_transpose C4: the bias.
func.func @test(%x: tensor<1x4x8x8xf32>, %w: tensor<4x4x3x3xf32>, %b: tensor<5xf32>) {
  // expected-error @+1 {{the bias must have the shape}}
  %r = fusion.conv_transpose %x, %w bias %b strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] output_padding = [0, 0] dilations = [1, 1] groups = 1 layout = nchw : tensor<1x4x8x8xf32>, tensor<4x4x3x3xf32>, tensor<5xf32>
  return
}

// -----

// conv_transpose C4: a vector.
func.func @test(%x: tensor<1x4x8x8xf32>, %w: tensor<4x4x3x3xf32>, %b: tensor<4x1xf32>) {
  // expected-error @+1 {{the bias must have the shape}}
  %r = fusion.conv_transpose %x, %w bias %b strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] output_padding = [0, 0] dilations = [1, 1] groups = 1 layout = nchw : tensor<1x4x8x8xf32>, tensor<4x4x3x3xf32>, tensor<4x1xf32>
  return
}

// -----

// conv_transpose C6: one element type of the bias.
func.func @test(%x: tensor<1x4x8x8xf32>, %w: tensor<4x4x3x3xf32>, %b: tensor<4xf16>) {
  // expected-error @+1 {{the bias must have the shape}}
  %r = fusion.conv_transpose %x, %w bias %b strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] output_padding = [0, 0] dilations = [1, 1] groups = 1 layout = nchw : tensor<1x4x8x8xf32>, tensor<4x4x3x3xf32>, tensor<4xf16>
  return
}

// -----

// conv_transpose C5: static channels.
func.func @test(%x: tensor<1x?x8x8xf32>, %w: tensor<4x4x3x3xf32>) {
  // expected-error @+1 {{the channel dimension must be static}}
  %r = fusion.conv_transpose %x, %w strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] output_padding = [0, 0] dilations = [1, 1] groups = 1 layout = nchw : tensor<1x?x8x8xf32>, tensor<4x4x3x3xf32>
  return
}

// -----

// conv_transpose C5: static channels, last.
func.func @test(%x: tensor<1x8x8x?xf32>, %w: tensor<4x4x3x3xf32>) {
  // expected-error @+1 {{the channel dimension must be static}}
  %r = fusion.conv_transpose %x, %w strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] output_padding = [0, 0] dilations = [1, 1] groups = 1 layout = nhwc : tensor<1x8x8x?xf32>, tensor<4x4x3x3xf32>
  return
}

// -----

// conv_transpose C5: static spatial dimensions.
func.func @test(%x: tensor<1x4x?x8xf32>, %w: tensor<4x4x3x3xf32>) {
  // expected-error @+1 {{spatial dimensions must be static}}
  %r = fusion.conv_transpose %x, %w strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] output_padding = [0, 0] dilations = [1, 1] groups = 1 layout = nchw : tensor<1x4x?x8xf32>, tensor<4x4x3x3xf32>
  return
}

// -----

// conv_transpose C5: static weights.
func.func @test(%x: tensor<1x4x8x8xf32>, %w: tensor<4x4x?x3xf32>) {
  // expected-error @+1 {{the weights' shape must be static}}
  %r = fusion.conv_transpose %x, %w strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] output_padding = [0, 0] dilations = [1, 1] groups = 1 layout = nchw : tensor<1x4x8x8xf32>, tensor<4x4x?x3xf32>
  return
}

// -----

// conv_transpose C6: one element type.
func.func @test(%x: tensor<1x4x8x8xf32>, %w: tensor<4x4x3x3xf16>) {
  // expected-error @+1 {{element types of input and weights differ}}
  %r = fusion.conv_transpose %x, %w strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] output_padding = [0, 0] dilations = [1, 1] groups = 1 layout = nchw : tensor<1x4x8x8xf32>, tensor<4x4x3x3xf16>
  return
}

// -----

// conv_transpose C6: floats.
func.func @test(%x: tensor<1x4x8x8xi32>, %w: tensor<4x4x3x3xi32>) {
  // expected-error @+1 {{of float (f64, f32, f16 or bf16) values}}
  %r = fusion.conv_transpose %x, %w strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] output_padding = [0, 0] dilations = [1, 1] groups = 1 layout = nchw : tensor<1x4x8x8xi32>, tensor<4x4x3x3xi32>
  return
}

// -----

// conv_transpose C5: no overflow.
func.func @test(%x: tensor<1x4x8x8xf32>, %w: tensor<4x4x3x3xf32>) {
  // expected-error @+1 {{overflow}}
  %r = fusion.conv_transpose %x, %w strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] output_padding = [0, 0] dilations = [9223372036854775807, 1] groups = 1 layout = nchw : tensor<1x4x8x8xf32>, tensor<4x4x3x3xf32>
  return
}

// -----

// conv_transpose C3: the weights' channels.
func.func @test(%x: tensor<1x4x8x8xf32>, %w: tensor<2x4x3x3xf32>) {
  // expected-error @+1 {{must divide 4 input channels}}
  %r = fusion.conv_transpose %x, %w strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] output_padding = [0, 0] dilations = [1, 1] groups = 1 layout = nchw : tensor<1x4x8x8xf32>, tensor<2x4x3x3xf32>
  return
}

// -----

// conv_transpose C2: one entry a spatial dimension.
func.func @test(%x: tensor<1x4x8x8xf32>, %w: tensor<4x4x3x3xf32>) {
  // expected-error @+1 {{'output_padding' must have 2 entries}}
  %r = fusion.conv_transpose %x, %w strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] output_padding = [0] dilations = [1, 1] groups = 1 layout = nchw : tensor<1x4x8x8xf32>, tensor<4x4x3x3xf32>
  return
}

// -----

// conv_transpose C7: below stride or dilation.
func.func @test(%x: tensor<1x4x8x8xf32>, %w: tensor<4x4x3x3xf32>) {
  // expected-error @+1 {{'output_padding' must be below}}
  %r = fusion.conv_transpose %x, %w strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] output_padding = [1, 0] dilations = [1, 1] groups = 1 layout = nchw : tensor<1x4x8x8xf32>, tensor<4x4x3x3xf32>
  return
}

// -----

// conv_transpose C7: not negative.
func.func @test(%x: tensor<1x4x8x8xf32>, %w: tensor<4x4x3x3xf32>) {
  // expected-error @+1 {{'output_padding' has the entry -1}}
  %r = fusion.conv_transpose %x, %w strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] output_padding = [-1, 0] dilations = [1, 1] groups = 1 layout = nchw : tensor<1x4x8x8xf32>, tensor<4x4x3x3xf32>
  return
}

// -----

// conv_transpose C5: something is left.
func.func @test(%x: tensor<1x4x8x8xf32>, %w: tensor<4x4x3x3xf32>) {
  // expected-error @+1 {{the padding removes more than the whole result}}
  %r = fusion.conv_transpose %x, %w strides = [1, 1] pad_low = [11, 0] pad_high = [0, 0] output_padding = [0, 0] dilations = [1, 1] groups = 1 layout = nchw : tensor<1x4x8x8xf32>, tensor<4x4x3x3xf32>
  return
}

// -----

// conv_transpose C5: an empty window.
func.func @test(%x: tensor<1x4x8x8xf32>, %w: tensor<4x4x0x3xf32>) {
  // expected-error @+1 {{must not be empty}}
  %r = fusion.conv_transpose %x, %w strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] output_padding = [0, 0] dilations = [1, 1] groups = 1 layout = nchw : tensor<1x4x8x8xf32>, tensor<4x4x0x3xf32>
  return
}

// -----

// conv_transpose C5: no overflow of the channels.
func.func @test(%x: tensor<1x4x8x8xf32>, %w: tensor<4x9223372036854775807x1x1xf32>) {
  // expected-error @+1 {{overflow}}
  %r = fusion.conv_transpose %x, %w strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] output_padding = [0, 0] dilations = [1, 1] groups = 4 layout = nchw : tensor<1x4x8x8xf32>, tensor<4x9223372036854775807x1x1xf32>
  return
}

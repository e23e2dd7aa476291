// RUN: fusion-opt %s -split-input-file -verify-diagnostics

// What pools refuse, constraint by constraint.

// max_pool C1: rank 3 to 5.
func.func @test(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{a rank from 3 to 5}}
  %r = fusion.max_pool %x window = [2, 2] strides = [2, 2] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<4x8xf32>
  return
}

// -----

// avg_pool C1: rank 3 to 5.
func.func @test(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{a rank from 3 to 5}}
  %r = fusion.avg_pool %x window = [2, 2] strides = [2, 2] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<4x8xf32>
  return
}

// -----

// max_pool C2: one entry a spatial dimension.
func.func @test(%x: tensor<1x4x8x8xf32>) {
  // expected-error @+1 {{'window' must have 2 entries}}
  %r = fusion.max_pool %x window = [2] strides = [2, 2] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xf32>
  return
}

// -----

// avg_pool C2: one entry a spatial dimension.
func.func @test(%x: tensor<1x4x8x8xf32>) {
  // expected-error @+1 {{'window' must have 2 entries}}
  %r = fusion.avg_pool %x window = [2] strides = [2, 2] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xf32>
  return
}

// -----

// max_pool C2: positive windows.
func.func @test(%x: tensor<1x4x8x8xf32>) {
  // expected-error @+1 {{'window' has the entry 0}}
  %r = fusion.max_pool %x window = [2, 0] strides = [2, 2] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xf32>
  return
}

// -----

// avg_pool C2: positive windows.
func.func @test(%x: tensor<1x4x8x8xf32>) {
  // expected-error @+1 {{'window' has the entry 0}}
  %r = fusion.avg_pool %x window = [2, 0] strides = [2, 2] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xf32>
  return
}

// -----

// max_pool C2: positive strides.
func.func @test(%x: tensor<1x4x8x8xf32>) {
  // expected-error @+1 {{'strides' has the entry 0}}
  %r = fusion.max_pool %x window = [2, 2] strides = [2, 0] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xf32>
  return
}

// -----

// avg_pool C2: positive strides.
func.func @test(%x: tensor<1x4x8x8xf32>) {
  // expected-error @+1 {{'strides' has the entry 0}}
  %r = fusion.avg_pool %x window = [2, 2] strides = [2, 0] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xf32>
  return
}

// -----

// max_pool C2: positive dilations.
func.func @test(%x: tensor<1x4x8x8xf32>) {
  // expected-error @+1 {{'dilations' has the entry -1}}
  %r = fusion.max_pool %x window = [2, 2] strides = [2, 2] pad_low = [0, 0] pad_high = [0, 0] dilations = [-1, 1] layout = nchw : tensor<1x4x8x8xf32>
  return
}

// -----

// avg_pool C2: positive dilations.
func.func @test(%x: tensor<1x4x8x8xf32>) {
  // expected-error @+1 {{'dilations' has the entry -1}}
  %r = fusion.avg_pool %x window = [2, 2] strides = [2, 2] pad_low = [0, 0] pad_high = [0, 0] dilations = [-1, 1] layout = nchw : tensor<1x4x8x8xf32>
  return
}

// -----

// max_pool C2: no negative pads.
func.func @test(%x: tensor<1x4x8x8xf32>) {
  // expected-error @+1 {{'pad_low' has the entry -2}}
  %r = fusion.max_pool %x window = [2, 2] strides = [2, 2] pad_low = [-2, 0] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xf32>
  return
}

// -----

// avg_pool C2: no negative pads.
func.func @test(%x: tensor<1x4x8x8xf32>) {
  // expected-error @+1 {{'pad_low' has the entry -2}}
  %r = fusion.avg_pool %x window = [2, 2] strides = [2, 2] pad_low = [-2, 0] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xf32>
  return
}

// -----

// max_pool C2: one entry a spatial dimension.
func.func @test(%x: tensor<1x4x8x8xf32>) {
  // expected-error @+1 {{'pad_high' must have 2 entries}}
  %r = fusion.max_pool %x window = [2, 2] strides = [2, 2] pad_low = [0, 0] pad_high = [] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xf32>
  return
}

// -----

// avg_pool C2: one entry a spatial dimension.
func.func @test(%x: tensor<1x4x8x8xf32>) {
  // expected-error @+1 {{'pad_high' must have 2 entries}}
  %r = fusion.avg_pool %x window = [2, 2] strides = [2, 2] pad_low = [0, 0] pad_high = [] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xf32>
  return
}

// -----

// max_pool C3: no window in the padding.
func.func @test(%x: tensor<1x4x8x8xf32>) {
  // expected-error @+1 {{holds no element of the input}}
  %r = fusion.max_pool %x window = [2, 2] strides = [2, 2] pad_low = [2, 0] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xf32>
  return
}

// -----

// avg_pool C3: no window in the padding.
func.func @test(%x: tensor<1x4x8x8xf32>) {
  // expected-error @+1 {{holds no element of the input}}
  %r = fusion.avg_pool %x window = [2, 2] strides = [2, 2] pad_low = [2, 0] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xf32>
  return
}

// -----

// max_pool C3: no window behind the input.
func.func @test(%x: tensor<1x4x8x8xf32>) {
  // expected-error @+1 {{holds no element of the input}}
  %r = fusion.max_pool %x window = [2, 2] strides = [2, 2] pad_low = [0, 0] pad_high = [2, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xf32>
  return
}

// -----

// avg_pool C3: no window behind the input.
func.func @test(%x: tensor<1x4x8x8xf32>) {
  // expected-error @+1 {{holds no element of the input}}
  %r = fusion.avg_pool %x window = [2, 2] strides = [2, 2] pad_low = [0, 0] pad_high = [2, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xf32>
  return
}

// -----

// max_pool C3: nor one that steps over it.
func.func @test(%x: tensor<1x4x1x8xf32>) {
  // expected-error @+1 {{holds no element of the input}}
  %r = fusion.max_pool %x window = [2, 2] strides = [1, 1] pad_low = [1, 0] pad_high = [1, 0] dilations = [2, 1] layout = nchw : tensor<1x4x1x8xf32>
  return
}

// -----

// avg_pool C3: nor one that steps over it.
func.func @test(%x: tensor<1x4x1x8xf32>) {
  // expected-error @+1 {{holds no element of the input}}
  %r = fusion.avg_pool %x window = [2, 2] strides = [1, 1] pad_low = [1, 0] pad_high = [1, 0] dilations = [2, 1] layout = nchw : tensor<1x4x1x8xf32>
  return
}

// -----

// max_pool C3: an empty input.
func.func @test(%x: tensor<1x4x0x8xf32>) {
  // expected-error @+1 {{holds no element of the input}}
  %r = fusion.max_pool %x window = [2, 2] strides = [2, 2] pad_low = [1, 0] pad_high = [1, 0] dilations = [1, 1] layout = nchw : tensor<1x4x0x8xf32>
  return
}

// -----

// avg_pool C3: an empty input.
func.func @test(%x: tensor<1x4x0x8xf32>) {
  // expected-error @+1 {{holds no element of the input}}
  %r = fusion.avg_pool %x window = [2, 2] strides = [2, 2] pad_low = [1, 0] pad_high = [1, 0] dilations = [1, 1] layout = nchw : tensor<1x4x0x8xf32>
  return
}

// -----

// max_pool C4: static channels.
func.func @test(%x: tensor<1x?x8x8xf32>) {
  // expected-error @+1 {{the channel dimension must be static}}
  %r = fusion.max_pool %x window = [2, 2] strides = [2, 2] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x?x8x8xf32>
  return
}

// -----

// avg_pool C4: static channels.
func.func @test(%x: tensor<1x?x8x8xf32>) {
  // expected-error @+1 {{the channel dimension must be static}}
  %r = fusion.avg_pool %x window = [2, 2] strides = [2, 2] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x?x8x8xf32>
  return
}

// -----

// max_pool C4: static spatial dimensions.
func.func @test(%x: tensor<1x4x8x?xf32>) {
  // expected-error @+1 {{spatial dimensions must be static}}
  %r = fusion.max_pool %x window = [2, 2] strides = [2, 2] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x?xf32>
  return
}

// -----

// avg_pool C4: static spatial dimensions.
func.func @test(%x: tensor<1x4x8x?xf32>) {
  // expected-error @+1 {{spatial dimensions must be static}}
  %r = fusion.avg_pool %x window = [2, 2] strides = [2, 2] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x?xf32>
  return
}

// -----

// max_pool C3: the window fits.
func.func @test(%x: tensor<1x4x8x8xf32>) {
  // expected-error @+1 {{does not fit the padded input}}
  %r = fusion.max_pool %x window = [9, 2] strides = [2, 2] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xf32>
  return
}

// -----

// avg_pool C3: the window fits.
func.func @test(%x: tensor<1x4x8x8xf32>) {
  // expected-error @+1 {{does not fit the padded input}}
  %r = fusion.avg_pool %x window = [9, 2] strides = [2, 2] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xf32>
  return
}

// -----

// max_pool C3: no overflow.
func.func @test(%x: tensor<1x4x8x8xf32>) {
  // expected-error @+1 {{overflow}}
  %r = fusion.max_pool %x window = [4, 1] strides = [2, 2] pad_low = [0, 0] pad_high = [0, 0] dilations = [9223372036854775807, 1] layout = nchw : tensor<1x4x8x8xf32>
  return
}

// -----

// avg_pool C3: no overflow.
func.func @test(%x: tensor<1x4x8x8xf32>) {
  // expected-error @+1 {{overflow}}
  %r = fusion.avg_pool %x window = [4, 1] strides = [2, 2] pad_low = [0, 0] pad_high = [0, 0] dilations = [9223372036854775807, 1] layout = nchw : tensor<1x4x8x8xf32>
  return
}

// -----

// max_pool C3: huge padding.
func.func @test(%x: tensor<1x4x8x8xf32>) {
  // expected-error @+1 {{holds no element of the input}}
  %r = fusion.max_pool %x window = [2, 2] strides = [1, 1] pad_low = [9223372036854775000, 0] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xf32>
  return
}

// -----

// avg_pool C3: huge padding.
func.func @test(%x: tensor<1x4x8x8xf32>) {
  // expected-error @+1 {{holds no element of the input}}
  %r = fusion.avg_pool %x window = [2, 2] strides = [1, 1] pad_low = [9223372036854775000, 0] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xf32>
  return
}

// -----

// avg_pool C5: floats.
func.func @test(%x: tensor<1x4x8x8xi32>) {
  // expected-error @+1 {{of float (f64, f32, f16 or bf16) values}}
  %r = fusion.avg_pool %x window = [2, 2] strides = [2, 2] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<1x4x8x8xi32>
  return
}

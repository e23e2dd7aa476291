// RUN: fusion-opt %s -split-input-file -verify-diagnostics

// What norms and softmax refuse, constraint by constraint.

// batch_norm C1: the axis.
func.func @test(%x: tensor<2x4x8xf32>, %p: tensor<4xf32>) {
  // expected-error @+1 {{outside the rank 3}}
  %r = fusion.batch_norm %x, %p, %p, %p, %p epsilon = 1.0e-5 axis = 3 : tensor<2x4x8xf32>, tensor<4xf32>
  return
}

// -----

// batch_norm_training C1: the axis.
func.func @test(%x: tensor<2x4x8xf32>, %p: tensor<4xf32>) {
  // expected-error @+1 {{outside the rank 3}}
  %r:3 = fusion.batch_norm_training %x, %p, %p epsilon = 1.0e-5 axis = 3 : tensor<2x4x8xf32>, tensor<4xf32>
  return
}

// -----

// batch_norm C1: the axis.
func.func @test(%x: tensor<2x4x8xf32>, %p: tensor<4xf32>) {
  // expected-error @+1 {{outside the rank 3}}
  %r = fusion.batch_norm %x, %p, %p, %p, %p epsilon = 1.0e-5 axis = -1 : tensor<2x4x8xf32>, tensor<4xf32>
  return
}

// -----

// batch_norm_training C1: the axis.
func.func @test(%x: tensor<2x4x8xf32>, %p: tensor<4xf32>) {
  // expected-error @+1 {{outside the rank 3}}
  %r:3 = fusion.batch_norm_training %x, %p, %p epsilon = 1.0e-5 axis = -1 : tensor<2x4x8xf32>, tensor<4xf32>
  return
}

// -----

// batch_norm C2: the size of the axis.
func.func @test(%x: tensor<2x4x8xf32>, %p: tensor<5xf32>) {
  // expected-error @+1 {{must have the shape [4]}}
  %r = fusion.batch_norm %x, %p, %p, %p, %p epsilon = 1.0e-5 axis = 1 : tensor<2x4x8xf32>, tensor<5xf32>
  return
}

// -----

// batch_norm_training C2: the size of the axis.
func.func @test(%x: tensor<2x4x8xf32>, %p: tensor<5xf32>) {
  // expected-error @+1 {{must have the shape [4]}}
  %r:3 = fusion.batch_norm_training %x, %p, %p epsilon = 1.0e-5 axis = 1 : tensor<2x4x8xf32>, tensor<5xf32>
  return
}

// -----

// batch_norm C2: vectors.
func.func @test(%x: tensor<2x4x8xf32>, %p: tensor<4x1xf32>) {
  // expected-error @+1 {{must have the shape [4]}}
  %r = fusion.batch_norm %x, %p, %p, %p, %p epsilon = 1.0e-5 axis = 1 : tensor<2x4x8xf32>, tensor<4x1xf32>
  return
}

// -----

// batch_norm_training C2: vectors.
func.func @test(%x: tensor<2x4x8xf32>, %p: tensor<4x1xf32>) {
  // expected-error @+1 {{must have the shape [4]}}
  %r:3 = fusion.batch_norm_training %x, %p, %p epsilon = 1.0e-5 axis = 1 : tensor<2x4x8xf32>, tensor<4x1xf32>
  return
}

// -----

// batch_norm C2: a static axis.
func.func @test(%x: tensor<2x?x8xf32>, %p: tensor<4xf32>) {
  // expected-error @+1 {{the axis must be static}}
  %r = fusion.batch_norm %x, %p, %p, %p, %p epsilon = 1.0e-5 axis = 1 : tensor<2x?x8xf32>, tensor<4xf32>
  return
}

// -----

// batch_norm_training C2: a static axis.
func.func @test(%x: tensor<2x?x8xf32>, %p: tensor<4xf32>) {
  // expected-error @+1 {{the axis must be static}}
  %r:3 = fusion.batch_norm_training %x, %p, %p epsilon = 1.0e-5 axis = 1 : tensor<2x?x8xf32>, tensor<4xf32>
  return
}

// -----

// batch_norm C3: not narrower than the input.
func.func @test(%x: tensor<2x4x8xf32>, %p: tensor<4xf16>) {
  // expected-error @+1 {{or a wider one}}
  %r = fusion.batch_norm %x, %p, %p, %p, %p epsilon = 1.0e-5 axis = 1 : tensor<2x4x8xf32>, tensor<4xf16>
  return
}

// -----

// batch_norm_training C3: not narrower than the input.
func.func @test(%x: tensor<2x4x8xf32>, %p: tensor<4xf16>) {
  // expected-error @+1 {{or a wider one}}
  %r:3 = fusion.batch_norm_training %x, %p, %p epsilon = 1.0e-5 axis = 1 : tensor<2x4x8xf32>, tensor<4xf16>
  return
}

// -----

// batch_norm C3: not another format of the same width.
func.func @test(%x: tensor<2x4x8xbf16>, %p: tensor<4xf16>) {
  // expected-error @+1 {{or a wider one}}
  %r = fusion.batch_norm %x, %p, %p, %p, %p epsilon = 1.0e-5 axis = 1 : tensor<2x4x8xbf16>, tensor<4xf16>
  return
}

// -----

// batch_norm_training C3: not another format of the same width.
func.func @test(%x: tensor<2x4x8xbf16>, %p: tensor<4xf16>) {
  // expected-error @+1 {{or a wider one}}
  %r:3 = fusion.batch_norm_training %x, %p, %p epsilon = 1.0e-5 axis = 1 : tensor<2x4x8xbf16>, tensor<4xf16>
  return
}

// -----

// batch_norm C4: epsilon.
func.func @test(%x: tensor<2x4x8xf32>, %p: tensor<4xf32>) {
  // expected-error @+1 {{epsilon must not be negative}}
  %r = fusion.batch_norm %x, %p, %p, %p, %p epsilon = -1.0e-5 axis = 1 : tensor<2x4x8xf32>, tensor<4xf32>
  return
}

// -----

// batch_norm_training C4: epsilon.
func.func @test(%x: tensor<2x4x8xf32>, %p: tensor<4xf32>) {
  // expected-error @+1 {{epsilon must not be negative}}
  %r:3 = fusion.batch_norm_training %x, %p, %p epsilon = -1.0e-5 axis = 1 : tensor<2x4x8xf32>, tensor<4xf32>
  return
}

// -----

// batch_norm C4: epsilon is a number.
func.func @test(%x: tensor<2x4x8xf32>, %p: tensor<4xf32>) {
  // expected-error @+1 {{epsilon must not be negative}}
  %r = fusion.batch_norm %x, %p, %p, %p, %p epsilon = 0x7FF8000000000000 axis = 1 : tensor<2x4x8xf32>, tensor<4xf32>
  return
}

// -----

// batch_norm_training C4: epsilon is a number.
func.func @test(%x: tensor<2x4x8xf32>, %p: tensor<4xf32>) {
  // expected-error @+1 {{epsilon must not be negative}}
  %r:3 = fusion.batch_norm_training %x, %p, %p epsilon = 0x7FF8000000000000 axis = 1 : tensor<2x4x8xf32>, tensor<4xf32>
  return
}

// -----

// batch_norm C3: one type.
func.func @test(%x: tensor<2x4xf32>, %p: tensor<4xf32>, %q: tensor<4xf64>) {
  // expected-error @+1 {{must share one type}}
  %r = "fusion.batch_norm"(%x, %p, %p, %q, %p) <{axis = 1 : i64, epsilon = 0.0 : f64}> : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf64>, tensor<4xf32>) -> tensor<2x4xf32>
  return
}

// -----

// layer_norm C1: the axis.
func.func @test(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{outside the rank 2}}
  %r = fusion.layer_norm %x epsilon = 0.0 axis = 2 : tensor<2x8xf32>
  return
}

// -----

// layer_norm C1: the axis.
func.func @test(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{outside the rank 2}}
  %r = fusion.layer_norm %x epsilon = 0.0 axis = -1 : tensor<2x8xf32>
  return
}

// -----

// layer_norm C1: static rows.
func.func @test(%x: tensor<2x?xf32>) {
  // expected-error @+1 {{the normalized dimensions must be static}}
  %r = fusion.layer_norm %x epsilon = 0.0 axis = 1 : tensor<2x?xf32>
  return
}

// -----

// layer_norm C2: the shape of the scale.
func.func @test(%x: tensor<2x8xf32>, %p: tensor<2xf32>) {
  // expected-error @+1 {{must have the input's shape from the axis on}}
  %r = fusion.layer_norm %x scale %p epsilon = 0.0 axis = 1 : tensor<2x8xf32>, tensor<2xf32>
  return
}

// -----

// layer_norm C2: the type of the scale.
func.func @test(%x: tensor<2x8xf16>, %p: tensor<8xf32>) {
  // expected-error @+1 {{must have the input's shape from the axis on}}
  %r = fusion.layer_norm %x scale %p epsilon = 0.0 axis = 1 : tensor<2x8xf16>, tensor<8xf32>
  return
}

// -----

// layer_norm C2: the shape of the bias.
func.func @test(%x: tensor<2x8xf32>, %p: tensor<2xf32>) {
  // expected-error @+1 {{must have the input's shape from the axis on}}
  %r = fusion.layer_norm %x bias %p epsilon = 0.0 axis = 1 : tensor<2x8xf32>, tensor<2xf32>
  return
}

// -----

// layer_norm C2: the type of the bias.
func.func @test(%x: tensor<2x8xf16>, %p: tensor<8xf32>) {
  // expected-error @+1 {{must have the input's shape from the axis on}}
  %r = fusion.layer_norm %x bias %p epsilon = 0.0 axis = 1 : tensor<2x8xf16>, tensor<8xf32>
  return
}

// -----

// layer_norm C3: epsilon.
func.func @test(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{epsilon must not be negative}}
  %r = fusion.layer_norm %x epsilon = -1.0 axis = 1 : tensor<2x8xf32>
  return
}

// -----

// rms_norm C1: the axis.
func.func @test(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{outside the rank 2}}
  %r = fusion.rms_norm %x epsilon = 0.0 axis = 2 : tensor<2x8xf32>
  return
}

// -----

// rms_norm C1: the axis.
func.func @test(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{outside the rank 2}}
  %r = fusion.rms_norm %x epsilon = 0.0 axis = -1 : tensor<2x8xf32>
  return
}

// -----

// rms_norm C1: static rows.
func.func @test(%x: tensor<2x?xf32>) {
  // expected-error @+1 {{the normalized dimensions must be static}}
  %r = fusion.rms_norm %x epsilon = 0.0 axis = 1 : tensor<2x?xf32>
  return
}

// -----

// rms_norm C2: the shape of the scale.
func.func @test(%x: tensor<2x8xf32>, %p: tensor<2xf32>) {
  // expected-error @+1 {{must have the input's shape from the axis on}}
  %r = fusion.rms_norm %x scale %p epsilon = 0.0 axis = 1 : tensor<2x8xf32>, tensor<2xf32>
  return
}

// -----

// rms_norm C2: the type of the scale.
func.func @test(%x: tensor<2x8xf16>, %p: tensor<8xf32>) {
  // expected-error @+1 {{must have the input's shape from the axis on}}
  %r = fusion.rms_norm %x scale %p epsilon = 0.0 axis = 1 : tensor<2x8xf16>, tensor<8xf32>
  return
}

// -----

// rms_norm C2: the shape of the bias.
func.func @test(%x: tensor<2x8xf32>, %p: tensor<2xf32>) {
  // expected-error @+1 {{must have the input's shape from the axis on}}
  %r = fusion.rms_norm %x bias %p epsilon = 0.0 axis = 1 : tensor<2x8xf32>, tensor<2xf32>
  return
}

// -----

// rms_norm C2: the type of the bias.
func.func @test(%x: tensor<2x8xf16>, %p: tensor<8xf32>) {
  // expected-error @+1 {{must have the input's shape from the axis on}}
  %r = fusion.rms_norm %x bias %p epsilon = 0.0 axis = 1 : tensor<2x8xf16>, tensor<8xf32>
  return
}

// -----

// rms_norm C3: epsilon.
func.func @test(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{epsilon must not be negative}}
  %r = fusion.rms_norm %x epsilon = -1.0 axis = 1 : tensor<2x8xf32>
  return
}

// -----

// softmax C1: the axis.
func.func @test(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{axis 2 is outside the rank 2}}
  %r = fusion.softmax %x axis = 2 : tensor<2x8xf32>
  return
}

// -----

// softmax C1: the axis.
func.func @test(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{axis -1 is outside the rank 2}}
  %r = fusion.softmax %x axis = -1 : tensor<2x8xf32>
  return
}

// -----

// log_softmax C1: the axis.
func.func @test(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{axis 2 is outside the rank 2}}
  %r = fusion.log_softmax %x axis = 2 : tensor<2x8xf32>
  return
}

// -----

// log_softmax C1: the axis.
func.func @test(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{axis -1 is outside the rank 2}}
  %r = fusion.log_softmax %x axis = -1 : tensor<2x8xf32>
  return
}

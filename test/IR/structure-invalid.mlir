// RUN: fusion-opt %s -split-input-file -verify-diagnostics

// What parameters, groups, asynchronous regions and user kernels refuse.

// parameter C1: bytes.
// expected-error @+1 {{needs exactly one of a file and a value}}
fusion.parameter @w const : tensor<4xf32>

// -----

// parameter C1: bytes from one place.
// expected-error @+1 {{needs exactly one of a file and a value}}
fusion.parameter @w const "f" key "k" value dense<0.0> : tensor<4xf32> : tensor<4xf32>

// -----

// parameter C2: a key.
// expected-error @+1 {{a file needs a key}}
fusion.parameter @w const "f" key "" : tensor<4xf32>

// -----

// parameter C2: a key.
// expected-error @+1 {{a file needs a key}}
"fusion.parameter"() <{sym_name = "w", kind = #fusion<parameter_kind const>, type = tensor<4xf32>, file = "f"}> : () -> ()

// -----

// parameter C3: a static type.
// expected-error @+1 {{needs a static ranked tensor type}}
fusion.parameter @w const "f" key "k" : tensor<?xf32>

// -----

// parameter C3: a tensor.
// expected-error @+1 {{needs a static ranked tensor type}}
fusion.parameter @w const "f" key "k" : f32

// -----

// parameter C3: an element type of the dialect.
// expected-error @+1 {{of the dialect's elements}}
fusion.parameter @w const "f" key "k" : tensor<4xindex>

// -----

// parameter C3: a size that fits.
// expected-error @+1 {{needs a static ranked tensor type}}
fusion.parameter @w const "f" key "k" : tensor<9223372036854775807x4xf32>

// -----

// parameter C3: the value's type.
// expected-error @+1 {{the value's type differs}}
fusion.parameter @w const value dense<0.0> : tensor<4xf32> : tensor<5xf32>

// -----

// parameter C4: a path below the module.
// expected-error @+1 {{must be a relative path without '..'}}
fusion.parameter @w const "/etc/passwd" key "k" : tensor<4xf32>

// -----

// parameter C4: a path below the module.
// expected-error @+1 {{must be a relative path without '..'}}
fusion.parameter @w const "../f" key "k" : tensor<4xf32>

// -----

// parameter C4: a path below the module.
// expected-error @+1 {{must be a relative path without '..'}}
fusion.parameter @w const "a/../f" key "k" : tensor<4xf32>

// -----

// parameter C4: a path below the module.
// expected-error @+1 {{must be a relative path without '..'}}
fusion.parameter @w const "a/.." key "k" : tensor<4xf32>

// -----

// parameter C4: a path below the module.
// expected-error @+1 {{must be a relative path without '..'}}
fusion.parameter @w const "" key "k" : tensor<4xf32>

// -----

// get_parameter C1: a parameter.
func.func @test() {
  // expected-error @+1 {{names no parameter: @w}}
  %r = fusion.get_parameter @w : tensor<4xf32>
  return
}

// -----

// get_parameter C1: a parameter, not any symbol.
func.func @test() {
  // expected-error @+1 {{names no parameter: @test}}
  %r = fusion.get_parameter @test : tensor<4xf32>
  return
}

// -----

// get_parameter C1: its type.
fusion.parameter @w const "f" key "k" : tensor<4xf32>

func.func @test() {
  // expected-error @+1 {{has another type than the parameter: 'tensor<4xf32>'}}
  %r = fusion.get_parameter @w : tensor<5xf32>
  return
}

// -----

// group C1: the types of the arguments.
func.func @test(%x: tensor<4xf32>) {
  // expected-error @+1 {{the block arguments' types are not the operands'}}
  %r = "fusion.group"(%x) <{kind = #fusion<group_kind loop>}> ({
  ^bb0(%a: tensor<5xf32>):
    %e = fusion.exp %a : tensor<5xf32>
    fusion.yield %e : tensor<5xf32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// group C1: an argument for each operand.
func.func @test(%x: tensor<4xf32>) {
  // expected-error @+1 {{the block arguments' types are not the operands'}}
  %r = "fusion.group"(%x) <{kind = #fusion<group_kind loop>}> ({
    %e = fusion.iota axis = 0 : tensor<4xf32>
    fusion.yield %e : tensor<4xf32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// group C2: the types of the results.
func.func @test(%x: tensor<4xf32>) {
  // expected-error @+1 {{the yielded types are not the results'}}
  %r = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<5xf32> {
    %e = fusion.exp %a : tensor<4xf32>
    fusion.yield %e : tensor<4xf32>
  }
  return
}

// -----

// group C2: as many as results.
func.func @test(%x: tensor<4xf32>) {
  // expected-error @+1 {{the yielded types are not the results'}}
  %r:2 = fusion.group loop (%a = %x : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %e = fusion.exp %a : tensor<4xf32>
    fusion.yield %e : tensor<4xf32>
  }
  return
}

// -----

// group C3: members of a horizontal group.
func.func @test(%x: tensor<4xf32>) {
  // expected-error @+1 {{of kind horizontal contains only groups}}
  %r = fusion.group horizontal (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
    // expected-note @+1 {{this op is not a group}}
    %e = fusion.exp %a : tensor<4xf32>
    fusion.yield %e : tensor<4xf32>
  }
  return
}

// -----

// group C3: no group in another.
func.func @test(%x: tensor<4xf32>) {
  // expected-error @+1 {{of kind loop contains no groups}}
  %r = fusion.group loop (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
    // expected-note @+1 {{this op is a group}}
    %e = fusion.group loop (%b = %a : tensor<4xf32>) -> tensor<4xf32> {
      %f = fusion.exp %b : tensor<4xf32>
      fusion.yield %f : tensor<4xf32>
    }
    fusion.yield %e : tensor<4xf32>
  }
  return
}

// -----

// group C3: depth two.
func.func @test(%x: tensor<4xf32>) {
  // expected-error @+1 {{nests horizontal groups}}
  %r = fusion.group horizontal (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
    %e = fusion.group horizontal (%b = %a : tensor<4xf32>) -> tensor<4xf32> {
      %g = fusion.group loop (%c = %b : tensor<4xf32>) -> tensor<4xf32> {
        %f = fusion.exp %c : tensor<4xf32>
        fusion.yield %f : tensor<4xf32>
      }
      fusion.yield %g : tensor<4xf32>
    }
    fusion.yield %e : tensor<4xf32>
  }
  return
}

// -----

// group C4: an op.
func.func @test(%x: tensor<4xf32>) {
  // expected-error @+1 {{must not be empty}}
  fusion.group loop () {
  }
  return
}

// -----

// A group sees nothing but its arguments.
func.func @test(%x: tensor<4xf32>) {
  // expected-note @+1 {{required by region isolation constraints}}
  %r = fusion.group loop () -> tensor<4xf32> {
    // expected-error @+1 {{using value defined outside the region}}
    %e = fusion.exp %x : tensor<4xf32>
    fusion.yield %e : tensor<4xf32>
  }
  return
}

// -----

// An unknown kind of group.
func.func @test(%x: tensor<4xf32>) {
  // expected-error @+1 {{unknown kind of group: loops}}
  %r = fusion.group loops (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
  }
  return
}

// -----

// A block without a terminator, in the generic form.
func.func @test() {
  // expected-error @+1 {{expects a non-empty block}}
  "fusion.group"() <{kind = #fusion<group_kind loop>}> ({
  ^bb0:
  }) : () -> ()
  return
}

// -----

// yield belongs to a group or an asynchronous region.
func.func @test() {
  // expected-error @+1 {{expects parent op to be one of 'fusion.group, fusion.async'}}
  fusion.yield
}

// -----

// async C1: the types of the future.
func.func @test(%x: tensor<4xf32>) {
  // expected-error @+1 {{the yielded types are not the future's}}
  %r = fusion.async stream = 1 -> tensor<5xf32> {
    fusion.yield %x : tensor<4xf32>
  }
  return
}

// -----

// async: a stream.
func.func @test(%x: tensor<4xf32>) {
  // expected-error @+1 {{the stream must not be negative}}
  %r = fusion.async stream = -1 -> tensor<4xf32> {
    fusion.yield %x : tensor<4xf32>
  }
  return
}

// -----

// await C1: the types of the future.
func.func @test(%f: !fusion.future<tensor<4xf32>>) {
  // expected-error @+1 {{the results' types are not the future's}}
  %r = "fusion.await"(%f) : (!fusion.future<tensor<4xf32>>) -> tensor<5xf32>
  return
}

// -----

// await: a future.
func.func @test(%f: tensor<4xf32>) {
  // expected-error @+1 {{expected a !fusion.future type}}
  %r = fusion.await %f : tensor<4xf32>
  return
}

// -----

// kernel_call C1: the language.
func.func @test() {
  // expected-error @+1 {{the language must be ptx, cuda or c, but is rust}}
  fusion.kernel_call "rust" "k" "" () flops = 0 bytes = 0 : () -> ()
  return
}

// -----

// kernel_call C2: the entry.
func.func @test() {
  // expected-error @+1 {{the entry must not be empty}}
  fusion.kernel_call "c" "" "" () flops = 0 bytes = 0 : () -> ()
  return
}

// -----

// kernel_call C3: flops.
func.func @test() {
  // expected-error @+1 {{costs must not be negative}}
  fusion.kernel_call "c" "k" "" () flops = -1 bytes = 0 : () -> ()
  return
}

// -----

// kernel_call C3: bytes.
func.func @test() {
  // expected-error @+1 {{costs must not be negative}}
  fusion.kernel_call "c" "k" "" () flops = 0 bytes = -1 : () -> ()
  return
}

// -----

// The bounds of the batch.
// expected-error @+1 {{'fusion.batch' must be array<i64: min, max> with 1 <= min <= max}}
func.func @test() attributes {fusion.batch = array<i64: 0, 4>} {
  return
}

// -----

// The bounds of the batch.
// expected-error @+1 {{'fusion.batch' must be array<i64: min, max> with 1 <= min <= max}}
func.func @test() attributes {fusion.batch = array<i64: 4, 2>} {
  return
}

// -----

// The bounds of the batch.
// expected-error @+1 {{'fusion.batch' must be array<i64: min, max> with 1 <= min <= max}}
func.func @test() attributes {fusion.batch = array<i64: 1>} {
  return
}

// -----

// The bounds of the batch.
// expected-error @+1 {{'fusion.batch' must be array<i64: min, max> with 1 <= min <= max}}
func.func @test() attributes {fusion.batch = 1 : i64} {
  return
}

// -----

// The batch belongs to a function.
// expected-error @+1 {{'fusion.batch' belongs on a function}}
module attributes {fusion.batch = array<i64: 1, 2>} {
}

// -----

// The name of an argument.
// expected-error @+1 {{'fusion.name' must be a string}}
func.func @test(%x: tensor<4xf32> {fusion.name = 1 : i64}) {
  return
}

// -----

// The result that an argument is donated to.
// expected-error @+1 {{'fusion.donated' must be the index of a result}}
func.func @test(%x: tensor<4xf32> {fusion.donated = "y"}) {
  return
}

// -----

// constant: the bytes of a resource.
func.func @test() {
  // expected-error @+1 {{names a resource that is missing or has another size than 'tensor<4xf32>'}}
  %0 = fusion.constant dense_resource<weights> : tensor<4xf32>
  return
}

{-#
  dialect_resources: {
    builtin: {
      weights: "0x040000000000803F"
    }
  }
#-}

// -----

// constant: a resource that no one gives.
func.func @test() {
  // expected-error @+1 {{names a resource that is missing}}
  %0 = fusion.constant dense_resource<nowhere> : tensor<4xf32>
  return
}

// RUN: fusion-opt %s -split-input-file -verify-diagnostics

// What the Program level refuses, constraint by constraint.

// program C1: the batch.
// expected-error @+1 {{'batch' must be [min, max]}}
fusion.program @main batch = [0, 1] streams = 1 events = 0 peak = 0 {
}

// -----

// program C1: the batch.
// expected-error @+1 {{'batch' must be [min, max]}}
fusion.program @main batch = [2, 1] streams = 1 events = 0 peak = 0 {
}

// -----

// program C1: the batch.
// expected-error @+1 {{'batch' must be [min, max]}}
fusion.program @main batch = [1] streams = 1 events = 0 peak = 0 {
}

// -----

// program C2: streams and events.
// expected-error @+1 {{needs a stream}}
fusion.program @main batch = [1, 1] streams = 0 events = 0 peak = 0 {
}

// -----

// program C2: streams and events.
// expected-error @+1 {{must not be negative}}
fusion.program @main batch = [1, 1] streams = 1 events = -1 peak = 0 {
}

// -----

// program C2: streams and events.
// expected-error @+1 {{must not be negative}}
fusion.program @main batch = [1, 1] streams = 1 events = 0 peak = -1 {
}

// -----

// program C2: the stream.
fusion.program @main batch = [1, 1] streams = 2 events = 1 peak = 0 {
  fusion.segment @in input size = 16 align = 64
  fusion.segment @out output size = 16 align = 64
  // expected-error @+1 {{the program has no stream 2}}
  fusion.launch @k::@k0 stream = 2 units = #fusion.extent<0 * B + 1> grain = 1 []
}

// -----

// program C2: the stream.
fusion.program @main batch = [1, 1] streams = 2 events = 1 peak = 0 {
  fusion.segment @in input size = 16 align = 64
  fusion.segment @out output size = 16 align = 64
  // expected-error @+1 {{the program has no stream -1}}
  fusion.call "conv" stream = -1 [] {call = {}}
}

// -----

// program C2: the stream.
fusion.program @main batch = [1, 1] streams = 2 events = 1 peak = 0 {
  fusion.segment @in input size = 16 align = 64
  fusion.segment @out output size = 16 align = 64
  // expected-error @+1 {{the program has no stream 9}}
  fusion.collective "all_reduce" on @m[dp] stream = 9 [] {details = {}}
}

// -----

// program C2: the stream.
fusion.program @main batch = [1, 1] streams = 2 events = 1 peak = 0 {
  fusion.segment @in input size = 16 align = 64
  fusion.segment @out output size = 16 align = 64
  // expected-error @+1 {{the program has no stream 9}}
  fusion.copy stream = 9 from #fusion.range<@in, 0, 16> to #fusion.range<@out, 0, 16> size = #fusion.extent<0 * B + 16>
}

// -----

// program C2: the event.
fusion.program @main batch = [1, 1] streams = 2 events = 1 peak = 0 {
  fusion.segment @in input size = 16 align = 64
  fusion.segment @out output size = 16 align = 64
  // expected-error @+1 {{the program has no event 1}}
  fusion.record event = 1 stream = 0
}

// -----

// program C2: the event.
fusion.program @main batch = [1, 1] streams = 2 events = 1 peak = 0 {
  fusion.segment @in input size = 16 align = 64
  fusion.segment @out output size = 16 align = 64
  // expected-error @+1 {{the program has no event -1}}
  fusion.wait event = -1 stream = 0
}

// -----

// program C3: a segment.
fusion.program @main batch = [1, 1] streams = 2 events = 1 peak = 0 {
  fusion.segment @in input size = 16 align = 64
  fusion.segment @out output size = 16 align = 64
  // expected-error @+1 {{names no segment: @none}}
  fusion.launch @k::@k0 stream = 0 units = #fusion.extent<0 * B + 1> grain = 1 [#fusion.access<read, <@none, 0, 16>>]
}

// -----

// program C3: a range within its segment.
fusion.program @main batch = [1, 1] streams = 1 events = 0 peak = 0 {
  // expected-note @+1 {{the segment}}
  fusion.segment @in input size = 16 align = 64
  // expected-error @+1 {{leaves its segment of 16 bytes}}
  fusion.launch @k::@k0 stream = 0 units = #fusion.extent<0 * B + 1> grain = 1 [#fusion.access<read, <@in, 1, 16>>]
}

// -----

// program C3: a range within its segment.
fusion.program @main batch = [1, 1] streams = 1 events = 0 peak = 0 {
  // expected-note @+1 {{the segment}}
  fusion.segment @in input size = 16 align = 64
  // expected-error @+1 {{leaves its segment of 16 bytes}}
  fusion.launch @k::@k0 stream = 0 units = #fusion.extent<0 * B + 1> grain = 1 [#fusion.access<read, <@in, -1, 4>>]
}

// -----

// program C3: a range within its segment.
fusion.program @main batch = [1, 1] streams = 1 events = 0 peak = 0 {
  // expected-note @+1 {{the segment}}
  fusion.segment @in input size = 16 align = 64
  // expected-error @+1 {{leaves its segment of 16 bytes}}
  fusion.launch @k::@k0 stream = 0 units = #fusion.extent<0 * B + 1> grain = 1 [#fusion.access<read, <@in, 0, -1>>]
}

// -----

// program C3: a range within its segment.
fusion.program @main batch = [1, 1] streams = 1 events = 0 peak = 0 {
  // expected-note @+1 {{the segment}}
  fusion.segment @in input size = 16 align = 64
  // expected-error @+1 {{leaves its segment of 16 bytes}}
  fusion.launch @k::@k0 stream = 0 units = #fusion.extent<0 * B + 1> grain = 1 [#fusion.access<read, <@in, 9223372036854775807, 9223372036854775807>>]
}

// -----

// program C3: a range within its segment.
fusion.program @main batch = [1, 1] streams = 1 events = 0 peak = 0 {
  // expected-note @+1 {{the segment}}
  fusion.segment @in input size = 16 align = 64
  // expected-error @+1 {{leaves its segment of 16 bytes}}
  fusion.launch @k::@k0 stream = 0 units = #fusion.extent<0 * B + 1> grain = 1 [#fusion.access<read, <@in, 17, 0>>]
}

// -----

// program C3: ranges of a tail.
fusion.program @main batch = [1, 1] streams = 2 events = 1 peak = 0 {
  fusion.segment @in input size = 16 align = 64
  fusion.segment @out output size = 16 align = 64
  // expected-error @+1 {{names no segment: @none}}
  fusion.call "conv" stream = 0 [] tail @k::@t units = #fusion.extent<0 * B + 1> grain = 1 [#fusion.access<read, <@none, 0, 16>>] {call = {}}
}

// -----

// program C3: the segment of a port.
fusion.program @main batch = [1, 1] streams = 2 events = 1 peak = 0 {
  fusion.segment @in input size = 16 align = 64
  fusion.segment @out output size = 16 align = 64
  // expected-error @+1 {{names no segment: @none}}
  fusion.port input "x" @none : tensor<4xf32>
}

// -----

// program C4: an event is recorded first.
fusion.program @main batch = [1, 1] streams = 2 events = 1 peak = 0 {
  fusion.segment @in input size = 16 align = 64
  fusion.segment @out output size = 16 align = 64
  // expected-error @+1 {{waits for event 0, which no earlier command records}}
  fusion.wait event = 0 stream = 0
}

// -----

// program: only commands.
fusion.program @main batch = [1, 1] streams = 2 events = 1 peak = 0 {
  fusion.segment @in input size = 16 align = 64
  fusion.segment @out output size = 16 align = 64
  // expected-error @+1 {{does not belong in a program}}
  fusion.parameter @w const "f" key "k" : tensor<4xf32>
}

// -----

// segment C1: the size.
fusion.program @main batch = [1, 1] streams = 2 events = 1 peak = 0 {
  fusion.segment @in input size = 16 align = 64
  fusion.segment @out output size = 16 align = 64
  // expected-error @+1 {{the size must not be negative}}
  fusion.segment @s private size = -1 align = 64
}

// -----

// segment C2: the alignment.
fusion.program @main batch = [1, 1] streams = 2 events = 1 peak = 0 {
  fusion.segment @in input size = 16 align = 64
  fusion.segment @out output size = 16 align = 64
  // expected-error @+1 {{the alignment must be a power of two}}
  fusion.segment @s private size = 1 align = 0
}

// -----

// segment C2: the alignment.
fusion.program @main batch = [1, 1] streams = 2 events = 1 peak = 0 {
  fusion.segment @in input size = 16 align = 64
  fusion.segment @out output size = 16 align = 64
  // expected-error @+1 {{the alignment must be a power of two}}
  fusion.segment @s private size = 1 align = 3
}

// -----

// segment C2: the alignment.
fusion.program @main batch = [1, 1] streams = 2 events = 1 peak = 0 {
  fusion.segment @in input size = 16 align = 64
  fusion.segment @out output size = 16 align = 64
  // expected-error @+1 {{the alignment must be a power of two}}
  fusion.segment @s private size = 1 align = -64
}

// -----

// content C1: bytes.
fusion.program @main batch = [1, 1] streams = 2 events = 1 peak = 0 {
  fusion.segment @in input size = 16 align = 64
  fusion.segment @out output size = 16 align = 64
  // expected-error @+1 {{needs exactly one of a parameter and a value}}
  fusion.content <@in, 0, 16> : tensor<4xf32>
}

// -----

// content C1: bytes from one place.
fusion.program @main batch = [1, 1] streams = 2 events = 1 peak = 0 {
  fusion.segment @in input size = 16 align = 64
  fusion.segment @out output size = 16 align = 64
  // expected-error @+1 {{needs exactly one of a parameter and a value}}
  "fusion.content"() <{range = #fusion.range<@in, 0, 16>, parameter = @w, value = dense<0.0> : tensor<4xf32>, type = tensor<4xf32>}> : () -> ()
}

// -----

// content C2: the size.
fusion.program @main batch = [1, 1] streams = 2 events = 1 peak = 0 {
  fusion.segment @in input size = 16 align = 64
  fusion.segment @out output size = 16 align = 64
  // expected-error @+1 {{the range has another size than the tensor}}
  fusion.content #fusion.range<@in, 0, 12> parameter @w : tensor<4xf32>
}

// -----

// content C2: an element type of the dialect.
fusion.program @main batch = [1, 1] streams = 2 events = 1 peak = 0 {
  fusion.segment @in input size = 16 align = 64
  fusion.segment @out output size = 16 align = 64
  // expected-error @+1 {{of the dialect's elements}}
  fusion.content #fusion.range<@in, 0, 16> parameter @w : tensor<4xindex>
}

// -----

// content C2: a size that fits.
fusion.program @main batch = [1, 1] streams = 2 events = 1 peak = 0 {
  fusion.segment @in input size = 16 align = 64
  fusion.segment @out output size = 16 align = 64
  // expected-error @+1 {{needs a static ranked tensor type}}
  fusion.content #fusion.range<@in, 0, 0> parameter @w : tensor<4611686018427387904x4xf32>
}

// -----

// port C1: the direction.
fusion.program @main batch = [1, 1] streams = 2 events = 1 peak = 0 {
  fusion.segment @in input size = 16 align = 64
  fusion.segment @out output size = 16 align = 64
  // expected-error @+1 {{the direction must be input or output}}
  fusion.port private "x" @in : tensor<4xf32>
}

// -----

// port C2: the batch.
fusion.program @main batch = [1, 1] streams = 2 events = 1 peak = 0 {
  fusion.segment @in input size = 16 align = 64
  fusion.segment @out output size = 16 align = 64
  // expected-error @+1 {{needs 'shape' for its batch dimension}}
  fusion.port input "x" @in : tensor<?xf32>
}

// -----

// port C2: an extent a dimension.
fusion.program @main batch = [1, 1] streams = 2 events = 1 peak = 0 {
  fusion.segment @in input size = 16 align = 64
  fusion.segment @out output size = 16 align = 64
  // expected-error @+1 {{'shape' must have one extent for each of the 1 dimensions}}
  fusion.port input "x" @in : tensor<?xf32> {shape = []}
}

// -----

// port C2: extents.
fusion.program @main batch = [1, 1] streams = 2 events = 1 peak = 0 {
  fusion.segment @in input size = 16 align = 64
  fusion.segment @out output size = 16 align = 64
  // expected-error @+1 {{'shape' must have one extent for each of the 1 dimensions}}
  fusion.port input "x" @in : tensor<?xf32> {shape = [4]}
}

// -----

// port C3: an input.
fusion.program @main batch = [1, 1] streams = 2 events = 1 peak = 0 {
  fusion.segment @in input size = 16 align = 64
  fusion.segment @out output size = 16 align = 64
  // expected-error @+1 {{only an input is donated}}
  fusion.port output "x" @out : tensor<4xf32> {donated_to = 0 : i64}
}

// -----

// port C3: an output.
fusion.program @main batch = [1, 1] streams = 2 events = 1 peak = 0 {
  fusion.segment @in input size = 16 align = 64
  fusion.segment @out output size = 16 align = 64
  // expected-error @+1 {{only an input is donated}}
  fusion.port input "x" @in : tensor<4xf32> {donated_to = -1 : i64}
}

// -----

// port: a tensor.
fusion.program @main batch = [1, 1] streams = 2 events = 1 peak = 0 {
  fusion.segment @in input size = 16 align = 64
  fusion.segment @out output size = 16 align = 64
  // expected-error @+1 {{needs a ranked tensor type}}
  fusion.port input "x" @in : f32
}

// -----

// copy: as many bytes.
fusion.program @main batch = [1, 1] streams = 2 events = 1 peak = 0 {
  fusion.segment @in input size = 16 align = 64
  fusion.segment @out output size = 16 align = 64
  // expected-error @+1 {{source and target differ in size}}
  fusion.copy stream = 0 from #fusion.range<@in, 0, 16> to #fusion.range<@out, 0, 8> size = #fusion.extent<0 * B + 8>
}

// -----

// A command belongs to a program.
// expected-error @+1 {{expects parent op 'fusion.program'}}
fusion.record event = 0 stream = 0

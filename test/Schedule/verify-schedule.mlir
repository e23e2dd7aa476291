// RUN: fusion-opt %s --split-input-file --verify-diagnostics --fusion-verify-schedule | FileCheck %s

// A copy from the input to the output: every byte read was there before.
// CHECK-LABEL: fusion.program @copies
// CHECK: fusion.copy
fusion.program @copies batch = [1, 1] streams = 1 events = 0 peak = 0 {
  fusion.segment @in0 input size = 16 align = 64
  fusion.segment @out0 output size = 16 align = 64
  fusion.port input "x" @in0 : tensor<4xf32>
  fusion.port output "y" @out0 : tensor<4xf32>
  fusion.copy stream = 0 from #fusion.range<@in0, 0, 16> to #fusion.range<@out0, 0, 16> size = #fusion.extent<0 * B + 16>
}

// -----

// The arena's bytes are read, but nothing wrote them.
// expected-error @+1 {{schedule: command 0}}
fusion.program @reads_nothing batch = [1, 1] streams = 1 events = 0 peak = 64 {
  fusion.segment @out0 output size = 16 align = 64
  fusion.segment @arena private size = 64 align = 64
  fusion.port output "y" @out0 : tensor<4xf32>
  fusion.copy stream = 0 from #fusion.range<@arena, 0, 16> to #fusion.range<@out0, 0, 16> size = #fusion.extent<0 * B + 16>
}

// -----

// Two streams, no event between the writer and the reader: a race.
// expected-error @+1 {{schedule: command 1}}
fusion.program @race batch = [1, 1] streams = 2 events = 0 peak = 64 {
  fusion.segment @in0 input size = 16 align = 64
  fusion.segment @out0 output size = 16 align = 64
  fusion.segment @arena private size = 64 align = 64
  fusion.port input "x" @in0 : tensor<4xf32>
  fusion.port output "y" @out0 : tensor<4xf32>
  fusion.copy stream = 0 from #fusion.range<@in0, 0, 16> to #fusion.range<@arena, 0, 16> size = #fusion.extent<0 * B + 16>
  fusion.copy stream = 1 from #fusion.range<@arena, 0, 16> to #fusion.range<@out0, 0, 16> size = #fusion.extent<0 * B + 16>
}

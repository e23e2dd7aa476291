// RUN: not fusion-opt %s --fusion-print-costs=device=h9000 -o /dev/null 2>&1 | FileCheck %s --check-prefix=DEVICE
// RUN: not fusion-opt %s --fusion-print-costs=file=/nowhere/costs.json -o /dev/null 2>&1 | FileCheck %s --check-prefix=FILE

// DEVICE: error: unknown device 'h9000', --device, the devices are:
// FILE: error: cannot write the costs '/nowhere/costs.json'
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = fusion.neg %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

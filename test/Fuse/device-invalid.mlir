// A pass whose device or cost model is not to be had says so and runs nothing.

// RUN: not fusion-opt %s --fusion-fuse-vertical=device=h9000 2>&1 | FileCheck %s --check-prefix=NAME
// NAME: error: unknown device 'h9000', --device, the devices are: a100-80gb, cpu, h200; or give the path of a JSON file

// RUN: not fusion-opt %s --fusion-split-groups=cost-model=oracle 2>&1 | FileCheck %s --check-prefix=MODEL
// MODEL: error: unknown cost model 'oracle', --cost-model, the models are: roofline; a plugin can add one

// RUN: sed 's/"units": 132,/"units": -1,/' %fusion_build/share/fusion/devices/h200.json > %t.json
// RUN: not fusion-opt %s --fusion-fuse=device=%t.json 2>&1 | FileCheck %s --check-prefix=VALUE
// VALUE: error: {{.*}}.json:5: bad value of 'units', device file, give a whole number of at least 1

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = fusion.exp %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

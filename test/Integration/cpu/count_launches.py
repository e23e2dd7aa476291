#!/usr/bin/env python3
"""Launches are counted by two things outside the compiler, which must agree:
the `null` backend, and a preloaded library that wraps every kernel and every
library call of a real run. Fusion must lower both counts.

The tools are taken from $FUSION_BIN (default build/dev/bin).
"""

import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "Inputs"))
from launch_counts import BIN, buildShim, call, fromInterposition, fromNullBackend  # noqa: E402

MODEL = """
func.func @main(%x: tensor<2x8x8x3xf32> {fusion.name = "x"}) -> (tensor<2x4xf32> {fusion.name = "y"}) {
  %w = fusion.constant dense<0.5> : tensor<8x3x3x3xf32>
  %v = fusion.constant dense<0.25> : tensor<8x4xf32>
  %0 = fusion.conv %x, %w strides = [1, 1] pad_low = [1, 1] pad_high = [1, 1] dilations = [1, 1] groups = 1 layout = nhwc
       : tensor<2x8x8x3xf32>, tensor<8x3x3x3xf32>
  %1 = fusion.relu %0 : tensor<2x8x8x8xf32>
  %2 = fusion.hard_sigmoid %1 alpha = 0.25 beta = 0.5 : tensor<2x8x8x8xf32>
  %3 = fusion.mul %1, %2 : tensor<2x8x8x8xf32>
  %4 = fusion.avg_pool %3 window = [8, 8] strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] layout = nhwc
       : tensor<2x8x8x8xf32>
  %5 = fusion.reshape %4 : tensor<2x1x1x8xf32> to tensor<2x8xf32>
  %6 = fusion.matmul %5, %v : tensor<2x8xf32>, tensor<8x4xf32>
  %7 = fusion.softmax %6 axis = 1 : tensor<2x4xf32>
  %8 = fusion.log %7 : tensor<2x4xf32>
  %9 = fusion.neg %8 : tensor<2x4xf32>
  return %9 : tensor<2x4xf32>
}
"""

# Compute ops of the model: what an unfused run has to enter. A reshape is free,
# and constant weights are brought into the library's layout when loading.
OPS = 9

with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    shim = buildShim(folder)
    (folder / "model.mlir").write_text(MODEL)
    sums = {}
    for label, flags in (("fused", []), ("unfused", ["--no-fuse=vertical"])):
        module = folder / f"{label}.fsn"
        call(BIN / "fusion-compile", folder / "model.mlir", "-o", module, *flags)
        null, seen = fromNullBackend(module), fromInterposition(module, shim, folder)
        print(f"{label}: null backend {null}, interposition {seen} (kernels, library calls)")
        assert null == seen, f"{label}: the null backend counts {null}, the preloaded library {seen}"
        sums[label] = sum(seen)
    assert sums["unfused"] == OPS, f"{sums['unfused']} entries for {OPS} unfused ops"
    assert sums["fused"] < sums["unfused"], sums

#!/usr/bin/env python3
"""Launches are counted by two things outside the compiler, which must agree:
the `null` backend, and a preloaded library that wraps every kernel and every
library call of a real run. Fusion must lower both counts.

The tools are taken from $FUSION_BIN (default build/dev/bin).
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
BIN = pathlib.Path(os.environ.get("FUSION_BIN", "build/dev/bin")).resolve()

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


def call(*command, **kwargs):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=300, **kwargs)
    assert done.returncode == 0, f"{command}: exit {done.returncode}\n{done.stderr}"
    return done.stdout


def fromNullBackend(module):
    counts = json.loads(call(BIN / "fusion-run", module, "--backend=null", "--random-inputs", 1, "--trust=all", "--json"))["counts"]
    return counts["launches"] + counts["tails"], counts["calls"]


def fromInterposition(module, shim, folder):
    """Entries of one run: 11 runs against 1, so that loading does not count."""
    totals = []
    for runs in (1, 11):
        report = folder / "entries.json"
        call(BIN / "fusion-run", module, "--random-inputs", 1, "--threads", 1, "--bench", runs, "--json", "--trust=all",
             env={**os.environ, "LD_PRELOAD": str(shim), "COUNT_ENTRIES_FILE": str(report)})
        totals.append(json.loads(report.read_text()))
    return tuple((totals[1][key] - totals[0][key]) / 10 for key in ("kernels", "library"))


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    shim = folder / "count_entries.so"
    call(os.environ.get("CXX", "c++"), "-std=c++17", "-O1", "-shared", "-fPIC", HERE / "Inputs/count_entries.cpp", "-o", shim, "-ldl")
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

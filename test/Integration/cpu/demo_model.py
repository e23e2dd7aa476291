#!/usr/bin/env python3
"""The demo network, end to end: every BatchNorm is folded, no transpose is left
between convolutions, for a GPU neither, the answers are onnxruntime's at every batch
size with one module, and the arena for batches up to N is not larger than that of a
module compiled for N alone.
"""

import json
import re
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime

from _support import Checks, importDemoModel, run

LARGEST = 8


def arena(module, folder):
    """Bytes that the planner gave to intermediates."""
    out = run("fusion-run", module, "--random-inputs=1", "--backend=null", "--json", cwd=folder).stdout
    return json.loads(out)["memory"]["planned_arena"]


def main():
    checks = Checks()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        importDemoModel(folder)
        checks.check("the model has 35 BatchNorms", (folder / "cls.mlir").read_text().count("fusion.batch_norm") == 35)
        simplified = run("fusion-opt", "cls.mlir", "--fusion-simplify", cwd=folder).stdout
        checks.check("all are folded", "fusion.batch_norm" not in simplified and "fold-batch-norm x35" in simplified)
        checks.check("one transpose is left, of the input", simplified.count("fusion.transpose") == 1)

        run("fusion-compile", "cls.mlir", "-o", "cls.fsn", cwd=folder)
        run("fusion-import", "cls.onnx", "-o", "static.mlir", "--input-shape", f"x={LARGEST},3,48,192", cwd=folder)
        run("fusion-compile", "static.mlir", "-o", "static.fsn", cwd=folder)
        dynamic, static = arena("cls.fsn", folder), arena("static.fsn", folder)
        checks.check("the arena is not larger than the static one's", 0 < dynamic <= static, f"{dynamic} and {static} bytes")

        # No GPU is needed to compile for one, nor to count what would run on it.
        run("fusion-compile", "cls.mlir", "--target=cuda:sm_90", "--ptxas=off", "-o", "gpu.fsn", cwd=folder)
        listing = run("fusion-run", "gpu.fsn", "--inspect", cwd=folder).stdout
        kernels = dict(re.findall(r"^kernel (\w+): (.*)", listing, re.M))
        moves = [name for name, what in kernels.items() if "transpose" in what]
        launched = re.findall(r" stream 0 launch '.*?': (\w+)", listing)
        checks.check("one transpose runs on a GPU", sum(launched.count(name) for name in moves) == 1, str(moves))
        calls = re.findall(r" call '.*?': (conv\w*) f32 (\S+)", listing)
        checks.check("cuDNN's convolutions read channels last", len(calls) > 30 and
                     all(order == "nhwc" for _, order in calls), f"{len(calls)} of them")
        checks.check("the first has its weights laid out", "f32 nhwc ohwi +bias" in listing)

        session = onnxruntime.InferenceSession(str(folder / "cls.onnx"))
        inputs = np.random.default_rng(11).standard_normal((LARGEST, 3, 48, 192), np.float32)
        singles = {}
        for batch in (1, 3, LARGEST):
            np.save(folder / "x.npy", inputs[:batch])
            run("fusion-run", "cls.fsn", "--input=x=x.npy", f"--output-dir=out{batch}", cwd=folder)
            ours = np.load(next((folder / f"out{batch}").glob("*.npy")))
            worst = np.abs(ours - session.run(None, {"x": inputs[:batch]})[0]).max()
            checks.check(f"batch {batch} is right", ours.shape == (batch, 2) and worst < 1e-4, f"differs by {worst:.1e}")
            for row in range(batch):
                singles.setdefault(row, set()).add(ours[row].tobytes())
        checks.check("a row's bits do not depend on the batch", all(len(bits) == 1 for bits in singles.values()))
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())

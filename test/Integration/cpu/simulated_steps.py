#!/usr/bin/env python3
# ===- simulated_steps.py - What a step would take on many devices --------=== #
#
# Training steps compiled for device files whose devices are not here: what the model of
# computation and communication says of them, and which tensors their groups write.
#
# ===----------------------------------------------------------------------=== #
"""Checks training steps for each device file; prints one line a check."""

import re
import sys
import tempfile
from math import prod
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[2] / "python")]
from _support import Checks, run  # noqa: E402

from fusion_compiler.models.cli import models  # noqa: E402

checks = Checks()
DEVICES = {"a100-80gb": 8, "h200": 8, "cpu": 8, str(HERE / "Inputs/two-gpus-pcie.json"): 2}
#: Small and large, of each kind.
MODELS = {
    "mlp": "mlp --layers 6 --hidden 1024 --batch 1024 --features 1024 --classes 1024",
    "gpt": "gpt-124m --batch 8",
    "llama": "llama --layers 6 --hidden 512 --heads 8 --kv-heads 4 --ffn 1408 --seq 512 --vocab 8192 --batch 8",
    "convnet": "convnet-cifar",
}


def write(folder, name, flags):
    path = folder / f"{name}.mlir"
    if not path.exists():
        models([*flags.split(), "-o", str(path)])
    return path


def clip(folder):
    """The norm reads gradients where they are reduced: nothing of their size is written."""
    more = {"rows": "gpt-1558m --layers 1 --batch 2", "odd": "mlp --layers 2 --hidden 1021 --batch 8 --features 997"}
    for name, flags in {**MODELS, **more}.items():
        path = write(folder, name, flags)
        for device in DEVICES:
            text = run("fusion-compile", path, "--mesh=dp=2", f"--device={device}", "--stop-after=fuse").stdout
            # Gradients are f32, their squares and sums f64.
            wide = [prod(map(int, shape.split("x")[:-1])) for results in re.findall(r"fusion\.group .*\) -> (.*) \{", text)
                    for shape in re.findall(r"tensor<((?:\d+x)+)f64>", results)]
            checks.check(f"clip: {name} on {Path(device).stem}: sums of squares only", wide and max(wide) <= 4096,
                         f"the largest of {len(wide)} has {max(wide, default=0)} elements")


def main():
    with tempfile.TemporaryDirectory() as folder:
        clip(Path(folder))
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# ===- buckets.py - Training steps with buckets on several ranks ----------=== #
#
# Twelve layers with AdamW and clipping, compiled for one device and for the ranks of a
# mesh: buckets of several sizes, a gradient in parts, sharded state. Results are those
# of one device, every rank has the same bits, gradients are reduced where they are
# produced, and one number goes over the ranks for the norm.
#
# ===----------------------------------------------------------------------=== #
"""Checks bucketed training steps end to end; prints one line a check."""

import re
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[2] / "python")]
from _support import Checks, run  # noqa: E402

from fusion_compiler.models.cli import models  # noqa: E402

checks = Checks()
FLAGS = "mlp --layers 12 --hidden 32 --batch 24 --features 16 --classes 8"


class Step:
    """A written step, and what one device makes of it."""

    def __init__(self, folder):
        self.folder, self.path = folder, folder / "step.mlir"
        models([*FLAGS.split(), "-o", str(self.path), "--write-inputs", str(folder / "in")])
        self.given = [word for f in sorted((folder / "in").glob("*.npy")) for word in ("--input", f"{f.stem}={f}")]
        self.compile("one")
        run("fusion-run", folder / "one.fsn", *self.given, "--output-dir", folder / "one")
        self.want = self.load("one")

    def compile(self, name, *flags):
        run("fusion-compile", self.path, "--target=cpu", *flags, "-o", self.folder / f"{name}.fsn")

    def load(self, name):
        return {f.stem: np.load(f) for f in sorted((self.folder / name).glob("*.npy"))}

    def commands(self, name):
        """Lines of the program, without numbers and streams."""
        text = run("fusion-run", self.folder / f"{name}.fsn", "--inspect").stdout
        return re.findall(r"^ +\d+ stream \d+ (\w+ '.*)$", text, re.MULTILINE)

    def ranks(self, name, ranks):
        run("fusion-run", self.folder / f"{name}.fsn", "--ranks", ranks, *self.given, "--output-dir", self.folder / name)
        return [self.load(f"{name}/rank{rank}") for rank in range(ranks)]


def near(got, want):
    return max(float(np.abs(np.asarray(got[name], np.float64) - want[name]).max(initial=0)) for name in want)


def replicated(step, ranks, size, count, whole=True):
    """`count`: the least number of buckets; `whole`: none of them is a part of a gradient,
    which is a view and is not reduced in its place."""
    name = f"dp{ranks}-{size}"
    step.compile(name, f"--mesh=dp={ranks}", f"--bucket-bytes={size}", "--first-bucket-bytes=1024")
    commands = step.commands(name)
    buckets = [line for line in commands if "all_reduce" in line and " bucket " in line]
    checks.check(f"{name}: several buckets", len(buckets) >= count, f"{len(buckets)} buckets")
    parts = [(line.count(" f32 ["), line.count("] in place")) for line in buckets]
    checks.check(f"{name}: reduced where produced", not whole or all(a == b for a, b in parts), f"{parts}")
    others = [line for line in commands if "all_reduce" in line and " bucket " not in line]
    checks.check(f"{name}: nothing beside gradients, the loss is with one", not others, "; ".join(others)[:200])
    copies = [line for line in commands if line.startswith("copy")]
    checks.check(f"{name}: nothing is copied", not copies, "; ".join(copies)[:200])
    return compare(step, name, ranks)


def sharded(step, ranks):
    name = f"sharded{ranks}"
    step.compile(name, f"--mesh=dp={ranks}", "--shard-state", "--bucket-bytes=16384", "--first-bucket-bytes=4096")
    commands = step.commands(name)
    scattered = [line for line in commands if "reduce_scatter" in line]
    checks.check(f"{name}: several buckets", len(scattered) > 1 and all(" bucket " in line for line in scattered),
                 f"{len(scattered)} buckets")
    numbers = [line for line in commands if "all_reduce" in line]
    checks.check(f"{name}: one number for the norm, one for the loss", len(numbers) == 2, "; ".join(numbers)[:200])
    got = step.ranks(name, ranks)
    for key in ("loss", "grad_norm"):
        checks.check(f"{name}: {key}", all(abs(float(out[key]) - float(step.want[key])) <= 1e-5 for out in got),
                     f"{[float(out[key]) for out in got]}, one device {float(step.want[key])}")
        checks.check(f"{name}: the same bits of {key}", len({out[key].tobytes() for out in got}) == 1)
    weight = "layers.1.weight"
    whole = np.concatenate([out[weight] for out in got])[: step.want[weight].shape[0]]
    far = float(np.abs(whole - step.want[weight]).max())
    checks.check(f"{name}: {weight} put together", far <= 1e-5, f"{far:.1e}")


def compare(step, name, ranks):
    got = step.ranks(name, ranks)
    far = near(got[0], step.want)
    checks.check(f"{name}: as one device", far <= 2e-5, f"{far:.1e}")
    same = all(got[0][key].tobytes() == out[key].tobytes() for out in got for key in step.want)
    checks.check(f"{name}: the same bits on all ranks", same)


def main():
    with tempfile.TemporaryDirectory() as folder:
        step = Step(Path(folder))
        replicated(step, 2, "8192", 4)
        # Gradients of 4 KiB in two parts each.
        replicated(step, 3, "2048", 20, whole=False)
        replicated(step, 4, "16384", 3)
        for ranks in (2, 4):
            sharded(step, ranks)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())

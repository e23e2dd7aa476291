#!/usr/bin/env python3
"""Compiling stays fast and shallow: the demo network in at most 5 s, a chain of
10,000 adds in at most 10 s under a stack of 8 MB, with the right value.

Times are processor seconds of fusion-compile, so that a busy machine can't fail
the test; on an idle one they are about the wall-clock time.
"""

import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from _support import Checks, importDemoModel, run

LENGTH = 10_000
STACK = 8192 * 1024


def limitStack():
    resource.setrlimit(resource.RLIMIT_STACK, (STACK, STACK))


def timedCompile(folder, model):
    """Compiles; returns (processor seconds, wall-clock seconds)."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    run("fusion-compile", f"{model}.mlir", "--target=cpu", "-o", f"{model}.fsn", cwd=folder, preexec_fn=limitStack)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used, time.monotonic() - start


def writeChain(path):
    """x + one + one + ...; the addend is an input, so nothing can be folded."""
    port = 'tensor<4x4xf32> {fusion.name = "%s"}'
    lines = [f"func.func @main(%v0: {port % 'x'}, %one: {port % 'one'}) -> ({port % 'y'}) {{"]
    lines += [f"  %v{i + 1} = fusion.add %v{i}, %one : tensor<4x4xf32>" for i in range(LENGTH)]
    lines += [f"  return %v{LENGTH} : tensor<4x4xf32>", "}", ""]
    path.write_text("\n".join(lines))


def main():
    checks = Checks()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        importDemoModel(folder)
        used, wall = timedCompile(folder, "cls")
        checks.check("demo network compiles in 5 s", used <= 5, f"{used:.1f} s ({wall:.1f} s wall clock)")

        writeChain(folder / "chain.mlir")
        used, wall = timedCompile(folder, "chain")
        checks.check(f"chain of {LENGTH} adds compiles in 10 s", used <= 10, f"{used:.1f} s ({wall:.1f} s wall clock)")
        x = np.arange(16, dtype=np.float32).reshape(4, 4)
        np.save(folder / "x.npy", x)
        np.save(folder / "one.npy", np.ones((4, 4), np.float32))
        run("fusion-run", "chain.fsn", "--input=x=x.npy", "--input=one=one.npy", "--output-dir=out", cwd=folder,
            preexec_fn=limitStack)
        # Integers below 2^24: every step is exact.
        checks.check("its value is right", np.array_equal(np.load(folder / "out/y.npy"), x + np.float32(LENGTH)))
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())

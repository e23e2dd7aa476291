#!/usr/bin/env python3
"""The same input gives the same bytes: modules and results.

The demo network is imported and compiled twice, in folders of other names and
depths, under another locale, time zone, hash seed and number of processors; the
files must be equal. Then 100 runs, on one and on all threads, must give the same
bits.
"""

import os
import sys
import tempfile
from pathlib import Path

import numpy as np

from _support import Checks, importDemoModel, run

RUNS = 100


def compileIn(folder, env, prefix):
    folder.mkdir(parents=True)
    importDemoModel(folder)
    run("fusion-compile", "cls.mlir", "--target=cpu", "-o", "cls.fsn", cwd=folder, env=env, prefix=prefix)
    return folder / "cls.fsn"


def main():
    checks = Checks()
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        one = compileIn(scratch / "one", {"LC_ALL": "C", "TZ": "UTC", "PYTHONHASHSEED": "1"}, ["taskset", "-c", "0"])
        two = compileIn(scratch / "another folder/deeper", {"LC_ALL": "C.UTF-8", "TZ": "Asia/Tokyo",
                                                            "PYTHONHASHSEED": "2", "MALLOC_PERTURB_": "165"}, [])
        for name in ("cls.mlir", "cls.safetensors", "cls.fsn"):
            first, second = (module.with_name(name).read_bytes() for module in (one, two))
            checks.check(f"{name} is the same bytes", first == second and len(first) > 0, f"{len(first)} bytes")

        inputs = scratch / "x.npy"
        np.save(inputs, np.random.default_rng(7).standard_normal((3, 3, 48, 192), np.float32))
        results = set()
        threads = [1, os.cpu_count() or 1]
        for index in range(RUNS):
            out = scratch / f"out{index}"
            run("fusion-run", one, f"--input=x={inputs}", f"--output-dir={out}", f"--threads={threads[index % 2]}",
                env={"MALLOC_PERTURB_": str(index % 256)})
            results.add(b"".join(path.read_bytes() for path in sorted(out.rglob("*.npy"))))
        checks.check(f"{RUNS} runs give the same bits", len(results) == 1 and len(results.pop()) > 128)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())

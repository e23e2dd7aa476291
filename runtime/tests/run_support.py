"""What the tests that drive fusion-run share.

Their arguments: BIN_DIR LIBRARY FAKE_CUDA (ctest passes them). FAKE_CUDA is the folder
of the tests' CUDA driver.
"""

import pathlib
import subprocess
import sys
import unittest

import numpy as np

BIN = pathlib.Path(sys.argv[1])
LIBRARY = sys.argv[2]
FAKE_CUDA = pathlib.Path(sys.argv[3]).resolve()
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))


def run(*arguments, **options):
    return subprocess.run(
        [BIN / "fusion-run", *map(str, arguments)], capture_output=True,
        text=True, timeout=60, **options)


def make(kind, path):
    subprocess.run([BIN / "fusion-test-module", kind, path], check=True)
    return path


def results_of_collectives(x, sizes, rank):
    """What `collectivesModule` gives on one rank of a mesh, of all ranks' y."""
    n = int(np.prod(sizes))
    y = x.reshape(n, 2 * n, 3 * n)
    grid = np.arange(n).reshape(sizes)
    at = np.argwhere(grid == rank)[0]
    along = grid[(slice(None), *at[1:])]
    wanted = {
        "sum": y.sum(0), "mean": y.sum(0) / n, "max": y.max(0),
        "first": y[along].sum(0), "rows": np.concatenate(y, 0),
        "columns": np.concatenate(y, 1),
        "part": y.sum(0)[:, 3 * rank:3 * rank + 3],
        "swapped": np.concatenate(
            [part[2 * rank:2 * rank + 2] for part in y], 1),
        "root": y[-1],
        "next": y[rank - 1] if rank else np.zeros_like(y[0])}
    wanted = {name: value.astype("f4") for name, value in wanted.items()}
    wanted["index"] = np.int64(at[min(1, len(at) - 1)])
    return wanted


def main():
    import types
    package = types.ModuleType("fusion_compiler")
    package.__path__ = [str(pathlib.Path(__file__).resolve().parents[2]
                            / "python" / "fusion_compiler")]
    sys.modules["fusion_compiler"] = package  # without the frontends' imports
    from fusion_compiler import runtime
    runtime.use_library(LIBRARY)
    unittest.main(argv=sys.argv[:1])

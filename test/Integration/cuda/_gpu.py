"""What the scripts of this folder share: they run where there is a GPU.

A script has two functions: `prepare(folder)` makes modules and the results to
expect, with the compiler and without a GPU; `check(folder, checks)` runs them on a
GPU, with fusion-run, Python and numpy alone. `main` does both in a row; with
`--prepare DIR` or `--check DIR` one of them, so that a machine with a GPU needs no
compiler (scripts/package-gpu-tests.sh). Without a GPU a check ends with one line
that says why, and exit status 77, which the test runner counts as skipped.
"""

import ctypes
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cpu"))
from _support import BIN, Checks, run  # noqa: E402,F401

SKIPPED = 77
# Files of an archive belong to whoever unpacks it, and a test is no stranger.
TRUST = "--trust=all"


def requireGpu(least=1):
    """Ends the script unless the driver shows `least` GPUs."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        skip("no NVIDIA driver (libcuda.so.1)")
    status = driver.cuInit(0)
    if status != 0:
        skip(f"the NVIDIA driver does not start (error {status})")
    count = ctypes.c_int(0)
    driver.cuDeviceGetCount(ctypes.byref(count))
    if count.value < least:
        skip(f"{count.value} GPUs, {least} needed")


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def fusionRun(module, *arguments, timeout=300, **variables):
    """fusion-run's result, whatever it is."""
    return subprocess.run(
        [BIN / "fusion-run", module, TRUST, *map(str, arguments)],
        env={**os.environ, **variables}, timeout=timeout, capture_output=True, text=True,
        stdin=subprocess.DEVNULL)


def main(prepare, check):
    """The exit status of a script with these two functions."""
    words = sys.argv[1:]
    if words and (len(words) != 2 or words[0] not in ("--prepare", "--check")):
        sys.exit(f"usage: {Path(sys.argv[0]).name} [--prepare DIR | --check DIR]")
    if words and words[0] == "--prepare":
        Path(words[1]).mkdir(parents=True, exist_ok=True)
        prepare(Path(words[1]).resolve())
        return 0
    requireGpu()
    checks = Checks()
    if words:
        check(Path(words[1]).resolve(), checks)
    else:
        with tempfile.TemporaryDirectory() as name:
            prepare(Path(name))
            check(Path(name), checks)
    return checks.finish()

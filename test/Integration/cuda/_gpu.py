"""What the scripts of this folder share: they run where there is a GPU.

A script calls `requireGpu()` first; without a GPU it ends with one line that
says why, and exit status 77, which the test runner counts as skipped.
"""

import ctypes
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cpu"))
import _support  # noqa: E402,F401  tools, checks

SKIPPED = 77


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

"""Counts what a run enters, by two things outside the compiler: the `null`
backend, and a preloaded library that wraps every kernel and library call."""

import json
import os
import pathlib
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
BIN = pathlib.Path(os.environ.get("FUSION_BIN", "build/dev/bin")).resolve()


def call(*command, **kwargs):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=300, **kwargs)
    assert done.returncode == 0, f"{command}: exit {done.returncode}\n{done.stderr}"
    return done.stdout


def buildShim(folder):
    """The library to preload."""
    shim = folder / "count_entries.so"
    call(os.environ.get("CXX", "clang++-22"), "-std=c++17", "-O1", "-shared", "-fPIC", HERE / "count_entries.cpp", "-o", shim, "-ldl")
    return shim


def fromNullBackend(module):
    """(kernels, library calls) of one run."""
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

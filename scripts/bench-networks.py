#!/usr/bin/env python3
# ===- bench-networks.py - Real networks against onnxruntime ---------------=== #
#
# The two take turns on one thread, a round of runs each; what counts is the median
# of the rounds' ratios. On a machine that does other work times of single runs jump
# by half, ratios of neighbours less.
#
# ===----------------------------------------------------------------------=== #
"""Times networks: `bench-networks.py [--rounds N] [--repeats N] [NETWORK...]`."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime

sys.path.insert(0, str(Path(__file__).resolve().parent))
from networks import LARGEST_BATCH, MODELS, ROOT  # noqa: E402

BIN = Path(os.environ.get("FUSION_BIN") or ROOT / "build/dev/bin").resolve()


def tool(folder, *words):
    return subprocess.run([str(BIN / words[0]), *words[1:]], cwd=folder, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=True).stdout


def openReference(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def timeReference(session, inputs, repeats):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        session.run(None, inputs)
        times.append(1e6 * (time.perf_counter() - start))
    return statistics.median(times)


def bench(model, folder, rounds, repeats):
    """Rows of (batch, our microseconds, theirs, ratio)."""
    model.extract(folder / "model.onnx")
    tool(folder, "fusion-import", "model.onnx", "-o", "model.mlir", *model.importFlags())
    tool(folder, "fusion-compile", "model.mlir", "-o", "model.fsn")
    session = openReference(folder / "model.onnx")
    for batch in (1, LARGEST_BATCH):
        inputs = model.makeInputs(batch)
        for name, array in inputs.items():
            np.save(folder / f"{name}.npy", array)
        session.run(None, inputs)
        pairs = []
        for _ in range(rounds):
            out = tool(folder, "fusion-run", "model.fsn", *(f"--input={name}={name}.npy" for name in inputs),
                       "--threads=1", f"--bench={repeats}", "--json")
            pairs.append((json.loads(out)["bench"]["median_us"], timeReference(session, inputs, repeats)))
        ours, theirs = (statistics.median(column) for column in zip(*pairs))
        yield batch, ours, theirs, statistics.median(a / b for a, b in pairs)


def main():
    parser = argparse.ArgumentParser(prog="bench-networks.py", description=__doc__)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"some of {', '.join(MODELS)}")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--repeats", type=int, default=10, help="runs a round")
    arguments = parser.parse_args()
    for name in arguments.networks:
        if name not in MODELS:
            parser.error(f"unknown network '{name}', use some of {', '.join(MODELS)}")
    print(f"{'network':12}{'batch':>6}{'Fusion':>13}{'onnxruntime':>15}{'ratio':>8}")
    for name in arguments.networks or MODELS:
        with tempfile.TemporaryDirectory() as folder:
            for batch, ours, theirs, ratio in bench(MODELS[name], Path(folder), arguments.rounds, arguments.repeats):
                print(f"{name:12}{batch:6}{ours:10.0f} us{theirs:12.0f} us{ratio:8.2f}", flush=True)


if __name__ == "__main__":
    main()

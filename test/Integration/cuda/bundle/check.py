#!/usr/bin/env python3
# ===- check.py - Runs a bundle on a GPU -----------------------------------=== #
#
# Needs Python 3, numpy and libfusion-rt: no compiler. Every variant of every
# model against the reference's results; fused against each op alone, bit for bit.
#
# ===----------------------------------------------------------------------=== #
"""Runs the modules of make.py on a GPU and compares all results."""

import argparse
import io
import json
import multiprocessing
import os
import re
import sys
import tarfile
import tempfile
import time
import traceback
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER))
sys.path.insert(0, str(FOLDER.parents[3] / "python"))
from device import POISON, Arena, Driver  # noqa: E402
from values import NUMPY, ROUNDOFF, differentBits, makeInput, tooFar  # noqa: E402

# How the arrays are given: in the host's memory, in the GPU's, and there at an
# address that no vector of elements is aligned to.
WAYS = {"alone": "host", "strict": "device", "fast": "shifted"}


def runtime():
    from fusion_compiler import runtime as module
    if os.environ.get("FUSION_RT") and module._library is None:
        module.use_library(os.environ["FUSION_RT"])
    return module


def sizes(kind, batch):
    """"2x?xf32" as a shape and an element type."""
    *dims, dtype = kind.split("x")
    return tuple(batch if dim == "?" else int(dim) for dim in dims), dtype


def inputsOf(case, batch):
    found = {}
    for i, (kind, data) in enumerate(zip(case["inputs"], case["data"])):
        shape, dtype = sizes(kind, batch)
        found[f"c{case['number']}_x{i}"] = makeInput(case["seeds"][str(batch)][i], shape, dtype, data)
    return found


def outputsOf(cases, batch):
    """name -> (case, shape, element type)."""
    return {f"c{case['number']}_y{i}": (case, *sizes(kind, batch)) for case in cases for i, kind in enumerate(case["outputs"])}


class Model:
    """One folder of the bundle, in a process of its own: what a kernel breaks
    stays there."""

    def __init__(self, folder, options):
        self.folder, self.options = folder, options
        described = json.loads((folder / "cases.json").read_text())
        self.cases, self.batches, self.kernels = described["cases"], described["batches"], described["kernels"]
        self.failures, self.compared, self.runs = [], 0, 0

    def fail(self, variant, batch, what):
        self.failures.append(f"{self.folder.name} {variant} B={batch}: {what}")

    def execute(self, session, variant, batch, inputs, outputs):
        """Arrays of the results by name."""
        way = self.options.way or WAYS[variant]
        if way == "host":
            given = {name: np.zeros(shape, NUMPY[dtype]) for name, (_, shape, dtype) in outputs.items()}
            for array in given.values():
                if array.dtype != np.bool_:
                    array.reshape(-1).view(np.uint8)[:] = POISON
            return session.run(inputs, given)
        arena = Arena(self.driver, apart=way == "apart")
        shift = (lambda dtype: dtype.itemsize) if way == "shifted" else (lambda dtype: 0)
        given, results = arena.make(inputs, {name: (shape, NUMPY[dtype]) for name, (_, shape, dtype) in outputs.items()}, shift)
        session.run(given, results)
        found, wrong = arena.read(results)
        for each in wrong:
            self.fail(variant, batch, each)
        arena.release()
        return found

    def run(self):
        start = time.monotonic()
        self.driver = None if self.options.way == "host" else Driver()
        module = runtime()
        sessions = {}
        for variant in self.options.variants:
            sessions[variant] = module.load(str(self.folder / f"{variant}.fsn")).session(trust="all")
        expected = np.load(self.folder / "expected.npz")
        for batch in self.batches:
            inputs = {}
            for case in self.cases:
                inputs.update(inputsOf(case, batch))
            outputs = outputsOf(self.cases, batch)
            results = {}
            for variant, session in sessions.items():
                results[variant] = self.execute(session, variant, batch, inputs, outputs)
                self.runs += 1
                for name, (case, _, dtype) in outputs.items():
                    self.compare(variant, batch, name, case, dtype, expected, results[variant][name])
            if "alone" in results and "strict" in results:
                for name, (case, _, dtype) in outputs.items():
                    if case["accuracy"] == "zero":
                        continue  # a library may serve one of them only
                    problem = differentBits(results["alone"][name], results["strict"][name], dtype)
                    if problem:
                        self.fail("strict", batch, f"{name}: fused differs from alone: {problem} [{case['text']}, {case['dtype']}]")
        return self.failures, self.compared, self.runs, {v: len(self.kernels[v]) for v in sessions}, time.monotonic() - start

    def compare(self, variant, batch, name, case, dtype, expected, got):
        self.compared += 1
        magnitudes = expected[f"s{batch}_{name}"].astype(np.float64) if case["accuracy"] == "sum" else None
        # A library rounds attention's weights to the type, and for gradients both factors of sums of up to 16 products;
        # the values are at most 1. Its gelu is off by 2^-11 |x|, and
        # tanh is 1 where |x| is 8.
        slack = 0.0
        if variant == "fast" and dtype in ("f16", "bf16"):
            slack = 4 * ROUNDOFF[dtype] if "fusion.attention" in case["text"] else slack
            slack = 16 * ROUNDOFF[dtype] if "fusion.attention_grad" in case["text"] else slack
            slack = 8 * 2.0 ** -11 if "gelu tanh" in case["text"] and "fusion.matmul" in case["text"] else slack
        problem = tooFar(expected[f"b{batch}_{name}"], got, dtype, case["accuracy"], case["terms"], magnitudes, slack)
        if problem:
            text = " ; ".join(case["text"].splitlines())
            self.fail(variant, batch, f"{name}: {problem} [{text}, {case['dtype']}]")


def work(folder, options, queue):
    """In a process: reports also what ends it."""
    try:
        queue.put((folder.name, Model(folder, options).run()))
    except Exception:
        queue.put((folder.name, ([f"{folder.name}: {traceback.format_exc().strip().splitlines()[-1][:400]}"], 0, 0, {}, 0.0)))


def runAll(folders, options):
    """Yields (name, answer of a model), as they end."""
    context = multiprocessing.get_context("spawn" if options.jobs > 1 else "fork")
    queue, waiting, running = context.Queue(), list(folders), {}
    while waiting or running:
        while waiting and len(running) < options.jobs:
            folder = waiting.pop(0)
            process = context.Process(target=work, args=(folder, options, queue))
            process.start()
            running[folder.name] = (process, time.monotonic())
        try:
            name, answer = queue.get(timeout=0.2)
            running.pop(name)[0].join()
            yield name, answer
            continue
        except Exception as error:
            if type(error).__name__ != "Empty":
                raise
        for name, (process, began) in list(running.items()):
            late = time.monotonic() - began > options.timeout
            if late:
                process.kill()
            if late or (not process.is_alive() and queue.empty()):
                process.join()
                del running[name]
                yield name, ([f"{name}: {'no end' if late else f'the process ended with {process.exitcode}'}"], 0, 0, {}, 0.0)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bundle", type=Path, help="what make.py wrote: a folder or an archive")
    parser.add_argument("--only", default="", metavar="REGEX", help="models whose names match")
    parser.add_argument("--variants", default="alone,strict,fast", type=lambda text: text.split(","))
    parser.add_argument("--way", choices=("host", "device", "shifted", "apart"), help="how arrays are given (default: one each by variant)")
    parser.add_argument("--jobs", type=int, default=6, help="processes (default 6)")
    parser.add_argument("--here", action="store_true", help="in this process, one after the other: for compute-sanitizer")
    parser.add_argument("--timeout", type=float, default=120, help="seconds of one model (default 120)")
    parser.add_argument("--failures", type=int, default=40, metavar="N", help="lines of failures printed (default 40)")
    parser.add_argument("--log", type=Path, help="all failures into a file")
    options = parser.parse_args()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        if options.bundle.is_file():
            with tarfile.open(fileobj=io.BytesIO(options.bundle.read_bytes())) as file:
                file.extractall(scratch, filter="data")
            options.bundle = Path(scratch) / "bundle"
        folders = sorted(path for path in options.bundle.iterdir() if (path / "cases.json").exists() and re.search(options.only, path.name))
        failures, compared, runs, kernels = [], 0, 0, 0
        answers = ((folder.name, Model(folder, options).run()) for folder in folders) if options.here else runAll(folders, options)
        for name, (found, count, executed, numbers, seconds) in answers:
            failures += found
            compared += count
            runs += executed
            kernels += sum(numbers.values())
            print(f"{name}: {count} results, {sum(numbers.values())} kernels, {len(found)} failures, {seconds:.1f} s", flush=True)
    if options.log:
        options.log.write_text("\n".join(failures) + "\n")
    for line in failures[:options.failures]:
        print("FAIL", line[:500])
    print(f"{len(folders)} models, {kernels} kernels, {runs} runs, {compared} results compared, {time.monotonic() - start:.0f} s: "
          f"{len(failures)} failures")
    return 1 if failures or not compared else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# ===- run_cases.py - Runs the node cases of the ONNX project ---------------=== #
#
# Imports each case and runs it with the reference evaluator, as a compiled module,
# or both, and compares with the expected outputs. A case passes, or stands in
# skips.txt with its reason; a listed case that would pass is a failure too, so that
# the list stays true. Imports happen here, the tools run beside each other.
#
# ===----------------------------------------------------------------------=== #
"""Runs ONNX's node cases: `run_cases.py --bin build/dev/bin --mode both`."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[2] / "python")]

from cases import DEFAULT_DATA, Case, Skips, difference, load  # noqa: E402
from fusion_compiler.errors import FusionError  # noqa: E402
from fusion_compiler.frontend.onnx import import_onnx  # noqa: E402
from fusion_compiler.weights import write_module  # noqa: E402

TIMEOUT = 120  # seconds a tool may take


class Failure(Exception):
    """Why a case doesn't pass; `kind` is refused, error, wrong or crash."""

    def __init__(self, kind: str, text: str):
        super().__init__(text)
        self.kind = kind


def _run(command: list[str], folder: Path) -> None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT, errors="replace")
    except subprocess.TimeoutExpired:
        raise Failure("crash", f"{Path(command[0]).name} took more than {TIMEOUT} s") from None
    if done.returncode == 0:
        return
    lines = [line for line in done.stderr.splitlines() if line.strip()] or ["no message"]
    text = next((line for line in lines if "error:" in line), lines[0])
    crash = done.returncode < 0 or done.returncode == 9 or done.returncode >= 128
    raise Failure("crash" if crash else "error", f"{Path(command[0]).name} exit {done.returncode}: {text[:300]}")


def _import(case: Case, folder: Path):
    shapes = {}
    constants = {}
    for tensor in case.inputs:
        if tensor.array is None:
            continue
        if tensor.name in case.constants:
            constants[tensor.name] = tensor.array
        else:
            np.save(folder / f"in_{len(shapes)}.npy", tensor.array)
            shapes[tensor.name] = list(tensor.array.shape)
    try:
        module = import_onnx(str(case.model), input_shapes=shapes, constant_inputs=constants)
    except FusionError as error:
        kind = "refused" if error.code in (2, 3) else "crash"
        raise Failure(kind, str(error).split(".onnx: ", 1)[-1].replace("\n  ", " ")) from None
    write_module(module, str(folder / "model.mlir"))
    order = list(shapes)
    return [a for n in module.argument_names for a in ("--input", f"{n}=in_{order.index(n)}.npy")]


def _output_file(folder: Path, name: str) -> Path:
    """The file of an output; tools escape what a file name can't hold."""
    names = (name, urllib.parse.quote(name, safe=""), re.sub(r"[^A-Za-z0-9_.-]", "_", name))
    paths = [folder / f"{n}.npy" for n in names]
    return next((p for p in paths if p.exists()), paths[0])


def _compare(case: Case, folder: Path, mode: str) -> None:
    for output in case.outputs:
        path = _output_file(folder / "out", output.name)
        if not path.exists():
            raise Failure("error", f"{mode}: no file for output {output.name}")
        if output.array is None:
            raise Failure("error", f"output {output.name}: the case has no expected tensor")
        text = difference(np.load(path), output)
        if text:
            raise Failure("wrong", f"{mode}: {text}")


def run_case(path: Path, tools: Path, modes: list[str]) -> tuple[str, str, bool]:
    """Result kind (pass or that of a Failure), its text, and whether inputs became constants."""
    folder = Path(tempfile.mkdtemp(prefix="onnx-case-"))
    constant = False
    try:
        case = load(path)
        constant = bool(case.constants)
        inputs = _import(case, folder)
        for mode in modes:
            shutil.rmtree(folder / "out", ignore_errors=True)
            if mode == "reference":
                _run([str(tools / "fusion-interpret"), "model.mlir", *inputs, "--output-dir", "out"], folder)
            elif mode == "cpu":
                _run([str(tools / "fusion-compile"), "model.mlir", "--target=cpu", "-o", "m.fsn"], folder)
                _run([str(tools / "fusion-run"), "m.fsn", *inputs, "--output-dir", "out"], folder)
            else:  # parse: the verifier alone
                _run([str(tools / "fusion-opt"), "model.mlir", "-o", os.devnull], folder)
                continue
            _compare(case, folder, mode)
        return "pass", "", constant
    except Failure as failure:
        return failure.kind, str(failure), constant
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA, help="folder of the cases")
    parser.add_argument("--bin", type=Path, default=HERE.parents[2] / "build/dev/bin", help="folder of the tools")
    parser.add_argument("--mode", choices=("parse", "reference", "cpu", "both"), default="both")
    parser.add_argument("--skips", type=Path, default=HERE / "skips.txt")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--filter", default="", help="regular expression on the names of cases")
    parser.add_argument("--json", type=Path, help="writes the result of each case")
    options = parser.parse_args()
    if not options.data.is_dir():
        print(f"error: {options.data}: no such folder; install libonnx-testdata or give --data", file=sys.stderr)
        return 5
    tools = options.bin.resolve()
    modes = ["reference", "cpu"] if options.mode == "both" else [options.mode]
    needed = {"parse": ["fusion-opt"], "reference": ["fusion-interpret"], "cpu": ["fusion-compile", "fusion-run"]}
    for tool in (t for mode in modes for t in needed[mode]):
        if not (tools / tool).exists():
            print(f"error: {tools / tool}: not built; build it or give --bin", file=sys.stderr)
            return 5
    paths = sorted(p for p in options.data.iterdir() if (p / "model.onnx").exists() and re.search(options.filter, p.name))
    skips = Skips(options.skips)
    with ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(lambda p: run_case(p, tools, modes), paths))
    counts = {"pass": 0, "fail": 0, "skip": 0, "constant": 0, "wrong": 0, "crash": 0}
    table = {}
    for path, (kind, text, constant) in zip(paths, results):
        reason = skips.reason(path.name)
        if kind == "pass" and not reason:
            outcome = "pass"
            counts["constant"] += constant
        elif kind == "pass":
            outcome, text = "fail", f"passes, but stands in {options.skips.name}: {reason}"
            # A run of fewer modes than the list is for can't tell that an entry is stale.
            if options.mode in ("parse", "reference"):
                outcome = "skip"
        elif reason and kind != "crash":
            outcome = "skip"
        else:
            outcome = "fail"
            counts["wrong"] += kind == "wrong"
            counts["crash"] += kind == "crash"
        counts[outcome] += 1
        table[path.name] = {"outcome": outcome, "kind": kind, "text": text, "reason": reason}
        if outcome == "fail":
            print(f"FAIL {path.name}: {kind}: {text}")
    stale = skips.unused() if not options.filter else []
    for line in stale:
        print(f"FAIL {line}")
    if options.json:
        options.json.write_text(json.dumps(table, indent=1) + "\n")
    print(f"{counts['constant']} of the passing cases have shape operands given as constants")
    print(f"{counts['wrong']} wrong values, {counts['crash']} crashes")
    print(f"{counts['pass']} passed, {counts['fail'] + len(stale)} failed, {counts['skip']} skipped")
    return 1 if counts["fail"] or stale else 0


if __name__ == "__main__":
    sys.exit(main())

# ===- report.py - Coverage, and a failure on disk ------------------------=== #
#
# A fuzzer that reaches nothing finds nothing: which ops and types the graphs had,
# which passes changed a module, which fusion rules spoke.
#
# ===----------------------------------------------------------------------=== #
"""Coverage, and folders of failures."""

import collections
import re
import shlex
import threading
from pathlib import Path

import numpy as np

from options import ROOT

# Not of one graph on one device: between ranks, or above the level of a graph.
NOT_GENERATED = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_broadcast", "collective_permute", "axis_index",
                 "rank_concat", "rank_slice"}
FAMILIES = ["UnaryOps", "ActivationOps", "BinaryOps", "SelectOps", "StructuralOps", "NamedOps"]


def knownOps():
    """Mnemonic -> family, of every compute op that the dialect declares."""
    found = {}
    for family in FAMILIES:
        text = (ROOT / f"include/fusion/IR/{family}.td").read_text()
        for name in re.findall(r'^def Fusion_\w+Op\s*:\s*Fusion_\w+<\s*"(\w+)"', text, re.M):
            found[name] = family
    return {name: family for name, family in found.items() if name not in NOT_GENERATED}


class Coverage:
    def __init__(self):
        self.lock = threading.Lock()
        self.ops = collections.Counter()  # (op, dtype)
        self.changed, self.ran = collections.Counter(), collections.Counter()  # by pass
        self.rules = collections.Counter()  # (Passed or Missed, rule)

    def noteModule(self, module):
        with self.lock:
            for graph in module.graphs:
                for op in graph.ops:
                    value = op.operands[0] if op.operands else op.results[0]
                    self.ops[op.name, value.dtype] += 1

    def notePass(self, name, changed):
        with self.lock:
            self.ran[name] += 1
            self.changed[name] += changed

    def noteRemarks(self, path):
        try:
            text = Path(path).read_text()
        except OSError:
            return
        found = re.findall(r"^--- !(\w+)\nPass:\s+fusion\nName:\s+([\w-]+)$", text, re.M)
        with self.lock:
            self.rules.update(found)

    def print(self):
        dtypes = collections.Counter()
        names = collections.Counter()
        for (name, dtype), count in self.ops.items():
            names[name] += count
            dtypes[dtype] += count
        rare = ", ".join(f"{name} {count}" for name, count in names.most_common()[:-9:-1])
        print(f"ops: {sum(names.values())} of {len(names)} kinds; rarest: {rare}")
        missing = sorted(set(knownOps()) - set(names))
        print("not reached: " + (", ".join(missing) or "none"))
        print("types: " + ", ".join(f"{dtype} {count}" for dtype, count in dtypes.most_common()))
        print("passes that changed a module: " + ", ".join(
            f"{name.removeprefix('pass ')} {self.changed[name]}/{count}" for name, count in sorted(self.ran.items())
            if name.startswith("pass ") and "=" not in name))
        print("rules: " + ", ".join(f"{rule} {kind.lower()} {count}" for (kind, rule), count in self.rules.most_common()))


def writeFailure(folder, case, check, failure, origin, bin):
    """A folder with the model, its inputs, and repeat.sh."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.mlir").write_text(case.module.text())
    if check.source != "model.mlir":
        (folder / check.source).write_text(case.path(check.source).read_text())
    batch = case.batches[-1]
    np.savez(folder / "in.npz", **case.module.arrays(batch))
    inputs = "--inputs in.npz" if case.module.inputs() else ""
    size = f" --batch {batch}" if case.module.isDynamic else ""
    flags = " ".join(shlex.quote(flag) for flag in check.before + check.flags)
    lines = ["#!/usr/bin/env bash", f"# {failure.check}: {failure.kind}", *("# " + line for line in failure.detail.splitlines()),
             f"# Found by: {origin}", 'cd "$(dirname "$0")" || exit 1', f"bin=${{FUSION_BIN:-{bin}}}", "set -ex"]
    evaluate = f'"$bin/fusion-interpret" {{}} {inputs} --output-dir {{}}'
    if check.kind == "compile":
        unfused = " ".join(check.before)
        fusions = ",".join(case.tools.fusions)
        lines += [f'"$bin/fusion-compile" model.mlir {flagsOf(check)} -o fused.fsn',
                  f'"$bin/fusion-compile" model.mlir {unfused} --no-fuse={fusions} -o unfused.fsn',
                  evaluate.format("model.mlir", "want")]
        lines += [f'"$bin/fusion-run" {name}.fsn --trust all --threads {check.threads} {inputs}{size if not inputs else ""} '
                  f'--output-dir {name}' for name in ("fused", "unfused")]
        lines += ["diff -r unfused fused", "diff -r want fused"]
    elif failure.kind == "text" and check.kind == "pass":
        lines += [f'"$bin/fusion-opt" {check.source} {flags} -o once.mlir',
                  f'"$bin/fusion-opt" {check.source} {flags} {" ".join(map(shlex.quote, check.flags))} -o twice.mlir', "diff once.mlir twice.mlir"]
    elif check.kind == "lower":
        lines += [f'"$bin/fusion-compile" model.mlir {flags} --stop-after=fuse -o fused.mlir',
                  f'"$bin/fusion-compile" model.mlir {flags} -o model.fsn', evaluate.format("model.mlir", "want"),
                  evaluate.format("fused.mlir", "got"), "diff -r want got"]
    elif check.kind == "pass":
        lines += [f'"$bin/fusion-opt" {check.source} {flags} -o after.mlir', evaluate.format("model.mlir", "want"),
                  evaluate.format("after.mlir", "got"), "diff -r want got"]
    else:
        lines += ['"$bin/fusion-opt" model.mlir -o printed.mlir', '"$bin/fusion-opt" printed.mlir --verify-roundtrip -o again.mlir',
                  "diff printed.mlir again.mlir", '"$bin/fusion-opt" model.mlir --emit-bytecode -o model.mlirbc',
                  '"$bin/fusion-opt" model.mlirbc -o decoded.mlir', "diff printed.mlir decoded.mlir",
                  evaluate.format("model.mlir", "want")]
    (folder / "repeat.sh").write_text("\n".join(lines) + "\n")


def flagsOf(check):
    return " ".join(shlex.quote(flag) for flag in check.flags)

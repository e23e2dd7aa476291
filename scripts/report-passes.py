#!/usr/bin/env python3
# ===- report-passes.py - What each pass does to real networks -------------=== #
#
# Runs the passes of the compiler one by one over real networks, as text from one
# to the next, and counts how often each fires and how often it says no. What fired
# is counted in the text before and after, what was refused in the remarks; where a
# pass also says how often it fired, the two must agree. Other settings show what
# the usual ones never ask of a pass. Each pass is run twice, too: the second run
# must change nothing.
#
# ===----------------------------------------------------------------------=== #
"""Counts what every pass does to real networks.

Exit status 1 if a pass that decides never fires or is never refused, if a pass says
something else than the text shows, if the passes one by one give something else than
their phase, or if twice is not once.
"""

import argparse
import collections
import functools
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from networks import MODELS, ROOT, ModelError  # noqa: E402

BIN = Path(os.environ.get("FUSION_BIN") or ROOT / "build/dev/bin").resolve()
SIMPLIFY = ("canonicalize evaluate-constants fold-batch-norm canonicalize propagate-layout canonicalize "
            "evaluate-constants canonicalize raise-idioms evaluate-constants canonicalize").split()
FUSE = "decompose-named merge-projections fuse-vertical split-groups fuse-horizontal".split()
REST = "emit-kernels lower-kernels plan-memory verify-schedule".split()
# What verify-rewrites needs before it: a log, and passes that write to it.
REWRITES = "track-rewrites raise-idioms merge-projections".split()
ON_FUNCTIONS = {"decompose-named", "fuse-vertical", "split-groups", "fuse-horizontal", "unfuse-groups",
                "record-fusion-certificate", "verify-fusion-certificate"}
# These decide: over all networks and settings each must fire and be refused.
DECIDING = ("evaluate-constants fold-batch-norm propagate-layout raise-idioms merge-projections fuse-vertical "
            "split-groups fuse-horizontal").split()
# These do what they do without a choice: they must fire.
UNCONDITIONAL = "canonicalize emit-kernels lower-kernels plan-memory".split()
NAMED = "layer_norm rms_norm softmax log_softmax gelu silu".split()
# What is no work of its own at run time.
FREE = set("parameter get_parameter constant reshape name batch broadcast".split())


class ReportError(Exception):
    """A tool failed."""


def tool(*words):
    """Runs a tool; returns what it wrote to stderr."""
    answer = subprocess.run([str(BIN / words[0]), *map(str, words[1:])], stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace")
    if answer.returncode != 0:
        raise ReportError(f"exit status {answer.returncode}, from {' '.join(map(str, words))}\n"
                          f"{answer.stderr[:2000]}")
    return answer.stderr


def pipeline(*passes):
    """`(name, options)` pairs as --pass-pipeline."""
    texts = []
    for name, options in passes:
        text = f"fusion-{name}" + (f"{{{options}}}" if options else "")
        texts.append(f"func.func({text})" if name in ON_FUNCTIONS else text)
    return f"--pass-pipeline=builtin.module({','.join(texts)})"


# ===----------------------------------------------------------------------=== #
# Settings
# ===----------------------------------------------------------------------=== #


@dataclass(frozen=True)
class Setting:
    """How a network is compiled: what is done to its text, and pass options."""

    name: str
    options: dict = field(default_factory=dict)
    rewrite: object = None
    batch: int = 0


def makeTrainable(text):
    """Parameters that the program may update, as while training."""
    return re.sub(r"^(\s*fusion\.parameter @\S+) const ", r"\1 state ", text, flags=re.M)


EXACT = dict.fromkeys("evaluate-constants fold-batch-norm propagate-layout raise-idioms".split(),
                      "exact-rewrites-only")


def makeSettings(folder):
    """The usual setting first. `folder` takes a device file: an h200 that is asked
    for all the threads that a multiprocessor can hold, so 32 registers each."""
    device = json.loads((ROOT / "devices/h200.json").read_text())
    device.update(name="h200-full", resident_blocks=2048 // device["threads_per_block"])
    path = folder / "h200-full.json"
    path.write_text(json.dumps(device))
    return (Setting("as compiled"),
            Setting("exact rewrites only", EXACT),
            Setting("trainable weights", rewrite=makeTrainable),
            Setting("batch 8", batch=8),
            Setting("h200, all threads", dict.fromkeys(FUSE[1:], f"device={path}")))


# ===----------------------------------------------------------------------=== #
# Counting
# ===----------------------------------------------------------------------=== #


def census(text):
    """Ops by name, with what some of them say of themselves."""
    counts = collections.Counter()
    depth = 0  # of groups
    for line in text.splitlines():
        found = re.match(r"\s*(?:%[\w:]+(?:, %[\w:]+)* = )?\"?(fusion|llvm|func)\.(\w+)(?: (\w+))?", line)
        if found:
            dialect, op, word = found.groups()
            counts[f"{dialect}.{op}" if dialect != "fusion" else op] += 1
            if op == "group":
                counts[f"group {word}"] += 1
                counts["compiled"] += " kernel @" in line or "fusion.call = " in line
            elif dialect == "fusion" and op not in FREE and depth == 0:
                counts["alone"] += 1
            counts["nchw"] += "layout = nchw" in line
        opens = bool(found) and found[2] == "group"
        if opens or depth:
            depth += line.endswith("{") - line.lstrip().startswith("}")
    return counts


def sumOf(names):
    return lambda counts: sum(counts[name] for name in names)


def allOps(counts):
    return sum(n for name, n in counts.items() if " " not in name and name not in ("alone", "compiled", "nchw"))


# How often a pass fired: what went away, or with +1 what came.
FIRED = {
    "canonicalize": (-1, allOps), "evaluate-constants": (-1, allOps), "decompose-named": (+1, allOps),
    "fold-batch-norm": (-1, sumOf(["batch_norm"])), "propagate-layout": (-1, sumOf(["nchw"])),
    "raise-idioms": (+1, sumOf(NAMED)), "merge-projections": (-1, sumOf(["matmul", "conv"])),
    "fuse-vertical": (-1, lambda counts: counts["alone"] + counts["group"]),
    "split-groups": (+1, sumOf(["group"])), "fuse-horizontal": (+1, sumOf(["group horizontal"])),
    "emit-kernels": (+1, sumOf(["compiled"])), "lower-kernels": (+1, sumOf(["llvm.func"])),
    "plan-memory": (+1, sumOf(["launch", "call"])), "verify-schedule": (+1, allOps),
}
UNITS = {
    "canonicalize": "ops gone", "evaluate-constants": "ops gone", "fold-batch-norm": "BatchNorms folded",
    "propagate-layout": "convolutions and pools turned", "raise-idioms": "named ops raised",
    "merge-projections": "products saved", "decompose-named": "ops more", "fuse-vertical": "launches saved",
    "split-groups": "groups more", "fuse-horizontal": "launches of several groups",
    "emit-kernels": "groups compiled", "lower-kernels": "functions lowered", "plan-memory": "commands planned",
}


@dataclass
class Remarks:
    """What a pass said: numbers by rule, and refusals by rule and reason."""

    passed: list = field(default_factory=list)  # (rule, text)
    refused: collections.Counter = field(default_factory=collections.Counter)


def readRemarks(stderr, name):
    remarks = Remarks()
    for kind, rule, rest in re.findall(r"\[(Passed|Missed|Failure)\] ([\w-]+) \| (.*)", stderr):
        # A cut is what split-groups is for; no cut is its refusal.
        isRefusal = kind == "Failure" or (kind == "Missed" and name != "split-groups")
        if isRefusal:
            reason = re.search(r'Reason="([^"]*)"', rest)
            text = re.sub(r"@[^\s,]+", "@..", reason[1] if reason else "")
            remarks.refused[rule, re.sub(r"\d+(\.\d+)?", "N", text)] += 1
        elif kind == "Passed":
            remarks.passed.append((rule, rest))
    return remarks


def claimed(name, remarks):
    """How often the pass says that it fired; None where it says nothing like it."""
    def metric(key):
        return sum(int(re.search(rf"\b{key}=(\d+)", rest)[1]) for _, rest in remarks.passed)
    if name in ("fold-batch-norm", "raise-idioms", "fuse-horizontal"):
        return len(remarks.passed)
    if name == "propagate-layout":
        return metric("Windows") if remarks.passed else 0
    if name == "merge-projections":
        return sum(len(re.search(r'Widths="([^"]*)"', rest)[1].split()) - 1 for _, rest in remarks.passed)
    return None


@dataclass
class Result:
    """Of one network under one setting."""

    model: str
    setting: Setting
    fired: collections.Counter = field(default_factory=collections.Counter)
    refused: collections.Counter = field(default_factory=collections.Counter)  # by pass
    reasons: collections.Counter = field(default_factory=collections.Counter)  # by pass, rule, reason
    problems: list = field(default_factory=list)
    twice: set = field(default_factory=set)  # passes that were run twice


# ===----------------------------------------------------------------------=== #
# Running
# ===----------------------------------------------------------------------=== #


def sameText(a, b):
    return a.read_bytes() == b.read_bytes()


def runSequence(result, folder, start, withRest):
    """One pass after the other; returns the text after each, by pass."""
    stages, text = {"start": start}, start
    before = census(start.read_text())
    for index, name in enumerate(SIMPLIFY + FUSE + (REST if withRest else [])):
        options = result.setting.options.get(name, "")
        after = folder / f"{index}-{name}.mlir"
        said = readRemarks(tool("fusion-opt", text, pipeline((name, options)), "--remarks-filter=fusion",
                                "-o", after), name)
        counts = census(after.read_text())
        sign, count = FIRED[name]
        fired = max(0, sign * (count(counts) - count(before)))
        # Moves that keep the number of ops are something, too.
        if fired == 0 and name == "canonicalize" and not sameText(text, after):
            fired = 1
        if (claim := claimed(name, said)) not in (None, fired):
            result.problems.append(f"{name} says that it fired {claim} times, the text shows {fired}")
        result.fired[name] += fired
        for (rule, reason), number in said.refused.items():
            result.refused[name] += number
            result.reasons[name, rule, reason] += number
        if withRest:
            again = folder / "twice.mlir"
            tool("fusion-opt", after, pipeline((name, options)), "-o", again)
            result.twice.add(name)
            if not sameText(after, again):
                result.problems.append(f"{name} changes what it left itself")
        stages[name] = text = after
        before = counts
    return stages


def checkPhases(result, folder, stages):
    """The passes one by one are the phases."""
    simplified, fused = folder / "simplify.mlir", folder / "fuse.mlir"
    last = stages[SIMPLIFY[-1]]
    tool("fusion-opt", stages["start"], "--fusion-simplify", "-o", simplified)
    tool("fusion-opt", last, "--fusion-fuse", "-o", fused)
    for phase, one, all_ in (("simplify", last, simplified), ("fuse", stages[FUSE[-1]], fused)):
        if not sameText(one, all_):
            result.problems.append(f"the passes of {phase}, one by one, give something else than the phase")


def checkTwice(result, folder, stages, evaluate):
    """Passes beside the sequence, in one process with what they need before them."""
    track = ("track-decisions", "keep-original launches")
    fuse = [(name, "") for name in FUSE[2:]]
    plan = folder / "plan.json"
    places = {
        "track-decisions": ("merge-projections", []),
        "record-fusion-certificate": ("merge-projections", []),
        "verify-fusion-certificate": ("merge-projections", [("record-fusion-certificate", ""), *fuse]),
        "explain-pair": ("merge-projections", [track, *fuse]),
        "write-plan": ("merge-projections", [track, *fuse]),
        "unfuse-groups": ("fuse-horizontal", []),
        "track-rewrites": ("propagate-layout", []),
    }
    if evaluate:
        places["verify-fusion"] = ("merge-projections", [track, *fuse])
        # On what nothing was replaced it is quick, and must accept it twice, too.
        places["verify-rewrites"] = ("propagate-layout", [(name, "") for name in REWRITES])
    options = {"track-decisions": track[1], "explain-pair": "pair=#1,#2", "write-plan": f"file={plan}"}

    def compare(name, stage, words):
        outputs = []
        for times in (1, 2):
            output = folder / f"x{times}.mlir"
            tool("fusion-opt", stages[stage], *words(times), "-o", output)
            outputs.append(output.read_bytes() + (plan.read_bytes() if name == "write-plan" else b""))
        result.twice.add(name)
        if outputs[0] != outputs[1]:
            result.problems.append(f"{name} twice is not {name} once")

    for name, (stage, before) in places.items():
        step = (name, options.get(name, ""))
        compare(name, stage, lambda times: [pipeline(*before, *[step] * times)])
    # Of any other pass only the flag is known.
    for name in sorted(set(listPasses()) - result.twice - {"verify-fusion", "verify-rewrites"}):
        compare(name, SIMPLIFY[-1], lambda times: [f"--fusion-{name}"] * times)


def runModel(model, setting, folder):
    result = Result(model.name, setting)
    folder.mkdir(parents=True)
    model.extract(folder / "model.onnx")
    start = folder / "model.mlir"
    tool("fusion-import", folder / "model.onnx", "-o", start, *model.importFlags(setting.batch))
    if setting.rewrite:
        start.write_text(setting.rewrite(start.read_text()))
    isUsual = setting.name == "as compiled"
    try:
        stages = runSequence(result, folder, start, withRest=isUsual)
        if isUsual:
            checkPhases(result, folder, stages)
            checkTwice(result, folder, stages, evaluate=model.name == "direction")
    except ReportError as error:
        result.problems.append(str(error))
    return result


@functools.cache
def listPasses():
    """The passes of fusion-opt, without the pipelines."""
    text = subprocess.run([BIN / "fusion-opt", "--help"], capture_output=True, text=True, check=True).stdout
    return re.findall(r"^\s+--fusion-([\w-]+)\s+-  ", text.split("Pass Pipelines:")[0], re.M)


def runAll(names, folder, quick=False):
    """Returns (results in order, problems)."""
    settings = makeSettings(folder)
    jobs = [(MODELS[name], setting, folder / name / setting.name.replace(" ", "-").replace(",", ""))
            for name in names for setting in settings[:1 if quick else None]]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        results = list(pool.map(lambda job: runModel(*job), jobs))
    problems = [f"{r.model}, {r.setting.name}: {problem}" for r in results for problem in r.problems]
    if missing := set(listPasses()) - set().union(*(r.twice for r in results)):
        problems.append(f"never run twice: {', '.join(sorted(missing))}")
    if not quick:
        for name in DECIDING + UNCONDITIONAL:
            if not any(r.fired[name] for r in results):
                problems.append(f"{name} never fires")
        problems += [f"{name} is never refused" for name in DECIDING if not any(r.refused[name] for r in results)]
    return results, problems


# ===----------------------------------------------------------------------=== #
# Tables
# ===----------------------------------------------------------------------=== #


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


def formatReport(results, names):
    usual = {r.model: r for r in results if r.setting.name == "as compiled"}
    order = list(dict.fromkeys(SIMPLIFY + FUSE + REST[:-1]))
    rows = [[f"`{name}`", UNITS[name],
             *(f"{usual[m].fired[name]} / {usual[m].refused[name]}" if name in DECIDING
               else usual[m].fired[name] for m in names)] for name in order]
    parts = ["Fired / refused, as `fusion-compile` runs them:\n",
             table(["pass", "fired counts", *names], rows)]
    rows = []
    for setting in dict.fromkeys(r.setting.name for r in results if r.setting.name != "as compiled"):
        of = {r.model: r for r in results if r.setting.name == setting}
        for name in DECIDING:
            cells = [(of[m].fired[name], of[m].refused[name]) for m in names]
            if cells != [(usual[m].fired[name], usual[m].refused[name]) for m in names]:
                rows.append([setting, f"`{name}`", *(f"{fired} / {refused}" for fired, refused in cells)])
    if rows:
        parts += ["\nThe same where another setting changes it:\n", table(["setting", "pass", *names], rows)]
    rows = []
    for name in DECIDING:
        reasons = collections.Counter()
        for r in results:
            for (which, rule, reason), number in r.reasons.items():
                if which == name:
                    reasons[rule, reason] += number
        for (rule, reason), number in sorted(reasons.items(), key=lambda item: (-item[1], item[0]))[:5]:
            rows.append([f"`{name}`", number, reason if rule == name else f"{reason} (`{rule}`)"])
    parts += ["\nWhy not, most frequent first, over all networks and settings (N stands for numbers):\n",
              table(["pass", "times", "reason"], rows)]
    return "\n".join(parts)


def main():
    parser = argparse.ArgumentParser(prog="report-passes.py", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two small networks, the usual setting only")
    arguments = parser.parse_args()
    names = ["direction", "recognition"] if arguments.quick else list(MODELS)
    try:
        with tempfile.TemporaryDirectory() as folder:
            results, problems = runAll(names, Path(folder), arguments.quick)
    except ModelError as error:
        print(f"error: {error}", file=sys.stderr)
        return 5
    except ReportError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(formatReport(results, names))
    passes = set().union(*(r.twice for r in results))
    print(f"\n{len(passes)} passes were run twice.")
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

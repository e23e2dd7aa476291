# ===- cost_model.py - Predicted times against measured ones ---------------=== #
#
# Compiles the suite seed2 and 200 random programs, fused and with each op alone; times
# them on a GPU as whole runs, which replay one CUDA graph; and holds the compiler's own
# predictions for a device file against that. Half of the programs may be looked at to
# fit the device file; the figures that count are those of the other half.
#
# ===----------------------------------------------------------------------=== #
"""The suite `cost-model`: compile here, time on a GPU, judge anywhere."""

from __future__ import annotations

import concurrent.futures
import contextlib
import gc
import json
import math
import os
import re
import subprocess
import tempfile
import time
import zlib
from dataclasses import dataclass
from typing import Callable, Mapping, Optional, Sequence

from ..errors import USAGE, FusionError
from . import modules, random_groups, seed2, timing
from .workload import WIDTH, Tensor, Workload

#: Of the suite.
NAME = "cost-model"
RANDOM_PROGRAMS = 200
VARIANTS = {"fused": ("--fp=fast",), "alone": ("--fp=fast", modules.UNFUSED)}
#: Bytes that PyTorch may hold for programs that are done.
_MOST_HELD = 30 << 30
#: Pairs that differ by less are no decision.
_DIFFERENCE = 1.05


def half(name: str) -> str:
    """`fit` or `held-out`: which half of the suite a program is in."""
    return "held-out" if zlib.crc32(name.encode()) & 1 else "fit"


def sources(folder: str, count: int = RANDOM_PROGRAMS,
            workloads: Optional[Sequence[Workload]] = None) -> dict[str, tuple[str, list[Tensor]]]:
    """Writes all programs into `folder`: name -> its path and inputs."""
    result = {}
    for workload in seed2.workloads() if workloads is None else workloads:
        result[workload.name] = workload.write(folder), list(workload.inputs)
    for program in random_groups.programs(count):
        path = os.path.join(folder, program.name + ".mlir")
        with open(path, "w", encoding="utf-8") as file:
            file.write(program.text())
        result[program.name] = path, program.inputs
    return result


def _run(arguments: Sequence[str], name: str) -> None:
    answer = subprocess.run(arguments, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if answer.returncode:
        raise FusionError(f"{name}: {(answer.stderr.splitlines() or ['no message'])[0][:300]}", 3)


def compile_all(output: str, bin_dir: Optional[str], target: str, device: str, say: Callable[[str], None],
                count: int = RANDOM_PROGRAMS, workloads: Optional[Sequence[Workload]] = None) -> None:
    """Compiles all variants into the folder `output`: NAME.VARIANT.fsn, NAME.VARIANT.mlir (the groups, for
    predictions) and cost-model.json (inputs and seconds)."""
    compiler = modules.find_tool("fusion-compile", bin_dir)
    os.makedirs(output, exist_ok=True)
    document: dict = {"target": target, "programs": {}}
    with tempfile.TemporaryDirectory(prefix="fusion-bench-") as scratch:
        for name, (path, inputs) in sources(scratch, count, workloads).items():
            entry: dict = {"half": half(name), "inputs": [[t.name, t.dtype, list(t.shape)] for t in inputs],
                           "seconds": {}}
            for variant, options in VARIANTS.items():
                flags = [compiler, path, f"--target={target}", f"--device={device}", *options]
                begin = time.perf_counter()
                _run([*flags, "-o", os.path.join(output, f"{name}.{variant}.fsn")], name)
                entry["seconds"][variant] = round(time.perf_counter() - begin, 3)
                _run([*flags, "--stop-after=fuse", "-o", os.path.join(output, f"{name}.{variant}.mlir")], name)
            document["programs"][name] = entry
    with open(os.path.join(output, "cost-model.json"), "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
    seconds = [s for entry in document["programs"].values() for s in entry["seconds"].values()]
    say(f"{len(document['programs'])} programs in {output}; slowest module {max(seconds):.2f} s")


class _Buffers:
    """Sets of inputs (in order) and outputs (by name) that together do not fit the cache, if 16 are enough for that:
    the runtime keeps a graph for each of so many."""

    def __init__(self, torch, inputs: Sequence[Tensor], module, cache_bytes: int):
        from .gpu import dtype_of

        one = sum(t.bytes for t in inputs) + sum(math.prod(info.shape_at(module.max_batch)) * WIDTH[info.dtype_name]
                                                 for info in module.outputs)
        self.sets = timing.copies_for(one, cache_bytes)
        self.inputs, self.outputs = [], []
        for _ in range(self.sets):
            made = [torch.rand(t.shape, device="cuda", dtype=torch.float32).add_(0.25).to(dtype_of(torch, t.dtype))
                    for t in inputs]
            self.inputs.append(made)
            self.outputs.append(module.empty_outputs(
                allocate=lambda size: torch.empty(size, dtype=torch.uint8, device="cuda")))


def _begun(output: str) -> str:
    """The file that names the program that is being measured."""
    return output + ".begun"


def resume(document: dict, output: str) -> None:
    """Takes over what an earlier run that was cut off has written to `output`; the program that ended it is not tried
    again."""
    try:
        with open(output, encoding="utf-8") as file:
            before = json.load(file)["programs"]
    except (OSError, ValueError, KeyError):
        before = {}
    for name, entry in document["programs"].items():
        entry.update({key: before[name][key] for key in ("us", "ratio", "sets", "relative_difference", "error")
                      if key in before.get(name, {})})
    try:
        with open(_begun(output), encoding="utf-8") as file:
            name = file.read().strip()
    except OSError:
        return
    if name in document["programs"]:
        document["programs"][name].setdefault("error", "the process that measured it was ended")


def measure(folder: str, output: str, rounds: int, time_limit: float, say: Callable[[str], None]) -> dict:
    """Times every program's variants, taking turns; writes `output` after every tenth program. Goes on where an earlier
    run ended."""
    from . import gpu
    from .. import runtime

    torch = gpu.open_torch()
    facts = gpu.describe(torch)
    with open(os.path.join(folder, "cost-model.json"), encoding="utf-8") as file:
        document = json.load(file)
    document["environment"] = facts
    resume(document, output)
    started, done = time.monotonic(), 0
    # Should time run out, both halves and all kinds have been seen.
    order = sorted(document["programs"], key=lambda name: zlib.crc32(name[::-1].encode()))
    order = [name for name in order if not {"us", "error"} & set(document["programs"][name])]
    try:
        with torch.cuda.stream(torch.cuda.Stream()):
            for number, name in enumerate(order):
                entry = document["programs"][name]
                if time.monotonic() - started > time_limit:
                    break
                with open(_begun(output), "w", encoding="utf-8") as file:
                    file.write(name)
                try:
                    inputs = [Tensor(n, dtype, tuple(shape)) for n, dtype, shape in entry["inputs"]]
                    _measure_one(torch, folder, name, inputs, entry, facts["cache_bytes"] or 64 << 20, rounds)
                    done += 1
                except (FusionError, RuntimeError, runtime.FusionError, OSError) as error:
                    entry["error"] = (str(error).splitlines() or [type(error).__name__])[0][:200]
                    say(f"{name}: {entry['error']}")
                    torch.cuda.synchronize()  # raises if the context is lost: another process may go on
                if torch.cuda.memory_reserved() > _MOST_HELD:
                    gc.collect()
                    torch.cuda.empty_cache()
                if number % 10 == 9:
                    _write(output, document)
    finally:
        document["seconds_measured"] = round(time.monotonic() - started, 1)
        _write(output, document)
        say(f"{done} of {len(order)} programs timed, {document['seconds_measured']} s")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_begun(output))
    return document


def _measure_one(torch, folder, name, inputs, entry, cache_bytes, rounds) -> None:
    from .. import runtime
    from .ours import OpenModule

    paths = {variant: os.path.join(folder, f"{name}.{variant}.fsn") for variant in VARIANTS}
    buffers = _Buffers(torch, inputs, runtime.load(paths["fused"]), cache_bytes)
    names = [t.name for t in inputs]
    contenders, opened, results = {}, [], {}
    for variant, path in paths.items():
        ours = OpenModule(torch, path, buffers.inputs[:1], names)
        opened.append(ours)
        launches = []
        for given, outputs in zip(buffers.inputs, buffers.outputs):
            by_name = dict(zip(names, given))
            launches.append(ours.launcher_on([by_name[info.name] for info in ours.module.inputs],
                                             [outputs[info.name] for info in ours.module.outputs]))
        launches[0]()
        torch.cuda.synchronize()
        results[variant] = [tensor.double() for tensor in buffers.outputs[0].values()]
        contenders[variant] = timing.Contender(launches)
    # The same program either way; what differs are roundings between the ops.
    worst = 0.0
    for a, b in zip(results["fused"], results["alone"]):
        norm = float(b.norm()) or 1.0
        worst = max(worst, float((a - b).norm()) / norm)
    entry["relative_difference"] = worst
    results.clear()
    clock = timing.DeviceClock(torch)
    times = timing.interleave(contenders, lambda _c: clock, rounds)
    entry["sets"] = buffers.sets
    entry["us"] = {variant: taken.as_json() for variant, taken in times.items()}
    ratio = timing.Ratio.of(times["alone"], times["fused"])
    entry["ratio"] = [ratio.median, ratio.low, ratio.high]


# ---- judging -----------------------------------------------------------------


@dataclass(frozen=True)
class Judged:
    """What a program took and was predicted to take, in microseconds by variant."""

    name: str
    measured: Mapping[str, float]
    predicted: Mapping[str, float]
    ratio: float  # alone / fused, as measured

    @property
    def kind(self) -> str:
        """Of a random program, else the suite seed2."""
        found = re.fullmatch(r"r\d+-(\w+)", self.name)
        return found.group(1) if found else "seed2"

    @property
    def errors(self) -> list[float]:
        return [abs(self.predicted[variant] / us - 1) for variant, us in self.measured.items()]

    @property
    def decides(self) -> Optional[bool]:
        """Whether the prediction says which variant is the faster; None if there is nothing to decide."""
        if 1 / _DIFFERENCE <= self.ratio <= _DIFFERENCE:
            return None
        difference = self.predicted["alone"] - self.predicted["fused"]
        return difference > 0 if self.ratio > 1 else difference < 0


def predict_all(folder: str, names: Sequence[str], device: str, bin_dir: Optional[str]) -> dict[str, dict[str, dict]]:
    """What the compiler predicts with a device file: program -> variant -> the object of fusion-print-costs."""
    tool = modules.find_tool("fusion-opt", bin_dir)

    def one(job: tuple[str, str]) -> dict:
        path = os.path.join(folder, "{}.{}.mlir".format(*job))
        answer = subprocess.run([tool, path, f"--fusion-print-costs=device={device}", "-o", os.devnull],
                                capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        if answer.returncode:
            said = (answer.stderr.splitlines() or ["no message"])[0][:300]
            raise FusionError(f"{path}: {said}, compile the suite again (--compile-only)", 3)
        return json.loads(answer.stdout)["functions"][0]

    jobs = [(name, variant) for name in names for variant in VARIANTS]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = dict(zip(jobs, pool.map(one, jobs)))
    return {name: {variant: found[name, variant] for variant in VARIANTS} for name in names}


def judge(times: Mapping, predicted: Mapping[str, Mapping[str, Mapping]]) -> list[Judged]:
    """All programs of the document `times` that have been measured."""
    return [Judged(name, {variant: entry["us"][variant]["us"] for variant in VARIANTS},
                   {variant: predicted[name][variant]["us"] for variant in VARIANTS}, entry["ratio"][0])
            for name, entry in times["programs"].items() if "us" in entry]


def summary(judged: Sequence[Judged]) -> dict:
    """`median` and `p90` of the errors, how many `pairs` there are to decide and how many were `right`."""
    errors = [error for program in judged for error in program.errors]
    decided = [program.decides for program in judged if program.decides is not None]
    if not errors:
        return {"times": 0}
    return {"times": len(errors), "median": timing.median(errors), "p90": timing.percentile(errors, 0.9),
            "pairs": len(decided), "right": sum(decided)}


def _line(title: str, found: Mapping) -> str:
    if not found["times"]:
        return f"{title}: no times"
    share = f" ({100 * found['right'] / found['pairs']:.1f} %)" if found["pairs"] else ""
    return (f"{title}: {found['times']} times, median error {100 * found['median']:.1f} %, 90th percentile "
            f"{100 * found['p90']:.1f} %, decided as measured in {found['right']} of {found['pairs']} pairs{share}")


def report(judged: Sequence[Judged], say: Callable[[str], None]) -> None:
    """Both halves, the held-out one by kind, and its worst programs."""
    halves = {which: [p for p in judged if half(p.name) == which] for which in ("fit", "held-out")}
    for which, programs in halves.items():
        say(_line(which, summary(programs)))
    for kind in sorted({p.kind for p in halves["held-out"]}):
        say(_line(f"  {kind}", summary([p for p in halves["held-out"] if p.kind == kind])))
    for program in sorted(halves["held-out"], key=lambda p: max(p.errors), reverse=True)[:10]:
        say(f"  {program.name}: " + ", ".join(
            f"{variant} {us:.2f} us, predicted {program.predicted[variant]:.2f}"
            for variant, us in program.measured.items()) + (", decided wrongly" if program.decides is False else ""))


def evaluate(folder: str, times_path: str, base: str, fitted: Optional[str], bin_dir: Optional[str],
             say: Callable[[str], None]) -> list[Judged]:
    """Holds the device file `base` against the times. With `fitted`, what the fit half makes of it is written there and
    held against them instead."""
    from . import calibrate, fit

    with open(times_path, encoding="utf-8") as file:
        times = json.load(file)
    names = [name for name, entry in times["programs"].items() if "us" in entry]
    device = calibrate.find_device(base)
    predicted = predict_all(folder, names, device, bin_dir)
    if fitted:
        with open(device, encoding="utf-8") as file:
            figures = json.load(file)
        wanted = [(name, variant) for name in names if half(name) == "fit" for variant in VARIANTS]
        if not wanted:
            raise FusionError(f"{times_path}: no program of the fit half has times, measure more of them", USAGE)
        figures = fit.fit(figures, [predicted[name][variant]["kernels"] for name, variant in wanted],
                          [times["programs"][name]["us"][variant]["us"] for name, variant in wanted])
        _write(fitted, figures)
        predicted = predict_all(folder, names, os.path.abspath(fitted), bin_dir)
    judged = judge(times, predicted)
    report(judged, say)
    return judged


def _write(path: str, document: Mapping) -> None:
    from .run import write_json

    write_json(path, document)

# ===- launched.py - Kernels and copies of our modules, by CUPTI ------------=== #
#
# A worker (worker.py) that replays each module once under PyTorch's profiler, which
# reads them off the device through CUPTI: neither the compiler nor the runtime is
# asked. CUPTI is there before the graphs are, and slows nothing that is timed.
#
# ===----------------------------------------------------------------------=== #
"""Counts what a run of a module launches."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from typing import Callable, Mapping, Sequence

from . import gpu, modules, ours, worker
from .table import first_line
from .workload import Workload


def count(trace: Mapping) -> dict[str, int]:
    """`kernels` and `copies` (fills among them) of the device in a trace of PyTorch's profiler."""
    kinds = [event.get("cat") for event in trace.get("traceEvents", []) if event.get("ph") == "X"]
    return {"kernels": kinds.count("kernel"), "copies": kinds.count("gpu_memcpy") + kinds.count("gpu_memset")}


def _seen(torch, launch: Callable[[], None]) -> dict[str, int]:
    """What the device did."""
    profiler = torch.profiler
    with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as profile:
        launch()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory(prefix="fusion-bench-") as scratch:
        path = os.path.join(scratch, "trace.json")
        profile.export_chrome_trace(path)
        with open(path, encoding="utf-8") as file:
            return count(json.load(file))


def run_worker(suite: Sequence[Workload], folder: str, library: str, variants: Sequence[str],
               wanted: Sequence[str]) -> int:
    """Prints a line a module."""
    torch = gpu.open_torch()
    ours.use_runtime(library)
    with torch.cuda.stream(torch.cuda.Stream()):
        probe = torch.zeros(1, device="cuda")
        if not _seen(torch, lambda: probe.add_(1))["kernels"]:
            worker.say({"failed": "PyTorch's profiler shows no kernel: CUPTI can't be used here"})
            return 5
        for workload in suite:
            if workload.name not in wanted:
                continue
            inputs = [gpu.make_input(torch, t) for t in workload.inputs]
            for variant in variants:
                path = os.path.join(folder, modules.module_name(workload, variant))
                if not os.path.isfile(path):
                    continue
                answer = {"name": workload.name, "variant": variant}
                try:
                    module = ours.OpenModule(torch, path, [inputs], [t.name for t in workload.inputs])
                    launch = module.contender().launches[0]
                    launch()
                    torch.cuda.synchronize()
                    answer["launched"] = _seen(torch, launch)
                except Exception as error:  # noqa: BLE001 - the row will say what is wrong
                    answer["error"] = first_line(error)
                worker.say(answer)
            del inputs
            torch.cuda.empty_cache()
    return 0


def count_all(suite: str, names: Sequence[str], folder: str, library: str, variants: Sequence[str],
              limit_s: float) -> tuple[dict[str, dict[str, dict]], dict]:
    """By row and variant, `launched`: kernels and copies of one run. Facts, `failed` among them."""
    answers, facts = worker.collect("launched", [suite, folder, library, ",".join(variants), *names], limit_s)
    rows: dict[str, dict[str, dict]] = {}
    for answer in answers:
        if "launched" in answer:
            rows.setdefault(answer["name"], {})[answer["variant"]] = {"launched": answer["launched"]}
    return rows, facts


if __name__ == "__main__":
    from .suites import SUITES

    sys.exit(run_worker(SUITES[sys.argv[1]](), sys.argv[2], sys.argv[3], sys.argv[4].split(","), sys.argv[5:]))

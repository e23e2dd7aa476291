# ===- launched.py - Kernels and copies of our modules, by CUPTI ------------=== #
#
# A worker (worker.py) that replays each module once under PyTorch's profiler, which
# reads them off the device through CUPTI: neither the compiler nor the runtime is
# asked. CUPTI is there before the graphs are, and slows nothing that is timed.
#
# ===----------------------------------------------------------------------=== #
"""Counts what a run of a module launches."""

from __future__ import annotations

import os
import sys
from typing import Callable, Iterable, Sequence

from . import gpu, modules, ours, worker
from .table import first_line
from .workload import Workload


def count(names: Iterable[str]) -> dict[str, int]:
    """`kernels` and `copies` (fills among them) of what the device did, by name."""
    result = {"kernels": 0, "copies": 0}
    for name in names:
        result["copies" if name.startswith(("Memcpy", "Memset")) else "kernels"] += 1
    return result


def _seen(torch, launch: Callable[[], None]) -> list[str]:
    """The names of what the device did."""
    profiler = torch.profiler
    with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as profile:
        launch()
        torch.cuda.synchronize()
    return [event.name for event in profile.events() if "CUDA" in str(event.device_type)]


def run_worker(suite: Sequence[Workload], folder: str, library: str, variants: Sequence[str],
               wanted: Sequence[str]) -> int:
    """Prints a line a module."""
    torch = gpu.open_torch()
    ours.use_runtime(library)
    with torch.cuda.stream(torch.cuda.Stream()):
        probe = torch.zeros(1, device="cuda")
        if not _seen(torch, lambda: probe.add_(1)):
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
                    answer["launched"] = count(_seen(torch, launch))
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

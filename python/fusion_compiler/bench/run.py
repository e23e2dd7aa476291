# ===- run.py - Measures a suite on this machine's GPU ---------------------=== #
#
# For each row: fresh random inputs, several sets of them; Fusion's modules checked
# against f64; then modules, peers and limits timed in turn. A contender that fails is
# that contender's error, the row goes on. The JSON file is written after every row.
#
# ===----------------------------------------------------------------------=== #
"""Runs a suite: checks, times, judges."""

from __future__ import annotations

import gc
import json
import os
import time
from dataclasses import dataclass, field
from typing import Callable, Mapping, Optional, Sequence

from .. import runtime
from ..errors import FusionError
from . import bars, gpu, limits, modules, table, timing
from .ours import OpenModule
from .timing import Contender, Times
from .workload import Workload


@dataclass
class Settings:
    """What a run is asked for."""

    variants: Sequence[str] = ("fast", "strict", "unfused")
    peers: Sequence[str] = ("torch", "xla")
    rounds: int = 25
    folder: str = "."  # of the modules
    time_limit: float = 330.0  # seconds after which nothing more is compiled by torch.compile
    started: float = field(default_factory=time.monotonic)
    count_launches: bool = False

    def late(self) -> bool:
        return time.monotonic() - self.started > self.time_limit


def assemble(workload: Workload, ours: Mapping[str, dict], peers: Mapping[str, dict], limit: Mapping,
             times: Mapping[str, Times], copy_bandwidth: Optional[float]) -> dict:
    """A row of the JSON file from what each contender said and took.

    `ours` and `peers` hold an entry each (`us` and more, or `error`); `times` the rounds of those that took turns. The
    first variant of `ours` is the one that bars judge; a wrong result fails them.
    """
    judged = next(iter(ours.values()), {})
    peer, peer_us = timing.best({name: entry.get("us") for name, entry in peers.items()})
    figures = bars.figures(judged.get("us"), peer_us, limit.get("us"), workload.bytes, copy_bandwidth)
    first = next(iter(ours), None)
    if first in times and peer in times:
        figures["speedup"] = timing.ratio(times[peer], times[first])
        figures["of_peer"] = timing.ratio(times[first], times[peer])
    if first in times and limit.get("name") in times:
        figures["of_limit"] = timing.ratio(times[first], times[limit["name"]])
    verdict = bars.judge(workload.bars, figures)
    bad = judged.get("check", {}).get("ok") is False or judged.get("stable") is False
    row = {"name": workload.name, "title": workload.title, "bytes": workload.bytes, "flops": workload.flops,
           "ours": dict(ours), "peers": dict(peers), "limit": dict(limit), "best_peer": peer,
           "figures": {name: value and round(value, 4) for name, value in figures.items()},
           "bar": bars.describe(workload.bars), "pass": False if bad and workload.bars else verdict}
    if copy_bandwidth:
        shares = {name: workload.bytes / (entry["us"] * 1e-6) / copy_bandwidth
                  for name, entry in {**ours, **peers}.items() if entry.get("us")}
        row["bandwidth"] = {name: round(share, 4) for name, share in shares.items()}
        row["limit"]["bytes_us"] = round(workload.bytes / copy_bandwidth * 1e6, 3)
    return row


class Runner:
    """Measures rows on the first GPU; `kernels` are those of limits.cu or None."""

    def __init__(self, torch, settings: Settings, manifest: Mapping, kernels, xla: Mapping[str, dict],
                 copy_bandwidth: Optional[float], say: Callable[[str], None]):
        self._torch, self._settings, self._manifest, self._kernels = torch, settings, manifest, kernels
        self._xla, self._copy, self._say = xla, copy_bandwidth, say
        self._cache = gpu.describe(torch)["cache_bytes"] or 64 << 20
        if settings.count_launches:
            self._profile(lambda: None)  # CUPTI must be there before the graphs are

    def row(self, workload: Workload) -> dict:
        """Measures one row; gives the memory back."""
        try:
            return self._row(workload)
        finally:
            gc.collect()
            self._torch.cuda.empty_cache()

    def _row(self, workload: Workload) -> dict:
        torch = self._torch
        sets = [[gpu.make_input(torch, t) for t in workload.inputs]
                for _ in range(timing.copies_for(workload.bytes, self._cache))]
        weights = gpu.make_weights(torch, workload)
        oracle = gpu.Oracle(torch, workload, sets[0], weights)
        contenders: dict[str, Contender] = {}
        ours, opened = self._open_modules(workload, sets, oracle, contenders)
        peers = self._open_peers(workload, sets, weights, oracle, contenders)
        bounds = self._open_limits(workload, sets, weights, oracle, contenders)
        del oracle
        gc.collect()
        torch.cuda.empty_cache()
        counts = self._count(contenders) if self._settings.count_launches else {}
        times = {} if counts else timing.interleave(contenders, timing.clocks_for(torch), self._settings.rounds)
        for name, taken in times.items():
            entry = ours.get(name) or peers.get(name)
            if entry is not None:
                entry.update(taken.as_json())
        for name, kernels in counts.items():
            entry = ours.get(name) or peers.get(name)
            if entry is not None:
                entry["kernels"], entry["memory_copies"] = kernels
        for name, (module, bits) in opened.items():
            after = module.results(0, [t.name for t in workload.results])
            ours[name]["stable"] = all(torch.equal(a, b) for a, b in zip(bits, after))
        peers.update({"xla": self._xla[workload.name]} if workload.name in self._xla else {})
        fastest, us = timing.best({name: times[name].us for name in bounds if name in times})
        limit = {"name": fastest, "us": round(us, 3)} if us else {}
        if len(bounds) > 1 and times:
            limit["all"] = {name: round(times[name].us, 3) for name in bounds}
        row = assemble(workload, ours, peers, limit, times, self._copy)
        row["sets"] = len(sets)
        return row

    def _open_modules(self, workload, sets, oracle, contenders):
        ours: dict[str, dict] = {}
        opened: dict = {}
        names = [t.name for t in workload.inputs]
        order = [t.name for t in workload.results]
        for variant in self._settings.variants:
            name = modules.module_name(workload, variant)
            made = self._manifest["modules"].get(name, {})
            entry = ours[variant] = {key: made[key] for key in ("command", "seconds", "sha256") if key in made}
            entry["module"] = name
            path = os.path.join(self._settings.folder, name)
            try:
                if not os.path.isfile(path):
                    raise FusionError(made.get("error", f"{name} is not in the modules' folder"))
                entry["sha256"] = modules.check_hash(self._settings.folder, name, self._manifest)
                module = OpenModule(self._torch, path, sets, names)
                module.poison()
                contender = module.contender()
                for launch in contender.launches:
                    launch()
                self._torch.cuda.synchronize()
                results = module.results(0, order)
                entry["check"] = oracle.check(results)
                entry["counts"] = module.counts()
                entry["clock"] = "host" if contender.blocking else "device"
                contenders[variant] = contender
                opened[variant] = module, [r.clone() for r in results]
            except (FusionError, runtime.FusionError, RuntimeError) as error:
                entry["error"] = table.first_line(error)
        return ours, opened

    def _open_peers(self, workload, sets, weights, oracle, contenders):
        peers: dict[str, dict] = {}
        if "torch" not in self._settings.peers:
            return peers
        for name in ("eager", "inductor"):
            entry = peers[name] = {}
            try:
                if name == "eager":
                    peer = gpu.eager(self._torch, workload, weights, sets)
                elif self._settings.late():
                    entry["error"] = f"not compiled: {self._settings.time_limit:g} s had passed"
                    continue
                else:
                    peer, seconds = gpu.inductor(self._torch, workload, weights, sets)
                    entry["compile_s"] = round(seconds, 2)
                peer.launches[0]()
                self._torch.cuda.synchronize()
                entry["check"] = oracle.check(peer.results[0])
                contenders[name] = Contender(peer.launches)
            except Exception as error:  # noqa: BLE001 - torch.compile raises what it likes
                entry["error"] = table.first_line(error)
        return peers

    def _open_limits(self, workload, sets, weights, oracle, contenders) -> list[str]:
        names = []
        for name, make in limits.factories(workload, self._kernels, self._torch).items():
            try:
                launches, outputs = [], None
                for index, inputs in enumerate(sets):
                    launch, out = make(inputs, weights)
                    launches.append(gpu.capture(self._torch, launch))
                    outputs = out if index == 0 else outputs
                launches[0]()
                self._torch.cuda.synchronize()
                if outputs:
                    check = oracle.check(outputs)
                    if not check["ok"]:
                        raise FusionError(f"wrong result: {check}")
            except (FusionError, RuntimeError) as error:
                self._say(f"{workload.name}: limit {name}: {table.first_line(error)}")
                continue
            contenders[name] = Contender(launches)
            names.append(name)
        return names

    def _profile(self, launch: Callable[[], None]) -> list[str]:
        """The names of what the device did, as CUPTI saw it."""
        profiler = self._torch.profiler
        with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as profile:
            launch()
            self._torch.cuda.synchronize()
        return [event.name for event in profile.events() if "CUDA" in str(event.device_type)]

    def _count(self, contenders) -> dict[str, tuple[int, int]]:
        """Kernels and copies of one repetition."""
        result = {}
        for name, contender in contenders.items():
            seen = self._profile(contender.launches[0])
            copies = sum(event.startswith(("Memcpy", "Memset")) for event in seen)
            result[name] = len(seen) - copies, copies
        return result


def write_json(path: str, document: Mapping) -> None:
    """Replaces the file at once."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
        file.write("\n")
    os.replace(path + ".new", path)


def exit_code(rows: Sequence[Mapping]) -> int:
    """1 if a result of ours was wrong or changed, else 4 if a module could not be had or run, else 0."""
    entries = [entry for row in rows for entry in row["ours"].values()]
    if any(entry.get("check", {}).get("ok") is False or entry.get("stable") is False for entry in entries):
        return 1
    return 4 if any("error" in entry for entry in entries) or any("error" in row for row in rows) else 0


def run_rows(workloads: Sequence[Workload], measure: Callable[[Workload], dict], document: dict,
             output: Optional[str], say: Callable[[str], None]) -> None:
    """Measures all rows into `document["rows"]`, saying each and writing the file after each."""
    for workload in workloads:
        begin = time.monotonic()
        try:
            row = measure(workload)
        except Exception as error:  # noqa: BLE001 - out of memory on the device, say
            say(f"{workload.name:<28} error: {table.first_line(error)}")
            row = assemble(workload, {}, {}, {}, {}, None)
            row["error"] = table.first_line(error)
        row["seconds"] = round(time.monotonic() - begin, 1)
        document["rows"].append(row)
        if "error" not in row:
            say(table.line(row) + f" | {row['seconds']} s")
        for problem in table.errors(row):
            say(f"  {problem}")
        if output:
            write_json(output, document)

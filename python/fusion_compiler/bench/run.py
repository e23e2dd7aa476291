# ===- run.py - Measures a suite on this machine's GPU ---------------------=== #
#
# For each workload: fresh random inputs, several sets of them; Fusion's modules checked
# against f64; then modules, peers and limits timed in turn. What fits the cache gets a
# second row, timed on one set alone; and where ours is short then, a third one, of several
# runs in one graph, as an op is one of many nodes in the graph of a model. A contender that fails is that contender's error,
# the row goes on. The JSON file is written after every workload.
#
# ===----------------------------------------------------------------------=== #
"""Runs a suite: checks, times, judges."""

from __future__ import annotations

import copy
import gc
import json
import math
import os
import time
from dataclasses import dataclass, field
from typing import Callable, Mapping, Optional, Sequence

from .. import runtime
from ..errors import FusionError
from . import bars, gpu, limits, modules, table, timing, xla
from .budget import Budget
from .ours import OpenModule
from .timing import Contender, Ratio, Times
from .workload import Workload


#: What an entry says of bits: after timing, and from several runs in one graph.
SAME = ("stable", "same_repeated")
#: The contender that copies (bandwidth.py).
COPY = "copy"
#: What a peer's name gets when its work is replayed as one CUDA graph.
GRAPH = "+graph"
#: What a row's name and title get, by its data: in memory, in the cache, and so with REPEATS runs in one graph.
REPEATS = 16
KINDS = {"cold": ("", ""), "warm": ("~warm", ", in cache"),
         "repeated": ("~graph", f", in cache, {REPEATS} runs in one graph")}
#: Which rows get the last: what takes less, in microseconds. Between two graphs the device idles for 1 to 2.
SHORT_US = 50.0


@dataclass
class Settings:
    """What a run is asked for."""

    variants: Sequence[str] = ("fast", "strict", "unfused")
    peers: Sequence[str] = ("torch", "xla")
    rounds: int = 25
    folder: str = "."  # of the modules
    budget: Budget = field(default_factory=lambda: Budget(math.inf, 0))


def compare(workload: Workload, first: Optional[str], peer: Optional[str], limit: Optional[str],
            times: Mapping[str, Times], copy_bytes: int) -> dict[str, Ratio]:
    """The ratios that bars speak of, of contenders that took turns."""
    ours = times.get(first or "")
    if ours is None:
        return {}
    result = {}
    if peer in times:
        result["speedup"], result["of_peer"] = Ratio.of(times[peer], ours), Ratio.of(ours, times[peer])
    if limit in times:
        result["of_limit"] = Ratio.of(ours, times[limit])
    if COPY in times:
        result["bandwidth"] = Ratio.of(times[COPY], ours).scaled(workload.bytes / copy_bytes)
    return result


def assemble(workload: Workload, ours: Mapping[str, dict], peers: Mapping[str, dict], limit: Mapping,
             times: Mapping[str, Times], copy_bandwidth: Optional[float], copy_bytes: int = 0,
             data: str = "cold", short: bool = False) -> dict:
    """A row of the JSON file from what each contender said and took.

    `ours` and `peers` hold an entry each (`us` and more, or `error`); `times` the rounds of those that took turns,
    perhaps among them COPY, of `copy_bytes`. Bars judge TUNED where it is asked for, else the first variant of `ours`,
    whose kernels are the same; a wrong result fails them. `data`: one of KINDS.
    `short`: the work has a row in one graph too. There no side pays for launches, so XLA's time, a sum of kernels
    without them, is a peer's there; beside runs of one graph each it is shown and no peer's.
    """
    first = next(iter(ours), None)
    named = modules.TUNED if modules.TUNED in ours else first
    judged = ours.get(named, {})
    peer, peer_us = timing.best({name: entry.get("us") for name, entry in peers.items()
                                 if not (short and data != "repeated" and name == "xla")})
    if COPY in times:
        copy_bandwidth = copy_bytes / (times[COPY].us * 1e-6)
    figures = bars.figures(judged.get("us"), peer_us, limit.get("us"), workload.bytes, copy_bandwidth)
    ratios = compare(workload, named, peer, limit.get("name"), times, copy_bytes)
    figures.update({name: ratio.median for name, ratio in ratios.items()})
    figures["dram"] = ours.get(first, {}).get("dram", {}).get("of_planned")
    intervals = {name: (ratio.low, ratio.high) for name, ratio in ratios.items()}
    clauses = {"cold": workload.bars, "warm": workload.warm_bars, "repeated": workload.graph_bars}[data]
    suffix, where = KINDS[data]
    verdict = bars.judge(clauses, figures)
    bad = judged.get("check", {}).get("ok") is False or not all(judged.get(key, True) for key in SAME)
    row = {"name": workload.name + suffix, "title": workload.title + where, "data": data, "bytes": workload.bytes, "flops": workload.flops,
           "ours": dict(ours), "peers": dict(peers), "limit": dict(limit), "best_peer": peer,
           "judged": named,
           "figures": {name: value and round(value, 4) for name, value in figures.items()},
           "intervals": {name: [round(end, 4) for end in ends] for name, ends in intervals.items()},
           "bar": bars.describe(clauses), "pass": False if bad and clauses else verdict,
           "close": not bad and bars.close(clauses, figures, intervals)}
    if copy_bandwidth:
        shares = {name: workload.bytes / (entry["us"] * 1e-6) / copy_bandwidth
                  for name, entry in {**ours, **peers}.items() if entry.get("us")}
        row["bandwidth"] = {name: round(share, 4) for name, share in shares.items()}
        row["copy_bandwidth"] = copy_bandwidth
        row["limit"]["bytes_us"] = round(workload.bytes / copy_bandwidth * 1e6, 3)
    return row


class Runner:
    """Measures workloads on the first GPU; `kernels` are those of limits.cu or None, `copied` the copy of bandwidth.py.

    `beside` holds what other processes found out: by row, then by contender of ours, entries to add (`launched`,
    `dram`); and by row, under "xla", XLA's whole entry.
    """

    def __init__(self, torch, settings: Settings, manifest: Mapping, kernels, beside: Mapping[str, Mapping[str, dict]],
                 copied, say: Callable[[str], None]):
        self._torch, self._settings, self._manifest, self._kernels = torch, settings, manifest, kernels
        self._beside, self._copy, self._say = beside, copied, say
        self._cache = gpu.describe(torch)["cache_bytes"] or 64 << 20

    def rows(self, workload: Workload) -> list[dict]:
        """Measures a workload's row, and the further ones where the data fits the cache; gives the memory back.
        Raises FusionError when the run's time is up."""
        budget = self._settings.budget
        if budget.is_over():
            raise FusionError(f"not measured: {budget.seconds:g} s had passed")
        budget.begin_row()
        try:
            return self._rows(workload)
        finally:
            gc.collect()
            self._torch.cuda.empty_cache()

    def _rows(self, workload: Workload) -> list[dict]:
        torch = self._torch
        sets = [[gpu.make_input(torch, t) for t in workload.inputs]
                for _ in range(timing.copies_for(workload.bytes, self._cache))]
        weights = gpu.make_weights(torch, workload)
        oracle = gpu.Oracle(torch, workload, sets[0], weights)
        contenders: dict[str, Contender] = {}
        ours, opened = self._open_modules(workload, sets, oracle, contenders)
        peers = self._open_peers(workload, sets, weights, oracle, contenders)
        bounds, facts = self._open_limits(workload, sets, weights, oracle, contenders)
        if any(bar.figure == "bandwidth" for clause in workload.bars for bar in clause):
            contenders[COPY] = self._copy.contender
        del oracle
        gc.collect()
        torch.cuda.empty_cache()
        rounds = self._settings.rounds
        timed = {"cold": timing.interleave(contenders, timing.clocks_for(torch), rounds)}
        same: dict[str, bool] = {}
        if timing.fits(workload.bytes, self._cache):
            contenders.pop(COPY, None)
            timed["warm"] = timing.interleave(timing.first_alone(contenders), timing.clocks_for(torch), rounds)
            first = self._settings.variants[0]
            if first in contenders and not contenders[first].blocking and timed["warm"][first].us < SHORT_US:
                repeated, same = self._repeat(workload, contenders, opened)
                timed["repeated"] = timing.interleave(repeated, timing.clocks_for(torch), rounds) if repeated else {}
        for name, (module, bits) in opened.items():
            after = module.results(0, [t.name for t in workload.results])
            ours[name]["stable"] = all(torch.equal(a, b) for a, b in zip(bits, after))
        rows = []
        for data, times in timed.items():
            mine = copy.deepcopy(ours)
            for name in same if data == "repeated" else ():
                mine[name]["same_repeated"] = same[name]
            row = self._finish(workload, data, mine, copy.deepcopy(peers), bounds, facts, times, "repeated" in timed)
            row["sets"] = len(sets) if data == "cold" else 1
            rows.append(row)
        return rows

    def _repeat(self, workload, contenders, opened) -> tuple[dict[str, Contender], dict[str, bool]]:
        """What can be captured, REPEATS times in one graph, on the first buffers; whether ours gave the same bits."""
        torch = self._torch
        result: dict[str, Contender] = {}
        same: dict[str, bool] = {}
        for name, contender in contenders.items():
            if contender.blocking or contender.host:
                continue
            try:
                replay = gpu.repeat(torch, contender.launches[0], REPEATS)
                if name in opened:
                    module, bits = opened[name]
                    module.poison()
                    replay()
                    torch.cuda.synchronize()
                    after = module.results(0, [t.name for t in workload.results])
                    same[name] = all(torch.equal(a, b) for a, b in zip(bits, after))
            except (FusionError, runtime.FusionError, RuntimeError) as error:
                self._say(f"{workload.name}: {name} in one graph: {table.first_line(error)}")
                continue
            result[name] = Contender([replay], repeats=REPEATS)
        return result, same

    def _finish(self, workload, data, ours, peers, bounds, facts, times, short) -> dict:
        """A row of what was said, into which goes what was timed."""
        for name, taken in times.items():
            entry = ours.get(name) or peers.get(name)
            if entry is not None:
                entry.update(taken.as_json())
        for name, found in self._beside.get(workload.name, {}).items():
            if name == "xla":
                peers[name] = xla.entry_of(found, data != "cold")
            elif name in ours:
                ours[name].update(found)
        fastest, us = timing.best({name: times[name].us for name in bounds if name in times})
        limit: dict = {"name": fastest, "us": round(us, 3), "launched": bounds[fastest], **facts} if us else {}
        if len(bounds) > 1 and times:
            limit["all"] = {name: round(times[name].us, 3) for name in bounds if name in times}
        # What is in the cache has no business with the memory's bandwidth.
        bandwidth = None if data != "cold" else self._copy.ways[self._copy.best]
        return assemble(workload, ours, peers, limit, times, bandwidth, self._copy.bytes, data, short)

    def _open_modules(self, workload, sets, oracle, contenders):
        ours: dict[str, dict] = {}
        opened: dict = {}
        names = [t.name for t in workload.inputs]
        order = [t.name for t in workload.results]
        for variant in self._settings.variants:
            tuned = variant == modules.TUNED
            if tuned and not workload.flops:
                continue  # no library is called
            name = modules.module_name(workload, self._settings.variants[0] if tuned else variant)
            made = self._manifest["modules"].get(name, {})
            entry = ours[variant] = {key: made[key] for key in ("command", "seconds", "sha256") if key in made}
            entry["module"] = name
            path = os.path.join(self._settings.folder, name)
            try:
                if not os.path.isfile(path):
                    raise FusionError(made.get("error", f"{name} is not in the modules' folder"))
                entry["sha256"] = modules.check_hash(self._settings.folder, name, self._manifest)
                module = OpenModule(self._torch, path, sets, names, **({"autotune": True} if tuned else {}))
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
        """Each peer op by op and, as NAME+graph, replayed as one graph."""
        peers: dict[str, dict] = {}
        budget = self._settings.budget
        if "torch" not in self._settings.peers:
            return peers
        for name in ("eager", "inductor"):
            queued, replayed = peers[name], peers[name + GRAPH] = {"clock": "queued"}, {"clock": "device"}
            try:
                if name == "eager":
                    peer = gpu.eager(self._torch, workload, weights, sets)
                elif not budget.may_compile():
                    raise FusionError(f"not compiled: the other rows need what is left of {budget.seconds:g} s")
                else:
                    peer, seconds = gpu.inductor(self._torch, workload, weights, sets)
                    queued["compile_s"] = replayed["compile_s"] = round(seconds, 2)
                peer.launches[0]()
                self._torch.cuda.synchronize()
                queued["check"] = replayed["check"] = oracle.check(peer.results[0])
                replayed["launched"] = peer.launches[0].nodes
                contenders[name] = Contender(peer.calls, host=True)
                contenders[name + GRAPH] = Contender(peer.launches)
            except Exception as error:  # noqa: BLE001 - torch.compile raises what it likes
                queued["error"] = replayed["error"] = table.first_line(error)
        return peers

    def _open_limits(self, workload, sets, weights, oracle, contenders) -> tuple[dict[str, Optional[dict]], dict]:
        """The kernels and copies of each launch that may bound the row, by name; what is known about them."""
        names: dict[str, Optional[dict]] = {}
        try:
            bounds = limits.limits_of(workload, self._kernels, self._torch)
        except (FusionError, RuntimeError) as error:
            self._say(f"{workload.name}: no limit: {table.first_line(error)}")
            return names, {}
        for name, prepare in bounds.factories.items():
            try:
                make, launches, outputs = prepare(weights), [], None
                for index, inputs in enumerate(sets):
                    launch, out = make(inputs)
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
            names[name] = launches[0].nodes
        return names, bounds.facts


def write_json(path: str, document: Mapping) -> None:
    """Replaces the file at once."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
        file.write("\n")
    os.replace(path + ".new", path)


def exit_code(rows: Sequence[Mapping]) -> int:
    """1 if a result of ours was wrong or changed, else 4 if a module could not be had or run, else 0."""
    entries = [entry for row in rows for entry in row["ours"].values()]
    if any(entry.get("check", {}).get("ok") is False or not all(entry.get(key, True) for key in SAME)
           for entry in entries):
        return 1
    return 4 if any("error" in entry for entry in entries) or any("error" in row for row in rows) else 0


def run_rows(workloads: Sequence[Workload], measure: Callable[[Workload], list[dict]], document: dict,
             output: Optional[str], say: Callable[[str], None]) -> None:
    """Measures all workloads into `document["rows"]`, saying each row and writing the file after each workload."""
    for workload in workloads:
        begin = time.monotonic()
        try:
            rows = measure(workload)
        except Exception as error:  # noqa: BLE001 - out of memory on the device, say
            say(f"{workload.name:<28} error: {table.first_line(error)}")
            rows = [{**assemble(workload, {}, {}, {}, {}, None), "error": table.first_line(error)}]
        seconds = round(time.monotonic() - begin, 1)
        for row in rows:
            row["seconds"] = seconds
            document["rows"].append(row)
            if "error" not in row:
                say(table.line(row) + f" | {seconds} s")
            for problem in table.errors(row):
                say(f"  {problem}")
        if output:
            write_json(output, document)

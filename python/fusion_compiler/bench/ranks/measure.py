# ===- measure.py - Measures rows on several GPUs ----------------------------=== #
#
# All contenders of a row are opened first (jobs start side by side), then take turns, in an
# order that is new in every round; a turn is a few timed replays, its time the median of
# them on the slowest rank. Results of ours are checked after they were timed, on what the
# last replay left. What fails is that contender's error; the row goes on.
#
# ===----------------------------------------------------------------------=== #
"""Runs rows: opens, times in turn, checks, judges."""

from __future__ import annotations

import concurrent.futures
import os
import shutil
import tempfile
import time
from dataclasses import dataclass, field
from typing import Callable, Mapping, Optional, Sequence

import numpy as np

from ...errors import FusionError
from ...ir.module import bits16_to_float
from ..timing import Times, median, orders
from . import job, judge
from .peers import command as peers_command
from .compile import module_name
from .inputs import Files
from .job import Job
from .programs import Input
from .rows import PEER, SLOW, Row, Variant

#: What keeps NCCL from the GPUs' own link.
SLOW_ENVIRONMENT = {"NCCL_P2P_DISABLE": "1"}
#: Seconds for a peer to be built: torch.compile takes half a minute.
OPEN_S = 180.0


@dataclass
class Settings:
    """What a run is asked for."""

    modules: str  # folder
    manifest: Mapping
    runner: str  # fusion-run
    ranks: int = 2
    rounds: int = 11
    count: int = 5  # timed replays of a turn
    peers: bool = True
    together: int = 6  # jobs that start side by side
    replays: int = 0  # at least so many of what bars judge, before its result is checked
    deadline: float = float("inf")  # of time.monotonic()
    options: Sequence[str] = ()  # of fusion-run
    peer_command: Callable[[int, Sequence[str], str], list[str]] = peers_command
    say: Callable[[str], None] = print


@dataclass
class _Open:
    """What is open for a row."""

    ours: dict[str, Job] = field(default_factory=dict)
    peer: Optional[Job] = None
    contenders: dict[str, Callable[[], float]] = field(default_factory=dict)
    entries: dict[str, dict] = field(default_factory=dict)

    def close_ours(self) -> None:
        """Ends our jobs, side by side, and keeps what they had to say."""
        for each in self.ours.values():
            each.release()
        for name, each in self.ours.items():
            each.close()
            if said := each.notes():
                self.entries[name]["notes"] = said
        self.ours.clear()

    def close(self) -> None:
        self.close_ours()
        if self.peer:
            self.peer.close()


def _about(peer: Optional[Job]) -> dict:
    """The GPU and versions, from a peer that is open."""
    try:
        answer = peer.ask("about")[0] if peer else {}
    except FusionError:
        answer = {}
    return {key: value for key, value in answer.items() if key != "error"}


def _why(name: str, error: FusionError) -> str:
    """An error without the name of the job in front, which stands beside it."""
    return str(error).removeprefix(f"{name}: ")


def _inputs(entry: Mapping) -> list[Input]:
    return [Input(**{**x, "shape": tuple(x["shape"])}) for x in entry["inputs"]]


class Runner:
    """Measures rows; input files go to `folder` while a row needs them."""

    def __init__(self, settings: Settings, folder: str):
        self._settings, self._folder = settings, folder

    def row(self, row: Row) -> dict:
        """The row's part of the JSON file."""
        settings, begin = self._settings, time.monotonic()
        result: dict = {"name": row.name, "title": row.title, "kind": row.kind, "link": row.link}
        if begin > settings.deadline:
            return {**result, "error": "not measured: the time is up"}
        data = tempfile.mkdtemp(prefix="inputs-", dir=self._folder)
        opened = _Open()
        about: dict = {}
        try:
            files = Files(data)
            self._open(row, files, opened)
            opening = round(time.monotonic() - begin, 1)
            about = _about(opened.peer)
            rounds = self._turns(opened)
            wrong = []
            for variant in row.ours:
                if variant.name in opened.ours and rounds.get(variant.name):
                    check = self._check(row, variant, opened.ours[variant.name], files, data)
                    if check:
                        opened.entries[variant.name]["check"] = check
                        wrong += [] if check["ok"] else [variant.name]
            rounds.update(self._apart(row, opened))
        finally:
            opened.close()
            shutil.rmtree(data, ignore_errors=True)
        for name, values in rounds.items():
            times = Times(list(values))
            opened.entries[name].update(us=round(times.us, 2), rounds=[round(v, 2) for v in values])
        names = [v.name for v in row.ours]
        result["environment"] = about
        result.update(judge.judge(row, rounds, wrong))
        result.update(ours={name: opened.entries[name] for name in names},
                      peers={name[len(PEER):]: entry for name, entry in opened.entries.items() if name.startswith(PEER)},
                      opening_s=opening, seconds=round(time.monotonic() - begin, 1))
        return result

    def _environment(self, row: Row) -> dict[str, str]:
        return dict(SLOW_ENVIRONMENT) if row.link == SLOW else {}

    def _open(self, row: Row, files: Files, opened: _Open) -> None:
        settings = self._settings
        builder = concurrent.futures.ThreadPoolExecutor(1)  # torch.compile takes longest
        if settings.peers and row.peers:
            words = row.peer_set.split()
            from ..worker import environment
            opened.peer = Job("peers", lambda path: settings.peer_command(settings.ranks, words, path), settings.ranks,
                              {**environment(), **self._environment(row)})
            building = builder.submit(self._build_peers, row.peers, opened.peer)
        waiting: list[tuple[Variant, Job]] = []

        def connect_first() -> None:
            variant, started = waiting.pop(0)
            entry = opened.entries[variant.name]
            try:
                started.connect()
                entry["start_s"] = round(started.start_s, 1)
                opened.ours[variant.name] = started
                opened.contenders[variant.name] = lambda: started.time(settings.count)
            except FusionError as error:
                entry["error"] = _why(variant.name, error)
                settings.say(f"  {error}")

        for variant in row.ours:
            made = settings.manifest["modules"].get(module_name(row, variant), {"error": "not among the modules"})
            entry = opened.entries[variant.name] = {
                key: made[key] for key in ("command", "predicted_us", "sent_bytes", "error", "sha256") if key in made}
            if "error" in entry:
                continue
            while len(waiting) >= settings.together:
                connect_first()
            words = [*files.words(_inputs(made), variant.ranks), *settings.options]
            path = os.path.join(settings.modules, module_name(row, variant))
            waiting.append((variant, job.ours(variant.name, settings.runner, path, variant.ranks, words,
                                              self._environment(row))))
        while waiting:
            connect_first()
        if opened.peer:
            turns, entries = building.result()
            opened.contenders.update(turns)
            opened.entries.update(entries)

    def _build_peers(self, names: Sequence[str],
                     peer: Job) -> tuple[dict[str, Callable[[], float]], dict[str, dict]]:
        """Contenders of the peers, and entries, that say which could not be had."""
        settings = self._settings
        contenders: dict[str, Callable[[], float]] = {}
        entries: dict[str, dict] = {PEER + name: {} for name in names}
        try:
            if not peer.connected:
                peer.connect()
            for name in names:
                answers = peer.ask(f"open {name}", OPEN_S)
                error = next((a["error"] for a in answers if "error" in a), None)
                if error:
                    entries[PEER + name]["error"] = error
                    settings.say(f"  {PEER}{name}: {error}")
                    continue
                entries[PEER + name]["open_s"] = answers[0].get("seconds")

                def turn(name=name) -> float:
                    answers = peer.ask(f"time {name} {settings.count}")
                    error = next((a["error"] for a in answers if "error" in a), None)
                    if error:
                        raise FusionError(error)
                    entries[PEER + name]["clock"] = "host" if answers[0].get("host") else "device"
                    return max(median(answer["us"]) for answer in answers)

                contenders[PEER + name] = turn
        except FusionError as error:
            settings.say(f"  {error}")
            for entry in entries.values():
                entry.setdefault("error", str(error))
            contenders.clear()
        return contenders, entries

    def _apart(self, row: Row, opened: _Open) -> dict[str, list[float]]:
        """Times of the peers that wait until all others have given their memory back."""
        if not opened.peer or not row.apart or time.monotonic() > self._settings.deadline:
            return {}
        opened.close_ours()
        try:
            opened.peer.ask("close")
        except FusionError as error:
            opened.entries.update({PEER + name: {"error": str(error)} for name in row.apart})
            return {}
        opened.contenders, entries = self._build_peers(row.apart, opened.peer)
        opened.entries.update(entries)
        return self._turns(opened)

    def _turns(self, opened: _Open) -> dict[str, list[float]]:
        """Microseconds of each round, by contender that went through all of them."""
        settings, contenders = self._settings, dict(opened.contenders)
        rounds: dict[str, list[float]] = {name: [] for name in contenders}
        if not contenders:
            return {}
        # A first turn that does not count: clocks, caches, lazy loading.
        for number, order in enumerate([list(contenders), *orders(list(contenders), settings.rounds)]):
            if number > 3 and time.monotonic() > settings.deadline:
                settings.say(f"  {number - 1} rounds, then the time was up")
                break
            for name in order:
                if name not in contenders:
                    continue
                try:
                    us = contenders[name]()
                    if number:
                        rounds[name].append(us)
                except FusionError as error:
                    opened.entries[name]["error"] = _why(name, error)
                    settings.say(f"  {name}: {_why(name, error)}")
                    contenders.pop(name)
                    rounds.pop(name)
        return {name: values for name, values in rounds.items() if values}

    def _check(self, row: Row, variant: Variant, opened: Job, files: Files, data: str) -> Optional[dict]:
        """Whether what the last replay left is right; None where nothing is known."""
        made = self._settings.manifest["modules"][module_name(row, variant)]
        inputs = {x.name: x for x in _inputs(made)}
        folder = os.path.join(data, "outputs")
        try:
            if row.kind == "behind" and variant.name.startswith("both"):
                least = self._settings.replays if variant.name in row.judged else 0
                return check_sums(opened, inputs, files, folder, variant.ranks, least)
            if row.kind == "gather" and variant.name.startswith(("both", "serial")):
                return check_product(opened, inputs, files, folder, variant.ranks)
            if row.kind == "train" and "loss" in made["results"]:
                return check_loss(opened, folder, variant.ranks)
        except FusionError as error:
            return {"ok": False, "why": str(error)}
        except OSError as error:
            return {"ok": False, "why": f"no outputs: {error}"}
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return None


def _read(folder: str, rank: int, ranks: int, name: str) -> np.ndarray:
    return np.load(os.path.join(folder, f"rank{rank}" if ranks > 1 else "", name + ".npy"))


def check_sums(opened: Job, inputs: Mapping[str, Input], files: Files, folder: str, ranks: int, least: int) -> dict:
    """Each replay adds the sum over the ranks of -g to p, in integers: after k replays each element of each parameter
    on each rank is its first value + k times that sum, with one k, exactly. At least `least` replays are made."""
    replays, wrong, elements = 0, 0, 0
    while True:
        opened.ask(f"write {folder} p0.next", 300)
        replays = _replays(_read(folder, 0, ranks, "p0.next"), inputs, files, ranks)
        if replays >= least:
            break
        opened.ask(f"time {max(1, (least - replays + 1) // 2)}", 600)
    opened.ask(f"write {folder}", 300)
    for name in (n for n in inputs if n.startswith("p")):
        start, step = files.array(inputs[name]), _sum(name, inputs, files, ranks)
        for rank in range(ranks):
            wrong += int(np.count_nonzero(_read(folder, rank, ranks, name + ".next") != start + np.float32(replays) * step))
            elements += start.size
    return {"ok": wrong == 0 and replays >= least, "replays": replays, "elements": elements, "wrong": wrong}


def _sum(name: str, inputs: Mapping[str, Input], files: Files, ranks: int) -> np.ndarray:
    gradient = inputs["g" + name[1:]]
    return -sum(bits16_to_float(files.array(gradient, rank)) for rank in range(ranks))


def _replays(after: np.ndarray, inputs: Mapping[str, Input], files: Files, ranks: int) -> int:
    step = _sum("p0", inputs, files, ranks)
    at = int(np.flatnonzero(step)[0])
    return int(round(float((after[at] - files.array(inputs["p0"])[at]) / step[at])))


def check_product(opened: Job, inputs: Mapping[str, Input], files: Files, folder: str, ranks: int) -> dict:
    """A few rows of each rank's part of the gathered matrix, times the weights, in f64."""
    opened.ask(f"write {folder} y", 300)
    weights = bits16_to_float(files.array(inputs["w"])).astype(np.float64)
    shard = inputs["a"].shape[0]
    worst = 0.0
    for rank in range(ranks):
        got = bits16_to_float(_read(folder, rank, ranks, "y"))
        for source in range(ranks):
            part = bits16_to_float(files.array(inputs["a"], source)).astype(np.float64)
            for line in (0, shard // 2, shard - 1):
                want = part[line] @ weights
                error = np.linalg.norm(got[source * shard + line] - want) / np.linalg.norm(want)
                worst = max(worst, float(error) if error == error else float("inf"))
    return {"ok": worst <= 1e-2, "relative_norm": worst}


def check_loss(opened: Job, folder: str, ranks: int) -> dict:
    """The loss of the last replay: a finite number, the same on all ranks up to what each saw of the batch."""
    opened.ask(f"write {folder} loss", 300)
    losses = [float(_read(folder, rank, ranks, "loss")) for rank in range(ranks)]
    return {"ok": all(np.isfinite(losses)), "loss": losses}

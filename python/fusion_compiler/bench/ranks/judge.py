# ===- judge.py - Figures of rows, and how bars judge them -------------------=== #
#
# Contenders took turns, so a figure is made in every round from neighbours in time; it is
# the median of these, with the interval that holds it with 95 % confidence. Where a figure
# speaks of the fastest of several contenders, that is the one with the smallest median.
#
# ===----------------------------------------------------------------------=== #
"""Figures of rows on several GPUs."""

from __future__ import annotations

from typing import Callable, Iterable, Mapping, Optional, Sequence

from ..timing import interval, median
from .rows import PEER, Row

#: Microseconds of each round, by contender: ours by the variant's name, a peer's with PEER before its name.
Rounds = Mapping[str, Sequence[float]]
#: How the names of steps with a clip start: of replicated state, and of state that ranks hold parts of.
CLIPPED = ("clip.", "clip shard.")


def fastest(rounds: Rounds, names: Iterable[str]) -> Optional[str]:
    """The one of the names that was measured and has the smallest median."""
    known = [name for name in names if rounds.get(name)]
    return min(known, key=lambda name: median(rounds[name])) if known else None


def figure(formula: Callable[..., float], rounds: Rounds, *names: Optional[str]) -> Optional[dict]:
    """`formula` of the contenders' times in each round: its median and interval; None if one was not measured."""
    if any(name is None or not rounds.get(name) for name in names):
        return None
    values = [formula(*times) for times in zip(*(rounds[name] for name in names))]
    low, high = interval(values)
    return {"value": round(median(values), 4), "low": round(low, 4), "high": round(high, 4), "of": list(names)}


def _ratio(a: float, b: float) -> float:
    return a / b


def _hidden(both: float, alone: float, sent: float) -> float:
    return 1 - (both - alone) / sent


def _starting(rounds: Rounds, start: str) -> list[str]:
    return [name for name in rounds if name.startswith(start)]


def _behind(row: Row, rounds: Rounds, judged: Optional[str]) -> dict:
    sent = fastest(rounds, [*_starting(rounds, "reductions."), PEER + "all_reduce", PEER + "copy engine"])
    result = {"hidden": figure(_hidden, rounds, judged, "products", sent)}
    for name in _starting(rounds, "both."):
        result[f"hidden {name}"] = figure(_hidden, rounds, name, "products", sent)
    for name in ("all_reduce", "copy engine"):
        result[f"hidden {PEER}{name}"] = figure(_hidden, rounds, f"{PEER}{name} beside", PEER + "products", sent)
    return result


def _gather(row: Row, rounds: Rounds, judged: Optional[str]) -> dict:
    serial = fastest(rounds, ["serial.nccl", PEER + "serial"])
    product = fastest(rounds, ["product", PEER + "product"])
    return {"of_serial": figure(_ratio, rounds, judged, serial), "speedup": figure(_ratio, rounds, serial, judged),
            "of_product": figure(_ratio, rounds, judged, product)}


def _train(row: Row, rounds: Rounds, judged: Optional[str]) -> dict:
    clip = fastest(rounds, [name for start in CLIPPED for name in _starting(rounds, start)])
    ddp = fastest(rounds, [name for name in _starting(rounds, PEER + "ddp") if name.endswith("+graph")])
    return {"of_one": figure(_ratio, rounds, judged, "one"), "of_ddp": figure(_ratio, rounds, judged, ddp),
            "of_unclipped": figure(_ratio, rounds, clip, judged),
            "of_bound": figure(lambda step, one, wire: step / max(one, wire), rounds, judged, "one", "wire"),
            "of_unfused": figure(_ratio, rounds, "unfused", judged),
            "overlap nccl": figure(_ratio, rounds, "in line.nccl", "dp.nccl"),
            "overlap peer": figure(_ratio, rounds, "in line.peer", "dp.peer")}


def judge(row: Row, rounds: Rounds, wrong: Sequence[str] = ()) -> dict:
    """Figures, bars and the verdict of a row: True if all bars hold, False if one can't or what they judge gave a
    wrong result, None if a figure is missing."""
    judged = fastest(rounds, row.judged)
    make = {"behind": _behind, "gather": _gather, "train": _train}.get(row.kind)
    figures = {name: value for name, value in (make(row, rounds, judged) if make else {}).items() if value}
    bars = []
    for bar in row.bars:
        found = figures.get(bar.figure)
        holds = bar.holds(found["value"], (found["low"], found["high"])) if found else None
        bars.append({"bar": str(bar), "value": found["value"] if found else None, "pass": holds})
    answers = [bar["pass"] for bar in bars]
    verdict = None if not bars else False if False in answers else None if None in answers else True
    # A bar on a clip speaks of another program than the others.
    clipped = figures.get("of_unclipped", {}).get("of", [None])[0]
    if bars and (judged in wrong or clipped in wrong):
        verdict = False
    return {"judged": judged, "figures": figures, "bars": bars, "pass": verdict}

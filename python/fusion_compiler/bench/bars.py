# ===- bars.py - What a row must reach -------------------------------------=== #
#
# A row's bars are clauses that all must hold; a clause is a list of alternatives of
# which one must. An alternative compares one figure of the row with a number: a ratio
# of times is the median over interleaved rounds. A figure that was not measured leaves
# its alternative open, never passed. Where the interval of a figure reaches over its
# bar, so that another run may judge otherwise, the verdict is close.
#
# ===----------------------------------------------------------------------=== #
"""Bars of a suite and how rows are judged by them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, Optional, Sequence

_TEXT = {
    "speedup": ">= {:g}x the best peer",
    "of_peer": "<= {:g} of the best peer's time",
    "of_limit": "<= {:g} of the limit's time",
    "bandwidth": ">= {:g} of copy bandwidth",
    "dram": "DRAM bytes within {:g} of inputs + outputs",
}
_AT_LEAST = ("speedup", "bandwidth")


@dataclass(frozen=True)
class Bar:
    """One comparison: `figure` of a row against `value`."""

    figure: str
    value: float

    @staticmethod
    def speedup(value: float) -> "Bar":
        """The best peer's time over ours, at least."""
        return Bar("speedup", value)

    @staticmethod
    def of_peer(value: float) -> "Bar":
        """Our time over the best peer's, at most."""
        return Bar("of_peer", value)

    @staticmethod
    def of_limit(value: float) -> "Bar":
        """Our time over that of the row's limit, at most."""
        return Bar("of_limit", value)

    @staticmethod
    def bandwidth(value: float) -> "Bar":
        """Bytes over our time, as a share of the measured copy bandwidth, at least."""
        return Bar("bandwidth", value)

    @staticmethod
    def dram(value: float) -> "Bar":
        """Bytes that cross the DRAM's pins over those of the inputs and outputs: how far from 1, at most."""
        return Bar("dram", value)

    def __str__(self) -> str:
        return _TEXT[self.figure].format(self.value)

    def holds(self, figures: Mapping[str, Optional[float]]) -> Optional[bool]:
        """None if the figure was not measured."""
        measured = figures.get(self.figure)
        if measured is None or measured != measured:
            return None
        if self.figure == "dram":
            return abs(measured - 1) <= self.value
        return measured >= self.value if self.figure in _AT_LEAST else measured <= self.value


def describe(clauses: Sequence[Sequence[Bar]]) -> str:
    return "; ".join(" or ".join(map(str, clause)) for clause in clauses)


def judge(clauses: Sequence[Sequence[Bar]], figures: Mapping[str, Optional[float]]) -> Optional[bool]:
    """True: all clauses hold. False: one can't, whatever else is measured. None: a figure is missing."""
    verdict: Optional[bool] = True
    for clause in clauses:
        answers = [bar.holds(figures) for bar in clause]
        if any(answers):
            continue
        if None not in answers:
            return False
        verdict = None
    return verdict


def close(clauses: Sequence[Sequence[Bar]], figures: Mapping[str, Optional[float]],
          intervals: Mapping[str, tuple[float, float]]) -> bool:
    """Whether the verdict is another with a figure at either end of its interval."""
    verdict = judge(clauses, figures)
    return any(judge(clauses, {**figures, name: end}) is not verdict
               for name, ends in intervals.items() for end in ends)


def figures(ours: Optional[float], best_peer: Optional[float], limit: Optional[float], transferred: float,
            copy_bandwidth: Optional[float]) -> dict[str, Optional[float]]:
    """The figures bars speak of: times in microseconds, `transferred` in bytes, bandwidth in bytes a second."""
    result: dict[str, Optional[float]] = dict.fromkeys(_TEXT)
    if not ours:
        return result
    if best_peer:
        result["speedup"], result["of_peer"] = best_peer / ours, ours / best_peer
    if limit:
        result["of_limit"] = ours / limit
    if copy_bandwidth:
        result["bandwidth"] = transferred / (ours * 1e-6) / copy_bandwidth
    return result

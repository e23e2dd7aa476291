# ===- timing.py - Contenders that take turns ------------------------------=== #
#
# Each contender repeats one piece of work; a contender holds several copies of it on
# different buffers, so that the data of one repetition has left the cache when its
# turn comes again, the same number for every contender of a row. Short batches of
# repetitions are timed on the device, contenders taking turns in an order that is new
# in every round, so that neither a drift of the clocks nor what ran just before (a
# large product lowers the clock for its successor) favours one of them.
#
# ===----------------------------------------------------------------------=== #
"""Interleaved timing and its statistics."""

from __future__ import annotations

import math
import random
import time
from dataclasses import dataclass, field, replace
from typing import Callable, Mapping, Optional, Protocol, Sequence

#: A batch lasts about this long, in microseconds.
BATCH_US = 2000.0
MAX_REPETITIONS = 256


class Clock(Protocol):
    """Times `count` calls that go through `launches` in turn, in microseconds a call."""

    def batch(self, launches: Sequence[Callable[[], None]], count: int) -> float: ...


@dataclass
class Contender:
    """Work to be timed: `launches` do the same on different buffers.

    A `blocking` one waits for the device itself. One with `host` is queued op by op: the host's time is part of it.
    A launch does the work `repeats` times; times are those of one.
    """

    launches: Sequence[Callable[[], None]]
    blocking: bool = False
    host: bool = False
    repeats: int = 1


def percentile(values: Sequence[float], fraction: float) -> float:
    """Linear interpolation between the two nearest ranks."""
    ordered = sorted(values)
    position = fraction * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (position - low) * (ordered[high] - ordered[low])


def median(values: Sequence[float]) -> float:
    return percentile(values, 0.5)


@dataclass
class Times:
    """What one contender took: microseconds a repetition, one entry a round."""

    rounds: list[float] = field(default_factory=list)
    repetitions: int = 0

    @property
    def us(self) -> float:
        return median(self.rounds)

    def as_json(self) -> dict:
        return {"us": round(self.us, 3), "p10_us": round(percentile(self.rounds, 0.1), 3),
                "p90_us": round(percentile(self.rounds, 0.9), 3), "rounds": len(self.rounds),
                "repetitions": self.repetitions}


#: The share of intervals that hold what they are an interval of.
CONFIDENCE = 0.95


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Where the median of what `values` are drawn from lies with CONFIDENCE, whatever its distribution.

    By ranks: that the k lowest of n are all there is below the median has the odds of k heads of n coins. Fewer than
    six values do not carry the confidence; their range is given.
    """
    ordered, n = sorted(values), len(values)
    outside, cut = 0.0, 0  # odds that fewer than `cut` values lie below the median
    while True:
        outside += math.comb(n, cut) / 2.0**n
        if 2 * outside > 1 - CONFIDENCE:
            break
        cut += 1
    low = max(cut - 1, 0)
    return ordered[low], ordered[n - 1 - low]


@dataclass(frozen=True)
class Ratio:
    """The median over the rounds of one contender's time over another's: neighbours in time are compared."""

    median: float
    low: float
    high: float

    @staticmethod
    def of(above: Times, below: Times) -> "Ratio":
        values = [a / b for a, b in zip(above.rounds, below.rounds)]
        return Ratio(median(values), *interval(values))

    def scaled(self, factor: float) -> "Ratio":
        return Ratio(self.median * factor, self.low * factor, self.high * factor)


def copies_for(transferred: int, cache_bytes: int, most: int = 16) -> int:
    """How many copies of a working set fill the cache three times over."""
    return max(1, min(most, math.ceil(3 * cache_bytes / max(1, transferred))))


def fits(transferred: int, cache_bytes: int) -> bool:
    """Whether a working set stays in a cache: half of it, for what lies between the ops and lines held twice."""
    return 2 * transferred <= cache_bytes


def first_alone(contenders: Mapping[str, Contender]) -> dict[str, Contender]:
    """The contenders on their first buffers, again and again: where those fit the cache they are found there."""
    return {name: replace(contender, launches=contender.launches[:1]) for name, contender in contenders.items()}


def repetitions(us: float, copies: int) -> int:
    """Repetitions of a batch: each copy equally often, BATCH_US together or a little more, and never two in a row of
    what takes longer than half of that."""
    wanted = min(MAX_REPETITIONS, max(1, math.floor(BATCH_US / max(us, 1e-3))))
    return math.ceil(wanted / copies) * copies


def orders(names: Sequence[str], rounds: int) -> list[list[str]]:
    """An order for each round: shuffled, always the same for the same names; nothing follows itself."""
    generator, result = random.Random(1), []
    last = None
    for _ in range(rounds):
        order = list(names)
        generator.shuffle(order)
        if len(order) > 1 and order[0] == last:
            order[0], order[1] = order[1], order[0]
        last = order[-1]
        result.append(order)
    return result


def interleave(contenders: Mapping[str, Contender], clocks: Callable[[Contender], Clock],
               rounds: int) -> dict[str, Times]:
    """Times all contenders in turn, `rounds` times."""
    result: dict[str, Times] = {}
    for name, contender in contenders.items():
        copies = len(contender.launches)
        clock = clocks(contender)
        clock.batch(contender.launches, copies)  # everything is loaded and warm
        result[name] = Times(repetitions=repetitions(clock.batch(contender.launches, copies), copies))
    for order in orders(list(contenders), rounds):
        for name in order:
            contender = contenders[name]
            times = result[name]
            each = clocks(contender).batch(contender.launches, times.repetitions)
            times.rounds.append(each / contender.repeats)
    return result


class HostClock:
    """For work that returns when it is done."""

    def batch(self, launches: Sequence[Callable[[], None]], count: int) -> float:
        begin = time.perf_counter()
        for i in range(count):
            launches[i % len(launches)]()
        return (time.perf_counter() - begin) * 1e6 / count


class DeviceClock:
    """Device time by two events on PyTorch's current stream.

    A kernel that spins goes first and lasts until all repetitions are queued, so that the time of the host, which
    differs between contenders, is not in it. Without `spin` it is, wherever the host is the slower of the two.
    """

    _CYCLES_PER_US = 2000  # a little above the highest clock of the GPUs this meets

    def __init__(self, torch, spin: bool = True):
        self._torch, self._spin = torch, spin
        self._host_us: dict[int, float] = {}

    def batch(self, launches: Sequence[Callable[[], None]], count: int) -> float:
        cuda = self._torch.cuda
        begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        # The first batch of a contender finds out how long queueing one takes.
        key = id(launches)
        spin_us = min(20000.0, 1.5 * self._host_us.get(key, 20.0) * count + 20)
        cuda.synchronize()
        if self._spin:
            cuda._sleep(int(spin_us * self._CYCLES_PER_US))
        begin.record()
        start = time.perf_counter()
        for i in range(count):
            launches[i % len(launches)]()
        queued = (time.perf_counter() - start) * 1e6 / count
        end.record()
        end.synchronize()
        self._host_us[key] = min(queued, self._host_us.get(key, math.inf))
        return begin.elapsed_time(end) * 1e3 / count


def clocks_for(torch) -> Callable[[Contender], Clock]:
    """A device clock for what is queued, with the host's time in it or not; a host clock for what blocks."""
    device, queued, host = DeviceClock(torch), DeviceClock(torch, spin=False), HostClock()
    return lambda contender: host if contender.blocking else queued if contender.host else device


def best(times: Mapping[str, Optional[float]]) -> tuple[Optional[str], Optional[float]]:
    """The name and time of the fastest that has one."""
    known = {name: us for name, us in times.items() if us}
    if not known:
        return None, None
    name = min(known, key=known.__getitem__)
    return name, known[name]

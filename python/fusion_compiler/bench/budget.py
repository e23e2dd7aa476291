# ===- budget.py - The time that a whole run may take -----------------------=== #
#
# Rows come last and matter most, so what is measured before them gets what they leave.
# When rows turn out slow, torch.compile is left out of the rest; when the time is up,
# so are the rows themselves, which then say so.
#
# ===----------------------------------------------------------------------=== #
"""What is left of a run's time."""

from __future__ import annotations

import time
from typing import Callable

#: Seconds that a row takes, with torch.compile and without, about, on one H200.
ROW_S, BARE_ROW_S = 4.0, 2.5
#: Seconds for what is made once: PyTorch's compiler loaded, the copies timed, tables written.
ONCE_S = 20.0
#: With less, a process of its own gets nowhere.
LEAST_S = 10.0


class Budget:
    """`seconds` for a run of `rows` workloads, from now on."""

    def __init__(self, seconds: float, rows: int, clock: Callable[[], float] = time.monotonic):
        self.seconds, self._rows, self._clock = seconds, rows, clock
        self._started = clock()

    def passed(self) -> float:
        return self._clock() - self._started

    def left(self) -> float:
        return self.seconds - self.passed()

    def before_rows(self, most: float) -> float:
        """Seconds, at most `most`, that something before the rows may take; 0 if it had better not begin."""
        given = min(most, self.left() - ONCE_S - ROW_S * self._rows)
        return given if given >= LEAST_S else 0.0

    def begin_row(self) -> None:
        self._rows -= 1

    def may_compile(self) -> bool:
        """Whether the row that has begun can have torch.compile, so that those behind it are still measured."""
        return self.left() >= ROW_S + BARE_ROW_S * self._rows

    def is_over(self) -> bool:
        return self.left() <= 0

# ===- bandwidth.py - The copy that bandwidth is measured against ----------=== #
#
# A copy of 1 GiB of random data in several ways; the fastest takes turns with the
# contenders of every row that is judged by bandwidth, so that the two see the same
# clocks and the same neighbours on the memory.
#
# ===----------------------------------------------------------------------=== #
"""Copy bandwidth."""

from __future__ import annotations

from typing import Callable, Optional

from ..errors import ENVIRONMENT, FusionError
from . import gpu
from .limits import Kernels
from .timing import Contender, DeviceClock, interleave

#: Bytes that are copied.
SIZE = 1 << 30
_ROUNDS = 15


class Copy:
    """The fastest copy; `contender` repeats it. `ways`: bytes a second, read and written together, of each way."""

    def __init__(self, torch, kernels: Optional[Kernels]):
        size = SIZE
        self.source = torch.randint(-(1 << 62), 1 << 62, (size // 8,), device="cuda")
        self.target = torch.empty_like(self.source)
        source, target = self.source, self.target
        self.bytes = 2 * size
        launches: dict[str, Callable[[], object]] = {
            "torch": lambda: target.copy_(source),  # the driver's own choice, which in a graph is another
            "torch in a graph": gpu.capture(torch, lambda: target.copy_(source))}
        if kernels is not None:
            launches["kernel"] = gpu.capture(torch, lambda: kernels.copy(source, target))
            launches["kernel, resident"] = gpu.capture(torch, lambda: kernels.copy_on(kernels.units, source, target))
        for name, launch in launches.items():
            target.zero_()
            launch()
            if not torch.equal(source, target):
                raise FusionError(f"the copy by {name} copied wrong bytes, in limits.cubin, compile limits.cu for "
                                  "this GPU", ENVIRONMENT)
        clock = DeviceClock(torch)
        times = interleave({name: Contender([launch]) for name, launch in launches.items()}, lambda _c: clock, _ROUNDS)
        self.ways = {name: self.bytes / (taken.us * 1e-6) for name, taken in times.items()}
        self.best = max(self.ways, key=self.ways.__getitem__)
        self.contender = Contender([launches[self.best]])

    def as_json(self) -> dict:
        return {**self.ways, "best": self.ways[self.best], "by": self.best}

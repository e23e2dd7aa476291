# ===- window.py - Geometry of convolutions and pools --------------------=== #
#
# Kernel, strides, dilations and pads of a node, with auto_pad and ceil_mode
# resolved to numbers.
#
# ===----------------------------------------------------------------------=== #
"""Strides, dilations and pads of a windowed node."""

from __future__ import annotations

from dataclasses import dataclass

from ....ir.module import Value
from ..context import NodeContext
from ..failure import BadNode, Unsupported

AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


@dataclass
class Window:
    """One entry a spatial dimension in each list; `extra` is what ceil_mode adds behind `high`."""

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    low: list[int]
    high: list[int]
    extra: list[int]
    sizes: list[int]

    @property
    def padded(self) -> bool:
        return any(self.low) or any(self.high)

    def attrs(self) -> dict:
        """The attributes that conv and the pools share, `extra` included in pad_high."""
        high = [h + e for h, e in zip(self.high, self.extra)]
        return dict(strides=self.strides, dilations=self.dilations, pad_low=self.low, pad_high=high)

    def output(self) -> list[int]:
        """Spatial sizes of the result."""
        return [
            (size + low + high + extra - dilation * (kernel - 1) - 1) // stride + 1
            for size, low, high, extra, dilation, kernel, stride in zip(
                self.sizes, self.low, self.high, self.extra, self.dilations, self.kernel, self.strides
            )
        ]


def entries(c: NodeContext, name: str, count: int, default: int, least: int) -> list[int]:
    """A list attribute with one entry a spatial dimension."""
    values = c.ints(name)
    values = [default] * count if values is None else values
    if len(values) != count:
        raise BadNode(f"attribute '{name}' has {len(values)} entries, {count} are needed")
    if any(v < least for v in values):
        raise BadNode(f"attribute '{name}' has an entry below {least}")
    return values


def spatial_rank(c: NodeContext, x: Value) -> int:
    """1 to 3 spatial dimensions behind batch and channels."""
    if x.rank < 3:
        raise BadNode(f"its input has rank {x.rank}, at least 3 is needed")
    if x.rank > 5:
        raise Unsupported(f"{x.rank - 2} spatial dimensions; 1 to 3 are")
    c.static(x, dims=range(1, x.rank))
    return x.rank - 2


def window(c: NodeContext, x: Value, kernel: list[int]) -> Window:
    """The geometry of a conv or pool over x."""
    count = spatial_rank(c, x)
    sizes = [int(s) for s in x.shape[2:]]
    if len(kernel) != count or any(k < 1 for k in kernel):
        raise BadNode(f"the window {kernel} doesn't fit {count} spatial dimensions")
    strides = entries(c, "strides", count, 1, 1)
    dilations = entries(c, "dilations", count, 1, 1)
    auto = c.choice("auto_pad", "NOTSET", AUTO_PADS)
    pads = c.ints("pads") or [0] * (2 * count)
    if len(pads) != 2 * count:
        raise BadNode(f"attribute 'pads' has {len(pads)} entries, {2 * count} are needed")
    low, high = pads[:count], pads[count:]
    if auto != "NOTSET":
        low, high = [0] * count, [0] * count
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        for d in range(count):
            steps = -(-sizes[d] // strides[d])
            total = max((steps - 1) * strides[d] + dilations[d] * (kernel[d] - 1) + 1 - sizes[d], 0)
            low[d] = total // 2 if auto == "SAME_UPPER" else total - total // 2
            high[d] = total - low[d]
    result = Window(kernel, strides, dilations, low, high, [0] * count, sizes)
    if c.int("ceil_mode") and auto not in ("SAME_UPPER", "SAME_LOWER"):
        _round_up(result)
    return result


def _round_up(w: Window) -> None:
    """Pads behind the input until the last, partial window counts too; one that would
    start in that padding doesn't."""
    for d, size in enumerate(w.sizes):
        span = size + w.low[d] + w.high[d] - w.dilations[d] * (w.kernel[d] - 1) - 1
        steps = -(-span // w.strides[d]) + 1
        if (steps - 1) * w.strides[d] >= size + w.low[d]:
            steps -= 1
        w.extra[d] = max((steps - 1) * w.strides[d] - span, 0)


def check_fits(w: Window) -> None:
    """Each spatial result size is at least 1."""
    if min(w.output()) < 1:
        raise BadNode(f"the window {w.kernel} is larger than the padded input {w.sizes}")


def crop(c: NodeContext, x: Value, w: Window) -> Value:
    """Negative pads cut the input: cuts it, and leaves pads that aren't negative."""
    if all(p >= 0 for p in w.low + w.high):
        return x
    starts, limits = [None] * x.rank, [None] * x.rank
    for d, size in enumerate(w.sizes):
        begin, end = max(-w.low[d], 0), size - max(-w.high[d], 0)
        if begin >= end:
            raise BadNode("negative pads cut the whole input")
        starts[d + 2], limits[d + 2] = begin, end
        w.sizes[d] = end - begin
        w.low[d], w.high[d] = max(w.low[d], 0), max(w.high[d], 0)
    return c.b.slice(x, starts, limits)

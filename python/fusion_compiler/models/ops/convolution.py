# ===- convolution.py - Convolutions and pools ----------------------------=== #
#
# Images are [N, C, spatial...]. A convolution's gradient with respect to its input is
# a transposed convolution; with respect to its weights it is a convolution of the input
# by the output's gradient with batch and channels exchanged, where strides and
# dilations change places.
#
# ===----------------------------------------------------------------------=== #
"""Convolutions and pools with gradients."""

from __future__ import annotations

from typing import Optional, Sequence

from ...ir.builder import Builder
from ...ir.module import Value
from ..tape import Tape
from .elementwise import cast, number


def _windowed_size(size: int, window: int, stride: int, low: int, high: int, dilation: int) -> int:
    return (size + low + high - dilation * (window - 1) - 1) // stride + 1


def _conv(b: Builder, x: Value, w: Value, strides, low, high, dilations, groups: int) -> Value:
    sizes = [
        _windowed_size(*entry) for entry in zip(x.shape[2:], w.shape[2:], strides, low, high, dilations, strict=True)
    ]
    return b.windowed("conv", [x, w], [x.shape[0], w.shape[0], *sizes], strides=list(strides), pad_low=list(low),
                      pad_high=list(high), dilations=list(dilations), groups=groups)


def _swap_groups(b: Builder, x: Value, groups: int, channels_first: bool) -> Value:
    """[N, G C, ...] as [C, G N, ...], or as [G C, N, ...] with `channels_first`."""
    n, channels = x.shape[0], x.shape[1] // groups
    rest = list(range(3, x.rank + 1))
    split = b.reshape(x, (n, groups, channels, *x.shape[2:]))
    if channels_first:
        return b.reshape(b.transpose(split, [1, 2, 0, *rest]), (groups * channels, n, *x.shape[2:]))
    return b.reshape(b.transpose(split, [2, 1, 0, *rest]), (channels, groups * n, *x.shape[2:]))


def _weight_grad(b: Builder, x: Value, g: Value, w: Value, strides, low, dilations, groups: int) -> Value:
    """For each group: x as [C, N, in...] convolved by g as [O, N, out...]: [C, O, window...]."""
    high, limits = [], []
    for size, out, window, stride, before, dilation in zip(x.shape[2:], g.shape[2:], w.shape[2:], strides, low,
                                                           dilations, strict=True):
        # What the last window reaches: padding behind the input, or less than all of it.
        reach = stride * (out - 1) + dilation * (window - 1) + 1 - before
        high.append(max(reach - size, 0))
        limits.append(min(reach, size))
    if tuple(limits) != x.shape[2:]:
        x = b.slice(x, [0] * x.rank, [*x.shape[:2], *limits])
    image, kernel = _swap_groups(b, x, groups, False), _swap_groups(b, g, groups, True)
    swapped = _conv(b, image, kernel, dilations, low, high, strides, groups)
    return b.transpose(swapped, [1, 0, *range(2, w.rank)])


def _input_grad(b: Builder, g: Value, w: Value, x: Value, strides, low, high, dilations, groups: int) -> Value:
    """A transposed convolution that ends where x does."""
    rest = []
    for size, out, window, stride, before, after, dilation in zip(x.shape[2:], g.shape[2:], w.shape[2:], strides, low,
                                                                  high, dilations, strict=True):
        rest.append(size + before + after - (stride * (out - 1) + dilation * (window - 1) + 1))
    return b.windowed("conv_transpose", [g, w], x.shape, strides=list(strides), pad_low=list(low), pad_high=list(high),
                      output_padding=rest, dilations=list(dilations), groups=groups)


def conv(t: Tape, x: Value, w: Value, strides: Optional[Sequence[int]] = None, low: Optional[Sequence[int]] = None,
         high: Optional[Sequence[int]] = None, dilations: Optional[Sequence[int]] = None, groups: int = 1) -> Value:
    """x [N, C, in...] by w [O, C / groups, window...]; pads default to 0, strides and dilations to 1."""
    b, spatial = t.b, x.rank - 2
    strides, dilations = strides or [1] * spatial, dilations or [1] * spatial
    low = low or [0] * spatial
    high = high if high is not None else low
    w = cast(t, w, x.dtype)
    out = _conv(b, x, w, strides, low, high, dilations, groups)

    def backward(g: Value):
        dx = _input_grad(b, g, w, x, strides, low, high, dilations, groups) if t.needs(x) else None
        return [dx, _weight_grad(b, x, g, w, strides, low, dilations, groups) if t.needs(w) else None]

    t.record([out], [x, w], backward)
    return out


def _pool(b: Builder, name: str, x: Value, attributes) -> Value:
    lists = (attributes[n] for n in ("window", "strides", "pad_low", "pad_high", "dilations"))
    sizes = [_windowed_size(*entry) for entry in zip(x.shape[2:], *lists)]
    return b.windowed(name, [x], [*x.shape[:2], *sizes], **attributes)


def _pool_attributes(x: Value, window, strides, low, high) -> dict[str, list[int]]:
    spatial = x.rank - 2
    low = list(low) if low else [0] * spatial
    return {"window": list(window), "strides": list(strides or window), "pad_low": low,
            "pad_high": list(high) if high is not None else low, "dilations": [1] * spatial}


def max_pool(t: Tape, x: Value, window: Sequence[int], strides: Optional[Sequence[int]] = None,
             low: Optional[Sequence[int]] = None, high: Optional[Sequence[int]] = None) -> Value:
    """The largest element of each window; the first of equals gets the gradient. Strides default to the window."""
    attributes = _pool_attributes(x, window, strides, low, high)
    out = _pool(t.b, "max_pool", x, attributes)
    t.record([out], [x], lambda g: [t.b.windowed("max_pool_grad", [x, g], x.shape, **attributes)])
    return out


def avg_pool(t: Tape, x: Value, window: Sequence[int], strides: Optional[Sequence[int]] = None,
             low: Optional[Sequence[int]] = None, high: Optional[Sequence[int]] = None) -> Value:
    """The mean of each window, padding counted (`count_include_pad`). Strides default to the window."""
    b = t.b
    attributes = _pool_attributes(x, window, strides, low, high)
    out = _pool(b, "avg_pool", x, {**attributes, "count_include_pad": True})

    def backward(g: Value):
        """Each window hands an equal share to its elements."""
        volume = 1
        for size in window:
            volume *= size
        share = b.binary("mul", g, number(b, 1 / volume, g))
        if all(size == 1 for size in g.shape[2:]) and tuple(window) == x.shape[2:]:
            return [b.broadcast(share, x.shape)]
        ones = b.splat(1.0, x.dtype, (x.shape[1], 1, *window))
        return [_input_grad(b, share, ones, x, attributes["strides"], attributes["pad_low"], attributes["pad_high"],
                            attributes["dilations"], x.shape[1])]

    t.record([out], [x], backward)
    return out

# ===- convolution.py - Convolutions and pools ----------------------------=== #
#
# Images are [N, spatial..., C]: as libraries want them, and the statistics of a
# channel are sums of columns. A convolution's gradient with respect to its input is a
# transposed convolution; with respect to its weights it is a convolution of the input
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

_LISTS = ("strides", "pad_low", "pad_high", "dilations")


def _windowed_size(size: int, window: int, stride: int, low: int, high: int, dilation: int) -> int:
    return (size + low + high - dilation * (window - 1) - 1) // stride + 1


def _sizes(x: Value, window: Sequence[int], attributes) -> list[int]:
    lists = (attributes[name] for name in _LISTS)
    return [_windowed_size(*entry) for entry in zip(x.shape[1:-1], window, *lists, strict=True)]


def _conv(b: Builder, x: Value, w: Value, attributes) -> Value:
    shape = [x.shape[0], *_sizes(x, w.shape[2:], attributes), w.shape[0]]
    return b.windowed("conv", [x, w], shape, layout="nhwc", **attributes)


def _weight_grad(b: Builder, x: Value, g: Value, w: Value, attributes) -> Value:
    """For each group: x as [C, in..., N] convolved by g as [O, N, out...]: [C, window..., O]."""
    groups, spatial = attributes["groups"], list(range(1, x.rank - 1))
    high, limits = [], []
    for size, out, window, stride, before, _, dilation in zip(x.shape[1:-1], g.shape[1:-1], w.shape[2:],
                                                              *(attributes[name] for name in _LISTS), strict=True):
        # What the last window reaches: padding behind the input, or less than all of it.
        reach = stride * (out - 1) + dilation * (window - 1) + 1 - before
        high.append(max(reach - size, 0))
        limits.append(min(reach, size))
    x = b.slice(x, [0] * x.rank, [x.shape[0], *limits, x.shape[-1]])
    n, channels = x.shape[0], x.shape[-1] // groups
    split = b.reshape(x, (n, *limits, groups, channels))
    last = split.rank - 1
    image = b.reshape(b.transpose(split, [last, *spatial, last - 1, 0]), (channels, *limits, groups * n))
    kernel = b.transpose(g, [g.rank - 1, 0, *spatial])
    exchanged = {"strides": attributes["dilations"], "pad_low": attributes["pad_low"], "pad_high": high,
                 "dilations": attributes["strides"], "groups": groups}
    return b.transpose(_conv(b, image, kernel, exchanged), [w.rank - 1, 0, *spatial])


def _input_grad(b: Builder, g: Value, w: Value, x: Value, attributes) -> Value:
    """A transposed convolution that ends where x does."""
    rest = []
    for size, out, window, stride, before, after, dilation in zip(x.shape[1:-1], g.shape[1:-1], w.shape[2:],
                                                                  *(attributes[name] for name in _LISTS), strict=True):
        rest.append(size + before + after - (stride * (out - 1) + dilation * (window - 1) + 1))
    return b.windowed("conv_transpose", [g, w], x.shape, layout="nhwc", output_padding=rest, **attributes)


def conv(t: Tape, x: Value, w: Value, strides: Optional[Sequence[int]] = None, low: Optional[Sequence[int]] = None,
         high: Optional[Sequence[int]] = None, dilations: Optional[Sequence[int]] = None, groups: int = 1) -> Value:
    """x [N, in..., C] by w [O, C / groups, window...]; pads default to 0, strides and dilations to 1."""
    b, spatial = t.b, x.rank - 2
    low = list(low or [0] * spatial)
    attributes = {"strides": list(strides or [1] * spatial), "pad_low": low,
                  "pad_high": list(high) if high is not None else low,
                  "dilations": list(dilations or [1] * spatial), "groups": groups}
    w = cast(t, w, x.dtype)
    out = _conv(b, x, w, attributes)

    def backward(g: Value):
        return [_input_grad(b, g, w, x, attributes) if t.needs(x) else None,
                _weight_grad(b, x, g, w, attributes) if t.needs(w) else None]

    t.record([out], [x, w], backward)
    return out


def _pool(b: Builder, name: str, x: Value, attributes) -> Value:
    shape = [x.shape[0], *_sizes(x, attributes["window"], attributes), x.shape[-1]]
    return b.windowed(name, [x], shape, layout="nhwc", **attributes)


def _pool_attributes(x: Value, window, strides, low, high) -> dict[str, list[int]]:
    spatial = x.rank - 2
    low = list(low or [0] * spatial)
    return {"window": list(window), "strides": list(strides or window), "pad_low": low,
            "pad_high": list(high) if high is not None else low, "dilations": [1] * spatial}


def max_pool(t: Tape, x: Value, window: Sequence[int], strides: Optional[Sequence[int]] = None,
             low: Optional[Sequence[int]] = None, high: Optional[Sequence[int]] = None) -> Value:
    """The largest element of each window; the first of equals gets the gradient. Strides default to the window."""
    attributes = _pool_attributes(x, window, strides, low, high)
    out = _pool(t.b, "max_pool", x, attributes)
    t.record([out], [x], lambda g: [
        t.b.windowed("max_pool_grad", [x, g], x.shape, layout="nhwc", **attributes)
    ])
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
        if tuple(window) == x.shape[1:-1] and all(size == 1 for size in g.shape[1:-1]):
            return [b.broadcast(share, x.shape)]
        ones = b.splat(1.0, x.dtype, (x.shape[-1], 1, *window))
        lists = {name: attributes[name] for name in _LISTS}
        return [_input_grad(b, share, ones, x, {**lists, "groups": x.shape[-1]})]

    t.record([out], [x], backward)
    return out

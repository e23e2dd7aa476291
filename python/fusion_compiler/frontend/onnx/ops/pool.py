# ===- pool.py - Pools ----------------------------------------------------=== #
#
# Max, average and Lp pools, their global forms, the indices of a max pool and
# the op that undoes one.
#
# ===----------------------------------------------------------------------=== #
"""Pools of ONNX."""

from __future__ import annotations

import math

import numpy as np

from ....ir.module import FLOATS, Value
from ..context import NodeContext
from ..failure import BadNode, Unsupported
from ..registry import onnx_op
from .window import Window, check_fits, crop, entries, spatial_rank, window


def _window(c: NodeContext, x: Value) -> tuple[Value, Window]:
    w = window(c, x, c.ints("kernel_shape"))
    x = crop(c, x, w)
    check_fits(w)
    return x, w


def _pool(c: NodeContext, name: str, x: Value, w: Window, **attrs) -> Value:
    return c.b.windowed(name, [x], list(x.shape[:2]) + w.output(), window=w.kernel, **w.attrs(), **attrs)


@onnx_op("MaxPool")
def max_pool(c: NodeContext):
    x, w = _window(c, c.need(0))
    for d in range(len(w.kernel)):
        if w.low[d] >= w.dilations[d] * (w.kernel[d] - 1) + 1:
            raise Unsupported("a pad as large as the window")
    result = _pool(c, "max_pool", x, w)
    return [result, _max_indices(c, x, w) if c.wants(1) else None]


def _max_indices(c: NodeContext, x: Value, w: Window) -> Value:
    """Flat position of each window's largest element: an arg_max over the stacked taps of the windows."""
    b = c.b
    sizes, outs, count = w.sizes, w.output(), len(w.kernel)
    lead = c.static(x, dims=[0, 1])
    lowest = -np.inf if x.dtype in FLOATS else np.iinfo(np.int8 if x.dtype == "i8" else np.dtype(x.dtype.replace("i", "int"))).min
    padded = b.pad(x, b.scalar(lowest, x), [0, 0] + w.low, [0, 0] + [h + e for h, e in zip(w.high, w.extra)])
    taps = list(np.ndindex(*w.kernel))
    parts = []
    for tap in taps:
        starts = [t * dilation for t, dilation in zip(tap, w.dilations)]
        limits = [s + (o - 1) * stride + 1 for s, o, stride in zip(starts, outs, w.strides)]
        part = b.slice(padded, [None, None] + starts, [None, None] + limits, [1, 1] + w.strides)
        parts.append(b.reshape(part, list(part.shape) + [1]))
    best = b.arg("arg_max", b.concat(parts, 2 + count), 2 + count)
    # Position = that of the window's corner + that of the tap inside it, in the order of the elements.
    order = list(range(count))
    pitch = [math.prod(sizes[d + 1 :]) for d in order]
    if c.int("storage_order"):
        pitch = [math.prod(sizes[:d]) for d in order]
    offsets = [sum(t * dl * p for t, dl, p in zip(tap, w.dilations, pitch)) for tap in taps]
    corner = np.zeros(outs, dtype=np.int64)
    for d in order:
        steps = (np.arange(outs[d]) * w.strides[d] - w.low[d]) * pitch[d]
        corner += steps.reshape([-1 if i == d else 1 for i in order])
    planes = np.arange(math.prod(lead), dtype=np.int64).reshape(lead + [1] * count) * math.prod(sizes)
    base = b.binary("add", b.constant(planes, "i64"), b.constant(corner, "i64"))
    return b.binary("add", b.gather(b.constant(offsets, "i64"), best, 0), base)


@onnx_op("AveragePool")
def average_pool(c: NodeContext):
    x, w = _window(c, c.need(0))
    include = bool(c.int("count_include_pad"))
    if include and any(w.extra):
        # The elements that ceil_mode adds never count, the pads do: make the pads part of the input.
        x = c.b.pad(x, c.b.scalar(0, x), [0, 0] + w.low, [0, 0] + w.high)
        w.low, w.high, include = [0] * len(w.low), [0] * len(w.high), False
    return _pool(c, "avg_pool", x, w, count_include_pad=include)


def _whole(c: NodeContext, x: Value) -> Window:
    count = spatial_rank(c, x)
    sizes = [int(s) for s in x.shape[2:]]
    if min(sizes) < 1:
        raise Unsupported("a global pool over an empty dimension")
    ones, zeros = [1] * count, [0] * count
    return Window(sizes, ones, ones, zeros, list(zeros), zeros, sizes)


@onnx_op("GlobalAveragePool")
def global_average_pool(c: NodeContext):
    x = c.need(0)
    return _pool(c, "avg_pool", x, _whole(c, x), count_include_pad=False)


@onnx_op("GlobalMaxPool")
def global_max_pool(c: NodeContext):
    x = c.need(0)
    return _pool(c, "max_pool", x, _whole(c, x))


@onnx_op("LpPool")
def lp_pool(c: NodeContext):
    x, w = _window(c, c.need(0))
    return _lp(c, x, w)


@onnx_op("GlobalLpPool")
def global_lp_pool(c: NodeContext):
    x = c.need(0)
    return _lp(c, x, _whole(c, x))


def _lp(c: NodeContext, x: Value, w: Window) -> Value:
    """(sum of |x|^p)^(1/p); padding adds zeros."""
    b, p = c.b, c.int("p", 2)
    powers = b.binary("mul", x, x) if p == 2 else b.unary("abs", x)
    if p not in (1, 2):
        powers = b.binary("pow", powers, b.scalar(p, x))
    powers = b.pad(powers, b.scalar(0, x), [0, 0] + w.low, [0, 0] + [h + e for h, e in zip(w.high, w.extra)])
    zeros = [0] * len(w.kernel)
    plain = Window(w.kernel, w.strides, w.dilations, zeros, zeros, zeros, [int(s) for s in powers.shape[2:]])
    total = b.binary("mul", _pool(c, "avg_pool", powers, plain), b.scalar(math.prod(w.kernel), x))
    if p == 2:
        return b.unary("sqrt", total)
    return total if p == 1 else b.binary("pow", total, b.scalar(1.0 / p, x))


@onnx_op("MaxUnpool")
def max_unpool(c: NodeContext):
    """Puts each element where the max pool's flat index says; zeros elsewhere."""
    b, x, indices = c.b, c.need(0), c.need(1)
    count = spatial_rank(c, x)
    lead = c.static(x, dims=[0, 1])
    kernel = c.ints("kernel_shape")
    strides = entries(c, "strides", count, 1, 1)
    pads = c.ints("pads") or [0] * (2 * count)
    if len(pads) != 2 * count or len(kernel) != count:
        raise BadNode("kernel_shape or pads don't fit the input's rank")
    sizes = [(int(s) - 1) * stride - pads[d] - pads[d + count] + kernel[d]
             for d, (s, stride) in enumerate(zip(x.shape[2:], strides))]
    inferred = lead + sizes
    wanted = inferred if c.input(2) is None else c.static_sizes(2, "output shape")
    if len(wanted) != x.rank or wanted[:2] != lead:
        raise BadNode(f"the output shape {wanted} doesn't fit the input {x!r}")
    if any(w < s for w, s in zip(wanted[2:], sizes)):
        raise BadNode(f"the output shape {wanted} is smaller than {inferred}, which the window makes")
    # The indices count in the shape that the window makes; a larger output has zeros behind it.
    rows = math.prod(lead) * math.prod(int(s) for s in x.shape[2:])
    zeros = b.splat(0, x.dtype, [math.prod(inferred)])
    filled = b.scatter("set", zeros, b.reshape(indices, [rows, 1]), b.reshape(x, [rows]))
    high = [w - s for w, s in zip(wanted, inferred)]
    return b.pad(b.reshape(filled, inferred), b.scalar(0, x), [0] * x.rank, high)

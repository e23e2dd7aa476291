# ===- norms.py - Normalizations ------------------------------------------=== #
#
# The gradients are written in primitives, so that they fuse like any reduction. They
# compute the statistics of a row again from its input: nothing but the input is kept.
#
# ===----------------------------------------------------------------------=== #
"""Normalizations with gradients."""

from __future__ import annotations

from typing import Optional

from ...ir.builder import Builder
from ...ir.module import Value
from ..tape import Tape
from .elementwise import cast, number, wide


def _mean(b: Builder, x: Value) -> Value:
    """The mean of each row, with the row's dimension kept as 1."""
    return b.reduce("mean", x, [x.rank - 1], keep=True)


def _column_sum(b: Builder, x: Value, like: Value) -> Value:
    return b.cast(b.reduce("sum", x, list(range(x.rank - 1))), like.dtype)


def _row_norm(t: Tape, name: str, x: Value, weight: Value, bias: Optional[Value], epsilon: float) -> Value:
    b = t.b
    weight = cast(t, weight, x.dtype)
    bias = cast(t, bias, x.dtype) if bias is not None else None
    out = b.layer_norm(name, x, weight, bias, epsilon, x.rank - 1)

    def backward(g: Value):
        xs, gs = wide(b, t.saved(x)), wide(b, g)
        if name == "layer_norm":
            xs = b.binary("sub", xs, _mean(b, xs))
        variance = _mean(b, b.binary("mul", xs, xs))
        inverse = b.unary("rsqrt", b.binary("add", variance, number(b, epsilon, variance)))
        unit = b.binary("mul", xs, inverse)
        grads: list[Optional[Value]] = [None, None]
        if t.needs(x):
            dunit = b.binary("mul", gs, wide(b, weight))
            # What the statistics take back.
            taken = b.binary("mul", unit, _mean(b, b.binary("mul", dunit, unit)))
            if name == "layer_norm":
                taken = b.binary("add", taken, _mean(b, dunit))
            grads[0] = b.cast(b.binary("mul", inverse, b.binary("sub", dunit, taken)), x.dtype)
        if t.needs(weight):
            grads[1] = _column_sum(b, b.binary("mul", gs, unit), weight)
        if bias is not None:
            grads.append(_column_sum(b, gs, bias) if t.needs(bias) else None)
        return grads

    t.record([out], [x, weight] + ([bias] if bias is not None else []), backward)
    return out


def layer_norm(t: Tape, x: Value, weight: Value, bias: Value, epsilon: float = 1e-5) -> Value:
    """Over the last dimension."""
    return _row_norm(t, "layer_norm", x, weight, bias, epsilon)


def rms_norm(t: Tape, x: Value, weight: Value, epsilon: float = 1e-5) -> Value:
    """Over the last dimension."""
    return _row_norm(t, "rms_norm", x, weight, None, epsilon)


def batch_norm(t: Tape, x: Value, weight: Value, bias: Value, epsilon: float = 1e-5) -> tuple[Value, Value, Value]:
    """Over all dimensions but the last, by the batch's own statistics; also their mean and biased variance.

    weight and bias may be of a wider type than x. The statistics have their type and no gradient.
    """
    b = t.b
    statistics = (weight.dtype, weight.shape)
    out, mean, variance = b.make_many(
        "batch_norm_training", [x, weight, bias], [(x.dtype, x.shape), statistics, statistics],
        epsilon=epsilon, axis=x.rank - 1,
    )
    dims = list(range(x.rank - 1))

    def backward(g: Value, *_):
        xs, gs = wide(b, t.saved(x)), wide(b, g)
        inverse = b.unary("rsqrt", b.binary("add", wide(b, t.saved(variance)), number(b, epsilon, xs)))
        unit = b.binary("mul", b.binary("sub", xs, wide(b, t.saved(mean))), inverse)
        dweight = b.reduce("sum", b.binary("mul", gs, unit), dims)
        dbias = b.reduce("sum", gs, dims)
        dx = None
        if t.needs(x):
            share = number(b, 1 / _rows(x), xs)
            taken = b.binary("mul", unit, b.binary("mul", dweight, share))
            taken = b.binary("add", taken, b.binary("mul", dbias, share))
            factor = b.binary("mul", inverse, wide(b, weight))
            dx = b.cast(b.binary("mul", b.binary("sub", gs, taken), factor), x.dtype)
        return [dx, b.cast(dweight, weight.dtype), b.cast(dbias, bias.dtype)]

    t.record([out, mean, variance], [x, weight, bias], backward)
    return out, mean, variance


def _rows(x: Value) -> int:
    """Number of elements of a channel."""
    count = 1
    for size in x.shape[:-1]:
        count *= size
    return count

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
from ..tape import Tape, after
from .elementwise import cast, number, wide, wide_type


def _mean(b: Builder, x: Value) -> Value:
    """The mean of each row, with the row's dimension kept as 1."""
    return b.reduce("mean", x, [x.rank - 1], keep=True)


def _column_sum(b: Builder, x: Value, like: Value) -> Value:
    return b.cast(b.reduce("sum", x, list(range(x.rank - 1))), like.dtype)


def _statistics(b: Builder, name: str, x: Value, epsilon: float) -> tuple[Optional[Value], Value]:
    """The mean of each row, if `name` takes it away, and the inverse of its deviation."""
    xs = wide(b, x)
    mean = _mean(b, xs) if name == "layer_norm" else None
    centered = xs if mean is None else b.binary("sub", xs, mean)
    variance = _mean(b, b.binary("mul", centered, centered))
    return mean, b.unary("rsqrt", b.binary("add", variance, number(b, epsilon, variance)))


def _row_norm(t: Tape, name: str, x: Value, weight: Value, bias: Optional[Value], epsilon: float) -> Value:
    b = t.b
    weight = cast(t, weight, x.dtype)
    bias = cast(t, bias, x.dtype) if bias is not None else None
    out = b.layer_norm(name, x, weight, bias, epsilon, x.rank - 1)

    def backward(g: Value):
        held = t.saved(x)
        mean, inverse = _statistics(b, name, held, epsilon)

        def unit(x: Value) -> Value:
            xs = wide(b, x)
            return b.binary("mul", xs if mean is None else b.binary("sub", xs, mean), inverse)

        grads: list[Optional[Value]] = [None, None]
        if t.needs(x):
            u, dunit = unit(held), b.binary("mul", wide(b, g), wide(b, weight))
            # What the statistics take back.
            rest = dunit if mean is None else b.binary("sub", dunit, _mean(b, dunit))
            rest = b.binary("sub", rest, b.binary("mul", u, _mean(b, b.binary("mul", dunit, u))))
            grads[0] = b.cast(b.binary("mul", inverse, rest), x.dtype)
        # Sums of columns read x and g themselves: what they share with rows would be written, and wider.
        held, g = after(b, held, inverse), after(b, g, inverse)
        gs = wide(b, g)
        if t.needs(weight):
            grads[1] = _column_sum(b, b.binary("mul", gs, unit(held)), weight)
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

    weight and bias may be of another type than x. The statistics are f32 or f64 and have no gradient.
    """
    b = t.b
    weight, bias = (cast(t, p, wide_type(p)) for p in (weight, bias))
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

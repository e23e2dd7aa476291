# ===- elementwise.py - Elementwise and shape ops -------------------------=== #
#
# Sums, products, casts, activations, reshapes and transposes.
#
# ===----------------------------------------------------------------------=== #
"""Elementwise and shape ops with gradients."""

from __future__ import annotations

import math
from typing import Sequence

from ...ir.builder import Builder
from ...ir.module import Value
from ..tape import Tape


def wide_type(x: Value) -> str:
    """The type that `x` is computed with in several steps: f64, else f32."""
    return "f64" if x.dtype == "f64" else "f32"


def wide(b: Builder, x: Value) -> Value:
    """`x` in its `wide_type`."""
    return b.cast(x, wide_type(x))


def number(b: Builder, value: float, like: Value) -> Value:
    """A scalar constant of `like`'s element type."""
    return b.constant(value, like.dtype)


def add(t: Tape, x: Value, y: Value) -> Value:
    """x + y of one type."""
    out = t.b.binary("add", x, y)
    t.record([out], [x, y], lambda g: [g, g])
    return out


def mul(t: Tape, x: Value, y: Value) -> Value:
    """x * y of one type."""
    out = t.b.binary("mul", x, y)
    t.record([out], [x, y], lambda g: [
        t.b.binary("mul", g, t.saved(y)) if t.needs(x) else None,
        t.b.binary("mul", g, t.saved(x)) if t.needs(y) else None,
    ])
    return out


def scale(t: Tape, x: Value, factor: float) -> Value:
    """x times a number."""
    out = t.b.binary("mul", x, number(t.b, factor, x))
    t.record([out], [x], lambda g: [t.b.binary("mul", g, number(t.b, factor, g))])
    return out


def cast(t: Tape, x: Value, dtype: str) -> Value:
    """x in another float type; so is its gradient, on the way back."""
    if x.dtype == dtype:
        return x
    out = t.b.cast(t.fresh(x), dtype)
    t.record([out], [x], lambda g: [t.b.cast(g, x.dtype)])
    return out


def reshape(t: Tape, x: Value, shape: Sequence[int]) -> Value:
    if x.shape == tuple(shape):
        return x
    out = t.b.reshape(x, shape)
    t.record([out], [x], lambda g: [t.b.reshape(g, x.shape)])
    return out


def transpose(t: Tape, x: Value, permutation: Sequence[int]) -> Value:
    out = t.b.transpose(x, permutation)
    inverse = sorted(range(x.rank), key=lambda d: permutation[d])
    t.record([out], [x], lambda g: [t.b.transpose(g, inverse)])
    return out


def _relu_grad(b: Builder, x: Value, g: Value) -> Value:
    """0 where x <= 0; a NaN of x gives 0, as x > 0 says."""
    return b.select(b.compare("gt", x, number(b, 0.0, x)), g, number(b, 0.0, g))


def _sigmoid_terms(b: Builder, x: Value) -> tuple[Value, Value]:
    s = b.unary("sigmoid", x)
    return s, b.binary("sub", number(b, 1.0, x), s)


def _silu_grad(b: Builder, x: Value, g: Value) -> Value:
    """s (1 + x (1 - s)) with s = sigmoid(x)."""
    s, rest = _sigmoid_terms(b, x)
    slope = b.binary("mul", s, b.binary("add", number(b, 1.0, x), b.binary("mul", x, rest)))
    return b.binary("mul", g, slope)


def _gelu_erf_grad(b: Builder, x: Value, g: Value) -> Value:
    """Phi(x) + x phi(x), of the normal distribution and its density."""
    phi = b.unary("exp", b.binary("mul", b.binary("mul", x, x), number(b, -0.5, x)))
    phi = b.binary("mul", phi, number(b, 1 / math.sqrt(2 * math.pi), x))
    cumulative = b.unary("erf", b.binary("mul", x, number(b, math.sqrt(0.5), x)))
    cumulative = b.binary("mul", b.binary("add", cumulative, number(b, 1.0, x)), number(b, 0.5, x))
    return b.binary("mul", g, b.binary("add", cumulative, b.binary("mul", x, phi)))


def _gelu_tanh_grad(b: Builder, x: Value, g: Value) -> Value:
    """With z = 2 sqrt(2 / pi) (x + 0.044715 x^3) and s = sigmoid(z): gelu is x s, its slope s + s (1 - s) x z'.

    Eight ops deep, which is what one kernel may hold.
    """
    root = 2 * math.sqrt(2 / math.pi)
    square = b.binary("mul", x, x)
    linear = b.binary("mul", x, number(b, root, x))

    def plus_cube(factor: float) -> Value:
        return b.binary("add", linear, b.binary("mul", square, b.binary("mul", x, number(b, factor, x))))

    s, rest = _sigmoid_terms(b, plus_cube(0.044715 * root))
    share = b.binary("mul", g, s)
    bent = b.binary("mul", b.binary("mul", share, plus_cube(3 * 0.044715 * root)), rest)
    return b.binary("add", share, bent)


#: Activation by name: the op, its attributes, its gradient from the input.
_ACTIVATIONS = {
    "relu": ("relu", {}, _relu_grad),
    "silu": ("silu", {}, _silu_grad),
    "gelu": ("gelu", {"kind": "erf"}, _gelu_erf_grad),
    "gelu_tanh": ("gelu", {"kind": "tanh"}, _gelu_tanh_grad),
}
ACTIVATIONS = tuple(_ACTIVATIONS)


def activation(t: Tape, name: str, x: Value) -> Value:
    """One of ACTIVATIONS."""
    b = t.b
    op, attributes, gradient = _ACTIVATIONS[name]
    out = b.unary(op, x, **attributes)
    if name == "relu":
        # Of its output, which the next layer keeps anyway.
        t.record([out], [x], lambda g: [gradient(b, t.saved(out), g)])
    else:
        t.record([out], [x], lambda g: [b.cast(gradient(b, wide(b, t.saved(x)), wide(b, g)), x.dtype)])
    return out


def gated(t: Tape, name: str, gate: Value, x: Value) -> Value:
    """One of ACTIVATIONS of `gate`, times x. The activation is computed again for its gradients and not kept."""
    b = t.b
    op, attributes, gradient = _ACTIVATIONS[name]
    out = b.binary("mul", b.unary(op, gate, **attributes), x)

    def backward(g: Value):
        kept = t.saved(gate)
        active = b.unary(op, kept, **attributes)
        slope = b.binary("mul", g, t.saved(x))
        if name == "relu":
            return [gradient(b, active, slope), b.binary("mul", g, active)]
        return [b.cast(gradient(b, wide(b, kept), wide(b, slope)), gate.dtype), b.binary("mul", g, active)]

    t.record([out], [gate, x], backward)
    return out

# ===- attention.py - Attention and rotary positions ----------------------=== #
#
# Attention's gradient is one op, since libraries serve it as one. Rope turns pairs by
# an angle: its gradient turns them back.
#
# ===----------------------------------------------------------------------=== #
"""Attention with gradients."""

from __future__ import annotations

import math

from ...ir.builder import Builder
from ...ir.module import Value
from ..tape import Tape


def attention(t: Tape, q: Value, k: Value, v: Value, causal: bool = True) -> Value:
    """softmax(q k^T / sqrt(depth)) v of q [B, H, S, D], k and v [B, G, S, D]."""
    b = t.b
    attributes = {"scale": 1 / math.sqrt(q.shape[-1]), "causal": causal}
    out = b.make("attention", [q, k, v], q.dtype, q.shape[:-1] + v.shape[-1:], **attributes)

    def backward(g: Value):
        # Where no library computes it, its casts and scaled copies are no matter of the forward pass.
        kept = [t.saved(x) for x in (q, k, v)]
        return b.make_many("attention_grad", [*kept, g], [(x.dtype, x.shape) for x in (q, k, v)], **attributes)

    t.record([out], [q, k, v], backward)
    return out


def rope_tables(b: Builder, positions: int, depth: int, theta: float, dtype: str) -> tuple[Value, Value]:
    """Cosine and sine of position * theta^(-2 i / depth), [positions, depth / 2], rounded once to `dtype`."""
    shape = (positions, depth // 2)
    slope = b.constant(-2 * math.log(theta) / depth, "f64")
    frequency = b.unary("exp", b.binary("mul", b.iota("f64", shape, 1), slope))
    angle = b.binary("mul", b.iota("f64", shape, 0), frequency)
    return b.cast(b.unary("cos", angle), dtype), b.cast(b.unary("sin", angle), dtype)


def rope(t: Tape, x: Value, cosine: Value, sine: Value) -> Value:
    """x [B, H, S, D] with pairs (i, i + D / 2) turned by the angles of the tables."""
    b = t.b
    out = b.make("rope", [x, cosine, sine], x.dtype, x.shape)

    def backward(g: Value):
        return [b.make("rope", [g, cosine, b.unary("neg", sine)], x.dtype, x.shape), None, None]

    t.record([out], [x, cosine, sine], backward)
    return out

# ===- linear.py - Matrix products ----------------------------------------=== #
#
# Products of rank 2 or batched. Both gradients are products that read an operand
# transposed; nothing is moved.
#
# ===----------------------------------------------------------------------=== #
"""Matrix products with gradients."""

from __future__ import annotations

from typing import Optional

from ...ir.module import Value
from ..tape import Tape
from .elementwise import cast, wide


def matmul(t: Tape, x: Value, w: Value, transpose_w: bool = False) -> Value:
    """x w, or x w^T; x and w of one rank."""
    b = t.b
    out = b.matmul(x, w, transpose_b=transpose_w)

    def backward(g: Value):
        dx = b.matmul(g, w, transpose_b=not transpose_w) if t.needs(x) else None
        dw = None
        if t.needs(w):
            dw = b.matmul(g, x, transpose_a=True) if transpose_w else b.matmul(x, g, transpose_a=True)
        return [dx, dw]

    t.record([out], [x, w], backward)
    return out


def add_bias(t: Tape, x: Value, bias: Value) -> Value:
    """x + bias along the last dimension; the bias's gradient sums in f32 at least."""
    b = t.b
    out = b.binary("add", x, bias)

    def backward(g: Value):
        total = b.reduce("sum", wide(b, g), list(range(g.rank - 1))) if t.needs(bias) else None
        return [g, b.cast(total, bias.dtype) if total is not None else None]

    t.record([out], [x, bias], backward)
    return out


def linear(t: Tape, x: Value, w: Value, bias: Optional[Value] = None) -> Value:
    """x [rows, in] by w [in, out] plus bias [out], in x's type."""
    out = matmul(t, x, cast(t, w, x.dtype))
    return out if bias is None else add_bias(t, out, cast(t, bias, x.dtype))

# ===- embedding.py - Tables of vectors -----------------------------------=== #
#
# Rows of a table by index, and learned positions. The table's gradient adds rows in
# f32 at least: many small gradients of one token would vanish in a narrow sum.
#
# ===----------------------------------------------------------------------=== #
"""Embeddings with gradients."""

from __future__ import annotations

from ...ir.module import Value
from ..tape import AddTo, Tape
from .elementwise import wide, wide_type


def embedding(t: Tape, table: Value, tokens: Value, dtype: str) -> Value:
    """Rows of table [V, D] at tokens [rows], as [rows, D] of `dtype`."""
    b = t.b
    out = b.cast(b.gather(table, tokens, 0), dtype)

    def backward(g: Value):
        def add_rows(base):
            rows = b.cast(g, wide_type(table))
            base = b.splat(0, rows.dtype, table.shape) if base is None else b.cast(base, rows.dtype)
            indices = b.reshape(tokens, tokens.shape + (1,))
            return b.cast(b.scatter("add", base, indices, rows), table.dtype)

        return [AddTo(add_rows), None]

    t.record([out], [table, tokens], backward)
    return out


def add_positions(t: Tape, x: Value, table: Value) -> Value:
    """x [B, S, D] plus row s of table [S, D] at each position s."""
    b = t.b
    out = b.binary("add", x, b.cast(table, x.dtype))
    t.record([out], [x, table], lambda g: [g, b.cast(b.reduce("sum", wide(b, g), [0]), table.dtype)])
    return out

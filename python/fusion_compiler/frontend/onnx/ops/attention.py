# ===- attention.py - Attention and rotary embeddings ---------------------=== #
#
# Attention and RotaryEmbedding of opset 23 on, where they are what the dialect's
# ops compute. Anything else (softcap, windows, padded caches) is left to the body
# that ONNX defines the op by.
#
# ===----------------------------------------------------------------------=== #
"""Attention ops of ONNX."""

from __future__ import annotations

import math
from typing import Optional

import numpy as np

from ....ir.module import Value
from ..context import NodeContext
from ..failure import BadNode
from ..registry import onnx_op


def _heads(c: NodeContext, x: Value, name: str) -> Value:
    """[N, S, heads * D] as [N, heads, S, D]."""
    if x.rank == 4:
        return x
    if x.rank != 3:
        raise BadNode(f"{x!r} has neither rank 3 nor 4")
    heads = c.int(name)
    if heads < 1 or x.shape[2] % heads:
        raise BadNode(f"attribute '{name}' is {heads} for {x!r}")
    parts = c.b.reshape(x, [x.shape[0], x.shape[1], heads, x.shape[2] // heads])
    return c.b.transpose(parts, [0, 2, 1, 3])


def _additive_mask(c: NodeContext, mask: Value, q: Value, k: Value) -> tuple[Value, Optional[Value]]:
    """The mask as something to add, broadcast to rank 4; for a boolean one also which rows attend to nothing."""
    b = c.b
    rows, columns = q.shape[2], k.shape[2]
    if mask.shape[-1] != columns and isinstance(columns, int) and isinstance(mask.shape[-1], int):
        short = columns - mask.shape[-1]
        if short < 0:
            raise BadNode(f"the mask {mask!r} is longer than the {columns} keys")
        value = b.constant(False, "i1") if mask.dtype == "i1" else b.constant(-np.inf, mask.dtype)
        mask = b.pad(mask, value, [0] * mask.rank, [0] * (mask.rank - 1) + [short])
    mask = b.reshape(mask, [1] * (4 - mask.rank) + list(mask.shape))
    mask = b.broadcast(mask, list(mask.shape[:2]) + [rows, columns])
    if mask.dtype != "i1":
        return mask, None
    nothing = b.unary("not", b.reduce("max", mask, [3], keep=True))
    return b.select(mask, b.constant(0, q.dtype), b.constant(-np.inf, q.dtype)), nothing


@onnx_op("Attention", since=23)
def attention(c: NodeContext):
    b = c.b
    plain = c.float("softcap") == 0 and not c.wants(3) and c.input(6) is None and not c.has("softmax_precision")
    windows = c.int("left_window_size", -1) >= 0 or c.int("right_window_size", -1) >= 0
    if not plain or windows:
        return NotImplemented
    q = _heads(c, c.need(0), "q_num_heads")
    k, v = (_heads(c, c.need(i), "kv_num_heads") for i in (1, 2))
    offset = 0
    if c.input(4) is not None and c.input(5) is not None:
        offset = c.static(c.need(4), dims=[2])[0]
        k, v = b.concat([c.need(4), k], 2), b.concat([c.need(5), v], 2)
    rows, columns = c.static(q, dims=[2])[0], c.static(k, dims=[2])[0]
    if q.shape[1] % k.shape[1] or q.dtype != k.dtype or q.dtype != v.dtype:
        return NotImplemented
    scale = c.float("scale") if c.has("scale") else 1 / math.sqrt(c.static(q, dims=[3])[0])
    mask = nothing = None
    if c.input(3) is not None:
        mask, nothing = _additive_mask(c, c.need(3), q, k)
        if mask.dtype != q.dtype or nothing is not None and c.int("is_causal"):
            return NotImplemented
    causal = bool(c.int("is_causal"))
    if causal and offset != columns - rows:
        # The dialect aligns the causal mask at the last key, ONNX behind the cached ones.
        hidden = np.where(np.arange(columns) > np.arange(rows)[:, None] + offset, -np.inf, 0.0)[None, None]
        extra = b.constant(hidden, q.dtype)
        mask, causal = (extra if mask is None else b.binary("add", mask, extra)), False
    shape = [q.shape[0], q.shape[1], rows, v.shape[3]]
    operands = [q, k, v] + ([mask] if mask is not None else [])
    result = b.make("attention", operands, q.dtype, shape, scale=scale, causal=causal, mask=mask is not None)
    if nothing is not None:
        empty = b.broadcast(nothing, shape) if nothing.shape[3] == 1 else nothing
        result = b.select(empty, b.splat(0, q.dtype, shape), result)
    if c.need(0).rank == 3:
        result = b.reshape(b.transpose(result, [0, 2, 1, 3]), [shape[0], rows, shape[1] * shape[3]])
    return [result, k if c.wants(1) else None, v if c.wants(2) else None]


@onnx_op("RotaryEmbedding", since=23)
def rotary_embedding(c: NodeContext):
    """One table of angles for all of the batch is what the dialect's op takes."""
    b = c.b
    x = _heads(c, c.need(0), "num_heads")
    depth = c.static(x, dims=[3])[0]
    rotated = c.int("rotary_embedding_dim") or depth
    positions = c.input(3)
    tables = []
    for index in (1, 2):
        table = c.need(index)
        if positions is None:
            if table.rank != 3 or table.shape[0] != 1:
                return NotImplemented
            table = b.reshape(table, table.shape[1:])
        else:
            if not positions.constant or positions.data.size == 0 or (positions.data != positions.data[:1]).any():
                return NotImplemented
            table = b.gather(table, b.constant(positions.data[0], "i64"), 0)
        tables.append(table)
    if tables[0].shape != (x.shape[2], rotated // 2) or tables[0].shape != tables[1].shape:
        raise BadNode(f"the tables {tables[0]!r} and {tables[1]!r} don't fit {x!r}")
    turned = b.slice_dim(x, 3, 0, rotated)
    result = b.make("rope", [turned] + tables, x.dtype, turned.shape, interleaved=bool(c.int("interleaved")))
    if rotated < depth:
        result = b.concat([result, b.slice_dim(x, 3, rotated, depth)], 3)
    if c.need(0).rank == 3:
        result = b.reshape(b.transpose(result, [0, 2, 1, 3]), c.need(0).shape)
    return result

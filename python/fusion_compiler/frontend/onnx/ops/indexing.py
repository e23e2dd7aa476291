# ===- indexing.py - Gather and scatter -----------------------------------=== #
#
# The Gather and Scatter ops and OneHot. ONNX counts negative indices from the end;
# the dialect doesn't, so they are normalized here: at import when they are known.
#
# ===----------------------------------------------------------------------=== #
"""Indexing ops of ONNX."""

from __future__ import annotations

import numpy as np

from ....ir.affine import Affine, Size, product
from ....ir.module import Value
from ..context import NodeContext
from ..failure import BadNode, Unsupported
from ..registry import onnx_op


def normalized(c: NodeContext, indices: Value, size: Size) -> Value:
    """Indices in [-size, size) as ones in [0, size). Known ones are checked."""
    b = c.b
    if isinstance(size, Affine):
        raise Unsupported("indices along the batch dimension")
    if indices.constant:
        numbers = indices.data.astype(np.int64)
        if numbers.size and (numbers.min() < -size or numbers.max() >= size):
            raise BadNode(f"an index is outside of [{-size}, {size - 1}]")
        return b.constant(np.where(numbers < 0, numbers + size, numbers), indices.dtype)
    negative = b.compare("lt", indices, b.scalar(0, indices))
    return b.select(negative, b.binary("add", indices, b.constant(size, indices.dtype)), indices)


@onnx_op("Gather")
def gather(c: NodeContext):
    x = c.need(0)
    axis = c.axis(c.int("axis"), x.rank)
    return c.b.gather(x, normalized(c, c.need(1), x.shape[axis]), axis)


@onnx_op("GatherElements")
def gather_elements(c: NodeContext):
    """Rows along the axis, each with its own indices: a gather whose batch is all other dimensions."""
    b, x, indices = c.b, c.need(0), c.need(1)
    if x.rank != indices.rank or not x.rank:
        raise BadNode(f"{x!r} and indices {indices!r} have different ranks, or rank 0")
    axis = c.axis(c.int("axis"), x.rank)
    indices = normalized(c, indices, x.shape[axis])
    limits = [None if i == axis or x.shape[i] == s else s for i, s in enumerate(indices.shape)]
    x = b.slice(x, [None] * x.rank, limits)
    moved = [i for i in range(x.rank) if i != axis] + [axis]
    rows = product(indices.shape[i] for i in moved[:-1])
    count = indices.shape[axis]
    flat = b.reshape(b.transpose(x, moved), [rows, x.shape[axis]])
    chosen = b.reshape(b.transpose(indices, moved), [rows, count])
    result = b.reshape(b.gather(flat, chosen, 1, 1), [indices.shape[i] for i in moved])
    return b.transpose(result, [moved.index(i) for i in range(x.rank)])


def _normalized_vectors(c: NodeContext, indices: Value, sizes: list[int]) -> Value:
    """Index vectors with an entry for each of the sizes."""
    b = c.b
    if indices.constant:
        numbers = indices.data.astype(np.int64)
        bounds = np.array(sizes, dtype=np.int64)
        if numbers.size and ((numbers < -bounds) | (numbers >= bounds)).any():
            raise BadNode(f"an index is outside of the sizes {sizes}")
        return b.constant(np.where(numbers < 0, numbers + bounds, numbers), indices.dtype)
    bounds = b.broadcast(b.constant(sizes, indices.dtype), indices.shape)
    negative = b.compare("lt", indices, b.scalar(0, indices))
    return b.select(negative, b.binary("add", indices, bounds), indices)


def _vector_sizes(c: NodeContext, x: Value, indices: Value, batch: int) -> list[int]:
    if indices.rank < 1:
        raise BadNode("the indices are a scalar")
    depth = c.static(indices, "indices", [indices.rank - 1])[0]
    if batch + depth > x.rank:
        raise BadNode(f"index vectors of {depth} entries for {x!r}")
    return c.static(x, dims=range(batch, batch + depth))


@onnx_op("GatherND")
def gather_nd(c: NodeContext):
    x, indices, batch = c.need(0), c.need(1), c.int("batch_dims")
    if not 0 <= batch < min(x.rank, indices.rank):
        raise BadNode(f"attribute 'batch_dims' is {batch}")
    sizes = _vector_sizes(c, x, indices, batch)
    return c.b.gather_nd(x, _normalized_vectors(c, indices, sizes), batch)


def _scatter_kind(c: NodeContext) -> str:
    reduction = c.string("reduction", "none")
    kinds = {"none": "set", "add": "add", "max": "max", "min": "min"}
    if reduction not in kinds:
        raise Unsupported(f"attribute 'reduction' is '{reduction}'")
    return kinds[reduction]


@onnx_op("ScatterND")
def scatter_nd(c: NodeContext):
    x, indices, updates = c.need(0), c.need(1), c.need(2)
    sizes = _vector_sizes(c, x, indices, 0)
    return c.b.scatter(_scatter_kind(c), x, _normalized_vectors(c, indices, sizes), updates)


@onnx_op("Scatter", "ScatterElements")
def scatter_elements(c: NodeContext):
    """A scatter of single elements: the index vector of each is its own position but along the axis."""
    b, x, indices, updates = c.b, c.need(0), c.need(1), c.need(2)
    if not x.rank == indices.rank == updates.rank or not x.rank or indices.shape != updates.shape:
        raise BadNode(f"{x!r}, indices {indices!r} and updates {updates!r} don't fit")
    axis = c.axis(c.int("axis"), x.rank)
    indices = normalized(c, indices, x.shape[axis])
    column = tuple(indices.shape) + (1,)
    columns = [
        b.reshape(indices, column) if d == axis else b.iota(indices.dtype, column, d) for d in range(x.rank)
    ]
    return b.scatter(_scatter_kind(c), x, b.concat(columns, x.rank), updates)


@onnx_op("OneHot")
def one_hot(c: NodeContext):
    """The on value where the index is the position along the new axis, the off value elsewhere."""
    b, indices, values = c.b, c.need(0), c.need(2)
    depths = c.array(1, "depth").reshape(-1)
    if depths.size != 1 or depths[0] < 1:
        raise BadNode(f"the depth is {depths.tolist()}, not one positive number")
    depth = int(depths[0])
    if values.shape != (2,):
        raise BadNode(f"the values {values!r} don't have shape [2]")
    rank = indices.rank + 1
    axis = c.axis(c.int("axis", -1), rank)
    indices = b.cast(indices, "i64")
    negative = b.compare("lt", indices, b.scalar(0, indices))
    indices = b.select(negative, b.binary("add", indices, b.constant(depth, "i64")), indices)
    shape = list(indices.shape[:axis]) + [depth] + list(indices.shape[axis:])
    spread = b.broadcast(indices, shape, [d for d in range(rank) if d != axis])
    hit = b.compare("eq", spread, b.iota("i64", shape, axis))
    off, on = (b.reshape(b.slice_dim(values, 0, i, i + 1), ()) for i in (0, 1))
    return b.select(hit, on, off)


@onnx_op("Compress")
def compress(c: NodeContext):
    """Its shape depends on the condition, so that must be known."""
    b, x = c.b, c.need(0)
    chosen = np.flatnonzero(c.array(1, "condition").reshape(-1))
    if not c.has("axis"):
        x, axis = b.reshape(x, [product(x.shape)]), 0
    else:
        axis = c.axis(c.int("axis"), x.rank)
    size = c.static(x, dims=[axis])[0]
    if chosen.size and chosen[-1] >= size:
        raise BadNode(f"the condition chooses element {chosen[-1]} of {size}")
    return b.gather(x, b.constant(chosen, "i64"), axis)


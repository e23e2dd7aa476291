# ===- linalg.py - Matrix products -----------------------------------------=== #
#
# MatMul with numpy's rules for vectors and batches, and Gemm.
#
# ===----------------------------------------------------------------------=== #
"""Matrix products of ONNX."""

from __future__ import annotations

from ....ir.builder import Builder
from ....ir.module import Value
from ..context import NodeContext
from ..failure import BadNode
from ..registry import onnx_op


def numpy_matmul(b: Builder, x: Value, y: Value) -> Value:
    """x @ y as numpy does it: a vector is a row or a column, batches are broadcast."""
    if not x.rank or not y.rank:
        raise BadNode("a scalar has no matrix product")
    left = x if x.rank > 1 else b.reshape(x, [1, x.shape[0]])
    right = y if y.rank > 1 else b.reshape(y, [y.shape[0], 1])
    batch = b.broadcast_shape([left.shape[:-2], right.shape[:-2]])
    if right.rank > 2 or len(batch) > left.rank - 2:
        right = b.broadcast(right, batch + right.shape[-2:])
    left = b.broadcast(left, batch + left.shape[-2:])
    result = b.matmul(left, right)
    shape = list(result.shape)
    if y.rank == 1:
        shape.pop(-1)
    if x.rank == 1:
        shape.pop(-1 if y.rank == 1 else -2)
    return b.reshape(result, shape)


@onnx_op("MatMul")
def matmul(c: NodeContext):
    return numpy_matmul(c.b, c.need(0), c.need(1))


@onnx_op("Gemm")
def gemm(c: NodeContext):
    """alpha * A' B' + beta * C; factors of 1 are left out, a factor of 0 isn't (0 * NaN is NaN)."""
    b, x, y, addend = c.b, c.need(0), c.need(1), c.input(2)
    if x.rank != 2 or y.rank != 2:
        raise BadNode(f"{x!r} and {y!r} aren't two matrices")
    alpha, beta = c.float("alpha", 1.0), c.float("beta", 1.0)
    result = b.matmul(x, y, bool(c.int("transA")), bool(c.int("transB")))
    if alpha != 1.0:
        result = b.binary("mul", result, b.scalar(alpha, x))
    if addend is None:
        return result
    if beta != 1.0:
        addend = b.binary("mul", addend, b.scalar(beta, x))
    return b.binary("add", result, b.broadcast(addend, result.shape))

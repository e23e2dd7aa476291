# ===- loss.py - Losses -----------------------------------------------------=== #
#
# NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss.
#
# ===----------------------------------------------------------------------=== #
"""Losses of ONNX."""

from __future__ import annotations

from typing import Optional

from ....ir.affine import product
from ....ir.module import Value
from ..context import NodeContext
from ..failure import BadNode
from ..registry import onnx_op


def _loss(c: NodeContext, logs: Value, target: Value, weight: Optional[Value]) -> Value:
    """-weight[target] * logs[n, target, ...], then its sum or its mean by weight; a target that is
    `ignore_index` has weight 0."""
    b = c.b
    if logs.rank < 2 or target.shape != logs.shape[:1] + logs.shape[2:]:
        raise BadNode(f"the target {target!r} doesn't fit the scores {logs!r}")
    classes = c.static(logs, "scores", [1])[0]
    if weight is not None and weight.shape != (classes,):
        raise BadNode(f"the weights {weight!r} don't have shape [{classes}]")
    ignored = None
    chosen = target
    if c.has("ignore_index"):
        ignored = b.compare("eq", target, b.constant(c.int("ignore_index"), target.dtype))
        chosen = b.select(ignored, b.scalar(0, target), target)
    # Classes last, every other dimension a row.
    order = [0] + list(range(2, logs.rank)) + [1]
    rows = product(target.shape)
    flat = b.reshape(b.transpose(logs, order), [rows, classes])
    picked = b.gather(flat, b.reshape(chosen, [rows, 1]), 1, 1)
    loss = b.unary("neg", b.reshape(picked, target.shape))
    scale = None
    if weight is not None:
        scale = b.gather(weight, chosen, 0)
    elif ignored is not None:
        scale = b.splat(1, loss.dtype, target.shape)
    zero = b.splat(0, loss.dtype, target.shape)
    if ignored is not None:
        scale = b.select(ignored, zero, scale)
    if scale is not None:
        loss = b.binary("mul", loss, scale)
    if ignored is not None:  # 0 * an infinite score isn't 0
        loss = b.select(ignored, zero, loss)
    reduction = c.choice("reduction", "mean", ("mean", "sum", "none"))
    if reduction == "none":
        return loss
    dims = list(range(loss.rank))
    if reduction == "mean" and scale is None:
        return b.reduce("mean", loss, dims)
    total = b.reduce("sum", loss, dims)
    return b.binary("div", total, b.reduce("sum", scale, dims)) if reduction == "mean" else total


@onnx_op("NegativeLogLikelihoodLoss")
def negative_log_likelihood(c: NodeContext):
    return _loss(c, c.need(0), c.need(1), c.input(2))


@onnx_op("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy(c: NodeContext):
    scores = c.need(0)
    if scores.rank < 2:
        raise BadNode(f"the scores have rank {scores.rank}, at least 2 is needed")
    logs = c.b.softmax("log_softmax", scores, 1)
    return [_loss(c, logs, c.need(1), c.input(2)), logs]

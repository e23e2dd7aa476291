# ===- loss.py - What is minimized ----------------------------------------=== #
#
# Mean losses over the rows, computed in f32 at least.
#
# ===----------------------------------------------------------------------=== #
"""Losses with gradients."""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.module import Value
from ..tape import Tape
from .elementwise import number, wide


def _is_label(b: Builder, labels: Value, classes: int) -> Value:
    """[rows, classes]: whether the column is the row's label."""
    shape = labels.shape + (classes,)
    return b.compare("eq", b.iota(labels.dtype, shape, 1), b.broadcast(labels, shape, dims=[0]))


def cross_entropy(t: Tape, logits: Value, labels: Value) -> Value:
    """Mean over the rows of -log softmax(logits [rows, classes])[label]; a label outside of them counts 0."""
    b = t.b
    rows, classes = logits.shape
    logs = b.softmax("log_softmax", wide(b, logits), 1)
    picked = b.select(_is_label(b, labels, classes), logs, number(b, 0.0, logs))
    out = b.unary("neg", b.reduce("mean", b.reduce("sum", picked, [1]), [0]))

    def backward(g: Value):
        """softmax - onehot, shared among the rows. A label outside of the classes isn't looked for."""
        share = b.binary("mul", g, number(b, 1 / rows, g))
        probabilities = b.softmax("softmax", wide(b, logits), 1)
        onehot = b.cast(_is_label(b, labels, classes), probabilities.dtype)
        grad = b.binary("mul", b.binary("sub", probabilities, onehot), share)
        return [b.cast(grad, logits.dtype), None]

    t.record([out], [logits, labels], backward)
    return out


def mean_squared_error(t: Tape, outputs: Value, targets: Value) -> Value:
    """Mean over the rows of half the squared distance."""
    b = t.b
    y = wide(b, outputs)
    difference = b.binary("sub", y, b.cast(targets, y.dtype))
    squares = b.reduce("sum", b.binary("mul", difference, difference), [1])
    out = b.binary("mul", b.reduce("mean", squares, [0]), number(b, 0.5, squares))

    def backward(g: Value):
        share = b.binary("mul", g, number(b, 1 / outputs.shape[0], g))
        return [b.cast(b.binary("mul", difference, share), outputs.dtype), None]

    t.record([out], [outputs, targets], backward)
    return out

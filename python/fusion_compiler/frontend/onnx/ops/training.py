# ===- training.py - Optimizer steps ----------------------------------------=== #
#
# Adagrad, Adam and Momentum of the domain ai.onnx.preview.training.
#
# ===----------------------------------------------------------------------=== #
"""Optimizer ops of ONNX."""

from __future__ import annotations

from ....ir.module import Value
from ..context import NodeContext
from ..failure import BadNode
from ..registry import onnx_op

_DOMAIN = "ai.onnx.preview.training"


def _groups(c: NodeContext, parts: int) -> list[list[Value]]:
    """Inputs 2 on are `parts` lists of equal length: all parameters, all gradients, all states."""
    count, rest = divmod(len(c.inputs) - 2, parts)
    if rest or count < 1:
        raise BadNode(f"{len(c.inputs) - 2} tensors aren't {parts} lists of equal length")
    return [[c.need(2 + part * count + i) for part in range(parts)] for i in range(count)]


def _interleaved(results: list[tuple]) -> list[Value]:
    return [value for column in zip(*results) for value in column]


def _scaled(c: NodeContext, number: float, x: Value) -> Value:
    return c.b.binary("mul", x, c.b.scalar(number, x))


def _regularized(c: NodeContext, x: Value, gradient: Value) -> Value:
    norm = c.float("norm_coefficient", 0.0)
    return c.b.binary("add", _scaled(c, norm, x), gradient) if norm else gradient


@onnx_op("Adagrad", domain=_DOMAIN)
def adagrad(c: NodeContext):
    b, rate, step = c.b, c.need(0), c.need(1)
    results = []
    for x, gradient, squares in _groups(c, 3):
        count = b.cast(step, x.dtype)
        decayed = b.binary("add", b.scalar(1, x), _scaled(c, c.float("decay_factor", 0.0), count))
        r = b.binary("div", b.cast(rate, x.dtype), decayed)
        gradient = _regularized(c, x, gradient)
        squares = b.binary("add", squares, b.binary("mul", gradient, gradient))
        adaptive = b.binary("add", b.unary("sqrt", squares), b.scalar(c.float("epsilon", 1e-6), x))
        update = b.binary("div", b.binary("mul", r, gradient), adaptive)
        results.append((b.binary("sub", x, update), squares))
    return _interleaved(results)


@onnx_op("Adam", domain=_DOMAIN)
def adam(c: NodeContext):
    b, rate, step = c.b, c.need(0), c.need(1)
    alpha, beta = c.float("alpha", 0.9), c.float("beta", 0.999)
    results = []
    for x, gradient, mean, squares in _groups(c, 4):
        gradient = _regularized(c, x, gradient)
        mean = b.binary("add", _scaled(c, alpha, mean), _scaled(c, 1 - alpha, gradient))
        square = b.binary("mul", gradient, gradient)
        squares = b.binary("add", _scaled(c, beta, squares), _scaled(c, 1 - beta, square))
        root = b.binary("add", b.unary("sqrt", squares), b.scalar(c.float("epsilon", 1e-6), x))
        count = b.cast(step, x.dtype)
        # The bias correction holds from the first step on; at step 0 the rate is used as it is.
        powers = [b.binary("pow", b.scalar(base, x), count) for base in (alpha, beta)]
        ones = b.scalar(1, x)
        corrected = b.binary("div", b.unary("sqrt", b.binary("sub", ones, powers[1])), b.binary("sub", ones, powers[0]))
        r = b.cast(rate, x.dtype)
        first = b.compare("gt", count, b.scalar(0, x))
        r = b.select(first, b.binary("mul", r, corrected), r)
        update = b.binary("div", b.binary("mul", r, mean), root)
        post = 1 - c.float("norm_coefficient_post", 0.0)
        new = b.binary("sub", x, update)
        results.append((new if post == 1 else _scaled(c, post, new), mean, squares))
    return _interleaved(results)


@onnx_op("Momentum", domain=_DOMAIN)
def momentum(c: NodeContext):
    b, rate, step = c.b, c.need(0), c.need(1)
    alpha, beta = c.float("alpha"), c.float("beta")
    nesterov = c.choice("mode", "standard", ("standard", "nesterov")) == "nesterov"
    results = []
    for x, gradient, velocity in _groups(c, 3):
        gradient = _regularized(c, x, gradient)
        # beta scales the gradient after the first step only.
        first = b.compare("gt", step, b.scalar(0, step))
        factor = b.select(first, b.scalar(beta, x), b.scalar(1, x))
        velocity = b.binary("add", _scaled(c, alpha, velocity), b.binary("mul", factor, gradient))
        direction = b.binary("add", gradient, _scaled(c, alpha, velocity)) if nesterov else velocity
        update = b.binary("mul", b.cast(rate, x.dtype), direction)
        results.append((b.binary("sub", x, update), velocity))
    return _interleaved(results)

# ===- activation.py - Activations ---------------------------------------=== #
#
# The activations of ONNX; those the dialect doesn't name are written out.
#
# ===----------------------------------------------------------------------=== #
"""Activations of ONNX."""

from __future__ import annotations

from ..context import NodeContext
from ..failure import BadNode
from ..registry import onnx_op
from ....ir.affine import product

_NAMED = {
    "Relu": "relu", "Sigmoid": "sigmoid", "Softplus": "softplus", "Mish": "mish", "HardSwish": "hard_swish",
}


@onnx_op(*_NAMED)
def named(c: NodeContext):
    return c.b.unary(_NAMED[c.node.op_type], c.need(0))


@onnx_op("HardSigmoid")
def hard_sigmoid(c: NodeContext):
    return c.b.unary("hard_sigmoid", c.need(0), alpha=c.float("alpha", 0.2), beta=c.float("beta", 0.5))


@onnx_op("LeakyRelu")
def leaky_relu(c: NodeContext):
    return c.b.unary("leaky_relu", c.need(0), alpha=c.float("alpha", 0.01))


@onnx_op("Elu")
def elu(c: NodeContext):
    return c.b.unary("elu", c.need(0), alpha=c.float("alpha", 1.0))


@onnx_op("Selu")
def selu(c: NodeContext):
    x = c.need(0)
    alpha, gamma = c.float("alpha", 1.67326319217681884765625), c.float("gamma", 1.05070102214813232421875)
    return c.b.binary("mul", c.b.unary("elu", x, alpha=alpha), c.b.scalar(gamma, x))


@onnx_op("Celu")
def celu(c: NodeContext):
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""
    b, x = c.b, c.need(0)
    alpha = b.scalar(c.float("alpha", 1.0), x)
    zero = b.splat(0, x.dtype, x.shape)
    curve = b.binary("mul", b.unary("expm1", b.binary("div", x, alpha)), alpha)
    return b.binary("add", b.binary("max", x, zero), b.binary("min", curve, zero))


@onnx_op("Gelu")
def gelu(c: NodeContext):
    kind = {"none": "erf", "tanh": "tanh"}[c.choice("approximate", "none", ("none", "tanh"))]
    return c.b.unary("gelu", c.need(0), kind=kind)


@onnx_op("Swish")
def swish(c: NodeContext):
    x, alpha = c.need(0), c.float("alpha", 1.0)
    if alpha == 1.0:
        return c.b.unary("silu", x)
    return c.b.binary("mul", x, c.b.unary("sigmoid", c.b.binary("mul", x, c.b.scalar(alpha, x))))


@onnx_op("PRelu")
def prelu(c: NodeContext):
    b, x = c.b, c.need(0)
    slope = b.broadcast(c.need(1), x.shape)
    negative = b.compare("lt", x, b.scalar(0, x))
    return b.select(negative, b.binary("mul", x, slope), x)


@onnx_op("ThresholdedRelu")
def thresholded_relu(c: NodeContext):
    b, x = c.b, c.need(0)
    above = b.compare("gt", x, b.scalar(c.float("alpha", 1.0), x))
    return b.select(above, x, b.splat(0, x.dtype, x.shape))


@onnx_op("Shrink")
def shrink(c: NodeContext):
    """x + bias below -lambd, x - bias above lambd, 0 between."""
    b, x = c.b, c.need(0)
    bias, limit = b.constant(c.float("bias", 0.0), x.dtype), c.float("lambd", 0.5)
    below = b.compare("lt", x, b.constant(-limit, x.dtype))
    above = b.compare("gt", x, b.constant(limit, x.dtype))
    inner = b.select(above, b.binary("sub", x, bias), b.splat(0, x.dtype, x.shape))
    return b.select(below, b.binary("add", x, bias), inner)


@onnx_op("Softsign")
def softsign(c: NodeContext):
    b, x = c.b, c.need(0)
    return b.binary("div", x, b.binary("add", b.unary("abs", x), b.scalar(1, x)))


@onnx_op("Softmax", "LogSoftmax", "Hardmax")
def softmax_flattened(c: NodeContext):
    """Before opset 13: rows of all the dimensions from `axis` (default 1) on."""
    x = c.need(0)
    axis = c.int("axis", 1)
    axis = axis + x.rank if axis < 0 else axis
    if not 0 <= axis <= x.rank:
        raise BadNode(f"axis {c.int('axis', 1)} is outside of [{-x.rank}, {x.rank}]")
    flat = c.b.reshape(x, [product(x.shape[:axis]), product(x.shape[axis:])])
    return c.b.reshape(_along(c, flat, 1), x.shape)


@onnx_op("Softmax", "LogSoftmax", "Hardmax", since=13)
def softmax(c: NodeContext):
    x = c.need(0)
    return _along(c, x, c.axis(c.int("axis", -1), x.rank))


def _along(c: NodeContext, x, axis: int):
    if c.node.op_type == "Hardmax":
        return _hardmax(c, x, axis)
    if 0 in x.shape:
        return x
    return c.b.softmax("softmax" if c.node.op_type == "Softmax" else "log_softmax", x, axis)


def _hardmax(c: NodeContext, x, axis: int):
    """1 at the first largest element, 0 elsewhere."""
    b = c.b
    first = b.reshape(b.arg("arg_max", x, axis), [1 if i == axis else s for i, s in enumerate(x.shape)])
    hit = b.compare("eq", b.broadcast(first, x.shape), b.iota("i64", x.shape, axis))
    return b.cast(hit, x.dtype)

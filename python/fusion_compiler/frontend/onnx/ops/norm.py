# ===- norm.py - Normalizations -------------------------------------------=== #
#
# BatchNormalization in both modes, instance, group, layer and RMS normalization,
# LRN and MeanVarianceNormalization.
#
# ===----------------------------------------------------------------------=== #
"""Normalizations of ONNX."""

from __future__ import annotations

from typing import Optional

from ....ir.module import FLOATS, Value
from ..context import NodeContext
from ..dtypes import DTYPES, type_name
from ..failure import BadNode, Unsupported
from ..registry import onnx_op

_WIDTH = {"f16": 0, "bf16": 0, "f32": 1, "f64": 2}


def _channels(c: NodeContext, x: Value) -> int:
    if x.rank < 2:
        raise Unsupported(f"an input of rank {x.rank}; at least 2 is")
    return c.static(x, dims=[1])[0]


@onnx_op("BatchNormalization")
def batch_norm(c: NodeContext):
    """Inference, or training (training_mode from opset 14 on; before, when outputs 1 to 4 are used)."""
    b, x = c.b, c.need(0)
    channels = _channels(c, x)
    if c.opset < 9 and c.int("spatial", 1) != 1:
        raise Unsupported("attribute 'spatial' is 0: statistics for each element")
    statistics = [c.need(i) for i in range(1, 5)]
    for value in statistics:
        if value.shape != (channels,):
            raise BadNode(f"{value!r} doesn't have shape [{channels}]")
    wide = max((v.dtype for v in statistics), key=lambda d: (_WIDTH[d], d))
    if {v.dtype for v in statistics} == {"f16", "bf16"}:
        wide = "f32"
    epsilon = c.float("epsilon", 1e-5)
    training = bool(c.int("training_mode")) if c.opset >= 14 else any(c.wants(i) for i in range(1, 5))
    if not training:
        operands = [x] + [b.cast(v, wide) for v in statistics]
        return b.make("batch_norm", operands, x.dtype, x.shape, epsilon=epsilon, axis=1)
    scale, bias, mean, variance = statistics
    operands = [x, b.cast(scale, wide), b.cast(bias, wide)]
    types = [(x.dtype, x.shape), (wide, (channels,)), (wide, (channels,))]
    result, batch_mean, batch_variance = b.make_many("batch_norm_training", operands, types, epsilon=epsilon, axis=1)
    momentum = c.float("momentum", 0.9)
    outputs = [result]
    for old, new in ((mean, batch_mean), (variance, batch_variance)):
        # running = running * momentum + batch * (1 - momentum)
        keep, take = b.constant(momentum, wide), b.constant(1.0 - momentum, wide)
        mixed = b.binary("add", b.binary("mul", b.cast(old, wide), keep), b.binary("mul", new, take))
        outputs.append(b.cast(mixed, old.dtype))
    return outputs + [b.cast(batch_mean, mean.dtype), b.cast(batch_variance, variance.dtype)]


def _per_channel(c: NodeContext, x: Value, scale: Value, bias: Value) -> Value:
    """x * scale + bias along dimension 1."""
    b = c.b
    for value in (scale, bias):
        if value.shape != (x.shape[1],):
            raise BadNode(f"{value!r} doesn't have shape [{x.shape[1]}]")
    scale, bias = (b.broadcast(v, x.shape, [1]) for v in (scale, bias))
    return b.binary("add", b.binary("mul", x, scale), bias)


@onnx_op("InstanceNormalization")
def instance_norm(c: NodeContext):
    x = c.need(0)
    _channels(c, x)
    if x.rank < 3:
        raise BadNode(f"its input has rank {x.rank}, at least 3 is needed")
    normal = c.b.layer_norm("layer_norm", x, None, None, c.float("epsilon", 1e-5), 2)
    return _per_channel(c, normal, c.need(1), c.need(2))


@onnx_op("GroupNormalization", since=18)
def group_norm(c: NodeContext):
    """Scale and bias are for each group in opset 18, for each channel from 21 on."""
    b, x = c.b, c.need(0)
    channels, groups = _channels(c, x), c.int("num_groups")
    if groups < 1 or channels % groups:
        raise BadNode(f"num_groups {groups} doesn't divide the {channels} channels")
    scale, bias = c.need(1), c.need(2)
    size = channels // groups
    if c.opset < 21 and size > 1:
        scale, bias = (b.reshape(b.broadcast(v, [groups, size], [0]), [channels]) for v in (scale, bias))
    parts = b.reshape(x, [x.shape[0], groups, size] + list(x.shape[2:]))
    normal = b.layer_norm("layer_norm", _stash(c, parts), None, None, c.float("epsilon", 1e-5), 2)
    return _per_channel(c, b.cast(b.reshape(normal, x.shape), x.dtype), scale, bias)


def _stash(c: NodeContext, x: Value) -> Value:
    """The input in the type that the first stage computes in, where that is wider."""
    number = c.int("stash_type", 1)
    if DTYPES.get(number) not in FLOATS:
        raise Unsupported(f"stash_type {type_name(number)}")
    stash = DTYPES[number]
    # layer_norm and rms_norm compute f16 and bf16 in f32 anyway.
    return c.b.cast(x, stash) if _WIDTH[stash] > max(_WIDTH[x.dtype], 1) else x


def _row_norm(c: NodeContext, name: str, bias: Optional[Value]):
    b, x, scale = c.b, c.need(0), c.need(1)
    axis = c.axis(c.int("axis", -1), x.rank)
    c.static(x, dims=range(axis, x.rank))
    epsilon = c.float("epsilon", 1e-5)
    stashed = _stash(c, x)
    fits = all(v is None or (v.shape == x.shape[axis:] and v.dtype == x.dtype) for v in (scale, bias))
    if fits and stashed is x:
        return b.layer_norm(name, x, scale, bias, epsilon, axis), x, axis, epsilon
    result = b.cast(b.layer_norm(name, stashed, None, None, epsilon, axis), scale.dtype)
    result = b.binary("mul", result, scale)
    return (result if bias is None else b.binary("add", result, bias)), x, axis, epsilon


@onnx_op("LayerNormalization")
def layer_norm(c: NodeContext):
    result, x, axis, epsilon = _row_norm(c, "layer_norm", c.input(2))
    if not (c.wants(1) or c.wants(2)):
        return result
    b = c.b
    stash = DTYPES[c.int("stash_type", 1)]
    wide = b.cast(x, stash)
    dims = list(range(axis, x.rank))
    mean = b.reduce("mean", wide, dims, keep=True)
    centered = b.binary("sub", wide, mean)
    variance = b.reduce("mean", b.binary("mul", centered, centered), dims, keep=True)
    deviation = b.unary("sqrt", b.binary("add", variance, b.constant(epsilon, stash)))
    return [result, mean, b.unary("reciprocal", deviation)]


@onnx_op("RMSNormalization")
def rms_norm(c: NodeContext):
    return _row_norm(c, "rms_norm", None)[0]


@onnx_op("LRN")
def lrn(c: NodeContext):
    """x / (bias + alpha / size * sum of squares over `size` channels)^beta."""
    b, x, size = c.b, c.need(0), c.int("size")
    channels = _channels(c, x)
    if size < 1:
        raise BadNode(f"attribute 'size' is {size}")
    squares = b.binary("mul", x, x)
    low = (size - 1) // 2
    zeros = [0] * (x.rank - 2)
    padded = b.pad(squares, b.scalar(0, x), [0, low] + zeros, [0, size - 1 - low] + zeros)
    total = None
    for shift in range(size):
        part = b.slice_dim(padded, 1, shift, shift + channels)
        total = part if total is None else b.binary("add", total, part)
    alpha, beta, bias = c.float("alpha", 1e-4), c.float("beta", 0.75), c.float("bias", 1.0)
    base = b.binary("add", b.binary("mul", total, b.constant(alpha / size, x.dtype)), b.constant(bias, x.dtype))
    return b.binary("div", x, b.binary("pow", base, b.constant(beta, x.dtype)))


@onnx_op("MeanVarianceNormalization")
def mean_variance_norm(c: NodeContext):
    """(x - mean) / (deviation + 1e-9), in two passes."""
    b, x = c.b, c.need(0)
    dims = c.axes(c.ints("axes") or [0, 2, 3], x.rank)
    centered = b.binary("sub", x, b.reduce("mean", x, dims, keep=True))
    variance = b.reduce("mean", b.binary("mul", centered, centered), dims, keep=True)
    return b.binary("div", centered, b.binary("add", b.unary("sqrt", variance), b.constant(1e-9, x.dtype)))


@onnx_op("LpNormalization")
def lp_norm(c: NodeContext):
    """x divided by its norm along an axis; a norm of 0 gives 0."""
    b, x, p = c.b, c.need(0), c.int("p", 2)
    axis = c.axis(c.int("axis", -1), x.rank)
    if p not in (1, 2):
        raise BadNode(f"attribute 'p' is {p}, not 1 or 2")
    total = b.reduce("sum", b.unary("abs", x) if p == 1 else b.binary("mul", x, x), [axis], keep=True)
    norm = total if p == 1 else b.unary("sqrt", total)
    zero = b.compare("eq", norm, b.scalar(0, x))
    return b.binary("div", x, b.select(zero, b.scalar(1, x), norm))


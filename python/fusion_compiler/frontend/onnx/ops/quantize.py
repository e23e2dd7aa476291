# ===- quantize.py - Linear quantization ------------------------------------=== #
#
# QuantizeLinear and DequantizeLinear of the integer types the dialect has.
#
# ===----------------------------------------------------------------------=== #
"""Quantization ops of ONNX."""

from __future__ import annotations

from typing import Optional

import numpy as np

from ....ir.module import FLOATS, STORAGE, Value
from ..context import NodeContext
from ..dtypes import DTYPES, type_name
from ..failure import BadNode, Unsupported
from ..registry import onnx_op


def _spread(c: NodeContext, parameter: Value, x: Value) -> Value:
    """A scale or zero point of the whole tensor, or one for each index of the axis, in x's shape."""
    if c.int("block_size"):
        raise Unsupported("attribute 'block_size': scales of blocks")
    if parameter.rank == 0 or parameter.shape == (1,):
        return c.b.broadcast(c.b.reshape(parameter, ()), x.shape)
    axis = c.axis(c.int("axis", 1), x.rank)
    if parameter.shape != (x.shape[axis],):
        raise BadNode(f"{parameter!r} doesn't fit dimension {axis} of {x!r}")
    return c.b.broadcast(parameter, x.shape, [axis])


@onnx_op("DequantizeLinear", since=10)
def dequantize(c: NodeContext):
    """(x - zero point) * scale, in the scale's type; the difference is an exact i32."""
    b, x, scale, zero = c.b, c.need(0), c.need(1), c.input(2)
    number = c.int("output_dtype")
    if number and DTYPES.get(number) != scale.dtype:
        raise Unsupported(f"attribute 'output_dtype' is {type_name(number)}")
    if x.dtype not in ("i8", "i32"):
        raise Unsupported(f"element type {x.dtype}")
    wide = b.cast(x, "i32")
    if zero is not None:
        wide = b.binary("sub", wide, b.cast(_spread(c, zero, x), "i32"))
    return b.binary("mul", b.cast(wide, scale.dtype), _spread(c, scale, x))


def _target(c: NodeContext, zero: Optional[Value]) -> str:
    number = c.int("output_dtype")
    if zero is not None:
        return zero.dtype
    if not number:
        raise Unsupported("a result of element type uint8")
    if DTYPES.get(number) is None:
        raise Unsupported(f"attribute 'output_dtype' is {type_name(number)}")
    return DTYPES[number]


@onnx_op("QuantizeLinear", since=10)
def quantize(c: NodeContext):
    """round(x / scale) + zero point, rounded to even and saturated."""
    b, x, scale, zero = c.b, c.need(0), c.need(1), c.input(2)
    target = _target(c, zero)
    if target != "i8" or x.dtype not in FLOATS:
        raise Unsupported(f"{x.dtype} to {target}")
    limits = np.iinfo(STORAGE[target])
    steps = b.unary("round", b.binary("div", x, b.cast(_spread(c, scale, x), x.dtype)))
    # Far outside the range the zero point changes nothing: limiting first keeps the sum exact in f16 too.
    steps = b.clamp(steps, b.scalar(2 * limits.min, x), b.scalar(2 * limits.max, x))
    if zero is not None:
        steps = b.binary("add", steps, b.cast(_spread(c, zero, x), x.dtype))
    return b.cast(b.clamp(steps, b.scalar(limits.min, x), b.scalar(limits.max, x)), target)

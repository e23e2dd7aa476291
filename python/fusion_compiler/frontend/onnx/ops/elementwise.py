# ===- elementwise.py - Arithmetic, logic, comparison, casts -------------=== #
#
# Ops whose result element depends on operand elements of the same position, after
# broadcasting.
#
# ===----------------------------------------------------------------------=== #
"""Elementwise ops of ONNX."""

from __future__ import annotations

import numpy as np

from ....ir.module import FLOATS, Value
from ..context import NodeContext
from ..dtypes import DTYPES, type_name
from ..failure import BadNode, Unsupported
from ..registry import onnx_op

_UNARY = {
    "Abs": "abs", "Neg": "neg", "Sign": "sign", "Ceil": "ceil", "Floor": "floor", "Round": "round", "Sqrt": "sqrt",
    "Reciprocal": "reciprocal", "Exp": "exp", "Log": "log", "Sin": "sin", "Cos": "cos", "Tan": "tan", "Asin": "asin",
    "Acos": "acos", "Atan": "atan", "Sinh": "sinh", "Cosh": "cosh", "Asinh": "asinh", "Acosh": "acosh",
    "Atanh": "atanh", "Tanh": "tanh", "Erf": "erf", "Not": "not", "BitwiseNot": "not",
}
_BINARY = {
    "Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div", "And": "and", "Or": "or", "Xor": "xor",
    "BitwiseAnd": "and", "BitwiseOr": "or", "BitwiseXor": "xor",
}
_COMPARE = {"Equal": "eq", "Less": "lt", "LessOrEqual": "le", "Greater": "gt", "GreaterOrEqual": "ge"}


@onnx_op(*_UNARY)
def unary(c: NodeContext):
    return c.b.unary(_UNARY[c.node.op_type], c.need(0))


@onnx_op(*_BINARY)
def binary(c: NodeContext):
    return c.b.binary(_BINARY[c.node.op_type], c.need(0), c.need(1))


@onnx_op(*_COMPARE)
def compare(c: NodeContext):
    return c.b.compare(_COMPARE[c.node.op_type], c.need(0), c.need(1))


@onnx_op("Max", "Min", "Sum", "Mean")
def variadic(c: NodeContext):
    name = {"Max": "max", "Min": "min", "Sum": "add", "Mean": "add"}[c.node.op_type]
    values = c.b.broadcast_all([c.need(i) for i in range(len(c.inputs))])
    result = values[0]
    for value in values[1:]:
        result = c.b.binary(name, result, value)
    if c.node.op_type == "Mean" and len(values) > 1:
        result = c.b.binary("div", result, c.b.scalar(len(values), result))
    return result


@onnx_op("Where")
def where(c: NodeContext):
    return c.b.select(c.need(0), c.need(1), c.need(2))


@onnx_op("IsNaN")
def is_nan(c: NodeContext):
    return c.b.predicate("is_nan", c.need(0))


@onnx_op("IsInf")
def is_inf(c: NodeContext):
    x = c.need(0)
    negative, positive = c.int("detect_negative", 1), c.int("detect_positive", 1)
    if negative and positive:
        return c.b.predicate("is_inf", x)
    if not negative and not positive:
        return c.b.splat(False, "i1", x.shape)
    return c.b.compare("eq", x, c.b.scalar(np.inf if positive else -np.inf, x))


@onnx_op("Cast")
def cast(c: NodeContext):
    number = c.int("to")
    if number not in DTYPES:
        raise Unsupported(f"a cast to element type {type_name(number)}")
    return c.b.cast(c.need(0), DTYPES[number])


@onnx_op("CastLike")
def cast_like(c: NodeContext):
    return c.b.cast(c.need(0), c.need(1).dtype)


@onnx_op("Identity")
def identity(c: NodeContext):
    return c.need(0)


@onnx_op("Pow")
def power(c: NodeContext):
    """The result has the base's type; integers are raised by repeated squaring, which is exact."""
    base, exponent = c.need(0), c.need(1)
    if base.dtype in FLOATS:
        return c.b.binary("pow", base, c.b.cast(exponent, base.dtype))
    if exponent.dtype in FLOATS:
        wide = c.b.binary("pow", c.b.cast(base, "f64"), c.b.cast(exponent, "f64"))
        return c.b.cast(wide, base.dtype)
    return _integer_power(c, base, c.b.cast(exponent, base.dtype))


def _integer_power(c: NodeContext, base: Value, exponent: Value) -> Value:
    b = c.b
    base, exponent = b.broadcast_all([base, exponent])
    one, zero = (b.splat(n, base.dtype, base.shape) for n in (1, 0))
    # Beyond 63 every power but those of 0, 1 and -1 has overflowed: the parity is what is left.
    count = b.unary("abs", exponent)
    parity = b.binary("and", count, one)
    count = b.binary("min", count, b.binary("add", b.scalar(62, base), parity))
    result, square = one, base
    for bit in range(6):
        chosen = b.binary("and", count, b.scalar(1 << bit, base))
        result = b.select(b.compare("ne", chosen, zero), b.binary("mul", result, square), result)
        square = b.binary("mul", square, square) if bit < 5 else square
    unit = b.compare("eq", b.unary("abs", base), one)
    return b.select(b.compare("lt", exponent, zero), b.select(unit, result, zero), result)


@onnx_op("Mod")
def modulo(c: NodeContext):
    """fmod: the sign of the dividend; otherwise the sign of the divisor, integers only."""
    b = c.b
    x, y = b.broadcast_all([c.need(0), c.need(1)])
    remainder = b.binary("rem", x, y)
    if c.int("fmod"):
        return remainder
    if x.dtype in FLOATS and c.opset < 28:
        raise BadNode("floats need fmod = 1")
    zero = b.splat(0, x.dtype, x.shape)
    signs = b.binary("xor", b.compare("lt", remainder, zero), b.compare("lt", y, zero))
    wrong = b.binary("and", b.compare("ne", remainder, zero), signs)
    return b.select(wrong, b.binary("add", remainder, y), remainder)


@onnx_op("Clip")
def clip(c: NodeContext):
    """min(max(x, low), high); a bound that is left out doesn't limit."""
    x = c.need(0)
    if c.opset < 11:
        low = c.b.scalar(c.float("min"), x) if c.has("min") else None
        high = c.b.scalar(c.float("max"), x) if c.has("max") else None
    else:
        low, high = c.input(1), c.input(2)
        for bound in (low, high):
            if bound is not None and bound.rank and bound.shape != (1,):
                raise BadNode("a bound isn't a scalar")
        low, high = (v if v is None else c.b.reshape(v, ()) for v in (low, high))
    if low is not None and high is not None:
        return c.b.clamp(x, low, high)
    if low is not None:
        return c.b.binary("max", x, low)
    return c.b.binary("min", x, high) if high is not None else x


@onnx_op("BitShift")
def bit_shift(c: NodeContext):
    """To the right copies of the sign come in: for a negative number the complement is shifted."""
    b = c.b
    x, count = b.broadcast_all([c.need(0), c.need(1)])
    if c.choice("direction", "", ("LEFT", "RIGHT")) == "LEFT":
        return b.binary("shift_left", x, count)
    negative = b.compare("lt", x, b.scalar(0, x))
    shifted = b.binary("shift_right", b.select(negative, b.unary("not", x), x), count)
    return b.select(negative, b.unary("not", shifted), shifted)


@onnx_op("Dropout")
def dropout(c: NodeContext):
    """Inference: the input itself, and a mask of ones."""
    x = c.need(0)
    if c.opset >= 12 and c.input(2) is not None:
        if bool(c.array(2, "training mode").reshape(-1)[0]):
            ratio = 0.5 if c.input(1) is None else float(c.array(1, "ratio").reshape(-1)[0])
            if ratio != 0:
                raise Unsupported("dropout in training mode")
    mask = c.b.splat(1, "i1" if c.opset >= 10 else x.dtype, x.shape) if c.wants(1) else None
    return [x, mask]


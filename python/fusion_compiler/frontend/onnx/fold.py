# ===- fold.py - Evaluates what is known at import -----------------------=== #
#
# Exporters compute shapes with ordinary nodes: Shape, Gather, Concat, Cast, ...
# Such nodes are evaluated here, on numbers and on sizes that are affine in the
# batch. Only small tensors and only operations that are exact, or exactly rounded,
# in the node's own type: what the compiler would compute is never changed. A node
# that this module leaves alone becomes ops.
#
# ===----------------------------------------------------------------------=== #
"""Exact evaluation of nodes whose inputs are known."""

from __future__ import annotations

import math
from typing import Callable, Optional

import numpy as np

from ...ir.affine import Affine, NotAffine, product
from ...ir.module import INTEGERS, STORAGE, Value, float_to_bits16
from .context import NodeContext
from .dtypes import DTYPES

MAX_ELEMENTS = 4096
MAX_FLOAT_ELEMENTS = 64


class _Skip(Exception):
    """The node is left to its function in ops/."""


def evaluate(context: NodeContext, domain: str) -> Optional[list[Value]]:
    """The node's outputs when they can be known, else None."""
    if domain:
        return None
    name = context.node.op_type
    if name in ("Shape", "Size"):
        return [_shape(context) if name == "Shape" else _size(context)]
    rule = _RULES.get(name)
    present = [v for v in context.inputs if v is not None]
    if rule is None or not present or any(v.data is None for v in present):
        return None
    if any(v.data.size > (MAX_ELEMENTS if v.dtype in INTEGERS or v.dtype == "i1" else MAX_FLOAT_ELEMENTS) for v in present):
        return None
    symbolic = any(v.symbolic for v in present)
    arrays = [None if v is None else v.data.astype(object) if symbolic else v.data for v in context.inputs]
    try:
        with np.errstate(all="ignore"):
            results = rule(context, arrays)
    except (_Skip, NotAffine):
        return None
    except (ArithmeticError, AttributeError, IndexError, TypeError, ValueError):
        return None  # a node that breaks its rules: its function in ops/ says which
    results = results if isinstance(results, list) else [results]
    return [_value(context, array, dtype) for array, dtype in results]


def _value(context: NodeContext, array, dtype: str) -> Value:
    array = np.asarray(array)
    if array.dtype == object and not any(isinstance(e, Affine) for e in array.reshape(-1)):
        array = array.astype(STORAGE[dtype]) if dtype != "bf16" else float_to_bits16(array.astype("<f4"))
    elif array.dtype != object and array.dtype != STORAGE[dtype]:
        array = array.astype(STORAGE[dtype])
    return context.b.data(array, dtype)


def _objects(sizes) -> np.ndarray:
    array = np.empty(len(sizes), dtype=object)
    array[:] = list(sizes)
    return array


def _shape(context: NodeContext) -> Value:
    value = context.need(0)
    begin, end = context.int("start", 0), context.int("end", value.rank)
    begin, end = (min(max(e + value.rank if e < 0 else e, 0), value.rank) for e in (begin, end))
    return _value(context, _objects(value.shape[begin:end] if begin < end else ()), "i64")


def _size(context: NodeContext) -> Value:
    result = np.empty((), dtype=object)
    result[()] = product(context.need(0).shape)
    return _value(context, result, "i64")


# ---- elementwise ------------------------------------------------------------


def _numeric(context: NodeContext) -> str:
    dtype = next(v for v in context.inputs if v is not None).dtype
    if dtype == "bf16":
        raise _Skip
    return dtype


def _elementwise(function: Callable) -> Callable:
    def rule(context, arrays):
        dtype = _numeric(context)
        if len(arrays) == 1 and function.__code__.co_argcount == 2:
            return arrays[0], dtype
        result = arrays[0]
        if function.__code__.co_argcount == 1:
            return function(result), dtype
        for other in arrays[1:]:
            result = function(result, other)
        return result, dtype

    return rule


def _each(function: Callable) -> Callable:
    """`function` on each pair of objects; numbers in arrays stay arrays."""
    return np.frompyfunc(function, function.__code__.co_argcount, 1)


def _divide(context, arrays):
    dtype = _numeric(context)
    a, b = arrays
    if dtype not in INTEGERS:
        if a.dtype == object or b.dtype == object:
            return _each(_float_quotient)(a, b), dtype
        return a / b, dtype
    return _each(_quotient)(a.astype(object), b.astype(object)), dtype


def _float_quotient(a, b):
    if isinstance(a, Affine) or isinstance(b, Affine):
        if not isinstance(b, Affine) and float(b) != int(b):
            raise NotAffine("a fraction")
        if isinstance(a, Affine) and not isinstance(b, Affine) and (a.offset % int(b) or a.scale % int(b)):
            raise NotAffine("a fraction")
        return a // (b if isinstance(b, Affine) else int(b))
    return a / b


def _quotient(a, b):
    if isinstance(a, Affine) or isinstance(b, Affine):
        # Rounds toward zero, as floor does where both are never negative.
        for size in (a, b):
            if isinstance(size, Affine) and size.bounds()[0] < 0 or not isinstance(size, Affine) and size < 0:
                raise NotAffine("a quotient of negative sizes")
        return a // b
    if b == 0:
        raise _Skip
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _modulo(context, arrays):
    dtype = _numeric(context)
    if dtype not in INTEGERS:
        raise _Skip
    remainder = (lambda a, b: _remainder(a, b)) if context.int("fmod") else (lambda a, b: _floor_mod(a, b))
    return _each(remainder)(arrays[0].astype(object), arrays[1].astype(object)), dtype


def _floor_mod(a, b):
    if not isinstance(b, Affine) and b == 0:
        raise _Skip
    return a % b


def _remainder(a, b):
    if not isinstance(b, Affine) and b == 0:
        raise _Skip
    return a % b if isinstance(a, Affine) else int(math.fmod(a, b)) if abs(a) < 1 << 53 else a - b * _quotient(a, b)


def _compare(function: Callable) -> Callable:
    def rule(context, arrays):
        _numeric(context)
        return _each(function)(arrays[0].astype(object), arrays[1].astype(object)), "i1"

    return rule


def _equal(a, b):
    difference = a - b if isinstance(a, Affine) or isinstance(b, Affine) else None
    if isinstance(difference, Affine):
        low, high = difference.bounds()
        if low <= 0 <= high:
            raise NotAffine(f"whether ({a}) = ({b}) depends on B")
        return False
    return bool(a == b) if difference is None else difference == 0


def _extreme(larger: bool) -> Callable:
    def function(a, b):
        if isinstance(a, float) and (a != a or b != b or a == b == 0):  # NaN and the sign of zero
            raise _Skip
        return (a if a > b else b) if larger else (a if a < b else b)

    return lambda context, arrays: (_fold_left(_each(function), [a.astype(object) for a in arrays]), _numeric(context))


def _fold_left(function, arrays):
    result = arrays[0]
    for other in arrays[1:]:
        result = function(result, other)
    return result


def _cast(context, arrays):
    number = context.int("to") if context.node.op_type == "Cast" else None
    target = DTYPES.get(number) if number is not None else context.need(1).dtype
    source = context.need(0).dtype
    if target is None or "bf16" in (target, source):
        raise _Skip
    array = arrays[0]
    if array.dtype == object and any(isinstance(e, Affine) for e in array.reshape(-1)):
        if target not in ("i32", "i64", "f32", "f64"):
            raise _Skip
        return array, target
    array = array.astype(STORAGE[source])
    if source not in INTEGERS and target in INTEGERS:
        low, high = np.iinfo(STORAGE[target]).min, np.iinfo(STORAGE[target]).max
        numbers = [0 if e != e else max(low, min(high, int(e) if math.isfinite(e) else (high if e > 0 else low)))
                   for e in array.reshape(-1).tolist()]
        return np.array(numbers, dtype=STORAGE[target]).reshape(array.shape), target
    return (array != 0) if target == "i1" else array.astype(STORAGE[target]), target


def _where(context, arrays):
    condition, a, b = arrays
    return np.where(condition.astype(bool), a, b), context.need(1).dtype


# ---- movement ---------------------------------------------------------------


def _gather(context, arrays):
    data, indices = arrays
    axis = context.axis(context.int("axis"), data.ndim)
    indices = indices.astype(np.int64)
    size = data.shape[axis]
    if indices.size and (indices.min() < -size or indices.max() >= size):
        raise _Skip
    return np.take(data, indices, axis=axis), context.need(0).dtype


def _concat(context, arrays):
    axis = context.axis(context.int("axis"), arrays[0].ndim)
    return np.concatenate(arrays, axis=axis), context.need(0).dtype


def _axes(context, arrays, index: int = 1):
    if context.has("axes"):
        return context.ints("axes")
    if len(arrays) > index and arrays[index] is not None:
        return [int(a) for a in arrays[index].reshape(-1)]
    return None


def _unsqueeze(context, arrays):
    axes = _axes(context, arrays) or []
    rank = arrays[0].ndim + len(axes)
    axes = context.axes(axes, rank)
    sizes = iter(arrays[0].shape)
    return arrays[0].reshape([1 if i in axes else next(sizes) for i in range(rank)]), context.need(0).dtype


def _squeeze(context, arrays):
    axes = _axes(context, arrays)
    data = arrays[0]
    axes = [i for i, s in enumerate(data.shape) if s == 1] if axes is None else context.axes(axes, data.ndim)
    if any(data.shape[a] != 1 for a in axes):
        raise _Skip
    return data.reshape([s for i, s in enumerate(data.shape) if i not in axes]), context.need(0).dtype


def _reshape(context, arrays):
    shape = [int(s) for s in arrays[1].reshape(-1)] if not context.need(1).symbolic else None
    if shape is None or context.int("allowzero") or arrays[0].size == 0:
        raise _Skip
    shape = [arrays[0].shape[i] if s == 0 and i < arrays[0].ndim else s for i, s in enumerate(shape)]
    try:
        return arrays[0].reshape(shape), context.need(0).dtype
    except ValueError:
        raise _Skip from None


def _slice(context, arrays):
    if context.opset < 10:
        starts, ends, axes, steps = context.ints("starts"), context.ints("ends"), context.ints("axes"), None
    else:
        starts, ends, axes, steps = ((list(a.reshape(-1)) if a is not None else None) for a in (arrays[1:] + [None] * 4)[:4])
    data = arrays[0]
    axes = list(range(len(starts))) if axes is None else context.axes(axes, data.ndim)
    steps = [1] * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps) or any(s == 0 for s in steps):
        raise _Skip
    index: list = [slice(None)] * data.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps):
        start, end, step = int_of(start), int_of(end), int_of(step)
        # Below -size a bound of a backward slice means before the first element.
        stop = None if step < 0 and end < -data.shape[axis] else end
        index[axis] = slice(start, stop, step)
    return data[tuple(index)], context.need(0).dtype


def int_of(value) -> int:
    """An element of a known tensor as an int; raises NotAffine for one that depends on the batch."""
    if isinstance(value, Affine):
        raise NotAffine(f"({value})")
    return int(value)


def _transpose(context, arrays):
    return np.transpose(arrays[0], context.ints("perm")), context.need(0).dtype


def _identity(context, arrays):
    return arrays[0], context.need(0).dtype


def _constant_of_shape(context, arrays):
    value = context.tensor("value")
    shape = [int_of(s) for s in arrays[0].reshape(-1)]
    dtype = value.dtype if value is not None else "f32"
    if dtype not in INTEGERS and dtype != "i1" or min(shape, default=0) < 0 or math.prod(shape) > MAX_ELEMENTS:
        raise _Skip
    return np.full(shape, 0 if value is None else value.data.reshape(-1)[0], dtype=STORAGE[dtype]), dtype


def _expand(context, arrays):
    shape = np.broadcast_shapes(arrays[0].shape, tuple(int_of(s) for s in arrays[1].reshape(-1)))
    if math.prod(shape) > MAX_ELEMENTS:
        raise _Skip
    return np.broadcast_to(arrays[0], shape), context.need(0).dtype


def _range(context, arrays):
    start, limit, delta = (int_of(a.reshape(-1)[0]) for a in arrays)
    dtype = context.need(0).dtype
    if dtype not in INTEGERS or delta == 0 or (limit - start) // delta > MAX_ELEMENTS:
        raise _Skip
    return np.arange(start, limit, delta, dtype=STORAGE[dtype]), dtype


def _reduce(function: Callable) -> Callable:
    def rule(context, arrays):
        data = arrays[0]
        dtype = context.need(0).dtype
        axes = _axes(context, arrays)
        if dtype not in INTEGERS or not axes and context.int("noop_with_empty_axes"):
            raise _Skip
        if data.ndim == 0 and axes and set(axes) <= {0, -1}:
            axes = ()
        axes = tuple(context.axes(axes, data.ndim)) if axes else tuple(range(data.ndim))
        result = function(data.astype(object), axes, bool(context.int("keepdims", 1)))
        return result, dtype

    return rule


def _split(context, arrays):
    data = arrays[0]
    axis = context.axis(context.int("axis"), data.ndim)
    sizes = context.ints("split")
    if sizes is None and len(arrays) > 1 and arrays[1] is not None:
        sizes = [int_of(s) for s in arrays[1].reshape(-1)]
    count = len(context.node.output)
    if sizes is None:
        if data.shape[axis] % count:
            raise _Skip
        sizes = [data.shape[axis] // count] * count
    if sum(sizes) != data.shape[axis] or len(sizes) != count:
        raise _Skip
    dtype = context.need(0).dtype
    return [(part, dtype) for part in np.split(data, np.cumsum(sizes)[:-1], axis=axis)]


def _unary_float(function: Callable) -> Callable:
    def rule(context, arrays):
        dtype = _numeric(context)
        if arrays[0].dtype == object:  # sizes are whole numbers already
            return arrays[0], dtype
        return function(arrays[0]), dtype

    return rule


_RULES: dict[str, Callable] = {
    "Add": _elementwise(lambda a, b: a + b),
    "Sub": _elementwise(lambda a, b: a - b),
    "Mul": _elementwise(lambda a, b: a * b),
    "Neg": _elementwise(lambda a: -a),
    "Div": _divide,
    "Mod": _modulo,
    "Max": _extreme(True),
    "Min": _extreme(False),
    "Floor": _unary_float(np.floor),
    "Ceil": _unary_float(np.ceil),
    "Equal": _compare(_equal),
    "Less": _compare(lambda a, b: a < b),
    "LessOrEqual": _compare(lambda a, b: a <= b),
    "Greater": _compare(lambda a, b: a > b),
    "GreaterOrEqual": _compare(lambda a, b: a >= b),
    "And": lambda context, arrays: (np.logical_and(*arrays), "i1"),
    "Or": lambda context, arrays: (np.logical_or(*arrays), "i1"),
    "Not": lambda context, arrays: (np.logical_not(arrays[0]), "i1"),
    "Cast": _cast,
    "CastLike": _cast,
    "Where": _where,
    "Gather": _gather,
    "Concat": _concat,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Reshape": _reshape,
    "Flatten": lambda context, arrays: (_flatten(context, arrays[0]), context.need(0).dtype),
    "Slice": _slice,
    "Transpose": _transpose,
    "Identity": _identity,
    "ConstantOfShape": _constant_of_shape,
    "Expand": _expand,
    "Range": _range,
    "Split": _split,
    "ReduceProd": _reduce(lambda a, axes, keep: np.prod(a, axis=axes, keepdims=keep)),
    "ReduceSum": _reduce(lambda a, axes, keep: np.sum(a, axis=axes, keepdims=keep)),
    "ReduceMax": _reduce(lambda a, axes, keep: np.max(a, axis=axes, keepdims=keep)),
    "ReduceMin": _reduce(lambda a, axes, keep: np.min(a, axis=axes, keepdims=keep)),
}


def _flatten(context, array):
    axis = context.int("axis", 1)
    axis = axis + array.ndim if axis < 0 else axis
    return array.reshape(math.prod(array.shape[:axis]), math.prod(array.shape[axis:]))

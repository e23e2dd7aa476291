# ===- generate.py - Tensors made from shapes and scalars -----------------=== #
#
# ConstantOfShape, Range, EyeLike and the window functions.
#
# ===----------------------------------------------------------------------=== #
"""Ops of ONNX that make tensors."""

from __future__ import annotations

import math

import numpy as np

from ....ir.affine import Affine, is_static
from ....ir.module import FLOATS
from ..context import NodeContext
from ..dtypes import DTYPES, type_name
from ..failure import BadNode, Unsupported
from ..registry import onnx_op


@onnx_op("ConstantOfShape")
def constant_of_shape(c: NodeContext):
    """One number of any shape; only the scalar is stored."""
    shape = c.sizes(0, "shape")
    if any(is_static(s) and s < 0 for s in shape):
        raise BadNode(f"the shape {shape} has a negative entry")
    value = c.tensor("value")
    if value is None:
        value = c.b.constant(0, "f32")
    if value.data.size != 1:
        raise BadNode("attribute 'value' has more than one element")
    return c.b.broadcast(c.b.reshape(value, ()), shape)


@onnx_op("Range")
def value_range(c: NodeContext):
    """start + i * delta; the number of elements must be known, possibly as a multiple of the batch."""
    b = c.b
    values = [c.need(i) for i in range(3)]
    for value, what in zip(values, ("start", "limit", "delta")):
        if value.data is None:
            raise Unsupported(f"the {what} depends on data")
        if value.data.size != 1:
            raise BadNode(f"the {what} isn't a scalar")
    start, limit, delta = (v.data.reshape(-1)[0] if v.symbolic else v.numbers.reshape(-1)[0] for v in values)
    dtype = values[0].dtype
    if isinstance(delta, Affine) or not math.isfinite(delta) or delta == 0:
        raise BadNode(f"the delta is {delta}")
    if isinstance(start, Affine) or isinstance(limit, Affine):
        if delta != 1:
            raise Unsupported("a range over the batch whose delta isn't 1")
        count = limit - start
    else:
        count = max(math.ceil((float(limit) - float(start)) / float(delta)), 0) if dtype in FLOATS else max(
            -((int(start) - int(limit)) // int(delta)), 0
        )
    steps = b.iota(dtype, [count], 0)
    if delta != 1:
        steps = b.binary("mul", steps, b.constant(delta, dtype))
    return steps if is_static(start) and start == 0 else b.binary("add", steps, b.reshape(values[0], ()))


@onnx_op("EyeLike")
def eye_like(c: NodeContext):
    b, x = c.b, c.need(0)
    if x.rank != 2:
        raise BadNode(f"its input has rank {x.rank}, 2 is needed")
    number = c.int("dtype") if c.has("dtype") else None
    if number is not None and number not in DTYPES:
        raise Unsupported(f"element type {type_name(number)}")
    dtype = x.dtype if number is None else DTYPES[number]
    c.static(x)
    row = b.binary("add", b.iota("i64", x.shape, 0), b.constant(c.int("k"), "i64"))
    return b.cast(b.compare("eq", b.iota("i64", x.shape, 1), row), dtype)


#: Coefficients of the cosine series.
_WINDOWS = {
    "HannWindow": (0.5, 0.5, 0.0),
    "HammingWindow": (25 / 46, 1 - 25 / 46, 0.0),
    "BlackmanWindow": (0.42, 0.5, 0.08),
}


@onnx_op(*_WINDOWS)
def window(c: NodeContext):
    sizes = c.static_sizes(0, "size")
    if len(sizes) != 1 or sizes[0] < 0 or sizes[0] > 1 << 24:
        raise BadNode(f"the size is {sizes}")
    number = c.int("output_datatype", 1)
    if number not in DTYPES:
        raise Unsupported(f"element type {type_name(number)}")
    first, second, third = _WINDOWS[c.node.op_type]
    count = sizes[0] if c.int("periodic", 1) else sizes[0] - 1
    angle = np.arange(sizes[0], dtype=np.float64) * (2 * np.pi / count) if count > 0 else np.zeros(sizes[0])
    return c.b.constant(first - second * np.cos(angle) + third * np.cos(2 * angle), DTYPES[number])


@onnx_op("MelWeightMatrix", since=17)
def mel_weight_matrix(c: NodeContext):
    """Triangles over the bins of a spectrum, equally wide on the mel scale: one column a triangle."""
    what = ("number of mel bins", "length of the transform", "sample rate", "lower edge", "upper edge")
    numbers = [c.array(i, text).reshape(-1) for i, text in enumerate(what)]
    if any(n.size != 1 for n in numbers):
        raise BadNode("an input isn't a scalar")
    columns, length, rate = (int(n[0]) for n in numbers[:3])
    low, high = (2595 * math.log10(1 + float(n[0]) / 700) for n in numbers[3:])
    if columns < 1 or length < 1 or rate < 1 or (length // 2 + 1) * columns > 1 << 24:
        raise BadNode(f"{columns} bins of a transform of {length} elements at rate {rate}")
    number = c.int("output_datatype", 1)
    if number not in DTYPES:
        raise Unsupported(f"element type {type_name(number)}")
    mel = low + np.arange(columns + 2) * ((high - low) / (columns + 2))
    edges = ((length + 1) * (700 * (10 ** (mel / 2595) - 1)) // rate).astype(np.int64)
    if edges.min() < 0 or edges.max() > length // 2:
        raise BadNode("the edges lie outside of the spectrum")
    matrix = np.zeros((length // 2 + 1, columns))
    for column in range(columns):
        begin, middle, end = edges[column : column + 3]
        rising = np.arange(begin, middle + 1)
        matrix[rising, column] = (rising - begin) / (middle - begin) if middle > begin else 1.0
        falling = np.arange(middle, end)
        matrix[falling, column] = (end - falling) / (end - middle) if end > middle else 0.0
    return c.b.constant(matrix, DTYPES[number])

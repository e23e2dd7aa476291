# ===- tensors.py - Tensors stored in a model ----------------------------=== #
#
# Turns a TensorProto into an array and checks that its bytes are exactly as many
# as its shape needs. Bytes in other files are mapped, never read whole.
#
# ===----------------------------------------------------------------------=== #
"""Arrays of the tensors that a model stores."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from ...errors import quote
from ...ir.module import STORAGE
from .dtypes import DTYPES, type_name
from .external import ExternalFiles
from .failure import BadModel, Unsupported

MAX_ELEMENTS = 1 << 48
MAX_RANK = 16

#: Which repeated field carries the elements when there is no raw_data.
_FIELDS = {
    "f32": "float_data",
    "f64": "double_data",
    "i64": "int64_data",
    "i32": "int32_data",
    "i8": "int32_data",
    "i1": "int32_data",
    "f16": "int32_data",
    "bf16": "int32_data",
}


def tensor_shape(tensor: TensorProto, what: str) -> tuple[int, ...]:
    """The checked dimensions."""
    shape = tuple(tensor.dims)
    if len(shape) > MAX_RANK:
        raise BadModel(f"{what} has rank {len(shape)}, more than {MAX_RANK}")
    count = 1
    for size in shape:
        if size < 0:
            raise BadModel(f"{what} has the negative dimension {size}")
        count *= size
    if count > MAX_ELEMENTS:
        raise BadModel(f"{what} has {count} elements, more than {MAX_ELEMENTS}")
    return shape


def tensor_array(tensor: TensorProto, what: str, files: ExternalFiles) -> tuple[np.ndarray, str]:
    """The elements and the element type; `what` names the tensor in errors.

    Raises Unsupported for an element type the dialect doesn't have, BadModel for
    a tensor that breaks its own description.
    """
    if tensor.data_type not in DTYPES:
        raise Unsupported(f"{what} has element type {type_name(tensor.data_type)}")
    if tensor.HasField("segment"):
        raise Unsupported(f"{what} is stored in segments")
    dtype = DTYPES[tensor.data_type]
    storage = STORAGE[dtype]
    shape = tensor_shape(tensor, what)
    count = int(np.prod(shape, dtype=object)) if shape else 1
    size = count * storage.itemsize
    fields = [f for f in ("float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")
              if len(getattr(tensor, f))]
    if tensor.data_location == TensorProto.EXTERNAL:
        if tensor.HasField("raw_data") or fields:
            raise BadModel(f"{what} has data both in the model and in another file")
        buffer = files.map(tensor, size, what)
    elif tensor.HasField("raw_data"):
        if fields:
            raise BadModel(f"{what} has both raw_data and {fields[0]}")
        buffer = tensor.raw_data
        if len(buffer) != size:
            raise BadModel(f"{what} has {len(buffer)} bytes of raw_data, its shape {list(shape)} needs {size}")
    else:
        return _typed_elements(tensor, what, dtype, shape, count, fields), dtype
    array = np.frombuffer(buffer, dtype=np.uint8, count=size)
    if dtype == "i1":
        if array.size and array.max() > 1:
            raise BadModel(f"{what} is bool but has a byte that is neither 0 nor 1")
        return array.view(np.bool_).reshape(shape), dtype
    return array.view(storage).reshape(shape), dtype


def _typed_elements(tensor, what, dtype, shape, count, fields) -> np.ndarray:
    field = _FIELDS[dtype]
    if any(f != field for f in fields):
        raise BadModel(f"{what} is {dtype} but has its data in {next(f for f in fields if f != field)}")
    numbers = getattr(tensor, field)
    if len(numbers) != count:
        raise BadModel(f"{what} has {len(numbers)} elements in {field}, its shape {list(shape)} needs {count}")
    if dtype in ("f16", "bf16"):
        array = np.array(numbers, dtype=np.int64)
        if array.size and (array.min() < 0 or array.max() > 0xFFFF):
            raise BadModel(f"{what} is {dtype} but has an element outside of 16 bits")
        return array.astype("<u2").view(STORAGE[dtype]).reshape(shape)
    array = np.array(numbers, dtype=np.int64 if field != "float_data" and field != "double_data" else STORAGE[dtype])
    if dtype in ("i8", "i1"):
        low, high = (-128, 127) if dtype == "i8" else (0, 1)
        if array.size and (array.min() < low or array.max() > high):
            raise BadModel(f"{what} is {type_name(tensor.data_type)} but has an element outside of [{low}, {high}]")
    return array.astype(STORAGE[dtype]).reshape(shape)


def tensor_label(tensor: TensorProto) -> str:
    return f"tensor {quote(tensor.name)}"

# ===- dtypes.py - ONNX element types ------------------------------------=== #
#
# Which element types of ONNX the dialect has, and the names of the others for
# error texts.
#
# ===----------------------------------------------------------------------=== #
"""Element types of ONNX and of the dialect."""

from __future__ import annotations

from onnx import TensorProto

#: TensorProto.DataType -> element type of the dialect.
DTYPES = {
    TensorProto.FLOAT: "f32",
    TensorProto.DOUBLE: "f64",
    TensorProto.FLOAT16: "f16",
    TensorProto.BFLOAT16: "bf16",
    TensorProto.BOOL: "i1",
    TensorProto.INT8: "i8",
    TensorProto.INT32: "i32",
    TensorProto.INT64: "i64",
}

#: Element type of the dialect -> the name that ONNX's schemas use.
SCHEMA_NAMES = {
    "f32": "tensor(float)",
    "f64": "tensor(double)",
    "f16": "tensor(float16)",
    "bf16": "tensor(bfloat16)",
    "i1": "tensor(bool)",
    "i8": "tensor(int8)",
    "i32": "tensor(int32)",
    "i64": "tensor(int64)",
}


def type_name(data_type: int) -> str:
    """The lower-case name of a TensorProto.DataType, also of one that doesn't exist."""
    try:
        return TensorProto.DataType.Name(data_type).lower()
    except ValueError:
        return f"number {data_type}"

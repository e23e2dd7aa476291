# ===- module.py - A module as plain data --------------------------------=== #
#
# Values, ops, parameters and the function that holds them. Nothing here knows
# where a model came from; builder.py makes ops, text.py prints them.
#
# ===----------------------------------------------------------------------=== #
"""The data structures of a module."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional

import numpy as np

from .affine import Affine, Size

#: Element types of the dialect and the numpy type that carries their bytes;
#: bf16 travels as its 16 bits.
STORAGE = {
    "f64": np.dtype("<f8"),
    "f32": np.dtype("<f4"),
    "f16": np.dtype("<f2"),
    "bf16": np.dtype("<u2"),
    "i1": np.dtype("?"),
    "i8": np.dtype("i1"),
    "i32": np.dtype("<i4"),
    "i64": np.dtype("<i8"),
}
FLOATS = ("f64", "f32", "f16", "bf16")
INTEGERS = ("i8", "i32", "i64")


def float_to_bits16(values: np.ndarray) -> np.ndarray:
    """f32 values rounded to nearest even bf16, as their 16 bits."""
    bits = np.asarray(values, dtype="<f4").view("<u4").astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    quiet = (bits >> 16) | 0x40
    return np.where(np.isnan(values), quiet, rounded).astype("<u2")


def bits16_to_float(bits: np.ndarray) -> np.ndarray:
    """bf16 bits as the equal f32 values."""
    return (np.asarray(bits).astype("<u4") << 16).view("<f4")


class Value:
    """A tensor: an argument, the result of an op, or data known at import.

    `data` holds the elements when they are known: an array of STORAGE[dtype], or
    an object array of sizes when some element depends on the batch. Known data
    have no op until the builder needs one.
    """

    __slots__ = ("dtype", "shape", "data", "name", "op", "loc", "key")

    def __init__(self, dtype: str, shape, data: Optional[np.ndarray] = None, name: str = "", loc: str = ""):
        self.dtype = dtype
        self.shape: tuple[Size, ...] = tuple(shape)
        self.data = data
        self.name = name  # SSA name, set by the printer or for arguments
        self.op: Optional[Op] = None
        self.loc = loc
        self.key = ""  # name of the model's tensor, when it has one

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def symbolic(self) -> bool:
        """Known, with an element that depends on the batch."""
        return self.data is not None and self.data.dtype == object

    @property
    def constant(self) -> bool:
        """Known and the same for every batch."""
        return self.data is not None and self.data.dtype != object

    @property
    def numbers(self) -> np.ndarray:
        """The elements of a constant as ordinary numbers (bf16 as f32)."""
        return bits16_to_float(self.data) if self.dtype == "bf16" else self.data

    @property
    def dynamic(self) -> bool:
        """Whether some dimension depends on the batch."""
        return any(isinstance(s, Affine) for s in self.shape)

    def __repr__(self) -> str:
        return f"tensor<{'x'.join([str(s) for s in self.shape] + [self.dtype])}>"


@dataclass
class Op:
    """One op of the dialect; `attrs` holds what its assembly format prints."""

    name: str
    operands: list[Value]
    results: list[Value]
    attrs: dict[str, Any]
    loc: str

    def __hash__(self) -> int:
        return id(self)


@dataclass
class Parameter:
    """A constant that lives in the safetensors file under `key`."""

    symbol: str
    key: str
    dtype: str
    shape: tuple[int, ...]
    data: np.ndarray


@dataclass
class Module:
    """A function @main over tensors, and its parameters."""

    arguments: list[Value] = field(default_factory=list)
    argument_names: list[str] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    results: list[Value] = field(default_factory=list)
    result_names: list[str] = field(default_factory=list)
    #: Attributes beside the name as MLIR text, such as {"fusion.role": '"data"'}; by position, may be shorter.
    argument_attributes: list[dict[str, str]] = field(default_factory=list)
    result_attributes: list[dict[str, str]] = field(default_factory=list)
    parameters: list[Parameter] = field(default_factory=list)
    batch: Optional[tuple[int, int]] = None

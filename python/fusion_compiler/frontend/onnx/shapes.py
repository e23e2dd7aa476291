# ===- shapes.py - Shapes of the model's inputs --------------------------=== #
#
# Decides the shape of each input from the model's declaration and the options
# --batch, --dynamic-batch and --input-shape, and makes the arguments.
#
# ===----------------------------------------------------------------------=== #
"""Shapes of the model's inputs, as the options fix them."""

from __future__ import annotations

import re
from typing import Optional

import numpy as np

from ...errors import USAGE, FusionError, quote
from ...ir.affine import Affine, Size
from ...ir.module import STORAGE, Value
from .dtypes import DTYPES, type_name
from .failure import BadModel
from .tensors import MAX_ELEMENTS, MAX_RANK

BATCH_SYMBOL = "B"


class InputShapes:
    """The options that fix input shapes.

    `batch` is the fixed leading size, `(low, high)` a batch known at run time;
    `shapes` maps an input to its sizes, where BATCH_SYMBOL stands for the batch;
    `constants` maps an input to an array that replaces it.
    """

    def __init__(self, batch: Optional[int] = None, dynamic: Optional[tuple[int, int]] = None,
                 shapes: Optional[dict[str, list]] = None, constants: Optional[dict[str, np.ndarray]] = None):
        if dynamic is not None and dynamic[0] == dynamic[1]:
            batch, dynamic = dynamic[0], None
        self.fixed = batch
        self.batch = dynamic
        self.shapes = shapes or {}
        self.constants = constants or {}
        self.used_batch = False

    @property
    def _symbol(self) -> Optional[Size]:
        if self.batch is not None:
            return Affine(1, 0, *self.batch)
        return self.fixed

    def arguments(self, graph, known: set[str]):
        """Yields for each input that isn't an initializer its name and value, or the reason it can't be one."""
        inputs = [v for v in graph.input if v.name not in known]
        names = {v.name for v in inputs}
        for option, given in (("--input-shape", self.shapes), ("--constant-input", self.constants)):
            for name in given:
                if name not in names:
                    listed = ", ".join(quote(n) for n in sorted(names)) or "none"
                    raise FusionError(f"{option}: the model has no input {quote(name)}; its inputs are {listed}", USAGE)
        taken: set[str] = set()
        for info in inputs:
            label = f"input {quote(info.name)}"
            if info.type.WhichOneof("value") != "tensor_type":
                yield f"{label} isn't a tensor but a {info.type.WhichOneof('value') or 'value without a type'}"
                continue
            declared = info.type.tensor_type
            if declared.elem_type not in DTYPES:
                yield f"{label} has element type {type_name(declared.elem_type)}"
                continue
            dtype = DTYPES[declared.elem_type]
            if info.name in self.constants:
                yield info.name, self._constant(info.name, dtype, label)
                continue
            value = Value(dtype, self._shape(info.name, declared, label), loc=info.name)
            value.name = _identifier(info.name, taken)
            yield info.name, value
        if self._symbol is not None and not self.used_batch:
            option = "--batch" if self.batch is None else "--dynamic-batch"
            raise FusionError(
                f"{option}: no input has a free leading dimension; name one with --input-shape NAME=B,...", USAGE
            )

    def _constant(self, name: str, dtype: str, label: str) -> Value:
        array = self.constants[name]
        if array.dtype != STORAGE[dtype]:
            raise FusionError(f"--constant-input: {label} is {dtype}, the file holds {array.dtype}", USAGE)
        value = Value(dtype, array.shape, np.asarray(array, order="C"), loc=name)
        value.key = name
        return value

    def _shape(self, name: str, declared, label: str) -> list[Size]:
        dims: list[Optional[int]] = []
        if declared.HasField("shape"):
            for dim in declared.shape.dim:
                # Some exporters write -1 for a size that they don't know.
                fixed = dim.HasField("dim_value") and dim.dim_value >= 0
                dims.append(dim.dim_value if fixed else None)
        elif name not in self.shapes:
            raise FusionError(f"{label} has no shape in the model; give --input-shape {name}=...", USAGE)
        if name in self.shapes:
            return self._checked(self._given(name, dims if declared.HasField("shape") else None, label), label)
        result: list[Size] = []
        for index, size in enumerate(dims):
            if index == 0 and self._symbol is not None and (size is None or size == self.fixed):
                size = self._symbol
                self.used_batch = True
            if size is None:
                what = "--batch N or " if index == 0 else ""
                raise FusionError(
                    f"{label} has no size for dimension {index}; give {what}--input-shape {name}=...", USAGE
                )
            result.append(size)
        return self._checked(result, label)

    def _given(self, name: str, dims, label: str) -> list[Size]:
        given = self.shapes[name]
        if dims is not None and len(given) != len(dims):
            raise FusionError(
                f"--input-shape: {label} has {len(dims)} dimensions, {len(given)} are given", USAGE
            )
        result: list[Size] = []
        for index, size in enumerate(given):
            if size == BATCH_SYMBOL:
                if self._symbol is None:
                    raise FusionError("--input-shape: B needs --dynamic-batch=LOW..HIGH or --batch N", USAGE)
                self.used_batch = True
                result.append(self._symbol)
                continue
            if dims is not None and dims[index] not in (None, size):
                raise FusionError(
                    f"--input-shape: {label} has the fixed dimension {dims[index]} at {index}, not {size}", USAGE
                )
            result.append(size)
        return result

    @staticmethod
    def _checked(shape: list[Size], label: str) -> list[Size]:
        if len(shape) > MAX_RANK:
            raise BadModel(f"{label} has rank {len(shape)}, more than {MAX_RANK}")
        count = 1
        for size in shape:
            count *= size.bounds()[1] if isinstance(size, Affine) else size
        if count > MAX_ELEMENTS:
            raise BadModel(f"{label} has {count} elements, more than {MAX_ELEMENTS}")
        return shape


def _identifier(name: str, taken: set[str]) -> str:
    """An SSA name that looks like the model's name."""
    base = re.sub(r"[^A-Za-z0-9_$.]", "_", name)[:64]
    if not base or base[0].isdigit():
        base = "arg_" + base
    result, count = base, 0
    while result in taken:
        count += 1
        result = f"{base}_{count}"
    taken.add(result)
    return result

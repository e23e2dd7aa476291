# ===- workload.py - What one row of a suite is ---------------------------=== #
#
# A workload is a program in the dialect and the same computation for the others:
# numpy (the oracle of small sizes), PyTorch (a peer, and in f64 the oracle on the
# GPU) and JAX. Its weights come from a counter-based stream of bits, so that a
# module compiled elsewhere and a peer that runs here hold the same numbers.
#
# ===----------------------------------------------------------------------=== #
"""Workloads: tensors, programs, and how their results are judged."""

from __future__ import annotations

import math
import os
import zlib
from dataclasses import dataclass, field
from typing import Any, Callable, Optional, Sequence

import numpy as np

from ..ir.module import STORAGE, Parameter, bits16_to_float, float_to_bits16
from ..weights import AtomicFile, write_safetensors

#: Bytes of an element.
WIDTH = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2}
#: Unit roundoff: half the distance from 1 to the next number.
ROUNDOFF = {"f64": 2.0**-53, "f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}


@dataclass(frozen=True)
class Tensor:
    """A named tensor of static shape. `scale` bounds the random numbers a weight or input is filled with."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    scale: float = 1.0
    offset: float = 0.0

    @property
    def type(self) -> str:
        return f"tensor<{''.join(f'{size}x' for size in self.shape)}{self.dtype}>"

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.count * WIDTH[self.dtype]

    def weights(self, workload: str) -> np.ndarray:
        """The numbers of this tensor as a weight of `workload`: STORAGE's type, the same on every machine.

        Uniform in offset +- scale, from the raw output of PCG64, which numpy promises to keep.
        """
        seed = zlib.crc32(f"{workload}/{self.name}".encode())
        raw = np.random.PCG64(seed).random_raw(self.count)
        unit = (raw >> np.uint64(40)).astype(np.float64) / 2.0**23 - 1
        values = (self.offset + self.scale * unit).reshape(self.shape)
        return float_to_bits16(values) if self.dtype == "bf16" else values.astype(STORAGE[self.dtype])


def to_float64(array: np.ndarray, dtype: str) -> np.ndarray:
    """An array of STORAGE's type as numbers."""
    return (bits16_to_float(array) if dtype == "bf16" else array).astype(np.float64)


def from_float(values: np.ndarray, dtype: str) -> np.ndarray:
    """Numbers as an array of STORAGE's type, rounded once."""
    if dtype == "bf16":
        return float_to_bits16(np.asarray(values, dtype=np.float32))
    return np.asarray(values).astype(STORAGE[dtype])


@dataclass(frozen=True)
class Tolerance:
    """|got - want| <= relative |want| + absolute + the workload's own slack (docs/tolerances.md).

    All zero: equal to the correctly rounded result.
    """

    relative: float = 0.0
    absolute: float = 0.0

    @staticmethod
    def formula(dtype: str) -> "Tolerance":
        """The row `formulas of several roundings`."""
        relative = {"f64": 1e-10, "f32": 5.2e-6, "f16": 4e-3, "bf16": 1.6e-2}[dtype]
        return Tolerance(relative, 1e-12 if dtype == "f64" else 1e-5)


@dataclass
class Workload:
    """One row. Callables take the inputs in order (and what `weights` gives them):

    - ``body``: lines of the function; values are %input names and %weight names
    - ``numpy(inputs, weights)`` -> list of f64 arrays, from f64 arrays
    - ``torch(weights)`` -> a callable or nn.Module of the inputs, giving a tuple; works in any element type
    - ``jax(weights)`` -> a callable of the inputs, giving a tuple
    - ``slack(torch, inputs, weights)`` -> for each result a tensor or number added to the tolerance, in f64
    - ``limit``: which figure bounds this row (limits.py), with its arguments
    """

    name: str
    title: str
    inputs: Sequence[Tensor]
    results: Sequence[Tensor]
    body: Sequence[str]
    returned: Sequence[str]
    numpy: Callable
    torch: Callable
    jax: Callable
    tolerance: Tolerance
    weights: Sequence[Tensor] = ()
    slack: Optional[Callable] = None
    limit: Optional[tuple[str, dict[str, Any]]] = None
    bars: Sequence[Any] = ()
    warm_bars: Sequence[Any] = ()  # with the data in the cache, for what fits
    graph_bars: Sequence[Any] = ()  # so, and several runs in one graph, for what is short
    flops: float = 0.0
    options: Sequence[str] = field(default_factory=tuple)  # further ones for the compiler
    freezing: bool = False  # peers may treat weights as constants

    @property
    def bytes(self) -> int:
        """Each input and weight read once, each result written once."""
        return sum(t.bytes for t in (*self.inputs, *self.weights, *self.results))

    def text(self, weights_file: str) -> str:
        """The program; its weights are in `weights_file`, a name in the same folder."""
        lines = [f'fusion.parameter @{w.name} const "{weights_file}" key "{w.name}" : {w.type}' for w in self.weights]
        arguments = ", ".join(f'%{t.name}: {t.type} {{fusion.name = "{t.name}"}}' for t in self.inputs)
        results = ", ".join(f'{t.type} {{fusion.name = "{t.name}"}}' for t in self.results)
        lines.append(f"func.func @main({arguments}) -> ({results}) {{")
        lines += [f"  %{w.name} = fusion.get_parameter @{w.name} : {w.type}" for w in self.weights]
        lines += ["  " + line for line in self.body]
        types = ", ".join(t.type for t in self.results)
        lines += [f"  return {', '.join(self.returned)} : {types}", "}", ""]
        return "\n".join(lines)

    def write(self, folder: str) -> str:
        """Writes NAME.mlir and, with weights, NAME.safetensors; returns the program's path. Raises FusionError."""
        path = os.path.join(folder, self.name + ".mlir")
        weights_file = self.name + ".safetensors"
        if self.weights:
            parameters = [Parameter(w.name, w.name, w.dtype, w.shape, w.weights(self.name)) for w in self.weights]
            _write(os.path.join(folder, weights_file), lambda file: write_safetensors(file, parameters))
        _write(path, lambda file: file.write(self.text(weights_file).encode()))
        return path


def _write(path: str, write: Callable) -> None:
    output = AtomicFile(path)
    output.fill(write)
    output.commit()

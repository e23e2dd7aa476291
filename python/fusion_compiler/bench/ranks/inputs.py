# ===- inputs.py - The numbers that modules run on --------------------------=== #
#
# Files of random numbers, made where they are used. All of one kind are cut from one
# block of a million numbers that are rounded once, from a place that the argument's name
# gives: a step of a large model has more of them than one wants to wait for.
#
# ===----------------------------------------------------------------------=== #
"""Writes the input files of modules."""

from __future__ import annotations

import hashlib
import os
import zlib
from typing import Sequence

import numpy as np

from ...ir.module import STORAGE, float_to_bits16
from .programs import Input

_BLOCK = (1 << 20) - 3  # odd, so that rows of matrices differ
#: The largest of "integers", which their sums over few ranks keep exact in bf16.
LARGEST = 4


def _block(x: Input) -> np.ndarray:
    """_BLOCK numbers of the kind, in the storage of the type."""
    random = np.random.default_rng(zlib.crc32(f"{x.dtype} {x.fill} {x.scale}".encode()))
    if x.fill == "below":
        numbers = random.integers(0, int(x.scale), _BLOCK).astype(np.float64)
    elif x.fill == "integers":
        numbers = random.integers(-LARGEST, LARGEST + 1, _BLOCK).astype(np.float64)
    elif x.fill == "one":
        numbers = np.full(_BLOCK, x.scale)
    elif x.fill == "square":
        numbers = np.square(random.standard_normal(_BLOCK) * x.scale) + 1e-8
    else:
        numbers = random.standard_normal(_BLOCK) * x.scale + (1.0 if x.fill == "near one" else 0.0)
    return float_to_bits16(numbers) if x.dtype == "bf16" else numbers.astype(STORAGE[x.dtype])


class Files:
    """Input files in a folder, each written once."""

    def __init__(self, folder: str):
        self._folder = folder
        self._blocks: dict[tuple, np.ndarray] = {}

    def array(self, x: Input, rank: int = 0) -> np.ndarray:
        """The numbers of an argument, on that rank where ranks have their own."""
        key = (x.dtype, x.fill, x.scale)
        if key not in self._blocks:
            self._blocks[key] = _block(x)
        start = zlib.crc32(f"{x.name} {rank if x.per_rank else 0}".encode()) % _BLOCK
        size = int(np.prod(x.shape, dtype=np.int64))
        return np.resize(np.roll(self._blocks[key], -start), size).reshape(x.shape)

    def path(self, x: Input, rank: int = 0) -> str:
        rank = rank if x.per_rank else 0
        name = hashlib.sha256(f"{x.name} {x.type} {x.fill} {x.scale} {rank}".encode()).hexdigest()[:24]
        path = os.path.join(self._folder, name + ".npy")
        if not os.path.exists(path):
            np.save(path, self.array(x, rank))
        return path

    def words(self, inputs: Sequence[Input], ranks: int) -> list[str]:
        """The options of fusion-run that name the files."""
        result = []
        for x in inputs:
            for rank in range(ranks if x.per_rank else 1):
                which = f"{x.name}@{rank}" if x.per_rank else x.name
                result += ["--input", f"{which}={self.path(x, rank)}"]
        return result

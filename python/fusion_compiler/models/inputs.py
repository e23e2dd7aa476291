# ===- inputs.py - Random arguments of a training step --------------------=== #
#
# .npy files by argument name: normal data and weights scaled by their fan-in, ones and
# zeros where a model starts from them, or small integers for exact results.
#
# ===----------------------------------------------------------------------=== #
"""Arguments for trying a step."""

from __future__ import annotations

import os

import numpy as np

from ..errors import USAGE, FusionError
from ..ir.module import STORAGE, Module, float_to_bits16
from .model import Model


def make_inputs(module: Module, model: Model, seed: int, integers: bool = False) -> dict[str, np.ndarray]:
    """An array for each argument; the first step of training, `lr` 1/1024 (1 with integers)."""
    random = np.random.default_rng(seed)
    initial = {p.name: p.initial for p in model.parameters} | {s.name: s.initial for s in model.statistics}
    labels = {"labels": model.sizes.classes if "classes" in _class_sizes(model) else model.sizes.vocab,
              "tokens": model.sizes.vocab}
    result = {}
    for value, name, attributes in zip(module.arguments, module.argument_names, module.argument_attributes):
        role, shape, dtype = attributes["fusion.role"].strip('"'), value.shape, STORAGE[value.dtype]
        if name == "step":
            array = np.array(1)
        elif name == "lr":
            array = np.array(1.0 if integers else 2.0**-10)
        elif name in labels and role == "data":
            array = random.integers(0, labels[name], shape)
        elif role == "state":
            array = np.full(shape, 1.0 if initial.get(name) == "ones" else 0.0)
        elif integers:
            array = random.integers(-2, 3, shape)
        elif role == "data":
            array = random.standard_normal(shape)
        elif initial[name] != "normal":
            # Not quite where training starts, so that gradients tell parameters apart.
            array = (1.0 if initial[name] == "ones" else 0.0) + 0.1 * random.standard_normal(shape)
        else:
            fan_in = max(int(np.prod(shape[1:])) if len(shape) == 4 else shape[0], 1)
            array = random.standard_normal(shape) / np.sqrt(fan_in if "embedding" not in name else 1)
        array = np.asarray(array)
        bits = value.dtype == "bf16"
        result[name] = (float_to_bits16(array) if bits else array.astype(dtype)).reshape(shape)
    return result


def _class_sizes(model: Model) -> set[str]:
    """Which size bounds the labels."""
    return {"classes"} if any(name == "x" for name, _, _ in model.data) else {"vocab"}


def write_inputs(module: Module, model: Model, folder: str, seed: int, integers: bool) -> None:
    """One file an argument. Raises FusionError 2."""
    try:
        os.makedirs(folder, exist_ok=True)
        for name, array in make_inputs(module, model, seed, integers).items():
            np.save(os.path.join(folder, name + ".npy"), array)
    except OSError as error:
        raise FusionError(f"--write-inputs: {folder}: can't be written: {error.strerror or error}", USAGE) from error

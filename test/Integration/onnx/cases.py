# ===- cases.py - The node cases of the ONNX project ------------------------=== #
#
# Each case is a folder with model.onnx and test_data_set_N/{input,output}_N.pb.
# This file finds and reads them and compares results; run_cases.py runs them.
#
# ===----------------------------------------------------------------------=== #
"""Reads the node cases and compares results with what they expect."""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from fusion_compiler.frontend.onnx.dtypes import DTYPES
from fusion_compiler.frontend.onnx.external import ExternalFiles
from fusion_compiler.frontend.onnx.tensors import tensor_array
from fusion_compiler.ir.module import STORAGE, bits16_to_float

#: Where Debian's libonnx-testdata puts the node cases.
DEFAULT_DATA = Path("/usr/lib/python3/dist-packages/onnx/backend/test/data/node")

#: Inputs that decide a shape. The cases pass them at run time; a graph with static shapes can only take
#: them as constants, which is what --constant-input is for.
SHAPE_OPERANDS = {
    "BlackmanWindow": (0,), "CenterCropPad": (1,), "Compress": (1,), "ConstantOfShape": (0,), "CumSum": (1,),
    "DFT": (1, 2), "Dropout": (1, 2), "Expand": (1,), "HammingWindow": (0,), "HannWindow": (0,), "If": (0,),
    "MaxUnpool": (2,), "MelWeightMatrix": (0, 1, 2, 3, 4), "OneHot": (1,), "Pad": (1, 3), "Range": (0, 1, 2), "ReduceMax": (1,), "ReduceSum": (1,),
    "Reshape": (1,), "Resize": (1, 2, 3), "STFT": (1, 3), "Slice": (1, 2, 3, 4), "Split": (1,), "Squeeze": (1,),
    "Tile": (1,), "TopK": (1,), "Unsqueeze": (1,), "Upsample": (1,),
}

#: Relative and absolute tolerance by element type: that of composite ops, docs/tolerances.md. The expected
#: values were computed in the type itself, so f64 allows what a different order of summation changes.
TOLERANCES = {"f64": (1e-10, 1e-12), "f32": (1.04e-5, 1e-5), "f16": (4e-3, 1e-5), "bf16": (1.6e-2, 1e-5)}


@dataclass
class Tensor:
    """An input or expected output; the array is None for what isn't a tensor of the dialect."""

    name: str
    dtype: str
    array: np.ndarray | None


@dataclass
class Case:
    """One case: the model, its inputs and expected outputs of the first data set."""

    name: str
    model: Path
    inputs: list[Tensor]
    outputs: list[Tensor]
    constants: list[str]


def _read(path: Path, dtype: str) -> np.ndarray | None:
    """The tensor in a .pb file as an array of STORAGE[dtype]; bf16 may be stored as 16-bit integers."""
    if not path.exists():
        return None
    tensor = onnx.TensorProto.FromString(path.read_bytes())
    if dtype == "bf16" and tensor.data_type == onnx.TensorProto.UINT16:
        tensor.data_type = onnx.TensorProto.BFLOAT16
    try:
        array, stored = tensor_array(tensor, path.name, ExternalFiles("/nonexistent"))
    except Exception:  # a string, a sequence, an unsigned integer: the case is for another runtime
        return None
    return np.array(array) if stored == dtype else None


def _tensors(values, folder: Path, kind: str) -> list[Tensor]:
    result = []
    for index, info in enumerate(values):
        dtype = DTYPES.get(info.type.tensor_type.elem_type, "")
        is_tensor = info.type.WhichOneof("value") == "tensor_type" and dtype
        result.append(Tensor(info.name, dtype, _read(folder / f"{kind}_{index}.pb", dtype) if is_tensor else None))
    return result


def load(folder: Path) -> Case:
    """Reads a case."""
    graph = onnx.load(folder / "model.onnx", load_external_data=False).graph
    stored = {t.name for t in graph.initializer}
    data = folder / "test_data_set_0"
    inputs = _tensors([v for v in graph.input if v.name not in stored], data, "input")
    known = {t.name for t in inputs if t.array is not None}
    constants = []
    for node in graph.node:
        for index in SHAPE_OPERANDS.get(node.op_type, ()):
            name = node.input[index] if index < len(node.input) else ""
            if name in known and name not in constants:
                constants.append(name)
    return Case(folder.name, folder / "model.onnx", inputs, _tensors(graph.output, data, "output"), constants)


def difference(got: np.ndarray, expected: Tensor) -> str:
    """Why the result isn't the expected one, or nothing. All elements count; NaN must meet NaN."""
    want = expected.array
    if got.dtype != STORAGE[expected.dtype] or got.shape != want.shape:
        return f"output {expected.name}: expected {want.dtype}{list(want.shape)}, got {got.dtype}{list(got.shape)}"
    if expected.dtype not in TOLERANCES:
        wrong = got != want
        return f"output {expected.name}: {int(wrong.sum())} of {wrong.size} elements differ" if wrong.any() else ""
    if expected.dtype == "bf16":
        got, want = bits16_to_float(got), bits16_to_float(want)
    got, want = got.astype(np.float64), want.astype(np.float64)
    relative, absolute = TOLERANCES[expected.dtype]
    with np.errstate(invalid="ignore"):
        close = (got == want) | (np.abs(got - want) <= absolute + relative * np.abs(want))
    close |= np.isnan(got) & np.isnan(want)
    if close.all():
        return ""
    with np.errstate(invalid="ignore"):
        worst = np.nanmax(np.where(close, 0, np.abs(got - want)), initial=0)
    return f"output {expected.name}: {int((~close).sum())} of {close.size} elements differ, by up to {worst:.3g}"


class Skips:
    """The skip file: lines `pattern: reason`; # starts a comment. Patterns are those of the shell."""

    def __init__(self, path: Path):
        self.path = path
        self.entries: list[tuple[str, str, int]] = []
        self.used: set[int] = set()
        for number, line in enumerate(path.read_text().splitlines(), 1):
            line = line.split("#", 1)[0].strip()
            if not line:
                continue
            match = re.fullmatch(r"([^:\s]+):\s+(\S.*)", line)
            if not match:
                raise SystemExit(f"error: {path}:{number}: a line is 'pattern: reason'")
            self.entries.append((match[1], match[2], number))

    def reason(self, name: str) -> str:
        """The reason to skip the case, or nothing."""
        for pattern, reason, number in self.entries:
            if fnmatch.fnmatchcase(name, pattern):
                self.used.add(number)
                return reason
        return ""

    def unused(self) -> list[str]:
        """Patterns that matched no case."""
        return [f"{self.path.name}:{n}: {p} matches no case" for p, _, n in self.entries if n not in self.used]

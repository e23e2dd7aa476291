# ===- conftest.py - What the Python tests share ---------------------------=== #
#
# Small models built on the spot, the command line run in this process, and the
# compiled tools where they are built (FUSION_BIN, else build/dev/bin).
#
# ===----------------------------------------------------------------------=== #
"""Fixtures of the Python tests."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from fusion_compiler.cli import main

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("FUSION_BIN", ROOT / "build/dev/bin"))


def value(name: str, shape, element: int = TensorProto.FLOAT):
    """A graph input or output."""
    return helper.make_tensor_value_info(name, element, shape)


def tensor(name: str, array) -> TensorProto:
    return onnx.numpy_helper.from_array(np.asarray(array), name)


def model(nodes, inputs, outputs, initializers=(), opset: int = 17, functions=(), domains=()) -> onnx.ModelProto:
    """A model of one graph; inputs and outputs are value infos."""
    graph = helper.make_graph(list(nodes), "g", list(inputs), list(outputs), list(initializers))
    imports = [helper.make_opsetid("", opset)] + [helper.make_opsetid(d, v) for d, v in domains]
    result = helper.make_model(graph, opset_imports=imports, functions=list(functions))
    result.ir_version = 8
    return result


def unary(op: str, shape=(2, 3), opset: int = 17, **attributes) -> onnx.ModelProto:
    """A model of one op of one operand."""
    return model([helper.make_node(op, ["x"], ["y"], name="the_node", **attributes)], [value("x", shape)],
                 [value("y", None)], opset=opset)


class Imported:
    """What a run of fusion-import left behind."""

    def __init__(self, code: int, error: str, output: Path):
        self.code, self.error, self.output = code, error, output

    @property
    def text(self) -> str:
        return self.output.read_text()

    def ops(self) -> list[str]:
        """Names of the ops in order."""
        return [line.split("fusion.", 1)[1].split(" ", 1)[0] for line in self.text.splitlines() if " = fusion." in line]


@pytest.fixture
def run_import(tmp_path, capsys):
    """Imports a model (or a path) through the command line; never lets an exception through."""

    def run(source, *options: str) -> Imported:
        path = source
        if isinstance(source, onnx.ModelProto):
            path = tmp_path / "model.onnx"
            path.write_bytes(source.SerializeToString())
        output = tmp_path / "out.mlir"
        code = main(["import", str(path), "-o", str(output), *options])
        error = capsys.readouterr().err
        assert "Traceback" not in error
        if code:
            assert error.startswith("error: ")
        else:
            assert error == ""
        return Imported(code, error, output)

    return run


def tool(name: str) -> str:
    """The path of a built tool; skips the test where it isn't built."""
    path = BIN / name
    if not path.exists():
        pytest.skip(f"{path} isn't built")
    return str(path)


@pytest.fixture
def interpret(run_import, tmp_path):
    """Imports a model and runs it with the reference evaluator; gives the outputs by name."""

    def run(source, inputs: dict[str, np.ndarray], *options: str) -> dict[str, np.ndarray]:
        program = tool("fusion-interpret")
        imported = run_import(source, *options)
        assert imported.code == 0, imported.error
        command = [program, str(imported.output), "--output-dir", str(tmp_path / "out")]
        for index, (name, array) in enumerate(inputs.items()):
            np.save(tmp_path / f"in{index}.npy", array)
            command += ["--input", f"{name}={tmp_path / f'in{index}.npy'}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return {p.stem: np.load(p) for p in (tmp_path / "out").glob("*.npy")}

    return run

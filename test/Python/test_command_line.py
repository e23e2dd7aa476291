"""fusion-import: flags, exit codes and messages of the contract."""

import os
import resource
import signal
import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT, model, unary, value
from onnx import helper

import fusion_compiler
from fusion_compiler.cli import main


def test_writes_text_and_no_weights_without_parameters(run_import, tmp_path):
    imported = run_import(unary("Relu"))
    assert imported.code == 0
    assert "func.func @main(%x: tensor<2x3xf32> {fusion.name = \"x\"})" in imported.text
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.onnx", "out.mlir"]


def test_help_is_complete(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["import", "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    for option in ("-o", "--batch", "--dynamic-batch", "--input-shape", "--constant-input", "exit codes"):
        assert option in text


@pytest.mark.parametrize("arguments, message", [
    ([], "no command given"),
    (["explode"], "no command 'explode'"),
    (["import"], "the following arguments are required"),
    (["import", "m.onnx"], "-o/--output"),
    (["import", "m.onnx", "-o", "o.mlir", "--frobnicate"], "unrecognized arguments: --frobnicate"),
    (["import", "m.onnx", "-o", "o.mlir", "--batch", "0"], "--batch: 0 is outside of [1, 2^31)"),
    (["import", "m.onnx", "-o", "o.mlir", "--batch", "x"], "--batch: 'x' isn't a positive number"),
    (["import", "m.onnx", "-o", "o.mlir", "--dynamic-batch=8"], "--dynamic-batch: '8' isn't LOW..HIGH"),
    (["import", "m.onnx", "-o", "o.mlir", "--dynamic-batch=8..2"], "--dynamic-batch: 8 is above 2"),
    (["import", "m.onnx", "-o", "o.mlir", "--batch", "2", "--dynamic-batch=1..2"], "exclude each other"),
    (["import", "m.onnx", "-o", "o.mlir", "--input-shape", "x"], "--input-shape: 'x' isn't NAME=VALUE"),
    (["import", "m.onnx", "-o", "o.mlir", "--input-shape", "x=1,two"], "--input-shape: 'two' isn't a size"),
    (["import", "m.onnx", "-o", "o.mlir", "--input-shape", "x=1", "--input-shape", "x=2"], "'x' is given twice"),
    (["import", "m.onnx", "-o", "o.mlir", "--constant-input", "x=/nowhere.npy"], "/nowhere.npy: can't be read"),
    (["import", "/nowhere/m.onnx", "-o", "o.mlir"], "/nowhere/m.onnx: can't be read: No such file"),
    (["import", "/tmp", "-o", "o.mlir"], "/tmp: can't be read: Is a directory"),
])
def test_wrong_usage_is_exit_2(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and message in error and "Traceback" not in error
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_is_no_model(run_import, tmp_path):
    os.mkfifo(tmp_path / "pipe.onnx")
    imported = run_import(tmp_path / "pipe.onnx")
    assert imported.code == 2 and "it isn't a regular file" in imported.error


@pytest.mark.parametrize("options, message", [
    (["--input-shape", "z=1"], "the model has no input 'z'; its inputs are 'x'"),
    (["--input-shape", "x=2"], "input 'x' has 2 dimensions, 1 are given"),
    (["--input-shape", "x=2,4"], "input 'x' has the fixed dimension 3 at 1, not 4"),
    (["--input-shape", "x=B,3"], "B needs --dynamic-batch=LOW..HIGH or --batch N"),
    (["--batch", "4"], "--batch: no input has a free leading dimension"),
    (["--dynamic-batch", "1..4"], "--dynamic-batch: no input has a free leading dimension"),
])
def test_input_shapes_that_do_not_fit_are_exit_2(options, message, run_import):
    imported = run_import(unary("Relu"), *options)
    assert imported.code == 2 and message in imported.error and not imported.output.exists()


def test_a_free_dimension_needs_a_size(run_import):
    imported = run_import(unary("Relu", shape=["N", 3]))
    assert imported.code == 2
    assert "input 'x' has no size for dimension 0; give --batch N or --input-shape x=..." in imported.error


@pytest.mark.parametrize("options, shape", [
    (["--batch", "4"], "4x3"), (["--dynamic-batch=1..4"], "?x3"), (["--dynamic-batch=4..4"], "4x3"),
    (["--input-shape", "x=5,3"], "5x3"), (["--input-shape", "x=B,3", "--dynamic-batch=1..4"], "?x3"),
    (["--input-shape", "x=B,3", "--batch", "7"], "7x3"),
])
def test_options_fix_the_batch(options, shape, run_import):
    imported = run_import(unary("Relu", shape=["N", 3]), *options)
    assert imported.code == 0
    assert f"%x: tensor<{shape}xf32>" in imported.text
    assert ("fusion.batch" in imported.text) == ("?" in shape)


def test_a_constant_input_is_no_argument(run_import, tmp_path):
    nodes = [helper.make_node("Reshape", ["x", "s"], ["y"])]
    source = model(nodes, [value("x", [2, 3]), value("s", [1], 7)], [value("y", None)])
    refused = run_import(source)
    assert refused.code == 3 and "the shape, input 's', depends on data" in refused.error
    np.save(tmp_path / "s.npy", np.array([6]))
    imported = run_import(source, "--constant-input", f"s={tmp_path / 's.npy'}")
    assert imported.code == 0 and "%s" not in imported.text and "to tensor<6xf32>" in imported.text
    np.save(tmp_path / "s.npy", np.array([6.0]))
    wrong = run_import(source, "--constant-input", f"s={tmp_path / 's.npy'}")
    assert wrong.code == 2 and "input 's' is i64, the file holds float64" in wrong.error


def test_an_output_that_cannot_be_written_is_exit_2(run_import, tmp_path, capsys):
    (tmp_path / "m.onnx").write_bytes(unary("Relu").SerializeToString())
    (tmp_path / "folder").mkdir()
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    for output, message in (("folder", "is a folder"), ("missing/o.mlir", "its folder doesn't exist"),
                            ("link", "is a symbolic link")):
        assert main(["import", str(tmp_path / "m.onnx"), "-o", str(tmp_path / output)]) == 2
        assert message in capsys.readouterr().err
    assert (tmp_path / "target").read_text() == "old"
    assert main(["import", str(tmp_path / "m.onnx"), "-o", "/proc/o.mlir"]) == 2
    assert "can't be written" in capsys.readouterr().err


def _script(folder, limit: int):
    """Runs fusion-import in a process whose files can't grow beyond `limit` bytes."""
    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.run([sys.executable, "-m", "fusion_compiler", "import", "m.onnx", "-o", "o.mlir"], cwd=folder,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "python"), "PYTHONDONTWRITEBYTECODE": "1"},
                          capture_output=True, text=True, preexec_fn=limited)


@pytest.mark.parametrize("limit", [0, 100, 2000])
def test_a_full_disk_is_exit_6_and_leaves_the_old_output(limit, tmp_path):
    weights = np.random.default_rng(0).random((100, 100)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    from conftest import tensor

    source = model(nodes, [value("x", [2, 100])], [value("y", None)], [tensor("w", weights)])
    (tmp_path / "m.onnx").write_bytes(source.SerializeToString())
    (tmp_path / "o.mlir").write_text("old text")
    (tmp_path / "o.safetensors").write_text("old weights")
    done = _script(tmp_path, limit)
    assert done.returncode == 6, done.stderr
    assert done.stderr.startswith("error: o") and "can't be written: File too large" in done.stderr
    assert (tmp_path / "o.mlir").read_text() == "old text"
    assert (tmp_path / "o.safetensors").read_text() == "old weights"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.onnx", "o.mlir", "o.safetensors"]
    assert _script(tmp_path, 1 << 30).returncode == 0
    assert "fusion.matmul" in (tmp_path / "o.mlir").read_text()


def test_the_same_model_gives_the_same_bytes(run_import, tmp_path):
    from conftest import tensor

    rng = np.random.default_rng(1)
    weights = [tensor(f"w{i}", rng.random((10, 10)).astype(np.float32)) for i in range(5)]
    nodes = [helper.make_node("MatMul", ["x" if i == 0 else f"t{i}", f"w{i}"], [f"t{i + 1}"]) for i in range(5)]
    source = model(nodes, [value("x", [10, 10])], [value("t5", None)], weights)
    first = run_import(source)
    before = first.output.read_bytes(), first.output.with_suffix(".safetensors").read_bytes()
    again = run_import(source)
    assert before == (again.output.read_bytes(), again.output.with_suffix(".safetensors").read_bytes())


@pytest.mark.parametrize("command", ["import", "bench", "models"])
def test_commands_say_their_version(command, capsys):
    with pytest.raises(SystemExit) as stop:
        main([command, "--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"python -m fusion_compiler {command} {fusion_compiler.__version__}\n"


def test_so_does_the_package(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"python -m fusion_compiler {fusion_compiler.__version__}\n"

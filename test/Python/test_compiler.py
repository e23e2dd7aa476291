"""The compiler's C API, by its Python binding, with the runtime's beside it."""

import os
import pathlib
import threading

import numpy as np
import pytest

from fusion_compiler import compiler, runtime

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARIES = pathlib.Path(os.environ.get("FUSION_BIN") or ROOT / "build/dev/bin").resolve().parent / "lib"

pytestmark = pytest.mark.skipif(not (LIBRARIES / "libfusion-compiler.so").exists(),
                                reason="libfusion-compiler.so isn't built")

GRAPH = """
func.func @main(%x: tensor<4x8xf32> {fusion.name = "x"}) -> (tensor<4x8xf32> {fusion.name = "y"}) {
  %0 = fusion.mul %x, %x : tensor<4x8xf32>
  %1 = fusion.add %0, %x : tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
"""


@pytest.fixture(autouse=True, scope="module")
def libraries():
    compiler.use_library(LIBRARIES / "libfusion-compiler.so")


def run(artifact, x):
    return runtime.load_bytes(artifact).session(threads=1, trust="all").run({"x": x})["y"]


def test_a_graph_becomes_a_module_that_runs():
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    result = compiler.compile(GRAPH)
    assert np.array_equal(run(result.artifact, x), x * x + x)
    assert result.messages == ""
    assert result.explanation == ""


def test_text_and_bytes_and_a_second_time_give_the_same_module():
    first = compiler.compile(GRAPH)
    assert compiler.compile(GRAPH.encode()).artifact == first.artifact
    assert compiler.compile(GRAPH).artifact == first.artifact


def test_options_are_those_of_the_command_line():
    text = compiler.compile(GRAPH, "--stop-after=fuse").artifact.decode()
    assert "fusion.group loop" in text
    explained = compiler.compile(GRAPH, "--explain").explanation
    assert "launches" in explained and "fuse-loop" in explained


@pytest.mark.parametrize("source, options, code, words", [
    ("", [], 3, "main"),
    (GRAPH[:60], [], 3, "error"),
    (GRAPH.replace("fusion.mul", "fusion.gone"), [], 3, "gone"),
    (GRAPH, ["--frobnicate"], 2, "--frobnicate"),
    (GRAPH, ["--cpu=z80"], 2, "z80"),
    (GRAPH, ["--memory-limit=1", "--no-fuse=vertical"], 6, "memory limit"),
])
def test_errors_have_the_exit_code_and_the_reason(source, options, code, words):
    with pytest.raises(compiler.CompileError) as raised:
        compiler.compile(source, *options)
    assert raised.value.code == code
    assert words in str(raised.value)


def test_compilations_in_threads_are_independent():
    expected = compiler.compile(GRAPH).artifact
    results = {}

    def work(index):
        try:
            options = ["--no-fuse=vertical"] if index % 2 else []
            results[index] = compiler.compile(GRAPH, *options).artifact
        except compiler.CompileError as error:
            results[index] = error

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(results[i] == expected for i in (0, 2, 4))
    assert len({results[i] for i in (1, 3, 5)}) == 1
    x = np.ones((4, 8), np.float32)
    assert np.array_equal(run(results[1], x), x * 2)

# ===- test_bench_programs.py - The programs of fusion-bench ---------------=== #
#
# Every row's program verifies at full size; at a small one the reference evaluator
# computes what numpy says. Modules are compiled, listed, packed and found again.
#
# ===----------------------------------------------------------------------=== #
"""Programs and modules of fusion-bench."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import numpy as np
import pytest

from conftest import BIN
from fusion_compiler.bench import limits, modules, seed2
from fusion_compiler.bench.workload import ROUNDOFF, Tensor, from_float, to_float64
from fusion_compiler.errors import FusionError

NVCC = shutil.which("nvcc") or os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin/nvcc")
SMALL = {w.name: w for w in seed2.small_workloads()}
FULL = {w.name: w for w in seed2.workloads()}


def tool(*words):
    return subprocess.run([str(BIN / words[0]), *map(str, words[1:])], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", FULL)
def test_program_verifies(name, tmp_path):
    path = tmp_path / "m.mlir"
    path.write_text(FULL[name].text("w.safetensors"))
    answer = tool("fusion-opt", path, "-o", os.devnull)
    assert answer.returncode == 0, answer.stderr


@pytest.mark.parametrize("name", SMALL)
def test_program_computes_what_numpy_says(name, tmp_path):
    workload = SMALL[name]
    source = workload.write(str(tmp_path))
    generator = np.random.default_rng(7)
    inputs = [from_float(generator.integers(-8, 9, t.shape) / 4, t.dtype) for t in workload.inputs]
    options = []
    for tensor, array in zip(workload.inputs, inputs):
        np.save(tmp_path / f"{tensor.name}.npy", array)
        options += ["--input", f"{tensor.name}={tmp_path / tensor.name}.npy"]
    answer = tool("fusion-interpret", source, *options, "--output-dir", tmp_path / "out")
    assert answer.returncode == 0, answer.stderr
    wide = [to_float64(array, t.dtype) for array, t in zip(inputs, workload.inputs)]
    weights = [to_float64(t.weights(workload.name), t.dtype) for t in workload.weights]
    want = workload.numpy(wide, weights)
    assert len(want) == len(workload.results)
    for tensor, expected in zip(workload.results, want):
        got = to_float64(np.load(tmp_path / "out" / f"{tensor.name}.npy"), tensor.dtype)
        assert got.shape == expected.shape == tensor.shape
        # The evaluator rounds once an op; the longest program has three ops whose roundings add up.
        assert np.linalg.norm(got - expected) <= 3 * ROUNDOFF[tensor.dtype] * np.linalg.norm(expected)
        assert np.linalg.norm(expected) > 1e-2  # not all clipped away


def test_suite_has_the_families_of_the_small_one():
    assert {name.partition("-")[0] for name in SMALL} == {name.partition("-")[0] for name in FULL}
    assert len(FULL) == len(seed2.workloads()), "names are unique"


def test_bytes_and_flops_by_hand():
    # 16 adds: two inputs and a result of 65536 floats of 4 bytes each.
    assert FULL["adds-16x65536"].bytes == 16 * 3 * 65536 * 4
    # 3 products of 128x1024 by 1024x1024; x once, three weights, biases and results.
    qkv = FULL["qkv-128x1024"]
    assert qkv.flops == 3 * 2 * 128 * 1024 * 1024
    assert qkv.bytes == 2 * (128 * 1024 + 3 * (1024 * 1024 + 1024 + 128 * 1024))
    # A pointwise convolution is a product of pixels by channels.
    assert FULL["conv1x1-32x256x64x56"].flops == 2 * (32 * 56 * 56) * 256 * 64


def test_weights_are_the_same_everywhere():
    tensor = Tensor("w", "f32", (3,), scale=2.0, offset=1.0)
    # PCG64's first outputs for the seed crc32("row/w"), shifted to 24 bits, spread over offset +- scale.
    import zlib
    raw = np.random.PCG64(zlib.crc32(b"row/w")).random_raw(3)
    expected = [1.0 + 2.0 * (int(r) // 2**40 / 2**23 - 1) for r in raw]
    np.testing.assert_array_equal(tensor.weights("row"), np.float32(expected))
    assert (tensor.weights("row") != tensor.weights("other row")).any()
    many = Tensor("w", "bf16", (1000,), scale=0.5)
    values = to_float64(many.weights("row"), "bf16")
    assert np.abs(values).max() <= 0.5 and abs(values.mean()) < 0.05


def test_compiled_listed_and_packed(tmp_path):
    workload = SMALL["qkv-5x16"]
    compiler = modules.find_tool("fusion-compile", str(BIN))
    archive = str(tmp_path / "m.tar.xz")
    with modules.module_folder(archive, writing=True) as folder:
        entries = modules.compile_workload(workload, modules.variants(["strict"]), folder, compiler, "cpu")
        modules.write_manifest(folder, {"modules": entries})
    with modules.module_folder(archive, writing=False) as folder:
        manifest = modules.read_manifest(folder)
        assert set(manifest["modules"]) == {"qkv-5x16.strict.fsn", "qkv-5x16.unfused.fsn"}
        fused, alone = (manifest["modules"][f"qkv-5x16.{v}.fsn"] for v in ("strict", "unfused"))
        assert fused["bytes"] == os.path.getsize(os.path.join(folder, "qkv-5x16.strict.fsn"))
        assert modules.UNFUSED in alone["command"] and modules.UNFUSED not in fused["command"]
        assert modules.check_hash(folder, "qkv-5x16.strict.fsn", manifest) == fused["sha256"]
        assert modules.check_hash(folder, "absent.fsn", manifest) is None
        with open(os.path.join(folder, "qkv-5x16.strict.fsn"), "ab") as file:
            file.write(b"x")
        with pytest.raises(FusionError, match="isn't the file of the manifest"):
            modules.check_hash(folder, "qkv-5x16.strict.fsn", manifest)
    # Fused or not, the runtime of this machine computes one thing.
    outputs = []
    with modules.module_folder(archive, writing=False) as folder:
        for variant in ("strict", "unfused"):
            out = tmp_path / variant
            answer = tool("fusion-run", os.path.join(folder, f"qkv-5x16.{variant}.fsn"), "--random-inputs", "3",
                          "--output-dir", out)
            assert answer.returncode == 0, answer.stderr
            outputs.append([np.load(out / f"{n}.npy") for n in "qkv"])
    for fused_result, result in zip(*outputs):
        np.testing.assert_array_equal(fused_result, result)


def test_refused_program_is_an_entry(tmp_path):
    workload = SMALL["transpose-7"]
    entries = modules.compile_workload(workload, {"bad": ("--fp=wrong",)}, str(tmp_path),
                                       modules.find_tool("fusion-compile", str(BIN)), "cpu")
    entry = entries["transpose-7.bad.fsn"]
    assert entry["exit_status"] == 2 and "error" in entry and "sha256" not in entry
    assert not (tmp_path / "transpose-7.bad.fsn").exists()


def test_absent_tool_and_folder(tmp_path):
    with pytest.raises(FusionError, match="fusion-compile not found") as error:
        modules.find_tool("fusion-compile", str(tmp_path))
    assert error.value.code == 5
    with pytest.raises(FusionError, match="compile the modules first"):
        with modules.module_folder(str(tmp_path / "none"), writing=False):
            pass
    (tmp_path / modules.MANIFEST).write_text("{")
    with pytest.raises(FusionError, match="can't be read"):
        modules.read_manifest(str(tmp_path))


@pytest.mark.skipif(not os.access(NVCC, os.X_OK), reason="no nvcc here")
def test_limits_compile_without_spills(tmp_path):
    source = limits.find_source()
    limits.build(source, str(tmp_path / limits.BINARY), "sm_90")
    assert (tmp_path / limits.BINARY).stat().st_size > 0
    answer = subprocess.run([NVCC, "-cubin", "-arch=sm_90", "-O3", "-Xptxas", "-v", "-o", os.devnull, source],
                            capture_output=True, text=True, check=True)
    frames = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores", answer.stderr)
    names = re.findall(r"Compiling entry function '(\w+)'", answer.stderr)
    assert frames and set(frames) == {("0", "0")}
    used = {f"norm_{v}x{t}" for kernels in limits._NORMS.values() for v, t in kernels}
    assert used | {"copy_blocks", "copy_units", "add_members", "empty", "increment"} <= set(names)
    for width, kernels in limits._NORMS.items():  # eight bf16 a vector
        assert all(vectors * team * 8 == width for vectors, team in kernels)


def test_limits_that_nvcc_refuses(tmp_path):
    source = tmp_path / "bad.cu"
    source.write_text("this is no CUDA")
    with pytest.raises(FusionError, match="nvcc") as error:
        limits.build(str(source), str(tmp_path / "bad.cubin"), "sm_90")
    assert error.value.code == 5

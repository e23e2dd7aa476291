# ===- harness.py - What the reported cases share -------------------------=== #
#
# Builds a case, runs it through the evaluator, the fused module, the unfused
# module and the module without value-changing rewrites, and compares them with
# numpy. Files of cases take every name of this one.
#
# ===----------------------------------------------------------------------=== #
"""Tools, f64 references and ONNX builders of the reported cases."""

import argparse
import math
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def findRoot():
    """The source tree: the nearest folder above this file, or above the
    working directory, that holds the Python package."""
    for start in (Path(__file__).resolve().parent, Path.cwd().resolve()):
        for folder in (start, *start.parents):
            if (folder / "python/fusion_compiler").is_dir():
                return folder
    sys.exit("error: no folder python/fusion_compiler above this script or the working directory, run it in the source tree")


ROOT = findRoot()
BIN = Path(os.environ.get("FUSION_BIN") or ROOT / "build/dev/bin").resolve()
CASES = []
F32 = np.float32
NAN, INF = np.nan, np.inf

ELEMENTS = {"float64": "f64", "float32": "f32", "float16": "f16", "int8": "i8", "int32": "i32", "int64": "i64", "bool": "i1"}


class Broken(Exception):
    """A case doesn't hold; the text says what was expected and what came."""


class Bfloat16:
    """A bf16 tensor: values rounded to nearest even, kept as f32 and as bits."""

    def __init__(self, values):
        wide = np.asarray(values, F32)
        bits = wide.view(np.uint32).astype(np.uint64)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        self.bits = np.where(np.isnan(wide), 0x7FC0, rounded).astype(np.uint16).reshape(wide.shape)
        self.shape = wide.shape
        self.values = decodeBfloat16(self.bits)


def decodeBfloat16(bits):
    return (np.asarray(bits).view(np.uint16).astype(np.uint32) << 16).view(F32)


def typeOf(array):
    """The tensor type of an array in the dialect's text."""
    element = "bf16" if isinstance(array, Bfloat16) else ELEMENTS[str(np.asarray(array).dtype)]
    shape = array.shape if isinstance(array, Bfloat16) else np.shape(array)
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"


def constant(name, array):
    """A line that defines `%name` as the array, bit by bit."""
    raw = array.bits if isinstance(array, Bfloat16) else np.ascontiguousarray(array)
    if raw.size == 0:
        return f"  %{name} = fusion.constant dense<> : {typeOf(array)}\n"
    return f'  %{name} = fusion.constant dense<"0x{raw.tobytes().hex().upper()}"> : {typeOf(array)}\n'


def program(inputs, body, outputs, preamble="", attributes=None):
    """A module of one function; outputs are name -> (value, type)."""
    extra = attributes or {}
    arguments = ", ".join(f'%{n}: {typeOf(a)} {{{extra.get(n, "")}fusion.name = "{n}"}}' for n, a in inputs.items())
    results = ", ".join(f'{t} {{fusion.name = "{n}"}}' for n, (_, t) in outputs.items())
    lines = "".join(f"  {line.strip()}\n" for line in body.strip().splitlines())
    values = ", ".join(v for v, _ in outputs.values())
    types = ", ".join(t for _, t in outputs.values())
    return f"{preamble}func.func @main({arguments}) -> ({results}) {{\n{lines}  return {values} : {types}\n}}\n"


def compare(what, got, want, rtol, atol):
    if isinstance(want, Bfloat16):
        if got.dtype.itemsize != 2 or got.shape != want.shape:
            raise Broken(f"{what}: bf16 {want.shape} expected, got {got.dtype} {got.shape}")
        got, want = decodeBfloat16(got), want.values
    want = np.asarray(want)
    if got.dtype != want.dtype or got.shape != want.shape:
        raise Broken(f"{what}: {want.dtype} {want.shape} expected, got {got.dtype} {got.shape}")
    if want.dtype.kind != "f":
        same = np.array_equal(got, want)
    else:
        with np.errstate(all="ignore"):
            same = np.allclose(got.astype(np.float64), want.astype(np.float64), rtol, atol, equal_nan=True)
    if not same:
        raise Broken(f"{what}: expected {summary(want)}, got {summary(got)}")


def summary(array):
    return np.array2string(np.asarray(array).reshape(-1)[:12], separator=",", max_line_width=400) + f" {array.shape}"


class Case:
    """One case's folder, and what it does with the tools in it."""

    def __init__(self, folder):
        self.folder = folder
        self.count = 0

    def path(self, suffix):
        self.count += 1
        return self.folder / f"{self.count:03}{suffix}"

    def run(self, words, timeout=110, stack=None):
        def limit():
            resource.setrlimit(resource.RLIMIT_STACK, (stack, stack))
        environment = {**os.environ, "LC_ALL": "C", "PYTHONPATH": str(ROOT / "python")}
        try:
            answer = subprocess.run([str(word) for word in words], cwd=self.folder, env=environment, timeout=timeout,
                                    capture_output=True, text=True, stdin=subprocess.DEVNULL, preexec_fn=limit if stack else None)
        except subprocess.TimeoutExpired:
            raise Broken(f"no end after {timeout} s: {' '.join(map(str, words))[:300]}") from None
        return answer

    def good(self, words, **options):
        answer = self.run(words, **options)
        if answer.returncode:
            raise Broken(f"exit status {answer.returncode}: {' '.join(map(str, words))[:300]}\n{answer.stderr[-600:]}")
        return answer.stdout + answer.stderr

    def refused(self, words, pattern, codes=(3,)):
        """The tool gives an error of the right kind, and doesn't crash."""
        answer = self.run(words)
        if answer.returncode not in codes or "error: " not in answer.stderr or not re.search(pattern, answer.stderr):
            raise Broken(f"refusal /{pattern}/ with status {codes} expected, got {answer.returncode}: "
                         f"{' '.join(map(str, words))[:200]}\n{answer.stderr[-500:]}")

    def write(self, text):
        path = self.path(".mlir")
        path.write_text(text)
        return path

    def importOnnx(self, model, *flags):
        path = self.path(".onnx")
        onnx.save(model, path)
        out = path.with_suffix(".mlir")
        self.good([sys.executable, "-m", "fusion_compiler", "import", path, "-o", out, *flags])
        return out

    def refusedImport(self, model, pattern, codes=(3,)):
        path = self.path(".onnx")
        onnx.save(model, path)
        self.refused([sys.executable, "-m", "fusion_compiler", "import", path, "-o", path.with_suffix(".mlir")], pattern, codes)

    def save(self, inputs):
        folder = self.path(".in")
        folder.mkdir()
        flags = []
        for name, array in inputs.items():
            np.save(folder / f"{name}.npy", array.bits if isinstance(array, Bfloat16) else np.asarray(array))
            flags += ["--input", f"{name}={folder / name}.npy"]
        return flags

    def load(self, folder):
        return {path.stem: np.load(path) for path in folder.glob("*.npy")}

    def interpret(self, model, inputs, *flags):
        out = self.path(".out")
        text = self.good([BIN / "fusion-interpret", model, *self.save(inputs), "--output-dir", out, *flags])
        return self.load(out), text

    def compile(self, model, *flags, **options):
        module = self.path(".fsn")
        text = self.good([BIN / "fusion-compile", model, "--target=cpu", "-o", module, *flags], **options)
        return module, text

    def execute(self, module, inputs, **options):
        out = self.path(".out")
        self.good([BIN / "fusion-run", module, *self.save(inputs), "--output-dir", out], **options)
        return self.load(out)

    def phase(self, model, phase, *flags):
        """The IR behind a phase of the compiler, as text."""
        module, _ = self.compile(model, f"--stop-after={phase}", *flags)
        return module.read_text()

    def agree(self, model, inputs, want, rtol=0.0, atol=0.0, ways=("plain", "unfused", "exact")):
        """Every way to run the model gives the wanted outputs, and only these."""
        if isinstance(model, str):
            model = self.write(model)
        answers = {"evaluator": self.interpret(model, inputs)[0]}
        flags = {"plain": [], "unfused": ["--no-fuse=vertical,projections"], "exact": ["--exact-rewrites-only"]}
        for way in ways:
            answers[f"compiled, {way}"] = self.execute(self.compile(model, *flags[way])[0], inputs)
        for way, got in answers.items():
            if set(got) != {quote(name, safe="") for name in want}:
                raise Broken(f"{way}: outputs {sorted(want)} expected, got {sorted(got)}")
            for name, array in want.items():
                compare(f"{way}, output {name}", got[quote(name, safe="")], array, rtol, atol)

    def ranks(self, text, count, inputs, flags=()):
        """Runs the evaluator on ranks; inputs are (name, rank) -> array."""
        folder = self.path(".in")
        folder.mkdir()
        words = []
        for (name, rank), array in inputs.items():
            np.save(folder / f"{name}{rank}.npy", array)
            words += ["--input", f"{name}@{rank}={folder}/{name}{rank}.npy"]
        out = self.path(".out")
        return [BIN / "fusion-interpret", self.write(text), "--ranks", count, *words, "--output-dir", out, *flags], out


def case(function):
    CASES.append(function)
    return function


# ===----------------------------------------------------------------------=== #
# References in f64
# ===----------------------------------------------------------------------=== #

def conv(x, w, bias=None, pad=0, stride=1, groups=1):
    x, w = np.asarray(x, np.float64), np.asarray(w, np.float64)
    x = np.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    n, channels, height, width = x.shape
    outs, part, kh, kw = w.shape
    result = np.zeros((n, outs, (height - kh) // stride + 1, (width - kw) // stride + 1))
    for o in range(outs):
        first = o // (outs // groups) * part
        for i in range(result.shape[2]):
            for j in range(result.shape[3]):
                window = x[:, first:first + part, i * stride:i * stride + kh, j * stride:j * stride + kw]
                result[:, o, i, j] = (window * w[o]).sum((1, 2, 3))
    return result if bias is None else result + np.asarray(bias, np.float64).reshape(1, -1, 1, 1)


def convTranspose(x, w, groups, stride, pad, bias=None):
    x, w = np.asarray(x, np.float64), np.asarray(w, np.float64)
    n, channels, height, width = x.shape
    _, part, kh, kw = w.shape
    full = np.zeros((n, part * groups, (height - 1) * stride + kh, (width - 1) * stride + kw))
    for c in range(channels):
        first = c // (channels // groups) * part
        for i in range(height):
            for j in range(width):
                full[:, first:first + part, i * stride:i * stride + kh, j * stride:j * stride + kw] += \
                    x[:, c, i, j].reshape(n, 1, 1, 1) * w[c]
    result = full[:, :, pad:full.shape[2] - pad, pad:full.shape[3] - pad]
    return result if bias is None else result + np.asarray(bias, np.float64).reshape(1, -1, 1, 1)


def norm(x, scale, bias, mean, variance, epsilon=1e-5):
    """Inference BatchNorm along dimension 1."""
    scale, bias, mean, variance = (np.asarray(v, np.float64).reshape(1, -1, 1, 1) for v in (scale, bias, mean, variance))
    return (np.asarray(x, np.float64) - mean) / np.sqrt(variance + epsilon) * scale + bias


def softmax(x, axis):
    with np.errstate(all="ignore"):
        e = np.exp(x - x.max(axis, keepdims=True))
        return e / e.sum(axis, keepdims=True)


def layerNorm(x, epsilon):
    x = np.asarray(x, np.float64)
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + epsilon)


def philox(seed, offset, count):
    """f32 uniforms of Philox4x32-10, by the paper."""
    words, mask = [], 0xFFFFFFFF
    for block in range((count + 3) // 4):
        c = offset + block
        x = [c & mask, c >> 32 & mask, 0, 0]
        k0, k1 = seed & mask, seed >> 32 & mask
        for _ in range(10):
            p0, p1 = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
            x = [(p1 >> 32) ^ x[1] ^ k0, p1 & mask, (p0 >> 32) ^ x[3] ^ k1, p0 & mask]
            k0, k1 = (k0 + 0x9E3779B9) & mask, (k1 + 0xBB67AE85) & mask
        words += x
    return ((np.array(words[:count], np.uint64) >> 8) * 2.0 ** -24).astype(F32)


RNG = np.random.default_rng


def normParameters(channels, seed=7):
    """scale, bias, mean, variance that make every slip of the formula visible."""
    g = RNG(seed)
    return [np.asarray(v, F32) for v in (g.uniform(0.7, 1.6, channels), g.uniform(-0.5, 0.5, channels),
                                         g.uniform(-1, 1, channels), g.uniform(0.3, 2, channels))]


def convLine(result, x, w, typeX, typeW, pad=1, stride=1, groups=1, bias=None, typeBias=None):
    return (f"%{result} = fusion.conv {x}, {w} {f'bias {bias} ' if bias else ''}strides = [{stride}, {stride}] pad_low = [{pad}, {pad}] "
            f"pad_high = [{pad}, {pad}] dilations = [1, 1] groups = {groups} layout = nchw : {typeX}, {typeW}{f', {typeBias}' if bias else ''}\n")


def normLine(result, x, names, typeX, typeP, epsilon=1e-5):
    return f"%{result} = fusion.batch_norm {x}, {', '.join(names)} epsilon = {epsilon:.17e} axis = 1 : {typeX}, {typeP}\n"


def normConstants(parameters, prefix=""):
    names = [f"%{prefix}{n}" for n in ("s", "b", "m", "v")]
    return names, "".join(constant(n[1:], p) for n, p in zip(names, parameters))


# ===----------------------------------------------------------------------=== #
# ONNX models
# ===----------------------------------------------------------------------=== #

def info(name, array):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.asarray(array).dtype), np.shape(array))


def onnxModel(nodes, inputs, outputs, constants=None, opset=17, asNodes=False):
    """A model; inputs and outputs are name -> array (its shape and type count)."""
    constants = constants or {}
    tensors = [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()]
    first = [helper.make_node("Constant", [], [t.name], value=t) for t in tensors] if asNodes else []
    graph = helper.make_graph(first + nodes, "g", [info(n, a) for n, a in inputs.items()],
                              [info(n, a) for n, a in outputs.items()], [] if asNodes else tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 8
    return model

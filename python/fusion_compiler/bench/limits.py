# ===- limits.py - Hand-written kernels and library calls that bound rows --=== #
#
# Loads the cubin of test/Benchmark/limits.cu through the driver and launches its
# kernels on PyTorch's current stream, so that they are captured and timed like every
# other contender. Rows that a library bounds take that from PyTorch's own binding of
# cuBLASLt (a bare matmul, one merged linear layer) or from all that cuDNN offers (dnn.py:
# a fused convolution).
#
# ===----------------------------------------------------------------------=== #
"""What one launch can reach."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Optional, Sequence

from ..errors import ENVIRONMENT, FusionError
from . import dnn, gpu
from .timing import DeviceClock
from .workload import Workload

_THREADS = 256
_MEMBERS = 16
SOURCE = "limits.cu"
BINARY = "limits.cubin"


def find_source() -> Optional[str]:
    """limits.cu of this tree or package, or None."""
    for parent in Path(__file__).resolve().parents:
        for place in ("test/Benchmark", "share/fusion/bench"):
            candidate = parent / place / SOURCE
            if candidate.is_file():
                return str(candidate)
    return None


def build(source: str, output: str, architecture: str) -> None:
    """Compiles the kernels with nvcc. Raises FusionError."""
    nvcc = shutil.which("nvcc") or os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin/nvcc")
    if not os.access(nvcc, os.X_OK):
        raise FusionError("nvcc not found, for limits.cu, give --modules with limits.cubin in it", ENVIRONMENT)
    answer = subprocess.run([nvcc, "-cubin", f"-arch={architecture}", "-O3", "-o", output, source],
                            capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if answer.returncode:
        said = (answer.stderr.splitlines() or ["no message"])[0]
        raise FusionError(f"nvcc refuses {source}: {said}", ENVIRONMENT)


class _AddTable(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64 * _MEMBERS) for name in ("a", "b", "out")]


class _NormTable(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64 * _MEMBERS) for name in ("input", "scale", "bias", "out")]


class Kernels:
    """The kernels of a cubin in PyTorch's context. Raises FusionError 5."""

    def __init__(self, torch, cubin: str):
        self._torch = torch
        torch.zeros(1, device="cuda")  # makes the context current
        torch.cuda.synchronize()
        try:
            self._driver = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise FusionError(f"can't load the CUDA driver: {error}", ENVIRONMENT) from error
        self._module = ctypes.c_void_p()
        with open(cubin, "rb") as file:
            image = file.read()
        self._check(self._driver.cuModuleLoadData(ctypes.byref(self._module), image), f"load {cubin}")
        self._functions: dict[str, ctypes.c_void_p] = {}
        self.units = torch.cuda.get_device_properties(0).multi_processor_count

    def _check(self, code: int, what: str) -> None:
        if code:
            text = ctypes.c_char_p()
            self._driver.cuGetErrorString(code, ctypes.byref(text))
            raise FusionError(f"can't {what}: {(text.value or b'unknown error').decode()}", ENVIRONMENT)

    def launch(self, name: str, grid: tuple[int, int], threads: int, *parameters) -> None:
        """Queues a kernel on the current stream; parameters are ctypes values."""
        if name not in self._functions:
            function = ctypes.c_void_p()
            self._check(self._driver.cuModuleGetFunction(ctypes.byref(function), self._module, name.encode()),
                        f"find kernel {name}")
            self._functions[name] = function
        addresses = (ctypes.c_void_p * len(parameters))(*(ctypes.addressof(p) for p in parameters))
        stream = ctypes.c_void_p(self._torch.cuda.current_stream().cuda_stream)
        self._check(self._driver.cuLaunchKernel(self._functions[name], grid[0], grid[1], 1, threads, 1, 1, 0, stream,
                                                addresses, None), f"launch {name}")

    def copy(self, source, target) -> None:
        """Copies a tensor of a multiple of 16 bytes."""
        vectors = source.numel() * source.element_size() // 16
        self.launch("copy_blocks", (-(-vectors // (4 * _THREADS)), 1), _THREADS, ctypes.c_uint64(source.data_ptr()),
                    ctypes.c_uint64(target.data_ptr()), ctypes.c_int64(vectors))

    def copy_on(self, units: int, source, target) -> None:
        """The same on a few multiprocessors."""
        vectors = source.numel() * source.element_size() // 16
        self.launch("copy_units", (2 * units, 1), 1024, ctypes.c_uint64(source.data_ptr()),
                    ctypes.c_uint64(target.data_ptr()), ctypes.c_int64(vectors))

    def add_members(self, left: Sequence, right: Sequence, out: Sequence) -> None:
        table = _AddTable()
        for i, (a, b, y) in enumerate(zip(left, right, out)):
            table.a[i], table.b[i], table.out[i] = a.data_ptr(), b.data_ptr(), y.data_ptr()
        vectors = out[0].numel() // 4
        self.launch("add_members", (-(-vectors // (2 * _THREADS)), len(out)), _THREADS, table,
                    ctypes.c_int64(vectors))

    def norm(self, vectors: int, team: int, blocks: int, inputs: Sequence, scales: Sequence, biases: Sequence,
             out: Sequence) -> None:
        table = _NormTable()
        for i in range(len(out)):
            table.input[i], table.scale[i] = inputs[i].data_ptr(), scales[i].data_ptr()
            table.bias[i], table.out[i] = biases[i].data_ptr(), out[i].data_ptr()
        self.launch(f"norm_{vectors}x{team}", (blocks, len(out)), _THREADS, table, ctypes.c_int(inputs[0].shape[0]))


#: Kernels of limits.cu by the rows' width: vectors a thread, threads a row.
_NORMS = {768: [(3, 32)], 1024: [(4, 32), (2, 64)], 4096: [(4, 128), (2, 256)]}

#: Launchers of one set of inputs each: inputs -> (launch, outputs).
Maker = Callable[[Sequence], tuple[Callable[[], None], Optional[Sequence]]]
#: What is made once for all sets: weights -> a maker.
Factory = Callable[[Sequence], Maker]


@dataclass
class Limits:
    """The launches that may bound a row, by name; the fastest counts. `facts` are what is known about them."""

    factories: dict[str, Factory] = field(default_factory=dict)
    facts: dict = field(default_factory=dict)


def _adds(_workload: Workload, kernels: Kernels, torch) -> Limits:
    def make(inputs):
        half = len(inputs) // 2
        out = [torch.empty_like(x) for x in inputs[:half]]
        return lambda: kernels.add_members(inputs[:half], inputs[half:], out), out

    return Limits({"one launch": lambda _weights: make})


def _layer_norms(workload: Workload, kernels: Kernels, torch) -> Limits:
    count = len(workload.results)
    rows, width = workload.results[0].shape
    result: dict[str, Factory] = {}

    def factory(vectors, team, blocks):
        def make(inputs):
            x, scale, bias = (inputs[i * count:(i + 1) * count] for i in range(3))
            out = [torch.empty_like(v) for v in x]
            return lambda: kernels.norm(vectors, team, blocks, x, scale, bias, out), out
        return lambda _weights: make

    for vectors, team in _NORMS.get(width, []):
        whole = -(-rows // (_THREADS // team))
        result[f"one launch {vectors}x{team}"] = factory(vectors, team, whole)
        # As many blocks as stay on the device, each over several rows.
        resident = max(1, kernels.units * 2 // count)
        if resident < whole:
            result[f"one launch {vectors}x{team} resident"] = factory(vectors, team, resident)
    return Limits(result)


def _merged_linear(workload: Workload, _kernels, torch) -> Limits:
    def prepare(weights):
        half = len(weights) // 2
        weight, bias = torch.cat(list(weights[:half])), torch.cat(list(weights[half:]))

        def make(inputs):
            out: list = []

            def launch():
                whole = torch.nn.functional.linear(inputs[0], weight, bias)
                out[:] = list(whole.chunk(half, -1))
            return launch, out
        return make

    return Limits({"one cuBLASLt call": prepare})


def _matmul(_workload: Workload, _kernels, torch) -> Limits:
    def make(inputs):
        return lambda: torch.mm(inputs[0], inputs[1].t()), None  # bare: its result is another

    return Limits({"bare matmul": lambda _weights: make})


#: Seconds in which the plans of a convolution are built, and how many of them take turns with the others.
_PLANNING_S = 6.0
_FINALISTS = 3


def _screen(torch, plans: Sequence[dnn.Plan], convolution: dnn.Convolution, x, workspace) -> list[dnn.Plan]:
    """The fastest plans that run, by a quick look at each."""
    w = torch.randn(convolution.w, device="cuda").to(x.dtype).contiguous(memory_format=torch.channels_last)
    bias = torch.randn(convolution.w[0], device="cuda").to(x.dtype)
    y = torch.empty(convolution.y, device="cuda", dtype=x.dtype, memory_format=torch.channels_last)
    clock = DeviceClock(torch)
    times: list[tuple[float, int]] = []
    for index, plan in enumerate(plans):
        def launch(plan=plan):
            plan.enqueue(torch.cuda.current_stream().cuda_stream,
                         *(t.data_ptr() for t in (x, w, bias, y, workspace)))
        try:
            replay = gpu.capture(torch, launch)
            clock.batch([replay], 10)
            times.append((min(clock.batch([replay], 20) for _ in range(2)), index))
        except (FusionError, RuntimeError):
            continue  # planned, but refused when it runs
    return [plans[index] for _us, index in sorted(times)[:_FINALISTS]]


def _conv(workload: Workload, _kernels, torch) -> "Limits":
    """PyTorch's choice of fused convolution, and the fastest of all plans that cuDNN offers."""
    pad = workload.limit[1]["pad"]
    x = workload.inputs[0]
    n, height, width, channels = x.shape
    convolution = dnn.Convolution((n, channels, height, width), workload.weights[0].shape, pad, x.dtype)
    library = dnn.Library()
    begin = time.monotonic()
    plans, count = dnn.plans(library, convolution, _PLANNING_S)
    built_s = time.monotonic() - begin
    workspace = torch.empty(max([1, *(plan.workspace for plan in plans)]), device="cuda", dtype=torch.uint8)
    finalists = _screen(torch, plans, convolution, gpu.make_input(torch, x), workspace)

    def folded(weights):
        w, scale, shift, mean, variance = (v.double() for v in weights)
        gain = scale / (variance + 1e-5).sqrt()
        narrow = (w * gain.view(-1, 1, 1, 1)).to(weights[0].dtype)
        return narrow.contiguous(memory_format=torch.channels_last), (shift - mean * gain).to(weights[0].dtype)

    def chosen_by_torch(weights):
        w, bias = folded(weights)

        def make(inputs):
            image = inputs[0].permute(0, 3, 1, 2)
            out: list = []

            def launch():
                y = torch.cudnn_convolution_relu(image, w, bias, (1, 1), (pad, pad), (1, 1), 1)
                out[:] = [y.permute(0, 2, 3, 1)]
            return launch, out
        return make

    def factory(plan):
        def prepare(weights):
            w, bias = folded(weights)

            def make(inputs):
                y = torch.empty(workload.results[0].shape, device="cuda", dtype=w.dtype)

                def launch():
                    plan.enqueue(torch.cuda.current_stream().cuda_stream,
                                 *(t.data_ptr() for t in (inputs[0], w, bias, y, workspace)))
                return launch, [y]
            return make
        return prepare

    return Limits({"PyTorch's cuDNN plan": chosen_by_torch, **{plan.name: factory(plan) for plan in finalists}},
                  {"plans_offered": count, "plans_built": len(plans), "planning_s": round(built_s, 1),
                   "all_tried": built_s < _PLANNING_S})


_FAMILIES = {"adds": _adds, "layer_norms": _layer_norms, "merged_linear": _merged_linear, "matmul": _matmul,
             "conv": _conv}
_NEED_KERNELS = ("adds", "layer_norms")


def limits_of(workload: Workload, kernels: Optional[Kernels], torch) -> Limits:
    """Empty if nothing is known to bound the row."""
    if workload.limit is None or (kernels is None and workload.limit[0] in _NEED_KERNELS):
        return Limits()
    return _FAMILIES[workload.limit[0]](workload, kernels, torch)

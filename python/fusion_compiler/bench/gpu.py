# ===- gpu.py - PyTorch as the bench's hands on the GPU --------------------=== #
#
# Tensors of a workload, captured graphs, peers and the oracle. PyTorch is imported by
# `open_torch` and handed around, so that nothing else needs it installed.
#
# ===----------------------------------------------------------------------=== #
"""Inputs, graphs, peers and checks through PyTorch."""

from __future__ import annotations

import time
from typing import Callable, Optional, Sequence

import numpy as np

from ..errors import ENVIRONMENT, FusionError
from . import nodes
from .workload import Tensor, Workload


def open_torch():
    """The module, set up for fair peers. Raises FusionError 5 without it or without a GPU."""
    try:
        import torch
    except ImportError as error:
        raise FusionError(f"PyTorch can't be imported ({error}), for fusion-bench, install torch with CUDA, or use "
                          "--compile-only", ENVIRONMENT) from error
    if not torch.cuda.is_available():
        raise FusionError("no CUDA device, for fusion-bench, run it on a machine with a GPU and its driver, or use "
                          "--compile-only", ENVIRONMENT)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.benchmark_limit = 0  # every plan
    return torch


def dtype_of(torch, name: str):
    return {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[name]


def make_input(torch, tensor: Tensor, device: str = "cuda"):
    """Fresh random numbers, normal with the tensor's scale and offset."""
    values = torch.randn(tensor.shape, device=device, dtype=torch.float32)
    return values.mul_(tensor.scale).add_(tensor.offset).to(dtype_of(torch, tensor.dtype))


def make_weights(torch, workload: Workload, device: str = "cuda") -> list:
    """The weights that the workload's modules hold."""
    result = []
    for tensor in workload.weights:
        data = tensor.weights(workload.name)
        if tensor.dtype == "bf16":
            made = torch.from_numpy(data.view(np.int16).copy()).view(torch.bfloat16)
        else:
            made = torch.from_numpy(data)
        result.append(made.to(device))
    return result


def capture(torch, launch: Callable[[], object], pool=None) -> Callable[[], None]:
    """A CUDA graph of what `launch` queues; the callable replays it, its `nodes` tell what is in it (or None).

    Graphs of one `pool` share the memory of what `launch` doesn't hold on to.
    """
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            launch()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    try:
        graph, kept = torch.cuda.CUDAGraph(keep_graph=True), True
    except TypeError:  # an older PyTorch
        graph, kept = torch.cuda.CUDAGraph(), False
    with torch.cuda.graph(graph, pool=pool):
        launch()
    if kept:
        graph.instantiate()

    def replay() -> None:
        graph.replay()

    # The graph knows the addresses of what `launch` holds, and keeps none of it alive.
    replay.holds = launch  # type: ignore[attr-defined]
    replay.nodes = nodes.of_torch(graph)  # type: ignore[attr-defined]
    return replay


def repeat(torch, launch: Callable[[], object], count: int) -> Callable[[], None]:
    """One graph of what `launch` queues, or what it replays if it is a captured one, `count` times in a row."""
    work = getattr(launch, "holds", launch)

    def launch_all() -> None:
        for _ in range(count):
            work()

    return capture(torch, launch_all)


class Peer:
    """A workload's computation by PyTorch on each set of inputs: `calls` queue it op by op, `launches` replay it as one
    captured graph. Weights, and memory for what lies between the ops, are there once."""

    def __init__(self, torch, function: Callable, sets: Sequence[Sequence]):
        pool = torch.cuda.graph_pool_handle()
        self.results: list = []
        self.launches = []
        self.calls = []
        for inputs in sets:
            kept: list = []

            def launch(inputs=inputs, kept=kept):
                kept.clear()  # the next results may lie where the last ones did
                with torch.no_grad():
                    kept[:] = function(*inputs)

            def call(inputs=inputs):
                with torch.no_grad():
                    function(*inputs)
            self.launches.append(capture(torch, launch, pool))
            self.results.append(kept)
            self.calls.append(call)


def eager(torch, workload: Workload, weights: Sequence, sets: Sequence[Sequence]) -> Peer:
    return Peer(torch, workload.torch(weights), sets)


def inductor(torch, workload: Workload, weights: Sequence, sets: Sequence[Sequence]) -> tuple[Peer, float]:
    """torch.compile's default mode (with freezing where weights are known), and the seconds it compiled."""
    import torch._inductor.config as config

    torch._dynamo.reset()
    begin = time.perf_counter()
    with config.patch(freezing=workload.freezing), torch.no_grad():
        compiled = torch.compile(workload.torch(weights), dynamic=False)
        compiled(*sets[0])
        torch.cuda.synchronize()
        seconds = time.perf_counter() - begin
        return Peer(torch, compiled, sets), seconds


class Oracle:
    """The results of one set of inputs in f64, and how far others may be from them."""

    def __init__(self, torch, workload: Workload, inputs: Sequence, weights: Sequence):
        self._torch, self._workload = torch, workload
        wide = [x.double() for x in inputs]
        wide_weights = [w.double() for w in weights]
        # No search for the fastest f64 convolution.
        with torch.no_grad(), torch.backends.cudnn.flags(enabled=True, benchmark=False):
            self.want = list(workload.torch(wide_weights)(*wide))
            self._slack = workload.slack(torch, wide, wide_weights) if workload.slack else [0.0] * len(self.want)

    def check(self, results: Sequence) -> dict:
        """`ok`, the largest distance as a share of what is allowed, and the relative error in the Euclidean norm."""
        torch, tolerance = self._torch, self._workload.tolerance
        if len(results) != len(self.want):
            return {"ok": False, "why": f"{len(results)} results, expected {len(self.want)}"}
        worst, squares, size = 0.0, 0.0, 0.0
        for index, (got, want, slack) in enumerate(zip(results, self.want, self._slack)):
            if got.shape != want.shape:
                return {"ok": False, "why": f"result {index}: shape {tuple(got.shape)}, expected {tuple(want.shape)}"}
            exact = not self._workload.slack and not tolerance.relative and not tolerance.absolute
            near = want.to(got.dtype).double() if exact else want
            error = (got.detach().double() - near).abs()
            if not torch.isfinite(error).all():
                return {"ok": False, "why": f"result {index}: not every element was written with a finite number"}
            squares += float(error.square().sum())
            size += float(near.square().sum())
            if exact:
                differing = int((error != 0).sum())
                if differing:
                    return {"ok": False, "why": f"result {index}: {differing} elements differ, equality expected"}
                continue
            allowed = tolerance.relative * want.abs() + tolerance.absolute + slack + 1e-300
            worst = max(worst, float((error / allowed).max()))
        norm = (squares / size) ** 0.5 if size else squares
        # Roundings average out; an error that does not is no rounding.
        largest = {"f64": 1e-9, "f32": 1e-5, "f16": 2e-3, "bf16": 1e-2}[self._workload.results[0].dtype]
        return {"ok": worst <= 1 and norm <= largest, "of_allowed": worst, "relative_norm": norm}


def describe(torch) -> dict:
    """The GPU and the software that a row depends on."""
    properties = torch.cuda.get_device_properties(0)
    result = {"gpu": properties.name, "multiprocessors": properties.multi_processor_count,
              "memory_bytes": properties.total_memory, "cache_bytes": getattr(properties, "L2_cache_size", 0),
              "torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(),
              "driver": _driver_version()}
    try:
        import triton
        result["triton"] = triton.__version__
    except ImportError:
        pass
    return result


def _driver_version() -> Optional[str]:
    try:
        with open("/proc/driver/nvidia/version", encoding="ascii", errors="replace") as file:
            words = file.readline().split()
        return next((word for word in words if word.count(".") >= 1 and word[0].isdigit()), None)
    except OSError:
        return None

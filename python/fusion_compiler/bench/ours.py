# ===- ours.py - Fusion's modules as contenders ----------------------------=== #
#
# Opens a module and one session of it, for all sets of inputs: weights are there once,
# like the peers', and so is the memory for what lies between the ops. Inputs are
# PyTorch's tensors, shared with the peers; outputs are its own, made as a user of the
# package makes them. A runtime that queues a run on a stream of the caller's is timed on
# the device like the peers' graphs; one that only runs to the end is timed by the host's
# clock, and the row says so.
#
# ===----------------------------------------------------------------------=== #
"""Fusion's side of a row."""

from __future__ import annotations

import ctypes
import inspect
from typing import Optional, Sequence

from .. import runtime
from ..errors import BAD_PROGRAM, FusionError
from .timing import Contender


def use_runtime(path: Optional[str]) -> str:
    """Binds the runtime library, `path` or the one beside this package; its path. Raises runtime.FusionError."""
    if path:
        runtime.use_library(path)
    runtime._rt()
    return path or runtime._find_library()


def can_tune() -> bool:
    """Whether sessions of this package choose their libraries' algorithms by timing them."""
    return "autotune" in inspect.signature(runtime.Module.session).parameters


class OpenModule:
    """A module on each set of inputs. Raises runtime.FusionError for what the runtime refuses.

    `options` are those of the session. The runtime keeps a graph for each of 16 sets; with more it would capture again
    and again.
    """

    def __init__(self, torch, path: str, sets: Sequence[Sequence], names: Sequence[str], backend: str = "cuda",
                 **options):
        self._torch = torch
        self.module = runtime.load(path)
        order = [info.name for info in self.module.inputs]
        if sorted(order) != sorted(names):
            raise FusionError(f"{path}: its inputs are {order}, expected {list(names)}, compile it again", BAD_PROGRAM)
        self.session = self.module.session(backend=backend, **options)
        self.outputs, self._arguments = [], []
        for inputs in sets:
            by_name = dict(zip(names, inputs))
            ordered = [by_name[name] for name in order]
            device = inputs[0].device
            made = self.module.empty_outputs(
                allocate=lambda size: torch.empty(size, dtype=torch.uint8, device=device))  # noqa: B023
            outputs = [made[info.name] for info in self.module.outputs]
            self.outputs.append(outputs)
            self._arguments.append((*_addresses(ordered), *_addresses(outputs)))
        library = runtime._rt()
        self._run = library.fusion_rt_session_run
        self._enqueue = getattr(library, "fusion_rt_session_enqueue", None)
        if self._enqueue is not None:
            self._enqueue.restype = ctypes.c_void_p
            self._enqueue.argtypes = [*self._run.argtypes, ctypes.c_void_p]

    def results(self, index: int, order: Sequence[str]) -> list:
        """The outputs on set `index` in the order of the workload's results."""
        by_name = {info.name: tensor for info, tensor in zip(self.module.outputs, self.outputs[index])}
        return [by_name[name] for name in order]

    def poison(self) -> None:
        """Fills all outputs with NaN: whatever a run leaves unwritten shows."""
        for outputs in self.outputs:
            for tensor in outputs:
                tensor.fill_(float("nan"))
        self._torch.cuda.synchronize()

    def launcher_on(self, inputs: Sequence, outputs: Sequence):
        """A run on other tensors: inputs in the module's order, and outputs."""
        return self._launcher(0, (*_addresses(inputs), *_addresses(outputs)))

    def _launcher(self, index: int, arguments=None):
        handle, batch = self.session._handle, self.module.max_batch
        arguments = arguments or self._arguments[index]
        if self._enqueue is None:
            return lambda: runtime._check(self._run(handle, batch, *arguments))
        enqueue, current = self._enqueue, self._torch.cuda.current_stream
        return lambda: runtime._check(enqueue(handle, batch, *arguments, current().cuda_stream))

    def contender(self) -> Contender:
        return Contender([self._launcher(i) for i in range(len(self._arguments))], blocking=self._enqueue is None)

    def counts(self) -> dict:
        """What one run enters into the backend, by kind, from the runtime's own counters."""
        before = self.session.counters
        self._launcher(0)()
        self._torch.cuda.synchronize()
        after = self.session.counters
        return {name: after[name] - before[name] for name in ("launches", "calls", "copies") if name in after}


def _addresses(tensors: Sequence):
    return ((ctypes.c_void_p * len(tensors))(*(t.data_ptr() for t in tensors)),
            (ctypes.c_size_t * len(tensors))(*(t.numel() * t.element_size() for t in tensors)))

# ===- nodes.py - What a CUDA graph does, by its own nodes ------------------=== #
#
# Counts the kernels and the copies of a captured graph through the driver, graphs
# inside graphs too: nothing runs, and nobody who made the graph is asked.
#
# ===----------------------------------------------------------------------=== #
"""Kernels and copies of a captured graph."""

from __future__ import annotations

import ctypes
from typing import Optional

_KERNEL, _COPY, _FILL, _GRAPH = 0, 1, 2, 4  # CUgraphNodeType


class Unreadable(RuntimeError):
    """The driver answers no question about a graph."""


def open_driver():
    """The driver's library. Raises OSError."""
    return ctypes.CDLL("libcuda.so.1")


def _ask(code: int, call: str) -> None:
    if code:
        raise Unreadable(f"{call}: error {code}")


def count(driver, graph: int) -> dict[str, int]:
    """`kernels` and `copies` (fills among them) of a CUgraph. Raises Unreadable."""
    result = {"kernels": 0, "copies": 0}
    waiting = [graph]
    while waiting:
        handle = ctypes.c_void_p(waiting.pop())
        size = ctypes.c_size_t(0)
        _ask(driver.cuGraphGetNodes(handle, None, ctypes.byref(size)), "cuGraphGetNodes")
        nodes = (ctypes.c_void_p * size.value)()
        if size.value:
            _ask(driver.cuGraphGetNodes(handle, nodes, ctypes.byref(size)), "cuGraphGetNodes")
        for node in nodes:
            kind = ctypes.c_int(-1)
            _ask(driver.cuGraphNodeGetType(ctypes.c_void_p(node), ctypes.byref(kind)), "cuGraphNodeGetType")
            if kind.value == _GRAPH:
                child = ctypes.c_void_p()
                _ask(driver.cuGraphChildGraphNodeGetGraph(ctypes.c_void_p(node), ctypes.byref(child)),
                     "cuGraphChildGraphNodeGetGraph")
                waiting.append(child.value or 0)
            elif kind.value == _KERNEL:
                result["kernels"] += 1
            elif kind.value in (_COPY, _FILL):
                result["copies"] += 1
    return result


def of_torch(graph) -> Optional[dict[str, int]]:
    """The same of a torch.cuda.CUDAGraph that kept its graph; None where that can't be had."""
    try:
        return count(open_driver(), graph.raw_cuda_graph())
    except (AttributeError, OSError, RuntimeError):
        return None

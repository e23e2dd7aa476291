# ===- dram.py - Bytes that cross the DRAM's pins, by hardware counters -----=== #
#
# Nsight Compute (ncu) runs a worker (worker.py) that replays each module many times in
# a row between two marks, and reads the counters over the whole stretch: what the
# cache still owes the memory at its end is little against it, and as much as it owed
# at its start. Only modules that move many times what the cache holds are asked.
# Where ncu knows no such stretches, the kernels of rows with a bar are read one by one.
#
# ===----------------------------------------------------------------------=== #
"""DRAM traffic of modules."""

from __future__ import annotations

import csv
import ctypes
import glob
import os
import shutil
import sys
import tempfile
import time
from typing import Iterable, Optional, Sequence

import numpy as np

from .. import runtime
from ..errors import ENVIRONMENT, FusionError
from . import modules, ours, worker
from .table import first_line
from .workload import Workload, from_float

#: Rows that move less stay in the cache, in part.
LEAST_BYTES = 256 << 20
#: Bytes that the replays of a stretch move, about.
_STRETCH = 8 << 30
_METRICS = ("dram__bytes_read.sum", "dram__bytes_write.sum")
_UNITS = {"byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}


def find_ncu(path: Optional[str]) -> str:
    """Raises FusionError 5."""
    places = [path] if path else [shutil.which("ncu"), "/usr/local/cuda/bin/ncu",
                                  *sorted(glob.glob("/opt/nvidia/nsight-compute/*/ncu"), reverse=True)]
    for place in places:
        if place and os.access(place, os.X_OK) and os.path.isfile(place):
            return place
    raise FusionError(f"ncu not found{', ' + path if path else ' on PATH or in the CUDA toolkit'}, for --counters, "
                      "install Nsight Compute or give --ncu", ENVIRONMENT)


def replays(transferred: int) -> int:
    """How often a module that moves so many bytes runs in its stretch."""
    return max(4, -(-_STRETCH // max(1, transferred)))


def parse(lines: Iterable[str]) -> list[tuple[float, float]]:
    """Bytes read and written of each stretch or kernel, in order, from ncu's table (--csv --page raw). Raises
    FusionError with what ncu says instead."""
    lines = list(lines)
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        said = [line.strip() for line in lines if line.startswith(("==ERROR==", "==WARNING=="))]
        raise FusionError("ncu reads no counters" + (f": {said[0]}" if said else ""), ENVIRONMENT)
    table = list(csv.DictReader(lines[start:]))
    units = table[0] if table and not table[0]["ID"] else {}
    result = []
    for row in table:
        if not (row["ID"] or "").isdigit():
            continue
        values = []
        for metric in _METRICS:
            try:
                values.append(float(row[metric].replace(",", "")) * _UNITS[units.get(metric) or "byte"])
            except (AttributeError, KeyError, ValueError) as error:
                raise FusionError(f"ncu's table has no number of bytes for {metric}", ENVIRONMENT) from error
        result.append((values[0], values[1]))
    return result


class _Device:
    """The first GPU through its driver: buffers, a stream, marks for ncu."""

    def __init__(self):
        try:
            self._driver = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise FusionError(f"can't load the CUDA driver: {error}", ENVIRONMENT) from error
        device, context, self._stream = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuInit", 0)
        self._call("cuDeviceGet", ctypes.byref(device), 0)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxPushCurrent_v2", context)
        self._call("cuStreamCreate", ctypes.byref(self._stream), 1)  # waits for no other stream

    def _call(self, name: str, *arguments) -> None:
        code = getattr(self._driver, name)(*arguments)
        if code:
            raise FusionError(f"{name}: error {code} of the driver", ENVIRONMENT)

    @property
    def stream(self) -> int:
        return self._stream.value or 0

    def buffer(self, info, shape) -> "_Buffer":
        """Random numbers of the type and shape, the same every 1 MiB."""
        dtype = np.dtype(info.dtype)
        size = int(np.prod(shape)) * dtype.itemsize
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        values = np.random.default_rng(size).standard_normal((1 << 20) // dtype.itemsize)
        block = np.ascontiguousarray(from_float(values.astype(np.float32), info.dtype_name))
        for start in range(0, size, 1 << 20):
            self._call("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(address.value + start),
                       ctypes.c_void_p(block.ctypes.data), ctypes.c_size_t(min(size - start, block.nbytes)),
                       self._stream)
        self.wait()
        return _Buffer(address.value, shape, dtype)

    def free(self, buffers: Iterable["_Buffer"]) -> None:
        for buffer in buffers:
            self._call("cuMemFree_v2", ctypes.c_uint64(buffer.address))

    def wait(self) -> None:
        self._call("cuStreamSynchronize", self._stream)

    def mark(self, begin: bool) -> None:
        self._call("cuProfilerStart" if begin else "cuProfilerStop")


class _Buffer:
    def __init__(self, address: int, shape, dtype):
        self.address = address
        self.__cuda_array_interface__ = {"shape": tuple(shape), "typestr": dtype.str, "data": (address, False),
                                         "strides": None, "version": 3}


def replay(device, path: str, times: int) -> None:
    """Replays a module `times` times between two marks, after as many as warm it up."""
    module = runtime.load(path)
    session = module.session(backend="cuda")
    batch = module.max_batch
    inputs = {info.name: device.buffer(info, info.shape_at(batch)) for info in module.inputs}
    outputs = {info.name: device.buffer(info, info.shape_at(batch)) for info in module.outputs}
    for _ in range(3):
        session.enqueue(inputs, outputs, device.stream)
    device.wait()
    device.mark(True)
    for _ in range(times):
        session.enqueue(inputs, outputs, device.stream)
    device.wait()
    device.mark(False)
    del session
    device.free([*inputs.values(), *outputs.values()])


def run_worker(library: str, words: Sequence[str]) -> int:
    """Replays modules, PATH=TIMES each, and prints a line for each that was."""
    ours.use_runtime(library)
    device = _Device()
    for word in words:
        path, _, times = word.rpartition("=")
        try:
            replay(device, path, int(times))
            worker.say({"name": path})
        except (FusionError, runtime.FusionError) as error:
            worker.say({"failed": first_line(error)})
    return 0


def _read(ncu: str, library: str, words: Sequence[str], mode: str, limit_s: float) -> list[tuple[float, float]]:
    """Bytes by ncu over a worker. Raises FusionError."""
    with tempfile.TemporaryDirectory(prefix="fusion-bench-") as scratch:
        log = os.path.join(scratch, "log")
        command = [ncu, "--replay-mode", mode, "--profile-from-start", "off", "--metrics", ",".join(_METRICS),
                   "--clock-control", "none", "--cache-control", "none", "--csv", "--page", "raw", "--print-units",
                   "base", "--log-file", log]
        if mode != "kernel":
            del command[3:5]  # marks are what ranges are made of
        answers, facts = worker.collect("dram", [library, *words], limit_s, command)
        try:
            with open(log, encoding="utf-8", errors="replace") as file:
                found = parse(file)
        except OSError as error:
            raise FusionError(f"ncu: {facts.get('failed') or error}", ENVIRONMENT) from error
        except FusionError as error:
            raise FusionError(f"{error}; {facts['failed']}" if "failed" in facts else str(error),
                              ENVIRONMENT) from error
        if len(answers) != len(words):
            raise FusionError(f"{len(answers)} of {len(words)} modules ran: {facts.get('failed')}", ENVIRONMENT)
        return found


def measure_all(workloads: Sequence[Workload], folder: str, library: str, variants: Sequence[str],
                ncu: Optional[str], limit_s: float) -> tuple[dict[str, dict[str, dict]], dict]:
    """By row and variant, `dram`: bytes `read` and `written` by a run, and their sum over those of the inputs and
    outputs, `of_planned`. Facts, `failed` among them."""
    asked = [(w, variant, os.path.join(folder, modules.module_name(w, variant))) for w in workloads
             if not w.flops and w.bytes >= LEAST_BYTES for variant in variants]
    asked = [item for item in asked if os.path.isfile(item[2])]
    rows: dict[str, dict[str, dict]] = {}
    facts: dict = {}
    if not asked:
        return rows, {"failed": "no memory-bound row of that size is asked for"}

    def add(item, mode: str, read: float, written: float) -> None:
        workload, variant, _path = item
        times = replays(workload.bytes)
        rows.setdefault(workload.name, {})[variant] = {"dram": {
            "read": round(read / times), "written": round(written / times), "by": mode,
            "of_planned": round((read + written) / times / workload.bytes, 5)}}

    def word(item) -> str:
        return f"{item[2]}={replays(item[0].bytes)}"

    end = time.monotonic() + limit_s
    try:
        ncu = find_ncu(ncu)
        found = _read(ncu, library, [word(item) for item in asked], "application-range", limit_s)
        if len(found) != len(asked):
            raise FusionError(f"ncu saw {len(found)} stretches of {len(asked)}", ENVIRONMENT)
        for item, (read, written) in zip(asked, found):
            add(item, "stretch", read, written)
        return rows, facts
    except FusionError as error:
        facts["failed"] = first_line(error)
    if ncu is None or not os.path.isfile(ncu):
        return rows, facts
    for item in asked:
        if item[1] != variants[0] or not any(bar.figure == "dram" for clause in item[0].bars for bar in clause):
            continue
        try:
            found = _read(ncu, library, [word(item)], "kernel", max(1.0, end - time.monotonic()))
            add(item, "kernel", sum(read for read, _ in found), sum(written for _, written in found))
        except FusionError as error:
            facts["failed"] += f"; kernel by kernel: {first_line(error)}"
    return rows, facts


if __name__ == "__main__":
    sys.exit(run_worker(sys.argv[1], sys.argv[2:]))

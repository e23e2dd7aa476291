# ===- calibrate.py - A device file from measurements ----------------------=== #
#
# Starts from a device file of the same architecture for what can't be measured (limits
# of registers and shared memory, links) and replaces what can: copy bandwidth of memory
# and cache, the gap between dependent launches of a graph, rates of arithmetic by type,
# multiprocessors that fill the memory. Rates are what software reaches, not peaks.
#
# ===----------------------------------------------------------------------=== #
"""`fusion-bench calibrate`: measures a device and writes its file."""

from __future__ import annotations

import ctypes
import datetime
import json
import math
import os
from pathlib import Path
from typing import Callable, Mapping, Optional

from ..errors import ENVIRONMENT, USAGE, FusionError
from . import gpu
from .limits import Kernels
from .timing import Contender, DeviceClock, interleave

_ROUNDS = 15
#: Elements of the square products that are timed, by type.
_MATRICES = {"f64": 4096, "f32": 8192, "tf32": 8192, "f16": 8192, "bf16": 8192, "i8": 8192}


def find_device(name_or_path: str) -> str:
    """The path of a shipped device or a file. Raises FusionError 2."""
    if name_or_path.endswith(".json") or "/" in name_or_path:
        if os.path.isfile(name_or_path):
            return name_or_path
    else:
        for parent in Path(__file__).resolve().parents:
            for place in ("devices", "share/fusion/devices"):
                candidate = parent / place / f"{name_or_path}.json"
                if candidate.is_file():
                    return str(candidate)
    raise FusionError(f"no device file {name_or_path!r}, for --base, name a shipped device or a .json file", USAGE)


def time_one(torch, launch: Callable[[], object], rounds: int = _ROUNDS) -> float:
    """Microseconds of one replay of what `launch` queues."""
    contender = Contender([gpu.capture(torch, launch)])
    clock = DeviceClock(torch)
    return interleave({"it": contender}, lambda _c: clock, rounds)["it"].us


def copy_bandwidth(torch, kernels: Optional[Kernels], size: int = 1 << 30, rounds: int = _ROUNDS) -> dict[str, float]:
    """Bytes a second, read and written together, of a copy of `size` bytes of random data: by PyTorch's own copy, by
    the kernel of limits.cu where it is, and the faster of the two as `best`."""
    source = torch.randint(-(1 << 62), 1 << 62, (size // 8,), device="cuda")
    target = torch.empty_like(source)
    launches = {"torch": lambda: target.copy_(source)}
    if kernels is not None:
        launches["kernel"] = lambda: kernels.copy(source, target)
    contenders = {name: Contender([gpu.capture(torch, launch)]) for name, launch in launches.items()}
    clock = DeviceClock(torch)
    times = interleave(contenders, lambda _c: clock, rounds)
    if kernels is not None:
        target.zero_()
        launches["kernel"]()
        if not torch.equal(source, target):
            raise FusionError("copy_blocks copied wrong bytes, in limits.cu, compile it for this GPU", ENVIRONMENT)
    result = {name: 2 * size / (taken.us * 1e-6) for name, taken in times.items()}
    return {**result, "best": max(result.values())}


def copy_times(torch, kernels: Kernels, cache_bytes: int) -> list[dict[str, float]]:
    """Microseconds that one more copy in a graph takes, by the bytes that it reads and writes together: from and to
    memory, and of what the copy before left in the cache."""
    pool = torch.randint(-(1 << 62), 1 << 62, (max(4 * cache_bytes, 1 << 28) // 8,), device="cuda")
    result = []
    for power in range(14, 29):
        words = (1 << power) // 16  # of one side
        pairs = min(256, pool.numel() // (2 * words))
        sides = [pool[i * words:(i + 1) * words] for i in range(2 * pairs)]

        def cold(pairs=pairs, sides=sides):
            for i in range(pairs):
                kernels.copy(sides[2 * i], sides[2 * i + 1])

        def warm(sides=sides):
            for i in range(64):
                kernels.copy(sides[i % 2], sides[1 - i % 2])

        row = {"bytes": 16 * words, "us": time_one(torch, cold, 7) / pairs}
        if 16 * words <= cache_bytes // 2:
            row["cached_us"] = time_one(torch, warm, 7) / 64
        result.append({key: _round(value) for key, value in row.items()})
    return result


def run_time(torch, kernels: Kernels) -> float:
    """Microseconds of a graph of one empty kernel, replayed again and again."""
    return time_one(torch, lambda: kernels.launch("empty", (kernels.units, 1), 256))


def launch_gap(torch, kernels: Kernels) -> dict[str, float]:
    """Microseconds that one more kernel of a graph costs: an `empty` one, and one that is `dependent` on the last."""
    counter = torch.zeros(4, dtype=torch.int32, device="cuda")
    address = ctypes.c_uint64(counter.data_ptr())

    def repeat(name, count, *parameters):
        def launch():
            for _ in range(count):
                kernels.launch(name, (kernels.units, 1), 256, *parameters)
        return time_one(torch, launch)

    def slope(name, *parameters):
        return (repeat(name, 220, *parameters) - repeat(name, 20, *parameters)) / 200

    return {"empty": slope("empty"), "dependent": slope("increment", address)}


def vector_rates(torch, kernels: Kernels) -> dict[str, float]:
    """Operations a second of chains of multiply-adds that fill the device."""
    sink = torch.zeros(4, dtype=torch.float64, device="cuda")
    blocks, turns = kernels.units * 8, 4096
    parameters = ctypes.c_uint64(sink.data_ptr()), ctypes.c_int(turns)

    def rate(name):
        us = time_one(torch, lambda: kernels.launch(f"multiply_add_{name}", (blocks, 1), 256, *parameters))
        return blocks * 256 * turns * 16 / (us * 1e-6)

    return {name: rate(name) for name in ("f32", "f64")}


def matrix_rates(torch) -> dict[str, float]:
    """Operations a second of square products of random matrices."""
    result = {}
    for name, size in _MATRICES.items():
        allow = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
        try:
            if name == "i8":
                a, b = (torch.randint(-128, 128, (size, size), device="cuda", dtype=torch.int8) for _ in range(2))
                us = time_one(torch, lambda: torch._int_mm(a, b.t()), 7)  # noqa: B023
            else:
                dtype = torch.float32 if name == "tf32" else gpu.dtype_of(torch, name)
                a, b = (torch.randn(size, size, device="cuda", dtype=dtype) for _ in range(2))
                us = time_one(torch, lambda: torch.mm(a, b), 7)  # noqa: B023
            result[name] = 2 * size**3 / (us * 1e-6)
        finally:
            torch.backends.cuda.matmul.allow_tf32 = allow
    return result


def saturating_units(torch, kernels: Kernels, share: float = 0.95) -> int:
    """The fewest multiprocessors whose copy reaches `share` of what all of them reach."""
    source = torch.randint(-(1 << 62), 1 << 62, (1 << 25,), device="cuda")  # 256 MiB
    target = torch.empty_like(source)

    def rate(units):
        return 1 / time_one(torch, lambda: kernels.copy_on(units, source, target), 5)

    whole = rate(kernels.units)
    low, high = 1, kernels.units  # rate(high) is enough
    while low < high:
        middle = (low + high) // 2
        if rate(middle) >= share * whole:
            high = middle
        else:
            low = middle + 1
    return high


def device_file(base: Mapping, name: str, facts: Mapping, measured: Mapping) -> dict:
    """The base file's keys in their order, with what was measured in its place, rounded to four digits."""
    result = dict(base)
    result["name"] = name
    result["source"] = (
        f"Measured on {facts['gpu']}, driver {facts.get('driver') or 'unknown'}, CUDA {facts.get('cuda')}, on "
        f"{facts['date']} by fusion-bench calibrate: bandwidths by copies, launch_gap_us between dependent kernels of "
        f"a graph (an empty one costs {measured['empty_us']:.2f} us), rates by chains of multiply-adds and by products "
        f"of random matrices. Everything else from the file {base['name']}: {base['source']}")
    result["units"] = facts["multiprocessors"]
    result["memory_bytes"] = facts["memory_bytes"]
    if facts.get("cache_bytes"):
        result["cache_bytes"] = facts["cache_bytes"]
    for key in ("saturating_units", "memory_bandwidth", "cache_bandwidth", "launch_gap_us"):
        result[key] = _round(measured[key])
    for key in ("vector_flops", "matrix_flops"):
        result[key] = {**base[key], **{kind: _round(rate) for kind, rate in measured[key].items()}}
    return result


def _round(value):
    return value if isinstance(value, int) else float(f"{value:.4g}")


def calibrate(torch, kernels: Kernels, base_path: str, name: str, say: Callable[[str], None]) -> tuple[dict, dict]:
    """Measures the first GPU: the device file as a dictionary, and all that was measured."""
    with open(base_path, encoding="utf-8") as file:
        base = json.load(file)
    facts = {**gpu.describe(torch), "date": datetime.date.today().isoformat()}
    measured: dict = {}
    bandwidth = copy_bandwidth(torch, kernels)
    measured["memory_bandwidth"] = bandwidth["best"]
    say(f"copy bandwidth: {bandwidth['best'] / 1e12:.3f} TB/s "
        f"(torch {bandwidth['torch'] / 1e12:.3f}, kernel {bandwidth['kernel'] / 1e12:.3f})")
    # Input and output together fill half of the cache.
    cached = max(1 << 20, (facts.get("cache_bytes") or base["cache_bytes"]) // 4 // (1 << 20) * (1 << 20))
    measured["cache_bandwidth"] = copy_bandwidth(torch, None, cached)["best"]
    say(f"cache bandwidth: {measured['cache_bandwidth'] / 1e12:.3f} TB/s")
    gaps = launch_gap(torch, kernels)
    measured["launch_gap_us"], measured["empty_us"] = gaps["dependent"], gaps["empty"]
    say(f"launch gap: {gaps['dependent']:.3f} us dependent, {gaps['empty']:.3f} us empty")
    measured["run_us"] = run_time(torch, kernels)
    say(f"a run of one empty kernel: {measured['run_us']:.3f} us")
    measured["copies"] = copy_times(torch, kernels, facts.get("cache_bytes") or base["cache_bytes"])
    for row in measured["copies"]:
        say(f"copy of {row['bytes']:>9} bytes: {row['us']:.3f} us, cached {row.get('cached_us', math.nan):.3f} us")
    measured["saturating_units"] = saturating_units(torch, kernels)
    say(f"saturating units: {measured['saturating_units']}")
    measured["vector_flops"] = vector_rates(torch, kernels)
    measured["matrix_flops"] = matrix_rates(torch)
    for key in ("vector_flops", "matrix_flops"):
        say(f"{key}: " + ", ".join(f"{kind} {rate / 1e12:.1f} T" for kind, rate in measured[key].items()))
    return device_file(base, name, facts, measured), {**facts, **measured}

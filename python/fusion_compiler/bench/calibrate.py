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
#: Bytes of the copies that are timed, as powers of two.
_COPIES = range(14, 29)
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
    pool = torch.randint(-(1 << 62), 1 << 62, (max(4 * cache_bytes, 1 << _COPIES[-1]) // 8,), device="cuda")
    result = []
    for power in _COPIES:
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


def matrix_rates(torch, say: Callable[[str], None] = lambda _text: None) -> dict[str, float]:
    """Operations a second of square products of random matrices; a type that PyTorch has no product of is left out."""
    result = {}
    for name, size in _MATRICES.items():
        allow = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
        try:
            if name == "i8":
                a, b = (torch.randint(-128, 128, (size, size), device="cuda", dtype=torch.int8) for _ in range(2))
                us = time_one(torch, lambda: torch._int_mm(a, b.t()), 5)  # noqa: B023
            else:
                dtype = torch.float32 if name == "tf32" else gpu.dtype_of(torch, name)
                a, b = (torch.randn(size, size, device="cuda", dtype=dtype) for _ in range(2))
                us = time_one(torch, lambda: torch.mm(a, b), 5)  # noqa: B023
            result[name] = 2 * size**3 / (us * 1e-6)
        except (RuntimeError, TypeError, AttributeError) as error:
            say(f"matrix rate of {name}: not measured, {(str(error).splitlines() or ['no reason'])[0][:120]}")
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
    empty = f" (an empty one costs {measured['empty_us']:.2f} us)" if "empty_us" in measured else ""
    left = [name for name in measured.get("failed", {})]
    result["source"] = (
        f"Measured on {facts['gpu']}, driver {facts.get('driver') or 'unknown'}, CUDA {facts.get('cuda')}, on "
        f"{facts['date']} by fusion-bench calibrate: bandwidths by copies, launch_gap_us between dependent kernels of "
        f"a graph{empty}, rates by chains of multiply-adds and by products of random matrices. "
        f"{'Not measured: ' + ', '.join(left) + '. ' if left else ''}"
        f"Everything else from the file {base['name']}: {base['source']}")
    result["units"] = facts["multiprocessors"]
    result["memory_bytes"] = facts["memory_bytes"]
    if facts.get("cache_bytes"):
        result["cache_bytes"] = facts["cache_bytes"]
    for key in ("saturating_units", "memory_bandwidth", "cache_bandwidth", "launch_gap_us"):
        if key in measured:
            result[key] = _round(measured[key])
    for key in ("vector_flops", "matrix_flops"):
        result[key] = {**base[key], **{kind: _round(rate) for kind, rate in measured.get(key, {}).items()}}
    return result


def _round(value):
    return value if isinstance(value, int) else float(f"{value:.4g}")


def _parts(torch, kernels: Kernels, cache_bytes: int, say: Callable[[str], None]) -> dict[str, Callable[[], dict]]:
    """What is measured, each part on its own: it says what it found and gives entries of `measured`."""

    def gaps() -> dict:
        found = launch_gap(torch, kernels)
        say(f"launch gap: {found['dependent']:.3f} us dependent, {found['empty']:.3f} us empty")
        return {"launch_gap_us": found["dependent"], "empty_us": found["empty"]}

    def run() -> dict:
        us = run_time(torch, kernels)
        say(f"a run of one empty kernel: {us:.3f} us")
        return {"run_us": us}

    def copies() -> dict:
        rows = copy_times(torch, kernels, cache_bytes)
        for row in rows:
            say(f"copy of {row['bytes']:>9} bytes: {row['us']:.3f} us, cached {row.get('cached_us', math.nan):.3f} us")
        return {"copies": rows}

    def memory() -> dict:
        found = copy_bandwidth(torch, kernels)
        say(f"copy bandwidth: {found['best'] / 1e12:.3f} TB/s "
            f"(torch {found['torch'] / 1e12:.3f}, kernel {found['kernel'] / 1e12:.3f})")
        return {"memory_bandwidth": found["best"]}

    def cache() -> dict:
        # Input and output together fill half of the cache.
        size = max(1 << 20, cache_bytes // 4 // (1 << 20) * (1 << 20))
        rate = copy_bandwidth(torch, None, size)["best"]
        say(f"cache bandwidth: {rate / 1e12:.3f} TB/s")
        return {"cache_bandwidth": rate}

    def units() -> dict:
        found = saturating_units(torch, kernels)
        say(f"saturating units: {found}")
        return {"saturating_units": found}

    def rates(key: str, found: dict[str, float]) -> dict:
        say(f"{key}: " + ", ".join(f"{kind} {rate / 1e12:.1f} T" for kind, rate in found.items()))
        return {key: found}

    return {"launch gap": gaps, "run": run, "copies": copies, "memory": memory, "cache": cache, "units": units,
            "vector rates": lambda: rates("vector_flops", vector_rates(torch, kernels)),
            "matrix rates": lambda: rates("matrix_flops", matrix_rates(torch, say))}


def run_parts(parts: Mapping[str, Callable[[], dict]], say: Callable[[str], None],
              save: Callable[[dict], None]) -> dict:
    """Runs each part; `save` gets all that was measured after each. One that fails is said and left out."""
    measured: dict = {}
    for name, part in parts.items():
        try:
            measured.update(part())
        except (FusionError, RuntimeError, TypeError, AttributeError, OSError) as error:
            # What a version of PyTorch or a GPU lacks is that part's loss.
            said = (str(error).splitlines() or [type(error).__name__])[0][:200]
            measured.setdefault("failed", {})[name] = said
            say(f"{name}: not measured, {said}")
        save(measured)
    return measured


def calibrate(torch, kernels: Kernels, base_path: str, name: str, say: Callable[[str], None],
              save: Callable[[dict, dict], None]) -> tuple[dict, dict]:
    """Measures the first GPU: the device file as a dictionary, and all that was measured. `save` gets both after each
    part; what is not measured is the base's."""
    with open(base_path, encoding="utf-8") as file:
        base = json.load(file)
    facts = {**gpu.describe(torch), "date": datetime.date.today().isoformat()}
    parts = _parts(torch, kernels, facts.get("cache_bytes") or base["cache_bytes"], say)

    def both(measured: dict) -> tuple[dict, dict]:
        return device_file(base, name, facts, measured), {**facts, **measured}

    return both(run_parts(parts, say, lambda measured: save(*both(measured))))

# ===- xla.py - XLA as a peer ----------------------------------------------=== #
#
# Runs in a process of its own (worker.py), so that JAX and PyTorch share no memory pool
# and no library handles. The device time is the sum of the durations of all kernels and
# copies in JAX's own profile, without the gaps between them: less than any replay of
# them takes, so it favours XLA. Without such a profile it is the time of back-to-back
# calls by the host's clock.
#
# ===----------------------------------------------------------------------=== #
"""XLA's times, from a worker process."""

from __future__ import annotations

import glob
import os
import sys
import tempfile
import time
from typing import Callable, Iterable, Mapping, Optional, Sequence

from . import worker
from .table import first_line
from .timing import copies_for, fits
from .workload import Workload

_RUNS = 24


def device_events(planes: Iterable, runs: int) -> Optional[dict]:
    """What the device did in one of `runs` runs: `us`, `kernels` and `copies`. `planes` are those of a profile. None
    if no device was traced."""
    total, kernels, copies = 0.0, 0, 0
    for plane in planes:
        if not plane.name.startswith("/device:GPU"):
            continue
        for line in plane.lines:
            if not line.name.startswith("Stream"):
                continue  # other lines group the same kernels by module or op
            for event in line.events:
                total += event.duration_ns
                if event.name.startswith(("Memcpy", "Memset")):
                    copies += 1
                else:
                    kernels += 1
    if not kernels + copies:
        return None
    return {"us": round(total / runs / 1e3, 3), "launched": {"kernels": kernels / runs, "copies": copies / runs}}


def _profile(jax, work: Callable[[], None]) -> Optional[dict]:
    """The device's events while `work` runs all _RUNS runs."""
    options = jax.profiler.ProfileOptions()
    options.host_tracer_level = 0
    options.python_tracer_level = 0
    with tempfile.TemporaryDirectory() as folder:
        jax.profiler.start_trace(folder, profiler_options=options)
        try:
            work()
        finally:
            jax.profiler.stop_trace()
        files = glob.glob(os.path.join(folder, "**/*.xplane.pb"), recursive=True)
        return device_events(jax.profiler.ProfileData.from_file(files[0]).planes, _RUNS) if files else None


def _measure(workload: Workload, cache_bytes: int) -> dict:
    import jax
    import jax.numpy as jnp
    import ml_dtypes

    types = {"f32": jnp.float32, "f16": jnp.float16, "bf16": jnp.bfloat16}

    def weight(tensor):
        data = tensor.weights(workload.name)
        return jnp.asarray(data.view(ml_dtypes.bfloat16) if tensor.dtype == "bf16" else data)

    def inputs(key):
        keys = jax.random.split(key, len(workload.inputs))
        return [(jax.random.normal(k, t.shape) * t.scale + t.offset).astype(types[t.dtype])
                for k, t in zip(keys, workload.inputs)]

    weights = [weight(t) for t in workload.weights]
    count = copies_for(workload.bytes, cache_bytes)
    seed = jax.random.key(int.from_bytes(os.urandom(4), "little"))
    sets = [inputs(key) for key in jax.random.split(seed, count)]
    jax.block_until_ready(sets)
    begin = time.perf_counter()
    run = jax.jit(workload.jax(weights))
    jax.block_until_ready(run(*sets[0]))
    result: dict = {"compile_s": round(time.perf_counter() - begin, 2)}

    result.update(_time(jax, run, sets))
    if fits(workload.bytes, cache_bytes):
        result["warm"] = _time(jax, run, sets[:1])
    return result


def _time(jax, run: Callable, sets: Sequence[Sequence]) -> dict:
    """An entry of a row: `us`, by JAX's profile if it can be, and `host_us`."""
    def work():
        for i in range(_RUNS):
            out = run(*sets[i % len(sets)])
        jax.block_until_ready(out)

    work()
    begin = time.perf_counter()
    work()
    host_us = round((time.perf_counter() - begin) * 1e6 / _RUNS, 2)
    try:
        found, why = _profile(jax, work), "no kernels in JAX's profile"
    except Exception as error:  # noqa: BLE001 - the profiler is an extra
        found, why = None, first_line(error)
    return {"host_us": host_us, **(found or {"us": host_us, "clock": "host", "why": why})}


def entry_of(answer: Mapping, warm: bool) -> dict:
    """The part of a worker's answer that is of the row with cold data, or of that with warm data."""
    common = {key: value for key, value in answer.items() if key != "warm"}
    if not warm or "error" in answer:
        return common
    return answer.get("warm") or {"error": "not measured with its data in the cache"}


def run_worker(suite: Sequence[Workload], wanted: Sequence[str], cache_bytes: int) -> int:
    """Measures the workloads named, in that order, and prints a line for each."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax

    if jax.default_backend() != "gpu":
        worker.say({"failed": f"JAX sees no GPU, only {jax.default_backend()}"})
        return 5
    worker.say({"version": jax.__version__})
    by_name = {workload.name: workload for workload in suite}
    for name in wanted:
        workload = by_name[name]
        try:
            answer = _measure(workload, cache_bytes)
        except Exception as error:  # noqa: BLE001 - one row's failure is that row's
            answer = {"error": first_line(error)}
        worker.say({"name": name, **answer})
    return 0


def measure_all(suite: str, names: Sequence[str], cache_bytes: int, limit_s: float) -> tuple[dict[str, dict], dict]:
    """Rows by name and facts (`version` or `failed`) from a worker that may take `limit_s` seconds."""
    answers, facts = worker.collect("xla", [suite, str(cache_bytes), *names], limit_s)
    return {answer.pop("name"): answer for answer in answers}, facts


if __name__ == "__main__":
    from .suites import SUITES

    sys.exit(run_worker(SUITES[sys.argv[1]](), sys.argv[3:], int(sys.argv[2])))

# ===- xla.py - XLA as a peer ----------------------------------------------=== #
#
# Runs in a process of its own (`python -m fusion_compiler.bench.xla`), so that JAX and
# PyTorch share no memory pool and no library handles. It prints one JSON line a
# workload. The device time is the sum of the kernels' durations in JAX's own profile,
# without the gaps between them: less than a replay takes, so it favours XLA.
#
# ===----------------------------------------------------------------------=== #
"""XLA's times, from a worker process."""

from __future__ import annotations

import glob
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Callable, Iterable, Optional, Sequence

from .table import first_line
from .timing import copies_for
from .workload import Workload

_RUNS = 24


def kernel_nanoseconds(planes: Iterable, runs: int) -> Optional[float]:
    """The time of all device events, a run: `planes` are those of a profile. None if no device was traced."""
    total, found = 0.0, False
    for plane in planes:
        if not plane.name.startswith("/device:GPU"):
            continue
        for line in plane.lines:
            if not line.name.startswith("Stream"):
                continue  # other lines group the same kernels by module or op
            for event in line.events:
                found = True
                total += event.duration_ns
    return total / runs if found else None


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
    result = {"compile_s": round(time.perf_counter() - begin, 2)}
    for i in range(8):
        out = run(*sets[i % count])
    jax.block_until_ready(out)
    begin = time.perf_counter()
    for i in range(_RUNS):
        out = run(*sets[i % count])
    jax.block_until_ready(out)
    result["host_us"] = round((time.perf_counter() - begin) * 1e6 / _RUNS, 2)
    with tempfile.TemporaryDirectory() as folder:
        jax.profiler.start_trace(folder)
        for i in range(_RUNS):
            out = run(*sets[i % count])
        jax.block_until_ready(out)
        jax.profiler.stop_trace()
        files = glob.glob(os.path.join(folder, "**/*.xplane.pb"), recursive=True)
        spent = None
        if files:
            profile = jax.profiler.ProfileData.from_file(files[0])
            spent = kernel_nanoseconds(profile.planes, _RUNS)
    if spent is not None:
        result["us"] = round(spent / 1e3, 3)
    else:
        result["error"] = "no kernels in JAX's profile"
    return result


def worker(suite: Sequence[Workload], wanted: Sequence[str], cache_bytes: int) -> int:
    """Measures the workloads named and prints a line for each."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax

    if jax.default_backend() != "gpu":
        print(json.dumps({"failed": f"JAX sees no GPU, only {jax.default_backend()}"}), flush=True)
        return 5
    print(json.dumps({"version": jax.__version__}), flush=True)
    for workload in suite:
        if workload.name not in wanted:
            continue
        try:
            answer = _measure(workload, cache_bytes)
        except Exception as error:  # noqa: BLE001 - one row's failure is that row's
            answer = {"error": first_line(error)}
        print(json.dumps({"name": workload.name, **answer}), flush=True)
    return 0


def measure_all(suite: str, names: Sequence[str], cache_bytes: int, limit_s: float,
                say: Callable[[str], None]) -> tuple[dict[str, dict], dict]:
    """Rows by name and facts (`version` or `failed`) from a worker that may take `limit_s` seconds."""
    rows: dict[str, dict] = {}
    facts: dict = {}
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(
        [str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)}
    command = [sys.executable, "-m", "fusion_compiler.bench.xla", suite, str(cache_bytes), *names]
    with tempfile.TemporaryFile("w+") as errors, tempfile.TemporaryFile("w+") as answers:
        process = subprocess.Popen(command, stdout=answers, stderr=errors, stdin=subprocess.DEVNULL, env=environment)
        try:
            process.wait(limit_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            facts["failed"] = f"stopped after {limit_s:g} s; the rows before count"
        except BaseException:
            process.kill()
            process.wait()
            raise
        answers.seek(0)
        for line in answers:
            try:
                answer = json.loads(line)
            except ValueError:
                continue
            name = answer.pop("name", None)
            if name:
                rows[name] = answer
            else:
                facts.update(answer)
        if process.returncode and "failed" not in facts:
            errors.seek(0)
            said = errors.read().strip().splitlines()
            facts["failed"] = (said[-1] if said else f"exit status {process.returncode}")[:300]
    if "failed" in facts:
        say(f"xla: {facts['failed']}")
    return rows, facts


if __name__ == "__main__":
    from .suites import SUITES

    sys.exit(worker(SUITES[sys.argv[1]](), sys.argv[3:], int(sys.argv[2])))

"""Programs of two ranks on two GPUs: every collective, training steps, faults.

Inputs are small integers where results must be equal to the evaluator's; what float
steps may lose is what sums lose that are taken in another order.
"""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np

from _gpu import BIN, TRUST, fusionRun, main, requireGpu, run

RANKS = 2
DTYPES = ("f32", "f64", "f16", "bf16", "i8", "i32", "i64")
NUMPY = {"f32": "f4", "f64": "f8", "f16": "f2", "bf16": "u2", "i8": "i1", "i32": "i4", "i64": "i8", "i1": "?"}
STEPS = {  # flags of the model, of the compiler, largest difference relative to a tensor's largest element
    "mlp-integers": ("mlp --batch 8 --features 12 --hidden 24 --layers 3 --classes 8 --optimizer sgd --loss mse --clip 0 "
                     "--momentum 0.5 --weight-decay 0 --integers", ("--mesh=dp=2",), 0),
    "mlp": ("mlp --batch 8 --features 12 --hidden 24 --layers 3 --classes 8", ("--mesh=dp=2",), 1e-4),
    "gpt": ("gpt --batch 8 --seq 8 --hidden 32 --layers 2 --heads 4 --vocab 64", ("--mesh=dp=2",), 1e-3),
    "gpt-tensor": ("gpt --batch 8 --seq 8 --hidden 32 --layers 2 --heads 4 --vocab 64 --tp", ("--mesh=tp=2",), 1e-3),
    "convnet": ("convnet --batch 8 --image 8 --hidden 4 --layers 2", ("--mesh=dp=2",), 1e-3),
}


def text(shape, dtype):
    return "tensor<" + "".join(f"{n}x" for n in shape) + dtype + ">"


def collectives(dtype):
    """A program with every collective on [4, 6], and one whole bucket: (text, input types)."""
    a, b = text((4, 6), dtype), text((5,), dtype)
    lines, results = [], []

    def add(line, *types):
        name = f"%r{len(lines)}"
        names = [f"{name}#{i}" if len(types) > 1 else name for i in range(len(types))]
        lines.append(f"  {name}{f':{len(types)}' if len(types) > 1 else ''} = fusion.{line}")
        results.extend(zip(names, types))

    if dtype != "i1":
        for kind in ("sum", "mean", "min", "max", "prod"):
            add(f"all_reduce {kind}, %a on @m[dp] : {a}", a)
        add(f"all_reduce sum, %a, %b on @m[dp] : {a}, {b}", a, b)
        for dim, shape in ((0, (2, 6)), (1, (4, 3))):
            add(f"reduce_scatter sum, %a dim = {dim} on @m[dp] : ({a}) -> {text(shape, dtype)}", text(shape, dtype))
    for dim, shape in ((0, (8, 6)), (1, (4, 12))):
        add(f"all_gather %a dim = {dim} on @m[dp] : ({a}) -> {text(shape, dtype)}", text(shape, dtype))
    for split, concat, shape in ((0, 1, (2, 12)), (1, 0, (8, 3)), (0, 0, (4, 6)), (1, 1, (4, 6))):
        add(f"all_to_all %a split_dim = {split} concat_dim = {concat} on @m[dp] : ({a}) -> {text(shape, dtype)}",
            text(shape, dtype))
    for root in (0, 1):
        add(f"collective_broadcast %a, %b root = {root} on @m[dp] : {a}, {b}", a, b)
    for sources, targets in (([0, 1], [1, 0]), ([0], [1]), ([1], [1]), ([], [])):
        add(f"collective_permute %a sources = {sources} targets = {targets} on @m[dp] : {a}", a)
    add("axis_index @m[dp] : tensor<i64>", "tensor<i64>")
    types = ", ".join(f"{kind} {{fusion.name = \"y{i}\"}}" for i, (_, kind) in enumerate(results))
    return "\n".join([
        "fusion.mesh @m(dp = 2)",
        f"func.func @main(%a: {a} {{fusion.name = \"a\"}}, %b: {b} {{fusion.name = \"b\"}}) -> ({types}) "
        "attributes {fusion.partitioned} {",
        *lines,
        f"  return {', '.join(name for name, _ in results)} : {', '.join(kind for _, kind in results)}", "}", ""])


def inputsOf(folder):
    """The words that give a module the files of a folder: NAME.npy, or NAME@RANK.npy."""
    return [word for path in sorted(folder.glob("*.npy")) for word in ("--input", f"{path.stem}={path}")]


def prepareCollectives(folder):
    random = np.random.default_rng(3)
    for dtype in (*DTYPES, "i1"):
        place = folder / f"all-{dtype}"
        (place / "in").mkdir(parents=True)
        for rank in range(RANKS):
            for name, shape in (("a", (4, 6)), ("b", (5,))):
                values = random.integers(0, 2, shape) if dtype == "i1" else random.integers(-4, 5, shape)
                if dtype == "bf16":
                    values = (values.astype("f4").view("u4") >> 16).astype("u2")
                np.save(place / f"in/{name}@{rank}.npy", values.astype(NUMPY[dtype]))
        (place / "m.mlir").write_text(collectives(dtype))
        run("fusion-interpret", place / "m.mlir", "--ranks=2", *inputsOf(place / "in"), "--output-dir", place / "want")
        run("fusion-compile", place / "m.mlir", "--target=cuda:sm_90", "-o", place / "m.fsn")


def prepareSteps(folder):
    from _support import ROOT
    import sys
    sys.path.insert(0, str(ROOT / "python"))
    from fusion_compiler.models.cli import models
    for name, (model, flags, _) in STEPS.items():
        place = folder / name
        place.mkdir()
        models([*model.split(), "-o", str(place / "m.mlir"), "--write-inputs", str(place / "in")])
        run("fusion-interpret", place / "m.mlir", *inputsOf(place / "in"), "--output-dir", place / "want")
        run("fusion-compile", place / "m.mlir", "--target=cuda:sm_90", *flags, "-o", place / "m.fsn")


def prepare(folder):
    prepareCollectives(folder)
    prepareSteps(folder)


def runRanks(module, *arguments, **options):
    return fusionRun(module, "--ranks", RANKS, "--init-timeout", 120, *arguments, **options)


def checkCollectives(folder, checks):
    for dtype in (*DTYPES, "i1"):
        place = folder / f"all-{dtype}"
        for words in ((), ("--deterministic",), ("--nan-check",)):
            out = folder / "out"
            answer = runRanks(place / "m.fsn", *inputsOf(place / "in"), "--output-dir", out, *words)
            wrong = [f"rank {rank} {path.stem}" for rank in range(RANKS) if answer.returncode == 0
                     for path in sorted((place / f"want/rank{rank}").glob("*.npy"))
                     if not np.array_equal(np.load(path), np.load(out / f"rank{rank}" / path.name))]
            checks.check(f"collectives of {dtype} {' '.join(words)}".rstrip(), answer.returncode == 0 and not wrong,
                         answer.stderr.strip()[:400] + " ".join(wrong)[:300])


def checkSteps(folder, checks):
    for name, (_, _, tolerance) in STEPS.items():
        place, out = folder / name, folder / f"{name}-out"
        answer = runRanks(place / "m.fsn", *inputsOf(place / "in"), "--output-dir", out, "--json", "--bench", 20)
        if answer.returncode != 0:
            checks.check(name, False, answer.stderr.strip()[:600])
            continue
        worst, compared = (0.0, ""), 0
        for path in sorted((place / "want").glob("*.npy")):
            want = np.load(path).astype("f8")
            for rank in range(RANKS):
                got = np.load(out / f"rank{rank}" / path.name).astype("f8")
                if got.shape != want.shape:
                    continue  # a part of it
                compared += 1
                scale = max(np.abs(want).max(initial=0), 1e-3)
                worst = max(worst, (float(np.abs(want - got).max(initial=0)) / scale, f"{path.stem} of rank {rank}"))
        report = json.loads(answer.stdout)
        checks.check(f"{name}: the evaluator's results", compared > 0 and worst[0] <= tolerance,
                     f"{compared} tensors, at most {worst[0]:.1e} ({worst[1]}); {report['slowest_device_us']} us a step")
        replays = {each["bench"]["device_us"]["replays"] for each in report["per_rank"]}
        checks.check(f"{name}: all ranks replay equally often", len(replays) == 1, str(replays))
        counts = [each["counts"]["collectives"] for each in report["per_rank"]]
        memory = [each["memory"]["communication"] for each in report["per_rank"]]
        checks.check(f"{name}: counts what the ranks do", min(counts) > 0 and min(memory) > 0,
                     f"{counts} collectives, {memory} bytes of the device")


def childrenOf(job):
    return Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()


def checkFaults(folder, checks):
    module, inputs = folder / "gpt/m.fsn", inputsOf(folder / "gpt/in")
    answer = runRanks(module, *inputs, "--device", "0,0")
    checks.check("one GPU for two ranks", answer.returncode == 2 and "ranks 0, 1 have one device" in answer.stderr,
                 answer.stderr.strip()[:300])
    answer = runRanks(module, *inputs, "--device", "0,99")
    checks.check("a GPU that is not there", answer.returncode == 2 and "rank 1: there is no GPU 99" in answer.stderr,
                 answer.stderr.strip()[:300])
    answer = runRanks(module, *inputs, "--memory-limit", "1MiB")
    checks.check("a limit that NCCL's memory exceeds", answer.returncode == 6 and "memory" in answer.stderr,
                 answer.stderr.strip()[:300])
    # The time of a whole job, of which a fault may take some seconds more.
    for name, number, code, part, bound in (
            ("killed", signal.SIGKILL, 7, "rank 1 was killed by signal 9", 8),
            ("stopped", signal.SIGSTOP, 8, "rank 1 stands still", 5 + 8)):
        job = subprocess.Popen(
            [BIN / "fusion-run", module, TRUST, "--ranks", "2", *map(str, inputs), "--bench", "100000000",
             "--collective-timeout", "5"], stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
        time.sleep(15)  # NCCL starts, and steps are replayed
        children = childrenOf(job)
        alive = job.poll() is None and len(children) == RANKS
        start = time.monotonic()
        if alive:
            os.kill(int(children[1]), number)
        try:
            _, errors = job.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            job.kill()
            _, errors = job.communicate()
        seconds = time.monotonic() - start
        checks.check(f"a rank is {name} while steps are replayed",
                     alive and job.returncode == code and part in errors and seconds < bound,
                     f"exit {job.returncode}, {seconds:.1f} s: {errors.strip()[:400]}")
        checks.check(f"a rank was {name}: no process is left",
                     not any(Path(f"/proc/{child}").exists() for child in children))
        answer = runRanks(folder / "mlp-integers/m.fsn", *inputsOf(folder / "mlp-integers/in"))
        checks.check(f"a rank was {name}: the GPUs compute", answer.returncode == 0, answer.stderr.strip()[:300])


def check(folder, checks):
    requireGpu(RANKS)
    for part in (checkCollectives, checkSteps, checkFaults):
        part(Path(folder), checks)


if __name__ == "__main__":
    raise SystemExit(main(prepare, check))

"""Programs of two ranks on two GPUs: every collective, training steps, faults.

Inputs are small integers where results must be equal to the evaluator's; what float
steps may lose is what sums lose that are taken in another order.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from _gpu import BIN, TRUST, fusionRun, main, requireGpu, run

RANKS = 2
DTYPES = ("f32", "f64", "f16", "bf16", "i8", "i32", "i64")
NUMPY = {"f32": "f4", "f64": "f8", "f16": "f2", "bf16": "u2", "i8": "i1", "i32": "i4", "i64": "i8", "i1": "?"}
MOVES = ("all_gather", "all_to_all", "collective_broadcast", "collective_permute")
STEPS = {  # flags of the model, of the compiler, largest difference relative to a tensor's largest element
    "mlp-integers": ("mlp --batch 8 --features 12 --hidden 8 --layers 1 --classes 8 --optimizer sgd --loss mse --clip 0 "
                     "--momentum 0.5 --weight-decay 0 --integers", ("--mesh=dp=2",), 0),
    "mlp": ("mlp --batch 8 --features 12 --hidden 24 --layers 3 --classes 8", ("--mesh=dp=2",), 1e-4),
    "gpt": ("gpt --batch 8 --seq 8 --hidden 32 --layers 2 --heads 4 --vocab 64", ("--mesh=dp=2",), 1e-3),
    "gpt-tensor": ("gpt --batch 8 --seq 8 --hidden 32 --layers 2 --heads 4 --vocab 64 --tp", ("--mesh=tp=2",), 1e-3),
    "convnet": ("convnet --batch 8 --image 8 --hidden 4 --layers 2", ("--mesh=dp=2",), 1e-3),
}


def text(shape, dtype):
    return "tensor<" + "".join(f"{n}x" for n in shape) + dtype + ">"


def collectives(dtype, transport=None):
    """A program with every collective on [4, 6], and one whole bucket; with a transport the moves."""
    a, b = text((4, 6), dtype), text((5,), dtype)
    lines, results = [], []

    def add(line, *types):
        if transport:
            if not line.startswith(MOVES):
                return
            line = line.replace(" : ", f" {{fusion.transport = \"{transport}\"}} : ", 1)
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


def programs():
    """Of the collectives: a folder's name, the type, the transport."""
    for dtype in (*DTYPES, "i1"):
        yield f"all-{dtype}", dtype, None
    for dtype in ("f32", "bf16", "i1", "f64"):
        yield f"peer-{dtype}", dtype, "peer"


def prepareCollectives(folder):
    random = np.random.default_rng(3)
    for name, dtype, transport in programs():
        place = folder / name
        (place / "in").mkdir(parents=True)
        for rank in range(RANKS):
            for tensor, shape in (("a", (4, 6)), ("b", (5,))):
                values = random.integers(0, 2, shape) if dtype == "i1" else random.integers(-4, 5, shape)
                if dtype == "bf16":
                    values = (values.astype("f4").view("u4") >> 16).astype("u2")
                np.save(place / f"in/{tensor}@{rank}.npy", values.astype(NUMPY[dtype]))
        (place / "m.mlir").write_text(collectives(dtype, transport))
        run("fusion-interpret", place / "m.mlir", "--ranks=2", *inputsOf(place / "in"), "--output-dir", place / "want")
        run("fusion-compile", place / "m.mlir", "--target=cuda:sm_90", "-o", place / "m.fsn")
        if transport and "over peer copies" not in run("fusion-run", "--inspect", place / "m.fsn").stdout:
            raise SystemExit("the compiler dropped the transport of collectives")


def steps():
    """Name, flags of the model and of the compiler, largest difference: through NCCL, where it can by copies, and
    with gradients that kernels read on the other GPU."""
    for name, (model, flags, tolerance) in STEPS.items():
        yield name, model, (*flags, "--transport=nccl"), tolerance
        yield f"{name}-peer", model, (*flags, "--transport=peer"), tolerance
    # With a clip two kernels read a gradient, so that it is copied.
    for name in ("mlp-integers", "mlp", "gpt"):
        model, flags, tolerance = STEPS[name]
        yield f"{name}-direct", f"{model} --clip 0", (*flags, "--transport=direct"), tolerance


def prepareSteps(folder):
    from _support import ROOT
    sys.path.insert(0, str(ROOT / "python"))
    from fusion_compiler.models.cli import models
    for name, model, flags, tolerance in steps():
        place = folder / name
        place.mkdir()
        models([*model.split(), "-o", str(place / "m.mlir"), "--write-inputs", str(place / "in")])
        run("fusion-interpret", place / "m.mlir", *inputsOf(place / "in"), "--output-dir", place / "want")
        run("fusion-compile", place / "m.mlir", "--target=cuda:sm_90", *flags, "-o", place / "m.fsn")
        if name.endswith("-direct") and "read in place" not in run("fusion-run", "--inspect", place / "m.fsn").stdout:
            raise SystemExit(f"{name}: no gradient is read in place")
        # Half the sum of 64 squares over 8 rows: no part of it may need more bits than f32 has.
        if tolerance == 0 and not np.load(place / "want/loss.npy") * 16 < 2**24:
            raise SystemExit(f"{name}: its sums are not exact in f32")


def prepare(folder):
    prepareCollectives(folder)
    prepareSteps(folder)


def runRanks(module, *arguments, **options):
    return fusionRun(module, "--ranks", RANKS, "--init-timeout", 120, *arguments, **options)


def checkCollectives(folder, checks):
    for name, dtype, transport in programs():
        place = folder / name
        more = (("--deterministic",), ("--nan-check",)) if dtype in ("f32", "bf16") and not transport else ()
        for words in ((), *more):
            out = folder / "out"
            answer = runRanks(place / "m.fsn", *inputsOf(place / "in"), "--output-dir", out, "--json", *words)
            wrong = [f"rank {rank} {path.stem}" for rank in range(RANKS) if answer.returncode == 0
                     for path in sorted((place / f"want/rank{rank}").glob("*.npy"))
                     if not np.array_equal(np.load(path), np.load(out / f"rank{rank}" / path.name))]
            # Nothing to note: the transport that is asked for, and words of the GPU for the watchdog.
            checks.check(f"collectives of {name} {' '.join(words)}".rstrip(),
                         answer.returncode == 0 and not wrong and answer.stderr == "",
                         answer.stderr.strip()[:400] + " ".join(wrong)[:300])
            if transport and answer.returncode == 0:
                # No memory of NCCL's.
                held = [each["memory"]["communication"] for each in json.loads(answer.stdout)["per_rank"]]
                checks.check(f"collectives of {name} open no NCCL", max(held) < 32 << 20, f"{held} bytes")


def checkSteps(folder, checks):
    for name, _, _, tolerance in steps():
        place, out = folder / name, folder / f"{name}-out"
        answer = runRanks(place / "m.fsn", *inputsOf(place / "in"), "--output-dir", out, "--json", "--bench", 10)
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


def checkReplays(folder, checks):
    """Every element of many steps."""
    for name in ("mlp-integers", "mlp-integers-peer", "mlp-integers-direct", "peer-f32"):
        start = time.monotonic()
        answer = runRanks(folder / name / "m.fsn", *inputsOf(folder / f"{name}/in"), "--repeat", 10000)
        checks.check(f"10,000 steps of {name} give the same bits", answer.returncode == 0,
                     f"{time.monotonic() - start:.1f} s {answer.stderr.strip()[:400]}")


def usage():
    """Of each GPU: MiB in use, and how busy it is in percent."""
    text = subprocess.run(["nvidia-smi", "--query-gpu=memory.used,utilization.gpu", "--format=csv,noheader,nounits"],
                          capture_output=True, text=True, check=True).stdout
    return [tuple(map(int, line.split(","))) for line in text.splitlines()][:RANKS]


def checkLeft(name, before, checks):
    """Nothing of a job is left on the GPUs; the driver's counters lag behind."""
    end = time.monotonic() + 10
    while True:
        now = usage()
        isIdle = all(used <= old + 64 and busy == 0 for (used, busy), (old, _) in zip(now, before))
        if isIdle or time.monotonic() > end:
            break
        time.sleep(0.5)
    checks.check(f"{name}: no GPU is left busy", isIdle, f"(MiB, %) {before} before, {now} after")


def childrenOf(job):
    return Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()


HOG = """
import ctypes, sys, time
driver = ctypes.CDLL("libcuda.so.1")
driver.cuInit(0)
context, free, total, memory = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_uint64()
driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 1)
driver.cuCtxPushCurrent_v2(context)
driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
print(driver.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(free.value - (700 << 20))), flush=True)
sys.stdin.read()
"""


def checkStarts(folder, checks):
    """Ranks that do not all come up."""
    module, inputs = folder / "gpt/m.fsn", inputsOf(folder / "gpt/in")
    for name, code, part, words in (
            ("one GPU for two ranks", 2, "ranks 0, 1 have one device", ("--device", "0,0")),
            ("a GPU that is not there", 2, "rank 1: there is no GPU 99", ("--device", "0,99")),
            ("a limit that NCCL's memory exceeds", 6, "memory", ("--memory-limit", "1MiB")),
            ("a rank that does not come to NCCL", 8, "rank 1 did not prepare its run in time",
             ("--init-timeout", 10, "--inject", "1:load-hang"))):
        before, start = usage(), time.monotonic()
        answer = fusionRun(module, "--ranks", RANKS, *inputs, *words)
        seconds = time.monotonic() - start
        checks.check(name, answer.returncode == code and part in answer.stderr and seconds < 20,
                     f"exit {answer.returncode}, {seconds:.1f} s: {answer.stderr.strip()[:300]}")
        checkLeft(name, before, checks)
    # The other rank's GPU is full: its context and NCCL find no place.
    before = usage()
    hog = subprocess.Popen([sys.executable, "-c", HOG], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    filled = hog.stdout.readline().strip() == "0"
    start = time.monotonic()
    answer = fusionRun(module, "--ranks", RANKS, *inputs, "--init-timeout", 30)
    seconds = time.monotonic() - start
    hog.communicate()
    checks.check("a rank without memory", filled and answer.returncode == 6 and "rank 1" in answer.stderr and seconds < 20,
                 f"exit {answer.returncode}, {seconds:.1f} s: {answer.stderr.strip()[:400]}")
    checkLeft("a rank without memory", before, checks)


def checkFaults(folder, checks):
    """Ranks that are killed, or stopped, while steps are replayed; and at a collective that another waits in."""
    # The time of a whole job, of which a fault may take some seconds more.
    for name in ("gpt", "gpt-peer"):
        module, inputs = folder / f"{name}/m.fsn", inputsOf(folder / f"{name}/in")
        for what, number, code, part, bound in (
                ("killed", signal.SIGKILL, 7, "rank 1 was killed by signal 9", 8),
                ("stopped", signal.SIGSTOP, 8, "rank 1 stands still", 5 + 8)):
            before = usage()
            job = subprocess.Popen(
                [BIN / "fusion-run", module, TRUST, "--ranks", "2", *map(str, inputs), "--bench", "100000000",
                 "--collective-timeout", "5"], stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
            time.sleep(10)  # NCCL starts, and steps are replayed
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
            title = f"{name}: a rank is {what} while steps are replayed"
            checks.check(title, alive and job.returncode == code and part in errors and seconds < bound,
                         f"exit {job.returncode}, {seconds:.1f} s: {errors.strip()[:400]}")
            checks.check(f"{title}: no process is left",
                         not any(Path(f"/proc/{child}").exists() for child in children))
            checkLeft(title, before, checks)
        # Rank 1 captures its step no further: rank 0's GPU waits in the first collective.
        for fault, code, part in (("stop", 8, "rank 1 stands still"), ("hang", 8, "rank 1 ")):
            before, start = usage(), time.monotonic()
            answer = runRanks(module, *inputs, "--collective-timeout", 3, "--inject", f"1:{fault}")
            seconds = time.monotonic() - start
            title = f"{name}: rank 1 does not come to a collective ({fault})"
            checks.check(title, answer.returncode == code and part in answer.stderr and seconds < 30,
                         f"exit {answer.returncode}, {seconds:.1f} s: {answer.stderr.strip()[:400]}")
            checkLeft(title, before, checks)
    answer = runRanks(folder / "mlp-integers/m.fsn", *inputsOf(folder / "mlp-integers/in"))
    checks.check("after all faults the GPUs compute", answer.returncode == 0, answer.stderr.strip()[:300])


PARTS = {"collectives": checkCollectives, "steps": checkSteps, "replays": checkReplays, "starts": checkStarts,
         "faults": checkFaults}


def check(folder, checks):
    """All parts, or those that FUSION_RANKS_PARTS names."""
    requireGpu(RANKS)
    for part in os.environ.get("FUSION_RANKS_PARTS", " ".join(PARTS)).split():
        PARTS[part](Path(folder), checks)


if __name__ == "__main__":
    raise SystemExit(main(prepare, check))

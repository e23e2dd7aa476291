"""A hundred training steps with new data in each, on two GPUs and on one.

The losses of the exact perceptron are known, bit for bit; those of language models in
bf16, the larger of which has 124 M parameters, are held against one GPU with the whole
batch. Memory is what was planned.
"""

import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from _gpu import fusionRun, main, requireGpu, run
from _losses import GPT, RANKS, STEPS, checkExact, checkNear, inputsOf, language, models, prepareExact, prepareSmall, save

LARGE, BATCH, LENGTH, VOCAB = "gpt-124m --vocab 50304", 8, 1024, 50304
# `halves` is one GPU with a step in as many parts as there are ranks elsewhere.
WAYS = {"one": (), "halves": (), "dp.auto": ("--mesh=dp=2",), "dp.nccl": ("--mesh=dp=2", "--transport=nccl"),
        "dp.peer": ("--mesh=dp=2", "--transport=peer")}
ALONE = ("one", "halves")
LARGE_WAYS = (*ALONE, "dp.auto", "dp.nccl")
# A context, the library's code and its scratch memory, and what the driver takes in large pieces.
REST_MIB = 1500


def compile(folder, ways):
    for way in ways:
        model = folder / ("halves.mlir" if way == "halves" else "m.mlir")
        run("fusion-compile", model, "--target=cuda:sm_90", *WAYS[way], "-o", folder / f"{way}.fsn")


def specification(text):
    """Names, types and shapes of a step's arguments."""
    header = next(line for line in text.splitlines() if "func.func @main(" in line)
    result = []
    for argument in header.split(") -> (")[0].split("tensor<")[1:]:
        *shape, dtype = argument.split(">")[0].split("x")
        attributes = dict(part.split(" = ", 1) for part in argument.split("{")[1].split("}")[0].split(", ") if " = " in part)
        result.append((attributes["fusion.name"].strip('"'), dtype, list(map(int, shape)),
                       attributes["fusion.role"].strip('"')))
    return result


def prepare(folder):
    prepareExact(folder / "exact")
    prepareSmall(folder / "small")
    compile(folder / "exact", [way for way in WAYS if way != "halves"])
    compile(folder / "small", WAYS)
    large = folder / "large"
    large.mkdir()
    models(*LARGE.split(), "--batch", BATCH, *GPT.split(), "-o", large / "m.mlir")
    models(*LARGE.split(), "--batch", BATCH, *GPT.split(), "--micro-batches", RANKS, "-o", large / "halves.mlir")
    (large / "arguments.json").write_text(json.dumps(specification((large / "m.mlir").read_text())))
    compile(large, LARGE_WAYS)
    for path in folder.glob("*/*.mlir"):
        path.unlink()


def largeInputs(folder, target):
    """Files of all arguments, 0.75 GB: where training starts. How many bytes stay on a GPU."""
    random, held = np.random.default_rng(11), 0
    data = language(STEPS, BATCH, LENGTH, VOCAB, 3e-4)
    for name, dtype, shape, role in json.loads((folder / "arguments.json").read_text()):
        if role in ("data", "scalar"):
            continue
        if role == "state":
            array = np.zeros(shape, "f4")
        elif name.endswith("bias"):
            array = np.zeros(shape, "f4")
        elif len(shape) == 1:
            array = np.ones(shape, "f4")
        else:
            array = random.standard_normal(shape, "f4") * np.float32(0.02)
        if dtype == "bf16":
            bits = array.view("u4")
            array = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("u2")
        held += array.nbytes
        data[name] = array
    save(target, data)
    return held


class Watch:
    """The largest number of MiB in use on any GPU while a block runs, above what was in use before."""

    def _used(self):
        text = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
                              capture_output=True, text=True, check=False).stdout
        return [int(line) for line in text.split() if line.isdigit()]

    def _watch(self):
        while not self._ended.wait(0.2):
            self.most = max([self.most, *(now - old for now, old in zip(self._used(), self._before))])

    def __enter__(self):
        self.most, self._before, self._ended = 0, self._used(), threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()


def train(folder, way, inputs, output, checks, held=None):
    """The folders of the results, one a rank; none if the run failed."""
    ranks = () if way in ALONE else ("--ranks", RANKS, "--init-timeout", 120)
    start = time.monotonic()
    with Watch() as watch:
        answer = fusionRun(folder / f"{way}.fsn", *inputs, "--steps", STEPS, "--output-dir", output, "--json", *ranks)
    checks.check(f"{folder.name}, {way}: {STEPS} steps", answer.returncode == 0,
                 f"{time.monotonic() - start:.1f} s {answer.stderr.strip()[:400]}")
    if answer.returncode != 0:
        return []
    report = json.loads(answer.stdout)
    memory = [each["memory"] for each in report.get("per_rank", [report])]
    if held is not None:
        planned = max(each["planned_arena"] + each["scratchpad"] + each["communication"] for each in memory) + held
        most = planned / 2**20 + REST_MIB
        checks.check(f"{folder.name}, {way}: memory as planned",
                     all(each["arena"] == each["planned_arena"] for each in memory) and watch.most <= most,
                     f"arena {memory[0]['arena'] >> 20} of {memory[0]['planned_arena'] >> 20} MiB planned, parameters and "
                     f"moments {held >> 20}, communication {memory[0]['communication'] >> 20}; in use at most {watch.most}")
    return [output / f"rank{rank}" for rank in range(RANKS)] if ranks else [output]


def check(folder, checks):
    requireGpu(RANKS)
    # Gigabytes come and go: not by way of a disk.
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        out = Path(name)
        for way in WAYS:
            if way == "halves":
                continue
            if results := train(folder / "exact", way, inputsOf(folder / "exact/in"), out / f"exact-{way}", checks):
                checkExact(f"exact, {way}", folder / "exact/want", results, checks)
        for case, ways in (("small", tuple(WAYS)), ("large", LARGE_WAYS)):
            place, held = folder / case / "in", None
            if case == "large":
                place = out / "in"
                held = largeInputs(folder / case, place)
            alone = [train(folder / case, way, inputsOf(place), out / f"{case}-{way}", checks, held) for way in ALONE]
            for way in ways[len(ALONE):]:
                results = train(folder / case, way, inputsOf(place), out / f"{case}-{way}", checks, held)
                if all(alone) and results:
                    checkNear(f"{case} gpt in bf16, {way}", *(folders[0] for folders in alone), results, checks)
                # Only the losses are needed, and a machine has so much memory.
                for path in (out / f"{case}-{way}").glob("rank*/*.npy"):
                    path.unlink()


if __name__ == "__main__":
    sys.exit(main(prepare, check))

"""Training steps on ranks that are processes, as users run them.

`fusion-compile --mesh` partitions, buckets and schedules the step that
`python -m fusion_compiler.models` writes; `fusion-run --ranks` cuts the whole inputs.
Each rank's outputs are its parts of what one device computes: bit for bit where all
ops are closed on integers, else within what float32 loses when sums are taken in
another order.
"""

import re
import sys
import tempfile
from pathlib import Path

import numpy as np
from _ranks import partOf, positions, readPorts
from _support import ROOT, Checks, run

sys.path.insert(0, str(ROOT / "python"))
from fusion_compiler.models.cli import models  # noqa: E402

C = Checks()
GPT = "gpt --layers 2 --hidden 16 --heads 4 --seq 6 --vocab 24 --batch 8"
LLAMA = "llama --layers 2 --hidden 16 --heads 4 --kv-heads 2 --ffn 24 --seq 6 --vocab 20 --batch 8"
CONVNET = "convnet --layers 2 --hidden 4 --image 8 --batch 8 --classes 5"
MLP = "mlp --layers 3 --features 6 --hidden 8 --classes 4 --batch 8"
EXACT = "--activation relu --loss mse --optimizer sgd --momentum 0 --weight-decay 0 --clip 0 --integers"


def read(folder):
    return {path.stem: np.load(path) for path in folder.glob("*.npy")}


class Step:
    """One model, written, and run on one device."""

    def __init__(self, folder, name, flags, tolerance):
        self.folder, self.name, self.tolerance = folder / name.replace(" ", "_"), name, tolerance
        self.folder.mkdir(parents=True)
        self.model = self.folder / "step.mlir"
        models([*flags.split(), "-o", str(self.model), "--write-inputs", str(self.folder / "in")])
        self.words = [word for path in sorted((self.folder / "in").glob("*.npy"))
                      for word in ("--input", f"{path.stem}={path}")]
        run("fusion-interpret", self.model, *self.words, "--output-dir", self.folder / "one")
        self.whole = read(self.folder / "one")

    def wrong(self, name, want, got):
        if want.shape != got.shape:
            return f"{name}: shape {got.shape} is not {want.shape}"
        if self.tolerance == 0 or want.dtype.kind != "f":
            return "" if np.array_equal(want, got) else name
        scale = max(np.abs(self.whole[name]).max(initial=0), 1e-3)
        worst = np.abs(want.astype(np.float64) - got).max(initial=0) / scale
        return "" if worst <= self.tolerance else f"{name}: {worst:.2g}"

    def on(self, mesh, *options, gathers=False, exchanges=False):
        label = " ".join([f"{self.name}, {mesh}", *options])
        folder = self.folder / label.replace(" ", "_").replace(",", "")
        local = run("fusion-compile", self.model, "--target=cpu", "--mesh", mesh, *options, "--stop-after=partition",
                    "-o", "-").stdout
        axes, _, results = readPorts(local)
        points = positions(axes)
        said = run("fusion-compile", self.model, "--target=cpu", "--mesh", mesh, *options, "--explain",
                   "-o", self.folder / "m.fsn")
        def isTaken(rule):
            taken = re.search(rf"^ *([0-9]+) +{rule}", said.stdout + said.stderr, re.M)
            return bool(taken and int(taken.group(1)))
        if gathers or isTaken("gather-updates"):
            C.check(f"{label}: updates are gathered", gathers == isTaken("gather-updates"))
        if "--shard-state" in options:
            C.check(f"{label}: rows are exchanged", exchanges == isTaken("exchange-lookups"))
        run("fusion-run", self.folder / "m.fsn", "--ranks", str(len(points)), *self.words, "--output-dir", folder)
        wrong = []
        for rank, point in enumerate(points):
            outputs = read(folder / f"rank{rank}")
            for name, part, _, sharding, _ in results:
                box = partOf(self.whole[name].shape, part, sharding, axes, point)
                piece = outputs[name][tuple(slice(b.stop - b.start) for b in box)]
                wrong.append(self.wrong(name, self.whole[name][box], piece))
        wrong = sorted(set(filter(None, wrong)))
        C.check(label, not wrong and len(results) == len(self.whole), ", ".join(wrong)[:300])


with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    exact = Step(folder, "mlp of integers", f"{MLP} {EXACT}", 0)
    for ranks in (2, 3, 4, 8):
        exact.on(f"dp={ranks}")
    for ranks in (2, 4):
        exact.on(f"dp={ranks}", "--shard-state")
    exact = Step(folder, "mlp of integers over tp", f"{MLP} {EXACT} --tp", 0)
    for mesh in ("dp=1,tp=2", "dp=1,tp=4", "dp=2,tp=2"):
        exact.on(mesh)
    for name, flags, tolerance in (("convnet", CONVNET, 1e-4), ("gpt", GPT, 1e-4), ("llama", LLAMA, 1e-4)):
        step = Step(folder, name, flags, tolerance)
        for ranks in (2, 3, 4, 8):
            step.on(f"dp={ranks}")
        for ranks in (2, 4):
            step.on(f"dp={ranks}", "--shard-state")
    # More words than a batch has: ranks gather what is added to an embedding's rows, and
    # exchange those that they look up in one of which each holds a part.
    step = Step(folder, "gpt of many words", GPT.replace("--vocab 24", "--vocab 20000"), 1e-4)
    for ranks in (2, 3, 4):
        step.on(f"dp={ranks}", gathers=True)
    for ranks in (2, 4):
        step.on(f"dp={ranks}", "--shard-state", gathers=True, exchanges=True)
    # Of 20,000 rows a third is padded, and the gradient with it, which is reduced then.
    step.on("dp=3", "--shard-state", exchanges=True)
    step = Step(folder, "gpt over tp", GPT + " --tp", 1e-4)
    for mesh in ("dp=1,tp=2", "dp=1,tp=4", "dp=2,tp=2"):
        step.on(mesh)
    step.on("dp=2,tp=2", "--shard-state")
    Step(folder, "llama again", LLAMA + " --tp --recompute --micro-batches 2", 1e-4).on("dp=2,tp=2")
sys.exit(C.finish())

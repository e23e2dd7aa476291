"""Training steps whose ranks share the squares of their gradients.

Gradients are integers, so that all sums are exact: on ranks that are processes, results
are those of a step in which all ranks square whole gradients, bit for bit, and parameters
and norm are the same on all ranks. With sizes that the ranks do not divide,
micro-batches, embeddings, 16-bit activations, and reductions as such or as moves that
readers add. The device is one on which a number over the ranks takes next to nothing.
"""

import re
import sys
import tempfile
from pathlib import Path

import numpy as np
from _support import ROOT, Checks, run

sys.path.insert(0, str(ROOT / "python"))
from fusion_compiler.models.cli import models  # noqa: E402

C = Checks()
DEVICE = ROOT / "test/Integration/cpu/Inputs/quick-sums.json"
EXACT = "--activation relu --loss mse --optimizer sgd --momentum 0 --weight-decay 0 --integers"


def read(folder):
    return {path.stem: np.load(path) for path in sorted(folder.glob("*.npy"))}


class Step:
    """One model, written, with inputs."""

    def __init__(self, folder, name, flags):
        self.folder, self.name, self.parts = folder / name, name, {}
        self.folder.mkdir(parents=True)
        self.model = self.folder / "step.mlir"
        models([*flags.split(), "-o", str(self.model), "--write-inputs", str(self.folder / "in")])
        self.words = [word for path in sorted((self.folder / "in").glob("*.npy"))
                      for word in ("--input", f"{path.stem}={path}")]

    def on(self, ranks, *options, isExact=True):
        label = " ".join([self.name, f"dp={ranks}", *options])
        outputs, turned = {}, {}
        for way, more in (("shared", []), ("whole", ["--no-fuse=clip-shares"])):
            folder = self.folder / f"{way}-{label.replace(' ', '-')}"
            module = folder.with_suffix(".fsn")
            run("fusion-compile", self.model, "--target=cpu", f"--device={DEVICE}", f"--mesh=dp={ranks}", *options, *more, "-o", module)
            run("fusion-run", module, "--ranks", ranks, *self.words, "--output-dir", folder)
            outputs[way] = [read(folder / f"rank{rank}") for rank in range(ranks)]
            text = run("fusion-run", module, "--inspect").stdout
            turned[way] = len(re.findall(r" turn \d+\]", text))
        C.check(f"{label}: ranks have parts of their own", turned["shared"] > 1 and turned["whole"] == 0, str(turned))
        # Who adds what ranks have sent reads a part of each rank's tensor, and nobody writes the sum.
        self.parts.setdefault(ranks, turned["shared"])
        if "--transport=peer" in options:
            C.check(f"{label}: of what each rank has sent", turned["shared"] == ranks * self.parts[ranks], str(turned))
        shared, whole = outputs["shared"], outputs["whole"]
        names = [name for name in shared[0] if name not in {"loss"}]
        wrong = sorted({name for name in names for got in shared if got[name].tobytes() != shared[0][name].tobytes()})
        C.check(f"{label}: all ranks have the same", not wrong, ", ".join(wrong)[:200])
        wrong = sorted({name for want, got in zip(whole, shared) for name in want if not self.same(want[name], got[name], isExact)})
        C.check(f"{label}: as without", not wrong and len(names) > 3, ", ".join(wrong)[:200])
        C.check(f"{label}: gradients are clipped", 1 < shared[0]["grad_norm"] < np.inf, str(shared[0]["grad_norm"]))
        changed = [name for name in names if name in self.inputs() and not np.array_equal(shared[0][name], self.inputs()[name])]
        C.check(f"{label}: parameters change", len(changed) > 1, str(len(changed)))

    def inputs(self):
        return read(self.folder / "in")

    @staticmethod
    def same(want, got, isExact):
        if isExact or want.dtype.kind != "f":
            return want.tobytes() == got.tobytes()
        return np.abs(want.astype(np.float64) - got).max(initial=0) <= 1e-5 * max(1e-3, np.abs(want).max(initial=0))


with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    even = Step(folder, "even", f"mlp --layers 4 --features 160 --hidden 192 --classes 96 --batch 24 {EXACT}")
    odd = Step(folder, "odd", f"mlp --layers 3 --features 131 --hidden 257 --classes 67 --batch 24 {EXACT}")
    micro = Step(folder, "micro", f"mlp --layers 2 --features 131 --hidden 257 --classes 67 --batch 24 --micro-batches 2 {EXACT}")
    gpt = Step(folder, "gpt", "gpt --layers 2 --hidden 96 --heads 4 --seq 6 --vocab 251 --batch 24 --dtype bf16")
    for ranks in (2, 3, 8):
        for transport in ("nccl", "peer"):
            for step in (even, odd):
                step.on(ranks, f"--transport={transport}")
    micro.on(3, "--transport=nccl")
    for transport in ("nccl", "peer"):
        gpt.on(2, f"--transport={transport}", isExact=False)
sys.exit(C.finish())

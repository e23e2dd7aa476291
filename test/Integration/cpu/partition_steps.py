"""Training steps of real models, partitioned, against the single device.

Forward, backward, clipping and optimizer under data, tensor and sharded parallelism
and mixes of them. Where all ops are closed on integers the results are equal, else
within what float32 loses when sums are taken in another order.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from _ranks import compare, counts, interpret, partition, runModule, runRanks
from _support import ROOT, Checks

sys.path.insert(0, str(ROOT / "python"))
from fusion_compiler.models.cli import models  # noqa: E402

C = Checks()
GPT = "gpt --layers 2 --hidden 16 --heads 4 --seq 6 --vocab 24 --batch 8"
LLAMA = "llama --layers 2 --hidden 16 --heads 4 --kv-heads 2 --ffn 24 --seq 6 --vocab 20 --batch 8"
CONVNET = "convnet --layers 2 --hidden 4 --image 8 --batch 8 --classes 5"
MLP = "mlp --layers 3 --features 6 --hidden 8 --classes 4 --batch 8"
EXACT = "--activation relu --loss mse --optimizer sgd --momentum 0 --weight-decay 0 --clip 0 --integers"


def near(tolerance):
    """All elements within `tolerance` of the tensor's largest one."""

    def same(want, got):
        if want.dtype.kind != "f":
            return np.array_equal(want, got)
        scale = max(np.abs(want).max(initial=0), 1e-3)
        return bool(np.all(np.abs(want.astype(np.float64) - got) <= tolerance * scale))

    return same


class Step:
    """One model, written and evaluated once."""

    def __init__(self, folder, name, flags):
        self.folder, self.name = folder / name.replace(" ", "_"), name
        self.folder.mkdir(parents=True)
        models([*flags.split(), "-o", str(self.folder / "step.mlir"), "--write-inputs", str(self.folder / "in")])
        self.text = (self.folder / "step.mlir").read_text()
        self.inputs = {p.stem: np.load(p) for p in (self.folder / "in").glob("*.npy")}
        self.whole = interpret(self.folder / "one", self.text, self.inputs)
        self.parameters = sum(f"{name}.m" in self.inputs for name in self.inputs)

    def on(self, mesh, same, state=False, check=None):
        options = [f"mesh={mesh}"] + (["shard-state=true"] if state else [])
        label = f"{self.name}, {mesh}{', shards' if state else ''}"
        local = partition(self.folder / "p", self.text, *options)
        ranks, axes, results = runRanks(self.folder / label.replace(" ", "_"), local, self.inputs)
        wrong = compare(self.whole, ranks, axes, results, same)
        C.check(label, not wrong, " ".join(wrong)[:300])
        if check:
            found = counts(local)
            C.check(f"{label}: collectives", check(found), str(found))
        return local

    def onHosts(self, mesh, same, *flags):
        """The compiled module, a process a rank."""
        label = f"{self.name}, {mesh}, processes {' '.join(flags)}".rstrip()
        ranks, axes, results = runModule(self.folder / label.replace(" ", "_"), self.text, self.inputs, f"--mesh={mesh}", *flags)
        wrong = compare(self.whole, ranks, axes, results, same)
        C.check(label, not wrong, " ".join(wrong)[:300])


with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    exact = Step(folder, "mlp of integers", f"{MLP} {EXACT}")
    for n in (2, 3, 4, 8):
        # Eight gradients and the loss.
        exact.on(f"dp={n}", np.array_equal, check=lambda c: c == {"all_reduce": 9})
    for n in (2, 4):
        exact.on(f"dp={n}", np.array_equal, True)
    for n in (2, 3, 4, 8):
        exact.onHosts(f"dp={n}", np.array_equal)
    for n in (2, 4):
        exact.onHosts(f"dp={n}", np.array_equal, "--shard-state")
    micro = Step(folder, "mlp of integers in micro-batches", f"{MLP} {EXACT} --micro-batches 2")
    micro.on("dp=2", np.array_equal, check=lambda c: c == {"all_reduce": 9})
    exact = Step(folder, "mlp of integers over tp", f"{MLP} {EXACT} --tp")
    for mesh in ("tp=2", "tp=4", "dp=2,tp=2"):
        exact.on(mesh, np.array_equal)
        exact.onHosts(mesh, np.array_equal)

    for name, flags, tolerance in (("mlp", MLP, 1e-5), ("convnet", CONVNET, 1e-4), ("gpt", GPT, 1e-4), ("tied gpt", GPT + " --tied", 1e-4),
                                   ("llama", LLAMA, 1e-4), ("llama again", LLAMA + " --recompute --micro-batches 2", 1e-4)):
        step = Step(folder, name, flags)
        # One reduction a gradient and one for the loss; of shards the norm is summed
        # over the ranks too. Statistics of batch_norm_training are sums on the way.
        isPlain, count = name != "convnet", step.parameters
        for n in (2, 3, 4, 8) if name in ("convnet", "gpt") else (2,):
            step.on(f"dp={n}", near(tolerance), check=lambda c: not isPlain or c == {"all_reduce": count + 1})
        for n in (2, 3, 4):
            step.on(f"dp={n}", near(tolerance), True, check=lambda c: not isPlain or
                    (c["all_reduce"], c["reduce_scatter"], len(c)) == (2, count, 3))
        if name in ("convnet", "gpt"):
            step.onHosts("dp=2", near(tolerance))
            step.onHosts("dp=4", near(tolerance), "--shard-state")
    for name, flags in (("mlp", MLP), ("gpt", GPT), ("tied gpt", GPT + " --tied"), ("llama", LLAMA)):
        step = Step(folder, name + " over tp", flags + " --tp")
        for mesh in ("tp=2", "tp=4", "dp=2,tp=2"):
            # Forward and backward each sum two products of a block; then the norm.
            isEven = "gpt" in name or (name, mesh) == ("llama", "tp=2")
            step.on(mesh, near(1e-4), check=lambda c: not isEven or
                    c == {"all_reduce": 2 * 4 + 1 + ("dp" in mesh) * (step.parameters + 1)})
        step.on("dp=2,tp=2", near(1e-4), True)
        if name == "llama":
            step.onHosts("tp=2", near(1e-4))
            step.onHosts("dp=2,tp=2", near(1e-4), "--shard-state")
sys.exit(C.finish())

#!/usr/bin/env python3
# ===- training_step.py - Training steps against numpy --------------------=== #
#
# The steps that `python -m fusion_compiler models` writes: loss, every gradient,
# clipping, updates and running statistics against losses in numpy and their
# differences; micro-batches, recomputation and narrow types against the plain step;
# the compiled module against the evaluator. Integers where results are exact.
#
# ===----------------------------------------------------------------------=== #
"""Checks training steps end to end; prints one line a check."""

import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "Inputs/training"), str(HERE.parents[2] / "python")]
import forward  # noqa: E402
from _support import Checks, run  # noqa: E402

from fusion_compiler.models.cli import models  # noqa: E402

checks = Checks()


class Step:
    """One written step: its arguments, and what evaluator and module make of them."""

    def __init__(self, folder, name, flags, **changed):
        self.folder, self.name, self.flags = folder / name, name, flags.split()
        self.folder.mkdir()
        models([*self.flags, "-o", str(self.path), "--write-inputs", str(self.folder / "in")])
        self.inputs = {f.stem: np.load(f) for f in (self.folder / "in").glob("*.npy")}
        self.change(**changed)

    @property
    def path(self):
        return self.folder / "step.mlir"

    def change(self, **arrays):
        for name, array in arrays.items():
            self.inputs[name] = np.asarray(array, self.inputs[name].dtype).reshape(self.inputs[name].shape)
            np.save(self.folder / "in" / f"{name}.npy", self.inputs[name])

    def _execute(self, words, out):
        given = [word for name in self.inputs for word in ("--input", f"{name}={self.folder / 'in' / name}.npy")]
        run(*words, *given, "--output-dir", self.folder / out)
        return {f.stem: np.load(f) for f in (self.folder / out).glob("*.npy")}

    def evaluate(self):
        return self._execute(["fusion-interpret", self.path], "evaluated")

    def compile(self, *flags):
        self.module = self.folder / "step.fsn"
        run("fusion-compile", self.path, "--target=cpu", *flags, "-o", self.module)
        return self

    def execute(self):
        return self._execute(["fusion-run", self.module], "ran")

    def parameters(self):
        return {name: a for name, a in self.inputs.items()
                if f"{name}.m" in self.inputs or f"{name}.momentum" in self.inputs}


def distance(got, want):
    """Largest difference, relative to the largest element."""
    return float(np.abs(np.asarray(got, np.float64) - want).max(initial=0) / max(np.abs(want).max(initial=0), 1e-3))


def worst(got, want):
    """The pair that differs most, as (distance, name)."""
    return max((distance(got[name], value), name) for name, value in want.items())


def near(name, got, want, tolerance):
    far, where = worst(got, want)
    checks.check(name, far <= tolerance, f"{far:.1e} at {where}, allowed {tolerance:.0e}")


def equal(name, got, want):
    unlike = [n for n in want if not np.array_equal(got[n], want[n])]
    checks.check(name, not unlike and bool(want), f"{', '.join(unlike) or len(want)}")


def select(outputs, prefix="grad."):
    return {name.removeprefix(prefix): a for name, a in outputs.items() if name.startswith(prefix)}


# ---- gradients --------------------------------------------------------------

SMALL = {
    "mlp": "mlp --batch 4 --features 3 --hidden 5 --layers 2 --classes 4",
    "convnet": "convnet --batch 2 --channels 2 --image 4 --hidden 3 --layers 2 --classes 3",
    "gpt": "gpt --batch 2 --seq 4 --hidden 8 --layers 1 --heads 2 --vocab 7 --ffn 6",
    "llama": "llama --batch 2 --seq 4 --hidden 8 --layers 1 --heads 4 --kv-heads 2 --vocab 7 --ffn 6 --theta 100",
}
VARIANTS = [
    ("mlp", "", {}),
    ("mlp", "--activation gelu --loss mse --optimizer sgd", {"activation": "gelu", "loss": "mse"}),
    ("mlp", "--activation gelu_tanh --recompute", {"activation": "gelu_tanh"}),
    ("mlp", "--activation silu --loss mse --clip 100", {"activation": "silu", "loss": "mse"}),
    ("convnet", "", {}),
    ("convnet", "--pool avg --recompute --optimizer sgd", {"pool_kind": "avg"}),
    ("gpt", "", {"heads": 2}),
    ("gpt", "--tied --micro-batches 2", {"heads": 2}),
    ("gpt", "--kv-heads 1 --recompute --activation relu", {"heads": 2, "activation": "relu"}),
    ("llama", "", {"heads": 4, "theta": 100.0}),
    ("llama", "--tied --recompute --micro-batches 2 --optimizer sgd", {"heads": 4, "theta": 100.0}),
]


def checkUpdate(step, got, grads, limit, sgd):
    """The optimizer's own arithmetic, on the gradients that the step gave."""
    norm, factor, _ = forward.clipped(grads, limit)
    want = {"grad_norm": np.array(norm), "skipped": np.array(False)}
    lr = float(step.inputs["lr"])
    for name, value in step.parameters().items():
        decay = 0.1 if value.ndim > 1 else 0.0
        if sgd:
            new, momentum = forward.sgd(value, grads[name] * factor, step.inputs[f"{name}.momentum"], lr, decay)
            want |= {name: new, f"{name}.momentum": momentum}
        else:
            new, m, v = forward.adamw(value, grads[name] * factor, step.inputs[f"{name}.m"], step.inputs[f"{name}.v"],
                                      int(step.inputs["step"]), lr, decay)
            want |= {name: new, f"{name}.m": m, f"{name}.v": v}
    near(f"{step.name}: clip and update", got, want, 1e-12)


def checkGradients(folder):
    """All gradients of small models in f64, against differences."""
    for number, (model, flags, options) in enumerate(VARIANTS):
        flags += "" if "--clip" in flags else " --clip 0.25"
        step = Step(folder, f"{model} {flags}", f"{SMALL[model]} {flags} --dtype f64 --emit-gradients --seed {number + 1}")
        random = np.random.default_rng(number)
        # Not the first step: moments hold something.
        held = {name: random.uniform(0.01, 0.1, a.shape) for name, a in step.inputs.items()
                if name.rpartition(".")[2] in ("m", "v", "momentum")}
        step.change(**held, **({"step": 3} if "step" in step.inputs else {}))
        got = step.evaluate()
        parameters = {name: a.copy() for name, a in step.parameters().items()}
        loss = getattr(forward, model)

        def f():
            return loss(parameters, step.inputs, **options)

        near(f"{step.name}: loss", got, {"loss": np.array(f())}, 1e-13)
        near(f"{step.name}: gradients", select(got), forward.differences(f, parameters), 1e-8)
        checkUpdate(step, got, select(got), 100 if "--clip 100" in flags else 0.25, "sgd" in flags)
        if model == "convnet":
            seen = {}
            loss(parameters, step.inputs, statistics=seen, **options)
            near(f"{step.name}: running statistics", got,
                 {name: 0.9 * step.inputs[name] + 0.1 * value for name, value in seen.items()}, 1e-12)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        checkGradients(folder)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())

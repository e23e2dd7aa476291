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

import re
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "Inputs/training"), str(HERE.parents[2] / "python")]
import forward  # noqa: E402
import memory  # noqa: E402
from _support import Checks, run  # noqa: E402

from fusion_compiler.ir.builder import Builder  # noqa: E402
from fusion_compiler.ir.module import Module, Value  # noqa: E402
from fusion_compiler.models import ops  # noqa: E402
from fusion_compiler.models.cli import make_model, models  # noqa: E402
from fusion_compiler.models.optimizers import Hyper  # noqa: E402
from fusion_compiler.models.step import Options, training_step  # noqa: E402
from fusion_compiler.models.tape import Tape  # noqa: E402
from fusion_compiler.weights import write_module  # noqa: E402

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


def spread(got, want):
    """Root of the mean square of all differences, relative to that of all values."""
    flat = [np.concatenate([np.ravel(part[name]).astype(np.float64) for name in want]) for part in (got, want)]
    return float(np.linalg.norm(flat[0] - flat[1]) / np.linalg.norm(flat[1]))


def near(name, got, want, tolerance):
    far, where = max((distance(got[name], value), name) for name, value in want.items())
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
        step = Step(folder, f"{model} {flags}".strip(),
                    f"{SMALL[model]} {flags} --dtype f64 --emit-gradients --seed {number + 1}")
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


# ---- single ops -------------------------------------------------------------

def last(image):
    return np.moveaxis(image, 1, -1)


def viaFirst(f):
    """`f` of an image with its channels in front, for one that has them last."""
    return lambda x, *others: last(f(np.moveaxis(x, -1, 1), *others))


#: name, shapes of operands, the op on the tape, the op in numpy.
OPS = [
    ("conv 1d, window past the end", [(2, 9, 2), (3, 2, 2)], lambda t, x, w: ops.conv(t, x, w, strides=[3]),
     viaFirst(lambda x, w: forward.conv(x, w, [3], [0], [0], [1]))),
    ("conv 2d, all at once", [(2, 7, 6, 4), (6, 2, 3, 2)],
     lambda t, x, w: ops.conv(t, x, w, [2, 1], [1, 0], [0, 2], [1, 2], groups=2),
     viaFirst(lambda x, w: forward.conv(x, w, [2, 1], [1, 0], [0, 2], [1, 2], 2))),
    ("conv 2d, depthwise", [(1, 5, 5, 3), (3, 1, 3, 3)], lambda t, x, w: ops.conv(t, x, w, low=[1, 1], groups=3),
     viaFirst(lambda x, w: forward.conv(x, w, [1, 1], [1, 1], [1, 1], [1, 1], 3))),
    ("conv 3d", [(1, 3, 4, 4, 2), (2, 2, 2, 2, 3)], lambda t, x, w: ops.conv(t, x, w, [1, 2, 1], [0, 1, 1]),
     viaFirst(lambda x, w: forward.conv(x, w, [1, 2, 1], [0, 1, 1], [0, 1, 1], [1, 1, 1]))),
    ("max_pool that overlaps", [(2, 6, 5, 2)], lambda t, x: ops.max_pool(t, x, [3, 2], [2, 1], [1, 0], [0, 1]),
     viaFirst(lambda x: forward.pool(x, "max", [3, 2], [2, 1], [1, 0], [0, 1]))),
    ("avg_pool that overlaps", [(2, 6, 5, 2)], lambda t, x: ops.avg_pool(t, x, [3, 2], [2, 1], [1, 0], [0, 1]),
     viaFirst(lambda x: forward.pool(x, "avg", [3, 2], [2, 1], [1, 0], [0, 1]))),
    ("avg_pool, window past the end", [(1, 7, 2)], lambda t, x: ops.avg_pool(t, x, [2], [3]),
     viaFirst(lambda x: forward.pool(x, "avg", [2], [3], [0], [0]))),
]


def writeOp(path, shapes, build, dtype):
    """loss = sum(op(...) * r), and its gradients, of arguments x0, x1, ..., r."""
    module = Module()
    tape = Tape(Builder(module))
    values = [Value(dtype, shape, name=f"x{i}") for i, shape in enumerate(shapes)]
    out = build(tape, *map(tape.track, values))
    weight = Value(dtype, out.shape, name="r")
    module.arguments, module.argument_names = [*values, weight], [*(v.name for v in values), "r"]
    grads = tape.backward({out: weight})
    module.results = [out, *(grads.get(v) for v in values)]
    module.result_names = ["y", *(f"grad.{v.name}" for v in values)]
    write_module(module, str(path))
    return out.shape


def checkOps(folder):
    """Strides, dilations, pads and groups in f64, and small integers in f32 through the compiler."""
    for name, shapes, build, reference in OPS:
        own = folder / name
        own.mkdir()
        random = np.random.default_rng(1)
        for dtype in ("f64", "f32"):
            shape = writeOp(own / f"{dtype}.mlir", shapes, build, dtype)
            exact = dtype == "f32"
            arrays = {f"x{i}": random.standard_normal(s) for i, s in enumerate(shapes)}
            arrays["r"] = random.standard_normal(shape)
            if exact:
                arrays = {n: np.round(3 * a).astype(np.float32) for n, a in arrays.items()}
            given = []
            for n, array in arrays.items():
                np.save(own / f"{n}.npy", array)
                given += ["--input", f"{n}={own / n}.npy"]
            run("fusion-interpret", own / f"{dtype}.mlir", *given, "--output-dir", own / "want")
            want = {f.stem: np.load(f) for f in (own / "want").glob("*.npy")}
            if exact:
                run("fusion-compile", own / "f32.mlir", "--target=cpu", "-o", own / "f32.fsn")
                run("fusion-run", own / "f32.fsn", *given, "--output-dir", own / "got")
                # A share of a mean is no integer.
                got = {f.stem: np.load(f) for f in (own / "got").glob("*.npy")}
                (near(f"{name}: module", got, want, 1e-6) if "avg" in name else equal(f"{name}: module", got, want))
                continue
            operands = {n: a for n, a in arrays.items() if n != "r"}
            near(f"{name}: forward", want, {"y": reference(*operands.values())}, 1e-13)
            near(f"{name}: gradients", select(want),
                 forward.differences(lambda: (reference(*operands.values()) * arrays["r"]).sum(), operands), 1e-8)


def checkChoices(folder):
    """max_pool's gradient where windows hold equals, infinities and NaN: the module chooses as the evaluator does."""
    random = np.random.default_rng(4)
    shape = writeOp(folder / "pool.mlir", [(2, 9, 8, 5)],
                    lambda t, x: ops.max_pool(t, x, [3, 2], [2, 1], [1, 1], [1, 0]), "f32")
    x = random.choice(np.array([0, -0.0, 1, 1, 2, np.inf, -np.inf, -np.inf, np.nan], np.float32), (2, 9, 8, 5))
    x[0, :3, :3] = -np.inf
    np.save(folder / "x0.npy", x)
    np.save(folder / "r.npy", random.integers(1, 9, shape).astype(np.float32))
    given = [word for n in ("x0", "r") for word in ("--input", f"{n}={folder / n}.npy")]
    run("fusion-interpret", folder / "pool.mlir", *given, "--output-dir", folder / "want")
    run("fusion-compile", folder / "pool.mlir", "--target=cpu", "-o", folder / "pool.fsn")
    run("fusion-run", folder / "pool.fsn", *given, "--output-dir", folder / "got")
    got, want = (np.load(folder / way / "grad.x0.npy") for way in ("got", "want"))
    checks.check("max_pool's gradient among equals, infinities and NaN", np.array_equal(got, want))
    checks.check("and all of it arrives", want.sum() == np.load(folder / "r.npy").sum())


# ---- the compiled module ----------------------------------------------------

#: Larger than SMALL, so that groups and library calls are those of real models.
MIDDLE = {
    "mlp": "mlp --batch 16 --features 24 --hidden 48 --layers 3 --classes 8",
    "convnet": "convnet --batch 8 --image 16 --hidden 8 --layers 2",
    "gpt": "gpt --batch 4 --seq 16 --hidden 32 --layers 2 --heads 4 --vocab 96",
    "llama": "llama --batch 4 --seq 16 --hidden 32 --layers 2 --heads 4 --kv-heads 2 --vocab 96",
}
#: By type of activations: of losses, of gradients in the mean square, and of those of models with relu or windows:
#: there a rounding can choose another way, which changes single elements by all they have.
NARROW = {"f32": (1e-6, 1e-5, 1e-5), "bf16": (1e-2, 0.02, 0.15), "f16": (1e-3, 0.003, 0.05)}


def inspect(module):
    return run("fusion-run", module, "--inspect").stdout


def countCommands(module):
    """Launches and library calls of a run."""
    launches, calls = re.search(r"commands: (\d+) launches, (\d+) calls", inspect(module)).groups()
    return int(launches) + int(calls)


def checkModules(folder):
    """Modules of f32, bf16 and f16 against the evaluator's step in f64."""
    for model, flags in MIDDLE.items():
        exact = Step(folder, f"{model} f64", f"{flags} --dtype f64 --emit-gradients").evaluate()
        for dtype, (ofLoss, smooth, rough) in NARROW.items():
            ofGradients = smooth if model in ("gpt", "llama") else rough
            scale = " --loss-scale 1024" if dtype == "f16" else ""
            step = Step(folder, f"{model} {dtype}", f"{flags} --dtype {dtype} --emit-gradients{scale}").compile()
            got = step.execute()
            near(f"{model} {dtype}: loss of the module", got, {"loss": exact["loss"]}, ofLoss)
            far = spread(select(got), select(exact))
            checks.check(f"{model} {dtype}: gradients of the module", far <= ofGradients, f"{far:.1e} <= {ofGradients}")
            near(f"{model} {dtype}: the norm", got, {"grad_norm": exact["grad_norm"]}, ofGradients)
            copies = [line for line in inspect(step.module).splitlines() if re.match(r"\s*\d+ stream \d+ copy", line)]
            checks.check(f"{model} {dtype}: nothing is copied", not copies, "; ".join(copies[:2]))


def checkWays(folder):
    """Micro-batches and recomputation give what the plain step gives."""
    integers = "mlp --batch 8 --features 6 --hidden 8 --layers 2 --classes 4 --loss mse --optimizer sgd --clip 0 " \
               "--weight-decay 0 --momentum 0.5 --integers --emit-gradients"
    plain = Step(folder, "whole", integers).compile().execute()
    parts = Step(folder, "in 4 parts", integers + " --micro-batches 4").compile().execute()
    equal("micro-batches of integers are the whole batch", parts, plain)
    for model in ("gpt", "llama"):
        plain = Step(folder, f"{model} whole", f"{MIDDLE[model]} --dtype f64 --emit-gradients").evaluate()
        parts = Step(folder, f"{model} in parts", f"{MIDDLE[model]} --dtype f64 --emit-gradients --micro-batches 4")
        near(f"{model}: micro-batches are the whole batch", select(parts.evaluate()), select(plain), 1e-12)
    for model, flags in MIDDLE.items():
        plain = Step(folder, f"{model} kept", flags).compile()
        again = Step(folder, f"{model} recomputed", f"{flags} --recompute").compile()
        want, fused = plain.execute(), countCommands(plain.module)
        equal(f"{model}: recomputing changes no bit", again.execute(), want)
        equal(f"{model}: fusing changes no bit", plain.compile("--no-fuse=horizontal,vertical").execute(), want)
        alone = countCommands(plain.module)
        checks.check(f"{model}: fused in less than a fifth of the commands", 5 * fused < alone, f"{fused} of {alone}")


# ---- memory -----------------------------------------------------------------

#: name, preset or model, sizes.
LARGE = [
    ("mlp", "mlp", {"batch": 4096, "features": 2048, "hidden": 4096, "layers": 6, "classes": 1024}),
    ("convnet", "convnet-cifar", {}),
    ("gpt", "gpt-124m", {}),
    ("llama", "llama", {"batch": 4, "seq": 512, "hidden": 1024, "layers": 8, "heads": 16, "kv_heads": 4,
                        "vocab": 32000, "dtype": "bf16"}),
]
#: Name, micro-batches, recomputation, and the arena over what is needed for each of LARGE: 1.02, or what
#: docs/training-steps.md explains.
WAYS = [
    ("plain", 1, False, {}),
    ("2 micro-batches", 2, False, {}),
    ("recomputed", 1, True, {"llama": 1.11}),
]


def compileLarge(folder, kind, sizes, batches=1, recompute=False, flags=(), target="cpu"):
    """The step's graph, and what --inspect says of its module."""
    module = training_step(make_model(kind, sizes, recompute=recompute), Options(micro_batches=batches))
    write_module(module, str(folder / "large.mlir"))
    run("fusion-compile", folder / "large.mlir", f"--target={target}", *flags, "-o", folder / "large.fsn")
    return module, inspect(folder / "large.fsn")


def checkArena(name, text, need, most):
    """An arena has what is needed at once, each once, and no gaps."""
    arena, live = memory.peak(text), memory.alive(text)
    checks.check(f"{name}: the arena is within {most} of what is needed at once", arena <= most * need,
                 f"{arena} of {need}")
    checks.check(f"{name}: gaps in the arena", arena <= max(1.02, most) * live, f"{arena} of {live}")
    checks.check(f"{name}: nothing is copied", ", 0 copies" in text)
    return arena


def halfOfData(module):
    """Bytes of half of the batch."""
    return sum(memory.size_of(v) for v, a in zip(module.arguments, module.argument_attributes)
               if a["fusion.role"] == '"data"') // 2


def checkMemory(folder):
    """An AdamW step needs its parameters, moments, gradients and activations, each once."""
    # By hand: x [2, 3] by w [3, 4]; backward the labels' gradient [2, 4] f32 and w's [3, 4] are there at once.
    tiny = training_step(make_model("mlp", {"batch": 2, "features": 3, "layers": 0, "classes": 4}), Options(Hyper(clip=0)))
    checks.check("what a single layer needs", memory.needed(tiny) == 4 * (2 * 4 + 3 * 4 + 4), memory.needed(tiny))
    for name, kind, sizes in LARGE:
        started = time.monotonic()
        module = training_step(make_model(kind, sizes), Options())
        write_module(module, str(folder / "large.mlir"))
        took = time.monotonic() - started
        checks.check(f"{name}: written as text", took < 10, f"{took:.1f} s")
        arenas = {}
        for way, batches, recompute, allowed in WAYS:
            module, text = compileLarge(folder, kind, sizes, batches, recompute)
            arenas[way] = checkArena(f"{name}, {way}", text, memory.needed(module), allowed.get(name, 1.02))
        most = {"mlp": 0.9, "convnet": 0.8, "gpt": 0.35, "llama": 0.5}[name]
        checks.check(f"{name}: recomputing takes less than {most} of the arena",
                     arenas["recomputed"] < most * arenas["plain"], f"{arenas['recomputed']} of {arenas['plain']}")
        module, text = compileLarge(folder, kind, sizes, flags=["--ptxas=off"], target="cuda:sm_90")
        checkArena(f"{name}, for a GPU", text, memory.needed(module), 1.02)
        # Two ranks with half of the batch each: reductions are in place, parts of a gradient among them.
        half = make_model(kind, {**sizes, "batch": make_model(kind, sizes).sizes.batch // 2})
        need = memory.needed(training_step(half, Options()))
        _, text = compileLarge(folder, kind, sizes, flags=["--mesh=dp=2"])
        arena = checkArena(f"{name}, a rank of two", text, need, 1.02)
        _, onGpus = compileLarge(folder, kind, sizes, target="cuda:sm_90",
                                 flags=["--mesh=dp=2", "--ptxas=off", "--transport=nccl"])
        checkArena(f"{name}, a rank of two GPUs", onGpus, need, 1.02)
        apart = re.findall(r"all_reduce.* w s.*", text)
        checks.check(f"{name}: gradients are reduced in place", "all_reduce" in text and not apart, apart[:1])
        state = sum(memory.size_of(v) for v, a in zip(module.arguments, module.argument_attributes)
                    if "fusion.donated" in a)
        _, text = compileLarge(folder, kind, sizes, flags=["--mesh=dp=2", "--shard-state"])
        shards = sum(map(int, re.findall(r"segment \d+ input (\d+) bytes", text))) - halfOfData(module)
        checks.check(f"{name}: half of the state on a rank", shards <= 1.01 * state / 2, f"{shards} of {state}")
        checks.check(f"{name}: sharded state takes less in all", memory.peak(text) + shards < arena + state,
                     f"{memory.peak(text)} + {shards} against {arena} + {state}")


# ---- clipping ---------------------------------------------------------------

def checkClipping(folder):
    """Gradients whose squares overflow, none, and what is no number."""
    # y = 0 where x is 0: the gradient of the last bias is -targets / batch, and nothing else gets one.
    flags = "mlp --batch 1 --features 2 --hidden 3 --layers 1 --classes 100 --loss mse --emit-gradients --clip 2"
    for optimizer in ("adamw", "sgd"):
        step = Step(folder, f"clip {optimizer}", f"{flags} --optimizer {optimizer}")
        zeros = {n: np.zeros(a.shape) for n, a in step.parameters().items() if n.endswith("bias")}
        step.change(x=np.zeros((1, 2)), **zeros)
        step.compile()
        kept = {n: a for n, a in step.inputs.items() if n not in ("x", "targets", "lr", "step")}
        for way in (step.evaluate, step.execute):
            what = f"clip, {optimizer}, {way.__name__}"
            step.change(targets=np.full((1, 100), 1e20))
            got = way()
            checks.check(f"{what}: 1e20 a hundred times", got["grad_norm"] == np.float32(1e21) and not got["skipped"])
            grad = np.full(100, -1e20) * (2 / 1e21)
            want = np.float32(0.1) * grad if optimizer == "adamw" else grad
            name = "layers.1.bias." + ("m" if optimizer == "adamw" else "momentum")
            near(f"{what}: by 2 / 1e21", got, {name: want}, 1e-6)
            for bad in (np.inf, -np.inf, np.nan):
                step.change(targets=np.where(np.arange(100) == 7, bad, 1.0))
                got = way()
                checks.check(f"{what}: {bad} skips the step", got["skipped"] and not np.isfinite(got["grad_norm"]))
                equal(f"{what}: {bad} changes nothing", got, kept)
            step.change(targets=np.zeros((1, 100)))
            got = way()
            checks.check(f"{what}: zero", got["grad_norm"] == 0 and not got["skipped"]
                         and all(np.isfinite(got[n]).all() for n in kept))
            equal(f"{what}: zero leaves biases alone", got, {n: a for n, a in kept.items() if n.endswith("bias")})


def main():
    with tempfile.TemporaryDirectory() as name:
        for part in (checkGradients, checkOps, checkChoices, checkModules, checkWays, checkMemory, checkClipping):
            folder = Path(name) / part.__name__
            folder.mkdir()
            part(folder)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())

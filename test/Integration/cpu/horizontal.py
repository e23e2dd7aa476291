#!/usr/bin/env python3
"""Independent groups of one kind run as one launch.

Each case says how many launches and library calls a run has, counted twice from
outside the compiler: by the `null` backend, and by a preloaded library that sees
what a real run enters (one thread). Values are those of numpy; outputs lie
between guards that must not change; the bytes that commands write are those of
the tensors, so nothing is padded. The module without horizontal fusion gives the
same bits on one and on two threads.

oneDNN has no grouped product: the runtime enters it once for each member of a
grouped call, so there the preloaded library counts members.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from _support import BIN, ROOT, Checks, run

sys.path.insert(0, str(ROOT / "python"))
from fusion_compiler import runtime  # noqa: E402

HERE = Path(__file__).resolve().parent
F32 = np.float32
GUARD = 64


class Model:
    """Text, inputs and expected outputs, built one op at a time."""

    def __init__(self, seed, batch=None):
        self.random = np.random.default_rng(seed)
        self.batch = batch
        self.arguments, self.body, self.results = [], [], []
        self.inputs, self.want = {}, {}

    def type(self, shape):
        sizes = ["?" if self.batch and size == "B" else str(size) for size in shape]
        return "tensor<" + "".join(size + "x" for size in sizes) + "f32>"

    def shapeOf(self, shape):
        return [self.batch[1] if size == "B" else size for size in shape]

    def input(self, shape):
        name = f"x{len(self.inputs)}"
        self.inputs[name] = self.random.integers(-4, 5, self.shapeOf(shape)).astype(F32)
        self.arguments.append(f'%{name}: {self.type(shape)} {{fusion.name = "{name}"}}')
        return name

    def op(self, text, shape, want, isOutput=True):
        """`text` without its result, which gets a name."""
        name = f"v{len(self.body)}"
        self.body.append(f"  %{name} = {text}")
        if isOutput:
            self.results.append((name, self.type(shape)))
            self.want[name] = np.asarray(want, F32)
        return name

    def text(self):
        names = ", ".join(f'{kind} {{fusion.name = "{name}"}}' for name, kind in self.results)
        batch = f" attributes {{fusion.batch = array<i64: 1, {self.batch[0]}>}}" if self.batch else ""
        values = ", ".join("%" + name for name, _ in self.results) + " : " + ", ".join(kind for _, kind in self.results)
        return "\n".join([f"func.func @main({', '.join(self.arguments)}) -> ({names}){batch} {{", *self.body, f"  return {values}", "}", ""])


def layerNorm(model, shape):
    x, scale, bias = model.input(shape), model.input(shape[-1:]), model.input(shape[-1:])
    value = model.inputs[x].astype(np.float64)
    mean, variance = value.mean(-1, keepdims=True), value.var(-1, keepdims=True)
    want = (value - mean) / np.sqrt(variance + 1e-5) * model.inputs[scale] + model.inputs[bias]
    model.op(f"fusion.layer_norm %{x} scale %{scale} bias %{bias} epsilon = 1.0e-5 axis = {len(shape) - 1} : "
             f"{model.type(shape)}, {model.type(shape[-1:])}, {model.type(shape[-1:])}", shape, want)


def binary(model, name, function, shape, isOutput=True):
    x, y = model.input(shape), model.input(shape)
    want = function(model.inputs[x], model.inputs[y])
    return model.op(f"fusion.{name} %{x}, %{y} : {model.type(shape)}", shape, want, isOutput)


def threeAdds():
    model = Model(1)
    for shape in ([33], [33], [33]):
        binary(model, "add", np.add, shape)
    return model


def equalNorms():
    model = Model(2)
    for _ in range(12):
        layerNorm(model, [4, 48])
    return model


def unequalNorms():
    model = Model(3)
    for i in range(12):
        layerNorm(model, [1 + i % 4, 3 + 29 * i])
    return model


def dynamicNorms():
    model = Model(4, batch=(6, 3))
    for i in range(4):
        layerNorm(model, ["B", 5 + 7 * i])
    layerNorm(model, [2, 9])
    return model


def eightMatmuls():
    model = Model(5)
    for _ in range(8):
        x, w = model.input([6, 10]), model.input([10, 7])
        model.op(f"fusion.matmul %{x}, %{w} : tensor<6x10xf32>, tensor<10x7xf32>", [6, 7], model.inputs[x] @ model.inputs[w])
    return model


def mediumMatmuls():
    """Enough work together for two threads, too little in each for two."""
    model = Model(6)
    for _ in range(8):
        x, w = model.input([40, 40]), model.input([40, 40])
        product = model.op(f"fusion.matmul %{x}, %{w} : tensor<40x40xf32>, tensor<40x40xf32>", [40, 40], 0, isOutput=False)
        model.op(f"fusion.relu %{product} : tensor<40x40xf32>", [40, 40], np.maximum(model.inputs[x] @ model.inputs[w], 0))
    return model


def activationsAndProducts():
    model = Model(7)
    for i in range(8):
        shape = [5 + i, 9]
        x = model.input(shape)
        model.op(f"fusion.relu %{x} : {model.type(shape)}", shape, np.maximum(model.inputs[x], 0))
        binary(model, "mul", np.multiply, shape)
    return model


def dependentProducts():
    """Three heads of two products each: two calls, not one of six."""
    model = Model(8)
    for _ in range(3):
        x, w, b, u = (model.input(shape) for shape in ([2, 4], [4, 4], [2, 4], [4, 4]))
        first = model.op(f"fusion.matmul %{x}, %{w} : tensor<2x4xf32>, tensor<4x4xf32>", [2, 4], 0, isOutput=False)
        added = model.op(f"fusion.add %{first}, %{b} : tensor<2x4xf32>", [2, 4], 0, isOutput=False)
        a = model.inputs
        model.op(f"fusion.matmul %{added}, %{u} : tensor<2x4xf32>, tensor<4x4xf32>", [2, 4], (a[x] @ a[w] + a[b]) @ a[u])
    return model


def emptyMember():
    model = Model(9)
    for shape in ([4], [0, 3], [2, 5]):
        binary(model, "add", np.add, shape)
    return model


# Case, (launches, calls, tails), members of library calls.
CASES = [
    (threeAdds, (1, 0, 0), 0),
    (equalNorms, (1, 0, 0), 0),
    (unequalNorms, (1, 0, 0), 0),
    (dynamicNorms, (1, 0, 0), 0),
    (eightMatmuls, (0, 1, 0), 8),
    (mediumMatmuls, (0, 1, 1), 8),
    (activationsAndProducts, (2, 0, 0), 0),
    (dependentProducts, (0, 2, 0), 6),
    (emptyMember, (1, 0, 0), 0),
]


def guardedRun(module, inputs, want, threads):
    """Runs on outputs that lie between guards; returns them, or the name of one
    whose guards changed."""
    session = module.session(threads=threads)
    wholes, outputs = {}, {}
    for name, value in want.items():
        wholes[name] = np.full(value.size + 2 * GUARD, -12345, F32)
        outputs[name] = wholes[name][GUARD:GUARD + value.size].reshape(value.shape)
    session.run(inputs, outputs)
    for name, whole in wholes.items():
        if (whole[:GUARD] != -12345).any() or (whole[len(whole) - GUARD:] != -12345).any():
            return name, outputs
    return None, outputs


def counts(module):
    answer = run("fusion-run", module, "--backend=null", "--random-inputs", 1, "--json")
    return json.loads(answer.stdout)["counts"]


def entries(module, shim, folder):
    """Entries of one run: 11 runs against 1, so that loading does not count."""
    totals = []
    for runs in (1, 11):
        report = folder / "entries.json"
        run("fusion-run", module, "--random-inputs", 1, "--threads", 1, "--bench", runs, "--json",
            env={"LD_PRELOAD": str(shim), "COUNT_ENTRIES_FILE": str(report)})
        totals.append(json.loads(report.read_text()))
    return tuple((totals[1][key] - totals[0][key]) // 10 for key in ("kernels", "library"))


def checkCase(checks, case, expected, members, folder, shim):
    model, name = case(), case.__name__
    (folder / "m.mlir").write_text(model.text())
    run("fusion-compile", "m.mlir", "-o", "m.fsn", cwd=folder)
    run("fusion-compile", "m.mlir", "-o", "apart.fsn", "--no-fuse=horizontal", cwd=folder)
    seen, apart = counts(folder / "m.fsn"), counts(folder / "apart.fsn")
    got = (seen["launches"], seen["calls"], seen["tails"])
    checks.check(f"{name}: launches, calls, tails", got == expected, f"{got}, {apart['launches'] + apart['calls']} apart")
    inside = entries(folder / "m.fsn", shim, folder)
    checks.check(f"{name}: entries of a real run", inside == (expected[0] + expected[2], members), str(inside))
    same = all(seen[key] == apart[key] for key in ("bytes_read", "bytes_written"))
    checks.check(f"{name}: no byte more is read or written", same, f"{seen['bytes_written']} B written")
    fused, separate = runtime.load(str(folder / "m.fsn")), runtime.load(str(folder / "apart.fsn"))
    guard, one = guardedRun(fused, model.inputs, model.want, 1)
    guard2, two = guardedRun(fused, model.inputs, model.want, 2)
    _, alone = guardedRun(separate, model.inputs, model.want, 1)
    checks.check(f"{name}: guards", guard is None and guard2 is None, f"{guard or guard2 or ''}")
    bits = all(np.array_equal(one[key].view(np.int32), other[key].view(np.int32)) for other in (two, alone) for key in one)
    checks.check(f"{name}: the same bits apart and on two threads", bits)
    # Integers are exact; a norm is within a few roundings of its f64 value.
    tolerance = 1e-5 if "Norms" in name else 0
    values = all(np.allclose(one[key], model.want[key], rtol=tolerance, atol=tolerance) for key in one)
    checks.check(f"{name}: values", values)


def manyProducts(count):
    """Independent products of 16 elements."""
    model = Model(10)
    names = [model.input([16]) for _ in range(count)]
    for i, name in enumerate(names):
        other = names[(i + 1) % count]
        model.op(f"fusion.mul %{name}, %{other} : tensor<16xf32>", [16], model.inputs[name] * model.inputs[other])
    return model


def compileSeconds(folder):
    """Processor seconds, the least of three: a busy machine takes longer."""
    best = None
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run("fusion-compile", "m.mlir", "-o", "m.fsn", cwd=folder,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (8 << 20, 8 << 20)))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        best = used if best is None else min(best, used)
    return best


def checkScale(checks, folder):
    seconds = []
    for count in (2500, 5000):
        model = manyProducts(count)
        (folder / "m.mlir").write_text(model.text())
        seconds.append(compileSeconds(folder))
    launches = counts(folder / "m.fsn")["launches"]
    checks.check("5000 products: 64 to a launch", launches == -(-5000 // 64), f"{launches} launches")
    checks.check("5000 products compile in 20 s", seconds[1] <= 20, f"{seconds[1]:.2f} s")
    checks.check("twice the products, at most 2.6 times the time", seconds[1] <= 2.6 * seconds[0],
                 f"{seconds[1] / seconds[0]:.2f} times")
    _, outputs = guardedRun(runtime.load(str(folder / "m.fsn")), model.inputs, model.want, 2)
    checks.check("5000 products: values", all(np.array_equal(outputs[key], model.want[key]) for key in outputs))


def main():
    checks = Checks()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        shim = folder / "count_entries.so"
        subprocess.run([os.environ.get("CXX", "clang++-22"), "-std=c++17", "-O1", "-shared", "-fPIC",
                        str(HERE / "Inputs/count_entries.cpp"), "-o", str(shim), "-ldl"], check=True)
        for case, expected, members in CASES:
            checkCase(checks, case, expected, members, folder, shim)
        checkScale(checks, folder)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())

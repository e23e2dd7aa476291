"""Values near the end of f32's range, as docs/tolerances.md says.

The evaluator sums in f64, a compiled module in f32. Where the sum of the terms' absolute
values stays in f32's range the bound of sums holds; above it the compiled result may be
no number, but fused and unfused agree bit for bit. Squares and scores overflow as f32's do.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from _support import Checks, run

C = Checks()
F32 = np.float32
LARGEST = float(np.finfo(F32).max)
U = 2.0**-24


class Model:
    def __init__(self, folder, body, inputs, shape):
        """`body` computes %r of `shape` from the inputs."""
        self.folder, self.inputs = folder, inputs
        folder.mkdir(parents=True)
        arguments = ", ".join(f'%{name}: {typeOf(a.shape)} {{fusion.name = "{name}"}}' for name, a in inputs.items())
        (folder / "m.mlir").write_text(
            f'func.func @main({arguments}) -> ({typeOf(shape)} {{fusion.name = "r"}}) {{\n{body}\n'
            f"  return %r : {typeOf(shape)}\n}}\n")
        self.words = []
        for name, array in inputs.items():
            np.save(folder / f"{name}.npy", array)
            self.words += ["--input", f"{name}={folder / name}.npy"]

    def evaluated(self):
        run("fusion-interpret", self.folder / "m.mlir", *self.words, "--output-dir", self.folder / "e")
        return np.load(self.folder / "e/r.npy")

    def compiled(self):
        """The result of the compiled module, which grouping must not change."""
        results = []
        for number, flags in enumerate(([], ["--no-fuse=vertical,horizontal,projections"])):
            module, out = self.folder / f"{number}.fsn", self.folder / f"c{number}"
            run("fusion-compile", self.folder / "m.mlir", *flags, "-o", module)
            run("fusion-run", module, *self.words, "--trust", "all", "--output-dir", out)
            results.append(np.load(out / "r.npy"))
        C.check(f"{self.folder.name}: unfused alike", np.array_equal(*results, equal_nan=True))
        return results[0]


def typeOf(shape):
    return "tensor<" + "".join(f"{n}x" for n in shape) + "f32>"


def sums(folder):
    """Products of rows of ends and of ones, some of whose sums leave f32."""
    random = np.random.default_rng(3)
    ends = [0, 1, -2.5, 1e30, -1e30, 1e19, -1e20, 3e38, -3e38, 1e-30]
    x = random.choice(ends, (64, 24), p=[.3, .3, .2, .04, .04, .03, .03, .01, .01, .04]).astype(F32)
    w = random.choice([1, -1, 0.5, 1e19, 1e30], (24, 16), p=[.4, .35, .2, .03, .02]).astype(F32)
    body = ("  %m = fusion.matmul %x, %w : tensor<64x24xf32>, tensor<24x16xf32>\n"
            "  %r = fusion.relu %m : tensor<64x16xf32>")
    model = Model(folder / "matmul", body, {"x": x, "w": w}, (64, 16))
    check(model, np.abs(x).astype(np.float64) @ np.abs(w).astype(np.float64), 24)
    x[0] = 0
    x[0, [0, 16]], x[0, [1, 17]] = 3e38, -3e38  # a row's elements go to 16 accumulators in turn
    body = ("  %n = fusion.neg %x : tensor<64x24xf32>\n"
            "  %r = fusion.reduce sum, %n dims = [1] : tensor<64x24xf32>")
    model = Model(folder / "reduce", body, {"x": x}, (64,))
    check(model, np.abs(x).astype(np.float64).sum(1), 24)


def check(model, sizes, terms):
    """The bound of sums wherever `sizes`, the sums of absolute values, are f32."""
    want, got = model.evaluated().astype(np.float64), model.compiled().astype(np.float64)
    name, inside = model.folder.name, sizes < LARGEST
    C.check(f"{name}: sums inside and outside", inside.any() and not inside.all(), f"{inside.mean():.2f} inside")
    bound = (terms + 4) * U * sizes + 2 * U * np.abs(want)
    C.check(f"{name}: the bound inside", (np.abs(got[inside] - want[inside]) <= bound[inside]).all())
    C.check(f"{name}: outside the evaluator has a number where f32 has none",
            (np.isfinite(want) & ~np.isfinite(got))[~inside].any())


def squares(folder):
    """What is divided by the root of an infinite square is zero."""
    row = np.array([[1e30, -1, 2, 3], [1e19, -1e19, 1e18, 0]], F32)
    for norm in ("layer_norm", "rms_norm"):
        model = Model(folder / norm, f"  %r = fusion.{norm} %x epsilon = 1.0e-3 axis = 1 : tensor<2x4xf32>", {"x": row}, (2, 4))
        want, got = model.evaluated(), model.compiled()
        C.check(f"{norm}: zeros beyond", (got[0] == 0).all() and np.abs(want[0]).max() > 1, str(got[0]))
        C.check(f"{norm}: near below", np.allclose(want[1], got[1], rtol=1e-5))
    ones = {name: np.ones(1, F32) for name in "sb"}
    body = ("  %r, %m, %v = fusion.batch_norm_training %x, %s, %b epsilon = 1.0e-3 axis = 1 : "
            "tensor<4x1xf32>, tensor<1xf32>")
    model = Model(folder / "batch_norm_training", body, {"x": row[0].reshape(4, 1), **ones}, (4, 1))
    got = model.compiled()
    C.check("batch_norm_training: the bias beyond", (got == 1).all() and np.abs(model.evaluated() - 1).max() > 1, str(got.T))


def scores(folder):
    """Two infinite scores make a NaN; below, the evaluator's weights."""
    for name, size, lost in (("far", 1e30, True), ("near", 1e15, False)):
        q, v = np.full((1, 1, 2, 2), size, F32), np.array([[[[1, 2], [3, 4]]]], F32)
        body = ("  %r = fusion.attention %q, %k, %v scale = 0.5 : " + ", ".join(["tensor<1x1x2x2xf32>"] * 3))
        model = Model(folder / f"attention_{name}", body, {"q": q, "k": q, "v": v}, (1, 1, 2, 2))
        want, got = model.evaluated(), model.compiled()
        right = np.isnan(got).all() if lost else np.allclose(want, got)
        C.check(f"attention, scores {name}", np.isfinite(want).all() and right, str(got.ravel()))


with tempfile.TemporaryDirectory() as scratch:
    sums(Path(scratch))
    squares(Path(scratch))
    scores(Path(scratch))
sys.exit(C.finish())

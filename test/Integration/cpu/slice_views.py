#!/usr/bin/env python3
# ===- slice_views.py - Slices that move no bytes -------------------------=== #
#
# Slices that lie together in their input, read by library calls: the run enters
# no kernel for them, counted outside the compiler, and the values are exact (small
# integers; numpy). Beside them what could go wrong: the base computed over while
# a part is still read, donated arguments, batches, parts that must be copied.
#
# ===----------------------------------------------------------------------=== #
"""Checks views of slices end to end; prints one line a check."""

import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "Inputs"), str(HERE / "Inputs/reported")]
from harness import F32, RNG, Case, constant, np, program  # noqa: E402
from launch_counts import buildShim, fromInterposition, fromNullBackend  # noqa: E402

failed = []


def check(name, condition, detail=""):
    print(f"{'ok  ' if condition else 'FAIL'} {name}  {detail}".rstrip(), flush=True)
    if not condition:
        failed.append(name)


def integers(*shape, seed=0):
    return RNG(seed).integers(-3, 4, shape).astype(F32)


def run(t, shim, name, text, inputs, want, entries=None):
    """Exact values from the evaluator and the module; (kernels, library calls)."""
    model = t.write(text)
    module = t.compile(model)[0]
    for way, got in (("evaluator", t.interpret(model, inputs)[0]), ("module", t.execute(module, inputs))):
        check(f"{name}: {way}", set(got) == set(want) and all(np.array_equal(got[n], want[n]) for n in want))
    if entries:
        null, seen = fromNullBackend(module), fromInterposition(module, shim, t.folder)
        # A grouped call enters the library once for each member.
        check(f"{name}: {entries} kernels and library calls", null == entries and seen[0] == entries[0] and seen[1] >= entries[1], f"null {null}, entered {seen}")


def slices(name, source, parts, shape):
    """Rows of a rank-2 value: name0, name1, ..."""
    text, begin = "", 0
    for i, rows in enumerate(parts):
        text += f"%{name}{i} = fusion.slice {source} starts = [{begin}, 0] limits = [{begin + rows}, {shape[1]}] strides = [1, 1] : tensor<{shape[0]}x{shape[1]}xf32>\n"
        begin += rows
    return text


def ofEverything(t, shim):
    """Parts of an input, of a constant and of a computed value: three products,
    one kernel for exp's stand-in, and nothing else."""
    x, y, w = integers(5, 4, seed=1), integers(5, 4, seed=2), integers(7, 6, seed=3)
    body = constant("w", w) + "%s = fusion.add %x, %y : tensor<5x4xf32>\n" + slices("a", "%s", (2, 3), (5, 4)) + slices("b", "%x", (1, 4), (5, 4)) + slices("c", "%w", (3, 4), (7, 6))
    body += """%p = fusion.matmul %a0, %b1 : tensor<2x4xf32>, tensor<4x4xf32>
      %q = fusion.matmul %a1, %c1 : tensor<3x4xf32>, tensor<4x6xf32>
      %r = fusion.matmul %b0, %c1 : tensor<1x4xf32>, tensor<4x6xf32>
      """
    s = x + y
    run(t, shim, "input, constant, value", program({"x": x, "y": y}, body, {"p": ("%p", "tensor<2x4xf32>"), "q": ("%q", "tensor<3x6xf32>"), "r": ("%r", "tensor<1x6xf32>")}),
        {"x": x, "y": y}, {"p": s[:2] @ x[1:], "q": s[2:] @ w[3:], "r": x[:1] @ w[3:]}, (1, 3))


def ofALaunch(t, shim):
    """Equal slices side by side are one launch, which is no work either."""
    x, y, w = integers(4, 3, seed=4), integers(4, 3, seed=5), integers(3, 3, seed=6)
    body = "".join(f"%{n}s = fusion.slice %{n} starts = [2, 0] limits = [4, 3] strides = [1, 1] : tensor<4x3xf32>\n%{n}p = fusion.matmul %{n}s, %w : tensor<2x3xf32>, tensor<3x3xf32>\n" for n in "xy")
    run(t, shim, "launch", program({"x": x, "y": y, "w": w}, body, {n: (f"%{n}p", "tensor<2x3xf32>") for n in "xy"}), {"x": x, "y": y, "w": w},
        {"x": x[2:] @ w, "y": y[2:] @ w}, (0, 1))


def baseIsReused(t, shim):
    """The base's own reader could compute over it, and must not: a part is read
    later. Then in the other order, where it may."""
    x, w = integers(6, 4, seed=7), integers(4, 4, seed=8)
    head = "%s = fusion.mul %x, %x : tensor<6x4xf32>\n" + slices("a", "%s", (3, 3), (6, 4))
    late = "%p = fusion.matmul %a1, %w : tensor<3x4xf32>, tensor<4x4xf32>\n"
    early = "%m = fusion.reduce max, %s dims = [1] : tensor<6x4xf32>\n%b = fusion.broadcast %m dims = [0] : tensor<6xf32> to tensor<6x4xf32>\n%e = fusion.sub %s, %b : tensor<6x4xf32>\n%f = fusion.matmul %e, %w : tensor<6x4xf32>, tensor<4x4xf32>\n"
    s = x * x
    want = {"p": s[3:] @ w, "f": (s - s.max(1, keepdims=True)) @ w}
    for name, body in (("part read last", head + early + late), ("base read last", head + late + early)):
        run(t, shim, name, program({"x": x, "w": w}, body, {"p": ("%p", "tensor<3x4xf32>"), "f": ("%f", "tensor<6x4xf32>")}), {"x": x, "w": w}, want)


def donated(t, shim):
    """The result takes the argument's bytes when the part has been read."""
    x, w = integers(6, 4, seed=9), integers(4, 4, seed=10)
    body = slices("a", "%x", (3, 3), (6, 4)) + "%p = fusion.matmul %a1, %w : tensor<3x4xf32>, tensor<4x4xf32>\n%y = fusion.neg %x : tensor<6x4xf32>\n"
    text = program({"x": x, "w": w}, body, {"y": ("%y", "tensor<6x4xf32>"), "p": ("%p", "tensor<3x4xf32>")}, attributes={"x": "fusion.donated = 0 : i64, "})
    run(t, shim, "donated", text, {"x": x, "w": w}, {"y": -x, "p": x[3:] @ w})


def batches(t, shim):
    """Static dimensions in front of the batch keep offsets; behind it, parts are
    apart and are copied."""
    w = integers(4, 4, seed=11)
    text = """func.func @main(%x: tensor<?x6x4xf32> {fusion.name = "x"}, %z: tensor<6x4xf32> {fusion.name = "z"}, %w: tensor<4x4xf32> {fusion.name = "w"}) -> (tensor<?x3x4xf32> {fusion.name = "p"}, tensor<3x4xf32> {fusion.name = "q"}) attributes {fusion.batch = array<i64: 1, 5>} {
      %0 = fusion.slice %x starts = [0, 3, 0] limits = [-1, 6, 4] strides = [1, 1, 1] : tensor<?x6x4xf32>
      %p = fusion.matmul %0, %w : tensor<?x3x4xf32>, tensor<4x4xf32>
      %1 = fusion.slice %z starts = [3, 0] limits = [6, 4] strides = [1, 1] : tensor<6x4xf32>
      %q = fusion.matmul %1, %w : tensor<3x4xf32>, tensor<4x4xf32>
      return %p, %q : tensor<?x3x4xf32>, tensor<3x4xf32>
    }"""
    module = t.compile(t.write(text))[0]
    z = integers(6, 4, seed=12)
    for batch in (1, 2, 5):
        x = integers(batch, 6, 4, seed=batch)
        got = t.execute(module, {"x": x, "z": z, "w": w})
        check(f"batch of {batch}", np.array_equal(got["p"], x[:, 3:] @ w) and np.array_equal(got["q"], z[3:] @ w))
    check("batch: one copy of the parts that are apart", fromNullBackend(module) == (1, 2))


def concatOfParts(t, shim):
    """Halves of a value, one of them an addend of a product's
    epilogue, and their concat."""
    x, w = integers(4, 4, seed=13), integers(4, 4, seed=14)
    body = slices("a", "%x", (2, 2), (4, 4)) + """%m = fusion.matmul %a1, %w : tensor<2x4xf32>, tensor<4x4xf32>
      %r = fusion.relu %m : tensor<2x4xf32>
      %s = fusion.add %a1, %r : tensor<2x4xf32>
      %c = fusion.concat %a0, %a1, %s axis = 0 : tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>
      """
    a, b = x[:2], x[2:]
    run(t, shim, "concat of parts", program({"x": x, "w": w}, body, {"c": ("%c", "tensor<6x4xf32>")}), {"x": x, "w": w}, {"c": np.concatenate([a, b, b + np.maximum(b @ w, 0)])})


def concatInPlace(t, shim):
    """Products write where they lie in the concat, which is no work: read by
    another product, and returned. The value between the two parts must not lie
    in the hole that the second one fills. The first two products are one call."""
    x, y, w = integers(4, 4, seed=15), integers(4, 4, seed=16), integers(4, 4, seed=17)
    body = """%a = fusion.matmul %x, %w : tensor<4x4xf32>, tensor<4x4xf32>
      %m = fusion.matmul %y, %w : tensor<4x4xf32>, tensor<4x4xf32>
      %b = fusion.matmul %m, %w : tensor<4x4xf32>, tensor<4x4xf32>
      %c = fusion.concat %b, %a axis = 0 : tensor<4x4xf32>, tensor<4x4xf32>
      """
    c = np.concatenate([y @ w @ w, x @ w])
    run(t, shim, "concat in place, returned", program({"x": x, "y": y, "w": w}, body, {"c": ("%c", "tensor<8x4xf32>")}), {"x": x, "y": y, "w": w}, {"c": c}, (0, 2))
    body += "%p = fusion.matmul %c, %w : tensor<8x4xf32>, tensor<4x4xf32>\n"
    run(t, shim, "concat in place, read", program({"x": x, "y": y, "w": w}, body, {"p": ("%p", "tensor<8x4xf32>")}), {"x": x, "y": y, "w": w}, {"p": c @ w}, (0, 3))
    # The concat's last reader may compute over it.
    body = body.replace("fusion.matmul %c, %w : tensor<8x4xf32>, tensor<4x4xf32>", "fusion.softmax %c axis = 1 : tensor<8x4xf32>") + "%q = fusion.matmul %p, %w : tensor<8x4xf32>, tensor<4x4xf32>\n"
    model = t.write(program({"x": x, "y": y, "w": w}, body, {"q": ("%q", "tensor<8x4xf32>")}))
    got, want = t.execute(t.compile(model)[0], {"x": x, "y": y, "w": w})["q"], t.interpret(model, {"x": x, "y": y, "w": w})[0]["q"]
    check("concat in place, computed over", np.allclose(got, want, rtol=1e-5, atol=1e-5))
    # Both returned: the part is the caller's own buffer.
    body = "%a = fusion.matmul %x, %w : tensor<4x4xf32>, tensor<4x4xf32>\n%b = fusion.matmul %y, %w : tensor<4x4xf32>, tensor<4x4xf32>\n%c = fusion.concat %a, %b axis = 0 : tensor<4x4xf32>, tensor<4x4xf32>\n"
    run(t, shim, "concat and a part returned", program({"x": x, "y": y, "w": w}, body, {"c": ("%c", "tensor<8x4xf32>"), "a": ("%a", "tensor<4x4xf32>")}), {"x": x, "y": y, "w": w},
        {"c": np.concatenate([x @ w, y @ w]), "a": x @ w})


with tempfile.TemporaryDirectory(prefix="fusion-views-") as scratch:
    t = Case(Path(scratch))
    shim = buildShim(t.folder)
    for test in (ofEverything, ofALaunch, baseIsReused, donated, batches, concatOfParts, concatInPlace):
        test(t, shim)
sys.exit(1 if failed else 0)

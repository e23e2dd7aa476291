#!/usr/bin/env python3
# ===- vertical_shapes.py - What one kernel takes in, run -----------------=== #
#
# Each shape of vertical fusion, compiled fused and with each op alone: the
# launches that it promises, the same bits, and on small integers the exact
# values of the evaluator. Products of our own with a prologue in every element
# type and odd sizes; concat, slice, pad and gather; residual and norm; softmax.
#
# ===----------------------------------------------------------------------=== #
"""Checks vertical fusion's shapes end to end; prints one line a check."""

import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "Inputs"), str(HERE / "Inputs/reported")]
from harness import RNG, Bfloat16, Case, np, program, typeOf  # noqa: E402
from launch_counts import buildShim, fromInterposition, fromNullBackend  # noqa: E402

failed = []


def check(name, condition, detail=""):
    print(f"{'ok  ' if condition else 'FAIL'} {name}  {detail}".rstrip(), flush=True)
    if not condition:
        failed.append(name)


def rawBits(array):
    return np.ascontiguousarray(array).view(np.uint8)


def integers(shape, element, low=-3, high=4, seed=0):
    values = RNG(seed).integers(low, high, shape)
    if element == "bf16":
        return Bfloat16(values)
    return values.astype({"f64": np.float64, "f32": np.float32, "f16": np.float16}.get(element) or np.dtype(f"int{element[1:]}"))


def tensor(shape, element):
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"


def shape(t, shim, name, text, inputs, launches, exact=True):
    """One program: kernels and library calls of a run, bits, values."""
    model = t.write(text)
    fused, apart = t.compile(model)[0], t.compile(model, "--no-fuse=vertical,horizontal")[0]
    null, seen = fromNullBackend(fused), fromInterposition(fused, shim, t.folder)
    check(f"{name}: {launches} kernels and library calls", null == seen == launches, f"null {null}, entered {seen}")
    got, alone, want = t.execute(fused, inputs), t.execute(apart, inputs), t.interpret(model, inputs)[0]
    check(f"{name}: grouping changes no bit", all(np.array_equal(rawBits(got[n]), rawBits(alone[n])) for n in want))
    if exact:
        check(f"{name}: the evaluator's values", set(got) == set(want) and all(np.array_equal(rawBits(got[n]), rawBits(want[n])) for n in want))


def prologues(t, shim):
    for element in ("f64", "f16", "bf16", "i8", "i32", "i64"):
        # Rows that are no multiple of a vector; one row, one column, one term.
        for rows, depth, columns in ((5, 37, 21), (1, 16, 1), (3, 1, 40), (4, 64, 16)):
            x, b, w = integers((rows, depth), element, seed=1), integers((depth,), element, seed=2), integers((depth, columns), element, -1, 2, seed=3)
            X, Y = tensor((rows, depth), element), tensor((rows, columns), element)
            text = program({"x": x, "b": b, "w": w}, f"""
              %0 = fusion.broadcast %b dims = [1] : {typeOf(b)} to {X}
              %1 = fusion.add %x, %0 : {X}
              %2 = fusion.abs %1 : {X}
              %3 = fusion.matmul %2, %w : {X}, {typeOf(w)}
              %4 = fusion.neg %3 : {Y}""", {"y": ("%4", Y)})
            shape(t, shim, f"{element} {rows}x{depth} to {columns}", text, {"x": x, "b": b, "w": w}, (1, 0))
    # Right sides that are read turned, batches on both sides or on one.
    x, w, v = integers((2, 3, 5, 7), "i32", seed=4), integers((2, 3, 4, 7), "i32", seed=5), integers((7, 4), "i32", seed=6)
    X, Y = typeOf(x), tensor((2, 3, 5, 4), "i32")
    shape(t, shim, "batches, turned", program({"x": x, "w": w, "v": v}, f"""
      %0 = fusion.mul %x, %x : {X}
      %1 = fusion.matmul %0, %w {{transpose_rhs}} : {X}, {typeOf(w)}
      %2 = fusion.neg %x : {X}
      %3 = fusion.matmul %2, %v : {X}, {typeOf(v)}""", {"y": ("%1", Y), "z": ("%3", Y)}), {"x": x, "w": w, "v": v}, (2, 0))
    # Rows that a transpose, a slice and a concat give.
    x, w = integers((6, 5), "i64", seed=7), integers((8, 3), "i64", seed=8)
    shape(t, shim, "moved rows", program({"x": x, "w": w}, f"""
      %0 = fusion.transpose %x permutation = [1, 0] : {typeOf(x)}
      %1 = fusion.slice %0 starts = [0, 4] limits = [5, 6] strides = [1, 1] : tensor<5x6xi64>
      %2 = fusion.concat %0, %1 axis = 1 : tensor<5x6xi64>, tensor<5x2xi64>
      %3 = fusion.neg %2 : tensor<5x8xi64>
      %4 = fusion.matmul %3, %w : tensor<5x8xi64>, {typeOf(w)}""", {"y": ("%4", "tensor<5x3xi64>")}), {"x": x, "w": w}, (1, 0))


def norms(t, shim):
    """Rows of floats: the order of each sum decides the bits."""
    for rows, depth, columns in ((5, 37, 21), (1, 64, 8), (9, 100, 1), (8, 48, 48)):
        x, s, w = (RNG(i).normal(size=size) for i, size in enumerate(((rows, depth), (depth,), (depth, columns))))
        X, Y = tensor((rows, depth), "f64"), tensor((rows, columns), "f64")
        inputs = {"x": x, "s": s, "w": w}
        for name, op in (("layer_norm", f"fusion.layer_norm %x scale %s epsilon = 1.0e-5 axis = 1 : {X}, {typeOf(s)}"),
                         ("rms_norm", f"fusion.rms_norm %x scale %s epsilon = 1.0e-5 axis = 1 : {X}, {typeOf(s)}"),
                         ("softmax", f"fusion.softmax %x axis = 1 : {X}")):
            text = program(inputs, f"%0 = {op}\n%1 = fusion.matmul %0, %w : {X}, {typeOf(w)}\n%2 = fusion.tanh %1 : {Y}", {"y": ("%2", Y)})
            shape(t, shim, f"{name} {rows}x{depth} to {columns}", text, inputs, (1, 0), exact=False)
            want = t.interpret(t.write(text), inputs)[0]["y"]
            got = t.execute(t.compile(t.write(text))[0], inputs)["y"]
            check(f"{name} {rows}x{depth} to {columns}: the evaluator's values", np.allclose(got, want, 1e-12, 1e-12))
    # The number of rows follows the batch.
    text = """func.func @main(%x: tensor<?x20xf64> {fusion.name = "x"}, %w: tensor<20x6xf64> {fusion.name = "w"}) -> (tensor<?x6xf64> {fusion.name = "y"}) attributes {fusion.batch = array<i64: 1, 9>} {
      %0 = fusion.softmax %x axis = 1 : tensor<?x20xf64>
      %1 = fusion.matmul %0, %w : tensor<?x20xf64>, tensor<20x6xf64>
      return %1 : tensor<?x6xf64>
    }"""
    model = t.write(text)
    fused, apart = t.compile(model)[0], t.compile(model, "--no-fuse=vertical")[0]
    w = RNG(9).normal(size=(20, 6))
    for batch in (1, 4, 9):
        inputs = {"x": RNG(batch).normal(size=(batch, 20)), "w": w}
        check(f"batch of {batch}: grouping changes no bit", np.array_equal(t.execute(fused, inputs)["y"], t.execute(apart, inputs)["y"]))
    check("batch: one kernel", fromNullBackend(fused) == (1, 0))
    # Residual and norm are one kernel, and the sum is stored too; so is softmax by hand.
    x, r = RNG(10).normal(size=(2, 5, 33)).astype(np.float32)
    T = typeOf(x)
    shape(t, shim, "residual and norm", program({"x": x, "r": r}, f"""
      %0 = fusion.add %x, %r : {T}
      %1 = fusion.layer_norm %0 epsilon = 1.0e-5 axis = 1 : {T}""", {"y": ("%1", T), "s": ("%0", T)}), {"x": x, "r": r}, (1, 0), exact=False)
    check("residual: the sum", np.array_equal(t.execute(t.compile(t.write(program({"x": x, "r": r}, f"""
      %0 = fusion.add %x, %r : {T}
      %1 = fusion.layer_norm %0 epsilon = 1.0e-5 axis = 1 : {T}""", {"y": ("%1", T), "s": ("%0", T)})))[0], {"x": x, "r": r})["s"], x + r))
    shape(t, shim, "softmax of primitives", program({"x": x}, f"""
      %m = fusion.reduce max, %x dims = [1] : {T}
      %b = fusion.broadcast %m dims = [0] : tensor<5xf32> to {T}
      %0 = fusion.sub %x, %b : {T}
      %1 = fusion.exp %0 : {T}
      %s = fusion.reduce sum, %1 dims = [1] : {T}
      %c = fusion.broadcast %s dims = [0] : tensor<5xf32> to {T}
      %2 = fusion.div %1, %c : {T}""", {"y": ("%2", T)}), {"x": x}, (1, 0), exact=False)


def moves(t, shim):
    """Slice, concat, gather and pad, with arithmetic between them."""
    x, y = integers((5, 4), "f32", seed=11), integers((2, 4), "f32", seed=12)
    i = np.array([5, 0, 3, 3, 1, 4])
    shape(t, shim, "moves", program({"x": x, "y": y, "i": i}, """
      %c = fusion.constant dense<7.0> : tensor<f32>
      %s = fusion.slice %x starts = [1, 0] limits = [5, 4] strides = [1, 1] : tensor<5x4xf32>
      %0 = fusion.mul %s, %s : tensor<4x4xf32>
      %1 = fusion.concat %0, %y axis = 0 : tensor<4x4xf32>, tensor<2x4xf32>
      %2 = fusion.gather %1, %i axis = 0 : tensor<6x4xf32>, tensor<6xi64>
      %3 = fusion.pad %2, %c low = [0, 1] high = [0, 1] : tensor<6x4xf32>, tensor<f32>
      %4 = fusion.neg %3 : tensor<6x6xf32>""", {"z": ("%4", "tensor<6x6xf32>")}), {"x": x, "y": y, "i": i}, (1, 0))
    x = integers((6, 8), "f32", seed=13)
    shape(t, shim, "slices of rows", program({"x": x}, """
      %0 = fusion.slice %x starts = [0, 0] limits = [6, 4] strides = [1, 1] : tensor<6x8xf32>
      %1 = fusion.slice %x starts = [0, 4] limits = [6, 8] strides = [1, 1] : tensor<6x8xf32>
      %2 = fusion.mul %0, %1 : tensor<6x4xf32>
      %3 = fusion.reduce sum, %2 dims = [1] : tensor<6x4xf32>""", {"y": ("%3", "tensor<6xf32>")}), {"x": x}, (1, 0))


with tempfile.TemporaryDirectory(prefix="fusion-shapes-") as scratch:
    t = Case(Path(scratch))
    shim = buildShim(t.folder)
    prologues(t, shim)
    norms(t, shim)
    moves(t, shim)
sys.exit(1 if failed else 0)

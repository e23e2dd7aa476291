# ===- memory.py - Memory planning ----------------------------------------=== #
#
# Public reports of other systems, each as the smallest graph that trips a naive
# implementation.
#
# ===----------------------------------------------------------------------=== #
"""Reported cases: memory planning."""

import sys

from harness import *  # noqa: F401,F403

sys.path.insert(0, str(ROOT / "python"))
from fusion_compiler import runtime  # noqa: E402


@case
def resultsThatNobodyReads(t):
    """microsoft/onnxruntime#21019: an unused result is still written, so it
    may not share bytes with a value that lives."""
    g = RNG(56)
    x = g.normal(size=(4, 4, 8, 8)).astype(F32)
    want = np.exp(x[:2].astype(np.float64)).astype(F32)
    nodes = [helper.make_node("Split", ["x", "n"], ["a", "b"], axis=0), helper.make_node("Exp", ["a"], ["y"])]
    t.agree(t.importOnnx(onnxModel(nodes, {"x": x}, {"y": want}, {"n": np.array([2, 2])})), {"x": x}, {"y": want}, 1e-6, 0)
    scale, bias = normParameters(4)[:2]
    T, P = typeOf(x), typeOf(scale)
    x64 = x.astype(np.float64)
    r = np.maximum(x64, 0)
    n = norm(r, scale, bias, r.mean((0, 2, 3)), r.var((0, 2, 3)))
    body = f"""%r = fusion.relu %x : {T}
      %n, %m, %v = fusion.batch_norm_training %r, %s, %b epsilon = 1.0e-5 axis = 1 : {T}, {P}
      %t = fusion.transpose %n permutation = [0, 1, 3, 2] : {T}
      %y = fusion.add %t, %r : {T}"""
    t.agree(program({"x": x, "s": scale, "b": bias}, body, {"y": ("%y", T)}), {"x": x, "s": scale, "b": bias}, {"y": (n.transpose(0, 1, 3, 2) + r).astype(F32)}, 2e-5, 2e-5)


@case
def outputOverItsInputNeedsOneIndexMap(t):
    """csarofeen/pytorch#2490: a transposed or reduced read may not share
    its bytes with the result, although it is the last read."""
    n = 64
    x, z = np.arange(n * n, dtype=np.float32).reshape(n, n), np.arange(n * n, dtype=np.float32).reshape(n, n)[::-1].copy()
    T = typeOf(x)
    mean = f"""%a = fusion.neg %x : {T}
      %m = fusion.matmul %a, %i : {T}, {T}
      %t = fusion.transpose %m permutation = [1, 0] : {T}
      %u = fusion.add %t, %z : {T}
      %v = fusion.matmul %u, %i : {T}, {T}
      %r = fusion.reduce max, %v dims = [1] : {T}
      %b = fusion.broadcast %r dims = [1] : tensor<{n}xf32> to {T}
      %y = fusion.sub %b, %v : {T}"""
    i = np.eye(n, dtype=F32)
    u = -x.T + z
    inputs = {"x": x, "z": z, "i": i}
    for donated in ({}, {"x": "fusion.donated = 0 : i64, "}):
        t.agree(program(inputs, mean, {"y": ("%y", T)}, attributes=donated), inputs, {"y": u.max(1)[None, :] - u}, ways=("plain", "unfused"))
        small = f"%t = fusion.transpose %x permutation = [1, 0] : {T}\n%y = fusion.add %t, %z : {T}"
        t.agree(program(inputs, small, {"y": ("%y", T)}, attributes=donated), inputs, {"y": x.T + z}, ways=("plain", "unfused"))
        row = f"%s = fusion.reduce sum, %x dims = [0] : {T}\n%b = fusion.broadcast %s dims = [1] : tensor<{n}xf32> to {T}\n%y = fusion.add %b, %x : {T}"
        t.agree(program(inputs, row, {"y": ("%y", T)}, attributes=donated), inputs, {"y": x.sum(0)[None, :] + x}, ways=("plain", "unfused"))
        # Read behind the result that takes the bytes, and through a view.
        later = f"""%d = fusion.add %x, %z : {T}
          %v = fusion.reshape %x : {T} to tensor<{n * n}xf32>
          %s = fusion.reverse %v dims = [0] : tensor<{n * n}xf32>
          %w = fusion.mul %x, %d : {T}
          %m = fusion.matmul %x, %i : {T}, {T}"""
        t.agree(program(inputs, later, {"y": ("%d", T), "s": ("%s", f"tensor<{n * n}xf32>"), "w": ("%w", T), "m": ("%m", T)}, attributes=donated), inputs,
                {"y": x + z, "s": x.reshape(-1)[::-1], "w": x * (x + z), "m": x}, ways=("plain", "unfused"))


@case
def donatedArgumentIsAnotherResult(t):
    """a result that folds to a donated argument: it is the value that the
    argument came with, in the caller's own buffers too, and where arguments
    swap their bytes."""
    a, b, c = (np.arange(6, dtype=F32) + first for first in (1, 11, 21))
    T, inputs = typeOf(a), {"a": a, "b": b, "c": c}
    given = {name: f"fusion.donated = {i} : i64, " for i, name in enumerate("abc")}
    twice = "".join(f"%{v}n = fusion.neg %{v} : {T}\n%{v}o = fusion.neg %{v}n : {T}\n" for v in "abc")
    view = twice + f"%r = fusion.reshape %a : {T} to tensor<2x3xf32>\n%u = fusion.add %a, %b : {T}\n"
    for names, donors, body, results in (
        ("one", "a", view, {"y": ("%u", T, a + b), "o": ("%ao", T, a)}),
        ("a view", "a", view, {"y": ("%u", T, a + b), "o": ("%r", "tensor<2x3xf32>", a.reshape(2, 3))}),
        ("itself and a view", "a", view, {"y": ("%ao", T, a), "o": ("%r", "tensor<2x3xf32>", a.reshape(2, 3)), "s": ("%a", T, a)}),
        ("a row", "ab", view, {"y": ("%bo", T, b), "z": ("%co", T, c), "o": ("%ao", T, a), "u": ("%u", T, a + b)}),
        ("a swap", "ab", view, {"y": ("%bo", T, b), "z": ("%ao", T, a), "u": ("%u", T, a + b)}),
        ("a ring", "abc", view, {"y": ("%bo", T, b), "z": ("%co", T, c), "o": ("%ao", T, a), "s": ("%bo", T, b)}),
    ):
        text = program(inputs, body, {name: result[:2] for name, result in results.items()}, attributes={name: given[name] for name in donors})
        want = {name: result[2] for name, result in results.items()}
        t.agree(text, inputs, want)
        session = runtime.load(str(t.compile(t.write(text))[0])).session()
        buffers = {name: array.copy() for name, array in inputs.items()}
        outputs = {name: np.full_like(array, np.nan) for name, array in want.items()}
        for donor, name in zip(donors, outputs):
            outputs[name] = buffers[donor]
        session.run(buffers, outputs)
        for name, array in want.items():
            compare(f"{names}, in place, output {name}", outputs[name], array, 0.0, 0.0)

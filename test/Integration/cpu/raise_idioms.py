#!/usr/bin/env python3
# ===- raise_idioms.py - Raised chains compute what they computed ---------=== #
#
# Three promises of fusion-raise-idioms, on compiled modules. A raise that it
# calls exact changes no bit: the same chain is compiled again with an interior
# value as a second result, which keeps it as it is. Any other raise stays within
# docs/tolerances.md of the chain in f64. And it fires on what an exporter writes.
#
# ===----------------------------------------------------------------------=== #
"""Checks fusion-raise-idioms end to end; silent but for one line a check."""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "Inputs/reported"))
from harness import (BIN, F32, INF, RNG, Case, constant, helper, layerNorm, math, np, onnxModel,  # noqa: E402
                     program, softmax, typeOf)

failed = []


def check(name, condition, detail=""):
    print(f"{'ok  ' if condition else 'FAIL'} {name} {detail}".rstrip(), flush=True)
    if not condition:
        failed.append(name)


def normChain(rows, columns, epsilon, mean, root="sqrt"):
    """A norm of f32 rows as its decomposition; %s, %b: scale and bias."""
    T, R, C = f"tensor<{rows}x{columns}xf32>", f"tensor<{rows}xf32>", f"tensor<{columns}xf32>"
    lines = constant("eps", np.full(rows, epsilon, F32))
    if mean:
        lines += f"""%mean = fusion.reduce mean, %x dims = [1] : {T}
          %means = fusion.broadcast %mean dims = [0] : {R} to {T}
          %c = fusion.sub %x, %means : {T}
          """
    c = "%c" if mean else "%x"
    lines += f"""%sq = fusion.mul {c}, {c} : {T}
      %var = fusion.reduce mean, %sq dims = [1] : {T}
      %sum = fusion.add %var, %eps : {R}
      %std = fusion.{root} %sum : {R}
      %stds = fusion.broadcast %std dims = [0] : {R} to {T}
      %n = fusion.{'div' if root == 'sqrt' else 'mul'} {c}, %stds : {T}
      %ss = fusion.broadcast %s dims = [1] : {C} to {T}
      %m = fusion.mul %n, %ss : {T}
      %bs = fusion.broadcast %b dims = [1] : {C} to {T}
      %y = fusion.add %m, %bs : {T}
      """
    return lines, ("%std", R)


def softmaxChain(rows, columns, log):
    T, R = f"tensor<{rows}x{columns}xf32>", f"tensor<{rows}xf32>"
    end = f"""%l = fusion.log %sum : {R}
      %ls = fusion.broadcast %l dims = [0] : {R} to {T}
      %y = fusion.sub %d, %ls : {T}""" if log else f"""%ss = fusion.broadcast %sum dims = [0] : {R} to {T}
      %y = fusion.div %e, %ss : {T}"""
    return f"""%max = fusion.reduce max, %x dims = [1] : {T}
      %ms = fusion.broadcast %max dims = [0] : {R} to {T}
      %d = fusion.sub %x, %ms : {T}
      %e = fusion.exp %d : {T}
      %sum = fusion.reduce sum, %e dims = [1] : {T}
      {end}""", ("%sum", R)


def hasOp(t, text, op, *flags):
    return f"fusion.{op}" in t.phase(t.write(text), "simplify", *flags)


def sameBits(a, b):
    """Numbers, infinities and zeros by their bits; any NaN is a NaN."""
    return a.shape == b.shape and bool(((a.view(np.uint32) == b.view(np.uint32)) | (np.isnan(a) & np.isnan(b))).all())


def checkExact(t, name, op, chain, interior, inputs):
    T = typeOf(inputs["x"])
    raised = program(inputs, chain, {"y": ("%y", T)})
    kept = program(inputs, chain, {"y": ("%y", T), "i": interior})
    fires = hasOp(t, raised, op, "--exact-rewrites-only") and not hasOp(t, kept, op)
    check(f"{name}: raised as exact, kept when an interior value is returned", fires)
    got = t.execute(t.compile(t.write(raised))[0], inputs)["y"]
    want = t.execute(t.compile(t.write(kept))[0], inputs)["y"]
    check(f"{name}: the same bits", sameBits(got, want))
    return got


def checkClose(t, name, op, text, inputs, want, rtol, atol):
    check(f"{name}: raised, and not with exact rewrites only",
          hasOp(t, text, op) and not hasOp(t, text, op, "--exact-rewrites-only"))
    for flags in ((), ("--exact-rewrites-only",)):
        got = t.execute(t.compile(t.write(text), *flags)[0], inputs)["y"]
        error = np.abs(got.astype(np.float64) - want)
        check(f"{name}: within the tolerance of the chain in f64 {' '.join(flags)}", bool((error <= atol + rtol * np.abs(want)).all()),
              f"largest error {error.max():.1e}")


def exactRaises(t):
    g = RNG(7)
    for rows, columns in ((5, 7), (3, 64), (4, 1000)):
        x = (g.normal(size=(rows, columns)) * 3 + 1).astype(F32)
        # A constant row, and rows far from zero, where one pass has no digit left.
        x[0] = 7.25
        x[1] = 20000 + g.normal(size=columns)
        inputs = {"x": x, "s": g.normal(size=columns).astype(F32), "b": g.normal(size=columns).astype(F32)}
        for mean, op in ((True, "layer_norm"), (False, "rms_norm")):
            chain, interior = normChain(rows, columns, 1e-5, mean)
            got = checkExact(t, f"{op} {rows}x{columns}", op, chain, interior, inputs)
            if mean:
                check(f"{op} {rows}x{columns}: a constant row gives the bias", np.array_equal(got[0], inputs["b"]))
        x = x.copy()
        x[0] = -INF
        x[1, 0] = INF
        x[2, 1:] = -INF
        for log, op in ((False, "softmax"), (True, "log_softmax")):
            chain, interior = softmaxChain(rows, columns, log)
            got = checkExact(t, f"{op} {rows}x{columns}", op, chain, interior, {"x": x})
            check(f"{op} {rows}x{columns}: NaN for a row of -inf", bool(np.isnan(got[0]).all() and not np.isnan(got[2]).any()))


def closeRaises(t):
    g = RNG(8)
    x = (g.normal(size=(4, 96)) * 2).astype(F32)
    x64, T = x.astype(np.float64), typeOf(x)
    s, b = g.normal(size=96).astype(F32), g.normal(size=96).astype(F32)
    inputs = {"x": x, "s": s, "b": b}
    chain, _ = normChain(4, 96, 1e-5, True, root="rsqrt")
    checkClose(t, "layer_norm by rsqrt", "layer_norm", program(inputs, chain, {"y": ("%y", T)}), inputs,
               layerNorm(x, 1e-5) * s + b, 5.2e-6, 1e-5)

    def splat(name, number):
        return f"%{name} = fusion.constant dense<{number:.9e}> : {T}\n"

    constants = splat("one", 1) + splat("half", 0.5) + splat("k", math.sqrt(0.5)) + splat("q", math.sqrt(2 / math.pi)) + splat("c", 0.044715)
    body = constants + f"""%a = fusion.mul %x, %k : {T}
      %e = fusion.erf %a : {T}
      %p = fusion.add %e, %one : {T}
      %m = fusion.mul %x, %p : {T}
      %y = fusion.mul %m, %half : {T}"""
    erf = np.vectorize(math.erf)(x64 * math.sqrt(0.5))
    checkClose(t, "gelu by erf", "gelu", program({"x": x}, body, {"y": ("%y", T)}), {"x": x}, x64 * (1 + erf) / 2, 5.2e-6, 1e-5)
    body = constants + f"""%x2 = fusion.mul %x, %x : {T}
      %cx = fusion.mul %x2, %c : {T}
      %o = fusion.add %cx, %one : {T}
      %qx = fusion.mul %q, %x : {T}
      %a = fusion.mul %qx, %o : {T}
      %e = fusion.tanh %a : {T}
      %p = fusion.add %one, %e : {T}
      %h = fusion.mul %half, %x : {T}
      %y = fusion.mul %h, %p : {T}"""
    tanh = np.tanh(math.sqrt(2 / math.pi) * (x64 + 0.044715 * x64**3))
    checkClose(t, "gelu by tanh", "gelu", program({"x": x}, body, {"y": ("%y", T)}), {"x": x}, x64 * (1 + tanh) / 2, 5.2e-6, 1e-5)
    body = f"%s = fusion.sigmoid %x : {T}\n%y = fusion.mul %s, %x : {T}"
    checkClose(t, "silu", "silu", program({"x": x}, body, {"y": ("%y", T)}), {"x": x}, x64 / (1 + np.exp(-x64)), 5.2e-6, 1e-5)


def exporterForms(t):
    """The nodes that torch.onnx writes below opset 17."""
    g = RNG(9)
    x = g.normal(size=(2, 3, 16)).astype(F32)
    scale, bias = g.normal(size=16).astype(F32), g.normal(size=16).astype(F32)
    constants = {"two": np.array(2, F32), "eps": np.array(1e-12, F32), "scale": scale, "bias": bias, "root": np.array(math.sqrt(2), F32),
                 "one": np.array(1, F32), "half": np.array(0.5, F32)}
    nodes = [helper.make_node(*words) for words in (
        ("ReduceMean", ["x"], ["mean"]), ("Sub", ["x", "mean"], ["c"]), ("Pow", ["c", "two"], ["sq"]), ("ReduceMean", ["sq"], ["var"]),
        ("Add", ["var", "eps"], ["sum"]), ("Sqrt", ["sum"], ["std"]), ("Div", ["c", "std"], ["n"]), ("Mul", ["n", "scale"], ["m"]),
        ("Add", ["m", "bias"], ["l"]), ("Div", ["l", "root"], ["a"]), ("Erf", ["a"], ["e"]), ("Add", ["e", "one"], ["p"]),
        ("Mul", ["l", "p"], ["q"]), ("Mul", ["q", "half"], ["y"]))]
    for node in nodes:
        if node.op_type == "ReduceMean":
            node.attribute.append(helper.make_attribute("axes", [-1]))
    rows = layerNorm(x, 1e-12) * scale + bias
    want = rows * (1 + np.vectorize(math.erf)(rows / math.sqrt(2))) / 2
    model = t.importOnnx(onnxModel(nodes, {"x": x}, {"y": want.astype(F32)}, constants, opset=13))
    text = t.phase(model, "simplify")
    check("exported: one layer_norm with scale and bias, one gelu, nothing else",
          "fusion.layer_norm" in text and " scale %" in text and "fusion.gelu" in text and 'raise-idioms x2' in text
          and not any(f"fusion.{op} " in text for op in ("mul", "add", "sub", "div", "pow", "sqrt", "erf", "reduce")))
    got = t.execute(t.compile(model)[0], {"x": x})["y"]
    error = np.abs(got - want).max()
    check("exported: the value", error < 2e-5, f"largest error {error:.1e}")


with tempfile.TemporaryDirectory() as folder:
    for part in (exactRaises, closeRaises, exporterForms):
        (Path(folder) / part.__name__).mkdir()
        part(Case(Path(folder) / part.__name__))
sys.exit(1 if failed else 0)

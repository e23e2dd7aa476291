# ===- side_by_side.py - Graphs that tempt to merge ops -------------------=== #
#
# Public reports of other systems, each as the smallest graph that trips a naive
# implementation.
#
# ===----------------------------------------------------------------------=== #
"""Reported cases: graphs that tempt to merge ops."""

from harness import *  # noqa: F401,F403


@case
def equalShapesThatDependOnEachOther(t):
    """ROCm/AMDMIGraphX#5250: six products of one shape, three of which
    read the others through an add; grouping them all is a cycle."""
    g = RNG(14)
    inputs, body, outputs, want = {}, "", {}, {}
    T, W = "tensor<2x4xf32>", "tensor<4x4xf32>"
    for i in range(3):
        values = {f"x{i}": (2, 4), f"w{i}": (4, 4), f"b{i}": (2, 4), f"v{i}": (4, 4)}
        inputs.update({n: g.integers(-3, 4, s).astype(F32) for n, s in values.items()})
        body += f"%d{i} = fusion.matmul %x{i}, %w{i} : {T}, {W}\n%a{i} = fusion.add %d{i}, %b{i} : {T}\n%e{i} = fusion.matmul %a{i}, %v{i} : {T}, {W}\n"
        outputs[f"y{i}"] = (f"%e{i}", T)
        want[f"y{i}"] = ((inputs[f"x{i}"] @ inputs[f"w{i}"] + inputs[f"b{i}"]) @ inputs[f"v{i}"]).astype(F32)
    t.agree(program(inputs, body, outputs), inputs, want)
    # Two groups that are each legal alone and cyclic together.
    x = g.integers(-3, 4, (4, 4)).astype(F32)
    S = "tensor<4x4xf32>"
    crossed = f"""%a1 = fusion.matmul %x, %x : {S}, {S}
      %b1 = fusion.reduce sum, %x dims = [1] : {S}
      %k1 = fusion.neg %a1 : {S}
      %b2 = fusion.reduce sum, %k1 dims = [1] : {S}
      %k2 = fusion.broadcast %b1 dims = [0] : tensor<4xf32> to {S}
      %a2 = fusion.matmul %x, %k2 : {S}, {S}
      %s = fusion.add %a1, %a2 : {S}
      %r = fusion.add %b1, %b2 : tensor<4xf32>"""
    a1, b1 = x @ x, x.sum(1)
    t.agree(program({"x": x}, crossed, {"s": ("%s", S), "r": ("%r", "tensor<4xf32>")}), {"x": x},
            {"s": a1 + x @ np.repeat(b1[:, None], 4, 1), "r": b1 - a1.sum(1)})


@case
def randomOpsWithDifferentOffsetsStayDifferent(t):
    """pytorch/pytorch#168124: two random ops of one shape are not one;
    each keeps its own stream, bit by bit."""
    seed, offsets = np.int64(0x1234567890), [np.int64(0), np.int64(4096)]
    T = "tensor<1024xf32>"
    body = "".join(f"%{n} = fusion.rng_uniform %seed, %{o} : tensor<i64>, tensor<i64>, {T}\n" for n, o in (("a", "o0"), ("b", "o1"), ("c", "o0")))
    inputs = {"seed": np.array(seed), "o0": np.array(offsets[0]), "o1": np.array(offsets[1])}
    want = {"a": philox(int(seed), 0, 1024), "b": philox(int(seed), 4096, 1024), "c": philox(int(seed), 0, 1024)}
    t.agree(program(inputs, body, {n: (f"%{n}", T) for n in "abc"}), inputs, want)
    folded = "".join(constant(n, a) for n, a in inputs.items()) + body + f"%y = fusion.sub %a, %b : {T}\n%z = fusion.sub %a, %c : {T}\n"
    x = np.ones(1024, F32)
    t.agree(program({"x": x}, folded + f"%w = fusion.mul %y, %x : {T}\n", {"w": ("%w", T), "z": ("%z", T)}), {"x": x},
            {"w": want["a"] - want["b"], "z": np.zeros(1024, F32)})


@case
def membersOfDifferentElementTypes(t):
    """karpathy/nanochat#527: the same formula on f32, bf16 and an empty
    tensor; no member takes the type of another."""
    g = RNG(18)
    arrays = {"p": g.normal(size=8).astype(F32), "q": g.normal(size=8).astype(F32),
              "r": Bfloat16(g.normal(size=8)), "u": Bfloat16(g.normal(size=8)), "e": np.zeros(0, F32), "f": np.zeros(0, F32)}
    body, outputs = "", {}
    for i, (a, b) in enumerate((("p", "q"), ("r", "u"), ("e", "f"))):
        T = typeOf(arrays[a])
        weight = Bfloat16(0.5) if i == 1 else np.array(0.5, F32)
        body += constant(f"k{i}", weight) + f"%s{i} = fusion.broadcast %k{i} dims = [] : {typeOf(weight)} to {T}\n" + f"%d{i} = fusion.sub %{b}, %{a} : {T}\n%m{i} = fusion.mul %d{i}, %s{i} : {T}\n%y{i} = fusion.add %{a}, %m{i} : {T}\n"
        outputs[f"y{i}"] = (f"%y{i}", T)
    p, q, r, u = arrays["p"], arrays["q"], arrays["r"].values, arrays["u"].values
    d = Bfloat16(Bfloat16(u - r).values * F32(0.5))
    want = {"y0": p + (q - p) * F32(0.5), "y1": Bfloat16(r + d.values), "y2": np.zeros(0, F32)}
    t.agree(program(arrays, body, outputs), arrays, want)
    # A f32 scalar is not a reason to make a f16 tensor f32: the model says so.
    x, z, s = np.array(1.5, np.float16), np.array([2.25], np.float16), np.array(0.1, F32)
    nodes = [helper.make_node("Mul", ["x", "s"], ["y"])]
    t.refusedImport(onnxModel(nodes, {"x": x, "s": s}, {"y": x}), "Mul")
    nodes = [helper.make_node("Cast", ["s"], ["h"], to=TensorProto.FLOAT16), helper.make_node("Mul", ["x", "h"], ["m"]), helper.make_node("Add", ["m", "z"], ["y"])]
    y = x * s.astype(np.float16) + z
    t.agree(t.importOnnx(onnxModel(nodes, {"x": x, "s": s, "z": z}, {"y": y})), {"x": x, "s": s, "z": z}, {"y": y})


@case
def projectionsOfDifferentWidths(t):
    """microsoft/onnxruntime#13050: query, key and value of widths 16, 4, 8."""
    g = RNG(20)
    x = g.integers(-3, 4, (2, 5, 16)).astype(F32)
    w = {n: g.integers(-3, 4, (16, k)).astype(F32) for n, k in (("wq", 16), ("wk", 4), ("wv", 8))}
    body = "".join(constant(n, a) + f"%y{n} = fusion.matmul %x, %{n} : {typeOf(x)}, {typeOf(a)}\n" for n, a in w.items())
    t.agree(program({"x": x}, body, {n: (f"%y{n}", f"tensor<2x5x{a.shape[1]}xf32>") for n, a in w.items()}), {"x": x}, {n: x @ a for n, a in w.items()})


@case
def crossAttentionAndWeightsKnownLate(t):
    """pytorch/pytorch#106497: only products of the same left operand are
    alike; one weight is computed after the first product was used."""
    g = RNG(22)
    a = {n: g.integers(-2, 3, s).astype(F32) for n, s in (("x", (3, 4)), ("m", (3, 4)), ("wq", (4, 4)), ("wk", (4, 4)), ("wv", (4, 4)))}
    T, W = "tensor<3x4xf32>", "tensor<4x4xf32>"
    body = f"""%q = fusion.matmul %x, %wq : {T}, {W}
      %qt = fusion.matmul %q, %q {{transpose_lhs}} : {T}, {T}
      %k2 = fusion.add %wk, %qt : {W}
      %k = fusion.matmul %m, %k2 : {T}, {W}
      %v = fusion.matmul %m, %wv : {T}, {W}
      %u = fusion.add %wq, %wv : {W}"""
    q = a["x"] @ a["wq"]
    t.agree(program(a, body, {"q": ("%q", T), "k": ("%k", T), "v": ("%v", T), "u": ("%u", W)}), a,
            {"q": q, "k": a["m"] @ (a["wk"] + q.T @ q), "v": a["m"] @ a["wv"], "u": a["wq"] + a["wv"]})

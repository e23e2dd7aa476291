# ===- numerics.py - Numerics that fusion must not change -----------------=== #
#
# Public reports of other systems, each as the smallest graph that trips a naive
# implementation.
#
# ===----------------------------------------------------------------------=== #
"""Reported cases: numerics that fusion must not change."""

from harness import *  # noqa: F401,F403


@case
def varianceInTwoPasses(t):
    """pytorch/pytorch#51102: E[x^2] - E[x]^2 in f32 is -32 here, where the
    variance is 0.3125; a constant row gives the bias exactly."""
    x = np.array([[20000, 20000.5, 19999.5, 20001], [7, 7, 7, 7]], F32)
    T, beta = typeOf(x), np.array([0.5, -1, 2, 3], F32)
    want = (layerNorm(x, 1e-5) + beta).astype(F32)
    named = constant("b", beta) + constant("s", np.ones(4, F32)) + f"%y = fusion.layer_norm %x scale %s bias %b epsilon = 1.0e-5 axis = 1 : {T}, tensor<4xf32>, tensor<4xf32>"
    # Rows around 2e4: the mean itself is rounded to 2^-9.
    t.agree(program({"x": x}, named, {"y": ("%y", T)}), {"x": x}, {"y": want}, 1e-4, 4e-3)
    constantRow = np.full((2, 4), 12345.678, F32)
    t.agree(program({"x": constantRow}, named, {"y": ("%y", T)}), {"x": constantRow}, {"y": np.stack([beta, beta])})
    # A row of n equal elements, whatever n: sum / n in f32 may be next to them,
    # and 1 / sqrt(epsilon) makes a large number of the difference.
    for n, value in ((3, 27.308233), (7, 0.1), (33, 1e6 / 3), (1000, -123.456)):
        for dtype in (F32, np.float16):
            if abs(value) <= np.finfo(dtype).max:
                equal = np.full((2, n), value, dtype)
                T = typeOf(equal)
                body = f"%y = fusion.layer_norm %x epsilon = 1.0e-12 axis = 1 : {T}"
                t.agree(program({"x": equal}, body, {"y": ("%y", T)}), {"x": equal}, {"y": np.zeros_like(equal)})
    g = RNG(44)
    z = Bfloat16(5 + 0.1 * g.normal(size=(8, 2, 6, 6)))
    scale, bias = Bfloat16([1, 2]), Bfloat16([0, 0.5])
    T, P = typeOf(z), typeOf(scale)
    body = f"%y, %m, %v = fusion.batch_norm_training %z, %s, %b epsilon = 1.0e-5 axis = 1 : {T}, {P}"
    z64 = z.values.astype(np.float64)
    mean, var = z64.mean((0, 2, 3)), z64.var((0, 2, 3))
    want = {"y": Bfloat16(norm(z64, scale.values, bias.values, mean, var)), "m": Bfloat16(mean), "v": Bfloat16(var)}
    t.agree(program({"z": z, "s": scale, "b": bias}, body, {"y": ("%y", T), "m": ("%m", P), "v": ("%v", P)}),
            {"z": z, "s": scale, "b": bias}, want, 1.6e-2, 1.6e-2)


@case
def epsilonBelowTheRangeOfF16(t):
    """pytorch/pytorch#86580: 1e-8 is 0 in f16; a constant row must give the
    bias, not 0 / 0."""
    x = np.array([[3, 3, 3, 3], [1, 2, 3, 4]], np.float16)
    s, b = np.array([1, 2, 3, 4], np.float16), np.array([0.5, -1, 2, 0], np.float16)
    T, P = typeOf(x), typeOf(s)
    want = (layerNorm(x, 1e-8) * s + b).astype(np.float16)
    body = f"%y = fusion.layer_norm %x scale %s bias %b epsilon = 1.0e-8 axis = 1 : {T}, {P}, {P}"
    t.agree(program({"x": x, "s": s, "b": b}, body, {"y": ("%y", T)}), {"x": x, "s": s, "b": b}, {"y": want}, 4e-3, 1e-3)
    node = helper.make_node("LayerNormalization", ["x", "s", "b"], ["y"], axis=-1, epsilon=1e-8)
    t.agree(t.importOnnx(onnxModel([node], {"x": x}, {"y": want}, {"s": s, "b": b})), {"x": x}, {"y": want}, 4e-3, 1e-3)
    zero = np.zeros((1, 4), np.float16)
    body = f"%y = fusion.rms_norm %x scale %s epsilon = 1.0e-8 axis = 1 : {typeOf(zero)}, {P}"
    t.agree(program({"x": zero, "s": s}, body, {"y": ("%y", typeOf(zero))}), {"x": zero, "s": s}, {"y": zero})
    # The chain as exporters write it: up to f32, normalized, down again.
    nodes = [helper.make_node("Cast", ["x"], ["f"], to=TensorProto.FLOAT), helper.make_node("ReduceMean", ["f"], ["m"], axes=[1]), helper.make_node("Sub", ["f", "m"], ["d"]),
             helper.make_node("Mul", ["d", "d"], ["q"]), helper.make_node("ReduceMean", ["q"], ["v"], axes=[1]), helper.make_node("Add", ["v", "e"], ["w"]),
             helper.make_node("Sqrt", ["w"], ["r"]), helper.make_node("Div", ["d", "r"], ["n"]), helper.make_node("Cast", ["n"], ["y"], to=TensorProto.FLOAT16)]
    want = layerNorm(x, 1e-8).astype(np.float16)
    t.agree(t.importOnnx(onnxModel(nodes, {"x": x}, {"y": want}, {"e": np.array(1e-8, F32)})), {"x": x}, {"y": want}, 2e-3, 1e-3)


@case
def notANumberPropagatesFromBothSides(t):
    """pytorch/pytorch#93784: minimum and maximum keep a NaN whichever side
    it is on; alone, reduced, pooled and behind a matmul. +0 is above -0."""
    x, y = np.array([-3, NAN, 1, NAN, -0.0, 0.0], F32), np.array([0, 0, NAN, 0, 0.0, -0.0], F32)
    T = typeOf(x)
    body = f"""%zero = fusion.constant dense<0.0> : {T}
      %half = fusion.constant dense<0.5> : {T}
      %r = fusion.relu %x : {T}
      %a = fusion.max %x, %y : {T}
      %b = fusion.min %x, %y : {T}
      %a2 = fusion.max %y, %x : {T}
      %b2 = fusion.min %y, %x : {T}
      %c = fusion.clamp %x, %zero, %half : {T}
      %m = fusion.reduce max, %x dims = [0] : {T}
      %n = fusion.reduce min, %x dims = [0] : {T}
      %i = fusion.arg_max %x axis = 0 : {T}
      %j = fusion.arg_min %x axis = 0 : {T}
      %l = fusion.reshape %x : {T} to tensor<1x1x6xf32>
      %p = fusion.max_pool %l window = [2] strides = [2] pad_low = [0] pad_high = [0] dilations = [1] layout = nchw : tensor<1x1x6xf32>"""
    S = "tensor<f32>"
    outputs = {n: (f"%{n}", T) for n in ("r", "a", "b", "a2", "b2", "c")} | {"m": ("%m", S), "n": ("%n", S), "i": ("%i", "tensor<i64>"), "j": ("%j", "tensor<i64>"), "p": ("%p", "tensor<1x1x3xf32>")}
    high, low = np.maximum(x, y), np.minimum(x, y)
    want = {"r": np.maximum(x, 0), "a": high, "b": low, "a2": high, "b2": low, "c": np.minimum(np.maximum(x, 0), F32(0.5)), "m": np.array(NAN, F32),
            "n": np.array(NAN, F32), "i": np.array(1), "j": np.array(1), "p": np.array([[[NAN, NAN, 0]]], F32)}
    model = t.write(program({"x": x, "y": y}, body, outputs))
    t.agree(model, {"x": x, "y": y}, want)
    for got in (t.interpret(model, {"x": x, "y": y})[0], t.execute(t.compile(model)[0], {"x": x, "y": y})):
        if np.signbit(got["a"][4:]).any() or np.signbit(got["a2"][4:]).any() or not np.signbit(got["b"][4:]).all() or not np.signbit(got["b2"][4:]).all():
            raise Broken(f"sign of zero: max {got['a'][4:]} {got['a2'][4:]}, min {got['b'][4:]} {got['b2'][4:]}")
    a, w = np.array([[NAN, 1], [2, -3]], F32), np.array([[1, 2], [3, 4]], F32)
    M = typeOf(a)
    for op, keep in (("relu %c", lambda v: np.maximum(v, 0)), ("min %c, %k", lambda v: np.minimum(v, 0.5)), ("max %k, %c", lambda v: np.maximum(v, 0.5))):
        body = f"%k = fusion.constant dense<0.5> : {M}\n%c = fusion.matmul %a, %w : {M}, {M}\n%y = fusion.{op} : {M}"
        t.agree(program({"a": a, "w": w}, body, {"y": ("%y", M)}), {"a": a, "w": w}, {"y": keep(a @ w).astype(F32)}, ways=("plain",))
    nodes = [helper.make_node("Clip", ["x", "", "h"], ["y"])]
    t.agree(t.importOnnx(onnxModel(nodes, {"x": x}, {"y": x}, {"h": np.array(0.5, F32)})), {"x": x}, {"y": np.minimum(x, F32(0.5))}, ways=("plain",))


@case
def narrowingCastsStay(t):
    """jax-ml/jax#23007: a round trip through bf16 rounds, and each bf16 op
    rounds, fused or not."""
    g = RNG(49)
    x = g.normal(size=64).astype(F32)
    body = """%n = fusion.cast %x : tensor<64xf32> to tensor<64xbf16>
      %y = fusion.cast %n : tensor<64xbf16> to tensor<64xf32>
      %h = fusion.cast %x : tensor<64xf32> to tensor<64xf16>
      %z = fusion.cast %h : tensor<64xf16> to tensor<64xf32>"""
    t.agree(program({"x": x}, body, {"y": ("%y", typeOf(x)), "z": ("%z", typeOf(x))}), {"x": x}, {"y": Bfloat16(x).values, "z": x.astype(np.float16).astype(F32)})
    a, b = Bfloat16(100 * g.normal(size=64)), Bfloat16(g.normal(size=64))
    T = typeOf(a)
    body = f"%s = fusion.add %a, %b : {T}\n%d = fusion.sub %s, %a : {T}\n%y = fusion.sub %b, %d : {T}"
    total = Bfloat16(a.values + b.values)
    want = Bfloat16(b.values - Bfloat16(total.values - a.values).values)
    if not want.values.any():
        raise Broken("the reference itself: the rounding has to show")
    t.agree(program({"a": a, "b": b}, body, {"y": ("%y", T)}), {"a": a, "b": b}, {"y": want})
    wide = np.array([300, -1.5, 2.0 ** 40], F32)
    body = "%i = fusion.cast %x : tensor<3xf32> to tensor<3xi8>\n%y = fusion.cast %i : tensor<3xi8> to tensor<3xf32>"
    t.agree(program({"x": wide}, body, {"y": ("%y", typeOf(wide))}), {"x": wide}, {"y": np.array([127, -1, 127], F32)})


@case
def inversesDoNotCancel(t):
    """jax-ml/jax#38100: log2(exp2(128)) is inf in f32; what overflows or
    underflows in the middle is not cancelled."""
    x = np.array([128, 1, -200], F32)
    T = typeOf(x)
    body = f"""%e = fusion.exp2 %x : {T}
      %y = fusion.log2 %e : {T}
      %q = fusion.exp %x : {T}
      %l = fusion.log %q : {T}
      %r = fusion.reciprocal %z : {T}
      %s = fusion.reciprocal %r : {T}
      %m = fusion.mul %z, %z : {T}
      %t = fusion.sqrt %m : {T}
      %u = fusion.sub %w, %w : {T}"""
    z, w = np.array([1e-39, 1e30, -2], F32), np.array([INF, NAN, 1], F32)
    inputs = {"x": x, "z": z, "w": w}
    with np.errstate(all="ignore"):
        want = {"y": np.array([INF, 1, -INF], F32), "l": np.array([INF, 1, -INF], F32), "s": F32(1) / (F32(1) / z), "t": np.sqrt(z * z), "u": np.array([NAN, NAN, 0], F32)}
    t.agree(program(inputs, body, {n: (f"%{n}", T) for n in want}), inputs, want, 1e-6, 1e-7)
    # The same from constants: evaluation at compile time rounds as the code does.
    body = "".join(constant(n, a) for n, a in inputs.items()) + body
    t.agree(program({"k": x}, body + f"\n%ky = fusion.add %k, %y : {T}", {n: (f"%{n}", T) for n in want} | {"ky": ("%ky", T)}), {"k": x}, want | {"ky": x + want["y"]}, 1e-6, 1e-7)


@case
def emptyAndScalarTensors(t):
    """pytorch/pytorch#197108: empty sums are 0, empty means NaN, an empty
    maximum is an error, a launch of nothing is no launch."""
    inputs = {"a": np.zeros(0, F32), "b": np.zeros((0, 1), F32), "c": np.zeros((2, 0), F32), "s": np.array(3.5, F32), "d": np.zeros((0, 3), F32), "k": np.ones((2, 4), F32)}
    body = """%as = fusion.reduce sum, %a dims = [0] : tensor<0xf32>
      %am = fusion.reduce mean, %a dims = [0] : tensor<0xf32>
      %ap = fusion.reduce prod, %a dims = [0] : tensor<0xf32>
      %bs = fusion.reduce sum, %b dims = [1] : tensor<0x1xf32>
      %bm = fusion.reduce mean, %b dims = [0] : tensor<0x1xf32>
      %bx = fusion.reduce max, %b dims = [1] : tensor<0x1xf32>
      %cs = fusion.reduce sum, %c dims = [1] : tensor<2x0xf32>
      %cm = fusion.reduce mean, %c dims = [1] : tensor<2x0xf32>
      %cx = fusion.reduce max, %c dims = [0] : tensor<2x0xf32>
      %sm = fusion.reduce mean, %s dims = [] : tensor<f32>
      %se = fusion.exp %a : tensor<0xf32>
      %mm = fusion.matmul %c, %d : tensor<2x0xf32>, tensor<0x3xf32>
      %mr = fusion.relu %mm : tensor<2x3xf32>
      %e = fusion.constant dense<> : tensor<0x4xf32>
      %cc = fusion.concat %e, %k, %e axis = 0 : tensor<0x4xf32>, tensor<2x4xf32>, tensor<0x4xf32>"""
    want = {"as": np.array(0, F32), "am": np.array(NAN, F32), "ap": np.array(1, F32), "bs": np.zeros(0, F32), "bm": np.array([NAN], F32), "bx": np.zeros(0, F32),
            "cs": np.zeros(2, F32), "cm": np.full(2, NAN, F32), "cx": np.zeros(0, F32), "sm": np.array(3.5, F32), "se": np.zeros(0, F32), "mm": np.zeros((2, 3), F32),
            "mr": np.zeros((2, 3), F32), "cc": np.ones((2, 4), F32)}
    t.agree(program(inputs, body, {n: (f"%{n}", typeOf(a)) for n, a in want.items()}), inputs, want)
    for array, dims in ((inputs["a"], 0), (inputs["c"], 1)):
        bad = t.write(program({"x": array}, f"%y = fusion.reduce max, %x dims = [{dims}] : {typeOf(array)}", {"y": ("%y", "tensor<f32>" if dims == 0 else "tensor<2xf32>")}))
        t.refused([BIN / "fusion-compile", bad, "-o", t.path(".fsn")], "empty")
        t.refused([BIN / "fusion-interpret", bad, *t.save({"x": array}), "--output-dir", t.path(".out")], "empty")
    g = RNG(52)
    x, w, p = np.zeros((0, 3, 6, 6), F32), g.normal(size=(4, 3, 3, 3)).astype(F32), normParameters(4)
    names, lines = normConstants(p)
    C = "tensor<0x4x4x4xf32>"
    t.agree(program({"x": x}, constant("w", w) + lines + convLine("c", "%x", "%w", typeOf(x), typeOf(w), pad=0) + normLine("n", "%c", names, C, "tensor<4xf32>")
                    + f"%y = fusion.relu %n : {C}", {"y": ("%y", C)}), {"x": x}, {"y": np.zeros((0, 4, 4, 4), F32)})
    s, v = np.array(2, F32), np.array([1, 2, 3, 4], F32)
    nodes = [helper.make_node("ReduceMean", ["s"], ["m"], keepdims=0), helper.make_node("ReduceSum", ["v", "ax"], ["r"], keepdims=0), helper.make_node("ReduceMax", ["s"], ["x"], keepdims=1)]
    want = {"m": s, "r": np.array(10, F32), "x": s}
    t.agree(t.importOnnx(onnxModel(nodes, {"s": s, "v": v}, want, {"ax": np.array([-1])}, 13)), {"s": s, "v": v}, want)


@case
def maskedSoftmaxRowsMeanWhatIsWritten(t):
    """pytorch/pytorch#100318: a row of -inf gives NaN as written, +inf too;
    a row of -65504 in f16 does not."""
    g = RNG(54)
    s, v = g.normal(size=(4, 4)).astype(F32), g.normal(size=(4, 3)).astype(F32)
    mask = np.zeros((4, 4), F32)
    mask[1] = -INF
    mask[2, 1], mask[3, 2:] = INF, -INF
    T, V = typeOf(s), typeOf(v)
    body = f"%a = fusion.add %s, %m : {T}\n%p = fusion.softmax %a axis = 1 : {T}\n%y = fusion.matmul %p, %v : {T}, {V}"
    with np.errstate(all="ignore"):
        want = (softmax(s.astype(np.float64) + mask, 1) @ v).astype(F32)
    if not np.isnan(want[1]).all() or not np.isnan(want[2]).all() or np.isnan(want[3]).any():
        raise Broken("the reference itself")
    t.agree(program({"s": s, "m": mask, "v": v}, body, {"y": ("%y", V)}), {"s": s, "m": mask, "v": v}, {"y": want}, 1e-5, 1e-6)
    h = np.array([[-65504] * 4, [1, 2, 3, 4], [60000, -60000, 0, 60000]], np.float16)
    t.agree(program({"x": h}, f"%y = fusion.softmax %x axis = 1 : {typeOf(h)}", {"y": ("%y", typeOf(h))}), {"x": h}, {"y": softmax(h.astype(np.float64), 1).astype(np.float16)}, 4e-3, 1e-5)
    long = np.ones((1, 4096), np.float16)
    t.agree(program({"x": long}, f"%y = fusion.softmax %x axis = 1 : {typeOf(long)}", {"y": ("%y", typeOf(long))}), {"x": long}, {"y": np.full((1, 4096), 1 / 4096, np.float16)}, 4e-3, 0)
    q, k, e = (g.normal(size=(1, 1, 4, n)).astype(F32) for n in (5, 5, 3))
    m = mask.reshape(1, 1, 4, 4)
    body = f"%y = fusion.attention %q, %k, %e mask %m scale = 0.5 : {typeOf(q)}, {typeOf(k)}, {typeOf(e)}, {typeOf(m)}"
    with np.errstate(all="ignore"):
        want = (softmax(0.5 * q.astype(np.float64) @ k.transpose(0, 1, 3, 2) + m, -1) @ e).astype(F32)
    t.agree(program({"q": q, "k": k, "e": e, "m": m}, body, {"y": ("%y", typeOf(e))}), {"q": q, "k": k, "e": e, "m": m}, {"y": want}, 1e-5, 1e-5)

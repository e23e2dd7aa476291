# ===- vertical.py - Vertical fusion and in-place updates -----------------=== #
#
# Public reports of other systems, each as the smallest graph that trips a naive
# implementation.
#
# ===----------------------------------------------------------------------=== #
"""Reported cases: vertical fusion and in-place updates."""

from harness import *  # noqa: F401,F403


@case
def updateInPlaceReadAtOtherPositions(t):
    """pytorch/pytorch#198270: a write and a reversed or shifted read of
    the same bytes; also where the caller gives its buffer away."""
    for rows, columns in ((4, 8), (1024, 2048)):
        x = (np.arange(rows * columns, dtype=np.int64) % 1009).astype(F32).reshape(rows, columns)
        T, I = typeOf(x), f"tensor<{rows}x1xi64>"
        body = f"""%i = fusion.iota axis = 0 : {I}
          %d = fusion.add %x, %x : {T}
          %s = fusion.scatter set, %x, %i, %d : {T}, {I}, {T}
          %f = fusion.reverse %s dims = [0] : {T}
          %y = fusion.add %s, %f : {T}"""
        y = 2 * x
        y = y + y[::-1]
        shifted = x.copy()
        shifted[1:] = x[:-1]
        moved = f"""%one = fusion.constant dense<1> : tensor<i64>
          %zero = fusion.constant dense<0> : tensor<i64>
          %h = fusion.slice %x starts = [0, 0] limits = [{rows - 1}, {columns}] strides = [1, 1] : {T}
          %y = fusion.update_slice %x, %h at (%one, %zero) : {T}, tensor<{rows - 1}x{columns}xf32>, tensor<i64>, tensor<i64>"""
        for donated in ({}, {"x": "fusion.donated = 0 : i64, "}):
            t.agree(program({"x": x}, body, {"y": ("%y", T)}, attributes=donated), {"x": x}, {"y": y}, ways=("plain", "unfused"))
            t.agree(program({"x": x}, moved, {"y": ("%y", T)}, attributes=donated), {"x": x}, {"y": shifted}, ways=("plain", "unfused"))


@case
def updateSliceWithAViewOfItsOwnBase(t):
    """openxla/xla#49176: the update is a shifted view of the base; in place
    it would read what it just wrote."""
    x = np.arange(4, dtype=np.int32).reshape(4, 1, 1)
    T, I = "tensor<4x1x1xi32>", "tensor<i64>"
    body = f"""%one = fusion.constant dense<1> : {T}
      %b = fusion.add %x, %one : {T}
      %h = fusion.slice %b starts = [0, 0, 0] limits = [3, 1, 1] strides = [1, 1, 1] : {T}
      %s = fusion.constant dense<1> : {I}
      %z = fusion.constant dense<0> : {I}
      %u = fusion.update_slice %b, %h at (%s, %z, %z) : {T}, tensor<3x1x1xi32>, {I}, {I}, {I}
      %y = fusion.reshape %u : {T} to tensor<1x4x1xi32>"""
    t.agree(program({"x": x}, body, {"y": ("%y", "tensor<1x4x1xi32>")}), {"x": x}, {"y": np.array([1, 1, 2, 3], np.int32).reshape(1, 4, 1)})


@case
def producerReadWholeByAGather(t):
    """iree-org/iree#20004: one consumer reads the producer element by
    element and by index; the gather needs the whole of it."""
    g = RNG(27)
    a, b, i = g.integers(-4, 5, (2, 4)).astype(F32), g.integers(-4, 5, (2, 4)).astype(F32), np.array([1, 0])
    T = typeOf(a)
    body = f"""%s = fusion.mul %a, %a : {T}
      %g = fusion.gather %s, %i axis = 0 : {T}, tensor<2xi64>
      %t = fusion.add %b, %s : {T}
      %r = fusion.add %t, %g : {T}"""
    s = a * a
    t.agree(program({"a": a, "b": b, "i": i}, body, {"r": ("%r", T)}), {"a": a, "b": b, "i": i}, {"r": b + s + s[i]})


@case
def gatherBehindElementwiseKeepsItsIndex(t):
    """apache/tvm#20421: index 0 alone doesn't reveal a lost index."""
    x = np.arange(16, dtype=np.float16).reshape(4, 4)
    body = f"""%one = fusion.constant dense<1.0> : {typeOf(x)}
      %a = fusion.add %x, %one : {typeOf(x)}
      %y = fusion.gather %a, %i axis = 0 : {typeOf(x)}, tensor<1xi64>"""
    for row in (0, 2, 3):
        i = np.array([row])
        t.agree(program({"x": x, "i": i}, body, {"y": ("%y", "tensor<1x4xf16>")}), {"x": x, "i": i}, {"y": x[i] + np.float16(1)})


@case
def broadcastRecomputesOnlyWhatIsCheap(t):
    """iree-org/iree#22500: a cast goes along into the consumer; an
    exponential is evaluated once an element, not once a reader."""
    i, h = np.arange(4, dtype=np.int32), np.linspace(-2, 2, 64).astype(F32)
    T = "tensor<4x64xf32>"
    cheap = f"""%f = fusion.cast %i : tensor<4xi32> to tensor<4xf32>
      %a = fusion.broadcast %f dims = [0] : tensor<4xf32> to {T}
      %b = fusion.broadcast %h dims = [1] : tensor<64xf32> to {T}
      %m = fusion.mul %a, %b : {T}
      %k = fusion.constant dense<4.0> : {T}
      %y = fusion.add %m, %k : {T}"""
    model = t.write(program({"i": i, "h": h}, cheap, {"y": ("%y", T)}))
    t.agree(model, {"i": i, "h": h}, {"y": i.astype(F32)[:, None] * h + F32(4)})
    if t.phase(model, "fuse").count("= fusion.group") != 1:
        raise Broken("cast, broadcast, mul, add: one group expected")
    x = np.linspace(-1, 1, 1024).astype(F32)
    dear = """%e = fusion.exp %x : tensor<1024xf32>
      %y = fusion.broadcast %e dims = [0] : tensor<1024xf32> to tensor<1024x4096xf32>"""
    model = t.write(program({"x": x}, dear, {"y": ("%y", "tensor<1024x4096xf32>")}))
    fused = t.write(t.phase(model, "fuse"))
    got, counts = t.interpret(fused, {"x": x}, "--counts")
    compare("exp and broadcast", got["y"], np.repeat(np.exp(x.astype(np.float64)).astype(F32)[:, None], 4096, 1), 1e-6, 0)
    if not re.search(r"fusion\.exp +1 +1024\b", counts):
        raise Broken(f"exp evaluated other than 1024 times: {counts}")
    groups = re.split(r"= fusion\.group", fused.read_text())
    if any("fusion.exp" in part and "fusion.broadcast" in part for part in groups):
        raise Broken("exp and its broadcast in one group: evaluated once a reader")


@case
def layerNormScaleThatOnlyBroadcasts(t):
    """microsoft/onnxruntime#25855: a scale that broadcasts with the
    normalized rows, or enlarges them, is no LayerNorm scale."""
    g = RNG(31)
    for shape, scaleShape, axis in (((1, 1), (2,), -1), ((3, 4), (1,), -1), ((3, 4), (3, 1), -1), ((3, 4), (4,), -1), ((3, 4, 2), (4, 2), 1), ((3, 4), (2, 1, 4), -1)):
        x, s = g.normal(size=shape).astype(F32), g.uniform(0.5, 2, scaleShape).astype(F32)
        axes = list(range(axis % len(shape), len(shape)))
        x64 = x.astype(np.float64)
        d = x64 - x64.mean(tuple(axes), keepdims=True)
        want = (d / np.sqrt((d * d).mean(tuple(axes), keepdims=True) + 1e-5) * s).astype(F32)
        nodes = [helper.make_node("ReduceMean", ["x"], ["m"], axes=axes), helper.make_node("Sub", ["x", "m"], ["d"]), helper.make_node("Mul", ["d", "d"], ["q"]),
                 helper.make_node("ReduceMean", ["q"], ["v"], axes=axes), helper.make_node("Add", ["v", "e"], ["w"]), helper.make_node("Sqrt", ["w"], ["r"]),
                 helper.make_node("Div", ["d", "r"], ["n"]), helper.make_node("Mul", ["n", "s"], ["y"])]
        t.agree(t.importOnnx(onnxModel(nodes, {"x": x}, {"y": want}, {"e": np.array(1e-5, F32), "s": s})), {"x": x}, {"y": want}, 2e-5, 2e-5)
    # The op itself: a scale of one element broadcasts, by the ONNX definition.
    x, s = g.normal(size=(3, 4)).astype(F32), np.array([1.5], F32)
    node = helper.make_node("LayerNormalization", ["x", "s"], ["y"], axis=-1)
    want = (layerNorm(x, 1e-5) * s).astype(F32)
    model = t.path(".onnx")
    onnx.save(onnxModel([node], {"x": x}, {"y": want}, {"s": s}), model)
    answer = t.run([sys.executable, "-m", "fusion_compiler", "import", model, "-o", model.with_suffix(".mlir")])
    if answer.returncode == 0:
        t.agree(model.with_suffix(".mlir"), {"x": x}, {"y": want}, 2e-5, 2e-5)
    elif answer.returncode != 3 or "LayerNormalization" not in answer.stderr:
        raise Broken(f"LayerNormalization with scale [1]: {answer.stderr[-300:]}")


@case
def interiorValuesOfAPatternThatAreOutputs(t):
    """microsoft/onnxruntime#4110: a value inside a matched chain is also an
    output and feeds a second chain."""
    g = RNG(33)
    x = g.normal(size=(3, 8)).astype(F32)
    nodes = [helper.make_node("ReduceMean", ["x"], ["m"], axes=[1]), helper.make_node("Sub", ["x", "m"], ["d"]), helper.make_node("Mul", ["d", "d"], ["q"]),
             helper.make_node("ReduceMean", ["q"], ["v"], axes=[1]), helper.make_node("Add", ["v", "e"], ["w"]), helper.make_node("Sqrt", ["w"], ["r"]),
             helper.make_node("Div", ["d", "r"], ["n"]), helper.make_node("Softmax", ["d"], ["z"], axis=1)]
    x64 = x.astype(np.float64)
    d = x64 - x64.mean(1, keepdims=True)
    v = (d * d).mean(1, keepdims=True)
    want = {"d": d, "v": v, "n": d / np.sqrt(v + 1e-5), "z": softmax(d, 1)}
    want = {n: a.astype(F32) for n, a in want.items()}
    t.agree(t.importOnnx(onnxModel(nodes, {"x": x}, want, {"e": np.array(1e-5, F32)})), {"x": x}, want, 2e-5, 2e-6)
    nodes = [helper.make_node("Div", ["x", "k"], ["a"]), helper.make_node("Erf", ["a"], ["b"]), helper.make_node("Add", ["b", "o"], ["c"]),
             helper.make_node("Mul", ["x", "c"], ["d"]), helper.make_node("Mul", ["d", "h"], ["y"]), helper.make_node("Tanh", ["c"], ["z"])]
    erf = np.vectorize(math.erf)(x64 / math.sqrt(2))
    want = {"b": erf, "c": erf + 1, "y": x64 * (erf + 1) * 0.5, "z": np.tanh(erf + 1)}
    want = {n: a.astype(F32) for n, a in want.items()}
    constants = {"k": np.array(math.sqrt(2), F32), "o": np.array(1, F32), "h": np.array(0.5, F32)}
    t.agree(t.importOnnx(onnxModel(nodes, {"x": x}, want, constants)), {"x": x}, want, 2e-5, 2e-6)


@case
def residualThatIsAStridedView(t):
    """NVIDIA/TensorRT#4854: the residual is half of a tensor that is
    concatenated again; read as dense it is the wrong half."""
    g = RNG(35)
    x, w = g.integers(-3, 4, (2, 8, 4, 4)).astype(F32), g.integers(-2, 3, (4, 4, 3, 3)).astype(F32)
    H = "tensor<2x4x4x4xf32>"
    body = constant("w", w) + f"""%a = fusion.slice %x starts = [0, 0, 0, 0] limits = [2, 4, 4, 4] strides = [1, 1, 1, 1] : {typeOf(x)}
      %b = fusion.slice %x starts = [0, 4, 0, 0] limits = [2, 8, 4, 4] strides = [1, 1, 1, 1] : {typeOf(x)}
      {convLine("c", "%b", "%w", H, typeOf(w)).strip()}
      %d = fusion.relu %c : {H}
      %r = fusion.add %b, %d : {H}
      %y = fusion.concat %a, %b, %r axis = 1 : {H}, {H}, {H}"""
    b = x[:, 4:]
    t.agree(program({"x": x}, body, {"y": ("%y", "tensor<2x12x4x4xf32>")}), {"x": x},
            {"y": np.concatenate([x[:, :4], b, b + np.maximum(conv(b, w, pad=1), 0).astype(F32)], 1)})


@case
def accumulationIntoZerosWithRepeatedIndices(t):
    """pytorch/pytorch#109172: the fill ends before the first update, and
    repeated indices add up."""
    v, i = np.arange(1, 9, dtype=np.float32), np.array([0, 3, 3, 5, 0, 0, 7, 3]).reshape(8, 1)
    body = """%z = fusion.constant dense<0.0> : tensor<8xf32>
      %y = fusion.scatter add, %z, %i, %v : tensor<8xf32>, tensor<8x1xi64>, tensor<8xf32>
      %f = fusion.reverse %y dims = [0] : tensor<8xf32>
      %s = fusion.add %y, %f : tensor<8xf32>"""
    y = np.zeros(8, F32)
    np.add.at(y, i[:, 0], v)
    t.agree(program({"v": v, "i": i}, body, {"y": ("%y", "tensor<8xf32>"), "s": ("%s", "tensor<8xf32>")}), {"v": v, "i": i}, {"y": y, "s": y + y[::-1]})


@case
def sumOfThreeHundredInputs(t):
    """pytorch/pytorch#166275: a region that reads hundreds of tensors; a
    kernel's argument list has a limit."""
    inputs = {f"x{i}": np.full(16, i, F32) for i in range(300)}
    T, body = "tensor<16xf32>", ""
    for i in range(1, 300):
        body += f"%s{i} = fusion.add {'%x0' if i == 1 else f'%s{i - 1}'}, %x{i} : {T}\n"
    t.agree(program(inputs, body, {"y": ("%s299", T)}), inputs, {"y": np.full(16, sum(range(300)), F32)})


@case
def producersWithTwoUsesAreNotInlinedTwice(t):
    """pytorch/pytorch#148073: every value is read twice; inlining grows
    exponentially, the number of ops has to stay linear."""
    a, b = np.array(3, np.int64), np.array(5, np.int64)
    for n in (13, 40, 200):
        body, values, names = "", [a, b], ["%a", "%b"]
        with np.errstate(over="ignore"):
            for i in range(n):
                body += f"%c{i} = fusion.add {names[-1]}, {names[-2]} : tensor<i64>\n%d{i} = fusion.mul {names[-1]}, {names[-2]} : tensor<i64>\n"
                values += [values[-1] + values[-2], values[-1] * values[-2]]
                names += [f"%c{i}", f"%d{i}"]
        model = t.write(program({"a": a, "b": b}, body, {"y": (names[-1], "tensor<i64>"), "z": (names[-2], "tensor<i64>")}))
        start = time.monotonic()
        t.agree(model, {"a": a, "b": b}, {"y": np.array(values[-1]), "z": np.array(values[-2])}, ways=("plain",))
        seconds = time.monotonic() - start
        ops = len(re.findall(r"fusion\.(add|mul) ", t.phase(model, "fuse")))
        if ops > 4 * n:
            raise Broken(f"{n} steps: {ops} ops behind fusion, at most {4 * n} expected")
        if seconds > 20:
            raise Broken(f"{n} steps: {seconds:.1f} s")


@case
def longChainsNeedNoDeepStack(t):
    """apache/tvm#5798, tensorflow/tensorflow#8451: a recursive visitor
    overflows the stack on a long chain."""
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    T = typeOf(x)
    for n in (700, 10_000, 100_000):
        body = f"%k = fusion.constant dense<1.0> : {T}\n" + "".join(f"%y{i} = fusion.add {f'%y{i - 1}' if i else '%x'}, %k : {T}\n" for i in range(n))
        model = t.write(program({"x": x}, body, {"y": (f"%y{n - 1}", T)}))
        module, _ = t.compile(model, stack=8 << 20)
        compare(f"{n} adds", t.execute(module, {"x": x}, stack=8 << 20)["y"], x + F32(n), 0, 0)
        compare(f"{n} adds, evaluator", t.interpret(model, {"x": x})[0]["y"], x + F32(n), 0, 0)

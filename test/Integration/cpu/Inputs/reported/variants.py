# ===- variants.py - Neighbours of the reported cases ---------------------=== #
#
# Each report stands for a kind of mistake. Here are other graphs of the same
# kinds, which the reports did not show.
#
# ===----------------------------------------------------------------------=== #
"""Reported cases: their neighbours."""

import hashlib

from harness import *  # noqa: F401,F403


@case
def zeroScaleGivesTheBiasExactly(t):
    """ultralytics/yolov3#807: W * 0 and (b - mean) * 0 + beta leave nothing of the data;
    negative scales and a bias Add behind the convolution as well."""
    x, w = RNG(7).integers(-3, 4, (1, 3, 4, 4)).astype(F32), RNG(8).integers(-3, 4, (3, 3, 1, 1)).astype(F32)
    names, lines = normConstants([np.array(v, F32) for v in ([0, -2, 4], [-7, 0.5, 1], [3, -1, 5], [3, 3, 3])])
    T, P = typeOf(x), "tensor<3xf32>"
    added = np.array([1, -2, 3], F32)
    body = constant("w", w) + lines + constant("a", added) + convLine("c", "%x", "%w", T, typeOf(w), pad=0) + f"""%k = fusion.broadcast %a dims = [1] : {P} to {T}
      %d = fusion.add %c, %k : {T}
      """ + normLine("y", "%d", names, T, P, epsilon=1.0)
    want = norm(conv(x, w) + added.reshape(1, 3, 1, 1), [0, -2, 4], [-7, 0.5, 1], [3, -1, 5], [3, 3, 3], 1.0).astype(F32)
    if not (want[:, 0] == -7).all():
        raise Broken("the reference itself")
    t.agree(program({"x": x}, body, {"y": ("%y", T)}), {"x": x}, {"y": want})


@case
def foldIntoTransposedConvolutionsOfOneAndThreeDimensions(t):
    """pytorch/pytorch#180995: the second weight dimension counts outputs of a group
    whatever the number of spatial dimensions; windows of 1, so numpy is short."""
    for rank in (1, 3):
        for channels, part, groups in ((4, 2, 2), (6, 2, 2), (4, 1, 4), (3, 3, 1)):
            g, outs = RNG(rank), part * groups
            x, w = g.integers(-3, 4, (2, channels) + (3,) * rank).astype(F32), g.integers(-3, 4, (channels, part) + (1,) * rank).astype(F32)
            scale, bias, mean = 2 * g.integers(-2, 3, outs), g.integers(-3, 4, outs), g.integers(-3, 4, outs)
            names, lines = normConstants([np.asarray(v, F32) for v in (scale, bias, mean, np.full(outs, 3))])
            want = np.zeros((2, outs) + (3,) * rank)
            for c in range(channels):
                for j in range(part):
                    want[:, c // (channels // groups) * part + j] += x[:, c] * w[c, j].reshape(())
            shape = (1, outs) + (1,) * rank
            want = ((want - mean.reshape(shape)) * scale.reshape(shape) / 2 + bias.reshape(shape)).astype(F32)
            ones, zeros = [1] * rank, [0] * rank
            T, P = typeOf(want), f"tensor<{outs}xf32>"
            body = constant("w", w) + lines + f"""%c = fusion.conv_transpose %x, %w strides = {ones} pad_low = {zeros} pad_high = {zeros} output_padding = {zeros} dilations = {ones} groups = {groups} layout = nchw : {typeOf(x)}, {typeOf(w)}
              """ + normLine("y", "%c", names, T, P, epsilon=1.0)
            model = t.write(program({"x": x}, body, {"y": ("%y", T)}))
            t.agree(model, {"x": x}, {"y": want})
            if "batch_norm" in t.phase(model, "simplify"):
                raise Broken(f"{rank} dimensions, groups {groups}: not folded")


@case
def crossAttentionMergesKeyAndValueOnly(t):
    """pytorch/pytorch#106497: query of x, key and value of m, of one shape; with
    constant weights two products are left. One weight is also read elsewhere."""
    g = RNG(22)
    x, m = (g.integers(-2, 3, (3, 4)).astype(F32) for _ in range(2))
    w = {n: g.integers(-2, 3, (4, 4)).astype(F32) for n in "qkv"}
    T, W = "tensor<3x4xf32>", "tensor<4x4xf32>"
    body = "".join(constant(f"w{n}", a) for n, a in w.items()) + "".join(
        f"%{n} = fusion.matmul %{'x' if n == 'q' else 'm'}, %w{n} : {T}, {W}\n%{n}t = fusion.transpose %{n} permutation = [1, 0] : {T}\n" for n in "qkv")
    outputs = {n: (f"%{n}t", "tensor<4x3xf32>") for n in "qkv"}
    want = {"q": (x @ w["q"]).T, "k": (m @ w["k"]).T, "v": (m @ w["v"]).T}
    model = t.write(program({"x": x, "m": m}, body, outputs))
    t.agree(model, {"x": x, "m": m}, want)
    if t.phase(model, "fuse").count("fusion.matmul") != 2:
        raise Broken("two products expected: the query's, and one of key and value")
    u = g.integers(-2, 3, (4, 4)).astype(F32)
    shared = program({"x": x, "m": m, "u": u}, body + f"%s = fusion.add %u, %wk : {W}\n", {**outputs, "s": ("%s", W)})
    t.agree(shared, {"x": x, "m": m, "u": u}, {**want, "s": u + w["k"]})


@case
def rmsNormScaleThatOnlyBroadcasts(t):
    """microsoft/onnxruntime#31980: the root mean square norm has the same trap, and so
    has a norm along a dimension that is not the last."""
    g = RNG(31)
    for shape, scaleShape, axis in (((1, 1), (2,), 1), ((3, 4), (1,), 1), ((3, 4), (3, 1), 1), ((3, 4), (4,), 1), ((3, 4, 2), (4, 1), 1), ((3, 3, 3), (3,), 1), ((4, 4), (4,), 0)):
        x, s = g.normal(size=shape).astype(F32), g.uniform(0.5, 2, scaleShape).astype(F32)
        x64 = x.astype(np.float64)
        want = (x64 / np.sqrt((x64 * x64).mean(axis, keepdims=True) + 1e-5) * s).astype(F32)
        nodes = [helper.make_node("Mul", ["x", "x"], ["q"]), helper.make_node("ReduceMean", ["q"], ["v"], axes=[axis]), helper.make_node("Add", ["v", "e"], ["w"]),
                 helper.make_node("Sqrt", ["w"], ["r"]), helper.make_node("Div", ["x", "r"], ["n"]), helper.make_node("Mul", ["n", "s"], ["y"])]
        t.agree(t.importOnnx(onnxModel(nodes, {"x": x}, {"y": want}, {"e": np.array(1e-5, F32), "s": s})), {"x": x}, {"y": want}, 2e-5, 2e-5)


@case
def regionsReadNoMoreThanTheirLimit(t):
    """pytorch/pytorch#179423: sums of 64 and of 300 tensors of a million elements, and
    the gradient of an RMSNorm with 12 operands: no group reads more than 32."""
    def largest(model):
        text = t.phase(model, "fuse")
        return max(group.count(" = %") for group in re.findall(r"fusion\.group \w+ \(([^)]*)\)", text))
    for n in (64, 300):
        T = "tensor<1048576xf32>"
        arguments = ", ".join(f'%x{i}: {T} {{fusion.name = "x{i}"}}' for i in range(n))
        lines = "".join(f"  %s{i} = fusion.add {f'%s{i - 1}' if i > 1 else '%x0'}, %x{i} : {T}\n" for i in range(1, n))
        model = t.write(f'func.func @main({arguments}) -> ({T} {{fusion.name = "y"}}) {{\n{lines}  return %s{n - 1} : {T}\n}}\n')
        if largest(model) > 32:
            raise Broken(f"sum of {n}: a group reads {largest(model)} tensors")
    g = RNG(39)
    x, w, r = g.normal(size=(8, 64)).astype(F32), g.normal(size=64).astype(F32), g.uniform(0.5, 2, (8, 1)).astype(F32)
    parts = {f"g{i}": g.normal(size=(8, 64)).astype(F32) for i in range(9)}
    inputs = {"x": x, "w": w, "r": r, **parts}
    T = typeOf(x)
    body = "".join(f"%s{i} = fusion.add {f'%s{i - 1}' if i > 1 else '%g0'}, %g{i} : {T}\n" for i in range(1, 9)) + f"""%ws = fusion.broadcast %w dims = [1] : {typeOf(w)} to {T}
      %rf = fusion.reshape %r : tensor<8x1xf32> to tensor<8xf32>
      %rs = fusion.broadcast %rf dims = [0] : tensor<8xf32> to {T}
      %gw = fusion.mul %s8, %ws : {T}
      %gx = fusion.mul %gw, %x : {T}
      %m = fusion.reduce mean, %gx dims = [1] : {T}
      %ms = fusion.broadcast %m dims = [0] : tensor<8xf32> to {T}
      %r2 = fusion.mul %rs, %rs : {T}
      %xr = fusion.mul %x, %r2 : {T}
      %c = fusion.mul %xr, %ms : {T}
      %d = fusion.sub %gw, %c : {T}
      %y = fusion.mul %d, %rs : {T}
      %xn = fusion.mul %x, %rs : {T}
      %p = fusion.mul %s8, %xn : {T}
      %dw = fusion.reduce sum, %p dims = [0] : {T}"""
    x64, total = x.astype(np.float64), sum(a.astype(np.float64) for a in parts.values())
    gw = total * w
    want = {"y": ((gw - x64 * r * r * (gw * x64).mean(1, keepdims=True)) * r).astype(F32), "dw": (total * x64 * r).sum(0).astype(F32)}
    t.agree(program(inputs, body, {"y": ("%y", T), "dw": ("%dw", typeOf(w))}), inputs, want, 2e-4, 2e-4)


@case
def variancesOfNothing(t):
    """pytorch/pytorch#197108: the variance of no element is NaN, a 0-d tensor reduces to
    itself along 0 or -1, and what is empty launches nothing."""
    for shape, axis in (((0,), 0), ((0, 1), 0), ((2, 0), 1)):
        x = np.zeros(shape, F32)
        kept = tuple(size for i, size in enumerate(shape) if i != axis)
        T, K = typeOf(x), typeOf(np.zeros(kept, F32))
        dims = [i for i in range(len(shape)) if i != axis]
        body = f"""%m = fusion.reduce mean, %x dims = [{axis}] : {T}
          %b = fusion.broadcast %m dims = {dims} : {K} to {T}
          %d = fusion.sub %x, %b : {T}
          %q = fusion.mul %d, %d : {T}
          %v = fusion.reduce mean, %q dims = [{axis}] : {T}"""
        t.agree(program({"x": x}, body, {"v": ("%v", K)}), {"x": x}, {"v": np.full(kept, NAN, F32)})
    s = np.array(2.5, F32)
    for kind in ("ReduceMean", "ReduceSum", "ReduceMax"):
        for axis in (0, -1):
            node = helper.make_node(kind, ["s", "a"], ["y"], keepdims=0)
            t.agree(t.importOnnx(onnxModel([node], {"s": s}, {"y": s}, {"a": np.array([axis])}, 18)), {"s": s}, {"y": s})
    x = np.zeros((0, 4), F32)
    T = typeOf(x)
    module, _ = t.compile(t.write(program({"x": x}, f"%a = fusion.exp %x : {T}\n%b = fusion.softmax %a axis = 1 : {T}\n%y = fusion.layer_norm %b epsilon = 1.0e-5 axis = 1 : {T}", {"y": ("%y", T)})))
    counts = t.good([BIN / "fusion-run", module, "--backend=null", "--random-inputs", 1, "--json"])
    if t.execute(module, {"x": x})["y"].shape != (0, 4) or not re.search(r'"bytes_written": 0\b', counts):
        raise Broken(f"an empty graph: {counts}")


@case
def clipOfOtherElementTypes(t):
    """microsoft/onnxruntime#23116: a missing limit of integers is the type's own, of f16
    infinity; equal limits and a NaN among the data."""
    for dtype in (np.int8, np.int32, np.int64, np.float16, np.float64):
        info = np.iinfo(dtype) if np.dtype(dtype).kind == "i" else np.finfo(dtype)
        x = np.array([info.min, -3, 0, 3, info.max], dtype)
        low, high = np.array(-2, dtype), np.array(2, dtype)
        for names, want in ((["x", "", "high"], np.minimum(x, high)), (["x", "low", ""], np.maximum(x, low)), (["x", "high", "low"], np.full(5, -2, dtype)), (["x", "low", "low"], np.full(5, -2, dtype))):
            constants = {n: a for n, a in {"low": low, "high": high}.items() if n in names}
            t.agree(t.importOnnx(onnxModel([helper.make_node("Clip", names, ["y"])], {"x": x}, {"y": want}, constants, 13)), {"x": x}, {"y": want}, ways=("plain",))
    x = np.array([NAN, -1, 9, NAN], F32)
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Clip", ["r", "", "six"], ["y"])]
    t.agree(t.importOnnx(onnxModel(nodes, {"x": x}, {"y": x}, {"six": np.array(6, F32)}, 13)), {"x": x}, {"y": np.array([NAN, 0, 6, NAN], F32)}, ways=("plain",))


@case
def gemmWithNothingToAdd(t):
    """opencv/opencv#22096: alpha 0 times an infinity is NaN by the formula, K of 0 leaves
    beta C, and integers take part."""
    a, b, c = np.array([[1, INF], [2, 3]], F32), np.eye(2, dtype=F32), np.array([[1, 2]], F32)
    with np.errstate(invalid="ignore"):
        want = F32(0) * (a.astype(np.float64) @ b).astype(F32) + c
    node = helper.make_node("Gemm", ["a", "b", "c"], ["y"], alpha=0.0)
    inputs = {"a": a, "b": b, "c": c}
    t.agree(t.importOnnx(onnxModel([node], inputs, {"y": want})), inputs, {"y": want}, ways=("plain",))
    a, b = np.zeros((3, 0), F32), np.zeros((0, 2), F32)
    node = helper.make_node("Gemm", ["a", "b", "c"], ["y"], beta=3.0)
    inputs, want = {"a": a, "b": b, "c": c}, np.repeat(3 * c, 3, 0)
    t.agree(t.importOnnx(onnxModel([node], inputs, {"y": want})), inputs, {"y": want}, ways=("plain",))
    g = RNG(86)
    a, b, c = (g.integers(-9, 10, s).astype(np.int32) for s in ((4, 3), (4, 5), (3, 1)))
    node = helper.make_node("Gemm", ["a", "b", "c"], ["y"], transA=1)
    inputs, want = {"a": a, "b": b, "c": c}, a.T @ b + c
    t.agree(t.importOnnx(onnxModel([node], inputs, {"y": want})), inputs, {"y": want}, ways=("plain",))


@case
def softmaxBeforeOpset13WithANegativeAxis(t):
    """apache/tvm#20183: axis -1 and -2 flatten from there too, in opset 11."""
    x = RNG(82).normal(size=(2, 3, 4)).astype(F32)
    for axis, rows in ((-1, 6), (-2, 2), (-3, 1)):
        want = softmax(x.astype(np.float64).reshape(rows, -1), 1).reshape(x.shape).astype(F32)
        t.agree(t.importOnnx(onnxModel([helper.make_node("Softmax", ["x"], ["y"], axis=axis)], {"x": x}, {"y": want}, opset=11)), {"x": x}, {"y": want}, 1e-5, 1e-6, ways=("plain",))


@case
def expandedConstantsStaySmall(t):
    """daquexian/onnx-simplifier#178: Expand of a row, and zeros and ones like a large
    tensor, are no megabytes in the module."""
    row, z = RNG(88).integers(-4, 5, (1, 1000)).astype(F32), np.ones((1000, 1000), F32)
    nodes = [helper.make_node("Expand", ["c", "n"], ["e"]), helper.make_node("Shape", ["z"], ["s"]),
             helper.make_node("ConstantOfShape", ["s"], ["o"], value=numpy_helper.from_array(np.array([1], F32))),
             helper.make_node("Add", ["e", "o"], ["a"]), helper.make_node("Add", ["a", "z"], ["y"])]
    model = t.importOnnx(onnxModel(nodes, {"z": z}, {"y": z}, {"c": row, "n": np.array([1000, 1000])}, 13))
    module, _ = t.compile(model)
    if module.stat().st_size > 1 << 16 or model.stat().st_size > 1 << 16:
        raise Broken(f"model of {model.stat().st_size} bytes, module of {module.stat().st_size}")
    t.agree(model, {"z": z}, {"y": row + 1 + z}, ways=("plain",))


@case
def hashesOfMoreThanHalfAGigabyte(t):
    """onnx/onnx#3275: a weight of 544 MB, here a hole, is read by its hash, whose
    number of bits does not fit 32 bits; a wrong byte is still found."""
    count = 68_000_000
    header = f'{{"w":{{"dtype":"F64","shape":[{count}],"data_offsets":[0,{8 * count}]}}}}'.encode()
    header += b" " * (-len(header) % 8)
    file = t.folder / "w.safetensors"
    with file.open("wb") as out:
        out.write(len(header).to_bytes(8, "little") + header)
        out.truncate(8 + len(header) + 8 * count)
    digest = hashlib.sha256()
    for _ in range(8 * count // 1_000_000):
        digest.update(bytes(1_000_000))
    x, T = np.ones(4), f"tensor<{count}xf64>"
    text = f'fusion.parameter @w const "w.safetensors" key "w" sha256 "{digest.hexdigest()}" : {T}\n' + program({"x": x}, f"""%w = fusion.get_parameter @w : {T}
      %s = fusion.slice %w starts = [7] limits = [11] strides = [1] : {T}
      %y = fusion.add %x, %s : tensor<4xf64>""", {"y": ("%y", typeOf(x))})
    model = t.write(text)
    compare("compiled", t.execute(t.compile(model)[0], {"x": x})["y"], x, 0, 0)
    compare("evaluator", t.interpret(model, {"x": x})[0]["y"], x, 0, 0)
    with file.open("r+b") as out:
        out.seek(file.stat().st_size - 1)
        out.write(b"\1")
    t.refused([BIN / "fusion-compile", model, "-o", t.path(".fsn")], "hash")
    file.unlink()

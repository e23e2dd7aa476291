# ===- batch_norm.py - BatchNorm folding ----------------------------------=== #
#
# Public reports of other systems, each as the smallest graph that trips a naive
# implementation.
#
# ===----------------------------------------------------------------------=== #
"""Reported cases: BatchNorm folding."""

from harness import *  # noqa: F401,F403


@case
def foldLeavesOtherReadersOfTheConvolution(t):
    """pytorch/executorch#20601: the single-user check has to look at the
    convolution; another reader must still see the unscaled result."""
    g = RNG(1)
    x, w = g.normal(size=(1, 3, 8, 8)).astype(F32), g.normal(size=(4, 3, 3, 3)).astype(F32)
    p = normParameters(4)
    names, lines = normConstants(p)
    c = conv(x, w, pad=1)
    y, r = norm(c, *p).astype(F32), np.maximum(c, 0).astype(F32)
    T, P = "tensor<1x4x8x8xf32>", "tensor<4xf32>"
    start = constant("w", w) + lines + convLine("c", "%x", "%w", typeOf(x), typeOf(w))
    first, second = normLine("y0", "%c", names, T, P), f"%y1 = fusion.relu %c : {T}\n"
    for body in (first + second, second + first):
        t.agree(program({"x": x}, start + body, {"y0": ("%y0", T), "y1": ("%y1", T)}), {"x": x}, {"y0": y, "y1": r}, 2e-5, 2e-5)
    t.agree(program({"x": x}, start + first, {"y0": ("%y0", T), "c": ("%c", T)}), {"x": x}, {"y0": y, "c": c.astype(F32)}, 2e-5, 2e-5)


@case
def foldOfSharedWeightsScalesEachPathOnce(t):
    """pytorch/ao#2795, pytorch/pytorch#124808: paths that share W each get
    their own fold of the original; a second run of the pass changes nothing."""
    g = RNG(3)
    x, z = (g.normal(size=(1, 4, 6, 6)).astype(F32) for _ in range(2))
    w = (g.normal(size=(4, 4, 3, 3)) * 0.3).astype(F32)
    p, q = normParameters(4, 1), normParameters(4, 2)
    T, P, W = "tensor<1x4x6x6xf32>", "tensor<4xf32>", typeOf(w)
    namesP, linesP = normConstants(p)
    namesQ, linesQ = normConstants(q, "q")
    start = constant("w", w) + linesP + linesQ
    two = start + convLine("cx", "%x", "%w", T, W) + convLine("cz", "%z", "%w", T, W) \
        + normLine("ya", "%cx", namesP, T, P) + normLine("yb", "%cz", namesQ, T, P)
    model = t.write(program({"x": x, "z": z}, two, {"ya": ("%ya", T), "yb": ("%yb", T)}))
    t.agree(model, {"x": x, "z": z}, {"ya": norm(conv(x, w, pad=1), *p).astype(F32), "yb": norm(conv(z, w, pad=1), *q).astype(F32)}, 5e-5, 5e-5)
    again = start + convLine("c1", "%x", "%w", T, W) + normLine("n", "%c1", namesP, T, P) \
        + convLine("c2", "%n", "%w", T, W) + normLine("y", "%c2", namesP, T, P)
    chain = t.write(program({"x": x}, again, {"y": ("%y", T)}))
    want = norm(conv(norm(conv(x, w, pad=1), *p), w, pad=1), *p).astype(F32)
    t.agree(chain, {"x": x}, {"y": want}, 1e-4, 1e-4)
    for path in (model, chain):
        once = t.good([BIN / "fusion-opt", path, "--fusion-fold-batch-norm"])
        twice = t.good([BIN / "fusion-opt", path, "--fusion-fold-batch-norm", "--fusion-fold-batch-norm"])
        if once != twice or "batch_norm" in once:
            raise Broken("fold: not idempotent, or a BatchNorm is left")


@case
def foldIntoTransposedConvolutionScalesTheOutputChannels(t):
    """pytorch/pytorch#180995: weights are [C, O / groups, ...]; the scale
    goes along group and second dimension, silently wrong where C = O."""
    g = RNG(4)
    for channels, part, groups in ((4, 2, 2), (6, 2, 2), (4, 1, 4), (4, 4, 1), (4, 3, 1)):
        x = g.normal(size=(1, channels, 5, 5)).astype(F32)
        w = g.normal(size=(channels, part, 3, 3)).astype(F32)
        outs = part * groups
        for bias in (None, g.normal(size=outs).astype(F32)):
            p = normParameters(outs)
            names, lines = normConstants(p)
            T, P = f"tensor<1x{outs}x9x9xf32>", f"tensor<{outs}xf32>"
            b, typeB = (" bias %cb", f", {P}") if bias is not None else ("", "")
            body = constant("w", w) + lines + (constant("cb", bias) if bias is not None else "") + \
                f"%c = fusion.conv_transpose %x, %w{b} strides = [2, 2] pad_low = [1, 1] pad_high = [1, 1] output_padding = [0, 0] " \
                f"dilations = [1, 1] groups = {groups} layout = nchw : {typeOf(x)}, {typeOf(w)}{typeB}\n" + normLine("y", "%c", names, T, P)
            model = t.write(program({"x": x}, body, {"y": ("%y", T)}))
            t.agree(model, {"x": x}, {"y": norm(convTranspose(x, w, groups, 2, 1, bias), *p).astype(F32)}, 5e-5, 5e-5)
            if "batch_norm" in t.phase(model, "simplify"):
                raise Broken(f"conv_transpose {channels}, {part}, groups {groups}: not folded")


@case
def foldFormulaWithAndWithoutBias(t):
    """ultralytics/yolov3#807, LeelaChessZero/lc0#779: (bias - mean) * s +
    beta, with a scale that is negative, zero or one."""
    g = RNG(5)
    x, w = g.normal(size=(2, 3, 5, 5)).astype(F32), g.normal(size=(3, 3, 3, 3)).astype(F32)
    T, P = "tensor<2x3x5x5xf32>", "tensor<3xf32>"
    for bias in (None, np.array([0.5, -2, 3], F32)):
        for scale, beta in (([-1.5, 0, 2], [0.25, -7, 1]), ([1, 1, 1], [0, 0, 0])):
            p = [np.array(v, F32) for v in (scale, beta, [3, -1, 0.5], [0.5, 2, 1e-3])]
            names, lines = normConstants(p)
            body = constant("w", w) + lines + (constant("cb", bias) if bias is not None else "") \
                + convLine("c", "%x", "%w", T, typeOf(w), bias="%cb" if bias is not None else None, typeBias=P) + normLine("y", "%c", names, T, P)
            want = norm(conv(x, w, bias, pad=1), *p).astype(F32)
            t.agree(program({"x": x}, body, {"y": ("%y", T)}), {"x": x}, {"y": want}, 1e-4, 2e-4)
            if scale[1] == 0 and not (want[:, 1] == F32(-7)).all():
                raise Broken("the reference itself: a scale of 0 gives the bias")


@case
def trainingBatchNormIsNotFolded(t):
    """llvm/torch-mlir#3438, apache/tvm#17752: with training_mode the batch's
    own statistics count, and running statistics are outputs."""
    g = RNG(8)
    x = g.normal(1, 2, size=(2, 3, 4, 5)).astype(F32)
    w = g.normal(size=(3, 3, 1, 1)).astype(F32)
    scale, bias, mean, var = normParameters(3)
    constants = {"w": w, "s": scale, "b": bias}
    c = conv(x, w)
    batchMean, batchVar = c.mean((0, 2, 3)), c.var((0, 2, 3))
    want = {"y": norm(c, scale, bias, batchMean, batchVar, 0.01).astype(F32),
            "rm": (mean * 0.9 + batchMean * 0.1).astype(F32), "rv": (var * 0.9 + batchVar * 0.1).astype(F32)}
    for opset in (14, 15):
        nodes = [helper.make_node("Conv", ["x", "w"], ["c"]),
                 helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["y", "rm", "rv"], epsilon=0.01, momentum=0.9, training_mode=1)]
        model = t.importOnnx(onnxModel(nodes, {"x": x}, want, {**constants, "m": mean, "v": var}, opset))
        t.agree(model, {"x": x}, want, 2e-5, 2e-5)
    # Before opset 14 five outputs meant training.
    nodes[1] = helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["y", "rm", "rv", "sm", "sv"], epsilon=0.01, momentum=0.9)
    want = {**want, "sm": batchMean.astype(F32), "sv": batchVar.astype(F32)}
    t.agree(t.importOnnx(onnxModel(nodes, {"x": x}, want, {**constants, "m": mean, "v": var}, 9)), {"x": x}, want, 2e-5, 2e-5)
    # spatial = 0 (opset 7) has statistics for each element: refused.
    node = helper.make_node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"], spatial=0)
    many = {n: np.ones((3, 4, 5), F32) for n in "sbmv"}
    t.refusedImport(onnxModel([node], {"x": x}, {"y": x}, many, 7), "BatchNormalization")


@case
def foldKeepsTheElementTypeAndTheRangeOfTheParameters(t):
    """pytorch/pytorch#76578: f16 data with f32 statistics; a variance above
    65504 is infinite in f16 and would silence the channel."""
    g = RNG(9)
    x, w = g.normal(size=(1, 2, 4, 4)).astype(np.float16), (g.normal(size=(2, 2, 1, 1)) * [[[[100]]], [[[1e-3]]]]).astype(np.float16)
    p = [np.array(v, F32) for v in ([1, 1], [0.5, 0.5], [0, 0], [1e5, 1e-7])]
    names, lines = normConstants(p)
    T = typeOf(x)
    model = t.write(program({"x": x}, constant("w", w) + lines + convLine("c", "%x", "%w", T, typeOf(w), pad=0)
                            + normLine("y", "%c", names, T, "tensor<2xf32>"), {"y": ("%y", T)}))
    want = norm(conv(x, w), *p).astype(np.float16)
    if not np.isfinite(want).all() or not np.ptp(want[0, 0]) > 0:
        raise Broken("the reference itself: both channels are finite and vary")
    t.agree(model, {"x": x}, {"y": want}, 4e-3, 4e-3)


@case
def foldFiresForEveryFormThatExportersWrite(t):
    """pytorch/pytorch#131693, onnx/tensorflow-onnx#2186: opsets,
    initializers and Constant nodes, two pairs in a row; the report says so."""
    g = RNG(12)
    x = g.normal(size=(1, 3, 6, 6)).astype(F32)
    w1, w2 = g.normal(size=(4, 3, 3, 3)).astype(F32), g.normal(size=(2, 4, 3, 3)).astype(F32)
    p, q = normParameters(4, 1), normParameters(2, 2)
    constants = {"w1": w1, "w2": w2, **{f"p{i}": a for i, a in enumerate(p)}, **{f"q{i}": a for i, a in enumerate(q)}}
    want = norm(conv(norm(conv(x, w1), *p), w2), *q).astype(F32)
    nodes = [helper.make_node("Conv", ["x", "w1"], ["a"]), helper.make_node("BatchNormalization", ["a", "p0", "p1", "p2", "p3"], ["n"]),
             helper.make_node("Conv", ["n", "w2"], ["b"]), helper.make_node("BatchNormalization", ["b", "q0", "q1", "q2", "q3"], ["y"])]
    for opset in (7, 9, 14, 15):
        for asNodes in (False, True):
            model = t.importOnnx(onnxModel(nodes, {"x": x}, {"y": want}, constants, opset, asNodes))
            if opset in (7, 15):
                t.agree(model, {"x": x}, {"y": want}, 1e-4, 1e-4)
            if "batch_norm" in t.phase(model, "simplify"):
                raise Broken(f"opset {opset}, Constant nodes {asNodes}: a BatchNorm is left")
    report = t.compile(model, "--explain")[1]
    if not re.search(r"2 .*fold-batch-norm", report):
        raise Broken(f"--explain doesn't count two folded BatchNorms: {report[-700:]}")


@case
def foldReachesThroughAConstantBiasAdd(t):
    """Seen in PP-OCR exports: ConvTranspose -> Add(constant) -> BatchNorm."""
    g = RNG(93)
    x, w = g.normal(size=(1, 4, 5, 5)).astype(F32), g.normal(size=(4, 3, 2, 2)).astype(F32)
    p, bias = normParameters(3), g.normal(size=(1, 3, 1, 1)).astype(F32)
    want = norm(convTranspose(x, w, 1, 2, 0) + bias, *p).astype(F32)
    nodes = [helper.make_node("ConvTranspose", ["x", "w"], ["c"], strides=[2, 2]), helper.make_node("Add", ["c", "bias"], ["a"]),
             helper.make_node("BatchNormalization", ["a", "p0", "p1", "p2", "p3"], ["y"])]
    constants = {"w": w, "bias": bias, **{f"p{i}": a for i, a in enumerate(p)}}
    for asNodes in (False, True):
        model = t.importOnnx(onnxModel(nodes, {"x": x}, {"y": want}, constants, 13, asNodes))
        t.agree(model, {"x": x}, {"y": want}, 5e-5, 5e-5)
        text = t.phase(model, "simplify")
        if "batch_norm" in text or "fusion.add" in text:
            raise Broken("the BatchNorm or the bias Add is left")


@case
def strictModeLeavesTheBatchNormAlone(t):
    """onnx/optimizer#255: a right fold still changes last bits; who can't
    have that has an option."""
    g = RNG(13)
    x, w, p = g.normal(size=(1, 3, 6, 6)).astype(F32), g.normal(size=(4, 3, 3, 3)).astype(F32), normParameters(4)
    names, lines = normConstants(p)
    model = t.write(program({"x": x}, constant("w", w) + lines + convLine("c", "%x", "%w", typeOf(x), typeOf(w), pad=0)
                            + normLine("y", "%c", names, "tensor<1x4x4x4xf32>", "tensor<4xf32>"), {"y": ("%y", "tensor<1x4x4x4xf32>")}))
    folded = t.phase(model, "simplify")
    exact = t.phase(model, "simplify", "--exact-rewrites-only")
    if "batch_norm" in folded or "batch_norm" not in exact:
        raise Broken("the fold has to fire by default and not with --exact-rewrites-only")
    t.agree(model, {"x": x}, {"y": norm(conv(x, w), *p).astype(F32)}, 2e-5, 2e-5)

# ===- importers.py - Importers and constant evaluation -------------------=== #
#
# Public reports of other systems, each as the smallest graph that trips a naive
# implementation.
#
# ===----------------------------------------------------------------------=== #
"""Reported cases: importers and constant evaluation."""

from harness import *  # noqa: F401,F403


@case
def softmaxBeforeOpset13Flattens(t):
    """apache/tvm#19420: the old Softmax makes rows of all dimensions from
    axis (default 1) on; the new one works along the last."""
    x = RNG(82).normal(size=(2, 3, 4)).astype(F32)
    x64 = x.astype(np.float64)
    flat = x64.reshape(2, 12)
    log = np.log
    ways = {"Softmax": softmax, "LogSoftmax": lambda v, axis: log(softmax(v, axis)),
            "Hardmax": lambda v, axis: (np.arange(v.shape[axis]).reshape([-1 if i == axis % v.ndim else 1 for i in range(v.ndim)]) == v.argmax(axis, keepdims=True)).astype(F32)}
    for kind, f in ways.items():
        for opset, attributes, want in ((11, {}, f(flat, 1).reshape(x.shape)), (11, {"axis": 1}, f(flat, 1).reshape(x.shape)), (11, {"axis": 0}, f(x64.reshape(1, 24), 1).reshape(x.shape)),
                                        (11, {"axis": 2}, f(x64.reshape(6, 4), 1).reshape(x.shape)), (13, {}, f(x64, -1)), (13, {"axis": 1}, f(x64, 1))):
            want = want.astype(F32)
            node = helper.make_node(kind, ["x"], ["y"], **attributes)
            model = t.importOnnx(onnxModel([node], {"x": x}, {"y": want}, opset=opset))
            t.agree(model, {"x": x}, {"y": want}, 1e-5, 1e-6, ways=("plain",))


@case
def clipWithoutALimit(t):
    """pytorch/pytorch#61404: a missing limit is the lowest or largest value,
    not the smallest positive; min above max gives max; Relu and Clip of integers."""
    x = np.array([-1e30, -3, 0.5, 7, INF, -INF], F32)
    six, low = np.array(6, F32), np.array(-1, F32)
    for names, want in ((["x", "", "six"], np.minimum(x, six)), (["x", "low", ""], np.maximum(x, low)), (["x", "low"], np.maximum(x, low)), (["x"], x),
                        (["x", "three", "one"], np.ones(6, F32))):
        constants = {n: a for n, a in {"six": six, "low": low, "three": np.array(3, F32), "one": np.array(1, F32)}.items() if n in names}
        t.agree(t.importOnnx(onnxModel([helper.make_node("Clip", names, ["y"])], {"x": x}, {"y": want}, constants, 13)), {"x": x}, {"y": want}, ways=("plain",))
    i = np.array([-128, -5, 0, 9, 127], np.int8)
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Clip", ["r", "lo", "hi"], ["y"])]
    want = np.clip(np.maximum(i, 0), -128, 100).astype(np.int8)
    t.agree(t.importOnnx(onnxModel(nodes, {"x": i}, {"y": want}, {"lo": np.array(-128, np.int8), "hi": np.array(100, np.int8)}, 14)), {"x": i}, {"y": want}, ways=("plain",))
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Clip", ["r", "low", "six"], ["y"])]
    t.agree(t.importOnnx(onnxModel(nodes, {"x": x}, {"y": x}, {"low": low, "six": six}, 13)), {"x": x}, {"y": np.clip(np.maximum(x, 0), -1, 6)}, ways=("plain",))
    for attributes, want in (({"max": 6.0}, np.maximum(np.minimum(x, six), np.finfo(F32).min)), ({"min": -1.0}, np.minimum(np.maximum(x, low), np.finfo(F32).max)), ({"min": 3.0, "max": 1.0}, np.ones(6, F32))):
        model = t.importOnnx(onnxModel([helper.make_node("Clip", ["x"], ["y"], **attributes)], {"x": x}, {"y": want}, opset=6))
        got = t.interpret(model, {"x": x})[0]["y"]
        # Whether an infinity survives the default limit is open in that opset.
        compare(f"Clip {attributes}", got[:4], want[:4], 0, 0)
        t.agree(model, {"x": x}, {"y": got}, ways=("plain",))


@case
def gemmInAllItsForms(t):
    """opencv/opencv#22096: alpha A B + beta C, with every shape of C, and by
    the formula also with beta 0 and a NaN in C."""
    g = RNG(86)
    m, k, n = 3, 4, 5
    a, b = g.integers(-3, 4, (m, k)).astype(F32), g.integers(-3, 4, (k, n)).astype(F32)
    cs = {"none": None, "one": np.array([[2]], F32), "row": g.integers(-3, 4, n).astype(F32), "column": g.integers(-3, 4, (m, 1)).astype(F32),
          "scalar": np.array(3, F32), "full": g.integers(-3, 4, (m, n)).astype(F32)}
    for i, (name, c) in enumerate(cs.items()):
        ta, tb = i & 1, i >> 1 & 1
        inputs = {"a": a.T.copy() if ta else a, "b": b.T.copy() if tb else b} | ({"c": c} if c is not None else {})
        want = (F32(0.5) * (a @ b) + (F32(2) * c if c is not None else F32(0))).astype(F32)
        node = helper.make_node("Gemm", list(inputs), ["y"], alpha=0.5, beta=2.0, transA=ta, transB=tb)
        t.agree(t.importOnnx(onnxModel([node], inputs, {"y": want})), inputs, {"y": want}, ways=("plain",))
    node = helper.make_node("Gemm", ["a", "b", "c"], ["y"], beta=0.0)
    c = np.array([NAN, 1, 2, INF, 3], F32)
    with np.errstate(invalid="ignore"):
        want = (a @ b + F32(0) * c).astype(F32)
    inputs = {"a": a, "b": b, "c": c}
    t.agree(t.importOnnx(onnxModel([node], inputs, {"y": want})), inputs, {"y": want}, ways=("plain",))


@case
def constantEvaluationDoesNotBlowUp(t):
    """microsoft/onnxruntime#28730: what is small as a graph may not become
    a module of hundreds of megabytes; sizes that overflow are refused."""
    x = np.arange(100, dtype=F32)
    nodes = [helper.make_node("ConstantOfShape", ["n"], ["c"], value=numpy_helper.from_array(np.array([2], F32))), helper.make_node("ReduceSum", ["c", "ax"], ["r"], keepdims=0), helper.make_node("Add", ["r", "x"], ["y"])]
    constants = {"n": np.array([1000, 1000, 100]), "ax": np.array([0, 1])}
    model = t.importOnnx(onnxModel(nodes, {"x": x}, {"y": x}, constants, 13))
    module, _ = t.compile(model)
    if module.stat().st_size > 4 << 20 or model.stat().st_size > 1 << 20:
        raise Broken(f"ConstantOfShape: model of {model.stat().st_size} bytes, module of {module.stat().st_size}")
    compare("sum of ConstantOfShape", t.execute(module, {"x": x})["y"], x + F32(2e6), 1e-6, 0)
    row = RNG(88).integers(-4, 5, (1, 1000)).astype(F32)
    z = np.ones((1000, 1000), F32)
    nodes = [helper.make_node("Tile", ["c", "n"], ["t"]), helper.make_node("Add", ["t", "z"], ["y"])]
    model = t.importOnnx(onnxModel(nodes, {"z": z}, {"y": z}, {"c": row, "n": np.array([1000, 1])}, 13))
    module, _ = t.compile(model)
    if module.stat().st_size > 1 << 20:
        raise Broken(f"Tile: module of {module.stat().st_size} bytes")
    compare("Tile", t.execute(module, {"z": z})["y"], row + z, 0, 0)
    nodes = [helper.make_node("ConstantOfShape", ["n"], ["y"])]
    # Products of sizes beyond 64 bits: an error from the importer or the compiler.
    nodes = [helper.make_node("ConstantOfShape", ["n"], ["y"])]
    for shape in ([17592186044800, 1048576], [2 ** 40, 2 ** 40], [2 ** 62, 4], [-1, 2]):
        graph = onnxModel(nodes, {"x": x}, {"y": np.zeros((1, 1), F32)}, {"n": np.array(shape)}, 13)
        graph.graph.output[0].type.tensor_type.ClearField("shape")
        path = t.path(".onnx")
        onnx.save(graph, path)
        words = [sys.executable, "-m", "fusion_compiler", "import", path, "-o", path.with_suffix(".mlir")]
        if t.run(words).returncode == 0:
            words = [BIN / "fusion-compile", path.with_suffix(".mlir"), "-o", t.path(".fsn")]
        t.refused(words, "negative|elements", (3, 6))
    # Small chains of shape arithmetic are still evaluated.
    nodes = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Gather", ["s", "i"], ["d"]), helper.make_node("Concat", ["d", "minus"], ["n"], axis=0), helper.make_node("Reshape", ["x", "n"], ["y"])]
    t.agree(t.importOnnx(onnxModel(nodes, {"x": x}, {"y": x.reshape(100, 1)}, {"i": np.array([0]), "minus": np.array([-1])}, 13)), {"x": x}, {"y": x.reshape(100, 1)}, ways=("plain",))


@case
def externalDataBeyondTwoGigabytes(t):
    """onnx/onnx#3275: weights in a file of 2.2 GB, here with holes; several
    tensors share it by offset, and only theirs is read."""
    a, b = RNG(90).integers(-3, 4, (8, 4)).astype(F32), RNG(91).integers(-3, 4, (4, 4)).astype(F32)
    place = {"a": (4096, a), "b": (2_200_000_000 // 4096 * 4096, b)}
    data = t.folder / "weights.bin"
    with data.open("wb") as file:
        for offset, array in place.values():
            file.seek(offset)
            file.write(array.tobytes())
    x = RNG(92).integers(-3, 4, (2, 8)).astype(F32)
    nodes = [helper.make_node("MatMul", ["x", "a"], ["h"]), helper.make_node("MatMul", ["h", "b"], ["y"])]
    want = x @ a @ b
    model = onnxModel(nodes, {"x": x}, {"y": want})
    for name, (offset, array) in place.items():
        tensor = model.graph.initializer.add(name=name, data_type=TensorProto.FLOAT, dims=array.shape, data_location=TensorProto.EXTERNAL)
        for key, value in (("location", "weights.bin"), ("offset", offset), ("length", array.nbytes)):
            tensor.external_data.add(key=key, value=str(value))
    t.agree(t.importOnnx(model), {"x": x}, {"y": want}, ways=("plain",))
    # A tensor above 2 GB of which the file lacks the end.
    big = onnxModel([helper.make_node("Gather", ["w", "i"], ["y"])], {"i": np.array([0, 1])}, {"y": np.zeros((2, 1024), F32)})
    rows = 560_000
    tensor = big.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=(rows, 1024), data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="weights.bin")
    t.refusedImport(big, "weights.bin")
    data.unlink()

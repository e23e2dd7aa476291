"""What ONNX leaves easy to get wrong, with values: opsets, defaults, NaN, normalizations."""

import numpy as np
import pytest
from conftest import model, tensor, value
from onnx import TensorProto, helper

RNG = np.random.default_rng(7)
NAN = float("nan")


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def softmax(x, axis):
    e = np.exp(x.astype(np.float64) - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@pytest.mark.parametrize("opset, axis, rows", [(11, None, 2), (11, 1, 2), (11, 2, 6), (11, -1, 6), (13, None, 6), (13, 1, 8)])
def test_softmax_before_opset_13_flattens(opset, axis, rows, interpret):
    """Opset 11 sums over everything from the axis (default 1) on; 13 over one axis (default the last)."""
    x = floats(2, 3, 4)
    attributes = {} if axis is None else {"axis": axis}
    source = model([helper.make_node("Softmax", ["x"], ["y"], **attributes)], [value("x", [2, 3, 4])], [value("y", None)],
                   opset=opset)
    y = interpret(source, {"x": x})["y"]
    if opset == 11:
        expected = softmax(x.reshape(rows, -1), 1).reshape(x.shape)
    else:
        expected = softmax(x, 1 if axis == 1 else -1)
    np.testing.assert_allclose(y, expected, rtol=1e-5)
    assert abs(y.sum() - rows) < 1e-4


@pytest.mark.parametrize("low, high, expected", [
    (None, 6, [-7, -1, 0, 6]), (-1, None, [-1, -1, 0, 9]), (3, 1, [1, 1, 1, 1]), (None, None, [-7, -1, 0, 9]),
    (NAN, 6, [NAN] * 4),
])
def test_clip_bounds_may_be_missing_or_crossed(low, high, expected, interpret):
    bounds = [("lo", low), ("hi", high)]
    names = [n if v is not None else "" for n, v in bounds]
    constants = [tensor(n, np.float32(v)) for n, v in bounds if v is not None]
    source = model([helper.make_node("Clip", ["x", *names], ["y"])], [value("x", [4])], [value("y", None)], constants)
    got = interpret(source, {"x": np.array([-7, -1, 0, 9], np.float32)})["y"]
    np.testing.assert_array_equal(got, np.array(expected, np.float32))


def test_clip_of_opset_6_has_attributes(interpret):
    source = model([helper.make_node("Clip", ["x"], ["y"], max=2.0)], [value("x", [3])], [value("y", None)], opset=9)
    x = np.array([-1e30, 1, 5], np.float32)
    assert interpret(source, {"x": x})["y"].tolist() == [x[0], 1, 2]


@pytest.mark.parametrize("op", ["Relu", "Max", "Min", "Clip", "ReduceMax", "MaxPool"])
def test_nan_goes_through(op, interpret):
    x = np.array([[[-3, NAN, 1, NAN]]], np.float32)
    inputs, constants, attributes = ["x"], [], {}
    if op in ("Max", "Min"):
        inputs, constants = ["x", "z"], [tensor("z", np.array([[[0, 0, NAN, 0]]], np.float32))]
        expected = (np.maximum if op == "Max" else np.minimum)(x, [[[0, 0, NAN, 0]]])
    elif op == "Clip":
        inputs, constants = ["x", "", "hi"], [tensor("hi", np.float32(0.5))]
        expected = np.minimum(x, np.float32(0.5))
    elif op == "Relu":
        expected = np.maximum(x, 0)
    elif op == "ReduceMax":
        attributes, expected = {"axes": [2]}, np.array([[[NAN]]])
    else:
        attributes, expected = {"kernel_shape": [2]}, np.array([[[NAN, NAN, NAN]]])
    source = model([helper.make_node(op, inputs, ["y"], **attributes)], [value("x", [1, 1, 4])], [value("y", None)], constants)
    np.testing.assert_array_equal(interpret(source, {"x": x})["y"], expected)


@pytest.mark.parametrize("shape", [None, (), (1, 1), (5,), (3, 1), (3, 5)])
@pytest.mark.parametrize("swap_a, swap_b, alpha, beta", [(0, 0, 1.0, 1.0), (1, 0, 0.5, 1.0), (0, 1, 1.0, 2.0), (1, 1, 2.0, 0.5)])
def test_gemm(shape, swap_a, swap_b, alpha, beta, interpret):
    integers = np.random.default_rng(3)
    a, b = (integers.integers(-4, 5, s).astype(np.float32) for s in ((3, 4), (4, 5)))
    inputs = {"a": a.T.copy() if swap_a else a, "b": b.T.copy() if swap_b else b}
    expected = alpha * (a @ b)
    if shape is not None:
        inputs["c"] = integers.integers(-4, 5, shape).astype(np.float32)
        expected = expected + beta * inputs["c"]
    node = helper.make_node("Gemm", list(inputs), ["y"], alpha=alpha, beta=beta, transA=swap_a, transB=swap_b)
    source = model([node], [value(n, x.shape) for n, x in inputs.items()], [value("y", None)])
    np.testing.assert_array_equal(interpret(source, inputs)["y"], expected)


def test_gemm_with_beta_0_is_the_formula(interpret):
    """0 * NaN is NaN: the term isn't dropped."""
    inputs = {n: np.ones((2, 2), np.float32) for n in "abc"}
    inputs["c"][0, 0] = NAN
    source = model([helper.make_node("Gemm", list("abc"), ["y"], beta=0.0)], [value(n, [2, 2]) for n in "abc"],
                   [value("y", None)])
    np.testing.assert_array_equal(interpret(source, inputs)["y"], [[NAN, 2], [2, 2]])


STATISTICS = {"s": np.array([1.5, 0.0, -2.0], np.float32), "b": np.array([0.5, 1.0, 0.0], np.float32),
              "m": np.array([0.1, -1.0, 2.0], np.float32), "v": np.array([0.25, 4.0, 1e-3], np.float32)}


def batch_norm(opset, outputs, **attributes):
    constants = [tensor(n, a) for n, a in STATISTICS.items()]
    node = helper.make_node("BatchNormalization", ["x", *STATISTICS], outputs, epsilon=0.01, **attributes)
    return model([node], [value("x", [2, 3, 4, 5])], [value(o, None) for o in outputs if o], constants, opset=opset)


@pytest.mark.parametrize("opset", [7, 9, 14, 15])
def test_batch_norm_of_inference(opset, run_import, interpret):
    source = batch_norm(opset, ["y"])
    assert run_import(source).ops()[-1] == "batch_norm"
    x = floats(2, 3, 4, 5)
    s, b, m, v = (a.astype(np.float64).reshape(1, 3, 1, 1) for a in STATISTICS.values())
    expected = (x - m) / np.sqrt(v + np.float32(0.01)) * s + b
    np.testing.assert_allclose(interpret(source, {"x": x})["y"], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("opset, outputs", [(7, ["y", "rm", "rv", "sm", "sv"]), (9, ["y", "rm", "rv", "sm", "sv"]),
                                            (14, ["y", "rm", "rv"]), (15, ["y", "rm", "rv"])])
def test_batch_norm_of_training_uses_the_batch(opset, outputs, run_import, interpret):
    """running = running * momentum + batch * (1 - momentum), the variance biased; never the op that is folded."""
    attributes = {"training_mode": 1} if opset >= 14 else {}
    source = batch_norm(opset, outputs, momentum=0.9, **attributes)
    ops = run_import(source).ops()
    assert "batch_norm_training" in ops and "batch_norm" not in ops
    x = floats(2, 3, 4, 5) + 3
    mean, variance = x.astype(np.float64).mean((0, 2, 3)), x.astype(np.float64).var((0, 2, 3))
    shape = (1, 3, 1, 1)
    normal = (x - mean.reshape(shape)) / np.sqrt(variance.reshape(shape) + np.float32(0.01))
    got = interpret(source, {"x": x})
    expected = normal * STATISTICS["s"].reshape(shape) + STATISTICS["b"].reshape(shape)
    np.testing.assert_allclose(got["y"], expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(got["rm"], STATISTICS["m"] * 0.9 + mean * 0.1, rtol=1e-5)
    np.testing.assert_allclose(got["rv"], STATISTICS["v"] * 0.9 + variance * 0.1, rtol=1e-5)


def test_batch_norm_of_training_in_opset_15_needs_the_attribute(run_import):
    assert run_import(batch_norm(15, ["y"])).ops()[-1] == "batch_norm"
    assert "batch_norm_training" in run_import(batch_norm(15, ["y"], training_mode=1)).ops()


def test_statistics_wider_than_the_input_stay_wide(run_import):
    constants = [tensor(n, a) for n, a in STATISTICS.items()]
    node = helper.make_node("BatchNormalization", ["x", *STATISTICS], ["y"])
    source = model([node], [value("x", [2, 3, 4], TensorProto.FLOAT16)], [value("y", None, TensorProto.FLOAT16)], constants,
                   opset=15)
    assert "axis = 1 : tensor<2x3x4xf16>, tensor<3xf32>" in run_import(source).text


def test_layer_norm_of_a_row_with_a_large_mean(interpret):
    x = np.array([[20000, 20000.5, 19999.5, 20001]], np.float32)
    source = model([helper.make_node("LayerNormalization", ["x", "s", "b"], ["y"])], [value("x", [1, 4])],
                   [value("y", None)], [tensor("s", np.ones(4, np.float32)), tensor("b", np.zeros(4, np.float32))])
    expected = (x.astype(np.float64) - 20000.25) / np.sqrt(0.3125 + 1e-5)
    np.testing.assert_allclose(interpret(source, {"x": x})["y"], expected, rtol=1e-5)


def test_layer_norm_whose_scale_only_broadcasts_is_not_the_op(run_import, interpret):
    x, scale = floats(3, 4), floats(3, 1)
    source = model([helper.make_node("LayerNormalization", ["x", "s"], ["y"])], [value("x", [3, 4])], [value("y", None)],
                   [tensor("s", scale)])
    assert "fusion.layer_norm %x epsilon" in run_import(source).text
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5) * scale
    np.testing.assert_allclose(interpret(source, {"x": x})["y"], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("include", [0, 1])
def test_ceil_mode_counts_only_what_is_there(op, include, interpret):
    if op == "MaxPool" and include:
        pytest.skip("MaxPool counts nothing")
    x = np.arange(7, dtype=np.float32).reshape(1, 1, 7) + 1
    attributes = {"count_include_pad": include} if op == "AveragePool" else {}
    source = model([helper.make_node(op, ["x"], ["y"], kernel_shape=[3], strides=[3], pads=[1, 1], ceil_mode=1, **attributes)],
                   [value("x", [1, 1, 7])], [value("y", None)])
    padded = [[0, 1, 2], [3, 4, 5], [6, 7, 0]]
    if op == "MaxPool":
        expected = [2, 5, 7]
    else:
        expected = [sum(w) / (3 if include else sum(e > 0 for e in w)) for w in padded]
    np.testing.assert_allclose(interpret(source, {"x": x})["y"].reshape(-1), expected, rtol=1e-6)


@pytest.mark.parametrize("start, end, step", [(None, None, -1), (5, 0, -2), (-2, -100, -1), (1, 100, 3), (4, 2, 1), (2, 4, -1)])
def test_slices_with_any_step(start, end, step, interpret):
    x = np.arange(7, dtype=np.float32)
    first = 2**31 if start is None else start
    last = -(2**31) if end is None else end
    constants = [tensor(n, np.array([v])) for n, v in (("b", first), ("e", last), ("a", 0), ("t", step))]
    source = model([helper.make_node("Slice", ["x", "b", "e", "a", "t"], ["y"])], [value("x", [7])], [value("y", None)], constants)
    expected = x[slice(first, None if last < -7 else last, step)]
    assert interpret(source, {"x": x})["y"].tolist() == expected.tolist()


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
@pytest.mark.parametrize("pads", [[2, 1], [0, 3], [-1, 2], [-2, -1], [7, 6]])
def test_pads_of_every_mode(mode, pads, interpret):
    x = np.arange(4, dtype=np.float32) + 1
    source = model([helper.make_node("Pad", ["x", "p"], ["y"], mode=mode)], [value("x", [4])], [value("y", None)],
                   [tensor("p", np.array(pads))], opset=19)
    low, high = pads
    expected = np.pad(x, [(max(low, 0), max(high, 0))], mode=mode)
    expected = expected[max(-low, 0) : len(expected) - max(-high, 0)]
    assert interpret(source, {"x": x})["y"].tolist() == expected.tolist()


@pytest.mark.parametrize("exponent", [0, 1, 2, 5, 63, 64, -1, -2])
def test_integer_powers_are_exact(exponent, interpret):
    x = np.array([0, 1, -1, 3, -3, 3037000499], np.int64)
    source = model([helper.make_node("Pow", ["x", "e"], ["y"])], [value("x", [6], 7)], [value("y", None, 7)],
                   [tensor("e", np.int64(exponent))])
    got = interpret(source, {"x": x})["y"].tolist()
    for base, power in zip(x.tolist(), got):
        if exponent < 0 and base == 0:
            continue
        exact = base**exponent if exponent >= 0 else (base ** (exponent % 2) if abs(base) == 1 else 0)
        if -(2**63) <= exact < 2**63:
            assert power == exact


@pytest.mark.parametrize("indices", [[0, -1, 3], [-4]])
def test_negative_indices_count_from_the_end(indices, interpret):
    x = floats(4, 3)
    for known in (True, False):
        array = np.array(indices)
        source = model([helper.make_node("Gather", ["x", "i"], ["y"])],
                       [value("x", [4, 3])] + ([] if known else [value("i", array.shape, 7)]), [value("y", None)],
                       [tensor("i", array)] if known else [])
        inputs = {"x": x} if known else {"x": x, "i": array}
        np.testing.assert_array_equal(interpret(source, inputs)["y"], x[array])


def test_an_index_outside_of_the_dimension_is_an_error(run_import):
    source = model([helper.make_node("Gather", ["x", "i"], ["y"])], [value("x", [4, 3])], [value("y", None)],
                   [tensor("i", np.array([4]))])
    imported = run_import(source)
    assert imported.code == 3 and "an index is outside of [-4, 3]" in imported.error


def test_empty_tensors(interpret):
    for axes, expected in (([0], [0, 0, 0]), ([1], [])):
        source = model([helper.make_node("ReduceSum", ["x", "a"], ["y"], keepdims=0)], [value("x", [0, 3])],
                       [value("y", None)], [tensor("a", np.array(axes))])
        assert interpret(source, {"x": np.zeros((0, 3), np.float32)})["y"].tolist() == expected

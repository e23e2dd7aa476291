"""A batch known at run time: shape computations become static or affine in B."""

import numpy as np
import pytest
from conftest import model, tensor, value
from onnx import TensorProto, helper

from fusion_compiler.ir.affine import Affine, NotAffine, product

B = Affine(1, 0, 1, 8)


def ints(name, *numbers):
    return tensor(name, np.array(numbers, dtype=np.int64))


def test_affine_arithmetic_is_exact():
    assert repr(2 * B + 3) == "2*B+3" and (B - B) == 0 and (B + 1) - 1 == B
    assert (4 * B + 2) // 2 == 2 * B + 1 and (6 * B + 5) // 3 == 2 * B + 1 and (4 * B + 3) % 4 == 3
    assert (6 * B) // (2 * B) == 3 and product([0, B, B]) == 0 and product([2, B, 3]) == 6 * B
    assert B < 9 and B >= 1 and not B > 8 and (B + 1 > B)


@pytest.mark.parametrize("operation", [
    lambda: B * B, lambda: B // 2, lambda: B % 2, lambda: 8 // B, lambda: B < 4, lambda: B > 1, lambda: B * 0.5,
    lambda: product([B, B]),
])
def test_what_is_not_affine_raises(operation):
    with pytest.raises(NotAffine):
        operation()


def attention_like():
    """[B, 6, 8] -> heads -> back, its shapes computed as exporters write them."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["n"]),
        helper.make_node("Gather", ["shape", "one"], ["s"]),
        helper.make_node("Unsqueeze", ["n", "axis0"], ["n1"]),
        helper.make_node("Unsqueeze", ["s", "axis0"], ["s1"]),
        helper.make_node("Concat", ["n1", "s1", "heads"], ["split"], axis=0),
        helper.make_node("Reshape", ["x", "split"], ["h"]),
        helper.make_node("Transpose", ["h"], ["q"], perm=[0, 2, 1, 3]),
        helper.make_node("Transpose", ["h"], ["k"], perm=[0, 2, 3, 1]),
        helper.make_node("MatMul", ["q", "k"], ["score"]),
        helper.make_node("Softmax", ["score"], ["p"]),
        helper.make_node("MatMul", ["p", "q"], ["o"]),
        helper.make_node("Transpose", ["o"], ["back"], perm=[0, 2, 1, 3]),
        helper.make_node("Mul", ["n", "s"], ["rows"]),
        helper.make_node("Unsqueeze", ["rows", "axis0"], ["rows1"]),
        helper.make_node("Concat", ["rows1", "minus"], ["flat"], axis=0),
        helper.make_node("Reshape", ["back", "flat"], ["y"]),
    ]
    constants = [tensor("zero", np.int64(0)), tensor("one", np.int64(1)), ints("axis0", 0), ints("heads", 2, 4),
                 ints("minus", -1)]
    return model(nodes, [value("x", ["N", 6, 8])], [value("y", None)], constants)


def test_reshapes_of_computed_shapes(run_import):
    text = run_import(attention_like(), "--dynamic-batch=1..8").text
    assert "attributes {fusion.batch = array<i64: 1, 8>}" in text
    assert "fusion.reshape %x : tensor<?x6x8xf32> to tensor<?x6x2x4xf32>" in text
    assert "tensor<?x6x2x4xf32> to tensor<?x8xf32>" in text
    assert "get_parameter" not in text and "constant" not in text
    assert "fusion.reshape %x : tensor<3x6x8xf32> to tensor<3x6x2x4xf32>" in run_import(attention_like(), "--batch", "3").text


def test_old_exporters_compute_shapes_in_other_types(run_import):
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Cast", ["s"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Slice", ["f", "b", "e"], ["n"]),
        helper.make_node("Mul", ["n", "two"], ["m"]),
        helper.make_node("Cast", ["m"], ["i"], to=TensorProto.INT32),
        helper.make_node("Cast", ["i"], ["l"], to=TensorProto.INT64),
        helper.make_node("Concat", ["l", "rest"], ["t"], axis=0),
        helper.make_node("Reshape", ["x", "t"], ["y"]),
    ]
    constants = [ints("b", 0), ints("e", 1), tensor("two", np.array([2], np.float32)), ints("rest", -1)]
    text = run_import(model(nodes, [value("x", ["N", 6])], [value("y", None)], constants), "--dynamic-batch=1..4").text
    assert "fusion.reshape %x : tensor<?x6xf32> to tensor<?x3xf32>" in text


def test_new_batch_dimensions_carry_their_scale(run_import):
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], end=1),
        helper.make_node("Mul", ["s", "three"], ["m"]),
        helper.make_node("ConstantOfShape", ["m"], ["zeros"]),
        helper.make_node("Squeeze", ["m"], ["limit"]),
        helper.make_node("Range", ["zero", "limit", "one"], ["r"]),
        helper.make_node("Cast", ["r"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["zeros", "f"], ["y"]),
    ]
    constants = [ints("three", 3), tensor("zero", np.int64(0)), tensor("one", np.int64(1))]
    text = run_import(model(nodes, [value("x", ["N", 2])], [value("y", None)], constants), "--dynamic-batch=1..4").text
    assert "dims = [] {batch_scale = 3 : i64} : tensor<f32> to tensor<?xf32>" in text
    assert "fusion.iota axis = 0 {batch_scale = 3 : i64} : tensor<?xi64>" in text


def test_expand_and_concat_of_the_batch(run_import):
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], end=1),
        helper.make_node("Concat", ["s", "rest"], ["t"], axis=0),
        helper.make_node("Expand", ["token", "t"], ["e"]),
        helper.make_node("Concat", ["e", "x"], ["y"], axis=1),
        helper.make_node("Concat", ["x", "x"], ["z"], axis=0),
        helper.make_node("Concat", ["z", "token"], ["w"], axis=0),
    ]
    token = tensor("token", np.arange(4, dtype=np.float32).reshape(1, 1, 4))
    source = model(nodes, [value("x", ["N", 1, 4])], [value("y", None), value("w", None)], [token, ints("rest", 1, 4)])
    text = run_import(source, "--dynamic-batch=1..4").text
    assert "dims = [0, 1, 2] : tensor<1x1x4xf32> to tensor<?x1x4xf32>" in text
    assert "axis = 1 : tensor<?x1x4xf32>, tensor<?x1x4xf32>" in text
    assert "tensor<?x1x4xf32> {fusion.name = \"w\"}" in text


def test_slices_that_take_the_batch_whole(run_import):
    def sliced(start, end):
        constants = [ints("b", start, 1), ints("e", end, 3), ints("a", 0, 1)]
        nodes = [helper.make_node("Slice", ["x", "b", "e", "a"], ["y"], name="cut")]
        return model(nodes, [value("x", ["N", 4])], [value("y", None)], constants)

    text = run_import(sliced(0, 2**63 - 1), "--dynamic-batch=1..4").text
    assert "fusion.slice %x starts = [0, 1] limits = [-1, 3] strides = [1, 1] : tensor<?x4xf32>" in text
    refused = run_import(sliced(0, 2), "--dynamic-batch=1..4")
    assert refused.code == 3 and "node 'cut'" in refused.error and "of dimension 0, the batch B" in refused.error


def test_sizes_become_data(run_import):
    """A size that is computed with, not only a shape, is counted at run time."""
    nodes = [helper.make_node("Size", ["x"], ["n"]), helper.make_node("Cast", ["n"], ["f"], to=TensorProto.FLOAT),
             helper.make_node("ReduceSum", ["x"], ["t"], keepdims=0), helper.make_node("Div", ["t", "f"], ["y"])]
    imported = run_import(model(nodes, [value("x", ["N", 6])], [value("y", None)]), "--dynamic-batch=1..4")
    assert imported.code == 0 and imported.ops().count("iota") == 0 and "tensor<1x?xf32>" in imported.text


@pytest.mark.parametrize("nodes, message", [
    ([helper.make_node("Reshape", ["x", "seven"], ["y"], name="r")],
     "the shape [7, -1] of tensor<Bx6xf32> isn't affine in the batch: (6*B) / 7"),
    ([helper.make_node("MatMul", ["x", "t"], ["m"]), helper.make_node("Flatten", ["m"], ["y"], name="r", axis=0)],
     "a size isn't affine in the batch: (B) * (B)"),
])
def test_what_is_not_affine_names_the_node(nodes, message, run_import):
    nodes = [helper.make_node("Transpose", ["x"], ["t"])] + nodes
    source = model(nodes, [value("x", ["N", 6])], [value("y", None)], [ints("seven", 7, -1)])
    imported = run_import(source, "--dynamic-batch=1..4")
    assert imported.code == 3 and "node 'r'" in imported.error and message in imported.error


@pytest.mark.parametrize("batch", [1, 3, 8])
def test_values_are_right_for_every_batch(batch, interpret):
    x = np.random.default_rng(batch).standard_normal((batch, 6, 8)).astype(np.float32)
    heads = x.reshape(batch, 6, 2, 4).transpose(0, 2, 1, 3).astype(np.float64)
    score = heads @ heads.transpose(0, 1, 3, 2)
    p = np.exp(score - score.max(-1, keepdims=True))
    expected = ((p / p.sum(-1, keepdims=True)) @ heads).transpose(0, 2, 1, 3).reshape(-1, 8)
    got = interpret(attention_like(), {"x": x}, "--dynamic-batch=1..8")["y"]
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)

"""What isn't supported is listed, all of it at once, with node, op, domain and opset."""

import numpy as np
from conftest import model, tensor, value
from onnx import TensorProto, helper


def test_all_unsupported_nodes_are_listed(run_import):
    nodes = [
        helper.make_node("NonZero", ["x"], ["a"], name="first"),
        helper.make_node("Relu", ["x"], ["r"], name="fine"),
        helper.make_node("Frobnicate", ["r"], ["b"], name="second", domain="com.example"),
        helper.make_node("Neg", ["b"], ["y"], name="after"),
        helper.make_node("Unique", ["x"], ["c"], name="third"),
    ]
    source = model(nodes, [value("x", [2, 3])], [value("y", None)], domains=[("com.example", 3)])
    imported = run_import(source)
    assert imported.code == 3 and not imported.output.exists()
    assert "3 things aren't supported" in imported.error
    assert "node 'first' (op 'NonZero', domain 'ai.onnx', opset 17): no such op in this importer" in imported.error
    assert "node 'second' (op 'Frobnicate', domain 'com.example', opset 3): no such op" in imported.error
    assert "node 'third' (op 'Unique', domain 'ai.onnx', opset 17)" in imported.error
    assert "'fine'" not in imported.error and "'after'" not in imported.error


def test_a_node_without_a_name_is_named_by_its_output(run_import):
    source = model([helper.make_node("NonZero", ["x"], ["where"])], [value("x", [2])], [value("where", None, 7)])
    assert "node 'where' (op 'NonZero'" in run_import(source).error


def test_element_types_are_refused_by_name(run_import):
    source = model([helper.make_node("Add", ["x", "w"], ["y"])], [value("x", [1], TensorProto.UINT8)],
                   [value("y", None, TensorProto.UINT8)], [tensor("w", np.zeros(1, np.int16))])
    error = run_import(source).error
    assert "input 'x' has element type uint8" in error and "tensor 'w' has element type int16" in error
    source = model([helper.make_node("Cast", ["x"], ["y"], to=TensorProto.STRING)], [value("x", [1])], [value("y", None, 8)])
    assert "a cast to element type string" in run_import(source).error


def test_sequences_and_loops_are_refused_by_name(run_import):
    body = helper.make_graph([helper.make_node("Identity", ["c"], ["d"])], "body",
                             [value("i", [], 7), value("c", [], 9)], [value("d", [], 9)])
    nodes = [helper.make_node("Loop", ["n", "t"], [], body=body, name="again"),
             helper.make_node("SequenceConstruct", ["x"], ["s"], name="pack"),
             helper.make_node("Relu", ["x"], ["y"])]
    nodes[0].output.append("")
    source = model(nodes, [value("x", [1]), value("n", [], 7), value("t", [], 9)], [value("y", None)])
    error = run_import(source).error
    assert "node 'again' (op 'Loop', domain 'ai.onnx', opset 17): loops aren't supported" in error
    assert "node 'pack' (op 'SequenceConstruct'" in error


def test_a_shape_that_depends_on_data_names_the_node(run_import):
    nodes = [helper.make_node("Cast", ["x"], ["s"], to=7), helper.make_node("Expand", ["x", "s"], ["y"], name="grow")]
    error = run_import(model(nodes, [value("x", [1])], [value("y", None)])).error
    assert "node 'grow' (op 'Expand', domain 'ai.onnx', opset 17): the shape, input 's', depends on data" in error


def test_an_attribute_value_that_is_not_supported(run_import):
    nodes = [helper.make_node("ScatterND", ["x", "i", "u"], ["y"], reduction="mul", name="times")]
    source = model(nodes, [value("x", [4]), value("i", [1, 1], 7), value("u", [1])], [value("y", None)], opset=16)
    assert "node 'times' (op 'ScatterND', domain 'ai.onnx', opset 16): attribute 'reduction' is 'mul'" in run_import(
        source).error


def test_an_op_that_changed_before_opset_7(run_import):
    source = model([helper.make_node("Add", ["x", "w"], ["y"], axis=0, broadcast=1)], [value("x", [2, 3]), value("w", [2])],
                   [value("y", None)], opset=6)
    assert "the op changed before opset 7; convert the model" in run_import(source).error
    assert run_import(model([helper.make_node("Sigmoid", ["x"], ["y"])], [value("x", [2])], [value("y", None)],
                            opset=6)).code == 0


def test_batch_norm_with_statistics_for_each_element(run_import):
    names = ["s", "b", "m", "v"]
    nodes = [helper.make_node("BatchNormalization", ["x", *names], ["y"], spatial=0)]
    source = model(nodes, [value("x", [1, 2, 3])] + [value(n, [2, 3]) for n in names], [value("y", None)], opset=7)
    assert "attribute 'spatial' is 0" in run_import(source).error

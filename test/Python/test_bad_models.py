"""Files that aren't sound models: exit 3 with the reason, never a traceback (T10)."""

import numpy as np
import onnx
import pytest
from conftest import model, tensor, unary, value
from onnx import TensorProto, helper


def refused(run_import, source, message: str, code: int = 3):
    imported = run_import(source)
    assert imported.code == code, imported.error
    assert message in imported.error
    assert not imported.output.exists()


@pytest.mark.parametrize("content", [b"", b"hello, world\n", b"\x89PNG\r\n\x1a\n" + bytes(100), bytes(64), b"\xff" * 64])
def test_a_file_that_is_no_model(content, run_import, tmp_path):
    path = tmp_path / "x.onnx"
    path.write_bytes(content)
    refused(run_import, path, "x.onnx: not an ONNX model")


def test_a_model_cut_at_every_byte(run_import, tmp_path):
    """Nothing but the whole file is a model: each prefix is an error, or lacks only optional fields at its end."""
    weights = tensor("w", np.arange(12, dtype=np.float32).reshape(3, 4))
    source = model([helper.make_node("MatMul", ["x", "w"], ["y"])], [value("x", [2, 3])], [value("y", [2, 4])], [weights])
    content = source.SerializeToString()
    path = tmp_path / "cut.onnx"
    whole = run_import(source).text
    for size in range(len(content)):
        path.write_bytes(content[:size])
        imported = run_import(path)
        assert imported.code == 3, f"the first {size} of {len(content)} bytes"
    assert run_import(source).text == whole


def test_raw_data_of_another_size(run_import):
    weights = tensor("w", np.zeros((3, 4), np.float32))
    weights.raw_data = weights.raw_data[:-1]
    source = model([helper.make_node("MatMul", ["x", "w"], ["y"])], [value("x", [2, 3])], [value("y", None)], [weights])
    refused(run_import, source, "tensor 'w' has 47 bytes of raw_data, its shape [3, 4] needs 48")


def test_typed_data_of_another_size_or_field(run_import):
    weights = helper.make_tensor("w", TensorProto.FLOAT, [2], [1.0, 2.0])
    weights.dims[0] = 3
    source = model([helper.make_node("Add", ["x", "w"], ["y"])], [value("x", [3])], [value("y", None)], [weights])
    refused(run_import, source, "tensor 'w' has 2 elements in float_data, its shape [3] needs 3")
    source.graph.initializer[0].dims[0] = 2
    source.graph.initializer[0].int64_data.append(4)
    refused(run_import, source, "tensor 'w' is f32 but has its data in int64_data")


@pytest.mark.parametrize("dims, message", [
    ([-1], "has the negative dimension -1"),
    ([1] * 17, "has rank 17, more than 16"),
    ([1 << 40, 1 << 40, 1 << 40], "elements, more than"),
    ([17592186044800, 17592186044800], "elements, more than"),
])
def test_dimensions_of_a_tensor(dims, message, run_import):
    weights = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=dims, raw_data=b"1234")
    source = model([helper.make_node("Add", ["x", "w"], ["y"])], [value("x", [1])], [value("y", None)], [weights])
    refused(run_import, source, f"tensor 'w' {message}" if message[0] == "h" else message)


@pytest.mark.parametrize("op, operands", [
    ("ConstantOfShape", [[1 << 44, 1 << 20]]),
    ("Expand", [None, [1 << 50, 2]]),
    ("Tile", [None, [1 << 60]]),
])
def test_a_result_that_no_memory_holds(op, operands, run_import):
    """The size overflows where it is computed, not where somebody allocates it."""
    names = ["x" if operand is None else f"s{i}" for i, operand in enumerate(operands)]
    sizes = [tensor(name, np.array(operand, np.int64)) for name, operand in zip(names, operands) if operand]
    source = model([helper.make_node(op, names, ["y"])], [value("x", [2])], [value("y", None)], sizes)
    refused(run_import, source, "output 'y' would have more than 2^48 elements")


def test_a_bool_that_is_neither_0_nor_1(run_import):
    weights = TensorProto(name="w", data_type=TensorProto.BOOL, dims=[2], raw_data=b"\x01\x07")
    source = model([helper.make_node("And", ["x", "w"], ["y"])], [value("x", [2], TensorProto.BOOL)],
                   [value("y", None, TensorProto.BOOL)], [weights])
    refused(run_import, source, "tensor 'w' is bool but has a byte that is neither 0 nor 1")


def test_names_defined_twice(run_import):
    relu = helper.make_node("Relu", ["x"], ["y"])
    refused(run_import, model([relu, relu], [value("x", [1])], [value("y", None)]), "defines 'y', which is already defined")
    refused(run_import, model([relu], [value("x", [1]), value("x", [1])], [value("y", None)]),
            "graph input 'x' is defined twice")
    w = tensor("w", np.zeros(1, np.float32))
    refused(run_import, model([relu], [value("x", [1])], [value("y", None)], [w, w]), "initializer 'w' is defined twice")


def test_names_used_before_they_are_defined(run_import):
    nodes = [helper.make_node("Relu", ["t"], ["y"], name="late"), helper.make_node("Neg", ["x"], ["t"])]
    refused(run_import, model(nodes, [value("x", [1])], [value("y", None)]),
            "node 'late' (Relu) reads 't', which nothing before it defines")
    refused(run_import, model([], [value("x", [1])], [value("y", None)]), "graph output 'y' is defined nowhere")


def test_functions_that_call_themselves(run_import):
    def function(name, calls):
        return helper.make_function("local", name, ["a"], ["b"], [helper.make_node(calls, ["a"], ["b"], domain="local")],
                                    [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)])

    node = helper.make_node("f", ["x"], ["y"], domain="local")
    source = model([node], [value("x", [1])], [value("y", None)], functions=[function("f", "g"), function("g", "f")],
                   domains=[("local", 1)])
    refused(run_import, source, "of domain 'local' calls itself, directly or through others")
    chain = [function(f"f{i}", f"f{i + 1}") for i in range(70)]
    chain.append(helper.make_function("local", "f70", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])],
                                      [helper.make_opsetid("", 17)]))
    node = helper.make_node("f0", ["x"], ["y"], domain="local")
    source = model([node], [value("x", [1])], [value("y", None)], functions=chain, domains=[("local", 1)])
    refused(run_import, source, "functions call each other deeper than 64")


def test_an_opset_that_is_too_new_or_missing(run_import):
    newest = onnx.defs.onnx_opset_version()
    refused(run_import, unary("Relu", opset=newest + 1), f"uses opset {newest + 1}; the installed onnx package knows")
    source = unary("Relu")
    del source.opset_import[:]
    refused(run_import, source, "the model imports no operator set")


def test_attributes_of_another_type_or_unknown(run_import):
    source = unary("LeakyRelu", alpha=1)
    refused(run_import, source, "attribute 'alpha' isn't of type float")
    refused(run_import, unary("Relu", beta=1.0), "attribute 'beta' isn't one that the op has")
    source = model([helper.make_node("Concat", ["x", "x"], ["y"])], [value("x", [1])], [value("y", None)])
    refused(run_import, source, "attribute 'axis' is missing")


def test_inputs_of_another_type_or_number(run_import):
    source = model([helper.make_node("Add", ["x", "i"], ["y"], name="sum")],
                   [value("x", [1]), value("i", [1], TensorProto.INT64)], [value("y", None)])
    refused(run_import, source, "node 'sum' (op 'Add', domain 'ai.onnx', opset 17): input 1 (B) has element type i64")
    source = model([helper.make_node("Add", ["x"], ["y"])], [value("x", [1])], [value("y", None)])
    refused(run_import, source, "it has 1 inputs, the op takes 2 to 2")


def test_shapes_that_do_not_fit(run_import):
    source = model([helper.make_node("Add", ["x", "z"], ["y"], name="sum")], [value("x", [2, 3]), value("z", [4])],
                   [value("y", None)])
    refused(run_import, source, "node 'sum' (op 'Add', domain 'ai.onnx', opset 17): shapes [2, 3] and [4] can't be broadcast")


def test_text_that_is_not_utf8(run_import):
    source = unary("Relu").SerializeToString().replace(b"the_node", b"the\xffnode")
    import pathlib, tempfile  # noqa: E401

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "m.onnx"
        path.write_bytes(source)
        refused(run_import, path, "isn't valid text")


def test_control_characters_in_names_are_escaped(run_import):
    source = model([helper.make_node("Nope", ["x"], ["y"], name="a\x1b[31m\nb")], [value("x", [1])], [value("y", None)])
    imported = run_import(source)
    assert imported.code == 3
    assert "\x1b" not in imported.error and r"'a\x1b[31m\nb'" in imported.error


def test_a_declared_output_type_that_is_wrong(run_import):
    source = model([helper.make_node("Relu", ["x"], ["y"])], [value("x", [1])], [value("y", [1], TensorProto.INT64)])
    refused(run_import, source, "graph output 'y' is declared int64, its value is f32")

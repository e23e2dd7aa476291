"""The printed module: exact numbers, names, locations, weights."""

import hashlib
import re
import struct

import numpy as np
import pytest
from conftest import BIN, model, tensor, tool, unary, value
from onnx import AttributeProto, TensorProto, helper

from fusion_compiler.ir.module import Module, Parameter, Value, bits16_to_float, float_to_bits16
from fusion_compiler.ir.text import dense, float_attr, string, symbol
from fusion_compiler.weights import write_safetensors


@pytest.mark.parametrize("number, text", [
    (1.0, "1.0"), (-0.0, "-0.0"), (0.1, "0.1"), (1e-5, "1.0e-05"), (1e30, "1.0e+30"),
    (float(np.float32(1e-5)), "9.999999747378752e-06"), (float("inf"), "0x7FF0000000000000"),
    (float("nan"), "0x7FF8000000000000"),
])
def test_float_attributes_are_exact_and_have_a_point(number, text):
    assert float_attr(number) == text


@pytest.mark.parametrize("array, dtype, text", [
    (np.float32(0.1), "f32", "dense<0.1>"),
    (np.float32(np.nan), "f32", "dense<0x7FC00000>"),
    (np.float32(-np.inf), "f32", "dense<0xFF800000>"),
    (np.array([1, 1], "f4"), "f32", "dense<1.0>"),
    (np.array([[1, 2], [3, 4]], "i8"), "i64", "dense<[[1, 2], [3, 4]]>"),
    (np.array([True, False]), "i1", "dense<[true, false]>"),
    (np.array([0.0, -0.0], "f8"), "f64", "dense<[0.0, -0.0]>"),
    (np.array(0x3F80, "u2"), "bf16", "dense<0x3F80>"),
    (np.array(1.5, "f2"), "f16", "dense<1.5>"),
    (np.array(65504, "f2"), "f16", "dense<0x7BFF>"),
    (np.zeros((0, 3), "f4"), "f32", "dense<>"),
])
def test_dense_attributes(array, dtype, text):
    assert dense(np.asarray(array), dtype) == text


def test_every_printed_f32_reads_back():
    """As MLIR reads it: a decimal first as f64, then rounded."""
    bits = np.random.default_rng(0).integers(0, 1 << 32, 20000, dtype=np.uint32)
    texts = re.sub(r"dense<\[|\]>", "", dense(bits.view("f4"), "f32")).split(", ")
    for pattern, text in zip(bits, texts):
        if text.startswith("0x"):
            assert int(text, 16) == pattern
        else:
            assert struct.pack("<f", float(text)) == struct.pack("<I", pattern)


def test_bf16_rounds_to_nearest_even():
    values = np.array([1.0, 1.00390625, 1.01171875, np.inf, -np.inf, 3.4e38], "f4")
    assert bits16_to_float(float_to_bits16(values)).tolist() == [1.0, 1.0, 1.015625, np.inf, -np.inf, np.inf]
    assert np.isnan(bits16_to_float(float_to_bits16(np.array([np.nan], "f4"))))[0]


def test_strings_and_symbols_are_escaped():
    assert string('a"b\\c\n\u00e9') == '"a\\22b\\5Cc\\0A\\C3\\A9"'
    assert symbol("conv1.w") == "@conv1.w" and symbol("a b") == '@"a b"'


def test_weights_are_the_bytes_of_the_safetensors_package(tmp_path):
    from safetensors.numpy import save

    rng = np.random.default_rng(0)
    arrays = {"b.w": rng.random((3, 4)).astype("f4"), 'a"q': rng.random(5), "\u00e9": np.arange(7), "t": rng.random(3) > 0.5,
              "h": rng.random(3).astype("f2"), "i": np.arange(3, dtype="i1"), "k": np.arange(3, dtype="i4"),
              "empty": np.zeros((0, 2), "f4")}
    names = {"f4": "f32", "f8": "f64", "i8": "i64", "b1": "i1", "f2": "f16", "i1": "i8", "i4": "i32"}
    path = tmp_path / "w.safetensors"
    with open(path, "wb") as file:
        write_safetensors(file, [Parameter("s", k, names[a.dtype.str[1:]], a.shape, a) for k, a in arrays.items()])
    assert path.read_bytes() == save(arrays)


def test_large_constants_are_parameters_with_a_hash(run_import):
    weights = np.random.default_rng(0).random((16, 5)).astype("f4")
    source = model([helper.make_node("MatMul", ["x", "layer/w:0"], ["y"], name="mm")], [value("x", [2, 16])],
                   [value("y", None)], [tensor("layer/w:0", weights)])
    text = run_import(source).text
    assert (f'fusion.parameter @layer_w_0 const "out.safetensors" key "layer/w:0" '
            f'sha256 "{hashlib.sha256(weights.tobytes()).hexdigest()}" : tensor<16x5xf32>') in text
    assert '%0 = fusion.get_parameter @layer_w_0 : tensor<16x5xf32> loc("layer/w:0")' in text
    assert '%1 = fusion.matmul %x, %0 : tensor<2x16xf32>, tensor<16x5xf32> loc("mm")' in text


def test_names_that_become_one_symbol_stay_apart(run_import):
    arrays = [tensor(n, np.full(100, i, "f4")) for i, n in enumerate(("a/b", "a:b", "main"))]
    nodes = [helper.make_node("Sum", ["x", "a/b", "a:b", "main"], ["y"])]
    text = run_import(model(nodes, [value("x", [100])], [value("y", None)], arrays)).text
    assert re.findall(r"fusion.parameter (@\S+)", text) == ["@a_b", "@a_b_1", "@main_1"]


def test_constant_nodes_are_as_good_as_initializers(run_import):
    array = np.random.default_rng(0).random((3, 40)).astype("f4")
    node = helper.make_node("Constant", [], ["w"], value=tensor("", array))
    use = helper.make_node("MatMul", ["x", "w"], ["y"])
    one = run_import(model([node, use], [value("x", [2, 3])], [value("y", None)])).text
    other = run_import(model([use], [value("x", [2, 3])], [value("y", None)], [tensor("w", array)])).text
    assert one == other


def test_a_splat_is_stored_as_a_scalar(run_import):
    """Neither the shape nor its product matters: 400 GB of ones are one number."""
    shape = tensor("s", np.array([1000, 1000, 100000]))
    nodes = [helper.make_node("ConstantOfShape", ["s"], ["y"], value=tensor("", np.ones(1, "f4")))]
    text = run_import(model(nodes, [], [value("y", None)], [shape])).text
    assert "fusion.constant dense<1.0> : tensor<f32>" in text
    assert "dims = [] : tensor<f32> to tensor<1000x1000x100000xf32>" in text


def test_functions_are_inlined_with_their_attributes(run_import):
    node = helper.make_node("LeakyRelu", ["a"], ["b"])
    node.attribute.add(name="alpha", type=AttributeProto.FLOAT, ref_attr_name="slope")
    function = helper.make_function("local", "leak", ["a"], ["b"], [node], [helper.make_opsetid("", 17)], ["slope"])
    calls = [helper.make_node("leak", ["x"], ["t"], domain="local", slope=0.5, name="one"),
             helper.make_node("leak", ["t"], ["y"], domain="local", slope=0.25, name="two")]
    source = model(calls, [value("x", [2])], [value("y", None)], functions=[function], domains=[("local", 1)])
    text = run_import(source).text
    assert 'fusion.leaky_relu %x alpha = 0.5 : tensor<2xf32> loc("one/b")' in text
    assert 'fusion.leaky_relu %0 alpha = 0.25 : tensor<2xf32> loc("two/b")' in text


def test_an_if_with_a_known_condition_is_its_branch(run_import):
    branches = {
        f"{name}_branch": helper.make_graph([helper.make_node(op, ["x"], ["o"])], name, [], [value("o", [2])])
        for name, op in (("then", "Neg"), ("else", "Exp"))
    }
    for condition, op in ((True, "neg"), (False, "exp")):
        source = model([helper.make_node("If", ["c"], ["y"], **branches)], [value("x", [2])], [value("y", None)],
                       [tensor("c", np.array(condition))])
        assert run_import(source).ops() == [op]
    source = model([helper.make_node("If", ["c"], ["y"], **branches)], [value("x", [2]), value("c", [], TensorProto.BOOL)],
                   [value("y", None)])
    assert "the condition depends on data" in run_import(source).error


def test_a_long_chain_needs_no_deep_stack(run_import):
    nodes = [helper.make_node("Neg", ["x" if i == 0 else f"t{i}"], [f"t{i + 1}"]) for i in range(20000)]
    imported = run_import(model(nodes, [value("x", [4])], [value("t20000", None)]))
    assert imported.code == 0 and imported.text.count("fusion.neg") == 20000


def test_the_verifier_takes_what_is_printed(run_import, tmp_path):
    """Names, locations and attributes of all sorts, through fusion-opt."""
    import subprocess

    program = tool("fusion-opt")
    source = model([helper.make_node("Gelu", ['in "put"'], ["a\\b"], name="odd \u00e9 name", approximate="tanh"),
                    helper.make_node("Clip", ["a\\b", "", "hi"], ["y%1"])],
                   [value('in "put"', [2, 3])], [value("y%1", None)], [tensor("hi", np.float32(np.nan))], opset=20)
    imported = run_import(source)
    done = subprocess.run([program, str(imported.output)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert BIN.exists() and "fusion.gelu" in done.stdout


def test_an_empty_module_prints():
    from fusion_compiler.ir.text import lines

    module = Module()
    assert list(lines(module, "w"))[1] == "  func.func @main() -> () {"
    assert repr(Value("f32", (2,))) == "tensor<2xf32>"
    assert unary("Relu").graph.node[0].op_type == "Relu"


def test_a_constant_that_is_used_and_an_output(run_import):
    nodes = [helper.make_node("Add", ["x", "c"], ["y"])]
    source = model(nodes, [value("x", [2])], [value("y", None), value("c", [2]), value("x", [2])],
                   [tensor("c", np.array([1, 2], "f4"))])
    assert "return %1, %0, %x : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>" in run_import(source).text

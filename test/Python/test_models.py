"""`python -m fusion_compiler models`: what it writes, and what it refuses. Values: test/Integration/cpu."""

import re

import pytest

from fusion_compiler.cli import main
from fusion_compiler.models.presets import MODELS, PRESETS


def write(tmp_path, *words):
    path = tmp_path / "step.mlir"
    assert main(["models", *words, "-o", str(path)]) == 0
    return path.read_text()


def arguments(text):
    """name: attributes as text, of @main's arguments."""
    signature = re.search(r"func\.func @main\((.*)\) -> \((.*)\) \{", text)
    found = re.findall(r'%a\d+: (\S+) \{fusion\.name = "([^"]*)"([^}]*)\}', signature[1])
    return {name: (kind, extra) for kind, name, extra in found}, re.findall(r'fusion\.name = "([^"]*)"', signature[2])


@pytest.mark.parametrize("model", MODELS)
def test_every_argument_has_a_role_and_what_changes_is_donated(tmp_path, model):
    given, results = arguments(write(tmp_path, model))
    roles = {name: re.search(r'fusion\.role = "(\w+)"', extra)[1] for name, (_, extra) in given.items()}
    assert {"data", "parameter", "state", "scalar"} == set(roles.values())
    for name, (_, extra) in given.items():
        donated = re.search(r"fusion\.donated = (\d+) : i64", extra)
        assert (donated is not None) == (roles[name] in ("parameter", "state")), name
        if donated:
            assert results[int(donated[1])] == name
        assert "fusion.sharding" not in extra
    assert {"loss", "grad_norm", "skipped"} <= set(results)


def test_tensor_parallel_shardings_are_megatrons(tmp_path):
    given, _ = arguments(write(tmp_path, "llama", "--tp", "--layers", "1"))
    columns, rows, whole = '[[], ["tp"]]', '[["tp"], []]', "[[], []]"
    for name, sharding in (("query", columns), ("key", columns), ("value", columns), ("out", rows), ("gate", columns),
                           ("up", columns), ("down", rows)):
        for suffix in ("", ".m", ".v"):
            assert f"fusion.sharding = {sharding}" in given[f"layers.0.{name}.weight{suffix}"][1]
    assert f"fusion.sharding = {whole}" in given["embedding.weight"][1]
    assert "fusion.sharding" not in given["tokens"][1]


def test_a_bias_is_sharded_as_its_columns(tmp_path):
    given, _ = arguments(write(tmp_path, "gpt", "--tp", "--layers", "1"))
    assert 'fusion.sharding = [["tp"]]' in given["layers.0.up.bias"][1]
    assert "fusion.sharding = [[]]" in given["layers.0.down.bias"][1]
    assert "layers.0.key.bias" not in given


def test_parameters_of_their_own_type_keep_it_and_are_updated_in_f32(tmp_path):
    text = write(tmp_path, "gpt", "--layers", "1", "--parameter-dtype", "bf16", "--emit-gradients")
    given, results = arguments(text)
    for name, (kind, extra) in given.items():
        if '"parameter"' in extra or '"state"' in extra:
            assert kind.endswith("bf16>"), name
    weight = given["layers.0.up.weight"][0]
    assert "grad.layers.0.up.weight" in results
    # Only the root of a second moment: in f32, and in no narrower type.
    roots = re.findall(r"fusion\.sqrt .* : (\S+)", text)
    assert weight.replace("bf16", "f32") in roots and weight not in roots


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_are_written_without_weights(tmp_path, preset):
    text = write(tmp_path, preset)
    assert "fusion.parameter" not in text
    assert len(text) < 8 << 20
    assert [f.name for f in tmp_path.iterdir()] == ["step.mlir"]


def test_the_same_flags_give_the_same_text(tmp_path):
    words = ("gpt", "--recompute", "--micro-batches", "2", "--dtype", "bf16")
    assert write(tmp_path, *words) == write(tmp_path, *words)


def test_recomputation_is_behind_the_gradient(tmp_path):
    plain, again = (write(tmp_path, "llama", "--layers", "3", *flag) for flag in ((), ("--recompute",)))
    # Three blocks read their input behind a gradient, and compute attention twice.
    assert plain.count("fusion.attention ") == 3 and again.count("fusion.attention ") == 6
    assert "fusion.after" in again


def test_without_clipping_there_is_no_norm(tmp_path):
    text = write(tmp_path, "mlp", "--clip", "0", "--optimizer", "sgd", "--momentum", "0")
    given, results = arguments(text)
    assert "grad_norm" not in results and "f64" not in text.split("loss")[0]
    assert not any('"state"' in extra for _, extra in given.values())


@pytest.mark.parametrize("words, said", [
    (["gpd"], "no model 'gpd', expected one of mlp, convnet"),
    (["mlp", "--heads", "2"], "--heads: mlp has no use for it"),
    (["gpt", "--hidden", "10", "--heads", "4"], "10 is no multiple of --heads 4"),
    (["llama", "--heads", "4", "--kv-heads", "3"], "3 doesn't divide --heads 4"),
    (["llama", "--hidden", "12", "--heads", "4"], "a head has width 3"),
    (["convnet", "--layers", "4", "--image", "24"], "24 is no multiple of 16"),
    (["mlp", "--batch", "8", "--micro-batches", "3"], "3 doesn't divide --batch 8"),
    (["mlp", "--batch", "0"], "--batch"),
    (["convnet", "--layers", "2000000000"], "2000000000 is above 10000"),
    (["mlp", "--beta1", "1"], "--beta1: 1.0 must be below 1"),
    (["mlp", "--loss-scale", "0"], "--loss-scale: 0 leaves no gradient"),
    (["mlp", "--clip", "nan"], "isn't a finite number"),
])
def test_wrong_usage_is_said_and_writes_nothing(tmp_path, capsys, words, said):
    path = tmp_path / "step.mlir"
    assert main(["models", *words, "-o", str(path)]) == 2
    assert said in capsys.readouterr().err
    assert not path.exists()


def test_an_output_without_a_folder_is_refused(tmp_path, capsys):
    assert main(["models", "mlp", "-o", str(tmp_path / "none" / "step.mlir")]) == 2
    assert "its folder doesn't exist" in capsys.readouterr().err

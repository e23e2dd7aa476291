# ===- test_bench_fit.py - The cost model against times ---------------------=== #
#
# Times made up from a device with known figures give those figures back; the model in
# Python is the compiler's; and what is said of a document of times is worked out by hand.
#
# ===----------------------------------------------------------------------=== #
"""Fitting and judging predictions."""

from __future__ import annotations

import json
import random
import subprocess

import numpy as np
import pytest

from conftest import BIN, ROOT
from fusion_compiler.bench import cost_model, fit, seed2
from fusion_compiler.cli import main
from fusion_compiler.errors import FusionError

#: The shipped device, with round figures where these tests compute with them.
BASE = {**json.loads((ROOT / "devices/h200.json").read_text()), "units": 132, "saturating_units": 76,
        "memory_bandwidth": 4.8e12, "cache_bandwidth": 1.2e13, "launch_gap_us": 2.0,
        "vector_flops": {"f64": 34e12, "f32": 67e12}}
BASE = {key: value for key, value in BASE.items() if key not in ("run_us", "kernels")}


def figures(fixed_us, memory_share, arithmetic_share, spread=1.0):
    return {"fixed_us": fixed_us, "memory_share": memory_share, "arithmetic_share": arithmetic_share,
            "reread_share": 1.0, "spread": spread}


TRUE = {**BASE, "run_us": 1.7, "launch_gap_us": 1.1,
        "kernels": {"loop": figures(0.4, 0.8, 0.3), "row_reduce": figures(1.5, 0.6, 0.2, spread=1.5)}}


def kernel(name, memory, cached=0.0, flops=0.0, blocks=None):
    return {"class": name, "memory_bytes": memory, "cached_bytes": cached, "reread_bytes": 0, "spilled_bytes": 0,
            "blocks": blocks or max(1, round(memory / 4096)), "flops": {"vector_flops.f32": flops}}


def made_up(count, seed):
    """Programs of one to six kernels, small and large, some of much arithmetic."""
    rng = random.Random(seed)
    result = []
    for _ in range(count):
        memory = 2 ** rng.uniform(16, 29)
        flops = memory * rng.choice((0.25, 1, 40))
        name = rng.choice(("loop", "row_reduce"))
        result.append([kernel(name, memory, memory / 4 if i else 0, flops) for i in range(rng.randint(1, 6))])
    return result


def test_the_fit_finds_what_times_were_made_of():
    programs = made_up(120, 1)
    times = fit.predict(fit.Work.of(programs, BASE), TRUE)
    found = fit.fit(BASE, programs, times)
    # What tells programs apart, whichever way the parts of a launch are shared out.
    for name in ("loop", "row_reduce"):
        for key in ("memory_share", "arithmetic_share"):
            assert found["kernels"][name][key] == pytest.approx(TRUE["kernels"][name][key], rel=0.05)
        launch = found["launch_gap_us"] + found["kernels"][name]["fixed_us"]
        assert launch == pytest.approx(TRUE["launch_gap_us"] + TRUE["kernels"][name]["fixed_us"], rel=0.05)
    assert found["run_us"] == pytest.approx(1.7, rel=0.1)
    others = fit.Work.of(made_up(80, 2), BASE)
    assert fit.predict(others, found) == pytest.approx(fit.predict(others, TRUE), rel=0.03)
    assert np.abs(fit.predict(others, BASE) / fit.predict(others, TRUE) - 1).max() > 0.3, "the base was far off"


def test_the_fit_bears_noise_and_outliers():
    programs, rng = made_up(160, 3), np.random.default_rng(1)
    times = fit.predict(fit.Work.of(programs, BASE), TRUE) * np.exp(rng.normal(0, 0.05, len(programs)))
    times[::20] *= 4  # times that the model has no reason for
    found = fit.fit(BASE, programs, times)
    others = fit.Work.of(made_up(80, 4), BASE)
    errors = np.abs(fit.predict(others, found) / fit.predict(others, TRUE) - 1)
    assert np.median(errors) < 0.05 and errors.max() < 0.15


def test_the_fit_leaves_alone_what_it_has_no_times_of():
    device = {**BASE, "kernels": {"product": figures(9.0, 0.5, 0.25)}}
    programs = [program for program in made_up(40, 5) if program[0]["class"] == "loop"]
    found = fit.fit(device, programs, fit.predict(fit.Work.of(programs, BASE), TRUE))
    assert found["kernels"]["product"] == device["kernels"]["product"]
    assert set(found["kernels"]) == {"product", "loop"}
    assert set(found) == {*BASE, "run_us", "kernels"} and list(found)[-1] == "links"
    assert device["kernels"] == {"product": figures(9.0, 0.5, 0.25)}, "the argument is as it was"
    assert found["kernels"]["loop"]["memory_share"] <= 1 and 1 <= found["saturating_units"] <= BASE["units"]


def test_the_model_is_the_compilers(tmp_path):
    """fusion-print-costs, with a device file that has figures of its own."""
    device = tmp_path / "true.json"
    device.write_text(json.dumps(TRUE))
    workload = seed2.adds(3, 1 << 12)
    source = workload.write(str(tmp_path))
    fused = tmp_path / "fused.mlir"
    subprocess.run([str(BIN / "fusion-compile"), source, "--target=cuda:sm_90", "--stop-after=fuse", "-o", str(fused)],
                   check=True)
    said = subprocess.run([str(BIN / "fusion-opt"), str(fused), f"--fusion-print-costs=device={device}", "-o",
                           "/dev/null"], check=True, capture_output=True, text=True).stdout
    function = json.loads(said)["functions"][0]
    assert [k["kind"] for k in function["kernels"]] == ["horizontal"]
    # Three times 2^12 of 4 bytes, two read and one written; 12 of 132 multiprocessors, 12 of 76 fill the memory.
    only = function["kernels"][0]
    assert only["memory_bytes"] == 3 * 3 * (1 << 14) and only["blocks"] == 12 and only["class"] == "loop"
    assert only["us"] == pytest.approx(1.1 + 0.4 + 9 * (1 << 14) / (4.8e6 * 12 / 76 * 0.8))
    assert function["us"] == pytest.approx(only["us"] + 1.7)
    work = fit.Work.of([function["kernels"]], TRUE)
    assert fit.predict(work, TRUE)[0] == pytest.approx(function["us"], rel=1e-12)


def entry(fused, alone):
    return {"us": {"fused": {"us": fused}, "alone": {"us": alone}}, "ratio": [alone / fused, 0, 0]}


def test_what_is_said_of_times():
    # Errors 0, 0, 10 %, 20 %, 50 %, 50 %: median 15 %; the 90th percentile is between the last two.
    times = {"programs": {"a": entry(10, 20), "b": entry(10, 20), "c": entry(10, 10.4), "d": {"error": "none"}}}
    predicted = {"a": {"fused": {"us": 10}, "alone": {"us": 20}},
                 "b": {"fused": {"us": 11}, "alone": {"us": 24}},
                 "c": {"fused": {"us": 15}, "alone": {"us": 5.2}}}
    judged = cost_model.judge(times, predicted)
    found = cost_model.summary(judged)
    assert found["times"] == 6 and found["median"] == pytest.approx(0.15) and found["p90"] == pytest.approx(0.5)
    # c differs by 4 %: nothing to decide.
    assert (found["pairs"], found["right"]) == (2, 2)
    predicted["a"]["fused"]["us"] = 20
    assert cost_model.summary(cost_model.judge(times, predicted))["right"] == 1, "a tie is no decision"
    assert cost_model.summary([]) == {"times": 0}


def test_evaluating_and_fitting(tmp_path, capsys):
    """From modules and times to a device file: times are those that TRUE predicts, so it is found again."""
    folder = tmp_path / "m"
    cost_model.compile_all(str(folder), str(BIN), "cuda:sm_90", "h200", lambda _text: None, 12,
                           [seed2.adds(3, 1 << 20)])
    true = tmp_path / "true.json"
    true.write_text(json.dumps(TRUE))
    document = json.loads((folder / "cost-model.json").read_text())
    for name, found in cost_model.predict_all(str(folder), list(document["programs"]), str(true), str(BIN)).items():
        document["programs"][name].update(entry(found["fused"]["us"], found["alone"]["us"]))
    times, fitted = tmp_path / "times.json", tmp_path / "fitted.json"
    times.write_text(json.dumps(document))
    base = tmp_path / "base.json"
    base.write_text(json.dumps(BASE))
    words = ["bench", "cost-model", "--modules", str(folder), "--evaluate", str(times), "--bin-dir", str(BIN)]
    assert main([*words, "--base", str(true)]) == 0
    said = capsys.readouterr().out
    assert "held-out: " in said and "median error 0.0 %, 90th percentile 0.0 %" in said and "wrongly" not in said
    words += ["--base", str(base)]
    assert main(words) == 0
    assert "median error 0.0 %" not in capsys.readouterr().out, "the base is another device"
    assert main([*words, "--fit", str(fitted)]) == 0
    assert json.loads(fitted.read_text())["run_us"] > 0
    judged = cost_model.evaluate(str(folder), str(times), str(fitted), None, str(BIN), lambda _text: None)
    assert cost_model.summary(judged)["median"] < 0.1


def test_evaluation_needs_times(tmp_path, capsys):
    folder = tmp_path / "m"
    cost_model.compile_all(str(folder), str(BIN), "cuda:sm_90", "h200", lambda _text: None, 0, [seed2.adds(3, 64)])
    with pytest.raises(FusionError, match="no program of the fit half has times"):
        cost_model.evaluate(str(folder), str(folder / "cost-model.json"), "h200", str(tmp_path / "new.json"), str(BIN),
                            lambda _text: None)
    assert main(["bench", "cost-model", "--modules", str(folder)]) == 2
    assert "--evaluate FILE" in capsys.readouterr().err

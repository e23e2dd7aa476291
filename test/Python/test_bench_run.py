# ===- test_bench_run.py - fusion-bench from modules to tables --------------=== #
#
# A whole run without a GPU: modules for the CPU, and in place of PyTorch the little of
# it that rows of adds and a transpose need, on numpy; a captured graph is what it
# captured, device time is the host's.
#
# ===----------------------------------------------------------------------=== #
"""A run of fusion-bench, end to end."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

from conftest import BIN
from fusion_compiler.bench import (calibrate, cli, cost_model, gpu, launched, modules, ours, random_groups, run,
                                   seed2, suites, timing, xla)
from fusion_compiler.bench.bars import Bar
from fusion_compiler.cli import main


class Tensor(np.ndarray):
    """An array with the names that PyTorch gives its methods."""

    is_cuda, device = False, "cuda"

    def double(self):
        return self.astype(np.float64)

    def abs(self):
        return np.abs(self)

    def to(self, dtype):
        return self.astype(dtype)

    def data_ptr(self):
        return self.ctypes.data

    def norm(self):
        return np.linalg.norm(self)

    def numel(self):
        return self.size

    def element_size(self):
        return self.itemsize

    def clone(self):
        return self.copy()

    def detach(self):
        return self

    def square(self):
        return self * self

    def t(self):
        return self.T

    def contiguous(self):
        return np.ascontiguousarray(self).view(Tensor)

    def fill_(self, value):
        self[...] = value

    def zero_(self):
        self[...] = 0

    def copy_(self, other):
        self[...] = other

    def mul_(self, other):
        self *= other
        return self

    def add_(self, other):
        self += other
        return self


class FakeGraph:
    def __init__(self, keep_graph):
        assert keep_graph

    def instantiate(self):
        pass


class FakeEvent:
    def __init__(self, enable_timing):
        self.at = None

    def record(self):
        self.at = time.perf_counter()

    def synchronize(self):
        pass

    def elapsed_time(self, end):
        return (end.at - self.at) * 1e3


def fake_torch():
    def tensor(shape, dtype=np.float32, device=None):
        # At a multiple of 64 bytes, as the runtime likes buffers.
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        raw = np.zeros(size + 64, np.uint8)
        start = -raw.ctypes.data % 64
        return raw[start:start + size].view(dtype).reshape(shape).view(Tensor)

    def randn(shape, device=None, dtype=np.float32):
        made = tensor(shape, dtype)
        made[...] = np.random.default_rng().standard_normal(shape)
        return made

    def randint(low, high, shape, device=None):
        made = tensor(shape, np.int64)
        made[...] = np.random.default_rng().integers(low, high, shape)
        return made

    def to(self, dtype):
        made = tensor(self.shape, dtype)
        made[...] = self
        return made

    def rand(shape, device=None, dtype=np.float32):
        made = tensor(shape, dtype)
        made[...] = np.random.default_rng().random(shape)
        return made

    Tensor.to = to
    flags = contextlib.nullcontext
    cuda = SimpleNamespace(
        synchronize=lambda: None, memory_reserved=lambda: 0, empty_cache=lambda: None, graph_pool_handle=object,
        Stream=lambda: SimpleNamespace(wait_stream=lambda _s: None),
        stream=lambda _s: contextlib.nullcontext(),
        current_stream=lambda: SimpleNamespace(wait_stream=lambda _s: None, cuda_stream=0),
        CUDAGraph=FakeGraph, graph=lambda _g, pool: contextlib.nullcontext(), Event=FakeEvent,
        _sleep=lambda _cycles: None)
    return SimpleNamespace(
        cuda=cuda, float64=np.float64, float32=np.float32, float16=np.float16, bfloat16=np.uint16, uint8=np.uint8,
        randn=randn, rand=rand, zeros=tensor, int32=np.int32, int8=np.int8,
        randint=randint, empty=tensor, empty_like=lambda x: tensor(x.shape, x.dtype), equal=np.array_equal,
        isfinite=np.isfinite, no_grad=contextlib.nullcontext,
        backends=SimpleNamespace(cudnn=SimpleNamespace(flags=lambda **_: flags())))


class OnCpu(ours.OpenModule):
    tuned: list = []

    def __init__(self, *arguments, autotune=False, **options):
        if autotune:
            self.tuned.append(arguments[1])
        super().__init__(*arguments, backend="cpu", **options)
        self._enqueue = None


@pytest.fixture
def no_gpu(monkeypatch):
    """Rows of a suite `tiny` on numpy; graphs replay what was captured and hold one kernel."""
    torch = fake_torch()

    def capture(_torch, launch, pool=None):
        def replay():
            launch()
        replay.holds = launch
        replay.nodes = {"kernels": 1, "copies": 0}
        return replay

    workloads = [seed2.adds(3, 33, [[Bar.speedup(1e-6)]]), seed2.transpose(7, [[Bar.bandwidth(0.0)]])]
    monkeypatch.setitem(suites.SUITES, "tiny", lambda: workloads)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(gpu, "open_torch", lambda: torch)
    monkeypatch.setattr(gpu, "describe", lambda _torch: {"gpu": "none", "cache_bytes": 1 << 10})
    monkeypatch.setattr(gpu, "capture", capture)
    monkeypatch.setattr(run, "OpenModule", OnCpu)
    monkeypatch.setattr(ours, "use_runtime", lambda _path: str(BIN / "fusion-run"))
    monkeypatch.setattr(cli, "_kernels", lambda *_: None)
    monkeypatch.setattr("fusion_compiler.bench.bandwidth.SIZE", 1 << 12)
    monkeypatch.setattr(launched, "count_all", lambda suite, names, *_: (
        {names[0]: {"strict": {"launched": {"kernels": 1, "copies": 0}},
                    "unfused": {"launched": {"kernels": 3, "copies": 0}}}}, {}))
    monkeypatch.setattr(xla, "measure_all", lambda suite, names, *_: (
        {"adds-3x33": {"us": 1e9, "launched": {"kernels": 3.0, "copies": 0.0}}}, {"version": "9"}))
    return torch


WORDS = ["bench", "tiny", "--fp", "strict", "--target", "cpu", "--bin-dir", str(BIN), "--runs", "7"]


def test_whole_run(no_gpu, tmp_path, capsys):
    out, page = tmp_path / "out.json", tmp_path / "out.md"
    assert main([*WORDS, "--json", str(out), "--markdown", str(page)]) == 0
    said = capsys.readouterr().out
    document = json.loads(out.read_text())
    assert document["compiler"]["version"].startswith("fusion-compile") and len(document["compiler"]["sha256"]) == 64
    assert document["environment"]["jax"] == "9" and document["copy_bandwidth"]["by"] in ("torch", "torch in a graph")
    assert "beside" not in document, "only a run that is cut off has rows to come"
    adds, transpose, warm = document["rows"]  # 1188 bytes, 392 bytes; a cache of 1024
    assert [row["data"] for row in document["rows"]] == ["cold", "cold", "warm"] and adds["sets"] == 3
    for row in (adds, transpose, warm):
        for variant in ("strict", "unfused"):
            entry = row["ours"][variant]
            assert entry["check"]["ok"] and entry["stable"] and entry["us"] > 0 and len(entry["sha256"]) == 64
            assert entry["clock"] == "host" and entry["rounds"] == 7
        assert row["peers"]["eager"]["clock"] == "queued" and row["peers"]["eager+graph"]["us"] > 0
        assert row["peers"]["eager+graph"]["launched"] == {"kernels": 1, "copies": 0}
        assert "error" in row["peers"]["inductor"] and "error" in row["peers"]["inductor+graph"]
        low, high = row["intervals"]["speedup"]
        assert low <= row["figures"]["speedup"] <= high
    assert adds["ours"]["unfused"]["launched"]["kernels"] == 3 and adds["peers"]["xla"]["us"] == 1e9
    assert adds["best_peer"] in ("eager", "eager+graph") and adds["pass"] is True
    assert "launched" not in transpose["ours"]["strict"] and "bandwidth" in transpose["intervals"]
    assert "copy_bandwidth" in transpose and said.count("inductor: ") == 2
    assert (warm["name"], warm["title"]) == ("transpose-7~warm", "transpose f32[7,7], in cache") and warm["sets"] == 1
    assert "copy_bandwidth" not in warm and warm["bar"] == "" and transpose["bar"] != ""
    assert page.read_text().count("| transpose f32[7,7], in cache |") == 1, "times; it launches the same"
    assert "| 3 independent adds f32[33] | 1 | 3 | 1 | - | 3 |" in page.read_text()


def test_quick_run_of_one_row(no_gpu, tmp_path, monkeypatch):
    def never(*_):
        raise AssertionError("not asked for")

    monkeypatch.setattr(launched, "count_all", never)
    monkeypatch.setattr(xla, "measure_all", never)
    out = tmp_path / "out.json"
    assert main([*WORDS, "--peers", "none", "--no-launches", "--filter", "transpose", "--json", str(out)]) == 0
    document = json.loads(out.read_text())
    assert [row["name"] for row in document["rows"]] == ["transpose-7", "transpose-7~warm"]
    assert document["rows"][0]["peers"] == {}


@pytest.mark.parametrize("writes", [True, False])
def test_short_rows_are_timed_in_one_graph_too(no_gpu, tmp_path, monkeypatch, capsys, writes):
    def contender(self):
        # The graph of several runs is captured behind everything else: does it write nothing, that is noticed.
        return timing.Contender([lambda: self._launcher(0)() if writes or not captured else None])

    captured = []
    repeat = gpu.repeat
    monkeypatch.setattr(gpu, "repeat", lambda *a: (captured.append(a), repeat(*a))[1])
    monkeypatch.setattr(OnCpu, "contender", contender)
    out = tmp_path / "out.json"
    words = ["--peers", "torch", "--no-launches", "--filter", "transpose", "--json", str(out)]
    assert main([*WORDS, *words]) == (0 if writes else 1)
    document = json.loads(out.read_text())
    assert [row["name"] for row in document["rows"]] == ["transpose-7", "transpose-7~warm", "transpose-7~graph"]
    row = document["rows"][2]
    assert row["title"] == "transpose f32[7,7], in cache, 16 runs in one graph" and row["sets"] == 1
    assert row["ours"]["strict"]["same_repeated"] is writes
    assert "same_repeated" not in document["rows"][1]["ours"]["strict"]
    assert row["peers"]["eager+graph"]["us"] > 0 and "us" not in row["peers"]["eager"], "a graph is needed"
    assert ("other bits from several runs" in capsys.readouterr().out) is not writes


def test_a_run_that_is_cut_off_keeps_what_it_has(no_gpu, tmp_path, monkeypatch):
    def dies(*_):
        raise KeyboardInterrupt

    out = tmp_path / "out.json"
    monkeypatch.setattr("fusion_compiler.bench.bandwidth.Copy", dies)
    assert main([*WORDS, "--json", str(out)]) == 130
    document = json.loads(out.read_text())
    assert document["rows"] == [] and document["beside"]["adds-3x33"]["xla"]["us"] == 1e9


def test_rows_to_come_are_not_forgotten(no_gpu, tmp_path, monkeypatch):
    measure, out = run.Runner.rows, tmp_path / "out.json"

    def rows(self, workload):
        if workload.name == "transpose-7":
            document = json.loads(out.read_text())
            assert [r["name"] for r in document["rows"]] == ["adds-3x33"] and set(document["beside"]) == {
                "adds-3x33", "transpose-7"}
            raise KeyboardInterrupt
        return measure(self, workload)

    monkeypatch.setattr(run.Runner, "rows", rows)
    assert main([*WORDS, "--json", str(out)]) == 130
    assert json.loads(out.read_text())["rows"][0]["peers"]["xla"]["us"] == 1e9


def test_wrong_bits_fail(no_gpu, tmp_path, monkeypatch, capsys):
    class Wrong(OnCpu):
        def results(self, index, order):
            return [result + 1 for result in super().results(index, order)]

    monkeypatch.setattr(run, "OpenModule", Wrong)
    assert main([*WORDS, "--peers", "none", "--no-launches", "--filter", "adds"]) == 1
    assert "33 elements differ, equality expected" in capsys.readouterr().out


def test_sets_share_a_session_and_have_results_of_their_own(no_gpu, tmp_path):
    assert main(["bench", "tiny", "--fp", "strict", "--target", "cpu", "--bin-dir", str(BIN), "--filter", "adds",
                 "--compile-only", "--modules", str(tmp_path)]) == 0
    workload = seed2.adds(3, 33)
    sets = [[gpu.make_input(no_gpu, t) for t in workload.inputs] for _ in range(3)]
    opened = OnCpu(no_gpu, str(tmp_path / "adds-3x33.strict.fsn"), sets, [t.name for t in workload.inputs])
    opened.poison()
    contender = opened.contender()
    assert contender.blocking and len(contender.launches) == 3
    for launch in contender.launches:
        launch()
    for index, inputs in enumerate(sets):
        results = opened.results(index, ["y0", "y1", "y2"])
        for i, result in enumerate(results):
            assert np.array_equal(result, inputs[i] + inputs[3 + i])
        starts = sorted(result.ctypes.data for result in results)
        assert starts == [starts[0], starts[0] + 256, starts[0] + 512], "132 bytes each, in one piece"
    assert opened.session.counters["runs"] == 3


def test_tuned_sessions_are_a_column_of_rows_with_libraries(no_gpu, tmp_path, monkeypatch):
    workloads = suites.SUITES["tiny"]()
    workloads[1].flops = 1.0  # as if the transpose were a library's
    monkeypatch.setitem(suites.SUITES, "tiny", lambda: workloads)
    monkeypatch.setattr(ours, "can_tune", lambda: True)
    monkeypatch.setattr(OnCpu, "tuned", [])
    out = tmp_path / "out.json"
    assert main([*WORDS, "--peers", "none", "--no-launches", "--autotune", "--json", str(out)]) == 0
    document = json.loads(out.read_text())
    assert document["variants"] == ["strict", "tuned", "unfused"]
    assert [path.rpartition("/")[2] for path in OnCpu.tuned] == ["transpose-7.strict.fsn"]
    adds, transpose, _warm = document["rows"]
    assert "tuned" not in adds["ours"] and transpose["ours"]["tuned"]["check"]["ok"]
    assert transpose["ours"]["tuned"]["us"] > 0


def test_a_runtime_that_cannot_tune_says_so(no_gpu, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(ours, "can_tune", lambda: False)
    out = tmp_path / "out.json"
    words = ["--peers", "none", "--no-launches", "--autotune", "--filter", "adds", "--json", str(out)]
    assert main([*WORDS, *words]) == 0
    assert "its column is left out" in capsys.readouterr().out
    assert json.loads(out.read_text())["variants"] == ["strict", "unfused"]


def test_a_run_whose_time_is_up_says_what_it_left_out(no_gpu, tmp_path, monkeypatch):
    def never(*_):
        raise AssertionError("no time for that")

    monkeypatch.setattr(launched, "count_all", never)
    monkeypatch.setattr(xla, "measure_all", never)
    out = tmp_path / "out.json"
    assert main([*WORDS, "--time-limit", "0", "--json", str(out)]) == 4
    document = json.loads(out.read_text())
    assert document["xla"]["failed"].startswith("left out") and document["launched"]["failed"].startswith("left out")
    assert [row["error"] for row in document["rows"]] == ["FusionError: not measured: 0 s had passed"] * 2


def test_small_rows_go_to_xla_first(no_gpu, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(xla, "measure_all", lambda suite, names, *_: (asked.append(names), ({}, {}))[1])
    assert main([*WORDS, "--peers", "xla", "--no-launches"]) == 0
    assert asked == [["transpose-7", "adds-3x33"]]


def cost_model_modules(folder):
    cost_model.compile_all(str(folder), str(BIN), "cpu", "cpu", lambda _text: None, 2, [seed2.adds(3, 33)])
    return [path.name.removesuffix(".fused.fsn") for path in sorted(folder.glob("*.fused.fsn"))]


@pytest.fixture
def small_programs(no_gpu, tmp_path, monkeypatch):
    monkeypatch.setattr(ours, "OpenModule", OnCpu)
    monkeypatch.setattr(cost_model, "VARIANTS", {"fused": ("--fp=strict",), "alone": ("--fp=strict", modules.UNFUSED)})
    monkeypatch.setattr(random_groups._Maker, "size", lambda _self, low, high: 2 + int(low))
    return cost_model_modules(tmp_path / "m")


def test_cost_model_times_both_ways(small_programs, tmp_path, capsys):
    out = tmp_path / "times.json"
    words = ["bench", "cost-model", "--modules", str(tmp_path / "m"), "--json", str(out), "--runs", "3"]
    assert main(words) == 0 and len(small_programs) == 3
    document = json.loads(out.read_text())
    for name in small_programs:
        entry = document["programs"][name]
        assert entry["us"]["fused"]["us"] > 0 and entry["us"]["alone"]["rounds"] == 3 and len(entry["ratio"]) == 3
        assert entry["relative_difference"] < 1e-2 and "error" not in entry
    assert not (tmp_path / "times.json.begun").exists()
    assert "3 of 3 programs timed" in capsys.readouterr().out
    assert main(words) == 0 and "0 of 0 programs timed" in capsys.readouterr().out, "what is there is kept"
    assert json.loads(out.read_text())["programs"] == document["programs"]


def test_cost_model_goes_on_behind_what_ended_it(small_programs, tmp_path, capsys):
    out = tmp_path / "times.json"
    (tmp_path / "times.json.begun").write_text("adds-3x33")
    words = ["bench", "cost-model", "--modules", str(tmp_path / "m"), "--json", str(out), "--runs", "3"]
    assert main(words) == 4, "one program has no times"
    programs = json.loads(out.read_text())["programs"]
    assert "error" in programs["adds-3x33"] and sum("us" in entry for entry in programs.values()) == 2
    assert "2 of 2 programs timed" in capsys.readouterr().out


def test_cost_model_says_which_program_fails(small_programs, tmp_path, monkeypatch, capsys):
    (tmp_path / "m/adds-3x33.alone.fsn").write_bytes(b"no module")
    out = tmp_path / "times.json"
    words = ["bench", "cost-model", "--modules", str(tmp_path / "m"), "--json", str(out), "--runs", "3"]
    assert main(words) == 4 and "adds-3x33: " in capsys.readouterr().out
    assert sum("us" in entry for entry in json.loads(out.read_text())["programs"].values()) == 2


def test_calibration_outlives_a_part(tmp_path):
    saved = []

    def lacking():
        raise AttributeError("no such function\nsecond line")

    measured = calibrate.run_parts({"a": lambda: {"x": 1}, "b": lacking, "c": lambda: {"y": 2}}, lambda _text: None,
                                   lambda found: saved.append(dict(found)))
    assert measured == {"x": 1, "y": 2, "failed": {"b": "no such function"}}
    assert [sorted(s) for s in saved] == [["x"], ["failed", "x"], ["failed", "x", "y"]]


def test_calibration_of_what_numpy_can_do(no_gpu, monkeypatch):
    """Each part runs as on a GPU, up to the launches."""

    class Kernels:
        units = 4

        def launch(self, name, grid, threads, *parameters):
            assert name in ("empty", "increment", "multiply_add_f32", "multiply_add_f64") and threads == 256

        def copy(self, source, target):
            target[...] = source

        def copy_on(self, units, source, target):
            target[...] = source

    monkeypatch.setattr(gpu, "describe", lambda _torch: {"gpu": "none", "cache_bytes": 1 << 16, "multiprocessors": 4,
                                                         "memory_bytes": 1 << 30, "cuda": "13.0"})
    no_gpu.backends.cuda = SimpleNamespace(matmul=SimpleNamespace(allow_tf32=False))
    no_gpu.mm, no_gpu._int_mm = np.matmul, np.matmul
    monkeypatch.setattr(calibrate, "_COPIES", range(14, 17))
    monkeypatch.setattr(calibrate, "_MATRICES", {"f32": 8, "tf32": 8})
    monkeypatch.setattr(calibrate, "copy_bandwidth", lambda _torch, _kernels, size=0, rounds=0: {
        "torch": 1e9, "kernel": 2e9, "best": 2e9})
    monkeypatch.setattr(calibrate, "saturating_units", lambda *_: 3)
    saved = []
    device, measured = calibrate.calibrate(no_gpu, Kernels(), calibrate.find_device("h200"), "mine",
                                           lambda _text: None, lambda *both: saved.append(both))
    assert "failed" not in measured and len(saved) == 8
    assert device["saturating_units"] == 3 and device["memory_bandwidth"] == 2e9 and measured["run_us"] > 0
    assert [row["bytes"] for row in measured["copies"]] == [1 << 14, 1 << 15, 1 << 16]
    assert {"us", "cached_us"} <= set(measured["copies"][0])

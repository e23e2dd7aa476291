# ===- test_bench.py - How fusion-bench times, judges and reports ----------=== #
#
# With clocks that are made up: interleaving, statistics, bars, rows, tables, device
# files and the command line. No GPU, no PyTorch.
#
# ===----------------------------------------------------------------------=== #
"""Timing, judging and reporting of fusion-bench."""

from __future__ import annotations

import json
import subprocess
from types import SimpleNamespace

import pytest

from conftest import BIN, ROOT
from fusion_compiler.bench import bars, calibrate, run, seed2, table, timing, xla
from fusion_compiler.bench.bars import Bar
from fusion_compiler.cli import main

# ---- timing -----------------------------------------------------------------


class DriftingClock:
    """A contender's own time, on a device that gets slower with every batch."""

    def __init__(self, us):
        self.us, self.drift, self.log = us, 1.0, []

    def batch(self, launches, count):
        for i in range(count):
            launches[i % len(launches)]()
        self.drift *= 1.01
        name = launches[0].__name__
        self.log.append((name, count))
        return self.us[name] * self.drift


def contender(name, copies=1):
    def launch():
        pass
    launch.__name__ = name
    return timing.Contender([launch] * copies)


def test_percentiles_by_hand():
    assert timing.median([5, 1, 3]) == 3
    assert timing.median([4, 1, 2, 3]) == 2.5
    assert timing.percentile([0, 10], 0.9) == 9
    assert timing.percentile([7], 0.1) == 7


def test_contenders_take_turns_and_drift_cancels():
    clock = DriftingClock({"ours": 10.0, "peer": 30.0})
    contenders = {"ours": contender("ours"), "peer": contender("peer")}
    times = timing.interleave(contenders, lambda _c: clock, rounds=10)
    turns = [name for name, _count in clock.log[4:]]  # two warm-up batches each
    assert turns == ["ours", "peer", "peer", "ours"] * 5
    # 22 batches later the clock is a quarter slower; neighbours differ by 1 %.
    assert times["ours"].rounds[-1] > 1.2 * times["ours"].rounds[0]
    assert timing.ratio(times["peer"], times["ours"]) == pytest.approx(3.0, rel=0.011)
    assert times["ours"].as_json()["rounds"] == 10


def test_batches_use_all_copies_equally():
    used = [0, 0, 0]

    def use(i):
        def launch():
            used[i] += 1
        return launch

    launches = [use(i) for i in range(3)]
    clock = SimpleNamespace(batch=lambda launches, count: [launches[i % 3]() for i in range(count)] and 100.0)
    times = timing.interleave({"it": timing.Contender(launches)}, lambda _c: clock, rounds=4)
    assert times["it"].repetitions == 21  # 2000 us are 20 repetitions of 100 us, rounded up to 3 * 7
    assert used == [2 + 4 * 7] * 3


def test_copies_fill_the_cache_three_times():
    assert timing.copies_for(60, 100) == 5
    assert timing.copies_for(1 << 30, 50 << 20) == 1
    assert timing.copies_for(1, 1 << 20) == 16


def test_repetitions_have_a_limit():
    assert timing.repetitions(1.0, 1) == timing.MAX_REPETITIONS
    assert timing.repetitions(5000.0, 1) == 1
    assert timing.repetitions(5000.0, 4) == 4


def test_host_clock_waits_for_the_work():
    import time
    assert timing.HostClock().batch([lambda: time.sleep(0.002)], 5) >= 2000


class FakeCuda:
    """A device of which only the order of calls is real."""

    def __init__(self):
        self.calls = []
        outer = self

        class Event:
            def __init__(self, enable_timing):
                assert enable_timing

            def record(self):
                outer.calls.append("event")

            def synchronize(self):
                outer.calls.append("wait")

            def elapsed_time(self, _end):
                return 0.012  # milliseconds

        self.Event = Event

    def synchronize(self):
        self.calls.append("idle")

    def _sleep(self, cycles):
        self.calls.append(("spin", cycles))


def test_device_clock_spins_while_the_host_queues():
    cuda = FakeCuda()
    clock = timing.DeviceClock(SimpleNamespace(cuda=cuda))
    launches = [lambda: cuda.calls.append("a"), lambda: cuda.calls.append("b")]
    assert clock.batch(launches, 4) == pytest.approx(3.0)  # 12 us of four
    kind, cycles = cuda.calls[1]
    assert cuda.calls[0] == "idle" and kind == "spin" and cycles >= 4 * 20 * 2000  # 20 us each, until it is known
    assert cuda.calls[2:] == ["event", "a", "b", "a", "b", "event", "wait"]
    cuda.calls.clear()
    clock.batch(launches, 4)
    assert 20 * 2000 <= cuda.calls[1][1] < cycles  # queueing these took less


# ---- bars -------------------------------------------------------------------


@pytest.mark.parametrize("clauses, figures, verdict", [
    ([[Bar.speedup(8)]], {"speedup": 8.0}, True),
    ([[Bar.speedup(8)]], {"speedup": 7.99}, False),
    ([[Bar.speedup(8)]], {"speedup": None}, None),
    ([[Bar.of_limit(1.03)], [Bar.of_peer(1.0)]], {"of_limit": 1.03, "of_peer": 1.01}, False),
    ([[Bar.of_limit(1.03)], [Bar.of_peer(1.0)]], {"of_limit": 1.03, "of_peer": None}, None),
    ([[Bar.of_limit(1.03)], [Bar.of_peer(1.0)]], {"of_limit": 1.5, "of_peer": None}, False),
    ([[Bar.bandwidth(0.85), Bar.of_limit(1.03)]], {"bandwidth": 0.8, "of_limit": 1.02}, True),
    ([[Bar.bandwidth(0.85), Bar.of_limit(1.03)]], {"bandwidth": 0.8, "of_limit": None}, None),
    ([[Bar.bandwidth(0.85)]], {"bandwidth": float("nan")}, None),
    ([], {}, True),
])
def test_judge(clauses, figures, verdict):
    assert bars.judge(clauses, figures) is verdict


def test_figures_by_hand():
    # 400 bytes in 2 us are 200 MB/s, half of 400 MB/s.
    figures = bars.figures(ours=2.0, best_peer=5.0, limit=1.6, transferred=400, copy_bandwidth=4e8)
    assert figures == {"speedup": 2.5, "of_peer": 0.4, "of_limit": 1.25, "bandwidth": pytest.approx(0.5)}
    assert set(bars.figures(None, 5.0, 1.6, 400, 4e8).values()) == {None}


def test_bars_in_words():
    clauses = next(w for w in seed2.workloads() if w.name == "layer_norms-12x4096x4096").bars
    assert bars.describe(clauses) == (
        ">= 1.3x the best peer; >= 0.85 of copy bandwidth or <= 1.03 of the limit's time")


# ---- rows and tables ----------------------------------------------------------

NORMS = next(w for w in seed2.workloads() if w.name == "layer_norms-12x512x768")


def rounds(*us):
    return timing.Times(rounds=list(us), repetitions=4)


def assemble(ours, peers, limit=None, **changes):
    times = {name: rounds(us, us, us) for name, us in {**ours, **peers}.items()}
    entries = {name: {"us": us, **changes.get(name, {})} for name, us in ours.items()}
    limit = {"name": "one launch", "us": limit} if limit else {}
    return run.assemble(NORMS, entries, {name: {"us": us} for name, us in peers.items()}, limit, times, 4e12)


def test_row_compares_with_the_best_peer():
    row = assemble({"fast": 8.0, "unfused": 40.0}, {"eager": 56.0, "inductor": 32.0}, limit=7.6)
    assert row["best_peer"] == "inductor" and row["figures"]["speedup"] == 4.0 and row["pass"] is True
    assert row["figures"]["of_limit"] == pytest.approx(8 / 7.6, abs=1e-4)
    # 12 * 2 * 512 * 768 * 2 bytes and 24 vectors of 768: 18.9 MB; at 4 TB/s 4.73 us.
    assert row["limit"]["bytes_us"] == pytest.approx(18911232 / 4e6, abs=1e-3)
    assert row["bandwidth"]["unfused"] == pytest.approx(4.727808 / 40, abs=1e-4)


def test_ratio_of_neighbours_counts():
    times = {"fast": rounds(1, 10, 2), "eager": rounds(4, 40, 10)}
    row = run.assemble(NORMS, {"fast": {"us": 2}}, {"eager": {"us": 10}}, {}, times, None)
    assert row["figures"]["speedup"] == 4  # of 4, 4 and 5; the medians' ratio would be 5


def test_slow_wrong_or_missing_results_do_not_pass():
    assert assemble({"fast": 10.0}, {"eager": 34.0})["pass"] is False
    assert assemble({"fast": 1.0}, {"eager": 34.0}, fast={"check": {"ok": False}})["pass"] is False
    assert assemble({"fast": 1.0}, {"eager": 34.0}, fast={"check": {"ok": True}, "stable": False})["pass"] is False
    assert assemble({"fast": 1.0}, {})["pass"] is None
    nothing = run.assemble(NORMS, {"fast": {"error": "refused"}}, {"eager": {"us": 3.0}}, {}, {}, 4e12)
    assert nothing["pass"] is None and table.errors(nothing) == ["fast: refused"]


def test_xla_alone_can_be_the_best_peer():
    row = run.assemble(NORMS, {"fast": {"us": 8.0}}, {"eager": {"us": 56.0}, "xla": {"us": 24.0}}, {},
                       {"fast": rounds(8, 8), "eager": rounds(56, 56)}, None)
    assert row["best_peer"] == "xla" and row["figures"]["speedup"] == 3.0 and row["pass"] is False


def document(rows):
    return {"suite": "seed2", "date": "2026-01-02T03:04:05", "command": "fusion-bench seed2", "runs": 25,
            "environment": {"gpu": "A GPU", "driver": "1.2", "cuda": "13.0", "torch": "2.11"},
            "variants": ["fast", "unfused"], "peers": ["eager", "inductor"], "copy_bandwidth": {"best": 4e12},
            "rows": rows}


def test_markdown():
    row = assemble({"fast": 8.0, "unfused": 123.4}, {"eager": 56.0, "inductor": 32.0}, limit=7.6)
    text = table.markdown(document([row]))
    lines = text.splitlines()
    assert "copy 4.000 TB/s" in lines[0] and "`fusion-bench seed2`" in lines[0]
    assert lines[2].startswith("| work | fast | each op alone | eager | inductor | limit |")
    assert lines[4] == ("| 12 LayerNorms bf16[512,768] | 8.00 | 123 | 56.0 | 32.0 | 7.60 | 4.00x | 59.1 % | 3.8 % | "
                        ">= 3.5x the best peer | pass |")
    assert lines[2].count("|") == lines[3].count("|") == lines[4].count("|")


def test_line_and_summary():
    good = assemble({"fast": 8.0}, {"eager": 56.0}, limit=7.6)
    assert "ours: fast 8.00 | peers: eager 56.0 | limit 7.60 | 7.00x" in table.line(good)
    assert table.line(good).endswith("| pass")
    bad = assemble({"fast": 8.0}, {"eager": 56.0}, fast={"check": {"ok": False, "why": "result 0"}})
    assert "8.00 WRONG" in table.line(bad) and table.errors(bad) == ["fast: wrong result: result 0"]
    assert table.summary([good, bad]) == "2 rows: 1 bars passed, 1 failed, 0 open; 1 rows with errors"


def test_file_is_written_after_every_row(tmp_path):
    path = tmp_path / "out.json"
    seen = []

    def measure(workload):
        if seen:
            assert [r["name"] for r in json.loads(path.read_text())["rows"]] == seen[-1:]
        seen.append(workload.name)
        if len(seen) == 2:
            raise MemoryError("device")
        return assemble({"fast": 8.0}, {"eager": 56.0}) | {"name": workload.name}

    said = []
    results = document([])
    run.run_rows(seed2.workloads()[:2], measure, results, str(path), said.append)
    assert json.loads(path.read_text()) == results
    assert results["rows"][1]["error"] == "MemoryError: device"
    assert any("MemoryError: device" in line for line in said)


@pytest.mark.parametrize("rows, code", [
    ([{"ours": {"fast": {"us": 1.0, "check": {"ok": True}, "stable": True}}}], 0),
    ([{"ours": {"fast": {"error": "refused"}}}], 4),
    ([{"ours": {}, "error": "out of memory"}], 4),
    ([{"ours": {"fast": {"error": "refused"}, "strict": {"check": {"ok": False}}}}], 1),
    ([{"ours": {"fast": {"check": {"ok": True}, "stable": False}}}], 1),
])
def test_exit_code(rows, code):
    assert run.exit_code(rows) == code


def test_xla_sums_the_kernels_of_streams():
    def line(name, *durations):
        return SimpleNamespace(name=name, events=[SimpleNamespace(duration_ns=d) for d in durations])

    planes = [SimpleNamespace(name="/host:CPU", lines=[line("Stream #1", 1000)]),
              SimpleNamespace(name="/device:GPU:0", lines=[line("Stream #7(Compute)", 30, 50), line("XLA Ops", 80)])]
    assert xla.kernel_nanoseconds(planes, runs=4) == 20
    assert xla.kernel_nanoseconds(planes[:1], runs=4) is None


# ---- device files -------------------------------------------------------------


def test_device_file_is_one(tmp_path):
    base = json.loads((ROOT / "devices/h200.json").read_text())
    measured = {"memory_bandwidth": 4.27123e12, "cache_bandwidth": 9.9e12, "launch_gap_us": 0.98765, "empty_us": 0.56,
                "saturating_units": 80, "vector_flops": {"f32": 55.5e12, "f64": 28e12},
                "matrix_flops": {kind: 1e14 for kind in base["matrix_flops"]}}
    facts = {"gpu": "A GPU", "driver": "1.2", "cuda": "13.0", "date": "2026-01-02", "multiprocessors": 130,
             "memory_bytes": 150 << 30, "cache_bytes": 60 << 20}
    device = calibrate.device_file(base, "mine", facts, measured)
    assert list(device) == list(base)
    assert device["memory_bandwidth"] == 4.271e12 and device["launch_gap_us"] == 0.9877
    assert device["saturating_units"] == 80 and device["units"] == 130 and device["links"] == base["links"]
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(device))
    model = ROOT / "examples/graphs/bias-softmax.mlir"
    answer = subprocess.run([str(BIN / "fusion-opt"), str(model), f"--fusion-fuse=device={path}"],
                            capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert calibrate.find_device("h200").endswith("devices/h200.json")


# ---- command line -------------------------------------------------------------


@pytest.mark.parametrize("words, code, said", [
    (["seed3"], 2, "no suite 'seed3'"),
    ([], 2, "no suite given"),
    (["seed2", "--filter", "nothing"], 2, "finds no row"),
    (["seed2", "--filter", "("], 2, "no regular expression"),
    (["seed2", "--peers", "caffe"], 2, "--peers: caffe"),
    (["seed2", "--fp", "sloppy"], 2, "--fp: sloppy"),
    (["seed2", "--runs", "0"], 2, "--runs: 0"),
    (["seed2", "--compile-only"], 2, "needs --modules"),
    (["seed2", "--json", "/none/out.json"], 2, "folder doesn't exist"),
    (["--from", "/none/out.json"], 2, "can't be read as results"),
])
def test_bad_use(words, code, said, capsys):
    assert main(["bench", *words]) == code
    error = capsys.readouterr().err
    assert error.startswith("error: ") and said in error and error.count("\n") == 1


def test_list_names_every_row(capsys):
    assert main(["bench", "--list"]) == 0
    said = capsys.readouterr().out
    assert all(workload.name in said for workload in seed2.workloads())


def test_table_from_a_file(tmp_path, capsys):
    path = tmp_path / "out.json"
    path.write_text(json.dumps(document([assemble({"fast": 8.0}, {"eager": 56.0})])))
    assert main(["bench", "--from", str(path)]) == 0
    assert "| 12 LayerNorms bf16[512,768] | 8.00 |" in capsys.readouterr().out


def test_compile_only(tmp_path, capsys):
    folder = tmp_path / "modules"
    words = ["bench", "seed2", "--compile-only", "--modules", str(folder), "--target", "cpu", "--fp", "strict",
             "--filter", "adds-3x65536|transpose", "--bin-dir", str(BIN)]
    assert main(words) == 0
    assert sorted(p.name for p in folder.glob("*.fsn")) == [
        "adds-3x65536.strict.fsn", "adds-3x65536.unfused.fsn", "transpose-8192.strict.fsn",
        "transpose-8192.unfused.fsn"]
    assert "2 rows, 0 modules refused" in capsys.readouterr().out
    assert main([*words, "--compile-options=--max-ops=no"]) == 3
    assert not list(folder.glob("*.fsn")), "a refused module leaves no old one behind"

# ===- test_bench.py - How fusion-bench times, judges and reports ----------=== #
#
# With clocks that are made up: interleaving, statistics, bars, rows, tables, device
# files and the command line. No GPU, no PyTorch. In one file, as the parts share the
# made-up rounds, rows and documents. What is counted: test_bench_counts.py.
#
# ===----------------------------------------------------------------------=== #
"""Timing, judging and reporting of fusion-bench."""

from __future__ import annotations

import json
import subprocess
from types import SimpleNamespace

import pytest

from conftest import BIN, ROOT
from fusion_compiler.bench import bars, budget, calibrate, cost_model, random_groups, run, seed2, table, timing, xla
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
    assert [sorted(turns[i:i + 2]) for i in range(0, 20, 2)] == [["ours", "peer"]] * 10
    # 22 batches later the clock is a quarter slower; neighbours differ by 1 %.
    assert times["ours"].rounds[-1] > 1.15 * times["ours"].rounds[0]
    ratio = timing.Ratio.of(times["peer"], times["ours"])
    assert ratio.median == pytest.approx(3.0, rel=0.011)
    assert 3 / 1.011 < ratio.low <= ratio.median <= ratio.high < 3 * 1.011
    assert times["ours"].as_json()["rounds"] == 10


def test_orders_differ_and_nothing_follows_itself():
    names = ["a", "b", "c", "d"]
    orders = timing.orders(names, 60)
    assert all(sorted(order) == names for order in orders) and len({tuple(order) for order in orders}) > 12
    assert orders == timing.orders(names, 60)
    turns = [name for order in orders for name in order]
    assert all(a != b for a, b in zip(turns, turns[1:]))
    # Each is first about as often as it is last, and next to each other one.
    followers = {(a, b) for a, b in zip(turns, turns[1:])}
    assert len(followers) == 12
    assert timing.orders(["alone"], 2) == [["alone"], ["alone"]]


def test_intervals_by_hand():
    # Of 9 tosses, at most one head has odds 10 / 512, at most two 46 / 512: ranks 2 and 8.
    assert timing.interval([9, 1, 8, 2, 7, 3, 6, 4, 5]) == (2, 8)
    # Of 31, at most nine heads have odds 0.0147, at most ten 0.0354: ranks 10 and 22.
    assert timing.interval(list(range(1, 32))) == (10, 22)
    # Of 5, none has odds 1 / 32 already: all that can be said is the range.
    assert timing.interval([3, 1, 2, 5, 4]) == (1, 5)
    assert timing.interval([7]) == (7, 7)


def test_a_clock_with_two_states_does_not_decide_by_order():
    """What runs after a large product gets the low clock: a fixed order would give one side the high one."""
    class Throttled:
        def __init__(self):
            self.last = None

        def batch(self, launches, _count):
            name = launches[0].__name__
            slow = self.last == "product"
            self.last = name
            return {"ours": 100.0, "product": 100.0, "small": 100.0}[name] * (1.25 if slow else 1.0)

    clock = Throttled()
    times = timing.interleave({name: contender(name) for name in ("ours", "product", "small")}, lambda _c: clock, 201)
    assert timing.Ratio.of(times["ours"], times["small"]).median == pytest.approx(1.0)


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


def test_what_fits_is_half_of_the_cache():
    assert timing.fits(50, 100) and not timing.fits(51, 100)


def test_first_buffers_alone():
    one, other = (lambda: None), (lambda: None)
    alone = timing.first_alone({"it": timing.Contender([one, other], host=True)})
    assert alone == {"it": timing.Contender([one], host=True)}


def test_several_runs_of_a_launch_share_its_time():
    clock = SimpleNamespace(batch=lambda launches, count: 160.0)
    work = timing.Contender([lambda: None], repeats=16)
    times = timing.interleave({"it": work}, lambda _c: clock, rounds=3)["it"]
    assert times.rounds == [10.0] * 3 and times.repetitions == 12, "2000 us of launches, not of runs"


def test_repetitions_have_a_limit():
    assert timing.repetitions(1.0, 1) == timing.MAX_REPETITIONS
    assert timing.repetitions(5000.0, 1) == 1
    assert timing.repetitions(5000.0, 4) == 4
    assert timing.repetitions(1477.0, 1) == 1, "long work takes turns after every repetition"


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
    cuda.calls.clear()
    clocks = timing.clocks_for(SimpleNamespace(cuda=cuda))
    clocks(timing.Contender(launches, host=True)).batch(launches, 2)
    assert cuda.calls == ["idle", "event", "a", "b", "event", "wait"]  # the host's time is in it


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
    ([[Bar.dram(0.02)]], {"dram": 0.985}, True),
    ([[Bar.dram(0.02)]], {"dram": 1.03}, False),
    ([[Bar.dram(0.02)]], {"dram": 0.97}, False),
    ([[Bar.bandwidth(0.97)], [Bar.dram(0.02)]], {"bandwidth": 0.98, "dram": None}, None),
    ([], {}, True),
])
def test_judge(clauses, figures, verdict):
    assert bars.judge(clauses, figures) is verdict


def test_verdicts_whose_interval_reaches_over_the_bar_are_close():
    clauses = [[Bar.of_limit(1.03)], [Bar.of_peer(1.0)]]
    figures = {"of_limit": 1.01, "of_peer": 0.9}
    assert not bars.close(clauses, figures, {"of_limit": (1.0, 1.02), "of_peer": (0.8, 0.99)})
    assert bars.close(clauses, figures, {"of_limit": (1.0, 1.04)})
    assert bars.close([[Bar.speedup(8)]], {"speedup": 7.9}, {"speedup": (7.8, 8.1)})
    # The other alternative holds anyway.
    either = [[Bar.of_limit(1.03), Bar.bandwidth(0.85)]]
    assert not bars.close(either, {"of_limit": 1.02, "bandwidth": 0.9}, {"of_limit": (1.0, 1.1)})


def test_figures_by_hand():
    # 400 bytes in 2 us are 200 MB/s, half of 400 MB/s.
    figures = bars.figures(ours=2.0, best_peer=5.0, limit=1.6, transferred=400, copy_bandwidth=4e8)
    assert figures == {"speedup": 2.5, "of_peer": 0.4, "of_limit": 1.25, "bandwidth": pytest.approx(0.5),
                       "dram": None}
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


def test_bars_judge_tuned_sessions_where_there_are_any():
    # At least 3.5 times as fast as the best peer: 32 / 8, but not 32 / 10.
    row = assemble({"fast": 10.0, "tuned": 8.0, "unfused": 40.0}, {"inductor": 32.0}, limit=7.6)
    assert row["judged"] == "tuned" and row["figures"]["speedup"] == 4.0 and row["pass"] is True
    assert row["figures"]["of_limit"] == pytest.approx(8 / 7.6, abs=1e-4)
    assert table.verdict(row) == "pass (tuned)"
    said = table.line(row)
    assert "fast 10.0 tuned 8.00" in said and said.endswith("pass (tuned)")
    wrong = assemble({"fast": 10.0, "tuned": 8.0}, {"inductor": 32.0}, tuned={"check": {"ok": False}})
    assert wrong["pass"] is False and table.verdict(wrong) == "FAIL (tuned)"
    plain = assemble({"fast": 10.0, "unfused": 8.0}, {"inductor": 32.0})
    assert plain["judged"] == "fast" and plain["pass"] is False and table.verdict(plain) == "FAIL"


def test_a_sum_of_kernels_is_no_peer_of_short_runs_with_gaps():
    peers = {"eager": {"us": 10}, "xla": {"us": 4}}
    for data, short, expected in (("cold", True, "eager"), ("warm", True, "eager"), ("repeated", True, "xla"),
                                  ("cold", False, "xla")):
        row = run.assemble(NORMS, {"fast": {"us": 2}}, peers, {}, {}, None, data=data, short=short)
        assert (row["best_peer"], row["peers"]["xla"]["us"]) == (expected, 4), data


def test_ratio_of_neighbours_counts():
    times = {"fast": rounds(1, 10, 2), "eager": rounds(4, 40, 10)}
    row = run.assemble(NORMS, {"fast": {"us": 2}}, {"eager": {"us": 10}}, {}, times, None)
    assert row["figures"]["speedup"] == 4  # of 4, 4 and 5; the medians' ratio would be 5


def test_bandwidth_is_that_of_the_copies_between():
    # The copy takes 2, 4 and 2 us, ours 1, 2 and 4 us: ratios 2, 2 and 0.5, of copies of twice the row's bytes.
    times = {"fast": rounds(1, 2, 4), run.COPY: rounds(2, 4, 2)}
    row = run.assemble(NORMS, {"fast": {"us": 2}}, {}, {}, times, 1.0, 2 * NORMS.bytes)
    assert row["figures"]["bandwidth"] == 1.0 and row["intervals"]["bandwidth"] == [0.25, 1.0]
    assert row["copy_bandwidth"] == pytest.approx(2 * NORMS.bytes / 2e-6)


def test_counters_fill_their_bar():
    chain = next(w for w in seed2.workloads() if w.name.startswith("chain"))
    times = {"fast": rounds(100), run.COPY: rounds(100)}

    def row(of_planned):
        entry = {"us": 100.0, "dram": {"of_planned": of_planned}} if of_planned else {"us": 100.0}
        return run.assemble(chain, {"fast": entry}, {}, {}, times, None, chain.bytes)

    assert [row(value)["pass"] for value in (1.01, 1.05, None)] == [True, False, None]


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
            "variants": ["fast", "unfused"], "peers": ["eager", "eager+graph"],
            "copy_bandwidth": {"best": 4e12, "by": "kernel"}, "compiler": {"sha256": "c" * 64},
            "runtime": {"sha256": "d" * 64}, "rows": rows}


def test_markdown():
    row = assemble({"fast": 8.0, "unfused": 123.4}, {"eager": 56.0, "eager+graph": 32.0}, limit=7.6,
                   fast={"launched": {"kernels": 1, "copies": 0}, "dram": {"of_planned": 1.0042}, "sha256": "e" * 64},
                   unfused={"launched": {"kernels": 12, "copies": 2}})
    row["peers"]["eager+graph"]["launched"] = {"kernels": 12.5, "copies": 0}
    text = table.markdown(document([row]))
    lines = text.splitlines()
    assert "A GPU" in lines[0] and "Copy of 1 GiB: 4.000 TB/s by kernel" in lines[1]
    assert "fusion-compile `cccccccccccc`" in lines[2] and "libfusion-rt `dddddddddddd`" in lines[2]
    assert lines[3] == "- `fusion-bench seed2`"
    assert lines[5].startswith("| work | fast | each op alone | eager | eager+graph | limit |")
    assert lines[7] == ("| 12 LayerNorms bf16[512,768] | 8.00 | 123 | 56.0 | 32.0 | 7.60 | 4.00x [4.00x, 4.00x] | "
                        "1.053 | 59.1 % | 3.8 % | >= 3.5x the best peer | pass |")
    assert lines[5].count("|") == lines[6].count("|") == lines[7].count("|")
    assert lines[9] == ("| kernels (+ copies) of one run | fast | each op alone | eager+graph | limit | "
                        "DRAM bytes / (inputs + outputs) | alone | module (fast) |")
    assert lines[11] == "| 12 LayerNorms bf16[512,768] | 1 | 12 + 2 | 12.5 | - | 1.004 | - | `eeeeeeeeeeee` |"


def test_tables_go_between_the_marks_of_a_page(tmp_path):
    page, out = tmp_path / "page.md", tmp_path / "out.json"
    page.write_text("# Title\n<!-- fusion-bench seed2 -->\nold\n<!-- end of fusion-bench seed2 -->\nend\n")
    out.write_text(json.dumps(document([assemble({"fast": 8.0}, {"eager": 56.0})])))
    for _ in range(2):
        assert main(["bench", "--from", str(out), "--markdown", str(page)]) == 0
        text = page.read_text()
        assert text.startswith("# Title\n<!-- fusion-bench seed2 -->\n- 2026") and "old" not in text
        assert text.endswith("|\n<!-- end of fusion-bench seed2 -->\nend\n") and text.count("| work |") == 1
    assert table.placed("a page with no marks\n", "tables\n", "seed2") == "tables\n"


def test_close_verdicts_are_marked():
    times = {"fast": rounds(*[10] * 9), "eager": rounds(30, 34, 34, 35, 36, 36, 36, 37, 39)}
    row = run.assemble(NORMS, {"fast": {"us": 10}}, {"eager": {"us": 36}}, {}, times, None)
    assert row["intervals"]["speedup"] == [3.4, 3.7] and row["pass"] is True and row["close"] is True
    assert table.line(row).endswith("| pass (close)")
    assert "3.60x [3.40x, 3.70x]" in table.markdown(document([row]))


def test_short_rows_in_the_cache_have_bars_of_their_own():
    adds = next(w for w in seed2.workloads() if w.name == "adds-16x65536")
    times = {"fast": rounds(4, 4), "eager": rounds(28, 28)}
    cold, warm, repeated = (
        run.assemble(adds, {"fast": {"us": 4.0, "sha256": "a" * 64}}, {"eager": {"us": 28.0}}, {}, times, None,
                     data=data) for data in ("cold", "warm", "repeated"))
    assert (cold["bar"], warm["bar"]) == ("", "")
    assert (repeated["bar"], repeated["pass"]) == (">= 8x the best peer", False)
    assert table.line(repeated).startswith("adds-16x65536~graph ") and table.line(repeated).endswith("| FAIL")
    text = table.markdown(document([cold, warm, repeated]))
    assert text.count("| 16 independent adds f32[65536] |") == 2 and text.count(", in cache |") == 1
    assert text.count(", in cache, 16 runs in one graph |") == 1
    # Wrong on both, said once.
    bad = run.assemble(adds, {"fast": {"us": 1.0, "check": {"ok": False}}}, {"eager": {"us": 28.0}}, {}, times, None,
                       data="repeated")
    assert bad["pass"] is False and table.errors(bad) == []
    # What goes wrong in the graph of several runs is said there.
    bad = run.assemble(adds, {"fast": {"us": 1.0, "same_repeated": False}}, {"eager": {"us": 28.0}}, {}, times, None,
                       data="repeated")
    assert bad["pass"] is False and len(table.errors(bad)) == 1 and run.exit_code([bad]) == 1


def test_xla_on_both_kinds_of_data():
    answer = {"us": 30.0, "compile_s": 1.0, "warm": {"us": 20.0}}
    assert xla.entry_of(answer, False) == {"us": 30.0, "compile_s": 1.0} and xla.entry_of(answer, True) == {"us": 20.0}
    assert xla.entry_of({"error": "no"}, True) == {"error": "no"} and "error" in xla.entry_of({"us": 30.0}, True)


def test_rows_come_before_what_goes_with_them():
    now = [100.0]
    time_left = budget.Budget(200, 10, lambda: now[0])
    # Ten rows of 4 s and 20 s for what is made once leave 140 s.
    assert time_left.before_rows(60) == 60 and time_left.before_rows(300) == 140
    now[0] = 231.0  # 9 s are left beside them
    assert time_left.before_rows(60) == 0 and time_left.passed() == 131
    time_left.begin_row()
    now[0] = 273.0  # 27 s: a whole row and nine without torch.compile are 26.5 s
    assert time_left.may_compile() and not time_left.is_over()
    now[0] = 274.0
    assert not time_left.may_compile()
    now[0] = 300.0
    assert time_left.is_over()


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
        return [assemble({"fast": 8.0}, {"eager": 56.0}) | {"name": workload.name}]

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


# ---- device files -------------------------------------------------------------


def test_random_programs_are_the_same_again_and_of_all_kinds():
    first, again = random_groups.programs(200), random_groups.programs(200)
    assert [p.text() for p in first] == [p.text() for p in again]
    assert len({p.text() for p in first}) == 200
    assert {p.name.partition("-")[2] for p in first} == {"loop", "rows", "columns", "transpose", "branches", "product"}
    halves = [cost_model.half(p.name) for p in first]
    assert halves.count("fit") > 80 and halves.count("held-out") > 80
    # A longer suite begins with the shorter one.
    assert [p.text() for p in random_groups.programs(20)] == [p.text() for p in first[:20]]


def test_cost_model_compiles_both_ways(tmp_path, monkeypatch):
    monkeypatch.setattr(seed2, "workloads", lambda: [seed2.adds(3, 64)])
    said = []
    cost_model.compile_all(str(tmp_path), str(BIN), "cuda:sm_90", "h200", said.append, 6)
    document = json.loads((tmp_path / "cost-model.json").read_text())
    assert len(document["programs"]) == 7 and "7 programs" in said[0]
    assert document["programs"]["adds-3x64"]["inputs"][0] == ["a0", "f32", [64]]
    for name in document["programs"]:
        for variant in ("fused", "alone"):
            assert (tmp_path / f"{name}.{variant}.fsn").is_file()
    groups = {v: (tmp_path / f"adds-3x64.{v}.mlir").read_text().count("fusion.group horizontal") for v in
              ("fused", "alone")}
    assert groups == {"fused": 1, "alone": 0}


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

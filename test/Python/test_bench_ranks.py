# ===- test_bench_ranks.py - fusion-bench on several GPUs, its parts ---------=== #
#
# Programs, figures, bars, tables and jobs of the suites overlap and train, without GPUs:
# numbers are worked out by hand, and jobs are small scripts that talk like fusion-run.
#
# ===----------------------------------------------------------------------=== #
"""Parts of the suites on several GPUs."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from fusion_compiler.bench.ranks import calibrate, compile as compiling, inputs, job, judge, measure, peers, programs, report, rows
from fusion_compiler.bench.ranks.programs import Input
from fusion_compiler.bench.ranks.rows import Bar
from fusion_compiler.errors import FusionError
from fusion_compiler.ir.module import bits16_to_float


# Programs.


def test_buckets_come_behind_the_last_product_of_their_turn():
    assert programs.turns(32, 8, early=False) == {4 * j + 3: [j] for j in range(8)}


def test_early_buckets_come_in_the_middle_of_their_turn():
    assert programs.turns(32, 8, early=True) == {4 * j + 1: [j] for j in range(8)}


def test_more_buckets_than_products_share_them():
    assert programs.turns(2, 4, early=False) == {0: [0, 1], 1: [2, 3]}


def test_reductions_and_their_absence_have_the_same_kernels():
    both, alone = (programs.reductions_beside_products(8, 8, 8, 4, 2, 16, 2, what) for what in ("both", "products"))
    for op in ("matmul", "neg", "cast", "add"):
        assert both.text.count(f"fusion.{op} ") == alone.text.count(f"fusion.{op} ") > 0
    assert both.text.count("fusion.all_reduce") == 2 and "all_reduce" not in alone.text


def test_reductions_alone_have_readers_where_asked():
    """A peer copies and the reader adds: without a reader there is nothing of it to time."""
    bare, read = (programs.reductions_beside_products(8, 8, 8, 4, 2, 16, 2, what).text
                  for what in ("reductions", "read reductions"))
    assert bare.count("fusion.all_reduce") == read.count("fusion.all_reduce") == 2
    assert bare.count("fusion.neg") == 0 and read.count("fusion.neg") == 2
    assert "return %r0, %r1" in bare and "return %n0, %n1" in read


def test_collectives_of_a_step_keep_buckets_attributes_and_types():
    text = """\
fusion.mesh @m(dp = 2)
  %1:2 = fusion.all_reduce mean, %0#1, %7 on @m[dp] {fusion.bucket = 3 : i64} : tensor<4x2xbf16>, tensor<3xf32> loc(#a)
    %9 = fusion.all_gather %1#0 dim = 0 on @m[dp] : (tensor<4x2xbf16>) -> tensor<8x2xbf16>
  %10 = fusion.add %9, %9 : tensor<8x2xbf16>
"""
    made = programs.collectives_of(text, 2)
    assert made.text == """\
fusion.mesh @m(dp = 2)
func.func @main(%c0_0: tensor<4x2xbf16> {fusion.name = "c0_0"}, %c0_1: tensor<3xf32> {fusion.name = "c0_1"}, \
%c1_0: tensor<4x2xbf16> {fusion.name = "c1_0"}) -> (tensor<4x2xbf16> {fusion.name = "r0_0"}, \
tensor<3xf32> {fusion.name = "r0_1"}, tensor<8x2xbf16> {fusion.name = "r1_0"}) {
  %r0:2 = fusion.all_reduce mean, %c0_0, %c0_1 on @m[dp] {fusion.bucket = 3 : i64} : tensor<4x2xbf16>, tensor<3xf32>
  %r1 = fusion.all_gather %c1_0 dim = 0 on @m[dp] : (tensor<4x2xbf16>) -> tensor<8x2xbf16>
  return %r0#0, %r0#1, %r1 : tensor<4x2xbf16>, tensor<3xf32>, tensor<8x2xbf16>
}
"""
    assert [(x.dtype, x.shape) for x in made.inputs] == [("bf16", (4, 2)), ("f32", (3,)), ("bf16", (4, 2))]


def test_rows_have_names_of_their_own():
    for make in rows.SUITES.values():
        names = [(row.name, variant.name) for row in make(2) for variant in row.ours]
        assert len(set(names)) == len(names)
        assert all(set(row.judged) <= {v.name for v in row.ours} for row in make(2))


def test_fewer_contenders():
    row = next(r for r in rows.SUITES["train"](2) if r.name == "gpt-124m").only(
        lambda name: name in ("one", "wire", "peer: ddp 25 compiled+graph"))
    assert [v.name for v in row.ours] == ["one", "wire"] and row.peers == ("ddp 25 compiled+graph",) and not row.apart
    # What is sent by itself is another variant's, which need not be measured.
    assert row.ours[1].wire_of.words == ("--mesh=dp=2", "--transport=nccl")


def test_nobody_takes_turns_where_all_have_failed():
    runner = measure.Runner(measure.Settings("", {}, ""), "")
    assert runner._turns(measure._Open()) == {}


# What is compiled.


def test_slow_device_has_another_link_and_no_measurements(tmp_path):
    base = tmp_path / "base.json"
    base.write_text(json.dumps({"name": "x", "comm": {"transports": [1], "links": [
        {"name": "nvlink", "base_us": 8, "beta_gbs": 365, "protocols": [{}]}, {"name": "net", "beta_gbs": 10}]}}))
    made = json.loads(open(compiling.slow_device(str(base), str(tmp_path))).read())
    slow = {"name": "nvlink", "base_us": 40.0, "beta_gbs": 29.0, "units": compiling.SLOW_UNITS,
            "send_gbs": compiling.SLOW_SEND_GBS}
    assert made["comm"]["links"] == [slow, {"name": "net", "beta_gbs": 10}]
    assert "transports" not in made["comm"]


def test_prediction_is_read_from_the_timeline():
    assert compiling.predicted_us("a\nremark: @main on 2 x h200: step 10769.0 us: computation 1, ...\n") == 10769.0
    assert compiling.predicted_us("nothing") is None


# Numbers.


def test_inputs_differ_by_rank_only_where_ranks_have_their_own(tmp_path):
    files = inputs.Files(str(tmp_path))
    own, same = Input("g", "bf16", (64,), "integers", per_rank=True), Input("g", "bf16", (64,), "integers")
    assert not np.array_equal(files.array(own, 0), files.array(own, 1))
    assert np.array_equal(files.array(same, 0), files.array(same, 1))
    assert files.words([own, same], 2)[1::2] == [f"g@0={files.path(own, 0)}", f"g@1={files.path(own, 1)}",
                                                 f"g={files.path(same)}"]
    assert np.array_equal(np.load(files.path(own, 1)), files.array(own, 1))


@pytest.mark.parametrize("fill, low, high", [("integers", -4, 4), ("below", 0, 6), ("square", 0, 1), ("one", 7, 7)])
def test_fills_keep_their_range(tmp_path, fill, low, high):
    array = inputs.Files(str(tmp_path)).array(Input("x", "f32", (10000,), fill, 1e-3 if fill == "square" else 7.0))
    assert low <= array.min() and array.max() <= high


def test_integers_are_no_zeros(tmp_path):
    array = bits16_to_float(inputs.Files(str(tmp_path)).array(Input("x", "bf16", (9000,), "integers")))
    assert set(array.tolist()) == set(range(-4, 5))


# Figures and bars.


def test_hidden_share_is_of_the_fastest_reduction():
    row = rows.behind(8, 8, 8, 4, 0.8)
    # Products 10, both 10.4: 0.4 of the 2 that the fastest transport takes alone is seen.
    rounds = {"both.auto": [10.4] * 7, "products": [10.0] * 7, "reductions.nccl": [2.0] * 7,
              "reductions.peer": [4.0] * 7, judge.PEER + "copy engine": [5.0] * 7}
    made = judge.judge(row, rounds)
    assert made["figures"]["hidden"] == {"value": 0.8, "low": 0.8, "high": 0.8,
                                         "of": ["both.auto", "products", "reductions.nccl"]}
    assert made["pass"] is True and made["bars"][0]["pass"] is True


def test_figures_compare_neighbours_in_time():
    row = rows.train("t", layers=1, hidden=8, heads=1, seq=8, vocab=8)
    # The clock drifts by 3 over the run; in every round the step takes 1.04 times one GPU's.
    drift = [1.0, 1.5, 2.0, 2.5, 3.0, 1.2, 1.7]
    rounds = {"one": drift, "dp.auto": [1.04 * d for d in drift], "shard.auto": [2 * d for d in drift]}
    made = judge.judge(row, rounds)
    assert made["judged"] == "dp.auto"
    assert made["figures"]["of_one"]["value"] == made["figures"]["of_one"]["low"] == 1.04
    assert [bar["pass"] for bar in made["bars"]] == [True, None, None] and made["pass"] is None


def test_the_fastest_step_with_a_clip_is_held_against_the_fastest_without():
    row = next(r for r in rows.SUITES["train"](2) if r.name == "gpt-124m")
    rounds = {"one": [1.0] * 7, "dp.auto": [1.04] * 7, "shard.auto": [1.0] * 7, "clip.auto": [1.1] * 7,
              "clip shard.auto": [1.005] * 7, judge.PEER + "ddp 25 compiled+graph": [2.0] * 7}
    made = judge.judge(row, rounds)
    assert made["figures"]["of_unclipped"]["of"] == ["clip shard.auto", "shard.auto"] and made["pass"] is True
    # A wrong result of the other program counts too; that of a slower one does not.
    assert judge.judge(row, rounds, wrong=["clip shard.auto"])["pass"] is False
    assert judge.judge(row, rounds, wrong=["clip.auto"])["pass"] is True
    del rounds["clip shard.auto"]
    assert judge.judge(row, rounds)["figures"]["of_unclipped"]["of"] == ["clip.auto", "shard.auto"]


def test_state_is_cut_for_a_clip_too():
    for name, transport in (("gpt-124m", "auto"), ("gpt-124m~slow", "nccl")):
        row = next(r for r in rows.SUITES["train"](2) if r.name == name)
        by_name = {variant.name: variant for variant in row.ours}
        clipped = by_name[f"clip shard.{transport}"]
        assert clipped.words == by_name[f"shard.{transport}"].words
        assert clipped.program is by_name[f"clip.{transport}"].program


def test_slow_steps_are_held_against_the_longer_of_computation_and_wire():
    row = rows.train("t", rows.SLOW, layers=1, hidden=8, heads=1, seq=8, vocab=8)
    rounds = {"one": [10.0, 12.0], "wire": [11.0, 11.0], "dp.nccl": [11.0, 12.0], "shard.nccl": [20.0, 20.0],
              "unfused": [14.0, 14.0]}
    made = judge.judge(row, rounds)
    assert made["figures"]["of_bound"]["value"] == 1.0  # 11 / 11 and 12 / 12
    assert made["figures"]["of_unfused"]["value"] == round((14 / 11 + 14 / 12) / 2, 4)
    assert [bar["pass"] for bar in made["bars"]] == [True, False] and made["pass"] is False


def test_a_wrong_result_passes_no_bar():
    row = rows.behind(8, 8, 8, 4, 0.8)
    rounds = {"both.auto": [10.0], "products": [10.0], "reductions.nccl": [1.0]}
    assert judge.judge(row, rounds)["pass"] is True
    assert judge.judge(row, rounds, wrong=["both.auto"])["pass"] is False


@pytest.mark.parametrize("bar, value, ends, holds", [
    (Bar("x", 1.01), 1.02, (0.99, 1.03), False), (Bar("x", 1.01, interval=True), 1.02, (0.99, 1.03), True),
    (Bar("x", 1.01, interval=True), 1.03, (1.02, 1.04), False), (Bar("x", 2, least=True), 2.0, (1.9, 2.1), True),
    (Bar("x", 2, least=True), 1.9, (1.8, 2.1), False), (Bar("x", 1), None, None, None)])
def test_bars(bar, value, ends, holds):
    assert bar.holds(value, ends) is holds


# What GPUs send each other.


def test_slowdowns_are_those_that_made_the_times():
    # Kernels 20 % slower beside collectives, collectives 10 % beside kernels. 1000 us of sending last 1100, in which
    # kernels lose 1100 * 0.2 / 1.2; 500 us of computing last 600, in which 600 * 0.1 / 1.1 is not sent.
    made = calibrate.slowdowns((5000, 1000, 5000 + 1100 / 6), (500, 2000, 2000 + 600 / 11))
    assert made == pytest.approx((0.2, 0.1), abs=1e-9)


def test_a_transport_without_times_is_left_out():
    results = {"nccl-all_reduce": {"ours": {"65536": {"us": 80.0}, "1048576": {"us": 160.0}, "64": {"error": "no"}}},
               "peer-all_gather": {"ours": {"65536": {"error": "no peer"}}}}
    assert calibrate.transports(results, 2, "nvlink") == [
        {"name": "nccl", "link": "nvlink", "ranks": 2, "ops": {"all_reduce": {"bytes": [65536, 1048576],
                                                                              "us": [10.0, 20.0]}}}]


def test_device_file_keeps_other_links_and_says_where_its_times_are_from():
    base = {"name": "x", "source": "Data sheet. comm.transports: old.", "comm": {
        "links": [{"name": "nvlink"}], "transports": [{"name": "nccl", "link": "net"}, {"name": "nccl", "link": "nvlink"}]}}
    made = calibrate.device_file(base, {}, 2, {"gpu": "H200"}, "2026-12-01")
    assert made["comm"]["transports"] == [{"name": "nccl", "link": "net"}]
    assert made["source"] == ("Data sheet. comm.transports: measured on 2 H200 of one host, on 2026-12-01, by "
                              "fusion-bench calibrate --ranks 2.")


# Tables.


def test_of_two_files_the_later_row_counts_unless_it_failed():
    first = {"suite": "overlap", "command": "one", "rows": [{"name": "a", "us": 1}, {"name": "b", "us": 1}]}
    second = {"suite": "overlap", "command": "two", "rows": [{"name": "b", "us": 2}, {"name": "a", "error": "no"},
                                                              {"name": "c"}]}
    made = report.merged([first, second])
    assert made["rows"] == [{"name": "a", "us": 1}, {"name": "b", "us": 2}, {"name": "c"}]
    assert made["commands"] == ["one", "two"]


def test_tables_show_predictions_errors_and_wrong_results():
    row = {"name": "r", "title": "Row", "kind": "behind", "judged": "a", "pass": False,
           "ours": {"a": {"us": 1500.0, "predicted_us": 1000.0}, "b": {"error": "no"},
                    "c": {"us": 2.0, "check": {"ok": False}}},
           "peers": {"p": {"us": 2000.0, "clock": "host"}},
           "figures": {"hidden": {"value": 0.5, "low": 0.4, "high": 0.6}},
           "bars": [{"bar": "hidden >= 0.8", "value": 0.5, "pass": False}]}
    text = report.markdown({"rows": [row], "environment": {}, "date": "today", "runs": 3, "command": "c"})
    assert "| ours: a | 1.500 (1.000) |" in text and "| ours: b | error |" in text
    assert "| ours: c | 0.002 WRONG |" in text and "| PyTorch: p | 2.000 host |" in text
    assert "| hidden (judged) | 0.500 [0.400, 0.600] |" in text and "| Row | a | hidden >= 0.8 | 0.50 | FAIL |" in text
    assert report.exit_code([row]) == 1
    assert report.exit_code([{"ours": {"b": {"error": "no"}}}]) == 4 and report.exit_code([{"ours": {"a": {}}}]) == 0


# Jobs.

_TALKER = """
import json, socket, sys, time
path, ranks, what = sys.argv[1], int(sys.argv[2]), sys.argv[3]
sides = []
for rank in range(ranks):
    side = socket.socket(socket.AF_UNIX); side.connect(path); sides.append(side)
    side.sendall(f"rank {rank}\\n".encode())
files = [side.makefile("r") for side in sides]
while True:
    lines = [file.readline() for file in files]
    if not lines[0]:
        break
    if what == "notes":
        print("fusion-run: note: by nccl, GPU 1 can't be opened\\n" * 2)
    if what == "dies":
        print("error: out of memory, rank 1"); sys.exit(6)
    if what == "hangs":
        time.sleep(100)
    count = int(lines[0].split()[-1])
    for rank, side in enumerate(sides):
        side.sendall((json.dumps({"us": [10.0 * (rank + 1)] * (count - 1) + [1000.0]}) + "\\n").encode())
"""


def talker(what: str, ranks: int = 2) -> job.Job:
    return job.Job("it", lambda path: [sys.executable, "-c", _TALKER, path, str(ranks), what], ranks)


def test_a_job_takes_as_long_as_its_slowest_rank():
    opened = talker("answers").connect()
    assert opened.time(3) == 20.0  # the medians are 10 and 20
    opened.close()
    assert opened._process.returncode == 0


def test_a_job_keeps_its_notes():
    opened = talker("notes").connect()
    opened.time(1)
    opened.close()
    assert opened.notes() == ["fusion-run: note: by nccl, GPU 1 can't be opened"]


def test_a_job_that_dies_says_its_error():
    opened = talker("dies").connect()
    with pytest.raises(FusionError, match="it: ended, exit status 6: error: out of memory, rank 1"):
        opened.time(3)


def test_a_job_that_hangs_is_killed():
    opened = talker("hangs").connect()
    with pytest.raises(FusionError, match="it: no answer to 'time' after 0.3 s"):
        opened.ask("time 3", 0.3)
    assert opened._process.returncode == -9


def test_a_job_that_never_comes_is_an_error():
    made = job.Job("it", lambda path: [sys.executable, "-c", "print('error: no GPU'); raise SystemExit(5)"], 2)
    with pytest.raises(FusionError, match="it: ended with exit status 5: error: no GPU"):
        made.connect()
    slow = job.Job("it", lambda path: [sys.executable, "-c", "import time; time.sleep(100)"], 2)
    with pytest.raises(FusionError, match="it: not ready after 0.3 s"):
        slow.connect(0.3)


# Peers.


class FakeRank:
    """What `answer` needs of PyTorch."""

    def __init__(self):
        self.torch = SimpleNamespace(cuda=SimpleNamespace(synchronize=lambda: None))

    def time(self, work, count):
        return [work.run()] * count


def test_peers_answer_and_keep_their_errors():
    def fails():
        raise RuntimeError("CUDA out of memory\nmore")

    on, opened = FakeRank(), {}
    made = {"ddp 25 eager": lambda: peers.Work(lambda: 7.0, host=True), "bad": fails}
    assert "seconds" in peers.answer("open ddp 25 eager", made, opened, on)
    assert peers.answer("time ddp 25 eager 3", made, opened, on) == {"us": [7.0] * 3, "host": True}
    assert peers.answer("open bad", made, opened, on) == {"error": "RuntimeError: CUDA out of memory"}
    assert peers.answer("time bad 3", made, opened, on) == {"error": "KeyError: 'bad'"}
    on.torch.cuda.empty_cache = lambda: None
    assert peers.answer("close", made, opened, on) == {} and not opened
    assert peers.answer("dance", made, opened, on) == {"error": "unknown request 'dance'"}


def test_sums_are_checked_element_by_element(tmp_path):
    """p + k * sum with one k for all: another k on one element is a wrong one."""
    files = inputs.Files(str(tmp_path))
    known = {"g0": Input("g0", "bf16", (64,), "integers", per_rank=True), "p0": Input("p0", "f32", (64,), "integers")}
    step = -sum(bits16_to_float(files.array(known["g0"], rank)) for rank in (0, 1))

    class Told:
        replays, spoil = 12, 0

        def ask(self, request, _seconds):
            words = request.split()
            if words[0] == "time":
                self.replays += 2 * int(words[1])
                return []
            for rank in (0, 1):
                (tmp_path / "out" / f"rank{rank}").mkdir(parents=True, exist_ok=True)
                after = files.array(known["p0"]) + self.replays * step
                after[int(np.flatnonzero(step)[-1])] += self.spoil * rank
                np.save(tmp_path / "out" / f"rank{rank}" / "p0.next.npy", after.astype(np.float32))
            return []

    told = Told()
    assert measure.check_sums(told, known, files, str(tmp_path / "out"), 2, 10000) == {
        "ok": True, "replays": 10000, "elements": 128, "wrong": 0}
    told.spoil = 1
    assert measure.check_sums(told, known, files, str(tmp_path / "out"), 2, 0) == {
        "ok": False, "replays": 10000, "elements": 128, "wrong": 1}

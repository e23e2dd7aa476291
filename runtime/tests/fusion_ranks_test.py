"""Programs of several ranks, run as a user does; see run_support.py."""

import json
import os
import pathlib
import socket
import subprocess
import tempfile
import unittest

import numpy as np

from run_support import BIN, main, make, results_of_collectives

LIMITS = ("--trust=all", "--init-timeout=20", "--collective-timeout=20")


def run(module, ranks, *arguments, environment=None):
    return subprocess.run(
        [BIN / "fusion-run", module, *LIMITS, "--ranks", str(ranks),
         *map(str, arguments)], capture_output=True, text=True, timeout=120,
        env={**os.environ, **(environment or {})})


class Ranks(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="fusion-ranks-test-")
        self.path = pathlib.Path(self.folder.name)
        self.out = self.path / "out"

    def tearDown(self):
        self.folder.cleanup()

    def expect(self, result, code, *parts):
        self.assertEqual(result.returncode, code, result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)
        if code not in (0, 1):
            self.assertTrue(result.stderr.startswith("error: "), result.stderr)
        return result

    def load(self, rank, name):
        return np.load(self.out / f"rank{rank}/{name}.npy")

    def collectives(self, sizes):
        """Every collective on a mesh against numpy; gives x and module."""
        n = int(np.prod(sizes))
        mesh = ",".join(f"{name}={size}" for name, size in zip("abc", sizes))
        module = make(f"collectives:{mesh}", self.path / f"{n}.fsn")
        x = np.random.default_rng(n).integers(-4, 5, (2 * n * n, 3 * n))
        np.save(self.path / "x.npy", x.astype("f4"))
        self.expect(run(module, n, "--input", f"x={self.path}/x.npy",
                        "--output-dir", self.out), 0)
        for rank in range(n):
            wanted = results_of_collectives(np.maximum(x, 0), sizes, rank)
            for name, value in wanted.items():
                np.testing.assert_array_equal(
                    self.load(rank, name), value,
                    f"{name} of rank {rank} of {sizes}")
        return module

    def test_ranges_lie_where_the_rank_says(self):
        for ranks in (2, 3):
            module = make("turned:%d" % ranks, self.path / "t.fsn")
            x = np.random.default_rng(ranks).integers(-4, 5, 32 * ranks)
            np.save(self.path / "x.npy", x.astype("f4"))
            self.expect(run(module, ranks, "--input",
                        f"x={self.path}/x.npy", "--output-dir", self.out), 0)
            for rank in range(ranks):
                np.testing.assert_array_equal(self.load(rank, "y"),
                                              np.maximum(x, 0))

    def test_every_collective_on_two_ranks(self):
        self.collectives((2,))

    def test_every_collective_on_three_ranks(self):
        self.collectives((3,))

    def test_every_collective_on_a_mesh(self):
        self.collectives((2, 3))

    def test_a_mesh_of_one_rank_needs_no_ranks(self):
        module = make("collectives:a=1", self.path / "one.fsn")
        np.save(self.path / "x.npy", np.ones((2, 3), "f4"))
        result = subprocess.run(
            [BIN / "fusion-run", module, *LIMITS, "--input",
             f"x={self.path}/x.npy", "--output-dir", self.out],
            capture_output=True, text=True, timeout=60)
        self.expect(result, 0)
        np.testing.assert_array_equal(np.load(self.out / "sum.npy"),
                                      np.ones((2, 3)))

    def test_one_rank_gets_a_tensor_of_its_own(self):
        module = make("collectives:a=2", self.path / "two.fsn")
        whole = np.ones((8, 6), "f4")
        np.save(self.path / "x.npy", whole)
        np.save(self.path / "own.npy", np.full((4, 6), 5, "f4"))
        self.expect(run(module, 2, "--input", f"x={self.path}/x.npy",
                        "--input", f"x@1={self.path}/own.npy",
                        "--output-dir", self.out), 0)
        np.testing.assert_array_equal(self.load(0, "sum"), np.full((4, 6), 6))
        self.expect(run(module, 2, "--input", f"x@1={self.path}/own.npy"), 2,
                    "input 'x'")
        self.expect(run(module, 2, "--input", f"x@2={self.path}/own.npy"), 2,
                    "no rank 2")
        self.expect(run(module, 2, "--input", f"z@1={self.path}/own.npy"), 2,
                    "no input 'z'")
        self.expect(run(module, 2, "--input", f"x={self.path}/x.npy",
                        "--input", f"x@1={self.path}/own.npy",
                        "--input", f"x@01={self.path}/own.npy"), 2,
                    "is given twice for rank 1")

    def test_other_ranks_need_a_tensor_beside_the_own_one(self):
        module = make("collectives:a=2", self.path / "two.fsn")
        np.save(self.path / "own.npy", np.full((4, 6), 5, "f4"))
        own = ("--input", f"x@1={self.path}/own.npy")
        self.expect(run(module, 2, *own), 2, "rank 0: input 'x'",
                    "is missing")
        self.expect(run(module, 2, *own, "--random-inputs", 1,
                        "--output-dir", self.out), 0)
        self.expect(run(module, 2, "--random-inputs", 1,
                        "--output-dir", self.path / "all"), 0)
        theirs = np.load(self.path / "all/rank1/rows.npy")
        np.testing.assert_array_equal(self.load(1, "rows")[:4], theirs[:4])
        np.testing.assert_array_equal(self.load(1, "rows")[4:],
                                      np.full((4, 6), 5))
        np.save(self.path / "odd.npy", np.ones((7, 6), "f4"))
        self.expect(run(module, 2, "--input", f"x={self.path}/odd.npy"), 2,
                    "[7, 6] can't be cut")

    def test_padding_is_zero_and_never_compared(self):
        """7 rows on 2 ranks: 4 and 3 and one of padding."""
        module = make("padded", self.path / "padded.fsn")
        x = np.arange(1, 8, dtype="f4")
        np.save(self.path / "x.npy", x)
        self.expect(run(module, 2, "--input", f"x={self.path}/x.npy",
                        "--output-dir", self.out), 0)
        np.testing.assert_array_equal(self.load(0, "y"), [2, 4, 6, 8])
        np.testing.assert_array_equal(self.load(1, "y"), [10, 12, 14, 0])
        good = self.path / "good"
        good.mkdir()
        np.save(good / "y.npy", 2 * x)
        self.expect(run(module, 2, "--input", f"x={self.path}/x.npy",
                        "--check", good), 0)
        np.save(good / "y.npy", 2 * x + np.eye(7)[5].astype("f4"))
        result = self.expect(run(module, 2, "--input", f"x={self.path}/x.npy",
                                 "--check", good), 1, "rank 1: outputs differ")
        self.assertIn("rank 0: check y: ok", result.stdout)
        self.assertIn("rank 1: check y: FAIL, 1 of 4", result.stdout)

    def test_what_is_left_of_another_run_is_not_expected(self):
        module = make("padded", self.path / "padded.fsn")
        x = np.arange(1, 8, dtype="f4")
        np.save(self.path / "x.npy", x)
        words = (module, 2, "--input", f"x={self.path}/x.npy", "--check",
                 self.out)
        for rank, part in enumerate(([2, 4, 6, 8], [10, 12, 14, 0])):
            (self.out / f"rank{rank}").mkdir(parents=True)
            np.save(self.out / f"rank{rank}/y.npy", np.array(part, "f4"))
        self.expect(run(*words), 0)
        # A file over all ranks beside them, right or wrong: which one is it?
        np.save(self.out / "y.npy", 2 * x)
        result = self.expect(run(*words), 2, "both say what is expected")
        self.assertIn(f"{self.out}/rank0/y.npy", result.stderr)
        self.assertIn(f"{self.out}/y.npy", result.stderr)
        self.assertNotIn("check y", result.stdout)
        # Of one rank too.
        (self.out / "rank0/y.npy").unlink()
        self.expect(run(*words), 2, "rank1/y.npy' and ")
        (self.out / "rank1/y.npy").unlink()
        self.expect(run(*words), 0)
        # Four ranks had other parts, and two of them fit here.
        (self.out / "y.npy").unlink()
        for rank in range(4):
            (self.out / f"rank{rank}").mkdir(exist_ok=True)
            np.save(self.out / f"rank{rank}/y.npy", np.zeros(2, "f4"))
        self.expect(run(*words), 2, "is of a run of more than 2 ranks")
        # Other folders and files are no matter.
        for rank in range(2, 4):
            (self.out / f"rank{rank}/y.npy").rename(
                self.out / f"rank{rank}/other.npy")
        for rank, part in enumerate(([2, 4, 6, 8], [10, 12, 14, 0])):
            np.save(self.out / f"rank{rank}/y.npy", np.array(part, "f4"))
        self.expect(run(*words), 0)

    def test_random_inputs_are_one_tensor_cut(self):
        module = make("padded", self.path / "padded.fsn")
        self.expect(run(module, 2, "--random-inputs", 7, "--output-dir",
                        self.out), 0)
        both = np.concatenate([self.load(0, "y"), self.load(1, "y")])
        self.assertEqual(both[7], 0)
        np.save(self.path / "x.npy", both[:7] / 2)
        again = self.path / "again"
        self.expect(run(module, 2, "--random-inputs", 7, "--output-dir", again),
                    0)
        np.testing.assert_array_equal(both[:4], np.load(again / "rank0/y.npy"))
        self.expect(run(module, 2, "--input", f"x={self.path}/x.npy",
                        "--check", self.out), 0)

    def test_runs_and_ranks_give_the_same_bits(self):
        module = make("overlap:3:50000:3", self.path / "o.fsn")
        rng = np.random.default_rng(5)
        for rank in range(3):
            np.save(self.path / f"x{rank}.npy",
                    rng.standard_normal(50000).astype("f4"))
        inputs = [word for rank in range(3) for word in
                  ("--input", f"x@{rank}={self.path}/x{rank}.npy")]
        self.expect(run(module, 3, *inputs, "--output-dir", self.out), 0)
        first = [self.load(rank, "g") for rank in range(3)]
        # Three times a sum in f64, rounded: the formula of the definition.
        x = [np.load(self.path / f"x{rank}.npy").astype("f8")
             for rank in range(3)]
        for _ in range(3):
            total = (x[0] + x[1] + x[2]).astype("f4").astype("f8")
            x = [total] * 3
        for rank in range(3):
            np.testing.assert_array_equal(first[rank], x[0].astype("f4"))
        self.expect(run(module, 3, *inputs, "--threads", 2, "--nan-check",
                        "--check", self.out), 0)

    def trace(self, module, *arguments):
        """By rank: spans of (stream, kind, start, end)."""
        self.expect(run(module, 2, "--random-inputs", 1, "--threads", 1,
                        "--profile", self.path / "t.json", *arguments), 0)
        events = json.loads((self.path / "t.json").read_text())["traceEvents"]
        self.assertEqual({e["pid"] for e in events}, {0, 1})
        return [[(e["tid"], e["cat"], e["ts"], e["ts"] + e["dur"])
                 for e in events if e["pid"] == rank] for rank in (0, 1)]

    def test_compute_and_communication_run_at_once(self):
        """A slow network: each collective takes 8 ms and little of it CPU.

        The step lasts little longer than the longer of the two. Other processes
        take the CPUs too, so the best of some tries counts.
        """
        module = make("overlap:2:100000:10:400", self.path / "o.fsn")
        slow = ["--inject", "all:link:50"]  # 400 KB each
        steps, beside = [], []
        for _ in range(8):
            for spans in self.trace(module, *slow):
                compute = [s for s in spans if s[1] == "launch"]
                collectives = [s for s in spans if s[1] == "collective"]
                self.assertEqual(len(compute), 4000)
                self.assertEqual(len(collectives), 10)
                self.assertEqual({s[0] for s in compute}, {0})
                self.assertEqual({s[0] for s in collectives}, {1})
                sums = [sum(s[3] - s[2] for s in kind)
                        for kind in (compute, collectives)]
                both = sum(max(0, min(a[3], b[3]) - max(a[2], b[2]))
                           for a in compute for b in collectives)
                step = max(s[3] for s in spans) - min(s[2] for s in spans)
                steps.append(step / max(sums))
                beside.append(both / min(sums))
            if min(steps) <= 1.15 and max(beside) >= 0.5:
                break
        self.assertLessEqual(min(steps), 1.15)
        self.assertGreaterEqual(max(beside), 0.5)

    def test_ranks_of_another_launcher_write_files_of_their_own(self):
        module = make("overlap:2:1000:2", self.path / "o.fsn")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        ranks = [subprocess.Popen(
            [BIN / "fusion-run", module, *LIMITS, "--random-inputs=1",
             "--profile", self.path / "t.json", "--output-dir", self.out],
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2",
                 "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)})
            for rank in range(2)]
        self.assertEqual([rank.wait(timeout=60) for rank in ranks], [0, 0])
        for rank in range(2):
            events = json.loads((self.path / f"t.rank{rank}.json").read_text())
            self.assertEqual({e["pid"] for e in events["traceEvents"]}, {rank})
            self.assertEqual(self.load(rank, "g").shape, (1000,))
        self.assertFalse((self.path / "t.json").exists())

    def test_a_failed_job_leaves_a_report_where_asked(self):
        module = make("overlap:3:1000:40", self.path / "o.fsn")
        report = self.path / "fault.json"
        self.expect(run(module, 3, "--random-inputs", 1, "--fault-report",
                        report, "--inject", "1:kill:30"), 7)
        answer = json.loads(report.read_text())
        self.assertEqual((answer["code"], answer["rank"]), (7, 1))
        self.assertIn("rank 1 was killed by signal 9", answer["cause"])
        self.assertEqual([r["rank"] for r in answer["ranks"]], [0, 1, 2])
        streams = answer["ranks"][1]["streams"]
        self.assertEqual(streams[1]["collectives"], 30)
        recent = streams[1]["recent"]
        # In its 30th collective: each is entered and left, after the one wait.
        self.assertEqual(len(recent), 60)
        self.assertEqual(recent[-1]["what"], "all_reduce 'collective63'")
        self.assertEqual(recent[-1]["in"], 63)
        self.assertEqual(recent[-2]["after"], 61)
        self.assertGreaterEqual(recent[0]["ms_before"], recent[-1]["ms_before"])
        report.unlink()
        self.expect(run(module, 3, "--random-inputs", 1, "--fault-report",
                        report), 0)
        self.assertFalse(report.exists())

    def test_bench_gives_each_rank_s_median(self):
        module = make("overlap:2:1000:2", self.path / "o.fsn")
        result = self.expect(run(module, 2, "--random-inputs", 1, "--bench", 5,
                                 "--json"), 0)
        answer = json.loads(result.stdout)
        self.assertEqual(answer["ranks"], 2)
        medians = [r["bench"]["median_us"] for r in answer["per_rank"]]
        self.assertEqual(answer["slowest_median_us"], max(medians))
        self.assertEqual(answer["per_rank"][1]["counts"]["collectives"], 2)
        # Each rank holds what the other sends: 1000 floats.
        staged = answer["per_rank"][1]["memory"]["communication"]
        self.assertGreaterEqual(staged, 4000)
        self.assertLess(staged, 32000)
        text = self.expect(run(module, 2, "--random-inputs", 1, "--bench", 5),
                           0).stdout
        self.assertEqual([line.split(":")[0] for line in text.splitlines()],
                         ["rank 0", "rank 1"])

    def test_inspect_and_the_null_backend_need_no_ranks(self):
        module = make("collectives:a=2,b=2", self.path / "c.fsn")
        text = subprocess.run([BIN / "fusion-run", module, "--inspect"],
                              capture_output=True, text=True, check=True).stdout
        self.assertIn("mesh @m of 4 ranks: a = 2 b = 2", text)
        self.assertIn("input 'x' f32 [8, 12] cut [a, b] []", text)
        self.assertIn("all_reduce sum on [a, b] f32 [8, 12]", text)
        self.assertIn("11 collectives", text)
        result = subprocess.run(
            [BIN / "fusion-run", module, "--backend=null", "--random-inputs=1",
             "--json"], capture_output=True, text=True, check=True)
        self.assertEqual(json.loads(result.stdout)["counts"]["collectives"], 11)

    def test_what_a_user_can_get_wrong(self):
        module = make("collectives:a=2", self.path / "c.fsn")
        environment = {k: "" for k in ()}
        for name in ("RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK",
                     "SLURM_PROCID"):
            os.environ.pop(name, None)
        alone = subprocess.run(
            [BIN / "fusion-run", module, *LIMITS, "--random-inputs=1"],
            capture_output=True, text=True, env={**os.environ, **environment})
        self.expect(alone, 2, "run it with --ranks 2")
        outside = subprocess.run(
            [BIN / "fusion-run", module, *LIMITS, "--random-inputs=1"],
            capture_output=True, text=True,
            env={**os.environ, "RANK": "2", "WORLD_SIZE": "2"})
        self.expect(outside, 2, "RANK='2' and WORLD_SIZE='2' are no rank")
        self.expect(run(module, 3, "--random-inputs", 1), 2,
                    "the module is for 2 ranks, --ranks gives 3")
        self.expect(run(module, 0), 2, "--ranks")
        self.expect(run(module, 1025), 2, "--ranks")
        self.expect(run(module, 2), 2, "input 'x'", "is missing")
        self.expect(run(module, 2, "--random-inputs", 1, "--inject", "1:what"),
                    2, "--inject")
        self.expect(run(module, 2, "--random-inputs", 1, "--inject", "2:kill"),
                    2, "no rank 2")
        conv = make("conv", self.path / "conv.fsn")
        self.expect(run(conv, 2, "--random-inputs", 1), 2,
                    "the module is for one rank")
        batch = make("batch", self.path / "batch.fsn")
        for rank in range(2):
            np.save(self.path / f"b{rank}.npy", np.ones((2 + rank, 3), "f4"))
        self.expect(run(batch, 2, *(word for rank in range(2) for word in (
            "--input", f"x@{rank}={self.path}/b{rank}.npy"))), 2,
            "the batch is 2 on rank 0 and 3 on rank 1")
        self.expect(run(batch, 2, "--input", f"x={self.path}/b0.npy",
                        "--output-dir", self.out), 0)
        np.testing.assert_array_equal(self.load(1, "y"), np.full((1, 3), 2))


if __name__ == "__main__":
    main()

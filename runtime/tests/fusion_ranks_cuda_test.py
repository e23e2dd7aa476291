"""Ranks on GPUs that are none: the tests' driver and NCCL; see run_support.py."""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

import numpy as np

from run_support import (BIN, FAKE_CUDA, main, make, results_of_collectives)

FOLDERS = f"{FAKE_CUDA}:{FAKE_CUDA.parent / 'fake-nccl'}"


class CudaRanks(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="fusion-ranks-cuda-")
        self.path = pathlib.Path(self.folder.name)
        self.out = self.path / "out"

    def tearDown(self):
        self.folder.cleanup()

    def command(self, module, ranks, *arguments):
        return [BIN / "fusion-run", module, "--trust=all", "--init-timeout=20",
                "--collective-timeout=20", "--ranks", str(ranks),
                *map(str, arguments)]

    def environment(self, settings="devices=8", nccl="", folders=FOLDERS):
        return {**os.environ, "LD_LIBRARY_PATH": folders,
                "FUSION_FAKE_CUDA": settings, "FUSION_FAKE_NCCL": nccl,
                "TMPDIR": str(self.path)}

    def run_ranks(self, module, ranks, *arguments, **environment):
        return subprocess.run(
            self.command(module, ranks, *arguments), capture_output=True,
            text=True, timeout=60, env=self.environment(**environment))

    def expect(self, result, code, *parts):
        self.assertEqual(result.returncode, code, result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)
        if code not in (0, 1):
            self.assertTrue(result.stderr.startswith("error: "), result.stderr)
        return result

    def within(self, seconds, *arguments, **environment):
        start = time.monotonic()
        result = self.run_ranks(*arguments, **environment)
        self.assertLess(time.monotonic() - start, seconds, result.stderr)
        return result

    def load(self, rank, name):
        return np.load(self.out / f"rank{rank}/{name}.npy")

    def collectives(self, sizes, *arguments, kind="", **environment):
        """Every collective on a mesh against numpy."""
        n = int(np.prod(sizes))
        mesh = ",".join(f"{name}={size}" for name, size in zip("abc", sizes))
        module = make(f"cuda:{kind}collectives:{mesh}", self.path / f"{n}.fsn")
        # Relu is a copy here.
        x = np.random.default_rng(n).integers(0, 5, (2 * n * n, 3 * n))
        np.save(self.path / "x.npy", x.astype("f4"))
        result = self.expect(self.run_ranks(
            module, n, "--input", f"x={self.path}/x.npy", "--output-dir",
            self.out, *arguments, **environment), 0)
        for rank in range(n):
            for name, value in results_of_collectives(x, sizes, rank).items():
                np.testing.assert_array_equal(
                    self.load(rank, name), value,
                    f"{name} of rank {rank} of {sizes}")
        return result

    def test_ranges_lie_where_the_rank_says(self):
        for ranks in (2, 3):
            module = make("cuda:turned:%d" % ranks, self.path / "t.fsn")
            x = np.random.default_rng(ranks).integers(-4, 5, 32 * ranks)
            np.save(self.path / "x.npy", x.astype("f4"))
            self.expect(self.run_ranks(module, ranks, "--input",
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

    def test_every_collective_command_by_command(self):
        self.collectives((2,), "--nan-check")

    def test_a_communicator_takes_the_least_that_is_said(self):
        self.collectives((2,), kind="few:", nccl="most=3")
        result = self.run_ranks(self.path / "2.fsn", 2, "--input",
                                f"x={self.path}/x.npy", nccl="most=5")
        self.assertIn("the wrong number of multiprocessors", result.stderr)

    def test_moves_go_by_copy_engines_reductions_through_nccl(self):
        for sizes in ((2,), (2, 3)):
            with self.subTest(sizes):
                result = self.collectives(sizes, kind="peer:")
                self.assertEqual(result.stderr, "")
                # One by one, the events of other commands do not matter.
                self.collectives(sizes, "--nan-check", kind="peer:")

    def test_without_peer_access_all_goes_through_nccl(self):
        result = self.collectives((2,), kind="peer:",
                                  settings="devices=8,peers=0")
        self.assertIn("note: copies between GPUs ('peer') are not possible, "
                      "all collectives go through NCCL: rank 0 can't share "
                      "its GPU's memory", result.stderr)

    def swap(self, steps=3):
        """So often, y becomes the sum of both ranks' y."""
        return make(f"cuda:peer:swap:64:{steps}", self.path / "s.fsn")

    def swap_inputs(self):
        words = []
        for rank in range(2):
            np.save(self.path / f"x{rank}.npy",
                    np.arange(64, dtype="f4") % 7 - 2 * rank)
            words += ["--input", f"x@{rank}={self.path}/x{rank}.npy"]
        return words

    def test_without_reductions_no_nccl_is_needed(self):
        folders = self.without_nccl()
        result = self.expect(self.run_ranks(
            self.swap(), 2, *self.swap_inputs(), "--output-dir", self.out,
            "--json", folders=folders), 0)
        x = np.arange(64, dtype="f4") % 7
        for rank in range(2):
            np.testing.assert_array_equal(self.load(rank, "y"),
                                          4 * (2 * x - 2))
        counts = json.loads(result.stdout)["per_rank"][0]["counts"]
        self.assertEqual(counts["collectives"], 3)
        # Without copies NCCL is missed.
        self.expect(self.within(10, self.swap(), 2, "--random-inputs", 1,
                                folders=folders,
                                settings="devices=8,peers=0"), 5,
                    "NCCL, which ranks on GPUs need, not found")

    def direct(self, steps=3):
        """The same, but each reads what the other has where it is."""
        return make(f"cuda:direct:64:{steps}", self.path / "d.fsn")

    def test_kernels_read_what_is_not_copied(self):
        module = self.direct()
        x = np.arange(64, dtype="f4") % 7
        folders = self.without_nccl()
        # One by one, each value has to be where an observer looks.
        for words in ((), ("--nan-check",)):
            result = self.expect(self.run_ranks(
                module, 2, *self.swap_inputs(), "--output-dir", self.out,
                "--json", *words, folders=folders), 0)
            for rank in range(2):
                np.testing.assert_array_equal(self.load(rank, "y"),
                                              4 * (2 * x - 2))
            counts = json.loads(result.stdout)["per_rank"][0]["counts"]
            self.assertEqual(counts["collectives"], 6)
        # Replays: what a rank reads is what the other has in this one.
        self.expect(self.run_ranks(module, 2, *self.swap_inputs(), "--bench",
                                   2, folders=folders), 0)
        # Without peer access NCCL brings the bytes.
        result = self.expect(self.run_ranks(
            module, 2, *self.swap_inputs(), "--output-dir", self.out,
            settings="devices=8,peers=0"), 0)
        self.assertIn("all collectives go through NCCL", result.stderr)
        for rank in range(2):
            np.testing.assert_array_equal(self.load(rank, "y"),
                                          4 * (2 * x - 2))

    def overlap(self, ranks=2, steps=3):
        """y doubles and g is summed over the ranks, so often."""
        return make(f"cuda:overlap:{ranks}:64:{steps}", self.path / "o.fsn")

    def test_kernels_and_collectives_of_a_step(self):
        x = [np.arange(64, dtype="f4") % 5 + rank for rank in range(2)]
        for rank in range(2):
            np.save(self.path / f"x{rank}.npy", x[rank])
        inputs = [word for rank in range(2) for word in
                  ("--input", f"x@{rank}={self.path}/x{rank}.npy")]
        result = self.expect(self.run_ranks(
            self.overlap(), 2, *inputs, "--output-dir", self.out, "--json"), 0)
        for rank in range(2):
            np.testing.assert_array_equal(self.load(rank, "y"), 8 * x[rank])
            # The first sum, which both then have: twice itself, twice.
            np.testing.assert_array_equal(self.load(rank, "g"),
                                          4 * (x[0] + x[1]))
        counts = json.loads(result.stdout)["per_rank"][1]["counts"]
        self.assertEqual((counts["launches"], counts["collectives"]), (3, 3))

    def test_all_ranks_replay_equally_often(self):
        result = self.expect(self.run_ranks(
            self.overlap(), 2, "--random-inputs", 1, "--bench", 2, "--json"), 0)
        answer = json.loads(result.stdout)
        benches = [each["bench"] for each in answer["per_rank"]]
        # 2 ms of a run that takes 50 us by the fake's clock.
        self.assertEqual([b["device_us"]["replays"] for b in benches],
                         [40, 40])
        self.assertAlmostEqual(answer["slowest_device_us"], 50, delta=0.1)
        self.assertEqual(answer["slowest_median_us"],
                         max(b["median_us"] for b in benches))

    def test_each_rank_needs_a_gpu_of_its_own(self):
        module = self.overlap()
        random = ("--random-inputs", 1)
        self.expect(self.within(10, module, 2, *random, settings="devices=1"),
                    2, "rank 1: there is no GPU 1 for this rank",
                    "the driver shows 1")
        self.expect(self.within(10, module, 2, *random,
                                settings="devices=2,twins=1"), 2,
                    "ranks 0, 1 have one device, GPU-00000000-0000-0000-0000-"
                    "000000000001")
        self.expect(self.within(10, module, 2, *random, "--device", "3,3"), 2,
                    "ranks 0, 1 have one device")
        self.expect(self.within(10, module, 2, *random, "--device", "3"), 2,
                    "--device names 1 GPUs, this host has a rank 1")
        self.expect(self.within(10, module, 2, *random, "--device", "3,"), 2,
                    "--device")
        self.expect(self.run_ranks(module, 2, *random, "--device", "3,1"), 0)

    def test_a_mesh_is_for_as_many_ranks(self):
        module = self.overlap()
        self.expect(self.run_ranks(module, 3, "--random-inputs", 1), 2,
                    "the module is for 2 ranks")
        alone = subprocess.run(
            [BIN / "fusion-run", module, "--trust=all", "--random-inputs=1"],
            capture_output=True, text=True, timeout=60, env=self.environment())
        self.expect(alone, 2, "run it with --ranks 2")

    def without_nccl(self):
        """The folders of libraries, before the system's that may have one."""
        empty = self.path / "empty"
        empty.mkdir(exist_ok=True)
        (empty / "libnccl.so.2").write_bytes(b"no library")
        return f"{FAKE_CUDA}:{empty}"

    def test_no_nccl_or_an_old_one(self):
        module, random = self.overlap(), ("--random-inputs", 1)
        self.expect(self.within(10, module, 2, *random,
                                folders=self.without_nccl()), 5,
                    "NCCL, which ranks on GPUs need, not found", "libnccl.so.2")
        self.expect(self.within(10, module, 2, *random, nccl="old"), 5,
                    "NCCL 2.17.5; install NCCL 2.18 or later")

    def test_an_nccl_that_does_not_come_up(self):
        self.expect(self.within(15, self.overlap(), 2, "--random-inputs", 1,
                                "--init-timeout", 2, nccl="init-hang"), 8,
                    "did not prepare its run in time (--init-timeout)")

    def test_a_rank_that_does_not_come_to_nccl_is_named(self):
        for rank in (0, 1):
            self.expect(self.within(
                15, self.overlap(), 2, "--random-inputs", 1, "--init-timeout",
                2, "--inject", f"{rank}:load-hang"), 8,
                f"rank {rank} did not prepare its run in time")

    def start(self, *arguments, module=None, **environment):
        """A job under way, and its ranks' processes."""
        job = subprocess.Popen(
            self.command(module or self.overlap(), 2, "--random-inputs", 1,
                         *arguments),
            stderr=subprocess.PIPE, text=True,
            env=self.environment(**environment))
        children = []
        while len(children) < 2:
            time.sleep(0.02)
            children = pathlib.Path(
                f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
        return job, list(map(int, children))

    def finish(self, job, children, code, part, seconds=10):
        start = time.monotonic()
        _, errors = job.communicate(timeout=30)
        self.assertLess(time.monotonic() - start, seconds)
        self.assertEqual(job.returncode, code, errors)
        self.assertIn(part, errors)
        for child in children:
            self.assertFalse(pathlib.Path(f"/proc/{child}").exists())

    def test_a_rank_that_is_stopped_while_nccl_comes_up_is_named(self):
        for rank in (0, 1):
            job, children = self.start("--init-timeout", 3, nccl="init-hang")
            time.sleep(1)
            os.kill(children[rank], signal.SIGSTOP)
            self.finish(job, children, 8,
                        f"rank {rank} did not prepare its run in time")

    def test_no_memory_for_nccl(self):
        self.expect(self.within(10, self.overlap(), 2, "--random-inputs", 1,
                                nccl="memory"), 6, "out of memory")

    def test_an_error_that_comes_up_by_itself(self):
        # Three collectives warm NCCL up, the fifth is one of the step's.
        result = self.within(10, self.overlap(), 2, "--random-inputs", 1,
                             nccl="error=5")
        self.expect(result, 7, "the network is gone")

    def test_ranks_that_fail_in_a_step(self):
        module, random = self.overlap(), ("--random-inputs", 1)
        limits = ("--collective-timeout", 2)
        for fault, code, part in (
                ("1:kill:2", 7, "rank 1 was killed by signal 9"),
                ("1:segv:2", 7, "rank 1 was killed by signal 11"),
                ("0:kill:1", 7, "rank 0 was killed by signal 9"),
                ("1:fail:3", 5, "rank 1: the library failed (injected)"),
                ("1:stop:2", 8, "rank 1 stands still")):
            with self.subTest(fault):
                self.expect(self.within(20, module, 2, *random, *limits,
                                        "--init-timeout", 30, "--output-dir",
                                        self.out, "--inject", fault), code,
                            part)
                self.assertFalse(self.out.exists())

    def test_a_rank_that_is_killed_or_stopped_while_steps_are_replayed(self):
        for module in (self.overlap(), self.swap(), self.direct()):
            for kind, code, part in (
                    (signal.SIGKILL, 7, "rank 1 was killed by signal 9"),
                    (signal.SIGSTOP, 8, "rank 1 stands still")):
                with self.subTest(f"{module.name} {part}"):
                    job, children = self.start(
                        "--bench", 1000000, "--collective-timeout", 2,
                        module=module)
                    time.sleep(1.5)  # both replay
                    self.assertIsNone(job.poll())
                    os.kill(children[1], kind)
                    self.finish(job, children, code, part)

    def test_a_rank_that_does_not_come_to_a_copy_of_the_other(self):
        # The other's stream waits for a word.
        for fault, code, part in (
                ("1:kill:2", 7, "rank 1 was killed by signal 9"),
                ("1:stop:2", 8, "rank 1 stands still"),
                ("1:fail:3", 5, "rank 1: the library failed (injected)")):
            with self.subTest(fault):
                for module in (self.swap(), self.direct()):
                    self.expect(self.within(20, module, 2, "--random-inputs",
                                            1, "--collective-timeout", 2,
                                            "--inject", fault), code, part)

    def test_no_memory_for_the_copies_of_one_rank(self):
        self.expect(self.within(10, self.swap(), 2, "--random-inputs", 1,
                                settings="devices=8,total=3000"), 6)

    def test_a_thousand_replays_give_the_same_bits(self):
        x = np.arange(64, dtype="f4") % 7
        for module in (self.swap(), self.direct()):
            self.expect(self.run_ranks(
                module, 2, *self.swap_inputs(), "--repeat", 1000,
                "--output-dir", self.out), 0)
            np.testing.assert_array_equal(self.load(0, "y"), 4 * (2 * x - 2))

    def test_words_of_the_device_are_for_who_watches(self):
        for limit in (0, 20):
            result = self.expect(self.run_ranks(
                self.swap(), 2, *self.swap_inputs(), "--output-dir", self.out,
                "--collective-timeout", limit), 0)
            self.assertEqual(result.stderr, "")
            np.testing.assert_array_equal(
                self.load(1, "y"),
                4 * (2 * (np.arange(64, dtype="f4") % 7) - 2))
        result = self.expect(self.run_ranks(
            self.swap(), 2, *self.swap_inputs(),
            settings="devices=8,cuMemHostRegister_v2=801"), 0)
        self.assertIn("the GPU can't tell how far it is in a step",
                      result.stderr)


if __name__ == "__main__":
    main()

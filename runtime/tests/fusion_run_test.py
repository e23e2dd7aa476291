"""Drives fusion-run and the Python binding as a user does; see run_support.py."""

import json
import os
import pathlib
import resource
import signal
import subprocess
import tempfile
import time
import unittest

import numpy as np

from run_support import BIN, main, make, run


class FusionRun(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="fusion-run-test-")
        self.path = pathlib.Path(self.folder.name)
        self.module = make("conv", self.path / "conv.fsn")
        self.x = (np.arange(2 * 4 * 36, dtype="f4") % 7 - 3).reshape(2, 4, 6, 6)
        np.save(self.path / "x.npy", self.x)

    def tearDown(self):
        self.folder.cleanup()

    def expect(self, result, code, *parts):
        self.assertEqual(result.returncode, code, result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)
        if code not in (0, 1):
            self.assertTrue(result.stderr.startswith("error: "), result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)

    def reference(self, x):
        weights = np.array([i * 7 % 5 - 2 for i in range(72)], "f4")
        weights = weights.reshape(4, 2, 3, 3)
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        y = np.zeros_like(x)
        for o in range(4):
            for c in range(2):
                for i in range(3):
                    for j in range(3):
                        y[:, o] += (weights[o, c, i, j]
                                    * padded[:, o // 2 * 2 + c, i:i + 6, j:j + 6])
        y += np.array([1, -2, 3, 0], "f4")[:, None, None]
        return 2 * np.maximum(y, 0)

    def test_output_is_right_and_batch_is_inferred(self):
        self.expect(run(self.module, "--input", f"x={self.path}/x.npy",
                        "--output-dir", self.path / "out"), 0)
        np.testing.assert_array_equal(
            np.load(self.path / "out/y.npy"), self.reference(self.x))

    def test_npz_stored_and_deflated(self):
        for save in (np.savez, np.savez_compressed):
            save(self.path / "in.npz", x=np.asfortranarray(self.x))
            out = self.path / save.__name__
            self.expect(run(self.module, "--inputs", self.path / "in.npz",
                            "--output-dir", out), 0)
            np.testing.assert_array_equal(
                np.load(out / "y.npy"), self.reference(self.x))

    def test_check_passes_and_fails(self):
        expected = self.reference(self.x)
        np.save(self.path / "y.npy", expected)
        arguments = (self.module, "--input", f"x={self.path}/x.npy",
                     "--check", self.path)
        self.expect(run(*arguments), 0)
        expected.flat[17] += 1
        np.save(self.path / "y.npy", expected)
        result = run(*arguments, "--json")
        self.expect(result, 1)
        check = json.loads(result.stdout)["check"][0]
        self.assertEqual((check["differing"], check["first_index"]), (1, 17))
        self.assertEqual(check["max_abs"], 1)
        expected.flat[17] = np.nan
        np.save(self.path / "y.npy", expected)
        self.expect(run(*arguments), 1)
        np.save(self.path / "y.npy", expected.astype("f8"))
        self.expect(run(*arguments), 1, "another type or shape")

    def test_wrong_inputs_are_usage(self):
        save = lambda array: np.save(self.path / "bad.npy", array)
        given = ("--input", f"x={self.path}/bad.npy")
        save(self.x.astype("f8"))
        self.expect(run(self.module, *given), 2, "'x'", "f32", "f64")
        save(self.x[:, :3])
        self.expect(run(self.module, *given), 2, "[B, 4, 6, 6]", "[2, 3, 6, 6]")
        save(np.zeros((5, 4, 6, 6), "f4"))
        self.expect(run(self.module, *given), 2, "batch 5", "1..4")
        save(np.zeros((0, 4, 6, 6), "f4"))
        self.expect(run(self.module, *given), 2, "[0, 4, 6, 6]")
        self.expect(run(self.module, "--input", f"z={self.path}/x.npy"), 2,
                    "no input 'z'", "'x'")
        self.expect(run(self.module), 2, "'x'", "is missing")
        self.expect(run(self.module, "--input", "x=/nowhere.npy"), 2, "nowhere")
        self.expect(run(self.module, "--input", "x"), 2, "NAME=FILE")

    def test_malformed_npy_is_usage(self):
        good = (self.path / "x.npy").read_bytes()
        bad = self.path / "bad.npy"
        cases = [b"", good[:50], good[:-1], good + b"x", b"PK" + good,
                 good.replace(b"<f4", b"|O8"), good.replace(b"<f4", b">f4"),
                 good.replace(b"(2,", b"(-2,", 1), good.replace(b"'shape'", b"'shard'"),
                 good[:6] + b"\x03\x00" + good[8:]]
        for data in cases:
            bad.write_bytes(data)
            self.expect(run(self.module, "--input", f"x={bad}"), 2, "bad.npy")
        np.save(bad, np.array([{}], dtype=object), allow_pickle=True)
        self.expect(run(self.module, "--input", f"x={bad}"), 2)
        huge = good.replace(b"(2, 4, 6, 6)", b"(4194305, 4194305, 211106198978564)")
        bad.write_bytes(huge)
        self.expect(run(self.module, "--input", f"x={bad}"), 2)

    def test_bad_options_are_usage(self):
        for arguments in (["--frobnicate"], ["--threads", "0"], ["--bench", "x"],
                          ["--memory-limit", "many"], ["--backend", "gpu"],
                          ["--trust", "none"], ["--op-timeout", "-1"], ["--json=1"], ["--batch"],
                          ["second.fsn"], ["-x"]):
            self.expect(run(self.module, *arguments), 2)
        self.expect(run(), 2)
        self.assertEqual(run("--help").returncode, 0)

    def test_help_names_every_option(self):
        text = run("--help").stdout
        for option in ("input inputs random-inputs batch output-dir check backend "
                       "autotune threads op-timeout find-fault memory-limit trust bench json profile inspect "
                       "nan-check help version").split():
            self.assertIn("--" + option, text)

    def test_damaged_module_is_rejected(self):
        data = bytearray(self.module.read_bytes())
        data[-100] ^= 1
        self.module.write_bytes(data)
        self.expect(run(self.module, "--random-inputs", 1), 4, "damaged")
        self.expect(run(self.module, "--inspect"), 4, "damaged")
        self.expect(run(self.path / "none.fsn"), 2, "none.fsn")

    def test_trust(self):
        self.module.chmod(0o666)
        arguments = (self.module, "--random-inputs", 1)
        self.expect(run(*arguments), 4, "can be written by others", "--trust=all")
        self.expect(run(*arguments, "--trust=all"), 0)
        self.expect(run(*arguments, "--backend=null"), 0)
        self.expect(run(self.module, "--inspect"), 0)

    def test_memory_limit(self):
        result = run(self.module, "--random-inputs", 1, "--memory-limit", 100)
        self.expect(result, 6, "4608", "limit is 100", "'call0'")
        self.expect(run(self.module, "--random-inputs", 1,
                        "--memory-limit", "16MiB"), 0)

    def test_null_backend_counts(self):
        result = run(self.module, "--random-inputs", 1, "--backend=null", "--json")
        self.expect(result, 0)
        counts = json.loads(result.stdout)["counts"]
        self.assertEqual((counts["launches"], counts["calls"], counts["tails"]),
                         (1, 1, 1))

    def test_random_inputs_are_reproducible(self):
        outputs = []
        for name, seed in (("a", 7), ("b", 7), ("c", 8)):
            self.expect(run(self.module, "--random-inputs", seed, "--output-dir",
                            self.path / name), 0)
            outputs.append(np.load(self.path / name / "y.npy"))
        np.testing.assert_array_equal(outputs[0], outputs[1])
        self.assertFalse(np.array_equal(outputs[0], outputs[2]))
        self.assertEqual(outputs[0].shape[0], 4)

    def test_nan_check_names_the_command(self):
        poison = make("poison", self.path / "poison.fsn")
        result = run(poison, "--random-inputs", 1, "--nan-check")
        self.expect(result, 1, "command 1 'launch1'")
        self.expect(run(self.module, "--random-inputs", 1, "--nan-check"), 0)
        # A NaN that comes from outside is nobody's fault.
        self.x[0, 0, 0, 0] = np.nan
        np.save(self.path / "x.npy", self.x)
        self.expect(run(self.module, "--input", f"x={self.path}/x.npy",
                        "--nan-check"), 0)

    def test_profile_is_a_trace_of_each_command(self):
        trace = self.path / "trace.json"
        self.expect(run(self.module, "--random-inputs", 1, "--profile", trace), 0)
        events = json.loads(trace.read_text())["traceEvents"]
        self.assertEqual([e["name"] for e in events], ["call0", "launch1"])
        self.assertTrue(all(e["dur"] >= 0 for e in events))

    def test_bench_reports_percentiles(self):
        result = run(self.module, "--random-inputs", 1, "--bench", 50, "--json",
                     "--threads", 1)
        self.expect(result, 0)
        bench = json.loads(result.stdout)["bench"]
        self.assertEqual(bench["runs"], 50)
        self.assertLessEqual(bench["p10_us"], bench["median_us"])
        self.assertLessEqual(bench["median_us"], bench["p90_us"])

    def test_unwritable_output(self):
        self.expect(run(self.module, "--random-inputs", 1, "--output-dir",
                        "/proc/nothing"), 2, "/proc/nothing")
        out = self.path / "out"
        out.mkdir()
        (out / "y.npy").symlink_to(self.path / "elsewhere")
        self.expect(run(self.module, "--random-inputs", 1, "--output-dir", out),
                    2, "symbolic link")
        self.assertFalse((self.path / "elsewhere").exists())

    def test_full_disk_keeps_the_old_output(self):
        out = self.path / "out"
        out.mkdir()
        (out / "y.npy").write_text("old")

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))

        # The null backend: the limit would also hit the anonymous file that
        # native code lies in.
        result = run(self.module, "--random-inputs", 1, "--backend=null",
                     "--output-dir", out, preexec_fn=limit)
        self.expect(result, 6, "y.npy")
        self.assertEqual((out / "y.npy").read_text(), "old")
        self.assertEqual(os.listdir(out), ["y.npy"])

    def test_closed_and_full_stdout(self):
        with open("/dev/full", "w") as full:
            result = subprocess.run([BIN / "fusion-run", self.module, "--inspect"],
                                    stdout=full, stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(result.returncode, 6)
        command = f"'{BIN}/fusion-run' '{self.module}' --inspect"
        closed = subprocess.run(["sh", "-c", command + " >&-"], timeout=60,
                                stderr=subprocess.PIPE)
        self.assertEqual(closed.returncode, 6)
        pipe = subprocess.run(
            ["bash", "-c", f"{command} | true; exit ${{PIPESTATUS[0]}}"],
            timeout=60, stderr=subprocess.PIPE)
        self.assertIn(pipe.returncode, (0, 141))
        self.assertEqual(pipe.stderr, b"")

    def test_interrupt_is_an_ordered_stop(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = subprocess.Popen(
                [BIN / "fusion-run", self.module, "--random-inputs", "1",
                 "--threads", "1", "--bench", "100000000"],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            time.sleep(1)
            process.send_signal(number)
            _, errors = process.communicate(timeout=10)
            self.assertEqual(process.returncode, 128 + number, errors)
            self.assertIn(b"interrupted", errors)

    def test_a_kernel_that_never_ends_on_the_cpu(self):
        spin = make("spin", self.path / "spin.fsn")
        start = time.monotonic()
        result = run(spin, "--random-inputs", 1, "--op-timeout", 1, "--output-dir",
                     self.path / "out")
        self.assertLess(time.monotonic() - start, 6)
        self.expect(result, 8, "within 1 s", "--op-timeout")
        self.assertFalse((self.path / "out").exists())
        self.expect(run(self.module, "--random-inputs", 1, "--op-timeout", 1), 0)

    def test_truncation_while_mapped_is_no_crash(self):
        process = subprocess.Popen(
            [BIN / "fusion-run", self.module, "--random-inputs", "1",
             "--threads", "1", "--bench", "100000000"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(1)
        os.truncate(self.module, 100)
        _, errors = process.communicate(timeout=10)
        self.assertEqual(process.returncode, 4, errors)
        self.assertIn(b"module file", errors)

    def test_address_space_limit(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (1 << 27, 1 << 27))

        result = run(self.module, "--random-inputs", 1, preexec_fn=limit)
        # 127: the system's loader found no room for the libraries.
        self.assertIn(result.returncode, (0, 6, 127), result.stderr)


class Binding(unittest.TestCase):
    def setUp(self):
        from fusion_compiler import runtime
        self.runtime = runtime
        self.folder = tempfile.TemporaryDirectory(prefix="fusion-binding-test-")
        self.module = make("conv", pathlib.Path(self.folder.name) / "conv.fsn")

    def tearDown(self):
        self.folder.cleanup()

    def test_run_equals_the_tool(self):
        module = self.runtime.load(self.module)
        self.assertEqual(module.inputs[0].shape, ((1, 0), 4, 6, 6))
        session = module.session(threads=1)
        x = (np.arange(3 * 144, dtype="f4") % 5 - 2).reshape(3, 4, 6, 6)
        y = session.run({"x": x})["y"]
        np.testing.assert_array_equal(y, FusionRun.reference(None, x))
        mine = np.zeros_like(y)
        self.assertIs(session.run({"x": x}, {"y": mine})["y"], mine)
        np.testing.assert_array_equal(mine, y)
        self.assertEqual(session.counters["runs"], 2)

    def test_outputs_lie_in_one_piece(self):
        from types import SimpleNamespace as Raw
        def info(name, dtype, *dims):
            return self.runtime.TensorInfo(Raw(
                name=name, dtype=dtype, rank=len(dims), donated_to=-1,
                shape=[Raw(scale=scale, base=base) for scale, base in dims]))
        infos = [info(b"a", 1, (1, 0), (0, 5)), info(b"b", 3, (0, 300)),
                 info(b"none", 0, (0, 0)), info(b"c", 1, (1, 0), (0, 5)),
                 info(b"one", 0)]
        blocks = []
        def allocate(size): # at an odd address
            blocks.append(np.zeros(size + 1, np.uint8))
            return blocks[-1][1:]
        arrays = self.runtime._empty_arrays(infos, 7, allocate)
        self.assertEqual({name: (array.shape, array.dtype.str)
                          for name, array in arrays.items()},
                         {"a": ((7, 5), "<f4"), "b": ((300,), "<u2"),
                          "none": ((0,), "<f8"), "c": ((7, 5), "<f4"),
                          "one": ((), "<f8")})
        start = arrays["a"].ctypes.data
        self.assertEqual(start % 256, 0)
        # 140 bytes take 256, 600 take 768.
        self.assertEqual([arrays[name].ctypes.data - start
                          for name in ("b", "c", "one")], [256, 1024, 1280])
        for i, array in enumerate(arrays.values()):
            array[...] = i
        self.assertEqual([array.sum() for array in arrays.values()],
                         [0, 300, 0, 3 * 35, 4])
        for bad in (lambda size: np.zeros(size - 1, np.uint8),
                    lambda size: np.zeros(size, np.float32)):
            with self.assertRaises(self.runtime.FusionError) as raised:
                self.runtime._empty_arrays(infos, 7, bad)
            self.assertEqual(raised.exception.code, 2)

    def test_empty_outputs_receive_results(self):
        module = self.runtime.load(self.module)
        session = module.session(threads=1)
        x = (np.arange(3 * 144, dtype="f4") % 5 - 2).reshape(3, 4, 6, 6)
        mine = module.empty_outputs(3)
        self.assertIs(session.run({"x": x}, mine)["y"], mine["y"])
        np.testing.assert_array_equal(mine["y"], session.run({"x": x})["y"])
        self.assertEqual(module.empty_outputs()["y"].shape[0], module.max_batch)
        for bad in (0, -1, module.max_batch + 1, 2.5, "3"):
            with self.assertRaises(self.runtime.FusionError) as raised:
                module.empty_outputs(bad)
            self.assertEqual(raised.exception.code, 2)

    def test_errors_have_codes(self):
        module = self.runtime.load(self.module)
        session = module.session(backend="null")
        for inputs in ({}, {"x": np.zeros((1, 4, 6, 6))},
                       {"x": np.zeros((9, 4, 6, 6), "f4")}, {"y": 1}):
            with self.assertRaises(self.runtime.FusionError) as raised:
                session.run(inputs)
            self.assertEqual(raised.exception.code, 2)
        with self.assertRaises(self.runtime.FusionError) as raised:
            self.runtime.load_bytes(b"no module")
        self.assertEqual(raised.exception.code, 4)
        with self.assertRaises(self.runtime.FusionError) as raised:
            self.runtime.load_bytes(self.module.read_bytes()).session()
        self.assertEqual(raised.exception.code, 4)

if __name__ == "__main__":
    main()

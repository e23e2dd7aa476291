"""Drives fusion-run and the Python binding as a user does.

Usage: fusion_run_test.py BIN_DIR LIBRARY FAKE_CUDA (ctest passes them). FAKE_CUDA is
the folder of the tests' CUDA driver.
"""

import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

import numpy as np

BIN = pathlib.Path(sys.argv[1])
LIBRARY = sys.argv[2]
FAKE_CUDA = pathlib.Path(sys.argv[3])
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))


def run(*arguments, **options):
    return subprocess.run(
        [BIN / "fusion-run", *map(str, arguments)], capture_output=True,
        text=True, timeout=60, **options)


def make(kind, path):
    subprocess.run([BIN / "fusion-test-module", kind, path], check=True)
    return path


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
                          ["--trust", "none"], ["--json=1"], ["--batch"],
                          ["second.fsn"], ["-x"]):
            self.expect(run(self.module, *arguments), 2)
        self.expect(run(), 2)
        self.assertEqual(run("--help").returncode, 0)

    def test_help_names_every_option(self):
        text = run("--help").stdout
        for option in ("input inputs random-inputs batch output-dir check backend "
                       "threads memory-limit trust bench json profile inspect "
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


class Cuda(unittest.TestCase):
    """The cuda backend on the tests' driver."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="fusion-cuda-test-")
        self.path = pathlib.Path(self.folder.name)
        self.module = make("cuda", self.path / "cuda.fsn")

    def tearDown(self):
        self.folder.cleanup()

    def fake(self, *arguments, settings="", folder=FAKE_CUDA):
        environment = {**os.environ, "LD_LIBRARY_PATH": str(folder),
                       "FUSION_FAKE_CUDA": settings}
        return run(self.module, "--random-inputs", 1, *arguments,
                   env=environment)

    def refused(self, result, code, part):
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertTrue(result.stderr.startswith("error: "), result.stderr)
        self.assertIn(part, result.stderr)

    def test_the_target_chooses_the_backend(self):
        result = self.fake("--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        report = json.loads(result.stdout)
        self.assertEqual(report["backend"], "cuda")
        self.assertEqual(report["counts"]["launches"], 2)
        self.assertEqual(self.fake("--backend", "cuda").returncode, 0)
        self.refused(self.fake("--backend", "cpu"), 4, "--target=cpu")

    def test_bench_has_device_times(self):
        result = self.fake("--bench", 7, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        bench = json.loads(result.stdout)["bench"]
        self.assertEqual(bench["runs"], 7)
        self.assertGreater(bench["median_us"], 0)
        # The fake's clock goes on by 50 us a run.
        for name in ("median", "p10", "p90"):
            self.assertAlmostEqual(bench["device_us"][name], 50, delta=0.1)
        self.assertIn("device time", self.fake("--bench", 7).stdout)

    def test_drivers_that_do_not_serve(self):
        self.refused(self.fake(settings="init=34"), 5, "stub")
        self.refused(self.fake(settings="init=100"), 5, "no GPU")
        self.refused(self.fake(settings="devices=0"), 5, "no GPU")
        self.refused(self.fake(settings="version=11080"), 5,
                     "supports CUDA 11.8, 12.0")
        self.refused(self.fake(settings="sm=80"), 5, "older")
        self.refused(self.fake("--device", 1), 2, "no GPU 1")
        self.refused(self.fake(settings="total=100"), 6, "the GPU has 100")

    def test_no_driver(self):
        empty = self.path / "empty"
        empty.mkdir()
        (empty / "libcuda.so.1").write_bytes(b"no library")
        result = self.fake(folder=empty)
        # The loader goes on to the system's folders only without this file.
        self.refused(result, 5, "libcuda.so.1")
        # No GPU is needed to look, to count or to compute on the CPU.
        self.assertEqual(run(self.module, "--inspect").returncode, 0)
        self.assertEqual(self.fake("--backend", "null",
                                   folder=empty).returncode, 0)

    def test_inspect_shows_what_the_assembler_said(self):
        text = run(self.module, "--inspect").stdout
        self.assertIn("cuda:sm_90", text)
        self.assertIn("32 threads, 24 registers, 8 bytes spilled, 128 bytes "
                      "shared", text)

    def test_binding_runs_on_arrays_of_the_device(self):
        script = textwrap.dedent("""
            import ctypes, sys, types
            import numpy as np
            library, package, module, fake = sys.argv[1:]
            fusion = types.ModuleType("fusion_compiler")
            fusion.__path__ = [package]
            sys.modules["fusion_compiler"] = fusion
            from fusion_compiler import runtime
            runtime.use_library(library)
            cuda = ctypes.CDLL(fake)
            cuda.fakeCudaAllocate.restype = ctypes.c_void_p
            cuda.fakeCudaAllocate.argtypes = [ctypes.c_uint64, ctypes.c_int]
            for name in ("fakeCudaWrite", "fakeCudaRead"):
                getattr(cuda, name).argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_uint64]
            cuda.fakeCudaCount.restype = ctypes.c_uint64

            class Array:
                def __init__(self, strides=None):
                    self.pointer = cuda.fakeCudaAllocate(256, 0)
                    self.__cuda_array_interface__ = dict(
                        shape=(64,), typestr="<f4", data=(self.pointer, False),
                        strides=strides, version=3)
                def numpy(self):
                    result = np.empty(64, "f4")
                    cuda.fakeCudaRead(result.ctypes.data, self.pointer, 256)
                    return result

            session = runtime.load(module).session()
            values = np.arange(64, dtype="f4") - 32
            expected = 2 * np.maximum(values, 0)
            np.testing.assert_array_equal(session.run({"x": values})["y"], expected)
            uploads = cuda.fakeCudaCount(b"cuMemcpyHtoDAsync_v2")
            x, y, z = Array(), Array(), Array()
            cuda.fakeCudaWrite(x.pointer, values.ctypes.data, 256)
            assert session.run({"x": x}, {"y": y})["y"] is y
            np.testing.assert_array_equal(y.numpy(), expected)
            session.enqueue({"x": x}, {"y": z})
            np.testing.assert_array_equal(z.numpy(), expected)
            assert cuda.fakeCudaCount(b"cuMemcpyHtoDAsync_v2") == uploads
            for bad in (Array(strides=(8,)), Array(strides=(-4,))):
                for arguments in (({"x": bad}, {"y": y}), ({"x": x}, {"y": bad})):
                    try:
                        session.run(*arguments)
                    except runtime.FusionError as error:
                        assert error.code == 2, error
                    else:
                        raise AssertionError("accepted strides")
            try:
                session.enqueue({"x": values}, {"y": y})
            except runtime.FusionError as error:
                assert error.code == 2 and "host" in str(error), error
            else:
                raise AssertionError("accepted the host's memory")
            print("done")
        """)
        package = (pathlib.Path(__file__).resolve().parents[2] / "python"
                   / "fusion_compiler")
        result = subprocess.run(
            [sys.executable, "-c", script, LIBRARY, str(package),
             str(self.module), str(FAKE_CUDA / "libcuda.so.1")],
            capture_output=True, text=True, timeout=60)
        self.assertEqual((result.returncode, result.stdout), (0, "done\n"),
                         result.stderr)


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
    import types
    package = types.ModuleType("fusion_compiler")
    package.__path__ = [str(pathlib.Path(__file__).resolve().parents[2]
                            / "python" / "fusion_compiler")]
    sys.modules["fusion_compiler"] = package  # without the frontends' imports
    from fusion_compiler import runtime
    runtime.use_library(LIBRARY)
    unittest.main(argv=sys.argv[:1])

"""fusion-run and the Python binding on the tests' CUDA driver; see run_support.py."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

import numpy as np

from run_support import BIN, FAKE_CUDA, LIBRARY, main, make, run


class Cuda(unittest.TestCase):
    """The cuda backend on the tests' driver."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="fusion-cuda-test-")
        self.path = pathlib.Path(self.folder.name)
        self.module = make("cuda", self.path / "cuda.fsn")

    def tearDown(self):
        self.folder.cleanup()

    def fake(self, *arguments, settings="", folder=FAKE_CUDA, module=None, **variables):
        environment = {**os.environ, "LD_LIBRARY_PATH": str(folder),
                       "FUSION_FAKE_CUDA": settings, **variables}
        return run(module or self.module, "--random-inputs", 1, *arguments,
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

    def test_steps_have_data_of_their_own(self):
        """y = 2 max(x, 0); nothing is donated."""
        x = np.arange(3 * 64, dtype="f4").reshape(3, 64) - 100
        file, out = self.path / "x.npy", self.path / "out"
        np.save(file, x)
        result = self.fake("--steps", 3, "--input", f"x={file}",
                           "--output-dir", out)
        self.assertEqual(result.returncode, 0, result.stderr)
        np.testing.assert_array_equal(np.load(out / "y.npy"),
                                      2 * np.maximum(x, 0))
        self.refused(self.fake("--steps", 4, "--input", f"x={file}"), 2,
                     "is not a tensor for each of 4 steps")
        self.refused(self.fake("--input", f"x={file}"), 2, "expected shape")
        self.refused(self.fake("--steps", 3, "--bench", 2), 2,
                     "--steps goes with none of --bench")
        self.refused(self.fake("--steps", 0), 2, "a number of runs")

    def test_drivers_that_do_not_serve(self):
        self.refused(self.fake(settings="init=34"), 5, "stub")
        self.refused(self.fake(settings="init=100"), 5, "no GPU")
        self.refused(self.fake(settings="devices=0"), 5, "no GPU")
        self.refused(self.fake(settings="version=11080"), 5,
                     "supports CUDA 11.8, 12.0")
        self.refused(self.fake(settings="cuModuleLoadDataEx=222,sm=100"), 5,
                     "PTX is of version 8.0, newer than the driver, which supports "
                     "CUDA 12.8")
        self.refused(self.fake(CUDA_VISIBLE_DEVICES=""), 5, "CUDA_VISIBLE_DEVICES")
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

    def within(self, seconds, *arguments, **options):
        """The result of a process that ends in time."""
        start = time.monotonic()
        result = self.fake(*arguments, **options)
        self.assertLess(time.monotonic() - start, seconds, result.stderr)
        self.assertLessEqual(result.stderr.count("\n"), 1, result.stderr)
        return result

    def test_other_gpus(self):
        result = self.within(1, settings="sm=80")
        self.refused(result, 4, "the module has sm_90, the GPU is 'Fake GPU' (sm_80)")
        # A later one: the driver compiles the PTX; a lie about the cubin: too.
        self.assertEqual(self.fake(settings="sm=100").returncode, 0)
        self.assertEqual(self.fake(settings="cuModuleLoadDataEx=209").returncode, 0)
        self.refused(self.fake(settings="cuModuleLoadDataEx=218,sm=100"), 4,
                     "compile the model for this GPU")

    def test_memory_that_another_process_takes(self):
        out = self.path / "out"
        for settings in ("stolen=1073741800", "cuModuleLoadDataEx=2", "cuLaunchKernelEx=2",
                         "cuGraphInstantiateWithFlags=2", "cuGraphUpload=2",
                         "cuGraphLaunch=2", "cuMemcpyHtoDAsync_v2=2",
                         "cuDevicePrimaryCtxRetain=2", "cuModuleGetFunction=2"):
            result = self.within(5, "--output-dir", out, settings=settings)
            self.refused(result, 6, "memory" if "stolen" in settings
                         else "CUDA_ERROR_OUT_OF_MEMORY")
            self.assertFalse(out.exists())

    def test_a_lost_device_is_left_alone_and_its_command_named(self):
        out = self.path / "out"
        for bench in ((), ("--bench", 5)):
            # The fake aborts a process that goes on after it was told.
            result = self.within(5, "--output-dir", out, *bench, settings="fault=2")
            self.refused(result, 7, "CUDA_ERROR_ILLEGAL_ADDRESS")
            self.assertIn("at 'launch1'", result.stderr)
            self.assertFalse(out.exists())
        # In the timed runs, and not when it is run again.
        result = self.within(5, "--bench", 5, settings="fault=9")
        self.refused(result, 7, "may find the command")
        for error in (214, 700, 710, 716, 719):
            for entry in ("cuGraphLaunch", "cuStreamQuery", "cuMemcpyDtoHAsync_v2"):
                result = self.within(5, settings=f"{entry}={error}")
                self.refused(result, 7, entry if entry == "cuGraphLaunch" else "failed")

    def test_find_fault(self):
        out = self.path / "out"
        result = self.fake("--find-fault", "--output-dir", out, "--bench", 5)
        self.assertEqual((result.returncode, result.stdout), (0, ""), result.stderr)
        self.assertFalse(out.exists())
        self.refused(self.fake("--find-fault", settings="fault=1"), 7, "at 'launch0'")

    def test_a_kernel_that_never_ends(self):
        out = self.path / "out"
        limit = ("--op-timeout", 1, "--output-dir", out)
        # The fake's own exit waits for the kernel.
        result = self.within(6, *limit, settings="hang=2")
        self.refused(result, 8, "did not end a run of 'main' within 1 s")
        self.assertIn("--find-fault", result.stderr)
        self.assertFalse(out.exists())
        result = self.within(6, *limit, "--find-fault", settings="hang=2")
        self.refused(result, 8, "did not end 'launch1' within 1 s")
        # In the first of the timed runs, which have minutes together.
        process = subprocess.Popen(
            [BIN / "fusion-run", self.module, "--random-inputs", "1", "--bench", "5"],
            env={**os.environ, "LD_LIBRARY_PATH": str(FAKE_CUDA),
                 "FUSION_FAKE_CUDA": "hang=6"}, stderr=subprocess.PIPE)
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=3)
        self.assertEqual(process.returncode, 130, errors)
        self.assertIn(b"interrupted", errors)

    def test_the_binding_gives_up_too(self):
        program = textwrap.dedent("""
            import os, sys, time
            import numpy as np
            from fusion_compiler import runtime
            runtime.use_library(sys.argv[1])
            session = runtime.load(sys.argv[2]).session(timeout=0.5)
            x = {"x": np.ones(64, "f4")}
            for code in (8, 7):
                try:
                    session.run(x)
                    os._exit(1)
                except runtime.FusionError as error:
                    if error.code != code:
                        raise
            os._exit(0)
        """)
        result = subprocess.run(
            [sys.executable, "-c", program, LIBRARY, str(self.module)],
            env={**os.environ, "LD_LIBRARY_PATH": str(FAKE_CUDA),
                 "FUSION_FAKE_CUDA": "hang=1",
                 "PYTHONPATH": str(pathlib.Path(__file__).resolve().parents[2] / "python")},
            capture_output=True, text=True, timeout=10)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_libraries_that_do_not_serve(self):
        linear = make("cuda-linear", self.path / "linear.fsn")
        folder = self.path / "libraries"
        folder.mkdir()
        (folder / "libcuda.so.1").symlink_to(FAKE_CUDA / "libcuda.so.1")
        files = [folder / "libcublasLt.so.13", folder / "libcublasLt.so.12"]
        for file in files:
            file.write_bytes(b"no library")
        self.refused(self.within(1, module=linear, folder=folder), 5,
                     "cuBLASLt not found (")
        for file in files:
            file.unlink()
            file.symlink_to(FAKE_CUDA.parent / "kernels.so")
        self.refused(self.within(1, module=linear, folder=folder), 5,
                     "cuBLASLt has no cublasLtCreate, version 12 or later is needed")
        # A model without products needs neither that nor NCCL.
        (folder / "libnccl.so.2").write_bytes(b"no library")
        self.assertEqual(self.fake(folder=folder).returncode, 0)

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
            session.prepare(1)
            try:
                session.prepare(2)
            except runtime.FusionError as error:
                assert error.code == 2, error
            else:
                raise AssertionError("prepared a batch that is none")
            # On a stream that is captured: in the caller's graph, nothing runs.
            graph, stream = ctypes.c_void_p(), ctypes.c_void_p()
            cuda.cuCtxPushCurrent_v2(ctypes.c_void_p(0x1000))
            assert cuda.cuStreamCreate(ctypes.byref(stream), 1) == 0
            assert cuda.cuStreamBeginCapture_v2(stream, 1) == 0
            graphs, caught = cuda.fakeCudaCount(b"cuGraphLaunch"), Array()
            session.enqueue({"x": x}, {"y": caught}, stream.value)
            assert cuda.cuStreamEndCapture(stream, ctypes.byref(graph)) == 0
            assert cuda.fakeCudaCount(b"cuGraphLaunch") == graphs
            executable = ctypes.c_void_p()
            assert cuda.cuGraphInstantiateWithFlags(ctypes.byref(executable), graph, 0) == 0
            assert cuda.cuGraphLaunch(executable, stream) == 0
            np.testing.assert_array_equal(caught.numpy(), expected)
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

if __name__ == "__main__":
    main()

"""What a real GPU can show of docs/reliability.md: exit codes, texts and times.

A fault's time counts from where the same module would have succeeded: starting the
driver takes as long as it takes. After each, the GPU's memory is free again and it
computes.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import _ptx
from _gpu import BIN, TRUST, fusionRun, main, run

MODEL = """
func.func @main(%x: tensor<64xf32> {fusion.name = "x"}) -> (tensor<64xf32> {fusion.name = "y"}) {
  %0 = fusion.relu %x : tensor<64xf32>
  return %0 : tensor<64xf32>
}
"""
LARGE = MODEL.replace("64xf32", "67108864xf32")  # 256 MiB, twice
ARCHITECTURES = (80, 90, 100)
# Takes all memory but `left` bytes until its standard input ends, or tells what is
# free, in a process of its own.
MEMORY = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, device = ctypes.c_void_p(), ctypes.c_int()
free, total, at = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_uint64()
cuda.cuInit(0)
cuda.cuDeviceGet(ctypes.byref(device), 0)
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
cuda.cuCtxPushCurrent_v2(context)
cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
if len(sys.argv) > 1:
    left, size = int(sys.argv[1]), free.value - int(sys.argv[1])
    while free.value > left + (2 << 20) and size > 1 << 20:
        if cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(size)):
            size //= 2
        cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
        size = min(size, free.value - left)
print(free.value, flush=True)
if len(sys.argv) > 1:
    sys.stdin.read()
"""


def prepare(folder):
    (folder / "m.mlir").write_text(MODEL)
    (folder / "large.mlir").write_text(LARGE)
    for number in ARCHITECTURES:
        run("fusion-compile", "m.mlir", f"--target=cuda:sm_{number}", "-o", f"sm_{number}.fsn", cwd=folder)
    run("fusion-compile", "m.mlir", "--target=cpu", "-o", "cpu.fsn", cwd=folder)
    run("fusion-compile", "large.mlir", "--target=cuda:sm_90", "-o", "large.fsn", cwd=folder)
    run("fusion-test-module", "cuda-linear", "linear.fsn", cwd=folder)
    for fault in _ptx.FAULTS:
        (folder / "code.ptx").write_text(_ptx.text(fault))
        run("fusion-test-module", "cuda", f"{fault}.fsn", "code.ptx", cwd=folder)
    (folder / "code.ptx").unlink()


def freeMemory():
    return int(subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True,
                              check=True, timeout=60).stdout)


def architecture():
    """90 of sm_90."""
    cuda = ctypes.CDLL("libcuda.so.1")
    cuda.cuInit(0)
    device, value, parts = ctypes.c_int(), ctypes.c_int(), []
    cuda.cuDeviceGet(ctypes.byref(device), 0)
    for attribute in (75, 76):
        cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
        parts.append(value.value)
    return parts[0] * 10 + parts[1]


class Stage:
    """Runs modules that fail, and holds what must be true of each."""

    def __init__(self, folder, checks):
        self.folder, self.checks = folder, checks
        self.out = folder / "out"
        started = []
        for _ in range(3):
            start = time.monotonic()
            answer = fusionRun(folder / "none.fsn", "--random-inputs", 1)
            started.append(time.monotonic() - start)
        self.start = max(started)
        self.free = freeMemory()
        checks.check("a module of the tests runs", answer.returncode == 0,
                     f"{self.start:.2f} s {answer.stderr}")

    def refused(self, name, module, code, bound, parts, *arguments, **variables):
        start = time.monotonic()
        answer = fusionRun(self.folder / module, "--random-inputs", 1, "--output-dir", self.out, *arguments,
                           timeout=120, **variables)
        self.judge(name, answer.returncode, answer.stderr, time.monotonic() - start, code, bound, parts)

    def judge(self, name, got, errors, seconds, code, bound, parts):
        detail = f"exit {got}, {seconds:.2f} s, bound {bound} + {self.start:.2f} s: {errors.strip()[:300]}"
        self.checks.check(name, got == code and all(part in errors for part in parts)
                          and errors.startswith("error: ") and errors.count("\n") == 1
                          and seconds <= bound + self.start and not self.out.exists(), detail)

    def isWhole(self, after):
        """The GPU's memory comes back, and it computes."""
        deadline = time.monotonic() + 5
        while self.free - (free := freeMemory()) > 64 << 20 and time.monotonic() < deadline:
            time.sleep(0.2)
        self.checks.check(f"{after}: memory is free again", self.free - free <= 64 << 20,
                          f"{self.free >> 20} MiB before, {free >> 20} after")
        answer = fusionRun(self.folder / "none.fsn", "--random-inputs", 1)
        self.checks.check(f"{after}: the GPU computes", answer.returncode == 0, answer.stderr)


def architectures(stage):
    have = architecture()
    x = np.arange(64, dtype="f4") - 30
    np.save(stage.folder / "x.npy", x)
    for number in ARCHITECTURES:
        module = f"sm_{number}.fsn"
        if number > have:
            stage.refused(f"a module for sm_{number}", module, 4, 1,
                          (f"the module has sm_{number}", f"(sm_{have})", f"--target=cuda:sm_{have}"))
            continue
        out = stage.folder / f"out{number}"
        answer = fusionRun(stage.folder / module, "--input", f"x={stage.folder / 'x.npy'}", "--output-dir", out)
        right = answer.returncode == 0 and (np.load(out / "y.npy") == np.maximum(x, 0)).all()
        stage.checks.check(f"a module for sm_{number} runs on sm_{have}", right, answer.stderr)
    stage.refused("PTX that does not assemble", "bad.fsn", 4, 1, ("compile the model for this GPU",))


def environment(stage):
    """Nothing to run on; the CPU needs none of it."""
    folder = stage.folder / "libraries"
    folder.mkdir(exist_ok=True)
    first = f"{folder}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    for name in ("libcublasLt.so.13", "libcublasLt.so.12"):
        (folder / name).write_bytes(b"no library")
    stage.refused("no device is visible", "sm_90.fsn", 5, 1, ("CUDA_VISIBLE_DEVICES",), CUDA_VISIBLE_DEVICES="")
    stage.refused("cuBLASLt is damaged", "linear.fsn", 5, 1, ("cuBLASLt not found (",),
                  LD_LIBRARY_PATH=first)
    (folder / "libcuda.so.1").write_bytes(b"no library")
    stage.refused("the driver is damaged", "sm_90.fsn", 5, 1, ("CUDA driver library not found",),
                  LD_LIBRARY_PATH=first)
    answer = fusionRun(stage.folder / "cpu.fsn", "--random-inputs", 1, LD_LIBRARY_PATH=first)
    stage.checks.check("the CPU needs no driver", answer.returncode == 0, answer.stderr)
    answer = fusionRun(stage.folder / "sm_90.fsn", "--random-inputs", 1, "--backend=null",
                       LD_LIBRARY_PATH=first)
    stage.checks.check("counting needs no driver", answer.returncode == 0, answer.stderr)


def memory(stage):
    holder = subprocess.Popen([sys.executable, "-c", MEMORY, str(300 << 20)], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    left = int(holder.stdout.readline())
    stage.refused(f"another process leaves {left >> 20} MiB", "large.fsn", 6, 5, ("memory",))
    holder.stdin.close()
    holder.wait(timeout=30)
    stage.isWhole("another process held the memory")
    answer = fusionRun(stage.folder / "large.fsn", "--random-inputs", 1, "--memory-limit", "100MiB")
    stage.checks.check("a limit of memory", answer.returncode == 6 and "limit" in answer.stderr, answer.stderr[:200])


def lostDevices(stage):
    for fault, said in (("stray", "CUDA_ERROR_ILLEGAL_ADDRESS"), ("misaligned", "CUDA_ERROR_MISALIGNED_ADDRESS"),
                        ("trap", "CUDA_ERROR")):
        stage.refused(f"{fault} kernel", f"{fault}.fsn", 7, 5, (said, "at 'launch1'"))
        stage.refused(f"{fault} kernel, timed", f"{fault}.fsn", 7, 5, (said, "at 'launch1'"), "--bench", 5)
    stage.isWhole("lost devices")


def endlessKernels(stage):
    stage.refused("endless kernel", "spin.fsn", 8, 2 + 5, ("within 2 s", "--find-fault"), "--op-timeout", 2)
    stage.isWhole("endless kernel")
    stage.refused("endless kernel, found", "spin.fsn", 8, 2 + 5, ("'launch1' within 2 s",), "--op-timeout", 2,
                  "--find-fault")
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        process = subprocess.Popen([BIN / "fusion-run", stage.folder / "spin.fsn", TRUST, "--random-inputs", "1"],
                                   stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        time.sleep(stage.start + 1)
        process.send_signal(number)
        start = time.monotonic()
        _, errors = process.communicate(timeout=60)
        seconds = time.monotonic() - start
        stage.checks.check(f"{number.name} during an endless kernel", process.returncode == code
                           and "interrupted" in errors and seconds < 3, f"{seconds:.2f} s: {errors.strip()}")
    stage.isWhole("signals")


def check(folder, checks):
    stage = Stage(Path(folder), checks)
    for part in (architectures, environment, memory, lostDevices, endlessKernels):
        part(stage)


if __name__ == "__main__":
    raise SystemExit(main(prepare, check))

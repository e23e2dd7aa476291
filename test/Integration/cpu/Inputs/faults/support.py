# ===- support.py - What the fault tests share ----------------------------=== #
#
# A stage is a folder with inputs and an old output. After each fault the same
# things must hold: the exit code, `error:` first on stderr, the old output byte
# for byte (or the whole new one), and no new file in the folder or in TMPDIR.
#
# ===----------------------------------------------------------------------=== #
"""Stages, faults and invariants."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

import numpy as np  # noqa: E402

from _support import BIN, ROOT, Checks  # noqa: E402

SMALL = """
fusion.parameter @w const "small.safetensors" key "w" : tensor<64xf32>
func.func @main(%x: tensor<64xf32> {fusion.name = "x"}) -> (tensor<64xf32> {fusion.name = "y"}) {
  %0 = fusion.exp %x : tensor<64xf32>
  %1 = fusion.get_parameter @w : tensor<64xf32>
  %2 = fusion.add %0, %1 : tensor<64xf32>
  return %2 : tensor<64xf32>
}
"""


def writeSafetensors(path, name, array):
    """One f32 tensor in the safetensors layout."""
    header = f'{{"{name}":{{"dtype":"F32","shape":{list(array.shape)},"data_offsets":[0,{array.nbytes}]}}}}'.encode()
    header += b" " * (-len(header) % 8)
    Path(path).write_bytes(len(header).to_bytes(8, "little") + header + array.tobytes())


def buildShim(folder, name="fail_at"):
    """A library to preload: makes the n-th call fail, or memory end there."""
    library = Path(folder) / f"{name}.so"
    subprocess.run(["clang-22", "-O1", "-fPIC", "-shared", HERE / f"{name}.c", "-o", library, "-ldl"], check=True)
    return library


def compiler(*arguments):
    return [str(BIN / "fusion-compile"), *map(str, arguments)]


def runner(*arguments):
    return [str(BIN / "fusion-run"), *map(str, arguments)]


def importer(*arguments):
    """The importer as one process: the installed script is a shell's child."""
    return [sys.executable, "-m", "fusion_compiler", "import", *map(str, arguments)]


class Stage:
    """A folder of its own, a folder for temporary files, and what was there."""

    def __init__(self, checks, folder, name):
        self.checks, self.name = checks, name
        self.folder, self.temporary = folder / name, folder / (name + ".tmp")
        self.folder.mkdir()
        self.temporary.mkdir()
        self.mark = folder / (name + ".mark")
        self.environment = {
            **os.environ, "TMPDIR": str(self.temporary), "PYTHONPATH": str(ROOT / "python"),
            "PYTHONDONTWRITEBYTECODE": "1", "LC_ALL": "C"}

    def remember(self):
        """What the folder holds now is what a fault must leave."""
        self.before = self.content()

    def content(self):
        return {str(path.relative_to(self.folder)): path.read_bytes() if path.is_file() else None
                for path in sorted(self.folder.rglob("*"))}

    def reset(self):
        """Puts back what was remembered."""
        for name, data in self.before.items():
            path = self.folder / name
            if data is not None and (not path.exists() or path.read_bytes() != data):
                path.write_bytes(data)
        for path in sorted(self.folder.rglob("*"), reverse=True):
            if str(path.relative_to(self.folder)) not in self.before:
                path.rmdir() if path.is_dir() else path.unlink()
        self.mark.unlink(missing_ok=True)

    def run(self, command, environment=None, **options):
        options = {"timeout": 60, "capture_output": True, "stdin": subprocess.DEVNULL, **options}
        return subprocess.run(command, cwd=self.folder, env={**self.environment, **(environment or {})}, **options)

    def strike(self, shim, number, command, **how):
        """Runs with the n-th call failing; returns the run and whether it was reached."""
        self.mark.unlink(missing_ok=True)
        done = self.run(command, {"LD_PRELOAD": str(shim), "FAIL_AT": str(number), "FAIL_MARK": str(self.mark),
                                  **{f"FAIL_{key.upper()}": str(value) for key, value in how.items()}})
        return done, self.mark.exists()

    def expectRefused(self, what, done, codes, words=()):
        """The invariants of a failed run."""
        errors = done.stderr.decode(errors="replace")
        self.check(what, "exit code", done.returncode in codes, f"{done.returncode}: {errors[:300]}")
        # glibc speaks for itself where it has no memory for a thread.
        own = errors.split("\n", 1)[-1] if errors.startswith("Fatal glibc error: ") else errors
        self.check(what, "error first", own.startswith("error: "), errors[:300])
        self.check(what, "no trace", "Traceback" not in errors and "Stack dump" not in errors, errors[-300:])
        for word in words:
            self.check(what, f"says {word!r}", word in errors, errors[:300])
        self.expectUnchanged(what)

    def expectUnchanged(self, what):
        after = self.content()
        changed = sorted(name for name in self.before.keys() | after.keys()
                         if name not in self.before or name not in after or self.before[name] != after[name])
        self.check(what, "the folder is as it was", not changed, str(changed))
        left = sorted(path.name for path in self.temporary.iterdir())
        self.check(what, "nothing in TMPDIR", not left, str(left))

    def restore(self):
        """Puts the folder back to what was remembered."""
        for name in self.content().keys() - self.before.keys():
            (self.folder / name).unlink()
        for name, content in self.before.items():
            if content is not None:
                (self.folder / name).write_bytes(content)

    def check(self, what, rule, condition, detail=""):
        """Only failures are told one by one: there are thousands of checks."""
        if condition:
            self.checks.passed += 1
        else:
            self.checks.check(f"{self.name}, {what}: {rule}", False, detail)

    def interrupt(self, command, number, delay, seconds=3.0, **options):
        """Sends a signal after `delay` seconds; returns the run, or None if it
        had ended before."""
        process = subprocess.Popen(command, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        try:
            time.sleep(delay)
            ended = process.poll() is not None
            process.send_signal(number)
            start = time.monotonic()
            out, errors = process.communicate(timeout=30)
            took = time.monotonic() - start
        finally:
            process.kill()
        if ended:
            return None
        self.check(f"signal {number}", f"ends within {seconds:.0f} s", took < seconds, f"{took:.1f} s")
        return subprocess.CompletedProcess(command, process.returncode, out, errors)


def compileStage(checks, root, name):
    """A model with a parameter; out.fsn is the old output."""
    stage = Stage(checks, root, name)
    (stage.folder / "small.mlir").write_text(SMALL)
    writeSafetensors(stage.folder / "small.safetensors", "w", np.arange(64, dtype=np.float32))
    done = stage.run(compiler("small.mlir", "-o", "out.fsn"))
    checks.check(f"{name}: the small model compiles", done.returncode == 0, done.stderr.decode()[:300])
    new = (stage.folder / "out.fsn").read_bytes()
    (stage.folder / "out.fsn").write_bytes(b"old")
    stage.remember()
    return stage, {"out.fsn": new}


STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
__all__ = [name for name in dir() if not name.startswith("__")]

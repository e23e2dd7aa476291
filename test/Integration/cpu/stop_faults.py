#!/usr/bin/env python3
"""Signals and closed streams: the tools stop in order.

SIGINT, SIGTERM and SIGHUP at several moments: exit 128 + n within three seconds,
`error: interrupted` on stderr, no half file, nothing in TMPDIR; the second signal
kills; nohup's SIGHUP is ignored. A closed or full stdout is an error, a closed pipe
ends the tool as SIGPIPE does.
"""

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent / "Inputs/faults"))
from support import *  # noqa: E402,F401,F403

OPS = 12000  # a compilation of a second or more, for signals to come during it


def longModel():
    """A chain whose kernels all differ, so that every phase has work."""
    ops = ["exp", "tanh", "neg", "abs", "relu"]
    lines = [f"  %{i + 1} = fusion.{ops[(i * i + i // 7) % len(ops)]} %{i} : tensor<16xf32>" for i in range(OPS)]
    return ('func.func @main(%x: tensor<16xf32> {fusion.name = "x"}) -> (tensor<16xf32> {fusion.name = "y"}) {\n'
            "  %0 = fusion.neg %x : tensor<16xf32>\n" + "\n".join(lines) + f"\n  return %{OPS} : tensor<16xf32>\n}}\n")


def expectStop(stage, what, done, number):
    """`done` is None if the process had ended before the signal came, on a machine
    that has just become faster: nothing to see. At least one stop of each signal
    is asked for in the end."""
    if done is None:
        stage.restore()
        return
    errors = done.stderr.decode(errors="replace")
    if done.returncode == -number and not errors:
        return  # before main: the system's loader was at work
    stage.stopped += 1
    stage.check(what, "exit code", done.returncode == 128 + number, f"{done.returncode}: {errors[:300]}")
    stage.check(what, "says so", errors == f"error: interrupted by signal {int(number)}\n", errors[:300])
    stage.expectUnchanged(what)


def compilerStops(checks, root):
    stage = Stage(checks, root, "compile")
    (stage.folder / "long.mlir").write_text(longModel())
    (stage.folder / "out.fsn").write_bytes(b"old")
    stage.remember()
    command = compiler("long.mlir", "-o", "out.fsn")
    start = time.monotonic()
    done = stage.run(compiler("long.mlir", "-o", "whole.fsn"))
    whole = time.monotonic() - start
    checks.check("compile: the long model compiles", done.returncode == 0, done.stderr.decode()[:300])
    (stage.folder / "whole.fsn").unlink(missing_ok=True)
    for number in STOPS:
        stage.stopped = 0
        for part in (0.1, 0.35, 0.6):
            expectStop(stage, f"signal {int(number)} after {part} of the time",
                       stage.interrupt(command, number, part * whole), number)
        checks.check(f"compile: signal {int(number)} stops it in order", stage.stopped > 0)
    # A crash of the compiler's own is its fault, not the program's.
    done = stage.interrupt(command, signal.SIGSEGV, 0.3 * whole)
    checks.check("compile: a crash is an internal error", done is not None and done.returncode == 9
                 and b"error: " in done.stderr, str(done))
    (stage.folder / "out.fsn.reproducer.mlir").unlink(missing_ok=True)
    stage.expectUnchanged("a crash")
    # What a shell's nohup does.
    done = stage.interrupt(["sh", "-c", 'trap "" HUP; exec "$@"', "sh", *command], signal.SIGHUP, 0.3 * whole, seconds=60)
    checks.check("compile: an ignored SIGHUP stays ignored", done is not None and done.returncode == 0,
                 str(done and done.returncode))
    checks.check("compile: and the output is there", (stage.folder / "out.fsn").stat().st_size > 1000)


def otherToolsStop(checks, root):
    stage = Stage(checks, root, "tools")
    (stage.folder / "long.mlir").write_text(longModel())
    stage.remember()
    for name, flags in (("fusion-opt", ["--fusion-pipeline", "-o", "-"]),
                        ("fusion-interpret", ["--random-inputs=1", "--counts"])):
        command = [str(BIN / name), "long.mlir", *flags]
        start = time.monotonic()
        done = stage.run(command)
        whole = time.monotonic() - start
        checks.check(f"{name}: the long model is taken", done.returncode == 0, done.stderr.decode()[:300])
        stage.stopped = 0
        # On a busy machine the first run may have taken longer than those behind it.
        for part in (0.4, 0.15, 0.05):
            for number in STOPS:
                expectStop(stage, f"{name}, signal {int(number)}", stage.interrupt(command, number, part * whole), number)
            if stage.stopped:
                break
        checks.check(f"{name}: a signal stops it in order", stage.stopped > 0)
        for part in (0.6, 0.3, 0.1, 0.03):
            done = stage.interrupt(command, signal.SIGSEGV, part * whole)
            if done is None or done.returncode != 0:
                break  # or it was done before
        early = done is None or (done.returncode == -signal.SIGSEGV and not done.stderr)  # as in expectStop
        checks.check(f"{name}: a crash is an internal error", early or (done.returncode == 9 and b"error: " in done.stderr), str(done)[:300])
        stage.expectUnchanged(f"{name}, a crash")


def runnerStops(checks, root):
    stage = Stage(checks, root, "run")
    (stage.folder / "small.mlir").write_text(SMALL)
    writeSafetensors(stage.folder / "small.safetensors", "w", np.arange(64, dtype=np.float32))
    done = stage.run(compiler("small.mlir", "-o", "out.fsn"))
    checks.check("run: the small model compiles", done.returncode == 0, done.stderr.decode()[:300])
    stage.remember()
    command = runner("out.fsn", "--random-inputs", 1, "--bench", 20_000_000)
    for number in STOPS:
        stage.stopped = 0
        for delay in (0.3, 1.0):
            expectStop(stage, f"signal {int(number)} after {delay} s",
                       stage.interrupt(command, number, delay), number)
        checks.check(f"run: signal {int(number)} stops it in order", stage.stopped > 0)
    # A run that can't stop in order (it waits for its inputs) is killed by the
    # second signal.
    os.mkfifo(stage.folder / "x.npy")
    process = subprocess.Popen(runner("out.fsn", "--input", "x=x.npy"), cwd=stage.folder, env=stage.environment,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    start = time.monotonic()
    while process.poll() is None and time.monotonic() < start + 1:
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)
    process.kill()
    process.communicate()
    checks.check("run: the second signal ends it at once", process.returncode in (2, 130, -signal.SIGINT),
                 str(process.returncode))


def importerStops(checks, root):
    """Signals while the packages load and while a model is read."""
    stage = Stage(checks, root, "import")
    os.mkfifo(stage.folder / "c.npy")  # its reader waits until a signal comes
    (stage.folder / "o.mlir").write_bytes(b"old")
    stage.before = {"c.npy": None, "o.mlir": b"old"}
    command = importer("m.onnx", "-o", "o.mlir", "--constant-input", "c=c.npy")
    for number in STOPS:
        stage.stopped = 0
        done = stage.interrupt(command, number, 2.0)
        expectStop(stage, f"signal {int(number)}", done, number)
        checks.check(f"import: signal {int(number)} stops it in order", stage.stopped > 0)


def closedStreams(checks, root):
    stage = Stage(checks, root, "streams")
    (stage.folder / "small.mlir").write_text(SMALL)
    writeSafetensors(stage.folder / "small.safetensors", "w", np.arange(64, dtype=np.float32))
    done = stage.run(compiler("small.mlir", "-o", "out.fsn"))
    new = (stage.folder / "out.fsn").read_bytes()
    stage.remember()
    commands = {"--explain": compiler("small.mlir", "--explain", "-o", "out.fsn"),
                "text": compiler("small.mlir", "--stop-after=fuse"),
                "compiler's --help": compiler("--help"),
                "fusion-opt": [str(BIN / "fusion-opt"), "small.mlir"],
                "fusion-interpret": [str(BIN / "fusion-interpret"), "small.mlir", "--random-inputs=1", "--counts"],
                "fusion-interpret's --help": [str(BIN / "fusion-interpret"), "--help"],
                "--inspect": runner("out.fsn", "--inspect"), "runner's --help": runner("--help")}
    for name, command in commands.items():
        with open("/dev/full", "w") as full:
            done = stage.run(command, capture_output=False, stdout=full, stderr=subprocess.PIPE)
        stage.expectRefused(f"{name}, full stdout", done, (6,), ("standard output",))
        closed = stage.run(["sh", "-c", '"$@" >&-', "sh", *command])
        stage.expectRefused(f"{name}, closed stdout", closed, (6,), ("standard output",))
        reading, writing = os.pipe()
        os.close(reading)
        done = stage.run(command, capture_output=False, stdout=writing, stderr=subprocess.PIPE)
        os.close(writing)
        stage.check(f"{name}, closed pipe", "ends as SIGPIPE", done.returncode in (-signal.SIGPIPE, 141),
                    f"{done.returncode} {done.stderr[:200]}")
        stage.check(f"{name}, closed pipe", "says nothing", done.stderr == b"", str(done.stderr[:200]))
        stage.expectUnchanged(f"{name}, closed pipe")
        # No standard descriptor at all: no file of ours may take their numbers.
        done = stage.run(["sh", "-c", '"$@" <&- >&- 2>&-', "sh", *command])
        stage.check(f"{name}, nothing open", "exit code", done.returncode == 6, str(done.returncode))
        stage.expectUnchanged(f"{name}, nothing open")
        checks.check(f"streams: {name}", True)
    checks.check("streams: the module is whole", (stage.folder / "out.fsn").read_bytes() == new)


def main():
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="fusion-stop-") as scratch:
        root = Path(scratch)
        with ThreadPoolExecutor(2) as pool:
            jobs = [pool.submit(job, checks, root) for job in (compilerStops, otherToolsStop, runnerStops, importerStops, closedStreams)]
            for job in jobs:
                job.result()
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())

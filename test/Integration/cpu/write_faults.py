#!/usr/bin/env python3
"""Files that can't be written, and writers that die: old or new, never torn.

Each call that makes, fills, syncs, links or renames a file fails once, with a full
disk and with a signal, in the compiler, the importer and the runner (by a preloaded
library); then full and read-only file systems where they can be mounted, a folder
that vanishes, and eight compilers at one output. kill_faults.py kills at random moments.
"""

import errno
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parent / "Inputs/faults"))
from support import *  # noqa: E402,F401,F403


def importStage(checks, root, name):
    """An ONNX model with weights; o.mlir and o.safetensors are the old output."""
    stage = Stage(checks, root, name)
    weights = numpy_helper.from_array(np.random.default_rng(1).random((64, 64)).astype(np.float32), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 64])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 64])], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, stage.folder / "m.onnx")
    done = stage.run(importer("m.onnx", "-o", "o.mlir"))
    checks.check(f"{name}: the model is imported", done.returncode == 0, done.stderr.decode()[:300])
    new = {file: (stage.folder / file).read_bytes() for file in ("o.mlir", "o.safetensors")}
    for file in new:
        (stage.folder / file).write_bytes(b"old")
    stage.remember()
    return stage, new


def runStage(checks, root, name):
    """A module; out/y.npy is the old output."""
    stage, new = compileStage(checks, root, name)
    (stage.folder / "out.fsn").write_bytes(new["out.fsn"])
    x = np.linspace(-2, 2, 64, dtype=np.float32)
    np.save(stage.folder / "x.npy", x)
    done = stage.run(runner("out.fsn", "--input", "x=x.npy", "--output-dir", "out"))
    checks.check(f"{name}: the module runs", done.returncode == 0, done.stderr.decode()[:300])
    result = np.load(stage.folder / "out/y.npy")
    right = np.exp(x.astype(np.float64)) + np.arange(64)
    checks.check(f"{name}: the result is right", np.allclose(result, right, 1e-6, 0))
    new = {"out/y.npy": (stage.folder / "out/y.npy").read_bytes()}
    (stage.folder / "out/y.npy").write_bytes(b"old")
    stage.remember()
    return stage, new


def isNew(stage, new):
    """Whether the folder holds the new output, whole, and nothing else new."""
    return stage.content() == {**stage.before, **new} and not list(stage.temporary.iterdir())


def everyCallFails(stage, new, command, shim):
    """The n-th call fails, for all n: refused with the old output, or done."""
    refused = 0
    for number in range(200):
        done, reached = stage.strike(shim, number, command, errno=errno.ENOSPC)
        if not reached:
            break
        if done.returncode == 0:
            # A call that may fail: another way was taken.
            stage.check(f"call {number}", "the whole new output", isNew(stage, new), str(sorted(stage.content())))
        else:
            refused += 1
            stage.expectRefused(f"full disk at call {number}", done, (6,))
        stage.reset()
    stage.checks.check(f"{stage.name}: each of {number} calls failed once", refused >= 2 and number < 200,
                       f"{refused} refusals")
    stage.check("last", "nothing fails", done.returncode == 0 and isNew(stage, new), done.stderr.decode()[:300])
    stage.reset()


def everyCallIsInterrupted(stage, new, command, shim, number):
    """A signal before the n-th call, for all n."""
    for at in range(200):
        done, reached = stage.strike(shim, at, command, signal=number)
        if not reached:
            break
        what = f"signal {int(number)} at call {at}"
        if number == signal.SIGKILL:
            stage.check(what, "killed", done.returncode == -number, str(done.returncode))
            content = stage.content()
            whole = all(content.get(file) in (stage.before[file], data) for file, data in new.items())
            stage.check(what, "old or new", whole, str({file: len(data or b"") for file, data in content.items()}))
            # Between naming the file and renaming it a kill leaves a name, of a
            # file that is whole.
            extra = [data for file, data in content.items() if file not in stage.before]
            stage.check(what, "what is left is whole", all(data in (b"old", *new.values()) for data in extra)
                        and len(extra) <= len(new), str(sorted(content)))
            stage.check(what, "nothing in TMPDIR", not list(stage.temporary.iterdir()))
        else:
            errors = done.stderr.decode(errors="replace")
            stage.check(what, "exit code", done.returncode == 128 + number, f"{done.returncode}: {errors[:300]}")
            stage.check(what, "says so", errors.startswith("error: interrupted"), errors[:300])
            if not isNew(stage, new):
                stage.expectUnchanged(what)
        stage.reset()
    stage.checks.check(f"{stage.name}: signal {int(number)} at each of {at} calls", 2 <= at < 200)
    stage.reset()


def onMount(stage, options, prepare, command):
    """Runs a command in a mount namespace in which `disk` is a tmpfs; returns the
    run and what `disk` held before and after, or None if it can't be mounted."""
    script = f"""
        mount -t tmpfs -o {options} none disk || exit 99
        {prepare}
        (cd disk && for f in *; do printf '%s ' "$f"; cksum < "$f"; done) > "$1/before"
        shift; "$@"; code=$?
        (cd disk && for f in *; do printf '%s ' "$f"; cksum < "$f"; done) > "$LISTS/after"
        exit $code"""
    (stage.folder / "disk").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as lists:
        for flags in ("-m", "-rm"):
            done = stage.run(["unshare", flags, "sh", "-c", script, "sh", lists, *command], {"LISTS": lists})
            if (Path(lists) / "before").exists():
                return done, *((Path(lists) / name).read_text() for name in ("before", "after"))
    return None


def fullAndReadOnlyDisks(stage, commandFor):
    """A tmpfs without a free block, one without a free inode, a read-only one."""
    if not shutil.which("unshare"):
        stage.checks.skip(f"{stage.name}: mounted disks", "no unshare command")
        return
    old = "printf old > disk/{0}; "
    cases = [("no block", "size=8k", "dd if=/dev/zero of=disk/filler bs=4k count=9 2>/dev/null; ", 6),
             ("no inode", "size=1m,nr_inodes=2", "", 6),
             ("read only", "size=1m", "mount -o remount,ro disk; ", 2)]
    for what, options, prepare, code in cases:
        name, command = commandFor("disk")
        answer = onMount(stage, options, old.format(name) + prepare, command)
        if answer is None:
            stage.checks.skip(f"{stage.name}: {what}", "this user can't mount a tmpfs")
            continue
        done, before, after = answer
        errors = done.stderr.decode(errors="replace")
        stage.check(what, "exit code", done.returncode == code, f"{done.returncode}: {errors[:300]}")
        stage.check(what, "error first", errors.startswith("error: "), errors[:300])
        stage.check(what, "the disk is as it was", before == after and name in before, f"{before} | {after}")
        stage.checks.check(f"{stage.name}: {what}", True)
    (stage.folder / "disk").rmdir()
    stage.expectUnchanged("mounted disks")


def vanishingFolder(stage):
    """The output's folder goes away while the compiler reads the model."""
    (stage.folder / "gone").mkdir()
    process = subprocess.Popen(compiler("-", "-o", "gone/out.fsn"), cwd=stage.folder, env=stage.environment,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    (stage.folder / "gone").rmdir()
    _, errors = process.communicate(SMALL.encode(), timeout=60)
    done = subprocess.CompletedProcess([], process.returncode, b"", errors)
    stage.expectRefused("the folder vanishes", done, (2,), ("gone/out.fsn",))


def sizeLimit(stage, commands):
    """RLIMIT_FSIZE, which a signal announces unless it is ignored."""
    for name, command in commands.items():
        done = stage.run(["prlimit", "--fsize=16", *command])
        stage.expectRefused(f"size limit, {name}", done, (6,))


def concurrentCompilers(stage, new):
    """Eight at one output: all succeed, one wins, the bytes are the same."""
    for path in (None, "out.fsn"):
        if path is None:
            (stage.folder / "out.fsn").unlink()
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: stage.run(compiler("small.mlir", "-o", "out.fsn")), range(8)))
        codes = [done.returncode for done in answers]
        stage.checks.check(f"{stage.name}: eight compilers at {'an old' if path else 'no'} output",
                           codes == [0] * 8 and isNew(stage, new), str(codes))
        stage.reset()


def main():
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="fusion-write-") as scratch:
        root = Path(scratch)
        shim = buildShim(root)
        compiling = compiler("small.mlir", "-o", "out.fsn")
        importing = importer("m.onnx", "-o", "o.mlir")
        running = runner("out.fsn", "--input", "x=x.npy", "--output-dir", "out")

        def compilerFaults():
            stage, new = compileStage(checks, root, "compile")
            everyCallFails(stage, new, compiling, shim)
            for number in (*STOPS, signal.SIGKILL):
                everyCallIsInterrupted(stage, new, compiling, shim, number)
            sizeLimit(stage, {"compile": compiling})
            vanishingFolder(stage)
            fullAndReadOnlyDisks(stage, lambda disk: ("a.fsn", compiler("small.mlir", "-o", f"{disk}/a.fsn")))
            concurrentCompilers(stage, new)

        def importerFaults():
            stage, new = importStage(checks, root, "import")
            everyCallFails(stage, new, importing, shim)
            everyCallIsInterrupted(stage, new, importing, shim, signal.SIGTERM)
            everyCallIsInterrupted(stage, new, importing, shim, signal.SIGKILL)
            fullAndReadOnlyDisks(stage, lambda disk: ("a.mlir", importer("m.onnx", "-o", f"{disk}/a.mlir")))

        def runnerFaults():
            stage, new = runStage(checks, root, "run")
            everyCallFails(stage, new, running, shim)
            for number in (*STOPS, signal.SIGKILL):
                everyCallIsInterrupted(stage, new, running, shim, number)
            fullAndReadOnlyDisks(stage, lambda disk: ("y.npy", runner("out.fsn", "--input", "x=x.npy",
                                                                      "--output-dir", disk)))

        jobs = [importerFaults, compilerFaults, runnerFaults]
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            for job in [pool.submit(job) for job in jobs]:
                job.result()
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())

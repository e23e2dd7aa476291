#!/usr/bin/env python3
"""Memory that isn't there, other versions, NaN: errors by name, right values.

Memory limits of the compiler, the runner and the process refuse a plan before
anything is allocated; a module of another version is named; NaN and infinities
propagate, --nan-check names the op that makes one, payloads survive moves; and every
wrong input is named with what was expected and what came.
"""

import hashlib
import struct
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent / "Inputs/faults"))
from support import *  # noqa: E402,F401,F403

F32 = np.float32
NAN, INF = np.nan, np.inf
MIB = 1 << 20

# Unfused, an intermediate of 2 GiB.
LARGE = """
func.func @main(%x: tensor<512xf32> {fusion.name = "x"}) -> (tensor<512xf32> {fusion.name = "y"}) {
  %0 = fusion.broadcast %x dims = [1] : tensor<512xf32> to tensor<1048576x512xf32>
  %1 = fusion.exp %0 : tensor<1048576x512xf32>
  %2 = fusion.reduce sum, %1 dims = [0] : tensor<1048576x512xf32>
  return %2 : tensor<512xf32>
}
"""

# Only the logarithm makes a NaN, out of -1; what follows spreads it.
LOGARITHM = """
func.func @main(%x: tensor<4xf32> {fusion.name = "x"}, %z: tensor<4xf32> {fusion.name = "z"}) -> (tensor<4xf32> {fusion.name = "y"}, tensor<f32> {fusion.name = "s"}) {
  %0 = fusion.relu %z : tensor<4xf32>
  %1 = fusion.log %x : tensor<4xf32> loc("the-logarithm")
  %2 = fusion.add %0, %1 : tensor<4xf32>
  %3 = fusion.reduce sum, %2 dims = [0] : tensor<4xf32>
  return %2, %3 : tensor<4xf32>, tensor<f32>
}
"""

MOVES = """
func.func @main(%x: tensor<2x3xf32> {fusion.name = "x"}) -> (tensor<3x2xf32> {fusion.name = "t"}, tensor<2x3xf32> {fusion.name = "r"}, tensor<4x3xf32> {fusion.name = "c"}) {
  %0 = fusion.transpose %x permutation = [1, 0] : tensor<2x3xf32>
  %1 = fusion.reverse %x dims = [0] : tensor<2x3xf32>
  %2 = fusion.concat %x, %1 axis = 0 : tensor<2x3xf32>, tensor<2x3xf32>
  return %0, %1, %2 : tensor<3x2xf32>, tensor<2x3xf32>, tensor<4x3xf32>
}
"""


def stageOf(checks, root, name, text, *flags):
    """A stage with m.fsn, compiled from the text."""
    stage = Stage(checks, root, name)
    (stage.folder / "m.mlir").write_text(text)
    done = stage.run(compiler("m.mlir", "-o", "m.fsn", *flags))
    checks.check(f"{name}: compiles", done.returncode == 0, done.stderr.decode()[:300])
    stage.remember()
    return stage


def runWith(stage, inputs, *flags):
    """Runs m.fsn on arrays; returns the run and the outputs. Cleans up."""
    words = []
    for name, array in inputs.items():
        np.save(stage.folder / f"{name}.npy", array)
        words += ["--input", f"{name}={name}.npy"]
    done = stage.run(runner("m.fsn", *words, "--output-dir", "out/of/run", *flags))
    outputs = {path.stem: np.load(path) for path in (stage.folder / "out").rglob("*.npy")}
    stage.reset()
    return done, outputs


def memoryLimits(checks, root):
    """A plan that doesn't fit is refused at once, with what it needs."""
    stage = stageOf(checks, root, "memory", LARGE, "--no-fuse=vertical")
    start = time.monotonic()
    done = stage.run(compiler("m.mlir", "-o", "n.fsn", "--no-fuse=vertical", "--memory-limit=1GiB"))
    errors = done.stderr.decode()
    checks.check("memory: the compiler's limit", done.returncode == 6 and "limit is" in errors and "2147485696" in errors,
                 f"{done.returncode} {errors[:300]}")
    stage.expectUnchanged("the compiler's limit")
    limited = runner("m.fsn", "--random-inputs", 1, "--output-dir", "out")
    for what, command, words in (
            ("--memory-limit", [*limited, "--memory-limit", "1GiB"], ("2147485696", "1073741824", "largest buffers")),
            ("address space", ["prlimit", f"--as={2 << 30}", *limited], ("2147485696", "largest buffers"))):
        start = time.monotonic()
        done = stage.run(command)
        stage.expectRefused(what, done, (6,), words)
        took = time.monotonic() - start
        checks.check(f"memory: {what} refuses at once", took < 1, f"{took:.2f} s")


def smallAddressSpaces(checks, root):
    """At any limit the tools work or say that memory is short."""
    stage = stageOf(checks, root, "space", LOGARITHM)
    seen = set()
    for mib in range(60, 1300, 40):
        for name, command in (("compile", compiler("m.mlir", "-o", "n.fsn")),
                              ("run", runner("m.fsn", "--random-inputs", 1, "--threads", 1))):
            done = stage.run(["prlimit", f"--as={mib * MIB}", *command])
            errors = done.stderr.decode(errors="replace")
            what = f"{name} in {mib} MiB"
            if done.returncode == 127 or "error while loading shared libraries" in errors:
                seen.add((name, "loader"))  # the system's loader; no code of ours ran
            elif done.returncode == 0:
                seen.add((name, "works"))
            else:
                seen.add((name, "refused"))
                stage.expectRefused(what, done, (6,), ("memory",))
            stage.reset()
    checks.check("space: both tools work when there is enough", {("compile", "works"), ("run", "works")} <= seen, str(seen))


def memoryEnds(checks, root):
    """Wherever memory ends, for the heap, the stack, the linker or the loader, the
    tools say so and leave nothing behind."""
    stage = stageOf(checks, root, "ends", LOGARITHM)
    shim = buildShim(root, "no_memory")
    for name, step, command in (("compile", 700, compiler("m.mlir", "-o", "n.fsn")),
                                ("run", 150, runner("m.fsn", "--random-inputs", 1, "--threads", 1, "--output-dir", "out"))):
        refused, number = 0, step
        while True:
            done, reached = stage.strike(shim, number, command)
            if not reached:
                break
            if done.returncode:  # zero: nothing more was needed
                refused += 1
                stage.expectRefused(f"{name}, allocation {number}", done, (6,), ("memory",))
            stage.reset()
            number += step
        checks.check(f"ends: {name} is refused memory", refused >= 10, f"{refused} times")
        checks.check(f"ends: {name} works with memory", done.returncode == 0, done.stderr.decode()[:300])
        stage.reset()


def rehashed(data, major, minor):
    """The module with another version, and the hash that belongs to it."""
    data = bytearray(data)
    struct.pack_into("<HH", data, 8, major, minor)
    sections = struct.unpack_from("<I", data, 12)[0]
    data[32:64] = hashlib.sha256(data[:32] + data[64:64 + 64 * sections]).digest()
    return bytes(data)


def otherVersions(checks, root):
    """What a module needs is said; a copy that was cut or grew is no module."""
    stage = stageOf(checks, root, "version", LOGARITHM)
    good = (stage.folder / "m.fsn").read_bytes()
    major, minor = struct.unpack_from("<HH", good, 8)
    cases = {"itself": (rehashed(good, major, minor), None, ()),
             "a newer minor": (rehashed(good, major, minor + 1), 4, (f"needs runtime format >= {major}.{minor + 1}",)),
             "a newer major": (rehashed(good, major + 1, 0), 4, (f"needs runtime format >= {major + 1}.0",)),
             "an older major": (rehashed(good, 0, 9), 4, ("0.9 is no longer supported",)),
             "cut in half": (good[:len(good) // 2], 4, ("m.fsn",)), "one byte more": (good + b"\0", 4, ("m.fsn",)),
             "empty": (b"", 4, ("m.fsn",))}
    for what, (data, code, words) in cases.items():
        (stage.folder / "m.fsn").write_bytes(data)
        stage.remember()
        for command in (runner("m.fsn", "--random-inputs", 1), runner("m.fsn", "--inspect")):
            start = time.monotonic()
            done = stage.run(command)
            took = time.monotonic() - start
            if code is None:
                stage.check(what, "runs", done.returncode == 0, done.stderr.decode()[:300])
            else:
                stage.expectRefused(what, done, (code,), words)
            stage.check(what, "within a second", took < 1, f"{took:.2f} s")
        checks.check(f"version: {what}", True)


def notANumber(checks, root):
    """NaN and infinity by IEEE 754; --nan-check blames the op that made one."""
    for flags in ((), ("--no-fuse=vertical",)):
        stage = stageOf(checks, root, "nan" + "".join(flags), LOGARITHM, *flags)
        x, z = np.array([1, 4, INF, 2], F32), np.array([0, 1, -1, 2], F32)
        right = np.maximum(z, 0) + np.log(x)
        done, out = runWith(stage, {"x": x, "z": z}, "--nan-check")
        stage.check("infinity", "no NaN is found", done.returncode == 0, done.stderr.decode()[:300])
        stage.check("infinity", "values", np.allclose(out.get("y", 0), right, 1e-6) and out["s"] == INF, str(out))

        x[3] = 0  # inf and -inf: their sum is no number
        done, out = runWith(stage, {"x": x, "z": z}, "--nan-check")
        stage.expectRefused("inf - inf", done, (1,), ("made a NaN", "reduce"))
        done, out = runWith(stage, {"x": x, "z": z})
        stage.check("inf - inf", "propagates", done.returncode == 0 and list(out["y"][2:]) == [INF, -INF]
                    and np.isnan(out["s"]), str(out))
        x[3] = 2

        x[1] = -1  # log(-1)
        done, out = runWith(stage, {"x": x, "z": z}, "--nan-check")
        stage.expectRefused("a made NaN", done, (1,), ("made a NaN", "the-logarithm", "log"))
        done, out = runWith(stage, {"x": x, "z": z})
        stage.check("a made NaN", "propagates", done.returncode == 0
                    and list(np.isnan(out["y"])) == [False, True, False, False] and np.isnan(out["s"]), str(out))

        x[1], z[2] = 4, NAN  # a NaN from outside is nobody's fault
        done, out = runWith(stage, {"x": x, "z": z}, "--nan-check")
        stage.check("a given NaN", "is no fault", done.returncode == 0, done.stderr.decode()[:300])
        stage.check("a given NaN", "propagates", list(np.isnan(out["y"])) == [False, False, True, False], str(out))
        checks.check(f"nan: {flags or 'fused'}", True)


def payloads(checks, root):
    """Moves keep every bit of a NaN, quiet or signalling."""
    stage = stageOf(checks, root, "payload", MOVES)
    bits = np.array([[0x7FC12345, 0xFFC00001, 0x7F812345], [0xFF800001, 0x80000000, 0x7F800000]], np.uint32)
    done, out = runWith(stage, {"x": bits.view(F32)})
    right = {"t": bits.T, "r": bits[::-1], "c": np.concatenate([bits, bits[::-1]])}
    checks.check("payload: bits survive moves", done.returncode == 0 and out.keys() == right.keys() and all(
        np.array_equal(out[name].view(np.uint32), want) for name, want in right.items()), done.stderr.decode()[:300])


def wrongInputs(checks, root):
    """Each wrong input is named, with what was expected and what came."""
    stage = stageOf(checks, root, "inputs", LOGARITHM)
    good = {"x": np.ones(4, F32), "z": np.ones(4, F32)}
    cases = {"missing": ({"x": good["x"]}, ("'z'", "missing")),
             "extra": ({**good, "w": good["x"]}, ("'w'", "'x'", "'z'")),
             "shape": ({**good, "z": np.ones(5, F32)}, ("'z'", "[4]", "[5]")),
             "rank": ({**good, "z": np.ones((4, 1), F32)}, ("'z'", "[4]", "[4, 1]")),
             "type": ({**good, "z": np.ones(4)}, ("'z'", "f32", "f64")),
             "integers": ({**good, "z": np.ones(4, np.int32)}, ("'z'", "f32", "i32")),
             "byte order": ({**good, "z": np.ones(4, ">f4")}, ("z.npy",)),
             "objects": ({**good, "z": np.array([None] * 4)}, ("z.npy",))}
    for what, (inputs, words) in cases.items():
        start = time.monotonic()
        done, out = runWith(stage, inputs)
        stage.expectRefused(what, done, (2,), words)
        stage.check(what, "no output", not out)
        stage.check(what, "within a second", time.monotonic() - start < 1)
        checks.check(f"inputs: {what}", True)
    done, out = runWith(stage, good)
    checks.check("inputs: right ones run, in folders that are made", done.returncode == 0 and list(out["y"]) == [1] * 4,
                 done.stderr.decode()[:300])


def main():
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="fusion-run-") as scratch:
        for part in (memoryLimits, smallAddressSpaces, memoryEnds, otherVersions, notANumber, payloads, wrongInputs):
            part(checks, Path(scratch))
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())

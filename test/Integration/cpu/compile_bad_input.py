#!/usr/bin/env python3
"""fusion-compile on bad input: the exit code of the contract, an error that says
what and where, the old output intact, and nothing left behind.

The tools are taken from $FUSION_BIN (default build/dev/bin).
"""

import hashlib
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

BIN = pathlib.Path(os.environ.get("FUSION_BIN", "build/dev/bin")).resolve()

GOOD = """
func.func @main(%x: tensor<64xf32> {fusion.name = "x"}) -> (tensor<64xf32> {fusion.name = "y"}) {
  %0 = fusion.exp %x : tensor<64xf32>
  %1 = fusion.neg %0 : tensor<64xf32>
  return %1 : tensor<64xf32>
}
"""

KERNEL_IN_C = """
func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = fusion.kernel_call "c" "k" "void k(const float *x, float *y, int64_t batch) { *y = *x; }" (%x) flops = 1 bytes = 8 : (tensor<64xf32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}
"""

passed = failed = 0


def check(name, condition, detail=""):
    global passed, failed
    if condition:
        passed += 1
    else:
        failed += 1
        print(f"FAIL {name}: {detail}")


def run(arguments, cwd, **kwargs):
    return subprocess.run([BIN / "fusion-compile", *arguments], cwd=cwd, capture_output=True, text=True,
                          timeout=120, **kwargs)


def expectRefusal(name, arguments, code, words, folder, **kwargs):
    """The run ends with `code`, says `words`, keeps the old output, leaves no new file."""
    old = folder / "out.fsn"
    old.write_bytes(b"old")
    before = sorted(os.listdir(folder))
    done = run(arguments, folder, **kwargs)
    check(name + " exit code", done.returncode == code, f"{done.returncode}: {done.stderr[:300]}")
    for word in words:
        check(f"{name} says '{word}'", word in done.stderr, done.stderr[:300])
    check(name + " says error", "error" in done.stderr, done.stderr[:300])
    check(name + " no stack trace", "Stack dump" not in done.stderr and "Traceback" not in done.stderr, done.stderr[:300])
    check(name + " keeps the old output", old.read_bytes() == b"old")
    check(name + " leaves nothing behind", sorted(os.listdir(folder)) == before, str(sorted(os.listdir(folder))))


def limitFileSize():
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    (folder / "good.mlir").write_text(GOOD)
    (folder / "cut.mlir").write_text(GOOD[: len(GOOD) // 2])
    (folder / "empty.mlir").write_text("")
    (folder / "noise.mlir").write_bytes(bytes(range(256)) * 8)
    (folder / "bytecode.mlir").write_bytes(b"ML\xefR" + bytes(64))
    (folder / "kernel.mlir").write_text(KERNEL_IN_C)
    (folder / "nomain.mlir").write_text(GOOD.replace("@main", "@other"))
    (folder / "foreign.mlir").write_text('func.func @main() { "other.op"() : () -> ()\n return }')
    device = (BIN.parent / "share/fusion/devices/h200.json").read_text()
    (folder / "unknown.json").write_text(device.replace('"units": 132', '"cores": 132'))
    (folder / "cut.json").write_text(device[:100])
    (folder / "good.json").write_text(device)
    out = ["-o", "out.fsn"]

    expectRefusal("missing file", ["gone.mlir", *out], 2, ["gone.mlir"], folder)
    expectRefusal("a folder", [".", *out], 2, ["."], folder)
    expectRefusal("no input", out, 2, ["no input"], folder)
    expectRefusal("no output", ["good.mlir"], 2, ["-o"], folder)
    expectRefusal("unknown option", ["good.mlir", "--frobnicate", *out], 2, ["--frobnicate"], folder)
    expectRefusal("bad target", ["good.mlir", "--target=tpu", *out], 2, ["tpu", "cpu"], folder)
    expectRefusal("bad processor", ["good.mlir", "--cpu=z80", *out], 2, ["z80"], folder)
    expectRefusal("unknown device", ["good.mlir", "--device=h9000", *out], 2, ["h9000", "a100-80gb, cpu, h200"], folder)
    expectRefusal("unknown simulated device", ["good.mlir", "--simulate=1xh9000", *out], 2, ["h9000", "--simulate, the devices"], folder)
    expectRefusal("missing device file", ["good.mlir", "--device=./no.json", *out], 2, ["./no.json"], folder)
    expectRefusal("broken device file", ["good.mlir", "--device=cut.json", *out], 3, ["cut.json:", "not JSON"], folder)
    expectRefusal("unknown key", ["good.mlir", "--device=unknown.json", *out], 3, ["unknown.json:5: unknown key 'cores'"], folder)
    expectRefusal("unknown cost model", ["good.mlir", "--cost-model=oracle", *out], 2, ["oracle", "roofline"], folder)
    expectRefusal("bad phase", ["good.mlir", "--stop-after=lunch", *out], 2, ["lunch", "simplify"], folder)
    expectRefusal("bad size", ["good.mlir", "--memory-limit=lots", *out], 2, ["lots"], folder)
    expectRefusal("bad count", ["good.mlir", "--max-ops=0", *out], 2, ["--max-ops"], folder)
    expectRefusal("missing value", ["good.mlir", *out, "--cpu"], 2, ["--cpu"], folder)
    expectRefusal("two inputs", ["good.mlir", "cut.mlir", *out], 2, ["two inputs"], folder)
    expectRefusal("truncated text", ["cut.mlir", *out], 3, ["cut.mlir"], folder)
    expectRefusal("noise", ["noise.mlir", *out], 3, ["noise.mlir", "fusion-import"], folder)
    expectRefusal("damaged bytecode", ["bytecode.mlir", *out], 3, ["bytecode"], folder)
    expectRefusal("foreign op", ["foreign.mlir", *out], 3, ["other"], folder)
    expectRefusal("no main", ["nomain.mlir", *out], 3, ["main"], folder)
    expectRefusal("empty module", ["empty.mlir", *out], 3, ["main"], folder)
    expectRefusal("an op the target has not", ["kernel.mlir", "--target=cuda:sm_90", "--ptxas=off", *out], 3,
                  ["written in c"], folder)
    expectRefusal("missing plugin", ["good.mlir", "--plugin=./gone.so", *out], 5, ["gone.so"], folder)
    expectRefusal("unknown phase", ["good.mlir", "--run-before=fused:canonicalize", *out], 2, ["fused", "simplify"], folder)
    expectRefusal("no pipeline", ["good.mlir", "--run-before=fuse", *out], 2, ["PHASE:PASSES"], folder)
    expectRefusal("unknown pass", ["good.mlir", "--run-before=fuse:no-such-pass", *out], 2, ["no-such-pass"], folder)
    expectRefusal("missing output folder", ["good.mlir", "-o", "no/where.fsn"], 2, ["no/where.fsn"], folder)
    expectRefusal("disk full", ["good.mlir", *out], 6, ["File too large"], folder, preexec_fn=limitFileSize)
    link = folder / "link.fsn"
    link.symlink_to("out.fsn")
    expectRefusal("a symbolic link as output", ["good.mlir", "-o", "link.fsn"], 2, ["link.fsn"], folder)

    done = run(["good.mlir", *out], folder)
    check("a good model compiles", done.returncode == 0 and (folder / "out.fsn").stat().st_size > 64, done.stderr[:300])
    done = run(["good.mlir", "--device=good.json", *out], folder)
    check("a device file", done.returncode == 0, done.stderr[:300])
    done = subprocess.run([BIN / "fusion-run", "out.fsn", "--inspect"], cwd=folder, capture_output=True, text=True, timeout=120)
    check("the module says which device", f"h200 sha256:{hashlib.sha256(device.encode()).hexdigest()}" in done.stdout, done.stdout[:500])
    done = run(["good.mlir", "--memory-limit=1", "--no-fuse=vertical", *out], folder)
    check("memory limit", done.returncode == 6 and "limit is 1" in done.stderr, f"{done.returncode} {done.stderr[:300]}")
    for phase in ("simplify", "fuse", "codegen", "schedule"):
        done = run(["good.mlir", f"--stop-after={phase}"], folder)
        check(f"--stop-after={phase} writes text", done.returncode == 0 and "fusion." in done.stdout, done.stderr[:300])
    check("--help", run(["--help"], folder).returncode == 0)

print(f"{passed} passed, {failed} failed, 0 skipped")
sys.exit(1 if failed else 0)

#!/usr/bin/env python3
"""No tool writes over a file that it reads: exit code 2 with what to do, and the
file as it was, also where a symbolic or hard link names it. And what is wrong with
a plugin is one clean line.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from _support import BIN, Checks, run

MODEL = """
func.func @main(%x: tensor<4xf32> {fusion.name = "x"}) -> (tensor<4xf32> {fusion.name = "y"}) {
  %0 = fusion.exp %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
WITH_WEIGHTS = """
fusion.parameter @w const "w.safetensors" key "w" : tensor<4xf32>
func.func @main() -> tensor<4xf32> {
  %0 = fusion.get_parameter @w : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""


def answer(folder, *words):
    return subprocess.run([BIN / words[0], *map(str, words[1:])], cwd=folder, capture_output=True, text=True, timeout=120)


def checkRefused(checks, folder, name, path, *words):
    """The run is refused, says so in one line, and `path` keeps its bytes."""
    before = (folder / path).read_bytes()
    done = answer(folder, *words)
    lines = done.stderr.strip().splitlines()
    checks.check(f"{name}: exit code 2", done.returncode == 2, f"{done.returncode} {done.stderr[:160]}")
    checks.check(f"{name}: one line that says what to do", len(lines) == 1 and lines[0].startswith("error: ") and
                 "would be overwritten" in lines[0] and "choose another" in lines[0], done.stderr[:200])
    checks.check(f"{name}: the file is as it was", (folder / path).read_bytes() == before)


def main():
    checks = Checks()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "m.mlir").write_text(MODEL)
        (folder / "link.mlir").symlink_to("m.mlir")
        (folder / "hard.mlir").hardlink_to(folder / "m.mlir")
        np.save(folder / "x.npy", np.arange(4, dtype=np.float32))
        for output in ("m.mlir", "./m.mlir", "link.mlir", "hard.mlir"):
            checkRefused(checks, folder, f"fusion-compile -o {output}", "m.mlir", "fusion-compile", "m.mlir", "-o", output)
            checkRefused(checks, folder, f"fusion-opt -o {output}", "m.mlir", "fusion-opt", "m.mlir", "-o", output)
            checkRefused(checks, folder, f"fusion-reduce -o {output}", "m.mlir", "fusion-reduce", "m.mlir", "-o", output)
        checkRefused(checks, folder, "fusion-compile --emit-plan", "m.mlir", "fusion-compile", "m.mlir", "-o", "m.fsn", "--emit-plan=link.mlir")

        run("fusion-compile", "m.mlir", "-o", "m.fsn", "--emit-plan=plan.json", cwd=folder)
        checkRefused(checks, folder, "a plan over itself", "plan.json", "fusion-compile", "m.mlir", "-o", "m.fsn", "--plan=plan.json", "--emit-plan=./plan.json")
        checkRefused(checks, folder, "the module over the plan", "plan.json", "fusion-compile", "m.mlir", "-o", "plan.json", "--plan=plan.json")
        done = answer(folder, "fusion-compile", "m.mlir", "-o", "new", "--emit-plan=new")
        checks.check("module and plan in one file", done.returncode == 2 and "written twice" in done.stderr and not (folder / "new").exists(), done.stderr[:120])

        # What a failing compilation leaves, and what --dump-dir writes.
        (folder / "n.fsn.reproducer.mlir").write_text(MODEL.replace("fusion.exp", "fusion.nothing"))
        checkRefused(checks, folder, "a reproducer over itself", "n.fsn.reproducer.mlir", "fusion-compile", "n.fsn.reproducer.mlir", "-o", "n.fsn")
        (folder / "dump").mkdir()
        (folder / "dump/1-simplify.mlir").write_text(MODEL)
        checkRefused(checks, folder, "a dump over itself", "dump/1-simplify.mlir", "fusion-compile", "dump/1-simplify.mlir", "-o", "n.fsn", "--dump-dir=dump")

        # Weights are read too.
        header = b'{"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}'.ljust(56)
        (folder / "w.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + np.arange(4, dtype=np.float32).tobytes())
        (folder / "w.mlir").write_text(WITH_WEIGHTS)
        (folder / "w.fsn").symlink_to("w.safetensors")
        for output in ("w.safetensors", "w.fsn"):
            done = answer(folder, "fusion-compile", "w.mlir", "-o", output)
            checks.check(f"weights: -o {output}", done.returncode == 2 and "holds parameters of the model" in done.stderr, f"{done.returncode} {done.stderr[:200]}")
        run("fusion-compile", "w.mlir", "-o", "right.fsn", cwd=folder)

        # Outputs beside inputs of the same name.
        (folder / "io").mkdir()
        np.save(folder / "io/y.npy", np.arange(4, dtype=np.float32))
        for tool, model in (("fusion-interpret", "m.mlir"), ("fusion-run", "m.fsn")):
            checkRefused(checks, folder, f"{tool}: an output over an input", "io/y.npy", tool, model, "--input=x=io/y.npy", "--output-dir=io")
            run(tool, model, "--input=x=x.npy", "--output-dir=out", cwd=folder)
            checks.check(f"{tool}: old outputs are replaced", answer(folder, tool, model, "--input=x=x.npy", "--output-dir=out").returncode == 0)
        checkRefused(checks, folder, "fusion-run --profile over the module", "m.fsn", "fusion-run", "m.fsn", "--input=x=x.npy", "--profile=m.fsn")

        (folder / "m.onnx").write_bytes(b"a model")
        (folder / "m.safetensors").symlink_to("m.onnx")
        checkRefused(checks, folder, "fusion-import over the model", "m.onnx", "fusion-import", "m.onnx", "-o", "m.onnx")
        checkRefused(checks, folder, "fusion-import, weights over the model", "m.onnx", "fusion-import", "m.onnx", "-o", "m.mlir")
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())

"""A chain of elementwise ops on a GPU: exact results, device times, errors."""

import json
import tempfile

import numpy as np

from _gpu import fusionRun, main, run

MODEL = """
func.func @main(%x: tensor<1000xf32> {fusion.name = "x"}) -> (tensor<1000xf32> {fusion.name = "y"}) {
  %0 = fusion.neg %x : tensor<1000xf32>
  %1 = fusion.relu %0 : tensor<1000xf32>
  return %1 : tensor<1000xf32>
}
"""


def prepare(folder):
    (folder / "m.mlir").write_text(MODEL)
    run("fusion-compile", "m.mlir", "--target=cuda:sm_90", "-o", "cuda.fsn", cwd=folder)
    np.save(folder / "x.npy", (np.arange(1000, dtype="f4") % 23 - 11))
    run("fusion-interpret", "m.mlir", "--input", "x=x.npy", "--output-dir", "expected", cwd=folder)


def check(folder, checks):
    module, given = folder / "cuda.fsn", ("--input", f"x={folder / 'x.npy'}")
    for extra in ([], ["--nan-check"], ["--profile", "trace.json"]):
        with tempfile.TemporaryDirectory() as scratch:
            extra = [word.replace("trace", f"{scratch}/trace") for word in extra]
            answer = fusionRun(module, *given, "--check", folder / "expected", "--bench", 20,
                               "--json", *extra)
        name = extra[0] if extra else "plain"
        checks.check(f"{name}: as the reference", answer.returncode == 0, answer.stderr)
        bench = json.loads(answer.stdout)["bench"] if answer.returncode == 0 else {}
        checks.check(f"{name}: device time", 0 < bench.get("device_median_us", 0) <= bench.get("median_us", 0),
                     str(bench))
    answer = fusionRun(module, *given, "--device", 999)
    checks.check("a GPU that is not there", answer.returncode == 2, answer.stderr.strip())


if __name__ == "__main__":
    raise SystemExit(main(prepare, check))

"""A chain of elementwise ops on a GPU: exact results, device times, errors."""

import json
import subprocess
import tempfile
from pathlib import Path

import _gpu

_gpu.requireGpu()
from _support import BIN, Checks, run  # noqa: E402

MODEL = """
func.func @main(%x: tensor<1000xf32> {fusion.name = "x"}) -> tensor<1000xf32> {
  %0 = fusion.neg %x : tensor<1000xf32>
  %1 = fusion.relu %0 : tensor<1000xf32>
  return %1 : tensor<1000xf32>
}
"""


def main():
    checks = Checks()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "m.mlir").write_text(MODEL)
        for target in ("cpu", "cuda:sm_90"):
            run("fusion-compile", "m.mlir", f"--target={target}", "-o", f"{target[:4]}.fsn",
                cwd=folder)
        random = ["--random-inputs", "7"]
        run("fusion-run", "cpu.fsn", *random, "--output-dir", "expected", cwd=folder)
        for extra in ([], ["--nan-check"], ["--profile", "trace.json"]):
            answer = run("fusion-run", "cuda.fsn", *random, "--check", "expected", "--bench", "20",
                         "--json", *extra, cwd=folder)
            report = json.loads(answer.stdout)
            checks.check("equals the CPU " + " ".join(extra),
                         all(each["differing"] == 0 for each in report["check"]))
            bench = report["bench"]
            checks.check("device time", 0 < bench["device_median_us"] <= bench["median_us"],
                         str(bench))
        answer = subprocess.run(
            [BIN / "fusion-run", "cuda.fsn", *random, "--device", "999"], cwd=folder,
            capture_output=True, text=True)
        checks.check("a GPU that is not there", answer.returncode == 2, answer.stderr)
    return checks.finish()


if __name__ == "__main__":
    raise SystemExit(main())

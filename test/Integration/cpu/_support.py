"""What the scripts of this folder share: tools, the demo model, checks."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BIN = Path(os.environ.get("FUSION_BIN") or ROOT / "build/dev/bin").resolve()
WHEEL = ROOT / ".cache/wheels/rapidocr_onnxruntime-1.4.4-py3-none-any.whl"
MODEL = "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx"
IMPORT_FLAGS = ["--input-shape", "x=B,3,48,192", "--dynamic-batch=1..8"]


class Checks:
    """Counts checks; `finish` prints the closing line and gives the status."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def check(self, name, condition, detail=""):
        if condition:
            self.passed += 1
            print(f"ok   {name}  {detail}".rstrip(), flush=True)
        else:
            self.failed += 1
            print(f"FAIL {name}  {detail}".rstrip(), flush=True)

    def skip(self, name, reason):
        self.skipped += 1
        print(f"skip {name}  {reason}", flush=True)

    def finish(self):
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped")
        return 1 if self.failed or not self.passed else 0


def run(*command, cwd=None, env=None, prefix=(), timeout=300, **options):
    """Runs a tool of the build and stops the script if it fails."""
    words = [*map(str, prefix), str(BIN / command[0]), *map(str, command[1:])]
    answer = subprocess.run(words, cwd=cwd, env={**os.environ, **(env or {})}, timeout=timeout,
                            capture_output=True, text=True, stdin=subprocess.DEVNULL, **options)
    if answer.returncode != 0:
        sys.exit(f"error: exit status {answer.returncode}, from {' '.join(words)}\n{answer.stderr}")
    return answer


def importDemoModel(folder):
    """Imports the demo network into a folder as cls.mlir and cls.safetensors."""
    if not WHEEL.exists():
        sys.exit(f"error: {WHEEL} not found, for the demo model, run ./dev setup")
    (folder / "cls.onnx").write_bytes(zipfile.ZipFile(WHEEL).read(MODEL))
    run("fusion-import", "cls.onnx", "-o", "cls.mlir", *IMPORT_FLAGS, cwd=folder)

#!/usr/bin/env python3
"""--verify-fusion on the demo network: right groups pass, and a group that a plugin
breaks on its way through fusion-compile is named with exit code 1 and no module.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _support import BIN, Checks, importDemoModel, run

PLUGIN = BIN.parent / "test/plugins/BreakGroup.so"


def main():
    if not PLUGIN.exists():
        print(f"skipped: {PLUGIN} was not built")
        return 77
    checks = Checks()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        importDemoModel(folder)
        run("fusion-compile", "cls.mlir", "-o", "plain.fsn", cwd=folder)
        start = time.monotonic()
        run("fusion-compile", "cls.mlir", "-o", "checked.fsn", "--verify-fusion", cwd=folder)
        checks.check("all groups are right", True, f"{time.monotonic() - start:.1f} s")
        checks.check("checking changes nothing", (folder / "plain.fsn").read_bytes() == (folder / "checked.fsn").read_bytes())
        for number, (old, new) in enumerate([("fusion.relu", "fusion.abs"), ("fusion.add", "fusion.sub"), ("fusion.mul", "fusion.max")]):
            answer = subprocess.run([BIN / "fusion-compile", "cls.mlir", "-o", "wrong.fsn", "--verify-fusion", f"--plugin={PLUGIN}",
                                     f"--run-before=codegen:func.func(test-break-group{{from={old} to={new} number={3 * number}}})"],
                                    cwd=folder, capture_output=True, text=True)
            checks.check(f"{old} as {new} is found", answer.returncode == 1 and "the group computes another value than its ops did" in answer.stderr
                         and "largest difference" in answer.stderr and not (folder / "wrong.fsn").exists(), answer.stderr[:240])
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())

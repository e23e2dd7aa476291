#!/usr/bin/env python3
"""Mutants of schedules that the compiler made: those that do harm are refused.

Compiles small training steps for two ranks. `fusionrt-mutant-test` (see
docs/fuzzing.md) edits their schedules, decides by running every interleaving which
edits do harm, and holds that against the runtime's verifier.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from _support import BIN, Checks, run

INPUTS = Path(__file__).resolve().parent / "Inputs/schedules"


def main():
    checks = Checks()
    judge = BIN / "fusionrt-mutant-test"
    if not judge.exists():
        checks.skip("mutants of compiled schedules", f"{judge} is not built")
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        for source in sorted(INPUTS.glob("*.mlir")):
            run("fusion-compile", source, "--target=cpu", "-o", f"{scratch}/{source.stem}.fsn")
        answer = subprocess.run([judge, "--gtest_filter=*OfCompiledPrograms"], capture_output=True, text=True,
                                timeout=300, env={**os.environ, "FUSION_MUTANT_MODULES": scratch})
        print(answer.stdout)
        checks.check("harmful mutants are refused, reorderings are not", answer.returncode == 0, answer.stderr)
        checks.check("the test ran", "1 test" in answer.stdout and "SKIPPED" not in answer.stdout)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())

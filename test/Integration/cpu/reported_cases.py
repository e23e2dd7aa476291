#!/usr/bin/env python3
# ===- reported_cases.py - Bugs that others reported, as small graphs ------=== #
#
# Systems of this kind share their bugs. Each function in Inputs/reported rebuilds
# one public report as the smallest graph that trips a naive implementation, and
# compares the evaluator, the fused module, the unfused module and the module
# without value-changing rewrites with numpy. Silent when all hold; otherwise each
# broken case is named and the exit status is 1.
#
# ===----------------------------------------------------------------------=== #
"""Checks the reported cases: `reported_cases.py [--keep DIR] [NAME...]`."""

import argparse
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "Inputs/reported"))

# Importing a file of cases registers them.
import batch_norm, clipping, importers, memory, numerics, ranks, side_by_side, variants, vertical  # noqa: E401,E402,F401
from harness import BIN, CASES, Broken, Case  # noqa: E402


def runCase(function, folder):
    """What is broken, or None, and the seconds it took."""
    folder.mkdir()
    start = time.monotonic()
    try:
        function(Case(folder))
    except Broken as error:
        return str(error), time.monotonic() - start
    except Exception as error:  # A slip of the script names its case as well.
        return f"{type(error).__name__}: {error}", time.monotonic() - start
    return None, time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="cases to run (default all)")
    parser.add_argument("--keep", type=Path, help="leave the models in this folder")
    parser.add_argument("--times", action="store_true", help="print each case's time")
    options = parser.parse_args()
    unknown = set(options.names) - {function.__name__ for function in CASES}
    if unknown:
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    for tool in ("fusion-opt", "fusion-compile", "fusion-run", "fusion-interpret"):
        if not (BIN / tool).is_file():
            sys.exit(f"error: {BIN / tool} not found, build it or set FUSION_BIN")
    chosen = [function for function in CASES if not options.names or function.__name__ in options.names]
    broken = 0
    with tempfile.TemporaryDirectory() as scratch:
        root = options.keep or Path(scratch)
        root.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            answers = pool.map(lambda function: runCase(function, root / function.__name__), chosen)
            for function, (problem, seconds) in zip(chosen, answers):
                if problem:
                    broken += 1
                    report = " ".join(function.__doc__.split(":")[0].split())
                    print(f"FAIL {function.__name__} ({report}): {problem}", flush=True)
                elif options.times:
                    print(f"{seconds:6.1f} s  {function.__name__}", flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

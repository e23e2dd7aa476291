# ===- options.py - The fuzzer's command line -----------------------------=== #
#
# Needs nothing but Python, so that ./dev fuzz --help answers on any machine.
#
# ===----------------------------------------------------------------------=== #
"""Random graphs against the reference: every pass alone, passes in random
orders, and compiled, fused and unfused.

A failure prints its seed, is reduced, and stays in --failures/NAME as model.mlir,
in.npz and repeat.sh, the one command that repeats it."""

import argparse
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def parse(arguments):
    parser = argparse.ArgumentParser(prog="./dev fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="exit codes: 0 all equal, 1 a check failed, 2 usage")
    parser.add_argument("--graphs", type=int, default=500, metavar="N", help="how many graphs (default 500)")
    parser.add_argument("--seed", type=int, metavar="S", help="which graphs (default: a new one, printed)")
    parser.add_argument("--minutes", type=float, metavar="M", help="go on for this time, whatever --graphs says")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="J", help="modules at a time (default: all cores)")
    parser.add_argument("--module", type=int, metavar="K", help="module K of the seed only")
    parser.add_argument("--first", type=int, default=0, metavar="K", help="begin with module K")
    parser.add_argument("--per-module", type=int, default=50, metavar="N", help="graphs of a module (default 50)")
    parser.add_argument("--check", metavar="TEXT", action="append", help="only checks that begin so, e.g. 'pass fusion-fuse' or compile; repeatable")
    parser.add_argument("--bin", type=Path, default=Path(os.environ.get("FUSION_BIN") or ROOT / "build/dev/bin"), help="folder of the tools")
    parser.add_argument("--target", default="cpu", metavar="T", help="what the compiler's checks compile for (default cpu)")
    parser.add_argument("--device", metavar="D", help="what passes decide for: cpu, or a GPU's name, whose code is compiled too but not run (default: cpu and h200 in turn)")
    parser.add_argument("--count-only", action="store_true", help="run compiled modules by the null backend: no values, no device")
    parser.add_argument("--failures", type=Path, default=ROOT / "build/fuzz", metavar="DIR", help="folder for what fails (default build/fuzz)")
    parser.add_argument("--timeout", type=float, default=60, metavar="S", help="seconds of processor time that a tool may use (default 60)")
    parser.add_argument("--reduce-seconds", type=float, default=60, metavar="S", help="time to reduce one failure; 0: don't")
    parser.add_argument("--most-failures", type=int, default=8, metavar="N", help="stop after N different ones (default 8)")
    parser.add_argument("--coverage", action="store_true", help="print what the graphs reached")
    options = parser.parse_args(arguments)
    for name in ("graphs", "jobs", "per_module", "most_failures"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1")
    if not (options.bin / "fusion-opt").exists():
        parser.error(f"no tools in {options.bin}, run ./dev build or name another folder with --bin")
    return options


if __name__ == "__main__":
    parse(None)

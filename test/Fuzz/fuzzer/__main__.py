# ===- __main__.py - ./dev fuzz -------------------------------------------=== #
#
# Random graphs through the reference evaluator, every pass, and the compiler.
# Each failure is reduced and left as a folder with a script that repeats it.
#
# ===----------------------------------------------------------------------=== #
"""Random graphs against the reference: every pass alone, passes in random
orders, and compiled, fused and unfused.

A failure prints its seed, is reduced, and stays in --failures/NAME as model.mlir,
in.npz and repeat.sh, the one command that repeats it."""

import argparse
import concurrent.futures
import os
import random
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

from generate import makeModule
from oracle import Case, Check, allChecks
from reduce import Reducer, symptom
from report import ROOT, Coverage, writeFailure
from tools import Tools


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


class Session:
    """One run: modules, failures, counts."""

    def __init__(self, options):
        self.options = options
        self.seed = options.seed if options.seed is not None else random.SystemRandom().randrange(2**31)
        self.tools = Tools(options.bin.resolve(), options.timeout, options.target, options.count_only)
        self.coverage = Coverage() if options.coverage else None
        self.found = {}  # (check, symptom) -> (module's number, module, check, failure)
        self.counts = {}  # of the same keys
        self.checks = self.graphs = 0

    def work(self, scratch, number):
        """Checks one module; returns what failed."""
        end = None
        if self.options.minutes is None and self.options.module is None:
            end = self.options.first * self.options.per_module + self.options.graphs
        module = makeModule(self.seed, number, self.options.per_module, end)
        checks = [check for check in allChecks(self.tools, (self.seed, number))
                  if not self.options.check or check.name.startswith(tuple(self.options.check))]
        if self.coverage:
            self.coverage.noteModule(module)
        folder = Path(scratch) / f"module{number}"
        case = Case(self.tools, folder, module, self.coverage)
        failures = case.run(checks)
        shutil.rmtree(folder, ignore_errors=True)
        return number, module, checks, failures

    def note(self, number, module, checks, failures):
        self.graphs += len(module.graphs)
        self.checks += len(checks)
        for failure in failures:
            key = (kindOfCheck(failure.check), symptom(failure))
            self.counts[key] = self.counts.get(key, 0) + 1
            if key in self.found:
                continue
            name = failure.check.removesuffix(" (unfused)")
            check = next((check for check in checks if check.name == name), Check("roundtrip", "text"))
            self.found[key] = (number, module, check, failure)
            print(f"FAILED seed {self.seed} module {number}: {failure.check}: {failure.kind}: {failure.detail}", flush=True)
            for command in failure.commands:
                print("  " + " ".join(map(str, command)))

    def numbers(self):
        """The modules to check."""
        options = self.options
        if options.module is not None:
            return iter([options.module])
        if options.minutes is None:
            last = options.first + (options.graphs + options.per_module - 1) // options.per_module
            return iter(range(options.first, last))
        end = time.monotonic() + options.minutes * 60

        def endless():
            number = options.first
            while time.monotonic() < end:
                yield number
                number += 1
        return endless()

    def run(self, scratch):
        start = shown = time.monotonic()
        numbers, running = self.numbers(), set()
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            while True:
                while len(running) < self.options.jobs and len(self.found) < self.options.most_failures:
                    number = next(numbers, None)
                    if number is None:
                        break
                    running.add(pool.submit(self.work, scratch, number))
                if not running:
                    break
                done, running = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
                for future in done:
                    self.note(*future.result())
                now = time.monotonic()
                if now - shown > 30:
                    shown = now
                    print(f"{self.graphs} graphs, {self.graphs / (now - start):.1f} a second, {len(self.found)} failures", flush=True)
        return time.monotonic() - start

    def reduce(self, scratch):
        """Leaves a folder for each failure."""
        for i, ((name, _), (number, module, check, failure)) in enumerate(self.found.items()):
            folder = self.options.failures / f"seed{self.seed}-module{number}-{re.sub(r'[^a-z0-9]+', '-', name)[:50]}-{i}"
            origin = f"./dev fuzz --seed {self.seed} --module {number} --per-module {self.options.per_module} --check '{check.name}'"
            if self.options.reduce_seconds > 0:
                reducer = Reducer(self.tools, Path(scratch) / "reduce", module, check, failure, self.options.reduce_seconds)
                module, check, failure = reducer.run()
            writeFailure(folder, Case(self.tools, Path(scratch) / "last", module), check, failure, origin, self.options.bin.resolve())
            ops = sum(len(graph.ops) for graph in module.graphs)
            print(f"reduced to {ops} ops in {len(module.graphs)} graphs: {failure.check}: {failure.kind}: {failure.detail}\n"
                  f"  repeat: bash {folder / 'repeat.sh'}\n  origin: {origin}", flush=True)


def kindOfCheck(name):
    """Checks that are the same one for counting: random orders, random flags."""
    return name.split(" ")[0] if name.startswith(("order", "compile")) else name.split("=")[0]


def main(arguments=None):
    options = parse(arguments)
    session = Session(options)
    print(f"seed {session.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="fusion-fuzz-") as scratch:
        seconds = session.run(scratch)
        session.reduce(scratch)
    failed = len(session.found)
    if session.coverage:
        session.coverage.print()
    for (name, what), count in session.counts.items():
        print(f"  {count} x {name}: {what if isinstance(what, str) else ' '.join(what)}")
    print(f"{session.graphs} graphs, {session.checks} checks of modules, {session.graphs / max(seconds, 1e-9):.1f} graphs a second, seed {session.seed}")
    print(f"{session.checks - failed if session.checks >= failed else 0} passed, {failed} failed")
    return 1 if failed or not session.graphs else 0


if __name__ == "__main__":
    sys.exit(main())

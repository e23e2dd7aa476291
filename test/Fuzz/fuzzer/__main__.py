# ===- __main__.py - ./dev fuzz -------------------------------------------=== #
#
# Random graphs through the reference evaluator, every pass, and the compiler.
# Each failure is reduced and left as a folder with a script that repeats it.
#
# ===----------------------------------------------------------------------=== #
"""The fuzzer: modules, failures, counts (options.py says what for)."""

import concurrent.futures
import random
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

from generate import makeModule
from options import parse
from oracle import Case, Check, allChecks
from reduce import Reducer, symptom
from report import Coverage, writeFailure
from tools import Tools


class Session:
    """One run: modules, failures, counts."""

    def __init__(self, options):
        self.options = options
        self.seed = options.seed if options.seed is not None else random.SystemRandom().randrange(2**31)
        self.tools = Tools(options.bin.resolve(), options.timeout, options.target, options.count_only, options.device)
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
            if self.options.device:
                origin += f" --device {self.options.device}"
            if self.options.reduce_seconds > 0:
                reducer = Reducer(self.tools, Path(scratch) / "reduce", module, check, failure, self.options.reduce_seconds)
                module, check, failure = reducer.run()
            writeFailure(folder, Case(self.tools, Path(scratch) / "last", module), check, failure, origin, self.options.bin.resolve())
            ops = sum(len(graph.ops) for graph in module.graphs)
            print(f"reduced to {ops} ops in {len(module.graphs)} graphs: {failure.check}: {failure.kind}: {failure.detail}\n"
                  f"  repeat: bash {folder / 'repeat.sh'}\n  origin: {origin}", flush=True)


def kindOfCheck(name):
    """Checks that are the same one for counting: random orders, random flags."""
    return name.split(" ")[0] if name.startswith(("order", "compile", "lower")) else re.sub("=.*?(?= for |$)", "", name)


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

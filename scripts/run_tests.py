"""Runs every test suite of the tree and sums their results.

A suite is found by its folder, so a new test needs no edit here; the list of
suites is explicit, so that one that vanishes, or runs nothing, is a failure.
Each suite's own summary is parsed for its counts. The last line is
`N passed, N failed, N skipped`; the exit status is 0 if nothing failed.

Assumes a built tree (./dev test builds it) and the Python of .venv.
"""

import argparse
import collections
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Optional

sys.path.insert(0, str(Path(__file__).resolve().parent))
import gtest_suite

ROOT = Path(__file__).resolve().parent.parent
JOBS = int(os.environ.get("FUSION_JOBS") or os.cpu_count() or 1)
# A suite that runs longer than this hangs: no suite takes half of it.
SUITE_TIMEOUT = 30 * 60
SCRIPT_TIMEOUT = 15 * 60
SKIPPED = 77  # exit status of an integration script that can't run here
COUNTS = re.compile(r"^(?:\w+: )?(\d+) passed, (\d+) failed(?:, (\d+) skipped)?\s*$", re.M)


@dataclass
class Result:
    """What one suite did. `output` is shown when something failed."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    output: str = ""
    skips: list = field(default_factory=list)  # names with reasons


def run(command, timeout=SUITE_TIMEOUT, cwd=ROOT, env=None):
    """Runs a command; returns (exit status, stdout and stderr together)."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [str(part) for part in command], cwd=cwd, stdin=subprocess.DEVNULL, stdout=log,
            stderr=subprocess.STDOUT, env={**os.environ, **(env or {})}, start_new_session=True)
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
            status = None
        except BaseException:
            os.killpg(process.pid, 9)
            raise
        log.seek(0)
        text = log.read().decode(errors="replace")
    if status is None:
        return 124, text + f"\nerror: stopped after {timeout} s, {command[0]}, it hangs\n"
    return status, text


def settled(result, status):
    """An exit status that the counts don't explain is one more failure."""
    if status != 0 and result.failed == 0:
        result.failed = 1
        result.output += f"\nexit status {status} without a failed test\n"
    return result


def gtestSuite(build, wanted):
    """All tests that CMake knows below `wanted` folders of the build tree."""
    def suite(pattern):
        result = Result()
        commands = gtest_suite.listed(build, wanted)
        with ThreadPoolExecutor(JOBS) as pool:
            for outcome in pool.map(lambda c: gtest_suite.runOne(run, c, pattern), commands):
                result.passed += outcome.passed
                result.failed += outcome.failed
                result.skipped += outcome.skipped
                result.output += outcome.output
        return result
    return suite


def litSuite(build, switches=None):
    words = {"Passed": "passed", "Passed With Retry": "passed", "Expectedly Failed": "passed",
             "Failed": "failed", "Unresolved": "failed", "Timed Out": "failed",
             "Unexpectedly Passed": "failed", "Unsupported": "skipped", "Skipped": "skipped"}

    def suite(pattern):
        status, text = run(["ninja", "-C", build, "check-fusion-lit"],
                           env={**(switches or {}), **({"LIT_FILTER": pattern} if pattern else {})})
        result = Result(output=text)
        if pattern and "did not match any tests" in text:
            return result
        for word, count in re.findall(r"^\s+([A-Z][A-Za-z ]+?)\s*:\s*(\d+)(?: \(|$)", text, re.M):
            if word in words:
                name = words[word]
                setattr(result, name, getattr(result, name) + int(count))
        return settled(result, status)
    return suite


def pytestSuite(folder):
    def suite(pattern):
        with tempfile.TemporaryDirectory() as scratch:
            report = Path(scratch) / "report.xml"
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
                       f"--junitxml={report}", folder]
            status, text = run(command + (["-k", pattern] if pattern else []),
                               env={"PYTHONNOUSERSITE": "1"})
            result = Result(output=text)
            reasons = collections.Counter()
            if report.exists():
                for case in ElementTree.parse(report).iter("testcase"):
                    kinds = {child.tag for child in case}
                    if kinds & {"failure", "error"}:
                        result.failed += 1
                    elif "skipped" in kinds:
                        result.skipped += 1
                        reasons[case.find("skipped").get("message", "no reason")] += 1
                    else:
                        result.passed += 1
            result.skips = [f"{count} x {reason}" for reason, count in reasons.items()]
        # 5: nothing collected, which the caller judges.
        return settled(result, 0 if status == 5 else status)
    return suite


def summarySuite(*command):
    """A harness that ends with the plain line `N passed, N failed, N skipped`."""
    def suite(pattern):
        status, text = run([*command, *(["--filter", pattern] if pattern else [])])
        result = Result(output=text)
        found = COUNTS.findall(text)
        if found:
            result.passed, result.failed, result.skipped = (int(n or 0) for n in found[-1])
        else:
            result.failed = 1
            result.output += "\nno line 'N passed, N failed, N skipped'\n"
        return settled(result, status)
    return suite


def scripts(folder):
    return sorted(path for path in Path(folder).glob("*")
                  if path.suffix in (".sh", ".py") and not path.name.startswith("_"))


def scriptSuite(folder, build):
    """Each script of the folder is one test: exit 0, 77 (skipped) or failed; or
    as many as its closing line says. One after the other: some measure time."""
    def suite(pattern):
        result = Result()
        for path in scripts(folder):
            if pattern and pattern not in path.name:
                continue
            start = time.monotonic()
            shell = ["bash"] if path.suffix == ".sh" else [sys.executable]
            status, text = run([*shell, path], SCRIPT_TIMEOUT, env={
                "FUSION_ROOT": str(ROOT), "FUSION_BIN": str(build / "bin"),
                "FUSION_PYTHON": sys.executable, "PYTHONNOUSERSITE": "1"})
            word = {0: "ok", SKIPPED: "skipped"}.get(status, f"FAILED (exit {status})")
            print(f"       {path.name}: {word}, {time.monotonic() - start:.1f} s", flush=True)
            counts = [int(n or 0) for n in (COUNTS.findall(text) or [[]])[-1]]
            if counts:
                own = settled(Result(*counts, output=text), status)
                result.passed += own.passed
                result.failed += own.failed
                result.skipped += own.skipped
                result.output += f"--- {path.name}\n{own.output}\n" if own.failed else ""
            elif status == 0:
                result.passed += 1
            elif status == SKIPPED:
                result.skipped += 1
                reason = text.strip().splitlines()[-1:] or ["no reason given"]
                result.skips.append(f"{path.name}: {reason[0]}")
            else:
                result.failed += 1
                result.output += f"--- {path.name}\n{text}\n"
        return result
    return suite


@dataclass
class Suite:
    name: str
    where: str  # what must exist in the tree, and where tests are added
    what: str
    least: int  # fewer tests than this means that some have vanished
    runs: Callable[[Optional[str]], Result]


def allSuites(build):
    """Every suite that must exist, in running order: fast ones first."""
    return [
        Suite("units", "test/Unit", "GoogleTest programs of the compiler", 1,
              gtestSuite(build, ["test"])),
        Suite("runtime", "runtime", "GoogleTest programs of the runtime", 1,
              gtestSuite(build, ["runtime"])),
        Suite("lit", "test/lit.cfg.py", "FileCheck tests of passes and tools", 1, litSuite(build)),
        Suite("roundtrip", "test/lit.cfg.py", "the same, each input printed and parsed again", 1,
              litSuite(build, {"FUSION_ROUNDTRIP": "1"})),
        Suite("python", "test/Python", "pytest: importer and Python API", 1,
              pytestSuite(ROOT / "test/Python")),
        Suite("onnx", "test/Integration/onnx/run_cases.py", "ONNX node cases, compiled and run", 500,
              summarySuite(sys.executable, ROOT / "test/Integration/onnx/run_cases.py",
                           "--bin", build / "bin", "--jobs", JOBS)),
        Suite("fuzz", "test/Fuzz", "random graphs against the reference, and the fuzzer itself", 100,
              scriptSuite(ROOT / "test/Fuzz", build)),
        Suite("integration", "test/Integration/cpu", "whole-system scripts on the CPU", 1,
              scriptSuite(ROOT / "test/Integration/cpu", build)),
        Suite("cuda", "test/Integration/cuda", "whole-system scripts on a GPU", 0,
              scriptSuite(ROOT / "test/Integration/cuda", build)),
    ]


def chosen(suites, filters):
    """Pairs (suite, pattern) that the filters name; all suites without one."""
    if not filters:
        return [(suite, None) for suite in suites]
    names = {suite.name for suite in suites}
    picked = []
    for text in filters:
        name, _, pattern = text.partition(":")
        if name in names:
            picked += [(suite, pattern or None) for suite in suites if suite.name == name]
        else:
            picked += [(suite, text) for suite in suites]
    return picked


def runSuite(suite, pattern):
    """Runs one suite and prints its line; returns its result."""
    print(f"[test] {suite.name}{':' + pattern if pattern else ''} ...", flush=True)
    start = time.monotonic()
    if not (ROOT / suite.where).exists():
        result = Result(failed=1, output=f"error: suite {suite.name} is gone, {suite.where}, restore it\n")
    else:
        try:
            result = suite.runs(pattern)
        except gtest_suite.ListError as error:
            result = Result(failed=1, output=f"error: {error}\n")
    total = result.passed + result.failed
    if not pattern and total < suite.least and result.failed == 0:
        result.failed = 1
        result.output += f"\nerror: only {total} tests ran, in suite {suite.name}, expected {suite.least} or more\n"
    if result.failed:
        print("\n".join(result.output.splitlines()[-200:]), flush=True)
    for line in result.skips:
        print(f"       skipped {line}")
    print(f"[test] {suite.name}: {result.passed} ok, {result.failed} not ok, {result.skipped} skipped, "
          f"{time.monotonic() - start:.1f} s", flush=True)
    return result


def main():
    # A job in the background of a script starts with these ignored, and hands that on
    # to what it starts; tests send them.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    parser = argparse.ArgumentParser(prog="./dev test", description=__doc__.splitlines()[0])
    parser.add_argument("filters", nargs="*", metavar="FILTER",
                        help="a suite, suite:pattern, or a pattern for all suites")
    parser.add_argument("--list", action="store_true", help="print the suites and stop")
    parser.add_argument("--build-dir", type=Path, default=ROOT / "build/dev")
    arguments = parser.parse_args()

    # What ./dev setup installs where there is no toolkit of CUDA.
    for wheel in sorted((ROOT / ".venv/lib").glob("python3*/site-packages/nvidia/cu13")):
        if (wheel / "bin/ptxas").exists():
            os.environ.setdefault("CUDA_HOME", str(wheel))

    suites = allSuites(arguments.build_dir)
    if arguments.list:
        for suite in suites:
            state = "" if (ROOT / suite.where).exists() else "  (missing)"
            print(f"{suite.name:12} {suite.where:36} {suite.what}{state}")
        return 0

    start = time.monotonic()
    results = [runSuite(*pair) for pair in chosen(suites, arguments.filters)]
    passed, failed, skipped = (sum(getattr(result, name) for result in results)
                               for name in ("passed", "failed", "skipped"))
    if passed + failed == 0:
        print(f"error: no test matches '{' '.join(arguments.filters)}', in any suite, see ./dev test --list", file=sys.stderr)
        return 2
    print(f"[test] all suites: {time.monotonic() - start:.1f} s")
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

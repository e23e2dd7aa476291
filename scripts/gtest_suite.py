"""Finds and runs the test programs that CMake knows, counting single tests.

CTest counts programs; a GoogleTest program holds many tests and prints its own
summary, which is what is counted here. A program that isn't GoogleTest counts
as one test.
"""

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

PROGRAM_TIMEOUT = 10 * 60


class ListError(Exception):
    """CTest can't list the tests (the tree isn't built, say)."""


@dataclass
class Outcome:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    output: str = ""


def listed(build, folders):
    """The test entries of CTest in the given folders of the build tree."""
    entries = []
    for folder in folders:
        where = Path(build) / folder
        if not (where / "CTestTestfile.cmake").exists():
            raise ListError(f"no CTest file, in {where}, build the tree first")
        answer = subprocess.run(["ctest", "--test-dir", where, "--show-only=json-v1"],
                                capture_output=True, text=True)
        if answer.returncode != 0:
            raise ListError(f"ctest failed, in {where}, {answer.stderr.strip()}")
        entries += json.loads(answer.stdout)["tests"]
    return entries


def runOne(run, entry, pattern):
    """Runs one entry through `run(command, timeout, cwd, env)`."""
    name = entry["name"]
    if "command" not in entry:
        return Outcome(failed=1, output=f"--- {name}: its program was not built\n")
    properties = {item["name"]: item["value"] for item in entry.get("properties", [])}
    env = dict(pair.split("=", 1) for pair in properties.get("ENVIRONMENT", []))
    # A name that matches keeps the whole program; else its single tests do.
    if pattern and pattern.lower() not in name.lower():
        env["GTEST_FILTER"] = f"*{pattern}*"
    status, text = run(entry["command"], properties.get("TIMEOUT", PROGRAM_TIMEOUT),
                       properties.get("WORKING_DIRECTORY", "."), env)
    ran = re.search(r"^\[==========\] (\d+) tests? from .* ran\.", text, re.M)
    if not ran:
        if "GTEST_FILTER" in env and "[==========]" not in text:
            return Outcome()  # not GoogleTest and not named by the pattern
        return verdict(name, status, text, properties)
    def count(word):
        found = re.search(rf"^\[  {word} *\] (\d+) tests?[.,]", text, re.M)
        return int(found.group(1)) if found else 0
    outcome = Outcome(passed=count("PASSED"), failed=count("FAILED"), skipped=count("SKIPPED"))
    if status != 0 and outcome.failed == 0:
        outcome.failed = 1
    # The same test counts once: GoogleTest has no other state.
    if outcome.failed:
        outcome.output = f"--- {name} (exit {status})\n{text}\n"
    return outcome


def verdict(name, status, text, properties):
    """A program without GoogleTest's summary: it crashed, or is one test."""
    if status == properties.get("SKIP_RETURN_CODE", object()):
        return Outcome(skipped=1)
    if status != 0 or "[==========] Running" in text:
        return Outcome(failed=1, output=f"--- {name} (exit {status})\n{text}\n")
    return Outcome(passed=1)

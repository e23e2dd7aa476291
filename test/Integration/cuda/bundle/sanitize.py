#!/usr/bin/env python3
# ===- sanitize.py - compute-sanitizer over the small models ---------------=== #
#
# Each tool over each model in a process of its own; errors are told apart by the
# kernel they are in: ours are named k and a number, all others are a library's.
#
# ===----------------------------------------------------------------------=== #
"""memcheck, racecheck and initcheck over the kernels of a bundle's small models."""

import argparse
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
TOOLS = {"memcheck": (), "racecheck": ("--racecheck-report", "analysis"), "initcheck": ()}
# initcheck does not see what cuBLASLt and cuDNN write: models without them.
LIBRARIES = re.compile("batches|chains|contractions")
# What begins a finding, and the line that names its kernel.
FINDING = re.compile(r"^=+ (?:Error: |Warning: )?((?:Invalid|Uninitialized|Race reported|Barrier error|Program hit|Misaligned|Out-of-range).*)$", re.M)
OURS = re.compile(r"\bk\d+(?:\.body)?\b")
MOST_LINES = 30


def sanitizer():
    found = shutil.which("compute-sanitizer") or next(
        (str(path) for path in sorted(Path("/usr/local").glob("cuda*/bin/compute-sanitizer"))), None)
    if not found:
        sys.exit("error: no compute-sanitizer in PATH or /usr/local/cuda*")
    return found


def findings(text):
    """(what, kernel) of each finding."""
    found = []
    for match in FINDING.finditer(text):
        rest = text[match.end():match.end() + 800]
        place = re.search(r"(?:at|in|by Thread.*?at) (?:\S*?::)?([\w.$]+)(?:\(|\+)", match[1] + rest) or re.search(
            r"\b(k\d+)\b", match[1] + rest)
        found.append((match[1][:160], place[1] if place else "?"))
    return found


def summary(text):
    """The count in the closing line, or None if there is none."""
    errors = re.search(r"ERROR SUMMARY: (\d+) error", text) or re.search(r"RACECHECK SUMMARY: (\d+) hazard", text)
    return int(errors[1]) if errors else None


def command(tool, log):
    return [sanitizer(), "--tool", tool, "--report-api-errors", "no", "--log-file", str(log), "--print-limit", "50", *TOOLS[tool]]


def runOne(tool, name, options, folder):
    log = folder / f"{tool}-{name}.log"
    began = time.monotonic()
    words = command(tool, log) + [sys.executable, str(FOLDER / "check.py"), str(options.bundle), "--only", f"^{name}$", "--here",
                                  "--way", "apart", "--variants", options.variants]
    try:
        answer = subprocess.run(words, capture_output=True, text=True, timeout=options.timeout)
        status, said = answer.returncode, answer.stdout + answer.stderr
    except subprocess.TimeoutExpired:
        status, said = None, "no end"
    text = log.read_text(errors="replace") if log.exists() else ""
    problems, library = [], 0
    for what, kernel in findings(text):
        if OURS.fullmatch(kernel):
            problems.append(f"{kernel}: {what}")
        else:
            library += 1
    count = summary(text)
    if count is None or (count and not findings(text)):
        problems.append("no summary: " + " | ".join((said + text).strip().splitlines()[-3:])[:300])
    if status != 0:
        problems.append(f"the program ended with {status}: " + " | ".join(said.strip().splitlines()[-3:])[:300])
    return tool, name, problems, library, time.monotonic() - began


def controls(folder):
    """Each tool finds a planted mistake; returns what is wrong."""
    program = folder / "control"
    built = subprocess.run(["nvcc", "-arch=sm_90", "-o", program, FOLDER / "control.cu"], capture_output=True, text=True)
    if built.returncode != 0:
        return [f"control.cu does not compile: {built.stderr[:300]}"]
    wrong = []
    for mode, tool in enumerate(TOOLS):
        log = folder / f"{tool}-control.log"
        subprocess.run(command(tool, log) + [program, str(mode)], capture_output=True, timeout=60)
        text = log.read_text(errors="replace") if log.exists() else ""
        if not summary(text) or not any(kernel == "control" for _, kernel in findings(text)):
            wrong.append(f"{tool} does not find its control: {text[-300:]}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bundle", type=Path, help="a folder that make.py wrote")
    parser.add_argument("--only", default="^small-", metavar="REGEX")
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--variants", default="alone,strict")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--timeout", type=float, default=180, help="seconds of one tool on one model")
    parser.add_argument("--logs", type=Path, help="where the tools' logs stay")
    options = parser.parse_args()
    start = time.monotonic()
    names = sorted(path.name for path in options.bundle.iterdir() if re.search(options.only, path.name) and (path / "cases.json").exists())
    kernels = set()
    for name in names:
        listed = json.loads((options.bundle / name / "cases.json").read_text())["kernels"]
        kernels |= {(name, variant, kernel) for variant in options.variants.split(",") for kernel in listed[variant]}
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.logs or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for wrong in controls(folder):
            failed += 1
            print("FAIL", wrong)
        # The slow ones first.
        jobs = [(tool, name) for tool in sorted(options.tools.split(","), key="racecheck memcheck initcheck".split().index) for name in names
                if tool != "initcheck" or not LIBRARIES.search(name)]
        lines = 0
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for tool, name, problems, library, seconds in pool.map(lambda job: runOne(*job, options, folder), jobs):
                failed += len(problems)
                print(f"{'FAIL' if problems else 'ok  '} {tool} {name} {seconds:.0f} s" + (f", {library} findings in libraries" if library else ""),
                      flush=True)
                for problem in problems:
                    lines += 1
                    if lines <= MOST_LINES:
                        print("     ", problem[:300])
    print(f"sanitizers: {len(names)} models, {len(kernels)} kernels under {options.tools}, {failed} failures, {time.monotonic() - start:.0f} s")
    return 1 if failed or not kernels else 0


if __name__ == "__main__":
    sys.exit(main())

# ===- worker.py - Measurements in a process of their own -------------------=== #
#
# What must not share a process with PyTorch's timing (XLA's memory pool, CUPTI, ncu)
# runs as `python -m fusion_compiler.bench.NAME` and prints one JSON object a line: an
# answer has a `name`, anything else is a fact about the whole. Lines that are there
# when the time is up, or the process dies, count.
#
# ===----------------------------------------------------------------------=== #
"""Runs worker processes and collects what they print."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Iterable, Sequence


def environment() -> dict[str, str]:
    """This process's, in which the package is found."""
    here = str(Path(__file__).resolve().parents[2])
    return {**os.environ, "PYTHONPATH": os.pathsep.join([here, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)}


def say(answer: dict) -> None:
    """In a worker: prints an answer or a fact."""
    print(json.dumps(answer), flush=True)


def answers_in(lines: Iterable[str]) -> tuple[list[dict], dict]:
    """Answers in their order, and facts; other lines are somebody else's."""
    answers, facts = [], {}
    for line in lines:
        try:
            answer = json.loads(line)
        except ValueError:
            continue
        if not isinstance(answer, dict):
            continue
        if "name" in answer:
            answers.append(answer)
        else:
            facts.update(answer)
    return answers, facts


def collect(module: str, words: Sequence[str], limit_s: float, before: Sequence[str] = ()) -> tuple[list[dict], dict]:
    """Answers and facts of a worker that may take `limit_s` seconds; `before` is a command that starts it. A fact
    `failed` says why there is no more."""
    command = [*before, sys.executable, "-m", f"fusion_compiler.bench.{module}", *words]
    with tempfile.TemporaryFile("w+") as errors, tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, stdout=output, stderr=errors, stdin=subprocess.DEVNULL, env=environment(),
                                   start_new_session=True)
        late = False
        try:
            process.wait(limit_s)
        except subprocess.TimeoutExpired:
            late = True
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # what it has started too
                process.wait()
        output.seek(0)
        answers, facts = answers_in(output)
        if late:
            facts["failed"] = f"stopped after {limit_s:g} s; what it had said before counts"
        elif process.returncode and "failed" not in facts:
            errors.seek(0)
            said = errors.read().strip().splitlines()
            facts["failed"] = (said[-1] if said else f"exit status {process.returncode}")[:300]
    return answers, facts

"""Runs Fusion's command-line tools for the demo and reads what they answer."""

import json
import shlex
import subprocess
import sys
import time
from pathlib import Path

import numpy as np


class ToolError(Exception):
    """A tool failed; `code` is its exit status, the message is ready to print."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


class Tools:
    """The tools of one build folder. Commands run in `workDir`, so that what
    they print and what the demo shows has short paths."""

    def __init__(self, binDir, workDir):
        self.binDir = Path(binDir)
        self.workDir = Path(workDir)

    def run(self, *command, timeout=600):
        """Runs a tool; returns (stdout, stderr, seconds)."""
        words = [str(word) for word in command]
        program = self.binDir / words[0]
        if not program.exists():
            raise ToolError(5, f"{words[0]} not found, in {self.binDir}, run ./dev build")
        start = time.perf_counter()
        try:
            answer = subprocess.run([program, *words[1:]], cwd=self.workDir, text=True,
                                    stdin=subprocess.DEVNULL, capture_output=True,
                                    timeout=timeout)
        except subprocess.TimeoutExpired as error:
            raise ToolError(8, f"no answer after {timeout} s, from: {shlex.join(words)}") from error
        if answer.returncode != 0:
            code = answer.returncode if answer.returncode > 0 else 128 - answer.returncode
            sys.stderr.write(answer.stderr)
            raise ToolError(code, f"exit status {code}, from: {shlex.join(words)}, see above")
        return answer.stdout, answer.stderr, time.perf_counter() - start

    def output(self, module, inputs, folder):
        """Runs the module on `name=file` inputs; returns its only output."""
        (self.workDir / folder).mkdir(parents=True, exist_ok=True)
        self.run("fusion-run", module, *(f"--input={i}" for i in inputs), "--threads=1",
                 f"--output-dir={folder}")
        files = sorted((self.workDir / folder).rglob("*.npy"))
        if len(files) != 1:
            raise ToolError(9, f"expected one output, in {folder}, found {len(files)}")
        return np.load(files[0], allow_pickle=False)

    def bench(self, module, inputs, repeats, threads=1):
        """Median microseconds of a run."""
        out, _, _ = self.run("fusion-run", module, *(f"--input={i}" for i in inputs),
                             f"--threads={threads}", f"--bench={repeats}", "--json")
        return medianMicroseconds(json.loads(out))

    def launches(self, module, inputs):
        """What the null backend counted in one run, by name; it computes nothing."""
        out, _, _ = self.run("fusion-run", module, *(f"--input={i}" for i in inputs),
                             "--backend=null", "--json")
        return json.loads(out)["counts"]


def medianMicroseconds(report):
    """The wall-clock median in a --bench --json report."""
    return float(report["bench"]["median_us"])

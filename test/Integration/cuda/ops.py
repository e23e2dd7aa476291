"""Every op on a GPU against the reference: the bundle's models, one test each.

bundle/make.py compiles them and evaluates what to expect, bundle/check.py runs them.
"""

import re
import subprocess
import sys
from pathlib import Path

from _gpu import BIN, main

BUNDLE = Path(__file__).resolve().parent / "bundle"
LINE = re.compile(r"(\S+): (\d+ results, .*), (\d+) failures, (.*)")


def prepare(folder):
    subprocess.run([sys.executable, BUNDLE / "make.py", "--bin", BIN, "-o", folder / "bundle"], check=True,
                   stdout=subprocess.DEVNULL)


def check(folder, checks):
    answer = subprocess.run([sys.executable, BUNDLE / "check.py", folder / "bundle"], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True)
    finished = False
    for line in answer.stdout.splitlines():
        model = LINE.fullmatch(line)
        finished = finished or re.match(r"\d+ models, ", line) is not None
        if model and model[1] != "models":
            checks.check(model[1], model[3] == "0", f"{model[2]}, {model[3]} failures, {model[4]}")
        elif line.startswith("FAIL"):
            checks.check("a result", False, line[5:])
    # A script that fails before its last line has exit status 1 as well.
    checks.check("all were run", finished and answer.returncode in (0, 1), "" if finished else answer.stdout[-500:])


if __name__ == "__main__":
    raise SystemExit(main(prepare, check))

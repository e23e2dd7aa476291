"""Asks every tool in a folder for its version: `TOOL VERSION` on stdout, nothing else."""

import os
import re
import subprocess
import sys

folder, source = sys.argv[1:]
with open(os.path.join(source, "python", "fusion_compiler", "__init__.py"), encoding="utf-8") as file:
    version = re.search(r'__version__ = "([^"]+)"', file.read())[1]
# Beside the tools lie programs of the tests.
tools = sorted(name for name in os.listdir(folder) if re.fullmatch(r"fusion-(?!test-|fuzz-|bench-)[a-z-]+", name))
for tool in tools:
    answer = subprocess.run([os.path.join(folder, tool), "--version"], capture_output=True, text=True,
                            stdin=subprocess.DEVNULL, timeout=60)
    line = answer.stdout.strip()
    if answer.returncode or answer.stderr or not re.fullmatch(rf"{tool} {re.escape(version)}( \(build \w+\))?", line):
        print(f"{tool}: exit {answer.returncode}, {answer.stdout!r}, {answer.stderr!r}")
print(" ".join(tools))

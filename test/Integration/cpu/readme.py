#!/usr/bin/env python3
"""What README.md shows is what happens, and what it names exists.

Runs each `$` command of its console blocks in the tree's root and compares the
output; checks that links and `./dev` commands exist. `readme.py --update` writes
the outputs into README.md instead.
"""

import os
import re
import subprocess
import sys

from _support import BIN, ROOT, Checks

README = ROOT / "README.md"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.M | re.S)


def output(command):
    """What a command prints, stdout and stderr in order."""
    command = command.replace("build/dev/bin", str(BIN))
    answer = subprocess.run(["bash", "-c", command], cwd=ROOT, text=True, stdin=subprocess.DEVNULL, timeout=120,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, "LC_ALL": "C"})
    return answer.stdout.rstrip("\n")


def commands(block):
    """Pairs (command, shown output) of a console block; a command may be folded."""
    for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
        command, shown = re.fullmatch(r"((?:.*(?:\\|&&)\n)*.*)\n?((?s:.*))", part).groups()
        yield command, shown.rstrip("\n")


def updated(match):
    parts = [f"$ {command}\n{output(command)}\n" for command, _ in commands(match.group(1))]
    return "```console\n" + "".join(parts) + "```"


def main():
    text = README.read_text()
    if "--update" in sys.argv[1:]:
        README.write_text(BLOCK.sub(updated, text))
        return 0
    checks = Checks()
    for block in BLOCK.findall(text):
        for command, shown in commands(block):
            now = output(command)
            checks.check(command, now == shown and shown != "", "" if now == shown else f"prints:\n{now}")
    for link in sorted(set(re.findall(r"\]\(([^)#:]+)\)", text))):
        checks.check(f"link {link}", (ROOT / link).exists())
    usage = subprocess.run([ROOT / "dev", "help"], capture_output=True, text=True, check=True).stdout
    for name in sorted(set(re.findall(r"\./dev (\w+)", text))):
        checks.check(f"./dev {name}", re.search(rf"^  {name}\b", usage, re.M) is not None)
    for tool in sorted(set(re.findall(r"`(fusion-[a-z-]+)`", text)) - {"fusion-runtime"}):
        checks.check(f"tool {tool}", (BIN / tool).exists())
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())

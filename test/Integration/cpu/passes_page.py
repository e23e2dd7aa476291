"""Every pass is on a page of docs/, and what docs/passes.md shows is what happens.

A section of that page is a pass, by its heading; its first block is what goes in, its
second what comes out: lines that follow one another in what fusion-opt prints, with `...`
for any number between.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from _support import BIN, ROOT, Checks, run

C = Checks()
BLOCK = re.compile(r"^```mlir\n(.*?)^```$", re.M | re.S)


def everyPass():
    """Pages name a pass in full, so that a search for what --help prints finds it."""
    helped = subprocess.run([BIN / "fusion-opt", "--help"], capture_output=True, text=True, check=True).stdout
    passes = sorted(set(re.findall(r"^ {6}--(fusion-[a-z0-9-]+) ", helped, re.M)))
    C.check("fusion-opt lists its passes", len(passes) > 30, str(len(passes)))
    pages = {path.name: path.read_text() for path in sorted((ROOT / "docs").glob("*.md"))}
    for name in passes:
        named = [page for page, text in pages.items() if re.search(rf"(?:^|[^\w-]|--){name}(?![\w-])", text)]
        C.check(f"--{name} is on a page", named, " ".join(named))


def follows(shown, printed):
    """None, or the line of `shown` that does not come next in `printed`."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    at, free = 0, True
    for line in filter(None, map(str.strip, shown.splitlines())):
        if line == "...":
            free = True
            continue
        found = next((i for i in range(at, len(lines)) if lines[i].startswith(line)), None)
        if found is None or (found != at and not free):
            return line
        at, free = found + 1, False
    return None


def examples(folder):
    page = (ROOT / "docs/passes.md").read_text()
    sections = re.split(r"^## `(fusion-[a-z-]+)`$", page, flags=re.M)[1:]
    C.check("the page has sections", len(sections) >= 16)
    for name, text in zip(sections[::2], sections[1::2]):
        before, after = BLOCK.findall(text)
        (folder / "model.mlir").write_text(before)
        command = re.search(r"`fusion-opt model\.mlir ([^`]*)`", text)
        flags = command[1].split() if command else [f"--{name}"]
        printed = run("fusion-opt", folder / "model.mlir", *flags).stdout
        wrong = follows(after, printed)
        C.check(f"the example of {name}", wrong is None, "" if wrong is None else f"'{wrong}' is not next in:\n{printed}")
        # Else the example would show nothing.
        C.check(f"{name} changes its example", run("fusion-opt", folder / "model.mlir").stdout != printed)


with tempfile.TemporaryDirectory() as scratch:
    everyPass()
    examples(Path(scratch))
sys.exit(C.finish())

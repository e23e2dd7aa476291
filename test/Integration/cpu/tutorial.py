#!/usr/bin/env python3
"""docs/tutorial-first-pass.md, followed to the letter, ends in a working plugin.

Installs the build like a package, writes the page's files into an empty folder,
runs its `$` commands there and compares what they print with the page. The files
must equal examples/plugin. `tutorial.py --update` writes the outputs into the page
instead.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from _support import BIN, ROOT, Checks

PAGE = ROOT / "docs/tutorial-first-pass.md"
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.M | re.S)
LLVM = "/usr/lib/llvm-22"


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


def files(text):
    """The files that the page tells to write."""
    return {"model.mlir": blocks(text, "mlir")[0], "CMakeLists.txt": blocks(text, "cmake")[0],
            "SelectFirst.cpp": "\n".join(blocks(text, "cpp"))}


def commands(block):
    """Pairs (command, shown output) of a console block; a command may be folded."""
    for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
        command, shown = re.fullmatch(r"((?:.*\\\n)*.*)\n?((?s:.*))", part).groups()
        yield command, shown.rstrip("\n")


def main():
    text = PAGE.read_text()
    checks = Checks()
    with tempfile.TemporaryDirectory() as folder:
        package, work = Path(folder, "package"), Path(folder, "work")
        for component in ("runtime", "compiler"):
            subprocess.run(["cmake", "--install", BIN.parent, "--prefix", package, "--component", component],
                           check=True, stdout=subprocess.DEVNULL)
        documents = package / "share/doc/fusion"
        for name in ("docs/tutorial-first-pass.md", "docs/plans.md", "examples/plugin/SelectFirst.cpp"):
            checks.check(f"the package has {name}", (documents / name).read_bytes() == (ROOT / name).read_bytes())
        checks.check("its headers come without folders of the build", not list((package / "include").rglob("CMakeFiles")))
        work.mkdir()
        for name, content in files(text).items():
            (work / name).write_text(content)
            example = (ROOT / "examples/plugin" / name).read_text()
            checks.check(f"{name} is that of examples/plugin", content == example)
        # What the archive bundles comes from the system here. numpy is setup's.
        environment = {**os.environ, "LC_ALL": "C", "FUSION": str(package),
                       "LD_LIBRARY_PATH": f"{LLVM}/lib",
                       "PATH": f"{package}/bin:{Path(sys.executable).parent}:{os.environ['PATH']}"}

        def output(command):
            answer = subprocess.run(["bash", "-c", command], cwd=work, env=environment, text=True, timeout=300,
                                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            return answer.stdout.rstrip("\n")

        if "--update" in sys.argv[1:]:
            def updated(match):
                parts = []
                for command, _ in commands(match.group(1)):
                    shown = output(command)
                    parts.append(f"$ {command}\n" + (f"{shown}\n" if shown else ""))
                return "```console\n" + "".join(parts) + "```"
            PAGE.write_text(CONSOLE.sub(updated, text))
            return 0
        for block in CONSOLE.findall(text):
            for command, shown in commands(block):
                now = output(command)
                checks.check(command.split("\n")[0], now == shown, "" if now == shown else f"prints:\n{now}")
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Plans of random graphs, as the fuzzer makes them: emitted, replayed and emitted
again, the plan and the groups are the same, without a word. A plan with groups
that are missing, cut, joined or out of order never stops the compiler (which
proves that the groups compute the graph), and what it made of it can be replayed.

    plan_graphs.py [SEED [MODULES]]
"""

import copy
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from _support import BIN, ROOT, Checks

sys.path.insert(0, str(ROOT / "test/Fuzz/fuzzer"))
from generate import makeModule  # noqa: E402

# One of a GPU's registers are so few that most groups are cut.
DEVICES = ("cpu", "h200", str(ROOT / "test/Fuse/Inputs/two-values.json"))
GRAPHS = 12  # of a module


class Folder:
    def __init__(self, path):
        self.path = Path(path)

    def fuse(self, output, options):
        """The fuse phase: exit status, messages, plan and text."""
        flags = f"--fusion-fuse={options} emit-plan={self.path}/{output}.json"
        done = subprocess.run([BIN / "fusion-opt", "model.mlir", flags, "-o", output + ".mlir"], cwd=self.path,
                              capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            return done.returncode, done.stderr, "", ""
        return 0, done.stderr, (self.path / (output + ".json")).read_text(), (self.path / (output + ".mlir")).read_text()


def edit(groups, source):
    """Groups left out, cut in two, joined with the one before."""
    edited = []
    for group in groups:
        isPlain = group["kind"] not in ("horizontal", "outside")
        what = source.random()
        if what < 0.25:
            continue
        if what < 0.4 and isPlain and len(group["members"]) > 1:
            at = source.randrange(1, len(group["members"]))
            edited += [{"members": group["members"][:at]}, {"members": group["members"][at:]}]
        elif what < 0.5 and isPlain and edited and edited[-1].get("kind") not in ("horizontal", "outside"):
            before = edited[-1]["members"]
            edited[-1] = {"members": before + [member for member in group["members"] if member not in before]}
        else:
            edited.append(group)
    if source.random() < 0.3:
        source.shuffle(edited)
    return edited


def checkModule(checks, folder, device, name, source):
    status, messages, plan, text = folder.fuse("first", f"device={device}")
    checks.check(f"{name}: a plan is written", (status, messages) == (0, ""), messages[:300])
    if status != 0:
        return
    again = folder.fuse("second", f"device={device} plan={folder.path}/first.json plan-strict")
    checks.check(f"{name}: replayed, all is the same", again == (0, "", plan, text), again[1][:300])
    for number in range(2):
        edited = copy.deepcopy(json.loads(plan))
        for function in edited["functions"]:
            function["groups"] = edit(function["groups"], source)
        (folder.path / "edited.json").write_text(json.dumps(edited, indent=1))
        status, messages, made, text2 = folder.fuse("third", f"device={device} plan={folder.path}/edited.json")
        checks.check(f"{name}: edit {number} is taken", status == 0, messages[-300:] if status else f"{messages.count('warning: ')} warnings")
        if status != 0:
            continue
        again = folder.fuse("fourth", f"device={device} plan={folder.path}/third.json plan-strict")
        checks.check(f"{name}: edit {number}, replayed", (again[0], again[1], again[3]) == (0, "", text2), again[1][:300])


def main():
    seed, modules = (int(text) for text in (sys.argv[1:] + ["1", "3"][len(sys.argv) - 1:]))
    checks = Checks()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Folder(scratch)
        for number in range(modules):
            (folder.path / "model.mlir").write_text(makeModule(seed, number, GRAPHS).text())
            for device in DEVICES:
                name = f"seed {seed}, module {number}, {Path(device).stem}"
                checkModule(checks, folder, device, name, random.Random(f"{seed} {number} {device}"))
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())

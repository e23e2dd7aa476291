#!/usr/bin/env python3
"""Plan files of the demo network, as a person handles them: emitted and replayed
the module is the same file, groups edited and reordered are followed exactly and
compute the same bits, and whatever a plan asks for in vain is said with its line.
A second model, of text detection, is emitted, replayed and emitted again, as it is
and in another order, for the processor and for a GPU.
"""

import copy
import json
import random
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np

from _support import BIN, WHEEL, Checks, importDemoModel, run

DETECTION = "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx"


def compilePlan(folder, plan, output, *flags):
    """Compiles with a plan; returns the exit status and the messages."""
    (folder / "in.json").write_text(plan if isinstance(plan, str) else json.dumps(plan, indent=1))
    answer = subprocess.run([BIN / "fusion-compile", "cls.mlir", "-o", output, "--plan=in.json",
                             f"--emit-plan={output}.json", *flags], cwd=folder, capture_output=True, text=True)
    return answer.returncode, answer.stderr


def flatten(groups):
    """The groups, those of launches one by one."""
    return [leaf for group in groups
            for leaf in (group["members"] if group["kind"] == "horizontal" else [group])]


def membersOf(groups):
    return [[member.split()[0] for member in group["members"]] for group in groups]


def results(folder, module):
    run("fusion-run", module, "--input=x=x.npy", "--output-dir=out", cwd=folder)
    return b"".join(path.read_bytes() for path in sorted((folder / "out").rglob("*.npy")))


def turn(groups, source):
    """The members of each group, and the groups of each launch, in another order:
    none of them reads another, so all can be had."""
    turned = copy.deepcopy(groups)
    for group in turned + flatten(turned):
        source.shuffle(group["members"])
    return turned


def checkReplay(checks, folder):
    """Emit, replay, emit: the same file and the same groups."""
    (folder / "det.onnx").write_bytes(zipfile.ZipFile(WHEEL).read(DETECTION))
    run("fusion-import", "det.onnx", "-o", "det.mlir", "--input-shape", "x=1,3,64,96", cwd=folder)

    def fuse(device, output, *flags):
        answer = run("fusion-compile", "det.mlir", "--stop-after=fuse", f"--device={device}", "-o", output + ".mlir",
                     f"--emit-plan={output}.json", *flags, cwd=folder)
        return answer.stderr, (folder / (output + ".json")).read_text(), (folder / (output + ".mlir")).read_text()

    for device in ("cpu", "h200"):
        _, plan, graph = fuse(device, "det1")
        groups = json.loads(plan)["functions"][0]["groups"]
        checks.check(f"detection, {device}: groups and launches", len(groups) > 50 and any(g["kind"] == "horizontal" for g in groups),
                     f"{len(groups)} of {len(flatten(groups))}")
        said = [g for g in flatten(groups) if g["kind"] != "outside" and not ("reason" in g and g["predicted-us"] >= 0 and g["unfused-us"] >= 0)]
        checks.check(f"detection, {device}: each group has its reason and cost", not said, str(said)[:120])
        messages, again, same = fuse(device, "det2", "--plan=det1.json", "--plan-strict")
        checks.check(f"detection, {device}: emitted, replayed, emitted", (messages, again, same) == ("", plan, graph), messages[:200])
        turned = json.loads(plan)
        turned["functions"][0]["groups"] = turn(groups, random.Random(3))
        (folder / "turned.json").write_text(json.dumps(turned))
        messages, first, graph = fuse(device, "det3", "--plan=turned.json", "--plan-strict")
        checks.check(f"detection, {device}: members in another order are followed", messages == "" and
                     sorted(map(sorted, membersOf(flatten(json.loads(first)["functions"][0]["groups"])))) == sorted(map(sorted, membersOf(flatten(groups)))),
                     messages[:200])
        messages, again, same = fuse(device, "det4", "--plan=det3.json", "--plan-strict")
        checks.check(f"detection, {device}: replayed, the same again", (messages, again, same) == ("", first, graph), messages[:200])


def main():
    checks = Checks()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        importDemoModel(folder)
        np.save(folder / "x.npy", np.random.default_rng(5).standard_normal((2, 3, 48, 192), np.float32))
        run("fusion-compile", "cls.mlir", "-o", "plain.fsn", "--emit-plan=plan.json", cwd=folder)
        text = (folder / "plan.json").read_text()
        plan = json.loads(text)
        groups = flatten(plan["functions"][0]["groups"])
        checks.check("the plan has groups of several ops", sum(len(g["members"]) > 1 for g in groups) > 10)

        status, messages = compilePlan(folder, text, "same.fsn", "--plan-strict")
        checks.check("replayed without a word", (status, messages) == (0, ""), messages[:200])
        checks.check("replayed, the module is the same file",
                     (folder / "plain.fsn").read_bytes() == (folder / "same.fsn").read_bytes())
        checks.check("replayed, the plan is the same file", (folder / "same.fsn.json").read_text() == text)

        # Edited: each library group loses its last op to a group of its own, and no
        # kind, reason or number is given; what the compiler made is what was asked.
        edited, split = copy.deepcopy(plan), []
        for group in groups:
            group = {"members": group["members"]}
            if len(group["members"]) > 1 and not group["members"][-1].startswith("broadcast"):
                split += [{"members": group["members"][:-1]}, {"members": group["members"][-1:]}]
            else:
                split.append(group)
        edited["functions"][0]["groups"] = split
        status, messages = compilePlan(folder, edited, "edited.fsn")
        made = flatten(json.loads((folder / "edited.fsn.json").read_text())["functions"][0]["groups"])
        asked, kept = membersOf(split), membersOf(made)
        complaints = messages.count("warning:")
        checks.check("edited, the groups are those asked for, or it is said which are not",
                     status == 0 and complaints < len(split) and sum(group in kept for group in asked) >= len(asked) - 2 * complaints,
                     f"{len(made)} groups instead of {len(groups)}, {complaints} warnings")
        checks.check("edited, the results have the same bits", results(folder, "edited.fsn") == results(folder, "plain.fsn"))
        status, _ = compilePlan(folder, edited, "again.fsn")
        checks.check("edited, twice the same file", (folder / "edited.fsn").read_bytes() == (folder / "again.fsn").read_bytes())

        # Reordered: everything as early as before but the first group last is said.
        reordered = copy.deepcopy(plan)
        reordered["functions"][0]["groups"].append(reordered["functions"][0]["groups"].pop(0))
        status, messages = compilePlan(folder, reordered, "reordered.fsn")
        checks.check("a group behind its readers is said", status == 0 and "can't come so early" in messages)
        checks.check("reordered, the results have the same bits", results(folder, "reordered.fsn") == results(folder, "plain.fsn"))

        # Broken: each by one line of the file.
        first = groups[0]["members"][0]
        broken = {
            "member missing": (text.replace(first.split()[0], "add#99999:00000000"), "the graph has no op add#99999:00000000"),
            "op in no group": ({**plan, "functions": [{**plan["functions"][0], "groups": groups[:-1]}]}, "the plan has no group for"),
            "two owners": ({**plan, "functions": [{**plan["functions"][0], "groups": groups + groups[-1:]}]}, "is a member of the group in line"),
            "another graph": (text.replace(plan["functions"][0]["graph"], "0" * 32), "the plan was made for another graph"),
            "another device": (text.replace('"cpu"', '"a100-80gb"'), "made for the device 'a100-80gb'"),
            "an illegal group": ({**plan, "functions": [{**plan["functions"][0], "groups": [{"members": sum((g["members"] for g in groups if len(g["members"]) > 1), [])[:40]}] + [g for g in groups if len(g["members"]) == 1]}]}, "two-anchors"),
        }
        for name, (bad, message) in broken.items():
            status, messages = compilePlan(folder, bad, "bad.fsn")
            checks.check(f"{name}: a warning with its line", status == 0 and f"warning: " in messages and message in messages and "in.json:" in messages, messages[:160])
            checks.check(f"{name}: still right", results(folder, "bad.fsn") == results(folder, "plain.fsn"))
            (folder / "strict.fsn").unlink(missing_ok=True)
            status, messages = compilePlan(folder, bad, "strict.fsn", "--plan-strict")
            checks.check(f"{name}: an error in strict mode", status == 3 and "error: " in messages and not (folder / "strict.fsn").exists())
        status, messages = compilePlan(folder, text.replace('"members"', '"membres"', 1), "bad.fsn")
        checks.check("a typing error is an error", status == 3 and "unknown key 'membres'" in messages, messages[:120])
        status, messages = compilePlan(folder, text[:len(text) // 2], "bad.fsn")
        checks.check("half a file is an error", status == 3 and "error: " in messages, messages[:120])

        # Why, by the importer's names.
        why = run("fusion-compile", "cls.mlir", "-o", "why.fsn", "--fusion-why=@Conv@1,@Relu@0", cwd=folder).stdout
        checks.check("two ops of a group are together", "together, in a library group" in why, why[:120])
        why = run("fusion-compile", "cls.mlir", "-o", "why.fsn", "--fusion-why=@Conv@1,@Conv@5", cwd=folder).stdout
        checks.check("two convolutions never met", "never met" in why and "two-anchors" in why, why[:120])
        checkReplay(checks, folder)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())

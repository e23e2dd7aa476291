"""Training steps whose gradients are added by the kernels that read them.

`--transport=peer` turns reductions into moves and sums. On ranks that are processes the
results are those of `--transport=nccl`, bit for bit, with clipping, sharded state, and
16-bit activations. Gradients and what is received of a bucket lie side by side, and no
kernel is left that only adds gradients.
"""

import re
import sys
import tempfile
from pathlib import Path

import numpy as np
from _support import ROOT, Checks, run

sys.path.insert(0, str(ROOT / "python"))
from fusion_compiler.models.cli import models  # noqa: E402

C = Checks()
# What a kernel that only adds consists of; a mean multiplies or divides by a constant.
ADDING = {"add", "cast", "constant", "slice", "reshape", "broadcast", "yield", "mul", "div"}


# Statistics of a batch are smaller: sums of channels, which a kernel of their own may add.
SMALL = 64


def elements(line):
    """Of the largest tensor that a line names."""
    return max((int(np.prod([int(n) for n in shape.split("x") if n])) for shape in re.findall(r"tensor<((?:\d+x)*)\w+>", line)), default=0)


def adding(text):
    """How many groups without groups in them only add values of a gradient's size."""
    # Locations of arguments, which may nest.
    while text != (text := re.sub(r" loc\([^()]*\)", "", text)):
        pass
    stack, count = [], 0
    for line in text.splitlines():
        if "= fusion.group " in line:
            stack.append({"small"} if elements(line) <= SMALL else set())
        elif stack and line.strip() == "}":
            ops = stack.pop()
            if stack:
                stack[-1].add("group")
            count += "add" in ops and ops <= ADDING
        elif stack and (op := re.search(r"\bfusion\.(\w+)", line)):
            stack[-1].add(op.group(1))
    return count


def read(folder):
    return {path.stem: np.load(path) for path in sorted(folder.glob("*.npy"))}


class Step:
    """One model, written, with inputs."""

    def __init__(self, folder, name, flags):
        self.folder, self.name = folder / name, name
        self.folder.mkdir(parents=True)
        self.model = self.folder / "step.mlir"
        models([*flags.split(), "-o", str(self.model), "--write-inputs", str(self.folder / "in")])
        self.words = [word for path in sorted((self.folder / "in").glob("*.npy"))
                      for word in ("--input", f"{path.stem}={path}")]

    def compile(self, transport, flags, *more):
        return run("fusion-compile", self.model, "--target=cpu", f"--transport={transport}", *flags, *more)

    def on(self, ranks, *options):
        label = " ".join([self.name, f"dp={ranks}", *options])
        flags = [f"--mesh=dp={ranks}", "--first-bucket-bytes=1024", "--bucket-bytes=4096", *options]
        outputs = {}
        for transport in ("nccl", "peer"):
            folder = self.folder / f"{transport}-{label.replace(' ', '-')}"
            self.compile(transport, flags, "-o", folder.with_suffix(".fsn"))
            run("fusion-run", folder.with_suffix(".fsn"), "--ranks", ranks, *self.words, "--output-dir", folder)
            outputs[transport] = [read(folder / f"rank{rank}") for rank in range(ranks)]
            text = run("fusion-run", folder.with_suffix(".fsn"), "--inspect").stdout
        wrong = sorted({name for want, got in zip(outputs["nccl"], outputs["peer"]) for name in want
                        if want[name].tobytes() != got[name].tobytes()})
        C.check(f"{label}: the same bits", not wrong and outputs["nccl"][0].keys() == outputs["peer"][0].keys(),
                ", ".join(wrong)[:200])
        buckets = [line for line in text.splitlines() if re.search(r"collective '.* bucket \d+ ", line)]
        kinds = {line.split("': ")[1].split()[0] for line in buckets}
        whole = "collective_permute" if ranks == 2 else "all_gather"
        # What no rank holds a part of is reduced whole, also with sharded state.
        expected = {"all_to_all", *(kinds & {whole})} if "--shard-state" in options else {whole}
        C.check(f"{label}: buckets are moved", len(buckets) > 1 and kinds == expected
                and all("over peer copies" in line for line in buckets), f"{len(buckets)} of {kinds}")
        self.places(label, buckets)
        few, many = (adding(self.compile(transport, flags, "--stop-after=fuse", "-o", "-").stdout)
                     for transport in ("nccl", "peer"))
        C.check(f"{label}: no kernel more only adds", many <= few, f"{many} against {few}")

    def places(self, label, buckets):
        """Parts of a bucket that lie in the arena are one range, each at a multiple of
        64 bytes: what is sent, and what is received."""
        apart, sides = [], 0
        segments = re.findall(r"\br s(\d+)\[", "\n".join(buckets))
        arena = int(max(segments, key=segments.count))
        for line in buckets:
            for access in ("r", "w"):
                found = [tuple(map(int, numbers)) for numbers in re.findall(rf"\b{access} s(\d+)\[(\d+)\+(\d+)\]", line)]
                ranges = [(begin, size) for segment, begin, size in found if segment == arena]
                sides += len(ranges) > 1
                apart += [line[:80] for (begin, size), (after, _) in zip(ranges, ranges[1:])
                          if after != (begin + size + 63) // 64 * 64]
        C.check(f"{label}: parts lie side by side", sides > 0 and not apart, f"{sides} {apart[:1]}")


with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    steps = [
        Step(folder, "mlp", "mlp --layers 6 --features 12 --hidden 16 --classes 8 --batch 8"),
        Step(folder, "gpt", "gpt --layers 2 --hidden 16 --heads 4 --seq 6 --vocab 24 --batch 8 --dtype bf16"),
        Step(folder, "convnet", "convnet --layers 2 --hidden 4 --image 8 --batch 8 --classes 5 --optimizer sgd"),
    ]
    for step in steps:
        for ranks in (2, 4):
            step.on(ranks)
        step.on(2, "--shard-state")
    steps[1].on(4, "--shard-state")
sys.exit(C.finish())

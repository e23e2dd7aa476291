"""Training steps whose gradients are added by the kernels that read them.

`--transport=peer` turns reductions into moves and sums. On ranks that are processes the
results are those of `--transport=nccl`, bit for bit, with clipping, sharded state, and
16-bit activations. Gradients and what is received of a bucket lie side by side. Either
way nothing passes over a gradient but its reduction, the kernel that squares it and the
one that updates its parameter: no kernel writes anything of its size that the step does
not return, and no collective carries it a second time. What is reduced for the backward
pass itself, as in a batch norm, stays on NCCL.
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
COLLECTIVES = {"all_reduce", "reduce_scatter", "all_gather", "all_to_all", "collective_permute"}


def elements(kind):
    """Of a tensor of this type, and the bits of each."""
    shape, bits = re.fullmatch(r"tensor<((?:\d+x)*)[a-z]+(\d+)>", kind).groups()
    return int(np.prod([int(n) for n in shape.split("x") if n])), int(bits)


def values(text):
    return re.findall(r"%\w+(?:#\d+)?", text)


class Op:
    """One kernel, collective or view of @main; a member of a launch is a kernel."""

    def __init__(self, name, kind, rest):
        self.kind, self.text, self.body = kind, rest, set()
        inputs, _, outputs = rest.rpartition(" -> ")
        types = re.findall(r"tensor<[^>]*>", outputs if inputs else rest.split(" to ")[-1])
        self.reads = re.findall(r"%arg\d+ = (%\w+(?:#\d+)?)", rest) if kind == "group" else values(rest)
        self.types = dict(zip([name] if len(types) == 1 else [f"{name}#{i}" for i in range(len(types))], map(elements, types)))

    def rename(self, reads, results):
        self.reads = [reads.get(value, value) for value in self.reads]
        self.types = {results.get(value, value): kind for value, kind in self.types.items()}


class Graph:
    """A step behind the phase fuse."""

    def __init__(self, text, ranks):
        # Locations of arguments, which may nest.
        while text != (text := re.sub(r" loc\([^()]*\)", "", text)):
            pass
        self.ranks, self.ops, self.returned = ranks, [], []
        launch, members = None, []
        for line in text.splitlines():
            depth = len(line) - len(line.lstrip())
            if depth == 4 and line.strip().startswith("return "):
                self.returned = values(line.split(" : ")[0])
            op = re.match(r"(%\d+)(?::\d+)? = fusion\.(\w+)(.*)", line.strip())
            if depth == 4:
                launch, members = None, []
                if op:
                    self.ops.append(Op(*op.groups()))
                    if op[2] == "group" and op[3].startswith(" horizontal "):
                        launch = self.ops.pop()
            elif depth == 6 and launch and op:
                members.append(Op(*op.groups()))
                self.ops.append(members[-1])
            elif depth == 6 and launch and line.strip().startswith("fusion.yield "):
                reads = dict(zip(re.findall(r"(%arg\d+) = ", launch.text), launch.reads))
                results = dict(zip(values(line.split(" : ")[0]), launch.types))
                for member in members:
                    member.rename(reads, results)
            elif self.ops and (inner := re.search(r"\bfusion\.(\w+)", line)):
                self.ops[-1].body.add(inner[1])

    def views(self):
        """What is only another name for (a part of) a value, and the value."""
        found = {}
        for op in self.ops:
            if op.kind in ("reshape", "slice") or (op.kind == "group" and op.body <= {"reshape", "slice", "yield"}):
                found |= {result: found.get(op.reads[0], op.reads[0]) for result in op.types}
        return found

    def gradients(self):
        """What the collectives of buckets give, with the elements and bits of what a rank
        gets of the gradient. Of what it received from all it has as many as there are ranks."""
        found = {}
        for op in self.ops:
            if op.kind in COLLECTIVES and "fusion.bucket" in op.text:
                parts = self.ranks if op.kind in ("all_gather", "all_to_all") else 1
                found |= {result: (size // parts, bits) for result, (size, bits) in op.types.items()}
        return found

    def passes(self):
        """What passes over a gradient and should not."""
        views, gradients, wrong = self.views(), self.gradients(), []
        kept = {views.get(value, value) for value in self.returned}
        for op in self.ops:
            reads = [gradients[of] for value in op.reads if (of := views.get(value, value)) in gradients]
            reads = [(size, bits) for size, bits in reads if size > 1]
            if reads and op.kind in COLLECTIVES:
                wrong.append(f"{op.kind} {sorted(op.types)}")
            isSquare = any(size == 1 for size, _ in op.types.values())
            for result, (size, bits) in op.types.items():
                same = [old for old_size, old in reads if old_size == size]
                # Who squares a gradient that the model then rounds may leave that to the
                # update: half of the bytes, written and read, are what it would read again.
                isRounded = isSquare and same and bits < min(same)
                if op.kind == "group" and same and result not in views and result not in kept and not isRounded:
                    wrong.append(f"{result} of {sorted(op.body)}")
        return wrong


def read(folder):
    return {path.stem: np.load(path) for path in sorted(folder.glob("*.npy"))}


class Step:
    """One model, written, with inputs. `statistics`: buckets whose sums the backward pass
    needs itself, the gradients of scale and bias of each batch norm."""

    def __init__(self, folder, name, flags, statistics=0):
        self.folder, self.name, self.flags, self.statistics = folder / name, name, flags, statistics
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
        outputs, texts = {}, {}
        for transport in ("nccl", "peer", "direct"):
            folder = self.folder / f"{transport}-{label.replace(' ', '-')}"
            self.compile(transport, flags, "-o", folder.with_suffix(".fsn"))
            run("fusion-run", folder.with_suffix(".fsn"), "--ranks", ranks, *self.words, "--output-dir", folder)
            outputs[transport] = [read(folder / f"rank{rank}") for rank in range(ranks)]
            texts[transport] = run("fusion-run", folder.with_suffix(".fsn"), "--inspect").stdout
        for transport in ("peer", "direct"):
            wrong = sorted({name for want, got in zip(outputs["nccl"], outputs[transport]) for name in want
                            if want[name].tobytes() != got[name].tobytes()})
            C.check(f"{label}: the same bits by {transport}",
                    not wrong and outputs["nccl"][0].keys() == outputs[transport][0].keys(), ", ".join(wrong)[:200])
        # Two ranks that swap whole gradients read each once, unless its squares are summed for a clip.
        areSwapped = ranks == 2 and not options and "--clip 0" in self.flags
        lines = texts["direct"].splitlines()
        direct, releases = (sum(word in line for line in lines) for word in ("read in place", "': release on"))
        C.check(f"{label}: gradients are read in place", (direct > 0) == (releases > 0)
                and (not areSwapped or direct > 1), f"{direct} moves, {releases} releases")
        text = texts["peer"]
        buckets = [line for line in text.splitlines() if re.search(r"collective '.* bucket \d+ ", line)]
        moved = [line for line in buckets if "over peer copies" in line]
        expected = "all_to_all" if "--shard-state" in options else "collective_permute" if ranks == 2 else "all_gather"
        C.check(f"{label}: buckets are moved", len(moved) > 1 and all(f"': {expected} " in line for line in moved),
                f"{len(moved)} of {len(buckets)}")
        C.check(f"{label}: sums that the backward pass broadcasts are not", len(buckets) - len(moved) == self.statistics
                and all("over nccl" in line for line in buckets if line not in moved),
                f"{len(buckets) - len(moved)} of {len(buckets)}")
        self.places(label, moved)
        for transport in ("nccl", "peer"):
            graph = Graph(self.compile(transport, flags, "--stop-after=fuse", "-o", "-").stdout, ranks)
            wrong = graph.passes()
            C.check(f"{label}: nothing passes over a gradient again over {transport}",
                    len(graph.gradients()) > 1 and not wrong, ", ".join(wrong)[:200])

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
        Step(folder, "plain", "mlp --layers 3 --features 12 --hidden 16 --classes 8 --batch 8 --clip 0"),
        Step(folder, "gpt", "gpt --layers 2 --hidden 16 --heads 4 --seq 6 --vocab 24 --batch 8 --dtype bf16"),
        Step(folder, "convnet", "convnet --layers 2 --hidden 4 --image 8 --batch 8 --classes 5", statistics=2),
    ]
    for step in steps:
        for ranks in (2, 4):
            step.on(ranks)
        step.on(2, "--shard-state")
    steps[2].on(4, "--shard-state")
sys.exit(C.finish())

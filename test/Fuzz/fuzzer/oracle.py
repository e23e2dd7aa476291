# ===- oracle.py - What must be equal -------------------------------------=== #
#
# The reference evaluator on the graph as generated, against the same graph behind
# each pass, behind passes in a random order, printed and parsed again, and
# compiled and run. A check that can't be made is a failure too.
#
# ===----------------------------------------------------------------------=== #
"""The checks of one module."""

import random
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import data
from graph import Module
from tools import NOT_SHUFFLED, ROUNDING, VARIANTS, before, isOfFusion


@dataclass
class Failure:
    """`graphs`: indices in the module, all of them if the module failed whole."""

    check: str  # such as "pass fusion-canonicalize" or "compile"
    kind: str  # value, text, ok (that is, an exit status), exit N, signal N, timeout
    detail: str
    graphs: tuple
    commands: tuple = ()


@dataclass(frozen=True)
class Check:
    """`name` is what is printed and what --check takes; `flags` what a tool gets."""

    name: str
    kind: str  # pass, text, compile, lower
    flags: tuple = ()
    before: tuple = ()
    rounds: bool = False
    idempotent: bool = True
    threads: int = 1
    source: str = "model.mlir"  # or cuda.mlir, the same for a GPU

    @staticmethod
    def ofPass(name, option="", tools=None, device="cpu"):
        flag = f"--{name}" + (f"={option}" if option else "")
        rounds = name in ROUNDING or any(needed[2:] in ROUNDING for needed in before(name))
        check = Check(f"pass {flag[2:]}", "pass", (flag,), before(name), rounds)
        return check if device == "cpu" else check.aimed(tools, device)

    def aimed(self, tools, device):
        """The same passes, deciding for a GPU."""
        flags, needed = (tuple(tools.aim(flag, device) for flag in part) for part in (self.flags, self.before))
        return replace(self, name=f"{self.name} for {device}", flags=flags, before=needed, source="cuda.mlir")


def allChecks(tools, seed):
    """The checks of one module; what is random comes from `seed`."""
    rng = random.Random(f"checks {seed}")
    device = random.Random(f"device {seed}").choice(tools.devices)
    checks = [Check("roundtrip", "text")]
    checks += [Check.ofPass(name, "", tools, device) for name in tools.passes]
    checks += [Check.ofPass(name, rng.choice(options), tools, device) for name, options in VARIANTS.items()
               if name in tools.passes and rng.random() < 0.5]
    shuffled = [name for name in tools.passes if name not in NOT_SHUFFLED]
    early, late = ([name for name in shuffled if isOfFusion(name) == fuses] for fuses in (False, True))
    for _ in range(2):
        order = [rng.choice(early) for _ in range(rng.randint(1, 5))] + [rng.choice(late) for _ in range(rng.randint(0, 3))]
        flags = tuple(f"--{name}" for name in order)
        # Upstream's passes may come anywhere.
        if rng.random() < 0.5:
            at = rng.randint(0, len(flags))
            flags = flags[:at] + ("--cse",) + flags[at:]
        check = Check(f"order {' '.join(flags)}", "pass", flags, (), any(name in ROUNDING for name in order), False)
        checks.append(check if device == "cpu" else check.aimed(tools, device))
    exact = ("--exact-rewrites-only",) if rng.random() < 0.5 else ()
    extra = (f"--max-ops={rng.choice([1, 2, 3, 20])}",) if rng.random() < 0.25 else ()
    if not extra and len(tools.fusions) > 1 and rng.random() < 0.3:
        extra = (f"--no-fuse={rng.choice(tools.fusions)}",)
    checks.append(Check(" ".join(("compile",) + exact + extra), "compile", exact + extra, exact, threads=rng.choice([1, 2, 3])))
    if device != "cpu":
        fp = rng.choice(("strict", "fast"))
        flags = ("--target=cuda:sm_90", f"--device={device}", "--ptxas=off", f"--fp={fp}", *exact, *extra)
        checks.append(Check(" ".join(("lower", *flags)), "lower", flags, rounds=True))
    return checks


class Case:
    """One module in a folder, and its checks."""

    def __init__(self, tools, folder, module, coverage=None):
        self.tools, self.folder, self.module, self.coverage = tools, Path(folder), module, coverage
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.outputs = module.outputs()
        self.rounding = any(not value.clean for _, _, value in self.outputs)
        self.batches = [1, Module.MAX_BATCH - 1] if module.isDynamic else [Module.MAX_BATCH]
        # What a library may give zeros of another sign, and what these become.
        self.loose = set()
        if tools.target != "cpu":
            self.loose = {value for graph in module.graphs for value in graph.ofProducts()}
            self.loose &= {value for _, _, value in self.outputs}
        self.texts = {}  # text -> variant that has it
        self.sources = {}  # what a source is when printed
        self.variants = []  # (variant, check) to evaluate
        self.failures = []
        self.write("model.mlir", module.text())
        self.write("cuda.mlir", forCuda(module.text()))
        if self.rounding:
            self.write("wide.mlir", module.text(wide=True))
        if self.loose:
            self.write("signs.mlir", module.text(signs=True))
        for batch in self.batches:
            arrays = module.arrays(batch)
            (self.folder / f"in{batch}").mkdir()
            for name, array in arrays.items():
                np.save(self.folder / f"in{batch}" / f"{name}.npy", array)
            if self.rounding:
                (self.folder / f"wide{batch}").mkdir()
                for name, array in module.arrays(batch, wide=True).items():
                    np.save(self.folder / f"wide{batch}" / f"{name}.npy", array)

    def path(self, name):
        return self.folder / name

    def write(self, name, text):
        self.path(name).write_text(text)

    def fail(self, check, kind, detail, commands=(), graphs=None):
        graphs = tuple(range(len(self.module.graphs))) if graphs is None else tuple(graphs)
        self.failures.append(Failure(check.name, kind, detail, graphs, tuple(commands)))

    # Passes -------------------------------------------------------------------

    def opt(self, check, source, flags, output):
        """Runs fusion-opt; False if it failed, which is then recorded."""
        arguments = [self.path(source), *flags, "-o", self.path(output)]
        remarks = self.path(output).with_suffix(".yaml")
        if self.coverage:
            arguments += ["--remarks-filter=.*", "--remark-format=yaml", f"--remarks-output-file={remarks}"]
        outcome = self.tools.run("fusion-opt", *arguments)
        if outcome.status != 0:
            self.fail(check, outcome.kind, outcome.describe(), [outcome.command])
            return False
        if not self.path(output).exists():
            self.fail(check, "no output", f"no file {output}", [outcome.command])
            return False
        if self.coverage:
            self.coverage.noteRemarks(remarks)
        return True

    def transform(self, check, number):
        """Runs the passes of a check, once and twice."""
        variant = f"p{number}"
        if not self.opt(check, check.source, check.before + check.flags, f"{variant}.mlir"):
            return
        text = self.path(f"{variant}.mlir").read_text()
        if self.coverage:
            self.coverage.notePass(check.name, text != self.printedOf(check))
        if check.idempotent:
            if not self.opt(check, check.source, check.before + check.flags + check.flags, f"{variant}t.mlir"):
                return
            twice = self.path(f"{variant}t.mlir").read_text()
            if twice != text:
                self.fail(check, "text", "the second run changes the module: " + firstDifference(text, twice),
                          [["fusion-opt", check.source, *check.before, *check.flags, *check.flags]])
        self.evaluateLater(check, variant, text)

    def printedOf(self, check):
        """The text that a check's passes begin with."""
        if check.source not in self.sources:
            self.opt(check, check.source, (), f"printed-{check.source}")
            self.sources[check.source] = self.path(f"printed-{check.source}").read_text()
        return self.sources[check.source]

    def evaluateLater(self, check, variant, text):
        """Equal texts have equal values, and the printed model those of the model."""
        if text not in self.texts.values():
            self.texts[variant] = text
            self.variants.append((variant, check))

    def roundTrip(self, check, thorough):
        """Text, and bytecode, and text again."""
        if not self.opt(check, "model.mlir", (), "printed.mlir"):
            return False
        self.texts["printed"] = self.path("printed.mlir").read_text()
        if not thorough:
            return True
        self.variants.append(("printed", check))
        if self.opt(check, "printed.mlir", ("--verify-roundtrip",), "again.mlir"):
            again = self.path("again.mlir").read_text()
            if again != self.texts["printed"]:
                self.fail(check, "text", "printing what was parsed differs: " + firstDifference(self.texts["printed"], again))
        if self.opt(check, "model.mlir", ("--emit-bytecode",), "model.mlirbc") and \
                self.opt(check, "model.mlirbc", (), "decoded.mlir"):
            decoded = self.path("decoded.mlir").read_text()
            if decoded != self.texts["printed"]:
                self.fail(check, "text", "bytecode differs: " + firstDifference(self.texts["printed"], decoded))
        return True

    # The evaluator ---------------------------------------------------------------

    def evaluate(self, jobs):
        """Pairs (variant, inputs): each into the folder `variant`batch. Returns
        what went wrong by variant."""
        wrong = {}
        lines = [f"{self.path(variant + '.mlir')} {self.path(f'{inputs}{batch}')} {self.path(f'{variant}-{batch}')}"
                 for variant, inputs in jobs for batch in self.batches]
        self.write("cases.txt", "\n".join(lines) + "\n")
        outcome = self.tools.run("fusion-interpret", f"--batch-file={self.path('cases.txt')}")
        if outcome.crashed:
            # One of them brings the process down: find it alone.
            for variant, inputs in jobs:
                for batch in self.batches:
                    self.write("cases.txt", f"{self.path(variant + '.mlir')} {self.path(f'{inputs}{batch}')} "
                                            f"{self.path(f'{variant}-{batch}')}\n")
                    alone = self.tools.run("fusion-interpret", f"--batch-file={self.path('cases.txt')}")
                    if alone.crashed:
                        wrong[variant] = (alone.kind, "fusion-interpret: " + alone.describe(), alone.command)
        for variant, _ in jobs:
            for batch in self.batches:
                message = self.path(f"{variant}-{batch}") / "error.txt"
                if message.exists():
                    wrong.setdefault(variant, ("evaluator", message.read_text().strip()[:300], outcome.command))
        if outcome.status != 0 and not wrong:
            wrong[jobs[0][0]] = (outcome.kind, outcome.describe(), outcome.command)
        return wrong

    def load(self, folder):
        """Raw files by output name; a missing one is None."""
        found = {}
        for _, name, _ in self.outputs:
            try:
                found[name] = (self.path(folder) / f"{name}.npy").read_bytes()
            except OSError:
                found[name] = None
        return found

    def compare(self, check, want, got, *, rounds, wide=None, batch=None):
        """Outputs of two folders; a failure names each graph that differs. With a
        `batch` the signs of a library's zeros are free."""
        details, graphs = [], []
        wanted, given = self.load(want), self.load(got)
        for graph, name, value in self.outputs:
            if given[name] is None or wanted[name] is None:
                missing = got if given[name] is None else want
                details.append(f"{name} is missing in {missing}")
                graphs.append(graph)
                continue
            if given[name] == wanted[name]:
                continue
            try:
                a, b = data.parse(wanted[name], name), data.parse(given[name], name)
                if batch is not None and value in self.loose and a.shape == b.shape:
                    plus, minus = (data.read(self.path(f"{each}-{batch}") / f"{name}.npy") for each in ("model", "signs"))
                    b = data.withoutSigns(a, b, plus, minus, value.dtype)
                if value.clean or not rounds:
                    problem = data.differentBits(a, b, value.dtype)
                else:
                    problem = data.tooFar(a, b, data.read(self.path(wide) / f"{name}.npy"), value.dtype, value.rounded)
            except (ValueError, OSError) as error:
                problem = str(error)
            if problem:
                details.append(f"{name} ({value.type()}): {problem}")
                graphs.append(graph)
        if details:
            more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
            self.fail(check, "value", f"{got} against {want}: {details[0]}{more}", graphs=dict.fromkeys(graphs))

    # The compiler ------------------------------------------------------------------

    def compileAndRun(self, check, name, flags, threads):
        module = self.path(f"{name}.fsn")
        # Grouping changes no bit on any target, so it can be asked of each.
        target = (f"--target={self.tools.target}", "--fp=strict")
        commands = [("fusion-compile", self.path("model.mlir"), *target, *flags, "-o", module)]
        for batch in self.batches:
            arguments = ["fusion-run", module, "--trust", "all", "--threads", threads, "--output-dir", self.path(f"{name}-{batch}")]
            if self.tools.countOnly:
                arguments += ["--backend", "null"]
            inputs = self.path(f"in{batch}.npz")
            if any(self.path(f"in{batch}").iterdir()):
                if not inputs.exists():
                    np.savez(inputs, **self.module.arrays(batch))
                arguments += ["--inputs", inputs]
            if self.module.isDynamic and not any(not isinstance(d, int) for _, v, _ in self.module.inputs() for d in v.shape):
                arguments += ["--batch", batch]
            commands.append(tuple(arguments))
        for command in commands:
            outcome = self.tools.run(*command)
            if outcome.status != 0:
                self.fail(check, f"{command[0]} {outcome.kind}", outcome.describe(), [outcome.command])
                return False
        return True

    def lower(self, check, number):
        """Compiles for a GPU that need not be there: the evaluator judges what is fused, and a
        module must come of it. The IR behind code generation is judged by the check of the pass
        `fusion-codegen`: MLIR 22 takes the location behind an nvvm.barrier for an operand."""
        fused = f"l{number}"
        for words in (("--stop-after=fuse", "-o", self.path(f"{fused}.mlir")), ("-o", self.path(f"{fused}.fsn"))):
            outcome = self.tools.run("fusion-compile", self.path("model.mlir"), *check.flags, *words)
            if outcome.status != 0:
                return self.fail(check, f"fusion-compile {outcome.kind}", outcome.describe(), [outcome.command])
        self.evaluateLater(check, fused, self.path(f"{fused}.mlir").read_text())

    def compile(self, check):
        """Fused against unfused bit for bit, and both against the reference."""
        unfused = ("--no-fuse=" + ",".join(self.tools.fusions),)
        made = self.compileAndRun(check, "fused", check.flags, check.threads)
        apart = Check(check.name + " (unfused)", "compile")
        made &= self.compileAndRun(apart, "unfused", check.before + unfused, 1)
        return made

    # The whole -----------------------------------------------------------------------

    def run(self, checks):
        """All failures of these checks."""
        first = Check("roundtrip", "text")
        if not self.roundTrip(first, any(check.kind == "text" for check in checks)):
            return self.failures
        compiled = []
        for number, check in enumerate(checks):
            if check.kind == "pass":
                self.transform(check, number)
            elif check.kind == "lower":
                self.lower(check, number)
            elif check.kind == "compile" and self.compile(check):
                compiled.append(check)
        jobs = [("model", "in")] + [(variant, "in") for variant, _ in self.variants]
        if self.rounding:
            jobs.append(("wide", "wide"))
        if self.loose and compiled:
            jobs.append(("signs", "in"))
        wrong = self.evaluate(jobs)
        broken = next((wrong[name] for name in ("model", "wide", "signs") if name in wrong), None)
        if broken:
            kind, detail, command = broken
            self.fail(Check("reference", "pass"), kind, detail, [command])
            return self.failures
        for variant, check in self.variants:
            if variant in wrong:
                kind, detail, command = wrong[variant]
                self.fail(check, kind, detail, [command])
                continue
            for batch in self.batches:
                self.compare(check, f"model-{batch}", f"{variant}-{batch}", rounds=check.rounds, wide=f"wide-{batch}")
        for check in compiled if not self.tools.countOnly else ():
            for batch in self.batches:
                self.compare(check, f"unfused-{batch}", f"fused-{batch}", rounds=False, batch=batch)
                self.compare(check, f"model-{batch}", f"fused-{batch}", rounds=True, wide=f"wide-{batch}", batch=batch)
        return self.failures


def forCuda(text):
    """The text of a model as one that is compiled for a GPU."""
    return f'module attributes {{fusion.fp = "strict", fusion.target = "cuda"}} {{\n{text}}}\n'


def firstDifference(one, two):
    for a, b in zip(one.splitlines(), two.splitlines()):
        if a != b:
            return f"'{a.strip()[:150]}' and then '{b.strip()[:150]}'"
    return "one text goes on"

# ===- tools.py - The tools under test ------------------------------------=== #
#
# Runs them with a limit of processor time, so that a busy machine makes no hang,
# and reads what they can do from their --help: a pass
# that is added later is fuzzed without an edit here.
#
# ===----------------------------------------------------------------------=== #
"""Processes, and the passes and flags that the tools offer."""

import math
import re
import resource
import signal
import subprocess
from pathlib import Path

# What must run before a pass has anything to work on.
GROUPED = ("--fusion-fuse-vertical",)
BEFORE = {
    "fusion-emit-kernels": ("--fusion-fuse",),
    "fusion-lower-kernels": ("--fusion-fuse", "--fusion-emit-kernels"),
    "fusion-codegen": ("--fusion-fuse",),
    "fusion-verify-fusion-certificate": ("--fusion-record-fusion-certificate", "--fusion-fuse-vertical"),
    "fusion-verify-fusion": ("--fusion-track-decisions=keep-original", "--fusion-fuse-vertical"),
    "fusion-verify-rewrites": ("--fusion-track-rewrites", "--fusion-raise-idioms", "--fusion-merge-projections"),
}
# So do passes with such names, which work on groups.
ON_GROUPS = re.compile(r"group|horizontal|split|granular")
# Their result is a program of commands, which the evaluator doesn't run: the
# compiled module is checked instead.
TO_PROGRAMS = {"fusion-plan-memory", "fusion-pipeline"}
# They do nothing without an option that names something in the model.
NEED_OPTIONS = {"fusion-explain-pair"}
# They may round elsewhere than the graph before (docs/tolerances.md); what is
# exact must stay so all the same. A pass that isn't named here changes no bit.
ROUNDING = {"fusion-fold-batch-norm", "fusion-simplify", "fusion-decompose-named", "fusion-fuse", "fusion-codegen",
            "fusion-propagate-layout", "fusion-raise-idioms", "fusion-evaluate-constants", "fusion-verify-rewrites"}
# In a random order: passes over the graph, then passes over groups.
NOT_SHUFFLED = {"fusion-emit-kernels", "fusion-lower-kernels", "fusion-codegen", "fusion-verify-schedule",
                "fusion-record-fusion-certificate", "fusion-verify-fusion-certificate", "fusion-track-decisions",
                "fusion-verify-fusion", "fusion-verify-rewrites", "fusion-write-plan",
                "fusion-print-costs"} | TO_PROGRAMS
VARIANTS = {"fusion-fuse-vertical": ["max-ops=3", "max-inputs=6", "separate"], "fusion-fuse": ["max-ops=2"],
            "fusion-evaluate-constants": ["exact-rewrites-only", "growth=0", "growth=24", "total-growth=64"], "fusion-propagate-layout": ["layout=keep"]}


# Devices that passes decide for, in turn; all but the first are GPUs.
DEVICES = ("cpu", "h200")


def before(name):
    """Flags of the passes that must run before this one."""
    return BEFORE.get(name, GROUPED if ON_GROUPS.search(name) else ())


def isOfFusion(name):
    """Whether a pass makes groups or works on them; others come before it."""
    return "fuse" in name or bool(ON_GROUPS.search(name))


class Outcome:
    """How a process ended: `kind` is ok, exit N, signal N or timeout."""

    def __init__(self, command, status, stderr):
        self.command, self.status, self.stderr = command, status, stderr

    @property
    def kind(self):
        if self.status is None or self.status == -signal.SIGXCPU:
            return "timeout"
        if self.status < 0:
            return f"signal {-self.status}"
        return "ok" if self.status == 0 else f"exit {self.status}"

    @property
    def crashed(self):
        return self.status is None or self.status < 0 or self.status > 100

    def describe(self):
        lines = [line for line in self.stderr.splitlines() if line.strip()]
        first = next((line for line in lines if "error:" in line), lines[0] if lines else "no message")
        return f"{self.kind}: {first[:300]}"


class Tools:
    def __init__(self, folder, timeout=60.0, target="cpu", countOnly=False, device=None):
        self.folder, self.timeout = Path(folder), timeout
        self.target, self.countOnly = target, countOnly
        self.devices = (device,) if device else DEVICES
        self._passes = self._kinds = self._options = None

    def run(self, tool, *arguments, timeout=None):
        command = [str(self.folder / tool), *map(str, arguments)]
        # One that waits for ever uses no processor: a generous limit of real time.
        seconds = timeout or self.timeout
        limit = math.ceil(seconds)
        try:
            done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=20 * seconds,
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1)))
        except subprocess.TimeoutExpired as error:
            return Outcome(command, None, (error.stderr or b"").decode(errors="replace"))
        return Outcome(command, done.returncode, done.stderr.decode(errors="replace"))

    def help(self, tool):
        return subprocess.run([str(self.folder / tool), "--help"], capture_output=True, text=True, check=True).stdout

    @property
    def passes(self):
        """Names of all registered passes and pipelines of the project."""
        if self._passes is None:
            found = re.findall(r"^\s+--(fusion-[a-z0-9-]+)\s", self.help("fusion-opt"), re.M)
            self._passes = [name for name in dict.fromkeys(found) if name not in TO_PROGRAMS | NEED_OPTIONS]
        return self._passes

    @property
    def options(self):
        """The options of each pass, by name."""
        if self._options is None:
            self._options, current = {}, set()
            for margin, name in re.findall(r"^( +)--([a-z0-9-]+)(?=[= ])", self.help("fusion-opt"), re.M):
                if len(margin) > 6:
                    current.add(name)
                else:
                    current = self._options.setdefault(name, set())
        return self._options

    def aim(self, flag, device):
        """A pass's flag, with the options that make it decide for a GPU."""
        name, _, given = flag.removeprefix("--").partition("=")
        more = [f"{option}={value}" for option, value in (("device", device), ("target", "cuda"))
                if device != "cpu" and option in self.options.get(name, ())]
        return "=".join(filter(None, (f"--{name}", " ".join(filter(None, (given, *more))))))

    @property
    def fusions(self):
        """Kinds that fusion-compile's --no-fuse takes."""
        if self._kinds is None:
            found = re.search(r"--no-fuse=.*?leave out: ([a-z, -]+)", self.help("fusion-compile"))
            self._kinds = [kind.strip() for kind in found[1].split(",")] if found else []
        return self._kinds

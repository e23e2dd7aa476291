# ===- self_test.py - Does the fuzzer see what is wrong? ------------------=== #
#
# A comparison that can't fail would pass for ever. So the tools are put behind
# wrappers that do one thing wrong each: the fuzzer has to report it, as what it
# is, and to reduce it. And what is right has to pass.
#
# ===----------------------------------------------------------------------=== #
"""The fuzzer against tools that are wrong on purpose."""

import contextlib
import io
import os
import re
import stat
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "fuzzer"))

import importlib.util

import data  # noqa: E402
from generate import makeGraph, makeModule  # noqa: E402
from graph import Module, Op, Value  # noqa: E402
from reduce import minimize  # noqa: E402
from report import knownOps  # noqa: E402

spec = importlib.util.spec_from_file_location("fuzz", HERE / "fuzzer/__main__.py")
fuzz = importlib.util.module_from_spec(spec)
spec.loader.exec_module(fuzz)

BIN = Path(os.environ.get("FUSION_BIN") or HERE.parents[1] / "build/dev/bin").resolve()

# What a wrapper does before or after the real tool; `args` are its arguments.
WRAPPER = """#!{python}
import os, re, signal, subprocess, sys, time
from pathlib import Path
sys.path.insert(0, {modules!r})
REAL = {real!r}
args = sys.argv[1:]
def call():
    done = subprocess.run([REAL] + args)
    if done.returncode: sys.exit(done.returncode)
def option(name):
    return args[args.index(name) + 1] if name in args else ""
{body}
"""
PASS_THROUGH = "os.execv(REAL, [REAL] + args)"
# Whether the model that fusion-run runs has such an op: the module lies beside it.
HAS = "has = lambda op: ('fusion.%s ' % op) in (Path(args[0]).parent / 'model.mlir').read_text()\n"
CHANGE = """
call()
import numpy as np
if has('{op}') and 'fused.fsn' in args[0] and 'unfused' not in args[0]:
    for path in sorted(Path(option('--output-dir')).glob('*.npy')):
        array = np.load(path)
        if array.size and {where}:
            {change}
            np.save(path, array)
"""


def wrongTools(folder, **bodies):
    """A folder of all tools, some of them behind wrappers."""
    folder.mkdir()
    for name in ("fusion-opt", "fusion-interpret", "fusion-compile", "fusion-run"):
        path = folder / name
        body = bodies.get(name.replace("-", "_"))
        if body is None:
            path.symlink_to(BIN / name)
            continue
        path.write_text(WRAPPER.format(python=sys.executable, modules=str(HERE / "fuzzer"), real=str(BIN / name), body=body))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return folder


class Case:
    """One run of the fuzzer: its status, what it printed, the folders it left."""

    def __init__(self, *arguments, **bodies):
        self.scratch = tempfile.TemporaryDirectory()
        root = Path(self.scratch.name)
        tools = wrongTools(root / "bin", **bodies)
        with contextlib.redirect_stdout(io.StringIO()) as output:
            self.status = fuzz.main(["--bin", str(tools), "--failures", str(root / "failures"), "--jobs", "1",
                                    "--reduce-seconds", "600", *([] if "--device" in arguments else ["--device", "cpu"]), *arguments])
        self.output = output.getvalue()
        self.folders = sorted((root / "failures").glob("*")) if (root / "failures").exists() else []

    def model(self):
        return (self.folders[0] / "model.mlir").read_text()

    def ops(self):
        return re.findall(r"= fusion\.([a-z_0-9]+)", self.model())


def expect(condition, case):
    if not condition:
        raise AssertionError(case.output if isinstance(case, Case) else case)


# What each planted fault must give ---------------------------------------------


def rightToolsPass():
    case = Case("--seed", "5", "--graphs", "8", "--per-module", "8", "--check", "compile", "--check", "pass fusion-canonicalize")
    expect(case.status == 0 and not case.folders and "0 failed" in case.output, case)


def wrongValueOfACompiledModuleIsFoundAndReduced():
    body = HAS + CHANGE.format(op="transpose", where="array.dtype.kind == 'f'", change="array = array + 1")
    case = Case("--seed", "5", "--graphs", "6", "--per-module", "6", "--check", "compile", fusion_run=body)
    expect(case.status == 1 and "compile: value" in case.output, case)
    # The op that matters is left, and hardly anything else.
    expect(len(case.folders) == 1 and "transpose" in case.ops() and len(case.ops()) <= 3, case)
    repeat = (case.folders[0] / "repeat.sh").read_text()
    expect("fusion-compile" in repeat and "diff -r want fused" in repeat and (case.folders[0] / "in.npz").exists(), case)


def oneBitIsFound():
    body = HAS + CHANGE.format(op="broadcast", where="array.dtype == np.float32",
                               change="array.reshape(-1)[-1:].view(np.uint32)[...] ^= 1")
    case = Case("--seed", "6", "--graphs", "6", "--per-module", "6", "--check", "compile", "--reduce-seconds", "0", fusion_run=body)
    expect(case.status == 1 and "compile: value" in case.output, case)


def missingOutputIsFound():
    body = "call()\nfor path in sorted(Path(option('--output-dir')).glob('*.npy'))[:1]:\n    path.unlink()"
    case = Case("--seed", "7", "--graphs", "4", "--per-module", "4", "--check", "compile", "--reduce-seconds", "0", fusion_run=body)
    expect(case.status == 1 and "is missing" in case.output, case)


def wrongPassIsFoundAndReduced():
    """A pass that turns subtractions around."""
    body = ("call()\nif '--fusion-fuse-vertical' in args:\n    path = Path(option('-o'))\n    path.write_text(re.sub("
            "r'fusion.sub (%\\w+), (%\\w+) :', r'fusion.sub \\2, \\1 :', path.read_text()))")
    case = Case("--seed", "8", "--graphs", "12", "--per-module", "12", "--check", "pass fusion-fuse-vertical", fusion_opt=body)
    expect(case.status == 1 and "pass fusion-fuse-vertical: value" in case.output, case)
    expect("sub" in case.ops() and len(case.ops()) <= 3, case)


TURNED = ("path = Path(option('-o'))\n    path.write_text(re.sub("
          "r'fusion.sub (%\\w+), (%\\w+) :', r'fusion.sub \\2, \\1 :', path.read_text()))")


def passThatIsWrongForAGpuIsFound():
    body = f"call()\nif '--fusion-fuse-vertical=device=h200' in args:\n    {TURNED}"
    words = ("--seed", "8", "--graphs", "12", "--per-module", "12", "--check", "pass fusion-fuse-vertical", "--reduce-seconds", "20")
    expect(Case(*words, fusion_opt=body).status == 0, "a pass for the cpu is right")
    case = Case(*words, "--device", "h200", fusion_opt=body)
    expect(case.status == 1 and "pass fusion-fuse-vertical for h200: value" in case.output, case)
    repeat = (case.folders[0] / "repeat.sh").read_text()
    expect("fusion-opt\" cuda.mlir --fusion-fuse-vertical=device=h200" in repeat and (case.folders[0] / "cuda.mlir").exists(), repeat)


def wrongCompilationForAGpuIsFound():
    body = f"call()\nif '--target=cuda:sm_90' in args and '--stop-after=fuse' in args:\n    {TURNED}"
    words = ("--seed", "8", "--graphs", "12", "--per-module", "12", "--check", "lower", "--device", "h200", "--reduce-seconds", "0")
    expect(Case(*words).status == 0, "the tools are right")
    case = Case(*words, fusion_compile=body)
    expect(case.status == 1 and "lower --target=cuda:sm_90" in case.output and ": value:" in case.output, case)


def passThatIsNotIdempotentIsFound():
    body = ("call()\nif args.count('--fusion-canonicalize') == 2:\n    path = Path(option('-o'))\n"
            "    path.write_text(path.read_text() + '\\n// again\\n')")
    case = Case("--seed", "9", "--graphs", "2", "--per-module", "2", "--check", "pass fusion-canonicalize", fusion_opt=body)
    expect(case.status == 1 and "the second run changes the module" in case.output, case)


def crashHangAndExitStatusAreTold():
    when = "if '--fusion-fuse-vertical' in args:\n    "
    for body, told in (("os.kill(os.getpid(), signal.SIGSEGV)", "signal 11"), ("while True: pass", "timeout"),
                       ("print('error: no such luck', file=sys.stderr); sys.exit(3)", "exit 3: error: no such luck")):
        case = Case("--seed", "10", "--graphs", "2", "--per-module", "2", "--check", "pass fusion-fuse-vertical", "--timeout", "2",
                    "--reduce-seconds", "0", fusion_opt=when + body + "\n" + PASS_THROUGH)
        expect(case.status == 1 and told in case.output, case)


def evaluatorThatCrashesOnOnePassIsBlamedOnIt():
    body = "if 'p0' in Path(args[0].split('=')[1]).read_text(): os.kill(os.getpid(), signal.SIGSEGV)\n" + PASS_THROUGH
    case = Case("--seed", "11", "--graphs", "2", "--per-module", "2", "--check", "pass fusion-fuse-vertical", "--reduce-seconds", "0",
                fusion_interpret=body)
    expect(case.status == 1 and "pass fusion-fuse-vertical: signal 11" in case.output, case)


def printerThatLosesSomethingIsFound():
    body = ("call()\nif '--verify-roundtrip' in args:\n    path = Path(option('-o'))\n"
            "    path.write_text(path.read_text().replace('fusion.add', 'fusion.mul', 1))")
    case = Case("--seed", "12", "--graphs", "10", "--per-module", "10", "--check", "roundtrip", "--reduce-seconds", "0", fusion_opt=body)
    expect(case.status == 1 and "roundtrip: text" in case.output, case)


# What is equal, and what isn't ----------------------------------------------------


def bitsAreComparedAsDocumented():
    f = np.float32
    nan, other = np.array([np.nan], f), np.array([0x7FC00001], np.uint32).view(f)
    expect(data.differentBits(nan, other, "f32") is None, "NaN payloads are one NaN")
    expect(data.differentBits(np.array([0.0], f), np.array([-0.0], f), "f32"), "the sign of zero counts")
    expect(data.differentBits(np.array([1], f), np.array([np.nextafter(f(1), f(2))]), "f32"), "one unit in the last place")
    expect(data.differentBits(np.array([np.inf], f), nan, "f32"), "an infinity is no NaN")
    expect(data.differentBits(np.zeros((2, 1), f), np.zeros((1, 2), f), "f32"), "shapes count")
    expect(data.differentBits(np.zeros(2, f), np.zeros(2, np.float64), "f32"), "types count")
    bf16 = np.array([0x7FC0, 0x3F80], np.uint16)
    expect(data.differentBits(bf16, np.array([0x7FFF, 0x3F80], np.uint16), "bf16") is None, "NaN of bf16")
    expect(data.differentBits(bf16, np.array([0x7FC0, 0x3F81], np.uint16), "bf16"), "bits of bf16")


def tolerancesAreBounds():
    f = np.float32
    want, wide = np.array([1.0, 2.0], f), np.array([1.0, 2.0])
    expect(data.tooFar(want, want * f(1 + 1e-6), wide, "f32") is None, "within")
    expect(data.tooFar(want, want * f(1 + 1e-3), wide, "f32"), "beyond")
    expect(data.tooFar(want, np.array([np.nan, 2], f), wide, "f32"), "a NaN that isn't there")
    expect(data.tooFar(np.array([np.nan, 2], f), want, np.array([np.nan, 2]), "f32"), "a NaN that is lost")
    expect(data.tooFar(want, np.array([np.inf, 2], f), wide, "f32"), "an infinity")
    # What the graph amplifies itself is no error of the compiler.
    expect(data.tooFar(want, want + f(0.01), np.array([1.001, 2.0]), "f32") is None, "amplified")
    # An f64 that was an f32 is no nearer than that, an f64 that wasn't is.
    want, got = np.array([5.753559589385986]), np.array([5.7535600662231445])
    expect(data.tooFar(want, got, want, "f64", "f32") is None, "an f64 that was an f32")
    expect(data.tooFar(want, got, want, "f64"), "an f64")
    expect(data.tooFar(want, want * (1 + 1e-3), want, "f64", "f32"), "beyond that of an f32")
    expect(data.tooFar(want, np.array([np.inf]), want, "f64", "f16"), "an infinity of a small number")
    expect(data.tooFar(np.array([65504.0]), np.array([np.inf]), np.array([65519.0]), "f64", "f16") is None, "at the edge of f16")


def signsOfZerosOfProductsAreFree():
    """A graph whose product is [[0, 2]]: its reciprocal is an infinity of either sign."""
    x, y, z = Value((1, 2), "f32"), Value((1, 2), "f32"), Value((1, 2), "f32")
    graph = makeGraph(1, 0)
    graph.inputs, graph.donated = [(x, np.array([[0, 2]], np.float32))], {}
    weights = Value((2, 2), "f32")
    graph.ops = [Op("constant dense<{data}> : {r}", [], [weights], np.eye(2, dtype=np.float32)),
                 Op("matmul {0}, {1} : {t0}, {t1}", [x, weights], [y]), Op("reciprocal {0} : {t0}", [y], [z])]
    graph.outputs = [y, z]
    module = Module([graph])
    expect(graph.ofProducts() == {y, z}, "what comes from a product")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "in").mkdir()
        np.save(f"{folder}/in/g0_x0.npy", graph.inputs[0][1])
        Path(folder, "plus.mlir").write_text(module.text())
        Path(folder, "minus.mlir").write_text(module.text(signs=True))
        Path(folder, "cases").write_text("".join(f"{folder}/{n}.mlir {folder}/in {folder}/{n}\n" for n in ("plus", "minus")))
        expect(os.spawnl(os.P_WAIT, str(BIN / "fusion-interpret"), "fusion-interpret", f"--batch-file={folder}/cases") == 0, "evaluates")
        plus, minus = ([data.read(f"{folder}/{n}/g0_y{i}.npy") for i in range(2)] for n in ("plus", "minus"))
    expect(np.signbit(minus[0]).tolist() == [[True, False]] and minus[1].tolist() == [[-np.inf, 0.5]], "the twin's zero is negative")
    for i in range(2):
        loose = data.withoutSigns(plus[i], minus[i], plus[i], minus[i], "f32")
        expect(data.differentBits(plus[i], loose, "f32") is None, "the sign of a product's zero is free")
        wrong = minus[i].copy()
        wrong[0, 1] = -wrong[0, 1]
        expect(data.differentBits(plus[i], data.withoutSigns(plus[i], wrong, plus[i], minus[i], "f32"), "f32"), "all else is not")
    one = np.array([1, 0], np.int8)
    expect(data.differentBits(one, data.withoutSigns(one, one[::-1], one, one, "i8"), "i8"), "nor are integers")


def graphsComeFromTheirSeedAlone():
    text = makeModule(3, 2, 5).text()
    expect(text == makeModule(3, 2, 5).text() and text != makeModule(4, 2, 5).text(), "seeds")
    alone = Module([makeGraph(3, 11, fuzz.makeModule.__globals__["isDynamic"](3, 2))])
    body = [line.replace("g0_", "g1_") for line in alone.text().splitlines() if " = fusion." in line]
    expect(all(line in text for line in body), "graph 11 is the second of module 2")


def everyOpAppears():
    graphs = [makeGraph(4711, i, dynamic=i % 4 == 0) for i in range(4000)]
    seen = {op.name for graph in graphs for op in graph.ops}
    missing = sorted(set(knownOps()) - seen)
    expect(not missing, f"no graph has {', '.join(missing)}")
    expect("get_parameter" in seen, "no graph has a parameter")


def minimizeFindsTheNeedles():
    expect(minimize(list(range(100)), lambda items: {13, 77} <= set(items)) == [13, 77], "two needles")
    expect(minimize([1], lambda items: False) == [1], "nothing smaller")


def constantsArePrintedExactly():
    for dtype, numbers in (("f32", [0.1, -0.0, np.nan, np.inf, 1e-30]), ("f16", [0.5, -4, 65504, 6e-8, -np.inf]), ("i8", [-128, 0, 127, 1, 2])):
        array = data.encode(np.array(numbers), dtype)
        value = Value((5,), dtype)
        graph = makeGraph(1, 0)
        graph.inputs, graph.ops, graph.outputs, graph.donated = [], [Op("constant dense<{data}> : {r}", [], [value], array)], [value], {}
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "m.mlir").write_text(Module([graph]).text())
            Path(folder, "in").mkdir()
            Path(folder, "cases").write_text(f"{folder}/m.mlir {folder}/in {folder}/out\n")
            expect(os.spawnl(os.P_WAIT, str(BIN / "fusion-interpret"), "fusion-interpret", f"--batch-file={folder}/cases") == 0, "evaluates")
            expect(data.differentBits(array, data.read(f"{folder}/out/g0_y0.npy"), dtype) is None, dtype)


def main():
    tests = [value for value in globals().values() if callable(value) and getattr(value, "__module__", "") == __name__
             and not isinstance(value, type) and value.__name__ not in ("main", "expect", "wrongTools")]
    failed = 0
    for test in tests:
        try:
            test()
            print(f"ok   {test.__name__}", flush=True)
        except Exception as error:  # noqa: BLE001  (one test must not hide the others)
            failed += 1
            print(f"FAIL {test.__name__}: {type(error).__name__}: {error}", flush=True)
    print(f"{len(tests) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

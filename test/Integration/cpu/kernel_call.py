#!/usr/bin/env python3
"""Kernels in C inside a model: docs/kernel-calls.md, its example, and each way
in which a kernel or its compiler can be wrong.

Values are those of numpy on small integers, so they are exact. Launches are
counted outside the compiler.
"""

import os
import re
import signal
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from _support import BIN, ROOT, Checks, run

sys.path.insert(0, str(Path(__file__).resolve().parent / "Inputs"))
from launch_counts import buildShim, fromInterposition, fromNullBackend  # noqa: E402

EXAMPLE = ROOT / "examples/kernel-call"
checks = Checks()
# As fusion-compile looks for it.
C_COMPILER = next(filter(shutil.which, ("cc", "clang", "gcc", "clang-22")), "cc")


def tool(name, *arguments, env=None, timeout=120, cwd=None):
    return subprocess.run([BIN / name, *map(str, arguments)], capture_output=True, text=True, timeout=timeout, cwd=cwd,
                          stdin=subprocess.DEVNULL, env={**os.environ, **(env or {})})


def quoted(source):
    return source.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")


def callOp(source, entry="k", operands="%x", types="(tensor<4xf32>) -> tensor<4xf32>", attributes="", language="c"):
    return (f'fusion.kernel_call "{language}" "{entry}" "{quoted(source)}" ({operands}) flops = 4 bytes = 32 '
            f'{attributes}: {types}')


def model(body, results, arguments="%x: tensor<4xf32> {fusion.name = \"x\"}", types="tensor<4xf32>"):
    """A function whose i-th result is named ri."""
    types = [types] * len(results) if isinstance(types, str) else types
    named = ", ".join(f'{type} {{fusion.name = "r{i}"}}' for i, type in enumerate(types))
    return (f"func.func @main({arguments}) -> ({named}) {{\n{body}\n"
            f"  return {', '.join(results)} : {', '.join(types)}\n}}\n")


def compiled(folder, text, *flags, env=None):
    path = folder / "m.mlir"
    path.write_text(text)
    return tool("fusion-compile", path, "-o", folder / "m.fsn", "--cpu=x86-64-v3", *flags, env=env)


def execute(folder, module="m.fsn", env=None, **inputs):
    """Runs a module on arrays; returns its outputs by name."""
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    flags = []
    for name, array in inputs.items():
        np.save(folder / f"{name}.npy", array)
        flags += ["--input", f"{name}={folder / name}.npy"]
    answer = tool("fusion-run", folder / module, *flags, "--output-dir", out, env=env)
    if answer.returncode != 0:
        sys.exit(f"error: fusion-run ended with {answer.returncode}\n{answer.stderr}")
    return {path.stem: np.load(path) for path in out.glob("*.npy")}


def values(name, folder, text, want, *flags, **inputs):
    """Compiles and runs a model and compares all results, bit by bit."""
    answer = compiled(folder, text, *flags)
    if answer.returncode != 0:
        return checks.check(name, False, f"exit {answer.returncode}\n{answer.stderr}")
    got = execute(folder, **inputs)
    same = all(got[key].dtype == value.dtype and np.array_equal(got[key], value) for key, value in want.items())
    checks.check(name, same and set(got) == set(want), "" if same else f"got {got}, want {want}")


def refused(name, folder, text, code, *needles, flags=(), env=None):
    answer = compiled(folder, text, *flags, env=env)
    missing = [needle for needle in needles if needle not in answer.stderr]
    checks.check(name, answer.returncode == code and not missing and "error: " in answer.stderr,
                 "" if answer.returncode == code and not missing
                 else f"exit {answer.returncode} for {code}, lacks {missing}\n{answer.stderr}")


def script(folder, name, text):
    """An executable file."""
    path = folder / name
    path.write_text("#!/bin/bash\n" + text)
    path.chmod(0o755)
    return path


# ---------------------------------------------------------------------------
# The example and the page
# ---------------------------------------------------------------------------

W = np.array([[1, 0, 2, 0, 0, 1, 0, 3], [0, 2, 0, 1, 0, 0, 1, 0], [2, 0, 0, 0, 3, 0, 0, 1], [0, 1, 1, 0, 0, 2, 0, 0]],
             np.float32)


def expectedOfExample(x):
    sums = np.cumsum(np.maximum(x @ W, 0), axis=1, dtype=np.float32)
    median = np.argmax(2 * sums >= sums[:, -1:], axis=1).astype(np.int32)
    return {"sums": sums * np.float32(0.5), "median": median}


def checkExample(folder):
    for name in ("model.mlir", "prefix_sums.c"):
        shutil.copy(EXAMPLE / name, folder)
    run("fusion-compile", folder / "model.mlir", "-o", folder / "model.fsn")
    for batch in (1, 3, 16):
        x = np.random.default_rng(batch).integers(-2, 6, (batch, 4)).astype(np.float32)
        # No program of any kind can be found: the module needs none.
        got = execute(folder, "model.fsn", env={"PATH": "/nonexistent"}, x=x)
        want = expectedOfExample(x)
        same = all(np.array_equal(got[key], want[key]) and got[key].dtype == want[key].dtype for key in want)
        checks.check(f"the example, batch {batch}", same, "" if same else f"got {got}, want {want}")
    # One product with its relu behind it, the C kernel, the multiplication.
    shim = buildShim(folder)
    counts = fromNullBackend(folder / "model.fsn"), fromInterposition(folder / "model.fsn", shim, folder)
    checks.check("the call is a launch of its own", counts == ((3, 1), (3, 1)), str(counts))
    shown = run("fusion-run", folder / "model.fsn", "--inspect").stdout
    digest = subprocess.run(["sha256sum", EXAMPLE / "prefix_sums.c"], capture_output=True, text=True, check=True)
    checks.check("--inspect names kernel, source and compiler",
                 f"prefix_sums sha256:{digest.stdout.split()[0]}" in shown and "c-compiler" in shown
                 and "kernel_call prefix_sums" in shown, shown if "c-kernel" not in shown else "")


def checkPage(folder):
    page = (ROOT / "docs/kernel-calls.md").read_text()
    source = re.search(r"^```c\n(.*?)^```$", page, re.M | re.S).group(1)
    checks.check("the page shows the example's kernel", source == (EXAMPLE / "prefix_sums.c").read_text())
    call = re.search(r"^```mlir\n(.*?)^```$", page, re.M | re.S).group(1)
    checks.check("the page shows the example's call",
                 " ".join(call.split()) in " ".join((EXAMPLE / "model.mlir").read_text().split()))
    header = (ROOT / "include/fusion-c/Kernel.h").read_text()
    checks.check("the header is C without our include path",
                 subprocess.run([C_COMPILER, "-std=c99", "-Wall", "-Werror", "-fsyntax-only", "-x", "c", "-"], input=header,
                                text=True).returncode == 0)


def checkInstalled(folder):
    """From an installed package: the tool, and the header for an editor."""
    package = folder / "package"
    for component in ("runtime", "compiler"):
        subprocess.run(["cmake", "--install", BIN.parent, "--prefix", package, "--component", component], check=True,
                       stdout=subprocess.DEVNULL)
    editor = subprocess.run([C_COMPILER, "-fsyntax-only", "-I", package / "include", EXAMPLE / "prefix_sums.c"],
                            capture_output=True, text=True)
    checks.check("the installed header serves an editor", editor.returncode == 0, editor.stderr)
    libraries = {"LD_LIBRARY_PATH": "/usr/lib/llvm-22/lib"}
    module = folder / "installed.fsn"
    answer = subprocess.run([package / "bin/fusion-compile", folder / "model.mlir", "-o", module],
                            capture_output=True, text=True, env={**os.environ, **libraries})
    checks.check("an installed compiler compiles the example",
                 answer.returncode == 0 and module.read_bytes() == (folder / "model.fsn").read_bytes(), answer.stderr)


# ---------------------------------------------------------------------------
# What a kernel can do
# ---------------------------------------------------------------------------

ADD1 = "void k(const float *x, float *y, int64_t b) { for (int i = 0; i < 4; ++i) y[i] = x[i] + 1; }\n"
X = np.array([1, 2, 3, 5], np.float32)


def checkValues(folder):
    values("a source in the model's text", folder, model(f"  %0 = {callOp(ADD1)}", ["%0"]), {"r0": X + 1}, x=X)

    # Two sources define the same names, and use libm and compiler's helpers.
    other = ("static float add(float a) { return a + 10; }\nfloat help(float a) { return add(a); }\n"
             "void k(const float *x, float *y, int64_t b) { for (int i = 0; i < 4; ++i) y[i] = help(x[i]); }")
    third = other.replace("+ 10", "* 3")
    values("two sources may use the same names", folder,
           model(f"  %0 = {callOp(other)}\n  %1 = {callOp(third)}", ["%0", "%1"]), {"r0": X + 10, "r1": X * 3}, x=X)

    # Scalars of every type, several outputs of other types and shapes, no input.
    kinds = {"f64": "double", "f32": "float", "i8": "int8_t", "i32": "int32_t", "i64": "int64_t", "i1": "fusion_bool",
             "f16": "fusion_f16", "bf16": "fusion_bf16"}
    for kind, cType in kinds.items():
        copy = f"void k(const {cType} *x, {cType} *y, int64_t b) {{ for (int i = 0; i < 3; ++i) y[i] = x[2 - i]; }}"
        type = f"tensor<3x{kind}>"
        numbers = {"f64": np.float64, "f32": np.float32, "i8": np.int8, "i32": np.int32, "i64": np.int64,
                   "i1": np.bool_, "f16": np.float16}.get(kind)
        body = f"  %0 = {callOp(copy, types=f'({type}) -> {type}')}"
        if numbers is None:  # bf16 travels as f32
            body = (f"  %a = fusion.cast %x : tensor<3xf32> to {type}\n"
                    f"  %b = {callOp(copy, operands='%a', types=f'({type}) -> {type}')}\n"
                    f"  %0 = fusion.cast %b : {type} to tensor<3xf32>")
            numbers, type = np.float32, "tensor<3xf32>"
        x = np.array([0, 1, 1 if kind == "i1" else 2]).astype(numbers)
        values(f"elements of {kind}", folder,
               model(body, ["%0"], f'%x: {type} {{fusion.name = "x"}}', type), {"r0": x[::-1].copy()}, x=x)
    made = "void k(float *a, int32_t *b, int64_t n) { a[0] = 7; for (int i = 0; i < 6; ++i) b[i] = i * i; }"
    values("no operand, two results", folder,
           model(f"  %0:2 = {callOp(made, operands='', types='() -> (tensor<f32>, tensor<2x3xi32>)')}", ["%0#0", "%0#1"],
                 types=["tensor<f32>", "tensor<2x3xi32>"]),
           {"r0": np.array(7, np.float32), "r1": (np.arange(6, dtype=np.int32) ** 2).reshape(2, 3)}, x=X)

    # A splat and a weight are memory like any operand; one input twice; an
    # input stays as it is though the output is as large; one result unread.
    sums = ("void k(const float *restrict x, const float *restrict same, const float *restrict two,\n"
            "       const float *restrict w, float *restrict y, float *restrict unread, int64_t b) {\n"
            "  for (int i = 0; i < 4; ++i) { y[i] = 99; unread[i] = -1; }\n"
            "  for (int i = 0; i < 4; ++i) y[i] = x[i] + same[3 - i] * two[i] + w[i];\n}")
    type = "tensor<4xf32>"
    fourToTwo = f"({', '.join([type] * 4)}) -> ({type}, {type})"
    values("splats, weights, an input twice, a result unread", folder,
           model('  %t = fusion.constant dense<2.0> : tensor<4xf32>\n'
                 '  %w = fusion.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>\n'
                 '  %a = fusion.neg %x : tensor<4xf32>\n'
                 f"  %0:2 = {callOp(sums, operands='%a, %a, %t, %w', types=fourToTwo)}\n"
                 '  %1 = fusion.add %0#0, %a : tensor<4xf32>', ["%1"]),
           {"r0": -X + 2 * -X[::-1] + np.array([1, 2, 3, 4], np.float32) - X}, x=X)

    # A donated argument is not written before its last reader, the kernel, ends.
    reverse = "void k(const float *restrict x, float *restrict y, int64_t b) { for (int i = 0; i < 4; ++i) y[i] = x[3 - i]; }"
    values("a donated operand shares no byte", folder,
           model(f"  %0 = {callOp(reverse)}", ["%0"],
                 '%x: tensor<4xf32> {fusion.name = "x", fusion.donated = 0 : i64}'), {"r0": X[::-1].copy()}, x=X)

    # Copies that compilers turn into calls; blocks that overlap, both ways.
    memory = ("#include <string.h>\nstruct S { float a[40]; };\n"
              "static __attribute__((noinline)) struct S make(const float *x) { struct S s; memset(&s, 0, sizeof s);\n"
              "  memcpy(s.a, x, 16); memmove(s.a + 1, s.a, 12); memmove(s.a + 8, s.a + 10, 8); return s; }\n"
              "void k(const float *x, float *y, int64_t b) { struct S s = make(x), t = s; s.a[0] = 9;\n"
              "  memmove(t.a + 2, t.a + 1, 8); memcpy(y, t.a, 12); y[3] = memcmp(&s, &t, sizeof s) > 0; }")
    # s = 1 1 2 3 0...; t = 1 1 1 2; the bits of 9.0f are above those of 1.0f in the last byte only if compared there.
    sBytes = np.array([9, 1, 2, 3], np.float32).tobytes()
    tBytes = np.array([1, 1, 1, 2], np.float32).tobytes()
    values("memcpy and its kin", folder, model(f"  %0 = {callOp(memory)}", ["%0"]),
           {"r0": np.array([1, 1, 1, sBytes > tBytes], np.float32)}, x=X)

    # Order among kernels with effects, which may have static data; a pure
    # kernel that nothing reads is dropped.
    stack = ("static float held;\nvoid push(const float *x, int64_t b) { held = held * 10 + x[0]; }\n"
             "void pop(float *y, int64_t b) { y[0] = held; held = 0; }\n")
    push = lambda operand: callOp(stack, "push", operand, "(tensor<f32>) -> ()", "{side_effects} ")  # noqa: E731
    pop = callOp(stack, "pop", "", "() -> tensor<f32>", "{side_effects} ")
    body = ["  %one = fusion.constant dense<1.0> : tensor<f32>", "  %two = fusion.add %x, %one : tensor<f32>",
            "  %three = fusion.add %two, %one : tensor<f32>", f"  {push('%three')}", f"  {push('%x')}", f"  {push('%two')}",
            f"  %0 = {pop}", f"  %1 = {pop}", f"  {push('%two')}", f"  {push('%two')}", f"  %2 = {pop}"]
    values("side effects are kept and ordered", folder,
           model("\n".join(body), ["%0", "%1", "%2"], '%x: tensor<f32> {fusion.name = "x"}', "tensor<f32>"),
           {"r0": np.array(312, np.float32), "r1": np.array(0, np.float32), "r2": np.array(22, np.float32)},
           x=np.array(1, np.float32))

    # A `?` of a result without one in an operand is the batch.
    ramp = "void k(float *y, int64_t b) { for (int64_t i = 0; i < 2 * b; ++i) y[i] = i + b; }"
    body = f"  %0 = {callOp(ramp, operands='', types='() -> tensor<?x2xf32>')}\n  %1 = fusion.add %0, %x : tensor<?x2xf32>"
    text = model(body, ["%1"], '%x: tensor<?x2xf32> {fusion.name = "x"}', "tensor<?x2xf32>").replace(
        ") {\n", ") attributes {fusion.batch = array<i64: 1, 5>} {\n", 1)
    x = np.ones((3, 2), np.float32)
    values("a batch that no operand has", folder, text, {"r0": np.arange(6, dtype=np.float32).reshape(3, 2) + 4}, x=x)


UNARY = ("acos acosh asin asinh atan atanh cbrt ceil cos cosh erf erfc exp exp2 exp10 expm1 fabs floor lgamma log log10 "
         "log1p log2 logb nearbyint rint round roundeven sin sinh sqrt tan tanh tgamma trunc").split()
BINARY = "atan2 copysign fdim fmax fmin fmod hypot nextafter pow remainder".split()


def checkCallable(folder):
    """Every function that the header lists can be called, in both types."""
    header = (ROOT / "include/fusion-c/Kernel.h").read_text()
    words = set(re.findall(r"\w+", header[header.index("with one argument"):header.index("and their forms")]))
    checks.check("the header lists what is tested", set(UNARY + BINARY + ["fma"]) <= words)
    calls = [(name, 1) for name in UNARY] + [(name, 2) for name in BINARY] + [("fma", 3)]
    lines = []
    for name, count in calls:
        for type, suffix in (("double", ""), ("float", "f")):
            lines.append(f"extern {type} {name}{suffix}({', '.join([type] * count)});")
    arguments = ["x[i]", "x[1]", "x[2]"]
    # Through volatile pointers: no call is folded or becomes an instruction.
    for row, (name, count) in enumerate(calls):
        lines.append(f"static void f{row}(const float *x, double *y) {{\n"
                     f"  double (*volatile p)({', '.join(['double'] * count)}) = {name};\n"
                     f"  float (*volatile q)({', '.join(['float'] * count)}) = {name}f;\n"
                     f"  for (int i = 0; i < 2; ++i) {{ y[2 * i] = p({', '.join(arguments[:count])});\n"
                     f"    y[2 * i + 1] = q({', '.join(arguments[:count])}); }}\n}}")
    body = " ".join(f"f{row}(x, y + {4 * row});" for row in range(len(calls)))
    lines.append(f"void k(const float *x, double *y, int64_t b) {{ {body} }}")
    type = f"tensor<{len(calls)}x2x2xf64>"
    text = model(f"  %0 = {callOp(chr(10).join(lines), types=f'(tensor<4xf32>) -> {type}')}", ["%0"], types=type)
    answer = compiled(folder, text, f"--c-compiler={C_COMPILER}")
    if answer.returncode != 0:
        return checks.check("libm's functions", False, answer.stderr)
    x = np.array([0.5, 1, 0.25, 0], np.float32)
    got = execute(folder, x=x)["r0"]
    # The same calls from a program of the system's own, with its libm.
    lines.append('#include <stdio.h>\nint main(void) { float x[4] = {0.5f, 1, 0.25f, 0}; static double y['
                 f'{4 * len(calls)}]; k(x, y, 1); fwrite(y, 8, {4 * len(calls)}, stdout); return 0; }}')
    (folder / "all.c").write_text("#include <stdint.h>\n" + "\n".join(lines))
    subprocess.run([C_COMPILER, "-std=gnu11", "-ffp-contract=off", "-o", folder / "all", folder / "all.c", "-lm"], check=True)
    want = np.frombuffer(subprocess.run([folder / "all"], capture_output=True, check=True).stdout, np.float64)
    different = [name for (name, _), a, b in zip(calls, got, want.reshape(got.shape))
                 if not np.array_equal(a, b, equal_nan=True)]
    checks.check("libm's functions, as in any program", not different, str(different or f"{2 * len(calls)} functions"))


def checkCompilers(folder):
    sizes = "void k(const float *x, float *y, int64_t b) { static const float t[4] = {4, 3, 2, 1};\n" \
            "  for (int i = 0; i < 4; ++i) switch ((int)x[i]) { case 1: y[i] = t[i]; break; case 2: y[i] = 20; break;\n" \
            "    case 3: y[i] = t[3]; break; case 4: y[i] = 8; break; case 5: y[i] = -t[0]; break; default: y[i] = 0; } }"
    text = model(f"  %0 = {callOp(sizes)}", ["%0"])
    want = {"r0": np.array([4, 20, 1, -4], np.float32)}
    found = [name for name in ("gcc", "clang", "clang-22") if shutil.which(name)]
    for name in found:
        values(f"compiled by {name}", folder, text, want, f"--c-compiler={name}", x=X)
    checks.check("there is a compiler", found)
    (folder / "m.mlir").write_text(text)
    script(folder, "mine", f'exec {C_COMPILER} "$@"\n')
    answer = tool("fusion-compile", "m.mlir", "-o", "m.fsn", "--c-compiler=./mine", cwd=folder)
    checks.check("a compiler of this folder", answer.returncode == 0, answer.stderr)
    ignoring = f"trap '' CHLD; exec {BIN}/fusion-compile {folder}/m.mlir -o {folder}/m.fsn"
    answer = subprocess.run(["bash", "-c", ignoring], capture_output=True, text=True)
    checks.check("started by one that ignores SIGCHLD", answer.returncode == 0, answer.stderr)
    answer = tool("fusion-run", folder / "m.fsn", "--random-inputs=1", "--nan-check")
    checks.check("under --nan-check", answer.returncode == 0, answer.stderr)
    # One run of the compiler for one source, whoever calls it; and --version.
    log = folder / "log"
    wrapper = script(folder, "counting", f'echo run >>{log}\nexec {C_COMPILER} "$@"\n')
    two = ADD1 + "void l(const float *x, float *y, int64_t b) { for (int i = 0; i < 4; ++i) y[i] = 2 * x[i]; }\n"
    values("two functions of one source", folder,
           model(f"  %0 = {callOp(two)}\n  %1 = {callOp(two, 'l', '%0')}\n  %2 = {callOp(two, operands='%1')}",
                 ["%2", "%1"]), {"r0": 2 * (X + 1) + 1, "r1": 2 * (X + 1)}, f"--c-compiler={wrapper}", x=X)
    checks.check("a source is compiled once", log.read_text() == "run\nrun\n", repr(log.read_text()))
    log.unlink()
    plain = model("  %0 = fusion.neg %x : tensor<4xf32>", ["%0"])
    for flags in ([f"--c-compiler={wrapper}"], ["--c-compiler=/nonexistent"], ["--c-compiler=off"]):
        values(f"no C kernel: {flags[0].split('/')[-1]} is not looked for", folder, plain, {"r0": -X}, *flags, x=X)
    checks.check("no C kernel: nothing runs", not log.exists())


def checkDeterminism(folder):
    text = model(f"  %0 = {callOp(ADD1)}", ["%0"])
    modules = []
    for place in ("one", "two/deep"):
        here = folder / place
        here.mkdir(parents=True)
        (here / "m.mlir").write_text(text)
        answer = tool("fusion-compile", "m.mlir", "-o", "m.fsn", cwd=here,
                      env={"CPATH": str(here), "TMPDIR": str(here), "LANG": "de_DE.UTF-8"})
        checks.check(f"compiled in {place}", answer.returncode == 0, answer.stderr)
        checks.check(f"nothing left in {place}", sorted(os.listdir(here)) == ["m.fsn", "m.mlir"],
                     str(os.listdir(here)))
        modules.append((here / "m.fsn").read_bytes())
    checks.check("the same model gives the same bytes anywhere", modules[0] == modules[1])


# ---------------------------------------------------------------------------
# What is wrong
# ---------------------------------------------------------------------------

def checkKernelErrors(folder):
    head = "void k(const float *x, float *y, int64_t b) "
    one = lambda source, **rest: model(f"  %0 = {callOp(source, **rest)}", ["%0"])  # noqa: E731
    refused("a typing mistake", folder, one("\n" + head + "{ flaot t = 1; }"), 3, "'k'", "k.c:2:", "flaot", "m.mlir:2:")
    refused("other types than the op's", folder, one("void k(const double *x, float *y, int64_t b) {}"), 3,
            "conflicting types", "void k(const float *, float *, int64_t)")
    refused("a parameter too few", folder, one("void k(const float *x, int64_t b) {}"), 3, "conflicting types")
    refused("a header that is not there", folder, one('#include "mine.h"\n' + head + "{}"), 3, "mine.h")
    refused("another name", folder, one("void other(void) {}"), 3, "'k'", "no function")
    refused("a function that nobody else can call", folder, one("static " + head + "{}"), 3, "'k'", "static")
    refused("a declared function of libc", folder, one("#include <stdio.h>\n" + head + '{ puts("hello"); }'), 3, "'puts'",
            "fusion-c/Kernel.h")
    refused("a function of libm that the runtime lacks", folder,
            one("double j0(double);\n" + head + "{ y[0] = j0(x[0]); }"), 3, "'j0'")
    refused("an undeclared function", folder, one(head + "{ y[0] = foo(x[0]); }"), 3, "foo")
    refused("static data", folder, one("static int count;\n" + head + "{ y[0] = ++count; }"), 3, "'count'", "side_effects")
    refused("global data", folder, one("float table[3] = {1, 2, 3};\n" + head + "{ y[0] = table[(int)x[0]]++; }"), 3,
            "'table'", "side_effects")
    refused("one call of two is pure", folder,
            model(f"  %0 = {callOp('static int n; ' + head + '{ y[0] = ++n; }', attributes='{side_effects} ')}\n"
                  f"  %1 = {callOp('static int n; ' + head + '{ y[0] = ++n; }')}", ["%0", "%1"]), 3, "side_effects")
    refused("thread-local data", folder,
            one("static __thread int n;\n" + head + "{ y[0] = ++n; }", attributes="{side_effects} "), 3, "thread-local")
    refused("a constructor", folder, one("static __attribute__((constructor)) void f(void) { __asm__ volatile(\"\"); }\n" + head + "{}"), 3,
            "constructor")
    refused("code chosen when it is loaded", folder,
            one(head + "{}\nstatic void *pick(void) { return (void *)k; }\n"
                "void chosen(void) __attribute__((ifunc(\"pick\")));\nvoid use(void) { chosen(); }"), 3, "several versions")
    refused("the time of day", folder, one(head + '{ y[0] = sizeof __TIME__; }'), 3, "__TIME__")
    refused("asm that no processor has", folder, one(head + '{ __asm__("frobnicate %eax"); }'), 3, "assembled", "'k'")
    refused("asm that can't be linked", folder, one('__asm__(".text\\n.quad k");\n' + head + "{}"), 3, "linked", "asm")
    refused("asm of a size that nobody knows", folder,
            one('__asm__(".size k, .-elsewhere\\n.quad k-elsewhere");\n' + head + "{}"), 3, "'k'", "'elsewhere'")
    (folder / "data").write_text("secret")
    for directive in (".incbin", ".include"):
        refused(f"asm with {directive}", folder,
                one(f'__asm__("{directive} \\"{folder}/data\\"");\n' + head + "{}"), 3, "assembled")
    for section in (".interp", ".dynamic"):
        refused(f"a section {section}", folder,
                one(f'__asm__(".section {section},\\"a\\"\\n.quad 1\\n.text");\n' + head + "{}"), 3, section, "linker")
    # What would keep the assembler busy for ever, or take all memory, spelled in
    # any case.
    for endless in (".rept 1000000000\\nnop\\n.endr", ".RePt 1000000000\\nnop\\n.endr", ".macro f\\n.endm",
                    ".fill 100000000000", ".dcb.b 100000000000, 1", ".irp x, 1, 2\\n.endr", ".zero 100000000000",
                    ".zero 2000000000\\n.skip 2000000000"):
        refused(f"asm with {endless.split()[0]}", folder,
                one(f'__asm__(".section .rodata\\n{endless}\\n.text");\n' + head + "{}"), 3, "assembled")
    refused("more constants than memory", folder,
            one("const char z[1ll << 36] = {1};\n" + head + "{ y[0] = z[(int)x[0]]; }"), 3, "equal bytes")
    refused("more data than a module can have", folder,
            one("static char z[1ll << 33];\n" + head + "{ z[(int)x[0]] = 1; y[0] = z[1]; }",
                attributes="{side_effects} "), 3, "more than 2 GiB")
    refused("libraries that lld would open", folder,
            one('__asm__(".section .deplibs,\\"MS\\",@llvm_dependent_libraries,1\\n.asciz \\"c\\"\\n.text");\n' + head + "{}"),
            3, "libraries")
    version = subprocess.run([C_COMPILER, "--version"], capture_output=True, text=True).stdout
    if "clang" not in version:  # clang names the section of each function again
        refused("a function among data", folder, one('__asm__(".pushsection .rodata");\n' + head + "{}"), 3, "no function 'k'")
    refused("a name that C has not", folder, one(head + "{}", entry="a-b"), 3, "'a-b'")
    refused("a kernel in PTX", folder, one(".version 7.0", language="ptx"), 3, "ptx", "cpu")
    refused("a kernel in CUDA", folder, one("__global__ void k() {}", language="cuda"), 3, "cuda", "cpu")
    refused("one function called in two ways", folder,
            model(f"  %0 = {callOp(ADD1)}\n  %1 = {callOp(ADD1, types='(tensor<4xf32>) -> tensor<4xi32>')}", ["%0", "%1"],
                  types=["tensor<4xf32>", "tensor<4xi32>"]), 3, "'k'", "float *", "int32_t *")


def checkSourceFiles(folder):
    inside = folder / "models"
    (inside / "kernels").mkdir(parents=True)
    (inside / "kernels/add.c").write_text(ADD1)
    (folder / "outside.c").write_text(ADD1)
    (inside / "link.c").symlink_to(folder / "outside.c")
    (inside / "zero.c").write_bytes(b"int a;\0")
    file = lambda path: model(f"  %0 = {callOp('file:' + path)}", ["%0"])  # noqa: E731
    values("a source in a folder below", inside, file("kernels/add.c"), {"r0": X + 1}, x=X)
    values("a file and its text are one source", inside,
           model(f"  %0 = {callOp('file:kernels/add.c')}\n  %1 = {callOp(ADD1, operands='%0')}", ["%1"]), {"r0": X + 2}, x=X)
    (inside / "kernels/add.c").write_text("\n\nnonsense\n")
    refused("an error names the file", inside, file("kernels/add.c"), 3, "add.c:3:")
    refused("a path out of the folder", inside, file("../outside.c"), 3, "'..'")
    refused("a whole path", inside, file(str(folder / "outside.c")), 3, "relative")
    refused("a symbolic link", inside, file("link.c"), 3, "symbolic link")
    refused("no such file", inside, file("none.c"), 3, "none.c", "No such file")
    refused("a folder", inside, file("kernels"), 3, "regular file")
    refused("a file that is no text", inside, file("zero.c"), 3, "no text")


def checkCompilerErrors(folder):
    text = model(f"  %0 = {callOp(ADD1)}", ["%0"])
    refused("no compiler on PATH", folder, text, 5, "no C compiler", "--c-compiler", "'k'", env={"PATH": "/nonexistent"})
    refused("compilers are forbidden", folder, text, 5, "--c-compiler=off", flags=["--c-compiler=off"])
    refused("a name that PATH has not", folder, text, 5, "'nocc'", flags=["--c-compiler=nocc"])
    refused("a path that is not there", folder, text, 5, "/nonexistent/cc", flags=["--c-compiler=/nonexistent/cc"])
    (folder / "plain").write_text("text\n")
    refused("a file that can't be run", folder, text, 5, "plain", flags=[f"--c-compiler={folder / 'plain'}"])
    (folder / "noformat").write_text("\1\2\3")
    (folder / "noformat").chmod(0o755)
    refused("a file that is no program", folder, text, 5, "noformat", flags=[f"--c-compiler={folder / 'noformat'}"])
    refused("a program that is no compiler", folder, text, 5, "false", flags=["--c-compiler=false"])
    answers = '[[ $1 == --version ]] && { echo mycc 1; exit 0; }\n'
    for name, body, code, needle in (
            ("a compiler that crashes", "kill -SEGV $$", 5, "signal 11"),
            ("a driver whose compiler crashes", "echo 'cc: internal compiler error: Segmentation fault' >&2; exit 4", 5, "crashed"),
            ("a compiler that is silent", "exit 1", 5, "said nothing"),
            ("a compiler that prints no assembly", "echo hello world", 3, "assembled"),
            ("a compiler that prints nothing", "exit 0", 3, "no function"),
            ("a compiler that hangs", "sleep 100", 8, "--c-compiler-timeout")):
        path = script(folder, "mycc", answers + body + "\n")
        start = time.monotonic()
        refused(name, folder, text, code, needle, "'k'", flags=[f"--c-compiler={path}", "--c-compiler-timeout=1"])
        checks.check(f"{name}: in time", time.monotonic() - start < 30)
    for value in ("0", "x", "-1"):
        answer = compiled(folder, text, f"--c-compiler-timeout={value}")
        checks.check(f"--c-compiler-timeout={value}", answer.returncode == 2 and "--c-compiler-timeout" in answer.stderr)


def checkSignal(folder):
    """A signal ends the compiler with the tool."""
    pidFile = folder / "pid"
    path = script(folder, "slow", f'[[ $1 == --version ]] && exit 0\necho $$ >{pidFile}.new\nmv {pidFile}.new {pidFile}\nsleep 300 & wait\n')
    (folder / "m.mlir").write_text(model(f"  %0 = {callOp(ADD1)}", ["%0"]))
    process = subprocess.Popen([BIN / "fusion-compile", folder / "m.mlir", "-o", folder / "m.fsn", f"--c-compiler={path}"],
                               stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not pidFile.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    child = int(pidFile.read_text())
    process.send_signal(signal.SIGTERM)
    status = process.wait(30)

    def isRunning():
        try:
            return Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
        except OSError:
            return False
    while isRunning() and time.monotonic() < deadline:
        time.sleep(0.02)
    checks.check("SIGTERM ends tool and compiler", status == 128 + signal.SIGTERM and not isRunning(), f"exit {status}")


def checkOtherTools(folder):
    text = model("  %a = fusion.exp %x : tensor<4xf32>\n"
                 f"  %0 = {callOp(ADD1, operands='%a')}\n"
                 "  %1 = fusion.neg %0 : tensor<4xf32>\n  %2 = fusion.mul %1, %a : tensor<4xf32>", ["%2"])
    (folder / "m.mlir").write_text(text)
    np.save(folder / "x.npy", X)
    answer = tool("fusion-interpret", folder / "m.mlir", "--input", f"x={folder}/x.npy", "--output-dir", folder / "o")
    checks.check("fusion-interpret refuses", answer.returncode == 3 and "'k'" in answer.stderr
                 and "fusion-run" in answer.stderr, "" if answer.returncode == 3 else answer.stderr)
    answer = compiled(folder, text, "--verify-fusion")
    checks.check("--verify-fusion checks the rest and says so",
                 answer.returncode == 0 and answer.stderr.count("warning: the kernel 'k' can't be evaluated") == 1,
                 f"exit {answer.returncode}\n{answer.stderr}" if answer.returncode else "")
    plugin = BIN.parent / "test/plugins/BreakGroup.so"
    if plugin.exists():
        answer = compiled(folder, text, "--verify-fusion", f"--plugin={plugin}",
                          "--run-before=codegen:func.func(test-break-group{from=fusion.mul to=fusion.max number=0})")
        checks.check("--verify-fusion finds a wrong group behind a kernel",
                     answer.returncode == 1 and "computes another value" in answer.stderr, answer.stderr[:300])
    else:
        checks.skip("--verify-fusion finds a wrong group behind a kernel", f"{plugin} was not built")
    answer = compiled(folder, text, "--explain", "--fusion-why=#0,#1")
    checks.check("--explain and --fusion-why give the rule",
                 answer.returncode == 0 and answer.stdout.count("no-emitter") >= 2, answer.stderr)
    plan = folder / "plan.json"
    answer = compiled(folder, text, f"--emit-plan={plan}")
    first = (folder / "m.fsn").read_bytes()
    again = compiled(folder, text, f"--plan={plan}", "--plan-strict")
    checks.check("a plan can be followed", answer.returncode == 0 and again.returncode == 0
                 and "kernel_call" in plan.read_text() and len(first) == len((folder / "m.fsn").read_bytes()), again.stderr)
    twice = callOp(ADD1, attributes="{side_effects} ")
    shim = buildShim(folder)
    for flags in ([], ["--no-fuse=horizontal"]):
        answer = compiled(folder, model(f"  %0 = {twice}\n  %1 = {twice}", ["%0", "%1"]), *flags)
        counts = fromInterposition(folder / "m.fsn", shim, folder) if answer.returncode == 0 else answer.stderr
        checks.check(f"two calls are two launches {' '.join(flags)}", counts == (2, 0), str(counts))


def main():
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        for part in (checkExample, checkPage, checkValues, checkCallable, checkCompilers, checkDeterminism,
                     checkKernelErrors, checkSourceFiles, checkCompilerErrors, checkSignal, checkOtherTools):
            folder = base / part.__name__
            folder.mkdir()
            part(folder)
        checkInstalled(base / "checkExample")
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Compiling stays fast, linear and shallow: the demo network in at most 5 s; a
chain of 100,000 adds, two chains of 5,000 ops that read each other in at most 20 s,
a Fibonacci DAG of 200 steps in 1 s, each no more than 1.3 times as long an op as
half of it; all under a stack of 8 MB, with the right values. (horizontal.py has
5,000 independent products.) For a GPU, ptxas among it: each module of the suite
seed2 in 1 s, a model of 100 kernels in 10 s; a chain of 400 products of unlike
shapes, whose calls have a kernel each to stand in for them, linear without ptxas.

Times are processor seconds of fusion-compile, so that a busy machine can't fail
the test; on an idle one they are about the wall-clock time.
"""

import re
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from _support import ROOT, Checks, importDemoModel, run

STACK = 8192 * 1024
LIMIT = 20
GROWTH = 1.3
# Seconds that are lost in the noise of the clock and of starting a process.
NOISE = 0.1
SHAPE, TYPE = (4, 4), "tensor<4x4xi32>"


def limitStack():
    resource.setrlimit(resource.RLIMIT_STACK, (STACK, STACK))


def timedCompile(folder, model):
    """Compiles; returns (processor seconds, wall-clock seconds)."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    run("fusion-compile", f"{model}.mlir", "--target=cpu", "-o", f"{model}.fsn", cwd=folder, preexec_fn=limitStack)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used, time.monotonic() - start


def writeModel(path, body, results):
    """Inputs a and b, the body, and the results as y0, y1, ..."""
    port = TYPE + ' {fusion.name = "%s"}'
    types = ", ".join(port % f"y{i}" for i in range(len(results)))
    lines = [f"func.func @main(%a: {port % 'a'}, %b: {port % 'b'}) -> ({types}) {{", *body,
             f"  return {', '.join(results)} : {', '.join([TYPE] * len(results))}", "}", ""]
    path.write_text("\n".join(lines))


# Each graph: its ops (op, result, lhs, rhs) for a size, and the results' names.


def chain(size):
    """a + b + b + ...: the addend is an input, so nothing can be folded."""
    names = ["a", *(f"v{i}" for i in range(size))]
    return [("add", names[i + 1], names[i], "b") for i in range(size)], [names[-1]]


def ladder(size):
    """Two chains; each step of one reads the other."""
    a, b, ops = "a", "b", []
    for i in range(size):
        ops += [("add" if i % 3 else "mul", f"c{i}", a, b), ("sub" if i % 2 else "max", f"d{i}", b, a)]
        a, b = f"c{i}", f"d{i}"
    return ops, [a, b]


def fibonacci(size):
    """Each step reads the last two values twice: inlining would double it."""
    names, ops = ["a", "b"], []
    for i in range(size):
        ops += [("add", f"c{i}", names[-1], names[-2]), ("mul", f"d{i}", names[-1], names[-2])]
        names += [f"c{i}", f"d{i}"]
    return ops, names[-2:]


NUMPY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum}


def checkGraph(checks, folder, name, build, size, limit=LIMIT):
    seconds = []
    for each in (size // 2, size):
        ops, results = build(each)
        body = [f"  %{result} = fusion.{op} %{lhs}, %{rhs} : {TYPE}" for op, result, lhs, rhs in ops]
        writeModel(folder / f"{name}.mlir", body, [f"%{result}" for result in results])
        # The better of two, against what else the machine does.
        seconds.append(min(timedCompile(folder, name)[0] for _ in range(2)))
    half, full = seconds
    checks.check(f"{name} of {size} compiles in {limit} s", full <= limit, f"{full:.2f} s")
    checks.check(f"{name} of {size} is linear", full <= 2 * GROWTH * half + NOISE, f"{half:.2f} s for half of it")
    rng = np.random.default_rng(size)
    values = {port: rng.integers(-9, 10, SHAPE).astype(np.int32) for port in "ab"}
    for port, value in values.items():
        np.save(folder / f"{port}.npy", value)
    with np.errstate(over="ignore"):
        for op, result, lhs, rhs in ops:
            values[result] = NUMPY[op](values[lhs], values[rhs])
    run("fusion-run", f"{name}.fsn", "--input=a=a.npy", "--input=b=b.npy", "--output-dir=out", cwd=folder,
        preexec_fn=limitStack)
    right = all(np.array_equal(np.load(folder / f"out/y{i}.npy"), values[result]) for i, result in enumerate(results))
    checks.check(f"{name} of {size} is right", right)


def kernels(count):
    """As many different kernels: norms, sums of columns and chains, each of its own width, each reading x."""
    lines, results, inputs = [], [], []
    for i in range(count):
        kind = f"tensor<{64 + i}x{128 + 8 * i}x{'bf16' if i % 2 else 'f32'}>"
        inputs.append(f'%x{i}: {kind} {{fusion.name = "x{i}"}}')
        if i % 4 == 0:
            lines.append(f"  %y{i} = fusion.softmax %x{i} axis = 1 : {kind}")
        elif i % 4 == 1:
            lines += [f"  %a{i} = fusion.gelu tanh, %x{i} : {kind}", f"  %y{i} = fusion.softmax %a{i} axis = 1 : {kind}"]
        elif i % 4 == 2:
            lines += [f"  %a{i} = fusion.exp %x{i} : {kind}", f"  %y{i} = fusion.mul %a{i}, %x{i} : {kind}"]
        else:
            lines += [f"  %a{i} = fusion.tanh %x{i} : {kind}", f"  %b{i} = fusion.add %a{i}, %x{i} : {kind}",
                      f"  %y{i} = fusion.silu %b{i} : {kind}"]
        results.append((f"%y{i}", kind))
    types = ", ".join(f'{kind} {{fusion.name = "y{i}"}}' for i, (_, kind) in enumerate(results))
    return (f"func.func @main({', '.join(inputs)}) -> ({types}) {{\n" + "\n".join(lines)
            + f"\n  return {', '.join(y for y, _ in results)} : {', '.join(kind for _, kind in results)}\n}}\n")


def products(count):
    """A chain of products, no two of one shape."""
    sizes = [8 + 3 * i for i in range(count + 1)]
    weights = [f"%w{i}: tensor<{k}x{n}xf32>" for i, (k, n) in enumerate(zip(sizes, sizes[1:]))]
    lines = [f"func.func @main(%m0: tensor<4x{sizes[0]}xf32>, {', '.join(weights)}) -> tensor<4x{sizes[-1]}xf32> {{"]
    lines += [f"  %m{i + 1} = fusion.matmul %m{i}, %w{i} : tensor<4x{k}xf32>, tensor<{k}x{n}xf32>"
              for i, (k, n) in enumerate(zip(sizes, sizes[1:]))]
    return "\n".join([*lines, f"  return %m{count} : tensor<4x{sizes[-1]}xf32>", "}", ""])


def checkGpu(checks, folder):
    sys.path.insert(0, str(ROOT / "python"))
    from fusion_compiler.bench import seed2

    def seconds(path, *flags):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run("fusion-compile", str(path), "--target=cuda:sm_90", *flags, "-o", "gpu.fsn", cwd=folder)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    for workload in seed2.workloads():
        path = workload.write(str(folder))
        used = min(seconds(path) for _ in range(2))
        checks.check(f"{workload.name} compiles in 1 s", used <= 1, f"{used:.2f} s")
    (folder / "hundred.mlir").write_text(kernels(100))
    used = seconds(folder / "hundred.mlir", "--no-fuse=horizontal")
    said = run("fusion-run", "--inspect", "gpu.fsn", cwd=folder).stdout
    checks.check("100 kernels", len(re.findall(r"^kernel ", said, re.M)) == 100)
    checks.check("100 kernels compile in 10 s", used <= 10, f"{used:.2f} s")
    used = []
    for count in (200, 400):
        (folder / "products.mlir").write_text(products(count))
        used.append(min(seconds(folder / "products.mlir", "--ptxas=off") for _ in range(2)))
    half, full = used
    checks.check("400 unlike products are linear", full <= 2 * GROWTH * half + NOISE, f"{half:.2f} s, {full:.2f} s")
    if "none: PTX only" in said:
        checks.skip("the time of ptxas", "no ptxas: run ./dev setup, or set CUDA_HOME")


def main():
    checks = Checks()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        importDemoModel(folder)
        used, wall = timedCompile(folder, "cls")
        checks.check("demo network compiles in 5 s", used <= 5, f"{used:.1f} s ({wall:.1f} s wall clock)")
        checkGraph(checks, folder, "chain", chain, 100_000)
        checkGraph(checks, folder, "ladder", ladder, 5_000)
        checkGraph(checks, folder, "fibonacci", fibonacci, 200, limit=1)
        checkGpu(checks, folder)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# ===- huge.py - More than 2^31 elements -----------------------------------=== #
#
# Positions that 32 bits can't hold. No file holds such data: inputs follow from
# the position by a rule, and so do the results, in pieces, by PyTorch on the GPU.
#
# ===----------------------------------------------------------------------=== #
"""`huge.py make FOLDER` compiles (no GPU needed), `huge.py run FOLDER` checks."""

import argparse
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

N = 2**31 + 1003
ROWS, WIDTH = 2**21 + 1, 1031  # 2162163 more than 2^31
SIDES = 46349, 46351
LONG = 2**30 + 7
PIECE = 2**27


def value(position, seed=0):
    """The element at a flat position: -60..60, so that a sum of two fits i8."""
    return (position * 7919 + seed) % 121 - 60


class Huge:
    """`results` are (type, function of flat positions giving what is expected,
    or of a range of rows)."""

    def __init__(self, name, body, inputs, results, rows=None):
        self.name, self.body, self.inputs, self.results, self.rows = name, body, inputs, results, rows

    def text(self):
        arguments = ", ".join(f'%x{i}: tensor<{kind}> {{fusion.name = "x{i}"}}' for i, (kind, _) in enumerate(self.inputs))
        results = ", ".join(f'tensor<{kind}> {{fusion.name = "y{i}"}}' for i, (kind, _) in enumerate(self.results))
        values = ", ".join(f"%y{i}" for i in range(len(self.results)))
        types = ", ".join(f"tensor<{kind}>" for kind, _ in self.results)
        return f"func.func @main({arguments}) -> ({results}) {{\n{self.body}\n  return {values} : {types}\n}}\n"


def models():
    """All of them; the functions take and give int64 tensors."""
    def reversedRow(i):
        return (ROWS - 1) - i

    def ofRow(function):
        """A reduction of each row of the matrix, a few rows at a time."""
        def expect(i):
            torch = sys.modules["torch"]
            j = torch.arange(WIDTH, device=i.device)
            return function(value(i[:, None] * WIDTH + j))
        return expect

    def ofColumn(i):
        torch = sys.modules["torch"]
        total = torch.zeros_like(i)
        for r in range(WIDTH):
            total += value(i + r * ROWS)
        return total

    m, tall = f"{ROWS}x{WIDTH}x", f"{WIDTH}x{ROWS}x"
    a, b = SIDES
    half, rest = 2**30 + 3, 2**30 + 9
    third = 2**31 // 3 + 5
    yield Huge("add", f"  %y0 = fusion.add %x0, %x1 : tensor<{N}xi8>", [(f"{N}xi8", 0), (f"{N}xi8", 5)],
               [(f"{N}xi8", lambda i: value(i) + value(i, 5))])
    yield Huge("neg_f16", f"  %y0 = fusion.neg %x0 : tensor<{N}xf16>", [(f"{N}xf16", 0)], [(f"{N}xf16", lambda i: -value(i))])
    yield Huge("iota", f"  %y0 = fusion.iota axis = 0 : tensor<{N}xi32>", [], [(f"{N}xi32", lambda i: (i + 2**31) % 2**32 - 2**31)])
    yield Huge("reverse", f"  %y0 = fusion.reverse %x0 dims = [0] : tensor<{N}xi8>", [(f"{N}xi8", 0)],
               [(f"{N}xi8", lambda i: value(N - 1 - i))])
    yield Huge("slice", f"  %a = fusion.neg %x0 : tensor<{N}xi8>\n  %y0 = fusion.slice %a starts = [{2**31 - 77}] limits = [{N}] strides = [3] : "
               f"tensor<{N}xi8>", [(f"{N}xi8", 0)], [(f"{(N - 2**31 + 77 + 2) // 3}xi8", lambda i: -value(2**31 - 77 + 3 * i))])
    yield Huge("pad", f"  %c = fusion.constant dense<9> : tensor<i8>\n  %y0 = fusion.pad %x0, %c low = [5] high = [1] : tensor<{N}xi8>, tensor<i8>",
               [(f"{N}xi8", 0)],
               [(f"{N + 6}xi8", lambda i: value(i - 5).where((i >= 5) & (i < N + 5), sys.modules["torch"].full_like(i, 9)))])
    yield Huge("concat", f"  %y0 = fusion.concat %x0, %x1 axis = 0 : tensor<{half}xi8>, tensor<{rest}xi8>",
               [(f"{half}xi8", 0), (f"{rest}xi8", 3)],
               [(f"{half + rest}xi8", lambda i: value(i).where(i < half, value(i - half, 3)))])
    yield Huge("broadcast", f"  %y0 = fusion.broadcast %x0 dims = [0] : tensor<{ROWS}xi8> to tensor<{m}i8>", [(f"{ROWS}xi8", 0)],
               [(f"{m}i8", lambda i: value(i // WIDTH))])
    yield Huge("gather", f"  %y0 = fusion.gather %x0, %x1 axis = 0 : tensor<{m}i8>, tensor<{ROWS}xi64>",
               [(f"{m}i8", 0), (f"{ROWS}xi64", reversedRow)],
               [(f"{m}i8", lambda i: value(reversedRow(i // WIDTH) * WIDTH + i % WIDTH))])
    yield Huge("transpose", f"  %y0 = fusion.transpose %x0 permutation = [1, 0] : tensor<{a}x{b}xi8>", [(f"{a}x{b}xi8", 0)],
               [(f"{b}x{a}xi8", lambda i: value(i % a * b + i // a))])
    yield Huge("transpose_f16", f"  %n = fusion.neg %x0 : tensor<{a}x{b}xf16>\n  %y0 = fusion.transpose %n permutation = [1, 0] : tensor<{a}x{b}xf16>",
               [(f"{a}x{b}xf16", 0)], [(f"{b}x{a}xf16", lambda i: -value(i % a * b + i // a))])
    yield Huge("rows_max", f"  %y0 = fusion.reduce max, %x0 dims = [1] : tensor<{m}i8>", [(f"{m}i8", 0)],
               [(f"{ROWS}xi8", ofRow(lambda x: x.max(dim=1).values))], WIDTH)
    yield Huge("rows_sum_f16", f"  %y0 = fusion.reduce sum, %x0 dims = [1] : tensor<{m}f16>\n  %b = fusion.broadcast %y0 dims = [0] : "
               f"tensor<{ROWS}xf16> to tensor<{m}f16>\n  %y1 = fusion.max %x0, %b : tensor<{m}f16>", [(f"{m}f16", 0)],
               [(f"{ROWS}xf16", ofRow(lambda x: x.sum(dim=1)))], WIDTH)
    yield Huge("long_rows", f"  %y0 = fusion.reduce sum, %x0 dims = [1] : tensor<2x{LONG}xi32>", [(f"2x{LONG}xi32", 0)],
               [("2xi32", None)])
    yield Huge("columns", f"  %y0 = fusion.reduce sum, %x0 dims = [0] : tensor<{tall}f16>", [(f"{tall}f16", 0)],
               [(f"{ROWS}xf16", ofColumn)], WIDTH)
    yield Huge("all", f"  %y0 = fusion.reduce sum, %x0 dims = [0] : tensor<{N}xi32>", [(f"{N}xi32", 0)], [("i32", None)])
    yield Huge("scatter", f"  %i = fusion.constant dense<[[2], [0]]> : tensor<2x1xi64>\n  %y0 = fusion.scatter add, %x0, %i, %x1 : "
               f"tensor<3x{third}xi8>, tensor<2x1xi64>, tensor<2x{third}xi8>", [(f"3x{third}xi8", 0), (f"2x{third}xi8", 9)],
               [(f"3x{third}xi8", lambda i: value(i) + value(i % third + third * (i // third == 0), 9).where(
                   i // third != 1, sys.modules["torch"].zeros_like(i)))])
    yield Huge("siblings", f"  %y0 = fusion.neg %x0 : tensor<{half}xi8>\n  %y1 = fusion.neg %x1 : tensor<{rest}xi8>\n"
               f"  %y2 = fusion.neg %x2 : tensor<{third}xi8>", [(f"{half}xi8", 0), (f"{rest}xi8", 1), (f"{third}xi8", 2)],
               [(f"{half}xi8", lambda i: -value(i)), (f"{rest}xi8", lambda i: -value(i, 1)), (f"{third}xi8", lambda i: -value(i, 2))])


def make(folder, binaries):
    from make import run
    folder.mkdir(parents=True, exist_ok=True)
    for model in models():
        (folder / f"{model.name}.mlir").write_text(fixed(model))
        run(binaries, "fusion-compile", folder / f"{model.name}.mlir", "--target=cuda:sm_90", "-o", folder / f"{model.name}.fsn")
        print(f"{model.name}: {(folder / f'{model.name}.fsn').stat().st_size} bytes")


def fixed(model):
    # The second result of rows_sum_f16 forces the walk that stores all elements.
    if model.name == "rows_sum_f16":
        model.results.append((f"{ROWS}x{WIDTH}xf16", None))
    return model.text()


def check(model, folder, runtime, torch):
    """None, or what is wrong."""
    kinds = {"i8": torch.int8, "i32": torch.int32, "i64": torch.int64, "f16": torch.float16}
    fixed(model)

    def tensor(kind, seed=None):
        *sizes, dtype = kind.split("x")
        shape = [int(size) for size in sizes]
        made = torch.empty(shape, dtype=kinds[dtype], device="cuda")
        flat = made.view(-1)
        for at in range(0, flat.numel(), PIECE):
            i = torch.arange(at, min(at + PIECE, flat.numel()), device="cuda")
            part = torch.full_like(i, 99) if seed is None else seed(i) if callable(seed) else value(i, seed)
            flat[at:at + PIECE] = part.to(kinds[dtype])
        return made

    inputs = {f"x{i}": tensor(*each) for i, each in enumerate(model.inputs)}
    outputs = {f"y{i}": tensor(kind) for i, (kind, _) in enumerate(model.results)}
    torch.cuda.synchronize()
    session = runtime.load(str(folder / f"{model.name}.fsn")).session(trust="all")
    session.run(inputs, outputs)
    torch.cuda.synchronize()
    for number, (kind, expect) in enumerate(model.results):
        got = outputs[f"y{number}"]
        flat, dtype = got.view(-1), got.dtype
        if expect is None:
            problem = special(model, inputs, outputs, torch)
            if problem:
                return problem
            continue
        step = PIECE // (model.rows or 1)
        for at in range(0, flat.numel(), step):
            i = torch.arange(at, min(at + step, flat.numel()), device="cuda")
            bad = flat[at:at + step] != expect(i).to(dtype)
            if bad.any():
                first = int(bad.nonzero()[0])
                want = expect(i[first:first + 1]).to(dtype).item()
                return f"y{number}: {int(bad.sum())} of a piece differ, first [{at + first}]: {flat[at + first].item()} instead of {want}"
    return None


def special(model, inputs, outputs, torch):
    """Results that are no function of a position."""
    if model.name == "rows_sum_f16":
        x, y = inputs["x0"], outputs["y1"]
        for at in range(0, ROWS, 2**16):
            part = slice(at, at + 2**16)
            if not torch.equal(y[part], torch.maximum(x[part], outputs["y0"][part, None])):
                return f"y1: rows from {at} differ"
        return None
    total = [0, 0]
    flat = inputs["x0"].view(-1)
    length = LONG if model.name == "long_rows" else N
    for row in range(flat.numel() // length):
        for at in range(row * length, (row + 1) * length, PIECE):
            total[row] += int(flat[at:min(at + PIECE, (row + 1) * length)].sum(dtype=torch.int64))
    want = [(each + 2**31) % 2**32 - 2**31 for each in total][:flat.numel() // length]
    got = outputs["y0"].view(-1).tolist()
    return None if got == want else f"y0: {got} instead of {want}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=("make", "run"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="models whose names have this")
    options = parser.parse_args()
    if options.command == "make":
        make(options.folder, Path(os.environ.get("FUSION_BIN") or Path(__file__).resolve().parents[4] / "build/dev/bin").resolve())
        return 0
    import torch
    from check import runtime
    failures = count = 0
    start = time.monotonic()
    for model in models():
        if options.only not in model.name:
            continue
        began = time.monotonic()
        try:
            problem = check(model, options.folder, runtime(), torch)
        except Exception as error:
            problem = f"{type(error).__name__}: {str(error)[:300]}"
        torch.cuda.empty_cache()
        count += 1
        failures += problem is not None
        print(f"{'ok  ' if problem is None else 'FAIL'} {model.name} {time.monotonic() - began:.1f} s  {problem or ''}".rstrip(), flush=True)
    print(f"huge: {count} models, {failures} failures, {time.monotonic() - start:.0f} s")
    return 1 if failures or not count else 0


if __name__ == "__main__":
    sys.exit(main())

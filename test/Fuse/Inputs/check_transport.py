"""Reductions over ranks and what fusion-reduce-in-consumers makes of them, in the
evaluator: check_transport.py FOLDER RANKS... Every kind and element type, on arbitrary
bits: the results are the same, NaNs aside, whose bits nobody promises."""

import itertools
import os
import subprocess
import sys

import numpy as np

KINDS = ("sum", "mean", "min", "max", "prod")
TYPES = ("f64", "f32", "f16", "bf16", "i8", "i32", "i64")
NUMPY = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "i8": np.int8, "i32": np.int32, "i64": np.int64}
ROWS = 6  # of a rank's part


def program(ranks):
    """Each tensor is reduced; what comes of it is read by a negation. Numbers of
    bf16 come and go as f32."""
    arguments, lines, results = [], [], []
    for element in TYPES:
        carrier = "f32" if element == "bf16" else element
        rows, columns = ROWS * ranks, 4 * ranks
        whole = f"tensor<{rows}x{columns}x{element}>"
        arguments.append(f'%{element}: tensor<{rows}x{columns}x{carrier}> {{fusion.name = "{element}"}}')
        given = f"%{element}"
        if element == "bf16":
            lines.append(f"%n = fusion.cast %bf16 : tensor<{rows}x{columns}xf32> to {whole}")
            given = "%n"
        for kind in KINDS:
            forms = {"all": whole, "row": f"tensor<{rows // ranks}x{columns}x{element}>",
                     "column": f"tensor<{rows}x{columns // ranks}x{element}>"}
            for form, part in forms.items():
                name = f"%{element}{kind}{form}"
                if form == "all":
                    lines.append(f"{name} = fusion.all_reduce {kind}, {given} on @m[dp] : {whole}")
                else:
                    lines.append(f"{name} = fusion.reduce_scatter {kind}, {given} dim = {int(form == 'column')} "
                                 f"on @m[dp] : ({whole}) -> {part}")
                # Two readers, and one that sees the sign of zero.
                lines.append(f"{name}n = fusion.neg {name} : {part}")
                result, out = f"{name}n", part
                if element == "bf16":
                    out = part.replace("bf16", "f32")
                    lines.append(f"{name}w = fusion.cast {result} : {part} to {out}")
                    result = f"{name}w"
                results.append((result, out))
    return (f"fusion.mesh @m(dp = {ranks})\nfunc.func @main({', '.join(arguments)}) -> "
            f"({', '.join(t for _, t in results)}) {{\n" + "\n".join(lines) +
            f"\nreturn {', '.join(n for n, _ in results)} : {', '.join(t for _, t in results)}\n}}\n")


def values(element, shape, seed):
    """Any bits: the whole range, subnormals, infinities; every other number is small,
    so that sums meet numbers of their size."""
    random = np.random.default_rng(seed)
    kind = np.float32 if element == "bf16" else NUMPY[element]
    count = int(np.prod(shape))
    bits = np.frombuffer(random.bytes(count * np.dtype(kind).itemsize), kind).copy()
    small = random.integers(-9, 10, count).astype(kind)
    if np.dtype(kind).kind == "f":
        small *= random.random(count).astype(kind)
    bits[::2] = small[::2]
    return bits.reshape(shape)


def main(folder, counts):
    os.makedirs(folder, exist_ok=True)
    for ranks in map(int, counts):
        name = f"{folder}/r{ranks}"
        with open(name + ".mlir", "w") as file:
            file.write(program(ranks))
        subprocess.run(["fusion-opt", name + ".mlir", "--fusion-reduce-in-consumers=transport=peer", "-o", name + ".peer.mlir"], check=True)
        text = open(name + ".peer.mlir").read()
        left = text.count("all_reduce") + text.count("reduce_scatter")
        assert left == (len(TYPES) * len(KINDS) * 3 if ranks == 1 else 0), left
        arguments = []
        for rank, element in itertools.product(range(ranks), TYPES):
            shape = (ROWS * ranks, 4 * ranks)
            path = f"{name}.{element}.{rank}.npy"
            np.save(path, values(element, shape, 31 * rank + len(element) + TYPES.index(element)))
            arguments += ["--input", f"{element}@{rank}={path}"]
        for form in ("", ".peer"):
            subprocess.run(["fusion-interpret", f"{name}{form}.mlir", "--ranks", str(ranks), "--output-dir", f"{name}{form}.out", *arguments], check=True)
        for rank in range(ranks):
            files = sorted(os.listdir(f"{name}.out/rank{rank}"))
            assert len(files) == len(TYPES) * len(KINDS) * 3, files
            for file in files:
                want, got = (np.load(f"{name}{form}.out/rank{rank}/{file}") for form in ("", ".peer"))
                if want.dtype.kind == "f":
                    nan = np.isnan(want)
                    assert np.array_equal(nan, np.isnan(got)), (ranks, rank, file)
                    want, got = np.where(nan, 0, want), np.where(nan, 0, got)
                assert want.dtype == got.dtype and want.tobytes() == got.tobytes(), (ranks, rank, file)
        print(ranks, "ranks: the same bits")


main(sys.argv[1], sys.argv[2:])

"""Gathers and what fusion-narrow-gathers makes of them, in the evaluator: check_narrow.py
FOLDER RANKS... Arbitrary bits are cast: the results have the same ones."""

import os
import subprocess
import sys

import numpy as np

# From, to, and the type in which what comes of bf16 is written.
CASTS = (("f32", "bf16", "f32"), ("f32", "f16", "f16"), ("f64", "f32", "f32"), ("f64", "bf16", "f32"),
         ("i64", "i32", "i32"), ("f32", "i8", "i8"))
NUMPY = {"f64": np.float64, "f32": np.float32, "i64": np.int64}


def program(ranks):
    arguments = [f"%i: tensor<7xi64> {{fusion.name = \"i\"}}"]
    lines, results = [], []
    for source in NUMPY:
        arguments.append(f'%{source}: tensor<4x6x{source}> {{fusion.name = "{source}"}}')
    for source, target, out in CASTS:
        n, rows = f"%{source}{target}", 4 * ranks
        lines += [
            f"{n}0 = fusion.all_gather %{source} dim = 0 on @m[dp] : (tensor<4x6x{source}>) -> tensor<{rows}x6x{source}>",
            f"{n}1 = fusion.gather {n}0, %i axis = 0 : tensor<{rows}x6x{source}>, tensor<7xi64>",
            f"{n}2 = fusion.cast {n}1 : tensor<7x6x{source}> to tensor<7x6x{target}>",
            # Wide again, and gathered once more.
            f"{n}3 = fusion.cast {n}2 : tensor<7x6x{target}> to tensor<7x6x{source}>",
            f"{n}4 = fusion.all_gather {n}3 dim = 1 on @m[dp] : (tensor<7x6x{source}>) -> tensor<7x{6 * ranks}x{source}>",
        ]
        results.append((f"{n}4", f"tensor<7x{6 * ranks}x{source}>"))
    return (f"fusion.mesh @m(dp = {ranks})\nfunc.func @main({', '.join(arguments)}) -> "
            f"({', '.join(t for _, t in results)}) {{\n" + "\n".join(lines) +
            f"\nreturn {', '.join(n for n, _ in results)} : {', '.join(t for _, t in results)}\n}}\n")


def run(*words):
    subprocess.run([str(word) for word in words], check=True)


folder = sys.argv[1]
for ranks in map(int, sys.argv[2:]):
    place = os.path.join(folder, str(ranks))
    os.makedirs(place)
    plain, narrow = (os.path.join(place, name) for name in ("plain.mlir", "narrow.mlir"))
    with open(plain, "w", encoding="utf-8") as file:
        file.write(program(ranks))
    run("fusion-opt", plain, "--fusion-narrow-gathers", "-o", narrow)
    with open(narrow, encoding="utf-8") as file:
        gathers = [line for line in file if "all_gather" in line]
    # All of them: 64 bits nowhere, 32 only where that is the narrow type.
    wide = [line for line in gathers if not any(f"x{target}>) ->" in line for _, target, _ in CASTS)]
    assert len(gathers) == 2 * len(CASTS) and not wide, wide
    inputs = []
    for rank in range(ranks):
        random = np.random.default_rng(rank)
        for source, kind in NUMPY.items():
            path = os.path.join(place, f"{source}{rank}.npy")
            np.save(path, np.frombuffer(random.bytes(24 * np.dtype(kind).itemsize), kind).reshape(4, 6))
            inputs += ["--input", f"{source}@{rank}={path}"]
    path = os.path.join(place, "i.npy")
    np.save(path, np.array([0, 4 * ranks - 1, 3, 3, -5, 99, 1]))
    for name, model in (("a", plain), ("b", narrow)):
        run("fusion-interpret", model, "--ranks", ranks, "--input", f"i={path}", *inputs, "--output-dir",
            os.path.join(place, name))
    count = 0
    for rank in range(ranks):
        for file in sorted(os.listdir(os.path.join(place, "a", f"rank{rank}"))):
            a, b = (np.load(os.path.join(place, side, f"rank{rank}", file)) for side in "ab")
            same = np.array_equal(a, b, equal_nan=a.dtype.kind == "f") and np.array_equal(np.signbit(a), np.signbit(b))
            assert same, (rank, file)
            count += 1
    print(f"{ranks} ranks: the same bits of {count} tensors")

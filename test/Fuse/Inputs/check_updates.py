"""The gradient of an embedding on ranks, whole and by rows, against numpy, before and
behind fusion-gather-updates: check_updates.py FOLDER. Updates are small integers, so
sums are exact; some rows are named twice, by two ranks, or by none, and some indices
are outside."""

import itertools
import os
import subprocess
import sys

import numpy as np

ROWS, WIDTH, UPDATES = 60000, 4, 5


def program(ranks):
    whole, part = f"tensor<{ROWS}x{WIDTH}xf32>", f"tensor<{ROWS // ranks}x{WIDTH}xf32>"
    index, update = f"tensor<{UPDATES}x1xi64>", f"tensor<{UPDATES}x{WIDTH}xf32>"
    return f"""fusion.mesh @m(dp = {ranks})
func.func @main(%i: {index} {{fusion.name = "i"}}, %u: tensor<{UPDATES}x{WIDTH}xf16> {{fusion.name = "u"}}) -> ({whole}, {part}) {{
  %zeros = fusion.constant dense<0.0> : {whole}
  %w = fusion.cast %u : tensor<{UPDATES}x{WIDTH}xf16> to {update}
  %a = fusion.scatter add, %zeros, %i, %w : {whole}, {index}, {update}
  %r = fusion.all_reduce sum, %a on @m[dp] : {whole}
  %b = fusion.scatter add, %zeros, %i, %w : {whole}, {index}, {update}
  %s = fusion.reduce_scatter sum, %b dim = 0 on @m[dp] : ({whole}) -> {part}
  return %r, %s : {whole}, {part}
}}
"""


def main(folder):
    os.makedirs(folder, exist_ok=True)
    for ranks in (2, 3, 4):
        name = f"{folder}/{ranks}"
        with open(name + ".mlir", "w") as file:
            file.write(program(ranks))
        subprocess.run(["fusion-opt", name + ".mlir", "--fusion-gather-updates", "-o", name + ".after.mlir"], check=True)
        text = open(name + ".after.mlir").read()
        # The updates of both; their indices are the same.
        assert text.count("all_gather") == 3 and "all_reduce" not in text and "reduce_scatter" not in text, text
        expected = np.zeros((ROWS, WIDTH), np.float32)
        arguments = []
        random = np.random.default_rng(ranks)
        for rank in range(ranks):
            # Row 7 by all, the first and last row, another rank's, and outside.
            i = np.array([[7], [7], [(rank * 20011) % ROWS], [ROWS - 1 - rank], [(-1, ROWS, ROWS + 5)[rank % 3]]])
            u = random.integers(-8, 9, (UPDATES, WIDTH)).astype(np.float16)
            np.save(f"{name}.i{rank}.npy", i)
            np.save(f"{name}.u{rank}.npy", u)
            arguments += ["--input", f"i@{rank}={name}.i{rank}.npy", "--input", f"u@{rank}={name}.u{rank}.npy"]
            for (row,), update in zip(i, u.astype(np.float32)):
                if 0 <= row < ROWS:
                    expected[row] += update
        for form, rank in itertools.product(("", ".after"), range(ranks)):
            if rank == 0:
                subprocess.run(["fusion-interpret", f"{name}{form}.mlir", "--ranks", str(ranks), "--output-dir",
                                f"{name}{form}.out", *arguments], check=True)
            whole, part = (np.load(f"{name}{form}.out/rank{rank}/out{k}.npy") for k in (0, 1))
            each = ROWS // ranks
            assert np.array_equal(whole, expected), (ranks, rank, form)
            assert np.array_equal(part, expected[rank * each:(rank + 1) * each]), (ranks, rank, form)
    print("all ranks agree")


main(sys.argv[1])

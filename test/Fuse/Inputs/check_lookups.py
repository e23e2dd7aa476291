"""Lookups in a table that ranks hold rows of, against numpy, before and behind
fusion-exchange-lookups, and as a module on ranks: check_lookups.py FOLDER. Rows are moved
and not computed, so bits are compared; -0.0 and NaN are among them. Some rows are named
twice, by two ranks, or by none, and some indices are outside. The number of rows is
divided by no number of ranks, and what fills the last part is a NaN of its own."""

import os
import subprocess
import sys

import numpy as np

ROWS, WIDTH, LOOKUPS = 60001, 4, 7


def program(ranks, integer):
    part = -(-ROWS // ranks)
    whole, own = f"tensor<{part * ranks}x{WIDTH}xf32>", f"tensor<{part}x{WIDTH}xf32>"
    table, index = f"tensor<{ROWS}x{WIDTH}xf32>", f"tensor<{LOOKUPS}x{integer}>"
    return f"""fusion.mesh @m(dp = {ranks})
func.func @main(%t: {own} {{fusion.name = "t"}}, %i: {index} {{fusion.name = "i"}}) -> (tensor<{LOOKUPS}x{WIDTH}xf32> {{fusion.name = "y"}}) {{
  %w = fusion.all_gather %t dim = 0 on @m[dp] : ({own}) -> {whole}
  %s = fusion.slice %w starts = [0, 0] limits = [{ROWS}, {WIDTH}] strides = [1, 1] : {whole}
  %y = fusion.gather %s, %i axis = 0 : {table}, {index}
  return %y : tensor<{LOOKUPS}x{WIDTH}xf32>
}}
"""


def bits(array):
    return np.ascontiguousarray(array, np.float32).view(np.uint32)


def main(folder):
    os.makedirs(folder, exist_ok=True)
    table = np.random.default_rng(0).standard_normal((ROWS, WIDTH)).astype(np.float32)
    table[7] = [-0.0, np.nan, np.inf, 0.0]
    for ranks, integer in ((2, "i64"), (3, "i32"), (4, "i64")):
        name = f"{folder}/{ranks}"
        with open(name + ".mlir", "w") as file:
            file.write(program(ranks, integer))
        subprocess.run(["fusion-opt", name + ".mlir", "--fusion-exchange-lookups", "-o", name + ".after.mlir"], check=True)
        text = open(name + ".after.mlir").read()
        assert text.count("all_gather") == 1 and text.count("all_to_all") == 1, text
        part = -(-ROWS // ranks)
        padded = np.full((part * ranks, WIDTH), np.nan, np.float32)
        padded[:ROWS] = table
        arguments, asked = [], []
        for rank in range(ranks):
            # Row 7 by all, twice; the first and last row; another rank's; outside, far outside.
            least, most = np.iinfo(integer.replace("i", "int")).min, np.iinfo(integer.replace("i", "int")).max
            i = np.array([7, 7, (rank * 20011) % ROWS, ROWS - 1 - rank, (-1, ROWS, ROWS + 5, -part)[rank],
                          (least, most, least + 1, most)[rank], part * ((rank + 1) % ranks)])
            asked.append(i)
            np.save(f"{name}.i{rank}.npy", i.astype(integer.replace("i", "int")))
            np.save(f"{name}.t{rank}.npy", padded[rank * part:(rank + 1) * part])
            arguments += ["--input", f"i@{rank}={name}.i{rank}.npy", "--input", f"t@{rank}={name}.t{rank}.npy"]
        for form in ("", ".after"):
            subprocess.run(["fusion-interpret", f"{name}{form}.mlir", "--ranks", str(ranks), "--output-dir",
                            f"{name}{form}.out", *arguments], check=True)
        # The compiler's own decision, on the CPU.
        said = subprocess.run(["fusion-compile", name + ".mlir", "--explain", "-o", name + ".fsn"], check=True,
                              capture_output=True, text=True)
        assert "exchange-lookups" in said.stdout + said.stderr, said.stderr
        subprocess.run(["fusion-run", name + ".fsn", "--ranks", str(ranks), "--output-dir", f"{name}.run.out",
                        *arguments], check=True, stdout=subprocess.DEVNULL)
        for form in ("", ".after", ".run"):
            for rank, i in enumerate(asked):
                y = np.load(f"{name}{form}.out/rank{rank}/y.npy")
                expected = table[np.clip(i, 0, ROWS - 1)]
                assert np.array_equal(bits(y), bits(expected)), (ranks, form, rank, y, expected)
    print("all ranks agree")


main(sys.argv[1])

#!/usr/bin/env python3
# ===- bench-projections.py - One product or three ------------------------=== #
#
# Query, key and value of one value, transposed to heads: as three products and as
# one whose slices the transposes read, both written by hand, so that no decision
# of the compiler stands between. The two take turns; what counts is the median of
# the ratios of neighbours.
#
# ===----------------------------------------------------------------------=== #
"""Times merged projections: `bench-projections.py [--rounds N] [--rows N...]`."""

import argparse
import json
import os
import random
import statistics
import struct
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(os.environ.get("FUSION_BIN") or ROOT / "build/dev/bin").resolve()
HEAD = 64


def writeWeights(path, sizes):
    """A safetensors file of f32 tensors with elements -1, 0 and 1."""
    header, data = {}, b""
    for name, shape in sizes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        raw = struct.pack(f"<{count}f", *random.choices((-1.0, 0.0, 1.0), k=count))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def tensor(*shape):
    return f"tensor<{'x'.join(map(str, shape))}xf32>"


def product(name, rows, inner, width):
    """Parameters, and `%name`: x times weights plus bias."""
    W, B, Y = tensor(inner, width), tensor(width), tensor(rows, width)
    return {f"w{name}": [inner, width], f"b{name}": [width]}, f"""
  %w{name} = fusion.get_parameter @w{name} : {W}
  %b{name} = fusion.get_parameter @b{name} : {B}
  %{name}0 = fusion.matmul %x, %w{name} : {tensor(rows, inner)}, {W}
  %{name}1 = fusion.broadcast %b{name} dims = [1] : {B} to {Y}
  %{name} = fusion.add %{name}0, %{name}1 : {Y}"""


def write(folder, label, rows, inner, widths):
    total, sizes, body, results = sum(widths), {}, "", []
    if label == "merged":
        sizes, body = product("y", rows, inner, total)
    for i, width in enumerate(widths):
        begin = sum(widths[:i])
        if label == "merged":
            body += f"\n  %p{i} = fusion.slice %y starts = [0, {begin}] limits = [{rows}, {begin + width}] strides = [1, 1] : {tensor(rows, total)}"
        else:
            more, text = product(f"p{i}", rows, inner, width)
            sizes.update(more)
            body += text
        body += f"""
  %r{i} = fusion.reshape %p{i} : {tensor(rows, width)} to {tensor(rows, width // HEAD, HEAD)}
  %t{i} = fusion.transpose %r{i} permutation = [1, 0, 2] : {tensor(rows, width // HEAD, HEAD)}"""
        results.append(tensor(width // HEAD, rows, HEAD))
    writeWeights(folder / f"{label}.safetensors", sizes)
    parameters = "".join(f'fusion.parameter @{n} const "{label}.safetensors" key "{n}" : {tensor(*s)}\n' for n, s in sizes.items())
    values = ", ".join(f"%t{i}" for i in range(len(widths)))
    (folder / f"{label}.mlir").write_text(
        f"{parameters}func.func @main(%x: {tensor(rows, inner)}) -> ({', '.join(results)}) {{{body}\n  return {values} : {', '.join(results)}\n}}\n")
    subprocess.run([BIN / "fusion-compile", folder / f"{label}.mlir", "--no-fuse=projections", "-o", folder / f"{label}.fsn"], check=True)


def measure(module, runs):
    answer = subprocess.run([BIN / "fusion-run", module, "--random-inputs", "1", "--threads", "1", "--bench", str(runs), "--json"],
                            check=True, capture_output=True, text=True)
    return json.loads(answer.stdout)["bench"]["min_us"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--rows", type=int, nargs="*", default=[1, 16, 128, 512, 2048])
    options = parser.parse_args()
    for inner, widths in ((768, (768, 768, 768)), (2048, (2048, 256, 256))):
        for rows in options.rows:
            runs = max(2, min(300, int(3e9 / (2 * rows * inner * sum(widths)))))
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                for label in ("apart", "merged"):
                    write(folder, label, rows, inner, widths)
                times = [[measure(folder / f"{label}.fsn", runs) for label in ("apart", "merged")] for _ in range(options.rounds)]
            ratio = statistics.median(merged / apart for apart, merged in times)
            apart, merged = (min(column) for column in zip(*times))
            print(f"{rows} x {inner} to {widths}: apart {apart:.0f} us, merged {merged:.0f} us (least), merged / apart {ratio:.3f} (median)", flush=True)


if __name__ == "__main__":
    main()

"""Clips gradients on ranks, in buckets and fused, and compares every rank's bits with
numpy: check_clip.py FOLDER. The norm is summed in f64, of the last tensor in two parts, as
on a GPU; a step whose norm is no finite number is skipped. Gradients are small integers or powers of ten, so that sums of
squares round nowhere that matters."""

import itertools
import os
import re
import subprocess
import sys

import numpy as np

SHAPES = [(4, 3), (5,), (8, 4), (1,), (7, 2), (96, 3)]
LIMIT = 2.0


def step(ranks, sharded):
    """A step that reduces each gradient over the ranks, clips, and subtracts. With
    `sharded` the first dimension is padded, scattered, updated and gathered."""
    lines, arguments, results = [], [], []
    total = None
    parts = []
    for i, shape in enumerate(SHAPES):
        dims = "x".join(map(str, shape))
        arguments += [f'%g{i}: tensor<{dims}xf32> {{fusion.name = "g{i}"}}', f'%p{i}: tensor<{dims}xf32> {{fusion.name = "p{i}"}}']
        rows = -(-shape[0] // ranks) * ranks
        rest = "".join(f"x{size}" for size in shape[1:])
        full, part = f"tensor<{rows}{rest}xf32>", f"tensor<{rows // ranks}{rest}xf32>"
        if sharded:
            lines += [f"%zero{i} = fusion.constant dense<0.0> : tensor<f32>"]
            zeros, high = [0] * len(shape), [rows - shape[0]] + [0] * (len(shape) - 1)
            lines += [f"%f{i} = fusion.pad %g{i}, %zero{i} low = {zeros} high = {high} : tensor<{dims}xf32>, tensor<f32>",
                      f"%r{i} = fusion.reduce_scatter sum, %f{i} dim = 0 on @m[dp] : ({full}) -> {part}"]
        else:
            part = f"tensor<{dims}xf32>"
            lines += [f"%r{i} = fusion.all_reduce sum, %g{i} on @m[dp] : {part}"]
        parts.append((part, full, rows))
    for i, (part, _, _) in enumerate(parts):
        wide = part.replace("f32", "f64")
        rank = part.count("x")
        lines += [f"%w{i} = fusion.cast %r{i} : {part} to {wide}", f"%q{i} = fusion.mul %w{i}, %w{i} : {wide}",
                  f"%s{i} = fusion.reduce sum, %q{i} dims = {list(range(rank))} : {wide}"]
        term = f"%s{i}"
        if sharded:
            lines += [f"%a{i} = fusion.all_reduce sum, %s{i} on @m[dp] : tensor<f64>"]
            term = f"%a{i}"
        if total:
            lines += [f"%t{i} = fusion.add {total}, {term} : tensor<f64>"]
            term = f"%t{i}"
        total = term
    lines += [f"%norm = fusion.sqrt {total} : tensor<f64>",
              "%inf = fusion.constant dense<0x7FF0000000000000> : tensor<f64>",
              "%ok = fusion.compare lt, %norm, %inf : tensor<f64>",
              f"%limit = fusion.constant dense<{LIMIT}> : tensor<f64>",
              "%one = fusion.constant dense<1.0> : tensor<f64>",
              "%above = fusion.compare gt, %norm, %limit : tensor<f64>",
              "%ratio = fusion.div %limit, %norm : tensor<f64>",
              "%wide = fusion.select %above, %ratio, %one : tensor<i1>, tensor<f64>",
              "%factor = fusion.cast %wide : tensor<f64> to tensor<f32>"]
    for i, shape in enumerate(SHAPES):
        part, full, rows = parts[i]
        dims = "x".join(map(str, shape))
        whole = f"tensor<{dims}xf32>"
        clipped = f"%c{i}"
        lines += [f"%b{i} = fusion.broadcast %factor dims = [] : tensor<f32> to {part}",
                  f"%c{i} = fusion.mul %r{i}, %b{i} : {part}"]
        if sharded:
            starts, strides = [0] * len(shape), [1] * len(shape)
            lines += [f"%n{i} = fusion.neg %c{i} : {part}",
                      f"%h{i} = fusion.all_gather %n{i} dim = 0 on @m[dp] : ({part}) -> {full}",
                      f"%l{i} = fusion.slice %h{i} starts = {starts} limits = {list(shape)} strides = {strides} : {full}",
                      f"%u{i} = fusion.add %p{i}, %l{i} : {whole}"]
        else:
            lines += [f"%u{i} = fusion.sub %p{i}, {clipped} : {whole}"]
        mask = whole.replace("f32", "i1")
        lines += [f"%o{i} = fusion.broadcast %ok dims = [] : tensor<i1> to {mask}",
                  f"%y{i} = fusion.select %o{i}, %u{i}, %p{i} : {mask}, {whole}"]
        results.append((f"%y{i}", whole))
    results += [("%norm", "tensor<f64>"), ("%ok", "tensor<i1>")]
    return (f"fusion.mesh @m(dp = {ranks})\nfunc.func @main({', '.join(arguments)}) -> ({', '.join(t for _, t in results)}) {{\n"
            + "\n".join("  " + line for line in lines)
            + f"\n  return {', '.join(n for n, _ in results)} : {', '.join(t for _, t in results)}\n}}\n")


def gradients(kind, ranks):
    """By rank, by tensor."""
    random = np.random.default_rng(len(kind) + ranks)
    values = [[random.integers(-4, 5, shape).astype(np.float32) for shape in SHAPES] for _ in range(ranks)]
    if kind == "zero":
        values = [[0 * g for g in own] for own in values]
    elif kind == "large":
        values = [[np.full(g.shape, 1e20 if rank == 0 else 0, np.float32) for g in own] for rank, own in enumerate(values)]
        # Few enough that their sum is as exact in any order.
        for own in values:
            own[-1][1:] = 0
    elif kind == "inf":
        values[-1][2][3, 1] = np.inf
    elif kind == "nan":
        values[0][1][4] = np.nan
    return values


def main(folder):
    os.makedirs(folder, exist_ok=True)
    parameters = [np.full(shape, 3, np.float32) for shape in SHAPES]
    for ranks, sharded in itertools.product((2, 3, 4), (False, True)):
        name = f"{folder}/step{ranks}{'s' if sharded else 'r'}"
        with open(name + ".mlir", "w") as file:
            file.write(step(ranks, sharded))
        passes = ["--fusion-bucket-collectives=first-bytes=64 bucket-bytes=512 tail=0", "--fusion-fuse-clip",
                  "--fusion-split-reductions=device=h200"]
        subprocess.run(["fusion-opt", name + ".mlir", *passes, "-o", name + ".fused.mlir"], check=True)
        fused = open(name + ".fused.mlir").read()
        assert len(re.findall("concat.*tensor<1x2xf64>", fused)) == 1, fused
        # The norm goes over the ranks once, as one number, or not at all.
        assert fused.count("all_reduce") - fused.count("fusion.bucket") * (not sharded) == sharded, fused
        for kind in ("some", "zero", "large", "inf", "nan"):
            values = gradients(kind, ranks)
            arguments = []
            for i in range(len(SHAPES)):
                np.save(f"{name}.p{i}.npy", parameters[i])
                arguments += ["--input", f"p{i}={name}.p{i}.npy"]
                for rank in range(ranks):
                    np.save(f"{name}.g{i}.{rank}.npy", values[rank][i])
                    arguments += ["--input", f"g{i}@{rank}={name}.g{i}.{rank}.npy"]
            subprocess.run(["fusion-interpret", name + ".fused.mlir", "--ranks", str(ranks), "--output-dir", name + ".out", *arguments], check=True)
            with np.errstate(all="ignore"):
                sums = [sum(values[rank][i].astype(np.float64) for rank in range(ranks)).astype(np.float32) for i in range(len(SHAPES))]
                norm = np.sqrt(np.float64(sum((g.astype(np.float64) ** 2).sum() for g in sums)))
                ok = bool(np.isfinite(norm))
                assert ok == (kind not in ("inf", "nan"))
                factor = np.float32(LIMIT / norm if norm > LIMIT else 1.0)
                want = [p - g * factor if ok else p for p, g in zip(parameters, sums)]
            for rank in range(ranks):
                out = [np.load(f"{name}.out/rank{rank}/out{i}.npy") for i in range(len(SHAPES) + 2)]
                assert bool(out[-1]) == ok, (kind, rank)
                if ok:
                    assert abs(out[-2] - norm) <= 4e-16 * norm, (kind, rank, out[-2], norm)
                for i, (got, expected) in enumerate(zip(out, want)):
                    assert got.tobytes() == expected.astype(np.float32).tobytes(), (kind, ranks, sharded, rank, i, got, expected)
    print("all ranks agree")


main(sys.argv[1])

#!/usr/bin/env python3
# ===- merge_projections.py - Merged projections compute the same ---------=== #
#
# Attention from projections of one value, compiled with and without the merge:
# fewer library calls, no more kernels, and the same bits, on integers (where
# numpy has the exact answer) and on random floats (where only the order of each
# sum decides). Also the local programs of two ranks under tensor parallelism.
#
# ===----------------------------------------------------------------------=== #
"""Checks fusion-merge-projections end to end; prints one line a check."""

import re
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "Inputs"), str(HERE / "Inputs/reported")]
from harness import BIN, F32, RNG, Case, constant, np, program, softmax, typeOf  # noqa: E402
from launch_counts import buildShim, fromInterposition, fromNullBackend  # noqa: E402

failed = []
APART = "--no-fuse=projections"


def check(name, condition, detail=""):
    print(f"{'ok  ' if condition else 'FAIL'} {name}  {detail}".rstrip(), flush=True)
    if not condition:
        failed.append(name)


def sameBits(a, b):
    return a.shape == b.shape and bool(((a.view(np.uint32) == b.view(np.uint32)) | (np.isnan(a) & np.isnan(b))).all())


def project(name, x, shape, w, bias=None):
    """`%name = x * w + bias`, the weights as constants."""
    rows, columns = shape[0], w.shape[1]
    T = f"tensor<{rows}x{columns}xf32>"
    text = constant(f"w_{name}", w) + f"%{name}_0 = fusion.matmul {x}, %w_{name} : tensor<{rows}x{shape[1]}xf32>, {typeOf(w)}\n"
    if bias is None:
        return text.replace(f"%{name}_0", f"%{name}")
    return text + constant(f"b_{name}", bias) + f"""%{name}_1 = fusion.broadcast %b_{name} dims = [1] : {typeOf(bias)} to {T}
      %{name} = fusion.add %{name}_0, %{name}_1 : {T}
      """


def heads(name, rows, count, depth):
    return f"""%{name}_r = fusion.reshape %{name} : tensor<{rows}x{count * depth}xf32> to tensor<{rows}x{count}x{depth}xf32>
      %{name}_h = fusion.transpose %{name}_r permutation = [1, 0, 2] : tensor<{rows}x{count}x{depth}xf32>
      """


def makeWeights(generate, inner, widths, biases):
    return [(generate((inner, n)), generate((n,)) if with_ else None) for n, with_ in zip(widths, biases)]


def run(t, text, inputs, *flags):
    # Without horizontal fusion, which makes one call of products side by side too.
    module = t.compile(t.write(text), "--no-fuse=horizontal", *flags)[0]
    return t.execute(module, inputs), module


def attention(t, shim, name, rows, inner, groups, depth, biases, generate):
    """softmax(q k') v; `groups` are the heads of the query, and of key and
    value. Two products are left beside the projections."""
    queryHeads, keyHeads = groups
    x = generate((rows, inner))
    weights = makeWeights(generate, inner, (queryHeads * depth, keyHeads * depth, keyHeads * depth), biases)
    body = "".join(project(n, "%x", x.shape, w, b) for n, (w, b) in zip("qkv", weights))
    body += heads("q", rows, queryHeads, depth) + heads("k", rows, keyHeads, depth) + heads("v", rows, keyHeads, depth)
    S = f"tensor<{keyHeads}x{queryHeads // keyHeads * rows}x{rows}xf32>"
    Q, K = f"tensor<{keyHeads}x{queryHeads // keyHeads * rows}x{depth}xf32>", f"tensor<{keyHeads}x{rows}x{depth}xf32>"
    body += f"""%q_g = fusion.reshape %q_h : tensor<{queryHeads}x{rows}x{depth}xf32> to {Q}
      %s = fusion.matmul %q_g, %k_h {{transpose_rhs}} : {Q}, {K}
      %p = fusion.softmax %s axis = 2 : {S}
      %y = fusion.matmul %p, %v_h : {S}, {K}
      """
    text = program({"x": x}, body, {"y": ("%y", Q)})
    (merged, module), (apart, moduleApart) = run(t, text, {"x": x}), run(t, text, {"x": x}, APART)
    check(f"{name}: the same bits", sameBits(merged["y"], apart["y"]))
    x64 = x.astype(np.float64)
    q, k, v = (x64 @ w + (0 if b is None else b) for w, b in weights)
    q = q.reshape(rows, queryHeads, depth).transpose(1, 0, 2).reshape(keyHeads, -1, depth)
    k, v = (a.reshape(rows, keyHeads, depth).transpose(1, 0, 2) for a in (k, v))
    want = softmax(q @ k.transpose(0, 2, 1), 2) @ v
    error = np.abs(merged["y"] - want).max() / max(1, np.abs(want).max())
    check(f"{name}: numpy's values", error < 1e-4, f"largest error {error:.1e}")
    counts = {}
    for label, file in (("merged", module), ("apart", moduleApart)):
        null, seen = fromNullBackend(file), fromInterposition(file, shim, t.folder)
        check(f"{name}: both ways of counting agree, {label}", null == seen, f"(kernels, library calls) {null} {seen}")
        counts[label] = seen
    check(f"{name}: five library calls become three, and no kernel is added",
          counts["apart"][1] == 5 and counts["merged"][1] == 3 and counts["merged"][0] <= counts["apart"][0])


def bitsOnFloats(t):
    """Products side by side sum in the order that they have alone."""
    g = RNG(11)
    for rows, inner, widths in ((1, 64, (64, 64, 64)), (1, 5, (3, 2, 1)), (2, 1000, (1, 1, 1)), (7, 33, (5, 5, 5)), (16, 96, (96, 96)),
                                (5, 512, (512, 64, 64)), (40, 120, (120, 360)), (130, 100, (13, 7, 33))):
        x = g.normal(size=(rows, inner)).astype(F32)
        weights = [g.normal(size=(inner, n)).astype(F32) for n in widths]
        body, outputs = "", {}
        for i, w in enumerate(weights):
            body += project(f"y{i}", "%x", x.shape, w) + f"%t{i} = fusion.transpose %y{i} permutation = [1, 0] : tensor<{rows}x{widths[i]}xf32>\n"
            outputs[f"t{i}"] = (f"%t{i}", f"tensor<{widths[i]}x{rows}xf32>")
        text = program({"x": x}, body, outputs)
        ir = t.write(text)
        merged = t.good([BIN / "fusion-opt", ir, "--fusion-merge-projections"])
        (a, _), (b, _) = run(t, text, {"x": x}), run(t, text, {"x": x}, APART)
        check(f"floats {rows}x{inner} to {widths}: merged, the same bits",
              merged.count("fusion.matmul") == 1 and all(sameBits(a[n], b[n]) for n in outputs))
    for channels, outs in ((8, (8, 8)), (24, (16, 3)), (64, (64, 96))):
        x = g.normal(size=(2, 7, 7, channels)).astype(F32)
        body, outputs = "", {}
        for i, n in enumerate(outs):
            w = g.normal(size=(n, channels, 1, 1)).astype(F32)
            body += constant(f"w{i}", w) + f"""%c{i} = fusion.conv %x, %w{i} strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] groups = 1 layout = nhwc : {typeOf(x)}, {typeOf(w)}
              %t{i} = fusion.transpose %c{i} permutation = [3, 0, 1, 2] : tensor<2x7x7x{n}xf32>
              """
            outputs[f"t{i}"] = (f"%t{i}", f"tensor<{n}x2x7x7xf32>")
        text = program({"x": x}, body, outputs)
        merged = t.good([BIN / "fusion-opt", t.write(text), "--fusion-merge-projections"])
        (a, _), (b, _) = run(t, text, {"x": x}), run(t, text, {"x": x}, APART)
        check(f"floats, 1x1 convolutions {channels} to {outs}: merged, the same bits",
              merged.count("fusion.conv ") == 1 and all(sameBits(a[n], b[n]) for n in outputs))


def specialValues(t):
    """-0.0 stands in for a missing bias: no sum changes, -0, NaN and infinities
    included."""
    x = np.array([[-0.0], [0.0], [np.inf], [-np.inf], [np.nan], [1.0]], F32)
    text = project("a", "%x", x.shape, np.array([[1.0, -1.0, 0.0]], F32), np.array([0.5, -0.0, 0.0], F32)) + \
        project("b", "%x", x.shape, np.array([[1.0, -1.0, 0.0]], F32))
    outputs = {}
    for n in "ab":
        text += f"%{n}_t = fusion.transpose %{n} permutation = [1, 0] : tensor<6x3xf32>\n"
        outputs[n] = (f"%{n}_t", "tensor<3x6xf32>")
    text = program({"x": x}, text, outputs)
    (a, _), (b, _) = run(t, text, {"x": x}), run(t, text, {"x": x}, APART)
    check("special values: the same bits", all(sameBits(a[n], b[n]) for n in "ab"))


def tensorParallel(t, name, widths):
    """Two ranks' local programs, written by hand: each has half of the columns
    of Wq, Wk and Wv, and the rows of Wo that go with its half of v."""
    g, rows, inner = RNG(12), 3, 32
    whole = [g.integers(-2, 3, (inner, n)).astype(F32) for n in widths]
    last = g.integers(-1, 2, (widths[2], 8)).astype(F32)
    x = g.integers(-2, 3, (rows, inner)).astype(F32)
    total = 0
    for rank in range(2):
        body, outputs, want = "", {}, {}
        for n, w in zip("qkv", whole):
            half = w.shape[1] // 2
            local = np.ascontiguousarray(w[:, rank * half:(rank + 1) * half])
            body += project(n, "%x", x.shape, local) + heads(n, rows, half // 64, 64)
            outputs[n] = (f"%{n}_h", f"tensor<{half // 64}x{rows}x64xf32>")
            want[n] = (x @ local).reshape(rows, -1, 64).transpose(1, 0, 2)
        half = widths[2] // 2
        body += f"%v_f = fusion.relu %v : tensor<{rows}x{half}xf32>\n" + project("o", "%v_f", (rows, half), last[rank * half:(rank + 1) * half])
        outputs["o"], want["o"] = ("%o", f"tensor<{rows}x8xf32>"), np.maximum(x @ whole[2], 0)[:, rank * half:(rank + 1) * half] @ last[rank * half:(rank + 1) * half]
        text = program({"x": x}, body, outputs)
        ir = t.good([BIN / "fusion-opt", t.write(text), "--fusion-merge-projections"])
        got, _ = run(t, text, {"x": x})
        check(f"{name}, rank {rank}: one product for q, k, v, and exact values",
              ir.count("fusion.matmul") == 2 and all(np.array_equal(got[n], want[n]) for n in want))
        total = total + got["o"]
    check(f"{name}: the ranks' sum is the whole", np.array_equal(total, np.maximum(x @ whole[2], 0) @ last))


def tensorParallelRanks(t, name, widths):
    """The two ranks' programs again, as two functions that meet in the reduction
    of what Wo gives: the merge adds no collective, and before and after it both
    ranks get the value of the whole product."""
    g, rows, inner = RNG(14), 3, 16
    whole = [g.integers(-2, 3, (inner, n)).astype(F32) for n in widths]
    last = g.integers(-1, 2, (widths[2], 8)).astype(F32)
    x = g.integers(-2, 3, (rows, inner)).astype(F32)
    text = ""
    for rank in range(2):
        body, outputs = "", {}
        for n, w in zip("qkv", whole):
            half = w.shape[1] // 2
            body += project(n, "%x", x.shape, np.ascontiguousarray(w[:, rank * half:(rank + 1) * half])) + heads(n, rows, half // 64, 64)
            outputs[n] = (f"%{n}_h", f"tensor<{half // 64}x{rows}x64xf32>")
        half = widths[2] // 2
        body += f"%v_f = fusion.relu %v : tensor<{rows}x{half}xf32>\n" + project("o", "%v_f", (rows, half), last[rank * half:(rank + 1) * half])
        body += f"%y = fusion.all_reduce sum, %o on @m[tp] : tensor<{rows}x8xf32>\n"
        outputs["y"] = ("%y", f"tensor<{rows}x8xf32>")
        text += program({"x": x}, body, outputs).replace("@main", f"@rank{rank}")
    text = "fusion.mesh @m(tp = 2)\n" + text
    merged = t.good([BIN / "fusion-opt", t.write(text), "--fusion-merge-projections"])
    kinds = r"fusion\.(all_reduce|all_gather|reduce_scatter|all_to_all|collective_\w+)"
    check(f"{name}: products become one on each rank, and no collective is added",
          text.count("fusion.matmul") == 8 and merged.count("fusion.matmul") == 4 and
          [len(re.findall(kinds, which)) for which in (text, merged)] == [2, 2])
    want = {n: (x @ w).reshape(rows, -1, 64).transpose(1, 0, 2) for n, w in zip("qkv", whole)}
    for label, which in (("apart", text), ("merged", merged)):
        words, out = t.ranks(which, 2, {("x", 0): x, ("x", 1): x}, ["--function", "rank0", "--function", "rank1@1"])
        t.good(words)
        got = [{n: np.load(out / f"rank{rank}/{n}.npy") for n in "qkvy"} for rank in range(2)]
        check(f"{name}, {label}: the ranks' heads side by side are the whole product's",
              all(np.array_equal(np.concatenate([part[n] for part in got]), want[n]) for n in "qkv"))
        check(f"{name}, {label}: both ranks hold the whole result",
              all(np.array_equal(part["y"], np.maximum(x @ whole[2], 0) @ last) for part in got))


def collectives(t):
    """The merge is local: the program has the collectives that it had."""
    g = RNG(13)
    x = g.integers(-2, 3, (2, 4)).astype(F32)
    weights = [g.integers(-2, 3, (4, n)).astype(F32) for n in (4, 2, 2)]
    body = "".join(project(n, "%x", x.shape, w) for n, w in zip("qkv", weights))
    outputs = {}
    for n, w in zip("qkv", weights):
        T = f"tensor<2x{w.shape[1]}xf32>"
        body += f"%{n}_t = fusion.transpose %{n} permutation = [1, 0] : {T}\n%{n}_s = fusion.all_reduce sum, %{n}_t on @m[tp] : tensor<{w.shape[1]}x2xf32>\n"
        outputs[n] = (f"%{n}_s", f"tensor<{w.shape[1]}x2xf32>")
    text = program({"x": x}, body, outputs, preamble="fusion.mesh @m(tp = 2)\n")
    merged = t.good([BIN / "fusion-opt", t.write(text), "--fusion-merge-projections"])
    check("collectives: one product, no collective more or less",
          merged.count("fusion.matmul") == 1 and merged.count("fusion.all_reduce") == text.count("fusion.all_reduce"))
    for which in (text, merged):
        words, out = t.ranks(which, 2, {("x", 0): x, ("x", 1): 2 * x})
        t.good(words)
        got = {n: np.load(out / f"rank1/{n}.npy") for n in "qkv"}
        check("collectives: the values", all(np.array_equal(got[n], (3 * x @ w).T) for n, w in zip("qkv", weights)))


with tempfile.TemporaryDirectory() as name:
    t = Case(Path(name))
    shim = buildShim(Path(name))
    g = RNG(10)
    integers, floats = (lambda shape: g.integers(-1, 2, shape).astype(F32)), (lambda shape: (0.3 * g.normal(size=shape)).astype(F32))
    for kind, generate in (("integers", integers), ("floats", floats)):
        attention(t, shim, f"attention of {kind}, three biases", 16, 64, (4, 4), 16, (True, True, True), generate)
        attention(t, shim, f"attention of {kind}, one bias", 16, 64, (4, 4), 16, (True, False, False), generate)
        attention(t, shim, f"grouped queries of {kind}, 2048, 256, 256", 4, 96, (32, 4), 64, (False, False, True), generate)
    bitsOnFloats(t)
    specialValues(t)
    tensorParallel(t, "tp = 2 of 2048, 2048, 2048", (2048, 2048, 2048))
    tensorParallel(t, "tp = 2 of 2048, 256, 256", (2048, 256, 256))
    tensorParallelRanks(t, "two ranks, 2048, 2048, 2048", (2048, 2048, 2048))
    tensorParallelRanks(t, "two ranks, 2048, 256, 256", (2048, 256, 256))
    collectives(t)
sys.exit(1 if failed else 0)

"""A partitioned program on N ranks computes what the single device computes.

Inputs are small integers, so that sums are exact in any order and results must be
equal, bit by bit; padding is filled with NaN and must not be seen anywhere.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from _ranks import Graph, compare, counts, fails, interpret, partition, runRanks
from _support import Checks

C = Checks()
RNG = np.random.default_rng


def verify(folder, name, graph, expect=None, options=(), inputs=None, same=np.array_equal):
    """Partitions and compares; `expect` are the collectives that there should be."""
    inputs = inputs or graph.random(RNG(len(name)))
    local = partition(folder / "p", graph.text(), *options)
    whole = interpret(folder / "one", graph.text(), inputs)
    ranks, mesh, results = runRanks(folder / "n", local, inputs)
    wrong = compare(whole, ranks, mesh, results, same)
    C.check(f"{name}: the ranks have the single device's values", not wrong, " ".join(wrong))
    if expect is not None:
        C.check(f"{name}: collectives", counts(local) == expect, str(counts(local)) if counts(local) != expect else "")
    again = partition(folder / "p2", local, *options)
    C.check(f"{name}: a second run changes nothing", again == local)
    return local


def mlp(g, x, t, sizes, cutWeights=(None, None)):
    """Two layers, mean square error, gradients of all parameters."""
    batch = x[1][0]
    w1 = g.input("w1", sizes[:2], cutWeights[0])
    b1 = g.input("b1", sizes[1:2], [cutWeights[0][1]] if cutWeights[0] else None)
    w2 = g.input("w2", sizes[1:], cutWeights[1])
    h = g.binary("add", g.matmul(x, w1), g.broadcast(b1, [1], (batch, sizes[1])))
    a = g.unary("relu", h)
    y = g.matmul(a, w2)
    d = g.binary("sub", y, t)
    g.output("loss", g.reduce("mean", g.binary("mul", d, d), [0, 1]))
    g.output("dw2", g.matmul(a, d, tx=True))
    zero = g.splat(0, h[1])
    mask = g.op(f"compare gt, {h[0]}, {zero[0]} : tensor<{batch}x{sizes[1]}xf32>", h[1], "i1")
    dh = g.matmul(d, w2, ty=True)
    dh = g.op(f"select {mask[0]}, {dh[0]}, {zero[0]} : tensor<{batch}x{sizes[1]}xi1>, tensor<{batch}x{sizes[1]}xf32>", h[1])
    g.output("db1", g.reduce("sum", dh, [0]))
    g.output("dw1", g.matmul(x, dh, tx=True))
    g.output("y", y)


def mlps(folder):
    for n in (2, 3, 4, 8):
        g = Graph(dp=n)
        mlp(g, g.input("x", (24, 4), [["dp"], []]), g.input("t", (24, 3), [["dp"], []]), (4, 6, 3))
        verify(folder, f"mlp, dp = {n}", g, {"all_reduce": 4})
    for batch in (5, 1, 7):
        g = Graph(dp=4)
        mlp(g, g.input("x", (batch, 4), [["dp"], []]), g.input("t", (batch, 3), [["dp"], []]), (4, 6, 3))
        verify(folder, f"mlp, {batch} rows on 4 ranks", g, {"all_reduce": 4})
    for n in (2, 4):
        g = Graph(tp=n)
        mlp(g, g.input("x", (6, 4)), g.input("t", (6, 3)), (4, 8, 3), ([[], ["tp"]], [["tp"], []]))
        verify(folder, f"mlp, tp = {n}", g, {"all_reduce": 1})
    g = Graph(dp=2, tp=2)
    mlp(g, g.input("x", (6, 4), [["dp"], []]), g.input("t", (6, 3), [["dp"], []]), (4, 8, 3), ([[], ["tp"]], [["tp"], []]))
    verify(folder, "mlp, dp x tp", g, {"all_reduce": 5})
    g = Graph(dp=3, tp=4)
    mlp(g, g.input("x", (7, 4), [["dp"], []]), g.input("t", (7, 3), [["dp"], []]), (4, 6, 3), ([[], ["tp"]], [["tp"], []]))
    verify(folder, "mlp, 7 rows and 6 columns on 3 x 4 ranks", g, {"all_reduce": 5})


with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    mlps(folder)
sys.exit(C.finish())

"""A partitioned program on N ranks computes what the single device computes.

Inputs are small integers, so that sums are exact in any order and results must be
equal, bit by bit; padding is filled with NaN and must not be seen anywhere.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from _ranks import Graph, compare, counts, fails, interpret, partition, runRanks, typeOf
from _random_program import randomProgram
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


def single(folder, name, make, expect=None, options=(), inputs=None, **mesh):
    """One op or a few: `make(g)` adds inputs, ops and outputs."""
    g = Graph(**mesh)
    make(g)
    return verify(folder, name, g, expect, options, inputs)


def elementwise(folder):
    def join(g):
        x, y = g.input("x", (8, 6), [["dp"], []]), g.input("y", (8, 6))
        g.output("z", g.binary("mul", g.binary("add", x, y), x))
    single(folder, "add: a whole operand is cut", join, {}, dp=2)

    def conflict(g):
        x, y = g.input("x", (8, 8), [["dp"], []]), g.input("y", (8, 8), [[], ["dp"]])
        g.output("z", g.binary("sub", x, y))
    single(folder, "sub: rows against columns is one exchange", conflict, {"all_to_all": 1}, dp=2)

    def uneven(g):
        x, y = g.input("x", (7, 5), [["dp"], []]), g.input("y", (7, 5), [[], ["dp"]])
        g.output("z", g.binary("sub", x, y))
    single(folder, "sub: rows against columns that do not divide", uneven, {"all_gather": 1}, dp=4)

    def both(g):
        x, y = g.input("x", (8, 6), [["dp", "tp"], []]), g.input("y", (8, 6), [["dp"], ["tp"]])
        g.output("z", g.binary("sub", x, y), [["dp"], []])
    single(folder, "sub: two axes on one dimension", both, None, dp=2, tp=2)


def structural(folder):
    def moves(g):
        x = g.input("x", (6, 4, 2), [["dp"], [], []])
        y = g.transpose(x, [1, 2, 0])
        g.output("t", y)
        g.output("s", g.op(f"slice {x[0]} starts = [0, 1, 0] limits = [6, 3, 2] strides = [1, 1, 1] : tensor<6x4x2xf32>", (6, 2, 2)))
        g.output("r", g.op(f"reverse {x[0]} dims = [1] : tensor<6x4x2xf32>", (6, 4, 2)))
        g.output("c", g.op(f"concat {x[0]}, {x[0]} axis = 2 : tensor<6x4x2xf32>, tensor<6x4x2xf32>", (6, 4, 4)))
        v = g.constant(7)
        g.output("p", g.op(f"pad {x[0]}, {v[0]} low = [0, 1, 0] high = [0, 0, 2] : tensor<6x4x2xf32>, tensor<f32>", (6, 5, 4)))
    for n in (2, 4):
        single(folder, f"transpose, slice, reverse, concat, pad keep the cut of 6 rows, dp = {n}", moves, {}, dp=n)

    def refuses(g):
        x = g.input("x", (6, 4), [["dp"], []])
        g.output("s", g.op(f"slice {x[0]} starts = [1, 0] limits = [6, 4] strides = [2, 1] : tensor<6x4xf32>", (3, 4)))
        g.output("r", g.op(f"reverse {x[0]} dims = [0] : tensor<6x4xf32>", (6, 4)))
        g.output("c", g.op(f"concat {x[0]}, {x[0]} axis = 0 : tensor<6x4xf32>, tensor<6x4xf32>", (12, 4)))
    for n in (2, 4):
        single(folder, f"slice, reverse, concat along the cut gather once, dp = {n}", refuses, {"all_gather": 1}, dp=n)

    def merges(g):
        x = g.input("x", (6, 4, 2), [["dp"], [], []])
        y = g.reshape(x, (24, 2))
        g.output("m", y)
        g.output("u", g.reshape(y, (6, 2, 2, 2)))
        g.output("one", g.reshape(x, (1, 6, 8)))
    for n in (2, 3, 4):
        single(folder, f"reshape: the major factor keeps its cut, dp = {n}", merges, {}, dp=n)

    def minor(g):
        x = g.input("x", (3, 8), [[], ["dp"]])
        g.output("m", g.reshape(x, (24,)))
    single(folder, "reshape: a minor factor is gathered", minor, {"all_gather": 1}, dp=2)

    def update(g):
        x, u = g.input("x", (6, 4), [["dp"], []]), g.input("u", (6, 1))
        at, zero = g.input("at", (), None, "i64"), g.constant(0, "i64")
        g.output("y", g.op(f"update_slice {x[0]}, {u[0]} at ({zero[0]}, {at[0]}) : tensor<6x4xf32>, tensor<6x1xf32>, tensor<i64>, tensor<i64>", (6, 4)))
    single(folder, "update_slice: whole rows", update, {}, dp=4)

    def positions(g):
        x = g.input("x", (7, 4), [["dp"], []])
        for axis in (0, 1):
            i = g.op(f"iota axis = {axis} : tensor<7x4xf32>", (7, 4))
            g.output(f"y{axis}", g.binary("add", x, i))
    single(folder, "iota: counts on over the ranks", positions, {}, dp=3)

    def constants(g):
        x = g.input("x", (4, 2), [["dp"], []])
        c = g.op("constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]> : tensor<4x2xf32>", (4, 2))
        g.output("y", g.binary("mul", x, c))
    single(folder, "constant: each rank takes its rows", constants, {}, dp=3)

    def random(g):
        x = g.input("x", (6, 4), [["dp"], []])
        s, o = g.input("s", (), None, "i64"), g.input("o", (), None, "i64")
        r = g.op(f"rng_uniform {s[0]}, {o[0]} : tensor<i64>, tensor<i64>, tensor<6x4xf32>", (6, 4))
        g.output("y", g.binary("mul", x, r))
    single(folder, "rng_uniform: the single device's numbers", random, {}, dp=4)


def reductions(folder):
    for kind in ("sum", "mean", "max", "min", "prod"):
        for size, n in ((8, 2), (7, 4), (2, 4)):
            def reduce(g):
                x = g.input("x", (size, 3), [["dp"], []])
                g.output("all", g.reduce(kind, x, [0, 1]))
                g.output("rows", g.reduce(kind, x, [1]))
                g.output("columns", g.reduce(kind, x, [0]))
            single(folder, f"reduce {kind} of {size} rows on {n} ranks", reduce, {"all_reduce": 2}, dp=n)

    def integers(g):
        x = g.input("x", (5, 3), [["dp"], []], "i32")
        for kind in ("sum", "max", "min"):
            g.output(kind, g.reduce(kind, x, [0]))
    single(folder, "reduce integers", integers, {"all_reduce": 3}, dp=4)

    def narrow(g):
        x = g.input("x", (4096, 4), [["dp"], []], "f16")
        g.output("y", g.reduce("mean", x, [0]))
    single(folder, "mean of f16: the sum would overflow", narrow, {"all_reduce": 1},
           inputs={"x": np.full((4096, 4), 64, np.float16)}, dp=2)

    def logic(g):
        x = g.input("x", (6, 4), [["dp"], []], "i1")
        g.output("any", g.reduce("max", x, [0]))
        g.output("each", g.reduce("min", x, [1]))
    single(folder, "reduce i1 gathers", logic, {"all_gather": 1}, dp=4)

    def position(g):
        x = g.input("x", (6, 4), [["dp"], []])
        g.output("rows", g.op(f"arg_max {x[0]} axis = 1 : tensor<6x4xf32>", (6,), "i64"))
        g.output("columns", g.op(f"arg_min {x[0]} axis = 0 : tensor<6x4xf32>", (4,), "i64"))
    single(folder, "arg_max: rows stay, columns are gathered", position, {"all_gather": 1}, dp=4)


def contractions(folder):
    def inner(g):
        g.output("y", g.matmul(g.input("x", (4, 10), [[], ["tp"]]), g.input("w", (10, 3), [["tp"], []])))
    for n in (2, 4):
        single(folder, f"matmul: split sum of 10, tp = {n}", inner, {"all_reduce": 1}, tp=n)

    def scattered(g):
        g.output("y", g.matmul(g.input("x", (4, 10), [[], ["tp"]]), g.input("w", (10, 3), [["tp"], []])), [["tp"], []])
    single(folder, "matmul: the sum goes to who wants it", scattered, {"reduce_scatter": 1}, tp=4)

    def padded(g):
        g.output("y", g.matmul(g.input("x", (5, 10), [[], ["tp"]]), g.input("w", (10, 3), [["tp"], []])), [["tp"], []])
    single(folder, "matmul: 5 rows of a sum to 4 ranks", padded, {"reduce_scatter": 1}, tp=4)

    def batched(g):
        g.output("y", g.matmul(g.input("x", (6, 2, 4), [["dp"], [], []]), g.input("w", (6, 4, 3)), ty=False))
        g.output("s", g.matmul(g.input("a", (6, 2, 4), [["dp"], [], []]), g.input("b", (4, 3), [[], ["tp"]])))
    single(folder, "matmul: batches, shared and not", batched, {}, dp=3, tp=2)

    def sums(g):
        a, b = (g.matmul(g.input(x, (4, 6), [[], ["tp"]]), g.input(w, (6, 3), [["tp"], []])) for x, w in ("xw", "yv"))
        r = g.input("r", (4, 3))
        g.output("z", g.binary("add", g.binary("add", a, r), b))
    single(folder, "two partial sums are reduced once", sums, {"all_reduce": 1}, tp=2)

    def finished(g):
        rows, all_ = g.input("p", (6,), [["tp"]]), g.input("q", (6,), [["dp", "tp"]])
        total = g.reduce("sum", all_, [0])
        g.output("w", g.binary("max", total, g.input("r", ())))
        g.output("n", g.binary("add", g.reduce("sum", rows, [0]), total))
    def mixed(g):
        most = g.reduce("max", g.input("p", (5,), [["tp"]]), [0])
        g.output("n", g.binary("add", most, g.reduce("sum", g.input("q", (4,), [["tp"]]), [0])))
        g.output("m", g.unary("relu", most))
    single(folder, "a part of a maximum is no addend", mixed, None, tp=2)
    for dp in (1, 2):
        single(folder, f"a sum finished for another use counts once, dp = {dp}", finished, None, dp=dp, tp=3)

    def convs(g):
        x, w, b = g.input("x", (6, 4, 5, 5), [["dp"], [], [], []]), g.input("w", (8, 4, 3, 3), [["tp"], [], [], []]), g.input("b", (8,), [["tp"]])
        y = g.op(f"conv {x[0]}, {w[0]} bias {b[0]} strides = [1, 1] pad_low = [1, 1] pad_high = [1, 1] dilations = [1, 1] groups = 1 layout = nchw"
                 " : tensor<6x4x5x5xf32>, tensor<8x4x3x3xf32>, tensor<8xf32>", (6, 8, 5, 5))
        v = g.input("v", (3, 8, 1, 1), [[], ["tp"], [], []])
        z = g.op(f"conv {y[0]}, {v[0]} strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] groups = 1 layout = nchw"
                 " : tensor<6x8x5x5xf32>, tensor<3x8x1x1xf32>", (6, 3, 5, 5))
        g.output("z", z)
        g.output("m", g.op(f"max_pool {z[0]} window = [2, 2] strides = [2, 2] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] layout = nchw : tensor<6x3x5x5xf32>", (6, 3, 2, 2)))
    single(folder, "conv: images, output and input channels", convs, {"all_reduce": 1}, dp=2, tp=2)
    single(folder, "conv: 6 images on 4 ranks, 8 channels on 3", convs, {"all_reduce": 1}, dp=4, tp=3)

    def weights(g):
        x, d = g.input("x", (7, 2, 5, 5), [["dp"], [], [], []]), g.input("d", (7, 3, 3, 3), [["dp"], [], [], []])
        g.output("dw", g.op(f"conv {g.transpose(x, [1, 0, 2, 3])[0]}, {g.transpose(d, [1, 0, 2, 3])[0]} strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] groups = 1 layout = nchw"
                            " : tensor<2x7x5x5xf32>, tensor<3x7x3x3xf32>", (2, 3, 3, 3)))
    single(folder, "conv: the gradient of weights from 7 images on 4 ranks", weights, {"all_reduce": 1}, dp=4)

    def grouped(g):
        x, w = g.input("x", (4, 4, 5, 5), [["dp"], ["tp"], [], []]), g.input("w", (4, 1, 3, 3))
        g.output("y", g.op(f"conv {x[0]}, {w[0]} strides = [1, 1] pad_low = [1, 1] pad_high = [1, 1] dilations = [1, 1] groups = 4 layout = nchw"
                           " : tensor<4x4x5x5xf32>, tensor<4x1x3x3xf32>", (4, 4, 5, 5)))
    single(folder, "conv: channels of groups are gathered", grouped, {"all_gather": 1}, dp=2, tp=2)


def tables(folder):
    def lookup(g, cutTable, cutIds, **more):
        t, i = g.input("t", (10, 4), cutTable), g.input("i", (3, 2), cutIds, "i64")
        g.output("y", g.gather(t, i, 0))
    ids = {"t": np.arange(40).reshape(10, 4).astype(np.float32), "i": np.array([[0, 9], [5, -3], [12, 4]])}
    single(folder, "gather: rows of a whole table", lambda g: lookup(g, None, [["dp"], []]), {}, inputs=ids, dp=2)
    single(folder, "gather: a table cut by columns", lambda g: lookup(g, [[], ["tp"]], None), {}, inputs=ids, tp=4)
    for n in (2, 3, 4):
        single(folder, f"gather: a table cut by rows, tp = {n}", lambda g: lookup(g, [["tp"], []], None), {"all_reduce": 1}, inputs=ids, tp=n)
    single(folder, "gather: rows of the table and of the batch", lambda g: lookup(g, [["tp"], []], [["dp"], []]), {"all_reduce": 1}, inputs=ids, dp=2, tp=3)

    def grads(g, kind, base, cutUpdates, cutBase=None, cutResult=None):
        i, u = g.input("i", (7, 1), cutUpdates and [cutUpdates, []], "i64"), g.input("u", (7, 4), cutUpdates and [cutUpdates, []])
        x = g.splat(0, (6, 4)) if base == "zeros" else g.input("x", (6, 4), cutBase)
        g.output("y", g.scatter(kind, x, i, u), cutResult)
    rows = {"i": np.array([[0], [5], [5], [-1], [6], [2], [2]]), "u": RNG(3).integers(-3, 4, (7, 4)).astype(np.float32),
            "x": RNG(4).integers(-3, 4, (6, 4)).astype(np.float32)}
    noBase = {k: v for k, v in rows.items() if k != "x"}
    single(folder, "scatter add to zeros: each rank an addend", lambda g: grads(g, "add", "zeros", ["dp"]), {"all_reduce": 1}, inputs=noBase, dp=4)
    single(folder, "scatter add to a value: it counts once", lambda g: grads(g, "add", "x", ["dp"]), {"all_reduce": 1}, inputs=rows, dp=4)
    single(folder, "scatter add: rows of the result are wanted", lambda g: grads(g, "add", "zeros", ["dp"], None, [["dp"], []]), {"reduce_scatter": 1}, inputs=noBase, dp=4)
    single(folder, "scatter max: each rank has the value", lambda g: grads(g, "max", "x", ["dp"]), {"all_reduce": 1}, inputs=rows, dp=2)
    single(folder, "scatter set: updates are gathered", lambda g: grads(g, "set", "x", ["dp"]), {"all_gather": 2}, inputs=rows, dp=2)
    single(folder, "scatter: a rank takes the updates of its rows", lambda g: grads(g, "add", "x", None, [["tp"], []]), {}, inputs=rows, tp=4)
    single(folder, "scatter: rows over tp, updates over dp", lambda g: grads(g, "add", "x", ["dp"], [["tp"], []]), {"all_reduce": 1}, inputs=rows, dp=2, tp=4)

    def nd(g):
        x, i = g.input("x", (4, 4, 3), [[], [], ["tp"]]), g.input("i", (6, 2), [["dp"], []], "i64")
        g.output("y", g.op(f"gather_nd {x[0]}, {i[0]} : tensor<4x4x3xf32>, tensor<6x2xi64>", (6, 3)))
    single(folder, "gather_nd: index vectors and slices", nd, {}, dp=2, tp=3)


def near(want, got):
    """Within what floats lose where sums are taken in another order."""
    if want.dtype.kind != "f":
        return np.array_equal(want, got)
    scale = max(np.abs(want).max(initial=0), 1e-3)
    return bool(np.all(np.abs(want.astype(np.float64) - got) <= 2e-5 * scale))


def norms(folder):
    def rows(g):
        x, s, b = g.input("x", (6, 8), [["dp"], []]), g.input("s", (8,)), g.input("b", (8,))
        g.output("l", g.op(f"layer_norm {x[0]} scale {s[0]} bias {b[0]} epsilon = 1.0e-5 axis = 1 : tensor<6x8xf32>, tensor<8xf32>, tensor<8xf32>", (6, 8)))
        g.output("r", g.op(f"rms_norm {x[0]} scale {s[0]} epsilon = 1.0e-5 axis = 1 : tensor<6x8xf32>, tensor<8xf32>", (6, 8)))
        g.output("m", g.op(f"softmax {x[0]} axis = 1 : tensor<6x8xf32>", (6, 8)))
    for n in (2, 4):
        single(folder, f"norms and softmax of rows, dp = {n}", rows, {}, dp=n)

    def across(g, size):
        x, s = g.input("x", (4, size), [[], ["tp"]]), g.input("s", (size,), [["tp"]])
        g.output("l", g.op(f"layer_norm {x[0]} scale {s[0]} epsilon = 1.0e-5 axis = 1 : tensor<4x{size}xf32>, tensor<{size}xf32>", (4, size)))
        g.output("m", g.op(f"softmax {x[0]} axis = 1 : tensor<4x{size}xf32>", (4, size)))
        g.output("n", g.op(f"log_softmax {x[0]} axis = 1 : tensor<4x{size}xf32>", (4, size)))
    for size, n in ((8, 2), (5, 4)):
        g = Graph(tp=n)
        across(g, size)
        local = verify(folder, f"norms and softmax across {size} on {n} ranks", g, None, same=near)
        C.check(f"norms across {size}: no gather", "all_gather" not in counts(local))

    def batch(g, size):
        x, s, b = g.input("x", (size, 3, 2, 2), [["dp"], [], [], []]), g.input("s", (3,)), g.input("b", (3,))
        y = g.op(f"batch_norm_training {x[0]}, {s[0]}, {b[0]} epsilon = 1.0e-5 axis = 1 : tensor<{size}x3x2x2xf32>, tensor<3xf32>", (size, 3, 2, 2))
        g.lines[-1] = g.lines[-1].replace(f"{y[0]} =", f"{y[0]}:3 =")
        for i, shape in enumerate(((size, 3, 2, 2), (3,), (3,))):
            g.output(f"y{i}", (f"{y[0]}#{i}", shape, "f32"))
    for size, n in ((8, 2), (5, 4)):
        g = Graph(dp=n)
        batch(g, size)
        verify(folder, f"batch_norm_training: statistics of {size} images on {n} ranks", g, {"all_reduce": 2}, same=near)

    def attend(g, heads, groups, n):
        q = g.input("q", (2, heads, 5, 4), [["dp"], ["tp"], [], []])
        k, v = (g.input(name, (2, groups, 5, 4), [["dp"], ["tp"], [], []]) for name in "kv")
        c, s = g.input("c", (5, 2)), g.input("s", (5, 2))
        q = g.op(f"rope {q[0]}, {c[0]}, {s[0]} : tensor<2x{heads}x5x4xf32>, tensor<5x2xf32>", q[1])
        g.output("y", g.op(f"attention {q[0]}, {k[0]}, {v[0]} scale = 0.5 causal : {typeOf(q[1])}, {typeOf(k[1])}, {typeOf(v[1])}", q[1]))
    for heads, groups, n in ((4, 4, 2), (8, 2, 2), (8, 4, 4)):
        single(folder, f"attention: {heads} heads on {groups} of keys, tp = {n}", lambda g: attend(g, heads, groups, n), {}, dp=2, tp=n)


def shards(folder):
    """Parameters and momentum cut over dp: a step of SGD with clipping."""
    for rows, n in ((4, 2), (5, 2), (5, 4), (1, 4)):
        g = Graph(dp=n)
        x = g.input("x", (6, rows), None, role='"data"')
        w = g.input("w", (rows, 3), None, role='"parameter"', donated="0 : i64")
        m = g.input("m", (rows, 3), None, role='"state"', donated="1 : i64")
        y = g.matmul(x, w)
        grad = g.matmul(x, y, tx=True)
        norm = g.reduce("sum", g.binary("mul", grad, grad), [0, 1])
        factor = g.broadcast(g.binary("min", norm, g.constant(2)), [], grad[1])
        clipped = g.binary("mul", grad, factor)
        momentum = g.binary("add", g.binary("mul", m, g.splat(0.5, m[1])), clipped)
        g.output("w2", g.binary("sub", w, momentum))
        g.output("m2", momentum)
        g.output("norm", norm)
        inputs = {"x": RNG(1).integers(-1, 2, x[1]).astype(np.float32), "w": RNG(2).integers(-1, 2, w[1]).astype(np.float32),
                  "m": (2 * RNG(3).integers(-2, 3, m[1])).astype(np.float32)}
        verify(folder, f"shard-state: {rows} rows on {n} ranks", g, {"all_gather": 1, "all_reduce": 1, "reduce_scatter": 1},
               ["shard-state=true"], inputs)
    # Without it the whole gradient is reduced once, and nothing else moves.
    verify(folder, "the same step on whole parameters", g, {"all_reduce": 1}, inputs=inputs)


def accumulation(folder):
    """Gradients of two micro-batches are added before they are reduced."""
    g = Graph(dp=2)
    x = g.input("x", (8, 3), [["dp"], []])
    w = g.input("w", (3, 2))
    total = None
    for part in range(2):
        piece = g.reshape(g.op(f"slice {g.reshape(x, (4, 2, 3))[0]} starts = [0, {part}, 0] limits = [4, {part + 1}, 3] strides = [1, 1, 1]"
                               " : tensor<4x2x3xf32>", (4, 1, 3)), (4, 3))
        grad = g.matmul(piece, g.matmul(piece, w), tx=True)
        total = grad if total is None else g.binary("add", total, grad)
    g.output("dw", total)
    g.output("square", g.binary("mul", total, total))
    verify(folder, "micro-batches: one reduction", g, {"all_reduce": 1})

    # A tied table: rows are added to the other gradient of it, on each rank.
    g = Graph(dp=2)
    h, d = g.input("h", (6, 4), [["dp"], []]), g.input("d", (6, 5), [["dp"], []])
    i = g.input("i", (6, 1), [["dp"], []], "i64")
    g.output("dt", g.scatter("add", g.matmul(d, h, tx=True), i, h))
    verify(folder, "a tied table: one reduction", g, {"all_reduce": 1})


def parameters(folder):
    """Weights that come with the model: each rank takes its part."""
    g = Graph(tp=2)
    x = g.input("x", (3, 4))
    for name, cutBy, text in (("a", '[[], ["tp"]]', "dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]> : tensor<4x2xf32> : tensor<4x2xf32>"),
                              ("b", '[["tp"], []]', "dense<[[1.0, -1.0, 2.0], [0.0, 3.0, 1.0]]> : tensor<2x3xf32> : tensor<2x3xf32>")):
        g.preamble += f"fusion.parameter @{name} const value {text} {{fusion.sharding = {cutBy}}}\n"
    a = g.op("get_parameter @a : tensor<4x2xf32>", (4, 2))
    b = g.op("get_parameter @b : tensor<2x3xf32>", (2, 3))
    g.output("y", g.matmul(g.unary("relu", g.matmul(x, a)), b))
    verify(folder, "parameters by columns, then by rows", g, {"all_reduce": 1})


def roundTrips(folder):
    """Parts of a sum, put together again, have the sum's own shape: what fills the
    last parts is cut off, and is in no norm."""
    for size, n in ((5, 4), (1, 4), (7, 2)):
        g = Graph(dp=n)
        x = g.input("x", (8, size), [["dp"], []])
        total = g.reduce("sum", x, [0])
        part = g.op(f"exp2 {total[0]} : {typeOf(total[1])}", total[1])
        g.output("part", part, [["dp"]])
        g.output("norm", g.reduce("sum", g.binary("mul", part, part), [0]))
        inputs = {"x": RNG(size).integers(0, 2, x[1]).astype(np.float32)}
        verify(folder, f"a sum of {size} in parts on {n} ranks, and its norm", g, {"all_reduce": 1, "reduce_scatter": 1}, inputs=inputs)
        single(folder, f"{size} in parts on {n} ranks, whole again",
               lambda g: g.output("y", g.unary("neg", g.input("x", (size,), [["dp"]])), [[]]), {"all_gather": 1}, dp=n)

    # A weight that two stages share: mean over dp of the sum over stages, in any
    # order of the two, is 7.5.
    g = Graph(dp=2, pp=2)
    x = g.input("x", (2, 2), [["pp"], ["dp"]])
    stages = g.reduce("sum", x, [0])
    g.output("g", g.reduce("mean", stages, [0]))
    inputs = {"x": np.array([[1, 2], [4, 8]], np.float32)}
    local = verify(folder, "gradients of a shared weight", g, None, inputs=inputs)
    ranks, _, _ = runRanks(folder / "n", local, inputs)
    C.check("gradients of a shared weight: 7.5 on all ranks", [float(r["g"]) for r in ranks] == [7.5] * 4)


def randomPrograms(folder):
    for seed in range(24):
        generator = RNG(1000 + seed)
        g = randomProgram(seed, generator)
        verify(folder / str(seed), f"random program {seed}", g, None, inputs=g.random(generator))


def byHand(folder):
    """Collectives in the input keep their order, on whole operands."""
    g = Graph(dp=2)
    x = g.input("x", (4, 3), [["dp"], []])
    a = g.reduce("sum", x, [0])
    b = g.op(f"all_reduce mean, {a[0]} on @mesh[dp] : tensor<3xf32>", (3,))
    c = g.op(f"all_reduce max, {b[0]} on @mesh[dp] : tensor<3xf32>", (3,))
    g.output("c", c)
    inputs = g.random(RNG(5))
    local = partition(folder / "p", g.text())
    C.check("by hand: the order of collectives stays", [w for w in ("sum", "mean", "max") if f"all_reduce {w}" in local]
            == ["sum", "mean", "max"] and local.index("all_reduce mean") < local.index("all_reduce max"))
    ranks, mesh, results = runRanks(folder / "n", local, inputs)
    C.check("by hand: values", not compare({"c": inputs["x"].sum(0)}, ranks, mesh, results))


def refusals(folder):
    text = "func.func @main(%x: tensor<4x4xf32> {{fusion.sharding = {}}}) -> tensor<4x4xf32> {{\n  return %x : tensor<4x4xf32>\n}}\n"
    mesh = "fusion.mesh @mesh(dp = 2)\n"
    for name, program, words, code, expect in (
            ("an unknown axis", mesh + text.format('[["tp"], []]'), [], 3, 'has no axis "tp"'),
            ("an axis twice", mesh + text.format('[["dp"], ["dp"]]'), [], 3, "must name the axis"),
            ("another rank", mesh + text.format('[["dp"]]'), [], 3, "one list for each dimension"),
            ("two meshes", mesh + "fusion.mesh @more(tp = 2)\n" + text.format('[["dp"], []]'), [], 3, "a program has one mesh"),
            ("no mesh", text.format('[["dp"], []]'), [], 3, "the module no mesh"),
            ("another mesh", mesh + text.format('[["dp"], []]'), ["--mesh=dp=4"], 3, "not the wanted one"),
            ("no dp for shards", "fusion.mesh @mesh(tp = 2)\n" + text.format('[["tp"], []]'), ["--shard-state"], 3, "need a mesh axis 'dp'"),
            ("no size", text.format("[[], []]"), ["--mesh=dp"], 2, "no axis with its size"),
            ("a size of 0", text.format("[[], []]"), ["--mesh=dp=0"], 2, "at least 1"),
            ("too many ranks", text.format("[[], []]"), ["--mesh=a=100,b=100"], 2, "at most 1024"),
            ("an axis of the mesh twice", text.format("[[], []]"), ["--mesh=a=2,a=2"], 2, "named twice"),
            ("an empty mesh", text.format("[[], []]"), ["--mesh="], 2, "no axis with its size"),
            ("spaces", text.format("[[], []]"), ["--mesh=dp = 2"], 2, "no axis with its size")):
        status, error = fails(folder / "bad", program, "fusion-compile", "--stop-after=partition", *words)
        C.check(f"refused: {name}, exit {code}", status == code and expect in error and "error: " in error, f"{status} {error[:200]}" if status != code or expect not in error else "")


with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    mlps(folder)
    elementwise(folder)
    structural(folder)
    reductions(folder)
    contractions(folder)
    tables(folder)
    norms(folder)
    shards(folder)
    accumulation(folder)
    parameters(folder)
    roundTrips(folder)
    randomPrograms(folder)
    byHand(folder)
    refusals(folder)
sys.exit(C.finish())

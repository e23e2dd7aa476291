# ===- motifs.py - Patterns that break fusion -----------------------------=== #
#
# What public bug reports of such compilers have in common, as small random
# patterns: the shapes of real models, near misses of them, and hazards of order
# and of memory. Each is grown into a graph beside single ops.
#
# ===----------------------------------------------------------------------=== #
"""Makers of several ops that belong together."""

import numpy as np

from builder import Builder, join
from data import FLOATS, INTS, encode
from graph import Batch, isStatic
from ops import accumulated


class Motifs(Builder):
    def block(self, *, rank=None, least=1):
        """An input of some rows."""
        shape = (self.choose(1, 2, 3, 5),) * 1 + tuple(self.choose(2, 4, 8) for _ in range((rank or self.choose(2, 2, 3)) - 1))
        if self.dynamic and self.chance(0.5):
            shape = (Batch(1),) + shape[1:]
        return self.input(shape, self.choose("f32", "f32", "f32", "f16", "f64", "bf16"), special=least > 1)

    # Side by side -------------------------------------------------------------

    def makeProjections(self):
        """Q, K, V: one left operand, widths that differ, some biases; at times a
        weight that is read elsewhere, that comes late, or another left operand."""
        x = self.floating(accept=lambda v: len(v.shape) in (2, 3) and isStatic(v.shape[-1:]) and v.shape[-1] > 0) or self.block()
        x = self.tame(x)
        depth, before = x.shape[-1], len(self.values)
        results, weights = [], []
        for _ in range(self.random.randint(2, 4)):
            left = x if self.chance(0.9) else self.tame(self.like(x.shape, x.dtype))
            if weights and self.chance(0.15):
                w = self.random.choice(weights)
            elif self.chance(0.05):
                # Known only when the program runs.
                w = self.tame(self.binary("add", self.input((depth, 4), x.dtype, special=False), self.splat((depth, 4), x.dtype, 1)))
            else:
                shape = (depth, self.choose(2, 4, 4, 8, 16))
                w = self.parameter(shape, x.dtype) if self.chance(0.85) else self.weights(shape, x.dtype)
            weights.append(w)
            y = self.product(left, w)
            if self.chance(0.5):
                y = self.binary("add", y, self.broadcast(self.weights((y.shape[-1],), x.dtype), [len(y.shape) - 1], y.shape))
            results.append(y)
        if self.chance(0.6):
            same = self.choose("leaky_relu", "elu", "gelu", "relu") if self.chance(0.7) and not self.exact else None
            results = [self.activated(y, same) for y in results]
        if self.chance(0.75):
            # Read in another order, so that nothing has to be dense.
            results = [self.reduced("max", y, [len(y.shape) - 1]) if self.chance(0.3) else self.transposed(
                y, [*range(len(y.shape) - 2), len(y.shape) - 1, len(y.shape) - 2]) for y in results]
        if self.chance(0.2):
            self.unary("neg", self.random.choice(weights))
        if self.chance(0.7):
            # Nothing else reads what is between.
            self.values[before:] = results
        return results[-1]

    def activated(self, y, name=None):
        """Of one kind or not, of one parameter or not."""
        kinds = ["relu"] if self.exact else ["relu", "leaky_relu", "leaky_relu", "elu", "gelu", "sigmoid"]
        name = name or self.random.choice(kinds)
        if name == "relu":
            return self.unary("relu", y, y.magnitude)
        if name == "gelu":
            return self.emit(f"gelu {self.choose('erf', 'tanh')}, {{0}} : {{t0}}", [y], y.shape, y.dtype, rounds=True)
        alpha = "" if name == "sigmoid" else f" alpha = {self.choose('0.25', '0.5', '1.5')}"
        return self.unary(name, y, rounds=True, extra=alpha)

    def makeTied(self):
        """One weight for several products, of few rows and of many, the other way
        round, and read row by row."""
        dtype = self.choose("f32", "f32", "f32", "f16", "f64")
        depth, width = self.choose(2, 4, 8), self.choose(3, 4, 8, 16)
        w = self.parameter((depth, width), dtype) if self.chance(0.7) else self.weights((depth, width), dtype)
        y = None
        for _ in range(self.random.randint(2, 4)):
            flip = self.chance(0.5)
            rows = self.choose(1, 1, 3, 40)
            y = self.product(self.input((rows, width if flip else depth), dtype, special=False), w, transposeRight=flip)
            if self.chance(0.3):
                y = self.unary("relu", y, y.magnitude)
        if self.chance(0.5):
            ids = self.input((3,), "i64", special=False)
            y = self.emit("gather {0}, {1} axis = 0 : {t0}, {t1}", [w, ids], (3, width), dtype, w.magnitude)
        return y

    def makeConvSiblings(self):
        """1x1 convolutions of one input."""
        dtype = self.choose("f32", "f32", "f64")
        x = self.tame(self.image(dtype))
        spatial = len(x.shape) - 2
        y = x
        for _ in range(self.random.randint(2, 3)):
            outputs = self.choose(1, 2, 4)
            w = self.weights((outputs, x.shape[1]) + (1,) * spatial, dtype)
            magnitude, rounds = accumulated(dtype, x.magnitude, w.magnitude, terms=x.shape[1])
            y = self.emit(f"conv {{0}}, {{1}} strides = {[1] * spatial} pad_low = {[0] * spatial} pad_high = {[0] * spatial} dilations = "
                          f"{[1] * spatial} groups = 1 layout = nchw : {{types}}", [x, w], (x.shape[0], outputs) + x.shape[2:], dtype,
                          magnitude, rounds)
        return y

    def makeSiblings(self):
        """Independent ops of one kind, sizes equal or not, of one type or not."""
        name = self.choose("add", "mul", "relu", "sub", "max") if self.exact else self.choose(
            "add", "mul", "relu", "gelu", "silu", "tanh", "exp", "sigmoid")
        dtype = self.choose("f32", "f32", "f16", "f64", "i32") if name in ("add", "mul", "relu", "sub", "max") else "f32"
        shape, equal, shared = self.shape() or (4,), self.chance(0.4), None
        for _ in range(self.random.randint(2, 6)):
            x = self.fresh(shape, dtype if self.chance(0.95) or dtype not in FLOATS else "f64")
            if name in ("add", "mul", "sub", "max"):
                if shared is None or shared.shape != x.shape or shared.dtype != x.dtype or self.chance(0.6):
                    shared = self.like(x.shape, x.dtype)
                y = self.binary(name, x, shared)
            elif name == "gelu":
                y = self.emit("gelu erf, {0} : {t0}", [x], x.shape, x.dtype, rounds=True)
            else:
                y = self.unary(name, x, x.magnitude if name == "relu" else None, rounds=name != "relu")
            if not equal:
                shape = shape[:-1] + (self.choose(0, 1, 3, 5, 7, 16, 33),)
                shape = tuple(3 if isinstance(dim, Batch) and not self.dynamic else dim for dim in shape)
        return y

    def makeSiblingNorms(self):
        """Norms of several rows' lengths; named, or written out."""
        y = None
        for _ in range(self.random.randint(2, 4)):
            x = self.input((self.choose(1, 2, 4), self.choose(2, 3, 8, 17)), "f32")
            y = self.makeWrittenNorm(x) if self.exact or self.chance(0.3) else self.rowNorm(x, 1)
        return y

    def makeOptimizer(self):
        """p - rate * g of parameters of several sizes; p may give its bytes away."""
        rate = self.constant((), "f32")
        for _ in range(self.random.randint(2, 5)):
            shape = (self.choose(0, 1, 3, 4, 8, 17),) + ((self.choose(2, 3),) if self.chance(0.4) else ())
            p, g = self.input(shape, "f32"), self.input(shape, "f32")
            step = self.binary("mul", g, self.broadcast(rate, [], shape))
            y = self.binary("sub", p, step)
        return y

    def makeEqualMatmuls(self):
        """Independent matmuls of one shape, each feeding another such one."""
        m, k = self.choose(1, 2, 3), self.choose(2, 4)
        y = None
        for _ in range(self.random.randint(2, 4)):
            y = self.product(self.input((m, k), "f32", special=False), self.weights((k, k), "f32"))
            y = self.binary("add", y, self.like(y.shape, "f32"))
            if self.chance(0.6):
                y = self.product(self.tame(y), self.weights((k, k), "f32"))
        return y

    def makeLinearGradients(self):
        """A linear layer's backward pass: gradients of weights and bias from one
        gradient, rows that a library takes or not, sums of several forms, early or
        late; and that of the input times the slope of gelu, or a near miss."""
        dtype = self.choose("f32", "f32", "f16", "bf16", "f64")
        rows, m, n = self.choose(0, 1, 3, 16), self.choose(8, 16, 12), self.choose(8, 8, 24, 3)
        rows = Batch(1) if self.dynamic and self.chance(0.4) else rows
        x, dy = (self.tame(self.input((rows, size), dtype, special=False)) for size in (m, n))

        def sumOf(v):
            kind = "max" if v.shape[0] and self.chance(0.2) else "sum"
            if self.chance(0.3):
                return self.reduced(kind, v, [0])
            total = self.reduced(kind, self.cast(v, "f32"), [0])
            return self.cast(total, dtype) if self.chance(0.8) else total

        of, early = self.choose(dy, dy, x), self.chance(0.5)
        if early:
            y = sumOf(of)
            if self.chance(0.2):
                self.unary("neg", y, y.magnitude)
        if not isinstance(rows, Batch):
            y = self.product(x, dy, transposeLeft=True) if self.chance(0.7) else self.product(dy, x, transposeLeft=True)
        if not early:
            y = sumOf(of)
        if self.exact or self.chance(0.3):
            return y
        g = self.product(dy, self.weights((m, n), dtype), transposeRight=True)
        wide, at = (self.cast(v, "f64" if dtype == "f64" else "f32") for v in (g, self.tame(self.like(g.shape, dtype))))
        square = self.binary("mul", at, at, rounds=True)

        def times(v, number):
            return self.binary("mul", v, self.splat(v.shape, v.dtype, number), rounds=True)

        def plus(v, number):
            return self.binary("add", v, self.splat(v.shape, v.dtype, number), rounds=True)

        root, cubic = 0.7978845608, 0.044715 if self.chance(0.8) else 0.05
        tanh = self.unary("tanh", self.binary("mul", at, plus(times(square, cubic * root), root), rounds=True), rounds=True)
        rest = plus(times(self.binary("mul", tanh, tanh, rounds=True), -1), 1)
        rest = self.binary("mul", self.binary("mul", at, rest, rounds=True), plus(times(square, 3 * cubic * root), root), rounds=True)
        slope = times(self.binary("add", plus(tanh, 1), rest, rounds=True), 0.5)
        y = self.cast(self.binary("mul", *((wide, slope) if self.chance(0.5) else (slope, wide)), rounds=True), dtype)
        return sumOf(y) if self.chance(0.6) else y

    def makeCrossing(self):
        """Two pairs, each free to merge alone: together they form a cycle."""
        x, shape = self.block(rank=2), None
        shape = x.shape
        other = self.like(shape, x.dtype)
        def first(v):
            return self.reduced("max", v, [1]) if rows else self.binary("mul", v, v)
        def second(v):
            return self.broadcast(v, [0], shape) if rows else self.binary("sub", v, other)
        rows = all(shape) and self.chance(0.5)
        a1, b1 = first(x), first(other)
        second(a1)
        b2 = second(b1)
        return first(b2)

    # One after the other -----------------------------------------------------

    def makeChain(self):
        """Past the limit of ops of a group; interior values read again later."""
        x = self.pick(lambda v: v.dtype in FLOATS + ["i32"]) or self.block()
        first, seen = x, []
        for _ in range(self.random.randint(6, 16)):
            way = self.random.random()
            if way < 0.5:
                x = self.binary(self.choose("add", "sub", "max", "min"), x, self.random.choice(
                    [first, x, self.splat(x.shape, x.dtype, self.choose(1, 2, -1))]) if self.canAppear(x.shape) else first)
            elif way < 0.8 or self.exact:
                x = self.unary(self.choose("neg", "abs", "relu"), x, x.magnitude if x.dtype in FLOATS else None)
            elif x.dtype in FLOATS:
                x = self.unary(self.choose("tanh", "sigmoid", "sin", "erf"), x, rounds=True)
            seen.append(x)
        return self.binary("add", x, self.random.choice(seen)) if self.chance(0.4) else x

    def makeFibonacci(self):
        """Each value read twice: inlining them all would double at every step."""
        a, b = self.block(rank=2), None
        b = self.like(a.shape, a.dtype)
        for step in range(self.random.randint(4, 12)):
            c = self.binary("add" if step % 2 else "max", a, b)
            a, b = b, c
        return b

    def makeWide(self):
        """A sum of more inputs than a kernel takes."""
        shape = (self.choose(1, 4, 5),)
        y = self.input(shape, "f32")
        for _ in range(self.random.randint(10, 40)):
            y = self.binary("add", y, self.input(shape, "f32", special=False))
        return y

    def makeWrittenNorm(self, x=None):
        """layer_norm, rms_norm or softmax from primitive ops, or a near miss: a
        wrong axis, a scale that only broadcasts, an interior value read again."""
        if x is None and self.chance(0.5):
            # Square: what lies along the rows fits across them too.
            x = self.input((self.choose(3, 4, 8),) * 2, self.choose("f32", "f32", "f64", "f16"), special=False)
        x = x or self.floating(accept=lambda v: len(v.shape) >= 2 and isStatic(v.shape) and all(v.shape)) or self.block(rank=2)
        x = self.tame(x)
        rank = len(x.shape)
        axis = rank - 1 if self.chance(0.85) or not isStatic(x.shape) else self.random.randrange(rank)
        kept = [d for d in range(rank) if d != axis]

        def back(v):
            return self.broadcast(v, kept, x.shape)

        if self.exact:
            return self.binary("sub", x, back(self.reduced("max", x, [axis])))
        kind = self.choose("layer", "rms", "softmax")
        if kind == "softmax":
            e = self.unary("exp", self.binary("sub", x, back(self.reduced("max", x, [axis]))), rounds=True)
            y = self.binaryRounded("div", e, back(self.reduced("sum", e, [axis])))
            return self.withInterior(y, e)
        centered = self.binary("sub", x, back(self.meanOf(x, axis))) if kind == "layer" else x
        square = self.binary("mul", centered, centered)
        spread = self.binary("add", self.meanOf(square, axis), self.splat([x.shape[d] for d in kept], x.dtype, 0.25))
        if self.chance(0.5):
            y = self.binaryRounded("mul", centered, back(self.unary("rsqrt", spread, rounds=True)))
        else:
            y = self.binaryRounded("div", centered, back(self.unary("sqrt", spread, rounds=True)))
        if self.chance(0.7):
            shape = self.choose((x.shape[axis],), (x.shape[axis],), (x.shape[axis],), (1,), x.shape)
            if all(not isinstance(dim, Batch) for dim in shape):
                gain = self.weights(shape, x.dtype)
                # Along the norm; or, as long, across it.
                to = self.random.choice(kept) if self.chance(0.5) and kept and shape != x.shape else axis
                if shape != x.shape and shape != (1,) and x.shape[to] != x.shape[axis]:
                    to = axis
                y = self.binary("mul", y, gain if shape == x.shape else self.broadcast(gain, [to], x.shape))
        if self.chance(0.4):
            y = self.binary("add", y, self.broadcast(self.weights((x.shape[axis],), x.dtype), [axis], x.shape)
                            if isStatic(x.shape[axis:axis + 1]) else x)
        return self.withInterior(y, square)

    def binaryRounded(self, name, x, y):
        return self.binary(name, x, y, rounds=True)

    def meanOf(self, x, axis):
        if self.chance(0.5):
            return self.reduced("mean", x, [axis])
        total = self.reduced("sum", x, [axis])
        if isinstance(x.shape[axis], Batch):
            return total
        count = self.splat(total.shape, x.dtype, x.shape[axis])
        return self.binaryRounded("div", total, count)

    def withInterior(self, result, inner):
        """At times the value inside is read again, or returned."""
        if self.chance(0.2):
            return self.binary("add", result, inner)
        if self.chance(0.15):
            self.graph.outputs.append(inner)
        return result

    def makeWrittenActivation(self):
        """gelu and silu from primitive ops."""
        x = self.floating() or self.block()
        if self.exact or not self.canAppear(x.shape):
            return self.makeChain()
        if self.chance(0.5):
            inner = self.unary("sigmoid", x, rounds=True) if self.chance(0.5) else self.binaryRounded(
                "div", self.splat(x.shape, x.dtype, 1), self.binary("add", self.splat(x.shape, x.dtype, 1), self.unary(
                    "exp", self.unary("neg", x), rounds=True)))
            return self.withInterior(self.binary("mul", *((x, inner) if self.chance(0.5) else (inner, x))), inner)
        root = self.splat(x.shape, x.dtype, 1.4142135623730951)
        scaled = self.binaryRounded("div", x, root) if self.chance(0.5) else self.binaryRounded(
            "mul", x, self.splat(x.shape, x.dtype, 0.7071067811865476))
        inner = self.binary("add", self.unary("erf", scaled, rounds=True), self.splat(x.shape, x.dtype, 1))
        half = self.splat(x.shape, x.dtype, 0.5)
        y = self.binary("mul", self.binary("mul", x, inner), half) if self.chance(0.5) else self.binary(
            "mul", self.binary("mul", x, half), inner)
        return self.withInterior(y, inner)

    def makeBroadcastCost(self):
        """A cheap producer to repeat, a dear one never to."""
        x = self.input((self.choose(1, 4, 8),), "f32", special=False)
        y = self.cast(self.input(x.shape, "i32"), "f32") if self.exact or self.chance(0.5) else self.unary("exp", x, rounds=True)
        wide = self.broadcast(y, [0], (x.shape[0], self.choose(4, 16, 64)))
        return self.binary("mul", wide, self.like(wide.shape, "f32"))

    def makeResidualNorm(self):
        """Norm, projection, residual, again."""
        x = self.block(rank=2)
        for _ in range(2):
            y = self.makeWrittenNorm(x) if self.exact or x.dtype != "f32" else self.rowNorm(x, 1)
            y = self.product(self.tame(y), self.weights((y.shape[-1], x.shape[-1]), x.dtype))
            x = self.binary("add", x, y)
        return x

    def makeMoves(self):
        """Moves of moves, which merge into one."""
        x = self.input(tuple(self.random.randint(4, 12) for _ in range(self.choose(1, 2, 2, 3))), self.choose("f32", "i32", "f16"))
        return self.follow(x, ["makeSlice"] * 4 + ["makeReverse", "makeTranspose", "makeTranspose", "makePad", "makeConcat", "makeBroadcast",
                                                   "makeReshape"], self.random.randint(2, 5))

    def makeImages(self):
        """What stands between convolutions: each op has axes of its own."""
        x = self.makeConv(dtype=self.choose("f32", "f32", "f16"))
        between = ["makePool", "makeReduce", "makeConcat", "makePad", "makeSlice", "makeBatchNorm", "makeUnary", "makeBinary", "makeTranspose",
                   "makeReverse"] + ["makeNorm"] * 4
        x = self.follow(x, between, self.random.randint(1, 3))
        return self.follow(x, ["makeConv", "makeConv", "makePool"], self.choose(0, 1, 1))

    def makeFolded(self):
        """Constants alone: what compiling computes is what running would."""
        dtype = self.random.choice(INTS + ["f32", "f16", "f64"])
        shape = (self.choose(3, 5), self.choose(4, 8))
        x = self.constant(shape, dtype, self.numbers(shape, dtype, self.chance(0.2)))
        for _ in range(self.random.randint(1, 4)):
            way = self.random.random()
            if way < 0.65:
                y = self.constant(x.shape, dtype, self.numbers(x.shape, dtype, self.chance(0.2)))
                names = ["add", "sub", "mul", "max", "min"] + (["div", "rem"] * 2 if dtype in INTS else ["div"])
                x = self.binary(self.random.choice(names), *self.shuffled(x, y))
            elif way < 0.8:
                x = self.unary(self.choose("neg", "abs", "sign"), x, x.magnitude)
            elif way < 0.9 and len(x.shape) > 1:
                x = self.reduced(self.choose("max", "min"), x, [self.random.randrange(len(x.shape))])
            elif len(x.shape) > 1:
                x = self.transposed(x, [1, 0])
        return self.binary("max", x, self.input(x.shape, dtype)) if self.chance(0.5) else x

    # Order and memory ------------------------------------------------------------

    def makeInPlaceHazard(self):
        """A write in place beside a read of the same tensor at other places."""
        way = self.random.randrange(8)
        if way == 7:
            return self.makeScatterOfItself()
        if way == 5:
            return self.makeLateView()
        if way == 6:
            return self.makeDonatedEarly()
        shape = (self.choose(2, 4, 5), self.choose(1, 3, 8))
        x = self.input(shape, self.choose("f32", "i32", "f16"))
        rows = shape[0]
        if way == 0:
            indices = self.constant((rows, 1), "i64", np.arange(rows))
            x = self.scattered("set", x, indices, self.binary("add", x, x))
            return self.binary("add", x, self.unary("reverse", x, x.magnitude, extra=" dims = [0]"))
        if way == 1:
            b = self.binary("add", x, self.splat(shape, x.dtype, 1))
            part = self.sliced(b, [0, 0], [rows - 1, shape[1]])
            starts = [self.constant((), "i64", np.array(1)), self.constant((), "i64", np.array(0))]
            y = self.emit("update_slice {0}, {1} at ({2}, {3}) : {types}", [b, part, *starts], shape, x.dtype, join(b, part))
            return self.emit("reshape {0} : {t0} to {r}", [y], (1,) + shape, x.dtype, y.magnitude)
        if way == 2:
            square = self.input((rows, rows), x.dtype)
            turned = self.transposed(square, [1, 0])
            return self.binary("add", turned, self.like(turned.shape, x.dtype) if self.chance(0.5) else square)
        if way == 3:
            product = self.binary("mul", x, x)
            ids = self.input((rows,), "i64")
            chosen = self.emit("gather {0}, {1} axis = 0 : {t0}, {t1}", [product, ids], shape, x.dtype, product.magnitude)
            return self.binary("add", self.binary("add", x, product), chosen)
        zeros = self.splat(shape, x.dtype, 0)
        indices = self.input((3, 1), "i64")
        return self.scattered("add", zeros, indices, self.input((3,) + shape[1:], x.dtype))

    def makeScatterOfItself(self):
        """Updates, or indices, that are the tensor they go to: the result may not
        take its bytes, by donation or because it dies here."""
        asIndices, donates = self.chance(0.3), self.chance(0.5)
        shape = (self.choose(2, 3, 5), 1 if asIndices else self.choose(1, 3, 8))
        given = self.input(shape, self.choose("i32", "i64") if asIndices else self.choose("f32", "i32", "f16", "i8"))
        x = given if donates else self.binary("add", given, given)
        indices, updates = (x, self.like(shape, x.dtype)) if asIndices else (self.input((shape[0], 1), "i64"), x)
        y = self.scattered(self.choose("set", "add", "max"), x, indices, updates)
        if donates:
            self.graph.outputs.append(y)
            self.graph.donated[x] = y
            return y
        return self.unary("reverse", y, y.magnitude, extra=" dims = [0]")

    def makeLateView(self):
        """A tensor that an elementwise op could overwrite, but for a view of it
        that is read when that op's result was used."""
        rows, depth = self.choose(2, 4), self.choose(2, 4)
        dtype = self.choose("f32", "f32", "f64")
        a = self.product(self.input((rows, depth), dtype, special=False), self.weights((depth, depth), dtype))

        def flat(v):
            return self.emit("reshape {0} : {t0} to {r}", [v], (rows * depth,), dtype, v.magnitude)

        # Read once as it is and once as a view, in either order.
        first, second = (flat, lambda v: v) if self.chance(0.5) else (lambda v: v, flat)
        x = first(a)
        y = self.binary(self.choose("mul", "sub"), x, self.input(x.shape, dtype, special=False))
        if not self.exact and self.chance(0.5):
            y = self.unary("softmax", y, rounds=True, extra=f" axis = {len(y.shape) - 1}")
        y = self.emit("reshape {0} : {t0} to {r}", [y], (rows, depth), dtype, y.magnitude)
        y = self.product(self.tame(y), self.weights((depth, depth), dtype))
        x = second(a)
        return self.binary("add", x, y if len(x.shape) == 2 else flat(y))

    def makeDonatedEarly(self):
        """A parameter whose bytes the update takes while its old value is wanted."""
        shape = (self.choose(3, 4, 8), self.choose(2, 4))
        p, g = self.input(shape, "f32", special=False), self.input(shape, "f32", special=False)
        y = self.binary("sub", p, g)
        # Behind the update, by what it reads.
        turned = self.product(self.tame(self.transposed(y, [1, 0])), self.weights((shape[0], shape[0]), "f32"))
        z = self.binary("add", self.unary("neg", p, p.magnitude), self.transposed(turned, [1, 0]))
        self.graph.outputs.append(y)
        self.graph.donated[p] = y
        return z

    def makeConcatResidual(self):
        """Halves of a tensor, one of them worked on, together again."""
        x = self.input((2, 4, 3), self.choose("f32", "f16", "i8"))
        a, b = self.sliced(x, [0, 0, 0], [2, 2, 3]), self.sliced(x, [0, 2, 0], [2, 4, 3])
        r = self.binary("add", b, self.unary("relu", b, b.magnitude))
        return self.concatenated([a, b, r], 1)

    def makeEmpty(self):
        """Tensors without elements and of rank 0, through reductions and products."""
        way = self.random.randrange(4)
        if way == 0:
            x = self.input((self.choose(0, 2), 0), self.choose("f32", "i32", "f64"))
            return self.reduced(self.choose("sum", "prod"), x, [self.choose(0, 1)] if self.chance(0.6) else [0, 1])
        if way == 1:
            return self.product(self.input((2, 0), "f32"), self.input((0, 3), "f32"))
        if way == 2:
            return self.concatenated([self.input((0, 4), "f32"), self.input((2, 4), "f32"), self.input((0, 4), "f32")], 0)
        x = self.reduced("max", self.input((3,), "f32"), [0])
        return self.binary("mul", x, self.input((), "f32"))

    def makeDeadResults(self):
        """Results that nothing reads beside one that is read."""
        if self.exact:
            return self.makeSlice()
        x = self.input((2, 3, 2), "f32", special=False)
        scale, bias = self.input((3,), "f32", special=False), self.input((3,), "f32", special=False)
        results = self.emitMany("batch_norm_training {all} epsilon = 0.01 axis = 1 : {t0}, {t1}", [x, scale, bias],
                                [(x.shape, "f32"), ((3,), "f32"), ((3,), "f32")], rounds=True)
        return self.unary("tanh", self.random.choice(results), rounds=True)

    def makeHalfScalar(self):
        """A scalar of another type never widens what it meets."""
        x = self.input((self.choose(3, 8),), "f16")
        s = self.cast(self.constant((), "f32", encode(np.array(0.1), "f32")) if not self.exact else self.input((), "f32"), "f16")
        return self.binary("add", self.binary("mul", x, self.broadcast(s, [], x.shape)), self.broadcast(self.input((1,), "f16"), [0], x.shape))

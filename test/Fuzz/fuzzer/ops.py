# ===- ops.py - One random op of each kind --------------------------------=== #
#
# Each maker appends a valid op, with operands that the graph has or new ones. An
# op whose result jumps (a comparison, a rounding, a cast to an integer) reads
# only clean values: on a value that rounds, the last bit would decide.
#
# ===----------------------------------------------------------------------=== #
"""Makers of elementwise ops, moves, and reductions."""

import math

from builder import Builder, elements, join, whole
from data import FLOATS, INTS, NUMPY, PRECISION
from graph import Batch, isStatic

ROUNDING_UNARY = ["exp", "exp2", "expm1", "tanh", "erf", "sin", "cos", "atan", "sinh", "cosh", "asinh",
                  "sigmoid", "silu", "softplus", "mish", "hard_swish"]
# Defined on a part of the line only, or steep somewhere: on clean values.
PARTIAL_UNARY = ["log", "log2", "log1p", "rsqrt", "asin", "acos", "acosh", "atanh", "tan"]
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]


def accumulated(dtype, *magnitudes, terms, accumulator=None):
    """(magnitude, rounds) of a sum of products of these, `terms` of them, kept in
    the type `accumulator` (default: f64 for f64, f32 for other floats)."""
    if dtype not in FLOATS:
        return whole(dtype), False
    if None in magnitudes:
        return None, True
    bound = terms * math.prod(b for b, _ in magnitudes)
    fraction = sum(f for _, f in magnitudes)
    bits = math.log2(max(bound, 1)) + fraction
    return (bound, fraction), bits > PRECISION[accumulator or ("f64" if dtype == "f64" else "f32")]


class Elementwise(Builder):
    def makeUnary(self):
        x = self.number()
        if x.dtype in INTS:
            name = self.choose("neg", "abs", "sign", "relu", "not")
            return self.unary(name, x, whole(x.dtype))
        names = ["neg", "abs", "relu"] + (["sign", "ceil", "floor", "round", "sqrt", "reciprocal"] if x.clean else [])
        if x.dtype in FLOATS and not self.exact and self.chance(0.5):
            return self.transcendental(x)
        name = self.random.choice(names)
        magnitude = x.magnitude if name in ("neg", "abs", "relu") else None
        if name in ("ceil", "floor", "round"):
            magnitude = x.magnitude and (x.magnitude[0] + 1, 0)
        return self.unary(name, x, (1, 0) if name == "sign" else magnitude)

    def transcendental(self, x):
        return self.unary(self.random.choice(ROUNDING_UNARY + (PARTIAL_UNARY if x.clean else [])), x, rounds=True)

    def makeTranscendental(self):
        x = not self.exact and self.floating(clean=True)
        return self.transcendental(x) if x else self.makeUnary()

    def makeActivation(self):
        x = self.floating()
        if not x or self.exact:
            return self.makeUnary()
        name = self.choose("hard_sigmoid", "leaky_relu", "elu", "gelu", "gelu")
        if name == "gelu":
            return self.emit(f"gelu {self.choose('erf', 'tanh')}, {{0}} : {{t0}}", [x], x.shape, x.dtype, rounds=True)
        extra = {"hard_sigmoid": " alpha = 0.2 beta = 0.5", "leaky_relu": " alpha = 0.01", "elu": " alpha = 1.5"}[name]
        return self.unary(name, x, rounds=True, extra=extra)

    def makeTest(self):
        x = self.floating(clean=True)
        if not x:
            return self.makeCompare()
        return self.emit(f"{self.choose('is_nan', 'is_inf')} {{0}} : {{t0}}", [x], x.shape, "i1", (1, 0))

    def makeLogic(self):
        x = self.pick(lambda v: v.dtype not in FLOATS)
        if not x:
            return self.makeCompare()
        if self.chance(0.2):
            return self.unary("not", x, whole(x.dtype))
        names = ["and", "or", "xor"] + (["shift_left", "shift_right"] * 2 if x.dtype in INTS else [])
        return self.binary(self.random.choice(names), *self.shuffled(x, self.like(x.shape, x.dtype)))

    def shuffled(self, x, y):
        return (y, x) if self.chance(0.5) else (x, y)

    def makeBinary(self):
        x = self.number()
        y = x if self.chance(0.1) else self.like(x.shape, x.dtype)
        x, y = self.shuffled(x, y)
        names = ["add"] * 3 + ["sub"] * 2 + ["mul"] * 3 + ["max", "min"]
        if x.dtype in INTS or y.clean:
            names.append("div")
        if x.dtype in INTS or (x.clean and y.clean):
            names.append("rem")
        if not self.exact and x.dtype in FLOATS and x.clean and y.clean:
            names += ["pow", "atan2"]
        name = self.random.choice(names)
        return self.binary(name, x, y, rounds=name in ("pow", "atan2"))

    def makeCompare(self):
        x = self.pick(lambda v: v.clean) or self.input(self.shape(), self.dtype())
        y = self.like(x.shape, x.dtype, clean=True)
        return self.emit(f"compare {self.random.choice(COMPARISONS)}, {{0}}, {{1}} : {{t0}}", [x, y], x.shape, "i1", (1, 0))

    def makeSelect(self):
        condition = self.pick(lambda v: v.dtype == "i1") or self.makeCompare()
        dtype = self.dtype()
        x, y = (self.like(condition.shape, dtype) for _ in range(2))
        return self.emit("select {0}, {1}, {2} : {t0}, {t1}", [condition, x, y], x.shape, dtype, join(x, y))

    def makeClamp(self):
        x = self.number()
        low, high = self.like(x.shape, x.dtype), self.like(x.shape, x.dtype)
        return self.emit("clamp {0}, {1}, {2} : {t0}", [x, low, high], x.shape, x.dtype, join(x, low, high))

    def makeCast(self):
        x = self.pick() or self.number()
        targets = [t for t in NUMPY if t != x.dtype and (x.clean or t in FLOATS)]
        value = self.cast(x, self.random.choice(targets))
        # Down and up again: the rounding between is part of the model.
        return self.cast(value, x.dtype) if self.chance(0.2) and value.clean else value

    def makeRandom(self):
        shape, dtype = self.shape(), self.random.choice(FLOATS)
        shape = tuple(3 if isinstance(dim, Batch) else dim for dim in shape)
        seed = self.like((), "i64")
        first = self.emit("rng_uniform {0}, {1} : {t0}, {t1}, {r}", [seed, self.like((), "i64")], shape, dtype)
        if self.chance(0.5):
            # A second stream of the same shape: never the first one again.
            self.emit("rng_uniform {0}, {1} : {t0}, {t1}, {r}", [seed, self.constant((), "i64")], shape, dtype)
        return first


class Moves(Builder):
    def makeBroadcast(self):
        x = self.pick(lambda v: len(v.shape) < 4 and elements(v.shape) <= 256)
        if not x:
            return self.makeIota()
        shape, dims = [], []
        for size in x.shape:
            if len(shape) < 3 and self.chance(0.3):
                shape.append(self.choose(2, 3, 4))
            dims.append(len(shape))
            shape.append(self.choose(2, 4) if size == 1 and self.chance(0.7) else size)
        if len(shape) < 4 and self.chance(0.6):
            shape.append(self.choose(1, 2, 3, 8))
        if self.dynamic and isStatic(shape) and shape and 0 not in dims and self.chance(0.5):
            shape[0] = Batch(1)
        return self.broadcast(x, dims, shape)

    def makeReshape(self):
        x = self.pick() or self.input(self.shape(), self.dtype())
        sizes = [size for size in x.shape if size != 1]
        if len(sizes) > 1 and self.chance(0.5):
            at = self.random.randrange(len(sizes) - 1)
            pair = sizes[at:at + 2]
            batches = [dim for dim in pair if isinstance(dim, Batch)]
            if not batches:
                sizes[at:at + 2] = [pair[0] * pair[1]]
            elif len(batches) == 1 and batches[0].offset == 0:
                other = pair[0] if pair[1] is batches[0] else pair[1]
                if other:
                    sizes[at:at + 2] = [Batch(batches[0].scale * other)]
        if len(sizes) < 4 and self.chance(0.5):
            sizes.insert(self.random.randint(0, len(sizes)), 1)
        if sum(isinstance(dim, Batch) for dim in sizes) > 1 or sum(isinstance(dim, Batch) for dim in x.shape) > 1:
            return self.makeTranspose()
        return self.emit("reshape {0} : {t0} to {r}", [x], sizes, x.dtype, x.magnitude)

    def makeTranspose(self):
        x = self.pick(lambda v: len(v.shape) > 1) or self.input((2, 3), self.dtype())
        order = list(range(len(x.shape)))
        self.random.shuffle(order)
        return self.transposed(x, order)

    def transposed(self, x, order):
        return self.emit(f"transpose {{0}} permutation = {order} : {{t0}}", [x], [x.shape[d] for d in order], x.dtype, x.magnitude)

    def sliced(self, x, starts, limits, strides=None):
        strides = strides or [1] * len(x.shape)
        shape = [dim if isinstance(dim, Batch) else (b - a + s - 1) // s
                 for dim, a, b, s in zip(x.shape, starts, limits, strides)]
        return self.emit(f"slice {{0}} starts = {starts} limits = {limits} strides = {strides} : {{t0}}", [x], shape,
                         x.dtype, x.magnitude)

    def makeSlice(self):
        x = self.pick() or self.number()
        starts, limits, strides = [], [], []
        for size in x.shape:
            if isinstance(size, Batch):
                starts.append(0), limits.append(-1), strides.append(1)
                continue
            start = self.random.randint(0, size)
            limit = self.random.randint(start, size) if self.chance(0.1) else min(size, start + self.random.randint(1, 8))
            if start == limit and size and self.chance(0.9):
                start, limit = 0, size
            starts.append(start), limits.append(limit), strides.append(self.choose(1, 1, 2))
        return self.sliced(x, starts, limits, strides)

    def makeReverse(self):
        x = self.pick() or self.number()
        dims = sorted(self.random.sample(range(len(x.shape)), self.random.randint(0, len(x.shape))))
        return self.unary("reverse", x, x.magnitude, extra=f" dims = {dims}")

    def concatenated(self, parts, axis):
        shape = list(parts[0].shape)
        dims = [part.shape[axis] for part in parts]
        if any(isinstance(dim, Batch) for dim in dims):
            scale = sum(dim.scale for dim in dims if isinstance(dim, Batch))
            shape[axis] = Batch(scale, sum(dim.offset if isinstance(dim, Batch) else dim for dim in dims))
        else:
            shape[axis] = sum(dims)
        return self.emit(f"concat {{all}} axis = {axis} : {{types}}", parts, shape, parts[0].dtype, join(*parts))

    def makeConcat(self):
        x = self.pick(lambda v: len(v.shape) > 0 and elements(v.shape) <= 256)
        if not x:
            return self.makeReverse()
        axis = self.random.randrange(len(x.shape))
        parts = [x]
        for _ in range(self.random.randint(1, 2)):
            other = list(x.shape)
            other[axis] = self.choose(x.shape[axis], 1, 2)
            parts.append(self.like(other, x.dtype))
        self.random.shuffle(parts)
        return self.concatenated(parts, axis)

    def makePad(self):
        x = self.pick(lambda v: elements(v.shape) <= 256)
        if not x:
            return self.makeReverse()
        value = self.like((), x.dtype)
        low = [0 if isinstance(dim, Batch) else self.choose(0, 0, 1, 2) for dim in x.shape]
        high = [0 if isinstance(dim, Batch) else self.choose(0, 0, 1) for dim in x.shape]
        shape = [dim if isinstance(dim, Batch) else a + dim + b for a, dim, b in zip(low, x.shape, high)]
        return self.emit(f"pad {{0}}, {{1}} low = {low} high = {high} : {{t0}}, {{t1}}", [x, value], shape, x.dtype, join(x, value))

    def makeGather(self):
        x = self.pick(lambda v: any(dim and not isinstance(dim, Batch) for dim in v.shape))
        if not x:
            return self.makeReverse()
        axis = self.random.choice([d for d, dim in enumerate(x.shape) if dim and not isinstance(dim, Batch)])
        batched = self.random.randint(0, axis) if self.chance(0.3) else 0
        own = (self.choose(1, 2, 3),) if self.chance(0.7) else ()
        indices = self.like(x.shape[:batched] + own, self.choose("i32", "i64"))
        shape = x.shape[:axis] + own + x.shape[axis + 1:]
        extra = f" {{{{batch_dims = {batched} : i64}}}}" if batched else ""
        return self.emit(f"gather {{0}}, {{1}} axis = {axis}{extra} : {{t0}}, {{t1}}", [x, indices], shape, x.dtype, x.magnitude)

    def makeGatherNd(self):
        x = self.pick(lambda v: len(v.shape) > 1 and isStatic(v.shape) and all(v.shape))
        x = x or self.input((3, 4), self.dtype())
        batched = self.choose(0, 0, 1)
        width = self.random.randint(1, len(x.shape) - batched)
        own = (self.choose(1, 3),) if self.chance(0.7) else ()
        indices = self.like(x.shape[:batched] + own + (width,), self.choose("i32", "i64"))
        extra = f" {{{{batch_dims = {batched} : i64}}}}" if batched else ""
        return self.emit(f"gather_nd {{0}}, {{1}}{extra} : {{t0}}, {{t1}}", [x, indices],
                         x.shape[:batched] + own + x.shape[batched + width:], x.dtype, x.magnitude)

    def makeIota(self):
        shape = self.shape() or (3,)
        dtype = self.choose("i32", "i64", "f32", "f16")
        axis = self.random.randrange(len(shape))
        return self.emit(f"iota axis = {axis} : {{r}}", [], shape, dtype, (64, 0))

    def makeUpdateSlice(self):
        x = self.pick(lambda v: len(v.shape) in (1, 2) and isStatic(v.shape) and elements(v.shape) > 0)
        x = x or self.input((4, 3), self.dtype())
        update = self.like([self.random.randint(1, size) for size in x.shape], x.dtype)
        starts = [self.like((), "i64") for _ in x.shape]
        places = ", ".join(f"{{{i + 2}}}" for i in range(len(starts)))
        return self.emit(f"update_slice {{0}}, {{1}} at ({places}) : {{types}}", [x, update, *starts], x.shape, x.dtype, join(x, update))

    def scattered(self, kind, x, indices, updates):
        magnitude, rounds = join(x, updates), False
        if kind == "add":
            # Each update is a sum in the type of the elements.
            rows = max(elements(indices.shape[:-1]), 1)
            both = join(x, updates)
            magnitude, rounds = accumulated(x.dtype, both, terms=rows + 1, accumulator=x.dtype) if x.dtype != "i1" else (None, False)
        return self.emit(f"scatter {kind}, {{0}}, {{1}}, {{2}} : {{t0}}, {{t1}}, {{t2}}", [x, indices, updates], x.shape,
                         x.dtype, magnitude, rounds)

    def makeScatter(self):
        x = self.pick(lambda v: len(v.shape) in (1, 2, 3) and isStatic(v.shape) and elements(v.shape) > 0)
        x = x or self.input((4, 3), self.dtype())
        rows, width = self.choose(1, 2, 3, 5), self.random.randint(1, len(x.shape)) if self.chance(0.3) else 1
        kind = "set" if x.dtype == "i1" else self.choose("set", "add", "add", "min", "max")
        indices = self.like((rows, width), self.choose("i32", "i64"))
        updates = self.like((rows,) + x.shape[width:], x.dtype)
        if kind == "add":
            x, updates = self.tame(x), self.tame(updates)
        return self.scattered(kind, x, indices, updates)


class Reductions(Builder):
    def reduced(self, kind, x, dims):
        shape = [dim for d, dim in enumerate(x.shape) if d not in dims]
        count = elements([x.shape[d] for d in dims])
        magnitude, rounds = x.magnitude, False
        if kind in ("sum", "mean"):
            magnitude, rounds = accumulated(x.dtype, x.magnitude, terms=max(count, 1))
        if kind == "mean":
            known = isStatic([x.shape[d] for d in dims]) and count > 0 and count & (count - 1) == 0
            magnitude = x.magnitude and (x.magnitude[0], x.magnitude[1] + int(math.log2(max(count, 1))))
            rounds = rounds or not known
        if kind == "prod" and x.dtype in FLOATS:
            magnitude, rounds = accumulated(x.dtype, *[x.magnitude] * count, terms=1) if count < 40 else (None, True)
        elif kind == "prod":
            magnitude = whole(x.dtype)
        return self.emit(f"reduce {kind}, {{0}} dims = {sorted(dims)} : {{t0}}", [x], shape, x.dtype, magnitude, rounds)

    def makeReduce(self):
        x = self.pick(lambda v: len(v.shape) > 0) or self.input((2, 4), self.dtype())
        rank = len(x.shape)
        begin = self.random.randrange(rank)
        dims = list(range(begin, self.random.randint(begin, rank - 1) + 1))
        if self.chance(0.5):
            dims = list(range(begin, rank))
        elif self.chance(0.2):
            dims = sorted(self.random.sample(range(rank), self.random.randint(1, rank)))
        # A product of many floats overflows before, or after, it meets a zero.
        count = elements([x.shape[d] for d in dims])
        kinds = [] if x.dtype == "i1" else ["sum", "sum", "sum"] + ["prod"] * (x.dtype in INTS or count <= 24) + ["mean"] * (x.dtype in FLOATS)
        if all(x.shape[d] for d in dims):
            kinds += ["max", "min"]
        if not kinds:
            return self.makeUnary()
        kind = self.random.choice(kinds)
        if kind in ("sum", "mean", "prod"):
            x = self.tame(x)
        if self.exact and x.dtype in FLOATS and kind in ("prod", "mean") and (
                count > 5 or not isStatic([x.shape[d] for d in dims]) or count & (count - 1)):
            kind = "sum"
        value = self.reduced(kind, x, dims)
        # Often back to the rows, as norms do.
        if x.dtype != "i1" and self.chance(0.4) and self.canAppear([x.shape[d] for d in dims]):
            back = self.broadcast(value, [d for d in range(rank) if d not in dims], x.shape)
            return self.binary("sub", x, back)
        return value

    def makeArg(self):
        x = self.pick(lambda v: v.clean and v.dtype != "i1" and any(dim and not isinstance(dim, Batch) for dim in v.shape))
        if not x:
            return self.makeReduce()
        axis = self.random.choice([d for d, dim in enumerate(x.shape) if dim and not isinstance(dim, Batch)])
        extra = " {{select_last}}" if self.chance(0.3) else ""
        return self.emit(f"{self.choose('arg_max', 'arg_min')} {{0}} axis = {axis}{extra} : {{t0}}", [x],
                         x.shape[:axis] + x.shape[axis + 1:], "i64", (64, 0))

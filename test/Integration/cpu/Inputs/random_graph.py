"""Random graphs of the fusion dialect, with inputs.

A graph is grown op by op. The choice is biased to what breaks fusion: values
with several readers, interior values that are returned, shared constants, empty
and rank-0 tensors, broadcasts, NaN and infinities, negative integers. Values
stay small integers where the ops are closed on them ("exact" graphs), so that
any evaluator gives the same bits.

One module holds many graphs as parts of one @main: compiling is per module.
"""

import math
import random

import numpy as np

FLOATS = ["f64", "f32", "f16", "bf16"]
INTS = ["i8", "i32", "i64"]
NUMPY = {
    "f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": np.float32,
    "i1": np.bool_, "i8": np.int8, "i32": np.int32, "i64": np.int64,
}

# Closed on integers, so that every evaluator agrees.
EXACT_UNARY = {"float": ["neg", "abs", "sign", "ceil", "floor", "round", "relu"], "int": ["neg", "abs", "sign", "relu"]}
ANY_UNARY = ["exp", "tanh", "sigmoid", "sqrt", "erf", "silu", "rsqrt", "sin", "hard_swish", "log1p", "reciprocal"]
EXACT_BINARY = {"float": ["add", "sub", "mul", "max", "min"],
                "int": ["add", "sub", "mul", "max", "min", "and", "or", "xor", "div", "rem"]}
ANY_BINARY = ["div", "pow", "atan2"]


def tensor(shape, dtype):
    return "tensor<" + "".join(f"{size}x" for size in shape) + dtype + ">"


def numel(shape):
    return math.prod(shape)


class Value:
    def __init__(self, name, shape, dtype):
        self.name, self.shape, self.dtype = name, tuple(shape), dtype
        self.readers = 0

    @property
    def type(self):
        return tensor(self.shape, self.dtype)


class Graph:
    """One random graph; `prefix` keeps its names apart from those of others."""

    def __init__(self, seed, prefix, exact):
        self.random = random.Random(seed)
        self.data = np.random.default_rng(seed)
        self.prefix, self.exact = prefix, exact
        self.lines, self.inputs, self.values, self.outputs = [], [], [], []
        self.count = 0
        self.hot = None  # a value that several ops in a row read

    # Building blocks -----------------------------------------------------

    def emit(self, text, shape, dtype):
        """Appends an op; `text` is what stands behind the equals sign."""
        value = Value(f"%{self.prefix}v{self.count}", shape, dtype)
        self.count += 1
        self.lines.append(f"  {value.name} = fusion.{text}")
        self.values.append(value)
        return value

    def use(self, value):
        value.readers += 1
        return value.name

    def input(self, shape, dtype):
        """A new argument; bf16 comes as f32, which .npy has."""
        name = f"{self.prefix}x{len(self.inputs)}"
        value = Value("%" + name, shape, "f32" if dtype == "bf16" else dtype)
        self.inputs.append((name, value, self.make_data(shape, value.dtype)))
        self.values.append(value)
        return self.cast(value, dtype) if dtype == "bf16" else value

    def make_data(self, shape, dtype):
        if dtype == "i1":
            return self.data.integers(0, 2, shape).astype(np.bool_)
        array = self.data.integers(-4, 5, shape).astype(NUMPY[dtype])
        if dtype[0] == "f" and array.size and self.random.random() < 0.2:
            special = self.random.choice([np.nan, np.inf, -np.inf, -0.0])
            array.flat[self.random.randrange(array.size)] = special
        return array

    def constant(self, shape, dtype):
        if dtype == "i1":
            text = self.random.choice(["true", "false"])
        elif dtype in INTS:
            text = str(self.random.randint(-3, 4))
        else:
            text = f"{self.random.choice([-2, -1, 0, 1, 2, 3])}.0"
        # Not always a splat.
        if numel(shape) > 1 and len(shape) == 1 and dtype != "i1" and self.random.random() < 0.3:
            numbers = [self.random.randint(-3, 4) for _ in range(shape[0])]
            text = "[" + ", ".join(str(n) if dtype in INTS else f"{n}.0" for n in numbers) + "]"
        return self.emit(f"constant dense<{text}> : {tensor(shape, dtype)}", shape, dtype)

    def cast(self, value, dtype):
        return self.emit(f"cast {self.use(value)} : {value.type} to {tensor(value.shape, dtype)}", value.shape, dtype)

    def broadcast(self, value, dims, shape):
        return self.emit(f"broadcast {self.use(value)} dims = {list(dims)} : {value.type} to "
                         f"{tensor(shape, value.dtype)}", shape, value.dtype)

    def pick(self, accept=lambda value: True):
        """An existing value, recent and much read ones first; or None."""
        if self.hot and accept(self.hot) and self.random.random() < 0.35:
            return self.hot
        found = [value for value in self.values if accept(value)]
        if not found:
            return None
        value = self.random.choice(found[-6:] if self.random.random() < 0.6 else found)
        if self.random.random() < 0.15:
            self.hot = value
        return value

    def like(self, shape, dtype):
        """A value of this shape and type: an old one, or made in some way."""
        shape = tuple(shape)
        if self.random.random() < 0.65:
            value = self.pick(lambda v: v.shape == shape and v.dtype == dtype)
            if value:
                return value
        way = self.random.random()
        if way < 0.25:
            return self.constant(shape, dtype) if len(shape) < 2 or way < 0.12 else self.broadcast(
                self.constant((), dtype), [], shape)
        if way < 0.6 and shape:
            # From fewer dimensions, or with unit ones.
            dims = sorted(self.random.sample(range(len(shape)), self.random.randint(0, len(shape))))
            sizes = [1 if self.random.random() < 0.3 else shape[d] for d in dims]
            return self.broadcast(self.like(sizes, dtype) if way < 0.35 else self.input(sizes, dtype), dims, shape)
        if way < 0.75:
            value = self.pick(lambda v: v.shape == shape and v.dtype != dtype)
            if value:
                return self.cast(value, dtype)
        return self.input(shape, dtype)

    def shape(self):
        rank = self.random.choice([0, 1, 1, 2, 2, 2, 3, 3, 4])
        return tuple(self.random.choice([1, 2, 3, 4, 4, 5, 8]) if self.random.random() > 0.03 else 0 for _ in range(rank))

    # Ops -----------------------------------------------------------------

    def number(self):
        return self.pick(lambda v: v.dtype != "i1")

    def family(self, value):
        return "int" if value.dtype in INTS else "float"

    def unary(self):
        x = self.number()
        names = list(EXACT_UNARY[self.family(x)])
        if not self.exact and self.family(x) == "float":
            names += ANY_UNARY
        return self.emit(f"{self.random.choice(names)} {self.use(x)} : {x.type}", x.shape, x.dtype)

    def binary(self):
        x = self.number()
        names = list(EXACT_BINARY[self.family(x)])
        if not self.exact and self.family(x) == "float":
            names += ANY_BINARY
        y = x if self.random.random() < 0.1 else self.like(x.shape, x.dtype)
        if self.random.random() < 0.5:
            x, y = y, x
        return self.emit(f"{self.random.choice(names)} {self.use(x)}, {self.use(y)} : {x.type}", x.shape, x.dtype)

    def select(self):
        x = self.pick()
        kind = self.random.choice(["eq", "ne", "lt", "le", "gt", "ge"])
        y = self.like(x.shape, x.dtype)
        condition = self.emit(f"compare {kind}, {self.use(x)}, {self.use(y)} : {x.type}", x.shape, "i1")
        a, b = self.like(x.shape, x.dtype), self.like(x.shape, x.dtype)
        return self.emit(f"select {self.use(condition)}, {self.use(a)}, {self.use(b)} : {condition.type}, {a.type}",
                         x.shape, x.dtype)

    def clamp(self):
        x = self.number()
        low, high = self.like(x.shape, x.dtype), self.like(x.shape, x.dtype)
        return self.emit(f"clamp {self.use(x)}, {self.use(low)}, {self.use(high)} : {x.type}", x.shape, x.dtype)

    def convert(self):
        x = self.pick()
        return self.cast(x, self.random.choice([t for t in NUMPY if t != x.dtype]))

    def spread(self):
        x = self.pick(lambda v: len(v.shape) < 4 and numel(v.shape) <= 256)
        if not x:
            return self.unary()
        shape, dims = [], []
        for size in x.shape:
            if len(shape) < 3 and self.random.random() < 0.3:
                shape.append(self.random.choice([2, 3, 4]))
            dims.append(len(shape))
            shape.append(self.random.choice([2, 4]) if size == 1 and self.random.random() < 0.7 else size)
        if len(shape) < 4 and self.random.random() < 0.6:
            shape.append(self.random.choice([2, 3, 8]))
        return self.broadcast(x, dims, shape)

    def reshape(self):
        x = self.pick()
        sizes = [size for size in x.shape if size != 1]
        if len(sizes) > 1 and self.random.random() < 0.5:
            at = self.random.randrange(len(sizes) - 1)
            sizes[at:at + 2] = [sizes[at] * sizes[at + 1]]
        if len(sizes) < 4 and self.random.random() < 0.5:
            sizes.insert(self.random.randint(0, len(sizes)), 1)
        return self.emit(f"reshape {self.use(x)} : {x.type} to {tensor(sizes, x.dtype)}", sizes, x.dtype)

    def transpose(self):
        x = self.pick(lambda v: len(v.shape) > 1) or self.pick()
        order = list(range(len(x.shape)))
        self.random.shuffle(order)
        return self.emit(f"transpose {self.use(x)} permutation = {order} : {x.type}", [x.shape[d] for d in order], x.dtype)

    def slice(self):
        x = self.pick()
        starts, limits, strides, shape = [], [], [], []
        for size in x.shape:
            start = self.random.randint(0, size)
            limit = self.random.randint(start, size) if self.random.random() < 0.1 else max(start, min(size, start + self.random.randint(1, 8)))
            if start == limit and size and self.random.random() < 0.9:
                start, limit = 0, size
            stride = self.random.choice([1, 1, 2])
            starts.append(start), limits.append(limit), strides.append(stride)
            shape.append((limit - start + stride - 1) // stride)
        return self.emit(f"slice {self.use(x)} starts = {starts} limits = {limits} strides = {strides} : {x.type}", shape, x.dtype)

    def reverse(self):
        x = self.pick()
        dims = sorted(self.random.sample(range(len(x.shape)), self.random.randint(0, len(x.shape))))
        return self.emit(f"reverse {self.use(x)} dims = {dims} : {x.type}", x.shape, x.dtype)

    def concat(self):
        x = self.pick(lambda v: len(v.shape) > 0 and numel(v.shape) <= 256)
        if not x:
            return self.unary()
        axis = self.random.randrange(len(x.shape))
        parts = [x]
        for _ in range(self.random.randint(1, 2)):
            other = list(x.shape)
            other[axis] = self.random.choice([x.shape[axis], 1, 2])
            parts.append(self.like(other, x.dtype))
        self.random.shuffle(parts)
        shape = list(x.shape)
        shape[axis] = sum(part.shape[axis] for part in parts)
        return self.emit(f"concat {', '.join(self.use(p) for p in parts)} axis = {axis} : {', '.join(p.type for p in parts)}",
                         shape, x.dtype)

    def pad(self):
        x = self.pick(lambda v: numel(v.shape) <= 256)
        if not x:
            return self.unary()
        value = self.like((), x.dtype)
        low = [self.random.choice([0, 0, 1, 2]) for _ in x.shape]
        high = [self.random.choice([0, 0, 1]) for _ in x.shape]
        return self.emit(f"pad {self.use(x)}, {self.use(value)} low = {low} high = {high} : {x.type}, {value.type}",
                         [a + s + b for a, s, b in zip(low, x.shape, high)], x.dtype)

    def gather(self):
        x = self.pick(lambda v: len(v.shape) > 0 and all(v.shape))
        if not x:
            return self.unary()
        axis = self.random.randrange(len(x.shape))
        indices = self.like([self.random.choice([1, 2, 3])] if self.random.random() < 0.7 else [], self.random.choice(["i32", "i64"]))
        shape = x.shape[:axis] + indices.shape + x.shape[axis + 1:]
        return self.emit(f"gather {self.use(x)}, {self.use(indices)} axis = {axis} : {x.type}, {indices.type}", shape, x.dtype)

    def iota(self):
        shape = self.shape() or (3,)
        dtype = self.random.choice(["i32", "i64", "f32"])
        return self.emit(f"iota axis = {self.random.randrange(len(shape))} : {tensor(shape, dtype)}", shape, dtype)

    def update_slice(self):
        x = self.pick(lambda v: len(v.shape) in (1, 2) and numel(v.shape) > 0)
        if not x:
            return self.unary()
        update = self.like([self.random.randint(1, size) for size in x.shape], x.dtype)
        starts = [self.like((), "i64") for _ in x.shape]
        return self.emit(f"update_slice {self.use(x)}, {self.use(update)} at ({', '.join(self.use(s) for s in starts)}) : "
                         f"{x.type}, {update.type}, {', '.join(s.type for s in starts)}", x.shape, x.dtype)

    def scatter(self):
        x = self.pick(lambda v: len(v.shape) in (1, 2, 3) and v.dtype != "i1" and numel(v.shape) > 0)
        if not x:
            return self.unary()
        rows = self.random.choice([1, 2, 3])
        indices = self.like((rows, 1), "i64")
        updates = self.like((rows,) + x.shape[1:], x.dtype)
        kind = self.random.choice(["set", "add", "min", "max"])
        return self.emit(f"scatter {kind}, {self.use(x)}, {self.use(indices)}, {self.use(updates)} : {x.type}, "
                         f"{indices.type}, {updates.type}", x.shape, x.dtype)

    def reduce(self):
        x = self.pick(lambda v: len(v.shape) > 0 and v.dtype != "i1")
        if not x:
            return self.unary()
        rank = len(x.shape)
        begin = self.random.randrange(rank)
        dims = list(range(begin, self.random.randint(begin, rank - 1) + 1))
        if self.random.random() < 0.5:
            dims = list(range(begin, rank))
        elif self.random.random() < 0.2:
            dims = sorted(self.random.sample(range(rank), self.random.randint(1, rank)))
        kinds = ["sum", "sum", "prod"]
        if all(x.shape[d] for d in dims):
            kinds += ["max", "min"]
        if self.family(x) == "float" and not self.exact:
            kinds.append("mean")
        shape = [size for d, size in enumerate(x.shape) if d not in dims]
        value = self.emit(f"reduce {self.random.choice(kinds)}, {self.use(x)} dims = {dims} : {x.type}", shape, x.dtype)
        # Often back to the rows, as norms do.
        if self.random.random() < 0.5:
            back = self.broadcast(value, [d for d in range(rank) if d not in dims], x.shape)
            return self.emit(f"sub {self.use(x)}, {self.use(back)} : {x.type}", x.shape, x.dtype)
        return value

    def norm(self):
        if self.exact:
            return self.reduce()
        x = self.pick(lambda v: len(v.shape) > 0 and v.dtype[0] != "i" and all(v.shape))
        if not x:
            return self.unary()
        rank = len(x.shape)
        kind = self.random.choice(["softmax", "softmax", "log_softmax", "layer_norm", "rms_norm"])
        if "softmax" in kind:
            axis = rank - 1 if self.random.random() < 0.7 else self.random.randrange(rank)
            return self.emit(f"{kind} {self.use(x)} axis = {axis} : {x.type}", x.shape, x.dtype)
        axis = self.random.randrange(rank)
        scale, suffix = "", ""
        if self.random.random() < 0.6:
            gain = self.like(x.shape[axis:], x.dtype)
            scale, suffix = f" scale {self.use(gain)}", f", {gain.type}"
        return self.emit(f"{kind} {self.use(x)}{scale} epsilon = 1.0e-3 axis = {axis} : {x.type}{suffix}", x.shape, x.dtype)

    def arg(self):
        x = self.pick(lambda v: len(v.shape) > 0 and v.dtype != "i1" and all(v.shape))
        if not x:
            return self.unary()
        axis = self.random.randrange(len(x.shape))
        return self.emit(f"{self.random.choice(['arg_max', 'arg_min'])} {self.use(x)} axis = {axis} : {x.type}",
                         x.shape[:axis] + x.shape[axis + 1:], "i64")

    def matmul(self):
        x = self.pick(lambda v: len(v.shape) in (2, 3) and v.dtype != "i1")
        if not x:
            return self.unary()
        w = self.like((x.shape[-1], self.random.choice([1, 3, 4, 8])), x.dtype)
        return self.emit(f"matmul {self.use(x)}, {self.use(w)} : {x.type}, {w.type}", x.shape[:-1] + w.shape[1:], x.dtype)

    def conv(self):
        dtype = self.random.choice(["f32", "f32", "f32", "f16", "f64"])
        channels, filters = self.random.choice([(2, 4), (4, 4), (3, 2)])
        x = self.like((1, 5, 4, channels), dtype)
        w = self.input((filters, channels, 3, 3), dtype)
        return self.emit(f"conv {self.use(x)}, {self.use(w)} strides = [1, 1] pad_low = [1, 1] pad_high = [1, 1] "
                         f"dilations = [1, 1] groups = 1 layout = nhwc : {x.type}, {w.type}", (1, 5, 4, filters), dtype)

    def pool(self):
        x = self.pick(lambda v: len(v.shape) == 4 and v.dtype in FLOATS and v.shape[1] >= 2 and v.shape[2] >= 2)
        if not x:
            return self.conv()
        kind = "max_pool" if self.exact else self.random.choice(["max_pool", "avg_pool"])
        n, h, w, c = x.shape
        return self.emit(f"{kind} {self.use(x)} window = [2, 2] strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] "
                         f"dilations = [1, 1] layout = nhwc : {x.type}", (n, h - 1, w - 1, c), x.dtype)

    # The whole -----------------------------------------------------------

    def grow(self):
        dtype = self.random.choice(FLOATS[1:2] * 3 + FLOATS + INTS)
        self.input(self.shape(), dtype)
        self.input(self.shape(), self.random.choice(FLOATS + INTS))
        makers = [(self.unary, 6), (self.binary, 10), (self.select, 1), (self.clamp, 1), (self.convert, 1), (self.spread, 2),
                  (self.reshape, 2), (self.transpose, 1), (self.slice, 1), (self.reverse, 0.5), (self.concat, 0.7),
                  (self.pad, 0.5), (self.gather, 0.7), (self.iota, 0.3), (self.update_slice, 0.4), (self.scatter, 0.5),
                  (self.reduce, 3), (self.norm, 1.5), (self.arg, 0.4), (self.matmul, 1.5), (self.conv, 0.5), (self.pool, 0.5)]
        ops, weights = zip(*makers)
        target = self.random.randint(3, 24)
        while self.count < target:
            op = self.random.choices(ops, weights)[0]
            if numel(op().shape) > 4096:
                self.values.pop()  # too large to go on with; it dies
        # What nothing reads, and some of what is inside.
        made = [v for v in self.values if v.name[1:].startswith(self.prefix + "v") and numel(v.shape) <= 4096]
        self.outputs = [v for v in made if v.readers == 0 or self.random.random() < 0.12] or made[-1:]
        self.outputs = [self.cast(v, "f32") if v.dtype == "bf16" else v for v in self.outputs]
        return self


class Module:
    """Graphs side by side in one @main."""

    def __init__(self, seeds, exact):
        self.graphs = []
        for i, seed in enumerate(seeds):
            graph = Graph(seed, f"g{i}_", exact).grow()
            if graph.outputs:
                self.graphs.append(graph)

    @property
    def inputs(self):
        return {name: array for graph in self.graphs for name, _, array in graph.inputs}

    @property
    def text(self):
        arguments = [f"{value.name}: {value.type} {{fusion.name = \"{name}\"}}" for g in self.graphs for name, value, _ in g.inputs]
        outputs = [value for graph in self.graphs for value in graph.outputs]
        names = [f"{graph.prefix}y{i}" for graph in self.graphs for i in range(len(graph.outputs))]
        results = ", ".join(f"{v.type} {{fusion.name = \"{name}\"}}" for v, name in zip(outputs, names))
        body = "\n".join(line for graph in self.graphs for line in graph.lines)
        return (f"func.func @main({', '.join(arguments)}) -> ({results}) {{\n{body}\n"
                f"  return {', '.join(v.name for v in outputs)} : {', '.join(v.type for v in outputs)}\n}}\n")

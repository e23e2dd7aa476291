"""Random programs with random cuts, of ops that are closed on small integers."""

import itertools

from _ranks import Graph, typeOf

MESHES = ({"dp": 2}, {"dp": 3}, {"dp": 4}, {"dp": 2, "tp": 2}, {"tp": 3, "dp": 2}, {"dp": 4, "tp": 2}, {"a": 2, "b": 2, "c": 2})


class Maker:
    """Grows one program; every value stays within [-4, 4]."""

    def __init__(self, seed, generator):
        self.g, self.random = Graph(**MESHES[seed % len(MESHES)]), generator
        self.values = []
        self.names = itertools.count()

    def choose(self, items):
        items = list(items)
        return items[int(self.random.integers(len(items)))] if items else None

    def sharding(self, rank):
        """Each axis on some dimension, or on none."""
        lists = [[] for _ in range(rank)]
        for axis in self.random.permutation(list(self.g.mesh)):
            dim = int(self.random.integers(-1, rank)) if rank else -1
            if dim >= 0:
                lists[dim].append(str(axis))
        return lists

    def input(self, shape):
        cut = self.sharding(len(shape)) if self.random.random() < 0.7 else None
        self.values.append(self.g.input(f"x{next(self.names)}", shape, cut))
        return self.values[-1]

    def partner(self, shape):
        """A value of this shape, or a new input."""
        return self.choose(v for v in self.values if v[1] == shape) if self.random.random() < 0.8 and \
            any(v[1] == shape for v in self.values) else self.input(shape)

    def bound(self, x):
        low, high = self.g.splat(-4, x[1]), self.g.splat(4, x[1])
        return self.g.binary("max", self.g.binary("min", x, high), low)

    def step(self):
        g, r = self.g, self.random
        x = self.choose(self.values)
        shape, rank = x[1], len(x[1])
        kind = self.choose(("binary", "binary", "relu", "transpose", "reshape", "slice", "concat", "reduce", "reduce", "matmul",
                            "matmul", "broadcast", "pad", "reverse", "gather", "scatter", "iota", "add partial"))
        dim = int(r.integers(rank)) if rank else 0
        if kind == "binary":
            y = g.binary(self.choose(("add", "sub", "max", "min", "mul")), x, self.partner(shape))
            return self.bound(y)
        if kind == "relu" or rank == 0:
            return g.unary("relu", x)
        if kind == "transpose":
            return g.transpose(x, [int(i) for i in r.permutation(rank)])
        if kind == "reshape":
            at = int(r.integers(rank))
            if rank > 1 and r.random() < 0.5:
                at = min(at, rank - 2)
                return g.reshape(x, shape[:at] + (shape[at] * shape[at + 1],) + shape[at + 2:])
            factor = self.choose(n for n in (1, 2, 3) if shape[at] % n == 0)
            parts = (factor, shape[at] // factor) if r.random() < 0.5 else (shape[at] // factor, factor)
            return g.reshape(x, shape[:at] + parts + shape[at + 1:])
        if kind == "slice":
            start = int(r.integers(shape[dim])) if shape[dim] > 1 else 0
            stop = int(r.integers(start + 1, shape[dim] + 1))
            starts, limits = [0] * rank, list(shape)
            starts[dim], limits[dim] = start, stop
            return g.op(f"slice {x[0]} starts = {starts} limits = {limits} strides = {[1] * rank} : {typeOf(shape)}",
                        [b - a for a, b in zip(starts, limits)])
        if kind == "concat":
            y = self.partner(shape)
            return g.op(f"concat {x[0]}, {y[0]} axis = {dim} : {typeOf(shape)}, {typeOf(shape)}",
                        shape[:dim] + (2 * shape[dim],) + shape[dim + 1:])
        if kind == "reduce":
            dims = sorted({dim, int(r.integers(rank))})
            return self.bound(g.reduce(self.choose(("sum", "max", "min")), x, dims))
        if kind == "matmul" and rank == 2:
            n, tx, ty = int(r.integers(1, 6)), r.random() < 0.4, r.random() < 0.4
            k = shape[0] if tx else shape[1]
            return self.bound(g.matmul(x, self.partner((n, k) if ty else (k, n)), tx, ty))
        if kind == "broadcast":
            at, size = int(r.integers(rank + 1)), int(r.integers(1, 5))
            return g.broadcast(x, [i for i in range(rank + 1) if i != at], shape[:at] + (size,) + shape[at:])
        if kind == "pad":
            low, high, v = [0] * rank, [0] * rank, g.constant(2)
            low[dim], high[dim] = int(r.integers(2)), int(r.integers(2))
            return g.op(f"pad {x[0]}, {v[0]} low = {low} high = {high} : {typeOf(shape)}, tensor<f32>",
                        [n + a + b for n, a, b in zip(shape, low, high)])
        if kind == "reverse":
            return g.op(f"reverse {x[0]} dims = [{dim}] : {typeOf(shape)}", shape)
        if kind == "gather":
            count = int(r.integers(1, 5))
            i = g.input(f"i{next(self.names)}", (count,), self.sharding(1), "i64")
            return g.gather(x, i, dim)
        if kind == "scatter":
            count = int(r.integers(1, 6))
            i = g.input(f"i{next(self.names)}", (count, 1), self.sharding(2)[:1] + [[]], "i64")
            u = self.partner((count,) + shape[1:])
            return self.bound(g.scatter(self.choose(("add", "max", "set")), x, i, u))
        if kind == "iota":
            i = g.op(f"iota axis = {dim} : {typeOf(shape)}", shape)
            return self.bound(g.binary("add", x, i))
        if kind == "add partial":
            y = self.partner(shape)
            dims = [dim]
            return self.bound(g.binary(self.choose(("add", "sub")), g.reduce("sum", x, dims), g.reduce("sum", y, dims)))
        return g.unary("relu", x)


def randomProgram(seed, generator, steps=12):
    maker = Maker(seed, generator)
    for _ in range(2):
        maker.input(tuple(int(n) for n in generator.integers(1, 8, int(generator.integers(1, 4)))))
    for _ in range(steps):
        value = maker.step()
        size = 1
        for n in value[1]:
            size *= n
        if len(value[1]) <= 4 and size <= 4096:
            maker.values.append(value)
    results = [v for v in maker.values if v[0].startswith("%v")] or maker.values
    for i, value in enumerate(results[-4:]):
        cut = maker.sharding(len(value[1])) if generator.random() < 0.4 else None
        maker.g.output(f"y{i}", value, cut)
    return maker.g

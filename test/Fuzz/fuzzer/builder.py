# ===- builder.py - Growing one random graph ------------------------------=== #
#
# What every maker of ops needs: operands of a wanted type, old or new; constants,
# inputs with their data; and the bookkeeping of which results are exact.
#
# ===----------------------------------------------------------------------=== #
"""The base of the generator: values, constants, inputs."""

import math
import random

import numpy as np

from data import FLOATS, INTS, PRECISION, coarsest, decode, encode
from graph import Batch, Graph, Module, Op, Value, isStatic, sizesAt

LARGEST_TENSOR = 4096


def elements(shape):
    return math.prod(sizesAt(shape, Module.MAX_BATCH))


def join(*values):
    """The magnitude of a value that is one of these at each place."""
    found = [value.magnitude for value in values]
    return None if None in found else (max(b for b, _ in found), max(f for _, f in found))


def whole(dtype):
    """The magnitude of any integer of this type."""
    return ({"i1": 1, "i8": 2**7, "i32": 2**31, "i64": 2**63}[dtype], 0)


def bounds(array, dtype):
    """The magnitude of data that are small multiples of a quarter, or an integer's
    least one."""
    if dtype in FLOATS:
        numbers = decode(array, dtype)
        numbers = np.abs(numbers[np.isfinite(numbers)])
        for fraction in range(3):
            scaled = numbers * 2**fraction
            if (scaled == np.floor(scaled)).all():
                return (max(4, math.ceil(numbers.max(initial=0))), fraction)
        return None
    return (4, 0) if not array.size or np.abs(array.astype(np.float64)).max() <= 4 else whole(dtype)


class Builder:
    """Grows `graph`. `exact` graphs hold only ops whose results any evaluator
    agrees on, bit for bit; `dynamic` ones may have a batch dimension."""

    def __init__(self, key, exact, dynamic):
        self.random = random.Random(key)
        self.data = np.random.default_rng(self.random.getrandbits(64))
        self.exact, self.dynamic = exact, dynamic
        self.graph = Graph(key)
        self.values = []
        self.hot = None  # a value that several ops in a row read
        self.next = None  # what the next op reads, where it can

    # Values -----------------------------------------------------------------

    def emit(self, template, operands, shape, dtype, magnitude=None, rounds=False, data=None):
        """Appends an op of one result."""
        return self.emitMany(template, operands, [(shape, dtype)], magnitude, rounds, data)[0]

    def emitMany(self, template, operands, types, magnitude=None, rounds=False, data=None):
        clean = not rounds and all(value.clean for value in operands)
        results = []
        before = [value.rounded for value in operands if not value.clean]
        for shape, dtype in types:
            own = magnitude if clean else None
            rounded = None if clean else coarsest(dtype, *before)
            if own and dtype in FLOATS and math.log2(max(own[0], 1)) + own[1] > PRECISION[dtype]:
                own = None
            results.append(Value(shape, dtype, own, clean, rounded))
        for value in operands:
            value.readers += 1
        self.graph.ops.append(Op(template, operands, results, data))
        self.values += [value for value in results if elements(value.shape) <= LARGEST_TENSOR]
        return results

    def chance(self, probability):
        return self.random.random() < probability

    def choose(self, *options):
        return self.random.choice(options)

    def numbers(self, shape, dtype, special):
        """Small integers; `special` adds a NaN, an infinity or a negative zero."""
        if dtype == "i1":
            return self.data.integers(0, 2, shape).astype(bool)
        array = self.data.integers(-4, 5, shape).astype(np.float64)
        if special and dtype in FLOATS and array.size:
            array.flat[self.random.randrange(array.size)] = self.choose(np.nan, np.inf, -np.inf, -0.0)
        if dtype in INTS and array.size and self.chance(0.05):
            array.flat[self.random.randrange(array.size)] = -128 if dtype == "i8" else -2.0**31
        return encode(array, dtype)


    def input(self, shape, dtype, special=None):
        special = self.chance(0.15) if special is None else special
        array = self.numbers(sizesAt(shape, Module.MAX_BATCH), dtype, special)
        value = Value(shape, dtype, bounds(array, dtype))
        self.graph.inputs.append((value, array))
        self.values.append(value)
        return value

    def constant(self, shape, dtype, array=None):
        """Of a static shape; a splat half of the time."""
        if array is None:
            array = self.numbers(shape, dtype, self.chance(0.05))
            if self.chance(0.5) and array.size:
                array = np.full(shape, array.flat[0], array.dtype)
        array = np.asarray(array).reshape(shape)
        return self.emit("constant dense<{data}> : {r}", [], shape, dtype, bounds(array, dtype), data=array)

    def parameter(self, shape, dtype):
        """A weight that comes with the model."""
        array = self.numbers(shape, dtype, False)
        return self.emit("get_parameter @{symbol} : {r}", [], shape, dtype, bounds(array, dtype), data=array)

    def splat(self, shape, dtype, number):
        """The same number everywhere, of any shape."""
        scalar = self.emit("constant dense<{data}> : {r}", [], (), dtype, self.splatMagnitude(number, dtype),
                           data=encode(np.asarray(number), dtype))
        return self.broadcast(scalar, [], shape) if shape else scalar

    def splatMagnitude(self, number, dtype):
        if number == round(number * 4) / 4:
            return (max(abs(number), 1), 0 if number == int(number) else 2)
        return None

    def broadcast(self, value, dims, shape):
        if not self.canAppear([dim for i, dim in enumerate(shape) if i not in dims or value.shape[dims.index(i)] == 1]):
            raise Unmakable
        scales = [dim.scale for i, dim in enumerate(shape) if isinstance(dim, Batch) and (
            i not in dims or value.shape[dims.index(i)] == 1)]
        scale = f" {{{{batch_scale = {scales[0]} : i64}}}}" if scales and scales[0] != 1 else ""
        return self.emit(f"broadcast {{0}} dims = {list(dims)}{scale} : {{t0}} to {{r}}", [value], shape, value.dtype,
                         value.magnitude)

    def cast(self, value, dtype):
        magnitude = value.magnitude if dtype in FLOATS else whole(dtype)
        return self.emit("cast {0} : {t0} to {r}", [value], value.shape, dtype, magnitude)

    def unary(self, name, value, magnitude=None, rounds=False, extra=""):
        return self.emit(f"{name} {{0}}{extra} : {{t0}}", [value], value.shape, value.dtype, magnitude, rounds)

    def binary(self, name, x, y, rounds=False):
        magnitude = None
        if x.magnitude and y.magnitude:
            (a, f), (b, g) = x.magnitude, y.magnitude
            magnitude = {"add": (a + b, max(f, g)), "sub": (a + b, max(f, g)), "mul": (a * b, f + g),
                         "max": join(x, y), "min": join(x, y)}.get(name)
        if x.dtype not in FLOATS:
            magnitude = whole(x.dtype)
        return self.emit(f"{name} {{0}}, {{1}} : {{t0}}", [x, y], x.shape, x.dtype, magnitude, rounds)

    def tame(self, value):
        """A value of which sums are exact: rounded and clamped where needed."""
        if value.dtype not in FLOATS or not self.exact:
            return value
        magnitude = value.magnitude
        if magnitude and magnitude[0] <= 64 and magnitude[1] <= 2:
            return value
        if not value.clean:
            return value
        rounded = self.unary("round", value)
        low, high = self.splat(value.shape, value.dtype, -4), self.splat(value.shape, value.dtype, 4)
        result = self.emit("clamp {0}, {1}, {2} : {t0}", [rounded, low, high], value.shape, value.dtype, (4, 0))
        return result

    # Choosing operands ------------------------------------------------------

    def pick(self, accept=lambda value: True):
        """An existing value, recent and much read ones first; or None."""
        if self.next and accept(self.next):
            return self.next
        if self.hot and self.chance(0.35) and accept(self.hot):
            return self.hot
        found = [value for value in self.values if accept(value)]
        if not found:
            return None
        value = self.random.choice(found[-6:] if self.chance(0.6) else found)
        if self.chance(0.15):
            self.hot = value
        return value

    def follow(self, x, makers, count):
        """`count` ops of the makers, each on the result of the one before."""
        for _ in range(count):
            self.next = x
            try:
                x = getattr(self, self.random.choice(makers))() or x
            finally:
                self.next = None
        return x

    def number(self, *, clean=False):
        found = self.pick(lambda v: v.dtype != "i1" and (v.clean or not clean))
        return found or self.input(self.shape(), self.dtype().replace("i1", "f32"))

    def floating(self, *, clean=False, accept=lambda value: True):
        found = self.pick(lambda v: v.dtype in FLOATS and (v.clean or not clean) and accept(v))
        return found

    def like(self, shape, dtype, *, clean=False):
        """A value of this shape and type: an old one, or made in some way."""
        shape = tuple(shape)
        if self.chance(0.6):
            value = self.pick(lambda v: v.shape == shape and v.dtype == dtype and (v.clean or not clean))
            if value:
                return value
        way = self.random.random()
        if way < 0.12 and isStatic(shape):
            return self.constant(shape, dtype)
        if way < 0.25:
            scalar = self.constant((), dtype)
            return self.broadcast(scalar, [], shape) if shape and self.canAppear(shape) else self.fresh(shape, dtype)
        if way < 0.6 and shape:
            # From fewer dimensions, or with unit ones.
            dims = sorted(self.random.sample(range(len(shape)), self.random.randint(0, len(shape))))
            sizes = [1 if self.chance(0.3) else shape[d] for d in dims]
            if self.canAppear([dim for d, dim in enumerate(shape) if d not in dims or sizes[dims.index(d)] == 1]):
                return self.broadcast(self.fresh(sizes, dtype) if way > 0.35 else self.like(sizes, dtype, clean=clean),
                                      dims, shape)
        if way < 0.75 and dtype in FLOATS:
            value = self.pick(lambda v: v.shape == shape and v.dtype != dtype and (v.clean or not clean))
            if value:
                return self.cast(value, dtype)
        return self.fresh(shape, dtype)

    def canAppear(self, dims):
        """Whether a broadcast can make these dimensions: batches of one scale."""
        batches = {dim for dim in dims if isinstance(dim, Batch)}
        return len(batches) <= 1 and all(dim.offset == 0 for dim in batches)

    def fresh(self, shape, dtype):
        """An input; or, where a dimension is no plain batch, what has that shape."""
        if all(not isinstance(dim, Batch) or dim == Batch(1) for dim in shape):
            return self.input(shape, dtype)
        if self.canAppear(shape):
            return self.broadcast(self.input([1] * len(shape), dtype), range(len(shape)), shape)
        value = self.pick(lambda v: v.shape == tuple(shape) and v.clean)
        if value is None:
            raise Unmakable
        # A comparison with itself has the shape, whatever the type.
        condition = self.emit("compare eq, {0}, {1} : {t0}", [value, value], shape, "i1", (1, 0))
        return condition if dtype == "i1" else self.cast(condition, dtype)

    def shape(self):
        rank = self.choose(0, 1, 1, 2, 2, 2, 3, 3, 4)
        sizes = [self.choose(1, 2, 3, 4, 4, 5, 8) if not self.chance(0.03) else 0 for _ in range(rank)]
        if rank and self.chance(0.05):
            sizes[self.random.randrange(rank)] = self.choose(13, 15, 16, 17, 31, 33)
        if self.dynamic and rank and self.chance(0.7):
            sizes[0 if self.chance(0.9) else self.random.randrange(rank)] = Batch(1)
        return tuple(sizes)

    def dtype(self):
        return self.random.choice(["f32"] * 5 + FLOATS + INTS + (["i1"] if self.chance(0.3) else []))


class Unmakable(Exception):
    """No value of the wanted shape can be made; the maker gives up."""

# ===- graph.py - A graph as data: what the reducer can cut ----------------=== #
#
# Ops are records over values, printed late: names, types and constants are made
# when the text is written. So a value can be replaced, an op dropped, a size
# shrunk, and the same graph printed once more with every float as f64.
#
# ===----------------------------------------------------------------------=== #
"""Values, ops, graphs, and modules of many graphs."""

import copy
import math
import re
from typing import NamedTuple

import numpy as np

from data import FLOATS, INTS, decode, encode


class Batch(NamedTuple):
    """A dimension `scale * B + offset` of a graph with a dynamic batch."""

    scale: int
    offset: int = 0


def extent(dim, batch):
    return dim.scale * batch + dim.offset if isinstance(dim, Batch) else dim


def sizesAt(shape, batch):
    return tuple(extent(dim, batch) for dim in shape)


def isStatic(shape):
    return not any(isinstance(dim, Batch) for dim in shape)


class Value:
    """`magnitude` is (bound, fraction bits) if every finite element is a multiple
    of 2^-fraction below the bound, so that sums are exact; else None. `clean`:
    every evaluator gives the same bits. `rounded`, of others: the coarsest float
    type that a value that isn't clean had on the way here, which says how near
    results can be: a cast to a finer type brings nothing back."""

    def __init__(self, shape, dtype, magnitude=None, clean=True, rounded=None):
        self.shape, self.dtype = tuple(shape), dtype
        self.magnitude, self.clean, self.rounded = magnitude, clean, rounded or dtype
        self.readers = 0

    def type(self, wide=False):
        dims = "".join(("?" if isinstance(dim, Batch) else str(dim)) + "x" for dim in self.shape)
        return f"tensor<{dims}{'f64' if wide and self.dtype in FLOATS else self.dtype}>"


# Sums of products that a library may begin with their first term: their zeros may
# have another sign than the reference's (docs/tolerances.md).
PRODUCTS = {"matmul", "conv", "conv_transpose", "attention"}


class Op:
    """`template` has {0}, {1} for operands, {t0} for their types, {r} for the
    result's type, {all} and {types} for all of them, {symbol} for a parameter."""

    def __init__(self, template, operands, results, data=None):
        self.template, self.operands, self.results = template, list(operands), list(results)
        self.data = data  # of a constant or a parameter

    @property
    def name(self):
        return self.template.split(" ", 1)[0]

    def symbol(self, names):
        return names[self.results[0]].removeprefix("%")

    def declaration(self, names, wide):
        """What stands before the function: a parameter and its bytes."""
        if self.name != "get_parameter":
            return ""
        kind = self.results[0].type(wide)
        dense = denseText(self.data, self.results[0].dtype, wide)
        return f"fusion.parameter @{self.symbol(names)} const value dense<{dense}> : {kind} : {kind}\n"

    @property
    def isProduct(self):
        return self.name in PRODUCTS and self.results[0].dtype in FLOATS

    def text(self, names, wide, signs=False):
        """`signs`: zeros of a product are negative, all others as they are."""
        if signs and self.isProduct:
            name, kind = names[self.results[0]], self.results[0].type(wide)
            test = kind[:kind.rindex("x") + 1] + "i1>"
            return "\n".join([self.text({**names, self.results[0]: name + "p"}, wide),
                              f"  {name}z = fusion.sub {name}p, {name}p : {kind}",
                              f"  {name}a = fusion.abs {name}z : {kind}", f"  {name}n = fusion.neg {name}a : {kind}",
                              f"  {name}c = fusion.compare eq, {name}p, {name}z : {kind}",
                              f"  {name} = fusion.select {name}c, {name}n, {name}p : {test}, {kind}"])
        types = [value.type(wide) for value in self.operands]
        fields = {f"t{i}": kind for i, kind in enumerate(types)}
        fields.update(all=", ".join(names[v] for v in self.operands), types=", ".join(types),
                      r=self.results[0].type(wide), symbol=self.symbol(names))
        if self.data is not None:
            fields["data"] = denseText(self.data, self.results[0].dtype, wide)
        body = self.template.format(*(names[value] for value in self.operands), **fields)
        return f"  {', '.join(names[value] for value in self.results)} = fusion.{body}"


def denseText(array, dtype, wide):
    """The elements of a `dense` attribute; those that decimals can't say as bits."""
    kind = "f64" if wide and dtype in FLOATS else dtype

    def number(value):
        if dtype == "i1":
            return "true" if value else "false"
        if dtype in INTS:
            return str(int(value))
        decimal = repr(float(value))
        if math.isfinite(value) and "e" not in decimal and not decimal.startswith("-0.0"):
            return decimal
        stored = encode(np.asarray(float(value)), kind)
        return f"0x{int(stored.view(f'u{stored.dtype.itemsize}')):0{2 * stored.dtype.itemsize}X}"

    def nest(part):
        return "[" + ", ".join(map(nest, part)) + "]" if part.ndim else number(part.item())

    numbers = decode(array, dtype)
    if numbers.size == 0:
        return ""
    # Equal elements as a splat, as an importer writes them.
    flat = [number(value) for value in numbers.reshape(-1)]
    return flat[0] if len(set(flat)) == 1 else nest(numbers)


class Graph:
    """`inputs` are pairs (value, numbers for the largest batch)."""

    def __init__(self, key):
        self.key = key
        self.inputs, self.ops, self.outputs = [], [], []
        self.donated = {}  # value of an input -> value of an output

    def clone(self):
        return copy.deepcopy(self)

    def prune(self):
        """Drops what no output needs."""
        needed, kept = set(self.outputs), []
        for op in reversed(self.ops):
            if needed.intersection(op.results):
                kept.append(op)
                needed.update(op.operands)
        self.ops = kept[::-1]
        self.inputs = [(value, array) for value, array in self.inputs if value in needed]
        live = {value for value, _ in self.inputs}
        self.donated = {a: r for a, r in self.donated.items() if a in live and r in self.outputs}
        return self

    def replace(self, old, new):
        for op in self.ops:
            op.operands = [new if value is old else value for value in op.operands]
        self.outputs = [new if value is old else value for value in self.outputs]

    def ofProducts(self):
        """The values that come from a product, in however many steps."""
        found = set()
        for op in self.ops:
            if op.isProduct or found.intersection(op.operands):
                found.update(op.results)
        return found

    @property
    def isDynamic(self):
        return any(not isStatic(v.shape) for v, _ in self.inputs) or any(
            not isStatic(v.shape) for op in self.ops for v in op.results)


class Module:
    """Graphs side by side in one @main: starting a process costs more than a
    graph, and neighbours are what horizontal fusion looks for."""

    MAX_BATCH = 4

    def __init__(self, graphs):
        self.graphs = list(graphs)

    def clone(self):
        return Module([graph.clone() for graph in self.graphs])

    @property
    def isDynamic(self):
        return any(graph.isDynamic for graph in self.graphs)

    def outputs(self):
        """(graph's index, file stem, value) of each result, in order."""
        return [(g, f"g{g}_y{i}", value) for g, graph in enumerate(self.graphs) for i, value in enumerate(graph.outputs)]

    def inputs(self):
        return [(f"g{g}_x{i}", value, array) for g, graph in enumerate(self.graphs)
                for i, (value, array) in enumerate(graph.inputs)]

    def arrays(self, batch, wide=False):
        """Input arrays by name for one batch size."""
        found = {}
        for name, value, array in self.inputs():
            array = array[tuple(slice(size) for size in sizesAt(value.shape, batch))]
            found[name] = decode(array, value.dtype) if wide else array
        return found

    def text(self, wide=False, signs=False):
        results = [value for _, _, value in self.outputs()]
        arguments, names = [], {}
        for name, value, _ in self.inputs():
            names[value] = "%" + name
        for g, graph in enumerate(self.graphs):
            for i, (value, _) in enumerate(graph.inputs):
                extra = ""
                if value in graph.donated:
                    extra = f"fusion.donated = {results.index(graph.donated[value])} : i64, "
                arguments.append(f'{names[value]}: {value.type(wide)} {{{extra}fusion.name = "g{g}_x{i}"}}')
        lines, parameters = [], []
        for g, graph in enumerate(self.graphs):
            count = 0
            for op in graph.ops:
                for value in op.results:
                    names[value] = f"%g{g}_v{count}"
                    count += 1
                lines.append(op.text(names, wide, signs))
                parameters.append(op.declaration(names, wide))
        types = ", ".join(f'{value.type(wide)} {{fusion.name = "{name}"}}' for _, name, value in self.outputs())
        batch = f" attributes {{fusion.batch = array<i64: 1, {self.MAX_BATCH}>}}" if self.isDynamic else ""
        body = "\n".join(lines)
        return "".join(parameters) + (
            f"func.func @main({', '.join(arguments)}) -> ({types}){batch} {{\n{body}\n"
            f"  return {', '.join(names[v] for v in results)} : {', '.join(v.type(wide) for v in results)}\n}}\n")


def shrinkSizes(module, old, new):
    """The module with every static size `old` made `new`; it may be invalid."""
    module = module.clone()

    def shrink(shape):
        return tuple(new if not isinstance(dim, Batch) and dim == old else dim for dim in shape)

    for graph in module.graphs:
        graph.inputs = [(v, array[tuple(slice(new) if n == old and not isinstance(d, Batch) else slice(None)
                                        for n, d in zip(array.shape, v.shape))]) for v, array in graph.inputs]
        for value in {v: None for op in graph.ops for v in op.results} | {v: None for v, _ in graph.inputs}:
            value.shape = shrink(value.shape)
        for op in graph.ops:
            if op.data is not None:
                op.data = op.data[tuple(slice(new) if n == old else slice(None) for n in op.data.shape)]
            op.template = re.sub(r"limits = \[([^]]*)\]", lambda found: "limits = [" + re.sub(
                rf"\b{old}\b", str(new), found[1]) + "]", op.template)
    return module

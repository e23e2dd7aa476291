# ===- memory.py - What a training step must keep, counted by hand ---------=== #
#
# Two counters beside the compiler's planner. `needed` walks the step's ops in their
# own order and adds up what has to be in memory at once; `alive` walks the commands
# of a module and adds up the bytes of its arena that are still read. The first says
# whether something is held twice, the second whether the arena has gaps.
#
# ===----------------------------------------------------------------------=== #
"""Bytes that a step needs, from its graph and from its program."""

import re

import numpy as np

from fusion_compiler.ir.module import STORAGE

#: The same bytes under another name.
SAME = ("reshape", "after")
#: Ops that read whole tensors from memory and write theirs to it.
WHOLE = ("matmul", "conv", "conv_transpose", "max_pool", "avg_pool", "max_pool_grad", "attention", "attention_grad",
         "gather", "scatter", "batch_norm_training")
#: Ops that write their result, and read what can be computed on the way.
SUMS = ("reduce", "arg_max", "arg_min")


def size_of(value):
    """Bytes of a value."""
    return int(np.prod(value.shape, dtype=np.int64)) * STORAGE[value.dtype].itemsize


class _Graph:
    """Which values of a step are in memory, from when to when.

    In memory are the results of WHOLE and SUMS and the operands of WHOLE. All other ops are computed on the way
    from such values to the next ones, which therefore read the former. Not counted are arguments, results (each
    has the bytes of an argument), and what is computed from constants alone. A gradient that is added to a sum
    which nothing else reads afterwards has the sum's bytes.
    """

    def __init__(self, module):
        self.ops, self.root, self.maker = module.ops, {}, {}
        self.arguments = {id(v) for v in module.arguments}
        for i, op in enumerate(self.ops):
            for v in op.results:
                if op.name in SAME:
                    self.root[id(v)] = op.operands[0]
                else:
                    self.maker[id(v)] = i
        self.constant = set()
        for op in self.ops:
            if op.name not in SAME + WHOLE + SUMS and all(id(self.rooted(v)) in self.constant for v in op.operands):
                self.constant |= {id(v) for v in op.results}
        self.returned = {id(self.rooted(v)) for v in module.results}
        self.find_stored()
        self.find_ends()

    def rooted(self, value):
        while id(value) in self.root:
            value = self.root[id(value)]
        return value

    def find_stored(self):
        self.stored, readers = {}, {}
        for i, op in enumerate(self.ops):
            if op.name in SAME:
                continue
            for v in (*(op.results if op.name in WHOLE + SUMS else ()), *(op.operands if op.name in WHOLE else ())):
                v = self.rooted(v)
                if id(v) not in self.arguments | self.constant:
                    self.stored[id(v)] = v
            for key in {id(self.rooted(v)) for v in op.operands}:
                readers.setdefault(key, []).append(i)
        for i, op in enumerate(self.ops):
            if op.name != "add":
                continue
            x, y = (self.rooted(v) for v in op.operands)
            for total, part in ((x, y), (y, x)):
                if (id(total) in self.stored and id(part) in self.stored and readers[id(part)] == [i]
                        and readers[id(total)][-1] == i and self.maker[id(total)] < self.maker[id(part)]
                        and self.ops[self.maker[id(part)]].name in WHOLE + SUMS):
                    del self.stored[id(part)]
                    self.stored[id(op.results[0])] = op.results[0]
                    break

    def find_ends(self):
        """The last op that reads each stored value, through those that are computed on the way."""
        behind, self.end = {}, {}

        def sources(value):
            value = self.rooted(value)
            if id(value) in self.arguments | self.constant:
                return frozenset()
            return frozenset([id(value)]) if id(value) in self.stored else behind[id(value)]

        for i, op in enumerate(self.ops):
            if op.name in SAME:
                continue
            read = frozenset().union(*map(sources, op.operands))
            behind.update((id(v), read) for v in op.results)
            if op.name in WHOLE + SUMS or any(id(v) in self.stored or id(v) in self.returned for v in op.results):
                self.end.update((key, i) for key in read)


def needed(module):
    """Bytes that must be in memory at once beside arguments: the most at any op of WHOLE, in the order of the ops.

    There its operands and results are, what later ops read (activations that are kept), and gradients that wait
    for the update. Between two such ops a value may have the bytes of the one that it is computed from.
    """
    graph = _Graph(module)
    change = [0] * (len(graph.ops) + 1)
    for key, value in graph.stored.items():
        if key not in graph.returned:
            begin = graph.maker[key]
            change[begin] += size_of(value)
            change[max(graph.end.get(key, begin), begin) + 1] -= size_of(value)
    live = np.cumsum(change[:-1])
    return int(max(bytes for bytes, op in zip(live, graph.ops) if op.name in WHOLE))


def peak(text):
    """Bytes of the arena, of what `fusion-run --inspect` printed."""
    return int(re.search(r"peak .*\((\d+) bytes", text)[1])


def alive(text):
    """The most bytes of the arena that one command touches or a later one reads, of what --inspect printed."""
    arena = re.search(r"segment (\d+) private", text)[1]
    commands = []
    for line in re.findall(r"^ +\d+ stream .*", text, re.M):
        commands.append([(way, int(at), int(at) + int(size)) for way, segment, at, size in
                         re.findall(r"\b(rw|r|w) s(\d+)\[(\d+)\+(\d+)\]", line) if segment == arena])
    edges = sorted({edge for command in commands for _, *span in command for edge in span})
    index = {edge: i for i, edge in enumerate(edges)}
    width, is_read, most = np.diff(edges), np.zeros(len(edges) - 1, bool), 0
    for command in reversed(commands):
        touched, reads = np.zeros_like(is_read), np.zeros_like(is_read)
        for way, begin, end in command:
            touched[index[begin]:index[end]] = True
            if "r" in way:
                reads[index[begin]:index[end]] = True
        most = max(most, int(width[is_read | touched].sum()))
        is_read = (is_read & ~touched) | reads
    return most

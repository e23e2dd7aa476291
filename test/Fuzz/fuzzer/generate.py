# ===- generate.py - From a seed to graphs and modules --------------------=== #
#
# Weights of ops and motifs, the choice of outputs, and how graphs are put
# together. Graph i of seed S is always the same, wherever a run begins.
#
# ===----------------------------------------------------------------------=== #
"""Random graphs from seeds."""

import random

from builder import Unmakable, elements
from data import FLOATS
from graph import Module
from motifs import Motifs
from named import Contractions, Norms
from ops import PARTIAL_UNARY, ROUNDING_UNARY, Elementwise, Moves, Reductions


class Generator(Elementwise, Moves, Reductions, Contractions, Norms, Motifs):
    WEIGHTS = {
        "makeUnary": 5, "makeTranscendental": 2.5, "makeActivation": 1.5, "makeTest": 0.5, "makeLogic": 1.5, "makeBinary": 8, "makeCompare": 0.7,
        "makeSelect": 1, "makeClamp": 0.8, "makeCast": 1.2, "makeRandom": 0.3, "makeBroadcast": 2, "makeReshape": 2,
        "makeTranspose": 1.2, "makeSlice": 1, "makeReverse": 0.5, "makeConcat": 0.8, "makePad": 0.6, "makeGather": 0.7,
        "makeGatherNd": 0.4, "makeIota": 0.3, "makeUpdateSlice": 0.5, "makeScatter": 0.6, "makeReduce": 3, "makeArg": 0.4,
        "makeMatmul": 1.5, "makeConv": 0.8, "makeConvTranspose": 0.4, "makeBatchNorm": 0.4, "makePool": 0.7, "makeNorm": 1.8,
        "makeBatchNormTraining": 0.3, "makeAttention": 0.4, "makeRope": 0.6}
    MOTIFS = {
        "makeProjections": 4, "makeTied": 1, "makeConvSiblings": 0.7, "makeSiblings": 3, "makeSiblingNorms": 1.5, "makeOptimizer": 1,
        "makeEqualMatmuls": 1, "makeLinearGradients": 1, "makeCrossing": 1.5, "makeChain": 2, "makeFibonacci": 1, "makeWide": 0.4, "makeWrittenNorm": 5,
        "makeWrittenActivation": 2, "makeBroadcastCost": 1, "makeResidualNorm": 1, "makeInPlaceHazard": 2.5,
        "makeConcatResidual": 1, "makeEmpty": 1, "makeDeadResults": 0.7, "makeHalfScalar": 0.7, "makeMoves": 2.5,
        "makeImages": 1.5, "makeFolded": 1}

    def step(self, table):
        """One maker; what it began is dropped where it can't go on."""
        (name,) = self.random.choices(list(table), list(table.values()))
        before = len(self.graph.ops), len(self.values), len(self.graph.inputs), len(self.graph.outputs)
        try:
            getattr(self, name)()
        except Unmakable:
            ops, values, inputs, outputs = before
            del self.graph.ops[ops:], self.values[values:], self.graph.inputs[inputs:], self.graph.outputs[outputs:]
            self.hot = self.next = None

    def grow(self, index):
        for _ in range(self.choose(1, 1, 2)):
            self.input(self.shape(), self.dtype())
        if not self.exact and self.chance(0.6):
            # In turn, so that a few hundred graphs have all of them.
            x = self.input(self.shape(), self.random.choice(FLOATS))
            self.unary((ROUNDING_UNARY + PARTIAL_UNARY)[index % len(ROUNDING_UNARY + PARTIAL_UNARY)], x, rounds=True)
        end = self.random.randint(2, 16)
        if self.chance(0.45):
            self.step(self.MOTIFS)
            end = self.random.randint(1, 8)
        target = len(self.graph.ops) + end
        for _ in range(200):
            if len(self.graph.ops) >= target:
                break
            self.step(self.MOTIFS if self.chance(0.06) else self.WEIGHTS)
        self.finish()
        return self.graph

    def finish(self):
        """Returns what nothing reads, and some of what is inside."""
        graph, inner = self.graph, self.graph.outputs
        made = [value for op in graph.ops for value in op.results if elements(value.shape) <= 4096]
        chosen = dict.fromkeys(inner + [value for value in made if (value.readers == 0 and self.chance(0.9)) or self.chance(0.1)])
        graph.outputs = list(chosen) or made[-1:]
        if graph.outputs and self.chance(0.03):
            graph.outputs.append(self.random.choice(graph.outputs))
        if graph.inputs and self.chance(0.03):
            graph.outputs.append(self.random.choice(graph.inputs)[0])
        if self.chance(0.3):
            self.donate()
        graph.donated = {value: result for value, result in graph.donated.items() if graph.outputs.count(result) == 1}
        graph.prune()

    def donate(self):
        """Gives the bytes of an input to a result that reads it."""
        inputs = {value for value, _ in self.graph.inputs if value.readers <= 2}
        for op in self.graph.ops:
            result = op.results[0]
            if op.name not in ("add", "sub", "mul", "neg", "relu", "max", "scatter", "update_slice", "select"):
                continue
            found = [v for v in op.operands if v in inputs and v not in self.graph.donated and v.shape == result.shape and v.dtype == result.dtype]
            if found and self.graph.outputs.count(result) == 1 and result not in self.graph.donated.values():
                self.graph.donated[found[0]] = result


def makeGraph(seed, index, dynamic=False):
    """Graph `index` of the endless row that `seed` names; never without a result."""
    for attempt in range(100):
        key = f"{seed}:{index}:{attempt}"
        exact = random.Random(key).random() < 0.4
        graph = Generator(key, exact, dynamic).grow(index)
        if graph.outputs:
            return graph
    raise AssertionError(f"no graph from seed {key}")


def isDynamic(seed, number):
    return random.Random(f"{seed}:module {number}").random() < 0.25


def makeModule(seed, number, size, end=None):
    """Module `number`: graphs number * size and following, below `end`."""
    last = (number + 1) * size if end is None else min(end, (number + 1) * size)
    dynamic = isDynamic(seed, number)
    return Module([makeGraph(seed, i, dynamic) for i in range(number * size, last)])

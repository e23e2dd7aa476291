# ===- reduce.py - From a failure to a graph one can read -----------------=== #
#
# Tries smaller modules as long as the same check fails in the same way: fewer
# graphs, fewer results, ops replaced by an operand or by an argument that holds
# the value the reference gave, smaller sizes, plainer data.
#
# ===----------------------------------------------------------------------=== #
"""Shrinks a module that fails a check."""

import dataclasses
import re
import time

import numpy as np

import data
from graph import Batch, Module, shrinkSizes
from oracle import Case


def symptom(failure):
    """What two failures share when they are the same one."""
    if failure.kind in ("value", "text", "timeout"):
        return failure.kind
    # The message without the places and names that shrinking changes.
    message = re.sub(r"'[^']*'|%?\w*\d\w*", "", failure.detail.split("error:")[-1])
    return failure.kind, " ".join(message.split())[:60]


def minimize(items, works):
    """A small sublist for which `works` holds; that of all items is known to."""
    size = max(len(items) // 2, 1)
    while items:
        changed = False
        for begin in range(len(items) - 1, -1, -1) if size == 1 else range(0, len(items), size):
            shorter = items[:begin] + items[begin + size:]
            if len(shorter) < len(items) and works(shorter):
                items, changed = shorter, True
                break
        if not changed:
            if size == 1:
                break
            size = max(size // 2, 1)
    return items


class Reducer:
    def __init__(self, tools, folder, module, check, failure, seconds):
        self.tools, self.folder = tools, folder
        self.module, self.check, self.failure = module, check, failure
        self.wanted = symptom(failure)
        self.end = time.monotonic() + seconds
        self.tries = 0

    def failureOf(self, module, check):
        if time.monotonic() > self.end or not any(graph.outputs for graph in module.graphs):
            return None
        self.tries += 1
        case = Case(self.tools, self.folder, module)
        whole = self.failure.check in ("roundtrip", "reference")
        for failure in case.run([check]):
            if symptom(failure) == self.wanted and (failure.check in ("roundtrip", "reference")) == whole:
                return failure
        return None

    def accept(self, module, check=None):
        """Keeps the module if it still fails."""
        failure = self.failureOf(module, check or self.check)
        if failure:
            self.module, self.check, self.failure = module, check or self.check, failure
        return failure is not None

    def run(self):
        """Returns (module, check, failure); the first ones if nothing smaller fails."""
        graphs = list(range(len(self.module.graphs)))

        def withGraphs(chosen):
            return Module([self.module.graphs[i] for i in chosen]).clone()

        blamed = [g for g in self.failure.graphs if g < len(graphs)]
        original = self.module
        if not (len(blamed) < len(graphs) and any(self.accept(withGraphs([g])) for g in blamed[:4])):
            minimize(graphs, lambda chosen: self.accept(Module([original.graphs[i] for i in chosen]).clone()))
        self.dropFlags()
        while time.monotonic() < self.end:
            before = self.tries, self.size()
            self.dropOutputs()
            self.dropOps()
            self.raiseOutputs()
            if self.size() == before[1]:
                break
        self.shrinkShapes()
        self.plainData()
        return self.module, self.check, self.failure

    def size(self):
        return sum(len(graph.ops) + len(graph.outputs) for graph in self.module.graphs)

    def dropFlags(self):
        """Of passes in a row, those that matter."""
        if self.check.kind != "pass" or len(self.check.flags) < 2:
            return

        def works(flags):
            name = "order " + " ".join(flags)
            return flags and self.accept(self.module, dataclasses.replace(self.check, name=name, flags=tuple(flags)))

        minimize(list(self.check.flags), works)

    def dropOutputs(self):
        for g in range(len(self.module.graphs)):
            def works(chosen):
                module = self.module.clone()
                module.graphs[g].outputs = [module.graphs[g].outputs[i] for i in positions(chosen)]
                module.graphs[g].prune()
                return self.accept(module)

            current = list(range(len(self.module.graphs[g].outputs)))
            kept = [current]

            def positions(chosen):
                return [kept[0].index(i) for i in chosen]

            def test(chosen):
                if works(chosen):
                    kept[0] = chosen
                    return True
                return False

            minimize(current, test)

    def raiseOutputs(self):
        """Returns an operand instead of what the last ops make of it."""
        for g in range(len(self.module.graphs)):
            changed = True
            while changed:
                changed = False
                graph = self.module.graphs[g]
                makers = {value: op for op in graph.ops for value in op.results}
                for i, output in enumerate(graph.outputs):
                    for j in range(len(makers[output].operands) if output in makers else 0):
                        module = self.module.clone()
                        copy = module.graphs[g]
                        maker = next(op for op in copy.ops if copy.outputs[i] in op.results)
                        copy.outputs[i] = maker.operands[j]
                        if self.accept(pruned(module)):
                            changed = True
                            break
                    if changed:
                        break

    def dropOps(self):
        for g in range(len(self.module.graphs)):
            values = self.referenceValues(g)
            at = len(self.module.graphs[g].ops) - 1
            while at >= 0 and time.monotonic() < self.end:
                at = min(at, len(self.module.graphs[g].ops) - 1)
                if at < 0:
                    break
                self.dropOp(g, at, values)
                at -= 1

    def dropOp(self, g, at, values):
        op = self.module.graphs[g].ops[at]
        for i, operand in enumerate(op.operands):
            if operand.type() == op.results[0].type() and operand.shape == op.results[0].shape:
                module = self.module.clone()
                graph = module.graphs[g]
                graph.replace(graph.ops[at].results[0], graph.ops[at].operands[i])
                if self.accept(pruned(module)):
                    return
        array = values.get(self.label(g, op.results[0]))
        if array is None or op.name == "constant" or any(isinstance(d, Batch) and d != Batch(1) for d in op.results[0].shape):
            return
        module = self.module.clone()
        graph = module.graphs[g]
        result = graph.ops[at].results[0]
        fresh = type(result)(result.shape, result.dtype, result.magnitude, result.clean, result.rounded)
        graph.inputs.append((fresh, array))
        graph.replace(result, fresh)
        self.accept(pruned(module))

    def label(self, g, value):
        return getattr(value, "label", None)

    def referenceValues(self, g):
        """What the evaluator gives for each value of a graph, by label."""
        graph = self.module.graphs[g]
        labels = [value for op in graph.ops for value in op.results]
        for number, value in enumerate(labels):
            value.label = number
        probe = Module([graph]).clone()
        probe.graphs[0].outputs = [value for op in probe.graphs[0].ops for value in op.results]
        probe.graphs[0].donated = {}
        case = Case(self.tools, self.folder, probe)
        case.batches = [Module.MAX_BATCH]
        (case.path(f"in{Module.MAX_BATCH}")).mkdir(exist_ok=True)
        for name, array in probe.arrays(Module.MAX_BATCH).items():
            np.save(case.path(f"in{Module.MAX_BATCH}") / f"{name}.npy", array)
        case.evaluate([("model", "in")])
        found = {}
        for (_, name, value), content in zip(probe.outputs(), case.load(f"model-{Module.MAX_BATCH}").values()):
            if content is not None:
                found[value.label] = data.parse(content, name)
        return found

    def shrinkShapes(self):
        sizes = sorted({dim for graph in self.module.graphs for op in graph.ops for value in op.results + op.operands
                        for dim in value.shape if not isinstance(dim, Batch) and dim > 1}, reverse=True)
        for old in sizes:
            for new in (1, 2):
                if new < old and self.accept(shrinkSizes(self.module, old, new)):
                    break

    def plainData(self):
        """Inputs of one number, if that fails as well."""
        for g, graph in enumerate(self.module.graphs):
            for i, (value, _) in enumerate(graph.inputs):
                for number in (0, 1):
                    module = self.module.clone()
                    target, array = module.graphs[g].inputs[i]
                    plain = data.encode(np.full(array.shape, number), value.dtype)
                    if np.array_equal(plain, array):
                        break
                    module.graphs[g].inputs[i] = (target, plain)
                    if self.accept(module):
                        break


def pruned(module):
    for graph in module.graphs:
        graph.prune()
    return module

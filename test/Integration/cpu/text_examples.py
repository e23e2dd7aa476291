#!/usr/bin/env python3
# ===- text_examples.py - The examples that the project is about ----------=== #
#
# Each example of fusion that the documentation gives, as a graph: how many kernels
# and library calls a run enters, counted by the `null` backend and by a preloaded
# library, both outside the compiler; and numpy's values, exact on integers. Where
# members differ in size, the byte ranges of the module's commands are those of the
# tensors, so that nothing is padded. test/Fuse/text-examples*.mlir hold the same
# graphs to the groups they become.
#
# ===----------------------------------------------------------------------=== #
"""Checks the examples; prints one line a check."""

import re
import sys
import tempfile
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "Inputs"), str(HERE / "Inputs/reported")]
from harness import BIN, F32, RNG, Case, constant, conv, np, program, typeOf  # noqa: E402
from launch_counts import buildShim, fromInterposition, fromNullBackend  # noqa: E402

from _support import Checks  # noqa: E402


class Example:
    """A graph and what a run of it has to enter and to give. `members` are the
    library's entries: it has no grouped product, and is entered once for each."""

    def __init__(self, kernels, calls, members=None, tolerance=0.0):
        self.kernels, self.calls, self.tolerance = kernels, calls, tolerance
        self.members = calls if members is None else members
        self.inputs, self.body, self.outputs, self.want = {}, "", {}, {}
        self.random = RNG(len(type(self).__name__) + 17 * kernels + calls)

    def integers(self, *shape, low=-3, high=4):
        return self.random.integers(low, high, shape).astype(F32)

    def input(self, *shape):
        name = f"x{len(self.inputs)}"
        self.inputs[name] = self.integers(*shape)
        return f"%{name}", self.inputs[name]

    def weight(self, array):
        name = f"w{self.body.count('fusion.constant')}"
        self.body += constant(name, array)
        return f"%{name}"

    def op(self, text, want, isOutput=True):
        """`text` without its result; `want` is the result's value."""
        name = f"v{self.body.count(' = fusion.')}"
        self.body += f"  %{name} = fusion.{text}\n"
        want = np.asarray(want, F32)
        if isOutput:
            self.outputs[name], self.want[name] = (f"%{name}", typeOf(want)), want
        return f"%{name}", want

    def tensors(self):
        return [*self.inputs.values(), *self.want.values()]


# ===----------------------------------------------------------------------=== #
# The examples
# ===----------------------------------------------------------------------=== #

def threeAdds():
    e = Example(1, 0)
    for _ in range(3):
        (a, x), (b, y) = e.input(33), e.input(33)
        e.op(f"add {a}, {b} : {typeOf(x)}", x + y)
    return e


def norms(shapes):
    e = Example(1, 0, tolerance=1e-5)
    for shape in shapes:
        (a, x), (s, scale), (b, bias) = e.input(*shape), e.input(shape[-1]), e.input(shape[-1])
        x = x.astype(np.float64)
        want = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale + bias
        T, P = typeOf(want.astype(F32)), typeOf(scale)
        e.op(f"layer_norm {a} scale {s} bias {b} epsilon = 1.0e-5 axis = {len(shape) - 1} : {T}, {P}, {P}", want)
    return e


def twelveLayerNorms():
    return norms([(4, 48)] * 12)


def twelveNormsOfTwelveSizes():
    return norms([(1 + i % 4, 3 + 29 * i) for i in range(12)])


def projections(widths, rows, inner, depth):
    """Queries, keys and values, and their heads: one product, whose three views
    are read where they lie by the three that put the heads first."""
    e = Example(3, 1)
    a, x = e.input(rows, inner)
    for width in widths:
        w = e.integers(inner, width)
        product, value = e.op(f"matmul {a}, {e.weight(w)} : {typeOf(x)}, {typeOf(w)}", x @ w, isOutput=False)
        heads, split = e.op(f"reshape {product} : {typeOf(value)} to tensor<{rows}x{width // depth}x{depth}xf32>",
                            value.reshape(rows, -1, depth), isOutput=False)
        e.op(f"transpose {heads} permutation = [1, 0, 2] : {typeOf(split)}", split.transpose(1, 0, 2))
    return e


def queryKeyValue():
    return projections((64, 64, 64), 12, 48, 16)


def groupedQueries():
    return projections((2048, 256, 256), 4, 32, 64)


def convolutionNormActivation():
    """(x - mean) * scale / sqrt(3 + 1) + bias with even scales: exact."""
    e = Example(1, 1)
    a, x = e.input(2, 6, 6, 3)
    w = e.integers(4, 3, 3, 3)
    scale, bias, mean = 2 * e.integers(4), e.integers(4), e.integers(4)
    names = [e.weight(v) for v in (scale, bias, mean, np.full(4, 3, F32))]
    value = conv(x.transpose(0, 3, 1, 2), w, pad=1).transpose(0, 2, 3, 1)
    c, value = e.op(f"conv {a}, {e.weight(w)} strides = [1, 1] pad_low = [1, 1] pad_high = [1, 1] dilations = [1, 1] "
                    f"groups = 1 layout = nhwc : {typeOf(x)}, {typeOf(w)}", value, isOutput=False)
    n, value = e.op(f"batch_norm {c}, {', '.join(names)} epsilon = 1.0 axis = 3 : {typeOf(value)}, tensor<4xf32>",
                    (value - mean) * scale / 2 + bias, isOutput=False)
    e.op(f"relu {n} : {typeOf(value)}", np.maximum(value, 0))
    return e


def addActivation():
    e = Example(1, 0)
    (a, x), (b, y) = e.input(7, 9), e.input(7, 9)
    s, value = e.op(f"add {a}, {b} : {typeOf(x)}", x + y, isOutput=False)
    e.op(f"relu {s} : {typeOf(value)}", np.maximum(value, 0))
    return e


def productBiasActivation():
    """One group: the library's product with the bias, and a tail for the rest."""
    e = Example(1, 1)
    a, x = e.input(6, 10)
    w, bias = e.integers(10, 8), e.integers(8)
    p, value = e.op(f"matmul {a}, {e.weight(w)} : {typeOf(x)}, {typeOf(w)}", x @ w, isOutput=False)
    b, wide = e.op(f"broadcast {e.weight(bias)} dims = [1] : {typeOf(bias)} to {typeOf(value)}",
                   np.broadcast_to(bias, value.shape), isOutput=False)
    s, value = e.op(f"add {p}, {b} : {typeOf(value)}", value + wide, isOutput=False)
    e.op(f"relu {s} : {typeOf(value)}", np.maximum(value, 0))
    return e


def eightProducts():
    e = Example(0, 1, members=8)
    for _ in range(8):
        (a, x), (b, y) = e.input(6, 10), e.input(10, 7)
        e.op(f"matmul {a}, {b} : {typeOf(x)}, {typeOf(y)}", x @ y)
    return e


def eightActivationsEightMuls():
    e = Example(2, 0)
    for _ in range(8):
        (a, x), (b, y), (c, z) = e.input(5, 9), e.input(5, 9), e.input(5, 9)
        e.op(f"relu {a} : {typeOf(x)}", np.maximum(x, 0))
        e.op(f"mul {b}, {c} : {typeOf(y)}", y * z)
    return e


# ===----------------------------------------------------------------------=== #
# What the module says, and what a run does
# ===----------------------------------------------------------------------=== #

class Module:
    """The lines of `fusion-run --inspect`."""

    def __init__(self, t, path):
        self.text = t.good([BIN / "fusion-run", path, "--inspect"])
        self.commands = re.findall(r"^ +\d+ stream \d+ .*$", self.text, re.M)
        self.peak = int(re.search(r"peak .*?(\d+) bytes", self.text)[1])

    def ranges(self):
        """Sizes of all byte ranges that commands name, in bytes."""
        return Counter(int(size) for line in self.commands for size in re.findall(r" s\d+\[\d+\+(\d+)\]", line))


def checkUnequal(checks, name, example, module):
    """Twelve sizes, one launch: a range for each tensor, of its size, and no memory
    beside theirs."""
    if name == "twelveNormsOfTwelveSizes":
        sizes = Counter(tensor.nbytes for tensor in example.tensors())
        checks.check(f"{name}: no padding", module.ranges() == sizes and module.peak == 0 and len(module.commands) == 1,
                     f"{sum(sizes.elements())} bytes in {sum(sizes.values())} tensors")
    elif name in ("queryKeyValue", "groupedQueries"):
        (rows, inner), width = example.inputs["x0"].shape, sum(want.size for want in example.want.values()) // len(example.inputs["x0"])
        packed, product = 4 * inner * width, 4 * rows * width
        call = [line for line in module.commands if " call " in line]
        sizes = sorted(map(int, re.findall(r" s\d+\[\d+\+(\d+)\]", call[0])))
        checks.check(f"{name}: no padding in the packed weights and the product",
                     len(call) == 1 and sizes == sorted([4 * rows * inner, packed, product]) and module.peak == product,
                     f"{sizes}, peak {module.peak}")
        copies = re.search(r"(\d+) copies", module.text)[1]
        checks.check(f"{name}: outputs are views, not copies", copies == "0")


def checkExample(checks, t, shim, build):
    name, example = build.__name__, build()
    model = t.write(program(example.inputs, example.body, example.outputs))
    path, _ = t.compile(model)
    null = fromNullBackend(path)
    checks.check(f"{name}: {example.kernels} kernels and {example.calls} calls", null == (example.kernels, example.calls), str(null))
    seen = fromInterposition(path, shim, t.folder)
    checks.check(f"{name}: a real run enters them", seen == (example.kernels, example.members), str(seen))
    module = Module(t, path)
    checks.check(f"{name}: no BatchNorm in any kernel", "batch_norm" not in module.text)
    checkUnequal(checks, name, example, module)
    for way, got in (("compiled", t.execute(path, example.inputs)), ("evaluator", t.interpret(model, example.inputs)[0])):
        same = got.keys() == example.want.keys() and all(
            got[n].dtype == want.dtype and got[n].shape == want.shape and
            (np.allclose(got[n], want, example.tolerance, example.tolerance) if example.tolerance else np.array_equal(got[n], want))
            for n, want in example.want.items())
        checks.check(f"{name}: numpy's values, {way}", same)


EXAMPLES = [threeAdds, twelveLayerNorms, twelveNormsOfTwelveSizes, queryKeyValue, groupedQueries, convolutionNormActivation,
            addActivation, productBiasActivation, eightProducts, eightActivationsEightMuls]


def main():
    checks = Checks()
    with tempfile.TemporaryDirectory() as scratch:
        t = Case(Path(scratch))
        shim = buildShim(Path(scratch))
        for build in EXAMPLES:
            checkExample(checks, t, shim, build)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())

# ===- models.py - Models of many cases ------------------------------------=== #
#
# Cases stand side by side in one @main: starting a process costs more than a
# case, and neighbours are what horizontal fusion looks for.
#
# ===----------------------------------------------------------------------=== #
"""Which models the bundle has, their text, and the inputs of each."""

import re
import zlib

from cases import ALL, FAMILIES, FLOATS
from graphs import BATCHES, MAX_BATCH, batches, chains
from values import makeInput

PAIRS = (("f64", "f32"), ("f16", "bf16"), ("i8", "i32"), ("i64", "i1"))
SMALL_ELEMENTS = 6000


def split(kind, batch=None):
    """"2x?xf32" as a shape and an element type."""
    *sizes, dtype = kind.split("x")
    return tuple((batch or "?") if size == "?" else int(size) for size in sizes), dtype


class Instance:
    """A case with an element type. `key` names it in all bundles."""

    def __init__(self, number, case, dtype):
        self.number, self.case, self.dtype = number, case, dtype
        self.inputs = [kind.replace("@", dtype) for kind in case.inputs]
        self.outputs = [kind.replace("@", dtype) for kind in case.outputs]

    def names(self, letter, kinds):
        return [f"c{self.number}_{letter}{i}" for i in range(len(kinds))]

    def typeOf(self, kind, wide):
        *sizes, dtype = kind.split("x")
        return f"tensor<{'x'.join(sizes + ['f64' if wide and dtype in FLOATS else dtype])}>"

    def text(self, wide=False):
        """Its lines; `wide`: every float as f64."""
        case = self.case
        text = case.text
        if not text.startswith("%"):
            text = ", ".join(f"%y{i}" for i in range(len(case.outputs))) + " = " + text
        text = re.sub(r"%(\w+)", rf"%c{self.number}_\1", text)
        text = re.sub(r"@(?!p_)", self.dtype, text)
        if wide:
            text = re.sub(r"(?<=[x<])(?:f16|bf16|f32)(?=>)", "f64", text)
        return text.format(*(f"%{name}" for name in self.names("x", case.inputs)))

    def array(self, i, batch):
        """Operand `i` at a batch size."""
        shape, dtype = split(self.inputs[i], batch)
        data = self.case.special.get(i, self.case.data)
        seed = zlib.crc32(f"{self.case.text} {self.dtype} {i} {batch}".encode())
        return makeInput(seed, shape, dtype, data)

    def describe(self):
        """What the checks need, for the bundle's list."""
        return {"number": self.number, "text": self.case.text, "dtype": self.dtype, "inputs": self.inputs, "outputs": self.outputs,
                "data": [self.case.special.get(i, self.case.data) for i in range(len(self.inputs))],
                "accuracy": self.case.accuracy, "terms": self.case.terms,
                "seeds": {str(batch): [zlib.crc32(f"{self.case.text} {self.dtype} {i} {batch}".encode())
                                       for i in range(len(self.inputs))] for batch in BATCHES}}


class Model:
    def __init__(self, name, instances, dynamic=False):
        self.name, self.dynamic = name, dynamic
        self.instances = [Instance(i, case, dtype) for i, (case, dtype) in enumerate(instances)]
        self.batches = BATCHES if dynamic else (1,)

    def text(self, wide=False, chosen=None):
        arguments, results, values, lines, types = [], [], [], [], []
        for each in self.instances if chosen is None else chosen:
            for name, kind in zip(each.names("x", each.inputs), each.inputs):
                arguments.append(f'%{name}: {each.typeOf(kind, wide)} {{fusion.name = "{name}"}}')
            for name, kind in zip(each.names("y", each.outputs), each.outputs):
                results.append(f'{each.typeOf(kind, wide)} {{fusion.name = "{name}"}}')
                types.append(each.typeOf(kind, wide))
                values.append(f"%{name}")
            lines.append(each.text(wide))
        used = sorted({found for line in lines for found in re.findall(r"@p_(\w+)", line)})
        parameters = "".join(self.parameter(dtype, wide) for dtype in used)
        batch = f" attributes {{fusion.batch = array<i64: 1, {MAX_BATCH}>}}" if self.dynamic else ""
        body = "\n".join(lines)
        return (f"{parameters}func.func @main({', '.join(arguments)}) -> ({', '.join(results)}){batch} {{\n{body}\n"
                f"return {', '.join(values)} : {', '.join(types)}\n}}\n")

    @staticmethod
    def parameter(dtype, wide):
        numbers = [str(i) + (".0" if dtype in FLOATS else "") for i in range(-4, 6)]
        rows = f"[[{', '.join(numbers[:5])}], [{', '.join(numbers[5:])}]]"
        kind = f"tensor<2x5x{'f64' if wide and dtype in FLOATS else dtype}>"
        return f"fusion.parameter @p_{dtype} const value dense<{rows}> : {kind} : {kind}\n"

    def sums(self):
        """Cases whose bound needs the sums of absolute values."""
        return [each for each in self.instances if each.case.accuracy == "sum"]


def elements(case):
    total = 0
    for kind in case.inputs + case.outputs:
        size = 1
        for dim in split(kind.replace("@", "f32"))[0]:
            size *= MAX_BATCH if dim == "?" else dim
        total += size
    return total


def allFamilies():
    return {**FAMILIES, "chains": chains, "batches": batches}


def allModels():
    models = []
    for family, make in allFamilies().items():
        cases = make()
        for pair in PAIRS:
            chosen = [(case, dtype) for case in cases for dtype in pair if dtype in case.dtypes]
            if chosen:
                models.append(Model(f"{family}-{'-'.join(pair)}", chosen, family == "batches"))
    return models


def smallModels():
    """Each small case with one of its element types, in turn: for tools under
    which a kernel takes a hundred times as long."""
    models, turn = [], 0
    for family, make in allFamilies().items():
        chosen = []
        for case in make():
            if elements(case) <= SMALL_ELEMENTS:
                turn += 1
                # Scatters of one kind and type are what a launch takes together.
                step = turn // 7 if family == "scatter" else turn
                chosen.append((case, case.dtypes[step % len(case.dtypes)]))
        models.append(Model(f"small-{family}", chosen, family == "batches"))
    return models


assert set(ALL) == {dtype for pair in PAIRS for dtype in pair}

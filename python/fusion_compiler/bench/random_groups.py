# ===- random_groups.py - Programs that a cost model is judged on ----------=== #
#
# Small programs as they come about in models, of random ops, types and sizes, from a
# seed: chains, rows, columns, transposes, products and independent branches. Each is
# compiled fused and with each op alone; what they compute is not the point.
#
# ===----------------------------------------------------------------------=== #
"""Random programs by a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Callable, Sequence

from .workload import Tensor

_UNARY = ("relu", "relu", "exp", "tanh", "sigmoid", "silu", "abs", "neg", "sqrt", "erf")
_BINARY = ("add", "add", "mul", "mul", "sub", "max")
_DTYPES = ("f32", "f32", "bf16", "f16")


@dataclass
class Program:
    """A function over `inputs` with the lines `body`, that returns `returned`."""

    name: str
    inputs: list[Tensor] = field(default_factory=list)
    body: list[str] = field(default_factory=list)
    returned: list[tuple[str, str]] = field(default_factory=list)  # value, type

    def input(self, dtype: str, shape: Sequence[int]) -> tuple[str, str]:
        tensor = Tensor(f"x{len(self.inputs)}", dtype, tuple(shape))
        self.inputs.append(tensor)
        return "%" + tensor.name, tensor.type

    def op(self, text: str, type_: str) -> tuple[str, str]:
        """Adds `%vN = text : type_` (the type of the operands)."""
        name = f"%v{len(self.body)}"
        self.body.append(f"{name} = fusion.{text} : {type_}")
        return name, type_

    @property
    def bytes(self) -> int:
        return sum(tensor.bytes for tensor in self.inputs)

    def text(self) -> str:
        arguments = ", ".join(f'%{t.name}: {t.type} {{fusion.name = "{t.name}"}}' for t in self.inputs)
        results = ", ".join(f'{kind} {{fusion.name = "y{i}"}}' for i, (_, kind) in enumerate(self.returned))
        values, kinds = ", ".join(v for v, _ in self.returned), ", ".join(k for _, k in self.returned)
        lines = [f"func.func @main({arguments}) -> ({results}) {{", *("  " + line for line in self.body),
                 f"  return {values} : {kinds}", "}", ""]
        return "\n".join(lines)


class _Maker:
    def __init__(self, rng: random.Random):
        self.rng = rng

    def size(self, low: float, high: float) -> int:
        """A size between two powers of two, evenly by its logarithm."""
        return max(1, round(2 ** self.rng.uniform(low, high)))

    def chain(self, p: Program, value: str, dtype: str, shape, count: int) -> str:
        """`count` elementwise ops on `value`; binary ones read a new input, a row of one, or an earlier value."""
        kind = Tensor("", dtype, tuple(shape)).type
        seen = [value]
        for _ in range(count):
            if self.rng.random() < 0.45:
                value, _ = p.op(f"{self.rng.choice(_UNARY)} {value}", kind)
            else:
                pick = self.rng.random()
                if pick < 0.5:
                    other, _ = p.input(dtype, shape)
                elif pick < 0.75 and len(shape) > 1:
                    row, row_kind = p.input(dtype, shape[-1:])
                    name = f"%v{len(p.body)}"
                    p.body.append(f"{name} = fusion.broadcast {row} dims = [{len(shape) - 1}] : {row_kind} to {kind}")
                    other = name
                else:
                    other = self.rng.choice(seen)
                value, _ = p.op(f"{self.rng.choice(_BINARY)} {value}, {other}", kind)
            seen.append(value)
        return value

    def loop(self, p: Program) -> None:
        dtype = self.rng.choice(_DTYPES)
        columns = 8 * self.size(3, 9)
        rows = self.size(10, 25.5) // columns + 1
        value, kind = p.input(dtype, (rows, columns))
        p.returned.append((self.chain(p, value, dtype, (rows, columns), self.rng.randint(2, 7)), kind))

    def reduce_rows(self, p: Program, value: str, dtype: str, rows: int, width: int) -> tuple[str, str]:
        kind = Tensor("", dtype, (rows, width)).type
        pick = self.rng.choice(("softmax", "layer_norm", "rms_norm", "sum", "max"))
        if pick == "softmax":
            return p.op(f"softmax {value} axis = 1", kind)
        if pick in ("sum", "max"):
            value, _ = p.op(f"reduce {pick}, {value} dims = [1]", kind)
            return value, Tensor("", dtype, (rows,)).type
        scale, row = p.input(dtype, (width,))
        if pick == "rms_norm":
            value, _ = p.op(f"rms_norm {value} scale {scale} epsilon = 1.0e-05 axis = 1", f"{kind}, {row}")
        else:
            bias, _ = p.input(dtype, (width,))
            value, _ = p.op(f"layer_norm {value} scale {scale} bias {bias} epsilon = 1.0e-05 axis = 1",
                            f"{kind}, {row}, {row}")
        return value, kind

    def rows(self, p: Program) -> None:
        dtype = self.rng.choice(_DTYPES)
        width = self.rng.choice((64, 128, 256, 512, 768, 1024, 2048, 4096, 5120, 8192, 16384))
        count = self.size(13, 25) // width + 1
        value, _ = p.input(dtype, (count, width))
        value = self.chain(p, value, dtype, (count, width), self.rng.randint(0, 3))
        value, kind = self.reduce_rows(p, value, dtype, count, width)
        shape = (count, width) if f"x{width}x" in kind else (count,)
        p.returned.append((self.chain(p, value, dtype, shape, self.rng.randint(0, 2)), kind))

    def columns(self, p: Program) -> None:
        dtype = self.rng.choice(_DTYPES)
        width = 8 * self.size(4, 11)
        rows = max(16, self.size(14, 25) // width)
        value, kind = p.input(dtype, (rows, width))
        value = self.chain(p, value, dtype, (rows, width), self.rng.randint(0, 3))
        value, _ = p.op(f"reduce {self.rng.choice(('sum', 'max'))}, {value} dims = [0]", kind)
        p.returned.append((value, Tensor("", dtype, (width,)).type))

    def transpose(self, p: Program) -> None:
        dtype = self.rng.choice(_DTYPES)
        width = 32 * self.size(1, 7)
        rows = 32 * max(1, self.size(12, 25) // width // 32)
        value, kind = p.input(dtype, (rows, width))
        value = self.chain(p, value, dtype, (rows, width), self.rng.randint(0, 2))
        name = f"%v{len(p.body)}"
        p.body.append(f"{name} = fusion.transpose {value} permutation = [1, 0] : {kind}")
        p.returned.append((self.chain(p, name, dtype, (width, rows), self.rng.randint(0, 2)),
                           Tensor("", dtype, (width, rows)).type))

    def branches(self, p: Program) -> None:
        """Independent work of one kind, of equal or of unlike sizes."""
        dtype = self.rng.choice(_DTYPES)
        members = self.rng.randint(2, 16)
        equal, norms = self.rng.random() < 0.6, self.rng.random() < 0.5
        width = self.rng.choice((256, 512, 768, 1024, 2048))
        low, high = 12, 23 - members.bit_length()
        rows = self.size(low, high) // width + 1
        for _ in range(members):
            if not equal:
                rows = self.size(low, high) // width + 1
            value, kind = p.input(dtype, (rows, width))
            if norms:
                scale, row = p.input(dtype, (width,))
                value, _ = p.op(f"rms_norm {value} scale {scale} epsilon = 1.0e-05 axis = 1", f"{kind}, {row}")
            else:
                other, _ = p.input(dtype, (rows, width))
                value, _ = p.op(f"add {value}, {other}", kind)
                if equal:
                    value, _ = p.op(f"relu {value}", kind)
            p.returned.append((value, kind))

    def product(self, p: Program) -> None:
        dtype = self.rng.choice(("bf16", "f16"))
        rows, depth, width = (64 * self.size(0, 6) for _ in range(3))
        x, x_kind = p.input(dtype, (rows, depth))
        w, w_kind = p.input(dtype, (width, depth))
        y_kind = Tensor("", dtype, (rows, width)).type
        value, _ = p.op(f"matmul {x}, {w} {{transpose_rhs}}", f"{x_kind}, {w_kind}")
        row, row_kind = p.input(dtype, (width,))
        wide = f"%v{len(p.body)}"
        p.body.append(f"{wide} = fusion.broadcast {row} dims = [1] : {row_kind} to {y_kind}")
        value, _ = p.op(f"add {value}, {wide}", y_kind)
        if self.rng.random() < 0.6:
            value, _ = p.op(f"{self.rng.choice(('relu', 'gelu tanh,'))} {value}", y_kind)
        p.returned.append((value, y_kind))


#: Kinds of programs and how many of 20 are of each.
_KINDS: tuple[tuple[str, int], ...] = (("loop", 6), ("rows", 6), ("columns", 2), ("transpose", 2), ("branches", 3),
                                       ("product", 1))


def programs(count: int, seed: int = 1) -> list[Program]:
    """The first `count` programs of a seed, the kinds in turn."""
    kinds = [kind for kind, share in _KINDS for _ in range(share)]
    result = []
    for number in range(count):
        rng = random.Random(f"{seed}/{number}")
        kind = kinds[number * 7 % len(kinds)]
        program = Program(f"r{number:03d}-{kind}")
        make: Callable[[Program], None] = getattr(_Maker(rng), kind)
        make(program)
        result.append(program)
    return result

# ===- tape.py - Reverse mode over a builder ------------------------------=== #
#
# A layer builds its forward ops and leaves a record behind: outputs, inputs, and the
# function that builds the gradients of the inputs from those of the outputs. Walked
# backwards, the records build the backward pass behind the forward pass, in the same
# function. Only what a tracked value (a parameter) reaches is recorded.
#
# ===----------------------------------------------------------------------=== #
"""The tape of records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Optional, Sequence, Union

from ..ir.builder import Builder
from ..ir.module import Op, Value


@dataclass
class AddTo:
    """A gradient that is added to another one in place of zeros, as a scatter does.

    `build` gets the sum of the gradients so far, or None, and returns the sum with this one.
    """

    build: Callable[[Optional[Value]], Value]


Gradient = Optional[Union[Value, AddTo]]


@dataclass
class Record:
    outputs: list[Value]
    inputs: list[Value]
    backward: Callable[..., Sequence[Gradient]]
    loc: str


class Tape:
    """Records of one forward pass. `b` is where all ops go."""

    def __init__(self, builder: Builder, tracked: Optional[set[int]] = None, behind: Optional[Value] = None):
        self.b = builder
        self._behind = behind
        self._reached: Optional[Value] = None
        self.records: list[Record] = []
        self._tracked: set[int] = set() if tracked is None else tracked

    def track(self, value: Value) -> Value:
        """Makes `value` one whose gradient is wanted."""
        self._tracked.add(id(value))
        return value

    def needs(self, value: Value) -> bool:
        """Whether the gradient of `value` is wanted, by itself or on the way to another."""
        return id(value) in self._tracked

    def saved(self, value: Value) -> Value:
        """A value of the forward pass, for gradients that compute more from it than a product.

        What is computed from it alone could be computed in the forward pass too, or with the
        same of all layers at once, and kept until it is needed: `fusion.after` says not to. It
        names a gradient that a step before read from memory: the last step's op can still take
        in what reads both, and nothing is written only to be named here.
        """
        return value if self._reached is None else after(self.b, value, self._reached)

    def fresh(self, value: Value) -> Value:
        """A parameter, for a copy that a block computed again makes of it anew and doesn't keep."""
        return value if self._behind is None else after(self.b, value, self._behind)

    def record(self, outputs: Sequence[Value], inputs: Sequence[Value], backward) -> None:
        """`backward(*grads)` gets a gradient (or None) for each output and returns one for each input.

        It may return None for inputs that need none; a gradient has its input's type.
        """
        if any(self.needs(v) for v in inputs):
            self.records.append(Record(list(outputs), list(inputs), backward, self.b.loc))
            for value in outputs:
                self.track(value)

    def backward(self, seeds: dict[Value, Value], sums: Optional[dict[Value, Value]] = None) -> "Gradients":
        """Builds the backward pass from the gradients of some values. Empties the tape.

        `sums` are gradients of tracked values that are there already: each is added to where
        it is read, and not kept beside them.
        """
        grads = Gradients(self.b)
        self._reached = next(iter(seeds))
        for value, grad in [*seeds.items(), *(sums or {}).items()]:
            grads.add(value, grad)
        loc = self.b.loc
        while self.records:
            record = self.records.pop()
            given = [grads.take(v) for v in record.outputs]
            if all(g is None for g in given):
                continue
            self.b.loc = record.loc + ".grad" if record.loc else "grad"
            ops = self.b.module.ops
            start = len(ops)
            for value, grad in zip(record.inputs, record.backward(*given)):
                if grad is not None and self.needs(value):
                    grads.add(value, grad)
            self._reached = _find_stored(given, ops[start:]) or self._reached
        self.b.loc = loc
        return grads


#: Ops that read whole tensors from memory: what they read is written, however ops are fused.
_FROM_MEMORY = {"matmul", "conv", "conv_transpose", "max_pool_grad", "attention_grad", "scatter"}


def _find_stored(values: Sequence[Optional[Value]], ops: Sequence[Op]) -> Optional[Value]:
    """The first of the values that one of the ops reads from memory."""
    whole = {id(op.results[0]): op.operands[0] for op in ops if op.name == "reshape"}
    read = {id(whole.get(id(v), v)) for op in ops if op.name in _FROM_MEMORY for v in op.operands}
    return next((v for v in values if v is not None and id(v) in read), None)


def after(b: Builder, value: Value, other: Value) -> Value:
    """`value`, not read before `other` is known."""
    return b.make("after", [value, other], value.dtype, value.shape)


class Gradients:
    """Sums of the gradients of values, by value."""

    def __init__(self, builder: Builder):
        self._b = builder
        self._sums: dict[int, Value] = {}

    def add(self, value: Value, grad: Union[Value, AddTo]) -> None:
        known = self._sums.get(id(value))
        if isinstance(grad, AddTo):
            grad = grad.build(known)
        elif known is not None:
            grad = self._b.binary("add", known, grad)
        assert (grad.dtype, grad.shape) == (value.dtype, value.shape), f"gradient {grad!r} of {value!r}"
        self._sums[id(value)] = grad

    def take(self, value: Value) -> Optional[Value]:
        """The gradient of a value that no earlier record reads; it is forgotten."""
        return self._sums.pop(id(value), None)

    def get(self, value: Value) -> Optional[Value]:
        return self._sums.get(id(value))


def checkpoint(tape: Tape, block: Callable[..., Value], *inputs: Value) -> Value:
    """`block(tape, *inputs)`, whose inner values are computed again in the backward pass.

    The second computation reads the inputs, and what it casts, behind the gradient
    (`fusion.after`), so that it is not merged with the first one.
    """
    inner = Tape(tape.b, tape._tracked)
    output = block(inner, *inputs)
    made = {id(v) for r in inner.records for v in r.outputs}
    leaves = {id(v): v for r in inner.records for v in r.inputs if id(v) not in made and tape.needs(v)}
    leaves.update({id(v): v for v in inputs if tape.needs(v)})

    def backward(grad: Value):
        again = Tape(tape.b, tape._tracked, behind=grad)
        held = {}
        for value in inputs:
            held[id(value)] = after(tape.b, value, grad)
            if tape.needs(value):
                tape.track(held[id(value)])
        grads = again.backward({block(again, *(held[id(v)] for v in inputs)): grad})
        return [grads.get(held.get(key, value)) for key, value in leaves.items()]

    tape.record([output], list(leaves.values()), backward)
    return output

# ===- model.py - What a model tells the training step --------------------=== #
#
# Its data, its parameters with their shardings, its running statistics, and its loss
# as a function that builds ops.
#
# ===----------------------------------------------------------------------=== #
"""The interface between models and the training step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Optional, Sequence

from ..ir.module import Value
from .tape import Tape, checkpoint

#: One list of mesh axes for each dimension.
Sharding = Sequence[Sequence[str]]


@dataclass
class Sizes:
    """The numbers a model is built from; each model reads those it knows."""

    batch: int = 8
    layers: int = 2
    hidden: int = 32
    heads: int = 4
    kv_heads: int = 0  # 0: as many as heads
    ffn: int = 0  # 0: the model's usual multiple of hidden
    seq: int = 16
    vocab: int = 64
    features: int = 16
    classes: int = 10
    channels: int = 3
    image: int = 16
    theta: float = 10000.0
    activation: str = ""  # "": the model's own
    loss: str = "cross_entropy"
    pool: str = "max"
    tied: bool = False
    dtype: str = "f32"  # of activations
    parameter_dtype: str = ""  # of parameters, moments and gradients; "": f64 with f64 activations, else f32

    @property
    def wide(self) -> str:
        """The type of updates, running statistics and scalars."""
        return "f64" if self.dtype == "f64" else "f32"


@dataclass
class Parameter:
    """A tensor that is learned. Only those with `decay` are decayed."""

    name: str
    shape: tuple[int, ...]
    decay: bool = True
    sharding: Optional[Sharding] = None
    initial: str = "normal"  # "normal", "zeros" or "ones"


@dataclass
class Statistic:
    """A running mean of what batches show, [size]. A training step moves it a little towards the batch's value."""

    name: str
    size: int
    initial: str = "zeros"
    correction: float = 1.0  # factor on the batch's value


@dataclass
class Model:
    """A model at a given size."""

    sizes: Sizes
    recompute: bool = False
    #: name, element type, shape; the first dimension is the batch.
    data: list[tuple[str, str, tuple[int, ...]]] = field(default_factory=list)
    parameters: list[Parameter] = field(default_factory=list)
    statistics: list[Statistic] = field(default_factory=list)

    def __post_init__(self):
        """Declares data, parameters and statistics."""

    def loss(self, t: Tape, p: dict[str, Value], data: dict[str, Value], seen: dict[str, Value]) -> Value:
        """Builds the scalar loss of a batch; `seen` receives the batch's value of each statistic."""
        raise NotImplementedError

    def block(self, t: Tape, function: Callable[..., Value], *inputs: Value) -> Value:
        """`function(tape, *inputs)`, whose inner values are kept for the backward pass or computed again."""
        return checkpoint(t, function, *inputs) if self.recompute else function(t, *inputs)

    def add(self, name: str, *shape: int, **options) -> None:
        """Declares a parameter. Vectors are not decayed."""
        self.parameters.append(Parameter(name, shape, **{"decay": len(shape) > 1, **options}))

# ===- optimizers.py - Clipping and the update of parameters --------------=== #
#
# The norm of all gradients together is summed in f64: no square of an f32 overflows
# there. Where it isn't finite the step is skipped: parameters and state keep their
# values, on all ranks alike, since all see one norm. A norm of zero divides nothing.
#
# ===----------------------------------------------------------------------=== #
"""Global-norm clipping, SGD with momentum, AdamW."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Optional

from ..ir.builder import Builder
from ..ir.module import Value
from .ops.elementwise import number


@dataclass
class Hyper:
    """Numbers that stay the same in all steps; the rate and the step's number are arguments."""

    optimizer: str = "adamw"  # or "sgd"
    momentum: float = 0.9
    beta1: float = 0.9
    beta2: float = 0.95
    epsilon: float = 1e-8
    weight_decay: float = 0.1
    clip: float = 1.0  # 0: gradients are used as they are
    loss_scale: float = 1.0

    @property
    def moments(self) -> tuple[str, ...]:
        """Names of the tensors kept for each parameter."""
        if self.optimizer == "adamw":
            return ("m", "v")
        return ("momentum",) if self.momentum else ()


@dataclass
class Clip:
    """What clipping knows of all gradients. Scalars."""

    norm: Value  # of the gradients without the loss scale
    finite: Value  # i1
    factor: Value  # on each gradient, in its type


def clip(b: Builder, grads: list[Value], hyper: Hyper) -> Clip:
    """The global norm, and min(1, clip / norm) over the loss scale."""
    b.loc = "clip"
    total: Optional[Value] = None
    for grad in grads:
        x = b.cast(grad, "f64")
        squares = b.reduce("sum", b.binary("mul", x, x), list(range(x.rank)))
        total = squares if total is None else b.binary("add", total, squares)
    assert total is not None
    norm = b.unary("sqrt", total)
    if hyper.loss_scale != 1:
        norm = b.binary("mul", norm, number(b, 1 / hyper.loss_scale, norm))
    finite = b.compare("lt", norm, number(b, math.inf, norm))
    limit = number(b, hyper.clip, norm)
    factor = b.select(b.compare("gt", norm, limit), b.binary("div", limit, norm), number(b, 1.0, norm))
    if hyper.loss_scale != 1:
        factor = b.binary("mul", factor, number(b, 1 / hyper.loss_scale, norm))
    dtype = grads[0].dtype
    return Clip(b.cast(norm, dtype), finite, b.cast(factor, dtype))


@dataclass
class Rates:
    """Scalars of one step that all parameters share."""

    rate: Value  # f64
    step: Optional[Value]  # i64, from 1


class Optimizer:
    """Builds the update of one parameter after another."""

    def __init__(self, b: Builder, hyper: Hyper, rates: Rates, dtype: str):
        self.b, self.hyper = b, hyper
        b.loc = "rates"
        rate = rates.rate
        one = number(b, 1.0, rate)
        decay = b.binary("sub", one, b.binary("mul", rate, number(b, hyper.weight_decay, rate)))
        self.rate, self.decay = b.cast(rate, dtype), b.cast(decay, dtype)
        if hyper.optimizer == "adamw":
            assert rates.step is not None
            step = b.cast(rates.step, rate.dtype)
            first, second = (
                b.binary("sub", one, b.make("pow", [b.operand(number(b, beta, rate)), step], rate.dtype, ()))
                for beta in (hyper.beta1, hyper.beta2)
            )
            self.corrected_rate = b.cast(b.binary("div", rate, first), dtype)
            self.second_correction = b.cast(b.binary("div", one, second), dtype)

    def update(self, p: Value, grad: Value, moments: list[Value], decays: bool) -> tuple[Value, list[Value]]:
        """The new parameter and moments. `grad` is clipped already."""
        decays = decays and self.hyper.weight_decay != 0
        if self.hyper.optimizer == "adamw":
            return self._adamw(p, grad, moments, decays)
        return self._sgd(p, grad, moments, decays)

    def _lerp(self, old: Value, new: Value, beta: float) -> Value:
        b = self.b
        return b.binary("add", b.binary("mul", old, number(b, beta, old)),
                        b.binary("mul", new, number(b, 1 - beta, new)))

    def _adamw(self, p: Value, grad: Value, moments: list[Value], decays: bool) -> tuple[Value, list[Value]]:
        """Decoupled decay first, then m / (1 - beta1^t) over sqrt(v / (1 - beta2^t)) + epsilon."""
        b, hyper = self.b, self.hyper
        m = self._lerp(moments[0], grad, hyper.beta1)
        v = self._lerp(moments[1], b.binary("mul", grad, grad), hyper.beta2)
        root = b.unary("sqrt", b.binary("mul", v, self.second_correction))
        delta = b.binary("div", m, b.binary("add", root, number(b, hyper.epsilon, root)))
        kept = b.binary("mul", p, self.decay) if decays else p
        return b.binary("sub", kept, b.binary("mul", delta, self.corrected_rate)), [m, v]

    def _sgd(self, p: Value, grad: Value, moments: list[Value], decays: bool) -> tuple[Value, list[Value]]:
        """The decay is part of the gradient; the momentum sums gradients."""
        b, hyper = self.b, self.hyper
        if decays:
            grad = b.binary("add", grad, b.binary("mul", p, number(b, hyper.weight_decay, p)))
        if moments:
            grad = b.binary("add", b.binary("mul", moments[0], number(b, hyper.momentum, grad)), grad)
        return b.binary("sub", p, b.binary("mul", grad, self.rate)), [grad] if moments else []

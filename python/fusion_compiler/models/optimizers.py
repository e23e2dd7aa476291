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

    norm: Value  # f64, of the gradients without the loss scale
    finite: Value  # i1
    factor: Value  # f64, on each gradient


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
    return Clip(norm, finite, factor)


@dataclass
class Rates:
    """Scalars of one step that all parameters share."""

    rate: Value  # f64
    step: Optional[Value]  # i64, from 1


class Optimizer:
    """Builds the update of one parameter after another.

    What all parameters share is computed once, as scalars: a parameter's update is then
    short enough to be one kernel, which reads each tensor once and writes it in place.
    """

    def __init__(self, b: Builder, hyper: Hyper, rates: Rates, clipped: Optional[Clip], dtype: str):
        self.b, self.hyper, self.dtype = b, hyper, dtype
        self.finite = clipped.finite if clipped else None
        b.loc = "rates"
        rate, one = rates.rate, number(b, 1.0, rates.rate)
        factor = clipped.factor if clipped else one
        self.rate = self._wide(rate)
        if hyper.optimizer == "sgd":
            self.factor = self._wide(factor) if clipped else None
            return
        # The corrections of m and v go to the rate and to epsilon, that of a clipped gradient to its weights.
        assert rates.step is not None
        step = b.cast(rates.step, rate.dtype)
        first, second = (
            b.binary("sub", one, b.make("pow", [number(b, beta, rate), step], rate.dtype, ()))
            for beta in (hyper.beta1, hyper.beta2)
        )
        root = b.unary("sqrt", second)
        self.corrected_rate = self._wide(b.binary("mul", b.binary("div", rate, first), root))
        self.epsilon = self._wide(b.binary("mul", root, number(b, hyper.epsilon, root)))
        decay = b.binary("sub", one, b.binary("mul", rate, number(b, hyper.weight_decay, rate)))
        self.decay = self._wide(decay)
        self.weights = [
            self._wide(b.binary("mul", factor, number(b, weight, factor)))
            for weight in (1 - hyper.beta1, math.sqrt(1 - hyper.beta2))
        ]

    def _wide(self, x: Value) -> Value:
        return self.b.cast(x, self.dtype)

    def update(self, p: Value, grad: Value, moments: list[Value], decays: bool) -> tuple[Value, list[Value]]:
        """The new parameter and moments; the old ones in a step that is skipped."""
        step = self._adamw if self.hyper.optimizer == "adamw" else self._sgd
        # Computed in the type of the scalars and rounded once, where tensors are narrower.
        wide_p, wide_grad, *wide_moments = (self._wide(x) for x in (p, grad, *moments))
        new, new_moments = step(wide_p, wide_grad, wide_moments, decays and self.hyper.weight_decay != 0)
        rounded, *rounded_moments = (self.b.cast(x, p.dtype) for x in (new, *new_moments))
        return self.keep(rounded, p), [self.keep(n, o) for n, o in zip(rounded_moments, moments)]

    def keep(self, new: Value, old: Value) -> Value:
        return new if self.finite is None else self.b.select(self.finite, new, old)

    def _adamw(self, p: Value, grad: Value, moments: list[Value], decays: bool) -> tuple[Value, list[Value]]:
        """Decoupled decay; m / (1 - beta1^t) over sqrt(v / (1 - beta2^t)) + epsilon."""
        b, hyper = self.b, self.hyper
        root = b.binary("mul", grad, self.weights[1])
        m, v = (b.binary("mul", old, number(b, beta, p)) for old, beta in zip(moments, (hyper.beta1, hyper.beta2)))
        m = b.binary("add", m, b.binary("mul", grad, self.weights[0]))
        v = b.binary("add", v, b.binary("mul", root, root))
        divisor = b.binary("add", b.unary("sqrt", v), self.epsilon)
        delta = b.binary("div", b.binary("mul", m, self.corrected_rate), divisor)
        kept = b.binary("mul", p, self.decay) if decays else p
        return b.binary("sub", kept, delta), [m, v]

    def _sgd(self, p: Value, grad: Value, moments: list[Value], decays: bool) -> tuple[Value, list[Value]]:
        """The decay is part of the gradient; the momentum sums gradients."""
        b, hyper = self.b, self.hyper
        if self.factor is not None:
            grad = b.binary("mul", grad, self.factor)
        if decays:
            grad = b.binary("add", grad, b.binary("mul", p, number(b, hyper.weight_decay, p)))
        if moments:
            grad = b.binary("add", b.binary("mul", moments[0], number(b, hyper.momentum, grad)), grad)
        return b.binary("sub", p, b.binary("mul", grad, self.rate)), [grad] if moments else []

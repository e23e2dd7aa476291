# ===- step.py - One training step as a function --------------------------=== #
#
# @main takes data, parameters, optimizer state and scalars, and returns the updated
# parameters and state, each donated by its argument, the loss, and with clipping the
# gradients' norm and whether the step was skipped. Nothing is kept between steps
# but what the caller hands on.
#
# ===----------------------------------------------------------------------=== #
"""Builds training steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional

from ..ir.builder import Builder
from ..ir.module import Module, Value
from .model import Model, Sharding
from .ops.elementwise import number
from .optimizers import Hyper, Optimizer, Rates, clip
from .tape import Tape, after


@dataclass
class Options:
    """What a step does beside the model's own work."""

    hyper: Hyper = field(default_factory=Hyper)
    micro_batches: int = 1
    tensor_parallel: bool = False
    emit_gradients: bool = False
    statistic_momentum: float = 0.1  # weight of a batch in running statistics


def sharding_text(sharding: Sharding) -> str:
    """The attribute `fusion.sharding`."""
    dims = ("[" + ", ".join(f'"{axis}"' for axis in axes) + "]" for axes in sharding)
    return "[" + ", ".join(dims) + "]"


class _Step:
    """The function while it is built."""

    def __init__(self, model: Model, options: Options):
        self.model, self.options = model, options
        self.module = Module()
        self.b = Builder(self.module)
        self.dtype = model.sizes.wide
        # Of parameters, moments and gradients.
        self.stored = model.sizes.parameter_dtype or self.dtype

    def argument(self, name: str, dtype: str, shape, role: str, sharding: Optional[Sharding] = None) -> Value:
        value = Value(dtype, shape, name=f"a{len(self.module.arguments)}")
        attributes = {"fusion.role": f'"{role}"'}
        if sharding is not None and self.options.tensor_parallel:
            attributes["fusion.sharding"] = sharding_text(sharding)
        self.module.arguments.append(value)
        self.module.argument_names.append(name)
        self.module.argument_attributes.append(attributes)
        return value

    def result(self, value: Value, name: str, donor: Optional[Value] = None) -> None:
        """A result; it takes the bytes, the role and the sharding of its donor."""
        module = self.module
        attributes = {}
        if donor is not None:
            given = module.argument_attributes[next(i for i, v in enumerate(module.arguments) if v is donor)]
            given["fusion.donated"] = f"{len(module.results)} : i64"
            attributes = {k: v for k, v in given.items() if k == "fusion.sharding"}
        module.results.append(self.b.operand(value))
        module.result_names.append(name)
        module.result_attributes.append(attributes)

    def declare(self) -> None:
        model, hyper = self.model, self.options.hyper
        self.data = {name: self.argument(name, dtype, shape, "data") for name, dtype, shape in model.data}
        self.parameters = {
            spec.name: self.argument(spec.name, self.stored, spec.shape, "parameter", spec.sharding)
            for spec in model.parameters
        }
        self.moments = {
            spec.name: [
                self.argument(f"{spec.name}.{moment}", self.stored, spec.shape, "state", spec.sharding)
                for moment in hyper.moments
            ]
            for spec in model.parameters
        }
        self.statistics = {
            s.name: self.argument(s.name, self.dtype, (s.size,), "state", [[]]) for s in model.statistics
        }
        rate = self.argument("lr", self.dtype, (), "scalar")
        step = self.argument("step", "i64", (), "scalar") if hyper.optimizer == "adamw" else None
        self.rates = Rates(self.b.cast(rate, "f64"), step)

    def part(self, value: Value, index: int) -> Value:
        """Examples index, index + N, ... of N micro-batches: a slice that leaves a split first dimension whole."""
        count = self.options.micro_batches
        if count == 1:
            return value
        split = self.b.reshape(value, (value.shape[0] // count, count, *value.shape[1:]))
        return self.b.reshape(self.b.slice_dim(split, 1, index, index + 1), (split.shape[0], *value.shape[1:]))

    def find_last(self, grads: dict[str, Value]) -> Optional[Value]:
        """The gradient that is computed last."""
        found = {id(grad) for grad in grads.values()}
        return next((v for op in reversed(self.module.ops) for v in op.results if id(v) in found), None)

    def differentiate(self) -> tuple[Value, dict[str, Value]]:
        """The mean loss and the sums of gradients over the micro-batches."""
        b, options = self.b, self.options
        loss: Optional[Value] = None
        sums: dict[str, Value] = {}
        reached: Optional[Value] = None
        for index in range(options.micro_batches):
            tape = Tape(b)
            for value in self.parameters.values():
                tape.track(value)
            b.loc = "data"
            # Nothing of a part starts before the gradients of the part before are there, and these wait for nothing.
            def behind(values: dict[str, Value]) -> dict[str, Value]:
                return {name: after(b, value, reached) if reached else value for name, value in values.items()}

            data = {name: self.part(value, index) for name, value in behind(self.data).items()}
            seen: dict[str, Value] = {}
            part = self.model.loss(tape, self.parameters, data, seen)
            seed = b.operand(b.constant(options.hyper.loss_scale / options.micro_batches, part.dtype))
            before = {self.parameters[name]: grad for name, grad in behind(sums).items()}
            grads = tape.backward({part: seed}, before)
            sums = {name: grad for name, value in self.parameters.items() if (grad := grads.get(value)) is not None}
            reached = self.find_last(sums)
            self.move_statistics(seen)
            b.loc = "loss"
            if options.micro_batches > 1:
                part = b.binary("mul", part, number(b, 1 / options.micro_batches, part))
            loss = part if loss is None else b.binary("add", loss, part)
        assert loss is not None
        for name, value in self.parameters.items():
            if name not in sums:
                sums[name] = b.splat(0.0, value.dtype, value.shape)
        return loss, sums

    def move_statistics(self, seen: dict[str, Value]) -> None:
        b, weight = self.b, self.options.statistic_momentum
        b.loc = "statistics"
        for spec in self.model.statistics:
            old = self.moved[spec.name]
            kept = b.binary("mul", old, number(b, 1 - weight, old))
            new = b.binary("mul", b.cast(seen[spec.name], old.dtype), number(b, weight * spec.correction, old))
            self.moved[spec.name] = b.binary("add", kept, new)

    def build(self) -> Module:
        b, options = self.b, self.options
        self.declare()
        self.moved = dict(self.statistics)
        loss, grads = self.differentiate()
        clipped = clip(b, list(grads.values()), options.hyper) if options.hyper.clip else None
        optimizer = Optimizer(b, options.hyper, self.rates, clipped, self.dtype)
        updates = []
        for spec in self.model.parameters:
            b.loc = f"update.{spec.name}"
            old, moments = self.parameters[spec.name], self.moments[spec.name]
            updates.append((spec.name, *optimizer.update(old, grads[spec.name], moments, spec.decay)))
        for name, new, _ in updates:
            self.result(new, name, self.parameters[name])
        for name, _, moments in updates:
            for moment, new, old in zip(options.hyper.moments, moments, self.moments[name]):
                self.result(new, f"{name}.{moment}", old)
        b.loc = "statistics"
        for name, old in self.statistics.items():
            self.result(optimizer.keep(self.moved[name], old), name, old)
        self.result(loss, "loss")
        if clipped:
            b.loc = "clip"
            self.result(b.cast(clipped.norm, self.dtype), "grad_norm")
            self.result(b.unary("not", clipped.finite), "skipped")
        if options.emit_gradients:
            b.loc = "gradients"
            for name, grad in grads.items():
                scale = options.hyper.loss_scale
                self.result(b.binary("mul", grad, number(b, 1 / scale, grad)) if scale != 1 else grad, f"grad.{name}")
        return self.module


def training_step(model: Model, options: Options) -> Module:
    """The module of one step."""
    return _Step(model, options).build()

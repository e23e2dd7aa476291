# ===- mlp.py - Layers of one kind ----------------------------------------=== #
#
# `layers` hidden layers of `hidden` units on `features` numbers, then `classes` outputs.
#
# ===----------------------------------------------------------------------=== #
"""A multilayer perceptron."""

from __future__ import annotations

from . import ops
from .model import Model


class Mlp(Model):
    """Layers take turns in being split by columns and by rows."""

    def __post_init__(self):
        s = self.sizes
        wanted = ("labels", "i64", (s.batch,))
        if s.loss == "mse":
            wanted = ("targets", "f32", (s.batch, s.classes))
        self.data = [("x", "f32", (s.batch, s.features)), wanted]
        widths = [s.features] + [s.hidden] * s.layers + [s.classes]
        for i, (before, after) in enumerate(zip(widths, widths[1:])):
            by_columns = i % 2 == 0 and i < s.layers
            by_rows = i % 2 == 1
            self.add(f"layers.{i}.weight", before, after,
                     sharding=[["tp"] if by_rows else [], ["tp"] if by_columns else []])
            self.add(f"layers.{i}.bias", after, initial="zeros", sharding=[["tp"] if by_columns else []])

    def loss(self, t, p, data, seen):
        s = self.sizes
        x = ops.cast(t, data["x"], s.dtype)

        def layer(i):
            def build(t, x):
                y = ops.linear(t, x, p[f"layers.{i}.weight"], p[f"layers.{i}.bias"])
                return ops.activation(t, s.activation or "relu", y) if i < s.layers else y
            return build

        for i in range(s.layers + 1):
            t.b.loc = f"layers.{i}"
            x = self.block(t, layer(i), x) if i < s.layers else layer(i)(t, x)
        t.b.loc = "loss"
        if s.loss == "cross_entropy":
            return ops.cross_entropy(t, x, data["labels"])
        return ops.mean_squared_error(t, x, data["targets"])

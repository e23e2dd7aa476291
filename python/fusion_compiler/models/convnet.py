# ===- convnet.py - Stages of convolutions --------------------------------=== #
#
# Each stage: a 3x3 convolution, BatchNorm by the batch's statistics, relu, and a pool
# that halves the image. Channels double from stage to stage. Then the mean over the
# image, and one linear layer. Channels are last.
#
# ===----------------------------------------------------------------------=== #
"""A convolutional network."""

from __future__ import annotations

from . import ops
from .model import Model, Statistic


class ConvNet(Model):
    """`layers` stages, the first of `hidden` channels."""

    def __post_init__(self):
        s = self.sizes
        self.data = [("x", "f32", (s.batch, s.image, s.image, s.channels)), ("labels", "i64", (s.batch,))]
        before, image = s.channels, s.image
        for i in range(s.layers):
            after = s.hidden << i
            self.add(f"stages.{i}.conv.weight", after, before, 3, 3, sharding=[[], [], [], []])
            self.add(f"stages.{i}.norm.weight", after, initial="ones", sharding=[[]])
            self.add(f"stages.{i}.norm.bias", after, initial="zeros", sharding=[[]])
            count = s.batch * image * image
            self.statistics.append(Statistic(f"stages.{i}.norm.mean", after))
            # The variance of a batch is biased; what is kept is not.
            self.statistics.append(Statistic(f"stages.{i}.norm.variance", after, "ones", count / max(count - 1, 1)))
            before, image = after, image // 2
        self.add("head.weight", before, s.classes, sharding=[[], []])
        self.add("head.bias", s.classes, initial="zeros", sharding=[[]])

    def loss(self, t, p, data, seen):
        s = self.sizes
        x = ops.cast(t, data["x"], s.dtype)

        def stage(i):
            def build(t, x):
                y = ops.conv(t, x, p[f"stages.{i}.conv.weight"], low=[1, 1])
                y, mean, variance = ops.batch_norm(t, y, p[f"stages.{i}.norm.weight"], p[f"stages.{i}.norm.bias"])
                # A second computation of the stage tells nothing new.
                seen.setdefault(f"stages.{i}.norm.mean", mean)
                seen.setdefault(f"stages.{i}.norm.variance", variance)
                y = ops.activation(t, "relu", y)
                return (ops.max_pool if s.pool == "max" else ops.avg_pool)(t, y, [2, 2])
            return build

        for i in range(s.layers):
            t.b.loc = f"stages.{i}"
            x = self.block(t, stage(i), x)
        t.b.loc = "head"
        x = ops.avg_pool(t, x, x.shape[1:-1])
        x = ops.linear(t, ops.reshape(t, x, (x.shape[0], x.shape[-1])), p["head.weight"], p["head.bias"])
        t.b.loc = "loss"
        return ops.cross_entropy(t, x, data["labels"])

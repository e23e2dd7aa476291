# ===- seed2.py - The workloads of the suite `seed2` -----------------------=== #
#
# Independent adds and norms (horizontal fusion), chains, residuals, softmax and sums
# (vertical fusion), projections, a linear layer and convolutions (libraries). One
# function a family, sizes as arguments: the suite has each at its full size and, for
# tests on a CPU, at a small one.
#
# ===----------------------------------------------------------------------=== #
"""The workloads of suite `seed2`."""

from __future__ import annotations

import math

import numpy as np

from .bars import Bar
from .workload import ROUNDOFF, Tensor, Tolerance, Workload

_EPSILON = 1e-5


def adds(count: int, size: int, bars=(), graph_bars=()) -> Workload:
    """Independent adds of f32 vectors."""
    inputs = [Tensor(f"{side}{i}", "f32", (size,)) for side in "ab" for i in range(count)]
    results = [Tensor(f"y{i}", "f32", (size,)) for i in range(count)]

    def compute(*x):
        return tuple(x[i] + x[i + count] for i in range(count))

    return Workload(
        name=f"adds-{count}x{size}", title=f"{count} independent adds f32[{size}]", inputs=inputs, results=results,
        body=[f"%{y.name} = fusion.add %a{i}, %b{i} : {y.type}" for i, y in enumerate(results)],
        returned=[f"%{y.name}" for y in results], tolerance=Tolerance(), bars=bars,
        graph_bars=graph_bars, limit=("adds", {}),
        numpy=lambda x, _w: list(compute(*x)), torch=lambda _w: compute, jax=lambda _w: compute)


def layer_norms(count: int, rows: int, width: int, bars=(), warm_bars=(), graph_bars=()) -> Workload:
    """Independent LayerNorms of bf16 matrices, each with its scale and bias."""
    x = [Tensor(f"x{i}", "bf16", (rows, width)) for i in range(count)]
    scales = [Tensor(f"s{i}", "bf16", (width,)) for i in range(count)]
    biases = [Tensor(f"b{i}", "bf16", (width,)) for i in range(count)]
    results = [Tensor(f"y{i}", "bf16", (rows, width)) for i in range(count)]

    def in_torch(*a):
        import torch.nn.functional as F
        return tuple(F.layer_norm(a[i], (width,), a[count + i], a[2 * count + i], _EPSILON) for i in range(count))

    def norm(xp, x, scale, bias):
        mean = x.mean(-1, keepdims=True)
        variance = ((x - mean) ** 2).mean(-1, keepdims=True)
        return (x - mean) / xp.sqrt(variance + _EPSILON) * scale + bias

    def in_jax(*a):
        import jax.numpy as jnp
        wide = [v.astype(jnp.float32) for v in a]
        return tuple(norm(jnp, wide[i], wide[count + i], wide[2 * count + i]).astype(a[i].dtype) for i in range(count))

    body = [
        f"%{results[i].name} = fusion.layer_norm %{x[i].name} scale %{scales[i].name} bias %{biases[i].name} "
        f"epsilon = {_EPSILON:.1e} axis = 1 : {x[i].type}, {scales[i].type}, {biases[i].type}" for i in range(count)]
    return Workload(
        name=f"layer_norms-{count}x{rows}x{width}", title=f"{count} LayerNorms bf16[{rows},{width}]",
        inputs=x + scales + biases, results=results, body=body, returned=[f"%{y.name}" for y in results],
        tolerance=Tolerance.formula("bf16"), bars=bars, warm_bars=warm_bars, graph_bars=graph_bars,
        limit=("layer_norms", {}),
        numpy=lambda a, _w: [norm(np, a[i], a[count + i], a[2 * count + i]) for i in range(count)],
        torch=lambda _w: in_torch, jax=lambda _w: in_jax)


def chain(batch: int, channels: int, height: int, bars=()) -> Workload:
    """gelu(relu(x * s + s) + r) of an f32 map, s a number a channel."""
    x = Tensor("x", "f32", (batch, channels, height, height))
    r = Tensor("r", "f32", x.shape)
    s = Tensor("s", "f32", (channels,))

    def in_torch(x, s, r):
        import torch.nn.functional as F
        s = s.view(1, -1, 1, 1)
        return (F.gelu(F.relu(x * s + s) + r),)

    def in_jax(x, s, r):
        import jax
        s = s.reshape(1, -1, 1, 1)
        return (jax.nn.gelu(jax.nn.relu(x * s + s) + r, approximate=False),)

    def in_numpy(a, _w):
        x, s, r = a
        s = s.reshape(1, -1, 1, 1)
        h = np.maximum(x * s + s, 0) + r
        return [h * 0.5 * (1 + np.vectorize(math.erf)(h / math.sqrt(2)))]

    def slack(_torch, inputs, _weights):
        x, s, r = inputs
        s = s.view(1, -1, 1, 1).abs()
        return [4 * ROUNDOFF["f32"] * (x.abs() * s + s + r.abs())]

    return Workload(
        name=f"chain-{batch}x{channels}x{height}", inputs=[x, s, r], results=[Tensor("y", "f32", x.shape)],
        title=f"chain gelu(relu(x*s+s)+r) f32 of {x.bytes >> 20} MiB",
        body=[f"%sb = fusion.broadcast %s dims = [1] : {s.type} to {x.type}", f"%0 = fusion.mul %x, %sb : {x.type}",
              f"%1 = fusion.add %0, %sb : {x.type}", f"%2 = fusion.relu %1 : {x.type}",
              f"%3 = fusion.add %2, %r : {x.type}", f"%4 = fusion.gelu erf, %3 : {x.type}"],
        returned=["%4"], tolerance=Tolerance.formula("f32"), bars=bars, numpy=in_numpy, slack=slack,
        torch=lambda _w: in_torch, jax=lambda _w: in_jax)


def residual_rms_norm(rows: int, width: int, bars=()) -> Workload:
    """h = x + r and rms_norm(h) * scale, both results, bf16."""
    x, r = (Tensor(name, "bf16", (rows, width)) for name in "xr")
    scale = Tensor("s", "bf16", (width,))

    def in_torch(x, r, scale):
        import torch.nn.functional as F
        h = x + r
        return h, F.rms_norm(h, (width,), scale, _EPSILON)

    def norm(xp, h, scale):
        return h / xp.sqrt((h * h).mean(-1, keepdims=True) + _EPSILON) * scale

    def in_jax(x, r, scale):
        import jax.numpy as jnp
        h = x + r
        return h, norm(jnp, h.astype(jnp.float32), scale.astype(jnp.float32)).astype(h.dtype)

    return Workload(
        name=f"residual_rms_norm-{rows}x{width}", title=f"residual add + RMSNorm bf16[{rows},{width}]",
        inputs=[x, r, scale], results=[Tensor("h", "bf16", x.shape), Tensor("y", "bf16", x.shape)],
        body=[f"%h = fusion.add %x, %r : {x.type}",
              f"%y = fusion.rms_norm %h scale %s epsilon = {_EPSILON:.1e} axis = 1 : {x.type}, {scale.type}"],
        returned=["%h", "%y"], tolerance=Tolerance.formula("bf16"), bars=bars,
        numpy=lambda a, _w: [a[0] + a[1], norm(np, a[0] + a[1], a[2])],
        torch=lambda _w: in_torch, jax=lambda _w: in_jax)


def softmax(rows: int, width: int, bars=()) -> Workload:
    """Softmax over the rows of an f32 matrix."""
    x = Tensor("x", "f32", (rows, width))

    def in_jax(x):
        import jax
        return (jax.nn.softmax(x, axis=-1),)

    def in_numpy(a, _w):
        e = np.exp(a[0] - a[0].max(-1, keepdims=True))
        return [e / e.sum(-1, keepdims=True)]

    return Workload(
        name=f"softmax-{rows}x{width}", title=f"softmax f32[{rows},{width}]", inputs=[x],
        results=[Tensor("y", "f32", x.shape)], body=[f"%y = fusion.softmax %x axis = 1 : {x.type}"], returned=["%y"],
        tolerance=Tolerance.formula("f32"), bars=bars, numpy=in_numpy, torch=lambda _w: lambda x: (x.softmax(-1),),
        jax=lambda _w: in_jax)


def bias_gradient(rows: int, width: int, bars=()) -> Workload:
    """Sums of the columns of a bf16 matrix: the gradient of a bias."""
    x = Tensor("g", "bf16", (rows, width))

    def slack(_torch, inputs, _weights):
        return [(rows + 4) * ROUNDOFF["f32"] * inputs[0].abs().sum(0)]

    return Workload(
        name=f"bias_gradient-{rows}x{width}", title=f"column sums bf16[{rows},{width}] (bias gradient)", inputs=[x],
        results=[Tensor("y", "bf16", (width,))],
        body=[f"%y = fusion.reduce sum, %g dims = [0] : {x.type}"], returned=["%y"],
        tolerance=Tolerance(ROUNDOFF["bf16"]), slack=slack, bars=bars, numpy=lambda a, _w: [a[0].sum(0)],
        torch=lambda _w: lambda g: (g.sum(0),), jax=lambda _w: lambda g: (g.sum(0),))


def transpose(size: int, bars=()) -> Workload:
    """A square f32 matrix, transposed."""
    x = Tensor("x", "f32", (size, size))
    return Workload(
        name=f"transpose-{size}", title=f"transpose f32[{size},{size}]", inputs=[x],
        results=[Tensor("y", "f32", x.shape)],
        body=[f"%y = fusion.transpose %x permutation = [1, 0] : {x.type}"], returned=["%y"],
        tolerance=Tolerance(), bars=bars, numpy=lambda a, _w: [a[0].T],
        torch=lambda _w: lambda x: (x.t().contiguous(),), jax=lambda _w: lambda x: (x.T,))


def _affine(y, x, weight, bias, rows, depth, width):
    """Lines of %y = x * transpose(weight) + bias in bf16."""
    X, W, B, Y = (Tensor("", "bf16", shape).type for shape in ((rows, depth), (width, depth), (width,), (rows, width)))
    return [f"%{y}m = fusion.matmul %{x}, %{weight} {{transpose_rhs}} : {X}, {W}",
            f"%{y}b = fusion.broadcast %{bias} dims = [1] : {B} to {Y}", f"%{y} = fusion.add %{y}m, %{y}b : {Y}"]


def _affine_slack(torch, x, weight, bias):
    """What a sum of products in f32 and two roundings to bf16 may differ by, in f64."""
    size = x.abs() @ weight.abs().t()
    near = torch.nn.functional.linear(x, weight)
    u = 1.02 * ROUNDOFF["bf16"]  # the second rounding is of a rounded number
    return (x.shape[-1] + 4) * ROUNDOFF["f32"] * size + u * (near.abs() + (near + bias).abs())


def projections(rows: int, depth: int, bars=(), graph_bars=()) -> Workload:
    """Query, key and value: three linear layers of one value, their weights known, bf16."""
    x = Tensor("x", "bf16", (rows, depth))
    names = ("q", "k", "v")
    w = [Tensor(f"w{n}", "bf16", (depth, depth), 1 / 16) for n in names]
    b = [Tensor(f"b{n}", "bf16", (depth,)) for n in names]
    results = [Tensor(n, "bf16", (rows, depth)) for n in names]

    def in_torch(weights):
        import torch

        class Three(torch.nn.Module):
            def __init__(self):
                super().__init__()
                for i, name in enumerate(names):
                    self.register_buffer(f"w{name}", weights[i])
                    self.register_buffer(f"b{name}", weights[3 + i])

            def forward(self, x):
                linear = torch.nn.functional.linear
                return linear(x, self.wq, self.bq), linear(x, self.wk, self.bk), linear(x, self.wv, self.bv)

        return Three()

    def slack(torch, inputs, weights):
        return [_affine_slack(torch, inputs[0], weights[i], weights[3 + i]) for i in range(3)]

    return Workload(
        name=f"qkv-{rows}x{depth}", title=f"QKV: 3 linears bf16, {rows} tokens of {depth}", inputs=[x],
        results=results, weights=w + b, returned=[f"%{n}" for n in names],
        body=[line for n in names for line in _affine(n, "x", f"w{n}", f"b{n}", rows, depth, depth)],
        tolerance=Tolerance(), slack=slack, bars=bars, graph_bars=graph_bars, flops=6 * rows * depth * depth,
        limit=("merged_linear", {}), numpy=lambda a, w: [a[0] @ w[i].T + w[3 + i] for i in range(3)],
        torch=in_torch, jax=lambda w: lambda x: tuple(x @ w[i].T + w[3 + i] for i in range(3)))


def linear_gelu(rows: int, depth: int, width: int, bars=()) -> Workload:
    """gelu(x W^T + b) with the tanh form, bf16, the weights an input (they are large)."""
    x, w, b = (Tensor("x", "bf16", (rows, depth)), Tensor("w", "bf16", (width, depth), 1 / 32),
               Tensor("b", "bf16", (width,)))
    y = Tensor("y", "bf16", (rows, width))

    def in_torch(x, w, b):
        import torch.nn.functional as F
        return (F.gelu(F.linear(x, w, b), approximate="tanh"),)

    def in_jax(x, w, b):
        import jax
        return (jax.nn.gelu(x @ w.T + b, approximate=True),)

    def in_numpy(a, _w):
        z = a[0] @ a[1].T + a[2]
        return [0.5 * z * (1 + np.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3)))]

    def slack(torch, inputs, _weights):
        return [1.13 * _affine_slack(torch, *inputs)]  # the steepest slope of gelu

    return Workload(
        name=f"linear_gelu-{rows}x{depth}x{width}", title=f"linear + bias + gelu bf16 {rows}x{depth}x{width}",
        inputs=[x, w, b], results=[y],
        body=_affine("z", "x", "w", "b", rows, depth, width) + [f"%y = fusion.gelu tanh, %z : {y.type}"],
        returned=["%y"], tolerance=Tolerance.formula("bf16"), slack=slack, bars=bars, flops=2 * rows * depth * width,
        limit=("matmul", {}), numpy=in_numpy, torch=lambda _w: in_torch, jax=lambda _w: in_jax)


def conv_norm_relu(batch: int, channels: int, filters: int, window: int, height: int, bars=()) -> Workload:
    """relu(batch_norm(conv(x))) in f16, channels last, the weights and statistics known."""
    pad = window // 2
    x = Tensor("x", "f16", (batch, height, height, channels))
    y = Tensor("y", "f16", (batch, height, height, filters))
    w = Tensor("w", "f16", (filters, channels, window, window), math.sqrt(6 / (channels * window * window)))
    statistics = [Tensor("scale", "f16", (filters,), 0.25, 1.0), Tensor("shift", "f16", (filters,), 0.5),
                  Tensor("mean", "f16", (filters,), 0.5), Tensor("variance", "f16", (filters,), 0.5, 1.0)]
    attributes = (f"strides = [1, 1] pad_low = [{pad}, {pad}] pad_high = [{pad}, {pad}] dilations = [1, 1] "
                  f"groups = 1 layout = nhwc")
    S = statistics[0].type

    def in_torch(weights):
        import torch
        w, scale, shift, mean, variance = weights

        class ConvNormRelu(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = torch.nn.Conv2d(channels, filters, window, 1, pad, bias=False, dtype=w.dtype)
                self.norm = torch.nn.BatchNorm2d(filters, _EPSILON, dtype=w.dtype)
                self.conv.weight.data = w.contiguous(memory_format=torch.channels_last)
                self.norm.weight.data, self.norm.bias.data = scale, shift
                self.norm.running_mean, self.norm.running_var = mean, variance

            def forward(self, x):
                image = x.permute(0, 3, 1, 2)  # a view: its bytes are channels last
                return (torch.nn.functional.relu(self.norm(self.conv(image))).permute(0, 2, 3, 1),)

        return ConvNormRelu().eval().to(w.device)

    def in_jax(weights):
        import jax
        import jax.numpy as jnp
        w, scale, shift, mean, variance = weights
        gain = scale.astype(jnp.float32) / jnp.sqrt(variance.astype(jnp.float32) + _EPSILON)
        folded = (w.astype(jnp.float32) * gain[:, None, None, None]).astype(w.dtype).transpose(2, 3, 1, 0)
        bias = (shift.astype(jnp.float32) - mean.astype(jnp.float32) * gain).astype(w.dtype)

        def run(x):
            z = jax.lax.conv_general_dilated(x, folded, (1, 1), [(pad, pad)] * 2,
                                             dimension_numbers=("NHWC", "HWIO", "NHWC"))
            return (jax.nn.relu(z + bias),)

        return run

    def in_numpy(a, weights):
        w, scale, shift, mean, variance = weights
        padded = np.pad(a[0], ((0, 0), (pad, pad), (pad, pad), (0, 0)))
        z = sum(padded[:, i:i + height, j:j + height] @ w[:, :, i, j].T for i in range(window) for j in range(window))
        return [np.maximum((z - mean) / np.sqrt(variance + _EPSILON) * scale + shift, 0)]

    def slack(torch, inputs, weights):
        w, scale, shift, mean, variance = weights
        image = inputs[0].permute(0, 3, 1, 2)
        conv = torch.nn.functional.conv2d
        gain = (scale / (variance + _EPSILON).sqrt()).view(1, -1, 1, 1)
        size = conv(image.abs(), w.abs(), padding=pad) * gain.abs()
        near = (conv(image, w, padding=pad) * gain).abs()
        u = ROUNDOFF["f16"]
        spread = (mean.abs() * gain.flatten().abs() + shift.abs()).view(1, -1, 1, 1)
        # The weights may be folded (rounded once more), the product and the norm rounded apart.
        total = (channels * window * window + 4) * ROUNDOFF["f32"] * size + u * (size + 3 * near + 3 * spread)
        return [total.permute(0, 2, 3, 1)]

    return Workload(
        name=f"conv{window}x{window}-{batch}x{channels}x{filters}x{height}",
        title=f"conv{window}x{window}+BN+ReLU f16 n{batch} {channels}->{filters} {height}x{height}",
        inputs=[x], results=[y], weights=[w, *statistics],
        body=[f"%c = fusion.conv %x, %w {attributes} : {x.type}, {w.type}",
              f"%n = fusion.batch_norm %c, %scale, %shift, %mean, %variance epsilon = {_EPSILON:.1e} axis = 3 : "
              f"{y.type}, {S}",
              f"%y = fusion.relu %n : {y.type}"],
        returned=["%y"], tolerance=Tolerance.formula("f16"), slack=slack, bars=bars,
        flops=2 * batch * height * height * channels * filters * window * window, freezing=True,
        limit=("conv", {"pad": pad}), numpy=in_numpy, torch=in_torch, jax=in_jax)


def workloads() -> list[Workload]:
    """The suite at full size, with the bars of each row."""
    near_copy = [[Bar.bandwidth(0.85)]]
    conv = [[Bar.of_peer(0.95), Bar.of_limit(1.05)]]
    return [
        adds(3, 1 << 16),
        # What small adds read, an op has just written, in the same graph: the bar is on data in the cache, and on
        # one of several runs in a graph.
        adds(16, 1 << 16, graph_bars=[[Bar.speedup(8)]]),
        adds(3, 1 << 24),
        layer_norms(12, 512, 768, [[Bar.speedup(3.5)]], [[Bar.speedup(3.5)]], [[Bar.speedup(3.5)]]),
        layer_norms(12, 8192, 1024, [[Bar.speedup(1.2)], [Bar.bandwidth(0.85)]]),
        layer_norms(12, 4096, 4096, [[Bar.speedup(1.3)], [Bar.bandwidth(0.85), Bar.of_limit(1.03)]]),
        chain(64, 256, 64, [[Bar.bandwidth(0.97)], [Bar.dram(0.02)]]),
        residual_rms_norm(8192, 4096, near_copy),
        softmax(8192, 4096, near_copy),
        bias_gradient(8192, 16384, near_copy),
        transpose(8192, near_copy),
        projections(128, 1024, [[Bar.speedup(1.9)]], [[Bar.speedup(1.9)]]),
        projections(2048, 1024, [[Bar.speedup(1.25)]], [[Bar.speedup(1.25)]]),
        linear_gelu(8192, 4096, 16384, [[Bar.of_limit(1.03)], [Bar.of_peer(1.0)]]),
        conv_norm_relu(32, 64, 64, 3, 56, conv),
        conv_norm_relu(32, 256, 64, 1, 56, conv),
        conv_norm_relu(32, 512, 512, 3, 7, conv),
    ]


def small_workloads() -> list[Workload]:
    """Each family at a size that the reference evaluator does in a moment."""
    return [
        adds(3, 33), layer_norms(2, 5, 24), chain(2, 3, 5), residual_rms_norm(4, 40), softmax(3, 17),
        bias_gradient(9, 6), transpose(7), projections(5, 16), linear_gelu(4, 16, 24),
        conv_norm_relu(2, 3, 4, 3, 5), conv_norm_relu(1, 4, 3, 1, 3),
    ]

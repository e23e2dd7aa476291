# ===- forward.py - The models again, in numpy ----------------------------=== #
#
# Losses of the training steps in f64, written from the models' descriptions and not
# from the compiler's Python, and gradients by differences of these losses: independent
# of every gradient rule.
#
# ===----------------------------------------------------------------------=== #
"""Reference losses, gradients and updates."""

import itertools
import math

import numpy as np

_erf = np.vectorize(math.erf)
ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: x * (1 + _erf(x / math.sqrt(2))) / 2,
    "gelu_tanh": lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
}


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def crossEntropy(logits, labels):
    return -np.mean(np.log(softmax(logits)[np.arange(len(labels)), labels]))


def meanSquaredError(y, targets):
    return np.mean(((y - targets) ** 2).sum(1)) / 2


def mlp(p, data, activation="relu", loss="cross_entropy", **_):
    x, count = data["x"].astype(np.float64), sum(name.endswith(".weight") for name in p)
    for i in range(count):
        x = x @ p[f"layers.{i}.weight"] + p[f"layers.{i}.bias"]
        x = ACTIVATIONS[activation](x) if i < count - 1 else x
    return crossEntropy(x, data["labels"]) if loss == "cross_entropy" else meanSquaredError(x, data["targets"])


def windows(x, window, strides, low, high, dilations, fill):
    """[N, C, out..., window...] of x [N, C, in...] with a border of `fill`."""
    spatial = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0), *zip(low, high)], constant_values=fill)
    sizes = [(s - d * (w - 1) - 1) // stride + 1 for s, w, stride, d in zip(x.shape[2:], window, strides, dilations)]
    out = np.empty((*x.shape[:2], *sizes, *window))
    for at in itertools.product(*map(range, window)):
        box = tuple(slice(a * d, a * d + (n - 1) * s + 1, s) for a, d, n, s in zip(at, dilations, sizes, strides))
        out[(slice(None), slice(None), *[slice(None)] * spatial, *at)] = x[(slice(None), slice(None), *box)]
    return out


def conv(x, w, strides, low, high, dilations, groups=1):
    parts = []
    axes = list(range(2 + x.ndim - 2, 2 * x.ndim - 2))
    for xs, ws in zip(np.split(x, groups, 1), np.split(w, groups, 0)):
        seen = windows(xs, w.shape[2:], strides, low, high, dilations, 0.0)
        product = np.tensordot(seen, ws, ([1, *axes], list(range(1, w.ndim))))
        parts.append(np.moveaxis(product, -1, 1))
    return np.concatenate(parts, 1)


def pool(x, kind, window, strides, low, high):
    axes = tuple(range(-len(window), 0))
    seen = windows(x, window, strides, low, high, [1] * len(window), -np.inf if kind == "max" else 0.0)
    return seen.max(axes) if kind == "max" else seen.mean(axes)


def batchNorm(x, weight, bias):
    column = (1, -1) + (1,) * (x.ndim - 2)
    axes = (0, *range(2, x.ndim))
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * weight.reshape(column) + bias.reshape(column)


def convnet(p, data, pool_kind="max", statistics=None, **_):
    x = np.moveaxis(data["x"].astype(np.float64), -1, 1)
    for i in range(sum(name.endswith("conv.weight") for name in p)):
        x = conv(x, p[f"stages.{i}.conv.weight"], [1, 1], [1, 1], [1, 1], [1, 1])
        if statistics is not None:
            statistics[f"stages.{i}.norm.mean"] = x.mean((0, 2, 3))
            statistics[f"stages.{i}.norm.variance"] = x.var((0, 2, 3), ddof=1)
        x = np.maximum(batchNorm(x, p[f"stages.{i}.norm.weight"], p[f"stages.{i}.norm.bias"]), 0)
        x = pool(x, pool_kind, [2, 2], [2, 2], [0, 0], [0, 0])
    return crossEntropy(x.mean((2, 3)) @ p["head.weight"] + p["head.bias"], data["labels"])


def layerNorm(x, weight, bias):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * weight + bias


def rmsNorm(x, weight):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * weight


def attention(q, k, v):
    """Causal, of [B, S, heads, depth]; groups of heads share keys and values."""
    repeats = q.shape[2] // k.shape[2]
    k, v = np.repeat(k, repeats, 2), np.repeat(v, repeats, 2)
    scores = np.einsum("bshd,bthd->bhst", q, k) / math.sqrt(q.shape[-1])
    seq = q.shape[1]
    scores = np.where(np.tril(np.ones((seq, seq), bool)), scores, -np.inf)
    return np.einsum("bhst,bthd->bshd", softmax(scores), v)


def rope(x, theta):
    half = x.shape[-1] // 2
    angle = np.arange(x.shape[1])[:, None] * theta ** (-np.arange(half) / half)
    c, s = np.cos(angle)[:, None], np.sin(angle)[:, None]
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * c - b * s, b * c + a * s], -1)


def _decoder(p, data, heads, norm, project, ffn, turn):
    """What GPT and Llama share: pre-norm blocks around attention and an FFN."""
    tokens = data["tokens"]
    x = p["embedding.weight"][tokens]
    if "positions.weight" in p:
        x = x + p["positions.weight"]
    batch, seq, hidden = x.shape
    depth = hidden // heads
    for i in range(sum(name.endswith("query.weight") for name in p)):
        name = f"layers.{i}."
        y = norm(name + "norm1", x)
        q, k, v = (project(name + part, y).reshape(batch, seq, -1, depth) for part in ("query", "key", "value"))
        y = attention(turn(q), turn(k), v).reshape(batch, seq, -1)
        x = x + project(name + "out", y)
        x = x + ffn(name, norm(name + "norm2", x))
    x = norm("norm", x)
    head = p["head.weight"] if "head.weight" in p else p["embedding.weight"].T
    return crossEntropy((x @ head).reshape(batch * seq, -1), data["labels"].reshape(-1))


def gpt(p, data, heads, activation="gelu_tanh", **_):
    def project(name, x):
        return x @ p[name + ".weight"] + p.get(name + ".bias", 0.0)

    def norm(name, x):
        return layerNorm(x, p[name + ".weight"], p[name + ".bias"])

    def ffn(name, x):
        return project(name + "down", ACTIVATIONS[activation](project(name + "up", x)))

    return _decoder(p, data, heads, norm, project, ffn, lambda x: x)


def llama(p, data, heads, theta=10000.0, activation="silu", **_):
    def project(name, x):
        return x @ p[name + ".weight"]

    def ffn(name, x):
        return project(name + "down", ACTIVATIONS[activation](project(name + "gate", x)) * project(name + "up", x))

    return _decoder(p, data, heads, lambda name, x: rmsNorm(x, p[name + ".weight"]), project, ffn,
                    lambda x: rope(x, theta))


def differences(f, parameters, step=2e-4):
    """df / dp by fourth-order central differences, for each element of each array."""
    grads = {}
    for name, value in parameters.items():
        grads[name] = grad = np.zeros(value.shape)
        for at in np.ndindex(*value.shape):
            kept, sums = value[at], 0.0
            for distance, weight in ((1, 8), (-1, -8), (2, -1), (-2, 1)):
                value[at] = kept + distance * step
                sums += weight * f()
            value[at] = kept
            grad[at] = sums / (12 * step)
    return grads


def clipped(grads, limit):
    """Norm, factor, whether the norm is finite."""
    with np.errstate(all="ignore"):
        norm = math.sqrt(sum(float((g.astype(np.float64) ** 2).sum()) for g in grads.values()))
        return norm, (limit / norm if norm > limit else 1.0), math.isfinite(norm)


def adamw(p, g, m, v, step, lr, decay, beta1=0.9, beta2=0.95, epsilon=1e-8):
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g * g
    hat = m / (1 - beta1**step) / (np.sqrt(v / (1 - beta2**step)) + epsilon)
    return p * (1 - lr * decay) - lr * hat, m, v


def sgd(p, g, momentum, lr, decay, rho=0.9):
    momentum = rho * momentum + g + decay * p
    return p - lr * momentum, momentum

# ===- fourier.py - Fourier transforms ---------------------------------------=== #
#
# DFT and STFT as products with tables of cosines and sines.
#
# ===----------------------------------------------------------------------=== #
"""Fourier transforms of ONNX."""

from __future__ import annotations

import numpy as np

from ....ir.affine import product
from ....ir.module import Value
from ..context import NodeContext
from ..failure import BadNode, Unsupported
from ..registry import onnx_op

_MAX_LENGTH = 4096  # the tables have length * length elements


def _transform(c: NodeContext, x: Value, length: int, inverse: bool, onesided: bool) -> Value:
    """The transform along the last but one dimension of [..., n, 1 or 2], zero-padded or cut to `length`."""
    b = c.b
    if not 1 <= length <= _MAX_LENGTH:
        raise Unsupported(f"a transform of {length} elements; 1 to {_MAX_LENGTH} are")
    size = c.static(x, dims=[x.rank - 2])[0]
    if size > length:
        x = b.slice_dim(x, x.rank - 2, 0, length)
    elif size < length:
        high = [length - size if d == x.rank - 2 else 0 for d in range(x.rank)]
        x = b.pad(x, b.scalar(0, x), [0] * x.rank, high)
    bins = length // 2 + 1 if onesided else length
    turn = np.outer(np.arange(length), np.arange(bins)) % length * (2 * np.pi / length)
    sign, factor = (1, 1 / length) if inverse else (-1, 1)
    cosine, sine = np.cos(turn) * factor, sign * np.sin(turn) * factor
    lead = x.shape[:-2]
    # [re, im] x [[C, S], [-S, C]] gives [re', im'] in one product.
    parts = [np.concatenate([cosine, sine], axis=1)]
    if x.shape[-1] == 2:
        parts.append(np.concatenate([-sine, cosine], axis=1))
    elif x.shape[-1] != 1:
        raise BadNode(f"the last dimension of {x!r} is neither 1 nor 2")
    order = list(range(x.rank - 2)) + [x.rank - 1, x.rank - 2]
    rows = b.reshape(b.transpose(x, order), [product(lead), length * len(parts)])
    both = b.matmul(rows, b.constant(np.concatenate(parts, axis=0), x.dtype))
    apart = b.reshape(both, list(lead) + [2, bins])
    return b.transpose(apart, order)


@onnx_op("DFT", since=17)
def dft(c: NodeContext):
    b, x = c.b, c.need(0)
    if c.opset >= 20:
        axis = c.static_sizes(2, "axis")[0] if c.input(2) is not None else -2
    else:
        axis = c.int("axis", 1)
    axis = c.axis(axis, x.rank)
    if axis == x.rank - 1:
        raise BadNode("the axis is that of the real and imaginary parts")
    length = c.static_sizes(1, "length")[0] if c.input(1) is not None else c.static(x, dims=[axis])[0]
    if c.int("onesided") and c.int("inverse"):
        raise Unsupported("an inverse transform of one side")
    order = [d for d in range(x.rank) if d not in (axis, x.rank - 1)] + [axis, x.rank - 1]
    result = _transform(c, b.transpose(x, order), length, bool(c.int("inverse")), bool(c.int("onesided")))
    return b.transpose(result, [order.index(d) for d in range(x.rank)])


@onnx_op("STFT", since=17)
def stft(c: NodeContext):
    """Frames of the signal, times a window, transformed."""
    b, signal = c.b, c.need(0)
    if signal.rank == 2:
        signal = b.reshape(signal, list(signal.shape) + [1])
    if signal.rank != 3:
        raise BadNode(f"the signal {signal!r} doesn't have rank 3")
    step = c.static_sizes(1, "frame step")[0]
    window = c.input(2)
    if c.input(3) is not None:
        length = c.static_sizes(3, "frame length")[0]
    elif window is not None:
        length = c.static(window)[0]
    else:
        raise BadNode("it has neither a window nor a frame length")
    size = c.static(signal, dims=[1])[0]
    if step < 1 or not 1 <= length <= size or window is not None and window.shape != (length,):
        raise BadNode(f"frame step {step}, frame length {length} and window don't fit {size} elements")
    frames = (size - length) // step + 1
    places = np.arange(frames)[:, None] * step + np.arange(length)
    parts = b.gather(signal, b.constant(places, "i64"), 1)
    if window is not None:
        parts = b.binary("mul", parts, b.broadcast(window, parts.shape, [2]))
    return _transform(c, parts, length, False, bool(c.int("onesided", 1)))

# ===- conv.py - Convolutions --------------------------------------------=== #
#
# Conv and ConvTranspose over 1 to 3 spatial dimensions.
#
# ===----------------------------------------------------------------------=== #
"""Convolutions of ONNX."""

from __future__ import annotations

from ....ir.module import Value
from ..context import NodeContext
from ..failure import BadNode
from ..registry import onnx_op
from .window import AUTO_PADS, check_fits, crop, entries, spatial_rank, window


def _kernel(c: NodeContext, x: Value, weights: Value) -> list[int]:
    if weights.rank != x.rank:
        raise BadNode(f"input {x!r} and weights {weights!r} have different ranks")
    kernel = [int(k) for k in c.static(weights, "weights")[2:]]
    declared = c.ints("kernel_shape")
    if declared is not None and declared != kernel:
        raise BadNode(f"attribute 'kernel_shape' is {declared}, the weights have {kernel}")
    return kernel


def _check_bias(c: NodeContext, channels: int) -> list[Value]:
    bias = c.input(2)
    if bias is None:
        return []
    if bias.shape != (channels,):
        raise BadNode(f"the bias {bias!r} doesn't have shape [{channels}]")
    return [bias]


@onnx_op("Conv")
def conv(c: NodeContext):
    x, weights = c.need(0), c.need(1)
    spatial_rank(c, x)
    kernel = _kernel(c, x, weights)
    groups = c.int("group", 1)
    channels, filters = x.shape[1], weights.shape[0]
    if groups < 1 or channels % groups or filters % groups or weights.shape[1] != channels // groups:
        raise BadNode(f"input {x!r}, weights {weights!r} and group {groups} don't fit")
    w = window(c, x, kernel)
    x = crop(c, x, w)
    check_fits(w)
    bias = _check_bias(c, filters)
    return c.b.windowed(
        "conv", [x, weights] + bias, [x.shape[0], filters] + w.output(), groups=groups, bias=bool(bias), **w.attrs()
    )


@onnx_op("ConvTranspose")
def conv_transpose(c: NodeContext):
    x, weights = c.need(0), c.need(1)
    count = spatial_rank(c, x)
    kernel = _kernel(c, x, weights)
    groups = c.int("group", 1)
    channels, filters = x.shape[1], weights.shape[1] * groups
    if groups < 1 or channels % groups or weights.shape[0] != channels:
        raise BadNode(f"input {x!r}, weights {weights!r} and group {groups} don't fit")
    strides = entries(c, "strides", count, 1, 1)
    dilations = entries(c, "dilations", count, 1, 1)
    extra = entries(c, "output_padding", count, 0, 0)
    full = [
        (int(size) - 1) * stride + dilation * (k - 1) + 1
        for size, stride, dilation, k in zip(x.shape[2:], strides, dilations, kernel)
    ]
    low, high = _transposed_pads(c, x, strides, extra, full)
    # More elements than the windows reach, or than output_padding may add, are zeros behind the rest.
    zeros_low, zeros_high = [max(-p, 0) for p in low], [0] * count
    low = [max(p, 0) for p in low]
    for d in range(count):
        extra[d] += max(-high[d], 0)
        high[d] = max(high[d], 0)
        most = max(strides[d], dilations[d]) - 1
        zeros_high[d], extra[d] = max(extra[d] - most, 0), min(extra[d], most)
    sizes = [f + e - a - b for f, e, a, b in zip(full, extra, low, high)]
    if min(sizes) < 1:
        raise BadNode("the pads leave nothing of the result")
    bias = _check_bias(c, filters)
    late = any(zeros_low) or any(zeros_high)
    result = c.b.windowed(
        "conv_transpose", [x, weights] + ([] if late else bias), [x.shape[0], filters] + sizes, strides=strides,
        dilations=dilations, pad_low=low, pad_high=high, output_padding=extra, groups=groups,
        bias=bool(bias) and not late,
    )
    if late:
        result = c.b.pad(result, c.b.scalar(0, x), [0, 0] + zeros_low, [0, 0] + zeros_high)
        if bias:
            result = c.b.binary("add", result, c.b.reshape(bias[0], [1, filters] + [1] * count))
    return result


def _transposed_pads(c: NodeContext, x: Value, strides, extra, full):
    """pads of a ConvTranspose; `full` are the sizes without pads."""
    count = len(strides)
    auto = c.choice("auto_pad", "NOTSET", AUTO_PADS)
    wanted = c.ints("output_shape")
    if wanted is not None and len(wanted) == count + 2:
        wanted = wanted[2:]  # some exporters write batch and channels too
    if wanted is not None and len(wanted) != count:
        raise BadNode(f"attribute 'output_shape' has {len(wanted)} entries, {count} are needed")
    if wanted is None and auto in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [int(size) * stride for size, stride in zip(x.shape[2:], strides)]
    if wanted is None:
        pads = [0] * (2 * count) if auto == "VALID" else c.ints("pads") or [0] * (2 * count)
        if len(pads) != 2 * count:
            raise BadNode(f"attribute 'pads' has {len(pads)} entries, {2 * count} are needed")
        return pads[:count], pads[count:]
    low, high = [], []
    for d in range(count):
        total = full[d] + extra[d] - wanted[d]
        if total < 0:  # the result is larger: all of it behind
            low.append(0)
            high.append(total)
            continue
        small = total // 2
        low.append(small if auto == "SAME_UPPER" else total - small)
        high.append(total - low[-1])
    return low, high

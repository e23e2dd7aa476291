# ===- resize.py - Resize, Upsample and GridSample -------------------------=== #
#
# Resize works one axis after the other: each output element is a weighted sum of a
# few input elements whose positions and weights are known at import, because the
# output size is. GridSample does the same with positions from a tensor.
#
# ===----------------------------------------------------------------------=== #
"""Resampling ops of ONNX."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Optional

import numpy as np

from ....ir.affine import Affine
from ....ir.module import FLOATS, Value
from ..context import NodeContext
from ..failure import BadNode, Unsupported
from ..registry import onnx_op

_MODES = ("nearest", "linear", "cubic")
_COORDINATES = (
    "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize",
    "half_pixel_symmetric",
)
_NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@dataclass
class _Rule:
    """How positions and weights are computed."""

    mode: str
    coordinates: str
    nearest: str = "round_prefer_floor"
    cubic: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    extrapolation: float = 0.0


@onnx_op("Upsample", since=7)
def upsample(c: NodeContext):
    x = c.need(0)
    scales = c.floats("scales") if c.opset < 9 else c.array(1, "scales").reshape(-1).tolist()
    mode = c.choice("mode", "nearest", ("nearest", "linear"))
    rule = _Rule(mode, "asymmetric", "floor")
    sizes = _scaled_sizes(x, scales)
    return _resize(c, x, list(range(x.rank)), sizes, scales, None, rule)


@onnx_op("Resize", since=10)
def resize_simple(c: NodeContext):
    x = c.need(0)
    scales = c.array(1, "scales").reshape(-1).tolist()
    rule = _Rule(c.choice("mode", "nearest", ("nearest", "linear")), "asymmetric", "floor")
    return _resize(c, x, list(range(x.rank)), _scaled_sizes(x, scales), scales, None, rule)


@onnx_op("Resize", since=11)
def resize(c: NodeContext):
    x = c.need(0)
    axes = c.axes(c.ints("axes"), x.rank) if c.has("axes") else list(range(x.rank))
    rule = _Rule(
        c.choice("mode", "nearest", _MODES), c.choice("coordinate_transformation_mode", "half_pixel", _COORDINATES),
        c.choice("nearest_mode", "round_prefer_floor", _NEAREST), c.float("cubic_coeff_a", -0.75),
        bool(c.int("exclude_outside")), bool(c.int("antialias")), c.float("extrapolation_value", 0.0),
    )
    shape = [x.shape[a] for a in axes]
    has_scales = c.input(2) is not None and c.need(2).shape != (0,)
    has_sizes = c.input(3) is not None and c.need(3).shape != (0,)
    if has_scales == has_sizes:
        raise BadNode("it needs either scales or sizes")
    if has_scales:
        scales = c.array(2, "scales").reshape(-1).tolist()
        if len(scales) != len(axes):
            raise BadNode(f"{len(scales)} scales for {len(axes)} dimensions")
        sizes = _scaled_sizes(Value(x.dtype, shape), scales)
    else:
        sizes = c.sizes(3, "sizes")
        if len(sizes) != len(axes):
            raise BadNode(f"{len(sizes)} sizes for {len(axes)} dimensions")
        sizes, scales = _sized_scales(c, shape, sizes)
    roi = None
    if rule.coordinates == "tf_crop_and_resize":
        roi = c.array(1, "region of interest").reshape(-1).astype(np.float64).tolist()
        if len(roi) != 2 * len(axes):
            raise BadNode(f"{len(roi)} entries in the region of interest, {2 * len(axes)} are needed")
    return _resize(c, x, axes, sizes, scales, roi, rule)


def _scaled_sizes(x: Value, scales: list[float]) -> list:
    if len(scales) != x.rank:
        raise BadNode(f"{len(scales)} scales for {x.rank} dimensions")
    sizes = []
    for size, scale in zip(x.shape, scales):
        if not (math.isfinite(scale) and scale > 0):
            raise BadNode(f"a scale is {scale}")
        if isinstance(size, Affine) and scale != 1:
            raise Unsupported("a scale of the batch dimension")
        sizes.append(size if scale == 1 else math.floor(size * scale))
    return sizes


def _sized_scales(c: NodeContext, shape, sizes):
    policy = c.choice("keep_aspect_ratio_policy", "stretch", ("stretch", "not_larger", "not_smaller"))
    scales = []
    for size, wanted in zip(shape, sizes):
        if isinstance(size, Affine) or isinstance(wanted, Affine):
            if size != wanted:
                raise Unsupported("another size for the batch dimension")
            scales.append(1.0)
            continue
        if wanted < 1 or size < 1:
            raise BadNode(f"a size is {wanted} for a dimension of {size}")
        scales.append(wanted / size)
    if policy != "stretch":
        scale = min(scales) if policy == "not_larger" else max(scales)
        scales = [scale] * len(scales)
        sizes = [size if isinstance(size, Affine) else math.floor(size * scale + 0.5) for size in shape]
    return sizes, scales


def _resize(c: NodeContext, x: Value, axes, sizes, scales, roi, rule: _Rule) -> Value:
    if rule.mode != "nearest" and x.dtype not in FLOATS:
        raise Unsupported(f"mode {rule.mode} of element type {x.dtype}")
    result, outside = x, []
    for index, (axis, size, scale) in enumerate(zip(axes, sizes, scales)):
        span = (roi[index], roi[index + len(axes)]) if roi else None
        if isinstance(size, Affine) or (size == x.shape[axis] and scale == 1 and span in (None, (0.0, 1.0))):
            continue
        positions = _positions(int(x.shape[axis]), size, scale, span, rule.coordinates)
        taps, weights = _taps(positions, int(x.shape[axis]), scale, rule)
        result = _weighted(c, result, axis, taps, weights)
        if roi:
            outside.append((axis, (positions < 0) | (positions > x.shape[axis] - 1)))
    for axis, mask in outside:
        if mask.any():
            b = c.b
            condition = b.broadcast(b.constant(mask, "i1"), result.shape, [axis])
            result = b.select(condition, b.splat(rule.extrapolation, result.dtype, result.shape), result)
    return result


def _positions(size: int, out: int, scale: float, span, coordinates: str) -> np.ndarray:
    """The position in the input of each output element."""
    x = np.arange(out, dtype=np.float64)
    if coordinates == "align_corners":
        return x * (size - 1) / (out - 1) if out > 1 else x
    if coordinates == "asymmetric":
        return x / scale
    if coordinates == "tf_half_pixel_for_nn":
        return (x + 0.5) / scale
    if coordinates == "tf_crop_and_resize":
        if out > 1:
            return span[0] * (size - 1) + x * (span[1] - span[0]) * (size - 1) / (out - 1)
        return np.full(out, 0.5 * (span[0] + span[1]) * (size - 1))
    if coordinates == "pytorch_half_pixel" and out == 1:
        return x
    if coordinates == "half_pixel_symmetric":
        adjustment = out / (scale * size)
        return size / 2 * (1 - adjustment) + (x + 0.5) / scale - 0.5
    return (x + 0.5) / scale - 0.5


def _taps(positions: np.ndarray, size: int, scale: float, rule: _Rule) -> tuple[np.ndarray, Optional[np.ndarray]]:
    """Input positions [out, taps] and weights of the same shape (None: one tap of weight 1)."""
    if rule.mode == "nearest":
        rounded = {
            "round_prefer_floor": np.ceil(positions - 0.5), "round_prefer_ceil": np.floor(positions + 0.5),
            "floor": np.floor(positions), "ceil": np.ceil(positions),
        }[rule.nearest]
        return np.clip(rounded, 0, size - 1).astype(np.int64)[:, None], None
    base = np.ceil(positions) - 1
    ratio = (positions - base)[:, None]
    reach = 1 if rule.mode == "linear" else 2
    shrink = min(scale, 1.0) if rule.antialias else 1.0
    start = int(math.floor(-reach / shrink)) + 1
    offsets = np.arange(start, 2 - start, dtype=np.float64)[None, :]
    distance = np.abs(offsets - ratio) * shrink
    weights = np.clip(1 - distance, 0, 1) if rule.mode == "linear" else cubic_weights(distance, rule.cubic)
    taps = base[:, None] + offsets
    if rule.exclude_outside:
        weights = np.where((taps < 0) | (taps >= size), 0.0, weights)
    if rule.exclude_outside or rule.antialias:
        weights = weights / weights.sum(axis=1, keepdims=True)
    return np.clip(taps, 0, size - 1).astype(np.int64), weights


def cubic_weights(distance: np.ndarray, a: float) -> np.ndarray:
    """Keys' cubic convolution kernel (Keys, 1981) with parameter a."""
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))


def _weighted(c: NodeContext, x: Value, axis: int, taps: np.ndarray, weights: Optional[np.ndarray]) -> Value:
    b = c.b
    if weights is None:
        return _repeated(c, x, axis, taps[:, 0])
    total = None
    for tap in range(taps.shape[1]):
        if not weights[:, tap].any():
            continue
        part = b.gather(x, b.constant(taps[:, tap], "i64"), axis)
        factor = b.broadcast(b.constant(weights[:, tap], x.dtype), part.shape, [axis])
        part = b.binary("mul", part, factor)
        total = part if total is None else b.binary("add", total, part)
    return total


def _repeated(c: NodeContext, x: Value, axis: int, taps: np.ndarray) -> Value:
    """A gather, or a broadcast where each element is repeated equally often."""
    b, size = c.b, int(x.shape[axis])
    times = len(taps) // size if size else 0
    if times and len(taps) == times * size and (taps == np.arange(len(taps)) // times).all():
        apart = list(x.shape[: axis + 1]) + [1] + list(x.shape[axis + 1 :])
        many = list(apart)
        many[axis + 1] = times
        shape = [times * size if d == axis else s for d, s in enumerate(x.shape)]
        return b.reshape(b.broadcast(b.reshape(x, apart), many), shape)
    return b.gather(x, b.constant(taps, "i64"), axis)


@onnx_op("GridSample")
def grid_sample(c: NodeContext):
    """Samples at positions from a grid; coordinates of the grid run from the last dimension to the first."""
    b, x, grid = c.b, c.need(0), c.need(1)
    count = x.rank - 2
    if count < 1 or grid.rank != x.rank or grid.shape[-1] != count or grid.shape[0] != x.shape[0]:
        raise BadNode(f"the grid {grid!r} doesn't fit {x!r}")
    modes = {"bilinear": "linear", "linear": "linear", "nearest": "nearest", "bicubic": "cubic", "cubic": "cubic"}
    mode = modes[c.choice("mode", "linear" if c.opset >= 20 else "bilinear", tuple(modes))]
    padding = c.choice("padding_mode", "zeros", ("zeros", "border", "reflection"))
    aligned = bool(c.int("align_corners"))
    sizes = c.static(x, dims=range(1, x.rank))[1:]
    outs = list(grid.shape[1:-1])
    c.static(grid, "grid", range(1, grid.rank))
    points = math.prod(outs)
    rows, channels = x.shape[0], x.shape[1]
    grid = b.cast(grid, x.dtype)
    axes = []  # for each spatial dimension its taps: (indices, weights, inside) of shape [rows, points]
    for d, size in enumerate(sizes):
        place = b.slice_dim(grid, grid.rank - 1, count - 1 - d, count - d)
        axes.append(_axis_taps(c, b.reshape(place, [rows, points]), size, mode, padding, aligned))
    flat = b.transpose(b.reshape(x, [rows, channels, math.prod(sizes)]), [0, 2, 1])
    total = None
    for choice in np.ndindex(*[len(taps) for taps in axes]):
        index = weight = inside = None
        for d, tap in enumerate(choice):
            step, factor, valid = axes[d][tap]
            pitch = math.prod(sizes[d + 1 :])
            step = step if pitch == 1 else b.binary("mul", step, b.constant(pitch, "i64"))
            index = step if index is None else b.binary("add", index, step)
            weight = factor if weight is None else weight if factor is None else b.binary("mul", weight, factor)
            inside = valid if inside is None else inside if valid is None else b.binary("and", inside, valid)
        part = b.gather(flat, index, 1, 1)
        if inside is not None:
            part = b.select(b.broadcast(inside, part.shape, [0, 1]), part, b.splat(0, x.dtype, part.shape))
        if weight is not None:
            part = b.binary("mul", part, b.broadcast(weight, part.shape, [0, 1]))
        total = part if total is None else b.binary("add", total, part)
    return b.reshape(b.transpose(total, [0, 2, 1]), [rows, channels] + outs)


def _axis_taps(c: NodeContext, place: Value, size: int, mode: str, padding: str, aligned: bool) -> list:
    """The taps along one dimension at normalized places in [-1, 1]."""
    b = c.b
    one, half = b.scalar(1, place), b.scalar(0.5, place)
    if aligned:
        position = b.binary("mul", b.binary("add", place, one), b.scalar((size - 1) / 2, place))
    else:
        scaled = b.binary("mul", b.binary("add", place, one), b.scalar(size, place))
        position = b.binary("mul", b.binary("sub", scaled, one), half)
    if padding == "border":
        position = b.clamp(position, b.scalar(0, place), b.scalar(size - 1, place))
    elif padding == "reflection":
        position = _reflected(c, position, size, aligned)
    if mode == "nearest":
        return [_ordered(_tap(c, b.unary("round", position), size, padding, aligned), None)]
    base = b.unary("floor", position)
    ratio = b.binary("sub", position, base)
    offsets = (0, 1) if mode == "linear" else (-1, 0, 1, 2)
    taps = []
    for offset in offsets:
        distance = b.unary("abs", b.binary("sub", ratio, b.scalar(offset, ratio)))
        weight = b.binary("sub", one, distance) if mode == "linear" else _cubic(c, distance, abs(offset - 0.5) > 1)
        spot = b.binary("add", base, b.scalar(offset, base))
        taps.append(_ordered(_tap(c, spot, size, padding, aligned), weight))
    return taps


def _ordered(tap: tuple, weight: Optional[Value]) -> tuple:
    index, inside = tap
    return index, weight, inside


def _cubic(c: NodeContext, distance: Value, far: bool, a: float = -0.75) -> Value:
    """Keys' kernel for distances in [1, 2] (far) or [0, 1]."""
    b = c.b
    coefficients = (a, -5 * a, 8 * a, -4 * a) if far else (a + 2, -(a + 3), 0.0, 1.0)
    result = b.splat(coefficients[0], distance.dtype, distance.shape)
    for coefficient in coefficients[1:]:
        result = b.binary("add", b.binary("mul", result, distance), b.scalar(coefficient, distance))
    return result


def _tap(c: NodeContext, spot: Value, size: int, padding: str, aligned: bool) -> tuple:
    """The index of a whole position, and whether it lies inside (zeros only)."""
    b = c.b
    low, high = b.scalar(0, spot), b.scalar(size - 1, spot)
    inside = None
    if padding == "zeros":
        inside = b.binary("and", b.compare("ge", spot, low), b.compare("le", spot, high))
    elif padding == "reflection":
        spot = _reflected(c, spot, size, aligned)
    return b.cast(b.clamp(spot, low, high), "i64"), inside


def _reflected(c: NodeContext, position: Value, size: int, aligned: bool) -> Value:
    """Folds positions into [0, size - 1], or [-0.5, size - 0.5] when corners aren't aligned."""
    b = c.b
    low, length = (0.0, size - 1.0) if aligned else (-0.5, float(size))
    if length == 0:
        return b.splat(0, position.dtype, position.shape)
    away = b.unary("abs", b.binary("sub", position, b.scalar(low, position)))
    away = b.binary("rem", away, b.scalar(2 * length, position))
    folded = b.binary("min", away, b.binary("sub", b.scalar(2 * length, position), away))
    return b.binary("add", folded, b.scalar(low, position))


# ===- movement.py - Slices and pads --------------------------------------=== #
#
# Slice with any step, Pad in its modes, ReverseSequence and Trilu.
#
# ===----------------------------------------------------------------------=== #
"""Ops of ONNX that cut, pad and reverse."""

from __future__ import annotations

from ....ir.affine import Affine, NotAffine, is_static
from ....ir.module import Value
from ..context import NodeContext
from ..failure import BadNode, Unsupported
from ..registry import onnx_op


@onnx_op("Slice")
def slice_attributes(c: NodeContext):
    x = c.need(0)
    starts, ends = c.ints("starts"), c.ints("ends")
    return _slice(c, x, starts, ends, c.ints("axes"), [1] * len(starts))


@onnx_op("Slice", since=10)
def slice_inputs(c: NodeContext):
    x = c.need(0)
    starts, ends = c.sizes(1, "starts"), c.sizes(2, "ends")
    axes = c.static_sizes(3, "axes") if c.input(3) is not None else None
    steps = c.static_sizes(4, "steps") if c.input(4) is not None else [1] * len(starts)
    return _slice(c, x, starts, ends, axes, steps)


def _slice(c: NodeContext, x: Value, starts, ends, axes, steps) -> Value:
    axes = c.axes(axes, x.rank) if axes is not None else list(range(len(starts)))
    if not len(starts) == len(ends) == len(axes) == len(steps) or len(axes) > x.rank:
        raise BadNode(f"starts {starts}, ends {ends}, axes {axes} and steps {steps} have different lengths")
    lows, limits, strides, backward = [None] * x.rank, [None] * x.rank, [1] * x.rank, []
    for start, end, axis, step in zip(starts, ends, axes, steps):
        size = x.shape[axis]
        if step == 0:
            raise BadNode("a step is 0")
        if isinstance(size, Affine):
            _check_whole(c, x, axis, start, end, step)
            if step < 0:
                backward.append(axis)
            continue
        if isinstance(start, Affine) or isinstance(end, Affine):
            start, end = (_static_bound(v, size) for v in (start, end))
        first, last, step = slice(start, _stop(end, size, step), step).indices(size)
        count = max(-(-(last - first) // step) if step > 0 else -(-(first - last) // -step), 0)
        if step < 0:  # the same elements seen from the other end
            backward.append(axis)
            first, step = size - 1 - first, -step
        lows[axis] = min(first, size) if count else 0
        limits[axis] = lows[axis] + (count - 1) * step + 1 if count else 0
        strides[axis] = step if count else 1
    return c.b.slice(c.b.reverse(x, backward), lows, limits, strides)


def _stop(end: int, size: int, step: int):
    """A backward end before the first element would count from the back in Python: None says it."""
    return None if step < 0 and end < -size else end


def _static_bound(value, size: int) -> int:
    """A bound that depends on the batch is fine where it is beyond the end for every batch."""
    if not isinstance(value, Affine):
        return value
    if value.bounds()[0] >= size:
        return size
    raise Unsupported(f"a bound of the slice is {value}, which depends on the batch")


def _check_whole(c: NodeContext, x: Value, axis: int, start, end, step: int) -> None:
    """The batch dimension can only be taken whole."""
    size = x.shape[axis]
    try:
        if step == 1:
            whole = (is_static(start) and start == 0 or start == -size) and (end == size or end >= size)
        else:
            whole = step == -1 and (start == size - 1 or start >= size - 1 or start == -1)
            whole = whole and is_static(end) and end < -size.bounds()[1]
    except NotAffine:
        whole = False
    if not whole:
        raise Unsupported(f"a slice {start}:{end}:{step} of dimension {axis}, the batch {size}")


@onnx_op("Pad")
def pad(c: NodeContext):
    """Constant, edge, reflect and wrap; negative pads cut."""
    b, x = c.b, c.need(0)
    mode = c.choice("mode", "constant", ("constant", "edge", "reflect", "wrap"))
    if c.opset < 11:
        pads, value = c.ints("pads"), b.constant(c.float("value", 0.0), x.dtype)
    else:
        pads = c.static_sizes(1, "pads")
        value = b.reshape(c.input(2), ()) if c.input(2) is not None else b.constant(0, x.dtype)
    axes = list(range(x.rank))
    if c.opset >= 18 and c.input(3) is not None:
        axes = c.axes(c.static_sizes(3, "axes"), x.rank)
    if len(pads) != 2 * len(axes):
        raise BadNode(f"{len(pads)} pads for {len(axes)} dimensions")
    low, high = [0] * x.rank, [0] * x.rank
    for i, axis in enumerate(axes):
        low[axis], high[axis] = pads[i], pads[i + len(axes)]
        if isinstance(x.shape[axis], Affine) and (low[axis] or high[axis]):
            raise Unsupported(f"pads of dimension {axis}, which depends on the batch")
    if mode == "constant":
        return b.pad(_cut(c, x, low, high), value, [max(p, 0) for p in low], [max(p, 0) for p in high])
    # The border is copied from the input as it was before negative pads cut it.
    result = x
    for axis in range(x.rank):
        if low[axis] > 0 or high[axis] > 0:
            result = _border(c, result, axis, max(low[axis], 0), max(high[axis], 0), mode)
    return _cut(c, result, low, high)


def _cut(c: NodeContext, x: Value, low: list[int], high: list[int]) -> Value:
    if all(p >= 0 for p in low + high):
        return x
    starts, limits = [None] * x.rank, [None] * x.rank
    for d, size in enumerate(x.shape):
        if low[d] < 0 or high[d] < 0:
            starts[d], limits[d] = max(-low[d], 0), size - max(-high[d], 0)
            if starts[d] > limits[d]:
                raise BadNode(f"negative pads cut more than dimension {d} of {x!r} has")
    return c.b.slice(x, starts, limits)


def _border(c: NodeContext, x: Value, axis: int, low: int, high: int, mode: str) -> Value:
    b = c.b
    size = int(x.shape[axis])
    if size == 0 or (mode == "reflect" and size == 1):
        raise BadNode(f"dimension {axis} of {x!r} has too few elements for mode {mode}")
    if mode == "edge":
        parts = []
        for count, begin in ((low, 0), (0, 0), (high, size - 1)):
            shape = [count if i == axis else s for i, s in enumerate(x.shape)]
            edge = b.slice_dim(x, axis, begin, begin + 1)
            parts.append(b.broadcast(edge, shape) if count else None)
        parts[1] = x
        return b.concat([p for p in parts if p is not None], axis)
    # Periods of the infinite sequence that the input is one stretch of.
    position = _reflected if mode == "reflect" else (lambda i: i % size)
    before = [position(i, size) if mode == "reflect" else position(i) for i in range(-low, 0)]
    after = [position(i, size) if mode == "reflect" else position(i) for i in range(size, size + high)]
    parts = [_runs(c, x, axis, before), x, _runs(c, x, axis, after)]
    return b.concat([p for p in parts if p is not None], axis)


def _reflected(index: int, size: int) -> int:
    period = 2 * (size - 1)
    index %= period
    return index if index < size else period - index


def _runs(c: NodeContext, x: Value, axis: int, positions: list[int]):
    """The elements at the positions, as slices of ascending or descending runs."""
    b = c.b
    parts, begin = [], 0
    while begin < len(positions):
        end, step = begin + 1, 0
        while end < len(positions) and abs(positions[end] - positions[end - 1]) == 1 and step in (
            0, positions[end] - positions[end - 1]
        ):
            step = positions[end] - positions[end - 1]
            end += 1
        first, last = min(positions[begin], positions[end - 1]), max(positions[begin], positions[end - 1])
        part = b.slice_dim(x, axis, first, last + 1)
        parts.append(b.reverse(part, [axis]) if step < 0 else part)
        begin = end
    return b.concat(parts, axis) if parts else None


@onnx_op("Trilu")
def trilu(c: NodeContext):
    """Keeps the triangle on and above (or below) diagonal k, which may depend on data."""
    b, x = c.b, c.need(0)
    if x.rank < 2:
        raise BadNode(f"its input has rank {x.rank}, at least 2 is needed")
    shape = list(x.shape[-2:])
    c.static(x, dims=[x.rank - 2, x.rank - 1])
    row, column = b.iota("i64", shape, 0), b.iota("i64", shape, 1)
    if c.input(1) is not None:
        row = b.binary("add", row, b.reshape(c.input(1), ()))
    keep = b.compare("ge" if c.int("upper", 1) else "le", column, row)
    return b.select(keep, x, b.splat(0, x.dtype, x.shape))


@onnx_op("ReverseSequence")
def reverse_sequence(c: NodeContext):
    """Reverses the first `lengths` elements of each row: element i comes from lengths - 1 - i."""
    b, x, lengths = c.b, c.need(0), c.need(1)
    time, batch = c.int("time_axis", 0), c.int("batch_axis", 1)
    if x.rank < 2 or {time, batch} != {0, 1}:
        raise BadNode(f"time_axis {time} and batch_axis {batch} aren't 0 and 1")
    rows = x if batch == 0 else b.transpose(x, [1, 0] + list(range(2, x.rank)))
    shape = list(rows.shape[:2])
    c.static(rows, dims=[1])
    if lengths.shape != (shape[0],):
        raise BadNode(f"the lengths {lengths!r} don't have shape [{shape[0]}]")
    place = b.iota("i64", shape, 1)
    length = b.broadcast(lengths, shape, [0])
    mirrored = b.binary("sub", b.binary("sub", length, b.scalar(1, length)), place)
    indices = b.select(b.compare("lt", place, length), mirrored, place)
    result = b.gather(rows, indices, 1, 1)
    return result if batch == 0 else b.transpose(result, [1, 0] + list(range(2, x.rank)))

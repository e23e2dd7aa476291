# ===- shape.py - Ops that give elements another shape -------------------=== #
#
# Reshape and its relatives, Transpose, Concat, Split, Expand, Tile and the ops
# that move blocks to and from channels.
#
# ===----------------------------------------------------------------------=== #
"""Shape ops of ONNX."""

from __future__ import annotations

from ....ir.affine import Affine, NotAffine, Size, is_static, product
from ....ir.module import Value
from ..context import NodeContext
from ..failure import BadNode, Unsupported
from ..registry import onnx_op


@onnx_op("Reshape")
def reshape(c: NodeContext):
    x = c.need(0)
    wanted = c.sizes(1, "shape")
    shape: list[Size] = []
    unknown = None
    for index, size in enumerate(wanted):
        if is_static(size) and size == 0 and not c.int("allowzero"):
            if index >= x.rank:
                raise BadNode(f"the shape {wanted} copies dimension {index} of {x!r}")
            size = x.shape[index]
        if is_static(size) and size == -1:
            if unknown is not None:
                raise BadNode(f"the shape {wanted} has two entries -1")
            unknown, size = index, 1
        if is_static(size) and size < 0:
            raise BadNode(f"the shape {wanted} has a negative entry")
        shape.append(size)
    if unknown is not None:
        shape[unknown] = _missing_size(x, shape, wanted)
    if product(shape) != product(x.shape):
        raise BadNode(f"{x!r} can't have the shape {wanted}")
    return c.b.reshape(x, shape)


def _missing_size(x: Value, shape: list[Size], wanted) -> Size:
    """What -1 stands for: the elements of x over those that the other entries make."""
    left, right = list(x.shape), list(shape)
    for size in list(right):  # equal factors first: B cancels B
        if isinstance(size, Affine) and size in left:
            left.remove(size)
            right.remove(size)
    total, known = product(left), product(right)
    if is_static(known) and known == 0:
        raise BadNode(f"the shape {wanted} leaves -1 open: it has no elements")
    try:
        size = total // known
        exact = size * known == total
    except NotAffine as error:
        raise Unsupported(f"the shape {wanted} of {x!r} isn't affine in the batch: {error}") from error
    if not exact:
        raise BadNode(f"{x!r} can't have the shape {wanted}")
    return size


@onnx_op("Flatten")
def flatten(c: NodeContext):
    x = c.need(0)
    axis = c.int("axis", 1)
    if not -x.rank <= axis <= x.rank:
        raise BadNode(f"axis {axis} is outside of [{-x.rank}, {x.rank}]")
    axis = axis + x.rank if axis < 0 else axis
    return c.b.reshape(x, [product(x.shape[:axis]), product(x.shape[axis:])])


def axes_of(c: NodeContext, since: int, index: int = 1):
    """The axes, an attribute before opset `since` and input `index` from then on; None when left out."""
    if c.opset < since:
        return c.ints("axes")
    return c.static_sizes(index, "axes") if c.input(index) is not None else None


@onnx_op("Squeeze")
def squeeze(c: NodeContext):
    x = c.need(0)
    axes = axes_of(c, 13)
    if axes is None:
        axes = [i for i, s in enumerate(x.shape) if is_static(s) and s == 1]
    axes = c.axes(axes, x.rank)
    for a in axes:
        if x.shape[a] != 1:
            raise BadNode(f"dimension {a} of {x!r} isn't 1")
    return c.b.reshape(x, [s for i, s in enumerate(x.shape) if i not in axes])


@onnx_op("Unsqueeze")
def unsqueeze(c: NodeContext):
    x = c.need(0)
    axes = axes_of(c, 13) or []
    rank = x.rank + len(axes)
    axes = c.axes(axes, rank)
    sizes = iter(x.shape)
    return c.b.reshape(x, [1 if i in axes else next(sizes) for i in range(rank)])


@onnx_op("Transpose")
def transpose(c: NodeContext):
    x = c.need(0)
    permutation = c.ints("perm") or list(range(x.rank))[::-1]
    return c.b.transpose(x, permutation)


@onnx_op("Concat")
def concat(c: NodeContext):
    values = [c.need(i) for i in range(len(c.inputs))]
    return c.b.concat(values, c.axis(c.int("axis"), values[0].rank))


@onnx_op("Split")
def split(c: NodeContext):
    """Given sizes, or equal parts; from opset 18 on the last part may be smaller."""
    x = c.need(0)
    axis = c.axis(c.int("axis"), x.rank)
    size = c.static(x, dims=[axis])[0]
    parts = len(c.node.output)
    sizes = c.ints("split") if c.opset < 13 else c.static_sizes(1, "sizes") if c.input(1) is not None else None
    if sizes is None:
        count = c.int("num_outputs", parts)
        if count != parts:
            raise BadNode(f"num_outputs is {count}, the node has {parts} outputs")
        if c.opset < 18 and size % parts:
            raise BadNode(f"{size} elements can't be split in {parts} equal parts")
        each = -(-size // parts)
        sizes = [min(each, max(size - i * each, 0)) for i in range(parts)]
    if len(sizes) != parts or min(sizes) < 0 or sum(sizes) != size:
        raise BadNode(f"the sizes {sizes} don't split {size} elements in {parts} parts")
    results, start = [], 0
    for part in sizes:
        results.append(c.b.slice_dim(x, axis, start, start + part))
        start += part
    return results


@onnx_op("Expand")
def expand(c: NodeContext):
    x = c.need(0)
    wanted = c.sizes(1, "shape")
    return c.b.broadcast(x, c.b.broadcast_shape([x.shape, wanted]))


@onnx_op("Tile")
def tile(c: NodeContext):
    b, x = c.b, c.need(0)
    repeats = c.sizes(1, "repeats")
    if len(repeats) != x.rank:
        raise BadNode(f"{len(repeats)} repeats for {x!r}")
    if all(is_static(r) and r == 1 for r in repeats):
        return x
    apart = [s for size in x.shape for s in (1, size)]
    many = [s for size, r in zip(x.shape, repeats) for s in (r, size)]
    result = [r * size for size, r in zip(x.shape, repeats)]
    # Dimensions that aren't repeated need no pair of their own.
    keep = [i for i in range(2 * x.rank) if i % 2 or not (is_static(repeats[i // 2]) and repeats[i // 2] == 1)]
    apart, many = [apart[i] for i in keep], [many[i] for i in keep]
    return b.reshape(b.broadcast(b.reshape(x, apart), many), result)


@onnx_op("DepthToSpace")
def depth_to_space(c: NodeContext):
    b, x, size = c.b, c.need(0), c.int("blocksize")
    channels, height, width = _image(c, x)
    if size < 1 or channels % (size * size):
        raise BadNode(f"blocksize {size} doesn't fit {x!r}")
    depth = channels // (size * size)
    if c.choice("mode", "DCR", ("DCR", "CRD")) == "DCR":
        parts = b.reshape(x, [x.shape[0], size, size, depth, height, width])
        moved = b.transpose(parts, [0, 3, 4, 1, 5, 2])
    else:
        parts = b.reshape(x, [x.shape[0], depth, size, size, height, width])
        moved = b.transpose(parts, [0, 1, 4, 2, 5, 3])
    return b.reshape(moved, [x.shape[0], depth, height * size, width * size])


@onnx_op("SpaceToDepth")
def space_to_depth(c: NodeContext):
    b, x, size = c.b, c.need(0), c.int("blocksize")
    channels, height, width = _image(c, x)
    if size < 1 or height % size or width % size:
        raise BadNode(f"blocksize {size} doesn't fit {x!r}")
    parts = b.reshape(x, [x.shape[0], channels, height // size, size, width // size, size])
    crd = c.choice("mode", "DCR", ("DCR", "CRD")) == "CRD"
    moved = b.transpose(parts, [0, 1, 3, 5, 2, 4] if crd else [0, 3, 5, 1, 2, 4])
    return b.reshape(moved, [x.shape[0], channels * size * size, height // size, width // size])


def _image(c: NodeContext, x: Value) -> list[int]:
    if x.rank != 4:
        raise BadNode(f"its input has rank {x.rank}, 4 is needed")
    return c.static(x, dims=[1, 2, 3])

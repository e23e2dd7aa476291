# ===- reduce.py - Reductions ---------------------------------------------=== #
#
# The Reduce ops, ArgMax and ArgMin, CumSum and TopK.
#
# ===----------------------------------------------------------------------=== #
"""Reductions of ONNX."""

from __future__ import annotations

import numpy as np

from ....ir.affine import Affine, is_static, product
from ....ir.module import FLOATS, STORAGE, Value
from ..context import NodeContext
from ..failure import BadNode, Unsupported
from ..registry import onnx_op
from .shape import axes_of

#: First opset whose op takes the axes as an input.
_AXES_INPUT = {"ReduceSum": 13}


def _dims(c: NodeContext, x: Value) -> list[int]:
    axes = axes_of(c, _AXES_INPUT.get(c.node.op_type, 18))
    if not axes:
        return [] if c.int("noop_with_empty_axes") else list(range(x.rank))
    if x.rank == 0 and set(axes) <= {0, -1}:
        return []  # a scalar is its own reduction, as numpy and exporters have it
    return sorted(c.axes(axes, x.rank))


@onnx_op("ReduceSum", "ReduceMean", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceLogSum",
         "ReduceLogSumExp", "ReduceSumSquare")
def reduce(c: NodeContext):
    x = c.need(0)
    dims = _dims(c, x)
    if not dims and c.int("noop_with_empty_axes"):
        # From opset 18 on the elementwise part stays; the reduction doesn't happen.
        return _parts(c, x, dims, True)
    return _parts(c, x, dims, bool(c.int("keepdims", 1)))


def _parts(c: NodeContext, x: Value, dims: list[int], keep: bool) -> Value:
    b = c.b
    kind = c.node.op_type[len("Reduce"):]
    if kind == "Sum":
        return b.reduce("sum", x, dims, keep)
    if kind == "Prod":
        return b.reduce("prod", x, dims, keep)
    if kind in ("Max", "Min"):
        return _extreme(c, kind.lower(), x, dims, keep)
    if kind == "Mean":
        return _mean(c, x, dims, keep)
    if kind == "L1":
        return b.reduce("sum", b.unary("abs", x), dims, keep)
    if kind == "SumSquare":
        return b.reduce("sum", b.binary("mul", x, x), dims, keep)
    if kind == "L2":
        return _rounded(c, "sqrt", b.reduce("sum", b.binary("mul", x, x), dims, keep))
    if kind == "LogSum":
        return _rounded(c, "log", b.reduce("sum", x, dims, keep))
    return _log_sum_exp(c, x, dims, keep)


def _rounded(c: NodeContext, name: str, x: Value) -> Value:
    """A float function of a tensor that may be an integer: computed in f64, then truncated."""
    if x.dtype in FLOATS:
        return c.b.unary(name, x)
    return c.b.cast(c.b.unary(name, c.b.cast(x, "f64")), x.dtype)


def _extreme(c: NodeContext, kind: str, x: Value, dims: list[int], keep: bool) -> Value:
    b = c.b
    if any(is_static(x.shape[d]) and x.shape[d] == 0 for d in dims):
        # The identity of the reduction; opset 20 says so, earlier ones leave it open.
        shape = [1 if i in dims else s for i, s in enumerate(x.shape) if keep or i not in dims]
        if x.dtype == "i1":
            return b.splat(kind == "min", "i1", shape)
        if x.dtype in FLOATS:
            return b.splat(-np.inf if kind == "max" else np.inf, x.dtype, shape)
        limits = np.iinfo(STORAGE[x.dtype])
        return b.splat(limits.min if kind == "max" else limits.max, x.dtype, shape)
    return b.reduce(kind, x, dims, keep)


def _mean(c: NodeContext, x: Value, dims: list[int], keep: bool) -> Value:
    b = c.b
    if x.dtype in FLOATS:
        return b.reduce("mean", x, dims, keep)
    count = product(x.shape[d] for d in dims)
    sizes = np.empty((), dtype=object)
    sizes[()] = count
    if isinstance(count, Affine):
        divisor = b.data(sizes, x.dtype)
    elif count == 0:
        raise Unsupported("the integer mean of nothing")
    else:
        divisor = b.constant(count, x.dtype)
    return b.binary("div", b.reduce("sum", x, dims, keep), divisor)


def _log_sum_exp(c: NodeContext, x: Value, dims: list[int], keep: bool) -> Value:
    """m + log(sum(exp(x - m))) with m the largest element, or 0 where that is infinite."""
    b = c.b
    if x.dtype not in FLOATS:
        wide = _log_sum_exp(c, b.cast(x, "f64"), dims, keep)
        return b.cast(wide, x.dtype)
    top = _extreme(c, "max", x, dims, True)
    top = b.select(b.predicate("is_inf", top), b.scalar(0, x), top)
    total = b.reduce("sum", b.unary("exp", b.binary("sub", x, top)), dims, True)
    result = b.binary("add", b.unary("log", total), top)
    return result if keep else b.reshape(result, [s for i, s in enumerate(x.shape) if i not in dims])


@onnx_op("ArgMax", "ArgMin")
def arg(c: NodeContext):
    x = c.need(0)
    axis = c.axis(c.int("axis", 0), x.rank)
    name = "arg_max" if c.node.op_type == "ArgMax" else "arg_min"
    result = c.b.arg(name, x, axis, bool(c.int("select_last_index")))
    if not c.int("keepdims", 1):
        return result
    return c.b.reshape(result, [1 if i == axis else s for i, s in enumerate(x.shape)])


@onnx_op("CumSum", "CumProd")
def cumulative(c: NodeContext):
    """Combines copies shifted by 1, 2, 4, ...: log2(size) steps, exact for integers."""
    b, x = c.b, c.need(0)
    axes = c.static_sizes(1, "axis")
    if len(axes) != 1:
        raise BadNode(f"the axis has {len(axes)} elements, not one")
    axis = c.axis(axes[0], x.rank)
    size = c.static(x, dims=[axis])[0]
    name, neutral = ("add", 0) if c.node.op_type == "CumSum" else ("mul", 1)
    backward = bool(c.int("reverse"))
    result = b.reverse(x, [axis]) if backward else x
    if c.int("exclusive") and size:
        result = _shifted(c, result, axis, size, 1, neutral)
    step = 1
    while step < size:
        result = b.binary(name, result, _shifted(c, result, axis, size, step, neutral))
        step *= 2
    return b.reverse(result, [axis]) if backward else result


def _shifted(c: NodeContext, x: Value, axis: int, size: int, step: int, neutral: int) -> Value:
    """x moved `step` elements on along the axis, the neutral element in front."""
    low = [step if i == axis else 0 for i in range(x.rank)]
    return c.b.pad(c.b.slice_dim(x, axis, 0, size - step), c.b.scalar(neutral, x), low, [0] * x.rank)


#: A TopK compares all pairs of a row; above this many of them it is refused.
_MAX_PAIRS = 1 << 26


@onnx_op("TopK")
def top_k(c: NodeContext):
    """The rank of an element is the number of those that stand before it; rank i goes to place i."""
    b, x = c.b, c.need(0)
    axis = c.axis(c.int("axis", -1), x.rank)
    size = c.static(x, dims=[axis])[0]
    count = c.int("k") if c.opset < 10 else c.static_sizes(1, "k")[0]
    if not 0 <= count <= size:
        raise BadNode(f"k is {count}, the dimension has {size} elements")
    rows = product(s for i, s in enumerate(x.shape) if i != axis)
    if (rows.bounds()[1] if isinstance(rows, Affine) else rows) * size * size > _MAX_PAIRS:
        raise Unsupported(f"k of {size} elements in {rows} rows; at most {_MAX_PAIRS} pairs are")
    moved = [i for i in range(x.rank) if i != axis] + [axis]
    row = b.transpose(x, moved)
    lead = row.shape[:-1]
    pairs = lead + (size, size)
    dims = list(range(len(lead)))
    mine, other = (b.broadcast(row, pairs, dims + [len(lead) + d]) for d in (0, 1))
    here, there = (b.iota("i64", pairs, len(lead) + d) for d in (0, 1))
    kind = "gt" if c.int("largest", 1) else "lt"
    before = b.compare(kind, other, mine)
    equal = b.compare("eq", other, mine)
    if x.dtype in FLOATS:  # NaN stands before every number when the largest are wanted, behind them otherwise
        mine_nan, other_nan = b.predicate("is_nan", mine), b.predicate("is_nan", other)
        first, last = (other_nan, mine_nan) if kind == "gt" else (mine_nan, other_nan)
        before = b.binary("or", before, b.binary("and", first, b.unary("not", last)))
        equal = b.binary("or", equal, b.binary("and", mine_nan, other_nan))
    before = b.binary("or", before, b.binary("and", equal, b.compare("lt", there, here)))
    rank = b.reduce("sum", b.cast(before, "i64"), [len(lead) + 1])
    places = lead + (count, size)
    hit = b.compare("eq", b.broadcast(rank, places, dims + [len(lead) + 1]), b.iota("i64", places, len(lead)))
    indices = b.arg("arg_max", b.cast(hit, "i8"), len(lead) + 1)
    values = b.gather(b.reshape(row, [product(lead), size]), b.reshape(indices, [product(lead), count]), 1, 1)
    back = [moved.index(i) for i in range(x.rank)]
    return [b.transpose(b.reshape(values, lead + (count,)), back), b.transpose(indices, back)]

# ===- builder.py - Builds ops of the dialect ----------------------------=== #
#
# One method for each structural op, one for each family of the others. Result
# types are inferred here by the rules of the ODS files; a broken rule raises
# `BuildError`, so a module that was built is one the verifier takes. Known data
# become constants or parameters only when an op needs them.
#
# ===----------------------------------------------------------------------=== #
"""The builder of a module."""

from __future__ import annotations

import re
from typing import Optional, Sequence

import numpy as np

from .affine import Affine, NotAffine, Size, is_static, product
from .module import FLOATS, INTEGERS, STORAGE, Module, Op, Parameter, Value, bits16_to_float, float_to_bits16

#: Constants of at most this many elements stand in the text.
INLINE_ELEMENTS = 64


class BuildError(Exception):
    """An op whose operands break a constraint of the dialect."""


def require(condition: bool, message: str) -> None:
    if not condition:
        raise BuildError(message)


def shape_text(shape: Sequence[Size]) -> str:
    return "[" + ", ".join(str(s) for s in shape) + "]"


def _unused(name: str, taken: dict[str, int]) -> str:
    """`name`, or with a number behind it when it is taken already."""
    result = name
    while result in taken:
        result = f"{name}_{taken[name]}"
        taken[name] += 1
    taken[result] = 1
    return result


class Builder:
    """Appends ops to a module at its end."""

    def __init__(self, module: Module):
        self.module = module
        self.loc = ""
        # Names taken, and how often each was asked for.
        self._symbols = {"main": 1}
        self._keys = {"__metadata__": 1}
        self._constants: dict[tuple, Value] = {}

    # ---- known data ---------------------------------------------------------

    def constant(self, numbers, dtype: str, shape: Optional[Sequence[int]] = None) -> Value:
        """A constant of the numbers given, rounded once to `dtype`."""
        array = np.asarray(numbers)
        if dtype == "bf16":
            with np.errstate(over="ignore"):
                array = float_to_bits16(array.astype("<f4"))
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                array = array.astype(STORAGE[dtype])
        if shape is not None:
            array = np.broadcast_to(array, tuple(shape)) if array.size == 1 else array.reshape(tuple(shape))
        return Value(dtype, array.shape, array, loc=self.loc)

    def data(self, array: np.ndarray, dtype: str) -> Value:
        """A value of an array of STORAGE[dtype], or of sizes (then dtype is an integer)."""
        return Value(dtype, array.shape, array, loc=self.loc)

    def splat(self, number, like_dtype: str, shape: Sequence[Size]) -> Value:
        """A tensor of one number; only the scalar is stored."""
        return self.broadcast(self.constant(number, like_dtype), shape)

    def operand(self, value: Value) -> Value:
        """The same value with an op behind it: known data get theirs here."""
        if value.data is None:
            return value
        if value.op is not None:
            return value.op.results[0]
        if value.symbolic:
            return self._symbolic_operand(value)
        if value.data.size <= INLINE_ELEMENTS:
            key = (value.dtype, value.shape, value.data.tobytes())
            known = self._constants.get(key)
            if known is None:
                made = Value(value.dtype, value.shape, value.data)
                self._append("constant", [], [made], {"value": value.data}, loc=value.loc or self.loc)
                known = self._constants[key] = made
            value.op = known.op
            return known
        parameter = self._parameter(value)
        made = Value(value.dtype, value.shape, None)
        self._append("get_parameter", [], [made], {"symbol": parameter.symbol}, loc=value.loc or self.loc)
        value.op = made.op
        return made

    def _parameter(self, value: Value) -> Parameter:
        base = re.sub(r"[^A-Za-z0-9_$.]", "_", value.key or "constant") or "constant"
        base = base if not base[0].isdigit() and base[0] not in "$." else "_" + base
        symbol = _unused(base, self._symbols)
        key = _unused(value.key or symbol, self._keys)
        parameter = Parameter(symbol, key, value.dtype, tuple(value.shape), value.data)
        self.module.parameters.append(parameter)
        return parameter

    def _symbolic_operand(self, value: Value) -> Value:
        """Computes sizes at run time: B is the number of elements of a batch of ones."""
        elements = []
        for size in value.data.reshape(-1):
            scalar = self.constant(int(size.offset if isinstance(size, Affine) else size), value.dtype, (1,))
            if isinstance(size, Affine):
                batch = Affine(1, 0, size.low, size.high)
                ones = self.splat(1, value.dtype, (1, batch))
                count = self.reduce("sum", ones, [1])
                count = self.binary("mul", count, self.constant(size.scale, value.dtype, (1,)))
                scalar = self.binary("add", count, scalar)
            elements.append(scalar)
        flat = self.concat(elements, 0) if elements else self.constant([], value.dtype)
        made = self.operand(self.reshape(flat, value.shape))
        value.op = made.op
        return made

    # ---- ops ----------------------------------------------------------------

    def _append(self, name: str, operands, results, attrs=None, loc: str = "") -> Op:
        op = Op(name, operands, results, attrs or {}, loc or self.loc)
        for result in results:
            result.op = op
        self.module.ops.append(op)
        return op

    def make(self, name: str, operands: Sequence[Value], dtype: str, shape: Sequence[Size], **attrs) -> Value:
        """An op of one result of the type given."""
        result = Value(dtype, shape)
        self._append(name, [self.operand(v) for v in operands], [result], attrs)
        return result

    def unary(self, name: str, x: Value, **attrs) -> Value:
        """An elementwise op of one operand and the same type."""
        return self.make(name, [x], x.dtype, x.shape, **attrs)

    def predicate(self, name: str, x: Value) -> Value:
        """`is_nan` or `is_inf`."""
        return self.make(name, [x], "i1", x.shape)

    def _same(self, *values: Value) -> None:
        first = values[0]
        for value in values[1:]:
            require(value.dtype == first.dtype, f"element types differ: {first.dtype} and {value.dtype}")
            require(value.shape == first.shape, f"shapes differ: {first!r} and {value!r}")

    def binary(self, name: str, a: Value, b: Value) -> Value:
        """An elementwise op of two operands of one element type; broadcasts both to one shape."""
        a, b = self.broadcast_all([a, b])
        self._same(a, b)
        return self.make(name, [a, b], a.dtype, a.shape)

    def compare(self, kind: str, a: Value, b: Value) -> Value:
        a, b = self.broadcast_all([a, b])
        self._same(a, b)
        return self.make("compare", [a, b], "i1", a.shape, kind=kind)

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        condition, a, b = self.broadcast_all([condition, a, b])
        self._same(a, b)
        require(condition.dtype == "i1", "the condition is not i1")
        return self.make("select", [condition, a, b], a.dtype, a.shape)

    def clamp(self, x: Value, low: Value, high: Value) -> Value:
        low, high = (self.broadcast(v, x.shape) for v in (low, high))
        self._same(x, low, high)
        return self.make("clamp", [x, low, high], x.dtype, x.shape)

    def cast(self, x: Value, dtype: str) -> Value:
        return x if x.dtype == dtype else self.make("cast", [x], dtype, x.shape)

    def scalar(self, number, like: Value) -> Value:
        """A rank 0 constant of `like`'s element type."""
        return self.constant(number, like.dtype)

    # ---- shapes -------------------------------------------------------------

    def broadcast_shape(self, shapes: Sequence[Sequence[Size]]) -> tuple[Size, ...]:
        """The common shape of numpy's broadcasting."""
        rank = max((len(s) for s in shapes), default=0)
        result: list[Size] = [1] * rank
        for shape in shapes:
            for i, size in enumerate(shape, rank - len(shape)):
                if result[i] == 1:
                    result[i] = size
                elif not (is_static(size) and size == 1) and size != result[i]:
                    raise BuildError(f"shapes {' and '.join(map(shape_text, shapes))} can't be broadcast together")
        return tuple(result)

    def broadcast_all(self, values: Sequence[Value]) -> list[Value]:
        shape = self.broadcast_shape([v.shape for v in values])
        return [self.broadcast(v, shape) for v in values]

    def broadcast(self, x: Value, shape: Sequence[Size], dims: Optional[Sequence[int]] = None) -> Value:
        """Operand dimension i becomes `dims[i]` (default: the last dimensions) of `shape`."""
        shape = tuple(shape)
        if dims is None:
            dims = list(range(len(shape) - x.rank, len(shape)))
        if x.shape == shape and list(dims) == list(range(len(shape))):
            return x
        require(x.rank <= len(shape), f"{x!r} has a higher rank than {shape_text(shape)}")
        given = set()
        for size, dim in zip(x.shape, dims):
            if size == shape[dim]:
                given.add(dim)
            else:
                require(size == 1, f"{x!r} can't be broadcast to {shape_text(shape)}")
        scales = {
            (s.scale, s.offset) for i, s in enumerate(shape) if isinstance(s, Affine) and i not in given
        }
        require(len(scales) <= 1, f"{shape_text(shape)} needs two different new batch dimensions")
        scale, offset = next(iter(scales), (1, 0))
        require(offset == 0 and scale > 0, f"a new dimension of {shape_text(shape)} isn't a multiple of the batch")
        return self.make("broadcast", [x], x.dtype, shape, dims=list(dims), batch_scale=scale)

    def reshape(self, x: Value, shape: Sequence[Size]) -> Value:
        shape = tuple(shape)
        if x.shape == shape:
            return x
        if x.data is not None and x.op is None:
            require(x.data.size == product(shape), f"{x!r} has another number of elements than {shape_text(shape)}")
            made = Value(x.dtype, shape, x.data.reshape(shape), loc=x.loc)
            made.key = x.key
            return made
        try:
            same = product(x.shape) == product(shape)
        except NotAffine as error:
            raise BuildError(f"{x!r} and {shape_text(shape)} have sizes that aren't affine in B: {error}") from error
        require(same, f"{x!r} has another number of elements than {shape_text(shape)}")
        for sizes in (x.shape, shape):
            require(sum(isinstance(s, Affine) for s in sizes) <= 1, f"{shape_text(sizes)} has two batch dimensions")
        return self.make("reshape", [x], x.dtype, shape)

    def transpose(self, x: Value, permutation: Sequence[int]) -> Value:
        permutation = [int(p) for p in permutation]
        require(sorted(permutation) == list(range(x.rank)), f"{permutation} isn't a permutation of rank {x.rank}")
        if permutation == list(range(x.rank)):
            return x
        return self.make("transpose", [x], x.dtype, [x.shape[p] for p in permutation], permutation=permutation)

    def slice(self, x: Value, starts, limits, strides=None) -> Value:
        """Indices `starts[d], starts[d] + strides[d], ...` below `limits[d]`; None takes a dimension whole."""
        strides = list(strides) if strides is not None else [1] * x.rank
        starts, limits = list(starts), list(limits)
        shape: list[Size] = []
        for d, size in enumerate(x.shape):
            if isinstance(size, Affine):
                whole = strides[d] == 1 and starts[d] in (0, None) and (limits[d] is None or limits[d] == size)
                require(whole, f"dimension {d} of {x!r} is the batch and can't be sliced")
                starts[d], limits[d] = 0, -1
                shape.append(size)
                continue
            starts[d] = 0 if starts[d] is None else int(starts[d])
            limits[d] = size if limits[d] is None else int(limits[d])
            require(0 <= starts[d] <= limits[d] <= size and strides[d] >= 1, f"slice outside of {x!r}")
            shape.append(-(-(limits[d] - starts[d]) // strides[d]))
        if tuple(shape) == x.shape:
            return x
        return self.make("slice", [x], x.dtype, shape, starts=starts, limits=limits, strides=strides)

    def slice_dim(self, x: Value, dim: int, start: int, limit: int, stride: int = 1) -> Value:
        """A slice along one dimension."""
        starts, limits, strides = [None] * x.rank, [None] * x.rank, [1] * x.rank
        starts[dim], limits[dim], strides[dim] = start, limit, stride
        return self.slice(x, starts, limits, strides)

    def reverse(self, x: Value, dims: Sequence[int]) -> Value:
        dims = [d for d in dims if not (is_static(x.shape[d]) and x.shape[d] == 1)]
        return self.make("reverse", [x], x.dtype, x.shape, dims=dims) if dims else x

    def concat(self, values: Sequence[Value], axis: int) -> Value:
        require(bool(values), "nothing to concatenate")
        first = values[0]
        total: Size = 0
        for value in values:
            require(value.dtype == first.dtype, f"element types differ: {first.dtype} and {value.dtype}")
            others = [s for i, s in enumerate(value.shape) if i != axis]
            require(
                value.rank == first.rank and others == [s for i, s in enumerate(first.shape) if i != axis],
                f"{first!r} and {value!r} can't be concatenated along {axis}",
            )
            total = value.shape[axis] + total
        if len(values) == 1:
            return first
        shape = [total if i == axis else s for i, s in enumerate(first.shape)]
        return self.make("concat", values, first.dtype, shape, axis=axis)

    def pad(self, x: Value, value: Value, low: Sequence[int], high: Sequence[int]) -> Value:
        """Adds a border of the scalar `value`."""
        require(value.rank == 0 and value.dtype == x.dtype, "the pad value isn't a scalar of the same type")
        shape: list[Size] = []
        for size, before, after in zip(x.shape, low, high):
            require(before >= 0 and after >= 0, "a negative pad")
            require(is_static(size) or before == after == 0, f"the batch dimension of {x!r} can't be padded")
            shape.append(size + before + after if before or after else size)
        if tuple(shape) == x.shape:
            return x
        return self.make("pad", [x, value], x.dtype, shape, low=list(low), high=list(high))

    def iota(self, dtype: str, shape: Sequence[Size], axis: int) -> Value:
        scales = {(s.scale, s.offset) for s in shape if isinstance(s, Affine)}
        require(len(scales) <= 1, f"{shape_text(shape)} has two batch dimensions")
        scale, offset = next(iter(scales), (1, 0))
        require(offset == 0 and scale > 0, f"a dimension of {shape_text(shape)} isn't a multiple of the batch")
        return self.make("iota", [], dtype, shape, axis=axis, batch_scale=scale)

    # ---- gather and scatter -------------------------------------------------

    def gather(self, x: Value, indices: Value, axis: int, batch_dims: int = 0) -> Value:
        """`indices` must lie in [0, size)."""
        require(0 <= batch_dims <= axis < x.rank, f"axis {axis} outside of {x!r}")
        require(x.shape[:batch_dims] == indices.shape[:batch_dims], "batch dimensions differ")
        require(is_static(x.shape[axis]), f"dimension {axis} of {x!r} is the batch and can't be gathered from")
        shape = x.shape[:axis] + indices.shape[batch_dims:] + x.shape[axis + 1 :]
        empty = any(is_static(s) and s == 0 for s in shape)
        require(empty or x.shape[axis] > 0, f"a gather from the empty dimension {axis} of {x!r}")
        return self.make("gather", [x, indices], x.dtype, shape, axis=axis, batch_dims=batch_dims)

    def gather_nd(self, x: Value, indices: Value, batch_dims: int = 0) -> Value:
        depth = indices.shape[-1]
        require(is_static(depth) and batch_dims + depth <= x.rank, f"{indices!r} can't index {x!r}")
        require(x.shape[:batch_dims] == indices.shape[:batch_dims], "batch dimensions differ")
        shape = indices.shape[:-1] + x.shape[batch_dims + depth :]
        return self.make("gather_nd", [x, indices], x.dtype, shape, batch_dims=batch_dims)

    def scatter(self, kind: str, x: Value, indices: Value, updates: Value) -> Value:
        depth = indices.shape[-1]
        require(is_static(depth) and depth <= x.rank, f"{indices!r} can't index {x!r}")
        require(
            updates.shape == indices.shape[:-1] + x.shape[depth:] and updates.dtype == x.dtype,
            f"updates {updates!r} don't fit {x!r} and indices {indices!r}",
        )
        return self.make("scatter", [x, indices, updates], x.dtype, x.shape, kind=kind)

    # ---- reductions ---------------------------------------------------------

    def reduce(self, kind: str, x: Value, dims: Sequence[int], keep: bool = False) -> Value:
        dims = sorted(int(d) for d in dims)
        shape = [s for i, s in enumerate(x.shape) if i not in dims]
        result = self.make("reduce", [x], x.dtype, shape, kind=kind, dims=dims) if dims else x
        return self.reshape(result, [1 if i in dims else s for i, s in enumerate(x.shape)]) if keep else result

    def arg(self, name: str, x: Value, axis: int, select_last: bool = False) -> Value:
        """Position of the extreme element; the axis disappears."""
        require(not (is_static(x.shape[axis]) and x.shape[axis] == 0), f"dimension {axis} of {x!r} is empty")
        shape = x.shape[:axis] + x.shape[axis + 1 :]
        return self.make(name, [x], "i64", shape, axis=axis, select_last=select_last)

    # ---- named ops ----------------------------------------------------------

    def matmul(self, a: Value, b: Value, transpose_a: bool = False, transpose_b: bool = False) -> Value:
        """Ranks equal, or b of rank 2; batch dimensions agree."""
        require(a.dtype == b.dtype, f"element types differ: {a.dtype} and {b.dtype}")
        m, k = (a.shape[-1], a.shape[-2]) if transpose_a else a.shape[-2:]
        k2, n = (b.shape[-1], b.shape[-2]) if transpose_b else b.shape[-2:]
        require(k == k2, f"{a!r} and {b!r} disagree in the summed dimension: {k} and {k2}")
        require(b.rank == 2 or a.shape[:-2] == b.shape[:-2], f"batch dimensions of {a!r} and {b!r} differ")
        shape = a.shape[:-2] + (m, n)
        return self.make("matmul", [a, b], a.dtype, shape, transpose_lhs=transpose_a, transpose_rhs=transpose_b)

    def softmax(self, name: str, x: Value, axis: int) -> Value:
        """`softmax` or `log_softmax`."""
        return self.make(name, [x], x.dtype, x.shape, axis=axis)

    def layer_norm(self, name: str, x: Value, scale: Optional[Value], bias: Optional[Value], epsilon: float, axis: int):
        """`layer_norm` or `rms_norm`; scale and bias have shape x.shape[axis:]."""
        operands = [x] + [v for v in (scale, bias) if v is not None]
        for value in operands[1:]:
            require(value.shape == x.shape[axis:] and value.dtype == x.dtype, f"{value!r} doesn't fit {x!r}")
        return self.make(
            name, operands, x.dtype, x.shape, epsilon=epsilon, axis=axis, scale=scale is not None, bias=bias is not None
        )

    def windowed(self, name: str, operands: Sequence[Value], shape: Sequence[Size], **attrs) -> Value:
        """A conv or pool whose shape the caller computed."""
        return self.make(name, operands, operands[0].dtype, shape, **attrs)

    def make_many(self, name: str, operands: Sequence[Value], types, **attrs) -> list[Value]:
        """An op of several results, given as pairs of element type and shape."""
        results = [Value(dtype, shape) for dtype, shape in types]
        self._append(name, [self.operand(v) for v in operands], results, attrs)
        return results


__all__ = ["Builder", "BuildError", "require", "shape_text", "FLOATS", "INTEGERS", "bits16_to_float"]

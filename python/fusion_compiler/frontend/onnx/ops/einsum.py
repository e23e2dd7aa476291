# ===- einsum.py - Einsum ---------------------------------------------------=== #
#
# Turns an equation into transposes, sums and matrix products, two operands at a
# time from the left.
#
# ===----------------------------------------------------------------------=== #
"""Einsum of ONNX."""

from __future__ import annotations

from ....ir.affine import product
from ....ir.builder import Builder
from ....ir.module import Value
from ..context import NodeContext
from ..failure import BadNode
from ..registry import onnx_op

#: Stands for the dimensions under an ellipsis, counted from the back.
_ELLIPSIS = [chr(0x100 + i) for i in range(32)]


def _labels(term: str, rank: int) -> list[str]:
    """One label a dimension of the operand."""
    before, dots, after = term.partition("...")
    if not dots:
        if len(term) != rank:
            raise BadNode(f"the term '{term}' has {len(term)} labels, its operand has rank {rank}")
        return list(term)
    hidden = rank - len(before) - len(after)
    if hidden < 0 or hidden > len(_ELLIPSIS):
        raise BadNode(f"the term '{term}' doesn't fit an operand of rank {rank}")
    return list(before) + _ELLIPSIS[:hidden][::-1] + list(after)


@onnx_op("Einsum")
def einsum(c: NodeContext):
    equation = "".join(c.string("equation").split())
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    values = [c.need(i) for i in range(len(c.inputs))]
    if len(terms) != len(values):
        raise BadNode(f"the equation '{equation}' has {len(terms)} terms for {len(values)} operands")
    if any(not ch.isalpha() for ch in (left + right).replace("...", "").replace(",", "")):
        raise BadNode(f"the equation '{equation}' has something else than letters")
    labels = [_labels(term, value.rank) for term, value in zip(terms, values)]
    hidden = max((sum(label in _ELLIPSIS for label in term) for term in labels), default=0)
    if arrow:
        before, dots, after = right.partition("...")
        output = list(before) + (_ELLIPSIS[:hidden][::-1] if dots else []) + list(after)
    else:
        flat = [label for term in labels for label in term]
        output = _ELLIPSIS[:hidden][::-1] + sorted(
            label for label in set(flat) if flat.count(label) == 1 and label not in _ELLIPSIS
        )
    if len(set(output)) != len(output) or any(all(o not in term for term in labels) for o in output):
        raise BadNode(f"the equation '{equation}' has an output label twice or not in an operand")
    sizes: dict[str, object] = {}
    operands = []
    for value, term in zip(values, labels):
        operands.append(_diagonal(c.b, value, term))
        for size, label in zip(value.shape, term):
            if sizes.get(label, 1) == 1:
                sizes[label] = size
            elif size != 1 and size != sizes[label]:
                raise BadNode(f"label '{label}' has sizes {sizes[label]} and {size}")
    value, term = operands[0]
    for index in range(1, len(operands)):
        later = {label for _, other in operands[index + 1 :] for label in other} | set(output)
        value, term = _contract(c.b, value, term, *operands[index], later, sizes)
    value, term = _sum_out(c.b, value, term, set(output))
    value = c.b.transpose(value, [term.index(label) for label in output])
    return c.b.broadcast(value, [sizes[label] for label in output])


def _diagonal(b: Builder, x: Value, labels: list[str]) -> tuple[Value, list[str]]:
    """Of a label that an operand has twice only the diagonal counts: every (n + 1)th element of n * n."""
    labels = list(labels)
    while len(set(labels)) != len(labels):
        label = next(l for l in labels if labels.count(l) > 1)
        first = labels.index(label)
        second = labels.index(label, first + 1)
        size = x.shape[first]
        if x.shape[second] != size or not isinstance(size, int):
            raise BadNode(f"label '{label}' has sizes {size} and {x.shape[second]} in one operand")
        order = [i for i in range(x.rank) if i not in (first, second)] + [first, second]
        flat = b.reshape(b.transpose(x, order), [x.shape[i] for i in order[:-2]] + [size * size])
        x = b.slice_dim(flat, flat.rank - 1, 0, size * size, size + 1)
        labels = [labels[i] for i in order[:-1]]
    return x, labels


def _sum_out(b: Builder, x: Value, labels: list[str], kept: set) -> tuple[Value, list[str]]:
    dims = [i for i, label in enumerate(labels) if label not in kept]
    return b.reduce("sum", x, dims), [label for label in labels if label in kept]


def _contract(b: Builder, x: Value, left: list[str], y: Value, right: list[str], later: set, sizes):
    """The product of two operands, summed over the labels that nothing later needs."""
    x, left = _sum_out(b, x, left, later | set(right))
    y, right = _sum_out(b, y, right, later | set(left))
    batch = [label for label in left if label in right and label in later]
    summed = [label for label in left if label in right and label not in later]
    rows = [label for label in left if label not in right]
    columns = [label for label in right if label not in left]

    def arranged(value, labels, groups):
        order = [label for group in groups for label in group]
        value = b.transpose(value, [labels.index(label) for label in order])
        shared = batch + summed
        value = b.broadcast(value, [sizes[l] if l in shared else s for l, s in zip(order, value.shape)])
        return b.reshape(value, [product(sizes[l] if l in shared else value.shape[order.index(l)] for l in group)
                                 for group in groups])

    lhs = arranged(x, left, (batch, rows, summed))
    rhs = arranged(y, right, (batch, summed, columns))
    result = b.matmul(lhs, rhs)
    shape = [sizes[l] for l in batch] + [x.shape[left.index(l)] for l in rows] + [
        y.shape[right.index(l)] for l in columns
    ]
    return b.reshape(result, shape), batch + rows + columns

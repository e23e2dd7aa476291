# ===- context.py - One node while it is imported ------------------------=== #
#
# What the functions of ops/ see: the node's inputs as values, its attributes with
# their types checked, the builder, and ways to refuse.
#
# ===----------------------------------------------------------------------=== #
"""The view of one node that an op's import function works on."""

from __future__ import annotations

from typing import Optional, Sequence

import numpy as np
from onnx import AttributeProto, NodeProto

from ...errors import quote
from ...ir.affine import Affine, Size
from ...ir.builder import Builder
from ...ir.module import Value
from .failure import BadNode, Unsupported

_FIELD = {
    AttributeProto.INT: "i",
    AttributeProto.FLOAT: "f",
    AttributeProto.STRING: "s",
    AttributeProto.INTS: "ints",
    AttributeProto.FLOATS: "floats",
    AttributeProto.STRINGS: "strings",
    AttributeProto.TENSOR: "t",
    AttributeProto.GRAPH: "g",
}


class NodeContext:
    """A node, its inputs and the builder; `opset` is the version of the node's domain."""

    def __init__(self, node: NodeProto, attributes: dict, opset: int, inputs: Sequence[Optional[Value]],
                 builder: Builder, tensor):
        self.node = node
        self.opset = opset
        self.inputs = list(inputs)
        self.b = builder
        self.attributes: dict[str, AttributeProto] = attributes
        self._tensor = tensor

    # ---- inputs -------------------------------------------------------------

    def input(self, index: int) -> Optional[Value]:
        """The input, or None when it is left out."""
        return self.inputs[index] if index < len(self.inputs) else None

    def need(self, index: int) -> Value:
        value = self.input(index)
        if value is None:
            raise BadNode(f"input {index} is missing")
        return value

    def input_name(self, index: int) -> str:
        return quote(self.node.input[index])

    def wants(self, index: int) -> bool:
        """Whether something has a name for output `index`."""
        return index < len(self.node.output) and bool(self.node.output[index])

    def array(self, index: int, what: str) -> np.ndarray:
        """The numbers of an input that must be known; `what` says in errors what it is for."""
        value = self.need(index)
        if not value.constant:
            raise Unsupported(f"the {what}, input {self.input_name(index)}, depends on data")
        return value.numbers

    def sizes(self, index: int, what: str) -> list[Size]:
        """The elements of an integer input that must be known, possibly affine in the batch."""
        value = self.need(index)
        if value.data is None:
            raise Unsupported(f"the {what}, input {self.input_name(index)}, depends on data")
        return [s if isinstance(s, Affine) else int(s) for s in value.data.reshape(-1)]

    def static_sizes(self, index: int, what: str) -> list[int]:
        """As `sizes`, and none may depend on the batch."""
        result = self.sizes(index, what)
        if any(isinstance(s, Affine) for s in result):
            raise Unsupported(f"the {what}, input {self.input_name(index)}, depends on the batch")
        return result

    # ---- attributes ---------------------------------------------------------

    def has(self, name: str) -> bool:
        return name in self.attributes

    def _get(self, name: str, kind: int):
        attribute = self.attributes.get(name)
        if attribute is None:
            return None
        if attribute.type != kind:
            expected = AttributeProto.AttributeType.Name(kind).lower()
            raise BadNode(f"attribute {quote(name)} isn't of type {expected}")
        return getattr(attribute, _FIELD[kind])

    def int(self, name: str, default: int = 0) -> int:
        value = self._get(name, AttributeProto.INT)
        return default if value is None else value

    def float(self, name: str, default: float = 0.0) -> float:
        value = self._get(name, AttributeProto.FLOAT)
        # ONNX keeps the attribute as f32; a default in the text of its spec is one too.
        return float(np.float32(default)) if value is None else value

    def string(self, name: str, default: str = "") -> str:
        value = self._get(name, AttributeProto.STRING)
        return default if value is None else value.decode("utf-8", "replace")

    def ints(self, name: str, default=None) -> Optional[list[int]]:
        value = self._get(name, AttributeProto.INTS)
        return default if value is None else list(value)

    def floats(self, name: str, default=None) -> Optional[list[float]]:
        value = self._get(name, AttributeProto.FLOATS)
        return default if value is None else list(value)

    def strings(self, name: str, default=None) -> Optional[list[str]]:
        value = self._get(name, AttributeProto.STRINGS)
        return default if value is None else [v.decode("utf-8", "replace") for v in value]

    def tensor(self, name: str) -> Optional[Value]:
        """The tensor attribute as a known value."""
        value = self._get(name, AttributeProto.TENSOR)
        return None if value is None else self._tensor(value, f"attribute {quote(name)}")

    def choice(self, name: str, default: str, allowed: Sequence[str]) -> str:
        """A string attribute that must be one of `allowed`."""
        value = self.string(name, default)
        if value not in allowed:
            raise Unsupported(f"attribute {quote(name)} is {quote(value)}, not one of {', '.join(allowed)}")
        return value

    # ---- shapes -------------------------------------------------------------

    def axis(self, axis: int, rank: int) -> int:
        """The axis counted from the front."""
        if not -rank <= axis < rank:
            raise BadNode(f"axis {axis} is outside of [{-rank}, {rank - 1}]")
        return axis % rank

    def axes(self, axes: Sequence[int], rank: int) -> list[int]:
        """Distinct axes counted from the front, in the order given."""
        result = [self.axis(int(a), rank) for a in axes]
        if len(set(result)) != len(result):
            raise BadNode(f"axes {list(axes)} name a dimension twice")
        return result

    def static(self, value: Value, what: str = "input", dims: Optional[Sequence[int]] = None) -> list[int]:
        """The sizes of the dimensions (default: all), none of which may depend on the batch."""
        chosen = range(value.rank) if dims is None else dims
        for d in chosen:
            if isinstance(value.shape[d], Affine):
                raise Unsupported(f"dimension {d} of the {what} depends on the batch")
        return [value.shape[d] for d in chosen]

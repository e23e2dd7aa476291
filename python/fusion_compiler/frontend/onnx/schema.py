# ===- schema.py - Checks nodes against the op's schema ------------------=== #
#
# ONNX publishes for each op how many inputs it takes, of which types, and its
# attributes. One generic check here keeps the functions of ops/ free of it.
#
# ===----------------------------------------------------------------------=== #
"""Checks a node against the schema of its op."""

from __future__ import annotations

from typing import Optional, Sequence

import onnx
from onnx import AttributeProto

from ...errors import quote
from ...ir.module import Value
from .dtypes import SCHEMA_NAMES
from .failure import BadNode, Unsupported

_ATTRIBUTE_TYPES = {
    getattr(onnx.defs.OpSchema.AttrType, name): getattr(AttributeProto, name)
    for name in ("INT", "FLOAT", "STRING", "TENSOR", "GRAPH", "INTS", "FLOATS", "STRINGS")
}

_cache: dict[tuple[str, str, int], Optional[onnx.defs.OpSchema]] = {}


def schema_of(domain: str, name: str, opset: int) -> Optional[onnx.defs.OpSchema]:
    """The schema in force at the opset, or None for an op that ONNX doesn't have there."""
    key = (domain, name, opset)
    if key not in _cache:
        try:
            schema = onnx.defs.get_schema(name, opset, domain)
            _cache[key] = None if schema.deprecated else schema
        except onnx.defs.SchemaError:
            _cache[key] = None
    return _cache[key]


def check_form(schema: onnx.defs.OpSchema, node, attributes: dict) -> None:
    """Numbers of inputs and outputs, and the attributes. Raises BadNode or Unsupported."""
    if not schema.min_input <= len(node.input) <= schema.max_input:
        raise BadNode(f"it has {len(node.input)} inputs, the op takes {schema.min_input} to {schema.max_input}")
    if not schema.min_output <= len(node.output) <= schema.max_output:
        raise BadNode(f"it has {len(node.output)} outputs, the op gives {schema.min_output} to {schema.max_output}")
    for name, attribute in attributes.items():
        declared = schema.attributes.get(name)
        if declared is None:
            raise Unsupported(f"attribute {quote(name)} isn't one that the op has")
        kind = _ATTRIBUTE_TYPES.get(declared.type)
        if kind is not None and attribute.type != kind:
            raise BadNode(f"attribute {quote(name)} isn't of type {AttributeProto.AttributeType.Name(kind).lower()}")
    for name, declared in schema.attributes.items():
        if declared.required and name not in attributes:
            raise BadNode(f"attribute {quote(name)} is missing")


def check_types(schema: onnx.defs.OpSchema, inputs: Sequence[Optional[Value]]) -> None:
    """Element types: each input's own constraint, and equal ones where the schema says so. Raises BadNode."""
    constraints = {c.type_param_str: set(c.allowed_type_strs) for c in schema.type_constraints}
    bound: dict[str, str] = {}
    for index, value in enumerate(inputs):
        formal = schema.inputs[min(index, len(schema.inputs) - 1)]
        if value is None:
            if formal.option == onnx.defs.OpSchema.FormalParameterOption.Single:
                raise BadNode(f"input {index} ({formal.name}) is missing")
            continue
        name = SCHEMA_NAMES[value.dtype]
        allowed = constraints.get(formal.type_str, {formal.type_str})
        if name not in allowed:
            raise BadNode(f"input {index} ({formal.name}) has element type {value.dtype}, which the op doesn't take")
        if formal.type_str in constraints and formal.is_homogeneous:
            first = bound.setdefault(formal.type_str, value.dtype)
            if first != value.dtype:
                raise BadNode(f"input {index} ({formal.name}) has element type {value.dtype}, another one has {first}")

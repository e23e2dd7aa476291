# ===- control.py - Constants and other nodes without arithmetic ---------=== #
#
# Constant in its forms, and the ops that make tensors from shapes.
#
# ===----------------------------------------------------------------------=== #
"""Constant nodes of ONNX."""

from __future__ import annotations

from ..context import NodeContext
from ..failure import BadNode, Unsupported
from ..registry import onnx_op


@onnx_op("Constant")
def constant(c: NodeContext):
    names = [n for n in c.attributes if n.startswith("value") or n == "sparse_value"]
    if len(names) != 1:
        raise BadNode(f"it has {len(names)} of the attributes that give its value, not one")
    name = names[0]
    if name == "value":
        return c.tensor("value")
    if name == "value_float":
        return c.b.constant(c.float(name), "f32")
    if name == "value_floats":
        return c.b.constant(c.floats(name), "f32")
    if name == "value_int":
        return c.b.constant(c.int(name), "i64")
    if name == "value_ints":
        return c.b.constant(c.ints(name), "i64")
    raise Unsupported(f"attribute '{name}'")

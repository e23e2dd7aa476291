"""The ops of ONNX, one module a family; importing them fills the registry."""

from . import activation, control, conv, elementwise, linalg, norm, pool, shape  # noqa: F401

"""The ops of ONNX, one module a family; importing them fills the registry."""

from . import (  # noqa: F401
    activation,
    control,
    conv,
    einsum,
    elementwise,
    generate,
    indexing,
    linalg,
    loss,
    movement,
    norm,
    pool,
    reduce,
    resize,
    shape,
    training,
)

"""The ops of ONNX, one module a family; importing them fills the registry."""

from . import (  # noqa: F401
    activation,
    attention,
    control,
    conv,
    einsum,
    elementwise,
    fourier,
    generate,
    indexing,
    linalg,
    loss,
    movement,
    norm,
    pool,
    quantize,
    reduce,
    resize,
    rnn,
    shape,
    training,
)

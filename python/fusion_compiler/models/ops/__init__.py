# ===- __init__.py - Forward ops that know their gradients ----------------=== #
#
# One file a family. Each function appends a forward op to the tape's builder and
# records how its gradient is built. Element types: activations are f64, f32, f16 or
# bf16; what a gradient computes in several steps it computes in f32 at least (`wide`),
# since each step would be rounded otherwise.
#
# ===----------------------------------------------------------------------=== #
"""Ops with gradients."""

from .attention import attention, rope, rope_tables
from .convolution import avg_pool, conv, max_pool
from .elementwise import activation, add, cast, gated, mul, reshape, scale, transpose
from .embedding import add_positions, embedding
from .linear import linear, matmul
from .loss import cross_entropy, mean_squared_error
from .norms import batch_norm, layer_norm, rms_norm

__all__ = [
    "activation", "add", "add_positions", "attention", "avg_pool", "batch_norm", "cast", "conv", "cross_entropy",
    "embedding", "gated", "layer_norm", "linear", "matmul", "max_pool", "mean_squared_error", "mul", "reshape", "rms_norm",
    "rope", "rope_tables", "scale", "transpose",
]

# ===- data.py - Element types, .npy files and what equal means -----------=== #
#
# The fuzzer compares tensors in two ways. Bit for bit: any NaN equals any other,
# the sign of zero counts. Within a tolerance: the numbers of docs/tolerances.md
# plus what the graph itself amplifies, measured as the distance between the
# reference and the same graph with every float type widened to f64.
#
# ===----------------------------------------------------------------------=== #
"""Element types, .npy files, comparison."""

import ast
import struct

import numpy as np

FLOATS = ["f64", "f32", "f16", "bf16"]
INTS = ["i8", "i32", "i64"]
DTYPES = FLOATS + INTS + ["i1"]
# NumPy has no bf16: its files hold the 16-bit patterns.
NUMPY = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": np.uint16,
         "i1": np.bool_, "i8": np.int8, "i32": np.int32, "i64": np.int64}
# Bits of the significand, the hidden one included.
PRECISION = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8}
LARGEST = {"f64": 1.79e308, "f32": 3.4e38, "f16": 65504.0, "bf16": 3.38e38}
# Absolute and relative, of formulas of several roundings (docs/tolerances.md).
TOLERANCE = {"f64": (1e-12, 1e-10), "f32": (1e-5, 5.2e-6), "f16": (1e-5, 4e-3), "bf16": (1e-5, 1.6e-2)}


def encode(array, dtype):
    """Numbers as the array that a .npy file of this element type holds."""
    array = np.asarray(array)
    if dtype != "bf16":
        with np.errstate(all="ignore"):
            return array.astype(NUMPY[dtype])
    bits = array.astype(np.float32).view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(array), np.uint16(0x7FC0), rounded).astype(np.uint16)


def decode(array, dtype):
    """The numbers of such an array, as f64, i64 or bool."""
    if dtype == "bf16":
        return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    with np.errstate(invalid="ignore"):  # a signaling NaN
        return array.astype(np.float64) if dtype in FLOATS else array


def read(path):
    """A .npy file; np.load costs three times as much."""
    with open(path, "rb") as file:
        return parse(file.read(), path)


def parse(content, path="a file"):
    try:
        (length,) = struct.unpack_from("<H", content, 8)
        header = ast.literal_eval(content[10:10 + length].decode())
        return np.frombuffer(content, header["descr"], offset=10 + length).reshape(header["shape"])
    except (ValueError, SyntaxError, struct.error, KeyError) as error:
        raise ValueError(f"{path} is no .npy file: {error}") from error


def isNan(array, dtype):
    if dtype == "bf16":
        return (array & 0x7FFF) > 0x7F80
    return np.isnan(array) if dtype in FLOATS else np.zeros(array.shape, bool)


def differentBits(want, got, dtype):
    """None, or what differs first."""
    if want.shape != got.shape or want.dtype.itemsize != got.dtype.itemsize:
        return f"is {got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    bits = f"u{want.dtype.itemsize}"
    bad = np.atleast_1d(want).view(bits) != np.atleast_1d(got).view(bits)
    bad &= ~np.atleast_1d(isNan(want, dtype) & isNan(got, dtype))
    return describe(bad, decode(want, dtype), decode(got, dtype)) if bad.any() else None


def withoutSigns(want, got, plus, minus, dtype):
    """`got`, with `want` where they differ by a zero's sign alone, or where the
    reference does too: where `plus` and `minus`, its results with positive and
    negative zeros of products, are different numbers."""
    with np.errstate(invalid="ignore"):
        a, b, p, m = (np.atleast_1d(decode(array, dtype)) for array in (want, got, plus, minus))
        free = (p != m) & ~(np.isnan(p) & np.isnan(m)) if dtype in FLOATS else p != m
        if dtype in FLOATS:
            free |= (a == 0) & (b == 0)
    return np.where(free, np.atleast_1d(want), np.atleast_1d(got)).reshape(got.shape)


def describe(bad, want, got):
    at = np.unravel_index(np.argmax(bad), bad.shape)
    return (f"{int(bad.sum())} of {bad.size} elements differ, first {list(map(int, at)) if want.ndim else []}: "
            f"{np.atleast_1d(got)[at]} instead of {np.atleast_1d(want)[at]}")


def coarsest(*dtypes):
    """The one with the fewest bits in its significand; integers have no say."""
    return min((dtype for dtype in dtypes if dtype in FLOATS), key=PRECISION.get, default=dtypes[0])


def tooFar(want, got, wide, dtype, rounded=None):
    """None, or what is out of tolerance. `wide` is the value of the f64 twin,
    `rounded` the coarsest type that rounded before (default: `dtype`)."""
    rounded = rounded or dtype
    if want.shape != got.shape or want.dtype.itemsize != got.dtype.itemsize:
        return f"is {got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    if dtype not in FLOATS:
        return differentBits(want, got, dtype)
    want, got = (np.atleast_1d(decode(array, dtype)) for array in (want, got))
    wide = np.atleast_1d(wide)
    if not want.size:
        return None
    with np.errstate(all="ignore"):
        finite = np.isfinite(want) & np.isfinite(wide)
        own = np.abs(want - wide)[finite].max(initial=0.0)
        absolute, relative = TOLERANCE[rounded]
        bound = 4 * absolute + 4 * relative * np.abs(want) + 16 * own
        near = np.abs(got - want) <= bound
        same = (want == got) | (np.isnan(want) & np.isnan(got))
        # Where the twin overflows or loses its way alone, the graph decides nothing.
        lost = (np.isfinite(want) != np.isfinite(wide)) | (np.isnan(want) != np.isnan(wide))
        edge = np.isfinite(want) & (np.abs(want) > 0.98 * LARGEST[dtype])
        edge |= np.isfinite(want) & ~np.isfinite(got) & (np.abs(want) > 0.98 * LARGEST[rounded])
    bad = ~(near | same | lost | edge)
    return describe(bad, want, got) if bad.any() else None

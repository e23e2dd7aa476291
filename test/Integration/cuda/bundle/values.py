# ===- values.py - The data of the cases, and what equal means -------------=== #
#
# Inputs follow from their number and shape by a rule, so that a bundle holds only
# what is expected of them. numpy alone.
#
# ===----------------------------------------------------------------------=== #
"""Inputs by rule; comparison by the criteria of docs/tolerances.md."""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "Fuzz/fuzzer"))
from data import FLOATS, INTS, NUMPY, PRECISION, TOLERANCE, decode, describe, differentBits, encode, isNan  # noqa: E402,F401

SPECIAL_FLOATS = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-310, 1e-40, 1e-6, 65519.0, -3e38, 0.5, -2.5, 1e19)
SPECIAL_INTS = (0, -1, 1, -(2**63), 2**63 - 1, -(2**31), 2**31 - 1, -128, 127, 2**53 + 1)
# Units in the last place that libdevice may be off, and a rounding to 16 bits.
ULPS = {"f64": 2, "f32": 4, "f16": 1, "bf16": 1}
# Unit roundoffs.
ROUNDOFF = {kind: 2.0**-bits for kind, bits in PRECISION.items()}
ACCUMULATOR = {"f64": "f64", "f32": "f32", "f16": "f32", "bf16": "f32"}
LEAST = {"f64": 2.0**-1074, "f32": 2.0**-149, "f16": 2.0**-24, "bf16": 2.0**-133}


def hashed(seed, count):
    """`count` well-mixed 64-bit numbers (the finalizer of splitmix64)."""
    with np.errstate(over="ignore"):
        x = (np.arange(count, dtype=np.uint64) + np.uint64(seed) * np.uint64(0x100000001)) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def makeInput(seed, shape, dtype, data):
    """The array, as its .npy file holds it, of a case's `data`."""
    count = int(np.prod(shape, dtype=np.int64))
    numbers = hashed(seed, count)
    if data == "ramp":
        array = np.arange(count, dtype=np.int64) % 9 - 4
    elif data == "unit":
        array = (numbers & np.uint64(1)).astype(np.int64) * 2 - 1
    elif data == "bits":
        array = numbers.view(np.int64)
    elif data == "small" or dtype == "i1":
        array = (numbers % np.uint64(9)).astype(np.int64) - 4
    else:
        positive = data == "positive"
        limit = 100.0 if data == "wide" else 4.0 if positive else data
        array = ((numbers >> np.uint64(11)).astype(np.float64) * 2.0**-53 * 2 - 1) * limit
        if positive:
            array = np.abs(array)
        if dtype in INTS:
            array = np.rint(array).astype(np.int64)
        if data == "wide":
            special = SPECIAL_FLOATS if dtype in FLOATS else SPECIAL_INTS
            chosen = hashed(seed + 77, count)
            at = chosen % np.uint64(5) == 0
            table = np.array(special, dtype=np.float64 if dtype in FLOATS else np.int64)
            array[at] = table[((chosen >> np.uint64(8)) % np.uint64(len(special))).astype(np.int64)[at]]
    if dtype == "i1":
        array = array > 0
    return np.ascontiguousarray(encode(array, dtype)).reshape(shape)


def ordered(array):
    """Floats as integers in their order; both zeros are 0."""
    bits = array.view(f"i{array.dtype.itemsize}").astype(np.int64)
    sign = np.int64(1) << np.int64(8 * array.dtype.itemsize - 1)
    if array.dtype.itemsize == 8:
        return np.where(bits < 0, np.iinfo(np.int64).min - bits, bits)
    return np.where(bits < 0, -(bits + sign), bits)


def tooFar(want, got, dtype, accuracy, terms=0, magnitudes=None, slack=0.0):
    """None, or what is out of tolerance. `magnitudes`: sums of absolute values; `slack`: what may be off beside it."""
    if want.shape != got.shape or want.dtype.itemsize != got.dtype.itemsize:
        return f"is {got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    if accuracy == "bits" or dtype not in FLOATS:
        return differentBits(want, got, dtype)
    a, b = np.atleast_1d(decode(want, dtype)), np.atleast_1d(decode(got, dtype))
    with np.errstate(all="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        if accuracy == "zero":
            near = False
        elif accuracy == "ulp":
            # The difference of two int64 may wrap: of opposite signs, never near but at zero.
            x, y = ordered(np.atleast_1d(want)).astype(np.float64), ordered(np.atleast_1d(got)).astype(np.float64)
            exact = ordered(np.atleast_1d(want)) - ordered(np.atleast_1d(got))
            near = (np.abs(x - y) < 1e6) & (np.abs(exact) <= ULPS[dtype]) & np.isfinite(b) & np.isfinite(a)
            # The signs of zeros count: both are the same number above.
            same &= (a != 0) | (np.signbit(a) == np.signbit(b))
        elif accuracy == "near":
            absolute, relative = TOLERANCE[dtype]
            near = np.abs(b - a) <= max(terms, 1) * (absolute + relative * np.abs(a)) + slack
        else:
            bound = (terms + 4) * ROUNDOFF[ACCUMULATOR[dtype]] * np.atleast_1d(magnitudes) + 2 * ROUNDOFF[dtype] * np.abs(a) + LEAST[dtype]
            near = np.abs(b - a) <= bound
    bad = ~(same | near)
    return describe(bad, a, b) if bad.any() else None

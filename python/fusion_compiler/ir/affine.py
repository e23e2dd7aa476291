# ===- affine.py - Sizes that are affine in the batch --------------------=== #
#
# A size is an int, or an `Affine`: scale * B + offset for a batch B in
# [low, high]. Arithmetic stays exact: what isn't affine, or differs between
# two batches, raises `NotAffine`; nothing is ever approximated.
#
# ===----------------------------------------------------------------------=== #
"""Exact arithmetic on sizes `scale * B + offset`."""

from __future__ import annotations

from typing import Union


class NotAffine(Exception):
    """The result isn't `scale * B + offset`, or depends on which B is taken."""


class Affine:
    """`scale * B + offset`, scale != 0, for every B in [low, high], low < high."""

    __slots__ = ("scale", "offset", "low", "high")

    def __init__(self, scale: int, offset: int, low: int, high: int):
        self.scale, self.offset, self.low, self.high = scale, offset, low, high

    def _make(self, scale: int, offset: int) -> "Size":
        return Affine(scale, offset, self.low, self.high) if scale else offset

    def at(self, batch: int) -> int:
        """The size when the batch is `batch`."""
        return self.scale * batch + self.offset

    def bounds(self) -> tuple[int, int]:
        """Least and greatest value over the range of B."""
        ends = self.at(self.low), self.at(self.high)
        return min(ends), max(ends)

    def __repr__(self) -> str:
        text = "B" if self.scale == 1 else f"{self.scale}*B"
        return text if not self.offset else f"{text}{self.offset:+d}"

    def __hash__(self) -> int:
        return hash((self.scale, self.offset))

    def __add__(self, other):
        if isinstance(other, Affine):
            return self._make(self.scale + other.scale, self.offset + other.offset)
        return self._make(self.scale, self.offset + _integer(other))

    __radd__ = __add__

    def __neg__(self):
        return self._make(-self.scale, -self.offset)

    def __sub__(self, other):
        return self + (-other)

    def __rsub__(self, other):
        return (-self) + other

    def __mul__(self, other):
        if isinstance(other, Affine):
            raise NotAffine(f"({self}) * ({other})")
        factor = _integer(other)
        return self._make(self.scale * factor, self.offset * factor)

    __rmul__ = __mul__

    def __floordiv__(self, other):
        if isinstance(other, Affine):
            # (k * y) // y is k wherever y isn't zero.
            for quotient in {self.scale // other.scale}:
                low, high = other.bounds()
                if other * quotient == self and not low <= 0 <= high:
                    return quotient
            raise NotAffine(f"({self}) / ({other})")
        divisor = _integer(other)
        if divisor == 0 or self.scale % divisor:
            raise NotAffine(f"({self}) / {divisor}")
        # scale is a multiple, so floor(offset / divisor) is all that rounding does.
        return self._make(self.scale // divisor, self.offset // divisor)

    def __rfloordiv__(self, other):
        raise NotAffine(f"{other} / ({self})")

    def __mod__(self, other):
        divisor = _integer(other)
        if divisor == 0 or self.scale % divisor:
            raise NotAffine(f"({self}) mod {divisor}")
        return self.offset % divisor

    def __rmod__(self, other):
        raise NotAffine(f"{other} mod ({self})")

    # Comparisons hold for every B, fail for every B, or raise.
    def _decide(self, other, holds, fails, sign: str) -> bool:
        difference = self - other
        low, high = difference.bounds() if isinstance(difference, Affine) else (difference, difference)
        if holds(low, high):
            return True
        if fails(low, high):
            return False
        raise NotAffine(f"whether ({self}) {sign} ({other}) depends on B")

    def __lt__(self, other) -> bool:
        return self._decide(other, lambda low, high: high < 0, lambda low, high: low >= 0, "<")

    def __le__(self, other) -> bool:
        return self._decide(other, lambda low, high: high <= 0, lambda low, high: low > 0, "<=")

    def __gt__(self, other) -> bool:
        return self._decide(other, lambda low, high: low > 0, lambda low, high: high <= 0, ">")

    def __ge__(self, other) -> bool:
        return self._decide(other, lambda low, high: low >= 0, lambda low, high: high < 0, ">=")

    def __eq__(self, other) -> bool:
        if not isinstance(other, (Affine, int)) and not hasattr(other, "__index__"):
            return NotImplemented
        difference = self - other
        if not isinstance(difference, Affine):
            return difference == 0
        # Two different affine sizes are different sizes, even where they meet at one B.
        return False

    def __ne__(self, other) -> bool:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal


Size = Union[int, Affine]


def _integer(value) -> int:
    if isinstance(value, Affine):
        raise NotAffine(f"({value})")
    if hasattr(value, "__index__"):
        return value.__index__()
    number = float(value)
    if number != int(number):
        raise NotAffine(f"B times {number}")
    return int(number)


def is_static(size: Size) -> bool:
    """Whether the size is the same for every batch."""
    return not isinstance(size, Affine)


def product(sizes) -> Size:
    """The product; raises NotAffine when two factors depend on B (a zero absorbs both)."""
    sizes = list(sizes)
    if any(is_static(s) and s == 0 for s in sizes):
        return 0
    result: Size = 1
    for size in sizes:
        result = result * size
    return result


def static_product(sizes) -> int:
    """The product of the sizes, each of which must be an int."""
    result = 1
    for size in sizes:
        result *= _integer(size)
    return result


def largest(size: Size) -> int:
    """The size at the batch where it is largest."""
    return int(max(size.bounds())) if isinstance(size, Affine) else int(size)

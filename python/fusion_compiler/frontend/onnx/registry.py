# ===- registry.py - The table of ops ------------------------------------=== #
#
# Which function imports which ONNX op, from which opset on. The modules of ops/
# fill it when they are imported.
#
# ===----------------------------------------------------------------------=== #
"""Maps ONNX ops to the functions that import them."""

from __future__ import annotations

from typing import Callable, Optional

Handler = Callable[["NodeContext"], object]  # noqa: F821 - returns a Value or a list of them

_TABLE: dict[tuple[str, str], list[tuple[int, Handler]]] = {}


def onnx_op(*names: str, since: int = 1, domain: str = ""):
    """Registers the decorated function for the ops named, from opset `since` on."""

    def register(handler: Handler) -> Handler:
        for name in names:
            versions = _TABLE.setdefault((domain, name), [])
            versions.append((since, handler))
            versions.sort(key=lambda entry: entry[0])
        return handler

    return register


def find(domain: str, name: str, opset: int) -> Optional[Handler]:
    """The newest handler that isn't newer than the opset."""
    chosen = None
    for since, handler in _TABLE.get((domain, name), ()):
        if since <= opset:
            chosen = handler
    return chosen


def ops() -> list[tuple[str, str]]:
    """All ops that have a handler, as pairs of domain and name."""
    return sorted(_TABLE)

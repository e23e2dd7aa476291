# ===- errors.py - Errors with an exit code ------------------------------=== #
#
# One exception type for everything a user can cause. Its text follows the
# command line's contract, `what, where, what to do`; its code is the exit code
# of the process.
#
# ===----------------------------------------------------------------------=== #
"""Errors that end a command with a message and an exit code."""

USAGE = 2
BAD_PROGRAM = 3
ENVIRONMENT = 5
RESOURCES = 6
INTERNAL = 9


class FusionError(Exception):
    """An error the user can act on; `code` is the exit code of the process."""

    def __init__(self, message: str, code: int = BAD_PROGRAM):
        super().__init__(message)
        self.code = code


def quote(name: str | bytes) -> str:
    """`name` for an error text: quoted, cut at 200 characters, control characters escaped.

    A damaged protobuf gives names as bytes.
    """
    name = name.decode("utf-8", "backslashreplace") if isinstance(name, bytes) else name
    text = "".join(c if c.isprintable() and c not in "'\\" else c.encode("unicode_escape").decode() for c in name)
    return "'" + (text if len(text) <= 200 else text[:197] + "...") + "'"

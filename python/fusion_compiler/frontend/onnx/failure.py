# ===- failure.py - Why a node can't be imported -------------------------=== #
#
# Two kinds: the model is wrong (reported alone, at once), or it is right but uses
# something that isn't supported (collected, all reported together).
#
# ===----------------------------------------------------------------------=== #
"""Exceptions that ops of the importer raise."""

from ...errors import BAD_PROGRAM, FusionError


class Unsupported(Exception):
    """A valid node that the importer doesn't take; the text says what and why."""


class BadModel(FusionError):
    """A model that breaks the rules of ONNX."""

    def __init__(self, message: str):
        super().__init__(message, BAD_PROGRAM)


class BadNode(Exception):
    """A node that breaks the rules of ONNX; the importer adds which node it is."""

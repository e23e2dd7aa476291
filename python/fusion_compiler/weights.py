# ===- weights.py - Writes modules and their weights ----------------------=== #
#
# A module is two files: text, and beside it a safetensors file with its
# parameters. Each is written under a temporary name in its folder, synced and
# renamed, so a reader sees the old file or the new one, never a part. The bytes of
# a tensor go from where they are (the model, or a mapped file) to the output.
#
# ===----------------------------------------------------------------------=== #
"""Atomic output of modules and weights."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import tempfile
from typing import Callable, Iterable

import numpy as np

from .errors import RESOURCES, USAGE, FusionError
from .ir.module import Module, Parameter
from .ir.text import lines

#: Names of the element types in a safetensors header.
SAFETENSORS_NAMES = {
    "f64": "F64", "f32": "F32", "f16": "F16", "bf16": "BF16", "i1": "BOOL", "i8": "I8", "i32": "I32", "i64": "I64",
}
#: The reference implementation's order of tensors: element types in this order, names inside one.
_ORDER = ("i64", "f64", "f32", "i32", "bf16", "f16", "i8", "i1")
_CHUNK = 1 << 24


def _write_error(path: str, error: OSError) -> FusionError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOMEM)
    hint = "free some space" if full else "choose another output"
    return FusionError(f"{path}: can't be written: {error.strerror}; {hint}", RESOURCES if full else USAGE)


def _read_umask() -> int:
    """The process's umask, without changing it for a moment: other threads may
    be making files, or processes that would inherit it."""
    with open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    return 0o077



class AtomicFile:
    """A temporary file in the folder of `path`; `commit` gives it that name."""

    def __init__(self, path: str):
        self.path = path
        if os.path.islink(path):
            raise FusionError(f"{path}: is a symbolic link; name the file itself", USAGE)
        if os.path.isdir(path):
            raise FusionError(f"{path}: is a folder; name a file", USAGE)
        folder = os.path.dirname(os.path.abspath(path))
        try:
            descriptor, self.temporary = tempfile.mkstemp(prefix=".fusion-", dir=folder)
        except OSError as error:
            raise _write_error(path, error) from error
        self.file = os.fdopen(descriptor, "wb")

    def fill(self, write: Callable) -> None:
        """Calls `write(file)`, syncs; on an error the temporary file is gone."""
        try:
            write(self.file)
            self.file.flush()
            os.fsync(self.file.fileno())
            os.fchmod(self.file.fileno(), 0o666 & ~_read_umask())
            self.file.close()
        except OSError as error:
            self.discard()
            raise _write_error(self.path, error) from error
        except BaseException:
            self.discard()
            raise

    def commit(self) -> None:
        try:
            os.replace(self.temporary, self.path)
        except OSError as error:
            self.discard()
            raise _write_error(self.path, error) from error

    def discard(self) -> None:
        with contextlib.suppress(OSError):
            self.file.close()
        with contextlib.suppress(OSError):
            os.unlink(self.temporary)


def _bytes(parameter: Parameter) -> np.ndarray:
    return np.ascontiguousarray(parameter.data).reshape(-1).view(np.uint8)


def write_safetensors(file, parameters: Iterable[Parameter]) -> None:
    """The safetensors layout, byte for byte what the safetensors package writes: u64 header size, JSON
    header, tensors. The package wants each tensor as a bytes object; here none is copied."""
    ordered = sorted(parameters, key=lambda p: (_ORDER.index(p.dtype), p.key))
    header, offset = {}, 0
    for parameter in ordered:
        size = parameter.data.size * parameter.data.dtype.itemsize
        header[parameter.key] = {
            "dtype": SAFETENSORS_NAMES[parameter.dtype],
            "shape": list(parameter.shape),
            "data_offsets": [offset, offset + size],
        }
        offset += size
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for parameter in ordered:
        data = memoryview(_bytes(parameter))
        for begin in range(0, len(data), _CHUNK):
            chunk = data[begin : begin + _CHUNK]
            if len(chunk) == _CHUNK and not np.frombuffer(chunk, dtype=np.uint64).any():
                file.seek(_CHUNK, os.SEEK_CUR)  # zeros need no disk
            else:
                file.write(chunk)
    file.truncate(file.tell())


def write_module(module: Module, path: str) -> None:
    """Writes `path` and, when the module has parameters, the .safetensors file beside it.

    Raises FusionError 2 for an output that can't be written, 6 for a full disk.
    """
    base, extension = os.path.splitext(path)
    weights_path = (base if extension else path) + ".safetensors"
    files: list[AtomicFile] = []
    try:
        if module.parameters:
            files.append(AtomicFile(weights_path))
            files[-1].fill(lambda file: write_safetensors(file, module.parameters))
        files.append(AtomicFile(path))
        name = os.path.basename(weights_path)

        def text(file):
            for line in lines(module, name):
                file.write(line.encode("utf-8", "surrogateescape") + b"\n")

        files[-1].fill(text)
    except BaseException:
        for file in files:
            file.discard()
        raise
    for file in files:
        file.commit()

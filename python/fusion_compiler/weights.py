# ===- weights.py - Writes modules and their weights ----------------------=== #
#
# A module is two files: text, and beside it a safetensors file with its
# parameters. Each is written without a name in its folder, synced, named and
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
import signal
import tempfile
import threading
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
    """New content for `path`; `commit` puts it there. Until then it has no name, so that nothing stays behind even
    if the process is killed; on a file system that knows no such files it is a hidden file in the same folder."""

    def __init__(self, path: str):
        self.path = path
        if os.path.islink(path):
            raise FusionError(f"{path}: is a symbolic link; name the file itself", USAGE)
        if os.path.isdir(path):
            raise FusionError(f"{path}: is a folder; name a file", USAGE)
        self.folder = os.path.dirname(os.path.abspath(path))
        self.temporary = ""  # its name, when it has one
        self.backup = ""  # a second name of the file that was replaced
        self.replaced = self.is_new = False
        try:
            descriptor = self._open()
        except OSError as error:
            raise _write_error(path, error) from error
        self.file = os.fdopen(descriptor, "wb")

    def _open(self) -> int:
        if os.access("/proc/self/fd", os.X_OK):
            with contextlib.suppress(OSError):
                return os.open(self.folder, os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, 0o600)
        descriptor, self.temporary = tempfile.mkstemp(prefix=".fusion-", dir=self.folder)
        return descriptor

    def _link(self, source: str) -> str:
        """Gives the file at `source` a second, fresh name in the folder."""
        # With a folder's descriptor os.link is linkat, which follows the magic
        # link that names a file without a name.
        folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            while True:
                name = f".fusion-{os.urandom(8).hex()}"
                with contextlib.suppress(FileExistsError):
                    os.link(source, name, dst_dir_fd=folder, follow_symlinks=True)
                    return os.path.join(self.folder, name)
        finally:
            os.close(folder)

    def fill(self, write: Callable) -> None:
        """Calls `write(file)`, syncs; on an error the temporary file is gone."""
        try:
            write(self.file)
            self.file.flush()
            os.fsync(self.file.fileno())
            os.fchmod(self.file.fileno(), 0o666 & ~_read_umask())
            if self.temporary:
                self.file.close()
        except OSError as error:
            self.discard()
            raise _write_error(self.path, error) from error
        except BaseException:
            self.discard()
            raise

    def _keep_old(self) -> None:
        self.is_new = not os.path.exists(self.path)
        if self.is_new:
            return
        try:
            self.backup = self._link(os.path.abspath(self.path))
        except OSError as error:
            # Somebody else's file, or a file system without hard links.
            if error.errno not in (errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
                raise

    def commit(self, reversible: bool = False) -> None:
        """Replaces the file; on an error the old one stays. A reversible commit keeps the old file until `discard`,
        which puts it back, or `forget`."""
        try:
            if not self.temporary:
                self.temporary = self._link(f"/proc/self/fd/{self.file.fileno()}")
                self.file.close()
            if reversible:
                self._keep_old()
            os.replace(self.temporary, self.path)
            self.temporary = ""
            self.replaced = True
        except OSError as error:
            self.discard()
            raise _write_error(self.path, error) from error

    def forget(self) -> None:
        """Ends a reversible commit: the old file is gone."""
        if self.backup:
            with contextlib.suppress(OSError):
                os.unlink(self.backup)
        self.backup = ""
        self.replaced = False

    def discard(self) -> None:
        """Leaves the folder as it was before: also after a commit, unless it was forgotten."""
        with contextlib.suppress(OSError):
            self.file.close()
        with contextlib.suppress(OSError):
            if self.temporary:
                os.unlink(self.temporary)
            if self.backup and self.replaced:
                os.replace(self.backup, self.path)
            elif self.backup:
                os.unlink(self.backup)
            elif self.replaced and self.is_new:
                os.unlink(self.path)
        self.temporary = self.backup = ""
        self.replaced = False


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


@contextlib.contextmanager
def _uninterrupted():
    """Signals that a handler answers wait until the block's end. Not by the signal mask: another thread of the
    process, of numpy say, would take the signal and this one run its handler."""
    arrived: list[int] = []
    old = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if callable(signal.getsignal(number)):
                old[number] = signal.signal(number, lambda n, _frame: arrived.append(n))
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
        for number in arrived:
            signal.raise_signal(number)


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
        # The text comes last and belongs to these weights: if it can't be
        # replaced, the old weights come back.
        with _uninterrupted():
            for file in files[:-1]:
                file.commit(reversible=True)
            files[-1].commit()
            for file in files:
                file.forget()
    except BaseException:
        for file in files:
            file.discard()
        raise

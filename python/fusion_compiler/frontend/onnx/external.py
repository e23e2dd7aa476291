# ===- external.py - Weights in files beside the model -------------------=== #
#
# A model may name other files for its weights. It is untrusted input: such a file
# must lie below the model's folder, be reached through no symbolic link, be a
# regular file with one name, and hold the bytes that the tensor says. The path is
# opened by openat2 with RESOLVE_BENEATH; where the kernel lacks it, component by
# component with O_NOFOLLOW. The bytes are mapped read-only: nothing is copied.
#
# ===----------------------------------------------------------------------=== #
"""Opens and maps external data, confined to the model's folder."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import mmap
import os
import stat
import struct

from onnx import TensorProto

from ...errors import RESOURCES, FusionError, quote
from .failure import BadModel

KEYS = ("location", "offset", "length", "checksum")
_OPENAT2 = 437  # the same number on every architecture
_RESOLVE_NO_MAGICLINKS, _RESOLVE_NO_SYMLINKS, _RESOLVE_BENEATH = 0x02, 0x04, 0x08
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class ExternalFiles:
    """The files of one model; each is opened and mapped once."""

    def __init__(self, folder: str, use_openat2: bool = True):
        self.folder = folder
        self.use_openat2 = use_openat2
        self._maps: dict[str, memoryview] = {}
        self._checksums: dict[str, str] = {}

    def map(self, tensor: TensorProto, size: int, what: str) -> memoryview:
        """The `size` bytes of a tensor, mapped. Raises BadModel with the reason of a refusal."""
        entries: dict[str, str] = {}
        for entry in tensor.external_data:
            if not isinstance(entry.key, str) or not isinstance(entry.value, str):
                raise BadModel(f"{what} has external data with {quote(entry.key)} = {quote(entry.value)}, not text")
            if entry.key not in KEYS:
                raise BadModel(f"{what} has external data with the unknown key {quote(entry.key)}")
            if entry.key in entries:
                raise BadModel(f"{what} has external data with the key {quote(entry.key)} twice")
            entries[entry.key] = entry.value
        location = entries.get("location", "")
        offset = _number(entries.get("offset", "0"), "offset", what)
        length = _number(entries["length"], "length", what) if "length" in entries else None
        _check_path(location, what)
        data = self._file(location, what)
        where = f"{what}: external file {quote(location)}"
        if offset > len(data):
            raise BadModel(f"{where} has {len(data)} bytes, the offset is {offset}")
        available = len(data) - offset
        if length is not None and length > available:
            raise BadModel(f"{where} has {available} bytes from offset {offset} on, the length is {length}")
        if length is not None and length != size:
            raise BadModel(f"{where}: the length is {length} bytes, the tensor's shape needs {size}")
        if size > available:
            raise BadModel(f"{where} has {available} bytes from offset {offset} on, the tensor's shape needs {size}")
        if "checksum" in entries:
            self._verify(location, data, entries["checksum"], where)
        return data[offset : offset + size]

    def _verify(self, location: str, data: memoryview, checksum: str, where: str) -> None:
        if location not in self._checksums:
            digest = hashlib.sha1(usedforsecurity=False)
            for begin in range(0, len(data), 1 << 24):
                digest.update(data[begin : begin + (1 << 24)])
            self._checksums[location] = digest.hexdigest()
        if checksum.lower() != self._checksums[location]:
            raise BadModel(f"{where} has SHA-1 {self._checksums[location]}, the model says {quote(checksum)}")

    def _file(self, location: str, what: str) -> memoryview:
        if location not in self._maps:
            where = f"{what}: external file {quote(location)}"
            descriptor = self._open(location, where)
            try:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode):
                    raise BadModel(f"{where} isn't a regular file")
                if status.st_nlink != 1:
                    raise BadModel(f"{where} has {status.st_nlink} hard links; copy it, so that it has one name")
                if status.st_size == 0:
                    self._maps[location] = memoryview(b"")
                else:
                    self._maps[location] = memoryview(
                        mmap.mmap(descriptor, status.st_size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
                    )
            except OSError as error:
                raise FusionError(f"{where} can't be mapped: {error.strerror}", RESOURCES) from error
            finally:
                os.close(descriptor)
        return self._maps[location]

    def _open(self, location: str, where: str) -> int:
        folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if self.use_openat2:
                try:
                    return _open_beneath(folder, location)
                except OSError as error:
                    # Too old a kernel, or a sandbox that doesn't know the call.
                    if error.errno not in (errno.ENOSYS, errno.EPERM, errno.E2BIG):
                        raise
            return _open_components(folder, location)
        except OSError as error:
            reasons = {
                errno.ELOOP: "is reached through a symbolic link",
                errno.EXDEV: "lies outside of the model's folder",
                errno.ENOENT: "doesn't exist",
                errno.ENOTDIR: "is reached through a symbolic link or something that isn't a folder",
                errno.ENXIO: "isn't a regular file",
            }
            raise BadModel(f"{where} {reasons.get(error.errno, f'can not be opened: {error.strerror}')}") from error
        finally:
            os.close(folder)


def _number(text: str, key: str, what: str) -> int:
    # int() alone would also take spaces, signs, underscores and other scripts' digits.
    if not (text.isascii() and text.isdigit() and len(text) <= 19 and int(text) < 1 << 63):
        raise BadModel(f"{what} has external data with the {key} {quote(text)}, not a number in [0, 2^63)")
    return int(text)


def _check_path(location: str, what: str) -> None:
    """Refuses by form what no honest exporter writes, before the file system is asked."""
    where = f"{what}: external file {quote(location)}"
    if not location:
        raise BadModel(f"{what} has external data without a location")
    if "\0" in location:
        raise BadModel(f"{where} has a NUL in its name")
    if len(location.encode("utf-8", "surrogateescape")) > 4096:
        raise BadModel(f"{where} has a name of more than 4096 bytes")
    if location.startswith("/") or "\\" in location or location[1:2] == ":":
        raise BadModel(f"{where} isn't a path relative to the model's folder")
    parts = location.split("/")
    if ".." in parts:
        raise BadModel(f"{where} leaves the model's folder")


def _open_beneath(folder: int, location: str) -> int:
    how = struct.pack("<QQQ", _FLAGS, 0, _RESOLVE_BENEATH | _RESOLVE_NO_SYMLINKS | _RESOLVE_NO_MAGICLINKS)
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(how, len(how))
    path = os.fsencode(location)
    result = libc.syscall(
        ctypes.c_long(_OPENAT2), ctypes.c_int(folder), ctypes.c_char_p(path), buffer, ctypes.c_size_t(len(how))
    )
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _open_components(folder: int, location: str) -> int:
    """The same without openat2: no component may be a symbolic link."""
    parts = [p for p in location.split("/") if p not in ("", ".")]
    if not parts:
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    current = os.dup(folder)
    try:
        for part in parts[:-1]:
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=current)
            os.close(current)
            current = below
        return os.open(parts[-1], _FLAGS, dir_fd=current)
    finally:
        os.close(current)

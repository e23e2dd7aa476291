"""Compiles models in the fusion dialect, in this process.

A thin ctypes binding of the C API in ``fusion-c/Compiler.h``:

    result = compiler.compile(text, "--cpu=x86-64-v3", "--explain", folder="models")
    module = runtime.load_bytes(result.artifact)
    print(result.explanation)

The library is found in a build tree above this package, or by the path given to
:func:`use_library` before first use.
"""

import ctypes
import os
import pathlib
from dataclasses import dataclass

_ABI_VERSION = 1
_NAME = "libfusion-compiler.so"
_library = None
_path = None


class CompileError(RuntimeError):
    """The compiler refused. ``code`` is fusion-compile's exit code for the same
    fault: 2 options, 3 the program, 5 the environment, 6 memory or disk, 9 the
    compiler itself."""

    def __init__(self, code: int, message: str):
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Compilation:
    """What a compilation gives: the module's bytes (the IR's text with
    ``--stop-after``), warnings, and what ``--explain`` says."""

    artifact: bytes
    messages: str
    explanation: str


def use_library(path) -> None:
    """Takes the compiler from `path`; must come before the first compilation."""
    global _path
    if _library is not None:
        raise RuntimeError("the compiler is loaded already; call use_library first")
    _path = pathlib.Path(path)


def _find_library() -> pathlib.Path:
    if _path is not None:
        return _path
    here = pathlib.Path(__file__).resolve()
    candidates = [here.parent / _NAME]
    candidates += [parent / folder / _NAME for parent in here.parents for folder in ("build/dev/lib", "lib")]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise CompileError(5, f"{_NAME} not found, beside {here.parent} or in a build tree above it, "
                          "build it or call use_library(path)")


def _load():
    global _library
    if _library is None:
        library = ctypes.CDLL(os.fspath(_find_library()))
        library.fusion_compile.restype = ctypes.c_void_p
        library.fusion_compile.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p,
                                           ctypes.POINTER(ctypes.c_char_p), ctypes.c_size_t]
        for name in ("messages", "explanation"):
            getter = getattr(library, f"fusion_compile_result_{name}")
            getter.restype, getter.argtypes = ctypes.c_char_p, [ctypes.c_void_p]
        library.fusion_compile_result_code.argtypes = [ctypes.c_void_p]
        library.fusion_compile_result_artifact.restype = ctypes.c_void_p
        library.fusion_compile_result_artifact.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t)]
        library.fusion_compile_result_free.restype = None
        library.fusion_compile_result_free.argtypes = [ctypes.c_void_p]
        if library.fusion_compiler_abi() != _ABI_VERSION:
            raise CompileError(5, f"{_NAME} has ABI {library.fusion_compiler_abi()}, this package needs "
                                  f"{_ABI_VERSION}, install matching versions")
        _library = library
    return _library


def compile(source, *options: str, folder=".") -> Compilation:
    """Compiles `source`, MLIR text (str) or text or bytecode (bytes).

    `options` are fusion-compile's, without input and output; parameters' files
    are relative to `folder`. Raises :class:`CompileError`.
    """
    library = _load()
    data = source.encode() if isinstance(source, str) else bytes(source)
    words = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    result = library.fusion_compile(data, len(data), os.fsencode(folder), words, len(options))
    try:
        messages = library.fusion_compile_result_messages(result).decode(errors="replace")
        code = library.fusion_compile_result_code(result)
        if code != 0:
            raise CompileError(code, messages.strip())
        size = ctypes.c_size_t()
        address = library.fusion_compile_result_artifact(result, ctypes.byref(size))
        return Compilation(ctypes.string_at(address, size.value), messages,
                           library.fusion_compile_result_explanation(result).decode())
    finally:
        library.fusion_compile_result_free(result)

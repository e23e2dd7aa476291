# ===- modules.py - Compiling a suite's programs ---------------------------=== #
#
# Each workload is compiled in several variants by fusion-compile, here or on another
# machine beforehand: a folder of modules with manifest.json beside them, which says how
# each was made. The folder may travel as one .tar.xz file.
#
# ===----------------------------------------------------------------------=== #
"""Modules of a suite: compiled, listed, found again."""

from __future__ import annotations

import contextlib
import hashlib
import json
import lzma
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Iterator, Optional, Sequence

from ..errors import BAD_PROGRAM, ENVIRONMENT, USAGE, FusionError
from .workload import Workload

MANIFEST = "manifest.json"
UNFUSED = "--no-fuse=horizontal,vertical,projections"
#: The first variant again, in a session that chooses the libraries' algorithms by timing them.
TUNED = "tuned"


def variants(fp: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Names of the variants and the compiler's options: each of `fp`, and the first of them with each op alone."""
    result: dict[str, tuple[str, ...]] = {mode: (f"--fp={mode}",) for mode in fp}
    if fp:
        result["unfused"] = (f"--fp={fp[0]}", UNFUSED)
    return result


def find_tool(name: str, folder: Optional[str]) -> str:
    """A tool of this build: in `folder`, in a build tree above this package, or on PATH."""
    places = [Path(folder)] if folder else []
    for parent in Path(__file__).resolve().parents:
        places += [parent / "bin", parent / "build/dev/bin", parent / "build/release/bin"]
    for place in places if not folder else places[:1]:
        if os.access(place / name, os.X_OK) and (place / name).is_file():
            return str(place / name)
    found = None if folder else shutil.which(name)
    if not found:
        raise FusionError(f"{name} not found, {'in ' + folder if folder else 'beside this package or on PATH'}, "
                          "give --bin-dir, or --modules with modules compiled elsewhere", ENVIRONMENT)
    return found


def sha256(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def compiler_of(compiler: str) -> dict:
    """The version that fusion-compile prints, and the file's hash."""
    answer = subprocess.run([compiler, "--version"], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                            check=False)
    lines = answer.stdout.strip().splitlines()
    return {"version": lines[0].strip() if lines else None, "sha256": sha256(compiler)}


def read_manifest(folder: str) -> dict:
    """The manifest of a folder; an empty one if there is none."""
    path = os.path.join(folder, MANIFEST)
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return {"modules": {}}
    except (OSError, ValueError) as error:
        raise FusionError(f"{path}: can't be read ({error}), compile the modules again", USAGE) from error


def module_name(workload: Workload, variant: str) -> str:
    return f"{workload.name}.{variant}.fsn"


def compile_workload(workload: Workload, modes: dict[str, tuple[str, ...]], folder: str, compiler: str,
                     target: str, extra: Sequence[str] = ()) -> dict[str, dict]:
    """Compiles a workload's variants into `folder`; manifest entries by file name.

    An entry holds the command, the seconds it took, and the module's size and hash, or an `error`.
    """
    entries: dict[str, dict] = {}
    with tempfile.TemporaryDirectory(prefix="fusion-bench-") as scratch:
        source = workload.write(scratch)
        for variant, options in modes.items():
            name = module_name(workload, variant)
            output = os.path.join(folder, name)
            arguments = [f"--target={target}", *options, *workload.options, *extra]
            begin = time.perf_counter()
            answer = subprocess.run([compiler, source, *arguments, "-o", output], capture_output=True, text=True,
                                    stdin=subprocess.DEVNULL, check=False)
            entry: dict = {"variant": variant, "workload": workload.name,
                           "seconds": round(time.perf_counter() - begin, 3),
                           "command": f"fusion-compile {workload.name}.mlir {' '.join(arguments)} -o {name}"}
            if answer.returncode:
                said = [line for line in answer.stderr.splitlines() if line.strip()]
                entry["error"] = (said[0] if said else f"exit status {answer.returncode}")[:300]
                entry["exit_status"] = answer.returncode
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(output)
            else:
                entry.update(bytes=os.path.getsize(output), sha256=sha256(output))
            entries[name] = entry
    return entries


def write_manifest(folder: str, manifest: dict) -> None:
    path = os.path.join(folder, MANIFEST)
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(manifest, file, indent=1)
        file.write("\n")
    os.replace(path + ".new", path)


@contextlib.contextmanager
def module_folder(path: str, writing: bool) -> Iterator[str]:
    """The folder that `--modules PATH` means: PATH itself, or a temporary one for an archive PATH.tar.xz, unpacked
    before and, when `writing`, packed after."""
    if not path.endswith(".tar.xz"):
        if writing:
            os.makedirs(path, exist_ok=True)
        elif not os.path.isdir(path):
            raise FusionError(f"{path}: no such folder, for --modules, compile the modules first (--compile-only)",
                              USAGE)
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="fusion-bench-") as folder:
        if os.path.exists(path):
            try:
                with tarfile.open(path) as archive:
                    for member in archive:
                        if member.isfile() and member.name == os.path.basename(member.name):
                            with archive.extractfile(member) as inside, \
                                    open(os.path.join(folder, member.name), "wb") as file:
                                shutil.copyfileobj(inside, file)
            except (OSError, tarfile.TarError) as error:
                raise FusionError(f"{path}: can't be unpacked ({error}), compile the modules again", USAGE) from error
        elif not writing:
            raise FusionError(f"{path}: no such file, for --modules, compile the modules first (--compile-only)",
                              USAGE)
        yield folder
        if writing:
            # A row's modules hold the same weights, one after the other: the dictionary spans them.
            filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 32 << 20}]
            with lzma.open(path + ".new", "wb", filters=filters) as packed, \
                    tarfile.open(fileobj=packed, mode="w") as archive:
                for name in sorted(os.listdir(folder)):
                    archive.add(os.path.join(folder, name), name)
            os.replace(path + ".new", path)


def check_hash(folder: str, name: str, manifest: dict) -> Optional[str]:
    """The module's hash; None if the file is absent. Raises FusionError if the manifest says another."""
    path = os.path.join(folder, name)
    if not os.path.isfile(path):
        return None
    found = sha256(path)
    said = manifest["modules"].get(name, {}).get("sha256", found)
    if said != found:
        raise FusionError(f"{path}: isn't the file of the manifest, compile the modules again", BAD_PROGRAM)
    return found

# ===- compile.py - Modules of rows -----------------------------------------=== #
#
# Compiles each variant of the rows once, with what the compiler predicts of its step.
# Over the slow link everything is decided for a device whose link is as slow.
#
# ===----------------------------------------------------------------------=== #
"""Compiles the modules of suites that run on several GPUs."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import hashlib
import json
import os
import re
import subprocess
import tempfile
import time
from typing import Callable, Optional, Sequence

from ...errors import FusionError
from ..calibrate import find_device
from ..modules import read_manifest, sha256, write_manifest
from . import programs
from .programs import Input, Program
from .rows import SLOW, Row, Variant

#: What two H200 without peer access were measured to give: 1 MB at 12, 25 MB at 28, 1 GB at 29 GB/s.
SLOW_GBS, SLOW_BASE_US = 29.0, 40.0
#: What sends reach where gathers reach the former: 16 MB took 0.78 ms, an all_gather 0.69.
SLOW_SEND_GBS = 26.0
#: Multiprocessors that NCCL gets there beside products.
SLOW_UNITS = 8


def slow_device(base_path: str, folder: str) -> str:
    """A device file like the base's with the slow link in place of its own; its path."""
    with open(base_path, encoding="utf-8") as file:
        device = json.load(file)
    device["name"] += "-slow-link"
    comm = device.get("comm", {})
    comm.pop("transports", None)
    for link in comm.get("links", [])[:1]:
        link.update(base_us=SLOW_BASE_US, beta_gbs=SLOW_GBS, units=SLOW_UNITS, send_gbs=SLOW_SEND_GBS)
        link.pop("protocols", None)
    path = os.path.join(folder, device["name"] + ".json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(device, file, indent=1)
    return path


def module_name(row: Row, variant: Variant) -> str:
    return f"{row.name}.{variant.name}.fsn".replace(" ", "_")


@dataclasses.dataclass
class Compiler:
    """fusion-compile with what all rows share. `devices`: the device file by link."""

    path: str
    target: str
    devices: dict[str, str]
    extra: Sequence[str] = ()

    def knows(self, option: str) -> bool:
        said = subprocess.run([self.path, "--help"], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        return option in said.stdout

    def words(self, row: Row, variant: Variant) -> list[str]:
        return [f"--target={self.target}", *self._device(row), *variant.words, *self.extra]

    def _device(self, row: Row) -> list[str]:
        device = self.devices.get(row.link)
        return [f"--device={device}"] if device else []

    def run(self, source: str, words: Sequence[str], output: str) -> tuple[Optional[str], str]:
        """The first line of an error or None, and all that was said."""
        answer = subprocess.run([self.path, source, *words, "-o", output], capture_output=True, text=True,
                                stdin=subprocess.DEVNULL, check=False)
        said = answer.stdout + answer.stderr
        if not answer.returncode:
            return None, said
        lines = [line for line in said.splitlines() if "error" in line] or said.splitlines()
        return (lines[0] if lines else f"exit status {answer.returncode}")[:300], said


def predicted_us(said: str) -> Optional[float]:
    """The time of a step in what --simulate prints."""
    found = re.search(r": step ([0-9.]+) us: ", said)
    return float(found.group(1)) if found else None


def _source(compiler: Compiler, row: Row, variant: Variant, folder: str) -> Program:
    """The variant's program; for a `wire_of`, from that variant's own IR. Raises FusionError."""
    program = variant.program()
    if not variant.wire_of:
        return program
    of = variant.wire_of
    source, fused = os.path.join(folder, "whole.mlir"), os.path.join(folder, "fused.mlir")
    with open(source, "w", encoding="utf-8") as file:
        file.write(program.text)
    error, _said = compiler.run(source, [*compiler.words(row, of), "--stop-after=fuse"], fused)
    if error:
        raise FusionError(f"{of.name}, whose collectives these are: {error}")
    with open(fused, encoding="utf-8") as file:
        return programs.collectives_of(file.read(), variant.ranks)


def compile_variant(compiler: Compiler, row: Row, variant: Variant, folder: str) -> dict:
    """Compiles one variant into `folder`: its entry of the manifest, with `error` if that failed."""
    name = module_name(row, variant)
    output = os.path.join(folder, name)
    entry: dict = {"row": row.name, "variant": variant.name, "ranks": variant.ranks}
    words = compiler.words(row, variant)
    if variant.wire_of:  # the buckets are there already
        words = [w for w in words if not w.startswith("--mesh")] + ["--no-fuse=buckets"]
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="fusion-bench-") as scratch:
        try:
            program = _source(compiler, row, variant, scratch)
        except FusionError as error:
            return {**entry, "error": str(error)}
        source = os.path.join(scratch, name[:-len(".fsn")] + ".mlir")
        with open(source, "w", encoding="utf-8") as file:
            file.write(program.text)
        device = compiler.devices.get(row.link) or ("cpu" if compiler.target == "cpu" else "h200")
        error, said = compiler.run(source, [*words, f"--simulate={variant.ranks}x{device}"], output)
    shown = [f"--device={row.link} link" if w.startswith("--device=") and row.link == SLOW else w for w in words]
    entry.update(seconds=round(time.perf_counter() - begin, 2),
                 command=f"fusion-compile {name[:-4]}.mlir {' '.join(shown)} -o {name}",
                 inputs=[dataclasses.asdict(x) for x in program.inputs], results=program.results)
    if error:
        return {**entry, "error": error}
    sent = sum(_bytes(x) for x in program.inputs) if variant.wire_of else None
    return {**entry, "bytes": os.path.getsize(output), "sha256": sha256(output), "predicted_us": predicted_us(said),
            **({"sent_bytes": sent} if sent else {})}


def _bytes(x: Input) -> int:
    size = programs.BYTES[x.dtype]
    for n in x.shape:
        size *= n
    return size


def compile_rows(rows: Sequence[Row], folder: str, compiler_path: str, target: str, base: str, extra: Sequence[str],
                 say: Callable[[str], None], workers: int = 2) -> int:
    """Compiles all variants into `folder`; the number that failed."""
    manifest = read_manifest(folder)
    manifest["target"] = target
    with tempfile.TemporaryDirectory(prefix="fusion-bench-") as scratch:
        devices = {}
        if target != "cpu":
            path = find_device(base)
            devices = {row.link: slow_device(path, scratch) if row.link == SLOW else path for row in rows}
        compiler = Compiler(compiler_path, target, devices, extra)
        if not compiler.knows("--transport"):
            rows = [dataclasses.replace(row, ours=tuple(dataclasses.replace(v, transport="") for v in row.ours))
                    for row in rows]
        jobs = [(row, variant) for row in rows for variant in row.ours]
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            made = list(pool.map(lambda job: compile_variant(compiler, *job, folder), jobs))
    failed = 0
    for (row, variant), entry in zip(jobs, made):
        name = module_name(row, variant)
        manifest["modules"][name] = entry
        failed += "error" in entry
        said = (f"refused  {name}: {entry['error']}" if "error" in entry else
                f"compiled {name}: {entry['bytes']} bytes, {entry['seconds']} s, predicted {entry['predicted_us']} us")
        say(said)
    write_manifest(folder, manifest)
    return failed

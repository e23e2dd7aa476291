# ===- cli.py - fusion-bench on several GPUs --------------------------------=== #
#
# What `fusion-bench overlap` and `fusion-bench train` do with the options of
# fusion-bench: compile rows into a folder, on any machine, or measure them. Results are
# written after every row; `--keep` leaves out rows that the file already has, so that a
# run may be cut in parts.
#
# ===----------------------------------------------------------------------=== #
"""The suites on several GPUs, from the command line."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import re
import shlex
import subprocess
import tempfile
import time
from typing import Callable, Iterator, Optional, Sequence

from ...errors import USAGE, FusionError
from ..calibrate import find_device
from ..modules import compiler_of, find_tool, module_folder, read_manifest, sha256, write_manifest
from ..run import write_json
from ..table import first_line
from . import calibrate as calibration
from . import measure, report
from .compile import compile_rows
from .rows import SUITES, Row


def _expression(option: str, pattern: str) -> re.Pattern:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise FusionError(f"{option}: {pattern!r} is no regular expression: {error}", USAGE) from error


def select(suite: str, pattern: str, ranks: int, contenders: str = "") -> list[Row]:
    """Rows of the suite whose name the expression finds, with the contenders whose name the other one finds. Raises
    FusionError 2."""
    wanted, contender = _expression("--filter", pattern), _expression("--contenders", contenders)
    found = [row for row in SUITES[suite](ranks) if wanted.search(row.name)]
    if not found:
        raise FusionError(f"--filter: {pattern!r} finds no row of {suite}, --list names them", USAGE)
    found = [row.only(contender.search) for row in found]
    if not any(row.ours for row in found):
        raise FusionError(f"--contenders: {contenders!r} finds none of ours, e.g. products or both.auto of overlap, one "
                          "or dp.auto of train", USAGE)
    return found


def list_rows(say: Callable[[str], None]) -> None:
    for suite, make in SUITES.items():
        say(f"{suite} (--ranks GPUs):")
        for row in make(2):
            say(f"  {row.name:<28} {row.title}")
            for bar in row.bars:
                say(f"  {'':<28}   {bar}")


def _compile(options, rows: Sequence[Row], folder: str, say: Callable[[str], None]) -> int:
    compiler = find_tool("fusion-compile", options.bin_dir)
    failed = compile_rows(rows, folder, compiler, options.target, options.base, options.compile_options, say)
    manifest = read_manifest(folder)
    manifest["compiler"] = compiler_of(compiler)
    write_manifest(folder, manifest)
    return failed


def _earlier(path: str) -> dict:
    """What an earlier part of the run wrote; nothing if there is none."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return {}


def gpu_name() -> Optional[str]:
    """The first GPU, as its driver's tool has it."""
    try:
        said = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return (said.stdout.splitlines() or [None])[0]


def _compile_only(options, rows: Sequence[Row], say: Callable[[str], None]) -> int:
    with module_folder(options.modules, writing=True) as folder:
        failed = _compile(options, rows, folder, say)
        total = sum(entry.stat().st_size for entry in os.scandir(folder))
    say(f"{len(rows)} rows, {failed} modules refused, {total / 1e6:.1f} MB in {options.modules}")
    return 3 if failed else 0


@contextlib.contextmanager
def _prepared(options, rows: Sequence[Row], say: Callable[[str], None]) -> Iterator[tuple[measure.Settings, str]]:
    """What a run of the rows needs, and a folder for its files."""
    begin = time.monotonic()
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="fusion-bench-", dir=options.scratch))
        if options.modules:
            folder = stack.enter_context(module_folder(options.modules, writing=False))
        else:
            folder = scratch
            _compile(options, rows, folder, say)
        yield measure.Settings(
            modules=folder, manifest=read_manifest(folder),
            runner=options.runner or find_tool("fusion-run", options.bin_dir), ranks=options.ranks, rounds=options.runs,
            peers="torch" in options.peers, replays=options.replays, deadline=begin + options.time_limit, say=say,
            options=options.run_options), scratch


def _measure_row(runner: measure.Runner, row: Row) -> dict:
    try:
        return runner.row(row)
    except (FusionError, OSError, ValueError) as error:
        return {"name": row.name, "title": row.title, "kind": row.kind, "error": first_line(error)}


def calibrate(options, say: Callable[[str], None]) -> int:
    """Measures what GPUs send each other, or compiles what that needs: the exit code."""
    rows = [row for row in calibration.rows(options.ranks) if re.search(options.filter, row.name)]
    if options.compile_only:
        return _compile_only(options, rows, say)
    with open(find_device(options.base), encoding="utf-8") as file:
        base = json.load(file)
    results: dict[str, dict] = {}
    facts = {"gpu": gpu_name()}
    device: dict = {}
    with _prepared(options, rows, say) as (settings, scratch):
        runner = measure.Runner(settings, scratch)
        for row in rows:
            results[row.name] = _measure_row(runner, row)
            said = [f"{name}: {entry['us']:.1f} us" if "us" in entry else f"{name}: {entry.get('error')}"
                    for name, entry in results[row.name].get("ours", {}).items()]
            say(f"{row.name}: " + ("; ".join(said) or results[row.name].get("error", "nothing")))
            device = calibration.device_file(base, results, options.ranks, facts, datetime.date.today().isoformat())
            device["name"] = options.name or device["name"]
            if options.json:
                write_json(options.json, device)
                write_json(os.path.splitext(options.json)[0] + ".measured.json", {"rows": list(results.values())})
    if not options.json:
        print(json.dumps(device, indent=1))
    return report.exit_code(list(results.values()))


def bench(options, program: str, arguments: Sequence[str], say: Callable[[str], None]) -> tuple[int, dict]:
    """Compiles or measures a suite: the exit code, and the document (empty after --compile-only)."""
    rows = select(options.suite, options.filter, options.ranks, options.contenders)
    if options.compile_only:
        return _compile_only(options, rows, say), {}
    begin = time.monotonic()
    with _prepared(options, rows, say) as (settings, scratch):
        earlier = _earlier(options.json) if options.keep and options.json else {}
        command = f"{program} {shlex.join(arguments)}"
        document = {
            "suite": options.suite, "date": datetime.datetime.now().isoformat(timespec="seconds"), "command": command,
            "commands": [*earlier.get("commands", []), command], "ranks": options.ranks, "runs": options.runs,
            "compiler": settings.manifest.get("compiler"), "runner": {"sha256": sha256(settings.runner)},
            "environment": {"gpu": gpu_name()}, "rows": [r for r in earlier.get("rows", []) if "error" not in r]}
        done = {row["name"] for row in document["rows"]}
        runner = measure.Runner(settings, scratch)
        for row in rows:
            if row.name in done:
                say(f"{row.name:<28} kept")
                continue
            result = _measure_row(runner, row)
            document["environment"].update(result.pop("environment", {}))
            document["rows"].append(result)
            document["seconds"] = round(time.monotonic() - begin, 1)
            say(report.line(result))
            for problem in [*report.errors(result), *report.notes(result)]:
                say(f"  {problem}")
            if options.json:
                write_json(options.json, document)
    say(report.summary(document["rows"]) + f"; {document.get('seconds', 0)} s")
    return report.exit_code(document["rows"]), document

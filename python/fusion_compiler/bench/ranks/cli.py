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
import tempfile
import time
from typing import Callable, Sequence

from ...errors import USAGE, FusionError
from ..modules import compiler_of, find_tool, module_folder, read_manifest, sha256, write_manifest
from ..table import first_line
from . import report
from .compile import compile_rows
from .rows import SUITES, Row


def select(suite: str, pattern: str, ranks: int) -> list[Row]:
    """Rows of the suite whose name the expression finds. Raises FusionError 2."""
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise FusionError(f"--filter: {pattern!r} is no regular expression: {error}", USAGE) from error
    found = [row for row in SUITES[suite](ranks) if wanted.search(row.name)]
    if not found:
        raise FusionError(f"--filter: {pattern!r} finds no row of {suite}, --list names them", USAGE)
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


def _kept(path: str) -> list[dict]:
    """Rows of an earlier part of the run that were measured."""
    try:
        with open(path, encoding="utf-8") as file:
            return [row for row in json.load(file)["rows"] if "error" not in row]
    except FileNotFoundError:
        return []


def bench(options, program: str, arguments: Sequence[str], say: Callable[[str], None]) -> tuple[int, dict]:
    """Compiles or measures a suite: the exit code, and the document (empty after --compile-only)."""
    from ..run import write_json
    from . import measure

    rows = select(options.suite, options.filter, options.ranks)
    if options.compile_only:
        with module_folder(options.modules, writing=True) as folder:
            failed = _compile(options, rows, folder, say)
            total = sum(entry.stat().st_size for entry in os.scandir(folder))
        say(f"{len(rows)} rows, {failed} modules refused, {total / 1e6:.1f} MB in {options.modules}")
        return (3 if failed else 0), {}
    begin = time.monotonic()
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="fusion-bench-", dir=options.scratch))
        if options.modules:
            folder = stack.enter_context(module_folder(options.modules, writing=False))
        else:
            folder = scratch
            _compile(options, rows, folder, say)
        manifest = read_manifest(folder)
        runner = options.runner or find_tool("fusion-run", options.bin_dir)
        settings = measure.Settings(
            modules=folder, manifest=manifest, runner=runner, ranks=options.ranks, rounds=options.runs,
            peers="torch" in options.peers, replays=options.replays, deadline=begin + options.time_limit, say=say,
            options=options.run_options)
        document = {
            "suite": options.suite, "date": datetime.datetime.now().isoformat(timespec="seconds"),
            "command": f"{program} {shlex.join(arguments)}", "ranks": options.ranks, "runs": options.runs,
            "compiler": manifest.get("compiler"), "runner": {"sha256": sha256(runner)}, "environment": {}, "rows": []}
        kept = _kept(options.json) if options.keep and options.json else []
        done = {row["name"] for row in kept}
        document["rows"] += kept
        measured = measure.Runner(settings, scratch)
        for row in rows:
            if row.name in done:
                say(f"{row.name:<28} kept")
                continue
            try:
                result = measured.row(row)
            except (FusionError, OSError, ValueError) as error:
                result = {"name": row.name, "title": row.title, "kind": row.kind, "error": first_line(error)}
            document["environment"].update(result.pop("environment", {}))
            document["rows"].append(result)
            document["seconds"] = round(time.monotonic() - begin, 1)
            say(report.line(result))
            for problem in report.errors(result):
                say(f"  {problem}")
            if options.json:
                write_json(options.json, document)
    say(report.summary(document["rows"]) + f"; {document.get('seconds', 0)} s")
    return report.exit_code(document["rows"]), document

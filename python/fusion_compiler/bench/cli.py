# ===- cli.py - The command line of fusion-bench ---------------------------=== #
#
# `fusion-bench` and `python -m fusion_compiler bench`: runs a suite, compiles its
# modules only, lists it, or calibrates a device. Errors and exit codes as elsewhere.
#
# ===----------------------------------------------------------------------=== #
"""`fusion-bench`: options and what they start."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import re
import shlex
import sys
import tempfile
import time
from typing import Callable, Iterator, NoReturn, Optional, Sequence

from .. import __version__, runtime
from ..errors import USAGE, FusionError
from . import bars, cost_model, limits, modules, table
from .budget import Budget
from .ranks import cli as ranks_cli
from .ranks import report as ranks_report
from .suites import SUITES
from .workload import Workload

_DESCRIPTION = """\
Times a suite: Fusion's modules, their peers and what one launch can reach, taking turns
on one GPU. Every claim of its table is a ratio inside one run.

  fusion-bench seed2 --json out.json              compile, check, time
  fusion-bench seed2 --compile-only --modules D   compile into D, on any machine
  fusion-bench seed2 --modules D --json out.json  time the modules of D
  fusion-bench calibrate --json device.json       measure a device file
  fusion-bench cost-model --compile-only --modules D; ... --modules D --json times.json
  fusion-bench cost-model --modules D --evaluate times.json --base h200 [--fit new.json]
  fusion-bench overlap --ranks 2 --json out.json  communication beside computation, on 2 GPUs
  fusion-bench train --ranks 2 --json out.json    training steps on 2 GPUs
  fusion-bench --list                             suites and rows
"""
_EPILOG = """\
exit codes: 0 ok, 1 a result was wrong, 2 usage, 3 the compiler refuses a program, 4 a row
or a module of ours could not be run, 5 a tool, library or device is missing, 9 internal
error. A bar that isn't reached is no error: it stands in the table.
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise FusionError(f"{message}; see {self.prog} --help", USAGE)


def _suites() -> list[str]:
    return [*SUITES, cost_model.NAME, *ranks_cli.SUITES]


def _words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def _parser(program: str) -> argparse.ArgumentParser:
    parser = _Parser(prog=program, description=_DESCRIPTION, epilog=_EPILOG, allow_abbrev=False,
                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--version", action="version", version=f"{program} {__version__}")
    add("suite", metavar="SUITE", nargs="?", help=f"{', '.join(_suites())}, or calibrate")
    add("--list", action="store_true", help="print suites, rows and bars")
    add("--peers", type=_words, default=["torch", "xla"], metavar="LIST", help="torch,xla (default both) or none")
    add("--json", metavar="FILE", help="where results go; written after every row")
    add("--markdown", metavar="FILE",
        help="where the tables go, in a page that has marks for them between the marks; - is standard output")
    add("--from", dest="sources", metavar="FILE", action="append", default=[],
        help="measure nothing: make the table of this JSON file; of several, rows of overlap and train together")
    add("--filter", metavar="RE", default="", help="only rows whose name this regular expression finds")
    add("--runs", type=int, default=31, metavar="N", help="rounds in which contenders take turns (default 31)")
    add("--fp", type=_words, default=["fast", "strict"], metavar="LIST",
        help="fast,strict: bars judge the first, or --autotune's; it is compiled with each op alone too")
    add("--target", default="cuda:sm_90", help="what to compile for (default cuda:sm_90)")
    add("--compile-options", type=shlex.split, default=[], metavar="WORDS", help="further options of fusion-compile")
    add("--modules", metavar="DIR", help="folder of modules, or DIR.tar.xz; with --compile-only where they go")
    add("--compile-only", action="store_true", help="compile and stop")
    add("--bin-dir", metavar="DIR", help="where fusion-compile is")
    add("--runtime", metavar="FILE", help="the libfusion-rt.so to bind")
    add("--limits", metavar="FILE", help="limits.cu, or the cubin of it")
    add("--time-limit", type=float, default=225, metavar="S",
        help="seconds that all of it may take: first XLA's large rows are left out, then torch.compile, then rows "
             "(default 225)")
    add("--xla-time-limit", type=float, default=90, metavar="S", help="seconds that XLA's rows may take (default 90)")
    add("--autotune", action="store_true",
        help=f"a column more, {modules.TUNED}: the first of --fp in a session that times the libraries' algorithms")
    add("--no-launches", action="store_true", help="don't count our kernels and copies by CUPTI")
    add("--counters", action="store_true",
        help="read DRAM bytes of memory-bound rows from the hardware's counters by ncu")
    add("--ncu", metavar="FILE", help="where ncu is (default: on PATH, or of the CUDA toolkit)")
    add("--base", default="h200", metavar="NAME",
        help="calibrate: file for what isn't measured; cost-model: what is compiled for or judged (default h200)")
    add("--evaluate", metavar="FILE", help="cost-model: hold the device file --base against the times of FILE")
    add("--fit", metavar="FILE",
        help="with --evaluate: fit --base to half of the times, write it to FILE, and hold that against them")
    add("--ranks", type=int, default=0, metavar="N",
        help="overlap, train: GPUs (default 2); calibrate: measure what N GPUs send each other, nothing else")
    add("--contenders", default="", metavar="RE",
        help="overlap, train: only contenders whose name this finds, such as 'both.auto|products|peer: '; fewer of them "
             "take more turns in the same time")
    add("--keep", action="store_true", help="overlap, train: leave rows out that the file of --json has already")
    add("--replays", type=int, default=0, metavar="N",
        help="overlap: check sums after so many replays at least (default: those that were timed)")
    add("--runner", metavar="FILE", help="overlap, train, calibrate --ranks: the fusion-run to use")
    add("--run-options", type=shlex.split, default=[], metavar="WORDS", help="and further options of it")
    add("--scratch", metavar="DIR", help="where input files go while a row is measured (default: TMPDIR)")
    add("--name", metavar="NAME", help="calibrate: name of the device (default the base's)")
    return parser


def _say(text: str) -> None:
    print(text, flush=True)


def _check_options(options) -> None:
    for option, given, known in (("--peers", options.peers, ("torch", "xla", "none")),
                                 ("--fp", options.fp, ("fast", "strict"))):
        if not given or any(word not in known for word in given):
            raise FusionError(f"{option}: {','.join(given) or 'nothing'}, expected some of {','.join(known)}", USAGE)
    if options.ranks < 0 or options.ranks == 1:
        raise FusionError(f"--ranks: {options.ranks}, expected 2 or more", USAGE)
    if options.runs < 1:
        raise FusionError(f"--runs: {options.runs}, expected 1 or more", USAGE)
    if options.compile_only and not options.modules:
        raise FusionError("--compile-only needs --modules DIR, where modules go", USAGE)
    for path in (options.json, options.markdown):
        if path and path != "-" and not os.path.isdir(os.path.dirname(os.path.abspath(path))):
            raise FusionError(f"{path}: its folder doesn't exist; create it first", USAGE)


def _select(suite: str, pattern: str) -> list[Workload]:
    if suite not in SUITES:
        raise FusionError(f"no suite {suite!r}, expected {', '.join(_suites())} or calibrate", USAGE)
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise FusionError(f"--filter: {pattern!r} is no regular expression: {error}", USAGE) from error
    found = [w for w in SUITES[suite]() if wanted.search(w.name)]
    if not found:
        raise FusionError(f"--filter: {pattern!r} finds no row of {suite}, --list names them", USAGE)
    return found


def _list() -> None:
    ranks_cli.list_rows(print)
    for name, make in SUITES.items():
        print(f"{name}:")
        for workload in make():
            print(f"  {workload.name:<28} {workload.title}")
            for clauses, where in ((workload.bars, ""), (workload.warm_bars, ", its data in the cache"),
                                   (workload.graph_bars, ", its data in the cache, several runs in one graph")):
                if clauses:
                    print(f"  {'':<28}   {bars.describe(clauses)}{where}")


def _compile(options, workloads: Sequence[Workload], folder: str) -> int:
    """Compiles all variants into the folder; the number that failed."""
    compiler = modules.find_tool("fusion-compile", options.bin_dir)
    manifest = modules.read_manifest(folder)
    manifest["target"] = options.target
    manifest["compiler"] = modules.compiler_of(compiler)
    failed = 0
    for workload in workloads:
        entries = modules.compile_workload(workload, modules.variants(options.fp), folder, compiler, options.target,
                                           options.compile_options)
        manifest["modules"].update(entries)
        modules.write_manifest(folder, manifest)
        for name, entry in entries.items():
            failed += "error" in entry
            said = entry.get("error") or f"{entry['bytes']} bytes, {entry['seconds']} s"
            _say(f"compiled {name}: {said}" if "error" not in entry else f"refused  {name}: {said}")
    return failed


def _compile_only(options, workloads: Sequence[Workload]) -> int:
    with modules.module_folder(options.modules, writing=True) as folder:
        failed = _compile(options, workloads, folder)
        source = options.limits or limits.find_source()
        if source and source.endswith(".cu") and options.target.startswith("cuda:"):
            try:
                limits.build(source, os.path.join(folder, limits.BINARY), options.target.partition(":")[2])
            except FusionError as error:
                _say(f"no {limits.BINARY}: {error}")
        total = sum(entry.stat().st_size for entry in os.scandir(folder))
        entries = modules.read_manifest(folder)["modules"]
        slowest = max(entries, key=lambda name: entries[name]["seconds"])
        _say(f"{len(workloads)} rows, {failed} modules refused, {total / 1e6:.1f} MB in {options.modules}; "
             f"slowest: {slowest}, {entries[slowest]['seconds']} s")
    return 3 if failed else 0


def _kernels(options, torch, folder: Optional[str], scratch: str):
    """The kernels of limits.cu, or None with a word why."""
    path = options.limits or (os.path.join(folder, limits.BINARY) if folder else "")
    if not os.path.isfile(path):
        if options.limits:
            raise FusionError(f"--limits: {path}: no such file", USAGE)
        path = limits.find_source() or ""
    try:
        if path.endswith(".cu"):
            major, minor = torch.cuda.get_device_capability()
            output = os.path.join(scratch, limits.BINARY)
            limits.build(path, output, f"sm_{major}{minor}")
            path = output
        if not path:
            raise FusionError("limits.cu not found, beside this package, give --limits")
        return limits.Kernels(torch, path)
    except FusionError as error:
        _say(f"no hand-written limits: {error}")
        return None


@contextlib.contextmanager
def _own_stream(torch) -> Iterator[None]:
    with torch.cuda.stream(torch.cuda.Stream()):
        yield


def _beside(options, workloads: Sequence[Workload], folder: str, library: str, document: dict,
            time_left: Budget) -> dict:
    """What is measured in processes of their own before the rows: by row, entries of ours and, as "xla", XLA's."""
    from . import dram, launched, run, xla

    names, variants = [w.name for w in workloads], list(modules.variants(options.fp))
    # In the file until the rows that it belongs to are.
    found: dict[str, dict] = {name: {} for name in names}
    document["beside"] = found

    def add(what: str, most: float, measure: Callable) -> None:
        begin, given = time.monotonic(), time_left.before_rows(most)
        rows, facts = measure(given) if given else ({}, {"failed": "left out: the rows need the time"})
        document[what] = {**facts, "seconds": round(time.monotonic() - begin, 1)}
        _say(f"{what}: {facts.get('failed') or f'{len(rows)} rows'}, {document[what]['seconds']} s")
        for name, entries in rows.items():
            for variant, entry in entries.items():
                found[name].setdefault(variant, {}).update(entry)
        if options.json:
            run.write_json(options.json, document)

    def by_xla(seconds: float):
        small_first = [w.name for w in sorted(workloads, key=lambda w: w.bytes)]
        rows, facts = xla.measure_all(options.suite, small_first, document["environment"]["cache_bytes"], seconds)
        document["environment"]["jax"] = facts.get("version")
        return {name: {"xla": entry} for name, entry in rows.items()}, facts

    if not options.no_launches:
        add("launched", 45, lambda s: launched.count_all(options.suite, names, folder, library, variants, s))
    if options.counters:
        first_and_alone = list(dict.fromkeys([variants[0], variants[-1]]))
        add("dram", 60, lambda s: dram.measure_all(workloads, folder, library, first_and_alone, options.ncu, s))
    if "xla" in options.peers:
        add("xla", options.xla_time_limit, by_xla)
    return found


def _columns(options) -> list[str]:
    """Variants of ours in the order of the table, the one with each op alone last."""
    from . import ours

    *modes, alone = modules.variants(options.fp)
    if options.autotune and not ours.can_tune():
        _say("--autotune: this runtime has no such sessions; its column is left out")
    return [*modes, *([modules.TUNED] if options.autotune and ours.can_tune() else []), alone]


def _measure(options, workloads: Sequence[Workload], program: str, arguments: Sequence[str]) -> int:
    from . import bandwidth, gpu, ours, run

    time_left = Budget(options.time_limit, len(workloads))
    torch = gpu.open_torch()
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="fusion-bench-"))
        library = ours.use_runtime(options.runtime)
        if options.modules:
            folder = stack.enter_context(modules.module_folder(options.modules, writing=False))
        else:
            folder = scratch
            _compile(options, workloads, folder)
        manifest = modules.read_manifest(folder)
        torch_peers = [name + kind for name in ("eager", "inductor") for kind in ("", run.GRAPH)]
        document = {
            "suite": options.suite, "date": datetime.datetime.now().isoformat(timespec="seconds"),
            "command": f"{program} {shlex.join(arguments)}", "environment": gpu.describe(torch), "runs": options.runs,
            "variants": _columns(options),
            "peers": (torch_peers if "torch" in options.peers else []) + (["xla"] if "xla" in options.peers else []),
            "compiler": manifest.get("compiler"), "runtime": {"library": library, "sha256": modules.sha256(library)},
            "rows": []}
        beside = _beside(options, workloads, folder, library, document, time_left)
        stack.enter_context(_own_stream(torch))
        kernels = _kernels(options, torch, folder, scratch)
        copy = bandwidth.Copy(torch, kernels)
        document["copy_bandwidth"] = copy.as_json()
        _say(f"{document['environment']['gpu']}: copy {copy.ways[copy.best] / 1e12:.3f} TB/s by {copy.best}, after "
             f"{time_left.passed():.0f} s")
        settings = run.Settings(variants=document["variants"], peers=options.peers, rounds=options.runs, folder=folder,
                                budget=time_left)
        runner = run.Runner(torch, settings, manifest, kernels, beside, copy, _say)
        run.run_rows(workloads, runner.rows, document, options.json, _say)
    del document["beside"]
    document["seconds"] = round(time_left.passed(), 1)
    if options.json:
        run.write_json(options.json, document)
    _say(table.summary(document["rows"]) + f"; {document['seconds']} s")
    _write_markdown(options.markdown, document)
    return run.exit_code(document["rows"])


def _write_markdown(path: Optional[str], document) -> None:
    text = (ranks_report if document["suite"] in ranks_cli.SUITES else table).markdown(document)
    if path == "-":
        sys.stdout.write(text)
    elif path:
        try:
            with open(path, encoding="utf-8") as file:
                before = file.read()
        except FileNotFoundError:
            before = ""
        with open(path, "w", encoding="utf-8") as file:
            file.write(table.placed(before, text, document["suite"]))


def _calibrate(options) -> int:
    from . import calibrate, gpu, run

    torch = gpu.open_torch()
    base = calibrate.find_device(options.base)
    name = options.name or os.path.splitext(os.path.basename(base))[0]
    with tempfile.TemporaryDirectory(prefix="fusion-bench-") as scratch, _own_stream(torch):
        kernels = _kernels(options, torch, options.modules, scratch)
        if kernels is None:
            return 5

        def save(device: dict, measured: dict) -> None:
            if options.json:
                run.write_json(options.json, device)
                run.write_json(os.path.splitext(options.json)[0] + ".measured.json", measured)

        device, measured = calibrate.calibrate(torch, kernels, base, name, _say, save)
    if options.json:
        save(device, measured)
    else:
        print(json.dumps(device, indent=1))
    return 0


def _cost_model(options) -> int:
    """Compiles the suite cost-model into --modules, times what is there into --json, or judges predictions."""
    if not options.modules or not (options.compile_only or options.json or options.evaluate):
        raise FusionError(f"{cost_model.NAME} needs --modules DIR and one of --compile-only, --json FILE and "
                          "--evaluate FILE", USAGE)
    if options.evaluate:
        cost_model.evaluate(options.modules, options.evaluate, options.base, options.fit, options.bin_dir, _say)
        return 0
    if options.compile_only:
        cost_model.compile_all(options.modules, options.bin_dir, options.target, options.base, _say)
        return 0
    from . import ours

    ours.use_runtime(options.runtime)
    document = cost_model.measure(options.modules, options.json, options.runs, options.time_limit, _say)
    return 4 if any("error" in entry for entry in document["programs"].values()) else 0


def _read_results(paths: Sequence[str]) -> dict:
    """What fusion-bench wrote into one file, or of a suite on several GPUs into several."""
    documents = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            documents.append(json.load(file))
    if len(documents) == 1:
        return documents[0]
    if len({document["suite"] for document in documents}) != 1 or documents[0]["suite"] not in ranks_cli.SUITES:
        raise FusionError("--from: several files make one table only if all are of overlap, or all of train", USAGE)
    return ranks_report.merged(documents)


def bench(arguments: Optional[Sequence[str]] = None, program: str = "fusion-bench") -> int:
    """Runs fusion-bench; the exit code. Raises FusionError."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    options = _parser(program).parse_args(arguments)
    if options.list:
        _list()
        return 0
    _check_options(options)
    try:
        if options.sources:
            _write_markdown(options.markdown or "-", _read_results(options.sources))
            return 0
        if options.suite is None:
            raise FusionError(f"no suite given, expected {', '.join(_suites())} or calibrate; see {program} --help", USAGE)
        if options.suite == "calibrate":
            return ranks_cli.calibrate(options, _say) if options.ranks else _calibrate(options)
        if options.suite == cost_model.NAME:
            return _cost_model(options)
        if options.suite in ranks_cli.SUITES:
            options.ranks = options.ranks or 2
            code, document = ranks_cli.bench(options, program, arguments, _say)
            if document:
                _write_markdown(options.markdown, document)
            return code
        workloads = _select(options.suite, options.filter)
        if options.compile_only:
            return _compile_only(options, workloads)
        return _measure(options, workloads, program, arguments)
    except runtime.FusionError as error:
        raise FusionError(str(error), error.code) from error
    except (OSError, KeyError, ValueError) as error:
        if options.sources and not isinstance(error, FusionError):
            raise FusionError(f"{' '.join(options.sources)}: can't be read as results ({error}), name a file that fusion-bench "
                              "wrote", USAGE) from error
        raise

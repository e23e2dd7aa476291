#!/usr/bin/env python3
# ===- bench-ranks.py - Communication beside computation, on host ranks ----=== #
#
# A training step of a multi-layer perceptron whose gradients are reduced over ranks
# that are processes of this machine. Four modules take turns: the step as it is
# scheduled, with its collectives in line (--no-overlap), its computation alone (the
# same local batch, nothing reduced), its collectives alone (the same tensors).
#
# ===----------------------------------------------------------------------=== #
"""Times a data-parallel step on host ranks against its computation and its
communication alone, and reads from a trace whether both ran at once.

bench-ranks.py prepare DIR compiles the modules; bench-ranks.py run DIR times them
(needs fusion-run only). Both by default, in a temporary folder. Exit status 1 if the
step takes more than --bar times the longer of the two, or the trace shows nothing at once.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(os.environ.get("FUSION_BIN", ROOT / "build/dev/bin"))


def run(*words):
    answer = subprocess.run(list(map(str, words)), capture_output=True, text=True)
    if answer.returncode != 0:
        sys.exit(f"error: {' '.join(map(str, words))}: exit {answer.returncode}: {answer.stderr.strip()}")
    return answer.stdout


def write_step(path, options, batch):
    words = ["mlp", "--layers", options.layers, "--features", options.hidden, "--hidden", options.hidden, "--classes",
             16, "--batch", batch, "--optimizer", "sgd", "--momentum", 0, "--clip", 0, "-o", path]
    subprocess.run([sys.executable, "-m", "fusion_compiler", "models", *map(str, words)], check=True,
                   stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(ROOT / "python")})


def collectives_text(options):
    """The step's gradients, last layer first, each reduced; nothing else."""
    h, shapes = options.hidden, []
    widths = [h] * options.layers + [16]
    for rows, columns in zip(widths, widths[1:]):
        shapes += [[columns], [rows, columns]]
    shapes.reverse()
    types = ["tensor<" + "".join(f"{n}x" for n in shape) + "f32>" for shape in shapes]
    arguments = ", ".join(f'%a{i}: {t} {{fusion.name = "a{i}", fusion.donated = {i} : i64}}' for i, t in enumerate(types))
    body = "".join(f"  %r{i} = fusion.all_reduce mean, %a{i} on @mesh[dp] : {t}\n" for i, t in enumerate(types))
    results = ", ".join(f"%r{i}" for i in range(len(types)))
    return (f"fusion.mesh @mesh(dp = {options.ranks})\nfunc.func @main({arguments}) -> ({', '.join(types)}) {{\n{body}"
            f"  return {results} : {', '.join(types)}\n}}\n")


def prepare(folder, options):
    folder.mkdir(parents=True, exist_ok=True)
    compiler = [BIN / "fusion-compile", "--target=cpu", f"--cpu={options.cpu}"]
    write_step(folder / "step.mlir", options, options.batch * options.ranks)
    write_step(folder / "local.mlir", options, options.batch)
    (folder / "collectives.mlir").write_text(collectives_text(options))
    mesh = f"dp={options.ranks}"
    run(*compiler, folder / "step.mlir", "--mesh", mesh, "-o", folder / "overlapped.fsn")
    run(*compiler, folder / "step.mlir", "--mesh", mesh, "--no-overlap", "-o", folder / "in_line.fsn")
    # Ranks of another axis share no data: nothing is reduced.
    run(*compiler, folder / "local.mlir", "--mesh", f"alone={options.ranks}", "-o", folder / "computation.fsn")
    run(*compiler, folder / "collectives.mlir", "-o", folder / "communication.fsn")


def measure(module, options):
    words = [BIN / "fusion-run", module, "--trust=all", "--ranks", options.ranks, "--random-inputs", 1, "--bench",
             options.runs, "--json"]
    if options.threads:
        words += ["--threads", options.threads]
    return json.loads(run(*words))["slowest_median_us"]


def both_at_once(trace):
    """Microseconds in which a rank computed and communicated, and those of its collectives."""
    spans = {"work": [], "collective": []}
    for event in json.loads(trace.read_text())["traceEvents"]:
        if event.get("ph") == "X" and event.get("pid") == 0:
            kind = "collective" if event["cat"] == "collective" else "work" if event["cat"] in ("call", "launch") else None
            if kind:
                spans[kind].append((event["ts"], event["ts"] + event["dur"]))
    shared = sum(max(0.0, min(a[1], b[1]) - max(a[0], b[0])) for a in spans["collective"] for b in spans["work"])
    return shared, sum(b - a for a, b in spans["collective"])


def report(folder, options):
    names = ("overlapped", "in_line", "computation", "communication")
    times = {name: [] for name in names}
    for _ in range(options.rounds):
        for name in names:
            times[name].append(measure(folder / f"{name}.fsn", options))
    run(BIN / "fusion-run", folder / "overlapped.fsn", "--trust=all", "--ranks", options.ranks, "--random-inputs", 1,
        "--profile", folder / "trace.json", *(["--threads", options.threads] if options.threads else []))
    shared, collectives = both_at_once(folder / "trace.json")
    ratios = [t / max(c, w) for t, c, w in zip(times["overlapped"], times["computation"], times["communication"])]
    result = {name: statistics.median(values) for name, values in times.items()}
    result.update(ranks=options.ranks, cores=len(os.sched_getaffinity(0)), rounds=options.rounds,
                  ratio=statistics.median(ratios), in_line_ratio=statistics.median(
                      [a / b for a, b in zip(times["in_line"], times["overlapped"])]),
                  at_once_us=shared, collectives_us=collectives)
    print(json.dumps(result, indent=1))
    return 0 if result["ratio"] <= options.bar and shared > 0 else 1


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="FUSION_BIN names the tools' folder (build/dev/bin). run wants the --ranks that prepare had.")
    parser.add_argument("action", nargs="?", choices=("prepare", "run"), help="one half only, with its folder")
    parser.add_argument("folder", nargs="?", type=Path, help="of the modules")
    parser.add_argument("--ranks", type=int, default=2, help="processes (default %(default)s)")
    parser.add_argument("--threads", type=int, default=0, help="of each rank (default: fusion-run's)")
    parser.add_argument("--layers", type=int, default=8, help="of the perceptron (default %(default)s)")
    parser.add_argument("--hidden", type=int, default=1024, help="width of a layer (default %(default)s)")
    parser.add_argument("--batch", type=int, default=384, help="samples of one rank (default %(default)s)")
    parser.add_argument("--cpu", default="native", help="processor to compile for (default %(default)s)")
    parser.add_argument("--runs", type=int, default=10, help="timed runs of each module a round (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="turns that the modules take (default %(default)s)")
    parser.add_argument("--bar", type=float, default=1.15, help="largest ratio that passes (default %(default)s)")
    options = parser.parse_args()
    if options.action and not options.folder:
        parser.error(f"{options.action} needs a folder")
    if options.action == "prepare":
        return prepare(options.folder, options)
    if options.action == "run":
        return report(options.folder, options)
    with tempfile.TemporaryDirectory() as name:
        prepare(Path(name), options)
        return report(Path(name), options)


if __name__ == "__main__":
    sys.exit(main())

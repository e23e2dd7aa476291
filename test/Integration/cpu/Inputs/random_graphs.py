"""Fused against unfused on random graphs, bit for bit.

  random_graphs.py --bin build/dev/bin --graphs 2000 --mode interpret
  random_graphs.py --bin build/dev/bin --graphs 2000 --mode compile

interpret: the reference evaluates each module before and behind the fuse phase.
compile: each module is compiled with and without fusion and run; exact graphs are
compared with the reference too. Exit 1 names the first graphs that differ, by
seed: `--first SEED --graphs 1` repeats one, `--keep DIR` keeps its files.
"""

import argparse
import concurrent.futures
import os
import subprocess
import sys
import tempfile

import numpy as np

from random_graph import Module


def run(command, **options):
    result = subprocess.run(command, capture_output=True, text=True, **options)
    if result.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit {result.returncode}\n{result.stderr[-2000:]}")
    return result.stdout


def same_bits(a, b):
    """Equal bytes, any NaN equal to any other."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind != "f":
        return np.array_equal(a, b)
    bits = f"u{a.dtype.itemsize}"
    return bool(np.all((a.view(bits) == b.view(bits)) | (np.isnan(a) & np.isnan(b)))) if a.ndim else (
        same_bits(a.reshape(1), b.reshape(1)))


class Case:
    """One module on disk."""

    def __init__(self, folder, seeds, exact):
        self.folder, self.seeds, self.exact = folder, list(seeds), exact
        self.module = Module(self.seeds, exact)
        os.makedirs(f"{folder}/in")
        with open(self.path("model.mlir"), "w") as file:
            file.write(self.module.text)
        for name, array in self.module.inputs.items():
            np.save(f"{folder}/in/{name}.npy", array)
        np.savez(f"{folder}/in.npz", **self.module.inputs)

    def path(self, name):
        return os.path.join(self.folder, name)

    def differences(self, one, other):
        """Seeds of graphs whose outputs differ between two folders."""
        seeds = set()
        for graph, seed in zip(self.module.graphs, self.seeds):
            for i in range(len(graph.outputs)):
                name = f"{graph.prefix}y{i}.npy"
                if not same_bits(np.load(self.path(f"{one}/{name}")), np.load(self.path(f"{other}/{name}"))):
                    seeds.add((seed, name, one, other))
        return sorted(seeds)


def interpret(tools, cases, variants):
    """Evaluates `variant`.mlir of each case into the folder of that name, in one process."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as listing:
        for case in cases:
            for variant in variants:
                listing.write(f"{case.path(variant + '.mlir')} {case.path('in')} {case.path(variant)}\n")
        listing.flush()
        run([f"{tools}/fusion-interpret", f"--batch-file={listing.name}"])


def check_interpret(tools, cases):
    for case in cases:
        # Decomposing rounds more often than the named op: it is no matter of grouping.
        run([f"{tools}/fusion-opt", case.path("model.mlir"), "--fusion-decompose-named", "-o", case.path("primitive.mlir")])
        run([f"{tools}/fusion-opt", case.path("model.mlir"), "--fusion-fuse", "-o", case.path("fused.mlir")])
        run([f"{tools}/fusion-opt", case.path("model.mlir"), "--fusion-fuse=no-fuse=vertical", "-o", case.path("separate.mlir")])
        run([f"{tools}/fusion-opt", case.path("fused.mlir"), "--fusion-unfuse-groups", "-o", case.path("unfused.mlir")])
    variants = ["primitive", "fused", "separate", "unfused"]
    interpret(tools, cases, variants)
    return [d for case in cases for variant in variants[1:] for d in case.differences("primitive", variant)]


def check_compile(tools, cases):
    for case in cases:
        for variant, flags in (("fused", []), ("separate", ["--no-fuse=vertical"])):
            module = case.path(variant + ".fsn")
            # Rewrites that change values by design are no matter of grouping.
            run([f"{tools}/fusion-compile", case.path("model.mlir"), "--target=cpu", "--exact-rewrites-only", "-o", module] + flags)
            run([f"{tools}/fusion-run", module, "--trust", "all", "--inputs", case.path("in.npz"), "--output-dir", case.path(variant)])
    interpret(tools, [case for case in cases if case.exact], ["model"])
    found = [d for case in cases for d in case.differences("separate", "fused")]
    return found + [d for case in cases if case.exact for d in case.differences("model", "fused")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=os.environ.get("FUSION_BIN", "build/dev/bin"), help="folder of the tools")
    parser.add_argument("--graphs", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--per-module", type=int, default=50)
    parser.add_argument("--mode", choices=["interpret", "compile"], default="compile")
    parser.add_argument("--keep", help="folder for all files, kept")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()

    check = check_interpret if arguments.mode == "interpret" else check_compile
    differences, failures = [], []
    with tempfile.TemporaryDirectory() as scratch:
        root = arguments.keep or scratch
        end = arguments.first + arguments.graphs

        def work(begin):
            # Every third module holds graphs that any evaluator agrees on.
            seeds = range(begin, min(begin + arguments.per_module, end))
            try:
                return check(arguments.bin, [Case(f"{root}/{begin}", seeds, begin // arguments.per_module % 3 == 0)])
            except RuntimeError as error:
                failures.append(f"graphs {seeds.start} to {seeds.stop - 1}: {error}")
                return []

        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            for found in pool.map(work, range(arguments.first, end, arguments.per_module)):
                differences += found
    for seed, name, one, other in differences[:20]:
        print(f"graph {seed}: {name} of '{other}' is not that of '{one}'")
    for failure in failures[:5]:
        print(failure)
    print(f"{arguments.graphs} graphs, {len(differences)} outputs differ, {len(failures)} modules failed")
    return 1 if differences or failures else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# ===- make.py - Compiles the cases and says what to expect ----------------=== #
#
# Needs no GPU: fusion-compile makes the modules, each op alone and fused, strict
# and fast; fusion-interpret evaluates the models. check.py runs the bundle where
# there is a GPU.
#
# ===----------------------------------------------------------------------=== #
"""Writes a bundle of modules for a GPU with the results that they must give."""

import argparse
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from models import allModels, smallModels, split  # noqa: E402
from values import decode, encode  # noqa: E402

ROOT = Path(__file__).resolve().parents[4]
# What is compiled of each model; the first is each op alone.
VARIANTS = {"alone": ("--fp=strict", "--no-fuse=horizontal,vertical,projections"), "strict": ("--fp=strict",), "fast": ("--fp=fast",)}


def run(binaries, tool, *arguments):
    answer = subprocess.run([str(binaries / tool), *map(str, arguments)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if answer.returncode != 0:
        raise SystemExit(f"error: exit status {answer.returncode}, from {tool} {' '.join(map(str, arguments))}\n{answer.stderr[:3000]}")
    return answer.stdout


def kernelsOf(said):
    """name -> what it is, from --inspect."""
    return dict(re.findall(r"^kernel (\w+): (.*)$", said, re.M))


def evaluate(binaries, model, scratch):
    """Expected arrays by file name, such as b1_c3_y0, and s1_c3_y0 for the sums
    of absolute values."""
    lines = []
    (scratch / "model.mlir").write_text(model.text())
    sums = model.sums()
    if sums:
        (scratch / "sums.mlir").write_text(model.text(wide=True, chosen=sums))
    for batch in model.batches:
        inputs, twin = scratch / f"in{batch}", scratch / f"abs{batch}"
        inputs.mkdir()
        twin.mkdir()
        for each in model.instances:
            for i, name in enumerate(each.names("x", each.inputs)):
                array = each.array(i, batch)
                np.save(inputs / f"{name}.npy", array)
                if each in sums:
                    np.save(twin / f"{name}.npy", np.abs(decode(array, split(each.inputs[i])[1])))
        lines.append(f"{scratch / 'model.mlir'} {inputs} {scratch / f'b{batch}'}")
        if sums:
            lines.append(f"{scratch / 'sums.mlir'} {twin} {scratch / f's{batch}'}")
    (scratch / "cases.txt").write_text("\n".join(lines) + "\n")
    try:
        run(binaries, "fusion-interpret", f"--batch-file={scratch / 'cases.txt'}")
    except SystemExit as failed:
        raise SystemExit(f"{failed}\n" + "\n".join(p.read_text()[:500] for p in scratch.glob("*/error.txt"))) from None
    found = {}
    for batch in model.batches:
        for each in model.instances:
            for name in each.names("y", each.outputs):
                found[f"b{batch}_{name}"] = np.load(scratch / f"b{batch}" / f"{name}.npy")
                if each in sums:
                    found[f"s{batch}_{name}"] = encode(np.load(scratch / f"s{batch}" / f"{name}.npy"), "f32")
    return found


def build(binaries, model, folder, target):
    """Compiles and evaluates one model; returns the kernels of each variant."""
    place = folder / model.name
    place.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        np.savez(place / "expected.npz", **evaluate(binaries, model, scratch))
        kernels = {}
        for variant, flags in VARIANTS.items():
            flags = flags if target != "cpu" else ("--fp=strict", *flags[1:])  # it has no other
            path = place / f"{variant}.fsn"
            run(binaries, "fusion-compile", scratch / "model.mlir", f"--target={target}", *flags, "-o", path)
            kernels[variant] = kernelsOf(run(binaries, "fusion-run", "--inspect", path))
    (place / "cases.json").write_text(json.dumps(
        {"batches": model.batches, "cases": [each.describe() for each in model.instances], "kernels": kernels}))
    return kernels


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=Path, default=Path(os.environ.get("FUSION_BIN") or ROOT / "build/dev/bin"))
    parser.add_argument("--only", default="", metavar="REGEX", help="models whose names match")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--target", default="cuda:sm_90", help="cpu: to try the cases where there is no GPU")
    parser.add_argument("-o", "--output", type=Path, required=True, help="a folder, or an archive if it ends in .tar.xz")
    options = parser.parse_args()
    models = [model for model in allModels() + smallModels() if re.search(options.only, model.name)]
    archive = options.output.suffix == ".xz"
    folder = Path(tempfile.mkdtemp()) if archive else options.output
    start = time.monotonic()
    count = instances = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for model, kernels in zip(models, pool.map(lambda model: build(options.bin.resolve(), model, folder, options.target), models)):
            count += sum(map(len, kernels.values()))
            instances += len(model.instances)
            print(f"{model.name}: {len(model.instances)} cases, "
                  + ", ".join(f"{len(found)} kernels {variant}" for variant, found in kernels.items()), flush=True)
    if archive:
        with tarfile.open(options.output, "w:xz") as file:
            file.add(folder, "bundle")
        shutil.rmtree(folder)
    print(f"{len(models)} models, {instances} cases, {count} kernels, {time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# ===- simulated_steps.py - What a step would take on many devices --------=== #
#
# Training steps compiled for device files whose devices are not here: what the model of
# computation and communication says of them, and which tensors their groups write.
#
# ===----------------------------------------------------------------------=== #
"""Checks training steps for each device file; prints one line a check."""

import os
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from math import prod
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[2] / "python")]
from _support import Checks, run  # noqa: E402

from fusion_compiler.models.cli import models  # noqa: E402

checks = Checks()
DEVICES = {"a100-80gb": 8, "h200": 8, "cpu": 8, str(HERE / "Inputs/two-gpus-pcie.json"): 2}
#: Small and large, of each kind.
MODELS = {
    "mlp": "mlp --layers 6 --hidden 1024 --batch 1024 --features 1024 --classes 1024",
    "gpt": "gpt-124m --batch 8",
    "llama": "llama --layers 6 --hidden 512 --heads 8 --kv-heads 4 --ffn 1408 --seq 512 --vocab 8192 --batch 8",
    "convnet": "convnet-cifar",
}


def write(folder, name, flags):
    path = folder / f"{name}.mlir"
    if not path.exists():
        models([*flags.split(), "-o", str(path)])
    return path


def clip(folder):
    """The norm reads gradients where they are reduced: nothing of their size is written."""
    more = {"rows": "gpt-1558m --layers 1 --batch 2", "odd": "mlp --layers 2 --hidden 1021 --batch 8 --features 997"}
    for name, flags in {**MODELS, **more}.items():
        path = write(folder, name, flags)
        for device in DEVICES:
            text = run("fusion-compile", path, "--mesh=dp=2", f"--device={device}", "--stop-after=fuse").stdout
            # Gradients are f32, their squares and sums f64.
            wide = [prod(map(int, shape.split("x")[:-1])) for results in re.findall(r"fusion\.group .*\) -> (.*) \{", text)
                    for shape in re.findall(r"tensor<((?:\d+x)+)f64>", results)]
            checks.check(f"clip: {name} on {Path(device).stem}: sums of squares only", wide and max(wide) <= 4096,
                         f"the largest of {len(wide)} has {max(wide, default=0)} elements")


def simulate(path, device, ranks, *flags):
    """(step, exposed) in microseconds of so many of a device."""
    with tempfile.NamedTemporaryFile(suffix=".mlir") as out:
        text = run("fusion-compile", path, f"--mesh=dp={ranks}", f"--device={device}", f"--simulate={ranks}x{device}",
                   "--stop-after=schedule", *flags, "-o", out.name).stdout
    found = re.search(r"step ([0-9.]+) us: .* exposed ([0-9.]+) ", text)
    return float(found[1]), float(found[2])


def launches(folder):
    """Launches of many groups expose no communication that the groups apart hide."""
    small = {"small-mlp": "mlp --layers 3 --hidden 16 --batch 16 --features 8 --classes 8",
             "small-gpt": "gpt --layers 12 --hidden 32 --heads 4 --seq 16 --vocab 64 --batch 8",
             "small-llama": "llama --layers 2 --hidden 32 --heads 4 --kv-heads 2 --ffn 48 --seq 8 --vocab 32 --batch 8"}
    paths = [write(folder, name, flags) for name, flags in {**MODELS, **small}.items()]
    paths += [write(folder, f"{name}-free", f"{flags} --clip 0") for name, flags in {**MODELS, **small}.items()]
    cases = [(path, device, ranks) for path in paths for device, most in DEVICES.items() for ranks in sorted({2, most})]

    def both(case):
        return simulate(*case), simulate(*case, "--no-fuse=horizontal")

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for (path, device, ranks), ((step, exposed), (step_apart, exposed_apart)) in zip(cases, pool.map(both, cases)):
            # Printed with one digit; launches are chosen before groups become views, and three cases
            # expose up to 0.25 % of a step.
            checks.check(f"launches: {path.stem} on {ranks} x {Path(device).stem}: nothing more is exposed",
                         exposed <= exposed_apart + 0.05 + 0.0025 * step and step <= step_apart + 0.05,
                         f"exposed {exposed} us of {step}, apart {exposed_apart} of {step_apart}")


def sizes(folder):
    """No size that one could give is much better than the one that is chosen."""
    more = {"wide-mlp": "mlp --layers 6 --hidden 2048 --batch 1024 --features 2048 --classes 2048"}
    given = [[f"--bucket-bytes={size}"] for size in ("1MiB", "4MiB", "16MiB", "64MiB")]
    given += [[f"--bucket-bytes={size}", f"--first-bucket-bytes={size}"] for size in ("8MiB", "1GiB")]
    paths = [write(folder, name, flags) for name, flags in {**MODELS, **more}.items() if name != "gpt"]
    cases = [(path, device, ranks) for path in paths for device, ranks in DEVICES.items()]

    def all_sizes(case):
        return [simulate(*case, *flags)[0] for flags in [[], *given]]

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for (path, device, ranks), (step, *steps) in zip(cases, pool.map(all_sizes, cases)):
            checks.check(f"sizes: {path.stem} on {ranks} x {Path(device).stem}: within 1 % of the best",
                         step <= 1.01 * min(steps), f"{step} us, {steps} with the sizes given")


def main():
    with tempfile.TemporaryDirectory() as folder:
        clip(Path(folder))
        launches(Path(folder))
        sizes(Path(folder))
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())

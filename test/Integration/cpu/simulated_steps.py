#!/usr/bin/env python3
# ===- simulated_steps.py - What a step would take on many devices --------=== #
#
# Training steps compiled for device files whose devices are not here: what the model of
# computation and communication says of them, and which tensors their groups write.
#
# ===----------------------------------------------------------------------=== #
"""Checks training steps for each device file; prints one line a check."""

import json
import os
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from math import prod
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[2] / "python")]
from _support import ROOT, Checks, run  # noqa: E402

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
            # Gradients are f32, their squares and sums f64; parts of sums are one row.
            wide = [prod(map(int, shape.split("x")[:-1])) for results in re.findall(r"fusion\.group .*\) -> (.*) \{", text)
                    for shape in re.findall(r"tensor<((?:\d+x)+)f64>", results)]
            checks.check(f"clip: {name} on {Path(device).stem}: sums of squares only", wide and max(wide) <= 16384,
                         f"the largest of {len(wide)} has {max(wide, default=0)} elements")


def plan(path, device, ranks, *flags):
    """(step, exposed, bytes) of so many of a device: microseconds, and the planned arena."""
    with tempfile.NamedTemporaryFile(suffix=".mlir") as out:
        text = run("fusion-compile", path, f"--mesh=dp={ranks}", f"--device={device}", f"--simulate={ranks}x{device}",
                   "--stop-after=schedule", *flags, "-o", out.name).stdout
        peak = re.search(r"fusion.program @main .* peak = (\d+)", Path(out.name).read_text())
    found = re.search(r"step ([0-9.]+) us: .* exposed ([0-9.]+) ", text)
    return float(found[1]), float(found[2]), int(peak[1])


def simulate(*case):
    """(step, exposed) of it."""
    return plan(*case)[:2]


def shares(folder):
    """Ranks share the squares of gradients where that makes the step shorter, and only there."""
    more = {"gpt-355m": "gpt-355m --batch 4 --dtype bf16 --parameter-dtype bf16 --vocab 50304 --untied",
            "small": "mlp --layers 6 --hidden 256 --batch 1024 --features 256 --classes 256"}
    cases = [("gpt-355m", "h200", 2), ("gpt", "h200", 2), ("mlp", "h200", 8), ("small", "h200", 2), ("mlp", "cpu", 2)]
    cases += [(name, str(HERE / "Inputs/two-gpus-pcie.json"), 2) for name in ("gpt", "mlp")]

    def both(case):
        path, device, ranks = write(folder, case[0], {**MODELS, **more}[case[0]]), *case[1:]
        found = []
        target = "cuda:sm_90" if device == "h200" else "cpu"
        for flags in ([f"--target={target}"], [f"--target={target}", "--no-fuse=clip-shares"]):
            with tempfile.NamedTemporaryFile(suffix=".mlir") as out:
                text = run("fusion-compile", path, f"--mesh=dp={ranks}", f"--device={device}", f"--simulate={ranks}x{device}",
                           "--stop-after=schedule", *flags, "-o", out.name).stdout
                found += [float(re.search(r"step ([0-9.]+) us: ", text)[1]), " turned " in Path(out.name).read_text()]
        return found

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for (name, device, ranks), (step, isShared, whole, isTurned) in zip(cases, pool.map(both, cases)):
            label = f"shares: {name} on {ranks} x {Path(device).stem}"
            # Printed with one digit.
            checks.check(f"{label}: the step is no longer", not isTurned and (step < whole if isShared else step <= whole + 0.05),
                         f"{step} us, {whole} with whole squares; shared: {isShared}")
            # 0.6 GB of gradients and of what the other rank sent are not read, which takes 149 us; a launch is more.
            if name == "gpt-355m":
                checks.check(f"{label}: by 0.1 ms or more", isShared and step <= whole - 100, f"{step} us of {whole}")
            # A few hundred kilobytes are read sooner than a number goes over the ranks.
            if name == "small":
                checks.check(f"{label}: not where little is read", not isShared, f"{step} us")


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
            # Printed with one digit.
            checks.check(f"launches: {path.stem} on {ranks} x {Path(device).stem}: nothing more is exposed",
                         exposed <= exposed_apart + 0.05 and step <= step_apart + 0.05,
                         f"exposed {exposed} us of {step}, apart {exposed_apart} of {step_apart}")


def sizes(folder):
    """No size that one could give is much better than the one that is chosen, in time or, where it takes about
    as long as the best, in memory."""
    more = {"wide-mlp": "mlp --layers 6 --hidden 2048 --batch 1024 --features 2048 --classes 2048"}
    given = [[f"--bucket-bytes={size}"] for size in ("1MiB", "4MiB", "16MiB", "64MiB")]
    given += [[f"--bucket-bytes={size}", f"--first-bucket-bytes={size}"] for size in ("8MiB", "1GiB")]
    paths = [write(folder, name, flags) for name, flags in {**MODELS, **more}.items() if name != "gpt"]
    cases = [(path, device, ranks) for path in paths for device, ranks in DEVICES.items()]
    # Here large buckets take 0.1 % less time, and 40 % more memory: products that share a launch.
    cases.append((write(folder, "mlp", MODELS["mlp"]), "cpu", 2))

    def all_sizes(case):
        return [plan(*case, *flags) for flags in [[], *given]]

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for (path, device, ranks), plans in zip(cases, pool.map(all_sizes, cases)):
            steps, peaks = [p[0] for p in plans], [p[2] for p in plans]
            name = f"sizes: {path.stem} on {ranks} x {Path(device).stem}"
            checks.check(f"{name}: within 1 % of the best", steps[0] <= 1.01 * min(steps[1:]),
                         f"{steps[0]} us, {steps[1:]} with the sizes given")
            least = min(peak for step, peak in zip(steps, peaks) if step <= 1.004 * min(steps))
            checks.check(f"{name}: no more memory than others that are as fast", peaks[0] <= 1.02 * least,
                         f"{peaks[0]} bytes of {least}")
    path, device, ranks = cases[-1]
    text = run("fusion-compile", path, f"--mesh=dp={ranks}", f"--device={device}", "--explain", "-o", folder / "m.fsn")
    told = re.search(r"of 11 sizes: a step of (\S+) us and (\d+) bytes alive at once; the fastest has (\S+) us and "
                     r"(\d+) bytes", " ".join((text.stdout + text.stderr).split()))
    us, least, shortest, most = map(float, told.groups()) if told else (0, 0, 0, 0)
    checks.check("sizes: the remark has the figures of what was taken, and of the fastest",
                 shortest < us < 1.005 * shortest and 1.3 * least < most and abs(peaks[0] / least - 1) < 0.01,
                 f"{us} us, {least} bytes of {peaks[0]}; {shortest} us, {most} bytes")


def gathers(folder):
    """Where a link is slow to start, parameters that ranks hold parts of are gathered in larger buckets than the
    fuse phase makes by itself: it does where sizes for gradients are given, and none of these is as fast."""
    device = json.loads((ROOT / "devices/h200.json").read_text())
    device["comm"]["links"][0] = {"name": "nvlink", "devices": 8, "base_us": 40, "alpha_us": 3.4, "beta_gbs": 29}
    del device["comm"]["transports"]
    slow = folder / "slow.json"
    slow.write_text(json.dumps(device))
    flags = "gpt-124m --layers 6 --vocab 4096 --seq 256 --batch 8 --clip 0 --dtype bf16 --parameter-dtype bf16"
    path = write(folder, "gathers", flags)
    ways = [[], ["--bucket-bytes=8MiB"], ["--bucket-bytes=32MiB"], ["--bucket-bytes=128MiB"]]

    def step(way):
        return simulate(path, slow, 2, "--shard-state", *way)[0]

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        steps = list(pool.map(step, ways))
    checks.check("gathers: larger buckets on a slow link", steps[0] < 0.9 * min(steps[1:]), f"{steps} us")


def main():
    with tempfile.TemporaryDirectory() as folder:
        clip(Path(folder))
        shares(Path(folder))
        launches(Path(folder))
        sizes(Path(folder))
        gathers(Path(folder))
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())

"""./dev bench: times the demo network against onnxruntime, and the compiler.

Everything is measured in one run, taking turns, on the release build. Prints a
table; `--json FILE` writes the same numbers for a machine.
"""

import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime
from bench_options import parse

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "examples/demo"))
import demo  # noqa: E402
import images  # noqa: E402
from tools import ToolError, Tools  # noqa: E402


def openReference(model, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def measureRun(tools, model, batch, threads, rounds, repeats):
    """Median microseconds an image: (ours, theirs, median ratio of the rounds)."""
    session = openReference(model, threads)
    array = np.concatenate([line.tensor for line in images.drawLines()[:batch]])
    np.save(tools.workDir / "x.npy", array)
    session.run(None, {"x": array})
    pairs = []
    for _ in range(rounds):
        ours = tools.bench("cls.fsn", ["x=x.npy"], repeats, threads)
        pairs.append((ours, demo.medianOf(lambda: session.run(None, {"x": array}), repeats)))
    ours, theirs = (statistics.median(column) / batch for column in zip(*pairs))
    return ours, theirs, statistics.median(a / b for a, b in pairs)


def bench(arguments, folder):
    tools = Tools(arguments.bin_dir.resolve(), folder)
    model = folder / "cls.onnx"
    demo.extractModel(arguments.wheel, model)
    _, _, imported = tools.run("fusion-import", "cls.onnx", "-o", "cls.mlir", "--input-shape",
                               "x=B,3,48,192", "--dynamic-batch=1..8")
    compiled = [tools.run("fusion-compile", "cls.mlir", "--target=cpu", "-o", "cls.fsn")[2]
                for _ in range(arguments.rounds)]
    rows = {"import_s": imported, "compile_s": statistics.median(compiled), "runs": []}
    print(f"import {imported:.2f} s, compile {rows['compile_s']:.2f} s (median of {arguments.rounds})\n")
    print(f"{'batch':>5}{'threads':>9}{'Fusion':>13}{'onnxruntime':>15}{'ratio':>8}   an image")
    for threads in sorted({1, os.cpu_count() or 1}):
        for batch in (1, 8):
            ours, theirs, ratio = measureRun(tools, model, batch, threads, arguments.rounds, arguments.repeats)
            rows["runs"].append({"batch": batch, "threads": threads, "fusion_us": ours,
                                 "onnxruntime_us": theirs, "ratio": ratio})
            print(f"{batch:5}{threads:9}{ours:10.0f} us{theirs:12.0f} us{ratio:8.2f}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


def main():
    arguments = parse()
    try:
        with tempfile.TemporaryDirectory() as folder:
            return bench(arguments, Path(folder))
    except ToolError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.code


if __name__ == "__main__":
    sys.exit(main())

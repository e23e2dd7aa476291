#!/usr/bin/env python3
"""Four real networks: a text direction classifier, text detection and recognition
of the same package, and a sentence encoder.

Each gives onnxruntime's answers with one module for every batch size, and fewer
commands than unfused, counted by the `null` backend. Then every pass by itself
(scripts/report-passes.py): each that decides fires and is refused somewhere, says
what the text shows, and run twice changes nothing.
"""

import importlib
import json
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

import numpy as np
import onnxruntime

from _support import ROOT, Checks, run

sys.path.insert(0, str(ROOT / "scripts"))
import networks  # noqa: E402

report = importlib.import_module("report-passes")
# Of a whole network, from onnxruntime: the bounds of docs/tolerances.md for one
# op of several roundings, and for probabilities behind many layers of sums.
BOUNDS = {"encoder": (1e-5, 5.2e-6)}
PROBABILITIES = (1e-4, 0.0)


def counts(module, folder):
    """Launches and calls of one run, and their sum."""
    out = run("fusion-run", module, "--random-inputs=1", "--backend=null", "--json", cwd=folder).stdout
    counted = json.loads(out)["counts"]
    return counted["launches"], counted["calls"], counted["launches"] + counted["calls"]


def compare(checks, model, session, batch, folder):
    inputs = model.makeInputs(batch)
    for name, array in inputs.items():
        np.save(folder / f"{name}.npy", array)
    out = folder / f"out{batch}"
    run("fusion-run", "model.fsn", *(f"--input={name}={name}.npy" for name in inputs), f"--output-dir={out}",
        cwd=folder)
    atol, rtol = BOUNDS.get(model.name, PROBABILITIES)
    names = [output.name for output in session.get_outputs()]
    for name, want in zip(names, session.run(None, inputs)):
        got = np.load(out / f"{quote(name, safe=':')}.npy")
        if want.dtype.kind != "f":
            checks.check(f"{model.name}, batch {batch}: {name} is equal", np.array_equal(got, want))
            continue
        worst = np.abs(got.astype(np.float64) - want).max()
        checks.check(f"{model.name}, batch {batch}: {name} is right",
                     got.shape == want.shape and got.dtype == want.dtype
                     and np.allclose(got, want, rtol=rtol, atol=atol), f"differs by {worst:.1e}")


def checkModel(checks, model, folder):
    folder.mkdir()
    model.extract(folder / "model.onnx")
    run("fusion-import", "model.onnx", "-o", "model.mlir", *model.importFlags(), cwd=folder)
    for module, *flags in (("model.fsn",), ("apart.fsn", "--no-fuse=horizontal,projections,vertical"),
                           ("unmerged.fsn", "--no-fuse=horizontal,projections")):
        run("fusion-compile", "model.mlir", "--target=cpu", *flags, "-o", module, cwd=folder)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options)
    for batch in (1, networks.LARGEST_BATCH):
        compare(checks, model, session, batch, folder)
    fused, apart = counts("model.fsn", folder), counts("apart.fsn", folder)
    checks.check(f"{model.name}: fewer than half the commands", 0 < 2 * fused[2] < apart[2],
                 f"{fused[2]} of {apart[2]}")
    if model.name == "encoder":
        # Three layers: query, key and value are one call in each, of one product or of
        # three.
        saved = counts("unmerged.fsn", folder)[1] - fused[1]
        checks.check("encoder: query, key and value together save six library calls", saved == 6, f"{saved}")


def main():
    checks = Checks()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for model in networks.MODELS.values():
            checkModel(checks, model, folder / model.name)
        (folder / "passes").mkdir()
        results, problems = report.runAll(list(networks.MODELS), folder / "passes")
    print(report.formatReport(results, list(networks.MODELS)))
    for problem in problems:
        checks.check(problem, False)
    checks.check("every pass fires, is refused, and twice is once", not problems)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())

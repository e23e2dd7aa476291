"""The demo's network on a GPU: the answers of the CPU, at every batch size.

The inputs are the demo's eight lines of text and all of them as one batch; what the
CPU's module and the reference evaluator say of them comes from where the modules
were made.
"""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np

from _gpu import fusionRun, main, run

LARGEST_DIFFERENCE = 1e-4  # of a probability, as in the demo
BATCHES = (1, 3, 8)


def prepare(folder):
    from _support import ROOT, importDemoModel
    sys.path.insert(0, str(ROOT / "examples/demo"))
    import images
    importDemoModel(folder)
    for name, flags in {"cpu": ["--target=cpu"], "strict": ["--target=cuda:sm_90", "--fp=strict"],
                        "fast": ["--target=cuda:sm_90"]}.items():
        run("fusion-compile", "cls.mlir", *flags, "-o", f"{name}.fsn", cwd=folder)
    lines = np.concatenate([line.tensor for line in images.drawLines()])
    turned = [line.turned for line in images.drawLines()]
    for batch in BATCHES:
        np.save(folder / f"x{batch}.npy", lines[:batch])
        for tool, words in {"cpu": ("fusion-run", "cpu.fsn"), "reference": ("fusion-interpret", "cls.mlir")}.items():
            run(*words, "--input", f"x=x{batch}.npy", "--output-dir", f"{tool}{batch}", cwd=folder)
    (folder / "turned.json").write_text(json.dumps(turned))
    for path in ("cpu.fsn", "cls.onnx", "cls.mlir", "cls.safetensors"):
        (folder / path).unlink()


def only(folder):
    return np.load(next(Path(folder).glob("*.npy")))


def check(folder, checks):
    turned = json.loads((folder / "turned.json").read_text())
    for kind in ("strict", "fast"):
        for batch in BATCHES:
            with tempfile.TemporaryDirectory() as out:
                answer = fusionRun(folder / f"{kind}.fsn", "--input", f"x={folder / f'x{batch}.npy'}",
                                   "--output-dir", out)
                name = f"{kind}, batch {batch}"
                if answer.returncode != 0:
                    checks.check(name, False, answer.stderr)
                    continue
                ours = only(out)
            for other in ("cpu", "reference"):
                theirs = only(folder / f"{other}{batch}")
                worst = np.abs(ours.astype("f8") - theirs).max() if ours.shape == theirs.shape else np.inf
                checks.check(f"{name}: the {other}'s answers", worst < LARGEST_DIFFERENCE
                             and (ours.argmax(1) == theirs.argmax(1)).all(), f"differ by {worst:.1e}")
            checks.check(f"{name}: as drawn", all(
                want is None or got == want for got, want in zip(ours.argmax(1), turned)), str(ours.argmax(1)))


if __name__ == "__main__":
    raise SystemExit(main(prepare, check))

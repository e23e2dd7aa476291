"""Training steps with new data in each, a hundred and fewer, on one device and on ranks.

`fusion-run --steps` hands each step what the one before left. The cases, and why their
losses may or may not differ, are those of test/Integration/cuda/_losses.py.
"""

import sys
import tempfile
from pathlib import Path

from _support import Checks, run

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cuda"))
from _losses import RANKS, STEPS, checkExact, checkNear, inputsOf, prepareExact, prepareSmall  # noqa: E402

FEW = 30


def train(folder, name, steps, *flags):
    """The folders of the results, one a rank."""
    ranks = RANKS if flags else 0
    model = folder / ("halves.mlir" if name == "halves" else "m.mlir")
    run("fusion-compile", model, "--target=cpu", *flags, "-o", folder / f"{name}.fsn")
    # One thread a process: a test shares its machine.
    run("fusion-run", folder / f"{name}.fsn", *inputsOf(folder / "in"), "--steps", steps, "--output-dir", folder / name,
        "--threads", max(ranks, 1), *(("--ranks", ranks) if ranks else ()))
    return [folder / name / f"rank{rank}" for rank in range(ranks)] or [folder / name]


with tempfile.TemporaryDirectory() as name:
    checks, folder = Checks(), Path(name)
    prepareExact(folder / "exact")
    for case, flags in (("one", ()), ("dp", ("--mesh=dp=2",)), ("shard", ("--mesh=dp=2", "--shard-state"))):
        results = train(folder / "exact", case, STEPS, *flags)
        if case == "shard":
            # A rank has its part of what is updated, and all of the loss.
            results = [out for out in results if not [path.unlink() for path in out.glob("layers.*")]]
            [path.unlink() for path in (folder / "exact/want").glob("layers.*")]
        checkExact(f"exact, {case}", folder / "exact/want", results, checks)
    prepareSmall(folder / "small", FEW)
    alone = [train(folder / "small", case, FEW)[0] for case in ("one", "halves")]
    checkNear("small gpt in bf16, dp", *alone, train(folder / "small", "dp", FEW, "--mesh=dp=2"), checks)
    sys.exit(checks.finish())

"""A module that fits a limit without one is the module that one gets with it.

The passes that heed `--memory-limit` estimate; a limit at the peak that a compilation
without a limit plans must change nothing, and one below it is kept or refused.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from _support import BIN, ROOT, Checks

sys.path.insert(0, str(ROOT / "python"))
from fusion_compiler.models.cli import models  # noqa: E402

C = Checks()
DP = ("--mesh=dp=2",)
SHARD = (*DP, "--shard-state")
CUDA = ("--target=cuda:sm_90", "--ptxas=off")
GPT = "gpt --layers 2 --hidden 16 --heads 2 --seq 6 --vocab 301 --batch 4"
LLAMA = "llama --layers 1 --hidden 16 --heads 4 --kv-heads 2 --ffn 24 --seq 6 --vocab 20 --batch 4"
CONVNET = "convnet --layers 2 --hidden 4 --image 8 --batch 4 --classes 5"
MLP = "mlp --layers 3 --features 6 --hidden 8 --classes 4 --batch 8"
# Without this, the limit moves an op ahead (Fuse/peak-memory.mlir says which).
PEAK = ROOT / "test/Fuse/peak-memory.mlir"

CASES = {
    "gpt": (GPT, [(), DP, SHARD, CUDA, (*CUDA, *SHARD), (*SHARD, "--no-overlap"),
                  (*SHARD, "--no-fuse=horizontal"), (*SHARD, "--no-fuse=vertical"),
                  (*SHARD, "--no-fuse=buckets,projections"), (*SHARD, "--max-ops=2"),
                  (*SHARD, "--prefetch-budget=64KiB"), (*CUDA, *DP, "--transport=peer"),
                  (*CUDA, *SHARD, "--transport=direct", "--device=h200"),
                  (*SHARD, "--run-before=fuse:canonicalize", "--run-before=codegen:cse"),
                  ("--verify-fusion", "--run-before=fuse:cse")]),
    "llama": (LLAMA, [(), SHARD, (*CUDA, *DP)]),
    "convnet": (CONVNET, [(), DP, CUDA]),
    "mlp": (MLP, [(), SHARD, (*CUDA, *SHARD)]),
    "peak": (None, [(), CUDA]),
}


def compiled(model, flags, *more):
    """The exit status, the text of the program, and what was said."""
    words = [BIN / "fusion-compile", model, *flags, *more, "--stop-after=schedule", "-o", "-"]
    answer = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=300)
    return answer.returncode, answer.stdout, answer.stderr


def peakOf(text):
    return int(re.search(r"fusion\.program @main .*? peak = (\d+)", text).group(1))


def hold(name, model, flags, folder):
    plans = folder / "free.plan", folder / "limited.plan"
    status, free, said = compiled(model, flags, f"--emit-plan={plans[0]}")
    if status != 0:
        return C.check(f"{name}: compiles", False, said[-300:])
    peak = peakOf(free)
    for limit in (peak, peak + 1, 1 << 40):
        status, text, said = compiled(model, flags, f"--emit-plan={plans[1]}", f"--memory-limit={limit}")
        same = status == 0 and text == free and plans[1].read_bytes() == plans[0].read_bytes()
        C.check(f"{name}: a limit of {limit} changes nothing", same, said[-200:])
    status, text, said = compiled(model, flags, f"--memory-limit={peak - 1}")
    if status == 0:
        C.check(f"{name}: one byte less is kept", peakOf(text) < peak, str(peakOf(text)))
    else:
        enough = re.search(r"needs (\d+) bytes .*the memory limit is (\d+), and a limit of (\d+) is enough", said)
        C.check(f"{name}: one byte less is refused with what is enough",
                status == 6 and enough and int(enough[1]) <= peak and enough.groups()[1:] == (str(peak - 1), str(peak)), said[-300:])


with tempfile.TemporaryDirectory() as scratch:
    folder = Path(scratch)
    for name, (words, flagSets) in CASES.items():
        model = folder / f"{name}.mlir" if words else PEAK
        if words:
            models([*words.split(), "-o", str(model)])
        for flags in flagSets:
            hold(" ".join([name, *flags]), model, flags, folder)
    # A plan to follow is followed under a limit too.
    plan = folder / "given.plan"
    compiled(folder / "gpt.mlir", (*SHARD, "--max-ops=3"), f"--emit-plan={plan}")
    hold("gpt by a plan", folder / "gpt.mlir", (*SHARD, f"--plan={plan}"), folder)
sys.exit(C.finish())

#!/usr/bin/env python3
"""SIGKILL of the compiler at 200 random moments: the output is old or new, whole,
and nothing else is left.
"""

import random
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "Inputs/faults"))
from support import *  # noqa: E402,F401,F403

KILLS = 200


def randomKills(root, checks, seed, count):
    """SIGKILL at random moments of a compilation."""
    stage, new = compileStage(checks, root, f"kill{seed}")
    start = time.monotonic()
    stage.run(compiler("small.mlir", "-o", "out.fsn"))
    usual = time.monotonic() - start
    stage.reset()
    moments = random.Random(seed)
    left = 0
    for _ in range(count):
        process = subprocess.Popen(compiler("small.mlir", "-o", "out.fsn"), cwd=stage.folder, env=stage.environment,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(moments.uniform(0, 1.1 * usual))
        process.kill()
        process.wait()
        content = stage.content()
        stage.check("random kill", "old or new", content["out.fsn"] in (b"old", new["out.fsn"]),
                    f"{len(content['out.fsn'])} bytes")
        extra = [data for file, data in content.items() if file not in stage.before]
        left += len(extra)
        stage.check("random kill", "what is left is whole", all(data == new["out.fsn"] for data in extra))
        stage.check("random kill", "nothing in TMPDIR", not list(stage.temporary.iterdir()))
        stage.reset()
    checks.check(f"{stage.name}: {count} kills leave old or new", left <= 2, f"{left} names left")


def main():
    checks = Checks()
    jobs = os.cpu_count() or 1
    with tempfile.TemporaryDirectory(prefix="fusion-kill-") as scratch, ThreadPoolExecutor(jobs) as pool:
        for job in [pool.submit(randomKills, Path(scratch), checks, seed, -(-KILLS // jobs)) for seed in range(jobs)]:
            job.result()
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())

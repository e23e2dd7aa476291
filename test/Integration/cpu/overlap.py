"""Communication beside computation, on ranks that are processes.

What the schedule moves must change no bit; gathered layers must stay within their
budget at every command of the program, and in a region of the arena of that size.
"""

import json
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from _support import BIN, Checks, run

C = Checks()
LAYERS, RANKS, SHARD = 12, 8, (512, 512)  # a shard is 1 MiB, a layer 8 MiB
BUDGET = 24 << 20


def layers():
    """x = relu(x + the layer), for each layer: its rows are spread over the ranks.

    Compiled with --max-ops=2: otherwise one kernel would read four layers.
    """
    whole = f"tensor<{RANKS * SHARD[0]}x{SHARD[1]}xf32>"
    shard = f"tensor<{SHARD[0]}x{SHARD[1]}xf32>"
    args = [f'%x0: {whole} {{fusion.name = "x"}}']
    args += [f'%p{i}: {shard} {{fusion.name = "p{i}", fusion.sharding = [["dp"], []]}}' for i in range(LAYERS)]
    lines = []
    for i in range(LAYERS):
        lines.append(f"  %w{i} = fusion.all_gather %p{i} dim = 0 on @mesh[dp] : ({shard}) -> {whole}")
        lines.append(f"  %s{i} = fusion.add %x{i}, %w{i} : {whole}")
        lines.append(f"  %x{i + 1} = fusion.relu %s{i} : {whole}")
    return (f"fusion.mesh @mesh(dp = {RANKS})\nfunc.func @main({', '.join(args)}) -> "
            f'({whole} {{fusion.name = "y"}}) attributes {{fusion.partitioned}} {{\n' + "\n".join(lines)
            + f"\n  return %x{LAYERS} : {whole}\n}}\n")


def accesses(line):
    """(kind, offset, size, allocation) of a command's ranges in the arena."""
    return [(kind, int(offset), int(size), int(number)) for kind, offset, size, number in
            re.findall(r"access<(\w+), <@arena, (\d+), (\d+) of (\d+)>", line)]


def prefetch(folder):
    model = folder / "layers.mlir"
    model.write_text(layers())
    text = run("fusion-compile", model, "--max-ops=2", "--prefetch-budget=24MiB", "--stop-after=schedule").stdout
    lines = [line for line in text.splitlines() if re.match(r"\s*fusion\.(launch|call|copy|collective|wait|record) ", line)]
    first, last, place = {}, {}, {}
    for i, line in enumerate(lines):
        for kind, offset, size, number in accesses(line):
            if '"all_gather"' in line and kind == "write":
                first[number], place[number] = i, (offset, size)
            if number in first:
                last[number] = i
    C.check("prefetch: every layer is gathered", len(first) == LAYERS, str(len(first)))
    live = [sum(place[n][1] for n in first if first[n] <= i <= last[n]) for i in range(len(lines))]
    C.check("prefetch: the peak is within the budget at every command", max(live) <= BUDGET, f"{max(live)} of {BUDGET}")
    C.check("prefetch: the budget is used", max(live) == BUDGET, f"{max(live)} of {BUDGET}")
    low, high = min(o for o, _ in place.values()), max(o + s for o, s in place.values())
    C.check("prefetch: the layers are a ring of slots", high - low <= BUDGET and len({o for o, _ in place.values()}) == 3,
            f"{high - low} bytes, {len({o for o, _ in place.values()})} slots")

    run("fusion-compile", model, "--max-ops=2", "--prefetch-budget=24MiB", "-o", folder / "layers.fsn")
    planned = int(re.search(r"peak = (\d+)", text).group(1))
    seen = int(re.search(r"peak .*\((\d+) bytes\)", run("fusion-run", folder / "layers.fsn", "--inspect").stdout).group(1))
    C.check("prefetch: the module's arena is the planned one", planned == seen, f"{planned}, {seen}")

    rng = np.random.default_rng(1)
    x = rng.integers(-4, 5, (RANKS * SHARD[0], SHARD[1])).astype(np.float32)
    inputs, want = {"x": x}, x
    for i in range(LAYERS):
        inputs[f"p{i}"] = rng.integers(-4, 5, x.shape).astype(np.float32)
        want = np.maximum(want + inputs[f"p{i}"], 0)
    np.savez(folder / "in.npz", **inputs)
    run("fusion-run", folder / "layers.fsn", "--ranks", RANKS, "--inputs", folder / "in.npz", "--threads", 1, "--output-dir", folder / "out")
    wrong = [r for r in range(RANKS) if not np.array_equal(np.load(folder / f"out/rank{r}/y.npy"), want)]
    C.check("prefetch: every rank has the right values", not wrong, str(wrong) if wrong else "")

    answer = subprocess.run([BIN / "fusion-compile", model, "--max-ops=2", "--prefetch-budget=7MiB", "-o", folder / "no.fsn"], capture_output=True, text=True)
    C.check("prefetch: a budget below a layer is refused with the bytes needed",
            answer.returncode == 6 and f"give at least {8 << 20}" in answer.stderr, answer.stderr[:200])


def gatheredProducts(folder):
    """Own rows first, on six processes: the bits of the program as it is written."""
    inputs = Path(__file__).resolve().parents[2] / "Fuse/Inputs"
    model, device = inputs / "gathered-products.mlir", f"--device={inputs / 'slow-link.json'}"
    rng = np.random.default_rng(3)
    shapes = {f"arg{i}": shape for i, shape in enumerate([(1024, 16), (16, 24), (16, 24), (24,), (24, 8), (256, 24, 8)])}
    local = [{name: rng.integers(-2, 3, shape).astype(np.float32) for name, shape in shapes.items()} for _ in range(6)]
    words = []
    for rank, values in enumerate(local):
        for name, value in values.items():
            np.save(folder / f"{name}-{rank}.npy", value)
            words += ["--input", f"{name}@{rank}={folder / f'{name}-{rank}.npy'}"]
    counts = []
    for way in ([], ["--no-fuse=chunks"]):
        run("fusion-compile", model, device, *way, "-o", folder / "rows.fsn")
        shown = run("fusion-run", folder / "rows.fsn", "--inspect").stdout
        counts.append((shown.count("collective '"), shown.count("  turn ")))
        out = folder / f"rows{len(way)}"
        run("fusion-run", folder / "rows.fsn", "--ranks", 6, *words, "--threads", 1, "--output-dir", out)
        for rank in range(6):
            # Ranks of the same dp, by tp.
            x, own = np.concatenate([local[3 * (rank // 3) + i]["arg0"] for i in range(3)]), local[rank]
            first = (x @ own["arg2"]) * np.maximum(x @ own["arg1"] + own["arg3"], 0)
            C.check(f"chunks: rank {rank} has the products of gathered rows {way}", np.array_equal(np.load(out / f"rank{rank}/out0.npy"), first))
    same = all(np.array_equal(np.load(folder / f"rows0/rank{r}/out1.npy"), np.load(folder / f"rows1/rank{r}/out1.npy")) for r in range(6))
    C.check("chunks: what is computed from them has the same bits", same)
    # Where a rank's rows belong, and its successors', depends on the rank: for three of tp.
    C.check("chunks: own rows are first, and no gather more is sent", counts[0][0] <= 3 and counts[0][1] >= 3 and counts[1] == (2, 0), str(counts))


def rowsOfRanks(folder):
    """Each rank's own rows first, those of the others as they come: on two, three and eight processes every rank has the
    products of all rows in rank order, written where they belong."""
    inputs = Path(__file__).resolve().parents[2] / "Fuse/Inputs"
    rng = np.random.default_rng(4)
    w, b = rng.integers(-2, 3, (16, 24)).astype(np.float32), rng.integers(-2, 3, 24).astype(np.float32)
    # By device: moves whole; those of the last rank in chunks; gathers.
    device = json.loads((inputs / "slow-copies.json").read_text())
    device["comm"]["transports"][0]["ops"]["collective_permute"]["us"] = [0.04, 40000000]
    device["comm"]["links"][0]["send_gbs"] = 0.025
    (folder / "slow-sends.json").write_text(json.dumps(device))
    for ranks, link in ((2, "slow-link"), (2, "slow-copies"), (3, "slow-copies"), (8, "slow-copies"), (2, "slow-sends"), (3, "slow-sends"),
                        (8, "slow-sends")):
        rows, columns = 1024, 24
        whole, part = f"tensor<{ranks * rows}x16xf32>", f"tensor<{rows}x16xf32>"
        y = f"tensor<{ranks * rows}x{columns}xf32>"
        model = folder / f"rows{ranks}.mlir"
        model.write_text(f"""fusion.mesh @m(tp = {ranks})
func.func @main(%x: {part} {{fusion.name = "x", fusion.sharding = [["tp"], []]}}, %w: tensor<16x{columns}xf32> {{fusion.name = "w"}}, %b: tensor<{columns}xf32> {{fusion.name = "b"}}) -> ({y} {{fusion.name = "y"}}, {y} {{fusion.name = "z"}}) attributes {{fusion.partitioned}} {{
  %f = fusion.all_gather %x dim = 0 on @m[tp] : ({part}) -> {whole}
  %p = fusion.matmul %f, %w : {whole}, tensor<16x{columns}xf32>
  %c = fusion.broadcast %b dims = [1] : tensor<{columns}xf32> to {y}
  %s = fusion.add %p, %c : {y}
  %r = fusion.relu %s : {y}
  %z = fusion.neg %r : {y}
  return %r, %z : {y}, {y}
}}
""")
        run("fusion-compile", model, f"--device={(folder if link == 'slow-sends' else inputs) / link}.json", "-o", folder / "r.fsn")
        shown = run("fusion-run", folder / "r.fsn", "--inspect").stdout
        # Each rank's rows of the result turn; by gathers, those that are read do too.
        sent, turns = ("all_gather", 2 * ranks - 1) if link == "slow-sends" else ("collective_permute", ranks)
        C.check(f"own rows first: {ranks} ranks by {sent} over {link}, no copy of a product's rows",
                shown.count(" collective '") == shown.count(sent) > 0 and " 0 copies" in shown and shown.count("  turn ") >= turns, shown[shown.find("  turn "):][:900])
        x = rng.integers(-2, 3, (ranks * rows, 16)).astype(np.float32)
        np.savez(folder / "r.npz", x=x, w=w, b=b)
        run("fusion-run", folder / "r.fsn", "--ranks", ranks, "--inputs", folder / "r.npz", "--threads", 1, "--output-dir", folder / f"r{ranks}{link}")
        want = np.maximum(x @ w + b, 0)
        wrong = [r for r in range(ranks) if not np.array_equal(np.load(folder / f"r{ranks}{link}/rank{r}/y.npy"), want) or
                 not np.array_equal(np.load(folder / f"r{ranks}{link}/rank{r}/z.npy"), -want)]
        C.check(f"own rows first: every one of {ranks} ranks has all rows in their order ({link})", not wrong, str(wrong) if wrong else "")


def backward():
    """Products that hide sums: three layers back, a gradient each."""
    t = "tensor<64x64xf32>"
    return f"""fusion.mesh @mesh(dp = 2)
func.func @main(%x: {t} {{fusion.name = "x", fusion.sharding = [["dp"], []]}}, %w: {t} {{fusion.name = "w"}}) -> ({t}, {t}, {t}) attributes {{fusion.partitioned}} {{
  %a = fusion.matmul %x, %w : {t}, {t}
  %s = fusion.all_reduce sum, %a on @mesh[dp] : {t}
  %u = fusion.neg %s : {t}
  %b = fusion.matmul %a, %w : {t}, {t}
  %t = fusion.all_reduce mean, %b on @mesh[dp] : {t}
  %v = fusion.neg %t : {t}
  %c = fusion.matmul %b, %w : {t}, {t}
  %d = fusion.neg %c : {t}
  return %u, %v, %d : {t}, {t}, {t}
}}
"""


def overlap(folder):
    model = folder / "backward.mlir"
    model.write_text(backward())
    rng = np.random.default_rng(2)
    np.savez(folder / "b.npz", x=rng.integers(-2, 3, (128, 64)).astype(np.float32), w=rng.integers(-2, 3, (64, 64)).astype(np.float32))
    results = {}
    for name, flags in (("beside", []), ("in line", ["--no-overlap"])):
        text = run("fusion-compile", model, "--device=a100-80gb", *flags, "--stop-after=schedule").stdout
        C.check(f"overlap: {name}, streams", ("streams = 2" in text) == (name == "beside"))
        run("fusion-compile", model, "--device=a100-80gb", *flags, "-o", folder / "b.fsn")
        run("fusion-run", folder / "b.fsn", "--ranks", 2, "--inputs", folder / "b.npz", "--output-dir", folder / name)
        results[name] = [np.load(folder / name / f"rank{r}/out{i}.npy") for r in range(2) for i in range(3)]
    C.check("overlap: no bit changes", all(np.array_equal(a, b) for a, b in zip(*results.values())))


def simulated(folder):
    model = folder / "backward.mlir"
    answer = run("fusion-compile", model, "--device=a100-80gb", "--simulate=2xa100-80gb", "-o", folder / "s.fsn").stdout
    C.check("simulate: the summary is printed", re.search(r"@main on 2 x a100-80gb: step [0-9.]+ us: computation", answer) is not None, answer[:120])
    other = subprocess.run([BIN / "fusion-compile", model, "--simulate=8xa100-80gb", "-o", folder / "s.fsn"], capture_output=True, text=True)
    C.check("simulate: another number of ranks is refused", other.returncode == 3 and "is for 2 ranks, --simulate asks for 8" in other.stderr, other.stderr[:200])
    for value in ("8", "x", "0xcpu", "8x"):
        usage = subprocess.run([BIN / "fusion-compile", model, f"--simulate={value}"], capture_output=True, text=True)
        C.check(f"simulate: --simulate={value} is wrong usage", usage.returncode == 2 and "write RANKSxDEVICE" in usage.stderr)


def scale(folder):
    """A chain of 95,000 groups, 5,000 sums and their readers: linear, and no recursion."""
    t, groups, sums = "tensor<64xf32>", 95000, 5000
    lines = ["fusion.mesh @m(dp = 8)", f"func.func @main(%x0: {t}) -> {t} {{"]

    def group(result, op, *inputs):
        names = [f"%in{i}" for i in range(len(inputs))]
        lines.append(f"  {result} = fusion.group loop ({', '.join(f'{n} = {v} : {t}' for n, v in zip(names, inputs))}) -> {t} {{\n"
                     f"    %0 = fusion.{op} {', '.join(names)} : {t}\n    fusion.yield %0 : {t}\n  }}")

    for i in range(groups):
        group(f"%x{i + 1}", "exp", f"%x{i}")
        if (i + 1) % (groups // sums) == 0:
            lines.append(f"  %s{i // (groups // sums)} = fusion.all_reduce sum, %x{i + 1} on @m[dp] : {t}")
    group("%r0", "exp", f"%x{groups}")
    for i in range(sums):
        group(f"%r{i + 1}", "add", f"%r{i}", f"%s{i}")
    model = folder / "scale.mlir"
    model.write_text("\n".join(lines) + f"\n  return %r{sums} : {t}\n}}\n")
    passes = ["--fusion-prefetch-all-gather", "--fusion-verify-graph", "--fusion-overlap-collectives=device=a100-80gb", "--fusion-verify-graph"]
    seconds = []
    for extra in ([], passes):
        start = resource.getrusage(resource.RUSAGE_CHILDREN)
        run("fusion-opt", model, *extra, "-o", folder / "scaled.mlir")
        end = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime)
    started = (folder / "scaled.mlir").read_text().count("fusion.async")
    C.check("scale: 100,000 groups and 5,000 sums are scheduled in seconds", started == sums and seconds[1] - seconds[0] < 10,
            f"{started} started, {seconds[1] - seconds[0]:.1f} s of the processor")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        for case in (prefetch, gatheredProducts, rowsOfRanks, overlap, simulated, scale):
            case(Path(name))
    sys.exit(C.finish())

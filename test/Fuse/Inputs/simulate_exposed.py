"""Runs fused functions on two streams, kernels on one and collectives on the other:
simulate_exposed.py LATENCY_US GB_PER_S MLIR COSTS [MLIR COSTS]. COSTS is what
fusion-print-costs wrote. Checks that kernels wait in the first no longer than in the
second, nor than for its last collective and 5 %, and prints the numbers of kernels."""

import json
import re
import sys

WIDTHS = {"f64": 8, "i64": 8, "f32": 4, "i32": 4, "f16": 2, "bf16": 2, "i1": 1}
latency, rate = float(sys.argv[1]), float(sys.argv[2]) * 1e3  # bytes a microsecond


def bytes_of(types):
    total = 0
    for dims, width in re.findall(r"tensor<((?:\d+x)*)(\w+)>", types):
        size = WIDTHS[width]
        for dim in dims.split("x")[:-1]:
            size *= int(dim)
        total += size
    return total


def simulate(mlir, costs):
    """What the kernels wait, what the last collective takes, the number of kernels."""
    kernels = json.load(open(costs))["functions"][0]["kernels"]
    ready = {}  # when a value is there, by name
    compute = sent = busy = last = 0.0
    count = 0
    for line in open(mlir):
        match = re.match(r"    (?:(%\w+)(?::\d+)? = )?fusion\.(\w+)(.*)", line)
        if not match:
            continue
        result, op, rest = match.groups()
        begin = max((ready.get(name, 0.0) for name in re.findall(r"(%\w+)", rest)), default=0.0)
        if op == "group":
            us = kernels[count]["us"]
            compute = end = max(compute, begin) + us
            busy += us
            count += 1
        elif op in ("all_reduce", "reduce_scatter"):
            last = latency + bytes_of(rest.split(" : ")[-1].split("->")[0]) / rate
            sent = end = max(sent, begin) + last
        elif op in ("reshape", "constant"):
            end = begin
        else:
            sys.exit(f"what does fusion.{op} take?")
        if result:
            ready[result] = end
    assert count == len(kernels), (count, len(kernels))
    return max(compute, sent) - busy, last, count


runs = [simulate(mlir, costs) for mlir, costs in zip(sys.argv[3::2], sys.argv[4::2])]
exposed, last, _ = runs[0]
assert exposed <= runs[-1][0] + 0.01, f"{exposed} us exposed, {runs[-1][0]} without"
assert exposed <= 1.05 * last + 0.01, f"{exposed} us exposed, the last collective takes {last}"
print(*(count for _, _, count in runs))

"""Reads the remarks of fusion-bucket-collectives: checks that buckets run one after
the other, none before it is ready, and that no more is exposed behind the backward
pass than the last one and 5 %. Prints the numbers of members, and the other rules."""

import re
import sys

buckets, rules = [], []
for line in sys.stdin:
    remark = re.search(r"remark: \[\w+\] ([\w-]+) \|", line)
    if not remark:
        continue
    if remark[1] != "fuse-bucket":
        if remark[1] not in rules:
            rules.append(remark[1])
        continue
    number = lambda key: float(re.search(rf"\b{key}=([\d.]+)", line)[1])
    buckets.append([number(key) for key in ("us_ready", "us_start", "us_end", "us_exposed", "members")])
assert buckets, "no bucket"
free = 0.0
for ready, start, end, _, _ in buckets:
    assert abs(start - max(free, ready)) < 0.02 and end > start, (ready, start, end, free)
    free = end
ready, start, end = buckets[-1][:3]
exposed = free - ready
assert exposed <= 1.05 * (end - start) + 0.02, f"{exposed} us exposed, the last bucket takes {end - start}"
assert abs(exposed - sum(bucket[3] for bucket in buckets)) < 0.02 * len(buckets)
print(*(int(bucket[4]) for bucket in buckets))
print(*rules, sep="\n")

# ===- calibrate.py - What GPUs send each other, measured --------------------=== #
#
# Each collective by each transport that can do it, for sizes from 64 KB to 256 MB, alone; and
# products beside a stream of collectives, once with more to compute and once with more to
# send, from which follows how much either slows the other. The result is `comm.transports`
# of a device file; everything else of the file is the base's.
#
# ===----------------------------------------------------------------------=== #
"""`fusion-bench calibrate --ranks N`: rows, and the device file of their times."""

from __future__ import annotations

import functools
from typing import Mapping, Optional, Sequence

from .programs import collectives_beside_products
from .rows import Row, Variant

NAME = "calibrate"
#: Bytes of the larger side of a collective.
SIZES = tuple(1 << power for power in range(16, 29, 2))
#: Collectives by transport: a peer copies, it does not add.
OPERATIONS = {
    "nccl": ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "collective_permute"),
    "peer": ("all_gather", "all_to_all", "collective_permute"),
}
#: Collectives of a program, one after the other, so that a launch of the graph is shared.
COUNT = 8
#: What is run beside products, by transport: each rank sends half of it in the first, all of it in the second.
_BESIDE = {"nccl": "all_reduce", "peer": "collective_permute"}
_BESIDE_BYTES = 25 << 20
#: Side of the products; products and collectives where more is computed, and where more is sent.
_SIDE, _COMPUTE, _SEND = 4096, (24, 8), (4, 24)


def rows(ranks: int, sizes: Sequence[int] = SIZES, side: int = _SIDE, beside_bytes: int = _BESIDE_BYTES) -> list[Row]:
    """What is measured: a row for each collective of each transport, and one beside products."""
    def variant(name: str, kind: str, size: int, count: int, transport: str, products: int = 0) -> Variant:
        make = functools.partial(collectives_beside_products, kind, size, count, ranks, side, products)
        return Variant(name, make, ("--no-fuse=buckets,horizontal,vertical,projections",), ranks, transport)

    result = [Row(name=f"{transport}-{kind}", title=f"{kind} by {transport}", kind="sizes",
                  ours=tuple(variant(str(size), kind, size, COUNT, transport) for size in sizes))
              for transport, kinds in OPERATIONS.items() for kind in kinds]
    beside = [variant(f"products {which}", "all_reduce", 0, 0, "", products)
              for which, (products, _count) in (("compute", _COMPUTE), ("send", _SEND))]
    for transport, kind in _BESIDE.items():
        for which, (products, count) in (("compute", _COMPUTE), ("send", _SEND)):
            beside += [variant(f"{transport} {which} alone", kind, beside_bytes, count, transport),
                       variant(f"{transport} {which} both", kind, beside_bytes, count, transport, products)]
    return [*result, Row(name="beside", title="products beside collectives", kind="sizes", ours=tuple(beside))]


def slowdowns(compute: Sequence[float], send: Sequence[float]) -> tuple[float, float]:
    """How much longer kernels take beside collectives and collectives beside kernels (0.19: 19 %).

    `compute`, `send`: times of the products alone, of the collectives alone and of both, of a program in which the
    collectives end first, and of one in which the products do. While both run, each is slowed; then the longer one goes
    on alone. So both times exceed the longer part by what it loses while the other, itself slowed, lasts.
    """
    kernels = comm = 0.0
    for _ in range(200):
        sent = compute[1] * (1 + comm)
        computed = send[0] * (1 + kernels)
        lost = min(max(0.0, (compute[2] - compute[0]) / sent), 0.9)
        delayed = min(max(0.0, (send[2] - send[1]) / computed), 0.9)
        kernels, comm = lost / (1 - lost), delayed / (1 - delayed)
    return kernels, comm


def _us(results: Mapping[str, Mapping], row: str, variant: str) -> Optional[float]:
    return results.get(row, {}).get("ours", {}).get(variant, {}).get("us")


def transports(results: Mapping[str, Mapping], ranks: int, link: str) -> list[dict]:
    """`comm.transports` from the rows that were measured, by name; what is missing is left out."""
    made = []
    for name, kinds in OPERATIONS.items():
        tables: dict[str, dict] = {}
        for kind in kinds:
            entries = results.get(f"{name}-{kind}", {}).get("ours", {})
            measured = sorted((int(size), entry["us"] / COUNT) for size, entry in entries.items() if entry.get("us"))
            if len(measured) > 1:
                tables[kind] = {"bytes": [size for size, _ in measured],
                                "us": [float(f"{us:.4g}") for _size, us in measured]}
        if not tables:
            continue
        entry = {"name": name, "link": link, "ranks": ranks, "ops": tables}
        times = {which: [_us(results, "beside", f"products {which}"), _us(results, "beside", f"{name} {which} alone"),
                         _us(results, "beside", f"{name} {which} both")] for which in ("compute", "send")}
        if all(None not in each for each in times.values()):
            kernels, comm = slowdowns(times["compute"], times["send"])
            entry.update(slowdown_compute=round(kernels, 4), slowdown_comm=round(comm, 4))
        made.append(entry)
    return made


def device_file(base: Mapping, results: Mapping[str, Mapping], ranks: int, facts: Mapping, date: str) -> dict:
    """The base with `comm.transports` of its first link from the rows."""
    comm = dict(base.get("comm", {}))
    link = (comm.get("links") or [{"name": "nvlink"}])[0]["name"]
    kept = [t for t in comm.get("transports", []) if t["link"] != link]
    comm["transports"] = kept + transports(results, ranks, link)
    # Of an earlier measurement nothing is left.
    said = base["source"].partition(" comm.transports:")[0]
    where = f"{ranks} {facts['gpu']}" if facts.get("gpu") else f"{ranks} ranks"
    return {**base, "comm": comm,
            "source": f"{said} comm.transports: measured on {where} of one host, on {date}, by fusion-bench calibrate "
                      f"--ranks {ranks}."}

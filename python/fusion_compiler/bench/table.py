# ===- table.py - Rows for people ------------------------------------------=== #
#
# One line a row while a suite runs, and the table of docs/performance.md from the
# JSON file afterwards.
#
# ===----------------------------------------------------------------------=== #
"""Lines and tables of results."""

from __future__ import annotations

from typing import Mapping, Optional, Sequence

_VERDICTS = {True: "pass", False: "FAIL", None: "open"}


def first_line(error: BaseException) -> str:
    """An exception in one line of at most 300 characters."""
    said = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {said}"[:300]


def number(value: Optional[float]) -> str:
    """Three significant digits, but no fraction above 100."""
    if value is None:
        return "-"
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def percent(value: Optional[float]) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _time(entry: Optional[Mapping]) -> Optional[float]:
    return entry.get("us") if entry else None


def _cell(entry: Optional[Mapping]) -> str:
    if not entry:
        return "-"
    if "us" in entry:
        wrong = entry.get("check", {}).get("ok") is False
        return number(entry["us"]) + (" WRONG" if wrong else "") + (" (host)" if entry.get("clock") == "host" else "")
    return "error" if "error" in entry else "-"


def line(row: Mapping) -> str:
    """What is printed when a row is done."""
    ours = " ".join(f"{name} {_cell(entry)}" for name, entry in row["ours"].items()) or "none"
    peers = " ".join(f"{name} {_cell(entry)}" for name, entry in row["peers"].items()) or "none"
    figures = row["figures"]
    said = [f"{row['name']:<28} ours: {ours} | peers: {peers} | limit {number(_time(row['limit']))}"]
    if figures.get("speedup"):
        said.append(f"{figures['speedup']:.2f}x")
    if figures.get("bandwidth"):
        said.append(percent(figures["bandwidth"]) + " of copy")
    if row["bar"]:
        said.append(_VERDICTS[row["pass"]])
    return " | ".join(said)


def errors(row: Mapping) -> list[str]:
    """What went wrong in a row, a line each."""
    said = []
    for side in ("ours", "peers"):
        for name, entry in row[side].items():
            if "error" in entry:
                said.append(f"{name}: {entry['error']}")
            elif entry.get("check", {}).get("ok") is False:
                check = entry["check"]
                said.append(f"{name}: wrong result: {check.get('why') or check}")
            elif entry.get("stable") is False:
                said.append(f"{name}: other bits after timing than before: a race")
    return said


def markdown(document: Mapping) -> str:
    """The table of docs/performance.md: microseconds of device time, medians."""
    env = document["environment"]
    copy = document.get("copy_bandwidth", {}).get("best")
    modes = [name for name in document.get("variants", []) if name != "unfused"]
    peers = document.get("peers", [])
    head = ["work", *modes, "each op alone", *peers, "limit", "faster than the best peer", "of copy bandwidth",
            "alone", "bar", ""]
    rows = [f"{document['date']}, {env.get('gpu')}, driver {env.get('driver')}, CUDA {env.get('cuda')}, "
            f"torch {env.get('torch')}" + (f", JAX {env['jax']}" if env.get("jax") else "")
            + f"; copy {copy / 1e12:.3f} TB/s. Microseconds of device time, medians of {document['runs']} rounds. "
            f"`{document['command']}`" if copy else
            f"{document['date']}, {env.get('gpu')}. `{document['command']}`", "",
            "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in document["rows"]:
        figures = row["figures"]
        speedup = figures.get("speedup")
        cells = [row["title"], *(_cell(row["ours"].get(mode)) for mode in modes), _cell(row["ours"].get("unfused")),
                 *(_cell(row["peers"].get(peer)) for peer in peers), number(_time(row["limit"])),
                 f"{speedup:.2f}x" if speedup else "-", percent(figures.get("bandwidth")),
                 percent(row.get("bandwidth", {}).get("unfused")), row["bar"],
                 _VERDICTS[row["pass"]] if row["bar"] else ""]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def summary(rows: Sequence[Mapping]) -> str:
    barred = [row for row in rows if row["bar"]]
    counts = {verdict: sum(row["pass"] is verdict for row in barred) for verdict in (True, False, None)}
    wrong = sum(bool(errors(row)) for row in rows)
    return (f"{len(rows)} rows: {counts[True]} bars passed, {counts[False]} failed, {counts[None]} open; "
            f"{wrong} rows with errors")

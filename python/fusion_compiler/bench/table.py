# ===- table.py - Rows for people ------------------------------------------=== #
#
# One line a row while a suite runs, and the tables of docs/performance.md from the
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


def ratio(row: Mapping, figure: str, show) -> str:
    """A figure, with its interval if it has one."""
    value, ends = row["figures"].get(figure), row.get("intervals", {}).get(figure)
    if value is None:
        return "-"
    return show(value) + (f" [{show(ends[0])}, {show(ends[1])}]" if ends else "")


def verdict(row: Mapping) -> str:
    if not row["bar"]:
        return ""
    said = [*(["tuned"] if row.get("judged") == "tuned" else []), *(["close"] if row.get("close") else [])]
    return _VERDICTS[row["pass"]] + (f" ({', '.join(said)})" if said else "")


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
        said.append(verdict(row))
    return " | ".join(said)


def errors(row: Mapping) -> list[str]:
    """What went wrong in a row, a line each; the same work on other data has said it."""
    said: list[str] = []
    if row.get("data", "cold") != "cold":
        # What the graph of several runs did is that row's own.
        return [f"{name}: other bits from several runs in one graph" for name, entry in row["ours"].items()
                if entry.get("same_repeated") is False]
    for side in ("ours", "peers"):
        for name, entry in row[side].items():
            if name.partition("+")[0] in row[side] and "+" in name:
                continue  # the same work, replayed: said once
            if "error" in entry:
                said.append(f"{name}: {entry['error']}")
            elif entry.get("check", {}).get("ok") is False:
                check = entry["check"]
                said.append(f"{name}: wrong result: {check.get('why') or check}")
            elif entry.get("stable") is False:
                said.append(f"{name}: other bits after timing than before: a race")
    return said


def _rows(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(cells) + " |" for cells in (head, *rows)]
    return [lines[0], "|" + "---|" * len(head), *lines[1:]]


def _launched(entry: Optional[Mapping]) -> str:
    """Kernels, and copies if there are any."""
    counts = (entry or {}).get("launched")
    if not counts:
        return "-"
    return f"{counts['kernels']:g}" + (f" + {counts['copies']:g}" if counts["copies"] else "")


def _traffic(entry: Optional[Mapping]) -> str:
    found = (entry or {}).get("dram")
    return f"{found['of_planned']:.3f}" if found else "-"


def about(document: Mapping) -> list[str]:
    """What a reader needs to repeat a run: a list."""
    env, copy = document["environment"], document.get("copy_bandwidth", {})
    machine = [f"{document['date']}, {env.get('gpu')}, driver {env.get('driver')}, CUDA {env.get('cuda')}"]
    for name in ("torch", "triton", "cudnn", "jax"):
        if env.get(name):
            machine.append(f"{name} {env[name]}")
    said = ["- " + ", ".join(machine) + "."]
    if copy.get("best"):
        said.append(f"- Copy of 1 GiB: {copy['best'] / 1e12:.3f} TB/s" + (f" by {copy['by']}" if "by" in copy else "")
                    + f". Medians of {document['runs']} rounds.")
    compiler, library = document.get("compiler") or {}, document.get("runtime") or {}
    hashes = [f"{name} `{part['sha256'][:12]}`" for name, part in
              (("fusion-compile", compiler), ("libfusion-rt", library)) if part.get("sha256")]
    if hashes:
        said.append("- SHA-256 of " + ", ".join(hashes) + "; of each module in its row.")
    return [*said, f"- `{document['command']}`"]


def markdown(document: Mapping) -> str:
    """The tables of docs/performance.md: microseconds, medians; then what was launched and how much it moved."""
    modes = [name for name in document.get("variants", []) if name != "unfused"]
    peers = document.get("peers", [])
    head = ["work", *modes, "each op alone", *peers, "limit", "faster than the best peer", "of the limit's time",
            "of copy bandwidth", "alone", "bar", ""]
    times, counts = [], []
    for row in document["rows"]:
        ours = row["ours"]
        times.append([
            row["title"], *(_cell(ours.get(mode)) for mode in modes), _cell(ours.get("unfused")),
            *(_cell(row["peers"].get(peer)) for peer in peers), number(_time(row["limit"])),
            ratio(row, "speedup", lambda v: f"{v:.2f}x"), ratio(row, "of_limit", lambda v: f"{v:.3f}"),
            ratio(row, "bandwidth", percent), percent(row.get("bandwidth", {}).get("unfused")), row["bar"],
            verdict(row)])
        if row.get("data", "cold") != "cold":
            continue  # launches the same
        first = next(iter(ours.values()), {})
        counts.append([
            row["title"], *(_launched(ours.get(mode)) for mode in modes), _launched(ours.get("unfused")),
            *(_launched(row["peers"].get(peer)) for peer in peers if _graphed(peer)), _launched(row["limit"]),
            _traffic(first), _traffic(ours.get("unfused")), f"`{first['sha256'][:12]}`" if "sha256" in first else "-"])
    second = ["kernels (+ copies) of one run", *modes, "each op alone", *filter(_graphed, peers), "limit",
              "DRAM bytes / (inputs + outputs)", "alone", f"module ({modes[0] if modes else '-'})"]
    return "\n".join([*about(document), "", *_rows(head, times), "", *_rows(second, counts)]) + "\n"


def placed(page: str, text: str, suite: str) -> str:
    """The page with the tables between its marks for the suite; the tables alone if it has none."""
    first, last = f"<!-- fusion-bench {suite} -->\n", f"<!-- end of fusion-bench {suite} -->\n"
    before, found, rest = page.partition(first)
    _old, ended, after = rest.partition(last)
    return before + first + text + last + after if found and ended else text


def _graphed(peer: str) -> bool:
    """Op by op a peer launches what its graph holds."""
    return peer not in ("eager", "inductor")


def summary(rows: Sequence[Mapping]) -> str:
    barred = [row for row in rows if row["bar"]]
    counts = {verdict: sum(row["pass"] is verdict for row in barred) for verdict in (True, False, None)}
    wrong = sum(bool(errors(row)) for row in rows)
    return (f"{len(rows)} rows: {counts[True]} bars passed, {counts[False]} failed, {counts[None]} open; "
            f"{wrong} rows with errors")

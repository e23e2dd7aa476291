# ===- report.py - Rows on several GPUs, for people --------------------------=== #
#
# A line a row while a suite runs; afterwards, for each kind of row, a table of times
# (contenders down, rows across, what the compiler predicted in parentheses), one of figures
# with their intervals, and the bars.
#
# ===----------------------------------------------------------------------=== #
"""Lines and tables of suites on several GPUs."""

from __future__ import annotations

from typing import Mapping, Optional, Sequence

from ..table import about as about_run
from ..table import number

_VERDICTS = {True: "pass", False: "FAIL", None: "open"}
_KINDS = {"behind": "All-reduces beside products", "gather": "A gather in front of a product",
          "train": "Training steps"}
#: What a figure is, in words.
_FIGURES = {
    "hidden": "hidden (judged)", "of_serial": "time / serial", "of_product": "time / product alone",
    "speedup": "serial / time", "of_one": "step / one GPU's", "of_ddp": "step / best captured DDP's",
    "of_unclipped": "with clip / without", "of_bound": "step / max(one GPU's, wire)", "of_unfused": "unfused / step",
    "overlap nccl": "in line / overlapped, nccl", "overlap peer": "in line / overlapped, peer",
}


def _milliseconds(entry: Optional[Mapping]) -> str:
    if not entry:
        return "-"
    if "us" not in entry:
        return "error" if "error" in entry else "-"
    said = f"{entry['us'] / 1000:.3f}"
    if entry.get("predicted_us"):
        said += f" ({entry['predicted_us'] / 1000:.3f})"
    if entry.get("check", {}).get("ok") is False:
        said += " WRONG"
    return said + (" host" if entry.get("clock") == "host" else "")


def _figure(found: Optional[Mapping]) -> str:
    return f"{found['value']:.3f} [{found['low']:.3f}, {found['high']:.3f}]" if found else "-"


def line(row: Mapping) -> str:
    """What is printed when a row is done."""
    if "error" in row:
        return f"{row['name']:<28} error: {row['error']}"
    times = " ".join(f"{name} {_milliseconds(entry)}" for name, entry in row["ours"].items())
    peers = " ".join(f"{name} {_milliseconds(entry)}" for name, entry in row["peers"].items()) or "none"
    bars = "; ".join(f"{bar['bar']}: {number(bar['value'])} {_VERDICTS[bar['pass']]}" for bar in row["bars"])
    return (f"{row['name']:<28} ms (predicted): ours: {times} | peers: {peers}" + (f" | {bars}" if bars else "")
            + f" | {row['seconds']} s, {row['opening_s']} s of it to open")


def errors(row: Mapping) -> list[str]:
    """What went wrong in a row, a line each."""
    said = [row["error"]] if "error" in row else []
    for side in ("ours", "peers"):
        for name, entry in row.get(side, {}).items():
            if "error" in entry:
                said.append(f"{name}: {entry['error']}")
            elif entry.get("check", {}).get("ok") is False:
                said.append(f"{name}: wrong result: {entry['check']}")
    return said


def notes(row: Mapping) -> list[str]:
    """What modules of ours said about their run, such as another transport than was asked for."""
    return list(dict.fromkeys(f"{name}: {note}" for name, entry in row.get("ours", {}).items()
                              for note in entry.get("notes", ())))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(cells) + " |" for cells in (head, *rows)]
    return [lines[0], "|" + "---|" * len(head), *lines[1:], ""]


def _names(rows: Sequence[Mapping], side: str) -> list[str]:
    """Contenders of all rows in the order in which they come."""
    result: list[str] = []
    for row in rows:
        result += [name for name in row.get(side, {}) if name not in result]
    return result


def markdown(document: Mapping) -> str:
    """The tables of docs/performance.md, in milliseconds, medians."""
    said = about_run(document)
    said += [f"- `{command}`" for command in document.get("commands", []) if command != document["command"]]
    for kind, title in _KINDS.items():
        rows = [row for row in document["rows"] if row.get("kind") == kind and "ours" in row]
        if not rows:
            continue
        said += ["", f"{title}, ms (predicted):", ""]
        times = [[f"ours: {name}", *(_milliseconds(row["ours"].get(name)) for row in rows)]
                 for name in _names(rows, "ours")]
        times += [[f"PyTorch: {name}", *(_milliseconds(row["peers"].get(name)) for row in rows)]
                  for name in _names(rows, "peers")]
        said += _table(["", *(row["name"] for row in rows)], times)
        figures = _names(rows, "figures")
        said += _table(["", *(row["name"] for row in rows)],
                       [[_FIGURES.get(name, name), *(_figure(row["figures"].get(name)) for row in rows)]
                        for name in figures])
        bars = [[row["title"], str(row["judged"]), bar["bar"], number(bar["value"]), _VERDICTS[bar["pass"]]]
                for row in rows for bar in row["bars"]]
        if bars:
            said += _table(["work", "judged", "bar", "value", ""], bars)
        checks = [[row["title"], name, str(check["replays"]), str(check["elements"]), str(check["wrong"])]
                  for row in rows for name, entry in row["ours"].items()
                  if "replays" in (check := entry.get("check", {}))]
        if checks:
            said += _table(["every element after so many replays", "of", "replays", "elements", "wrong"], checks)
    return "\n".join(said).rstrip("\n") + "\n"


def summary(rows: Sequence[Mapping]) -> str:
    bars = [bar for row in rows for bar in row.get("bars", ())]
    counts = {verdict: sum(bar["pass"] is verdict for bar in bars) for verdict in (True, False, None)}
    wrong = sum(bool(errors(row)) for row in rows)
    return (f"{len(rows)} rows: {counts[True]} bars passed, {counts[False]} failed, {counts[None]} open; "
            f"{wrong} rows with errors")


def exit_code(rows: Sequence[Mapping]) -> int:
    """1 if a result of ours was wrong, else 4 if a module or a row could not be had or run, else 0."""
    entries = [entry for row in rows for entry in row.get("ours", {}).values()]
    if any(entry.get("check", {}).get("ok") is False for entry in entries):
        return 1
    return 4 if any("error" in entry for entry in entries) or any("error" in row for row in rows) else 0


def merged(documents: Sequence[Mapping]) -> dict:
    """One document of several: of each row the last that was measured, in the order of the first."""
    result = {**documents[-1], "rows": []}
    rows: dict[str, Mapping] = {}
    for document in documents:
        for row in document["rows"]:
            if row["name"] not in rows or "error" not in row:
                rows[row["name"]] = row
    result["rows"] = list(rows.values())
    commands = [command for document in documents for command in document.get("commands", [document.get("command")])]
    result["commands"] = [c for i, c in enumerate(commands) if c and c not in commands[:i]]
    return result

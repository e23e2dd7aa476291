# ===- test_bench_ranks_run.py - fusion-bench on several ranks, whole runs ---=== #
#
# Small rows on host ranks: modules for the CPU that fusion-run keeps open, and in place of
# PyTorch a script that answers like its workers.
#
# ===----------------------------------------------------------------------=== #
"""Runs of the suites on several ranks, end to end."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from conftest import BIN
from fusion_compiler.bench.ranks import calibrate, cli, measure, rows
from fusion_compiler.bench.ranks.compile import compile_rows
from fusion_compiler.bench.modules import read_manifest
from fusion_compiler.cli import main

pytestmark = pytest.mark.skipif(not (BIN / "fusion-run").exists(), reason="no fusion-run is built")

WORDS = ["--target", "cpu", "--bin-dir", str(BIN), "--peers", "none", "--runs", "2", "--run-options", "--threads 1"]

_PEERS = """
import json, socket, sys
ranks, path = int(sys.argv[1]), sys.argv[2]
sides = []
for rank in range(ranks):
    side = socket.socket(socket.AF_UNIX); side.connect(path); sides.append(side)
    side.sendall(f"rank {rank}\\n".encode())
files = [side.makefile("r") for side in sides]
while True:
    lines = [file.readline().strip() for file in files]
    if not lines[0]:
        break
    for rank, (line, side) in enumerate(zip(lines, sides)):
        word, _, rest = line.partition(" ")
        answer = {"gpu": "G", "torch": "0"} if word == "about" else {"us": [100.0 + rank], "host": False}
        if word in ("open", "close"):
            answer = {"error": "no such op"} if rest == "copy engine" else {"seconds": 0.5}
        side.sendall((json.dumps(answer) + "\\n").encode())
"""


def small(ranks):
    return [rows.behind(16, 16, 16, 4, 0.5, buckets=2, elements=512, ranks=ranks),
            rows.gather(16, 16, 16, rows.FAST, [rows.Bar("of_serial", 1000.0)], ranks),
            rows.gather(16, 16, 16, rows.SLOW, [], ranks)]


def step(link, ranks):
    return rows.train("tiny", link, ranks, layers=1, hidden=16, heads=2, seq=8, vocab=16, batch=2)


def test_overlap_on_two_and_three_ranks(monkeypatch, tmp_path):
    """Results are right on every rank; the parts of a run that was cut are not measured again."""
    monkeypatch.setitem(cli.SUITES, "overlap", small)
    out, page = tmp_path / "out.json", tmp_path / "page.md"
    page.write_text("before\n<!-- fusion-bench overlap -->\n<!-- end of fusion-bench overlap -->\nafter\n")
    assert main(["bench", "overlap", *WORDS, "--json", str(out), "--filter", "behind", "--replays", "20"]) == 0
    first = json.loads(out.read_text())
    both = first["rows"][0]["ours"]["both.auto"]
    # Two parameters of 512 elements on two ranks.
    assert both["check"]["ok"] and both["check"]["replays"] >= 20 and both["check"]["elements"] == 2048
    assert len(both["rounds"]) == 2 and both["predicted_us"] > 0
    assert first["rows"][0]["figures"]["hidden"]["of"][:2] == ["both.auto", "products"]
    assert main(["bench", "overlap", *WORDS, "--json", str(out), "--markdown", str(page), "--keep"]) == 0
    second = json.loads(out.read_text())
    assert [row["name"] for row in second["rows"]] == ["behind-4x16x16x16", "gather-16x16x16", "gather-16x16x16~slow"]
    assert second["rows"][0] == first["rows"][0] and len(second["commands"]) == 2
    assert second["rows"][1]["ours"]["both.auto"]["check"]["ok"] and second["rows"][1]["pass"] is True
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "| ours: both.auto |" in text
    third = tmp_path / "three.json"
    assert main(["bench", "overlap", *WORDS, "--ranks", "3", "--json", str(third), "--filter", "behind"]) == 0
    assert json.loads(third.read_text())["rows"][0]["ours"]["both.auto"]["check"]["elements"] == 3072


def test_steps_take_turns_with_peers(tmp_path):
    """All variants of a step run; peers are timed, and one that can't be had is that one's error."""
    row, folder = step(rows.FAST, 2), tmp_path / "modules"
    folder.mkdir()
    assert compile_rows([row], str(folder), str(BIN / "fusion-compile"), "cpu", "h200", [], lambda _: None) == 0
    said: list[str] = []
    settings = measure.Settings(
        str(folder), read_manifest(str(folder)), str(BIN / "fusion-run"), rounds=2, count=1, options=["--threads", "1"],
        peer_command=lambda ranks, _words, path: [sys.executable, "-c", _PEERS, str(ranks), path], say=said.append)
    made = measure.Runner(settings, str(tmp_path)).row(row)
    assert not said
    assert {name for name, entry in made["ours"].items() if "us" in entry} == {v.name for v in row.ours}
    assert all(made["ours"][name]["check"]["ok"] for name in made["ours"] if name != "wire")
    # Every gradient is reduced once, in two bytes or four an element; the loss comes with them.
    state = settings.manifest["modules"]["tiny.one.fsn"]["inputs"]
    elements = sum(int(np.prod(x["shape"])) for x in state if x["name"].endswith(".m"))
    assert 2 * elements < made["ours"]["wire"]["sent_bytes"] <= 4 * elements + 4
    assert made["peers"]["ddp 25 compiled+graph"]["us"] == made["peers"]["fsdp2 eager"]["us"] == 101.0
    assert made["environment"]["gpu"] == "G"
    assert set(made["figures"]) >= {"of_one", "of_ddp", "of_unclipped", "of_bound", "of_unfused"}
    behind = rows.behind(16, 16, 16, 4, 0.5, buckets=2, elements=512)
    assert compile_rows([behind], str(folder), str(BIN / "fusion-compile"), "cpu", "h200", [], lambda _: None) == 0
    settings.manifest = read_manifest(str(folder))
    made = measure.Runner(settings, str(tmp_path)).row(behind)
    assert made["peers"]["copy engine"] == {"error": "no such op"} and made["peers"]["all_reduce"]["us"] == 101.0
    assert said == ["  peer: copy engine: no such op"]


def test_a_module_that_is_missing_or_damaged_is_its_own_error(monkeypatch, tmp_path):
    monkeypatch.setitem(cli.SUITES, "overlap", small)
    folder, out = tmp_path / "modules", tmp_path / "out.json"
    words = ["bench", "overlap", *WORDS, "--filter", "^behind"]
    assert main([*words, "--compile-only", "--modules", str(folder)]) == 0
    damaged = folder / "behind-4x16x16x16.both.nccl.fsn"
    damaged.write_bytes(damaged.read_bytes()[:100])
    manifest = read_manifest(str(folder))
    del manifest["modules"]["behind-4x16x16x16.both.peer.fsn"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert main([*words, "--modules", str(folder), "--json", str(out)]) == 4
    ours = json.loads(out.read_text())["rows"][0]["ours"]
    assert ours["both.peer"]["error"] == "not among the modules"
    assert ours["both.nccl"]["error"].startswith("ended with exit status 4: error: ")
    assert ours["both.auto"]["check"]["ok"]


def test_calibrate_writes_a_device_file_that_the_compiler_reads(monkeypatch, tmp_path):
    make = calibrate.rows
    monkeypatch.setattr(calibrate, "rows", lambda ranks: make(ranks, (1 << 12, 1 << 14), 16, 1 << 12))
    out = tmp_path / "mine.json"
    assert main(["bench", "calibrate", *WORDS, "--ranks", "2", "--name", "mine", "--json", str(out)]) == 0
    device = json.loads(out.read_text())
    assert device["name"] == "mine" and device["units"] == 132  # the base's
    nccl, peer = device["comm"]["transports"]
    assert (nccl["name"], nccl["link"], nccl["ranks"]) == ("nccl", "nvlink", 2)
    assert set(nccl["ops"]) == set(calibrate.OPERATIONS["nccl"]) and set(peer["ops"]) == set(calibrate.OPERATIONS["peer"])
    assert nccl["ops"]["all_reduce"]["bytes"] == [1 << 12, 1 << 14] and min(nccl["ops"]["all_reduce"]["us"]) > 0
    assert nccl["slowdown_compute"] >= 0 and nccl["slowdown_comm"] >= 0


@pytest.mark.parametrize("words, said", [
    (["overlap", "--ranks", "1"], "--ranks: 1, expected 2 or more"),
    (["overlap", "--filter", "no such row"], "finds no row of overlap"),
    (["overlap", "--filter", "("], "no regular expression"),
    (["overlap", "--contenders", "no such one"], "--contenders: 'no such one' finds none of ours"),
    (["overlap", "--compile-only"], "--compile-only needs --modules DIR"),
    (["--from", "a.json"], "a.json: can't be read as results"),
])
def test_what_a_user_can_get_wrong(words, said, capsys):
    assert main(["bench", *words]) == 2
    assert said in capsys.readouterr().err

"""./dev prints help at once: nothing is installed, built or imported for it."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def bare(tmp_path):
    """A tree of the files that git tracks, so without a build or a .venv, and a PATH on
    which any tool that builds or installs tells on itself."""
    tree, tools = tmp_path / "tree", tmp_path / "bin"
    tree.mkdir()
    tools.mkdir()
    for name in ("dev", "scripts", "examples", "test", "CMakePresets.json", "requirements.txt"):
        (tree / name).symlink_to(ROOT / name)
    # What readlink -f follows is the tree's own entry point.
    (tree / "dev").unlink()
    (tree / "dev").write_bytes((ROOT / "dev").read_bytes())
    (tree / "dev").chmod(0o755)
    for name in ("cmake", "ninja", "apt-get", "dpkg-query", "pip", "sudo"):
        (tools / name).write_text('#!/bin/sh\necho "$0" >> "$TOLD"\nexit 1\n')
        (tools / name).chmod(0o755)
    return tree, tools


@pytest.mark.parametrize("command, option", [("demo", "--strict"), ("fuzz", "--graphs"), ("bench", "--rounds")])
@pytest.mark.parametrize("word", ["--help", "-h"])
def test_help_needs_nothing(bare, tmp_path, command, option, word):
    tree, tools = bare
    told = tmp_path / "told"
    answer = subprocess.run([tree / "dev", command, word], capture_output=True, text=True, timeout=60,
                            env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "TOLD": str(told)})
    assert answer.returncode == 0, answer.stderr
    assert f"usage: ./dev {command}" in answer.stdout
    assert option in answer.stdout
    assert not told.exists(), told.read_text()
    assert not (tree / "build").exists() and not (tree / ".venv").exists()

"""./dev new-pass writes files that compile, and overwrites nothing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LLVM = Path("/usr/lib/llvm-22")
BIN = Path(os.environ.get("FUSION_BIN") or ROOT / "build/dev/bin").resolve()
BUILD = BIN.parent


@pytest.fixture
def tree(tmp_path):
    """The files of the phases that the script reads and changes."""
    for phase in ("Simplify", "Fuse", "Codegen", "Schedule"):
        for file in (f"include/fusion/{phase}/Passes.td", f"include/fusion/{phase}/Passes.h", f"lib/{phase}/CMakeLists.txt"):
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, tmp_path / file)
        (tmp_path / f"test/{phase}").mkdir(parents=True)
    return tmp_path


def newPass(tree, *arguments):
    return subprocess.run([sys.executable, ROOT / "scripts/new_pass.py", "--root", tree, *arguments],
                          capture_output=True, text=True)


@pytest.mark.parametrize("phase", ["Simplify", "Codegen"])
def test_what_it_writes_compiles(tree, phase):
    answer = newPass(tree, "--phase", phase, "fusion-count-things")
    assert answer.returncode == 0, answer.stderr
    source = tree / f"lib/{phase}/CountThings.cpp"
    assert len(source.read_text().split("\n")[0]) == 80
    assert "  CountThings.cpp\n" in (tree / f"lib/{phase}/CMakeLists.txt").read_text()
    test = tree / f"test/{phase}/count-things.mlir"
    subprocess.run([BIN / "fusion-opt", test, "-o", tree / "parsed.mlir"], check=True)
    format = subprocess.run(["clang-format-22", "--style=LLVM", "--dry-run", "-Werror", source], capture_output=True, text=True)
    assert format.returncode == 0, format.stderr
    subprocess.run([LLVM / "bin/mlir-tblgen", "-gen-pass-decls", "-name", phase, "-I", LLVM / "include",
                    tree / f"include/fusion/{phase}/Passes.td", "-o", tree / f"include/fusion/{phase}/Passes.h.inc"], check=True)
    compiled = subprocess.run(["clang++-22", "-std=c++17", "-fsyntax-only", "-fno-rtti", "-I", tree / "include",
                               "-I", ROOT / "include", "-I", BUILD / "include", "-isystem", LLVM / "include", source],
                              capture_output=True, text=True)
    assert compiled.returncode == 0, compiled.stderr[-2000:]


def test_declared_in_order(tree):
    assert newPass(tree, "--phase", "Fuse", "fusion-count-things").returncode == 0
    files = [line.strip() for line in (tree / "lib/Fuse/CMakeLists.txt").read_text().splitlines() if line.endswith(".cpp")]
    assert files == sorted(files)
    assert newPass(tree, "--phase", "Fuse", "fusion-add-things").returncode == 0
    files = [line.strip() for line in (tree / "lib/Fuse/CMakeLists.txt").read_text().splitlines() if line.endswith(".cpp")]
    assert files == sorted(files)


def test_twice_is_refused_and_changes_nothing(tree):
    assert newPass(tree, "fusion-count-things").returncode == 0
    before = {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    again = newPass(tree, "fusion-count-things")
    assert again.returncode == 1 and again.stderr.startswith("error: lib/Simplify/CountThings.cpp exists already")
    assert {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("name", ["count-things", "fusion-count", "fusion-Count-things", "fusion-count-things!"])
def test_bad_name(tree, name):
    answer = newPass(tree, name)
    assert answer.returncode == 1 and answer.stderr.startswith(f"error: bad name '{name}'")


def test_a_declared_name_is_refused(tree):
    answer = newPass(tree, "fusion-fold-batch-norm")
    assert answer.returncode == 1 and "choose another name" in answer.stderr

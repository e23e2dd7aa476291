#!/usr/bin/env python3
"""Plugins that are damaged, of another version or wrong, in fusion-compile and
fusion-opt: one line that names file, fault and what to do, and 5; passes that fail,
crash or change values are named with their plugin.

The plugins with passes are those that the build makes for tests; the others are a
few lines of C each, with the stamp of that build.
"""

import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from _support import BIN, ROOT, Checks

PLUGINS = BIN.parent / "test/plugins"
LLVM = "/usr/lib/llvm-22/include"
MODEL = """\
func.func @main(%x: tensor<2x4xf32> {fusion.name = "x"}, %y: tensor<2x4xf32> {fusion.name = "y"})
    -> (tensor<2x4xf32> {fusion.name = "z"}) {
  %0 = fusion.div %x, %y : tensor<2x4xf32>
  %1 = fusion.relu %0 : tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}
"""
# The C view of MLIR's entry point: version of the interface, name, version, callback.
ENTRY = """
struct Info { unsigned api; const char *name, *version; void (*add)(void); };
static void add(void) { %s }
struct Info mlirGetPassPluginInfo(void) { struct Info info = {%d, "p", "1", add}; return info; }
"""


def buildPlugins(folder):
    """Small plugins by name; `stamp.o` is what fusion_add_plugin adds."""
    includes = [f"-I{ROOT / 'include'}", f"-I{BIN.parent / 'include'}", f"-I{LLVM}"]
    stamp = ROOT / "cmake/PluginStamp.cpp"
    subprocess.run(["clang++-22", "-fPIC", "-c", stamp, *includes, "-o", "stamp.o"], cwd=folder, check=True)
    # The same note with another version in it, of the same length.
    bytes_ = (folder / "stamp.o").read_bytes()
    (folder / "old.o").write_bytes(bytes_.replace(b"Fusion 0.1.", b"Fusion 0.0."))
    # Another patch release of LLVM: loads.
    (folder / "patch.o").write_bytes(bytes_.replace(b"LLVM 22.1.8)", b"LLVM 22.1.7)"))
    sources = {"none": ("int nothing;", "stamp.o"), "api": (ENTRY % ("", 7), "stamp.o"),
               "lost": (ENTRY % ("missing();", 1), "stamp.o"), "crashes": (ENTRY % ("*(volatile int *)0 = 0;", 1), "stamp.o"),
               "bare": (ENTRY % ("", 1), None), "old": (ENTRY % ("", 1), "old.o"), "patch": (ENTRY % ("", 1), "patch.o"),
               "good": (ENTRY % ("", 1), "stamp.o")}
    for name, (text, note) in sources.items():
        (folder / f"{name}.c").write_text("void missing(void);" + text)
        subprocess.run(["clang-22", "-w", "-shared", "-fPIC", f"{name}.c", *([note] if note else []), "-o", f"{name}.so"],
                       cwd=folder, check=True)
    whole = (folder / "good.so").read_bytes()
    (folder / "empty.so").write_bytes(b"")
    (folder / "text.so").write_text("no library\n")
    (folder / "half.so").write_bytes(whole[:len(whole) // 2])
    (folder / "header.so").write_bytes(whole[:70])
    (folder / "tail.so").write_bytes(whole[:-1])
    # The size in memory of the last segment that is loaded (PT_LOAD).
    table, count = struct.unpack_from("<Q", whole, 32)[0], struct.unpack_from("<H", whole, 56)[0]
    last = max(table + 56 * i for i in range(count) if struct.unpack_from("<I", whole, table + 56 * i)[0] == 1)
    for name, size in (("wide", 2**64 - 4096), ("narrow", 0)):
        (folder / f"{name}.so").write_bytes(whole[:last + 40] + struct.pack("<Q", size) + whole[last + 48:])
    (folder / "twin.so").write_bytes((PLUGINS / "BreakGroup.so").read_bytes())
    (folder / "folder.so").mkdir()


# What is wrong with each, in the order of the words.
REFUSED = {
    "gone.so": ["No such file"], "folder.so": ["it is no file"], "empty.so": ["no shared library"],
    "text.so": ["no shared library"], "half.so": ["cut short"], "header.so": ["cut short"], "tail.so": ["cut short"],
    "wide.so": ["it is damaged"], "narrow.so": ["it is damaged"],
    "none.so": ["no entry point mlirGetPassPluginInfo"], "api.so": ["version 7", "version 1"],
    "lost.so": ["'missing'", "lacks"], "crashes.so": ["failed while it registered itself"],
    "bare.so": ["doesn't say what it was built against", "fusion_add_plugin"],
    "old.so": ["built against Fusion 0.0.", "this is Fusion 0.1."],
}


def main():
    if not (PLUGINS / "BadPasses.so").exists():
        print(f"skipped: {PLUGINS}/BadPasses.so was not built")
        return 77
    checks = Checks()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "m.mlir").write_text(MODEL)
        buildPlugins(folder)

        def tool(name, *arguments):
            return subprocess.run([BIN / name, "m.mlir", *arguments], cwd=folder, capture_output=True, text=True, timeout=120)

        def refused(title, answer, *words):
            lines = answer.stderr.splitlines()
            checks.check(title, answer.returncode == 5 and len(lines) == 1 and lines[0].startswith("error: cannot load the plugin '") and
                         all(word in lines[0] for word in words) and answer.stdout == "", f"{answer.returncode} {answer.stderr[:300]}")

        for plugin, words in REFUSED.items():
            refused(f"fusion-compile, {plugin}", tool("fusion-compile", "-o", "m.fsn", "--plugin", plugin), f"'{plugin}'", "--plugin", *words)
            refused(f"fusion-opt, {plugin}", tool("fusion-opt", f"--load-pass-plugin={plugin}"), f"'{plugin}'", "--load-pass-plugin", *words)
        refused("a pass plugin is no dialect plugin", tool("fusion-opt", "--load-dialect-plugin", "good.so"), "mlirGetDialectPluginInfo")
        taken = ["'test-break-group'", f"the plugin '{PLUGINS}/BreakGroup.so'"]
        refused("fusion-compile, a name that is taken", tool("fusion-compile", "-o", "m.fsn", f"--plugin={PLUGINS}/BreakGroup.so", "--plugin=twin.so"), "'twin.so'", *taken)
        refused("fusion-opt, a name that is taken", tool("fusion-opt", f"--load-pass-plugin={PLUGINS}/BreakGroup.so", "--load-pass-plugin=twin.so"), "'twin.so'", *taken)
        checks.check("no module was written", not (folder / "m.fsn").exists())
        for plugin in ("good.so", "patch.so", "./good.so", str(folder / "good.so")):
            done = tool("fusion-compile", "-o", "m.fsn", f"--plugin={plugin}"), tool("fusion-opt", f"--load-pass-plugin={plugin}", f"--load-pass-plugin={plugin}")
            checks.check(f"{plugin} loads", all(answer.returncode == 0 and answer.stderr == "" for answer in done), str([answer.stderr[:200] for answer in done]))

        # Pipelines that don't parse.
        bad = f"--plugin={PLUGINS}/BadPasses.so"
        done = tool("fusion-compile", "-o", "m.fsn", bad, "--run-before=fuse:test-crash")
        checks.check("a pass that must be nested", done.returncode == 2 and "write fuse:func.func(test-crash)" in done.stderr and "--plugin" not in done.stderr, done.stderr)
        done = tool("fusion-compile", "-o", "m.fsn", bad, "--run-before=fuse:func.func(test-crush)")
        checks.check("a misspelt pass", done.returncode == 2 and "test-crush" in done.stderr and f"loaded with --plugin: '{PLUGINS}/BadPasses.so'" in done.stderr, done.stderr)

        # Passes that fail.
        reproducer = folder / "m.fsn.reproducer.mlir"
        for name, said in (("test-fail-silently", "failed without saying why"), ("test-crash", "crashed")):
            who = f"the pass '{name}' of the plugin '{PLUGINS}/BadPasses.so' {said}"
            done = tool("fusion-compile", "-o", "m.fsn", bad, f"--run-before=fuse:func.func({name})")
            checks.check(f"fusion-compile, {name}", done.returncode == 9 and f"error: {who}" in done.stderr and "m.fsn.reproducer.mlir" in done.stderr, done.stderr[:400])
            first = reproducer.read_text().splitlines()[0]
            checks.check(f"{name}: the reproducer says what it needs", first.startswith("//") and f"--load-pass-plugin='{PLUGINS}/BadPasses.so'" in first, first)
            again = subprocess.run([BIN / "fusion-opt", reproducer, f"--load-pass-plugin={PLUGINS}/BadPasses.so", "--run-reproducer"], cwd=folder, capture_output=True, text=True)
            checks.check(f"{name}: the reproducer shows it", again.returncode == (9 if name == "test-crash" else 1) and f"the pass '{name}' of the plugin" in again.stderr, again.stderr[:300])
            reproducer.unlink()
        done = tool("fusion-opt", f"--load-pass-plugin={PLUGINS}/BadPasses.so", "--pass-pipeline=builtin.module(func.func(test-fail-silently))")
        checks.check("fusion-opt, a silent failure is told", done.returncode == 1 and done.stderr.startswith("error: the pass 'test-fail-silently' of the plugin") and done.stderr.count("\n") == 1, done.stderr[:300])
        done = tool("fusion-opt", f"--load-pass-plugin={PLUGINS}/BadPasses.so", "--pass-pipeline=builtin.module(test-fail-loudly)")
        checks.check("fusion-opt, an error is told once", done.returncode == 1 and done.stderr.count("error:") == 1, done.stderr[:300])
        done = tool("fusion-compile", "--stop-after=fuse", bad, "--run-before=fuse:func.func(test-crash)")
        checks.check("a crash that ends the process", done.returncode == 9 and done.stderr.startswith("error: internal error: the compiler crashed while the pass 'test-crash' of the plugin"), done.stderr[:300])
        done = tool("fusion-compile", "-o", "m.fsn", bad, "--run-before=fuse:test-fail-loudly")
        checks.check("a failure with a reason", done.returncode == 3 and "not to my taste" in done.stderr and "note: the pass 'test-fail-loudly' of the plugin" in done.stderr and not reproducer.exists(), done.stderr[:300])

        # Threads of MLIR's pool that crash, several at once.
        (folder / "many.mlir").write_text("".join(MODEL.replace("@main", f"@f{i}") for i in range(64)))
        done = subprocess.run([BIN / "fusion-opt", "many.mlir", f"--load-pass-plugin={PLUGINS}/BadPasses.so",
                               "--pass-pipeline=builtin.module(func.func(test-crash))"], cwd=folder, capture_output=True, text=True, timeout=120)
        checks.check("a crash in a thread", done.returncode == 9 and "crashed while the pass 'test-crash' of the plugin" in done.stderr and
                     f"with '{PLUGINS}/BadPasses.so' loaded" in done.stderr, done.stderr[:300])

        # Two kernels of a millisecond, or one.
        done = tool("fusion-compile", "-o", "m.fsn", bad, "--cost-model=test-constant", "--explain")
        checks.check("a cost model of a plugin", done.returncode == 0 and "2000.0 apart, 1000.0 fused" in " ".join(done.stdout.split()), done.stdout[:1200] + done.stderr[:300])
        done = tool("fusion-compile", "-o", "m.fsn", "--cost-model=test-constant")
        checks.check("without the plugin there is none", done.returncode == 2 and "unknown cost model 'test-constant'" in done.stderr, done.stderr[:300])

        # Passes that change values: relu and abs differ on the negative elements of x / y.
        wrong = f"--plugin={PLUGINS}/BreakGroup.so"
        for phase, parent in (("simplify", "func.func"), ("fuse", "func.func"), ("codegen", "fusion.group")):
            before = f"--run-before={phase}:func.func(test-break-group{{from=fusion.relu parent={parent} to=fusion.abs}})"
            done = tool("fusion-compile", "-o", "wrong.fsn", wrong, before, "--verify-fusion")
            checks.check(f"{phase}: a wrong pass is named", done.returncode == 1 and not (folder / "wrong.fsn").exists() and
                         f"the pass 'test-break-group' of the plugin '{PLUGINS}/BreakGroup.so' changed values: result 0 of @main" in done.stderr, done.stderr[:300])
            done = tool("fusion-compile", "-o", "wrong.fsn", wrong, before)
            checks.check(f"{phase}: unasked, nothing is said", done.returncode == 0 and done.stderr == "", done.stderr[:300])
            (folder / "wrong.fsn").unlink()
            done = tool("fusion-compile", "-o", "right.fsn", wrong, f"--run-before={phase}:func.func(test-break-group{{from=fusion.add}}),canonicalize", "--verify-fusion")
            checks.check(f"{phase}: right passes are right", done.returncode == 0 and done.stderr == "", done.stderr[:300])
        done = tool("fusion-compile", "-o", "m.fsn", bad, "--run-before=fuse:func.func(test-approximate)", "--verify-fusion")
        checks.check("other roundings are a warning", done.returncode == 0 and "warning: the pass 'test-approximate' of the plugin" in done.stderr and "changed roundings" in done.stderr, done.stderr[:300])
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())

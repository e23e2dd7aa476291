#!/usr/bin/env python3
# ===- device_code.py - Kernels as PTX and cubins -------------------------=== #
#
# Compiles models for GPUs and reads the code that the modules hold; no GPU is
# needed. The PTX must have what makes a kernel fast (16-byte accesses, parameters
# read where they lie, nothing in local memory) and keep what numerics promises;
# the assembler must say that nothing spills, and what would is cut. Then the assembler's faults, with
# programs that only look like one.
#
# ===----------------------------------------------------------------------=== #
"""Checks device code end to end; prints one line a check, and counts."""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from _support import BIN, Checks, run  # noqa: E402

checks = Checks()
DEVICES = BIN.parent / "share/fusion/devices"
TARGETS = {"sm_80": "8.0", "sm_90": "8.0", "sm_100": "8.6"}  # with the PTX version each needs
REAL = [op for op in """abs ceil floor round sqrt rsqrt reciprocal exp exp2 expm1 log log2 log1p sin cos tan asin acos
    atan sinh cosh asinh acosh atanh tanh erf neg sign relu sigmoid silu softplus mish hard_swish""".split()]
BINARY = "add sub mul div rem max min pow atan2".split()


def function(inputs, body, results):
    """The text of @main: `inputs` and `results` are name -> type."""
    arguments = ", ".join(f"%{name}: {kind}" for name, kind in inputs.items())
    types = ", ".join(results.values())
    values = ", ".join(f"%{name}" for name in results)
    return f"func.func @main({arguments}) -> ({types}) {{\n{body}\n  return {values} : {types}\n}}\n"


def everyOp(element):
    """One model with each elementwise op on vectors of `element`."""
    kind = f"tensor<4096x{element}>"
    lines, results = [], {}
    for op in REAL:
        lines.append(f"  %{op} = fusion.{op} %x : {kind}")
        results[op] = kind
    for op in BINARY:
        lines.append(f"  %{op} = fusion.{op} %x, %y : {kind}")
        results[op] = kind
    for way in ("erf", "tanh"):
        lines.append(f"  %gelu_{way} = fusion.gelu {way}, %x : {kind}")
        results["gelu_" + way] = kind
    return function({"x": kind, "y": kind}, "\n".join(lines), results)


def rows(element):
    kind, row = f"tensor<512x1024x{element}>", f"tensor<1024x{element}>"
    body = (f"  %0 = fusion.layer_norm %x scale %s bias %s epsilon = 1.0e-5 axis = 1 : {kind}, {row}, {row}\n"
            f"  %1 = fusion.softmax %x axis = 1 : {kind}")
    return function({"x": kind, "s": row}, body, {"0": kind, "1": kind})


def chain(element):
    kind = f"tensor<65536x{element}>"
    body = (f"  %0 = fusion.mul %x, %y : {kind}\n  %1 = fusion.add %0, %x : {kind}\n"
            f"  %2 = fusion.relu %1 : {kind}")
    return function({"x": kind, "y": kind}, body, {"2": kind})


def kernelsOf(text):
    """name -> (threads, registers, spilled bytes) from --inspect."""
    found = re.findall(r"^kernel (\w+): .*\n  (\d+) threads, ([1-9]\d*) registers, (\d+) bytes spilled", text, re.M)
    return {name: tuple(map(int, numbers)) for name, *numbers in found}


class Compiled:
    """A module's PTX, cubin and what --inspect says."""

    def __init__(self, folder, text, *flags):
        (folder / "m.mlir").write_text(text)
        run("fusion-compile", "m.mlir", "-o", "m.fsn", *flags, cwd=folder)
        self.bytes = (folder / "m.fsn").read_bytes()
        self.said = run("fusion-run", "--inspect", "m.fsn", cwd=folder).stdout
        self.ptx = self.section("PTX").decode()
        self.cubin = self.section("device code")
        self.kernels = kernelsOf(self.said)
        self.entries = re.findall(r"^\.visible \.entry (\w+)\(", self.ptx, re.M)

    def section(self, name):
        found = re.search(rf"section {name}\s+offset (\d+) size (\d+)", self.said)
        return self.bytes[int(found[1]):int(found[1]) + int(found[2])] if found else b""


def waits(ptx):
    """Entries that wait, once, for the kernels before them ahead of any access to memory that these write."""
    found = []
    for name, body in re.findall(r"\.visible \.entry (\w+)\((.*?)\n}", ptx, re.S):
        before, wait, after = body.partition("griddepcontrol.wait;")
        if wait and ".global" not in before.replace("cvta.to.global", "") and "griddepcontrol" not in after:
            found.append(name)
    return found


def checkCode(folder):
    for target, version in TARGETS.items():
        for element in ("f32", "bf16", "f16", "f64"):
            code = Compiled(folder, everyOp(element), f"--target=cuda:{target}", "--no-fuse=horizontal,vertical")
            name = f"{target} {element}"
            checks.check(f"{name}: header", f".version {version}\n.target {target}\n" in code.ptx)
            checks.check(f"{name}: a kernel an op", len(code.entries) == len(REAL) + len(BINARY) + 2, len(code.entries))
            checks.check(f"{name}: cubin", code.cubin[:4] == b"\x7fELF" and set(code.kernels) == set(code.entries))
            checks.check(f"{name}: registers", all(0 < used <= 255 for _, used, _ in code.kernels.values()))
            checks.check(f"{name}: no spills", all(spilled == 0 for _, _, spilled in code.kernels.values()))
            checks.check(f"{name}: nothing is called", not re.search(r"^\s*call", code.ptx, re.M) or element == "f64")
            checks.check(f"{name}: waits for kernels before it", waits(code.ptx) == ([] if target == "sm_80" else code.entries))
            checks.check(f"{name}: NaN passes max", "max.NaN.f32" in code.ptx or element == "f64")
            checks.check(f"{name}: precise", "div.rn." in code.ptx and "sqrt.rn." in code.ptx)


def checkAccesses(folder):
    for element, wide in (("f32", "v4.b32"), ("bf16", "v4.b32"), ("f16", "v4.b32"), ("f64", "v2.b64")):
        for name, text in (("chain", chain(element)), ("rows", rows(element))):
            code = Compiled(folder, text, "--target=cuda:sm_90")
            loads = re.findall(r"ld\.global\.[\w.]+", code.ptx)
            stores = re.findall(r"st\.global\.[\w.]+", code.ptx)
            checks.check(f"{name} {element}: 16-byte accesses",
                         loads and stores and all(wide in op for op in loads + stores), set(loads + stores))
            checks.check(f"{name} {element}: parameters in place", "ld.param.b64" in code.ptx and ".local" not in code.ptx)
            checks.check(f"{name} {element}: waits for kernels before it", waits(code.ptx) == code.entries)
    strict = Compiled(folder, chain("f32"), "--target=cuda:sm_90", "--fp=strict")
    fast = Compiled(folder, chain("f32"), "--target=cuda:sm_90")
    checks.check("strict rounds products", "fma." not in strict.ptx and "mul.rn.f32" in strict.ptx)
    checks.check("fast contracts", "fma.rn.f32" in fast.ptx)
    power = function({"x": "tensor<64xf32>", "y": "tensor<64xf32>"}, "  %p = fusion.pow %x, %y : tensor<64xf32>", {"p": "tensor<64xf32>"})
    inside = [Compiled(folder, power, "--target=cuda:sm_90", f"--fp={fp}").ptx.count("fma.rn.f32") for fp in ("strict", "fast")]
    checks.check("libdevice is never contracted", inside[0] == inside[1] > 0, inside)
    for element, convert in (("bf16", "cvt.rn.bf16x2.f32"), ("f16", "cvt.rn.f16x2.f32")):
        code = Compiled(folder, chain(element), "--target=cuda:sm_90")
        checks.check(f"{element} is rounded in pairs", convert in code.ptx)


def checkOptions(folder):
    first = Compiled(folder, rows("f32"), "--target=cuda:sm_90")
    again = Compiled(folder, rows("f32"), "--target=cuda:sm_90")
    checks.check("the same bytes", first.bytes == again.bytes)
    alone = Compiled(folder, rows("f32"), "--target=cuda:sm_90", "--ptxas=off")
    checks.check("without assembler: PTX only", alone.ptx == first.ptx and not alone.cubin and not alone.kernels)
    checks.check("it says so", "provenance ptxas: none: PTX only" in alone.said)
    told = run("fusion-compile", "m.mlir", "-o", "m.fsn", "--target=cuda:sm_90", "--ptxas=off", "--explain", cwd=folder)
    checks.check("it explains so", "PTX only" in told.stdout + told.stderr)
    checks.check("it says by what", re.search(r"provenance ptxas: \d+\.\d+\.\d+, /.*ptxas\n", first.said))
    checks.check("fp is recorded", "provenance fp: fast" in first.said)


def checkRanks(folder):
    """A step of two ranks for a GPU: the sum of what each computes."""
    text = """func.func @main(%x: tensor<8x64xf32> {fusion.batch_arg}, %w: tensor<64xf32>) -> tensor<64xf32> {
  %0 = fusion.relu %x : tensor<8x64xf32>
  %1 = fusion.reduce sum, %0 dims = [0] : tensor<8x64xf32>
  %2 = fusion.add %1, %w : tensor<64xf32>
  return %2 : tensor<64xf32>
}
"""
    for target in TARGETS:
        made = Compiled(folder, text, f"--target=cuda:{target}", "--mesh=dp=2")
        collectives = re.findall(r" collective '.*': (\w+) sum .*on \[dp\] over nccl f32 \[64\]", made.said)
        checks.check(f"ranks, {target}: one reduction", collectives == ["all_reduce"], collectives)
        checks.check(f"ranks, {target}: kernels", len(made.entries) >= 2 and len(made.kernels) == len(made.entries), made.entries)


def checkTf32(folder):
    """What --allow-tf32 reaches: the calls on f32, where it was asked for."""
    left, right = "tensor<64x32x{}>", "tensor<32x16x{}>"
    body = "\n".join(f"  %{name} = fusion.matmul %x{name}, %w{name} : {left.format(name)}, {right.format(name)}"
                     for name in ("f32", "f16", "f64"))
    inputs = {side + name: kind.format(name) for name in ("f32", "f16", "f64") for side, kind in (("x", left), ("w", right))}
    text = function(inputs, body, {name: f"tensor<64x16x{name}>" for name in ("f32", "f16", "f64")})
    for flags, expected in (((), 0), (("--allow-tf32",), 1)):
        said = Compiled(folder, text, "--target=cuda:sm_90", *flags).said
        calls = [line.split() for line in said.splitlines() if " matmul " in line]
        named = f"with {flags[0]}" if flags else "without a flag"
        checks.check(f"calls {named}", len(calls) == 3, len(calls))
        checks.check(f"tf32 {named}", [words.count("tf32") for words in calls if "f32" in words] == [expected]
                     and sum("tf32" in words for words in calls) == expected)
        checks.check(f"recorded {named}", ("--allow-tf32" in said) == bool(flags))
    fails("a CPU's device file", folder, 2, ["--device", "'cpu' is a CPU"], "--target=cuda:sm_90", "--device=cpu")
    fails("tf32 on a CPU", folder, 2, ["--allow-tf32", "cpu"], "--target=cpu", "--allow-tf32")
    fails("tf32 and strict", folder, 2, ["--allow-tf32", "--fp=strict"], "--fp=strict", "--allow-tf32")


def checkAttentionGrad(folder):
    """One call that writes three results, and a kernel beside it whose threads wait for each other twice."""
    for element, mask in (("bf16", "1x8x64x128"), ("f16", "")):
        shapes = {"q": "4x8x64x32", "k": "4x2x128x32", "v": "4x2x128x16", "g": "4x8x64x16"}
        if mask:
            shapes["m"] = mask
        kinds = {name: f"tensor<{shape}x{element}>" for name, shape in shapes.items()}
        body = ("  %0:3 = fusion.attention_grad %q, %k, %v, %g " + ("mask %m " if mask else "") + "scale = 0.25 "
                + ("" if mask else "causal ") + ": " + ", ".join(kinds.values()))
        text = function(kinds, body, {"0#0": kinds["q"], "0#1": kinds["k"], "0#2": kinds["v"]})
        for target in TARGETS:
            made = Compiled(folder, text, f"--target=cuda:{target}")
            name = f"gradients of attention, {element}, {target}"
            calls = [line for line in made.said.splitlines() if " attention_grad " in line and "call '" in line]
            checks.check(name + ": one call", len(calls) == 1 and " launch '" not in made.said, len(calls))
            checks.check(name + ": mask or causal", all((" +mask" in line, " causal" in line) == (bool(mask), not mask) for line in calls))
            checks.check(name + ": the stand-in", len(made.entries) == 1 and len(re.findall(r"bar(rier)?\.sync", made.ptx)) == 2,
                         made.entries)
            checks.check(name + ": no spills", all(spilled == 0 for _, _, spilled in made.kernels.values()), made.kernels)
        strict = Compiled(folder, text, "--target=cuda:sm_90", "--fp=strict").said
        checks.check(f"strict gradients of attention, {element}: products", "attention_grad" not in strict.split("provenance")[0]
                     and strict.count(" matmul ") >= 5, strict.count(" matmul "))


def spilling(op, width, inputs=0):
    """A group of which `width` values, each by `op` of the last and x, are live at once; with inputs, those are read
    before and after instead, and one value stands between."""
    kind = "tensor<65536xf32>"
    names = ["x", *(f"y{i}" for i in range(inputs))]
    lines, last = [], "x"

    def line(op, *operands):
        lines.append(f"    %v{len(lines)} = fusion.{op} {', '.join('%' + o for o in operands)} : {kind}")
        return f"v{len(lines) - 1}"

    for name in names[1:]:
        last = line("add", last, name)
    values = [line("neg", last)]
    while len(values) < width:
        values.append(line(op, values[-1], "x"))
    for value in values[1:]:
        last = line("add", last, value)
    for value in (values if not inputs else []):
        last = line("mul", last, value)
    for name in names[1:]:
        last = line("mul", last, name)
    ports = ", ".join(f"%{name}_: {kind}" for name in names)
    bound = ", ".join(f"%{name} = %{name}_ : {kind}" for name in names)
    return (f"func.func @main({ports}) -> {kind} {{\n  %g = fusion.group loop ({bound}) -> {kind} {{\n"
            + "\n".join(lines) + f"\n    fusion.yield %{last} : {kind}\n  }}\n  return %g : {kind}\n}}\n")


# A gather of rows that a slice names: positions are taken apart and put together in vectors, whose flags LLVM 22 once
# gave to the scalar that the address of the result is made of.
SLICED_ROWS = """  %0 = fusion.slice %ids starts = [0, 1, 0] limits = [4, 2, 32] strides = [1, 1, 1] : tensor<4x2x32xi64>
  %1 = fusion.reshape %0 : tensor<4x1x32xi64> to tensor<128xi64>
  %2 = fusion.gather %table, %1 axis = 0 : tensor<256x64xbf16>, tensor<128xi64>
  %3 = fusion.reshape %2 : tensor<128x64xbf16> to tensor<4x32x64xbf16>
  %4 = fusion.broadcast %rows dims = [1, 2] : tensor<32x64xbf16> to tensor<4x32x64xbf16>
  %5 = fusion.add %3, %4 : tensor<4x32x64xbf16>"""
BYTES = {"b16": 2, "b32": 4, "b64": 8}


def accesses(ptx, block, thread, bases):
    """(instruction, address, bytes) of the loads and stores of one thread of a kernel without loops; loads of integers
    give 0. `bases` are the operands' addresses."""
    values, found, skipping = {}, [], None

    def read(word):
        special = {"%ctaid.x": block, "%tid.x": thread}
        return special[word] if word in special else values.get(word, 0) if word[0] == "%" else int(word)

    for line in ptx.splitlines():
        line = line.split("//")[0].strip().rstrip(";")
        if skipping:
            skipping = None if line == f"{skipping}:" else skipping
            continue
        if not line or line[0] in ".{}" or line.endswith(":") or line.startswith(("griddepcontrol", "ret")):
            continue
        if branch := re.fullmatch(r"@(!?)(%p\d+) bra\s+(\S+)", line):
            skipping = branch[3] if bool(values[branch[2]]) != bool(branch[1]) else None
            continue
        name, rest = line.split(None, 1)
        word = [each.strip() for each in re.split(r",(?![^{]*})", rest.strip())]
        address = re.search(r"\[(%\w+)\+?(-?\d+)?\]", rest)
        at = address and read(address[1]) + int(address[2] or 0)
        kind, type_ = name.split(".")[0], name.split(".")[-1]
        if name.startswith("ld.param"):
            values[word[0]] = bases[at // 8]
        elif kind in ("ld", "st"):
            found.append((name, at, BYTES[type_] * (int(re.search(r"\.v(\d)", name)[1]) if ".v" in name else 1)))
        elif name == "mov.b64" and not word[1].startswith(("%", "{")):
            values[word[0]] = 0  # where parameters lie
        elif kind in ("mov", "cvt", "cvta") and "{" not in rest:
            values[word[0]] = read(word[1])
        elif kind == "setp":
            a, b = read(word[1]), read(word[2])
            values[word[0]] = {"gt": a > b, "lt": a < b, "ge": a >= b, "le": a <= b, "eq": a == b, "ne": a != b}[name.split(".")[1]]
        elif kind in ("add", "sub", "mul", "shl", "shr", "and", "or", "max", "min", "bfe", "mad") and "bf16" not in name:
            a, b, *c = map(read, word[1:])
            values[word[0]] = {"add": lambda: a + b, "sub": lambda: a - b, "mul": lambda: a * b, "shl": lambda: a << b,
                               "shr": lambda: a >> b, "and": lambda: a & b, "or": lambda: a | b, "max": lambda: max(a, b),
                               "min": lambda: min(a, b), "bfe": lambda: a >> b & (1 << c[0]) - 1,
                               "mad": lambda: a * b + c[0]}[kind]()
    return found


def checkAddresses(folder):
    kinds = {"ids": "tensor<4x2x32xi64>", "table": "tensor<256x64xbf16>", "rows": "tensor<32x64xbf16>"}
    code = Compiled(folder, function(kinds, SLICED_ROWS, {"5": "tensor<4x32x64xbf16>"}), "--target=cuda:sm_90")
    ptx, bases = code.ptx.partition("{")[2], [index << 32 for index in range(1, 5)]
    written, read = [], set()
    for block in range(4):
        for thread in range(256):
            for name, at, size in accesses(ptx, block, thread, bases):
                if name.startswith("st"):
                    written += range(at - bases[3], at - bases[3] + size)
                elif at >> 32 == 1:
                    read.add(at - bases[0])
    want = {8 * (64 * i + 32 + j) for i in range(4) for j in range(32)}
    checks.check("sliced rows: all of the result is written, once", sorted(written) == list(range(4 * 32 * 64 * 2)),
                 f"{len(written)} bytes, {len(set(written))} of them different")
    checks.check("sliced rows: the slice's indices are read", read == want, f"{sorted(read ^ want)[:8]}")


def checkSpills(folder):
    """What spills as one kernel, by the assembler's word, is cut until nothing spills; where estimates decide, too."""
    device = json.loads((DEVICES / "h200.json").read_text())
    limits = {"whole": dict(registers_per_thread=10**6, registers_per_unit=10**9),  # nothing seems too large
              "real": dict(threads_per_block=32, resident_blocks=1)}  # as many registers as a thread can have
    for name, values in limits.items():
        (folder / f"{name}.json").write_text(json.dumps({**device, **values}))
    for name, text in (("200 powers", spilling("pow", 200)), ("236 quotients", spilling("div", 236)),
                       ("220 angles", spilling("atan2", 220)), ("a waist", spilling("mul", 1, inputs=100))):
        whole = Compiled(folder, text, "--target=cuda:sm_90", f"--device={folder}/whole.json").kernels
        checks.check(f"{name}: one kernel spills", len(whole) == 1 and all(k[2] > 0 for k in whole.values()), whole)
        for limit in (f"{folder}/real.json", "h200"):
            parts = Compiled(folder, text, "--target=cuda:sm_90", f"--device={limit}").kernels
            checks.check(f"{name}: parts do not spill, {Path(limit).stem}",
                         len(parts) > 1 and all(k[2] == 0 for k in parts.values()), parts)
    waist = Compiled(folder, spilling("mul", 1, inputs=100), "--target=cuda:sm_90").kernels
    checks.check("a waist: cut there", len(waist) == 2, waist)
    # The probe decides: without an assembler the estimate says that 200 powers are 213 registers, which a thread has.
    (folder / "m.mlir").write_text(spilling("pow", 200))
    for flag, several in (("--ptxas=off", False), ("--fp=fast", True)):
        run("fusion-compile", "m.mlir", "-o", "m.fsn", "--target=cuda:sm_90", f"--device={folder}/real.json", flag,
            cwd=folder)
        said = run("fusion-run", "--inspect", "m.fsn", cwd=folder).stdout
        count = len(re.findall(r"^kernel ", said, re.M))
        checks.check(f"who decides, {flag}", (count > 1) == several, count)


def fails(name, folder, code, words, *flags, environment=None):
    answer = subprocess.run([BIN / "fusion-compile", "m.mlir", "-o", "none.fsn", "--target=cuda:sm_90", *flags],
                            cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300,
                            env={**os.environ, **(environment or {})})
    told = [word for word in words if word not in answer.stderr]
    checks.check(name, answer.returncode == code and not told and not (folder / "none.fsn").exists(),
                 f"exit {answer.returncode}, {answer.stderr[:300]!r}" if told or answer.returncode != code else "")
    return answer.stderr


def checkFaults(folder):
    (folder / "m.mlir").write_text(chain("f32"))

    def fake(name, script):
        path = folder / name
        path.write_text(f"#!/bin/sh\nif [ \"$1\" = --version ]; then\n"
                        f"echo 'Cuda compilation tools, release 11.0, V11.0.1'; exit 0; fi\n{script}\n")
        path.chmod(0o755)
        return f"--ptxas={path}"

    fails("unknown target", folder, 2, ["cuda:sm_75", "cuda:sm_80, cuda:sm_90, cuda:sm_100"], "--target=cuda:sm_75")
    fails("fast on a CPU", folder, 2, ["--fp=fast"], "--target=cpu", "--fp=fast")
    fails("no program", folder, 5, ["/nowhere/ptxas", "--ptxas"], "--ptxas=/nowhere/ptxas")
    fails("another program", folder, 5, ["/bin/true", "no version"], "--ptxas=/bin/true")
    fails("too old", folder, 5, ["does not know sm_90", "newer"],
          fake("old", "echo \"ptxas fatal   : Value 'sm_90' is not defined for option 'gpu-name'\" >&2; exit 1"))
    fails("no cubin", folder, 5, ["wrote no cubin"], fake("empty", "exit 0"))
    fails("ended by a signal", folder, 5, ["signal 9"], fake("killed", "kill -9 $$"))
    said = fails("refused", folder, 9, ["kernel 'k0'", "bad instruction", "kept in"],
                 fake("refuses", "n=$(grep -n 'ret;' /dev/stdin | head -n 1 | cut -d: -f1)\n"
                      "echo \"ptxas /dev/stdin, line $n; error   : bad instruction\" >&2; exit 255"),
                 environment={"TMPDIR": str(folder)})
    kept = re.search(r"kept in '([^']+)'", said)
    checks.check("its input is kept", kept and ".visible .entry k0(" in Path(kept[1]).read_text())
    checks.check("nothing else is left", {p.suffix for p in folder.glob("fusion-*")} == {".ptx"})


def main():
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        if "none: PTX only" in Compiled(folder, chain("f32"), "--target=cuda:sm_90").said:
            checks.skip("device code", "no ptxas: run ./dev setup, or set CUDA_HOME")
            return checks.finish() and 77
        checkCode(folder)
        checkAccesses(folder)
        checkAddresses(folder)
        checkSpills(folder)
        checkOptions(folder)
        checkRanks(folder)
        checkTf32(folder)
        checkAttentionGrad(folder)
        checkFaults(folder)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())

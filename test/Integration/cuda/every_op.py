#!/usr/bin/env python3
"""Every op of the dialect on a GPU: covered by a case with each element type it
takes, or refused with a reason; every emitter alone and in a launch with others.

What needs no GPU is checked everywhere; where there is one, the small models of
the bundle run on it too. The whole bundle: bundle/make.py, bundle/check.py.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "bundle"))
import _gpu  # noqa: E402,F401
from _support import BIN, ROOT, Checks, run  # noqa: E402
from cases import ALL  # noqa: E402
from make import kernelsOf  # noqa: E402
from models import Instance, allFamilies, allModels, smallModels  # noqa: E402

# What gives a model its structure; cases have them around or beside their ops.
STRUCTURE = {"parameter": "declares what get_parameter reads", "yield": "ends a group", "group": "made by the compiler",
             "mesh": "names ranks, computes nothing",
             "after": "keeps a value computed again apart, and is dropped when groups are final"}

MESH = "fusion.mesh @m(dp = 2)\n"


def function(body, result="tensor<4xf32>", operand="tensor<4xf32>"):
    return f"func.func @main(%a: {operand}) -> {result} {{\n  {body}\n  return %r : {result}\n}}\n"


def command(text):
    return ("fusion.program @p batch = [1, 1] streams = 1 events = 1 peak = 0 {\n"
            "  fusion.segment @in0 input size = 16 align = 64\n  fusion.segment @out0 output size = 16 align = 64\n"
            f"  fusion.port input \"x\" @in0 : tensor<4xf32>\n  {text}\n}}\n")


COPY = "fusion.copy stream = 0 from #fusion.range<@in0, 0, 16> to #fusion.range<@out0, 0, 16> size = #fusion.extent<0 * B + 16>"
PROGRAM = "what the compiler writes, not what it reads: a module without @main"
# op -> a model of two ranks; ranks.py runs them on two GPUs.
ON_RANKS = {
    "axis_index": MESH + function("%r = fusion.axis_index @m[dp] : tensor<i64>", "tensor<i64>"),
    "all_reduce": MESH + function("%r = fusion.all_reduce sum, %a on @m[dp] : tensor<4xf32>"),
    "all_gather": MESH + function("%r = fusion.all_gather %a dim = 0 on @m[dp] : (tensor<4xf32>) -> tensor<8xf32>", "tensor<8xf32>"),
    "reduce_scatter": MESH + function(
        "%r = fusion.reduce_scatter sum, %a dim = 0 on @m[dp] : (tensor<4xf32>) -> tensor<2xf32>", "tensor<2xf32>"),
    "all_to_all": MESH + function(
        "%r = fusion.all_to_all %a split_dim = 0 concat_dim = 0 on @m[dp] : (tensor<4xf32>) -> tensor<4xf32>"),
    "collective_broadcast": MESH + function("%r = fusion.collective_broadcast %a root = 0 on @m[dp] : tensor<4xf32>"),
    "collective_permute": MESH + function(
        "%r = fusion.collective_permute %a sources = [0, 1] targets = [1, 0] on @m[dp] : tensor<4xf32>"),
    "rank_concat": MESH + function(
        "%s = fusion.collective_permute %a sources = [0, 1] targets = [1, 0] on @m[dp] : tensor<4xf32>\n"
        "  %r = fusion.rank_concat %a, %s on @m[dp] : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>", "tensor<8xf32>"),
    "rank_slice": MESH + function(
        "%s = fusion.all_reduce sum, %a on @m[dp] : tensor<8xf32>\n"
        "  %p = fusion.rank_slice %s start = 0 on @m[dp] : (tensor<8xf32>) -> tensor<4xf32>\n"
        "  %r = fusion.neg %p : tensor<4xf32>", operand="tensor<8xf32>"),
    "await": MESH + function(
        "%f = fusion.async stream = 1 -> tensor<4xf32> {\n    %s = fusion.all_reduce sum, %a on @m[dp] : tensor<4xf32>\n"
        "    fusion.yield %s : tensor<4xf32>\n  }\n  %r = fusion.await %f : !fusion.future<tensor<4xf32>>"),
}
# op -> (why, a model that has it).
REFUSED = {
    "async": ("a region holds collectives and groups", function(
        "%f = fusion.async stream = 1 -> tensor<4xf32> {\n    %n = fusion.neg %a : tensor<4xf32>\n    fusion.yield %n : tensor<4xf32>\n  }\n"
        "  %r = fusion.await %f : !fusion.future<tensor<4xf32>>")),
    "kernel_call": ("kernels in C are a processor's; kernels in CUDA are not compiled yet", function(
        '%r = fusion.kernel_call "c" "k" "void k(const float *x, float *y, int64_t batch) { *y = *x; }" (%a) flops = 1 bytes = 8 : '
        "(tensor<4xf32>) -> tensor<4xf32>")),
    "program": (PROGRAM, command(COPY)), "segment": (PROGRAM, command(COPY)), "port": (PROGRAM, command(COPY)),
    "copy": (PROGRAM, command(COPY)),
    "content": (PROGRAM, command("fusion.content #fusion.range<@in0, 0, 16> value dense<0.0> : tensor<4xf32> : tensor<4xf32>")),
    "launch": (PROGRAM, command("fusion.launch @kernels::@k0 stream = 0 units = #fusion.extent<0 * B + 4> grain = 1 "
                                "[#fusion.access<read, <@in0, 0, 16>>, #fusion.access<write, <@out0, 0, 16>>]")),
    "call": (PROGRAM, command('fusion.call "avg_pool" stream = 0 [#fusion.access<read, <@in0, 0, 16>>, '
                              '#fusion.access<write, <@out0, 0, 16>>] {call = {dtype = "f32"}}')),
    "collective": (PROGRAM, MESH + command('fusion.collective "all_reduce" on @m[dp] stream = 0 '
                                           '[#fusion.access<read_write, <@in0, 0, 16>>] {details = {kind = "sum", dtype = "f32"}}')),
    "record": (PROGRAM, command("fusion.record event = 0 stream = 0")),
    "wait": (PROGRAM, command("fusion.record event = 0 stream = 0\n  fusion.wait event = 0 stream = 0")),
}

checks = Checks()


def opsOfTheDialect():
    """Names from the declarations."""
    found = []
    for path in sorted((ROOT / "include/fusion/IR").glob("*.td")):
        found += re.findall(r'^def Fusion_\w+Op\s*:\s*\w+<"(\w+)"', path.read_text(), re.M)
    return found


def covered():
    """op -> element types of the operands or, without any, of the results."""
    found = {}
    for model in allModels():
        for each in model.instances:
            for op in each.case.ops:
                found.setdefault(op, set()).add(each.dtype)
    return found


def checkCoverage():
    names, cases = opsOfTheDialect(), covered()
    checks.check("the declarations are found", len(names) > 100, f"{len(names)} ops")
    for name in names:
        ways = [name in cases, name in REFUSED, name in STRUCTURE, name in ON_RANKS]
        checks.check(f"{name} is covered, refused, of several ranks or structure", sum(ways) == 1, str(ways))
    unknown = (set(cases) | set(REFUSED) | set(STRUCTURE) | set(ON_RANKS)) - set(names)
    checks.check("no case of an op that is gone", not unknown, str(unknown))


def checkTypes(folder):
    """An element type that a case leaves out is one that the op does not take."""
    chunks, what, seen = [], [], set()
    for make in allFamilies().values():
        for case in make():
            if case.text.startswith("%") or (case.ops[0], case.dtypes, case.accuracy) in seen:
                continue
            seen.add((case.ops[0], case.dtypes, case.accuracy))
            others = [other for other in ALL if other not in case.dtypes]
            # Cases of the same op that say other types are cases of those.
            others = [other for other in others if other not in covered()[case.ops[0]]]
            for dtype in others:
                each = Instance(0, case, dtype)
                arguments = ", ".join(f"%{name}: {each.typeOf(kind, False)}" for name, kind in zip(each.names("x", each.inputs), each.inputs))
                chunks.append(f"func.func @main({arguments}) attributes {{fusion.batch = array<i64: 1, 7>}} {{\n{each.text()}\nreturn\n}}\n")
                what.append(f"{case.ops[0]} of {dtype}")
    path = folder / "types.txt"
    accepted = []
    for chunk, name in zip(chunks, what):
        path.write_text(chunk)
        if subprocess.run([BIN / "fusion-opt", path], capture_output=True).returncode == 0:
            accepted.append(name)
    checks.check("element types that no case has are refused", chunks and not accepted, f"{len(chunks)} refused" if not accepted else
                 f"accepted: {accepted}")


def checkRefusals(folder):
    for op, (why, text) in REFUSED.items():
        (folder / "refused.mlir").write_text(text)
        (folder / "refused.fsn").unlink(missing_ok=True)
        parsed = subprocess.run([BIN / "fusion-opt", "refused.mlir"], cwd=folder, capture_output=True, text=True)
        answer = subprocess.run([BIN / "fusion-compile", "refused.mlir", "--target=cuda:sm_90", "-o", "refused.fsn"], cwd=folder,
                                capture_output=True, text=True)
        checks.check(f"{op} is refused: {why}", parsed.returncode == 0 and f"fusion.{op}" in text and answer.returncode == 3 and
                     "error: " in answer.stderr and not (folder / "refused.fsn").exists(), f"{answer.returncode} {(parsed.stderr or answer.stderr).splitlines()[:1]}"[:200])


def checkRanks(folder):
    for op, text in ON_RANKS.items():
        (folder / "ranks.mlir").write_text(text)
        run("fusion-compile", folder / "ranks.mlir", "--target=cuda:sm_90", "-o", folder / "ranks.fsn")
        kind = {"await": "all_reduce", "rank_concat": "collective_permute", "rank_slice": "all_reduce"}.get(op, op)
        inspected = run("fusion-run", "--inspect", folder / "ranks.fsn").stdout
        turns = len(re.findall(r"\+16 turn \d\]", inspected)) == {"rank_concat": 2, "rank_slice": 1}.get(op, 0)
        checks.check(f"{op} compiles for two GPUs", f"collective '': {kind} " in inspected and turns, inspected[-200:])


def checkEmitters(folder):
    """Compiles the small models; returns how many kernels each variant has."""
    subprocess.run([sys.executable, HERE / "bundle/make.py", "--bin", BIN, "--only", "^small-", "-o", folder / "bundle"], check=True,
                   stdout=subprocess.DEVNULL)
    alone, fused = [], []
    for model in smallModels():
        for variant, into in (("alone", alone), ("fast", fused)):
            into += kernelsOf(run("fusion-run", "--inspect", folder / "bundle" / model.name / f"{variant}.fsn").stdout).values()
    checks.check("at least 100 different kernels, each op alone", len(alone) >= 100, str(len(alone)))
    for kind in ("loop", "loop: transpose", "row_reduce", "column_reduce", "scatter"):
        checks.check(f"{kind} alone", any(text.startswith(kind) for text in alone))
        checks.check(f"{kind} in a launch with others", any(re.match(rf"horizontal: \d+ x {kind}", text) for text in fused))


class Code:
    """The PTX of a module, by kernel, and what --inspect says."""

    def __init__(self, path):
        self.said = run("fusion-run", "--inspect", path).stdout
        found = re.search(r"section PTX\s+offset (\d+) size (\d+)", self.said)
        text = path.read_bytes()[int(found[1]):int(found[1]) + int(found[2])].decode()
        self.kernels = dict(re.findall(r"^\.visible \.entry (\w+)(\(.*?^})", text, re.M | re.S))
        self.what = kernelsOf(self.said)
        self.spills = re.findall(r"(\d+) bytes spilled", self.said)


def checkSmallCode(folder):
    """Nothing is kept in memory that threads have of their own, and positions of
    tensors below 2^32 elements are divided in 32 bits."""
    local, wide, spilled, count = [], [], 0, 0
    for model in smallModels():
        # The elements themselves may be divided in 64 bits: i64 has div and rem.
        divides = re.compile(r"\b(div|rem)\b")
        for variant in ("alone", "strict", "fast"):
            code = Code(folder / "bundle" / model.name / f"{variant}.fsn")
            spilled += sum(map(int, code.spills))
            for name, text in code.kernels.items():
                count += 1
                what = f"{model.name} {variant} {name}: {code.what.get(name)}"
                # libdevice reduces large angles with a table of their digits.
                if re.search(r"\b(ld|st)\.local", text) and not re.search(r"\b(sin|cos|tan)\b", what):
                    local.append(what)
                # A few elements of pairs: the compiler loses the bound that it had.
                if what.split(": ", 1)[-1].startswith("loop: cast slice slice cast"):
                    continue
                if re.search(r"\b(div|rem)\.[su]64|mul\.hi\.[su]64", text) and not divides.search(what.split(":")[-1]):
                    wide.append(what)
    checks.check("nothing in local memory", count > 100 and not local, f"{count} kernels" if not local else str(local[:3]))
    checks.check("positions are divided in 32 bits", not wide, str(wide[:3]) if wide else "")
    checks.check("no registers spilled", spilled == 0, f"{spilled} bytes")


# Aligned shapes of each emitter: (name, elements an access, inputs, ops, result).
VECTORS = [
    ("loop f32", "v4.b32", ["4096xf32", "4096xf32"], "%y = fusion.add %x0, %x1 : tensor<4096xf32>", "4096xf32"),
    ("loop f64", "v2.b64", ["4096xf64", "4096xf64"], "%y = fusion.add %x0, %x1 : tensor<4096xf64>", "4096xf64"),
    ("loop f16", "v4.b32", ["4096xf16", "4096xf16"], "%y = fusion.mul %x0, %x1 : tensor<4096xf16>", "4096xf16"),
    ("loop f32, the last vector not whole", "v4.b32", ["4099xf32"], "%y = fusion.neg %x0 : tensor<4099xf32>", "4099xf32"),
    ("broadcast along rows", "v4.b32", ["64x256xf32", "256xf32"],
     "%b = fusion.broadcast %x1 dims = [1] : tensor<256xf32> to tensor<64x256xf32>\n  %y = fusion.add %x0, %b : tensor<64x256xf32>", "64x256xf32"),
    ("slice of whole vectors", "v4.b32", ["64x256xf32"],
     "%s = fusion.slice %x0 starts = [0, 64] limits = [64, 192] strides = [1, 1] : tensor<64x256xf32>\n"
     "  %y = fusion.neg %s : tensor<64x128xf32>", "64x128xf32"),
    ("rows bf16", "v4.b32", ["64x1024xbf16"], "%y = fusion.softmax %x0 axis = 1 : tensor<64x1024xbf16>", "64x1024xbf16"),
    ("rows f32", "v4.b32", ["64x1024xf32"], "%y = fusion.softmax %x0 axis = 1 : tensor<64x1024xf32>", "64x1024xf32"),
    ("columns f32", "v4.b32", ["1024x1024xf32"], "%y = fusion.reduce sum, %x0 dims = [0] : tensor<1024x1024xf32>", "1024xf32"),
    ("columns bf16", "v4.b32", ["1024x2048xbf16"], "%y = fusion.reduce sum, %x0 dims = [0] : tensor<1024x2048xbf16>", "2048xbf16"),
]
# Rows of odd length: no address of theirs is known to be aligned.
SCALARS = [
    ("rows of 37", ["64x37xf32"], "%y = fusion.softmax %x0 axis = 1 : tensor<64x37xf32>", "64x37xf32"),
    ("a slice of 37 columns", ["64x64xf32"], "%s = fusion.slice %x0 starts = [0, 3] limits = [64, 40] strides = [1, 1] : tensor<64x64xf32>\n"
     "  %y = fusion.neg %s : tensor<64x37xf32>", "64x37xf32"),
]


def compileOne(folder, inputs, body, result):
    arguments = ", ".join(f"%x{i}: tensor<{kind}>" for i, kind in enumerate(inputs))
    (folder / "one.mlir").write_text(
        f"func.func @main({arguments}) -> tensor<{result}> {{\n  {body}\n  return %y : tensor<{result}>\n}}\n")
    run("fusion-compile", "one.mlir", "--target=cuda:sm_90", "-o", "one.fsn", cwd=folder)
    return Code(folder / "one.fsn")


def checkAccesses(folder):
    for name, width, inputs, body, result in VECTORS:
        code = compileOne(folder, inputs, body, result)
        loads = [match for text in code.kernels.values() for match in re.findall(r"ld\.global[.\w]*", text)]
        checks.check(f"{name}: loads of 16 bytes", any(width in load for load in loads), str(sorted(set(loads))))
        # What a result may overwrite can't be read as what never changes.
        if len(inputs) > 1 or inputs[0] != result:
            checks.check(f"{name}: read-only loads", any(".nc" in load for load in loads), str(sorted(set(loads))))
    for name, inputs, body, result in SCALARS:
        code = compileOne(folder, inputs, body, result)
        checks.check(f"{name}: no vector", not any(re.search(r"ld\.global[.\w]*\.v[24]", text) for text in code.kernels.values()))
    # Beyond 2^32 bytes and elements a position has 64 bits.
    huge = f"{2**31 + 5}xi8"
    code = compileOne(folder, [huge], f"%y = fusion.reverse %x0 dims = [0] : tensor<{huge}>", huge)
    checks.check("2^31 + 5 elements: 64-bit positions", any(re.search(r"(\.[su]64\s.*|%rd\d+\+)214748[23]\d\d\d", text) for text in code.kernels.values()),
                 next(iter(code.kernels.values()))[:1500])


def hasGpu():
    answer = subprocess.run([sys.executable, "-c", "import _gpu; _gpu.requireGpu()"], cwd=HERE, capture_output=True)
    return answer.returncode == 0


def main():
    checkCoverage()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        checkRefusals(folder)
        checkRanks(folder)
        checkTypes(folder)
        checkEmitters(folder)
        checkSmallCode(folder)
        checkAccesses(folder)
        if not hasGpu():
            checks.skip("values on a GPU", "no GPU")
        else:
            answer = subprocess.run([sys.executable, HERE / "bundle/check.py", folder / "bundle"], capture_output=True, text=True)
            checks.check("values on a GPU", answer.returncode == 0, answer.stdout[-1500:] + answer.stderr[-500:])
    return checks.finish()


if __name__ == "__main__":
    raise SystemExit(main())

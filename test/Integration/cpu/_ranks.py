"""Runs programs on one device and, partitioned, on the ranks of a mesh.

Ports are cut as their `fusion.sharding` says. What is padding in an input is
filled with NaN, or with indices far outside: if it reached a sum or a result, the
comparison would see it.
"""

import itertools
import re
import subprocess

import numpy as np
from _support import BIN, run

DTYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "i64": np.int64, "i32": np.int32,
          "i8": np.int8, "i1": np.bool_}


def typeOf(shape, dtype="f32"):
    return "tensor<" + "".join(f"{n}x" for n in shape) + dtype + ">"


class Graph:
    """Text of a program under construction; values are (name, shape, dtype)."""

    def __init__(self, **mesh):
        self.mesh, self.arguments, self.lines, self.outputs, self.preamble = mesh, [], [], [], ""

    def input(self, name, shape, sharding=None, dtype="f32", **attributes):
        self.arguments.append((name, tuple(shape), sharding, dtype, attributes))
        return (f"%{name}", tuple(shape), dtype)

    def op(self, text, shape, dtype="f32"):
        """`text` holds values as {0}, {1}, ... of `*values` in `on`."""
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = fusion.{text}")
        return (name, tuple(shape), dtype)

    def unary(self, name, x):
        return self.op(f"{name} {x[0]} : {typeOf(*x[1:])}", *x[1:])

    def binary(self, name, x, y):
        return self.op(f"{name} {x[0]}, {y[0]} : {typeOf(*x[1:])}", *x[1:])

    def constant(self, value, dtype="f32"):
        text = str(value) if dtype.startswith("i") else f"{float(value):e}"
        return self.op(f"constant dense<{text}> : tensor<{dtype}>", (), dtype)

    def broadcast(self, x, dims, shape):
        return self.op(f"broadcast {x[0]} dims = {list(dims)} : {typeOf(*x[1:])} to {typeOf(shape, x[2])}", shape, x[2])

    def splat(self, value, shape, dtype="f32"):
        return self.broadcast(self.constant(value, dtype), [], shape)

    def reduce(self, kind, x, dims):
        shape = tuple(n for i, n in enumerate(x[1]) if i not in dims)
        return self.op(f"reduce {kind}, {x[0]} dims = {list(dims)} : {typeOf(*x[1:])}", shape, x[2])

    def matmul(self, x, y, tx=False, ty=False):
        m, n = x[1][-1 if tx else -2], y[1][-2 if ty else -1]
        flags = ", ".join(f for f, on in (("transpose_lhs", tx), ("transpose_rhs", ty)) if on)
        return self.op(f"matmul {x[0]}, {y[0]} {'{' + flags + '}' if flags else ''} : {typeOf(*x[1:])}, {typeOf(*y[1:])}",
                       x[1][:-2] + (m, n), x[2])

    def transpose(self, x, permutation):
        return self.op(f"transpose {x[0]} permutation = {list(permutation)} : {typeOf(*x[1:])}",
                       [x[1][i] for i in permutation], x[2])

    def reshape(self, x, shape):
        return self.op(f"reshape {x[0]} : {typeOf(*x[1:])} to {typeOf(shape, x[2])}", shape, x[2])

    def gather(self, x, i, axis, batch=0):
        shape = x[1][:axis] + i[1][batch:] + x[1][axis + 1:]
        dims = f" {{batch_dims = {batch} : i64}}" if batch else ""
        return self.op(f"gather {x[0]}, {i[0]} axis = {axis}{dims} : {typeOf(*x[1:])}, {typeOf(*i[1:])}", shape, x[2])

    def scatter(self, kind, x, i, u):
        return self.op(f"scatter {kind}, {x[0]}, {i[0]}, {u[0]} : {typeOf(*x[1:])}, {typeOf(*i[1:])}, {typeOf(*u[1:])}", *x[1:])

    def output(self, name, value, sharding=None, **attributes):
        self.outputs.append((name, value, sharding, attributes))

    def text(self):
        def port(name, sharding, attributes):
            words = [f'fusion.name = "{name}"'] + [f"fusion.{k} = {v}" for k, v in attributes.items()]
            if sharding is not None:
                words.append("fusion.sharding = [" + ", ".join(
                    "[" + ", ".join(f'"{a}"' for a in axes) + "]" for axes in sharding) + "]")
            return "{" + ", ".join(words) + "}"

        mesh = "fusion.mesh @mesh(" + ", ".join(f"{k} = {v}" for k, v in self.mesh.items()) + ")\n" if self.mesh else ""
        arguments = ", ".join(f"%{n}: {typeOf(s, d)} {port(n, cut, more)}" for n, s, cut, d, more in self.arguments)
        results = ", ".join(f"{typeOf(*v[1:])} {port(n, cut, more)}" for n, v, cut, more in self.outputs)
        values = ", ".join(v[0] for _, v, _, _ in self.outputs)
        types = ", ".join(typeOf(*v[1:]) for _, v, _, _ in self.outputs)
        body = "\n".join(self.lines)
        return f"{mesh}{self.preamble}func.func @main({arguments}) -> ({results}) {{\n{body}\n  return {values} : {types}\n}}\n"

    def random(self, generator, low=-3, high=4):
        """Small integers for every argument; indices within 0..3."""
        values = {}
        for name, shape, _, dtype, _ in self.arguments:
            bounds = (0, 4) if dtype.startswith("i") else (low, high)
            values[name] = np.asarray(generator.integers(*bounds, shape)).astype(DTYPES[dtype])
        return values


def splitPorts(header):
    """(name, shape, dtype, sharding, global shape) of each `tensor<...> {...}`."""
    ports = []
    for match in re.finditer(r"tensor<([^>]*)>(?: (\{[^{}]*\}))?", header):
        words, attributes = match[1].split("x"), match[2] or ""
        name = re.search(r'fusion\.name = "([^"]*)"', attributes)
        cut = re.search(r"fusion\.sharding = (\[(?:\[[^\]]*\](?:, )?)*\])", attributes)
        whole = re.search(r"fusion\.global_shape = array<i64(?:: ([^>]*))?>", attributes)
        shape = tuple(int(n) for n in words[:-1])
        ports.append((name and name[1], shape, words[-1], eval(cut[1]) if cut else [[]] * len(shape),
                      tuple(int(n) for n in whole[1].split(",")) if whole else None))
    return ports


def readPorts(text):
    """Mesh, arguments and results of a partitioned program's @main."""
    header = next(line for line in text.splitlines() if "func.func @main" in line)
    header = re.sub(r" loc\([^()]*(?:\([^()]*\)[^()]*)*\)", "", header)
    arguments, results = header.split(") -> ")
    mesh = re.search(r"fusion\.mesh @\w+\(([^)]*)\)", text)
    axes = dict((k, int(v)) for k, v in re.findall(r"(\w+) = (\d+)", mesh[1])) if mesh else {}
    return axes, splitPorts(arguments), splitPorts(results)


def positions(mesh):
    """Coordinates of each rank: row-major, the last axis fastest."""
    return [dict(zip(mesh, point)) for point in itertools.product(*(range(n) for n in mesh.values()))]


def partOf(shape, local, sharding, mesh, point):
    """Slice of the whole tensor that the rank at `point` holds."""
    box = []
    for size, part, axes in zip(shape, local, sharding):
        at = 0
        for axis in axes:
            at = at * mesh[axis] + point[axis]
        box.append(slice(min(at * part, size), min((at + 1) * part, size)))
    return tuple(box)


def cut(array, port, mesh, point):
    _, local, dtype, sharding, _ = port
    garbage = np.nan if dtype.startswith(("f", "b")) else (True if dtype == "i1" else 97)
    part = np.full(local, garbage, DTYPES[dtype])
    piece = array[partOf(array.shape, local, sharding, mesh, point)]
    part[tuple(slice(n) for n in piece.shape)] = piece
    return part


def interpret(folder, text, inputs, ranks=None):
    """Outputs of the evaluator: by name, or a list of such for ranks. `inputs` are
    by name, or by (name, rank)."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "m.mlir").write_text(text)
    words = ["fusion-interpret", folder / "m.mlir", "--output-dir", folder / "out"]
    for key, array in inputs.items():
        name, rank = key if isinstance(key, tuple) else (key, None)
        path = folder / (name + ("" if rank is None else f"@{rank}") + ".npy")
        np.save(path, array)
        words += ["--input", f"{name}{'' if rank is None else '@' + str(rank)}={path}"]
    if ranks is not None:
        words += ["--ranks", str(ranks)]
    run(*words)
    read = lambda path: {p.stem: np.load(p) for p in path.glob("*.npy")}
    return read(folder / "out") if ranks is None else [read(folder / f"out/rank{r}") for r in range(ranks)]


def partition(folder, text, *options):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "whole.mlir").write_text(text)
    words = "=\"" + " ".join(options) + "\"" if options else ""
    return run("fusion-opt", folder / "whole.mlir", "--fusion-partition" + words.replace('"', "")).stdout


def runRanks(folder, local, inputs, execute=interpret):
    """The ranks' outputs of a partitioned program on parts of `inputs`."""
    mesh, arguments, results = readPorts(local)
    points = positions(mesh)
    parts = {(port[0], rank): cut(inputs[port[0]], port, mesh, point)
             for rank, point in enumerate(points) for port in arguments}
    return execute(folder, local, parts, len(points)), mesh, results


def compare(whole, ranks, mesh, results, same=np.array_equal):
    """Names of results of which some rank's part is not that of the whole."""
    wrong = set()
    for rank, point in enumerate(positions(mesh)):
        for name, local, _, sharding, _ in results:
            box = partOf(whole[name].shape, local, sharding, mesh, point)
            piece = ranks[rank][name][tuple(slice(b.stop - b.start) for b in box)]
            if tuple(ranks[rank][name].shape) != local or not same(whole[name][box], piece):
                wrong.add(name)
    return sorted(wrong)


def counts(text):
    """How many of each collective the program has."""
    names = re.findall(r"fusion\.(all_reduce|all_gather|reduce_scatter|all_to_all|collective_\w+)", text)
    return {name: names.count(name) for name in sorted(set(names))}


def fails(folder, text, *words):
    """Exit code and error text of a tool that must refuse the program."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "bad.mlir").write_text(text)
    answer = subprocess.run([str(BIN / words[0]), str(folder / "bad.mlir"), *words[1:]], capture_output=True, text=True)
    return answer.returncode, answer.stderr


def runModule(folder, text, inputs, *flags):
    """Compiles for the ranks of a mesh and runs one process a rank on whole inputs,
    which the runtime cuts. Outputs by rank, the mesh, and the results' ports."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "m.mlir").write_text(text)
    local = run("fusion-compile", folder / "m.mlir", *flags, "--stop-after=partition").stdout
    mesh, _, results = readPorts(local)
    run("fusion-compile", folder / "m.mlir", *flags, "-o", folder / "m.fsn")
    words = ["fusion-run", folder / "m.fsn", "--ranks", len(positions(mesh)), "--output-dir", folder / "out"]
    for name, array in inputs.items():
        np.save(folder / f"{name}.npy", array)
        words += ["--input", f"{name}={folder / name}.npy"]
    run(*words)
    read = lambda path: {p.stem: np.load(p) for p in path.glob("*.npy")}
    return [read(folder / f"out/rank{r}") for r in range(len(positions(mesh)))], mesh, results

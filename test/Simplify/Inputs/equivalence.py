# Random graphs before and after a pass through the reference evaluator.
#
#   equivalence.py WORKDIR GENERATOR COUNT PASSES [must-vanish]
#
# All data are small integers and powers of two, so no op rounds and the results
# must be equal bit for bit (any NaN equals any NaN). Only the standard library
# is used. `must-vanish` is an op that no result may contain.
import math
import os
import random
import struct
import subprocess
import sys

FORMATS = {"f64": ("<f8", "d"), "f32": ("<f4", "f"), "f16": ("<f2", "e"), "i32": ("<i4", "i"), "i1": ("|b1", "?")}


def write_npy(path, dtype, shape, values):
    code, letter = FORMATS[dtype]
    text = "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }" % (code, "".join("%d," % n for n in shape))
    text += " " * (-(len(text) + 11) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode())
        file.write(struct.pack("<%d%s" % (len(values), letter), *values))


def read_npy(path):
    data = open(path, "rb").read()
    size = struct.unpack("<H", data[8:10])[0]
    header = eval(data[10:10 + size].decode(), {"__builtins__": {}})
    letter = {code: letter for code, letter in FORMATS.values()}.get(header["descr"])
    body = data[10 + size:]
    if letter is None:
        return header["shape"], [body]
    count = len(body) // struct.calcsize("<" + letter)
    return header["shape"], list(struct.unpack("<%d%s" % (count, letter), body))


def equal(a, b):
    if a[0] != b[0] or len(a[1]) != len(b[1]):
        return False
    for x, y in zip(a[1], b[1]):
        if isinstance(x, float):
            if math.isnan(x) and math.isnan(y):
                continue
            if x != y or math.copysign(1, x) != math.copysign(1, y):
                return False
        elif x != y:
            return False
    return True


def dense(values, shape, dtype):
    bits = {"f32": ("<f", "<I", 8), "f64": ("<d", "<Q", 16), "f16": ("<e", "<H", 4)}

    def text(value):
        if dtype in bits:
            pack, unpack, digits = bits[dtype]
            return "0x%0*X" % (digits, struct.unpack(unpack, struct.pack(pack, value))[0])
        return str(value).lower() if dtype == "i1" else str(value)

    def nest(values, shape):
        if not shape:
            return text(values[0])
        step = len(values) // shape[0] if shape[0] else 0
        return "[" + ", ".join(nest(values[i * step:(i + 1) * step], shape[1:]) for i in range(shape[0])) + "]"

    return "dense<" + (nest(values, shape) if values else "") + ">"


def elements(shape):
    return math.prod(shape)


class Graph:
    """A function under construction; values are (name, dtype, shape)."""

    def __init__(self, rng):
        self.rng, self.lines, self.arguments, self.count = rng, [], [], 0

    def type(self, value):
        return "tensor<%s%s>" % ("".join("%dx" % n for n in value[2]), value[1])

    def emit(self, text, dtype, shape):
        value = ("%%v%d" % self.count, dtype, list(shape))
        self.count += 1
        self.lines.append("  %s = fusion.%s" % (value[0], text))
        return value

    def argument(self, dtype, shape):
        value = ("%%x%d" % len(self.arguments), dtype, list(shape))
        self.arguments.append(value)
        return value

    def constant(self, dtype, shape, pick):
        values = [pick() for _ in range(elements(shape))]
        value = ("", dtype, list(shape))
        return self.emit("constant %s : %s" % (dense(values, shape, dtype), self.type(value)), dtype, shape)

    def unary(self, op, x, extra=""):
        return self.emit("%s %s%s : %s" % (op, x[0], extra, self.type(x)), x[1], x[2])

    def binary(self, op, x, y):
        return self.emit("%s %s, %s : %s" % (op, x[0], y[0], self.type(x)), x[1], x[2])

    def transpose(self, x, permutation):
        return self.emit("transpose %s permutation = %s : %s" % (x[0], permutation, self.type(x)),
                         x[1], [x[2][d] for d in permutation])

    def reshape(self, x, shape):
        return self.emit("reshape %s : %s to %s" % (x[0], self.type(x), self.type(("", x[1], shape))), x[1], shape)

    def broadcast(self, x, dims, shape):
        return self.emit("broadcast %s dims = %s : %s to %s" % (x[0], dims, self.type(x), self.type(("", x[1], shape))),
                         x[1], shape)

    def write(self, results, folder):
        os.makedirs(folder, exist_ok=True)
        arguments = ", ".join("%s: %s {fusion.name = \"%s\"}" % (v[0], self.type(v), v[0][1:]) for v in self.arguments)
        types = ", ".join("%s {fusion.name = \"y%d\"}" % (self.type(v), i) for i, v in enumerate(results))
        with open(os.path.join(folder, "model.mlir"), "w") as file:
            file.write("func.func @main(%s) -> (%s) {\n%s\n  return %s : %s\n}\n" % (
                arguments, types, "\n".join(self.lines), ", ".join(v[0] for v in results),
                ", ".join(self.type(v) for v in results)))
        return len(results)


def window_attributes(rng, spatial, transposed):
    strides = [rng.choice([1, 1, 2]) for _ in range(spatial)]
    low = [rng.choice([0, 1]) for _ in range(spatial)]
    high = [rng.choice([0, 1]) for _ in range(spatial)]
    dilations = [rng.choice([1, 1, 2]) for _ in range(spatial)]
    extra = " output_padding = %s" % ([0] * spatial) if transposed else ""
    return strides, low, high, dilations, "strides = %s pad_low = %s pad_high = %s%s dilations = %s" % (
        strides, low, high, extra, dilations)


def conv(graph, x, layout, transposed, outputs, groups, with_bias, pick, window=None):
    rng, shape = graph.rng, x[2]
    spatial = len(shape) - 2
    extents = shape[2:] if layout == "nchw" else shape[1:-1]
    channels = shape[1] if layout == "nchw" else shape[-1]
    window = window or [rng.choice([1, 2, 3]) for _ in range(spatial)]
    strides, low, high, dilations, text = window_attributes(rng, spatial, transposed)
    if transposed:
        weights = [channels, outputs // groups] + window
        result = [(n - 1) * s + d * (k - 1) + 1 - l - h
                  for n, s, d, k, l, h in zip(extents, strides, dilations, window, low, high)]
    else:
        weights = [outputs, channels // groups] + window
        result = [(n + l + h - d * (k - 1) - 1) // s + 1
                  for n, s, d, k, l, h in zip(extents, strides, dilations, window, low, high)]
    if min(result) < 1:
        return None
    w = graph.constant(x[1], weights, pick)
    operands, types = "%s, %s" % (x[0], w[0]), "%s, %s" % (graph.type(x), graph.type(w))
    if with_bias:
        b = graph.constant(x[1], [outputs], pick)
        operands, types = operands + " bias " + b[0], types + ", " + graph.type(b)
    result = [shape[0], outputs] + result if layout == "nchw" else [shape[0]] + result + [outputs]
    return graph.emit("%s %s %s groups = %d layout = %s : %s" % (
        "conv_transpose" if transposed else "conv", operands, text, groups, layout, types), x[1], result)


def batch_norm(graph, x, axis, statistics):
    rng, channels = graph.rng, x[2][axis]
    scale = graph.constant(statistics, [channels], lambda: rng.choice([-2.0, -0.5, 0.0, 1.0, 2.0, 4.0]))
    bias = graph.constant(statistics, [channels], lambda: float(rng.randint(-3, 3)))
    mean = graph.constant(statistics, [channels], lambda: float(rng.randint(-2, 2)))
    variance = graph.constant(statistics, [channels], lambda: rng.choice([0.25, 1.0, 4.0]))
    return graph.emit("batch_norm %s, %s, %s, %s, %s epsilon = 0.0 axis = %d : %s, %s" % (
        x[0], scale[0], bias[0], mean[0], variance[0], axis, graph.type(x), graph.type(scale)), x[1], x[2])


def make_batch_norm(rng):
    """A convolution, transposed convolution or matmul before a BatchNorm."""
    graph = Graph(rng)
    dtype = rng.choice(["f32", "f32", "f64", "f16"])
    pick = lambda: float(rng.randint(-2, 2))
    if rng.random() < 0.25:
        x = graph.argument(dtype, [rng.randint(0, 3), rng.randint(1, 4)])
        transposed = rng.random() < 0.5
        outputs = rng.randint(1, 4)
        w = graph.constant(dtype, [outputs, x[2][1]] if transposed else [x[2][1], outputs], pick)
        y = graph.emit("matmul %s, %s%s : %s, %s" % (x[0], w[0], " {transpose_rhs}" if transposed else "",
                                                    graph.type(x), graph.type(w)), dtype, [x[2][0], outputs])
        axis = 1
    else:
        layout, spatial = rng.choice(["nchw", "nhwc"]), rng.choice([1, 2, 2, 3])
        groups = rng.choice([1, 1, 2, 3])
        channels, outputs = groups * rng.randint(1, 2), groups * rng.randint(1, 2)
        extents = [rng.randint(2, 4) for _ in range(spatial)]
        batch = [rng.randint(1, 2)]
        x = graph.argument(dtype, batch + [channels] + extents if layout == "nchw" else batch + extents + [channels])
        y = conv(graph, x, layout, rng.random() < 0.4, outputs, groups, rng.random() < 0.5, pick)
        if y is None:
            return make_batch_norm(rng)
        axis = 1 if layout == "nchw" else spatial + 1
    if rng.random() < 0.4:
        b = graph.constant(dtype, [y[2][axis]], pick)
        b = graph.broadcast(b, [axis], y[2])
        y = graph.binary("add", *((y, b) if rng.random() < 0.5 else (b, y)))
    y = batch_norm(graph, y, axis, rng.choice([dtype, "f32"]) if dtype == "f16" else dtype)
    if rng.random() < 0.3:
        y = batch_norm(graph, y, axis, dtype)
    return graph, [y]


def make_layout(rng):
    """Convolutions and pools with ops between that work in either layout."""
    graph = Graph(rng)
    pick = lambda: float(rng.randint(-1, 1))
    values = [graph.argument("f32", [rng.choice([1, 2]), rng.choice([1, 2, 3]), rng.randint(1, 4), rng.randint(1, 4)])]
    results = []
    for _ in range(rng.randint(3, 9)):
        x = rng.choice(values[-3:])
        rank4 = len(x[2]) == 4
        kind = rng.choice(["conv", "conv", "pool", "relu", "add", "bias", "concat", "pad", "slice", "reduce",
                           "transpose", "norm", "gate", "flatten", "spatial"])
        y = None
        if kind == "conv" and rank4:
            y = conv(graph, x, "nchw", rng.random() < 0.3, rng.randint(1, 3), 1, rng.random() < 0.5, pick)
        elif kind == "pool" and rank4:
            window = [rng.randint(1, x[2][2]), rng.randint(1, x[2][3])]
            y = graph.emit("max_pool %s window = %s strides = [1, 1] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1]"
                           " layout = nchw : %s" % (x[0], window, graph.type(x)), x[1],
                           x[2][:2] + [x[2][2] - window[0] + 1, x[2][3] - window[1] + 1])
        elif kind == "relu":
            y = graph.unary(rng.choice(["relu", "neg", "abs"]), x)
        elif kind == "add":
            others = [v for v in values if v[2] == x[2]]
            y = graph.binary("add", x, rng.choice(others))
        elif kind == "bias" and len(x[2]) >= 2:
            b = graph.broadcast(graph.constant("f32", [x[2][1]], pick), [1], x[2])
            y = graph.binary("add", x, b)
        elif kind == "concat" and rank4 and x[2][1] < 8:
            y = graph.emit("concat %s, %s axis = 1 : %s, %s" % (x[0], x[0], graph.type(x), graph.type(x)), x[1],
                           [x[2][0], 2 * x[2][1]] + x[2][2:])
        elif kind == "pad" and rank4:
            low, zero = [0, rng.randint(0, 1), rng.randint(0, 1), 0], graph.constant("f32", [], lambda: 1.0)
            y = graph.emit("pad %s, %s low = %s high = [0, 0, 0, 1] : %s, tensor<f32>" % (x[0], zero[0], low, graph.type(x)),
                           x[1], [x[2][0], x[2][1] + low[1], x[2][2] + low[2], x[2][3] + 1])
        elif kind == "slice" and rank4:
            starts = [0, rng.randint(0, x[2][1] - 1), 0, rng.randint(0, x[2][3] - 1)]
            y = graph.emit("slice %s starts = %s limits = %s strides = [1, 1, 1, 1] : %s" % (x[0], starts, x[2], graph.type(x)),
                           x[1], [n - s for n, s in zip(x[2], starts)])
        elif kind == "reduce" and len(x[2]) >= 3:
            dims = sorted(rng.sample(range(len(x[2])), rng.randint(1, 2)))
            y = graph.emit("reduce %s, %s dims = %s : %s" % (rng.choice(["max", "sum"]), x[0], dims, graph.type(x)), x[1],
                           [n for d, n in enumerate(x[2]) if d not in dims])
        elif kind == "transpose" and len(x[2]) >= 2:
            permutation = list(range(len(x[2])))
            rng.shuffle(permutation)
            y = graph.transpose(x, permutation)
        elif kind == "norm" and rank4:
            y = batch_norm(graph, x, 1, "f32")
        elif kind == "gate" and rank4:
            p = graph.emit("reduce max, %s dims = [2, 3] : %s" % (x[0], graph.type(x)), x[1], x[2][:2])
            p = graph.reshape(p, x[2][:2] + [1, 1])
            y = graph.binary("mul", x, graph.broadcast(p, [0, 1, 2, 3], x[2]))
        elif kind == "flatten" and len(x[2]) >= 3:
            y = graph.reshape(x, [x[2][0], elements(x[2][1:])])
        elif kind == "spatial" and rank4:
            y = graph.reshape(x, x[2][:2] + [x[2][2] * x[2][3]])
        if y is None or elements(y[2]) > 4000:
            continue
        values.append(y)
        if rng.random() < 0.2:
            results.append(y)
    return graph, results + [values[-1]]


SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.0, 3.0, -4.0, math.inf, -math.inf, math.nan]


def make_algebra(rng, constant_inputs=False):
    """Arithmetic with special values and moves; with constants as inputs."""
    graph = Graph(rng)
    pick = {"f32": lambda: rng.choice(SPECIAL), "f16": lambda: rng.choice(SPECIAL), "i32": lambda: rng.randint(-3, 3)}

    def fresh(dtype, shape):
        if constant_inputs:
            return graph.constant(dtype, shape, pick[dtype])
        return graph.argument(dtype, shape)

    dtype = rng.choice(["f32", "f32", "f16", "i32"])
    values = [fresh(dtype, [rng.randint(1, 3) for _ in range(rng.randint(1, 3))])]
    for _ in range(rng.randint(4, 14)):
        x = rng.choice(values[-4:])
        shape, rank, y = x[2], len(x[2]), None
        kind = rng.choice(["constant", "constant", "unary", "binary", "clamp", "cast", "transpose", "reshape", "broadcast",
                           "slice", "concat", "pad", "gather", "select", "reverse", "max"])
        if kind == "constant":
            single = rng.choice(SPECIAL[:9]) if dtype != "i32" else rng.choice([-1, 0, 1, 2])
            op = rng.choice(["add", "sub", "mul", "max", "min"] + (["div"] if dtype != "i32" else []))
            c = graph.constant(dtype, shape, lambda: single)
            y = graph.binary(op, *((x, c) if rng.random() < 0.7 else (c, x)))
        elif kind == "unary":
            y = graph.unary(rng.choice(["neg", "abs", "relu", "sign"] + (["ceil", "floor"] if dtype != "i32" else [])), x)
        elif kind == "binary":
            others = [v for v in values if v[2] == shape]
            y = graph.binary(rng.choice(["add", "sub", "mul", "max", "min"]), x, rng.choice(others))
        elif kind == "clamp":
            bounds = SPECIAL[:9] if dtype != "i32" else [-2147483648, -1, 0, 1, 2147483647]
            low, high = rng.choice(bounds), rng.choice(bounds)
            y = graph.emit("clamp %s, %s, %s : %s" % (x[0], graph.constant(dtype, shape, lambda: low)[0],
                                                       graph.constant(dtype, shape, lambda: high)[0], graph.type(x)),
                           dtype, shape)
        elif kind == "cast":
            y = x
            for to in [rng.choice(["f32", "f16", "i32"]), dtype]:
                y = graph.emit("cast %s : %s to %s" % (y[0], graph.type(y), graph.type(("", to, shape))), to, shape)
        elif kind == "transpose":
            permutation = list(range(rank))
            rng.shuffle(permutation)
            y = graph.transpose(x, permutation)
        elif kind == "reshape":
            y = graph.reshape(x, rng.choice([[elements(shape)], [1] + shape, shape + [1]]))
        elif kind == "broadcast":
            y = graph.broadcast(x, list(range(1, rank + 1)), [rng.randint(1, 2)] + shape)
        elif kind == "slice" and rank:
            starts = [rng.randint(0, n) for n in shape]
            strides = [rng.randint(1, 2) for _ in shape]
            y = graph.emit("slice %s starts = %s limits = %s strides = %s : %s" % (x[0], starts, shape, strides, graph.type(x)),
                           dtype, [(n - s + t - 1) // t for n, s, t in zip(shape, starts, strides)])
        elif kind == "concat" and rank:
            axis = rng.randrange(rank)
            others = [v for v in values if len(v[2]) == rank and all(
                n == m for d, (n, m) in enumerate(zip(v[2], shape)) if d != axis)]
            o = rng.choice(others)
            y = graph.emit("concat %s, %s axis = %d : %s, %s" % (x[0], o[0], axis, graph.type(x), graph.type(o)), dtype,
                           [n + (o[2][d] if d == axis else 0) for d, n in enumerate(shape)])
        elif kind == "pad" and rank:
            low, high = [rng.randint(0, 1) for _ in shape], [rng.randint(0, 1) for _ in shape]
            v = graph.constant(dtype, [], pick[dtype])
            y = graph.emit("pad %s, %s low = %s high = %s : %s, %s" % (x[0], v[0], low, high, graph.type(x), graph.type(v)),
                           dtype, [n + l + h for n, l, h in zip(shape, low, high)])
        elif kind == "gather" and rank and min(shape) > 0:
            axis, count = rng.randrange(rank), rng.randint(1, 3)
            i = graph.emit("constant %s : tensor<%dxi32>" % (
                dense([rng.randint(-1, 4) for _ in range(count)], [count], "i32"), count), "i32", [count])
            y = graph.emit("gather %s, %s axis = %d : %s, %s" % (x[0], i[0], axis, graph.type(x), graph.type(i)), dtype,
                           shape[:axis] + [count] + shape[axis + 1:])
        elif kind == "select":
            others = [v for v in values if v[2] == shape]
            o = rng.choice(others)
            c = graph.emit("compare %s, %s, %s : %s" % (rng.choice(["lt", "eq", "ne"]), x[0], o[0], graph.type(x)), "i1", shape)
            y = graph.emit("select %s, %s, %s : %s, %s" % (c[0], x[0], o[0], graph.type(c), graph.type(x)), dtype, shape)
        elif kind == "reverse" and rank:
            y = graph.unary("reverse", x, " dims = [%d]" % rng.randrange(rank))
        elif kind == "max" and rank and min(shape) > 0:
            axis = rng.randrange(rank)
            y = graph.emit("reduce max, %s dims = [%d] : %s" % (x[0], axis, graph.type(x)), dtype,
                           shape[:axis] + shape[axis + 1:])
        if y is None or elements(y[2]) > 2000 or len(y[2]) > 6:
            continue
        values.append(y)
    return graph, values[-2:]


GENERATORS = {"batch-norm": make_batch_norm, "layout": make_layout, "algebra": make_algebra,
              "constants": lambda rng: make_algebra(rng, constant_inputs=True)}


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit("failed: %s\n%s" % (" ".join(command), done.stderr[-2000:]))


def main():
    root, generator, count, passes = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4].split()
    cases = []
    for seed in range(count):
        rng = random.Random("%s %d" % (generator, seed))
        graph, results = GENERATORS[generator](rng)
        folder = os.path.join(root, str(seed))
        graph.write(results, folder)
        os.makedirs(folder + "/in", exist_ok=True)
        for value in graph.arguments:
            special = generator == "algebra" and value[1] != "i32"
            data = [rng.choice(SPECIAL) if special else rng.randint(-3, 3) for _ in range(elements(value[2]))]
            if value[1] != "i32":
                data = [float(v) for v in data]
            write_npy("%s/in/%s.npy" % (folder, value[0][1:]), value[1], value[2], data)
        run("fusion-opt", folder + "/model.mlir", *passes, "-o", folder + "/after.mlir")
        run("fusion-opt", folder + "/after.mlir", *passes, "-o", folder + "/twice.mlir")
        after = open(folder + "/after.mlir").read()
        if after != open(folder + "/twice.mlir").read():
            sys.exit("%s: the second run changes %s/after.mlir" % (generator, folder))
        for gone in sys.argv[5:]:
            if gone in after:
                sys.exit("%s: %s is left in %s/after.mlir" % (generator, gone, folder))
        for which in ["model", "after"]:
            os.makedirs("%s/%s" % (folder, which), exist_ok=True)
            cases.append("%s/%s.mlir %s/in %s/%s" % (folder, which, folder, folder, which))
    with open(root + "/cases.txt", "w") as file:
        file.write("\n".join(cases) + "\n")
    run("fusion-interpret", "--batch-file=" + root + "/cases.txt")
    for seed in range(count):
        folder = os.path.join(root, str(seed))
        names = sorted(name for name in os.listdir(folder + "/model") if name.endswith(".npy"))
        if not names:
            sys.exit("%s/model: no results" % folder)
        for name in names:
            before, after = read_npy("%s/model/%s" % (folder, name)), read_npy("%s/after/%s" % (folder, name))
            if not equal(before, after):
                sys.exit("%s: %s differs in %s:\n%s\n%s" % (generator, name, folder, before, after))
    print("%s: %d graphs equal bit for bit" % (generator, count))


main()

# ===- cases.py - Each op as a small model ---------------------------------=== #
#
# A case is one op (or a few) over operands of an element type that stands as `@`
# in its text. What a result must equal is said here too, from docs/tolerances.md;
# the values come from the reference evaluator.
#
# ===----------------------------------------------------------------------=== #
"""Cases of ops: `allCases()` by family; `families` are modules of the bundle."""

import re
from dataclasses import dataclass, field

FLOATS = ("f64", "f32", "f16", "bf16")
INTS = ("i8", "i32", "i64")
NUMBERS = FLOATS + INTS
LOGIC = ("i1",) + INTS
ALL = NUMBERS + ("i1",)


@dataclass(frozen=True)
class Case:
    """`text` is an op, or lines of ops that define %y0, %y1 and so on; it has {0},
    {1} for operands and @ for the element type. Shapes may have a `?`, the batch.
    `data`: small (integers in -4..4), ramp (the same, in turn), unit (-1 or 1),
    wide (special values among others), bits (of any size, for integers), positive,
    or a number: reals up to it, integers for integers.
    `accuracy`: bits, zero (bits, but for the sign of zeros), ulp, near (formulas of
    several roundings, `terms` of them in a row) or sum (of `terms` products)."""

    text: str
    inputs: tuple
    outputs: tuple
    dtypes: tuple
    data: object = "small"
    accuracy: str = "bits"
    terms: int = 0  # of a sum
    # operand -> data that is not the case's
    special: dict = field(default_factory=dict, hash=False)

    @property
    def ops(self):
        return re.findall(r"fusion\.(\w+)", self.text)


UNARY = "neg abs sign relu".split()
EXACT = "ceil floor round sqrt reciprocal".split()
TRANSCENDENTAL = ("rsqrt exp exp2 expm1 log log2 log1p sin cos tan asin acos atan sinh cosh asinh acosh "
                  "atanh tanh erf").split()
FORMULAS = "sigmoid silu softplus mish hard_swish".split()
BINARY = "add sub mul div rem max min".split()
SIZES = (0, 1, 2, 3, 5, 7, 8, 13, 16, 31, 33, 64, 83, 127, 257)


def elementwise():
    """Each op at a short size and one of several blocks."""
    shapes = []
    count = 0

    def add(text, operands, dtypes, data, accuracy="bits", result="@", condition=False):
        nonlocal count
        count += 1
        for n in (SIZES[count % len(SIZES)], (1009, 1024, 2053)[count % 3]):
            kinds = [f"{n}x@"] * operands
            if condition:
                kinds[0] = f"{n}xi1"
            kind = f"tensor<{n}x@>"
            types = f"tensor<{n}xi1>, {kind}" if condition else kind
            line = f"{text} : {types}" if "%TYPES" not in text else text.replace("%TYPES", f"{kind} to tensor<{n}x{result}>")
            shapes.append(Case(line, tuple(kinds), (f"{n}x{result}",), dtypes, data, accuracy))

    for name in UNARY:
        add(f"fusion.{name} {{0}}", 1, NUMBERS, "wide")
    for name in EXACT:
        add(f"fusion.{name} {{0}}", 1, FLOATS, "wide")
    for name in TRANSCENDENTAL:
        add(f"fusion.{name} {{0}}", 1, FLOATS, "wide", "ulp")
        add(f"fusion.{name} {{0}}", 1, FLOATS, 3.0, "ulp")
    for name in FORMULAS:
        add(f"fusion.{name} {{0}}", 1, FLOATS, 5.0, "near")
    for name in BINARY:
        add(f"fusion.{name} {{0}}, {{1}}", 2, NUMBERS, "wide")
        add(f"fusion.{name} {{0}}, {{1}}", 2, NUMBERS, 100.0)
    for name in ("pow", "atan2"):
        add(f"fusion.{name} {{0}}, {{1}}", 2, FLOATS, 4.0, "ulp")
        add(f"fusion.{name} {{0}}, {{1}}", 2, FLOATS, "wide", "ulp")
    for name in ("and", "or", "xor"):
        add(f"fusion.{name} {{0}}, {{1}}", 2, LOGIC, "bits")
    add("fusion.not {0}", 1, LOGIC, "bits")
    for name in ("shift_left", "shift_right"):
        add(f"fusion.{name} {{0}}, {{1}}", 2, INTS, 40.0)
    for name in ("is_nan", "is_inf"):
        add(f"fusion.{name} {{0}}", 1, FLOATS, "wide", result="i1")
    add("fusion.hard_sigmoid {0} alpha = 0.2 beta = 0.5", 1, FLOATS, 4.0, "near")
    add("fusion.leaky_relu {0} alpha = 0.01", 1, FLOATS, "wide", "ulp")
    add("fusion.elu {0} alpha = 0.7", 1, FLOATS, 4.0, "near")
    for kind in ("erf", "tanh"):
        add(f"fusion.gelu {kind}, {{0}}", 1, FLOATS, 3.0, "near")
    for kind in ("eq", "ne", "lt", "le", "gt", "ge"):
        add(f"fusion.compare {kind}, {{0}}, {{1}}", 2, ALL, "wide", result="i1")
    add("fusion.select {0}, {1}, {2}", 3, ALL, "wide", condition=True)
    add("fusion.clamp {0}, {1}, {2}", 3, NUMBERS, "wide")
    for to in ALL:
        add("fusion.cast {0} : %TYPES", 1, ALL, "wide", result=to)
        add("fusion.cast {0} : %TYPES", 1, ALL, 300.0, result=to)
    # Every size by one op of one and one of two operands.
    for n in SIZES + (8191, 65537, 1 << 20, (1 << 20) + 3):
        kind = f"{n}x@"
        shapes.append(Case(f"fusion.neg {{0}} : tensor<{kind}>", (kind,), (kind,), NUMBERS, "ramp"))
        if n < 100000:
            shapes.append(Case(f"fusion.max {{0}}, {{1}} : tensor<{kind}>", (kind, kind), (kind,), NUMBERS, "wide"))
    return shapes


def moves():
    """What takes elements from elsewhere: loops, tiles and views."""
    cases = []

    def add(text, inputs, output, dtypes=ALL, **more):
        cases.append(Case(text, tuple(inputs), (output,), dtypes, more.pop("data", "wide"), **more))

    def permuted(shape, order):
        dims = shape.split("x")
        out = "x".join(dims[i] for i in order) + "x@"
        add(f"fusion.transpose {{0}} permutation = {list(order)} : tensor<{shape}x@>", [shape + "x@"], out)

    add("fusion.constant dense<1> : tensor<7x@>", [], "7x@", INTS)
    add("fusion.constant dense<[1.0, -0.0, 2.5]> : tensor<3x@>", [], "3x@", FLOATS)
    add("fusion.constant dense<[true, false, true]> : tensor<3x@>", [], "3x@", ("i1",))
    add("fusion.get_parameter @p_@ : tensor<2x5x@>", [], "2x5x@", NUMBERS)
    for source, dims, result in (("20", [1], "3x20x2"), ("3x1", [0, 2], "3x2x18"), ("", [], "1031"), ("257", [0], "257x33"),
                                 ("64", [1], "37x64"), ("0", [1], "4x0"), ("5x64", [0, 2], "5x3x64")):
        kind = f"{source}x@" if source else "@"
        add(f"fusion.broadcast {{0}} dims = {dims} : tensor<{kind}> to tensor<{result}x@>", [kind], result + "x@")
    for source, result in (("6x10", "3x20"), ("4x6x5", "4x1x30"), ("0x5", "5x0"), ("1", "1x1x1"), ("31x33", "1023")):
        add(f"fusion.reshape {{0}} : tensor<{source}x@> to tensor<{result}x@>", [source + "x@"], result + "x@")
    for shape, order in (("3x18x5", (2, 0, 1)), ("32x64", (1, 0)), ("37x61", (1, 0)), ("31x17", (1, 0)), ("16x16", (1, 0)),
                         ("127x16", (1, 0)), ("2x33x40", (0, 2, 1)), ("2x33x40", (2, 1, 0)), ("17x2x19", (2, 1, 0)),
                         ("2x3x16x20", (0, 2, 1, 3)), ("2x17x3x19", (3, 2, 1, 0)), ("0x20", (1, 0)), ("1x33", (1, 0)),
                         ("4x5x6x7", (0, 3, 1, 2)), ("257x263", (1, 0)), ("64x128x2", (1, 0, 2))):
        permuted(shape, order)
    for shape, starts, limits, strides, result in (
            ("6x41", [1, 3], [5, 40], [2, 2], "2x19"), ("7x33", [0, 1], [7, 33], [1, 1], "7x32"),
            ("9x64", [2, 0], [9, 64], [1, 1], "7x64"), ("5x16", [5, 0], [5, 16], [1, 1], "0x16"),
            ("1031", [3], [1030], [1], "1027"), ("6x8x5", [0, 3, 0], [6, 4, 5], [1, 1, 1], "6x1x5")):
        add(f"fusion.slice {{0}} starts = {starts} limits = {limits} strides = {strides} : tensor<{shape}x@>",
            [shape + "x@"], result + "x@")
    for shape, dims in (("3x21", [1]), ("5x64", [0]), ("7x9x11", [0, 2]), ("1", [0]), ("1031", [0])):
        add(f"fusion.reverse {{0}} dims = {dims} : tensor<{shape}x@>", [shape + "x@"], shape + "x@")
    for parts, axis, result in ((("2x17", "2x0", "2x5"), 1, "2x22"), (("2x17", "1x17"), 0, "3x17"), (("7x31", "7x33", "7x64"), 1, "7x128"),
                                (("5x16", "5x16"), 1, "5x32"), (("3x2x5", "3x4x5", "3x1x5"), 1, "3x7x5"), (("0", "13"), 0, "13"),
                                (("64", "128", "256"), 0, "448")):
        kinds = [part + "x@" for part in parts]
        operands = ", ".join("{%d}" % i for i in range(len(kinds)))
        types = ", ".join(f"tensor<{kind}>" for kind in kinds)
        add(f"fusion.concat {operands} axis = {axis} : {types}", kinds, result + "x@")
    for shape, low, high, result in (("3x16", [1, 2], [0, 3], "4x21"), ("5x7", [0, 0], [0, 1], "5x8"), ("0x3", [2, 0], [1, 0], "3x3"),
                                     ("33", [31], [0], "64")):
        add(f"fusion.pad {{0}}, {{1}} low = {low} high = {high} : tensor<{shape}x@>, tensor<@>", [shape + "x@", "@"], result + "x@")
    for shape, indices, axis, batch, result in (("7x18", "2x3xi64", 0, 0, "2x3x18"), ("3x7", "3x20xi32", 1, 1, "3x20"),
                                                ("5x64", "37xi32", 0, 0, "37x64"), ("6x5x3", "11xi64", 1, 0, "6x11x3"),
                                                ("9x33", "0xi64", 0, 0, "0x33"), ("4x9", "13xi32", 1, 0, "4x13")):
        more = f" {{{{batch_dims = {batch} : i64}}}}" if batch else ""
        add(f"fusion.gather {{0}}, {{1}} axis = {axis}{more} : tensor<{shape}x@>, tensor<{indices}>", [shape + "x@", indices],
            result + "x@", special={1: 9.0})
    for shape, indices, result in (("4x5x17", "6x2xi64", "6x17"), ("7x9", "31x2xi32", "31"), ("5x64", "3x1xi64", "3x64")):
        add(f"fusion.gather_nd {{0}}, {{1}} : tensor<{shape}x@>, tensor<{indices}>", [shape + "x@", indices], result + "x@", special={1: 6.0})
    for shape, update in (("5x20", "2x6"), ("9x64", "1x64"), ("7x33", "7x33"), ("8x8", "0x8")):
        add(f"fusion.update_slice {{0}}, {{1}} at ({{2}}, {{3}}) : tensor<{shape}x@>, tensor<{update}x@>, tensor<i64>, tensor<i64>",
            [shape + "x@", update + "x@", "i64", "i64"], shape + "x@")
    for shape, axis in (("2x40", 1), ("3x33", 0), ("127", 0), ("0", 0)):
        add(f"fusion.iota axis = {axis} : tensor<{shape}x@>", [], shape + "x@", NUMBERS)
    for shape in ("3x21", "1024", "1031", "1", "0x4"):
        add(f"fusion.rng_uniform {{0}}, {{1}} : tensor<i64>, tensor<i64>, tensor<{shape}x@>", ["i64", "i64"], shape + "x@", FLOATS,
            data=1e6)
    return cases


def scatters():
    cases = []
    for kind, dtypes in (("set", ALL), ("add", NUMBERS), ("min", NUMBERS), ("max", NUMBERS)):
        for shape, indices, updates in (("6x18", "4x1xi64", "4x18"), ("6x4", "9x2xi32", "9"), ("5x64", "13x1xi32", "13x64"),
                                        ("7x131", "11x1xi64", "11x131"), ("9", "0x1xi64", "0"), ("4x0", "3x1xi64", "3x0"),
                                        ("5x3x257", "2x4x2xi32", "2x4x257"),
                                        # Several blocks; a slice for two of them; more indices than one round takes.
                                        ("2500x16", "300x1xi64", "300x16"), ("3x20000", "5x1xi64", "5x20000"),
                                        ("4096x3", "5000x1xi32", "5000x3")):
            cases.append(Case(f"fusion.scatter {kind}, {{0}}, {{1}}, {{2}} : tensor<{shape}x@>, tensor<{indices}>, tensor<{updates}x@>",
                              (shape + "x@", indices, updates + "x@"), (shape + "x@",), dtypes,
                              "small" if kind == "add" else "wide", special={1: 7.0}))
    return cases


# Lengths of rows: parts of a warp, a warp, warps, a block, several vectors a
# thread, more than a block holds; odd ones, which no vector divides.
ROWS = (1, 2, 3, 4, 7, 8, 16, 17, 31, 32, 37, 64, 96, 128, 129, 256, 509, 512, 1000, 1024, 1031, 2048, 2053, 4096, 6144, 8191, 8192,
        16384, 16411, 32768, 32771, 40960, 70000)
COLUMNS = ((1, 33), (2, 64), (3, 31), (4, 128), (5, 1), (7, 8), (8, 257), (9, 1024), (13, 127), (16, 64), (17, 100), (31, 3), (64, 64),
           (65, 33), (127, 16), (128, 130), (129, 7), (1000, 37), (1031, 32), (4096, 8), (33, 4099))


def reduction(kind, shape, dims, dtypes, data="small", terms=0, accuracy="bits"):
    sizes = shape.split("x")
    kept = [size for i, size in enumerate(sizes) if i not in dims]
    out = "x".join(kept + ["@"])
    return Case(f"fusion.reduce {kind}, {{0}} dims = {list(dims)} : tensor<{shape}x@>", (shape + "x@",), (out,), dtypes, data,
                accuracy, terms)


def rowReductions():
    cases = []
    for i, length in enumerate(ROWS):
        count = (131, 5, 33, 257)[i % 4] if length <= 64 else (3, 33, 1, 5)[i % 4] if length <= 4096 else (2, 1)[i % 2]
        cases.append(reduction("sum", f"{count}x{length}", (1,), NUMBERS))
        if i % 2 == 0:
            cases.append(reduction("max", f"{count}x{length}", (1,), ALL, "wide"))
        if i % 4 == 1:
            cases.append(reduction("mean", f"{count}x{length}", (1,), FLOATS, 4.0, length, "sum"))
        if i % 4 == 3:
            cases.append(reduction("sum", f"{count}x{length}", (1,), FLOATS, 4.0, length, "sum"))
    for shape, dims in (("3x4x37", (1, 2)), ("3x4x37", (0, 1, 2)), ("0x7", (1,)), ("5x0", (1,)), ("9", (0,)), ("100003", (0,)),
                        ("2x3x5x7", (2, 3)), ("1x1x1", (2,))):
        cases.append(reduction("sum", shape, dims, NUMBERS))
    for shape, dims in (("3x4x37", (2,)), ("5x41", (1,)), ("7x129", (1,)), ("5x0", (1,))):
        cases.append(reduction("prod", shape, dims, NUMBERS, "unit"))
        if shape != "5x0":
            cases.append(reduction("min", shape, dims, ALL, "wide"))
    for op in ("arg_max", "arg_min"):
        for shape, axis, last, out in (("3x19", 1, "", "3"), ("9x19", 0, " {{select_last}}", "19"), ("5x1031", 1, " {{select_last}}", "5"),
                                       ("33x64", 1, "", "33"), ("1x1", 1, "", "1")):
            cases.append(Case(f"fusion.{op} {{0}} axis = {axis}{last} : tensor<{shape}x@>", (shape + "x@",), (f"{out}xi64",), NUMBERS,
                              "wide" if last else "small"))
    return cases


def columnReductions():
    cases = []
    for i, (length, width) in enumerate(COLUMNS):
        cases.append(reduction("sum", f"{length}x{width}", (0,), NUMBERS))
        if i % 3 == 0:
            cases.append(reduction("max", f"{length}x{width}", (0,), ALL, "wide"))
        if i % 3 == 1:
            cases.append(reduction("mean", f"{length}x{width}", (0,), FLOATS, 4.0, length, "sum"))
        if i % 3 == 2:
            cases.append(reduction("sum", f"{length}x{width}", (0,), FLOATS, 4.0, length, "sum"))
    for shape, dims in (("3x4x37", (1,)), ("3x4x37", (0, 1)), ("3x4x37", (0, 2)), ("0x7", (0,)), ("5x0", (0,)), ("4x129x8", (1,)),
                        ("2x5x3x64", (0, 2)), ("6x100x3", (1,))):
        cases.append(reduction("sum", shape, dims, NUMBERS))
    for shape, dims in (("37x12", (0,)), ("3x9x64", (1,)), ("0x3", (0,))):
        cases.append(reduction("prod", shape, dims, NUMBERS, "unit"))
        if not shape.startswith("0"):
            cases.append(reduction("min", shape, dims, ALL, "wide"))
    return cases


def contractions():
    cases = []

    def matmul(a, b, out, terms, flags=""):
        more = f" {{{{{flags}}}}}" if flags else ""
        text = f"fusion.matmul {{0}}, {{1}}{more} : tensor<{a}x@>, tensor<{b}x@>"
        cases.append(Case(text, (a + "x@", b + "x@"), (out + "x@",), NUMBERS, "small", "zero"))
        cases.append(Case(text, (a + "x@", b + "x@"), (out + "x@",), FLOATS, 4.0, "sum", terms))

    matmul("5x7", "7x19", "5x19", 7)
    matmul("16x32", "32x24", "16x24", 32)
    matmul("64x128", "128x64", "64x64", 128)
    matmul("33x65", "65x127", "33x127", 65)
    matmul("2x7x5", "2x6x7", "2x5x6", 7, "transpose_lhs, transpose_rhs")
    matmul("2x3x4", "4x5", "2x3x5", 4)
    matmul("3x8x16", "3x24x16", "3x8x24", 16, "transpose_rhs")
    matmul("1x64", "64x16", "1x16", 64)
    matmul("16x0", "0x8", "16x8", 0)
    matmul("0x8", "8x16", "0x16", 8)

    def window(text, inputs, out, terms, data=4.0):
        types = ", ".join(f"tensor<{kind}x@>" for kind in inputs)
        kinds = tuple(kind + "x@" for kind in inputs)
        cases.append(Case(f"{text} : {types}", kinds, (out + "x@",), FLOATS, "small", "zero"))
        cases.append(Case(f"{text} : {types}", kinds, (out + "x@",), FLOATS, data, "sum", terms))

    for layout in ("nchw", "nhwc"):
        last = layout == "nhwc"

        def image(n, c, *sizes, last=last):
            return "x".join(map(str, [n, *sizes, c] if last else [n, c, *sizes]))

        x = image(2, 4, 7, 8)
        window("fusion.conv {0}, {1} bias {2} strides = [2, 2] pad_low = [1, 2] pad_high = [1, 1] dilations = [1, 1] groups = 2 "
               f"layout = {layout}", (x, "18x2x3x3", "18"), image(2, 18, 4, 5), 19)
        window("fusion.conv {0}, {1} strides = [1, 1] pad_low = [1, 1] pad_high = [1, 1] dilations = [1, 1] groups = 1 "
               f"layout = {layout}", (image(1, 16, 6, 6), "16x16x3x3"), image(1, 16, 6, 6), 145)
        window("fusion.conv_transpose {0}, {1} strides = [2, 1] pad_low = [1, 0] pad_high = [0, 1] output_padding = [1, 0] "
               f"dilations = [1, 2] groups = 2 layout = {layout}", (x, "4x3x3x2"), image(2, 6, 15, 9), 25)
        for count, flag in (("", ""), (" {{count_include_pad}}", "")):
            text = ("fusion.avg_pool {0} window = [3, 3] strides = [2, 2] pad_low = [1, 1] pad_high = [1, 0] dilations = [1, 1] "
                    f"layout = {layout}{count}{flag} : tensor<{x}x@>")
            cases.append(Case(text, (x + "x@",), (image(2, 4, 4, 4) + "x@",), FLOATS, 4.0, "sum", 9))
        p = image(1, 2, 6, 20)
        cases.append(Case("fusion.max_pool {0} window = [3, 2] strides = [2, 1] pad_low = [1, 0] pad_high = [1, 1] dilations = [1, 2] "
                          f"layout = {layout} : tensor<{p}x@>", (p + "x@",), (image(1, 2, 3, 19) + "x@",), NUMBERS, "wide"))
        pooled = image(1, 2, 3, 19)
        cases.append(Case("fusion.max_pool_grad {0}, {1} window = [3, 2] strides = [2, 1] pad_low = [1, 0] pad_high = [1, 1] "
                          f"dilations = [1, 2] layout = {layout} : tensor<{p}x@>, tensor<{pooled}x@>",
                          (p + "x@", pooled + "x@"), (p + "x@",), FLOATS, 4.0, "sum", 4))
    window("fusion.conv {0}, {1} strides = [1] pad_low = [0] pad_high = [0] dilations = [2] groups = 1 layout = nchw",
           ("1x3x25", "2x3x3"), "1x2x21", 10)
    return cases


def norms():
    cases = []

    def add(text, inputs, outputs, data=3.0, **special):
        cases.append(Case(text, tuple(inputs), tuple(outputs), FLOATS, data, "near", special=special.get("special", {})))

    for shape, channels, axis in (("2x5x17", 5, 1), ("3x7x4x4", 7, 1), ("6x33", 33, 1)):
        kind, row = f"{shape}x@", f"{channels}x@"
        add(f"fusion.batch_norm {{0}}, {{1}}, {{2}}, {{3}}, {{4}} epsilon = 1.0 axis = {axis} : tensor<{kind}>, tensor<{row}>",
            [kind, row, row, row, row], [kind], special={4: "positive"})
        add(f"fusion.batch_norm_training {{0}}, {{1}}, {{2}} epsilon = 1.0e-2 axis = {axis} : tensor<{kind}>, tensor<{row}>",
            [kind, row, row], [kind, row, row])
    for i, length in enumerate((1, 7, 37, 64, 128, 257, 768, 1024, 2048, 4099, 8192, 33000)):
        count = (3, 33)[i % 2] if length < 500 else 2 if length < 4000 else 1
        kind, row = f"{count}x{length}x@", f"{length}x@"
        add(f"fusion.layer_norm {{0}} scale {{1}} bias {{2}} epsilon = 1.0e-2 axis = 1 : tensor<{kind}>, tensor<{row}>, tensor<{row}>",
            [kind, row, row], [kind])
        add(f"fusion.rms_norm {{0}} scale {{1}} epsilon = 1.0e-2 axis = 1 : tensor<{kind}>, tensor<{row}>", [kind, row], [kind])
        op = ("softmax", "log_softmax")[i % 2]
        add(f"fusion.{op} {{0}} axis = 1 : tensor<{kind}>", [kind], [kind])
    add("fusion.layer_norm {0} epsilon = 1.0e-2 axis = 1 : tensor<5x2x9x@>", ["5x2x9x@"], ["5x2x9x@"])
    for op in ("softmax", "log_softmax"):
        for shape, axis in (("2x5x18", 1), ("3x37", 1), ("0x4", 1), ("9x64", 0), ("1x1", 1)):
            add(f"fusion.{op} {{0}} axis = {axis} : tensor<{shape}x@>", [shape + "x@"], [shape + "x@"])
    add("fusion.attention {0}, {1}, {2} scale = 0.5 causal : tensor<1x2x3x4x@>, tensor<1x1x5x4x@>, tensor<1x1x5x6x@>",
        ["1x2x3x4x@", "1x1x5x4x@", "1x1x5x6x@"], ["1x2x3x6x@"], 1.0)
    add("fusion.attention {0}, {1}, {2} mask {3} scale = 0.25 : tensor<2x2x16x16x@>, tensor<2x2x16x16x@>, tensor<2x2x16x16x@>, "
        "tensor<1x1x16x16x@>", ["2x2x16x16x@"] * 3 + ["1x1x16x16x@"], ["2x2x16x16x@"], 1.0)
    add("fusion.attention_grad {0}, {1}, {2}, {3} scale = 0.5 causal : tensor<1x2x3x4x@>, tensor<1x1x5x4x@>, tensor<1x1x5x6x@>, "
        "tensor<1x2x3x6x@>", ["1x2x3x4x@", "1x1x5x4x@", "1x1x5x6x@", "1x2x3x6x@"], ["1x2x3x4x@", "1x1x5x4x@", "1x1x5x6x@"], 1.0)
    add("fusion.attention_grad {0}, {1}, {2}, {3} scale = 0.25 causal : tensor<2x4x37x16x@>, tensor<2x2x53x16x@>, tensor<2x2x53x8x@>, "
        "tensor<2x4x37x8x@>", ["2x4x37x16x@", "2x2x53x16x@", "2x2x53x8x@", "2x4x37x8x@"], ["2x4x37x16x@", "2x2x53x16x@", "2x2x53x8x@"], 1.0)
    add("fusion.attention_grad {0}, {1}, {2}, {3} mask {4} scale = 0.25 : tensor<2x2x16x16x@>, tensor<2x2x16x16x@>, "
        "tensor<2x2x16x16x@>, tensor<2x2x16x16x@>, tensor<1x1x16x16x@>", ["2x2x16x16x@"] * 4 + ["1x1x16x16x@"], ["2x2x16x16x@"] * 3, 1.0)
    for flag in ("", " {{interleaved}}"):
        add(f"fusion.rope {{0}}, {{1}}, {{2}}{flag} : tensor<2x3x8x@>, tensor<3x4x@>", ["2x3x8x@", "3x4x@", "3x4x@"], ["2x3x8x@"], 2.0)
    return cases


FAMILIES = {"elementwise": elementwise, "moves": moves, "scatter": scatters, "rows": rowReductions, "columns": columnReductions,
            "contractions": contractions, "norms": norms}

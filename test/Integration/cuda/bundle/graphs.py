# ===- graphs.py - Cases of several ops, and with a dynamic batch ----------=== #
#
# What fusion makes of neighbours: prologues and epilogues of each emitter, values
# that leave in the middle, rows and columns walked twice, library calls with their
# epilogues. Integers as data where sums are exact, so that bits can be compared.
#
# ===----------------------------------------------------------------------=== #
"""Cases of chains (`chains`) and of a batch from 1 to 7 (`batches`)."""

from cases import ALL, FLOATS, INTS, NUMBERS, Case

MAX_BATCH = 7
BATCHES = (1, 3, 7)


def case(lines, inputs, outputs, dtypes=NUMBERS, data="small", accuracy="bits", terms=0, special=None):
    return Case("\n".join(lines), tuple(inputs), tuple(outputs), dtypes, data, accuracy, terms, special or {})


def rowChains(count, length):
    x, row, one = f"tensor<{count}x{length}x@>", f"tensor<{length}x@>", f"tensor<{count}x@>"
    kinds = [f"{count}x{length}x@", f"{length}x@", f"{count}x@"]
    spread = f"dims = [1] : {row} to {x}"
    back = f"dims = [0] : {one} to {x}"
    yield case([f"%a = fusion.add {{0}}, {{1}} : {x}", f"%y0 = fusion.layer_norm %a epsilon = 1.0e-2 axis = 1 : {x}",
                f"%y1 = fusion.neg %a : {x}"], [kinds[0]] * 2, [kinds[0]] * 2, FLOATS, 3.0, "near", 2)
    yield case([f"%b = fusion.broadcast {{1}} {spread}", f"%a = fusion.mul {{0}}, %b : {x}",
                f"%y0 = fusion.softmax %a axis = 1 : {x}"], kinds[:2], [kinds[0]], FLOATS, 2.0, "near", 8)
    yield case([f"%s = fusion.reduce sum, {{0}} dims = [1] : {x}", f"%b = fusion.broadcast %s {back}",
                f"%y0 = fusion.sub {{0}}, %b : {x}", f"%y1 = fusion.neg %s : {one}"], kinds[:1], [kinds[0], kinds[2]],
               ("f64", "f32") + INTS)
    yield case([f"%a = fusion.neg {{0}} : {x}", f"%y0 = fusion.reduce max, %a dims = [1] : {x}",
                f"%y1 = fusion.reduce sum, %a dims = [1] : {x}", f"%y2 = fusion.relu %a : {x}"], kinds[:1],
               [kinds[2], kinds[2], kinds[0]])
    yield case([f"%y0 = fusion.compare gt, {{0}}, {{1}} : {x}", f"%y1 = fusion.reduce max, %y0 dims = [1] : tensor<{count}x{length}xi1>",
                f"%y2 = fusion.reduce min, %y0 dims = [1] : tensor<{count}x{length}xi1>"], [kinds[0]] * 2,
               [f"{count}x{length}xi1", f"{count}xi1", f"{count}xi1"], ALL)


def columnChains(count, length):
    x, row = f"tensor<{count}x{length}x@>", f"tensor<{length}x@>"
    kinds = [f"{count}x{length}x@", f"{length}x@"]
    spread = f"dims = [1] : {row} to {x}"
    yield case([f"%s = fusion.reduce sum, {{0}} dims = [0] : {x}", f"%b = fusion.broadcast %s {spread}",
                f"%y0 = fusion.add {{0}}, %b : {x}"], kinds[:1], kinds[:1], ("f64", "f32") + INTS)
    yield case([f"%a = fusion.mul {{0}}, {{1}} : {x}", f"%y0 = fusion.reduce sum, %a dims = [0] : {x}",
                f"%y1 = fusion.reduce max, %a dims = [0] : {x}", f"%y2 = fusion.neg %y1 : {row}"], [kinds[0]] * 2,
               [kinds[1]] * 3, ("f64", "f32") + INTS)
    yield case([f"%y0 = fusion.softmax {{0}} axis = 0 : {x}"], kinds[:1], kinds[:1], FLOATS, 3.0, "near")


def moveChains():
    x, t = "tensor<37x61x@>", "tensor<61x37x@>"
    yield case([f"%a = fusion.add {{0}}, {{1}} : {x}", f"%t = fusion.transpose %a permutation = [1, 0] : {x}",
                f"%r = fusion.relu %t : {t}", f"%y0 = fusion.sub %r, {{2}} : {t}"], ["37x61x@", "37x61x@", "61x37x@"], ["61x37x@"])
    yield case([f"%t = fusion.transpose {{0}} permutation = [1, 0] : {x}", f"%u = fusion.transpose {{1}} permutation = [1, 0] : {x}",
                f"%y0 = fusion.max %t, %u : {t}"], ["37x61x@", "37x61x@"], ["61x37x@"])
    w = "tensor<64x32x@>"
    yield case([f"%t = fusion.transpose {{0}} permutation = [1, 0] : {w}", "%y0 = fusion.neg %t : tensor<32x64x@>"],
               ["64x32x@"], ["32x64x@"])
    yield case([f"%t = fusion.transpose {{0}} permutation = [1, 0] : {x}", f"%y0 = fusion.reduce sum, %t dims = [1] : {t}",
                f"%y1 = fusion.reduce sum, %t dims = [0] : {t}"], ["37x61x@"], ["61x@", "37x@"])
    a, b = "tensor<9x31x@>", "tensor<9x33x@>"
    yield case([f"%a = fusion.relu {{0}} : {a}", f"%b = fusion.neg {{1}} : {b}", f"%c = fusion.concat %a, %b axis = 1 : {a}, {b}",
                "%y0 = fusion.add %c, %c : tensor<9x64x@>"], ["9x31x@", "9x33x@"], ["9x64x@"])
    yield case([f"%a = fusion.add {{0}}, {{0}} : {a}", "%y0 = fusion.slice %a starts = [1, 3] limits = [8, 31] strides = [1, 4] : "
                f"{a}", f"%y1 = fusion.reverse %a dims = [0, 1] : {a}"], ["9x31x@"], ["7x7x@", "9x31x@"])
    yield case([f"%a = fusion.neg {{0}} : {b}", f"%g = fusion.gather %a, {{1}} axis = 0 : {b}, tensor<13xi64>",
                "%y0 = fusion.abs %g : tensor<13x33x@>"], ["9x33x@", "13xi64"], ["13x33x@"], special={1: 12.0})
    yield case([f"%a = fusion.relu {{0}} : {b}", "%u = fusion.neg {2} : tensor<5x33x@>",
                f"%s = fusion.scatter add, %a, {{1}}, %u : {b}, tensor<5x1xi32>, tensor<5x33x@>", f"%y0 = fusion.neg %s : {b}"],
               ["9x33x@", "5x1xi32", "5x33x@"], ["9x33x@"], special={1: 6.0})
    yield case(["%b = fusion.broadcast {0} dims = [1] : tensor<12x@> to tensor<5x12x7x@>", "%n = fusion.neg %b : tensor<5x12x7x@>",
                "%r = fusion.reshape %n : tensor<5x12x7x@> to tensor<60x7x@>", "%y0 = fusion.reduce sum, %r dims = [1] : tensor<60x7x@>"],
               ["12x@"], ["60x@"])


def castChains():
    for length in (64, 129):
        x = f"{length}x"
        yield case([f"%f = fusion.cast {{0}} : tensor<{x}@> to tensor<{x}f32>", f"%s = fusion.add %f, {{1}} : tensor<{x}f32>",
                    f"%y0 = fusion.cast %s : tensor<{x}f32> to tensor<{x}@>", f"%y1 = fusion.cast %y0 : tensor<{x}@> to tensor<{x}i8>",
                    f"%y2 = fusion.cast %y0 : tensor<{x}@> to tensor<{x}f64>"],
                   [x + "@", x + "f32"], [x + "@", x + "i8", x + "f64"], ALL)


def scatterChains():
    """A sum in f32 that its kernel narrows: of one round; of more indices than a round has,
    where few and where most of them name one block's rows."""
    for rows, width, updates, most in ((2500, 16, 300, 2499.0), (4096, 24, 5000, 4095.0), (6, 40, 5000, 7.0), (3, 20000, 5000, 1.0)):
        x, u = f"tensor<{rows}x{width}xf32>", f"{updates}x{width}x"
        yield case([f"%z = fusion.constant dense<0.0> : {x}", f"%u = fusion.cast {{1}} : tensor<{u}@> to tensor<{u}f32>",
                    f"%s = fusion.scatter add, %z, {{0}}, %u : {x}, tensor<{updates}x1xi32>, tensor<{u}f32>",
                    f"%y0 = fusion.cast %s : {x} to tensor<{rows}x{width}x@>"],
                   [f"{updates}x1xi32", u + "@"], [f"{rows}x{width}x@"], ("f16", "bf16"), special={0: most})


def libraryChains():
    for m, k, n in ((16, 32, 24), (33, 64, 128), (128, 64, 40)):
        kinds = [f"{m}x{k}x@", f"{k}x{n}x@", f"{n}x@", f"{m}x{n}x@"]
        out = f"tensor<{m}x{n}x@>"
        product = f"%p = fusion.matmul {{0}}, {{1}} : tensor<{kinds[0]}>, tensor<{kinds[1]}>"
        spread = f"%b = fusion.broadcast {{2}} dims = [1] : tensor<{n}x@> to {out}"
        yield case([product, spread, f"%s = fusion.add %p, %b : {out}", f"%y0 = fusion.relu %s : {out}"], kinds[:3], kinds[3:],
                   accuracy="zero")
        yield case([product, spread, f"%s = fusion.add %p, %b : {out}", f"%r = fusion.add %s, {{3}} : {out}", f"%y0 = fusion.neg %r : {out}"],
                   kinds, kinds[3:], accuracy="zero")
        # Halves: products are of magnitude 1, where gelu bends.
        yield case([product, spread, f"%s = fusion.add %p, %b : {out}", f"%y0 = fusion.gelu tanh, %s : {out}"], kinds[:3], kinds[3:],
                   FLOATS, 0.3, "near", 16)
    text = ("%%c = fusion.conv {0}, {1} bias {2} strides = [1, 1] pad_low = [1, 1] pad_high = [1, 1] dilations = [1, 1] groups = 1 "
            "layout = %s : tensor<%sx@>, tensor<16x8x3x3x@>, tensor<16x@>")
    for layout, x, y in (("nchw", "2x8x5x6", "2x16x5x6"), ("nhwc", "2x5x6x8", "2x5x6x16")):
        yield case([text % (layout, x), f"%s = fusion.add %c, {{3}} : tensor<{y}x@>", f"%y0 = fusion.relu %s : tensor<{y}x@>"],
                   [x + "x@", "16x8x3x3x@", "16x@", y + "x@"], [y + "x@"], FLOATS, accuracy="zero")


def gradientChains():
    """What a library computes beside a product: sums of a side, the slope of gelu and
    the sum of what that gives."""
    for k, m, n in ((40, 24, 56), (129, 8, 136), (5, 64, 8)):
        x, dy, dw = f"{k}x{m}x@", f"{k}x{n}x@", f"{m}x{n}x@"
        product = f"%y0 = fusion.matmul {{0}}, {{1}} {{{{transpose_lhs}}}} : tensor<{x}>, tensor<{dy}>"
        yield case([f"%y1 = fusion.reduce sum, {{1}} dims = [0] : tensor<{dy}>", product], [x, dy], [dw, f"{n}x@"], accuracy="zero")
        yield case([product, f"%y1 = fusion.reduce sum, {{0}} dims = [0] : tensor<{x}>"], [x, dy], [dw, f"{m}x@"], accuracy="zero")
        wide = f"tensor<{k}x{n}xf32>"
        yield case([f"%f = fusion.cast {{1}} : tensor<{dy}> to {wide}", f"%s = fusion.reduce sum, %f dims = [0] : {wide}",
                    f"%y1 = fusion.cast %s : tensor<{n}xf32> to tensor<{n}x@>", product], [x, dy], [dw, f"{n}x@"], ("f16", "bf16"),
                   accuracy="zero")
        g, w, dx = f"{m}x{k // 8 * 8 + 8}x@", f"{n}x{k // 8 * 8 + 8}x@", f"{m}x{n}x@"
        out = f"tensor<{dx}>"
        slope = [f"%p = fusion.matmul {{0}}, {{1}} {{{{transpose_rhs}}}} : tensor<{g}>, tensor<{w}>"]
        slope += [f"%{name} = fusion.constant dense<{number}> : {out}" for name, number in
                  (("one", "1.0"), ("half", "0.5"), ("root", "0.7978845608"), ("a", "0.0356774081"), ("b", "0.1070322244"))]
        slope += [f"%{line} : {out}" for line in
                  ("q = fusion.mul {2}, {2}", "r = fusion.mul %q, %a", "i = fusion.add %r, %root", "u = fusion.mul %q, %b",
                   "v = fusion.add %u, %root", "z = fusion.mul {2}, %i", "t = fusion.tanh %z", "l = fusion.add %t, %one",
                   "tt = fusion.mul %t, %t", "c = fusion.sub %one, %tt", "d = fusion.mul {2}, %c", "e = fusion.mul %d, %v",
                   "f = fusion.add %l, %e", "h = fusion.mul %f, %half", "y0 = fusion.mul %p, %h")]
        # Sums of few terms, so that nothing cancels.
        yield case(slope, [g, w, dx], [dx], ("f32",), 0.5, "near", 16)
        yield case(slope + [f"%y1 = fusion.reduce sum, %y0 dims = [0] : {out}"], [g, w, dx], [dx, f"{n}x@"], ("f32",), 0.5, "near", 16 * m)


def chains():
    cases = []
    for count, length in ((5, 7), (33, 64), (3, 1031), (2, 4096), (1, 33000)):
        cases += rowChains(count, length)
    for count, length in ((7, 5), (64, 33), (129, 64), (1000, 12)):
        cases += columnChains(count, length)
    return cases + list(moveChains()) + list(castChains()) + list(scatterChains()) + list(libraryChains()) + list(gradientChains())


def batches():
    cases = []

    def add(text, inputs, outputs, dtypes=NUMBERS, data="small", accuracy="bits", terms=0, special=None):
        cases.append(Case(text, tuple(inputs), tuple([outputs] if isinstance(outputs, str) else outputs), dtypes, data, accuracy, terms,
                          special or {}))

    for shape in ("?x@", "?x5x@", "?x33x64x@", "?x1024x@"):
        add(f"fusion.neg {{0}} : tensor<{shape}>", [shape], shape)
        add(f"fusion.add {{0}}, {{1}} : tensor<{shape}>", [shape, shape], shape)
    add("fusion.select {0}, {1}, {2} : tensor<?x37xi1>, tensor<?x37x@>", ["?x37xi1", "?x37x@", "?x37x@"], "?x37x@", ALL)
    add("fusion.cast {0} : tensor<?x33x@> to tensor<?x33xf16>", ["?x33x@"], "?x33xf16", ALL)
    add("fusion.broadcast {0} dims = [1] : tensor<5x@> to tensor<?x5x@>", ["5x@"], "?x5x@", ALL)
    add("fusion.broadcast {0} dims = [0, 2] : tensor<?x8x@> to tensor<?x3x8x@>", ["?x8x@"], "?x3x8x@", ALL)
    add("fusion.iota axis = 0 : tensor<?x3x@>", [], "?x3x@")
    for length in (1, 7, 37, 64, 1031, 4096, 40960):
        add(f"fusion.reduce sum, {{0}} dims = [1] : tensor<?x{length}x@>", [f"?x{length}x@"], "?x@")
    for width in (1, 37, 64, 257):
        add(f"fusion.reduce sum, {{0}} dims = [0] : tensor<?x{width}x@>", [f"?x{width}x@"], f"{width}x@")
        add(f"fusion.reduce max, {{0}} dims = [0] : tensor<?x{width}x@>", [f"?x{width}x@"], f"{width}x@", ALL, "wide")
    add("fusion.reduce mean, {0} dims = [0] : tensor<?x33x@>", ["?x33x@"], "33x@", FLOATS, 4.0, "sum", MAX_BATCH)
    for dims, out in (("[0, 1]", "64x@"), ("[0, 2]", "3x@"), ("[1, 2]", "?x@"), ("[1]", "?x64x@"), ("[0, 1, 2]", "@")):
        add(f"fusion.reduce sum, {{0}} dims = {dims} : tensor<?x3x64x@>", ["?x3x64x@"], out)
    for shape, order, out in (("?x20x33", (0, 2, 1), "?x33x20x@"), ("?x20x33", (1, 0, 2), "20x?x33x@"), ("?x20x33", (2, 1, 0), "33x20x?x@"),
                              ("?x40", (1, 0), "40x?x@")):
        add(f"fusion.transpose {{0}} permutation = {list(order)} : tensor<{shape}x@>", [shape + "x@"], out, ALL)
    add("fusion.concat {0}, {1} axis = 1 : tensor<?x5x@>, tensor<?x3x@>", ["?x5x@", "?x3x@"], "?x8x@", ALL)
    add("fusion.slice {0} starts = [0, 3] limits = [-1, 31] strides = [1, 2] : tensor<?x33x@>", ["?x33x@"], "?x14x@", ALL)
    add("fusion.reverse {0} dims = [0] : tensor<?x9x@>", ["?x9x@"], "?x9x@", ALL)
    add("fusion.pad {0}, {1} low = [0, 2] high = [0, 3] : tensor<?x11x@>, tensor<@>", ["?x11x@", "@"], "?x16x@", ALL)
    add("fusion.gather {0}, {1} axis = 0 : tensor<7x18x@>, tensor<?xi64>", ["7x18x@", "?xi64"], "?x18x@", ALL, special={1: 9.0})
    add("fusion.gather {0}, {1} axis = 1 {{batch_dims = 1 : i64}} : tensor<?x7x@>, tensor<?x20xi32>", ["?x7x@", "?x20xi32"], "?x20x@", ALL,
        special={1: 9.0})
    add("fusion.scatter add, {0}, {1}, {2} : tensor<?x8x@>, tensor<5x1xi64>, tensor<5x8x@>", ["?x8x@", "5x1xi64", "5x8x@"], "?x8x@",
        special={1: 7.0})
    add("fusion.reshape {0} : tensor<?x6x@> to tensor<?x2x3x@>", ["?x6x@"], "?x2x3x@", ALL)
    for op in ("arg_max", "arg_min"):
        add(f"fusion.{op} {{0}} axis = 1 : tensor<?x19x@>", ["?x19x@"], "?xi64")
        add(f"fusion.{op} {{0}} axis = 0 : tensor<?x19x@>", ["?x19x@"], "19xi64")
    for length in (37, 768, 5000):
        kind = f"?x{length}x@"
        add(f"fusion.softmax {{0}} axis = 1 : tensor<{kind}>", [kind], kind, FLOATS, 3.0, "near")
        add(f"fusion.layer_norm {{0}} epsilon = 1.0e-2 axis = 1 : tensor<{kind}>", [kind], kind, FLOATS, 3.0, "near")
    add("fusion.softmax {0} axis = 0 : tensor<?x33x@>", ["?x33x@"], "?x33x@", FLOATS, 3.0, "near")
    add("fusion.matmul {0}, {1} : tensor<?x16x@>, tensor<16x24x@>", ["?x16x@", "16x24x@"], "?x24x@", accuracy="zero")
    add("fusion.matmul {0}, {1} : tensor<?x3x4x@>, tensor<?x4x5x@>", ["?x3x4x@", "?x4x5x@"], "?x3x5x@", accuracy="zero")
    add("fusion.conv {0}, {1} strides = [1, 1] pad_low = [1, 1] pad_high = [1, 1] dilations = [1, 1] groups = 1 layout = nchw : "
        "tensor<?x3x6x7x@>, tensor<8x3x3x3x@>", ["?x3x6x7x@", "8x3x3x3x@"], "?x8x6x7x@", FLOATS, accuracy="zero")
    add("fusion.max_pool {0} window = [2, 2] strides = [2, 2] pad_low = [0, 0] pad_high = [0, 0] dilations = [1, 1] layout = nhwc : "
        "tensor<?x6x8x3x@>", ["?x6x8x3x@"], "?x3x4x3x@", data="wide")
    add("fusion.rope {0}, {1}, {2} : tensor<?x3x8x@>, tensor<3x4x@>", ["?x3x8x@", "3x4x@", "3x4x@"], "?x3x8x@", FLOATS, 2.0, "near")
    add("fusion.attention {0}, {1}, {2} scale = 0.5 : tensor<?x2x8x16x@>, tensor<?x2x8x16x@>, tensor<?x2x8x16x@>", ["?x2x8x16x@"] * 3,
        "?x2x8x16x@", FLOATS, 1.0, "near")
    return cases

# ===- ranks.py - Collectives in the evaluator and on processes -----------=== #
#
# Public reports of other systems, each as the smallest graph that trips a naive
# implementation.
#
# ===----------------------------------------------------------------------=== #
"""Reported cases: collectives in the evaluator and on ranks that are processes."""

from harness import *  # noqa: F401,F403


def expectRanks(t, text, count, inputs, want, flags=()):
    """Each rank gives its array as output y, or its arrays by name: in the
    evaluator and, compiled with `flags`, on processes."""
    words, out = t.ranks(text, count, inputs)
    t.good(words)
    module = t.path(".fsn")
    t.good([BIN / "fusion-compile", t.write(text), "--target=cpu", *flags, "-o", module])
    inputFlags = words[words.index(count) + 1:words.index("--output-dir")]
    processes = t.path(".processes")
    t.good([BIN / "fusion-run", module, "--ranks", count, *inputFlags, "--output-dir", processes])
    for place, folder in (("evaluator", out), ("processes", processes)):
        for rank, arrays in enumerate(want):
            for name, array in (arrays if isinstance(arrays, dict) else {"y": arrays}).items():
                compare(f"{place}, rank {rank}, {name}", np.load(folder / f"rank{rank}/{name}.npy"), array, 0, 0)


@case
def collectiveKeepsItsOperandWhileOthersReadIt(t):
    """pytorch/pytorch#108811: the operand of an asynchronous reduction is
    read by others before the wait, its result after."""
    g = RNG(62)
    a = [g.integers(-4, 5, (4, 4)).astype(F32) for _ in range(2)]
    T = "tensor<4x4xf32>"
    body = f"""%f = fusion.async stream = 1 -> {T} {{
      %ar = fusion.all_reduce sum, %a on @m[dp] : {T}
      fusion.yield %ar : {T}
      }}
      %c = fusion.relu %a : {T}
      %d = fusion.mul %c, %c : {T}
      %w = fusion.await %f : !fusion.future<{T}>
      %y = fusion.add %d, %w : {T}"""
    text = program({"a": a[0]}, body, {"y": ("%y", T)}, "fusion.mesh @m(dp = 2)\n")
    expectRanks(t, text, 2, {("a", r): v for r, v in enumerate(a)}, [np.maximum(v, 0) ** 2 + a[0] + a[1] for v in a])


@case
def memoryThatAnotherStreamStillReads(t):
    """microsoft/onnxruntime#4829: what a slow reduction on another stream reads is
    not given to the next value of this one."""
    g = RNG(60)
    T = "tensor<64x256xf32>"
    x = [g.integers(-4, 5, (64, 256)).astype(F32) for _ in range(2)]
    # Each step's value goes to the other stream, and its bytes are wanted again at
    # once by the next.
    body, total = "", None
    value = "%x"
    sums = []
    for step in range(6):
        body += f"""%v{step} = fusion.neg {value} : {T}
          %f{step} = fusion.async stream = 1 -> {T} {{
            %r{step} = fusion.all_reduce sum, %v{step} on @m[dp] : {T}
            fusion.yield %r{step} : {T}
          }}
          %n{step} = fusion.add {value}, {value} : {T}
          %k{step} = fusion.relu %n{step} : {T}
          """
        value = f"%k{step}"
    for step in range(6):
        body += f"%w{step} = fusion.await %f{step} : !fusion.future<{T}>\n"
        if total is None:
            total = f"%w{step}"
        else:
            body += f"%t{step} = fusion.add {total}, %w{step} : {T}\n"
            total = f"%t{step}"
    values = list(x)
    for _ in range(6):
        sums.append(-(values[0] + values[1]))
        values = [np.maximum(v + v, 0) for v in values]
    expectRanks(t, program({"x": x[0]}, body, {"y": (total, T)}, "fusion.mesh @m(dp = 2)\n"), 2, {("x", r): v for r, v in enumerate(x)}, [sum(sums)] * 2)


@case
def gradientsThatOneRankHasNone(t):
    """pytorch/pytorch#128949: a parameter that only rank 0 uses. The other's
    gradient is zeros; both end with the sum over 2, in one bucket with the rest."""
    g = RNG(64)
    a, b = ([g.integers(-4, 5, 8).astype(F32) * 2 for _ in range(2)] for _ in range(2))
    T = "tensor<8xf32>"
    body = f"""%i = fusion.axis_index @m[dp] : tensor<i64>
      %zero = fusion.constant dense<0> : tensor<i64>
      %first = fusion.compare eq, %i, %zero : tensor<i64>
      %firsts = fusion.broadcast %first dims = [] : tensor<i1> to tensor<8xi1>
      %none = fusion.constant dense<0.0> : {T}
      %used = fusion.select %firsts, %b, %none : tensor<8xi1>, {T}
      %y = fusion.all_reduce mean, %a on @m[dp] : {T}
      %z = fusion.all_reduce mean, %used on @m[dp] : {T}"""
    text = program({"a": a[0], "b": b[0]}, body, {"y": ("%y", T), "z": ("%z", T)}, "fusion.mesh @m(dp = 2)\n")
    inputs = {(name, r): v for name, values in (("a", a), ("b", b)) for r, v in enumerate(values)}
    expectRanks(t, text, 2, inputs, [{"y": (a[0] + a[1]) / 2, "z": b[0] / 2}] * 2)


@case
def bucketsOfTwoTypes(t):
    """horovod PR 663: gradients become ready f16, f32, f16, f32; each type has its
    own bucket and no value is cast."""
    g = RNG(66)
    types = ["f16", "f32"] * 3
    arrays = {f"g{i}": [g.integers(-8, 9, 1000).astype(np.float16 if kind == "f16" else F32) for _ in range(2)] for i, kind in enumerate(types)}
    body, outputs, want = "", {}, {}
    for i, kind in enumerate(types):
        T = f"tensor<1000x{kind}>"
        body += f"%n{i} = fusion.neg %g{i} : {T}\n%y{i} = fusion.all_reduce sum, %n{i} on @m[dp] : {T}\n"
        outputs[f"y{i}"] = (f"%y{i}", T)
        want[f"y{i}"] = -(arrays[f"g{i}"][0] + arrays[f"g{i}"][1])
    text = program({name: values[0] for name, values in arrays.items()}, body, outputs, "fusion.mesh @m(dp = 2)\n")
    expectRanks(t, text, 2, {(name, r): v for name, values in arrays.items() for r, v in enumerate(values)}, [want] * 2)


@case
def bucketsThatAreFilledAgain(t):
    """deepspeedai/DeepSpeed#5545: the memory of a bucket is filled anew while the
    reduction before still reads it."""
    g = RNG(70)
    T = "tensor<96x1024xf32>"
    x = [g.integers(-2, 3, (96, 1024)).astype(F32) for _ in range(2)]
    body, value, want, values = "", "%x", {}, list(x)
    for i in range(9):
        body += f"%g{i} = fusion.neg {value} : {T}\n%r{i} = fusion.all_reduce sum, %g{i} on @m[dp] : {T}\n"
        body += f"%s{i} = fusion.reduce sum, %r{i} dims = [1] : {T}\n"
        body += f"%a{i} = fusion.abs {value} : {T}\n%n{i} = fusion.sub %a{i}, {value} : {T}\n%l{i} = fusion.constant dense<-2.0> : {T}\n%h{i} = fusion.constant dense<2.0> : {T}\n%c{i} = fusion.clamp %n{i}, %l{i}, %h{i} : {T}\n" if i < 8 else ""
        want[f"y{i}"] = -(values[0] + values[1]).sum(1)
        values = [np.clip(np.abs(v) - v, -2, 2) for v in values]
        value = f"%c{i}"
    outputs = {f"y{i}": (f"%s{i}", "tensor<96xf32>") for i in range(9)}
    expectRanks(t, program({"x": x[0]}, body, outputs, "fusion.mesh @m(dp = 2)\n"), 2, {("x", r): v for r, v in enumerate(x)}, [want] * 2)


@case
def tiedWeightsAddBeforeTheMean(t):
    """NVIDIA/Megatron-LM#844: partial sums of the stages are added before
    the mean over the replicas, and the result is 7.5 on all ranks."""
    g = [np.array([v, v], F32) for v in (1, 2, 4, 8)]
    T = "tensor<2xf32>"
    body = f"""%s = fusion.all_reduce sum, %x on @m[pp] : {T}
      %p = fusion.reduce_scatter mean, %s dim = 0 on @m[dp] : ({T}) -> tensor<1xf32>
      %y = fusion.all_gather %p dim = 0 on @m[dp] : (tensor<1xf32>) -> {T}"""
    expectRanks(t, program({"x": g[0]}, body, {"y": ("%y", T)}, "fusion.mesh @m(dp = 2, pp = 2)\n"), 4, {("x", r): v for r, v in enumerate(g)}, [np.array([7.5, 7.5], F32)] * 4)


@case
def sizesThatTheGroupDoesNotDivide(t):
    """pytorch/pytorch#103306: uneven parts are refused by the op; padded,
    scattered, gathered and cut again, no padding is left."""
    for size, ranks in ((5, 4), (1, 4), (7, 2)):
        mesh, T = f"fusion.mesh @m(dp = {ranks})\n", f"tensor<{size}x2xf32>"
        x = [np.arange(size * 2, dtype=F32).reshape(size, 2) + 100 * r for r in range(ranks)]
        uneven = t.write(program({"x": x[0]}, f"%y = fusion.reduce_scatter sum, %x dim = 0 on @m[dp] : ({T}) -> tensor<{-(-size // ranks)}x2xf32>",
                                 {"y": ("%y", f"tensor<{-(-size // ranks)}x2xf32>")}, mesh))
        t.refused([BIN / "fusion-interpret", uneven, "--ranks", ranks, "--random-inputs", 1, "--output-dir", t.path(".out")], "reduce_scatter")
        part = -(-size // ranks)
        full, P = f"tensor<{part * ranks}x2xf32>", f"tensor<{part}x2xf32>"
        body = f"""%v = fusion.constant dense<0x7FC00000> : tensor<f32>
          %q = fusion.pad %x, %v low = [0, 0] high = [{part * ranks - size}, 0] : {T}, tensor<f32>
          %p = fusion.reduce_scatter sum, %q dim = 0 on @m[dp] : ({full}) -> {P}
          %g = fusion.all_gather %p dim = 0 on @m[dp] : ({P}) -> {full}
          %y = fusion.slice %g starts = [0, 0] limits = [{size}, 2] strides = [1, 1] : {full}"""
        expectRanks(t, program({"x": x[0]}, body, {"y": ("%y", T)}, mesh), ranks, {("x", r): v for r, v in enumerate(x)}, [sum(x)] * ranks)
    # Ranks without an element take part all the same.
    e = np.zeros((0, 2), F32)
    body = "%y = fusion.all_gather %x dim = 0 on @m[dp] : (tensor<0x2xf32>) -> tensor<0x2xf32>"
    expectRanks(t, program({"x": e}, body, {"y": ("%y", typeOf(e))}, "fusion.mesh @m(dp = 4)\n"), 4, {("x", r): e for r in range(4)}, [e] * 4)


@case
def countsThatDifferBetweenRanks(t):
    """NVIDIA/nccl#1417: ranks that reduce different counts get an error
    that names them, not a hang and not a wrong tail."""
    def function(name, size):
        T = f"tensor<{size}xf32>"
        return f'func.func @{name}(%x: {T} {{fusion.name = "x"}}) -> ({T} {{fusion.name = "y"}}) {{\n  %y = fusion.all_reduce sum, %x on @m[dp] : {T}\n  return %y : {T}\n}}\n'
    text = "fusion.mesh @m(dp = 4)\n" + function("main", 409598) + function("longer", 409600)
    words, _ = t.ranks(text, 4, {}, ["--random-inputs", 1, "--function", "main", "--function", "longer@0", "--collective-timeout", 60])
    t.refused(words, r"rank 0 .*409600.*409598|409598.*rank 0 .*409600", (3, 4))
    # On processes a rank that sends another count is told from the others.
    T = "tensor<4096xf32>"
    model = t.write(program({"x": np.zeros(4096, F32)}, f"%y = fusion.all_reduce sum, %x on @m[dp] : {T}", {"y": ("%y", T)}, "fusion.mesh @m(dp = 4)\n"))
    module = t.path(".fsn")
    t.good([BIN / "fusion-compile", model, "--target=cpu", "-o", module])
    t.refused([BIN / "fusion-run", module, "--ranks", 4, "--random-inputs", 1, "--inject", "2:count:1", "--output-dir", t.path(".processes")], r"rank \d", (8,))

# ===- ranks.py - Collectives in the evaluator ----------------------------=== #
#
# Public reports of other systems, each as the smallest graph that trips a naive
# implementation.
#
# ===----------------------------------------------------------------------=== #
"""Reported cases: collectives in the evaluator."""

from harness import *  # noqa: F401,F403


def expectRanks(t, text, count, inputs, want):
    """Each rank gives its array as output y."""
    words, out = t.ranks(text, count, inputs)
    t.good(words)
    for rank, array in enumerate(want):
        compare(f"rank {rank}", np.load(out / f"rank{rank}/y.npy"), array, 0, 0)


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
    # What can't run on ranks yet says so; it doesn't compile to something else.
    model = t.write("fusion.mesh @m(dp = 4)\n" + function("main", 4))
    answer = t.run([BIN / "fusion-compile", model, "--target=cpu", "-o", t.path(".fsn")])
    if answer.returncode not in (0, 3) or answer.returncode == 3 and "error: " not in answer.stderr:
        raise Broken(f"compiling a collective: {answer.returncode} {answer.stderr[-300:]}")

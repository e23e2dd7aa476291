# ===- clipping.py - Clipping gradients by their norm ---------------------=== #
#
# Public reports of other systems, each as the smallest graph that trips a naive
# implementation.
#
# ===----------------------------------------------------------------------=== #
"""Reported cases: clipping by the norm of gradients that overflow or aren't
numbers."""

from harness import *  # noqa: F401,F403

LIMIT = 2.0  # the largest norm that passes


def clip(norm, size):
    """Lines that scale %g by min(1, LIMIT / %norm), or drop all of it and lower
    the flag %ok if the norm is no finite number. `norm` defines %norm in f64."""
    G, W, S = f"tensor<{size}xf32>", f"tensor<{size}xf64>", "tensor<f64>"
    return norm + f"""
      %inf = fusion.constant dense<0x7FF0000000000000> : {S}
      %one = fusion.constant dense<1.0> : {S}
      %limit = fusion.constant dense<{LIMIT}> : {S}
      %zeros = fusion.constant dense<0.0> : {G}
      %ok = fusion.compare lt, %norm, %inf : {S}
      %ratio = fusion.div %limit, %norm : {S}
      %factor = fusion.min %one, %ratio : {S}
      %factors = fusion.broadcast %factor dims = [] : {S} to {W}
      %wide = fusion.cast %g : {G} to {W}
      %scaled = fusion.mul %wide, %factors : {W}
      %narrow = fusion.cast %scaled : {W} to {G}
      %oks = fusion.broadcast %ok dims = [] : tensor<i1> to tensor<{size}xi1>
      %y = fusion.select %oks, %narrow, %zeros : tensor<{size}xi1>, {G}"""


def wideNorm(size, reduced=""):
    """The norm by a sum of squares in f64; `reduced` lies between sum and root."""
    G, W, S = f"tensor<{size}xf32>", f"tensor<{size}xf64>", "tensor<f64>"
    return f"""
      %w = fusion.cast %g : {G} to {W}
      %q = fusion.mul %w, %w : {W}
      %local = fusion.reduce sum, %q dims = [0] : {W}
      {reduced or f"%sum = fusion.reshape %local : {S} to {S}"}
      %norm = fusion.sqrt %sum : {S}"""


def scaledNorm(size):
    """The norm by a sum of squares in f32, of what was divided by the largest
    magnitude; all zeros are divided by one."""
    G, S = f"tensor<{size}xf32>", "tensor<f32>"
    return f"""
      %a = fusion.abs %g : {G}
      %m = fusion.reduce max, %a dims = [0] : {G}
      %z = fusion.constant dense<0.0> : {S}
      %u = fusion.constant dense<1.0> : {S}
      %none = fusion.compare eq, %m, %z : {S}
      %d = fusion.select %none, %u, %m : tensor<i1>, {S}
      %ds = fusion.broadcast %d dims = [] : {S} to {G}
      %p = fusion.div %g, %ds : {G}
      %q = fusion.mul %p, %p : {G}
      %sum = fusion.reduce sum, %q dims = [0] : {G}
      %root = fusion.sqrt %sum : {S}
      %n = fusion.mul %d, %root : {S}
      %norm = fusion.cast %n : {S} to tensor<f64>"""


def right(g, others=()):
    """What every formula of the norm has to give: y, norm, ok."""
    wide = np.asarray(g, np.float64)
    with np.errstate(all="ignore"):
        norm = np.sqrt(sum((np.asarray(part, np.float64) ** 2).sum() for part in (g, *others)))
        ok = np.isfinite(norm)
        factor = min(1.0, LIMIT / norm) if norm > 0 else 1.0
        return (wide * factor if ok else np.zeros_like(wide)).astype(F32), np.array(norm), np.array(ok)


def gradients():
    """The report's gradients: sums of squares that overflow f32, vanish, or
    aren't numbers; and some that pass as they are."""
    some = np.linspace(-1e20, 3e20, 100).astype(F32)
    infinite, unknown = some.copy(), some.copy()
    infinite[37], unknown[99] = -INF, NAN
    return [np.full(100, 1e20, F32), np.full(128, 1e19, F32), some, np.full(64, 1e-25, F32), np.zeros(100, F32),
            np.array([0.5, -0.25, 1], F32), np.array([6, 8], F32), infinite, unknown]


@case
def clippingByANormThatOverflows(t):
    """pytorch/pytorch#46849: 100 gradients of 1e20 have the norm 1e21, and their
    sum of squares is infinite in f32; zeros stay zeros; an infinity or a NaN lowers
    a flag and drops the step."""
    for g in gradients():
        y, norm, ok = right(g)
        outputs = {"y": ("%y", typeOf(g)), "n": ("%norm", "tensor<f64>"), "ok": ("%ok", "tensor<i1>")}
        # Both formulas say NaN or infinity for what isn't finite: the flag counts.
        if not ok:
            del outputs["n"]
        want = {"y": y, "n": norm, "ok": ok} if ok else {"y": y, "ok": ok}
        for formula in (wideNorm, scaledNorm):
            if formula is scaledNorm and 0 < norm < 1e-20:
                want = {**want, "n": norm.astype(F32).astype(np.float64)}
            model = t.write(program({"g": g}, clip(formula(g.size), g.size), outputs))
            t.agree(model, {"g": g}, want, 2e-6, 0, ways=("plain", "unfused"))


@case
def clippingAsWrittenInF32(t):
    """tensorflow/tensorflow#22048: a graph that sums squares in f32 gets what it says, fused
    or not: the norm of large gradients is infinite, their clipped values are 0, and
    0 / 0 of zero gradients is NaN, never something in between."""
    for g in (np.full(100, 1e20, F32), np.zeros(100, F32), np.array([6, 8], F32)):
        G, S = typeOf(g), "tensor<f32>"
        body = f"""%q = fusion.mul %g, %g : {G}
          %s = fusion.reduce sum, %q dims = [0] : {G}
          %n = fusion.sqrt %s : {S}
          %ns = fusion.broadcast %n dims = [] : {S} to {G}
          %y = fusion.div %g, %ns : {G}"""
        with np.errstate(all="ignore"):
            norm = np.sqrt((g * g).sum(dtype=F32))
            want = {"y": g / norm, "n": np.array(norm, F32)}
        t.agree(program({"g": g}, body, {"y": ("%y", G), "n": ("%n", S)}), {"g": g}, want, 1e-6, 0,
                ways=("plain", "unfused"))


@case
def clippingAgreesOnAllRanks(t):
    """facebookresearch/habitat#2229: the ranks hold parts of the gradient; a NaN or an
    infinity on one makes all of them drop the step, and a norm that overflows f32
    only as a whole is right on each."""
    ok, bad, large = np.array([3, 4], F32), np.array([1, NAN], F32), np.array([1e20, -1e20], F32)
    endless = np.array([-INF, 1], F32)
    reduced = "%sum = fusion.all_reduce sum, %local on @m[dp] : tensor<f64>"
    outputs = {"y": ("%y", "tensor<2xf32>"), "ok": ("%ok", "tensor<i1>")}
    text = program({"g": ok}, clip(wideNorm(2, reduced), 2), outputs, "fusion.mesh @m(dp = 2)\n")
    for parts in ((ok, 2 * ok), (ok, bad), (endless, ok), (large, large), (ok, np.zeros(2, F32))):
        words, out = t.ranks(text, 2, {("g", rank): part for rank, part in enumerate(parts)})
        t.good(words)
        for rank, part in enumerate(parts):
            y, _, flag = right(part, [parts[1 - rank]])
            compare(f"rank {rank}, y", np.load(out / f"rank{rank}/y.npy"), y, 1e-6, 0)
            compare(f"rank {rank}, ok", np.load(out / f"rank{rank}/ok.npy"), flag, 0, 0)

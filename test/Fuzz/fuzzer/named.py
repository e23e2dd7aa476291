# ===- named.py - Contractions, windows and norms -------------------------=== #
#
# The ops that a library may serve, and those that decompose. In exact graphs
# their sums stay within the significand, and BatchNorm's statistics are powers
# of two, so that folding it changes no bit either.
#
# ===----------------------------------------------------------------------=== #
"""Makers of matmul, conv, pools, norms, attention."""

import math

import numpy as np

from builder import Builder, elements
from data import FLOATS, PRECISION, encode
from graph import Batch, isStatic
from ops import accumulated


class Contractions(Builder):
    def weights(self, shape, dtype):
        """Mostly known when compiling; sometimes an argument."""
        if self.chance(0.3):
            return self.parameter(shape, dtype)
        return self.constant(shape, dtype, self.numbers(shape, dtype, False)) if self.chance(0.7) else self.input(
            shape, dtype, special=False)

    def product(self, x, w, transposeRight=False, transposeLeft=False):
        depth = x.shape[-2] if transposeLeft else x.shape[-1]
        rows = x.shape[-1] if transposeLeft else x.shape[-2]
        columns = w.shape[-2] if transposeRight else w.shape[-1]
        flags = [name for name, on in (("transpose_lhs", transposeLeft), ("transpose_rhs", transposeRight)) if on]
        magnitude, rounds = accumulated(x.dtype, x.magnitude, w.magnitude, terms=max(depth, 1))
        return self.emit(f"matmul {{0}}, {{1}}{' {{' + ', '.join(flags) + '}}' if flags else ''} : {{t0}}, {{t1}}", [x, w],
                         x.shape[:-2] + (rows, columns), x.dtype, magnitude, rounds)

    def makeMatmul(self):
        x = self.pick(lambda v: len(v.shape) in (2, 3) and v.dtype != "i1" and not isinstance(v.shape[-1], Batch))
        x = self.tame(x or self.input((self.choose(0, 1, 3, 4), self.choose(1, 4, 8)), self.dtype().replace("i1", "f32")))
        turn = len(x.shape) == 2 and isStatic(x.shape) and self.chance(0.15)
        depth = x.shape[-2] if turn else x.shape[-1]
        flip = self.chance(0.3)
        columns = self.choose(1, 3, 4, 8)
        shape = (columns, depth) if flip else (depth, columns)
        if len(x.shape) == 3 and self.chance(0.3):
            shape = (x.shape[0],) + shape
        w = self.tame(self.like(shape, x.dtype)) if self.chance(0.5) or not isStatic(shape) else self.weights(shape, x.dtype)
        return self.product(x, w, flip, turn)

    def image(self, dtype):
        """A value with channels and one to three spatial dimensions, and its layout."""
        x = self.pick(lambda v: v.dtype == dtype and 3 <= len(v.shape) <= 5 and isStatic(v.shape[1:]) and
                      all(dim >= 2 for dim in v.shape[1:]))
        if not x or (not self.next and self.chance(0.4)):
            batch = Batch(1) if self.dynamic else self.choose(0, 1, 1, 2) if self.chance(0.3) else 1
            spatial = self.choose(1, 2, 2, 2, 3)
            x = self.input((batch,) + tuple(self.random.randint(2, 5) for _ in range(spatial + 1)), dtype, special=self.chance(0.05))
        return self.tame(x)

    def makeConv(self, transposed=False, dtype=None):
        dtype = dtype or self.choose("f32", "f32", "f32", "f32", "f16", "f64", "bf16")
        x, layout = self.image(dtype), self.choose("nchw", "nchw", "nhwc")
        extents, channels = (x.shape[2:], x.shape[1]) if layout == "nchw" else (x.shape[1:-1], x.shape[-1])
        groups = self.random.choice([g for g in (1, 1, 1, 2, 3, channels) if channels % g == 0])
        outputs = groups * self.random.randint(1, 3)
        for _ in range(8):
            window = [self.choose(1, 2, 3) for _ in extents]
            strides, low, high = ([self.choose(*options) for _ in extents] for options in ((1, 1, 2), (0, 1), (0, 1)))
            dilations = [self.choose(1, 1, 1, 2) for _ in extents]
            if transposed:
                sizes = [(n - 1) * s + d * (k - 1) + 1 - a - b
                         for n, s, d, k, a, b in zip(extents, strides, dilations, window, low, high)]
                fits = min(sizes) >= 1
            else:
                fits = all(n + a + b >= d * (k - 1) + 1 for n, a, b, d, k in zip(extents, low, high, dilations, window))
                sizes = [(n + a + b - d * (k - 1) - 1) // s + 1
                         for n, s, d, k, a, b in zip(extents, strides, dilations, window, low, high)]
            if fits:
                break
        else:
            return self.makeMatmul()
        shape = (channels, outputs // groups) if transposed else (outputs, channels // groups)
        w = self.weights(shape + tuple(window), dtype)
        operands = [x, w]
        magnitude, rounds = accumulated(dtype, x.magnitude, w.magnitude, terms=channels // groups * math.prod(window) + 1)
        if self.chance(0.4):
            operands.append(self.weights((outputs,), dtype))
        padding = f" output_padding = {[0] * len(window)}" if transposed else ""
        text = (f"{'conv_transpose' if transposed else 'conv'} {{0}}, {{1}}{' bias {2}' if len(operands) > 2 else ''} strides = {strides} "
                f"pad_low = {low} pad_high = {high}{padding} dilations = {dilations} groups = {groups} layout = {layout} : {{types}}")
        result = (x.shape[0], outputs, *sizes) if layout == "nchw" else (x.shape[0], *sizes, outputs)
        y = self.emit(text, operands, result, dtype, magnitude, rounds)
        if self.chance(0.6):
            y = self.afterConv(y, 1 if layout == "nchw" else len(result) - 1)
        return y

    def makeConvTranspose(self):
        return self.makeConv(transposed=True)

    def afterConv(self, y, axis):
        """A bias, a BatchNorm, an activation, a residual: some of them."""
        if self.chance(0.3):
            bias = self.broadcast(self.weights((y.shape[axis],), y.dtype), [axis], y.shape)
            y = self.binary("add", *((bias, y) if self.chance(0.3) else (y, bias)))
        if self.chance(0.7):
            y = self.batchNorm(y, axis)
        if self.chance(0.3):
            y = self.binary("add", y, self.like(y.shape, y.dtype))
        if self.chance(0.6):
            y = self.unary("relu", y, y.magnitude)
        return y

    def batchNorm(self, x, axis):
        statistics = self.choose(x.dtype, "f32") if x.dtype in ("f16", "bf16") else x.dtype
        size = (x.shape[axis],)
        choices = ([-2, -0.5, 0, 1, 2], [-3, -1, 0, 2], [-2, 0, 1, 2], [0.25, 1, 4])
        parts = [self.constant(size, statistics, encode(np.array([self.random.choice(c) for _ in range(size[0])], float), statistics))
                 for c in choices]
        if self.chance(0.15):
            parts[0] = self.input(size, statistics, special=False)
        exact = x.magnitude is not None and (self.exact or self.chance(0.5))
        magnitude = exact and ((x.magnitude[0] + 2) * 8 + 3, x.magnitude[1] + 2)
        exact = exact and math.log2(magnitude[0]) + magnitude[1] <= PRECISION[x.dtype] - 1
        if self.exact and not exact:
            return x
        return self.emit(f"batch_norm {{all}} epsilon = {0.0 if exact else 0.001} axis = {axis} : {{t0}}, {{t1}}", [x, *parts],
                         x.shape, x.dtype, magnitude or None, rounds=not exact)

    def makeBatchNorm(self):
        x = self.floating(accept=lambda v: any(dim and not isinstance(dim, Batch) for dim in v.shape))
        if not x:
            return self.makeConv()
        return self.batchNorm(self.tame(x), self.random.choice(
            [d for d, dim in enumerate(x.shape) if dim and not isinstance(dim, Batch)]))

    def makePool(self):
        dtype = self.choose("f32", "f32", "f16", "f64", "i32", "i8")
        x, layout = self.image(dtype), self.choose("nchw", "nhwc")
        extents = x.shape[2:] if layout == "nchw" else x.shape[1:-1]
        average = dtype in FLOATS and self.chance(0.5)
        window = [self.random.randint(1, min(3, n)) for n in extents]
        if average and self.exact:
            window = [1 if k == 3 else k for k in window]
        strides = [self.choose(1, 2) for _ in extents]
        pads = [[self.choose(0, 0, min(1, k - 1)) if not (average and self.exact) else 0 for k in window] for _ in range(2)]
        sizes = [(n + a + b - k) // s + 1 for n, a, b, k, s in zip(extents, *pads, window, strides)]
        flag = " {{count_include_pad}}" if average and self.chance(0.3) else ""
        magnitude, rounds = x.magnitude, False
        if average:
            count = math.prod(window)
            magnitude = x.magnitude and (x.magnitude[0] * count, x.magnitude[1] + 4)
            whole = count & (count - 1) == 0 and not any(pads[0] + pads[1])
            rounds = not whole or magnitude is None or math.log2(magnitude[0]) + magnitude[1] > PRECISION["f32"]
        channels = x.shape[1] if layout == "nchw" else x.shape[-1]
        result = (x.shape[0], channels, *sizes) if layout == "nchw" else (x.shape[0], *sizes, channels)
        return self.emit(f"{'avg_pool' if average else 'max_pool'} {{0}} window = {window} strides = {strides} pad_low = {pads[0]} "
                         f"pad_high = {pads[1]} dilations = {[1] * len(window)} layout = {layout}{flag} : {{t0}}", [x], result, dtype,
                         magnitude, rounds)


class Norms(Builder):
    def bounded(self, x):
        """Squares of these have a sum in every type: a norm adds them up in f32
        where the reference has more range."""
        if x.magnitude or x.dtype in ("f16", "f64") or not self.canAppear(x.shape):
            return x
        low, high = self.splat(x.shape, x.dtype, -(2.0**40)), self.splat(x.shape, x.dtype, 2.0**40)
        return self.emit("clamp {0}, {1}, {2} : {t0}", [x, low, high], x.shape, x.dtype, None, rounds=not x.clean)

    def rowNorm(self, x, axis):
        x = self.bounded(x)
        # An infinity times what is 0 but for a rounding is a NaN, or not.
        scale = self.input(x.shape[axis:], x.dtype, special=False) if self.chance(0.6) else None
        bias = self.like(x.shape[axis:], x.dtype) if self.chance(0.4) else None
        operands = [x] + [value for value in (scale, bias) if value]
        words = "".join(f" {word} {{{operands.index(value)}}}" for word, value in (("scale", scale), ("bias", bias)) if value)
        if scale is bias and scale:
            words = " scale {1} bias {2}"
        return self.emit(f"{self.choose('layer_norm', 'rms_norm')} {{0}}{words} epsilon = {self.choose('1.0e-1', '1.0e-3')} "
                         f"axis = {axis} : {{types}}", operands, x.shape, x.dtype, rounds=True)

    def makeNorm(self):
        x = self.floating(accept=lambda v: v.shape and isStatic(v.shape[-1:]) and elements(v.shape) > 0)
        if not x or self.exact:
            return self.makeReduce()
        rank = len(x.shape)
        if self.chance(0.5):
            axis = rank - 1 if self.chance(0.7) else self.random.choice([d for d in range(rank)])
            return self.unary(self.choose("softmax", "softmax", "log_softmax"), x, rounds=True, extra=f" axis = {axis}")
        axis = rank - 1 if self.chance(0.6) else self.random.choice([d for d in range(rank) if isStatic(x.shape[d:])])
        return self.rowNorm(x, axis)

    def makeBatchNormTraining(self):
        x = self.floating(accept=lambda v: elements(v.shape) > 0 and any(not isinstance(dim, Batch) for dim in v.shape))
        if not x or self.exact:
            return self.makeReduce()
        x = self.bounded(x)
        axis = self.random.choice([d for d, dim in enumerate(x.shape) if not isinstance(dim, Batch)])
        size = (x.shape[axis],)
        scale, bias = self.like(size, x.dtype), self.like(size, x.dtype)
        return self.emitMany(f"batch_norm_training {{all}} epsilon = 0.01 axis = {axis} : {{t0}}, {{t1}}", [x, scale, bias],
                             [(x.shape, x.dtype), (size, x.dtype), (size, x.dtype)], rounds=True)[0]

    def makeAttention(self):
        if self.exact:
            return self.makeMatmul()
        dtype = self.choose("f32", "f32", "f16", "f64")
        batch = Batch(1) if self.dynamic else self.choose(1, 2)
        heads, groups = self.choose((2, 2), (4, 2), (2, 1))
        length, total, depth, width = self.choose(1, 3), self.choose(3, 4), self.choose(2, 4), self.choose(2, 3)
        operands = [self.like(shape, dtype) for shape in (
            (batch, heads, length, depth), (batch, groups, total, depth), (batch, groups, total, width))]
        mask = ""
        if self.chance(0.4):
            operands.append(self.like((1, self.choose(1, heads), length, total), dtype))
            mask = " mask {3}"
        causal = " causal" if self.chance(0.3) else ""
        return self.emit(f"attention {{0}}, {{1}}, {{2}}{mask} scale = 0.5{causal} : {{types}}", operands,
                         (batch, heads, length, width), dtype, rounds=True)

    def makeRope(self):
        x = self.floating(accept=lambda v: len(v.shape) >= 2 and isStatic(v.shape[-2:]) and v.shape[-1] % 2 == 0)
        if not x or self.exact:
            return self.makeReduce()
        half = (x.shape[-2], x.shape[-1] // 2)
        flag = " {{interleaved}}" if self.chance(0.4) else ""
        return self.emit(f"rope {{0}}, {{1}}, {{2}}{flag} : {{t0}}, {{t1}}", [x, self.like(half, x.dtype), self.like(half, x.dtype)],
                         x.shape, x.dtype, rounds=True)

"""Backward passes of any depth: make_backward.py LAYERS WIDTH [options].

Layers y = relu(x W): the activations are inputs, the weights' gradients are
x^T dy, reduced over dp. --rows N: rows of an activation. --ranks N. --end: the
reductions stand at the end, not behind their gradients. --sgd: each weight is
updated, at the end; --local: right behind its reduction. --mixed: every second
gradient is reduced in f16. --scatter: reduce_scatter along dimension 0.
--scale: the sums are multiplied by 1 / ranks. --clip: the updates are scaled by
min(1, 8 / norm), the norm summed in f64.
"""

import argparse

parser = argparse.ArgumentParser()
parser.add_argument("layers", type=int)
parser.add_argument("width", type=int)
parser.add_argument("--rows", type=int, default=4)
parser.add_argument("--ranks", type=int, default=2)
for flag in ("end", "sgd", "local", "mixed", "scatter", "scale", "clip"):
    parser.add_argument("--" + flag, action="store_true")
options = parser.parse_args()
X = f"tensor<{options.rows}x{options.width}xf32>"
T = f"tensor<{options.width}x{options.rows}xf32>"
W = f"tensor<{options.width}x{options.width}xf32>"
H = W.replace("f32", "f16")
lines, late, results = [], [], []
total, clipped = None, []
for i in reversed(range(options.layers)):
    lines += [
        f"%z{i} = fusion.constant dense<0.0> : {X}",
        f"%c{i} = fusion.compare gt, %x{i + 1}, %z{i} : {X}",
        f"%m{i} = fusion.select %c{i}, %dy{i + 1}, %z{i} : {X.replace('f32', 'i1')}, {X}",
        f"%t{i} = fusion.transpose %x{i} permutation = [1, 0] : {X}",
        f"%g{i} = fusion.matmul %t{i}, %m{i} : {T}, {X}",
    ]
    gradient, kind, part = f"%g{i}", W, W
    if options.mixed and i % 2:
        lines.append(f"%h{i} = fusion.cast %g{i} : {W} to {H}")
        gradient, kind, part = f"%h{i}", H, H
    if options.scatter:
        part = kind.replace(f"<{options.width}x", f"<{options.width // options.ranks}x")
        reduction = f"%r{i} = fusion.reduce_scatter sum, {gradient} dim = 0 on @m[dp] : ({kind}) -> {part}"
    else:
        reduction = f"%r{i} = fusion.all_reduce sum, {gradient} on @m[dp] : {kind}"
    reduced = [reduction]
    result = f"%r{i}"
    if options.scale:
        reduced += [
            f"%f{i} = fusion.constant dense<{1 / options.ranks!r}> : {part}",
            f"%a{i} = fusion.mul %r{i}, %f{i} : {part}",
        ]
        result = f"%a{i}"
    if options.clip:
        wide = part.replace("f32", "f64")
        reduced += [
            f"%d{i} = fusion.cast {result} : {part} to {wide}",
            f"%q{i} = fusion.mul %d{i}, %d{i} : {wide}",
            f"%s{i} = fusion.reduce sum, %q{i} dims = [0, 1] : {wide}",
        ]
        if total:
            reduced.append(f"%p{i} = fusion.add {total}, %s{i} : tensor<f64>")
        total = f"%p{i}" if total else f"%s{i}"
        clipped.append((i, result, part))
    elif options.sgd or options.local:
        reduced.append(f"%n{i} = fusion.sub %w{i}, {result} : {part}")
        result = f"%n{i}"
    if options.end or options.sgd or options.clip:
        if (options.sgd or options.clip) and not options.end:
            lines.append(reduced[0])
            reduced = reduced[1:]
        late += reduced
    else:
        lines += reduced
    if not options.clip:
        results.append((result, part))
    lines += [
        f"%v{i} = fusion.transpose %w{i} permutation = [1, 0] : {W}",
        f"%dy{i} = fusion.matmul %m{i}, %v{i} : {X}, {W}",
    ]
if options.clip:
    late += [
        f"%norm = fusion.sqrt {total} : tensor<f64>",
        "%limit = fusion.constant dense<8.0> : tensor<f64>",
        "%ratio = fusion.div %limit, %norm : tensor<f64>",
        "%one = fusion.constant dense<1.0> : tensor<f64>",
        "%least = fusion.min %one, %ratio : tensor<f64>",
        "%factor = fusion.cast %least : tensor<f64> to tensor<f32>",
    ]
for i, result, part in clipped:
    late += [
        f"%b{i} = fusion.broadcast %factor dims = [] : tensor<f32> to {part}",
        f"%e{i} = fusion.mul {result}, %b{i} : {part}",
        f"%n{i} = fusion.sub %w{i}, %e{i} : {part}",
    ]
    results.append((f"%n{i}", part))
arguments = [f"%x{i}: {X}" for i in range(options.layers + 1)]
arguments += [f"%w{i}: {W}" for i in range(options.layers)]
arguments.append(f"%dy{options.layers}: {X}")
results.append(("%dy0", X))
print(f"fusion.mesh @m(dp = {options.ranks})")
print(f"func.func @main({', '.join(arguments)}) -> ({', '.join(kind for _, kind in results)}) {{")
print("\n".join("  " + line for line in lines + late))
print(f"  return {', '.join(name for name, _ in results)} : {', '.join(kind for _, kind in results)}\n}}")

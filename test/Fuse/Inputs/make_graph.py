"""Graphs of any size for tests of compile time: make_graph.py KIND N.

chain: N adds in a row. sum: of N inputs, one after the other; treesum: as a tree.
ladder: N steps of c = a + b, d = a * b, which inlining doubles at each step.
rails: N steps of two chains that read each other.
bulge: N values live at once, which their sum then scales one by one; waist: two
of those with one value between them, and half of the values are inputs read by both.
wide: N pairs of readers of one value. mm: N residual blocks of a matmul.
reshape: N blocks with views between the ops. clones: a broadcast with N readers.
parallel: N products. towers: two times N levels of a matmul and a softmax.
"""
import sys
kind, n = sys.argv[1], int(sys.argv[2])
T="tensor<4x4xf32>"
L=[]
if kind=="chain":
    L.append(f"func.func @main(%x: {T}, %c: {T}) -> {T} {{")
    p="%x"
    for i in range(n):
        L.append(f"  %v{i} = fusion.add {p}, %c : {T}"); p=f"%v{i}"
    L.append(f"  return {p} : {T}\n}}")
elif kind=="sum":
    args=", ".join(f"%x{i}: {T}" for i in range(n))
    L.append(f"func.func @main({args}) -> {T} {{")
    p="%x0"
    for i in range(1,n):
        L.append(f"  %v{i} = fusion.add {p}, %x{i} : {T}"); p=f"%v{i}"
    L.append(f"  return {p} : {T}\n}}")
elif kind=="treesum":
    args=", ".join(f"%x{i}: {T}" for i in range(n))
    L.append(f"func.func @main({args}) -> {T} {{")
    vs=[f"%x{i}" for i in range(n)]; k=0
    while len(vs)>1:
        nv=[]
        for i in range(0,len(vs)-1,2):
            L.append(f"  %v{k} = fusion.add {vs[i]}, {vs[i+1]} : {T}"); nv.append(f"%v{k}"); k+=1
        if len(vs)%2: nv.append(vs[-1])
        vs=nv
    L.append(f"  return {vs[0]} : {T}\n}}")
elif kind=="ladder":
    L.append(f"func.func @main(%a: {T}, %b: {T}) -> ({T}, {T}) {{")
    l=["%a","%b"]
    for i in range(n):
        L.append(f"  %c{i} = fusion.add {l[-1]}, {l[-2]} : {T}")
        L.append(f"  %d{i} = fusion.mul {l[-1]}, {l[-2]} : {T}")
        l+= [f"%c{i}",f"%d{i}"]
    L.append(f"  return {l[-2]}, {l[-1]} : {T}, {T}\n}}")
elif kind=="rails":
    # min and max keep the values among those given.
    L.append(f"func.func @main(%a: {T}, %b: {T}) -> ({T}, {T}) {{")
    a, b = "%a", "%b"
    for i in range(n):
        L.append(f"  %c{i} = fusion.{'max' if i % 3 else 'sub'} {a}, {b} : {T}")
        L.append(f"  %d{i} = fusion.{'min' if i % 2 else 'max'} {b}, {a} : {T}")
        a, b = f"%c{i}", f"%d{i}"
    L.append(f"  return {a}, {b} : {T}, {T}\n}}")
elif kind in ("bulge", "waist"):
    F = "tensor<1048576xf32>"
    held = n // 2 if kind == "waist" else 0
    made = n - held
    inputs = ["%x"] + [f"%y{i}" for i in range(held)]
    L.append(f"func.func @main({', '.join(f'{i}: {F}' for i in inputs)}) -> {F} {{")
    count = 0
    def op(name, *operands):
        global count
        count += 1
        L.append(f"  %v{count} = fusion.{name} {', '.join(operands)} : {F}")
        return f"%v{count}"
    # The inputs are read here, and once more at the end.
    x = "%x"
    for i in range(held):
        x = op("add", x, f"%y{i}")
    values = [op("neg", x)]
    while len(values) < made:
        values.append(op("max", values[-1], x))
    total = op("add", values[0], values[1])
    for value in values[2:]:
        total = op("add", total, value)
    for value in values:
        total = op("sub", total, value)
    for i in range(held):
        total = op("max", total, f"%y{i}")
    L.append(f"  return {total} : {F}\n}}")
elif kind=="wide":
    rets=", ".join([T]*n)
    L.append(f"func.func @main(%x: {T}) -> ({rets}) {{")
    L.append(f"  %e = fusion.exp %x : {T}")
    for i in range(n):
        L.append(f"  %v{i} = fusion.neg %e : {T}")
    for i in range(n):
        L.append(f"  %w{i} = fusion.add %v{i}, %v{(i*7+3)%n} : {T}")
    L.append("  return "+", ".join(f"%w{i}" for i in range(n))+" : "+rets+"\n}")
elif kind=="clones":
    rets=", ".join([T]*n)
    L.append(f"func.func @main(%x: tensor<4xf32>) -> ({rets}) {{")
    L.append(f"  %e = fusion.broadcast %x dims = [1] : tensor<4xf32> to {T}")
    for i in range(n):
        L.append(f"  %v{i} = fusion.neg %e : {T}")
    L.append("  return "+", ".join(f"%v{i}" for i in range(n))+" : "+rets+"\n}")
elif kind=="mm":
    L.append(f"func.func @main(%x: {T}, %c: {T}) -> {T} {{")
    p="%x"
    for i in range(n):
        L.append(f"  %m{i} = fusion.matmul {p}, %c : {T}, {T}")
        L.append(f"  %r{i} = fusion.relu %m{i} : {T}")
        L.append(f"  %v{i} = fusion.add %r{i}, {p} : {T}"); p=f"%v{i}"
    L.append(f"  return {p} : {T}\n}}")
elif kind=="reshape":
    L.append(f"func.func @main(%x: {T}) -> {T} {{")
    p="%x"
    for i in range(n):
        L.append(f"  %m{i} = fusion.reshape {p} : {T} to tensor<16xf32>")
        L.append(f"  %n{i} = fusion.neg %m{i} : tensor<16xf32>")
        L.append(f"  %v{i} = fusion.reshape %n{i} : tensor<16xf32> to {T}")
        L.append(f"  %r{i} = fusion.abs %v{i} : {T}"); p=f"%r{i}"
    L.append(f"  return {p} : {T}\n}}")
elif kind=="parallel":
    # Products of inputs, of two sizes in turn; nothing reads another's result.
    sizes=[T, "tensor<7xf32>"]
    L.append("func.func @main("+", ".join(f"%x{i}: {sizes[i%2]}" for i in range(n))+") -> ("+", ".join(sizes[i%2] for i in range(n))+") {")
    for i in range(n):
        L.append(f"  %v{i} = fusion.mul %x{i}, %x{i} : {sizes[i%2]}")
    L.append("  return "+", ".join(f"%v{i}" for i in range(n))+" : "+", ".join(sizes[i%2] for i in range(n))+"\n}")
elif kind=="towers":
    # Two towers of N levels, one written behind the other.
    L.append(f"func.func @main(%x: {T}, %y: {T}, %c: {T}) -> ({T}, {T}) {{")
    for tower in "xy":
        p=f"%{tower}"
        for i in range(n):
            L.append(f"  %{tower}m{i} = fusion.matmul {p}, %c : {T}, {T}")
            L.append(f"  %{tower}s{i} = fusion.softmax %{tower}m{i} axis = 1 : {T}"); p=f"%{tower}s{i}"
    L.append(f"  return %xs{n-1}, %ys{n-1} : {T}, {T}\n}}")
print("\n".join(L))

# ===- programs.py - Programs of ranks, in the dialect ----------------------=== #
#
# Products with buckets of gradients reduced beside them, a gather in front of a product,
# single collectives, and what a compiled step sends, by itself. Each is the program of
# one rank. `fusion.after` keeps the order of a backward pass: product, gradient, product.
#
# ===----------------------------------------------------------------------=== #
"""Texts of programs, and the tensors that they take."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Sequence

BYTES = {"f64": 8, "f32": 4, "bf16": 2, "f16": 2, "i64": 8, "i32": 4, "i8": 1, "i1": 1}


@dataclass(frozen=True)
class Input:
    """An argument: `fill` is how its numbers are made (inputs.py). `per_rank`: other numbers on each rank."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    fill: str = "normal"
    scale: float = 1.0
    per_rank: bool = False

    @property
    def type(self) -> str:
        return "tensor<" + "".join(f"{n}x" for n in self.shape) + self.dtype + ">"


@dataclass
class Program:
    """Text, its arguments, and the ranks that it is for (0: no mesh)."""

    text: str
    inputs: list[Input]
    ranks: int = 0
    results: list[str] = field(default_factory=list)


def _function(inputs: Sequence[Input], donated: dict[str, int], body: Sequence[str],
              results: Sequence[tuple[str, str, str]], ranks: int) -> Program:
    """@main of `results`: name, value, type. `donated` maps an input to its result."""
    def argument(x: Input) -> str:
        gift = f", fusion.donated = {donated[x.name]} : i64" if x.name in donated else ""
        return f'%{x.name}: {x.type} {{fusion.name = "{x.name}"{gift}}}'

    types = ", ".join(f'{kind} {{fusion.name = "{name}"}}' for name, _value, kind in results)
    lines = [f"fusion.mesh @mesh(dp = {ranks})"] if ranks else []
    lines += [f"func.func @main({', '.join(map(argument, inputs))}) -> ({types}) {{", *(f"  {line}" for line in body),
              f"  return {', '.join(value for _n, value, _k in results)} : {', '.join(k for _n, _v, k in results)}", "}"]
    return Program("\n".join(lines) + "\n", list(inputs), ranks, [name for name, _v, _k in results])


def turns(products: int, buckets: int, early: bool) -> dict[int, list[int]]:
    """The buckets that are ready behind each product: behind the last one of their turn, or in the middle of it."""
    due: dict[int, list[int]] = {}
    for j in range(buckets):
        last = next(i for i in range(products) if buckets * (i + 1) // products > j)
        due.setdefault(max(0, last - products // (2 * buckets)) if early else last, []).append(j)
    return due


def reductions_beside_products(m: int, n: int, k: int, products: int, buckets: int, elements: int, ranks: int,
                               what: str = "both", early: bool = False) -> Program:
    """`products` products [m,k] x [k,n] one after the other, and gradients beside them.

    A gradient of `elements` bf16 is computed (negated, as a backward pass writes it) behind the product of its turn, and
    the product after it waits for it; its sum over the ranks is added to a parameter in f32 in place: the reduction's
    only reader, as in an optimizer. `what`: "both"; "products": the same kernels without the reductions;
    "reductions": nothing but them; "read reductions": each with a reader (a negation), where peers copy and readers sum.
    `early`: each gradient half a turn earlier, so that none is behind the last product.
    """
    a, b = Input("a", "bf16", (m, k)), Input("b", "bf16", (k, n), scale=k ** -0.5)
    gradients = [Input(f"g{j}", "bf16", (elements,), "integers", per_rank=True) for j in range(buckets)]
    parameters = [Input(f"p{j}", "f32", (elements,), "integers") for j in range(buckets)]
    half = Input("", "bf16", (elements,)).type
    wide = Input("", "f32", (elements,)).type
    product_type = Input("", "bf16", (m, n)).type
    body: list[str] = []
    if what.endswith("reductions"):
        for j in range(buckets):
            body.append(f"%r{j} = fusion.all_reduce sum, %g{j} on @mesh[dp] : {half}")
        result = "r"
        if what.startswith("read"):
            body += [f"%n{j} = fusion.neg %r{j} : {half}" for j in range(buckets)]
            result = "n"
        return _function(gradients, {}, body, [(f"r{j}", f"%{result}{j}", half) for j in range(buckets)], ranks)

    due = turns(products, buckets, early)
    left, waiting = "%a", []
    for i in range(products):
        body.append(f"%o{i} = fusion.matmul {left}, %b : {a.type}, {b.type}")
        for j in waiting:  # without ranks the gradient of the turn before is read here
            body.append(f"%r{j} = fusion.after %d{j}, %o{i} : {half}, {product_type}")
        waiting = []
        body.append(f"%x{i} = fusion.after %a, %o{i} : {a.type}, {product_type}")
        left = f"%x{i}"
        for j in due.get(i, ()):
            body += [f"%h{j} = fusion.after %g{j}, %o{i} : {half}, {product_type}",
                     f"%d{j} = fusion.neg %h{j} : {half}",
                     f"%y{j} = fusion.after {left}, %d{j} : {a.type}, {half}"]
            left = f"%y{j}"
            if what == "both":
                body.append(f"%r{j} = fusion.all_reduce sum, %d{j} on @mesh[dp] : {half}")
            else:
                waiting.append(j)
    for j in waiting:
        # Nothing comes behind the last gradient: its reader would become one kernel with it.
        body.append(f"%r{j} = fusion.after %d{j}, %o{products - 1} : {half}, {product_type}")
    for j in range(buckets):
        body += [f"%w{j} = fusion.cast %r{j} : {half} to {wide}", f"%q{j} = fusion.add %p{j}, %w{j} : {wide}"]
    results = [(f"p{j}.next", f"%q{j}", wide) for j in range(buckets)]
    results.append(("o", f"%o{products - 1}", product_type))
    return _function([a, b, *gradients, *parameters], {f"p{j}": j for j in range(buckets)}, body, results, ranks)


def gather_product(m: int, k: int, n: int, ranks: int, what: str = "both") -> Program:
    """Rows [m / ranks, k] gathered to [m, k], times [k, n], bf16. `what`: "both", "product" or "gather"."""
    shard = Input("a", "bf16", (m // ranks, k), per_rank=True)
    full, weights = Input("a", "bf16", (m, k)), Input("w", "bf16", (k, n), scale=k ** -0.5)
    result = Input("", "bf16", (m, n)).type
    gather = f"%f = fusion.all_gather %a dim = 0 on @mesh[dp] : ({shard.type}) -> {full.type}"
    if what == "gather":
        return _function([shard], {}, [gather], [("f", "%f", full.type)], ranks)
    product = f"%y = fusion.matmul {'%f' if what == 'both' else '%a'}, %w : {full.type}, {weights.type}"
    if what == "product":
        return _function([full, weights], {}, [product], [("y", "%y", result)], ranks)
    return _function([shard, weights], {}, [gather, product], [("y", "%y", result)], ranks)


#: Collectives by name: operand's and result's share of `elements` (of `ranks`), text.
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_permute")


def _collective(kind: str, value: str, elements: int, ranks: int) -> tuple[Input, str, str]:
    """The operand, the op's text and the result's type of one collective over `elements` bf16 of the larger side."""
    whole, part = Input("", "bf16", (elements,)), Input("", "bf16", (elements // ranks,))
    operand = part if kind == "all_gather" else whole
    result = part if kind == "reduce_scatter" else whole
    shift = [(rank + 1) % ranks for rank in range(ranks)]
    text = {
        "all_reduce": f"fusion.all_reduce sum, {value} on @mesh[dp] : {whole.type}",
        "all_gather": f"fusion.all_gather {value} dim = 0 on @mesh[dp] : ({part.type}) -> {whole.type}",
        "reduce_scatter": f"fusion.reduce_scatter sum, {value} dim = 0 on @mesh[dp] : ({whole.type}) -> {part.type}",
        "all_to_all": f"fusion.all_to_all {value} split_dim = 0 concat_dim = 0 on @mesh[dp] : ({whole.type}) -> "
                      f"{whole.type}",
        "collective_permute": f"fusion.collective_permute {value} sources = {list(range(ranks))} targets = {shift} "
                              f"on @mesh[dp] : {whole.type}",
    }[kind]
    return operand, text, result.type


def collectives_beside_products(kind: str, size: int, count: int, ranks: int, side: int = 0,
                                products: int = 0) -> Program:
    """`count` collectives of one value, of `size` bytes (of the larger side), and beside them a chain of `products`
    products of square matrices of `side`."""
    elements = max(ranks, size // BYTES["bf16"] // ranks * ranks)
    inputs, body, results = [], [], []
    if count:
        operand, text, result = _collective(kind, "%s", elements, ranks)
        inputs.append(Input("g", "bf16", operand.shape, "integers", per_rank=True))
        # What is sent lies in memory of the step, as a gradient does; one copy, so that little of the time is its.
        body.append(f"%s = fusion.neg %g : {operand.type}")
        body += [f"%r{j} = {text}" for j in range(count)]
        results += [(f"r{j}", f"%r{j}", result) for j in range(count)]
    if products:
        a, b = Input("a", "bf16", (side, side)), Input("b", "bf16", (side, side), scale=side ** -0.5)
        inputs += [a, b]
        last = "%a"
        for i in range(products):
            body.append(f"%o{i} = fusion.matmul {last}, %b : {a.type}, {b.type}")
            last = f"%o{i}"
        results.append(("o", last, a.type))
    return _function(inputs, {}, body, results, ranks)


_OPERATION = re.compile(r"^\s*(?:%[\w:]+ = )?fusion\.(all_reduce|all_gather|reduce_scatter|all_to_all|"
                        r"collective_permute|collective_broadcast) (.*?)\s*(?:loc\(.*)?$", re.MULTILINE)


def collectives_of(text: str, ranks: int) -> Program:
    """A program of nothing but the collectives of a compiled one (IR behind the phase `fuse`), in their order, buckets
    as they are, and every operand an argument."""
    mesh = re.search(r"fusion\.mesh @(\w+)\(([^)]*)\)", text)
    inputs: list[Input] = []
    body: list[str] = []
    results: list[tuple[str, str, str]] = []
    for kind, rest in _OPERATION.findall(text):
        words, _, types = rest.rpartition(" : ")
        operands = re.findall(r"%[\w#]+", words)
        arrow = re.fullmatch(r"(.*) -> (.*)", types)
        before = re.findall(r"tensor<[^>]*>", arrow.group(1) if arrow else types)
        after = re.findall(r"tensor<[^>]*>", arrow.group(2)) if arrow else before
        index, names = len(body), []
        for j, tensor in enumerate(before):
            *shape, dtype = tensor[len("tensor<"):-1].split("x")
            inputs.append(Input(f"c{index}_{j}", dtype, tuple(map(int, shape)), "integers", per_rank=True))
            names.append(inputs[-1].name)
        fresh = iter(f"%{name}" for name in names)
        words = re.sub(r"%[\w#]+", lambda _m: next(fresh), words, count=len(operands))
        count = f":{len(after)}" if len(after) > 1 else ""
        body.append(f"%r{index}{count} = fusion.{kind} {words} : {types}")
        results += [(f"r{index}_{j}", f"%r{index}" + (f"#{j}" if count else ""), tensor) for j, tensor in enumerate(after)]
    program = _function(inputs, {}, body, results, ranks)
    if mesh:
        program.text = program.text.replace(f"fusion.mesh @mesh(dp = {ranks})", mesh.group(0), 1)
    return program

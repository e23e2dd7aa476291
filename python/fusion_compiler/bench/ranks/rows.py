# ===- rows.py - The rows of the suites `overlap` and `train` ---------------=== #
#
# A row compares modules of ours and peers that take turns on the same GPUs over the same
# link. A variant says how a program is compiled and run; peers are names that peers.py
# knows. Sizes are arguments, so that tests run small rows on host ranks.
#
# ===----------------------------------------------------------------------=== #
"""Rows, their variants, peers and bars."""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields, replace
from typing import Callable, Optional, Sequence

from ...models.cli import make_model
from ...models.optimizers import Hyper
from ...models.step import Options, training_step
from ...models.model import Sizes
from ...ir import text
from . import programs
from .programs import Input, Program

#: Links between the GPUs: the machine's own; without peer access, as NCCL_P2P_DISABLE=1 has it.
FAST, SLOW = "nvlink", "slow"
#: Before a peer's name, where contenders of ours and of the peers are told apart by it.
PEER = "peer: "
#: Nothing is fused and nothing is moved: every gradient is reduced by itself behind the backward pass.
UNFUSED = ("--no-fuse=buckets,chunks,clip,horizontal,projections,vertical", "--no-overlap")


@dataclass(frozen=True)
class Bar:
    """A figure of the row that must be at most, or `least`: at least, `value`. With `interval`, a value that the 95 %
    interval of the figure holds passes too."""

    figure: str
    value: float
    least: bool = False
    interval: bool = False
    text: str = ""

    def holds(self, figure: Optional[float], ends: Optional[Sequence[float]] = None) -> Optional[bool]:
        """None if the figure was not measured."""
        if figure is None or figure != figure:
            return None
        reach = figure
        if self.interval and ends:
            reach = ends[1] if self.least else ends[0]
        return reach >= self.value if self.least else reach <= self.value

    def __str__(self) -> str:
        return f"{self.text or self.figure} {'>=' if self.least else '<='} {self.value:g}"


@dataclass(frozen=True)
class Variant:
    """One module of a row and how it runs: `ranks` processes, or 1 on the first GPU alone."""

    name: str
    program: Callable[[], Program]
    options: tuple[str, ...] = ()
    ranks: int = 2
    transport: str = ""  # pinned to; "": the compiler's choice
    wire_of: Optional["Variant"] = None  # instead of `program`: the collectives of this variant, by themselves

    @property
    def words(self) -> tuple[str, ...]:
        return (*self.options, *((f"--transport={self.transport}",) if self.transport else ()))


@dataclass(frozen=True)
class Row:
    name: str
    title: str
    ours: tuple[Variant, ...]
    peers: tuple[str, ...] = ()  # names of a peer set's contenders
    apart: tuple[str, ...] = ()  # more of them, timed when the others have given their memory back: for the reader only
    peer_set: str = ""  # and the set: a word and numbers, see peers.py
    link: str = FAST
    kind: str = ""  # which figures it has: "behind", "gather", "train"
    judged: tuple[str, ...] = ()  # variants that bars speak of: the fastest of them
    bars: tuple[Bar, ...] = ()

    def only(self, wanted: Callable[[str], object]) -> "Row":
        """The row with those contenders whose name is wanted; a peer's with PEER in front."""
        def peers(names: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(name for name in names if wanted(PEER + name))

        return replace(self, ours=tuple(v for v in self.ours if wanted(v.name)), peers=peers(self.peers),
                       apart=peers(self.apart))


def _pinned(variant: Variant, *transports: str) -> list[Variant]:
    """The variant with the compiler's choice of transport, then pinned to each."""
    return [replace(variant, name=f"{variant.name}.{name or 'auto'}", transport=name) for name in transports]


def behind(m: int, n: int, k: int, products: int, bar: float, buckets: int = 8, elements: int = 25 << 19, ranks: int = 2,
           early: bool = False) -> Row:
    """All-reduces of `buckets` gradients of `elements` bf16 beside `products` products."""
    def make(what: str) -> Callable[[], Program]:
        return functools.partial(programs.reductions_beside_products, m, n, k, products, buckets, elements, ranks, what,
                                 early)

    as_given = ("--no-fuse=buckets",)
    both = Variant("both", make("both"), as_given, ranks)
    alone = [Variant(f"reductions.{transport}", make(what), as_given, ranks, transport)
             for transport, what in (("nccl", "reductions"), ("peer", "read reductions"))]
    suffix, where = ("~early", ", none behind the last product") if early else ("", "")
    return Row(
        name=f"behind-{products}x{m}x{n}x{k}{suffix}", kind="behind",
        title=f"{products} products {m}x{n}x{k}, {buckets} all_reduces of {elements >> 19} MB{where}",
        ours=(*_pinned(both, "", "nccl", "peer"), Variant("products", make("products"), as_given, ranks),
              *alone),
        peer_set=f"behind {m} {n} {k} {products} {buckets} {elements} {int(early)}",
        peers=("products", "all_reduce", "all_reduce beside", "copy engine", "copy engine beside"),
        judged=("both.auto",), bars=() if early else (Bar("hidden", bar, least=True),))


def gather(m: int, k: int, n: int, link: str, bars: Sequence[Bar], ranks: int = 2) -> Row:
    """A gather in front of a product."""
    def make(what: str) -> Callable[[], Program]:
        return functools.partial(programs.gather_product, m, k, n, ranks, what)

    both = Variant("both", make("both"), (), ranks)
    serial = Variant("serial", make("both"), ("--no-overlap", "--no-fuse=chunks"), ranks)
    transports = ("", "nccl", "peer") if link == FAST else ("nccl",)
    # With its symmetric memory PyTorch's op ignores NCCL_P2P_DISABLE, so it is no figure of the slow link.
    fused = ("fused_all_gather_matmul",) if link == FAST else ()
    return Row(
        name=f"gather-{m}x{k}x{n}" + ("" if link == FAST else "~slow"), kind="gather", link=link,
        title=f"all_gather + product {m}x{k}x{n} bf16, {ranks} ranks" + ("" if link == FAST else ", slow link"),
        ours=(*_pinned(both, *transports), *_pinned(serial, "nccl"), Variant("product", make("product"), (), ranks),
              *_pinned(Variant("gather", make("gather"), (), ranks), *(t for t in transports if t))),
        peer_set=f"gather {m} {k} {n}", peers=("serial", "product", "gather", *fused),
        judged=("both.auto",) if link == FAST else ("both.nccl",), bars=tuple(bars))


def _step(sizes: tuple[tuple[str, object], ...], clip: float) -> Program:
    """A GPT's training step; parameters, moments and gradients in bf16 where the models can do that."""
    given = dict(sizes)
    if "parameter_dtype" in {f.name for f in fields(Sizes)}:
        given["parameter_dtype"] = "bf16"
    model = make_model("gpt", {**given, "dtype": "bf16", "tied": False})
    # PyTorch's AdamW.
    hyper = Hyper(beta2=0.999, weight_decay=0.01, clip=clip)
    module = training_step(model, Options(hyper))
    initial = {spec.name: spec for spec in model.parameters}
    inputs = []
    for value, name, attributes in zip(module.arguments, module.argument_names, module.argument_attributes):
        role = attributes["fusion.role"].strip('"')
        fill, scale = "normal", 1.0
        if role == "data":
            fill, scale = "below", float(model.sizes.vocab)
        elif role == "scalar":
            fill, scale = ("one", 1.0) if name == "step" else ("one", 1e-4)
        elif role == "state":
            # What a few hundred steps leave: no division by a rounded nothing.
            fill, scale = ("normal", 1e-3) if name.endswith(".m") else ("square", 1e-3)
        elif initial[name].initial == "normal":
            scale = 0.02
        else:
            fill, scale = ("near one", 0.02) if initial[name].initial == "ones" else ("normal", 0.02)
        inputs.append(Input(name, value.dtype, tuple(value.shape), fill, scale))
    return Program("\n".join(text.lines(module, "")) + "\n", inputs, 0, list(module.result_names))


def train(name: str, link: str = FAST, ranks: int = 2, batch: int = 4, peers: bool = True, **sizes: int) -> Row:
    """Data-parallel steps of a GPT, `batch` sequences a rank."""
    def step(each: int, clip: float = 0.0) -> Callable[[], Program]:
        return functools.partial(_step, tuple({**sizes, "batch": each}.items()), clip)

    whole = batch * ranks
    mesh = (f"--mesh=dp={ranks}",)
    dp = Variant("dp", step(whole), mesh, ranks)
    serial = replace(dp, name="in line", options=(*mesh, "--no-overlap"))
    shard = replace(dp, name="shard", options=(*mesh, "--shard-state"))
    clip = replace(dp, name="clip", program=step(whole, 1.0))
    clip_shard = replace(shard, name="clip shard", program=clip.program)
    unfused = replace(dp, name="unfused", options=(*mesh, *UNFUSED), transport="nccl")
    wire = Variant("wire", step(whole), mesh, ranks, "nccl", wire_of=_pinned(dp, "nccl")[0])
    one = Variant("one", step(batch), (), 1)
    fast = link == FAST
    ours = [one, *_pinned(dp, *(("", "nccl", "peer") if fast else ("nccl",))),
            *_pinned(shard, *(("", "nccl") if fast else ("nccl",))), *_pinned(clip, "" if fast else "nccl"),
            *_pinned(clip_shard, "" if fast else "nccl"),
            *_pinned(serial, *(("nccl", "peer") if fast else ("nccl",))), unfused, wire]
    # At most: our step over our one-GPU step; over the fastest captured DDP; the fastest with a clip over the fastest without.
    bars = ((Bar("of_one", 1.05, text="step / one GPU's"), Bar("of_ddp", 1.0, text="step / best captured DDP's"),
             Bar("of_unclipped", 1.01, interval=True, text="with clip / without")) if fast else
            (Bar("of_bound", 1.05, text="step / max(one GPU's, wire)"),
             Bar("of_unfused", 1.3, least=True, text="unfused / step")))
    ddp = tuple(f"ddp {cap} {way}" for way in ("eager+graph", "compiled+graph") for cap in (25, 100))
    return Row(
        name=name + ("" if fast else "~slow"), kind="train", link=link,
        title=f"{name} step, {batch} x {sizes['seq']} a rank, {ranks} ranks" + ("" if fast else ", slow link"),
        ours=tuple(ours), peer_set=f"train {sizes['layers']} {sizes['hidden']} {sizes['heads']} {sizes['vocab']} "
                                   f"{sizes['seq']} {batch}",
        peers=(*(("one compiled+graph",) if fast else ()), *ddp) if peers else (),
        apart=(*(("one eager+graph",) if fast else ()), "ddp 25 eager", "fsdp2 eager") if peers else (),
        judged=("dp.auto", "shard.auto") if fast else ("dp.nccl", "shard.nccl"), bars=bars)


_SHAPES = ((4096, 4096, 4096, 32, 0.8), (2048, 2048, 2048, 96, 0.8), (4096, 3072, 768, 160, 0.6))


def overlap(ranks: int = 2) -> list[Row]:
    rows = [behind(m, n, k, products, bar, ranks=ranks, early=early)
            for early in (False, True) for m, n, k, products, bar in _SHAPES]
    serial = Bar("of_serial", 1.0, text="time / serial")
    rows += [gather(4096, 4096, 14336 // ranks, FAST, [serial], ranks),
             gather(8192, 8192, 28672 // ranks, FAST, [serial, Bar("of_product", 1.1, text="time / product alone")], ranks),
             gather(4096, 4096, 14336 // ranks, SLOW, [Bar("speedup", 1.3, least=True, text="serial / time")], ranks),
             gather(8192, 8192, 28672 // ranks, SLOW, [Bar("speedup", 1.6, least=True, text="serial / time")], ranks)]
    return rows


def training(ranks: int = 2) -> list[Row]:
    sizes = {"gpt-124m": dict(layers=12, hidden=768, heads=12, seq=1024, vocab=50304, batch=4),
             "gpt-355m": dict(layers=24, hidden=1024, heads=16, seq=1024, vocab=50304, batch=2)}
    return [train(name, link, ranks, **each) for link in (FAST, SLOW) for name, each in sizes.items()]


SUITES: dict[str, Callable[[int], list[Row]]] = {"overlap": overlap, "train": training}

# ===- cli.py - The command line of the training steps --------------------=== #
#
# `python -m fusion_compiler models MODEL -o step.mlir` and `python -m
# fusion_compiler.models`. Errors and exit codes are those of the other commands.
#
# ===----------------------------------------------------------------------=== #
"""Options of `models`, and what they build."""

from __future__ import annotations

import argparse
import os
from dataclasses import fields
from typing import NoReturn, Optional, Sequence

from .. import __version__
from ..errors import USAGE, FusionError
from ..weights import write_module
from .inputs import write_inputs
from .model import Model, Sizes
from .ops.elementwise import ACTIVATIONS
from .optimizers import Hyper
from .presets import MODELS, PRESETS
from .step import Options, training_step

_DESCRIPTION = """\
Writes one training step of a model as MLIR text: forward, loss, backward, clipping by
the global norm, and the optimizer. @main takes data, parameters, state and scalars and
returns updated parameters and state in the arguments' own bytes, the loss, the norm of
the gradients and whether the step was skipped because the norm is not finite.
"""
_EPILOG = f"""\
models: {', '.join(MODELS)}; presets: {', '.join(PRESETS)}
exit codes: 0 ok, 2 wrong usage or an output that can't be written, 6 disk full.
"""
#: Each layer is text; a step of more would take minutes to write.
_MAX_LAYERS = 10000
#: Sizes that a model has no use for.
_UNUSED = {
    "mlp": {"heads", "kv_heads", "ffn", "seq", "vocab", "channels", "image", "theta", "pool", "tied"},
    "convnet": {"heads", "kv_heads", "ffn", "seq", "vocab", "features", "theta", "tied", "loss", "activation"},
    "gpt": {"features", "classes", "channels", "image", "pool", "loss", "theta"},
    "llama": {"features", "classes", "channels", "image", "pool", "loss"},
}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise FusionError(f"{message}; see {self.prog} --help", USAGE)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 1 << 31):
        raise argparse.ArgumentTypeError(f"{text!r} isn't a number in [1, 2^31)")
    return int(text)


def _real(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} isn't a finite number of at least 0")
    return value


def _parser(program: str) -> argparse.ArgumentParser:
    parser = _Parser(prog=program, description=_DESCRIPTION, epilog=_EPILOG, allow_abbrev=False,
                     formatter_class=argparse.RawDescriptionHelpFormatter, argument_default=argparse.SUPPRESS)
    add = parser.add_argument
    add("--version", action="version", version=f"{program} {__version__}")
    add("model", metavar="MODEL", help="a model or a preset")
    add("-o", "--output", metavar="FILE", required=True, help="the MLIR file to write")
    sizes = parser.add_argument_group("sizes of the model (a preset's, unless given)").add_argument
    for name, text in (
        ("batch", "examples of a step"), ("layers", "layers, blocks or stages"),
        ("hidden", "width; channels of the first stage"), ("heads", "heads of queries"),
        ("kv_heads", "heads of keys and values (default: as of queries)"),
        ("ffn", "width inside the feed-forward layers"), ("seq", "tokens of an example"), ("vocab", "different tokens"),
        ("features", "mlp: numbers of an example"), ("classes", "mlp, convnet: outputs"),
        ("channels", "convnet: channels of an image"), ("image", "convnet: height and width"),
    ):
        sizes("--" + name.replace("_", "-"), type=_count, metavar="N", help=text)
    sizes("--theta", type=_real, metavar="X", help="llama: base of the rotary angles")
    sizes("--activation", choices=ACTIVATIONS, help="in place of the model's own")
    sizes("--loss", choices=("cross_entropy", "mse"), help="mlp: what is minimized")
    sizes("--pool", choices=("max", "avg"), help="convnet: what halves an image")
    sizes("--tied", action="store_true", help="gpt, llama: the embedding is the head's weights too")
    sizes("--untied", dest="tied", action="store_false", help="gpt, llama: the head has weights of its own")
    sizes("--dtype", choices=("f32", "bf16", "f16", "f64"),
        help="of activations (default f32)")
    sizes("--parameter-dtype", choices=("f32", "bf16", "f16", "f64"),
        help="of parameters, moments and gradients (default f64 with --dtype f64, else f32); updates are computed in "
             "f32 at least and rounded once")
    step = parser.add_argument_group("the step").add_argument
    step("--optimizer", choices=("adamw", "sgd"), default="adamw", help="default adamw")
    step("--momentum", type=_real, metavar="X", help="sgd (default 0.9; 0: none is kept)")
    step("--beta1", type=_real, metavar="X", help="adamw (default 0.9)")
    step("--beta2", type=_real, metavar="X", help="adamw (default 0.95)")
    step("--epsilon", type=_real, metavar="X", help="adamw (default 1e-8)")
    step("--weight-decay", type=_real, metavar="X", help="of matrices, not vectors (default 0.1)")
    step("--clip", type=_real, metavar="X",
        help="largest global norm of the gradients (default 1; 0: no clipping, no norm, no check of it)")
    step("--loss-scale", type=_real, metavar="X",
        help="factor on the loss while gradients are computed, for f16 (default 1)")
    step("--micro-batches", type=_count, default=1, metavar="N", help="parts of the batch that run one after another")
    step("--write-inputs", metavar="DIR", default=None, help="write .npy files of random arguments there")
    step("--seed", type=_count, default=1, metavar="N", help="of --write-inputs")
    for name, text in (
        ("recompute", "values inside blocks are computed again in the backward pass"),
        ("tp", 'shard heads and feed-forward weights over the mesh axis "tp"'),
        ("emit-gradients", "results grad.NAME: gradients before clipping"),
        ("integers", "--write-inputs of small integers"),
    ):
        step("--" + name, action="store_true", default=False, help=text)
    return parser


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise FusionError(message, USAGE)


def make_model(name: str, given: dict, recompute: bool = False) -> Model:
    """The model or preset `name` with the sizes given. Raises FusionError 2."""
    preset: dict = {}
    _check(name in MODELS or name in PRESETS,
           f"no model {name!r}, expected one of {', '.join([*MODELS, *PRESETS])}")
    kind = name
    if name in PRESETS:
        kind, preset = PRESETS[name]
    for option in given:
        flag = "untied" if option == "tied" and not given[option] else option.replace("_", "-")
        _check(option not in _UNUSED[kind], f"--{flag}: {kind} has no use for it, leave it out")
    s = Sizes(**{**preset, **given})
    _check(not s.parameter_dtype or (s.parameter_dtype == "f64") == (s.dtype == "f64"),
           f"--parameter-dtype: {s.parameter_dtype} doesn't go with --dtype {s.dtype}, give both f64 or neither")
    _check(s.layers <= _MAX_LAYERS, f"--layers: {s.layers} is above {_MAX_LAYERS}; give fewer")
    if kind in ("gpt", "llama"):
        _check(s.hidden % s.heads == 0, f"--hidden: {s.hidden} is no multiple of --heads {s.heads}, change one")
        kv_heads = s.kv_heads or s.heads
        _check(s.heads % kv_heads == 0, f"--kv-heads: {kv_heads} doesn't divide --heads {s.heads}, change one")
        depth = s.hidden // s.heads
        _check(kind == "gpt" or depth % 2 == 0, f"--heads: rotary positions need pairs, a head has width {depth}")
    if kind == "convnet":
        _check(s.image % (1 << s.layers) == 0,
               f"--image: {s.image} is no multiple of {1 << s.layers}, which --layers {s.layers} stages halve")
    return MODELS[kind](s, recompute)


def models(arguments: Optional[Sequence[str]] = None, program: str = "python -m fusion_compiler models") -> None:
    """Writes a training step. Raises FusionError."""
    given = vars(_parser(program).parse_args(arguments))
    names = {f.name for f in fields(Sizes)}
    model = make_model(given["model"], {k: v for k, v in given.items() if k in names}, given["recompute"])
    hyper = Hyper(**{f.name: given[f.name] for f in fields(Hyper) if f.name in given})
    for option in ("beta1", "beta2", "momentum"):
        _check(getattr(hyper, option) < 1, f"--{option}: {getattr(hyper, option)} must be below 1")
    _check(hyper.loss_scale > 0, "--loss-scale: 0 leaves no gradient, give a number above it")
    count = given["micro_batches"]
    _check(model.sizes.batch % count == 0,
           f"--micro-batches: {count} doesn't divide --batch {model.sizes.batch}, change one")
    for path in (os.path.dirname(os.path.abspath(given["output"])),):
        _check(os.path.isdir(path), f"{given['output']}: its folder doesn't exist; create it first")
    module = training_step(model, Options(hyper, count, given["tp"], given["emit_gradients"]))
    write_module(module, given["output"])
    if given["write_inputs"]:
        write_inputs(module, model, given["write_inputs"], given["seed"], given["integers"])

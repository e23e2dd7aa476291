# ===- text.py - The text of a module ------------------------------------=== #
#
# Prints a module in the syntax that the dialect's ODS files declare. FORMATS has
# one entry for each op, or family of ops that print alike.
#
# ===----------------------------------------------------------------------=== #
"""MLIR text of a module."""

from __future__ import annotations

import hashlib
import re
from itertools import zip_longest
from typing import Callable, Iterable, Optional

import numpy as np

from .affine import Affine
from .module import FLOATS, STORAGE, Module, Op, Value

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*\Z")


def string(text: str) -> str:
    """A string literal; bytes outside printable ASCII are escaped."""
    out = []
    for byte in text.encode("utf-8", "surrogateescape"):
        char = chr(byte)
        out.append(char if 32 <= byte < 127 and char not in '"\\' else f"\\{byte:02X}")
    return '"' + "".join(out) + '"'


def symbol(name: str) -> str:
    """A symbol reference."""
    return "@" + (name if _PLAIN.match(name) else string(name))


def tensor_type(value: Value) -> str:
    sizes = ["?" if isinstance(s, Affine) else str(s) for s in value.shape]
    return f"tensor<{'x'.join(sizes + [value.dtype])}>"


def float_attr(number: float) -> str:
    """An f64 literal that reads back to the same bits."""
    number = float(number)
    if number != number or number in (float("inf"), float("-inf")):
        return f"0x{int(np.float64(number).view(np.uint64)):016X}"
    text = repr(number)
    mantissa, _, exponent = text.partition("e")
    mantissa = mantissa if "." in mantissa else mantissa + ".0"
    return mantissa + ("e" + exponent if exponent else "")


def _float_element(bits: int, dtype: str, number: float) -> str:
    width = {"f64": 16, "f32": 8, "f16": 4, "bf16": 4}[dtype]
    if np.isfinite(number):
        text = float_attr(float(np.format_float_scientific(number, unique=True)))
        # MLIR reads a decimal as f64 and then rounds: both steps must land here.
        again = _bits(float(text), dtype)
        if again == bits and len(text) <= 2 + width:
            return text
    return f"0x{bits:0{width}X}"


def _bits(number: float, dtype: str) -> int:
    if dtype == "bf16":
        return -1  # always printed as bits
    with np.errstate(over="ignore"):
        raw = np.array(number, dtype="<f8").astype(STORAGE[dtype])
    return int(raw.view(f"<u{raw.dtype.itemsize}"))


def dense(data: np.ndarray, dtype: str) -> str:
    """`dense<...>` of an array of STORAGE[dtype]."""
    data = np.ascontiguousarray(data)
    if dtype in FLOATS:
        bits = data.reshape(-1).view(f"<u{data.dtype.itemsize}")
        texts = [_float_element(int(b), dtype, d) for b, d in zip(bits, data.reshape(-1))]
    elif dtype == "i1":
        texts = ["true" if d else "false" for d in data.reshape(-1)]
    else:
        texts = [str(int(d)) for d in data.reshape(-1)]
    if data.size == 0:
        return "dense<>"
    if all(t == texts[0] for t in texts):
        return f"dense<{texts[0]}>"
    level = texts
    for size in reversed(data.shape):
        level = ["[" + ", ".join(level[i : i + size]) + "]" for i in range(0, len(level), size)]
    return f"dense<{level[0]}>"


def _list(numbers: Iterable[int]) -> str:
    return "[" + ", ".join(str(int(n)) for n in numbers) + "]"


class _Printer:
    def __init__(self):
        self.names: dict[int, str] = {}

    def name(self, value: Value) -> str:
        return self.names[id(value)]

    def operands(self, op: Op) -> str:
        return ", ".join(self.name(v) for v in op.operands)

    def body(self, op: Op) -> str:
        return FORMATS[op.name](self, op)


def _types(op: Op) -> str:
    return ", ".join(tensor_type(v) for v in op.operands)


def _dictionary(op: Op, units: Iterable[str] = (), integers: Iterable[tuple[str, int]] = ()) -> str:
    """The attributes that no word of the format carries; defaults are left out."""
    entries = [f"{n} = {op.attrs[n]} : i64" for n, default in integers if op.attrs.get(n, default) != default]
    entries += [n for n in units if op.attrs.get(n)]
    return " {" + ", ".join(sorted(entries)) + "}" if entries else ""


def _lists(op: Op, names: str) -> str:
    return " ".join(f"{n} = {_list(op.attrs[n])}" for n in names.split())


def _first_type(p: _Printer, op: Op) -> str:
    return f"{p.operands(op)} : {tensor_type(op.operands[0])}"


def _kind_first_type(p: _Printer, op: Op) -> str:
    return f"{op.attrs['kind']}, {p.operands(op)} : {tensor_type(op.operands[0])}"


def _alpha_beta(p: _Printer, op: Op) -> str:
    words = " ".join(f"{n} = {float_attr(op.attrs[n])}" for n in ("alpha", "beta") if n in op.attrs)
    return f"{p.operands(op)} {words} : {tensor_type(op.operands[0])}"


def _axis(p: _Printer, op: Op) -> str:
    return f"{p.operands(op)} axis = {op.attrs['axis']}{_dictionary(op, ['select_last'])} : {_types(op)}"


def _gather(p: _Printer, op: Op) -> str:
    return f"{p.operands(op)} axis = {op.attrs['axis']}{_dictionary(op, integers=[('batch_dims', 0)])} : {_types(op)}"


def _gather_nd(p: _Printer, op: Op) -> str:
    return f"{p.operands(op)}{_dictionary(op, integers=[('batch_dims', 0)])} : {_types(op)}"


def _broadcast(p: _Printer, op: Op) -> str:
    extra = _dictionary(op, integers=[("batch_scale", 1)])
    return f"{p.operands(op)} {_lists(op, 'dims')}{extra} : {_types(op)} to {tensor_type(op.results[0])}"


def _to(p: _Printer, op: Op) -> str:
    return f"{p.operands(op)} : {_types(op)} to {tensor_type(op.results[0])}"


def _with_lists(names: str) -> Callable[[_Printer, Op], str]:
    return lambda p, op: f"{p.operands(op)} {_lists(op, names)} : {_types(op)}"


def _optional(p: _Printer, op: Op, words: tuple[str, ...], fixed: int) -> str:
    """Operands where those behind `fixed` stand behind a word each."""
    text = ", ".join(p.name(v) for v in op.operands[:fixed])
    present = [w for w in words if op.attrs.get(w)]
    for word, value in zip(present, op.operands[fixed:]):
        text += f" {word} {p.name(value)}"
    return text


def _layout(op: Op) -> str:
    return op.attrs.get("layout", "nchw")


def _conv(p: _Printer, op: Op) -> str:
    lists = "strides pad_low pad_high " + ("output_padding " if op.name == "conv_transpose" else "") + "dilations"
    return (
        f"{_optional(p, op, ('bias',), 2)} {_lists(op, lists)} groups = {op.attrs['groups']} "
        f"layout = {_layout(op)} : {_types(op)}"
    )


def _pool(p: _Printer, op: Op) -> str:
    lists = _lists(op, "window strides pad_low pad_high dilations")
    return f"{p.operands(op)} {lists} layout = {_layout(op)}{_dictionary(op, ['count_include_pad'])} : {_types(op)}"


def _batch_norm(p: _Printer, op: Op) -> str:
    types = f"{tensor_type(op.operands[0])}, {tensor_type(op.operands[1])}"
    return f"{p.operands(op)} epsilon = {float_attr(op.attrs['epsilon'])} axis = {op.attrs['axis']} : {types}"


def _row_norm(p: _Printer, op: Op) -> str:
    operands = _optional(p, op, ("scale", "bias"), 1)
    return f"{operands} epsilon = {float_attr(op.attrs['epsilon'])} axis = {op.attrs['axis']} : {_types(op)}"


def _attention(p: _Printer, op: Op) -> str:
    causal = " causal" if op.attrs.get("causal") else ""
    return f"{_optional(p, op, ('mask',), 4 if op.name == 'attention_grad' else 3)} scale = {float_attr(op.attrs['scale'])}{causal} : {_types(op)}"


_FAMILIES = {
    _first_type: "neg abs sign ceil floor round sqrt rsqrt reciprocal exp exp2 expm1 log log2 log1p sin cos tan asin "
    "acos atan sinh cosh asinh acosh atanh tanh erf not is_nan is_inf relu sigmoid silu softplus mish hard_swish "
    "add sub mul div rem pow max min atan2 and or xor shift_left shift_right clamp",
    _kind_first_type: "compare gelu",
    _alpha_beta: "hard_sigmoid leaky_relu elu",
    _axis: "softmax log_softmax arg_max arg_min concat",
    _to: "cast reshape",
    _conv: "conv conv_transpose",
    _pool: "max_pool avg_pool max_pool_grad",
    _batch_norm: "batch_norm batch_norm_training",
    _row_norm: "layer_norm rms_norm",
    _gather: "gather",
    _gather_nd: "gather_nd",
    _broadcast: "broadcast",
    _attention: "attention attention_grad",
    _with_lists("permutation"): "transpose",
    _with_lists("starts limits strides"): "slice",
    _with_lists("dims"): "reverse",
    _with_lists("low high"): "pad",
}

#: How each op prints what stands behind its name.
FORMATS: dict[str, Callable[[_Printer, Op], str]] = {
    name: form for form, names in _FAMILIES.items() for name in names.split()
}
FORMATS["select"] = lambda p, op: f"{p.operands(op)} : {tensor_type(op.operands[0])}, {tensor_type(op.operands[1])}"
FORMATS["reduce"] = lambda p, op: f"{op.attrs['kind']}, {p.operands(op)} {_lists(op, 'dims')} : {_types(op)}"
FORMATS["scatter"] = lambda p, op: f"{op.attrs['kind']}, {p.operands(op)} : {_types(op)}"
FORMATS["iota"] = lambda p, op: (
    f"axis = {op.attrs['axis']}{_dictionary(op, integers=[('batch_scale', 1)])} : {tensor_type(op.results[0])}"
)
FORMATS["constant"] = lambda p, op: f"{dense(op.attrs['value'], op.results[0].dtype)} : {tensor_type(op.results[0])}"
FORMATS["get_parameter"] = lambda p, op: f"{symbol(op.attrs['symbol'])} : {tensor_type(op.results[0])}"
FORMATS["matmul"] = lambda p, op: (
    f"{p.operands(op)}{_dictionary(op, ['transpose_lhs', 'transpose_rhs'])} : {_types(op)}"
)
FORMATS["rope"] = lambda p, op: (
    f"{p.operands(op)}{_dictionary(op, ['interleaved'])} : "
    f"{tensor_type(op.operands[0])}, {tensor_type(op.operands[1])}"
)
FORMATS["after"] = lambda p, op: f"{p.operands(op)} : {_types(op)}"
FORMATS["rng_uniform"] = lambda p, op: f"{p.operands(op)} : {tensor_type(op.results[0])}"


def _named(name: str, extra: Optional[dict[str, str]]) -> str:
    """The attribute dictionary of an argument or result."""
    entries = {"fusion.name": string(name), **(extra or {})}
    return "{" + ", ".join(f"{key} = {value}" for key, value in entries.items()) + "}"


def lines(module: Module, weights_file: str) -> Iterable[str]:
    """The lines of the module; `weights_file` is the name of the file of its parameters."""
    printer = _Printer()
    yield "module {"
    for parameter in module.parameters:
        value = Value(parameter.dtype, parameter.shape)
        yield (
            f"  fusion.parameter {symbol(parameter.symbol)} const {string(weights_file)} key {string(parameter.key)} "
            f'sha256 "{hashlib.sha256(_buffer(parameter.data)).hexdigest()}" : {tensor_type(value)}'
        )
    arguments = []
    for value, name, extra in zip_longest(module.arguments, module.argument_names, module.argument_attributes):
        printer.names[id(value)] = "%" + value.name
        arguments.append(f"%{value.name}: {tensor_type(value)} {_named(name, extra)}")
    results = [
        f"{tensor_type(value)} {_named(name, extra)}"
        for value, name, extra in zip_longest(module.results, module.result_names, module.result_attributes)
    ]
    batch = ""
    if module.batch:
        batch = f" attributes {{fusion.batch = array<i64: {module.batch[0]}, {module.batch[1]}>}}"
    yield f"  func.func @main({', '.join(arguments)}) -> ({', '.join(results)}){batch} {{"
    for number, op in enumerate(module.ops):
        if len(op.results) == 1:
            names, left = [f"%{number}"], f"%{number}"
        else:
            names, left = [f"%{number}#{i}" for i in range(len(op.results))], f"%{number}:{len(op.results)}"
        body = printer.body(op)
        for value, name in zip(op.results, names):
            printer.names[id(value)] = name
        yield f"    {left} = fusion.{op.name} {body} loc({string(op.loc)})"
    if module.results:
        types = ", ".join(tensor_type(v) for v in module.results)
        yield f"    return {', '.join(printer.name(v) for v in module.results)} : {types}"
    else:
        yield "    return"
    yield "  }"
    yield "}"


def _buffer(data: np.ndarray):
    """The bytes of an array, without a copy when it is contiguous."""
    return memoryview(np.ascontiguousarray(data).reshape(-1).view(np.uint8))

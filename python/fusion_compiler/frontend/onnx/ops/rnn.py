# ===- rnn.py - Recurrent networks -------------------------------------------=== #
#
# RNN, GRU and LSTM, unrolled over a sequence whose length is known. The products
# with the input weights don't depend on the state, so all steps share one.
#
# ===----------------------------------------------------------------------=== #
"""Recurrent ops of ONNX."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Optional

from ....ir.affine import product
from ....ir.module import Value
from ..context import NodeContext
from ..failure import BadNode, Unsupported
from ..registry import onnx_op

_MAX_STEPS = 1024
_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
#: Activations without parameters; the others take alpha and beta.
_PLAIN = {"Relu": "relu", "Tanh": "tanh", "Sigmoid": "sigmoid", "Softplus": "softplus"}


@dataclass
class _Direction:
    """The weights of one direction: input [I, G*H], state [H, G*H], biases [G*H], peepholes [3*H]."""

    weights: Value
    recurrence: Value
    input_bias: Optional[Value]
    state_bias: Optional[Value]
    peepholes: Optional[Value]
    activations: list[Callable[[Value], Value]]
    hidden: int


def _part(c: NodeContext, x: Value, dim: int, index: int, size: int) -> Value:
    return c.b.slice_dim(x, dim, index * size, (index + 1) * size)


def _row(c: NodeContext, x: Value, index: int) -> Value:
    """x[index] without the leading dimension."""
    return c.b.reshape(c.b.slice_dim(x, 0, index, index + 1), x.shape[1:])


def _activation(c: NodeContext, name: str, alpha: Optional[float], beta: Optional[float]) -> Callable:
    b = c.b

    def bounded(x: Value) -> Value:
        clip = c.float("clip") if c.has("clip") else None
        return x if clip is None else b.clamp(x, b.scalar(-clip, x), b.scalar(clip, x))

    known = {n.lower(): n for n in (*_PLAIN, "LeakyRelu", "Elu", "HardSigmoid", "Affine", "Softsign", "ThresholdedRelu",
                                    "ScaledTanh")}
    name = known.get(name.lower(), name)
    if name in _PLAIN:
        return lambda x: b.unary(_PLAIN[name], bounded(x))
    if name == "LeakyRelu":
        return lambda x: b.unary("leaky_relu", bounded(x), alpha=0.01 if alpha is None else alpha)
    if name == "Elu":
        return lambda x: b.unary("elu", bounded(x), alpha=1.0 if alpha is None else alpha)
    if name == "HardSigmoid":
        return lambda x: b.unary("hard_sigmoid", bounded(x), alpha=0.2 if alpha is None else alpha,
                                 beta=0.5 if beta is None else beta)
    raise Unsupported(f"activation '{name}'")


def _activations(c: NodeContext, directions: int) -> list[list[Callable]]:
    defaults = _DEFAULTS[c.node.op_type]
    names = c.strings("activations") or defaults * directions
    if len(names) != len(defaults) * directions:
        raise BadNode(f"{len(names)} activations, {len(defaults) * directions} are needed")
    alphas, betas = list(c.floats("activation_alpha") or []), list(c.floats("activation_beta") or [])
    result = []
    for name in names:  # the parameters stand in order, for the activations that have some
        plain = name.lower() in {n.lower() for n in _PLAIN}
        alpha = alphas.pop(0) if alphas and not plain else None
        beta = betas.pop(0) if betas and name.lower() == "hardsigmoid" else None
        result.append(_activation(c, name, alpha, beta))
    return [result[i * len(defaults) : (i + 1) * len(defaults)] for i in range(directions)]


def _direction(c: NodeContext, index: int, hidden: int, activations) -> _Direction:
    b, gates = c.b, _GATES[c.node.op_type]
    weights, recurrence = _row(c, c.need(1), index), _row(c, c.need(2), index)
    if weights.shape[0] != gates * hidden or recurrence.shape != (gates * hidden, hidden):
        raise BadNode(f"the weights {c.need(1)!r} and {c.need(2)!r} don't fit hidden_size {hidden}")
    input_bias = state_bias = None
    if c.input(3) is not None:
        bias = _row(c, c.need(3), index)
        if bias.shape != (2 * gates * hidden,):
            raise BadNode(f"the bias {c.need(3)!r} doesn't fit hidden_size {hidden}")
        input_bias, state_bias = (_part(c, bias, 0, i, gates * hidden) for i in (0, 1))
    peepholes = _row(c, c.need(7), index) if c.input(7) is not None else None
    return _Direction(b.transpose(weights, [1, 0]), b.transpose(recurrence, [1, 0]), input_bias, state_bias, peepholes,
                      activations, hidden)


def _biased(c: NodeContext, x: Value, bias: Optional[Value]) -> Value:
    return x if bias is None else c.b.binary("add", x, bias)


def _rnn_step(c: NodeContext, d: _Direction, x: Value, h: Value, cell) -> tuple:
    b = c.b
    return d.activations[0](b.binary("add", x, _biased(c, b.matmul(h, d.recurrence), d.state_bias))), None


def _gru_step(c: NodeContext, d: _Direction, x: Value, h: Value, cell) -> tuple:
    """Gates in the order update, reset, hidden."""
    b, size = c.b, d.hidden
    f, g = d.activations
    state = _biased(c, b.matmul(h, d.recurrence), d.state_bias)
    update, reset = (f(b.binary("add", _part(c, x, 1, i, size), _part(c, state, 1, i, size))) for i in (0, 1))
    if c.int("linear_before_reset"):
        inner = b.binary("mul", reset, _part(c, state, 1, 2, size))
    else:
        inner = b.matmul(b.binary("mul", reset, h), _part(c, d.recurrence, 1, 2, size))
        inner = _biased(c, inner, None if d.state_bias is None else _part(c, d.state_bias, 0, 2, size))
    new = g(b.binary("add", _part(c, x, 1, 2, size), inner))
    rest = b.binary("sub", b.scalar(1, update), update)
    return b.binary("add", b.binary("mul", rest, new), b.binary("mul", update, h)), None


def _lstm_step(c: NodeContext, d: _Direction, x: Value, h: Value, cell: Value) -> tuple:
    """Gates in the order input, output, forget, cell; peepholes in the order input, output, forget."""
    b, size = c.b, d.hidden
    f, g, last = d.activations
    total = b.binary("add", x, _biased(c, b.matmul(h, d.recurrence), d.state_bias))

    def gate(index: int, state: Value) -> Value:
        part = _part(c, total, 1, index, size)
        if d.peepholes is not None:
            part = b.binary("add", part, b.binary("mul", state, _part(c, d.peepholes, 0, index, size)))
        return f(part)

    enter = gate(0, cell)
    forget = b.binary("sub", b.scalar(1, enter), enter) if c.int("input_forget") else gate(2, cell)
    new = b.binary("add", b.binary("mul", forget, cell), b.binary("mul", enter, g(_part(c, total, 1, 3, size))))
    return b.binary("mul", gate(1, new), last(new)), new


_STEPS = {"RNN": _rnn_step, "GRU": _gru_step, "LSTM": _lstm_step}


def _unrolled(c: NodeContext, d: _Direction, x: Value, h: Value, cell, lengths, backward: bool) -> tuple:
    """Output of each step in the order of the sequence, and the last state."""
    b = c.b
    steps = int(x.shape[0])
    # One product for all steps: [S * N, I] x [I, G * H].
    flat = b.reshape(x, [product(x.shape[:2]), x.shape[2]])
    projected = _biased(c, b.matmul(flat, d.weights), d.input_bias)
    projected = b.reshape(projected, list(x.shape[:2]) + [d.weights.shape[1]])
    outputs: list = [None] * steps
    for step in range(steps - 1, -1, -1) if backward else range(steps):
        new_h, new_cell = _STEPS[c.node.op_type](c, d, _row(c, projected, step), h, cell)
        out = new_h
        if lengths is not None:  # beyond its end a sequence keeps its state and gives zeros
            live = b.broadcast(b.compare("gt", lengths, b.scalar(step, lengths)), h.shape, [0])
            out = b.select(live, new_h, b.splat(0, h.dtype, h.shape))
            new_h = b.select(live, new_h, h)
            new_cell = b.select(live, new_cell, cell) if cell is not None else None
        h, cell = new_h, new_cell
        outputs[step] = out
    return outputs, h, cell


@onnx_op("RNN", "GRU", "LSTM", since=7)
def recurrent(c: NodeContext):
    b, x = c.b, c.need(0)
    batch_first = bool(c.int("layout"))
    if x.rank != 3 or c.need(1).rank != 3 or c.need(2).rank != 3:
        raise BadNode("input and weights must have rank 3")
    if batch_first:
        x = b.transpose(x, [1, 0, 2])
    steps = c.static(x, dims=[0])[0]
    if not 1 <= steps <= _MAX_STEPS:
        raise Unsupported(f"a sequence of {steps} elements; 1 to {_MAX_STEPS} are unrolled")
    direction = c.choice("direction", "forward", ("forward", "reverse", "bidirectional"))
    count = 2 if direction == "bidirectional" else 1
    hidden = c.int("hidden_size", int(c.need(2).shape[2]))
    if c.need(1).shape[0] != count or c.need(2).shape[0] != count:
        raise BadNode(f"the weights are for {c.need(1).shape[0]} directions, not {count}")
    lengths = c.input(4)
    if lengths is not None and lengths.constant and (lengths.data == steps).all():
        lengths = None
    lstm = c.node.op_type == "LSTM"
    activations = _activations(c, count)
    rows, states, cells = [], [], []
    for index in range(count):
        d = _direction(c, index, hidden, activations[index])
        start = [_initial(c, c.input(i), index, x, hidden, batch_first) for i in ((5, 6) if lstm else (5,))]
        backward = direction == "reverse" or index == 1
        outputs, h, cell = _unrolled(c, d, x, start[0], start[1] if lstm else None, lengths, backward)
        rows.append(outputs)
        states.append(h)
        cells.append(cell)
    return _results(c, rows, states, cells if lstm else None, batch_first)


def _initial(c: NodeContext, value: Optional[Value], index: int, x: Value, hidden: int, batch_first: bool) -> Value:
    b = c.b
    shape = [x.shape[1], hidden]
    if value is None:
        return b.splat(0, x.dtype, shape)
    if batch_first:
        value = b.transpose(value, [1, 0, 2])
    state = _row(c, value, index)
    if list(state.shape) != shape:
        raise BadNode(f"the initial state {value!r} doesn't fit")
    return state


def _results(c: NodeContext, rows, states, cells, batch_first: bool) -> list:
    """Y [S, D, N, H], Y_h and Y_c [D, N, H]; with batch_first [N, S, D, H] and [N, D, H]."""
    b = c.b

    def stacked(values: list[Value]) -> Value:
        whole = b.concat([b.reshape(v, [1] + list(v.shape)) for v in values], 0)
        return b.transpose(whole, [1, 0, 2]) if batch_first else whole

    y = None
    if c.wants(0):
        steps = []
        for step in range(len(rows[0])):
            both = b.concat([b.reshape(r[step], [1] + list(r[step].shape)) for r in rows], 0)
            steps.append(b.reshape(both, [1] + list(both.shape)))
        y = b.concat(steps, 0)
        y = b.transpose(y, [2, 0, 1, 3]) if batch_first else y
    result = [y, stacked(states)]
    return result + [stacked(cells)] if cells else result

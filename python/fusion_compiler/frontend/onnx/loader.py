# ===- loader.py - Reads and checks an ONNX file -------------------------=== #
#
# Reads the protobuf and checks what every later step relies on: names are defined
# once and before use, initializers and inputs are unique, local functions don't
# call themselves, graphs nest to a bounded depth. Nothing here recurses over nodes.
#
# ===----------------------------------------------------------------------=== #
"""Reads an ONNX model and checks its structure."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

import onnx
from google.protobuf.message import DecodeError
from onnx import AttributeProto, GraphProto, ModelProto

from ...errors import BAD_PROGRAM, RESOURCES, USAGE, FusionError, quote
from .failure import BadModel

MAX_NODES = 10_000_000
MAX_DEPTH = 64  # of If, Loop and Scan bodies, and of function calls
MAX_BYTES = (1 << 31) - 1
MAX_NAME = 4096

FunctionKey = tuple[str, str, str]


def domain(name: str) -> str:
    """The default domain has two spellings."""
    return "" if name == "ai.onnx" else name


@dataclass
class LoadedModel:
    """A model whose structure is checked."""

    path: str
    proto: ModelProto
    opsets: dict[str, int]
    functions: dict[FunctionKey, onnx.FunctionProto]

    @property
    def folder(self) -> str:
        return os.path.dirname(os.path.abspath(self.path))


def load_model(path: str) -> LoadedModel:
    """Reads `path`. Raises FusionError: 2 when it can't be read, 3 when it isn't a sound model."""
    try:
        # Without O_NONBLOCK a named pipe would wait for a writer.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise FusionError(f"{path}: can't be read: it isn't a regular file", USAGE)
            if status.st_size > MAX_BYTES:
                raise FusionError(
                    f"{path}: {status.st_size} bytes are more than a protobuf can hold; store the weights as "
                    "external data", BAD_PROGRAM,
                )
            content = file.read(status.st_size)
    except OSError as error:
        raise FusionError(f"{path}: can't be read: {error.strerror}", USAGE) from error
    except MemoryError as error:
        raise FusionError(f"{path}: not enough memory to read it", RESOURCES) from error
    try:
        proto = ModelProto.FromString(content)
    except (DecodeError, RuntimeError, ValueError) as error:
        raise FusionError(
            f"{path}: not an ONNX model, or a truncated or too deeply nested one; export it again", BAD_PROGRAM
        ) from error
    if not proto.HasField("graph") or not (proto.ir_version or proto.opset_import):
        raise FusionError(f"{path}: not an ONNX model: it holds no graph; export it again", BAD_PROGRAM)
    try:
        return _checked(path, proto)
    except BadModel as error:
        raise FusionError(f"{path}: {error}", error.code) from error


def _opsets(imports, what: str) -> dict[str, int]:
    opsets: dict[str, int] = {}
    _check_text((entry.domain for entry in imports), "the imported domain")
    for entry in imports:
        name = domain(entry.domain)
        if name in opsets:
            raise BadModel(f"{what} imports domain {quote(name or 'ai.onnx')} twice")
        opsets[name] = entry.version
    newest = onnx.defs.onnx_opset_version()
    version = opsets.get("")
    if version is not None and not 1 <= version <= newest:
        raise BadModel(
            f"{what} uses opset {version}; the installed onnx package knows 1 to {newest}: install a newer one"
        )
    return opsets


def _checked(path: str, proto: ModelProto) -> LoadedModel:
    opsets = _opsets(proto.opset_import, "the model")
    if not opsets:
        raise BadModel("the model imports no operator set; it may be truncated, export it again")
    functions: dict[FunctionKey, onnx.FunctionProto] = {}
    for function in proto.functions:
        _check_text((function.name, function.domain, *function.output), "a name in a function:")
        key = (domain(function.domain), function.name, getattr(function, "overload", ""))
        if key in functions:
            raise BadModel(f"function {quote(function.name)} of domain {quote(function.domain)} is defined twice")
        functions[key] = function
        _opsets(function.opset_import, f"function {quote(function.name)}")
        _check_function(function)
    _check_graph(proto.graph)
    _check_cycles(functions)
    return LoadedModel(path, proto, opsets, functions)


def _check_text(names, what: str) -> None:
    """A damaged protobuf gives strings that aren't UTF-8 as bytes; a NUL ends a name early elsewhere."""
    for name in names:
        if not isinstance(name, str) or "\0" in name:
            raise BadModel(f"{what} {quote(name)} isn't valid text")
        if len(name) > MAX_NAME:
            raise BadModel(f"{what} {quote(name)} has more than {MAX_NAME} characters")


def _unique(names, what: str) -> set[str]:
    seen: set[str] = set()
    names = list(names)
    _check_text(names, what)
    for name in names:
        if name in seen:
            raise BadModel(f"{what} {quote(name)} is defined twice")
        seen.add(name)
    return seen


class _Names:
    """The names that a graph defines; graphs around it are looked up by the parent link."""

    def __init__(self, parent=None):
        self.parent, self.names, self.depth = parent, set(), (parent.depth + 1 if parent else 0)

    def __contains__(self, name: str) -> bool:
        scope = self
        while scope is not None:
            if name in scope.names:
                return True
            scope = scope.parent
        return False


def subgraphs(node):
    """The graphs in a node's attributes."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH or attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _check_nodes(nodes, names: _Names, pending: list, count: list[int]) -> None:
    for node in nodes:
        count[0] += 1
        if count[0] > MAX_NODES:
            raise BadModel(f"the model has more than {MAX_NODES} nodes")
        _check_text((node.name, node.op_type, node.domain, *node.input, *node.output), "a name in a node:")
        _check_text([text for a in node.attribute for text in (a.name, a.ref_attr_name)], "an attribute's name")
        label = f"node {quote(node.name or (node.output[0] if node.output else ''))} ({node.op_type or 'no op type'})"
        if not node.op_type:
            raise BadModel(f"{label} has no op type")
        for name in node.input:
            if name and name not in names:
                raise BadModel(f"{label} reads {quote(name)}, which nothing before it defines")
        # A body is checked later, when names that stand behind its node exist too: such a
        # reference passes here and is refused when the importer evaluates the body in place.
        for graph in subgraphs(node):
            pending.append((graph, names))
        for name in node.output:
            if not name:
                continue
            if name in names.names:
                raise BadModel(f"{label} defines {quote(name)}, which is already defined")
            names.names.add(name)
        seen = set()
        for attribute in node.attribute:
            if attribute.name in seen:
                raise BadModel(f"{label} has attribute {quote(attribute.name)} twice")
            seen.add(attribute.name)


def _check_graph(graph: GraphProto) -> None:
    pending: list = [(graph, None)]
    count = [0]
    while pending:
        current, parent = pending.pop()
        names = _Names(parent)
        if names.depth > MAX_DEPTH:
            raise BadModel(f"graphs nest deeper than {MAX_DEPTH}")
        inputs = _unique((v.name for v in current.input), "graph input")
        initializers = _unique(
            [t.name for t in current.initializer] + [t.values.name for t in current.sparse_initializer], "initializer"
        )
        if "" in inputs or "" in initializers:
            raise BadModel("a graph input or initializer has no name")
        names.names |= inputs | initializers
        _check_nodes(current.node, names, pending, count)
        _check_text((output.name for output in current.output), "graph output")
        for output in current.output:
            if output.name not in names:
                raise BadModel(f"graph output {quote(output.name)} is defined nowhere")
        _unique((v.name for v in current.output), "graph output")


def _check_function(function: onnx.FunctionProto) -> None:
    names = _Names()
    names.names |= _unique(function.input, f"input of function {quote(function.name)}")
    pending: list = []
    _check_nodes(function.node, names, pending, [0])
    for output in function.output:
        if output not in names:
            raise BadModel(f"output {quote(output)} of function {quote(function.name)} is defined nowhere")
    while pending:
        graph, parent = pending.pop()
        inner = _Names(parent)
        if inner.depth > MAX_DEPTH:
            raise BadModel(f"graphs nest deeper than {MAX_DEPTH}")
        inner.names |= {v.name for v in graph.input} | {t.name for t in graph.initializer}
        _check_nodes(graph.node, inner, pending, [0])


def _calls(nodes, functions) -> list[FunctionKey]:
    found, pending = [], [nodes]
    while pending:
        for node in pending.pop():
            key = (domain(node.domain), node.op_type, getattr(node, "overload", ""))
            if key in functions:
                found.append(key)
            pending.extend(g.node for g in subgraphs(node))
    return found


def _check_cycles(functions: dict) -> None:
    """Local functions must not call themselves, through others or directly."""
    calls = {key: _calls(function.node, functions) for key, function in functions.items()}
    waiting = {key: len(set(called)) for key, called in calls.items()}
    callers: dict = {key: [] for key in calls}
    for key, called in calls.items():
        for other in set(called):
            callers[other].append(key)
    ready = [key for key, count in waiting.items() if count == 0]
    done, depth = 0, dict.fromkeys(calls, 1)
    while ready:
        key = ready.pop()
        done += 1
        if depth[key] > MAX_DEPTH:
            raise BadModel(f"functions call each other deeper than {MAX_DEPTH}")
        for caller in callers[key]:
            depth[caller] = max(depth[caller], depth[key] + 1)
            waiting[caller] -= 1
            if waiting[caller] == 0:
                ready.append(caller)
    if done < len(calls):
        name = next(key for key, count in waiting.items() if count)
        raise BadModel(f"function {quote(name[1])} of domain {quote(name[0])} calls itself, directly or through others")

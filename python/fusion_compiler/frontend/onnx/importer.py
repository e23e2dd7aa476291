# ===- importer.py - Walks a model and builds the module -----------------=== #
#
# Visits the nodes in order with an explicit stack of frames: the main graph, the
# body of a local function or of an If whose condition is known. Each node is
# evaluated when all it needs is known, else given to its function in ops/. What
# isn't supported is collected, so that one run names all of it.
#
# ===----------------------------------------------------------------------=== #
"""Builds a module of the dialect from a checked ONNX model."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Callable, Optional

import onnx
from onnx import AttributeProto, NodeProto

from ...errors import BAD_PROGRAM, FusionError, quote
from ...ir.affine import NotAffine, is_static, largest
from ...ir.builder import BuildError, Builder
from ...ir.module import Module, Value
from . import fold, ops, registry  # noqa: F401 - importing ops fills the registry
from .context import NodeContext
from .dtypes import DTYPES, type_name
from .external import ExternalFiles
from .failure import BadModel, BadNode, Unsupported
from .loader import LoadedModel, domain
from .schema import check_form, check_types, schema_of
from .shapes import InputShapes
from .tensors import tensor_array, tensor_label

MAX_VISITS = 10_000_000
MAX_FRAMES = 256
#: Elements that a tensor of the dialect may have.
MOST_ELEMENTS = 1 << 48
#: The oldest opset whose ops are all known.
OLDEST_OPSET = 7
#: Ops with a body that runs again and again; refused by name.
_LOOPS = ("Loop", "Scan", "SequenceMap")


class _Env:
    """Values by name; a body also sees those of the graph around it."""

    def __init__(self, parent: Optional["_Env"] = None):
        self.parent, self.values = parent, {}

    def get(self, name: str):
        env = self
        while env is not None:
            if name in env.values:
                return env.values[name]
            env = env.parent
        raise BadNode(f"it reads {quote(name)}, which nothing before it defines")


#: Stands for a value that a node that isn't supported would have made.
_MISSING = object()


@dataclass
class _Frame:
    """A list of nodes being visited, and what to do at its end."""

    nodes: list
    env: _Env
    opsets: dict[str, int]
    path: str = ""
    attributes: dict = field(default_factory=dict)  # of the function call, for references
    done: Callable[["_Frame"], None] = lambda frame: None
    position: int = 0
    function: bool = False


class Importer:
    """Imports one model; `run` gives the module."""

    def __init__(self, model: LoadedModel, shapes: InputShapes, files: Optional[ExternalFiles] = None):
        self.model = model
        self.shapes = shapes
        self.module = Module(batch=shapes.batch)
        self.builder = Builder(self.module)
        self.files = files or ExternalFiles(model.folder)
        self.failures: list[str] = []
        self.visits = 0

    # ---- the whole model ----------------------------------------------------

    def run(self) -> Module:
        """Builds the module. Raises FusionError with everything that isn't supported."""
        graph = self.model.proto.graph
        env = _Env()
        if graph.sparse_initializer:
            self.failures.append("the graph has sparse initializers")
        self._initializers(graph, env)
        known = set(env.values)
        for argument in self.shapes.arguments(graph, known):
            if isinstance(argument, str):
                self.failures.append(argument)
                continue
            name, value = argument
            env.values[name] = value
            if value.data is None:
                self.module.arguments.append(value)
                self.module.argument_names.append(name)
        for name in (v.name for v in graph.input):
            env.values.setdefault(name, _MISSING)
        main = _Frame(list(graph.node), env, self.model.opsets)
        self._walk(main)
        for output in graph.output:
            self._output(output, env)
        self._raise_failures()
        return self.module

    def _initializers(self, graph, env: _Env) -> None:
        for tensor in graph.initializer:
            try:
                env.values[tensor.name] = self._tensor(tensor, tensor_label(tensor), tensor.name)
            except Unsupported as error:
                self.failures.append(str(error))
                env.values[tensor.name] = _MISSING

    def _tensor(self, tensor, what: str, key: str = "") -> Value:
        array, dtype = tensor_array(tensor, what, self.files)
        value = Value(dtype, array.shape, array, loc=key or self.builder.loc)
        value.key = key
        return value

    def _output(self, output, env: _Env) -> None:
        value = env.values.get(output.name, _MISSING)
        if value is _MISSING:
            return
        declared = output.type.tensor_type.elem_type
        if output.type.WhichOneof("value") not in (None, "tensor_type"):
            self.failures.append(f"graph output {quote(output.name)} isn't a tensor")
            return
        if declared and DTYPES.get(declared) != value.dtype:
            raise BadModel(
                f"graph output {quote(output.name)} is declared {type_name(declared)}, its value is {value.dtype}"
            )
        self.builder.loc = output.name
        self.module.results.append(self.builder.operand(value))
        self.module.result_names.append(output.name)

    def _raise_failures(self) -> None:
        if self.failures:
            count = len(self.failures)
            first = "1 thing isn't" if count == 1 else f"{count} things aren't"
            lines = "".join(f"\n  {failure}" for failure in self.failures)
            raise FusionError(f"{first} supported; change the model or its export:{lines}", BAD_PROGRAM)

    # ---- nodes --------------------------------------------------------------

    def _walk(self, main: _Frame) -> None:
        stack = [main]
        while stack:
            frame = stack[-1]
            if frame.position == len(frame.nodes):
                stack.pop()
                frame.done(frame)
                continue
            node = frame.nodes[frame.position]
            frame.position += 1
            self.visits += 1
            if self.visits > MAX_VISITS:
                raise BadModel(f"the model has more than {MAX_VISITS} nodes once its functions are inlined")
            inner = self._guarded(node, frame)
            if inner is not None:
                if len(stack) >= MAX_FRAMES:
                    raise BadModel(f"{self._label(node, frame)}: calls nest deeper than {MAX_FRAMES}")
                stack.append(inner)

    def _label(self, node: NodeProto, frame: _Frame) -> str:
        name = node.name or next((o for o in node.output if o), "")
        space = domain(node.domain)
        opset = frame.opsets.get(space)
        version = f"opset {opset}" if opset is not None else "no opset imported"
        return f"node {quote(frame.path + name)} (op {quote(node.op_type)}, domain {quote(space or 'ai.onnx')}, {version})"

    def _guarded(self, node: NodeProto, frame: _Frame) -> Optional[_Frame]:
        """Imports one node; what isn't supported is noted, its outputs are missing from then on."""
        self.builder.loc = frame.path + (node.name or next((o for o in node.output if o), node.op_type))
        try:
            return self._node(node, frame)
        except (Unsupported, NotAffine) as error:
            reason = str(error) if isinstance(error, Unsupported) else f"a size isn't affine in the batch: {error}"
            self.failures.append(f"{self._label(node, frame)}: {reason}")
        except (BadNode, BuildError) as error:
            raise BadModel(f"{self._label(node, frame)}: {error}") from error
        except (BadModel, FusionError):
            raise
        except MemoryError:
            raise
        except Exception as error:
            raise FusionError(
                f"{self._label(node, frame)}: internal error ({type(error).__name__}: {error}); please report it", 9
            ) from error
        self._missing(node, frame)
        return None

    @staticmethod
    def _missing(node: NodeProto, frame: _Frame) -> None:
        for name in node.output:
            if name:
                frame.env.values[name] = _MISSING

    def _node(self, node: NodeProto, frame: _Frame) -> Optional[_Frame]:
        space = domain(node.domain)
        function = self.model.functions.get((space, node.op_type, getattr(node, "overload", "")))
        attributes = self._attributes(node, frame)
        inputs = [frame.env.get(name) if name else None for name in node.input]
        if function is not None:
            return self._call(node, function, inputs, attributes, frame)
        opset = frame.opsets.get(space)
        if opset is None:
            if space == "":
                raise BadNode("the model imports no opset of this domain")
            raise Unsupported("no such op in this importer")
        handler = registry.find(space, node.op_type, opset)
        schema = schema_of(space, node.op_type, opset)
        if schema is None and (space == "" or handler is None):
            raise Unsupported("no such op in this domain and opset" if space == "" else "no such op in this importer")
        if schema is not None:
            check_form(schema, node, attributes)
            if space == "" and opset < OLDEST_OPSET:
                self._check_age(node, schema)
        if node.op_type in _LOOPS and space == "":
            raise Unsupported("loops aren't supported; unroll it in the export")
        if any(value is _MISSING for value in inputs):
            # Also without its inputs an op that nothing knows is worth naming.
            if handler is None and not (schema.has_function or schema.has_context_dependent_function):
                raise Unsupported("no such op in this importer")
            self._missing(node, frame)
            return None
        if schema is not None:
            check_types(schema, inputs)
        if node.op_type == "If" and space == "":
            return self._if(node, inputs, attributes, frame)
        context = NodeContext(node, attributes, opset, inputs, self.builder, self._tensor)
        outputs = fold.evaluate(context, space)
        if outputs is None:
            outputs = NotImplemented if handler is None else handler(context)
        if outputs is NotImplemented:
            return self._expand(node, schema, inputs, attributes, frame)
        self._define(node, outputs, frame)
        return None

    @staticmethod
    def _check_age(node: NodeProto, schema) -> None:
        """An older opset is fine for ops that are still the same in the oldest one that is known."""
        later = schema_of("", node.op_type, OLDEST_OPSET)
        if later is None or later.since_version != schema.since_version:
            raise Unsupported(f"the op changed before opset {OLDEST_OPSET}; convert the model with "
                              "onnx.version_converter")

    def _define(self, node: NodeProto, outputs, frame: _Frame) -> None:
        outputs = [outputs] if isinstance(outputs, Value) else list(outputs)
        for index, name in enumerate(node.output):
            if not name:
                continue
            if index >= len(outputs) or outputs[index] is None:
                raise Unsupported(f"output {index} ({quote(name)}) isn't supported")
            value = outputs[index]
            if math.prod(largest(size) for size in value.shape) > MOST_ELEMENTS:
                raise BadNode(f"output {quote(name)} would have more than 2^48 elements")
            if value.data is not None and not value.key and value.op is None:
                value.key = frame.path + name
            frame.env.values[name] = value

    def _attributes(self, node: NodeProto, frame: _Frame) -> dict[str, AttributeProto]:
        result = {}
        for attribute in node.attribute:
            if attribute.ref_attr_name:
                if not frame.function:
                    raise BadNode(f"attribute {quote(attribute.name)} refers to one of a function, outside of functions")
                bound = frame.attributes.get(attribute.ref_attr_name)
                if bound is None:
                    continue
                if bound.type != attribute.type and attribute.type:
                    raise BadNode(f"attribute {quote(attribute.name)} has another type in the function's call")
                result[attribute.name] = bound
            else:
                result[attribute.name] = attribute
        return result

    # ---- bodies -------------------------------------------------------------

    def _call(self, node, function, inputs, attributes, frame: _Frame) -> _Frame:
        """A frame for the body of a local function, or of an op that ONNX defines by one."""
        if len(inputs) > len(function.input) or len(node.output) > len(function.output):
            raise BadNode(f"its call of function {quote(function.name)} has too many inputs or outputs")
        env = _Env()
        for index, name in enumerate(function.input):
            env.values[name] = inputs[index] if index < len(inputs) else None
        bound = {a.name: a for a in function.attribute_proto}
        bound.update(attributes)
        opsets = {domain(entry.domain): entry.version for entry in function.opset_import} or frame.opsets

        def finish(inner: _Frame) -> None:
            for outer_name, inner_name in zip(node.output, function.output):
                if outer_name:
                    frame.env.values[outer_name] = inner.env.values.get(inner_name, _MISSING)

        path = frame.path + (node.name or next((o for o in node.output if o), node.op_type)) + "/"
        return _Frame(list(function.node), env, opsets, path, bound, finish, function=True)

    def _expand(self, node, schema, inputs, attributes, frame: _Frame) -> _Frame:
        """An op without a function of its own: by the body that ONNX defines it by."""
        function = None
        if schema.has_function:
            function = schema.function_body
        elif schema.has_context_dependent_function:
            types = []
            for value in inputs:
                elem = next((k for k, v in DTYPES.items() if value is not None and v == value.dtype), 0)
                sizes = [s if is_static(s) else None for s in value.shape] if elem else None
                types.append(onnx.helper.make_tensor_type_proto(elem, sizes).SerializeToString() if elem else b"")
            plain = NodeProto()
            plain.CopyFrom(node)
            del plain.attribute[:]
            plain.attribute.extend(attributes.values())
            body = schema.get_context_dependent_function(plain.SerializeToString(), types)
            function = onnx.FunctionProto.FromString(body) if body else None
        if function is None or not function.node:
            raise Unsupported("no such op in this importer")
        inner = self._call(node, function, inputs, attributes, frame)
        # Such a body may leave open which opset it is written for: then it is the model's own.
        inner.opsets = {**inner.opsets, "": inner.opsets.get("", frame.opsets.get("", onnx.defs.onnx_opset_version()))}
        for name, declared in schema.attributes.items():
            if name not in inner.attributes and declared.default_value.name:
                inner.attributes[name] = declared.default_value
        return inner

    def _if(self, node, inputs, attributes, frame: _Frame) -> _Frame:
        condition = inputs[0]
        if not condition.constant:
            raise Unsupported("the condition depends on data")
        if condition.data.size != 1:
            raise BadNode("the condition isn't a scalar")
        graph = attributes["then_branch" if condition.data.reshape(-1)[0] else "else_branch"].g
        if len(graph.output) != len(node.output):
            raise BadNode("the branch has another number of outputs")
        env = _Env(frame.env)
        self._initializers(graph, env)

        def finish(inner: _Frame) -> None:
            for name, output in zip(node.output, graph.output):
                if name:
                    frame.env.values[name] = inner.env.get(output.name)

        return _Frame(list(graph.node), env, frame.opsets, frame.path, frame.attributes, finish, function=frame.function)

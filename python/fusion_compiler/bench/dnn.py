# ===- dnn.py - Every plan of cuDNN for a fused convolution ------------------=== #
#
# relu(conv(x, w) + bias), channels last, as one operation graph of cuDNN's backend API:
# all engines that its heuristics name (modes A and B and the fallback) are planned and
# screened, the fastest go on to take turns with everybody else. PyTorch only lends
# tensors, streams and graphs.
#
# ===----------------------------------------------------------------------=== #
"""The plans that cuDNN offers for a convolution with bias and relu."""

from __future__ import annotations

import ctypes
import time
from dataclasses import dataclass
from typing import Callable, Optional, Sequence

from ..errors import ENVIRONMENT, FusionError

# Kinds of descriptors (cudnnBackendDescriptorType_t).
_POINTWISE, _CONVOLUTION, _ENGINE, _CONFIG, _HEURISTICS, _PLAN = range(6)
_CONV_OP, _POINTWISE_OP, _GRAPH, _PACK, _TENSOR = 10, 13, 15, 16, 17
# Types of attributes (cudnnBackendAttributeType_t).
_HANDLE, _DATA_TYPE, _BOOL, _INT64, _FLOAT, _POINTER, _CONV_MODE, _HEUR_MODE = 0, 1, 2, 3, 4, 6, 7, 8
_POINTWISE_MODE, _DESCRIPTOR = 14, 15
# Values.
_TYPES = {"f32": 0, "f16": 2, "bf16": 9}
_F32, _CROSS_CORRELATION, _ADD, _RELU = 0, 1, 0, 100
_MODES = (3, 1, 2)  # A, B, fallback
#: Names of the tensors in memory, and of the two that are not.
_X, _W, _BIAS, _Y, _SUM, _BIASED = range(1, 7)

_MOST = 128
_WORKSPACE = 1 << 30


class Library:
    """libcudnn.so.9 and a handle in the current context. Raises FusionError 5."""

    def __init__(self, library=None):
        try:
            self.entries = library or ctypes.CDLL("libcudnn.so.9")
        except OSError as error:
            raise FusionError(f"can't load cuDNN 9: {error}", ENVIRONMENT) from error
        self.handle = ctypes.c_void_p()
        self.ask("cudnnCreate", ctypes.byref(self.handle))

    def ask(self, entry: str, *arguments) -> None:
        code = getattr(self.entries, entry)(*arguments)
        if code:
            raise FusionError(f"{entry}: status {code} of cuDNN", ENVIRONMENT)


class Object:
    """A descriptor of the backend; what it refers to stays alive with it."""

    def __init__(self, library: Library, kind: int):
        self._library, self._held = library, []
        self.descriptor = ctypes.c_void_p()
        library.ask("cudnnBackendCreateDescriptor", kind, ctypes.byref(self.descriptor))

    def __del__(self):
        if getattr(self, "descriptor", None):
            self._library.entries.cudnnBackendDestroyDescriptor(self.descriptor)

    def _set(self, attribute: int, kind: int, count: int, values) -> "Object":
        self._library.ask("cudnnBackendSetAttribute", self.descriptor, attribute, kind, ctypes.c_int64(count), values)
        return self

    def value(self, attribute: int, kind: int, number: int) -> "Object":
        return self._set(attribute, kind, 1, ctypes.byref(ctypes.c_int(number)))

    def numbers(self, attribute: int, *numbers: int) -> "Object":
        return self._set(attribute, _INT64, len(numbers), (ctypes.c_int64 * len(numbers))(*numbers))

    def real(self, attribute: int, number: float) -> "Object":
        return self._set(attribute, _FLOAT, 1, ctypes.byref(ctypes.c_float(number)))

    def flag(self, attribute: int, number: bool) -> "Object":
        return self._set(attribute, _BOOL, 1, ctypes.byref(ctypes.c_bool(number)))

    def pointers(self, attribute: int, kind: int, *addresses: Optional[int]) -> "Object":
        return self._set(attribute, kind, len(addresses), (ctypes.c_void_p * len(addresses))(*addresses))

    def objects(self, attribute: int, *objects: "Object") -> "Object":
        self._held += objects
        return self.pointers(attribute, _DESCRIPTOR, *(o.descriptor.value for o in objects))

    def finish(self) -> "Object":
        self._library.ask("cudnnBackendFinalize", self.descriptor)
        return self

    def get(self, attribute: int, kind: int, room: int, values) -> int:
        """Fills `values`, which has room for so many; how many there are."""
        count = ctypes.c_int64()
        self._library.ask("cudnnBackendGetAttribute", self.descriptor, attribute, kind, ctypes.c_int64(room),
                          ctypes.byref(count), values)
        return min(count.value, room)


def channels_last(dims: Sequence[int]) -> tuple[int, ...]:
    """Strides of N, C, H, W whose bytes are channels last."""
    _n, c, h, w = dims
    return h * w * c, 1, w * c, c


@dataclass(frozen=True)
class Convolution:
    """Sizes of relu(conv(x, w) + bias) with stride 1: x is N, C, H, W, w is K, C, R, S, both channels last."""

    x: tuple[int, int, int, int]
    w: tuple[int, int, int, int]
    pad: int
    dtype: str

    @property
    def y(self) -> tuple[int, int, int, int]:
        n, _c, height, width = self.x
        filters, _c, rows, columns = self.w
        return n, filters, height + 2 * self.pad - rows + 1, width + 2 * self.pad - columns + 1

    def operations(self, library: Library) -> list[Object]:
        """The three operations of the graph."""
        def tensor(name: int, dims) -> Object:
            made = Object(library, _TENSOR)
            made.value(901, _DATA_TYPE, _F32 if name > _Y else _TYPES[self.dtype]).numbers(902, *dims)
            made.numbers(903, *channels_last(dims)).numbers(906, name).numbers(900, 16)
            return (made.flag(907, True) if name > _Y else made).finish()

        def pointwise(mode: int) -> Object:
            return Object(library, _POINTWISE).value(0, _POINTWISE_MODE, mode).value(1, _DATA_TYPE, _F32).finish()

        window = Object(library, _CONVOLUTION)
        window.value(100, _DATA_TYPE, _F32).value(101, _CONV_MODE, _CROSS_CORRELATION).numbers(106, 2)
        window.numbers(102, 1, 1).numbers(103, 1, 1).numbers(104, self.pad, self.pad).numbers(105, self.pad, self.pad)
        total, biased = tensor(_SUM, self.y), tensor(_BIASED, self.y)
        conv = Object(library, _CONV_OP).objects(704, tensor(_X, self.x)).objects(703, tensor(_W, self.w))
        conv.objects(705, total).objects(702, window.finish()).real(700, 1).real(701, 0)
        add = Object(library, _POINTWISE_OP).objects(750, pointwise(_ADD)).objects(751, total)
        add.objects(752, tensor(_BIAS, (1, self.w[0], 1, 1))).objects(753, biased)
        relu = Object(library, _POINTWISE_OP).objects(750, pointwise(_RELU)).objects(751, biased)
        relu.objects(753, tensor(_Y, self.y))
        return [conv.finish(), add.finish(), relu.finish()]


class Plan:
    """An executable plan. Raises FusionError where cuDNN can't build it or it wants too much workspace."""

    def __init__(self, library: Library, config: Object, name: str):
        self._library, self.name = library, name
        self._plan = Object(library, _PLAN).pointers(400, _HANDLE, library.handle.value).objects(401, config).finish()
        size = ctypes.c_int64()
        self._plan.get(402, _INT64, 1, ctypes.byref(size))
        self.workspace = max(0, size.value)
        if self.workspace > _WORKSPACE:
            raise FusionError(f"{name}: {self.workspace} bytes of workspace", ENVIRONMENT)

    def enqueue(self, stream: int, x: int, w: int, bias: int, y: int, workspace: int) -> None:
        """Queues a run; addresses on the device."""
        self._library.ask("cudnnSetStream", self._library.handle, ctypes.c_void_p(stream))
        pack = Object(self._library, _PACK).numbers(1000, _X, _W, _BIAS, _Y)
        pack.pointers(1001, _POINTER, x, w, bias, y).pointers(1003, _POINTER, workspace).finish()
        self._library.ask("cudnnBackendExecute", self._library.handle, self._plan.descriptor, pack.descriptor)


def offered(library: Library, convolution: Convolution) -> list[Object]:
    """The configurations of engines that the heuristics name for the graph, best first in each mode."""
    operations = convolution.operations(library)
    graph = Object(library, _GRAPH).pointers(800, _HANDLE, library.handle.value).objects(801, *operations).finish()
    found: list[Object] = []
    for mode in _MODES:
        configs = [Object(library, _CONFIG) for _ in range(_MOST)]
        room = (ctypes.c_void_p * _MOST)(*(c.descriptor.value for c in configs))
        try:
            heuristics = Object(library, _HEURISTICS).objects(201, graph).value(200, _HEUR_MODE, mode).finish()
            count = heuristics.get(202, _DESCRIPTOR, _MOST, room)
        except FusionError:
            continue  # not every mode knows every graph
        for config in configs[:count]:
            config._held.append(heuristics)
        found += configs[:count]
    return found


def plans(library: Library, convolution: Convolution, seconds: float,
          clock: Callable[[], float] = time.monotonic) -> tuple[list[Plan], int]:
    """All plans that can be built within so many seconds, and how many configurations there were."""
    configs, result, begin = offered(library, convolution), [], clock()
    for index, config in enumerate(configs):
        if clock() - begin > seconds:
            break
        try:
            result.append(Plan(library, config, f"cuDNN plan {index + 1} of {len(configs)}"))
        except FusionError:
            continue
    return result, len(configs)

"""Runs executable modules (*.fsn) on numpy arrays and on buffers of a GPU.

A thin ctypes binding of the C ABI in ``fusion-rt/fusion_rt.h``; one file serves
every Python version. Arrays are passed by address: nothing is copied unless an
array is not contiguous or has the wrong type.

    module = runtime.load("model.fsn")
    session = module.session(threads=1)
    outputs = session.run({"x": x})          # {"y": array, ...}

A module for a GPU also takes arrays of that GPU: tensors of PyTorch, and whatever
has ``__cuda_array_interface__``. They are used in place.

The library is found beside this package, in a build tree above it, or by the
path given to :func:`use_library` before first use.
"""

import ctypes
import os
import pathlib
import sys

import numpy as np

_ABI_VERSION = 1

# By fusion_rt_dtype. bf16 has no numpy type: its arrays are 16-bit patterns.
_DTYPES = [np.dtype(t) for t in ("f8", "f4", "f2", "u2", "?", "i1", "i4", "i8")]
_DTYPE_NAMES = ["f64", "f32", "f16", "bf16", "i1", "i8", "i32", "i64"]


class FusionError(RuntimeError):
    """An error of the runtime.

    ``code`` is the exit code that the command-line tools give the same error;
    ``op`` names the command it happened in, or is empty.
    """

    def __init__(self, code, message, op=""):
        super().__init__(message)
        self.code = code
        self.op = op


class _Dim(ctypes.Structure):
    _fields_ = [("scale", ctypes.c_long), ("base", ctypes.c_long)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("dtype", ctypes.c_int),
        ("rank", ctypes.c_size_t),
        ("shape", ctypes.POINTER(_Dim)),
        ("donated_to", ctypes.c_long),
    ]


class _SessionOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("backend", ctypes.c_char_p),
        ("trust", ctypes.c_char_p),
        ("threads", ctypes.c_int),
        ("memory_limit", ctypes.c_ulong),
        ("device", ctypes.c_int),
        ("timeout", ctypes.c_double),
        ("autotune", ctypes.c_int),
    ]


_COUNTERS = (
    "runs", "launches", "tails", "calls", "copies", "records", "waits",
    "bytes_read", "bytes_written",
)
_MEMORY = ("arena", "packed_weights", "scratchpad", "staging")


class _Counters(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulong) for name in _COUNTERS]


class _Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulong) for name in _MEMORY]


_library_path = None
_library = None


def use_library(path):
    """Names the libfusion-rt.so to bind; call it before anything else here."""
    global _library_path
    if _library is not None:
        raise RuntimeError("the runtime library is already loaded")
    _library_path = os.fspath(path)


def _find_library():
    here = pathlib.Path(__file__).resolve().parent
    candidates = [here / "lib" / "libfusion-rt.so", here / "libfusion-rt.so"]
    for parent in here.parents:
        candidates.append(parent / "lib" / "libfusion-rt.so")
        for preset in ("dev", "release"):
            candidates.append(parent / "build" / preset / "lib" / "libfusion-rt.so")
    for candidate in candidates:
        if candidate.exists():
            return str(candidate)
    raise FusionError(
        5,
        "libfusion-rt.so not found beside the package or in build/dev/lib; "
        "build it (ninja fusion-rt) or call use_library(PATH)",
    )


def _declare(library):
    pointer, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
    long, tensor = ctypes.c_long, ctypes.POINTER(_Tensor)
    pointers, sizes = ctypes.POINTER(pointer), ctypes.POINTER(size)
    signatures = {
        "version": (text, []),
        "abi_version": (ctypes.c_int, []),
        "build_id": (text, []),
        "error_code": (ctypes.c_int, [pointer]),
        "error_message": (text, [pointer]),
        "error_op": (text, [pointer]),
        "error_destroy": (None, [pointer]),
        "module_load_file": (pointer, [text, pointers]),
        "module_load_memory": (pointer, [text, size, pointers]),
        "module_destroy": (None, [pointer]),
        "module_name": (text, [pointer]),
        "module_batch_range": (
            None, [pointer, ctypes.POINTER(long), ctypes.POINTER(long)]),
        "module_input_count": (size, [pointer]),
        "module_output_count": (size, [pointer]),
        "module_input": (tensor, [pointer, size]),
        "module_output": (tensor, [pointer, size]),
        "session_create": (
            pointer, [pointer, ctypes.POINTER(_SessionOptions), pointers]),
        "session_destroy": (None, [pointer]),
        "session_prepare": (pointer, [pointer, long]),
        "session_run": (
            pointer, [pointer, long, pointers, sizes, pointers, sizes]),
        "session_enqueue": (
            pointer, [pointer, long, pointers, sizes, pointers, sizes, pointer]),
        "session_last_seconds": (ctypes.c_double, [pointer]),
        "session_counters": (None, [pointer, ctypes.POINTER(_Counters)]),
        "session_note": (text, [pointer, size]),
        "session_memory": (None, [pointer, ctypes.POINTER(_Memory)]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, "fusion_rt_" + name)
        function.restype = result
        function.argtypes = arguments


def _rt():
    global _library
    if _library is None:
        path = _library_path or _find_library()
        try:
            library = ctypes.CDLL(path)
        except OSError as error:
            raise FusionError(5, f"can't load the runtime: {error}") from None
        _declare(library)
        found = library.fusion_rt_abi_version()
        if found != _ABI_VERSION:
            raise FusionError(
                5, f"{path} has ABI version {found}, this package needs "
                f"{_ABI_VERSION}; install matching versions")
        _library = library
    return _library


def _check(error):
    if not error:
        return
    library = _rt()
    code = library.fusion_rt_error_code(error)
    message = library.fusion_rt_error_message(error).decode()
    op = library.fusion_rt_error_op(error).decode()
    library.fusion_rt_error_destroy(error)
    raise FusionError(code, message, op)


class TensorInfo:
    """Name, element type and shape of an input or output.

    ``shape`` holds an int for each static dimension and a pair
    ``(scale, base)``, meaning ``scale * B + base``, for each dynamic one.
    """

    def __init__(self, raw):
        self.name = raw.name.decode()
        self.dtype_name = _DTYPE_NAMES[raw.dtype]
        self.dtype = _DTYPES[raw.dtype]
        self.dims = [(raw.shape[i].scale, raw.shape[i].base) for i in range(raw.rank)]
        self.shape = tuple(d if d[0] else d[1] for d in self.dims)
        self.donated_to = raw.donated_to

    def shape_at(self, batch):
        return tuple(scale * batch + base for scale, base in self.dims)

    def __repr__(self):
        return f"TensorInfo({self.name!r}, {self.dtype_name}, {self.shape})"


class Module:
    """A verified module. Loading runs nothing."""

    def __init__(self, handle):
        library = _rt()
        self._handle = handle
        self.name = library.fusion_rt_module_name(handle).decode()
        low, high = ctypes.c_long(), ctypes.c_long()
        library.fusion_rt_module_batch_range(handle, low, high)
        self.min_batch, self.max_batch = low.value, high.value
        self.inputs = [
            TensorInfo(library.fusion_rt_module_input(handle, i).contents)
            for i in range(library.fusion_rt_module_input_count(handle))]
        self.outputs = [
            TensorInfo(library.fusion_rt_module_output(handle, i).contents)
            for i in range(library.fusion_rt_module_output_count(handle))]

    def __del__(self):
        if getattr(self, "_handle", None) and _library is not None:
            _library.fusion_rt_module_destroy(self._handle)

    def empty_outputs(self, batch=None, allocate=None):
        """Arrays for all outputs by name, in one piece of memory.

        Made once on a GPU and given to each run, they let a library compute equal
        outputs at once. ``allocate(size)`` gives that many bytes as an array of
        uint8: ``lambda size: torch.empty(size, dtype=torch.uint8, device="cuda")``
        for tensors of PyTorch; None: numpy's. ``batch``: the largest by default.
        """
        if batch is None:
            batch = self.max_batch
        if not isinstance(batch, (int, np.integer)) or not (
                self.min_batch <= batch <= self.max_batch):
            raise FusionError(2, f"batch {batch!r} is not a number in the "
                              f"module's range {self.min_batch}..{self.max_batch}")
        return _empty_arrays(self.outputs, int(batch), allocate)

    def session(self, backend=None, threads=0, memory_limit=0, trust="own",
                device=0, timeout=60, autotune=False):
        """Loads native code (if ``trust`` allows it) and allocates memory.

        ``backend``: "cpu", "cuda" or "null"; None is what the module was
        compiled for. ``device``: which GPU. ``timeout``: seconds that a GPU may
        take for a run until it is given up with code 8; None: any. ``autotune``: time the
        algorithms of cuBLASLt and cuDNN, take the fastest and remember it, as
        ``fusion-run --autotune``.
        """
        return Session(self, backend, threads, memory_limit, trust, device, timeout,
                       autotune)


class Session:
    """A module on a backend; use it from one thread at a time."""

    def __init__(self, module, backend, threads, memory_limit, trust,
                 device, timeout, autotune=False):
        self.module = module
        options = _SessionOptions(
            ctypes.sizeof(_SessionOptions),
            backend.encode() if backend else None, trust.encode(), threads,
            memory_limit, device, -1 if timeout is None else timeout, bool(autotune))
        handle = ctypes.c_void_p()
        _check(_rt().fusion_rt_session_create(
            module._handle, ctypes.byref(options), ctypes.byref(handle)))
        self._handle = handle.value

    def __del__(self):
        if getattr(self, "_handle", None) and _library is not None:
            _library.fusion_rt_session_destroy(self._handle)

    def run(self, inputs, outputs=None):
        """Runs once.

        ``inputs`` maps names to arrays. ``outputs`` may map names to arrays
        that receive the results; the others are made, by numpy. Returns all
        outputs by name. Raises FusionError (code 2) for wrong names, shapes or
        types. Waits for work on the GPU that fills arrays given from there.
        """
        batch, arrays, results = self._bind(inputs, outputs)
        _check(_rt().fusion_rt_session_run(
            self._handle, batch, *_addresses(arrays),
            *_addresses(results.values())))
        return results

    def prepare(self, batch):
        """Makes everything for runs at ``batch``; the largest is prepared."""
        _check(_rt().fusion_rt_session_prepare(self._handle, batch))

    def enqueue(self, inputs, outputs, stream=0):
        """Puts a run on a CUDA stream and returns at once.

        All arrays are the GPU's and start at multiples of 16 bytes; ``outputs``
        names all of them. ``stream`` is a CUstream as a number, such as
        ``torch.cuda.current_stream().cuda_stream``. The caller keeps the arrays
        until the run is done, and runs of one session in order. On a stream that
        is being captured (``torch.cuda.graph``) the run becomes a part of that
        graph; its batch was prepared before, and the session outlives the graph.
        """
        _check_names("output", outputs, self.module.outputs, complete=True)
        batch, arrays, results = self._bind(inputs, outputs)
        _check(_rt().fusion_rt_session_enqueue(
            self._handle, batch, *_addresses(arrays),
            *_addresses(results.values()), stream))
        return results

    def _bind(self, inputs, outputs):
        """The batch, the inputs in order and the outputs by name, checked."""
        module = self.module
        _check_names("input", inputs, module.inputs, complete=True)
        arrays, batch = [], None
        for info in module.inputs:
            array = _array(f"input '{info.name}'", inputs[info.name])
            batch = _match(info, array, batch)
            arrays.append(array if isinstance(array, _DeviceArray)
                          else np.ascontiguousarray(array))
        if batch is None:
            batch = module.max_batch
        outputs = dict(outputs or {})
        _check_names("output", outputs, module.outputs, complete=False)
        results = {}
        for info in module.outputs:
            array = outputs.get(info.name)
            shape = info.shape_at(batch)
            if array is None:
                array = np.empty(shape, info.dtype)
            elif not _receives(info, array, shape):
                raise FusionError(
                    2, f"output '{info.name}': expected a writable contiguous "
                    f"{info.dtype_name} array of shape {shape}, got "
                    + (f"{array.dtype} {tuple(array.shape)}"
                       if hasattr(array, "shape") else type(array).__name__))
            results[info.name] = array
        return batch, arrays, results

    @property
    def last_seconds(self):
        """Wall time of the last run."""
        return _rt().fusion_rt_session_last_seconds(self._handle)

    @property
    def counters(self):
        raw = _Counters()
        _rt().fusion_rt_session_counters(self._handle, ctypes.byref(raw))
        return {name: getattr(raw, name) for name in _COUNTERS}

    @property
    def notes(self):
        """What the user should know of how the model runs here: that a slower kernel stands in for a library, say."""
        lines = []
        while (note := _rt().fusion_rt_session_note(self._handle, len(lines))) is not None:
            lines.append(note.decode())
        return lines

    @property
    def memory(self):
        raw = _Memory()
        _rt().fusion_rt_session_memory(self._handle, ctypes.byref(raw))
        return {name: getattr(raw, name) for name in _MEMORY}


class _DeviceArray:
    """A dense array in a GPU's memory, which belongs to ``owner``."""

    def __init__(self, owner, address, shape, dtype, writeable):
        self.owner, self.address, self.writeable = owner, address, writeable
        self.shape, self.dtype, self.ndim = tuple(shape), dtype, len(shape)
        self.nbytes = dtype.itemsize
        for size in self.shape:
            self.nbytes *= size

    @classmethod
    def of(cls, what, value):
        """``value`` if it is an array of a GPU, else None."""
        if getattr(value, "is_cuda", False) and hasattr(value, "data_ptr"):
            # PyTorch: its bf16 has no type string of numpy.
            name = str(value.dtype).replace("torch.", "")
            dtype = np.dtype({"bfloat16": "u2", "bool": "?"}.get(name, name))
            if not value.is_contiguous():
                raise FusionError(2, f"{what}: its tensor is not contiguous; "
                                  "call contiguous() on it")
            return cls(value, value.data_ptr(), value.shape, dtype, True)
        interface = getattr(value, "__cuda_array_interface__", None)
        if interface is None:
            return None
        dtype, shape = np.dtype(interface["typestr"]), interface["shape"]
        strides = interface.get("strides")
        if strides is not None and 0 not in shape:
            step = dtype.itemsize
            for size, stride in zip(reversed(shape), reversed(strides)):
                if size != 1 and stride != step:
                    raise FusionError(2, f"{what}: its array is not contiguous")
                step *= size
        address, readonly = interface["data"]
        return cls(value, address or 0, shape, dtype, not readonly)


_TORCH_NAMES = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16",
    "i1": "bool", "i8": "int8", "i32": "int32", "i64": "int64",
}


def _empty_arrays(infos, batch, allocate):
    """One behind the other, each at a multiple of 256 bytes."""
    alignment = 256
    offsets, size = [], 0
    for info in infos:
        offsets.append(size)
        count = info.dtype.itemsize
        for extent in info.shape_at(batch):
            count *= extent
        size += -(-count // alignment) * alignment
    size += alignment
    block = np.empty(size, np.uint8) if allocate is None else allocate(size)
    array = _array("allocate", block)
    if tuple(array.shape) != (size,) or array.dtype != np.uint8:
        raise FusionError(2, f"allocate: expected {size} of uint8, got "
                          f"{tuple(array.shape)} of {array.dtype}")
    (address,), _ = _addresses([array])
    skip = -(address or 0) % alignment
    results = {}
    for info, offset in zip(infos, offsets):
        shape, dtype = info.shape_at(batch), info.dtype
        count = dtype.itemsize
        for extent in shape:
            count *= extent
        if hasattr(block, "data_ptr"):
            dtype = getattr(sys.modules["torch"], _TORCH_NAMES[info.dtype_name])
        piece = block[skip + offset:skip + offset + count]
        results[info.name] = piece.view(dtype).reshape(shape)
    return results


def _array(what, value):
    if isinstance(value, _DeviceArray):
        return value
    device = _DeviceArray.of(what, value)
    return np.asarray(value) if device is None else device


def _receives(info, value, shape):
    """Whether results can be written straight to ``value``."""
    array = _array(f"output '{info.name}'", value)
    if array.shape != shape or array.dtype != info.dtype:
        return False
    if isinstance(array, _DeviceArray):
        return array.writeable
    # A copy that numpy made of something else would get lost.
    return (array is value and array.flags.c_contiguous
            and array.flags.writeable)


def _addresses(arrays):
    arrays = [_array("array", array) for array in arrays]
    return (
        (ctypes.c_void_p * len(arrays))(
            *(a.address if isinstance(a, _DeviceArray) else a.ctypes.data
              for a in arrays)),
        (ctypes.c_size_t * len(arrays))(*(a.nbytes for a in arrays)),
    )


def _check_names(kind, given, infos, complete):
    names = [info.name for info in infos]
    unknown = sorted(set(given) - set(names))
    absent = sorted(set(names) - set(given)) if complete else []
    if unknown or absent:
        raise FusionError(
            2, f"{kind}s: expected {names}"
            + (f", unknown {unknown}" if unknown else "")
            + (f", missing {absent}" if absent else ""))


def _match(info, array, batch):
    """The batch that ``array`` implies, checked against ``batch``."""
    expected = f"input '{info.name}': expected {info.dtype_name} {info.shape}"
    if array.dtype != info.dtype:
        raise FusionError(2, f"{expected}, got element type {array.dtype}")
    if array.ndim != len(info.dims):
        raise FusionError(2, f"{expected}, got shape {array.shape}")
    for (scale, base), size in zip(info.dims, array.shape):
        if scale == 0:
            good = size == base
        else:
            implied, rest = divmod(size - base, scale)
            good = rest == 0 and implied >= 1 and batch in (None, implied)
            batch = implied if good else batch
        if not good:
            raise FusionError(2, f"{expected}, got shape {array.shape}")
    return batch


def load(path):
    """Maps and verifies a module file."""
    handle = ctypes.c_void_p()
    _check(_rt().fusion_rt_module_load_file(os.fsencode(path), ctypes.byref(handle)))
    return Module(handle.value)


def load_bytes(data):
    """Verifies a module in memory (its bytes are copied)."""
    data = bytes(data)
    handle = ctypes.c_void_p()
    _check(_rt().fusion_rt_module_load_memory(data, len(data), ctypes.byref(handle)))
    return Module(handle.value)

# ===- device.py - Buffers of a GPU with guards around them ----------------=== #
#
# The driver's C interface through ctypes, as little of it as tests need: no
# framework has to be there.
#
# ===----------------------------------------------------------------------=== #
"""Arrays in a GPU's memory that notice writes beside them and missing writes."""

import ctypes

import numpy as np

GUARD = 256
POISON, FENCE = 0xCD, 0xA7


class Driver:
    def __init__(self, device=0):
        self.library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        if status != 0:
            text = ctypes.c_char_p()
            self.library.cuGetErrorString(status, ctypes.byref(text))
            raise RuntimeError(f"{name}: {text.value.decode() if text.value else status}")

    def allocate(self, size):
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(max(size, 1)))
        return pointer.value

    def free(self, pointer):
        self.call("cuMemFree_v2", ctypes.c_uint64(pointer))

    def fill(self, pointer, byte, size):
        if size:
            self.call("cuMemsetD8_v2", ctypes.c_uint64(pointer), ctypes.c_ubyte(byte), ctypes.c_size_t(size))

    def upload(self, pointer, array):
        if array.nbytes:
            self.call("cuMemcpyHtoD_v2", ctypes.c_uint64(pointer), ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes))

    def download(self, pointer, size):
        array = np.empty(size, np.uint8)
        if size:
            self.call("cuMemcpyDtoH_v2", ctypes.c_void_p(array.ctypes.data), ctypes.c_uint64(pointer), ctypes.c_size_t(size))
        return array

    def synchronize(self):
        self.call("cuCtxSynchronize")


class Buffer:
    """What the runtime takes as an array of the GPU."""

    def __init__(self, address, shape, dtype):
        self.address, self.shape, self.dtype = address, tuple(shape), np.dtype(dtype)
        self.nbytes = self.dtype.itemsize * int(np.prod(self.shape, dtype=np.int64))

    @property
    def __cuda_array_interface__(self):
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (self.address, False), "strides": None, "version": 2}


class Arena:
    """Arrays in one allocation, guards between them; or, `apart`, an allocation
    each, so that a memory checker knows their ends. `shift`: bytes that
    addresses are off a multiple of 256."""

    def __init__(self, driver, apart=False):
        self.driver, self.apart = driver, apart
        self.blocks, self.buffers = [], []

    def make(self, arrays, outputs, shift=lambda dtype: 0):
        """`arrays` by name; `outputs` are (shape, dtype) by name. Returns both as
        buffers."""
        wanted = [(name, array.shape, array.dtype, array) for name, array in arrays.items()]
        wanted += [(name, shape, np.dtype(dtype), None) for name, (shape, dtype) in outputs.items()]
        places, end = [], GUARD
        for name, shape, dtype, array in wanted:
            size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
            begin = end + shift(dtype)
            places.append((name, shape, dtype, array, size, begin))
            end = -(-(begin + size + GUARD) // 256) * 256
        if self.apart:
            made = {}
            for name, shape, dtype, array, size, _ in places:
                address = self.driver.allocate(size)
                self.blocks.append(address)
                made[name] = Buffer(address, shape, dtype)
                if array is not None:
                    self.driver.upload(address, array)
        else:
            base = self.driver.allocate(end)
            self.blocks.append(base)
            image = np.full(end, FENCE, np.uint8)
            made = {}
            for name, shape, dtype, array, size, begin in places:
                image[begin:begin + size] = POISON if array is None else array.reshape(-1).view(np.uint8)
                made[name] = Buffer(base + begin, shape, dtype)
            self.driver.upload(base, image)
            self.base, self.places, self.end, self.image = base, places, end, image
        return ({name: made[name] for name in arrays}, {name: made[name] for name in outputs})

    def read(self, buffers):
        """Arrays of the outputs, and what was written where nothing should be."""
        if self.apart:
            return {name: self.driver.download(b.address, b.nbytes).view(b.dtype).reshape(b.shape) for name, b in buffers.items()}, []
        now = self.driver.download(self.base, self.end)
        wrong, found = [], {}
        before = 0
        for name, shape, dtype, array, size, begin in self.places:
            if (now[before:begin] != self.image[before:begin]).any():
                wrong.append(f"bytes before {name} were overwritten")
            if array is not None and (now[begin:begin + size] != self.image[begin:begin + size]).any():
                wrong.append(f"the input {name} was overwritten")
            if name in buffers:
                found[name] = now[begin:begin + size].copy().view(dtype).reshape(shape)
            before = begin + size
        if (now[before:] != self.image[before:]).any():
            wrong.append(f"bytes behind {self.places[-1][0]} were overwritten")
        return found, wrong

    def release(self):
        self.driver.synchronize()
        for block in self.blocks:
            self.driver.free(block)
        self.blocks = []

# ===- test_bench_dnn.py - How fusion-bench asks cuDNN for plans ------------=== #
#
# With a cuDNN that only remembers descriptors: the graph's wiring, which configurations
# are planned, what a run hands over. Where cuDNN is installed it checks the operations
# itself, which takes no GPU.
#
# ===----------------------------------------------------------------------=== #
"""Enumeration of cuDNN's plans."""

from __future__ import annotations

import ctypes

import pytest

from fusion_compiler.bench import dnn, seed2
from fusion_compiler.errors import FusionError

CONV = dnn.Convolution((2, 16, 8, 6), (32, 16, 3, 3), 1, "f16")
GRAPH, HEURISTICS, PLAN, PACK = 15, 4, 5, 16


class FakeDnn:
    """Descriptors by number: kind and attributes. `named` configurations a mode; those in `refused` can't be built."""

    def __init__(self, named, refused=()):
        self.objects, self.named, self.refused, self.destroyed, self.runs = {}, named, refused, [], []
        self.configs = []

    def cudnnCreate(self, handle):
        handle._obj.value = 7
        return 0

    def cudnnSetStream(self, _handle, stream):
        self.stream = stream.value
        return 0

    def cudnnBackendCreateDescriptor(self, kind, descriptor):
        descriptor._obj.value = len(self.objects) + 1
        self.objects[descriptor._obj.value] = {"kind": kind, "final": False}
        return 0

    def cudnnBackendDestroyDescriptor(self, descriptor):
        self.destroyed.append(descriptor.value)
        return 0

    def cudnnBackendSetAttribute(self, descriptor, attribute, _type, count, values):
        assert not self.objects[descriptor.value]["final"], "a finished descriptor does not change"
        given = [values._obj.value] if hasattr(values, "_obj") else list(values)
        assert len(given) == count.value
        self.objects[descriptor.value][attribute] = given
        return 0

    def cudnnBackendFinalize(self, descriptor):
        made = self.objects[descriptor.value]
        if made["kind"] == HEURISTICS and not self.named.get(made[200][0]):
            return 3000
        if made["kind"] == PLAN and self.configs.index(made[401][0]) in self.refused:
            return 3000
        made["final"] = True
        return 0

    def cudnnBackendGetAttribute(self, descriptor, attribute, _type, _room, count, values):
        made = self.objects[descriptor.value]
        if attribute == 202:
            count._obj.value = self.named[made[200][0]]
            self.configs += list(values)[:count._obj.value]
        elif attribute == 402:
            values._obj.value = 4096
        return 0

    def cudnnBackendExecute(self, handle, plan, pack):
        self.runs.append((handle.value, self.objects[plan.value], self.objects[pack.value], self.stream))
        return 0


def test_sizes():
    assert CONV.y == (2, 32, 8, 6)
    assert dnn.Convolution((1, 4, 5, 7), (8, 4, 3, 1), 0, "f16").y == (1, 8, 3, 7)
    # Channels lie together, then columns, rows, images.
    assert dnn.channels_last((2, 16, 8, 6)) == (8 * 6 * 16, 1, 6 * 16, 16)


def test_graph_is_relu_of_sum_of_conv_and_bias():
    fake = FakeDnn({})
    conv, add, relu = (fake.objects[o.descriptor.value] for o in CONV.operations(dnn.Library(fake)))
    tensor = {name: fake.objects[made[key][0]] for name, made, key in (
        ("x", conv, 704), ("w", conv, 703), ("sum", conv, 705), ("bias", add, 752), ("biased", add, 753),
        ("y", relu, 753))}
    assert add[751] == conv[705] and relu[751] == add[753], "each takes what the one before gives"
    assert fake.objects[add[750][0]][0] == [0] and fake.objects[relu[750][0]][0] == [100]
    assert [tensor[name][902] for name in ("x", "w", "bias", "y")] == [
        [2, 16, 8, 6], [32, 16, 3, 3], [1, 32, 1, 1], [2, 32, 8, 6]]
    # f16 (2) in memory, f32 (0) between the operations; every name once.
    assert [tensor[name][901] for name in ("x", "w", "bias", "y", "sum", "biased")] == [[2]] * 4 + [[0]] * 2
    assert [name for name in tensor if 907 in tensor[name]] == ["sum", "biased"]
    assert sorted(made[906][0] for made in tensor.values()) == [1, 2, 3, 4, 5, 6]
    window = fake.objects[conv[702][0]]
    assert window[104] == window[105] == [1, 1] and window[103] == [1, 1]


def test_all_that_is_named_is_planned_and_runs():
    # Mode A (3) names three, B (1) knows no such graph, the fallback (2) names one; the second can't be built.
    fake = FakeDnn({3: 3, 2: 1}, refused=[1])
    library = dnn.Library(fake)
    plans, count = dnn.plans(library, CONV, 60)
    assert count == 4
    assert [plan.name for plan in plans] == ["cuDNN plan 1 of 4", "cuDNN plan 3 of 4", "cuDNN plan 4 of 4"]
    assert all(plan.workspace == 4096 for plan in plans)
    plans[2].enqueue(99, 100, 200, 300, 400, 500)
    handle, plan, pack, stream = fake.runs[0]
    assert handle == 7 and stream == 99 and plan[401] == [fake.configs[3]]
    assert dict(zip(pack[1000], pack[1001])) == {1: 100, 2: 200, 3: 300, 4: 400} and pack[1003] == [500]
    made = len(fake.objects)
    del plans, plan, pack
    assert len(set(fake.destroyed)) == made and len(fake.destroyed) == made, "every descriptor is given back once"


def test_planning_stops_in_time():
    ticks = iter([0, 1, 5, 11, 12])
    plans, count = dnn.plans(dnn.Library(FakeDnn({3: 4})), CONV, 10, lambda: next(ticks))
    assert count == 4 and [plan.name for plan in plans] == ["cuDNN plan 1 of 4", "cuDNN plan 2 of 4"]


def test_errors_name_the_entry():
    fake = FakeDnn({})
    fake.cudnnCreate = lambda _handle: 1001
    with pytest.raises(FusionError, match="cudnnCreate: status 1001"):
        dnn.Library(fake)
    assert dnn.plans(dnn.Library(FakeDnn({})), CONV, 10) == ([], 0)


def test_cudnn_takes_the_operations():
    try:
        entries = ctypes.CDLL("libcudnn.so.9")
    except OSError:
        pytest.skip("cuDNN is not installed")

    class WithoutGpu(dnn.Library):
        def __init__(self):
            self.entries, self.handle = entries, ctypes.c_void_p()

    for workload in seed2.workloads():
        if workload.name.startswith("conv"):
            n, height, width, channels = workload.inputs[0].shape
            conv = dnn.Convolution((n, channels, height, width), workload.weights[0].shape,
                                   workload.limit[1]["pad"], "f16")
            out = workload.results[0].shape
            assert conv.y == (out[0], out[3], out[1], out[2])
            assert len(conv.operations(WithoutGpu())) == 3
    with pytest.raises(FusionError, match="status"):
        dnn.Convolution((2, 16, 8, 6), (32, 16, 3, 3), -9, "f16").operations(WithoutGpu())

# ===- test_bench_counts.py - How fusion-bench counts kernels and bytes -----=== #
#
# With graphs, workers, a profiler and a driver that are made up: kernels and copies of
# graphs, bytes that cross the DRAM's pins, kernels in profiles. No GPU, no PyTorch.
#
# ===----------------------------------------------------------------------=== #
"""What fusion-bench counts outside of the compiler."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from conftest import BIN
from fusion_compiler.bench import dram, launched, nodes, seed2, worker, xla


class FakeGraphs:
    """The driver's questions about graphs, of graphs given as lists of node types or of a graph inside."""

    def __init__(self, graphs, fails=()):
        self.graphs, self.fails = graphs, fails

    def cuGraphGetNodes(self, graph, nodes, size):
        if "cuGraphGetNodes" in self.fails:
            return 1
        inside = self.graphs[graph.value]
        size._obj.value = len(inside)
        if nodes is not None:
            for i in range(len(inside)):
                nodes[i] = 1000 * graph.value + i + 1
        return 0

    def _node(self, node):
        return self.graphs[(node.value - 1) // 1000][(node.value - 1) % 1000]

    def cuGraphNodeGetType(self, node, kind):
        inside = self._node(node)
        kind._obj.value = 4 if isinstance(inside, tuple) else inside
        return 0

    def cuGraphChildGraphNodeGetGraph(self, node, child):
        child._obj.value = self._node(node)[0]
        return 0


def test_nodes_of_graphs_inside_graphs():
    # Kernels are 0, copies 1, fills 2, empty nodes 5, waits 6.
    driver = FakeGraphs({1: [0, 5, (2,), 1, 6], 2: [0, 0, 2, (3,)], 3: [], 4: []})
    assert nodes.count(driver, 1) == {"kernels": 3, "copies": 2}
    assert nodes.count(driver, 4) == {"kernels": 0, "copies": 0}
    with pytest.raises(nodes.Unreadable, match="cuGraphGetNodes"):
        nodes.count(FakeGraphs({1: [0]}, fails=["cuGraphGetNodes"]), 1)
    assert nodes.of_torch(SimpleNamespace()) is None


def test_launched_by_kind():
    kinds = [("X", "kernel"), ("X", "kernel"), ("X", "gpu_memcpy"), ("X", "gpu_memset"), ("X", "cuda_runtime"),
             ("X", "gpu_user_annotation"), ("i", "kernel"), ("M", None)]
    trace = {"traceEvents": [{"ph": ph, "cat": cat, "name": "k7"} for ph, cat in kinds]}
    assert launched.count(trace) == {"kernels": 2, "copies": 2}
    assert launched.count({}) == {"kernels": 0, "copies": 0}


# ---- workers -------------------------------------------------------------------


def test_what_workers_say():
    answers, facts = worker.answers_in(['{"version": "1"}', "a warning", '{"name": "a", "us": 1}', "[1]", "",
                                        '{"name": "a", "us": 2}', '{"failed": "late"}'])
    assert answers == [{"name": "a", "us": 1}, {"name": "a", "us": 2}]
    assert facts == {"version": "1", "failed": "late"}


@pytest.mark.parametrize("code, limit, answers, failed", [
    ("print('{\"name\": 1}')", 60, [{"name": 1}], None),
    ("print('{\"name\": 1}', flush=True); raise ValueError('no memory')", 60, [{"name": 1}], "ValueError: no memory"),
    ("print('{\"name\": 1}', flush=True); import time; time.sleep(60)", 2, [{"name": 1}], "stopped after 2 s"),
])
def test_workers_that_end_early_keep_what_they_said(code, limit, answers, failed, tmp_path):
    # `before` starts the worker; here it starts another program in its place.
    start = tmp_path / "start"
    start.write_text(f"#!{sys.executable}\n{code}\n")
    start.chmod(0o755)
    got, facts = worker.collect("none", [], limit, [str(start)])
    assert got == answers
    assert failed in facts["failed"] if failed else "failed" not in facts


# ---- counters -------------------------------------------------------------------

NCU = """==PROF== Connected to process 7
"ID","Process ID","Range Name","dram__bytes_read.sum","dram__bytes_write.sum"
"","","","byte","Kbyte"
"0","7","range","1,000","2"
"1","7","range","3000","4.5"
"""


def test_counters_are_read():
    assert dram.parse(NCU.splitlines(True)) == [(1000, 2000), (3000, 4500)]


@pytest.mark.parametrize("text, said", [
    ("==ERROR== ERR_NVGPUCTRPERM - no permission\n", "ERR_NVGPUCTRPERM"),
    ("==PROF== Connected\n", "no counters"),
    (NCU.replace("dram__bytes_write.sum", "other"), "no number of bytes for dram__bytes_write.sum"),
    (NCU.replace('"1,000"', '"n/a"'), "no number of bytes for dram__bytes_read.sum"),
])
def test_counters_that_are_not_there(text, said):
    with pytest.raises(dram.FusionError, match=said):
        dram.parse(text.splitlines(True))


def test_stretches_move_eight_gigabytes():
    assert dram.replays(1 << 30) == 8 and dram.replays(3 << 30) == 4 and dram.replays((1 << 33) - 1) == 4


def fake_ncu(tmp_path, script):
    """An ncu that runs `script`: LOG is where its table goes, ITEMS what the worker would run."""
    path = tmp_path / "ncu"
    path.write_text(f"#!{sys.executable}\nimport json, sys\nMODE = sys.argv[2]\n"
                    "LOG = sys.argv[sys.argv.index('--log-file') + 1]\n"
                    "ITEMS = sys.argv[sys.argv.index('fusion_compiler.bench.dram') + 2:]\n" + script)
    path.chmod(0o755)
    return str(path)


TABLE = """
def table(rows):
    with open(LOG, "w") as log:
        log.write('"ID","dram__bytes_read.sum","dram__bytes_write.sum"\\n"","byte","byte"\\n')
        for i, row in enumerate(rows):
            log.write(f'"{i}","{row[0]}","{row[1]}"\\n')
def ran():
    for item in ITEMS:
        print(json.dumps({"name": item}))
"""


def dram_of(tmp_path, script):
    workloads = [w for w in seed2.workloads() if w.name in ("chain-64x256x64", "transpose-8192", "adds-3x65536")]
    for workload in workloads:
        for variant in ("fast", "unfused"):
            (tmp_path / f"{workload.name}.{variant}.fsn").write_bytes(b"")
    return dram.measure_all(workloads, str(tmp_path), "librt.so", ["fast", "unfused"], fake_ncu(tmp_path, script), 60)


def test_stretches_by_row_and_variant(tmp_path):
    # The small row is not asked for; the chain runs 11 times, the transpose 16 times.
    rows, facts = dram_of(tmp_path, TABLE + """
assert MODE == "application-range" and "--profile-from-start" not in sys.argv
assert [item.rpartition("=")[2] for item in ITEMS] == ["11", "11", "16", "16"]
ran()
table([(11 * 536871936, 11 * 268435456), (11 * 10, 11 * 20), (16, 32), (48, 64)])
""")
    assert not facts and set(rows) == {"chain-64x256x64", "transpose-8192"}
    # Two maps and 256 numbers of 4 bytes read, a map written: what the row plans.
    assert rows["chain-64x256x64"]["fast"]["dram"] == {"read": 536871936, "written": 268435456, "by": "stretch",
                                                       "of_planned": 1.0}
    assert rows["transpose-8192"]["unfused"]["dram"]["written"] == 4


def test_kernels_where_there_are_no_stretches(tmp_path):
    rows, facts = dram_of(tmp_path, TABLE + """
if MODE == "kernel":
    assert "--profile-from-start" in sys.argv and len(ITEMS) == 1 and "chain-64x256x64.fast" in ITEMS[0]
    ran()
    table([(536871936, 268435456)] * 11)
else:
    open(LOG, "w").write("==ERROR== unknown mode\\n")
""")
    assert rows == {"chain-64x256x64": {"fast": {"dram": {"read": 536871936, "written": 268435456, "by": "kernel",
                                                          "of_planned": 1.0}}}}
    assert "unknown mode" in facts["failed"]


def test_no_counters_is_said(tmp_path):
    rows, facts = dram_of(tmp_path, "open(LOG, 'w').write('==ERROR== ERR_NVGPUCTRPERM\\n'); sys.exit(9)\n")
    assert not rows and "ERR_NVGPUCTRPERM" in facts["failed"] and "kernel by kernel" in facts["failed"]
    _rows, facts = dram.measure_all(seed2.workloads()[:1], str(tmp_path), "librt.so", ["fast"], "/none/ncu", 60)
    assert "no memory-bound row" in facts["failed"]
    (tmp_path / "transpose-8192.fast.fsn").write_bytes(b"")
    _rows, facts = dram.measure_all(seed2.workloads(), str(tmp_path), "librt.so", ["fast"], "/none/ncu", 60)
    assert "ncu not found, /none/ncu" in facts["failed"]


def test_replays_between_marks(tmp_path):
    """On the runtime's driver for tests, which has no marks: a module that only copies runs 3 times before the first
    and as often as asked before the second."""
    fake, library = BIN.parent / "runtime/tests/fake-cuda", BIN.parent / "lib/libfusion-rt.so"
    if not (fake / "libcuda.so.1").exists() or not library.exists():
        pytest.skip("the runtime's tests are not built")
    (tmp_path / "m.mlir").write_text(
        "func.func @main(%x: tensor<3x50xbf16>) -> tensor<3x50xbf16> {\n  return %x : tensor<3x50xbf16>\n}\n")
    subprocess.run([BIN / "fusion-compile", tmp_path / "m.mlir", "--target=cuda:sm_90", "-o", tmp_path / "m.fsn"],
                   check=True)
    script = f"""
from fusion_compiler import runtime
from fusion_compiler.bench import dram
marks, sessions, real = [], [], runtime.Module.session
def session(self, **options):
    sessions.append(real(self, **options))
    return sessions[-1]
runtime.Module.session = session
dram._Device.mark = lambda self, begin: marks.append((begin, sessions[-1].counters["runs"]))
assert dram.run_worker({str(library)!r}, [{str(tmp_path / "m.fsn")!r} + "=5", "/none/m.fsn=2"]) == 0
print(marks)
"""
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False,
                            env={**worker.environment(), "LD_LIBRARY_PATH": str(fake)})
    assert answer.returncode == 0, answer.stderr
    lines = answer.stdout.splitlines()
    assert json.loads(lines[0]) == {"name": str(tmp_path / "m.fsn")} and "/none/m.fsn" in json.loads(lines[1])["failed"]
    assert lines[2] == "[(True, 3), (False, 8)]"


def test_xla_sums_the_kernels_of_streams():
    def line(name, *durations, copy=0):
        events = [SimpleNamespace(name="fusion_3", duration_ns=d) for d in durations]
        return SimpleNamespace(name=name, events=events + [SimpleNamespace(name="MemcpyD2D", duration_ns=copy)] * bool(
            copy))

    planes = [SimpleNamespace(name="/host:CPU", lines=[line("Stream #1", 1000)]),
              SimpleNamespace(name="/device:GPU:0", lines=[line("Stream #7(Compute)", 3000, 4000, copy=1000),
                                                           line("XLA Ops", 80)])]
    assert xla.device_events(planes, runs=2) == {"us": 4.0, "launched": {"kernels": 1.0, "copies": 0.5}}
    assert xla.device_events(planes[:1], runs=4) is None

"""The Python binding on tensors of PyTorch that are on the GPU.

In place, at addresses that need a copy, on a stream and in a graph that PyTorch captures,
against the reference; a tensor that does not fit is an error. Skipped where PyTorch sees no GPU.
"""

import os
import sys
from pathlib import Path

import numpy as np

from _gpu import BIN, main, run

BATCHES = (1, 5, 64)
MODEL = """
func.func @main(%x: tensor<?x256xf32> {fusion.name = "x"}, %w: tensor<256xf32> {fusion.name = "w"})
    -> (tensor<?x256xf32> {fusion.name = "y"}, tensor<?xf32> {fusion.name = "s"})
    attributes {fusion.batch = array<i64: 1, 64>} {
  %0 = fusion.broadcast %w dims = [1] {batch_scale = 1 : i64} : tensor<256xf32> to tensor<?x256xf32>
  %1 = fusion.mul %x, %0 : tensor<?x256xf32>
  %2 = fusion.relu %1 : tensor<?x256xf32>
  %3 = fusion.reduce sum, %2 dims = [1] : tensor<?x256xf32>
  return %2, %3 : tensor<?x256xf32>, tensor<?xf32>
}
"""


def prepare(folder):
    (folder / "m.mlir").write_text(MODEL)
    run("fusion-compile", "m.mlir", "--target=cuda:sm_90", "-o", "m.fsn", cwd=folder)
    random = np.random.default_rng(3)
    np.save(folder / "w.npy", random.integers(-4, 5, 256).astype("f4"))
    for batch in BATCHES:
        np.save(folder / f"x{batch}.npy", random.integers(-4, 5, (batch, 256)).astype("f4"))
        run("fusion-interpret", "m.mlir", "--input", f"x=x{batch}.npy", "--input", "w=w.npy",
            "--output-dir", f"expected{batch}", cwd=folder)


def check(folder, checks):
    try:
        import torch
    except ImportError:
        return checks.skip("tensors of PyTorch", "no PyTorch")
    if not torch.cuda.is_available():
        return checks.skip("tensors of PyTorch", "it sees no GPU")
    sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python"))
    from fusion_compiler import runtime
    runtime.use_library(os.environ.get("FUSION_RT") or BIN.parent / "lib/libfusion-rt.so")
    session = runtime.load(str(folder / "m.fsn")).session(trust="all")
    weights = torch.from_numpy(np.load(folder / "w.npy")).cuda()
    for batch in BATCHES:
        x = torch.from_numpy(np.load(folder / f"x{batch}.npy")).cuda()
        expected = {name: np.load(folder / f"expected{batch}/{name}.npy") for name in ("y", "s")}

        def equal(results):
            return all((np.asarray(results[n].cpu() if hasattr(results[n], "cpu") else results[n])
                        == expected[n]).all() for n in expected)

        def empty():
            return {"y": torch.full((batch, 256), -7.0, device="cuda"),
                    "s": torch.full((batch,), -7.0, device="cuda")}

        results = session.run({"x": x, "w": weights})
        checks.check(f"batch {batch}: results on the host", equal(results))
        results = empty()
        session.run({"x": x, "w": weights}, results)
        checks.check(f"batch {batch}: results in place", equal(results))
        # One float further: no multiple of 16 bytes.
        shifted = torch.empty(x.numel() + 1, device="cuda")[1:].view_as(x)
        shifted.copy_(x)
        results = empty()
        session.run({"x": shifted, "w": weights.cpu().numpy()}, results)
        checks.check(f"batch {batch}: another alignment, mixed places", equal(results))
        results, stream = empty(), torch.cuda.Stream()
        with torch.cuda.stream(stream):
            twice = x * 2
            halved = twice / 2  # must be done before the run, on the same stream
            session.enqueue({"x": halved, "w": weights}, results, stream.cuda_stream)
            after = {name: value + 1 for name, value in results.items()}
        stream.synchronize()
        checks.check(f"batch {batch}: on a stream, in order", equal(results)
                     and equal({name: value - 1 for name, value in after.items()}))
        capture(torch, session, batch, x, weights, empty(), equal, checks)
    # 3 is no batch of the runs above: what it needs can't be made in a capture.
    x, results = torch.zeros(3, 256, device="cuda"), {"y": torch.empty(3, 256, device="cuda"),
                                                      "s": torch.empty(3, device="cuda")}
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        filler = x + 1  # a graph of nothing is not replayed
        try:
            session.enqueue({"x": x, "w": weights}, results, torch.cuda.current_stream().cuda_stream)
            code, said = 0, ""
        except runtime.FusionError as error:
            code, said = error.code, str(error)
    graph.replay()
    torch.cuda.synchronize()
    checks.check("a batch that was not prepared", code == 2 and "not prepared for batch 3" in said
                 and bool((filler == 1).all()), f"code {code}: {said}")
    for name, bad in (("not contiguous", torch.zeros(256, 4, device="cuda").t()),
                      ("another type", torch.zeros(4, 256, device="cuda", dtype=torch.float64)),
                      ("another shape", torch.zeros(4, 255, device="cuda"))):
        try:
            session.run({"x": bad, "w": weights})
            code = 0
        except runtime.FusionError as error:
            code = error.code
        checks.check(f"a tensor that is {name}", code == 2, f"code {code}")


def capture(torch, session, batch, x, weights, results, equal, checks):
    """A run between two ops of PyTorch, twice in one graph, without a run before it; replayed with other numbers."""
    session.prepare(batch)
    source, graph = torch.zeros_like(x), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(2):
            session.enqueue({"x": source * 1, "w": weights}, results, torch.cuda.current_stream().cuda_stream)
            after = {name: value + 1 for name, value in results.items()}
    graph.replay()
    torch.cuda.synchronize()
    zero = all(bool((value == 0).all()) for value in results.values())
    source.copy_(x)
    for value in results.values():
        value.fill_(-7)
    graph.replay()
    torch.cuda.synchronize()
    checks.check(f"batch {batch}: in a graph of PyTorch's", zero and equal(results)
                 and equal({name: value - 1 for name, value in after.items()}))


if __name__ == "__main__":
    raise SystemExit(main(prepare, check))

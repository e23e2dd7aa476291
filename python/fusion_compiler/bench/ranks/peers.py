# ===- peers.py - PyTorch on several GPUs, taking turns with ours --------------=== #
#
# `python -m fusion_compiler.bench.ranks.peers RANKS SOCKET SET...` starts a process a rank.
# Each connects to the socket as a module of ours does (job.py) and answers
#
#   open NAME        builds a contender: {"seconds": S}, or {"error": TEXT}
#   time NAME COUNT  {"us": [...]}, by events around replays, the ranks behind a barrier
#   close            gives back what all of them hold: {}
#   about            versions
#
# Sets: `train LAYERS HIDDEN HEADS VOCAB SEQ BATCH`, `behind M N K PRODUCTS BUCKETS ELEMENTS
# EARLY`, `gather M K N`. What they hold: a GPT's step alone, with DDP (op by op, captured,
# compiled and captured) and FSDP2; all-reduces beside products by NCCL and by copy
# engines; a gather and a product in turn and by PyTorch's fused op.
#
# ===----------------------------------------------------------------------=== #
"""The peers of rows on several GPUs: a worker a rank."""

from __future__ import annotations

import gc
import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Callable, Iterator, Optional, Sequence

from .programs import turns

#: A timed batch lasts at least as long, if 100 replays do: as fusion-run has it.
_BATCH_US = 2000.0


@dataclass
class Work:
    """A contender: `run` queues it once; `host`: op by op, by the host; `spin`: behind a kernel that spins until all
    of it is queued."""

    run: Callable[[], object]
    host: bool = False
    spin: bool = False


class Rank:
    """PyTorch on this rank's GPU."""

    def __init__(self, rank: int):
        os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "0"
        import torch
        import torch.distributed as dist
        torch.cuda.set_device(rank)
        dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
        self.torch, self.dist, self.rank, self.size = torch, dist, rank, dist.get_world_size()

    def capture(self, run: Callable[[], object], warm: int = 3) -> Callable[[], None]:
        """Replays what `run` queues as one graph. DDP wants 11 runs before that."""
        torch = self.torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(warm):
                run()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            run()

        def replay() -> None:
            graph.replay()

        # The graph knows the addresses of what `run` holds, and keeps none of it alive.
        replay.holds = run  # type: ignore[attr-defined]
        return replay

    def time(self, work: Work, count: int) -> list[float]:
        torch = self.torch
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

        def batch(replays: int) -> float:
            self.dist.barrier()
            torch.cuda.synchronize()
            if work.spin:
                torch.cuda._sleep(4000000)
            begin.record()
            for _ in range(replays):
                work.run()
            end.record()
            torch.cuda.synchronize()
            return begin.elapsed_time(end) * 1e3 / replays

        batch(1)
        each = batch(3)
        # All ranks replay as often, though each has measured another time.
        agreed = torch.tensor([each], device="cuda")
        self.dist.all_reduce(agreed, op=self.dist.ReduceOp.MAX)
        replays = 1 if work.spin else max(1, min(100, int(_BATCH_US / max(float(agreed), 1.0))))
        for _ in range(3):
            batch(replays)
        return [batch(replays) for _ in range(count)]


def _train(on: Rank, layers: int, hidden: int, heads: int, vocab: int, seq: int, batch: int) -> dict[str, Callable]:
    torch = on.torch
    nn, F = torch.nn, torch.nn.functional
    from torch.nn.parallel import DistributedDataParallel as DDP

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.l1, self.l2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
            self.qkv, self.o = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
            self.f1, self.f2 = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

        def forward(self, x):
            b, t, d = x.shape
            q, k, v = self.qkv(self.l1(x)).view(b, t, 3, heads, d // heads).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d)
            x = x + self.o(y)
            return x + self.f2(F.gelu(self.f1(self.l2(x)), approximate="tanh"))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.e, self.p = nn.Embedding(vocab, hidden), nn.Embedding(seq, hidden)
            self.b = nn.ModuleList(Block() for _ in range(layers))
            self.n, self.head = nn.LayerNorm(hidden), nn.Linear(hidden, vocab, bias=False)

        def forward(self, ids):
            x = self.e(ids) + self.p(torch.arange(ids.shape[1], device=ids.device))
            for block in self.b:
                x = block(x)
            return self.head(self.n(x))

    torch.manual_seed(on.rank)
    ids = torch.randint(0, vocab, (batch, seq), device="cuda")

    def model():
        torch.manual_seed(0)
        return Gpt().cuda().to(torch.bfloat16)

    def loss_of(m):
        out = m(ids)
        return F.cross_entropy(out.float().view(-1, out.size(-1)), ids.view(-1))

    def captured(wrap: Callable) -> Work:
        torch._dynamo.reset()
        with torch.cuda.stream(torch.cuda.Stream()):
            m = wrap(model())
        optimizer = torch.optim.AdamW(m.parameters(), fused=True, capturable=True)

        def step():
            loss_of(m).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)

        return Work(on.capture(step, warm=14))

    def queued(wrap: Callable) -> Work:
        m = wrap(model())
        optimizer = torch.optim.AdamW(m.parameters(), fused=True)

        def step():
            optimizer.zero_grad(set_to_none=True)
            loss_of(m).backward()
            optimizer.step()

        return Work(step, host=True)

    def ddp(cap: int, inner: Callable = lambda m: m) -> Callable:
        return lambda m: DDP(inner(m), device_ids=[on.rank], bucket_cap_mb=cap, gradient_as_bucket_view=True)

    def fsdp(m):
        from torch.distributed.fsdp import fully_shard
        for block in m.b:
            fully_shard(block)
        fully_shard(m)
        return m

    made: dict[str, Callable[[], Work]] = {
        "one eager+graph": lambda: captured(lambda m: m),
        "one compiled+graph": lambda: captured(torch.compile),
        "fsdp2 eager": lambda: queued(fsdp),
    }
    for cap in (25, 100):
        made[f"ddp {cap} eager"] = lambda cap=cap: queued(ddp(cap))
        made[f"ddp {cap} eager+graph"] = lambda cap=cap: captured(ddp(cap))
        made[f"ddp {cap} compiled+graph"] = lambda cap=cap: captured(ddp(cap, torch.compile))
    return made


def _behind(on: Rank, m: int, n: int, k: int, products: int, buckets: int, elements: int, early: int) -> dict[str, Callable]:
    torch, dist = on.torch, on.dist
    import torch.distributed._symmetric_memory as symmetric
    a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(k, n, device="cuda", dtype=torch.bfloat16) * k ** -0.5
    out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    side = torch.cuda.Stream(priority=torch.cuda.Stream.priority_range()[1])
    due = turns(products, buckets, bool(early))
    group = dist.group.WORLD.group_name
    tensors: list = []
    handles: list = []

    def multiply():
        for _ in range(products):
            torch.mm(a, b, out=out)

    def ready() -> None:
        if not tensors:
            tensors.extend(symmetric.empty(elements, device="cuda", dtype=torch.bfloat16).normal_() for _ in range(buckets))

    # Means, not sums: numbers that grow from run to run end as infinities, and those cost less power.
    def by_nccl(j: int) -> None:
        dist.all_reduce(tensors[j], op=dist.ReduceOp.AVG)

    def by_copies() -> Callable[[int], None]:
        """Two ranks: my half of the other's is copied here and added, the other half copied back whole."""
        if on.size != 2:
            raise RuntimeError("by copy engines: written for two ranks")
        ready()
        if not handles:
            handles.extend(symmetric.rendezvous(tensor, group) for tensor in tensors)
        half, rank = elements // 2, on.rank
        landing = torch.empty(half, device="cuda", dtype=torch.bfloat16)
        mine, theirs = slice(rank * half, (rank + 1) * half), slice((1 - rank) * half, (2 - rank) * half)

        def reduce(j: int) -> None:
            handle, tensor = handles[j], tensors[j]
            other = handle.get_buffer(1 - rank, (elements,), torch.bfloat16)
            handle.barrier(channel=0)
            landing.copy_(other[mine])
            tensor[mine].lerp_(landing, 0.5)
            handle.barrier(channel=1)
            tensor[theirs].copy_(other[theirs])
            handle.barrier(channel=2)

        return reduce

    def alone(make: Callable[[], Callable]) -> Work:
        reduce = make()
        return Work(lambda: [reduce(j) for j in range(buckets)], spin=True)

    def beside(make: Callable[[], Callable]) -> Work:
        reduce = make()

        def run():
            current = torch.cuda.current_stream()
            for i in range(products):
                torch.mm(a, b, out=out)
                for j in due.get(i, ()):
                    side.wait_stream(current)
                    with torch.cuda.stream(side):
                        reduce(j)
            current.wait_stream(side)

        return Work(run, spin=True)

    def nccl() -> Callable:
        ready()
        return by_nccl

    return {"products": lambda: Work(multiply, spin=True), "all_reduce": lambda: alone(nccl),
            "all_reduce beside": lambda: beside(nccl), "copy engine": lambda: alone(by_copies),
            "copy engine beside": lambda: beside(by_copies)}


def _gather(on: Rank, m: int, k: int, n: int) -> dict[str, Callable]:
    torch, dist = on.torch, on.dist
    a = torch.randn(m // on.size, k, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(k, n, device="cuda", dtype=torch.bfloat16) * k ** -0.5
    full = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
    out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    group = dist.group.WORLD.group_name

    def gather():
        dist.all_gather_into_tensor(full, a)

    def serial():
        gather()
        torch.mm(full, w, out=out)

    def fused() -> Work:
        import torch.distributed._symmetric_memory as symmetric
        symmetric.enable_symm_mem_for_group(group)
        # It allocates and meets on the host: not to be captured.
        return Work(lambda: torch.ops.symm_mem.fused_all_gather_matmul(a, [w], 0, group), spin=True)

    return {"serial": lambda: Work(on.capture(serial)), "product": lambda: Work(on.capture(lambda: torch.mm(full, w, out=out))),
            "gather": lambda: Work(on.capture(gather)), "fused_all_gather_matmul": fused}


_SETS = {"train": _train, "behind": _behind, "gather": _gather}


def answer(request: str, made: dict[str, Callable], opened: dict[str, Work], on) -> dict:
    """What a request gets. A contender that fails is that contender's error."""
    word, _, rest = request.partition(" ")
    try:
        if word == "open":
            begin = time.monotonic()
            opened[rest] = made[rest]()
            on.torch.cuda.synchronize()
            return {"seconds": round(time.monotonic() - begin, 1)}
        if word == "time":
            name, _, count = rest.rpartition(" ")
            return {"us": on.time(opened[name], int(count)), "host": opened[name].host}
        if word == "close":
            opened.clear()
            gc.collect()
            on.torch.cuda.empty_cache()
            return {}
        if word == "about":
            torch = on.torch
            return {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda,
                    "nccl": ".".join(map(str, torch.cuda.nccl.version()))}
        return {"error": f"unknown request {word!r}"}
    except Exception as error:  # noqa: BLE001 - torch.compile and DDP raise what they like
        said = (str(error).strip().splitlines() or [""])[0]
        return {"error": f"{type(error).__name__}: {said}"[:300]}


def _lines(connection: socket.socket) -> Iterator[str]:
    with connection.makefile("r") as file:
        for line in file:
            yield line.rstrip("\n")


def _work(path: str, words: Sequence[str]) -> None:
    rank = int(os.environ["RANK"])
    on = Rank(rank)
    made = _SETS[words[0]](on, *map(int, words[1:]))
    opened: dict[str, Work] = {}
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.sendall(f"rank {rank}\n".encode())
        for line in _lines(connection):
            connection.sendall((json.dumps(answer(line, made, opened, on)) + "\n").encode())
    # A destructor of NCCL may wait for a rank that has gone.
    os._exit(0)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def command(ranks: int, words: Sequence[str], path: str) -> list[str]:
    """The command of a peer set, for a Job."""
    return [sys.executable, "-m", __name__ if __name__ != "__main__" else "fusion_compiler.bench.ranks.peers",
            str(ranks), path, *words]


def main(arguments: Optional[Sequence[str]] = None) -> int:
    ranks, path, *words = list(sys.argv[1:] if arguments is None else arguments)
    if "RANK" in os.environ and os.environ.get("FUSION_BENCH_PEER") == "1":
        _work(path, words)
        return 0
    port = _free_port()
    processes = []
    for rank in range(int(ranks)):
        environment = {**os.environ, "FUSION_BENCH_PEER": "1", "RANK": str(rank), "LOCAL_RANK": str(rank),
                       "WORLD_SIZE": ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        processes.append(subprocess.Popen([sys.executable, "-m", "fusion_compiler.bench.ranks.peers", ranks, path, *words],
                                          env=environment, stdin=subprocess.DEVNULL))
    # One that fails would leave the others waiting.
    while all(process.poll() is None for process in processes):
        time.sleep(0.2)
    late = time.monotonic() + 5
    while any(process.poll() is None for process in processes) and time.monotonic() < late:
        time.sleep(0.1)
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.wait()
    return max(process.returncode != 0 for process in processes)


if __name__ == "__main__":
    sys.exit(main())

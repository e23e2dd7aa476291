#!/usr/bin/env python3
"""Ranks that die, stop, disagree or never come: the job ends, and says who did.

Each case runs real processes with limits of 2 s, and asserts the exit code, the time
until the last process has gone, what the first line of stderr names, that the old
output is intact, and that nothing is left behind: no process, nothing in /dev/shm or
or in the folder for temporary files.

`soak N` sends signals at random moments to N endless jobs instead.
"""

import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from _support import BIN, Checks  # noqa: E402

checks = Checks()
LIMITS = ["--collective-timeout", "2", "--init-timeout", "2", "--threads", "1"]
RUN = [str(BIN / "fusion-run")]


class Folder:
    """A fresh folder with the modules, an old output, and TMPDIR."""

    def __init__(self, path):
        self.path = Path(path)
        self.temporary = self.path / "tmp"
        self.temporary.mkdir()
        for name, kind in (("four", "overlap:4:100000:50"), ("two", "overlap:2:100000:50"),
                           ("other", "overlap:2:100000:49"), ("short", "overlap:4:1000:2"),
                           ("long", "overlap:4:400000:200"), ("eight", "overlap:8:20000:20"), ("spin", "spin:4")):
            subprocess.run([BIN / "fusion-test-module", kind, self.path / f"{name}.fsn"], check=True)
        self.old = self.path / "out/rank0/y.npy"
        self.old.parent.mkdir(parents=True)
        self.old.write_bytes(b"old")
        self.sharedMemory = set(os.listdir("/dev/shm"))

    def environment(self, **more):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "SLURM_", "MASTER_"))}
        for name in ("RANK", "WORLD_SIZE"):
            kept.pop(name, None)
        return {**kept, "TMPDIR": str(self.temporary), **more}

    def processes(self):
        """Processes that run a module of this folder."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    line = (entry / "cmdline").read_bytes()
                    state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
                except OSError:
                    continue
                if str(self.path).encode() in line and b"fusion-run" in line and state != "Z":
                    found.append(int(entry.name))
        return found

    def ranks(self, launcher):
        """The launcher's children, in the order of their ranks."""
        children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
        return sorted(map(int, children))

    def leftOver(self):
        """What a job left behind, as text."""
        left = [f"process {p}" for p in self.processes()]
        left += [f"/dev/shm/{n}" for n in set(os.listdir("/dev/shm")) - self.sharedMemory
                 if n.startswith(("fusion", "gloo"))]
        left += [str(p) for p in self.temporary.iterdir()]
        outputs = sorted(str(p.relative_to(self.path)) for p in (self.path / "out").rglob("*.npy"))
        if outputs != ["out/rank0/y.npy"] or self.old.read_bytes() != b"old":
            left.append(f"outputs {outputs}")
        return ", ".join(left)


def start(folder, module, *flags, ranks=4, **options):
    # Shells start background jobs with SIGINT ignored, which would be inherited.
    options.setdefault("preexec_fn", lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    return subprocess.Popen(
        [*RUN, folder.path / f"{module}.fsn", "--trust=all", "--ranks", str(ranks), "--random-inputs", "1",
         *LIMITS, *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=folder.environment(), **options)


def finish(folder, name, process, began, code, bound, names):
    """Waits for a job and asserts all that must hold after it."""
    try:
        output, errors = process.communicate(timeout=bound + 20)
    except subprocess.TimeoutExpired:
        process.kill()
        for rank in folder.processes():
            os.kill(rank, signal.SIGKILL)
        checks.check(name, False, f"hung: {process.communicate()[1]}")
        return ""
    took = time.monotonic() - began
    first = errors.split("\n")[0]
    problems = []
    codes = code if isinstance(code, tuple) else (code,)
    if process.returncode not in codes:
        problems.append(f"exit code {process.returncode}, not {code}")
    if took > bound:
        problems.append(f"{took:.2f} s, not {bound}")
    if process.returncode != 0 and not first.startswith("error: "):
        problems.append("the first line is no error")
    problems += [f"the first line lacks '{text}'" for text in names if text not in first]
    if left := folder.leftOver():
        problems.append(f"left behind: {left}")
    checks.check(name, not problems, f"{took:.2f} s  {'; '.join(problems)}" +
                 (f"  stderr: {errors[:600]}" if problems else ""))
    return errors


def case(folder, name, flags, code, bound, names=(), module="four", ranks=4, hasRun=False):
    """A job with injected faults; none writes outputs unless all ranks have run."""
    began = time.monotonic()
    out = folder.path / ("good" if code == 0 or hasRun else "out")
    process = start(folder, module, *flags, "--output-dir", out, ranks=ranks)
    errors = finish(folder, name, process, began, code, bound, names)
    if hasRun:
        shutil.rmtree(out)
    if code == 0:
        files = sorted(str(p.relative_to(out)) for p in out.rglob("*.npy"))
        checks.check(f"{name}: outputs", files == sorted(f"rank{r}/{p}.npy" for r in range(ranks) for p in "gy"),
                     f"{files}" if len(files) != 2 * ranks else "")
        shutil.rmtree(out)
    return errors


def inject(*faults):
    return [word for fault in faults for word in ("--inject", fault)]


def fromOutside(folder, name, act, code, bound, names, timed=True):
    """A long job to which `act(launcher, ranks)` does something while it runs."""
    process = start(folder, "long", "--bench", "100000")
    deadline = time.monotonic() + 10
    ready = False
    while not ready and time.monotonic() < deadline:
        time.sleep(0.05)
        try:
            ranks = folder.ranks(process.pid)
            ready = len(ranks) == 4 and len(os.listdir(f"/proc/{ranks[0]}/task")) >= 3
        except OSError:
            pass
    time.sleep(0.3)
    began = time.monotonic()
    act(process.pid, ranks)
    if timed:
        finish(folder, name, process, began, code, bound, names)
    return process, began


def deaths(folder):
    for rank in (1, 0):
        fromOutside(folder, f"F{2 - rank} rank {rank} is killed from outside",
                    lambda _, ranks, rank=rank: os.kill(ranks[rank], signal.SIGKILL), 7, 5,
                    [f"rank {rank} was killed by signal 9"])
        case(folder, f"F{2 - rank} rank {rank} dies in a collective", inject(f"{rank}:kill:7"), 7, 5,
             [f"rank {rank} was killed by signal 9", "'collective17' (all_reduce)"])

    def killLauncher(launcher, _):
        os.kill(launcher, signal.SIGKILL)

    process, began = fromOutside(folder, "F3", killLauncher, -9, 3, [], timed=False)
    process.wait()
    while folder.processes() and time.monotonic() - began < 10:
        time.sleep(0.05)
    took = time.monotonic() - began
    process.communicate()
    checks.check("F3 the launcher is killed", took < 3 and not folder.leftOver(), f"{took:.2f} s")
    for kind, number in (("segv", 11), ("abort", 6), ("throw", 6)):
        case(folder, f"F6 a rank ends by {kind}", inject(f"2:{kind}:5"), 7, 5, [f"rank 2 was killed by signal {number}"])
    case(folder, "F7 a rank exits with 0", inject("3:exit:20"), 7, 5, ["rank 3 ended with exit code 0"])
    case(folder, "F8 two ranks die at once", inject("1:kill:9", "2:kill:9"), 7, 6, ["was killed by signal 9"])
    case(folder, "F8 a rank dies while the job ends because of another", inject("1:fail:9", "2:deaf", "2:kill:10"),
         5, 6, ["rank 1", "the library failed"])
    # All have run by then: each file is complete or absent.
    case(folder, "F8 a rank dies at the end", inject("2:end-kill"), 7, 6, ["rank 2 was killed by signal 9"],
         hasRun=True)
    case(folder, "F20 a control socket is cut", inject("2:cut:6"), 7, 3, ["rank 2", "control socket"])


def stuck(folder):
    fromOutside(folder, "F4 a rank is stopped from outside",
                lambda _, ranks: os.kill(ranks[2], signal.SIGSTOP), 8, 7, ["rank 2 stands still"])
    case(folder, "F4 a rank stops in a collective", inject("2:stop:7"), 8, 7, ["rank 2 stands still", "(all_reduce)"])
    case(folder, "F5 a rank skips a collective", inject("1:skip:7"), 8, 7, ["ranks disagree", "command 17", "command 19"])
    case(folder, "F5 a rank brings another count", inject("1:count:7"), 8, 7, ["ranks disagree", "99999", "100000"])
    errors = case(folder, "F9 a slow rank", inject("1:slow:1300"), 0, 10, module="short")
    checks.check("F9 there is a warning at half of the limit", "half of" in errors, errors[:60])
    case(folder, "F10 a rank never joins", inject("3:start-hang"), 8, 7, ["1 of 4 ranks missing: rank 3"])
    case(folder, "F10 a rank never gets ready", inject("3:load-hang"), 8, 7, ["rank 3 did not prepare"])
    case(folder, "F12 a rank does not end when told to", inject("1:fail:4", "2:deaf"), 5, 5, ["rank 1"])
    case(folder, "F13 an error comes while a collective hangs", inject("1:async:4"), 5, 5, ["rank 1", "beside"])
    case(folder, "F13 a rank hangs at the end", inject("1:end-hang"), 8, 8,
         ["rank 1 has run its program and not ended"], hasRun=True)

    case(folder, "F13 a rank's process takes long to end", inject("1:exit-linger"), 0, 6)

    # All processes stand still for longer than the limit: nobody is late.
    def suspend(launcher, ranks):
        for process in (launcher, *ranks):
            os.kill(process, signal.SIGSTOP)
        time.sleep(3)
        for process in (launcher, *ranks):
            os.kill(process, signal.SIGCONT)
        time.sleep(1)
        os.kill(launcher, signal.SIGINT)

    fromOutside(folder, "F42 a suspended machine; then an interrupt", suspend, 130, 8, ["interrupted"])


    case(folder, "F37 a kernel of a rank never ends", ["--op-timeout", "1"], 8, 6, ["rank ", "--op-timeout"],
         module="spin")


def errors(folder):
    for number in (1, 2):
        case(folder, f"F11 call {number} of a library fails", inject(f"1:fail:{number}"), 5, 5,
             ["rank 1", "the library failed"], module="short")
        case(folder, f"F11 call {number} says that another rank is gone", inject(f"1:lost:{number}"), 7, 5,
             ["rank 1", "a remote error"], module="short")
    case(folder, "F11 a communicator does not start", inject("2:load-fail"), 5, 5, ["rank 2", "did not start"])
    for kind in ("module", "schedule"):
        case(folder, f"F15 another {kind} on one rank", inject(f"2:{kind}"), 4, 2,
             [f"{kind}: ranks 0, 1, 3 have", "rank 2 has injected"])
    case(folder, "F16 another version on one rank", inject("2:runtime"), 4, 2, ["runtime: ranks 0, 1, 3 have"])
    case(folder, "F17 one device for two ranks", inject("2:device"), 2, 2, ["have one device"])
    # Several times: the rank ends as soon as it is refused, perhaps before the
    # launcher has looked for what ends the job.
    for run in range(1, 11):
        for name, kind, text in (("a rank of another number of ranks", "ranks:5", "is one of 5, this job has 4"),
                                 ("a rank twice", "rank:1", "joined twice"),
                                 ("a rank that is too large", "rank:4", "rank '4' joined a job of 4")):
            case(folder, f"F14 {name}, run {run}", inject(f"2:{kind}"), 4, 2, [text])
    case(folder, "a wrong number of ranks", [], 2, 2, ["the module is for 4 ranks, --ranks gives 3"], ranks=3)

    # The program without the library that connects ranks.
    alone = folder.path / "alone"
    alone.mkdir()
    shutil.copy(BIN / "fusion-run", alone)
    global RUN
    RUN, kept = [str(alone / "fusion-run")], RUN
    case(folder, "F46 Gloo is missing", [], 5, 5, ["libfusion-gloo.so", "libgloo0"])
    RUN = kept


def limited(limit, value):
    return lambda: resource.setrlimit(limit, (value, value))


def resources(folder):
    for name, limit, value, code in (
            ("F43 no descriptors left", resource.RLIMIT_NOFILE, 12, 6),
            ("F43 a tiny stack", resource.RLIMIT_STACK, 256 << 10, (0, 6))):
        began = time.monotonic()
        process = start(folder, "short", preexec_fn=limited(limit, value))
        finish(folder, name, process, began, code, 5, [])
    # The limit does not hold for root: as nobody, if that user can read the files.
    def asNobody(processes):
        if os.getuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        limited(resource.RLIMIT_NPROC, processes)()

    folder.path.chmod(0o755)
    user = os.getuid() or 65534
    here = 0
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and entry.stat().st_uid == user:
                here += len(os.listdir(entry / "task"))
        except OSError:
            pass
    # The launcher and its ranks fit, but not all of their threads.
    try:
        for name, processes, text in (("processes", here + 1, "the process of rank"), ("threads", here + 6, "can't ")):
            began = time.monotonic()
            process = start(folder, "short", preexec_fn=lambda n=processes: asNobody(n))
            finish(folder, f"F43 no {name} left", process, began, 6, 4, [text])
    except OSError as error:
        checks.skip("F43 no processes left", str(error))

    # 8 ranks on few cores, under load.
    stop = threading.Event()
    load = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    bad = []
    for i in range(20):
        began = time.monotonic()
        process = start(folder, "eight", ranks=8)
        output, errors = process.communicate(timeout=60)
        if process.returncode != 0:
            bad.append(f"{i}: {process.returncode} {errors[:300]}")
    stop.set()
    for process in load:
        process.kill()
        process.wait()
    checks.check("F44 8 ranks under load, 20 times", not bad, "; ".join(bad))


def freePort():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def joined(folder, port, ranks, modules=None, flags=(), style="torchrun", extra=()):
    """Processes that find each other by the variables of a launcher."""
    size = len(ranks)
    result = []
    for i, (rank, world) in enumerate(ranks):
        names = {"torchrun": {"RANK": rank, "WORLD_SIZE": world},
                 "mpirun": {"OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_SIZE": world},
                 "srun": {"SLURM_PROCID": rank, "SLURM_NTASKS": world, "SLURM_JOB_ID": port}}[style]
        if style != "srun":
            names |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        module = modules[i] if modules else "two"
        result.append(subprocess.Popen(
            [*RUN, folder.path / f"{module}.fsn", "--trust=all", "--random-inputs", "1", *LIMITS, *flags,
             *(extra[i] if extra else ())], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=folder.environment(**{k: str(v) for k, v in names.items()})))
    return result


def ended(folder, name, processes, codes, bound, texts=(), began=None):
    began = began or time.monotonic()
    answers = []
    for process in processes:
        try:
            answers.append(process.communicate(timeout=bound + 20)[1])
        except subprocess.TimeoutExpired:
            process.kill()
            answers.append("hung " + process.communicate()[1])
    took = time.monotonic() - began
    got = [p.returncode for p in processes]
    problems = [] if got == codes else [f"exit codes {got}, not {codes}"]
    if took > bound:
        problems.append(f"{took:.2f} s, not {bound}")
    problems += [f"no '{text}'" for text in texts if not any(text in a for a in answers)]
    if left := folder.leftOver():
        problems.append(f"left behind: {left}")
    checks.check(name, not problems, f"{took:.2f} s  {'; '.join(problems)}" + (f" {answers}" if problems else ""))


def disturb(port, stop):
    """Port scans, garbage, half frames and silent peers until `stop`."""
    silent = []
    while not stop.is_set():
        for message in (b"", b"GET / HTTP/1.0\r\n\r\n", b"\x01FSN\x01\0\0\0\x40\0\0\0half", os.urandom(64), None):
            peer = socket.socket()
            peer.settimeout(0.2)
            try:
                peer.connect(("127.0.0.1", port))
                if message is None:
                    silent.append(peer)
                    continue
                peer.sendall(message)
            except OSError:
                pass
            if message is not None:
                peer.close()
        time.sleep(0.02)
    for peer in silent:
        peer.close()


def joins(folder):
    both = [(0, 2), (1, 2)]
    for style in ("torchrun", "mpirun", "srun"):
        ended(folder, f"ranks of {style} join", joined(folder, freePort(), both, style=style), [0, 0], 10)
    port = freePort()
    for i in range(2):
        ended(folder, f"F19 one port, job {i}", joined(folder, port, both), [0, 0], 10)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended(folder, "F19 the port is in use", joined(folder, port, [(0, 2)]), [5], 3, ["set another MASTER_PORT"])
    port, stop = freePort(), threading.Event()
    peers = threading.Thread(target=disturb, args=(port, stop))
    peers.start()
    first = joined(folder, port, both[:1])
    time.sleep(0.7)
    ended(folder, "F18 garbage and port scans", first + joined(folder, port, both[1:]), [0, 0], 10)
    stop.set()
    peers.join()
    good, bad, open_ = (folder.path / n for n in ("good.token", "bad.token", "open.token"))
    for path, mode in ((good, 0o600), (bad, 0o600), (open_, 0o644)):
        path.write_bytes(os.urandom(32))
        path.chmod(mode)
    port = freePort()
    first = joined(folder, port, both, extra=[["--token-file", good], ["--token-file", bad]])
    ended(folder, "F18 a peer with another token", first, [8, 7], 8, ["1 of 2 ranks missing: rank 1"])
    ended(folder, "a token that others can read", joined(folder, freePort(), [(0, 2)], extra=[["--token-file", open_]]),
          [2], 2, ["chmod 600"])
    ended(folder, "an address of other hosts without a token",
          joined(folder, freePort(), [(0, 2)], flags=["--listen", "0.0.0.0"]), [2], 2, ["--token-file"])
    # A third process comes while the two run.
    port = freePort()
    first = joined(folder, port, both, flags=["--bench", "60"])
    # With threads for the hub's words, the other stream and the messages.
    while any(len(os.listdir(f"/proc/{p.pid}/task")) < 4 for p in first if p.poll() is None):
        time.sleep(0.01)
    ended(folder, "F14 a rank twice", first + joined(folder, port, both[1:]), [0, 0, 4], 30, ["joined twice"])
    ended(folder, "F14 another number of ranks", joined(folder, freePort(), [(0, 2), (1, 3)]), [4, 4], 2,
          ["one of 3, this job has 2"])
    ended(folder, "F15 another module", joined(folder, freePort(), both, modules=["two", "other"]), [4, 4], 2,
          ["module: rank 0 has"])
    ended(folder, "F10 a rank missing", joined(folder, freePort(), both[:1]), [8], 7, ["1 of 2 ranks missing: rank 1"])
    ended(folder, "F10 rank 0 missing", joined(folder, freePort(), both[1:]), [8], 7, ["no rank 0 at 127.0.0.1"])
    for rank in (1, 0):
        for kind, bound, codes, text in (("kill", 7, 7, f"rank {rank}"), ("stop", 9, 8, "")):
            jobs = joined(folder, freePort(), both, flags=inject(f"{rank}:{kind}:9"))
            began = time.monotonic()
            jobs[1 - rank].wait(timeout=30)
            took = time.monotonic() - began
            jobs[rank].send_signal(signal.SIGKILL)
            answers = [job.communicate()[1] for job in jobs]
            checks.check(f"rank {rank} of torchrun: {kind}",
                         jobs[1 - rank].returncode == codes and took < bound and text in answers[1 - rank],
                         f"{took:.2f} s {jobs[1 - rank].returncode} {answers[1 - rank][:300]}")


def soak(folder, runs):
    """Signals at random moments to random processes of endless jobs."""
    generator = random.Random(runs)
    expected = {signal.SIGKILL: 7, signal.SIGSEGV: 7, signal.SIGTERM: 7, signal.SIGSTOP: 8}
    hangs = wrong = 0
    for i in range(runs):
        process = start(folder, "long", "--bench", "1000000")
        time.sleep(generator.uniform(0, 0.6))
        try:
            ranks = folder.ranks(process.pid)
        except OSError:
            ranks = []
        number, target = generator.choice(list(expected)), generator.randrange(5)
        began = time.monotonic()
        if target == 4 or target >= len(ranks):
            number, target = signal.SIGINT, 4
        try:
            os.kill(process.pid if target == 4 else ranks[target], number)
        except ProcessLookupError:
            pass
        try:
            text = process.communicate(timeout=20)[1]
        except subprocess.TimeoutExpired:
            hangs += 1
            process.kill()
            text = process.communicate()[1]
        took = time.monotonic() - began
        # An interrupt before the handlers are there ends the launcher at once.
        codes = (130, -2) if target == 4 else (expected[number],)
        left = folder.leftOver()
        if process.returncode not in codes or took > 8 or left:
            wrong += 1
            print(f"run {i}: signal {number} to {target}: {process.returncode} in {took:.1f} s, {left} {text[:400]}")
    checks.check(f"{runs} signals at random moments", not hangs and not wrong, f"{hangs} hangs, {wrong} wrong")


def main():
    parts = [deaths, stuck, errors, resources, joins]
    wanted = sys.argv[1:]
    if wanted[:1] == ["soak"]:
        with tempfile.TemporaryDirectory(prefix="fusion-ranks-") as path:
            soak(Folder(path), int(wanted[1]))
        return checks.finish()
    with tempfile.TemporaryDirectory(prefix="fusion-ranks-") as path:
        folder = Folder(path)
        for part in parts:
            if not wanted or part.__name__ in wanted:
                part(folder)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())

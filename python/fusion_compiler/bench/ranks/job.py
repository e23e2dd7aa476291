# ===- job.py - A module that runs when it is told to -------------------------=== #
#
# `fusion-run --bench-turns SOCKET` opens a module on its ranks and waits. A job is one such
# command: started (many at a time, since starting takes seconds), then connected, then
# asked for times in turn with all the others. A rank's time is its own device's; the
# step's is that of the slowest.
#
# ===----------------------------------------------------------------------=== #
"""Modules of ours that stay open and take turns."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import tempfile
import time
from typing import Mapping, Optional, Sequence

from ...errors import FusionError
from ..timing import median

#: Seconds until all ranks of a job have connected (several start at once, and a machine may get its memory slowly), and
#: for a turn.
START_S, TURN_S = 180.0, 60.0


class _Peer:
    """One rank's end of the socket."""

    def __init__(self, connection: socket.socket):
        self._connection, self._pending = connection, b""

    def send(self, line: str) -> None:
        self._connection.sendall(line.encode() + b"\n")

    def line(self, deadline: float) -> Optional[str]:
        """The next line, None if the rank went away. Raises TimeoutError."""
        while b"\n" not in self._pending:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._connection], [], [], left)[0]:
                raise TimeoutError
            try:
                got = self._connection.recv(1 << 16)
            except ConnectionResetError:
                got = b""
            if not got:
                return None
            self._pending += got
        line, _, self._pending = self._pending.partition(b"\n")
        return line.decode()

    def close(self) -> None:
        self._connection.close()


class Job:
    """A command that connects from each of `ranks` ranks to the socket that `command(path)` names.

    It is killed, with all that it started, when it is closed late or an answer does not come.
    """

    def __init__(self, name: str, command, ranks: int, environment: Mapping[str, str] = {}):
        self.name, self._ranks = name, ranks
        self._folder = tempfile.TemporaryDirectory(prefix="fb-")
        path = os.path.join(self._folder.name, "s")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen(ranks)
        self._peers: dict[int, _Peer] = {}
        self._output = tempfile.TemporaryFile("w+")
        self._begin = time.monotonic()
        self._process = subprocess.Popen(command(path), stdin=subprocess.DEVNULL, stdout=self._output,
                                         stderr=subprocess.STDOUT, env={**os.environ, **environment},
                                         start_new_session=True)

    @property
    def connected(self) -> bool:
        return len(self._peers) == self._ranks

    def said(self) -> str:
        """What the command printed that tells most: its first error, else its last line."""
        self._output.seek(0)
        lines = [line.strip() for line in self._output.read().splitlines() if line.strip()]
        errors = [line for line in lines if "error" in line.lower()]
        return (errors or lines[-1:] or ["it said nothing"])[0][:300]

    def connect(self, seconds: float = START_S) -> "Job":
        """Waits for all ranks. Raises FusionError."""
        deadline = self._begin + seconds
        while len(self._peers) < self._ranks:
            ready = select.select([self._listener], [], [], 0.1)[0]
            if not ready:
                if self._process.poll() is not None:
                    self._fail(f"ended with exit status {self._process.returncode}: {self.said()}")
                if time.monotonic() > deadline:
                    self._fail(f"not ready after {seconds:g} s; {self.said()}")
                continue
            peer = _Peer(self._listener.accept()[0])
            try:
                word, _, rank = (peer.line(deadline) or "").partition(" ")
            except TimeoutError:
                word, rank = "", ""
            if word != "rank" or not rank.isdigit() or int(rank) >= self._ranks:
                self._fail(f"a rank said {word!r} {rank!r} where its number was due")
            self._peers[int(rank)] = peer
        self.start_s = time.monotonic() - self._begin
        return self

    def ask(self, request: str, seconds: float = TURN_S) -> list[dict]:
        """The answers of all ranks, in their order. Raises FusionError."""
        deadline = time.monotonic() + seconds
        try:
            for rank in range(self._ranks):
                self._peers[rank].send(request)
            answers = [self._peers[rank].line(deadline) for rank in range(self._ranks)]
        except TimeoutError:
            self._fail(f"no answer to {request.split()[0]!r} after {seconds:g} s")
        except OSError:
            answers = [None]
        if None in answers:
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                pass
            self._fail(f"ended, exit status {self._process.poll()}: {self.said()}")
        return [json.loads(answer) for answer in answers]

    def time(self, count: int, *words: str) -> float:
        """Microseconds of a run: the median over `count`, of the slowest rank."""
        answers = self.ask(" ".join(["time", *words, str(count)]))
        return max(median(answer["us"]) for answer in answers)

    def _fail(self, why: str) -> None:
        self.close(wait_s=0)
        raise FusionError(f"{self.name}: {why}")

    def release(self) -> None:
        """Tells the command to end, without waiting for that."""
        for peer in self._peers.values():
            peer.close()
        self._listener.close()

    def close(self, wait_s: float = 15) -> None:
        self.release()
        if self._process.poll() is None:
            try:
                self._process.wait(wait_s)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
        self._folder.cleanup()

    def notes(self) -> list[str]:
        """What a command that has ended wanted to be known: its notes and warnings, each once, a few of them."""
        self._output.seek(0)
        lines = [line.strip()[:300] for line in self._output if "note: " in line or "warning: " in line]
        return list(dict.fromkeys(lines))[:4]


def ours(name: str, runner: str, module: str, ranks: int, words: Sequence[str],
         environment: Mapping[str, str] = {}) -> Job:
    """A module of ours by the fusion-run `runner`; `words` are its inputs and other options."""
    def command(path: str) -> list[str]:
        return [runner, module, "--trust=all", "--init-timeout", str(int(START_S)),
                *(["--ranks", str(ranks)] if ranks > 1 else []), *words, "--bench-turns", path]

    return Job(name, command, ranks, environment)

"""Modules that stay open and run when told to (--bench-turns); see run_support.py."""

import json
import pathlib
import socket
import subprocess
import tempfile
import unittest

import numpy as np

from run_support import BIN, main, make


class Turns(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="fusion-turns-test-")
        self.path = pathlib.Path(self.folder.name)
        self.socket = self.path / "s"
        self.sides = {}

    def tearDown(self):
        for side, file in self.sides.values():
            file.close()
            side.close()
        self.folder.cleanup()

    def start(self, module, ranks, *arguments):
        words = ["--ranks", str(ranks)] if ranks > 1 else []
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self.socket))
            listener.listen(ranks)
            listener.settimeout(30)
            process = subprocess.Popen(
                [BIN / "fusion-run", module, "--trust=all", *words,
                 *map(str, arguments), "--bench-turns", self.socket],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for _ in range(ranks):
                side, _ = listener.accept()
                side.settimeout(30)
                file = side.makefile("r")
                word, rank = file.readline().split()
                self.assertEqual(word, "rank")
                self.sides[int(rank)] = side, file
        self.assertEqual(sorted(self.sides), list(range(ranks)))
        return process

    def ask(self, request):
        for side, _ in self.sides.values():
            side.sendall(request.encode() + b"\n")
        return [json.loads(self.sides[rank][1].readline())
                for rank in sorted(self.sides)]

    def end(self, process):
        for side, file in self.sides.values():
            file.close()
            side.close()
        self.sides = {}
        output, errors = process.communicate(timeout=60)
        return process.returncode, output, errors

    def test_ranks_run_as_often_as_told(self):
        module = make("collectives:a=2", self.path / "c.fsn")
        process = self.start(module, 2, "--random-inputs", 1, "--output-dir",
                             self.path / "once")
        for count in (3, 1):
            answers = self.ask(f"time {count}")
            self.assertEqual([len(a["us"]) for a in answers], [count] * 2)
            self.assertGreater(min(min(a["us"]) for a in answers), 0)
        self.assertEqual(self.ask(f"write {self.path}/all"), [{}, {}])
        self.assertEqual(self.ask(f"write {self.path}/one sum"), [{}, {}])
        code, _, errors = self.end(process)
        self.assertEqual(code, 0, errors)
        for rank in ("rank0", "rank1"):
            names = sorted(p.name for p in (self.path / "all" / rank).iterdir())
            self.assertEqual(names, sorted(
                p.name for p in (self.path / "once" / rank).iterdir()))
            for name in names:
                np.testing.assert_array_equal(
                    np.load(self.path / "all" / rank / name),
                    np.load(self.path / "once" / rank / name))
            self.assertEqual([p.name for p in (self.path / "one" / rank).iterdir()],
                             ["sum.npy"])

    def test_one_rank_needs_no_launcher(self):
        process = self.start(make("conv", self.path / "c.fsn"), 1,
                             "--random-inputs", 1)
        self.assertEqual(len(self.ask("time 2")[0]["us"]), 2)
        self.assertEqual(self.end(process)[0], 0)

    def test_other_requests_end_the_job(self):
        module = make("collectives:a=2", self.path / "c.fsn")
        for request, said in (("dance", "request 'dance', expected"),
                              ("time", "request 'time', expected"),
                              ("time 0", "request 'time 0'"),
                              ("time 1e3", "request 'time 1e3'"),
                              ("write", "request 'write'"),
                              (f"write {self.path} none", "no output 'none'"),
                              ("x" * 10000, "a request is too long")):
            process = self.start(module, 2, "--random-inputs", 1)
            # The other rank may be stopped before it has read.
            for side, _ in self.sides.values():
                try:
                    side.sendall(request.encode() + b"\n" * (len(request) < 9999))
                except OSError:
                    pass
            _, errors = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 2, errors)
            self.assertIn(said, errors)
            for side, file in self.sides.values():
                file.close()
                side.close()
            self.sides.clear()
            self.socket.unlink()

    def test_a_socket_must_be_there(self):
        module = make("conv", self.path / "c.fsn")
        for path, code, said in ((self.path / "none", 5, "can't connect to"),
                                 (self.path / ("x" * 120), 2, "longer than")):
            result = subprocess.run(
                [BIN / "fusion-run", module, "--trust=all", "--random-inputs=1",
                 "--bench-turns", path], capture_output=True, text=True,
                timeout=60)
            self.assertEqual(result.returncode, code, result.stderr)
            self.assertIn(said, result.stderr)


if __name__ == "__main__":
    main()

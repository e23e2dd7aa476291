"""What the tests that drive fusion-run share.

Their arguments: BIN_DIR LIBRARY FAKE_CUDA (ctest passes them). FAKE_CUDA is the folder
of the tests' CUDA driver.
"""

import pathlib
import subprocess
import sys
import unittest

BIN = pathlib.Path(sys.argv[1])
LIBRARY = sys.argv[2]
FAKE_CUDA = pathlib.Path(sys.argv[3]).resolve()
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))


def run(*arguments, **options):
    return subprocess.run(
        [BIN / "fusion-run", *map(str, arguments)], capture_output=True,
        text=True, timeout=60, **options)


def make(kind, path):
    subprocess.run([BIN / "fusion-test-module", kind, path], check=True)
    return path


def main():
    import types
    package = types.ModuleType("fusion_compiler")
    package.__path__ = [str(pathlib.Path(__file__).resolve().parents[2]
                            / "python" / "fusion_compiler")]
    sys.modules["fusion_compiler"] = package  # without the frontends' imports
    from fusion_compiler import runtime
    runtime.use_library(LIBRARY)
    unittest.main(argv=sys.argv[:1])

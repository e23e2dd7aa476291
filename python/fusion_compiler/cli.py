# ===- cli.py - The command line of the Python side -----------------------=== #
#
# `fusion-import`, `fusion-bench` and `python -m fusion_compiler`, `models` among its commands. Every error is one line
# `error: what, where, what to do` on stderr and an exit code; a traceback appears
# only with FUSION_TRACEBACK=1.
#
# ===----------------------------------------------------------------------=== #
"""Command line: imports a model, starts the bench."""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import traceback
from typing import NoReturn, Optional, Sequence

from . import __version__
from .errors import BAD_PROGRAM, ENVIRONMENT, INTERNAL, RESOURCES, USAGE, FusionError, quote

_DESCRIPTION = """\
Imports a model as MLIR text of the fusion dialect. Writes the text to OUTPUT and the
weights beside it, with the extension .safetensors. Each file is replaced at once: on
an error the old ones stay.
"""

_EPILOG = """\
exit codes: 0 ok, 2 wrong usage or an output that can't be written, 3 a model that is
damaged or uses something that isn't supported (all such nodes are listed), 6 memory or
disk full, 9 internal error.
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise FusionError(f"{message}; see {self.prog} --help", USAGE)


def _parser(program: str) -> argparse.ArgumentParser:
    parser = _Parser(
        prog=program, description=_DESCRIPTION, epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"{program} {__version__}")
    parser.add_argument("model", metavar="MODEL", help="an ONNX file (.onnx)")
    parser.add_argument("-o", "--output", metavar="OUTPUT", required=True, help="the MLIR file to write")
    parser.add_argument("--batch", metavar="N", help="size of free leading dimensions")
    parser.add_argument(
        "--dynamic-batch", metavar="LOW..HIGH",
        help="free leading dimensions stay free: one batch B in this range, given when the module runs",
    )
    parser.add_argument(
        "--input-shape", metavar="NAME=SIZES", action="append", default=[],
        help="sizes of an input, such as x=B,3,48,192; B is the batch (may be repeated)",
    )
    parser.add_argument(
        "--constant-input", metavar="NAME=FILE.npy", action="append", default=[],
        help="replaces an input by the tensor in a .npy file, as if the model stored it (may be repeated)",
    )
    return parser


def _count(text: str, option: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < len(text) <= 10):
        raise FusionError(f"{option}: {quote(text)} isn't a positive number", USAGE)
    value = int(text)
    if not 1 <= value < 1 << 31:
        raise FusionError(f"{option}: {value} is outside of [1, 2^31)", USAGE)
    return value


def _range(text: str) -> tuple[int, int]:
    low, dots, high = text.partition("..")
    if not dots:
        raise FusionError(f"--dynamic-batch: {quote(text)} isn't LOW..HIGH, such as 1..8", USAGE)
    result = _count(low, "--dynamic-batch"), _count(high, "--dynamic-batch")
    if result[0] > result[1]:
        raise FusionError(f"--dynamic-batch: {result[0]} is above {result[1]}", USAGE)
    return result


def _pairs(options: Sequence[str], option: str) -> dict[str, str]:
    result: dict[str, str] = {}
    for text in options:
        name, equals, value = text.rpartition("=")
        if not equals or not name:
            raise FusionError(f"{option}: {quote(text)} isn't NAME=VALUE", USAGE)
        if name in result:
            raise FusionError(f"{option}: {quote(name)} is given twice", USAGE)
        result[name] = value
    return result


def _sizes(text: str) -> list:
    if not text:
        return []
    sizes: list = []
    for part in text.split(","):
        if part == "B":
            sizes.append(part)
        elif re.fullmatch(r"[0-9]{1,18}", part):
            sizes.append(int(part))
        else:
            raise FusionError(f"--input-shape: {quote(part)} isn't a size; sizes are numbers or B", USAGE)
    return sizes


def _load_array(name: str, path: str):
    import numpy as np

    try:
        array = np.load(path, allow_pickle=False)
        if not isinstance(array, np.ndarray):
            raise ValueError("it is an archive")
        return array
    except OSError as error:
        raise FusionError(f"--constant-input: {path}: can't be read: {error.strerror or error}", USAGE) from error
    except (ValueError, EOFError, SyntaxError) as error:
        raise FusionError(f"--constant-input: {path}: not a .npy file of numbers", USAGE) from error


def _check_overwrite(written: Sequence[str], read: Sequence[str]) -> None:
    """No file that is read is written, through links of either kind too."""
    for output in written:
        for path in read:
            if os.path.isfile(output) and os.path.isfile(path) and os.path.samefile(output, path):
                raise FusionError(f"{output}: is read, and would be overwritten; choose another output", USAGE)


def import_model(arguments: Optional[Sequence[str]] = None, program: str = "fusion-import") -> None:
    """Runs fusion-import. Raises FusionError."""
    options = _parser(program).parse_args(arguments)
    if options.batch is not None and options.dynamic_batch is not None:
        raise FusionError("--batch and --dynamic-batch exclude each other; give one", USAGE)
    batch = _count(options.batch, "--batch") if options.batch is not None else None
    dynamic = _range(options.dynamic_batch) if options.dynamic_batch is not None else None
    shapes = {name: _sizes(text) for name, text in _pairs(options.input_shape, "--input-shape").items()}
    constants = {n: _load_array(n, p) for n, p in _pairs(options.constant_input, "--constant-input").items()}
    output_folder = os.path.dirname(os.path.abspath(options.output))
    if not os.path.isdir(output_folder):
        raise FusionError(f"{options.output}: its folder doesn't exist; create it first", USAGE)
    base, extension = os.path.splitext(options.output)
    _check_overwrite([options.output, (base if extension else options.output) + ".safetensors"],
                     [options.model, *_pairs(options.constant_input, "--constant-input").values()])
    try:
        from .frontend.onnx import import_onnx
    except ImportError as error:
        raise FusionError(f"the package {error.name} is missing; install it with pip install {error.name}",
                          ENVIRONMENT) from error
    from .weights import write_module

    module = import_onnx(options.model, batch=batch, dynamic_batch=dynamic, input_shapes=shapes,
                         constant_inputs=constants)
    write_module(module, options.output)


class _Interrupted(BaseException):
    """A signal asked for an end; unwinding removes temporary files."""


def _interrupt(number: int, _frame) -> None:
    signal.signal(number, signal.SIG_DFL)  # the second one kills
    raise _Interrupted(number)


def handle_signals() -> None:
    """Lets SIGINT, SIGTERM and SIGHUP end a command with its cleanup and exit code 128 + n. For whole processes."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, _interrupt)


def _run(command) -> int:
    """Runs a command; its exit code, or that of its error."""
    try:
        return command() or 0
    except FusionError as error:
        code, message = error.code, str(error)
    except MemoryError:
        code, message = RESOURCES, "not enough memory"
    except KeyboardInterrupt:
        code, message = 130, "interrupted"
    except _Interrupted as error:
        code, message = 128 + error.args[0], f"interrupted by signal {error.args[0]}"
    except RecursionError:
        code, message = BAD_PROGRAM, "the model nests too deeply"
    except ModuleNotFoundError as error:
        code = ENVIRONMENT
        message = (f"the package {error.name} is missing; install it with pip install {error.name}, or run this with "
                   ".venv/bin/python")
        if (error.name or "fusion_compiler").startswith("fusion_compiler"):
            code, message = INTERNAL, f"internal error ({error}); please report it"
    except Exception as error:  # noqa: BLE001 - the last line of defence against a traceback
        code, message = INTERNAL, f"internal error ({type(error).__name__}: {error}); please report it"
    if os.environ.get("FUSION_TRACEBACK") == "1":
        traceback.print_exc()
    print(f"error: {message}", file=sys.stderr)
    return code


def fusion_import() -> None:
    """Entry point of the `fusion-import` script."""
    handle_signals()
    sys.exit(_run(import_model))


def _bench(*arguments) -> int:
    from .bench.cli import bench

    return bench(*arguments)


def _models(*arguments) -> None:
    from .models.cli import models

    models(*arguments)


def fusion_bench() -> None:
    """Entry point of the `fusion-bench` script."""
    handle_signals()
    sys.exit(_run(_bench))


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """`python -m fusion_compiler COMMAND ...`; returns the exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    commands = {"import": import_model, "bench": _bench, "models": _models}
    usage = ("usage: python -m fusion_compiler import MODEL -o OUTPUT [options], or bench SUITE [options], or "
             "models MODEL -o OUTPUT [options]; import --help, bench --help and models --help list the options")
    if arguments and arguments[0] in ("-h", "--help"):
        print(usage)
        return 0
    if arguments == ["--version"]:
        print(f"python -m fusion_compiler {__version__}")
        return 0
    if not arguments or arguments[0] not in commands:
        what = f"no command {quote(arguments[0])}" if arguments else "no command given"
        print(f"error: {what}; {usage}", file=sys.stderr)
        return USAGE
    name = arguments[0]
    return _run(lambda: commands[name](arguments[1:], f"python -m fusion_compiler {name}"))

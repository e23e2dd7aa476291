#!/usr/bin/env python3
"""Feeds fusion-opt mutated IR: it must refuse or accept, never crash or hang.

Takes the functions of .mlir files, replaces numbers, sizes, types, lists and
keywords at random, and runs each mutant through parser, verifier and
canonicalizer. Prints each mutant that ended by a signal, an assertion or the
time limit, and ends with 1 if there is one.
"""

import argparse
import random
import re
import subprocess
import sys

SPLIT = "\n// -----\n"
NUMBERS = ["0", "1", "-1", "2", "3", "7", "64", "2147483648", "4294967296", "281474976710657",
           "4611686018427387904", "9223372036854775807", "-9223372036854775808"]
TYPES = ["f64", "f32", "f16", "bf16", "i1", "i8", "i16", "i32", "i64", "index", "complex<f32>", "none", "si8"]
LIST = re.compile(r"\[[-0-9, ]*\]")
SHAPE = re.compile(r"tensor<((?:\?|\d+)x)*")
TOKEN = re.compile(r"-?\b\d+\b")
ELEMENT = re.compile(r"\b(?:f64|f32|f16|bf16|i1|i8|i32|i64)\b")


def mutate_list(rng, text):
    entries = [entry for entry in text[1:-1].split(",") if entry.strip()]
    action = rng.randrange(4)
    if action == 0 and entries:
        entries.pop(rng.randrange(len(entries)))
    elif action == 1:
        entries.insert(rng.randint(0, len(entries)), rng.choice(NUMBERS))
    elif entries:
        entries[rng.randrange(len(entries))] = rng.choice(NUMBERS)
    return "[" + ", ".join(entry.strip() for entry in entries) + "]"


def mutate_shape(rng, text):
    dims = text[len("tensor<"):].split("x")[:-1]
    action = rng.randrange(4)
    if action == 0 and dims:
        dims.pop(rng.randrange(len(dims)))
    elif action == 1:
        dims.insert(rng.randint(0, len(dims)), rng.choice(["?", "0", "1", "4"]))
    elif dims:
        size = rng.choice(["?"] + [number for number in NUMBERS if not number.startswith("-")])
        dims[rng.randrange(len(dims))] = size
    return "tensor<" + "".join(dim + "x" for dim in dims)


def mutate_once(rng, text):
    """Changes one kind of thing, at one place or, for types, everywhere alike."""
    pattern, change = rng.choice([
        (LIST, mutate_list),
        (SHAPE, mutate_shape),
        (TOKEN, lambda rng, text: rng.choice(NUMBERS)),
        (ELEMENT, lambda rng, text: rng.choice(TYPES)),
    ])
    places = [match for match in pattern.finditer(text) if match[0]]
    if not places:
        return text
    place = rng.choice(places)
    changed = change(rng, place[0])
    # The same type stands at the argument and at the op: change both, or the
    # mutant dies of a mismatch before it reaches the op's own checks.
    if pattern in (SHAPE, ELEMENT) and rng.random() < 0.8:
        return re.sub(rf"(?<![\w]){re.escape(place[0])}", lambda _: changed, text)
    return text[: place.start()] + changed + text[place.end():]


def read_functions(path):
    """Each op of each function as a function of its own, resources left out."""
    with open(path) as file:
        text = re.sub(r"^\s*//.*$", "", file.read(), flags=re.MULTILINE)
    text = text.split("{-#")[0]
    functions = []
    for header, body in re.findall(r"^(func\.func @\w+\(.*?\)) \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL):
        if "{\n" in body or "->" in header:
            functions.append(f"{header} {{\n{body}}}")
            continue
        functions += [f"{header} {{\n{line}\nreturn\n}}" for line in body.splitlines() if "fusion." in line]
    return functions


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--opt", required=True, help="path of fusion-opt")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000, help="number of mutants")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for a batch of 100 mutants")
    parser.add_argument("files", nargs="+", help=".mlir files to start from")
    arguments = parser.parse_args()

    rng = random.Random(arguments.seed)
    functions = [function for path in arguments.files for function in read_functions(path)]
    if not functions:
        sys.exit("error: no function to mutate; give .mlir files with functions")
    mesh = "fusion.mesh @m(dp = 4, tp = 2)\n"
    mutants = []
    for _ in range(arguments.count):
        text = rng.choice(functions)
        for _ in range(rng.randint(1, 3)):
            text = mutate_once(rng, text)
        mutants.append((mesh if "@m[" in text else "") + text)

    def survives(batch, timeout):
        command = [arguments.opt, "-", "-split-input-file", "--canonicalize", "-o", "/dev/null"]
        try:
            result = subprocess.run(command, input=SPLIT.join(batch), capture_output=True, text=True,
                                    timeout=timeout, check=False)
        except subprocess.TimeoutExpired:
            return False
        return result.returncode in (0, 1) and "Assertion" not in result.stderr

    failures = []
    for begin in range(0, len(mutants), 100):
        batch = mutants[begin:begin + 100]
        if not survives(batch, arguments.timeout):
            failures += [mutant for mutant in batch if not survives([mutant], arguments.timeout / 10)]
    for failure in failures:
        print(f"error: fusion-opt crashed or hung on:\n{failure}")
    print(f"{len(mutants)} mutants, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Checks that the reference of the dialect and its tests are complete.

For every op of the generated reference: it has a summary and a description with
an example; the example parses and verifies; a round-trip test prints the op; and
each constraint Cn of the description has a negative test, whose comment starts
with `<op> Cn`. Prints each gap and ends with 1 if there is one.
"""

import argparse
import os
import re
import subprocess
import sys

OP_HEADING = re.compile(r"^### `fusion\.(\w+)` \(", re.MULTILINE)
EXAMPLE = re.compile(r"```mlir\n(.*?)```", re.DOTALL)
SEE = re.compile(r"Example: see `fusion\.(\w+)`")
EXPECTED_TYPE = re.compile(r"use of value '%(\w+)' expects different type than prior uses: '(.*)' vs 'none'")

# What an op needs around it to verify: {} takes the example.
MODULE = "{}"
FUNCTION = """fusion.mesh @m(dp = 4, tp = 2)
fusion.parameter @w const "m.safetensors" key "w" : tensor<4x3xf32>
func.func @example(ARGUMENTS) {{
{}
return
}}"""
GROUP = """func.func @example(%y: tensor<4xf32>) {{
%r = fusion.group loop (%a = %y : tensor<4xf32>) -> tensor<4xf32> {{
%y2 = fusion.exp %a : tensor<4xf32>
{}
}}
return
}}"""
PROGRAM = """fusion.mesh @m(dp = 4, tp = 2)
fusion.parameter @w const "m.safetensors" key "w" : tensor<4x3xf32>
fusion.program @main batch = [1, 1] streams = 2 events = 1 peak = 64 {{
fusion.segment @in0 input size = 16 align = 64
fusion.segment @out0 output size = 16 align = 64
fusion.segment @arena private size = 64 align = 64
fusion.segment @weights const size = 48 align = 64
fusion.record event = 0 stream = 0
{}
}}"""
CONTEXTS = {name: MODULE for name in ["mesh", "parameter", "program"]}
CONTEXTS.update({name: PROGRAM for name in ["content", "launch", "call", "collective", "record", "wait", "copy"]})
CONTEXTS["yield"] = GROUP


def read_ops(path):
    """Maps each op's name to its section of the reference."""
    with open(path) as file:
        text = file.read()
    text = text[: text.index("\n## Attributes")] if "\n## Attributes" in text else text
    parts = OP_HEADING.split(text)[1:]
    return dict(zip(parts[::2], parts[1::2]))


def description_of(section):
    """What the op's author wrote: from the syntax to the generated tables."""
    return re.split(r"^(?:Traits|Interfaces|Effects|#### )", section, maxsplit=1, flags=re.MULTILINE)[0]


class Example:
    """One example, its values renamed so that messages tell which one it is."""

    def __init__(self, name, text, number):
        self.name = name
        self.context = CONTEXTS.get(name, FUNCTION)
        self.text = re.sub(r"%(\w+)", lambda match: f"%v{number}_{match[1]}", text)
        if self.context is GROUP:
            self.text = self.text.replace(f"%v{number}_y", "%y2")
        results = re.findall(r"^\s*((?:%\w+(?:, )?)+) = ", self.text, re.MULTILINE)
        defined = set(re.findall(r"%(\w+)", " ".join(results)))
        defined.update(re.findall(r"[(,] ?%(\w+) = %", self.text))
        used = dict.fromkeys(re.findall(r"%(\w+)", self.text))
        self.arguments = {} if self.context is not FUNCTION else {value: "none" for value in used if value not in defined}

    def module(self):
        arguments = ", ".join(f"%{value}: {type}" for value, type in self.arguments.items())
        return self.context.format(self.text).replace("ARGUMENTS", arguments)


def run_opt(opt, examples):
    """Parses all examples in one run; returns what the tool says."""
    text = "\n// -----\n".join(example.module() for example in examples)
    result = subprocess.run(
        [opt, "-", "-split-input-file", "-o", os.devnull], input=text, capture_output=True, text=True, check=False
    )
    return result.returncode, result.stderr


def check_examples(opt, examples):
    """The values of an example get the types that the parser asks for."""
    by_value = {value: example for example in examples for value in example.arguments}
    while True:
        code, messages = run_opt(opt, examples)
        found = EXPECTED_TYPE.findall(messages)
        if not found:
            break
        for value, type in found:
            by_value[value].arguments[value] = type
    if code == 0:
        return []
    errors = []
    for example in examples:
        code, messages = run_opt(opt, [example])
        if code != 0:
            errors.append(f"fusion.{example.name}: the example is refused: {messages.strip().splitlines()[0]}")
    return errors


def read_tests(folder):
    """The checked lines of round trips, and the comments of negative tests."""
    checked, comments = "", ""
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".mlir"):
            continue
        with open(os.path.join(folder, name)) as file:
            text = file.read()
        if name.endswith("-invalid.mlir") and "-verify-diagnostics" in text:
            comments += "\n".join(re.findall(r"^// .*", text, re.MULTILINE)) + "\n"
        elif "fusion-opt %s | fusion-opt |" in text and "--emit-bytecode" in text:
            checked += "\n".join(re.findall(r"// CHECK(?:-[A-Z]+)?: .*", text)) + "\n"
    return checked, comments


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", required=True, help="the generated Dialect.md")
    parser.add_argument("--opt", required=True, help="path of fusion-opt")
    parser.add_argument("--tests", required=True, help="folder of the dialect's tests")
    arguments = parser.parse_args()

    ops = read_ops(arguments.docs)
    if not ops:
        sys.exit(f"error: {arguments.docs} documents no op; build the target fusion-doc again")
    checked, comments = read_tests(arguments.tests)
    errors, examples = [], []
    for name, section in ops.items():
        description = description_of(section)
        if not re.search(r"^_\S.*_$", description, re.MULTILINE):
            errors.append(f"fusion.{name}: no summary")
        blocks, see = EXAMPLE.findall(description), SEE.search(description)
        examples += [Example(name, block, len(examples) + i) for i, block in enumerate(blocks)]
        if not blocks and not see:
            errors.append(f"fusion.{name}: no example")
        if see and f"fusion.{name}" not in ops.get(see[1], ""):
            errors.append(f"fusion.{name}: fusion.{see[1]} does not show it")
        if not re.search(rf"\bfusion\.{name}\b", checked):
            errors.append(f"fusion.{name}: no round-trip test checks it")
        for constraint in sorted(set(re.findall(r"\bC\d+\b", description))):
            if not re.search(rf"^// {name} (?:C\d+, )*{constraint}\b", comments, re.MULTILINE):
                errors.append(f"fusion.{name}: no negative test of {constraint}")
    errors += check_examples(arguments.opt, examples)
    for error in errors:
        print(f"error: {error}")
    print(f"{len(ops)} ops, {len(examples)} examples, {len(errors)} gaps")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())

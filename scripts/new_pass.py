#!/usr/bin/env python3
"""./dev new-pass [--phase PHASE] fusion-verb-noun: the files of a new pass.

Writes lib/PHASE/VerbNoun.cpp and test/PHASE/verb-noun.mlir, and adds the
declaration to include/fusion/PHASE/Passes.td and the file to lib/PHASE/
CMakeLists.txt. What it writes builds and its test passes: the pass counts the
ops that it would look at and says so in a remark. Nothing is overwritten.
"""

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PHASES = ["Simplify", "Fuse", "Codegen", "Schedule"]

DECLARATION = '''\
def {Class} : Pass<"{flag}", "::mlir::func::FuncOp"> {{
  let summary = "counts the elementwise ops of a function";
  let description = [{{
    *Requires*: nothing.

    *Ensures*: nothing changes.

    *Leaves alone*: everything.

    *Reports*: remark `{rule}` for each function.
  }}];
  let dependentDialects = ["::fusion::FusionDialect"];
}}

'''

SOURCE = '''\
//===- {Class}.cpp - {dashes}===//
//
// Says what the pass is for, in a short paragraph: what it looks for, what it
// makes of it, and why that is right.
//
//===----------------------------------------------------------------------===//
{includes}

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"

namespace fusion {{
#define GEN_PASS_DEF_{CLASS}
#include "fusion/{Phase}/Passes.h.inc"
}} // namespace fusion

using namespace mlir;
using namespace fusion;

namespace {{

/// What the pass decided, before anything is rewritten.
struct Plan {{
  SmallVector<Operation *> found;
}};

class {Class} : public fusion::impl::{Class}Base<{Class}> {{
public:
  using {Class}Base::{Class}Base;
  void runOnOperation() override;
}};

}} // namespace

static Plan decide(func::FuncOp function) {{
  Plan plan;
  function.walk([&](Operation *op) {{
    if (isa<ElementwiseOpInterface>(op))
      plan.found.push_back(op);
  }});
  return plan;
}}

void {Class}::runOnOperation() {{
  Plan plan = decide(getOperation());
  remark::analysis(getOperation().getLoc(),
                   remark::RemarkOpts::name("{rule}").category("fusion"))
      << remark::metric("found", static_cast<int64_t>(plan.found.size()));
}}
'''

TEST = '''\
// RUN: fusion-opt %s --pass-pipeline='builtin.module(func.func({flag}))' --remarks-filter=fusion 2>&1 | FileCheck %s

// One elementwise op, one that is none; the graph stays as it is.

// CHECK: [Analysis] {rule}
// CHECK-SAME: found=1
// CHECK: fusion.exp
// CHECK-NEXT: fusion.transpose
func.func @main(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {{
  %0 = fusion.exp %x : tensor<2x3xf32>
  %1 = fusion.transpose %0 permutation = [1, 0] : tensor<2x3xf32>
  return %1 : tensor<3x2xf32>
}}
'''


def fail(message):
    sys.exit(f"error: {message}")


def insertDeclaration(text, declaration):
    """Before the header guard's end."""
    end = text.rindex("#endif")
    return text[:end].rstrip("\n") + "\n\n" + declaration + text[end:]


def insertSource(text, name):
    """Into the sorted list of the library's files."""
    files = re.findall(r"^  (\w+\.cpp)$", text, re.M)
    after = [file for file in files if file < name]
    if not after:
        return text.replace(f"  {files[0]}\n", f"  {name}\n  {files[0]}\n", 1)
    return text.replace(f"  {after[-1]}\n", f"  {after[-1]}\n  {name}\n", 1)


def main():
    parser = argparse.ArgumentParser(prog="./dev new-pass", description="Writes the files of a new pass.")
    parser.add_argument("flag", metavar="fusion-verb-noun", help="the pass's name on the command line")
    parser.add_argument("--phase", choices=PHASES, default="Simplify", help="the phase it belongs to (default Simplify)")
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not re.fullmatch(r"fusion(-[a-z][a-z0-9]*){2,}", options.flag):
        fail(f"bad name '{options.flag}', ./dev new-pass, write fusion-verb-noun in lower case")
    rule = options.flag.removeprefix("fusion-")
    name = "".join(word.capitalize() for word in rule.split("-"))
    phase, root = options.phase, options.root
    # The banner: 80 columns, ending in "===//".
    title = rule.replace("-", " ").capitalize() + " "
    fields = {"Class": name, "CLASS": name.upper(), "flag": options.flag, "rule": rule, "Phase": phase,
              "dashes": title + "-" * (80 - len(f"//===- {name}.cpp - {title}===//"))}
    headers = sorted(["fusion/IR/FusionDialect.h", f"fusion/{phase}/Passes.h"])
    fields["includes"] = "\n".join(f'#include "{header}"' for header in headers)
    declarations = root / f"include/fusion/{phase}/Passes.td"
    library = root / f"lib/{phase}/CMakeLists.txt"
    source = root / f"lib/{phase}/{name}.cpp"
    test = root / f"test/{phase}/{rule}.mlir"
    for path in (source, test):
        if path.exists():
            fail(f"{path.relative_to(root)} exists already, ./dev new-pass, choose another name")
    for path in sorted(declarations.parent.glob("*.td")):
        if re.search(rf'\bdef {name}\b|"{options.flag}"', path.read_text()):
            fail(f"'{options.flag}' is declared already, in {path.relative_to(root)}, choose another name")
    text = declarations.read_text()
    source.write_text(SOURCE.format(**fields))
    test.write_text(TEST.format(**fields))
    declarations.write_text(insertDeclaration(text, DECLARATION.format(**fields)))
    library.write_text(insertSource(library.read_text(), f"{name}.cpp"))
    for path in (source, test, declarations, library):
        print(f"wrote {path.relative_to(root)}")
    print(f"next: ./dev build dev fusion-opt && ./dev test lit:{rule}\n"
          f"to run it by default, add it to build{phase}Pipeline in lib/{phase}/")
    return 0


if __name__ == "__main__":
    sys.exit(main())

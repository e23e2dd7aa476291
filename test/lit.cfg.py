# Configuration of the lit suite.
#
# Switch: with FUSION_ROUNDTRIP=1 in the environment every run of fusion-opt also
# prints its input, parses it again and compares, as text and as bytecode, so that
# the whole suite tests the printer and the parser.

import os
import sys

import lit.formats
from lit.llvm import llvm_config
from lit.llvm.subst import ToolSubst

config.name = "Fusion"
config.test_format = lit.formats.ShTest(not llvm_config.use_lit_shell)
config.suffixes = [".mlir", ".test"]
config.excludes = ["lit.cfg.py", "lit.site.cfg.py", "Inputs", "Unit", "Fuzz", "Python", "Benchmark", "CMakeLists.txt"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.fusion_obj_root, "test")

# Results must not depend on the user's locale or on a compiler cache.
llvm_config.with_environment("LC_ALL", "C")
llvm_config.with_environment("PATH", config.fusion_tools_dir, append_path=True)
llvm_config.with_environment("PATH", config.llvm_tools_dir, append_path=True)

config.substitutions.append(("%python", config.python_executable or sys.executable))
config.substitutions.append(("%fusion_src", config.fusion_src_root))
config.substitutions.append(("%fusion_build", config.fusion_obj_root))
config.substitutions.append(("%fusion_tools", config.fusion_tools_dir))

# -enable-var-scope: a capture of one test can't satisfy another.
tools = [
    ToolSubst("FileCheck", extra_args=["-enable-var-scope"], unresolved="fatal"),
    ToolSubst("not", unresolved="fatal"),
    ToolSubst("split-file", unresolved="fatal"),
    ToolSubst("count", unresolved="ignore"),
]
if config.fusion_compiler:
    roundtrip = bool(os.environ.get("FUSION_ROUNDTRIP"))
    if roundtrip:
        config.available_features.add("roundtrip")
    tools.append(ToolSubst("fusion-opt", extra_args=["--verify-roundtrip"] if roundtrip else [], unresolved="fatal"))
for tool in ["fusion-compile", "fusion-run", "fusion-interpret", "fusion-bench", "fusion-reduce"]:
    tools.append(ToolSubst(tool, unresolved="ignore"))
llvm_config.add_tool_substitutions(tools, [config.fusion_tools_dir, config.llvm_tools_dir])

# Features that tests can require; each absence skips visibly.
if os.path.exists(os.path.join(config.fusion_obj_root, "test", "plugins", "BreakGroup.so")):
    config.available_features.add("test-plugins")
for tool in ["fusion-compile", "fusion-run", "fusion-interpret"]:
    if os.path.exists(os.path.join(config.fusion_tools_dir, tool)):
        config.available_features.add(tool)

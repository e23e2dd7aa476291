//===- Inspect.h - --inspect: what a module holds ---------------*- C++ -*-===//
#ifndef FUSION_RUNTIME_TOOLS_RUN_INSPECT_H
#define FUSION_RUNTIME_TOOLS_RUN_INSPECT_H

#include "ModuleFile.h"

namespace fusion::rt {

/// Prints a module for people. `checked` says what was verified about its
/// origin ("hashes only", "signature of KEY").
void printModule(const LoadedModule &module, const std::string &checked);

/// "conv", "matmul": the op of a library call.
const char *libraryOpName(LibraryOp op);

} // namespace fusion::rt

#endif // FUSION_RUNTIME_TOOLS_RUN_INSPECT_H

//===- KernelProbe.cpp - What the compiler of kernels says ----------------===//
//
// Remembers answers by the exact text of a body: no hash is trusted.
//
//===----------------------------------------------------------------------===//
#include "fusion/Analysis/KernelProbe.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace fusion;

std::optional<ProbeResult> KernelProbe::probe(GroupOp group) {
  // Printed from the group down: its operands have no names there.
  std::string text;
  llvm::raw_string_ostream os(text);
  group.print(os, OpPrintingFlags().useLocalScope().printGenericOpForm());
  std::lock_guard<std::mutex> lock(mutex);
  auto [it, isNew] = known.try_emplace(text);
  if (isNew)
    it->second = compile(group);
  return it->second;
}

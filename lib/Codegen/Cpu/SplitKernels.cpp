//===- SplitKernels.cpp - Kernels in parts to compile side by side --------===//
//
// Connected definitions are one piece; pieces fill parts in order.
//
//===----------------------------------------------------------------------===//
#include "SplitKernels.h"

#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/IR/InstIterator.h"

using namespace llvm;

/// A part costs about a millisecond of its own: less than this many
/// instructions are not worth one. Many parts only cost files.
static constexpr uint64_t kLeastInstructions = 4000;
static constexpr uint64_t kMostParts = 64;

std::vector<fusion::KernelPart> fusion::splitKernels(const Module &module) {
  // Written by the loader, read by every kernel: shared between parts.
  const GlobalValue *imports = module.getNamedValue("fusion_imports");
  EquivalenceClasses<const GlobalValue *> pieces;
  SmallVector<const GlobalValue *> definitions;
  uint64_t total = 0;
  for (const GlobalVariable &global : module.globals())
    if (!global.isDeclaration())
      definitions.push_back(&global);
  for (const Function &function : module) {
    if (function.isDeclaration())
      continue;
    definitions.push_back(&function);
    pieces.insert(&function);
    total += function.getInstructionCount();
  }
  for (const GlobalValue *value : definitions) {
    if (value == imports)
      continue;
    pieces.insert(value);
    // What a global's initializer names, and what instructions use.
    SmallVector<const User *> work;
    DenseSet<const User *> seen;
    auto visit = [&](const Value *used) {
      auto *global = dyn_cast<GlobalValue>(used);
      if (global && global != imports && !global->isDeclaration())
        pieces.unionSets(value, global);
      else if (auto *constant = dyn_cast<Constant>(used);
               constant && !global && seen.insert(constant).second)
        work.push_back(constant);
    };
    if (auto *function = dyn_cast<Function>(value)) {
      for (const Instruction &instruction : instructions(function))
        for (const Use &use : instruction.operands())
          visit(use.get());
    } else if (auto *variable = dyn_cast<GlobalVariable>(value)) {
      visit(variable->getInitializer());
    }
    while (!work.empty())
      for (const Use &use : work.pop_back_val()->operands())
        visit(use.get());
  }

  // Pieces in the order of their first definition.
  MapVector<const GlobalValue *, SmallVector<const GlobalValue *>> members;
  for (const GlobalValue *value : definitions)
    if (value != imports)
      members[pieces.getLeaderValue(value)].push_back(value);
  uint64_t target = std::max(kLeastInstructions, total / kMostParts + 1);
  std::vector<KernelPart> parts(1);
  uint64_t size = 0;
  if (imports)
    parts.back().insert(imports);
  for (const auto &[leader, values] : members) {
    if (size >= target) {
      parts.emplace_back();
      size = 0;
    }
    for (const GlobalValue *value : values) {
      parts.back().insert(value);
      if (auto *function = dyn_cast<Function>(value))
        size += function->getInstructionCount();
    }
  }
  return parts;
}

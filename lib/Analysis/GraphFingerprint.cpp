//===- GraphFingerprint.cpp - What a graph computes, as expressions -------===//
//
// Value numbering with exact keys: no hash is trusted. One walk over the ops
// before, one over the ops behind, no recursion over the graph.
//
//===----------------------------------------------------------------------===//
#include "fusion/Analysis/GraphFingerprint.h"
#include "fusion/Analysis/FusionLegality.h"
#include "fusion/IR/ErrorKind.h"

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace fusion;

//===----------------------------------------------------------------------===//
// Numbering
//===----------------------------------------------------------------------===//

/// Numbers the values of a function, with the expressions of `known` (which it
/// never changes) and those that are new.
class GraphFingerprint::Numbering {
public:
  explicit Numbering(const GraphFingerprint *known,
                     ArrayRef<Equation> equations = {})
      : known(known) {
    for (const Equation &equation : equations)
      numbers[equation.now] = equation.number;
  }

  void run(Operation *function);

  const GraphFingerprint *known;
  llvm::DenseMap<ArrayRef<uintptr_t>, unsigned> added;
  llvm::DenseMap<unsigned, std::pair<unsigned, Operation *>> counts;
  SmallVector<unsigned> results;
  unsigned next = 0;
  unsigned numEffects = 0;
  /// The first op that is no known expression.
  Operation *firstUnknown = nullptr;
  llvm::BumpPtrAllocator storage;
  llvm::DenseMap<Value, unsigned> numbers;

private:
  void visit(Operation *op);
  void enterGroup(GroupOp group);
  void leaveGroup(GroupOp group);
  unsigned find(ArrayRef<uintptr_t> key, Operation *op);
};

unsigned GraphFingerprint::Numbering::find(ArrayRef<uintptr_t> key,
                                           Operation *op) {
  if (known) {
    auto it = known->expressions.find(key);
    if (it != known->expressions.end())
      return it->second;
    if (!firstUnknown)
      firstUnknown = op;
  }
  auto it = added.find(key);
  if (it != added.end())
    return it->second;
  unsigned number = next;
  next += std::max(1u, op->getNumResults());
  added.try_emplace(key.copy(storage), number);
  return number;
}

void GraphFingerprint::Numbering::visit(Operation *op) {
  SmallVector<uintptr_t, 12> key;
  auto addPointer = [&](const void *pointer) {
    key.push_back(reinterpret_cast<uintptr_t>(pointer));
  };
  addPointer(op->getName().getAsOpaquePointer());
  addPointer(op->getAttrDictionary().getAsOpaquePointer());
  // Each execution of an op with effects is an expression of its own.
  key.push_back(isMemoryEffectFree(op) ? 0 : ++numEffects);
  key.push_back(op->getNumResults());
  for (Type type : op->getResultTypes())
    addPointer(type.getAsOpaquePointer());
  for (Value operand : op->getOperands())
    key.push_back(numbers.lookup(operand));
  // A region is the sequence of its ops, numbered before.
  for (Region &region : op->getRegions())
    for (Block &block : region)
      for (Operation &nested : block) {
        addPointer(nested.getName().getAsOpaquePointer());
        for (Value value : nested.getOperands())
          key.push_back(numbers.lookup(value));
        for (Value value : nested.getResults())
          key.push_back(numbers.lookup(value));
      }
  // What is declared to equal a known value is that value's expression.
  auto declared =
      op->getNumResults() == 1 ? numbers.find(op->getResult(0)) : numbers.end();
  unsigned number =
      declared == numbers.end() ? find(key, op) : declared->second;
  auto &[count, first] = counts[number];
  ++count;
  first = op;
  for (Value result : op->getResults())
    numbers[result] = number++;
}

void GraphFingerprint::Numbering::enterGroup(GroupOp group) {
  for (auto [argument, input] :
       llvm::zip(group.getBodyBlock()->getArguments(), group.getInputs()))
    numbers[argument] = numbers.lookup(input);
}

void GraphFingerprint::Numbering::leaveGroup(GroupOp group) {
  for (auto [result, value] :
       llvm::zip(group.getOutputs(), group.getYield().getValues()))
    numbers[result] = numbers.lookup(value);
}

void GraphFingerprint::Numbering::run(Operation *function) {
  Block &block = cast<FunctionOpInterface>(function).getFunctionBody().front();
  for (Value argument : block.getArguments())
    numbers[argument] = next++;
  // New expressions get numbers that no known one has.
  if (known)
    next = known->numValues;
  for (Operation &top : block) {
    // Groups and asynchronous regions are nested a fixed number of levels.
    top.walk([&](Operation *op, const WalkStage &stage) {
      auto group = dyn_cast<GroupOp>(op);
      if (group && stage.isBeforeAllRegions())
        enterGroup(group);
      else if (group && stage.isAfterAllRegions())
        leaveGroup(group);
      else if (!group && stage.isAfterAllRegions() &&
               !op->hasTrait<OpTrait::IsTerminator>())
        visit(op);
    });
  }
  for (Value value : block.getTerminator()->getOperands())
    results.push_back(numbers.lookup(value));
}

//===----------------------------------------------------------------------===//
// Recording and comparing
//===----------------------------------------------------------------------===//

GraphFingerprint::GraphFingerprint(Operation *function, bool withValues) {
  Numbering numbering(nullptr);
  numbering.run(function);
  expressions = std::move(numbering.added);
  for (auto [number, count] : numbering.counts)
    counts[number] = count.first;
  results = std::move(numbering.results);
  numEffects = numbering.numEffects;
  numValues = numbering.next;
  storage = std::move(numbering.storage);
  if (withValues)
    values = std::move(numbering.numbers);
}

LogicalResult GraphFingerprint::verify(Operation *function, StringRef step,
                                       ArrayRef<Equation> equations) const {
  Numbering numbering(this, equations);
  numbering.run(function);
  auto fail = [&](Operation *at) {
    return emitError(at, ErrorKind::Internal)
           << "the graph behind " << step << " is not the graph before it: ";
  };
  if (numbering.results.size() != results.size())
    return fail(function) << "it returns " << numbering.results.size()
                          << " values instead of " << results.size();
  for (auto [i, numbers] :
       llvm::enumerate(llvm::zip(numbering.results, results))) {
    auto [now, before] = numbers;
    if (now == before)
      continue;
    InFlightDiagnostic diagnostic = fail(function) << "result " << i
                                                   << " is another expression";
    if (numbering.firstUnknown)
      diagnostic.attachNote(numbering.firstUnknown->getLoc())
          << "this op was not in the graph before " << step;
    return diagnostic;
  }
  if (numbering.numEffects != numEffects)
    return fail(function) << numbering.numEffects
                          << " ops with effects instead of " << numEffects;
  for (auto [number, count] : numbering.counts) {
    auto [times, op] = count;
    // New ops serve the declared values, or nothing.
    if (!equations.empty() && number >= numValues)
      continue;
    if (times > counts.lookup(number) && !isCheapToClone(op) &&
        !isCheapToRecompute(op) && getOpFamily(op) != OpFamily::Source &&
        getOpFamily(op) != OpFamily::View)
      return fail(op) << "'" << op->getName() << "' is computed " << times
                      << " times instead of " << counts.lookup(number);
  }
  return success();
}

//===- FusionCertificate.cpp - Proof that grouping changed nothing --------===//
//
// Value numbering with exact keys: no hash is trusted. One walk over the ops
// before, one over the ops behind, no recursion over the graph.
//
//===----------------------------------------------------------------------===//
#include "fusion/Fuse/FusionCertificate.h"
#include "fusion/Analysis/FusionLegality.h"
#include "fusion/Fuse/Passes.h"
#include "fusion/IR/ErrorKind.h"

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace fusion {
#define GEN_PASS_DEF_RECORDFUSIONCERTIFICATE
#define GEN_PASS_DEF_VERIFYFUSIONCERTIFICATE
#include "fusion/Fuse/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

//===----------------------------------------------------------------------===//
// Numbering
//===----------------------------------------------------------------------===//

/// Numbers the values of a function, with the expressions of `known` (which it
/// never changes) and those that are new.
class GraphFingerprint::Numbering {
public:
  explicit Numbering(const GraphFingerprint *known) : known(known) {}

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

private:
  void visit(Operation *op);
  void enterGroup(GroupOp group);
  void leaveGroup(GroupOp group);
  unsigned find(ArrayRef<uintptr_t> key, Operation *op);

  llvm::DenseMap<Value, unsigned> numbers;
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
  unsigned number = find(key, op);
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

GraphFingerprint::GraphFingerprint(Operation *function) {
  Numbering numbering(nullptr);
  numbering.run(function);
  expressions = std::move(numbering.added);
  for (auto [number, count] : numbering.counts)
    counts[number] = count.first;
  results = std::move(numbering.results);
  numEffects = numbering.numEffects;
  numValues = numbering.next;
  storage = std::move(numbering.storage);
}

LogicalResult GraphFingerprint::verify(Operation *function) const {
  Numbering numbering(this);
  numbering.run(function);
  auto fail = [&](Operation *at) {
    return emitError(at, ErrorKind::Internal)
           << "the fused graph is not the graph before fusion: ";
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
          << "this op was not in the graph before fusion";
    return diagnostic;
  }
  if (numbering.numEffects != numEffects)
    return fail(function) << numbering.numEffects
                          << " ops with effects instead of " << numEffects;
  for (auto [number, count] : numbering.counts) {
    auto [times, op] = count;
    if (times > counts.lookup(number) && !isCheapToClone(op) &&
        !isCheapToRecompute(op) && getOpFamily(op) != OpFamily::Source &&
        getOpFamily(op) != OpFamily::View)
      return fail(op) << "'" << op->getName() << "' is computed " << times
                      << " times instead of " << counts.lookup(number);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Passes
//===----------------------------------------------------------------------===//

/// The contract of the phase: all work is in groups, and each group is one that
/// an emitter handles.
static LogicalResult verifyGroups(FunctionOpInterface function) {
  FailureOr<FusionLegality> legality =
      FusionLegality::create(function, GroupLimits());
  if (failed(legality))
    return failure();
  SmallVector<GroupOp> groups;
  for (Operation &op :
       function.getFunctionBody().front().without_terminator()) {
    auto group = dyn_cast<GroupOp>(op);
    OpFamily family = getOpFamily(&op);
    if (!group) {
      if (family == OpFamily::Source || family == OpFamily::View ||
          family == OpFamily::Outside)
        continue;
      return emitError(&op, ErrorKind::Internal)
             << "'" << op.getName() << "' is in no group after the fuse phase";
    }
    if (group.getKind() == GroupKind::Horizontal)
      llvm::append_range(groups, group.getBodyBlock()->getOps<GroupOp>());
    else
      groups.push_back(group);
  }
  for (GroupOp group : groups) {
    GroupVerdict verdict = legality->check(group);
    if (!verdict.isLegal()) {
      InFlightDiagnostic diagnostic =
          emitError(group, ErrorKind::Internal)
          << "the group is none that code generation handles: "
          << getFusionRuleInfo(verdict.rule).text;
      if (verdict.at)
        diagnostic.attachNote(verdict.at->getLoc()) << "because of this op";
      return diagnostic;
    }
    if (verdict.kind != group.getKind())
      return emitError(group, ErrorKind::Internal)
             << "the group has kind " << stringifyGroupKind(group.getKind())
             << ", but its ops make it " << stringifyGroupKind(verdict.kind);
  }
  return success();
}

namespace {

struct RecordFusionCertificate
    : fusion::impl::RecordFusionCertificateBase<RecordFusionCertificate> {
  using RecordFusionCertificateBase::RecordFusionCertificateBase;

  void runOnOperation() override {
    if (!getOperation().isExternal())
      getAnalysis<GraphFingerprint>();
    markAllAnalysesPreserved();
  }
};

struct VerifyFusionCertificate
    : fusion::impl::VerifyFusionCertificateBase<VerifyFusionCertificate> {
  using VerifyFusionCertificateBase::VerifyFusionCertificateBase;

  void runOnOperation() override {
    FunctionOpInterface function = getOperation();
    markAllAnalysesPreserved();
    if (function.isExternal())
      return;
    if (!against.empty())
      return verifyAgainst(function);
    if (failed(verifyGroups(function)))
      return signalPassFailure();
    if (auto recorded = getCachedAnalysis<GraphFingerprint>())
      if (failed(recorded->get().verify(function)))
        return signalPassFailure();
  }

  /// Compares with another function of the module instead of a record.
  void verifyAgainst(FunctionOpInterface function) {
    if (function.getName() == against)
      return;
    auto other = SymbolTable::lookupNearestSymbolFrom<FunctionOpInterface>(
        function, StringAttr::get(&getContext(), against));
    if (!other || other.isExternal()) {
      function->emitError("there is no function @")
          << against << " with a body to compare with";
      return signalPassFailure();
    }
    if (failed(GraphFingerprint(other).verify(function)))
      signalPassFailure();
  }
};

} // namespace

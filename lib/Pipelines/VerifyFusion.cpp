//===- VerifyFusion.cpp - Groups against the graph before them ------------===//
//
// Two runs of the reference evaluator. Of the first only hashes are kept, so
// that memory is that of one run; when a group's hash differs, the first is run
// once more for the values. As all groups before the first wrong one gave the
// same bits, that one had right inputs.
//
//===----------------------------------------------------------------------===//
#include "GeneratedInputs.h"
#include "fusion/Fuse/FusionDecisions.h"
#include "fusion/IR/ErrorKind.h"
#include "fusion/IR/Parameters.h"
#include "fusion/Pipelines/Passes.h"
#include "fusion/Reference/Compare.h"
#include "fusion/Reference/Evaluator.h"

#include "mlir/IR/Remarks.h"
#include "llvm/Support/xxhash.h"

namespace fusion {
#define GEN_PASS_DEF_VERIFYFUSION
#include "fusion/Pipelines/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;
using reference::Tensor;

//===----------------------------------------------------------------------===//
// The check
//===----------------------------------------------------------------------===//

namespace {

/// Compares one function with the copy of it that was kept.
class FunctionCheck {
public:
  FunctionCheck(func::FuncOp function, const FusionDecisions &decisions,
                reference::Options options, uint64_t seed)
      : function(function), decisions(decisions), options(std::move(options)),
        seed(seed) {}

  LogicalResult run();

private:
  /// A result of a group and the op that gave it before.
  struct Output {
    unsigned op, result;
  };
  /// What was found at the first wrong group.
  struct Fault {
    Operation *group;
    Output before;
    unsigned output;
    Tensor got;
  };

  LogicalResult matchGroups();
  void warnOfKernels();
  reference::Options makeOptions(int64_t batch) const;
  LogicalResult runBatch(int64_t batch);
  LogicalResult report(const Fault &fault, ArrayRef<Tensor> inputs,
                       int64_t batch);
  func::FuncOp getOriginal() const {
    return *originalModule.get().getOps<func::FuncOp>().begin();
  }

  func::FuncOp function;
  const FusionDecisions &decisions;
  reference::Options options;
  uint64_t seed;
  OwningOpRef<ModuleOp> originalModule;
  /// By group in the IR: its outputs as they were.
  llvm::DenseMap<Operation *, SmallVector<Output>> outputsOf;
};

} // namespace

static uint64_t hashTensor(const Tensor &tensor) {
  return llvm::xxh3_64bits(tensor.toBytes());
}

/// Pairs the groups of the IR with those that were decided, by their order.
LogicalResult FunctionCheck::matchGroups() {
  SmallVector<GroupOp> found;
  for (GroupOp group : function.getBody().front().getOps<GroupOp>()) {
    if (group.getKind() != GroupKind::Horizontal)
      found.push_back(group);
    else
      llvm::append_range(found, group.getBodyBlock()->getOps<GroupOp>());
  }
  SmallVector<const DecidedGroup *> decided;
  for (const FusionDecisions::Entry &entry : decisions.layout) {
    for (unsigned group : entry.groups)
      decided.push_back(&decisions.groups[group]);
    // A group that was there before has nothing to be compared with.
    if (entry.outside && decisions.ops[*entry.outside].name.getStringRef() ==
                             GroupOp::getOperationName())
      decided.push_back(nullptr);
  }
  if (found.size() != decided.size())
    return function.emitError("the function has ")
           << found.size() << " groups, and " << decided.size()
           << " were decided: a pass made or removed groups, which can't be "
              "compared then";
  Block &before = getOriginal().getBody().front();
  SmallVector<Operation *> ops;
  for (Operation &op : before.without_terminator())
    ops.push_back(&op);
  for (auto [group, decision] : llvm::zip_equal(found, decided)) {
    if (!decision)
      continue;
    SmallVector<Output> outputs;
    bool isSame = true;
    unsigned next = 0;
    for (unsigned op : decision->outputs) {
      if (op == DecidedGroup::kNoOp) {
        outputs.push_back({op, next++});
        continue;
      }
      for (OpResult result : ops[op]->getResults()) {
        outputs.push_back({op, result.getResultNumber()});
        isSame &= next < group->getNumResults() &&
                  group->getResult(next).getType() == result.getType();
        ++next;
      }
    }
    if (!isSame || next != group->getNumResults())
      return group.emitError("the group has other outputs than were decided: a "
                             "pass changed it, and it can't be compared");
    outputsOf[group] = std::move(outputs);
  }
  // A launch gives the outputs of its members, one after the other.
  for (GroupOp launch : function.getBody().front().getOps<GroupOp>()) {
    if (launch.getKind() != GroupKind::Horizontal)
      continue;
    SmallVector<Output> outputs;
    for (GroupOp member : launch.getBodyBlock()->getOps<GroupOp>())
      llvm::append_range(outputs, outputsOf.lookup(member));
    if (outputs.size() != launch->getNumResults())
      continue; // of a group that was there before
    outputsOf[launch] = std::move(outputs);
  }
  return success();
}

/// Says whose results the check takes for granted.
void FunctionCheck::warnOfKernels() {
  getOriginal().walk([](KernelCallOp call) {
    call.emitWarning("the kernel '")
        << call.getEntry()
        << "' can't be evaluated: it is not checked, and made-up values stand "
           "for its results";
  });
}

reference::Options FunctionCheck::makeOptions(int64_t batch) const {
  reference::Options own = options;
  own.onKernelCall = [=](Operation *op, ArrayRef<Tensor> operands) {
    return makeStandIns(cast<KernelCallOp>(op), operands, batch);
  };
  return own;
}

LogicalResult FunctionCheck::report(const Fault &fault, ArrayRef<Tensor> inputs,
                                    int64_t batch) {
  Tensor want;
  reference::Options own = makeOptions(batch);
  llvm::DenseMap<Operation *, unsigned> indexOf;
  for (auto [i, op] : llvm::enumerate(getOriginal().getBody().front()))
    indexOf[&op] = i;
  own.onResult = [&](Operation *op, ArrayRef<Tensor> results, int64_t) {
    auto it = indexOf.find(op);
    if (it != indexOf.end() && it->second == fault.before.op)
      want = results[fault.before.result];
  };
  auto results = reference::evaluate(getOriginal(), inputs, own);
  if (!results)
    return reportUnchecked(function, results.takeError());
  reference::Comparison comparison =
      reference::compare(fault.got, want, reference::Criterion::makeBits());
  // NaNs of different bits are equal.
  if (comparison.passed)
    return success();
  bool isLaunch = cast<GroupOp>(fault.group).getKind() == GroupKind::Horizontal;
  return emitError(fault.group, ErrorKind::Check)
         << (isLaunch ? "the launch gives another value than its members' ops "
                        "did: output "
                      : "the group computes another value than its ops did: "
                        "output ")
         << fault.output << ", " << decisions.ops.describe(fault.before.op)
         << ", batch " << batch << ": " << comparison.message;
}

LogicalResult FunctionCheck::runBatch(int64_t batch) {
  FailureOr<std::vector<Tensor>> inputs =
      generateInputs(getOriginal(), batch, seed);
  if (failed(inputs))
    return failure();

  // Hashes by op and result.
  llvm::DenseMap<Operation *, SmallVector<uint64_t, 1>> before;
  SmallVector<Operation *> ops;
  Block &block = getOriginal().getBody().front();
  llvm::DenseSet<Operation *> wanted;
  for (Operation &op : block.without_terminator())
    ops.push_back(&op);
  for (auto &[group, outputs] : outputsOf)
    for (const Output &output : outputs)
      if (output.op != DecidedGroup::kNoOp)
        wanted.insert(ops[output.op]);
  reference::Options own = makeOptions(batch);
  own.onResult = [&](Operation *op, ArrayRef<Tensor> results, int64_t) {
    if (wanted.contains(op))
      for (const Tensor &result : results)
        before[op].push_back(hashTensor(result));
  };
  auto resultsBefore = reference::evaluate(getOriginal(), *inputs, own);
  if (!resultsBefore)
    return reportUnchecked(function, resultsBefore.takeError());

  SmallVector<Fault> faults;
  own.onResult = [&](Operation *op, ArrayRef<Tensor> results, int64_t) {
    auto it = outputsOf.find(op);
    // One fault is enough, but where NaNs differ in their bits only.
    if (it == outputsOf.end() || faults.size() > 16)
      return;
    for (auto [i, output] : llvm::enumerate(it->second))
      if (output.op != DecidedGroup::kNoOp &&
          before[ops[output.op]][output.result] != hashTensor(results[i]))
        faults.push_back({op, output, static_cast<unsigned>(i), results[i]});
  };
  auto results = reference::evaluate(function, *inputs, own);
  if (!results)
    return reportUnchecked(function, results.takeError());
  for (const Fault &fault : faults)
    if (failed(report(fault, *inputs, batch)))
      return failure();
  for (auto [i, pair] :
       llvm::enumerate(llvm::zip_equal(*results, *resultsBefore))) {
    auto [got, want] = pair;
    reference::Comparison comparison =
        reference::compare(got, want, reference::Criterion::makeBits());
    if (!comparison.passed)
      return emitError(function, ErrorKind::Check)
             << "all groups are right, but result " << i << " is not, batch "
             << batch << ": " << comparison.message;
  }
  return success();
}

LogicalResult FunctionCheck::run() {
  originalModule = ModuleOp::create(function.getLoc());
  OpBuilder builder = OpBuilder::atBlockEnd(originalModule->getBody());
  for (Operation &op : *function->getParentOfType<ModuleOp>().getBody())
    if (!isa<FunctionOpInterface>(op))
      builder.clone(op);
  builder.clone(*decisions.original.get().getOperation());
  if (failed(matchGroups()))
    return failure();
  warnOfKernels();
  std::set<int64_t> batches = getBatches(function);
  for (int64_t batch : batches)
    if (failed(runBatch(batch)))
      return failure();
  remark::analysis(function.getLoc(),
                   remark::RemarkOpts::name("verify-fusion").category("fusion"))
      << remark::add("groups compute what their ops computed")
      << remark::metric("groups", outputsOf.size())
      << remark::metric("batches", batches.size());
  return success();
}

namespace {

struct VerifyFusion : fusion::impl::VerifyFusionBase<VerifyFusion> {
  using VerifyFusionBase::VerifyFusionBase;

  void runOnOperation() override {
    markAllAnalysesPreserved();
    auto record = getCachedAnalysis<FusionRecord>();
    reference::Options options;
    options.moduleDirectory =
        getParameterFolder(getOperation(), parameterFolder);
    options.memoryLimit = memoryLimit;
    bool any = false;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      FusionDecisions *decisions =
          record ? record->get().find(function) : nullptr;
      if (!decisions || !decisions->original)
        continue;
      any = true;
      if (failed(FunctionCheck(function, *decisions, options, seed).run()))
        return signalPassFailure();
    }
    if (any)
      return;
    getOperation().emitError(
        "no function was kept as it was before fusion; run "
        "fusion-track-decisions with keep-original before "
        "the passes that decide");
    signalPassFailure();
  }
};

} // namespace

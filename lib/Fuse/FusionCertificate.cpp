//===- FusionCertificate.cpp - Proof that grouping changed nothing --------===//
//
// The passes around GraphFingerprint: what the graph computes is recorded ahead
// of the decisions on groups, and compared behind them.
//
//===----------------------------------------------------------------------===//
#include "fusion/Analysis/FusionLegality.h"
#include "fusion/Analysis/GraphFingerprint.h"
#include "fusion/Fuse/Passes.h"
#include "fusion/IR/ErrorKind.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

namespace fusion {
#define GEN_PASS_DEF_RECORDFUSIONCERTIFICATE
#define GEN_PASS_DEF_VERIFYFUSIONCERTIFICATE
#include "fusion/Fuse/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

/// What the graph is compared across, for messages.
static constexpr llvm::StringLiteral kStep = "fusion";

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
      if (failed(recorded->get().verify(function, kStep)))
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
    if (failed(GraphFingerprint(other).verify(function, kStep)))
      signalPassFailure();
  }
};

} // namespace

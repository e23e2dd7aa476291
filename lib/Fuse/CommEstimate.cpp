//===- CommEstimate.cpp - What a collective takes -------------------------===//
//
// From an op and its mesh to the terms of the cost model.
//
//===----------------------------------------------------------------------===//
#include "CommEstimate.h"
#include "fusion/Analysis/CommSchedule.h"

#include "mlir/IR/Remarks.h"

using namespace mlir;
using namespace fusion;

/// A tensor that is large.
static constexpr double kLargeBytes = 25 << 20;

CollectiveCost::CollectiveCost(Operation *collective, const CommModel &model)
    : model(&model), op(*getCommOp(collective)),
      group(getCommGroup(cast<CommunicationOpInterface>(collective))) {
  CommCost large = model.predict(op, kLargeBytes, group);
  latencyUs = large.fixedUs;
  queuedUs = model.getQueuedUs(group);
  usPerByte = (large.us - large.fixedUs) / kLargeBytes;
}

void fusion::tellSentInPlace(Operation *op, llvm::StringRef function,
                             FusionRule accepts,
                             std::optional<FusionRule> refusal, double us,
                             double wholeUs) {
  const FusionRuleInfo &rule = getFusionRuleInfo(refusal.value_or(accepts));
  auto options =
      remark::RemarkOpts::name(rule.id).category("fusion").function(function);
  auto remark = refusal ? remark::missed(op->getLoc(), options)
                        : remark::passed(op->getLoc(), options);
  remark << remark::reason("{0}", rule.text);
  if (wholeUs > 0)
    remark << remark::metric("nanoseconds", int64_t(us * 1000))
           << remark::metric("nanoseconds_whole", int64_t(wholeUs * 1000));
}

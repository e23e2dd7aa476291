//===- CommEstimate.cpp - What a collective takes -------------------------===//
//
// From an op and its mesh to the terms of the cost model.
//
//===----------------------------------------------------------------------===//
#include "CommEstimate.h"
#include "fusion/Analysis/CommSchedule.h"

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

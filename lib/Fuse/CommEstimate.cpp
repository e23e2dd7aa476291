//===- CommEstimate.cpp - What a collective takes -------------------------===//
//
// From an op and its mesh to the terms of the cost model.
//
//===----------------------------------------------------------------------===//
#include "CommEstimate.h"
#include "fusion/IR/FusionDialect.h"

#include "mlir/IR/SymbolTable.h"

using namespace mlir;
using namespace fusion;

/// A tensor that is large.
static constexpr double kLargeBytes = 25 << 20;

/// Of devices of which nothing is known: the mean that arXiv 2507.03114 found
/// over many kernels.
static constexpr double kContention = 0.19;

static CommGroup findGroup(Operation *collective) {
  auto comm = cast<CommunicationOpInterface>(collective);
  auto mesh = SymbolTable::lookupNearestSymbolFrom<MeshOp>(
      collective, comm.getCommunicationMesh());
  if (!mesh)
    return {};
  SmallVector<StringRef> names(
      mesh.getAxisNames().getAsValueRange<StringAttr>());
  SmallVector<unsigned> axes;
  for (StringRef axis :
       comm.getCommunicationAxes().getAsValueRange<StringAttr>())
    if (auto *it = llvm::find(names, axis); it != names.end())
      axes.push_back(it - names.begin());
  return getCommGroup(mesh.getAxisSizes(), axes);
}

int64_t fusion::getGroupSize(Operation *collective) {
  return findGroup(collective).size;
}

CollectiveCost::CollectiveCost(Operation *collective, const CommModel &model)
    : model(&model), op(isa<AllReduceOp>(collective) ? CommOp::AllReduce
                                                     : CommOp::ReduceScatter),
      group(findGroup(collective)) {
  CommCost large = model.predict(op, kLargeBytes, group);
  latencyUs = large.fixedUs;
  usPerByte = (large.us - large.fixedUs) / kLargeBytes;
}

double fusion::getContention(const DeviceModel &device) {
  return device.comm ? device.comm->slowdownCompute : kContention;
}

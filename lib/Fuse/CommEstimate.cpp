//===- CommEstimate.cpp - What a collective takes -------------------------===//
//
// A ring: an all-reduce of n ranks sends every byte 2 (n - 1) / n times in
// 2 (n - 1) steps, a reduce-scatter or a gather half of that (Patarasuk and
// Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
// 2009).
//
//===----------------------------------------------------------------------===//
#include "CommEstimate.h"
#include "fusion/IR/FusionDialect.h"

#include "mlir/IR/SymbolTable.h"

using namespace mlir;
using namespace fusion;

/// What a collective takes besides its steps (NCCL's tuning table, its simple
/// protocol), and the share of a link's bandwidth that a ring reaches (371 of
/// 450 GB/s there).
static constexpr double kGpuStartUs = 8.4, kGpuShare = 0.82;

/// Processes on one host, through shared memory or a local socket.
static constexpr double kHostStartUs = 20, kHostStepUs = 5,
                        kHostBandwidth = 5e9;

int64_t fusion::getGroupSize(Operation *collective) {
  auto comm = cast<CommunicationOpInterface>(collective);
  auto mesh = SymbolTable::lookupNearestSymbolFrom<MeshOp>(
      collective, comm.getCommunicationMesh());
  if (!mesh)
    return 1;
  int64_t size = 1;
  for (StringRef axis :
       comm.getCommunicationAxes().getAsValueRange<StringAttr>())
    size *= mesh.getAxisSize(axis).value_or(1);
  return size;
}

LinearCost fusion::estimateComm(Operation *collective, int64_t groupSize,
                                const DeviceModel &device) {
  double start = kHostStartUs, step = kHostStepUs, bandwidth = kHostBandwidth;
  if (!device.links.empty()) {
    start = kGpuStartUs;
    step = device.links.front().latencyUs;
    bandwidth = kGpuShare * device.links.front().bandwidth;
  }
  double others = static_cast<double>(std::max<int64_t>(groupSize, 1) - 1);
  double rounds = isa<AllReduceOp>(collective) ? 2 : 1;
  // A gather's operand is one part of what travels.
  double sent =
      isa<AllGatherOp>(collective)
          ? others
          : others / static_cast<double>(std::max<int64_t>(groupSize, 1));
  return {start + rounds * others * step, 1e6 * rounds * sent / bandwidth};
}

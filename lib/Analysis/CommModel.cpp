//===- CommModel.cpp - Predicted time of collectives ----------------------===//
//
// See CommModel.h. The simulation is in Timeline.cpp.
//
//===----------------------------------------------------------------------===//
#include "fusion/Analysis/CommModel.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>

using namespace fusion;

/// The largest slowdown of a kernel that was measured (arXiv 2507.03114).
static constexpr double kMostSlowdown = 0.4;

CommGroup fusion::getCommGroup(llvm::ArrayRef<int64_t> axisSizes,
                               llvm::ArrayRef<unsigned> axes) {
  CommGroup group;
  for (unsigned axis : axes) {
    int64_t stride = 1;
    for (int64_t size : axisSizes.drop_front(axis + 1))
      stride *= size;
    group.size *= axisSizes[axis];
    group.span += (axisSizes[axis] - 1) * stride;
  }
  return group;
}

/// For a device of which nothing is known: a network's order of magnitude, and
/// the mean of what collectives cost kernels (arXiv 2507.03114).
static DeviceComm getUnknownComm() {
  DeviceComm comm;
  comm.slowdownCompute = 0.19;
  CommLink &link = comm.links.emplace_back();
  link.name = "unknown";
  link.protocols.push_back({20, 0, 10e9, false});
  return comm;
}

CommModel::CommModel(const DeviceModel &device)
    : memoryBandwidth(device.memoryBandwidth),
      arithmeticPeak(*llvm::max_element(device.flops)), units(device.units),
      comm(device.comm.value_or(getUnknownComm())) {
  size_t count = comm.links.size();
  shared.assign(count, llvm::SmallVector<bool>(count, false));
  for (auto [i, link] : llvm::enumerate(comm.links))
    for (auto [j, other] : llvm::enumerate(comm.links))
      if (i == j || llvm::is_contained(link.sharedWith, other.name))
        shared[i][j] = shared[j][i] = true;
}

bool CommModel::areShared(unsigned link, unsigned other) const {
  return shared[link][other];
}

bool CommModel::isSharedWithCompute(unsigned link) const {
  return llvm::is_contained(comm.links[link].sharedWith, "compute");
}

llvm::StringRef fusion::stringifyTransport(Transport transport) {
  switch (transport) {
  case Transport::Nccl:
    return "nccl";
  case Transport::Peer:
    return "peer";
  case Transport::Direct:
    return "direct";
  }
  llvm_unreachable("covered above");
}

/// The first link that reaches all ranks; else the last, which has to.
unsigned CommModel::findLink(const CommGroup &group) const {
  unsigned link = 0;
  while (link + 1 < comm.links.size() && comm.links[link].devices != 0 &&
         comm.links[link].devices < group.span)
    ++link;
  return link;
}

const CommTransport *CommModel::findTransport(unsigned link,
                                              Transport transport) const {
  for (const CommTransport &entry : comm.transports)
    if (entry.name == stringifyTransport(transport) &&
        entry.link == comm.links[link].name)
      return &entry;
  return nullptr;
}

bool CommModel::hasMeasured(const CommGroup &group, Transport transport) const {
  return findTransport(findLink(group), transport) != nullptr;
}

double CommModel::getPartsUs(int64_t parts, const CommGroup &group,
                             Transport transport) const {
  const CommTransport *entry =
      group.size < 2 ? nullptr : findTransport(findLink(group), transport);
  return entry ? entry->partUs * std::max<int64_t>(0, parts - 1) : 0;
}

double CommModel::getQueuedUs(const CommGroup &group) const {
  double us = 0;
  for (Transport transport : {Transport::Nccl, Transport::Peer})
    if (const CommTransport *entry = findTransport(findLink(group), transport))
      us = std::max(us, entry->queuedUs);
  return us;
}

/// Messages that a rank sends one after the other, and the share of the bytes
/// that it sends.
static std::pair<double, double> getRing(CommOp op, double ranks) {
  double rounds = op == CommOp::AllReduce ? 2 : 1;
  if (op == CommOp::Permute)
    return {1, 1};
  return {rounds * (ranks - 1),
          op == CommOp::Broadcast ? 1 : rounds * (ranks - 1) / ranks};
}

/// Between two measured sizes a power of the bytes; below the smallest its
/// time, beyond the largest its bandwidth.
static double interpolate(const CommTable &table, double bytes) {
  if (bytes <= table.bytes.front())
    return table.us.front();
  if (bytes >= table.bytes.back())
    return table.us.back() * bytes / table.bytes.back();
  size_t above = llvm::upper_bound(table.bytes, bytes) - table.bytes.begin();
  double slope = std::log(table.us[above] / table.us[above - 1]) /
                 std::log(table.bytes[above] / table.bytes[above - 1]);
  return table.us[above - 1] * std::pow(bytes / table.bytes[above - 1], slope);
}

CommCost CommModel::predict(CommOp op, double bytes, const CommGroup &group,
                            Transport transport) const {
  CommCost cost = predictTerms(op, bytes, group);
  const CommTransport *entry =
      group.size < 2 ? nullptr : findTransport(cost.link, transport);
  // Kernels read no faster than copy engines do.
  if (transport == Transport::Direct &&
      (!entry || entry->tables[static_cast<unsigned>(op)].bytes.empty()))
    return predict(op, bytes, group, Transport::Peer);
  if (!entry)
    return cost;
  cost.slowdownCompute = entry->slowdownCompute;
  cost.slowdownComm = entry->slowdownComm;
  const CommTable &table = entry->tables[static_cast<unsigned>(op)];
  // The link's own terms know NCCL's algorithms for other numbers of ranks.
  if (table.bytes.empty() ||
      (transport == Transport::Nccl && entry->ranks != group.size))
    return cost;
  auto [hops, share] = getRing(op, group.size);
  auto [measuredHops, measuredShare] = getRing(op, entry->ranks);
  double least = table.us.front();
  cost.fixedUs = least * hops / measuredHops;
  cost.us = cost.fixedUs + std::max(0.0, interpolate(table, bytes) - least) *
                               share / measuredShare;
  cost.wireBytes = share * bytes;
  cost.algorithm = "measured";
  return cost;
}

CommCost CommModel::predictTerms(CommOp op, double bytes,
                                 const CommGroup &group) const {
  CommCost cost;
  cost.algorithm = "none";
  if (group.size < 2)
    return cost;
  cost.link = findLink(group);
  const CommLink &link = comm.links[cost.link];
  // Nodes of the ranks that a faster link joins, and hops within and between.
  double n = group.size, nodes = n;
  if (cost.link > 0)
    nodes = std::min<double>(
        n, std::ceil(double(group.span) /
                     std::max<int64_t>(1, comm.links[cost.link - 1].devices)));
  double innerAlpha =
      comm.links[cost.link > 0 ? cost.link - 1 : 0].protocols.front().alphaUs;
  double rounds = op == CommOp::AllReduce ? 2 : 1;
  double hops = op == CommOp::Permute ? 1 : n - 1;
  double share = getRing(op, n).second;
  bool sends = op == CommOp::Permute || op == CommOp::AllToAll;
  cost.us = INFINITY;
  auto offer = [&](llvm::StringRef algorithm, const CommProtocol &protocol,
                   double hopsUs, double wire) {
    double fixed = protocol.baseUs + hopsUs;
    double bandwidth = protocol.bandwidth;
    if (sends && link.sendBandwidth > 0)
      bandwidth = std::min(bandwidth, link.sendBandwidth);
    double us = fixed + 1e6 * wire / bandwidth;
    if (us >= cost.us)
      return;
    cost.us = us;
    cost.fixedUs = fixed;
    cost.wireBytes = wire;
    cost.algorithm = algorithm;
  };
  for (const CommProtocol &protocol : link.protocols) {
    if (protocol.isForSums && op != CommOp::AllReduce)
      continue;
    // Between nodes a ring takes each of the slow hops once.
    double outer = cost.link > 0 ? std::min(hops, nodes - 1) : hops;
    offer("ring", protocol,
          rounds * (outer * protocol.alphaUs + (hops - outer) * innerAlpha),
          share * bytes);
    if (op != CommOp::AllReduce || cost.link == 0)
      continue;
    offer("tree", protocol,
          2 * ((n / nodes - 1) * innerAlpha +
               std::ceil(std::log2(nodes)) * protocol.alphaUs),
          2 * bytes);
  }
  return cost;
}

double CommModel::getSlowdown(const KernelWork *work) const {
  if (!work || (comm.units == 0 && comm.memoryTraffic == 0))
    return comm.slowdownCompute;
  double slowdown = 0;
  // Blocks that no longer fit beside the collective's wait for a second turn.
  if (comm.units > 0 && work->blocks > 0) {
    double rounds = std::ceil(work->blocks / units);
    double fewer = std::ceil(work->blocks / (units - comm.units));
    slowdown = fewer / rounds - 1;
  }
  // Bytes that the collective moves are no kernel's.
  double memory = work->getBytes() / memoryBandwidth;
  double arithmetic = work->getFlops() / arithmeticPeak;
  if (comm.memoryTraffic > 0 && memory > 0) {
    double taken = comm.memoryTraffic *
                   comm.links.front().protocols.front().bandwidth /
                   memoryBandwidth;
    taken = std::min(taken, 0.9);
    slowdown = std::max(
        slowdown, memory / (1 - taken) / std::max(memory, arithmetic) - 1);
  }
  return std::min(slowdown, kMostSlowdown);
}

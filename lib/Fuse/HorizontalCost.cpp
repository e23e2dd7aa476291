//===- HorizontalCost.cpp - One launch, many, or several streams ----------===//
//
// The cost rule of horizontal fusion on plain numbers: gaps between launches
// against values that leave the cache.
//
//===----------------------------------------------------------------------===//
#include "HorizontalPlan.h"
#include "fusion/Analysis/DeviceModel.h"

using namespace mlir;
using namespace fusion;

/// A GPU runs a few small kernels at once; a CPU's launch has all its threads.
static constexpr unsigned kGpuStreams = 4;

HorizontalDevice::HorizontalDevice(const DeviceModel &model)
    : launchGapUs(model.launchGapUs), bytesPerUs(model.memoryBandwidth / 1e6),
      cacheBytesPerUs(model.cacheBandwidth / 1e6),
      flopsPerUs(model.getFlops(Arithmetic::VectorF32) / 1e6),
      cacheBytes(model.cacheBytes), streams(model.isGpu ? kGpuStreams : 1) {}

double fusion::predictMember(const HorizontalWork &work,
                             const HorizontalDevice &device) {
  return std::max(work.bytes / device.bytesPerUs,
                  work.flops / device.flopsPerUs);
}

HorizontalAnswer fusion::decideHorizontal(ArrayRef<HorizontalWork> members,
                                          double movedBytes,
                                          const HorizontalDevice &device) {
  double total = 0, longest = 0, farBytes = 0;
  for (const HorizontalWork &member : members) {
    double us = predictMember(member, device);
    total += us;
    longest = std::max(longest, us);
    farBytes += member.nearBytes;
  }
  double count = members.size(), gap = device.launchGapUs;
  // What no longer fits is written to memory and read back.
  double spilled = std::max(0.0, movedBytes - device.cacheBytes);
  HorizontalAnswer answer;
  answer.serialUs = total + count * gap;
  answer.fusedUs = total + gap + 2 * spilled / device.bytesPerUs +
                   farBytes / device.cacheBytesPerUs;
  // Streams share the device, each with its own launches; joining them costs
  // one launch more. Members that fill it alone gain nothing.
  double streams = std::min<double>(device.streams, count);
  bool full = longest > device.fullGaps * gap;
  answer.streamsUs = streams < 2 || full ? answer.serialUs
                                         : std::max(longest, total / streams) +
                                               (count / streams + 1) * gap;
  answer.choice = HorizontalChoice::Fused;
  if (answer.serialUs < answer.fusedUs)
    answer.choice = HorizontalChoice::Serial;
  if (answer.streamsUs < std::min(answer.serialUs, answer.fusedUs))
    answer.choice = HorizontalChoice::Streams;
  return answer;
}

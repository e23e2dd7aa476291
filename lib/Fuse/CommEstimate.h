//===- CommEstimate.h - What a collective takes -----------------*- C++ -*-===//
//
// The one place that the fuse phase asks for the time of a communication: a
// ring over the device's first link. Private to lib/Fuse.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_FUSE_COMMESTIMATE_H
#define FUSION_LIB_FUSE_COMMESTIMATE_H

#include "fusion/Analysis/DeviceModel.h"
#include "mlir/IR/Operation.h"

namespace fusion {

/// A collective of `bytes` a rank takes `latencyUs + usPerByte * bytes`.
struct LinearCost {
  double latencyUs = 0, usPerByte = 0;

  double getUs(int64_t bytes) const {
    return latencyUs + usPerByte * static_cast<double>(bytes);
  }
};

/// Share of its speed that computation loses while a collective runs beside
/// it, as measured over many kernels and devices: arXiv 2507.03114.
inline constexpr double kContention = 0.19;

/// The cost of `collective` among `groupSize` ranks. Devices whose file names
/// no link get figures of processes on one host. `bytes` are those of an
/// operand: of a scattered or reduced tensor before, of a gathered one the
/// part.
LinearCost estimateComm(mlir::Operation *collective, int64_t groupSize,
                        const DeviceModel &device);

/// Ranks of the group that `collective`, which has the communication
/// interface, works in; 1 where its mesh is not found.
int64_t getGroupSize(mlir::Operation *collective);

} // namespace fusion

#endif // FUSION_LIB_FUSE_COMMESTIMATE_H

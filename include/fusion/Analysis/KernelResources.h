//===- KernelResources.h - What a group takes of a unit ---------*- C++ -*-===//
//
// Registers, shared memory, loads and arguments that the kernel of a group
// would need on a device, estimated from its ops in their order, or taken from
// a probe. The limits they are held against are the device's.
//
// Registers of a thread: the largest number of 32-bit values that are live at
// one point, times the elements of a thread, plus the device's overhead.
// Registers of a unit: those, times the threads of a block, times the blocks
// that the emitter wants resident on a unit.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_ANALYSIS_KERNELRESOURCES_H
#define FUSION_ANALYSIS_KERNELRESOURCES_H

#include "fusion/Analysis/DeviceModel.h"
#include "fusion/Analysis/FusionLegality.h"
#include "fusion/Analysis/KernelProbe.h"

namespace fusion {

struct KernelResources {
  int64_t registersPerThread = 0; ///< 32-bit, overhead included
  int64_t registersPerUnit = 0;   ///< 32-bit
  int64_t threadsPerBlock = 0;
  int64_t residentBlocks = 0;
  int64_t elementsPerThread = 0;
  int64_t loads = 0;          ///< different reads of inputs, an element
  int64_t sharedBytes = 0;    ///< a block
  int64_t parameterBytes = 0; ///< arguments of the kernel
  int64_t spillBytes = 0;     ///< known from a probe only
  bool isMeasured = false;    ///< registers are a probe's
  /// The op at which most values are live; null without ops.
  mlir::Operation *peak = nullptr;

  void print(llvm::raw_ostream &os) const;
};

/// Estimates for the kernel of `ops` (as for FusionLegality::check) of kind
/// `kind`. What a library computes takes nothing of it.
KernelResources
estimateResources(llvm::ArrayRef<mlir::Operation *> ops, GroupKind kind,
                  llvm::function_ref<bool(mlir::Operation *)> escapes,
                  const FusionLegality &legality, const DeviceModel &device);

/// The same for a finished group that is not horizontal; registers, spills and
/// shared memory are the probe's where it is needed and has an answer.
KernelResources estimateResources(GroupOp group, const FusionLegality &legality,
                                  const DeviceModel &device,
                                  KernelProbe *probe = nullptr);

/// The registers that a thread can have, beyond which its compiler spills: the
/// device's limit, or the share of a unit's where blocks are large.
int64_t getRegisterCap(const KernelResources &resources,
                       const DeviceModel &device);

/// The first limit of the device that is exceeded, with the value and the
/// limit: registers of a thread, registers of a unit, spills, shared memory,
/// arguments.
std::optional<GroupVerdict> checkDeviceLimits(const KernelResources &resources,
                                              const DeviceModel &device);

/// For each op but the last, how many values computed by it or before it are
/// read by ops behind it: what a cut there would write to memory and read back.
llvm::SmallVector<int64_t>
countLiveAcrossCuts(llvm::ArrayRef<mlir::Operation *> ops);

} // namespace fusion

#endif // FUSION_ANALYSIS_KERNELRESOURCES_H

//===- RegisterModel.h - Registers of a thread on a GPU ---------*- C++ -*-===//
//
// The estimate for kernels of lib/Codegen/Cuda, emitter by emitter. Private to
// lib/Analysis.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_ANALYSIS_REGISTERMODEL_H
#define FUSION_LIB_ANALYSIS_REGISTERMODEL_H

#include "IterationSpace.h"
#include "fusion/Analysis/KernelResources.h"

namespace fusion {

/// Fills in how the emitter of `kind` spreads the elements of `members` over
/// threads, and the registers and the peak of a thread. Returns the threads of
/// a row, 0 where rows are not dealt to threads.
int64_t estimateGpuThread(const MemberSet &members, GroupKind kind,
                          const FusionLegality &legality,
                          const DeviceModel &device,
                          KernelResources &resources);

/// 32-bit registers of one element while it is computed.
int64_t getElementRegisters(mlir::Value value);

} // namespace fusion

#endif // FUSION_LIB_ANALYSIS_REGISTERMODEL_H

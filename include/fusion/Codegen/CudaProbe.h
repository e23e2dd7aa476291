//===- CudaProbe.h - Registers and spills of a group on a GPU ---*- C++ -*-===//
//
// The probe of the target `cuda`: compiles one group as the module that is
// being compiled will, and says what the assembler says of its kernel.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_CODEGEN_CUDAPROBE_H
#define FUSION_CODEGEN_CUDAPROBE_H

#include "fusion/Analysis/KernelProbe.h"
#include "fusion/Codegen/DeviceCode.h"

namespace fusion {

/// A probe that compiles with `options`, and by `fp` ("strict" or "fast").
/// Null without an assembler: estimates decide. It asks for groups only whose
/// estimate comes near what a thread can have, as each takes a run of the
/// assembler.
std::unique_ptr<KernelProbe> createCudaProbe(const DeviceCodeOptions &options,
                                             llvm::StringRef fp);

} // namespace fusion

#endif // FUSION_CODEGEN_CUDAPROBE_H

//===- PtxKernel.h - A kernel of the runtime's own --------------*- C++ -*-===//
//
// One entry of a text of PTX, which the driver compiles as it loads it.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_CUDA_PTXKERNEL_H
#define FUSION_RUNTIME_CUDA_PTXKERNEL_H

#include "Driver.h"

namespace fusion::rt::cuda {

/// The context is current in all functions.
class PtxKernel {
public:
  explicit PtxKernel(const Driver &driver) : driver(driver) {}
  ~PtxKernel();
  PtxKernel(const PtxKernel &) = delete;

  /// Loads the entry `name` of `ptx`, once. `what` tells it in an error, as in
  /// "the kernel that waits".
  Status load(const char *ptx, const char *name, const char *what);
  /// Null until it is loaded.
  CUfunction get() const { return function; }

private:
  const Driver &driver;
  CUmodule module = nullptr;
  CUfunction function = nullptr;
};

} // namespace fusion::rt::cuda

#endif // FUSION_RUNTIME_CUDA_PTXKERNEL_H

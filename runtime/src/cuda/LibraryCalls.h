//===- LibraryCalls.h - Contractions that a CUDA library does ---*- C++ -*-===//
#ifndef FUSION_RUNTIME_CUDA_LIBRARYCALLS_H
#define FUSION_RUNTIME_CUDA_LIBRARYCALLS_H

#include "Driver.h"
#include "ModuleData.h"

namespace fusion::rt::cuda {

/// A library call at one batch, planned.
class CudaCall {
public:
  virtual ~CudaCall() = default;
  /// Bytes of scratch memory that `enqueue` needs.
  virtual uint64_t workspace() const = 0;
  /// Puts the call on `stream`, which may be captured: allocates nothing and
  /// waits for nothing. `operands`: device addresses in the call's order, all
  /// members' one after the other. `workspace` starts at a multiple of 256.
  virtual Status enqueue(CUstream stream, void *const *operands,
                         void *workspace) = 0;
};

class Tuner;

/// cuBLASLt and cuDNN, opened when the first call needs them. The context is
/// current in all functions.
class CudaLibraries {
public:
  virtual ~CudaLibraries() = default;
  /// `tuner`: chooses among the libraries' ways; null takes their first one.
  static Expected<std::unique_ptr<CudaLibraries>> open(const Driver &driver,
                                                       Tuner *tuner = nullptr);
  /// `isAligned`: all operands will start at multiples of 16 bytes. `Rejected`
  /// if no library computes the call on such operands.
  virtual Expected<std::unique_ptr<CudaCall>>
  plan(const LibraryCall &call, int64_t batch, bool isAligned = true) = 0;
};

} // namespace fusion::rt::cuda

#endif // FUSION_RUNTIME_CUDA_LIBRARYCALLS_H

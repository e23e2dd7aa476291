//===- BlasLt.h - Products by cuBLASLt --------------------------*- C++ -*-===//
//
// Plans matrix products at concrete sizes. Nothing of cuBLASLt's headers is
// needed to build; the types here are opaque.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_CUDA_BLASLT_H
#define FUSION_RUNTIME_CUDA_BLASLT_H

#include "LibraryCalls.h"

#include <memory>

namespace fusion::rt::cuda {

struct BlasLtApi;
class SideStreams;
class Tuner;

/// Copies rows to columns: `count` matrices [rows, columns], one behind the
/// other, to [columns, rows].
class TransposeCall {
public:
  virtual ~TransposeCall() = default;
  virtual Status enqueue(CUstream stream, const void *from, void *to) = 0;
};

/// A cuBLASLt handle of the current context. Calls that it planned must not
/// outlive it.
class BlasLt {
public:
  /// `Environment` without the library. `sides` is for calls of several
  /// products; `tuner`, or null, chooses among algorithms. Both outlive it.
  static Expected<std::unique_ptr<BlasLt>> open(SideStreams &sides,
                                                Tuner *tuner);
  ~BlasLt();

  /// `call.op` is MatMul, of F16, BF16, F32 or F64. `Rejected` if the library
  /// has no algorithm for it, on operands that start at multiples of 16 bytes
  /// or, not `isAligned`, anywhere.
  Expected<std::unique_ptr<CudaCall>>
  planMatMul(const LibraryCall &call, int64_t batch, bool isAligned = true);
  Expected<std::unique_ptr<TransposeCall>>
  planTranspose(DType dtype, int64_t count, int64_t rows, int64_t columns);

private:
  BlasLt(SideStreams &sides, Tuner *tuner) : sides(sides), tuner(tuner) {}
  SideStreams &sides;
  Tuner *tuner;
  const BlasLtApi *api = nullptr;
  void *handle = nullptr;
};

} // namespace fusion::rt::cuda

#endif // FUSION_RUNTIME_CUDA_BLASLT_H

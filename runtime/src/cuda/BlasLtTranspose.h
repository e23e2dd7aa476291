//===- BlasLtTranspose.h - Rows to columns by cuBLASLt ----------*- C++ -*-===//
#ifndef FUSION_RUNTIME_CUDA_BLASLTTRANSPOSE_H
#define FUSION_RUNTIME_CUDA_BLASLTTRANSPOSE_H

#include "BlasLt.h"
#include "BlasLtApi.h"

namespace fusion::rt::cuda {

/// What BlasLt::planTranspose gives, of the library itself.
Expected<std::unique_ptr<TransposeCall>>
planTranspose(const BlasLtApi &api, LtHandle handle, DType dtype, int64_t count,
              int64_t rows, int64_t columns);

} // namespace fusion::rt::cuda

#endif // FUSION_RUNTIME_CUDA_BLASLTTRANSPOSE_H

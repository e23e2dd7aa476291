//===- BlasLtApi.h - The entries of cuBLASLt --------------------*- C++ -*-===//
//
// Types, constants and entries of cuBLASLt 12 and 13, declared here.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_CUDA_BLASLTAPI_H
#define FUSION_RUNTIME_CUDA_BLASLTAPI_H

#include "Driver.h"
#include "ModuleData.h"

namespace fusion::rt::cuda {

using LtHandle = void *;
using LtDesc = void *;   ///< of an operation
using LtLayout = void *; ///< of a matrix
using LtPreference = void *;

struct LtAlgorithm {
  uint64_t data[8];
};
struct LtHeuristicResult {
  LtAlgorithm algorithm;
  size_t workspaceSize;
  int state;
  float wavesCount;
  int reserved[4];
};

// cudaDataType
constexpr int kLtF32 = 0, kLtF64 = 1, kLtF16 = 2, kLtBF16 = 14;
// cublasComputeType_t
constexpr int kLtCompute32 = 68, kLtCompute64 = 70, kLtComputeTf32 = 77;
constexpr int kLtAllocFailed = 3;
// Attributes of a layout
constexpr int kLtBatchCount = 5, kLtBatchOffset = 6;
// Attributes of an operation
constexpr int kLtTransA = 3, kLtTransB = 4, kLtEpilogue = 7, kLtBiasPointer = 8,
              kLtBiasBatchStride = 10, kLtAuxPointer = 11, kLtAuxLeading = 12,
              kLtAuxBatchStride = 13, kLtMostUnits = 15, kLtBiasType = 26;
// Settings of an algorithm
constexpr int kLtSwizzling = 4, kLtClusterShape = 8;
// Attributes of a transform
constexpr int kLtTransformTransA = 2;
// Epilogues: bits, but for the first. Gradients are alone, but for the sum of
// the result behind a gelu's.
constexpr uint32_t kLtDefault = 1, kLtRelu = 2, kLtBias = 4, kLtGelu = 32,
                   kLtSumResult = 16, kLtGeluGrad = 64 | 128, kLtSumA = 256,
                   kLtSumB = 512;
// Attributes of a preference
constexpr int kLtMaxWorkspace = 1, kLtReductions = 3, kLtAlignA = 5,
              kLtAlignD = 8;
constexpr uint32_t kLtReduceInCompute = 2, kLtReduceAny = 7;

#define FUSION_BLASLT_ENTRIES(ENTRY)                                           \
  ENTRY(create, "cublasLtCreate", LtHandle *)                                  \
  ENTRY(destroy, "cublasLtDestroy", LtHandle)                                  \
  ENTRY(descCreate, "cublasLtMatmulDescCreate", LtDesc *, int, int)            \
  ENTRY(descDestroy, "cublasLtMatmulDescDestroy", LtDesc)                      \
  ENTRY(descSet, "cublasLtMatmulDescSetAttribute", LtDesc, int, const void *,  \
        size_t)                                                                \
  ENTRY(layoutCreate, "cublasLtMatrixLayoutCreate", LtLayout *, int, uint64_t, \
        uint64_t, int64_t)                                                     \
  ENTRY(layoutDestroy, "cublasLtMatrixLayoutDestroy", LtLayout)                \
  ENTRY(layoutSet, "cublasLtMatrixLayoutSetAttribute", LtLayout, int,          \
        const void *, size_t)                                                  \
  ENTRY(preferenceCreate, "cublasLtMatmulPreferenceCreate", LtPreference *)    \
  ENTRY(preferenceDestroy, "cublasLtMatmulPreferenceDestroy", LtPreference)    \
  ENTRY(preferenceSet, "cublasLtMatmulPreferenceSetAttribute", LtPreference,   \
        int, const void *, size_t)                                             \
  ENTRY(heuristics, "cublasLtMatmulAlgoGetHeuristic", LtHandle, LtDesc,        \
        LtLayout, LtLayout, LtLayout, LtLayout, LtPreference, int,             \
        LtHeuristicResult *, int *)                                            \
  ENTRY(algorithmCheck, "cublasLtMatmulAlgoCheck", LtHandle, LtDesc, LtLayout, \
        LtLayout, LtLayout, LtLayout, const LtAlgorithm *,                     \
        LtHeuristicResult *)                                                   \
  ENTRY(algorithmSet, "cublasLtMatmulAlgoConfigSetAttribute", LtAlgorithm *,   \
        int, const void *, size_t)                                             \
  ENTRY(matmul, "cublasLtMatmul", LtHandle, LtDesc, const void *,              \
        const void *, LtLayout, const void *, LtLayout, const void *,          \
        const void *, LtLayout, void *, LtLayout, const LtAlgorithm *, void *, \
        size_t, CUstream)                                                      \
  ENTRY(transformCreate, "cublasLtMatrixTransformDescCreate", LtDesc *, int)   \
  ENTRY(transformDestroy, "cublasLtMatrixTransformDescDestroy", LtDesc)        \
  ENTRY(transformSet, "cublasLtMatrixTransformDescSetAttribute", LtDesc, int,  \
        const void *, size_t)                                                  \
  ENTRY(transform, "cublasLtMatrixTransform", LtHandle, LtDesc, const void *,  \
        const void *, LtLayout, const void *, const void *, LtLayout, void *,  \
        LtLayout, CUstream)

struct BlasLtApi {
#define FUSION_BLASLT_DECLARE(name, symbol, ...)                               \
  int (*name)(__VA_ARGS__) = nullptr;
  FUSION_BLASLT_ENTRIES(FUSION_BLASLT_DECLARE)
#undef FUSION_BLASLT_DECLARE

  size_t (*version)() = nullptr; ///< may be null

  static Expected<const BlasLtApi *> open();
  /// "cuBLASLt 130100".
  std::string name() const {
    return "cuBLASLt " + (version ? std::to_string(version()) : "");
  }
  /// `Ok`, or the error that `entry` gave.
  Status check(int status, const char *entry) const;
};

/// A descriptor of the library and the entry that frees it.
class LtOwned {
public:
  LtOwned(int (*release)(void *)) : release(release) {}
  LtOwned(LtOwned &&other) : release(other.release), value(other.value) {
    other.value = nullptr;
  }
  LtOwned &operator=(LtOwned &&) = delete;
  ~LtOwned() {
    if (value)
      release(value);
  }
  void *get() const { return value; }
  void **slot() { return &value; }

private:
  int (*release)(void *);
  void *value = nullptr;
};

/// Of F16, BF16, F32 or F64.
int getLtType(DType dtype);

} // namespace fusion::rt::cuda

#endif // FUSION_RUNTIME_CUDA_BLASLTAPI_H

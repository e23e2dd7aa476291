//===- Dnn.h - Convolutions and attention by cuDNN --------------*- C++ -*-===//
//
// Plans convolutions with what follows them, and attention, at concrete sizes.
// Nothing of cuDNN's headers is needed to build.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_CUDA_DNN_H
#define FUSION_RUNTIME_CUDA_DNN_H

#include "BlasLt.h"

namespace fusion::rt::cuda {

struct DnnApi;

/// A call with the name of what it runs.
class DnnCall : public CudaCall {
public:
  virtual std::string describe() const = 0;
};

/// A cuDNN handle of the current context. Calls that it planned must not
/// outlive it.
class Dnn {
public:
  /// `Environment` without the library.
  static Expected<std::unique_ptr<Dnn>> open();
  ~Dnn();

  /// `call.op` is Conv or ConvTranspose, of F16, BF16 or F32. `blas` lays out
  /// weights; null where none must be. `Rejected` if no engine computes it.
  /// `tuner`, or null, chooses among its ways.
  Expected<std::unique_ptr<CudaCall>> planConv(const LibraryCall &call,
                                               int64_t batch, BlasLt *blas,
                                               Tuner *tuner = nullptr);
  /// Up to `most` ways to compute it, in the order of cuDNN's heuristics; the
  /// first is what `planConv` takes.
  Expected<std::vector<std::unique_ptr<DnnCall>>>
  planConvs(const LibraryCall &call, int64_t batch, BlasLt *blas, size_t most);
  /// `call.op` is Attention, of F16 or BF16. `Rejected` if no engine computes
  /// it.
  Expected<std::unique_ptr<CudaCall>> planAttention(const LibraryCall &call,
                                                    int64_t batch);
  /// Up to `most` ways to compute it, as `planConvs`.
  Expected<std::vector<std::unique_ptr<DnnCall>>>
  planAttentions(const LibraryCall &call, int64_t batch, size_t most);
  /// `call.op` is AttentionGrad, of F16 or BF16. `Rejected` if no engine
  /// computes it with the same bits at every run.
  Expected<std::unique_ptr<CudaCall>> planAttentionGrad(const LibraryCall &call,
                                                        int64_t batch);
  /// Up to `most` ways to compute it, as `planConvs`.
  Expected<std::vector<std::unique_ptr<DnnCall>>>
  planAttentionGrads(const LibraryCall &call, int64_t batch, size_t most);
  /// Whether `planConv` needs `blas`.
  static bool movesWeights(const LibraryCall &call);

private:
  Dnn() = default;
  const DnnApi *api = nullptr;
  void *handle = nullptr;
};

} // namespace fusion::rt::cuda

#endif // FUSION_RUNTIME_CUDA_DNN_H

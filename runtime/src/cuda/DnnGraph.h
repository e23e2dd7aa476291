//===- DnnGraph.h - Operations that cuDNN runs as one -----------*- C++ -*-===//
//
// Builds the operations of one graph and asks cuDNN how it may be run. The
// first error is kept: operations are added without looking, `plan` says what
// went wrong.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_CUDA_DNNGRAPH_H
#define FUSION_RUNTIME_CUDA_DNNGRAPH_H

#include "DnnApi.h"

namespace fusion::rt::cuda {

/// A number that a graph reads from the host: f32 or i32 by its bits.
struct DnnNumber {
  int64_t id = 0;
  uint32_t bits = 0;
};

/// A way to run a graph.
struct DnnPlan {
  DnnObject plan;
  std::vector<int64_t> ids; ///< of the tensors in memory
  std::vector<DnnNumber> numbers;
  uint64_t workspace = 0; ///< bytes
  std::string engine;     ///< cuDNN's number of it, for messages

  /// Runs it on `stream`; `memory[id]` is the address of a tensor.
  Status run(const DnnApi &api, DnnHandle handle, CUstream stream,
             const std::vector<void *> &memory, void *workspace);
};

class DnnGraph {
public:
  using Dims = std::vector<int64_t>;
  /// A tensor by its place in the graph.
  using Tensor = size_t;

  DnnGraph(const DnnApi &api, DnnHandle handle) : api(api), handle(handle) {}

  /// A tensor in memory: `id` is its index into what `DnnPlan::run` is given.
  Tensor addMemory(int64_t id, int type, const Dims &dims, const Dims &strides);
  /// A tensor that is never written to memory, nor are its strides.
  Tensor addVirtual(const Dims &dims, const Dims &strides, int type = kDnnF32);
  /// One number of `rank` dimensions, which the plan keeps.
  Tensor addNumber(float value, size_t rank);
  Tensor addNumber(int32_t value, size_t rank);

  struct Window {
    Dims strides, dilations, padLow, padHigh;
  };
  /// y = the cross-correlation of x with w, summed in f32; or, `isGradient`, x
  /// = its gradient at y.
  void addConvolution(Tensor x, Tensor w, Tensor y, const Window &window,
                      bool isGradient);
  /// y = mode(x), or mode(x, *b), in f32.
  void addPointwise(int mode, Tensor x, const Tensor *b, Tensor y) {
    addPointwise(mode, x, b, nullptr, y, kDnnF32, /*axis=*/-1);
  }
  /// y = mode(x, *b, *t) in `precision`; an index is that along `axis`.
  void addPointwise(int mode, Tensor x, const Tensor *b, const Tensor *t,
                    Tensor y, int precision, int64_t axis);
  /// c = a b, matrices in the last two dimensions, summed in f32.
  void addMatMul(Tensor a, Tensor b, Tensor c);
  /// y = x reduced where y's dimensions are 1, in f32.
  void addReduction(int mode, Tensor x, Tensor y);
  /// y = x, read in another order: that of y's strides.
  void addReshape(Tensor x, Tensor y);
  /// o = softmax(scale q k^T) v, k as [batch, heads, length, depth]; `stats`,
  /// or null, gets the logarithm of each row's sum.
  void addAttention(Tensor q, Tensor k, Tensor v, Tensor scale, Tensor o,
                    const Tensor *stats = nullptr);

  /// What an engine may do beside computing in the operands' precision, the
  /// same bits at every run, NaN and infinity where the sums have them.
  struct Promises {
    /// f32 may become tf32 or narrower.
    bool mayNarrow = false;
    /// A relu behind a convolution passes NaN on. Seen with cuDNN 9: the
    /// engines that compute anything, slowly, give 0 instead.
    bool reluKeepsNan = false;
    /// Bytes of scratch memory that it may use.
    int64_t workspace = int64_t(256) << 20;
  };
  /// Up to `most` plans, in the order of cuDNN's heuristics; at least one.
  /// `Rejected` if no engine keeps the promises.
  Expected<std::vector<DnnPlan>> plan(const Promises &promises, size_t most);

private:
  void note(const Status &status) {
    if (error.ok())
      error = status;
  }
  Tensor addNumber(int type, uint32_t bits, size_t rank);
  Tensor add(int64_t id, int type, const Dims &dims, const Dims &strides,
             bool isVirtual);
  bool hasNote(const DnnObject &engine, int note) const;
  bool keeps(const Promises &promises, const DnnObject &engine) const;
  Status tryMode(const DnnObject &graph, int mode, const Promises &promises,
                 size_t most, std::vector<DnnPlan> &plans);

  const DnnApi &api;
  DnnHandle handle;
  std::vector<DnnObject> tensors, ops, attributes;
  std::vector<int64_t> ids;
  std::vector<DnnNumber> numbers;
  Status error;
};

} // namespace fusion::rt::cuda

#endif // FUSION_RUNTIME_CUDA_DNNGRAPH_H

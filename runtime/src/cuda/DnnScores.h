//===- DnnScores.h - The scores of attention in a graph ---------*- C++ -*-===//
//
// What the graphs of attention and of its gradient have in common: sizes,
// row-major tensors, and the scores [batch, heads, rows, keys], which are never
// written to memory.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_CUDA_DNNSCORES_H
#define FUSION_RUNTIME_CUDA_DNNSCORES_H

#include "DnnGraph.h"

#include <limits>

namespace fusion::rt::cuda {

/// The sizes of a call, or of a part of it, at one batch.
struct AttentionSizes {
  int64_t batches = 0, heads = 0, groups = 0, rows = 0, keys = 0, depth = 0,
          width = 0;
  DnnGraph::Dims mask; ///< empty without one
  bool causal = false; ///< hides a key at all
  float scale = 0;
  int type = kDnnF16; ///< of the operands

  /// `Rejected` for what cuDNN does not take.
  static Expected<AttentionSizes> of(const LibraryCall &call, int64_t batch);
  bool isEmpty() const { return batches * heads * rows * width == 0; }
};

/// The tensors in memory of a graph.
enum DnnAttentionId : int64_t {
  kQuery = 1,
  kKey,
  kValue,
  kMask,
  kOutput,
  kStatistics, ///< f32, one a row: the logarithm of the sum of its powers
  kGrad,
  kRowSums, ///< f32, one a row: grad times output, summed
  kQueryGrad,
  kKeyGrad,
  kValueGrad,
  kAttentionIds
};

/// Distances of row-major elements.
inline DnnGraph::Dims rowMajor(const DnnGraph::Dims &dims) {
  DnnGraph::Dims strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  return strides;
}

/// Tensors over the scores of a graph, and operations on them.
class DnnScores {
public:
  using Dims = DnnGraph::Dims;
  using Tensor = DnnGraph::Tensor;

  DnnScores(DnnGraph &graph, const AttentionSizes &sizes)
      : graph(graph), sizes(sizes),
        dims{sizes.batches, sizes.heads, sizes.rows, sizes.keys},
        row{sizes.batches, sizes.heads, sizes.rows, 1} {}

  Tensor add(int type = kDnnF32) {
    return graph.addVirtual(dims, rowMajor(dims), type);
  }
  Tensor addRow() { return graph.addVirtual(row, rowMajor(row)); }
  /// One f32 a row, in memory.
  Tensor addRowInMemory(int64_t id) {
    return graph.addMemory(id, kDnnF32, row, rowMajor(row));
  }
  Tensor apply(int mode, Tensor x) {
    Tensor y = add();
    graph.addPointwise(mode, x, nullptr, y);
    return y;
  }
  Tensor apply(int mode, Tensor x, Tensor b) {
    Tensor y = add();
    graph.addPointwise(mode, x, &b, y);
    return y;
  }
  Tensor scale(Tensor x) {
    return apply(kModeMul, x, graph.addNumber(sizes.scale, 4));
  }
  /// -inf where the key lies behind the query.
  Tensor maskFuture(Tensor score);
  /// `statistics`: the logarithm of each row's sum, by whoever reads it.
  Tensor softmax(Tensor x, Tensor statistics);
  /// scale * query key^T + mask, and its operands.
  Tensor addProduct();
  Tensor query() const { return queryOf; }
  Tensor key() const { return keyOf; } ///< transposed
  /// A tensor [batch, `heads`, `length`, `columns`] in memory; `transposed`:
  /// its last two dimensions change places.
  Tensor addMemory(int64_t id, int64_t heads, int64_t length, int64_t columns,
                   bool transposed = false);
  Tensor addQuery(int64_t id) {
    return addMemory(id, sizes.heads, sizes.rows, sizes.depth);
  }
  Tensor addKey(int64_t id, bool transposed = false) {
    return addMemory(id, sizes.groups, sizes.keys, sizes.depth, transposed);
  }
  Tensor addValue(int64_t id, bool transposed = false) {
    return addMemory(id, sizes.groups, sizes.keys, sizes.width, transposed);
  }
  Tensor addOutput(int64_t id) {
    return addMemory(id, sizes.heads, sizes.rows, sizes.width);
  }
  /// The scores with columns for rows, in the operands' type.
  Tensor transpose(Tensor x) {
    Tensor y =
        graph.addVirtual({sizes.batches, sizes.heads, sizes.keys, sizes.rows},
                         {sizes.heads * sizes.rows * sizes.keys,
                          sizes.rows * sizes.keys, 1, sizes.keys},
                         sizes.type);
    graph.addReshape(x, y);
    return y;
  }

private:
  Tensor index(Tensor like, int64_t axis) {
    Tensor y = add(kDnnI32);
    graph.addPointwise(kModeIndex, like, nullptr, nullptr, y, kDnnF32, axis);
    return y;
  }
  Tensor shift(int mode, Tensor index, int64_t by) {
    Tensor y = add(kDnnI32), number = graph.addNumber(int32_t(by), 4);
    graph.addPointwise(mode, index, &number, nullptr, y, kDnnI32, /*axis=*/3);
    return y;
  }

  DnnGraph &graph;
  const AttentionSizes &sizes;
  Dims dims, row;
  Tensor queryOf = 0, keyOf = 0;
};

/// Attention as products around a softmax; `keepsStatistics`: also writes
/// them.
void addAttentionPattern(DnnGraph &graph, const AttentionSizes &sizes,
                         bool keepsStatistics);

} // namespace fusion::rt::cuda

#endif // FUSION_RUNTIME_CUDA_DNNSCORES_H

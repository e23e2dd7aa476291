//===- DnnScores.cpp - The scores of attention in a graph -----------------===//
//
// cuDNN knows attention as patterns of operations: their order is the
// library's, down to the statistics that nobody may read.
//
//===----------------------------------------------------------------------===//
#include "DnnScores.h"

#include "Checked.h"

#include <algorithm>

using namespace fusion::rt;
using namespace fusion::rt::cuda;

Expected<AttentionSizes> AttentionSizes::of(const LibraryCall &call,
                                            int64_t batch) {
  auto size = [&](const std::vector<Affine> &shape, size_t i) {
    return evaluate(shape[i], batch).value_or(0);
  };
  AttentionSizes sizes;
  sizes.batches = size(call.inputShape, 0);
  sizes.heads = size(call.inputShape, 1);
  sizes.rows = size(call.inputShape, 2);
  sizes.depth = size(call.inputShape, 3);
  sizes.groups = size(call.weightShape, 1);
  sizes.keys = size(call.weightShape, 2);
  sizes.width = size(call.outputShape, 3);
  for (size_t i = 0; i < call.maskShape.size(); ++i)
    sizes.mask.push_back(size(call.maskShape, i));
  // One query sees all keys up to its own, which is the last.
  sizes.causal = call.causal && sizes.rows > 1;
  sizes.scale = float(call.scale);
  sizes.type = call.dtype == DType::F16 ? kDnnF16 : kDnnBF16;
  if (call.dtype != DType::F16 && call.dtype != DType::BF16)
    return Status(Code::Rejected, "cuDNN runs attention of f16 and bf16 only; "
                                  "compile the model again");
  bool isOutOfRange =
      std::max({sizes.batches, sizes.heads, sizes.rows, sizes.keys}) >
      std::numeric_limits<int32_t>::max();
  if (isOutOfRange ||
      (!sizes.isEmpty() && (sizes.keys == 0 || sizes.depth == 0)) ||
      sizes.groups < 1 || (call.causal && sizes.rows > sizes.keys))
    return Status(Code::Rejected, "cuDNN runs no attention of these sizes; "
                                  "compile the model again");
  return sizes;
}

DnnScores::Tensor DnnScores::addMemory(int64_t id, int64_t heads,
                                       int64_t length, int64_t columns,
                                       bool transposed) {
  Dims size{sizes.batches, heads, length, columns}, strides = rowMajor(size);
  if (transposed) {
    std::swap(size[2], size[3]);
    std::swap(strides[2], strides[3]);
  }
  return graph.addMemory(id, sizes.type, size, strides);
}

DnnScores::Tensor DnnScores::addProduct() {
  queryOf = addQuery(kQuery);
  keyOf = addKey(kKey, /*transposed=*/true);
  Tensor score = add();
  graph.addMatMul(queryOf, keyOf, score);
  score = scale(score);
  if (!sizes.mask.empty())
    score = apply(
        kModeAdd, score,
        graph.addMemory(kMask, sizes.type, sizes.mask, rowMajor(sizes.mask)));
  return score;
}

DnnScores::Tensor DnnScores::maskFuture(Tensor score) {
  Tensor last = index(score, 2), key = index(score, 3);
  if (sizes.keys != sizes.rows) {
    last = shift(kModeAdd, last, sizes.keys);
    last = shift(kModeSub, last, sizes.rows);
  }
  Tensor keep = add(kDnnI1), y = add(),
         number = graph.addNumber(-std::numeric_limits<float>::infinity(), 4);
  graph.addPointwise(kModeNotLess, last, &key, nullptr, keep, kDnnI1, -1);
  graph.addPointwise(kModeSelect, score, &number, &keep, y, kDnnF32, -1);
  return y;
}

DnnScores::Tensor DnnScores::softmax(Tensor x, Tensor statistics) {
  Tensor largest = addRow(), sum = addRow(), y = add(sizes.type);
  graph.addReduction(kReduceMax, x, largest);
  Tensor power = apply(kModeExp, apply(kModeSub, x, largest));
  graph.addReduction(kReduceAdd, power, sum);
  Tensor log = addRow();
  graph.addPointwise(kModeLog, sum, nullptr, log);
  graph.addPointwise(kModeAdd, largest, &log, statistics);
  graph.addPointwise(kModeDiv, power, &sum, y);
  return y;
}

void fusion::rt::cuda::addAttentionPattern(DnnGraph &graph,
                                           const AttentionSizes &sizes,
                                           bool keepsStatistics) {
  DnnScores scores(graph, sizes);
  DnnScores::Tensor score = scores.addProduct();
  DnnScores::Tensor value = scores.addValue(kValue);
  if (sizes.causal)
    score = scores.maskFuture(score);
  DnnScores::Tensor statistics =
      keepsStatistics ? scores.addRowInMemory(kStatistics) : scores.addRow();
  DnnScores::Tensor weights = scores.softmax(score, statistics);
  graph.addMatMul(weights, value, scores.addOutput(kOutput));
}

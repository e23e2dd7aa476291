//===- DnnAttention.cpp - Attention by cuDNN ------------------------------===//
//
// Two products around a softmax are one graph, which cuDNN knows as a pattern:
// its order of operations is the library's, down to the statistics that nobody
// reads. Where no engine takes it, attention without mask is an operation of
// its own. Operands are row-major; scores stay in registers.
//
//===----------------------------------------------------------------------===//
#include "Checked.h"
#include "Dnn.h"
#include "DnnGraph.h"

#include <algorithm>
#include <limits>

using namespace fusion::rt;
using namespace fusion::rt::cuda;

namespace {

using Dims = DnnGraph::Dims;
using Tensor = DnnGraph::Tensor;

/// The tensors in memory.
enum Id : int64_t { kQuery = 1, kKey, kValue, kMask, kOutput, kIds };

class AttentionCall final : public DnnCall {
public:
  AttentionCall(const DnnApi &api, DnnHandle handle, const LibraryCall &call)
      : api(api), handle(handle), call(call) {}

  Status prepare(int64_t batch);
  /// Up to `most` plans that do the same, of the pattern or the operation.
  Expected<std::vector<DnnPlan>> plan(bool isPattern, size_t most);
  void take(DnnPlan made, bool isPattern) {
    stage = std::move(made);
    kind = isPattern ? "pattern" : "operation";
  }

  uint64_t workspace() const override { return stage.workspace; }
  Status enqueue(CUstream stream, void *const *operands,
                 void *workspace) override;
  std::string describe() const override {
    return std::string(kind) + ", engine " + stage.engine + ", " +
           std::to_string(stage.workspace) + " bytes of scratch";
  }
  bool isEmpty() const { return batches * heads * rows * width == 0; }
  /// Whether the operation says all of it.
  bool isPlain() const { return mask.empty() && !isCausal(); }

private:
  void addPattern(DnnGraph &graph) const;
  void addOperation(DnnGraph &graph) const;
  Tensor addMemory(DnnGraph &graph, Id id, const Dims &dims) const;
  int dataType() const { return call.dtype == DType::F16 ? kDnnF16 : kDnnBF16; }
  /// One query sees all keys up to its own, which is the last.
  bool isCausal() const { return call.causal && rows > 1; }

  const DnnApi &api;
  DnnHandle handle;
  LibraryCall call;
  int64_t batches = 0, heads = 0, groups = 0, rows = 0, keys = 0, depth = 0,
          width = 0;
  Dims mask;
  DnnPlan stage;
  const char *kind = "";
};

/// Distances of row-major elements.
Dims rowMajor(const Dims &dims) {
  Dims strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  return strides;
}

/// Virtual tensors over the scores of a graph, and operations on them.
class Scores {
public:
  Scores(DnnGraph &graph, Dims dims)
      : graph(graph), dims(std::move(dims)), row(this->dims) {
    row.back() = 1;
  }
  Tensor add(int type = kDnnF32) {
    return graph.addVirtual(dims, rowMajor(dims), type);
  }
  Tensor addRow() { return graph.addVirtual(row, rowMajor(row)); }
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
  Tensor index(Tensor like, int64_t axis) {
    Tensor y = add(kDnnI32);
    graph.addPointwise(kModeIndex, like, nullptr, nullptr, y, kDnnF32, axis);
    return y;
  }
  Tensor shift(int mode, Tensor index, int64_t by) {
    Tensor y = add(kDnnI32), number = graph.addNumber(int32_t(by), dims.size());
    graph.addPointwise(mode, index, &number, nullptr, y, kDnnI32, /*axis=*/3);
    return y;
  }
  Tensor keepIf(Tensor left, Tensor right, Tensor value, float otherwise) {
    Tensor keep = add(kDnnI1), y = add(),
           number = graph.addNumber(otherwise, dims.size());
    graph.addPointwise(kModeNotLess, left, &right, nullptr, keep, kDnnI1, -1);
    graph.addPointwise(kModeSelect, value, &number, &keep, y, kDnnF32, -1);
    return y;
  }
  /// In `type`.
  Tensor softmax(Tensor x, int type) {
    Tensor largest = addRow(), sum = addRow(), y = add(type);
    graph.addReduction(kReduceMax, x, largest);
    Tensor power = apply(kModeExp, apply(kModeSub, x, largest));
    graph.addReduction(kReduceAdd, power, sum);
    Tensor log = addRow(), statistics = addRow();
    graph.addPointwise(kModeLog, sum, nullptr, log);
    graph.addPointwise(kModeAdd, largest, &log, statistics);
    graph.addPointwise(kModeDiv, power, &sum, y);
    return y;
  }

private:
  DnnGraph &graph;
  Dims dims, row;
};

} // namespace

Status AttentionCall::prepare(int64_t batch) {
  auto size = [&](const std::vector<Affine> &shape, size_t i) {
    return evaluate(shape[i], batch).value_or(0);
  };
  batches = size(call.inputShape, 0);
  heads = size(call.inputShape, 1);
  rows = size(call.inputShape, 2);
  depth = size(call.inputShape, 3);
  groups = size(call.weightShape, 1);
  keys = size(call.weightShape, 2);
  width = size(call.outputShape, 3);
  for (size_t i = 0; i < call.maskShape.size(); ++i)
    mask.push_back(size(call.maskShape, i));
  if (call.dtype != DType::F16 && call.dtype != DType::BF16)
    return Status(Code::Rejected, "cuDNN runs attention of f16 and bf16 only; "
                                  "compile the model again");
  bool isOutOfRange = std::max({batches, heads, rows, keys}) >
                      std::numeric_limits<int32_t>::max();
  if (isOutOfRange || (!isEmpty() && (keys == 0 || depth == 0)) ||
      (call.causal && rows > keys))
    return Status(Code::Rejected, "cuDNN runs no attention of these sizes; "
                                  "compile the model again");
  return {};
}

Tensor AttentionCall::addMemory(DnnGraph &graph, Id id,
                                const Dims &dims) const {
  return graph.addMemory(id, dataType(), dims, rowMajor(dims));
}

void AttentionCall::addPattern(DnnGraph &graph) const {
  Tensor query = addMemory(graph, kQuery, {batches, heads, rows, depth});
  // Transposed by its strides.
  Tensor key = graph.addMemory(kKey, dataType(), {batches, groups, depth, keys},
                               {groups * keys * depth, keys * depth, 1, depth});
  Tensor value = addMemory(graph, kValue, {batches, groups, keys, width});
  Scores scores(graph, {batches, heads, rows, keys});
  Tensor score = scores.add();
  graph.addMatMul(query, key, score);
  score = scores.apply(kModeMul, score, graph.addNumber(float(call.scale), 4));
  if (!mask.empty())
    score = scores.apply(kModeAdd, score, addMemory(graph, kMask, mask));
  if (isCausal()) {
    Tensor row = scores.index(score, 2), column = scores.index(score, 3);
    if (keys != rows) {
      row = scores.shift(kModeAdd, row, keys);
      row = scores.shift(kModeSub, row, rows);
    }
    score = scores.keepIf(row, column, score,
                          -std::numeric_limits<float>::infinity());
  }
  Tensor weights = scores.softmax(score, dataType());
  graph.addMatMul(weights, value,
                  addMemory(graph, kOutput, {batches, heads, rows, width}));
}

void AttentionCall::addOperation(DnnGraph &graph) const {
  Tensor query = addMemory(graph, kQuery, {batches, heads, rows, depth});
  Tensor key = addMemory(graph, kKey, {batches, groups, keys, depth});
  Tensor value = addMemory(graph, kValue, {batches, groups, keys, width});
  graph.addAttention(query, key, value, graph.addNumber(float(call.scale), 4),
                     addMemory(graph, kOutput, {batches, heads, rows, width}));
}

Expected<std::vector<DnnPlan>> AttentionCall::plan(bool isPattern,
                                                   size_t most) {
  DnnGraph graph(api, handle);
  isPattern ? addPattern(graph) : addOperation(graph);
  DnnGraph::Promises promises;
  promises.mayNarrow = true;
  return graph.plan(promises, most);
}

Status AttentionCall::enqueue(CUstream stream, void *const *operands,
                              void *workspace) {
  if (isEmpty())
    return {};
  size_t perMember = 4 + !mask.empty();
  for (int64_t i = 0; i < call.members; ++i) {
    void *const *next = operands + i * perMember;
    std::vector<void *> memory(kIds, nullptr);
    memory[kQuery] = *next++;
    memory[kKey] = *next++;
    memory[kValue] = *next++;
    if (!mask.empty())
      memory[kMask] = *next++;
    memory[kOutput] = *next;
    FUSION_RT_TRY(stage.run(api, handle, stream, memory, workspace));
  }
  return {};
}

Expected<std::vector<std::unique_ptr<DnnCall>>>
Dnn::planAttentions(const LibraryCall &call, int64_t batch, size_t most) {
  std::vector<std::unique_ptr<DnnCall>> result;
  auto first = std::make_unique<AttentionCall>(*api, handle, call);
  FUSION_RT_TRY(first->prepare(batch));
  if (first->isEmpty()) {
    result.push_back(std::move(first));
    return result;
  }
  Status status;
  for (bool isPattern : {true, false}) {
    if (result.size() >= most || (!isPattern && !first->isPlain()))
      continue;
    auto plans = first->plan(isPattern, most - result.size());
    if (!plans) {
      if (isPattern)
        status = plans.status();
      continue;
    }
    for (DnnPlan &plan : *plans) {
      auto made = std::make_unique<AttentionCall>(*api, handle, call);
      FUSION_RT_TRY(made->prepare(batch));
      made->take(std::move(plan), isPattern);
      result.push_back(std::move(made));
    }
  }
  if (result.empty())
    return status;
  return result;
}

Expected<std::unique_ptr<CudaCall>> Dnn::planAttention(const LibraryCall &call,
                                                       int64_t batch) {
  auto calls = planAttentions(call, batch, 1);
  if (!calls)
    return calls.status();
  return std::unique_ptr<CudaCall>(std::move(calls->front()));
}

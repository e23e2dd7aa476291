//===- DnnAttention.cpp - Attention by cuDNN ------------------------------===//
//
// Two products around a softmax are one graph, which cuDNN knows as a pattern.
// Where no engine takes it, attention without mask is an operation of its own.
// Operands are row-major; scores stay in registers.
//
//===----------------------------------------------------------------------===//
#include "Dnn.h"
#include "DnnScores.h"

using namespace fusion::rt;
using namespace fusion::rt::cuda;

namespace {

class AttentionCall final : public DnnCall {
public:
  AttentionCall(const DnnApi &api, DnnHandle handle, AttentionSizes sizes,
                int64_t members)
      : api(api), handle(handle), sizes(std::move(sizes)), members(members) {}

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

private:
  void addOperation(DnnGraph &graph) const;

  const DnnApi &api;
  DnnHandle handle;
  AttentionSizes sizes;
  int64_t members;
  DnnPlan stage;
  const char *kind = "";
};

} // namespace

void AttentionCall::addOperation(DnnGraph &graph) const {
  DnnScores scores(graph, sizes);
  DnnGraph::Tensor query = scores.addQuery(kQuery), key = scores.addKey(kKey),
                   value = scores.addValue(kValue),
                   scale = graph.addNumber(sizes.scale, 4);
  graph.addAttention(query, key, value, scale, scores.addOutput(kOutput));
}

Expected<std::vector<DnnPlan>> AttentionCall::plan(bool isPattern,
                                                   size_t most) {
  DnnGraph graph(api, handle);
  if (isPattern)
    addAttentionPattern(graph, sizes, /*keepsStatistics=*/false);
  else
    addOperation(graph);
  DnnGraph::Promises promises;
  promises.mayNarrow = true;
  return graph.plan(promises, most);
}

Status AttentionCall::enqueue(CUstream stream, void *const *operands,
                              void *workspace) {
  if (sizes.isEmpty())
    return {};
  bool hasMask = !sizes.mask.empty();
  for (int64_t i = 0; i < members; ++i) {
    void *const *next = operands + i * (4 + hasMask);
    std::vector<void *> memory(kAttentionIds, nullptr);
    for (int64_t id : {kQuery, kKey, kValue})
      memory[id] = *next++;
    if (hasMask)
      memory[kMask] = *next++;
    memory[kOutput] = *next;
    FUSION_RT_TRY(stage.run(api, handle, stream, memory, workspace));
  }
  return {};
}

Expected<std::vector<std::unique_ptr<DnnCall>>>
Dnn::planAttentions(const LibraryCall &call, int64_t batch, size_t most) {
  std::vector<std::unique_ptr<DnnCall>> result;
  auto sizes = AttentionSizes::of(call, batch);
  if (!sizes)
    return sizes.status();
  auto make = [&] {
    return std::make_unique<AttentionCall>(*api, handle, *sizes, call.members);
  };
  if (sizes->isEmpty()) {
    result.push_back(make());
    return result;
  }
  // The operation says no more than this.
  bool isPlain = sizes->mask.empty() && !sizes->causal;
  Status status;
  for (bool isPattern : {true, false}) {
    if (result.size() >= most || (!isPattern && !isPlain))
      continue;
    auto plans = make()->plan(isPattern, most - result.size());
    if (!plans) {
      if (isPattern)
        status = plans.status();
      continue;
    }
    for (DnnPlan &plan : *plans) {
      auto made = make();
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

//===- DnnAttentionGrad.cpp - The gradients of attention by cuDNN ---------===//
//
// Two graphs: the forward pass again, for its output and each row's statistics,
// and the backward pass, which cuDNN knows as one pattern. Between the two lie
// scratch memory and nothing else.
//
// The gradient of the scores is a tensor that each of three products reads, so
// cuDNN writes it to scratch memory, and no sum depends on the order in which
// blocks end. Its pattern without that tensor adds up the gradient of the query
// by atomics. The tensor is quadratic in the length, so the heads are taken in
// parts: whole batches, or some groups of one batch.
//
//===----------------------------------------------------------------------===//
#include "Dnn.h"
#include "DnnScores.h"

#include <algorithm>

using namespace fusion::rt;
using namespace fusion::rt::cuda;

namespace {

/// Bytes of scores that a part may have, where one group has less.
constexpr int64_t kPartBytes = int64_t(256) << 20;
/// Scores are padded to squares of this size.
constexpr int64_t kTile = 64;

uint64_t alignUp(uint64_t bytes) { return (bytes + 255) / 256 * 256; }

class AttentionGradCall final : public DnnCall {
public:
  AttentionGradCall(const DnnApi &api, DnnHandle handle, AttentionSizes sizes,
                    int64_t members);

  Status plan();
  /// Up to `most` ways to go back.
  Expected<std::vector<DnnPlan>> planBackward(size_t most) const;
  void take(DnnPlan made) { backward = std::move(made); }

  uint64_t workspace() const override {
    return scratchOffset() + std::max(forward.workspace, backward.workspace);
  }
  Status enqueue(CUstream stream, void *const *operands,
                 void *workspace) override;
  std::string describe() const override {
    return "forward engine " + forward.engine + ", backward engine " +
           backward.engine + ", " + std::to_string(workspace()) +
           " bytes of scratch, " + std::to_string(numParts()) + " parts";
  }

private:
  void addForward(DnnGraph &graph, bool isPattern) const;
  void addBackward(DnnGraph &graph) const;
  Status runPart(CUstream stream, std::vector<void *> memory, void *workspace);
  int64_t numParts() const {
    return whole.batches / part.batches * (whole.groups / part.groups);
  }
  // The scratch memory: output, statistics, sums of rows, and the engines'.
  uint64_t rowBytes() const {
    return alignUp(uint64_t(part.batches * part.heads * part.rows) *
                   sizeof(float));
  }
  uint64_t statisticsOffset() const {
    return alignUp(
        uint64_t(part.batches * part.heads * part.rows * part.width) * 2);
  }
  uint64_t scratchOffset() const { return statisticsOffset() + 2 * rowBytes(); }

  const DnnApi &api;
  DnnHandle handle;
  AttentionSizes whole, part;
  int64_t members;
  DnnPlan forward, backward;
};

/// The largest divisor of `count` whose parts of `bytes` fit, at least 1.
int64_t findPart(int64_t count, int64_t bytes) {
  int64_t most =
      std::clamp<int64_t>(kPartBytes / std::max<int64_t>(bytes, 1), 1, count);
  while (count % most != 0)
    --most;
  return most;
}

} // namespace

AttentionGradCall::AttentionGradCall(const DnnApi &api, DnnHandle handle,
                                     AttentionSizes sizes, int64_t members)
    : api(api), handle(handle), whole(std::move(sizes)), part(whole),
      members(members) {
  auto padded = [](int64_t size) { return (size + kTile - 1) / kTile * kTile; };
  int64_t repeats = whole.heads / whole.groups;
  int64_t bytes = 2 * repeats * padded(whole.rows) * padded(whole.keys);
  part.groups = findPart(whole.groups, bytes);
  part.heads = part.groups * repeats;
  part.batches = part.groups < whole.groups
                     ? 1
                     : findPart(whole.batches, whole.groups * bytes);
  if (!part.mask.empty()) {
    part.mask[0] = part.mask[0] == 1 ? 1 : part.batches;
    part.mask[1] = part.mask[1] == 1 ? 1 : part.heads;
  }
}

void AttentionGradCall::addForward(DnnGraph &graph, bool isPattern) const {
  if (isPattern)
    return addAttentionPattern(graph, part, /*keepsStatistics=*/true);
  DnnScores scores(graph, part);
  DnnGraph::Tensor query = scores.addQuery(kQuery), key = scores.addKey(kKey),
                   value = scores.addValue(kValue),
                   scale = graph.addNumber(part.scale, 4),
                   statistics = scores.addRowInMemory(kStatistics);
  graph.addAttention(query, key, value, scale, scores.addOutput(kOutput),
                     &statistics);
}

void AttentionGradCall::addBackward(DnnGraph &graph) const {
  using Tensor = DnnGraph::Tensor;
  DnnScores scores(graph, part);
  DnnGraph::Dims outputs{part.batches, part.heads, part.rows, part.width};
  Tensor grad = scores.addOutput(kGrad), output = scores.addOutput(kOutput);

  // What softmax takes back from each row: the sum of grad times output.
  Tensor products = graph.addVirtual(outputs, rowMajor(outputs));
  graph.addPointwise(kModeMul, grad, &output, products);
  Tensor sums = scores.addRow(), rowSums = scores.addRowInMemory(kRowSums),
         one = graph.addNumber(1.0f, 4);
  graph.addReduction(kReduceAdd, products, sums);
  graph.addPointwise(kModeMul, sums, &one, rowSums);

  // The weights again, from the statistics.
  DnnScores::Tensor score = scores.addProduct();
  score = scores.apply(kModeSub, score, scores.addRowInMemory(kStatistics));
  if (part.causal)
    score = scores.maskFuture(score);
  Tensor weights = scores.apply(kModeExp, score);

  // A product over the rows, summed over the heads of each group.
  auto addOverRows = [&](Tensor left, Tensor right, int64_t columns,
                         Tensor result) {
    if (part.heads == part.groups)
      return graph.addMatMul(left, right, result);
    DnnGraph::Dims heads{part.batches, part.heads, part.keys, columns};
    Tensor each = graph.addVirtual(heads, rowMajor(heads), part.type);
    graph.addMatMul(left, right, each);
    graph.addReduction(kReduceAdd, each, result);
  };
  addOverRows(scores.transpose(weights), grad, part.width,
              scores.addValue(kValueGrad));

  Tensor scoreGrad = scores.add();
  graph.addMatMul(grad, scores.addValue(kValue, /*transposed=*/true),
                  scoreGrad);
  scoreGrad = scores.apply(kModeSub, scoreGrad, rowSums);
  scoreGrad = scores.apply(kModeMul, scoreGrad, weights);
  scoreGrad = scores.scale(scoreGrad);
  addOverRows(scores.transpose(scoreGrad), scores.query(), part.depth,
              scores.addKey(kKeyGrad));

  DnnGraph::Dims keys{part.batches, part.groups, part.keys, part.depth};
  Tensor key = graph.addVirtual(keys, rowMajor(keys), part.type);
  graph.addReshape(scores.key(), key);
  graph.addMatMul(scoreGrad, key, scores.addQuery(kQueryGrad));
}

Expected<std::vector<DnnPlan>>
AttentionGradCall::planBackward(size_t most) const {
  DnnGraph graph(api, handle);
  addBackward(graph);
  DnnGraph::Promises promises;
  promises.mayNarrow = true;
  // A part is as small as it gets; the session's budget has the last word.
  promises.workspace = std::numeric_limits<int64_t>::max();
  return graph.plan(promises, most);
}

Status AttentionGradCall::plan() {
  DnnGraph::Promises promises;
  promises.mayNarrow = true;
  bool isPlain = part.mask.empty() && !part.causal;
  Status status;
  for (bool isPattern : {true, false}) {
    if (!isPattern && !isPlain)
      continue;
    DnnGraph graph(api, handle);
    addForward(graph, isPattern);
    auto plans = graph.plan(promises, 1);
    if (plans) {
      forward = std::move(plans->front());
      return {};
    }
    if (isPattern)
      status = plans.status();
  }
  return status;
}

Status AttentionGradCall::runPart(CUstream stream, std::vector<void *> memory,
                                  void *workspace) {
  auto at = [&](uint64_t offset) -> void * {
    return static_cast<char *>(workspace) + offset;
  };
  memory[kOutput] = workspace;
  memory[kStatistics] = at(statisticsOffset());
  memory[kRowSums] = at(statisticsOffset() + rowBytes());
  FUSION_RT_TRY(forward.run(api, handle, stream, memory, at(scratchOffset())));
  return backward.run(api, handle, stream, memory, at(scratchOffset()));
}

Status AttentionGradCall::enqueue(CUstream stream, void *const *operands,
                                  void *workspace) {
  bool hasMask = !whole.mask.empty();
  std::vector<int64_t> order = {kQuery, kKey, kValue, kGrad};
  if (hasMask)
    order.push_back(kMask);
  order.insert(order.end(), {kQueryGrad, kKeyGrad, kValueGrad});
  constexpr int64_t kBytes = 2;
  int64_t repeats = whole.heads / whole.groups;
  int64_t queryBytes = kBytes * whole.rows * whole.depth,
          outputBytes = kBytes * whole.rows * whole.width,
          keyBytes = kBytes * whole.keys * whole.depth,
          valueBytes = kBytes * whole.keys * whole.width,
          maskBytes = kBytes * whole.rows * whole.keys;
  for (int64_t i = 0; i < members; ++i)
    for (int64_t b = 0; b < whole.batches; b += part.batches)
      for (int64_t g = 0; g < whole.groups; g += part.groups) {
        int64_t group = b * whole.groups + g, head = group * repeats;
        int64_t mask = 0;
        if (hasMask)
          mask = (whole.mask[0] == 1 ? 0 : b) * whole.mask[1] +
                 (whole.mask[1] == 1 ? 0 : g * repeats);
        auto offset = [&](int64_t id) {
          return id == kQuery || id == kQueryGrad   ? head * queryBytes
                 : id == kKey || id == kKeyGrad     ? group * keyBytes
                 : id == kValue || id == kValueGrad ? group * valueBytes
                 : id == kMask                      ? mask * maskBytes
                                                    : head * outputBytes;
        };
        std::vector<void *> memory(kAttentionIds, nullptr);
        for (size_t n = 0; n < order.size(); ++n)
          memory[order[n]] =
              static_cast<char *>(operands[i * order.size() + n]) +
              offset(order[n]);
        FUSION_RT_TRY(runPart(stream, std::move(memory), workspace));
      }
  return {};
}

/// What versions of cuDNN compute wrong, by its own frontend's list; "" if this
/// one is not among them.
static const char *findFault(const DnnApi &api, const AttentionSizes &sizes) {
  size_t version = api.version ? api.version() : 0;
  if (version < 90600)
    return "gradients of attention need cuDNN 9.6";
  if (version == 91000 || version == 91001)
    return "cuDNN 9.10.0 and 9.10.1 have faults in gradients of attention; "
           "install 9.10.2 or newer";
  if (version <= 91500 && sizes.keys % 128 != 0)
    return "gradients of attention over other than multiples of 128 keys need "
           "a cuDNN newer than 9.15.0";
  return "";
}

Expected<std::vector<std::unique_ptr<DnnCall>>>
Dnn::planAttentionGrads(const LibraryCall &call, int64_t batch, size_t most) {
  auto sizes = AttentionSizes::of(call, batch);
  if (!sizes)
    return sizes.status();
  if (sizes->batches * sizes->heads * sizes->rows * sizes->keys * sizes->depth *
          sizes->width ==
      0)
    return Status(Code::Rejected, "cuDNN runs no gradient of empty attention");
  if (std::string fault = findFault(*api, *sizes); !fault.empty())
    return Status(Code::Rejected, fault);
  auto make = [&] {
    return std::make_unique<AttentionGradCall>(*api, handle, *sizes,
                                               call.members);
  };
  auto plans = make()->planBackward(most);
  if (!plans)
    return plans.status();
  std::vector<std::unique_ptr<DnnCall>> result;
  for (DnnPlan &plan : *plans) {
    auto made = make();
    FUSION_RT_TRY(made->plan());
    made->take(std::move(plan));
    result.push_back(std::move(made));
  }
  return result;
}

Expected<std::unique_ptr<CudaCall>>
Dnn::planAttentionGrad(const LibraryCall &call, int64_t batch) {
  auto calls = planAttentionGrads(call, batch, 1);
  if (!calls)
    return calls.status();
  return std::unique_ptr<CudaCall>(std::move(calls->front()));
}

//===- DnnConv.cpp - Convolutions by cuDNN --------------------------------===//
//
// A convolution and its epilogue are one graph. Where no engine takes them
// together, or only such as lose NaN, the convolution and the epilogue are two
// graphs with a tensor between them. A transposed convolution is the gradient
// of one.
//
//===----------------------------------------------------------------------===//
#include "Checked.h"
#include "Dnn.h"
#include "DnnGraph.h"
#include "Tuner.h"

#include <algorithm>

using namespace fusion::rt;
using namespace fusion::rt::cuda;

bool Dnn::movesWeights(const LibraryCall &call) {
  if (!call.channelsLast || call.weightsLast || call.weightShape[1].base == 1)
    return false;
  // With a window of one element both orders are the same.
  return std::any_of(call.weightShape.begin() + 2, call.weightShape.end(),
                     [](Affine size) { return size.base != 1; });
}

namespace {

using Dims = DnnGraph::Dims;

/// Plans of one call that are told apart by their times, at most.
constexpr size_t kMostPlans = 8;

/// The tensors in memory.
enum Id : int64_t { kX = 1, kW, kBias, kAddend, kY, kBetween, kIds };

class ConvCall final : public DnnCall {
public:
  ConvCall(const DnnApi &api, DnnHandle handle, const LibraryCall &call)
      : api(api), handle(handle), call(call) {}

  Status prepare(int64_t batch);
  /// Up to `most` lists of stages that do the same.
  Expected<std::vector<std::vector<DnnPlan>>> plan(size_t most);
  Status take(std::vector<DnnPlan> stages, BlasLt *blas);

  uint64_t workspace() const override { return workspaceSize; }
  Status enqueue(CUstream stream, void *const *operands,
                 void *workspace) override;
  std::string describe() const override;
  /// All that the choice of an engine depends on.
  std::string getName() const;
  /// Of all operands of one member, in their order, rounded up to 256.
  std::vector<uint64_t> operandBytes() const;
  bool isEmpty() const { return std::count(y.begin(), y.end(), 0) > 0; }

private:
  Dims shapeOf(const std::vector<Affine> &shape, int64_t batch) const;
  Dims stridesOf(const Dims &dims) const;
  int dataType() const {
    return call.dtype == DType::F32   ? kDnnF32
           : call.dtype == DType::F16 ? kDnnF16
                                      : kDnnBF16;
  }
  bool hasEpilogue() const {
    return call.hasBias || call.hasAddend ||
           call.activation != Activation::None;
  }
  Expected<std::vector<DnnPlan>> build(bool conv, bool epilogue,
                                       bool addendFirst, size_t most);

  const DnnApi &api;
  DnnHandle handle;
  LibraryCall call;
  Dims x, w, y;
  std::vector<DnnPlan> stages;
  std::unique_ptr<TransposeCall> moveWeights;
  /// In the workspace: moved weights, the tensor between two stages, scratch.
  uint64_t betweenAt = 0, scratchAt = 0, workspaceSize = 0;
};

} // namespace

/// The library knows two or three spatial dimensions: one has a unit in front.
Dims ConvCall::shapeOf(const std::vector<Affine> &shape, int64_t batch) const {
  Dims result;
  for (Affine size : shape)
    result.push_back(evaluate(size, batch).value_or(0));
  if (result.size() == 3)
    result.insert(result.begin() + 2, 1);
  return result;
}

Dims ConvCall::stridesOf(const Dims &dims) const {
  Dims strides(dims.size());
  int64_t stride = 1;
  if (call.channelsLast) {
    strides[1] = 1;
    stride = dims[1];
  }
  for (size_t i = dims.size(); i-- > 0;) {
    if (call.channelsLast && i == 1)
      continue;
    strides[i] = stride;
    stride *= dims[i];
  }
  return strides;
}

/// Plans for one graph of the convolution, its epilogue, or both.
Expected<std::vector<DnnPlan>> ConvCall::build(bool conv, bool epilogue,
                                               bool addendFirst, size_t most) {
  DnnGraph graph(api, handle);
  std::vector<Id> steps;
  if (epilogue) {
    if (call.hasBias)
      steps.push_back(kBias);
    if (call.hasAddend)
      steps.insert(addendFirst ? steps.begin() : steps.end(), kAddend);
    if (call.activation == Activation::Relu)
      steps.push_back(kY);
  }
  Dims yStrides = stridesOf(y);
  auto memory = [&](Id id, const Dims &dims) {
    return graph.addMemory(id, dataType(), dims, stridesOf(dims));
  };
  // The last step writes to memory.
  auto output = [&](bool isLast) {
    return isLast ? memory(epilogue ? kY : kBetween, y)
                  : graph.addVirtual(y, yStrides);
  };
  DnnGraph::Tensor value;
  if (conv) {
    bool isFlat = call.inputShape.size() == 3;
    auto spatial = [&](Dims values, int64_t unit) {
      if (isFlat)
        values.insert(values.begin(), unit);
      return values;
    };
    DnnGraph::Tensor input = memory(kX, x), weights = memory(kW, w);
    value = output(steps.empty());
    bool isGradient = call.op == LibraryOp::ConvTranspose;
    // What is given is what the convolution would have put out.
    graph.addConvolution(isGradient ? value : input, weights,
                         isGradient ? input : value,
                         {spatial(call.strides, 1), spatial(call.dilations, 1),
                          spatial(call.padLow, 0), spatial(call.padHigh, 0)},
                         isGradient);
  } else {
    value = memory(kBetween, y);
  }
  for (size_t i = 0; i < steps.size(); ++i) {
    bool isRelu = steps[i] == kY;
    Dims dims = y;
    if (steps[i] == kBias) {
      std::fill(dims.begin(), dims.end(), 1);
      dims[1] = y[1];
    }
    DnnGraph::Tensor other = 0;
    if (!isRelu)
      other = memory(steps[i], dims);
    DnnGraph::Tensor next = output(i + 1 == steps.size());
    graph.addPointwise(isRelu ? kModeRelu : kModeAdd, value,
                       isRelu ? nullptr : &other, next);
    value = next;
  }
  DnnGraph::Promises promises;
  promises.mayNarrow = call.dtype != DType::F32 || call.computeTf32;
  promises.reluKeepsNan =
      conv && epilogue && call.activation == Activation::Relu;
  return graph.plan(promises, most);
}

Status ConvCall::prepare(int64_t batch) {
  if (call.activation != Activation::None &&
      call.activation != Activation::Relu)
    return Status(Code::Rejected, "cuDNN runs no gelu behind a convolution; "
                                  "compile the model again");
  // A transposed convolution's output is as long as it is told to be: the steps
  // of the convolution that it undoes need not reach the end.
  if (call.op == LibraryOp::ConvTranspose) {
    for (size_t i = 0; i < call.padLow.size(); ++i) {
      int64_t cut = call.padLow[i] - call.padHigh[i];
      if (cut < 0 || cut >= call.strides[i])
        return Status(Code::Rejected,
                      "cuDNN can't pad a transposed convolution so; compile "
                      "the model again");
    }
    call.padHigh = call.padLow;
  }
  x = shapeOf(call.inputShape, batch);
  w = shapeOf(call.weightShape, batch);
  y = shapeOf(call.outputShape, batch);
  return {};
}

Expected<std::vector<std::vector<DnnPlan>>> ConvCall::plan(size_t most) {
  std::vector<std::vector<DnnPlan>> result;
  Status status;
  for (bool addendFirst : {false, true}) {
    // Both orders are the same without one of the two.
    if (!result.empty() || (addendFirst && !(call.hasBias && call.hasAddend)))
      continue;
    auto plans = build(true, true, addendFirst, most);
    if (!plans) {
      if (!addendFirst)
        status = plans.status();
      continue;
    }
    for (DnnPlan &plan : *plans) {
      result.emplace_back();
      result.back().push_back(std::move(plan));
    }
  }
  if (!result.empty())
    return result;
  if (!hasEpilogue())
    return status;
  auto first = build(true, false, false, most);
  if (!first)
    return first.status();
  for (DnnPlan &plan : *first) {
    auto second = build(false, true, false, 1);
    if (!second)
      return second.status();
    result.emplace_back();
    result.back().push_back(std::move(plan));
    result.back().push_back(std::move(second->front()));
  }
  return result;
}

Status ConvCall::take(std::vector<DnnPlan> plans, BlasLt *blas) {
  stages = std::move(plans);
  auto align = [](uint64_t size) { return (size + 255) / 256 * 256; };
  auto bytesOf = [&](const Dims &dims) {
    uint64_t bytes = elementSize(call.dtype);
    for (int64_t size : dims)
      bytes *= uint64_t(size);
    return bytes;
  };
  if (Dnn::movesWeights(call)) {
    int64_t window = 1;
    for (size_t i = 2; i < w.size(); ++i)
      window *= w[i];
    auto move = blas->planTranspose(call.dtype, w[0], w[1], window);
    if (!move)
      return move.status();
    moveWeights = std::move(*move);
    betweenAt = align(bytesOf(w));
  }
  scratchAt = betweenAt;
  if (stages.size() > 1)
    scratchAt += align(bytesOf(y));
  workspaceSize = scratchAt;
  for (const DnnPlan &stage : stages)
    workspaceSize = std::max(workspaceSize, scratchAt + stage.workspace);
  return {};
}

std::string ConvCall::describe() const {
  std::string text;
  for (const DnnPlan &stage : stages)
    text += (text.empty() ? "engine " : " + engine ") + stage.engine;
  return text + ", " + std::to_string(workspaceSize) + " bytes of scratch";
}

std::string ConvCall::getName() const {
  std::string name = call.op == LibraryOp::Conv ? "conv " : "conv-transpose ";
  name += Tuner::typeName(call.dtype);
  if (call.computeTf32)
    name += " tf32";
  auto add = [&](const char *what, const Dims &values) {
    name += std::string(" ") + what;
    for (size_t i = 0; i < values.size(); ++i)
      name += (i ? "x" : " ") + std::to_string(values[i]);
  };
  add("x", x);
  add("w", w);
  add("y", y);
  add("strides", call.strides);
  add("dilations", call.dilations);
  add("pads", call.padLow);
  add("", call.padHigh);
  name += " groups " + std::to_string(call.groups);
  name += call.channelsLast ? " nhwc" : " nchw";
  if (call.weightsLast)
    name += " ohwi";
  if (call.hasBias)
    name += " bias";
  if (call.hasAddend)
    name += " addend";
  if (call.activation != Activation::None)
    name += " activation " + std::to_string(int(call.activation));
  return name;
}

std::vector<uint64_t> ConvCall::operandBytes() const {
  auto bytesOf = [&](const Dims &dims) {
    uint64_t elements = 1;
    for (int64_t size : dims)
      elements *= uint64_t(size);
    return (elements * elementSize(call.dtype) + 255) / 256 * 256;
  };
  std::vector<uint64_t> result{bytesOf(x), bytesOf(w)};
  if (call.hasBias)
    result.push_back(bytesOf({y[1]}));
  if (call.hasAddend)
    result.push_back(bytesOf(y));
  result.push_back(bytesOf(y));
  return result;
}

Status ConvCall::enqueue(CUstream stream, void *const *operands,
                         void *workspace) {
  if (isEmpty())
    return {};
  char *base = static_cast<char *>(workspace);
  size_t perMember = 3 + call.hasBias + call.hasAddend;
  for (int64_t i = 0; i < call.members; ++i) {
    void *const *next = operands + i * perMember;
    std::vector<void *> memory(kIds, nullptr);
    memory[kX] = *next++;
    memory[kW] = *next++;
    if (call.hasBias)
      memory[kBias] = *next++;
    if (call.hasAddend)
      memory[kAddend] = *next++;
    memory[kY] = *next;
    memory[kBetween] = stages.size() == 1 ? memory[kY] : base + betweenAt;
    if (moveWeights) {
      FUSION_RT_TRY(moveWeights->enqueue(stream, memory[kW], base));
      memory[kW] = base;
    }
    for (DnnPlan &stage : stages)
      FUSION_RT_TRY(stage.run(api, handle, stream, memory, base + scratchAt));
  }
  return {};
}

Expected<std::vector<std::unique_ptr<DnnCall>>>
Dnn::planConvs(const LibraryCall &call, int64_t batch, BlasLt *blas,
               size_t most) {
  std::vector<std::unique_ptr<DnnCall>> result;
  auto first = std::make_unique<ConvCall>(*api, handle, call);
  FUSION_RT_TRY(first->prepare(batch));
  if (first->isEmpty()) {
    result.push_back(std::move(first));
    return result;
  }
  auto plans = first->plan(most);
  if (!plans)
    return plans.status();
  for (std::vector<DnnPlan> &stages : *plans) {
    auto made = std::make_unique<ConvCall>(*api, handle, call);
    FUSION_RT_TRY(made->prepare(batch));
    FUSION_RT_TRY(made->take(std::move(stages), blas));
    result.push_back(std::move(made));
  }
  return result;
}

Expected<std::unique_ptr<CudaCall>> Dnn::planConv(const LibraryCall &call,
                                                  int64_t batch, BlasLt *blas,
                                                  Tuner *tuner) {
  // Sums of f32 have the order that they have anywhere: it is not a matter of
  // times.
  bool isTuned = tuner && (call.dtype != DType::F32 || call.computeTf32);
  size_t most = 1;
  std::string library = "cuDNN ", name;
  if (isTuned) {
    ConvCall described(*api, handle, call);
    FUSION_RT_TRY(described.prepare(batch));
    isTuned = !described.isEmpty();
    if (api->version)
      library += std::to_string(api->version());
    name = described.getName();
    most = kMostPlans;
    // Plans take long to build: none behind the remembered one is needed.
    if (auto known = tuner->recall(library, name);
        known && (*known)[0] >= '0' && (*known)[0] < '0' + int(most))
      most = size_t((*known)[0] - '0') + 1;
  }
  auto calls = planConvs(call, batch, blas, isTuned ? most : 1);
  if (!calls)
    return calls.status();
  size_t best = 0;
  if (isTuned) {
    uint64_t bytes = 0, scratch = 0;
    std::vector<uint64_t> starts;
    // The members' operands are the same: they run one after the other.
    auto *first = static_cast<ConvCall *>(calls->front().get());
    for (uint64_t size : first->operandBytes()) {
      starts.push_back(bytes);
      auto end = checkedAdd(bytes, size);
      if (!end)
        return std::unique_ptr<CudaCall>(std::move(calls->front()));
      bytes = *end;
    }
    std::vector<Tuner::Way> ways;
    for (size_t i = 0; i < calls->size(); ++i) {
      DnnCall *way = (*calls)[i].get();
      scratch = std::max(scratch, way->workspace());
      ways.push_back({std::to_string(i) + ": " + way->describe(),
                      [&, way](CUstream stream, char *memory) {
                        std::vector<void *> operands;
                        for (int64_t i = 0; i < call.members; ++i)
                          for (uint64_t start : starts)
                            operands.push_back(memory + start);
                        return way->enqueue(stream, operands.data(),
                                            memory + bytes);
                      }});
    }
    auto fastest =
        tuner->choose(library, name, call.dtype, bytes + scratch, ways);
    if (!fastest)
      return fastest.status();
    best = *fastest;
  }
  return std::unique_ptr<CudaCall>(std::move((*calls)[best]));
}

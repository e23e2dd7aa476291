//===- Dnn.cpp - Convolutions by cuDNN ------------------------------------===//
//
// A convolution and its epilogue are one operation graph, for which heuristics
// name engines, best first; the first that keeps our promises and can be built
// is the plan. Where no engine takes them together, the convolution and the
// epilogue are two graphs with a tensor between them.
//
//===----------------------------------------------------------------------===//
#include "Dnn.h"

#include "Checked.h"
#include "DnnApi.h"

#include <algorithm>

using namespace fusion::rt;
using namespace fusion::rt::cuda;

Expected<std::unique_ptr<Dnn>> Dnn::open() {
  auto api = DnnApi::open();
  if (!api)
    return api.status();
  std::unique_ptr<Dnn> result(new Dnn);
  result->api = *api;
  FUSION_RT_TRY((*api)->check((*api)->create(&result->handle), "cudnnCreate"));
  return result;
}

Dnn::~Dnn() {
  if (handle)
    api->destroy(handle);
}

bool Dnn::movesWeights(const LibraryCall &call) {
  if (!call.channelsLast || call.weightsLast || call.weightShape[1].base == 1)
    return false;
  // With a window of one element both orders are the same.
  return std::any_of(call.weightShape.begin() + 2, call.weightShape.end(),
                     [](Affine size) { return size.base != 1; });
}

namespace {

using Dims = std::vector<int64_t>;

/// Bytes of scratch memory that an engine may use.
constexpr int64_t kWorkspace = int64_t(256) << 20;
constexpr int64_t kAlignment = 16;

/// Names of the tensors. What has a name below `kFirstVirtual` is in memory.
enum Id : int64_t { kX = 1, kW, kBias, kAddend, kY, kBetween, kFirstVirtual };

/// An executable plan of a graph and the names of the tensors in memory.
struct Stage {
  DnnObject plan;
  std::vector<int64_t> ids;
  uint64_t workspace = 0;
};

class ConvCall final : public CudaCall {
public:
  ConvCall(const DnnApi &api, DnnHandle handle, const LibraryCall &call)
      : api(api), handle(handle), call(call) {}

  Status plan(int64_t batch, BlasLt *blas);
  uint64_t workspace() const override { return workspaceSize; }
  Status enqueue(CUstream stream, void *const *operands,
                 void *workspace) override;

private:
  Dims shapeOf(const std::vector<Affine> &shape, int64_t batch) const;
  Dims stridesOf(const Dims &dims, bool channelsLast) const;
  int dataType() const {
    return call.dtype == DType::F32   ? kDnnF32
           : call.dtype == DType::F16 ? kDnnF16
                                      : kDnnBF16;
  }
  Expected<DnnObject> tensor(int64_t id, const Dims &dims, bool channelsLast);
  Status build(bool conv, bool epilogue, bool addendFirst, Stage &stage);
  bool keepsPromises(const DnnObject &config) const;
  Status choose(const DnnObject &graph, Stage &stage);
  Status run(CUstream stream, Stage &stage, const std::vector<void *> &memory,
             void *workspace);

  const DnnApi &api;
  DnnHandle handle;
  LibraryCall call;
  Dims x, w, y;
  std::vector<Stage> stages;
  std::unique_ptr<TransposeCall> moveWeights;
  /// In the workspace: moved weights, the tensor between two stages, scratch.
  uint64_t betweenAt = 0, scratchAt = 0, workspaceSize = 0;
  bool isEmpty = false;
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

Dims ConvCall::stridesOf(const Dims &dims, bool channelsLast) const {
  Dims strides(dims.size());
  int64_t stride = 1;
  if (channelsLast) {
    strides[1] = 1;
    stride = dims[1];
  }
  for (size_t i = dims.size(); i-- > 0;) {
    if (channelsLast && i == 1)
      continue;
    strides[i] = stride;
    stride *= dims[i];
  }
  return strides;
}

Expected<DnnObject> ConvCall::tensor(int64_t id, const Dims &dims,
                                     bool channelsLast) {
  DnnObject result(api, DnnKind::Tensor);
  bool isVirtual = id >= kFirstVirtual;
  result.set(kTensorType, kDnnDataType, isVirtual ? kDnnF32 : dataType());
  result.set(kTensorDims, dims);
  result.set(kTensorStrides, stridesOf(dims, channelsLast));
  result.set(kTensorId, kDnnInt64, 1, &id);
  result.set(kTensorAlignment, kDnnInt64, 1, &kAlignment);
  if (isVirtual)
    result.set(kTensorVirtual, kDnnBool, 1, &isVirtual);
  FUSION_RT_TRY(result.finish());
  return result;
}

/// Whether the engine gives the same bits at every run, NaN and infinity where
/// the sum has them, and no less than the precision of the operands.
bool ConvCall::keepsPromises(const DnnObject &config) const {
  DnnObject engine(api, DnnKind::Engine);
  DnnDescriptor descriptor = engine.get();
  int64_t count = 0;
  int notes[32];
  if (api.get(config.get(), kConfigEngine, kDnnDescriptor, 1, &count,
              &descriptor) != 0 ||
      api.get(descriptor, kEngineNotes, kDnnNote, 32, &count, notes) != 0)
    return false;
  bool wide = call.dtype == DType::F32 && !call.computeTf32;
  return std::none_of(notes, notes + std::min<int64_t>(count, 32), [&](int n) {
    return n == kNoteNondeterministic || n == kNoteFft ||
           n == kNoteReducedPrecision ||
           (n >= kNoteWinograd && n <= kNoteWinogradLast) ||
           (wide && (n == kNoteTensorCore || n == kNoteDownConvert));
  });
}

Status ConvCall::choose(const DnnObject &graph, Stage &stage) {
  Status last(Code::Resources, "cuDNN names no engine for a convolution");
  for (int mode : {kHeuristicsA, kHeuristicsFallback}) {
    DnnObject heuristics(api, DnnKind::Heuristics);
    heuristics.set(kHeuristicsGraph, graph);
    heuristics.set(kHeuristicsMode, kDnnHeuristicsMode, mode);
    if (Status status = heuristics.finish(); !status.ok()) {
      last = status;
      continue;
    }
    constexpr int64_t kMost = 64;
    std::vector<DnnObject> configs;
    std::vector<DnnDescriptor> descriptors;
    for (int64_t i = 0; i < kMost; ++i) {
      configs.emplace_back(api, DnnKind::EngineConfig);
      descriptors.push_back(configs.back().get());
    }
    int64_t count = 0;
    if (api.get(heuristics.get(), kHeuristicsResults, kDnnDescriptor, kMost,
                &count, descriptors.data()) != 0)
      continue;
    for (int64_t i = 0; i < std::min(count, kMost); ++i) {
      if (!keepsPromises(configs[i]))
        continue;
      DnnObject plan(api, DnnKind::Plan);
      plan.set(kPlanHandle, kDnnHandle, 1, &handle);
      plan.set(kPlanConfig, configs[i]);
      if (Status status = plan.finish(); !status.ok()) {
        last = status;
        continue;
      }
      int64_t size = 0, elements = 0;
      if (api.get(plan.get(), kPlanWorkspace, kDnnInt64, 1, &elements, &size) !=
              0 ||
          size > kWorkspace)
        continue;
      stage.plan = std::move(plan);
      stage.workspace = uint64_t(std::max<int64_t>(size, 0));
      return {};
    }
  }
  return last;
}

/// One graph of the convolution, its epilogue, or both.
Status ConvCall::build(bool conv, bool epilogue, bool addendFirst,
                       Stage &stage) {
  std::vector<DnnObject> tensors, ops, attributes;
  std::vector<Id> steps;
  if (epilogue) {
    if (call.hasBias)
      steps.push_back(kBias);
    if (call.hasAddend)
      steps.insert(addendFirst ? steps.begin() : steps.end(), kAddend);
    if (call.activation == Activation::Relu)
      steps.push_back(kY);
  }
  int64_t nextVirtual = kFirstVirtual;
  tensors.reserve(16);
  Status error;
  auto make = [&](int64_t id, const Dims &dims,
                  bool channelsLast) -> const DnnObject & {
    auto made = tensor(id, dims, channelsLast);
    if (!made && error.ok())
      error = made.status();
    if (id < kFirstVirtual)
      stage.ids.push_back(id);
    tensors.push_back(made ? std::move(*made) : DnnObject());
    return tensors.back();
  };
  // The last step writes to memory.
  auto output = [&](bool isLast) -> const DnnObject & {
    return make(isLast ? (epilogue ? int64_t(kY) : int64_t(kBetween))
                       : nextVirtual++,
                y, call.channelsLast);
  };
  const DnnObject *value = nullptr;
  if (conv) {
    bool flat = call.inputShape.size() == 3;
    auto spatial = [&](Dims values, int64_t unit) {
      if (flat)
        values.insert(values.begin(), unit);
      return values;
    };
    DnnObject window(api, DnnKind::Convolution);
    int64_t dims = int64_t(x.size()) - 2;
    window.set(kConvolutionType, kDnnDataType, kDnnF32);
    window.set(kConvolutionMode, kDnnConvolutionMode, kCrossCorrelation);
    window.set(kConvolutionDims, kDnnInt64, 1, &dims);
    window.set(kConvolutionDilations, spatial(call.dilations, 1));
    window.set(kConvolutionStrides, spatial(call.strides, 1));
    window.set(kConvolutionPrePads, spatial(call.padLow, 0));
    window.set(kConvolutionPostPads, spatial(call.padHigh, 0));
    FUSION_RT_TRY(window.finish());
    const DnnObject &input = make(kX, x, call.channelsLast);
    const DnnObject &weights = make(kW, w, call.channelsLast);
    value = &output(steps.empty());
    FUSION_RT_TRY(error);
    DnnObject op(api, DnnKind::ConvolutionForward);
    float one = 1, zero = 0;
    op.set(kForwardX, input);
    op.set(kForwardW, weights);
    op.set(kForwardY, *value);
    op.set(kForwardConvolution, window);
    op.set(kForwardAlpha, kDnnFloat, 1, &one);
    op.set(kForwardBeta, kDnnFloat, 1, &zero);
    FUSION_RT_TRY(op.finish());
    attributes.push_back(std::move(window));
    ops.push_back(std::move(op));
  } else {
    value = &make(kBetween, y, call.channelsLast);
  }
  for (size_t i = 0; i < steps.size(); ++i) {
    DnnObject pointwise(api, DnnKind::Pointwise);
    bool isRelu = steps[i] == kY;
    pointwise.set(kPointwiseMode, kDnnPointwiseMode,
                  isRelu ? kModeRelu : kModeAdd);
    pointwise.set(kPointwisePrecision, kDnnDataType, kDnnF32);
    FUSION_RT_TRY(pointwise.finish());
    DnnObject op(api, DnnKind::PointwiseOp);
    op.set(kPointwiseOp, pointwise);
    op.set(kPointwiseX, *value);
    if (!isRelu) {
      Dims dims = y;
      if (steps[i] == kBias) {
        std::fill(dims.begin(), dims.end(), 1);
        dims[1] = y[1];
      }
      op.set(kPointwiseB, make(steps[i], dims, call.channelsLast));
    }
    value = &output(i + 1 == steps.size());
    FUSION_RT_TRY(error);
    op.set(kPointwiseY, *value);
    FUSION_RT_TRY(op.finish());
    attributes.push_back(std::move(pointwise));
    ops.push_back(std::move(op));
  }
  std::vector<DnnDescriptor> descriptors;
  for (const DnnObject &op : ops)
    descriptors.push_back(op.get());
  DnnObject graph(api, DnnKind::Graph);
  graph.set(kGraphHandle, kDnnHandle, 1, &handle);
  graph.set(kGraphOps, kDnnDescriptor, descriptors.size(), descriptors.data());
  FUSION_RT_TRY(graph.finish());
  return choose(graph, stage);
}

Status ConvCall::plan(int64_t batch, BlasLt *blas) {
  if (call.activation != Activation::None &&
      call.activation != Activation::Relu)
    return Status(Code::Rejected, "cuDNN runs no gelu behind a convolution; "
                                  "compile the model again");
  if (call.padLow != call.padHigh || call.groups != 1)
    return Status(Code::Rejected,
                  "cuDNN is not used for groups or for unlike padding of the "
                  "ends of a dimension; compile the model again");
  x = shapeOf(call.inputShape, batch);
  w = shapeOf(call.weightShape, batch);
  y = shapeOf(call.outputShape, batch);
  isEmpty = std::count(y.begin(), y.end(), 0) > 0;
  if (isEmpty)
    return {};

  bool hasEpilogue =
      call.hasBias || call.hasAddend || call.activation != Activation::None;
  Status status;
  bool isOne = false;
  for (bool addendFirst : {false, true}) {
    // Both orders are the same without one of the two.
    if (isOne || (addendFirst && !(call.hasBias && call.hasAddend)))
      continue;
    Stage stage;
    Status tried = build(true, true, addendFirst, stage);
    if (!addendFirst)
      status = tried;
    isOne = tried.ok();
    if (isOne)
      stages.push_back(std::move(stage));
  }
  auto align = [](uint64_t size) { return (size + 255) / 256 * 256; };
  if (Dnn::movesWeights(call)) {
    int64_t window = 1;
    for (size_t i = 2; i < w.size(); ++i)
      window *= w[i];
    auto move = blas->planTranspose(call.dtype, w[0], w[1], window);
    if (!move)
      return move.status();
    moveWeights = std::move(*move);
    betweenAt = align(uint64_t(w[0]) * w[1] * window * elementSize(call.dtype));
  }
  scratchAt = betweenAt;
  if (!isOne) {
    if (!hasEpilogue)
      return status;
    Stage first, second;
    FUSION_RT_TRY(build(true, false, false, first));
    FUSION_RT_TRY(build(false, true, false, second));
    stages.push_back(std::move(first));
    stages.push_back(std::move(second));
    uint64_t bytes = elementSize(call.dtype);
    for (int64_t size : y)
      bytes *= uint64_t(size);
    scratchAt += align(bytes);
  }
  workspaceSize = scratchAt;
  for (const Stage &stage : stages)
    workspaceSize = std::max(workspaceSize, scratchAt + stage.workspace);
  return {};
}

Status ConvCall::run(CUstream stream, Stage &stage,
                     const std::vector<void *> &memory, void *workspace) {
  FUSION_RT_TRY(api.check(api.setStream(handle, stream), "cudnnSetStream"));
  std::vector<void *> pointers;
  for (int64_t id : stage.ids)
    pointers.push_back(memory[id]);
  DnnObject pack(api, DnnKind::VariantPack);
  pack.set(kPackIds, stage.ids);
  pack.set(kPackPointers, kDnnPointer, pointers.size(), pointers.data());
  pack.set(kPackWorkspace, kDnnPointer, 1, &workspace);
  FUSION_RT_TRY(pack.finish());
  return api.check(api.execute(handle, stage.plan.get(), pack.get()),
                   "cudnnBackendExecute");
}

Status ConvCall::enqueue(CUstream stream, void *const *operands,
                         void *workspace) {
  if (isEmpty)
    return {};
  char *base = static_cast<char *>(workspace);
  size_t perMember = 3 + call.hasBias + call.hasAddend;
  for (int64_t i = 0; i < call.members; ++i) {
    void *const *next = operands + i * perMember;
    std::vector<void *> memory(kFirstVirtual, nullptr);
    memory[kX] = *next++;
    memory[kW] = *next++;
    if (call.hasBias)
      memory[kBias] = *next++;
    if (call.hasAddend)
      memory[kAddend] = *next++;
    memory[kY] = *next;
    memory[kBetween] = stages.size() == 1 ? memory[kY] : base + betweenAt;
    for (void *address : memory)
      if (reinterpret_cast<uintptr_t>(address) % kAlignment != 0)
        return Status(Code::Resources,
                      "cuDNN needs operands that start at a multiple of 16 "
                      "bytes; compile with --no-fuse=vertical");
    if (moveWeights) {
      FUSION_RT_TRY(moveWeights->enqueue(stream, memory[kW], base));
      memory[kW] = base;
    }
    for (Stage &stage : stages)
      FUSION_RT_TRY(run(stream, stage, memory, base + scratchAt));
  }
  return {};
}

Expected<std::unique_ptr<CudaCall>> Dnn::planConv(const LibraryCall &call,
                                                  int64_t batch, BlasLt *blas) {
  auto result = std::make_unique<ConvCall>(*api, handle, call);
  FUSION_RT_TRY(result->plan(batch, blas));
  return std::unique_ptr<CudaCall>(std::move(result));
}

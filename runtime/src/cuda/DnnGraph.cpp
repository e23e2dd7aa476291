//===- DnnGraph.cpp - Operations that cuDNN runs as one -------------------===//
//
// In which order cuDNN wants its descriptors, and which of the engines that its
// heuristics name are taken. Nothing about what is computed.
//
//===----------------------------------------------------------------------===//
#include "DnnGraph.h"

#include <algorithm>
#include <cstring>

using namespace fusion::rt;
using namespace fusion::rt::cuda;

/// Every tensor starts at a multiple of it.
static constexpr int64_t kAlignment = 16;
/// Engines of a convolution whose relu turns NaN into 0.
static constexpr int64_t kDropNan[] = {0, 11, 35};
/// Virtual tensors are named above those in memory.
static constexpr int64_t kFirstVirtual = 1000;

Status DnnPlan::run(const DnnApi &api, DnnHandle handle, CUstream stream,
                    const std::vector<void *> &memory, void *workspace) {
  FUSION_RT_TRY(api.check(api.setStream(handle, stream), "cudnnSetStream"));
  std::vector<void *> pointers;
  for (int64_t id : ids) {
    pointers.push_back(memory[id]);
    if (reinterpret_cast<uintptr_t>(memory[id]) % kAlignment != 0)
      return Status(Code::Resources,
                    "cuDNN needs operands that start at a multiple of 16 "
                    "bytes; compile with --no-fuse=vertical");
  }
  std::vector<int64_t> named = ids;
  for (DnnNumber &number : numbers) {
    named.push_back(number.id);
    pointers.push_back(&number.bits);
  }
  DnnObject pack(api, DnnKind::VariantPack);
  pack.set(kPackIds, named);
  pack.set(kPackPointers, kDnnPointer, pointers.size(), pointers.data());
  pack.set(kPackWorkspace, kDnnPointer, 1, &workspace);
  FUSION_RT_TRY(pack.finish());
  return api.check(api.execute(handle, plan.get(), pack.get()),
                   "cudnnBackendExecute");
}

DnnGraph::Tensor DnnGraph::add(int64_t id, int type, const Dims &dims,
                               const Dims &strides, bool isVirtual) {
  DnnObject tensor(api, DnnKind::Tensor);
  tensor.set(kTensorType, kDnnDataType, type);
  tensor.set(kTensorDims, dims);
  tensor.set(kTensorStrides, strides);
  tensor.set(kTensorId, kDnnInt64, 1, &id);
  tensor.set(kTensorAlignment, kDnnInt64, 1, &kAlignment);
  if (isVirtual)
    tensor.set(kTensorVirtual, kDnnBool, 1, &isVirtual);
  else
    ids.push_back(id);
  note(tensor.finish());
  tensors.push_back(std::move(tensor));
  return tensors.size() - 1;
}

DnnGraph::Tensor DnnGraph::addMemory(int64_t id, int type, const Dims &dims,
                                     const Dims &strides) {
  return add(id, type, dims, strides, /*isVirtual=*/false);
}

DnnGraph::Tensor DnnGraph::addVirtual(const Dims &dims, const Dims &strides,
                                      int type) {
  return add(kFirstVirtual + int64_t(tensors.size()), type, dims, strides,
             /*isVirtual=*/true);
}

DnnGraph::Tensor DnnGraph::addNumber(int type, uint32_t bits, size_t rank) {
  DnnNumber number;
  number.id = kFirstVirtual + int64_t(tensors.size());
  number.bits = bits;
  numbers.push_back(number);
  DnnObject tensor(api, DnnKind::Tensor);
  const Dims ones(rank, 1);
  const bool isByValue = true;
  tensor.set(kTensorType, kDnnDataType, type);
  tensor.set(kTensorDims, ones);
  tensor.set(kTensorStrides, ones);
  tensor.set(kTensorId, kDnnInt64, 1, &number.id);
  tensor.set(kTensorAlignment, kDnnInt64, 1, &kAlignment);
  tensor.set(kTensorByValue, kDnnBool, 1, &isByValue);
  note(tensor.finish());
  tensors.push_back(std::move(tensor));
  return tensors.size() - 1;
}

DnnGraph::Tensor DnnGraph::addNumber(float value, size_t rank) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return addNumber(kDnnF32, bits, rank);
}

DnnGraph::Tensor DnnGraph::addNumber(int32_t value, size_t rank) {
  return addNumber(kDnnI32, uint32_t(value), rank);
}

void DnnGraph::addConvolution(Tensor x, Tensor w, Tensor y,
                              const Window &window, bool isGradient) {
  DnnObject shape(api, DnnKind::Convolution);
  int64_t rank = int64_t(window.strides.size());
  shape.set(kConvolutionType, kDnnDataType, kDnnF32);
  shape.set(kConvolutionMode, kDnnConvolutionMode, kCrossCorrelation);
  shape.set(kConvolutionDims, kDnnInt64, 1, &rank);
  shape.set(kConvolutionDilations, window.dilations);
  shape.set(kConvolutionStrides, window.strides);
  shape.set(kConvolutionPrePads, window.padLow);
  shape.set(kConvolutionPostPads, window.padHigh);
  note(shape.finish());
  DnnObject op(api, isGradient ? DnnKind::ConvolutionData
                               : DnnKind::ConvolutionForward);
  // The gradient's attributes are the others' in the same order.
  int further = isGradient ? kGradientAlpha - kForwardAlpha : 0;
  float one = 1, zero = 0;
  op.set(kForwardX + further, tensors[x]);
  op.set(kForwardW + further, tensors[w]);
  op.set(kForwardY + further, tensors[y]);
  op.set(kForwardConvolution + further, shape);
  op.set(kForwardAlpha + further, kDnnFloat, 1, &one);
  op.set(kForwardBeta + further, kDnnFloat, 1, &zero);
  note(op.finish());
  attributes.push_back(std::move(shape));
  ops.push_back(std::move(op));
}

void DnnGraph::addPointwise(int mode, Tensor x, const Tensor *b,
                            const Tensor *t, Tensor y, int precision,
                            int64_t axis) {
  DnnObject pointwise(api, DnnKind::Pointwise);
  pointwise.set(kPointwiseMode, kDnnPointwiseMode, mode);
  pointwise.set(kPointwisePrecision, kDnnDataType, precision);
  if (axis >= 0)
    pointwise.set(kPointwiseAxis, kDnnInt64, 1, &axis);
  note(pointwise.finish());
  DnnObject op(api, DnnKind::PointwiseOp);
  op.set(kPointwiseOp, pointwise);
  op.set(kPointwiseX, tensors[x]);
  if (b)
    op.set(kPointwiseB, tensors[*b]);
  if (t)
    op.set(kPointwiseT, tensors[*t]);
  op.set(kPointwiseY, tensors[y]);
  note(op.finish());
  attributes.push_back(std::move(pointwise));
  ops.push_back(std::move(op));
}

void DnnGraph::addMatMul(Tensor a, Tensor b, Tensor c) {
  DnnObject matmul(api, DnnKind::MatMul);
  matmul.set(kMatMulType, kDnnDataType, kDnnF32);
  note(matmul.finish());
  DnnObject op(api, DnnKind::MatMulOp);
  op.set(kMatMulA, tensors[a]);
  op.set(kMatMulB, tensors[b]);
  op.set(kMatMulC, tensors[c]);
  op.set(kMatMulOp, matmul);
  note(op.finish());
  attributes.push_back(std::move(matmul));
  ops.push_back(std::move(op));
}

void DnnGraph::addReduction(int mode, Tensor x, Tensor y) {
  DnnObject reduction(api, DnnKind::Reduction);
  reduction.set(kReductionType, kDnnDataType, kDnnF32);
  reduction.set(kReductionMode, kDnnReduction, mode);
  note(reduction.finish());
  DnnObject op(api, DnnKind::ReductionOp);
  op.set(kReductionX, tensors[x]);
  op.set(kReductionY, tensors[y]);
  op.set(kReductionOp, reduction);
  note(op.finish());
  attributes.push_back(std::move(reduction));
  ops.push_back(std::move(op));
}

void DnnGraph::addReshape(Tensor x, Tensor y) {
  DnnObject op(api, DnnKind::ReshapeOp);
  op.set(kReshapeX, tensors[x]);
  op.set(kReshapeY, tensors[y]);
  note(op.finish());
  ops.push_back(std::move(op));
}

void DnnGraph::addAttention(Tensor q, Tensor k, Tensor v, Tensor scale,
                            Tensor o, const Tensor *stats) {
  DnnObject op(api, DnnKind::Attention);
  op.set(kAttentionQ, tensors[q]);
  op.set(kAttentionK, tensors[k]);
  op.set(kAttentionV, tensors[v]);
  op.set(kAttentionO, tensors[o]);
  op.set(kAttentionScale, tensors[scale]);
  if (stats)
    op.set(kAttentionStats, tensors[*stats]);
  note(op.finish());
  ops.push_back(std::move(op));
}

static int64_t getNotes(const DnnApi &api, const DnnObject &engine,
                        int (&notes)[32]) {
  int64_t count = 0;
  if (api.get(engine.get(), kEngineNotes, kDnnNote, 32, &count, notes) != 0)
    return -1;
  return std::min<int64_t>(count, 32);
}

bool DnnGraph::hasNote(const DnnObject &engine, int note) const {
  int notes[32];
  int64_t count = getNotes(api, engine, notes);
  return count > 0 && std::count(notes, notes + count, note) > 0;
}

bool DnnGraph::keeps(const Promises &promises, const DnnObject &engine) const {
  int notes[32];
  int64_t count = getNotes(api, engine, notes), elements = 0;
  if (count < 0)
    return false;
  int64_t number = 0;
  if (promises.reluKeepsNan &&
      (api.get(engine.get(), kEngineNumber, kDnnInt64, 1, &elements, &number) !=
           0 ||
       std::count(std::begin(kDropNan), std::end(kDropNan), number) > 0))
    return false;
  return std::none_of(notes, notes + count, [&](int n) {
    return n == kNoteNondeterministic || n == kNoteFft ||
           n == kNoteReducedPrecision ||
           (n >= kNoteWinograd && n <= kNoteWinogradLast) ||
           (!promises.mayNarrow &&
            (n == kNoteTensorCore || n == kNoteDownConvert));
  });
}

/// Appends the plans that the heuristics of one mode name and that can be
/// built. The status tells why the last one was left out.
Status DnnGraph::tryMode(const DnnObject &graph, int mode,
                         const Promises &promises, size_t most,
                         std::vector<DnnPlan> &plans) {
  DnnObject heuristics(api, DnnKind::Heuristics);
  heuristics.set(kHeuristicsGraph, graph);
  heuristics.set(kHeuristicsMode, kDnnHeuristicsMode, mode);
  FUSION_RT_TRY(heuristics.finish());
  constexpr int64_t kMost = 64;
  std::vector<DnnObject> configs;
  std::vector<DnnDescriptor> descriptors;
  for (int64_t i = 0; i < kMost; ++i) {
    configs.emplace_back(api, DnnKind::EngineConfig);
    descriptors.push_back(configs.back().get());
  }
  int64_t count = 0;
  FUSION_RT_TRY(
      api.check(api.get(heuristics.get(), kHeuristicsResults, kDnnDescriptor,
                        kMost, &count, descriptors.data()),
                "cudnnBackendGetAttribute"));
  Status last(Code::Rejected, "cuDNN names no engine for it");
  for (int64_t i = 0; i < std::min(count, kMost) && plans.size() < most; ++i) {
    DnnObject engine(api, DnnKind::Engine);
    DnnDescriptor descriptor = engine.get();
    int64_t elements = 0, number = 0, size = 0;
    if (api.get(configs[i].get(), kConfigEngine, kDnnDescriptor, 1, &elements,
                &descriptor) != 0 ||
        !keeps(promises, engine))
      continue;
    DnnPlan made;
    made.plan = DnnObject(api, DnnKind::Plan);
    made.plan.set(kPlanHandle, kDnnHandle, 1, &handle);
    made.plan.set(kPlanConfig, configs[i]);
    if (Status status = made.plan.finish(); !status.ok()) {
      last = status;
      continue;
    }
    if (api.get(made.plan.get(), kPlanWorkspace, kDnnInt64, 1, &elements,
                &size) != 0 ||
        size > promises.workspace)
      continue;
    if (api.get(engine.get(), kEngineNumber, kDnnInt64, 1, &elements,
                &number) == 0)
      made.engine = std::to_string(number);
    if (hasNote(engine, kNoteStrictNan))
      made.engine += " (strict NaN)";
    made.workspace = uint64_t(std::max<int64_t>(size, 0));
    made.ids = ids;
    made.numbers = numbers;
    plans.push_back(std::move(made));
  }
  return last;
}

Expected<std::vector<DnnPlan>> DnnGraph::plan(const Promises &promises,
                                              size_t most) {
  FUSION_RT_TRY(error);
  std::vector<DnnDescriptor> descriptors;
  for (const DnnObject &op : ops)
    descriptors.push_back(op.get());
  DnnObject graph(api, DnnKind::Graph);
  graph.set(kGraphHandle, kDnnHandle, 1, &handle);
  graph.set(kGraphOps, kDnnDescriptor, descriptors.size(), descriptors.data());
  FUSION_RT_TRY(graph.finish());
  std::vector<DnnPlan> plans;
  Status last;
  for (int mode : {kHeuristicsA, kHeuristicsFallback})
    if (plans.size() < most)
      last = tryMode(graph, mode, promises, most, plans);
  if (plans.empty())
    return last;
  return plans;
}

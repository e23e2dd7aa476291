//===- BlasLtProduct.cpp - One product of cuBLASLt ------------------------===//
//
// Descriptors, and how a product is enqueued. Which algorithm computes it is
// BlasLtTuning.cpp's.
//
//===----------------------------------------------------------------------===//
#include "BlasLtProduct.h"

#include "Checked.h"

#include <algorithm>

using namespace fusion::rt;
using namespace fusion::rt::cuda;

/// Elements that the manual wants distances of the slope's operand to be
/// multiples of.
static constexpr int64_t kSlopeMultiple = 8;

bool fusion::rt::cuda::isAligned(const Addresses &addresses) {
  return std::all_of(addresses.begin(), addresses.end(),
                     [](int64_t each) { return each % kAlignment == 0; });
}

bool fusion::rt::cuda::keepsBits(const LibraryCall &call) {
  // Gradients are absorbed where bits may differ.
  if (call.hasGradient())
    return false;
  return call.keepsOrder || (!isNarrow(call.dtype) && !call.computeTf32);
}

Status Product::setEpilogue(bool plain, uint32_t alignment) {
  uint32_t epilogue = 0;
  if (!plain && call.hasBias)
    epilogue |= kLtBias;
  if (!plain && call.activation == Activation::Relu)
    epilogue |= kLtRelu;
  if (!plain && call.activation == Activation::GeluTanh)
    epilogue |= kLtGelu;
  if (!plain && call.hasSlope())
    epilogue |= kLtGeluGrad;
  bool hasSum = !plain && call.biasGradient != BiasGradient::None;
  // Its sides are ours exchanged.
  if (hasSum)
    epilogue |= call.biasGradient == BiasGradient::Result ? kLtSumResult
                : call.biasGradient == BiasGradient::Rhs  ? kLtSumA
                                                          : kLtSumB;
  if (!epilogue)
    epilogue = kLtDefault;
  FUSION_RT_TRY(set(kLtEpilogue, &epilogue, sizeof(epilogue)));
  // Algorithms are chosen by the alignment of these operands too.
  if (!plain && call.hasSlope()) {
    FUSION_RT_TRY(set(kLtAuxLeading, &sizes.n, sizeof(sizes.n)));
    FUSION_RT_TRY(setPointer(kLtAuxPointer, alignment));
    if (int64_t step = sizes.m * sizes.n; count > 1)
      FUSION_RT_TRY(set(kLtAuxBatchStride, &step, sizeof(step)));
  }
  if (!hasSum && !(epilogue & kLtBias))
    return {};
  int32_t type = getLtType(call.dtype);
  FUSION_RT_TRY(set(kLtBiasType, &type, sizeof(type)));
  if (count > 1) {
    int64_t step = call.biasGradient == BiasGradient::Lhs ? sizes.m : sizes.n;
    FUSION_RT_TRY(set(kLtBiasBatchStride, &step, sizeof(step)));
  }
  return setPointer(kLtBiasPointer, alignment);
}

Status Product::describe() {
  int type = getLtType(call.dtype);
  bool isDouble = call.dtype == DType::F64;
  int compute = isDouble                                       ? kLtCompute64
                : call.computeTf32 && call.dtype == DType::F32 ? kLtComputeTf32
                                                               : kLtCompute32;
  FUSION_RT_TRY(api.check(
      api.descCreate(desc.slot(), compute, isDouble ? kLtF64 : kLtF32),
      "cublasLtMatmulDescCreate"));
  int32_t transposeA = call.transposeRhs, transposeB = call.transposeLhs;
  FUSION_RT_TRY(set(kLtTransA, &transposeA, sizeof(transposeA)));
  FUSION_RT_TRY(set(kLtTransB, &transposeB, sizeof(transposeB)));
  if (int32_t most = int32_t(call.units))
    FUSION_RT_TRY(set(kLtMostUnits, &most, sizeof(most)));

  // Members are a batch of their own: they have none inside.
  int32_t matrices = int32_t(count > 1 ? count : sizes.batch);
  auto layout = [&](int index, int64_t rows, int64_t columns, int64_t step) {
    LtOwned &to = layouts[index];
    FUSION_RT_TRY(
        api.check(api.layoutCreate(to.slot(), type, rows, columns, rows),
                  "cublasLtMatrixLayoutCreate"));
    FUSION_RT_TRY(api.check(
        api.layoutSet(to.get(), kLtBatchCount, &matrices, sizeof(matrices)),
        "cublasLtMatrixLayoutSetAttribute(batch)"));
    return setOffset(index, (count > 1 ? 1 : step) * rows * columns);
  };
  int64_t n = sizes.n, m = sizes.m, k = sizes.k;
  FUSION_RT_TRY(
      layout(kA, transposeA ? k : n, transposeA ? n : k, sizes.rhsStep));
  FUSION_RT_TRY(
      layout(kB, transposeB ? m : k, transposeB ? k : m, sizes.lhsStep));
  FUSION_RT_TRY(layout(kC, n, m, 1));
  return layout(kD, n, m, 1);
}

std::optional<Product::Demand>
Product::check(const LtAlgorithm &algorithm) const {
  LtHeuristicResult checked{};
  if (api.algorithmCheck(handle, desc.get(), layouts[kA].get(),
                         layouts[kB].get(), layouts[kC].get(),
                         layouts[kD].get(), &algorithm, &checked) != 0 ||
      checked.workspaceSize > kMostWorkspace)
    return std::nullopt;
  uint64_t size = checked.workspaceSize;
  // The library speaks of an algorithm with its counter.
  if (isWithoutCounter && size <= kCounterBytes)
    size = 0;
  return Demand{size, checked.wavesCount};
}

void Product::chooseAs(const Product &other) {
  if (!setEpilogue(false, kAlignment).ok())
    return;
  isWithoutCounter = other.isWithoutCounter;
  if (std::optional<Demand> demand = check(*other.aligned)) {
    aligned = other.aligned;
    workspaceSize = demand->workspace;
    waves = demand->waves;
  }
}

Expected<bool> Product::setSteps(const Addresses &steps) {
  int64_t element = elementSize(call.dtype);
  FUSION_RT_TRY(setOffset(kA, steps[kRhs] / element));
  FUSION_RT_TRY(setOffset(kB, steps[kLhs] / element));
  FUSION_RT_TRY(
      setOffset(kC, steps[call.hasAddend ? kAddend : kOut] / element));
  FUSION_RT_TRY(setOffset(kD, steps[kOut] / element));
  bool hasSum = call.biasGradient != BiasGradient::None;
  if (call.hasBias || hasSum) {
    int64_t step = steps[hasSum ? kSum : kBias] / element;
    FUSION_RT_TRY(set(kLtBiasBatchStride, &step, sizeof(step)));
  }
  if (call.hasSlope()) {
    int64_t step = steps[kSlope] / element;
    if (step % kSlopeMultiple != 0)
      return false;
    FUSION_RT_TRY(set(kLtAuxBatchStride, &step, sizeof(step)));
  }
  std::optional<Demand> demand = check(*aligned);
  return demand && demand->workspace <= workspaceSize;
}

Status Product::enqueueOnce(CUstream stream, const Addresses &operands,
                            void *workspace) {
  const auto &algorithm = isAligned(operands) ? aligned : unaligned;
  if (!algorithm)
    return Status(Code::Resources,
                  "cuBLASLt has no algorithm for operands that do not start "
                  "at a multiple of 16 bytes; compile with --fp=strict");
  if (call.hasBias)
    FUSION_RT_TRY(setPointer(kLtBiasPointer, operands[kBias]));
  if (call.biasGradient != BiasGradient::None)
    FUSION_RT_TRY(setPointer(kLtBiasPointer, operands[kSum]));
  if (call.hasSlope())
    FUSION_RT_TRY(setPointer(kLtAuxPointer, operands[kSlope]));
  float one = 1, zero = 0;
  double wideOne = 1, wideZero = 0;
  bool isDouble = call.dtype == DType::F64;
  const void *alpha = isDouble ? static_cast<void *>(&wideOne) : &one;
  const void *beta = call.hasAddend ? alpha
                     : isDouble     ? static_cast<void *>(&wideZero)
                                    : &zero;

  auto address = [&](int operand) {
    return reinterpret_cast<void *>(uintptr_t(operands[operand]));
  };
  return api.check(
      api.matmul(handle, desc.get(), alpha, address(kRhs), layouts[kA].get(),
                 address(kLhs), layouts[kB].get(), beta,
                 address(call.hasAddend ? kAddend : kOut), layouts[kC].get(),
                 address(kOut), layouts[kD].get(), &*algorithm, workspace,
                 workspaceSize, stream),
      "cublasLtMatmul");
}

Status Product::enqueue(CUstream stream, const Addresses &first,
                        void *workspace) {
  int64_t element = elementSize(call.dtype);
  std::vector<int64_t> index(sizes.loops.size(), 0);
  int64_t step = 0;
  for (;;) {
    int64_t lhsAt = 0, rhsAt = 0;
    for (size_t i = 0; i < index.size(); ++i) {
      lhsAt += index[i] * sizes.loops[i].lhs;
      rhsAt += index[i] * sizes.loops[i].rhs;
    }
    int64_t outAt = step * sizes.batch * sizes.m * sizes.n * element;
    Addresses at = first;
    at[kLhs] += lhsAt * sizes.m * sizes.k * element;
    at[kRhs] += rhsAt * sizes.k * sizes.n * element;
    at[kOut] += outAt;
    if (call.hasAddend)
      at[kAddend] += outAt;
    FUSION_RT_TRY(enqueueOnce(stream, at, workspace));
    ++step;
    size_t i = index.size();
    while (i > 0 && ++index[i - 1] == sizes.loops[i - 1].size)
      index[--i] = 0;
    if (i == 0)
      return {};
  }
}

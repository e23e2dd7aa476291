//===- BlasLtProduct.cpp - One product of cuBLASLt ------------------------===//
//
// Descriptors, and the choice of an algorithm: the first that the library names
// and that keeps our promises, or the fastest of them.
//
//===----------------------------------------------------------------------===//
#include "BlasLtProduct.h"

#include "Checked.h"

#include <algorithm>

using namespace fusion::rt;
using namespace fusion::rt::cuda;

namespace {
/// Bytes of scratch memory that an algorithm may use: what the manual advises
/// for Hopper.
constexpr uint64_t kWorkspace = uint64_t(32) << 20;
} // namespace

bool fusion::rt::cuda::isAligned(const Addresses &addresses) {
  return std::all_of(addresses.begin(), addresses.end(),
                     [](int64_t each) { return each % kAlignment == 0; });
}

/// Whether the library's own sums would round differently from ours.
static bool isNarrow(DType dtype) {
  return dtype == DType::F16 || dtype == DType::BF16;
}

bool fusion::rt::cuda::keepsBits(const LibraryCall &call) {
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
  if (!epilogue)
    epilogue = kLtDefault;
  FUSION_RT_TRY(set(kLtEpilogue, &epilogue, sizeof(epilogue)));
  if (!(epilogue & kLtBias))
    return {};
  int32_t type = getLtType(call.dtype);
  FUSION_RT_TRY(set(kLtBiasType, &type, sizeof(type)));
  if (count > 1) {
    int64_t step = sizes.n;
    FUSION_RT_TRY(set(kLtBiasBatchStride, &step, sizeof(step)));
  }
  // Algorithms are chosen by the alignment of the bias too.
  return setBias(alignment);
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

std::optional<uint64_t> Product::check(const LtAlgorithm &algorithm) const {
  LtHeuristicResult checked{};
  if (api.algorithmCheck(handle, desc.get(), layouts[kA].get(),
                         layouts[kB].get(), layouts[kC].get(),
                         layouts[kD].get(), &algorithm, &checked) != 0 ||
      checked.workspaceSize > kWorkspace)
    return std::nullopt;
  return checked.workspaceSize;
}

Expected<std::vector<Product::Found>> Product::find(uint32_t alignment,
                                                    size_t most) {
  LtOwned preference(api.preferenceDestroy);
  FUSION_RT_TRY(api.check(api.preferenceCreate(preference.slot()),
                          "cublasLtMatmulPreferenceCreate"));
  auto prefer = [&](int attribute, auto value) {
    return api.check(
        api.preferenceSet(preference.get(), attribute, &value, sizeof(value)),
        "cublasLtMatmulPreferenceSetAttribute");
  };
  FUSION_RT_TRY(prefer(kLtMaxWorkspace, kWorkspace));
  // Partial sums are never rounded to a narrow type.
  FUSION_RT_TRY(prefer(kLtReductions, isNarrow(call.dtype) ? kLtReduceInCompute
                                                           : kLtReduceAny));
  for (int attribute = kLtAlignA; attribute <= kLtAlignD; ++attribute)
    FUSION_RT_TRY(prefer(attribute, alignment));

  std::vector<Found> result;
  std::array<LtHeuristicResult, Tuner::kMostWays> results{};
  for (bool plain : {true, false}) {
    // The epilogue doesn't choose the order of the sum.
    if (plain && !keepsBits(call))
      continue;
    int found = 0;
    FUSION_RT_TRY(setEpilogue(plain, alignment));
    // No algorithm is an answer, not an error.
    api.heuristics(handle, desc.get(), layouts[kA].get(), layouts[kB].get(),
                   layouts[kC].get(), layouts[kD].get(), preference.get(),
                   int(results.size()), results.data(), &found);
    FUSION_RT_TRY(setEpilogue(false, alignment));
    for (int i = 0; i < found && result.size() < most; ++i)
      if (results[i].state == 0)
        if (std::optional<uint64_t> size = check(results[i].algorithm))
          result.push_back({results[i].algorithm, *size});
  }
  return result;
}

std::string Product::getName() const {
  auto number = [](int64_t value) { return std::to_string(value); };
  std::string name = Tuner::typeName(call.dtype);
  if (call.computeTf32)
    name += " tf32";
  name += " " + number(sizes.m) + "x" + number(sizes.n) + "x" + number(sizes.k);
  name += call.transposeLhs ? " T" : " N";
  name += call.transposeRhs ? "T" : "N";
  if (sizes.batch > 1)
    name += " batch " + number(sizes.batch) + "/" + number(sizes.lhsStep) +
            "/" + number(sizes.rhsStep);
  if (count > 1)
    name += " members " + number(count);
  if (call.hasBias)
    name += " bias";
  if (call.hasAddend)
    name += " addend";
  if (call.activation != Activation::None)
    name += " activation " + number(int64_t(call.activation));
  return name;
}

/// The library's algorithm as text: 64 opaque bytes.
static std::string nameOf(const LtAlgorithm &algorithm) {
  std::string name;
  for (uint64_t word : algorithm.data)
    for (int shift = 60; shift >= 0; shift -= 4)
      name += "0123456789abcdef"[word >> shift & 15];
  return name;
}

Expected<size_t> Product::tune(Tuner &tuner, const std::vector<Found> &found) {
  // Members have a left side in common and the rest to themselves, as
  // projections of one value.
  auto matrices = [&](int64_t step) {
    return step == 0 ? 1 : (sizes.batch - 1) * step + 1;
  };
  int64_t rhs = matrices(sizes.rhsStep) * sizes.k * sizes.n;
  int64_t out = sizes.batch * sizes.m * sizes.n;
  const int64_t elements[kNumOperands] = {
      matrices(sizes.lhsStep) * sizes.m * sizes.k, rhs,
      call.hasBias ? sizes.n : 0, call.hasAddend ? out : 0, out};
  int64_t size = elementSize(call.dtype);
  Addresses starts{}, steps{};
  uint64_t bytes = 0, scratch = 0;
  for (int i = 0; i < kNumOperands; ++i) {
    starts[i] = int64_t(bytes);
    int64_t each = (elements[i] * size + 255) / 256 * 256;
    steps[i] = i == kLhs ? 0 : each;
    auto all =
        checkedMul<uint64_t>(uint64_t(each), uint64_t(i == kLhs ? 1 : count));
    auto end = all ? checkedAdd(bytes, *all) : std::nullopt;
    if (!end)
      return size_t(0);
    bytes = *end;
  }
  for (const Found &each : found)
    scratch = std::max(scratch, each.workspace);
  std::vector<Tuner::Way> ways;
  for (const Found &each : found)
    ways.push_back({nameOf(each.algorithm), [&](CUstream stream, char *memory) {
                      aligned = each.algorithm;
                      workspaceSize = each.workspace;
                      if (count > 1) {
                        auto isTaken = setSteps(steps);
                        if (!isTaken)
                          return isTaken.status();
                        if (!*isTaken)
                          return Status(Code::Resources,
                                        "an algorithm of cuBLASLt takes no "
                                        "members at these distances");
                      }
                      Addresses at = starts;
                      for (int64_t &address : at)
                        address += int64_t(reinterpret_cast<uintptr_t>(memory));
                      return enqueueOnce(stream, at, memory + bytes);
                    }});
  auto all = checkedAdd(bytes, scratch);
  auto best = all ? tuner.choose(api.name(), getName(), call.dtype, *all, ways)
                  : Expected<size_t>(size_t(0));
  aligned.reset();
  workspaceSize = 0;
  return best;
}

Status Product::choose(Tuner *tuner) {
  bool isTuned = tuner && !keepsBits(call);
  auto found = find(kAlignment, isTuned ? Tuner::kMostWays : 1);
  if (!found)
    return found.status();
  if (!found->empty()) {
    size_t best = 0;
    if (isTuned) {
      auto fastest = tune(*tuner, *found);
      if (!fastest)
        return fastest.status();
      best = *fastest;
    }
    aligned = (*found)[best].algorithm;
    workspaceSize = (*found)[best].workspace;
  }
  if (count > 1)
    return {}; // members at other addresses are products of their own
  auto others = find(uint32_t(elementSize(call.dtype)), 1);
  if (!others)
    return others.status();
  if (!others->empty()) {
    unaligned = others->front().algorithm;
    workspaceSize = std::max(workspaceSize, others->front().workspace);
  }
  if (!aligned)
    aligned = unaligned;
  return {};
}

void Product::chooseAs(const Product &other) {
  if (!setEpilogue(false, kAlignment).ok())
    return;
  if (std::optional<uint64_t> size = check(*other.aligned)) {
    aligned = other.aligned;
    workspaceSize = *size;
  }
}

Expected<bool> Product::setSteps(const Addresses &steps) {
  int64_t element = elementSize(call.dtype);
  FUSION_RT_TRY(setOffset(kA, steps[kRhs] / element));
  FUSION_RT_TRY(setOffset(kB, steps[kLhs] / element));
  FUSION_RT_TRY(
      setOffset(kC, steps[call.hasAddend ? kAddend : kOut] / element));
  FUSION_RT_TRY(setOffset(kD, steps[kOut] / element));
  if (call.hasBias) {
    int64_t step = steps[kBias] / element;
    FUSION_RT_TRY(set(kLtBiasBatchStride, &step, sizeof(step)));
  }
  std::optional<uint64_t> size = check(*aligned);
  return size && *size <= workspaceSize;
}

Status Product::enqueueOnce(CUstream stream, const Addresses &operands,
                            void *workspace) {
  const auto &algorithm = isAligned(operands) ? aligned : unaligned;
  if (!algorithm)
    return Status(Code::Resources,
                  "cuBLASLt has no algorithm for operands that do not start "
                  "at a multiple of 16 bytes; compile with --fp=strict");
  if (call.hasBias)
    FUSION_RT_TRY(setBias(operands[kBias]));
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

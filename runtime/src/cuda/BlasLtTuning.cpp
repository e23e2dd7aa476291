//===- BlasLtTuning.cpp - Which algorithm computes a product --------------===//
//
// The first that the library names and that keeps our promises. Where a tuner
// is asked: the fastest of all that it names, and of their neighbours with
// another order of blocks or shape of clusters.
//
//===----------------------------------------------------------------------===//
#include "BlasLtProduct.h"

#include "Checked.h"

#include <algorithm>
#include <cstring>

using namespace fusion::rt;
using namespace fusion::rt::cuda;

namespace {
/// Algorithms of one list of the library's that are told apart, at most.
constexpr size_t kMostAlgorithms = 8;
/// Settings of an algorithm that change its speed alone.
struct Setting {
  int attribute;
  uint32_t value;
};
constexpr Setting kSettings[] = {{kLtSwizzling, 1},    {kLtSwizzling, 2},
                                 {kLtSwizzling, 3},    {kLtClusterShape, 2},
                                 {kLtClusterShape, 3}, {kLtClusterShape, 5}};
/// Operations of a product that is over before blocks that take turns by a
/// counter gain what clearing it takes: 40 us of an H200. 19e9 took 29.0 us
/// without and 30.6 with one, 137e9 191 and 182.
constexpr double kMostWithoutCounter = 3e10;
} // namespace

static bool isSame(const LtAlgorithm &a, const LtAlgorithm &b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}

Expected<std::vector<Product::Found>>
Product::find(uint32_t alignment, size_t most, uint64_t mostWorkspace) {
  LtOwned preference(api.preferenceDestroy);
  FUSION_RT_TRY(api.check(api.preferenceCreate(preference.slot()),
                          "cublasLtMatmulPreferenceCreate"));
  auto prefer = [&](int attribute, auto value) {
    return api.check(
        api.preferenceSet(preference.get(), attribute, &value, sizeof(value)),
        "cublasLtMatmulPreferenceSetAttribute");
  };
  FUSION_RT_TRY(prefer(kLtMaxWorkspace, mostWorkspace));
  // Partial sums are never rounded to a narrow type.
  FUSION_RT_TRY(prefer(kLtReductions, isNarrow(call.dtype) ? kLtReduceInCompute
                                                           : kLtReduceAny));
  for (int attribute = kLtAlignA; attribute <= kLtAlignD; ++attribute)
    FUSION_RT_TRY(prefer(attribute, alignment));

  std::vector<Found> result;
  std::array<LtHeuristicResult, kMostAlgorithms> results{};
  // Where bits are kept, the epilogue doesn't choose the order of the sum. Else
  // it does; what is fast without it may be so with it.
  std::vector<bool> lists{keepsBits(call)};
  if (keepsBits(call) || most > kMostAlgorithms)
    lists.push_back(!keepsBits(call));
  for (bool plain : lists) {
    int found = 0;
    FUSION_RT_TRY(setEpilogue(plain, alignment));
    // No algorithm is an answer, not an error.
    api.heuristics(handle, desc.get(), layouts[kA].get(), layouts[kB].get(),
                   layouts[kC].get(), layouts[kD].get(), preference.get(),
                   int(results.size()), results.data(), &found);
    FUSION_RT_TRY(setEpilogue(false, alignment));
    for (int i = 0; i < found && result.size() < most; ++i) {
      const LtAlgorithm &each = results[i].algorithm;
      bool isKnown =
          std::any_of(result.begin(), result.end(), [&](const Found &other) {
            return isSame(other.algorithm, each);
          });
      if (isKnown || results[i].state != 0)
        continue;
      if (std::optional<Demand> demand = check(each))
        result.push_back({each, *demand, Tuner::kNone});
    }
  }
  return result;
}

Expected<std::vector<Product::Found>> Product::findFirst(uint32_t alignment) {
  isWithoutCounter = false;
  auto found = find(alignment, 1, kMostWorkspace);
  if (!found || found->empty())
    return found;
  uint64_t size = found->front().demand.workspace;
  double operations = 2.0 * sizes.m * sizes.n * sizes.k * sizes.batch *
                      std::max<int64_t>(count, 1);
  if (size == 0 || size > kCounterBytes || operations > kMostWithoutCounter)
    return found;
  isWithoutCounter = true;
  auto without = find(alignment, 1, 0);
  if (without && !without->empty())
    return without;
  isWithoutCounter = false;
  return found;
}

void Product::addNeighbours(std::vector<Found> &found) {
  size_t end = found.size();
  for (size_t base = 0; base < end; ++base)
    for (Setting setting : kSettings) {
      LtAlgorithm other = found[base].algorithm;
      auto shape = uint16_t(setting.value);
      bool isShape = setting.attribute == kLtClusterShape;
      if (api.algorithmSet(&other, setting.attribute,
                           isShape ? static_cast<void *>(&shape)
                                   : &setting.value,
                           isShape ? sizeof(shape) : sizeof(uint32_t)) != 0)
        continue;
      bool isKnown =
          std::any_of(found.begin(), found.end(), [&](const Found &each) {
            return isSame(each.algorithm, other);
          });
      if (isKnown)
        continue;
      if (std::optional<Demand> demand = check(other))
        found.push_back({other, *demand, base});
    }
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
  if (call.biasGradient != BiasGradient::None)
    name += " sum " + number(int64_t(call.biasGradient));
  if (call.units)
    name += " units " + number(call.units);
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
      matrices(sizes.lhsStep) * sizes.m * sizes.k,
      rhs,
      call.hasBias ? sizes.n : 0,
      call.hasAddend ? out : 0,
      call.hasSlope() ? out : 0,
      out,
      call.biasGradient == BiasGradient::None ? 0 : std::max(sizes.m, sizes.n)};
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
    scratch = std::max(scratch, each.demand.workspace);
  auto all = checkedAdd(bytes, scratch);
  if (!all)
    return size_t(0);
  std::vector<Tuner::Way> ways;
  for (const Found &each : found) {
    auto enqueueIt = [&](CUstream stream, char *memory) -> Status {
      aligned = each.algorithm;
      workspaceSize = each.demand.workspace;
      if (count > 1) {
        auto isTaken = setSteps(steps);
        if (!isTaken)
          return isTaken.status();
        if (!*isTaken)
          return Status(Code::Resources, "an algorithm of cuBLASLt takes no "
                                         "members at these distances");
      }
      Addresses at = starts;
      for (int64_t &address : at)
        address += int64_t(reinterpret_cast<uintptr_t>(memory));
      return enqueueOnce(stream, at, memory + bytes);
    };
    ways.push_back({nameOf(each.algorithm), enqueueIt, each.base});
  }
  auto best = tuner.choose(api.name(), getName(), call.dtype, *all, ways);
  aligned.reset();
  workspaceSize = 0;
  return best;
}

Status Product::choose(Tuner *tuner) {
  bool isTuned = tuner && !keepsBits(call);
  auto found = isTuned ? find(kAlignment, 2 * kMostAlgorithms, kMostWorkspace)
                       : findFirst(kAlignment);
  if (!found)
    return found.status();
  if (!found->empty()) {
    size_t best = 0;
    if (isTuned) {
      addNeighbours(*found);
      auto fastest = tune(*tuner, *found);
      if (!fastest)
        return fastest.status();
      best = *fastest;
    }
    aligned = (*found)[best].algorithm;
    workspaceSize = (*found)[best].demand.workspace;
    waves = (*found)[best].demand.waves;
  }
  if (count > 1)
    return {}; // members at other addresses are products of their own
  bool alignedIsWithout = isWithoutCounter;
  auto others = findFirst(uint32_t(elementSize(call.dtype)));
  if (!others)
    return others.status();
  isWithoutCounter = aligned ? alignedIsWithout : isWithoutCounter;
  if (!others->empty()) {
    unaligned = others->front().algorithm;
    workspaceSize = std::max(workspaceSize, others->front().demand.workspace);
  }
  if (!aligned)
    aligned = unaligned;
  return {};
}

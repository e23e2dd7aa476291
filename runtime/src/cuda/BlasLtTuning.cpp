//===- BlasLtTuning.cpp - Which algorithm computes a product --------------===//
//
// The first that the library names and that keeps our promises. Where a tuner
// is asked: the fastest of all that it names, of their neighbours with another
// order of blocks or shape of clusters, and, for many rows, of the product
// whose right side is transposed first.
//
//===----------------------------------------------------------------------===//
#include "BlasLtProduct.h"
#include "BlasLtTranspose.h"

#include "Checked.h"

#include <algorithm>
#include <cstring>

using namespace fusion::rt;
using namespace fusion::rt::cuda;

namespace {
/// Algorithms of one list of the library's that are told apart, at most.
constexpr size_t kMostAlgorithms = 8;
/// With fewer rows, moving the right side takes more than a tenth of the time
/// of the product, on a device of 200 operations a byte.
constexpr int64_t kRowsToTurn = 4096;
/// Settings of an algorithm that change its speed alone.
struct Setting {
  int attribute;
  uint32_t value;
};
constexpr Setting kSettings[] = {{kLtSwizzling, 1},    {kLtSwizzling, 2},
                                 {kLtSwizzling, 3},    {kLtClusterShape, 2},
                                 {kLtClusterShape, 3}, {kLtClusterShape, 5}};
} // namespace

static bool isSame(const LtAlgorithm &a, const LtAlgorithm &b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0;
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
  FUSION_RT_TRY(prefer(kLtMaxWorkspace, kMostWorkspace));
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
      if (std::optional<uint64_t> size = check(each))
        result.push_back({this, each, *size, Tuner::kNone});
    }
  }
  return result;
}

void Product::addNeighbours(std::vector<Found> &found, size_t first) {
  size_t end = found.size();
  for (size_t base = first; base < end; ++base)
    for (Setting setting : kSettings) {
      LtAlgorithm other = found[base].algorithm;
      auto shape = uint16_t(setting.value);
      bool isShape = setting.attribute == kLtClusterShape;
      if (api.algorithmSet(&other, setting.attribute,
                           isShape ? static_cast<void *>(&shape)
                                   : &setting.value,
                           isShape ? sizeof(shape) : sizeof(uint32_t)) != 0)
        continue;
      bool isKnown = std::any_of(
          found.begin() + ptrdiff_t(first), found.end(),
          [&](const Found &each) { return isSame(each.algorithm, other); });
      if (isKnown)
        continue;
      if (std::optional<uint64_t> size = check(other))
        found.push_back({this, other, *size, base});
    }
}

std::unique_ptr<Product::Turned> Product::addTurned(Tuner &tuner,
                                                    std::vector<Found> &found) {
  if (!call.transposeRhs || call.members != 1 || sizes.batch != 1 ||
      !sizes.loops.empty() || sizes.m < kRowsToTurn)
    return nullptr;
  auto all = checkedMul<uint64_t>(uint64_t(sizes.k) * elementSize(call.dtype),
                                  uint64_t(sizes.n));
  auto bytes = all ? checkedAlign(*all, uint64_t(256)) : std::nullopt;
  auto scratch = bytes ? checkedAdd(*bytes, kMostWorkspace) : std::nullopt;
  if (!scratch || !tuner.hasRoom(*scratch))
    return nullptr;
  auto transpose = planTranspose(api, handle, call.dtype, 1, sizes.n, sizes.k);
  if (!transpose)
    return nullptr;
  auto other = std::make_unique<Turned>();
  other->call = call;
  other->call.transposeRhs = false;
  other->transpose = std::move(*transpose);
  other->bytes = *bytes;
  other->product =
      std::make_unique<Product>(api, handle, other->call, sizes, 1);
  if (!other->product->describe().ok())
    return nullptr;
  auto more = other->product->find(kAlignment, 2 * kMostAlgorithms);
  if (!more)
    return nullptr;
  size_t first = found.size();
  found.insert(found.end(), more->begin(), more->end());
  other->product->addNeighbours(found, first);
  return other;
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

Expected<size_t> Product::tune(Tuner &tuner, const std::vector<Found> &found,
                               Turned *other) {
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
    scratch = std::max(scratch, each.workspace +
                                    (each.product != this ? other->bytes : 0));
  auto all = checkedAdd(bytes, scratch);
  if (!all)
    return size_t(0);
  // Turned products need more memory: the others are timed without them then.
  bool hasRoom = !other || tuner.hasRoom(*all);
  if (!hasRoom)
    *all = bytes + kMostWorkspace;
  std::vector<Tuner::Way> ways;
  for (const Found &each : found) {
    bool isTurned = each.product != this;
    if (isTurned && !hasRoom)
      break;
    auto enqueueIt = [&, isTurned](CUstream stream, char *memory) -> Status {
      each.product->aligned = each.algorithm;
      each.product->workspaceSize = each.workspace;
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
      return isTurned ? other->enqueue(stream, at, memory + bytes)
                      : enqueueOnce(stream, at, memory + bytes);
    };
    ways.push_back({(isTurned ? "turned " : "") + nameOf(each.algorithm),
                    enqueueIt, each.base});
  }
  auto best = tuner.choose(api.name(), getName(), call.dtype, *all, ways);
  aligned.reset();
  workspaceSize = 0;
  return best;
}

Status Product::choose(Tuner *tuner) {
  bool isTuned = tuner && !keepsBits(call);
  auto found = find(kAlignment, isTuned ? 2 * kMostAlgorithms : 1);
  if (!found)
    return found.status();
  if (!found->empty()) {
    size_t best = 0;
    std::unique_ptr<Turned> other;
    if (isTuned) {
      addNeighbours(*found, 0);
      other = addTurned(*tuner, *found);
      auto fastest = tune(*tuner, *found, other.get());
      if (!fastest)
        return fastest.status();
      best = *fastest;
    }
    Found &chosen = (*found)[best];
    bool isTurned = chosen.product != this;
    workspaceSize = chosen.workspace + (isTurned ? other->bytes : 0);
    aligned = isTurned ? found->front().algorithm : chosen.algorithm;
    if (isTurned) {
      other->product->aligned = chosen.algorithm;
      other->product->workspaceSize = chosen.workspace;
      turned = std::move(other);
    }
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

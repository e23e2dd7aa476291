//===- FakeBlasLt.cpp - cuBLASLt without a GPU, for tests -----------------===//
//
// libcublasLt.so.13 with the entries that the runtime uses. Products are of
// f32, computed at once, by one loop over memory of the host. It refuses what
// an algorithm was not found for. Algorithms differ in their times alone.
//
//===----------------------------------------------------------------------===//
#include "FakeBlasLt.h"
#include "BlasLtApi.h"
#include "FakeCuda.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

using namespace fusion::rt::cuda;

namespace {

constexpr int kInvalidValue = 7, kNotSupported = 15;

/// A descriptor: attributes by number.
struct Desc {
  std::map<int, int64_t> values;
};
struct Layout : Desc {
  int64_t rows, columns, leading;
};

struct State {
  std::vector<FakeProduct> products;
  std::map<std::string, int64_t> settings;
};
State &state() {
  static State shared;
  return shared;
}

int setValue(void *desc, int attribute, const void *value, size_t size) {
  int64_t &to = static_cast<Desc *>(desc)->values[attribute];
  to = 0;
  if (size == 4) {
    int32_t narrow;
    std::memcpy(&narrow, value, 4);
    to = narrow;
    return 0;
  }
  if (size != 8)
    return kInvalidValue;
  std::memcpy(&to, value, 8);
  return 0;
}

int64_t valueOf(const Desc &desc, int attribute, int64_t otherwise = 0) {
  auto known = desc.values.find(attribute);
  return known == desc.values.end() ? otherwise : known->second;
}

/// Whether there is an algorithm for these layouts.
bool serves(void *operation, std::initializer_list<void *> layouts) {
  int64_t batch = -1;
  for (void *each : layouts) {
    auto &layout = *static_cast<Layout *>(each);
    int64_t count = valueOf(layout, kLtBatchCount, 1);
    if (batch >= 0 && count != batch)
      return false;
    batch = count;
  }
  auto &desc = *static_cast<Desc *>(operation);
  int64_t epilogue = valueOf(desc, kLtEpilogue, kLtDefault);
  if (epilogue & (kLtGeluGrad | kLtSumA | kLtSumB)) {
    // What the manual says of the operand of the slope.
    bool hasSlope = (epilogue & kLtGeluGrad) == kLtGeluGrad;
    auto &result = *static_cast<Layout *>(*(layouts.end() - 1));
    int64_t leading = valueOf(desc, kLtAuxLeading);
    if (!state().settings["gradients"] ||
        (hasSlope && (leading % 8 != 0 || leading < result.rows)))
      return false;
  }
  return batch == 1 || state().settings["batches"];
}

/// The slope of gelu's tanh form.
float geluSlope(float x) {
  float root = std::sqrt(2 / 3.14159265f);
  float tanh = std::tanh(root * (x + 0.044715f * x * x * x));
  return 0.5f * (1 + tanh) +
         0.5f * x * (1 - tanh * tanh) * root * (1 + 3 * 0.044715f * x * x);
}

} // namespace

void fakeBlasLtReset() {
  state().products.clear();
  state().settings = {{"batches", 1},    {"bias step", 1}, {"workspace", 512},
                      {"algorithms", 1}, {"unaligned", 1}, {"gradients", 1}};
}
uint64_t fakeBlasLtCount() { return state().products.size(); }
const FakeProduct *fakeBlasLtProduct(uint64_t index) {
  return &state().products.at(index);
}
void fakeBlasLtSet(const char *key, int64_t value) {
  state().settings[key] = value;
}

extern "C" {

int cublasLtCreate(LtHandle *handle) {
  *handle = &state();
  return 0;
}
int cublasLtDestroy(LtHandle) { return 0; }
size_t cublasLtGetVersion() { return 130100; }
int cublasLtMatmulDescCreate(LtDesc *desc, int compute, int scale) {
  if ((compute != kLtCompute32 && compute != kLtComputeTf32) || scale != kLtF32)
    return kNotSupported;
  *desc = new Desc;
  return 0;
}
int cublasLtMatmulDescDestroy(LtDesc desc) {
  delete static_cast<Desc *>(desc);
  return 0;
}
int cublasLtMatmulDescSetAttribute(LtDesc desc, int attribute,
                                   const void *value, size_t size) {
  if (attribute == kLtBiasBatchStride && !state().settings["bias step"])
    return kNotSupported;
  return setValue(desc, attribute, value, size);
}
int cublasLtMatrixLayoutCreate(LtLayout *layout, int, uint64_t rows,
                               uint64_t columns, int64_t leading) {
  *layout = new Layout{{}, int64_t(rows), int64_t(columns), leading};
  return 0;
}
int cublasLtMatrixLayoutDestroy(LtLayout layout) {
  delete static_cast<Layout *>(layout);
  return 0;
}
int cublasLtMatrixLayoutSetAttribute(LtLayout layout, int attribute,
                                     const void *value, size_t size) {
  return setValue(static_cast<Layout *>(layout), attribute, value, size);
}
int cublasLtMatmulPreferenceCreate(LtPreference *preference) {
  *preference = new Desc;
  return 0;
}
int cublasLtMatmulPreferenceDestroy(LtPreference preference) {
  delete static_cast<Desc *>(preference);
  return 0;
}
int cublasLtMatmulPreferenceSetAttribute(LtPreference preference, int attribute,
                                         const void *value, size_t size) {
  return setValue(preference, attribute, value, size);
}
/// Whether a product may leave out the workspace that a check speaks of.
static bool isWithoutWorkspace(const LtAlgorithm &algorithm) {
  return algorithm.data[3] != 0;
}
int cublasLtMatmulAlgoGetHeuristic(LtHandle, LtDesc desc, LtLayout a,
                                   LtLayout b, LtLayout c, LtLayout d,
                                   LtPreference preference, int wanted,
                                   LtHeuristicResult *results, int *found) {
  *found = 0;
  int64_t alignment = valueOf(*static_cast<Desc *>(preference), kLtAlignA);
  bool isWithout =
      valueOf(*static_cast<Desc *>(preference), kLtMaxWorkspace) == 0;
  if (isWithout && !state().settings["no counter"])
    return kNotSupported;
  if (wanted < 1 || !serves(desc, {a, b, c, d}) ||
      (alignment < 16 && !state().settings["unaligned"]))
    return kNotSupported;
  *found = int(std::min<int64_t>(wanted, state().settings["algorithms"]));
  bool isBatch = valueOf(*static_cast<Layout *>(d), kLtBatchCount, 1) > 1;
  int64_t first = isBatch ? state().settings["batch algorithm"] : 0;
  for (int i = 0; i < *found; ++i) {
    results[i] = {};
    results[i].algorithm.data[0] = uint64_t(alignment);
    results[i].algorithm.data[1] = uint64_t(first + i);
    results[i].algorithm.data[3] = isWithout;
  }
  return 0;
}
int cublasLtMatmulAlgoCheck(LtHandle, LtDesc desc, LtLayout a, LtLayout b,
                            LtLayout c, LtLayout d, const LtAlgorithm *,
                            LtHeuristicResult *result) {
  *result = {};
  result->workspaceSize = size_t(state().settings["workspace"]);
  bool isBatch = valueOf(*static_cast<Layout *>(d), kLtBatchCount, 1) > 1;
  result->wavesCount =
      float(state().settings[isBatch ? "batch waves" : "waves"]) / 100;
  return serves(desc, {a, b, c, d}) ? 0 : kNotSupported;
}
int cublasLtMatmulAlgoConfigSetAttribute(LtAlgorithm *algorithm, int attribute,
                                         const void *value, size_t size) {
  if (attribute != kLtSwizzling || size != 4 || !state().settings["swizzles"])
    return kInvalidValue;
  uint32_t swizzle;
  std::memcpy(&swizzle, value, 4);
  algorithm->data[2] = swizzle;
  return 0;
}
int cublasLtMatmul(LtHandle, LtDesc desc, const void *alpha, const void *a,
                   LtLayout layoutA, const void *b, LtLayout layoutB,
                   const void *beta, const void *c, LtLayout layoutC, void *d,
                   LtLayout layoutD, const LtAlgorithm *algorithm,
                   void *workspace, size_t workspaceSize, CUstream stream) {
  if (!serves(desc, {layoutA, layoutB, layoutC, layoutD}) ||
      (workspaceSize < size_t(state().settings["workspace"]) &&
       !isWithoutWorkspace(*algorithm)))
    return kNotSupported;
  auto &op = *static_cast<Desc *>(desc);
  auto &la = *static_cast<Layout *>(layoutA),
       &lb = *static_cast<Layout *>(layoutB);
  auto &lc = *static_cast<Layout *>(layoutC),
       &ld = *static_cast<Layout *>(layoutD);
  int64_t epilogue = valueOf(op, kLtEpilogue, kLtDefault);
  bool hasBias = epilogue & kLtBias;
  bool hasSlope = (epilogue & kLtGeluGrad) == kLtGeluGrad;
  bool hasSum = epilogue & (kLtSumA | kLtSumB | kLtSumResult);
  FakeProduct product{valueOf(ld, kLtBatchCount, 1),
                      valueOf(la, kLtBatchOffset),
                      valueOf(lb, kLtBatchOffset),
                      valueOf(lc, kLtBatchOffset),
                      valueOf(ld, kLtBatchOffset),
                      valueOf(op, kLtBiasBatchStride),
                      algorithm->data[0],
                      stream,
                      workspace,
                      algorithm->data[1],
                      algorithm->data[2],
                      epilogue,
                      workspaceSize,
                      valueOf(op, kLtMostUnits)};
  auto *bias = reinterpret_cast<const float *>(valueOf(op, kLtBiasPointer));
  auto *slopeAt = reinterpret_cast<const float *>(valueOf(op, kLtAuxPointer));
  // Seen in version 13.1: a check that takes distances below zero, and a
  // product that reads outside of the operands.
  for (int64_t step : {product.stepA, product.stepB, product.stepC,
                       product.stepD, product.stepBias})
    if (step < 0)
      return kInvalidValue;
  // Addresses and distances must be what the algorithm was asked for.
  for (const void *each :
       {a, b, c, static_cast<const void *>(d),
        static_cast<const void *>(hasBias || hasSum ? bias : d),
        static_cast<const void *>(hasSlope ? slopeAt : d)})
    if (reinterpret_cast<uintptr_t>(each) % product.alignment)
      return kInvalidValue;
  state().products.push_back(product);
  std::string millis = "millis " + std::to_string(product.algorithm);
  std::string swizzled = millis + " swizzle " + std::to_string(product.swizzle);
  if (state().settings.count(swizzled))
    millis = swizzled;
  if (int status = fakeCudaSpend(stream, double(state().settings[millis])))
    return status;

  // The host's memory stands in for a device's.
  auto bytes = [](const void *address) {
    return static_cast<float *>(fakeCudaBytes(const_cast<void *>(address)));
  };
  float *summed = hasSum ? bytes(bias) : nullptr;
  if (hasBias)
    bias = bytes(bias);
  if (hasSlope)
    slopeAt = bytes(slopeAt);
  bool transA = valueOf(op, kLtTransA), transB = valueOf(op, kLtTransB);
  int64_t sum = transA ? la.rows : la.columns;
  float scale = *static_cast<const float *>(alpha),
        keep = *static_cast<const float *>(beta);
  for (int64_t i = 0; i < product.batch; ++i) {
    auto *fromA = bytes(a) + i * product.stepA;
    auto *fromB = bytes(b) + i * product.stepB;
    auto *fromC = bytes(c) + i * product.stepC;
    auto *to = bytes(d) + i * product.stepD;
    for (int64_t column = 0; column < ld.columns; ++column)
      for (int64_t row = 0; row < ld.rows; ++row) {
        float value = 0;
        for (int64_t l = 0; l < sum; ++l)
          value +=
              fromA[transA ? l + row * la.leading : row + l * la.leading] *
              fromB[transB ? column + l * lb.leading : l + column * lb.leading];
        value *= scale;
        if (keep != 0)
          value += keep * fromC[row + column * lc.leading];
        if (hasBias)
          value += bias[row + i * product.stepBias];
        if (epilogue & kLtRelu)
          value = std::max(value, 0.0f);
        if (hasSlope)
          value *= geluSlope(slopeAt[row + column * valueOf(op, kLtAuxLeading) +
                                     i * valueOf(op, kLtAuxBatchStride)]);
        to[row + column * ld.leading] = value;
      }
    if (!hasSum)
      continue;
    // A value a row of the result, but of B one a column.
    bool ofA = epilogue & kLtSumA, ofB = epilogue & kLtSumB;
    int64_t along = ofA || ofB ? sum : ld.columns;
    for (int64_t at = 0; at < (ofB ? ld.columns : ld.rows); ++at) {
      float total = 0;
      for (int64_t l = 0; l < along; ++l)
        total += ofA ? fromA[transA ? l + at * la.leading : at + l * la.leading]
                 : ofB
                     ? fromB[transB ? at + l * lb.leading : l + at * lb.leading]
                     : to[at + l * ld.leading];
      summed[at + i * product.stepBias] = total;
    }
  }
  return 0;
}
int cublasLtMatrixTransformDescCreate(LtDesc *, int) { return kNotSupported; }
int cublasLtMatrixTransformDescDestroy(LtDesc) { return 0; }
int cublasLtMatrixTransformDescSetAttribute(LtDesc, int, const void *, size_t) {
  return kNotSupported;
}
int cublasLtMatrixTransform(LtHandle, LtDesc, const void *, const void *,
                            LtLayout, const void *, const void *, LtLayout,
                            void *, LtLayout, CUstream) {
  return kNotSupported;
}

} // extern "C"

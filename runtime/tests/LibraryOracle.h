//===- LibraryOracle.h - Naive loops beside library calls -------*- C++ -*-===//
//
// What the tests of oneDNN calls share: tensors of small integers (every sum is
// exact, so results must be equal bit for bit, whatever implementation oneDNN
// chooses) or of normal numbers, and one call as a module that is run.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_TESTS_LIBRARYORACLE_H
#define FUSION_RUNTIME_TESTS_LIBRARYORACLE_H

#include "Checked.h"
#include "Session.h"
#include "TestModules.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

namespace fusion::rt::test {

using Shape = std::vector<int64_t>;

inline int64_t product(const Shape &shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t(1),
                         std::multiplies<int64_t>());
}

inline std::vector<Affine> affine(const Shape &shape) {
  std::vector<Affine> dims;
  for (int64_t size : shape)
    dims.push_back({0, size});
  return dims;
}

inline std::vector<float> integers(const Shape &shape, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(size_t(product(shape)));
  for (float &value : values)
    value = float(int(random() % 9) - 4);
  return values;
}

/// Calls `body` with each multi-index of `shape`.
template <typename Body> void forEach(const Shape &shape, Body body) {
  if (product(shape) == 0)
    return;
  Shape index(shape.size(), 0);
  for (;;) {
    body(index);
    size_t d = shape.size();
    while (d > 0 && ++index[d - 1] == shape[d - 1])
      index[--d] = 0;
    if (d == 0)
      return;
  }
}

inline int64_t flat(const Shape &shape, const Shape &index) {
  int64_t offset = 0;
  for (size_t i = 0; i < shape.size(); ++i)
    offset = offset * shape[i] + index[i];
  return offset;
}

/// NCHW... -> NHWC... (or back).
inline std::vector<float> permute(const std::vector<float> &from,
                                  const Shape &shape, bool toLast) {
  Shape lastShape = {shape[0]};
  lastShape.insert(lastShape.end(), shape.begin() + 2, shape.end());
  lastShape.push_back(shape[1]);
  std::vector<float> to(from.size());
  forEach(shape, [&](const Shape &index) {
    Shape last = {index[0]};
    last.insert(last.end(), index.begin() + 2, index.end());
    last.push_back(index[1]);
    int64_t a = flat(shape, index), b = flat(lastShape, last);
    if (toLast)
      to[size_t(b)] = from[size_t(a)];
    else
      to[size_t(a)] = from[size_t(b)];
  });
  return to;
}

enum class Weights { Constant, Input };

/// Runs one call; activations are given and returned in logical order.
inline std::vector<float>
runCall(LibraryCall call, const std::vector<float> &input,
        const std::vector<float> &weights, const std::vector<float> &bias,
        const std::vector<float> &addend, Weights where = Weights::Constant,
        int threads = 2) {
  auto sizes = [](const std::vector<Affine> &shape) {
    Shape result;
    for (Affine dim : shape)
      result.push_back(dim.base);
    return result;
  };
  call.hasBias = !bias.empty();
  call.hasAddend = !addend.empty();
  Shape inputShape = sizes(call.inputShape), output = sizes(call.outputShape);
  bool last = call.channelsLast;
  ModuleBuilder builder;
  std::vector<std::vector<float>> data;
  data.push_back(last ? permute(input, inputShape, true) : input);
  std::vector<ByteRange> reads = {builder.input("x", inputShape)};
  if (!weights.empty() || call.op != LibraryOp::AvgPool) {
    if (where == Weights::Constant && !weights.empty()) {
      reads.push_back(builder.constant(weights));
      reads.back().size = weights.size() * 4;
    } else {
      reads.push_back(builder.input("w", sizes(call.weightShape)));
      data.push_back(weights);
    }
  }
  if (call.hasBias) {
    reads.push_back(builder.input("b", {int64_t(bias.size())}));
    data.push_back(bias);
  }
  if (call.hasAddend) {
    reads.push_back(builder.input("a", output));
    data.push_back(last ? permute(addend, output, true) : addend);
  }
  builder.call(call, reads, builder.output("y", output));
  auto bytes = writeModule(builder.build());
  EXPECT_TRUE(bytes.ok()) << bytes.status().message();
  if (!bytes.ok())
    return {};
  // Modules in memory must be aligned.
  std::unique_ptr<void, void (*)(void *)> memory(
      std::aligned_alloc(64, (bytes->size() + 63) / 64 * 64), std::free);
  std::memcpy(memory.get(), bytes->data(), bytes->size());
  auto loaded = loadModuleMemory(memory.get(), bytes->size());
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  SessionOptions options;
  options.threads = threads;
  auto session = Session::create(*loaded, options);
  EXPECT_TRUE(session.ok()) << session.status().message();
  if (!session.ok())
    return {};
  std::vector<const void *> inputs;
  for (auto &tensor : data)
    inputs.push_back(tensor.data());
  std::vector<float> result(size_t(product(output)), -99.0f);
  void *outputs[] = {result.data()};
  for (int i = 0; i < 2; ++i) { // the second run must not see the first one
    Status status = (*session)->run(1, inputs.data(), outputs);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  return last ? permute(result, output, false) : result;
}

inline void finish(std::vector<double> &sums, const Shape &shape,
                   size_t channelDim, const std::vector<float> &bias,
                   const std::vector<float> &addend,
                   std::vector<float> &result) {
  forEach(shape, [&](const Shape &index) {
    size_t at = size_t(flat(shape, index));
    if (!bias.empty())
      sums[at] += double(bias[size_t(index[channelDim])]);
    if (!addend.empty())
      sums[at] += double(addend[at]);
    result[at] = float(sums[at]);
  });
}

inline const char *const extrasNames[] = {"plain", "bias", "biasAddend",
                                          "addendDynamic"};

/// extras: 0 nothing, 1 bias, 2 bias and addend, 3 addend, weights an input.
struct Extras {
  std::vector<float> bias, addend;
  Weights where;
};
inline Extras makeExtras(int extras, int64_t channels, const Shape &output) {
  Extras result;
  result.where = extras == 3 ? Weights::Input : Weights::Constant;
  if (extras == 1 || extras == 2)
    result.bias = integers({channels}, 3);
  if (extras >= 2)
    result.addend = integers(output, 4);
  return result;
}

inline std::vector<float> normals(const Shape &shape, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(size_t(product(shape)));
  for (float &value : values)
    value = normal(random);
  return values;
}

/// Not integers: bias and addend inside the call must give the same bits as
/// additions after it, or a call with them would not equal its parts.
inline void expectSumsLikeSeparateAdds(const LibraryCall &call,
                                       const Shape &input, const Shape &weight,
                                       const Shape &output, size_t channelDim) {
  auto x = normals(input, 1), w = normals(weight, 2);
  auto bias = normals({output[channelDim]}, 3), addend = normals(output, 4);
  auto plain = runCall(call, x, w, {}, {});
  auto biased = runCall(call, x, w, bias, {});
  auto added = runCall(call, x, w, {}, addend);
  auto both = runCall(call, x, w, bias, addend);
  size_t wrong[3] = {};
  forEach(output, [&](const Shape &index) {
    size_t at = size_t(flat(output, index));
    float b = bias[size_t(index[channelDim])];
    wrong[0] += biased[at] != plain[at] + b;
    wrong[1] += added[at] != plain[at] + addend[at];
    wrong[2] += both[at] != (plain[at] + b) + addend[at];
  });
  EXPECT_EQ(wrong[0], 0u) << "bias, of " << plain.size();
  EXPECT_EQ(wrong[1], 0u) << "addend, of " << plain.size();
  EXPECT_EQ(wrong[2], 0u) << "bias and addend, of " << plain.size();
}

/// A convolution: sizes as NCHW and OIHW.
struct ConvCase {
  const char *name;
  Shape input, weight;
  int64_t groups;
  Shape strides, dilations, padLow, padHigh;
};

inline void PrintTo(const ConvCase &value, std::ostream *stream) {
  *stream << value.name;
}

inline LibraryCall convCall(const ConvCase &test, bool channelsLast) {
  LibraryCall call;
  call.channelsLast = channelsLast;
  call.groups = test.groups;
  call.strides = test.strides;
  call.dilations = test.dilations;
  call.padLow = test.padLow;
  call.padHigh = test.padHigh;
  call.inputShape = affine(test.input);
  call.weightShape = affine(test.weight);
  return call;
}

} // namespace fusion::rt::test

#endif // FUSION_RUNTIME_TESTS_LIBRARYORACLE_H

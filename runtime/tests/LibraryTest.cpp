//===- LibraryTest.cpp - oneDNN calls against naive loops -----------------===//
//
// Data are small integers, so every sum is exact and results must be equal bit
// for bit, whatever implementation oneDNN chooses. One file, since all cases
// share the naive loops and the table of shapes.
//
//===----------------------------------------------------------------------===//
#include "Checked.h"
#include "Session.h"
#include "TestModules.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

using namespace fusion::rt;
using namespace fusion::rt::test;

namespace {

using Shape = std::vector<int64_t>;

int64_t product(const Shape &shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t(1),
                         std::multiplies<int64_t>());
}

std::vector<Affine> affine(const Shape &shape) {
  std::vector<Affine> dims;
  for (int64_t size : shape)
    dims.push_back({0, size});
  return dims;
}

std::vector<float> integers(const Shape &shape, unsigned seed) {
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

int64_t flat(const Shape &shape, const Shape &index) {
  int64_t offset = 0;
  for (size_t i = 0; i < shape.size(); ++i)
    offset = offset * shape[i] + index[i];
  return offset;
}

/// NCHW... -> NHWC... (or back).
std::vector<float> permute(const std::vector<float> &from, const Shape &shape,
                           bool toLast) {
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
std::vector<float> runCall(LibraryCall call, const std::vector<float> &input,
                           const std::vector<float> &weights,
                           const std::vector<float> &bias,
                           const std::vector<float> &addend,
                           Weights where = Weights::Constant, int threads = 2) {
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

void finish(std::vector<double> &sums, const Shape &shape, size_t channelDim,
            const std::vector<float> &bias, const std::vector<float> &addend,
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

struct ConvCase {
  const char *name;
  Shape input, weight;
  int64_t groups;
  Shape strides, dilations, padLow, padHigh;
};

void PrintTo(const ConvCase &value, std::ostream *stream) {
  *stream << value.name;
}

class ConvTest
    : public testing::TestWithParam<std::tuple<ConvCase, bool, int>> {};

LibraryCall convCall(const ConvCase &test, bool channelsLast) {
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

const char *const extrasNames[] = {"plain", "bias", "biasAddend",
                                   "addendDynamic"};

/// extras: 0 nothing, 1 bias, 2 bias and addend, 3 addend, weights an input.
struct Extras {
  std::vector<float> bias, addend;
  Weights where;
};
Extras makeExtras(int extras, int64_t channels, const Shape &output) {
  Extras result;
  result.where = extras == 3 ? Weights::Input : Weights::Constant;
  if (extras == 1 || extras == 2)
    result.bias = integers({channels}, 3);
  if (extras >= 2)
    result.addend = integers(output, 4);
  return result;
}

TEST_P(ConvTest, EqualsNaiveLoops) {
  const ConvCase &test = std::get<0>(GetParam());
  bool channelsLast = std::get<1>(GetParam());
  int extras = std::get<2>(GetParam());
  LibraryCall call = convCall(test, channelsLast);
  size_t spatial = test.strides.size();
  Shape output = {test.input[0], test.weight[0]};
  for (size_t i = 0; i < spatial; ++i)
    output.push_back((test.input[2 + i] + test.padLow[i] + test.padHigh[i] -
                      (test.weight[2 + i] - 1) * test.dilations[i] - 1) /
                         test.strides[i] +
                     1);
  call.outputShape = affine(output);
  auto input = integers(test.input, 1), weights = integers(test.weight, 2);
  Extras extra = makeExtras(extras, output[1], output);

  std::vector<double> sums(size_t(product(output)));
  Shape window(test.weight.begin() + 2, test.weight.end());
  int64_t groupIn = test.weight[1], groupOut = output[1] / test.groups;
  forEach(output, [&](const Shape &o) {
    double sum = 0;
    for (int64_t c = 0; c < groupIn; ++c)
      forEach(window, [&](const Shape &k) {
        Shape in = {o[0], o[1] / groupOut * groupIn + c};
        Shape w = {o[1], c};
        for (size_t i = 0; i < spatial; ++i) {
          int64_t at = o[2 + i] * test.strides[i] - test.padLow[i] +
                       k[i] * test.dilations[i];
          if (at < 0 || at >= test.input[2 + i])
            return;
          in.push_back(at);
          w.push_back(k[i]);
        }
        sum += double(input[size_t(flat(test.input, in))]) *
               double(weights[size_t(flat(test.weight, w))]);
      });
    sums[size_t(flat(output, o))] = sum;
  });
  std::vector<float> expected(sums.size());
  finish(sums, output, 1, extra.bias, extra.addend, expected);
  EXPECT_EQ(
      runCall(call, input, weights, extra.bias, extra.addend, extra.where),
      expected);
}

TEST_P(ConvTest, TransposedEqualsNaiveLoops) {
  // The case's shapes are read backwards: weights [C, O/g, k...].
  const ConvCase &test = std::get<0>(GetParam());
  bool channelsLast = std::get<1>(GetParam());
  int extras = std::get<2>(GetParam());
  LibraryCall call = convCall(test, channelsLast);
  call.op = LibraryOp::ConvTranspose;
  size_t spatial = test.strides.size();
  int64_t channels = test.weight[0], outChannels = test.weight[1] * test.groups;
  Shape inputShape = test.input;
  inputShape[1] = channels;
  call.inputShape = affine(inputShape);
  Shape output = {inputShape[0], outChannels};
  for (size_t i = 0; i < spatial; ++i) {
    output.push_back((inputShape[2 + i] - 1) * test.strides[i] +
                     (test.weight[2 + i] - 1) * test.dilations[i] + 1 -
                     test.padLow[i] - test.padHigh[i]);
    if (output.back() < 1)
      GTEST_SKIP() << "pads leave nothing of this output";
  }
  call.outputShape = affine(output);
  auto input = integers(inputShape, 1), weights = integers(test.weight, 2);
  Extras extra = makeExtras(extras, outChannels, output);

  std::vector<double> sums(size_t(product(output)));
  Shape window(test.weight.begin() + 2, test.weight.end());
  int64_t groupIn = channels / test.groups, groupOut = test.weight[1];
  forEach(inputShape, [&](const Shape &in) {
    for (int64_t c = 0; c < groupOut; ++c)
      forEach(window, [&](const Shape &k) {
        Shape o = {in[0], in[1] / groupIn * groupOut + c};
        Shape w = {in[1], c};
        for (size_t i = 0; i < spatial; ++i) {
          int64_t at = in[2 + i] * test.strides[i] - test.padLow[i] +
                       k[i] * test.dilations[i];
          if (at < 0 || at >= output[2 + i])
            return;
          o.push_back(at);
          w.push_back(k[i]);
        }
        sums[size_t(flat(output, o))] +=
            double(input[size_t(flat(inputShape, in))]) *
            double(weights[size_t(flat(test.weight, w))]);
      });
  });
  std::vector<float> expected(sums.size());
  finish(sums, output, 1, extra.bias, extra.addend, expected);
  EXPECT_EQ(
      runCall(call, input, weights, extra.bias, extra.addend, extra.where),
      expected);
}

const ConvCase convCases[] = {
    {"pointwise",
     {2, 16, 5, 7},
     {24, 16, 1, 1},
     1,
     {1, 1},
     {1, 1},
     {0, 0},
     {0, 0}},
    {"window3", {1, 3, 9, 8}, {20, 3, 3, 3}, 1, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {"strided",
     {2, 8, 11, 10},
     {16, 8, 3, 3},
     1,
     {2, 2},
     {1, 1},
     {1, 1},
     {1, 1}},
    {"asymmetric",
     {1, 5, 8, 9},
     {7, 5, 3, 2},
     1,
     {2, 1},
     {1, 1},
     {0, 1},
     {2, 0}},
    {"dilated",
     {1, 4, 12, 13},
     {6, 4, 3, 3},
     1,
     {1, 2},
     {2, 3},
     {2, 1},
     {1, 2}},
    {"grouped", {2, 6, 7, 7}, {9, 2, 3, 3}, 3, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {"depthwise",
     {2, 32, 8, 8},
     {32, 1, 3, 3},
     32,
     {1, 1},
     {1, 1},
     {1, 1},
     {1, 1}},
    {"depthwise_odd",
     {1, 19, 9, 7},
     {19, 1, 5, 5},
     19,
     {2, 1},
     {1, 1},
     {2, 2},
     {2, 2}},
    {"depth_multiplier",
     {1, 4, 6, 6},
     {8, 1, 3, 3},
     4,
     {1, 1},
     {1, 1},
     {1, 1},
     {1, 1}},
    {"one_dimension", {2, 6, 17}, {10, 6, 5}, 1, {2}, {1}, {2}, {1}},
    {"three_dimensions",
     {1, 4, 5, 6, 7},
     {8, 4, 3, 2, 3},
     1,
     {1, 2, 1},
     {1, 1, 2},
     {1, 0, 1},
     {1, 1, 2}},
    {"one_by_one_map",
     {3, 64, 1, 1},
     {10, 64, 1, 1},
     1,
     {1, 1},
     {1, 1},
     {0, 0},
     {0, 0}},
    {"one_channel",
     {1, 1, 6, 6},
     {1, 1, 3, 3},
     1,
     {1, 1},
     {1, 1},
     {0, 0},
     {0, 0}},
};

INSTANTIATE_TEST_SUITE_P(Shapes, ConvTest,
                         testing::Combine(testing::ValuesIn(convCases),
                                          testing::Bool(),
                                          testing::Range(0, 4)),
                         [](const auto &info) {
                           return std::string(std::get<0>(info.param).name) +
                                  (std::get<1>(info.param) ? "_last_"
                                                           : "_first_") +
                                  extrasNames[std::get<2>(info.param)];
                         });

struct MatMulCase {
  const char *name;
  Shape lhs, rhs; ///< as stored, before transposes
  bool transposeLhs, transposeRhs;
};

void PrintTo(const MatMulCase &value, std::ostream *stream) {
  *stream << value.name;
}

class MatMulTest : public testing::TestWithParam<std::tuple<MatMulCase, int>> {
};

TEST_P(MatMulTest, EqualsNaiveLoops) {
  const MatMulCase &test = std::get<0>(GetParam());
  int extras = std::get<1>(GetParam());
  Shape lhs = test.lhs, rhs = test.rhs;
  size_t rank = std::max(lhs.size(), rhs.size());
  auto dim = [&](const Shape &shape, size_t fromEnd) {
    return fromEnd < shape.size() ? shape[shape.size() - 1 - fromEnd] : 1;
  };
  int64_t m = dim(lhs, test.transposeLhs ? 0 : 1);
  int64_t k = dim(lhs, test.transposeLhs ? 1 : 0);
  int64_t n = dim(rhs, test.transposeRhs ? 1 : 0);
  Shape output(rank);
  for (size_t i = 2; i < rank; ++i)
    output[rank - 1 - i] = dim(lhs, i) == 1 ? dim(rhs, i) : dim(lhs, i);
  output[rank - 2] = m;
  output[rank - 1] = n;
  auto left = integers(lhs, 1), right = integers(rhs, 2);
  Extras extra = makeExtras(extras, n, output);

  auto element = [&](const std::vector<float> &data, const Shape &shape,
                     const Shape &index, int64_t row, int64_t column,
                     bool transpose) {
    Shape at(shape.size());
    for (size_t i = 2; i < shape.size(); ++i)
      at[shape.size() - 1 - i] = dim(shape, i) == 1 ? 0 : index[rank - 1 - i];
    at[shape.size() - 2] = transpose ? column : row;
    at[shape.size() - 1] = transpose ? row : column;
    return double(data[size_t(flat(shape, at))]);
  };
  std::vector<double> sums(size_t(product(output)));
  forEach(output, [&](const Shape &index) {
    double sum = 0;
    for (int64_t i = 0; i < k; ++i)
      sum += element(left, lhs, index, index[rank - 2], i, test.transposeLhs) *
             element(right, rhs, index, i, index[rank - 1], test.transposeRhs);
    sums[size_t(flat(output, index))] = sum;
  });
  std::vector<float> expected(sums.size());
  finish(sums, output, rank - 1, extra.bias, extra.addend, expected);

  LibraryCall call;
  call.op = LibraryOp::MatMul;
  call.inputShape = affine(lhs);
  call.weightShape = affine(rhs);
  call.outputShape = affine(output);
  call.transposeLhs = test.transposeLhs;
  call.transposeRhs = test.transposeRhs;
  EXPECT_EQ(runCall(call, left, right, extra.bias, extra.addend, extra.where),
            expected);
}

const MatMulCase matMulCases[] = {
    {"plain", {5, 7}, {7, 9}, false, false},
    {"transpose_lhs", {7, 5}, {7, 9}, true, false},
    {"transpose_rhs", {5, 7}, {9, 7}, false, true},
    {"transpose_both", {7, 5}, {9, 7}, true, true},
    {"wide", {64, 96}, {96, 128}, false, false},
    {"row", {1, 33}, {33, 17}, false, false},
    {"column", {17, 33}, {33, 1}, false, false},
    {"inner_one", {4, 1}, {1, 5}, false, false},
    {"batched", {3, 4, 6}, {3, 6, 5}, false, false},
    {"batched_transpose", {2, 3, 6, 4}, {2, 3, 5, 6}, true, true},
    {"flat_rhs", {2, 3, 4, 6}, {6, 5}, false, false},
    {"flat_rhs_transposed_lhs", {3, 6, 4}, {6, 5}, true, false},
    {"broadcast_rhs", {2, 3, 4, 6}, {1, 3, 6, 5}, false, false},
    {"broadcast_lhs", {1, 3, 4, 6}, {2, 3, 6, 5}, false, false},
    {"lower_rank_lhs", {4, 6}, {3, 6, 5}, false, false},
    {"broadcast_both", {2, 1, 4, 6}, {1, 3, 6, 5}, false, false},
};

INSTANTIATE_TEST_SUITE_P(Shapes, MatMulTest,
                         testing::Combine(testing::ValuesIn(matMulCases),
                                          testing::Range(0, 4)),
                         [](const auto &info) {
                           return std::string(std::get<0>(info.param).name) +
                                  "_" + extrasNames[std::get<1>(info.param)];
                         });

struct PoolCase {
  const char *name;
  Shape input, window, strides, padLow, padHigh;
};

void PrintTo(const PoolCase &value, std::ostream *stream) {
  *stream << value.name;
}

class AvgPoolTest
    : public testing::TestWithParam<std::tuple<PoolCase, bool, bool>> {};

TEST_P(AvgPoolTest, EqualsNaiveLoops) {
  const PoolCase &test = std::get<0>(GetParam());
  bool channelsLast = std::get<1>(GetParam());
  bool include = std::get<2>(GetParam());
  size_t spatial = test.window.size();
  Shape output = {test.input[0], test.input[1]};
  for (size_t i = 0; i < spatial; ++i)
    output.push_back((test.input[2 + i] + test.padLow[i] + test.padHigh[i] -
                      test.window[i]) /
                         test.strides[i] +
                     1);
  auto input = integers(test.input, 1);
  std::vector<float> expected(size_t(product(output)));
  forEach(output, [&](const Shape &o) {
    double sum = 0;
    int64_t count = 0;
    forEach(test.window, [&](const Shape &k) {
      Shape in = {o[0], o[1]};
      for (size_t i = 0; i < spatial; ++i) {
        int64_t at = o[2 + i] * test.strides[i] - test.padLow[i] + k[i];
        if (at < 0 || at >= test.input[2 + i])
          return;
        in.push_back(at);
      }
      sum += double(input[size_t(flat(test.input, in))]);
      ++count;
    });
    if (include)
      count = product(test.window);
    // One division of exact integers: correctly rounded in float.
    expected[size_t(flat(output, o))] = float(sum) / float(count);
  });
  LibraryCall call;
  call.op = LibraryOp::AvgPool;
  call.channelsLast = channelsLast;
  call.countIncludePad = include;
  call.inputShape = affine(test.input);
  call.outputShape = affine(output);
  call.window = test.window;
  call.strides = test.strides;
  call.padLow = test.padLow;
  call.padHigh = test.padHigh;
  call.dilations = Shape(spatial, 1);
  EXPECT_EQ(runCall(call, input, {}, {}, {}), expected);
}

const PoolCase poolCases[] = {
    {"window3", {2, 16, 9, 9}, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
    {"odd_channels", {1, 5, 7, 8}, {2, 3}, {1, 2}, {1, 0}, {0, 2}},
    {"global", {2, 7, 4, 4}, {4, 4}, {1, 1}, {0, 0}, {0, 0}},
    {"one_dimension", {2, 3, 11}, {4}, {3}, {2}, {1}},
    {"three_dimensions",
     {1, 4, 5, 6, 7},
     {2, 3, 2},
     {1, 2, 2},
     {1, 1, 0},
     {0, 1, 1}},
};

INSTANTIATE_TEST_SUITE_P(Shapes, AvgPoolTest,
                         testing::Combine(testing::ValuesIn(poolCases),
                                          testing::Bool(), testing::Bool()),
                         [](const auto &info) {
                           return std::string(std::get<0>(info.param).name) +
                                  (std::get<1>(info.param) ? "_last"
                                                           : "_first") +
                                  (std::get<2>(info.param) ? "_include"
                                                           : "_exclude");
                         });

std::vector<float> normals(const Shape &shape, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(size_t(product(shape)));
  for (float &value : values)
    value = normal(random);
  return values;
}

/// Not integers: bias and addend inside the call must give the same bits as
/// additions after it, or a call with them would not equal its parts.
void expectSumsLikeSeparateAdds(const LibraryCall &call, const Shape &input,
                                const Shape &weight, const Shape &output,
                                size_t channelDim) {
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

TEST_P(ConvTest, SumsLikeSeparateAdds) {
  const ConvCase &test = std::get<0>(GetParam());
  if (std::get<2>(GetParam()) != 0)
    GTEST_SKIP() << "one extra is enough";
  LibraryCall call = convCall(test, std::get<1>(GetParam()));
  Shape output = {test.input[0], test.weight[0]};
  for (size_t i = 0; i < test.strides.size(); ++i)
    output.push_back((test.input[2 + i] + test.padLow[i] + test.padHigh[i] -
                      (test.weight[2 + i] - 1) * test.dilations[i] - 1) /
                         test.strides[i] +
                     1);
  call.outputShape = affine(output);
  expectSumsLikeSeparateAdds(call, test.input, test.weight, output, 1);
}

TEST_P(ConvTest, ImagesAndThreadsDoNotChangeBits) {
  // Three images together on two threads and each alone on one: a call is cut
  // into rows and batches vary, so neither may change a bit.
  ConvCase test = std::get<0>(GetParam());
  if (std::get<2>(GetParam()) != 0)
    GTEST_SKIP() << "one extra is enough";
  bool channelsLast = std::get<1>(GetParam());
  test.input[0] = 3;
  LibraryCall call = convCall(test, channelsLast);
  Shape output = {3, test.weight[0]};
  for (size_t i = 0; i < test.strides.size(); ++i)
    output.push_back((test.input[2 + i] + test.padLow[i] + test.padHigh[i] -
                      (test.weight[2 + i] - 1) * test.dilations[i] - 1) /
                         test.strides[i] +
                     1);
  call.outputShape = affine(output);
  auto x = normals(test.input, 1), w = normals(test.weight, 2);
  auto bias = normals({output[1]}, 3);
  auto together = runCall(call, x, w, bias, {}, Weights::Constant, 2);
  call.inputShape[0].base = call.outputShape[0].base = 1;
  size_t in = x.size() / 3, out = together.size() / 3;
  std::vector<float> alone;
  for (size_t n = 0; n < 3; ++n) {
    auto image = runCall(
        call, {x.begin() + long(n * in), x.begin() + long((n + 1) * in)}, w,
        bias, {}, Weights::Constant, 1);
    alone.insert(alone.end(), image.begin(), image.end());
  }
  ASSERT_EQ(alone.size(), 3 * out);
  EXPECT_EQ(alone, together);
}

TEST(LibraryTest, MatMulSumsLikeSeparateAdds) {
  for (Shape sizes : {Shape{64, 96, 128}, Shape{1, 500, 10}, Shape{7, 33, 5}}) {
    Shape lhs = {sizes[0], sizes[1]}, rhs = {sizes[1], sizes[2]};
    Shape output = {sizes[0], sizes[2]};
    LibraryCall call;
    call.op = LibraryOp::MatMul;
    call.inputShape = affine(lhs);
    call.weightShape = affine(rhs);
    call.outputShape = affine(output);
    expectSumsLikeSeparateAdds(call, lhs, rhs, output, 1);
  }
}

TEST(LibraryTest, EmptyContractionGivesBiasAndAddend) {
  LibraryCall call;
  call.op = LibraryOp::MatMul;
  call.inputShape = affine({2, 0});
  call.weightShape = affine({0, 3});
  call.outputShape = affine({2, 3});
  std::vector<float> bias = {1, 2, 3}, addend = {10, 20, 30, 40, 50, 60};
  EXPECT_EQ(runCall(call, {}, {}, bias, addend, Weights::Input),
            (std::vector<float>{11, 22, 33, 41, 52, 63}));
  EXPECT_EQ(runCall(call, {}, {}, {}, {}, Weights::Input),
            std::vector<float>(6, 0.0f));
}

TEST(LibraryTest, EmptyOutputIsSkipped) {
  LibraryCall call;
  call.op = LibraryOp::MatMul;
  call.inputShape = affine({0, 4});
  call.weightShape = affine({4, 3});
  call.outputShape = affine({0, 3});
  EXPECT_TRUE(runCall(call, {}, integers({4, 3}, 1), {}, {}).empty());
}

TEST(LibraryTest, OneAndTwoThreadsGiveTheSameBits) {
  // Not integers: the order of additions must not depend on the threads.
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  Shape input = {2, 32, 28, 28}, weight = {64, 32, 3, 3};
  std::vector<float> x(size_t(product(input))), w(size_t(product(weight)));
  for (auto *values : {&x, &w})
    for (float &value : *values)
      value = normal(random);
  ConvCase test{"", input, weight, 1, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
  LibraryCall call = convCall(test, true);
  call.outputShape = affine({2, 64, 28, 28});
  EXPECT_EQ(runCall(call, x, w, {}, {}, Weights::Constant, 1),
            runCall(call, x, w, {}, {}, Weights::Constant, 2));
}

TEST(LibraryTest, AddendInPlaceIsTheOutput) {
  ModuleBuilder builder;
  ByteRange x = builder.input("x", {2, 2}), a = builder.input("a", {2, 2});
  ByteRange y = builder.output("y", {2, 2}), t = builder.scratch(16);
  ByteRange w = builder.constant({1, 0, 0, 1});
  builder.copy(a, t);
  LibraryCall call;
  call.op = LibraryOp::MatMul;
  call.inputShape = call.weightShape = call.outputShape = affine({2, 2});
  call.hasAddend = true;
  builder.call(call, {x, w, t}, t);
  builder.copy(t, y);
  auto bytes = writeModule(builder.build());
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  std::string path = temporaryPath("inplace.fsn");
  ASSERT_TRUE(writeFileAtomically(path, bytes->data(), bytes->size()).ok());
  auto loaded = loadModuleFile(path);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  auto session = Session::create(*loaded, {});
  ASSERT_TRUE(session.ok()) << session.status().message();
  float in[] = {1, 2, 3, 4}, add[] = {10, 20, 30, 40}, out[4] = {};
  const void *inputs[] = {in, add};
  void *outputs[] = {out};
  ASSERT_TRUE((*session)->run(1, inputs, outputs).ok());
  EXPECT_EQ(std::vector<float>(out, out + 4),
            (std::vector<float>{11, 22, 33, 44}));
}

} // namespace

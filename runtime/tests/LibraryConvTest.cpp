//===- LibraryConvTest.cpp - Convolutions by oneDNN against naive loops ---===//
//
// Both layouts, forwards and transposed, over one table of shapes.
//
//===----------------------------------------------------------------------===//
#include "LibraryOracle.h"

using namespace fusion::rt;
using namespace fusion::rt::test;

namespace {

/// A shape, the layout, and what the call adds.
class ConvTest
    : public testing::TestWithParam<std::tuple<ConvCase, bool, int>> {};

/// A shape and the layout.
class ConvLayoutTest
    : public testing::TestWithParam<std::tuple<ConvCase, bool>> {};

/// The shape of a convolution's output, channels first.
Shape outputShape(const ConvCase &test) {
  Shape output = {test.input[0], test.weight[0]};
  for (size_t i = 0; i < test.strides.size(); ++i)
    output.push_back((test.input[2 + i] + test.padLow[i] + test.padHigh[i] -
                      (test.weight[2 + i] - 1) * test.dilations[i] - 1) /
                         test.strides[i] +
                     1);
  return output;
}

TEST_P(ConvTest, EqualsNaiveLoops) {
  const ConvCase &test = std::get<0>(GetParam());
  bool channelsLast = std::get<1>(GetParam());
  int extras = std::get<2>(GetParam());
  LibraryCall call = convCall(test, channelsLast);
  size_t spatial = test.strides.size();
  Shape output = outputShape(test);
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

TEST_P(ConvLayoutTest, SumsLikeSeparateAdds) {
  const ConvCase &test = std::get<0>(GetParam());
  LibraryCall call = convCall(test, std::get<1>(GetParam()));
  Shape output = outputShape(test);
  call.outputShape = affine(output);
  expectSumsLikeSeparateAdds(call, test.input, test.weight, output, 1);
}

TEST_P(ConvLayoutTest, ImagesAndThreadsDoNotChangeBits) {
  // Three images together on two threads and each alone on one: a call is cut
  // into rows and batches vary, so neither may change a bit.
  ConvCase test = std::get<0>(GetParam());
  bool channelsLast = std::get<1>(GetParam());
  test.input[0] = 3;
  LibraryCall call = convCall(test, channelsLast);
  Shape output = outputShape(test);
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

INSTANTIATE_TEST_SUITE_P(Shapes, ConvLayoutTest,
                         testing::Combine(testing::ValuesIn(convCases),
                                          testing::Bool()),
                         [](const auto &info) {
                           return std::string(std::get<0>(info.param).name) +
                                  (std::get<1>(info.param) ? "_last"
                                                           : "_first");
                         });

} // namespace

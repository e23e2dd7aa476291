//===- LibraryTest.cpp - oneDNN calls against naive loops -----------------===//
//
// Matrix products and average pools over tables of shapes, and what all calls
// have in common: empty tensors, threads, an addend in place.
//
//===----------------------------------------------------------------------===//
#include "LibraryOracle.h"

using namespace fusion::rt;
using namespace fusion::rt::test;

namespace {

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

/// Products of integers, `count` times as one call and as one call each; an
/// addend in the output's bytes for some.
static void expectGroupedEqualsSeparate(int64_t count, Shape sizes,
                                        int threads) {
  Shape lhs = {sizes[0], sizes[1]}, rhs = {sizes[1], sizes[2]};
  Shape output = {sizes[0], sizes[2]};
  std::vector<std::vector<float>> results[2];
  for (bool grouped : {false, true}) {
    ModuleBuilder builder;
    LibraryCall call;
    call.op = LibraryOp::MatMul;
    call.inputShape = affine(lhs);
    call.weightShape = affine(rhs);
    call.outputShape = affine(output);
    call.hasAddend = true;
    std::vector<std::vector<float>> data, out;
    std::vector<const void *> inputs;
    std::vector<void *> outputs;
    std::vector<Operand> operands;
    std::vector<std::pair<ByteRange, ByteRange>> copies;
    uint64_t bytes = uint64_t(product(output)) * 4;
    for (int64_t i = 0; i < count; ++i) {
      std::string n = std::to_string(i);
      ByteRange x = builder.input("x" + n, lhs),
                a = builder.input("a" + n, output);
      ByteRange y = builder.output("y" + n, output), t = builder.scratch(bytes);
      data.push_back(integers(lhs, unsigned(3 * i)));
      data.push_back(integers(output, unsigned(3 * i + 1)));
      out.emplace_back(size_t(product(output)));
      // The weights are an input for every other member.
      ByteRange w;
      if (i % 2) {
        w = builder.input("w" + n, rhs);
        data.push_back(integers(rhs, unsigned(3 * i + 2)));
      } else {
        w = builder.constant(integers(rhs, unsigned(3 * i + 2)));
      }
      builder.copy(a, t);
      copies.push_back({t, y});
      for (ByteRange range : {x, w, t})
        operands.push_back({range, true, false, DType::F32});
      operands.push_back({t, false, true, DType::F32});
      if (!grouped)
        builder.call(call, {x, w, t}, t);
    }
    if (grouped) {
      call.members = count;
      builder.call(call, {}, ByteRange()).operands = operands;
    }
    for (auto &[from, to] : copies)
      builder.copy(from, to);
    for (auto &values : data)
      inputs.push_back(values.data());
    for (auto &values : out)
      outputs.push_back(values.data());
    auto file = writeModule(builder.build());
    ASSERT_TRUE(file.ok()) << file.status().message();
    std::string path = temporaryPath("grouped.fsn");
    ASSERT_TRUE(writeFileAtomically(path, file->data(), file->size()).ok());
    auto loaded = loadModuleFile(path);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    SessionOptions options;
    options.threads = threads;
    auto session = Session::create(*loaded, options);
    ASSERT_TRUE(session.ok()) << session.status().message();
    for (int run = 0; run < 3; ++run)
      ASSERT_TRUE((*session)->run(1, inputs.data(), outputs.data()).ok());
    EXPECT_EQ((*session)->executor().counters().calls,
              3u * (grouped ? 1 : count));
    results[grouped] = out;
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST(LibraryTest, GroupedCallEqualsSeparateCalls) {
  for (int threads : {1, 2, 4})
    for (Shape sizes : {Shape{3, 5, 7}, Shape{40, 40, 40}, Shape{96, 64, 96}})
      for (int64_t count : {2, 9})
        expectGroupedEqualsSeparate(count, sizes, threads);
}

/// One constant read plain by a product and transposed by the next, as tied
/// embeddings are: [1 2] * [[1 2] [4 -5]] = [9 -8], and [9 -8] times the
/// transposed is [-7 76].
TEST(LibraryTest, WeightsReadInTwoWaysArePackedTwice) {
  ModuleBuilder builder;
  ByteRange x = builder.input("x", {1, 2}), y = builder.output("y", {1, 2});
  ByteRange t = builder.scratch(8), w = builder.constant({1, 2, 4, -5});
  LibraryCall call;
  call.op = LibraryOp::MatMul;
  call.inputShape = call.outputShape = affine({1, 2});
  call.weightShape = affine({2, 2});
  builder.call(call, {x, w}, t);
  call.transposeRhs = true;
  builder.call(call, {t, w}, y);
  auto bytes = writeModule(builder.build());
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  std::string path = temporaryPath("tied.fsn");
  ASSERT_TRUE(writeFileAtomically(path, bytes->data(), bytes->size()).ok());
  auto loaded = loadModuleFile(path);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  auto session = Session::create(*loaded, {});
  ASSERT_TRUE(session.ok()) << session.status().message();
  float in[] = {1, 2}, out[2] = {};
  const void *inputs[] = {in};
  void *outputs[] = {out};
  ASSERT_TRUE((*session)->run(1, inputs, outputs).ok());
  EXPECT_EQ(std::vector<float>(out, out + 2), (std::vector<float>{-7, 76}));
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

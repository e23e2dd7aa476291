//===- CudaLibraryConvTest.cpp - Convolutions by cuDNN --------------------===//
//
// What a convolution on channels-last images is, as a loop, and which calls are
// tested.
//
//===----------------------------------------------------------------------===//
#include "CudaLibraryTesting.h"

using namespace fusion::rt;
using namespace fusion::rt::cuda;

static LibraryCall makeCall(LibraryOp op, const ConvCase &test,
                            const Shape &out) {
  size_t spatial = test.input.size() - 2;
  LibraryCall call;
  call.op = op;
  call.dtype = test.type;
  call.hasBias = test.bias;
  call.hasAddend = test.addend;
  call.activation = test.activation;
  call.channelsLast = true;
  call.weightsLast = test.laidOut;
  call.inputShape = affine(test.input);
  call.weightShape = affine(test.weights);
  call.outputShape = affine(out);
  call.strides.assign(spatial, test.step);
  call.dilations.assign(spatial, 1);
  call.padLow.assign(spatial, test.padLow);
  call.padHigh.assign(spatial, test.padHigh - test.extra);
  call.groups = test.groups;
  return call;
}

static std::vector<Shape> listShapes(const ConvCase &test, const Shape &out) {
  std::vector<Shape> shapes = {test.input, test.weights};
  if (test.bias)
    shapes.push_back({out[1]});
  if (test.addend)
    shapes.push_back(out);
  shapes.push_back(out);
  return shapes;
}

static std::string titleOf(const char *op, const ConvCase &test) {
  std::string text = std::string(op) + " " + textOf(test.input) + " " +
                     textOf(test.weights) + (test.laidOut ? " ohwi" : "") +
                     " step " + std::to_string(test.step) + " pad " +
                     std::to_string(test.padLow);
  if (test.padHigh != test.padLow)
    text += " " + std::to_string(test.padHigh);
  if (test.extra)
    text += " extra " + std::to_string(test.extra);
  if (test.groups > 1)
    text += " groups " + std::to_string(test.groups);
  return text;
}

void Tests::conv(const ConvCase &test) {
  const Shape &input = test.input, &weights = test.weights;
  size_t spatial = input.size() - 2;
  Shape out = {input[0], weights[0]};
  for (size_t d = 0; d < spatial; ++d)
    out.push_back((input[d + 2] + test.padLow + test.padHigh - weights[d + 2]) /
                      test.step +
                  1);
  int64_t positions = countOf(out) / (out[0] * out[1]);
  int64_t pixels = countOf(input) / (input[0] * input[1]);
  int64_t window = countOf(weights) / (weights[0] * weights[1]);
  auto sum = [&](const Values *in, int64_t i) {
    int64_t o = i % out[1], position = i / out[1] % positions,
            n = i / (out[1] * positions);
    // The group's first channel.
    int64_t channel = o / (out[1] / test.groups) * weights[1];
    double total = 0;
    for (int64_t tap = 0; tap < window; ++tap) {
      int64_t at = 0, scale = 1, tapRest = tap, rest = position;
      bool inside = true;
      for (size_t d = spatial; d-- > 0;) {
        int64_t coordinate = rest % out[d + 2] * test.step - test.padLow +
                             tapRest % weights[d + 2];
        rest /= out[d + 2];
        tapRest /= weights[d + 2];
        inside &= coordinate >= 0 && coordinate < input[d + 2];
        at += coordinate * scale;
        scale *= input[d + 2];
      }
      if (!inside)
        continue;
      for (int64_t c = 0; c < weights[1]; ++c)
        total += in[0][(n * pixels + at) * input[1] + channel + c] *
                 in[1][test.laidOut ? (o * window + tap) * weights[1] + c
                                    : (o * weights[1] + c) * window + tap];
    }
    return total;
  };
  run(titleOf("conv", test), makeCall(LibraryOp::Conv, test, out),
      listShapes(test, out), out[1], 1, test.stride, sum, 0, Place::Apart,
      test.hasNan);
}

void Tests::convTranspose(const ConvCase &test) {
  const Shape &input = test.input, &weights = test.weights;
  size_t spatial = input.size() - 2;
  Shape out = {input[0], weights[1]};
  for (size_t d = 0; d < spatial; ++d)
    out.push_back((input[d + 2] - 1) * test.step + weights[d + 2] -
                  test.padLow - test.padHigh + test.extra);
  int64_t positions = countOf(out) / (out[0] * out[1]);
  int64_t pixels = countOf(input) / (input[0] * input[1]);
  int64_t window = countOf(weights) / (weights[0] * weights[1]);
  auto sum = [&](const Values *in, int64_t i) {
    int64_t o = i % out[1], position = i / out[1] % positions,
            n = i / (out[1] * positions);
    double total = 0;
    for (int64_t tap = 0; tap < window; ++tap) {
      int64_t at = 0, scale = 1, tapRest = tap, rest = position;
      bool inside = true;
      for (size_t d = spatial; d-- > 0;) {
        int64_t moved =
            rest % out[d + 2] + test.padLow - tapRest % weights[d + 2];
        rest /= out[d + 2];
        tapRest /= weights[d + 2];
        inside &= moved >= 0 && moved % test.step == 0 &&
                  moved / test.step < input[d + 2];
        at += moved / test.step * scale;
        scale *= input[d + 2];
      }
      if (!inside)
        continue;
      for (int64_t c = 0; c < input[1]; ++c)
        total += in[0][(n * pixels + at) * input[1] + c] *
                 in[1][test.laidOut ? (c * window + tap) * out[1] + o
                                    : (c * out[1] + o) * window + tap];
    }
    return total;
  };
  run(titleOf("conv_transpose", test),
      makeCall(LibraryOp::ConvTranspose, test, out), listShapes(test, out),
      out[1], 1, test.stride, sum, 0, Place::Apart, test.hasNan);
}

namespace {
/// A case and what is changed of it.
class Build {
public:
  Build(DType type, Shape input, Shape weights, int64_t step = 1,
        int64_t pad = 0) {
    test.type = type;
    test.input = std::move(input);
    test.weights = std::move(weights);
    test.step = step;
    test.padLow = test.padHigh = pad;
  }
  /// Bits: bias, addend, relu.
  Build &epilogue(int bits) {
    test.bias = bits & 1;
    test.addend = bits & 2;
    test.activation = bits & 4 ? Activation::Relu : Activation::None;
    return *this;
  }
  Build &laidOut(bool is = true) { return test.laidOut = is, *this; }
  Build &extra(int64_t size) { return test.extra = size, *this; }
  Build &groups(int64_t count) { return test.groups = count, *this; }
  Build &padHigh(int64_t size) { return test.padHigh = size, *this; }
  Build &nan() { return test.hasNan = true, *this; }
  Build &every(int64_t stride) { return test.stride = stride, *this; }
  operator const ConvCase &() const { return test; }

private:
  ConvCase test;
};
} // namespace

static constexpr int kNone = 0, kBias = 1, kAddend = 2, kRelu = 4;

static void runAlike(Tests &tests, DType type) {
  for (int bits = 0; bits < 8; ++bits)
    tests.conv(Build(type, {2, 16, 9, 7}, {24, 16, 3, 3}, 1, 1).epilogue(bits));
  tests.conv(Build(type, {2, 3, 11, 11}, {5, 3, 3, 3}, 2)
                 .epilogue(kBias | kAddend | kRelu));
  tests.conv(Build(type, {1, 8, 6, 6}, {16, 8, 1, 1}).epilogue(kBias | kRelu));
  tests.conv(Build(type, {2, 8, 13}, {16, 8, 5}, 1, 2).epilogue(kBias | kRelu));
  tests.conv(
      Build(type, {1, 8, 5, 6, 7}, {8, 8, 3, 3, 3}, 1, 1).epilogue(kBias));
  // Weights that the module has laid out.
  for (int addend : {kNone, kAddend})
    tests.conv(Build(type, {2, 16, 9, 7}, {24, 16, 3, 3}, 1, 1)
                   .epilogue(kBias | addend | kRelu)
                   .laidOut());
  tests.conv(
      Build(type, {2, 3, 11, 11}, {5, 3, 3, 3}, 2).epilogue(kBias).laidOut());
  tests.conv(Build(type, {2, 8, 13}, {16, 8, 5}, 1, 2).laidOut());
  tests.conv(Build(type, {1, 8, 5, 6, 7}, {8, 8, 3, 3, 3}, 1, 1)
                 .epilogue(kBias | kRelu)
                 .laidOut());
  // A NaN comes through a relu, whatever engine computes it.
  for (int bits : {kRelu, kBias | kRelu, kBias | kAddend | kRelu})
    tests.conv(Build(type, {2, 16, 9, 7}, {24, 16, 3, 3}, 1, 1)
                   .epilogue(bits)
                   .laidOut()
                   .nan());
  tests.conv(Build(type, {2, 3, 11, 11}, {5, 3, 3, 3}, 2)
                 .epilogue(kBias | kRelu)
                 .laidOut()
                 .nan());
}

static void runTransposed(Tests &tests, DType type) {
  for (bool laidOut : {false, true}) {
    for (int bits = 0; bits < 8; ++bits)
      tests.convTranspose(Build(type, {2, 16, 5, 6}, {16, 8, 3, 3}, 2, 1)
                              .extra(1)
                              .epilogue(bits)
                              .laidOut(laidOut));
    tests.convTranspose(Build(type, {2, 24, 5, 6}, {24, 16, 2, 2}, 2)
                            .epilogue(kBias | kRelu)
                            .laidOut(laidOut));
    tests.convTranspose(Build(type, {2, 3, 7, 5}, {3, 5, 3, 3}, 1, 1)
                            .epilogue(kBias)
                            .laidOut(laidOut));
    tests.convTranspose(Build(type, {2, 8, 9}, {8, 16, 4}, 2, 1)
                            .epilogue(kBias)
                            .laidOut(laidOut));
    if (type != DType::F32)
      tests.convTranspose(Build(type, {1, 8, 3, 4, 5}, {8, 8, 2, 2, 2}, 2)
                              .epilogue(kBias)
                              .laidOut(laidOut));
  }
  tests.convTranspose(Build(type, {2, 16, 5, 6}, {16, 8, 3, 3}, 2, 1)
                          .extra(1)
                          .epilogue(kBias | kRelu)
                          .laidOut()
                          .nan());
}

/// Groups, and ends that are padded unlike.
static void runGroups(Tests &tests, DType type) {
  for (int bits = 0; bits < 8; ++bits) {
    tests.conv(Build(type, {2, 16, 9, 7}, {24, 4, 3, 3}, 1, 1)
                   .groups(4)
                   .epilogue(bits)
                   .laidOut());
    tests.conv(Build(type, {2, 16, 8, 8}, {24, 16, 3, 3}, 2, 0)
                   .padHigh(1)
                   .epilogue(bits)
                   .laidOut());
  }
  tests.conv(Build(type, {2, 48, 9, 7}, {32, 24, 3, 3}, 1, 1)
                 .groups(2)
                 .epilogue(kBias | kRelu));
  tests.conv(Build(type, {2, 64, 8, 8}, {64, 8, 1, 1})
                 .groups(8)
                 .epilogue(kBias | kAddend | kRelu)
                 .laidOut());
  tests.conv(Build(type, {2, 16, 13}, {16, 8, 5}, 1, 2)
                 .groups(2)
                 .epilogue(kBias)
                 .laidOut());
  tests.conv(Build(type, {2, 16, 8, 8}, {16, 8, 3, 3}, 2, 0)
                 .groups(2)
                 .padHigh(1)
                 .epilogue(kBias | kRelu)
                 .laidOut());
  // A causal convolution over time; the first layer of a model.
  tests.conv(Build(type, {2, 8, 13}, {16, 8, 4}, 1, 3)
                 .padHigh(0)
                 .epilogue(kBias)
                 .laidOut());
  tests.conv(Build(type, {2, 3, 12, 12}, {8, 3, 3, 3}, 2, 0)
                 .padHigh(1)
                 .epilogue(kBias | kRelu)
                 .laidOut());
}

void fusion::rt::cuda::runConvolutions(Tests &tests) {
  for (DType type : {DType::F32, DType::F16, DType::BF16}) {
    runAlike(tests, type);
    runTransposed(tests, type);
  }
  for (DType type : {DType::F16, DType::BF16}) {
    runGroups(tests, type);
    tests.conv(Build(type, {32, 64, 56, 56}, {64, 64, 3, 3}, 1, 1)
                   .epilogue(kBias | kRelu)
                   .every(997));
    tests.conv(Build(type, {32, 256, 56, 56}, {64, 256, 1, 1})
                   .epilogue(kBias | kRelu)
                   .every(997));
    tests.conv(Build(type, {32, 512, 7, 7}, {512, 512, 3, 3}, 1, 1)
                   .epilogue(kBias | kAddend | kRelu)
                   .every(997));
  }
}

//===- FusableMapsTest.cpp - Iteration spaces and operand maps ------------===//
//
// An op's maps must say which elements it reads. Ops that move elements are
// checked point by point; contractions and sums are recomputed from their maps
// and compared with the reference evaluator, exactly: the data are integers.
//
//===----------------------------------------------------------------------===//
#include "EvaluateText.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::test;

/// The program of one op, its inputs and result, and its iteration space with
/// every `?` replaced.
struct OneOp {
  Program program;
  FusableOpInterface op;
  std::vector<reference::Tensor> inputs;
  reference::Tensor result;
  SmallVector<int64_t> space;

  OneOp(StringRef arguments, StringRef text, StringRef type)
      : program(("func.func @main(" + arguments + ") -> " + type +
                 " {\n%r = " + text + "\nreturn %r : " + type + "\n}")
                    .str()),
        op(program.find<FusableOpInterface>()), inputs(program.makeInputs()) {
    result = program.evaluate(inputs).front();
    for (int64_t size : op.getIterationShape())
      space.push_back(ShapedType::isDynamic(size) ? kBatch : size);
  }

  /// Element of operand `number` that the point reads; the op's operands are
  /// the function's arguments, in order.
  double read(unsigned number, ArrayRef<int64_t> point) {
    AffineMap map = *op.getOperandMap(number);
    SmallVector<int64_t> index = map.compose(point);
    const reference::Tensor &input = inputs[number];
    for (auto [position, size] : llvm::zip_equal(index, input.getShape()))
      EXPECT_TRUE(position >= 0 && position < size)
          << "operand " << number << " is read outside";
    return input.getFloat(input.offsetOf(index));
  }
};

/// Each point of the space reads the element that the result has there.
static void expectMoves(StringRef arguments, StringRef text, StringRef type) {
  SCOPED_TRACE(text.str());
  OneOp one(arguments, text, type);
  ASSERT_TRUE(one.op.getReductionDims().empty());
  ASSERT_EQ(ArrayRef(one.space), one.result.getShape());
  ASSERT_TRUE(one.op.getOperandMap(0));
  reference::forEachIndex(one.space, [&](ArrayRef<int64_t> point) {
    EXPECT_EQ(one.read(0, point),
              one.result.getFloat(one.result.offsetOf(point)));
  });
  EXPECT_EQ(one.op.getFlops(), 0);
}

TEST(FusableMaps, Broadcast) {
  expectMoves(
      "%x: tensor<4xf32>",
      "fusion.broadcast %x dims = [1] : tensor<4xf32> to tensor<2x4x3xf32>",
      "tensor<2x4x3xf32>");
  expectMoves("%x: tensor<1x4xf32>",
              "fusion.broadcast %x dims = [0, 2] : tensor<1x4xf32> to "
              "tensor<3x2x4xf32>",
              "tensor<3x2x4xf32>");
  expectMoves(
      "%x: tensor<?x1xf32>",
      "fusion.broadcast %x dims = [0, 1] : tensor<?x1xf32> to tensor<?x4xf32>",
      "tensor<?x4xf32>");
  expectMoves("%x: tensor<f32>",
              "fusion.broadcast %x dims = [] : tensor<f32> to tensor<?x2xf32>",
              "tensor<?x2xf32>");
}

TEST(FusableMaps, Reshape) {
  const std::pair<StringRef, StringRef> shapes[] = {
      {"6", "2x3"},         {"2x3", "6"},          {"2x3", "3x2"},
      {"4x6", "2x2x3x2"},   {"2x3x4", "6x4"},      {"1x6", "6x1"},
      {"1", "1x1"},         {"?x4x2", "?x8"},      {"?x8", "?x2x4"},
      {"2x?x6", "2x?x2x3"}, {"2x3x5", "5x3x2"},    {"0x4", "2x0"},
      {"1x2x1x3", "2x3"},   {"12x1x5", "3x4x1x5"}, {"2x3x?x4", "2x3x?x2x2"}};
  for (auto [from, to] : shapes) {
    std::string source = ("tensor<" + from + "xf32>").str(),
                target = ("tensor<" + to + "xf32>").str();
    expectMoves("%x: " + source,
                "fusion.reshape %x : " + source + " to " + target, target);
  }
  expectMoves("%x: tensor<f32>",
              "fusion.reshape %x : tensor<f32> to tensor<1x1xf32>",
              "tensor<1x1xf32>");
  expectMoves("%x: tensor<1x1xf32>",
              "fusion.reshape %x : tensor<1x1xf32> to tensor<f32>",
              "tensor<f32>");
}

/// Where the batch moves to another place or scale, no map is promised.
TEST(FusableMaps, ReshapeAcrossBatch) {
  for (auto [from, to] : {std::pair("2x?", "?"), std::pair("1x?x1x4", "?x4"),
                          std::pair("?x1", "1x?")}) {
    std::string source = "tensor<" + std::string(from) + "xf32>",
                target = "tensor<" + std::string(to) + "xf32>";
    OneOp one("%x: " + source,
              "fusion.reshape %x : " + source + " to " + target, target);
    EXPECT_FALSE(one.op.getOperandMap(0)) << source << " to " << target;
  }
}

/// Runs of equal sizes need no division.
TEST(FusableMaps, ReshapeStaysSimple) {
  OneOp one("%x: tensor<2x3x4xf32>",
            "fusion.reshape %x : tensor<2x3x4xf32> to tensor<2x1x12xf32>",
            "tensor<2x1x12xf32>");
  AffineMap map = *one.op.getOperandMap(0);
  EXPECT_EQ(map.getResult(0), getAffineDimExpr(0, map.getContext()));
}

TEST(FusableMaps, TransposeSliceReverse) {
  expectMoves("%x: tensor<2x3x4xf32>",
              "fusion.transpose %x permutation = [2, 0, 1] : tensor<2x3x4xf32>",
              "tensor<4x2x3xf32>");
  expectMoves("%x: tensor<?x9xf32>",
              "fusion.slice %x starts = [0, 1] limits = [-1, 9] strides = [1, "
              "3] : tensor<?x9xf32>",
              "tensor<?x3xf32>");
  expectMoves("%x: tensor<2x3xf32>",
              "fusion.reverse %x dims = [1] : tensor<2x3xf32>",
              "tensor<2x3xf32>");
  OneOp batch("%x: tensor<?x3xf32>",
              "fusion.reverse %x dims = [0] : tensor<?x3xf32>",
              "tensor<?x3xf32>");
  EXPECT_FALSE(batch.op.getOperandMap(0));
}

TEST(FusableMaps, ConcatPad) {
  expectMoves("%x: tensor<2x3xf32>",
              "fusion.concat %x axis = 1 : tensor<2x3xf32>", "tensor<2x3xf32>");
  expectMoves(
      "%x: tensor<2xf32>, %v: tensor<f32>",
      "fusion.pad %x, %v low = [0] high = [0] : tensor<2xf32>, tensor<f32>",
      "tensor<2xf32>");
  OneOp two("%x: tensor<2xf32>",
            "fusion.concat %x, %x axis = 0 : tensor<2xf32>, tensor<2xf32>",
            "tensor<4xf32>");
  EXPECT_FALSE(two.op.getOperandMap(0));
  OneOp border(
      "%x: tensor<2xf32>, %v: tensor<f32>",
      "fusion.pad %x, %v low = [1] high = [0] : tensor<2xf32>, tensor<f32>",
      "tensor<3xf32>");
  EXPECT_FALSE(border.op.getOperandMap(0));
  EXPECT_EQ(border.op.getOperandMap(1)->getNumResults(), 0u);
}

/// The result is the sum over the reduction dimensions of the product of what
/// the first `operands` operands' maps read.
static void expectSumOfProducts(StringRef arguments, StringRef text,
                                StringRef type, unsigned operands) {
  SCOPED_TRACE(text.str());
  OneOp one(arguments, text, type);
  SmallVector<int64_t> reduced = one.op.getReductionDims();
  std::vector<double> sums(one.result.getNumElements(), 0.0);
  reference::forEachIndex(one.space, [&](ArrayRef<int64_t> point) {
    SmallVector<int64_t> position;
    for (auto [dim, index] : llvm::enumerate(point))
      if (!llvm::is_contained(reduced, int64_t(dim)))
        position.push_back(index);
    double product = 1;
    for (unsigned operand = 0; operand < operands; ++operand)
      product *= one.read(operand, point);
    sums[one.result.offsetOf(position)] += product;
  });
  for (auto [i, sum] : llvm::enumerate(sums))
    EXPECT_EQ(sum, one.result.getFloat(i)) << "element " << i;
}

TEST(FusableMaps, Reduce) {
  expectSumOfProducts("%x: tensor<2x3x4xf32>",
                      "fusion.reduce sum, %x dims = [0, 2] : tensor<2x3x4xf32>",
                      "tensor<3xf32>", 1);
  expectSumOfProducts("%x: tensor<?x4xf32>",
                      "fusion.reduce sum, %x dims = [0] : tensor<?x4xf32>",
                      "tensor<4xf32>", 1);
}

TEST(FusableMaps, Matmul) {
  expectSumOfProducts(
      "%a: tensor<2x3x4xf32>, %b: tensor<2x4x5xf32>",
      "fusion.matmul %a, %b : tensor<2x3x4xf32>, tensor<2x4x5xf32>",
      "tensor<2x3x5xf32>", 2);
  expectSumOfProducts("%a: tensor<2x4x3xf32>, %b: tensor<2x5x4xf32>",
                      "fusion.matmul %a, %b {transpose_lhs, transpose_rhs} : "
                      "tensor<2x4x3xf32>, tensor<2x5x4xf32>",
                      "tensor<2x3x5xf32>", 2);
  expectSumOfProducts("%a: tensor<?x3x4xf32>, %b: tensor<5x4xf32>",
                      "fusion.matmul %a, %b {transpose_rhs} : "
                      "tensor<?x3x4xf32>, tensor<5x4xf32>",
                      "tensor<?x3x5xf32>", 2);
}

TEST(FusableMaps, Conv) {
  expectSumOfProducts(
      "%x: tensor<2x4x6x7xf32>, %w: tensor<6x2x2x3xf32>",
      "fusion.conv %x, %w strides = [2, 1] pad_low = [0, 0] pad_high = [0, 0] "
      "dilations = [1, 2] "
      "groups = 2 layout = nchw : tensor<2x4x6x7xf32>, tensor<6x2x2x3xf32>",
      "tensor<2x6x3x3xf32>", 2);
  expectSumOfProducts("%x: tensor<?x6x4xf32>, %w: tensor<3x4x2xf32>",
                      "fusion.conv %x, %w strides = [1] pad_low = [0] pad_high "
                      "= [0] dilations = [1] groups = 1 "
                      "layout = nhwc : tensor<?x6x4xf32>, tensor<3x4x2xf32>",
                      "tensor<?x5x3xf32>", 2);
  OneOp padded("%x: tensor<1x1x4xf32>, %w: tensor<1x1x3xf32>",
               "fusion.conv %x, %w strides = [1] pad_low = [1] pad_high = [1] "
               "dilations = [1] groups = 1 layout = "
               "nchw : tensor<1x1x4xf32>, tensor<1x1x3xf32>",
               "tensor<1x1x4xf32>");
  EXPECT_FALSE(padded.op.getOperandMap(0));
  EXPECT_TRUE(padded.op.getOperandMap(1));
}

/// The mean of a window is its sum over its size.
TEST(FusableMaps, AvgPool) {
  OneOp one("%x: tensor<2x3x6xf64>",
            "fusion.avg_pool %x window = [2] strides = [2] pad_low = [0] "
            "pad_high = [0] dilations = [2] layout = nchw "
            ": tensor<2x3x6xf64>",
            "tensor<2x3x2xf64>");
  reference::forEachIndex(one.result.getShape(), [&](ArrayRef<int64_t> index) {
    double sum = 0;
    for (int64_t w = 0; w < 2; ++w)
      sum += one.read(0, {index[0], index[1], index[2], w});
    EXPECT_EQ(sum / 2, one.result.getFloat(one.result.offsetOf(index)));
  });
}

/// Costs saturate instead of overflowing.
TEST(FusableMaps, FlopsSaturate) {
  Program program("func.func @main(%a: tensor<16777216x16777216xf32>) -> "
                  "tensor<16777216x16777216xf32> {\n"
                  "%r = fusion.matmul %a, %a : tensor<16777216x16777216xf32>, "
                  "tensor<16777216x16777216xf32>\n"
                  "return %r : tensor<16777216x16777216xf32>\n}");
  EXPECT_EQ(program.find<FusableOpInterface>().getFlops(),
            std::numeric_limits<int64_t>::max());
}

/// What an op costs, worked out by hand.
TEST(FusableMaps, Flops) {
  OneOp matmul("%a: tensor<2x3xf32>, %b: tensor<3x5xf32>",
               "fusion.matmul %a, %b : tensor<2x3xf32>, tensor<3x5xf32>",
               "tensor<2x5xf32>");
  EXPECT_EQ(matmul.op.getFlops(), 2 * 2 * 3 * 5);
  OneOp transposed("%x: tensor<1x4x5xf32>, %w: tensor<4x2x3xf32>",
                   "fusion.conv_transpose %x, %w strides = [2] pad_low = [0] "
                   "pad_high = [0] output_padding = [0] "
                   "dilations = [1] groups = 2 layout = nchw : "
                   "tensor<1x4x5xf32>, tensor<4x2x3xf32>",
                   "tensor<1x4x11xf32>");
  EXPECT_EQ(transposed.op.getFlops(), 2 * (4 * 5) * 2 * 3);
}

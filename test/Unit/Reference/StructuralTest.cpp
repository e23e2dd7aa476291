//===- StructuralTest.cpp - Moves, indexing and reductions ----------------===//
//
// Expected values are written out by hand.
//
//===----------------------------------------------------------------------===//

#include "TestGraph.h"

#include <cmath>
#include <limits>

using namespace fusion::reference;
using namespace fusion::reference::testing;

static const double kInf = std::numeric_limits<double>::infinity();
static const double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Shapes, BroadcastRepeats) {
  Tensor y = evaluateOp("%x: tensor<2x1xi32>",
                        "fusion.broadcast %x dims = [0, 2] : tensor<2x1xi32> "
                        "to tensor<2x2x3xi32>",
                        "tensor<2x2x3xi32>", {i32({2, 1}, {5, 6})});
  EXPECT_EQ(intsOf(y),
            (std::vector<int64_t>{5, 5, 5, 5, 5, 5, 6, 6, 6, 6, 6, 6}));
}

TEST(Shapes, TransposeSliceReverse) {
  Tensor x = i32({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(intsOf(evaluateOp("%x: tensor<2x3xi32>",
                              "fusion.transpose %x permutation = [1, 0] : "
                              "tensor<2x3xi32>",
                              "tensor<3x2xi32>", {x})),
            (std::vector<int64_t>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(intsOf(evaluateOp("%x: tensor<2x3xi32>",
                              "fusion.slice %x starts = [1, 0] limits = [2, 3] "
                              "strides = [1, 2] : tensor<2x3xi32>",
                              "tensor<1x2xi32>", {x})),
            (std::vector<int64_t>{4, 6}));
  EXPECT_EQ(intsOf(evaluateOp("%x: tensor<2x3xi32>",
                              "fusion.reverse %x dims = [0, 1] : "
                              "tensor<2x3xi32>",
                              "tensor<2x3xi32>", {x})),
            (std::vector<int64_t>{6, 5, 4, 3, 2, 1}));
}

// A permutation of three dimensions that is not its own inverse.
TEST(Shapes, TransposeOfThree) {
  Tensor x = i32({1, 2, 3}, {0, 1, 2, 10, 11, 12});
  Tensor y = evaluateOp("%x: tensor<1x2x3xi32>",
                        "fusion.transpose %x permutation = [2, 0, 1] : "
                        "tensor<1x2x3xi32>",
                        "tensor<3x1x2xi32>", {x});
  EXPECT_EQ(intsOf(y), (std::vector<int64_t>{0, 10, 1, 11, 2, 12}));
}

TEST(Shapes, ConcatWithEmptyAndPad) {
  Tensor y = evaluateOp(
      "%a: tensor<2x1xi32>, %b: tensor<2x0xi32>, %c: tensor<2x2xi32>",
      "fusion.concat %a, %b, %c axis = 1 : tensor<2x1xi32>, tensor<2x0xi32>, "
      "tensor<2x2xi32>",
      "tensor<2x3xi32>",
      {i32({2, 1}, {1, 2}), i32({2, 0}, {}), i32({2, 2}, {3, 4, 5, 6})});
  EXPECT_EQ(intsOf(y), (std::vector<int64_t>{1, 3, 4, 2, 5, 6}));
  Tensor z = evaluateOp("%x: tensor<1x2xi32>, %v: tensor<i32>",
                        "fusion.pad %x, %v low = [1, 0] high = [0, 2] : "
                        "tensor<1x2xi32>, tensor<i32>",
                        "tensor<2x4xi32>", {i32({1, 2}, {1, 2}), i32({}, {9})});
  EXPECT_EQ(intsOf(z), (std::vector<int64_t>{9, 9, 9, 9, 1, 2, 9, 9}));
}

TEST(Shapes, IotaAndConstants) {
  EXPECT_EQ(intsOf(evaluateOp("", "fusion.iota axis = 1 : tensor<2x3xi8>",
                              "tensor<2x3xi8>", {})),
            (std::vector<int64_t>{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(valuesOf(evaluateOp("", "fusion.iota axis = 0 : tensor<3xf16>",
                                "tensor<3xf16>", {})),
            (std::vector<double>{0, 1, 2}));
  EXPECT_EQ(
      valuesOf(evaluateOp("", "fusion.constant dense<1.5> : tensor<2x2xbf16>",
                          "tensor<2x2xbf16>", {})),
      (std::vector<double>{1.5, 1.5, 1.5, 1.5}));
  EXPECT_EQ(intsOf(evaluateOp("",
                              "fusion.constant dense<[true, false, true]> : "
                              "tensor<3xi1>",
                              "tensor<3xi1>", {})),
            (std::vector<int64_t>{1, 0, 1}));
  EXPECT_EQ(shapeOf(evaluateOp("", "fusion.constant dense<> : tensor<0x2xf32>",
                               "tensor<0x2xf32>", {})),
            (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(intsOf(evaluateOp(
                "", "fusion.constant dense<[-1, 300, 7]> : tensor<3xi32>",
                "tensor<3xi32>", {})),
            (std::vector<int64_t>{-1, 300, 7}));
}

TEST(Indexing, GatherClamps) {
  Tensor x = i32({3, 2}, {0, 1, 10, 11, 20, 21});
  Tensor y = evaluateOp("%x: tensor<3x2xi32>, %i: tensor<4xi64>",
                        "fusion.gather %x, %i axis = 0 : tensor<3x2xi32>, "
                        "tensor<4xi64>",
                        "tensor<4x2xi32>", {x, i64({4}, {2, -5, 99, 1})});
  EXPECT_EQ(intsOf(y), (std::vector<int64_t>{20, 21, 0, 1, 20, 21, 10, 11}));
  // Along the inner dimension, with a batch: each row has its own indices.
  Tensor z =
      evaluateOp("%x: tensor<3x2xi32>, %i: tensor<3x1xi32>",
                 "fusion.gather %x, %i axis = 1 {batch_dims = 1 : i64} : "
                 "tensor<3x2xi32>, tensor<3x1xi32>",
                 "tensor<3x1xi32>", {x, i32({3, 1}, {1, 0, 1})});
  EXPECT_EQ(intsOf(z), (std::vector<int64_t>{1, 10, 21}));
}

// Case: Gather(x + 1, ids[1]) with other ids than 0.
TEST(Indexing, GatherOfOneRow) {
  Tensor x = smallIntegers(ElementKind::F16, {4, 4}, 3);
  for (int64_t id : {0, 2, 3}) {
    Tensor y = evaluateOp("%x: tensor<4x4xf16>, %i: tensor<1xi64>",
                          "fusion.gather %x, %i axis = 0 : tensor<4x4xf16>, "
                          "tensor<1xi64>",
                          "tensor<1x4xf16>", {x, i64({1}, {id})});
    for (int64_t j = 0; j < 4; ++j)
      EXPECT_EQ(y.getFloat(j), x.getFloat(id * 4 + j));
  }
}

TEST(Indexing, GatherNd) {
  Tensor x = i32({2, 2, 2}, {0, 1, 10, 11, 100, 101, 110, 111});
  Tensor y = evaluateOp("%x: tensor<2x2x2xi32>, %i: tensor<2x2xi64>",
                        "fusion.gather_nd %x, %i : tensor<2x2x2xi32>, "
                        "tensor<2x2xi64>",
                        "tensor<2x2xi32>", {x, i64({2, 2}, {1, 0, 0, 7})});
  EXPECT_EQ(intsOf(y), (std::vector<int64_t>{100, 101, 10, 11}));
  Tensor z = evaluateOp("%x: tensor<2x2x2xi32>, %i: tensor<2x1xi64>",
                        "fusion.gather_nd %x, %i {batch_dims = 1 : i64} : "
                        "tensor<2x2x2xi32>, tensor<2x1xi64>",
                        "tensor<2x2xi32>", {x, i64({2, 1}, {1, 0})});
  EXPECT_EQ(intsOf(z), (std::vector<int64_t>{10, 11, 100, 101}));
}

static Tensor scatter(const std::string &kind, Tensor indices, Tensor updates) {
  return evaluateOp("%x: tensor<4xi32>, %i: tensor<4x1xi64>, %u: tensor<4xi32>",
                    "fusion.scatter " + kind +
                        ", %x, %i, %u : tensor<4xi32>, tensor<4x1xi64>, "
                        "tensor<4xi32>",
                    "tensor<4xi32>",
                    {i32({4}, {1, 2, 3, 4}), indices, updates});
}

// Repeated indices, and two outside that are dropped.
TEST(Indexing, ScatterCombinesAndDrops) {
  Tensor indices = i64({4, 1}, {2, 2, -1, 4});
  Tensor updates = i32({4}, {-5, 7, 100, 100});
  EXPECT_EQ(intsOf(scatter("set", indices, updates)),
            (std::vector<int64_t>{1, 2, 7, 4}));
  EXPECT_EQ(intsOf(scatter("add", indices, updates)),
            (std::vector<int64_t>{1, 2, 5, 4}));
  EXPECT_EQ(intsOf(scatter("min", indices, updates)),
            (std::vector<int64_t>{1, 2, -5, 4}));
  EXPECT_EQ(intsOf(scatter("max", indices, updates)),
            (std::vector<int64_t>{1, 2, 7, 4}));
}

TEST(Indexing, ScatterOfSlices) {
  Tensor y = evaluateOp(
      "%x: tensor<2x3xf32>, %i: tensor<2x1xi32>, %u: tensor<2x3xf32>",
      "fusion.scatter add, %x, %i, %u : tensor<2x3xf32>, tensor<2x1xi32>, "
      "tensor<2x3xf32>",
      "tensor<2x3xf32>",
      {f32({2, 3}, {0, 0, 0, 1, 1, 1}), i32({2, 1}, {1, 1}),
       f32({2, 3}, {1, 2, 3, 10, 20, 30})});
  EXPECT_EQ(valuesOf(y), (std::vector<double>{0, 0, 0, 12, 23, 34}));
}

TEST(Indexing, UpdateSliceMovesInside) {
  auto update = [](int64_t i, int64_t j) {
    return intsOf(evaluateOp(
        "%x: tensor<2x3xi32>, %u: tensor<1x2xi32>, %i: tensor<i64>, %j: "
        "tensor<i64>",
        "fusion.update_slice %x, %u at (%i, %j) : tensor<2x3xi32>, "
        "tensor<1x2xi32>, tensor<i64>, tensor<i64>",
        "tensor<2x3xi32>",
        {i32({2, 3}, {0, 0, 0, 0, 0, 0}), i32({1, 2}, {1, 2}), i64({}, {i}),
         i64({}, {j})}));
  };
  EXPECT_EQ(update(0, 0), (std::vector<int64_t>{1, 2, 0, 0, 0, 0}));
  EXPECT_EQ(update(5, 9), (std::vector<int64_t>{0, 0, 0, 0, 1, 2}));
  EXPECT_EQ(update(-3, 1), (std::vector<int64_t>{0, 1, 2, 0, 0, 0}));
}

static Tensor reduce(const std::string &kind, const Tensor &x,
                     const std::string &type, const std::string &dims,
                     const std::string &result) {
  return evaluateOp("%x: " + type,
                    "fusion.reduce " + kind + ", %x dims = " + dims + " : " +
                        type,
                    result, {x});
}

TEST(Reductions, EachKindAlongEachDimension) {
  Tensor x = i32({2, 3}, {1, 5, 3, 4, -2, 6});
  std::string type = "tensor<2x3xi32>";
  EXPECT_EQ(intsOf(reduce("sum", x, type, "[1]", "tensor<2xi32>")),
            (std::vector<int64_t>{9, 8}));
  EXPECT_EQ(intsOf(reduce("sum", x, type, "[0]", "tensor<3xi32>")),
            (std::vector<int64_t>{5, 3, 9}));
  EXPECT_EQ(intsOf(reduce("prod", x, type, "[0, 1]", "tensor<i32>")),
            (std::vector<int64_t>{-720}));
  EXPECT_EQ(intsOf(reduce("max", x, type, "[1]", "tensor<2xi32>")),
            (std::vector<int64_t>{5, 6}));
  EXPECT_EQ(intsOf(reduce("min", x, type, "[0]", "tensor<3xi32>")),
            (std::vector<int64_t>{1, -2, 3}));
  EXPECT_EQ(valuesOf(reduce("mean", f32({2, 2}, {1, 2, 3, 5}),
                            "tensor<2x2xf32>", "[1]", "tensor<2xf32>")),
            (std::vector<double>{1.5, 4}));
  Tensor truth = ints(ElementKind::I1, {2, 2}, {0, 1, 1, 1});
  EXPECT_EQ(
      intsOf(reduce("max", truth, "tensor<2x2xi1>", "[1]", "tensor<2xi1>")),
      (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(
      intsOf(reduce("min", truth, "tensor<2x2xi1>", "[1]", "tensor<2xi1>")),
      (std::vector<int64_t>{0, 1}));
}

TEST(Reductions, EmptyAndScalar) {
  Tensor none = f32({2, 0}, {});
  std::string type = "tensor<2x0xf32>";
  EXPECT_EQ(valuesOf(reduce("sum", none, type, "[1]", "tensor<2xf32>")),
            (std::vector<double>{0, 0}));
  EXPECT_EQ(valuesOf(reduce("prod", none, type, "[1]", "tensor<2xf32>")),
            (std::vector<double>{1, 1}));
  EXPECT_TRUE(std::isnan(
      valuesOf(reduce("mean", none, type, "[1]", "tensor<2xf32>"))[0]));
  EXPECT_EQ(valuesOf(reduce("max", none, type, "[0]", "tensor<0xf32>")).size(),
            0u);
  EXPECT_EQ(valuesOf(reduce("mean", f32({}, {3}), "tensor<f32>", "[]",
                            "tensor<f32>")),
            (std::vector<double>{3}));
}

// f16 cannot count beyond 2048 in steps of one: the sum must not be kept in it.
TEST(Reductions, SumsAreWide) {
  Tensor ones = floats(ElementKind::F16, {4096}, std::vector<double>(4096, 1));
  EXPECT_EQ(
      valuesOf(reduce("sum", ones, "tensor<4096xf16>", "[0]", "tensor<f16>")),
      (std::vector<double>{4096}));
}

TEST(Reductions, NanWins) {
  Tensor x = f32({2, 3}, {1, kNan, 2, kNan, 3, kNan});
  for (const char *kind : {"max", "min", "sum"})
    for (double v :
         valuesOf(reduce(kind, x, "tensor<2x3xf32>", "[1]", "tensor<2xf32>")))
      EXPECT_TRUE(std::isnan(v)) << kind;
}

static std::vector<int64_t> position(const std::string &op, const Tensor &x,
                                     bool last) {
  return intsOf(evaluateOp("%x: tensor<1x5xf32>",
                           "fusion." + op + " %x axis = 1" +
                               (last ? " {select_last}" : "") +
                               " : tensor<1x5xf32>",
                           "tensor<1xi64>", {x}));
}

TEST(Reductions, ArgMaxAndArgMin) {
  Tensor x = f32({1, 5}, {3, 7, -1, 7, -1});
  EXPECT_EQ(position("arg_max", x, false)[0], 1);
  EXPECT_EQ(position("arg_max", x, true)[0], 3);
  EXPECT_EQ(position("arg_min", x, false)[0], 2);
  EXPECT_EQ(position("arg_min", x, true)[0], 4);
  Tensor n = f32({1, 5}, {3, kNan, kInf, kNan, -kInf});
  for (const char *op : {"arg_max", "arg_min"})
    for (bool last : {false, true})
      EXPECT_EQ(position(op, n, last)[0], 1) << "the first NaN";
}

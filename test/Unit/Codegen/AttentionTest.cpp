//===- AttentionTest.cpp - Runs attention as independent elements ---------===//
//
// The kernel that stands in for a library's call, on a CPU. Weights are equal
// or fall on one key, so results are exact and derived by hand.
//
//===----------------------------------------------------------------------===//
#include "KernelRunner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using namespace fusion::test;

static std::string makeText(const std::string &attributes, bool hasMask) {
  const std::string types = "tensor<?x2x2x1xf32>, tensor<?x1x3x1xf32>, "
                            "tensor<?x1x3x2xf32>",
                    mask = "tensor<1x2x2x3xf32>";
  return "func.func @main(%q: tensor<?x2x2x1xf32>, %k: tensor<?x1x3x1xf32>, "
         "%v: tensor<?x1x3x2xf32>, %m: " +
         mask +
         ") -> tensor<?x2x2x2xf32> attributes {fusion.batch = array<i64: 1, "
         "4>} {\n%r = fusion.group loop (%a = %q : tensor<?x2x2x1xf32>, %b = "
         "%k : tensor<?x1x3x1xf32>, %c = %v : tensor<?x1x3x2xf32>, %d = %m : " +
         mask +
         ") -> (tensor<?x2x2x2xf32>) {\n%0 = fusion.attention %a, %b, %c " +
         (hasMask ? "mask %d " : "") + attributes + " : " + types +
         (hasMask ? ", " + mask : "") +
         "\nfusion.yield %0 : tensor<?x2x2x2xf32>\n}\nreturn %r : "
         "tensor<?x2x2x2xf32>\n}";
}

/// Two batches, two heads of one group, two queries, three keys, two columns.
static std::vector<float> run(const std::string &text,
                              const std::vector<float> &queries,
                              const std::vector<float> &mask) {
  KernelRunner runner(text);
  EXPECT_TRUE(runner.ok()) << runner.error();
  if (!runner.ok())
    return {};
  std::vector<float> keys = {1, 2, 3, 1, 2, 3},
                     values = {2, 10, 4, 20, 9, 30, 200, 1, 400, 2, 900, 3};
  auto results = runner.run(
      {toBytes(queries), toBytes(keys), toBytes(values), toBytes(mask)}, 2);
  return fromBytes<float>(results[0]);
}

/// Without scale all keys that a query sees weigh the same: the last query sees
/// all of three, the one before two.
TEST(Attention, SeesKeysUpToTheQuery) {
  std::vector<float> zeros(12);
  EXPECT_EQ(run(makeText("scale = 0.0 causal", false), {1, 2, 3, 4, 5, 6, 7, 8},
                zeros),
            (std::vector<float>{3, 15, 5, 20, 3, 15, 5, 20, 300, 1.5f, 500, 2,
                                300, 1.5f, 500, 2}));
}

/// Scores are the products times the scale: the largest key wins by 1000 for a
/// positive query, the smallest for a negative one.
TEST(Attention, WeighsByTheScaledProduct) {
  std::vector<float> zeros(12);
  EXPECT_EQ(run(makeText("scale = 500.0", false), {2, -2, 2, -2, -2, 2, -2, 2},
                zeros),
            (std::vector<float>{9, 30, 2, 10, 9, 30, 2, 10, 200, 1, 900, 3, 200,
                                1, 900, 3}));
}

/// A mask is added, by head and query, the same for all batches; a query that
/// sees no key gives NaN.
TEST(Attention, AddsTheMask) {
  const float no = -std::numeric_limits<float>::infinity();
  std::vector<float> mask = {no, 0, no, 0, no, no, 0, no, 0, no, no, no};
  auto result =
      run(makeText("scale = 0.0", true), {1, 2, 3, 4, 5, 6, 7, 8}, mask);
  ASSERT_EQ(result.size(), 16u);
  // Halves of 2 + 9 and 10 + 30; 200 + 900 and 1 + 3.
  const float expected[] = {4,   20, 2,   10, 5.5f, 20, NAN, NAN,
                            400, 2,  200, 1,  550,  2,  NAN, NAN};
  for (size_t i = 0; i < 16; ++i) {
    if (std::isnan(expected[i]))
      EXPECT_TRUE(std::isnan(result[i])) << i;
    else
      EXPECT_EQ(result[i], expected[i]) << i;
  }
}

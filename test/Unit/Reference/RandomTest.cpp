//===- RandomTest.cpp - Philox4x32-10 -------------------------------------===//
//
// The vectors are those that the authors' Random123 library publishes in
// tests/kat_vectors.
//
//===----------------------------------------------------------------------===//

#include "TestGraph.h"
#include "fusion/Reference/Philox.h"

#include <cmath>

using namespace fusion::reference;
using namespace fusion::reference::testing;

using Words = std::array<uint32_t, 4>;

TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                       {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

static std::vector<double> uniform(const std::string &type, int64_t seed,
                                   int64_t offset) {
  return valuesOf(evaluateOp(
      "%s: tensor<i64>, %o: tensor<i64>",
      "fusion.rng_uniform %s, %o : tensor<i64>, tensor<i64>, " + type, type,
      {i64({}, {seed}), i64({}, {offset})}));
}

// Words of the first known answer, as fractions of the type's digits.
TEST(RngUniform, WordsBecomeFractions) {
  std::vector<double> f32s = uniform("tensor<4xf32>", 0, 0);
  EXPECT_EQ(f32s[0], std::ldexp(0x6627e8, -24));
  EXPECT_EQ(f32s[3], std::ldexp(0x9b00db, -24));
  EXPECT_EQ(uniform("tensor<4xf64>", 0, 0)[1], std::ldexp(0xe169c58dL, -32));
  EXPECT_EQ(uniform("tensor<4xf16>", 0, 0)[2],
            std::ldexp(0xbc57ac4cu >> 21, -11));
  EXPECT_EQ(uniform("tensor<4xbf16>", 0, 0)[3], std::ldexp(0x9b, -8));
}

// The offset counts blocks of four: a stream can be continued.
TEST(RngUniform, OffsetContinuesTheStream) {
  std::vector<double> whole = uniform("tensor<2x4xf32>", 42, 7);
  std::vector<double> rest = uniform("tensor<4xf32>", 42, 8);
  EXPECT_EQ(std::vector<double>(whole.begin() + 4, whole.end()), rest);
  // The upper half of the seed is part of the key.
  EXPECT_NE(uniform("tensor<4xf32>", 42, 8),
            uniform("tensor<4xf32>", 42 + (int64_t(1) << 32), 8));
}

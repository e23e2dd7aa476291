//===- ElementKindTest.cpp - Rounding and bits ----------------------------===//
//
// The independent source is LLVM's APFloat.
//
//===----------------------------------------------------------------------===//

#include "fusion/Reference/ElementKind.h"

#include "llvm/ADT/APFloat.h"
#include "gtest/gtest.h"

#include <cmath>
#include <limits>
#include <random>

using namespace fusion::reference;

static const llvm::fltSemantics &semanticsOf(ElementKind kind) {
  switch (kind) {
  case ElementKind::F32:
    return llvm::APFloat::IEEEsingle();
  case ElementKind::F16:
    return llvm::APFloat::IEEEhalf();
  case ElementKind::BF16:
    return llvm::APFloat::BFloat();
  default:
    return llvm::APFloat::IEEEdouble();
  }
}

static uint64_t roundByApFloat(double value, ElementKind kind) {
  llvm::APFloat number(value);
  bool lost;
  number.convert(semanticsOf(kind), llvm::APFloat::rmNearestTiesToEven, &lost);
  return number.bitcastToAPInt().getZExtValue();
}

static const ElementKind kNarrow[] = {ElementKind::F32, ElementKind::F16,
                                      ElementKind::BF16};

// Every bit pattern of the 16-bit types means what APFloat says, and encoding
// gives it back.
TEST(ElementKind, AllPatternsOfSixteenBits) {
  for (ElementKind kind : {ElementKind::F16, ElementKind::BF16}) {
    for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
      double value = decodeFloat(bits, kind);
      llvm::APFloat want(semanticsOf(kind), llvm::APInt(16, bits));
      if (want.isNaN()) {
        EXPECT_TRUE(std::isnan(value)) << bits;
        continue;
      }
      bool lost;
      want.convert(llvm::APFloat::IEEEdouble(),
                   llvm::APFloat::rmNearestTiesToEven, &lost);
      ASSERT_TRUE(want.bitwiseIsEqual(llvm::APFloat(value))) << bits;
      ASSERT_EQ(encodeFloat(value, kind), bits);
      ASSERT_EQ(roundToKind(value, kind), value) << bits;
    }
  }
}

// Random doubles of all magnitudes, and the halves between neighbours, where
// ties go to even.
TEST(ElementKind, RoundsToNearestEven) {
  std::mt19937_64 random(7);
  for (ElementKind kind : kNarrow) {
    for (int i = 0; i < 200000; ++i) {
      double scale = std::ldexp(1.0, static_cast<int>(random() % 300) - 160);
      double value = static_cast<double>(static_cast<int64_t>(random())) *
                     std::ldexp(scale, -63);
      ASSERT_EQ(encodeFloat(roundToKind(value, kind), kind),
                roundByApFloat(value, kind))
          << value;
    }
    for (int i = 0; i < 100000; ++i) {
      uint64_t bits =
          random() & (kind == ElementKind::F32 ? 0x7f7ffffe : 0x7bfe);
      double low = decodeFloat(bits, kind), high = decodeFloat(bits + 1, kind);
      if (!std::isfinite(high))
        continue;
      double half = low / 2 + high / 2;
      for (double value :
           {half, std::nextafter(half, 0.0), std::nextafter(half, high), -half})
        ASSERT_EQ(encodeFloat(roundToKind(value, kind), kind),
                  roundByApFloat(value, kind))
            << value;
    }
  }
}

TEST(ElementKind, OverflowUnderflowAndSpecials) {
  const double inf = std::numeric_limits<double>::infinity();
  // 65504 is the largest f16; 65520 is half a step further and ties to even.
  EXPECT_EQ(roundToKind(65519.99, ElementKind::F16), 65504);
  EXPECT_EQ(roundToKind(65520.0, ElementKind::F16), inf);
  EXPECT_EQ(roundToKind(-65520.0, ElementKind::F16), -inf);
  EXPECT_EQ(roundToKind(1e39, ElementKind::F32), inf);
  // The least subnormal of f16 is 2^-24; half of it ties to zero.
  EXPECT_EQ(roundToKind(std::ldexp(1.0, -25), ElementKind::F16), 0);
  EXPECT_EQ(roundToKind(std::ldexp(1.5, -25), ElementKind::F16),
            std::ldexp(1.0, -24));
  EXPECT_TRUE(std::signbit(roundToKind(-1e-30, ElementKind::F16)));
  for (ElementKind kind : kNarrow) {
    double nan = roundToKind(std::nan(""), kind);
    EXPECT_TRUE(std::isnan(nan));
    EXPECT_TRUE(std::isnan(decodeFloat(encodeFloat(nan, kind), kind)));
    EXPECT_EQ(decodeFloat(encodeFloat(-inf, kind), kind), -inf);
    EXPECT_TRUE(std::signbit(decodeFloat(encodeFloat(-0.0, kind), kind)));
  }
}

// Through f64, 2^60 + 2^52 + 1 would become 2^60 + 2^52 and then tie to even.
TEST(ElementKind, IntegersRoundOnce) {
  int64_t value = (int64_t(1) << 60) + (int64_t(1) << 52) + 1;
  EXPECT_EQ(roundToKind(value, ElementKind::BF16), std::ldexp(129.0, 53));
  EXPECT_EQ(roundToKind(-value, ElementKind::BF16), -std::ldexp(129.0, 53));
  std::mt19937_64 random(11);
  for (ElementKind kind : {ElementKind::F64, ElementKind::F32, ElementKind::F16,
                           ElementKind::BF16})
    for (int i = 0; i < 50000; ++i) {
      int64_t integer = static_cast<int64_t>(random()) >> (random() % 64);
      llvm::APFloat want(semanticsOf(kind));
      want.convertFromAPInt(llvm::APInt(64, integer, true), true,
                            llvm::APFloat::rmNearestTiesToEven);
      ASSERT_EQ(encodeFloat(roundToKind(integer, kind), kind),
                want.bitcastToAPInt().getZExtValue())
          << integer;
    }
  EXPECT_EQ(roundToKind(std::numeric_limits<int64_t>::min(), ElementKind::F64),
            -std::ldexp(1.0, 63));
}

TEST(ElementKind, IntegersWrap) {
  EXPECT_EQ(wrapToKind(128, ElementKind::I8), -128);
  EXPECT_EQ(wrapToKind(-129, ElementKind::I8), 127);
  EXPECT_EQ(wrapToKind(int64_t(1) << 31, ElementKind::I32),
            -(int64_t(1) << 31));
  EXPECT_EQ(wrapToKind(2, ElementKind::I1), 0);
  EXPECT_EQ(wrapToKind(-1, ElementKind::I1), 1);
  EXPECT_EQ(encodeInteger(-1, ElementKind::I8), 0xffu);
  EXPECT_EQ(decodeInteger(0xff, ElementKind::I8), -1);
  EXPECT_EQ(decodeInteger(2, ElementKind::I1), 1) << "any byte but 0 is true";
}

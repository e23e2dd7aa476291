//===- ExpandNarrowFloats.cpp - f16 and bf16 as integer arithmetic --------===//
//
// Conversions between f32 and the 16-bit floats where the CPU has no (correctly
// rounding, denormal-keeping) instruction: to nearest even, NaN stays NaN.
//
//===----------------------------------------------------------------------===//
#include "ExpandMath.h"
#include "FloatBuilder.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

static Value toShort(FloatBuilder &b, Value x) {
  return b.op<arith::TruncIOp>(b.like(x, b.b.getI16Type()), x);
}

static Value toInt(FloatBuilder &b, Value x) {
  return b.op<arith::ExtUIOp>(b.like(x, b.b.getI32Type()), x);
}

static Value truncateToBf16(FloatBuilder &b, Value x) {
  Value bits = b.bits(x);
  Value high = b.shr(bits, 16);
  Value rounded = b.shr(b.iadd(b.iadd(bits, 0x7fff), b.iand(high, 1)), 16);
  Value quiet = b.ior(high, b.integer(high, 0x40));
  Value isNan = b.compare(arith::CmpFPredicate::UNO, x, x);
  return b.fromBits(toShort(b, b.select(isNan, quiet, rounded)),
                    b.b.getBF16Type());
}

static Value extendBf16(FloatBuilder &b, Value x) {
  return b.fromBits(b.shl(toInt(b, b.bits(x)), 16), b.b.getF32Type());
}

static Value truncateToF16(FloatBuilder &b, Value x) {
  Value bits = b.bits(x);
  Value sign = b.iand(b.shr(bits, 16), 0x8000);
  Value magnitude = b.iand(bits, 0x7fffffff);
  // Normal results: rebias the exponent by 112, round 13 bits away.
  Value odd = b.iand(b.shr(magnitude, 13), 1);
  Value rebased = b.isub(magnitude, 112u << 23);
  Value normal = b.shr(b.iadd(b.iadd(rebased, 0xfff), odd), 13);
  // Subnormal ones: an addition aligns and rounds (2^-24 is the last bit of
  // 0.5).
  Value half = b.number(x, 0.5);
  Value aligned = b.add(b.fromBits(magnitude, b.b.getF32Type()), half);
  Value subnormal = b.isub(b.bits(aligned), 0x3f000000);
  using I = arith::CmpIPredicate;
  Value isSmall =
      b.compare(I::ult, magnitude, b.integer(magnitude, 113u << 23));
  Value result = b.select(isSmall, subnormal, normal);
  // 65520 and above round to infinity.
  Value isLarge =
      b.compare(I::uge, magnitude, b.integer(magnitude, 0x477ff000));
  result = b.select(isLarge, b.integer(result, 0x7c00), result);
  Value isNan = b.compare(arith::CmpFPredicate::UNO, x, x);
  Value payload = b.iand(b.shr(magnitude, 13), 0x3ff);
  Value quiet = b.ior(payload, b.integer(payload, 0x7e00));
  result = b.select(isNan, quiet, result);
  return b.fromBits(toShort(b, b.ior(result, sign)), b.b.getF16Type());
}

static Value extendF16(FloatBuilder &b, Value x) {
  Value bits = toInt(b, b.bits(x));
  Value sign = b.shl(b.iand(bits, 0x8000), 16);
  Value magnitude = b.iand(bits, 0x7fff);
  Value normal = b.iadd(b.shl(magnitude, 13), 112u << 23);
  // A subnormal f16 is its integer times 2^-24.
  Value count = b.op<arith::UIToFPOp>(b.like(x, b.b.getF32Type()), magnitude);
  Value subnormal = b.bits(b.mul(count, 0x1p-24));
  using I = arith::CmpIPredicate;
  Value isSmall = b.compare(I::ult, magnitude, b.integer(magnitude, 0x400));
  Value special = b.ior(b.shl(magnitude, 13), b.integer(magnitude, 0x7f800000));
  Value isSpecial = b.compare(I::uge, magnitude, b.integer(magnitude, 0x7c00));
  // A signalling NaN becomes quiet, as the instruction does.
  Value isNan = b.compare(I::ugt, magnitude, b.integer(magnitude, 0x7c00));
  special =
      b.select(isNan, b.ior(special, b.integer(special, 0x400000)), special);
  Value result =
      b.select(isSmall, subnormal, b.select(isSpecial, special, normal));
  return b.fromBits(b.ior(result, sign), b.b.getF32Type());
}

void codegen::expandNarrowFloats(ModuleOp kernels,
                                 const CpuAbilities &abilities) {
  SmallVector<Operation *> worklist;
  kernels.walk([&](Operation *op) {
    if (isa<arith::TruncFOp, arith::ExtFOp>(op))
      worklist.push_back(op);
  });
  for (Operation *op : worklist) {
    Value x = op->getOperand(0);
    Type from = getElementTypeOrSelf(x.getType());
    Type to = getElementTypeOrSelf(op->getResult(0).getType());
    OpBuilder builder(op);
    FloatBuilder b(builder, op->getLoc());
    Value result;
    if (to.isBF16())
      result = truncateToBf16(b, x);
    else if (from.isBF16())
      result = extendBf16(b, x);
    else if (to.isF16() && !abilities.halfConversion)
      result = truncateToF16(b, x);
    else if (from.isF16() && !abilities.halfConversion)
      result = extendF16(b, x);
    else
      continue;
    op->getResult(0).replaceAllUsesWith(result);
    op->erase();
  }
}

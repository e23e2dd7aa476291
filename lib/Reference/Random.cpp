//===- Random.cpp - Philox4x32-10 and rng_uniform -------------------------===//

#include "OpRules.h"
#include "fusion/Reference/Philox.h"

#include <cmath>

using namespace fusion;
using namespace fusion::reference;

std::array<uint32_t, 4>
fusion::reference::philox4x32(std::array<uint32_t, 4> counter,
                              std::array<uint32_t, 2> key) {
  // Multipliers and key increments (the golden ratio and sqrt(3) - 1) of the
  // paper, section 3.3 and its Random123 library.
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kIncrement0 = 0x9E3779B9, kIncrement1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    uint64_t product0 = kMultiplier0 * counter[0];
    uint64_t product1 = kMultiplier1 * counter[2];
    uint32_t high0 = product0 >> 32, low0 = static_cast<uint32_t>(product0);
    uint32_t high1 = product1 >> 32, low1 = static_cast<uint32_t>(product1);
    counter = {high1 ^ counter[1] ^ key[0], low1, high0 ^ counter[3] ^ key[1],
               low0};
    key = {key[0] + kIncrement0, key[1] + kIncrement1};
  }
  return counter;
}

/// As many of the word's upper bits as the type holds exactly, as a fraction:
/// 24 for f32, 11 for f16, 8 for bf16, and all 32 for f64.
static double toUniform(uint32_t word, ElementKind kind) {
  int bits = std::min<int>(getPrecision(kind), 32);
  return std::ldexp(static_cast<double>(word >> (32 - bits)), -bits);
}

static llvm::Expected<Tensor>
evaluateRngUniform(RngUniformOp op, Tensors inputs, const OpContext &context) {
  uint64_t seed = inputs[0].getInt(0), offset = inputs[1].getInt(0);
  auto type = llvm::cast<mlir::RankedTensorType>(op.getResult().getType());
  Shape shape(type.getShape());
  for (int64_t &size : shape)
    if (mlir::ShapedType::isDynamic(size))
      size = context.batch;
  llvm::Expected<Tensor> y =
      context.allocate(*getElementKind(type.getElementType()), shape);
  if (!y)
    return y;
  std::array<uint32_t, 2> key = {static_cast<uint32_t>(seed),
                                 static_cast<uint32_t>(seed >> 32)};
  for (int64_t i = 0; i < y->getNumElements(); ++i) {
    uint64_t counter = offset + static_cast<uint64_t>(i) / 4;
    std::array<uint32_t, 4> words =
        philox4x32({static_cast<uint32_t>(counter),
                    static_cast<uint32_t>(counter >> 32), 0, 0},
                   key);
    y->setFloat(i, toUniform(words[i % 4], y->getKind()));
  }
  return y;
}

void fusion::reference::addRandomRules(RuleTable &rules) {
  rules.add(evaluateRngUniform);
}

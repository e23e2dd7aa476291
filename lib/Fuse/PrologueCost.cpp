//===- PrologueCost.cpp - What a refused prologue would take --------------===//
//
// A tiled product reads its left side once for each tile of columns, and its
// right side once for each tile of rows; a convolution its input once for each
// tile of channels and each position of the window.
//
//===----------------------------------------------------------------------===//
#include "PrologueCost.h"

using namespace mlir;
using namespace fusion;

/// Rows and columns of a tile.
static constexpr int64_t kTile = 128;

static int64_t countTiles(int64_t size) {
  return ShapedType::isDynamic(size)
             ? 1
             : std::max<int64_t>(1, llvm::divideCeil(size, kTile));
}

/// How many times an element of operand `operand` is read.
static std::optional<int64_t> countReads(Operation *contraction,
                                         unsigned operand) {
  auto shapeOf = [](Value value) {
    return cast<RankedTensorType>(value.getType()).getShape();
  };
  if (operand > 1)
    return std::nullopt;
  if (auto matmul = dyn_cast<MatmulOp>(contraction)) {
    ArrayRef<int64_t> shape = shapeOf(matmul.getResult());
    return countTiles(shape[shape.size() - (operand == 0 ? 1 : 2)]);
  }
  auto conv = dyn_cast<ConvOp>(contraction);
  if (!conv || operand != 0)
    return std::nullopt;
  ArrayRef<int64_t> weights = shapeOf(conv.getWeights());
  int64_t reads = countTiles(weights[0]);
  for (int64_t size : weights.drop_front(2))
    if (llvm::MulOverflow(reads, size, reads))
      return std::nullopt;
  return reads;
}

void fusion::predictPrologue(const FuseGraph &graph,
                             const FusionLegality &legality,
                             const CostModel &model, const KernelWork &producer,
                             const KernelWork &consumer, FusePair &pair) {
  Operation *op = graph[pair.consumer].op;
  Value value = graph[pair.producer].op->getResult(0);
  // Limits of the row have figures of their own.
  if (pair.verdict.limit != 0)
    return;
  std::optional<int64_t> reads;
  for (OpOperand &operand : op->getOpOperands())
    if (operand.get() == value)
      reads = countReads(op, operand.getOperandNumber());
  if (!reads)
    return;
  // One launch; the value is neither read nor, if nothing else reads it,
  // written, and its producer's work is done over and over.
  KernelWork fused = consumer;
  double bytes = legality.getByteSize(value), repeats = *reads;
  fused.memoryBytes += producer.memoryBytes - double(pair.bytes) + bytes;
  fused.cachedBytes += producer.getBytes() * (repeats - 1);
  // What the consumer read of the value came from one of the two.
  double cached = std::min(bytes, consumer.cachedBytes);
  fused.cachedBytes -= cached;
  fused.memoryBytes -= bytes - cached;
  fused.memoryBytes = std::max(fused.memoryBytes, 0.0);
  for (auto [sum, flops] : llvm::zip_equal(fused.flops, producer.flops))
    sum += flops * repeats;
  pair.separateUs =
      model.getMicroseconds(producer) + model.getMicroseconds(consumer);
  pair.fusedUs = model.getMicroseconds(fused);
  pair.verdict.value = *reads;
  pair.verdict.limit = 1;
}

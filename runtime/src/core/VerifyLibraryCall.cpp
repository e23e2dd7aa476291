//===- VerifyLibraryCall.cpp - Shapes of contractions and pools -----------===//
//
// A library computes with the shapes a call gives it, so a wrong shape would
// read or write outside its operands. Shapes never shrink as the batch grows,
// so sizes at the largest batch bound all others; relations are checked at both
// ends of the batch range.
//
//===----------------------------------------------------------------------===//
#include "Checked.h"
#include "Limits.h"
#include "Text.h"
#include "VerifyModule.h"

#include <cmath>

using namespace fusion::rt;

namespace {

class CallVerifier {
public:
  CallVerifier(const LibraryCall &call, const std::vector<Operand> &operands,
               const std::string &name, int64_t minBatch, int64_t maxBatch)
      : call(call), operands(operands), name(name), minBatch(minBatch),
        maxBatch(maxBatch) {}

  Status verify();

private:
  Status bad(const std::string &what) {
    return Status(Code::BadProgram, "command '" + escape(name) + "': " + what,
                  name);
  }

  Status verifyOperands();
  Status verifyWindow(size_t spatial);
  Status verifyConv(int64_t batch);
  Status verifyConvTranspose(int64_t batch);
  Status verifyAvgPool(int64_t batch);
  Status verifyGradient();
  Status verifyMatMul(int64_t batch);
  Status verifyAttention(int64_t batch);
  Status verifyChannels(int64_t inputChannels, int64_t outputChannels,
                        int64_t weightRows, int64_t weightColumns);
  /// Whether input, window and output of spatial dimension `i` agree, where
  /// `size` is the larger side (the input, or a transposed conv's output).
  bool windowFits(size_t i, int64_t size, int64_t positions, int64_t window);

  int64_t at(const std::vector<Affine> &shape, size_t i, int64_t batch) {
    return *evaluate(shape[i], batch);
  }

  const LibraryCall &call;
  const std::vector<Operand> &operands;
  const std::string &name;
  int64_t minBatch, maxBatch;
};

} // namespace

Status CallVerifier::verifyOperands() {
  bool isPool = call.op == LibraryOp::AvgPool;
  bool isAttention = call.isAttention();
  bool isGradient = call.op == LibraryOp::AttentionGrad;
  if ((isPool || isAttention) && (call.hasBias || call.hasAddend))
    return bad("a pool or attention has neither bias nor addend");
  if (call.units != 0 &&
      (call.op != LibraryOp::MatMul || call.units > limits::kUnits))
    return bad("multiprocessors of a call that is no product, or more than "
               "65536");
  if (call.members < 1 || uint64_t(call.members) > limits::kOperands)
    return bad(std::to_string(call.members) +
               " members; a call has 1 to 65536");
  bool hasMask = !call.maskShape.empty();
  size_t perMember = isPool        ? 2
                     : isGradient  ? 7 + hasMask
                     : isAttention ? 4 + hasMask
                                   : 2 + call.hasBias + call.hasAddend +
                                         call.hasSlope() + call.numResults();
  size_t expected = perMember * size_t(call.members);
  if (operands.size() != expected)
    return bad(std::to_string(operands.size()) + " operands instead of " +
               std::to_string(expected));
  std::vector<const std::vector<Affine> *> shapes = {&call.inputShape};
  if (!isPool)
    shapes.push_back(&call.weightShape);
  std::vector<Affine> valueShape;
  if (isAttention) {
    valueShape = call.weightShape;
    valueShape[3] = call.outputShape[3];
    shapes.push_back(&valueShape);
  }
  if (isGradient)
    shapes.push_back(&call.outputShape);
  if (hasMask)
    shapes.push_back(&call.maskShape);
  // The bias has one element per output channel (conv) or column (matmul).
  std::vector<Affine> biasShape;
  if (call.hasBias) {
    if (call.op == LibraryOp::MatMul)
      biasShape = {call.outputShape.back()};
    else
      biasShape = {call.outputShape[1]};
    shapes.push_back(&biasShape);
  }
  if (call.hasAddend)
    shapes.push_back(&call.outputShape);
  if (call.hasSlope())
    shapes.push_back(&call.outputShape);
  if (isGradient)
    shapes.insert(shapes.end(),
                  {&call.inputShape, &call.weightShape, &valueShape});
  else
    shapes.push_back(&call.outputShape);
  std::vector<Affine> sumShape;
  if (call.biasGradient != BiasGradient::None) {
    sumShape = {call.biasGradient == BiasGradient::Lhs
                    ? call.outputShape.front()
                    : call.outputShape.back()};
    shapes.push_back(&sumShape);
  }

  uint64_t element = elementSize(call.dtype);
  for (size_t i = 0; i < operands.size(); ++i) {
    const std::vector<Affine> &shape = *shapes[i % perMember];
    bool isOutput = i % perMember + call.numResults() >= perMember;
    for (int64_t batch : {minBatch, maxBatch}) {
      auto bytes = byteCount(shape, call.dtype, batch);
      if (!bytes || *bytes > operands[i].range.size)
        return bad("operand " + std::to_string(i) + " has " +
                   std::to_string(operands[i].range.size) +
                   " bytes, too few for shape " + shapeText(shape));
    }
    if (operands[i].range.offset % element != 0)
      return bad("operand " + std::to_string(i) + " is not aligned to " +
                 std::to_string(element) + " bytes");
    if (operands[i].writes != isOutput || operands[i].reads == isOutput)
      return bad("operand " + std::to_string(i) +
                 (isOutput ? " is the output: written and not read"
                           : " is an input: read and not written"));
  }
  return {};
}

Status CallVerifier::verifyWindow(size_t spatial) {
  if (spatial < 1 || spatial > 3)
    return bad("has " + std::to_string(spatial) +
               " spatial dimensions; 1 to 3 are supported");
  for (auto *list :
       {&call.strides, &call.dilations, &call.padLow, &call.padHigh})
    if (list->size() != spatial)
      return bad("strides, dilations and pads need one value a spatial "
                 "dimension");
  if (call.op == LibraryOp::AvgPool && call.window.size() != spatial)
    return bad("the window needs one value a spatial dimension");
  // The library computes with 32-bit strides and pads.
  constexpr int64_t limit = int64_t(1) << 30;
  for (size_t i = 0; i < spatial; ++i) {
    if (call.strides[i] < 1 || call.strides[i] > limit ||
        call.dilations[i] < 1 || call.dilations[i] > limit)
      return bad("strides and dilations must be positive");
    if (call.padLow[i] < 0 || call.padLow[i] > limit || call.padHigh[i] < 0 ||
        call.padHigh[i] > limit)
      return bad("pads must not be negative");
    if (call.op == LibraryOp::AvgPool &&
        (call.window[i] < 1 || call.window[i] > limit))
      return bad("the window must be positive");
  }
  return {};
}

bool CallVerifier::windowFits(size_t i, int64_t size, int64_t positions,
                              int64_t window) {
  if (window < 1 || positions < 0)
    return false;
  if (positions == 0)
    return true;
  // (positions - 1) * stride + (window - 1) * dilation + 1 <= padded size,
  // with less than one stride left over.
  auto span = checkedMul(positions - 1, call.strides[i]);
  auto extent = checkedMul(window - 1, call.dilations[i]);
  if (!span || !extent)
    return false;
  auto used = checkedAdd(*span, *extent);
  auto padded = checkedAdd(size, call.padLow[i] + call.padHigh[i]);
  if (!used || !padded)
    return false;
  int64_t rest = *padded - *used - 1;
  return *used < *padded && rest >= 0 && rest < call.strides[i];
}

Status CallVerifier::verifyChannels(int64_t inputChannels,
                                    int64_t outputChannels, int64_t weightRows,
                                    int64_t weightColumns) {
  // Conv: weights [O, C/g]; ConvTranspose swaps the roles of O and C.
  int64_t groups = call.groups;
  if (groups < 1 || inputChannels % groups || outputChannels % groups)
    return bad("channels are not divisible by the " + std::to_string(groups) +
               " groups");
  bool transposed = call.op == LibraryOp::ConvTranspose;
  int64_t rows = transposed ? inputChannels : outputChannels;
  int64_t columns = transposed ? outputChannels : inputChannels;
  if (weightRows != rows || weightColumns != columns / groups)
    return bad("weights " + shapeText(call.weightShape) +
               " don't match the channels");
  return {};
}

Status CallVerifier::verifyConv(int64_t batch) {
  size_t rank = call.inputShape.size();
  if (at(call.inputShape, 0, batch) != at(call.outputShape, 0, batch))
    return bad("input and output differ in their leading dimension");
  FUSION_RT_TRY(verifyChannels(
      at(call.inputShape, 1, batch), at(call.outputShape, 1, batch),
      at(call.weightShape, 0, batch), at(call.weightShape, 1, batch)));
  for (size_t i = 2; i < rank; ++i)
    if (!windowFits(i - 2, at(call.inputShape, i, batch),
                    at(call.outputShape, i, batch),
                    at(call.weightShape, i, batch)))
      return bad("output shape " + shapeText(call.outputShape) +
                 " does not follow from input, window, strides and pads");
  return {};
}

Status CallVerifier::verifyConvTranspose(int64_t batch) {
  size_t rank = call.inputShape.size();
  if (at(call.inputShape, 0, batch) != at(call.outputShape, 0, batch))
    return bad("input and output differ in their leading dimension");
  FUSION_RT_TRY(verifyChannels(
      at(call.inputShape, 1, batch), at(call.outputShape, 1, batch),
      at(call.weightShape, 0, batch), at(call.weightShape, 1, batch)));
  // The output plays the input's role: a conv over it has the input's size.
  for (size_t i = 2; i < rank; ++i)
    if (!windowFits(i - 2, at(call.outputShape, i, batch),
                    at(call.inputShape, i, batch),
                    at(call.weightShape, i, batch)))
      return bad("output shape " + shapeText(call.outputShape) +
                 " does not follow from input, window, strides and pads");
  return {};
}

Status CallVerifier::verifyAvgPool(int64_t batch) {
  for (size_t i = 0; i < 2; ++i)
    if (at(call.inputShape, i, batch) != at(call.outputShape, i, batch))
      return bad("input and output differ in batch or channels");
  for (size_t i = 2; i < call.inputShape.size(); ++i) {
    if (call.dilations[i - 2] != 1)
      return bad("average pools have no dilation");
    if (call.padLow[i - 2] >= call.window[i - 2] ||
        call.padHigh[i - 2] >= call.window[i - 2])
      return bad("a pool's pads must be smaller than its window");
    // Every window then holds at least one element of the input.
    if (at(call.inputShape, i, batch) < 1 ||
        !windowFits(i - 2, at(call.inputShape, i, batch),
                    at(call.outputShape, i, batch), call.window[i - 2]))
      return bad("output shape " + shapeText(call.outputShape) +
                 " does not follow from input, window, strides and pads");
  }
  return {};
}

Status CallVerifier::verifyMatMul(int64_t batch) {
  size_t rank = call.outputShape.size();
  auto dim = [&](const std::vector<Affine> &shape, size_t fromEnd) {
    return at(shape, shape.size() - 1 - fromEnd, batch);
  };
  int64_t m = dim(call.inputShape, call.transposeLhs ? 0 : 1);
  int64_t k = dim(call.inputShape, call.transposeLhs ? 1 : 0);
  int64_t rhsK = dim(call.weightShape, call.transposeRhs ? 0 : 1);
  int64_t n = dim(call.weightShape, call.transposeRhs ? 1 : 0);
  if (k != rhsK || m != dim(call.outputShape, 1) ||
      n != dim(call.outputShape, 0))
    return bad("matmul of " + shapeText(call.inputShape) + " and " +
               shapeText(call.weightShape) + " does not give " +
               shapeText(call.outputShape));
  // Batch dimensions broadcast, aligned at the right.
  for (auto *shape : {&call.inputShape, &call.weightShape})
    for (size_t i = 2; i < rank; ++i) {
      int64_t size = i < shape->size() ? dim(*shape, i) : 1;
      if (size != 1 && size != dim(call.outputShape, i))
        return bad("batch dimensions of " + shapeText(*shape) +
                   " don't broadcast to " + shapeText(call.outputShape));
    }
  for (size_t i = 2; i < rank; ++i) {
    int64_t lhs = i < call.inputShape.size() ? dim(call.inputShape, i) : 1;
    int64_t rhs = i < call.weightShape.size() ? dim(call.weightShape, i) : 1;
    if (dim(call.outputShape, i) != (lhs == 1 ? rhs : lhs))
      return bad("batch dimensions of the output don't follow from the inputs");
  }
  return {};
}

Status CallVerifier::verifyAttention(int64_t batch) {
  auto query = [&](size_t i) { return at(call.inputShape, i, batch); };
  auto key = [&](size_t i) { return at(call.weightShape, i, batch); };
  auto output = [&](size_t i) { return at(call.outputShape, i, batch); };
  if (key(1) < 1 || query(1) % key(1) != 0)
    return bad(std::to_string(query(1)) +
               " heads are not divisible by the groups of the key " +
               shapeText(call.weightShape));
  if (query(0) != key(0) || query(3) != key(3))
    return bad("query " + shapeText(call.inputShape) + " and key " +
               shapeText(call.weightShape) + " differ in batch or depth");
  for (size_t i = 0; i < 3; ++i)
    if (output(i) != query(i))
      return bad("output " + shapeText(call.outputShape) +
                 " does not follow from query " + shapeText(call.inputShape));
  if (call.maskShape.empty())
    return {};
  auto mask = [&](size_t i) { return at(call.maskShape, i, batch); };
  if ((mask(0) != 1 && mask(0) != query(0)) ||
      (mask(1) != 1 && mask(1) != query(1)) || mask(2) != query(2) ||
      mask(3) != key(2))
    return bad("the mask " + shapeText(call.maskShape) +
               " does not fit the scores");
  return {};
}

/// What a product computes beside itself: one sum, where the library has it.
Status CallVerifier::verifyGradient() {
  if (!call.hasGradient())
    return {};
  if (call.op != LibraryOp::MatMul || call.inputShape.size() != 2 ||
      call.weightShape.size() != 2 || call.outputShape.size() != 2)
    return bad("only a product of two matrices has a gradient beside it");
  if (call.dtype == DType::F64 || call.hasBias || call.hasAddend)
    return bad("a product with a gradient is of f64, or has a bias or addend");
  bool ofResult = call.biasGradient == BiasGradient::Result;
  if (call.biasGradient != BiasGradient::None && ofResult != call.hasSlope())
    return bad("the result is summed behind a slope, an operand without one");
  if (!call.hasSlope() && call.activation != Activation::None)
    return bad("a product with a bias gradient has no activation");
  return {};
}

Status CallVerifier::verify() {
  bool isMatMul = call.op == LibraryOp::MatMul;
  bool isPool = call.op == LibraryOp::AvgPool;
  bool isAttention = call.isAttention();
  if (uint8_t(call.op) > uint8_t(LibraryOp::AttentionGrad) ||
      uint8_t(call.dtype) > uint8_t(DType::I64) ||
      uint8_t(call.activation) > uint8_t(Activation::GeluTanhGrad) ||
      uint8_t(call.biasGradient) > uint8_t(BiasGradient::Result))
    return bad("unknown library call, element type, activation or gradient");
  FUSION_RT_TRY(verifyGradient());
  if ((isPool || isAttention) && call.activation != Activation::None)
    return bad("a pool or attention has no activation");
  if (isAttention ? !std::isfinite(call.scale)
                  : !call.maskShape.empty() || call.scale != 0 || call.causal)
    return bad("only attention has a mask, causal or a scale, which is finite");
  if (call.weightsLast &&
      (isPool || isMatMul || isAttention || !call.channelsLast))
    return bad("only weights of a convolution on channels-last images can be "
               "laid out channels-last");
  size_t rank = call.outputShape.size();
  for (auto *shape : {&call.inputShape, &call.weightShape, &call.outputShape,
                      &call.maskShape}) {
    if ((shape == &call.weightShape && isPool) ||
        (shape == &call.maskShape && shape->empty()))
      continue;
    if (shape->size() > limits::kRank || shape->size() < 2 ||
        shape->size() > rank)
      return bad("rank of " + shapeText(*shape) + " does not fit the call");
    for (size_t i = 0; i < shape->size(); ++i)
      if ((*shape)[i].scale < 0 || (!isMatMul && i && (*shape)[i].scale))
        return bad("shape " + shapeText(*shape) +
                   ": only a leading dimension may grow with the batch");
    for (int64_t batch : {minBatch, maxBatch})
      if (!elementCount(*shape, batch))
        return bad("shape " + shapeText(*shape) + " is negative or too large");
  }
  // The library's own limit.
  if (rank > 12)
    return bad("more than 12 dimensions");
  if (isAttention) {
    if (rank != 4 || call.inputShape.size() != 4 ||
        call.weightShape.size() != 4 ||
        (!call.maskShape.empty() && call.maskShape.size() != 4))
      return bad("attention has rank 4");
  } else if (!isMatMul) {
    if (call.inputShape.size() != rank ||
        (!isPool && call.weightShape.size() != rank))
      return bad("input, weights and output differ in rank");
    FUSION_RT_TRY(verifyWindow(rank - 2));
  }
  FUSION_RT_TRY(verifyOperands());
  for (int64_t batch : {minBatch, maxBatch}) {
    Status status = call.op == LibraryOp::Conv ? verifyConv(batch)
                    : call.op == LibraryOp::ConvTranspose
                        ? verifyConvTranspose(batch)
                    : isPool      ? verifyAvgPool(batch)
                    : isAttention ? verifyAttention(batch)
                                  : verifyMatMul(batch);
    FUSION_RT_TRY(status);
  }
  return {};
}

Status fusion::rt::verifyLibraryCall(const LibraryCall &call,
                                     const std::vector<Operand> &operands,
                                     const std::string &name, int64_t minBatch,
                                     int64_t maxBatch) {
  return CallVerifier(call, operands, name, minBatch, maxBatch).verify();
}

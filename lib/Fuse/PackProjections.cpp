//===- PackProjections.cpp - Weights and biases side by side --------------===//
//
// Moves bytes only: no weight is computed with, so no bit of one changes.
//
//===----------------------------------------------------------------------===//
#include "Projections.h"

using namespace mlir;
using namespace fusion;

/// The elements of `value`, also behind views, under its own type.
static std::optional<TensorData>
readBehindViews(Value value, ConstantReader &reader, std::string *reason) {
  auto type = cast<RankedTensorType>(value.getType());
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getInput();
  std::optional<TensorData> data = reader.read(value, reason);
  if (!data)
    return std::nullopt;
  return data->withType(type);
}

static bool isTransposed(const Projection &member) {
  // A convolution's weights are [O, C, 1, 1].
  auto matmul = dyn_cast<MatmulOp>(member.op);
  return !matmul || matmul.getTransposeRhs();
}

bool fusion::areAllTransposed(const ProjectionSet &set) {
  return llvm::all_of(set.members, isTransposed);
}

std::optional<TensorData> fusion::packWeights(const ProjectionSet &set,
                                              ConstantReader &reader,
                                              std::string *reason) {
  const Projection &first = set.members.front();
  auto firstType = cast<RankedTensorType>(first.weights.getType());
  bool transposed = areAllTransposed(set);
  int64_t width = set.getWidth();
  SmallVector<int64_t> shape(firstType.getShape());
  int64_t depth, batches = 1;
  if (isa<ConvOp>(first.op)) {
    shape[0] = width;
    depth = shape[1];
  } else {
    size_t rank = shape.size();
    depth = isTransposed(first) ? shape[rank - 1] : shape[rank - 2];
    shape[rank - 2] = transposed ? width : depth;
    shape[rank - 1] = transposed ? depth : width;
    for (int64_t size : ArrayRef(shape).drop_back(2))
      batches *= size;
  }
  auto type = RankedTensorType::get(shape, firstType.getElementType());
  std::optional<int64_t> bytes = getByteSize(type);
  if (!bytes) {
    *reason = "the packed weights have more than 2^63 bytes";
    return std::nullopt;
  }
  std::vector<char> packed(*bytes);
  int64_t element = getElementBytes(type.getElementType());
  int64_t begin = 0;
  for (const Projection &member : set.members) {
    std::optional<TensorData> data =
        readBehindViews(member.weights, reader, reason);
    if (!data)
      return std::nullopt;
    // Column `n` of row `k` of batch `b`, here and there.
    bool memberTransposed = isTransposed(member);
    for (int64_t b = 0; b < batches; ++b)
      for (int64_t outer = 0; outer < (transposed ? member.width : depth);
           ++outer) {
        int64_t inner = transposed ? depth : member.width;
        char *to = packed.data() +
                   element * (transposed ? (b * width + begin + outer) * depth
                                         : (b * depth + outer) * width + begin);
        int64_t from = b * depth * member.width;
        if (memberTransposed == transposed && !data->isSplat()) {
          std::memcpy(to, data->getElement(from + outer * inner),
                      inner * element);
          continue;
        }
        for (int64_t i = 0; i < inner; ++i)
          std::memcpy(to + i * element,
                      data->getElement(memberTransposed == transposed
                                           ? from + outer * inner + i
                                           : from + i * depth + outer),
                      element);
      }
    begin += member.width;
  }
  return TensorData::own(type, std::move(packed), /*isSplat=*/false);
}

std::optional<TensorData> fusion::packBiases(const ProjectionSet &set,
                                             ConstantReader &reader,
                                             std::string *reason) {
  if (llvm::none_of(set.members,
                    [](const Projection &member) { return member.bias; }))
    return TensorData();
  Type elementType =
      cast<RankedTensorType>(set.members.front().op->getResult(0).getType())
          .getElementType();
  int64_t element = getElementBytes(elementType);
  std::vector<char> packed(set.getWidth() * element);
  char *to = packed.data();
  for (const Projection &member : set.members) {
    std::optional<TensorData> data;
    if (member.bias && !(data = readBehindViews(member.bias, reader, reason)))
      return std::nullopt;
    for (int64_t i = 0; i < member.width; ++i, to += element) {
      if (data)
        std::memcpy(to, data->getElement(i), element);
      else if (isa<FloatType>(elementType))
        storeFloat(elementType, -0.0, to);
      else
        storeInt(elementType, 0, to);
    }
  }
  return TensorData::own(RankedTensorType::get({set.getWidth()}, elementType),
                         std::move(packed),
                         /*isSplat=*/false);
}

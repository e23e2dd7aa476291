//===- CollectiveVerifiers.cpp - Meshes and collectives -------------------===//
//
// A collective's constraints need its mesh, so they are checked as symbol uses.
//
//===----------------------------------------------------------------------===//
#include "ShapeInference.h"
#include "fusion/IR/TensorData.h"

using namespace mlir;
using namespace fusion;

std::optional<int64_t> MeshOp::getAxisSize(StringRef axis) {
  for (auto [name, size] : llvm::zip_equal(
           getAxisNames().getAsValueRange<StringAttr>(), getAxisSizes()))
    if (name == axis)
      return size;
  return std::nullopt;
}

LogicalResult MeshOp::verify() {
  constexpr int64_t kMaxRanks = 1 << 20;
  if (getAxisNames().empty() || getAxisNames().size() != getAxisSizes().size())
    return emitOpError("needs at least one axis, each with a size");
  llvm::SmallDenseSet<StringRef> seen;
  int64_t ranks = 1;
  for (auto [name, size] : llvm::zip_equal(
           getAxisNames().getAsValueRange<StringAttr>(), getAxisSizes())) {
    if (name.empty() || !seen.insert(name).second)
      return emitOpError("the axis names must be distinct and not empty");
    if (size < 1 || size > kMaxRanks || (ranks *= size) > kMaxRanks)
      return emitOpError(
                 "axis sizes must be at least 1, their product at most ")
             << kMaxRanks;
  }
  return success();
}

/// The number of ranks in a group of `op`, or failure with an error.
template <typename OpT>
static FailureOr<int64_t> groupSize(OpT op, SymbolTableCollection &symbols) {
  auto mesh = symbols.lookupNearestSymbolFrom<MeshOp>(op, op.getMeshAttr());
  if (!mesh)
    return op.emitOpError("names no mesh: ") << op.getMeshAttr();
  if (op.getAxes().empty())
    return op.emitOpError("needs at least one mesh axis");
  llvm::SmallDenseSet<StringRef> seen;
  int64_t size = 1;
  for (StringRef axis : op.getAxes().template getAsValueRange<StringAttr>()) {
    std::optional<int64_t> ranks = mesh.getAxisSize(axis);
    if (!ranks || !seen.insert(axis).second)
      return op.emitOpError("the mesh has no axis '")
             << axis << "', or it is named twice";
    size *= *ranks;
  }
  return size;
}

template <typename OpT> static LogicalResult checkOperands(OpT op) {
  if (op.getInputs().empty())
    return op.emitOpError("needs at least one operand");
  if (op.getInputs().size() != op.getOutputs().size())
    return op.emitOpError("needs as many results as operands");
  return success();
}

/// Checks that each result has the operand's type with `dim` mapped by `map`
/// (which returns nullopt when the size does not fit).
template <typename OpT>
static LogicalResult checkResults(
    OpT op,
    llvm::function_ref<std::optional<SmallVector<int64_t>>(ArrayRef<int64_t>)>
        map) {
  for (auto [input, output] :
       llvm::zip_equal(op.getInputs(), op.getOutputs())) {
    auto from = cast<RankedTensorType>(input.getType());
    auto to = cast<RankedTensorType>(output.getType());
    std::optional<SmallVector<int64_t>> sizes = map(from.getShape());
    if (!sizes)
      return op.emitOpError("the shape of ")
             << from << " does not fit the group";
    if (to.getShape() != ArrayRef(*sizes) ||
        to.getElementType() != from.getElementType())
      return op.emitOpError("has the result type ")
             << to << ", but needs "
             << RankedTensorType::get(*sizes, from.getElementType());
  }
  return success();
}

template <typename OpT>
static LogicalResult verifySameTypes(OpT op, SymbolTableCollection &symbols) {
  if (failed(groupSize(op, symbols)) || failed(checkOperands(op)))
    return failure();
  return checkResults(op, [](ArrayRef<int64_t> shape) {
    return std::optional(SmallVector<int64_t>(shape));
  });
}

LogicalResult AxisIndexOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return LogicalResult(groupSize(*this, symbols));
}

SmallVector<int64_t> RankConcatOp::getFirstRows() {
  SmallVector<int64_t> rows;
  int64_t row = 0;
  for (Value input : getInputs()) {
    rows.push_back(row);
    row += cast<RankedTensorType>(input.getType()).getDimSize(0);
  }
  return rows;
}

LogicalResult RankConcatOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<int64_t> size = groupSize(*this, symbols);
  if (failed(size))
    return failure();
  if (getInputs().empty())
    return emitOpError("needs at least one operand");
  auto result = cast<RankedTensorType>(getResult().getType());
  if (!result.hasStaticShape() || result.getRank() < 1)
    return emitOpError("needs a static shape with rows, not ") << result;
  int64_t rows = 0;
  for (Value input : getInputs()) {
    auto type = cast<RankedTensorType>(input.getType());
    if (!type.hasStaticShape() || type.getRank() != result.getRank() ||
        type.getElementType() != result.getElementType() ||
        type.getShape().drop_front() != result.getShape().drop_front() ||
        llvm::AddOverflow(rows, type.getDimSize(0), rows))
      return emitOpError("has an operand ")
             << type << " that does not hold rows of " << result;
  }
  if (rows != result.getDimSize(0))
    return emitOpError("has operands of ")
           << rows << " rows for a result of " << result.getDimSize(0);
  if (rows % *size != 0)
    return emitOpError("has ") << rows << " rows, which the " << *size
                               << " ranks of the group can't share evenly";
  int64_t part = rows / *size;
  for (auto [first, input] : llvm::zip_equal(getFirstRows(), getInputs())) {
    int64_t count = cast<RankedTensorType>(input.getType()).getDimSize(0);
    if (count > 0 && first / part != (first + count - 1) / part)
      return emitOpError("has an operand with rows of two ranks: [")
             << first << ", " << first + count << ") in parts of " << part;
  }
  return success();
}

/// Bytes of so many rows of `type`.
static int64_t countRowBytes(RankedTensorType type, int64_t rows) {
  int64_t bytes = rows * getElementBytes(type.getElementType());
  for (int64_t size : type.getShape().drop_front())
    bytes *= size;
  return bytes;
}

int64_t RankSliceOp::getStartBytes() {
  return countRowBytes(getInput().getType(), int64_t(getStart()));
}

int64_t RankSliceOp::getPartBytes() {
  auto type = getResult().getType();
  return countRowBytes(type, type.getDimSize(0));
}

LogicalResult RankSliceOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<int64_t> size = groupSize(*this, symbols);
  if (failed(size))
    return failure();
  RankedTensorType type = getInput().getType(), result = getResult().getType();
  if (!type.hasStaticShape() || type.getRank() < 1)
    return emitOpError("needs a static shape with rows, not ") << type;
  if (!result.hasStaticShape() || result.getRank() != type.getRank() ||
      result.getElementType() != type.getElementType() ||
      result.getShape().drop_front() != type.getShape().drop_front())
    return emitOpError("has a result ")
           << result << " that does not hold rows of " << type;
  int64_t rows = type.getDimSize(0), part = result.getDimSize(0),
          start = int64_t(getStart());
  if (start < 0 || start > rows || part > (rows - start) / *size)
    return emitOpError("takes ")
           << *size << " parts of " << part << " rows from row " << start
           << " on, but there are " << rows;
  if (getStartBytes() % kAlignment != 0 || getPartBytes() % kAlignment != 0)
    return emitOpError("has parts of ")
           << getPartBytes() << " bytes from byte " << getStartBytes()
           << " on; both must be multiples of " << kAlignment;
  if (int64_t shift = int64_t(getShift()); shift < 0 || shift >= *size)
    return emitOpError("has shift ")
           << shift << " in a group of " << *size << " ranks";
  return success();
}

LogicalResult AllReduceOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifySameTypes(*this, symbols);
}

LogicalResult
CollectiveBroadcastOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<int64_t> size = groupSize(*this, symbols);
  if (failed(size))
    return failure();
  if (int64_t(getRoot()) < 0 || int64_t(getRoot()) >= *size)
    return emitOpError("the root ")
           << int64_t(getRoot()) << " is not in the group of " << *size
           << " ranks";
  return verifySameTypes(*this, symbols);
}

LogicalResult
CollectivePermuteOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<int64_t> size = groupSize(*this, symbols);
  if (failed(size))
    return failure();
  if (getSources().size() != getTargets().size())
    return emitOpError("'sources' and 'targets' must have one length");
  for (ArrayRef<int64_t> list : {getSources(), getTargets()}) {
    llvm::SmallDenseSet<int64_t> seen;
    for (int64_t rank : list)
      if (rank < 0 || rank >= *size || !seen.insert(rank).second)
        return emitOpError("ranks must be distinct and in the group of ")
               << *size << " ranks";
  }
  return verifySameTypes(*this, symbols);
}

LogicalResult AllGatherOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<int64_t> size = groupSize(*this, symbols);
  if (failed(size) || failed(checkOperands(*this)))
    return failure();
  int64_t dim = getDim();
  return checkResults(
      *this,
      [&](ArrayRef<int64_t> shape) -> std::optional<SmallVector<int64_t>> {
        if (dim < 0 || dim >= int64_t(shape.size()) ||
            ShapedType::isDynamic(shape[dim]))
          return std::nullopt;
        SmallVector<int64_t> sizes(shape);
        std::optional<int64_t> total = shape::multiply(shape[dim], *size);
        if (!total)
          return std::nullopt;
        sizes[dim] = *total;
        return sizes;
      });
}

LogicalResult
ReduceScatterOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<int64_t> size = groupSize(*this, symbols);
  if (failed(size) || failed(checkOperands(*this)))
    return failure();
  int64_t dim = getDim();
  return checkResults(
      *this,
      [&](ArrayRef<int64_t> shape) -> std::optional<SmallVector<int64_t>> {
        if (dim < 0 || dim >= int64_t(shape.size()) ||
            ShapedType::isDynamic(shape[dim]) || shape[dim] % *size != 0)
          return std::nullopt;
        SmallVector<int64_t> sizes(shape);
        sizes[dim] /= *size;
        return sizes;
      });
}

LogicalResult AllToAllOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<int64_t> size = groupSize(*this, symbols);
  if (failed(size) || failed(checkOperands(*this)))
    return failure();
  int64_t split = getSplitDim(), concat = getConcatDim();
  return checkResults(
      *this,
      [&](ArrayRef<int64_t> shape) -> std::optional<SmallVector<int64_t>> {
        int64_t rank = shape.size();
        if (split < 0 || split >= rank || concat < 0 || concat >= rank ||
            ShapedType::isDynamic(shape[split]) ||
            ShapedType::isDynamic(shape[concat]) || shape[split] % *size != 0)
          return std::nullopt;
        SmallVector<int64_t> sizes(shape);
        sizes[split] /= *size;
        std::optional<int64_t> total = shape::multiply(sizes[concat], *size);
        if (!total)
          return std::nullopt;
        sizes[concat] = *total;
        return sizes;
      });
}

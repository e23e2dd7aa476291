//===- ConcatPieces.cpp - Values computed inside a larger one -------------===//
//
// Code generation says which concats are to be no work (`fusion.pieces`): the
// storage of the concat is made when its first operand is, and each operand is
// a part of it. A concat in rank order computes nothing either: a part of it
// lies elsewhere on each rank, and what can't be computed there is copied.
//
//===----------------------------------------------------------------------===//
#include "MemoryPlanner.h"

#include "fusion/IR/TensorData.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fusion;

/// What kernels expect of addresses, in bytes.
static constexpr int64_t kPieceAlignment = 16;

FailureOr<Piece> MemoryPlanner::getTurnedPiece(RankConcatOp concat,
                                               unsigned index) {
  FailureOr<int64_t> size = bytesOf(concat.getResult());
  if (failed(size))
    return failure();
  RankedTensorType type = concat.getResult().getType();
  int64_t rows = type.getDimSize(0), ranks = 1;
  auto mesh = SymbolTable::lookupNearestSymbolFrom<MeshOp>(
      concat, concat.getMeshAttr());
  for (StringRef axis : concat.getAxes().getAsValueRange<StringAttr>())
    ranks *= mesh.getAxisSize(axis).value_or(1);
  Piece piece;
  piece.whole = concat.getResult();
  if (*size == 0)
    return piece;
  int64_t part = rows / ranks, first = concat.getFirstRows()[index];
  piece.offset = first % part * (*size / rows);
  piece.turn = TurnAttr::get(concat.getContext(), part * (*size / rows),
                             first / part, concat.getAxes());
  return piece;
}

LogicalResult MemoryPlanner::findTurnedPieces(RankConcatOp concat) {
  Value whole = concat.getResult();
  // What takes an argument's bytes can't be written before that is read.
  auto result = resultOf.find(whole);
  if (result != resultOf.end() && directDonor.contains(result->second))
    return success();
  for (unsigned index = 0; index < concat.getInputs().size(); ++index) {
    FailureOr<Piece> piece = getTurnedPiece(concat, index);
    if (failed(piece))
      return failure();
    Value root = rootOf(concat.getInputs()[index]);
    auto group = dyn_cast_or_null<GroupOp>(root.getDefiningOp());
    // Its producer's kernel counts on where values begin.
    if (!piece->turn || piece->offset % kPieceAlignment != 0 ||
        piece->turn.getStep() % kPieceAlignment != 0 || !group ||
        group->hasAttr(kPiecesAttr) ||
        commands.find(root.getDefiningOp()) < 0 ||
        commands.getUses(root).size() != 1 || resultOf.contains(root) ||
        llvm::count_if(concat.getInputs(),
                       [&](Value other) { return rootOf(other) == root; }) != 1)
      continue;
    if (pieceOf.try_emplace(root, *piece).second)
      turnedWholes.insert(whole);
  }
  return success();
}

FailureOr<int64_t> MemoryPlanner::emitRankConcat(RankConcatOp concat,
                                                 int64_t stream) {
  int64_t copied = 0;
  for (auto [index, input] : llvm::enumerate(concat.getInputs())) {
    if (auto piece = pieceOf.find(rootOf(input));
        piece != pieceOf.end() && piece->second.whole == concat.getResult())
      continue;
    FailureOr<Piece> piece = getTurnedPiece(concat, index);
    FailureOr<int64_t> bytes = bytesOf(input);
    if (failed(piece) || failed(bytes))
      return failure();
    if (*bytes == 0)
      continue;
    Storage target = storages[storageOf(concat.getResult())];
    target.offset += piece->offset;
    target.size = *bytes;
    target.turn = piece->turn;
    CopyOp::create(builder, concat.getLoc(), builder.getI64IntegerAttr(stream),
                   rangeOf(input), rangeOf(target), extentAttr({0, *bytes}));
    ++copied;
  }
  return copied;
}

LogicalResult MemoryPlanner::findPieces() {
  for (const Step &step : commands.getSteps())
    if (auto concat = dyn_cast<RankConcatOp>(step.op))
      if (failed(findTurnedPieces(concat)))
        return failure();
  for (GroupOp group : groups) {
    if (!group->hasAttr(kPiecesAttr))
      continue;
    auto offsets = group->getAttrOfType<DenseI64ArrayAttr>(kPiecesAttr);
    if (!offsets || offsets.size() != int64_t(group.getInputs().size()) ||
        group.getOutputs().size() != 1)
      return group.emitError("'fusion.pieces' needs one offset for each input, "
                             "and one output");
    FailureOr<int64_t> size = bytesOf(group.getOutputs().front());
    if (failed(size))
      return failure();
    for (auto [input, offset] :
         llvm::zip_equal(group.getInputs(), offsets.asArrayRef())) {
      Value root = rootOf(input);
      FailureOr<int64_t> bytes = bytesOf(input);
      if (failed(bytes))
        return failure();
      if (offset < 0 || *bytes > *size || offset > *size - *bytes)
        return group.emitError("'fusion.pieces' leaves its output: ")
               << *bytes << " bytes at " << offset << " of " << *size;
      // Nothing else may know where it lies.
      if (!isa_and_nonnull<GroupOp>(root.getDefiningOp()) ||
          commands.find(root.getDefiningOp()) < 0 ||
          commands.getUses(root).size() != 1 || resultOf.contains(root) ||
          !pieceOf
               .try_emplace(root, Piece{group.getOutputs().front(), offset, {}})
               .second)
        return group.emitError("'fusion.pieces': operand ")
               << (&offset - offsets.asArrayRef().data())
               << " is not computed for this group alone";
    }
  }
  return success();
}

FailureOr<int64_t> MemoryPlanner::bindPiece(Value output, int64_t position,
                                            int64_t last) {
  auto piece = pieceOf.find(output);
  bool isWhole = output.getDefiningOp()->hasAttr(kPiecesAttr) ||
                 turnedWholes.contains(output);
  if (!isWhole && piece == pieceOf.end())
    return -1;
  Value whole = isWhole ? output : piece->second.whole;
  auto known = valueStorage.find(whole);
  if (known == valueStorage.end()) {
    FailureOr<int64_t> bytes = bytesOf(whole);
    if (failed(bytes))
      return failure();
    Storage storage;
    storage.size = *bytes;
    if (auto result = resultOf.find(whole); result != resultOf.end()) {
      storage.kind = SegmentKind::Output;
      storage.segment = llvm::formatv("out{0}", result->second);
    } else {
      storage.segment = "arena";
      storage.buffer = buffers.size();
      Lifetime buffer;
      buffer.first = position;
      buffer.last = last;
      buffer.size = *bytes;
      buffers.push_back(buffer);
    }
    known = valueStorage.try_emplace(whole, add(storage)).first;
  }
  int64_t index = known->second;
  Storage storage = storages[index];
  if (storage.buffer >= 0) {
    Lifetime &buffer = buffers[storage.buffer];
    buffer.last = std::max(buffer.last, last);
  }
  if (isWhole)
    return index;
  FailureOr<int64_t> bytes = bytesOf(output);
  if (failed(bytes))
    return failure();
  storage.offset += piece->second.offset;
  storage.turn = piece->second.turn;
  storage.size = *bytes;
  viewBytes += *bytes;
  return add(storage);
}

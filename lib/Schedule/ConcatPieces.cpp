//===- ConcatPieces.cpp - Values computed inside a larger one -------------===//
//
// Code generation says which concats are to be no work (`fusion.pieces`): the
// storage of the concat is made when its first operand is, and each operand is
// a part of it.
//
//===----------------------------------------------------------------------===//
#include "MemoryPlanner.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fusion;

LogicalResult MemoryPlanner::findPieces() {
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
          !pieceOf.try_emplace(root, group.getOutputs().front(), offset).second)
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
  bool isWhole = output.getDefiningOp()->hasAttr(kPiecesAttr);
  if (!isWhole && piece == pieceOf.end())
    return -1;
  Value whole = isWhole ? output : piece->second.first;
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
  storage.offset += piece->second.second;
  storage.size = *bytes;
  viewBytes += *bytes;
  return add(storage);
}

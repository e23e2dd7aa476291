//===- DirectMoves.cpp - Moves whose readers need no copy -----------------===//
//
// Whoever chose the transport `direct` wants a move's one reader to read the
// other ranks' bytes where they are. Here it is known which kernels read and
// where values lie: a move for which that can't be is one of `peer`, which
// copies. Operands and results stay to the end of the program, where a release
// stands for all moves of a stream and group: a rank passes it when the others
// have read.
//
//===----------------------------------------------------------------------===//
#include "MemoryPlanner.h"

#include "mlir/IR/Remarks.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace fusion;

/// What kernels expect of addresses, in bytes.
static constexpr int64_t kPointerAlignment = 16;

/// Ranks whose bytes a result has one behind the other; 0: in another order.
static int64_t countPieces(Operation *move) {
  int64_t ranks = getCommGroup(cast<CommunicationOpInterface>(move)).size;
  if (auto permute = dyn_cast<CollectivePermuteOp>(move))
    return static_cast<int64_t>(permute.getTargets().size()) == ranks ? 1 : 0;
  if (auto gather = dyn_cast<AllGatherOp>(move))
    return gather.getDim() == 0 ? ranks : 0;
  if (auto exchange = dyn_cast<AllToAllOp>(move))
    return exchange.getSplitDim() == 0 && exchange.getConcatDim() == 0 ? ranks
                                                                       : 0;
  return 0;
}

/// Why the readers of a result can't be given other ranks' memory, or nothing.
std::string MemoryPlanner::checkDirectReaders(Value result, int64_t pieces) {
  FailureOr<int64_t> size = bytesOf(result);
  FailureOr<Extent> count = extentOf(result);
  if (failed(size) || failed(count) || count->scale != 0)
    return "its size depends on the batch";
  if (pieces == 0 || *size % pieces != 0 ||
      (pieces > 1 && *size / pieces % kPointerAlignment != 0))
    return "a rank's bytes are not in one piece";
  if (resultOf.contains(result) || copiedLast.contains(result))
    return "the program returns it";
  if (pieceOf.contains(result))
    return "it lies in another value";
  int64_t piece = std::max<int64_t>(1, *size / pieces);
  llvm::SmallDenseSet<int64_t> read;
  for (int64_t use : commands.getUses(result)) {
    const Step &step = commands.getSteps()[use];
    auto group = dyn_cast<GroupOp>(step.op);
    if (!group || group->hasAttr("fusion.call") || group->hasAttr(kPiecesAttr))
      return "a reader is no kernel of its own";
    if (step.stream != 0)
      return "a reader runs beside computation";
    for (Value operand : group.getInputs()) {
      if (baseOf(operand) != result)
        continue;
      std::optional<int64_t> offset = offsetInBase(operand);
      FailureOr<int64_t> bytes = bytesOf(operand);
      if (!offset || failed(bytes) ||
          *offset / piece != (*offset + *bytes - 1) / piece)
        return "a reader wants several ranks' bytes as one";
      if (*offset % kPointerAlignment != 0)
        return "a reader's bytes are not aligned";
      if (!read.insert(*offset).second)
        return "it is read twice, so a copy is read faster";
    }
  }
  return read.empty() ? "no kernel reads it" : "";
}

/// Decides before anything is placed: what is read in its place is not computed
/// over.
void MemoryPlanner::findDirectMoves() {
  for (const Step &step : commands.getSteps()) {
    if (!isa<CommunicationOpInterface>(step.op) ||
        getTransport(step.op) != Transport::Direct)
      continue;
    int64_t pieces = countPieces(step.op);
    std::string reason;
    for (Value result : step.op->getResults())
      if (reason.empty())
        reason = checkDirectReaders(result, pieces);
    if (!reason.empty()) {
      refuseDirectMove(step.op, reason);
      continue;
    }
    directMoves.insert(step.op);
    for (Value value : step.op->getOperands())
      keptLast.insert(baseOf(value));
    for (Value value : step.op->getResults())
      keptLast.insert(value);
  }
}

void MemoryPlanner::refuseDirectMove(Operation *op, StringRef reason) {
  remark::missed(op->getLoc(), remark::RemarkOpts::name("transport-direct")
                                   .category("fusion")
                                   .function(function.getSymName()))
      << remark::add("what it brings is copied: {0}", reason);
}

/// Takes out those of which a part does not lie where others can name it.
void MemoryPlanner::settleDirectMoves() {
  SmallVector<std::pair<int64_t, int64_t>> taken; // of the arena
  for (const Step &step : commands.getSteps()) {
    if (!directMoves.contains(step.op))
      continue;
    std::string reason;
    SmallVector<std::pair<int64_t, int64_t>> own;
    for (auto values : {ValueRange(step.op->getOperands()),
                        ValueRange(step.op->getResults())})
      for (Value value : values) {
        const Storage &storage = storages[storageOf(value)];
        if (storage.kind != SegmentKind::Private) {
          reason = "a part is an argument, a constant or a result";
          continue;
        }
        int64_t offset = storage.offset + buffers[storage.buffer].offset;
        int64_t end = offset + storage.size;
        if (offset % kPointerAlignment != 0)
          reason = "a part is not aligned";
        auto overlaps = [&](std::pair<int64_t, int64_t> other) {
          return offset < other.second && other.first < end;
        };
        if (llvm::any_of(taken, overlaps) || llvm::any_of(own, overlaps))
          reason = "a part is one of another move, too";
        own.push_back({offset, end});
      }
    if (reason.empty()) {
      taken.append(own);
      continue;
    }
    directMoves.erase(step.op);
    refuseDirectMove(step.op, reason);
  }
}

void MemoryPlanner::emitRelease(int64_t stream, ArrayRef<Operation *> moves) {
  MLIRContext *context = builder.getContext();
  SmallVector<Attribute> accesses;
  for (Operation *move : moves) {
    remark::passed(move->getLoc(), remark::RemarkOpts::name("transport-direct")
                                       .category("fusion")
                                       .function(function.getSymName()))
        << remark::add("its readers read the other ranks' memory");
    for (auto [input, output] :
         llvm::zip_equal(move->getOperands(), move->getResults()))
      for (auto [kind, value] :
           {std::pair(AccessKind::Read, input),
            std::pair(AccessKind::ReadWrite, Value(output))})
        accesses.push_back(AccessAttr::get(context, kind, rangeOf(value),
                                           getElementTypeOrSelf(value)));
  }
  auto first = cast<CommunicationOpInterface>(moves.front());
  NamedAttrList details;
  details.set("transport",
              builder.getStringAttr(stringifyTransport(Transport::Peer)));
  RunCollectiveOp::create(
      builder, moves.front()->getLoc(), builder.getStringAttr("release"),
      first.getCommunicationMesh(), first.getCommunicationAxes(),
      builder.getI64IntegerAttr(stream), builder.getArrayAttr(accesses),
      details.getDictionary(context));
}

/// Moves that are direct, by what one release stands for, in list order.
SmallVector<std::pair<int64_t, SmallVector<Operation *>>>
MemoryPlanner::getReleases() {
  using Key = std::pair<int64_t, std::pair<Attribute, Attribute>>;
  llvm::MapVector<Key, SmallVector<Operation *>> lists;
  for (const Step &step : commands.getSteps())
    if (directMoves.contains(step.op)) {
      auto op = cast<CommunicationOpInterface>(step.op);
      lists[{step.stream,
             {op.getCommunicationMesh(), op.getCommunicationAxes()}}]
          .push_back(step.op);
    }
  SmallVector<std::pair<int64_t, SmallVector<Operation *>>> releases;
  for (auto &[key, moves] : lists)
    releases.emplace_back(key.first, std::move(moves));
  return releases;
}

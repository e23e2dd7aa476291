//===- SoftmaxIdioms.cpp - softmax and log_softmax in primitives ----------===//
//
// Found from the sum of exponentials: up to the largest element that was
// subtracted, down to the division by the sum or the subtraction of its
// logarithm. Without the subtraction the chain overflows where softmax doesn't,
// and the logarithm of a softmax is -inf where log_softmax is a number: neither
// is raised.
//
//===----------------------------------------------------------------------===//
#include "Idioms.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fusion;

/// If `value` is x less its largest element along `dims`: x.
static Value matchShifted(Value value, ArrayRef<int64_t> dims, Idiom &idiom) {
  auto sub = value.getDefiningOp<SubOp>();
  if (!sub)
    return {};
  Value spread = matchSpreadRows(sub.getRhs(), dims, idiom);
  auto largest = spread ? spread.getDefiningOp<ReduceOp>() : ReduceOp();
  if (!largest || largest.getKind() != ReduceKind::Max ||
      largest.getDims() != dims || largest.getInput() != sub.getLhs())
    return {};
  idiom.take(largest);
  idiom.take(sub);
  return sub.getLhs();
}

/// Follows the sum to the op that ends the idiom; sets the kind. Null if the
/// sum is used for something else.
static Operation *findEnd(Value sum, Value exponentials, Value shifted,
                          ArrayRef<int64_t> dims, Idiom &idiom) {
  bool isInverse = false, isLog = false;
  Value value = sum;
  while (Operation *reader = getOnlyReader(value, idiom)) {
    bool isFirst = reader->getOperand(0) == value;
    if (isa<ReciprocalOp>(reader) ||
        (isa<DivOp>(reader) && !isFirst &&
         getSplatNumber(reader->getOperand(0)) == 1.0)) {
      isInverse = !isInverse;
      idiom.addRounding("a product with 1 / sum becomes a division");
    } else if (isa<LogOp>(reader) && !isInverse && !isLog) {
      isLog = true;
    } else if (isa<BroadcastOp>(reader)) {
      Idiom moves(idiom.kind);
      if (!matchSpreadRows(reader->getResult(0), dims, moves))
        return nullptr;
    } else {
      idiom.kind = isLog ? IdiomKind::LogSoftmax : IdiomKind::Softmax;
      bool isEnd = isLog       ? isa<SubOp>(reader) && !isFirst && !isInverse
                   : isInverse ? isa<MulOp>(reader)
                               : isa<DivOp>(reader) && !isFirst;
      if (!isEnd || getOther(reader, value) != (isLog ? shifted : exponentials))
        return nullptr;
      idiom.take(reader);
      return reader;
    }
    idiom.take(reader);
    value = reader->getResult(0);
  }
  return nullptr;
}

std::optional<Idiom> fusion::matchSoftmax(Operation *anchor) {
  Idiom idiom(IdiomKind::Softmax);
  if (auto log = dyn_cast<LogOp>(anchor)) {
    if (!log.getInput().getDefiningOp<SoftmaxOp>())
      return std::nullopt;
    idiom.kind = IdiomKind::LogSoftmax;
    return idiom.refuse("the logarithm of a softmax is -inf where the softmax "
                        "underflows, log_softmax is not");
  }
  auto sum = dyn_cast<ReduceOp>(anchor);
  if (!sum || sum.getKind() != ReduceKind::Sum)
    return std::nullopt;
  auto exponentials = sum.getInput().getDefiningOp<ExpOp>();
  if (!exponentials)
    return std::nullopt;
  idiom.take(sum);
  idiom.take(exponentials);
  RankedTensorType type = exponentials.getType();
  SmallVector<int64_t> dims = llvm::to_vector(sum.getDims());
  Value shifted = exponentials.getInput();
  idiom.input = matchShifted(shifted, dims, idiom);
  idiom.root = findEnd(sum, exponentials, shifted, dims, idiom);
  // A sum of exponentials may be anything: one that nothing is divided by says
  // something only together with the shift.
  if (!idiom.root) {
    if (!idiom.input)
      return std::nullopt;
    return idiom.refuse("the sum of exponentials is not what they are divided "
                        "by, nor is its logarithm subtracted");
  }
  if (!idiom.input)
    return idiom.refuse(
        llvm::formatv("the largest element along {0} is not subtracted first, "
                      "so the exponentials may overflow",
                      formatDims(dims)));
  if (dims.size() != 1)
    return idiom.refuse(llvm::formatv(
        "rows are along {0}, not along one dimension", formatDims(dims)));
  idiom.axis = dims.front();
  if (!areStatic(type, dims) || llvm::is_contained(type.getShape(), 0))
    return idiom.refuse("the rows are empty or of unknown size");
  std::string outside = findOutsideReader(idiom);
  if (!outside.empty())
    return idiom.refuse(outside);
  addNarrowRounding(idiom);
  return idiom;
}

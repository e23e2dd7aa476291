//===- NormIdioms.cpp - layer_norm and rms_norm in primitives -------------===//
//
// Both divide rows by sqrt(mean(rows * rows) + epsilon); a layer_norm's rows
// have their mean subtracted first. Found from the root: up to what it is the
// root of, down to what is divided by it, then on to the scale and the bias.
//
//===----------------------------------------------------------------------===//
#include "Idioms.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;
using namespace fusion;

static constexpr llvm::StringLiteral kPow = "pow(x, 2) becomes x * x",
                                     kRoot = "a power of 1/2 becomes a root",
                                     kInverse =
                                         "a product with 1 / sqrt becomes a "
                                         "division",
                                     kMean = "a product with 1 / n becomes a "
                                             "division by n",
                                     kSum = "a sum is rounded before it is "
                                            "divided";

namespace {
/// The mean of a value along some dimensions.
struct Mean {
  Value of;
  SmallVector<int64_t> dims;
  /// Divides by something else than the number of elements; 0 if not.
  double wrongDivisor = 0.0;
};

/// A root: `sqrt(of)`, or `1 / sqrt(of)`.
struct Root {
  Value of;
  bool isInverse;
};
} // namespace

static std::optional<Root> matchRoot(Operation *op, Idiom &idiom) {
  if (auto root = dyn_cast<SqrtOp>(op))
    return Root{root.getInput(), false};
  if (auto root = dyn_cast<RsqrtOp>(op)) {
    idiom.addRounding(kInverse);
    return Root{root.getInput(), true};
  }
  auto pow = dyn_cast<PowOp>(op);
  std::optional<double> exponent =
      pow ? getSplatNumber(pow.getRhs()) : std::nullopt;
  if (!exponent || std::abs(*exponent) != 0.5)
    return std::nullopt;
  idiom.addRounding(kRoot);
  if (*exponent < 0)
    idiom.addRounding(kInverse);
  return Root{pow.getLhs(), *exponent < 0};
}

/// `reduce mean`, or a sum divided by a number.
static std::optional<Mean> matchMean(Value value, Idiom &idiom) {
  value = skipUnitReshapes(value, idiom);
  Operation *op = value.getDefiningOp();
  if (!op)
    return std::nullopt;
  auto getMean = [&](ReduceOp reduce) {
    idiom.take(reduce);
    return Mean{reduce.getInput(), llvm::to_vector(reduce.getDims())};
  };
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return reduce.getKind() == ReduceKind::Mean ? std::optional(getMean(reduce))
                                                : std::nullopt;
  std::optional<SplatOperand> parts = getSplatOperand(op);
  if (!parts || !isa<DivOp, MulOp>(op) || (isa<DivOp>(op) && parts->splatFirst))
    return std::nullopt;
  idiom.take(op);
  Value from = skipUnitReshapes(parts->rest, idiom);
  auto reduce = from.getDefiningOp<ReduceOp>();
  if (!reduce || reduce.getKind() != ReduceKind::Sum)
    return std::nullopt;
  Mean mean = getMean(reduce);
  RankedTensorType type = getTensorType(mean.of);
  if (!areStatic(type, mean.dims))
    return std::nullopt;
  double count = 1.0;
  for (int64_t dim : mean.dims)
    count *= type.getDimSize(dim);
  if (isa<DivOp>(op)) {
    if (parts->number != count)
      mean.wrongDivisor = parts->number;
  } else if (double divisor = 1.0 / parts->number; divisor != count) {
    // 1 / n was rounded to the element type.
    if (!(std::abs(divisor / count - 1.0) < 1.0e-6))
      mean.wrongDivisor = divisor;
    else
      idiom.addRounding(kMean);
  }
  if (type.getElementTypeBitWidth() < 32)
    idiom.addRounding(kSum);
  return mean;
}

/// What `value` is the square of, or null.
static Value matchSquare(Value value, Idiom &idiom) {
  if (auto mul = value.getDefiningOp<MulOp>();
      mul && mul.getLhs() == mul.getRhs()) {
    idiom.take(mul);
    return mul.getLhs();
  }
  auto pow = value.getDefiningOp<PowOp>();
  if (!pow || getSplatNumber(pow.getRhs()) != 2.0)
    return {};
  idiom.addRounding(kPow);
  idiom.take(pow);
  return pow.getLhs();
}

/// From the root to the op that divides `rows` by it; null and a refusal if
/// there is none.
static Operation *findDivision(Root root, Value value, Value rows,
                               ArrayRef<int64_t> dims, Idiom &idiom) {
  bool isInverse = root.isInverse, isSpread = false;
  while (true) {
    Operation *reader = getOnlyReader(value, idiom);
    if (!reader) {
      idiom.refuse("the root is read by several ops, or by none");
      return nullptr;
    }
    bool isFirst = reader->getOperand(0) == value;
    if (isa<ReciprocalOp>(reader) ||
        (isa<DivOp>(reader) && !isFirst &&
         getSplatNumber(reader->getOperand(0)) == 1.0)) {
      isInverse = !isInverse;
      idiom.addRounding(kInverse);
    } else if (auto broadcast = dyn_cast<BroadcastOp>(reader);
               broadcast && !isSpread) {
      isSpread = true;
      Idiom moves(idiom.kind);
      if (!matchSpreadRows(broadcast, dims, moves)) {
        idiom.refuse("the root is not spread over the rows that it is of");
        return nullptr;
      }
    } else if ((isa<DivOp>(reader) && !isInverse && !isFirst) ||
               (isa<MulOp>(reader) && isInverse)) {
      if (getOther(reader, value) != rows) {
        idiom.refuse(llvm::formatv("what {0} takes beside the root is not what "
                                   "was squared",
                                   reader->getName()));
        return nullptr;
      }
      idiom.take(reader);
      return reader;
    } else {
      idiom.refuse(llvm::formatv("{0} follows the root, not a division of the "
                                 "rows by it",
                                 reader->getName()));
      return nullptr;
    }
    idiom.take(reader);
    value = reader->getResult(0);
  }
}

/// Takes the scale and the bias that follow, as far as they have one element
/// for each column.
static void takeScaleAndShift(Idiom &idiom) {
  auto takeNext = [&](Value &into, auto isStep, StringRef name) {
    Value result = idiom.root->getResult(0);
    if (!result.hasOneUse())
      return;
    Operation *reader = *result.user_begin();
    Value other = isStep(reader) ? getOther(reader, result) : Value();
    if (!other || other == result)
      return;
    Value source = matchPerColumn(other, idiom.axis);
    if (!source || getTensorType(source).getNumDynamicDims() > 0) {
      idiom.note = llvm::formatv("the {0} stays outside: its shape is not that "
                                 "of the dimensions from {1} on",
                                 name, idiom.axis);
      return;
    }
    into = source;
    idiom.root = reader;
    idiom.take(reader);
  };
  takeNext(idiom.scale, [](Operation *op) { return isa<MulOp>(op); }, "scale");
  if (idiom.note.empty())
    takeNext(idiom.bias, [](Operation *op) { return isa<AddOp>(op); }, "bias");
}

/// If `rows` is x less its mean along `dims`: x.
static Value matchCentered(Value rows, ArrayRef<int64_t> dims, Idiom &idiom) {
  auto sub = rows.getDefiningOp<SubOp>();
  if (!sub)
    return {};
  idiom.take(sub);
  Value spread = matchSpreadRows(sub.getRhs(), dims, idiom);
  std::optional<Mean> mean =
      spread ? matchMean(spread, idiom) : std::optional<Mean>();
  if (!mean || mean->wrongDivisor != 0.0 || mean->of != sub.getLhs() ||
      ArrayRef<int64_t>(mean->dims) != dims)
    return {};
  return sub.getLhs();
}

std::optional<Idiom> fusion::matchNorm(Operation *anchor) {
  Idiom idiom(IdiomKind::RmsNorm);
  std::optional<Root> root = matchRoot(anchor, idiom);
  if (!root)
    return std::nullopt;
  idiom.take(anchor);

  // Up: epsilon, mean, square.
  Value spread = skipUnitReshapes(root->of, idiom);
  if (auto add = spread.getDefiningOp<AddOp>())
    if (std::optional<SplatOperand> parts = getSplatOperand(add)) {
      idiom.take(add);
      idiom.epsilon = parts->number;
      spread = parts->rest;
    }
  std::optional<Mean> mean = matchMean(spread, idiom);
  Value rows = mean ? matchSquare(mean->of, idiom) : Value();
  if (!rows)
    return std::nullopt;
  idiom.input = rows;
  RankedTensorType type = getTensorType(rows);
  Idiom centering(IdiomKind::LayerNorm);
  Value centered = matchCentered(rows, mean->dims, centering);
  if (centered)
    idiom.kind = IdiomKind::LayerNorm;

  if (mean->wrongDivisor != 0.0)
    return idiom.refuse(llvm::formatv("the sum of squares is divided by {0}, "
                                      "not by the number of elements",
                                      formatNumber(mean->wrongDivisor)));
  if (!(idiom.epsilon >= 0.0))
    return idiom.refuse(
        llvm::formatv("epsilon is {0}", formatNumber(idiom.epsilon)));
  idiom.axis = type.getRank() - mean->dims.size();
  if (mean->dims.empty() || mean->dims != llvm::to_vector(llvm::seq<int64_t>(
                                              idiom.axis, type.getRank())))
    return idiom.refuse(llvm::formatv("the reduced dimensions {0} are not the "
                                      "last of {1}",
                                      formatDims(mean->dims), type.getRank()));
  if (!areStatic(type, mean->dims) || llvm::is_contained(type.getShape(), 0))
    return idiom.refuse("the rows are empty or of unknown size");

  // Down to the division, and what follows it.
  idiom.root =
      findDivision(*root, anchor->getResult(0), rows, mean->dims, idiom);
  if (!idiom.root)
    return idiom;
  std::string outside = findOutsideReader(idiom);
  if (!outside.empty())
    return idiom.refuse(outside);
  if (centered) {
    Idiom whole = idiom;
    whole.input = centered;
    llvm::append_range(whole.interior, centering.interior);
    llvm::for_each(centering.roundings,
                   [&](StringRef reason) { whole.addRounding(reason); });
    outside = findOutsideReader(whole);
    if (outside.empty()) {
      idiom = std::move(whole);
    } else {
      // The mean is needed anyway; what is left is the norm of what it left.
      idiom.kind = IdiomKind::RmsNorm;
      idiom.note = "the mean stays outside: " + outside;
    }
  }
  addNarrowRounding(idiom);
  std::string note = std::move(idiom.note);
  idiom.note.clear();
  takeScaleAndShift(idiom);
  if (idiom.note.empty())
    idiom.note = std::move(note);
  return idiom;
}

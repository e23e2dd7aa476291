//===- LibraryGradients.cpp - Gradients beside a product ------------------===//
//
// Slopes are recognised by value: the arithmetic between a product's result and
// what follows is a function of two numbers, which is evaluated at some points
// and compared with that of each activation. How it was written, and what was
// simplified since, does not matter; a constant that is a thousandth off does.
//
//===----------------------------------------------------------------------===//
#include "fusion/Analysis/LibraryGradients.h"
#include "fusion/Analysis/FusionLegality.h"
#include "fusion/Analysis/LibraryRules.h"
#include "fusion/IR/Target.h"

#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;
using namespace fusion;

StringRef fusion::stringifySummed(SummedMatrix summed) {
  switch (summed) {
  case SummedMatrix::None:
    return "";
  case SummedMatrix::Lhs:
    return "lhs";
  case SummedMatrix::Rhs:
    return "rhs";
  case SummedMatrix::Result:
    return "result";
  }
  llvm_unreachable("a matrix of a product");
}

//===----------------------------------------------------------------------===//
// Slopes
//===----------------------------------------------------------------------===//

/// Ops of a slope, and readers of a value that are looked at, at most.
static constexpr size_t kMaxSlopeOps = 32, kMaxReaders = 64;

static bool hasFewReaders(Value value) {
  return !value.hasNUsesOrMore(kMaxReaders);
}

static std::optional<double> getSplatNumber(Value value) {
  DenseElementsAttr elements;
  if (!matchPattern(value, m_Constant(&elements)) || !elements.isSplat())
    return std::nullopt;
  auto number = dyn_cast<FloatAttr>(elements.getSplatValue<Attribute>());
  return number ? std::optional(number.getValueAsDouble()) : std::nullopt;
}

/// The value of an op from those of its operands; NaN for ops of no slope.
static double apply(Operation *op, ArrayRef<double> in) {
  return llvm::TypeSwitch<Operation *, double>(op)
      .Case<CastOp, BroadcastOp>([&](auto) { return in[0]; })
      .Case<AddOp>([&](auto) { return in[0] + in[1]; })
      .Case<SubOp>([&](auto) { return in[0] - in[1]; })
      .Case<MulOp>([&](auto) { return in[0] * in[1]; })
      .Case<DivOp>([&](auto) { return in[0] / in[1]; })
      .Case<NegOp>([&](auto) { return -in[0]; })
      .Case<TanhOp>([&](auto) { return std::tanh(in[0]); })
      .Case<ErfOp>([&](auto) { return std::erf(in[0]); })
      .Case<ExpOp>([&](auto) { return std::exp(in[0]); })
      .Case<SigmoidOp>([&](auto) { return 1 / (1 + std::exp(-in[0])); })
      .Case<SelectOp>([&](auto) { return in[0] != 0 ? in[1] : in[2]; })
      .Case([&](CompareOp compare) -> double {
        switch (compare.getKind()) {
        case CompareKind::Gt:
          return in[0] > in[1];
        case CompareKind::Lt:
          return in[0] < in[1];
        default:
          return std::nan("");
        }
      })
      .Default([](Operation *) { return std::nan(""); });
}

/// Whether `op` is a number everywhere, in a shape that depends on the batch.
static bool isSpreadNumber(Operation *op) {
  auto spread = dyn_cast<BroadcastOp>(op);
  return spread && getSplatNumber(spread.getInput());
}

static bool isSlopeOp(Operation *op) {
  return isSpreadNumber(op) ||
         isa<CastOp, AddOp, SubOp, MulOp, DivOp, NegOp, TanhOp, ErfOp, ExpOp,
             SigmoidOp, SelectOp, CompareOp>(op);
}

namespace {

/// An activation whose slope is known.
struct Slope {
  llvm::StringLiteral name;
  double (*at)(double x);
};

/// Arithmetic on the elements of a product and of one other tensor.
struct Chain {
  Value end, other;
  SmallVector<Operation *> ops; ///< in the order of their block

  double evaluate(Value product, double productIs, double otherIs) const;
};

} // namespace

static double getGeluTanhSlope(double x) {
  double root = std::sqrt(2 / M_PI),
         tanh = std::tanh(root * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + tanh) +
         0.5 * x * (1 - tanh * tanh) * root * (1 + 3 * 0.044715 * x * x);
}
static double getGeluErfSlope(double x) {
  return 0.5 * (1 + std::erf(x / std::sqrt(2.0))) +
         x * std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI);
}
static double getReluSlope(double x) { return x > 0; }

static constexpr Slope kSlopes[] = {{"gelu_tanh", getGeluTanhSlope},
                                    {"gelu_erf", getGeluErfSlope},
                                    {"relu", getReluSlope}};

double Chain::evaluate(Value product, double productIs, double otherIs) const {
  llvm::SmallDenseMap<Value, double, 32> values;
  values[product] = productIs;
  values[other] = otherIs;
  for (Operation *op : ops) {
    SmallVector<double, 3> in;
    for (Value operand : op->getOperands()) {
      auto known = values.find(operand);
      in.push_back(known != values.end()
                       ? known->second
                       : getSplatNumber(operand).value_or(std::nan("")));
    }
    values[op->getResult(0)] = apply(op, in);
  }
  return values.lookup(end);
}

/// What computes `end` from `product` and one other tensor of the same type: a
/// value that something else reads too, or that no slope's op computes.
static std::optional<Chain>
findChain(Value end, Value product,
          llvm::function_ref<bool(Operation *)> isInside) {
  llvm::SetVector<Operation *> ops;
  llvm::SetVector<Value> leaves;
  SmallVector<Value> open{end};
  // A value comes up once for each op that reads it: the last time, all of
  // these are known.
  for (size_t i = 0; i < open.size(); ++i) {
    Value value = open[i];
    Operation *op = value.getDefiningOp();
    if (value == product || getSplatNumber(value) || (op && ops.contains(op)))
      continue;
    bool isOwn = op && isSlopeOp(op) && isInside(op) &&
                 op->getBlock() == product.getDefiningOp()->getBlock() &&
                 (value == end || isSpreadNumber(op) ||
                  llvm::all_of(value.getUsers(), [&](Operation *of) {
                    return ops.contains(of);
                  }));
    if (!isOwn) {
      leaves.insert(value);
      continue;
    }
    leaves.remove(value);
    if (!ops.insert(op) || ops.size() > kMaxSlopeOps)
      return std::nullopt;
    llvm::append_range(open, op->getOperands());
  }
  if (leaves.size() != 1 || leaves.front().getType() != product.getType())
    return std::nullopt;
  Chain chain{end, leaves.front(), ops.takeVector()};
  llvm::sort(chain.ops, [](Operation *a, Operation *b) {
    return a != b && a->isBeforeInBlock(b);
  });
  return chain;
}

/// Whether the chain is the product times the slope at the other tensor.
static bool isTimes(const Chain &chain, Value product, const Slope &slope) {
  // Gelu's two forms are 1e-3 apart here, and f32 is 1e-7 off.
  constexpr double kPoints[] = {-6,   -4.5, -3,   -2.2, -1.5, -1,
                                -0.6, -0.3, -0.1, 0.1,  0.3,  0.6,
                                1,    1.5,  2.2,  3,    4.5,  6};
  double factor = -2.5;
  for (double x : kPoints) {
    double expected = factor * slope.at(x);
    // NaN differs too.
    if (!(std::abs(chain.evaluate(product, factor, x) - expected) <
          1e-5 * std::abs(factor)))
      return false;
    factor = 0.75 - factor;
  }
  return true;
}

/// Where the product was multiplied by a slope and has its own type again: the
/// first value behind it that nothing else of it goes around.
static const Slope *findSlope(MatmulOp root,
                              llvm::function_ref<bool(Operation *)> isInside,
                              Chain &chain) {
  Value product = root.getResult();
  llvm::SetVector<Operation *> behind;
  auto addReaders = [&](Value value) {
    for (Operation *reader : value.getUsers())
      if (isSlopeOp(reader) && isInside(reader) &&
          reader->getBlock() == root->getBlock())
        behind.insert(reader);
  };
  if (!hasFewReaders(product))
    return nullptr;
  addReaders(product);
  for (size_t i = 0; i < behind.size() && behind.size() <= kMaxSlopeOps; ++i) {
    Value value = behind[i]->getResult(0);
    if (hasFewReaders(value))
      addReaders(value);
    if (value.getType() != product.getType())
      continue;
    std::optional<Chain> found = findChain(value, product, isInside);
    if (!found || llvm::any_of(product.getUsers(), [&](Operation *reader) {
          return !llvm::is_contained(found->ops, reader);
        }))
      continue;
    for (const Slope &slope : kSlopes)
      if (isTimes(*found, product, slope)) {
        chain = std::move(*found);
        return &slope;
      }
  }
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

namespace {

/// A sum over the rows of a matrix.
struct RowSum {
  ReduceOp reduce;
  CastOp widened;  ///< in front of it, or null
  Value sum;       ///< of the matrix's element type, or null
  CastOp narrowed; ///< behind it, or null
};

} // namespace

static bool isRowSum(ReduceOp reduce) {
  return reduce.getKind() == ReduceKind::Sum &&
         reduce.getDims() == ArrayRef<int64_t>{0};
}

/// The first sum over the rows of `matrix` in its readers' block.
static std::optional<RowSum>
findRowSum(Value matrix, Block *block,
           llvm::function_ref<bool(Operation *)> isInside) {
  auto type = cast<RankedTensorType>(matrix.getType());
  std::optional<RowSum> found;
  auto add = [&](Operation *reader, CastOp widened) {
    auto reduce = dyn_cast<ReduceOp>(reader);
    if (!reduce || !isRowSum(reduce) || reduce->getBlock() != block ||
        !isInside(reduce) || (found && found->reduce->isBeforeInBlock(reduce)))
      return;
    found = RowSum{reduce, widened, reduce.getResult(), nullptr};
  };
  for (Operation *reader :
       llvm::make_range(matrix.user_begin(), matrix.user_end())) {
    add(reader, nullptr);
    auto widened = dyn_cast<CastOp>(reader);
    if (widened && isInside(widened) && widened->getBlock() == block &&
        getElementTypeOrSelf(widened.getType()).isF32() &&
        hasFewReaders(widened))
      for (Operation *behind : widened->getUsers())
        add(behind, widened);
  }
  if (!found || getElementTypeOrSelf(found->sum) == type.getElementType())
    return found;
  // The digits of the sum must not be seen.
  auto narrowed = found->sum.hasOneUse()
                      ? dyn_cast<CastOp>(*found->sum.getUsers().begin())
                      : CastOp();
  bool fits = narrowed && isInside(narrowed) &&
              getElementTypeOrSelf(narrowed.getType()) == type.getElementType();
  found->narrowed = fits ? narrowed : CastOp();
  found->sum = fits ? narrowed.getResult() : Value();
  return found;
}

//===----------------------------------------------------------------------===//
// Both
//===----------------------------------------------------------------------===//

/// What the library has against a gradient beside `root`, or "".
static std::string checkLibrary(MatmulOp root, const Slope *slope) {
  // The manual says so of the operand of the slope; with such rows algorithms
  // for 16-byte accesses serve all matrices.
  constexpr int64_t kMultiple = 8;
  std::string reason;
  const LibraryRule *rule = findLibraryRule(root, &reason);
  if (!rule)
    return reason;
  SmallVector<StringRef> known;
  rule->gradients.split(known, ' ');
  if (!slope && !llvm::is_contained(known, "side"))
    return (rule->library + " sums no side of a product of " + rule->dtype)
        .str();
  if (slope && slope->name == "relu")
    return "the library reads the signs as bits, which the product in front of "
           "the relu would have to write";
  if (slope && !llvm::is_contained(known, slope->name))
    return (rule->library + " has no slope of " + slope->name).str();
  if (!isFast(root))
    return "the library sums in another order, and rounds once; --fp=fast lets "
           "it";
  if (root.getResult().getType().getRank() != 2 ||
      root.getLhs().getType().getRank() != 2)
    return "the library has gradients beside a product of two matrices only";
  for (Value matrix :
       {Value(root.getLhs()), Value(root.getRhs()), Value(root.getResult())}) {
    int64_t size = cast<RankedTensorType>(matrix.getType()).getShape().back();
    if (ShapedType::isDynamic(size))
      return "the size of a row depends on the batch";
    if (size % kMultiple != 0)
      return "rows of " + std::to_string(size) +
             " elements are no multiple of 8, as the library needs";
  }
  return "";
}

static bool sumsResult(MatmulOp root) {
  SmallVector<StringRef> known;
  findLibraryRule(root)->gradients.split(known, ' ');
  return llvm::is_contained(known, "result");
}

std::optional<LibraryGradients>
fusion::findLibraryGradients(MatmulOp root,
                             llvm::function_ref<bool(Operation *)> isInside,
                             std::string *reason) {
  if (!isForCuda(root) || root.getResult().getType().getRank() < 2)
    return std::nullopt;
  auto refuse = [&](const llvm::Twine &why) {
    if (reason)
      *reason = why.str();
    return std::nullopt;
  };
  Chain chain;
  const Slope *slope = findSlope(root, isInside, chain);
  LibraryGradients found;
  found.result = slope ? chain.end : Value(root.getResult());
  std::optional<RowSum> sum;
  auto look = [&](Value matrix, SummedMatrix summed) {
    auto type = cast<RankedTensorType>(matrix.getType());
    if (sum || type.getRank() != 2 || !hasFewReaders(matrix))
      return;
    sum = findRowSum(matrix, root->getBlock(), isInside);
    found.summed = sum ? summed : SummedMatrix::None;
  };
  if (slope) {
    found.slopeAt = chain.other;
    look(found.result, SummedMatrix::Result);
  } else if (root.getTransposeLhs() && !root.getTransposeRhs()) {
    // Both sides have the rows that are summed over.
    look(root.getRhs(), SummedMatrix::Rhs);
    look(root.getLhs(), SummedMatrix::Lhs);
  }
  if (!slope && !sum)
    return std::nullopt;
  if (std::string why = checkLibrary(root, slope); !why.empty())
    return refuse(why);
  if (sum && !sum->sum && !slope)
    return refuse("the library would round the sum to the matrix's type");
  if (sum && (!sum->sum || (slope && !sumsResult(root)))) {
    sum.reset();
    found.summed = SummedMatrix::None;
  }
  if (sum) {
    found.sum = sum->sum;
    for (Operation *op :
         {sum->widened.getOperation(), sum->reduce.getOperation(),
          sum->narrowed.getOperation()})
      if (op)
        found.sumOps.push_back(op);
  }
  found.slopeOps = std::move(chain.ops);
  found.ops = {root};
  llvm::append_range(found.ops, found.slopeOps);
  llvm::append_range(found.ops, found.sumOps);
  llvm::sort(found.ops, [](Operation *a, Operation *b) {
    return a != b && a->isBeforeInBlock(b);
  });
  return found;
}

std::optional<LibraryGradients> fusion::findLibraryGradients(GroupOp group) {
  MatmulOp root;
  size_t count = 0;
  for (Operation &op : group.getBodyBlock()->without_terminator()) {
    if (getOpFamily(&op) == OpFamily::Source)
      continue;
    ++count;
    if (auto matmul = dyn_cast<MatmulOp>(op)) {
      if (root)
        return std::nullopt;
      root = matmul;
    }
  }
  if (!root)
    return std::nullopt;
  auto found = findLibraryGradients(root, [](Operation *) { return true; });
  if (!found || found->ops.size() != count ||
      !(found->sum || group->hasAttr(kGradientsAttr)))
    return std::nullopt;
  // It yields both, and nothing else.
  SmallVector<Value> wanted{found->result};
  if (found->sum)
    wanted.push_back(found->sum);
  auto yielded = group.getYield().getValues();
  return yielded.size() == wanted.size() &&
                 llvm::all_of(wanted,
                              [&](Value value) {
                                return llvm::is_contained(yielded, value);
                              })
             ? found
             : std::nullopt;
}

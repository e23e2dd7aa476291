//===- BatchExtent.cpp - Sizes that depend on the batch -------------------===//
//
// Each op either fixes the size of a result dimension or hands the question on
// to operand dimensions, times a rational factor (reshape). Only concat asks
// several at once, so the open questions are a list of weighted terms whose sum
// is the answer. No recursion: a chain may be very long.
//
//===----------------------------------------------------------------------===//
#include "fusion/IR/BatchExtent.h"
#include "fusion/IR/FusionDialect.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;
using namespace fusion;

namespace {

/// `numerator / denominator` times the size of dimension `dim` of `value`.
struct Term {
  Value value;
  unsigned dim;
  int64_t numerator = 1;
  int64_t denominator = 1;
};

/// What one op says about one dimension: the terms it hands on, or a size.
struct Answer {
  SmallVector<Term, 2> terms;
  std::optional<Extent> known;
};

Answer handOn(Value value, unsigned dim) { return {{Term{value, dim}}, {}}; }

} // namespace

/// Terms visited before giving up: a ladder of concats has exponentially many
/// paths.
static constexpr int64_t kMaxSteps = 1 << 20;

/// Product of the static sizes, or nullopt if it overflows.
static std::optional<int64_t> staticProduct(ArrayRef<int64_t> shape) {
  int64_t product = 1;
  for (int64_t size : shape)
    if (!ShapedType::isDynamic(size) &&
        llvm::MulOverflow(product, size, product))
      return std::nullopt;
  return product;
}

static Answer askReshape(ReshapeOp op) {
  auto from = op.getInput().getType().getShape();
  auto to = op.getResult().getType().getShape();
  auto numerator = staticProduct(from), denominator = staticProduct(to);
  const auto *dynamic = llvm::find_if(from, ShapedType::isDynamic);
  if (!numerator || !denominator)
    return {};
  if (*denominator == 0) // any size does: there are no elements
    return {{}, Extent{1, 0}};
  if (dynamic == from.end())
    return {};
  int64_t divisor = std::gcd(*numerator, *denominator);
  return {{Term{op.getInput(), unsigned(dynamic - from.begin()),
                *numerator / divisor, *denominator / divisor}},
          {}};
}

static Answer askBroadcast(BroadcastOp op, unsigned dim) {
  for (auto [i, target] : llvm::enumerate(op.getDims()))
    if (target == int64_t(dim) && op.getInput().getType().isDynamicDim(i))
      return handOn(op.getInput(), i);
  return {{}, Extent{int64_t(op.getBatchScale()), 0}};
}

static Answer askConcat(ConcatOp op, unsigned dim) {
  Answer answer;
  for (Value input : op.getInputs()) {
    answer.terms.push_back(Term{input, dim});
    if (dim != op.getAxis())
      break;
  }
  return answer;
}

/// The dimension of the operand that is the `dim`-th one not in `dropped`.
static unsigned keptDim(ArrayRef<int64_t> dropped, unsigned dim) {
  unsigned operandDim = 0;
  for (unsigned kept = 0;; ++operandDim) {
    if (llvm::is_contained(dropped, int64_t(operandDim)))
      continue;
    if (kept++ == dim)
      return operandDim;
  }
}

static Answer askGather(GatherOp op, unsigned dim) {
  unsigned axis = op.getAxis(), batch = op.getBatchDims();
  unsigned inserted = op.getIndices().getType().getRank() - batch;
  if (dim < axis)
    return handOn(op.getInput(), dim);
  if (dim < axis + inserted)
    return handOn(op.getIndices(), batch + dim - axis);
  return handOn(op.getInput(), dim - inserted + 1);
}

static Answer askGatherNd(GatherNdOp op, unsigned dim) {
  auto indices = op.getIndices().getType();
  unsigned leading = indices.getRank() - 1;
  if (dim < leading)
    return handOn(op.getIndices(), dim);
  return handOn(op.getInput(),
                op.getBatchDims() + indices.getShape().back() + dim - leading);
}

static Answer askMatmul(MatmulOp op, unsigned dim) {
  unsigned rank = op.getResult().getType().getRank();
  if (dim + 1 == rank)
    return handOn(op.getRhs(), op.getRhs().getType().getRank() -
                                   (op.getTransposeRhs() ? 2 : 1));
  if (dim + 2 == rank && op.getTransposeLhs())
    return handOn(op.getLhs(), rank - 1);
  return handOn(op.getLhs(), dim);
}

/// All operands have the result's shape: prefer one whose size stands at hand.
static Answer askElementwise(Operation *op, unsigned dim) {
  for (Value operand : op->getOperands())
    if (auto broadcast = operand.getDefiningOp<BroadcastOp>())
      return askBroadcast(broadcast, dim);
  return op->getNumOperands() ? handOn(op->getOperand(0), dim) : Answer{};
}

static Answer askArgument(BlockArgument argument, unsigned dim) {
  Operation *parent = argument.getOwner()->getParentOp();
  if (isa_and_nonnull<FunctionOpInterface>(parent))
    return {{}, Extent{1, 0}};
  if (auto group = dyn_cast_or_null<GroupOp>(parent))
    return handOn(group.getInputs()[argument.getArgNumber()], dim);
  return {};
}

/// A user's kernel says nothing of its sizes: a `?` is that of the first input
/// that has one in the same place, or the batch.
static Answer askKernelCall(KernelCallOp op, unsigned dim) {
  for (Value input : op.getInputs()) {
    auto type = cast<RankedTensorType>(input.getType());
    if (dim < type.getRank() && type.isDynamicDim(dim))
      return handOn(input, dim);
  }
  return {{}, Extent{1, 0}};
}

/// A result of a region op: the operand of the region's terminator.
static Answer askRegion(Region &region, unsigned result, unsigned dim) {
  return handOn(region.front().getTerminator()->getOperand(result), dim);
}

static Answer ask(Value value, unsigned dim) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return askArgument(argument, dim);
  Operation *op = value.getDefiningOp();
  unsigned result = cast<OpResult>(value).getResultNumber();
  return llvm::TypeSwitch<Operation *, Answer>(op)
      .Case([&](BroadcastOp op) { return askBroadcast(op, dim); })
      .Case([&](IotaOp op) {
        return Answer{{}, Extent{int64_t(op.getBatchScale()), 0}};
      })
      .Case([&](RngUniformOp) { return Answer{{}, Extent{1, 0}}; })
      .Case([&](ReshapeOp op) { return askReshape(op); })
      .Case([&](TransposeOp op) {
        return handOn(op.getInput(), op.getPermutation()[dim]);
      })
      .Case([&](ConcatOp op) { return askConcat(op, dim); })
      .Case([&](GatherOp op) { return askGather(op, dim); })
      .Case([&](GatherNdOp op) { return askGatherNd(op, dim); })
      .Case([&](ReduceOp op) {
        return handOn(op.getInput(), keptDim(op.getDims(), dim));
      })
      .Case<ArgMaxOp, ArgMinOp>([&](auto op) {
        return handOn(op.getInput(), keptDim({int64_t(op.getAxis())}, dim));
      })
      .Case([&](MatmulOp op) { return askMatmul(op, dim); })
      .Case([&](BatchNormTrainingOp op) {
        return handOn(op.getInput(),
                      result == 0 ? dim : unsigned(op.getAxis()));
      })
      .Case([&](AttentionOp op) {
        return dim == 3 ? handOn(op.getValue(), 3) : handOn(op.getQuery(), dim);
      })
      .Case([&](AttentionGradOp op) {
        return handOn(op->getOperand(result), dim);
      })
      // The first operand has the size: these change only static dimensions.
      .Case<SliceOp, ReverseOp, PadOp, ScatterOp, UpdateSliceOp, ConvOp,
            ConvTransposeOp, MaxPoolOp, AvgPoolOp, MaxPoolGradOp, AfterOp,
            BatchNormOp, LayerNormOp, RmsNormOp, SoftmaxOp, LogSoftmaxOp,
            RopeOp>(
          [&](Operation *op) { return handOn(op->getOperand(0), dim); })
      .Case<AllReduceOp, CollectiveBroadcastOp, CollectivePermuteOp>(
          [&](Operation *op) { return handOn(op->getOperand(result), dim); })
      .Case<AllGatherOp, ReduceScatterOp>([&](auto op) {
        return dim == op.getDim() ? Answer{}
                                  : handOn(op.getInputs()[result], dim);
      })
      .Case([&](KernelCallOp op) { return askKernelCall(op, dim); })
      .Case([&](GroupOp op) { return askRegion(op.getBody(), result, dim); })
      .Case([&](AwaitOp op) {
        auto async = op.getFuture().getDefiningOp<AsyncOp>();
        return async ? askRegion(async.getBody(), result, dim) : Answer{};
      })
      .Case<ElementwiseOpInterface>(
          [&](auto op) { return askElementwise(op, dim); })
      .Default([](Operation *) { return Answer{}; });
}

namespace {

/// The sum of the answered terms over a common denominator: halves of a concat
/// add up to whole sizes only in the end.
class Sum {
public:
  /// False if something overflows.
  bool add(const Term &term, Extent extent) {
    int64_t divisor = std::gcd(denominator, term.denominator);
    int64_t grown = term.denominator / divisor;
    int64_t weight;
    if (llvm::MulOverflow(term.numerator, denominator / divisor, weight) ||
        llvm::MulOverflow(denominator, grown, denominator))
      return false;
    return add(total.scale, grown, extent.scale, weight) &&
           add(total.base, grown, extent.base, weight);
  }

  std::optional<Extent> get() const {
    if (total.scale % denominator != 0 || total.base % denominator != 0)
      return std::nullopt;
    return Extent{total.scale / denominator, total.base / denominator};
  }

private:
  static bool add(int64_t &part, int64_t grown, int64_t value, int64_t weight) {
    int64_t product;
    return !llvm::MulOverflow(part, grown, part) &&
           !llvm::MulOverflow(value, weight, product) &&
           !llvm::AddOverflow(part, product, part);
  }

  Extent total;
  int64_t denominator = 1;
};

} // namespace

/// `inner`, asked by `outer`, as a term of the sum; false on overflow.
static bool scale(Term &inner, const Term &outer) {
  if (llvm::MulOverflow(inner.numerator, outer.numerator, inner.numerator) ||
      llvm::MulOverflow(inner.denominator, outer.denominator,
                        inner.denominator))
    return false;
  int64_t divisor = std::gcd(inner.numerator, inner.denominator);
  inner.numerator /= divisor;
  inner.denominator /= divisor;
  return true;
}

std::optional<Extent> fusion::getBatchExtent(Value value, unsigned dim) {
  Sum sum;
  SmallVector<Term> open{Term{value, dim}};
  for (int64_t step = 0; !open.empty(); ++step) {
    if (step == kMaxSteps)
      return std::nullopt;
    Term term = open.pop_back_val();
    auto type = dyn_cast<RankedTensorType>(term.value.getType());
    if (!type || term.dim >= type.getRank())
      return std::nullopt;
    if (!type.isDynamicDim(term.dim)) {
      if (!sum.add(term, {0, type.getDimSize(term.dim)}))
        return std::nullopt;
      continue;
    }
    Answer answer = ask(term.value, term.dim);
    if (!answer.known && answer.terms.empty())
      return std::nullopt;
    if (answer.known && !sum.add(term, *answer.known))
      return std::nullopt;
    for (Term &inner : answer.terms) {
      if (!scale(inner, term))
        return std::nullopt;
      open.push_back(inner);
    }
  }
  return sum.get();
}

std::optional<Extent> fusion::getBatchExtent(
    Value value, unsigned dim,
    llvm::function_ref<std::optional<Extent>(Value, unsigned)> known) {
  Answer answer = ask(value, dim);
  if (answer.known)
    return answer.known;
  Sum sum;
  for (const Term &term : answer.terms) {
    std::optional<Extent> extent = known(term.value, term.dim);
    if (!extent || !sum.add(term, *extent))
      return std::nullopt;
  }
  return answer.terms.empty() ? std::nullopt : sum.get();
}

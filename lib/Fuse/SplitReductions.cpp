//===- SplitReductions.cpp - Long reductions of few results ---------------===//
//
// A reduction has as many threads as its results can use. Where these are few
// and what they read is much, most of a GPU would idle: the reduction is done
// in two, first of equal parts, then of the parts' results. A large tensor has
// as many parts as give a GPU several waves of blocks: few long rows keep too
// few bytes under way. Where the parts' results go into a sum of several
// scalars, as in a norm of all gradients, that sum takes them themselves: no
// launch adds those of one. All terms of such a sum share the numbers that its
// block may add, and lie in its row as their kernels can write them there.
//
//===----------------------------------------------------------------------===//
#include "fusion/Analysis/DeviceModel.h"
#include "fusion/Analysis/FusionLegality.h"
#include "fusion/Fuse/Passes.h"
#include "fusion/IR/FusionDialect.h"
#include "fusion/IR/TensorData.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

namespace fusion {
#define GEN_PASS_DEF_SPLITREDUCTIONS
#include "fusion/Fuse/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

/// Elements that a thread of the first reduction should have at least, and
/// parts of one.
static constexpr int64_t kElementsOfThread = 16, kMaxParts = 4096;

/// Threads of a row at most (codegen/Cuda/CudaRowReduce.cpp).
static constexpr int64_t kRowThreads = 256;

/// Elements of a row that a thread reads as four or eight vectors: a longer one
/// has no more bytes under way, and there are fewer.
static constexpr int64_t kRowElements = 16384;

/// Elements that a row should be a multiple of, to be read in vectors.
static constexpr int64_t kVectorElements = 8;

/// Numbers that one block may have to add: as many as its threads hold at a
/// time.
static constexpr int64_t kMaxJoined = 32768;

/// Bytes at whose multiples a kernel may write its part of a concat
/// (codegen/GroupHash.h).
static constexpr int64_t kPieceBytes = 16;

/// Elementwise ops in front of a reduction that are looked through.
static constexpr size_t kMaxSources = 64;

/// A cast whose operand is less to read than its result.
static bool isWidening(Operation *op) {
  return isa<CastOp>(op) &&
         getElementBytes(getElementTypeOrSelf(op->getOperand(0))) <
             getElementBytes(getElementTypeOrSelf(op->getResult(0)));
}

/// `op` of the same values in `shape`: dimension `dim` of what it gives became
/// two there.
static Value splitBroadcast(OpBuilder &builder, BroadcastOp op,
                            ArrayRef<int64_t> shape, int64_t dim) {
  Value input = op.getInput();
  auto type = cast<RankedTensorType>(input.getType());
  SmallVector<int64_t> inputShape, dims;
  for (auto [i, d] : llvm::enumerate(op.getDims())) {
    bool isSplit = d == dim && type.getDimSize(i) != 1;
    if (isSplit)
      inputShape.append({shape[dim], shape[dim + 1]});
    else
      inputShape.push_back(type.getDimSize(i));
    dims.push_back(d > dim ? d + 1 : d);
    if (isSplit)
      dims.push_back(d + 1);
  }
  if (inputShape != type.getShape())
    input =
        ReshapeOp::create(builder, op.getLoc(), type.clone(inputShape), input);
  return BroadcastOp::create(
      builder, op.getLoc(),
      cast<RankedTensorType>(op.getResult().getType()).clone(shape), input,
      dims);
}

/// What the first of two reductions can take in, in the block's order:
/// broadcasts, widening casts, and elementwise ops that nothing else reads.
static SmallVector<Operation *> findSources(ReduceOp op) {
  auto type = cast<RankedTensorType>(op.getInput().getType());
  SmallVector<Operation *> sources;
  SmallVector<Value> open{op.getInput()};
  auto isInside = [&](Operation *user) {
    return user == op || llvm::is_contained(sources, user);
  };
  auto isSource = [&](Operation *source) {
    if (isa<BroadcastOp>(source))
      return cast<RankedTensorType>(source->getOperand(0).getType())
          .hasStaticShape();
    return isa<ElementwiseOpInterface>(source) &&
           source->getNumResults() == 1 &&
           (isWidening(source) || llvm::all_of(source->getUsers(), isInside)) &&
           llvm::all_of(source->getOperandTypes(), [&](Type operand) {
             auto tensor = dyn_cast<RankedTensorType>(operand);
             return tensor && tensor.getShape() == type.getShape();
           });
  };
  for (size_t i = 0; i < open.size() && sources.size() < kMaxSources; ++i) {
    Operation *source = open[i].getDefiningOp();
    if (!source || source->getBlock() != op->getBlock() || isInside(source) ||
        !isSource(source))
      continue;
    sources.push_back(source);
    if (!isa<BroadcastOp>(source))
      llvm::append_range(open, source->getOperands());
  }
  llvm::sort(sources,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return sources;
}

/// What `op` reduces, in `shape`, where its dimension `dim` became two. Its
/// sources are computed in that shape: a reshape behind them would keep them
/// out of the reduction's kernel.
static Value reshapeSources(OpBuilder &builder, ReduceOp op,
                            ArrayRef<Operation *> sources,
                            ArrayRef<int64_t> shape, int64_t dim) {
  IRMapping mapping;
  auto reshape = [&](Value value) {
    if (mapping.contains(value))
      return;
    auto to = cast<RankedTensorType>(value.getType()).clone(shape);
    // One number for all elements stays one, and stays in the kernel.
    DenseElementsAttr number;
    if (matchPattern(value, m_Constant(&number)) && number.isSplat())
      mapping.map(value, ConstantOp::create(builder, op.getLoc(), to,
                                            number.resizeSplat(to)));
    else
      mapping.map(value, ReshapeOp::create(builder, op.getLoc(), to, value));
  };
  for (Operation *source : sources) {
    if (auto broadcast = dyn_cast<BroadcastOp>(source)) {
      mapping.map(broadcast.getResult(),
                  splitBroadcast(builder, broadcast, shape, dim));
      continue;
    }
    llvm::for_each(source->getOperands(), reshape);
    Value result = builder.clone(*source, mapping)->getResult(0);
    result.setType(cast<RankedTensorType>(result.getType()).clone(shape));
  }
  reshape(op.getInput());
  return mapping.lookup(op.getInput());
}

namespace {

/// What is known of a reduction with static sizes.
struct ReductionSize {
  int64_t results = 1, length = 1, bytes = 0;
  int64_t dim = -1;   ///< outermost reduced one, whose parts are taken
  int64_t extent = 1; ///< of that
  bool isRow = true;  ///< only trailing dimensions are reduced
};

struct SplitReductions : fusion::impl::SplitReductionsBase<SplitReductions> {
  using SplitReductionsBase::SplitReductionsBase;

  void runOnOperation() override;

private:
  void split(ReduceOp op, const DeviceModel &device);
  void planJoined(ConcatOp concat, const DeviceModel &device);

  /// Parts of the terms of sums of scalars.
  llvm::DenseMap<Operation *, int64_t> partsOfTerm;
};

} // namespace

static std::optional<ReductionSize> measure(ReduceOp op) {
  auto type = cast<RankedTensorType>(op.getInput().getType());
  if (!type.hasStaticShape() || type.getNumElements() == 0)
    return std::nullopt;
  ReductionSize size;
  bool keptBehind = false;
  for (int64_t d = type.getRank(); d-- > 0;) {
    if (!llvm::is_contained(op.getDims(), d)) {
      size.results *= type.getDimSize(d);
      keptBehind |= type.getDimSize(d) != 1;
      continue;
    }
    size.length *= type.getDimSize(d);
    if (type.getDimSize(d) == 1)
      continue;
    size.isRow &= !keptBehind;
    size.dim = d;
    size.extent = type.getDimSize(d);
  }
  size.bytes = type.getNumElements() * getElementBytes(type.getElementType());
  return size.dim < 0 ? std::nullopt : std::optional(size);
}

/// Threads that such a reduction occupies.
static double countThreads(const ReductionSize &size) {
  // What the emitters deal: a block a row, or 32 threads a column vector.
  double each = double(size.length) / kElementsOfThread;
  return size.isRow ? size.results * std::clamp(each, 1.0, double(kRowThreads))
                    : size.results * std::clamp(each, 1.0, 32.0) / 4;
}

/// The share of the device's threads that such a reduction occupies.
static double getShare(const ReductionSize &size, const DeviceModel &device) {
  double wanted =
      double(device.units) * device.threadsPerBlock * device.residentBlocks;
  return std::min(1.0, countThreads(size) / wanted);
}

/// The least divisor of the extent from about `wanted` on that is a multiple of
/// `multiple` and leaves rows of whole vectors; else the largest one, which may
/// have half as many parts as wanted before it has rows of single elements.
static int64_t chooseParts(const ReductionSize &size, int64_t wanted,
                           int64_t limit, int64_t multiple = 1) {
  // A few blocks less keep a device as busy.
  if (size.isRow)
    wanted -= wanted / 16;
  int64_t largest = 1, inVectors = 1;
  for (int64_t parts = 2; parts <= std::min(size.extent, limit); ++parts) {
    if (size.extent % parts != 0 || parts % multiple != 0)
      continue;
    if (!size.isRow || size.length / parts % kVectorElements == 0)
      inVectors = parts;
    if (inVectors >= wanted)
      return inVectors;
    if (largest < wanted)
      largest = parts;
  }
  return inVectors > 1 && 2 * inVectors >= std::min(wanted, largest) ? inVectors
                                                                     : largest;
}

/// Whether sums between the two keep more digits than the elements have.
static bool needsWideParts(ReduceOp op) {
  Type element = getElementTypeOrSelf(op.getInput().getType());
  return element.isF16() || element.isBF16();
}

/// Parts of a reduction that is done in two, at most.
static int64_t getMaxParts(const ReductionSize &size) {
  return std::min(kMaxParts, size.length / (2 * kElementsOfThread));
}

/// Whether `op` adds up what others reduced, and one block can.
static bool isOfFewResults(ReduceOp op, const ReductionSize &size) {
  Operation *producer = op.getInput().getDefiningOp();
  while (isa_and_present<ReshapeOp, CastOp>(producer))
    producer = producer->getOperand(0).getDefiningOp();
  return size.results == 1 && size.length <= kMaxJoined &&
         isa_and_present<ConcatOp, ReduceOp>(producer);
}

/// Whether `op` reduces rows that a thread group reads at once, and only for
/// another reduction: the first of two.
static bool isOfParts(ReduceOp op, const ReductionSize &size) {
  if (!size.isRow || size.results < 2 || size.length > kRowElements ||
      !op->hasOneUse())
    return false;
  Operation *reader = *op->user_begin();
  while (isa<ReshapeOp, ConcatOp>(reader) && reader->hasOneUse())
    reader = *reader->user_begin();
  auto next = dyn_cast<ReduceOp>(reader);
  return next && next.getKind() == op.getKind() &&
         cast<RankedTensorType>(next.getType()).getRank() == 0;
}

void SplitReductions::split(ReduceOp op, const DeviceModel &device) {
  std::optional<ReductionSize> size = measure(op);
  if (!size || isOfFewResults(op, *size) || isOfParts(op, *size))
    return;
  double share = getShare(*size, device);
  double wholeUs = 1e6 * size->bytes / device.memoryBandwidth;
  auto term = partsOfTerm.find(op);
  bool isTerm = term != partsOfTerm.end();
  int64_t wanted = std::ceil(1.0 / share);
  if (size->isRow && size->results == 1)
    wanted = std::max(wanted, size->length / kRowElements);
  int64_t parts =
      isTerm ? term->second : chooseParts(*size, wanted, getMaxParts(*size));
  if (parts < 2)
    return;
  Location loc = op.getLoc();
  double nowUs = wholeUs / share;
  const KernelFigures &kernel = device.getKernel(
      size->isRow ? KernelClass::RowReduce : KernelClass::ColumnReduce);
  double splitUs = wholeUs / std::min(1.0, share * parts);
  // The sum of a term's parts is no launch.
  if (!isTerm)
    splitUs += device.launchGapUs + kernel.fixedUs;
  // What else computes the values would be part of one kernel; the view of
  // their parts keeps it out of the first of two.
  SmallVector<Operation *> sources = findSources(op);
  if (Operation *producer = op.getInput().getDefiningOp();
      producer && !llvm::is_contained(sources, producer))
    if (OpFamily family = getOpFamily(producer);
        family == OpFamily::Elementwise || family == OpFamily::Injective)
      splitUs += 2 * wholeUs + device.launchGapUs +
                 device.getKernel(KernelClass::Loop).fixedUs;
  std::string percent = llvm::formatv("{0:f1}", 100 * share),
              nowText = llvm::formatv("{0:f2}", nowUs),
              splitText = llvm::formatv("{0:f2}", splitUs);
  auto options =
      remark::RemarkOpts::name("split-reductions").category("fusion");
  if (splitUs >= nowUs) {
    remark::missed(loc, options)
        << remark::reason("{0} results keep {1} % of the device busy, but two "
                          "launches are not faster",
                          size->results, percent)
        << remark::metric("us_apart", nowText)
        << remark::metric("us_fused", splitText);
    return;
  }

  OpBuilder builder(op);
  auto type = cast<RankedTensorType>(op.getInput().getType());
  auto resultType = cast<RankedTensorType>(op.getResult().getType());
  Value input = op.getInput();
  // Between the two, sums keep the digits that they are accumulated in.
  Type element = type.getElementType();
  Type wide = needsWideParts(op) ? builder.getF32Type() : element;
  SmallVector<int64_t> shape(type.getShape());
  shape[size->dim] /= parts;
  shape.insert(shape.begin() + size->dim, parts);
  input = reshapeSources(builder, op, sources, shape, size->dim);
  if (wide != element)
    input = CastOp::create(builder, loc, type.clone(shape).clone(wide), input);
  SmallVector<int64_t> dims, kept;
  for (int64_t dim : op.getDims())
    dims.push_back(dim < size->dim ? dim : dim + 1);
  int64_t partsAt = 0;
  for (int64_t d = 0; d < int64_t(shape.size()); ++d)
    if (!llvm::is_contained(dims, d)) {
      if (d == size->dim)
        partsAt = kept.size();
      kept.push_back(shape[d]);
    }
  Value first =
      ReduceOp::create(builder, loc, RankedTensorType::get(kept, wide),
                       op.getKind(), input, builder.getDenseI64ArrayAttr(dims));
  Value second =
      ReduceOp::create(builder, loc, resultType.clone(wide), op.getKind(),
                       first, builder.getDenseI64ArrayAttr({partsAt}));
  if (wide != element)
    second = CastOp::create(builder, loc, resultType, second);
  remark::passed(loc, options)
      << remark::reason(
             "{0} results keep {1} % of the device busy: {2} parts first",
             size->results, percent, parts)
      << remark::metric("us_apart", nowText)
      << remark::metric("us_fused", splitText);
  op.getResult().replaceAllUsesWith(second);
  op.erase();
  for (Operation *source : llvm::reverse(sources))
    if (source->use_empty())
      source->erase();
}

/// The sum of a row of scalars that `concat` is read by alone, or null.
static ReduceOp findRowSum(ConcatOp concat) {
  auto type = cast<RankedTensorType>(concat.getType());
  if (!type.hasStaticShape() || type.getNumElements() > kMaxJoined ||
      type.getDimSize(concat.getAxis()) != type.getNumElements() ||
      !concat->hasOneUse())
    return {};
  auto sum = dyn_cast<ReduceOp>(*concat->user_begin());
  bool isWhole = sum && sum.getKind() == ReduceKind::Sum &&
                 int64_t(sum.getDims().size()) == type.getRank();
  return isWhole ? sum : ReduceOp();
}

/// The sum of a whole tensor that `scalar` is a view of, if nothing else reads
/// either, or null.
static ReduceOp findTerm(Value scalar) {
  auto view = scalar.getDefiningOp<ReshapeOp>();
  auto sum = view ? view.getInput().getDefiningOp<ReduceOp>() : ReduceOp();
  bool isTerm = sum && view->hasOneUse() && sum->hasOneUse() &&
                sum.getKind() == ReduceKind::Sum &&
                cast<RankedTensorType>(sum.getType()).getRank() == 0;
  return isTerm ? sum : ReduceOp();
}

/// Chooses the parts of all sums that the sum of a row of scalars adds. Those
/// of large tensors are rows that a GPU reads best; those of others give it
/// blocks enough, or, where these are more numbers than one block may add,
/// fewer.
void SplitReductions::planJoined(ConcatOp concat, const DeviceModel &device) {
  if (!findRowSum(concat))
    return;
  struct Term {
    ReduceOp op;
    ReductionSize size;
    int64_t fill, multiple, parts = 1;
  };
  SmallVector<Term> terms;
  int64_t others = 0;
  for (Value input : concat.getInputs()) {
    ReduceOp op = findTerm(input);
    std::optional<ReductionSize> size = op ? measure(op) : std::nullopt;
    // The parts of f16 and bf16 are added in f32, apart.
    if (!size || isOfFewResults(op, *size) || needsWideParts(op)) {
      others += cast<RankedTensorType>(input.getType()).getNumElements();
      continue;
    }
    int64_t width = getElementBytes(getElementTypeOrSelf(op.getType()));
    double share = getShare(*size, device);
    terms.push_back({op, *size, int64_t(std::ceil(1.0 / share)),
                     std::max<int64_t>(1, kPieceBytes / width)});
  }
  // By how much more than a thread's least.
  for (int64_t factor = 1; factor <= kMaxJoined; factor *= 2) {
    int64_t row = std::max(kRowElements, kRowElements / 4 * factor),
            least = kElementsOfThread * kRowThreads * factor, sum = others;
    for (Term &term : terms) {
      int64_t wanted = std::max({std::min(term.fill, term.size.length / least),
                                 term.size.length / row, term.multiple});
      int64_t most = getMaxParts(term.size);
      term.parts = chooseParts(term.size, wanted, most, term.multiple);
      if (term.parts == 1)
        term.parts = chooseParts(term.size, wanted, most);
      sum += term.parts;
    }
    if (sum <= kMaxJoined)
      break;
  }
  for (Term &term : terms)
    partsOfTerm[term.op] = term.parts;
}

/// The sum of parts' sums that `scalar` is a view of, if nothing else reads
/// either, or null.
static ReduceOp findPartsSum(Value scalar) {
  ReduceOp sum = findTerm(scalar);
  if (!sum || cast<RankedTensorType>(sum.getInput().getType()).getRank() != 1 ||
      !cast<RankedTensorType>(sum.getInput().getType()).hasStaticShape())
    return {};
  auto parts = sum.getInput().getDefiningOp<ReduceOp>();
  return parts && parts->hasOneUse() && parts.getKind() == ReduceKind::Sum
             ? sum
             : ReduceOp();
}

/// Lets the sum of a row of scalars add what those were added from.
static void joinSums(ConcatOp concat) {
  ReduceOp whole = findRowSum(concat);
  if (!whole)
    return;
  auto type = cast<RankedTensorType>(concat.getType());
  int64_t axis = concat.getAxis(), length = 0;
  SmallVector<ReduceOp> joined;
  SmallVector<Value> inputs(concat.getInputs());
  OpBuilder builder(concat);
  for (Value &input : inputs) {
    auto inputType = cast<RankedTensorType>(input.getType());
    int64_t size = inputType.getDimSize(axis);
    if (ReduceOp sum = size == 1 ? findPartsSum(input) : ReduceOp()) {
      size = cast<RankedTensorType>(sum.getInput().getType()).getDimSize(0);
      joined.push_back(sum);
    }
    length += size;
  }
  if (joined.empty() || length > kMaxJoined)
    return;
  for (Value &input : inputs) {
    ReduceOp sum = findPartsSum(input);
    if (!sum)
      continue;
    SmallVector<int64_t> shape(type.getRank(), 1);
    shape[axis] =
        cast<RankedTensorType>(sum.getInput().getType()).getDimSize(0);
    input = ReshapeOp::create(builder, sum.getLoc(), type.clone(shape),
                              sum.getInput());
  }
  SmallVector<int64_t> shape(type.getShape());
  shape[axis] = length;
  Value row = ConcatOp::create(builder, concat.getLoc(), type.clone(shape),
                               inputs, concat.getAxisAttr());
  remark::passed(
      whole.getLoc(),
      remark::RemarkOpts::name("split-reductions").category("fusion"))
      << remark::reason("the sum of {0} scalars adds the parts of {1}",
                        concat.getInputs().size(), joined.size())
      << remark::metric("elements", length);
  whole.getInputMutable().assign(row);
  concat.erase();
  for (ReduceOp sum : joined) {
    Operation *view = *sum->user_begin();
    view->erase();
    sum.erase();
  }
}

void SplitReductions::runOnOperation() {
  if (getOperation().isExternal())
    return;
  llvm::Expected<DeviceModel> model = DeviceModel::load(device);
  if (!model) {
    getOperation().emitError(llvm::toString(model.takeError()));
    return signalPassFailure();
  }
  if (!model->isGpu)
    return;
  partsOfTerm.clear();
  SmallVector<ReduceOp> reductions;
  for (Block &block : getOperation().getFunctionBody())
    for (ConcatOp concat : block.getOps<ConcatOp>())
      planJoined(concat, *model);
  for (Block &block : getOperation().getFunctionBody())
    llvm::append_range(reductions, block.getOps<ReduceOp>());
  for (ReduceOp op : reductions)
    split(op, *model);
  for (Block &block : getOperation().getFunctionBody())
    for (ConcatOp concat : llvm::make_early_inc_range(block.getOps<ConcatOp>()))
      joinSums(concat);
}

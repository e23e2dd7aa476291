//===- ChunkGathers.cpp - Products that start before all is gathered ------===//
//
// A product of what other ranks hold waits for the gather, though each row of
// its result needs the rows of one rank only. So the gather goes in chunks:
// rows of each rank's part, one chunk sent while another is multiplied
// ("collective matmul": Wang et al., ASPLOS 2023). A chunk of the gather holds
// rows of every rank, so no rank's program depends on its place; a product for
// each rank's rows writes one run of the result's bytes, and what puts them
// together moves nothing (codegen, `fusion.pieces`).
//
// Sizes come from the simulation of the chunks alone: a small first chunk where
// products take longer than what is sent, equal ones on a slow link.
//
//===----------------------------------------------------------------------===//
#include "DecidingPass.h"
#include "fusion/Analysis/CommSchedule.h"
#include "fusion/Analysis/FusionRules.h"
#include "fusion/Fuse/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"

#define DEBUG_TYPE "fusion-chunk-gathers"

namespace fusion {
#define GEN_PASS_DEF_CHUNKGATHERS
#include "fusion/Fuse/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

/// On the gathers that this pass made.
static constexpr llvm::StringLiteral kChunkAttr = "fusion.chunk";
/// Bytes at whose multiples a row of chunks must begin to be computed in place.
static constexpr int64_t kRunAlignment = 16;
/// What libraries' kernels compute at once, in rows and columns of the result.
static constexpr int64_t kTileRows = 128, kTileColumns = 256;
/// A gain below this share of the time is none that a model can promise.
static constexpr double kLeastGain = 0.03;

namespace {

/// A product of gathered rows, and the elementwise ops that alone read it, each
/// the one before it.
struct RowProduct {
  MatmulOp product;
  SmallVector<Operation *> epilogue;
  Operation *getLast() {
    return epilogue.empty() ? product.getOperation() : epilogue.back();
  }
  Value getResult() { return getLast()->getResult(0); }
};

struct ChunkGathers
    : DecidingPass<fusion::impl::ChunkGathersBase<ChunkGathers>> {
  using DecidingPass::DecidingPass;

  LogicalResult decide(FunctionOpInterface function, Block &block) override;
};

/// One gather and its readers.
class ChunkedGather {
public:
  ChunkedGather(AllGatherOp gather, StepPrices &prices,
                const DeviceModel &device)
      : gather(gather), prices(prices), device(device) {}

  /// Collects the readers; why it can't otherwise.
  std::optional<FusionRule> analyze();
  /// Microseconds of what can be computed while it is sent as it is.
  double getHiddenUs(Block &block);
  /// Finds the chunks, in parts of `kParts`, and both times.
  void choose();
  void rewrite();

  static constexpr int64_t kParts = 8;
  SmallVector<int64_t> chunks; ///< rows of a rank's part
  double wholeUs = 0, chunkedUs = 0;
  CommCost whole;

private:
  double simulateChunks(ArrayRef<int64_t> rows);
  /// Of `rows` rows of `product`, for each rank.
  double getProductUs(MatmulOp product, int64_t rows);
  Value takeRows(OpBuilder &builder, Value value, int64_t first, int64_t rows);

  AllGatherOp gather;
  StepPrices &prices;
  const DeviceModel &device;
  SmallVector<RowProduct> products;
  int64_t groupSize = 1, rows = 0; ///< of one rank's part
};

} // namespace

static RankedTensorType getType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static RankedTensorType withRows(RankedTensorType type, int64_t rows) {
  SmallVector<int64_t> shape(type.getShape());
  shape.front() = rows;
  return type.clone(shape);
}

//===----------------------------------------------------------------------===//
// Recognition
//===----------------------------------------------------------------------===//

std::optional<FusionRule> ChunkedGather::analyze() {
  if (gather.getInputs().size() != 1 || gather.getDim() != 0)
    return FusionRule::ChunkShape;
  RankedTensorType type = getType(gather.getInputs().front());
  groupSize = getCommGroup(gather).size;
  if (!type.hasStaticShape() || type.getRank() < 2 || groupSize < 2)
    return FusionRule::ChunkShape;
  rows = type.getDimSize(0);
  for (Operation *user : gather.getOutputs().front().getUsers()) {
    auto product = dyn_cast<MatmulOp>(user);
    // Rows of the left factor are rows of the result. Products of several
    // blocks have no order.
    if (!product || product->getBlock() != gather->getBlock() ||
        product.getLhs() != gather.getOutputs().front() ||
        product.getRhs() == product.getLhs() ||
        (type.getRank() == 2 && product.getTransposeLhs()) ||
        getType(product.getRhs()).getRank() != 2)
      return FusionRule::ChunkReader;
    products.push_back({product, {}});
  }
  if (products.empty())
    return FusionRule::ChunkReader;
  llvm::SmallPtrSet<Operation *, 8> taken;
  for (RowProduct &each : products) {
    Value value = each.product.getResult();
    if (!getType(value).hasStaticShape())
      return FusionRule::ChunkShape;
    while (value.hasOneUse()) {
      Operation *user = *value.user_begin();
      if (!isa<ElementwiseOpInterface>(user) || user->getNumResults() != 1 ||
          user->getBlock() != gather->getBlock() || taken.contains(user) ||
          !llvm::all_of(user->getOperands(),
                        [&](Value operand) {
                          return getType(operand).getShape() ==
                                 getType(value).getShape();
                        }) ||
          getType(user->getResult(0)).getShape() != getType(value).getShape())
        break;
      taken.insert(user);
      each.epilogue.push_back(user);
      value = user->getResult(0);
    }
  }
  // A product that another one's epilogue reads is rewritten before that.
  llvm::sort(products, [](RowProduct &a, RowProduct &b) {
    return a.getLast()->isBeforeInBlock(b.getLast());
  });
  return std::nullopt;
}

/// What depends on the gather can't be computed beside it, nor what its operand
/// is computed from.
double ChunkedGather::getHiddenUs(Block &block) {
  Operation *producer = gather.getInputs().front().getDefiningOp();
  if (producer && producer->getBlock() != &block)
    return 0;
  Operation *first = products.front().product;
  for (RowProduct &each : products)
    if (each.product->isBeforeInBlock(first))
      first = each.product;
  double us = 0;
  for (Operation *op = producer ? producer->getNextNode() : &block.front();
       op && op != first; op = op->getNextNode())
    if (!isa<CommunicationOpInterface>(op))
      us += prices.getStep(op).us;
  return us;
}

//===----------------------------------------------------------------------===//
// Decision
//===----------------------------------------------------------------------===//

double ChunkedGather::getProductUs(MatmulOp product, int64_t part) {
  double us = prices.getStep(product).us, gap = device.launchGapUs;
  double share = static_cast<double>(part) / rows;
  if (!device.isGpu)
    return us * share + gap * groupSize;
  // One call for all ranks' rows, whose last round of tiles leaves
  // multiprocessors idle.
  RankedTensorType type = getType(product.getResult());
  int64_t columns = type.getShape().back();
  int64_t inner = type.getNumElements() / columns / type.getDimSize(0);
  auto rounds = [&](int64_t count) {
    int64_t tiles = groupSize * llvm::divideCeil(count * inner, kTileRows) *
                    llvm::divideCeil(columns, kTileColumns);
    return static_cast<double>(llvm::divideCeil(tiles, device.units));
  };
  return us * std::max(share, rounds(part) / rounds(rows)) + gap;
}

double ChunkedGather::simulateChunks(ArrayRef<int64_t> sizes) {
  std::vector<TimedStep> steps;
  CommGroup group = getCommGroup(gather);
  double bytes = prices.getBytes(gather);
  for (int64_t size : sizes) {
    TimedStep step = prices.getStep(gather);
    step.us = prices.getComms()
                  .predict(CommOp::AllGather, bytes * size / rows, group)
                  .us;
    step.stream = 2;
    steps.push_back(step);
  }
  for (auto [i, size] : llvm::enumerate(sizes))
    for (RowProduct &each : products) {
      TimedStep step = prices.getStep(each.product);
      if (sizes.size() > 1)
        step.us = getProductUs(each.product, size);
      step.waits.push_back(i);
      steps.push_back(step);
    }
  return simulate(steps, prices.getComms()).stepUs;
}

void ChunkedGather::choose() {
  whole = prices.getComms().predict(CommOp::AllGather, prices.getBytes(gather),
                                    getCommGroup(gather));
  wholeUs = chunkedUs = simulateChunks({rows});
  static constexpr std::initializer_list<int64_t> kShares[] = {
      {4, 4},    {2, 6},    {1, 7},       {2, 2, 4},
      {1, 3, 4}, {1, 2, 5}, {2, 2, 2, 2}, {1, 1, 1, 1, 1, 1, 1, 1}};
  for (ArrayRef<int64_t> shares : kShares) {
    SmallVector<int64_t> sizes;
    bool fits = true;
    for (int64_t share : shares) {
      fits &= rows * share % kParts == 0;
      sizes.push_back(rows * share / kParts);
    }
    // Each part of each result begins where a kernel may write it.
    for (RowProduct &each : products) {
      RankedTensorType type = getType(each.getResult());
      int64_t rowBytes = prices.getByteSize(each.getResult()) /
                         std::max<int64_t>(type.getDimSize(0), 1);
      for (int64_t size : sizes)
        fits &= size > 0 && size * rowBytes % kRunAlignment == 0;
    }
    if (!fits)
      continue;
    double us = simulateChunks(sizes);
    if (us < chunkedUs) {
      chunkedUs = us;
      chunks = sizes;
    }
  }
}

//===----------------------------------------------------------------------===//
// Rewrite
//===----------------------------------------------------------------------===//

Value ChunkedGather::takeRows(OpBuilder &builder, Value value, int64_t first,
                              int64_t count) {
  RankedTensorType type = getType(value);
  // What repeats along the rows does so for fewer.
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  if (broadcast && !llvm::is_contained(broadcast.getDims(), 0)) {
    IRMapping mapping;
    Operation *fewer = builder.clone(*broadcast, mapping);
    fewer->getResult(0).setType(withRows(type, count));
    return fewer->getResult(0);
  }
  // Rows that were put together are taken as they were.
  if (auto joined = value.getDefiningOp<ConcatOp>();
      joined && joined.getAxis() == 0) {
    int64_t row = 0;
    for (Value piece : joined.getInputs()) {
      if (row == first && getType(piece).getDimSize(0) == count)
        return piece;
      row += getType(piece).getDimSize(0);
    }
  }
  SmallVector<int64_t> starts(type.getRank()), limits(type.getShape()),
      strides(type.getRank(), 1);
  starts.front() = first;
  limits.front() = first + count;
  return SliceOp::create(builder, value.getLoc(), value, starts, limits,
                         strides);
}

void ChunkedGather::rewrite() {
  OpBuilder builder(gather);
  Location loc = gather.getLoc();
  Value part = gather.getInputs().front();
  SmallVector<Value> gathered;
  int64_t first = 0;
  for (auto [number, size] : llvm::enumerate(chunks)) {
    Value taken = takeRows(builder, part, first, size);
    auto chunk = cast<AllGatherOp>(builder.clone(*gather));
    chunk.getInputsMutable().assign(taken);
    chunk.getOutputs().front().setType(
        withRows(getType(gather.getOutputs().front()), size * groupSize));
    chunk->setAttr(kChunkAttr, builder.getI64IntegerAttr(number));
    gathered.push_back(chunk.getOutputs().front());
    first += size;
  }
  SmallVector<ConcatOp> joins;
  for (RowProduct &each : products) {
    // All that the products and what follows them read is there.
    builder.setInsertionPoint(each.getLast());
    SmallVector<Value> pieces(groupSize * chunks.size());
    int64_t begin = 0;
    for (size_t number = 0; number < chunks.size(); ++number) {
      int64_t size = chunks[number];
      for (int64_t rank = 0; rank < groupSize; ++rank) {
        IRMapping mapping;
        mapping.map(each.product.getLhs(),
                    takeRows(builder, gathered[number], rank * size, size));
        auto shrink = [&](Operation *op) {
          Value result = builder.clone(*op, mapping)->getResult(0);
          result.setType(withRows(getType(result), size));
          return result;
        };
        Value value = shrink(each.product);
        for (Operation *op : each.epilogue) {
          for (Value operand : op->getOperands())
            if (!mapping.contains(operand))
              mapping.map(operand, takeRows(builder, operand,
                                            rank * rows + begin, size));
          value = shrink(op);
        }
        pieces[rank * chunks.size() + number] = value;
      }
      begin += size;
    }
    joins.push_back(
        ConcatOp::create(builder, loc, pieces, builder.getI64IntegerAttr(0)));
    each.getResult().replaceAllUsesWith(joins.back());
    for (Operation *op : llvm::reverse(each.epilogue))
      op->erase();
    each.product.erase();
  }
  for (ConcatOp join : joins)
    if (join->use_empty())
      join.erase();
  gather.erase();
}

LogicalResult ChunkGathers::decide(FunctionOpInterface function, Block &block) {
  auto func = dyn_cast<func::FuncOp>(function.getOperation());
  if (!func || block.getOps<AllGatherOp>().empty())
    return success();
  CommModel comms(model->getDevice());
  FailureOr<StepPrices> prices = StepPrices::create(func, *model, comms);
  if (failed(prices))
    return failure();
  auto options = [&](FusionRule rule) {
    return remark::RemarkOpts::name(getFusionRuleInfo(rule).id)
        .category("fusion")
        .function(func.getSymName());
  };
  for (AllGatherOp gather : llvm::to_vector(block.getOps<AllGatherOp>())) {
    if (gather->hasAttr(kChunkAttr))
      continue;
    auto refuse = [&](FusionRule rule, double us, double limit) {
      remark::missed(gather.getLoc(), options(rule))
          << remark::reason("{0}", getFusionRuleInfo(rule).text)
          << remark::metric("nanoseconds", int64_t(us * 1000))
          << remark::metric("limit", int64_t(limit * 1000));
    };
    ChunkedGather chunked(gather, *prices, model->getDevice());
    if (std::optional<FusionRule> rule = chunked.analyze()) {
      refuse(*rule, 0, 0);
      continue;
    }
    chunked.choose();
    if (double hidden = chunked.getHiddenUs(block);
        hidden >= chunked.whole.us) {
      refuse(FusionRule::ChunkHidden, hidden, chunked.whole.us);
      continue;
    }
    if (chunked.chunkedUs > chunked.wholeUs * (1 - kLeastGain)) {
      refuse(FusionRule::ChunkProfit, chunked.wholeUs - chunked.chunkedUs,
             chunked.wholeUs * kLeastGain);
      continue;
    }
    remark::passed(gather.getLoc(), options(FusionRule::ChunkGather))
        << remark::reason("{0}",
                          getFusionRuleInfo(FusionRule::ChunkGather).text)
        << remark::metric("chunks", int64_t(chunked.chunks.size()))
        << remark::metric("rows_first", chunked.chunks.front())
        << remark::metric("nanoseconds_whole", int64_t(chunked.wholeUs * 1000))
        << remark::metric("nanoseconds", int64_t(chunked.chunkedUs * 1000));
    chunked.rewrite();
  }
  return success();
}

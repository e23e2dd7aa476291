//===- ChunkGathers.cpp - Products that start before all is gathered ------===//
//
// A product of what other ranks hold waits for the gather, though each row of
// its result needs the rows of one rank only ("collective matmul": Wang et al.,
// ASPLOS 2023). Two ways to compute beside what is sent:
//
//  - own rows first: the product of this rank's rows needs no other rank. Those
//    of the others are multiplied as they arrive: by moves, one for each rank;
//    or by gathers of some rows of each rank's part, which bring own rows once
//    more, where the link carries them faster (`fusion.rank_slice`). Which rows
//    of the result a product has depends on the rank: `fusion.rank_concat`.
//  - chunks: gathers of some rows of each rank's part, one sent while another
//    is multiplied; no rank's program depends on its place.
//
// Either way a product writes one run of the result's bytes, and what puts them
// together moves nothing. The way and the sizes are those of the least time in
// a simulation of the gather and its products alone.
//
//===----------------------------------------------------------------------===//
#include "ChunkedGather.h"
#include "DecidingPass.h"
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

/// On the collectives and concats that this pass made.
static constexpr llvm::StringLiteral kChunkAttr = "fusion.chunk";

namespace {

struct ChunkGathers
    : DecidingPass<fusion::impl::ChunkGathersBase<ChunkGathers>> {
  using DecidingPass::DecidingPass;

  LogicalResult decide(FunctionOpInterface function, Block &block) override;
};

} // namespace

static RankedTensorType withRows(RankedTensorType type, int64_t rows) {
  SmallVector<int64_t> shape(type.getShape());
  shape.front() = rows;
  return type.clone(shape);
}

//===----------------------------------------------------------------------===//
// Recognition
//===----------------------------------------------------------------------===//

ChunkedGather::ChunkedGather(AllGatherOp gather, StepPrices &prices,
                             const DeviceModel &device, StringRef transport)
    : gather(gather), prices(prices), device(device) {
  bool isPeer = transport == "peer" || transport == "direct";
  if (!isPeer)
    transports.push_back(Transport::Nccl);
  if (isPeer ||
      (transport == "auto" &&
       prices.getComms().hasMeasured(getCommGroup(gather), Transport::Peer)))
    transports.push_back(Transport::Peer);
}

std::optional<FusionRule> ChunkedGather::analyze() {
  if (gather.getInputs().size() != 1 || gather.getDim() != 0)
    return FusionRule::ChunkShape;
  RankedTensorType type = getTensorType(gather.getInputs().front());
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
        getTensorType(product.getRhs()).getRank() != 2)
      return FusionRule::ChunkReader;
    products.push_back({product, {}});
  }
  if (products.empty())
    return FusionRule::ChunkReader;
  llvm::SmallPtrSet<Operation *, 8> taken;
  for (RowProduct &each : products) {
    Value value = each.product.getResult();
    if (!getTensorType(value).hasStaticShape())
      return FusionRule::ChunkShape;
    while (value.hasOneUse()) {
      Operation *user = *value.user_begin();
      if (!isa<ElementwiseOpInterface>(user) || user->getNumResults() != 1 ||
          user->getBlock() != gather->getBlock() || taken.contains(user) ||
          !llvm::all_of(user->getOperands(),
                        [&](Value operand) {
                          return getTensorType(operand).getShape() ==
                                 getTensorType(value).getShape();
                        }) ||
          getTensorType(user->getResult(0)).getShape() !=
              getTensorType(value).getShape())
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

bool ChunkedGather::hasDonatedResult() {
  auto function = gather->getParentOfType<func::FuncOp>();
  llvm::SmallDenseSet<int64_t> donated;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (auto result = function.getArgAttrOfType<IntegerAttr>(
            i, FusionDialect::kDonatedAttr))
      donated.insert(result.getInt());
  return llvm::any_of(products, [&](RowProduct &each) {
    SmallVector<Operation *> made(each.epilogue);
    made.push_back(each.product);
    return llvm::any_of(made, [&](Operation *op) {
      return llvm::any_of(op->getUses(), [&](OpOperand &use) {
        return isa<func::ReturnOp>(use.getOwner()) &&
               donated.contains(use.getOperandNumber());
      });
    });
  });
}

//===----------------------------------------------------------------------===//
// Rewrite
//===----------------------------------------------------------------------===//

Value ChunkedGather::takeRows(OpBuilder &builder, Value value, int64_t first,
                              int64_t count) {
  RankedTensorType type = getTensorType(value);
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
      if (row == first && getTensorType(piece).getDimSize(0) == count)
        return piece;
      row += getTensorType(piece).getDimSize(0);
    }
  }
  SmallVector<int64_t> starts(type.getRank()), limits(type.getShape()),
      strides(type.getRank(), 1);
  starts.front() = first;
  limits.front() = first + count;
  return SliceOp::create(builder, value.getLoc(), value, starts, limits,
                         strides);
}

/// Whether `value`, which an op behind `product` reads, has rows of its own for
/// each piece of the result: it is one of those ops' results, the same in each
/// row, or another product's result.
bool ChunkedGather::hasPieces(Value value, const RowProduct &product) {
  Operation *op = value.getDefiningOp();
  if (auto broadcast = dyn_cast_or_null<BroadcastOp>(op))
    return !llvm::is_contained(broadcast.getDims(), 0);
  if (auto constant = dyn_cast_or_null<ConstantOp>(op))
    return isa<SplatElementsAttr>(constant.getValue());
  return op &&
         (op == product.product || llvm::is_contained(product.epilogue, op) ||
          joins.contains(value));
}

ArrayRef<Operation *> ChunkedGather::getOwnEpilogue(const RowProduct &product) {
  return ArrayRef(product.epilogue).take_while([&](Operation *op) {
    return llvm::all_of(op->getOperands(), [&](Value operand) {
      return hasPieces(operand, product);
    });
  });
}

Value ChunkedGather::takePiece(OpBuilder &builder, Value value, unsigned piece,
                               int64_t count) {
  if (auto joined = value.getDefiningOp<RankConcatOp>())
    return joined.getInputs()[piece];
  if (auto constant = value.getDefiningOp<ConstantOp>()) {
    auto splat = cast<SplatElementsAttr>(constant.getValue());
    return ConstantOp::create(
        builder, value.getLoc(),
        splat.resizeSplat(withRows(getTensorType(value), count)));
  }
  return takeRows(builder, value, 0, count);
}

SmallVector<ChunkedGather::Arrival>
ChunkedGather::makeMoves(OpBuilder &builder) {
  Value part = gather.getInputs().front();
  SmallVector<Arrival> arrivals;
  SmallVector<int64_t> sources = llvm::to_vector(llvm::seq(groupSize));
  for (int64_t shift = 1; shift < groupSize; ++shift) {
    SmallVector<int64_t> targets = llvm::map_to_vector(sources, [&](int64_t i) {
      return (i + groupSize - shift) % groupSize;
    });
    SmallVector<int64_t> sizes{rows};
    if (shift == groupSize - 1)
      sizes = best.chunks;
    int64_t first = 0;
    for (int64_t size : sizes) {
      Value taken = size == rows ? part : takeRows(builder, part, first, size);
      auto move = CollectivePermuteOp::create(
          builder, gather.getLoc(), taken.getType(), taken, sources, targets,
          gather.getMesh(), gather.getAxes());
      move->setAttr(kChunkAttr, builder.getI64IntegerAttr(arrivals.size()));
      arrivals.push_back({move.getOutputs().front(), arrivals.size() + 1});
      first += size;
    }
  }
  return arrivals;
}

SmallVector<ChunkedGather::Arrival>
ChunkedGather::makeGathers(OpBuilder &builder) {
  Value part = gather.getInputs().front();
  SmallVector<Arrival> arrivals;
  size_t chunks = best.chunks.size();
  int64_t first = 0;
  for (auto [number, size] : llvm::enumerate(best.chunks)) {
    AllGatherOp chunk = gatherRows(builder, first, size, number);
    for (int64_t shift = 1; shift < groupSize; ++shift) {
      auto slice = RankSliceOp::create(
          builder, gather.getLoc(), withRows(getTensorType(part), size),
          chunk.getOutputs().front(), /*start=*/0, gather.getMesh(),
          gather.getAxes(), shift);
      arrivals.push_back({slice, 1 + (shift - 1) * chunks + number});
    }
    first += size;
  }
  return arrivals;
}

AllGatherOp ChunkedGather::gatherRows(OpBuilder &builder, int64_t first,
                                      int64_t size, int64_t number) {
  Value part = gather.getInputs().front();
  Value taken = size == rows ? part : takeRows(builder, part, first, size);
  auto chunk = cast<AllGatherOp>(builder.clone(*gather));
  chunk.getInputsMutable().assign(taken);
  chunk.getOutputs().front().setType(
      withRows(getTensorType(gather.getOutputs().front()), size * groupSize));
  chunk->setAttr(kChunkAttr, builder.getI64IntegerAttr(number));
  return chunk;
}

void ChunkedGather::rewriteOwnFirst() {
  OpBuilder builder(gather);
  Location loc = gather.getLoc();
  // Operands of the results are each rank's rows, from this rank on.
  SmallVector<Arrival> arrivals{{gather.getInputs().front(), 0}};
  llvm::append_range(arrivals, best.way == RowWay::OwnMoves
                                   ? makeMoves(builder)
                                   : makeGathers(builder));
  SmallVector<RankConcatOp> joined;
  for (RowProduct &each : products) {
    ArrayRef<Operation *> taken = getOwnEpilogue(each);
    Operation *last =
        taken.empty() ? each.product.getOperation() : taken.back();
    builder.setInsertionPoint(last);
    SmallVector<Value> pieces(arrivals.size());
    for (const Arrival &arrival : arrivals) {
      int64_t size = getTensorType(arrival.rows).getDimSize(0);
      IRMapping mapping;
      mapping.map(each.product.getLhs(), arrival.rows);
      auto shrink = [&](Operation *op) {
        Value result = builder.clone(*op, mapping)->getResult(0);
        result.setType(withRows(getTensorType(result), size));
        return result;
      };
      Value value = shrink(each.product);
      for (Operation *op : taken) {
        for (Value operand : op->getOperands())
          if (!mapping.contains(operand))
            mapping.map(operand,
                        takePiece(builder, operand, arrival.piece, size));
        value = shrink(op);
      }
      pieces[arrival.piece] = value;
    }
    auto join =
        RankConcatOp::create(builder, loc, last->getResult(0).getType(), pieces,
                             gather.getMesh(), gather.getAxes());
    join->setAttr(kChunkAttr, builder.getI64IntegerAttr(0));
    last->getResult(0).replaceAllUsesWith(join);
    for (Operation *op : llvm::reverse(taken))
      op->erase();
    each.product.erase();
    joins.insert(join);
    joined.push_back(join);
  }
  // Those whose pieces alone are read, by another product's ops.
  for (RankConcatOp join : joined)
    if (join->use_empty())
      join.erase();
  gather.erase();
}

void ChunkedGather::rewrite() {
  if (best.way == RowWay::Chunks)
    rewriteChunks();
  else
    rewriteOwnFirst();
}

void ChunkedGather::rewriteChunks() {
  ArrayRef<int64_t> chunks = best.chunks;
  OpBuilder builder(gather);
  Location loc = gather.getLoc();
  SmallVector<Value> gathered;
  int64_t first = 0;
  for (auto [number, size] : llvm::enumerate(chunks)) {
    gathered.push_back(
        gatherRows(builder, first, size, number).getOutputs().front());
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
          result.setType(withRows(getTensorType(result), size));
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
    ChunkedGather chunked(gather, *prices, model->getDevice(), transport);
    if (std::optional<FusionRule> rule = chunked.analyze()) {
      refuse(*rule, 0, 0);
      continue;
    }
    chunked.choose();
    if (double hidden = chunked.getHiddenUs(block);
        hidden >= chunked.gatherUs) {
      refuse(FusionRule::ChunkHidden, hidden, chunked.gatherUs);
      continue;
    }
    const RowPlan &plan = chunked.best;
    if (chunked.hasDonatedResult())
      refuse(FusionRule::ChunkPlace, plan.us, chunked.wholeUs);
    constexpr double kLeastGain = ChunkedGather::kLeastGain;
    if (plan.us > chunked.wholeUs * (1 - kLeastGain)) {
      refuse(FusionRule::ChunkProfit, chunked.wholeUs - plan.us,
             chunked.wholeUs * kLeastGain);
      continue;
    }
    FusionRule rule = plan.way == RowWay::Chunks ? FusionRule::ChunkGather
                                                 : FusionRule::ChunkOwn;
    remark::passed(gather.getLoc(), options(rule))
        << remark::reason("{0}", getFusionRuleInfo(rule).text)
        << remark::metric("chunks", int64_t(plan.chunks.size()))
        << remark::metric("rows_first", plan.chunks.front())
        << remark::metric("nanoseconds_whole", int64_t(chunked.wholeUs * 1000))
        << remark::metric("nanoseconds", int64_t(plan.us * 1000));
    chunked.rewrite();
  }
  return success();
}

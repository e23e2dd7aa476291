//===- ChunkGathers.cpp - Products that start before all is gathered ------===//
//
// A product of what other ranks hold waits for the gather, though each row of
// its result needs the rows of one rank only ("collective matmul": Wang et al.,
// ASPLOS 2023). Two ways to compute beside what is sent:
//
//  - own rows first: the product of this rank's rows needs no other rank. Those
//    of the others come by moves, one for each, and are multiplied as they
//    arrive. Which rows of the result a product has depends on the rank:
//    `fusion.rank_concat`.
//  - chunks: gathers of some rows of each rank's part, one sent while another
//    is multiplied; no rank's program depends on its place.
//
// Either way a product writes one run of the result's bytes, and what puts them
// together moves nothing. The way and the sizes are those of the least time in
// a simulation of the gather and its products alone.
//
//===----------------------------------------------------------------------===//
#include "DecidingPass.h"
#include "fusion/Analysis/CommSchedule.h"
#include "fusion/Analysis/FusionRules.h"
#include "fusion/Fuse/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"

#include <cmath>

#define DEBUG_TYPE "fusion-chunk-gathers"

namespace fusion {
#define GEN_PASS_DEF_CHUNKGATHERS
#include "fusion/Fuse/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

/// On the collectives and concats that this pass made.
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

/// How the rows come.
struct RowPlan {
  bool isOwnFirst = false;
  /// Rows of each rank's part that come at once; of own rows first, of the rank
  /// that comes last. Empty: as the gather brings them.
  SmallVector<int64_t> chunks;
  double us = 0;
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
                const DeviceModel &device, StringRef transport);

  /// Collects the readers; why it can't otherwise.
  std::optional<FusionRule> analyze();
  /// Microseconds of what can be computed while it is sent as it is.
  double getHiddenUs(Block &block);
  /// Whether a result takes an argument's bytes, which are read to the end.
  bool hasDonatedResult();
  /// Finds the best plan, with parts of `kParts`.
  void choose();
  void rewrite();

  static constexpr int64_t kParts = 8;
  RowPlan best;
  double wholeUs = 0, gatherUs = 0;

private:
  bool fits(ArrayRef<int64_t> shares, SmallVectorImpl<int64_t> &sizes);
  /// Keeps the plan if it is better than what was found.
  void offer(bool isOwnFirst, ArrayRef<int64_t> sizes);
  double simulateChunks(ArrayRef<int64_t> rows, Transport transport);
  double simulateOwnFirst(ArrayRef<int64_t> rows, Transport transport);
  TimedStep makeMove(CommOp op, double bytes, Transport transport);
  /// Of `part` rows of `product` for each of `ranks` ranks.
  double getProductUs(MatmulOp product, int64_t part, int64_t ranks);
  /// Whether what is sent needs multiprocessors that products hold to their
  /// end.
  bool waitsForProducts(Transport transport) const {
    return device.isGpu && transport == Transport::Nccl;
  }
  Value takeRows(OpBuilder &builder, Value value, int64_t first, int64_t rows);
  /// The rows of `value` that belong to operand `piece` of the products'
  /// results, wherever those are on this rank; null if there is no such value.
  Value takePiece(OpBuilder &builder, Value value, unsigned piece,
                  int64_t rows);
  bool hasPieces(Value value, const RowProduct &product);
  /// The ops behind the product that its rows go through where they are
  /// computed first; what reads other rows than all ranks have alike does not.
  ArrayRef<Operation *> getOwnEpilogue(const RowProduct &product);
  void rewriteChunks();
  void rewriteOwnFirst();

  AllGatherOp gather;
  StepPrices &prices;
  const DeviceModel &device;
  SmallVector<Transport> transports; ///< that may carry it
  SmallVector<RowProduct> products;
  llvm::SmallDenseSet<Value> joins; ///< results of products that were rewritten
  int64_t groupSize = 1, rows = 0;  ///< of one rank's part
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

double ChunkedGather::getProductUs(MatmulOp product, int64_t part,
                                   int64_t ranks) {
  double us = prices.getStep(product).us, gap = device.launchGapUs;
  double share =
      static_cast<double>(part * ranks) / static_cast<double>(rows * groupSize);
  if (!device.isGpu)
    return us * share + gap * static_cast<double>(ranks);
  // One call for all of these ranks' rows, whose last round of tiles leaves
  // multiprocessors idle.
  RankedTensorType type = getType(product.getResult());
  int64_t columns = type.getShape().back();
  int64_t inner = type.getNumElements() / columns / type.getDimSize(0);
  auto rounds = [&](int64_t members, int64_t count) {
    int64_t tiles = members * llvm::divideCeil(count * inner, kTileRows) *
                    llvm::divideCeil(columns, kTileColumns);
    return static_cast<double>(llvm::divideCeil(tiles, device.units));
  };
  return us * std::max(share, rounds(ranks, part) / rounds(groupSize, rows)) +
         gap;
}

TimedStep ChunkedGather::makeMove(CommOp op, double bytes,
                                  Transport transport) {
  CommCost cost =
      prices.getComms().predict(op, bytes, getCommGroup(gather), transport);
  TimedStep step;
  step.name = "move";
  step.isComm = true;
  step.stream = 2;
  step.us = cost.us;
  step.link = cost.link;
  step.slowdownOfKernels = cost.slowdownCompute;
  step.slowdownOfComm = cost.slowdownComm;
  return step;
}

double ChunkedGather::simulateChunks(ArrayRef<int64_t> sizes,
                                     Transport transport) {
  std::vector<TimedStep> steps;
  double bytes = prices.getBytes(gather);
  std::optional<unsigned> before; // the last product
  for (int64_t size : sizes) {
    unsigned move = steps.size();
    steps.push_back(
        makeMove(CommOp::AllGather, bytes * size / rows, transport));
    // It would start where the products of the chunk before it do, and those
    // hold all multiprocessors.
    if (before && waitsForProducts(transport))
      steps.back().waits.push_back(*before);
    for (RowProduct &each : products) {
      TimedStep step = prices.getStep(each.product);
      if (sizes.size() > 1)
        step.us = getProductUs(each.product, size, groupSize);
      step.waits.push_back(move);
      before = steps.size();
      steps.push_back(std::move(step));
    }
  }
  return simulate(steps, prices.getComms()).stepUs;
}

double ChunkedGather::simulateOwnFirst(ArrayRef<int64_t> sizes,
                                       Transport transport) {
  SmallVector<int64_t> moved(groupSize - 2, rows);
  llvm::append_range(moved, sizes);
  double bytes = prices.getByteSize(gather.getInputs().front());
  std::vector<TimedStep> steps;
  auto addProducts = [&](int64_t size, std::optional<unsigned> move) {
    for (RowProduct &each : products) {
      TimedStep step = prices.getStep(each.product);
      step.us = getProductUs(each.product, size, 1);
      if (move)
        step.waits.push_back(*move);
      steps.push_back(std::move(step));
    }
  };
  for (auto [number, size] : llvm::enumerate(moved)) {
    TimedStep move = makeMove(CommOp::Permute, bytes * size / rows, transport);
    if (number > 0 && waitsForProducts(transport))
      move.waits.push_back(steps.size() - 1);
    unsigned index = steps.size();
    steps.push_back(std::move(move));
    if (number == 0)
      addProducts(rows, std::nullopt);
    addProducts(size, index);
  }
  double us = simulate(steps, prices.getComms()).stepUs;
  // Results of products are known to have pieces once these are rewritten.
  for (RowProduct &each : products)
    joins.insert(each.getResult());
  // What can't go along reads and writes the whole result once more.
  for (RowProduct &each : products) {
    double left = 0;
    for (Operation *op :
         ArrayRef(each.epilogue).drop_front(getOwnEpilogue(each).size()))
      left = std::max(left, prices.getStep(op).us);
    us += left;
  }
  joins.clear();
  return us;
}

/// The sizes of `shares` of kParts, if each part of each result begins where a
/// kernel may write it.
bool ChunkedGather::fits(ArrayRef<int64_t> shares,
                         SmallVectorImpl<int64_t> &sizes) {
  for (int64_t share : shares) {
    int64_t size = rows * share / kParts;
    if (rows * share % kParts != 0 || size == 0)
      return false;
    sizes.push_back(size);
    for (RowProduct &each : products) {
      int64_t rowBytes = prices.getByteSize(each.getResult()) /
                         getType(each.getResult()).getDimSize(0);
      if (size * rowBytes % kRunAlignment != 0)
        return false;
    }
  }
  return true;
}

void ChunkedGather::offer(bool isOwnFirst, ArrayRef<int64_t> sizes) {
  for (Transport transport : transports) {
    double us = isOwnFirst ? simulateOwnFirst(sizes, transport)
                           : simulateChunks(sizes, transport);
    if (us < best.us)
      best = {isOwnFirst, SmallVector<int64_t>(sizes), us};
  }
}

void ChunkedGather::choose() {
  wholeUs = gatherUs = INFINITY;
  for (Transport transport : transports) {
    wholeUs = std::min(wholeUs, simulateChunks({rows}, transport));
    gatherUs = std::min(
        gatherUs,
        makeMove(CommOp::AllGather, prices.getBytes(gather), transport).us);
  }
  best.us = wholeUs;
  static constexpr std::initializer_list<int64_t> kShares[] = {
      {4, 4},    {2, 6},    {1, 7},       {2, 2, 4},
      {1, 3, 4}, {1, 2, 5}, {2, 2, 2, 2}, {1, 1, 1, 1, 1, 1, 1, 1}};
  for (ArrayRef<int64_t> shares : kShares)
    if (SmallVector<int64_t> sizes; fits(shares, sizes))
      offer(/*isOwnFirst=*/false, sizes);
  // The last chunk is what nothing is sent beside.
  static constexpr std::initializer_list<int64_t> kOwnShares[] = {
      {8},       {4, 4},    {6, 2},    {7, 1},      {2, 6},
      {4, 2, 2}, {4, 3, 1}, {5, 2, 1}, {2, 2, 2, 2}};
  if (!hasDonatedResult())
    for (ArrayRef<int64_t> shares : kOwnShares)
      if (SmallVector<int64_t> sizes; fits(shares, sizes))
        offer(/*isOwnFirst=*/true, sizes);
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
        splat.resizeSplat(withRows(getType(value), count)));
  }
  return takeRows(builder, value, 0, count);
}

void ChunkedGather::rewriteOwnFirst() {
  OpBuilder builder(gather);
  Location loc = gather.getLoc();
  Value part = gather.getInputs().front();
  // From this rank on, each rank's rows in the order in which they come.
  SmallVector<Value> parts{part};
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
          builder, loc, taken.getType(), taken, sources, targets,
          gather.getMesh(), gather.getAxes());
      move->setAttr(kChunkAttr, builder.getI64IntegerAttr(parts.size() - 1));
      parts.push_back(move.getOutputs().front());
      first += size;
    }
  }
  SmallVector<RankConcatOp> joined;
  for (RowProduct &each : products) {
    ArrayRef<Operation *> taken = getOwnEpilogue(each);
    Operation *last =
        taken.empty() ? each.product.getOperation() : taken.back();
    builder.setInsertionPoint(last);
    SmallVector<Value> pieces;
    for (auto [number, rowsOfPart] : llvm::enumerate(parts)) {
      int64_t size = getType(rowsOfPart).getDimSize(0);
      IRMapping mapping;
      mapping.map(each.product.getLhs(), rowsOfPart);
      auto shrink = [&](Operation *op) {
        Value result = builder.clone(*op, mapping)->getResult(0);
        result.setType(withRows(getType(result), size));
        return result;
      };
      Value value = shrink(each.product);
      for (Operation *op : taken) {
        for (Value operand : op->getOperands())
          if (!mapping.contains(operand))
            mapping.map(operand, takePiece(builder, operand, number, size));
        value = shrink(op);
      }
      pieces.push_back(value);
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
  if (best.isOwnFirst)
    rewriteOwnFirst();
  else
    rewriteChunks();
}

void ChunkedGather::rewriteChunks() {
  ArrayRef<int64_t> chunks = best.chunks;
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
    if (plan.us > chunked.wholeUs * (1 - kLeastGain)) {
      refuse(FusionRule::ChunkProfit, chunked.wholeUs - plan.us,
             chunked.wholeUs * kLeastGain);
      continue;
    }
    FusionRule rule =
        plan.isOwnFirst ? FusionRule::ChunkOwn : FusionRule::ChunkGather;
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

//===- CudaRowReduce.cpp - Rows with trailing reductions on a GPU ---------===//
//
// A row is dealt in vectors to a group of threads: a part of a warp, a warp, or
// all warps of a block, by the row's length alone, so that the order of a sum
// is the op's. A thread holds its vectors of the row in registers: what one
// reduction read, the next one and the stores have at hand, and the row is read
// once. A row that is too long for that is gone over in a loop for each
// reduction, and once more to store. Between the two are long rows of which a
// thread holds one value of each element but not several: they add up in the
// loop's order either way, and how much is held is the kernel's affair.
//
//===----------------------------------------------------------------------===//
#include "BlockBuilder.h"

#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

/// Elements of a row that a thread holds.
static constexpr int64_t kHeld = 32;
static constexpr int64_t kThreads = 128;
/// A block's threads at most: more would have fewer registers each than
/// one can name.
static constexpr int64_t kRowThreads = 256;
/// Elements of a row that all of them hold, if that fits their registers.
static constexpr int64_t kHeldByAll = 128;
/// Registers for positions, pointers and what is being computed.
static constexpr int64_t kWorkRegisters = 48;

namespace {

/// How a row is dealt.
struct RowPlan {
  int64_t lanes = 1;   ///< elements of a vector
  int64_t group = 1;   ///< threads of a row, a power of two
  int64_t vectors = 0; ///< of a thread, held; 0: in a loop
  int64_t threads = kThreads;
  bool inOrder = false; ///< a thread adds its vectors up one after another

  int64_t rows() const { return threads / group; }
};

class RowBuilder {
public:
  RowBuilder(KernelTask &task, const RowSpace &rows, Extent length,
             ArrayRef<Size> rowSizes);

  void build(ArrayRef<Size> keptSizes, Extent units);

  RowPlan plan;

private:
  struct Chunk {
    Index position;
    Value valid; ///< i1, or null: always
  };
  Chunk makeChunk(Value number, bool mayEnd);
  Value reduce(ReduceOp op, ArrayRef<Index> at, Type accumulator);
  Value sumOfOne(ReduceOp op, Type accumulator);
  Value combineThreads(ReduceKind kind, Value value);
  void storeElements(ArrayRef<std::pair<Value, unsigned>> stores);
  Coordinates coordinatesOf(const Index &position);

  KernelTask &task;
  KernelBuilder &k;
  BodyEvaluator &evaluator;
  const RowSpace &rows;
  Extent length;
  SmallVector<Size> rowSizes;
  Value member, rowInBlock; ///< thread of the group, its row in the block
  Value isRow;              ///< whether there is that row; null: always
  Value numVectors;         ///< of the row
  Coordinates kept;
  SmallVector<Chunk> chunks;
};

} // namespace

/// Registers for one element of every value that a thread must keep from one
/// walk over the row to a later one, at the walk where they are most. Each
/// reduction is a walk, and so are the stores.
static int64_t countKept(KernelTask &task, const RowSpace &rows) {
  Block *body = task.group.getBodyBlock();
  auto hasElements = [&](Value value) {
    Operation *op = value.getDefiningOp();
    if (cast<RankedTensorType>(value.getType()).getShape() !=
            ArrayRef<int64_t>(rows.shape) ||
        isa_and_nonnull<ConstantOp>(op))
      return false;
    // A number of the row's for all its elements.
    if (auto broadcast = dyn_cast_or_null<BroadcastOp>(op))
      return llvm::any_of(llvm::enumerate(broadcast.getDims()), [&](auto dim) {
        return rows.isReduced(dim.value()) &&
               cast<RankedTensorType>(broadcast.getInput().getType())
                       .getDimSize(dim.index()) != 1;
      });
    return true;
  };
  struct Span {
    int64_t first, last;
  };
  llvm::MapVector<Value, Span> spans;
  int64_t walk = 0;
  auto go = [&](SmallVector<Value> worklist) {
    while (!worklist.empty()) {
      Value value = worklist.pop_back_val();
      if (!hasElements(value))
        continue;
      auto [found, isNew] = spans.insert({value, {walk, walk}});
      found->second.last = walk;
      Operation *op = value.getDefiningOp();
      if (isNew && isa_and_nonnull<ElementwiseOpInterface>(op))
        llvm::append_range(worklist, op->getOperands());
    }
    ++walk;
  };
  for (auto reduce : body->getOps<ReduceOp>())
    go({reduce.getInput()});
  SmallVector<Value> stored;
  for (auto &store : task.stores)
    stored.push_back(store.first);
  go(stored);
  // What is kept from walk w to the next one.
  SmallVector<int64_t> change(walk + 1);
  for (auto &[value, span] : spans) {
    Type type = task.k.computeType(value.getType());
    int64_t words = llvm::divideCeil(type.getIntOrFloatBitWidth(), 32);
    change[span.first] += words;
    change[span.last] -= words;
  }
  int64_t kept = 0, most = 0;
  for (int64_t each : change)
    most = std::max(most, kept += each);
  return most;
}

/// `widest`: elements of an access at most; `kept`: registers of each element
/// that is held. The order of a strict sum may depend on the row's length
/// alone.
static RowPlan planRow(Extent length, int64_t widest, int64_t kept) {
  RowPlan plan;
  plan.lanes = findPowerOfTwo(length, widest);
  if (!length.isStatic()) {
    plan.group = plan.threads = 256;
    return plan;
  }
  int64_t vectors = std::max<int64_t>(length.base / plan.lanes, 1);
  int64_t each = kHeld / plan.lanes;
  // Short rows: one vector a thread, so that a warp has several rows.
  plan.group =
      vectors <= kWarp
          ? llvm::PowerOf2Ceil(vectors)
          : std::max<int64_t>(
                kWarp, llvm::PowerOf2Ceil(llvm::divideCeil(vectors, each)));
  plan.inOrder = plan.group >= kRowThreads;
  plan.group = std::min(plan.group, kRowThreads);
  int64_t held = llvm::divideCeil(vectors, plan.group);
  if (length.base > 0 &&
      (!plan.inOrder ||
       (held * plan.lanes <= kHeldByAll &&
        held * plan.lanes * kept + kWorkRegisters <= kRegisters / kRowThreads)))
    plan.vectors = held;
  plan.threads = std::max(kThreads, plan.group);
  return plan;
}

RowBuilder::RowBuilder(KernelTask &task, const RowSpace &rows, Extent length,
                       ArrayRef<Size> rowSizes)
    : plan(planRow(length, task.k.isFast ? findWidestAccess(task) : 8,
                   countKept(task, rows))),
      task(task), k(task.k), evaluator(task.evaluator), rows(rows),
      length(length), rowSizes(rowSizes) {}

Coordinates RowBuilder::coordinatesOf(const Index &position) {
  Coordinates row = k.delinearize(position, rowSizes), at;
  size_t nextKept = 0, nextRow = 0;
  for (size_t d = 0; d < rows.shape.size(); ++d)
    at.push_back(rows.isReduced(d) ? row[nextRow++] : kept[nextKept++]);
  return at;
}

/// The vector of number `number`; one beyond the end is the last one again.
RowBuilder::Chunk RowBuilder::makeChunk(Value number, bool mayEnd) {
  Chunk chunk;
  if (mayEnd) {
    chunk.valid =
        k.op<arith::CmpIOp>(arith::CmpIPredicate::ult, number, numVectors);
    number = k.op<arith::MinUIOp>(
        number, k.op<arith::SubIOp>(numVectors, k.constantI64(1)));
  }
  chunk.position =
      Index::of(k.materialize(k.mul(Index::of(number), Size::of(plan.lanes))),
                plan.lanes > 1 ? 1 : 0);
  return chunk;
}

/// The value of all threads of the group, to each of them.
Value RowBuilder::combineThreads(ReduceKind kind, Value value) {
  int64_t inWarp = std::min(plan.group, kWarp);
  for (int64_t distance = inWarp / 2; distance >= 1; distance /= 2)
    value =
        combineReduction(k, kind, value, buildShuffleXor(k, value, distance));
  if (plan.group <= kWarp)
    return value;
  // One slot a warp; the warps of a row follow each other.
  Type element = value.getType();
  int64_t warps = plan.group / kWarp;
  Value array = buildSharedArray(k, element, plan.threads / kWarp);
  Index warp = k.divide(Index::of(k.thread), Size::of(kWarp));
  Index lane = k.remainder(Index::of(k.thread), Size::of(kWarp));
  buildIf(task, k.compare(arith::CmpIPredicate::eq, lane, Index::of(0)),
          [&] { storeShared(k, value, array, warp); });
  buildBarrier(k, plan.threads);
  Index first = k.mul(Index::of(rowInBlock), Size::of(warps));
  SmallVector<Value> parts;
  for (int64_t i = 0; i < warps; ++i)
    parts.push_back(loadShared(k, element, array, k.add(first, i)));
  while (parts.size() > 1) {
    size_t half = parts.size() / 2;
    for (size_t i = 0; i < half; ++i)
      parts[i] = combineReduction(k, kind, parts[i], parts[i + half]);
    parts.resize(half);
  }
  return parts.front();
}

/// A sum over a row of which all elements but the one of a given number are
/// zero, as a loss takes of its label: that element, read where it is. Null for
/// any other sum.
Value RowBuilder::sumOfOne(ReduceOp op, Type accumulator) {
  auto select = op.getInput().getDefiningOp<SelectOp>();
  auto compare =
      select ? select.getCondition().getDefiningOp<CompareOp>() : CompareOp();
  if (op.getKind() != ReduceKind::Sum || rows.dims.size() != 1 ||
      length == Extent{0, 0} || !compare ||
      compare.getKind() != CompareKind::Eq ||
      !(matchPattern(select.getOnFalse(), m_PosZeroFloat()) ||
        matchPattern(select.getOnFalse(), m_Zero())))
    return Value();
  Value numbers = compare.getLhs(), wanted = compare.getRhs();
  if (!numbers.getDefiningOp<IotaOp>())
    std::swap(numbers, wanted);
  auto iota = numbers.getDefiningOp<IotaOp>();
  auto repeated = wanted.getDefiningOp<BroadcastOp>();
  int64_t dim = rows.dims.front();
  if (!iota || !repeated || static_cast<int64_t>(iota.getAxis()) != dim ||
      llvm::is_contained(repeated.getDims(), dim) ||
      !isa<IntegerType>(getElementTypeOrSelf(wanted.getType())) ||
      // Narrower numbers repeat along a long row.
      getElementTypeOrSelf(wanted.getType()).getIntOrFloatBitWidth() < 32)
    return Value();
  k.lanes = 1;
  Value number = evaluator.evaluate(wanted, coordinatesOf(Index::of(0)));
  if (!number.getType().isInteger(64))
    number = k.op<arith::ExtSIOp>(k.b.getI64Type(), number);
  Value inside = k.compare(arith::CmpIPredicate::ult, Index::of(number),
                           k.fromSize(k.size(length)));
  Value there = k.select(inside, number, k.constantI64(0));
  Value value = toAccumulator(
      k,
      evaluator.evaluate(select.getOnTrue(), coordinatesOf(Index::of(there))),
      accumulator);
  Value zero = reductionIdentity(k, ReduceKind::Sum, accumulator);
  // Its bytes may be an output's, which other threads store once they know the
  // row's values.
  buildBarrier(k, plan.threads);
  return combineReduction(k, ReduceKind::Sum, zero,
                          k.select(inside, value, zero));
}

Value RowBuilder::reduce(ReduceOp op, ArrayRef<Index> at, Type accumulator) {
  auto shape = cast<RankedTensorType>(op.getInput().getType()).getShape();
  // Of another row than this group's: each thread on its own.
  if (ArrayRef<int64_t>(rows.shape) != shape || ArrayRef<Index>(kept) != at)
    return Value();
  if (Value sum = sumOfOne(op, accumulator))
    return sum;
  k.lanes = plan.lanes;
  Value identity = k.splatIf(reductionIdentity(k, op.getKind(), accumulator),
                             plan.lanes > 1);
  auto valueAt = [&](const Chunk &chunk) {
    Value value =
        evaluator.evaluate(op.getInput(), coordinatesOf(chunk.position));
    value = toAccumulator(k, k.splatIf(value, plan.lanes > 1), accumulator);
    return chunk.valid ? k.select(chunk.valid, value, identity) : value;
  };
  Value sum;
  if (plan.vectors > 0 && plan.inOrder) {
    sum = identity;
    for (const Chunk &chunk : chunks)
      sum = combineReduction(k, op.getKind(), sum, valueAt(chunk));
  } else if (plan.vectors > 0) {
    // A tree: equal elements have their exact sum where their number allows.
    SmallVector<Value> parts;
    for (const Chunk &chunk : chunks)
      parts.push_back(valueAt(chunk));
    while (parts.size() > 1) {
      size_t half = (parts.size() + 1) / 2;
      for (size_t i = 0; i + half < parts.size(); ++i)
        parts[i] = combineReduction(k, op.getKind(), parts[i], parts[i + half]);
      parts.resize(half);
    }
    sum = parts.front();
  } else {
    sum =
        k.loop(member, numVectors, plan.group, identity,
               [&](Value number, ValueRange carried) -> SmallVector<Value> {
                 BodyEvaluator::Scope scope(evaluator);
                 Value value = valueAt(makeChunk(number, false));
                 return {combineReduction(k, op.getKind(), carried[0], value)};
               })[0];
  }
  sum = combineThreads(op.getKind(), combineLanes(k, op.getKind(), sum));
  k.lanes = 1;
  return sum;
}

void RowBuilder::storeElements(ArrayRef<std::pair<Value, unsigned>> stores) {
  k.lanes = plan.lanes;
  auto storeChunk = [&](const Chunk &chunk) {
    Coordinates at = coordinatesOf(chunk.position);
    SmallVector<Value> values;
    SmallVector<Index> positions;
    for (auto &[value, operand] : stores) {
      auto shape = cast<RankedTensorType>(value.getType()).getShape();
      Coordinates where = *matchUnitDims(rows.shape, at, shape);
      values.push_back(evaluator.evaluate(value, where));
      positions.push_back(k.linearize(where, k.shape(value)));
    }
    buildIf(task, k.logicalAnd(isRow, chunk.valid), [&] {
      for (auto [value, store, position] : llvm::zip(values, stores, positions))
        k.store(value, store.second,
                getElementTypeOrSelf(store.first.getType()), position);
    });
  };
  if (plan.vectors > 0) {
    for (const Chunk &chunk : chunks)
      storeChunk(chunk);
  } else {
    k.loop(member, numVectors, plan.group, {},
           [&](Value number, ValueRange) -> SmallVector<Value> {
             BodyEvaluator::Scope scope(evaluator);
             storeChunk(makeChunk(number, false));
             return {};
           });
  }
  k.lanes = 1;
}

void RowBuilder::build(ArrayRef<Size> keptSizes, Extent units) {
  SmallVector<int64_t> keptShape = rows.keptShape();
  // This thread's row, the last one again beyond the end.
  Index inBlock = k.divide(Index::of(k.thread), Size::of(plan.group));
  rowInBlock = k.materialize(inBlock);
  member =
      k.materialize(k.remainder(Index::of(k.thread), Size::of(plan.group)));
  Value row = k.materialize(
      k.add(k.mul(Index::of(k.block), Size::of(plan.rows())), inBlock));
  Value count = k.value(k.size(units));
  if (findPowerOfTwo(units, plan.rows()) != plan.rows()) {
    isRow = k.op<arith::CmpIOp>(arith::CmpIPredicate::ult, row, count);
    row =
        k.op<arith::MinUIOp>(row, k.op<arith::SubIOp>(count, k.constantI64(1)));
  }
  kept = k.delinearize(Index::of(row), keptSizes);
  for (size_t d = 0; d < kept.size(); ++d)
    if (keptShape[d] == 1)
      kept[d] = Index::of(0);
  numVectors = k.value(
      k.size(Extent{length.scale / plan.lanes, length.base / plan.lanes}));
  for (int64_t i = 0; i < plan.vectors; ++i) {
    Value number =
        i == 0 ? member
               : k.op<arith::AddIOp>(member, k.constantI64(i * plan.group));
    bool mayEnd = (i + 1) * plan.group * plan.lanes > length.base;
    chunks.push_back(makeChunk(number, mayEnd));
  }

  evaluator.reduceTogether = [this](ReduceOp op, ArrayRef<Index> at,
                                    Type accumulator) {
    return reduce(op, at, accumulator);
  };
  k.lanes = 1;
  DenseSet<Value> dependent = findReductionDependent(task.group.getBodyBlock());
  evaluateRowValues(task, rows, kept, dependent,
                    task.group.getBodyBlock()->getTerminator());
  SmallVector<std::pair<Value, unsigned>> elements, single;
  for (auto &store : task.stores) {
    auto shape = cast<RankedTensorType>(store.first.getType()).getShape();
    Coordinates dummy(rows.shape.size());
    (matchUnitDims(rows.shape, dummy, shape) ? elements : single)
        .push_back(store);
  }
  SmallVector<Value> singleValues;
  SmallVector<Coordinates> singleAt;
  for (auto &[value, operand] : single) {
    auto shape = cast<RankedTensorType>(value.getType()).getShape();
    singleAt.push_back(*matchUnitDims(keptShape, kept, shape));
    singleValues.push_back(evaluator.evaluate(value, singleAt.back()));
  }
  // Before the first store all threads have read what they read.
  if (!elements.empty())
    storeElements(elements);
  if (single.empty())
    return;
  Value isFirst =
      k.compare(arith::CmpIPredicate::eq, Index::of(member), Index::of(0));
  buildIf(task, k.logicalAnd(isRow, isFirst), [&] {
    for (auto [value, store, where] : llvm::zip(singleValues, single, singleAt))
      k.store(value, store.second, getElementTypeOrSelf(store.first.getType()),
              k.linearize(where, k.shape(store.first)));
  });
}

std::optional<KernelShape> codegen::emitCudaRowReduce(KernelTask &task,
                                                      const RowSpace &rows,
                                                      std::string &reason) {
  KernelBuilder &k = task.k;
  SmallVector<Size> keptSizes, rowSizes;
  Extent units{0, 1}, length{0, 1};
  for (size_t d = 0; d < rows.shape.size(); ++d) {
    Extent extent = k.extents.getExtent(rows.representative, d);
    Extent &total = rows.isReduced(d) ? length : units;
    std::optional<Extent> product = multiply(total, extent);
    if (!product) {
      reason = "the number of rows or their length is not affine in the batch";
      return std::nullopt;
    }
    total = *product;
    (rows.isReduced(d) ? rowSizes : keptSizes).push_back(k.size(extent));
  }
  RowBuilder builder(task, rows, length, rowSizes);
  builder.build(keptSizes, units);
  return KernelShape{units, builder.plan.rows(), builder.plan.threads};
}

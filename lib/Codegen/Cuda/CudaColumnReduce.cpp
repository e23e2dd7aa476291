//===- CudaColumnReduce.cpp - The other reductions on a GPU ---------------===//
//
// Reductions over leading or middle dimensions. Neighbouring threads have
// neighbouring vectors of columns; the elements of a column are dealt in turn
// to a number of threads that depends on the column's length alone, whose sums
// a tree in shared memory combines. Outputs of the full shape are computed by a
// second walk over the same elements.
//
//===----------------------------------------------------------------------===//
#include "BlockBuilder.h"
#include "LowerCudaKernels.h"

#include "llvm/Support/MathExtras.h"

#include <deque>

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

static constexpr int64_t kThreads = 256;
/// Loads that a thread has under way: with fewer, memory idles.
static constexpr int64_t kLoadsUnderWay = 8;
/// Threads of a column at most, and elements that each should have: what it
/// reads at once. With fewer there is more to add in shared memory than to
/// read.
static constexpr int64_t kMaxParts = 32, kElementsOfPart = kLoadsUnderWay;
/// Blocks that a multiprocessor should hold: the registers for those loads,
/// which the assembler would save otherwise, to hold more blocks than there
/// are.
static constexpr int64_t kResidentBlocks = 2;

namespace {

class ColumnBuilder {
public:
  ColumnBuilder(KernelTask &task, const RowSpace &rows, Extent length,
                ArrayRef<Size> reducedSizes)
      : task(task), k(task.k), evaluator(task.evaluator), rows(rows),
        reducedSizes(reducedSizes), extent(length),
        length(k.value(k.size(length))) {
    while (parts < kMaxParts &&
           (!length.isStatic() || parts * kElementsOfPart < length.base))
      parts *= 2;
  }

  void build(VectorWalk &walk, Extent columns);

  int64_t parts = 1; ///< threads of a column

private:
  int64_t countTogether();
  SmallVector<Value> forEachElement(
      ValueRange carried,
      function_ref<SmallVector<Value>(const Coordinates &)> evaluate,
      function_ref<SmallVector<Value>(ArrayRef<Value>, ValueRange)> use);
  Value reduce(ReduceOp op, ArrayRef<Index> at, Type accumulator);
  Value sharedFor(Type accumulator, int64_t count);
  void storeColumns(ArrayRef<std::pair<Value, unsigned>> elements,
                    ArrayRef<std::pair<Value, unsigned>> single);

  KernelTask &task;
  KernelBuilder &k;
  BodyEvaluator &evaluator;
  const RowSpace &rows;
  SmallVector<Size> reducedSizes;
  Extent extent;
  Value length;       ///< of a column
  Value part, column; ///< of the thread: which part of which column vector
  Value isColumn;     ///< whether there is that column
  Coordinates kept;
  Value shared; ///< array of all reductions, one after the other
  int64_t sharedBytes = 0;
};

} // namespace

/// Elements of a column whose operands are read before the first is used.
int64_t ColumnBuilder::countTogether() {
  int64_t operands = 0;
  for (Value input : task.group.getInputs())
    operands += cast<RankedTensorType>(input.getType()).getRank() ==
                static_cast<int64_t>(rows.shape.size());
  int64_t together =
      kLoadsUnderWay / std::clamp<int64_t>(operands, 1, kLoadsUnderWay);
  if (extent.isStatic())
    together = std::min(together, extent.base / parts);
  return llvm::bit_floor(static_cast<uint64_t>(std::max<int64_t>(together, 1)));
}

/// Evaluates this thread's elements of its column, some at a time, and hands
/// each to `use` in order, with what is carried; gives what is carried last.
SmallVector<Value> ColumnBuilder::forEachElement(
    ValueRange carried,
    function_ref<SmallVector<Value>(const Coordinates &)> evaluate,
    function_ref<SmallVector<Value>(ArrayRef<Value>, ValueRange)> use) {
  auto visit = [&](Value first, int64_t count, ValueRange before) {
    BodyEvaluator::Scope scope(evaluator);
    SmallVector<SmallVector<Value>> values;
    for (int64_t i = 0; i < count; ++i)
      values.push_back(evaluate(
          k.delinearize(k.add(Index::of(first), i * parts), reducedSizes)));
    SmallVector<Value> after(before);
    for (ArrayRef<Value> element : values)
      after = use(element, after);
    return after;
  };
  int64_t together = countTogether(), step = together * parts;
  SmallVector<Value> state(carried);
  Value next = part;
  if (together > 1) {
    state.push_back(part);
    Value end =
        k.op<arith::SubIOp>(length, k.constantI64((together - 1) * parts));
    state = k.loop(
        part, end, step, state,
        [&](Value first, ValueRange before) -> SmallVector<Value> {
          SmallVector<Value> after = visit(first, together, before.drop_back());
          after.push_back(k.op<arith::AddIOp>(first, k.constantI64(step)));
          return after;
        });
    next = state.pop_back_val();
    if (extent.isStatic() && extent.base % step == 0)
      return state;
  }
  return k.loop(next, length, parts, state,
                [&](Value number, ValueRange before) {
                  return visit(number, 1, before);
                });
}

/// An array for one reduction, in the bytes of those before: a group may have
/// more reductions than a block has memory.
Value ColumnBuilder::sharedFor(Type accumulator, int64_t count) {
  int64_t bytes =
      count * llvm::divideCeil(accumulator.getIntOrFloatBitWidth(), 8);
  if (!shared) {
    sharedBytes = bytes;
    return shared = buildSharedArray(k, accumulator, count);
  }
  // The last one's results have been read.
  buildBarrier(k, kThreads);
  if (bytes > sharedBytes) {
    auto address = shared.getDefiningOp<LLVM::AddressOfOp>();
    auto array =
        k.function->getParentOfType<ModuleOp>().lookupSymbol<LLVM::GlobalOp>(
            address.getGlobalNameAttr());
    array.setGlobalType(LLVM::LLVMArrayType::get(k.b.getI8Type(), bytes));
    sharedBytes = bytes;
  }
  return shared;
}

Value ColumnBuilder::reduce(ReduceOp op, ArrayRef<Index> at, Type accumulator) {
  auto shape = cast<RankedTensorType>(op.getInput().getType()).getShape();
  if (ArrayRef<int64_t>(rows.shape) != shape || ArrayRef<Index>(kept) != at)
    return Value();
  ReduceKind kind = op.getKind();
  bool wide = !isUniform(at);
  Value identity = k.splatIf(reductionIdentity(k, kind, accumulator), wide);
  Value sum = forEachElement(
      identity,
      [&](const Coordinates &reduced) -> SmallVector<Value> {
        Value value = evaluator.evaluate(op.getInput(),
                                         operandCoordinates(op, at, reduced));
        return {toAccumulator(k, k.splatIf(value, wide), accumulator)};
      },
      [&](ArrayRef<Value> element, ValueRange carried) -> SmallVector<Value> {
        return {combineReduction(k, kind, carried[0], element[0])};
      })[0];
  if (parts == 1)
    return sum;
  // slot [part][column][lane]
  int64_t columns = kThreads / parts, lanes = wide ? k.lanes : 1;
  Value array = sharedFor(accumulator, kThreads * lanes);
  auto slot = [&](const Index &ofPart, int64_t lane) {
    Index at = k.add(k.mul(ofPart, Size::of(columns)), Index::of(column));
    return k.add(k.mul(at, Size::of(lanes)), lane);
  };
  auto laneOf = [&](Value value, int64_t lane) {
    return wide ? k.extract(value, k.constantI64(lane)) : value;
  };
  for (int64_t lane = 0; lane < lanes; ++lane)
    storeShared(k, laneOf(sum, lane), array, slot(Index::of(part), lane));
  for (int64_t half = parts / 2; half >= 1; half /= 2) {
    buildBarrier(k, kThreads);
    buildIf(
        task,
        k.compare(arith::CmpIPredicate::ult, Index::of(part), Index::of(half)),
        [&] {
          for (int64_t lane = 0; lane < lanes; ++lane) {
            Index mine = slot(Index::of(part), lane);
            Index other = slot(k.add(Index::of(part), half), lane);
            Value next = combineReduction(
                k, kind, loadShared(k, accumulator, array, mine),
                loadShared(k, accumulator, array, other));
            storeShared(k, next, array, mine);
          }
        });
  }
  buildBarrier(k, kThreads);
  Value result;
  for (int64_t lane = 0; lane < lanes; ++lane) {
    Value value = loadShared(k, accumulator, array, slot(Index::of(0), lane));
    if (!wide)
      return value;
    if (!result)
      result = k.op<LLVM::PoisonOp>(k.vectorOf(accumulator));
    result = k.insert(result, value, k.constantI64(lane));
  }
  return result;
}

void ColumnBuilder::storeColumns(ArrayRef<std::pair<Value, unsigned>> elements,
                                 ArrayRef<std::pair<Value, unsigned>> single) {
  SmallVector<int64_t> keptShape = rows.keptShape();
  std::deque<Index> positions; // of what is evaluated and not yet stored
  auto evaluate = [&](ArrayRef<std::pair<Value, unsigned>> stores,
                      ArrayRef<int64_t> from, ArrayRef<Index> at) {
    SmallVector<Value> values;
    for (auto &[value, operand] : stores) {
      auto shape = cast<RankedTensorType>(value.getType()).getShape();
      Coordinates where = *matchUnitDims(from, at, shape);
      values.push_back(evaluator.evaluate(value, where));
      positions.push_back(k.linearize(where, k.shape(value)));
    }
    return values;
  };
  auto store = [&](ArrayRef<std::pair<Value, unsigned>> stores,
                   ArrayRef<Value> values) {
    for (auto [target, value] : llvm::zip(stores, values)) {
      k.store(value, target.second,
              getElementTypeOrSelf(target.first.getType()), positions.front());
      positions.pop_front();
    }
  };
  buildIf(task, isColumn, [&] {
    if (!elements.empty())
      forEachElement(
          {},
          [&](const Coordinates &reduced) {
            Coordinates at;
            size_t nextKept = 0, nextReduced = 0;
            for (size_t d = 0; d < rows.shape.size(); ++d)
              at.push_back(rows.isReduced(d) ? reduced[nextReduced++]
                                             : kept[nextKept++]);
            return evaluate(elements, rows.shape, at);
          },
          [&](ArrayRef<Value> values, ValueRange) -> SmallVector<Value> {
            store(elements, values);
            return {};
          });
    if (!single.empty())
      buildIf(
          task,
          k.compare(arith::CmpIPredicate::eq, Index::of(part), Index::of(0)),
          [&] { store(single, evaluate(single, keptShape, kept)); });
  });
}

void ColumnBuilder::build(VectorWalk &walk, Extent columns) {
  SmallVector<int64_t> keptShape = rows.keptShape();
  int64_t perBlock = kThreads / parts;
  column = k.materialize(k.remainder(Index::of(k.thread), Size::of(perBlock)));
  part = k.materialize(k.divide(Index::of(k.thread), Size::of(perBlock)));
  Value vector = k.materialize(
      k.add(k.mul(Index::of(k.block), Size::of(perBlock)), Index::of(column)));
  Value count = k.value(
      k.size(Extent{columns.scale / walk.lanes, columns.base / walk.lanes}));
  isColumn = k.op<arith::CmpIOp>(arith::CmpIPredicate::ult, vector, count);
  vector = k.op<arith::MinUIOp>(vector,
                                k.op<arith::SubIOp>(count, k.constantI64(1)));
  walk.visit(task, vector, false, [&](ArrayRef<Index> at) {
    kept.assign(at.begin(), at.end());
    for (size_t d = 0; d < kept.size(); ++d)
      if (keptShape[d] == 1)
        kept[d] = Index::of(0);
    evaluator.reduceTogether = [this](ReduceOp op, ArrayRef<Index> where,
                                      Type accumulator) {
      return reduce(op, where, accumulator);
    };
    Block *body = task.group.getBodyBlock();
    DenseSet<Value> dependent = findReductionDependent(body);
    for (Operation &op : *body) {
      if (op.getNumResults() == 0 || !dependent.contains(op.getResult(0)))
        continue;
      Value value = op.getResult(0);
      auto shape = cast<RankedTensorType>(value.getType()).getShape();
      if (auto where = matchUnitDims(keptShape, kept, shape))
        evaluator.evaluate(value, *where);
    }
    SmallVector<std::pair<Value, unsigned>> elements, single;
    for (auto &store : task.stores) {
      auto shape = cast<RankedTensorType>(store.first.getType()).getShape();
      Coordinates dummy(keptShape.size());
      (matchUnitDims(keptShape, dummy, shape) ? single : elements)
          .push_back(store);
    }
    storeColumns(elements, single);
  });
}

std::optional<KernelShape> codegen::emitCudaColumnReduce(KernelTask &task,
                                                         const RowSpace &rows,
                                                         std::string &reason) {
  KernelBuilder &k = task.k;
  SmallVector<Extent> keptExtents;
  SmallVector<Size> reducedSizes;
  SmallVector<bool> mergeable;
  Extent length{0, 1};
  bool reducedBetween = false;
  for (size_t d = 0; d < rows.shape.size(); ++d) {
    Extent extent = k.extents.getExtent(rows.representative, d);
    if (rows.isReduced(d)) {
      reducedSizes.push_back(k.size(extent));
      reducedBetween |= extent != Extent{0, 1};
      std::optional<Extent> product = multiply(length, extent);
      if (!product) {
        reason = "the length of a column is not affine in the batch";
        return std::nullopt;
      }
      length = *product;
      continue;
    }
    if (!keptExtents.empty())
      mergeable.push_back(!reducedBetween);
    reducedBetween = false;
    keptExtents.push_back(extent);
  }
  WalkPlan plan = planWalk(keptExtents, mergeable, true);
  if (plan.lastUnit != plan.firstInner) {
    reason = "the number of columns is not affine in the batch";
    return std::nullopt;
  }
  int64_t lanes = findPowerOfTwo(plan.inner, findWidestAccess(task));
  VectorWalk walk(k, keptExtents, plan, lanes);
  std::optional<Extent> columns = walk.elements();
  if (!columns) {
    reason = "the number of columns is not affine in the batch";
    return std::nullopt;
  }
  ColumnBuilder builder(task, rows, length, reducedSizes);
  builder.build(walk, *columns);
  k.function->setAttr(kResidentBlocksAttr,
                      k.b.getI64IntegerAttr(kResidentBlocks));
  return KernelShape{*columns, kThreads / builder.parts * lanes, kThreads};
}

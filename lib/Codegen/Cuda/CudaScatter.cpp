//===- CudaScatter.cpp - Scatters on a GPU --------------------------------===//
//
// A block owns rows of the output (slices, as the updates cover them) or a part
// of one. Its threads look through all indices for those that name its rows,
// note their numbers in shared memory and sort them, by row and then by number.
// Then a thread a vector of elements: the input, combined with that row's
// updates in their order. No element is written by two threads and the order is
// the op's own, so the result does not depend on who comes first; and the
// indices are few next to the output, so that it matters little that every
// block reads them.
//
// Indices beyond those that fit shared memory are taken in further rounds,
// which go on from what is in the output. That is too narrow for it where the
// result is narrowed: then all indices are one round, as long as those that
// name the block's rows fit; else each thread looks through all indices itself.
//
//===----------------------------------------------------------------------===//
#include "BlockBuilder.h"
#include "fusion/Analysis/FusionLegality.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

static constexpr int64_t kThreads = 256, kThreadsOfSlice = 128;
/// Indices of a round: two arrays of their numbers are 32 KiB.
static constexpr int64_t kRound = 4096;
/// Elements of a block: more, and fewer blocks read the indices; less, and more
/// of them share the work.
static constexpr int64_t kMostElements = 16384, kFewestElements = 1024;
static constexpr int64_t kWantedBlocks = 1024, kMostRows = 1024;
/// Loads that a thread has under way.
static constexpr int64_t kTogether = 4;
/// A note is a row of the block and a number in the round.
static constexpr int64_t kNumberBits = 16;
static_assert(kRound <= 1 << kNumberBits && kMostRows <= 1 << 14);
static_assert(kMaxNarrowedUpdates <= 1 << kNumberBits);

namespace {

class ScatterBuilder {
public:
  ScatterBuilder(KernelTask &task, ScatterOp scatter, Type stored,
                 Extent rowCount, int64_t sliceLength);

  KernelShape build();

private:
  using Visit =
      function_ref<void(Value rowInBlock, ArrayRef<Index> at, ArrayRef<Index>)>;

  void planBlocks();
  void forEachVector(Visit visit);
  void noteUpdates(Value first, Value count, bool mayOverflow);
  void sortNotes();
  Value isInside(ArrayRef<Index> target);
  SmallVector<Index> targetOf(Value number);
  Value combine(Value old, Value update);
  Value applyUpdates(Value value, Value rowInBlock, Value first,
                     ArrayRef<Index> slicePosition);
  Value searchUpdates(Value value, Value outerRow,
                      ArrayRef<Index> slicePosition);

  /// A loop in a scope of its own.
  SmallVector<Value>
  loop(Value begin, Value end, int64_t step, ValueRange carried,
       function_ref<SmallVector<Value>(Value, ValueRange)> body) {
    return k.loop(begin, end, step, carried,
                  [&](Value at, ValueRange values) -> SmallVector<Value> {
                    BodyEvaluator::Scope scope(task.evaluator);
                    return body(at, values);
                  });
  }
  Value add(Value a, Value b) { return k.op<arith::AddIOp>(a, b); }
  Value less(Value a, Value b) {
    return k.op<arith::CmpIOp>(arith::CmpIPredicate::ult, a, b);
  }
  Value i32(int64_t number) {
    return k.constantInt(noteType, APInt(32, number));
  }
  Value note(Value array, Value at) {
    return loadShared(k, noteType, array, Index::of(at));
  }
  Value wide(Value note) {
    return k.op<arith::ExtUIOp>(k.b.getI64Type(), note);
  }

  KernelTask &task;
  KernelBuilder &k;
  BodyEvaluator &evaluator;
  ScatterOp scatter;
  unsigned operand;
  Type element, stored, noteType; ///< summed, written
  Extent rowCount;                ///< of the output
  int64_t sliceLength, depth;
  SmallVector<Size> shape, leading, slice, updates;
  Value rows; ///< of the output

  int64_t lanes = 1, rowsOfBlock = 1, tile = 0, tiles = 1;
  Value firstRow, firstInSlice;           ///< of the block
  Value notes, sorted, beginOfRow, found; ///< shared
  Value foundCount;
};

} // namespace

ScatterBuilder::ScatterBuilder(KernelTask &task, ScatterOp scatter, Type stored,
                               Extent rowCount, int64_t sliceLength)
    : task(task), k(task.k), evaluator(task.evaluator), scatter(scatter),
      operand(task.stores.front().second),
      element(getElementTypeOrSelf(scatter.getInput().getType())),
      stored(stored), noteType(k.b.getI32Type()), rowCount(rowCount),
      sliceLength(sliceLength),
      depth(cast<RankedTensorType>(scatter.getIndices().getType())
                .getShape()
                .back()),
      shape(k.shape(scatter.getInput())),
      leading(shape.begin(), shape.begin() + depth),
      slice(shape.begin() + depth, shape.end()),
      updates(k.shape(scatter.getIndices())), rows(k.value(k.size(rowCount))) {
  updates.pop_back();
}

/// What a block owns.
void ScatterBuilder::planBlocks() {
  lanes = findPowerOfTwo(Extent{0, sliceLength}, findWidestAccess(task));
  Value block = k.block;
  if (sliceLength > kMostElements) {
    tile = kMostElements;
    tiles = llvm::divideCeil(sliceLength, tile);
    Value count = k.constantI64(tiles);
    firstRow = k.op<arith::DivUIOp>(block, count);
    firstInSlice = k.op<arith::MulIOp>(k.op<arith::RemUIOp>(block, count),
                                       k.constantI64(tile));
    return;
  }
  tile = sliceLength;
  // Of a batch, one: more only makes more blocks.
  int64_t count = std::max<int64_t>(rowCount.scale + rowCount.base, 1);
  int64_t each = std::max<int64_t>(sliceLength, 1);
  rowsOfBlock = std::clamp<int64_t>(
      count / kWantedBlocks,
      std::min<int64_t>(llvm::divideCeil(kFewestElements, each), kMostRows),
      std::min(kMostElements / each, kMostRows));
  firstRow = k.op<arith::MulIOp>(block, k.constantI64(rowsOfBlock));
}

/// Calls `visit` for this thread's vectors of the block's elements: the row in
/// the block, the position in the output and that in the slice.
void ScatterBuilder::forEachVector(Visit visit) {
  int64_t perRow = llvm::divideCeil(tile, lanes);
  loop(k.thread, k.constantI64(rowsOfBlock * perRow), kThreads, {},
       [&](Value unit, ValueRange) -> SmallVector<Value> {
         Index row = k.divide(Index::of(unit), Size::of(perRow));
         Index inTile = k.mul(k.remainder(Index::of(unit), Size::of(perRow)),
                              Size::of(lanes));
         Value rowInBlock = k.materialize(row), start = k.materialize(inTile);
         if (firstInSlice)
           start = add(firstInSlice, start);
         Value outerRow = add(firstRow, rowInBlock), exists;
         // A division of all rows has no rest.
         if (!rowCount.isStatic() || rowCount.base % rowsOfBlock != 0)
           exists = less(outerRow, rows);
         if (sliceLength % tile != 0)
           exists =
               k.logicalAnd(exists, less(start, k.constantI64(sliceLength)));
         buildIf(task, exists, [&] {
           k.lanes = lanes;
           Coordinates at = k.delinearize(Index::of(outerRow), leading);
           Coordinates part =
               k.delinearize(Index::of(start, lanes > 1 ? 1 : 0), slice);
           at.append(part);
           visit(rowInBlock, at, part);
         });
         return {};
       });
}

/// Whether an update's target is an element of the output at all.
Value ScatterBuilder::isInside(ArrayRef<Index> target) {
  Value inside;
  // One unsigned comparison: a negative index is a large one.
  for (int64_t d = 0; d < depth; ++d)
    inside = k.logicalAnd(inside, k.compare(arith::CmpIPredicate::ult,
                                            target[d], k.fromSize(shape[d])));
  return inside;
}

/// Where update `number` goes.
SmallVector<Index> ScatterBuilder::targetOf(Value number) {
  Coordinates at = k.delinearize(Index::of(number), updates);
  SmallVector<Index> target;
  for (int64_t d = 0; d < depth; ++d) {
    at.push_back(Index::of(d));
    Value index = evaluator.evaluate(scatter.getIndices(), at);
    at.pop_back();
    if (!index.getType().isInteger(64))
      index = k.op<arith::ExtSIOp>(k.b.getI64Type(), index);
    target.push_back(Index::of(index));
  }
  return target;
}

/// Notes which of the `count` updates from `first` on go to the block's rows,
/// in any order. If they may be more than a round, those beyond are only
/// counted.
void ScatterBuilder::noteUpdates(Value first, Value count, bool mayOverflow) {
  Value last = k.op<arith::SubIOp>(count, k.constantI64(1));
  loop(k.thread, count, kThreads * kTogether, {},
       [&](Value start, ValueRange) -> SmallVector<Value> {
         struct Candidate {
           Value number, target, counts;
         };
         SmallVector<Candidate> candidates;
         for (int64_t i = 0; i < kTogether; ++i) {
           Value number =
               i == 0 ? start : add(start, k.constantI64(i * kThreads));
           // A load that nobody asks for beats one that waits for an answer.
           Value there = k.op<arith::MinUIOp>(number, last);
           SmallVector<Index> target = targetOf(add(first, there));
           Value row = k.op<arith::SubIOp>(
               k.materialize(k.linearize(target, leading)), firstRow);
           Value counts = less(row, k.constantI64(rowsOfBlock));
           counts = k.logicalAnd(counts, isInside(target));
           if (i > 0)
             counts = k.logicalAnd(counts, less(number, count));
           candidates.push_back({number, row, counts});
         }
         for (Candidate &each : candidates)
           buildIf(task, each.counts, [&] {
             Value place = LLVM::AtomicRMWOp::create(
                 k.b, k.loc, LLVM::AtomicBinOp::add, found, i32(1),
                 LLVM::AtomicOrdering::monotonic, "block");
             Value key = k.op<arith::OrIOp>(
                 k.op<arith::ShLIOp>(each.target, k.constantI64(kNumberBits)),
                 each.number);
             buildIf(task, mayOverflow ? less(place, i32(kRound)) : Value(),
                     [&] {
                       storeShared(k, k.op<arith::TruncIOp>(noteType, key),
                                   notes, Index::of(wide(place)));
                     });
           });
         return {};
       });
}

/// Puts the notes into the order of their rows and numbers, and says where each
/// row's begin: a note's place is the number of smaller ones, for all of them
/// differ. Most blocks have few.
void ScatterBuilder::sortNotes() {
  Value zero = k.constantI64(0);
  auto countBelow = [&](Value limit) {
    return loop(zero, foundCount, 1, i32(0),
                [&](Value i, ValueRange count) -> SmallVector<Value> {
                  Value isBelow = less(note(notes, i), limit);
                  return {
                      add(count[0], k.op<arith::ExtUIOp>(noteType, isBelow))};
                })[0];
  };
  loop(k.thread, foundCount, kThreads, {},
       [&](Value i, ValueRange) -> SmallVector<Value> {
         Value mine = note(notes, i);
         storeShared(k, mine, sorted, Index::of(wide(countBelow(mine))));
         return {};
       });
  loop(k.thread, k.constantI64(rowsOfBlock + 1), kThreads, {},
       [&](Value row, ValueRange) -> SmallVector<Value> {
         Value limit = k.op<arith::TruncIOp>(
             noteType, k.op<arith::ShLIOp>(row, k.constantI64(kNumberBits)));
         storeShared(k, countBelow(limit), beginOfRow, Index::of(row));
         return {};
       });
}

Value ScatterBuilder::combine(Value old, Value update) {
  return combineUpdate(k, scatter.getKind(), old, update, element);
}

/// `value`, at a position of a row, with that row's updates.
Value ScatterBuilder::applyUpdates(Value value, Value rowInBlock, Value first,
                                   ArrayRef<Index> slicePosition) {
  Value next = wide(note(beginOfRow, rowInBlock));
  Value end = wide(note(beginOfRow, add(rowInBlock, k.constantI64(1))));
  bool isWide = isa<VectorType>(value.getType());
  auto updateOf = [&](Value place) {
    Value number = k.op<arith::AndIOp>(wide(note(sorted, place)),
                                       k.constantI64((1 << kNumberBits) - 1));
    Coordinates from = k.delinearize(Index::of(add(first, number)), updates);
    from.append(slicePosition.begin(), slicePosition.end());
    return k.splatIf(evaluator.evaluate(scatter.getUpdates(), from), isWide);
  };
  // All loads of some updates come before the first is combined.
  Value lastStart = k.op<arith::SubIOp>(end, k.constantI64(kTogether - 1));
  SmallVector<Value> state = loop(
      next, lastStart, kTogether, {value, next},
      [&](Value at, ValueRange carried) -> SmallVector<Value> {
        SmallVector<Value> values;
        for (int64_t i = 0; i < kTogether; ++i)
          values.push_back(updateOf(i == 0 ? at : add(at, k.constantI64(i))));
        Value result = carried[0];
        for (Value update : values)
          result = combine(result, update);
        return {result, add(at, k.constantI64(kTogether))};
      });
  return loop(state[1], end, 1, state[0],
              [&](Value at, ValueRange carried) -> SmallVector<Value> {
                return {combine(carried[0], updateOf(at))};
              })[0];
}

/// `value`, at a position of a row of the output, with that row's updates among
/// all, in their order.
Value ScatterBuilder::searchUpdates(Value value, Value outerRow,
                                    ArrayRef<Index> slicePosition) {
  bool isWide = isa<VectorType>(value.getType());
  return loop(
      k.constantI64(0), k.value(k.product(updates)), 1, value,
      [&](Value number, ValueRange carried) -> SmallVector<Value> {
        SmallVector<Index> target = targetOf(number);
        Value isHere =
            k.compare(arith::CmpIPredicate::eq, k.linearize(target, leading),
                      Index::of(outerRow));
        return {k.branch(
            k.logicalAnd(isHere, isInside(target)), value.getType(),
            [&] {
              BodyEvaluator::Scope scope(evaluator);
              Coordinates from = k.delinearize(Index::of(number), updates);
              from.append(slicePosition.begin(), slicePosition.end());
              return combine(
                  carried[0],
                  k.splatIf(evaluator.evaluate(scatter.getUpdates(), from),
                            isWide));
            },
            [&]() -> Value { return carried[0]; })};
      })[0];
}

KernelShape ScatterBuilder::build() {
  planBlocks();
  Value total = k.value(k.product(updates)), zero = k.constantI64(0);
  Size known = k.product(updates);
  bool isNarrowed = stored != element;
  bool isOneRound =
      isNarrowed || (known.isStatic() && known.constant <= kRound);
  bool mayOverflow = isNarrowed && known.constant > kRound;
  int64_t round =
      isOneRound ? std::clamp<int64_t>(known.constant, 1, kRound) : kRound;
  notes = buildSharedArray(k, noteType, round);
  sorted = buildSharedArray(k, noteType, round);
  beginOfRow = buildSharedArray(k, noteType, rowsOfBlock + 1);
  found = buildSharedArray(k, noteType, 1);

  auto inputAt = [&](ArrayRef<Index> at) {
    return k.splatIf(evaluator.evaluate(scatter.getInput(), at), lanes > 1);
  };
  auto storeAt = [&](Value value, ArrayRef<Index> at) {
    k.store(value, operand, stored, k.linearize(at, shape));
  };
  Value fits, overflows; // null: always, never
  auto findUpdates = [&](Value first, Value count) {
    buildIf(task, k.op<arith::CmpIOp>(arith::CmpIPredicate::eq, k.thread, zero),
            [&] { storeShared(k, i32(0), found, Index::of(0)); });
    buildBarrier(k, kThreads);
    noteUpdates(first, count, mayOverflow);
    buildBarrier(k, kThreads);
    foundCount = wide(loadShared(k, noteType, found, Index::of(0)));
    if (mayOverflow) {
      fits = k.op<arith::CmpIOp>(arith::CmpIPredicate::ule, foundCount,
                                 k.constantI64(kRound));
      overflows = k.op<arith::CmpIOp>(arith::CmpIPredicate::ugt, foundCount,
                                      k.constantI64(kRound));
      foundCount = k.select(fits, foundCount, zero);
    }
    sortNotes();
    buildBarrier(k, kThreads);
  };
  if (isOneRound) {
    findUpdates(zero, total);
    buildIf(task, fits, [&] {
      forEachVector(
          [&](Value rowInBlock, ArrayRef<Index> at, ArrayRef<Index> inSlice) {
            storeAt(applyUpdates(inputAt(at), rowInBlock, zero, inSlice), at);
          });
    });
    if (mayOverflow)
      buildIf(task, overflows, [&] {
        forEachVector(
            [&](Value rowInBlock, ArrayRef<Index> at, ArrayRef<Index> inSlice) {
              storeAt(searchUpdates(inputAt(at), add(firstRow, rowInBlock),
                                    inSlice),
                      at);
            });
      });
  } else {
    forEachVector([&](Value, ArrayRef<Index> at, ArrayRef<Index>) {
      storeAt(inputAt(at), at);
    });
    loop(zero, total, kRound, {},
         [&](Value first, ValueRange) -> SmallVector<Value> {
           // Nobody reads the notes of the last round any more.
           buildBarrier(k, kThreads);
           findUpdates(first,
                       k.op<arith::MinUIOp>(k.op<arith::SubIOp>(total, first),
                                            k.constantI64(kRound)));
           Value some =
               k.op<arith::CmpIOp>(arith::CmpIPredicate::ne, foundCount, zero);
           buildIf(task, some, [&] {
             forEachVector([&](Value rowInBlock, ArrayRef<Index> at,
                               ArrayRef<Index> inSlice) {
               // Most rows have none in a round: they are left as they are.
               Value begin = note(beginOfRow, rowInBlock);
               Value end = note(beginOfRow, add(rowInBlock, k.constantI64(1)));
               buildIf(task, less(begin, end), [&] {
                 Value old = k.load(operand, stored, k.linearize(at, shape));
                 storeAt(applyUpdates(old, rowInBlock, first, inSlice), at);
               });
             });
           });
           return {};
         });
  }
  return KernelShape{
      {rowCount.scale * tiles, rowCount.base * tiles}, rowsOfBlock, kThreads};
}

/// A thread an element of the slice, which does all updates of it in turn: what
/// is left for slices whose size the batch decides.
static std::optional<KernelShape> emitBySliceElement(KernelTask &task,
                                                     std::string &reason) {
  KernelBuilder &k = task.k;
  auto scatter = task.stores.front().first.getDefiningOp<ScatterOp>();
  Value unit = k.op<arith::AddIOp>(
      k.op<arith::MulIOp>(k.block, k.constantI64(kThreadsOfSlice)), k.thread);
  auto indexType = cast<RankedTensorType>(scatter.getIndices().getType());
  SmallVector<Size> slice = k.shape(scatter.getInput());
  slice.erase(slice.begin(), slice.begin() + indexType.getShape().back());
  Value units = k.value(k.product(slice));
  std::optional<KernelShape> shape;
  buildIf(task, k.op<arith::CmpIOp>(arith::CmpIPredicate::ult, unit, units),
          [&] {
            k.begin = unit;
            k.end = k.op<arith::AddIOp>(unit, k.constantI64(1));
            k.lanes = 1;
            shape = emitScatter(task, reason);
          });
  if (shape) {
    shape->grain = kThreadsOfSlice;
    shape->threads = kThreadsOfSlice;
  }
  return shape;
}

std::optional<KernelShape> codegen::emitCudaScatter(KernelTask &task,
                                                    std::string &reason) {
  KernelBuilder &k = task.k;
  Value result = task.stores.front().first;
  auto narrowed = result.getDefiningOp<CastOp>();
  auto scatter = narrowed ? narrowed.getInput().getDefiningOp<ScatterOp>()
                          : result.getDefiningOp<ScatterOp>();
  if (!scatter || task.stores.size() != 1 ||
      (narrowed && !isNarrowedInPlace(scatter, narrowed))) {
    reason = "the only output must be the scatter's result";
    return std::nullopt;
  }
  Value input = scatter.getInput();
  int64_t depth =
      cast<RankedTensorType>(scatter.getIndices().getType()).getShape().back();
  std::optional<Extent> rows = Extent{0, 1}, length = Extent{0, 1};
  for (int64_t d = 0; d < cast<RankedTensorType>(input.getType()).getRank();
       ++d) {
    std::optional<Extent> &part = d < depth ? rows : length;
    if (part)
      part = multiply(*part, k.extents.getExtent(input, d));
  }
  if (!rows || !length || !length->isStatic() || length->base == 0 ||
      rows->scale < 0 || rows->base < 0)
    return emitBySliceElement(task, reason);
  return ScatterBuilder(task, scatter, getElementTypeOrSelf(result.getType()),
                        *rows, length->base)
      .build();
}

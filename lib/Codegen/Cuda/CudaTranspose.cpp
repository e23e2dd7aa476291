//===- CudaTranspose.cpp - Transposes through shared memory ---------------===//
//
// Where the innermost dimension of the output is another one of the input, each
// access along one is a stride along the other. A block takes a square tile of
// the two dimensions: it evaluates what is transposed along the input's
// innermost dimension, and the outputs along their own, with the tile in shared
// memory between.
//
//===----------------------------------------------------------------------===//
#include "BlockBuilder.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

/// Elements of a tile's side, and rows that a block's threads take at once.
static constexpr int64_t kTile = 32, kRows = 8;
/// A side of the shape that is shorter leaves most of a tile empty.
static constexpr int64_t kLeastSide = 16;

namespace {

/// The two dimensions of the output that a tile spans.
struct TilePlan {
  SmallVector<TransposeOp> transposes;
  size_t inner = 0; ///< the output's innermost
  size_t outer = 0; ///< the input's innermost
};

class TransposeBuilder {
public:
  TransposeBuilder(KernelTask &task, ArrayRef<Extent> shape,
                   const TilePlan &plan)
      : task(task), k(task.k), shape(shape), plan(plan) {}

  /// The blocks.
  std::optional<Extent> build();

private:
  void locate();
  /// The position of row `row` of this thread, its tile's side `along` in the
  /// direction of neighbouring threads.
  Coordinates positionAt(size_t along, size_t across, int64_t row);
  Value isInside(ArrayRef<Index> at);

  KernelTask &task;
  KernelBuilder &k;
  ArrayRef<Extent> shape;
  const TilePlan &plan;
  Coordinates base;             ///< of the tile
  Index threadAlong, threadRow; ///< of the thread, in the tile
};

} // namespace

static std::optional<TilePlan> planTile(const KernelTask &task,
                                        ArrayRef<Extent> shape) {
  // Values evaluated at the stores' own positions.
  SmallVector<Value> worklist;
  for (auto &[value, operand] : task.stores)
    worklist.push_back(value);
  llvm::DenseSet<Value> seen;
  TilePlan plan;
  size_t rank = shape.size();
  plan.inner = rank;
  while (plan.inner > 0 && shape[plan.inner - 1] == Extent{0, 1})
    --plan.inner;
  if (plan.inner-- == 0)
    return std::nullopt;
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (!op || !seen.insert(value).second)
      continue;
    if (isa<ElementwiseOpInterface>(op))
      worklist.append(op->operand_begin(), op->operand_end());
    auto transpose = dyn_cast<TransposeOp>(op);
    if (!transpose)
      continue;
    // The output's dimension that is the input's innermost.
    ArrayRef<int64_t> permutation = transpose.getPermutation();
    size_t outer = 0;
    int64_t last = -1;
    for (size_t d = 0; d < rank; ++d)
      if (shape[d] != Extent{0, 1} && permutation[d] > last) {
        last = permutation[d];
        outer = d;
      }
    if (outer == plan.inner)
      continue;
    if (!plan.transposes.empty() && plan.outer != outer)
      return std::nullopt;
    plan.outer = outer;
    plan.transposes.push_back(transpose);
  }
  auto isLong = [&](const Extent &side) {
    return side.isStatic() && side.base >= kLeastSide;
  };
  // Two tiles at most: shared memory is for the whole block.
  if (plan.transposes.empty() || plan.transposes.size() > 2 ||
      !isLong(shape[plan.inner]) || !isLong(shape[plan.outer]))
    return std::nullopt;
  return plan;
}

void TransposeBuilder::locate() {
  auto tilesOf = [&](size_t dim) {
    return Size::of(llvm::divideCeil(shape[dim].base, kTile));
  };
  base.assign(shape.size(), Index::of(0));
  Index rest = Index::of(k.block);
  auto take = [&](size_t dim) {
    Index tile = Index::of(k.materialize(k.remainder(rest, tilesOf(dim))));
    rest = Index::of(k.materialize(k.divide(rest, tilesOf(dim))));
    base[dim] = k.mul(tile, Size::of(kTile));
  };
  take(plan.outer);
  take(plan.inner);
  SmallVector<size_t> dims;
  SmallVector<Size> sizes;
  for (size_t d = 0; d < shape.size(); ++d)
    if (d != plan.inner && d != plan.outer) {
      dims.push_back(d);
      sizes.push_back(k.size(shape[d]));
    }
  Coordinates others = k.delinearize(rest, sizes);
  for (auto [dim, at] : llvm::zip(dims, others))
    base[dim] = at;
  Index thread = Index::of(k.thread);
  threadAlong = Index::of(k.materialize(k.remainder(thread, Size::of(kTile))));
  threadRow = Index::of(k.materialize(k.divide(thread, Size::of(kTile))));
}

Coordinates TransposeBuilder::positionAt(size_t along, size_t across,
                                         int64_t row) {
  Coordinates at = base;
  at[along] = k.add(base[along], threadAlong);
  at[across] = k.add(k.add(base[across], threadRow), row * kRows);
  return at;
}

Value TransposeBuilder::isInside(ArrayRef<Index> at) {
  Value inside;
  for (size_t dim : {plan.inner, plan.outer})
    if (shape[dim].base % kTile != 0)
      inside =
          k.logicalAnd(inside, k.compare(arith::CmpIPredicate::ult, at[dim],
                                         Index::of(shape[dim].base)));
  return inside;
}

std::optional<Extent> TransposeBuilder::build() {
  Extent blocks{0, 1};
  for (size_t d = 0; d < shape.size(); ++d) {
    Extent count = shape[d];
    if (d == plan.inner || d == plan.outer)
      count = {0, int64_t(llvm::divideCeil(shape[d].base, kTile))};
    std::optional<Extent> product = multiply(blocks, count);
    if (!product)
      return std::nullopt;
    blocks = *product;
  }
  k.lanes = 1;
  locate();
  // A row more than the tile's: neighbours of a column are in other banks.
  auto slot = [&](const Index &row, const Index &along) {
    return k.add(k.mul(row, Size::of(kTile + 1)), along);
  };
  SmallVector<Value> arrays;
  for (TransposeOp transpose : plan.transposes) {
    Type element = k.computeType(transpose.getInput().getType());
    arrays.push_back(buildSharedArray(k, element, kTile * (kTile + 1)));
  }
  auto fill = [&](int64_t row, bool keep) {
    Coordinates at = positionAt(plan.outer, plan.inner, row);
    SmallVector<Value> values;
    buildIf(task, isInside(at), [&] {
      for (size_t i = 0; i < arrays.size(); ++i) {
        TransposeOp transpose = plan.transposes[i];
        Coordinates from(at.size());
        for (auto [d, dim] : llvm::enumerate(transpose.getPermutation()))
          from[dim] = at[d];
        Value value = task.evaluator.evaluate(transpose.getInput(), from);
        if (!keep)
          storeShared(k, value, arrays[i],
                      slot(k.add(threadRow, row * kRows), threadAlong));
        values.push_back(value);
      }
    });
    return values;
  };
  bool isWhole = shape[plan.inner].base % kTile == 0 &&
                 shape[plan.outer].base % kTile == 0;
  SmallVector<SmallVector<Value>> held;
  for (int64_t row = 0; row < kTile / kRows; ++row)
    held.push_back(fill(row, isWhole));
  // All loads are under way before the first is waited for.
  for (int64_t row = 0; isWhole && row < kTile / kRows; ++row)
    for (auto [value, array] : llvm::zip(held[row], arrays))
      storeShared(k, value, array,
                  slot(k.add(threadRow, row * kRows), threadAlong));
  buildBarrier(k, kTile * kRows);
  for (int64_t row = 0; row < kTile / kRows; ++row) {
    Coordinates at = positionAt(plan.inner, plan.outer, row);
    buildIf(task, isInside(at), [&] {
      for (size_t i = 0; i < arrays.size(); ++i) {
        TransposeOp transpose = plan.transposes[i];
        Type element = k.computeType(transpose.getInput().getType());
        task.evaluator.remember(
            transpose.getResult(), at,
            loadShared(k, element, arrays[i],
                       slot(threadAlong, k.add(threadRow, row * kRows))));
      }
      SmallVector<Value> values;
      for (auto &[value, operand] : task.stores)
        values.push_back(task.evaluator.evaluate(value, at));
      for (auto [value, store] : llvm::zip(values, task.stores))
        k.store(value, store.second,
                getElementTypeOrSelf(store.first.getType()),
                k.linearize(at, k.shape(store.first)));
    });
  }
  return blocks;
}

std::optional<KernelShape> codegen::emitCudaTranspose(KernelTask &task) {
  KernelBuilder &k = task.k;
  Value first = task.stores.front().first;
  SmallVector<Extent> shape(k.extents.getShape(first));
  for (auto &[value, operand] : task.stores)
    if (k.extents.getShape(value) != k.extents.getShape(first))
      return std::nullopt;
  std::optional<TilePlan> plan = planTile(task, shape);
  if (!plan)
    return std::nullopt;
  // Blocks beyond the affine are for the loop, which walks between.
  for (size_t d = 0, dynamic = 0; d < shape.size(); ++d)
    if (!shape[d].isStatic() && ++dynamic > 1)
      return std::nullopt;
  std::optional<Extent> blocks = TransposeBuilder(task, shape, *plan).build();
  assert(blocks && "one dimension depends on the batch at most");
  return KernelShape{*blocks, 1, kTile * kRows};
}

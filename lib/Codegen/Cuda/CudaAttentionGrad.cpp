//===- CudaAttentionGrad.cpp - The gradients of attention on a GPU --------===//
//
// Stands in where the library lacks them. A block takes the heads of one group:
// first what softmax knows of each row, then a thread a key for the gradients
// of key and value, then a thread a query. So no sum depends on the order of
// threads. What is known of a row waits in the bytes of its own gradient, which
// are written last.
//
//===----------------------------------------------------------------------===//
#include "BlockBuilder.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

static constexpr int64_t kThreads = 256;

namespace {

class AttentionGradBuilder {
public:
  AttentionGradBuilder(KernelTask &task, AttentionGradOp op, Size groups)
      : task(task), k(task.k), op(op), rows(k.size(op.getQuery(), 2)),
        keys(k.size(op.getKey(), 2)),
        depth(op.getKey().getType().getDimSize(3)),
        width(op.getValue().getType().getDimSize(3)),
        repeats(op.getQuery().getType().getDimSize(1) /
                op.getKey().getType().getDimSize(1)),
        element(op.getQuery().getType().getElementType()),
        compute(k.computeType(element)), batch(k.divide(block(), groups)),
        group(k.remainder(block(), groups)),
        sums(k.allocate(compute, depth + width)) {}

  void build();

private:
  /// A query of the block's heads, and what is known of its row: the logarithm
  /// of the sum of its weights' powers, and its mean of the weights' gradients.
  struct Row {
    Index head, row;
    Value logSum, mean;
  };
  using Values = BodyEvaluator::Values;

  Index block() { return Index::of(k.block); }
  Value read(Value tensor, const Index &head, const Index &row,
             const Index &column) {
    return task.evaluator.evaluate(tensor, {batch, head, row, column});
  }
  /// Runs `body` for `thread`, `thread` + kThreads, ... below `count`.
  void deal(Value count, function_ref<void(const Index &)> body);
  void dealRows(function_ref<void(Row)> body);
  /// The sum over `size` elements of products.
  Value multiply(int64_t size,
                 function_ref<std::pair<Value, Value>(const Index &)> pair);
  Value score(const Row &row, const Index &key);
  /// The gradient of a weight.
  Value weightGrad(const Row &row, const Index &key);
  /// A weight, and the gradient of its score.
  std::pair<Value, Value> weigh(const Row &row, const Index &key);
  /// Where a row's two numbers are, in numbers from the output's start.
  Index place(const Row &row);
  void load(Row &row);
  void clear(int64_t count);
  /// sums[first ..] += factor * `tensor`'s row.
  void accumulate(int64_t first, int64_t count, Value factor, Value tensor,
                  const Index &head, const Index &row);
  void store(int64_t first, int64_t count, unsigned result, const Index &head,
             const Index &row);

  KernelTask &task;
  KernelBuilder &k;
  AttentionGradOp op;
  Size rows, keys;
  int64_t depth, width, repeats;
  Type element, compute;
  Index batch, group;
  Value sums; ///< one array a thread
};

} // namespace

void AttentionGradBuilder::deal(Value count,
                                function_ref<void(const Index &)> body) {
  k.loop(k.thread, count, kThreads, {},
         [&](Value at, ValueRange) -> SmallVector<Value> {
           BodyEvaluator::Scope scope(task.evaluator);
           body(Index::of(at));
           return {};
         });
}

void AttentionGradBuilder::dealRows(function_ref<void(Row)> body) {
  deal(k.value(k.product(Size::of(repeats), rows)), [&](const Index &at) {
    Index first = k.mul(group, Size::of(repeats));
    body({k.add(first, k.divide(at, rows)), k.remainder(at, rows), {}, {}});
  });
}

Value AttentionGradBuilder::multiply(
    int64_t size, function_ref<std::pair<Value, Value>(const Index &)> pair) {
  return task.evaluator.nest(
      {Size::of(size)}, {k.constant(compute, 0.0)},
      [&](ArrayRef<Index> at, Values carried) -> Values {
        auto [a, b] = pair(at[0]);
        return {k.op<arith::AddFOp>(carried[0], k.op<arith::MulFOp>(a, b))};
      })[0];
}

Value AttentionGradBuilder::score(const Row &row, const Index &key) {
  Value sum = multiply(depth, [&](const Index &at) {
    return std::pair(read(op.getQuery(), row.head, row.row, at),
                     read(op.getKey(), group, key, at));
  });
  Value result = k.op<arith::MulFOp>(
      sum, k.constant(compute, op.getScaleAttr().getValueAsDouble()));
  if (op.getMask())
    result =
        k.op<arith::AddFOp>(result, read(op.getMask(), row.head, row.row, key));
  if (!op.getCausal())
    return result;
  // Behind the query, where the last of both see each other.
  Index last = k.sub(k.add(row.row, k.fromSize(keys)), k.fromSize(rows));
  Value isFuture = k.compare(arith::CmpIPredicate::sgt, key, last);
  return k.select(isFuture,
                  k.constant(compute, -std::numeric_limits<double>::infinity()),
                  result);
}

Value AttentionGradBuilder::weightGrad(const Row &row, const Index &key) {
  return multiply(width, [&](const Index &at) {
    return std::pair(read(op.getGrad(), row.head, row.row, at),
                     read(op.getValue(), group, key, at));
  });
}

std::pair<Value, Value> AttentionGradBuilder::weigh(const Row &row,
                                                    const Index &key) {
  Value weight =
      k.op<math::ExpOp>(k.op<arith::SubFOp>(score(row, key), row.logSum));
  Value grad = k.op<arith::MulFOp>(
      weight, k.op<arith::SubFOp>(weightGrad(row, key), row.mean));
  Value scale = k.constant(compute, op.getScaleAttr().getValueAsDouble());
  return {weight, k.op<arith::MulFOp>(grad, scale)};
}

Index AttentionGradBuilder::place(const Row &row) {
  Index flat = k.linearize({batch, row.head, row.row, Index::of(0)},
                           k.shape(op.getQuery()));
  // A row has 8 elements of 2 bytes at least.
  return k.divide(flat, Size::of(2));
}

void AttentionGradBuilder::load(Row &row) {
  Index at = place(row);
  Value from = k.pointer(task.stores[0].second);
  row.logSum = k.loadRaw(compute, compute, from, at);
  row.mean = k.loadRaw(compute, compute, from, k.add(at, 1));
}

void AttentionGradBuilder::clear(int64_t count) {
  task.evaluator.nest(
      {Size::of(count)}, {}, [&](ArrayRef<Index> at, Values) -> Values {
        k.storeRaw(k.constant(compute, 0.0), compute, sums, at[0]);
        return {};
      });
}

void AttentionGradBuilder::accumulate(int64_t first, int64_t count,
                                      Value factor, Value tensor,
                                      const Index &head, const Index &row) {
  task.evaluator.nest(
      {Size::of(count)}, {}, [&](ArrayRef<Index> at, Values) -> Values {
        Index slot = k.add(at[0], first);
        Value product =
            k.op<arith::MulFOp>(factor, read(tensor, head, row, at[0]));
        Value sum = k.op<arith::AddFOp>(k.loadRaw(compute, compute, sums, slot),
                                        product);
        k.storeRaw(sum, compute, sums, slot);
        return {};
      });
}

void AttentionGradBuilder::store(int64_t first, int64_t count, unsigned result,
                                 const Index &head, const Index &row) {
  auto [value, operand] = task.stores[result];
  SmallVector<Size> shape = k.shape(value);
  task.evaluator.nest(
      {Size::of(count)}, {}, [&](ArrayRef<Index> at, Values) -> Values {
        Value sum = k.loadRaw(compute, compute, sums, k.add(at[0], first));
        k.store(k.round(sum, element), operand, element,
                k.linearize({batch, head, row, at[0]}, shape));
        return {};
      });
}

void AttentionGradBuilder::build() {
  k.lanes = 1;
  Value zero = k.constant(compute, 0.0);
  dealRows([&](Row row) {
    Value largest = task.evaluator.nest(
        {keys}, {k.constant(compute, -std::numeric_limits<double>::infinity())},
        [&](ArrayRef<Index> key, Values carried) -> Values {
          return {k.op<arith::MaximumFOp>(carried[0], score(row, key[0]))};
        })[0];
    Values both = task.evaluator.nest(
        {keys}, {zero, zero},
        [&](ArrayRef<Index> key, Values carried) -> Values {
          Value power = k.op<math::ExpOp>(
              k.op<arith::SubFOp>(score(row, key[0]), largest));
          Value product = k.op<arith::MulFOp>(power, weightGrad(row, key[0]));
          return {k.op<arith::AddFOp>(carried[0], power),
                  k.op<arith::AddFOp>(carried[1], product)};
        });
    Index at = place(row);
    Value to = k.pointer(task.stores[0].second);
    k.storeRaw(k.op<arith::AddFOp>(largest, k.op<math::LogOp>(both[0])),
               compute, to, at);
    k.storeRaw(k.op<arith::DivFOp>(both[1], both[0]), compute, to,
               k.add(at, 1));
  });
  buildBarrier(k, kThreads);
  deal(k.value(keys), [&](const Index &key) {
    clear(depth + width);
    task.evaluator.nest(
        {Size::of(repeats), rows}, {},
        [&](ArrayRef<Index> at, Values) -> Values {
          Row row{k.add(k.mul(group, Size::of(repeats)), at[0]), at[1], {}, {}};
          load(row);
          auto [weight, grad] = weigh(row, key);
          accumulate(0, depth, grad, op.getQuery(), row.head, row.row);
          accumulate(depth, width, weight, op.getGrad(), row.head, row.row);
          return {};
        });
    store(0, depth, 1, group, key);
    store(depth, width, 2, group, key);
  });
  // The rows' numbers have been read by all.
  buildBarrier(k, kThreads);
  dealRows([&](Row row) {
    load(row);
    clear(depth);
    task.evaluator.nest({keys}, {}, [&](ArrayRef<Index> key, Values) -> Values {
      accumulate(0, depth, weigh(row, key[0]).second, op.getKey(), group,
                 key[0]);
      return {};
    });
    store(0, depth, 0, row.head, row.row);
  });
}

std::optional<KernelShape> codegen::emitCudaAttentionGrad(KernelTask &task,
                                                          std::string &reason) {
  KernelBuilder &k = task.k;
  auto op = task.stores.front().first.getDefiningOp<AttentionGradOp>();
  std::optional<Extent> units =
      op ? multiply(k.extents.getExtent(op.getKey(), 0),
                    k.extents.getExtent(op.getKey(), 1))
         : std::nullopt;
  if (!units) {
    reason = "the number of groups is not affine in the batch";
    return std::nullopt;
  }
  AttentionGradBuilder(task, op, k.size(op.getKey(), 1)).build();
  return KernelShape{*units, /*grain=*/1, kThreads};
}

//===- Iteration.cpp - Walking over the positions of a shape --------------===//
//
// Chooses the innermost loop as long as the accesses allow, splits the rest
// into units of work, and builds the loops. Merging dimensions is only a
// question of speed: a merged position taken apart by an access that does not
// keep it together is still right.
//
//===----------------------------------------------------------------------===//
#include "Emitters.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

/// Longest innermost loop of one unit, in elements; above, it is split.
static constexpr int64_t kMaxInner = 4096, kBlock = 2048;

SmallVector<bool> codegen::findMergeable(ArrayRef<Operation *> ops,
                                         ArrayRef<int64_t> shape) {
  size_t rank = shape.size();
  SmallVector<bool> mergeable(rank > 0 ? rank - 1 : 0, true);
  auto separateAround = [&](int64_t dim) {
    if (dim > 0)
      mergeable[dim - 1] = false;
    if (dim + 1 < static_cast<int64_t>(rank))
      mergeable[dim] = false;
  };
  for (Operation *op : ops) {
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    if (type.getShape() != shape || isa<ElementwiseOpInterface, ConstantOp>(op))
      continue;
    llvm::TypeSwitch<Operation *>(op)
        .Case([&](BroadcastOp bcast) {
          auto from = cast<RankedTensorType>(bcast.getInput().getType());
          SmallVector<bool> present(rank, false);
          for (auto [i, dim] : llvm::enumerate(bcast.getDims()))
            present[dim] = from.getDimSize(i) != 1;
          for (size_t d = 0; d + 1 < rank; ++d)
            if (present[d] != present[d + 1] && shape[d] != 1 &&
                shape[d + 1] != 1)
              mergeable[d] = false;
        })
        .Case([&](TransposeOp transpose) {
          ArrayRef<int64_t> permutation = transpose.getPermutation();
          for (size_t d = 0; d + 1 < rank; ++d)
            if (permutation[d] + 1 != permutation[d + 1])
              mergeable[d] = false;
        })
        .Case([&](SliceOp slice) {
          auto from = cast<RankedTensorType>(slice.getInput().getType());
          for (size_t d = 0; d < rank; ++d)
            if (from.getDimSize(d) != shape[d])
              separateAround(d);
        })
        .Case([&](ReverseOp reverse) {
          for (int64_t dim : reverse.getDims())
            separateAround(dim);
        })
        .Case([&](ConcatOp concat) { separateAround(concat.getAxis()); })
        .Case([&](PadOp pad) {
          for (size_t d = 0; d < rank; ++d)
            if (pad.getLow()[d] || pad.getHigh()[d])
              separateAround(d);
        })
        .Case([&](UpdateSliceOp update) {
          auto part = cast<RankedTensorType>(update.getUpdate().getType());
          for (size_t d = 0; d < rank; ++d)
            if (part.getDimSize(d) != shape[d])
              separateAround(d);
        })
        .Case([&](GatherOp gather) {
          int64_t first = gather.getAxis();
          int64_t indices =
              cast<RankedTensorType>(gather.getIndices().getType()).getRank() -
              gather.getBatchDims();
          for (size_t d = 0; d + 1 < rank; ++d) {
            auto part = [&](int64_t dim) {
              return dim < first ? 0 : dim < first + indices ? 1 : 2;
            };
            if (part(d) != part(d + 1) || d + 1 < gather.getBatchDims() + 0u)
              mergeable[d] = false;
          }
        })
        .Case([&](ReduceOp reduce) {
          auto from = cast<RankedTensorType>(reduce.getInput().getType());
          size_t kept = 0;
          for (int64_t d = 0; d < from.getRank(); ++d) {
            if (!llvm::is_contained(reduce.getDims(), d))
              ++kept;
            else if (from.getDimSize(d) != 1 && kept > 0 && kept < rank)
              mergeable[kept - 1] = false;
          }
        })
        .Case([&](RngUniformOp) {})
        .Case([&](ReshapeOp) {})
        .Default(
            [&](Operation *) { mergeable.assign(mergeable.size(), false); });
  }
  return mergeable;
}

int64_t codegen::estimateCost(ArrayRef<Operation *> ops) {
  int64_t cost = 1;
  for (Operation *op : ops) {
    if (auto elementwise = dyn_cast<ElementwiseOpInterface>(op)) {
      cost += elementwise.getFlopsPerElement();
      continue;
    }
    auto volume = [](ArrayRef<int64_t> sizes) {
      int64_t product = 1;
      for (int64_t size : sizes)
        product *= std::max<int64_t>(ShapedType::isDynamic(size) ? 1 : size, 1);
      return product;
    };
    llvm::TypeSwitch<Operation *>(op)
        .Case([&](ReduceOp reduce) {
          auto type = cast<RankedTensorType>(reduce.getInput().getType());
          for (int64_t dim : reduce.getDims())
            cost += volume(type.getDimSize(dim));
        })
        .Case<MaxPoolOp, AvgPoolOp>(
            [&](auto pool) { cost += volume(pool.getWindow()); })
        .Case([&](MaxPoolGradOp pool) {
          int64_t windows = 1;
          for (auto [size, stride] :
               llvm::zip_equal(pool.getWindow(), pool.getStrides()))
            windows *= (size + stride - 1) / stride;
          cost += volume(pool.getWindow()) * (1 + windows);
        })
        .Case([&](ConvOp conv) {
          auto type = cast<RankedTensorType>(conv.getWeights().getType());
          cost += volume(type.getShape().drop_front());
        })
        .Case([&](ConvTransposeOp conv) {
          auto type = cast<RankedTensorType>(conv.getWeights().getType());
          cost += volume(type.getShape()) /
                  std::max<int64_t>(type.getDimSize(1), 1);
        })
        .Case([&](MatmulOp matmul) {
          auto type = cast<RankedTensorType>(matmul.getLhs().getType());
          cost += volume(type.getShape().back());
        })
        .Default([&](Operation *) { cost += 1; });
  }
  return cost;
}

void codegen::iterateRange(KernelTask &task, Value begin, Value end,
                           std::optional<int64_t> length,
                           llvm::function_ref<void(const Index &)> body) {
  KernelBuilder &k = task.k;
  auto inLoop = [&](Value from, Value to, int64_t step) {
    k.loop(from, to, step, {}, [&](Value i, ValueRange) -> SmallVector<Value> {
      BodyEvaluator::Scope scope(task.evaluator);
      body(Index::of(i, step == 1 ? 0 : 1));
      return {};
    });
  };
  if (k.machine == Machine::Cuda) {
    // Lanes are the threads.
    k.lanes = 1;
    return inLoop(begin, end, 1);
  }
  if (!length) {
    Value count = k.op<arith::SubIOp>(end, begin);
    Value rest = k.op<arith::AndIOp>(count, k.constantI64(kLanes - 1));
    Value wholeEnd = k.op<arith::SubIOp>(end, rest);
    inLoop(begin, wholeEnd, kLanes);
    inLoop(wholeEnd, end, 1);
    return;
  }
  // The length is known: whole vectors, shorter ones, single elements.
  Index first = Index::of(begin);
  int64_t done = *length / kLanes * kLanes;
  if (done > 0)
    inLoop(begin, k.materialize(k.add(first, done)), kLanes);
  for (int64_t lanes : {8, 4}) {
    if (*length - done < lanes)
      continue;
    k.lanes = lanes;
    BodyEvaluator::Scope scope(task.evaluator);
    body(Index::of(k.materialize(k.add(first, done)), 1));
    k.lanes = kLanes;
    done += lanes;
  }
  if (done < *length)
    inLoop(k.materialize(k.add(first, done)), end, 1);
}

WalkPlan codegen::planWalk(ArrayRef<Extent> shape, ArrayRef<bool> canMerge,
                           bool mergeInner) {
  WalkPlan plan;
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] != Extent{0, 1})
      plan.dims.push_back(d);
  ArrayRef<size_t> dims = plan.dims;

  // The innermost run.
  plan.firstInner = dims.size();
  while (plan.firstInner > 0) {
    size_t dim = dims[plan.firstInner - 1];
    if (plan.firstInner < dims.size()) {
      bool together = mergeInner;
      for (size_t d = dim; d < dims[plan.firstInner]; ++d)
        together &= canMerge[d];
      if (!together)
        break;
    }
    std::optional<Extent> merged = multiply(plan.inner, shape[dim]);
    if (!merged)
      break;
    plan.inner = *merged;
    --plan.firstInner;
  }
  // The longest run of outer dimensions whose number is affine.
  while (plan.lastUnit < plan.firstInner) {
    std::optional<Extent> more =
        multiply(plan.outer, shape[dims[plan.lastUnit]]);
    if (!more)
      break;
    plan.outer = *more;
    ++plan.lastUnit;
  }
  return plan;
}

std::optional<KernelShape>
codegen::iterate(KernelTask &task, ArrayRef<Extent> shape,
                 ArrayRef<bool> canMerge, int64_t costPerElement,
                 llvm::function_ref<void(ArrayRef<Index>)> body,
                 const InnerSegments *segments) {
  KernelBuilder &k = task.k;
  WalkPlan plan = planWalk(shape, canMerge, /*mergeInner=*/!segments);
  ArrayRef<size_t> dims = plan.dims;
  size_t firstInner = plan.firstInner, lastUnit = plan.lastUnit;
  Extent inner = plan.inner, outer = plan.outer;

  auto sizesOf = [&](size_t first, size_t last) {
    SmallVector<Size> sizes;
    for (size_t i = first; i < last; ++i)
      sizes.push_back(k.size(shape[dims[i]]));
    return sizes;
  };
  SmallVector<Size> innerSizes = sizesOf(firstInner, dims.size());
  auto callBody = [&](ArrayRef<Index> outerAt, ArrayRef<Index> middleAt,
                      const Index &position) {
    Coordinates at(shape.size(), Index::of(0));
    Coordinates innerAt = k.delinearize(position, innerSizes);
    for (size_t i = 0; i < dims.size(); ++i)
      at[dims[i]] = i < lastUnit     ? outerAt[i]
                    : i < firstInner ? middleAt[i - lastUnit]
                                     : innerAt[i - firstInner];
    body(at);
  };
  auto overSegments = [&](Value from, Value to, std::optional<int64_t> length,
                          llvm::function_ref<void(const Index &)> each) {
    if (!segments)
      return iterateRange(task, from, to, length, each);
    for (size_t i = 0; i + 1 < segments->bounds.size(); ++i) {
      int64_t low = segments->bounds[i], high = segments->bounds[i + 1];
      segments->enter(i);
      if (length) {
        iterateRange(task, k.constantI64(low), k.constantI64(high), high - low,
                     each);
        continue;
      }
      // The part of the range in this segment, maybe empty.
      Index first = k.maximum(Index::of(from), Index::of(low));
      Index last = k.maximum(first, k.minimum(Index::of(to), Index::of(high)));
      iterateRange(task, k.materialize(first), k.materialize(last),
                   std::nullopt, each);
    }
    segments->enter(segments->bounds.size());
  };
  auto grainFor = [&](int64_t elementsPerUnit) {
    int64_t weight = std::max<int64_t>(1, costPerElement / 8);
    return std::max<int64_t>(
        1, kGrainElements / std::max<int64_t>(1, elementsPerUnit) / weight);
  };

  if (firstInner == 0) {
    // All of it is one run: a unit is an element.
    overSegments(k.begin, k.end, std::nullopt,
                 [&](const Index &position) { callBody({}, {}, position); });
    return KernelShape{inner, grainFor(1)};
  }

  int64_t blocks = 1;
  if (inner.isStatic() && inner.base > kMaxInner && lastUnit == firstInner)
    blocks = (inner.base + kBlock - 1) / kBlock;
  std::optional<Extent> units = multiply(outer, Extent{0, blocks});
  if (!units)
    return std::nullopt;
  SmallVector<Size> outerSizes = sizesOf(0, lastUnit);
  SmallVector<Size> middleSizes = sizesOf(lastUnit, firstInner);
  Value innerEnd = k.value(k.size(inner));
  k.loop(
      k.begin, k.end, 1, {}, [&](Value unit, ValueRange) -> SmallVector<Value> {
        BodyEvaluator::Scope scope(task.evaluator);
        Index row = Index::of(unit);
        Value from = k.constantI64(0), to = innerEnd;
        std::optional<int64_t> length;
        if (inner.isStatic())
          length = inner.base;
        if (blocks > 1) {
          row = k.divide(Index::of(unit), Size::of(blocks));
          Index block = k.remainder(Index::of(unit), Size::of(blocks));
          Index first = k.mul(block, Size::of(kBlock));
          from = k.materialize(first);
          to = k.materialize(
              k.minimum(k.add(first, kBlock), Index::of(inner.base)));
          length = std::nullopt;
        }
        Coordinates outerAt = k.delinearize(row, outerSizes);
        Coordinates middleAt;
        std::function<void(size_t)> nest = [&](size_t i) {
          if (i == middleSizes.size())
            return overSegments(from, to, length, [&](const Index &position) {
              callBody(outerAt, middleAt, position);
            });
          k.loop(k.constantI64(0), k.value(middleSizes[i]), 1, {},
                 [&](Value at, ValueRange) -> SmallVector<Value> {
                   BodyEvaluator::Scope inside(task.evaluator);
                   middleAt.push_back(Index::of(at));
                   nest(i + 1);
                   middleAt.pop_back();
                   return {};
                 });
        };
        nest(0);
        return {};
      });
  int64_t elements = inner.isStatic() ? inner.base / blocks : 1024;
  return KernelShape{*units, grainFor(elements)};
}

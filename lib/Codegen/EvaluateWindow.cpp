//===- EvaluateWindow.cpp - Pools and contractions at a position ----------===//
//
// The part of BodyEvaluator for ops that combine a window or a contracted
// dimension. The order is fixed: window positions in row-major order, channels
// inside; k of a matmul in order. Where all lanes see the same window its loop
// runs over the positions inside the input only; where they differ, positions
// outside are clamped and leave the result unchanged.
//
//===----------------------------------------------------------------------===//
#include "BodyEvaluator.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

using arith::CmpIPredicate;

static bool isChannelsLast(Layout layout) { return layout == Layout::NHWC; }

/// The dimension of a tensor that holds spatial dimension `i`.
static int64_t spatialDim(Layout layout, int64_t i) {
  return isChannelsLast(layout) ? 1 + i : 2 + i;
}

static int64_t channelDim(Layout layout, int64_t rank) {
  return isChannelsLast(layout) ? rank - 1 : 1;
}

/// ceil(max(a, 0) / b).
static Index ceilDivide(KernelBuilder &k, const Index &a, int64_t b) {
  return k.divide(k.maximum(k.add(a, b - 1), Index::of(0)), Size::of(b));
}

BodyEvaluator::Values BodyEvaluator::overWindow(
    const WindowShape &w, Key at, Values carried,
    llvm::function_ref<Values(ArrayRef<Index>, ArrayRef<Index>, Value, Values)>
        body) {
  Coordinates window, position;
  std::function<Values(size_t, Value, Values)> level =
      [&](size_t i, Value inside, Values values) -> Values {
    if (i == w.window.size()) {
      Scope scope(*this);
      return body(window, position, inside, std::move(values));
    }
    int64_t dim = spatialDim(w.layout, i);
    Size size = k.size(w.input, dim);
    // Position of the window's first element, before the padding is clipped.
    Index origin = k.add(k.mul(at[dim], Size::of(w.strides[i])), -w.padLow[i]);
    Index first = Index::of(0), last = Index::of(w.window[i]);
    bool padded = w.padLow[i] > 0 || w.padHigh[i] > 0;
    bool uniform = origin.isUniform();
    if (padded && uniform) {
      Index zero = Index::of(0);
      first = ceilDivide(k, k.sub(zero, origin), w.dilations[i]);
      last = k.minimum(
          last, ceilDivide(k, k.sub(k.fromSize(size), origin), w.dilations[i]));
    }
    auto step = [&](const Index &at, Values inner) {
      Index p = k.add(origin, k.mul(at, Size::of(w.dilations[i])));
      Value here = inside;
      if (padded && !uniform) {
        here =
            k.logicalAnd(here, k.compare(CmpIPredicate::sge, p, Index::of(0)));
        here = k.logicalAnd(here,
                            k.compare(CmpIPredicate::slt, p, k.fromSize(size)));
        p = k.clampTo(p, size);
      }
      window.push_back(at);
      position.push_back(p);
      Values next = level(i + 1, here, std::move(inner));
      window.pop_back();
      position.pop_back();
      return next;
    };
    if (w.window[i] == 1 && !(padded && uniform))
      return step(Index::of(0), std::move(values));
    return k.loop(k.materialize(first), k.materialize(last), 1, values,
                  [&](Value j, ValueRange inner) -> SmallVector<Value> {
                    return step(Index::of(j), Values(inner));
                  });
  };
  return level(0, nullptr, std::move(carried));
}

/// Coordinates of the input with the spatial ones replaced.
static Coordinates inputCoordinates(Layout layout, BodyEvaluator::Key at,
                                    ArrayRef<Index> spatial) {
  Coordinates from(at.begin(), at.end());
  for (auto [i, index] : llvm::enumerate(spatial))
    from[spatialDim(layout, i)] = index;
  return from;
}

Value BodyEvaluator::keepIf(Value inside, Value changed, Value old) {
  return inside ? k.select(inside, changed, old) : changed;
}

Value BodyEvaluator::evaluateMaxPool(MaxPoolOp op, Key at) {
  bool wide = !isUniform(at);
  WindowShape shape{op.getInput(),    op.getLayout(), op.getWindow(),
                    op.getStrides(),  op.getPadLow(), op.getPadHigh(),
                    op.getDilations()};
  Type compute = k.computeType(op.getInput().getType());
  Value start = k.splatIf(reductionIdentity(k, ReduceKind::Max, compute), wide);
  return overWindow(
      shape, at, {start},
      [&](ArrayRef<Index>, ArrayRef<Index> position, Value inside,
          Values carried) -> Values {
        Value x = evaluate(op.getInput(),
                           inputCoordinates(op.getLayout(), at, position));
        Value larger = combineReduction(k, ReduceKind::Max, carried[0],
                                        k.splatIf(x, wide));
        return {keepIf(inside, larger, carried[0])};
      })[0];
}

Value BodyEvaluator::evaluateMaxPoolGrad(MaxPoolGradOp op, Key at) {
  bool wide = !isUniform(at);
  Type element = getElementTypeOrSelf(op.getInput().getType());
  Type compute = k.computeType(element);
  WindowShape shape{op.getInput(),    op.getLayout(), op.getWindow(),
                    op.getStrides(),  op.getPadLow(), op.getPadHigh(),
                    op.getDilations()};
  auto flag = [&](bool set) {
    return k.splatIf(k.constantInt(k.b.getI1Type(), APInt(1, set)), wide);
  };
  auto isNan = [&](Value v) {
    return k.op<arith::CmpFOp>(arith::CmpFPredicate::UNO, v, v);
  };
  Value yes = flag(true);

  // Whether the window at `window` chooses the element at `at`: as arg_max, but
  // for padding. Carried: the largest element, whether there is one, and
  // whether it is the element at `at`.
  auto choosesThis = [&](Key window) -> Value {
    Value start = k.splatIf(k.constant(compute, 0.0), wide);
    return overWindow(
        shape, window, {start, flag(false), flag(false)},
        [&](ArrayRef<Index>, ArrayRef<Index> position, Value inside,
            Values carried) -> Values {
          Coordinates from = inputCoordinates(op.getLayout(), at, position);
          Value x = k.splatIf(evaluate(op.getInput(), from), wide);
          Value better =
              k.op<arith::CmpFOp>(arith::CmpFPredicate::OGT, x, carried[0]);
          better = k.op<arith::OrIOp>(
              better,
              k.op<arith::AndIOp>(isNan(x),
                                  k.op<arith::XOrIOp>(isNan(carried[0]), yes)));
          better =
              k.op<arith::OrIOp>(better, k.op<arith::XOrIOp>(carried[1], yes));
          better = k.logicalAnd(inside, better);
          Value here;
          for (auto [i, p] : llvm::enumerate(position))
            here = k.logicalAnd(here,
                                k.compare(CmpIPredicate::eq, p,
                                          at[spatialDim(op.getLayout(), i)]));
          return {k.select(better, x, carried[0]),
                  k.op<arith::OrIOp>(carried[1], better),
                  k.select(better, k.splatIf(here, wide), carried[2])};
        })[2];
  };
  SmallVector<Size> box;
  for (int64_t size : op.getWindow())
    box.push_back(Size::of(size));
  Value sum =
      nest(box, {zeroOf(element, wide)},
           [&](ArrayRef<Index> offset, Values carried) -> Values {
             Coordinates window(at.begin(), at.end());
             Value meets = meetStrided(op.getGrad(), op.getLayout(), offset,
                                       op.getStrides(), op.getPadLow(),
                                       op.getDilations(), window);
             Value grad = k.splatIf(evaluate(op.getGrad(), window), wide);
             Value next = k.op<arith::AddFOp>(carried[0], grad);
             return {keepIf(k.logicalAnd(meets, choosesThis(window)), next,
                            carried[0])};
           })[0];
  return k.round(sum, element);
}

Value BodyEvaluator::evaluateAvgPool(AvgPoolOp op, Key at) {
  bool wide = !isUniform(at);
  Type element = getElementTypeOrSelf(op.getInput().getType());
  WindowShape shape{op.getInput(),    op.getLayout(), op.getWindow(),
                    op.getStrides(),  op.getPadLow(), op.getPadHigh(),
                    op.getDilations()};
  Type compute = k.computeType(element);
  bool counts = !op.getCountIncludePad();
  Values carried{zeroOf(element, wide)};
  if (counts)
    carried.push_back(zeroOf(element, wide));
  Value one = k.splatIf(k.constant(compute, 1.0), wide);
  Values sums = overWindow(
      shape, at, carried,
      [&](ArrayRef<Index>, ArrayRef<Index> position, Value inside,
          Values values) -> Values {
        Value x = evaluate(op.getInput(),
                           inputCoordinates(op.getLayout(), at, position));
        Values next{keepIf(inside,
                           k.op<arith::AddFOp>(values[0], k.splatIf(x, wide)),
                           values[0])};
        if (counts)
          next.push_back(
              keepIf(inside, k.op<arith::AddFOp>(values[1], one), values[1]));
        return next;
      });
  int64_t volume = 1;
  for (int64_t size : op.getWindow())
    volume *= size;
  Value count =
      counts
          ? sums[1]
          : k.splatIf(k.constant(compute, static_cast<double>(volume)), wide);
  return k.round(k.op<arith::DivFOp>(sums[0], count), element);
}

Value BodyEvaluator::finishContraction(Value sum, Value bias,
                                       const Index &channel, Type element) {
  if (bias) {
    Value addend = evaluate(bias, {channel});
    sum = k.op<arith::AddFOp>(
        sum, k.splatIf(addend, isa<VectorType>(sum.getType())));
  }
  return k.round(sum, element);
}

Value BodyEvaluator::evaluateConv(ConvOp op, Key at) {
  bool wide = !isUniform(at);
  auto weightType = cast<RankedTensorType>(op.getWeights().getType());
  Type element = weightType.getElementType();
  SmallVector<int64_t> window(weightType.getShape().drop_front(2));
  WindowShape shape{op.getInput(),    op.getLayout(), window,
                    op.getStrides(),  op.getPadLow(), op.getPadHigh(),
                    op.getDilations()};
  int64_t dim = channelDim(op.getLayout(), weightType.getRank());
  int64_t groupIn = weightType.getDimSize(1);
  int64_t groupOut =
      weightType.getDimSize(0) / static_cast<int64_t>(op.getGroups());
  Index out = at[dim];
  Index firstIn = op.getGroups() == 1 ? Index::of(0)
                                      : k.mul(k.divide(out, Size::of(groupOut)),
                                              Size::of(groupIn));
  Value sum = overWindow(
      shape, at, {zeroOf(element, wide)},
      [&](ArrayRef<Index> offset, ArrayRef<Index> position, Value inside,
          Values carried) -> Values {
        return nest({Size::of(groupIn)}, carried,
                    [&](ArrayRef<Index> channel, Values values) -> Values {
                      Coordinates from =
                          inputCoordinates(op.getLayout(), at, position);
                      from[dim] = k.add(firstIn, channel[0]);
                      Coordinates weight{out, channel[0]};
                      weight.append(offset.begin(), offset.end());
                      Value next =
                          multiplyAdd(values[0], evaluate(op.getInput(), from),
                                      evaluate(op.getWeights(), weight));
                      return {keepIf(inside, next, values[0])};
                    });
      })[0];
  return finishContraction(sum, op.getBias(), out, element);
}

Value BodyEvaluator::meetStrided(Value image, Layout layout,
                                 ArrayRef<Index> offset,
                                 ArrayRef<int64_t> strides,
                                 ArrayRef<int64_t> padLow,
                                 ArrayRef<int64_t> dilations, Coordinates &at) {
  Value inside;
  for (auto [i, w] : llvm::enumerate(offset)) {
    int64_t d = spatialDim(layout, i), stride = strides[i];
    Size size = k.size(image, d);
    Index p = k.sub(k.add(at[d], padLow[i]), k.mul(w, Size::of(dilations[i])));
    inside =
        k.logicalAnd(inside, k.compare(CmpIPredicate::sge, p, Index::of(0)));
    // Below zero the quotient is not used.
    Index positive = k.maximum(p, Index::of(0));
    Index quotient = k.divide(positive, Size::of(stride));
    if (stride > 1)
      inside = k.logicalAnd(inside, k.compare(CmpIPredicate::eq,
                                              k.mul(quotient, Size::of(stride)),
                                              positive));
    inside = k.logicalAnd(
        inside, k.compare(CmpIPredicate::slt, quotient, k.fromSize(size)));
    at[d] = k.clampTo(quotient, size);
  }
  return inside;
}

Value BodyEvaluator::evaluateConvTranspose(ConvTransposeOp op, Key at) {
  bool wide = !isUniform(at);
  auto weightType = cast<RankedTensorType>(op.getWeights().getType());
  Type element = weightType.getElementType();
  int64_t groups = op.getGroups();
  int64_t groupIn = weightType.getDimSize(0) / groups;
  int64_t groupOut = weightType.getDimSize(1);
  int64_t dim = channelDim(op.getLayout(), weightType.getRank());
  Index out = at[dim];
  Index group = k.divide(out, Size::of(groupOut));
  Index outInGroup = groups == 1 ? out : k.remainder(out, Size::of(groupOut));
  Index firstIn = groups == 1 ? Index::of(0) : k.mul(group, Size::of(groupIn));
  SmallVector<Size> box;
  for (int64_t size : weightType.getShape().drop_front(2))
    box.push_back(Size::of(size));
  Value sum = nest(
      box, {zeroOf(element, wide)},
      [&](ArrayRef<Index> offset, Values carried) -> Values {
        Coordinates from(at.begin(), at.end());
        Value inside =
            meetStrided(op.getInput(), op.getLayout(), offset, op.getStrides(),
                        op.getPadLow(), op.getDilations(), from);
        return nest({Size::of(groupIn)}, carried,
                    [&](ArrayRef<Index> channel, Values values) -> Values {
                      from[dim] = k.add(firstIn, channel[0]);
                      Coordinates weight{from[dim], outInGroup};
                      weight.append(offset.begin(), offset.end());
                      Value next =
                          multiplyAdd(values[0], evaluate(op.getInput(), from),
                                      evaluate(op.getWeights(), weight));
                      return {keepIf(inside, next, values[0])};
                    });
      })[0];
  return finishContraction(sum, op.getBias(), out, element);
}

Value BodyEvaluator::evaluateMatmul(MatmulOp op, Key at) {
  bool wide = !isUniform(at);
  Type element = getElementTypeOrSelf(op.getResult().getType());
  size_t rank = at.size();
  size_t rhsRank = cast<RankedTensorType>(op.getRhs().getType()).getRank();
  Size depth = k.size(op.getLhs(), op.getTransposeLhs() ? rank - 2 : rank - 1);
  Value sum = nest({depth}, {zeroOf(element, wide)},
                   [&](ArrayRef<Index> inner, Values carried) -> Values {
                     Coordinates lhs(at.begin(), at.end() - 2), rhs;
                     if (rhsRank > 2)
                       rhs.append(at.begin(), at.end() - 2);
                     lhs.append({at[rank - 2], inner[0]});
                     rhs.append({inner[0], at[rank - 1]});
                     if (op.getTransposeLhs())
                       std::swap(lhs[rank - 2], lhs[rank - 1]);
                     if (op.getTransposeRhs())
                       std::swap(rhs[rhsRank - 2], rhs[rhsRank - 1]);
                     return {multiplyAdd(carried[0], evaluate(op.getLhs(), lhs),
                                         evaluate(op.getRhs(), rhs))};
                   })[0];
  return k.round(sum, element);
}

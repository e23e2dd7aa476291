//===- Reductions.cpp - reduce, arg_max, arg_min --------------------------===//
//
// Sums and products of floats are accumulated in f64, in row-major order of the
// reduced elements, and rounded once.
//
//===----------------------------------------------------------------------===//

#include "OpRules.h"
#include "Scalars.h"

#include <limits>

using namespace fusion;
using namespace fusion::reference;

/// `accumulated` combined with one more element. `mean` sums; the division
/// comes last.
static double combine(ReduceKind kind, double accumulated, double x) {
  switch (kind) {
  case ReduceKind::Sum:
  case ReduceKind::Mean:
    return accumulated + x;
  case ReduceKind::Prod:
    return accumulated * x;
  case ReduceKind::Max:
    return maximum(accumulated, x);
  case ReduceKind::Min:
    return minimum(accumulated, x);
  }
  llvm_unreachable("covered above");
}

static int64_t combine(ReduceKind kind, int64_t accumulated, int64_t x) {
  switch (kind) {
  case ReduceKind::Sum:
  case ReduceKind::Mean:
    return wrapAdd(accumulated, x);
  case ReduceKind::Prod:
    return wrapMul(accumulated, x);
  case ReduceKind::Max:
    return maximum(accumulated, x);
  case ReduceKind::Min:
    return minimum(accumulated, x);
  }
  llvm_unreachable("covered above");
}

static llvm::Expected<Tensor> evaluateReduce(ReduceOp op, Tensors inputs,
                                             const OpContext &context) {
  const Tensor &x = inputs[0];
  ReduceKind kind = op.getKind();
  Shape kept, reduced; // dimensions
  for (int64_t dim = 0; dim < x.getRank(); ++dim)
    (llvm::is_contained(op.getDims(), dim) ? reduced : kept).push_back(dim);
  Shape shape, window;
  for (int64_t dim : kept)
    shape.push_back(x.getDim(dim));
  for (int64_t dim : reduced)
    window.push_back(x.getDim(dim));
  // Sizes whose product overflows belong to a tensor without elements.
  int64_t terms = getNumElements(window).value_or(0);

  llvm::Expected<Tensor> y = context.allocate(x.getKind(), shape);
  if (!y)
    return y;
  bool needsElement = kind == ReduceKind::Max || kind == ReduceKind::Min;
  if (needsElement && terms == 0 && y->getNumElements() != 0)
    return failAt(op, FailureKind::Program,
                  "the largest or smallest of no elements; reduce a dimension "
                  "that is not empty");

  int64_t to = 0;
  forEachIndex(shape, [&](llvm::ArrayRef<int64_t> index) {
    Shape source(x.getRank());
    for (auto [i, dim] : llvm::enumerate(kept))
      source[dim] = index[i];
    // Sums start at 0, products at 1; the largest starts at the first element.
    bool first = needsElement;
    double floats = kind == ReduceKind::Prod ? 1 : 0;
    int64_t ints = kind == ReduceKind::Prod ? 1 : 0;
    forEachIndex(window, [&](llvm::ArrayRef<int64_t> inner) {
      for (auto [i, dim] : llvm::enumerate(reduced))
        source[dim] = inner[i];
      int64_t from = x.offsetOf(source);
      if (x.isFloat())
        floats =
            first ? x.getFloat(from) : combine(kind, floats, x.getFloat(from));
      else
        ints = first ? x.getInt(from) : combine(kind, ints, x.getInt(from));
      first = false;
    });
    if (kind == ReduceKind::Mean)
      floats /= static_cast<double>(terms); // 0 / 0 is NaN
    if (x.isFloat())
      y->setFloat(to++, floats);
    else
      y->setInt(to++, ints);
  });
  return y;
}

/// Whether `x` takes the place of `best`: a NaN beats every number and no later
/// NaN beats it.
template <typename T>
static bool beats(T x, T best, bool largest, bool selectLast) {
  if constexpr (std::is_same_v<T, double>) {
    if (std::isnan(best))
      return false;
    if (std::isnan(x))
      return true;
  }
  if (x == best)
    return selectLast;
  return largest ? x > best : x < best;
}

template <typename OpT>
static llvm::Expected<Tensor> evaluateArg(OpT op, Tensors inputs,
                                          const OpContext &context) {
  constexpr bool largest = std::is_same_v<OpT, ArgMaxOp>;
  const Tensor &x = inputs[0];
  int64_t axis = op.getAxis(), size = x.getDim(axis);
  Shape shape(x.getShape());
  shape.erase(shape.begin() + axis);
  llvm::Expected<Tensor> y = context.allocate(ElementKind::I64, shape);
  if (!y)
    return y;
  if (size == 0 && y->getNumElements() != 0)
    return failAt(op, FailureKind::Program,
                  "no position in an empty dimension");
  int64_t to = 0;
  forEachIndex(shape, [&](llvm::ArrayRef<int64_t> index) {
    Shape source(index);
    source.insert(source.begin() + axis, 0);
    int64_t best = x.offsetOf(source), position = 0;
    for (int64_t i = 1; i < size; ++i) {
      source[axis] = i;
      int64_t at = x.offsetOf(source);
      bool better = x.isFloat() ? beats(x.getFloat(at), x.getFloat(best),
                                        largest, op.getSelectLast())
                                : beats(x.getInt(at), x.getInt(best), largest,
                                        op.getSelectLast());
      if (better) {
        best = at;
        position = i;
      }
    }
    y->setInt(to++, position);
  });
  return y;
}

void fusion::reference::addReductionRules(RuleTable &rules) {
  rules.add(evaluateReduce);
  rules.add(evaluateArg<ArgMaxOp>);
  rules.add(evaluateArg<ArgMinOp>);
}

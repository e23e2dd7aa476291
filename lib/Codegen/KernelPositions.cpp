//===- KernelPositions.cpp - Arithmetic on positions ----------------------===//
//
// The part of KernelBuilder that computes with sizes and positions. Constants
// are folded here, so that addresses are short and equal positions are equal.
// Sizes are computed once, at the kernel's entry.
//
//===----------------------------------------------------------------------===//
#include "KernelBuilder.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

Value KernelBuilder::constantI64(int64_t number) {
  Value &known = constants[number];
  if (!known) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(entryEnd);
    known = arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(number));
  }
  return known;
}

Value KernelBuilder::value(Size size) {
  return size.isStatic() ? constantI64(size.constant) : size.value;
}

Size KernelBuilder::size(Extent extent) {
  if (extent.isStatic())
    return Size::of(extent.base);
  Value &known = extentValues[{extent.scale, extent.base}];
  if (!known) {
    OpBuilder::InsertionGuard guard(b);
    Value scale = constantI64(extent.scale), base = constantI64(extent.base);
    b.setInsertionPoint(entryEnd);
    known = batch;
    if (extent.scale != 1)
      known = op<arith::MulIOp>(known, scale);
    if (extent.base != 0)
      known = op<arith::AddIOp>(known, base);
  }
  return {known, 0};
}

SmallVector<Size> KernelBuilder::shape(Value tensor) {
  SmallVector<Size> sizes;
  for (Extent extent : extents.getShape(tensor))
    sizes.push_back(size(extent));
  return sizes;
}

Size KernelBuilder::product(Size a, Size c) {
  if (a.isStatic() && c.isStatic())
    return Size::of(a.constant * c.constant);
  if (a.is(1))
    return c;
  if (c.is(1))
    return a;
  if (a.is(0) || c.is(0))
    return Size::of(0);
  for (auto &[factors, result] : products)
    if ((factors.first == a && factors.second == c) ||
        (factors.first == c && factors.second == a))
      return result;
  Value left = value(a), right = value(c);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(entryEnd);
  Size result{op<arith::MulIOp>(left, right), 0};
  products.push_back({{a, c}, result});
  return result;
}

Size KernelBuilder::product(ArrayRef<Size> sizes) {
  // From the innermost out, as strides are computed.
  Size result = Size::of(1);
  for (const Size &size : llvm::reverse(sizes))
    result = product(result, size);
  return result;
}

SmallVector<Size> KernelBuilder::strides(ArrayRef<Size> shape) {
  SmallVector<Size> result(shape.size(), Size::of(1));
  for (size_t i = shape.size(); i-- > 1;)
    result[i - 1] = product(result[i], shape[i]);
  return result;
}

//===----------------------------------------------------------------------===//
// Positions
//===----------------------------------------------------------------------===//

Value KernelBuilder::materialize(const Index &given) {
  Index index = resolve(given);
  if (!index.isUniform())
    return materializeLanes(index);
  if (!index.base)
    return constantI64(index.constant);
  if (index.constant == 0)
    return index.base;
  return op<arith::AddIOp>(index.base, constantI64(index.constant));
}

Value KernelBuilder::materializeLanes(const Index &given) {
  Index index = resolve(given);
  if (index.lanes)
    return index.lanes;
  Index first = index;
  first.stride = 0;
  Value start = splat(materialize(first));
  if (index.stride == 0)
    return start;
  SmallVector<int64_t> steps;
  for (int64_t lane = 0; lane < lanes; ++lane)
    steps.push_back(lane * index.stride);
  auto type = vectorOf(b.getI64Type());
  TypedAttr attr = DenseElementsAttr::get(type, ArrayRef<int64_t>(steps));
  return op<arith::AddIOp>(start, op<arith::ConstantOp>(attr));
}

Index KernelBuilder::resolve(const Index &index) {
  if (index.lanes || !index.isPart())
    return index;
  Index plain = index;
  plain.divisor = Size::of(1);
  plain.modulus = Size::of(0);
  Index result = divide(plain, index.divisor);
  return index.modulus.is(0) ? result : remainder(result, index.modulus);
}

Index KernelBuilder::atLane(const Index &given, Value lane) {
  Index index = resolve(given);
  if (index.lanes)
    return Index::of(extract(index.lanes, lane));
  if (index.stride == 0)
    return index;
  Index first = index;
  first.stride = 0;
  APInt known;
  if (matchPattern(lane, m_ConstantInt(&known)))
    return add(first, Index::of(known.getSExtValue() * index.stride));
  Value offset = lane;
  if (index.stride != 1)
    offset = op<arith::MulIOp>(lane, constantI64(index.stride));
  return add(first, Index::of(offset));
}

/// a op b, on scalars if both are uniform, else on vectors.
template <typename OpTy>
Index KernelBuilder::combine(const Index &a, const Index &c) {
  if (a.isUniform() && c.isUniform())
    return Index::of(op<OpTy>(materialize(a), materialize(c)));
  return Index::ofLanes(op<OpTy>(materializeLanes(a), materializeLanes(c)));
}

Index KernelBuilder::add(const Index &givenA, const Index &givenB) {
  if (givenA.isZero())
    return givenB;
  if (givenB.isZero())
    return givenA;
  Index a = resolve(givenA), c = resolve(givenB);
  if (a.lanes || c.lanes)
    return Index::ofLanes(
        op<arith::AddIOp>(materializeLanes(a), materializeLanes(c)));
  Index sum;
  sum.constant = a.constant + c.constant;
  sum.stride = a.stride + c.stride;
  if (a.base && c.base)
    sum.base = op<arith::AddIOp>(a.base, c.base);
  else
    sum.base = a.base ? a.base : c.base;
  return sum;
}

Index KernelBuilder::sub(const Index &givenA, const Index &givenB) {
  Index a = resolve(givenA), c = resolve(givenB);
  if (a.lanes || c.lanes)
    return Index::ofLanes(
        op<arith::SubIOp>(materializeLanes(a), materializeLanes(c)));
  Index difference;
  difference.constant = a.constant - c.constant;
  difference.stride = a.stride - c.stride;
  difference.base = a.base;
  if (c.base)
    difference.base =
        op<arith::SubIOp>(a.base ? a.base : constantI64(0), c.base);
  return difference;
}

Index KernelBuilder::mul(const Index &given, Size factor) {
  if (factor.is(1))
    return given;
  if (factor.is(0) || given.isZero())
    return Index::of(0);
  Index index = resolve(given);
  if (!index.lanes && (factor.isStatic() || index.stride == 0)) {
    Index result;
    if (factor.isStatic()) {
      result.constant = index.constant * factor.constant;
      result.stride = index.stride * factor.constant;
      if (index.base)
        result.base = op<arith::MulIOp>(index.base, value(factor));
      return result;
    }
    result.base = op<arith::MulIOp>(materialize(index), value(factor));
    return result;
  }
  return combine<arith::MulIOp>(index, fromSize(factor));
}

Index KernelBuilder::divide(const Index &given, Size divisor) {
  if (divisor.is(1))
    return given;
  Index index = resolve(given);
  if (index.isConstant() && divisor.isStatic() && divisor.constant != 0)
    return Index::of(index.constant / divisor.constant);
  return combine<arith::DivUIOp>(index, fromSize(divisor));
}

Index KernelBuilder::remainder(const Index &given, Size divisor) {
  if (divisor.is(1))
    return Index::of(0);
  Index index = resolve(given);
  if (index.isConstant() && divisor.isStatic() && divisor.constant != 0)
    return Index::of(index.constant % divisor.constant);
  return combine<arith::RemUIOp>(index, fromSize(divisor));
}

Index KernelBuilder::minimum(const Index &a, const Index &c) {
  if (a.isConstant() && c.isConstant())
    return Index::of(std::min(a.constant, c.constant));
  return combine<arith::MinSIOp>(a, c);
}

Index KernelBuilder::maximum(const Index &a, const Index &c) {
  if (a.isConstant() && c.isConstant())
    return Index::of(std::max(a.constant, c.constant));
  return combine<arith::MaxSIOp>(a, c);
}

Value KernelBuilder::compare(arith::CmpIPredicate predicate, const Index &a,
                             const Index &c) {
  if (a.isUniform() && c.isUniform())
    return op<arith::CmpIOp>(predicate, materialize(a), materialize(c));
  return op<arith::CmpIOp>(predicate, materializeLanes(a), materializeLanes(c));
}

Index KernelBuilder::clampTo(const Index &index, Size size) {
  Index low = maximum(index, Index::of(0));
  return minimum(low, add(fromSize(size), -1));
}

Index KernelBuilder::linearize(ArrayRef<Index> coordinates,
                               ArrayRef<Size> shape) {
  SmallVector<Size> stride = strides(shape);
  Index flat = Index::of(0);
  for (size_t i = coordinates.size(); i-- > 0;) {
    Index part = coordinates[i];
    if (part.isZero())
      continue;
    Size step = stride[i];
    // Neighbours taken from one flat position fold back into it.
    while (i > 0) {
      size_t next = i - 1;
      while (next > 0 && shape[next].is(1))
        --next;
      const Index &outer = coordinates[next];
      if (part.lanes || part.modulus.is(0) || !outer.isPart() ||
          !outer.sameSource(part) ||
          outer.divisor != product(part.divisor, part.modulus) ||
          stride[next] != product(step, part.modulus))
        break;
      part.modulus = outer.modulus.is(0) ? Size::of(0)
                                         : product(part.modulus, outer.modulus);
      i = next;
    }
    flat = add(flat, mul(part, step));
  }
  return flat;
}

Coordinates KernelBuilder::delinearize(const Index &given,
                                       ArrayRef<Size> shape) {
  SmallVector<Size> stride = strides(shape);
  Index flat = given.lanes ? given : given;
  Coordinates coordinates(shape.size(), Index::of(0));
  size_t outermost = 0;
  while (outermost < shape.size() && shape[outermost].is(1))
    ++outermost;
  for (size_t i = outermost; i < shape.size(); ++i) {
    if (shape[i].is(1))
      continue;
    bool isOutermost = i == outermost;
    if (flat.isConstant() || flat.lanes) {
      Index quotient = divide(flat, stride[i]);
      coordinates[i] = isOutermost ? quotient : remainder(quotient, shape[i]);
      continue;
    }
    Index part = flat;
    part.divisor = product(stride[i], flat.divisor);
    // What is known to be below the product of the sizes needs no outer bound.
    part.modulus = isOutermost && flat.modulus.is(0) ? Size::of(0) : shape[i];
    coordinates[i] = part;
  }
  return coordinates;
}

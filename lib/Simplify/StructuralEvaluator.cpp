//===- StructuralEvaluator.cpp - Moves, sums and products on constants ----===//
//
// Moves copy boxes: a walk over indices with one stride a dimension on either
// side. Reductions and matmuls accumulate in f64, or in 64-bit integers.
//
//===----------------------------------------------------------------------===//
#include "ConstantEvaluator.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>
#include <cstring>
#include <limits>

using namespace mlir;
using namespace fusion;

/// Distance in elements between neighbours along each dimension.
static SmallVector<int64_t> getStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (int64_t dim = static_cast<int64_t>(shape.size()) - 2; dim >= 0; --dim)
    strides[dim] = strides[dim + 1] * shape[dim + 1];
  return strides;
}

namespace {
/// One side of a copy: the element at index i is `offset + sum i * strides`.
struct Side {
  int64_t offset = 0;
  SmallVector<int64_t> strides;
};
} // namespace

static Side getSide(const TensorData &data) {
  SmallVector<int64_t> strides = getStrides(data.getType().getShape());
  return {0, std::move(strides)};
}

/// Calls `f(to, from)` with the element offsets of every index of `shape`.
template <typename F>
static void forEachIndex(ArrayRef<int64_t> shape, const Side &to,
                         const Side &from, F f) {
  if (llvm::is_contained(shape, 0))
    return;
  SmallVector<int64_t> index(shape.size(), 0);
  int64_t a = to.offset, b = from.offset;
  while (true) {
    f(a, b);
    int64_t dim = static_cast<int64_t>(shape.size()) - 1;
    for (; dim >= 0; --dim) {
      a += to.strides[dim];
      b += from.strides[dim];
      if (++index[dim] < shape[dim])
        break;
      a -= to.strides[dim] * shape[dim];
      b -= from.strides[dim] * shape[dim];
      index[dim] = 0;
    }
    if (dim < 0)
      return;
  }
}

namespace {
/// A result that is being filled.
class Output {
public:
  explicit Output(Operation *op)
      : type(cast<RankedTensorType>(op->getResult(0).getType())),
        size(getElementBytes(type.getElementType())),
        bytes(type.getNumElements() * size),
        dense{0, getStrides(type.getShape())} {}

  void copy(ArrayRef<int64_t> shape, const Side &to, const TensorData &source,
            const Side &from) {
    forEachIndex(shape, to, from, [&](int64_t a, int64_t b) {
      std::memcpy(at(a), source.getElement(b), size);
    });
  }
  char *at(int64_t i) { return bytes.data() + i * size; }
  TensorData take() {
    return TensorData::own(type, std::move(bytes), /*isSplat=*/false);
  }

  RankedTensorType type;
  int64_t size;
  std::vector<char> bytes;
  /// The whole result in row-major order.
  Side dense;
};
} // namespace

//===----------------------------------------------------------------------===//
// Moves
//===----------------------------------------------------------------------===//

static TensorData move(BroadcastOp op, ArrayRef<TensorData> operands) {
  Output out(op);
  Side source = getSide(operands[0]), from;
  from.strides.assign(out.type.getRank(), 0);
  for (auto [i, dim] : llvm::enumerate(op.getDims()))
    if (operands[0].getType().getDimSize(i) != 1)
      from.strides[dim] = source.strides[i];
  out.copy(out.type.getShape(), out.dense, operands[0], from);
  return out.take();
}

static TensorData move(TransposeOp op, ArrayRef<TensorData> operands) {
  Output out(op);
  Side source = getSide(operands[0]), from;
  for (int64_t dim : op.getPermutation())
    from.strides.push_back(source.strides[dim]);
  out.copy(out.type.getShape(), out.dense, operands[0], from);
  return out.take();
}

static TensorData move(SliceOp op, ArrayRef<TensorData> operands) {
  Output out(op);
  Side from = getSide(operands[0]);
  for (int64_t dim = 0; dim < out.type.getRank(); ++dim) {
    from.offset += op.getStarts()[dim] * from.strides[dim];
    from.strides[dim] *= op.getStrides()[dim];
  }
  out.copy(out.type.getShape(), out.dense, operands[0], from);
  return out.take();
}

static TensorData move(ReverseOp op, ArrayRef<TensorData> operands) {
  Output out(op);
  Side from = getSide(operands[0]);
  for (int64_t dim : op.getDims()) {
    from.offset += (out.type.getDimSize(dim) - 1) * from.strides[dim];
    from.strides[dim] = -from.strides[dim];
  }
  out.copy(out.type.getShape(), out.dense, operands[0], from);
  return out.take();
}

static TensorData move(ConcatOp op, ArrayRef<TensorData> operands) {
  Output out(op);
  int64_t axis = op.getAxis();
  Side to = out.dense;
  for (const TensorData &operand : operands) {
    out.copy(operand.getType().getShape(), to, operand, getSide(operand));
    to.offset += operand.getType().getDimSize(axis) * to.strides[axis];
  }
  return out.take();
}

static TensorData move(PadOp op, ArrayRef<TensorData> operands) {
  Output out(op);
  for (int64_t i = 0, e = out.type.getNumElements(); i < e; ++i)
    std::memcpy(out.at(i), operands[1].getElement(0), out.size);
  Side to = out.dense;
  for (int64_t dim = 0; dim < out.type.getRank(); ++dim)
    to.offset += op.getLow()[dim] * to.strides[dim];
  out.copy(operands[0].getType().getShape(), to, operands[0],
           getSide(operands[0]));
  return out.take();
}

static TensorData move(GatherOp op, ArrayRef<TensorData> operands) {
  Output out(op);
  const TensorData &input = operands[0], &indices = operands[1];
  int64_t axis = op.getAxis(), batchDims = op.getBatchDims();
  ArrayRef<int64_t> shape = input.getType().getShape();
  auto count = [](ArrayRef<int64_t> extents) {
    return ShapedType::getNumElements(extents);
  };
  int64_t batch = count(shape.take_front(batchDims));
  int64_t outer = count(shape.slice(batchDims, axis - batchDims));
  int64_t inner = count(shape.drop_front(axis + 1));
  int64_t picks = count(indices.getType().getShape().drop_front(batchDims));
  int64_t size = shape[axis], to = 0;
  if (out.type.getNumElements() == 0)
    return out.take();
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < picks; ++i) {
        int64_t index =
            std::clamp<int64_t>(indices.getInt(b * picks + i), 0, size - 1);
        int64_t from = ((b * outer + o) * size + index) * inner;
        for (int64_t k = 0; k < inner; ++k)
          std::memcpy(out.at(to++), input.getElement(from + k), out.size);
      }
  return out.take();
}

static TensorData move(IotaOp op, ArrayRef<TensorData>) {
  Output out(op);
  Type type = out.type.getElementType();
  int64_t axis = op.getAxis(), stride = out.dense.strides[axis];
  for (int64_t i = 0, e = out.type.getNumElements(); i < e; ++i) {
    int64_t value = i / stride % out.type.getDimSize(axis);
    if (isa<FloatType>(type))
      storeFloat(type, static_cast<double>(value), out.at(i));
    else
      storeInt(type, value, out.at(i));
  }
  return out.take();
}

TensorData fusion::detail::evaluateMove(Operation *op,
                                        ArrayRef<TensorData> operands) {
  return TypeSwitch<Operation *, TensorData>(op)
      .Case<BroadcastOp, TransposeOp, SliceOp, ReverseOp, ConcatOp, PadOp,
            GatherOp, IotaOp>([&](auto typed) { return move(typed, operands); })
      .Case([&](ReshapeOp reshape) {
        return operands[0].withType(reshape.getType());
      })
      .Default([](Operation *) { return TensorData(); });
}

//===----------------------------------------------------------------------===//
// Reductions and products
//===----------------------------------------------------------------------===//

static double combine(ReduceKind kind, double a, double b) {
  switch (kind) {
  case ReduceKind::Sum:
  case ReduceKind::Mean:
    return a + b;
  case ReduceKind::Prod:
    return a * b;
  case ReduceKind::Max:
    if (std::isnan(a) || std::isnan(b))
      return std::numeric_limits<double>::quiet_NaN();
    return a == b ? (std::signbit(a) ? b : a) : std::max(a, b);
  case ReduceKind::Min:
    if (std::isnan(a) || std::isnan(b))
      return std::numeric_limits<double>::quiet_NaN();
    return a == b ? (std::signbit(a) ? a : b) : std::min(a, b);
  }
  return a;
}

static int64_t combine(ReduceKind kind, int64_t a, int64_t b) {
  switch (kind) {
  case ReduceKind::Sum:
  case ReduceKind::Mean:
    return static_cast<int64_t>(uint64_t(a) + uint64_t(b));
  case ReduceKind::Prod:
    return static_cast<int64_t>(uint64_t(a) * uint64_t(b));
  case ReduceKind::Max:
    return std::max(a, b);
  case ReduceKind::Min:
    return std::min(a, b);
  }
  return a;
}

/// Reduces with `load` and `store` for elements of type `T`.
template <typename T, typename Load, typename Store>
static TensorData reduce(ReduceOp op, const TensorData &input, Load load,
                         Store store) {
  Output out(op);
  ReduceKind kind = op.getKind();
  T initial = kind == ReduceKind::Prod ? T(1) : T(0);
  std::vector<T> values(out.type.getNumElements(), initial);
  // Sums start at 0, so that no element of -0.0 gives a sum of -0.0; the
  // largest starts at the first element.
  std::vector<bool> started(values.size(),
                            kind != ReduceKind::Max && kind != ReduceKind::Min);
  Side to;
  int64_t kept = 0, reduced = 1;
  for (int64_t dim = 0; dim < input.getType().getRank(); ++dim) {
    if (llvm::is_contained(op.getDims(), dim)) {
      to.strides.push_back(0);
      reduced *= input.getType().getDimSize(dim);
    } else {
      to.strides.push_back(out.dense.strides[kept++]);
    }
  }
  forEachIndex(input.getType().getShape(), to, getSide(input),
               [&](int64_t a, int64_t b) {
                 T element = load(input, b);
                 values[a] =
                     started[a] ? combine(kind, values[a], element) : element;
                 started[a] = true;
               });
  for (auto [i, value] : llvm::enumerate(values))
    store(out.type.getElementType(),
          kind == ReduceKind::Mean ? value / T(reduced) : value, out.at(i));
  return out.take();
}

static TensorData contract(ReduceOp op, ArrayRef<TensorData> operands) {
  if (isa<FloatType>(operands[0].getElementType()))
    return reduce<double>(
        op, operands[0],
        [](const TensorData &data, int64_t i) { return data.getFloat(i); },
        storeFloat);
  return reduce<int64_t>(
      op, operands[0],
      [](const TensorData &data, int64_t i) { return data.getInt(i); },
      storeInt);
}

template <typename T, typename Load, typename Store>
static TensorData multiply(MatmulOp op, const TensorData &lhs,
                           const TensorData &rhs, Load load, Store store) {
  Output out(op);
  ArrayRef<int64_t> shape = out.type.getShape();
  int64_t rank = shape.size(), m = shape[rank - 2], n = shape[rank - 1];
  ArrayRef<int64_t> lhsShape = lhs.getType().getShape();
  int64_t k = lhsShape[op.getTransposeLhs() ? rank - 2 : rank - 1];
  int64_t batches = ShapedType::getNumElements(shape.drop_back(2));
  bool isShared = rhs.getType().getRank() == 2;
  auto at = [](int64_t row, int64_t column, int64_t rows, int64_t columns,
               bool transposed) {
    return transposed ? column * rows + row : row * columns + column;
  };
  for (int64_t b = 0; b < batches; ++b)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        T sum = 0;
        for (int64_t l = 0; l < k; ++l) {
          T x = load(lhs, b * m * k + at(i, l, m, k, op.getTransposeLhs()));
          T y = load(rhs, (isShared ? 0 : b * k * n) +
                              at(l, j, k, n, op.getTransposeRhs()));
          T product = x * y;
          sum = sum + product;
        }
        store(out.type.getElementType(), sum, out.at((b * m + i) * n + j));
      }
  return out.take();
}

static TensorData contract(MatmulOp op, ArrayRef<TensorData> operands) {
  if (isa<FloatType>(operands[0].getElementType()))
    return multiply<double>(
        op, operands[0], operands[1],
        [](const TensorData &data, int64_t i) { return data.getFloat(i); },
        storeFloat);
  // Unsigned, since wrapping is what integers do here.
  return multiply<uint64_t>(
      op, operands[0], operands[1],
      [](const TensorData &data, int64_t i) {
        return static_cast<uint64_t>(data.getInt(i));
      },
      [](Type type, uint64_t value, char *to) {
        storeInt(type, static_cast<int64_t>(value), to);
      });
}

TensorData fusion::detail::evaluateContraction(Operation *op,
                                               ArrayRef<TensorData> operands) {
  return TypeSwitch<Operation *, TensorData>(op)
      .Case<ReduceOp, MatmulOp>(
          [&](auto typed) { return contract(typed, operands); })
      .Default([](Operation *) { return TensorData(); });
}

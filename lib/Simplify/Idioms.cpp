//===- Idioms.cpp - How idiom matchers read a graph -----------------------===//
//
// The vocabulary of the matchers. Canonical form is assumed to find an idiom,
// never to be right about one: every shape and every map is checked.
//
//===----------------------------------------------------------------------===//
#include "Idioms.h"
#include "fusion/Support/SeededBugs.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fusion;

StringRef Idiom::getOpName() const {
  switch (kind) {
  case IdiomKind::LayerNorm:
    return LayerNormOp::getOperationName();
  case IdiomKind::RmsNorm:
    return RmsNormOp::getOperationName();
  case IdiomKind::Softmax:
    return SoftmaxOp::getOperationName();
  case IdiomKind::LogSoftmax:
    return LogSoftmaxOp::getOperationName();
  case IdiomKind::Gelu:
    return GeluOp::getOperationName();
  case IdiomKind::Silu:
    return SiluOp::getOperationName();
  }
  return "";
}

void Idiom::addRounding(StringRef reason) {
  if (!llvm::is_contained(roundings, reason))
    roundings.push_back(reason);
}

void Idiom::print(raw_ostream &os) const {
  os << getOpName() << ": ";
  if (!refusal.empty()) {
    os << "not raised: " << refusal << "\n";
    return;
  }
  os << interior.size() << " ops";
  for (StringRef reason : roundings)
    os << ", " << reason;
  os << "\n";
}

RankedTensorType fusion::getTensorType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

std::optional<double> fusion::getSplatNumber(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (auto constant = dyn_cast<ConstantOp>(op)) {
      auto splat = dyn_cast<SplatElementsAttr>(constant.getValue());
      if (!splat || splat.getNumElements() == 0 ||
          !isa<FloatType>(splat.getElementType()))
        return std::nullopt;
      return splat.getSplatValue<FloatAttr>().getValueAsDouble();
    }
    if (!isa<BroadcastOp, ReshapeOp>(op))
      return std::nullopt;
    value = op->getOperand(0);
  }
  return std::nullopt;
}

Value fusion::getOther(Operation *binary, Value value) {
  if (binary->getNumOperands() != 2)
    return {};
  if (binary->getOperand(0) == value)
    return binary->getOperand(1);
  return binary->getOperand(1) == value ? binary->getOperand(0) : Value();
}

std::optional<SplatOperand> fusion::getSplatOperand(Operation *op) {
  if (op->getNumOperands() != 2)
    return std::nullopt;
  Value lhs = op->getOperand(0), rhs = op->getOperand(1);
  std::optional<double> left = getSplatNumber(lhs), right = getSplatNumber(rhs);
  if (right && !left)
    return SplatOperand{lhs, *right, false};
  if (left && !right)
    return SplatOperand{rhs, *left, true};
  return std::nullopt;
}

/// The sizes that are not 1, in order.
static SmallVector<int64_t> getWideSizes(RankedTensorType type) {
  return llvm::to_vector(llvm::make_filter_range(
      type.getShape(), [](int64_t size) { return size != 1; }));
}

static bool changesUnitDimsOnly(ReshapeOp op) {
  return getWideSizes(getTensorType(op.getInput())) ==
         getWideSizes(op.getType());
}

Value fusion::skipUnitReshapes(Value value, Idiom &idiom) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>()) {
    if (!changesUnitDimsOnly(reshape))
      break;
    idiom.take(reshape);
    value = reshape.getInput();
  }
  return value;
}

Value fusion::matchSpreadRows(Value value, ArrayRef<int64_t> rows,
                              Idiom &idiom) {
  RankedTensorType type = getTensorType(value);
  SmallVector<int64_t> kept, mapped;
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    if (!llvm::is_contained(rows, dim) && type.getDimSize(dim) != 1)
      kept.push_back(dim);
  if (auto broadcast = value.getDefiningOp<BroadcastOp>()) {
    RankedTensorType from = getTensorType(broadcast.getInput());
    for (auto [size, dim] : llvm::zip(from.getShape(), broadcast.getDims()))
      if (size != 1)
        mapped.push_back(dim);
    if (mapped != kept)
      return {};
    idiom.take(broadcast);
    return skipUnitReshapes(broadcast.getInput(), idiom);
  }
  // Rows of one element: nothing is repeated.
  if (llvm::any_of(rows,
                   [&](int64_t dim) { return type.getDimSize(dim) != 1; }))
    return {};
  Value from = skipUnitReshapes(value, idiom);
  return from == value ? Value() : from;
}

Value fusion::matchPerColumn(Value value, int64_t axis) {
  RankedTensorType type = getTensorType(value);
  SmallVector<int64_t> columns, mapped;
  for (int64_t dim = axis; dim < type.getRank(); ++dim)
    if (type.getDimSize(dim) != 1)
      columns.push_back(dim);
  if (auto broadcast = value.getDefiningOp<BroadcastOp>()) {
    RankedTensorType from = getTensorType(broadcast.getInput());
    for (auto [size, dim] : llvm::zip(from.getShape(), broadcast.getDims()))
      if (size != 1)
        mapped.push_back(dim);
    if (seededBug(4) && from.getShape() == type.getShape().drop_front(axis))
      return broadcast.getInput();
    return mapped == columns ? broadcast.getInput() : Value();
  }
  // A single row: what is there is for each column.
  if (llvm::any_of(type.getShape().take_front(axis),
                   [](int64_t size) { return size != 1; }))
    return {};
  return value;
}

Operation *fusion::getOnlyReader(Value &value, Idiom &idiom) {
  while (value.hasOneUse()) {
    Operation *reader = *value.user_begin();
    auto reshape = dyn_cast<ReshapeOp>(reader);
    if (!reshape || !changesUnitDimsOnly(reshape))
      return reader;
    idiom.take(reshape);
    value = reshape.getResult();
  }
  return nullptr;
}

std::string fusion::findOutsideReader(const Idiom &idiom) {
  llvm::SmallPtrSet<Operation *, 16> inside(idiom.interior.begin(),
                                            idiom.interior.end());
  for (Operation *op : idiom.interior) {
    if (op == idiom.root)
      continue;
    for (Operation *reader : op->getUsers())
      if (!inside.contains(reader))
        return llvm::formatv("the interior value of {0} is read by {1} too",
                             op->getName(), reader->getName());
  }
  return {};
}

bool fusion::areStatic(RankedTensorType type, ArrayRef<int64_t> dims) {
  return llvm::none_of(dims, [&](int64_t dim) {
    return ShapedType::isDynamic(type.getDimSize(dim));
  });
}

std::string fusion::formatNumber(double value) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%g", value);
  return text;
}

std::string fusion::formatDims(ArrayRef<int64_t> dims) {
  return llvm::formatv("[{0:$[, ]}]",
                       llvm::make_range(dims.begin(), dims.end()));
}

void fusion::addNarrowRounding(Idiom &idiom) {
  Type element = getTensorType(idiom.input).getElementType();
  if (element.isF16() || element.isBF16())
    idiom.addRounding("16-bit steps become one in f32");
}

//===- Reshard.cpp - From one sharding of a value to another --------------===//
//
// See Reshard.h. Order of the steps: finish partial sums (a reduce-scatter
// where the axis then cuts the last dimension it may), swap cuts between
// dimensions, gather what is cut too much, cut what is not cut enough.
//
//===----------------------------------------------------------------------===//
#include "Reshard.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fusion;

struct LocalValues::Move {
  Value local;
  Sharding now;
  RankedTensorType global;
  Location loc;

  RankedTensorType getType() const { return now.getLocalType(global); }
};

void LocalValues::set(Value value, Value local, const Sharding &sharding) {
  copies[value].push_back({sharding, local});
}

//===----------------------------------------------------------------------===//
// Small pieces
//===----------------------------------------------------------------------===//

Value LocalValues::getPosition(ArrayRef<unsigned> axes, Location loc) {
  ArrayAttr names = mesh.getAxes(axes);
  Value &position = positions[names];
  if (!position) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(builder.getInsertionBlock());
    position = AxisIndexOp::create(
        builder, loc, RankedTensorType::get({}, builder.getI64Type()),
        mesh.getSymbol(), names);
  }
  return position;
}

Value LocalValues::splat(Attribute value, RankedTensorType type, Location loc) {
  auto scalar = RankedTensorType::get({}, type.getElementType());
  Value constant =
      ConstantOp::create(builder, loc, SplatElementsAttr::get(scalar, value));
  if (type.getRank() == 0)
    return constant;
  return BroadcastOp::create(builder, loc, type, constant,
                             builder.getDenseI64ArrayAttr({}));
}

Value LocalValues::splat(int64_t value, RankedTensorType type, Location loc) {
  return splat(builder.getIntegerAttr(type.getElementType(), value), type, loc);
}

Value LocalValues::getOffset(const DimSharding &cut, ArrayRef<int64_t> shape,
                             Location loc) {
  auto scalar = RankedTensorType::get({}, builder.getI64Type());
  Value offset = MulOp::create(builder, loc, getPosition(cut.axes, loc),
                               splat(cut.local, scalar, loc));
  if (shape.empty())
    return offset;
  return BroadcastOp::create(builder, loc,
                             RankedTensorType::get(shape, builder.getI64Type()),
                             offset, builder.getDenseI64ArrayAttr({}));
}

Attribute LocalValues::getNeutral(ReduceKind reduce, Type type) {
  Builder b(type.getContext());
  if (auto floats = dyn_cast<FloatType>(type)) {
    const llvm::fltSemantics &semantics = floats.getFloatSemantics();
    switch (reduce) {
    case ReduceKind::Prod:
      return b.getFloatAttr(type, 1.0);
    case ReduceKind::Max:
      return b.getFloatAttr(type, APFloat::getInf(semantics, true));
    case ReduceKind::Min:
      return b.getFloatAttr(type, APFloat::getInf(semantics, false));
    default:
      return b.getFloatAttr(type, 0.0);
    }
  }
  unsigned width = type.getIntOrFloatBitWidth();
  switch (reduce) {
  case ReduceKind::Prod:
    return b.getIntegerAttr(type, 1);
  case ReduceKind::Max:
    return b.getIntegerAttr(type, APInt::getSignedMinValue(width));
  case ReduceKind::Min:
    return b.getIntegerAttr(type, APInt::getSignedMaxValue(width));
  default:
    return b.getIntegerAttr(type, 0);
  }
}

Value LocalValues::mask(Value local, unsigned dim, const DimSharding &cut,
                        int64_t size, Attribute neutral, Location loc) {
  auto type = cast<RankedTensorType>(local.getType());
  auto line = RankedTensorType::get({cut.local}, builder.getI64Type());
  Value index = IotaOp::create(builder, loc, line, builder.getI64IntegerAttr(0),
                               builder.getI64IntegerAttr(1));
  index = AddOp::create(builder, loc, index, getOffset(cut, {cut.local}, loc));
  Value inside = CompareOp::create(builder, loc, CompareKind::Lt, index,
                                   splat(size, line, loc));
  inside = BroadcastOp::create(
      builder, loc, RankedTensorType::get(type.getShape(), builder.getI1Type()),
      inside, builder.getDenseI64ArrayAttr({int64_t(dim)}));
  return SelectOp::create(builder, loc, type, inside, local,
                          splat(neutral, type, loc));
}

/// `local` with `size` elements in dimension `dim`, the new ones neutral.
Value LocalValues::pad(Value local, unsigned dim, int64_t size, ReduceKind kind,
                       Location loc) {
  auto type = cast<RankedTensorType>(local.getType());
  if (type.getDimSize(dim) == size)
    return local;
  SmallVector<int64_t> low(type.getRank(), 0), high(type.getRank(), 0);
  high[dim] = size - type.getDimSize(dim);
  Type element = type.getElementType();
  Value neutral =
      splat(getNeutral(kind, element), RankedTensorType::get({}, element), loc);
  return PadOp::create(builder, loc, local, neutral,
                       builder.getDenseI64ArrayAttr(low),
                       builder.getDenseI64ArrayAttr(high));
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

static ReduceKindAttr getKindAttr(MLIRContext *context, ReduceKind kind) {
  return ReduceKindAttr::get(context, kind);
}

/// Finishes the partial sums that `to` does not have any more.
void LocalValues::reduce(Move &move, const Sharding &to) {
  AxisSet open = move.now.partial & ~to.partial;
  if (!open)
    return;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointAfterValue(move.local);
  // Constants that padding needs are made in front of it.
  for (auto [dim, want] : llvm::enumerate(to.dims)) {
    DimSharding &cut = move.now.dims[dim];
    if (want.axes.size() <= cut.axes.size() ||
        ArrayRef(want.axes).take_front(cut.axes.size()) != ArrayRef(cut.axes))
      continue;
    ArrayRef<unsigned> more = ArrayRef(want.axes).drop_front(cut.axes.size());
    if (!llvm::all_of(more, [&](unsigned axis) { return has(open, axis); }))
      continue;
    int64_t padded = want.local * mesh.ranks(more);
    // The parts of a part must be those of the whole.
    if (!cut.axes.empty() && cut.local != padded)
      continue;
    move.local = pad(move.local, dim, padded, move.now.kind, move.loc);
    cut = want;
    move.local = ReduceScatterOp::create(
                     builder, move.loc, TypeRange(move.getType()),
                     getKindAttr(builder.getContext(), move.now.kind),
                     ValueRange(move.local), builder.getI64IntegerAttr(dim),
                     mesh.getSymbol(), mesh.getAxes(more))
                     .getResult(0);
    for (unsigned axis : more)
      open &= ~axisBit(axis);
  }
  SmallVector<unsigned> axes;
  for (unsigned axis = 0; axis < mesh.size(); ++axis)
    if (has(open, axis))
      axes.push_back(axis);
  if (!axes.empty())
    move.local =
        AllReduceOp::create(builder, move.loc, TypeRange(move.getType()),
                            getKindAttr(builder.getContext(), move.now.kind),
                            ValueRange(move.local), mesh.getSymbol(),
                            mesh.getAxes(axes))
            .getResult(0);
  move.now.partial &= to.partial;
}

/// Moves the last axis of one dimension to the end of another: each rank sends
/// a part to each.
void LocalValues::exchange(Move &move, const Sharding &to) {
  for (auto [from, cut] : llvm::enumerate(move.now.dims)) {
    if (cut.axes.empty() || cut.axes.size() != to.dims[from].axes.size() + 1 ||
        ArrayRef(cut.axes).drop_back() != ArrayRef(to.dims[from].axes))
      continue;
    unsigned axis = cut.axes.back();
    int64_t ranks = mesh.sizes[axis];
    for (auto [dim, target] : llvm::enumerate(move.now.dims)) {
      const DimSharding &want = to.dims[dim];
      if (dim == from || want.axes.size() != target.axes.size() + 1 ||
          want.axes.back() != axis ||
          ArrayRef(want.axes).drop_back() != ArrayRef(target.axes) ||
          target.local != want.local * ranks ||
          to.dims[from].local != cut.local * ranks)
        continue;
      target = want;
      cut = to.dims[from];
      move.local = AllToAllOp::create(
                       builder, move.loc, TypeRange(move.getType()),
                       ValueRange(move.local), builder.getI64IntegerAttr(dim),
                       builder.getI64IntegerAttr(from), mesh.getSymbol(),
                       mesh.getAxes({axis}))
                       .getResult(0);
      return;
    }
  }
}

/// Gathers dimension `dim` over all axes but the first `keep`; without any,
/// what was padding is cut off.
void LocalValues::gather(Move &move, unsigned dim, size_t keep) {
  DimSharding &cut = move.now.dims[dim];
  SmallVector<unsigned> axes(ArrayRef(cut.axes).drop_front(keep));
  cut.axes.truncate(keep);
  cut.local *= mesh.ranks(ArrayRef<unsigned>(axes));
  move.local = AllGatherOp::create(builder, move.loc, TypeRange(move.getType()),
                                   ValueRange(move.local),
                                   builder.getI64IntegerAttr(dim),
                                   mesh.getSymbol(), mesh.getAxes(axes))
                   .getResult(0);
  int64_t size = move.global.getDimSize(dim);
  if (keep != 0 || cut.local == size)
    return;
  cut.local = size;
  RankedTensorType type = move.getType();
  SmallVector<int64_t> starts(type.getRank(), 0), strides(type.getRank(), 1);
  SmallVector<int64_t> limits;
  for (int64_t extent : type.getShape())
    limits.push_back(ShapedType::isDynamic(extent) ? -1 : extent);
  move.local = SliceOp::create(builder, move.loc, move.local,
                               builder.getDenseI64ArrayAttr(starts),
                               builder.getDenseI64ArrayAttr(limits),
                               builder.getDenseI64ArrayAttr(strides));
}

/// Keeps this rank's part of dimension `dim`; rows behind the end are copies of
/// the last one.
void LocalValues::cut(Move &move, unsigned dim, const DimSharding &to) {
  DimSharding &cut = move.now.dims[dim];
  DimSharding step{to.axes, to.local};
  step.axes.erase(step.axes.begin(), step.axes.begin() + cut.axes.size());
  cut = to;
  auto line = RankedTensorType::get({to.local}, builder.getI64Type());
  Value index =
      IotaOp::create(builder, move.loc, line, builder.getI64IntegerAttr(0),
                     builder.getI64IntegerAttr(1));
  index = AddOp::create(builder, move.loc, index,
                        getOffset(step, {to.local}, move.loc));
  move.local = GatherOp::create(builder, move.loc, move.local, index,
                                builder.getI64IntegerAttr(dim),
                                builder.getI64IntegerAttr(0));
}

/// Whether all elements are known to be 0.
static bool isZero(Value local) {
  while (auto broadcast = local.getDefiningOp<BroadcastOp>())
    local = broadcast.getInput();
  auto constant = local.getDefiningOp<ConstantOp>();
  auto splat =
      constant ? dyn_cast<SplatElementsAttr>(constant.getValue()) : nullptr;
  if (!splat)
    return false;
  if (isa<FloatType>(splat.getElementType()))
    return splat.getSplatValue<APFloat>().isPosZero();
  return splat.getSplatValue<APInt>().isZero();
}

/// Leaves the value on the first rank along `axes`, zeros on the others.
void LocalValues::makePartial(Move &move, AxisSet axes) {
  SmallVector<unsigned> list;
  for (unsigned axis = 0; axis < mesh.size(); ++axis)
    if (has(axes, axis))
      list.push_back(axis);
  RankedTensorType type = move.getType();
  auto scalar = RankedTensorType::get({}, builder.getI64Type());
  Value isFirst = CompareOp::create(builder, move.loc, CompareKind::Eq,
                                    getPosition(list, move.loc),
                                    splat(int64_t(0), scalar, move.loc));
  if (type.getRank() != 0)
    isFirst = BroadcastOp::create(
        builder, move.loc,
        RankedTensorType::get(type.getShape(), builder.getI1Type()), isFirst,
        builder.getDenseI64ArrayAttr({}));
  Value zero =
      splat(getNeutral(ReduceKind::Sum, type.getElementType()), type, move.loc);
  move.local =
      SelectOp::create(builder, move.loc, type, isFirst, move.local, zero);
  move.now.partial |= axes;
}

//===----------------------------------------------------------------------===//
// All steps
//===----------------------------------------------------------------------===//

/// What can be made small at once: a constant of one value, or a broadcast of
/// something that is not cut.
static Value makeSmall(Value local, const Sharding &from, const Sharding &to,
                       RankedTensorType global, OpBuilder &builder) {
  if (from.getAxes() || from.partial)
    return {};
  RankedTensorType type = to.getLocalType(global);
  if (auto constant = local.getDefiningOp<ConstantOp>())
    if (auto splat = dyn_cast<SplatElementsAttr>(constant.getValue()))
      return ConstantOp::create(
          builder, local.getLoc(),
          SplatElementsAttr::get(type, splat.getSplatValue<Attribute>()));
  auto broadcast = local.getDefiningOp<BroadcastOp>();
  if (!broadcast)
    return {};
  for (auto [dim, size] : llvm::zip_equal(
           broadcast.getDims(), broadcast.getInput().getType().getShape()))
    if (!to.dims[dim].axes.empty() && size != 1)
      return {};
  for (int64_t dim : broadcast.getDims())
    if (!to.dims[dim].axes.empty() && to.dims[dim].local == 0)
      return {};
  return BroadcastOp::create(builder, local.getLoc(), type,
                             broadcast.getInput(), broadcast.getDimsAttr(),
                             broadcast.getBatchScaleAttr());
}

static double getBytes(RankedTensorType type) {
  double bytes = llvm::divideCeil(type.getElementTypeBitWidth(), 8);
  for (int64_t size : type.getShape())
    bytes *= ShapedType::isDynamic(size) ? 1 : size;
  return bytes;
}

/// Kept from its first use to the last, a parameter would be whole on every
/// rank during most of the step: it is gathered again once others of more bytes
/// have been.
void LocalValues::forget(SmallVectorImpl<Copy> &known,
                         RankedTensorType global) const {
  llvm::erase_if(known, [&](const Copy &copy) {
    return copy.gathered && gatheredBytes - *copy.gathered > getBytes(global);
  });
}

Value LocalValues::get(Value value, const Sharding &to, Location loc) {
  SmallVector<Copy, 1> &known = copies.find(value)->second;
  forget(known, cast<RankedTensorType>(value.getType()));
  for (const Copy &copy : known)
    if (copy.sharding == to)
      return copy.local;
  auto global = cast<RankedTensorType>(value.getType());
  const Copy *replicated = llvm::find_if(
      known, [](const Copy &copy) { return copy.sharding.isReplicated(); });
  // Parts of a maximum are no addends.
  const Sharding &first = known.front().sharding;
  AxisSet added = to.partial & ~(first.kind == to.kind ? first.partial : 0);
  // A sum that was finished for another use counts on one rank alone.
  if (replicated != known.end() && to.kind == ReduceKind::Sum)
    added = to.partial;
  if (added) {
    Sharding whole = to;
    whole.partial &= ~added;
    Move move{get(value, whole, loc), whole, global, loc};
    if (!isZero(move.local))
      makePartial(move, added);
    copies[value].push_back({to, move.local});
    return move.local;
  }
  // Cutting what every rank has whole costs nothing.
  const Copy *from =
      replicated == known.end() || to.partial ? &known.front() : replicated;
  Move move{from->local, from->sharding, global, loc};
  if (Value small = makeSmall(move.local, move.now, to, move.global, builder)) {
    known.push_back({to, small});
    return small;
  }
  if (move.now.partial & ~to.partial) {
    reduce(move, to);
    if (!(move.now == to))
      known.push_back({move.now, move.local});
  }
  exchange(move, to);
  for (unsigned dim = 0; dim < to.dims.size(); ++dim) {
    const DimSharding &now = move.now.dims[dim], &want = to.dims[dim];
    if (now == want)
      continue;
    size_t common = 0;
    while (common < std::min(now.axes.size(), want.axes.size()) &&
           now.axes[common] == want.axes[common])
      ++common;
    // Cutting further needs parts of parts, gathering less whole parts.
    int64_t finer = mesh.ranks(ArrayRef(want.axes).drop_front(common));
    int64_t coarser = mesh.ranks(ArrayRef(now.axes).drop_front(common));
    if (common != 0 && now.local * coarser != want.local * finer)
      common = 0;
    if (now.axes.size() > common)
      gather(move, dim, common);
  }
  for (unsigned dim = 0; dim < to.dims.size(); ++dim)
    if (move.now.dims[dim] != to.dims[dim])
      cut(move, dim, to.dims[dim]);
  known.push_back({to, move.local});
  // The shards of a parameter are gathered for one use, or two in a row.
  const Sharding &own = known.front().sharding;
  if ((own.stored & ~to.getAxes()) && !own.partial) {
    gatheredBytes += getBytes(move.global);
    known.back().gathered = gatheredBytes;
  }
  return move.local;
}

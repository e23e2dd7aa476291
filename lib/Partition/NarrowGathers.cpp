//===- NarrowGathers.cpp - Gathers in the narrower of two types -----------===//
//
// A training step in bf16 keeps its parameters in f32. A shard whose rows are
// looked up, or whose norm is widened again, was gathered in f32: twice the
// bytes over the wires and in memory. Casts work on each element alone, so a
// cast of a gather is the gather of a cast, whatever moves elements between the
// two; no bit changes.
//
// Values are followed forward, once each, and types are changed in place.
//
//===----------------------------------------------------------------------===//
#include "fusion/Analysis/FusionLegality.h"
#include "fusion/Analysis/FusionRules.h"
#include "fusion/Partition/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"
#include "llvm/ADT/SetVector.h"

#define DEBUG_TYPE "fusion-narrow-gathers"

namespace fusion {
#define GEN_PASS_DEF_NARROWGATHERS
#include "fusion/Partition/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

static Type getElement(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
}

/// Whether elements of `to` take fewer bytes than those of `from`. Bits are no
/// bytes to send.
static bool isNarrower(Type to, Type from) {
  unsigned bits = to.getIntOrFloatBitWidth();
  return bits >= 8 && bits < from.getIntOrFloatBitWidth();
}

/// Whether `op` moves the elements of `value` and changes none.
static bool moves(Operation *op, Value value) {
  if (isa<ReshapeOp, TransposeOp, SliceOp, ReverseOp>(op))
    return true;
  // Not the positions that it looks up.
  return isa<GatherOp, GatherNdOp>(op) && op->getOperand(0) == value &&
         op->getOperand(1) != value;
}

namespace {

/// What is decided of one gather.
struct NarrowedGather {
  AllGatherOp op;
  /// The type that all readers cast to, or null.
  Type type;
  llvm::SmallSetVector<Operation *, 4> moves; ///< between it and the casts
  SmallVector<CastOp> casts;
  /// A cast to `type` is there, and this reader is none.
  Operation *other = nullptr;
};

struct NarrowGathers : public fusion::impl::NarrowGathersBase<NarrowGathers> {
  void runOnOperation() override;
};

} // namespace

/// Follows the gathered value to the casts behind it.
static NarrowedGather followForward(AllGatherOp op) {
  NarrowedGather narrowed{op, {}, {}, {}, nullptr};
  Value gathered = op.getResult(0);
  SmallVector<Value> worklist{gathered};
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    for (Operation *user : value.getUsers()) {
      if (moves(user, value)) {
        if (narrowed.moves.insert(user))
          worklist.push_back(user->getResult(0));
        continue;
      }
      auto cast = dyn_cast<CastOp>(user);
      Type type = cast ? getElement(cast.getResult()) : Type();
      if (!cast || !isNarrower(type, getElement(gathered)) ||
          (narrowed.type && narrowed.type != type)) {
        narrowed.other = user;
        continue;
      }
      narrowed.type = type;
      narrowed.casts.push_back(cast);
    }
  }
  return narrowed;
}

/// A gather like `op` of another operand.
static AllGatherOp createGather(OpBuilder &builder, AllGatherOp op,
                                Value operand) {
  Type type = cast<RankedTensorType>(op.getResult(0).getType())
                  .clone(getElement(operand));
  OperationState state(op.getLoc(), op->getName(), operand, type,
                       op->getAttrs());
  return cast<AllGatherOp>(builder.create(state));
}

static void emitDecision(AllGatherOp op, FusionRule rule, Type type) {
  const FusionRuleInfo &info = getFusionRuleInfo(rule);
  remark::RemarkOpts options =
      remark::RemarkOpts::name(info.id).category("fusion");
  std::string from, to;
  llvm::raw_string_ostream(from) << getElement(op.getOperand(0));
  llvm::raw_string_ostream(to) << type;
  auto remark = info.accepts ? remark::passed(op.getLoc(), options)
                             : remark::missed(op.getLoc(), options);
  remark << remark::reason("{0}", info.text) << remark::metric("from", from)
         << remark::metric("to", to);
}

/// Casts ahead of the gather what is cast behind it.
static AllGatherOp castAhead(NarrowedGather &narrowed) {
  AllGatherOp op = narrowed.op;
  OpBuilder builder(op);
  Value operand = op.getOperand(0);
  auto shard = cast<RankedTensorType>(operand.getType());
  Value cast = CastOp::create(builder, narrowed.casts.front().getLoc(),
                              shard.clone(narrowed.type), operand);
  AllGatherOp narrow = createGather(builder, op, cast);
  op.getResult(0).replaceAllUsesWith(narrow.getResult(0));
  op.erase();
  for (Operation *move : narrowed.moves) {
    Value result = move->getResult(0);
    result.setType(
        mlir::cast<RankedTensorType>(result.getType()).clone(narrowed.type));
  }
  for (CastOp old : narrowed.casts) {
    old.getResult().replaceAllUsesWith(old.getInput());
    old.erase();
  }
  return narrow;
}

/// Casts ahead of a gather what all its readers cast, as often as they do.
static AllGatherOp narrow(AllGatherOp op) {
  while (true) {
    NarrowedGather narrowed = followForward(op);
    if (!narrowed.type)
      return op;
    emitDecision(op,
                 narrowed.other ? FusionRule::NarrowReader
                                : FusionRule::NarrowGather,
                 narrowed.type);
    if (narrowed.other)
      return op;
    op = castAhead(narrowed);
  }
}

/// Gathers what is widened ahead of the gather, and widens what is gathered.
static void widenBehind(AllGatherOp op) {
  while (true) {
    auto widened = op.getOperand(0).getDefiningOp<CastOp>();
    if (!widened || !isNarrower(getElement(widened.getInput()),
                                getElement(op.getOperand(0))))
      return;
    emitDecision(op, FusionRule::NarrowGather, getElement(widened.getInput()));
    OpBuilder builder(op);
    AllGatherOp narrow = createGather(builder, op, widened.getInput());
    Value wide = CastOp::create(builder, widened.getLoc(),
                                op.getResult(0).getType(), narrow.getResult(0));
    op.getResult(0).replaceAllUsesWith(wide);
    op.erase();
    if (widened->use_empty())
      widened.erase();
    op = narrow;
  }
}

void NarrowGathers::runOnOperation() {
  SmallVector<AllGatherOp> gathers;
  getOperation().walk([&](AllGatherOp op) {
    // As they are before buckets.
    if (op->getNumOperands() == 1)
      gathers.push_back(op);
  });
  // One may gather what another one has: casts come ahead of the last one
  // first, and behind the first one first.
  for (AllGatherOp &op : llvm::reverse(gathers))
    op = narrow(op);
  for (AllGatherOp op : gathers)
    widenBehind(op);
}

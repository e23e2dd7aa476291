//===- CanEmit.cpp - What the emitters take -------------------------------===//
//
// Asked of every group before it is emitted, so that a group written by hand or
// by a plugin gets a reason instead of a crash. What FusionLegality accepts
// passes: the groups of the fuse phase are never refused here.
//
//===----------------------------------------------------------------------===//
#include "Emitters.h"
#include "GroupHash.h"
#include "fusion/Analysis/FusionLegality.h"
#include "fusion/Support/SeededBugs.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

/// Ops that change coordinates, one behind the other, on a path: each is a
/// level of recursion of the evaluator.
static constexpr unsigned kMaxNesting = 256;

static bool isEmittable(Operation *op) {
  return isa<ElementwiseOpInterface>(op) ||
         isa<BroadcastOp, ReshapeOp, TransposeOp, SliceOp, ReverseOp, ConcatOp,
             PadOp, GatherOp, GatherNdOp, UpdateSliceOp, IotaOp, RngUniformOp,
             ReduceOp, ArgMaxOp, ArgMinOp, MaxPoolOp, AvgPoolOp, MaxPoolGradOp,
             ConvOp, ConvTransposeOp, MatmulOp, AttentionOp, AttentionGradOp,
             ScatterOp, YieldOp>(op);
}

bool codegen::canEmit(GroupOp group, std::string &reason) {
  llvm::DenseMap<Value, unsigned> nesting;
  for (Operation &op : *group.getBodyBlock()) {
    std::string name = op.getName().getStringRef().str();
    if (auto constant = dyn_cast<ConstantOp>(op)) {
      auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
      if (!dense || !dense.isSplat()) {
        reason =
            name +
            ": only a splat may stand inside a group; pass the tensor as an "
            "input";
        return false;
      }
      continue;
    }
    if (auto call = dyn_cast<KernelCallOp>(op)) {
      if (!canEmitUserKernel(call, reason))
        return false;
      continue;
    }
    if (!isEmittable(&op)) {
      reason = name + ": no emitter takes it";
      return false;
    }
    if (auto scatter = dyn_cast<ScatterOp>(op)) {
      Value result = scatter.getResult();
      if (result.hasOneUse())
        if (auto narrowed = dyn_cast<CastOp>(*result.user_begin());
            narrowed && isNarrowedInPlace(scatter, narrowed))
          result = narrowed.getResult();
      if (!result.hasOneUse() || !isa<YieldOp>(*result.user_begin())) {
        reason = name + ": only its group's yield may read it, or a cast that "
                        "its kernel narrows it by";
        return false;
      }
    }
    unsigned level = isa<ElementwiseOpInterface>(op) ? 0 : 1, deepest = 0;
    for (Value operand : op.getOperands())
      deepest = std::max(deepest, nesting.lookup(operand));
    if (level + deepest > kMaxNesting) {
      reason =
          name + ": more than " + std::to_string(kMaxNesting) +
          " ops that move elements follow each other; end the group before";
      return false;
    }
    for (Value result : op.getResults())
      nesting[result] = level + deepest;
  }
  return true;
}

/// Whether what is computed from one value a row, `start`, is only read in that
/// same row.
static bool staysInRow(Value start, const RowSpace &rows) {
  SmallVector<Value> worklist{start};
  llvm::DenseSet<Value> seen;
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    if (!seen.insert(value).second)
      continue;
    for (Operation *user : value.getUsers()) {
      if (isa<YieldOp>(user))
        continue;
      if (auto bcast = dyn_cast<BroadcastOp>(user)) {
        auto from = cast<RankedTensorType>(bcast.getInput().getType());
        if (cast<RankedTensorType>(bcast.getResult().getType()).getShape() !=
            ArrayRef<int64_t>(rows.shape))
          return false;
        // Every dimension that tells rows apart comes from its own one.
        llvm::SmallDenseSet<int64_t> given;
        for (auto [i, dim] : llvm::enumerate(bcast.getDims()))
          if (from.getDimSize(i) != 1)
            given.insert(dim);
        for (size_t d = 0; d < rows.shape.size(); ++d)
          if (rows.shape[d] != 1 && given.contains(d) == rows.isReduced(d))
            return false;
      } else if (auto reshape = dyn_cast<ReshapeOp>(user)) {
        auto from =
            cast<RankedTensorType>(reshape.getInput().getType()).getShape();
        auto to =
            cast<RankedTensorType>(reshape.getResult().getType()).getShape();
        if (!matchUnitDims(from, Coordinates(from.size()), to))
          return false;
      } else if (!isa<ElementwiseOpInterface, ReduceOp>(user)) {
        return false;
      }
      worklist.push_back(user->getResult(0));
    }
  }
  return true;
}

SmallVector<std::pair<unsigned, unsigned>>
codegen::findInPlacePairs(GroupOp group, const std::optional<RowSpace> &rows) {
  Block *body = group.getBodyBlock();
  // Inputs that are read anywhere but at the position being written.
  auto readsInPlace = [&](BlockArgument argument, ArrayRef<int64_t> shape) {
    SmallVector<Value> worklist{argument};
    llvm::DenseSet<Value> seen;
    while (!worklist.empty()) {
      Value value = worklist.pop_back_val();
      if (!seen.insert(value).second)
        continue;
      for (Operation *user : value.getUsers()) {
        if (isa<YieldOp>(user))
          continue;
        // A reduction is finished before the first element of its row is
        // stored.
        if (auto reduce = dyn_cast<ReduceOp>(user)) {
          if (!rows || ArrayRef<int64_t>(rows->shape) != shape ||
              !staysInRow(reduce.getResult(), *rows))
            return false;
          continue;
        }
        // Updates land where others are still to be read: only what the
        // scatter copies first, and reads as nothing else, may be below it.
        if (auto scatter = dyn_cast<ScatterOp>(user)) {
          if (value != argument || scatter.getInput() != value ||
              scatter.getUpdates() == value || scatter.getIndices() == value)
            return false;
          continue;
        }
        bool moves = seededBug(10) && isa<ReverseOp, TransposeOp>(user);
        if (!moves && !isa<ElementwiseOpInterface>(user))
          return false;
        worklist.push_back(user->getResult(0));
      }
    }
    return true;
  };
  llvm::DenseMap<Value, unsigned> count;
  for (Value input : group.getInputs())
    ++count[getBuffer(input)];
  OperandRange yielded = group.getYield().getValues();
  auto fits = [&](unsigned output, BlockArgument argument) {
    auto type = cast<RankedTensorType>(yielded[output].getType());
    auto from = cast<RankedTensorType>(argument.getType());
    // i1 takes a byte as i8 does.
    return from.getShape() == type.getShape() &&
           std::max(from.getElementTypeBitWidth(), 8u) ==
               std::max(type.getElementTypeBitWidth(), 8u) &&
           count.lookup(
               getBuffer(group.getInputs()[argument.getArgNumber()])) == 1 &&
           readsInPlace(argument, type.getShape());
  };
  SmallVector<std::pair<unsigned, unsigned>> pairs;
  llvm::SmallDenseSet<unsigned> taken, given;
  auto pair = [&](unsigned output, BlockArgument argument) {
    given.insert(output);
    taken.insert(argument.getArgNumber());
    pairs.push_back({output, argument.getArgNumber()});
  };
  // First those that the caller asks for: else a copy would have to follow.
  for (BlockArgument argument : body->getArguments()) {
    int64_t output = findDonatedOutput(group, argument.getArgNumber());
    if (output >= 0 && !given.contains(output) && fits(output, argument))
      pair(output, argument);
  }
  for (unsigned output = 0; output < yielded.size(); ++output)
    for (BlockArgument argument : body->getArguments())
      if (!given.contains(output) && !taken.contains(argument.getArgNumber()) &&
          fits(output, argument))
        pair(output, argument);
  return pairs;
}

//===- MergeProjections.cpp - One product for several projections ---------===//
//
// The thin pass around the decision (ProjectionPlan.cpp) and the packing
// (PackProjections.cpp): builds the merged product where the first member
// stands, and a slice for each.
//
//===----------------------------------------------------------------------===//
#include "Projections.h"
#include "fusion/Analysis/Explain.h"
#include "fusion/Analysis/PricedPass.h"
#include "fusion/Analysis/RewriteProof.h"
#include "fusion/Fuse/Passes.h"
#include "fusion/IR/Weights.h"

#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Debug.h"
#include "llvm/Support/FormatVariadic.h"

#define DEBUG_TYPE "fusion-merge-projections"

namespace fusion {
#define GEN_PASS_DEF_MERGEPROJECTIONS
#include "fusion/Fuse/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

static remark::RemarkOpts getOptions() {
  return remark::RemarkOpts::name("merge-projections").category("fusion");
}

/// `type` with another last dimension.
static RankedTensorType withWidth(Type type, int64_t width) {
  auto tensor = cast<RankedTensorType>(type);
  SmallVector<int64_t> shape(tensor.getShape());
  shape.back() = width;
  return RankedTensorType::get(shape, tensor.getElementType());
}

/// Columns [begin, begin + width) of `merged`.
static Value buildSlice(OpBuilder &builder, Location loc, Value merged,
                        int64_t begin, int64_t width) {
  auto type = cast<RankedTensorType>(merged.getType());
  SmallVector<int64_t> starts(type.getRank(), 0), strides(type.getRank(), 1);
  SmallVector<int64_t> limits;
  for (int64_t size : type.getShape())
    limits.push_back(ShapedType::isDynamic(size) ? -1 : size);
  starts.back() = begin;
  limits.back() = begin + width;
  return SliceOp::create(builder, loc, withWidth(type, width), merged,
                         builder.getDenseI64ArrayAttr(starts),
                         builder.getDenseI64ArrayAttr(limits),
                         builder.getDenseI64ArrayAttr(strides));
}

/// The merged product, its bias, and the ops that all members had behind it.
static Value buildMerged(OpBuilder &builder, Location loc,
                         const ProjectionSet &set, Value weights, Value bias) {
  const Projection &first = set.members.front();
  RankedTensorType type =
      withWidth(first.op->getResult(0).getType(), set.getWidth());
  Value merged;
  if (auto conv = dyn_cast<ConvOp>(first.op)) {
    merged = ConvOp::create(builder, loc, type, conv.getInput(), weights, bias,
                            conv.getStridesAttr(), conv.getPadLowAttr(),
                            conv.getPadHighAttr(), conv.getDilationsAttr(),
                            conv.getGroupsAttr(), conv.getLayoutAttr());
  } else {
    merged = MatmulOp::create(builder, loc, type, first.op->getOperand(0),
                              weights, /*transpose_lhs=*/UnitAttr(),
                              areAllTransposed(set) ? builder.getUnitAttr()
                                                    : UnitAttr());
    if (bias) {
      Value rows = BroadcastOp::create(
          builder, loc, type, bias,
          builder.getDenseI64ArrayAttr({type.getRank() - 1}),
          builder.getI64IntegerAttr(set.batchScale.value_or(1)));
      merged = AddOp::create(builder, loc, type, merged, rows);
    }
  }
  for (Operation *op : first.tail) {
    Operation *clone = builder.clone(*op);
    clone->setOperand(0, merged);
    clone->getResult(0).setType(
        withWidth(op->getResult(0).getType(), set.getWidth())
            .clone(type.getShape()));
    merged = clone->getResult(0);
  }
  return merged;
}

/// Adds the microseconds of the three ways.
template <typename Remark>
static void addTimes(Remark &remark, const MergeCost &cost) {
  for (auto [name, us] : {std::pair("us_copies", cost.copyUs),
                          std::pair("us_fused", cost.times.fusedUs),
                          std::pair("us_rereads", cost.rereadUs),
                          std::pair("us_serial", cost.times.serialUs),
                          std::pair("us_streams", cost.times.streamsUs)})
    remark << remark::metric(name, llvm::formatv("{0:f2}", us).str());
}

static void reportSet(const ProjectionSet &set) {
  Location loc = set.members.front().op->getLoc();
  if (!set.refusal.empty()) {
    auto remark = remark::missed(loc, getOptions());
    remark << remark::reason("{0}", set.refusal);
    if (set.cost.times.serialUs > 0)
      addTimes(remark, set.cost);
    return;
  }
  SmallVector<std::string> widths;
  for (const Projection &member : set.members)
    widths.push_back(std::to_string(member.width));
  int64_t biases = llvm::count_if(
      set.members, [](const Projection &member) { return member.bias; });
  auto remark = remark::passed(loc, getOptions());
  remark << remark::add("{0} products of one value became one",
                        set.members.size())
         << remark::metric("Widths", llvm::join(widths, " "))
         << remark::metric("Biases", biases)
         << remark::metric("Copies", set.cost.copies)
         << remark::metric("CopyBytes", set.cost.copyBytes)
         << remark::metric("WeightBytes", set.cost.weightBytes)
         << remark::metric("WeightBytesAdded", set.cost.growthBytes);
  addTimes(remark, set.cost);
}

namespace {
struct MergeProjections final
    : PricedPass<fusion::impl::MergeProjectionsBase<MergeProjections>> {
  using PricedPass::PricedPass;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    declareRewrite(module, getOptions().remarkName,
                   "products of one value with known weights");
    auto log = getCachedAnalysis<RewriteLog>();
    ConstantReader reader(module, getParameterFolder(module, parameterFolder));
    WeightsBuilder weights(module, reader);
    bool changed = false;
    for (auto function : module.getOps<FunctionOpInterface>()) {
      if (function.isExternal() ||
          !llvm::hasSingleElement(function.getFunctionBody()))
        continue;
      FailureOr<FusionLegality> legality =
          FusionLegality::create(function, GroupLimits());
      if (failed(legality))
        return signalPassFailure();
      ProjectionPlan plan =
          planProjections(function.getFunctionBody().front(), reader, *legality,
                          *model, MergeLimits{growth, distance, batches});
      for (const ProjectionRefusal &refusal : plan.refusals)
        remark::missed(refusal.op->getLoc(), getOptions())
            << remark::reason("{0}", refusal.reason);
      RewriteProof proof(function, getOptions().remarkName,
                         log ? &log->get() : nullptr);
      for (ProjectionSet &set : plan.sets) {
        LLVM_DEBUG(set.print(llvm::dbgs()));
        if (set.refusal.empty())
          changed |= tryMerge(set, reader, weights, proof);
        else
          reportSet(set);
      }
      if (failed(proof.verify()))
        return signalPassFailure();
    }
    markAnalysesPreserved<RewriteLog>();
    if (changed)
      eraseUnusedParameters(module);
    else
      markAllAnalysesPreserved();
  }

  /// Packs and rewrites. A file that can't be read is a refusal.
  bool tryMerge(ProjectionSet &set, ConstantReader &reader,
                WeightsBuilder &weights, RewriteProof &proof) {
    std::string reason;
    std::optional<TensorData> packed = packWeights(set, reader, &reason);
    std::optional<TensorData> biases =
        packed ? packBiases(set, reader, &reason) : std::nullopt;
    if (!biases) {
      set.refusal = "its weights: " + reason;
      reportSet(set);
      return false;
    }
    reportSet(set);

    proof.start();
    const Projection &first = set.members.front();
    OpBuilder builder(first.op);
    SmallVector<Location> locations;
    for (const Projection &member : set.members)
      locations.push_back(member.op->getLoc());
    Location loc = builder.getFusedLoc(locations);
    Value newWeights =
        weights.build(builder, loc, first.weights, "_merged", *packed);
    Value newBias;
    if (*biases)
      newBias =
          weights.build(builder, loc, first.weights, "_merged_bias", *biases);
    Value merged = buildMerged(builder, loc, set, newWeights, newBias);
    // All slices stand before the first member, which goes away with the rest.
    SmallVector<Value> slices;
    int64_t begin = 0;
    for (const Projection &member : set.members) {
      Location at = member.op->getLoc();
      Value slice = buildSlice(builder, at, merged, begin, member.width);
      Type type = member.getResult().getType();
      if (slice.getType() != type)
        slice = ReshapeOp::create(builder, at, type, slice);
      slices.push_back(slice);
      begin += member.width;
    }
    for (auto [member, slice] : llvm::zip(set.members, slices)) {
      Operation *last = member.getResult().getDefiningOp();
      proof.declare(last->getResult(0), slice, /*isExact=*/true);
      last->getResult(0).replaceAllUsesWith(slice);
      eraseDead(last, [&](Operation *op) { proof.forget(op); });
    }
    return true;
  }

private:
};
} // namespace

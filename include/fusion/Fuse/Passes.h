//===- Passes.h - Passes of the fuse phase ----------------------*- C++ -*-===//
#ifndef FUSION_FUSE_PASSES_H
#define FUSION_FUSE_PASSES_H

#include "fusion/Analysis/RewriteLog.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassOptions.h"

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace fusion {

#define GEN_PASS_DECL
#include "fusion/Fuse/Passes.h.inc"

class KernelProbe;

/// fusion-split-groups with real numbers: `probe` (which may be null, and must
/// outlive the pass) overrules the estimates.
std::unique_ptr<mlir::Pass> createSplitGroups(SplitGroupsOptions options,
                                              KernelProbe *probe);

/// Options of the phase, as of its flag `--fusion-fuse`.
struct FuseOptions : public mlir::PassPipelineOptions<FuseOptions> {
  Option<int64_t> maxOps{
      *this, "max-ops",
      llvm::cl::desc("Named and arithmetic ops on the longest path of a group"),
      llvm::cl::init(8)};
  Option<int64_t> maxInputs{
      *this, "max-inputs",
      llvm::cl::desc("Inputs and outputs of a group, together"),
      llvm::cl::init(64)};
  Option<int64_t> maxMembers{*this, "max-members",
                             llvm::cl::desc("Groups of one launch"),
                             llvm::cl::init(64)};
  Option<std::string> device{
      *this, "device",
      llvm::cl::desc("Name of a shipped device, or path of a device file"),
      llvm::cl::init("cpu")};
  Option<std::string> costModel{*this, "cost-model",
                                llvm::cl::desc("What predicts times"),
                                llvm::cl::init("roofline")};
  Option<int64_t> firstBucketBytes{
      *this, "first-bucket-bytes",
      llvm::cl::desc("Bytes of the first bucket of gradients, and of the last"),
      llvm::cl::init(1 << 20)};
  Option<int64_t> bucketBytes{
      *this, "bucket-bytes",
      llvm::cl::desc("Bytes that buckets grow to, 0: what the model finds"),
      llvm::cl::init(0)};
  Option<int64_t> gatherBytes{
      *this, "gather-bytes",
      llvm::cl::desc("Bytes that buckets of gathers grow to at least"),
      llvm::cl::init(0)};
  Option<int64_t> memoryLimit{
      *this, "memory-limit",
      llvm::cl::desc("Bytes of intermediates, 0: the device's memory"),
      llvm::cl::init(0)};
  Option<std::string> transport{
      *this, "transport",
      llvm::cl::desc("What carries collectives between GPUs: auto, nccl, peer, "
                     "direct"),
      llvm::cl::init("auto")};
  ListOption<std::string> noFuse{
      *this, "no-fuse",
      llvm::cl::desc(
          "Kinds of fusion to leave out: vertical puts each op in a group "
          "of its own, horizontal gives each group a launch of its own, "
          "projections merges no products, buckets joins no collectives, "
          "clip leaves norms of gradients as they are, clip-shares lets all "
          "ranks square whole gradients, gradients computes none beside "
          "products")};
  Option<std::string> parameterFolder{
      *this, "parameter-folder",
      llvm::cl::desc("Folder that parameters' files are relative to (default: "
                     "the module's own)"),
      llvm::cl::init("")};
  Option<std::string> plan{*this, "plan",
                           llvm::cl::desc("Plan file to follow")};
  Option<bool> planStrict{
      *this, "plan-strict",
      llvm::cl::desc("A line of the plan that can't be honoured is an error"),
      llvm::cl::init(false)};
  Option<std::string> emitPlan{*this, "emit-plan",
                               llvm::cl::desc("Plan file to write")};
  Option<bool> planDigest{
      *this, "plan-digest",
      llvm::cl::desc("Put the hash of the plan on the module"),
      llvm::cl::init(false)};
  Option<bool> keepOriginal{
      *this, "keep-original",
      llvm::cl::desc("Keep each function as it was, for fusion-verify-fusion"),
      llvm::cl::init(false)};
  Option<std::string> why{
      *this, "why",
      llvm::cl::desc("Say why two ops are in one group or not, as @a,@b")};
};

/// Attribute of a module: SHA-256 of the plan that its groups amount to,
/// without the notes for people.
inline constexpr llvm::StringLiteral kPlanDigestAttr = "fusion.plan";

/// Graph after simplify -> graph of groups. Runs on the functions of a module.
/// `probe`, if not null, tells what the target's compiler makes of a group; it
/// must outlive the passes.
/// `checks` are put around the passes that declare what they replace.
void buildFusePipeline(mlir::OpPassManager &manager, const FuseOptions &options,
                       KernelProbe *probe = nullptr,
                       const RewriteChecks &checks = {});

/// Registers `--fusion-fuse`.
void registerFusePipeline();

#define GEN_PASS_REGISTRATION
#include "fusion/Fuse/Passes.h.inc"

} // namespace fusion

#endif // FUSION_FUSE_PASSES_H

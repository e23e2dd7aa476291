//===- FusionRules.cpp - Why two ops are fused, or not --------------------===//
//
// The texts behind the rule ids.
//
//===----------------------------------------------------------------------===//
#include "fusion/Analysis/FusionRules.h"

#include <cassert>

using namespace fusion;

static constexpr FusionRuleInfo kRules[] = {
    {FusionRule::FuseEpilogue, "fuse-epilogue", true,
     "elementwise op runs over the contraction's or pool's output while it is "
     "in cache"},
    {FusionRule::FusePrologue, "fuse-prologue", true,
     "a row that only one product reads is computed in its kernel"},
    {FusionRule::FuseRowReduce, "fuse-row-reduce", true,
     "op shares the rows of a reduction, norm or softmax"},
    {FusionRule::FuseColumnReduce, "fuse-column-reduce", true,
     "op runs before or after a reduction of columns"},
    {FusionRule::FuseLoop, "fuse-loop", true, "ops share one iteration space"},
    {FusionRule::FuseScatterUpdates, "fuse-scatter-updates", true,
     "updates are computed where they are scattered"},
    {FusionRule::FuseScatterResult, "fuse-scatter-result", true,
     "what was scattered is narrowed before it is written"},
    {FusionRule::CloneCheap, "clone-cheap", true,
     "a cheap op is repeated in the group that reads it"},
    {FusionRule::RecomputeCheap, "recompute-cheap", true,
     "a cheap value is computed again where it is read, and never stored"},
    {FusionRule::MaxOps, "max-ops", false,
     "longest chain of consecutive ops in the group would exceed the limit"},
    {FusionRule::MaxInputs, "max-inputs", false,
     "inputs and outputs of the group would exceed the limit"},
    {FusionRule::MaxGroupOps, "max-group-ops", false,
     "ops of the group would exceed the limit"},
    {FusionRule::MaxLoads, "max-loads", false,
     "reads of inputs for one element would exceed the limit"},
    {FusionRule::CompileBudget, "compile-budget", false,
     "scalar ops that the kernel is compiled from would exceed the budget"},
    {FusionRule::RegistersThread, "registers-thread", false,
     "live values need more registers than a thread has"},
    {FusionRule::RegistersUnit, "registers-unit", false,
     "the wanted resident threads need more registers than a multiprocessor "
     "or core has"},
    {FusionRule::Spills, "spills", false,
     "the compiled kernel spills registers to memory"},
    {FusionRule::SharedMemory, "shared-memory", false,
     "the kernel needs more shared memory than there is"},
    {FusionRule::Arguments, "kernel-arguments", false,
     "the kernel's arguments need more bytes than a launch can pass"},
    {FusionRule::PeakMemory, "peak-memory", false,
     "values kept longer would exceed the memory"},
    {FusionRule::NoGain, "no-gain", false,
     "the fused kernel is predicted to be slower than the separate ones"},
    {FusionRule::ComputeDensity, "compute-density", false,
     "too much arithmetic would be added for the share of bytes saved"},
    {FusionRule::Barrier, "barrier", false,
     "an op with side effects stands between the two"},
    {FusionRule::Cycle, "cycle", false,
     "another path between the two leads through ops outside the group"},
    {FusionRule::Recompute, "recompute", false,
     "the producer's elements would be computed more than once"},
    {FusionRule::TwoIndexMaps, "two-index-maps", false,
     "the producer is read at other positions too and must be whole first"},
    {FusionRule::InPlaceHazard, "in-place-hazard", false,
     "the updates read the tensor that they are scattered into"},
    {FusionRule::TwoAnchors, "two-anchors", false,
     "a group holds one contraction, pool or scatter"},
    {FusionRule::AnchorOperand, "anchor-operand", false,
     "operands of a contraction, pool or scatter are read whole from memory; "
     "inside it they would be computed so many times"},
    {FusionRule::EpilogueOp, "epilogue-op", false,
     "only elementwise ops follow a contraction or pool in its group"},
    {FusionRule::EpilogueShape, "epilogue-shape", false,
     "an epilogue keeps the shape of the contraction or pool"},
    {FusionRule::LibraryResult, "library-result", false,
     "no output of the group has the type that the library writes in place"},
    {FusionRule::ReduceInEpilogue, "reduce-in-epilogue", false,
     "a reduction can't follow a contraction or pool in its group"},
    {FusionRule::RowSpace, "row-space", false,
     "the op has neither the rows nor the reduced shape of the reductions"},
    {FusionRule::RowOp, "row-op", false, "the op moves elements between rows"},
    {FusionRule::ColumnOp, "column-op", false,
     "only elementwise ops join a reduction of columns"},
    {FusionRule::ScatterOp, "scatter-op", false,
     "only elementwise ops on the updates join a scatter"},
    {FusionRule::ScatterResult, "scatter-result", false,
     "only a GPU's kernel narrows what it scattered: in f32, of static size, "
     "65536 updates at most, and read as that alone"},
    {FusionRule::IterationShape, "iteration-shape", false,
     "outputs of the group would have different shapes"},
    {FusionRule::NoEmitter, "no-emitter", false,
     "the op has a kernel of its own"},
    {FusionRule::FuseHorizontal, "fuse-horizontal", true,
     "independent groups of one kind run as one launch"},
    {FusionRule::HorizontalDependency, "horizontal-dependency", false,
     "one group needs what the other computes, directly or through others"},
    {FusionRule::HorizontalCycle, "horizontal-cycle", false,
     "beside the launches chosen before, the two would wait for each other"},
    {FusionRule::HorizontalDtype, "horizontal-dtype", false,
     "the groups have the same ops on other element types"},
    {FusionRule::HorizontalRandom, "horizontal-random", false,
     "random numbers are drawn in a launch of their own"},
    {FusionRule::HorizontalAlias, "horizontal-alias", false,
     "one of the groups updates in place what the other reads"},
    {FusionRule::HorizontalBalance, "horizontal-balance", false,
     "the group fills the device alone and would dwarf the others; work in "
     "percent of theirs"},
    {FusionRule::HorizontalMemory, "horizontal-memory", false,
     "bytes that live longer would exceed the limit"},
    {FusionRule::HorizontalProfit, "horizontal-profit", false,
     "values would leave the cache for more nanoseconds than launches save"},
    {FusionRule::HorizontalStreams, "horizontal-streams", false,
     "the groups are predicted faster side by side on several streams"},
    {FusionRule::MaxMembers, "max-members", false,
     "groups of the launch would exceed the limit"},
    {FusionRule::MaxOperands, "max-operands", false,
     "tensors of the launch would exceed the limit"},
    {FusionRule::ReadyTime, "ready-time", false,
     "a communication would start, or be waited for, at another time"},
    {FusionRule::FuseBucket, "fuse-bucket", true,
     "gradients are reduced by one collective"},
    {FusionRule::SplitGradient, "split-gradient", true,
     "a gradient above the size of a bucket is reduced in parts"},
    {FusionRule::ZeroGradient, "zero-gradient", true,
     "a gradient of zeros on every rank needs no reduction"},
    {FusionRule::RepeatedReduction, "repeated-reduction", true,
     "the same value is reduced once"},
    {FusionRule::MeanReduction, "mean-reduction", true,
     "the reduction divides before it rounds; no pass scales the sum"},
    {FusionRule::BucketBytes, "bucket-bytes", false,
     "bytes of the bucket would exceed its size"},
    {FusionRule::BucketDelay, "bucket-delay", false,
     "the bucket's first members would wait for more nanoseconds than a "
     "collective less saves"},
    {FusionRule::BucketReader, "bucket-reader", false,
     "a reduced gradient is read before the other is computed"},
    {FusionRule::BucketPath, "bucket-path", false,
     "another reduction is computed from the result: it is no gradient"},
    {FusionRule::BucketKey, "bucket-key", false,
     "ranks, kind, element type or memory of the two reductions differ, or an "
     "op with side effects stands between them"},
    {FusionRule::BucketShape, "bucket-shape", false,
     "the tensor's size depends on the batch, or can't be cut"},
    {FusionRule::InexactMean, "inexact-mean", false,
     "a division by this number of ranks rounds otherwise than the product"},
    {FusionRule::HorizontalBucket, "horizontal-bucket", false,
     "the groups hold gradients of two buckets"},
    {FusionRule::GatherUpdates, "gather-updates", true,
     "every rank adds the updates of all ranks; the tensor is not reduced"},
    {FusionRule::UpdatesForm, "updates-form", false,
     "what is reduced is none of updates of known number that are added to "
     "zeros for the reduction alone"},
    {FusionRule::UpdatesProfit, "updates-profit", false,
     "to gather the updates is predicted to take no fewer nanoseconds than to "
     "reduce the tensor"},
    {FusionRule::ExchangeLookups, "exchange-lookups", true,
     "ranks exchange the rows that they look up; the table is not gathered"},
    {FusionRule::LookupForm, "lookup-form", false,
     "more than lookups of rows, of known number, reads the table"},
    {FusionRule::LookupProfit, "lookup-profit", false,
     "to exchange rows is predicted to take no fewer nanoseconds than to "
     "gather the table"},
    {FusionRule::BucketGathers, "bucket-gathers", true,
     "tensors that are read one behind the other are gathered by one "
     "collective"},
    {FusionRule::GatherKey, "gather-key", false,
     "ranks or dimension of the two gathers differ"},
    {FusionRule::FuseClip, "fuse-clip", true,
     "the clip factor is an operand of the updates; no pass scales gradients"},
    {FusionRule::ClipPartial, "clip-partial", true,
     "a sum of squares is taken right behind its gradient's reduction"},
    {FusionRule::ClipForm, "clip-form", false,
     "the factor is none of a clip by the global norm"},
    {FusionRule::ClipReader, "clip-reader", false,
     "the scaled gradient is needed whole: something other than elementwise "
     "ops reads it"},
    {FusionRule::ClipRanks, "clip-ranks", false,
     "the norm would count a gradient once for each rank, or differ between "
     "ranks"},
    {FusionRule::ClipShare, "clip-share", true,
     "each rank squares its part of gradients that all of them have, and one "
     "number goes over the ranks"},
    {FusionRule::ClipShareProfit, "clip-share-profit", false,
     "a number that goes over the ranks takes longer than reading a part of "
     "the gradients saves"},
    {FusionRule::ChunkGather, "chunk-gather", true,
     "rows are gathered in chunks, one sent while another is multiplied"},
    {FusionRule::ChunkOwn, "chunk-own", true,
     "a rank's own rows are multiplied first, those of the others as they "
     "come"},
    {FusionRule::ChunkReader, "chunk-reader", false,
     "something other than products with the gathered rows on the left reads "
     "them"},
    {FusionRule::ChunkShape, "chunk-shape", false,
     "the gather is not of one tensor of known size along its outermost "
     "dimension"},
    {FusionRule::ChunkHidden, "chunk-hidden", false,
     "what is computed before the first product hides the gather, in "
     "nanoseconds"},
    {FusionRule::ChunkPlace, "chunk-place", false,
     "own rows can't be multiplied first: a result takes an argument's bytes"},
    {FusionRule::ChunkProfit, "chunk-profit", false,
     "no sizes of chunks are predicted to save enough nanoseconds"},
    {FusionRule::TransportSum, "transport-sum", true,
     "copy engines bring every rank's tensor; the kernels that read the "
     "reduced value add them"},
    {FusionRule::TransportPeer, "transport-peer", true,
     "copy engines carry the collective; no multiprocessor is taken from "
     "kernels"},
    {FusionRule::TransportReader, "transport-reader", false,
     "a reader needs the reduced value whole: its kernel can't add"},
    {FusionRule::TransportRepeated, "transport-repeated", false,
     "a reader repeats the reduced value: adding would take a kernel of its "
     "own"},
    {FusionRule::TransportReturned, "transport-returned", false,
     "the reduced value is only returned: no kernel reads it that could add"},
    {FusionRule::TransportRanks, "transport-ranks", false,
     "the group has one rank: nothing is sent"},
    {FusionRule::TransportShape, "transport-shape", false,
     "the tensor's size depends on the batch"},
    {FusionRule::TransportMemory, "transport-memory", false,
     "the tensors of all ranks do not fit beside the program's values"},
    {FusionRule::TransportOrder, "transport-order", false,
     "an op with a region communicates: what decides whether it runs must be "
     "seen to be the same on all ranks"},
    {FusionRule::TransportLink, "transport-link", false,
     "the device file has measured no peer copies on the group's link"},
    {FusionRule::TransportNccl, "transport-nccl", false,
     "the step is predicted to be no faster with copy engines"},
    {FusionRule::TransportStep, "transport-step", true,
     "transports that make the shortest step, as predicted"},
    {FusionRule::FuseGradient, "fuse-gradient", true,
     "the library computes a gradient beside the product"},
    {FusionRule::GradientForm, "gradient-form", false,
     "the gradient is none that the library computes beside the product"},
    {FusionRule::PlanFile, "plan-file", false,
     "the plan file has the two in different groups"},
    {FusionRule::PartitionSplit, "partition-split", true,
     "each rank computes a part of the result"},
    {FusionRule::PartitionPartial, "partition-partial", true,
     "each rank combines a part of the elements; the ranks' results are "
     "combined where a value is needed"},
    {FusionRule::PartitionPadded, "partition-padded", true,
     "the ranks do not divide the size: the last parts are filled up, and what "
     "fills them reaches no sum and no result"},
    {FusionRule::PartitionStored, "partition-stored", true,
     "shards of a parameter are gathered where it is used"},
    {FusionRule::PartitionWhole, "partition-whole", false,
     "the op needs the whole dimension that is cut"},
    {FusionRule::PartitionConflict, "partition-conflict", false,
     "the op is split along another dimension, which moves fewer bytes"},
    {FusionRule::NarrowGather, "narrow-gather", true,
     "elements are gathered in the narrower of the types they are cast to and "
     "from"},
    {FusionRule::NarrowReader, "narrow-reader", false,
     "a reader needs the gathered elements as wide as they are"},
};

llvm::ArrayRef<FusionRuleInfo> fusion::getFusionRules() { return kRules; }

const FusionRuleInfo &fusion::getFusionRuleInfo(FusionRule rule) {
  const FusionRuleInfo &info = kRules[static_cast<unsigned>(rule)];
  assert(info.rule == rule && "the table follows the enum");
  return info;
}

const FusionRuleInfo *fusion::findFusionRule(llvm::StringRef id) {
  for (const FusionRuleInfo &info : kRules)
    if (info.id == id)
      return &info;
  return nullptr;
}

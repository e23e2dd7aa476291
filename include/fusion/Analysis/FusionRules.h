//===- FusionRules.h - Why two ops are fused, or not ------------*- C++ -*-===//
//
// The one table of rule ids. A remark of category "fusion" is named after the
// rule that decided; `--explain` prints the rule's text beside its counts. Ids
// are stable: tests, plan files and people's filters depend on them.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_ANALYSIS_FUSIONRULES_H
#define FUSION_ANALYSIS_FUSIONRULES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace fusion {

enum class FusionRule : unsigned {
  // A pair was fused.
  FuseEpilogue,
  FusePrologue,
  FuseRowReduce,
  FuseColumnReduce,
  FuseLoop,
  FuseScatterUpdates,
  FuseScatterResult,
  CloneCheap,
  RecomputeCheap,
  // A limit of granularity was reached.
  MaxOps,
  MaxInputs,
  MaxGroupOps,
  MaxLoads,
  CompileBudget,
  // A limit of the device was reached: refused, or the group is split.
  RegistersThread,
  RegistersUnit,
  Spills,
  SharedMemory,
  Arguments,
  PeakMemory,
  // It would be legal, and not pay.
  NoGain,
  ComputeDensity,
  // Order of the program.
  Barrier,
  Cycle,
  // A value would be computed more than once, or read before it is whole.
  Recompute,
  TwoIndexMaps,
  InPlaceHazard,
  // The group would fit no emitter.
  TwoAnchors,
  AnchorOperand,
  EpilogueOp,
  EpilogueShape,
  LibraryResult,
  ReduceInEpilogue,
  RowSpace,
  RowOp,
  ColumnOp,
  ScatterOp,
  ScatterResult,
  IterationShape,
  NoEmitter,
  // Independent groups as one launch.
  FuseHorizontal,
  HorizontalDependency,
  HorizontalCycle,
  HorizontalDtype,
  HorizontalRandom,
  HorizontalAlias,
  HorizontalBalance,
  HorizontalMemory,
  HorizontalProfit,
  HorizontalStreams,
  MaxMembers,
  MaxOperands,
  ReadyTime,
  // Reductions of gradients as one collective.
  FuseBucket,
  SplitGradient,
  ZeroGradient,
  RepeatedReduction,
  MeanReduction,
  BucketBytes,
  BucketDelay,
  BucketReader,
  BucketPath,
  BucketKey,
  BucketShape,
  InexactMean,
  HorizontalBucket,
  // Updates of rows, gathered in place of a reduction of the whole tensor.
  GatherUpdates,
  UpdatesForm,
  UpdatesProfit,
  // Rows of a table, exchanged in place of the whole.
  ExchangeLookups,
  LookupForm,
  LookupProfit,
  // Gathers as one collective.
  BucketGathers,
  GatherKey,
  // Clipping by the global norm.
  FuseClip,
  ClipPartial,
  ClipForm,
  ClipReader,
  ClipRanks,
  ClipShare,
  ClipShareProfit,
  // A gather in chunks, beside the products of its rows.
  ChunkGather,
  ChunkOwn,
  ChunkReader,
  ChunkShape,
  ChunkHidden,
  ChunkPlace,
  ChunkProfit,
  // What carries a collective, and where a reduction is summed.
  TransportSum,
  TransportPeer,
  TransportReader,
  TransportRepeated,
  TransportReturned,
  TransportRanks,
  TransportShape,
  TransportMemory,
  TransportOrder,
  TransportLink,
  TransportNccl,
  TransportStep,
  // Gradients that a library computes beside a product.
  FuseGradient,
  GradientForm,
  // A plan file decided.
  PlanFile,
  // How the ranks of a mesh share an op out.
  PartitionSplit,
  PartitionPartial,
  PartitionPadded,
  PartitionStored,
  PartitionWhole,
  PartitionConflict,
  NarrowGather,
  NarrowReader,
};

/// One row of the table.
struct FusionRuleInfo {
  FusionRule rule;
  llvm::StringLiteral id;
  /// Whether the rule fuses a pair; the others refuse it.
  bool accepts;
  /// The reason, as a person reads it.
  llvm::StringLiteral text;
};

/// All rules, in the order of the enum.
llvm::ArrayRef<FusionRuleInfo> getFusionRules();

/// The row of one rule.
const FusionRuleInfo &getFusionRuleInfo(FusionRule rule);

/// The row with this id, or null.
const FusionRuleInfo *findFusionRule(llvm::StringRef id);

} // namespace fusion

#endif // FUSION_ANALYSIS_FUSIONRULES_H

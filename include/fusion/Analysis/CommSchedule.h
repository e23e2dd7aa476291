//===- CommSchedule.h - The steps of a function, priced ---------*- C++ -*-===//
//
// From ops to the steps that CommModel.h simulates: kernels by the cost model,
// collectives by the model of communication, the order of streams from
// asynchronous regions and awaits.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_ANALYSIS_COMMSCHEDULE_H
#define FUSION_ANALYSIS_COMMSCHEDULE_H

#include "fusion/Analysis/CommModel.h"
#include "fusion/Analysis/FusionLegality.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fusion {

/// Of a group whose outputs are runs of its inputs' bytes: the offsets.
inline constexpr llvm::StringLiteral kViewAttr = "fusion.view";

/// Of a group whose inputs are to be computed where they lie in its output: the
/// offsets. It is a step, for lifetimes, but no command.
inline constexpr llvm::StringLiteral kPiecesAttr = "fusion.pieces";

/// Attribute of a collective: what carries it between GPUs, "nccl" or "peer";
/// "direct": by peer, or not at all, if its readers can be given the other
/// ranks' memory. Without it the runtime chooses.
inline constexpr llvm::StringLiteral kTransportAttr = "fusion.transport";

/// Attribute of a collective, and key of `fusion.call`: the most
/// multiprocessors that NCCL's kernels, or the call, may take.
inline constexpr llvm::StringLiteral kUnitsAttr = "fusion.units";
inline constexpr llvm::StringLiteral kCallUnits = "units";

/// Attribute of an addition that is not the last of a sum over ranks: a sum of
/// however many terms counts as one op of a group.
inline constexpr llvm::StringLiteral kPartialSumAttr = "fusion.partial_sum";

/// What the ops of one function take.
class StepPrices {
public:
  /// Fails with an error where sizes are no functions of the batch.
  static mlir::FailureOr<StepPrices> create(mlir::func::FuncOp function,
                                            const CostModel &costs,
                                            const CommModel &comms);

  /// The step of a group, an op of none or a collective, on stream 0 and
  /// without waits. What is no command (a view, a constant) takes no time.
  TimedStep getStep(mlir::Operation *op);

  /// The joined ranks of a collective.
  CommGroup getGroup(CommunicationOpInterface op);
  /// Bytes that `predict` asks for.
  double getBytes(mlir::Operation *collective) const;
  int64_t getByteSize(mlir::Value value) const {
    return legality.getByteSize(value);
  }

  /// Copies that carry a collective over copy engines, to each rank.
  int64_t countParts(mlir::Operation *collective) const;

  const CommModel &getComms() const { return *comms; }

private:
  StepPrices(FusionLegality legality, const CostModel &costs,
             const CommModel &comms)
      : legality(std::move(legality)), costs(&costs), comms(&comms) {}

  FusionLegality legality;
  const CostModel *costs;
  const CommModel *comms;
  llvm::DenseMap<std::pair<mlir::Attribute, mlir::Attribute>, CommGroup> groups;
};

/// The ranks that a collective joins; one where its mesh is not found.
CommGroup getCommGroup(CommunicationOpInterface op);

/// The kind of a collective; nullopt of another op that communicates.
std::optional<CommOp> getCommOp(mlir::Operation *op);

/// What carries a collective: NCCL, unless its attribute says otherwise.
Transport getTransport(mlir::Operation *op);

/// The steps of the function in list order: a region starts behind what stream
/// 0 has before it, an await holds its own stream.
std::vector<TimedStep> buildTimedSteps(mlir::func::FuncOp function,
                                       StepPrices &prices);

} // namespace fusion

#endif // FUSION_ANALYSIS_COMMSCHEDULE_H

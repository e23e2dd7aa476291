//===- CommModel.h - Predicted time of collectives and steps ----*- C++ -*-===//
//
// Three things on the figures of a device file: what one collective takes, what
// it costs the kernels beside it, and how long a step of several streams takes,
// with the communication that no computation hides and why. All are pure
// functions; passes that place communication and `--simulate` ask them.
//
// Sources: the terms by algorithm are NCCL's (graph/tuning.cc): a ring sends
// n - 1 parts of a tensor, an all_reduce twice. That a collective slows kernels
// by the multiprocessors and the memory bandwidth it takes is measured by many;
// arXiv 2507.03114 has a mean of 0.19 and a largest of 0.40.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_ANALYSIS_COMMMODEL_H
#define FUSION_ANALYSIS_COMMMODEL_H

#include "fusion/Analysis/CostModel.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <string>
#include <vector>

namespace fusion {

/// What carries a collective: NCCL's kernels, copy engines, or the kernels that
/// read what it would bring, in the other ranks' memory.
enum class Transport { Nccl, Peer, Direct };

/// "nccl", "peer", "direct".
llvm::StringRef stringifyTransport(Transport transport);

/// The ranks that a collective joins.
struct CommGroup {
  int64_t size = 1;
  int64_t span = 1; ///< consecutive ranks from the first to the last
};

/// The groups that `axes` (positions) form on a mesh whose ranks are numbered
/// row-major.
CommGroup getCommGroup(llvm::ArrayRef<int64_t> axisSizes,
                       llvm::ArrayRef<unsigned> axes);

struct CommCost {
  double us = 0;             ///< alone
  double fixedUs = 0;        ///< of it, what does not depend on the bytes
  double wireBytes = 0;      ///< that a rank sends
  unsigned link = 0;         ///< position in the device's `comm.links`
  llvm::StringRef algorithm; ///< "ring", "tree", "none" of one rank, or
                             ///< "measured": the transport's own table
  /// Of kernels and of itself while both run; negative: as of the device.
  double slowdownCompute = -1, slowdownComm = -1;
};

class CommModel {
public:
  /// Without a `comm` block in the device's file: 20 us and 10 GB/s, any number
  /// of ranks, kernels 19 % longer beside a collective.
  explicit CommModel(const DeviceModel &device);

  const DeviceComm &getComm() const { return comm; }

  /// `bytes` are those of the whole tensor: the result of an all_gather, the
  /// operand of all others.
  /// Where the device's file has measured the transport on the group's link,
  /// its times interpolated in log-log; of another number of ranks, scaled by
  /// hops and by what a rank sends. Else by the terms of the link. `Direct`: of
  /// a kernel that only reads; where that was not measured, as `Peer`.
  CommCost predict(CommOp op, double bytes, const CommGroup &group,
                   Transport transport = Transport::Nccl) const;

  /// What a collective of so many parts takes beyond that of one of the same
  /// bytes.
  double getPartsUs(int64_t parts, const CommGroup &group,
                    Transport transport) const;

  /// From one collective's end to the first byte of the next on its stream, by
  /// the slowest of the transports that were measured; 0 if none was.
  double getQueuedUs(const CommGroup &group) const;

  /// Whether the file has measured the transport on the link of the group.
  bool hasMeasured(const CommGroup &group, Transport transport) const;

  /// Multiprocessors that products leave to NCCL on the link of the group; 0:
  /// none.
  int64_t getUnits(const CommGroup &group) const {
    return comm.links[findLink(group)].units;
  }

  /// How much longer a kernel takes beside a collective: 0.19 for 19 %. Null:
  /// a kernel of unknown work.
  double getSlowdown(const KernelWork *work) const;

  /// Whether transfers on two links, or on a link and for kernels, use the same
  /// wires.
  bool areShared(unsigned link, unsigned other) const;
  bool isSharedWithCompute(unsigned link) const;

private:
  unsigned findLink(const CommGroup &group) const;
  const CommTransport *findTransport(unsigned link, Transport transport) const;
  CommCost predictTerms(CommOp op, double bytes, const CommGroup &group) const;

  double memoryBandwidth, arithmeticPeak;
  int64_t units;
  DeviceComm comm;
  llvm::SmallVector<llvm::SmallVector<bool>> shared; ///< by link and link
};

/// One command of a step.
struct TimedStep {
  std::string name;
  bool isComm = false;
  unsigned stream = 0;         ///< 0 computes
  double us = 0;               ///< alone
  double slowdown = 0;         ///< of a kernel beside a collective
  unsigned link = 0;           ///< of a collective
  std::vector<unsigned> waits; ///< earlier steps that must be done before
  /// Of a collective: what kernels beside it lose and it beside them; negative:
  /// the kernels' own `slowdown`, and the device's.
  double slowdownOfKernels = -1, slowdownOfComm = -1;
};

/// Why nothing was computed while something was sent.
enum class ExposureCause {
  OnComputeStream, ///< the collective is a command of the compute stream
  NothingLeft,     ///< all computation is done
  Queued,          ///< what is awaited started behind other collectives
  Shared,          ///< it shares its link with others
  NothingToHide,   ///< it started when its operands were ready; the next
                   ///< computation needs it
};

llvm::StringRef describeCause(ExposureCause cause);

struct Exposure {
  double beginUs = 0, endUs = 0;
  ExposureCause cause = ExposureCause::NothingLeft;
  unsigned comm = 0;   ///< the step that is awaited
  int64_t waiter = -1; ///< the step of stream 0 that awaits it; -1: the end
};

struct StepSpan {
  double beginUs = 0, endUs = 0;
};

/// What a simulation found, in microseconds.
struct Timeline {
  double stepUs = 0;
  double computeUs = 0;            ///< sum of the kernels alone
  double commUs = 0;               ///< sum of the collectives alone
  double exposedUs = 0;            ///< sent while nothing was computed
  std::vector<StepSpan> spans;     ///< by step
  std::vector<Exposure> exposures; ///< in order, neighbours of one cause merged

  /// A summary, and the longest exposed intervals with their causes.
  void print(llvm::raw_ostream &os, llvm::ArrayRef<TimedStep> steps,
             unsigned most = 10) const;
};

/// Runs the steps: those of a stream in order, each behind what it waits for.
/// Kernels of several streams share the device evenly: that one waits for
/// memory where another one computes is no gain that is counted. At any moment
/// a kernel beside a collective takes 1 + slowdown as long (the largest, of
/// several), a collective 1 + slowdown_comm times the number of those that
/// share its wires; kernels that use the same wires count as one of them, and
/// share them too. Waits on later steps are ignored.
Timeline simulate(llvm::ArrayRef<TimedStep> steps, const CommModel &model);

} // namespace fusion

#endif // FUSION_ANALYSIS_COMMMODEL_H

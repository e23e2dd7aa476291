//===- Communicator.h - Where the ranks of a run meet -----------*- C++ -*-===//
//
// Ranks are threads. A collective is a meeting of its group: each member brings
// its tensors and a description of the op, and gets everybody's tensors in rank
// order. Members that bring different ops, or ranks that wait for one that will
// never come, end the run with an error that names ranks and ops: nothing
// hangs.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_REFERENCE_COMMUNICATOR_H
#define FUSION_LIB_REFERENCE_COMMUNICATOR_H

#include "OpRules.h"

#include <condition_variable>
#include <map>
#include <mutex>

namespace fusion::reference {

/// What each member of a group brought, in the order of the group.
using Contributions = std::vector<std::vector<Tensor>>;

class Communicator {
public:
  Communicator(int64_t ranks, double timeoutSeconds)
      : timeoutSeconds(timeoutSeconds), states(ranks) {}

  int64_t getRanks() const { return states.size(); }

  /// Meets the other members of `group` (ranks in ascending order, `rank` among
  /// them). `what` describes the op with its operands; it must be the same for
  /// all members. `where` is its location. Fails with `PeerFailed` when the run
  /// ends early; `takeFailure` then tells why.
  llvm::Expected<std::shared_ptr<const Contributions>>
  meet(int64_t rank, llvm::ArrayRef<int64_t> group, std::string what,
       std::string where, Tensors tensors);

  /// `rank` has evaluated its last op.
  void finish(int64_t rank);

  /// `rank` failed on its own: all waiting ranks end.
  void abort();

  /// Why the communicator ended the run, if it did; to be asked once, after all
  /// ranks have ended.
  llvm::Error takeFailure();

private:
  using Group = std::vector<int64_t>;

  struct RankState {
    enum { Running, Waiting, Finished } activity = Running;
    Group group; ///< that it waits for
    std::string what, where;
    std::shared_ptr<const Contributions> result;
  };

  /// A meeting that has begun.
  struct Meeting {
    std::map<int64_t, std::vector<Tensor>> brought; ///< by rank
  };

  void failWith(FailureKind kind, const llvm::Twine &message);
  void complete(const Group &group);
  void checkDeadlock();
  std::string describe(const Group &ranks) const;

  const double timeoutSeconds;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<RankState> states;
  std::map<Group, Meeting> meetings;
  bool ended = false;
  FailureKind failureKind = FailureKind::Program;
  std::string failureMessage; ///< empty: the communicator found nothing wrong
};

} // namespace fusion::reference

#endif // FUSION_LIB_REFERENCE_COMMUNICATOR_H

//===- Communicator.cpp - Where the ranks of a run meet -------------------===//
//
// One lock for everything: the oracle may be slow. All reports list ranks in
// ascending order, so they do not depend on who came first.
//
//===----------------------------------------------------------------------===//

#include "Communicator.h"

#include <chrono>

using namespace fusion::reference;

void Communicator::failWith(FailureKind kind, const llvm::Twine &message) {
  if (!ended) {
    failureKind = kind;
    failureMessage = message.str();
  }
  ended = true;
  changed.notify_all();
}

/// "rank 0 is at fusion.x ... (where); rank 1 has finished" for these ranks,
/// without those that still run.
std::string Communicator::describe(const Group &ranks) const {
  constexpr size_t kMostRanks = 16; // that a message lists
  std::string text;
  size_t listed = 0, left = 0;
  for (int64_t rank : ranks) {
    const RankState &state = states[rank];
    if (state.activity == RankState::Running)
      continue;
    if (listed++ >= kMostRanks) {
      ++left;
      continue;
    }
    if (!text.empty())
      text += "; ";
    text += "rank " + std::to_string(rank);
    text += state.activity == RankState::Finished
                ? " has finished"
                : " is at " + state.what + " (" + state.where + ")";
  }
  if (left)
    text += "; and " + std::to_string(left) + " more";
  return text;
}

/// Gives each member the result, or ends the run when they brought different
/// ops.
void Communicator::complete(const Group &group) {
  for (int64_t rank : group)
    if (states[rank].what != states[group.front()].what)
      return failWith(FailureKind::Program,
                      "ranks disagree on a collective: " + describe(group) +
                          "; issue the same collectives in the same order on "
                          "all ranks of a group");
  auto result = std::make_shared<Contributions>();
  Meeting &meeting = meetings[group];
  for (int64_t rank : group)
    result->push_back(std::move(meeting.brought[rank]));
  meetings.erase(group);
  for (int64_t rank : group) {
    states[rank].activity = RankState::Running;
    states[rank].result = result;
  }
  changed.notify_all();
}

/// If no rank is running, those that wait will wait forever.
void Communicator::checkDeadlock() {
  bool waiting = false;
  Group all;
  for (auto [rank, state] : llvm::enumerate(states)) {
    if (state.activity == RankState::Running)
      return;
    waiting |= state.activity == RankState::Waiting;
    all.push_back(rank);
  }
  if (waiting)
    failWith(FailureKind::Program,
             "deadlock: every rank waits for one that does not come: " +
                 describe(all) +
                 "; issue the same collectives in the same order on all ranks "
                 "of a group");
}

llvm::Expected<std::shared_ptr<const Contributions>>
Communicator::meet(int64_t rank, llvm::ArrayRef<int64_t> members,
                   std::string what, std::string where, Tensors tensors) {
  Group group(members.begin(), members.end());
  std::unique_lock<std::mutex> lock(mutex);
  auto stopped = [&] {
    return fail(FailureKind::PeerFailed,
                "rank " + llvm::Twine(rank) +
                    " stopped because another rank failed");
  };
  if (ended)
    return stopped();
  RankState &state = states[rank];
  state.activity = RankState::Waiting;
  state.group = group;
  state.what = std::move(what);
  state.where = std::move(where);
  state.result = nullptr;
  Meeting &meeting = meetings[group];
  meeting.brought[rank] = tensors.vec();
  if (meeting.brought.size() == group.size())
    complete(group);
  else
    checkDeadlock();

  auto deadline =
      std::chrono::steady_clock::now() +
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(
          std::chrono::duration<double>(timeoutSeconds));
  while (!state.result && !ended) {
    if (changed.wait_until(lock, deadline) != std::cv_status::timeout ||
        state.result || ended)
      continue;
    std::string missing;
    for (int64_t member : group)
      if (!meetings[group].brought.count(member))
        missing += (missing.empty() ? "" : ", ") + std::to_string(member);
    failWith(FailureKind::Timeout,
             "rank " + llvm::Twine(rank) + " waited " +
                 llvm::Twine(static_cast<int64_t>(timeoutSeconds)) + " s in " +
                 state.what + " (" + state.where + ") for rank " + missing +
                 "; raise the collective timeout if that rank is "
                 "only slow");
  }
  // A failure that was found after this meeting took place does not undo it,
  // but the run is over all the same.
  if (!state.result)
    return stopped();
  return std::move(state.result);
}

void Communicator::finish(int64_t rank) {
  std::lock_guard<std::mutex> lock(mutex);
  states[rank].activity = RankState::Finished;
  if (!ended)
    checkDeadlock();
}

void Communicator::abort() {
  std::lock_guard<std::mutex> lock(mutex);
  ended = true;
  changed.notify_all();
}

llvm::Error Communicator::takeFailure() {
  std::lock_guard<std::mutex> lock(mutex);
  if (failureMessage.empty())
    return llvm::Error::success();
  return fail(failureKind, failureMessage);
}

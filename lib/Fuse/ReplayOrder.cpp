//===- ReplayOrder.cpp - Cycles and order of a plan's groups --------------===//
//
// Groups that read each other in a circle can't be had, so lines are dropped
// until none do. What is left keeps the order of the file as far as values
// allow.
//
//===----------------------------------------------------------------------===//
#include "PlanReplayer.h"

#include <queue>

using namespace mlir;
using namespace fusion;

static constexpr unsigned kNone = ~0u;

/// Lines dropped one by one for being in a cycle; then all that are left in
/// one.
static constexpr unsigned kMaxCycleRounds = 8;

PlanReplay::Quotient
PlanReplay::makeQuotient(llvm::function_ref<bool(const Line &)> isWhole) const {
  Quotient result;
  result.members.resize(lines.size());
  // The groups of a node, its own one first.
  SmallVector<SmallVector<unsigned, 1>, 0> groupsOf(graph.size());
  for (unsigned node = 0; node < graph.size(); ++node) {
    const SmallVector<unsigned, 1> &own = linesOf[node];
    if (own.empty() || !isWhole(lines[own.front()])) {
      groupsOf[node].push_back(result.members.size());
      result.members.emplace_back();
    }
    for (unsigned line : own)
      if (isWhole(lines[line]))
        groupsOf[node].push_back(line);
    result.members[groupsOf[node].front()].push_back(node);
  }
  result.readers.resize(result.members.size());
  result.producers.resize(result.members.size());
  for (unsigned node = 0; node < graph.size(); ++node)
    for (unsigned reader : graph[node].consumers)
      for (unsigned group : groupsOf[reader])
        if (!llvm::is_contained(groupsOf[node], group)) {
          result.readers[groupsOf[node].front()].push_back(group);
          result.producers[group].push_back(groupsOf[node].front());
        }
  return result;
}

/// Peels off groups that wait for nothing, then those that nothing waits for;
/// what is left lies on cycles or between them.
bool PlanReplay::dropCycles() {
  bool any = false;
  for (unsigned round = 0;; ++round) {
    Quotient quotient =
        makeQuotient([](const Line &line) { return line.ops.size() > 1; });
    unsigned count = quotient.members.size();
    SmallVector<bool> isGone(count);
    for (bool forward : {true, false}) {
      const auto &ahead = forward ? quotient.readers : quotient.producers;
      const auto &behind = forward ? quotient.producers : quotient.readers;
      SmallVector<unsigned> waiting(count), ready;
      for (unsigned i = 0; i < count; ++i) {
        if (isGone[i])
          continue;
        for (unsigned other : behind[i])
          waiting[i] += !isGone[other];
        if (waiting[i] == 0)
          ready.push_back(i);
      }
      while (!ready.empty()) {
        unsigned next = ready.pop_back_val();
        for (unsigned other : ahead[next])
          if (!isGone[other] && --waiting[other] == 0)
            ready.push_back(other);
        isGone[next] = true;
      }
    }
    // The last of the lines gives way to those before it.
    bool changed = false;
    for (unsigned i = lines.size(); i-- > 0;) {
      if (isGone[i] || quotient.members[i].empty())
        continue;
      const FusionRuleInfo &info = getFusionRuleInfo(FusionRule::Cycle);
      drop(lines[i], info.text + " (" + info.id + ")");
      changed = true;
      if (round < kMaxCycleRounds)
        break;
    }
    if (!changed)
      return any;
    any = true;
  }
}

/// The groups in the order of the file where values allow it. A node in no line
/// comes right before the first line that reads it.
ReplayedPlan PlanReplay::order() {
  // A cheap op's own group is whole here: its clones are ordered together.
  Quotient quotient = makeQuotient([](const Line &) { return true; });
  unsigned count = quotient.members.size();
  // Place in the file, whether it is in the file, first node.
  using Key = std::tuple<unsigned, bool, unsigned, unsigned>;
  SmallVector<unsigned> place(count, kNone), single;
  for (unsigned i = 0; i < count; ++i) {
    if (i < lines.size())
      place[i] = i;
    else
      single.push_back(i);
  }
  // Groups of one node are numbered in program order.
  for (unsigned i : llvm::reverse(single))
    for (unsigned reader : quotient.readers[i])
      place[i] = std::min(place[i], place[reader]);

  SmallVector<unsigned> waiting(count);
  std::priority_queue<Key, std::vector<Key>, std::greater<>> ready;
  auto push = [&](unsigned i) {
    ready.push({place[i], i < lines.size(), quotient.members[i].front(), i});
  };
  for (unsigned i = 0; i < count; ++i) {
    waiting[i] = quotient.producers[i].size();
    if (!quotient.members[i].empty() && waiting[i] == 0)
      push(i);
  }
  ReplayedPlan result;
  unsigned last = 0;
  while (!ready.empty()) {
    unsigned i = std::get<3>(ready.top());
    ready.pop();
    bool isLine = i < lines.size();
    if (isLine && i < last)
      decisions.report(graph[0].op->getContext(), lines[i].source->line,
                       "the group of " + ops.describe(lines[i].ops.front()) +
                           " can't come so early: it reads what groups of "
                           "later lines compute, and runs after them");
    else if (isLine)
      last = i;
    // Clones of a cheap op that stands alone stay nodes of their own.
    bool isSplit = isLine && lines[i].ops.size() == 1 &&
                   quotient.members[i].size() > 1 &&
                   isCheap(lines[i].ops.front());
    SmallVector<SmallVector<unsigned, 1>> parts;
    if (isSplit)
      for (unsigned node : quotient.members[i])
        parts.push_back({node});
    else
      parts.push_back(quotient.members[i]);
    for (auto &part : parts) {
      RequestedGroups::Group &group = result.groups.partition.emplace_back();
      group.members = part;
      if (isLine) {
        group.fixed = lines[i].verdict;
        for (unsigned node : lines[i].nodes)
          if (linesOf[node].front() != i)
            group.repeated.push_back(node);
      }
      result.lines.push_back(isLine ? lines[i].source : nullptr);
    }
    for (unsigned reader : quotient.readers[i])
      if (--waiting[reader] == 0)
        push(reader);
  }
  return result;
}

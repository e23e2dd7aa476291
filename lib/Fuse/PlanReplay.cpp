//===- PlanReplay.cpp - From the lines of a plan to groups ----------------===//
//
// The lines claim ops; ops are turned into nodes of the graph, where cheap ops
// have one for each reader, and what is cheap to compute again may be in
// several groups; what is left over goes to nobody. Then cycles, then the
// order, which is the file's as far as values allow. Every step is linear in
// the graph and the plan.
//
//===----------------------------------------------------------------------===//
#include "PlanReplay.h"
#include "fusion/Analysis/LibraryGradients.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringExtras.h"

#include <queue>

using namespace mlir;
using namespace fusion;

static constexpr unsigned kNone = ~0u;

/// Lines dropped one by one for being in a cycle; then all that are left in
/// one.
static constexpr unsigned kMaxCycleRounds = 8;

/// Rounds in which lines that repeat ops may lose others; then all of them go.
static constexpr unsigned kMaxRepeatRounds = 8;

/// Ops listed in one message.
static constexpr unsigned kMaxListed = 8;

namespace {

class PlanReplay {
public:
  PlanReplay(FusionDecisions &decisions, const FuseGraph &graph,
             const FusionLegality &legality)
      : decisions(decisions), ops(decisions.ops), graph(graph),
        legality(legality), opOf(graph.size()), nodesOf(ops.size()),
        linesOf(graph.size()) {
    for (auto [node, info] : llvm::enumerate(graph.getNodes())) {
      opOf[node] = *ops.find(info.op);
      nodesOf[opOf[node]].push_back(node);
    }
  }

  ReplayedPlan run();

private:
  /// A group of the plan that stands for itself or in a launch.
  struct Line {
    const PlanLine *source = nullptr;
    SmallVector<unsigned> ops;
    llvm::DenseSet<unsigned> listed, written;
    /// Ascending.
    SmallVector<unsigned, 1> nodes;
    GroupVerdict verdict;
    bool isDropped = false;
  };
  /// Nodes by group, and which groups read which: a partition for a search.
  struct Quotient {
    SmallVector<SmallVector<unsigned, 1>, 0> members;
    /// Groups that read a group, or that it reads; repeated as edges are.
    SmallVector<SmallVector<unsigned, 2>, 0> readers, producers;
  };

  void collectLines();
  llvm::Expected<unsigned> lookup(const PlanMember &member) const;
  void claim(Line &line);
  bool isWhole(const Line &line, unsigned op) const;
  std::string findFault(unsigned op, const Line &line) const;
  bool isCheap(unsigned op) const {
    return !nodesOf[op].empty() && graph[nodesOf[op].front()].isClone;
  }
  bool isRepeated(unsigned node) const { return linesOf[node].size() > 1; }
  void assignNodes();
  bool dropBadRepeats(bool all);
  /// Whether a line is a cheap op in a group of its own.
  bool isLoneCheap(const Line &line) const {
    return !line.isDropped && line.ops.size() == 1 && isCheap(line.ops.front());
  }
  bool checkLines(bool lone);
  std::string checkLine(unsigned index);
  bool escapes(unsigned node, unsigned line) const;
  bool dropCycles();
  bool isOpen(unsigned op) const;
  void reportUnclaimed();
  ReplayedPlan order();
  void drop(Line &line, const Twine &why, unsigned at = 0);
  void release(unsigned index);

  /// The groups as they are now. Lines come first, then nodes in none; a line
  /// for which `isWhole` is false counts as its nodes.
  Quotient makeQuotient(llvm::function_ref<bool(const Line &)> isWhole) const;

  FusionDecisions &decisions;
  const OpTable &ops;
  const FuseGraph &graph;
  const FusionLegality &legality;
  SmallVector<unsigned> opOf;
  SmallVector<SmallVector<unsigned, 1>, 0> nodesOf;
  /// By node: the lines that it is in. The first one has it as a member and
  /// writes it for those that it isn't in; the others compute it again.
  SmallVector<SmallVector<unsigned, 1>, 0> linesOf;
  SmallVector<Line, 0> lines;
  /// By op that isn't cheap: the lines that claimed it.
  llvm::DenseMap<unsigned, SmallVector<unsigned, 1>> claimedBy;
};

} // namespace

void PlanReplay::drop(Line &line, const Twine &why, unsigned at) {
  line.isDropped = true;
  release(&line - lines.begin());
  decisions.report(graph[0].op->getContext(), at ? at : line.source->line,
                   "the group can't be had: " + why +
                       "; without it the planner decides about its ops");
}

/// Whether the op is all of the line, and a group that was formed before.
bool PlanReplay::isWhole(const Line &line, unsigned op) const {
  return line.source->members.size() == 1 && !nodesOf[op].empty() &&
         isGradientGroup(graph[nodesOf[op].front()].op);
}

/// Why an op can't be a member of the line; empty if it can.
std::string PlanReplay::findFault(unsigned op, const Line &line) const {
  OpFamily family = ops[op].family;
  bool isOutside = line.source->kind == "outside";
  if (family == OpFamily::Source)
    return ops.describe(op) + " does no work: it goes where it is read, leave "
                              "it out";
  if (family == OpFamily::View)
    return ops.describe(op) + " is a view, and free: leave it out";
  if (nodesOf[op].empty())
    return "nothing reads " + ops.describe(op);
  if (isOutside && family != OpFamily::Outside)
    return ops.describe(op) + " does work, and can't stay outside groups";
  if (!isOutside && family == OpFamily::Outside && !isWhole(line, op))
    return ops.describe(op) + " is never in a group: it has effects or is one "
                              "already";
  if (isCheap(op))
    return "";
  auto it = claimedBy.find(op);
  const FuseNode &node = graph[nodesOf[op].front()];
  if (it == claimedBy.end() || (!node.escapes && isCheapToRecompute(node.op)))
    return "";
  return ops.describe(op) + " is a member of the group in line " +
         std::to_string(lines[it->second.front()].source->line) + " already";
}

llvm::Expected<unsigned> PlanReplay::lookup(const PlanMember &member) const {
  StringRef text = StringRef(member.text).trim();
  // Names may have blanks; behind an id stands what helps people.
  if (!text.starts_with("@"))
    text = text.take_until([](char c) { return llvm::isSpace(c); });
  return ops.lookup(text);
}

void PlanReplay::claim(Line &line) {
  // A line is claimed as a whole or not at all.
  for (const PlanMember &member : line.source->members) {
    llvm::Expected<unsigned> op = lookup(member);
    if (!op)
      return drop(line, llvm::toString(op.takeError()), member.line);
    std::string fault = line.listed.insert(*op).second
                            ? findFault(*op, line)
                            : ops.describe(*op) + " is listed twice";
    if (!fault.empty())
      return drop(line, fault, member.line);
    line.ops.push_back(*op);
  }
  if (line.source->kind == "outside" && line.ops.size() > 1)
    return drop(line, "an entry of kind 'outside' is one op");
  for (const PlanMember &written : line.source->writes) {
    llvm::Expected<unsigned> op = lookup(written);
    if (!op)
      return drop(line, llvm::toString(op.takeError()), written.line);
    if (!line.listed.contains(*op))
      return drop(line,
                  ops.describe(*op) + " is to be written, and is no member",
                  written.line);
    line.written.insert(*op);
  }
  for (unsigned op : line.ops)
    claimedBy[op].push_back(&line - lines.begin());
}

void PlanReplay::collectLines() {
  for (const PlanLine &group : decisions.plan->groups) {
    if (!group.isHorizontal())
      lines.emplace_back().source = &group;
    for (const PlanLine &member : group.groups)
      lines.emplace_back().source = &member;
  }
  for (Line &line : lines)
    claim(line);
}

void PlanReplay::assignNodes() {
  for (Line &line : lines)
    line.nodes.clear();
  // Readers before what they read: a cheap op, or a view, is where its reader
  // is.
  for (unsigned node = graph.size(); node-- > 0;) {
    SmallVector<unsigned, 1> &own = linesOf[node];
    own.clear();
    if (!graph[node].isClone) {
      if (auto it = claimedBy.find(opOf[node]); it != claimedBy.end())
        llvm::copy_if(it->second, std::back_inserter(own),
                      [&](unsigned line) { return !lines[line].isDropped; });
      auto writer = llvm::find_if(own, [&](unsigned line) {
        return lines[line].written.contains(opOf[node]);
      });
      if (writer != own.end())
        std::rotate(own.begin(), writer, std::next(writer));
      continue;
    }
    bool isView = graph[node].family == OpFamily::View;
    for (unsigned line : linesOf[graph[node].consumers.front()])
      if (isView || lines[line].listed.contains(opOf[node]))
        own.push_back(line);
  }
  // A view of a value from outside the group is outside, too.
  for (unsigned node = 0; node < graph.size(); ++node)
    if (graph[node].family == OpFamily::View)
      llvm::erase_if(linesOf[node], [&](unsigned line) {
        return graph[node].producers.empty() ||
               !llvm::is_contained(linesOf[graph[node].producers.front()],
                                   line);
      });
  // A cheap op in a group of its own, for those who don't repeat it.
  for (auto [i, line] : llvm::enumerate(lines)) {
    if (!isLoneCheap(line))
      continue;
    for (unsigned node : nodesOf[line.ops.front()]) {
      SmallVector<unsigned, 1> &own = linesOf[node];
      bool isServed =
          !own.empty() && (isLoneCheap(lines[own.front()]) ||
                           llvm::all_of(linesOf[graph[node].consumers.front()],
                                        [&](unsigned line) {
                                          return llvm::is_contained(own, line);
                                        }));
      if (!isServed)
        own.insert(own.begin(), i);
    }
  }
  for (unsigned node = 0; node < graph.size(); ++node)
    for (unsigned line : linesOf[node])
      lines[line].nodes.push_back(node);
}

/// A clone or view of what several groups compute comes along with it,
/// everywhere or nowhere. Drops lines, but a value's first, until that holds,
/// and returns whether there were any; `all` that repeat something.
bool PlanReplay::dropBadRepeats(bool all) {
  bool changed = false;
  for (unsigned node = 0; node < graph.size(); ++node) {
    SmallVector<unsigned, 1> own = linesOf[node];
    bool isBad = false;
    for (unsigned reader : graph[node].consumers) {
      bool comesAlong = graph[node].isClone && isRepeated(reader) &&
                        graph[node].family != OpFamily::View && !own.empty() &&
                        llvm::is_contained(linesOf[reader], own.front());
      if (comesAlong && own.size() != linesOf[reader].size()) {
        isBad = true;
        own = linesOf[reader];
      }
    }
    if (own.size() < 2 || !(isBad || all))
      continue;
    for (unsigned line : ArrayRef(own).drop_front())
      if (!lines[line].isDropped) {
        drop(lines[line],
             ops.describe(opOf[node]) + " is a member of the group in line " +
                 Twine(lines[own.front()].source->line) + " already, and " +
                 (isBad ? "not all that compute its reader list it"
                        : "too many others that compute an op again can't be "
                          "had"));
        changed = true;
      }
  }
  return changed;
}

/// Whether a line writes a value for others.
bool PlanReplay::escapes(unsigned node, unsigned line) const {
  if (graph[node].isClone || linesOf[node].front() != line)
    return false;
  return graph[node].escapes ||
         llvm::any_of(graph[node].consumers, [&](unsigned reader) {
           return linesOf[reader].empty() ||
                  llvm::any_of(linesOf[reader], [&](unsigned other) {
                    return !llvm::is_contained(linesOf[node], other);
                  });
         });
}

/// Why the nodes of a line make no group; empty if they do.
std::string PlanReplay::checkLine(unsigned index) {
  Line &line = lines[index];
  line.verdict = GroupVerdict();
  llvm::DenseSet<unsigned> present;
  for (unsigned node : line.nodes)
    present.insert(opOf[node]);
  if (line.nodes.empty() && line.ops.size() == 1)
    return "every group that reads " + ops.describe(line.ops.front()) +
           " repeats it";
  for (unsigned op : line.ops)
    if (!present.contains(op))
      return "nothing in the group reads " + ops.describe(op);
  for (unsigned node : line.nodes)
    if (isRepeated(node) && !escapes(node, index) && !isLoneCheap(line) &&
        llvm::none_of(graph[node].consumers, [&](unsigned reader) {
          return llvm::is_contained(linesOf[reader], index);
        }))
      return "nothing in the group reads " + ops.describe(opOf[node]) +
             ", which another computes";
  if (line.ops.size() > 1)
    for (unsigned node : line.nodes) {
      if (graph[node].segment != graph[line.nodes.front()].segment)
        return getFusionRuleInfo(FusionRule::Barrier).text.str() + " (" +
               getFusionRuleInfo(FusionRule::Barrier).id.str() + ")";
      if (!graph[node].isFusable())
        line.verdict =
            GroupVerdict::refuse(FusionRule::NoEmitter, graph[node].op);
    }
  if (!line.ops.empty() && isWhole(line, line.ops.front())) {
    line.verdict =
        GroupVerdict::accept(FusionRule::FuseGradient, GroupKind::Library);
  } else if (line.verdict.isLegal()) {
    // Several clones of one cheap op, each for its reader, count as one.
    SmallVector<Operation *> members;
    llvm::DenseMap<Operation *, unsigned> nodeOf;
    for (unsigned node : line.nodes)
      if (nodeOf.try_emplace(graph[node].op, node).second)
        members.push_back(graph[node].op);
    line.verdict = legality.check(members, [&](Operation *op) {
      return escapes(nodeOf.lookup(op), index);
    });
  }
  if (!line.verdict.isLegal()) {
    const FusionRuleInfo &info = getFusionRuleInfo(line.verdict.rule);
    std::string why = info.text.str() + " (" + info.id.str();
    if (line.verdict.at)
      why += ", at " + ops.describe(*ops.find(line.verdict.at));
    if (line.verdict.limit)
      why += ", " + std::to_string(line.verdict.value) + " against " +
             std::to_string(line.verdict.limit);
    return why + ")";
  }
  StringRef kind = stringifyGroupKind(line.verdict.kind);
  if (!line.source->kind.empty() && line.source->kind != "outside" &&
      line.source->kind != kind)
    return "it says kind '" + line.source->kind + "', but its ops make it '" +
           kind.str() + "'";
  return "";
}

/// Takes the nodes of a dropped line out of it.
void PlanReplay::release(unsigned index) {
  for (unsigned node : lines[index].nodes)
    llvm::erase(linesOf[node], index);
  lines[index].nodes.clear();
}

/// Drops the lines that make no group, of cheap ops on their own or all others;
/// whether there were any.
bool PlanReplay::checkLines(bool lone) {
  bool changed = false;
  for (unsigned i = 0; i < lines.size(); ++i) {
    if (lines[i].isDropped || isLoneCheap(lines[i]) != lone)
      continue;
    std::string fault = checkLine(i);
    if (fault.empty())
      continue;
    drop(lines[i], fault);
    changed = true;
  }
  return changed;
}

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

/// Whether the planner has to find a group for some copy of the op.
bool PlanReplay::isOpen(unsigned op) const {
  return llvm::any_of(nodesOf[op], [&](unsigned node) {
    return linesOf[node].empty() && graph[node].family != OpFamily::View &&
           graph[node].family != OpFamily::Outside;
  });
}

/// Says which ops the plan is silent about.
void PlanReplay::reportUnclaimed() {
  // Those of dropped lines were spoken of.
  llvm::DenseSet<unsigned> spokenOf;
  for (const Line &line : lines)
    if (line.isDropped)
      spokenOf.insert(line.ops.begin(), line.ops.end());
  std::string text;
  unsigned count = 0;
  for (unsigned op = 0; op < ops.size(); ++op) {
    if (!isOpen(op) || spokenOf.contains(op))
      continue;
    if (count++ < kMaxListed)
      text += (text.empty() ? "" : ", ") + ops.describe(op);
  }
  if (count == 0)
    return;
  if (count > kMaxListed)
    text += " and " + std::to_string(count - kMaxListed) + " more";
  decisions.report(graph[0].op->getContext(), decisions.plan->line,
                   "the plan has no group for " + text +
                       "; the planner decides");
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

ReplayedPlan PlanReplay::run() {
  if (decisions.plan->graph != ops.getGraphHash())
    decisions.report(graph[0].op->getContext(), decisions.plan->line,
                     "the plan was made for another graph, " +
                         decisions.plan->graph + " instead of " +
                         ops.getGraphHash() +
                         ": groups whose ops are still there are kept");
  collectLines();
  // Where a line is dropped that repeated an op, another has to write it, and
  // is checked again.
  for (unsigned round = 0;; ++round) {
    assignNodes();
    if (dropBadRepeats(round >= kMaxRepeatRounds))
      continue;
    bool anyRepeats =
        llvm::any_of(linesOf, [](const auto &own) { return own.size() > 1; });
    bool changed = checkLines(/*lone=*/false);
    changed |= dropCycles();
    if (changed && (anyRepeats || llvm::any_of(lines, [&](const Line &line) {
                      return isLoneCheap(line);
                    })))
      continue;
    // What a cheap op of its own serves is known when all others are.
    if (!checkLines(/*lone=*/true))
      break;
  }
  reportUnclaimed();
  return order();
}

bool fusion::isGradientGroup(Operation *op) {
  auto group = dyn_cast<GroupOp>(op);
  return group && group.getKind() == GroupKind::Library &&
         findLibraryGradients(group);
}

ReplayedPlan fusion::replayPlan(FusionDecisions &decisions,
                                const FuseGraph &graph,
                                const FusionLegality &legality) {
  return PlanReplay(decisions, graph, legality).run();
}

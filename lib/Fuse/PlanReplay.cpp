//===- PlanReplay.cpp - From the lines of a plan to groups ----------------===//
//
// The lines claim ops; ops are turned into nodes of the graph, where cheap ops
// have one for each reader, and what is cheap to compute again may be in
// several groups; what is left over goes to nobody. Then cycles and the order
// (ReplayOrder.cpp). Every step is linear in the graph and the plan.
//
//===----------------------------------------------------------------------===//
#include "PlanReplayer.h"
#include "fusion/Analysis/LibraryGradients.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace fusion;

/// Rounds in which lines that repeat ops may lose others; then all of them go.
static constexpr unsigned kMaxRepeatRounds = 8;

/// Ops listed in one message.
static constexpr unsigned kMaxListed = 8;

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

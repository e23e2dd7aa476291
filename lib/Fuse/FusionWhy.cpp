//===- FusionWhy.cpp - Why two ops are together or not --------------------===//
//
// Answers from the record alone, in the order in which a person would ask: are
// they in one group, in one launch; was the pair refused; what lies on the way
// from one to the other; and if nothing does, what keeps their groups apart.
//
//===----------------------------------------------------------------------===//
#include "fusion/Fuse/FusionDecisions.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <deque>

using namespace mlir;
using namespace fusion;

/// Steps of a chain that are listed one by one.
static constexpr size_t kMaxSteps = 12;

namespace {

class Why {
public:
  Why(const FusionDecisions &decisions, unsigned first, unsigned second);

  std::string run();

private:
  using Key = std::pair<unsigned, unsigned>;

  bool explainSpecial();
  bool explainTogether();
  bool explainLaunch();
  bool explainChain(unsigned from, unsigned to);
  void explainIndependent();

  void printRule(FusionRule rule, int64_t value, int64_t limit,
                 std::optional<unsigned> at);
  void printStep(unsigned from, unsigned to);
  bool areTogether(unsigned from, unsigned to) const;
  SmallVector<unsigned> findChain(unsigned from, unsigned to) const;
  /// Groups from one to the other, each apart from or together with the next
  /// by a decision of horizontal fusion.
  SmallVector<unsigned> findGroupChain(unsigned from, unsigned to) const;
  std::string describeGroup(unsigned group) const;

  const FusionDecisions &decisions;
  const OpTable &ops;
  unsigned first, second;
  llvm::DenseMap<unsigned, SmallVector<unsigned, 1>> groupsOf;
  llvm::DenseMap<Key, const DecidedPair *> pairOf;
  std::string text;
  llvm::raw_string_ostream os;
};

} // namespace

Why::Why(const FusionDecisions &decisions, unsigned first, unsigned second)
    : decisions(decisions), ops(decisions.ops), first(std::min(first, second)),
      second(std::max(first, second)), os(text) {
  for (auto [i, group] : llvm::enumerate(decisions.groups))
    for (unsigned op : group.members)
      groupsOf[op].push_back(i);
  // Of several copies of a cheap op, one that was taken in is told of.
  for (const DecidedPair &pair : decisions.pairs) {
    auto [it, isNew] =
        pairOf.try_emplace(Key(pair.producer, pair.consumer), &pair);
    if (!isNew && getFusionRuleInfo(pair.rule).accepts)
      it->second = &pair;
  }
}

void Why::printRule(FusionRule rule, int64_t value, int64_t limit,
                    std::optional<unsigned> at) {
  const FusionRuleInfo &info = getFusionRuleInfo(rule);
  os << info.id << ": " << info.text;
  if (limit)
    os << " (" << value << " against " << limit << ")";
  if (at)
    os << ", at " << ops.describe(*at);
}

std::string Why::describeGroup(unsigned group) const {
  const DecidedGroup &decided = decisions.groups[group];
  std::string result = "a " + stringifyGroupKind(decided.kind).str() +
                       " group of " + std::to_string(decided.members.size()) +
                       (decided.members.size() == 1 ? " op" : " ops");
  if (decided.predictedUs)
    llvm::raw_string_ostream(result)
        << llvm::format(", predicted %.2f us, %.2f us op by op",
                        *decided.predictedUs, *decided.unfusedUs);
  return result;
}

//===----------------------------------------------------------------------===//
// Together
//===----------------------------------------------------------------------===//

/// What is no matter of fusing two ops.
bool Why::explainSpecial() {
  if (first == second) {
    os << "both names are of one op, " << ops.describe(first);
    return true;
  }
  for (unsigned op : {first, second}) {
    StringRef what;
    switch (ops[op].family) {
    case OpFamily::Source:
      what = "does no work: it goes where it is read";
      break;
    case OpFamily::View:
      what = "is a view: it is free, and in a group where both its ends are";
      break;
    case OpFamily::Outside:
      what = "is never in a group: it has effects or is one already";
      break;
    default:
      if (groupsOf.contains(op) || !decisions.hasGroups)
        continue;
      what = "is in no group: nothing reads it";
    }
    os << ops.describe(op) << ' ' << what;
    return true;
  }
  if (decisions.hasGroups)
    return false;
  os << "nothing was decided: vertical fusion did not run, or found no op "
        "outside groups";
  return true;
}

bool Why::explainTogether() {
  for (unsigned group : groupsOf.lookup(first)) {
    if (!llvm::is_contained(groupsOf.lookup(second), group))
      continue;
    const DecidedGroup &decided = decisions.groups[group];
    os << "together, in " << describeGroup(group) << "\n  ";
    printRule(*decided.rule, 0, 0, std::nullopt);
    if (decided.savedBytes)
      os << "\n  the group saves " << decided.savedBytes
         << " bytes of memory traffic";
    if (decided.planLine)
      os << "\n  as line " << decided.planLine << " of the plan asks";
    return true;
  }
  return false;
}

bool Why::explainLaunch() {
  for (const DecidedLaunch &launch : decisions.launches)
    for (unsigned group : groupsOf.lookup(first)) {
      if (!llvm::is_contained(launch.groups, group) ||
          llvm::none_of(groupsOf.lookup(second), [&](unsigned other) {
            return llvm::is_contained(launch.groups, other);
          }))
        continue;
      os << "side by side, in one launch of " << launch.groups.size()
         << " groups\n  ";
      printRule(launch.rule, launch.value, launch.limit, std::nullopt);
      if (launch.savedUs)
        os << llvm::format("\n  it saves %.2f us, as predicted",
                           *launch.savedUs);
      return true;
    }
  return false;
}

//===----------------------------------------------------------------------===//
// One reads the other, perhaps through others
//===----------------------------------------------------------------------===//

bool Why::areTogether(unsigned from, unsigned to) const {
  const SmallVector<unsigned, 1> &other = groupsOf.lookup(to);
  return llvm::any_of(groupsOf.lookup(from), [&](unsigned group) {
    return llvm::is_contained(other, group);
  });
}

/// The chain with the fewest refusals on it. Only ops between the two can be
/// on one: readers have larger indices.
SmallVector<unsigned> Why::findChain(unsigned from, unsigned to) const {
  llvm::DenseMap<unsigned, unsigned> distance, before;
  std::deque<unsigned> worklist{from};
  distance[from] = 0;
  llvm::DenseSet<unsigned> done;
  while (!worklist.empty()) {
    unsigned op = worklist.front();
    worklist.pop_front();
    if (!done.insert(op).second)
      continue;
    if (op == to)
      break;
    for (unsigned reader : decisions.readers[op]) {
      if (reader > to)
        continue;
      bool isFree = areTogether(op, reader);
      unsigned length = distance[op] + !isFree;
      auto [it, isNew] = distance.try_emplace(reader, length);
      if (!isNew && it->second <= length)
        continue;
      it->second = length;
      before[reader] = op;
      if (isFree)
        worklist.push_front(reader);
      else
        worklist.push_back(reader);
    }
  }
  SmallVector<unsigned> chain;
  if (!distance.contains(to))
    return chain;
  for (unsigned op = to; op != from; op = before[op])
    chain.push_back(op);
  chain.push_back(from);
  std::reverse(chain.begin(), chain.end());
  return chain;
}

void Why::printStep(unsigned from, unsigned to) {
  auto it = pairOf.find(Key(from, to));
  if (areTogether(from, to)) {
    os << "together";
    if (it != pairOf.end() && getFusionRuleInfo(it->second->rule).accepts)
      os << ", " << getFusionRuleInfo(it->second->rule).id;
    return;
  }
  os << "apart, ";
  if (it == pairOf.end()) {
    os << "not tried: one of the two is a cheap op that serves several readers "
          "from a group of its own";
    return;
  }
  if (it->second->own) {
    printRule(it->second->rule, 0, 0, std::nullopt);
    os << "; the planner would have "
       << (getFusionRuleInfo(*it->second->own).accepts ? "fused them, "
                                                       : "done so too, ");
  }
  printRule(it->second->own.value_or(it->second->rule), it->second->value,
            it->second->limit, it->second->at);
  if (const std::optional<DecidedCut> &cut = it->second->cut) {
    os << "; the group was cut at the minimum-live edge";
    if (cut->at != DecidedGroup::kNoOp)
      os << ", before " << ops.describe(cut->at);
    os << ": " << cut->live << (cut->live == 1 ? " value" : " values")
       << " live across it, registers a thread " << cut->firstThread << " and "
       << cut->secondThread << ", a unit " << cut->firstUnit << " and "
       << cut->secondUnit;
  }
  os << "; " << it->second->bytes << " bytes of memory traffic at stake";
  if (it->second->separateUs > 0)
    os << llvm::format("; predicted %.2f us apart, %.2f us fused",
                       it->second->separateUs, it->second->fusedUs);
}

bool Why::explainChain(unsigned from, unsigned to) {
  SmallVector<unsigned> chain = findChain(from, to);
  if (chain.empty())
    return false;
  if (chain.size() == 2) {
    printStep(from, to);
    return true;
  }
  size_t refused = 0;
  for (size_t i = 0; i + 1 < chain.size(); ++i)
    refused += !areTogether(chain[i], chain[i + 1]);
  os << "apart: they never met; of the " << chain.size() - 1
     << " steps from one to the other " << refused
     << (refused == 1 ? " was refused" : " were refused");
  // All refused ones first; the others as far as there is room.
  size_t room = kMaxSteps > refused ? kMaxSteps - refused : 0, shown = 0;
  for (size_t i = 0; i + 1 < chain.size() && shown < kMaxSteps; ++i) {
    if (areTogether(chain[i], chain[i + 1])) {
      if (room == 0)
        continue;
      --room;
    }
    ++shown;
    os << "\n  " << ops.describe(chain[i]) << " -> "
       << ops.describe(chain[i + 1]) << ": ";
    printStep(chain[i], chain[i + 1]);
  }
  if (shown < chain.size() - 1)
    os << "\n  and " << chain.size() - 1 - shown << " steps more";
  return true;
}

//===----------------------------------------------------------------------===//
// Neither reads the other
//===----------------------------------------------------------------------===//

SmallVector<unsigned> Why::findGroupChain(unsigned from, unsigned to) const {
  llvm::DenseMap<unsigned, SmallVector<unsigned, 2>> neighbours;
  auto connect = [&](unsigned a, unsigned b) {
    neighbours[a].push_back(b);
    neighbours[b].push_back(a);
  };
  for (const DecidedLaunch &apart : decisions.apart)
    connect(apart.groups[0], apart.groups[1]);
  for (const DecidedLaunch &launch : decisions.launches)
    for (size_t i = 0; i + 1 < launch.groups.size(); ++i)
      connect(launch.groups[i], launch.groups[i + 1]);
  llvm::DenseMap<unsigned, unsigned> before{{from, from}};
  SmallVector<unsigned> worklist{from};
  for (size_t i = 0; i < worklist.size() && !before.contains(to); ++i)
    for (unsigned next : neighbours[worklist[i]])
      if (before.try_emplace(next, worklist[i]).second)
        worklist.push_back(next);
  SmallVector<unsigned> chain;
  if (!before.contains(to))
    return chain;
  for (unsigned group = to; group != from; group = before[group])
    chain.push_back(group);
  chain.push_back(from);
  std::reverse(chain.begin(), chain.end());
  return chain;
}

void Why::explainIndependent() {
  os << "apart: neither reads the other, directly or through others";
  unsigned from = groupsOf.lookup(first).front(),
           to = groupsOf.lookup(second).front();
  for (unsigned group : {from, to}) {
    os << "\n  " << ops.describe(decisions.groups[group].members.front());
    if (decisions.groups[group].members.size() > 1)
      os << " ... " << ops.describe(decisions.groups[group].members.back());
    os << ": " << describeGroup(group);
  }
  if (!decisions.hasLaunches) {
    os << "\n  horizontal fusion, which joins independent groups, did not run";
    return;
  }
  auto getNames = [&](unsigned group) {
    return llvm::map_to_vector(
        decisions.groups[group].members,
        [&](unsigned op) { return ops[op].name.getStringRef(); });
  };
  SmallVector<unsigned> chain = findGroupChain(from, to);
  if (chain.empty()) {
    os << "\n  ";
    if (decisions.groups[from].kind != decisions.groups[to].kind ||
        getNames(from) != getNames(to))
      os << "horizontal fusion joins groups of the same ops only";
    else
      os << "horizontal fusion did not compare the two: their ops differ in "
            "attributes or shapes";
    return;
  }
  auto getName = [&](unsigned group) {
    return ops.describe(decisions.groups[group].members.front());
  };
  for (size_t i = 0; i + 1 < chain.size() && i < kMaxSteps; ++i) {
    os << "\n  group of " << getName(chain[i]) << " | group of "
       << getName(chain[i + 1]) << ": ";
    auto apart = llvm::find_if(decisions.apart, [&](const DecidedLaunch &pair) {
      return llvm::is_contained(pair.groups, chain[i]) &&
             llvm::is_contained(pair.groups, chain[i + 1]);
    });
    if (apart == decisions.apart.end())
      os << "one launch";
    else
      printRule(apart->rule, apart->value, apart->limit, std::nullopt);
  }
  if (chain.size() > kMaxSteps + 1)
    os << "\n  and " << chain.size() - 1 - kMaxSteps << " steps more";
}

std::string Why::run() {
  if (explainSpecial())
    return text;
  os << ops.describe(first) << " and " << ops.describe(second) << ": ";
  if (!explainTogether() && !explainLaunch() && !explainChain(first, second))
    explainIndependent();
  return text;
}

std::string fusion::explainPair(const FusionDecisions &decisions,
                                unsigned first, unsigned second) {
  return Why(decisions, first, second).run();
}

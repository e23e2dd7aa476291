//===- Explain.cpp - What the compiler decided, for people ----------------===//
//
// Counting, and one table. Nothing here decides anything.
//
//===----------------------------------------------------------------------===//
#include "fusion/Analysis/Explain.h"
#include "fusion/Analysis/FusionLegality.h"

#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace fusion;

//===----------------------------------------------------------------------===//
// Counting
//===----------------------------------------------------------------------===//

/// Whether another launch reads the value, perhaps through a view.
static bool isReadInside(Value value) {
  SmallVector<Value> worklist{value};
  while (!worklist.empty())
    for (Operation *user : worklist.pop_back_val().getUsers()) {
      if (getOpFamily(user) == OpFamily::View)
        worklist.push_back(user->getResult(0));
      else if (!user->hasTrait<OpTrait::IsTerminator>())
        return true;
    }
  return false;
}

static void addFunction(FunctionOpInterface function, GraphStats &stats) {
  // Only for its sizes; where they can't be had, nothing is said of bytes.
  FailureOr<FusionLegality> sizes =
      FusionLegality::create(function, GroupLimits());
  for (Operation &op :
       function.getFunctionBody().front().without_terminator()) {
    OpFamily family = getOpFamily(&op);
    // A broadcast or the like is read in place by whoever needs it.
    if (family == OpFamily::Source || family == OpFamily::View ||
        isCheapToClone(&op))
      continue;
    ++stats.launches;
    if (auto group = dyn_cast<GroupOp>(op))
      ++stats.groups[stringifyGroupKind(group.getKind())];
    for (Value result : op.getResults())
      if (succeeded(sizes) && isa<RankedTensorType>(result.getType()) &&
          isReadInside(result))
        stats.intermediateBytes += sizes->getByteSize(result);
  }
}

GraphStats fusion::computeGraphStats(ModuleOp module) {
  GraphStats stats;
  for (auto function : module.getOps<FunctionOpInterface>())
    if (!function.isExternal() &&
        llvm::hasSingleElement(function.getFunctionBody()))
      addFunction(function, stats);
  return stats;
}

/// Distinct reasons of a rule that are told apart.
static constexpr size_t kReasonsOfARule = 4;

void DecisionLog::add(DecisionCount decision) {
  std::lock_guard<std::mutex> lock(mutex);
  // Rows for the first few reasons; the rest share one, which tells none.
  std::string key = (decision.accepted ? "+" : "-") + decision.rule + '\0';
  size_t &distinct = reasons[key];
  if (distinct == kReasonsOfARule && !index.contains(key + decision.reason))
    decision.reason.clear();
  auto [it, isNew] = index.try_emplace(key + decision.reason, counts.size());
  if (isNew) {
    distinct += !decision.reason.empty();
    counts.push_back(std::move(decision));
    return;
  }
  DecisionCount &entry = counts[it->second];
  entry.count += decision.count;
  entry.bytes += decision.bytes;
  entry.separateUs += decision.separateUs;
  entry.fusedUs += decision.fusedUs;
}

void DecisionLog::declare(StringRef rule, StringRef text) {
  std::lock_guard<std::mutex> lock(mutex);
  auto isSame = [&](auto &other) { return other.first == rule; };
  if (llvm::none_of(declared, isSame))
    declared.push_back({rule.str(), text.str()});
}

SmallVector<DecisionCount> DecisionLog::getUnmatched() const {
  std::lock_guard<std::mutex> lock(mutex);
  SmallVector<DecisionCount> unmatched;
  for (auto &[rule, text] : declared)
    if (!reasons.contains("+" + rule + '\0')) {
      DecisionCount &entry = unmatched.emplace_back();
      entry.rule = rule;
      entry.reason = text;
    }
  return unmatched;
}

SmallVector<DecisionCount> DecisionLog::getCounts() const {
  std::lock_guard<std::mutex> lock(mutex);
  return SmallVector<DecisionCount>(counts.begin(), counts.end());
}

//===----------------------------------------------------------------------===//
// Collecting remarks
//===----------------------------------------------------------------------===//

static constexpr llvm::StringLiteral kDeclared = "declared";

void fusion::declareRewrite(Operation *op, StringRef rule, StringRef text) {
  remark::analysis(op->getLoc(),
                   remark::RemarkOpts::name(rule).category(kDeclared))
      << remark::reason("{0}", text);
}

namespace {

class DecisionStreamer : public remark::detail::MLIRRemarkStreamerBase {
public:
  explicit DecisionStreamer(DecisionLog &log) : log(log) {}

  void streamOptimizationRemark(const remark::detail::Remark &remark) override {
    StringRef type = remark.getRemarkTypeString();
    if (remark.getCategoryName() == kDeclared) {
      for (const remark::detail::Remark::Arg &arg : remark.getArgs())
        if (arg.key == "Reason")
          log.declare(remark.getRemarkName(), arg.val);
      return;
    }
    if (type != "Passed" && type != "Missed" && type != "Failure")
      return;
    StringRef producer, consumer;
    DecisionCount decision;
    // A rule of a plugin goes by its category, so that it's never one of ours.
    decision.rule = remark.getRemarkName();
    if (remark.getCategoryName() != "fusion")
      decision.rule = (remark.getCategoryName() + ":" + decision.rule).str();
    decision.accepted = type == "Passed";
    decision.count = 1;
    for (const remark::detail::Remark::Arg &arg : remark.getArgs()) {
      if (arg.key == "Reason" ||
          (arg.key == "Remark" && decision.reason.empty()))
        decision.reason = arg.val;
      else if (arg.key == "producer")
        producer = arg.val;
      else if (arg.key == "consumer")
        consumer = arg.val;
      else if (arg.key == "bytes")
        (void)StringRef(arg.val).getAsInteger(10, decision.bytes);
      else if (arg.key == "us_unfused")
        (void)StringRef(arg.val).getAsDouble(decision.separateUs);
      else if (arg.key == "us_fused")
        (void)StringRef(arg.val).getAsDouble(decision.fusedUs);
    }
    llvm::raw_string_ostream os(decision.example);
    if (!producer.empty())
      os << producer << " -> " << consumer << ' ';
    os << remark.getLocation();
    log.add(std::move(decision));
  }

private:
  DecisionLog &log;
};

} // namespace

LogicalResult fusion::collectDecisions(MLIRContext &context, DecisionLog &log) {
  remark::RemarkCategories categories;
  categories.passed = categories.missed = categories.failed = ".*";
  categories.analysis = kDeclared.str();
  return remark::enableOptimizationRemarks(
      context, std::make_unique<DecisionStreamer>(log),
      std::make_unique<remark::RemarkEmittingPolicyAll>(), categories);
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

ExplainReport fusion::computeExplain(GraphStats before, GraphStats after,
                                     const DecisionLog &log) {
  ExplainReport report;
  report.before = std::move(before);
  report.after = std::move(after);
  report.unmatched = log.getUnmatched();
  for (DecisionCount &count : log.getCounts()) {
    bool ofFusion = findFusionRule(count.rule) != nullptr;
    (count.accepted ? ofFusion ? report.fused : report.rewritten
     : ofFusion     ? report.refused
                    : report.notRewritten)
        .push_back(std::move(count));
  }
  for (auto *list : {&report.fused, &report.refused, &report.rewritten,
                     &report.notRewritten})
    llvm::sort(*list, [](const DecisionCount &a, const DecisionCount &b) {
      return std::tie(b.count, a.rule, a.reason) <
             std::tie(a.count, b.rule, b.reason);
    });
  return report;
}

/// `12.3 KiB` and the like.
static std::string formatBytes(int64_t bytes) {
  static constexpr const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double amount = bytes;
  unsigned unit = 0;
  while (amount >= 1024 && unit + 1 < std::size(units)) {
    amount /= 1024;
    ++unit;
  }
  return llvm::formatv(unit ? "{0:f1} {1}" : "{0:f0} {1}", amount, units[unit])
      .str();
}

static constexpr size_t kColumns = 77;
static constexpr size_t kRuleWidth = 20;
static constexpr size_t kTextColumn = 6 + 2 + 10 + 2 + kRuleWidth + 2;

/// Prints `text` from the text column on, over as many lines as it takes.
static void printWrapped(StringRef text, llvm::raw_ostream &os) {
  size_t room = kColumns - kTextColumn;
  while (text.size() > room) {
    size_t cut = text.take_front(room + 1).rfind(' ');
    // A word that is longer than the line is broken.
    bool atSpace = cut != StringRef::npos && cut > 0;
    if (!atSpace)
      cut = room;
    os << text.take_front(cut) << '\n';
    os.indent(kTextColumn);
    text = text.drop_front(atSpace ? cut + 1 : cut);
  }
  os << text << '\n';
}

static void printCounts(StringRef title, ArrayRef<DecisionCount> counts,
                        bool withExample, llvm::raw_ostream &os) {
  if (counts.empty())
    return;
  os << '\n' << title << '\n';
  for (const DecisionCount &count : counts) {
    os << llvm::formatv("{0,6}  {1,10}  {2,-20}  ", count.count,
                        count.bytes ? formatBytes(count.bytes) : "",
                        count.rule);
    if (count.rule.size() > kRuleWidth) {
      os << '\n';
      os.indent(kTextColumn);
    }
    printWrapped(count.reason.empty() ? StringRef("for other reasons")
                                      : StringRef(count.reason),
                 os);
    if (count.separateUs > 0) {
      os.indent(kTextColumn);
      printWrapped(llvm::formatv("predicted us: {0:f1} apart, {1:f1} fused",
                                 count.separateUs, count.fusedUs)
                       .str(),
                   os);
    }
    if (withExample && !count.example.empty()) {
      os.indent(kTextColumn);
      printWrapped("e.g. " + count.example, os);
    }
  }
}

void fusion::printExplain(const ExplainReport &report, llvm::raw_ostream &os) {
  os << llvm::formatv("{0,-24}{1,12}{2,12}\n", "", "before", "after");
  os << llvm::formatv("{0,-24}{1,12}{2,12}\n", "launches",
                      report.before.launches, report.after.launches);
  os << llvm::formatv("{0,-24}{1,12}{2,12}\n", "intermediates",
                      formatBytes(report.before.intermediateBytes),
                      formatBytes(report.after.intermediateBytes));
  if (!report.after.groups.empty()) {
    os << "\ngroups\n";
    for (auto &[kind, count] : report.after.groups)
      os << llvm::formatv("{0,6}  {1}\n", count, kind);
  }
  printCounts("rewritten", report.rewritten, false, os);
  printCounts("not rewritten, and why", report.notRewritten, true, os);
  printCounts("fused pairs, traffic saved", report.fused, false, os);
  printCounts("pairs not fused, traffic at stake, and why", report.refused,
              true, os);
  printCounts("looked for, and matched nothing", report.unmatched, false, os);
}

//===- PlanFile.h - Groups as a file that people edit -----------*- C++ -*-===//
//
// What `--emit-plan` writes and `--plan` reads: for each function the groups,
// in the order in which they run, and the hash of the graph that they group.
// The format is described in docs/plans.md. Private to lib/Fuse.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_FUSE_PLANFILE_H
#define FUSION_LIB_FUSE_PLANFILE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>
#include <vector>

namespace llvm {
class raw_ostream;
} // namespace llvm

namespace fusion {

/// One op of a group, by its id or another way to name it (OpTable.h), and
/// behind a blank whatever helps a person.
struct PlanMember {
  unsigned line = 0;
  std::string text;
};

/// One group.
struct PlanLine {
  unsigned line = 0;
  /// A kind of group, `horizontal`, `outside` for an op that is in no group, or
  /// empty where the file leaves it open.
  std::string kind;
  std::vector<PlanMember> members;
  /// The groups of one horizontal launch; then `members` is empty.
  std::vector<PlanLine> groups;
  /// Of the ops that several groups compute, those that this one writes for
  /// groups that don't; of others the first group does.
  std::vector<PlanMember> writes;

  // Written for people; of these the rule of a group of one op is read, or that
  // a reason is given without one, as the reason why it stays alone.
  std::string rule, reason;
  int64_t savedBytes = 0;
  std::optional<double> predictedUs, unfusedUs;

  bool isHorizontal() const { return kind == "horizontal"; }
};

struct FunctionPlan {
  unsigned line = 0;
  std::string function;
  /// Hash of the graph, as of OpTable.
  std::string graph;
  std::vector<PlanLine> groups;
};

struct PlanFile {
  std::string path;
  std::string device;
  unsigned deviceLine = 0;
  std::vector<FunctionPlan> functions;
};

/// Reads a plan. Fails with a PlanTextError (PlanText.h) that names what is
/// wrong and what is right: broken JSON, another version, an unknown key, a
/// value of the wrong type, a kind that there is not, deeper nesting.
llvm::Expected<PlanFile> parsePlanFile(llvm::StringRef text, std::string path);

/// Writes what parsePlanFile reads; equal plans give equal bytes. What is for
/// people only is left out unless `withNotes`.
void writePlanFile(const PlanFile &plan, llvm::raw_ostream &os,
                   bool withNotes = true);

} // namespace fusion

#endif // FUSION_LIB_FUSE_PLANFILE_H

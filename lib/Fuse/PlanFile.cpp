//===- PlanFile.cpp - Groups as a file that people edit -------------------===//
//
// Reading is strict about the form, because a typing error that is passed over
// would be a line silently ignored. Whether the groups fit a graph is
// PlanReplay's matter.
//
//===----------------------------------------------------------------------===//
#include "PlanFile.h"
#include "PlanText.h"
#include "fusion/IR/FusionDialect.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace fusion;
using Kind = PlanValue::Kind;

static constexpr llvm::StringLiteral kVersionKey = "fusion-plan";
static constexpr llvm::StringLiteral kVersion = "1";

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

/// Fails unless `value` is of the kind that `name` must have.
static llvm::Error expectKind(const PlanValue &value, Kind kind,
                              llvm::StringRef name) {
  if (value.kind == kind)
    return llvm::Error::success();
  PlanValue wanted;
  wanted.kind = kind;
  return failAt(value, name + " is " + value.describe() + ", not " +
                           wanted.describe());
}

/// Fails if an object has a key that is none of `known`.
static llvm::Error checkKeys(const PlanValue &object, llvm::StringRef name,
                             llvm::ArrayRef<llvm::StringRef> known) {
  for (auto [key, value] : llvm::zip_equal(object.keys, object.values)) {
    if (llvm::is_contained(known, key))
      continue;
    llvm::StringRef nearest = *llvm::min_element(
        known, [&key = key](llvm::StringRef a, llvm::StringRef b) {
          return a.edit_distance(key) < b.edit_distance(key);
        });
    return failAt(value, "unknown key '" + key + "' in " + name +
                             "; did you mean '" + nearest + "'?");
  }
  return llvm::Error::success();
}

/// The string member of that key; a missing one is an error, too.
static llvm::Expected<std::string>
getString(const PlanValue &object, llvm::StringRef key, llvm::StringRef name) {
  const PlanValue *value = object.find(key);
  if (!value)
    return failAt(object, name + " has no '" + key + "'");
  if (llvm::Error error = expectKind(*value, Kind::String, key))
    return std::move(error);
  return value->text;
}

/// A kind as of the file: one of a group, or `outside`.
static llvm::Error checkGroupKind(const PlanValue &value) {
  if (value.text == "outside" || symbolizeGroupKind(value.text))
    return llvm::Error::success();
  std::string kinds = "outside";
  for (unsigned i = 0; i <= getMaxEnumValForGroupKind(); ++i)
    if (std::optional<GroupKind> kind = symbolizeGroupKind(i))
      kinds += ", " + stringifyGroupKind(*kind).str();
  return failAt(value,
                "unknown kind '" + value.text + "'; the kinds are: " + kinds);
}

/// Checks what is written for people: its form only.
static llvm::Error checkNotes(const PlanValue &object) {
  for (auto [key, kind] :
       {std::pair<llvm::StringRef, Kind>{"rule", Kind::String},
        {"reason", Kind::String},
        {"note", Kind::String},
        {"saved-bytes", Kind::Number},
        {"predicted-us", Kind::Number},
        {"unfused-us", Kind::Number}})
    if (const PlanValue *value = object.find(key))
      if (llvm::Error error = expectKind(*value, kind, key))
        return error;
  return llvm::Error::success();
}

/// Reads a group; `inLaunch` if it is a member of a horizontal one.
static llvm::Error readGroup(const PlanValue &value, bool inLaunch,
                             PlanLine &group) {
  group.line = value.line;
  if (llvm::Error error = expectKind(value, Kind::Object, "a group"))
    return error;
  if (llvm::Error error =
          checkKeys(value, "a group",
                    {"kind", "members", "rule", "reason", "note", "saved-bytes",
                     "predicted-us", "unfused-us", "writes"}))
    return error;
  if (llvm::Error error = checkNotes(value))
    return error;
  if (const PlanValue *kind = value.find("kind")) {
    if (llvm::Error error = expectKind(*kind, Kind::String, "kind"))
      return error;
    if (llvm::Error error = checkGroupKind(*kind))
      return error;
    group.kind = kind->text;
  }
  if (const PlanValue *rule = value.find("rule"))
    group.rule = rule->text;
  if (const PlanValue *reason = value.find("reason"))
    group.reason = reason->text;
  if (const PlanValue *writes = value.find("writes")) {
    if (llvm::Error error = expectKind(*writes, Kind::Array, "writes"))
      return error;
    for (const PlanValue &op : writes->values) {
      if (llvm::Error error = expectKind(op, Kind::String, "an op of writes"))
        return error;
      group.writes.push_back({op.line, op.text});
    }
    if (group.isHorizontal() && !group.writes.empty())
      return failAt(*writes, "the groups of a launch write, not the launch");
  }
  if (inLaunch && (group.isHorizontal() || group.kind == "outside"))
    return failAt(value, "a horizontal group holds groups of ops, none of kind "
                         "'" +
                             group.kind + "'");
  const PlanValue *members = value.find("members");
  if (!members)
    return failAt(value, "a group has no 'members'");
  if (llvm::Error error = expectKind(*members, Kind::Array, "members"))
    return error;
  if (members->values.empty())
    return failAt(*members, "a group has no members");
  for (const PlanValue &member : members->values) {
    if (group.isHorizontal()) {
      if (member.kind != Kind::Object)
        return failAt(member, "members of a horizontal group are groups, not " +
                                  member.describe());
      if (llvm::Error error =
              readGroup(member, /*inLaunch=*/true, group.groups.emplace_back()))
        return error;
      continue;
    }
    if (member.kind == Kind::Object)
      return failAt(member, "only a group of kind 'horizontal' has groups as "
                            "members");
    if (llvm::Error error = expectKind(member, Kind::String, "a member"))
      return error;
    group.members.push_back({member.line, member.text});
  }
  return llvm::Error::success();
}

static llvm::Error readFunction(const PlanValue &value, FunctionPlan &plan) {
  plan.line = value.line;
  if (llvm::Error error = expectKind(value, Kind::Object, "a function's plan"))
    return error;
  if (llvm::Error error = checkKeys(value, "a function's plan",
                                    {"function", "graph", "groups", "note"}))
    return error;
  if (llvm::Error error = checkNotes(value))
    return error;
  for (auto [key, field] :
       {std::pair{"function", &plan.function}, {"graph", &plan.graph}}) {
    llvm::Expected<std::string> text =
        getString(value, key, "a function's plan");
    if (!text)
      return text.takeError();
    *field = std::move(*text);
  }
  const PlanValue *groups = value.find("groups");
  if (!groups)
    return failAt(value, "a function's plan has no 'groups'");
  if (llvm::Error error = expectKind(*groups, Kind::Array, "groups"))
    return error;
  for (const PlanValue &group : groups->values)
    if (llvm::Error error =
            readGroup(group, /*inLaunch=*/false, plan.groups.emplace_back()))
      return error;
  return llvm::Error::success();
}

llvm::Expected<PlanFile> fusion::parsePlanFile(llvm::StringRef text,
                                               std::string path) {
  llvm::Expected<PlanValue> root = parsePlanText(text);
  if (!root)
    return root.takeError();
  if (llvm::Error error = expectKind(*root, Kind::Object, "a plan"))
    return std::move(error);
  const PlanValue *version = root->find(kVersionKey);
  if (!version)
    return failAt(*root, "a plan has no '" + kVersionKey + "'; write \"" +
                             kVersionKey + "\": " + kVersion);
  if (version->kind != Kind::Number || version->text != kVersion)
    return failAt(*version, "this compiler reads version " + kVersion +
                                " of plans; write the plan anew with "
                                "--emit-plan");
  if (llvm::Error error = checkKeys(
          *root, "a plan", {kVersionKey, "device", "functions", "note"}))
    return std::move(error);
  if (llvm::Error error = checkNotes(*root))
    return std::move(error);
  PlanFile plan;
  plan.path = std::move(path);
  if (const PlanValue *device = root->find("device")) {
    if (llvm::Error error = expectKind(*device, Kind::String, "device"))
      return std::move(error);
    plan.device = device->text;
    plan.deviceLine = device->line;
  }
  const PlanValue *functions = root->find("functions");
  if (!functions)
    return failAt(*root, "a plan has no 'functions'");
  if (llvm::Error error = expectKind(*functions, Kind::Array, "functions"))
    return std::move(error);
  llvm::StringSet<> names;
  for (const PlanValue &function : functions->values) {
    FunctionPlan &added = plan.functions.emplace_back();
    if (llvm::Error error = readFunction(function, added))
      return std::move(error);
    if (!names.insert(added.function).second)
      return failAt(function,
                    "two plans for the function '" + added.function + "'");
  }
  return plan;
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

/// A string in quotes. What is no UTF-8 becomes a replacement character.
static llvm::json::Value quote(llvm::StringRef text) {
  return llvm::json::isUTF8(text)
             ? llvm::json::Value(text)
             : llvm::json::Value(llvm::json::fixUTF8(text));
}

static void writeGroup(const PlanLine &group, unsigned indent, bool withNotes,
                       llvm::raw_ostream &os) {
  os.indent(indent) << "{\"kind\": " << quote(group.kind);
  if (withNotes && !group.rule.empty())
    os << ", \"rule\": " << quote(group.rule);
  if (withNotes && group.savedBytes)
    os << ", \"saved-bytes\": " << group.savedBytes;
  if (withNotes && group.predictedUs && std::isfinite(*group.predictedUs))
    os << ", \"predicted-us\": " << llvm::format("%.3f", *group.predictedUs);
  if (withNotes && group.unfusedUs && std::isfinite(*group.unfusedUs))
    os << ", \"unfused-us\": " << llvm::format("%.3f", *group.unfusedUs);
  if (withNotes && !group.reason.empty()) {
    os << ",\n";
    os.indent(indent + 1) << "\"reason\": " << quote(group.reason);
  }
  os << ",\n";
  if (!group.writes.empty()) {
    os.indent(indent + 1) << "\"writes\": [";
    llvm::ListSeparator comma(", ");
    for (const PlanMember &op : group.writes)
      os << comma << quote(op.text);
    os << "],\n";
  }
  os.indent(indent + 1) << "\"members\": [\n";
  llvm::ListSeparator comma(",\n");
  for (const PlanLine &member : group.groups) {
    os << comma;
    writeGroup(member, indent + 3, withNotes, os);
  }
  for (const PlanMember &member : group.members) {
    os << comma;
    os.indent(indent + 3) << quote(member.text);
  }
  os << "]}";
}

void fusion::writePlanFile(const PlanFile &plan, llvm::raw_ostream &os,
                           bool withNotes) {
  os << "{\n  \"" << kVersionKey << "\": " << kVersion << ",\n";
  os << "  \"device\": " << quote(plan.device) << ",\n";
  os << "  \"functions\": [";
  llvm::ListSeparator comma(",");
  for (const FunctionPlan &function : plan.functions) {
    os << comma << "\n    {\"function\": " << quote(function.function)
       << ",\n     \"graph\": " << quote(function.graph)
       << ",\n     \"groups\": [";
    llvm::ListSeparator groupComma(",");
    for (const PlanLine &group : function.groups) {
      os << groupComma << '\n';
      writeGroup(group, 7, withNotes, os);
    }
    os << "]}";
  }
  os << "]\n}\n";
}

//===- PlanText.h - JSON that knows its lines -------------------*- C++ -*-===//
//
// A plan file is written and edited by people, so whatever is wrong with it is
// said with its line: this reader keeps the line of each value, the order of
// keys and keys that repeat, all of which llvm::json drops. Scalars are left to
// llvm::json. Nesting is bounded. Private to lib/Fuse.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_LIB_FUSE_PLANTEXT_H
#define FUSION_LIB_FUSE_PLANTEXT_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace fusion {

/// A value of a JSON text.
struct PlanValue {
  enum class Kind { Null, Boolean, Number, String, Array, Object };
  Kind kind = Kind::Null;
  /// 1-based place of its first character.
  unsigned line = 1, column = 1;
  /// A string's characters, unescaped; a number as it is written.
  std::string text;
  /// Elements of an array, or the members of an object in the order written.
  std::vector<PlanValue> values;
  /// The keys of an object, as many as `values`; all different.
  std::vector<std::string> keys;

  /// The member of that key, or null.
  const PlanValue *find(llvm::StringRef key) const;
  /// "an array", "a string", ...
  llvm::StringRef describe() const;
};

/// What is wrong with a text, and where.
class PlanTextError : public llvm::ErrorInfo<PlanTextError> {
public:
  static char ID;

  PlanTextError(unsigned line, unsigned column, std::string message)
      : line(line), column(column), message(std::move(message)) {}

  void log(llvm::raw_ostream &os) const override;
  std::error_code convertToErrorCode() const override;

  unsigned line, column;
  std::string message;
};

/// An error at a value.
llvm::Error failAt(const PlanValue &value, const llvm::Twine &message);

/// Reads one JSON value and nothing behind it, nested at most 32 deep. Fails
/// with a PlanTextError.
llvm::Expected<PlanValue> parsePlanText(llvm::StringRef text);

} // namespace fusion

#endif // FUSION_LIB_FUSE_PLANTEXT_H

//===- Failure.h - Errors of the reference evaluator ------------*- C++ -*-===//
//
// One error type for the evaluator and its file readers. The kind is the exit
// code that a tool ends with; the message says what, where, and what to do.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_REFERENCE_FAILURE_H
#define FUSION_REFERENCE_FAILURE_H

#include "llvm/ADT/Twine.h"
#include "llvm/Support/Error.h"

#include <string>

namespace fusion::reference {

/// What went wrong. The values are exit codes of the command line's contract.
enum class FailureKind {
  Usage = 2,      ///< inputs or options that do not fit the program
  Program = 3,    ///< the program, or a file it names, is wrong
  Resources = 6,  ///< memory or disk
  PeerFailed = 7, ///< another rank failed first
  Timeout = 8     ///< a rank waited longer than the deadline
};

class Failure : public llvm::ErrorInfo<Failure> {
public:
  static char ID;

  Failure(FailureKind kind, std::string message)
      : kind(kind), message(std::move(message)) {}

  FailureKind getKind() const { return kind; }
  const std::string &getMessage() const { return message; }

  void log(llvm::raw_ostream &os) const override;
  std::error_code convertToErrorCode() const override;

private:
  FailureKind kind;
  std::string message;
};

/// An error of the given kind.
llvm::Error fail(FailureKind kind, const llvm::Twine &message);

/// Takes `error` apart: its message, and in `kind` its kind. An error of a
/// foreign type counts as `Program`.
std::string takeMessage(llvm::Error error, FailureKind &kind);

} // namespace fusion::reference

#endif // FUSION_REFERENCE_FAILURE_H

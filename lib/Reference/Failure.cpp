//===- Failure.cpp - Errors of the reference evaluator --------------------===//

#include "fusion/Reference/Failure.h"

#include "llvm/Support/raw_ostream.h"

using namespace fusion::reference;

char Failure::ID = 0;

void Failure::log(llvm::raw_ostream &os) const { os << message; }

std::error_code Failure::convertToErrorCode() const {
  return llvm::inconvertibleErrorCode();
}

llvm::Error fusion::reference::fail(FailureKind kind,
                                    const llvm::Twine &message) {
  return llvm::make_error<Failure>(kind, message.str());
}

std::string fusion::reference::takeMessage(llvm::Error error,
                                           FailureKind &kind) {
  std::string message;
  kind = FailureKind::Program;
  llvm::handleAllErrors(
      std::move(error),
      [&](const Failure &failure) {
        kind = failure.getKind();
        message = failure.getMessage();
      },
      [&](const llvm::ErrorInfoBase &other) { message = other.message(); });
  return message;
}

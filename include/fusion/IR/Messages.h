//===- Messages.h - Errors about a model, for people ------------*- C++ -*-===//
//
// What tools print of the diagnostics that parsing, verifying and passes emit.
// A line of a model can be megabytes long, and so can what a message quotes.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_IR_MESSAGES_H
#define FUSION_IR_MESSAGES_H

#include "mlir/IR/Diagnostics.h"

#include <string>

namespace fusion {

/// Cuts each line of more than 1,000 bytes: its middle becomes "...", its end,
/// which says what to do, stays.
std::string shortenMessage(llvm::StringRef message);

/// "model.mlir:3:8" for a location in a file, "op 'name'" for one with only a
/// name, "" for one with neither. Names are shortened.
std::string describePlace(mlir::Location location);

/// Where the handler below collects a message; apart, to be there before it.
struct MessageText {
  std::string text;
  llvm::raw_string_ostream stream{text};
};

/// Prints diagnostics with the line of the model that they are about, lines
/// shortened around the column. One without a file names its op.
class MessageHandler : private MessageText,
                       public mlir::SourceMgrDiagnosticHandler {
public:
  /// All three must outlive the handler.
  MessageHandler(llvm::SourceMgr &sources, mlir::MLIRContext *context,
                 llvm::raw_ostream &os);

private:
  void print(mlir::Location location, const std::string &message,
             mlir::DiagnosticSeverity severity);

  llvm::raw_ostream &out;
};

} // namespace fusion

#endif // FUSION_IR_MESSAGES_H

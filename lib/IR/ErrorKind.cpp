//===- ErrorKind.cpp - Whose fault an error is ----------------------------===//
//
// The kind is an integer in the diagnostic's metadata, which no printer shows.
//
//===----------------------------------------------------------------------===//
#include "fusion/IR/ErrorKind.h"

#include "mlir/IR/Operation.h"

using namespace mlir;
using namespace fusion;

InFlightDiagnostic fusion::emitError(Operation *op, ErrorKind kind) {
  InFlightDiagnostic diagnostic = op->emitError();
  diagnostic.getUnderlyingDiagnostic()->getMetadata().push_back(
      DiagnosticArgument(static_cast<int64_t>(kind)));
  if (kind == ErrorKind::Internal)
    diagnostic << "internal error: ";
  return diagnostic;
}

ErrorKind fusion::getErrorKind(Diagnostic &diagnostic) {
  for (const DiagnosticArgument &argument : diagnostic.getMetadata())
    if (argument.getKind() ==
        DiagnosticArgument::DiagnosticArgumentKind::Integer)
      return static_cast<ErrorKind>(argument.getAsInteger());
  return ErrorKind::Program;
}

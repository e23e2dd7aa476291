//===- ErrorKind.h - Whose fault an error is --------------------*- C++ -*-===//
//
// Most errors blame the program that was given. The two other kinds travel with
// the diagnostic, so that the exit code of a compilation depends on no wording.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_IR_ERRORKIND_H
#define FUSION_IR_ERRORKIND_H

#include "mlir/IR/Diagnostics.h"

namespace fusion {

enum class ErrorKind {
  Program,   ///< the input program is wrong, or not supported
  Resources, ///< a limit on memory or disk is exceeded
  Internal,  ///< an invariant of the compiler itself broke
  Check,     ///< values that must be equal are not
};

/// Emits an error of `kind` at `op`. The text of an internal one starts with
/// "internal error: ".
mlir::InFlightDiagnostic emitError(mlir::Operation *op, ErrorKind kind);

/// The kind of an error: `Program`, unless it says otherwise.
ErrorKind getErrorKind(mlir::Diagnostic &diagnostic);

} // namespace fusion

#endif // FUSION_IR_ERRORKIND_H

//===- Registration.h - Dialects and passes of the compiler -----*- C++ -*-===//
//
// What every tool registers, in one place.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_PIPELINES_REGISTRATION_H
#define FUSION_PIPELINES_REGISTRATION_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace fusion {

/// Adds the dialects that model IR, kernels and programs are written in.
void registerDialects(mlir::DialectRegistry &registry);

/// Registers every pass of the compiler by its flag, and the pipelines by name.
void registerPasses();

} // namespace fusion

#endif // FUSION_PIPELINES_REGISTRATION_H

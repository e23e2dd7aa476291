//===- Registration.h - Dialects and passes of the compiler -----*- C++ -*-===//
//
// What every tool registers, in one place.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_PIPELINES_REGISTRATION_H
#define FUSION_PIPELINES_REGISTRATION_H

#include "llvm/ADT/StringRef.h"

#include <string>

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace fusion {

/// Adds the dialects that model IR, kernels and programs are written in.
void registerDialects(mlir::DialectRegistry &registry);

/// Registers every pass of the compiler by its flag, and the pipelines by name.
void registerPasses();

/// A plugin's path as the loader takes it: without a slash it would search the
/// system's folders instead.
std::string getPluginPath(llvm::StringRef path);

/// What PassPlugin::load says of `path`, as one line: what, where (`option`),
/// what to do.
std::string describePluginError(llvm::StringRef path, llvm::StringRef error,
                                llvm::StringRef option);

} // namespace fusion

#endif // FUSION_PIPELINES_REGISTRATION_H

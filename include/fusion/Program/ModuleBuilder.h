//===- ModuleBuilder.h - Kernels + program + weights -> module --*- C++ -*-===//
//
// The program phase: serializes a compiled `builtin.module` one to one.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_PROGRAM_MODULEBUILDER_H
#define FUSION_PROGRAM_MODULEBUILDER_H

#include "fusion/Codegen/DeviceCode.h"
#include "fusion/Codegen/UserKernels.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <utility>
#include <vector>

namespace fusion {
namespace rt {
struct Module;
template <typename T> class Expected;
} // namespace rt

/// What the module says of itself besides the program.
struct ModuleBuildOptions {
  std::string target = "cpu";
  std::string cpu;                      ///< resolved name
  std::vector<std::string> cpuFeatures; ///< needed by the kernels
  DeviceCodeOptions gpu; ///< how kernels of a target "cuda:..." are compiled
  /// Folder that the parameters' files are relative to.
  std::string parameterFolder;
  /// How C kernels of the model are compiled. Folder and features are those
  /// above.
  UserKernelOptions userKernels;
  /// key/value lines for --inspect, in order.
  std::vector<std::pair<std::string, std::string>> provenance;
};

/// Builds the executable module from a module that went through all earlier
/// phases: one `fusion.program`, the lowered `@kernels`, the parameters. C
/// kernels of the model are compiled by an external compiler, which is looked
/// for only if there are any; it and their sources' hashes join the provenance.
/// An error is reported at the op that cannot be written, and the status says
/// whether it is the program's or the compiler's own; one of the machine's
/// resources is in the status only.
rt::Expected<rt::Module>
buildExecutableModule(mlir::ModuleOp module, const ModuleBuildOptions &options);

} // namespace fusion

#endif // FUSION_PROGRAM_MODULEBUILDER_H

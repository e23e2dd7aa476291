//===- Plugins.h - Passes that come from shared libraries -------*- C++ -*-===//
//
// Loads a plugin so that whatever is wrong with it is one error and not the end
// of the process: a file cut short, another version, a missing symbol, a name
// that is taken. Knows afterwards which plugin a pass is from.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_PIPELINES_PLUGINS_H
#define FUSION_PIPELINES_PLUGINS_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace mlir {
class DialectRegistry;
class Pass;
} // namespace mlir

namespace fusion {

/// Loads the plugin at `path` and registers its passes, for the life of the
/// process. A path without a slash is a file of the working folder, like any
/// other path. Loading a plugin twice changes nothing. The error reads "what,
/// where (`option`), what to do" and belongs to the exit code 5.
llvm::Error loadPassPlugin(llvm::StringRef path, llvm::StringRef option);

/// The same for a plugin that adds dialects to `registry`.
llvm::Error loadDialectPlugin(llvm::StringRef path, llvm::StringRef option,
                              mlir::DialectRegistry &registry);

/// The paths of the plugins that were loaded, as they were given, in order.
std::vector<std::string> getLoadedPlugins();

/// "'a.so' and 'b.so'", for messages; empty if none is loaded.
std::string describeLoadedPlugins();

/// The path of the plugin that holds the code of `pass`, or nothing.
std::string getPluginOf(const mlir::Pass &pass);

} // namespace fusion

#endif // FUSION_PIPELINES_PLUGINS_H

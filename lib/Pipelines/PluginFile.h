//===- PluginFile.h - A plugin's file before it is loaded -------*- C++ -*-===//
#ifndef FUSION_LIB_PIPELINES_PLUGINFILE_H
#define FUSION_LIB_PIPELINES_PLUGINFILE_H

#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>

namespace fusion {

/// What can't be loaded, and what to do about it.
struct PluginFault {
  std::string why;
  std::string advice;
};

/// Reads the stamp (PluginStamp.h) of the shared library at `path`; empty if it
/// has none. Fails for what the loader must not see: no regular file, no shared
/// library, or one whose headers point behind its end, on which the loader
/// would die.
std::optional<PluginFault> readPluginStamp(llvm::StringRef path,
                                           std::string &stamp);

} // namespace fusion

#endif // FUSION_LIB_PIPELINES_PLUGINFILE_H

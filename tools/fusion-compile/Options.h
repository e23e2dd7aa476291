//===- Options.h - The command line of fusion-compile -----------*- C++ -*-===//
#ifndef FUSION_TOOLS_FUSION_COMPILE_OPTIONS_H
#define FUSION_TOOLS_FUSION_COMPILE_OPTIONS_H

#include "fusion/Pipelines/Compile.h"

#include <optional>
#include <string>
#include <vector>

namespace fusion {

/// What the user asked for, checked.
struct CommandLine {
  std::string input;
  std::string output;
  bool explain = false;
  std::vector<std::string> plugins; ///< pass plugins, by explicit path
  CompileOptions compile;
  /// The options that can change groups or bits, as text for the provenance.
  std::string recorded;
};

/// Parses the command line. Returns nullopt after printing an error (usage) to
/// stderr. `--help` and `--version` end the process with 0.
std::optional<CommandLine> parseCommandLine(int argc, char **argv);

} // namespace fusion

#endif // FUSION_TOOLS_FUSION_COMPILE_OPTIONS_H

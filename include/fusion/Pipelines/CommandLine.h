//===- CommandLine.h - The options of a compilation -------------*- C++ -*-===//
//
// One table of options for fusion-compile and the C API. No global state: two
// compilations in one process do not see each other's options.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_PIPELINES_COMMANDLINE_H
#define FUSION_PIPELINES_COMMANDLINE_H

#include "fusion/Pipelines/Compile.h"

#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace fusion {

/// What the user asked for, checked.
struct CommandLine {
  std::string input;
  std::string output;
  bool help = false, version = false;
  bool explain = false;
  std::vector<std::string> plugins; ///< pass plugins, by explicit path
  CompileOptions compile;
  /// The options that can change groups or bits, as text for the provenance.
  std::string recorded;
};

/// Parses `arguments` (without the program's name): `--name=value`,
/// `--name value`, `-o value`, flags, and at most one path. The error reads
/// "what, where, what to do".
llvm::Expected<CommandLine>
parseCommandLine(llvm::ArrayRef<std::string> arguments);

/// Where a compilation that fails writes what it was given.
inline std::string getReproducerPath(llvm::StringRef output) {
  return (output + ".reproducer.mlir").str();
}

/// The text of --help.
std::string getHelp();

} // namespace fusion

#endif // FUSION_PIPELINES_COMMANDLINE_H

//===- Options.h - The command line of fusion-run ---------------*- C++ -*-===//
#ifndef FUSION_RUNTIME_TOOLS_RUN_OPTIONS_H
#define FUSION_RUNTIME_TOOLS_RUN_OPTIONS_H

#include "Faults.h"
#include "Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fusion::rt {

struct RunOptions {
  std::string modulePath;
  std::vector<std::pair<std::string, std::string>> inputs; ///< name, file
  std::string inputsArchive;                               ///< .npz
  std::string outputDirectory, checkDirectory, profilePath;
  std::optional<uint64_t> randomSeed;
  std::optional<int64_t> batch;
  std::string backend, trust = "own"; ///< backend empty: the module's target
  /// Which GPU; of ranks, each one's, by its number on this host. Empty: the
  /// first one, or each rank's own.
  std::vector<int> devices;
  int threads = 0;
  int64_t benchRuns = 0, repeats = 0;
  int64_t steps = 0;       ///< of --steps; 0: not given
  std::string turnsSocket; ///< of --bench-turns, see Turns.h
  uint64_t memoryLimit = 0;
  /// Seconds, 0: any time; not given: 60 on a GPU, any on the CPU.
  std::optional<double> opTimeout;
  bool json = false, inspect = false, nanCheck = false, findFault = false;
  bool autotune = false, deterministic = false;
  std::string listenAddress = "127.0.0.1", tokenFile, faultReportPath;
  std::vector<Fault> faults; ///< see Faults.h
  uint32_t ranks = 0;        ///< processes to start; 0: not given
  double initTimeout = 60, collectiveTimeout = 30; ///< seconds; the latter's 0:
                                                   ///< any time
  bool help = false, version = false;
};

/// Parses the arguments. Errors are `Usage` and name the argument.
Expected<RunOptions> parseOptions(int argc, char **argv);

/// The text of --help.
const char *helpText();

} // namespace fusion::rt

#endif // FUSION_RUNTIME_TOOLS_RUN_OPTIONS_H

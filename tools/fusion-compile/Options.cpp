//===- Options.cpp - The command line of fusion-compile -------------------===//
//
// Parsing and checking only: whatever can be wrong in a flag is told here, with
// exit code 2, before any file is read.
//
//===----------------------------------------------------------------------===//
#include "Options.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace fusion;

static cl::OptionCategory category("fusion-compile");

static cl::opt<std::string> inputPath(cl::Positional, cl::desc("<model.mlir>"),
                                      cl::cat(category));
static cl::opt<std::string> outputPath("o", cl::desc("Module to write (IR text with --stop-after)"),
                                       cl::value_desc("file"), cl::cat(category));
static cl::opt<std::string> target("target", cl::desc("cpu"), cl::init("cpu"), cl::cat(category));
static cl::opt<std::string> cpu("cpu", cl::desc("Processor to compile for (default: native, this machine's)"),
                                cl::init("native"), cl::value_desc("name"), cl::cat(category));
static cl::opt<std::string> fp("fp", cl::desc("strict: grouping changes no bit (the default and only mode of the cpu target)"),
                               cl::init("strict"), cl::value_desc("strict"), cl::cat(category));
static cl::opt<bool> exactRewritesOnly("exact-rewrites-only", cl::desc("Leave out rewrites that change values (BatchNorm folding)"),
                                       cl::cat(category));
static cl::list<std::string> noFuse("no-fuse", cl::desc("Kinds of fusion to leave out: vertical"),
                                    cl::CommaSeparated, cl::value_desc("kind,..."), cl::cat(category));
static cl::opt<int> maxOps("max-ops", cl::desc("Consecutive ops of a group's longest path (default 8)"),
                           cl::init(8), cl::cat(category));
static cl::opt<std::string> memoryLimit("memory-limit", cl::desc("Largest memory for intermediates, e.g. 512MiB"),
                                        cl::value_desc("bytes"), cl::cat(category));
static cl::opt<std::string> stopAfter("stop-after", cl::desc("Stop after simplify, fuse, codegen or schedule and write IR text"),
                                      cl::value_desc("phase"), cl::cat(category));
static cl::opt<std::string> dumpDirectory("dump-dir", cl::desc("Write the IR after each phase there"),
                                          cl::value_desc("folder"), cl::cat(category));
static cl::opt<bool> explain("explain", cl::desc("Print what was decided and why"), cl::cat(category));
static cl::list<std::string> plugins("plugin", cl::desc("Load a pass plugin"), cl::value_desc("path"),
                                     cl::cat(category));

static std::nullopt_t usage(const Twine &message) {
  WithColor::error() << message << "\n";
  return std::nullopt;
}

/// Bytes of `512`, `4KiB`, `512MiB`, `20GiB`.
static std::optional<uint64_t> parseBytes(StringRef text) {
  uint64_t factor = 1;
  for (auto [suffix, value] : {std::pair<StringRef, uint64_t>{"KiB", 1ull << 10},
                               {"MiB", 1ull << 20},
                               {"GiB", 1ull << 30}})
    if (text.consume_back(suffix)) {
      factor = value;
      break;
    }
  uint64_t number;
  if (text.getAsInteger(10, number) || number > UINT64_MAX / factor)
    return std::nullopt;
  return number * factor;
}

std::optional<CommandLine> fusion::parseCommandLine(int argc, char **argv) {
  cl::HideUnrelatedOptions(category);
  if (!cl::ParseCommandLineOptions(argc, argv,
                                   "Compiles a model in the fusion dialect to an executable module.\n\n"
                                   "Exit codes: 0 ok, 2 usage, 3 bad input program, 5 environment, 6 memory or disk, "
                                   "9 internal error.\n",
                                   &errs()))
    return std::nullopt;
  CommandLine line;
  if (inputPath.empty())
    return usage("no input, command line, give the path of a model in the fusion dialect");
  line.input = inputPath;
  if (target != "cpu")
    return usage("unknown target '" + target + "', --target, this build compiles for 'cpu'");
  if (fp != "strict")
    return usage("unknown mode '" + fp + "', --fp, the cpu target computes with --fp=strict");
  if (maxOps < 1)
    return usage("bad value " + Twine(maxOps) + ", --max-ops, give a number of at least 1");
  for (const std::string &kind : noFuse) {
    if (kind != "vertical")
      return usage("unknown kind of fusion '" + kind + "', --no-fuse, the kinds are: vertical");
    line.compile.fuseVertical = false;
  }
  if (!memoryLimit.empty()) {
    std::optional<uint64_t> bytes = parseBytes(memoryLimit);
    if (!bytes || *bytes == 0)
      return usage("bad size '" + memoryLimit + "', --memory-limit, write bytes as 512MiB or 1048576");
    line.compile.memoryLimit = *bytes;
  }
  if (!stopAfter.empty()) {
    std::optional<Phase> phase = symbolizePhase(stopAfter);
    if (!phase)
      return usage("unknown phase '" + stopAfter + "', --stop-after, the phases are: simplify, fuse, codegen, schedule, program");
    line.compile.stopAfter = *phase;
  }
  bool writesText = line.compile.stopAfter != Phase::Program;
  if (outputPath.empty() && !writesText)
    return usage("no output, command line, say -o model.fsn");
  line.output = outputPath.empty() ? "-" : outputPath;
  line.explain = explain;
  line.plugins.assign(plugins.begin(), plugins.end());
  line.compile.target = target;
  line.compile.cpu = cpu;
  line.compile.exactRewritesOnly = exactRewritesOnly;
  line.compile.maxOps = maxOps;
  line.compile.dumpDirectory = dumpDirectory;
  raw_string_ostream recorded(line.recorded);
  recorded << "--target=" << target << " --fp=" << fp << " --max-ops=" << maxOps;
  if (exactRewritesOnly)
    recorded << " --exact-rewrites-only";
  if (!line.compile.fuseVertical)
    recorded << " --no-fuse=vertical";
  if (!memoryLimit.empty())
    recorded << " --memory-limit=" << memoryLimit;
  return line;
}

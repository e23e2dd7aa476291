//===- CommandLine.cpp - The options of a compilation ---------------------===//
//
// See CommandLine.h. Whatever can be wrong in an option is told here, before
// any file is read.
//
//===----------------------------------------------------------------------===//
#include "fusion/Pipelines/CommandLine.h"

#include "fusion/Codegen/DeviceCode.h"
#include "fusion/Partition/Passes.h"

#include "Process.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/raw_ostream.h"

#include <climits>

using namespace llvm;
using namespace fusion;

namespace {

/// One option: how it is written, what it says, and what it sets.
struct OptionSpec {
  StringLiteral name;
  StringLiteral value; ///< empty for a flag
  StringLiteral help;
  bool recorded; ///< can change groups or bits
  Error (*apply)(CommandLine &line, StringRef value);
};

} // namespace

static Error usage(const Twine &message) { return createStringError(message); }

/// Bytes of `512`, `4KiB`, `512MiB`, `20GiB`.
static std::optional<uint64_t> parseBytes(StringRef text) {
  uint64_t factor = 1;
  for (auto [suffix, value] :
       {std::pair<StringRef, uint64_t>{"KiB", 1ull << 10},
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

static Error setMaxOps(CommandLine &line, StringRef value) {
  unsigned number;
  if (value.getAsInteger(10, number) || number == 0 || number > INT_MAX)
    return usage("bad value '" + value +
                 "', --max-ops, give a number of at least 1");
  line.compile.maxOps = number;
  return Error::success();
}

static Error setMemoryLimit(CommandLine &line, StringRef value) {
  std::optional<uint64_t> bytes = parseBytes(value);
  if (!bytes || *bytes == 0)
    return usage("bad size '" + value +
                 "', --memory-limit, write bytes as 512MiB or 1048576");
  line.compile.memoryLimit = *bytes;
  return Error::success();
}

template <uint64_t CompileOptions::*member>
static Error setBucketBytes(CommandLine &line, StringRef value) {
  std::optional<uint64_t> bytes = parseBytes(value);
  if (!bytes || *bytes == 0)
    return usage("bad size '" + value +
                 "', of a bucket, write bytes as 25MiB or 1048576");
  line.compile.*member = *bytes;
  return Error::success();
}

static Error setTransport(CommandLine &line, StringRef value) {
  if (value != "auto" && value != "nccl" && value != "peer" &&
      value != "direct")
    return usage("bad value '" + value +
                 "', --transport, give auto, nccl, peer or direct");
  line.compile.transport = value.str();
  return Error::success();
}

static Error setMesh(CommandLine &line, StringRef value) {
  if (Error error = parseMesh(value).takeError())
    return usage("bad mesh '" + value + "', --mesh, " +
                 toString(std::move(error)) + ", write it as dp=2,tp=1");
  line.compile.mesh = value.str();
  return Error::success();
}

static Error setPrefetchBudget(CommandLine &line, StringRef value) {
  std::optional<uint64_t> bytes = parseBytes(value);
  if (!bytes || *bytes == 0)
    return usage("bad size '" + value +
                 "', --prefetch-budget, write bytes as 24MiB or 1048576");
  line.compile.prefetchBudget = *bytes;
  return Error::success();
}

/// `8xa100-80gb`: so many of a device.
static Error setSimulate(CommandLine &line, StringRef value) {
  auto [count, device] = value.split('x');
  unsigned ranks;
  if (count.getAsInteger(10, ranks) || ranks == 0 || device.empty())
    return usage("bad value '" + value +
                 "', --simulate, write RANKSxDEVICE, as 8xa100-80gb");
  line.compile.simulatedRanks = ranks;
  line.compile.simulatedDevice = device.str();
  return Error::success();
}

static Error setCCompilerTimeout(CommandLine &line, StringRef value) {
  unsigned seconds;
  if (value.getAsInteger(10, seconds) || seconds == 0 || seconds > 86400)
    return usage("bad value '" + value +
                 "', --c-compiler-timeout, give seconds from 1 to 86400");
  line.compile.cCompilerTimeout = seconds;
  return Error::success();
}

static Error setCCompiler(CommandLine &line, StringRef value) {
  if (value.empty())
    return usage("an empty name, --c-compiler, give the path or the name of a "
                 "C compiler, or off");
  line.compile.cCompiler = value.str();
  return Error::success();
}

static Error setStopAfter(CommandLine &line, StringRef value) {
  std::optional<Phase> phase = symbolizePhase(value);
  if (!phase || *phase == Phase::Program)
    return usage("unknown phase '" + value +
                 "', --stop-after, the phases are: simplify, partition, fuse, "
                 "codegen, schedule");
  line.compile.stopAfter = *phase;
  return Error::success();
}

static Error setRunBefore(CommandLine &line, StringRef value) {
  auto [name, pipeline] = value.split(':');
  std::optional<Phase> phase = symbolizePhase(name);
  if (!phase || *phase == Phase::Program || pipeline.empty())
    return usage("bad value '" + value +
                 "', --run-before, write PHASE:PASSES with a phase of: "
                 "simplify, partition, fuse, codegen, schedule");
  line.compile.runBefore.push_back({*phase, pipeline.str()});
  return Error::success();
}

static Error setNoFuse(CommandLine &line, StringRef value) {
  SmallVector<StringRef> kinds;
  value.split(kinds, ',');
  for (StringRef kind : kinds) {
    if (kind == "vertical")
      line.compile.fuseVertical = false;
    else if (kind == "horizontal")
      line.compile.fuseHorizontal = false;
    else if (kind == "buckets")
      line.compile.fuseBuckets = false;
    else if (kind == "chunks")
      line.compile.chunkGathers = false;
    else if (kind == "clip")
      line.compile.fuseClip = false;
    else if (kind == "clip-shares")
      line.compile.shareClip = false;
    else if (kind == "gradients")
      line.compile.fuseGradients = false;
    else if (kind == "projections")
      line.compile.fuseProjections = false;
    else
      return usage("unknown kind of fusion '" + kind +
                   "', --no-fuse, the kinds are: buckets, chunks, clip, "
                   "clip-shares, gradients, horizontal, projections, "
                   "vertical");
  }
  return Error::success();
}

static Error setTarget(CommandLine &line, StringRef value) {
  bool known = value == "cpu";
  std::string names = "cpu";
  for (StringRef architecture : getArchitectures()) {
    known |= value == ("cuda:" + architecture).str();
    names += ", cuda:" + architecture.str();
  }
  if (!known)
    return usage("unknown target '" + value +
                 "', --target, this build compiles for: " + names);
  line.compile.target = value.str();
  return Error::success();
}

static Error setFp(CommandLine &line, StringRef value) {
  if (value != "strict" && value != "fast")
    return usage("unknown mode '" + value +
                 "', --fp, the modes are: strict, fast");
  line.compile.fp = value.str();
  return Error::success();
}

#define SET(field, expression)                                                 \
  [](CommandLine &line, StringRef value) -> Error {                            \
    (void)value;                                                               \
    line.field = expression;                                                   \
    return Error::success();                                                   \
  }

static const OptionSpec kOptions[] = {
    {"o", "file",
     "module to write; or, with --stop-after, IR text (default: stdout)", false,
     SET(output, value.str())},
    {"target", "name", "what to compile for: cpu (default), or cuda:sm_90",
     true, setTarget},
    {"cpu", "name", "processor to compile for (default native: this machine's)",
     false, SET(compile.cpu, value.str())},
    {"device", "name",
     "device to decide for, or the path of its JSON file (default: the "
     "target's, cpu or h200)",
     false, SET(compile.device, value.str())},
    {"cost-model", "name", "what predicts times (default roofline)", true,
     SET(compile.costModel, value.str())},
    {"fp", "mode",
     "strict: grouping changes no bit (default for cpu); fast: within the "
     "tolerances (default for cuda)",
     true, setFp},
    {"allow-tf32", "",
     "matmuls and convolutions of f32 may round their operands to tf32", true,
     SET(compile.allowTf32, true)},
    {"ptxas", "path",
     "assembler for cuda, or off: PTX only (default: looked "
     "for in CUDA_HOME, PATH, /usr/local/cuda and PyPI's wheel)",
     false, SET(compile.ptxas, value.str())},
    {"exact-rewrites-only", "",
     "leave out rewrites that change values, such as BatchNorm folding", true,
     SET(compile.exactRewritesOnly, true)},
    {"mesh", "axis=n,...",
     "axes of the ranks and their sizes, such as dp=2,tp=1 (default: the "
     "model's mesh, or one rank)",
     true, setMesh},
    {"shard-state", "",
     "cut parameters and optimizer state along their first dimension over dp",
     true, SET(compile.shardState, true)},
    {"no-fuse", "kind,...",
     "kinds of fusion to leave out: buckets, chunks, clip, gradients, "
     "horizontal, projections, vertical",
     true, setNoFuse},
    {"max-ops", "n", "consecutive ops of a group's longest path (default 8)",
     true, setMaxOps},
    {"first-bucket-bytes", "bytes",
     "size of the first and last bucket of gradients (default 1MiB)", true,
     setBucketBytes<&CompileOptions::firstBucketBytes>},
    {"bucket-bytes", "bytes",
     "size that buckets of gradients grow to (default: by the cost model)",
     true, setBucketBytes<&CompileOptions::bucketBytes>},
    {"transport", "name",
     "what carries collectives between GPUs: nccl, peer (copy engines; sums in "
     "the kernels that read them), direct (peer, but those kernels read the "
     "other GPUs' memory), or auto (default): by the device file",
     true, setTransport},
    {"memory-limit", "bytes", "largest memory for intermediates, e.g. 512MiB",
     true, setMemoryLimit},
    {"prefetch-budget", "bytes",
     "memory for values gathered ahead of their readers, e.g. 24MiB (default: "
     "the least with about the shortest predicted step)",
     true, setPrefetchBudget},
    {"no-overlap", "", "collectives run in line with kernels", true,
     SET(compile.overlap, false)},
    {"simulate", "nxdevice",
     "print the timeline of a step on so many devices, e.g. 8xa100-80gb", false,
     setSimulate},
    {"plan", "file", "fuse as this plan file says (docs/plans.md)", false,
     SET(compile.plan, value.str())},
    {"plan-strict", "", "a line of the plan that can't be honoured is an error",
     false, SET(compile.planStrict, true)},
    {"emit-plan", "file", "write the groups that were made as a plan file",
     false, SET(compile.emitPlan, value.str())},
    {"fusion-why", "@a,@b", "print why two ops are in one group, or not", false,
     SET(compile.why, value.str())},
    {"verify-fusion", "",
     "evaluate groups and passes of --run-before, and compare", false,
     SET(compile.verifyFusion, true)},
    {"explain", "", "print what was decided, and why", false,
     SET(explain, true)},
    {"c-compiler", "path",
     "compiler of the model's C kernels, or off (default: cc, clang, gcc or "
     "clang-22)",
     false, setCCompiler},
    {"c-compiler-timeout", "s", "seconds for one C source (default 60)", false,
     setCCompilerTimeout},
    {"stop-after", "phase",
     "stop after simplify, partition, fuse, codegen or schedule and write "
     "IR text",
     false, setStopAfter},
    {"dump-dir", "folder", "write the IR after each phase there", false,
     SET(compile.dumpDirectory, value.str())},
    {"plugin", "path", "load a pass plugin (repeatable)", false,
     [](CommandLine &line, StringRef value) -> Error {
       line.plugins.push_back(value.str());
       return Error::success();
     }},
    {"run-before", "phase:passes",
     "run passes before a phase, such as fuse:func.func(my-pass) (repeatable)",
     true, setRunBefore},
    {"help", "", "print this text", false, SET(help, true)},
    {"version", "", "print the version", false, SET(version, true)},
};

#undef SET

std::string fusion::getHelp() {
  std::string text;
  raw_string_ostream stream(text);
  stream << "usage: fusion-compile model.mlir [options] -o model.fsn\n\n"
            "Compiles a model in the fusion dialect to an executable "
            "module.\n\noptions:\n";
  for (const OptionSpec &option : kOptions) {
    std::string head =
        (option.name.size() == 1 ? "-" : "--") + option.name.str();
    if (!option.value.empty())
      head +=
          (option.name.size() == 1 ? " <" : "=<") + option.value.str() + ">";
    stream << "  " << left_justify(head, 28) << option.help << "\n";
  }
  stream << "\nexit codes: 0 ok, 1 a group is wrong, 2 usage, 3 bad input "
            "program,\n            5 environment, 6 memory or disk, 8 timeout, "
            "9 internal error\n";
  return text;
}

/// No file that is read is written. The weights are told later, when it is
/// known where they are.
static Error checkOverwrite(const CommandLine &line) {
  const CompileOptions &options = line.compile;
  std::vector<std::string> read{line.input, options.plan, options.device};
  append_range(read, line.plugins);
  std::vector<std::pair<std::string, StringRef>> written{
      {line.output, "-o"}, {options.emitPlan, "--emit-plan"}};
  // Where a compilation that fails leaves what it was given.
  if (!line.output.empty() && line.output != "-")
    written.push_back({getReproducerPath(line.output), "-o"});
  if (!options.dumpDirectory.empty())
    for (Phase phase : {Phase::Simplify, Phase::Partition, Phase::Fuse,
                        Phase::Codegen, Phase::Schedule, Phase::Program})
      written.push_back(
          {getDumpPath(options.dumpDirectory, phase), "--dump-dir"});
  for (auto &[path, option] : written)
    if (!rt::findOverwritten({path}, read).empty())
      return usage("'" + path + "' is read, and would be overwritten, " +
                   option + ", choose another");
  if (!line.output.empty() && line.output == options.emitPlan &&
      line.output != "-")
    return usage("'" + line.output +
                 "' would be written twice, -o and --emit-plan, choose two "
                 "files");
  return Error::success();
}

Expected<CommandLine>
fusion::parseCommandLine(ArrayRef<std::string> arguments) {
  CommandLine line;
  raw_string_ostream recorded(line.recorded);
  for (size_t i = 0; i < arguments.size(); ++i) {
    StringRef argument = arguments[i];
    if (argument == "-" || !argument.starts_with("-")) {
      if (!line.input.empty())
        return usage("two inputs, '" + line.input + "' and '" + argument +
                     "', give one model");
      if (argument.empty())
        return usage("an empty path, command line, give the path of a model");
      line.input = argument.str();
      continue;
    }
    auto [name, value] = argument.ltrim('-').split('=');
    bool hasValue = argument.contains('=');
    const OptionSpec *option =
        find_if(kOptions, [name = name](const OptionSpec &spec) {
          return spec.name == name;
        });
    if (option == std::end(kOptions))
      return usage("unknown option '" + argument +
                   "', command line, see fusion-compile --help");
    if (option->value.empty() && hasValue)
      return usage("option '--" + name +
                   "' takes no value, command line, see fusion-compile --help");
    if (!option->value.empty() && !hasValue) {
      if (i + 1 == arguments.size())
        return usage(
            "option '" + argument +
            "' needs a value, command line, see fusion-compile --help");
      value = arguments[++i];
    }
    if (Error error = option->apply(line, value))
      return std::move(error);
    if (option->recorded)
      recorded << (line.recorded.empty() ? "--" : " --") << name
               << (option->value.empty() ? "" : "=") << value;
  }
  if (line.help || line.version)
    return line;
  if (line.compile.fp == "fast" && !isCuda(line.compile))
    return usage("--fp=fast, command line, the cpu target computes with "
                 "--fp=strict");
  if (line.compile.allowTf32 && !isCuda(line.compile))
    return usage("--allow-tf32, command line, the cpu target has no tf32; "
                 "compile with --target=cuda:sm_90");
  if (line.compile.allowTf32 && line.compile.fp == "strict")
    return usage("--allow-tf32 and --fp=strict, command line, tf32 is not "
                 "exact; leave out one of the two");
  setTargetDefaults(line.compile);
  if (line.input.empty())
    return usage("no input, command line, give the path of a model in the "
                 "fusion dialect");
  if (line.output.empty()) {
    if (line.compile.stopAfter == Phase::Program)
      return usage("no output, command line, say -o model.fsn");
    line.output = "-";
  }
  if (!line.compile.plan.empty() && !line.compile.fuseVertical)
    return usage("--plan and --no-fuse=vertical, command line, leave out one "
                 "of the two");
  if (Error error = checkOverwrite(line))
    return std::move(error);
  return line;
}

//===- Options.cpp - The command line of fusion-run -----------------------===//
//
// `--name value` and `--name=value`; every value is checked here, so the rest
// of the tool sees only sensible numbers.
//
//===----------------------------------------------------------------------===//
#include "Options.h"
#include "Checked.h"
#include "Limits.h"
#include "Text.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

using namespace fusion::rt;

const char *fusion::rt::helpText() {
  return R"(fusion-run MODULE.fsn [options]: runs an executable module.

Inputs (the batch size follows from their shapes):
  --input NAME=FILE.npy    one input tensor; repeat for each input
  --inputs FILE.npz        input tensors by member name
  --random-inputs SEED     inputs that are not given: floats are integers -4..4
                           (sums stay exact), integers 0..3, booleans 0 or 1
  --batch B                batch size of random inputs (default: the largest)

Outputs:
  --output-dir DIR         write each output as DIR/NAME.npy
  --check DIR              compare with DIR/NAME.npy; exit 1 if any differs:
                           integers and booleans exactly; floats within
                           atol + rtol * |expected| with f64 1e-12, 1e-10;
                           f32 1e-5, 1.3e-6; f16 1e-5, 1e-3; bf16 1e-5, 1.6e-2;
                           NaN and infinities must stand at the same places
  --nan-check              name the first command that makes a NaN; exit 1

How to run:
  --backend cpu|cuda|null  default: what the module is compiled for; null
                           computes nothing and counts every entry
  --device N[,N...]        which GPU, from 0 on (default 0); with ranks, the
                           GPU of each rank of this host (default: 0, 1, ...)
  --deterministic          reductions over ranks on GPUs have the same bits each
                           time, at some cost
  --autotune               time the algorithms that cuBLASLt and cuDNN offer for
                           each call of f16, bf16 or tf32, and take the fastest;
                           it is remembered in $XDG_CACHE_HOME/fusion/autotune
                           (~/.cache/fusion/autotune), which is read with this
                           option only
  --threads N              threads (default: all this process may use)
  --op-timeout SECONDS     end with 8 if a run takes longer, or a command where
                           each is waited for (--nan-check, --profile,
                           --find-fault); 0: never (default: 60 on a GPU, 0 on
                           the CPU)
  --find-fault             run once, wait for each command, write no outputs: an
                           error of the GPU names its command. A run that a GPU
                           fails does this by itself, in a process of its own
  --memory-limit SIZE      refuse to allocate more (bytes, or 512MiB, 2GiB)
  --trust own|all|signed:KEY
                           own (default): run native code only from a file that
                           is mine, that nobody else can write, and that this
                           build's compiler made; all: any file; signed:KEY: the
                           file MODULE.fsn.sig is its Ed25519 signature by the
                           public key in the PEM file KEY

Ranks (a module that was compiled for a mesh):
  --ranks N                start N processes, one a rank, and end with them. An
                           input file holds the tensor over all ranks and is cut
                           as the module says; NAME@R=FILE.npy gives rank R a
                           tensor of its own. Outputs go to DIR/rankR/NAME.npy;
                           --check reads these, or DIR/NAME.npy over all ranks,
                           and refuses a folder that has both.
                           Threads are shared among the ranks
  --init-timeout SECONDS   until all ranks are ready to run (default 60)
  --collective-timeout SECONDS
                           end with 8 if ranks wait for each other and none has
                           moved for so long; 0: never (default 30)
  --fault-report FILE.json if the job fails: the error, what each rank did, and
                           the last 64 steps of each of its streams
  Without --ranks, a process that torchrun, mpirun or srun started joins the
  others: rank 0 listens at port MASTER_PORT (or one made of the job's name) on
  the loopback, all connect to MASTER_ADDR.
  --listen ADDRESS         this host's address instead of the loopback; needs
  --token-file FILE        16 to 4096 secret bytes, the same on all ranks
  --inject RANK:FAULT[:N]  for tests: a rank (or "all") fails on purpose, at its
                           N-th collective or where the fault's name says: kill,
                           stop, segv, abort, throw, exit, skip, hang, cut, fail,
                           lost, count, async, deaf, start-hang, load-hang,
                           load-fail, end-kill, end-hang, module, schedule,
                           runtime, device, ranks, rank; slow: N ms more for
                           each collective; link: as on a network of N MB/s

Measurements:
  --bench N                N timed runs after warm-up: median, p10, p90. On a
                           GPU the inputs are copied there once; a wall time is
                           from the launch of a run until the host sees its end,
                           a device time is what lies between two events around
                           up to 100 runs back to back, divided by their number.
                           Ranks begin each of these together
  --repeat N               N more runs, which must give the first one's bits
  --steps N                N runs, each of which goes on from the one before:
                           results that are donated are the next run's
                           arguments, and stay on the GPU until the end. An
                           input file with one dimension more in front, N long,
                           has a tensor for each run; outputs that are no
                           argument are written so
  --bench-turns SOCKET     stay open and run when told to: connect to a Unix
                           socket, say "rank R", and do what its lines ask for,
                           "time N" (answered by {"us": [...]}) or "write DIR"
                           or "write DIR OUTPUT" ({}), until it closes. Results
                           that are donated are the next run's arguments
  --json                   print results as JSON
  --profile FILE.json      Chrome trace of one run
  --inspect                print what the module holds; runs nothing

  --help, --version

Exit codes: 0 ok, 1 a check failed, 2 usage, 4 module rejected, 5 environment,
6 resources, 7 the GPU or a rank failed, 8 timeout, 9 internal error, 128+n signal n.

bf16 tensors are .npy files of type u2 (or V2) that hold the 16-bit patterns.
)";
}

static Status badValue(const std::string &option, const std::string &value,
                       const char *expected) {
  return Status(Code::Usage,
                "--" + option + ": '" + escape(value) + "' is not " + expected);
}

static bool parseInteger(const std::string &text, uint64_t &value) {
  if (text.empty() || text.size() > 20)
    return false;
  value = 0;
  for (char c : text) {
    if (c < '0' || c > '9')
      return false;
    auto next = checkedMul<uint64_t>(value, 10);
    next = next ? checkedAdd<uint64_t>(*next, uint64_t(c - '0')) : next;
    if (!next)
      return false;
    value = *next;
  }
  return true;
}

/// Bytes with an optional unit.
static bool parseSize(std::string text, uint64_t &value) {
  struct Unit {
    const char *name;
    uint64_t bytes;
  };
  static const Unit units[] = {
      {"KiB", uint64_t(1) << 10},
      {"MiB", uint64_t(1) << 20},
      {"GiB", uint64_t(1) << 30},
      {"TiB", uint64_t(1) << 40},
      {"KB", 1000},
      {"MB", 1000000},
      {"GB", 1000000000},
      {"B", 1},
  };
  uint64_t factor = 1;
  for (const Unit &unit : units) {
    size_t length = std::strlen(unit.name);
    if (text.size() > length &&
        text.compare(text.size() - length, length, unit.name) == 0) {
      factor = unit.bytes;
      text.resize(text.size() - length);
      break;
    }
  }
  auto product =
      parseInteger(text, value) ? checkedMul(value, factor) : std::nullopt;
  if (!product || *product == 0)
    return false;
  value = *product;
  return true;
}

static Status parseFlag(const std::string &name, RunOptions &options,
                        bool &known) {
  known = true;
  bool *flag = name == "json"            ? &options.json
               : name == "inspect"       ? &options.inspect
               : name == "nan-check"     ? &options.nanCheck
               : name == "find-fault"    ? &options.findFault
               : name == "autotune"      ? &options.autotune
               : name == "deterministic" ? &options.deterministic
               : name == "help"          ? &options.help
               : name == "version"       ? &options.version
                                         : nullptr;
  if (flag)
    *flag = true;
  else
    known = false;
  return {};
}

static Status parseValue(const std::string &name, const std::string &value,
                         RunOptions &options) {
  uint64_t number = 0;
  bool isNumber = parseInteger(value, number);
  std::string *text = name == "inputs"         ? &options.inputsArchive
                      : name == "output-dir"   ? &options.outputDirectory
                      : name == "check"        ? &options.checkDirectory
                      : name == "profile"      ? &options.profilePath
                      : name == "token-file"   ? &options.tokenFile
                      : name == "fault-report" ? &options.faultReportPath
                      : name == "bench-turns"  ? &options.turnsSocket
                      : name == "listen"       ? &options.listenAddress
                                               : nullptr;
  if (text) {
    if (value.empty())
      return badValue(name, value, "a path");
    *text = value;
    return {};
  }
  if (name == "input") {
    size_t equals = value.find('=');
    if (equals == 0 || equals == std::string::npos ||
        equals + 1 == value.size())
      return badValue(name, value, "NAME=FILE.npy");
    options.inputs.emplace_back(value.substr(0, equals),
                                value.substr(equals + 1));
    return {};
  }
  if (name == "random-inputs") {
    if (!isNumber)
      return badValue(name, value, "a number");
    options.randomSeed = number;
    return {};
  }
  if (name == "batch") {
    if (!isNumber || number == 0 || number > (uint64_t(1) << 32))
      return badValue(name, value, "a batch size");
    options.batch = int64_t(number);
    return {};
  }
  if (name == "threads") {
    if (!isNumber || number == 0 || number > 4096)
      return badValue(name, value, "a number from 1 to 4096");
    options.threads = int(number);
    return {};
  }
  if (name == "bench" || name == "repeat") {
    if (!isNumber || number == 0 || number > 100000000)
      return badValue(name, value, "a number of runs from 1 to 100000000");
    (name == "bench" ? options.benchRuns : options.repeats) = int64_t(number);
    return {};
  }
  if (name == "steps") {
    if (!isNumber || number == 0 || number > 1000000)
      return badValue(name, value, "a number of runs from 1 to 1000000");
    options.steps = int64_t(number);
    return {};
  }
  if (name == "memory-limit") {
    if (!parseSize(value, options.memoryLimit))
      return badValue(name, value, "a size such as 512MiB");
    return {};
  }
  if (name == "backend") {
    if (value != "cpu" && value != "cuda" && value != "null")
      return badValue(name, value, "cpu, cuda or null");
    options.backend = value;
    return {};
  }
  if (name == "op-timeout") {
    if (!isNumber || number > 1000000)
      return badValue(name, value, "seconds, from 0 to 1000000");
    options.opTimeout = double(number);
    return {};
  }
  if (name == "inject") {
    Fault fault;
    if (!parseFault(value, fault))
      return badValue(name, value, "RANK:FAULT or RANK:FAULT:N, see --help");
    options.faults.push_back(fault);
    return {};
  }
  if (name == "ranks") {
    if (!isNumber || number == 0 || number > limits::kRanks)
      return badValue(name, value, "a number from 1 to 1024");
    options.ranks = uint32_t(number);
    return {};
  }
  if (name == "init-timeout" || name == "collective-timeout") {
    char *end = nullptr;
    double seconds = std::strtod(value.c_str(), &end);
    bool isInit = name == "init-timeout";
    if (value.empty() || *end || !(seconds >= 0) || seconds > 1000000 ||
        (isInit && seconds == 0))
      return badValue(name, value, "seconds, up to 1000000");
    (isInit ? options.initTimeout : options.collectiveTimeout) = seconds;
    return {};
  }
  if (name == "device") {
    options.devices.clear();
    for (size_t at = 0; at <= value.size();) {
      size_t end = std::min(value.find(',', at), value.size());
      if (!parseInteger(value.substr(at, end - at), number) || number > 1023)
        return badValue(name, value,
                        "the number of a GPU, from 0 on, or of ranks a list "
                        "such as 0,1");
      options.devices.push_back(int(number));
      at = end + 1;
    }
    return {};
  }
  if (name == "trust") {
    if (value != "own" && value != "all" &&
        (value.compare(0, 7, "signed:") != 0 || value.size() == 7))
      return badValue(name, value, "own, all or signed:KEY");
    options.trust = value;
    return {};
  }
  return Status(Code::Usage, "unknown option '--" + escape(name) +
                                 "'; see fusion-run --help");
}

Expected<RunOptions> fusion::rt::parseOptions(int argc, char **argv) {
  RunOptions options;
  bool onlyPaths = false;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    if (onlyPaths || argument.size() < 2 || argument[0] != '-') {
      if (!options.modulePath.empty())
        return Status(Code::Usage, "more than one module: '" +
                                       escape(options.modulePath) + "' and '" +
                                       escape(argument) + "'");
      options.modulePath = argument;
      continue;
    }
    if (argument == "--") {
      onlyPaths = true;
      continue;
    }
    if (argument == "-h")
      argument = "--help";
    if (argument.compare(0, 2, "--") != 0)
      return Status(Code::Usage, "unknown option '" + escape(argument) +
                                     "'; see fusion-run --help");
    size_t equals = argument.find('=');
    std::string name =
        argument.substr(2, equals == std::string::npos ? equals : equals - 2);
    bool known = false;
    FUSION_RT_TRY(parseFlag(name, options, known));
    if (known) {
      if (equals != std::string::npos)
        return Status(Code::Usage, "--" + name + " takes no value");
      continue;
    }
    std::string value;
    if (equals != std::string::npos)
      value = argument.substr(equals + 1);
    else if (i + 1 < argc)
      value = argv[++i];
    else
      FUSION_RT_TRY(parseValue(name, "", options));
    FUSION_RT_TRY(parseValue(name, value, options));
  }
  if (options.modulePath.empty() && !options.help && !options.version)
    return Status(Code::Usage, "no module given; see fusion-run --help");
  if (options.steps > 0 &&
      (options.repeats > 0 || options.benchRuns > 0 || options.nanCheck ||
       options.findFault || !options.turnsSocket.empty() ||
       !options.profilePath.empty() || !options.checkDirectory.empty()))
    return Status(Code::Usage,
                  "--steps goes with none of --bench, --bench-turns, --check, "
                  "--find-fault, --nan-check, --profile and --repeat");
  return options;
}

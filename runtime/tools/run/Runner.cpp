//===- Runner.cpp - What fusion-run does after parsing --------------------===//
//
// The order of things: load and verify, consent, allocate, read inputs, run,
// then report. Nothing is written before the run has succeeded.
//
//===----------------------------------------------------------------------===//
#include "Runner.h"
#include "Checked.h"
#include "Compare.h"
#include "Inputs.h"
#include "Inspect.h"
#include "Interrupt.h"
#include "Join.h"
#include "Launcher.h"
#include "Mesh.h"
#include "Observers.h"
#include "OutputFiles.h"
#include "Process.h"
#include "Ranks.h"
#include "Report.h"
#include "Session.h"
#include "Shards.h"
#include "Steps.h"
#include "Text.h"
#include "Trust.h"
#include "Turns.h"
#include "Watchdog.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/stat.h>
#include <unistd.h>

using namespace fusion::rt;

namespace {

/// Memory for one tensor, aligned for any kernel.
struct AlignedBuffer {
  explicit AlignedBuffer(size_t size)
      : data(std::aligned_alloc(64, (size + 63) / 64 * 64 + 64)) {}
  AlignedBuffer(AlignedBuffer &&other) : data(other.data) {
    other.data = nullptr;
  }
  ~AlignedBuffer() { std::free(data); }
  void *data;
};

/// The buffers of one run.
struct Buffers {
  std::vector<AlignedBuffer> inputs, outputs;
  std::vector<const void *> inputPointers;
  std::vector<void *> outputPointers;
};

} // namespace

static Status makeBuffers(const Program &program, const RunInputs &inputs,
                          Buffers &buffers) {
  auto noMemory = [](size_t size) {
    return Status(Code::Resources,
                  "out of memory for a tensor of " + bytesText(size));
  };
  for (const Tensor &tensor : inputs.tensors) {
    buffers.inputs.emplace_back(tensor.bytes.size());
    void *data = buffers.inputs.back().data;
    if (!data)
      return noMemory(tensor.bytes.size());
    if (!tensor.bytes.empty())
      std::memcpy(data, tensor.bytes.data(), tensor.bytes.size());
    buffers.inputPointers.push_back(data);
  }
  for (const Port &port : program.outputs) {
    size_t size =
        *byteCount(port.tensor.shape, port.tensor.dtype, inputs.batch);
    buffers.outputs.emplace_back(size);
    if (!buffers.outputs.back().data)
      return noMemory(size);
    buffers.outputPointers.push_back(buffers.outputs.back().data);
  }
  return {};
}

static Tensor takeOutput(const Program &program, size_t i, int64_t batch,
                         const Buffers &buffers) {
  const TensorDesc &desc = program.outputs[i].tensor;
  Tensor tensor;
  tensor.dtype = desc.dtype;
  tensor.shape = shapeAt(desc.shape, batch);
  auto *data = static_cast<const uint8_t *>(buffers.outputPointers[i]);
  tensor.bytes.assign(data, data + *byteCount(desc.shape, desc.dtype, batch));
  return tensor;
}

static std::vector<Tensor> takeOutputs(const Program &program, int64_t batch,
                                       const Buffers &buffers) {
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < program.outputs.size(); ++i)
    tensors.push_back(takeOutput(program, i, batch, buffers));
  return tensors;
}

/// Where a rank writes its trace if nobody collects it: "t.rank1.json".
static std::string profilePath(const RunOptions &options,
                               const RankContext *rank) {
  std::string path = options.profilePath;
  if (path.empty() || !rank || rank->traceFile >= 0)
    return path;
  size_t name = path.rfind('/'), dot = path.rfind('.');
  if (dot == std::string::npos || (name != std::string::npos && dot < name + 2))
    dot = path.size();
  return path.insert(dot, ".rank" + std::to_string(rank->rank));
}

/// Makes a folder and those above it that are missing.
static Status makeDirectories(const std::string &directory) {
  for (size_t end = 0; end != std::string::npos;) {
    end = directory.find('/', end + 1);
    std::string path = directory.substr(0, end);
    if (mkdir(path.c_str(), 0777) == 0 || errno == EEXIST)
      continue;
    // A folder above may refuse new ones and still have this one.
    int code = errno;
    struct stat info;
    if (stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode))
      continue;
    bool full = code == ENOSPC || code == EDQUOT;
    return Status(full ? Code::Resources : Code::Usage,
                  "can't make '" + escape(path) + "': " + std::strerror(code) +
                      "; choose another --output-dir");
  }
  struct stat info;
  if (stat(directory.c_str(), &info) == 0 && !S_ISDIR(info.st_mode))
    return Status(Code::Usage, "'" + escape(directory) +
                                   "': is not a folder; choose another "
                                   "--output-dir");
  return {};
}

static Status writeOutput(const Program &program, size_t i,
                          const Tensor &tensor, const std::string &directory) {
  std::string path =
      directory + "/" + outputFile(program.outputs[i].tensor.name);
  std::vector<uint8_t> bytes = encodeNpy(tensor);
  // Many small results need not wait for the disk one by one; a file is still
  // there whole or not at all.
  return writeFileAtomically(path, bytes.data(), bytes.size(),
                             /*synced=*/false);
}

static Status writeOutputs(const Program &program,
                           const std::vector<Tensor> &tensors,
                           const std::string &directory) {
  FUSION_RT_TRY(makeDirectories(directory));
  for (size_t i = 0; i < tensors.size(); ++i) {
    FUSION_RT_TRY(writeOutput(program, i, tensors[i], directory));
    if (interruptSignal())
      return Status(Code::Internal, "interrupted");
  }
  return {};
}

/// No file that is read is written, before anything runs.
static Status checkOutputPaths(const Program &program,
                               const RunOptions &options,
                               const RankContext *rank) {
  std::string outputFolder = rankFolder(options.outputDirectory, rank),
              checkFolder = rankFolder(options.checkDirectory, rank);
  std::vector<std::string> written{profilePath(options, rank)}, read;
  if (!options.outputDirectory.empty())
    for (const auto &output : program.outputs)
      written.push_back(outputFolder + "/" + outputFile(output.tensor.name));
  for (const auto &[name, path] : options.inputs)
    read.push_back(path);
  read.push_back(options.inputsArchive);
  read.push_back(options.modulePath);
  // What is compared with must not be what was just written.
  if (!options.checkDirectory.empty())
    for (const auto &output : program.outputs)
      read.push_back(checkFolder + "/" + outputFile(output.tensor.name));
  std::string path = findOverwritten(written, read);
  if (path.empty())
    return {};
  return Status(Code::Usage,
                "'" + escape(path) +
                    "': is read, and would be overwritten; choose another " +
                    (path == written[0] ? "--profile" : "--output-dir"));
}

static Status checkOutputs(const Program &program,
                           const std::vector<Tensor> &outputs,
                           const std::string &directory,
                           const RankContext *rank, Report &report) {
  bool allMatch = true;
  std::vector<Tensor> tensors = outputs;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorDesc &desc = program.outputs[i].tensor;
    auto expected = readExpected(program, program.outputs[i], directory, rank);
    if (!expected)
      return expected.status();
    if (rank && expected->shape == tensors[i].shape) {
      clearPadding(program.mesh, program.outputs[i], rank->rank, tensors[i]);
      clearPadding(program.mesh, program.outputs[i], rank->rank, *expected);
    }
    if (expected->dtype != tensors[i].dtype ||
        expected->shape != tensors[i].shape)
      return Status(Code::CheckFailed,
                    "output '" + escape(desc.name) +
                        "': the expected file has another type or shape");
    Difference difference = compareTensors(tensors[i], *expected);
    report.addDifference(desc.name, difference);
    allMatch &= difference.differing == 0;
  }
  return allMatch ? Status()
                  : Status(Code::CheckFailed,
                           "outputs differ from '" + escape(directory) + "'");
}

/// Times `runs` runs, by the device's clock where it has one. `seconds` that
/// one may take; 0: any.
static Status measure(Session &session, int64_t batch, Buffers &buffers,
                      int64_t runs, double seconds, Timings &timings) {
  auto once = [&] {
    Watchdog watchdog(seconds);
    return session.run(batch, buffers.inputPointers.data(),
                       buffers.outputPointers.data());
  };
  FUSION_RT_TRY(session.measure(batch, runs, timings));
  if (!timings.device.empty())
    return {};
  int64_t warmUps = std::clamp<int64_t>(runs / 10, 1, 20);
  for (int64_t i = 0; i < warmUps; ++i)
    FUSION_RT_TRY(once());
  timings.wall.assign(size_t(runs), 0.0);
  for (double &time : timings.wall) {
    double start = nowMicroseconds();
    FUSION_RT_TRY(once());
    time = nowMicroseconds() - start;
    if (interruptSignal())
      return Status(Code::Internal, "interrupted");
  }
  return {};
}

static Status bench(Session &session, const RunInputs &inputs, Buffers &buffers,
                    int64_t runs, double seconds, Report &report) {
  {
    Watchdog watchdog(seconds);
    FUSION_RT_TRY(session.run(inputs.batch, buffers.inputPointers.data(),
                              buffers.outputPointers.data()));
  }
  Timings timings;
  FUSION_RT_TRY(
      measure(session, inputs.batch, buffers, runs, seconds, timings));
  report.setTimes(std::move(timings.wall));
  if (!timings.device.empty())
    report.setDeviceTimes(std::move(timings.device), timings.replays);
  return {};
}

/// Runs when told to. What a run donates stays where it is for the next one.
static Status takeTurns(Session &session, RunInputs &inputs, Buffers &buffers,
                        double seconds, const RunOptions &options,
                        const RankContext *rank) {
  const Program &program = session.module().program;
  const int64_t batch = inputs.batch;
  // Others are open beside this one: it keeps each tensor once.
  inputs.tensors.clear();
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    int32_t result = program.inputs[i].donatedTo;
    if (result < 0)
      continue;
    buffers.inputPointers[i] = buffers.outputPointers[size_t(result)];
    std::free(buffers.inputs[i].data);
    buffers.inputs[i].data = nullptr;
  }
  TurnActions actions;
  actions.time = [&](int64_t count, std::vector<double> &micros) {
    Timings timings;
    timings.hasWall = false;
    FUSION_RT_TRY(measure(session, batch, buffers, count, seconds, timings));
    micros = timings.device.empty() ? timings.wall : timings.device;
    return Status();
  };
  actions.write = [&](const std::string &folder, const std::string &name) {
    std::string directory = rankFolder(folder, rank);
    FUSION_RT_TRY(makeDirectories(directory));
    bool found = name.empty();
    for (size_t i = 0; i < program.outputs.size(); ++i) {
      const Port &port = program.outputs[i];
      if (!name.empty() && port.tensor.name != name)
        continue;
      found = true;
      size_t size = *byteCount(port.tensor.shape, port.tensor.dtype, batch);
      const void *data = session.executor().address({port.segment, 0, size});
      if (!data && size != 0)
        return Status(Code::PeerFailed, "an output can't be read back");
      if (data != buffers.outputPointers[i] && size != 0)
        std::memcpy(buffers.outputPointers[i], data, size);
      FUSION_RT_TRY(writeOutput(
          program, i, takeOutput(program, i, batch, buffers), directory));
    }
    return found ? Status()
                 : Status(Code::Usage, "--bench-turns: no output '" +
                                           escape(name) + "'; see --inspect");
  };
  return serveTurns(options.turnsSocket, rank ? rank->rank : 0, actions);
}

/// More runs on the same inputs, which must give the first one's bits.
static Status repeat(Session &session, const RunInputs &inputs,
                     Buffers &buffers, const std::vector<Tensor> &first,
                     int64_t runs, double seconds) {
  const Program &program = session.module().program;
  for (int64_t i = 0; i < runs; ++i) {
    {
      Watchdog watchdog(seconds);
      FUSION_RT_TRY(session.run(inputs.batch, buffers.inputPointers.data(),
                                buffers.outputPointers.data()));
    }
    for (size_t k = 0; k < first.size(); ++k)
      if (!first[k].bytes.empty() &&
          std::memcmp(first[k].bytes.data(), buffers.outputPointers[k],
                      first[k].bytes.size()) != 0)
        return Status(Code::CheckFailed,
                      "run " + std::to_string(i + 2) + " gives '" +
                          escape(program.outputs[k].tensor.name) +
                          "' other bits than the first one");
    if (interruptSignal())
      return Status(Code::Internal, "interrupted");
  }
  return {};
}

static Status runOnce(Session &session, const RunInputs &inputs,
                      Buffers &buffers, double seconds,
                      const RunOptions &options, const RankContext *rank) {
  auto run = [&](Observer *observer) {
    // A command's limit is not that of the run.
    Watchdog watchdog(observer ? 0 : seconds);
    return session.run(inputs.batch, buffers.inputPointers.data(),
                       buffers.outputPointers.data(), observer);
  };
  const Program &program = session.module().program;
  if (options.findFault) {
    Observer waits;
    return run(&waits);
  }
  if (options.nanCheck) {
    NanObserver observer(session, inputs.batch);
    FUSION_RT_TRY(run(&observer));
    FUSION_RT_TRY(observer.result());
  }
  if (!options.profilePath.empty()) {
    // The first run pages memory in and wakes threads: profile the second.
    FUSION_RT_TRY(run(nullptr));
    TraceObserver observer(program, rank ? rank->rank : 0);
    FUSION_RT_TRY(run(&observer));
    if (rank && rank->traceFile >= 0)
      return observer.append(rank->traceFile, rank->traceOrigin);
    return observer.write(profilePath(options, rank));
  }
  return options.nanCheck ? Status() : run(nullptr);
}

/// Whether ranks are needed, and how many.
static Status checkRanks(const Program &program, const RunOptions &options) {
  uint32_t ranks = rankCount(program.mesh);
  for (const Fault &fault : options.faults)
    if (fault.rank != Fault::kAll && fault.rank >= ranks)
      return Status(Code::Usage, "--inject: the module has no rank " +
                                     std::to_string(fault.rank));
  if (options.ranks == 0 || options.ranks == ranks)
    return {};
  return Status(
      Code::Usage,
      "the module is for " +
          (ranks == 1 ? "one rank" : std::to_string(ranks) + " ranks") +
          ", --ranks gives " + std::to_string(options.ranks) +
          "; compile it with --mesh for as many");
}

/// A queue of the GPU for each stream of a rank, so that one which waits for
/// another rank holds up none of the others. A run without ranks has the
/// driver's own number: with 32 a kernel's trap is told of after 3.4 s, not
/// 0.4.
static void askForQueues() { setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0); }

Status fusion::rt::runModule(const RunOptions &options) {
  auto loaded = loadModuleFile(options.modulePath);
  if (!loaded)
    return loaded.status();
  const Program &program = (*loaded)->view.module.program;
  if (options.inspect) {
    bool isSigned = options.trust.compare(0, 7, "signed:") == 0;
    if (isSigned)
      FUSION_RT_TRY(checkTrust(**loaded, options.trust));
    printModule(**loaded, isSigned
                              ? "hashes and signature (" +
                                    escape(options.trust.substr(7)) + ")"
                              : "hashes (they show damage, not tampering)");
    return {};
  }
  if (options.backend != "null" && !(*loaded)->view.module.kernels.empty())
    FUSION_RT_TRY(checkTrust(**loaded, options.trust));
  FUSION_RT_TRY(checkRanks(program, options));
  if (options.ranks > 0 && !program.mesh.axes.empty() &&
      options.backend != "null") {
    askForQueues();
    return launchRanks(options, *loaded);
  }
  if (options.ranks == 0 && rankCount(program.mesh) > 1 &&
      options.backend != "null") {
    auto job = findJob();
    if (!job)
      return job.status();
    if (*job) {
      askForQueues();
      return joinJob(options, **job, *loaded);
    }
  }
  return runLoaded(options, *loaded, nullptr);
}

Status fusion::rt::runLoaded(const RunOptions &options,
                             const std::shared_ptr<LoadedModule> &loaded,
                             RankContext *rank) {
  const Program &program = loaded->view.module.program;
  FUSION_RT_TRY(checkOutputPaths(program, options, rank));
  FUSION_RT_TRY(checkExpected(program, options.checkDirectory, rank));
  auto inputs = collectInputs(program, options, rank ? rank->rank : 0);
  if (!inputs)
    return inputs.status();
  SessionOptions sessionOptions;
  sessionOptions.backend = options.backend;
  if (runsOnGpu(options, *loaded)) {
    auto device =
        rank ? deviceOf(options, rank->localRank) : deviceOf(options, 0);
    if (!device)
      return device.status();
    sessionOptions.device = *device;
  }
  sessionOptions.deterministic = options.deterministic;
  sessionOptions.autotune = options.autotune;
  sessionOptions.threads = options.threads;
  sessionOptions.memoryLimit = options.memoryLimit;
  sessionOptions.stop = interruptFlag();
  if (options.opTimeout)
    sessionOptions.timeout = *options.opTimeout;
  if (rank) {
    sessionOptions.communicator = rank->communicator;
    sessionOptions.deviceCommunicator = std::move(rank->deviceCommunicator);
    sessionOptions.agreeOnLargest = [rank](double &value) {
      return rank->agreeOnLargest(value);
    };
    sessionOptions.progress = rank->progress;
  }
  auto session = Session::create(loaded, sessionOptions);
  sessionOptions.deviceCommunicator.reset(); // it is the session's
  if (!session)
    return session.status();
  FUSION_RT_TRY((*session)->prepare(inputs->batch));
  for (const std::string &note : (*session)->executor().notes())
    std::fprintf(stderr, "fusion-run: note: %s\n", note.c_str());
  Buffers buffers;
  FUSION_RT_TRY(makeBuffers(program, *inputs, buffers));

  if (rank) {
    // From here on a rank that waits for another one is watched.
    rank->progress->setPhase(RankProgress::Ready);
    FUSION_RT_TRY(rank->meet("ready", "the batch", inputs->batch));
    rank->progress->setPhase(RankProgress::Working);
  }
  Report report(options, **session, inputs->batch);
  double seconds = options.opTimeout.value_or(0);
  FUSION_RT_TRY(runOnce(**session, *inputs, buffers, seconds, options, rank));
  if (interruptSignal())
    return Status(Code::Internal, "interrupted");
  if (options.findFault)
    return {};
  std::vector<Tensor> outputs = takeOutputs(program, inputs->batch, buffers);
  report.setCounters((*session)->executor().counters());
  Status checked;
  if (!options.checkDirectory.empty()) {
    checked =
        checkOutputs(program, outputs, options.checkDirectory, rank, report);
    if (!checked.ok() && checked.code() != Code::CheckFailed)
      return checked;
  }
  if (options.steps > 0)
    FUSION_RT_TRY(runSteps(**session, *inputs, buffers.inputPointers,
                           buffers.outputPointers, options.steps, seconds,
                           outputs));
  if (options.repeats > 0)
    FUSION_RT_TRY(
        repeat(**session, *inputs, buffers, outputs, options.repeats, seconds));
  if (options.benchRuns > 0)
    FUSION_RT_TRY(
        bench(**session, *inputs, buffers, options.benchRuns, seconds, report));
  if (options.outputDirectory.empty())
    outputs.clear();
  if (!options.turnsSocket.empty())
    FUSION_RT_TRY(
        takeTurns(**session, *inputs, buffers, seconds, options, rank));
  if (rank) {
    // No rank writes anything unless all have run.
    rank->progress->setPhase(RankProgress::Ending);
    FUSION_RT_TRY(rank->meet("ran"));
    rank->progress->setPhase(RankProgress::Writing);
  }
  if (!options.outputDirectory.empty())
    FUSION_RT_TRY(writeOutputs(program, outputs,
                               rankFolder(options.outputDirectory, rank)));
  report.print();
  return checked;
}

//===- CudaCollectives.cpp - Ranks on GPUs --------------------------------===//
//
// What a rank does with others: it connects once, puts collectives on streams
// like any command, and while it waits for its own GPU it stands in a
// collective as far as others can tell, because no thread of the host steps
// through a graph.
//
//===----------------------------------------------------------------------===//
#include "CudaExecutor.h"

#include "Mesh.h"

#include <algorithm>
#include <unistd.h>

using namespace fusion::rt;
using namespace fusion::rt::cuda;

/// Outputs that other ranks write into are made before the ranks connect.
Status CudaExecutor::shareOutputs(DeviceSetup &setup) {
  auto isOutput = [&](const Operand &operand) {
    return operand.writes &&
           program.segments[operand.range.segment].kind == SegmentKind::Output;
  };
  auto isShared = [&](const Command &command) {
    return command.kind == CommandKind::Collective &&
           command.collective.transport == CollectiveTransport::Peer &&
           std::any_of(command.operands.begin(), command.operands.end(),
                       isOutput);
  };
  if (std::none_of(program.commands.begin(), program.commands.end(), isShared))
    return {};
  uint64_t before = stagingSize;
  auto memory = stagingFor(program.outputs.front().segment);
  if (!memory)
    return memory.status();
  setup.outputs = stagingBlocks.back();
  setup.outputsSize = stagingSize - before;
  setup.outputBuffers = staging;
  return {};
}

Status CudaExecutor::connectRanks() {
  std::shared_ptr<DeviceCommunicator> &ranks = options.deviceCommunicator;
  uint32_t size = rankCount(program.mesh);
  if (size > 1 && !ranks)
    return Status(Code::Usage, "the module is for " + std::to_string(size) +
                                   " ranks; run it with --ranks " +
                                   std::to_string(size));
  if (ranks && ranks->size() != size)
    return Status(Code::Usage, "the module is for " + std::to_string(size) +
                                   " ranks, the job has " +
                                   std::to_string(ranks->size()) +
                                   "; give --ranks " + std::to_string(size));
  groups = groupsOf(program, ranks ? ranks->rank() : 0);
  if (groups.empty())
    return {};
  if (!ranks) // a mesh of one rank
    ranks = makeDeviceCommunicator(0, 1, nullptr);
  DeviceSetup setup;
  setup.driver = driver;
  setup.context = context;
  setup.device = device;
  setup.program = &program;
  setup.groups = groups;
  setup.arena = arena;
  setup.arenaSize = arenaSize;
  FUSION_RT_TRY(shareOutputs(setup));
  setup.batch = program.maxBatch;
  setup.timeout = options.timeout;
  setup.deterministic = options.deterministic;
  if (Status status = ranks->connect(setup); !status.ok()) {
    // What has begun on the device may wait for others: it is left alone.
    isDead =
        status.code() == Code::Timeout || status.code() == Code::PeerFailed;
    return status;
  }
  for (const std::string &note : ranks->notes())
    say(note);
  for (const Command &command : program.commands)
    if (command.kind == CommandKind::Collective &&
        command.collective.op != CollectiveOp::AxisIndex) {
      firstCollective = uint32_t(&command - program.commands.data());
      break;
    }
  findDirectReads();
  shareProgress();
  return checkMemoryLimit(program, memory().total(), options.memoryLimit);
}

Status CudaExecutor::createStream(uint32_t index) {
  // Communication takes few resources of a GPU, and others wait for it: it goes
  // before what computes beside it.
  bool isFirst = index > 0 &&
                 std::any_of(program.commands.begin(), program.commands.end(),
                             [&](const Command &command) {
                               return command.kind == CommandKind::Collective &&
                                      command.stream == index;
                             });
  CUstream stream = nullptr;
  if (isFirst) {
    int least = 0, greatest = 0;
    FUSION_RT_TRY(driver->check(driver->streamPriorities(&least, &greatest),
                                "cuCtxGetStreamPriorityRange"));
    FUSION_RT_TRY(driver->check(
        driver->streamCreateFirst(&stream, kStreamNonBlocking, greatest),
        "cuStreamCreateWithPriority"));
  } else {
    FUSION_RT_TRY(driver->check(
        driver->streamCreate(&stream, kStreamNonBlocking), "cuStreamCreate"));
  }
  streams.push_back(stream);
  return {};
}

CollectiveRun CudaExecutor::runOf(size_t index, int64_t batch) const {
  const Command &command = program.commands[index];
  CollectiveRun run;
  run.call = &command.collective;
  run.group = groupIndex(groups, command);
  run.command = index;
  const Operand *operand = command.operands.data();
  for (const CollectivePart &part : command.collective.parts) {
    PartBuffer buffer;
    buffer.dtype = part.dtype;
    for (Affine dim : part.shape)
      buffer.shape.push_back(*evaluate(dim, batch));
    buffer.input = addressOf(operand->range);
    buffer.output = addressOf((part.inPlace ? operand : operand + 1)->range);
    operand += part.inPlace ? 1 : 2;
    run.parts.push_back(std::move(buffer));
  }
  return run;
}

/// In list order, which the verifier's rule S9 follows too: a launch that reads
/// such an output reads one rank's part of it, before the release.
void CudaExecutor::findDirectReads() {
  using Place = std::pair<uint32_t, uint64_t>;        // segment, offset
  std::map<Place, std::pair<size_t, size_t>> outputs; // move, part
  for (size_t i = 0; i < program.commands.size(); ++i) {
    const Command &command = program.commands[i];
    const CollectiveCall &call = command.collective;
    if (command.kind == CommandKind::Collective && call.isDirect)
      for (size_t part = 0; part < call.parts.size(); ++part) {
        const ByteRange &output = command.operands[2 * part + 1].range;
        if (output.size != 0)
          outputs[{output.segment, output.offset}] = {i, part};
      }
    if (command.kind == CommandKind::Collective &&
        call.op == CollectiveOp::Release)
      for (const Operand &operand : command.operands)
        if (operand.writes)
          outputs.erase({operand.range.segment, operand.range.offset});
    if (command.kind != CommandKind::Launch || outputs.empty())
      continue;
    for (size_t number = 0; number < command.launch.operands.size(); ++number) {
      const ByteRange &range = command.launch.operands[number].range;
      auto output = outputs.upper_bound({range.segment, range.offset});
      if (range.size == 0 || output == outputs.begin())
        continue;
      --output;
      auto [move, part] = output->second;
      const ByteRange &whole =
          program.commands[move].operands[2 * part + 1].range;
      if (whole.segment != range.segment ||
          range.offset >= whole.offset + whole.size)
        continue;
      // Its size does not depend on the batch.
      const char *source = options.deviceCommunicator->directSource(
          runOf(move, program.maxBatch), part, range.offset - whole.offset,
          range.size);
      if (source)
        directReads[i].emplace_back(number, const_cast<char *>(source));
    }
  }
}

Status CudaExecutor::bringDirect(size_t index, int64_t batch, CUstream stream) {
  const Command &command = program.commands[index];
  if (command.kind != CommandKind::Collective || !command.collective.isDirect)
    return {};
  CollectiveRun run = runOf(index, batch);
  uint64_t members = groups[run.group].ranks.size();
  uint64_t pieces =
      command.collective.op == CollectiveOp::Permute ? 1 : members;
  for (size_t part = 0; part < run.parts.size(); ++part) {
    uint64_t size = command.operands[2 * part + 1].range.size / pieces;
    for (uint64_t i = 0; i < pieces && size != 0; ++i)
      if (const char *source = options.deviceCommunicator->directSource(
              run, part, i * size, size))
        FUSION_RT_TRY(driver->check(
            driver->copyOnDevice(
                reinterpret_cast<CUdeviceptr>(run.parts[part].output) +
                    i * size,
                reinterpret_cast<CUdeviceptr>(source), size, stream),
            "cuMemcpyDtoDAsync", command.name));
  }
  return waitFor(stream, "waiting for what a collective brings", command.name);
}

Status CudaExecutor::enqueueCollective(size_t index, int64_t batch,
                                       CUstream stream) {
  const Command &command = program.commands[index];
  const CollectiveCall &call = command.collective;
  if (call.op == CollectiveOp::AxisIndex) {
    uint32_t rank =
        options.deviceCommunicator ? options.deviceCommunicator->rank() : 0;
    auto target =
        reinterpret_cast<CUdeviceptr>(addressOf(command.operands[0].range));
    // An i64 of little-endian words.
    FUSION_RT_TRY(driver->check(
        driver->fillWords(target, positionOn(program.mesh, call.axes, rank), 1,
                          stream),
        "cuMemsetD32Async", command.name));
    return driver->check(driver->fillWords(target + 4, 0, 1, stream),
                         "cuMemsetD32Async", command.name);
  }
  CollectiveRun run = runOf(index, batch);
  FUSION_RT_TRY(tellProgress(index, StreamProgress::Collective, stream));
  Status status = options.deviceCommunicator->enqueue(run, stream);
  if (!status.ok())
    return Status(status.code(), status.message(), command.name);
  FUSION_RT_TRY(tellProgress(index, StreamProgress::Running, stream));
  int capture = kNotCapturing;
  unsigned long long id = 0;
  CUgraph graph = nullptr;
  const CUgraphNode *nodes = nullptr;
  size_t count = 0;
  if (driver->streamCaptureInfo(stream, &capture, &id, &graph, &nodes,
                                &count) == kSuccess &&
      capture == kCapturing)
    foreignNodes.insert(foreignNodes.end(), nodes, nodes + count);
  return {};
}

Status CudaExecutor::writeWord(CUdeviceptr word, uint32_t value,
                               CUstream stream, const std::string &op) {
  CUstreamBatchMemOpParams write{kMemOpWrite, word, value, 0, 0, 0};
  return driver->check(driver->streamBatchMemOp(stream, 1, &write, 0),
                       "cuStreamBatchMemOp", op);
}

/// The words are in memory that whoever watches reads. They are a help, no
/// need: without them a rank's step is one thing.
void CudaExecutor::shareProgress() {
  RankProgress *words = options.progress;
  if (!words || !words->isWatched || rankCount(program.mesh) == 1)
    return;
  auto start = reinterpret_cast<uintptr_t>(words);
  uintptr_t page = uintptr_t(sysconf(_SC_PAGESIZE));
  uintptr_t first = start / page * page,
            end = (start + sizeof(*words) + page - 1) / page * page;
  auto *pages = reinterpret_cast<char *>(first);
  auto share = [&]() -> Status {
    FUSION_RT_TRY(
        driver->check(driver->hostRegister(pages, end - first, kHostMapped),
                      "cuMemHostRegister"));
    sharedPages = pages;
    CUdeviceptr mapped = 0;
    FUSION_RT_TRY(driver->check(driver->hostPointer(&mapped, pages, 0),
                                "cuMemHostGetDevicePointer"));
    mapped += start - first;
    // One word, to see that it arrives.
    constexpr uint32_t kTrial = 1;
    std::atomic<uint32_t> &word = words->streams[0].device;
    FUSION_RT_TRY(writeWord(mapped + uintptr_t(&word) - start, kTrial,
                            streams.front(), {}));
    FUSION_RT_TRY(waitFor(streams.front(), "waiting for a word"));
    if (word.exchange(0) != kTrial)
      return Status(Code::Environment, "a word did not arrive");
    sharedProgress = mapped;
    return {};
  };
  if (Status status = share(); status.ok())
    words->hasDevice = 1;
  else
    say("the GPU can't tell how far it is in a step, which is watched as a "
        "whole: " +
        status.message());
}

void CudaExecutor::unshareProgress() {
  if (options.progress)
    options.progress->hasDevice = 0;
  if (sharedPages && !isDead)
    driver->hostUnregister(sharedPages);
  sharedPages = nullptr;
}

Status CudaExecutor::tellProgress(size_t index, StreamProgress::State state,
                                  CUstream stream) {
  if (sharedProgress == 0)
    return {};
  const Command &command = program.commands[index];
  RankProgress &words = *options.progress;
  uintptr_t offset =
      uintptr_t(&words.stream(command.stream).device) - uintptr_t(&words);
  return writeWord(sharedProgress + offset,
                   StreamProgress::deviceWord(uint32_t(index), state), stream,
                   command.name);
}

void CudaExecutor::enterStep(uint32_t command) {
  if (groups.empty() || !options.progress)
    return;
  options.progress->stream(program.commands[command].stream)
      .enter(command, StreamProgress::Collective);
  waitingIn = int64_t(command);
}

void CudaExecutor::leaveStep() {
  if (waitingIn < 0)
    return;
  auto command = uint32_t(waitingIn);
  options.progress->stream(program.commands[command].stream)
      .enter(command, StreamProgress::Running);
  waitingIn = -1;
}

//===- DeviceRank.cpp - A rank with a GPU, for tests ----------------------===//
#include "DeviceRank.h"
#include "Checked.h"
#include "Frames.h"
#include "PeerPlan.h"

#include <cstdio>
#include <thread>
#include <unistd.h>

using namespace fusion::rt;
using namespace fusion::rt::test;

/// Of the suite's largest collective on eight ranks, with room.
static constexpr uint64_t kSuiteArena = 16 << 20, kSuiteStaging = 8 << 20;
static constexpr double kLimit = 60; ///< seconds for one collective

void test::mustBe(const Status &status, const char *where) {
  if (status.ok())
    return;
  std::fprintf(stderr, "%s: %s\n", where, status.message().c_str());
  _exit(int(status.code()));
}

static const Driver &openDriver() {
  auto driver = Driver::open();
  mustBe(driver.status(), "the driver");
  return **driver;
}

DeviceRank::DeviceRank(uint32_t rank, uint64_t size)
    : driver(openDriver()), arenaSize(size) {
  int count = 1;
  check(driver.deviceGetCount(&count), "cuDeviceGetCount");
  check(driver.deviceGet(&device, int(rank) % count), "cuDeviceGet");
  check(driver.primaryContextRetain(&context, device),
        "cuDevicePrimaryCtxRetain");
  check(driver.contextPush(context), "cuCtxPushCurrent");
  plain = makeStream();
  arena = allocate(arenaSize);
}

CUstream DeviceRank::makeStream() const {
  CUstream stream = nullptr;
  check(driver.streamCreate(&stream, kStreamNonBlocking), "cuStreamCreate");
  return stream;
}
CUevent DeviceRank::makeEvent(unsigned flags) const {
  CUevent event = nullptr;
  check(driver.eventCreate(&event, flags), "cuEventCreate");
  return event;
}
char *DeviceRank::allocate(uint64_t size) const {
  CUdeviceptr memory = 0;
  check(driver.memAlloc(&memory, size), "cuMemAlloc");
  return reinterpret_cast<char *>(memory);
}

bool DeviceRank::wait(CUstream stream, double seconds) const {
  double end = monotonicSeconds() + seconds;
  for (;;) {
    CUresult result = driver.streamQuery(stream);
    if (result != kErrorNotReady) {
      check(result, "cuStreamQuery");
      return true;
    }
    if (monotonicSeconds() > end)
      return false;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

void DeviceRank::upload(char *to, const void *from, uint64_t size) const {
  check(driver.copyToDevice(deviceAddress(to), from, size, plain),
        "cuMemcpyHtoDAsync");
  wait(plain, kLimit);
}
void DeviceRank::download(void *to, const char *from, uint64_t size) const {
  check(driver.copyToHost(to, deviceAddress(from), size, plain),
        "cuMemcpyDtoHAsync");
  wait(plain, kLimit);
}

CUgraphExec DeviceRank::capture(CUstream stream,
                                const std::function<void()> &body) const {
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  check(driver.streamBeginCapture(stream, kCaptureThreadLocal),
        "cuStreamBeginCapture");
  body();
  check(driver.streamEndCapture(stream, &graph), "cuStreamEndCapture");
  check(driver.graphInstantiate(&executable, graph, 0),
        "cuGraphInstantiateWithFlags");
  driver.graphDestroy(graph);
  check(driver.graphUpload(executable, stream), "cuGraphUpload");
  wait(stream, kLimit);
  return executable;
}

//===----------------------------------------------------------------------===//
// The suite's communicator
//===----------------------------------------------------------------------===//

DeviceRunner::DeviceRunner(uint32_t rank, uint32_t size,
                           std::shared_ptr<Rendezvous> rendezvous,
                           Options options)
    : ownRank(rank), ranks(size), rendezvous(std::move(rendezvous)),
      options(options) {}

DeviceRunner::~DeviceRunner() {
  communicator.reset();
  if (!device)
    return;
  for (char *memory : {device->arena, outside, outputs})
    if (memory)
      device->driver.memFree(deviceAddress(memory));
}

Status DeviceRunner::connect(const std::vector<Group> &groups) {
  this->groups = groups;
  device = std::make_unique<DeviceRank>(ownRank, kSuiteArena);
  stream = device->makeStream();
  outside = device->allocate(kSuiteArena);
  // A swap in place of the most bytes that a run may need in staging.
  program.segments.push_back({SegmentKind::Input, kSuiteStaging});
  program.segments.push_back({SegmentKind::Output, kSuiteStaging});
  for (const Group &group : groups) {
    Command command;
    command.kind = CommandKind::Collective;
    command.stream = group.stream;
    command.collective.op = CollectiveOp::Permute;
    command.collective.axes = group.axes;
    CollectivePart part;
    part.shape = {{0, int64_t(kSuiteStaging)}};
    part.inPlace = true;
    command.collective.parts = {part};
    command.operands = {{{1, 0, kSuiteStaging}, true, true}};
    program.commands.push_back(std::move(command));
  }
  DeviceSetup setup;
  setup.driver = &device->driver;
  setup.context = device->context;
  setup.device = device->device;
  setup.program = &program;
  setup.groups = groups;
  setup.arena = device->arena;
  setup.arenaSize = device->arenaSize;
  setup.batch = 1;
  if (sharesOutputs()) {
    outputs = device->allocate(kSuiteArena);
    setup.outputs = outputs;
    setup.outputsSize = kSuiteArena;
    setup.outputBuffers = {nullptr, outputs};
  }
  communicator = makePeerCommunicator(ownRank, ranks, rendezvous, options.peer);
  return communicator->connect(setup);
}

Status DeviceRunner::run(const CollectiveRun &host) {
  struct Place {
    uint64_t inputSize, outputSize;
    bool isInPlace;
  };
  uint32_t members = uint32_t(groups[host.group].ranks.size());
  CollectiveRun run = host;
  CollectiveCall call = *host.call;
  run.call = &call;
  std::vector<Place> places;
  uint64_t used[3] = {0, 0, 0}; // in the arena, outside, of the outputs
  auto place = [&](unsigned where, uint64_t size) {
    uint64_t at = used[where];
    used[where] += (size + 63) / 64 * 64;
    return at;
  };
  bool isCaller = options.placement == Placement::Caller;
  bool givesOwn = options.placement == (ownRank % 2 ? Placement::OddCallers
                                                    : Placement::EvenCallers);
  Command command;
  call.parts.clear();
  for (PartBuffer &part : run.parts) {
    uint64_t size = elementSize(part.dtype);
    for (int64_t dim : part.shape)
      size *= uint64_t(dim);
    Place sizes{size, peer::outputBytes(call, part, members),
                part.input == part.output};
    places.push_back(sizes);
    char *plain = isCaller ? outside : device->arena;
    part.input = plain + place(isCaller, sizes.inputSize);
    if (sizes.isInPlace)
      part.output = const_cast<char *>(part.input);
    else if (!sharesOutputs())
      part.output = plain + place(isCaller, sizes.outputSize);
    else {
      uint64_t at = place(2, sizes.outputSize);
      part.output = (givesOwn ? outside : outputs) + at;
      command.operands.push_back({{0, 0, size}, true, false});
      command.operands.push_back({{1, at, sizes.outputSize}, false, true});
    }
    if (sharesOutputs() && sizes.isInPlace)
      command.operands.push_back({{0, 0, size}, true, true});
    CollectivePart named;
    named.dtype = part.dtype;
    named.inPlace = sizes.isInPlace;
    call.parts.push_back(named);
  }
  run.command = program.commands.size();
  program.commands.push_back(std::move(command));
  CUgraphExec graph = nullptr;
  if (options.isCaptured)
    graph = device->capture(
        stream, [&] { mustBe(communicator->enqueue(run, stream), "capture"); });
  for (int replay = 0; replay < (graph ? 2 : 1); ++replay) {
    for (size_t i = 0; i < places.size(); ++i) {
      std::vector<char> poison(places[i].outputSize, char(0x5a));
      device->upload(run.parts[i].output, poison.data(), poison.size());
      device->upload(const_cast<char *>(run.parts[i].input),
                     host.parts[i].input, places[i].inputSize);
    }
    if (graph)
      device->check(device->driver.graphLaunch(graph, stream), "cuGraphLaunch");
    else
      FUSION_RT_TRY(communicator->enqueue(run, stream));
    if (!device->wait(stream, kLimit)) {
      communicator->abort();
      return Status(Code::Timeout, "hangs");
    }
  }
  if (graph)
    device->driver.graphExecDestroy(graph);
  for (size_t i = 0; i < places.size(); ++i)
    device->download(host.parts[i].output, run.parts[i].output,
                     places[i].outputSize);
  return {};
}

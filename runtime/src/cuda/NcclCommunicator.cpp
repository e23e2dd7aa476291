//===- NcclCommunicator.cpp - The life of NCCL's communicators ------------===//
//
// See NcclCommunicator.h. The members of a group meet at the rendezvous before
// NCCL does: who is missing there can be named.
//
//===----------------------------------------------------------------------===//
#include "NcclCommunicator.h"

#include "Checked.h"
#include "Text.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

using namespace fusion::rt;
using namespace fusion::rt::cuda;

using Clock = std::chrono::steady_clock;
static double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// How long the ranks of a job that ends wait for each other.
static constexpr double kCloseSeconds = 2;
/// How long `abort` waits for NCCL.
static constexpr double kAbortSeconds = 0.4;

Status NcclCommunicator::timedOut(const std::string &what) const {
  char seconds[32];
  std::snprintf(seconds, sizeof(seconds), "%g s", setup.timeout);
  return Status(Code::Timeout, "NCCL did not end " + what + " within " +
                                   seconds + " (--op-timeout)");
}

/// "ranks 0, 1".
static std::string namesOf(const Group &group) {
  std::string text = "ranks ";
  for (size_t i = 0; i < group.ranks.size() && i < 16; ++i)
    text += (i ? ", " : "") + std::to_string(group.ranks[i]);
  return text + (group.ranks.size() > 16 ? ", ..." : "");
}

Status NcclCommunicator::settle(NcclComm comm, const Group &group,
                                const char *entry) {
  Clock::time_point start = Clock::now();
  for (;;) {
    int state = kNcclSuccess;
    Status asked = nccl->check(nccl->getError(comm, &state),
                               "ncclCommGetAsyncError", comm);
    Status status = asked.ok() ? nccl->check(state, entry, comm) : asked;
    if (!status.ok()) {
      isDead = true;
      return status;
    }
    if (state != kNcclInProgress)
      return {};
    double passed = secondsSince(start);
    if (setup.timeout > 0 && passed > setup.timeout) {
      isDead = true;
      return timedOut(std::string(entry) + " of " + namesOf(group));
    }
    if (passed > 0.001)
      std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

Status NcclCommunicator::waitForStream(CUstream stream) {
  Clock::time_point start = Clock::now();
  for (;;) {
    CUresult result = setup.driver->streamQuery(stream);
    if (result != kErrorNotReady)
      return setup.driver->check(result, "the first collectives");
    double passed = secondsSince(start);
    if (passed > 0.02) {
      FUSION_RT_TRY(poll());
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    if (setup.timeout > 0 && passed > setup.timeout)
      return timedOut("the first collectives");
  }
}

/// Read by NCCL when its first communicator is made.
void NcclCommunicator::setEnvironment() {
  // Else NCCL opens the buffers of a graph on the other ranks when it is
  // captured, and waits until they capture too: they may have that graph.
  setenv("NCCL_GRAPH_REGISTER", "0", 0);
  if (!setup.deterministic)
    return;
  // One way through the ranks, so one order of additions.
  setenv("NCCL_ALGO", "Ring", 1);
  setenv("NCCL_PROTO", "Simple", 1);
}

/// The members' word that they are here, and the id of their communicator.
Status NcclCommunicator::agree(const Group &group, NcclId &id) {
  std::string name = "nccl" + group.name;
  if (group.position != 0) {
    FUSION_RT_TRY(
        rendezvous->set(name + "." + std::to_string(group.position), {}));
    auto value = rendezvous->get(name);
    if (!value)
      return value.status();
    if (value->size() != sizeof(id))
      return Status(Code::Rejected, "the id of an NCCL communicator has " +
                                        std::to_string(value->size()) +
                                        " bytes");
    std::memcpy(&id, value->data(), sizeof(id));
    return {};
  }
  for (size_t other = 1; other < group.ranks.size(); ++other)
    FUSION_RT_TRY(rendezvous->get(name + "." + std::to_string(other)).status());
  FUSION_RT_TRY(nccl->check(nccl->getId(&id), "ncclGetUniqueId"));
  return rendezvous->set(name, {id.bytes, id.bytes + sizeof(id)});
}

Status NcclCommunicator::open(Member &member) {
  const Group &group = member.group;
  for (const Member &other : members)
    if (other.isOwner && other.group.ranks == group.ranks) {
      member.comm = other.comm;
      return {};
    }
  NcclId id{};
  member.isOwner = true;
  FUSION_RT_TRY(agree(group, id));
  NcclConfig config;
  for (const Command &command : setup.program->commands) {
    size_t index = groupIndex(setup.groups, command);
    if (command.kind != CommandKind::Collective || !command.collective.units ||
        index == setup.groups.size() ||
        setup.groups[index].ranks != group.ranks)
      continue;
    int most = int(command.collective.units);
    config.maxBlocks = config.maxBlocks == NcclConfig::kUnset
                           ? most
                           : std::min(config.maxBlocks, most);
  }
  Status begun =
      nccl->check(nccl->initRank(&member.comm, int(group.ranks.size()), id,
                                 int(group.position), &config),
                  "ncclCommInitRankConfig");
  if (!begun.ok()) {
    isDead = true;
    return begun;
  }
  return settle(member.comm, group, "ncclCommInitRankConfig");
}

CollectiveRun NcclCommunicator::layOut(size_t index, char *memory,
                                       uint64_t &end) const {
  const Command &command = setup.program->commands[index];
  CollectiveRun run;
  run.call = &command.collective;
  run.group = groupIndex(setup.groups, command);
  run.command = index;
  uint64_t members = setup.groups[run.group].ranks.size();
  end = 0;
  auto place = [&](uint64_t size) {
    char *start = memory + end;
    end += (size + 255) & ~uint64_t(255);
    return start;
  };
  for (const CollectivePart &part : command.collective.parts) {
    PartBuffer buffer;
    buffer.dtype = part.dtype;
    for (Affine dim : part.shape)
      buffer.shape.push_back(*evaluate(dim, setup.batch));
    uint64_t size = *byteCount(part.shape, part.dtype, setup.batch);
    buffer.input = place(size);
    if (run.call->op == CollectiveOp::AllGather)
      size *= members;
    else if (run.call->op == CollectiveOp::ReduceScatter)
      size /= members;
    buffer.output =
        part.inPlace ? const_cast<char *>(buffer.input) : place(size);
    run.parts.push_back(std::move(buffer));
  }
  return run;
}

static bool isCollective(const Command &command) {
  return command.kind == CommandKind::Collective &&
         command.collective.op != CollectiveOp::AxisIndex;
}

/// One staging area for a group: its collectives run one after the other.
Status NcclCommunicator::reserve() {
  const auto &commands = setup.program->commands;
  for (size_t i = 0; i < commands.size(); ++i) {
    if (!isCollective(commands[i]))
      continue;
    const CollectiveCall &call = commands[i].collective;
    uint64_t end = 0;
    // Any address: only sizes are looked at.
    CollectiveRun run = layOut(i, reinterpret_cast<char *>(4096), end);
    Member &member = members[run.group];
    bool isReduction = call.op == CollectiveOp::AllReduce ||
                       call.op == CollectiveOp::ReduceScatter;
    for (const CollectivePart &part : call.parts)
      if (isReduction && member.comm && getNcclType(part.dtype) < 0)
        return Status(Code::Rejected,
                      "NCCL can't combine booleans; compile the module again",
                      commands[i].name);
    NcclPlan plan = planNccl(run, member.group, reinterpret_cast<char *>(4096));
    member.stagingSize = std::max(member.stagingSize, plan.stagingBytes);
  }
  for (Member &member : members) {
    if (connected > 1 && member.comm)
      FUSION_RT_TRY(setup.driver->check(
          setup.driver->eventCreate(&member.last, kEventDisableTiming),
          "cuEventCreate"));
    if (member.stagingSize == 0)
      continue;
    CUdeviceptr memory = 0;
    FUSION_RT_TRY(
        setup.driver->check(setup.driver->memAlloc(&memory, member.stagingSize),
                            "cuMemAlloc (for collectives)"));
    member.staging = reinterpret_cast<char *>(memory);
  }
  return {};
}

Status NcclCommunicator::warmUpOn(char *memory, CUstream stream) {
  const auto &commands = setup.program->commands;
  for (size_t i = 0; i < commands.size(); ++i) {
    if (!isCollective(commands[i]))
      continue;
    uint64_t end = 0;
    FUSION_RT_TRY(enqueue(layOut(i, memory, end), stream));
  }
  return waitForStream(stream);
}

Status NcclCommunicator::warmUp() {
  const auto &commands = setup.program->commands;
  uint64_t size = 0;
  for (size_t i = 0; i < commands.size(); ++i) {
    uint64_t end = 0;
    if (isCollective(commands[i]))
      (void)layOut(i, reinterpret_cast<char *>(4096), end);
    size = std::max(size, end);
  }
  // The arena holds nothing yet.
  CUdeviceptr memory = 0;
  bool isArena = size <= setup.arenaSize;
  if (!isArena)
    FUSION_RT_TRY(
        setup.driver->check(setup.driver->memAlloc(&memory, size),
                            "cuMemAlloc (for a first run of collectives)"));
  CUstream stream = nullptr;
  Status status = setup.driver->check(
      setup.driver->streamCreate(&stream, kStreamNonBlocking),
      "cuStreamCreate");
  if (status.ok())
    status = warmUpOn(isArena ? setup.arena : reinterpret_cast<char *>(memory),
                      stream);
  // What may still run keeps its memory: the process ends.
  if (!status.ok()) {
    isDead = true;
    return status;
  }
  setup.driver->streamDestroy(stream);
  if (!isArena)
    setup.driver->memFree(memory);
  return {};
}

Status NcclCommunicator::connect(const DeviceSetup &given) {
  setup = given;
  for (const Group &group : setup.groups) {
    members.emplace_back();
    members.back().group = group;
  }
  std::vector<bool> isUsed(members.size());
  for (const Command &command : setup.program->commands)
    if (isCollective(command))
      isUsed[groupIndex(setup.groups, command)] = true;
  for (size_t i = 0; i < members.size(); ++i) {
    isUsed[i] = isUsed[i] && members[i].group.ranks.size() > 1;
    connected += isUsed[i];
  }
  size_t before = 0, after = 0, all = 0;
  FUSION_RT_TRY(setup.driver->check(setup.driver->memGetInfo(&before, &all),
                                    "cuMemGetInfo"));
  if (connected > 0) {
    setEnvironment();
    auto opened = NcclApi::open();
    if (!opened)
      return opened.status();
    nccl = *opened;
  }
  for (size_t i = 0; i < members.size(); ++i)
    if (isUsed[i])
      FUSION_RT_TRY(open(members[i]));
  FUSION_RT_TRY(reserve());
  FUSION_RT_TRY(warmUp());
  count = {"nccl"};
  lastMember = nullptr;
  FUSION_RT_TRY(setup.driver->check(setup.driver->memGetInfo(&after, &all),
                                    "cuMemGetInfo"));
  uint64_t staging = 0;
  for (const Member &member : members)
    staging += member.stagingSize;
  held = std::max<uint64_t>(staging, before > after ? before - after : 0);
  return {};
}

Status NcclCommunicator::poll() {
  if (isDead)
    return {};
  for (const Member &member : members) {
    if (!member.isOwner || !member.comm)
      continue;
    int state = kNcclSuccess;
    Status status = nccl->check(nccl->getError(member.comm, &state),
                                "ncclCommGetAsyncError", member.comm);
    if (status.ok())
      status = nccl->check(state, "a collective", member.comm);
    if (status.ok())
      continue;
    isDead = true;
    return Status(status.code() == Code::Resources ? Code::Resources
                                                   : Code::PeerFailed,
                  "NCCL: " + status.message());
  }
  return {};
}

void NcclCommunicator::abort() {
  isDead = true;
  auto done = std::make_shared<std::atomic<bool>>(false);
  std::vector<NcclComm> comms;
  for (Member &member : members)
    if (NcclComm comm = std::exchange(member.comm, nullptr);
        comm && member.isOwner)
      comms.push_back(comm);
  if (comms.empty())
    return;
  // It may wait for a thread of NCCL's that does not end.
  std::thread([done, comms, nccl = nccl] {
    for (NcclComm comm : comms)
      nccl->abort(comm);
    *done = true;
  }).detach();
  Clock::time_point start = Clock::now();
  while (!*done && secondsSince(start) < kAbortSeconds)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/// Gives the communicators back, together with the other ranks.
void NcclCommunicator::close() {
  Clock::time_point start = Clock::now();
  for (Member &member : members) {
    if (!member.isOwner || !member.comm)
      continue;
    int state = nccl->finalize(member.comm);
    while (state == kNcclInProgress && secondsSince(start) < kCloseSeconds) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      if (nccl->getError(member.comm, &state) != kNcclSuccess)
        state = kNcclCudaError;
    }
    if (state != kNcclSuccess) {
      abort(); // others are gone, or late
      return;
    }
    nccl->destroy(std::exchange(member.comm, nullptr));
  }
}

NcclCommunicator::~NcclCommunicator() {
  if (isDead) {
    abort();
    return;
  }
  if (members.empty())
    return;
  close();
  for (Member &member : members) {
    if (member.last)
      setup.driver->eventDestroy(member.last);
    if (member.staging)
      setup.driver->memFree(reinterpret_cast<CUdeviceptr>(member.staging));
  }
}

std::unique_ptr<DeviceCommunicator>
fusion::rt::makeNcclCommunicator(uint32_t rank, uint32_t size,
                                 std::shared_ptr<Rendezvous> rendezvous) {
  return std::make_unique<NcclCommunicator>(rank, size, std::move(rendezvous));
}

//===- DeviceRouter.cpp - Collectives by the transport they name ----------===//
//
// Sends each collective to NCCL or to the copy engines of `peer`. A transport
// is opened only if it has collectives, by all ranks or by none: where one rank
// can't use `peer`, all go through NCCL.
//
// Why the transports can't hold each other up. Every wait of a rank, by the
// order of a stream, by an event, or by the turns that NCCL's collectives take,
// is for something earlier in the program's list, which all ranks share. Take
// the first collective of the list that does not end on all ranks. What it
// waits for on each of its members ends: kernels, copies and calls wait for no
// rank, and collectives before it end. So all members come to it, and it ends,
// unless the device has no place for it. A wait of `peer` is done by a stream's
// front end and takes no multiprocessor (with FUSION_PEER_WAIT=spin a warp).
// NCCL's kernels keep their place while they wait for another rank's, but take
// turns, so one of them is there at a time, beside kernels that end by
// themselves: the other rank's finds its place too. Queues of the device that
// several streams share are the subject of PeerCommunicator.h.
//
//===----------------------------------------------------------------------===//
#include "PeerCommunicator.h"

#include <algorithm>

using namespace fusion::rt;
using namespace fusion::rt::cuda;

namespace {

class DeviceRouter final : public DeviceCommunicator {
public:
  DeviceRouter(uint32_t rank, uint32_t size,
               std::shared_ptr<Rendezvous> rendezvous)
      : ownRank(rank), ranks(size), rendezvous(std::move(rendezvous)) {}

  uint32_t rank() const override { return ownRank; }
  uint32_t size() const override { return ranks; }
  Status connect(const DeviceSetup &setup) override;
  Status enqueue(const CollectiveRun &run, CUstream stream) override;
  const char *directSource(const CollectiveRun &run, size_t part,
                           uint64_t offset, uint64_t size) const override {
    return isByPeer(run) ? peer->directSource(run, part, offset, size)
                         : nullptr;
  }
  uint64_t bytes() const override;
  Status poll() override;
  void abort() override;
  std::vector<Counts> counts() const override;
  std::vector<std::string> notes() const override { return said; }

private:
  bool isByPeer(const CollectiveRun &run) const {
    return run.command < goesByPeer.size() && goesByPeer[run.command];
  }
  void choose(const DeviceSetup &setup);
  Status connectPeer(const DeviceSetup &setup);
  Status agree(const Status &mine, Status &all);
  /// Both transports, those that are there.
  std::vector<DeviceCommunicator *> used() const {
    std::vector<DeviceCommunicator *> list;
    for (const auto *each : {&peer, &nccl})
      if (*each)
        list.push_back(each->get());
    return list;
  }

  uint32_t ownRank, ranks;
  std::shared_ptr<Rendezvous> rendezvous;
  /// The program as each transport sees it. Outlive the transports.
  Program ofPeer, ofNccl;
  std::vector<bool> goesByPeer; ///< by command
  std::unique_ptr<DeviceCommunicator> peer, nccl;
  std::vector<std::string> said;
};

} // namespace

static bool isCollective(const Command &command) {
  return command.kind == CommandKind::Collective &&
         command.collective.op != CollectiveOp::AxisIndex;
}

/// Whether a transport has to know of a command. Where moves are copied there
/// is nothing to release.
static bool isFor(const Command &command, bool goesByPeer, bool isPeer) {
  return isCollective(command) && goesByPeer == isPeer &&
         (isPeer || command.collective.op != CollectiveOp::Release);
}

/// Which go by copy engines: the same on all ranks.
void DeviceRouter::choose(const DeviceSetup &setup) {
  const std::vector<Command> &commands = setup.program->commands;
  goesByPeer.assign(commands.size(), false);
  uint64_t refused = 0;
  for (size_t i = 0; i < commands.size(); ++i) {
    const CollectiveCall &call = commands[i].collective;
    if (!isCollective(commands[i]) ||
        call.transport != CollectiveTransport::Peer)
      continue;
    size_t members =
        setup.groups[groupIndex(setup.groups, commands[i])].ranks.size();
    goesByPeer[i] = members > 1 && isPeerCollective(call, members);
    refused +=
        members > 1 && !goesByPeer[i] && call.op != CollectiveOp::Release;
  }
  if (refused > 0)
    said.push_back(std::to_string(refused) +
                   " collectives are no copies between GPUs ('peer'), they go "
                   "through NCCL");
}

/// `program` with the collectives of one transport, at their places, and
/// nothing else to do.
static Program partOf(const Program &program,
                      const std::vector<bool> &goesByPeer, bool isPeer) {
  Program part;
  part.mesh = program.mesh;
  part.segments = program.segments;
  part.inputs = program.inputs;
  part.outputs = program.outputs;
  part.maxBatch = program.maxBatch;
  part.commands.resize(program.commands.size());
  for (size_t i = 0; i < program.commands.size(); ++i)
    if (isFor(program.commands[i], goesByPeer[i], isPeer))
      part.commands[i] = program.commands[i];
    else
      part.commands[i].kind = CommandKind::Record;
  return part;
}

/// Gives all ranks the first one's error: `mine` is this rank's answer.
Status DeviceRouter::agree(const Status &mine, Status &all) {
  const std::string prefix = "transport.peer.";
  std::string own = std::to_string(int(mine.code())) + " " +
                    (mine.ok() ? "" : mine.message());
  FUSION_RT_TRY(rendezvous->set(prefix + std::to_string(ownRank),
                                {own.begin(), own.end()}));
  for (uint32_t other = 0; other < ranks; ++other) {
    auto value = rendezvous->get(prefix + std::to_string(other));
    if (!value)
      return value.status();
    std::string text(value->begin(), value->end());
    size_t space = std::min(text.find(' '), text.size() - 1);
    auto code = Code(std::atoi(text.c_str()));
    // What can't be helped by another transport goes first.
    if (code == Code::Ok || (!all.ok() && (all.code() != Code::Environment ||
                                           code == Code::Environment)))
      continue;
    all = Status(code, text.substr(space + 1), {}, int(other));
  }
  return {};
}

/// Opens the transport, or sends all through NCCL.
Status DeviceRouter::connectPeer(const DeviceSetup &setup) {
  ofPeer = partOf(*setup.program, goesByPeer, true);
  peer = makePeerCommunicator(ownRank, ranks, rendezvous);
  DeviceSetup own = setup;
  own.program = &ofPeer;
  Status opened = peer->connect(own), all;
  FUSION_RT_TRY(agree(opened, all));
  if (all.ok())
    return {};
  if (all.code() != Code::Environment)
    return opened.ok() ? all : opened;
  peer.reset();
  goesByPeer.assign(goesByPeer.size(), false);
  said.push_back("copies between GPUs ('peer') are not possible, all "
                 "collectives go through NCCL: " +
                 all.message());
  return {};
}

Status DeviceRouter::connect(const DeviceSetup &setup) {
  choose(setup);
  auto any = [&](bool isPeer) {
    const std::vector<Command> &commands = setup.program->commands;
    for (size_t i = 0; i < commands.size(); ++i)
      if (isFor(commands[i], goesByPeer[i], isPeer))
        return true;
    return false;
  };
  if (any(true))
    FUSION_RT_TRY(connectPeer(setup));
  if (!any(false))
    return {};
  nccl = makeNcclCommunicator(ownRank, ranks, rendezvous);
  DeviceSetup own = setup;
  if (peer) {
    ofNccl = partOf(*setup.program, goesByPeer, false);
    own.program = &ofNccl;
  }
  return nccl->connect(own);
}

Status DeviceRouter::enqueue(const CollectiveRun &run, CUstream stream) {
  // What was copied is read in this rank's own memory.
  if (run.call->op == CollectiveOp::Release && !isByPeer(run))
    return {};
  DeviceCommunicator *chosen = isByPeer(run) ? peer.get() : nccl.get();
  if (!chosen)
    return Status(Code::Internal, "a collective of no transport");
  return chosen->enqueue(run, stream);
}

uint64_t DeviceRouter::bytes() const {
  uint64_t sum = 0;
  for (DeviceCommunicator *each : used())
    sum += each->bytes();
  return sum;
}

Status DeviceRouter::poll() {
  for (DeviceCommunicator *each : used())
    FUSION_RT_TRY(each->poll());
  return {};
}

void DeviceRouter::abort() {
  for (DeviceCommunicator *each : used())
    each->abort();
}

std::vector<DeviceCommunicator::Counts> DeviceRouter::counts() const {
  std::vector<Counts> list;
  for (DeviceCommunicator *each : used())
    for (const Counts &count : each->counts())
      list.push_back(count);
  return list;
}

std::unique_ptr<DeviceCommunicator>
fusion::rt::makeDeviceCommunicator(uint32_t rank, uint32_t size,
                                   std::shared_ptr<Rendezvous> rendezvous) {
  return std::make_unique<DeviceRouter>(rank, size, std::move(rendezvous));
}

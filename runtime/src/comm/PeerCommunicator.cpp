//===- PeerCommunicator.cpp - Collectives by copy engines -----------------===//
//
// See the header for the protocol. A block of each rank's memory holds, at the
// same offsets on all: a mark, a word that is 1, each group's flags, each
// group's staging. Bytes land where the sender knows a place without asking: in
// the arena, in the outputs that the session allocates, and in staging for all
// else. A receiver whose output is not where its bytes land takes them there.
//
//===----------------------------------------------------------------------===//
#include "PeerCommunicator.h"
#include "Checked.h"
#include "CudaExecutor.h"
#include "Frames.h"
#include "PeerMemory.h"
#include "PeerPlan.h"
#include "PeerWait.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>

using namespace fusion::rt;
using namespace fusion::rt::cuda;
using namespace fusion::rt::peer;

static constexpr uint64_t kOneOffset = 32; ///< of the word that is 1
static constexpr uint64_t kFlagsOffset = 256;
static constexpr uint64_t kAlignment = 256; ///< of a group's flags, of staging
/// Bytes of a bucket between two of its tensors belong to none.
static constexpr uint64_t kBucketGap = 64;
/// How long `abort` lets waits go by.
static constexpr double kAbortSeconds = 0.5;

bool fusion::rt::isPeerCollective(const CollectiveCall &call, size_t members) {
  return (isMove(call.op) || call.op == CollectiveOp::Release) &&
         members <= kMostPeers;
}

PeerOptions PeerOptions::fromEnvironment() {
  PeerOptions options;
  const char *wait = std::getenv("FUSION_PEER_WAIT");
  const char *flag = std::getenv("FUSION_PEER_FLAG");
  options.spins = wait && !std::strcmp(wait, "spin");
  options.copiesFlags = options.spins || (flag && !std::strcmp(flag, "copy"));
  return options;
}

static uint64_t aligned(uint64_t size) {
  return (size + kAlignment - 1) / kAlignment * kAlignment;
}

static CUdeviceptr address(const char *pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

namespace {

/// Where a group's words and staging lie in every member's block.
struct GroupPlace {
  Group group;
  uint64_t flags = 0, staging = 0, stagingSize = 0;
  /// What a member brings to itself goes its own way.
  CUstream beside = nullptr;
  CUevent fork = nullptr, join = nullptr;

  uint32_t members() const { return uint32_t(group.ranks.size()); }
  /// The word of the member at `position`.
  uint64_t ready(uint32_t position) const { return flags + 4 * position; }
  uint64_t done(uint32_t position) const {
    return flags + 4 * (members() + position);
  }
};

class PeerCommunicator final : public DeviceCommunicator {
public:
  PeerCommunicator(uint32_t rank, uint32_t size,
                   std::shared_ptr<Rendezvous> rendezvous, PeerOptions options)
      : ownRank(rank), ranks(size), rendezvous(std::move(rendezvous)),
        options(options) {}
  ~PeerCommunicator() override;

  uint32_t rank() const override { return ownRank; }
  uint32_t size() const override { return ranks; }
  Status connect(const DeviceSetup &setup) override;
  Status enqueue(const CollectiveRun &run, CUstream stream) override;
  const char *directSource(const CollectiveRun &run, size_t part,
                           uint64_t offset, uint64_t size) const override;
  uint64_t bytes() const override { return memory ? memory->bytes() : 0; }
  Status poll() override { return {}; }
  void abort() override;
  std::vector<Counts> counts() const override { return {total}; }

private:
  friend class PeerCollective;
  uint64_t stagingOf(const Command &command, const GroupPlace &place) const;
  Status makeBeside(GroupPlace &place) const;
  Status makeOne();

  uint32_t ownRank, ranks;
  std::shared_ptr<Rendezvous> rendezvous;
  PeerOptions options;
  DeviceSetup setup;
  const Driver *driver = nullptr;
  std::vector<GroupPlace> places;
  uint64_t flagsEnd = 0; ///< of all groups
  bool isAborted = false;
  std::unique_ptr<PeerMemory> memory;
  std::unique_ptr<SpinKernel> spin;
  Counts total{"peer", 0, 0};
};

/// One collective being put on a stream.
class PeerCollective {
public:
  PeerCollective(PeerCommunicator &owner, const CollectiveRun &run,
                 CUstream stream)
      : owner(owner), driver(*owner.driver), run(run), call(*run.call),
        place(owner.places[run.group]), stream(stream),
        self(place.group.position), members(place.members()) {}

  Status enqueue();

private:
  /// Where bytes of the others land: at an offset of a region of each member.
  struct Landing {
    Region region;
    uint64_t offset;
  };
  /// Whether it is only its hand-shake: all ranks come to it.
  bool movesNothing() const {
    return call.isDirect || call.op == CollectiveOp::Release;
  }
  Status placeOutputs();
  /// Where a run's output lies if it is the session's own, or null.
  const char *sessionOutput(size_t operand) const;
  const Mapping &mappingOf(uint32_t position) const {
    return (*owner.memory)[place.group.ranks[position]];
  }
  /// Where the others put byte 0 of a part's output for member `to`.
  char *landingAt(size_t part, uint32_t to) const {
    const Landing &landing = landings[part];
    return mappingOf(to).at[landing.region] + landing.offset;
  }
  bool sends(uint32_t from, uint32_t to) const;
  /// Whether all parts lie in the arena: one allocation on each rank.
  bool isInArena() const;
  void add(std::vector<Copy> &copies, Copy copy) const;
  std::vector<Copy> join(std::vector<Copy> copies) const {
    return isInArena() ? joinCopies(copies) : copies;
  }
  std::vector<Copy> copiesTo(uint32_t to) const;
  std::vector<Copy> copiesToSelf() const;
  std::vector<Copy> copiesFromLanding() const;
  Status copy(const std::vector<Copy> &copies, CUstream on);
  /// What comes next on `to` follows what is on `from`.
  Status order(CUstream from, CUevent event, CUstream to);
  Status tell(uint32_t position, uint64_t word);
  Status waitFor(uint64_t firstWord, const std::vector<uint32_t> &positions);
  Status flush();
  Status clear();

  PeerCommunicator &owner;
  const Driver &driver;
  const CollectiveRun &run;
  const CollectiveCall &call;
  const GroupPlace &place;
  CUstream stream;
  uint32_t self, members;
  std::vector<Landing> landings; ///< by part
  std::vector<CUstreamBatchMemOpParams> pending;
};

} // namespace

//===----------------------------------------------------------------------===//
// Connecting
//===----------------------------------------------------------------------===//

/// Bytes of staging for a command at the largest batch: as `placeOutputs` takes
/// them at a run.
uint64_t PeerCommunicator::stagingOf(const Command &command,
                                     const GroupPlace &place) const {
  const CollectiveCall &call = command.collective;
  uint64_t size = 0;
  size_t operand = 0;
  for (const CollectivePart &part : call.parts) {
    PartBuffer buffer;
    buffer.dtype = part.dtype;
    for (Affine dim : part.shape)
      buffer.shape.push_back(evaluate(dim, setup.batch).value_or(0));
    operand += part.inPlace ? 1 : 2;
    uint32_t segment = command.operands[operand - 1].range.segment;
    SegmentKind kind = setup.program->segments[segment].kind;
    bool isOutside = kind == SegmentKind::Input || kind == SegmentKind::Output;
    if (isOutside && segment < setup.outputBuffers.size() &&
        setup.outputBuffers[segment])
      isOutside = false;
    if (isOutside || (part.inPlace && call.op == CollectiveOp::Permute))
      size += aligned(outputBytes(call, buffer, place.members()));
  }
  return size;
}

Status PeerCommunicator::makeBeside(GroupPlace &place) const {
  FUSION_RT_TRY(
      driver->check(driver->streamCreate(&place.beside, kStreamNonBlocking),
                    "cuStreamCreate"));
  for (CUevent *event : {&place.fork, &place.join})
    FUSION_RT_TRY(driver->check(driver->eventCreate(event, kEventDisableTiming),
                                "cuEventCreate"));
  return {};
}

/// The word that is 1; and whether there are stream memory operations.
Status PeerCommunicator::makeOne() {
  CUdeviceptr one = address((*memory)[ownRank].at[kBlock] + kOneOffset);
  if (!options.spins) {
    CUstreamBatchMemOpParams write{kMemOpWrite, one, 1, 0, 0, 0};
    CUresult result = driver->streamBatchMemOp(memory->stream(), 1, &write, 0);
    if (result != kErrorNotSupported)
      return driver->check(result, "cuStreamBatchMemOp");
    options.spins = options.copiesFlags = true;
  }
  auto loaded = SpinKernel::load(*driver);
  if (!loaded)
    return loaded.status();
  spin = std::move(*loaded);
  return driver->check(driver->fillWords(one, 1, 1, memory->stream()),
                       "cuMemsetD32Async");
}

PeerCommunicator::~PeerCommunicator() {
  if (isAborted)
    return;
  for (const GroupPlace &place : places) {
    for (CUevent event : {place.fork, place.join})
      if (event)
        driver->eventDestroy(event);
    if (place.beside)
      driver->streamDestroy(place.beside);
  }
}

Status PeerCommunicator::connect(const DeviceSetup &given) {
  setup = given;
  driver = setup.driver;
  uint64_t end = kFlagsOffset;
  std::set<uint32_t> others;
  for (const Group &group : setup.groups) {
    places.push_back({group, end});
    FUSION_RT_TRY(makeBeside(places.back()));
    if (group.ranks.size() > kMostPeers)
      continue;
    end += aligned(8 * group.ranks.size());
    others.insert(group.ranks.begin(), group.ranks.end());
  }
  others.erase(ownRank);
  flagsEnd = end;
  for (const Command &command : setup.program->commands) {
    if (command.kind != CommandKind::Collective ||
        !isMove(command.collective.op))
      continue;
    size_t index = groupIndex(setup.groups, command);
    if (index == places.size() || places[index].members() > kMostPeers)
      continue;
    places[index].stagingSize =
        std::max(places[index].stagingSize, stagingOf(command, places[index]));
  }
  for (GroupPlace &place : places) {
    place.staging = end;
    end += place.stagingSize;
  }

  memory = std::make_unique<PeerMemory>(*driver, ownRank, ranks, *rendezvous,
                                        setup.timeout);
  FUSION_RT_TRY(memory->open({setup.arena, setup.arenaSize},
                             {setup.outputs, setup.outputsSize}, end, flagsEnd,
                             {others.begin(), others.end()}));
  FUSION_RT_TRY(makeOne());
  return memory->wait(setup.timeout);
}

/// Sets all flags again and again: each wait of a step goes by, and its reset
/// is undone. What the device then computes is garbage that nobody reads.
void PeerCommunicator::abort() {
  if (!memory)
    return;
  ContextScope scope(*driver, setup.context);
  isAborted = true;
  char *flags = (*memory)[ownRank].at[kBlock] + kFlagsOffset;
  double end = monotonicSeconds() + kAbortSeconds;
  while (monotonicSeconds() < end) {
    if (driver->fillWords(address(flags), 1, (flagsEnd - kFlagsOffset) / 4,
                          memory->stream()) != kSuccess ||
        !memory->wait(end - monotonicSeconds()).ok())
      break;
  }
  memory->abandon();
}

//===----------------------------------------------------------------------===//
// One collective
//===----------------------------------------------------------------------===//

const char *PeerCollective::sessionOutput(size_t operand) const {
  const ByteRange &range =
      owner.setup.program->commands[run.command].operands[operand].range;
  char *buffer = owner.setup.outputBuffers[range.segment];
  return buffer ? buffer + range.offset : nullptr;
}

Status PeerCollective::placeOutputs() {
  const DeviceSetup &setup = owner.setup;
  bool hasOutputs = !setup.outputBuffers.empty();
  uint64_t end = 0;
  size_t operand = 0;
  for (size_t i = 0; i < run.parts.size(); ++i) {
    const PartBuffer &part = run.parts[i];
    if (hasOutputs)
      operand += call.parts[i].inPlace ? 1 : 2;
    bool isSwapped =
        part.output == part.input && call.op == CollectiveOp::Permute;
    if (!isSwapped && part.output >= setup.arena &&
        part.output < setup.arena + setup.arenaSize) {
      landings.push_back({kArena, uint64_t(part.output - setup.arena)});
      continue;
    }
    // Whatever buffer this rank has been given: the others know of this one.
    if (hasOutputs && !isSwapped)
      if (const char *output = sessionOutput(operand - 1)) {
        landings.push_back({kOutputs, uint64_t(output - setup.outputs)});
        continue;
      }
    landings.push_back({kBlock, place.staging + end});
    end += aligned(outputBytes(call, part, members));
  }
  if (end > place.stagingSize)
    return Status(Code::Internal, "a collective needs more staging than was "
                                  "planned");
  return {};
}

bool PeerCollective::sends(uint32_t from, uint32_t to) const {
  // Whoever may have read of another tells it.
  if (call.op == CollectiveOp::Release)
    return from != to;
  return from != to &&
         std::any_of(run.parts.begin(), run.parts.end(),
                     [&](const PartBuffer &part) {
                       return boxOf(call, part, from, to, members).bytes() != 0;
                     });
}

bool PeerCollective::isInArena() const {
  const DeviceSetup &setup = owner.setup;
  auto isInside = [&](const char *pointer) {
    return pointer >= setup.arena && pointer < setup.arena + setup.arenaSize;
  };
  return std::all_of(run.parts.begin(), run.parts.end(),
                     [&](const PartBuffer &part) {
                       return isInside(part.input) && isInside(part.output);
                     });
}

/// Ranges that follow each other on both sides are one copy.
void PeerCollective::add(std::vector<Copy> &copies, Copy copy) const {
  if (copy.box.bytes() == 0 || copy.source == copy.target)
    return;
  if (!copies.empty() && copy.box.isOneRow() && copies.back().box.isOneRow()) {
    Copy &last = copies.back();
    uint64_t distance = uint64_t(copy.source - last.source);
    uint64_t gap = distance - last.box.width;
    if (copy.source > last.source &&
        uint64_t(copy.target - last.target) == distance &&
        distance >= last.box.width &&
        (gap == 0 || (call.bucket >= 0 && gap < kBucketGap))) {
      last.box.width = distance + copy.box.width;
      return;
    }
  }
  copies.push_back(copy);
}

/// What this rank brings to another member.
std::vector<Copy> PeerCollective::copiesTo(uint32_t to) const {
  std::vector<Copy> copies;
  for (size_t i = 0; i < run.parts.size(); ++i) {
    Box box = boxOf(call, run.parts[i], self, to, members);
    add(copies,
        {run.parts[i].input + box.source, landingAt(i, to) + box.target, box});
  }
  return join(std::move(copies));
}

std::vector<Copy> PeerCollective::copiesToSelf() const {
  std::vector<Copy> copies;
  for (const PartBuffer &part : run.parts) {
    Box box = boxOf(call, part, self, self, members);
    add(copies, {part.input + box.source, part.output + box.target, box});
  }
  return join(std::move(copies));
}

/// What the others left elsewhere goes to its place.
std::vector<Copy> PeerCollective::copiesFromLanding() const {
  std::vector<Copy> copies;
  for (size_t i = 0; i < run.parts.size(); ++i)
    for (uint32_t from = 0; from < members; ++from) {
      Box box = boxOf(call, run.parts[i], from, self, members);
      if (from == self || box.bytes() == 0)
        continue;
      box.sourcePitch = box.targetPitch;
      box.sourceSlice = box.targetSlice;
      add(copies, {landingAt(i, self) + box.target,
                   run.parts[i].output + box.target, box});
    }
  return copies;
}

Status PeerCollective::copy(const std::vector<Copy> &copies, CUstream on) {
  for (const Copy &each : copies) {
    const Box &box = each.box;
    if (box.isOneRow()) {
      FUSION_RT_TRY(
          driver.check(driver.copyOnDevice(address(each.target),
                                           address(each.source), box.width, on),
                       "cuMemcpyDtoDAsync"));
      continue;
    }
    CUDA_MEMCPY3D boxes{};
    boxes.sourceType = boxes.targetType = int(kMemoryTypeDevice);
    boxes.source = address(each.source);
    boxes.target = address(each.target);
    boxes.sourcePitch = box.sourcePitch;
    boxes.targetPitch = box.targetPitch;
    boxes.sourceHeight =
        box.depth > 1 ? box.sourceSlice / box.sourcePitch : box.height;
    boxes.targetHeight =
        box.depth > 1 ? box.targetSlice / box.targetPitch : box.height;
    boxes.width = box.width;
    boxes.height = box.height;
    boxes.depth = box.depth;
    FUSION_RT_TRY(driver.check(driver.copyBox(&boxes, on), "cuMemcpy3DAsync"));
  }
  return {};
}

Status PeerCollective::order(CUstream from, CUevent event, CUstream to) {
  FUSION_RT_TRY(driver.check(driver.eventRecord(event, from), "cuEventRecord"));
  return driver.check(driver.streamWaitEvent(to, event, 0),
                      "cuStreamWaitEvent");
}

/// Sets the word at offset `word` of a member's block.
Status PeerCollective::tell(uint32_t position, uint64_t word) {
  CUdeviceptr target = address(mappingOf(position).at[kBlock] + word);
  if (owner.options.copiesFlags) {
    FUSION_RT_TRY(flush());
    return driver.check(
        driver.copyOnDevice(
            target,
            address((*owner.memory)[owner.ownRank].at[kBlock] + kOneOffset), 4,
            stream),
        "cuMemcpyDtoDAsync");
  }
  pending.push_back({kMemOpWrite, target, 1, 0, 0, 0});
  return {};
}

/// Waits for this rank's words of some members, and sets them back. The words
/// of a group's members follow each other from `firstWord` on.
Status PeerCollective::waitFor(uint64_t firstWord,
                               const std::vector<uint32_t> &positions) {
  if (positions.empty())
    return {};
  CUdeviceptr words =
      address((*owner.memory)[owner.ownRank].at[kBlock] + firstWord);
  if (owner.spin) {
    FUSION_RT_TRY(flush());
    uint64_t mask = 0;
    for (uint32_t position : positions)
      mask |= uint64_t(1) << position;
    return owner.spin->enqueue(words, mask, stream);
  }
  for (uint32_t position : positions)
    pending.push_back(
        {kMemOpWait, words + 4 * position, 1, kMemOpWaitEqual, 0, 0});
  for (uint32_t position : positions)
    pending.push_back({kMemOpWrite, words + 4 * position, 0, 0, 0, 0});
  return {};
}

/// Puts what is pending on the stream.
Status PeerCollective::flush() {
  for (size_t i = 0; i < pending.size(); i += kMostMemOps) {
    unsigned count =
        unsigned(std::min<size_t>(kMostMemOps, pending.size() - i));
    FUSION_RT_TRY(
        driver.check(driver.streamBatchMemOp(stream, count, &pending[i], 0),
                     "cuStreamBatchMemOp"));
  }
  pending.clear();
  return {};
}

/// A rank that no other sends to has zeros.
Status PeerCollective::clear() {
  for (const PartBuffer &part : run.parts)
    if (uint64_t size = outputBytes(call, part, members))
      FUSION_RT_TRY(
          driver.check(driver.fillBytes(address(part.output), 0, size, stream),
                       "cuMemsetD8Async"));
  return {};
}

Status PeerCollective::enqueue() {
  if (!movesNothing())
    FUSION_RT_TRY(placeOutputs());
  // Each member begins with another, so that all links are used at once.
  std::vector<uint32_t> targets, sources;
  for (uint32_t step = 1; step < members; ++step) {
    uint32_t to = (self + step) % members;
    uint32_t from = (self + members - step) % members;
    if (sends(self, to))
      targets.push_back(to);
    if (sends(from, self))
      sources.push_back(from);
  }
  // Nobody else has to do with these bytes: they need not wait in the line.
  std::vector<Copy> own;
  if (!movesNothing())
    own = copiesToSelf();
  bool isForked = !own.empty() && !(targets.empty() && sources.empty());
  if (isForked)
    FUSION_RT_TRY(order(stream, place.fork, place.beside));
  FUSION_RT_TRY(copy(own, isForked ? place.beside : stream));
  for (uint32_t from : sources)
    FUSION_RT_TRY(tell(from, place.ready(self)));
  for (uint32_t to : targets) {
    FUSION_RT_TRY(waitFor(place.ready(0), {to}));
    std::vector<Copy> copies;
    if (!movesNothing())
      copies = copiesTo(to);
    for (const Copy &each : copies)
      owner.total.bytesSent += each.box.bytes();
    FUSION_RT_TRY(flush());
    FUSION_RT_TRY(copy(copies, stream));
    FUSION_RT_TRY(tell(to, place.done(self)));
  }
  FUSION_RT_TRY(waitFor(place.done(0), sources));
  FUSION_RT_TRY(flush());
  if (movesNothing())
    return {};
  FUSION_RT_TRY(copy(copiesFromLanding(), stream));
  if (isForked)
    FUSION_RT_TRY(order(place.beside, place.join, stream));
  return getsZeros(call, self) ? clear() : Status();
}

const char *PeerCommunicator::directSource(const CollectiveRun &run,
                                           size_t part, uint64_t offset,
                                           uint64_t size) const {
  const CollectiveCall &call = *run.call;
  if (!memory || !call.isDirect || run.group >= places.size())
    return nullptr;
  const Group &group = places[run.group].group;
  uint32_t members = uint32_t(group.ranks.size());
  const char *input = run.parts[part].input;
  for (uint32_t from = 0; from < members; ++from) {
    Box box = boxOf(call, run.parts[part], from, group.position, members);
    if (!box.isOneRow() || offset < box.target ||
        offset + size > box.target + box.bytes())
      continue;
    // Arenas have one layout.
    if (from != group.position)
      input = (*memory)[group.ranks[from]].at[kArena] + (input - setup.arena);
    return input + box.source + (offset - box.target);
  }
  return nullptr;
}

Status PeerCommunicator::enqueue(const CollectiveRun &run, CUstream stream) {
  if (!memory || run.group >= places.size())
    return Status(Code::Internal, "a collective of no group");
  if (!isPeerCollective(*run.call, places[run.group].members()))
    return Status(Code::Rejected, std::string(collectiveName(run.call->op)) +
                                      " is not done by the transport 'peer'");
  ++total.collectives;
  return PeerCollective(*this, run, stream).enqueue();
}

std::unique_ptr<DeviceCommunicator>
fusion::rt::makePeerCommunicator(uint32_t rank, uint32_t size,
                                 std::shared_ptr<Rendezvous> rendezvous,
                                 PeerOptions options) {
  return std::make_unique<PeerCommunicator>(rank, size, std::move(rendezvous),
                                            options);
}

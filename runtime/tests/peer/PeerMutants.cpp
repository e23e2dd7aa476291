//===- PeerMutants.cpp - Peer collectives that are wrong on purpose -------===//
//
// Words are known by where they lie (see PeerCommunicator.cpp): a group's begin
// at a multiple of 256 bytes of a block, `ready` of each member first.
//
//===----------------------------------------------------------------------===//
#include "PeerMutants.h"

#include <optional>
#include <set>

using namespace fusion::rt;
using namespace fusion::rt::test;
using namespace fusion::rt::cuda;

static constexpr uint64_t kFlags = 256; ///< of a group; also where they begin

namespace {
struct Copy {
  CUdeviceptr target, source;
  size_t size;
  CUstream stream;
};

struct State {
  Driver driver; ///< what communicators see
  const Driver *real = nullptr;
  Mutation mutation = Mutation::None;
  uint32_t members = 0;
  CUdeviceptr arena = 0, arenaEnd = 0;
  std::set<CUdeviceptr> blocks;   ///< with words: this rank's, the others'
  CUdeviceptr own = 0;            ///< this rank's
  std::set<CUdeviceptr> others;   ///< all that was opened
  std::optional<Copy> held;       ///< told of before it is done
  std::set<CUstream> beside;      ///< streams of copies to oneself
  CUevent lastRecorded = nullptr; ///< and on which stream
  CUstream lastRecordedOn = nullptr;
};
} // namespace

static State state;

const std::vector<Mutant> &test::peerMutants() {
  static const std::vector<Mutant> mutants = {
      {"no wait for ready", Mutation::NoReadyWait},
      {"no reset of ready", Mutation::NoReadyReset},
      {"ready is not told", Mutation::NoReadyTell},
      {"no wait for done", Mutation::NoDoneWait},
      {"no reset of done", Mutation::NoDoneReset},
      {"done is not told", Mutation::NoDoneTell},
      {"done before the copy", Mutation::DoneBeforeCopy},
      {"reset before the wait", Mutation::ResetBeforeWait},
      {"one set of words for two groups", Mutation::WordsOfOtherGroup},
      {"wrong offset", Mutation::WrongOffset},
      {"a word is not sent", Mutation::ShortCopy},
      {"no copy to oneself", Mutation::NoCopyToSelf},
      {"no join", Mutation::NoJoin},
      {"no direct move", Mutation::NoDirectMove},
      {"no release", Mutation::NoRelease},
  };
  return mutants;
}

/// The block that a word lies in, or 0.
static CUdeviceptr blockOf(CUdeviceptr word) {
  auto next = state.blocks.upper_bound(word);
  return next == state.blocks.begin() ? 0 : *--next;
}

static bool isReadyWord(CUdeviceptr word) {
  return (word - blockOf(word)) % kFlags / 4 < state.members;
}

/// Whether a rank tells another, waits or sets back, of ready or of done.
enum class Act { Tell, Wait, Reset };
static Act actOf(const CUstreamBatchMemOpParams &op) {
  if (op.operation == kMemOpWait)
    return Act::Wait;
  return op.value == 0 ? Act::Reset : Act::Tell;
}

static bool isDropped(const CUstreamBatchMemOpParams &op) {
  bool isReady = isReadyWord(op.address);
  switch (actOf(op)) {
  case Act::Tell:
    return state.mutation ==
           (isReady ? Mutation::NoReadyTell : Mutation::NoDoneTell);
  case Act::Wait:
    return state.mutation ==
           (isReady ? Mutation::NoReadyWait : Mutation::NoDoneWait);
  case Act::Reset:
    return state.mutation ==
           (isReady ? Mutation::NoReadyReset : Mutation::NoDoneReset);
  }
  return false;
}

static CUresult mutantMemOp(CUstream stream, unsigned count,
                            CUstreamBatchMemOpParams *list, unsigned flags) {
  std::vector<CUstreamBatchMemOpParams> kept;
  for (unsigned i = 0; i < count; ++i) {
    CUstreamBatchMemOpParams op = list[i];
    if (state.own == 0) { // the first of all, at a known place
      state.own = op.address / kFlags * kFlags;
      state.blocks.insert(state.own);
      return state.real->streamBatchMemOp(stream, count, list, flags);
    }
    if (isDropped(op))
      continue;
    uint64_t group = (op.address - blockOf(op.address)) / kFlags;
    if (state.mutation == Mutation::WordsOfOtherGroup && group > 1)
      op.address -= (group - 1) * kFlags;
    bool isSwapped = state.mutation == Mutation::ResetBeforeWait &&
                     actOf(op) == Act::Reset && !kept.empty() &&
                     actOf(kept.back()) == Act::Wait;
    kept.insert(kept.end() - isSwapped, op);
  }
  CUresult result =
      kept.empty() ? kSuccess
                   : state.real->streamBatchMemOp(stream, unsigned(kept.size()),
                                                  kept.data(), flags);
  if (result == kSuccess && state.held && state.held->stream == stream) {
    Copy copy = *state.held;
    state.held.reset();
    result = state.real->copyOnDevice(copy.target, copy.source, copy.size,
                                      copy.stream);
  }
  return result;
}

static bool isOwn(CUdeviceptr address) {
  return (address >= state.arena && address < state.arenaEnd) ||
         blockOf(address) == state.own;
}

static CUresult mutantCopy(CUdeviceptr target, CUdeviceptr source, size_t size,
                           CUstream stream) {
  bool isSent = !isOwn(target);
  if (!isSent)
    state.beside.insert(stream);
  if (!isSent && state.mutation == Mutation::NoCopyToSelf)
    return kSuccess;
  if (isSent && state.mutation == Mutation::DoneBeforeCopy) {
    if (state.held) { // several tensors: only the last one is late
      Copy copy = *state.held;
      state.real->copyOnDevice(copy.target, copy.source, copy.size,
                               copy.stream);
    }
    state.held = {target, source, size, stream};
    return kSuccess;
  }
  if (isSent && state.mutation == Mutation::WrongOffset)
    target += 4;
  if (isSent && state.mutation == Mutation::ShortCopy)
    size -= 4;
  return size == 0 ? kSuccess
                   : state.real->copyOnDevice(target, source, size, stream);
}

static CUresult mutantOpen(CUdeviceptr *pointer, CUipcMemHandle handle,
                           unsigned flags) {
  CUresult result = state.real->ipcOpenMemHandle(pointer, handle, flags);
  // A block is opened before the arena.
  if (result == kSuccess) {
    if (state.others.size() % 2 == 0)
      state.blocks.insert(*pointer);
    state.others.insert(*pointer);
  }
  return result;
}

static CUresult mutantRecord(CUevent event, CUstream stream) {
  state.lastRecorded = event;
  state.lastRecordedOn = stream;
  return state.real->eventRecord(event, stream);
}

static CUresult mutantWait(CUstream stream, CUevent event, unsigned flags) {
  if (state.mutation == Mutation::NoJoin && event == state.lastRecorded &&
      state.beside.count(state.lastRecordedOn))
    return kSuccess;
  return state.real->streamWaitEvent(stream, event, flags);
}

const Driver &test::mutate(const Driver &driver, Mutation mutation,
                           uint32_t members, const char *arena,
                           uint64_t arenaSize) {
  state = State();
  state.driver = driver;
  state.real = &driver;
  state.mutation = mutation;
  state.members = members;
  state.arena = reinterpret_cast<CUdeviceptr>(arena);
  state.arenaEnd = state.arena + arenaSize;
  state.driver.streamBatchMemOp = mutantMemOp;
  state.driver.copyOnDevice = mutantCopy;
  state.driver.ipcOpenMemHandle = mutantOpen;
  state.driver.eventRecord = mutantRecord;
  state.driver.streamWaitEvent = mutantWait;
  return state.driver;
}

//===- PeerMemory.cpp - Memory of the other ranks' GPUs -------------------===//
//
// Handles travel through the rendezvous. Before anybody trusts a mapping, each
// rank marks its memory and all others read the mark through theirs: a handle
// that opens at another place than it was made for would else be found as a
// wrong result.
//
//===----------------------------------------------------------------------===//
#include "PeerMemory.h"
#include "Frames.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <thread>

using namespace fusion::rt;
using namespace fusion::rt::cuda;
using namespace fusion::rt::peer;

/// Small allocations share a block of the driver's, and a handle is for the
/// whole of it.
static constexpr uint64_t kGranularity = 2 << 20;

namespace {
/// What a rank tells of its memory.
struct Offer {
  char host[64] = {}; ///< the boot of the machine it is on
  CUipcMemHandle handles[kRegions] = {};
  uint64_t sizes[kRegions] = {};
};

/// What a rank writes to the start of its memory.
struct Mark {
  uint32_t magic, rank, region, unused;
};
} // namespace

static Mark markOf(uint32_t rank, unsigned region) {
  return {0x46757345, rank, region, ~rank};
}

static CUdeviceptr address(const char *pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

PeerMemory::~PeerMemory() {
  if (isAbandoned)
    return;
  for (uint32_t other = 0; other < mappings.size(); ++other) {
    if (other == rank)
      continue;
    for (char *memory : mappings[other].at)
      if (memory)
        driver.ipcCloseMemHandle(address(memory));
  }
  if (char *block = mappings[rank].at[kBlock])
    driver.memFree(address(block));
  if (side)
    driver.streamDestroy(side);
}

Status PeerMemory::wait(double seconds) const {
  double end = monotonicSeconds() + seconds;
  for (;;) {
    CUresult result = driver.streamQuery(side);
    if (result != kErrorNotReady)
      return driver.check(result, "cuStreamQuery");
    if (monotonicSeconds() > end)
      return Status(Code::Timeout, "the GPU does not answer");
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

Status PeerMemory::make(uint64_t size, uint64_t zeroed) {
  size = (size + kGranularity - 1) / kGranularity * kGranularity;
  FUSION_RT_TRY(driver.check(driver.streamCreate(&side, kStreamNonBlocking),
                             "cuStreamCreate"));
  CUdeviceptr memory = 0;
  FUSION_RT_TRY(driver.check(driver.memAlloc(&memory, size), "cuMemAlloc"));
  mappings[rank].at[kBlock] = reinterpret_cast<char *>(memory);
  sizes[kBlock] = size;
  FUSION_RT_TRY(driver.check(driver.fillBytes(memory, 0, zeroed, side),
                             "cuMemsetD8Async"));
  return wait(timeout);
}

Status PeerMemory::agree(const char *step, const Status &mine) {
  std::string prefix = std::string("peer.") + step + ".";
  std::string text = encodeStatus(mine);
  FUSION_RT_TRY(rendezvous.set(prefix + std::to_string(rank),
                               std::vector<char>(text.begin(), text.end())));
  Status first;
  for (uint32_t other = 0; other < mappings.size(); ++other) {
    auto value = rendezvous.get(prefix + std::to_string(other));
    if (!value)
      return value.status();
    Status theirs = decodeStatus(std::string(value->begin(), value->end()));
    if (first.ok() && !theirs.ok())
      first = Status(theirs.code(),
                     "rank " + std::to_string(other) +
                         " can't share its GPU's memory: " + theirs.message(),
                     "", int(other));
  }
  return first;
}

static std::string bootId() {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id") >> std::ws, id);
  return id;
}

Status PeerMemory::map(uint32_t other, const std::vector<char> &bytes) {
  Offer offer;
  if (bytes.size() != sizeof(offer))
    return Status(Code::Rejected,
                  "rank " + std::to_string(other) + " speaks another version");
  std::memcpy(&offer, bytes.data(), sizeof(offer));
  std::string name = "rank " + std::to_string(other);
  offer.host[sizeof(offer.host) - 1] = 0;
  if (bootId() != offer.host)
    return Status(Code::Environment, name + " is on another host");
  if (std::memcmp(offer.sizes, sizes, sizeof(sizes)) != 0)
    return Status(Code::Rejected, name + " plans other memory");
  for (unsigned region = 0; region < kRegions; ++region) {
    if (sizes[region] == 0)
      continue;
    CUdeviceptr memory = 0;
    FUSION_RT_TRY(
        driver.check(driver.ipcOpenMemHandle(&memory, offer.handles[region],
                                             kIpcEnablePeerAccess),
                     ("cuIpcOpenMemHandle of " + name).c_str()));
    mappings[other].at[region] = reinterpret_cast<char *>(memory);
  }
  return {};
}

Status PeerMemory::read(void *to, const char *from, uint64_t size) {
  FUSION_RT_TRY(driver.check(driver.copyToHost(to, address(from), size, side),
                             "cuMemcpyDtoHAsync"));
  return wait(timeout);
}

/// Marks this rank's memory.
Status PeerMemory::mark() {
  for (unsigned region = 0; region < kRegions; ++region) {
    if (sizes[region] < sizeof(Mark))
      continue;
    Mark own = markOf(rank, region);
    FUSION_RT_TRY(
        driver.check(driver.copyToDevice(address(mappings[rank].at[region]),
                                         &own, sizeof(own), side),
                     "cuMemcpyHtoDAsync"));
    FUSION_RT_TRY(wait(timeout));
  }
  return {};
}

Status PeerMemory::verify(const std::vector<uint32_t> &others) {
  for (uint32_t other : others)
    for (unsigned region = 0; region < kRegions; ++region) {
      if (sizes[region] < sizeof(Mark))
        continue;
      Mark wanted = markOf(other, region), found{};
      FUSION_RT_TRY(read(&found, mappings[other].at[region], sizeof(found)));
      if (std::memcmp(&wanted, &found, sizeof(found)) != 0)
        return Status(Code::Environment, "the memory opened for rank " +
                                             std::to_string(other) +
                                             " is not what it gave");
    }
  return {};
}

Status PeerMemory::open(Range arena, Range outputs, uint64_t blockBytes,
                        uint64_t zeroed, const std::vector<uint32_t> &others) {
  Mapping &own = mappings[rank];
  own.at[kArena] = arena.memory;
  own.at[kOutputs] = outputs.memory;
  sizes[kArena] = arena.size;
  sizes[kOutputs] = outputs.size;
  Offer offer;
  auto prepare = [&]() -> Status {
    FUSION_RT_TRY(make(blockBytes, zeroed));
    FUSION_RT_TRY(mark());
    std::strncpy(offer.host, bootId().c_str(), sizeof(offer.host) - 1);
    std::memcpy(offer.sizes, sizes, sizeof(sizes));
    for (unsigned region = 0; region < kRegions; ++region)
      if (sizes[region] != 0)
        FUSION_RT_TRY(
            driver.check(driver.ipcGetMemHandle(&offer.handles[region],
                                                address(own.at[region])),
                         "cuIpcGetMemHandle"));
    return {};
  };
  FUSION_RT_TRY(agree("made", prepare()));

  const char *bytes = reinterpret_cast<const char *>(&offer);
  FUSION_RT_TRY(
      rendezvous.set("peer.memory." + std::to_string(rank),
                     std::vector<char>(bytes, bytes + sizeof(offer))));
  auto connect = [&]() -> Status {
    for (uint32_t other : others) {
      auto value = rendezvous.get("peer.memory." + std::to_string(other));
      if (!value)
        return value.status();
      FUSION_RT_TRY(map(other, *value));
    }
    return verify(others);
  };
  FUSION_RT_TRY(agree("open", connect()));

  auto clean = [&]() -> Status {
    for (unsigned region = 0; region < kRegions; ++region)
      if (sizes[region] != 0)
        FUSION_RT_TRY(driver.check(
            driver.fillBytes(address(own.at[region]), 0,
                             std::min<uint64_t>(sizes[region], sizeof(Mark)),
                             side),
            "cuMemsetD8Async"));
    return wait(timeout);
  };
  return agree("ready", clean());
}

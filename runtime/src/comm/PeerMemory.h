//===- PeerMemory.h - Memory of the other ranks' GPUs -----------*- C++ -*-===//
//
// What a rank lets the others write: its arena, the outputs that its session
// allocates, and a block of its own with flags and staging. All are opened once
// by all ranks that share a group. Either all ranks succeed, or all get the
// same error.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_COMM_PEERMEMORY_H
#define FUSION_RUNTIME_COMM_PEERMEMORY_H

#include "Driver.h"
#include "Transport.h"

#include <memory>
#include <vector>

namespace fusion::rt::peer {

enum Region : unsigned { kBlock, kArena, kOutputs, kRegions };

/// Memory of one allocation, from its start on.
struct Range {
  char *memory = nullptr;
  uint64_t size = 0;
};

/// Addresses at which this process reaches a rank's memory; null: it has none.
struct Mapping {
  char *at[kRegions] = {};
};

/// The context is current in all functions.
class PeerMemory {
public:
  PeerMemory(const cuda::Driver &driver, uint32_t rank, uint32_t size,
             Rendezvous &rendezvous, double timeout)
      : driver(driver), rank(rank), rendezvous(rendezvous), timeout(timeout),
        mappings(size) {}
  ~PeerMemory();
  PeerMemory(const PeerMemory &) = delete;

  /// Makes a block of at least `blockSize` bytes, the first `zeroed` of them
  /// zero, and opens those of `others`. All ranks call it. `Environment` names
  /// the rank whose memory can't be shared.
  Status open(Range arena, Range outputs, uint64_t blockSize, uint64_t zeroed,
              const std::vector<uint32_t> &others);

  const Mapping &operator[](uint32_t other) const { return mappings[other]; }
  uint64_t bytes() const { return sizes[kBlock]; }
  /// For work beside the collectives.
  cuda::CUstream stream() const { return side; }
  /// Until `stream()` has done its work.
  Status wait(double seconds) const;
  /// The device does not answer: nothing is given back.
  void abandon() { isAbandoned = true; }

private:
  Status make(uint64_t size, uint64_t zeroed);
  Status map(uint32_t other, const std::vector<char> &offer);
  Status mark();
  Status verify(const std::vector<uint32_t> &others);
  /// Leaves `mine` for all and waits for theirs: the first rank's error.
  Status agree(const char *step, const Status &mine);
  Status read(void *to, const char *from, uint64_t size);

  const cuda::Driver &driver;
  uint32_t rank;
  Rendezvous &rendezvous;
  double timeout;
  std::vector<Mapping> mappings; ///< by rank; this one's are its own
  uint64_t sizes[kRegions] = {}; ///< the same on all ranks
  cuda::CUstream side = nullptr;
  bool isAbandoned = false;
};

} // namespace fusion::rt::peer

#endif // FUSION_RUNTIME_COMM_PEERMEMORY_H

//===- Limits.h - What a module may hold at most ----------------*- C++ -*-===//
//
// The limits of the format. They bound the work and the memory that reading an
// untrusted module can cost; each is tested at the limit and one above.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_RUNTIME_CORE_LIMITS_H
#define FUSION_RUNTIME_CORE_LIMITS_H

#include <cstdint>

namespace fusion::rt::limits {

constexpr uint64_t kHeaderBytes = uint64_t(64) << 20;
constexpr uint64_t kNameBytes = 4096;
constexpr uint64_t kTensors = 1000000; ///< ports + parameters + segments
constexpr uint64_t kSections = 64;
constexpr uint64_t kRank = 16;
constexpr uint64_t kElements = uint64_t(1) << 48;
constexpr uint64_t kCommands = 10000000;
constexpr uint64_t kOperands = 65536;    ///< of one command
constexpr uint64_t kCudaOperands = 4000; ///< of 32,764 bytes of arguments
constexpr int64_t kCudaBlocks = (int64_t(1) << 31) - 1; ///< of one grid
constexpr uint64_t kStreams = 256;
constexpr uint64_t kEvents = 1000000;
constexpr uint64_t kAlignment = 4096;
constexpr uint64_t kRanks = 1024;
constexpr uint32_t kUnits = 65536; ///< multiprocessors
constexpr uint64_t kMeshAxes = 16;
constexpr int64_t kBatch = int64_t(1) << 32;
/// Interval visits of one schedule verification: bounds adversarial input; an
/// ordinary program needs a few per operand.
constexpr uint64_t kIntervalVisits = 100000000;

} // namespace fusion::rt::limits

#endif // FUSION_RUNTIME_CORE_LIMITS_H

//===- Philox.h - The counter based generator -------------------*- C++ -*-===//
//
// Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as
// easy as 1, 2, 3", SC'11: a keyed bijection of 128-bit counters.
//
//===----------------------------------------------------------------------===//
#ifndef FUSION_REFERENCE_PHILOX_H
#define FUSION_REFERENCE_PHILOX_H

#include <array>
#include <cstdint>

namespace fusion::reference {

/// Four random words for a counter and a key, lowest word first.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter,
                                   std::array<uint32_t, 2> key);

} // namespace fusion::reference

#endif // FUSION_REFERENCE_PHILOX_H

//===- Turns.h - Ranges that lie elsewhere on each rank ---------*- C++ -*-===//
#ifndef FUSION_RUNTIME_CORE_TURNS_H
#define FUSION_RUNTIME_CORE_TURNS_H

#include "ModuleData.h"
#include "Status.h"

#include <vector>

namespace fusion::rt {

/// Checks the turns of a program that may be arbitrary data:
///
///  T1  a turn's axes are some of the mesh's, none twice;
///  T2  its shift is below the number of ranks along them, and no range lies
///      2^63 bytes or more behind its offset;
///  T3  a range names a turn of the program;
///  T4  an operand of a collective has none: a rank may look for another's
///      bytes where its own are.
Status verifyTurns(const Program &program);

/// Ranks of which one stands for each place that the turns tell apart, the
/// lowest; the program is verified.
std::vector<uint32_t> getPlaces(const Program &program);

/// Moves each range to where it lies on `rank`; afterwards there are no turns.
/// False if a range would leave the 64-bit offsets. The turns are verified.
bool placeRanges(Program &program, uint32_t rank);

} // namespace fusion::rt

#endif // FUSION_RUNTIME_CORE_TURNS_H
